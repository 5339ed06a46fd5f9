/* The commands of shardc. Each writes its result to `out` and its messages to context->diag; the exit code is that of the worst message,
 * unless the command returns another. */
#ifndef SHARDC_TOOLS_COMMANDS_COMMANDS_H
#define SHARDC_TOOLS_COMMANDS_COMMANDS_H

#include "tools/driver/driver.h"

typedef int sc_command(sc_context *context, const sc_options *options, sc_strbuf *out);

sc_command sc_cmd_check, sc_cmd_fmt, sc_cmd_ir, sc_cmd_comm, sc_cmd_explain, sc_cmd_verify, sc_cmd_eval, sc_cmd_memory, sc_cmd_diff,
    sc_cmd_legal, sc_cmd_help, sc_cmd_train, sc_cmd_kernels, sc_cmd_build, sc_cmd_generate;

/* Holds the plan's expect statements against the collectives of a compiled entry, if it is the default one, and reports those that do not
 * hold as `id`: expect_fails, or expect_warns for commands that show a program all the same. */
void sc_check_expects(sc_context *context, const sc_compiled *c, sc_diag_id id);

/* The same; what came out of each is added to `results`. */
typedef struct sc_expect_result {
    const sc_expect *expect;
    double found;      /* calls or bytes; with `in` those of the first instance that does not hold it, else of the last */
    bool known, holds; /* known: it could be counted */
} sc_expect_result;
typedef SC_VEC(sc_expect_result) sc_expect_results;
void sc_check_expects_into(sc_context *context, const sc_compiled *c, sc_diag_id id, sc_expect_results *results);

/* The train step of the minimised entry that the options mean; they say afterwards which it is. `last` as of sc_driver_compile. Its expect
 * statements hold. False after messages. */
bool sc_compile_train(sc_context *context, sc_program *program, const sc_plan *plan, sc_options *options, const char *last, sc_compiled *c);
/* The forward entry of a train step, under the same plan. */
bool sc_compile_forward(sc_context *context, const sc_compiled *step, const sc_options *options, const char *last, sc_compiled *out);

#endif
