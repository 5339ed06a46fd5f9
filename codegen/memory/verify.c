/* Replays a program on a map of the arena that records the holder of every byte. A buffer takes its
 * bytes when it is first written in a call; any other holder of one of these bytes has lost it, and
 * must not be accessed again: every later access, the FINISH of a collective and the end of the
 * schedule check that the buffer still holds all its bytes. This finds two buffers that overlap
 * while both are needed, independently of the planner.
 *
 * The map is a list of segments between the buffers' sorted ends, each with its holder. Taking a
 * range removes all inner segments but one and creates at most two, so a replay is linear in the
 * number of accesses, apart from finding a segment, in a tree of bits with 64 children per node.
 *
 * The effect of a call depends on the functions called before it, whose outputs must survive. That
 * set only grows, so a function is replayed again only when it has grown: the cost does not depend
 * on the length of the schedule. */
#include "codegen/memory/plan.h"

#include <stdbool.h>
#include <stdlib.h>

#include "program/lookup.h"

enum { LEVELS = 6 /* 64 ^ 6 > 2 ^ 32 */ };

typedef struct holder {
    uint32_t first, end; /* its range, as indices of the map's bounds */
    uint32_t func;       /* that uses it; SC_NONE: not used yet, or a state */
    uint32_t born;       /* the replay in which it took its bytes; 0: never */
    uint32_t lost_to;    /* SC_NONE: it holds all its bytes */
    /* counts of in-flight readers, writers: collectives, transfers */
    uint32_t moved_from[2], moved_to[2];
    bool state, output, slot; /* slot: lives from call to call of a schedule */
} holder;

typedef struct replay {
    sc_arena *arena;
    const sc_image *image;
    uint32_t wish_count;
    holder *holders;
    uint32_t bound_count;
    uint32_t *segment_holder, *segment_end; /* by the segment's first bound */
    uint64_t *starts[LEVELS];               /* bit set of bounds that begin a segment */
    sc_memory_wish *wishes;                 /* sorted */
    bool *flying;                           /* in flight; by instruction of the current function */
    uint32_t now, sequence;                 /* numbers of the current replay, from 1; of the first
                                             * one of this schedule or separate function */
    uint32_t func, instr;                   /* being replayed; SC_NONE: none; not an instruction */
    const char *error;
} replay;

/* ---- messages ---- */
static const char *name_of(const replay *r, uint32_t buffer)
{
    const char *name = r->image->buffers[buffer].name;
    return name != NULL ? sc_arena_printf(r->arena, "buffer %u (%s)", buffer, name)
                        : sc_arena_printf(r->arena, "buffer %u", buffer);
}

/* Records the first error only. */
static void fail(replay *r, const char *what)
{
    if (r->error != NULL)
        return;
    r->error = what;
    if (r->func != SC_NONE && r->instr == SC_NONE)
        r->error = sc_arena_printf(r->arena, "@%s: %s", r->image->funcs[r->func].name, what);
    else if (r->func != SC_NONE)
        r->error = sc_arena_printf(r->arena, "@%s, instruction %u: %s",
                                   r->image->funcs[r->func].name, r->instr, what);
}

static void fail_of(replay *r, uint32_t buffer, const char *what)
{
    fail(r, sc_arena_printf(r->arena, "%s %s", name_of(r, buffer), what));
}

/* ---- the map ---- */
static void set_start(replay *r, uint32_t at)
{
    for (uint32_t l = 0; l < LEVELS; l++, at /= 64)
        r->starts[l][at / 64] |= (uint64_t)1 << at % 64;
}

static void clear_start(replay *r, uint32_t at)
{
    for (uint32_t l = 0; l < LEVELS; l++, at /= 64) {
        r->starts[l][at / 64] &= ~((uint64_t)1 << at % 64);
        if (r->starts[l][at / 64] != 0)
            return;
    }
}

/* The last segment start at or before a bound; bound 0 always is one. */
static uint32_t start_before(const replay *r, uint32_t at)
{
    uint64_t among = ~(uint64_t)0 >> (63 - at % 64);
    uint32_t level = 0;
    while ((r->starts[level][at / 64] & among) == 0) {
        at /= 64;
        among = ((uint64_t)1 << at % 64) - 1;
        level++;
    }
    at = at / 64 * 64 + 63 - (uint32_t)__builtin_clzll(r->starts[level][at / 64] & among);
    while (level-- > 0)
        at = at * 64 + 63 - (uint32_t)__builtin_clzll(r->starts[level][at]);
    return at;
}

static void lose(replay *r, uint32_t buffer, uint32_t to)
{
    if (buffer != SC_NONE && buffer != to && r->holders[buffer].lost_to == SC_NONE)
        r->holders[buffer].lost_to = to;
}

