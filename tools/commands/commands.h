/* The commands of shardc. Each writes its result to `out` and its messages to context->diag. The
 * exit code is that of the worst message, unless the command returns another. */
#ifndef SHARDC_TOOLS_COMMANDS_COMMANDS_H
#define SHARDC_TOOLS_COMMANDS_COMMANDS_H

#include "tools/driver/driver.h"

typedef int sc_command(sc_context *context, const sc_options *options, sc_strbuf *out);

sc_command sc_cmd_check, sc_cmd_fmt, sc_cmd_ir, sc_cmd_comm, sc_cmd_explain, sc_cmd_verify,
    sc_cmd_eval, sc_cmd_memory, sc_cmd_diff, sc_cmd_legal, sc_cmd_help, sc_cmd_train,
    sc_cmd_kernels, sc_cmd_build, sc_cmd_generate, sc_cmd_schedule, sc_cmd_simulate, sc_cmd_plot,
    sc_cmd_tokenize, sc_cmd_data, sc_cmd_convert, sc_cmd_import;

/* Loads the file and compiles the train step of the minimised entry that the options choose, whose
 * name it stores in them; checks its `expect` statements. Returns false after reporting errors. */
bool sc_compile_train_file(sc_context *context, sc_options *options, sc_compiled *c);

#endif
