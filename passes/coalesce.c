/* coalesce: collectives that can travel together are one call.
 *
 *   %5 = all_reduce %3 {form = 0}                          %5, %6 = all_reduce %3, %4 {form = 0}
 *   %6 = all_reduce %4 {form = 0}                  ->
 *   %7 = all_gather %1 {unit = 2, gather = [D]}            %7, %8 = all_gather %1, %2 {unit = 2, gather = [D, D]}
 *   %8 = all_gather %2 {unit = 2, gather = [D]}
 *
 * Two families: reductions that one op's sharded form made (the sums of a cross-entropy), which meet where the last one is ready, before
 * anyone reads the first; and gathers of the parameters of one unit, which meet at the unit's first gather, their reads and casts moved
 * up with them. Both ask for the same group, dtype and reduction. Requires RESHARDS_EXPLICIT. Each merge removes a call.
 */
#include <math.h>
#include <string.h>

#include "passes/pass.h"
#include "passes/uses.h"

typedef struct coalescing {
    sc_module *m;
    uint32_t *position;     /* per op that was there at the start */
    uint32_t *first_reader; /* per value that was there at the start: no later than the position of the first op that reads it */
    sc_value *map;
    uint32_t map_count;
    double limit; /* bytes of a call that carries a bucket */
} coalescing;

static sc_dtype dtype_of(const sc_module *m, sc_op_id op)
{
    return sc_type_of(m, m->ops.data[op].operands[0])->dtype;
}

static bool same_group(const sc_module *m, sc_op_id a, sc_op_id b)
{
    const sc_attr *x = sc_op_attr(sc_op_at(m, a), SC_ATTR_over), *y = sc_op_attr(sc_op_at(m, b), SC_ATTR_over);
    return x->count == y->count && memcmp(x->atoms, y->atoms, x->count) == 0;
}

static bool go_together(const sc_module *m, sc_op_id a, sc_op_id b)
{
    const sc_op *x = sc_op_at(m, a), *y = sc_op_at(m, b);
    return x->kind == y->kind && sc_op_word(x, SC_ATTR_reduce) == sc_op_word(y, SC_ATTR_reduce) && dtype_of(m, a) == dtype_of(m, b) &&
           sc_op_int(x, SC_ATTR_per_step, 0) == sc_op_int(y, SC_ATTR_per_step, 0) && same_group(m, a, b);
}

/* The dim that each of the ops names under this key, as the made op names them: one an operand. */
static void join_dims(sc_module *m, sc_op_id made, sc_attr_key key, const sc_op_id *ops, uint32_t count)
{
    if (sc_op_attr(sc_op_at(m, ops[0]), key) == NULL)
        return;
    sc_dim *dims = sc_arena_array(&m->context->arena, count, sizeof *dims);
    for (uint32_t i = 0; i < count; i++)
        dims[i] = sc_op_attr(sc_op_at(m, ops[i]), key)->dims[0];
    sc_op_set_attr(m, made, sc_attr_dims(m, key, dims, count));
}

/* One op in the place of `before` for several of one operand each. */
static void merge(coalescing *c, const sc_op_id *ops, uint32_t count, sc_op_id before)
{
    sc_module *m = c->m;
    sc_arena *arena = &m->context->arena;
    sc_value *operands = sc_arena_array(arena, count, sizeof *operands);
    sc_type *types = sc_arena_array(arena, count, sizeof *types);
    for (uint32_t i = 0; i < count; i++) {
        operands[i] = m->ops.data[ops[i]].operands[0];
        types[i] = m->values.data[sc_result(m, ops[i], 0)].type;
    }
    const sc_op first = *sc_op_at(m, ops[0]);
    uint32_t at = c->position[ops[0]]; /* or later: what is thought to be read too early only stays alone */
    sc_op_id made =
        sc_op_new(m, first.func, before, (sc_op_kind)first.kind, operands, count, first.attrs, first.attr_count, types, count, ops[0]);
    join_dims(m, made, SC_ATTR_gather, ops, count);
    join_dims(m, made, SC_ATTR_scatter, ops, count);
    sc_op_drop_attr(m, made, SC_ATTR_moves); /* it told the first one's name; each operand has its own */
    for (uint32_t i = 0; i < count; i++) {
        sc_value old = sc_result(m, ops[i], 0), fresh = sc_result(m, made, i);
        m->values.data[fresh].path = m->values.data[old].path;
        c->map[old] = fresh;
        if (c->first_reader[operands[i]] > at)
            c->first_reader[operands[i]] = at;
        sc_op_unlink(m, ops[i]);
    }
}

typedef SC_VEC(sc_op_id) op_list;

/* The collectives of one operand that carry an attribute, in function order. */
static op_list with_attr(const sc_module *m, sc_func_id func, sc_attr_key key)
{
    op_list list = {0};
    sc_for_each_op (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        if ((sc_op_traits(o) & SC_COLLECTIVE) != 0 && o->operand_count == 1 && sc_op_attr(o, key) != NULL)
            *sc_vec_push(&m->context->arena, &list) = op;
    }
    return list;
}

/* A parameter's read, or the cast of one: may stand anywhere before its reader. */
static bool is_movable(const sc_module *m, sc_op_id op)
{
    const sc_op *o = sc_op_at(m, op);
    if ((sc_op_traits(o) & SC_STATE_READ) != 0)
        return true;
    return o->operand_count == 1 && (sc_op_traits(o) & SC_LOCAL_PURE) != 0 && is_movable(m, sc_def(m, o->operands[0]));
}

