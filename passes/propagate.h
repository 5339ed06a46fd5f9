/* Shared by the files of propagation: seed.c lays the plan's lines on values, propagate.c carries them. */
#ifndef SHARDC_PASSES_PROPAGATE_H
#define SHARDC_PASSES_PROPAGATE_H

#include "passes/assign.h"
#include "passes/pass.h"

typedef struct sc_propagation {
    sc_module *m;
    sc_placing *placing;
    sc_assigner assigner;
    uint32_t *user_begin; /* users of value v: users[user_begin[v] .. user_begin[v + 1]) */
    sc_op_id *users;
    bool *queued; /* per op */
    SC_VEC(sc_op_id) active, next;
    bool *is_input; /* per value: result of an input op, which takes no placement by propagation */
} sc_propagation;

/* Wakes the op that makes a value and those that read it. */
void sc_propagation_touch(sc_propagation *p, sc_value value);

/* Lays seeds of these strengths on values, in the order pins, outputs, rules. False after a message (two lines want one axis of one
 * value for different dims). Storage seeds are laid by sc_lay_storage, after propagation. */
bool sc_lay_strong_seeds(sc_propagation *p, const sc_seeds *seeds);
bool sc_lay_weak_seeds(sc_propagation *p, const sc_seeds *seeds);
bool sc_lay_storage(sc_propagation *p, const sc_seeds *seeds);

#endif
