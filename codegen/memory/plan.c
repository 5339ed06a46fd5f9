/* Computes live ranges from a program and offsets from a packing (pack.c).
 *
 * All functions share one time axis. A function of n instructions takes n + 2 times: its start
 * (inputs are written), its instructions, its end (outputs are fetched). The lists of
 * calls (the schedule, and those of functions that are lists) follow each other. The functions of a
 * list are ordered by their last calls, so that an output's live range is one interval: for a
 * function whose first call is number a, outputs must survive every function of the list with a
 * call after a, and these are the last ones of the list on the axis. A function that is called
 * again is one of them, so its output is live in it from the start. Functions that are in no list
 * follow; only states are live in them.
 *
 * Buffers that share a place by a granted wish are one interval, from the start of the first live
 * range to the end of the last. */
#include "codegen/memory/plan.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "codegen/memory/pack.h"
#include "program/lookup.h"

/* The live range of a buffer. */
typedef struct life {
    uint32_t func;        /* SC_NONE: unused */
    uint32_t first, last; /* times on the axis */
    bool state;
    uint32_t from, into; /* the buffers before and after it in a shared place; SC_NONE */
} life;

typedef struct planning {
    sc_arena *arena;
    sc_image *image;
    const sc_memory_wish *wishes;
    uint32_t wish_count;
    life *lives;
    uint32_t *starts, *ends;     /* by function: times on the axis */
    uint32_t *survive_from;      /* by function of a list: time from which its outputs must survive
                                  * until the end of the list; else SC_NONE */
    uint32_t *calls, call_count; /* the functions that all lists call, one list after the other */
    uint32_t *list_end;          /* by call: the last one of its list */
    uint32_t *end_of;            /* by function of a list: the time at which the list ends */
    uint32_t times;
    const char *error;
} planning;

sc_image_access sc_memory_access(const sc_image *image, const sc_image_instr *instr, uint32_t arg)
{
    switch (instr->kind) {
    case SC_INSTR_KERNEL:
        return (sc_image_access)image->kernels[instr->index].args[arg].access;
    case SC_INSTR_GEMM: {
        const sc_gemm *gemm = &image->gemms[instr->index];
        uint32_t operand = SC_GEMM_OPERANDS;
        if (arg == SC_GEMM_C)
            return gemm->accumulate ? SC_ACCESS_INOUT : SC_ACCESS_OUT;
        if (arg < SC_GEMM_OPERANDS)
            return SC_ACCESS_IN;
        for (uint32_t s = 0; s < gemm->step_count; s++) {
            if (sc_gemm_step_has_tensor(gemm->steps[s].kind) && operand++ == arg)
                return sc_gemm_step_writes(gemm->steps[s].kind) ? SC_ACCESS_OUT : SC_ACCESS_IN;
        }
        return SC_ACCESS_OUT;
    }
    case SC_INSTR_COLLECTIVE: {
        sc_image_collective_kind kind = image->collectives[instr->index].kind;
        if (kind == SC_IMAGE_SEND || kind == SC_IMAGE_RECV)
            return kind == SC_IMAGE_SEND ? SC_ACCESS_IN : SC_ACCESS_OUT;
        bool is_count = arg >= 2 * image->collectives[instr->index].part_count;
        return is_count || arg % 2 == 0 ? SC_ACCESS_IN : SC_ACCESS_OUT;
    }
    case SC_INSTR_TRANSFER:
        return arg % 2 == 0 ? SC_ACCESS_IN : SC_ACCESS_OUT;
    case SC_INSTR_MESSAGE: {
        uint32_t boundary = image->messages[instr->index].boundary;
        return image->boundaries[boundary].is_receive ? SC_ACCESS_OUT : SC_ACCESS_IN;
    }
    case SC_INSTR_WAIT:
    case SC_INSTR_ROOM:
        return SC_ACCESS_OUT;
    default:
        return arg == 0 ? SC_ACCESS_IN : SC_ACCESS_OUT;
    }
}

/* ---- time axis ---- */
typedef struct last_call {
    uint32_t func, call; /* call: past all others for functions that are in no list */
} last_call;

static int compare_calls(const void *left, const void *right)
{
    const last_call *a = left, *b = right;
    if (a->call != b->call)
        return a->call < b->call ? -1 : 1;
    return a->func < b->func ? -1 : a->func > b->func;
}

