/* sc_image_check: the stage of an image, its boundaries, and the messages in flight.
 *
 * The order of messages is that of the calls of the schedule, so a message may be started in one
 * call and waited for in another. A function that the schedule does not call is a sequence of its
 * own. */
#include "program/check.h"
#include "program/lookup.h"
#include "support/vec.h"

/* ---- tables ---- */

static bool check_stage(sc_checker *c)
{
    const sc_image_pipeline *pipeline = &c->image->pipeline;
    c->what = NULL;
    if (pipeline->axis >= c->image->axis_count)
        return sc_checker_fail(c, "stages over axis %u, of %u", pipeline->axis,
                               c->image->axis_count);
    if (pipeline->count < 2 || pipeline->count != c->image->axes[pipeline->axis].size ||
        pipeline->stage >= pipeline->count)
        return sc_checker_fail(c, "stage %u of %u, over axis %s of %llu", pipeline->stage,
                               pipeline->count, c->image->axes[pipeline->axis].name,
                               (unsigned long long)c->image->axes[pipeline->axis].size);
    return true;
}

/* True if boundary a comes before b. */
static bool is_before(const sc_image_boundary *a, const sc_image_boundary *b)
{
    if (a->is_receive != b->is_receive)
        return b->is_receive;
    return a->peer != b->peer ? a->peer < b->peer : a->number < b->number;
}

static bool check_boundaries(sc_checker *c)
{
    const sc_image *image = c->image;
    for (uint32_t i = 0; i < image->boundary_count; i++) {
        const sc_image_boundary *boundary = &image->boundaries[i];
        sc_checker_at(c, "boundary", i, NULL);
        if (boundary->peer >= image->pipeline.count || boundary->peer == image->pipeline.stage)
            return sc_checker_fail(c, "it connects stage %u with stage %u, of %u",
                                   image->pipeline.stage, boundary->peer, image->pipeline.count);
        if (boundary->slots < 1 || boundary->slots > SC_IMAGE_MAX_SLOTS)
            return sc_checker_fail(c, "%u slots, at least 1 and at most %d", boundary->slots,
                                   SC_IMAGE_MAX_SLOTS);
        if (i > 0 && !is_before(&image->boundaries[i - 1], boundary))
            return sc_checker_fail(c, "it is not in order, or is the one before it");
    }
    return true;
}

static bool check_messages(sc_checker *c)
{
    for (uint32_t i = 0; i < c->image->message_count; i++) {
        const sc_image_message *message = &c->image->messages[i];
        sc_checker_at(c, "message", i, NULL);
        if (message->boundary >= c->image->boundary_count)
            return sc_checker_fail(c, "boundary %u, of %u", message->boundary,
                                   c->image->boundary_count);
        if (!sc_check_parts(c, message->part_count, message->dtypes, message->counts, 1))
            return false;
    }
    return true;
}

bool sc_check_pipeline(sc_checker *c)
{
    const sc_image *image = c->image;
    if (image->pipeline.count == 0) {
        c->what = NULL;
        return (image->boundary_count == 0 && image->message_count == 0) ||
               sc_checker_fail(c, "boundaries between stages, but no stages");
    }
    if (!check_stage(c) || !check_boundaries(c) || !check_messages(c))
        return false;
    c->touches = sc_arena_array(c->arena, image->func_count, sizeof *c->touches);
    for (uint32_t f = 0; f < image->func_count; f++)
        c->touches[f] = sc_arena_array(c->arena, image->funcs[f].instr_count, sizeof **c->touches);
    return true;
}

/* ---- messages in flight ---- */

/* A message that is started and not waited for. */
typedef struct flying {
    const sc_image_instr *instr;
    uint32_t boundary;
    const sc_touches *touches;
} flying;

typedef struct flight {
    sc_checker *c;
    SC_VEC(flying) list; /* in order of their starts */
    uint32_t *counts;    /* by boundary */
} flight;

static bool check_access(flight *f, const sc_touched *touched)
{
    for (uint32_t i = 0; i < f->list.count; i++) {
        const flying *message = &f->list.data[i];
        for (uint32_t t = 0; t < message->touches->count; t++) {
            const sc_touched *other = &message->touches->list[t];
            if (sc_touches_overlap(touched, other) && (touched->is_written || other->is_written))
                return sc_checker_fail(f->c,
                                       "it accesses bytes %lld to %lld of the arena, where the "
                                       "message of %s is in flight",
                                       (long long)other->begin, (long long)other->end,
                                       message->instr->where);
        }
    }
    return true;
}

