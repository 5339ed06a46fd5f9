/* Emits C for attention in the form that the descriptor selects. */
#include "codegen/attention/c_internal.h"

void sc_attention_emit(sc_context *context, const sc_attention_desc *desc, const char *name,
                       sc_strbuf *out, sc_helper_set *helpers)
{
    sc_strbuf body;
    sc_strbuf_init(&body, &context->scratch);
    bool is_wide = desc->arrays[SC_ATTENTION_Q].dtype == SC_DTYPE_f64;
    sc_writer writer = {.text = &body};
    sc_attention_text text = {&context->scratch, desc, name, is_wide ? "double" : "float", &writer};
    if (desc->form == SC_ATTENTION_SIMPLE)
        sc_attention_emit_simple(&text);
    else if (desc->form == SC_ATTENTION_DECODE)
        sc_attention_emit_decode(&text);
    else if (desc->is_grad)
        sc_attention_emit_tiled_grad(&text);
    else
        sc_attention_emit_tiled(&text);
    if (helpers != NULL)
        *helpers |= SC_HELPER(headers) | SC_HELPER(math) | sc_helpers_named_in(body.data);
    sc_strbuf_add(out, body.data);
}
