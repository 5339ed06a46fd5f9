/* The files that --data and --eval-data name. The text is a list with commas; an item is a file, a
 * folder (its *.bin, *.txt and *.jsonl, in the order of their names, but not those of folders
 * in it), or a pattern of glob(7), whose matches are taken in the order of their names. An item may
 * end with its weight in a mixture: A:0.7,B:0.3. A name that exists is taken as it is, whatever
 * commas, colons and wildcards it has. */
#ifndef SHARDC_RUNTIME_DATA_PATHS_H
#define SHARDC_RUNTIME_DATA_PATHS_H

#include "support/arguments.h"

typedef struct sc_data_item {
    const char *text;   /* without the weight */
    double weight;      /* above 0; 0: none was given */
    sc_text_list files; /* at least one */
} sc_data_item;

typedef SC_VEC(sc_data_item) sc_data_items;

/* Lists the items of each text. Either all have weights or none has. False after messages. Results
 * are in the context's arena. */
bool sc_data_list(sc_context *context, const sc_text_list *texts, sc_data_items *out);

#endif
