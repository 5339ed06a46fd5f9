/* Folding for `--fold`: which instances of a stack repeat the one before them, so that they need not be printed. Two instances are alike
 * when they have the same ops with the same attributes, types and results, names compared up to the instance's index, and operands that
 * stand at the same place inside the instance, or both outside of it with the same type (what is carried from instance to instance, and
 * what all of them read). Numbers that only tell instances apart (`unit`, `form`) are not compared. */
#include <math.h>
#include <string.h>

#include "ir/text_internal.h"

size_t sc_fold_prefix(const char *path)
{
    size_t open = strcspn(path, "[");
    size_t close = open + strcspn(path + open, "]");
    return path[close] == ']' && open > 0 ? close + 1 : 0;
}

typedef struct instances {
    const sc_module *m;
    const char *a, *b; /* the prefixes, a_length and b_length bytes: layers[0], layers[1] */
    size_t a_length, b_length;
} instances;

/* Equal texts, where prefix a in one meets prefix b in the other. */
static bool same_text(const instances *in, sc_sym x, sc_sym y)
{
    const char *p = sc_text(in->m->context, x), *q = sc_text(in->m->context, y);
    while (*p != 0 || *q != 0) {
        if (strncmp(p, in->a, in->a_length) == 0 && strncmp(q, in->b, in->b_length) == 0) {
            p += in->a_length;
            q += in->b_length;
        } else if (*p++ != *q++) {
            return false;
        }
    }
    return true;
}

static bool same_numbers(const double *x, const double *y, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (x[i] != y[i] && !(isnan(x[i]) && isnan(y[i])))
            return false;
    }
    return true;
}

static bool same_splits(const sc_attr *x, const sc_attr *y)
{
    for (uint32_t i = 0; i < x->count; i++) {
        if (x->splits[i].dim != y->splits[i].dim || !sc_atom_list_equal(&x->splits[i].atoms, &y->splits[i].atoms))
            return false;
    }
    return true;
}

static bool same_attr(const instances *in, const sc_attr *x, const sc_attr *y)
{
    if (x->key != y->key)
        return false;
    if (x->key == SC_ATTR_unit || x->key == SC_ATTR_form)
        return true;
    switch (sc_attr_kinds[x->key]) {
    case SC_ATTR_KIND_INT:
        return x->integer == y->integer;
    case SC_ATTR_KIND_FLOAT:
        return same_numbers(&x->number, &y->number, 1);
    case SC_ATTR_KIND_WORD:
    case SC_ATTR_KIND_TEXT:
        return same_text(in, x->text, y->text);
    default:
        break;
    }
    if (x->count != y->count)
        return false;
    switch (sc_attr_kinds[x->key]) {
    case SC_ATTR_KIND_DIMS:
        return x->count == 0 || memcmp(x->dims, y->dims, x->count * sizeof *x->dims) == 0;
    case SC_ATTR_KIND_INTS:
        return x->count == 0 || memcmp(x->ints, y->ints, x->count * sizeof *x->ints) == 0;
    case SC_ATTR_KIND_FLOATS:
        return same_numbers(x->numbers, y->numbers, x->count);
    case SC_ATTR_KIND_WORDS:
        return x->count == 0 || memcmp(x->words, y->words, x->count * sizeof *x->words) == 0;
    case SC_ATTR_KIND_ATOMS:
        return x->count == 0 || memcmp(x->atoms, y->atoms, x->count) == 0;
    default:
        return same_splits(x, y);
    }
}

/* ---- ops ---- */

typedef struct op_range {
    const sc_op_id *ops;
    const uint32_t *place;
    uint32_t a, b, length; /* where the two instances begin */
} op_range;

static bool same_operand(const sc_module *m, const op_range *range, sc_value x, sc_value y)
{
    const sc_value_info *p = &m->values.data[x], *q = &m->values.data[y];
    uint32_t p_place = range->place[p->def] - range->a, q_place = range->place[q->def] - range->b;
    bool p_inside = p_place < range->length, q_inside = q_place < range->length; /* unsigned: before the instance is far after it */
    if (p_inside || q_inside)
        return p_inside && q_inside && p_place == q_place && p->index == q->index;
    return p->type == q->type;
}

static bool same_op(const instances *in, const op_range *range, const sc_op *x, const sc_op *y)
{
    const sc_module *m = in->m;
    if (x->kind != y->kind || x->operand_count != y->operand_count || x->result_count != y->result_count ||
        x->attr_count != y->attr_count || !same_text(in, x->scope, y->scope))
        return false;
    for (uint32_t i = 0; i < x->operand_count; i++) {
        if (!same_operand(m, range, x->operands[i], y->operands[i]))
            return false;
    }
    for (uint32_t i = 0; i < x->attr_count; i++) {
        if (!same_attr(in, &x->attrs[i], &y->attrs[i]))
            return false;
    }
    for (uint32_t r = 0; r < x->result_count; r++) {
        const sc_value_info *p = &m->values.data[x->first_result + r], *q = &m->values.data[y->first_result + r];
        if (p->type != q->type || !same_text(in, p->path, q->path))
            return false;
    }
    return true;
}

