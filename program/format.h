/* A compiled program: where compiler and runtime meet. The compiler fills an sc_image, the runtime carries it out; between them it is bytes
 * (program/bytes.h). Its pointers point into one arena. Texts are never NULL in an image that was read; NULL is written as "".
 *
 * Every rank runs the same instructions. What depends on the rank are numbers, each a sum of terms of the rank's digits: where a shard
 * begins, who stands in a group. So a program's size does not depend on the mesh. A digit is (rank / divide) % modulo, where divide *
 * modulo divides the number of ranks; digits that stand together (in a group, in all of a tensor) are of other axes or parts of axes. */
#ifndef SHARDC_PROGRAM_FORMAT_H
#define SHARDC_PROGRAM_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#include "program/collective.h"
#include "program/gemm.h"
#include "shardc/status.h"
#include "support/arena.h"
#include "support/dtype.h"
#include "support/state.h"

enum {
    SC_IMAGE_VERSION = 5,
    SC_IMAGE_MAX_RANK = 15,
    SC_IMAGE_ALIGN = 64 /* of every buffer */,
    SC_IMAGE_STREAMS = 2,
    SC_IMAGE_MAX_RANKS = 1 << 16,
    SC_IMAGE_MAX_CHECKS = 0x7ffe,
    SC_IMAGE_VALUE_BITS = 48, /* of a value that fails a check */
    SC_IMAGE_MAX_STAGES = 4,
    SC_IMAGE_MAX_BLOCKS = 0x7fffffff,
    SC_IMAGE_MAX_THREADS = 1024
};
#define SC_IMAGE_NONE UINT32_MAX

/* A term of a number that depends on the rank: ((rank / divide) % modulo) * times. */
typedef struct sc_image_term {
    uint64_t divide, modulo;
    int64_t times;
} sc_image_term;

typedef struct sc_image_terms {
    uint32_t count;
    sc_image_term *terms;
} sc_image_terms;

/* The sum of the terms. */
int64_t sc_image_terms_value(const sc_image_terms *terms, uint64_t rank);

typedef enum sc_image_reduce { SC_IMAGE_WHOLE, SC_IMAGE_SUM, SC_IMAGE_MAX, SC_IMAGE_MIN, SC_IMAGE_REDUCES } sc_image_reduce;

extern const char *const sc_image_reduce_names[SC_IMAGE_REDUCES];

typedef struct sc_image_dim {
    const char *name;
    int64_t size;         /* of the whole tensor */
    int64_t local;        /* on one rank; shards that reach beyond `size` hold padding */
    sc_image_terms first; /* global index of the local element 0 */
} sc_image_dim;

/* A value as the outside sees it: whole, row-major; each rank holds `local` of it, dense and row-major. Shards of a dim are `local` apart
 * and cover it. Every digit of the rank is in one of the dims' `first`, in `replica` or in `part`, and in none twice. */
typedef struct sc_image_tensor {
    sc_dtype dtype;
    uint32_t rank;
    sc_image_dim dims[SC_IMAGE_MAX_RANK];
    sc_image_terms replica;  /* 0 on one of the ranks that hold the same shard: who gives it out */
    sc_image_reduce partial; /* ranks hold terms of a reduction that did not happen */
    sc_image_terms part;     /* 0 on the rank that, set from outside, takes the whole of a partial reduction, the others nothing */
} sc_image_tensor;

/* Bytes of the local array. */
int64_t sc_image_tensor_bytes(const sc_image_tensor *tensor);

typedef enum sc_image_buffer_kind {
    SC_BUFFER_PARAM, /* the state kinds: live as long as the session */
    SC_BUFFER_GRAD,
    SC_BUFFER_OPT,
    SC_BUFFER_CACHE,
    SC_BUFFER_OTHER_STATE, /* scalars, sums, counters, copies that live for a step */
    SC_BUFFER_ACT,         /* the rest lives within a call */
    SC_BUFFER_COMM,        /* made by a collective */
    SC_BUFFER_WORKSPACE,
    SC_BUFFER_KINDS
} sc_image_buffer_kind;

extern const char *const sc_image_buffer_kind_names[SC_BUFFER_KINDS];

/* A place in the rank's arena. Two buffers whose lives do not meet may overlap; the alias of another has its offset. */
typedef struct sc_image_buffer {
    sc_image_buffer_kind kind;
    int64_t bytes, offset; /* offset: a multiple of SC_IMAGE_ALIGN */
    const char *name;      /* of the value that it holds first, for dumps and messages */
} sc_image_buffer;

typedef struct sc_image_state {
    const char *path;
    uint8_t kind; /* sc_state_kind */
    uint8_t init; /* sc_init_kind */
    double init_args[2];
    sc_image_tensor tensor;
    uint32_t buffer;
    uint32_t master; /* of a parameter: the state that holds its values in a wider dtype and is set whenever it is; else SC_IMAGE_NONE */
} sc_image_state;

