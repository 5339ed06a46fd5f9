/* Shared by the files of the program generator. */
#ifndef SHARDC_CODEGEN_PROGRAM_INTERNAL_H
#define SHARDC_CODEGEN_PROGRAM_INTERNAL_H

#include "codegen/program/gemm.h"
#include "codegen/program/generator.h"

/* Adds the module's states to the program and fills state_buffer. False after a diagnostic. */
bool sc_generator_add_states(sc_generator *g);

/* ---- functions (funcs.c) ---- */
/* An array with the byte everywhere. */
void *sc_generator_fresh(sc_arena *arena, size_t count, size_t size, int byte);
/* Begins a function of the program; appends the ops of one of the module's to it, false after a
 * diagnostic; adds what was emitted to the image. */
void sc_generator_begin_func(sc_generator *g, const sc_image *image);
bool sc_generator_ops(sc_generator *g, sc_func_id id);
void sc_generator_end_func(const sc_generator *g, const char *name, sc_image *image);

/* ---- calls ---- */
/* The kind of the buffers of a kind of state. */
sc_image_buffer_kind sc_generator_kind_of_state(sc_state_kind kind);

/* ---- copies between device and host memory (transfers.c) ---- */
/* Gives the function's copies into staging areas their places, and finds until when they hold. */
void sc_generator_find_staged(sc_generator *g);

/* Emits a call of the kernel, which must verify; it is simplified, and emitted unless an equal one
 * was. Consumes the kernel. */
void sc_generator_call(sc_generator *g, sc_op_id op, sc_kernel *k, const sc_image_ref *args);
/* Emits a function: its text under the name SC_OBJECT_NAME and, if it is new, with comments under
 * `symbol`. *code, initially 0, receives its scratch and, for CUDA, its stages. */
typedef void sc_generator_print_fn(sc_generator *g, const void *what, const char *name,
                                   bool comments, sc_strbuf *out, sc_helper_set *helpers,
                                   sc_cuda_code *code);
/* The emitters for one kind of function, by kind of target. */
typedef struct sc_generator_printers {
    sc_generator_print_fn *cpu, *cuda;
} sc_generator_printers;
void sc_generator_emit(sc_generator *g, const sc_generator_printers *emit, const void *what,
                       sc_generated_kernel *shown, uint32_t *out_kernel, bool *out_new);
/* The session checks an input before a run for what a kernel checks of these ids: if they are an
 * input, its elements have to be in 0 .. below - 1. */
void sc_generator_limit_ids(sc_generator *g, sc_value ids, int64_t below);
/* Appends the scratch that the function needs to a call's arguments; *count grows. */
const sc_image_ref *sc_generator_add_scratch(sc_generator *g, uint32_t kernel,
                                             const sc_image_ref *args, uint32_t *count,
                                             const char *name);

/* ---- in-flight collectives; false after a diagnostic ---- */
/* Waits for the collective and unpacks its results; a no-op if it has finished. */
bool sc_generator_finish(sc_generator *g, uint32_t in_flight);
/* Finishes the oldest if too many are in flight. */
bool sc_generator_bound_in_flight(sc_generator *g);
/* Finishes the collective that produces the value; those that produce what the ops read. Called
 * before a unit that reads them is emitted. */
bool sc_generator_finish_value(sc_generator *g, sc_value value);
bool sc_generator_finish_operands(sc_generator *g, const sc_op_id *ops, uint32_t count);

/* ---- messages between stages (messages.c) ---- */
/* Adds this stage's ends of the boundaries. */
void sc_generator_add_boundaries(sc_generator *g, const sc_exchanges *exchanges);
/* Emits the start of a receive. */
void sc_generator_start_receive(sc_generator *g, const sc_exchange *exchange);
/* Waits for the message that a value arrives with; a no-op if it has arrived. */
bool sc_generator_wait_for_message(sc_generator *g, sc_value root);
/* Finds what the function sends, and where it is to be computed. */
void sc_generator_find_sent(sc_generator *g);
/* Returns where a result of a micro-batch lasts until the others have run. */
sc_image_ref sc_generator_keep_result(sc_generator *g, sc_op_id op, sc_value value);
/* Before ops are emitted that compute what is sent: waits until it may be overwritten. */
void sc_generator_make_room(sc_generator *g, const sc_op_id *ops, uint32_t count);

/* ---- kernels that move values (pack.c) ---- */
/* Builds a kernel from array 0 to array 1: one has the `whole` sizes, the other `piece` sizes.
 * The latter has the pieces as a leading dim. `packs`: array 1 has the
 * pieces. Dim `cut` is split into the pieces, which lie in it in this order. */
sc_kernel *sc_generator_rearrange(sc_generator *g, const sc_type_info *type, uint32_t cut,
                                  const sc_shard_order *order, const int64_t *whole,
                                  const int64_t *piece, bool packs);
/* Verifies such a kernel and calls it. False after a diagnostic. */
bool sc_generator_call_checked(sc_generator *g, sc_op_id op, sc_kernel *k, sc_image_ref from,
                               sc_image_ref to);
/* Emits a kernel that copies a value, from a buffer that has more behind it. False after a
 * diagnostic. */
bool sc_generator_copy_value(sc_generator *g, sc_op_id op, sc_value value, sc_image_ref from,
                             sc_image_ref to);

/* ---- the program ---- */
/* If the schedule ends with a micro-batch and a call without one, appends one function for both;
 * the program has room for it. */
void sc_generator_join(sc_generator *g, sc_image *image);
/* Overlaps collectives and places buffers, in an arena no larger than without overlap. NULL, or why
 * there is no plan. */
const char *sc_generator_plan(sc_generator *g, sc_image *image);

/* ---- sums fused into matmuls ---- */
/* Sets fused_sums, fused_sum_of and is_fused_sum of the function. */
void sc_generator_find_fused_sums(sc_generator *g);
/* Appends the sum that waits for the matmul as a step; false: there is none, or no room for it. */
bool sc_generator_add_fused_sum(sc_generator *g, sc_op_id dot, sc_contraction *c,
                                sc_value *out_value);
/* Emits the sum that waits for the matmul but did not become a step. False after a diagnostic. */
bool sc_generator_leave_fused_sum(sc_generator *g, sc_op_id dot);

/* ---- code ---- */
/* Compiles the functions. False after a diagnostic. */
bool sc_generator_add_object(sc_generator *g, sc_image *image);

/* ---- units: rows of lowering.def; false after a diagnostic ---- */
typedef bool sc_unit_fn(sc_generator *g, sc_op_id op);
sc_unit_fn sc_generate_input, sc_generate_state_read, sc_generate_state_write, sc_generate_return,
    sc_generate_view, sc_generate_dot, sc_generate_attend, sc_generate_routed,
    sc_generate_to_device, sc_generate_to_host, sc_generate_send, sc_generate_recv;
#define COLLECTIVE(...)
#define COLLECTIVE_OP(op, ...) sc_unit_fn sc_generate_##op;
#define FURTHER_OP(op, NAME)   sc_unit_fn sc_generate_##op;
#include "program/collectives.def"
/* Emits ops that share a kernel, after finishing the collectives that it reads; if the first op
 * other than `constant` is a contraction, emits that. */
bool sc_generate_kernel(sc_generator *g, const sc_op_id *ops, uint32_t count);
bool sc_generate_contraction(sc_generator *g, const sc_op_id *ops, uint32_t count);

#endif
