#include "codegen/program.h"

#include <string.h>

#include "codegen/emit_c.h"
#include "codegen/emit_cuda.h"
#include "codegen/lower.h"
#include "codegen/program_internal.h"
#include "support/processor.h"

static sc_unit_fn *const units[SC_OP_COUNT] = {
#define LOWER(op, function, node)
#define ROOT(op, function)
#define UNIT(op, function) [SC_OP_##op] = function,
#define STEP(op, kind)
#define LAYOUT(op)
#include "codegen/lowering.def"
#undef LAYOUT
#undef STEP
#undef UNIT
#undef ROOT
#undef LOWER
};

/* ---- values as the outside sees them ---- */
static sc_image_terms terms_where(const sc_module *m, const sc_placement *at, bool (*wanted)(uint8_t on))
{
    uint8_t atoms[SC_MAX_ATOMS];
    uint32_t count = 0;
    for (uint32_t a = 0; a < m->mesh.atom_count; a++) {
        if (wanted(at->on[a]))
            atoms[count++] = (uint8_t)a;
    }
    return sc_terms_of(m, atoms, count, 1);
}

static bool is_nothing(uint8_t on)
{
    return on == SC_ON_NOTHING;
}

sc_image_tensor sc_generator_tensor(const sc_generator *g, const sc_type_info *type)
{
    const sc_module *m = g->m;
    sc_image_tensor tensor = {.dtype = type->dtype, .rank = type->rank};
    for (uint32_t i = 0; i < type->rank; i++) {
        sc_atom_list list = sc_placement_dim(&type->placement, i);
        int64_t local = sc_type_local_size(m, type, i);
        tensor.dims[i] = (sc_image_dim){.name = sc_text(m->context, m->dims.data[type->dims[i].dim].name),
                                        .size = type->dims[i].size,
                                        .local = local,
                                        .first = sc_terms_of(m, list.atoms, list.count, local)};
    }
    tensor.replica = terms_where(m, &type->placement, is_nothing);
    tensor.part = terms_where(m, &type->placement, sc_is_partial);
    for (uint32_t a = 0; a < m->mesh.atom_count; a++) {
        uint8_t on = type->placement.on[a];
        tensor.pending = on == SC_PARTIAL_SUM   ? SC_IMAGE_SUM
                         : on == SC_PARTIAL_MAX ? SC_IMAGE_MAX
                         : on == SC_PARTIAL_MIN ? SC_IMAGE_MIN
                                                : tensor.pending;
    }
    return tensor;
}

const char *sc_generator_name(const sc_generator *g, sc_value value)
{
    const char *path = sc_text(g->m->context, g->m->values.data[value].path);
    const sc_op *def = sc_op_at(g->m, sc_def(g->m, value));
    const char *scope = sc_text(g->m->context, def->scope), *name = sc_ops[def->kind].name;
    if (path[0] != 0)
        return path;
    if ((sc_ops[def->kind].traits & SC_COLLECTIVE) != 0)
        return sc_arena_printf(g->arena, "%s of %s", name, sc_generator_name(g, def->operands[g->m->values.data[value].index]));
    return scope[0] == 0 ? name : sc_arena_printf(g->arena, "%s %s in %s", strchr("aeiou", name[0]) != NULL ? "an" : "a", name, scope);
}

/* ---- buffers and places ---- */
uint32_t sc_generator_buffer(sc_generator *g, sc_image_buffer_kind kind, int64_t bytes, const char *name)
{
    *sc_vec_push(g->arena, &g->buffers) = (sc_image_buffer){.kind = kind, .bytes = bytes, .name = name};
    *sc_vec_push(g->arena, &g->out->buffer_locs) = g->loc;
    return g->buffers.count - 1;
}

sc_image_ref sc_generator_read(sc_generator *g, sc_value value)
{
    uint32_t flight = g->flight[g->root[value]];
    if (flight != 0)
        sc_generator_finish(g, flight - 1);
    return g->place[value];
}

bool sc_generator_overwrites(const sc_generator *g, sc_value result, sc_value operand)
{
    uint32_t state = g->target[result];
    return state != SC_NONE && g->place[operand].buffer == g->state_buffer[state];
}

