/* A program in one executable file: that of the runtime, then the image's bytes, then a trailer that says where they are. */
#ifndef SHARDC_SUPPORT_PROGRAM_FILE_H
#define SHARDC_SUPPORT_PROGRAM_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SC_PROGRAM_TRAILER_BYTES = 32 };

typedef struct sc_program_trailer {
    uint64_t offset, length; /* of the image in the file */
    uint64_t hash;           /* sc_fnv1a64 of its bytes */
} sc_program_trailer;

void sc_program_trailer_write(const sc_program_trailer *trailer, uint8_t out[SC_PROGRAM_TRAILER_BYTES]);
/* Of a file's bytes. NULL, or what is wrong; the image's bytes are hashed. */
const char *sc_program_trailer_read(const void *file, size_t size, sc_program_trailer *out);

#endif
