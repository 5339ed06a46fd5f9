/* What is known while a program is generated: its lists so far, where the values of the function in hand are, and who reads them. Looking
 * up emits nothing. */
#ifndef SHARDC_CODEGEN_PROGRAM_GENERATOR_H
#define SHARDC_CODEGEN_PROGRAM_GENERATOR_H

#include "codegen/kernel/kernel.h"
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
typedef struct sc_fused_sum {
    const sc_op_id *ops;
    uint32_t count, sum; /* which of them is the sum; what stands behind is done with it */
    uint32_t operand;    /* of the product */
    bool rode, is_done;
} sc_fused_sum;

/* The function in hand. Its arrays are as long as the module's ops, values, states, or its own units. */
typedef struct sc_generator_func {
    sc_func_id id;
    /* what is known before the first unit */
    bool *escapes; /* by value: whether another kernel or op reads it */
    uint32_t unit_count;
    uint32_t *unit_of;    /* by op: kernels and single ops in order */
    sc_value *root;       /* by value: the one whose bytes it is */
    sc_op_id *last_write; /* by state: the write whose value it keeps */
    SC_VEC(sc_fused_sum) fused_sums;
    uint32_t *fused_sum_of; /* by op: 1 + the fused sum that waits for the product */
    bool *rides;            /* by unit */
    /* what changes from unit to unit */
    uint32_t *last_read;       /* by root: the last unit that reads it; UINT32_MAX - 1: it must last to the end */
    uint32_t *state_last_read; /* by state: likewise, of the value that its buffer has at the moment */
    uint32_t *target;          /* by root: the state that it will be the value of; SC_NONE */
    uint32_t *flight;          /* by root: 1 + the flight that it comes with */
    sc_image_ref *place;       /* by value */
    SC_VEC(sc_flight) flights;
    uint32_t landed; /* the first so many flights have finished */
    /* what becomes of it */
    SC_VEC(sc_image_instr) instrs;
    SC_VEC(sc_image_value) inputs, outputs;
    SC_VEC(sc_state_copy) state_copies;
} sc_generator_func;

/* The unit that is being emitted. */
typedef struct sc_generator_unit {
    uint32_t number;
    sc_loc loc;   /* what buffers are for */
    bool instead; /* what is being emitted stands in for the product before it */
} sc_generator_unit;

typedef struct sc_generator {
    /* of the program */
    sc_arena *arena;
    const sc_generate_options *options;
    sc_generated *out;
    SC_VEC(sc_image_buffer) buffers;
    SC_VEC(sc_image_kernel) kernels;
    SC_VEC(sc_gemm) gemms;
    SC_VEC(sc_image_collective) collectives;
    SC_VEC(sc_image_group) groups;
    SC_VEC(sc_image_state) states;
    SC_VEC(sc_memory_wish) wishes;
    sc_map kernel_map, gemm_map;
    /* of the module that its functions are taken from at the moment */
    sc_module *m;
    uint32_t *state_buffer; /* by state of the module */
    uint32_t func_base;     /* of the program: the first function of the module */
    sc_dim batch_dim;       /* that micro-batches split; SC_NONE */
    sc_generator_func func;
    sc_generator_unit unit;
} sc_generator;

#define SC_LASTS (UINT32_MAX - 1)

/* ---- look-ups ---- */
bool sc_generator_is_cuda(const sc_generator *g);
/* Where a value is, or will be once the collective that brings it has finished. */
sc_image_ref sc_generator_read(const sc_generator *g, sc_value value);
/* Where an op's result is to stand: a new buffer, or the state's that it becomes the value of if `may_share` (the unit reads the state's
 * old value only where that is allowed). */
sc_image_ref sc_generator_write(sc_generator *g, sc_value value, sc_image_buffer_kind kind, bool may_share);
/* Whether the result will stand in the state's buffer where this operand is. */
bool sc_generator_overwrites(const sc_generator *g, sc_value result, sc_value operand);
bool sc_generator_is_input(const sc_generator_func *f, uint32_t buffer);
bool sc_generator_is_state(const sc_generator *g, uint32_t buffer);
uint32_t sc_generator_buffer(sc_generator *g, sc_image_buffer_kind kind, int64_t bytes, const char *name);
const char *sc_generator_name(const sc_generator *g, sc_value value);
sc_image_tensor sc_generator_tensor(const sc_generator *g, const sc_type_info *type);

/* ---- instructions ---- */
sc_image_instr *sc_generator_instr(sc_generator *g, sc_image_instr_kind kind, sc_op_id op, uint32_t index, const sc_image_ref *args,
                                   uint32_t arg_count);
void sc_generator_copy(sc_generator *g, sc_op_id op, sc_image_ref from, sc_image_ref to);

#endif
