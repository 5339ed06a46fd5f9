/* Which line of a `weights` block a parameter has, which tensors that line names, and where in them each element lies: what loading and
 * saving share. */
#ifndef SHARDC_TOOLS_WEIGHT_PLACES_H
#define SHARDC_TOOLS_WEIGHT_PLACES_H

#include "frontend/build.h"
#include "frontend/weights_map.h"

/* The block called `name`, or with NULL the model's only one; *out NULL: it has none, and tensors are called like parameters. False after a
 * message. */
bool sc_weights_choose(sc_context *context, sc_program *program, sc_sym model, const char *name, const sc_weights **out);

/* The line of each parameter, by state of the module (NULL: no parameter, or a line is missing, which is reported). */
const sc_wmap **sc_weights_lines(sc_context *context, const sc_weights *weights, const sc_module *m);

typedef struct sc_weight_tensors {
    sc_weight_layout layout;
    uint32_t count; /* of tensors: one, or one an index of the dims in the tensor's name, the last of them fastest */
    sc_sym *names;
} sc_weight_tensors;

/* The tensors of one parameter under its line; without a line (NULL), one that is called like the parameter. False after messages. */
bool sc_weights_tensors(sc_program *program, const sc_weights *weights, const sc_wmap *line, const sc_module *m, uint32_t state,
                        sc_weight_tensors *out);

/* Where an element lies, while a parameter is walked in its own order: `for (place = {0}; e < count; sc_weight_next(..))`. */
typedef struct sc_weight_place {
    int64_t index[SC_MAX_RANK];
} sc_weight_place;

uint64_t sc_weight_tensor(const sc_weight_layout *layout, const sc_type_info *type, const sc_weight_place *place); /* which tensor */
int64_t sc_weight_element(const sc_weight_layout *layout, const sc_weight_place *place); /* which of its elements */
void sc_weight_next(const sc_type_info *type, sc_weight_place *place);

#endif
