/* Parameters from safetensors files, through a `weights` block. */
#ifndef SHARDC_TOOLS_LOAD_WEIGHTS_H
#define SHARDC_TOOLS_LOAD_WEIGHTS_H

#include "tools/weight_places.h"

/* Takes the values of a parameter: global, row-major in its type's order. False: no memory. */
typedef bool sc_weights_sink(void *user, uint32_t state, const double *values);

/* Gives every parameter of the module its values from `path` (a file, or a folder of files). First everything is checked, and everything
 * that is wrong is reported: parameters without a line, tensors that are missing, of another shape or not of floats. False then, or when
 * memory ran out; nothing has been given unless all was found. Tensors that no line names are left alone. */
bool sc_weights_load(sc_context *context, sc_program *program, const sc_weights *weights, const sc_module *m, const char *path,
                     sc_weights_sink *sink, void *user);

#endif
