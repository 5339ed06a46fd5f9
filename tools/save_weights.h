/* Parameters to a safetensors file, through a `weights` block: the inverse of loading. */
#ifndef SHARDC_TOOLS_SAVE_WEIGHTS_H
#define SHARDC_TOOLS_SAVE_WEIGHTS_H

#include "ir/interp.h"
#include "tools/weight_places.h"

typedef struct sc_weights_file sc_weights_file; /* in the context's arena */

/* Finds out which tensors the parameters of the module make, without their values: what cannot be written is said before a run and not
 * after it. Parameters may fill parts of one tensor; elements that no parameter gives, and those that two give, are errors, as are
 * parameters without a line. `weights` NULL: each parameter is a tensor under its path, in its own dims. `like` (NULL: none) is a file
 * or folder whose tensors say which dims of theirs are merged; without it tools/weight_shape.h does. NULL after messages. */
sc_weights_file *sc_weights_file_new(sc_context *context, sc_program *program, const sc_weights *weights, const sc_module *m,
                                     const char *like);

/* Gives the values of a parameter, global and row-major; the receiver frees them. data NULL: no memory. */
typedef sc_array sc_weights_source(void *user, uint32_t state);

/* Writes the file, each tensor in the dtype of its parameters. It appears under `path` complete or not at all. False after messages. */
bool sc_weights_save(const sc_weights_file *file, const char *path, sc_weights_source *source, void *user);

#endif
