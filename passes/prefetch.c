/* prefetch: issues the gather of an FSDP unit's parameters while an earlier unit computes.
 *
 *   gather unit 1   compute unit 1   gather unit 2   compute unit 2
 *   gather unit 1   gather unit 2   compute unit 1   compute unit 2      (one unit ahead)
 *
 * A gather moves right after the one `tune prefetch` units earlier, together with the reads, casts
 * and earlier collectives that it needs. Results are unchanged; copies live longer, which `memory`
 * reports. Requires RESHARDS_EXPLICIT. One walk. */
#include "passes/pass.h"
#include "passes/uses.h"

static void move_after(sc_module *m, uint32_t *position, sc_op_id op, sc_op_id after)
{
    for (uint32_t i = 0; i < m->ops.data[op].operand_count; i++) {
        sc_op_id def = sc_def(m, m->ops.data[op].operands[i]);
        if (position[def] > position[after])
            move_after(m, position, def, after);
    }
    /* operands already moved are right after `after`: insert this op behind them */
    sc_op_id last = after;
    while (m->ops.data[last].next != SC_NONE && m->ops.data[last].next != op &&
           position[m->ops.data[last].next] == position[after])
        last = m->ops.data[last].next;
    if (m->ops.data[last].next != op)
        sc_op_move(m, op, m->ops.data[last].next);
    position[op] = position[after];
}

/* True if the operands can be anywhere before the gather: stored parameters, their casts, and
 * results of earlier collectives of its path. */
static bool reads_parameters(const sc_module *m, sc_op_id id)
{
    const sc_op *op = sc_op_at(m, id), *seen = NULL;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const sc_op *def = sc_op_at(m, sc_def(m, op->operands[i]));
        while ((sc_op_traits(def) & SC_CONVERTS) != 0)
            def = sc_op_at(m, sc_def(m, def->operands[0]));
        bool goes_on =
            (sc_op_traits(def) & SC_COLLECTIVE) != 0 && sc_op_attr(def, SC_ATTR_unit) != NULL;
        if (def == seen) /* the previous call produces all of them */
            continue;
        seen = def;
        if (goes_on ? !reads_parameters(m, sc_def(m, def->first_result))
                    : (sc_op_traits(def) & SC_STATE_READ) == 0)
            return false;
    }
    return true;
}

/* Finds collectives of units whose results feed the next collective of their path. */
static bool *find_inner(const sc_module *m)
{
    bool *inner = sc_arena_array(&m->context->arena, m->ops.count, sizeof *inner);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            const sc_op *o = sc_op_at(m, op);
            bool of_unit =
                (sc_op_traits(o) & SC_COLLECTIVE) != 0 && sc_op_attr(o, SC_ATTR_unit) != NULL;
            if (of_unit) {
                for (uint32_t i = 0; i < o->operand_count; i++)
                    inner[sc_def(m, o->operands[i])] = true;
            }
        }
    }
    return inner;
}

bool sc_run_prefetch(sc_module *m, sc_pass_env *env)
{
    if (env->prefetch == 0)
        return true;
    uint32_t *position = sc_number_ops(m);
    const bool *inner = find_inner(m);
    SC_VEC(sc_op_id) gathers = {0};
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        gathers.count = 0;
        sc_for_each_op (m, f, op) {
            const sc_op *o = sc_op_at(m, op);
            if (o->kind == SC_OP_all_gather && sc_op_attr(o, SC_ATTR_unit) != NULL && !inner[op] &&
                reads_parameters(m, op))
                *sc_vec_push(&m->context->arena, &gathers) = op;
        }
        /* from the last, so that earlier gathers are still in place */
        for (uint32_t i = gathers.count; i-- > env->prefetch;)
            move_after(m, position, gathers.data[i], gathers.data[i - env->prefetch]);
    }
    return true;
}
