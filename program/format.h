/* A compiled program, the interface between compiler and runtime. The compiler fills an sc_image,
 * the runtime executes it; in between it is serialized (program/bytes.h). Its pointers point into
 * one arena. Texts in an image that was read are never NULL; NULL is written as "".
 *
 * Every rank runs the same instructions. Numbers that depend on the rank (the offset of a shard,
 * the members of a group) are sums of terms of the rank's digits, so the size of a program does not
 * depend on the mesh. A digit is (rank / divide) % modulo, where divide * modulo divides the number
 * of ranks. Digits used together (in a group, in all parts of a tensor) are of different axes or
 * parts of axes.
 *
 * A program with pipeline stages has one image per stage. The ranks of a stage, those with the same
 * coordinate on the stage axis, run the same instructions; the axis may be any of the mesh. In all
 * these images ranks and digits are those of the whole mesh, and no tensor or group uses the digit
 * of the stage axis: what a tensor's digits describe are the ranks of its stage. Between stages
 * only messages move. */
#ifndef SHARDC_PROGRAM_FORMAT_H
#define SHARDC_PROGRAM_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#include "program/collective.h"
#include "program/gemm.h"
#include "program/shard_order.h"
#include "shardc/status.h"
#include "support/arena.h"
#include "support/dtype.h"
#include "support/join.h"
#include "support/none.h"
#include "support/state.h"

enum {
    SC_IMAGE_VERSION = 11,
    SC_IMAGE_MAX_RANK = 15,
    SC_IMAGE_ALIGN = 64 /* alignment of every buffer */,
    SC_IMAGE_STREAMS = 3,
    SC_IMAGE_MAX_RANKS = 1 << 16,
    SC_IMAGE_MAX_CHECKS = 0x7ffe,
    SC_IMAGE_VALUE_BITS = 48, /* bits of a value reported by a failed check */
    SC_IMAGE_MAX_STAGES = 5,  /* launches of one kernel */
    SC_IMAGE_MAX_SLOTS = 1 << 16,
    SC_IMAGE_MAX_BLOCKS = 0x7fffffff,
    SC_IMAGE_MAX_THREADS = 1024
};

/* One term of a rank-dependent number: ((rank / divide + plus) % modulo) * times. `plus`, less than
 * modulo, is 0 but for the parameters of kernels: it counts from another member of a ring. */
typedef struct sc_image_term {
    uint64_t divide, modulo;
    int64_t times;
    uint64_t plus;
} sc_image_term;

typedef struct sc_image_terms {
    uint32_t count;
    sc_image_term *terms;
} sc_image_terms;

typedef enum sc_image_reduce {
    SC_IMAGE_WHOLE,
    SC_IMAGE_SUM,
    SC_IMAGE_MAX,
    SC_IMAGE_MIN,
    SC_IMAGE_REDUCES
} sc_image_reduce;

extern const char *const sc_image_reduce_names[SC_IMAGE_REDUCES];

typedef struct sc_image_dim {
    const char *name;
    int64_t size;  /* global size */
    int64_t local; /* size on one rank; shards that extend beyond `size` contain padding */
    /* number of the rank's shard times `local`: where it begins in the global dim, but for a zigzag
     */
    sc_image_terms first;
    sc_shard_order order;
} sc_image_dim;

/* The digits of the rank that vary within a group, major first. They number its members. */
typedef struct sc_image_digit {
    uint64_t divide, modulo;
} sc_image_digit;

/* Which stages of a program have a value, and in which of their buffers. */
typedef struct sc_image_holders {
    sc_image_digit digit;    /* of the stage axis */
    const uint32_t *buffers; /* by stage; SC_NONE: the stage does not have the value */
} sc_image_holders;

/* A value at the interface: the global array, row-major; each rank holds `local` of it, dense and
 * row-major. Shards of a dim cover it in its order. Every digit of the rank is
 * in exactly one of the dims' `first`, `replica` and `part`. */
typedef struct sc_image_tensor {
    sc_dtype dtype;
    uint32_t rank;
    sc_image_dim dims[SC_IMAGE_MAX_RANK];
    /* 0 on exactly one of the ranks with the same shard, the one that returns it */
    sc_image_terms replica;
    sc_image_reduce partial; /* ranks hold terms of a reduction that has not been done */
    /* 0 on the rank that takes the value when a partial tensor is set; others take the neutral
     * element */
    sc_image_terms part;
    /* Of a program of several stages, as sc_program_read merges them; NULL: every rank has it. Not
     * part of an image */
    const sc_image_holders *holders;
} sc_image_tensor;