static void find_calls(planning *p)
{
    const sc_image *image = p->image;
    uint32_t count = 0;
    for (uint32_t l = 0; l <= image->func_count; l++)
        count += sc_image_list_of(image, l).count;
    p->calls = sc_arena_array(p->arena, count + 1u, sizeof *p->calls);
    p->list_end = sc_arena_array(p->arena, count + 1u, sizeof *p->list_end);
    for (uint32_t l = 0; l <= image->func_count; l++) {
        const sc_image_list list = sc_image_list_of(image, l);
        uint32_t end = p->call_count + list.count - 1;
        for (uint32_t c = 0; c < list.count; c++) {
            p->list_end[p->call_count] = end;
            p->calls[p->call_count++] = list.calls[c].func;
        }
    }
}

static void make_axis(planning *p)
{
    const sc_image *image = p->image;
    last_call *calls = sc_arena_array(p->arena, image->func_count, sizeof *calls);
    uint32_t *first = sc_arena_array(p->arena, image->func_count, sizeof *first), at = 0;
    for (uint32_t f = 0; f < image->func_count; f++) {
        calls[f] = (last_call){f, SC_NONE};
        first[f] = p->survive_from[f] = SC_NONE;
    }
    for (uint32_t c = p->call_count; c-- > 0;)
        first[p->calls[c]] = c;
    for (uint32_t c = 0; c < p->call_count; c++)
        calls[p->calls[c]].call = c;
    qsort(calls, image->func_count, sizeof *calls, compare_calls);
    for (uint32_t i = 0; i < image->func_count; i++) {
        uint32_t f = calls[i].func;
        p->starts[f] = at;
        at += image->funcs[f].instr_count + 2;
        p->ends[f] = at - 1;
    }
    p->times = at;
    for (uint32_t c = 0; c < p->call_count; c++)
        p->end_of[p->calls[c]] = p->ends[p->calls[p->list_end[c]]];
    for (uint32_t f = 0; f < image->func_count; f++) { /* first last call after f's first */
        if (first[f] == SC_NONE)
            continue;
        uint32_t low = 0, high = image->func_count;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (calls[middle].call > first[f])
                high = middle;
            else
                low = middle + 1;
        }
        p->survive_from[f] = low < image->func_count ? p->starts[calls[low].func] : p->times;
    }
}

/* ---- live ranges ---- */
/* True for a slot that calls of a list use: find_slots has its live range. */
static bool is_kept(const planning *p, uint32_t buffer, uint32_t func)
{
    return p->image->buffers[buffer].kind == SC_BUFFER_SLOT && p->survive_from[func] != SC_NONE;
}

static void touch(planning *p, uint32_t func, uint32_t buffer, uint32_t first, uint32_t last)
{
    life *of = &p->lives[buffer];
    assert(buffer < p->image->buffer_count);
    if (of->state || is_kept(p, buffer, func))
        return;
    if (of->func == SC_NONE) {
        of->func = func;
        of->first = first;
        of->last = last;
    } else if (of->func != func) {
        const sc_image_func *funcs = p->image->funcs;
        p->error = sc_arena_printf(
            p->arena, "buffer %u (%s) is used by @%s and @%s, but is not a state", buffer,
            p->image->buffers[buffer].name, funcs[of->func].name, funcs[func].name);
    }
    of->first = first < of->first ? first : of->first;
    of->last = last > of->last ? last : of->last;
}

/* Sets the time when each instruction releases its buffers: for a collective at its FINISH. */
static void find_ends(const planning *p, uint32_t f, uint32_t *ends)
{
    const sc_image_func *func = &p->image->funcs[f];
    for (uint32_t i = 0; i < func->instr_count; i++) {
        const sc_image_instr *instr = &func->instrs[i];
        bool is_sent = instr->kind == SC_INSTR_MESSAGE &&
                       sc_memory_access(p->image, instr, 0) == SC_ACCESS_IN,
             waits = instr->kind == SC_INSTR_COLLECTIVE || is_sent || instr->stream != 0;
        ends[i] = waits ? p->ends[f] : p->starts[f] + 1 + i;
    }
    for (uint32_t i = func->instr_count; i-- > 0;) { /* so that the first FINISH counts */
        const sc_image_instr *instr = &func->instrs[i];
        if (instr->kind == SC_INSTR_FINISH && instr->index < i)
            ends[instr->index] = p->starts[f] + 1 + i;
    }
}

