/* Reads and writes JSON independently of the locale, which jansson applies to reals. */
#ifndef SHARDC_SUPPORT_JSON_H
#define SHARDC_SUPPORT_JSON_H

#include <jansson.h>
#include <stddef.h>

/* Parses JSON. `flags`: JSON_REJECT_DUPLICATES and the like. Returns NULL and fills `error` on
 * failure. */
json_t *sc_json_read(const void *bytes, size_t size, size_t flags, json_error_t *error);
/* Returns JSON text that the caller frees. Reals have 17 digits, which read back to the same
 * doubles. `flags`: JSON_COMPACT, JSON_INDENT(n), JSON_REAL_PRECISION(n) for fewer. Returns NULL if
 * memory runs out, or `root` is NULL or not representable. */
char *sc_json_write(const json_t *root, size_t flags);

#endif