static void take(replay *r, uint32_t buffer)
{
    holder *h = &r->holders[buffer];
    h->born = r->now;
    h->lost_to = SC_NONE;
    if (h->first == h->end)
        return;
    uint32_t last = start_before(r, h->end), at = start_before(r, h->first);
    if (last != h->end) { /* split the segment that extends beyond */
        r->segment_holder[h->end] = r->segment_holder[last];
        r->segment_end[h->end] = r->segment_end[last];
        r->segment_end[last] = h->end;
        set_start(r, h->end);
    }
    uint32_t next = r->segment_end[at];
    lose(r, r->segment_holder[at], buffer);
    if (at != h->first) {
        r->segment_end[at] = h->first;
        set_start(r, h->first);
    }
    while (next < h->end) {
        uint32_t after = r->segment_end[next];
        lose(r, r->segment_holder[next], buffer);
        clear_start(r, next);
        next = after;
    }
    r->segment_holder[h->first] = buffer;
    r->segment_end[h->first] = h->end;
}

typedef struct bound {
    int64_t at;
    uint32_t buffer;
    bool end;
} bound;

static int compare_bounds(const void *left, const void *right)
{
    const bound *a = left, *b = right;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* The host arena follows the device's on the map. */
static int64_t place_on_map(const sc_image *image, const sc_image_buffer *buffer)
{
    return buffer->offset + (buffer->host ? image->arena_bytes : 0);
}

static void make_map(replay *r)
{
    const sc_image *image = r->image;
    bound *bounds = sc_arena_array(r->arena, (size_t)image->buffer_count * 2, sizeof *bounds);
    uint32_t count = 0;
    for (uint32_t b = 0; b < image->buffer_count; b++) {
        const sc_image_buffer *buffer = &image->buffers[b];
        if (buffer->bytes == 0)
            continue;
        int64_t at = place_on_map(image, buffer);
        bounds[count++] = (bound){at, b, false};
        bounds[count++] = (bound){at + sc_image_buffer_extent(buffer), b, true};
    }
    qsort(bounds, count, sizeof *bounds, compare_bounds);
    for (uint32_t i = 0; i < count; i++) {
        r->bound_count += i == 0 || bounds[i].at != bounds[i - 1].at ? 1 : 0;
        holder *h = &r->holders[bounds[i].buffer];
        if (bounds[i].end)
            h->end = r->bound_count - 1;
        else
            h->first = r->bound_count - 1;
    }
    r->segment_holder =
        sc_arena_array(r->arena, (size_t)r->bound_count + 1, sizeof *r->segment_holder);
    r->segment_end = sc_arena_array(r->arena, (size_t)r->bound_count + 1, sizeof *r->segment_end);
    for (uint32_t l = 0, words = r->bound_count / 64 + 1; l < LEVELS; l++, words = words / 64 + 1)
        r->starts[l] = sc_arena_array(r->arena, words, sizeof *r->starts[l]);
    r->segment_holder[0] = SC_NONE;
    r->segment_end[0] = r->bound_count;
    set_start(r, 0);
}

/* ---- wishes ---- */
static int compare_wishes(const void *left, const void *right)
{
    const sc_memory_wish *a = left, *b = right;
    const uint32_t keys[][2] = {
        {a->func, b->func}, {a->instr, b->instr}, {a->into, b->into}, {a->from, b->from}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        if (keys[k][0] != keys[k][1])
            return keys[k][0] < keys[k][1] ? -1 : 1;
    }
    return 0;
}

/* True if the instruction uses the buffer exactly once, with this access. */
static bool has_once(const replay *r, const sc_image_instr *instr, uint32_t buffer,
                     sc_image_access access)
{
    uint32_t count = 0;
    bool as_said = true;
    for (uint32_t a = 0; a < instr->arg_count; a++) {
        if (instr->args[a].buffer != buffer)
            continue;
        as_said = as_said && sc_memory_access(r->image, instr, a) == access;
        count++;
    }
    return as_said && count == 1;
}

/* True if the instruction may write `into` to exactly the bytes of `from`. */
static bool is_in_place(const replay *r, const sc_image_instr *instr, uint32_t into, uint32_t from)
{
    const sc_image_buffer *a = &r->image->buffers[into], *b = &r->image->buffers[from];
    sc_memory_wish wish = {r->func, r->instr, into, from};
    return a->offset == b->offset && a->host == b->host && a->bytes == b->bytes &&
           has_once(r, instr, into, SC_ACCESS_OUT) && has_once(r, instr, from, SC_ACCESS_IN) &&
           r->wish_count > 0 &&
           bsearch(&wish, r->wishes, r->wish_count, sizeof wish, compare_wishes) != NULL;
}

/* ---- accesses ---- */
static bool is_born(const replay *r, const holder *h)
{
    return h->state || h->born == r->now || ((h->output || h->slot) && h->born >= r->sequence);
}

static void want_whole(replay *r, uint32_t buffer)
{
    uint32_t other = r->holders[buffer].lost_to;
    if (other != SC_NONE)
        fail(r, sc_arena_printf(r->arena, "%s is overwritten by %s while it is needed",
                                name_of(r, buffer), name_of(r, other)));
}

static void own(replay *r, uint32_t buffer)
{
    holder *h = &r->holders[buffer];
    if (h->func != SC_NONE && h->func != r->func && !h->slot)
        fail_of(r, buffer,
                sc_arena_printf(r->arena, "belongs to @%s and is not a state",
                                r->image->funcs[h->func].name));
    if (!h->state)
        h->func = r->func;
}

static bool is_asynchronous(const sc_image_instr *instr)
{
    return instr->kind == SC_INSTR_COLLECTIVE || instr->kind == SC_INSTR_TRANSFER ||
           instr->stream != 0;
}

/* Checks the state before the instruction: operands are intact, and none is in flight. */
static void check_before(replay *r, const sc_image_instr *instr, uint32_t arg)
{
    uint32_t buffer = instr->args[arg].buffer;
    sc_image_access access = sc_memory_access(r->image, instr, arg);
    const holder *h = &r->holders[buffer];
    if (instr->args[arg].at < 0 || instr->args[arg].at > r->image->buffers[buffer].bytes)
        fail_of(r, buffer, "ends before its argument begins");
    own(r, buffer);
    if (is_born(r, h))
        want_whole(r, buffer);
    else if (access != SC_ACCESS_OUT)
        fail_of(r, buffer, "is read, but nothing has written it");
    static const char *const uses[2] = {"is used while a collective in flight writes it",
                                        "is used while a transfer in flight writes it"},
                             *const writes[2] = {"is written while a collective in flight reads it",
                                                 "is written while a transfer in flight reads it"};
    for (int t = 0; t < 2; t++) {
        if (t == 1 && instr->kind == SC_INSTR_TRANSFER)
            continue; /* transfers run in order */
        if (h->moved_to[t] > 0)
            fail_of(r, buffer, uses[t]);
        else if (h->moved_from[t] > 0 && access != SC_ACCESS_IN)
            fail_of(r, buffer, writes[t]);
    }
}

static void move(replay *r, const sc_image_instr *instr, uint32_t by)
{
    for (uint32_t a = 0; a < instr->arg_count; a++) {
        sc_image_access access = sc_memory_access(r->image, instr, a);
        holder *h = &r->holders[instr->args[a].buffer];
        h->moved_from[instr->kind == SC_INSTR_TRANSFER] += access != SC_ACCESS_OUT ? by : 0;
        h->moved_to[instr->kind == SC_INSTR_TRANSFER] += access != SC_ACCESS_IN ? by : 0;
    }
}

static void finish(replay *r, const sc_image_func *func, uint32_t index)
{
    if (!r->flying[index])
        return;
    r->flying[index] = false;
    move(r, &func->instrs[index], (uint32_t)-1);
    for (uint32_t a = 0; a < func->instrs[index].arg_count; a++)
        want_whole(r, func->instrs[index].args[a].buffer);
}

static void replay_instr(replay *r, const sc_image_func *func, const sc_image_instr *instr)
{
    if (instr->kind == SC_INSTR_FINISH) {
        if (instr->index >= r->instr || !is_asynchronous(&func->instrs[instr->index]))
            fail(r, "finishes what no instruction before it has started");
        else
            finish(r, func, instr->index);
        return;
    }
    for (uint32_t a = 0; a < instr->arg_count; a++)
        check_before(r, instr, a);
    for (uint32_t a = 0; a < instr->arg_count; a++) {
        if (!is_born(r, &r->holders[instr->args[a].buffer]))
            take(r, instr->args[a].buffer);
    }
    for (uint32_t a = 0; a < instr->arg_count; a++) {
        uint32_t buffer = instr->args[a].buffer, to = r->holders[buffer].lost_to;
        if (to != SC_NONE && (is_asynchronous(instr) || !is_in_place(r, instr, to, buffer)))
            want_whole(r, buffer);
    }
    if (is_asynchronous(instr)) {
        r->flying[r->instr] = true;
        move(r, instr, 1);
    }
}

/* ---- calls ---- */
static void replay_call(replay *r, uint32_t f)
{
    const sc_image_func *func = &r->image->funcs[f];
    r->now++;
    r->func = f;
    r->instr = SC_NONE;
    r->flying = sc_arena_array(r->arena, func->instr_count, sizeof *r->flying);
    for (uint32_t i = 0; i < func->input_count; i++) {
        own(r, func->inputs[i].buffer);
        if (!is_born(r, &r->holders[func->inputs[i].buffer]))
            take(r, func->inputs[i].buffer);
    }
    for (uint32_t i = 0; i < func->input_count; i++)
        want_whole(r, func->inputs[i].buffer);
    for (r->instr = 0; r->instr < func->instr_count && r->error == NULL; r->instr++)
        replay_instr(r, func, &func->instrs[r->instr]);
    r->instr = SC_NONE;
    for (uint32_t i = 0; i < func->instr_count; i++) {
        if (r->error != NULL)
            break;
        finish(r, func, i);
    }
    for (uint32_t o = 0; o < func->output_count; o++) {
        own(r, func->outputs[o].buffer);
        if (!is_born(r, &r->holders[func->outputs[o].buffer]))
            fail_of(r, func->outputs[o].buffer, "is returned, but nothing has written it");
        want_whole(r, func->outputs[o].buffer);
    }
    r->func = SC_NONE;
}

/* After a list of calls, or a function that is in none: checks that states and outputs are intact.
 */
static void check_survivors(replay *r)
{
    for (uint32_t b = 0; b < r->image->buffer_count; b++) {
        if (r->holders[b].state || (r->holders[b].output && r->holders[b].born >= r->sequence))
            want_whole(r, b);
    }
}

static void replay_list(replay *r, sc_image_list list, bool *called)
{
    uint32_t *replayed_with = sc_arena_array(r->arena, r->image->func_count, sizeof *replayed_with),
             distinct = 0;
    r->sequence = r->now + 1;
    for (uint32_t c = 0; c < list.count; c++) {
        if (r->error != NULL)
            break;
        uint32_t f = list.calls[c].func;
        if (called[f] && replayed_with[f] == distinct)
            continue;
        replayed_with[f] = distinct;
        replay_call(r, f);
        distinct += called[f] ? 0 : 1;
        called[f] = true;
    }
    check_survivors(r);
}

/* ---- interface ---- */
static void check_places(replay *r)
{
    const sc_image *image = r->image;
    for (uint32_t b = 0; b < image->buffer_count; b++) {
        const sc_image_buffer *buffer = &image->buffers[b];
        int64_t arena = buffer->host ? image->host_bytes : image->arena_bytes;
        if (buffer->offset < 0 || buffer->offset % SC_IMAGE_ALIGN != 0)
            fail_of(r, b, "has an offset at which no buffer can be");
        else if (buffer->bytes < 0 || buffer->bytes > arena ||
                 buffer->offset > arena - sc_image_buffer_extent(buffer))
            fail_of(r, b, "reaches beyond the arena");
    }
}

static void begin(replay *r, const sc_memory_wish *wishes)
{
    const sc_image *image = r->image;
    r->holders = sc_arena_array(r->arena, image->buffer_count, sizeof *r->holders);
    for (uint32_t b = 0; b < image->buffer_count; b++)
        r->holders[b] = (holder){.func = SC_NONE,
                                 .lost_to = SC_NONE,
                                 .state = image->buffers[b].kind < SC_BUFFER_SLOT,
                                 .slot = image->buffers[b].kind == SC_BUFFER_SLOT};
    for (uint32_t s = 0; s < image->state_count; s++)
        r->holders[image->states[s].buffer].state = true;
    for (uint32_t f = 0; f < image->func_count; f++) {
        for (uint32_t o = 0; o < image->funcs[f].output_count; o++)
            r->holders[image->funcs[f].outputs[o].buffer].output = true;
    }
    r->wishes = sc_arena_array(r->arena, r->wish_count, sizeof *r->wishes);
    for (uint32_t w = 0; w < r->wish_count; w++)
        r->wishes[w] = wishes[w];
    qsort(r->wishes, r->wish_count, sizeof *r->wishes, compare_wishes);
    make_map(r);
}

const char *sc_memory_plan_verify(sc_arena *arena, const sc_image *image,
                                  const sc_memory_wish *wishes, uint32_t wish_count)
{
    replay r = {.arena = arena,
                .image = image,
                .wish_count = wish_count,
                .func = SC_NONE,
                .instr = SC_NONE};
    check_places(&r);
    if (r.error != NULL)
        return r.error;
    begin(&r, wishes);
    for (uint32_t b = 0; b < image->buffer_count; b++) {
        if (r.holders[b].state)
            take(&r, b);
    }
    bool *called = sc_arena_array(arena, image->func_count, sizeof *called);
    for (uint32_t l = 0; l <= image->func_count; l++) {
        const sc_image_list list = sc_image_list_of(image, l);
        if (list.count > 0 && r.error == NULL)
            replay_list(&r, list, called);
    }
    for (uint32_t f = 0; f < image->func_count; f++) {
        if (r.error != NULL)
            break;
        if (called[f] || image->funcs[f].batches > 0)
            continue;
        r.sequence = r.now + 1;
        replay_call(&r, f);
        check_survivors(&r);
    }
    return r.error;
}