static void find_lives(planning *p, uint32_t f)
{
    const sc_image_func *func = &p->image->funcs[f];
    uint32_t *ends = sc_arena_array(p->arena, func->instr_count, sizeof *ends),
             start = p->starts[f], end = p->ends[f];
    if (func->batches > 0) /* its inputs and outputs are those of what it calls */
        return;
    find_ends(p, f, ends);
    for (uint32_t i = 0; i < func->input_count; i++)
        touch(p, f, func->inputs[i].buffer, start, start);
    for (uint32_t i = 0; i < func->instr_count; i++) {
        for (uint32_t a = 0; a < func->instrs[i].arg_count; a++)
            touch(p, f, func->instrs[i].args[a].buffer, start + 1 + i, ends[i]);
    }
    for (uint32_t o = 0; o < func->output_count; o++) {
        uint32_t buffer = func->outputs[o].buffer;
        touch(p, f, buffer, end, end);
        if (p->survive_from[f] != SC_NONE && p->survive_from[f] <= p->end_of[f])
            touch(p, f, buffer, p->survive_from[f], p->end_of[f]);
    }
}

/* ---- slots ---- */
/* The calls of a list from the first to the last that uses a slot. */
typedef struct slot_use {
    uint32_t first, last; /* first SC_NONE: none */
} slot_use;

static void use_slot(slot_use *of, uint32_t first, uint32_t last)
{
    of->first = of->first == SC_NONE ? first : of->first;
    of->last = last > of->last ? last : of->last;
}

static void use_slots(const planning *p, uint32_t call, slot_use *uses)
{
    const uint32_t end = p->list_end[call];
    const sc_image_func *func = &p->image->funcs[p->calls[call]];
    for (uint32_t i = 0; i < func->instr_count; i++) {
        const sc_image_instr *instr = &func->instrs[i];
        for (uint32_t a = 0; a < instr->arg_count; a++) {
            bool is_sent = instr->kind == SC_INSTR_MESSAGE &&
                           sc_memory_access(p->image, instr, a) == SC_ACCESS_IN;
            /* what is sent may be under way to the end */
            use_slot(&uses[instr->args[a].buffer], call, is_sent ? end : call);
        }
    }
    for (uint32_t o = 0; o < func->output_count; o++)
        use_slot(&uses[func->outputs[o].buffer], call, end);
}

/* A slot is live in all functions that are called while it is used. Functions called from a call on
 * are on the axis from the first of them on, those called up to it end with the last of them. Each
 * function counts with its first and last call: between, it uses nothing else. */
static void find_slots(planning *p)
{
    const sc_image *image = p->image;
    const uint32_t calls = p->call_count;
    uint32_t *begin = sc_arena_array(p->arena, calls + 1u, sizeof *begin),
             *end = sc_arena_array(p->arena, calls + 1u, sizeof *end),
             *final_call = sc_arena_array(p->arena, image->func_count, sizeof *final_call);
    slot_use *uses = sc_arena_array(p->arena, image->buffer_count, sizeof *uses);
    bool *is_called = sc_arena_array(p->arena, image->func_count, sizeof *is_called);
    for (uint32_t b = 0; b < image->buffer_count; b++)
        uses[b].first = SC_NONE;
    begin[calls] = SC_NONE;
    for (uint32_t c = calls; c-- > 0;) {
        uint32_t start = p->starts[p->calls[c]];
        begin[c] = start < begin[c + 1] ? start : begin[c + 1];
    }
    for (uint32_t c = 0; c < calls; c++) {
        end[c] = p->ends[p->calls[c]];
        end[c] = c > 0 && end[c - 1] > end[c] ? end[c - 1] : end[c];
        final_call[p->calls[c]] = c;
    }
    for (uint32_t c = 0; c < calls; c++) {
        uint32_t func = p->calls[c];
        if (!is_called[func] || final_call[func] == c)
            use_slots(p, c, uses);
        is_called[func] = true;
    }
    for (uint32_t b = 0; b < image->buffer_count; b++) {
        if (image->buffers[b].kind == SC_BUFFER_SLOT && uses[b].first != SC_NONE)
            p->lives[b] = (life){.func = p->calls[uses[b].first],
                                 .first = begin[uses[b].first],
                                 .last = end[uses[b].last],
                                 .from = SC_NONE,
                                 .into = SC_NONE};
    }
}

/* ---- wishes ---- */
/* True if the instruction uses the buffer exactly once, with this access. */
static bool has_once(const planning *p, const sc_image_instr *instr, uint32_t buffer,
                     sc_image_access access)
{
    uint32_t count = 0;
    bool as_said = true;
    for (uint32_t a = 0; a < instr->arg_count; a++) {
        if (instr->args[a].buffer != buffer)
            continue;
        as_said = as_said && sc_memory_access(p->image, instr, a) == access;
        count++;
    }
    return as_said && count == 1;
}

