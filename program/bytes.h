/* A program (program/format.h) as bytes that are kept and sent, checked, and as text for people. */
#ifndef SHARDC_PROGRAM_BYTES_H
#define SHARDC_PROGRAM_BYTES_H

#include "program/format.h"

/* A header of fixed size, little-endian, then the body and the object; see program_bytes.c. The same image gives the same bytes. The image
 * must be one that sc_image_check has nothing against. */
void sc_image_write(const sc_image *image, sc_strbuf *out);

/* The image of untrusted bytes, in the arena (nothing of it points into `bytes`), or NULL with `error` filled: SHARDC_ERROR_DATA and what
 * is wrong where. What it gives is as sc_image_check wants it; the object's code is not looked at, and whoever runs it trusts who wrote it.
 */
sc_image *sc_image_read(const void *bytes, size_t size, sc_arena *arena, shardc_error *error);

/* Everything that holds of an image beyond its shape: indices, buffers inside the arena and what instructions touch inside buffers,
 * digits, shards, collectives. NULL, or what is wrong, in the arena. */
const char *sc_image_check(const sc_image *image, sc_arena *arena);

/* As an assembly listing: buffers, kernels, gemms, collectives with their reasons, functions, schedule. For people; nothing reads it. */
void sc_image_dump(const sc_image *image, sc_strbuf *out);

#endif
