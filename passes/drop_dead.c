/* drop-dead: removes ops without effects whose results are unused. One walk from the end. */
#include "passes/pass.h"
#include "passes/uses.h"

bool sc_run_drop_dead(sc_module *m, sc_pass_env *env)
{
    (void)env;
    uint32_t *uses = sc_count_uses(m);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op_reverse (m, f, op) {
            const sc_op *o = sc_op_at(m, op);
            bool is_read = (sc_op_traits(o) & SC_EFFECT) != 0;
            for (uint32_t r = 0; r < o->result_count; r++)
                is_read = is_read || uses[o->first_result + r] > 0;
            if (is_read)
                continue;
            for (uint32_t i = 0; i < o->operand_count; i++)
                uses[o->operands[i]]--;
            sc_op_unlink(m, op);
        }
    }
    return true;
}
