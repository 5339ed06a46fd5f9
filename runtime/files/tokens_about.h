/* What a file of ids says of itself in JSON beside it: NAME.bin.json or NAME.json for NAME.bin,
 *
 *   {"dtype": "u32", "tokens": 1000, "eos": 2}
 *
 * Every key is optional; others are not read. `shardc data` writes such files. */
#ifndef SHARDC_RUNTIME_FILES_TOKENS_ABOUT_H
#define SHARDC_RUNTIME_FILES_TOKENS_ABOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sc_tokens_about {
    uint32_t width; /* bytes of an id: 2 or 4; 0: not given */
    bool has_tokens, has_eos;
    uint64_t tokens; /* in the file */
    uint32_t eos;    /* the id that ends a document */
} sc_tokens_about;

/* Reads what is beside the file at `path`; nothing is there: all zero. False with `error` filled,
 * which names the JSON file: it is damaged, or there are two. */
bool sc_tokens_about_read(const char *path, sc_tokens_about *out, char *error, size_t error_size);
/* Returns the path at which `shardc data` writes it, malloc'd: NAME.json. NULL: out of memory. */
char *sc_tokens_about_path(const char *path);

#endif
