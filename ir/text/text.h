/* Text form of a module: `shardc.ir 1`. parse(print(m)) equals m, and print(parse(t)) equals t byte for byte for printed t. */
#ifndef SHARDC_IR_TEXT_TEXT_H
#define SHARDC_IR_TEXT_TEXT_H

#include "ir/ops/ops.h"
#include "support/strbuf.h"

typedef struct sc_print_options {
    bool fold; /* repeated layers once: functions whose ops differ only in an instance index print the first instance and a count; not
                  parseable */
} sc_print_options;

void sc_print_module(const sc_module *m, const sc_print_options *options, sc_strbuf *out);
/* bf16[B=16@fsdp, S=8192, H=32@tp, E=128]{sum:tp}; local over global (B=4/16@fsdp) when the module is LOCAL. */
void sc_print_type(const sc_module *m, sc_type type, sc_strbuf *out);
/* "tp", "tp.0", "(x, y)": atoms of one dim, whole axes by their name. */
void sc_print_atoms(const sc_module *m, const sc_atom_list *atoms, sc_strbuf *out);
/* The same in the context's arena. */
const char *sc_type_text(const sc_module *m, sc_type type);
/* Dims as written: [D], [H, E]; leaves of one composite under its name. */
void sc_print_dims(const sc_module *m, const sc_dim *dims, uint32_t count, sc_strbuf *out);

/* Messages (ir_syntax) go to context->diag; NULL when there were any. The result still has to be verified. */
sc_module *sc_parse_module(sc_context *context, const char *name, const char *text, size_t length);

#endif
