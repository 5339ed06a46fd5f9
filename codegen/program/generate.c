/* Generates a program from per-rank modules: units in order, then the memory plan, its check and
 * the object. */
#include "codegen/program/generate.h"

#include <string.h>

#include "codegen/lower/lower.h"
#include "codegen/program/internal.h"
#include "program/bytes.h"
#include "program/cpu_level.h"
#include "program/stages.h"

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

static void find_roots(const sc_module *m, sc_generator_func *f)
{
    sc_for_each_op (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        for (uint32_t r = 0; r < o->result_count; r++)
            f->root[o->first_result + r] =
                sc_is_view(o) ? f->root[o->operands[0]] : o->first_result + r;
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
    if (g->exchanges != NULL)
        sc_generator_make_room(g, ops, count);
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

static void begin_messages(sc_generator *g, sc_arena *scratch)
{
    const uint32_t values = g->m->values.count, exchanges = g->exchanges->list.count;
    sc_generator_func *f = &g->func;
    f->sent_place = fresh(scratch, values, sizeof *f->sent_place, 0xff);
    f->first_send = fresh(scratch, values, sizeof *f->first_send, 0xff);
    f->next_send = fresh(scratch, g->m->ops.count, sizeof *f->next_send, 0xff);
    f->arrives_with = fresh(scratch, values, sizeof *f->arrives_with, 0);
    f->has_room = fresh(scratch, exchanges, sizeof *f->has_room, 0);
    f->sent_count = fresh(scratch, exchanges, sizeof *f->sent_count, 0);
    sc_generator_find_sent(g);
}

/* Analyses a function before emission; what is known of it by value is in the scratch arena. Its
 * instructions follow those that `f` has already. */
static void begin_func(sc_generator *g, sc_func_id id)
{
    const sc_module *m = g->m;
    const uint32_t values = m->values.count;
    sc_arena *scratch = &m->context->scratch;
    sc_generator_func *f = &g->func, before = *f;
    *f = (sc_generator_func){.id = id, .escapes = sc_find_escaping(m, id)};
    f->instrs.data = before.instrs.data, f->instrs.count = before.instrs.count,
    f->instrs.capacity = before.instrs.capacity;
    f->inputs.data = before.inputs.data, f->inputs.count = before.inputs.count,
    f->inputs.capacity = before.inputs.capacity;
    f->outputs.data = before.outputs.data, f->outputs.count = before.outputs.count,
    f->outputs.capacity = before.outputs.capacity;
    f->unit_of = fresh(scratch, m->ops.count, sizeof *f->unit_of, 0);
    f->root = fresh(scratch, values, sizeof *f->root, 0xff);
    f->last_read = fresh(scratch, values, sizeof *f->last_read, 0);
    f->state_last_read = fresh(scratch, m->state.count, sizeof *f->state_last_read, 0);
    f->last_write = fresh(scratch, m->state.count, sizeof *f->last_write, 0xff);
    f->target = fresh(scratch, values, sizeof *f->target, 0xff);
    f->becomes = fresh(scratch, values, sizeof *f->becomes, 0xff);
    f->in_flight_of = fresh(scratch, values, sizeof *f->in_flight_of, 0);
    f->place = fresh(scratch, values, sizeof *f->place, 0xff);
    f->fused_sum_of = fresh(scratch, m->ops.count, sizeof *f->fused_sum_of, 0);
    number_units(m, f);
    f->is_fused_sum = fresh(scratch, f->unit_count, sizeof *f->is_fused_sum, 0);
    find_roots(m, f);
    find_last_reads(m, f);
    find_last_reads_of_states(m, f);
    find_targets(m, f);
    find_written(m, f);
    sc_generator_find_staged(g);
    find_staged_targets(m, f);
    sc_generator_find_fused_sums(g);
    if (g->exchanges != NULL)
        begin_messages(g, scratch);
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

/* Emits the ops of a function after those that are there. */
static bool generate_ops(sc_generator *g, sc_func_id id)
{
    sc_arena *scratch = &g->m->context->scratch;
    const sc_arena_mark mark = sc_arena_mark_here(scratch);
    begin_func(g, id);
    bool ok = generate_units(g) && end_func(g);
    sc_arena_release(scratch, mark);
    return ok;
}

static void begin_list(sc_generator *g, const sc_image *image)
{
    g->func_index = image->func_count;
    g->func = (sc_generator_func){0};
}

/* Makes a function of what was emitted. */
static void end_list(const sc_generator *g, const char *name, sc_image *image)
{
    const sc_generator_func *f = &g->func;
    image->funcs[image->func_count++] = (sc_image_func){.name = name,
                                                        .instr_count = f->instrs.count,
                                                        .instrs = f->instrs.data,
                                                        .input_count = f->inputs.count,
                                                        .inputs = f->inputs.data,
                                                        .output_count = f->outputs.count,
                                                        .outputs = f->outputs.data};
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

static const char *name_of(const sc_generator *g, sc_func_id func)
{
    return sc_text(g->m->context, g->m->funcs.data[func].name);
}

/* ---- one module ---- */
/* Its functions, with that name (NULL: their own); `last`: that of the stage's last call, which has
 * one name on all stages. */
static bool add_funcs(sc_generator *g, const char *name, sc_func_id last, sc_image *image)
{
    for (sc_func_id f = 0; f < g->m->funcs.count; f++) {
        if (g->m->funcs.data[f].stage != g->stage)
            continue;
        begin_list(g, image);
        if (!generate_ops(g, f))
            return false;
        end_list(g, f == last ? "update" : name != NULL ? name : name_of(g, f), image);
    }
    return true;
}

/* Functions that start to receive what a function of the stage reads. */
static void add_receives(sc_generator *g, sc_image *image)
{
    for (uint32_t e = 0; e < g->exchanges->list.count; e++) {
        const sc_exchange *exchange = &g->exchanges->list.data[e];
        if (exchange->to_stage != g->stage || exchange->starts_in_func)
            continue;
        begin_list(g, image);
        g->func.id = exchange->to;
        sc_generator_start_receive(g, exchange);
        end_list(g,
                 sc_arena_printf(g->arena, "%s<%s", name_of(g, exchange->to),
                                 name_of(g, exchange->from)),
                 image);
    }
}

/* An entry is one function on every stage: that of all its chunks there. */
static bool add_entry(sc_generator *g, const sc_generate_part *part, sc_image *image)
{
    begin_list(g, image);
    for (uint32_t i = 0; i < g->m->schedule.count; i++) {
        sc_func_id func = g->m->schedule.data[i].func;
        if (g->m->funcs.data[func].stage == g->stage && !generate_ops(g, func))
            return false;
    }
    end_list(g, part->name, image);
    return true;
}

static uint32_t find_func(const sc_image *image, const char *name)
{
    uint32_t f = 0;
    while (strcmp(image->funcs[f].name, name) != 0)
        f++;
    return f;
}

static void add_stage_schedule(const sc_generator *g, sc_image *image)
{
    const sc_stage_calls *calls = &g->exchanges->calls[g->stage];
    image->schedule = sc_arena_array(g->arena, calls->count, sizeof *image->schedule);
    for (uint32_t c = 0; c < calls->count; c++) {
        const sc_stage_call *call = &calls->data[c];
        const char *name = "update";
        if (call->exchange != SC_NONE)
            name = sc_arena_printf(g->arena, "%s<%s", name_of(g, call->func),
                                   name_of(g, g->exchanges->list.data[call->exchange].from));
        else if (!call->is_last)
            name = name_of(g, call->func);
        image->schedule[image->call_count++] =
            (sc_image_call){find_func(image, name), call->micro_batch};
    }
}

/* The stage's functions of a train step, and its schedule. */
static bool add_step(sc_generator *g, sc_image *image)
{
    const sc_stage_calls *calls = &g->exchanges->calls[g->stage];
    sc_func_id last = calls->data[calls->count - 1].func;
    if (!add_funcs(g, NULL, last, image))
        return false;
    add_receives(g, image);
    if (last == SC_NONE) {
        begin_list(g, image);
        end_list(g, "update", image);
    }
    add_stage_schedule(g, image);
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

static bool add_part(sc_generator *g, const sc_generate_part *part, const sc_exchanges *exchanges,
                     sc_image *image)
{
    const sc_module *m = g->m = part->m;
    g->exchanges = exchanges;
    g->batch_dim = part->step == NULL ? SC_NONE : part->step->training->batch_dim;
    if (exchanges != NULL) {
        g->slot_of = fresh(g->arena, m->values.count, sizeof *g->slot_of, 0xff);
        g->received = fresh(g->arena, m->ops.count, sizeof *g->received, 0xff);
        g->sent = fresh(g->arena, m->ops.count, sizeof *g->sent, 0xff);
    }
    bool ok =
        sc_generator_add_states(g) && (exchanges == NULL ? add_funcs(g, part->name, SC_NONE, image)
                                       : part->step != NULL ? add_step(g, image)
                                                            : add_entry(g, part, image));
    g->is_first_part = false;
    return ok;
}

/* ---- one program ---- */
static uint32_t most_funcs(const sc_generate_part *parts, uint32_t count,
                           const sc_exchanges *exchanges)
{
    uint32_t most = 2; /* the joined function, an empty one */
    for (uint32_t p = 0; p < count; p++)
        most += parts[p].m->funcs.count + (exchanges == NULL ? 0 : exchanges[p].list.count);
    return most;
}

static void add_pipeline(sc_generator *g, uint32_t count, const sc_exchanges *exchanges,
                         sc_image *image)
{
    const sc_mesh *mesh = &g->m->mesh;
    image->pipeline = (sc_image_pipeline){.count = sc_mesh_stages(mesh),
                                          .axis = (uint32_t)sc_mesh_stage_axis(mesh),
                                          .stage = g->stage};
    for (uint32_t p = 0; p < count; p++)
        sc_generator_add_boundaries(g, &exchanges[p]);
}

static void give_lists(const sc_generator *g, sc_image *image)
{
    image->states = g->states.data, image->state_count = g->states.count;
    image->buffers = g->buffers.data, image->buffer_count = g->buffers.count;
    image->kernels = g->kernels.data, image->kernel_count = g->kernels.count;
    image->gemms = g->gemms.data, image->gemm_count = g->gemms.count;
    image->collectives = g->collectives.data, image->collective_count = g->collectives.count;
    image->groups = g->groups.data, image->group_count = g->groups.count;
    image->boundaries = g->boundaries.data, image->boundary_count = g->boundaries.count;
    image->messages = g->messages.data, image->message_count = g->messages.count;
}

/* Generates the program of one stage, or of a module without stages. */
static bool generate_stage(const sc_generate_part *parts, uint32_t count,
                           const sc_exchanges *exchanges, uint32_t stage,
                           const sc_generate_options *options, sc_generated *out)
{
    sc_generator g = {.m = parts[0].m,
                      .arena = &parts[0].m->context->arena,
                      .options = options,
                      .out = out,
                      .stage = stage,
                      .is_first_part = true};
    sc_image *image = sc_arena_alloc(g.arena, sizeof *image);
    *out = (sc_generated){.image = image};
    *image = (sc_image){0};
    g.kernel_map.arena = g.gemm_map.arena = g.arena;
    image->target = options->target != NULL ? options->target->name : "cpu";
    image->cpu = options->no_object || sc_generator_is_cuda(&g) ? "" : sc_cpu_features(g.arena);
    image->facts = options->facts != NULL ? options->facts : "{}";
    add_mesh(&g, image);
    image->funcs =
        sc_arena_array(g.arena, most_funcs(parts, count, exchanges), sizeof *image->funcs);
    if (exchanges != NULL)
        add_pipeline(&g, count, exchanges, image);
    else
        add_schedule(&g, parts[0].m, image);
    for (uint32_t p = 0; p < count; p++) {
        if (!add_part(&g, &parts[p], exchanges == NULL ? NULL : &exchanges[p], image))
            return false;
    }
    if (exchanges == NULL)
        sc_generator_join(&g, image);
    give_lists(&g, image);
    return report(&g, "memory plan", sc_generator_plan(&g, image)) &&
           report(&g, "memory plan",
                  sc_memory_plan_verify(g.arena, image, g.wishes.data, g.wishes.count)) &&
           (options->no_object || sc_generator_add_object(&g, image)) &&
           report(&g, "program", sc_image_check(image, g.arena));
}

/* ---- all stages ---- */
static bool fail(sc_context *context, const char *what, const char *error)
{
    if (error != NULL)
        sc_report(&context->diag, SC_D_ir_invalid, (sc_loc){0}, what, error, NULL);
    return error == NULL;
}

static bool generate_stages(const sc_generate_part *parts, uint32_t count,
                            const sc_generate_options *options, sc_generated_program *out)
{
    sc_context *context = parts[0].m->context;
    sc_arena *arena = &context->arena;
    sc_exchanges *exchanges = sc_arena_array(arena, count, sizeof *exchanges);
    sc_image **images = sc_arena_array(arena, out->stage_count, sizeof *images);
    for (uint32_t p = 0; p < count; p++) {
        bool steps = parts[p].step != NULL;
        if (!fail(context, "code generation", sc_exchanges_find(parts[p].m, steps, &exchanges[p])))
            return false;
    }
    for (uint32_t s = 0; s < out->stage_count; s++) {
        if (!generate_stage(parts, count, exchanges, s, options, &out->stages[s]))
            return false;
        images[s] = out->stages[s].image;
    }
    return fail(context, "program", sc_program_check(images, out->stage_count, arena));
}

bool sc_generate_program(const sc_generate_part *parts, uint32_t count,
                         const sc_generate_options *options, sc_generated_program *out)
{
    sc_module *m = parts[0].m;
    bool is_cut = sc_module_is_cut(m);
    *out = (sc_generated_program){.stage_count = is_cut ? sc_mesh_stages(&m->mesh) : 1};
    out->stages = sc_arena_array(&m->context->arena, out->stage_count, sizeof *out->stages);
    return is_cut ? generate_stages(parts, count, options, out)
                  : generate_stage(parts, count, NULL, SC_ALL_STAGES_RUN, options, out->stages);
}

double sc_generated_needs(const sc_generated_program *program, bool with_host, int64_t *out_host)
{
    double needed = 0;
    *out_host = 0;
    for (uint32_t s = 0; s < program->stage_count; s++) {
        const sc_image *image = program->stages[s].image;
        double ranks = (double)image->ranks / program->stage_count;
        needed += ranks * (double)(image->arena_bytes + (with_host ? image->host_bytes : 0));
        *out_host = image->host_bytes > *out_host ? image->host_bytes : *out_host;
    }
    return needed;
}

void sc_generated_write(const sc_generated_program *program, sc_strbuf *out)
{
    for (uint32_t s = 0; s < program->stage_count; s++)
        sc_image_write(program->stages[s].image, out);
}

bool sc_generate_parts(const sc_generate_part *parts, uint32_t count,
                       const sc_generate_options *options, sc_generated *out)
{
    sc_generated_program program;
    bool ok = sc_generate_program(parts, count, options, &program);
    *out = program.stages[0];
    return ok;
}

bool sc_generate(sc_module *m, const sc_generate_options *options, sc_generated *out)
{
    return sc_generate_parts(&(sc_generate_part){.m = m}, 1, options, out);
}
