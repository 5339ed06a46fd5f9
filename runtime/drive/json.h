/* JSON output shared by all commands. */
#ifndef SHARDC_RUNTIME_DRIVE_JSON_H
#define SHARDC_RUNTIME_DRIVE_JSON_H

#include <jansson.h>

#include "support/strbuf.h"

/* Converts any double: "nan", "inf" and "-inf", which JSON lacks, become strings. */
json_t *sc_number_json(double value);
/* Appends the text of `root`, and releases it. */
void sc_print_json(json_t *root, sc_strbuf *out);

#endif
