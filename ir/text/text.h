/* Text form of a module: `shardc.ir 1`. parse(print(m)) equals m, and print(parse(t)) equals t byte
 * for byte if t was printed. */
#ifndef SHARDC_IR_TEXT_TEXT_H
#define SHARDC_IR_TEXT_TEXT_H

#include "ir/ops/ops.h"
#include "ir/print_type.h"

typedef struct sc_print_options {
    bool fold; /* print the first of equal layers and a count; not parseable */
} sc_print_options;

void sc_print_module(const sc_module *m, const sc_print_options *options, sc_strbuf *out);

/* Reports errors (ir_syntax) to context->diag and returns NULL if there were any. The caller must
 * still verify the result. */
sc_module *sc_parse_module(sc_context *context, const char *name, const char *text, size_t length);

#endif
