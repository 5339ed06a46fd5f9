/* What `minimize` says, checked and read. Private to frontend/. */
#ifndef SHARDC_FRONTEND_TRAIN_CHECK_H
#define SHARDC_FRONTEND_TRAIN_CHECK_H

#include "frontend/declare/declarations.h"
#include "program/optimizer.h"

/* Targets, optimizers and paths, as far as no size is needed. */
void sc_minimize_check(sc_declarations *program);
/* What an optimizer's arguments say, defaults filled in. The names of dims are their sizes in the entry; bindings NULL: what depends on
 * a dim is not looked at, and `out` is of no use. False after messages. */
bool sc_optimizer_read(sc_declarations *program, const sc_optimizer *optimizer, sc_sym entry, const sc_binding_list *bindings,
                       sc_optimizer_settings *out);

#endif
