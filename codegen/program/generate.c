/* Generates a program from per-rank modules: units in order, then the memory plan, its check and
 * the object. */
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

/* ---- one function ---- */
/* Ops that share a kernel are one unit; every other op is a unit by itself. */
static void number_units(const sc_module *m, sc_generator_func *f)
{
    int64_t last = -1;
    f->unit_count = 0;
    sc_for_each_op (m, f->id, op) {
        int64_t number = sc_op_int(sc_op_at(m, op), SC_ATTR_kernel, -1);
        if (f->unit_count == 0 || number < 0 || number != last)
            f->unit_count++;
        f->unit_of[op] = f->unit_count - 1;
        last = number;
    }
}

static bool is_view(const sc_op *op)
{
    return (sc_ops[op->kind].fuse & SC_FUSE_VIEW) != 0 && sc_op_attr(op, SC_ATTR_kernel) == NULL;
}

static void find_roots(const sc_module *m, sc_generator_func *f)
{
    sc_for_each_op (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        for (uint32_t r = 0; r < o->result_count; r++)
            f->root[o->first_result + r] =
                is_view(o) ? f->root[o->operands[0]] : o->first_result + r;
    }
}

/* Finds the last reader of each value. A collective's operands are live until its results are read;
 * what the function returns is live to the end. */
static void find_last_reads(const sc_module *m, sc_generator_func *f)
{
    sc_for_each_op_reverse (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        uint32_t at = f->unit_of[op], traits = sc_op_traits(o);
        if ((traits & SC_COLLECTIVE) != 0 || sc_op_copies_memory((sc_op_kind)o->kind)) {
            for (uint32_t r = 0; r < o->result_count; r++)
                at = f->last_read[f->root[o->first_result + r]] > at
                         ? f->last_read[f->root[o->first_result + r]]
                         : at;
        }
        if ((traits & SC_EFFECT) != 0 && (traits & (SC_STATE_WRITE | SC_FROM_OUTSIDE)) == 0)
            at = SC_LASTS;
        for (uint32_t i = 0; i < o->operand_count; i++) {
            uint32_t *last = &f->last_read[f->root[o->operands[i]]];
            if ((traits & SC_STATE_WRITE) == 0 && at > *last)
                *last = at;
        }
    }
}

static void find_last_reads_of_states(const sc_module *m, sc_generator_func *f)
{
    sc_for_each_op (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        if ((sc_op_traits(o) & SC_STATE_READ) == 0)
            continue;
        uint32_t *last = &f->state_last_read[sc_module_find_state(m, sc_op_word(o, SC_ATTR_name))];
        *last = f->last_read[o->first_result] > *last ? f->last_read[o->first_result] : *last;
    }
}

static void find_written(const sc_module *m, sc_generator_func *f)
{
    sc_for_each_op (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        if ((sc_op_traits(o) & SC_STATE_WRITE) != 0)
            f->becomes[o->operands[0]] = sc_module_find_state(m, sc_op_word(o, SC_ATTR_name));
    }
}

/* Finds values that can be computed in the staging area of the state that they become. */
static void find_staged_targets(const sc_module *m, sc_generator_func *f)
{
    sc_for_each_op (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        for (uint32_t i = 0; i < o->operand_count; i++) {
            if (!sc_op_copies_memory((sc_op_kind)o->kind) || sc_value_is_in_host(m, o->operands[i]))
                continue;
            sc_value root = f->root[o->operands[i]];
            uint32_t state = f->becomes[o->first_result + i];
            const sc_op *def = sc_op_at(m, sc_def(m, root));
            if (state != SC_NONE && f->staged[state].is_staged && f->target[root] == SC_NONE &&
                !sc_op_copies_memory((sc_op_kind)def->kind) &&
                (sc_op_traits(def) & (SC_STATE_READ | SC_FROM_OUTSIDE)) == 0)
                f->target[root] = state;
        }
    }
}

/* Finds values that can be computed in a state's buffer. */
static void find_targets(const sc_module *m, sc_generator_func *f)
{
    sc_for_each_op (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        if ((sc_op_traits(o) & SC_STATE_WRITE) == 0)
            continue;
        f->last_write[sc_module_find_state(m, sc_op_word(o, SC_ATTR_name))] = op;
        sc_value root = f->root[o->operands[0]];
        const sc_op *def = sc_op_at(m, sc_def(m, root));
        bool computed = (sc_op_traits(def) & (SC_STATE_READ | SC_FROM_OUTSIDE)) == 0;
        if (computed && f->target[root] == SC_NONE && !sc_value_is_in_host(m, root))
            f->target[root] = sc_module_find_state(m, sc_op_word(o, SC_ATTR_name));
    }
}

static bool contracts(const sc_module *m, const sc_op_id *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if ((sc_ops[sc_op_at(m, ops[i])->kind].fuse & SC_FUSE_CONTRACT) != 0)
            return true;
    }
    return false;
}

static bool generate_unit(sc_generator *g, const sc_op_id *ops, uint32_t count)
{
    const sc_op *first = sc_op_at(g->m, ops[0]);
    g->unit.number = g->func.unit_of[ops[0]];
    g->unit.loc = sc_op_at(g->m, ops[count - 1])->loc;
    if (g->func.is_fused_sum[g->unit.number])
        return true;
    bool is_fused = sc_op_attr(first, SC_ATTR_kernel) != NULL;
    if (is_fused && !contracts(g->m, ops, count))
        return sc_generate_kernel(g, ops, count);
    /* a copy to a state in host memory may go on */
    bool reads = (sc_op_traits(first) & SC_STATE_WRITE) == 0 ||
                 !sc_value_is_in_host(g->m, first->operands[0]);
    if (reads && !sc_generator_finish_operands(g, ops, count))
        return false;
    if (is_fused)
        return sc_generate_contraction(g, ops, count);
    if (units[first->kind] != NULL)
        return units[first->kind](g, ops[0]);
    sc_report(&g->m->context->diag, SC_D_ir_invalid, first->loc, "code generation",
              sc_arena_printf(g->arena, "lowering.def has no row for %s on its own",
                              sc_ops[first->kind].name),
              NULL);
    return false;
}