sc_image_ref sc_generator_write(sc_generator *g, sc_value value, sc_image_buffer_kind kind, bool may_share)
{
    uint32_t state = g->target[value];
    if (state != SC_NONE) {
        uint32_t last = g->state_last_read[state];
        if (last < g->unit || (last == g->unit && may_share))
            return g->place[value] = (sc_image_ref){g->state_buffer[state], 0};
        g->target[value] = SC_NONE;
    }
    int64_t bytes = sc_type_local_bytes(g->m, sc_type_of(g->m, value));
    return g->place[value] = (sc_image_ref){sc_generator_buffer(g, kind, bytes, sc_generator_name(g, value)), 0};
}

/* ---- instructions ---- */
sc_image_instr *sc_generator_instr(sc_generator *g, sc_image_instr_kind kind, sc_op_id op, uint32_t index, const sc_image_ref *args,
                                   uint32_t arg_count)
{
    const sc_op *o = sc_op_at(g->m, op);
    const char *phase = sc_text(g->m->context, sc_op_word(o, SC_ATTR_phase));
    sc_image_instr *made = sc_vec_push(g->arena, &g->instrs);
    *made = (sc_image_instr){.kind = kind,
                             .stream = kind == SC_INSTR_COLLECTIVE ? 1 : 0,
                             .index = index,
                             .arg_count = arg_count,
                             .args = sc_arena_array(g->arena, arg_count, sizeof *args),
                             .where = sc_text(g->m->context, o->scope != 0 ? o->scope : g->m->funcs.data[g->func].name),
                             .phase = phase[0] != 0 ? phase : "forward"};
    if (arg_count > 0)
        memcpy(made->args, args, arg_count * sizeof *args);
    return made;
}

void sc_generator_copy(sc_generator *g, sc_op_id op, sc_image_ref from, sc_image_ref to)
{
    sc_generator_instr(g, SC_INSTR_COPY, op, 0, (sc_image_ref[]){from, to}, 2);
}

/* ---- emitted functions ---- */
static bool is_cuda(const sc_generator *g)
{
    return g->options->target != NULL && sc_target_is_cuda(g->options->target);
}

void sc_generator_emit(sc_generator *g, const sc_emitters *emit, const void *what, sc_generated_kernel *shown, uint32_t *out_kernel,
                       bool *out_new)
{
    sc_strbuf bare, text;
    sc_helper_set helpers = 0;
    sc_cuda_code code = {0};
    bool is_there = !is_cuda(g) || emit->cuda != NULL;
    sc_emit_fn *chosen = is_cuda(g) && is_there ? emit->cuda : emit->processor;
    sc_strbuf_init(&bare, g->arena);
    chosen(g, what, SC_OBJECT_NAME, false, &bare, &helpers, &code);
    /* Grids are not in the text. */
    for (uint32_t s = 0; s < code.stage_count; s++)
        sc_strbuf_printf(&bare, "%lld %u %u\n", (long long)code.stages[s].blocks, code.stages[s].threads, code.stages[s].shared_bytes);
    const char *symbol = sc_object_symbol(g->arena, bare.data);
    uint32_t *known = sc_map_insert(&g->kernel_map, sc_hash_bytes(symbol, strlen(symbol), 0), g->kernels.count, out_new);
    *out_kernel = *known;
    if (!*out_new) {
        g->out->kernels.data[*out_kernel].calls++;
        return;
    }
    sc_strbuf_init(&text, g->arena);
    chosen(g, what, symbol, true, &text, &helpers, &code);
    shown->symbol = symbol;
    shown->text = is_there ? text.data : NULL;
    shown->helpers = helpers;
    shown->code = code;
    shown->calls = 1;
    if (is_cuda(g))
        shown->why_simple = is_there ? code.why_simple : "there is no form of it for CUDA yet";
    *sc_vec_push(g->arena, &g->out->kernels) = *shown;
    *sc_vec_push(g->arena, &g->kernels) = (sc_image_kernel){.symbol = symbol, .title = shown->title, .simple = shown->why_simple != NULL};
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
    sc_emit_c(what, name, comments, out, helpers);
    if (!comments)
        add_hidden(what, out);
}

static void emit_kernel_cuda(sc_generator *g, const void *what, const char *name, bool comments, sc_strbuf *out, sc_helper_set *helpers,
                             sc_cuda_code *code)
{
    (void)g;
    sc_emit_cuda(what, name, comments, out, helpers, code);
    if (!comments)
        add_hidden(what, out);
}

static const sc_emitters kernel_emitters = {emit_kernel, emit_kernel_cuda};

