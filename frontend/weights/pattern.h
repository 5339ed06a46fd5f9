/* Tensor names with holes: "model.layers.{2*L+1}.w". Private to frontend/. */
#ifndef SHARDC_FRONTEND_WEIGHTS_PATTERN_H
#define SHARDC_FRONTEND_WEIGHTS_PATTERN_H

#include "frontend/declare/internal.h"

typedef struct sc_pattern_names {
    /* The value of a name in a hole; false when there is none of that name. */
    bool (*value)(void *user, sc_sym name, int64_t *out);
    void *user;
} sc_pattern_names;

/* The text with its holes filled in; NULL with *problem in the arena. */
const char *sc_pattern_fill(sc_context *context, const char *pattern, const sc_pattern_names *names, const char **problem);

#endif
