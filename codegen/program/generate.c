/* Generates a program from per-rank modules: functions in order, then the memory plan, its check
 * and the object. */
#include "codegen/program/generate.h"

#include <string.h>

#include "codegen/program/internal.h"
#include "program/bytes.h"
#include "program/cpu_level.h"
#include "program/lookup.h"
#include "program/stages.h"

/* ---- the program ---- */
static bool report(sc_context *context, const char *stage, const char *error)
{
    if (error != NULL)
        sc_report(&context->diag, SC_D_ir_invalid, (sc_loc){0}, stage, error, NULL);
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

/* A name of the compiler's, which an entry of the program may have, too. */
static const char *own_name(const sc_generator *g, const char *name)
{
    for (uint32_t p = 0; p < g->part_count; p++) {
        if (g->parts[p].name != NULL && strcmp(g->parts[p].name, name) == 0)
            return sc_arena_printf(g->arena, "step.%s", name);
    }
    return name;
}

/* Of what an entry calls, after the entry: those of a step have the same names. */
static const char *name_of(const sc_generator *g, sc_func_id func)
{
    const char *name = sc_text(g->m->context, g->m->funcs.data[func].name);
    return g->batches == NULL ? own_name(g, name)
                              : sc_arena_printf(g->arena, "%s.%s", g->part_name, name);
}

static const char *name_of_receive(const sc_generator *g, const sc_exchange *exchange)
{
    return sc_arena_printf(g->arena, "%s<%s", name_of(g, exchange->to),
                           sc_text(g->m->context, g->m->funcs.data[exchange->from].name));
}

/* ---- one module ---- */
/* Its functions, with that name (NULL: their own); `last`: that of the stage's last call, which has
 * one name on all stages. */
static bool add_funcs(sc_generator *g, const char *name, sc_func_id last, sc_image *image)
{
    for (sc_func_id f = 0; f < g->m->funcs.count; f++) {
        if (g->m->funcs.data[f].stage != g->stage)
            continue;
        g->number_of_func[f] = image->func_count;
        sc_generator_begin_func(g, image);
        if (!sc_generator_ops(g, f))
            return false;
        const char *own = f == last ? own_name(g, "update") : name_of(g, f);
        sc_generator_end_func(g, name != NULL ? name : own, image);
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
        g->number_of_receive[e] = image->func_count;
        sc_generator_begin_func(g, image);
        g->func.id = exchange->to;
        sc_generator_start_receive(g, exchange);
        sc_generator_end_func(g, name_of_receive(g, exchange), image);
    }
}

/* An entry is one function on every stage: that of all its chunks there. */
static bool add_entry(sc_generator *g, const sc_generate_part *part, sc_image *image)
{
    sc_generator_begin_func(g, image);
    for (uint32_t i = 0; i < g->m->schedule.count; i++) {
        sc_func_id func = g->m->schedule.data[i].func;
        if (g->m->funcs.data[func].stage == g->stage && !sc_generator_ops(g, func))
            return false;
    }
    sc_generator_end_func(g, part->name, image);
    return true;
}

static int32_t find_dim(const sc_generator *g, const sc_image_tensor *tensor, sc_dim dim)
{
    const char *name = sc_text(g->m->context, g->m->dims.data[dim].name);
    int32_t at = 0;
    while (strcmp(tensor->dims[at].name, name) != 0)
        at++;
    return at;
}

/* The list of a stage's calls of the functions that are there. `last`: the number of the function
 * of its last call, if that has no op. */
static sc_image_call *list_calls(const sc_generator *g, uint32_t last)
{
    const sc_stage_calls *calls = &g->exchanges->calls[g->stage];
    sc_image_call *list = sc_arena_array(g->arena, calls->count, sizeof *list);
    for (uint32_t c = 0; c < calls->count; c++) {
        const sc_stage_call *call = &calls->data[c];
        uint32_t number = call->exchange != SC_NONE ? g->number_of_receive[call->exchange]
                          : call->func != SC_NONE   ? g->number_of_func[call->func]
                                                    : last;
        list[c] = (sc_image_call){number, call->micro_batch};
    }
    return list;
}

/* ---- entries that run as several micro-batches ---- */
static uint32_t find_input(const sc_image_func *func, const char *name)
{
    uint32_t i = 0;
    while (i < func->input_count && strcmp(func->inputs[i].name, name) != 0)
        i++;
    return i;
}

/* The inputs of what it calls, each once. */
static void join_inputs(const sc_generator *g, const sc_image *image, uint32_t first,
                        sc_image_func *entry)
{
    uint32_t most = 0;
    for (uint32_t f = first; f < image->func_count; f++)
        most += image->funcs[f].input_count;
    entry->inputs = sc_arena_array(g->arena, most, sizeof *entry->inputs);
    for (uint32_t f = first; f < image->func_count; f++) {
        const sc_image_func *func = &image->funcs[f];
        for (uint32_t i = 0; i < func->input_count; i++) {
            uint32_t at = find_input(entry, func->inputs[i].name);
            if (at == entry->input_count)
                entry->inputs[entry->input_count++] = func->inputs[i];
            sc_image_limit_ids(&entry->inputs[at], &func->inputs[i]);
        }
    }
}

/* The results of the function that returns some, with how they are joined. */
static void join_outputs(const sc_generator *g, const sc_image *image, uint32_t first,
                         sc_image_func *entry)
{
    for (uint32_t f = first; f < image->func_count; f++) {
        const sc_image_func *func = &image->funcs[f];
        if (func->output_count == 0)
            continue;
        entry->outputs = sc_arena_array(g->arena, func->output_count, sizeof *entry->outputs);
        entry->output_count = func->output_count;
        for (uint32_t i = 0; i < func->output_count; i++) {
            sc_image_value *output = &entry->outputs[i];
            *output = func->outputs[i];
            output->join = g->batches->joins[i];
            output->batch_dim =
                output->join == SC_JOIN_ROWS ? find_dim(g, &output->tensor, g->batches->dim) : -1;
        }
    }
}

/* The entry is a list of calls of its chunks' functions, and comes before them. */
static bool add_batches(sc_generator *g, const sc_generate_part *part, sc_image *image)
{
    const uint32_t entry = image->func_count++;
    sc_image_func made = {.name = part->name, .batches = part->batches->count};
    if (!add_funcs(g, NULL, SC_NONE, image))
        return false;
    add_receives(g, image);
    join_inputs(g, image, entry + 1, &made);
    join_outputs(g, image, entry + 1, &made);
    made.call_count = g->exchanges->calls[g->stage].count;
    made.calls = list_calls(g, SC_NONE);
    image->funcs[entry] = made;
    return true;
}

/* The stage's functions of a train step, and its schedule. */
static bool add_step(sc_generator *g, sc_image *image)
{
    const sc_stage_calls *calls = &g->exchanges->calls[g->stage];
    sc_func_id last = calls->data[calls->count - 1].func;
    if (!add_funcs(g, NULL, last, image))
        return false;
    add_receives(g, image);
    const uint32_t empty = image->func_count;
    if (last == SC_NONE) {
        sc_generator_begin_func(g, image);
        sc_generator_end_func(g, own_name(g, "update"), image);
    }
    image->schedule = list_calls(g, empty);
    image->call_count = calls->count;
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
    g->part_name = part->name;
    g->batches = part->batches;
    g->batch_dim = part->step != NULL      ? part->step->training->batch_dim
                   : part->batches != NULL ? part->batches->dim
                                           : SC_NONE;
    g->number_of_func = sc_arena_array(g->arena, m->funcs.count, sizeof *g->number_of_func);
    if (exchanges != NULL) {
        g->number_of_receive =
            sc_arena_array(g->arena, exchanges->list.count + 1u, sizeof *g->number_of_receive);
        g->slot_of = sc_generator_fresh(g->arena, m->values.count, sizeof *g->slot_of, 0xff);
        g->received = sc_generator_fresh(g->arena, m->ops.count, sizeof *g->received, 0xff);
        g->sent = sc_generator_fresh(g->arena, m->ops.count, sizeof *g->sent, 0xff);
    }
    bool ok =
        sc_generator_add_states(g) && (exchanges == NULL ? add_funcs(g, part->name, SC_NONE, image)
                                       : part->step != NULL    ? add_step(g, image)
                                       : part->batches != NULL ? add_batches(g, part, image)
                                                               : add_entry(g, part, image));
    g->is_first_part = false;
    return ok;
}

/* ---- one program ---- */
static uint32_t most_funcs(const sc_generate_part *parts, uint32_t count,
                           const sc_exchanges *exchanges)
{
    uint32_t most = 2 + count; /* the joined function, an empty one, those that are lists */
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
                      .parts = parts,
                      .part_count = count,
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
    return report(g.m->context, "memory plan", sc_generator_plan(&g, image)) &&
           report(g.m->context, "memory plan",
                  sc_memory_plan_verify(g.arena, image, g.wishes.data, g.wishes.count)) &&
           (options->no_object || sc_generator_add_object(&g, image)) &&
           report(g.m->context, "program", sc_image_check(image, g.arena));
}

/* ---- all stages ---- */
static bool generate_stages(const sc_generate_part *parts, uint32_t count,
                            const sc_generate_options *options, sc_generated_program *out)
{
    sc_context *context = parts[0].m->context;
    sc_arena *arena = &context->arena;
    sc_exchanges *exchanges = sc_arena_array(arena, count, sizeof *exchanges);
    sc_image **images = sc_arena_array(arena, out->stage_count, sizeof *images);
    for (uint32_t p = 0; p < count; p++) {
        sc_calls_of calls = parts[p].step != NULL      ? SC_CALLS_OF_STEP
                            : parts[p].batches != NULL ? SC_CALLS_OF_BATCHES
                                                       : SC_CALLS_OF_ENTRY;
        if (!report(context, "code generation",
                    sc_exchanges_find(parts[p].m, calls, &exchanges[p])))
            return false;
    }
    for (uint32_t s = 0; s < out->stage_count; s++) {
        if (!generate_stage(parts, count, exchanges, s, options, &out->stages[s]))
            return false;
        images[s] = out->stages[s].image;
    }
    return report(context, "program", sc_program_check(images, out->stage_count, arena));
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
