/* Any bytes: the IR parser refuses them or makes a module whose text reads back to the same text.
 * Seeds: test/ir. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ops/verify.h"
#include "ir/text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

static const char *printed(const sc_module *m, bool fold)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &m->context->arena);
    sc_print_module(m, &(sc_print_options){.fold = fold}, &out);
    return out.data;
}

static void round_trip(sc_context *context, void *user)
{
    const input *in = user;
    sc_module *m = sc_parse_module(context, "fuzz", (const char *)in->data, in->size);
    if (m == NULL) {
        if (context->diag.errors == 0)
            abort();
        sc_strbuf out;
        sc_strbuf_init(&out, &context->arena);
        sc_diag_render_text(&context->diag, &context->sources, &out);
        return;
    }
    const char *text = printed(m, false);
    sc_module *again = sc_parse_module(context, "printed", text, strlen(text));
    if (again == NULL || strcmp(printed(again, false), text) != 0 ||
        strcmp(printed(again, true), printed(m, true)) != 0)
        abort();
    sc_verify_module(again, "reading");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sc_context context;
    sc_context_run(&context, 0, round_trip, &(input){data, size});
    sc_context_free(&context);
    return 0;
}