/* What the image says of the function: its arguments and checks. */
static void describe_kernel(sc_generator *g, const sc_kernel *k, int64_t scratch_bytes, sc_image_kernel *out)
{
    out->arg_count = k->args.count;
    out->param_count = k->params.count;
    out->args = sc_arena_array(g->arena, k->args.count + 1, sizeof *out->args);
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
        if (k->items.data[i].kind == SC_ITEM_CHECK)
            out->checks[out->check_count++] = k->items.data[i].message;
    }
}

bool sc_generator_is_input(const sc_generator *g, uint32_t buffer)
{
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        if (g->inputs.data[i].buffer == buffer)
            return true;
    }
    return false;
}

static bool is_state_buffer(const sc_generator *g, uint32_t buffer)
{
    return g->buffers.data[buffer].kind <= SC_BUFFER_OTHER_STATE;
}

/* What the kernel may write in place of an operand. */
static void wish(sc_generator *g, const sc_kernel *k, const sc_image_ref *args)
{
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

bool sc_generator_call(sc_generator *g, sc_op_id op, sc_kernel *k, const sc_image_ref *args)
{
    bool is_new;
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
    instr->params = k->params.data;
    return true;
}

bool unit_kernel(sc_generator *g, const sc_op_id *ops, uint32_t count)
{
    sc_lowered lowered;
    if (!sc_lower_kernel(g->m, ops, count, g->escapes, &lowered))
        return false;
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
        bool may_share = true;
        for (uint32_t j = 0; j < k->args.count; j++) {
            if (k->args.data[j].mode == SC_ARG_IN && sc_generator_overwrites(g, value, lowered.args.data[j].value))
                may_share = may_share && sc_kernel_may_share(k, j, i);
        }
        bool takes_place = before != SC_NONE && g->target[value] == SC_NONE && g->last_read[g->root[before]] == g->unit &&
                           !is_state_buffer(g, old.buffer) && !sc_generator_is_input(g, old.buffer) && old.at == 0;
        args[i] = takes_place ? (g->place[value] = old) : sc_generator_write(g, value, SC_BUFFER_ACT, may_share);
        if (before != SC_NONE && (args[i].buffer != old.buffer || args[i].at != old.at))
            sc_generator_copy(g, ops[count - 1], old, args[i]);
    }
    sc_kernel_simplify(k);
    return sc_generator_call(g, ops[count - 1], k, args);
}

/* ---- one function ---- */
/* Ops that share a kernel are one unit; so is every other op. */
static void number_units(sc_generator *g)
{
    int64_t last = -1;
    g->unit_count = 0;
    sc_for_each_op (g->m, g->func, op) {
        int64_t number = sc_op_int(sc_op_at(g->m, op), SC_ATTR_kernel, -1);
        if (g->unit_count == 0 || number < 0 || number != last)
            g->unit_count++;
        g->unit_of[op] = g->unit_count - 1;
        last = number;
    }
}

static bool is_view(const sc_op *op)
{
    return (sc_ops[op->kind].fuse & SC_FUSE_VIEW) != 0 && sc_op_attr(op, SC_ATTR_kernel) == NULL;
}

static void find_roots(sc_generator *g)
{
    const sc_module *m = g->m;
    sc_for_each_op (m, g->func, op) {
        const sc_op *o = sc_op_at(m, op);
        for (uint32_t r = 0; r < o->result_count; r++)
            g->root[o->first_result + r] = is_view(o) ? g->root[o->operands[0]] : o->first_result + r;
    }
}

/* When values are read last; what a collective reads, until its results are, and what the function gives out, to the end. */
static void find_last_reads(sc_generator *g)
{
    const sc_module *m = g->m;
    sc_for_each_op_reverse (m, g->func, op) {
        const sc_op *o = sc_op_at(m, op);
        uint32_t at = g->unit_of[op], traits = sc_op_traits(o);
        if ((traits & SC_COLLECTIVE) != 0) {
            for (uint32_t r = 0; r < o->result_count; r++)
                at = g->last_read[g->root[o->first_result + r]] > at ? g->last_read[g->root[o->first_result + r]] : at;
        }
        if ((traits & SC_EFFECT) != 0 && (traits & (SC_STATE_WRITE | SC_FROM_OUTSIDE)) == 0)
            at = SC_LASTS;
        for (uint32_t i = 0; i < o->operand_count; i++) {
            uint32_t *last = &g->last_read[g->root[o->operands[i]]];
            if ((traits & SC_STATE_WRITE) == 0 && at > *last)
                *last = at;
        }
    }
}

