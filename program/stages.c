/* Reads and writes programs, and merges what their stages have in common. */
#include "program/stages.h"

#include <string.h>

#include "program/bytes.h"
#include "program/kernel_helpers.h"
#include "program/lookup.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/vec.h"

void sc_program_write(const sc_image *const *stages, uint32_t count, sc_strbuf *out)
{
    for (uint32_t s = 0; s < count; s++)
        sc_image_write(stages[s], out);
}

/* ---- merging ---- */

typedef struct merger {
    sc_arena *arena;
    sc_program *program;
    sc_image_digit digit; /* of the stage axis */
    sc_map states;        /* of `whole`, by path */
    const char *fault;
} merger;

static bool refuse(merger *m, const char *what, const char *name, uint32_t stage)
{
    m->fault = sc_arena_printf(
        m->arena, "%s '%s' of stage %u differs from that of an earlier stage", what, name, stage);
    return false;
}

/* Adds the stage to those that have the value. */
static void add_holder(merger *m, sc_image_tensor *tensor, uint32_t stage, uint32_t buffer)
{
    sc_image_holders *holders = sc_arena_alloc(m->arena, sizeof *holders);
    uint32_t *buffers = sc_arena_array(m->arena, m->program->stage_count, sizeof *buffers);
    for (uint32_t s = 0; s < m->program->stage_count; s++)
        buffers[s] = tensor->holders == NULL ? SC_NONE : tensor->holders->buffers[s];
    buffers[stage] = buffer;
    *holders = (sc_image_holders){m->digit, buffers};
    tensor->holders = holders;
}

static bool is_same_terms(const sc_image_terms *a, const sc_image_terms *b)
{
    bool is_same = a->count == b->count;
    for (uint32_t i = 0; is_same && i < a->count; i++)
        is_same = a->terms[i].divide == b->terms[i].divide &&
                  a->terms[i].modulo == b->terms[i].modulo &&
                  a->terms[i].times == b->terms[i].times && a->terms[i].plus == b->terms[i].plus;
    return is_same;
}

/* The same value, sharded alike over the ranks of each stage. */
static bool is_same_tensor(const sc_image_tensor *a, const sc_image_tensor *b)
{
    bool is_same = a->dtype == b->dtype && a->rank == b->rank && a->partial == b->partial &&
                   is_same_terms(&a->replica, &b->replica) && is_same_terms(&a->part, &b->part);
    for (uint32_t i = 0; is_same && i < a->rank; i++)
        is_same = strcmp(a->dims[i].name, b->dims[i].name) == 0 &&
                  a->dims[i].size == b->dims[i].size && a->dims[i].local == b->dims[i].local &&
                  a->dims[i].order.members == b->dims[i].order.members &&
                  is_same_terms(&a->dims[i].first, &b->dims[i].first);
    return is_same;
}

/* ---- states ---- */

/* Returns the state of `whole` with that path; the next free one if there is none. */
static uint32_t find_state(merger *m, const char *path)
{
    bool is_new;
    return *sc_map_insert(&m->states, sc_fnv1a64(path, strlen(path)),
                          m->program->whole->state_count, &is_new);
}

static bool merge_state(merger *m, uint32_t stage, const sc_image_state *state)
{
    sc_image *whole = m->program->whole;
    uint32_t at = find_state(m, state->path);
    sc_image_state *merged = &whole->states[at];
    if (at == whole->state_count) {
        *merged = *state;
        whole->state_count++;
    } else if (strcmp(merged->path, state->path) != 0 || merged->kind != state->kind ||
               merged->init != state->init ||
               sc_bits_of_f64(merged->init_args[0]) != sc_bits_of_f64(state->init_args[0]) ||
               sc_bits_of_f64(merged->init_args[1]) != sc_bits_of_f64(state->init_args[1]) ||
               !is_same_tensor(&merged->tensor, &state->tensor) ||
               (merged->master == SC_NONE) != (state->master == SC_NONE))
        return refuse(m, "state", state->path, stage);
    add_holder(m, &merged->tensor, stage, state->buffer);
    return true;
}

/* Masters are numbered by image: they are found by their paths. */
static bool merge_masters(merger *m, uint32_t stage)
{
    const sc_image *image = m->program->stages[stage];
    sc_image *whole = m->program->whole;
    for (uint32_t i = 0; i < image->state_count; i++) {
        const sc_image_state *state = &image->states[i];
        if (state->master == SC_NONE)
            continue;
        sc_image_state *merged = &whole->states[find_state(m, state->path)];
        uint32_t master = find_state(m, image->states[state->master].path);
        bool is_first = sc_image_has_first(&merged->tensor, stage * m->digit.divide);
        if (is_first)
            merged->master = master;
        else if (merged->master != master)
            return refuse(m, "the master copy of state", state->path, stage);
    }
    return true;
}

