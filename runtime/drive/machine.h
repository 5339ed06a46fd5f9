/* Whatever runs a program here: a session, or the compiler's interpreter. Values are whole, as f64, whatever holds them. */
#ifndef SHARDC_RUNTIME_DRIVE_MACHINE_H
#define SHARDC_RUNTIME_DRIVE_MACHINE_H

#include "shardc/runtime.h"
#include "support/array.h"

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
    sc_machine_call *calls; /* of a step */
    bool is_first;          /* this process prints and writes files: it is not, or is the first of, several */
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
