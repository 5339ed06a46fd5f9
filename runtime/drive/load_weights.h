/* Parameters from safetensors files. */
#ifndef SHARDC_RUNTIME_DRIVE_LOAD_WEIGHTS_H
#define SHARDC_RUNTIME_DRIVE_LOAD_WEIGHTS_H

#include "runtime/drive/facts.h"
#include "support/context.h"

/* Takes the values of a parameter, by its index: global, row-major in its own order. False: no memory. */
typedef bool sc_weights_sink(void *user, uint32_t param, const double *values);

/* Gives every parameter its values from `path` (a file, or a folder of files). First everything is checked, and everything that is wrong
 * is reported: tensors that are missing, of another shape or not of floats. False then, or when memory ran out, or a file became shorter
 * while it was read; nothing has been given unless all was found. Tensors that no parameter reads are an error, too, unless an 'ignore' line lets them stay unread. */
bool sc_weights_load(sc_context *context, const sc_fact_weights *weights, const char *path, sc_weights_sink *sink, void *user);

#endif
