/* Loads parameters from safetensors files. */
#ifndef SHARDC_RUNTIME_DRIVE_LOAD_WEIGHTS_H
#define SHARDC_RUNTIME_DRIVE_LOAD_WEIGHTS_H

#include "runtime/drive/executor.h"
#include "runtime/drive/facts.h"
#include "runtime/files/element.h"
#include "support/context.h"

typedef struct sc_weights_reading sc_weights_reading; /* allocated in the context's arena */

/* Opens `path` (a file, a folder, an index) and finds the tensors of every parameter. Reports all
 * problems: tensors that are missing, have another shape or are not floats, and tensors that no
 * parameter reads, unless an 'ignore' line permits them. NULL after messages. */
sc_weights_reading *sc_weights_open(sc_context *context, const sc_fact_weights *weights,
                                    const char *path);
/* Reads a box of parameter `param`, see sc_param_read. False after a message. */
bool sc_weights_read(sc_weights_reading *reading, uint32_t param, const sc_shard_place *place,
                     sc_element element, void *local);
/* Sets the parameters of the executor, and their master copies: reads the boxes of this process's
 * ranks, each once. The executor may lack parameters. False after a message. */
bool sc_weights_fill(sc_weights_reading *reading, const sc_executor *executor);
void sc_weights_close(sc_weights_reading *reading); /* NULL is allowed */

/* Opens, fills, closes. */
bool sc_weights_load(sc_context *context, const sc_fact_weights *weights, const char *path,
                     const sc_executor *executor);

#endif
