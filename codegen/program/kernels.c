/* Calls of emitted functions: equal texts are emitted once and shared by calls that differ in their
 * arguments only. */
#include <string.h>

#include "codegen/c/emit.h"
#include "codegen/cuda/emit.h"
#include "codegen/program/internal.h"

void sc_generator_emit(sc_generator *g, const sc_generator_printers *emit, const void *what,
                       sc_generated_kernel *shown, uint32_t *out_kernel, bool *out_new)
{
    sc_strbuf bare, text;
    sc_helper_set helpers = 0;
    sc_cuda_code code = {0};
    sc_generator_print_fn *chosen = sc_generator_is_cuda(g) ? emit->cuda : emit->cpu;
    sc_arena *scratch = &g->m->context->scratch;
    const sc_arena_mark mark = sc_arena_mark_here(scratch);
    sc_strbuf_init(&bare, scratch);
    chosen(g, what, SC_OBJECT_NAME, false, &bare, NULL, &code);
    /* Launch grids are not in the text. */
    for (uint32_t s = 0; s < code.stage_count; s++)
        sc_strbuf_printf(&bare, "%lld %u %u\n", (long long)code.stages[s].blocks,
                         code.stages[s].threads, code.stages[s].shared_bytes);
    const char *symbol = sc_object_symbol(scratch, bare.data);
    uint32_t *known = sc_map_insert(&g->kernel_map, sc_hash_bytes(symbol, strlen(symbol), 0),
                                    g->kernels.count, out_new);
    *out_kernel = *known;
    if (!*out_new) {
        g->out->kernels.data[*out_kernel].calls++;
        sc_arena_release(scratch, mark);
        return;
    }
    symbol = sc_arena_copy_text(g->arena, symbol, strlen(symbol));
    sc_strbuf_init(&text, g->arena);
    chosen(g, what, symbol, true, &text, &helpers, &code);
    shown->title = sc_arena_copy_text(g->arena, shown->title, strlen(shown->title));
    shown->symbol = symbol;
    shown->text = text.data;
    shown->helpers = helpers;
    shown->code = code;
    shown->calls = 1;
    if (sc_generator_is_cuda(g))
        shown->why_simple = code.why_simple;
    *sc_vec_push(g->arena, &g->out->kernels) = *shown;
    sc_image_kernel *kernel = sc_vec_push(g->arena, &g->kernels);
    *kernel = (sc_image_kernel){
        .symbol = symbol, .title = shown->title, .simple = shown->why_simple != NULL};
    kernel->stage_count = code.stage_count;
    kernel->stages = sc_arena_array(g->arena, code.stage_count, sizeof *kernel->stages);
    if (code.stage_count > 0)
        memcpy(kernel->stages, code.stages, code.stage_count * sizeof *kernel->stages);
    sc_arena_release(scratch, mark);
}

const sc_image_ref *sc_generator_add_scratch(sc_generator *g, uint32_t kernel,
                                             const sc_image_ref *args, uint32_t *count,
                                             const char *name)
{
    int64_t bytes = g->out->kernels.data[kernel].code.scratch_bytes;
    if (bytes == 0)
        return args;
    sc_image_ref *more = sc_arena_array(g->arena, *count + 1, sizeof *more);
    if (*count > 0)
        memcpy(more, args, *count * sizeof *more);
    more[(*count)++] = (sc_image_ref){sc_generator_buffer(g, SC_BUFFER_WORKSPACE, bytes, name), 0};
    return more;
}

/* Functions may differ in what their text does not show: params that folded away are still passed,
 * and checks have messages. */
static void add_hidden(const sc_kernel *k, sc_strbuf *out)
{
    sc_strbuf_printf(out, "%u parameters\n", k->params.count);
    for (uint32_t i = 0; i < k->items.count; i++) {
        if (k->items.data[i].kind == SC_ITEM_CHECK)
            sc_strbuf_printf(out, "%s\n", k->items.data[i].message);
    }
}

static void emit_kernel(sc_generator *g, const void *what, const char *name, bool comments,
                        sc_strbuf *out, sc_helper_set *helpers, sc_cuda_code *code)
{
    (void)g, (void)code;
    sc_c_emit(what, name, comments, out, helpers);
    if (!comments)
        add_hidden(what, out);
}

