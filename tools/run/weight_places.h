/* Which line of a `weights` block a parameter has, which tensors that line names, and where in them each element lies. */
#ifndef SHARDC_TOOLS_RUN_WEIGHT_PLACES_H
#define SHARDC_TOOLS_RUN_WEIGHT_PLACES_H

#include "frontend/elaborate/build.h"
#include "frontend/weights/map.h"

/* The block called `name`, or with NULL the model's only one; *out NULL: it has none, and tensors are called like parameters. False after a
 * message. */
bool sc_weights_choose(sc_context *context, sc_declarations *program, sc_sym model, const char *name, const sc_weights **out);

/* The line of each parameter, by state of the module (NULL: no parameter, or a line is missing, which is reported). */
const sc_wmap **sc_weights_lines(sc_context *context, const sc_weights *weights, const sc_module *m);

typedef struct sc_weight_tensors {
    sc_weight_layout layout;
    uint32_t count; /* of tensors: one, or one an index of the dims in the tensor's name, the last of them fastest */
    sc_sym *names;
} sc_weight_tensors;

/* The tensors of one parameter under its line; without a line (NULL), one that is called like the parameter. False after messages. */
bool sc_weights_tensors(sc_declarations *program, const sc_weights *weights, const sc_wmap *line, const sc_module *m, uint32_t state,
                        sc_weight_tensors *out);

#endif
