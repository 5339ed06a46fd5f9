/* Text form of a module: `shardc.ir 1`. parse(print(m)) equals m, and print(parse(t)) equals t byte for byte for printed t. */
#ifndef SHARDC_IR_TEXT_TEXT_H
#define SHARDC_IR_TEXT_TEXT_H

#include "ir/ops/ops.h"
#include "ir/print_type.h"

typedef struct sc_print_options {
    bool fold; /* repeated layers once: functions whose ops differ only in an instance index print the first instance and a count; not
                  parseable */
} sc_print_options;

void sc_print_module(const sc_module *m, const sc_print_options *options, sc_strbuf *out);

/* Messages (ir_syntax) go to context->diag; NULL when there were any. The result still has to be verified. */
sc_module *sc_parse_module(sc_context *context, const char *name, const char *text, size_t length);

#endif