static void find_last_reads_of_states(sc_generator *g)
{
    sc_for_each_op (g->m, g->func, op) {
        const sc_op *o = sc_op_at(g->m, op);
        if ((sc_op_traits(o) & SC_STATE_READ) == 0)
            continue;
        uint32_t *last = &g->state_last_read[sc_module_find_state(g->m, sc_op_word(o, SC_ATTR_name))];
        *last = g->last_read[o->first_result] > *last ? g->last_read[o->first_result] : *last;
    }
}

/* Which values are computed where a state stands. */
static void find_targets(sc_generator *g)
{
    const sc_module *m = g->m;
    sc_for_each_op (m, g->func, op) {
        const sc_op *o = sc_op_at(m, op);
        if ((sc_op_traits(o) & SC_STATE_WRITE) == 0)
            continue;
        sc_value root = g->root[o->operands[0]];
        const sc_op *def = sc_op_at(m, sc_def(m, root));
        bool computed = (sc_op_traits(def) & (SC_STATE_READ | SC_FROM_OUTSIDE)) == 0;
        if (computed && g->target[root] == SC_NONE)
            g->target[root] = sc_module_find_state(m, sc_op_word(o, SC_ATTR_name));
    }
}

static bool generate_unit(sc_generator *g, const sc_op_id *ops, uint32_t count)
{
    const sc_op *first = sc_op_at(g->m, ops[0]);
    g->unit = g->unit_of[ops[0]];
    g->loc = sc_op_at(g->m, ops[count - 1])->loc;
    if (sc_op_attr(first, SC_ATTR_kernel) != NULL) {
        for (uint32_t i = 0; i < count; i++) {
            if ((sc_ops[sc_op_at(g->m, ops[i])->kind].fuse & SC_FUSE_CONTRACT) != 0)
                return unit_contraction(g, ops, count);
        }
        return unit_kernel(g, ops, count);
    }
    if (units[first->kind] != NULL)
        return units[first->kind](g, ops[0]);
    sc_report(&g->m->context->diag, SC_D_ir_invalid, first->loc, "code generation",
              sc_arena_printf(g->arena, "lowering.def has no row for %s on its own", sc_ops[first->kind].name), NULL);
    return false;
}

static void *fresh(sc_generator *g, size_t count, size_t size, int byte)
{
    void *made = sc_arena_array(g->arena, count, size);
    if (count > 0)
        memset(made, byte, count * size);
    return made;
}

static bool generate_func(sc_generator *g, sc_func_id func, sc_image_func *out)
{
    sc_module *m = g->m;
    uint32_t values = m->values.count;
    g->func = func;
    g->instrs.count = g->inputs.count = g->outputs.count = g->flights.count = 0;
    g->state_copies.count = 0;
    g->instrs.data = NULL, g->inputs.data = NULL, g->outputs.data = NULL;
    g->instrs.capacity = g->inputs.capacity = g->outputs.capacity = 0;
    g->escapes = sc_find_escaping(m, func);
    g->unit_of = fresh(g, m->ops.count, sizeof *g->unit_of, 0);
    g->root = fresh(g, values, sizeof *g->root, 0xff);
    g->last_read = fresh(g, values, sizeof *g->last_read, 0);
    g->state_last_read = fresh(g, m->state.count, sizeof *g->state_last_read, 0);
    g->target = fresh(g, values, sizeof *g->target, 0xff);
    g->flight = fresh(g, values, sizeof *g->flight, 0);
    g->place = fresh(g, values, sizeof *g->place, 0xff);
    number_units(g);
    find_roots(g);
    find_last_reads(g);
    find_last_reads_of_states(g);
    find_targets(g);
    sc_op_id *ops = sc_arena_array(g->arena, m->ops.count, sizeof *ops);
    uint32_t count = 0;
    sc_for_each_op (m, func, op) {
        if (count > 0 && g->unit_of[op] != g->unit_of[ops[0]]) {
            if (!generate_unit(g, ops, count))
                return false;
            count = 0;
        }
        ops[count++] = op;
    }
    if (count > 0 && !generate_unit(g, ops, count))
        return false;
    for (uint32_t f = 0; f < g->flights.count; f++)
        sc_generator_finish(g, f);
    for (uint32_t c = 0; c < g->state_copies.count; c++)
        sc_generator_copy(g, g->state_copies.data[c].op, g->state_copies.data[c].from, g->state_copies.data[c].to);
    *out = (sc_image_func){.name = sc_text(m->context, m->funcs.data[func].name),
                           .instr_count = g->instrs.count,
                           .instrs = g->instrs.data,
                           .input_count = g->inputs.count,
                           .inputs = g->inputs.data,
                           .output_count = g->outputs.count,
                           .outputs = g->outputs.data};
    return true;
}

