/* What a process was started with, as far as it decides what is computed or written: lines for runtime/comm/identity.h. Every option of the
 * tables is in it unless a row of started.c says otherwise, so that a new one cannot be forgotten. */
#ifndef SHARDC_RUNTIME_DRIVE_STARTED_H
#define SHARDC_RUNTIME_DRIVE_STARTED_H

#include "support/arguments.h"

typedef enum sc_started_kind {
    SC_STARTED_SAME,     /* the value must be the same on all ranks */
    SC_STARTED_CONTENTS, /* a file or folder: what is in it must be, wherever it lies */
    SC_STARTED_FREE      /* a rank's own affair */
} sc_started_kind;

sc_started_kind sc_started_kind_of(const char *option);

/* "command train", then a line for each option that is given, in the order of the tables. Files are read: their sizes, and all of a small
 * one or samples of a large one. In the context's arena. */
const char *sc_started_with(sc_context *context, const char *command, const sc_option_table *tables, uint32_t count);

#endif
