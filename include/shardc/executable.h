/* Reading compiled programs: their states, inputs, outputs and calls. Ownership, threads and errors
 * are as in shardc/runtime.h, which runs them. */
#ifndef SHARDC_EXECUTABLE_H
#define SHARDC_EXECUTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shardc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SHARDC_TENSOR_MAX_RANK = 15 };
#define SHARDC_NOT_FOUND UINT32_MAX

/* as a CUmodule or an ncclComm_t: opaque, made and freed by calls */
typedef struct shardc_executable shardc_executable;

/* Reads and checks a program: what shardc_compile returned, or a whole file that `shardc build`
 * wrote, whose checksum covers all of it. The object code is trusted once its checksum matches.
 * `bytes` may be freed afterwards. */
SHARDC_API shardc_status shardc_executable_read(const void *bytes, size_t size,
                                                shardc_executable **out, shardc_error *error);
SHARDC_API shardc_status shardc_executable_open(const char *path, shardc_executable **out,
                                                shardc_error *error);
/* NULL is allowed; after its sessions */
SHARDC_API void shardc_executable_free(shardc_executable *program);

SHARDC_API uint64_t shardc_executable_ranks(const shardc_executable *program);
/* memory of one rank, all of it */
SHARDC_API int64_t shardc_executable_arena_bytes(const shardc_executable *program);
/* of everything but the object code */
SHARDC_API uint64_t shardc_executable_hash(const shardc_executable *program);
/* cpu, cuda:sm_90a, .. */
SHARDC_API const char *shardc_executable_target(const shardc_executable *program);
/* JSON; the executable's */
SHARDC_API const char *shardc_executable_facts(const shardc_executable *program);

/* A state, an input or an output. The strings belong to the executable. */
typedef struct shardc_tensor_info {
    const char *name; /* of a state its path, layers[0].attn.wq; "" for an output without a name */
    /* of a state: param, cache, grad, opt, scalar, gathered, sum; else input, output */
    const char *kind;
    const char *dtype; /* f32, f64, bf16, f16, i32, i64, u8, bool */
    uint32_t rank;
    struct {
        const char *name;
        int64_t size;  /* of the full tensor */
        int64_t local; /* of a rank's shard, with padding */
    } dims[SHARDC_TENSOR_MAX_RANK];
    /* elements: of the full tensor, of a rank's shard. Of a function that runs as several
     * micro-batches the full tensor has all of them, a shard is of one */
    int64_t count, local_count;
    int32_t batch_dim; /* of an input: the dim that micro-batches split, or -1 */
    /* of an input of ids: valid ids are 0 .. below - 1; 0: the input has no such bound */
    int64_t below;
    bool may_ignore; /* the id `ignore` is valid, too: no row */
    int64_t ignore;
    /* ranks hold partial sums (DTensor's Partial placement); values pass this interface reduced */
    bool is_partial;
    const void *tensor; /* for shardc_tensor_shard */
} shardc_tensor_info;

SHARDC_API uint32_t shardc_executable_state_count(const shardc_executable *program);
/* or SHARDC_NOT_FOUND */
SHARDC_API uint32_t shardc_executable_find_state(const shardc_executable *program,
                                                 const char *path);
SHARDC_API void shardc_executable_state(const shardc_executable *program, uint32_t state,
                                        shardc_tensor_info *out);

SHARDC_API uint32_t shardc_executable_func_count(const shardc_executable *program);
/* or SHARDC_NOT_FOUND */
SHARDC_API uint32_t shardc_executable_find_func(const shardc_executable *program, const char *name);
SHARDC_API const char *shardc_executable_func(const shardc_executable *program, uint32_t func);
SHARDC_API uint32_t shardc_executable_input_count(const shardc_executable *program, uint32_t func);
SHARDC_API uint32_t shardc_executable_output_count(const shardc_executable *program, uint32_t func);
SHARDC_API void shardc_executable_input(const shardc_executable *program, uint32_t func,
                                        uint32_t input, shardc_tensor_info *out);
SHARDC_API void shardc_executable_output(const shardc_executable *program, uint32_t func,
                                         uint32_t output, shardc_tensor_info *out);

/* The calls of a step, in order: the function and its micro-batch, or -1. */
SHARDC_API uint32_t shardc_executable_call_count(const shardc_executable *program);
SHARDC_API uint32_t shardc_executable_call(const shardc_executable *program, uint32_t call,
                                           int32_t *out_micro_batch);
/* of a step; 1 when nothing is split */
SHARDC_API uint32_t shardc_executable_micro_batches(const shardc_executable *program);

/* Where the rank's shard begins, by dim: element i of the shard is element first + i of the full
 * tensor; elements past its end are padding. Of a dim that is split zigzag this holds for the first
 * chunk. Returns whether this rank is the first of those that
 * hold the same shard. */
SHARDC_API bool shardc_tensor_shard(const shardc_tensor_info *info, uint64_t rank,
                                    int64_t first[SHARDC_TENSOR_MAX_RANK]);

#ifdef __cplusplus
}
#endif

#endif