/* ---- the program ---- */
static sc_image_buffer_kind kind_of_state(sc_state_kind kind)
{
    static const sc_image_buffer_kind kinds[SC_STATE_KINDS] = {
        [SC_STATE_PARAM] = SC_BUFFER_PARAM,    [SC_STATE_CACHE] = SC_BUFFER_CACHE,        [SC_STATE_GRAD] = SC_BUFFER_GRAD,
        [SC_STATE_OPT] = SC_BUFFER_OPT,        [SC_STATE_SCALAR] = SC_BUFFER_OTHER_STATE, [SC_STATE_GATHERED] = SC_BUFFER_OTHER_STATE,
        [SC_STATE_SUM] = SC_BUFFER_OTHER_STATE};
    return kinds[kind];
}

static bool same_terms(const sc_image_terms *a, const sc_image_terms *b)
{
    return a->count == b->count && (a->count == 0 || memcmp(a->terms, b->terms, a->count * sizeof *a->terms) == 0);
}

static bool same_tensor(const sc_image_tensor *a, const sc_image_tensor *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank && a->pending == b->pending;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = strcmp(a->dims[i].name, b->dims[i].name) == 0 && a->dims[i].size == b->dims[i].size &&
               a->dims[i].local == b->dims[i].local && same_terms(&a->dims[i].first, &b->dims[i].first);
    return same && same_terms(&a->replica, &b->replica) && same_terms(&a->part, &b->part);
}

static uint32_t find_state(const sc_generator *g, const char *path)
{
    uint32_t found = 0;
    while (found < g->states.count && strcmp(g->states.data[found].path, path) != 0)
        found++;
    return found < g->states.count ? found : SC_IMAGE_NONE;
}

/* A state of the module, which another module may have brought. */
static bool add_state(sc_generator *g, const sc_state *state, uint32_t *out_buffer)
{
    sc_module *m = g->m;
    const sc_type_info *type = &m->types.data[state->type];
    const char *path = sc_text(m->context, state->path);
    sc_image_tensor tensor = sc_generator_tensor(g, type);
    uint32_t found = g->func_base == 0 ? SC_IMAGE_NONE : find_state(g, path);
    if (found == SC_IMAGE_NONE) {
        *out_buffer = sc_generator_buffer(g, kind_of_state(state->kind), sc_type_local_bytes(m, type), path);
        *sc_vec_push(g->arena, &g->states) = (sc_image_state){.path = path,
                                                              .kind = (uint8_t)state->kind,
                                                              .init = (uint8_t)state->init,
                                                              .init_args = {state->init_args[0], state->init_args[1]},
                                                              .tensor = tensor,
                                                              .buffer = *out_buffer,
                                                              .master = SC_IMAGE_NONE};
        return true;
    }
    *out_buffer = g->states.data[found].buffer;
    if (g->states.data[found].kind == (uint8_t)state->kind && same_tensor(&g->states.data[found].tensor, &tensor))
        return true;
    sc_report(&m->context->diag, SC_D_ir_invalid, state->loc, "code generation",
              sc_arena_printf(g->arena, "'%s' is not the same in all functions of the program", path), NULL);
    return false;
}

static bool add_states(sc_generator *g)
{
    sc_module *m = g->m;
    g->state_buffer = sc_arena_array(g->arena, m->state.count, sizeof *g->state_buffer);
    for (uint32_t s = 0; s < m->state.count; s++) {
        if (!add_state(g, &m->state.data[s], &g->state_buffer[s]))
            return false;
    }
    for (uint32_t s = 0; s < m->state.count; s++) {
        const char *path = sc_text(m->context, m->state.data[s].path);
        uint32_t wide = sc_module_find_state(m, sc_intern_printf(&m->context->names, "%s.master", path));
        if (m->state.data[s].kind == SC_STATE_PARAM && wide != SC_NONE)
            g->states.data[find_state(g, path)].master = find_state(g, sc_text(m->context, m->state.data[wide].path));
    }
    return true;
}

static bool report(sc_generator *g, const char *stage, const char *error)
{
    if (error != NULL)
        sc_report(&g->m->context->diag, SC_D_ir_invalid, (sc_loc){0}, stage, error, NULL);
    return error == NULL;
}

