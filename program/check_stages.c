/* sc_program_check: images of several stages against each other.
 *
 * Whether they end is found by running them without data. A message ends only when both ends have
 * started it, and starting never waits, so the order in which stages run does not matter: every
 * order ends, or none does. Ranks of one stage run the same list, and those that exchange messages
 * have equal coordinates on the other axes; so one rank stands for its stage. */
#include <assert.h>
#include <string.h>

#include "program/lookup.h"
#include "program/stages.h"
#include "support/vec.h"

typedef SC_VEC(const sc_image_message *) message_list;

/* One end of a boundary. */
typedef struct boundary_end {
    struct boundary_end *other;
    message_list started;
    uint32_t waited; /* number of messages that were waited for */
} boundary_end;

/* A stage that runs a list of calls. */
typedef struct runner {
    const sc_image *image;
    boundary_end *ends; /* by boundary of the image */
    const sc_image_call *calls;
    uint32_t call_count, call, instr; /* how far it is to run; where it is */
} runner;

typedef struct stages_checker {
    sc_arena *arena;
    runner *runners; /* by stage */
    uint32_t count;
    const char *fault;
} stages_checker;

__attribute__((format(printf, 2, 3))) static bool fail(stages_checker *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    c->fault = sc_arena_vprintf(c->arena, format, args);
    va_end(args);
    return false;
}

/* ---- what stages have in common ---- */

static bool is_same_mesh(const sc_image *a, const sc_image *b)
{
    bool is_same = a->axis_count == b->axis_count && a->pipeline.count == b->pipeline.count &&
                   a->pipeline.axis == b->pipeline.axis;
    for (uint32_t i = 0; is_same && i < a->axis_count; i++)
        is_same =
            a->axes[i].size == b->axes[i].size && strcmp(a->axes[i].name, b->axes[i].name) == 0;
    return is_same;
}

static bool check_common(stages_checker *c, sc_image *const *stages)
{
    for (uint32_t s = 0; s < c->count; s++) {
        if (stages[s]->pipeline.count != c->count || stages[s]->pipeline.stage != s)
            return fail(c, "image %u of %u is of stage %u of %u", s, c->count,
                        stages[s]->pipeline.stage, stages[s]->pipeline.count);
        if (!is_same_mesh(stages[0], stages[s]))
            return fail(c, "stage %u has another mesh than stage 0", s);
        if (strcmp(stages[0]->target, stages[s]->target) != 0)
            return fail(c, "stage %u is for %s, stage 0 for %s", s, stages[s]->target,
                        stages[0]->target);
        if (strcmp(stages[0]->facts, stages[s]->facts) != 0)
            return fail(c, "stage %u has other facts than stage 0", s);
    }
    return true;
}

/* ---- boundaries ---- */

/* Returns the index of the other end; the peer's count of boundaries if it has none. */
static uint32_t find_other(const sc_image *from, const sc_image_boundary *boundary,
                           const sc_image *peer)
{
    uint32_t i = 0;
    while (i < peer->boundary_count && (peer->boundaries[i].peer != from->pipeline.stage ||
                                        peer->boundaries[i].number != boundary->number ||
                                        peer->boundaries[i].is_receive == boundary->is_receive))
        i++;
    return i;
}

static bool join_ends(stages_checker *c)
{
    for (uint32_t s = 0; s < c->count; s++) {
        runner *own = &c->runners[s];
        for (uint32_t b = 0; b < own->image->boundary_count; b++) {
            const sc_image_boundary *boundary = &own->image->boundaries[b];
            runner *peer = &c->runners[boundary->peer];
            uint32_t other = find_other(own->image, boundary, peer->image);
            if (other == peer->image->boundary_count)
                return fail(c,
                            "stage %u %s stage %u on boundary %u, which that stage does not have",
                            s, boundary->is_receive ? "receives from" : "sends to", boundary->peer,
                            boundary->number);
            own->ends[b].other = &peer->ends[other];
        }
    }
    return true;
}

static bool is_same_message(const sc_image_message *a, const sc_image_message *b)
{
    bool is_same = a->part_count == b->part_count;
    for (uint32_t p = 0; is_same && p < a->part_count; p++)
        is_same = a->dtypes[p] == b->dtypes[p] && a->counts[p] == b->counts[p];
    return is_same;
}

