/* Folding for `--fold`: consecutive repeats that differ only in the index of a stack are printed
 * once. The text is a sequence of items (ops of a function, states); a repeat is a run of
 * items followed by the same run, instance by instance:
 *
 *   "layers[0].x" = ..  "layers[0].y" = ..  "layers[1].x" = ..  "layers[1].y" = ..
 *   x 2: layers[0..1]
 *
 * Runs need not begin where an instance does: in a backward pass the gathers of the next layer are
 * among the ops of the current one. Two runs are equal if their items have the same ops with the
 * same attributes, types, chunk and results; every name of the stack has its index shifted by the
 * same number, and nothing else differs; operands are defined at the same distance, or both before
 * the run, by the same op with the same type. Numbers that only distinguish instances (`unit`,
 * `form`) are not compared.
 *
 * Items are hashed without the numbers in their names, and runs are first compared by sums of
 * hashes, so a list without repeats costs its length times the few starts that are tried. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text/text_internal.h"

enum { STARTS = 64 }; /* candidate starts of the next run tried per item */

#define POWER 0x9e3779b97f4a7c15u

/* ---- names ---- */
/* The renaming from the first run to the second: `prefix[i]` becomes `prefix[i + by]`. */
typedef struct shift {
    const char *prefix; /* layers; outer[3].inner */
    size_t length;
    int64_t by, from;
} shift;

/* True for characters of a path or word that may precede a bracket or a dot. */
static bool is_of_path(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == ']';
}

/* True if text[0..at) ends with the name of the stack. */
static bool names_stack(const shift *s, const char *text, const char *at)
{
    size_t before = (size_t)(at - text);
    if (before < s->length || memcmp(at - s->length, s->prefix, s->length) != 0)
        return false;
    const char *begin = at - s->length;
    return begin == text || !is_of_path(begin[-1]);
}

/* True if the texts are equal except for indices of the stack, all shifted. */
static bool same_text(const sc_module *m, const shift *s, sc_sym x, sc_sym y)
{
    const char *a = sc_text(m->context, x), *b = sc_text(m->context, y), *p = a, *q = b;
    for (;;) {
        size_t length = strcspn(p, "[");
        if (strncmp(p, q, length) != 0)
            return false;
        p += length;
        q += length;
        if (*p == 0 || *q != '[')
            return *p == *q;
        bool moved =
            names_stack(s, a, p) && isdigit((unsigned char)p[1]) && isdigit((unsigned char)q[1]);
        p++;
        q++;
        if (!moved)
            continue;
        char *p_end, *q_end;
        if (strtoll(q, &q_end, 10) - strtoll(p, &p_end, 10) != s->by)
            return false;
        p = p_end;
        q = q_end;
    }
}

/* Finds the first index in which two texts differ; false if they are equal or differ otherwise. */
static bool find_difference(const sc_module *m, sc_sym x, sc_sym y, shift *out)
{
    const char *a = sc_text(m->context, x), *b = sc_text(m->context, y);
    size_t at = 0;
    if (x == y)
        return false;
    while (a[at] != 0 && a[at] == b[at])
        at++;
    while (at > 0 && isdigit((unsigned char)a[at - 1]))
        at--;
    if (at < 2 || a[at - 1] != '[' || !isdigit((unsigned char)a[at]) ||
        !isdigit((unsigned char)b[at]))
        return false;
    const char *begin = a + at - 1;
    while (begin > a && begin[-1] != ' ')
        begin--;
    int64_t from = strtoll(a + at, NULL, 10);
    *out = (shift){.prefix = begin,
                   .length = (size_t)(a + at - 1 - begin),
                   .by = strtoll(b + at, NULL, 10) - from,
                   .from = from};
    return true;
}

static uint64_t hash_text(const sc_module *m, sc_sym sym, uint64_t hash)
{
    for (const char *p = sc_text(m->context, sym); *p != 0;) {
        size_t length = strcspn(p, "[");
        hash = sc_hash_bytes(p, length, hash);
        p += length;
        for (p += *p == '['; isdigit((unsigned char)*p); p++)
            continue;
    }
    return hash;
}