static int64_t taken_bytes(const sc_image *image, uint32_t buffer)
{
    return image->buffers[buffer].copies * sc_image_buffer_step(&image->buffers[buffer]);
}

static bool grants(const planning *p, const sc_memory_wish *wish)
{
    const sc_image_instr *instr = &p->image->funcs[wish->func].instrs[wish->instr];
    const life *into = &p->lives[wish->into], *from = &p->lives[wish->from];
    uint32_t now = p->starts[wish->func] + 1 + wish->instr;
    if (into->state || from->state || into->from != SC_NONE || from->into != SC_NONE ||
        wish->into == wish->from)
        return false;
    if (into->func != wish->func || from->func != wish->func || into->first != now ||
        from->last != now || from->first == now)
        return false;
    if (!has_once(p, instr, wish->into, SC_ACCESS_OUT) ||
        !has_once(p, instr, wish->from, SC_ACCESS_IN))
        return false;
    const sc_image_buffer *a = &p->image->buffers[wish->into], *b = &p->image->buffers[wish->from];
    return a->bytes == b->bytes && a->host == b->host;
}

static uint32_t grant_wishes(planning *p)
{
    uint32_t granted = 0;
    for (uint32_t w = 0; w < p->wish_count; w++) {
        const sc_memory_wish *wish = &p->wishes[w];
        if (!grants(p, wish))
            continue;
        p->lives[wish->into].from = wish->from;
        p->lives[wish->from].into = wish->into;
        granted++;
    }
    return granted;
}

/* ---- offsets ---- */
/* Places states at the bottom of their arena, in order. */
static int64_t place_states(const planning *p, bool host)
{
    int64_t at = 0;
    for (uint32_t b = 0; b < p->image->buffer_count; b++) {
        if (!p->lives[b].state || p->image->buffers[b].host != host)
            continue;
        p->image->buffers[b].offset = at;
        at += taken_bytes(p->image, b);
    }
    return at;
}

typedef struct place_list {
    sc_memory_item *items;
    uint32_t *heads, count; /* heads: the first buffer of each place */
} place_list;

static place_list collect_items(const planning *p, bool host)
{
    place_list out = {.items = sc_arena_array(p->arena, p->image->buffer_count, sizeof *out.items),
                      .heads = sc_arena_array(p->arena, p->image->buffer_count, sizeof *out.heads)};
    for (uint32_t b = 0; b < p->image->buffer_count; b++) {
        const life *first = &p->lives[b], *last = first;
        if (first->state || first->func == SC_NONE || first->from != SC_NONE ||
            p->image->buffers[b].bytes == 0 || p->image->buffers[b].host != host)
            continue;
        while (last->into != SC_NONE)
            last = &p->lives[last->into];
        out.heads[out.count] = b;
        out.items[out.count++] = (sc_memory_item){
            .first = first->first, .last = last->last, .bytes = taken_bytes(p->image, b)};
    }
    return out;
}

/* Unused buffers are at offset 0; the arena is still as large as the largest of them. */
static void place_items(planning *p, bool host, const place_list *places, int64_t ground,
                        int64_t height)
{
    sc_image *image = p->image;
    int64_t *arena = host ? &image->host_bytes : &image->arena_bytes;
    *arena = ground + height;
    for (uint32_t b = 0; b < image->buffer_count; b++) {
        if (p->lives[b].state || image->buffers[b].host != host)
            continue;
        image->buffers[b].offset = 0;
        if (p->lives[b].func == SC_NONE && taken_bytes(image, b) > *arena)
            *arena = taken_bytes(image, b);
    }
    for (uint32_t i = 0; i < places->count; i++) {
        for (uint32_t b = places->heads[i]; b != SC_NONE; b = p->lives[b].into)
            image->buffers[b].offset = ground + places->items[i].offset;
    }
}

/* ---- the report ---- */
typedef struct live_buffer {
    int64_t bytes;
    uint32_t buffer;
} live_buffer;

static int compare_live(const void *left, const void *right)
{
    const live_buffer *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->buffer < b->buffer ? -1 : 1;
}

/* The buffer that occupies a shared place at a time; at the instruction that passes it on, the
 * earlier one. */
static uint32_t occupant(const planning *p, uint32_t head, uint32_t when)
{
    while (p->lives[head].last < when)
        head = p->lives[head].into;
    return head;
}

