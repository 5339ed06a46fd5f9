/* --set lr=1e-4,decay=0: scalars of the optimizers that a run changes. */
#ifndef SHARDC_RUNTIME_DRIVE_SETTINGS_H
#define SHARDC_RUNTIME_DRIVE_SETTINGS_H

#include "support/context.h"
#include "support/optimizer.h"

/* Puts each NAME=VALUE of `text` (NULL: none) into the groups that have this argument; lr becomes a constant rate. False after usage
 * messages: no such name, a value out of its range, a name given twice, or one that no optimizer of the groups takes. Without groups
 * (count 0) only the text is checked. */
bool sc_apply_settings(sc_context *context, const char *text, sc_optimizer_settings *groups, uint32_t count);

#endif
