/* Loads parameters from safetensors files. */
#ifndef SHARDC_RUNTIME_DRIVE_LOAD_WEIGHTS_H
#define SHARDC_RUNTIME_DRIVE_LOAD_WEIGHTS_H

#include "runtime/drive/facts.h"
#include "support/context.h"

/* Receives the values of parameter `param`: the full tensor, row-major in the parameter's dim
 * order. False: out of memory. */
typedef bool sc_weights_sink(void *user, uint32_t param, const double *values);

/* Passes the values of every parameter from `path` (a file, or a folder of files) to `sink`. First
 * checks everything and reports all problems: tensors that are missing, have another shape or are
 * not floats. Tensors that no parameter reads are errors, too, unless an 'ignore' line permits
 * them. False after a problem (nothing was passed to `sink` then), out of memory, or if a file is
 * truncated while it is read. */
bool sc_weights_load(sc_context *context, const sc_fact_weights *weights, const char *path,
                     sc_weights_sink *sink, void *user);

#endif
