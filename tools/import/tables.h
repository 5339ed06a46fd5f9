/* The tables models/NAME.config, which are part of the program. Private to tools/import. */
#ifndef SHARDC_TOOLS_IMPORT_TABLES_H
#define SHARDC_TOOLS_IMPORT_TABLES_H

#include <stddef.h>

/* Written by the build: names end with one that is NULL. */
typedef struct sc_import_table {
    const char *name; /* llama; `all`: lines for all families */
    const char *text;
} sc_import_table;
extern const sc_import_table sc_import_tables[];

#endif
