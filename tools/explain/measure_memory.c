#include "tools/explain/measure_memory.h"

#include <string.h>

#include "codegen/program/generate.h"
#include "program/lookup.h"

/* Kinds of buffers that are not live throughout; the size of state follows from types. */
static bool kind_of(sc_image_buffer_kind kind, sc_memory_kind *out)
{
    static const struct {
        bool counts;
        sc_memory_kind kind;
    } rows[SC_BUFFER_KINDS] = {
        [SC_BUFFER_SLOT] = {true, SC_MEMORY_ACT},
        [SC_BUFFER_ACT] = {true, SC_MEMORY_ACT},
        [SC_BUFFER_COMM] = {true, SC_MEMORY_COMM},
        [SC_BUFFER_WORKSPACE] = {true, SC_MEMORY_WORKSPACE},
    };
    *out = rows[kind].kind;
    return rows[kind].counts;
}

static const char *what_runs(sc_context *context, const sc_image *image, const sc_memory_plan *plan)
{
    if (plan->func == SC_NONE || plan->instr == SC_NONE)
        return NULL;
    const sc_image_instr *instr = &image->funcs[plan->func].instrs[plan->instr];
    static const char *const names[SC_INSTR_KINDS] = {"a kernel",
                                                      "a contraction",
                                                      "a collective",
                                                      "the end of a collective or transfer",
                                                      "a transfer",
                                                      "a copy",
                                                      "a message",
                                                      "the wait for a message",
                                                      "the wait for room to send"};
    return sc_arena_printf(&context->arena, "%s in %s", names[instr->kind], instr->where);
}

static void read_plan(sc_context *context, const sc_generated *generated, sc_memory_report *out)
{
    const sc_memory_plan *plan = &generated->memory;
    const sc_image *image = generated->image;
    for (sc_memory_kind k = SC_MEMORY_ACT; k < SC_MEMORY_KINDS; k++)
        out->bytes[k] = k == SC_MEMORY_CACHE || k == SC_MEMORY_COMM ? out->bytes[k] : 0;
    out->live.count = 0;
    out->bytes[SC_MEMORY_COMM] = out->stored_comm;
    for (uint32_t i = 0; i < plan->live_count; i++) {
        const sc_image_buffer *buffer = &image->buffers[plan->live[i]];
        sc_memory_live live = {
            .name = buffer->name, .bytes = sc_image_buffer_extent(buffer), .value = SC_NONE};
        if (buffer->copies > 1)
            live.name = sc_arena_printf(&context->arena, "%s of %u micro-batches", buffer->name,
                                        buffer->copies);
        live.loc = generated->buffer_locs.data[plan->live[i]];
        if (!kind_of(buffer->kind, &live.kind))
            continue;
        out->bytes[live.kind] += live.bytes;
        *sc_vec_push(&context->arena, &out->live) = live;
    }
    out->peak = image->arena_bytes;
    out->bytes[SC_MEMORY_HOST] = image->host_bytes;
    out->at = what_runs(context, image, plan);
    int64_t rest = out->peak;
    for (sc_memory_kind k = 0; k < SC_MEMORY_KINDS; k++)
        rest -= k == SC_MEMORY_HOST || k == SC_MEMORY_WORKSPACE ? 0 : out->bytes[k];
    out->bytes[SC_MEMORY_WORKSPACE] = rest;
}

/* For a train step: finds the state that `train --state` writes. */
static void find_saved(sc_context *context, const sc_image *image, sc_memory_report *out)
{
    uint32_t largest = sc_image_largest_saved(image);
    if (largest == SC_NONE)
        return;
    out->largest_saved = sc_image_tensor_bytes(&image->states[largest].tensor);
    out->saved_name = sc_arena_printf(&context->arena, "%s", image->states[largest].path);
}

/* The exact bytes of each stage; the rest of the report becomes that of the fullest. */
static void read_stages(sc_context *context, const sc_compiled *c,
                        const sc_generated_program *program, sc_memory_report *out)
{
    sc_memory_report fullest = *out;
    for (uint32_t s = 0; s < program->stage_count; s++) {
        sc_memory_report one = *out;
        memset(&one.live, 0, sizeof one.live);
        one.stage = s;
        memcpy(one.bytes, out->stages.data[s].bytes, sizeof one.bytes);
        one.stored_comm = out->stages.data[s].stored_comm;
        read_plan(context, &program->stages[s], &one);
        if (c->minimize != NULL)
            find_saved(context, program->stages[s].image, &one);
        memcpy(out->stages.data[s].bytes, one.bytes, sizeof one.bytes);
        out->stages.data[s].peak = one.peak;
        fullest = s == 0 || one.peak > fullest.peak ? one : fullest;
    }
    *out = fullest;
}

bool sc_measure_memory(sc_context *context, const sc_compiled *c, sc_memory_report *out)
{
    sc_compiled fused;
    sc_generated_program program;
    const sc_target *target = sc_driver_target(context, c->options);
    sc_memory_report_make(c->local, out);
    if (target == NULL ||
        !sc_driver_compile(context, c->program, c->plan, c->options, NULL, NULL, "fuse", &fused))
        return false;
    const sc_generate_part part = {
        .m = fused.local,
        .step = fused.step,
        .name = sc_module_is_cut(fused.local) ? sc_text(context, fused.entry) : NULL};
    if (!sc_generate_program(&part, 1, &(sc_generate_options){.target = target, .no_object = true},
                             &program))
        return false;
    if (program.stage_count > 1) {
        read_stages(context, c, &program, out);
        return true;
    }
    read_plan(context, &program.stages[0], out);
    if (c->minimize != NULL)
        find_saved(context, program.stages[0].image, out);
    return true;
}