/* ---- running without data ---- */

static const sc_image_instr *instr_at(const runner *r)
{
    const sc_image_func *func = &r->image->funcs[r->calls[r->call].func];
    return r->instr < func->instr_count ? &func->instrs[r->instr] : NULL;
}

static bool start(stages_checker *c, uint32_t stage, const sc_image_message *message)
{
    assert(c->runners[stage].ends != NULL); /* there is a boundary */
    boundary_end *end = &c->runners[stage].ends[message->boundary];
    const sc_image_boundary *boundary = &c->runners[stage].image->boundaries[message->boundary];
    uint32_t number = end->started.count;
    *sc_vec_push(c->arena, &end->started) = message;
    return number >= end->other->started.count ||
           is_same_message(message, end->other->started.data[number]) ||
           fail(c, "message %u from stage %u to stage %u (boundary %u) has other parts at its ends",
                number, boundary->is_receive ? boundary->peer : stage,
                boundary->is_receive ? stage : boundary->peer, boundary->number);
}

/* How many messages of its boundary must have ended for the instruction to go on; 0: it goes on. */
static uint32_t waits_for(const runner *r, const sc_image_instr *instr)
{
    if (instr->kind != SC_INSTR_WAIT && instr->kind != SC_INSTR_ROOM)
        return 0;
    const boundary_end *end = &r->ends[instr->index];
    uint32_t slots = r->image->boundaries[instr->index].slots;
    if (instr->kind == SC_INSTR_WAIT)
        return end->waited + 1;
    return end->started.count - end->waited < slots ? 0 : end->started.count - slots + 1;
}

/* Runs a stage until it waits for a message that the other end has not started. Sets *out_moved if
 * it got anywhere. */
static bool run(stages_checker *c, uint32_t stage, bool *out_moved)
{
    runner *r = &c->runners[stage];
    while (r->call < r->call_count) {
        const sc_image_instr *instr = instr_at(r);
        if (instr == NULL) {
            r->call++;
            r->instr = 0;
            continue;
        }
        if (instr->kind == SC_INSTR_MESSAGE && !start(c, stage, &r->image->messages[instr->index]))
            return false;
        uint32_t needed = waits_for(r, instr);
        if (needed > 0 && r->ends[instr->index].other->started.count < needed)
            return true;
        if (needed > 0)
            r->ends[instr->index].waited = needed;
        *out_moved = true;
        r->instr++;
    }
    return true;
}

static void describe(const stages_checker *c, const runner *r, sc_strbuf *out)
{
    const sc_image_instr *instr = instr_at(r);
    const sc_image_boundary *boundary = &r->image->boundaries[instr->index];
    sc_strbuf_printf(out, "stage %u, in call %u (%s), waits for message %u %s stage %u",
                     r->image->pipeline.stage, r->call,
                     r->image->funcs[r->calls[r->call].func].name, r->ends[instr->index].waited,
                     boundary->is_receive ? "from" : "to", boundary->peer);
    if (c->runners[boundary->peer].call == c->runners[boundary->peer].call_count)
        sc_strbuf_add(out, ", which ends without it");
}

/* Follows the stages that wait for each other, from the first one that waits. */
static bool fail_stuck(stages_checker *c)
{
    sc_strbuf text;
    bool *is_shown = sc_arena_array(c->arena, c->count, sizeof *is_shown);
    uint32_t at = 0;
    sc_strbuf_init(&text, c->arena);
    while (c->runners[at].call == c->runners[at].call_count)
        at++;
    for (bool is_first = true; !is_shown[at] && c->runners[at].call < c->runners[at].call_count;
         is_first = false) {
        const runner *r = &c->runners[at];
        sc_strbuf_add(&text, is_first ? "" : "; ");
        describe(c, r, &text);
        is_shown[at] = true;
        at = r->image->boundaries[instr_at(r)->index].peer;
    }
    return fail(c, "it does not end: %s", text.data);
}

