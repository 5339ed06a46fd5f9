/* Emits kernels as CUDA C++, from the same kernel IR as codegen/c/emit.h.
 *
 * A function becomes one or more *stages*: entries NAME_0, NAME_1, .. that are launched in order on
 * one stream, each over a one-dimensional grid. All take the same parameters: a pointer to the
 * first element of each kernel argument, in order; if scratch_bytes > 0 a pointer to that many
 * bytes, aligned to SC_IMAGE_ALIGN, undefined before and after; an int64_t for each param of the
 * kernel, in order (a param of kind STEP is ignored: it changes while a captured graph does not);
 * `const int64_t *sc_call`, in device memory, whose element 0 is the step; and `uint64_t
 * *sc_failure`, initially all ones, lowered to the least sc_image_failure of a failed check, as an
 * unsigned number. Nothing else is kept between launches and nothing has to be zeroed before.
 *
 * The text must follow sc_cuda_machine_text and the helpers that it names
 * (codegen/printer/helpers.h: the same mathematics as on CPUs) and uses nothing else: no headers,
 * intrinsics or asm. It depends on the kernel alone. Results do not depend on the order of blocks
 * or warps; sums have a fixed order. Arguments may share arrays where sc_kernel_may_share
 * allows. */
#ifndef SHARDC_CODEGEN_CUDA_EMIT_H
#define SHARDC_CODEGEN_CUDA_EMIT_H

#include "codegen/cuda/launch.h"
#include "codegen/kernel/kernel.h"
#include "codegen/printer/helpers.h"

enum { SC_CUDA_WARP = 32 };

/* Wrappers of the hardware, at the top of each source (codegen/cuda/machine.cu.h). */
extern const char sc_cuda_machine_text[];
/* Thread team functions on top of them (codegen/cuda/team.cu.h); follows the machine text. */
extern const char sc_cuda_team_text[];
/* Writes the team text, then the helpers with all that they call, except those defined in these
 * texts. */
void sc_cuda_helpers_emit(sc_strbuf *out, sc_helper_set helpers);

/* Helpers that the machine text defines itself, under the same names. */
#define SC_CUDA_MACHINE_HELPERS                                                                    \
    (SC_HELPER(headers) | SC_HELPER(math) | SC_HELPER(bits) | SC_HELPER(bits64) |                  \
     SC_HELPER(f16_to_f32) | SC_HELPER(max_f32) | SC_HELPER(min_f32) | SC_HELPER(exp_f32))
/* Helpers for CPU caches: no GPU text calls them. */
#define SC_CUDA_FOREIGN_HELPERS                                                                    \
    (SC_HELPER(stream) | SC_HELPER(transpose_b32) | SC_HELPER(transpose_b16))

/* Appends the functions of the stages. The kernel must verify. Adds the helpers that the text calls
 * to *helpers (may be NULL). */
void sc_cuda_emit(const sc_kernel *k, const char *name, bool comments, sc_strbuf *out,
                  sc_helper_set *helpers, sc_cuda_code *code);

#endif
