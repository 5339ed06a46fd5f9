/* JSON numbers and output. */
#include "runtime/drive/json.h"

#include <math.h>
#include <stdlib.h>

#include "support/json.h"

json_t *sc_number_json(double value)
{
    return isfinite(value) ? json_real(value)
                           : json_string(isnan(value) ? "nan"
                                         : value > 0  ? "inf"
                                                      : "-inf");
}

void sc_print_json(json_t *root, sc_strbuf *out)
{
    char *text = sc_json_write(root, JSON_INDENT(1));
    json_decref(root);
    sc_strbuf_add(out, text == NULL ? "" : text);
    sc_strbuf_add_char(out, '\n');
    free(text);
}