typedef enum sc_image_buffer_kind {
    SC_BUFFER_PARAM, /* these are state kinds: live as long as the session */
    SC_BUFFER_GRAD,
    SC_BUFFER_OPT,
    SC_BUFFER_CACHE,
    SC_BUFFER_OTHER_STATE, /* scalars, sums, counters, copies kept for a step */
    SC_BUFFER_SLOT,        /* what calls of a schedule leave to later ones: values for the backward
                              pass, and what messages move. Lives from call to call of a step */
    SC_BUFFER_ACT,         /* from here on: live within a call */
    SC_BUFFER_COMM,        /* result of a collective */
    SC_BUFFER_WORKSPACE,
    SC_BUFFER_KINDS
} sc_image_buffer_kind;

extern const char *const sc_image_buffer_kind_names[SC_BUFFER_KINDS];

/* A range of one of the rank's two arenas: of device memory, or of host memory, which only
 * transfers access. Buffers that are not live at the same time may overlap; an alias has the offset
 * of its target.
 *
 * A slot may have several copies, for micro-batches under way at the same time: a call for
 * micro-batch i accesses copy i % copies. The copies follow each other, sc_image_buffer_step
 * apart. */
typedef struct sc_image_buffer {
    sc_image_buffer_kind kind;
    int64_t bytes, offset; /* of the first copy; offset is a multiple of SC_IMAGE_ALIGN */
    uint32_t copies;       /* 1, or more of a slot */
    const char *name;      /* of the first value that it holds, for dumps and messages */
    bool host;             /* in the host arena */
} sc_image_buffer;

typedef struct sc_image_state {
    const char *path;
    uint8_t kind; /* sc_state_kind */
    uint8_t init; /* sc_init_kind */
    double init_args[2];
    sc_image_tensor tensor;
    uint32_t buffer;
    /* of a parameter: its copy in a wider dtype, set together with it; otherwise SC_NONE */
    uint32_t master;
} sc_image_state;

/* Kernel parameters other than buffers. */
typedef enum sc_image_param_kind {
    SC_PARAM_RANK,        /* sum of the terms */
    SC_PARAM_KEY,         /* sc_rng_key(seed, path_hash): word 0 low, word 1 high */
    SC_PARAM_STEP,        /* low 32 bits */
    SC_PARAM_MICRO_BATCH, /* of the call; 0 if it has none */
    SC_PARAM_KINDS
} sc_image_param_kind;

typedef struct sc_image_param {
    sc_image_param_kind kind;
    sc_image_terms terms; /* RANK */
    uint64_t path_hash;   /* KEY: sc_fnv1a64 of the op's path */
} sc_image_param;

/* How a kernel accesses an argument: the values of sc_kernel_arg_mode. */
typedef enum sc_image_access {
    SC_ACCESS_IN,
    SC_ACCESS_OUT,
    SC_ACCESS_INOUT,
    SC_ACCESS_KINDS
} sc_image_access;

typedef struct sc_image_arg {
    int64_t bytes; /* bytes that the kernel may access */
    uint8_t access;
    int64_t moved; /* that a call reads and writes, at most: of a gathered table those rows alone */
} sc_image_arg;

/* A GPU launch: `blocks` blocks of `threads` threads each, in one dimension. */
typedef struct sc_image_stage {
    int64_t blocks;        /* 1 .. SC_IMAGE_MAX_BLOCKS */
    uint32_t threads;      /* a multiple of 32, at most 1024 */
    uint32_t shared_bytes; /* shared memory per block */
} sc_image_stage;

/* A kernel.
 *
 * On CPUs: int64_t NAME(void *const *args, const int64_t *params), the function `symbol` of the
 * program's object. Returns 0, or the sc_image_failure of a failed check and its value (0 if the
 * check reports none): the minimum over all failures, i.e. the first check, and of its values the
 * least nonnegative one if there is one. Uses the calling thread's OpenMP team; results do not
 * depend on the team's size.
 *
 * On GPUs: one or more consecutive launches of the entries SYMBOL_0, SYMBOL_1, .. of the module
 * `symbol`, one per stage, with the parameters described in codegen/cuda/emit.h; scratch is the
 * last argument. */