static bool merge_states(merger *m)
{
    uint32_t most = 0;
    for (uint32_t s = 0; s < m->program->stage_count; s++)
        most += m->program->stages[s]->state_count;
    m->program->whole->states = sc_arena_array(m->arena, most, sizeof(sc_image_state));
    m->program->whole->state_count = 0;
    for (uint32_t s = 0; s < m->program->stage_count; s++) {
        const sc_image *image = m->program->stages[s];
        for (uint32_t i = 0; i < image->state_count; i++) {
            if (!merge_state(m, s, &image->states[i]))
                return false;
        }
    }
    for (uint32_t s = 0; s < m->program->stage_count; s++) {
        if (!merge_masters(m, s))
            return false;
    }
    return true;
}

/* ---- functions ---- */

static uint32_t find_func(const sc_image *image, const char *name)
{
    uint32_t f = 0;
    while (f < image->func_count && strcmp(image->funcs[f].name, name) != 0)
        f++;
    return f;
}

/* Outputs without a name are never the same, nor are two of one stage. */
static uint32_t find_value(const sc_image_value *values, uint32_t count, const char *name,
                           uint32_t stage)
{
    uint32_t i = 0;
    while (i < count && (name[0] == 0 || strcmp(values[i].name, name) != 0 ||
                         values[i].tensor.holders->buffers[stage] != SC_NONE))
        i++;
    return i;
}

static bool merge_values(merger *m, const char *what, uint32_t stage, const sc_image_value *values,
                         uint32_t count, sc_image_value **merged, uint32_t *merged_count)
{
    *merged = sc_arena_grow(m->arena, *merged, *merged_count * sizeof **merged,
                            ((size_t)*merged_count + count) * sizeof **merged);
    for (uint32_t i = 0; i < count; i++) {
        const sc_image_value *value = &values[i];
        uint32_t at = find_value(*merged, *merged_count, value->name, stage);
        sc_image_value *to = &(*merged)[at];
        if (at == *merged_count) {
            *to = *value;
            (*merged_count)++;
        } else if (!is_same_tensor(&to->tensor, &value->tensor) ||
                   to->batch_dim != value->batch_dim || to->join != value->join)
            return refuse(m, what, value->name, stage);
        sc_image_limit_ids(to, value);
        add_holder(m, &to->tensor, stage, value->buffer);
    }
    return true;
}

static bool merge_func(merger *m, uint32_t stage, uint32_t index)
{
    sc_image *whole = m->program->whole;
    const sc_image_func *func = &m->program->stages[stage]->funcs[index];
    uint32_t at = find_func(whole, func->name), stages = m->program->stage_count;
    sc_image_func *merged = &whole->funcs[at];
    if (at == whole->func_count) {
        *merged = (sc_image_func){.name = func->name, .batches = func->batches};
        whole->func_count++;
        m->program->funcs[at] = sc_arena_array(m->arena, stages, sizeof **m->program->funcs);
        for (uint32_t s = 0; s < stages; s++)
            m->program->funcs[at][s] = SC_NONE;
    }
    if (merged->batches != func->batches)
        return refuse(m, "the number of micro-batches of function", func->name, stage);
    m->program->funcs[at][stage] = index;
    return merge_values(m, "input", stage, func->inputs, func->input_count, &merged->inputs,
                        &merged->input_count) &&
           merge_values(m, "output", stage, func->outputs, func->output_count, &merged->outputs,
                        &merged->output_count);
}

static bool merge_funcs(merger *m)
{
    uint32_t most = 0;
    for (uint32_t s = 0; s < m->program->stage_count; s++)
        most += m->program->stages[s]->func_count;
    m->program->whole->funcs = sc_arena_array(m->arena, most, sizeof(sc_image_func));
    m->program->funcs = sc_arena_array(m->arena, most, sizeof *m->program->funcs);
    m->program->whole->func_count = 0;
    for (uint32_t s = 0; s < m->program->stage_count; s++) {
        for (uint32_t f = 0; f < m->program->stages[s]->func_count; f++) {
            if (!merge_func(m, s, f))
                return false;
        }
    }
    return true;
}

/* ---- the schedule ---- */

static bool is_new_call(sc_map *calls, sc_image_call call)
{
    bool is_new;
    sc_map_insert(calls, (uint64_t)call.func << 32 | (uint32_t)call.micro_batch, 0, &is_new);
    return is_new;
}