static bool add_object(sc_generator *g, sc_image *image)
{
    uint32_t count = g->out->kernels.count;
    sc_object_function *functions = sc_arena_array(g->arena, count, sizeof *functions);
    for (uint32_t i = 0; i < count; i++) {
        const sc_generated_kernel *kernel = &g->out->kernels.data[i];
        functions[i] = (sc_object_function){kernel->symbol, kernel->text, kernel->helpers};
    }
    sc_object object;
    const char *error = sc_objects_build(g->arena, functions, count, g->options->object, &object);
    if (error != NULL) {
        sc_report(&g->m->context->diag, SC_D_compiler_failed, (sc_loc){0}, error, NULL);
        return false;
    }
    image->object = object.bytes;
    image->object_bytes = object.byte_count;
    g->out->compiled = object.compiled;
    return true;
}

static void add_mesh(const sc_generator *g, sc_image *image)
{
    const sc_mesh *mesh = &g->m->mesh;
    image->axis_count = mesh->axis_count;
    image->axes = sc_arena_array(g->arena, mesh->axis_count, sizeof *image->axes);
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        image->axes[a] = (sc_image_axis){sc_text(g->m->context, mesh->axes[a].name), mesh->axes[a].size};
    image->ranks = sc_mesh_ranks(mesh);
}

/* The functions of one module. */
static bool add_part(sc_generator *g, const sc_generate_part *part, sc_image_func *funcs)
{
    g->m = part->m;
    g->batch_dim = part->step == NULL ? SC_NONE : part->step->training->batch_dim;
    if (!add_states(g))
        return false;
    for (sc_func_id f = 0; f < g->m->funcs.count; f++) {
        if (!generate_func(g, f, &funcs[f]))
            return false;
        if (part->name != NULL)
            funcs[f].name = part->name;
    }
    g->func_base += g->m->funcs.count;
    return true;
}

static void add_schedule(const sc_generator *g, const sc_module *m, sc_image *image)
{
    image->call_count = m->schedule.count;
    image->schedule = sc_arena_array(g->arena, m->schedule.count, sizeof *image->schedule);
    for (uint32_t c = 0; c < m->schedule.count; c++)
        image->schedule[c] = (sc_image_call){m->schedule.data[c].func, m->schedule.data[c].microbatch};
}

bool sc_generate_parts(const sc_generate_part *parts, uint32_t count, const sc_generate_options *options, sc_generated *out)
{
    sc_generator g = {.m = parts[0].m, .arena = &parts[0].m->context->arena, .options = options, .out = out};
    if (is_cuda(&g) && !options->no_object) {
        sc_report(&g.m->context->diag, SC_D_not_compiled, (sc_loc){0}, sc_arena_printf(g.arena, "the target '%s'", options->target->name),
                  NULL);
        return false;
    }
    sc_image *image = sc_arena_alloc(g.arena, sizeof *image);
    *out = (sc_generated){.image = image};
    g.kernel_map.arena = g.gemm_map.arena = g.arena;
    image->target = options->target != NULL ? options->target->name : "cpu";
    image->processor = options->no_object ? "" : sc_processor_features(g.arena);
    image->facts = options->facts != NULL ? options->facts : "{}";
    add_mesh(&g, image);
    add_schedule(&g, parts[0].m, image);
    for (uint32_t p = 0; p < count; p++)
        image->func_count += parts[p].m->funcs.count;
    image->funcs = sc_arena_array(g.arena, image->func_count, sizeof *image->funcs);
    for (uint32_t p = 0; p < count; p++) {
        if (!add_part(&g, &parts[p], &image->funcs[g.func_base]))
            return false;
    }
    image->states = g.states.data, image->state_count = g.states.count;
    image->buffers = g.buffers.data, image->buffer_count = g.buffers.count;
    image->kernels = g.kernels.data, image->kernel_count = g.kernels.count;
    image->gemms = g.gemms.data, image->gemm_count = g.gemms.count;
    image->collectives = g.collectives.data, image->collective_count = g.collectives.count;
    image->groups = g.groups.data, image->group_count = g.groups.count;
    return report(&g, "memory plan", sc_memory_plan_make(g.arena, image, g.wishes.data, g.wishes.count, &out->memory)) &&
           report(&g, "memory plan", sc_memory_plan_verify(g.arena, image, g.wishes.data, g.wishes.count)) &&
           (options->no_object || add_object(&g, image)) && report(&g, "program", sc_image_check(image, g.arena));
}

bool sc_generate(sc_module *m, const sc_generate_options *options, sc_generated *out)
{
    return sc_generate_parts(&(sc_generate_part){.m = m}, 1, options, out);
}
