#include "codegen/program/generate.h"

#include <string.h>

#include "codegen/lower/lower.h"
#include "codegen/program/internal.h"
#include "program/bytes.h"
#include "program/cpu_level.h"

static sc_unit_fn *const units[SC_OP_COUNT] = {
#define LOWER(op, function, node)
#define ROOT(op, function)
#define UNIT(op, function) [SC_OP_##op] = function,
#define STEP(op, kind)
#define LAYOUT(op)
#include "codegen/lower/lowering.def"
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

bool sc_generator_is_input(const sc_generator *g, uint32_t buffer)
{
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        if (g->inputs.data[i].buffer == buffer)
            return true;
    }
    return false;
}

sc_image_ref sc_generator_write(sc_generator *g, sc_value value, sc_image_buffer_kind kind, bool may_share)
{
    uint32_t state = g->target[value];
    if (state != SC_NONE) {
        uint32_t last = g->state_last_read[state];
        if (last < g->unit || (last == g->unit && may_share)) {
            g->state_last_read[state] = g->last_read[g->root[value]];
            return g->place[value] = (sc_image_ref){g->state_buffer[state], 0};
        }
        g->target[value] = SC_NONE;
        g->last_read[g->root[value]] = SC_LASTS; /* the state is copied from it at the end */
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
                             .instead = g->instead,
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
        g->last_write[sc_module_find_state(m, sc_op_word(o, SC_ATTR_name))] = op;
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
    if (g->rides[g->unit])
        return true;
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
    g->state_copies.count = g->riders.count = g->landed = 0;
    g->instrs.data = NULL, g->inputs.data = NULL, g->outputs.data = NULL;
    g->instrs.capacity = g->inputs.capacity = g->outputs.capacity = 0;
    g->escapes = sc_find_escaping(m, func);
    g->unit_of = fresh(g, m->ops.count, sizeof *g->unit_of, 0);
    g->root = fresh(g, values, sizeof *g->root, 0xff);
    g->last_read = fresh(g, values, sizeof *g->last_read, 0);
    g->state_last_read = fresh(g, m->state.count, sizeof *g->state_last_read, 0);
    g->last_write = fresh(g, m->state.count, sizeof *g->last_write, 0xff);
    g->target = fresh(g, values, sizeof *g->target, 0xff);
    g->flight = fresh(g, values, sizeof *g->flight, 0);
    g->place = fresh(g, values, sizeof *g->place, 0xff);
    g->rider_of = fresh(g, m->ops.count, sizeof *g->rider_of, 0);
    number_units(g);
    g->rides = fresh(g, g->unit_count, sizeof *g->rides, 0);
    find_roots(g);
    find_last_reads(g);
    find_last_reads_of_states(g);
    find_targets(g);
    sc_generator_find_riders(g);
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
static bool report(sc_generator *g, const char *stage, const char *error)
{
    if (error != NULL)
        sc_report(&g->m->context->diag, SC_D_ir_invalid, (sc_loc){0}, stage, error, NULL);
    return error == NULL;
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
    if (!sc_generator_add_states(g))
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
    sc_image *image = sc_arena_alloc(g.arena, sizeof *image);
    *out = (sc_generated){.image = image};
    g.kernel_map.arena = g.gemm_map.arena = g.arena;
    image->target = options->target != NULL ? options->target->name : "cpu";
    image->processor = options->no_object || sc_generator_is_cuda(&g) ? "" : sc_processor_features(g.arena);
    image->facts = options->facts != NULL ? options->facts : "{}";
    add_mesh(&g, image);
    add_schedule(&g, parts[0].m, image);
    for (uint32_t p = 0; p < count; p++)
        image->func_count += parts[p].m->funcs.count;
    image->funcs = sc_arena_array(g.arena, (size_t)image->func_count + 1, sizeof *image->funcs);
    for (uint32_t p = 0; p < count; p++) {
        if (!add_part(&g, &parts[p], &image->funcs[g.func_base]))
            return false;
    }
    sc_generator_join(&g, image);
    image->states = g.states.data, image->state_count = g.states.count;
    image->buffers = g.buffers.data, image->buffer_count = g.buffers.count;
    image->kernels = g.kernels.data, image->kernel_count = g.kernels.count;
    image->gemms = g.gemms.data, image->gemm_count = g.gemms.count;
    image->collectives = g.collectives.data, image->collective_count = g.collectives.count;
    image->groups = g.groups.data, image->group_count = g.groups.count;
    return report(&g, "memory plan", sc_generator_plan(&g, image)) &&
           report(&g, "memory plan", sc_memory_plan_verify(g.arena, image, g.wishes.data, g.wishes.count)) &&
           (options->no_object || sc_generator_add_object(&g, image)) && report(&g, "program", sc_image_check(image, g.arena));
}

bool sc_generate(sc_module *m, const sc_generate_options *options, sc_generated *out)
{
    return sc_generate_parts(&(sc_generate_part){.m = m}, 1, options, out);
}
