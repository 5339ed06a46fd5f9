#include "passes/exchanges.h"

#include "ir/ops/ops.h"
#include "passes/uses.h"

typedef SC_VEC(sc_op_id) op_list;

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

/* Returns for each exchange the next one that may be one call with it; SC_NONE: there is none. */
static uint32_t *find_next(const sc_module *m, const sc_exchange_list *list)
{
    sc_arena *arena = &m->context->arena;
    uint32_t *next = sc_arena_array(arena, list->count, sizeof *next);
    sc_map last = {.arena = arena};
    for (uint32_t i = list->count; i-- > 0;) {
        const sc_exchange *one = &list->data[i];
        const uint64_t phase = sc_op_word(sc_op_at(m, one->op), SC_ATTR_phase),
                       key = phase << 32 | (uint64_t)one->group << 1 | one->is_back;
        uint32_t *later = sc_map_insert(&last, key, SC_NONE, NULL);
        next[i] = *later;
        *later = i;
    }
    return next;
}

/* Makes one op of neighbours; the first one has the attributes of all. */
static void merge(sc_module *m, const op_list *ops, sc_value *map)
{
    sc_arena *arena = &m->context->arena;
    const uint32_t count = ops->count;
    const sc_op first = *sc_op_at(m, ops->data[0]);
    sc_value *operands = sc_arena_array(arena, count + 2u, sizeof *operands);
    sc_type *types = sc_arena_array(arena, count, sizeof *types);
    sc_dim *gather = sc_arena_array(arena, count, sizeof *gather),
           *scatter = sc_arena_array(arena, count, sizeof *scatter);
    double *fills = sc_arena_array(arena, count, sizeof *fills);
    for (uint32_t i = 0; i < count; i++) {
        const sc_op *op = sc_op_at(m, ops->data[i]);
        operands[i] = op->operands[0];
        types[i] = m->values.data[op->first_result].type;
        gather[i] = sc_op_attr(op, SC_ATTR_gather)->dims[0];
        scatter[i] = sc_op_attr(op, SC_ATTR_scatter)->dims[0];
        fills[i] = sc_op_attr(op, SC_ATTR_fills)->numbers[0];
    }
    operands[count] = first.operands[1];
    operands[count + 1] = first.operands[2];
    sc_op_id made = sc_op_new(m, first.func, ops->data[0], (sc_op_kind)first.kind, operands,
                              count + 2, first.attrs, first.attr_count, types, count, ops->data[0]);
    sc_op_set_attr(m, made, sc_attr_dims(m, SC_ATTR_gather, gather, count));
    sc_op_set_attr(m, made, sc_attr_dims(m, SC_ATTR_scatter, scatter, count));
    sc_op_set_attr(m, made, sc_attr_numbers(m, SC_ATTR_fills, fills, count));
    for (uint32_t i = 0; i < count; i++) {
        map[sc_op_at(m, ops->data[i])->first_result] = sc_result(m, made, i);
        sc_op_unlink(m, ops->data[i]);
    }
}

void sc_join_exchanges(sc_module *m, sc_func_id func, const sc_exchange_list *list)
{
    joining j = {.m = m, .position = sc_number_ops(m)};
    sc_arena *arena = &m->context->arena;
    bool *is_joined = sc_arena_array(arena, list->count, sizeof *is_joined);
    op_list *calls = sc_arena_array(arena, list->count, sizeof *calls);
    uint32_t count;
    sc_value *map = sc_new_value_map(m, &count);
    const uint32_t *next = find_next(m, list);
    j.seen = sc_arena_array(arena, m->ops.count, sizeof *j.seen);
    for (uint32_t i = 0; i < list->count; i++) {
        if (is_joined[i])
            continue;
        j.first = list->data[i].op;
        *sc_vec_push(arena, &calls[i]) = j.first;
        for (uint32_t k = next[i]; k != SC_NONE; k = next[k]) {
            j.search++;
            if (is_joined[k] || !can_be_before(&j, list->data[k].op))
                continue;
            move_before(&j, list->data[k].op);
            is_joined[k] = true;
            *sc_vec_push(arena, &calls[i]) = list->data[k].op;
        }
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (calls[i].count > 1)
            merge(m, &calls[i], map);
    }
    sc_func_replace_uses(m, func, map, count);
}
