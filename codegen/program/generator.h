/* The state of program generation: the program's lists so far, where the values of the current
 * function are, and who reads them. Look-ups emit nothing. */
#ifndef SHARDC_CODEGEN_PROGRAM_GENERATOR_H
#define SHARDC_CODEGEN_PROGRAM_GENERATOR_H

#include "codegen/kernel/kernel.h"
#include "codegen/program/exchange.h"
#include "codegen/program/generate.h"

enum { SC_STAGING_AREAS = 2 }; /* of a kind of state */

/* An in-flight collective or copy between memories: what remains to be done before its first result
 * is read. */
typedef struct sc_in_flight {
    sc_op_id op;
    uint32_t instr;         /* the start; SC_NONE: finished */
    sc_image_ref *received; /* by result: where the pieces arrive */
    sc_kernel **unpack;     /* by result: puts them in order; NULL: they are in order */
} sc_in_flight;

/* A state's new value that could not be computed in its buffer. */
typedef struct sc_state_copy {
    sc_op_id op;
    sc_image_ref from, to;
} sc_state_copy;

/* A unit that is a sum, or begins with one, and waits for a matmul that reads what it sums. */
typedef struct sc_fused_sum {
    const sc_op_id *ops;
    uint32_t count, sum; /* sum: index of the sum in ops; later ops use its result */
    uint32_t operand;    /* of the matmul */
    bool is_added, is_done;
} sc_fused_sum;

/* Where a state that is stored in host memory is while the function uses it. */
typedef struct sc_staged_state {
    bool is_staged;     /* a copy of this function brings it into a staging area */
    bool is_filled;     /* the last such copy so far has been emitted, and these hold for it: */
    sc_image_ref place; /* in the area */
    uint32_t until;     /* the unit that fills the area with other states; SC_LASTS: none */
} sc_staged_state;

/* The current function. Its arrays are indexed by the module's ops, values or states, or by the
 * function's units. */
typedef struct sc_generator_func {
    sc_func_id id;
    /* computed before the first unit */
    bool *escapes; /* by value: another kernel or op reads it */
    uint32_t unit_count;
    uint32_t *unit_of;    /* by op: kernels and single ops, numbered in order */
    sc_value *root;       /* by value: the value whose bytes it aliases */
    sc_op_id *last_write; /* by state: the write that provides its final value */
    SC_VEC(sc_fused_sum) fused_sums;
    uint32_t *fused_sum_of; /* by op: 1 + the fused sum that waits for this matmul */
    bool *is_fused_sum;     /* by unit: it is a fused sum, emitted with its matmul */
    /* updated from unit to unit */
    uint32_t *last_read;       /* by root: the last unit that reads it; SC_LASTS: never dies */
    uint32_t *state_last_read; /* by state: likewise, for the value currently in its buffer */
    uint32_t *target;          /* by root: the state whose value it becomes; SC_NONE */
    sc_staged_state *staged;   /* by state */
    uint32_t *staged_until;    /* by op: of a copy into a staging area, the unit of the next one */
    uint32_t *becomes;         /* by value: the state that is written from it; SC_NONE */
    uint32_t *in_flight_of;    /* by root: 1 + the in-flight collective that produces it */
    sc_image_ref *place;       /* by value */
    sc_image_ref *sent_place;  /* by root: the slot to compute it in, because it is sent; SC_NONE */
    sc_op_id *first_send;      /* by root: the ops that send it, linked by next_send; SC_NONE */
    sc_op_id *next_send;       /* by op */
    uint32_t *arrives_with;    /* by value: 1 + the exchange to wait for before it is read */
    bool *has_room;            /* by exchange: waited for a slot of it */
    uint32_t *sent_count;      /* by exchange: values that are ready */
    SC_VEC(sc_in_flight) in_flight;
    uint32_t finished; /* all earlier collectives have finished */
    /* results */
    SC_VEC(sc_image_instr) instrs;
    SC_VEC(sc_image_value) inputs, outputs;
    SC_VEC(sc_state_copy) state_copies;
} sc_generator_func;

/* The unit being emitted. */
typedef struct sc_generator_unit {
    uint32_t number;
    sc_loc loc;   /* location recorded for its buffers */
    bool instead; /* the code being emitted is the fallback of the preceding GEMM */
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
    SC_VEC(sc_image_boundary) boundaries;
    SC_VEC(sc_image_message) messages;
    SC_VEC(sc_memory_wish) wishes;
    uint32_t stage; /* that the program is of; SC_ALL_STAGES_RUN: there are none */
    sc_map kernel_map, gemm_map;
    /* of the current module */
    sc_module *m;
    uint32_t *state_buffer;        /* by state of the module; SC_NONE: the stage does not have it */
    const sc_exchanges *exchanges; /* NULL: no stages */
    uint32_t *slot_of;             /* by value: the slot that is written from it; SC_NONE */
    sc_image_ref *received, *sent; /* by op: the place of what it receives or sends; SC_NONE */
    /* by kind of state: buffers of its staging areas; 0: none, else 1 + the buffer */
    uint32_t staging[SC_STATE_KINDS][SC_STAGING_AREAS];
    bool is_first_part;
    uint32_t func_index; /* in the program: of the function being emitted */
    sc_dim batch_dim;    /* split by micro-batches; SC_NONE */
    /* of an entry whose results are kept until all micro-batches have run; NULL: another part */
    const sc_batches *batches;
    const char *part_name;         /* of the part; NULL: it has none */
    const sc_generate_part *parts; /* all of the program */
    uint32_t part_count;
    uint32_t *number_of_func, *number_of_receive; /* in the image: by function of the part's module,
                                                   * by exchange of the part */
    sc_generator_func func;
    sc_generator_unit unit;
} sc_generator;

#define SC_LASTS (UINT32_MAX - 1)

/* ---- look-ups ---- */
bool sc_generator_is_cuda(const sc_generator *g);
/* Where a value is, or will be once its collective has finished. */
sc_image_ref sc_generator_read(const sc_generator *g, sc_value value);
/* Chooses where an op's result goes: a new buffer, or that of the state whose value it becomes if
 * `may_share` (the unit then reads the state's old value only where in-place is allowed). */
sc_image_ref sc_generator_write(sc_generator *g, sc_value value, sc_image_buffer_kind kind,
                                bool may_share);
/* Where a state is while the function computes: its buffer, or its place in a staging area. */
sc_image_ref sc_generator_place_of_state(const sc_generator *g, uint32_t state);
/* True if the result will be in the state buffer that holds this operand. */
bool sc_generator_overwrites(const sc_generator *g, sc_value result, sc_value operand);
bool sc_generator_is_input(const sc_generator_func *f, uint32_t buffer);
bool sc_generator_is_state(const sc_generator *g, uint32_t buffer);
uint32_t sc_generator_buffer(sc_generator *g, sc_image_buffer_kind kind, int64_t bytes,
                             const char *name);
const char *sc_generator_name(const sc_generator *g, sc_value value);
sc_image_tensor sc_generator_tensor(const sc_generator *g, const sc_type_info *type);

/* ---- instructions ---- */
sc_image_instr *sc_generator_instr(sc_generator *g, sc_image_instr_kind kind, sc_op_id op,
                                   uint32_t index, const sc_image_ref *args, uint32_t arg_count);
void sc_generator_copy(sc_generator *g, sc_op_id op, sc_image_ref from, sc_image_ref to);

#endif
