/* A program in one executable file: the runtime, the image, then a trailer with the image's
 * location. The trailer's hash covers all preceding bytes of the file, including the location. */
#ifndef SHARDC_PROGRAM_FILE_H
#define SHARDC_PROGRAM_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/file.h"

enum { SC_PROGRAM_TRAILER_BYTES = 32 };

typedef struct sc_program_trailer {
    uint64_t offset, length; /* of the image in the file */
    uint64_t hash;           /* sc_fnv1a64 of all preceding bytes */
} sc_program_trailer;

/* Reads the trailer from a file's bytes and verifies the hash. Returns NULL, or a description of
 * the fault. */
const char *sc_program_trailer_read(const void *file, size_t size, sc_program_trailer *out);
/* True if the file ends like one with a program. */
bool sc_program_has_trailer(const void *file, size_t size);

/* Appends the image and the trailer to `out`, which already contains the `stub_size` bytes of
 * `stub`. False if writing fails. */
bool sc_program_file_write(FILE *out, const void *stub, size_t stub_size, const void *image,
                           size_t image_size);

#endif
