/* What the files of the program generator share. */
#ifndef SHARDC_CODEGEN_PROGRAM_INTERNAL_H
#define SHARDC_CODEGEN_PROGRAM_INTERNAL_H

#include "codegen/kernel/kernel.h"
#include "codegen/program/gemm.h"
#include "codegen/program/generate.h"

/* A collective that was started: what is left to do where its first result is read. */
typedef struct sc_flight {
    sc_op_id op;
    uint32_t instr;       /* that started it; SC_NONE: finished */
    sc_image_ref *landed; /* by result: where the pieces arrive */
    sc_kernel **unpack;   /* by result: puts them in order; NULL: they are */
} sc_flight;

/* A state's new value that could not be computed where it stands. */
typedef struct sc_state_copy {
    sc_op_id op;
    sc_image_ref from, to;
} sc_state_copy;

/* A unit that is a sum, or begins with one, and waits for a product of what it sums. */
typedef struct sc_rider {
    const sc_op_id *ops;
    uint32_t count, sum; /* which of them is the sum; what stands behind is done with it */
    uint32_t operand;    /* of the product */
    bool rode, is_done;
} sc_rider;

typedef struct sc_generator {
    sc_module *m;
    sc_arena *arena;
    const sc_generate_options *options;
    sc_generated *out;
    SC_VEC(sc_image_buffer) buffers;
    SC_VEC(sc_image_kernel) kernels;
    SC_VEC(sc_gemm) gemms;
    SC_VEC(sc_image_collective) collectives;
    SC_VEC(sc_image_group) groups;
    SC_VEC(sc_memory_wish) wishes;
    sc_map kernel_map, gemm_map;
    SC_VEC(sc_image_state) states;
    uint32_t *state_buffer; /* by state of the module */
    uint32_t func_base;     /* of the program: the first function of the module */
    sc_dim batch_dim;       /* that micro-batches split; SC_NONE */
    /* of the function that is being made */
    sc_func_id func;
    bool *escapes;
    SC_VEC(sc_image_instr) instrs;
    SC_VEC(sc_image_value) inputs, outputs;
    SC_VEC(sc_flight) flights;
    uint32_t landed; /* the first so many flights have finished */
    SC_VEC(sc_state_copy) state_copies;
    sc_loc loc; /* of what is being made */
    uint32_t unit, unit_count;
    uint32_t *unit_of;         /* by op: kernels and single ops in order */
    sc_value *root;            /* by value: the one whose bytes it is */
    uint32_t *last_read;       /* by root: the last unit that reads it; UINT32_MAX - 1: it must last to the end */
    uint32_t *state_last_read; /* by state: likewise, of the value that its buffer has at the moment */
    sc_op_id *last_write;      /* by state: the write whose value it keeps */
    uint32_t *target;          /* by root: the state that it will be the value of; SC_NONE */
    uint32_t *flight;          /* by root: 1 + the flight that it comes with */
    sc_image_ref *place;       /* by value */
    bool instead;              /* what is being emitted stands in for the product before it */
    SC_VEC(sc_rider) riders;
    uint32_t *rider_of; /* by op: 1 + the rider that waits for the product */
    bool *rides;        /* by unit */
} sc_generator;

#define SC_LASTS (UINT32_MAX - 1)

/* ---- asking ---- */
/* Where a value stands, once the collective that brings it has ended. */
sc_image_ref sc_generator_read(sc_generator *g, sc_value value);
/* Where an op's result is to stand: a new buffer, or the state's that it becomes the value of if `may_share` (the unit reads the state's
 * old value only where that is allowed). */
sc_image_ref sc_generator_write(sc_generator *g, sc_value value, sc_image_buffer_kind kind, bool may_share);
/* Whether the result will stand in the state's buffer where this operand is. */
bool sc_generator_overwrites(const sc_generator *g, sc_value result, sc_value operand);
bool sc_generator_is_input(const sc_generator *g, uint32_t buffer);
uint32_t sc_generator_buffer(sc_generator *g, sc_image_buffer_kind kind, int64_t bytes, const char *name);
const char *sc_generator_name(const sc_generator *g, sc_value value);
sc_image_tensor sc_generator_tensor(const sc_generator *g, const sc_type_info *type);

/* Makes the module's states part of the program, and fills state_buffer. False after a message. */
bool sc_generator_add_states(sc_generator *g);

/* ---- instructions ---- */
sc_image_instr *sc_generator_instr(sc_generator *g, sc_image_instr_kind kind, sc_op_id op, uint32_t index, const sc_image_ref *args,
                                   uint32_t arg_count);
void sc_generator_copy(sc_generator *g, sc_op_id op, sc_image_ref from, sc_image_ref to);
/* A call of the kernel, which is verified; simplified, and emitted if no equal one was. The kernel is used up. */
void sc_generator_call(sc_generator *g, sc_op_id op, sc_kernel *k, const sc_image_ref *args);
/* A call of a function: its text under the name SC_OBJECT_NAME, and with comments under `symbol` when that is new. *code, all 0 before: its
 * scratch and, of CUDA, its stages. */
typedef void sc_emit_fn(sc_generator *g, const void *what, const char *name, bool comments, sc_strbuf *out, sc_helper_set *helpers,
                        sc_cuda_code *code);
bool sc_generator_is_cuda(const sc_generator *g);
/* How a kind of function is written, by kind of target. */
typedef struct sc_emitters {
    sc_emit_fn *processor, *cuda;
} sc_emitters;
void sc_generator_emit(sc_generator *g, const sc_emitters *emit, const void *what, sc_generated_kernel *shown, uint32_t *out_kernel,
                       bool *out_new);
/* The arguments of a call with the scratch that the function needs behind them; *count grows. */
const sc_image_ref *sc_generator_add_scratch(sc_generator *g, uint32_t kernel, const sc_image_ref *args, uint32_t *count, const char *name);
void sc_generator_finish(sc_generator *g, uint32_t flight);

/* ---- the program ---- */
/* A schedule that ends with a micro-batch and a call without one gets one function for both, behind all others; the image has room for it.
 */
void sc_generator_join(sc_generator *g, sc_image *image);
/* Collectives overlap, buffers get their places: in an arena that is no larger than it would be without. NULL, or why there is no plan. */
const char *sc_generator_plan(sc_generator *g, sc_image *image);

/* ---- sums that products take along ---- */
/* Sets riders, rider_of and rides of the function. */
void sc_generator_find_riders(sc_generator *g);
/* Appends the sum that waits for the product as a step; false: there is none, or no room for it. */
bool sc_generator_add_rider(sc_generator *g, sc_op_id dot, sc_contraction *c, sc_value *out_value);
/* Emits what waited for the product and is no step of it. False after a message. */
bool sc_generator_leave_rider(sc_generator *g, sc_op_id dot);

/* ---- code ---- */
/* Compiles the functions. False after a message. */
bool sc_generator_add_object(sc_generator *g, sc_image *image);

/* ---- units: rows of lowering.def; false after a message ---- */
typedef bool sc_unit_fn(sc_generator *g, sc_op_id op);
sc_unit_fn unit_input, unit_state_read, unit_state_write, unit_return, unit_view, unit_dot, unit_attend, unit_all_gather,
    unit_reduce_scatter, unit_all_reduce, unit_all_to_all, unit_permute;
/* Ops that share a kernel; the first that is no `constant` may be a contraction. */
bool unit_kernel(sc_generator *g, const sc_op_id *ops, uint32_t count);
bool unit_contraction(sc_generator *g, const sc_op_id *ops, uint32_t count);

#endif
