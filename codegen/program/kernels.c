/* Calls of functions that codegen writes: each text is emitted once, and calls that differ in their arguments only share it. Kernels are
 * lowered here from the ops that share one. */
#include <string.h>

#include "codegen/c/emit.h"
#include "codegen/cuda/emit.h"
#include "codegen/lower/lower.h"
#include "codegen/program/internal.h"
#include "ir/ops/expand.h"

bool sc_generator_is_cuda(const sc_generator *g)
{
    return g->options->target != NULL && sc_target_is_cuda(g->options->target);
}

void sc_generator_emit(sc_generator *g, const sc_emitters *emit, const void *what, sc_generated_kernel *shown, uint32_t *out_kernel,
                       bool *out_new)
{
    sc_strbuf bare, text;
    sc_helper_set helpers = 0;
    sc_cuda_code code = {0};
    sc_emit_fn *chosen = sc_generator_is_cuda(g) ? emit->cuda : emit->processor;
    sc_arena *scratch = &g->m->context->scratch;
    const sc_arena_mark mark = sc_arena_mark_here(scratch);
    sc_strbuf_init(&bare, scratch);
    chosen(g, what, SC_OBJECT_NAME, false, &bare, NULL, &code);
    /* Grids are not in the text. */
    for (uint32_t s = 0; s < code.stage_count; s++)
        sc_strbuf_printf(&bare, "%lld %u %u\n", (long long)code.stages[s].blocks, code.stages[s].threads, code.stages[s].shared_bytes);
    const char *symbol = sc_object_symbol(scratch, bare.data);
    uint32_t *known = sc_map_insert(&g->kernel_map, sc_hash_bytes(symbol, strlen(symbol), 0), g->kernels.count, out_new);
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
    *kernel = (sc_image_kernel){.symbol = symbol, .title = shown->title, .simple = shown->why_simple != NULL};
    kernel->stage_count = code.stage_count;
    kernel->stages = sc_arena_array(g->arena, code.stage_count, sizeof *kernel->stages);
    if (code.stage_count > 0)
        memcpy(kernel->stages, code.stages, code.stage_count * sizeof *kernel->stages);
    sc_arena_release(scratch, mark);
}

const sc_image_ref *sc_generator_add_scratch(sc_generator *g, uint32_t kernel, const sc_image_ref *args, uint32_t *count, const char *name)
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

/* Functions may differ in what their text does not show: parameters that folded away are still given; checks say what is wrong. */
static void add_hidden(const sc_kernel *k, sc_strbuf *out)
{
    sc_strbuf_printf(out, "%u parameters\n", k->params.count);
    for (uint32_t i = 0; i < k->items.count; i++) {
        if (k->items.data[i].kind == SC_ITEM_CHECK)
            sc_strbuf_printf(out, "%s\n", k->items.data[i].message);
    }
}

static void emit_kernel(sc_generator *g, const void *what, const char *name, bool comments, sc_strbuf *out, sc_helper_set *helpers,
                        sc_cuda_code *code)
{
    (void)g, (void)code;
    sc_c_emit(what, name, comments, out, helpers);
    if (!comments)
        add_hidden(what, out);
}

static void emit_kernel_cuda(sc_generator *g, const void *what, const char *name, bool comments, sc_strbuf *out, sc_helper_set *helpers,
                             sc_cuda_code *code)
{
    (void)g;
    sc_cuda_emit(what, name, comments, out, helpers, code);
    if (!comments)
        add_hidden(what, out);
}

static const sc_emitters kernel_emitters = {emit_kernel, emit_kernel_cuda};

/* What the image says of the function: its arguments and checks. */
static void describe_kernel(sc_generator *g, const sc_kernel *k, int64_t scratch_bytes, sc_image_kernel *out)
{
    out->arg_count = k->args.count;
    out->param_count = k->params.count;
    out->args = sc_arena_array(g->arena, k->args.count + 1u, sizeof *out->args);
    out->checks = sc_arena_array(g->arena, k->items.count, sizeof *out->checks);
    for (uint32_t i = 0; i < k->args.count; i++) {
        int64_t elements = 1;
        for (uint32_t d = 0; d < k->args.data[i].rank; d++)
            elements *= k->args.data[i].sizes[d];
        out->args[i] = (sc_image_arg){elements * sc_dtypes[k->args.data[i].dtype].bytes, (uint8_t)k->args.data[i].mode};
    }
    if (scratch_bytes > 0)
        out->args[out->arg_count++] = (sc_image_arg){scratch_bytes, SC_ACCESS_OUT};
    for (uint32_t i = 0; i < k->items.count; i++) {
        const char *message = k->items.data[i].message;
        if (k->items.data[i].kind == SC_ITEM_CHECK)
            out->checks[out->check_count++] = sc_arena_copy_text(g->arena, message, strlen(message));
    }
}

static bool is_state_buffer(const sc_generator *g, uint32_t buffer)
{
    return g->buffers.data[buffer].kind <= SC_BUFFER_OTHER_STATE;
}

