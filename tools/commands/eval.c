/* shardc eval: runs an entry here and writes its results as numbers or as a file of tensors. */
#include "tools/commands/commands.h"
#include "tools/explain/expect.h"
#include "tools/run/facts.h"
#include "tools/run/run.h"

int sc_cmd_eval(sc_context *context, const sc_options *given, sc_strbuf *out)
{
    sc_options options = *given;
    sc_compiled c;
    sc_facts facts;
    options.forward = options.runs_ranks = true;
    sc_local_run run = {.context = context, .options = &options, .c = &c};
    if (!sc_driver_compile_file(context, &options, NULL, NULL, sc_last_pass(&options), &c) ||
        !sc_find_facts(&c, NULL, options.run.weights != NULL, options.map, &facts))
        return 0;
    if (c.why_one != NULL && !facts.entry.is_cached)
        sc_report(&context->diag, SC_D_runs_as_one, (sc_loc){0}, facts.entry.name, c.why_one, NULL);
    if (sc_evaluate(context, &facts, &options.run, sc_local_run_open, &run, out))
        sc_check_expects(context, &c, SC_D_expect_fails);
    sc_local_run_close(&run);
    return 0;
}
