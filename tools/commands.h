/* The commands of shardc. Each writes its result to `out` and its messages to context->diag; the exit code is that of the worst message,
 * unless the command returns another. */
#ifndef SHARDC_TOOLS_COMMANDS_H
#define SHARDC_TOOLS_COMMANDS_H

#include "tools/driver.h"

typedef int sc_command(sc_context *context, const sc_options *options, sc_strbuf *out);

sc_command sc_cmd_check, sc_cmd_fmt, sc_cmd_ir, sc_cmd_comm, sc_cmd_explain, sc_cmd_verify, sc_cmd_eval;

/* Evaluates the plan's expect statements on a compiled entry; reports expect_fails for each that does not hold, and not_compiled for
 * those that speak of what this version does not compute. */
void sc_check_expects(sc_context *context, const sc_compiled *c);

#endif
