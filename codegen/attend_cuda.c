/* Which form attention gets on cards, and the functions of its stages. */
#include "codegen/attend_cuda.h"

#include <string.h>

#include "codegen/attend_cuda_emit.h"

/* ---- stages ---- */

static void add_parameters(sc_attend_cuda *cuda)
{
    sc_attend_text *text = &cuda->text;
    const sc_attend_desc *desc = text->desc;
    for (uint32_t arg = 0; arg < desc->arg_count; arg++) {
        for (int role = 0; role < SC_ATTEND_ROLES; role++) {
            if (desc->arrays[role].is_there && desc->arrays[role].arg == arg)
                sc_strbuf_printf(text->out, "%s%s *%s, ", sc_attend_is_written(desc, (sc_attend_role)role) ? "" : "const ",
                                 sc_attend_type(desc->arrays[role].dtype), sc_attend_role_name((sc_attend_role)role));
        }
    }
    if (cuda->code->scratch_bytes > 0)
        sc_strbuf_add(text->out, "unsigned char *scratch, ");
    for (uint32_t i = 0; i < desc->param_count; i++)
        sc_strbuf_printf(text->out, "int64_t param_%u, ", i);
    sc_strbuf_add(text->out, "const int64_t *sc_call, uint64_t *sc_failure)\n");
}

static void declare_params(sc_attend_text *text)
{
    const sc_attend_desc *desc = text->desc;
    const char *all = "";
    for (uint32_t i = 0; i < desc->param_count; i++) {
        const char *value =
            desc->params[i].kind == SC_PARAM_STEP ? "sc_call[0]" : (const char *)sc_arena_printf(text->arena, "param_%u", i);
        all = sc_arena_printf(text->arena, "%s%s%s", all, i == 0 ? "" : ", ", value);
    }
    if (desc->param_count > 0)
        sc_attend_line(text, "const int64_t params[] = {%s};", all);
    if (desc->p > 0) {
        sc_attend_line(text, "const uint64_t random_key = (uint64_t)params[%u];", desc->key_param);
        sc_attend_line(text, "const uint32_t random_step = (uint32_t)params[%u];", desc->key_param + 1);
        sc_attend_line(text, "const uint32_t random_micro_batch = (uint32_t)params[%u];", desc->key_param + 2);
    }
}

sc_cuda_stage *sc_attend_cuda_begin(sc_attend_cuda *cuda, int64_t blocks, uint32_t threads, int resident)
{
    sc_attend_text *text = &cuda->text;
    uint32_t number = cuda->code->stage_count++;
    sc_cuda_stage *stage = &cuda->code->stages[number];
    *stage = (sc_cuda_stage){.blocks = blocks < 1 ? 1 : blocks, .threads = threads};
    sc_strbuf_printf(text->out, "SC_KERNEL(%u, %d) void %s_%u(", threads, resident, text->name, number);
    add_parameters(cuda);
    sc_attend_line(text, "{");
    text->depth++;
    declare_params(text);
    return stage;
}

void sc_attend_cuda_end(sc_attend_cuda *cuda)
{
    sc_attend_close(&cuda->text);
    sc_strbuf_add_char(cuda->text.out, '\n');
}

/* ---- the function ---- */

void sc_attend_emit_cuda(sc_context *context, const sc_attend_desc *desc, const char *name, sc_strbuf *out, sc_helper_set *helpers,
                         sc_cuda_code *code)
{
    sc_strbuf body;
    sc_strbuf_init(&body, &context->arena);
    bool is_wide = desc->arrays[SC_ATTEND_Q].dtype == SC_DTYPE_f64;
    sc_attend_cuda cuda = {.text = {&context->arena, desc, name, is_wide ? "double" : "float", &body, 0}, .code = code};
    memset(code, 0, sizeof *code);
    code->why_simple = "there is no other form yet";
    sc_attend_cuda_simple(&cuda);
    if (helpers != NULL)
        *helpers |= sc_helpers_named_in(body.data) & ~SC_CUDA_MACHINE_HELPERS;
    sc_strbuf_add(out, body.data);
}
