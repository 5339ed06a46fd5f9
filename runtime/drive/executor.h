/* The executor interface, implemented by a session and by the compiler's interpreter. Values are
 * full tensors, passed as f64. */
#ifndef SHARDC_RUNTIME_DRIVE_EXECUTOR_H
#define SHARDC_RUNTIME_DRIVE_EXECUTOR_H

#include <stdio.h>

#include "shardc/runtime.h"
#include "support/array.h"

/* A rank's shard of a state: dense and row-major with `local` elements along each dim. The first
 * `sizes` of them are those of the full tensor from `first` on, the rest is padding. */
typedef struct sc_shard_place {
    uint32_t rank; /* number of dims */
    int64_t first[SHARDC_TENSOR_MAX_RANK], sizes[SHARDC_TENSOR_MAX_RANK],
        local[SHARDC_TENSOR_MAX_RANK];
    bool is_held;  /* this rank holds it: its stage has the tensor */
    bool is_given; /* this rank is the first of those that hold the shard */
} sc_shard_place;

/* Inputs by name. */
typedef struct sc_named_arrays {
    const char *const *names;
    const sc_array *arrays;
    uint32_t count;
} sc_named_arrays;

/* Operations of an executor; errors are texts for the user. `self` is its own state. */
typedef struct sc_executor_verbs {
    bool (*set_state)(void *self, uint32_t state, const double *values, shardc_error *error);
    /* malloc'd; data NULL after an error */
    sc_array (*get_state)(void *self, uint32_t state, shardc_error *error);
    /* Sets the initial values of parameters and their master copies. */
    bool (*initialise)(void *self, uint64_t seed, shardc_error *error);
    void (*set_random)(void *self, uint64_t seed, uint64_t step, uint32_t micro_batch);
    /* Runs a function. Inputs in any order, by their names; those that it does not read are
     * skipped. `outputs`: its first ones, as many as wanted; malloc'd by the executor. */
    bool (*run)(void *self, uint32_t func, const sc_named_arrays *inputs, sc_array *outputs,
                uint32_t output_count, shardc_error *error);
    /* Runs a train step: all its calls. Inputs are of the global batch; outputs those of the last
     * call. */
    bool (*step)(void *self, const sc_named_arrays *inputs, sc_array *outputs,
                 uint32_t output_count, shardc_error *error);
    /* Computes the maximum of `mine` over the processes that run the program; every process must
     * call it. False: communication failed. NULL: there is one process. */
    bool (*most)(void *self, int32_t mine, int32_t *out, shardc_error *error);
    /* Gets the place of any rank's shard. */
    void (*place)(void *self, uint32_t state, uint64_t rank, sc_shard_place *out);
    /* Gets the shard of a rank of this process, in the state's dtype: a pointer to it, or a copy in
     * `room`, of `room_bytes`. */
    bool (*read_shard)(void *self, uint32_t state, uint64_t rank, void *room, const void **out,
                       shardc_error *error);
    /* Returns memory to fill with a shard (the executor's, or `room`); write_shard then stores it.
     * A parameter's master copy is a separate state here. */
    void *(*shard_room)(void *self, uint32_t state, uint64_t rank, void *room);
    bool (*write_shard)(void *self, uint32_t state, uint64_t rank, const void *filled,
                        shardc_error *error);
    /* Sums each value over the processes that run the program; every process must call it. NULL:
     * there is one process. */
    bool (*sum)(void *self, int64_t *values, uint32_t count, const char *what, shardc_error *error);
    /* Marks those of an input's `count` rows (what its dims but the last count, of the global
     * batch) that ranks of this process read in a call of the function, or (SC_NONE) in a step.
     * NULL: they read all. */
    void (*mark_rows)(void *self, uint32_t func, const char *input, bool *rows, uint64_t count);
    void (*free)(void *self);
} sc_executor_verbs;

typedef struct sc_executor_func {
    const char *name;
    uint32_t input_count, output_count;
    shardc_tensor_info *inputs, *outputs; /* inputs: of one micro-batch */
} sc_executor_func;

/* Owned by the executor. Read-only, except through `verbs` with `self`. */
typedef struct sc_executor {
    const sc_executor_verbs *verbs;
    void *self;
    uint32_t state_count, func_count, micro_batches;
    shardc_tensor_info *states;
    sc_executor_func *funcs;
    sc_executor_func step; /* a train step, if there is one; its outputs are those of its end */
    uint64_t ranks;        /* of the program's mesh */
    /* ranks that checkpoint files distinguish: the program's; for the interpreter 1 */
    uint32_t rank_count;
    uint32_t first_rank, local_ranks; /* ranks of this process */
    int64_t arena_bytes;              /* total memory of one rank; 0: unknown in advance */
    int64_t room_bytes;               /* for shards in device memory; 0: none are */
    /* this process prints and writes files: there is only one, or it is the first */
    bool is_first;
} sc_executor;

/* Allocates zeroed arrays of these counts; false: out of memory. */
bool sc_executor_reserve(sc_executor *executor, uint32_t states, uint32_t funcs);
bool sc_executor_reserve_func(sc_executor_func *func, uint32_t inputs, uint32_t outputs);
/* Returns the input of that name, or NULL. */
const shardc_tensor_info *sc_executor_find_input(const sc_executor_func *func, const char *name);
/* Returns SHARDC_NOT_FOUND if there is none. */
uint32_t sc_executor_find_state(const sc_executor *executor, const char *path);
void sc_executor_free(sc_executor *executor); /* NULL is allowed */

/* Creates an executor for a session of the program; both stay the caller's and must outlive it.
 * NULL: out of memory. */
sc_executor *sc_executor_of_session(const shardc_executable *program, shardc_session *session);
/* At a session's end (NULL: there was none): a line if functions could not be recorded as graphs.
 */
void sc_session_say_graphs(const shardc_session *session, FILE *to);

#endif
