/* Files of tokens, read in place. Three forms, none of which needs a header:
 *   NAME.bin   16-bit ids, little-endian; 32-bit ids when the caller says that the vocabulary needs them
 *   NAME.bin   with the header of llm.c (256 32-bit words: magic 20240520 or 20240801, version, count): the header says the width
 *   any other  bytes, one token each
 * A file is not trusted: sizes are checked, ids are not (whoever reads a token knows the vocabulary). An open file may be read from many
 * threads at once; it must not be cut short while it is open. */
#ifndef SHARDC_RUNTIME_DATA_H
#define SHARDC_RUNTIME_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SC_TOKENS_NARROW_LIMIT = 65536 }; /* ids that 16 bits hold */

typedef struct sc_tokens sc_tokens;

/* `wide`: ids of a .bin without header have 32 bits. NULL with `error` filled; the caller closes the result. */
sc_tokens *sc_tokens_open(const char *path, bool wide, char *error, size_t error_size);
void sc_tokens_close(sc_tokens *tokens); /* NULL is allowed */

uint64_t sc_tokens_count(const sc_tokens *tokens);
/* Bytes of one id in the file: 1, 2 or 4. */
uint32_t sc_tokens_width(const sc_tokens *tokens);
/* Token `index`, below count. */
uint32_t sc_tokens_at(const sc_tokens *tokens, uint64_t index);

#endif