/* The path of an item, op, state or slot, that tells which instance it belongs to. */
typedef sc_sym name_of(const sc_module *m, const sc_op_id *ops, uint32_t i);

static uint32_t instance_length(const sc_module *m, const sc_op_id *ops, uint32_t count, uint32_t first, name_of *name)
{
    const char *prefix = sc_text(m->context, name(m, ops, first));
    size_t length = sc_fold_prefix(prefix);
    uint32_t end = first;
    while (end < count) {
        const char *other = sc_text(m->context, name(m, ops, end));
        if (sc_fold_prefix(other) != length || strncmp(other, prefix, length) != 0)
            break;
        end++;
    }
    return end - first;
}

static instances between(const sc_module *m, sc_sym x, sc_sym y)
{
    const char *a = sc_text(m->context, x), *b = sc_text(m->context, y);
    return (instances){m, a, b, sc_fold_prefix(a), sc_fold_prefix(b)};
}

/* Both prefixes are of the same stack: the same up to the bracket. */
static bool same_stack(const instances *in)
{
    size_t open = strcspn(in->a, "[");
    return in->a_length > 0 && in->b_length > 0 && strcspn(in->b, "[") == open && memcmp(in->a, in->b, open) == 0;
}

typedef bool same_item(const instances *in, const op_range *range, uint32_t a, uint32_t b);

static bool instances_alike(const instances *in, const op_range *range, same_item *same)
{
    for (uint32_t k = 0; k < range->length; k++) {
        if (!same(in, range, range->a + k, range->b + k))
            return false;
    }
    return true;
}

static sc_fold find_fold(const sc_module *m, const sc_op_id *ops, uint32_t count, const uint32_t *place, uint32_t first, name_of *name,
                         same_item *same)
{
    sc_fold fold = {.length = 1, .count = 1, .first = name(m, ops, first), .last = name(m, ops, first)};
    if (sc_fold_prefix(sc_text(m->context, fold.first)) == 0)
        return fold;
    fold.length = instance_length(m, ops, count, first, name);
    for (uint32_t b = first + fold.length; b < count; b += fold.length) {
        instances in = between(m, fold.last, name(m, ops, b));
        op_range range = {ops, place, b - fold.length, b, fold.length};
        if (!same_stack(&in) || instance_length(m, ops, count, b, name) != fold.length || !instances_alike(&in, &range, same))
            break;
        fold.count++;
        fold.last = name(m, ops, b);
    }
    return fold;
}

static sc_sym op_name(const sc_module *m, const sc_op_id *ops, uint32_t i)
{
    return m->ops.data[ops[i]].scope;
}

static bool same_ops(const instances *in, const op_range *range, uint32_t a, uint32_t b)
{
    return same_op(in, range, &in->m->ops.data[range->ops[a]], &in->m->ops.data[range->ops[b]]);
}

sc_fold sc_fold_ops(const sc_module *m, const sc_op_id *ops, uint32_t count, const uint32_t *place, uint32_t first)
{
    return find_fold(m, ops, count, place, first, op_name, same_ops);
}

/* ---- states and slots ---- */

static sc_sym state_name(const sc_module *m, const sc_op_id *ops, uint32_t i)
{
    (void)ops;
    return m->state.data[i].path;
}

static bool same_states(const instances *in, const op_range *range, uint32_t a, uint32_t b)
{
    (void)range;
    const sc_state *x = &in->m->state.data[a], *y = &in->m->state.data[b];
    return x->kind == y->kind && x->type == y->type && x->init == y->init && same_numbers(x->init_args, y->init_args, 2) &&
           same_text(in, x->path, y->path);
}

sc_fold sc_fold_states(const sc_module *m, uint32_t first)
{
    return find_fold(m, NULL, m->state.count, NULL, first, state_name, same_states);
}

static sc_sym slot_name(const sc_module *m, const sc_op_id *ops, uint32_t i)
{
    (void)ops;
    return m->slots.data[i].name;
}

static bool same_slots(const instances *in, const op_range *range, uint32_t a, uint32_t b)
{
    (void)range;
    const sc_slot *x = &in->m->slots.data[a], *y = &in->m->slots.data[b];
    return x->type == y->type && same_text(in, x->name, y->name);
}

sc_fold sc_fold_slots(const sc_module *m, uint32_t first)
{
    return find_fold(m, NULL, m->slots.count, NULL, first, slot_name, same_slots);
}
