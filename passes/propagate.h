/* Shared by the files of propagation: seed.c lays the plan's lines on values, propagation.c carries them, propagate.c and place_update.c
 * say what is carried when. */
#ifndef SHARDC_PASSES_PROPAGATE_H
#define SHARDC_PASSES_PROPAGATE_H

#include "passes/assign.h"
#include "passes/pass.h"

/* Two lines that want one axis of one value for different dims, and the value that is told. */
typedef struct sc_conflict {
    const sc_seed *seed;
    uint32_t sub_axis, dim, other; /* other: the rule that has the sub-axis */
    sc_value last;                 /* where they met last */
    uint32_t more;                 /* other values */
} sc_conflict;

typedef struct sc_propagation {
    sc_module *m;
    sc_placing *placing;
    sc_assigner assigner;
    uint32_t *user_begin; /* users of value v: users[user_begin[v] .. user_begin[v + 1]) */
    sc_op_id *users;
    bool *queued; /* per op */
    SC_VEC(sc_op_id) active, next;
    bool *is_input;    /* per value: result of an input op, which takes no placement by propagation */
    uint8_t *stage_of; /* per op: sc_stage; ops and values of other stages than the current one are left alone */
    uint8_t stage;
    SC_VEC(sc_conflict) conflicts; /* not told yet */
} sc_propagation;

/* A forward program is placed first, by itself: training does not change it. Then what follows from it. */
typedef enum sc_stage { SC_STAGE_FORWARD, SC_STAGE_BACKWARD, SC_STAGE_UPDATE, SC_STAGE_COUNT } sc_stage;

/* ---- propagation.c ---- */
/* Everything whole but what the types say; env->placing and env->planner are made on first use. `p` has the module. */
void sc_propagation_init(sc_propagation *p, sc_pass_env *env);
/* From now on this stage is placed: all of its ops are woken. */
void sc_propagation_begin(sc_propagation *p, sc_stage stage);
/* To the fixpoint. */
void sc_propagation_run(sc_propagation *p);
/* Splits of every op of a function, and the types of its values and of the state that it reads. */
void sc_propagation_finish(sc_propagation *p, sc_func_id func);
/* Wakes the op that makes a value and those that read it. */
void sc_propagation_touch(sc_propagation *p, sc_value value);
/* From now on the sub-axis is of this factor of the op, the order-th of its sub-axes. */
void sc_lock_sub_axis(sc_propagation *p, sc_op_id op, uint32_t sub_axis, sc_dim dim, uint32_t order);
/* An op that uses a part of an axis leaves the rest of it alone. */
void sc_lock_out_rest(sc_propagation *p, sc_op_id op);

/* ---- seed.c ---- */
/* Lays seeds of these strengths on values, in the order pins, outputs, rules. False after a message (two lines want one axis of one
 * value for different dims). Storage seeds are laid by sc_lay_storage, after propagation. */
bool sc_lay_strong_seeds(sc_propagation *p, const sc_seeds *seeds);
bool sc_lay_weak_seeds(sc_propagation *p, const sc_seeds *seeds);
bool sc_lay_storage(sc_propagation *p, const sc_seeds *seeds);
/* withdraw.c: after free lines have spread, values that they split at a loss are whole again. `before`: by value, the sub-axes that split
 * it before these lines were laid. */
void sc_withdraw_weak_seeds(sc_propagation *p, const sc_sub_axis_set *before);

/* place_inputs.c: every entry input is split as far as all its readers want it so. */
void sc_place_inputs(sc_propagation *p);

/* place_step.c: what a train step adds. Before storage is laid: cotangents and recomputed values stand where their primals do, gradients
 * and optimizer state as the parameter is used. After: where the plan says nothing of them, gradients are stored like their parameter,
 * optimizer state like its gradient. */
void sc_place_backward(sc_propagation *p, const sc_train_step *step);
void sc_place_state(sc_propagation *p, const sc_train_step *step);
void sc_settle_state(sc_propagation *p, const sc_train_step *step, const sc_seeds *seeds);
/* A value where another one is, for the same reasons. */
void sc_place_like(sc_propagation *p, sc_value value, sc_value like);
/* The parameter that a state of the step belongs to; SC_NONE. */
uint32_t sc_param_of_state(const sc_train_step *step, uint32_t state);

#endif