typedef struct sc_image_kernel {
    const char *symbol;
    const char *title; /* description for dumps: "layernorm of h[*].ln1" */
    uint32_t arg_count, param_count;
    sc_image_arg *args;
    uint32_t check_count;
    /* "gather in {where}: id {value} is outside ..", to be filled with the instruction's `where`
     * and the value; {value/D} is the value over D in hundredths, rounded up */
    const char **checks;
    uint32_t stage_count; /* 0 on CPUs */
    sc_image_stage *stages;
    bool simple;    /* reference form, correct but slow: no other form fits */
    bool attention; /* reported separately in profiles */
} sc_image_kernel;

/* One call; its parts are communicated together. Buffers are contiguous: all_gather concatenates by
 * group rank, reduce_scatter returns the piece of the group rank, all_to_all exchanges equal
 * pieces; kernels before and after reorder dims. `counts`: elements of the full buffer of each part
 * (all_gather: of the result; reduce_scatter: of the operand; otherwise: of the local buffer). */
typedef struct sc_image_collective {
    sc_image_collective_kind kind;
    sc_image_reduce reduce; /* all_reduce, reduce_scatter */
    uint32_t group;         /* index in the image's groups */
    uint32_t part_count;
    sc_dtype *dtypes;
    int64_t *counts;
    /* all_to_all: elements of a row of each part, if a piece may have rows that need not be sent,
     * the last ones. The instruction then has two more arguments: how many rows of each piece it
     * sends, and how many it gets (i32, by group rank). What is not sent is to be `fills` (0 or -1,
     * of each byte). No such rows: row_count is 0 */
    uint32_t row_count;
    int64_t *rows, *fills;
    sc_image_terms to, from; /* group ranks. broadcast: from, equal on all; send: to; recv: from */
    uint32_t source_count;   /* permute: size of the group; otherwise 0 */
    uint32_t *sources;       /* permute, by group rank: the member to receive from; a permutation */
    const char *why;         /* the compiler's reason */
    const char *axes;        /* tp, fsdp */
} sc_image_collective;

typedef struct sc_image_group {
    uint32_t digit_count;
    sc_image_digit *digits;
    const char *axes;
} sc_image_group;

/* The stage of an image. */
typedef struct sc_image_pipeline {
    uint32_t count; /* of stages: the size of the axis, at least 2; 0: the program has no stages */
    uint32_t axis;  /* index of the stage axis in the image's axes */
    uint32_t stage; /* the image is of the ranks with this coordinate on the axis */
} sc_image_pipeline;

/* This stage's end of a FIFO to or from another stage: between the ranks of both that have the same
 * coordinates on all other axes, in one direction. Messages arrive in the order in which they were
 * sent. A message may end only when both ends have started it: nothing is buffered in between.
 * Messages that are still being sent when a schedule ends are waited for then.
 * The boundaries of an image are ordered by is_receive, peer and number, all different; the peer's
 * image has the other end of each. */
typedef struct sc_image_boundary {
    bool is_receive; /* the peer sends to this stage; otherwise this stage sends to the peer */
    uint32_t peer;   /* the other stage */
    uint32_t number; /* tells apart boundaries of the same stages and direction */
    uint32_t slots;  /* most messages that are started here and not waited for */
} sc_image_boundary;

/* One message through a boundary; its parts move together. Both ends declare equal parts. */
typedef struct sc_image_message {
    uint32_t boundary;
    uint32_t part_count;
    sc_dtype *dtypes;
    int64_t *counts;
    const char *why; /* the compiler's reason */
} sc_image_message;

typedef enum sc_image_instr_kind {
    SC_INSTR_KERNEL, /* index: kernel; args: its buffers */
    /* index: gemm; args: a, b, c, epilogue operands, scratch (if sc_image_gemm_scratch is not 0) */
    SC_INSTR_GEMM,
    SC_INSTR_COLLECTIVE, /* index: collective; args: source and destination of each part (send:
                            source; recv: destination). Starts it on its own stream, after the
                            preceding instructions on stream 0; until its FINISH no other
                            instruction accesses what it reads or writes */
    /* index: the instruction (of this function) whose collective or transfer stream 0 waits for;
       one per collective and transfer */
    SC_INSTR_FINISH,
    /* args: source and destination of each part, one of them in the host arena; copies that whole
       buffer. Starts the copy on its own stream, and a FINISH waits for it, as for a COLLECTIVE;
       but transfers run one after the other, so a later one may access what an earlier one does */
    SC_INSTR_TRANSFER,
    /* args: source, destination; copies the source's buffer from `at` to its end */
    SC_INSTR_COPY,
    /* index: message; args: the source or destination of each part. Starts to send or receive, on
       the boundary's own stream, after the preceding instructions on stream 0; until stream 0 has
       waited for it no other instruction writes what it reads, or accesses what it writes. It may
       be started again meanwhile, for another micro-batch */
    SC_INSTR_MESSAGE,
    /* index: boundary; stream 0 waits for the boundary's oldest message that nobody has waited for,
       which an earlier call of the schedule may have started. args: what may be accessed then */
    SC_INSTR_WAIT,
    /* index: boundary of a sender; stream 0 waits for the oldest messages as long as all slots of
       the boundary are in flight. args: what may be written then */
    SC_INSTR_ROOM,
    SC_INSTR_KINDS
} sc_image_instr_kind;

