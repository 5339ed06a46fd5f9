/* Checks and evaluates `minimize` statements. Private to frontend/. */
#ifndef SHARDC_FRONTEND_TRAIN_CHECK_H
#define SHARDC_FRONTEND_TRAIN_CHECK_H

#include "frontend/declare/declarations.h"
#include "program/optimizer.h"

/* Checks targets, optimizers and paths as far as possible without sizes. */
void sc_minimize_check(sc_declarations *program);
/* Evaluates an optimizer's arguments, filling in defaults. Names of dims evaluate to their sizes in
 * the entry. If `bindings` is NULL, arguments that depend on a dim are skipped and `out` must not
 * be used. Returns false after reporting errors. */
bool sc_optimizer_read(sc_declarations *program, const sc_optimizer *optimizer, sc_sym entry,
                       const sc_binding_list *bindings, sc_optimizer_settings *out);

#endif
