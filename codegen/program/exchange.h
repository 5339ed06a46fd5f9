/* How the stages of a pipeline pass values: what the generator of each stage must know of the
 * others. From a module that is cut into functions of stages (passes/cut_stages.c).
 *
 * What a function sends to one function of another stage is one message, through a boundary of
 * these two functions. The sender starts it when its values are computed and goes on. The receiver
 * starts it in a call of its own, right after the call of the function that received the one
 * before, so that it arrives while other calls compute:
 *
 *   stage 0   F0 0   F0 1            B0<B1 0   B0 0   B0<B1 1   ..
 *   stage 1   F1<F0 0   F1 0   F1<F0 1   B1 0   F1 1   F1<F0 2   B1 1   ..
 *
 * A sender waits until the boundary has room: until the message `slots` before this one has
 * ended. */
#ifndef SHARDC_CODEGEN_PROGRAM_EXCHANGE_H
#define SHARDC_CODEGEN_PROGRAM_EXCHANGE_H

#include "ir/ops/ops.h"

/* The messages of one pair of functions. */
typedef struct sc_exchange {
    sc_func_id from, to;
    uint32_t from_stage, to_stage;
    uint32_t number;     /* of the boundary, among those from one stage to the other */
    uint32_t slots;      /* messages that may be under way: the fewest with which all calls end */
    bool starts_in_func; /* the receive is started by `to` itself */
    SC_VEC(sc_op_id) sends, recvs; /* of the same values */
} sc_exchange;

/* A call of a stage. */
typedef struct sc_stage_call {
    sc_func_id func;   /* SC_NONE: of a function that does nothing, the stage's last call */
    uint32_t exchange; /* SC_NONE: of `func`; otherwise it starts to receive */
    int32_t micro_batch;
} sc_stage_call;

typedef SC_VEC(sc_stage_call) sc_stage_calls;

typedef struct sc_exchanges {
    SC_VEC(sc_exchange) list;
    uint32_t *of_op;       /* by op: the exchange of a send or receive */
    sc_stage_calls *calls; /* by stage: its list of calls; empty if it has one */
    /* copies of what is kept from call to call, one for each micro-batch under way: by state, of
     * slots; by value, of what is sent or received and is in no slot, at the root of it */
    uint32_t *copies_of_state, *copies_of_value;
} sc_exchanges;

/* The value whose bytes a value has: behind views that are no kernels. */
bool sc_is_view(const sc_op *op); /* its result has its operand's bytes */
sc_value sc_root_of(const sc_module *m, sc_value value);

/* What the module's schedule is of. */
typedef enum sc_calls_of {
    SC_CALLS_OF_STEP,    /* before the last calls, which update the state, all ranks meet */
    SC_CALLS_OF_BATCHES, /* an entry's micro-batches: nothing follows them */
    SC_CALLS_OF_ENTRY    /* an entry: all functions of a stage are one, which is called once */
} sc_calls_of;

/* Finds them, in the module's arena. Linear in the module and the schedule. Returns NULL, or why
 * the calls do not end. */
const char *sc_exchanges_find(const sc_module *m, sc_calls_of calls, sc_exchanges *out);

#endif
