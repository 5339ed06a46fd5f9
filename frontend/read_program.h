/* From a syntax tree to declarations: the one place that calls every check which needs no sizes. */
#ifndef SHARDC_FRONTEND_READ_PROGRAM_H
#define SHARDC_FRONTEND_READ_PROGRAM_H

#include "frontend/declare/declarations.h"

/* Collects the declarations, checks what needs no sizes: duplicate names and paths, dims (cycles, composites, aliases), that blocks, fns
 * and subs exist and do not contain themselves, that plans, weights and minimize name models. Never NULL; errors are in context->diag. */
sc_declarations *sc_declarations_new(sc_context *context, const sc_file *file);

#endif
