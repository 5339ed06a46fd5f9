/* Shared by the reader's two halves and the writer. */
#ifndef SHARDC_RUNTIME_FILES_SAFETENSORS_INTERNAL_H
#define SHARDC_RUNTIME_FILES_SAFETENSORS_INTERNAL_H

#include "runtime/files/safetensors.h"

#include <jansson.h>

/* Where the bytes of a file are read: never through a mapping, which ends the process when the file is cut short. */
typedef struct sc_tensor_source {
    int file;          /* -1: they are in memory */
    const char *bytes; /* then */
    uint64_t size;
} sc_tensor_source;

/* The tensors of one file. Names point into `header`, shapes into `shapes`. */
typedef struct sc_tensor_file {
    const char *label; /* for messages: the path */
    sc_tensor_source source;
    uint32_t index; /* among the files that were opened together */
    json_t *header;
    uint64_t *shapes;
    sc_safetensor *tensors;
    size_t count;
} sc_tensor_file;

/* `size` bytes from `offset`, which lie in the source as it was opened; false with *reason. */
bool sc_tensor_source_read(const sc_tensor_source *source, void *out, size_t size, uint64_t offset, const char **reason);

/* Reads and checks the header of one file; `out_file` must be zero but for its label, source and index. On failure `out_file` is still to
 * be freed. */
bool sc_tensor_file_parse(sc_tensor_file *out_file, sc_safetensors_error *error);
void sc_tensor_file_free(sc_tensor_file *file);

/* The bytes that a tensor of this shape has; false when that is more than 64 bits hold. */
bool sc_safetensors_size(sc_element element, uint32_t rank, const uint64_t *shape, uint64_t *out_count, uint64_t *out_bytes);

void sc_safetensors_report(sc_safetensors_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
