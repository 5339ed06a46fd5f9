/* What the files of the program generator share. */
#ifndef SHARDC_CODEGEN_PROGRAM_INTERNAL_H
#define SHARDC_CODEGEN_PROGRAM_INTERNAL_H

#include "codegen/program/gemm.h"
#include "codegen/program/generator.h"

/* Makes the module's states part of the program, and fills state_buffer. False after a message. */
bool sc_generator_add_states(sc_generator *g);

/* ---- calls ---- */
/* A call of the kernel, which is verified; simplified, and emitted if no equal one was. The kernel is used up. */
void sc_generator_call(sc_generator *g, sc_op_id op, sc_kernel *k, const sc_image_ref *args);
/* A call of a function: its text under the name SC_OBJECT_NAME, and with comments under `symbol` when that is new. *code, all 0 before: its
 * scratch and, of CUDA, its stages. */
typedef void sc_emit_fn(sc_generator *g, const void *what, const char *name, bool comments, sc_strbuf *out, sc_helper_set *helpers,
                        sc_cuda_code *code);
/* How a kind of function is written, by kind of target. */
typedef struct sc_emitters {
    sc_emit_fn *cpu, *cuda;
} sc_emitters;
void sc_generator_emit(sc_generator *g, const sc_emitters *emit, const void *what, sc_generated_kernel *shown, uint32_t *out_kernel,
                       bool *out_new);
/* The arguments of a call with the scratch that the function needs behind them; *count grows. */
const sc_image_ref *sc_generator_add_scratch(sc_generator *g, uint32_t kernel, const sc_image_ref *args, uint32_t *count, const char *name);

/* ---- collectives in flight; false after a message ---- */
/* Waits for the collective, and puts what it brought in order. Nothing where that is done. */
bool sc_generator_finish(sc_generator *g, uint32_t flight);
/* That which brings the value; those that bring what the ops read. Before a unit is emitted, what it reads has been brought. */
bool sc_generator_finish_value(sc_generator *g, sc_value value);
bool sc_generator_finish_operands(sc_generator *g, const sc_op_id *ops, uint32_t count);

/* ---- the program ---- */
/* A schedule that ends with a micro-batch and a call without one gets one function for both, behind all others; the image has room for it.
 */
void sc_generator_join(sc_generator *g, sc_image *image);
/* Collectives overlap, buffers get their places: in an arena that is no larger than it would be without. NULL, or why there is no plan. */
const char *sc_generator_plan(sc_generator *g, sc_image *image);

/* ---- sums that products take along ---- */
/* Sets fused sums, fused_sum_of and rides of the function. */
void sc_generator_find_fused_sums(sc_generator *g);
/* Appends the sum that waits for the product as a step; false: there is none, or no room for it. */
bool sc_generator_add_fused_sum(sc_generator *g, sc_op_id dot, sc_contraction *c, sc_value *out_value);
/* Emits what waited for the product and is no step of it. False after a message. */
bool sc_generator_leave_fused_sum(sc_generator *g, sc_op_id dot);

/* ---- code ---- */
/* Compiles the functions. False after a message. */
bool sc_generator_add_object(sc_generator *g, sc_image *image);

/* ---- units: rows of lowering.def; false after a message ---- */
typedef bool sc_unit_fn(sc_generator *g, sc_op_id op);
sc_unit_fn sc_generate_input, sc_generate_state_read, sc_generate_state_write, sc_generate_return, sc_generate_view, sc_generate_dot,
    sc_generate_attend, sc_generate_all_gather, sc_generate_reduce_scatter, sc_generate_all_reduce, sc_generate_all_to_all,
    sc_generate_permute;
/* Ops that share a kernel, which finishes what it reads itself; the first that is no `constant` may be a contraction. */
bool sc_generate_kernel(sc_generator *g, const sc_op_id *ops, uint32_t count);
bool sc_generate_contraction(sc_generator *g, const sc_op_id *ops, uint32_t count);

#endif
