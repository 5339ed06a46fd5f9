#include "passes/exchanges.h"

#include "ir/ops/ops.h"
#include "passes/uses.h"

typedef SC_VEC(sc_op_id) op_list;

/* One call being made: its exchanges are moved to the first one. */
typedef struct joining {
    sc_module *m;
    uint32_t *depends; /* by value: the last call on which it depends */
    uint32_t *needed;  /* by op: the last move that needs it */
    uint32_t call, move;
    sc_op_id first;
} joining;

static void mark_results(joining *j, const sc_op *op)
{
    for (uint32_t r = 0; r < op->result_count; r++)
        j->depends[op->first_result + r] = j->call;
}

/* True if the op depends on an exchange of the call, or must stay where it is. */
static bool stays_behind(const joining *j, const sc_op *op)
{
    bool stays = sc_op_has(op, SC_EFFECT);
    for (uint32_t o = 0; o < op->operand_count; o++)
        stays = stays || j->depends[op->operands[o]] == j->call;
    return stays;
}

/* Moves the op in front of the first one, and before it, in their order, those between that it
 * needs. */
static void move_to_first(joining *j, sc_op_id op)
{
    sc_module *m = j->m;
    j->needed[op] = ++j->move;
    sc_op_id next;
    for (sc_op_id at = op; at != j->first; at = m->ops.data[at].prev) {
        const sc_op *o = sc_op_at(m, at);
        if (j->needed[at] != j->move)
            continue;
        for (uint32_t i = 0; i < o->operand_count; i++)
            j->needed[sc_def(m, o->operands[i])] = j->move;
    }
    for (sc_op_id at = m->ops.data[j->first].next; at != op; at = next) {
        next = m->ops.data[at].next;
        if (j->needed[at] == j->move)
            sc_op_move(m, at, j->first);
    }
    sc_op_move(m, op, j->first);
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

/* Joins the exchange with later ones that may be one call with it, up to one that depends on it. */
static void join(joining *j, const sc_exchange_list *list, const uint32_t *next, uint32_t i,
                 bool *is_joined, op_list *call)
{
    sc_module *m = j->m;
    uint32_t k = next[i];
    j->first = list->data[i].op;
    j->call++;
    mark_results(j, sc_op_at(m, j->first));
    *sc_vec_push(&m->context->arena, call) = j->first;
    sc_op_id after;
    for (sc_op_id at = m->ops.data[j->first].next; at != SC_NONE; at = after) {
        const sc_op *op = sc_op_at(m, at);
        const bool is_behind = stays_behind(j, op),
                   is_next = k != SC_NONE && at == list->data[k].op;
        after = op->next;
        if (k == SC_NONE || (is_next && is_behind))
            break;
        if (is_behind || is_next)
            mark_results(j, op);
        if (!is_next)
            continue;
        move_to_first(j, at);
        is_joined[k] = true;
        *sc_vec_push(&m->context->arena, call) = at;
        k = next[k];
    }
}

void sc_join_exchanges(sc_module *m, sc_func_id func, const sc_exchange_list *list)
{
    sc_arena *arena = &m->context->arena;
    joining j = {.m = m};
    bool *is_joined = sc_arena_array(arena, list->count, sizeof *is_joined);
    op_list *calls = sc_arena_array(arena, list->count, sizeof *calls);
    const uint32_t *next = find_next(m, list);
    uint32_t count;
    sc_value *map = sc_new_value_map(m, &count);
    j.depends = sc_arena_array(arena, m->values.count, sizeof *j.depends);
    j.needed = sc_arena_array(arena, m->ops.count, sizeof *j.needed);
    for (uint32_t i = 0; i < list->count; i++) {
        if (!is_joined[i])
            join(&j, list, next, i, is_joined, &calls[i]);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (calls[i].count > 1)
            merge(m, &calls[i], map);
    }
    sc_func_replace_uses(m, func, map, count);
}