/* ---- what is compared ---- */
typedef struct pair {
    const sc_folder *folder;
    shift shift;
    uint32_t begin, a, b; /* starts of the first run and of these two */
} pair;

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
        if (x->splits[i].dim != y->splits[i].dim ||
            !sc_sub_axis_list_equal(&x->splits[i].sub_axes, &y->splits[i].sub_axes))
            return false;
    }
    return true;
}

static bool same_attr(const pair *p, const sc_attr *x, const sc_attr *y)
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
        return same_text(p->folder->m, &p->shift, x->text, y->text);
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
    case SC_ATTR_KIND_SUB_AXES:
        return x->count == 0 || memcmp(x->sub_axes, y->sub_axes, x->count) == 0;
    default:
        return same_splits(x, y);
    }
}

static uint64_t hash_attr(const sc_module *m, const sc_attr *attr, uint64_t hash)
{
    hash = sc_hash_mix(hash, attr->key);
    if (attr->key == SC_ATTR_unit || attr->key == SC_ATTR_form)
        return hash;
    switch (sc_attr_kinds[attr->key]) {
    case SC_ATTR_KIND_INT:
        return sc_hash_mix(hash, (uint64_t)attr->integer);
    case SC_ATTR_KIND_WORD:
    case SC_ATTR_KIND_TEXT:
        return hash_text(m, attr->text, hash);
    default:
        return sc_hash_mix(hash, attr->count);
    }
}

/* ---- ops ---- */
static uint64_t hash_op(const sc_folder *f, uint32_t i)
{
    const sc_op *op = &f->m->ops.data[f->ops[i]];
    uint64_t hash = sc_hash_mix(op->kind, (uint64_t)op->operand_count << 32 | op->result_count);
    hash = sc_hash_mix(hash_text(f->m, op->scope, hash), op->chunk);
    for (uint32_t k = 0; k < op->attr_count; k++)
        hash = hash_attr(f->m, &op->attrs[k], hash);
    for (uint32_t r = 0; r < op->result_count; r++) {
        const sc_value_info *value = &f->m->values.data[op->first_result + r];
        hash = sc_hash_mix(hash_text(f->m, value->path, hash), value->type);
    }
    return hash;
}

/* Returns the name of a value, of the state it reads, or of the value that it is a namesake of; 0:
 * none. */
static sc_sym name_of(const sc_module *m, sc_value value)
{
    for (;;) {
        const sc_value_info *info = &m->values.data[value];
        const sc_op *op = &m->ops.data[info->def];
        if (info->path != 0 || (sc_op_traits(op) & SC_STATE_READ) != 0)
            return info->path != 0 ? info->path : sc_op_word(op, SC_ATTR_name);
        if ((sc_op_traits(op) & SC_NAMESAKE) == 0 || info->index >= op->operand_count)
            return 0;
        value = op->operands[info->index];
    }
}

/* Enumerates the texts of an op and the names of its operands; false at the end. */
static bool text_of_op(const sc_folder *f, uint32_t i, uint32_t n, sc_sym *out)
{
    const sc_op *op = &f->m->ops.data[f->ops[i]];
    *out = 0;
    if (n == 0) {
        *out = op->scope;
    } else if (n - 1 < op->result_count) {
        *out = f->m->values.data[op->first_result + n - 1].path;
    } else if (n - 1 - op->result_count < op->attr_count) {
        const sc_attr *attr = &op->attrs[n - 1 - op->result_count];
        bool is_text = sc_attr_kinds[attr->key] == SC_ATTR_KIND_WORD ||
                       sc_attr_kinds[attr->key] == SC_ATTR_KIND_TEXT;
        *out = is_text ? attr->text : 0;
    } else if (n - 1 - op->result_count - op->attr_count < op->operand_count) {
        *out = name_of(f->m, op->operands[n - 1 - op->result_count - op->attr_count]);
    } else {
        return false;
    }
    return true;
}

/* True if the operands are defined at the same position of the run or of the previous one; or
 * before all runs, under the same name or by the same kind of op. */
