/* Parses --set lr=1e-4,decay=0: optimizer scalars and the learning rate schedule. */
#ifndef SHARDC_RUNTIME_DRIVE_SETTINGS_H
#define SHARDC_RUNTIME_DRIVE_SETTINGS_H

#include "program/optimizer.h"
#include "support/context.h"

/* Applies each NAME=VALUE of `text` (NULL: none) to the groups that have this argument; lr is a
 * constant or a schedule in the language's syntax, linear(3e-4,warmup=10,total=100). False after
 * usage messages: an unknown or repeated name, an invalid value or schedule, or a name that no
 * optimizer of the groups has. Without groups (count 0) it only checks the text. */
bool sc_apply_settings(sc_context *context, const char *text, sc_optimizer_settings *groups,
                       uint32_t count);

#endif
