/* localise: turns the global program into the program of one rank.
 *
 *   %2 = gather[V] %tok, %t : f32[B=4, S=8, D=16]{sum:tp}
 *     ->  gather[V] %tok, %t {offset = [V@tp]} : ...
 *
 * Types now mean local sizes (printed as local/global). Every op that needs global indices of a
 * split dim (a vocabulary range, rope positions, a causal mask, the destination of a cache row)
 * gets the sub-axes of its offset. Requires RESHARDS_EXPLICIT; establishes LOCAL. */
#include "passes/pass.h"

bool sc_run_localise(sc_module *m, sc_pass_env *env)
{
    (void)env;
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            sc_split splits[SC_MAX_FACTORS];
            uint32_t count = sc_op_offsets(m, op, splits);
            if (count > 0)
                sc_op_set_attr(m, op, sc_attr_splits(m, SC_ATTR_offset, splits, count));
        }
    }
    return true;
}
