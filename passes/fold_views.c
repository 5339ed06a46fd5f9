/* fold-views: a view of the same type is its operand.
 *
 *   %5 = use %4 : f32[B, S, D]      uses of %5 become uses of %4, which takes the name if it has none
 *
 * Formals, results and names were values of their own so that a plan could place them; once reshards are explicit they say nothing more.
 * Requires RESHARDS_EXPLICIT. One walk; only removes.
 */
#include "passes/pass.h"
#include "passes/uses.h"

bool sc_run_fold_views(sc_module *m, sc_pass_env *env)
{
    (void)env;
    uint32_t count;
    sc_value *map = sc_new_value_map(m, &count);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            if ((sc_op_traits(sc_op_at(m, op)) & SC_VIEW) == 0)
                continue;
            sc_value source = m->ops.data[op].operands[0], result = sc_result(m, op, 0);
            source = map[source] != SC_NONE ? map[source] : source;
            if (m->values.data[source].type != m->values.data[result].type)
                continue;
            bool is_state = (sc_op_traits(sc_op_at(m, sc_def(m, source))) & SC_STATE_READ) != 0;
            if (m->values.data[source].path == 0 && !is_state)
                m->values.data[source].path = m->values.data[result].path;
            map[result] = source;
            sc_op_unlink(m, op);
        }
        sc_func_replace_uses(m, f, map, count);
    }
    return true;
}
