/* Shared by all validations, whatever executes the program: random values, limits, and which
 * results of two forms of a program are comparable. */
#ifndef SHARDC_TOOLS_VERIFY_VERIFICATION_RUN_H
#define SHARDC_TOOLS_VERIFY_VERIFICATION_RUN_H

#include "ir/interp/interp.h"
#include "tools/driver/random_inputs.h"
#include "tools/verify/shrink.h"

/* The size of a verification run: a few seconds of interpretation as counted by sc_interpret_cost.
 * Larger programs are shrunk, unless `full`. */
typedef struct sc_verification_size {
    bool is_shrunk;
    sc_shrink shrink;
    const char *too_large; /* NULL, or why the program is too large to run */
} sc_verification_size;
void sc_verification_shrink(sc_module *global, sc_module *local, bool full,
                            sc_verification_size *out);
void sc_verification_restore(sc_verification_size *size); /* restores all sizes */

/* Special cases that random inputs do not produce and that steps must handle: no clipping (after
 * enough good steps for the loss scale to grow), an empty batch, and, with loss scaling, overflowed
 * gradients. Each is tested on an update alone. */
typedef enum sc_limit {
    SC_LIMIT_NONE,
    SC_LIMIT_UNCLIPPED,
    SC_LIMIT_EMPTY,
    SC_LIMIT_OVERFLOW,
    SC_LIMIT_COUNT
} sc_limit;
extern const char *const sc_limit_names[SC_LIMIT_COUNT]; /* NULL for SC_LIMIT_NONE */
bool sc_limit_applies(const sc_module *global, sc_limit limit);

/* Returns random values of a type, row-major, allocated with malloc; data is NULL if memory runs
 * out. */
sc_array sc_verification_values(const sc_type_info *type, const sc_distribution *distribution,
                                const sc_random_options *options);
/* As sc_verification_values, for a state under a limit. */
sc_array sc_verification_state(const sc_module *m, uint32_t state,
                               const sc_random_inputs *distributions, sc_limit limit,
                               const sc_random_options *options);

/* Returns the `return` op of a function, or NULL; and the number of values it returns. */
const sc_op *sc_returned(const sc_module *m, sc_func_id func);
uint32_t sc_output_count(const sc_module *m, sc_func_id func);

/* Returns, by state of the global program, the value that `func` of either program `m` writes to
 * it; SC_NONE: none. Allocated in the arena. */
const sc_value *sc_written_states(const sc_module *global, const sc_module *m, sc_func_id func);

/* Compares the types' dims by name: with two dims exchanged, tensors of equal numbers differ. */
bool sc_same_dims(const sc_module *m, sc_type type, const sc_module *other, sc_type other_type);

/* True if the schedule has more than one function: a train step rather than an entry. */
bool sc_schedules_step(const sc_module *m);
/* True if calls [first, end) of the schedule include the function. */
bool sc_is_called(const sc_module *m, sc_func_id func, uint32_t first, uint32_t end);
/* True if the per-rank program's schedule equals the global one's call by call, ignoring functions
 * that only the per-rank program has. */
bool sc_same_schedule(const sc_module *global, const sc_module *local);

/* Gradients that the chunks of a pipeline have apart: tok.grad@0 and tok.grad@3 are parts of
 * tok.grad. Returns the next part from a state on; SC_NONE: there are no more. */
uint32_t sc_next_gradient_part(const sc_module *m, sc_sym path, uint32_t from);

#endif
