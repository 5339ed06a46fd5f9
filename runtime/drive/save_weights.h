/* Parameters to a safetensors file: the inverse of loading. */
#ifndef SHARDC_RUNTIME_DRIVE_SAVE_WEIGHTS_H
#define SHARDC_RUNTIME_DRIVE_SAVE_WEIGHTS_H

#include "runtime/drive/facts.h"
#include "support/context.h"

typedef struct sc_weights_file sc_weights_file; /* in the context's arena */

/* Finds out which tensors the parameters make, without their values: what cannot be written is said before a run and not after it.
 * Parameters may fill parts of one tensor; elements that no parameter gives, and those that two give, are errors. `like` (NULL: none) is a
 * file or folder whose tensors say which dims of theirs are merged; without it the facts do. NULL after messages. */
sc_weights_file *sc_weights_file_new(sc_context *context, const sc_fact_weights *weights, const char *like);

/* Whether the file can be written: tries to make one beside it, and asks the disk for room. False after a message. */
bool sc_weights_file_try(const sc_weights_file *file, const char *path);

/* Gives the values of a parameter, by its index, global and row-major; the receiver frees them. data NULL after a message. */
typedef sc_array sc_weights_source(void *user, uint32_t param);

/* Writes the file, each tensor in the dtype of its parameters; `path` NULL: asks for all values, writes nothing. It appears under `path`
 * complete or not at all. False after messages. */
bool sc_weights_save(const sc_weights_file *file, const char *path, sc_weights_source *source, void *user);

#endif