/* Runs the calls that are set, from where the stages are. */
static bool check_ends(stages_checker *c)
{
    bool moved = true, is_over = false;
    while (moved && !is_over) {
        moved = false;
        is_over = true;
        for (uint32_t s = 0; s < c->count; s++) {
            if (!run(c, s, &moved))
                return false;
            is_over = is_over && c->runners[s].call == c->runners[s].call_count;
        }
    }
    if (!is_over)
        return fail_stuck(c);
    for (uint32_t s = 0; s < c->count; s++) {
        const runner *r = &c->runners[s];
        for (uint32_t b = 0; b < r->image->boundary_count; b++) {
            if (r->ends[b].started.count != r->ends[b].other->started.count)
                return fail(c,
                            "stage %u starts %u messages of a boundary with stage %u, which "
                            "starts %u",
                            s, r->ends[b].started.count, r->image->boundaries[b].peer,
                            r->ends[b].other->started.count);
        }
    }
    return true;
}

/* ---- sequences of calls ---- */

static uint32_t find_func(const sc_image *image, const char *name)
{
    uint32_t f = 0;
    while (f < image->func_count && strcmp(image->funcs[f].name, name) != 0)
        f++;
    return f;
}

static void reset(stages_checker *c)
{
    for (uint32_t s = 0; s < c->count; s++) {
        runner *r = &c->runners[s];
        r->call = r->instr = 0;
        for (uint32_t b = 0; b < r->image->boundary_count; b++)
            r->ends[b].started.count = r->ends[b].waited = 0;
    }
}

/* Up to the last calls, before which all ranks meet; then these. */
static bool check_schedule(stages_checker *c)
{
    for (uint32_t s = 0; s < c->count; s++)
        c->runners[s].call_count -= c->runners[s].call_count > 0;
    if (!check_ends(c))
        return false;
    for (uint32_t s = 0; s < c->count; s++)
        c->runners[s].call_count = c->runners[s].image->call_count;
    return check_ends(c);
}

/* Sets every stage to run the function of that name, if it has it: its calls, or itself. False: it
 * is a part of something. */
static bool set_func(stages_checker *c, const char *name, sc_image_call *calls)
{
    reset(c);
    for (uint32_t s = 0; s < c->count; s++) {
        runner *r = &c->runners[s];
        calls[s] = (sc_image_call){find_func(r->image, name), -1};
        r->calls = &calls[s];
        r->call_count = calls[s].func < r->image->func_count;
        if (r->call_count > 0 && sc_image_is_called(r->image, calls[s].func))
            return false;
        if (r->call_count > 0 && r->image->funcs[calls[s].func].batches > 0) {
            r->call_count = r->image->funcs[calls[s].func].call_count;
            r->calls = r->image->funcs[calls[s].func].calls;
        }
    }
    return true;
}

/* A function without messages at any stage needs no check. */
static bool has_messages(const sc_image_func *func)
{
    uint32_t i = 0;
    while (i < func->instr_count && func->instrs[i].kind != SC_INSTR_MESSAGE)
        i++;
    return func->batches > 0 || i < func->instr_count;
}

static bool check_funcs(stages_checker *c)
{
    sc_image_call *calls = sc_arena_array(c->arena, c->count, sizeof *calls);
    for (uint32_t s = 0; s < c->count; s++) {
        const sc_image *image = c->runners[s].image;
        for (uint32_t f = 0; f < image->func_count; f++) {
            if (has_messages(&image->funcs[f]) && set_func(c, image->funcs[f].name, calls) &&
                !check_ends(c))
                return false;
        }
    }
    return true;
}

const char *sc_program_check(sc_image *const *stages, uint32_t count, sc_arena *arena)
{
    stages_checker c = {.arena = arena, .count = count};
    c.runners = sc_arena_array(arena, count, sizeof *c.runners);
    if (!check_common(&c, stages))
        return c.fault;
    for (uint32_t s = 0; s < count; s++) {
        const sc_image *image = stages[s];
        c.runners[s] = (runner){
            .image = image,
            .calls = image->schedule,
            .call_count = image->call_count,
            .ends = sc_arena_array(arena, image->boundary_count, sizeof *c.runners[s].ends)};
    }
    if (join_ends(&c) && check_schedule(&c))
        check_funcs(&c);
    return c.fault;
}