/* What a kernel is given besides buffers. */
typedef enum sc_image_param_kind {
    SC_PARAM_RANK,        /* the terms' sum */
    SC_PARAM_KEY,         /* sc_rng_key(seed, path_hash): word 0 low, word 1 high */
    SC_PARAM_STEP,        /* low 32 bits */
    SC_PARAM_MICRO_BATCH, /* of the call; 0 where it has none */
    SC_PARAM_KINDS
} sc_image_param_kind;

typedef struct sc_image_param {
    sc_image_param_kind kind;
    sc_image_terms terms; /* RANK */
    uint64_t path_hash;   /* KEY: sc_fnv1a64 of the op's path */
} sc_image_param;

/* What a kernel does with an argument: the values of sc_kernel_arg_mode. */
typedef enum sc_image_access { SC_ACCESS_IN, SC_ACCESS_OUT, SC_ACCESS_INOUT, SC_ACCESS_KINDS } sc_image_access;

typedef struct sc_image_arg {
    int64_t bytes; /* that the kernel may touch */
    uint8_t access;
} sc_image_arg;

/* A launch on a GPU: `blocks` blocks of `threads` threads each, in one dimension. */
typedef struct sc_image_stage {
    int64_t blocks;        /* 1 .. SC_IMAGE_MAX_BLOCKS */
    uint32_t threads;      /* a multiple of 32, at most 1024 */
    uint32_t shared_bytes; /* of a block */
} sc_image_stage;

/* On CPUs: int64_t NAME(void *const *args, const int64_t *params): 0, or sc_image_failure of a check and the value that failed it (0
 * where the check shows none): the least of all failures, so the first check, and of its values the least that is not negative, if there is
 * one. Uses the calling thread's OpenMP team; results do not depend on the size of the team. The function is at `symbol` of the program's
 * object. On GPUs: one or more launches, one after the other, of the entries SYMBOL_0, SYMBOL_1, .. of the module `symbol`, one a stage,
 * with the parameters that codegen/cuda/emit.h says; scratch is the last argument. */
typedef struct sc_image_kernel {
    const char *symbol;
    const char *title; /* what it computes, for dumps: "layernorm of h[*].ln1" */
    uint32_t arg_count, param_count;
    sc_image_arg *args;
    uint32_t check_count;
    const char **checks;  /* "gather in {where}: id {value} is outside ..": the instruction's `where` and the value take the places */
    uint32_t stage_count; /* 0 on CPUs */
    sc_image_stage *stages;
    bool simple;    /* correct, not fast: no other form fits */
    bool attention; /* profiles tell it apart */
} sc_image_kernel;

/* One call: parts travel together. Buffers are contiguous: all_gather concatenates by group rank, reduce_scatter gives the part of the
 * group rank, all_to_all exchanges equal parts; kernels before and after put dims in order. `count`: elements of the full buffer of each
 * part (all_gather: of the result; reduce_scatter: of the operand; else: of the local buffer). */
typedef struct sc_image_collective {
    sc_image_collective_kind kind;
    sc_image_reduce reduce; /* all_reduce, reduce_scatter */
    uint32_t group;         /* index in the image's groups */
    uint32_t part_count;
    sc_dtype *dtypes;
    int64_t *counts;
    sc_image_terms to, from; /* group ranks. broadcast: from, the same for all; send: to; recv: from */
    uint32_t source_count;   /* permute: the size of the group; else 0 */
    uint32_t *sources;       /* permute, by group rank: the one that it receives from, each from another */
    const char *why;         /* the reason, as the compiler gives it */
    const char *axes;        /* tp, fsdp */
} sc_image_collective;

/* Digits of the rank that vary within a group, major first: its members in order. */
typedef struct sc_image_digit {
    uint64_t divide, modulo;
} sc_image_digit;

typedef struct sc_image_group {
    uint32_t digit_count;
    sc_image_digit *digits;
    const char *axes;
} sc_image_group;

typedef enum sc_image_instr_kind {
    SC_INSTR_KERNEL,     /* index: kernel; args: its buffers */
    SC_INSTR_GEMM,       /* index: gemm; args: a, b, c, epilogue operands, scratch (where sc_image_gemm_scratch is not 0) */
    SC_INSTR_COLLECTIVE, /* index: collective; args: source and destination of each part (send: source; recv: destination); starts it, on
                            its own stream: it may begin when what stands before it on stream 0 is done, and what it reads or writes is
                            touched by nobody until its FINISH */
    SC_INSTR_FINISH,     /* index: the instruction (in this function) whose collective must have ended before stream 0 goes on; each
                            collective has one */
    SC_INSTR_COPY,       /* args: source, destination; bytes: the source's buffer from `at` to its end */
    SC_INSTR_KINDS
} sc_image_instr_kind;

