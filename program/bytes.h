/* Serialization of a program (program/format.h) to bytes, its validation, and a text listing. */
#ifndef SHARDC_PROGRAM_BYTES_H
#define SHARDC_PROGRAM_BYTES_H

#include "program/format.h"

/* Writes a little-endian header of fixed size, then the body and the object; see bytes.c.
 * Deterministic. The image must pass sc_image_check. */
void sc_image_write(const sc_image *image, sc_strbuf *out);

/* Reads an image from untrusted bytes into the arena (no pointers into `data`). Returns NULL with
 * `error` set to SHARDC_ERROR_DATA and the location of the fault. The result passes sc_image_check;
 * the machine code of the object is not validated, so running it means trusting its author. */
sc_image *sc_image_read(const void *data, size_t size, sc_arena *arena, shardc_error *error);

/* Reads the image that the bytes begin with; *out_size is its length. */
sc_image *sc_image_read_first(const void *data, size_t size, size_t *out_size, sc_arena *arena,
                              shardc_error *error);

/* Validates everything beyond the image's shape: indices, buffers within the arena, accesses of
 * instructions within buffers, digits, shards, collectives, and that every message is waited for.
 * Returns NULL, or a description of the fault in the arena. */
const char *sc_image_check(const sc_image *image, sc_arena *arena);

/* Prints an assembly-like listing: buffers, kernels, gemms, collectives with their reasons,
 * functions, schedule. For people only; there is no parser. */
void sc_image_dump(const sc_image *image, sc_strbuf *out);

#endif
