/* Shared by the reader's two halves and the writer. */
#ifndef SHARDC_RUNTIME_FILES_SAFETENSORS_INTERNAL_H
#define SHARDC_RUNTIME_FILES_SAFETENSORS_INTERNAL_H

#include "runtime/files/safetensors.h"

#include <jansson.h>

/* The tensors of one file. Names point into `header`, shapes into `shapes`, data into the bytes that were parsed. */
typedef struct sc_tensor_file {
    const char *label; /* for messages: the path */
    json_t *header;
    uint64_t *shapes;
    sc_safetensor *tensors;
    size_t count;
} sc_tensor_file;

/* Parses and checks the bytes of one file; `out_file` must be zero but for its label. On failure `out_file` is still to be freed. */
bool sc_tensor_file_parse(sc_tensor_file *out_file, const void *bytes, size_t size, sc_safetensors_error *error);
void sc_tensor_file_free(sc_tensor_file *file);

/* The bytes that a tensor of this shape has; false when that is more than 64 bits hold. */
bool sc_safetensors_size(sc_element element, uint32_t rank, const uint64_t *shape, uint64_t *out_count, uint64_t *out_bytes);

void sc_safetensors_report(sc_safetensors_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