/* What the kernel may write in place of an operand; a stand-in writes where the product did. */
static void wish(sc_generator *g, const sc_kernel *k, const sc_image_ref *args)
{
    if (g->instead)
        return;
    for (uint32_t o = 0; o < k->args.count; o++) {
        for (uint32_t i = 0; i < k->args.count; i++) {
            const sc_image_buffer *out = &g->buffers.data[args[o].buffer], *in = &g->buffers.data[args[i].buffer];
            if (k->args.data[o].mode == SC_ARG_OUT && k->args.data[i].mode == SC_ARG_IN && args[i].at == 0 && out->bytes == in->bytes &&
                !is_state_buffer(g, args[o].buffer) && !is_state_buffer(g, args[i].buffer) && sc_kernel_may_share(k, i, o))
                *sc_vec_push(g->arena, &g->wishes) =
                    (sc_memory_wish){g->func_base + g->func, g->instrs.count, args[o].buffer, args[i].buffer};
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
    sc_generator_emit(g, &kernel_emitters, k, &shown, &index, &is_new);
    if (is_new) {
        sc_kernel_print(k, &ir);
        g->out->kernels.data[index].ir = ir.data;
        describe_kernel(g, k, g->out->kernels.data[index].code.scratch_bytes, &g->kernels.data[index]);
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

/* ---- what is known of inputs before anything runs ---- */

/* The same elements under another name, in another place, or as wider integers. */
static bool is_same_elements(const sc_module *m, const sc_op *op, uint32_t result)
{
    uint32_t traits = sc_op_traits(op);
    if ((traits & SC_NAMESAKE) == 0 || result >= op->operand_count)
        return false;
    const sc_dtype_row *from = &sc_dtypes[sc_type_of(m, op->operands[result])->dtype],
                       *to = &sc_dtypes[sc_type_of(m, op->first_result)->dtype];
    return (traits & SC_CONVERTS) == 0 || (from->kind == SC_DTYPE_INT && to->kind == SC_DTYPE_INT && from->bytes <= to->bytes);
}

/* The input whose elements the value's are, and what they may be besides; NULL: the value is computed. */
static sc_image_value *input_behind(sc_generator *g, sc_value value, bool *may_ignore, double *ignore)
{
    *may_ignore = false;
    for (;;) {
        const sc_op *op = sc_op_at(g->m, sc_def(g->m, value));
        if ((sc_op_traits(op) & SC_FROM_OUTSIDE) != 0)
            break;
        if (!*may_ignore && sc_is_ignoring(g->m, op, &value, ignore))
            *may_ignore = true;
        else if (is_same_elements(g->m, op, value - op->first_result))
            value = op->operands[value - op->first_result];
        else
            return NULL;
    }
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        if (g->inputs.data[i].buffer == g->place[value].buffer)
            return &g->inputs.data[i];
    }
    return NULL;
}

/* What the kernel checks of an input the session checks before anything runs. What one reader ignores, another may refuse. */
static void limit_inputs(sc_generator *g, const sc_lowered *lowered)
{
    for (uint32_t i = 0; i < lowered->ids.count; i++) {
        bool may_ignore;
        double ignore = 0;
        int64_t below = lowered->ids.data[i].below;
        sc_image_value *input = input_behind(g, lowered->ids.data[i].value, &may_ignore, &ignore);
        if (input == NULL)
            continue;
        bool is_first = input->below == 0;
        input->may_ignore = may_ignore && (is_first || (input->may_ignore && input->ignore == (int64_t)ignore));
        input->ignore = input->may_ignore ? (int64_t)ignore : 0;
        input->below = is_first || below < input->below ? below : input->below;
    }
}

static bool call_kernel(sc_generator *g, const sc_op_id *ops, uint32_t count)
{
    sc_lowered lowered;
    if (!sc_lower_kernel(g->m, ops, count, g->escapes, &lowered))
        return false;
    limit_inputs(g, &lowered);
    sc_kernel *k = lowered.kernel;
    sc_image_ref *args = sc_arena_array(g->arena, k->args.count, sizeof *args);
    for (uint32_t i = 0; i < k->args.count; i++) {
        if (k->args.data[i].mode == SC_ARG_IN)
            args[i] = sc_generator_read(g, lowered.args.data[i].value);
    }
    for (uint32_t i = 0; i < k->args.count; i++) {
        sc_value value = lowered.args.data[i].value, before = lowered.args.data[i].in_place;
        if (k->args.data[i].mode == SC_ARG_IN)
            continue;
        sc_image_ref old = before != SC_NONE ? sc_generator_read(g, before) : (sc_image_ref){0};
        bool may_share = true, is_read_too = false;
        for (uint32_t j = 0; j < k->args.count; j++) {
            if (k->args.data[j].mode != SC_ARG_IN)
                continue;
            if (sc_generator_overwrites(g, value, lowered.args.data[j].value))
                may_share = may_share && sc_kernel_may_share(k, j, i);
            is_read_too = is_read_too || (before != SC_NONE && g->root[lowered.args.data[j].value] == g->root[before]);
        }
        bool takes_place = before != SC_NONE && !is_read_too && g->target[value] == SC_NONE && g->last_read[g->root[before]] == g->unit &&
                           !is_state_buffer(g, old.buffer) && !sc_generator_is_input(g, old.buffer) && old.at == 0;
        args[i] = takes_place ? (g->place[value] = old) : sc_generator_write(g, value, SC_BUFFER_ACT, may_share);
        if (before != SC_NONE && (args[i].buffer != old.buffer || args[i].at != old.at))
            sc_generator_copy(g, ops[count - 1], old, args[i]);
    }
    sc_generator_call(g, ops[count - 1], k, args);
    return true;
}

bool unit_kernel(sc_generator *g, const sc_op_id *ops, uint32_t count)
{
    sc_arena *scratch = &g->m->context->scratch;
    const sc_arena_mark mark = sc_arena_mark_here(scratch);
    bool fine = call_kernel(g, ops, count);
    sc_arena_release(scratch, mark);
    return fine;
}