static bool same_operand(const pair *p, uint32_t k, sc_value x, sc_value y)
{
    const sc_folder *f = p->folder;
    const sc_value_info *v = &f->m->values.data[x], *w = &f->m->values.data[y];
    uint32_t v_place = f->place[v->def], w_place = f->place[w->def];
    if (v->type != w->type)
        return false;
    if (v->index == w->index && p->a + k - v_place == p->b + k - w_place)
        return true;
    if (v_place >= p->begin)
        return false;
    if (w_place >= p->begin) /* an initial value of the first run, carried along by the others */
        return w_place < p->b;
    sc_sym v_name = name_of(f->m, x), w_name = name_of(f->m, y);
    if (v_name != 0 || w_name != 0)
        return same_text(f->m, &p->shift, v_name, w_name);
    return v->index == w->index && f->hash[v_place] == f->hash[w_place];
}

static bool same_op(const pair *p, uint32_t k)
{
    const sc_folder *f = p->folder;
    const sc_op *x = &f->m->ops.data[f->ops[p->a + k]], *y = &f->m->ops.data[f->ops[p->b + k]];
    if (x->kind != y->kind || x->operand_count != y->operand_count ||
        x->result_count != y->result_count || x->attr_count != y->attr_count ||
        x->chunk != y->chunk || !same_text(f->m, &p->shift, x->scope, y->scope))
        return false;
    for (uint32_t i = 0; i < x->operand_count; i++) {
        if (!same_operand(p, k, x->operands[i], y->operands[i]))
            return false;
    }
    for (uint32_t i = 0; i < x->attr_count; i++) {
        if (!same_attr(p, &x->attrs[i], &y->attrs[i]))
            return false;
    }
    for (uint32_t r = 0; r < x->result_count; r++) {
        const sc_value_info *v = &f->m->values.data[x->first_result + r],
                            *w = &f->m->values.data[y->first_result + r];
        if (v->type != w->type || !same_text(f->m, &p->shift, v->path, w->path))
            return false;
    }
    return true;
}

/* ---- states ---- */
static uint64_t hash_state(const sc_folder *f, uint32_t i)
{
    const sc_state *state = &f->m->state.data[i];
    return hash_text(f->m, state->path,
                     sc_hash_mix(state->kind, (uint64_t)state->type << 32 | state->init));
}

static bool text_of_state(const sc_folder *f, uint32_t i, uint32_t n, sc_sym *out)
{
    *out = f->m->state.data[i].path;
    return n == 0;
}

static bool same_state(const pair *p, uint32_t k)
{
    const sc_module *m = p->folder->m;
    const sc_state *x = &m->state.data[p->a + k], *y = &m->state.data[p->b + k];
    return x->kind == y->kind && x->type == y->type && x->init == y->init && x->host == y->host &&
           x->host_rule == y->host_rule && same_numbers(x->init_args, y->init_args, 2) &&
           same_text(m, &p->shift, x->path, y->path);
}

typedef struct item_kind {
    uint64_t (*hash)(const sc_folder *f, uint32_t i);
    bool (*text)(const sc_folder *f, uint32_t i, uint32_t n, sc_sym *out);
    bool (*same)(const pair *p, uint32_t k);
} item_kind;

static const item_kind kinds[] = {
    [SC_FOLD_OPS] = {hash_op, text_of_op, same_op},
    [SC_FOLD_STATES] = {hash_state, text_of_state, same_state},
};

/* ---- runs ---- */
/* Hash of all texts of an item, with their numbers. */
static uint64_t hash_names(const sc_folder *f, uint32_t i)
{
    uint64_t hash = 0;
    sc_sym text;
    for (uint32_t n = 0; kinds[f->kind].text(f, i, n, &text); n++)
        hash = sc_hash_mix(hash, text);
    return hash;
}

void sc_folder_prepare(sc_folder *f)
{
    sc_arena *arena = &f->m->context->arena;
    sc_map newest = {.arena = arena};
    f->hash = sc_arena_array(arena, f->count, sizeof *f->hash);
    f->sums = sc_arena_array(arena, f->count + 1u, sizeof *f->sums);
    f->named_sums = sc_arena_array(arena, f->count + 1u, sizeof *f->named_sums);
    f->powers = sc_arena_array(arena, f->count + 1u, sizeof *f->powers);
    f->next = sc_arena_array(arena, f->count, sizeof *f->next);
    f->powers[0] = 1;
    for (uint32_t i = 0; i < f->count; i++) {
        f->hash[i] = kinds[f->kind].hash(f, i);
        f->sums[i + 1] = f->sums[i] * POWER + f->hash[i];
        f->named_sums[i + 1] = f->named_sums[i] * POWER + hash_names(f, i);
        f->powers[i + 1] = f->powers[i] * POWER;
    }
    for (uint32_t i = f->count; i-- > 0;) {
        bool is_new;
        uint32_t *other = sc_map_insert(&newest, f->hash[i], i, &is_new);
        f->next[i] = is_new ? SC_NONE : *other;
        *other = i;
    }
}

