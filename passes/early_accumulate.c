/* early-accumulate: adds a gradient to its accumulator where the gradient is produced.
 *
 *   %7 = dot[B] %5, %6                             %7 = dot[B] %5, %6
 *   ..                                        ->   %8 = state_read {name = "w.grad"}
 *   %8 = state_read {name = "w.grad"}              %9 = add %8, %7
 *   %9 = add %8, %7                                ..
 *   state_write %9 {name = "w.grad"}               state_write %9 {name = "w.grad"}
 *
 * Gradients are first accumulated at the end of the micro-batch, so that their reductions can be
 * coalesced. A matmul fused with that accumulation would also run at the end and keep its operands,
 * of all layers, alive until then. Results of collectives are not moved: nothing waits for them
 * earlier. Requires RESHARDS_EXPLICIT. One walk; only moves ops. */
#include "passes/pass.h"
#include "passes/uses.h"

/* Returns the name of the state that the op reads or writes (as `trait` says), or 0. */
static sc_sym state_of(const sc_module *m, sc_op_id op, uint32_t trait)
{
    const sc_op *o = sc_op_at(m, op);
    return (sc_op_traits(o) & trait) != 0 ? sc_op_word(o, SC_ATTR_name) : 0;
}

/* Returns the operand of a sum that is read from the state to which the sum is written; -1: none.
 * The sum may have other readers. */
static int old_value(const sc_module *m, sc_op_id sum, sc_sym state)
{
    const sc_op *o = sc_op_at(m, sum);
    const uint32_t wanted = SC_LINEAR | SC_ELEMENTWISE;
    if ((sc_op_traits(o) & wanted) != wanted || o->operand_count != 2)
        return -1;
    for (int i = 0; i < 2; i++) {
        if (state_of(m, sc_def(m, o->operands[i]), SC_STATE_READ) == state)
            return i;
    }
    return -1;
}

/* True if the value comes from a collective, possibly through elementwise ops. */
static bool is_brought(const sc_module *m, sc_value value)
{
    const sc_op *o = sc_op_at(m, sc_def(m, value));
    while ((sc_op_traits(o) & (SC_VIEW | SC_ELEMENTWISE)) != 0 && o->operand_count == 1)
        o = sc_op_at(m, sc_def(m, o->operands[0]));
    return (sc_op_traits(o) & SC_COLLECTIVE) != 0;
}

bool sc_run_early_accumulate(sc_module *m, sc_pass_env *env)
{
    (void)env;
    uint32_t *position = sc_number_ops(m); /* of moved ops: the position that they now follow */
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            sc_sym state = state_of(m, op, SC_STATE_WRITE);
            sc_op_id sum = state == 0 ? SC_NONE : sc_def(m, sc_op_at(m, op)->operands[0]);
            int old = sum == SC_NONE ? -1 : old_value(m, sum, state);
            if (old < 0 || is_brought(m, sc_op_at(m, sum)->operands[1 - old]))
                continue;
            sc_op_id read = sc_def(m, sc_op_at(m, sum)->operands[old]),
                     made = sc_def(m, sc_op_at(m, sum)->operands[1 - old]);
            sc_op_move(m, sum, sc_op_at(m, made)->next);
            if (position[read] > position[made])
                sc_op_move(m, read, sum);
            position[read] = position[read] < position[made] ? position[read] : position[made];
            position[sum] = position[made];
        }
    }
    return true;
}
