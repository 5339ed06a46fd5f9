/* Function frames of attention stages on GPUs: parameters, shared memory, indices. */
#include "codegen/attention/cuda_internal.h"

static void add_parameters(sc_attention_cuda *cuda)
{
    sc_attention_text *text = &cuda->text;
    const sc_attention_desc *desc = text->desc;
    for (uint32_t arg = 0; arg < desc->arg_count; arg++) {
        for (int role = 0; role < SC_ATTENTION_ROLES; role++) {
            if (desc->arrays[role].is_there && desc->arrays[role].arg == arg)
                sc_strbuf_printf(text->out->text, "%s%s *%s, ",
                                 sc_attention_is_written(desc, (sc_attention_role)role) ? ""
                                                                                        : "const ",
                                 sc_printer_stored(desc->arrays[role].dtype),
                                 sc_attention_role_name((sc_attention_role)role));
        }
    }
    if (cuda->code->scratch_bytes > 0)
        sc_strbuf_add(text->out->text, "unsigned char *scratch, ");
    for (uint32_t i = 0; i < desc->param_count; i++)
        sc_strbuf_printf(text->out->text, "int64_t param_%u, ", i);
    sc_strbuf_add(text->out->text, "const int64_t *sc_call, uint64_t *sc_failure)\n");
}

static void declare_params(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const char *all = "";
    for (uint32_t i = 0; i < desc->param_count; i++) {
        const char *value = desc->params[i].kind == SC_PARAM_STEP
                                ? "sc_call[0]"
                                : (const char *)sc_arena_printf(text->arena, "param_%u", i);
        all = sc_arena_printf(text->arena, "%s%s%s", all, i == 0 ? "" : ", ", value);
    }
    if (desc->param_count > 0)
        sc_write_line(text->out, "const int64_t params[] = {%s};", all);
    if (desc->p > 0) {
        sc_write_line(text->out, "const uint64_t random_key = (uint64_t)params[%u];",
                      desc->key_param);
        sc_write_line(text->out, "const uint32_t random_step = (uint32_t)params[%u];",
                      desc->key_param + 1);
        sc_write_line(text->out, "const uint32_t random_micro_batch = (uint32_t)params[%u];",
                      desc->key_param + 2);
    }
}

void sc_attention_cuda_begin(sc_attention_cuda *cuda, int64_t blocks, uint32_t threads,
                             int resident)
{
    sc_attention_text *text = &cuda->text;
    uint32_t number = cuda->code->stage_count++;
    cuda->code->stages[number] =
        (sc_cuda_stage){.blocks = blocks < 1 ? 1 : blocks, .threads = threads};
    cuda->shared = 0;
    sc_strbuf_printf(text->out->text, "SC_KERNEL(%u, %d) void %s_%u(", threads, resident,
                     text->name, number);
    add_parameters(cuda);
    sc_write_open_block(text->out);
    declare_params(text);
}

void sc_attention_cuda_end(sc_attention_cuda *cuda)
{
    sc_write_close(cuda->text.out);
    sc_strbuf_add_char(cuda->text.out->text, '\n');
    cuda->code->stages[cuda->code->stage_count - 1].shared_bytes = cuda->shared;
}

uint32_t sc_attention_cuda_share(sc_attention_cuda *cuda, const char *type, const char *name,
                                 uint32_t element_bytes, int64_t count)
{
    uint32_t at = cuda->shared;
    sc_write_line(cuda->text.out, "const sc_shared_ptr<%s> %s = sc_shared<%s>(%u);", type, name,
                  type, at);
    cuda->shared = (uint32_t)(at + element_bytes * count + 15) / 16 * 16;
    return at;
}

void sc_attention_cuda_decode(sc_attention_text *text, sc_attention_choice *choice,
                              const char *number)
{
    const sc_attention_desc *desc = text->desc;
    int64_t all = sc_attention_points(desc, choice), divide = 1;
    const char *type = all < INT32_MAX ? "uint32_t" : "int64_t";
    for (uint32_t i = desc->query_count; i-- > 0;) {
        const sc_attention_dim *dim = &desc->queries[i];
        if (!choice(desc, dim))
            continue;
        const char *index = sc_arena_printf(text->arena, "(%s)%s", type, number);
        if (divide > 1)
            index = sc_arena_printf(text->arena, "%s / %lld", index, (long long)divide);
        divide *= dim->size;
        if (divide < all)
            index = sc_arena_printf(text->arena, "%s %% %lld", index, (long long)dim->size);
        sc_write_line(text->out, "const int64_t s%u = %s; /* %s */", i,
                      dim->size == 1 ? "0" : index, dim->name);
    }
}
