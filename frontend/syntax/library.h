/* The model library: the texts of models/, which are part of the program, so that `import
 * "shardc/llama.shard";` means the same wherever the program is. Private to frontend/syntax. */
#ifndef SHARDC_FRONTEND_SYNTAX_LIBRARY_H
#define SHARDC_FRONTEND_SYNTAX_LIBRARY_H

#include <stddef.h>

/* Written by the build: names end with one that is NULL. */
typedef struct sc_library_file {
    const char *name; /* shardc/llama.shard */
    const char *text;
} sc_library_file;
extern const sc_library_file sc_library_files[];

#endif
