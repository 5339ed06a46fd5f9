/* Saves parameters to a safetensors file; inverse of load_weights.h. */
#ifndef SHARDC_RUNTIME_DRIVE_SAVE_WEIGHTS_H
#define SHARDC_RUNTIME_DRIVE_SAVE_WEIGHTS_H

#include "runtime/drive/facts.h"
#include "runtime/files/element.h"
#include "support/context.h"

typedef struct sc_weights_file sc_weights_file; /* allocated in the context's arena */

/* Plans the tensors that the parameters make, without their values, so that errors are reported
 * before a run and not after it. Several parameters may fill parts of one tensor; elements that no
 * parameter fills, or that two fill, are errors. `like` (NULL: none) is a file or folder whose
 * tensors determine which dims are merged; without it the facts do. NULL after messages. */
sc_weights_file *sc_weights_file_new(sc_context *context, const sc_fact_weights *weights,
                                     const char *like);

/* A tensor of the file. */
typedef struct sc_weights_tensor {
    const char *name;
    sc_element element;
    uint32_t rank;
    const uint64_t *shape;
    uint64_t elements;
} sc_weights_tensor;

uint32_t sc_weights_file_count(const sc_weights_file *file);
/* Gets tensor `index`, in the order of the file. */
void sc_weights_file_tensor(const sc_weights_file *file, uint32_t index, sc_weights_tensor *out);
/* Calls `fill` for every parameter that fills a part of the tensor: `which` is the tensor's number
 * among those of the parameter. False as soon as one call is. */
typedef bool sc_weights_filler(void *user, const sc_fact_param *param, uint32_t which);
bool sc_weights_file_parts(const sc_weights_file *file, uint32_t index, sc_weights_filler *fill,
                           void *user);

/* Checks that the file can be written: creates a temporary file beside it and checks the free
 * space. False after a message. */
bool sc_weights_file_try(const sc_weights_file *file, const char *path);

/* Returns the values of parameter `param`, the full tensor, row-major; the receiver frees them.
 * data NULL after a message. */
typedef sc_array sc_weights_source(void *user, uint32_t param);

/* Writes the file, each tensor in its parameters' dtype. `path` NULL: requests all values but
 * writes nothing. The file appears at `path` complete or not at all. False after messages. */
bool sc_weights_save(const sc_weights_file *file, const char *path, sc_weights_source *source,
                     void *user);

#endif
