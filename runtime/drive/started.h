/* Describes what a process was started with, as far as it affects what is computed or written, as
 * lines for runtime/comm/identity.h. Every option of the tables is included unless a row of
 * started.c exempts it, so a new option cannot be forgotten. */
#ifndef SHARDC_RUNTIME_DRIVE_STARTED_H
#define SHARDC_RUNTIME_DRIVE_STARTED_H

#include "support/arguments.h"

typedef enum sc_started_kind {
    SC_STARTED_SAME,     /* the value must be equal on all ranks */
    SC_STARTED_CONTENTS, /* a file or folder: its contents must be equal, its path may differ */
    SC_STARTED_FREE      /* may differ between ranks */
} sc_started_kind;

sc_started_kind sc_started_kind_of(const char *option);

/* Returns "command train", then a line for each given option, in the order of the tables. For
 * files: their sizes, and a hash of all of a small one or of samples of a large one. In the
 * context's arena. */
const char *sc_started_with(sc_context *context, const char *command, const sc_option_table *tables,
                            uint32_t count);

#endif
