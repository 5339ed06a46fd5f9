/* attend and attend_grad as CUDA: from the descriptors of attend.h, with the parameters and stages of emit_cuda.h. The arguments are the
 * op's operands, then its results. What `form` of the descriptor says is for processors; code->why_simple says it for cards.
 *
 * Results are written whole, those of padding with zeros or with what padding gives. Sums are added in an order that depends on the
 * descriptor alone. Of masked keys, see attend.h; the simple form multiplies none. */
#ifndef SHARDC_CODEGEN_ATTEND_CUDA_H
#define SHARDC_CODEGEN_ATTEND_CUDA_H

#include "codegen/attend.h"
#include "codegen/emit_cuda.h"

/* Appends the stages' functions, NAME_0, NAME_1, .., which stand behind sc_cuda_machine_text and the helpers that *helpers gains (may be
 * NULL). */
void sc_attend_emit_cuda(sc_context *context, const sc_attend_desc *desc, const char *name, sc_strbuf *out, sc_helper_set *helpers,
                         sc_cuda_code *code);

#endif