static void report(const planning *p, const place_list *places, uint32_t when, sc_memory_plan *out)
{
    const sc_image *image = p->image;
    live_buffer *live = sc_arena_array(p->arena, places->count, sizeof *live);
    for (uint32_t b = 0; b < image->buffer_count; b++)
        out->kinds[image->buffers[b].kind] +=
            p->lives[b].state && !image->buffers[b].host ? taken_bytes(image, b) : 0;
    for (uint32_t i = 0; i < places->count; i++) {
        if (places->items[i].first > when || places->items[i].last < when)
            continue;
        uint32_t buffer = occupant(p, places->heads[i], when);
        live[out->live_count++] = (live_buffer){places->items[i].bytes, buffer};
        out->kinds[image->buffers[buffer].kind] += places->items[i].bytes;
    }
    qsort(live, out->live_count, sizeof *live, compare_live);
    out->live = sc_arena_array(p->arena, out->live_count, sizeof *out->live);
    for (uint32_t i = 0; i < out->live_count; i++)
        out->live[i] = live[i].buffer;
    out->func = out->instr = SC_NONE;
    if (out->live_count == 0)
        return;
    for (uint32_t f = 0; f < image->func_count; f++) {
        if (when < p->starts[f] || when > p->ends[f])
            continue;
        out->func = f;
        if (when > p->starts[f])
            out->instr =
                when < p->ends[f] ? when - p->starts[f] - 1 : image->funcs[f].instr_count - 1;
    }
}

/* ---- interface ---- */
static const char *check_sizes(sc_arena *arena, const sc_image *image)
{
    const int64_t most = (int64_t)1 << 62;
    int64_t left = most, moments = (int64_t)1 << 30;
    for (uint32_t b = 0; b < image->buffer_count; b++) {
        assert(image->buffers[b].bytes >= 0);
        if (image->buffers[b].bytes >
            (left - SC_IMAGE_ALIGN) / image->buffers[b].copies - SC_IMAGE_ALIGN)
            return sc_arena_printf(arena, "buffers of more than %lld bytes", (long long)most);
        left -= taken_bytes(image, b);
    }
    for (uint32_t f = 0; f < image->func_count; f++)
        moments -= (int64_t)image->funcs[f].instr_count + 2;
    return moments < 0 ? "more than 2^30 instructions" : NULL;
}

static void begin(planning *p)
{
    const sc_image *image = p->image;
    p->lives = sc_arena_array(p->arena, image->buffer_count, sizeof *p->lives);
    p->starts = sc_arena_array(p->arena, image->func_count, sizeof *p->starts);
    p->ends = sc_arena_array(p->arena, image->func_count, sizeof *p->ends);
    p->survive_from = sc_arena_array(p->arena, image->func_count, sizeof *p->survive_from);
    p->end_of = sc_arena_array(p->arena, image->func_count, sizeof *p->end_of);
    for (uint32_t b = 0; b < image->buffer_count; b++)
        p->lives[b] = (life){.func = SC_NONE,
                             .from = SC_NONE,
                             .into = SC_NONE,
                             .state = image->buffers[b].kind < SC_BUFFER_SLOT};
    for (uint32_t s = 0; s < image->state_count; s++)
        p->lives[image->states[s].buffer].state = true;
}

static void place_host(planning *p)
{
    uint32_t when = 0;
    int64_t ground = place_states(p, true);
    place_list places = collect_items(p, true);
    int64_t bound = sc_memory_bound(p->arena, places.items, places.count, p->times, &when);
    int64_t height = sc_memory_pack(p->arena, places.items, places.count, p->times, bound);
    place_items(p, true, &places, ground, height);
}

const char *sc_memory_plan_make(sc_arena *arena, sc_image *image, const sc_memory_wish *wishes,
                                uint32_t wish_count, sc_memory_plan *out)
{
    planning p = {.arena = arena,
                  .image = image,
                  .wishes = wishes,
                  .wish_count = wish_count,
                  .error = check_sizes(arena, image)};
    uint32_t when = 0;
    if (p.error != NULL)
        return p.error;
    begin(&p);
    find_calls(&p);
    make_axis(&p);
    find_slots(&p);
    for (uint32_t f = 0; f < image->func_count; f++)
        find_lives(&p, f);
    if (p.error != NULL)
        return p.error;
    *out = (sc_memory_plan){.in_place = grant_wishes(&p), .state_bytes = place_states(&p, false)};
    place_host(&p);
    place_list places = collect_items(&p, false);
    int64_t bound = sc_memory_bound(arena, places.items, places.count, p.times, &when);
    int64_t height = sc_memory_pack(arena, places.items, places.count, p.times, bound);
    place_items(&p, false, &places, out->state_bytes, height);
    out->arena_bytes = image->arena_bytes;
    out->live_bytes = out->state_bytes + bound;
    report(&p, &places, when, out);
    return NULL;
}