/* The last calls of all stages are of one function, whose outputs are the step's: it comes last. */
static bool merge_schedule(merger *m)
{
    sc_image *whole = m->program->whole;
    uint32_t most = 0;
    sc_image_call last = {SC_NONE, -1};
    sc_map calls = {.arena = m->arena};
    for (uint32_t s = 0; s < m->program->stage_count; s++)
        most += m->program->stages[s]->call_count;
    whole->schedule = sc_arena_array(m->arena, most + 1u, sizeof *whole->schedule);
    whole->call_count = 0;
    for (uint32_t s = 0; s < m->program->stage_count; s++) {
        const sc_image *image = m->program->stages[s];
        for (uint32_t i = 0; i < image->call_count; i++) {
            sc_image_call call = image->schedule[i];
            call.func = find_func(whole, image->funcs[call.func].name);
            bool is_last = i + 1 == image->call_count;
            if (is_last && last.func != SC_NONE && last.func != call.func) {
                m->fault = sc_arena_printf(
                    m->arena, "the last call of stage %u is of '%s', of earlier stages of '%s'", s,
                    whole->funcs[call.func].name, whole->funcs[last.func].name);
                return false;
            }
            if (is_last)
                last = call;
            else if (is_new_call(&calls, call))
                whole->schedule[whole->call_count++] = call;
        }
        if ((image->call_count == 0) != (m->program->stages[0]->call_count == 0)) {
            m->fault = sc_arena_printf(m->arena, "only one of stages 0 and %u has a schedule", s);
            return false;
        }
    }
    if (last.func != SC_NONE)
        whole->schedule[whole->call_count++] = last;
    return true;
}

/* Returns NULL, or the fault. */
static const char *merge(sc_program *program, sc_arena *arena)
{
    const sc_image *first = program->stages[0];
    merger m = {.arena = arena,
                .program = program,
                .digit = sc_image_stage_digit(first),
                .states = {.arena = arena}};
    sc_image *whole = program->whole = sc_arena_alloc(arena, sizeof *whole);
    *whole = (sc_image){.target = first->target,
                        .nvrtc = first->nvrtc,
                        .axis_count = first->axis_count,
                        .axes = first->axes,
                        .ranks = first->ranks,
                        .pipeline = first->pipeline,
                        .cpu = first->cpu,
                        .facts = first->facts,
                        .hash = program->stage_count};
    for (uint32_t s = 0; s < program->stage_count; s++) {
        int64_t bytes = program->stages[s]->arena_bytes, host = program->stages[s]->host_bytes;
        whole->arena_bytes = bytes > whole->arena_bytes ? bytes : whole->arena_bytes;
        whole->host_bytes = host > whole->host_bytes ? host : whole->host_bytes;
        whole->hash = sc_hash_mix(whole->hash, program->stages[s]->hash);
    }
    return merge_states(&m) && merge_funcs(&m) && merge_schedule(&m) ? NULL : m.fault;
}

/* ---- reading ---- */

static bool is_single(sc_program *out, sc_arena *arena)
{
    sc_image *image = out->whole = out->stages[0];
    if (image->pipeline.count > 0)
        return false;
    out->funcs = sc_arena_array(arena, image->func_count, sizeof *out->funcs);
    for (uint32_t f = 0; f < image->func_count; f++) {
        out->funcs[f] = sc_arena_array(arena, 1, sizeof **out->funcs);
        out->funcs[f][0] = f;
    }
    return true;
}

static bool fail(shardc_error *error, const char *fault)
{
    sc_fail(error, SHARDC_ERROR_DATA, "not a valid program: %s", fault);
    return false;
}

bool sc_program_read(const void *data, size_t size, sc_arena *arena, sc_program *out,
                     shardc_error *error)
{
    size_t at = 0, used = 0;
    sc_image *first = sc_image_read_first(data, size, &used, arena, error);
    if (first == NULL)
        return false;
    uint32_t count = first->pipeline.count == 0 ? 1 : first->pipeline.count;
    if (count > size) /* an image has many bytes: the count is wrong */
        return fail(error, "it is truncated");
    *out = (sc_program){.stage_count = count, .stages = sc_arena_array(arena, count, sizeof first)};
    out->stages[0] = first;
    for (uint32_t s = 1; s < count; s++) {
        at += used;
        if (at == size) {
            sc_fail(error, SHARDC_ERROR_DATA,
                    "not a valid program: it has the images of %u of %u stages", s, count);
            return false;
        }
        out->stages[s] =
            sc_image_read_first((const uint8_t *)data + at, size - at, &used, arena, error);
        if (out->stages[s] == NULL)
            return false;
    }
    if (at + used != size)
        return fail(error, "it is truncated, or something was appended");
    if (is_single(out, arena))
        return true;
    const char *fault = sc_program_check(out->stages, count, arena);
    if (fault == NULL)
        fault = merge(out, arena);
    return fault == NULL || fail(error, fault);
}
