/* From a syntax tree to declarations: calls every check that needs no sizes. */
#ifndef SHARDC_FRONTEND_READ_PROGRAM_H
#define SHARDC_FRONTEND_READ_PROGRAM_H

#include "frontend/declare/declarations.h"

/* Collects the declarations and runs the checks that need no sizes: unique names and paths; dims
 * (cycles, composites, aliases); blocks, fns and subs exist and do not contain themselves; plans,
 * weights and minimize name existing models. Never returns NULL; errors are in context->diag. */
sc_declarations *sc_declarations_new(sc_context *context, const sc_file *file);

#endif
