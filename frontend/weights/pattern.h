/* Tensor names with holes: "model.layers.{2*L+1}.w". Private to frontend/. */
#ifndef SHARDC_FRONTEND_WEIGHTS_PATTERN_H
#define SHARDC_FRONTEND_WEIGHTS_PATTERN_H

#include "frontend/declare/internal.h"

typedef struct sc_pattern_names {
    /* Looks up the value of a name in a hole. Returns false if there is no such name. */
    bool (*value)(void *user, sc_sym name, int64_t *out);
    void *user;
} sc_pattern_names;

/* Returns the text with its holes filled in. On failure returns NULL and sets *problem (in the
 * arena). */
const char *sc_pattern_fill(sc_context *context, const char *pattern, const sc_pattern_names *names,
                            const char **problem);

#endif
