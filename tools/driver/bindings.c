#include "tools/driver/bindings.h"

#include <string.h>

void sc_parse_bindings(sc_context *context, const char *option, const char *text,
                       sc_binding_list *list)
{
    while (*text != 0) {
        size_t length = strcspn(text, ","), name = strcspn(text, "=");
        int64_t size;
        if (name == 0 || name >= length ||
            !sc_whole_number(
                sc_arena_copy_text(&context->arena, text + name + 1, length - name - 1), &size) ||
            size < 1) {
            sc_report(&context->diag, SC_D_usage, (sc_loc){0},
                      sc_arena_printf(&context->arena,
                                      "%s takes NAME=SIZE,.. with sizes of at least 1, not '%.*s'",
                                      option, (int)length, text),
                      NULL);
            return;
        }
        *sc_vec_push(&context->arena, list) =
            (sc_binding){.dim = sc_intern(&context->names, text, name), .size = size};
        text += length + (text[length] == ',');
    }
}