static uint64_t sum_of(const sc_folder *f, const uint64_t *sums, uint32_t begin, uint32_t length)
{
    return sums[begin + length] - sums[begin] * f->powers[length];
}

/* True if the hashes are equal except for numbers in names. */
static bool may_be_same(const pair *p, uint32_t length)
{
    const sc_folder *f = p->folder;
    return sum_of(f, f->sums, p->a, length) == sum_of(f, f->sums, p->b, length) &&
           sum_of(f, f->named_sums, p->a, length) != sum_of(f, f->named_sums, p->b, length);
}

static bool find_shift(const pair *p, uint32_t length, shift *out)
{
    const sc_folder *f = p->folder;
    for (uint32_t k = 0; k < length; k++) {
        sc_sym x, y;
        for (uint32_t n = 0;
             kinds[f->kind].text(f, p->a + k, n, &x) && kinds[f->kind].text(f, p->b + k, n, &y);
             n++) {
            if (find_difference(f->m, x, y, out))
                return true;
        }
    }
    return false;
}

static bool same_run(const pair *p, uint32_t length)
{
    const sc_folder *f = p->folder;
    if (!may_be_same(p, length))
        return false;
    for (uint32_t k = 0; k < length; k++) {
        if (!kinds[f->kind].same(p, k))
            return false;
    }
    return true;
}

/* Returns the consecutive runs of this length from `first` on, before `end`. */
static sc_fold fold_of(const sc_folder *f, uint32_t first, uint32_t end, uint32_t length)
{
    pair p = {.folder = f, .begin = first, .a = first, .b = first + length};
    sc_fold fold = {.length = length, .count = 1};
    if (p.b + length > end || !may_be_same(&p, length) || !find_shift(&p, length, &p.shift))
        return fold;
    for (; p.b + length <= end && same_run(&p, length); p.a += length, p.b += length)
        fold.count++;
    fold.stack = p.shift.prefix;
    fold.stack_length = p.shift.length;
    fold.from = p.shift.from;
    fold.to = p.shift.from + (int64_t)(fold.count - 1) * p.shift.by;
    return fold;
}

/* True if an instance of a stack begins at the item: layers[1].n1 after layers[0] or after an item
 * outside the stack. */
static bool begins_instance(const sc_folder *f, uint32_t i)
{
    sc_sym name, before = 0;
    kinds[f->kind].text(f, i, 0, &name);
    if (i > 0)
        kinds[f->kind].text(f, i - 1, 0, &before);
    const char *x = sc_text(f->m->context, name), *y = sc_text(f->m->context, before);
    size_t length = strcspn(x, "]");
    return x[length] == ']' && strncmp(x, y, length + 1) != 0;
}

/* Prefers the same number of runs starting at an instance boundary, which is easier to read. */
static sc_fold aligned(const sc_folder *f, uint32_t first, uint32_t end, const sc_fold *fold)
{
    uint32_t skip = 0;
    while (skip < fold->length && !begins_instance(f, first + skip))
        skip++;
    if (skip == 0 || skip == fold->length)
        return *fold;
    sc_fold later = fold_of(f, first + skip, end, fold->length);
    later.skip = skip;
    return later.count >= fold->count ? later : *fold;
}

sc_fold sc_fold_at(const sc_folder *f, uint32_t first, uint32_t end)
{
    sc_fold best = {.length = 1, .count = 1};
    uint32_t next = f->next[first], best_items = 1;
    for (uint32_t tried = 0; tried < STARTS && next != SC_NONE && next < end;
         tried++, next = f->next[next]) {
        uint32_t length = next - first;
        if (best.count > 1 && length % best.length == 0)
            continue;
        sc_fold fold = fold_of(f, first, end, length);
        if (fold.count > 1 && fold.count * length > best_items) {
            best = fold;
            best_items = fold.count * length;
        }
    }
    return best.count > 1 ? aligned(f, first, end, &best) : best;
}
