/* Emits kernels as C: one function each, `int64_t NAME(void *const *args, const int64_t *params)`
 * (program/format.h).
 *
 * The text depends on the kernel alone and, without comments, only on what it computes: kernels
 * with the same computation and the same dim and argument names have the same text. Results do not
 * depend on the number of threads: the team shares outer iterations, or parts of a fixed size whose
 * sums are combined in order.
 *
 * An IN may share its array with an OUT only where sc_kernel_may_share allows; all other arguments
 * are `restrict`. */
#ifndef SHARDC_CODEGEN_C_EMIT_H
#define SHARDC_CODEGEN_C_EMIT_H

#include "codegen/kernel/kernel.h"
#include "codegen/printer/helpers.h"

/* Appends the function. The kernel must verify. Adds the helpers that the text calls to *helpers
 * (may be NULL). */
void sc_c_emit(const sc_kernel *k, const char *name, bool comments, sc_strbuf *out,
               sc_helper_set *helpers);

#endif