typedef struct sc_image_ref {
    uint32_t buffer;
    int64_t at; /* bytes from the buffer's first */
} sc_image_ref;

typedef struct sc_image_instr {
    sc_image_instr_kind kind;
    uint8_t stream; /* 0 computes, 1 moves; in each the order is that of the list */
    bool instead;   /* KERNEL, GEMM: only where the device does not compute the product before it (the nearest that has no such mark) in one
                       go: these then do. They write nothing that it would not, but workspace */
    uint32_t index;
    uint32_t arg_count;
    sc_image_ref *args;
    uint32_t param_count;
    sc_image_param *params; /* KERNEL */
    const char *where;      /* scope or value: layers[3].attn */
    const char *phase;      /* forward, recompute, backward, update, init */
} sc_image_instr;

typedef struct sc_image_value {
    const char *name;
    sc_image_tensor tensor;
    uint32_t buffer;
    int32_t batch_dim; /* of an input: the dim that micro-batches split: a step is given as many times its size as it has; -1: none */
    int64_t below;     /* of an input that ids come from: each is at least 0 and less than this; 0: any value will do */
    bool may_ignore;   /* or it is `ignore`, which stands for no id */
    int64_t ignore;
} sc_image_value;

typedef struct sc_image_func {
    const char *name;
    uint32_t instr_count, input_count, output_count;
    sc_image_instr *instrs;
    sc_image_value *inputs, *outputs; /* in the order of the `input` ops; of `return` */
} sc_image_func;

typedef struct sc_image_call {
    uint32_t func;
    int32_t micro_batch; /* -1: none */
} sc_image_call;

typedef struct sc_image_axis {
    const char *name;
    uint64_t size;
} sc_image_axis;

typedef struct sc_image {
    const char *target; /* cpu, cuda:sm_90a */
    uint32_t axis_count;
    sc_image_axis *axes; /* slowest first */
    uint64_t ranks;
    int64_t arena_bytes; /* of one rank: all that it ever needs */
    uint32_t buffer_count, state_count, kernel_count, gemm_count, collective_count, group_count, func_count, call_count;
    sc_image_buffer *buffers;
    sc_image_state *states;
    sc_image_kernel *kernels;
    sc_gemm *gemms;
    sc_image_collective *collectives;
    sc_image_group *groups;
    sc_image_func *funcs;
    sc_image_call *schedule;
    size_t object_bytes;
    const uint8_t *object; /* cpu: a shared object with the kernels' functions; cuda: an archive of modules (program/archive.h) */
    const char *cpu;       /* what the object's code needs: sc_cpu_features of the machine that it was compiled for; "": nothing */
    uint64_t hash;         /* of everything but object and CPU: ranks compare it before the first step. Set by sc_image_read */
    const char *facts;     /* JSON: what the program came from and how it is driven (entry, plan, optimizer, weights map) */
} sc_image;

/* (1 + check) << 48 | the low 48 bits of the value: compared as integers, the order of failures. */
static inline int64_t sc_image_failure(uint32_t check, int64_t value)
{
    const int64_t mask = ((int64_t)1 << SC_IMAGE_VALUE_BITS) - 1;
    return ((int64_t)check + 1) << SC_IMAGE_VALUE_BITS | (value & mask);
}

static inline uint32_t sc_image_failed_check(int64_t failure)
{
    return (uint32_t)(failure >> SC_IMAGE_VALUE_BITS) - 1;
}

static inline int64_t sc_image_failed_value(int64_t failure)
{
    const int64_t half = (int64_t)1 << (SC_IMAGE_VALUE_BITS - 1);
    return (failure & (2 * half - 1)) - ((failure & half) != 0 ? 2 * half : 0);
}

/* Ranks of the group that `rank` stands in, and which of them it is. */
uint64_t sc_image_group_size(const sc_image_group *group);
uint64_t sc_image_group_rank(const sc_image_group *group, uint64_t rank);
/* Its member `index`, below the size. */
uint64_t sc_image_group_member(const sc_image_group *group, uint64_t rank, uint64_t index);
/* Of the states that a training state is made of, parameters and optimizer state, the one whose local array is largest: what a device
 * without host memory needs room for when states are saved or read. SC_IMAGE_NONE: there is none. */
uint32_t sc_image_largest_saved(const sc_image *image);
/* Elements of one part that a rank gives; gets. */
int64_t sc_image_source_count(const sc_image *image, const sc_image_collective *collective, uint32_t part);
int64_t sc_image_destination_count(const sc_image *image, const sc_image_collective *collective, uint32_t part);

/* Scratch that a product is given on the target, aligned to SC_IMAGE_ALIGN; 0: none. */
int64_t sc_image_gemm_scratch(const char *target, const sc_gemm *gemm);

#endif
