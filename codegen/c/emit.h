/* Kernels as C: one function each, `int64_t NAME(void *const *args, const int64_t *params)` (program/format.h).
 *
 * The text depends on the kernel alone, and without comments only on what it computes: kernels that compute the same, over dims and
 * arguments of the same names, have the same text. Results do not depend on the size of the team: outer iterations are shared out, or
 * parts of fixed size whose sums are combined in order.
 *
 * A function needs every IN that shares an array with an OUT to do so as sc_kernel_may_share allows; all other arguments are `restrict`. */
#ifndef SHARDC_CODEGEN_C_EMIT_H
#define SHARDC_CODEGEN_C_EMIT_H

#include "codegen/kernel/kernel.h"
#include "codegen/printer/helpers.h"

/* Appends the function. The kernel verifies. *helpers gains those that the text calls (may be NULL). */
void sc_c_emit(const sc_kernel *k, const char *name, bool comments, sc_strbuf *out, sc_helper_set *helpers);

#endif
