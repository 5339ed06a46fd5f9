/* A program in one executable file: that of the runtime, then the image's bytes, then a trailer that says where they are. The trailer's
 * hash covers all of the file: the runtime, the image and the places in the trailer. */
#ifndef SHARDC_PROGRAM_FILE_H
#define SHARDC_PROGRAM_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/file.h"

enum { SC_PROGRAM_TRAILER_BYTES = 32 };

typedef struct sc_program_trailer {
    uint64_t offset, length; /* of the image in the file */
    uint64_t hash;           /* sc_fnv1a64 of all bytes before it */
} sc_program_trailer;

/* Of a file's bytes. NULL, or what is wrong; all bytes are hashed. */
const char *sc_program_trailer_read(const void *file, size_t size, sc_program_trailer *out);
/* Whether the file ends as one with a program does. */
bool sc_program_has_trailer(const void *file, size_t size);

/* Adds the image and the trailer to `out`, which begins with the `stub_size` bytes of `stub`. False when they cannot be written. */
bool sc_program_file_write(FILE *out, const void *stub, size_t stub_size, const void *image, size_t image_size);

#endif
