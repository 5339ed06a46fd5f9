/* Maps each parameter to its line in a `weights` block, the tensors that the line names, and the
 * positions of its elements in them. */
#ifndef SHARDC_TOOLS_RUN_WEIGHT_PLACES_H
#define SHARDC_TOOLS_RUN_WEIGHT_PLACES_H

#include "frontend/elaborate/build.h"
#include "frontend/weights/map.h"

/* Finds the block called `name`, or the model's only one if NULL. *out is NULL if there is none;
 * tensors are then named like parameters. Returns false after reporting an error. */
bool sc_weights_choose(sc_context *context, sc_declarations *program, sc_sym model,
                       const char *name, const sc_weights **out);

/* Returns the line of each parameter, by state of the module. NULL for a state that is no
 * parameter, and for a parameter without a line, which is reported. */
const sc_wmap **sc_weights_lines(sc_context *context, const sc_weights *weights,
                                 const sc_module *m);

typedef struct sc_weight_tensors {
    sc_weight_layout layout;
    /* number of tensors: one, or one per index of the dims in the tensor's name, the last dim
     * fastest */
    uint32_t count;
    sc_sym *names;
} sc_weight_tensors;

/* Finds the tensors of one parameter under its line; without a line (NULL), one tensor named like
 * the parameter. Returns false after reporting errors. */
bool sc_weights_tensors(sc_declarations *program, const sc_weights *weights, const sc_wmap *line,
                        const sc_module *m, uint32_t state, sc_weight_tensors *out);

#endif
