/* What a program is tried on, and where results of two of its forms are comparable: what every validation needs, whatever runs the program.
 */
#ifndef SHARDC_TOOLS_VERIFY_VERIFICATION_RUN_H
#define SHARDC_TOOLS_VERIFY_VERIFICATION_RUN_H

#include "ir/interp/interp.h"
#include "tools/driver/random_inputs.h"
#include "tools/verify/shrink.h"

/* A few seconds of interpreting, as sc_interpret_cost counts; what costs more is shrunk, unless `full`. */
typedef struct sc_trial_size {
    bool is_shrunk;
    sc_shrink shrink;
    const char *too_large; /* NULL, or why nobody would wait for it */
} sc_trial_size;
void sc_trial_shrink(sc_module *global, sc_module *local, bool full, sc_trial_size *out);
void sc_trial_restore(sc_trial_size *size); /* every size as it was */

/* What random numbers never are, and steps have to survive: an optimizer without clipping (after so many good steps that a scale grows), a
 * batch that weighs nothing, and, where losses are scaled, gradients that overflowed. An update is run by itself at each. */
typedef enum sc_limit { SC_LIMIT_NONE, SC_LIMIT_UNCLIPPED, SC_LIMIT_EMPTY, SC_LIMIT_OVERFLOW, SC_LIMIT_COUNT } sc_limit;
extern const char *const sc_limit_names[SC_LIMIT_COUNT]; /* of SC_LIMIT_NONE: NULL */
bool sc_limit_applies(const sc_module *global, sc_limit limit);

/* Random values of a type, row-major (malloc'd; data NULL: no memory). */
sc_array sc_trial_values(const sc_type_info *type, const sc_draw *draw, const sc_draw_options *options);
/* The same of a state, as the limit wants it. */
sc_array sc_trial_state(const sc_module *m, uint32_t state, const sc_draws *draws, sc_limit limit, const sc_draw_options *options);

/* A function's `return`; NULL: it has none. And the values that it returns. */
const sc_op *sc_returned(const sc_module *m, sc_func_id func);
uint32_t sc_output_count(const sc_module *m, sc_func_id func);

/* By state of the global program: what `func` of m, either program, writes to it; SC_NONE: nothing. In the arena. */
const sc_value *sc_written_states(const sc_module *global, const sc_module *m, sc_func_id func);

/* Dims by name: the same numbers with two dims exchanged are not the same tensor. */
bool sc_same_dims(const sc_module *m, sc_type type, const sc_module *other, sc_type other_type);

/* Whether the schedule has more than one function: a train step, not an entry. */
bool sc_schedules_step(const sc_module *m);
/* Whether the per-rank program runs the global one's schedule, call by call, besides calls of functions that only it has. */
bool sc_same_schedule(const sc_module *global, const sc_module *local);

#endif
