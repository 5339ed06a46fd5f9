/* Builds a train step from an entry, on the global program: reverse-mode differentiation, then the
 * optimizer. Runs before placement, so all communication of the backward pass and the update
 * follows from placement. */
#ifndef SHARDC_PASSES_TRAIN_STEP_H
#define SHARDC_PASSES_TRAIN_STEP_H

#include "ir/ops/ops.h"
#include "ir/train.h"

/* Turns the function of a forward entry into `micro` and adds `update`, state and schedule. The
 * entry returns a scalar, or (total, weight), then metrics. False after reporting errors (an op
 * without a derivative). */
bool sc_train_step_build(sc_module *m, sc_func_id entry, const sc_training *training,
                         sc_train_step *out);

/* ---- its parts ---- */
/* A gradient of a trained parameter: that of one chunk, if several chunks of a pipeline read it. */
typedef struct sc_gradient {
    uint32_t state; /* the parameter */
    uint16_t chunk; /* SC_NO_CHUNK: there is no pipeline */
    sc_value value;
    sc_sym name;   /* of its accumulator */
    uint32_t next; /* the parameter's gradient of a later chunk; SC_NONE: none */
} sc_gradient;

/* Result of the reverse sweep. */
typedef struct sc_gradients {
    SC_VEC(sc_gradient) list;
    uint32_t *first; /* by state: in list; SC_NONE: the gradient is zero, or there is none */
} sc_gradients;

/* Appends the backward pass of func's first result, with cotangent 1, and removes its `return`.
 * False after reporting an error: the weight depends on a parameter, or an op has no derivative. */
bool sc_differentiate(sc_module *m, sc_func_id func, const sc_training *training,
                      sc_train_step *step, sc_gradients *gradients);
/* Fills the function `update`. */
void sc_build_update(sc_module *m, const sc_training *training, sc_train_step *step,
                     const sc_gradients *found, uint32_t result_count);

/* ---- step_state.c ---- */
/* State for dynamic loss scaling: the scale, steps since it last changed, total steps taken.
 * Micikevicius et al., "Mixed precision training", ICLR 2018, section 3.2; factors and interval as
 * in the documentation of torch.amp.GradScaler. */
enum { SC_SCALE_INITIAL = 65536, SC_SCALE_INTERVAL = 2000 };
#define SC_SCALE_GOOD_STATE "scaling.good"
/* Reads one of these states, at the end of a function. */
sc_value sc_read_scaling(sc_emitter *e, sc_train_step *step, const char *name, double initial);

/* layers[0].attn.wq.m */
sc_sym sc_state_name_of(sc_module *m, uint32_t param, const char *suffix);
/* Returns a state of the step, created on first use. `param` SC_NONE: a scalar. */
uint32_t sc_step_state(sc_module *m, sc_train_step *step, sc_sym name, sc_state_kind kind,
                       const sc_type_info *type, uint32_t param);

#endif
