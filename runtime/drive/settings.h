/* --set lr=1e-4,decay=0: scalars of the optimizers that a run changes, and the schedule of their rate. */
#ifndef SHARDC_RUNTIME_DRIVE_SETTINGS_H
#define SHARDC_RUNTIME_DRIVE_SETTINGS_H

#include "program/optimizer.h"
#include "support/context.h"

/* Puts each NAME=VALUE of `text` (NULL: none) into the groups that have this argument; lr becomes a constant rate, or the schedule that
 * is written as in the language, linear(3e-4,warmup=10,total=100). False after usage messages: no such name, a value out of its range or no
 * schedule, a name given twice, or one that no optimizer of the groups takes. Without groups
 * (count 0) only the text is checked. */
bool sc_apply_settings(sc_context *context, const char *text, sc_optimizer_settings *groups, uint32_t count);

#endif
