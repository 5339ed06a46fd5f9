/* Shared by the files of propagation. seed.c applies the plan's lines to values, propagation.c
 * propagates placements, propagate.c and place_update.c run the stages. */
#ifndef SHARDC_PASSES_PROPAGATE_H
#define SHARDC_PASSES_PROPAGATE_H

#include "passes/assign.h"
#include "passes/pass.h"

/* Two lines that place one axis of a value on different dims, and the value to report. */
typedef struct sc_conflict {
    const sc_seed *seed;
    uint32_t sub_axis, dim, other; /* other: the rule that already has the sub-axis */
    sc_value last;                 /* the last value where they conflict */
    uint32_t more;                 /* number of other values */
} sc_conflict;

typedef struct sc_propagation {
    sc_module *m;
    sc_placing *placing;
    sc_assigner assigner;
    uint32_t *user_begin; /* users of value v: users[user_begin[v] .. user_begin[v + 1]) */
    sc_op_id *users;
    bool *queued; /* per op */
    SC_VEC(sc_op_id) active, next;
    bool *is_input; /* per value: result of an input op, which propagation does not place */
    /* per op: sc_stage; ops and values of other stages than the current one are not changed */
    uint8_t *stage_of;
    uint8_t stage;
    SC_VEC(sc_conflict) conflicts; /* not reported yet */
} sc_propagation;

/* The forward program is placed first, on its own, so training does not change it. The later stages
 * derive from it. */
typedef enum sc_stage {
    SC_STAGE_FORWARD,
    SC_STAGE_BACKWARD,
    SC_STAGE_UPDATE,
    SC_STAGE_COUNT
} sc_stage;

/* ---- propagation.c ---- */
/* Initializes every placement to replicated except as given by types; creates env->placing and
 * env->planner on first use. `p` has the module. */
void sc_propagation_init(sc_propagation *p, sc_pass_env *env);
/* Starts placing a stage: adds all its ops to the worklist. */
void sc_propagation_begin(sc_propagation *p, sc_stage stage);
/* Runs to the fixpoint. */
void sc_propagation_run(sc_propagation *p);
/* Stores the splits of every op of a function, and the types of its values and of the state that it
 * reads. */
void sc_propagation_finish(sc_propagation *p, sc_func_id func);
/* Adds the defining op of a value and its readers to the worklist. */
void sc_propagation_touch(sc_propagation *p, sc_value value);
/* Locks the sub-axis to this factor of the op, as the order-th of the factor's sub-axes. */
void sc_lock_sub_axis(sc_propagation *p, sc_op_id op, uint32_t sub_axis, sc_dim dim,
                      uint32_t order);
/* If an op uses part of an axis, locks the rest of the axis out of the op. */
void sc_lock_out_rest(sc_propagation *p, sc_op_id op);

/* ---- seed.c ---- */
/* Applies seeds of these strengths, in the order pins, outputs, rules. False after reporting an
 * error (two lines place one axis of a value on different dims). sc_lay_storage applies storage
 * seeds, after propagation. */
bool sc_lay_strong_seeds(sc_propagation *p, const sc_seeds *seeds);
bool sc_lay_weak_seeds(sc_propagation *p, const sc_seeds *seeds);
bool sc_lay_storage(sc_propagation *p, const sc_seeds *seeds);
/* withdraw.c: after `if free` lines have propagated, withdraws splits that do not pay off.
 * `before`: by value, the sub-axes that split it before these lines were applied. */
void sc_withdraw_weak_seeds(sc_propagation *p, const sc_sub_axis_set *before);

/* lay_forms.c: gives ops their sharded forms, those of the plan's lines and, where no line names
 * the op, that which sends least. Returns false after reporting one that does not fit. */
bool sc_lay_forms(sc_propagation *p, const sc_seeds *seeds, bool trains);

/* place_inputs.c: splits every entry input as far as all its readers agree. */
void sc_place_inputs(sc_propagation *p);

/* place_step.c: placement for train steps. Before storage is placed: cotangents and recomputed
 * values get the placement of their primals, gradients and optimizer state that of the parameter's
 * uses. Afterwards, unless the plan says otherwise: gradients are stored like their parameter,
 * optimizer state like its gradient. */
void sc_place_backward(sc_propagation *p, const sc_train_step *step);
void sc_place_state(sc_propagation *p, const sc_train_step *step);
void sc_settle_state(sc_propagation *p, const sc_train_step *step, const sc_seeds *seeds);
/* Places a value like another one, with the same causes. */
void sc_place_like(sc_propagation *p, sc_value value, sc_value like);
/* Returns the parameter that a state of the step belongs to, or SC_NONE. */
uint32_t sc_param_of_state(const sc_train_step *step, uint32_t state);

#endif
