/* A file without a name in $TMPDIR, or /tmp: it is gone when it is closed. */
#ifndef SHARDC_RUNTIME_DATA_SPOOL_H
#define SHARDC_RUNTIME_DATA_SPOOL_H

#include <stdio.h>

#include "support/context.h"

/* Returns a stream to write it, and in *out_file a descriptor to read it that is the caller's.
 * *out_folder names the folder for messages. NULL after a message. */
FILE *sc_spool_open(sc_context *context, int *out_file, const char **out_folder);

#endif
