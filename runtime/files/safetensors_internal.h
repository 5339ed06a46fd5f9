/* Shared by the reader's two files and the writer. */
#ifndef SHARDC_RUNTIME_FILES_SAFETENSORS_INTERNAL_H
#define SHARDC_RUNTIME_FILES_SAFETENSORS_INTERNAL_H

#include "runtime/files/safetensors.h"

#include <jansson.h>

/* Source of a file's bytes. Never a memory mapping: reading one ends the process (SIGBUS) if the
 * file is truncated. */
typedef struct sc_tensor_source {
    int file;          /* -1: in memory */
    const char *bytes; /* if in memory */
    uint64_t size;
} sc_tensor_source;

/* The tensors of one file. Names point into `header`, shapes into `shapes`. */
typedef struct sc_tensor_file {
    const char *label; /* path, for messages */
    sc_tensor_source source;
    uint32_t index; /* among the files opened together */
    json_t *header;
    uint64_t *shapes;
    sc_safetensor *tensors;
    size_t count;
} sc_tensor_file;

/* Reads `size` bytes at `offset`, which are within the source as it was opened. False with
 * *reason. */
bool sc_tensor_source_read(const sc_tensor_source *source, void *out, size_t size, uint64_t offset,
                           const char **reason);

/* Reads and checks the header of one file. `out_file` is zero except for label, source and index;
 * free it even on failure. */
bool sc_tensor_file_parse(sc_tensor_file *out_file, sc_safetensors_error *error);
void sc_tensor_file_free(sc_tensor_file *file);

/* Computes a tensor's size in bytes; false if it exceeds 64 bits. */
bool sc_safetensors_size(sc_element element, uint32_t rank, const uint64_t *shape,
                         uint64_t *out_count, uint64_t *out_bytes);

void sc_safetensors_report(sc_safetensors_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