typedef struct sc_image_ref {
    uint32_t buffer;
    int64_t at; /* byte offset in the buffer */
} sc_image_ref;

typedef struct sc_image_instr {
    sc_image_instr_kind kind;
    /* 0 computes, 1 communicates, 2 transfers; each runs in list order, of 1 the collectives of
       each group */
    uint8_t stream;
    bool instead; /* KERNEL, GEMM: fallback for the matmul before it, the nearest instruction
                     without this mark; runs only if the device   cannot compute that in one call.
                     Writes only what the matmul would, and workspace */
    uint32_t index;
    uint32_t arg_count;
    sc_image_ref *args;
    uint32_t param_count;
    sc_image_param *params; /* KERNEL */
    const char *where;      /* scope or value, layers[3].attn */
    const char *phase;      /* forward, recompute, backward, update, init */
} sc_image_instr;

typedef struct sc_image_value {
    const char *name;
    sc_image_tensor tensor;
    uint32_t buffer;
    /* The dim split by micro-batches, of which the caller's array has as many times the size as
     * there are micro-batches; -1: none. Of an output: of a function of several micro-batches,
     * whose results are joined as rows */
    int32_t batch_dim;
    uint8_t join;    /* sc_join, of such an output */
    int64_t below;   /* of an input used as ids: valid values are 0 .. below - 1; 0: any value */
    bool may_ignore; /* `ignore` is also valid and means no id */
    int64_t ignore;
} sc_image_value;

typedef struct sc_image_call {
    uint32_t func;
    int32_t micro_batch; /* -1: none */
} sc_image_call;

/* A function, or an entry that is run as several micro-batches: a list of calls of other functions
 * without instructions of its own. The calls of a stage run as those of a schedule do: every rank
 * runs its own, and stages meet only in messages. Inputs are those of the calls; outputs, those of
 * one of the functions, are in slots that keep the results of all micro-batches. */
typedef struct sc_image_func {
    const char *name;
    uint32_t instr_count, input_count, output_count;
    sc_image_instr *instrs;
    /* in the order of the `input` ops; of the operands of `return` */
    sc_image_value *inputs, *outputs;
    uint32_t batches; /* micro-batches of its calls; 0: it has instructions */
    uint32_t call_count;
    sc_image_call *calls;
} sc_image_func;

typedef struct sc_image_axis {
    const char *name;
    uint64_t size;
} sc_image_axis;

typedef struct sc_image {
    const char *target; /* cpu, cuda:sm_90a */
    uint32_t nvrtc; /* the NVRTC that compiled the kernels, as CUDA numbers versions: 13000 is 13.0;
                       0: none did */
    uint32_t axis_count;
    sc_image_axis *axes; /* slowest first */
    uint64_t ranks;
    sc_image_pipeline pipeline;
    int64_t arena_bytes; /* total device memory of one rank */
    int64_t host_bytes;  /* total host memory of one rank: the host arena */
    uint32_t buffer_count, state_count, kernel_count, gemm_count, collective_count, group_count,
        boundary_count, message_count, func_count, call_count;
    sc_image_buffer *buffers;
    sc_image_state *states;
    sc_image_kernel *kernels;
    sc_gemm *gemms;
    sc_image_collective *collectives;
    sc_image_group *groups;
    sc_image_boundary *boundaries;
    sc_image_message *messages;
    sc_image_func *funcs;
    sc_image_call *schedule;
    size_t object_bytes;
    /* cpu: a shared object with the kernels' functions; cuda: an archive of modules
     * (program/archive.h) */
    const uint8_t *object;
    /* CPU features that the object requires: sc_cpu_features of the machine it was compiled for;
     * "": none */
    const char *cpu;
    /* of everything except object and CPU; ranks compare it before the first step. Set by
     * sc_image_read */
    uint64_t hash;
    /* JSON: the origin of the program and how it is run (entry, plan, optimizer, weights map) */
    const char *facts;
} sc_image;

#endif
