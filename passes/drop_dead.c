/* drop-dead: removes ops without effects whose results are unused. One walk from the end. */
#include "passes/pass.h"
#include "passes/uses.h"

bool sc_run_drop_dead(sc_module *m, sc_pass_env *env)
{
    (void)env;
    sc_drop_dead(m);
    return true;
}