static bool start(flight *f, const sc_image_instr *instr, const sc_touches *touches)
{
    uint32_t boundary = f->c->image->messages[instr->index].boundary;
    uint32_t slots = f->c->image->boundaries[boundary].slots;
    for (uint32_t i = 0; i < f->list.count; i++) {
        if (f->list.data[i].instr == instr)
            return sc_checker_fail(f->c, "it is started again before anything waits for it");
    }
    if (f->counts[boundary]++ == slots)
        return sc_checker_fail(f->c, "boundary %u has %u slots, all in flight", boundary, slots);
    *sc_vec_push(f->c->arena, &f->list) = (flying){instr, boundary, touches};
    return true;
}

static bool wait(flight *f, uint32_t boundary)
{
    uint32_t at = 0;
    while (at < f->list.count && f->list.data[at].boundary != boundary)
        at++;
    if (at == f->list.count)
        return sc_checker_fail(f->c, "it waits for boundary %u, where no message is in flight",
                               boundary);
    f->counts[boundary]--;
    f->list.count--;
    for (; at < f->list.count; at++)
        f->list.data[at] = f->list.data[at + 1];
    return true;
}

/* Inputs are set before the first instruction. */
static bool check_inputs(flight *f, const sc_image_func *func)
{
    for (uint32_t i = 0; i < func->input_count; i++) {
        const sc_image_value *input = &func->inputs[i];
        const sc_image_buffer *buffer = &f->c->image->buffers[input->buffer];
        const sc_touched whole = {.begin = buffer->offset,
                                  .end = buffer->offset + sc_image_tensor_bytes(&input->tensor),
                                  .is_written = true,
                                  .is_host = buffer->host};
        sc_checker_at(f->c, sc_arena_printf(f->c->arena, "function '%s', input", func->name), i,
                      input->name);
        if (!check_access(f, &whole))
            return false;
    }
    return true;
}

static bool check_call(flight *f, uint32_t index, bool has_messages)
{
    const sc_image_func *func = &f->c->image->funcs[index];
    const char *what = sc_arena_printf(f->c->arena, "function '%s', instruction", func->name);
    if (!has_messages && f->list.count == 0)
        return true;
    if (f->list.count > 0 && !check_inputs(f, func))
        return false;
    for (uint32_t i = 0; i < func->instr_count; i++) {
        const sc_image_instr *instr = &func->instrs[i];
        const sc_touches *touches = &f->c->touches[index][i];
        sc_checker_at(f->c, what, i, instr->where);
        for (uint32_t t = 0; t < touches->count; t++) {
            if (!check_access(f, &touches->list[t]))
                return false;
        }
        if ((instr->kind == SC_INSTR_MESSAGE && !start(f, instr, touches)) ||
            (instr->kind == SC_INSTR_WAIT && !wait(f, instr->index)))
            return false;
    }
    return true;
}

static bool check_end(flight *f)
{
    f->c->what = NULL;
    return f->list.count == 0 ||
           sc_checker_fail(f->c, "no instruction waits for the message of %s on boundary %u",
                           f->list.data[0].instr->where, f->list.data[0].boundary);
}

static bool has_messages(const sc_image_func *func)
{
    uint32_t i = 0;
    while (i < func->instr_count && func->instrs[i].kind != SC_INSTR_MESSAGE &&
           func->instrs[i].kind != SC_INSTR_WAIT)
        i++;
    return i < func->instr_count;
}

bool sc_check_flight(sc_checker *c)
{
    const sc_image *image = c->image;
    flight f = {.c = c};
    if (image->pipeline.count == 0)
        return true;
    f.counts = sc_arena_array(c->arena, image->boundary_count, sizeof *f.counts);
    bool *is_called = sc_arena_array(c->arena, image->func_count, sizeof *is_called);
    bool *moves = sc_arena_array(c->arena, image->func_count, sizeof *moves);
    for (uint32_t i = 0; i < image->func_count; i++)
        moves[i] = has_messages(&image->funcs[i]);
    for (uint32_t i = 0; i < image->call_count; i++) {
        uint32_t func = image->schedule[i].func;
        is_called[func] = true;
        if (!check_call(&f, func, moves[func]))
            return false;
    }
    if (!check_end(&f))
        return false;
    for (uint32_t i = 0; i < image->func_count; i++) {
        if (!is_called[i] && (!check_call(&f, i, moves[i]) || !check_end(&f)))
            return false;
    }
    return true;
}