static void *fresh(sc_arena *arena, size_t count, size_t size, int byte)
{
    void *made = sc_arena_array(arena, count, size);
    if (count > 0)
        memset(made, byte, count * size);
    return made;
}

/* Analyses a function before emission. */
static void begin_func(sc_generator *g, sc_func_id id)
{
    const sc_module *m = g->m;
    const uint32_t values = m->values.count;
    sc_generator_func *f = &g->func;
    *f = (sc_generator_func){.id = id, .escapes = sc_find_escaping(m, id)};
    f->unit_of = fresh(g->arena, m->ops.count, sizeof *f->unit_of, 0);
    f->root = fresh(g->arena, values, sizeof *f->root, 0xff);
    f->last_read = fresh(g->arena, values, sizeof *f->last_read, 0);
    f->state_last_read = fresh(g->arena, m->state.count, sizeof *f->state_last_read, 0);
    f->last_write = fresh(g->arena, m->state.count, sizeof *f->last_write, 0xff);
    f->target = fresh(g->arena, values, sizeof *f->target, 0xff);
    f->becomes = fresh(g->arena, values, sizeof *f->becomes, 0xff);
    f->in_flight_of = fresh(g->arena, values, sizeof *f->in_flight_of, 0);
    f->place = fresh(g->arena, values, sizeof *f->place, 0xff);
    f->fused_sum_of = fresh(g->arena, m->ops.count, sizeof *f->fused_sum_of, 0);
    number_units(m, f);
    f->is_fused_sum = fresh(g->arena, f->unit_count, sizeof *f->is_fused_sum, 0);
    find_roots(m, f);
    find_last_reads(m, f);
    find_last_reads_of_states(m, f);
    find_targets(m, f);
    find_written(m, f);
    sc_generator_find_staged(g);
    find_staged_targets(m, f);
    sc_generator_find_fused_sums(g);
}

static bool generate_units(sc_generator *g)
{
    sc_op_id *ops = sc_arena_array(g->arena, g->m->ops.count, sizeof *ops);
    uint32_t count = 0;
    sc_for_each_op (g->m, g->func.id, op) {
        if (count > 0 && g->func.unit_of[op] != g->func.unit_of[ops[0]]) {
            if (!generate_unit(g, ops, count))
                return false;
            count = 0;
        }
        ops[count++] = op;
    }
    return count == 0 || generate_unit(g, ops, count);
}

/* Finishes collectives and copies states after the last unit. */
static bool end_func(sc_generator *g)
{
    for (uint32_t i = 0; i < g->func.in_flight.count; i++) {
        if (!sc_generator_finish(g, i))
            return false;
    }
    for (uint32_t i = 0; i < g->func.state_copies.count; i++) {
        const sc_state_copy *copy = &g->func.state_copies.data[i];
        sc_generator_copy(g, copy->op, copy->from, copy->to);
    }
    return true;
}

static bool generate_func(sc_generator *g, sc_func_id id, sc_image_func *out)
{
    const sc_generator_func *f = &g->func;
    begin_func(g, id);
    if (!generate_units(g) || !end_func(g))
        return false;
    *out = (sc_image_func){.name = sc_text(g->m->context, g->m->funcs.data[id].name),
                           .instr_count = f->instrs.count,
                           .instrs = f->instrs.data,
                           .input_count = f->inputs.count,
                           .inputs = f->inputs.data,
                           .output_count = f->outputs.count,
                           .outputs = f->outputs.data};
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
        image->axes[a] =
            (sc_image_axis){sc_text(g->m->context, mesh->axes[a].name), mesh->axes[a].size};
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
        image->schedule[c] =
            (sc_image_call){m->schedule.data[c].func, m->schedule.data[c].microbatch};
}

bool sc_generate_parts(const sc_generate_part *parts, uint32_t count,
                       const sc_generate_options *options, sc_generated *out)
{
    sc_generator g = {
        .m = parts[0].m, .arena = &parts[0].m->context->arena, .options = options, .out = out};
    sc_image *image = sc_arena_alloc(g.arena, sizeof *image);
    *out = (sc_generated){.image = image};
    g.kernel_map.arena = g.gemm_map.arena = g.arena;
    for (uint32_t p = 0; p < count; p++) {
        if (sc_module_is_cut(parts[p].m)) {
            sc_report(&g.m->context->diag, SC_D_not_compiled, (sc_loc){0}, "a pipeline ('stage')",
                      NULL);
            return false;
        }
    }
    image->target = options->target != NULL ? options->target->name : "cpu";
    image->cpu = options->no_object || sc_generator_is_cuda(&g) ? "" : sc_cpu_features(g.arena);
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
           report(&g, "memory plan",
                  sc_memory_plan_verify(g.arena, image, g.wishes.data, g.wishes.count)) &&
           (options->no_object || sc_generator_add_object(&g, image)) &&
           report(&g, "program", sc_image_check(image, g.arena));
}

bool sc_generate(sc_module *m, const sc_generate_options *options, sc_generated *out)
{
    return sc_generate_parts(&(sc_generate_part){.m = m}, 1, options, out);
}
