/* Private to frontend/. */
#ifndef SHARDC_FRONTEND_WEIGHTS_CHECK_H
#define SHARDC_FRONTEND_WEIGHTS_CHECK_H

#include "frontend/declare/declarations.h"

/* Checks lines of `weights` blocks as far as possible without sizes and files: paths, dims,
 * patterns of names. */
void sc_weights_check(sc_declarations *program);

#endif
