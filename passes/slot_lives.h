/* How long the copies of slots live: what a stage keeps between the calls of its micro-batches. */
#ifndef SHARDC_PASSES_SLOT_LIVES_H
#define SHARDC_PASSES_SLOT_LIVES_H

#include "ir/ops/ops.h"

/* The copy of one micro-batch lives from the call that writes it to the last one that reads it. */
typedef struct sc_slot_life {
    uint32_t state;
    uint32_t first, last; /* calls of the schedule */
} sc_slot_life;

typedef struct sc_slot_lives {
    SC_VEC(sc_slot_life) list;
    /* by call: of a rank, of all copies that live during it, on the device and in host memory */
    int64_t *bytes, *host_bytes;
} sc_slot_lives;

/* Finds those of the slots that the functions of a stage use. Memory is the context's. */
void sc_slot_lives_find(const sc_module *m, uint32_t stage, sc_slot_lives *out);

/* By state: true if a function of the stage reads or writes it; SC_ALL_STAGES_RUN: all true. State
 * that no function uses is on the first stage. */
bool *sc_states_of_stage(const sc_module *m, uint32_t stage);

#endif
