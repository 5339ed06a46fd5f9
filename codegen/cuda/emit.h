/* Kernels as CUDA C++, from the same kernel IR as the C of codegen/c/emit.h.
 *
 * A function becomes one or more *stages*: entries that are launched one after the other on one stream, NAME_0, NAME_1, .., each over a
 * grid in one dimension. All are given the same parameters: a pointer to the first element of each argument of the kernel, in order; if
 * scratch_bytes > 0 a pointer to so many bytes, aligned to SC_IMAGE_ALIGN, which hold nothing before and after; an int64_t for each param
 * of the kernel, in order (one of kind STEP is not read: it changes while a captured graph does not); then `const int64_t *sc_call`, on the
 * device, whose element 0 is the step; then `uint64_t *sc_failure`, which is lowered to the least sc_image_failure of a failed check, as an
 * unsigned number, and begins as all ones. Nothing else is kept between launches, nothing needs to be zero before.
 *
 * The text stands behind sc_cuda_machine_text and the helpers that it names (codegen/printer/helpers.h: the same mathematics as on
 * CPUs), and names nothing else: no headers, no intrinsics, no asm. It depends on the kernel alone. Results depend neither on the
 * order of blocks nor on that of warps; sums are added in a fixed order. A kernel may share arrays between arguments as sc_kernel_may_share
 * allows. */
#ifndef SHARDC_CODEGEN_CUDA_EMIT_H
#define SHARDC_CODEGEN_CUDA_EMIT_H

#include "codegen/cuda/launch.h"
#include "codegen/kernel/kernel.h"
#include "codegen/printer/helpers.h"

enum { SC_CUDA_WARP = 32 };

/* Wrappers of the machine: what each source begins with (codegen/cuda/machine.cu.h). */
extern const char sc_cuda_machine_text[];
/* What is built on them for kernels (codegen/cuda/team.cu.h): stands behind the machine's text. */
extern const char sc_cuda_team_text[];
/* Writes the team's text, then the helpers and all that they call, but for those that these texts have themselves. */
void sc_cuda_helpers_emit(sc_strbuf *out, sc_helper_set helpers);

/* The helpers that it has itself, under their names: they are not written behind it. */
#define SC_CUDA_MACHINE_HELPERS                                                                                                            \
    (SC_HELPER(headers) | SC_HELPER(math) | SC_HELPER(bits) | SC_HELPER(bits64) | SC_HELPER(f16_to_f32) | SC_HELPER(max_f32) |             \
     SC_HELPER(min_f32) | SC_HELPER(exp_f32))
/* Helpers that move arrays around the caches of CPUs: C alone, and no text for GPUs calls them. */
#define SC_CUDA_FOREIGN_HELPERS (SC_HELPER(stream) | SC_HELPER(turn_b32) | SC_HELPER(turn_b16))

/* Appends the stages' functions. The kernel verifies. *helpers gains those that the text calls (may be NULL). */
void sc_cuda_emit(const sc_kernel *k, const char *name, bool comments, sc_strbuf *out, sc_helper_set *helpers, sc_cuda_code *code);

#endif
