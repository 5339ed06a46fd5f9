/* Products with gathered weights: each row meets the weights of its own experts. */
#ifndef SHARDC_FRONTEND_ELABORATE_ROUTE_DOTS_H
#define SHARDC_FRONTEND_ELABORATE_ROUTE_DOTS_H

#include "ir/ops/ops.h"

typedef SC_VEC(sc_sym) sc_path_texts;

/* Replaces each dot of x with gathered weights by a product that is routed instead, in a global
 * forward function. Adds the paths that gathered weights had and that no value has any more. */
void sc_route_dots(sc_module *m, sc_func_id func, sc_path_texts *unmade);

#endif
