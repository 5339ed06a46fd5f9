/* Whatever runs a program here: a session, or the compiler's interpreter. Values are whole, as f64, whatever holds them. */
#ifndef SHARDC_RUNTIME_DRIVE_EXECUTOR_H
#define SHARDC_RUNTIME_DRIVE_EXECUTOR_H

#include "shardc/runtime.h"
#include "support/array.h"

/* A rank's shard of a state: dense and row-major, `local` elements a dim; `sizes` of them, its first, are those of the whole value from
 * `first` on, the rest is padding. */
typedef struct sc_shard_place {
    uint32_t rank; /* dims */
    int64_t first[SHARDC_TENSOR_MAX_RANK], sizes[SHARDC_TENSOR_MAX_RANK], local[SHARDC_TENSOR_MAX_RANK];
    bool is_given; /* of the ranks that hold it, this one gives it out */
} sc_shard_place;

/* What a machine does; errors are texts for the user. `self` is its own. */
typedef struct sc_machine_verbs {
    bool (*set_state)(void *self, uint32_t state, const double *values, shardc_error *error);
    sc_array (*get_state)(void *self, uint32_t state, shardc_error *error); /* malloc'd; data NULL: `error` says why */
    /* Initial values of parameters and their master copies. */
    bool (*initialise)(void *self, uint64_t seed, shardc_error *error);
    void (*set_random)(void *self, uint64_t seed, uint64_t step, uint32_t micro_batch);
    /* `outputs`: as many of the function's as are wanted, malloc'd here. */
    bool (*run)(void *self, uint32_t func, const sc_array *inputs, uint32_t input_count, sc_array *outputs, uint32_t output_count,
                shardc_error *error);
    /* The largest of the numbers that the processes say which run the program together; all must ask. False: they could not be asked,
     * which is a failure and no answer. NULL: there is one process. */
    bool (*most)(void *self, int32_t mine, int32_t *out, shardc_error *error);
    /* The shard of any rank of the program. */
    void (*place)(void *self, uint32_t state, uint64_t rank, sc_shard_place *out);
    /* That of a rank of this process, in the state's dtype: where it lies, or brought to `room`, of `room_bytes`. */
    bool (*read_shard)(void *self, uint32_t state, uint64_t rank, void *room, const void **out, shardc_error *error);
    /* Memory to fill (its own, or `room`); write_shard is told when it is full. A parameter's master copy is a state of its own here. */
    void *(*shard_room)(void *self, uint32_t state, uint64_t rank, void *room);
    bool (*write_shard)(void *self, uint32_t state, uint64_t rank, const void *filled, shardc_error *error);
    /* Each value becomes the sum of those of the processes that run the program together; all call it. NULL: there is one. */
    bool (*sum)(void *self, int64_t *values, uint32_t count, const char *what, shardc_error *error);
    void (*free)(void *self);
} sc_machine_verbs;

typedef struct sc_machine_func {
    const char *name;
    uint32_t input_count, output_count;
    shardc_tensor_info *inputs, *outputs; /* inputs: of one micro-batch */
} sc_machine_func;

typedef struct sc_machine_call {
    uint32_t func;
    int32_t micro_batch;
} sc_machine_call;

/* Everything is the machine's; `verbs` and `self` aside, it is for reading. */
typedef struct sc_machine {
    const sc_machine_verbs *verbs;
    void *self;
    uint32_t state_count, func_count, call_count, micro_batches;
    shardc_tensor_info *states;
    sc_machine_func *funcs;
    sc_machine_call *calls;           /* of a step */
    uint64_t ranks;                   /* of the program's mesh */
    uint32_t rank_count;              /* of the program, as far as files are concerned */
    uint32_t first_rank, local_ranks; /* those of this process */
    int64_t arena_bytes;              /* all memory of a rank; 0: not known beforehand */
    int64_t room_bytes;               /* for shards that lie elsewhere; 0: none does */
    bool is_first;                    /* this process prints and writes files: it is not, or is the first of, several */
} sc_machine;

/* Rooms of these counts, zero; false: no memory. */
bool sc_machine_reserve(sc_machine *machine, uint32_t states, uint32_t funcs, uint32_t calls);
bool sc_machine_reserve_func(sc_machine_func *func, uint32_t inputs, uint32_t outputs);
/* SHARDC_NOT_FOUND */
uint32_t sc_machine_find_state(const sc_machine *machine, const char *path);
void sc_machine_free(sc_machine *machine); /* NULL is allowed */

/* A machine that is a session of the program; both stay the caller's and outlive it. NULL: no memory. */
sc_machine *sc_machine_of_session(const shardc_executable *program, shardc_session *session);

#endif
