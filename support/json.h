/* JSON read and written, the same in every locale: jansson prints and reads reals as the locale has them. */
#ifndef SHARDC_SUPPORT_JSON_H
#define SHARDC_SUPPORT_JSON_H

#include <jansson.h>
#include <stddef.h>

/* `flags`: JSON_REJECT_DUPLICATES and the like. NULL with `error` filled. */
json_t *sc_json_read(const void *bytes, size_t size, size_t flags, json_error_t *error);
/* A text that the caller frees, its reals with 17 digits, which read back to the same doubles; `flags`: JSON_COMPACT, JSON_INDENT(n). NULL:
 * no memory, or `root` is NULL or holds what JSON cannot say. */
char *sc_json_write(const json_t *root, size_t flags);

#endif
