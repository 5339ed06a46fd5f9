/* JSON as every command writes it. */
#ifndef SHARDC_RUNTIME_DRIVE_JSON_H
#define SHARDC_RUNTIME_DRIVE_JSON_H

#include <jansson.h>

#include "support/strbuf.h"

/* Any double: "nan", "inf" and "-inf", which JSON lacks, as texts. */
json_t *sc_number_json(double value);
/* Adds the text of `root` and drops it. */
void sc_print_json(json_t *root, sc_strbuf *out);

#endif