static void move_up(coalescing *c, sc_op_id op, sc_op_id before)
{
    sc_module *m = c->m;
    if (c->position[op] < c->position[before])
        return;
    for (uint32_t i = 0; i < m->ops.data[op].operand_count; i++)
        move_up(c, sc_def(m, m->ops.data[op].operands[i]), before);
    sc_op_move(m, op, before);
    c->position[op] = c->position[before];
}

/* The full buffer: what reductions begin with and gathers end with. */
static double buffer_bytes(const sc_module *m, sc_op_id op)
{
    const sc_op *o = sc_op_at(m, op);
    sc_value value = o->kind == SC_OP_all_gather ? o->first_result : o->operands[0];
    return (double)sc_type_local_bytes(m, sc_type_of(m, value));
}

/* The op at which the first result of a family is read: all of its members stand before it. */
static uint32_t earliest_reader(const coalescing *c, uint32_t so_far, sc_op_id op)
{
    uint32_t reader = c->first_reader[sc_result(c->m, op, 0)];
    return reader < so_far ? reader : so_far;
}

static bool joins_unit(coalescing *c, const op_list *so_far, sc_op_id op)
{
    sc_op_id maker = sc_def(c->m, c->m->ops.data[op].operands[0]);
    if (!is_movable(c->m, maker))
        return false;
    move_up(c, maker, so_far->data[0]);
    return true;
}

/* What reads state can be early, where the first one stands; what is computed can be late, where the last one stands. */
static bool can_be_early(const coalescing *c, sc_op_id op)
{
    return is_movable(c->m, sc_def(c->m, c->m->ops.data[op].operands[0]));
}

/* From each op of a list on, the others that can join it; at most `limit` bytes a call, of one op more. */
static void merge_family(coalescing *c, const op_list *list, sc_attr_key key, double limit)
{
    sc_module *m = c->m;
    bool *gone = sc_arena_array(&m->context->arena, list->count, sizeof *gone);
    for (uint32_t i = 0; i < list->count; i++) {
        if (gone[i])
            continue;
        op_list family = {0};
        const int64_t number = sc_op_int(sc_op_at(m, list->data[i]), key, -1);
        bool early = key != SC_ATTR_form && can_be_early(c, list->data[i]);
        double bytes = buffer_bytes(m, list->data[i]);
        uint32_t reader = earliest_reader(c, SC_NONE, list->data[i]);
        *sc_vec_push(&m->context->arena, &family) = list->data[i];
        for (uint32_t j = i + 1; j < list->count && sc_op_int(sc_op_at(m, list->data[j]), key, -1) == number; j++) {
            double more = buffer_bytes(m, list->data[j]);
            if (gone[j] || !go_together(m, list->data[i], list->data[j]) || bytes + more > limit ||
                !(early ? joins_unit(c, &family, list->data[j]) : c->position[list->data[j]] <= reader))
                continue;
            bytes += more;
            reader = earliest_reader(c, reader, list->data[j]);
            *sc_vec_push(&m->context->arena, &family) = list->data[j];
            gone[j] = true;
        }
        if (family.count > 1)
            merge(c, family.data, family.count, early ? family.data[0] : m->ops.data[family.data[family.count - 1]].next);
    }
}

/* Casts of gradients that have travelled stand right before their first reader, not in the way of others that travel. */
static void sink_casts(sc_module *m, sc_func_id func)
{
    sc_op_id *reader = sc_arena_array(&m->context->arena, m->values.count, sizeof *reader);
    memset(reader, 0xff, m->values.count * sizeof *reader);
    sc_for_each_op_reverse (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        for (uint32_t i = 0; i < op->operand_count; i++)
            reader[op->operands[i]] = id;
        bool sinks = (sc_op_traits(op) & SC_CONVERTS) != 0 && sc_op_attr(op, SC_ATTR_gradient) != NULL;
        if (sinks && reader[op->first_result] != SC_NONE)
            sc_op_move(m, id, reader[op->first_result]);
    }
}

static void find_first_readers(coalescing *c)
{
    sc_module *m = c->m;
    c->first_reader = sc_arena_array(&m->context->arena, m->values.count, sizeof *c->first_reader);
    memset(c->first_reader, 0xff, m->values.count * sizeof *c->first_reader);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op_reverse (m, f, id) {
            const sc_op *op = sc_op_at(m, id);
            for (uint32_t i = 0; i < op->operand_count; i++)
                c->first_reader[op->operands[i]] = c->position[id];
        }
    }
}

bool sc_run_coalesce(sc_module *m, sc_pass_env *env)
{
    static const double default_bucket = 26214400;
    for (sc_func_id f = 0; f < m->funcs.count; f++)
        sink_casts(m, f);
    coalescing c = {.m = m, .position = sc_number_ops(m)};
    c.map = sc_new_value_map(m, &c.map_count);
    find_first_readers(&c);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        op_list forms = with_attr(m, f, SC_ATTR_form), units = with_attr(m, f, SC_ATTR_unit), buckets = with_attr(m, f, SC_ATTR_bucket);
        merge_family(&c, &forms, SC_ATTR_form, INFINITY);
        merge_family(&c, &units, SC_ATTR_unit, INFINITY);
        merge_family(&c, &buckets, SC_ATTR_bucket, env->bucket > 0 ? env->bucket : default_bucket);
        sc_func_replace_uses(m, f, c.map, c.map_count);
    }
    return true;
}