static void emit_kernel_cuda(sc_generator *g, const void *what, const char *name, bool comments,
                             sc_strbuf *out, sc_helper_set *helpers, sc_cuda_code *code)
{
    (void)g;
    sc_cuda_emit(what, name, comments, out, helpers, code);
    if (!comments)
        add_hidden(what, out);
}

static const sc_generator_printers kernel_printers = {emit_kernel, emit_kernel_cuda};

/* The program's description of the function: its arguments and checks. */
static void describe_kernel(sc_generator *g, const sc_kernel *k, int64_t scratch_bytes,
                            sc_image_kernel *out)
{
    out->arg_count = k->args.count;
    out->param_count = k->params.count;
    out->args = sc_arena_array(g->arena, k->args.count + 1u, sizeof *out->args);
    out->checks = sc_arena_array(g->arena, k->items.count, sizeof *out->checks);
    int64_t *moved = sc_arena_array(k->arena, k->args.count + 1u, sizeof *moved);
    sc_kernel_traffic(k, moved);
    for (uint32_t i = 0; i < k->args.count; i++) {
        int64_t elements = 1;
        for (uint32_t d = 0; d < k->args.data[i].rank; d++)
            elements *= k->args.data[i].sizes[d];
        out->args[i] = (sc_image_arg){elements * sc_dtypes[k->args.data[i].dtype].bytes,
                                      (uint8_t)k->args.data[i].mode, moved[i]};
    }
    if (scratch_bytes > 0)
        out->args[out->arg_count++] = (sc_image_arg){scratch_bytes, SC_ACCESS_OUT, scratch_bytes};
    for (uint32_t i = 0; i < k->items.count; i++) {
        const char *message = k->items.data[i].message;
        if (k->items.data[i].kind == SC_ITEM_CHECK)
            out->checks[out->check_count++] =
                sc_arena_copy_text(g->arena, message, strlen(message));
    }
}

/* Adds wishes for operands that the kernel may overwrite; the fallback of a GEMM writes where the
 * GEMM does. */
static void wish(sc_generator *g, const sc_kernel *k, const sc_image_ref *args)
{
    if (g->unit.instead)
        return;
    for (uint32_t o = 0; o < k->args.count; o++) {
        for (uint32_t i = 0; i < k->args.count; i++) {
            const sc_image_buffer *out = &g->buffers.data[args[o].buffer],
                                  *in = &g->buffers.data[args[i].buffer];
            if (k->args.data[o].mode == SC_ARG_OUT && k->args.data[i].mode == SC_ARG_IN &&
                args[i].at == 0 && out->bytes == in->bytes &&
                !sc_generator_is_state(g, args[o].buffer) &&
                !sc_generator_is_state(g, args[i].buffer) && sc_kernel_may_share(k, i, o))
                *sc_vec_push(g->arena, &g->wishes) = (sc_memory_wish){
                    g->func_index, g->func.instrs.count, args[o].buffer, args[i].buffer};
        }
    }
}

void sc_generator_call(sc_generator *g, sc_op_id op, sc_kernel *k, const sc_image_ref *args)
{
    bool is_new;
    sc_arena *scratch = &g->m->context->scratch;
    const sc_arena_mark mark = sc_arena_mark_here(scratch);
    k->arena = k->unique.arena = scratch;
    sc_kernel_simplify(k);
    uint32_t index, count = k->args.count;
    sc_strbuf ir;
    sc_strbuf_init(&ir, g->arena);
    sc_generated_kernel shown = {.title = k->title};
    sc_generator_emit(g, &kernel_printers, k, &shown, &index, &is_new);
    if (is_new) {
        sc_kernel_print(k, &ir);
        g->out->kernels.data[index].ir = ir.data;
        describe_kernel(g, k, g->out->kernels.data[index].code.scratch_bytes,
                        &g->kernels.data[index]);
    }
    wish(g, k, args);
    args = sc_generator_add_scratch(g, index, args, &count, "scratch");
    sc_image_instr *instr = sc_generator_instr(g, SC_INSTR_KERNEL, op, index, args, count);
    instr->param_count = k->params.count;
    instr->params = sc_arena_array(g->arena, k->params.count, sizeof *instr->params);
    if (k->params.count > 0)
        memcpy(instr->params, k->params.data, k->params.count * sizeof *instr->params);
    sc_arena_release(scratch, mark);
}
