/* sc_image_check: the stage of an image, its boundaries, and the messages in flight.
 *
 * The order of messages is that of the calls of a list (the schedule, or those of a function), so a
 * message may be started in one call and waited for in another. A function that no list calls is a
 * sequence of its own. */
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
    int32_t micro_batch;
    const sc_touches *touches;
} flying;

enum { NEVER_WRITTEN = -2 };

typedef struct flight {
    sc_checker *c;
    SC_VEC(flying) list; /* in order of their starts */
    uint32_t *counts;    /* by boundary */
    /* by buffer, of slots by copy: the micro-batch that wrote it last, or NEVER_WRITTEN */
    int32_t **written_for;
    int32_t micro_batch; /* of the call */
} flight;

/* The range in the copy of a micro-batch. */
static sc_touched in_copy(const flight *f, const sc_touched *touched, int32_t micro_batch)
{
    int64_t at = sc_image_copy_at(&f->c->image->buffers[touched->buffer], micro_batch);
    sc_touched moved = *touched;
    moved.begin += at;
    moved.end += at;
    return moved;
}

static bool check_access(flight *f, const sc_touched *touched)
{
    for (uint32_t i = 0; i < f->list.count; i++) {
        const flying *message = &f->list.data[i];
        const sc_touched own = in_copy(f, touched, f->micro_batch);
        for (uint32_t t = 0; t < message->touches->count; t++) {
            const sc_touched other = in_copy(f, &message->touches->list[t], message->micro_batch);
            if (sc_touches_overlap(&own, &other) && (own.is_written || other.is_written))
                return sc_checker_fail(f->c,
                                       "it accesses bytes %lld to %lld of the arena, where the "
                                       "message of %s is in flight",
                                       (long long)other.begin, (long long)other.end,
                                       message->instr->where);
        }
    }
    return true;
}

/* A copy of a slot holds what a call for the same micro-batch wrote. */
static bool check_slot(flight *f, const sc_touched *touched)
{
    const sc_image_buffer *buffer = &f->c->image->buffers[touched->buffer];
    if (buffer->kind != SC_BUFFER_SLOT)
        return true;
    uint32_t copy = f->micro_batch < 0 ? 0 : (uint32_t)f->micro_batch % buffer->copies;
    int32_t *holds = &f->written_for[touched->buffer][copy];
    if (touched->is_written)
        *holds = f->micro_batch;
    return *holds == f->micro_batch ||
           sc_checker_fail(f->c, "it reads slot %s for micro-batch %d, which holds %s%d",
                           buffer->name, f->micro_batch,
                           *holds == NEVER_WRITTEN ? "nothing: " : "that of micro-batch ", *holds);
}

static bool start(flight *f, const sc_image_instr *instr, const sc_touches *touches)
{
    uint32_t boundary = f->c->image->messages[instr->index].boundary;
    uint32_t slots = f->c->image->boundaries[boundary].slots;
    if (f->counts[boundary]++ == slots)
        return sc_checker_fail(f->c, "boundary %u has %u slots, all in flight", boundary, slots);
    *sc_vec_push(f->c->arena, &f->list) = (flying){instr, boundary, f->micro_batch, touches};
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

static bool make_room(flight *f, uint32_t boundary)
{
    while (f->counts[boundary] >= f->c->image->boundaries[boundary].slots) {
        if (!wait(f, boundary))
            return false;
    }
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
                                  .buffer = input->buffer,
                                  .is_written = true,
                                  .is_host = buffer->host};
        sc_checker_at(f->c, sc_arena_printf(f->c->arena, "function '%s', input", func->name), i,
                      input->name);
        if (!check_access(f, &whole))
            return false;
    }
    return true;
}

static bool check_instr(flight *f, const sc_image_instr *instr, const sc_touches *touches)
{
    for (uint32_t t = 0; t < touches->count; t++) {
        if (!check_access(f, &touches->list[t]) || !check_slot(f, &touches->list[t]))
            return false;
    }
    switch (instr->kind) {
    case SC_INSTR_MESSAGE:
        return start(f, instr, touches);
    case SC_INSTR_WAIT:
        return wait(f, instr->index);
    case SC_INSTR_ROOM:
        return make_room(f, instr->index);
    default:
        return true;
    }
}

static bool check_call(flight *f, const sc_image_call *call)
{
    const sc_image_func *func = &f->c->image->funcs[call->func];
    const char *what = sc_arena_printf(f->c->arena, "function '%s', instruction", func->name);
    f->micro_batch = call->micro_batch;
    if (f->list.count > 0 && !check_inputs(f, func))
        return false;
    for (uint32_t i = 0; i < func->instr_count; i++) {
        sc_checker_at(f->c, what, i, func->instrs[i].where);
        if (!check_instr(f, &func->instrs[i], &f->c->touches[call->func][i]))
            return false;
    }
    return true;
}

/* What is still being sent is waited for at the end; nobody has read what is still received. */
static bool check_end(flight *f)
{
    f->c->what = NULL;
    for (uint32_t i = 0; i < f->list.count; i++) {
        uint32_t boundary = f->list.data[i].boundary;
        if (f->c->image->boundaries[boundary].is_receive)
            return sc_checker_fail(f->c,
                                   "no instruction waits for the message of %s on boundary %u",
                                   f->list.data[i].instr->where, boundary);
    }
    return true;
}

static void begin_flight(flight *f)
{
    const sc_image *image = f->c->image;
    f->list.count = 0;
    for (uint32_t i = 0; i < image->boundary_count; i++)
        f->counts[i] = 0;
    for (uint32_t b = 0; b < image->buffer_count; b++) {
        for (uint32_t k = 0; f->written_for[b] != NULL && k < image->buffers[b].copies; k++)
            f->written_for[b][k] = NEVER_WRITTEN;
    }
}

bool sc_check_flight(sc_checker *c)
{
    const sc_image *image = c->image;
    flight f = {.c = c};
    if (image->pipeline.count == 0)
        return true;
    f.counts = sc_arena_array(c->arena, image->boundary_count, sizeof *f.counts);
    f.written_for = sc_arena_array(c->arena, image->buffer_count, sizeof *f.written_for);
    for (uint32_t b = 0; b < image->buffer_count; b++) {
        if (image->buffers[b].kind == SC_BUFFER_SLOT)
            f.written_for[b] =
                sc_arena_array(c->arena, image->buffers[b].copies, sizeof **f.written_for);
    }
    bool *is_called = sc_arena_array(c->arena, image->func_count, sizeof *is_called);
    for (uint32_t l = 0; l <= image->func_count; l++) {
        const sc_image_list list = sc_image_list_of(image, l);
        begin_flight(&f);
        for (uint32_t i = 0; i < list.count; i++) {
            is_called[list.calls[i].func] = true;
            if (!check_call(&f, &list.calls[i]))
                return false;
        }
        if (!check_end(&f))
            return false;
    }
    for (uint32_t i = 0; i < image->func_count; i++) {
        const sc_image_call call = {i, -1};
        begin_flight(&f);
        if (!is_called[i] && image->funcs[i].batches == 0 &&
            (!check_call(&f, &call) || !check_end(&f)))
            return false;
    }
    return true;
}
