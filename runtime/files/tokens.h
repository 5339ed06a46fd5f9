/* Files of tokens, read on request. There are three forms, and none needs a header:
 *
 *   NAME.bin   16-bit little-endian ids; 32-bit if the caller says that the vocabulary needs them,
 *              or as a JSON file beside it says (tokens_about.h)
 *   NAME.bin   with llm.c's header (256 32-bit words: magic 20240520 or 20240801, version, count);
 *              the version gives the width
 *   any other  bytes, one token each
 *
 * Files are not trusted: a file must be a regular file, its size is checked, and if it is truncated
 * while open the next read fails. Ids are not checked against the vocabulary here; callers do that.
 * An open file may be read by many threads at once, but not while it is closed by
 * sc_tokens_rest or opened again. */
#ifndef SHARDC_RUNTIME_FILES_TOKENS_H
#define SHARDC_RUNTIME_FILES_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SC_TOKENS_NARROW_LIMIT = 65536 }; /* number of ids that 16 bits can represent */

typedef struct sc_tokens sc_tokens;

/* Opens a file. `wide`: a .bin file without a header has 32-bit ids. NULL with `error` filled; the
 * caller closes the result. */
sc_tokens *sc_tokens_open(const char *path, bool wide, char *error, size_t error_size);
/* Takes ids of `width` bytes that begin at byte `begin` of an open file, which stays the
 * caller's. NULL: out of memory. */
sc_tokens *sc_tokens_of_file(int file, uint64_t begin, uint64_t count, uint32_t width);
void sc_tokens_close(sc_tokens *tokens); /* NULL is allowed */

/* Closes the file for now, so that more files can be known than may be open; the next read opens it
 * again, and fails if it is another file or has another size. */
void sc_tokens_rest(sc_tokens *tokens);
bool sc_tokens_is_resting(const sc_tokens *tokens);

uint64_t sc_tokens_count(const sc_tokens *tokens);
/* Returns the bytes of one id in the file: 1, 2 or 4. */
uint32_t sc_tokens_width(const sc_tokens *tokens);
/* Gets the id that ends documents, if a JSON file beside the file names it. */
bool sc_tokens_eos(const sc_tokens *tokens, uint32_t *out);
/* Reads tokens [first, first + count), within count. False with *reason: the file was truncated, or
 * a system error. */
bool sc_tokens_read(sc_tokens *tokens, uint64_t first, uint64_t count, double *out,
                    const char **reason);
/* Finds the first of these tokens that is not below `below`; *out_at is UINT64_MAX if there is
 * none. False as above. */
bool sc_tokens_find_beyond(sc_tokens *tokens, uint64_t first, uint64_t count, uint64_t below,
                           uint64_t *out_at, double *out_id, const char **reason);

#endif
