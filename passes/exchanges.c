#include "passes/exchanges.h"

#include "ir/ops/ops.h"
#include "passes/uses.h"

typedef struct joining {
    sc_module *m;
    uint32_t *position; /* by op; one that was moved has that of the op right after */
    uint32_t *seen;     /* by op: the last search that met it */
    uint32_t search;
    sc_op_id first; /* the exchange to move to */
} joining;

static bool is_before(const joining *j, sc_op_id op)
{
    return op != j->first && j->position[op] <= j->position[j->first];
}

/* True if the op, and all it depends on, can be before `first`. */
static bool can_be_before(joining *j, sc_op_id op)
{
    const sc_op *o = sc_op_at(j->m, op);
    if (is_before(j, op) || j->seen[op] == j->search)
        return true;
    j->seen[op] = j->search;
    if (op == j->first || sc_op_has(o, SC_EFFECT))
        return false;
    for (uint32_t i = 0; i < o->operand_count; i++) {
        if (!can_be_before(j, sc_def(j->m, o->operands[i])))
            return false;
    }
    return true;
}

static void move_before(joining *j, sc_op_id op)
{
    if (is_before(j, op))
        return;
    for (uint32_t i = 0; i < sc_op_at(j->m, op)->operand_count; i++)
        move_before(j, sc_def(j->m, sc_op_at(j->m, op)->operands[i]));
    sc_op_move(j->m, op, j->first);
    j->position[op] = j->position[j->first];
}

static bool go_together(const sc_module *m, const sc_exchange *a, const sc_exchange *b)
{
    return a->group == b->group && a->is_back == b->is_back &&
           sc_op_word(sc_op_at(m, a->op), SC_ATTR_phase) ==
               sc_op_word(sc_op_at(m, b->op), SC_ATTR_phase);
}

static int64_t unused_number(const sc_module *m)
{
    int64_t last = -1;
    sc_for_each_op_of_all(m, id)
    {
        int64_t number = sc_op_int(sc_op_at(m, id), SC_ATTR_form, -1);
        last = number > last ? number : last;
    }
    return last + 1;
}

void sc_join_exchanges(sc_module *m, const sc_exchange_list *list)
{
    joining j = {.m = m, .position = sc_number_ops(m)};
    int64_t number = unused_number(m);
    bool *is_joined = sc_arena_array(&m->context->arena, list->count, sizeof *is_joined);
    j.seen = sc_arena_array(&m->context->arena, m->ops.count, sizeof *j.seen);
    for (uint32_t i = 0; i < list->count; i++) {
        const sc_exchange *first = &list->data[i];
        j.first = first->op;
        /* those of a group are near: its first exchange and the last one of its phase */
        for (uint32_t k = i + 1; !is_joined[i] && k < list->count; k++) {
            const sc_exchange *other = &list->data[k];
            j.search++;
            if (is_joined[k] || !go_together(m, first, other) || !can_be_before(&j, other->op))
                continue;
            move_before(&j, other->op);
            is_joined[k] = true;
            sc_op_set_attr(m, first->op, sc_attr_int(SC_ATTR_form, number));
            sc_op_set_attr(m, other->op, sc_attr_int(SC_ATTR_form, number));
        }
        number++;
    }
}
