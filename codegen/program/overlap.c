/* Reorders instruction lists so that collectives overlap computation; the rules are in overlap.h.
 */
#include "codegen/program/overlap.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

typedef struct item {
    const sc_image_instr *instr, *finish; /* finish: the FINISH of a collective */
    uint32_t before;                      /* of a collective: the item that followed its FINISH */
    uint32_t at;                          /* the item that it moves behind; SC_NONE: it stays */
    uint32_t next;                        /* the next item that moves behind the same one */
    uint32_t group;                       /* the last group that it was in; counted from 1 */
} item;

typedef struct overlapping {
    sc_arena *arena;
    const sc_image *image;
    const sc_image_func *func;
    item *items;
    uint32_t count;
    uint32_t *item_of;               /* by instruction: its item; for a FINISH the next item */
    uint32_t *touch_start, *touches; /* by buffer: the items that use it, in order */
    bool *is_state, *is_outside;     /* by buffer; outside: an input or output */
    uint32_t *wish_from;             /* by item: the buffers of its wish: to reuse, and to write */
    uint32_t *wish_into;
    int64_t *live, peak;                    /* live bytes by position; original peak */
    int64_t limit;                          /* for live bytes after a move */
    uint32_t *members, member_count, group; /* of the current collective */
} overlapping;

/* Bytes that the buffer takes of the device arena while it is live. */
static int64_t bytes_of(const overlapping *o, uint32_t buffer)
{
    return o->is_state[buffer] || o->image->buffers[buffer].host
               ? 0
               : (o->image->buffers[buffer].bytes + SC_IMAGE_ALIGN - 1) / SC_IMAGE_ALIGN *
                     SC_IMAGE_ALIGN;
}

static bool is_collective(const overlapping *o, uint32_t index)
{
    sc_image_instr_kind kind = o->items[index].instr->kind;
    return kind == SC_INSTR_COLLECTIVE || kind == SC_INSTR_TRANSFER;
}

static bool writes(const overlapping *o, uint32_t index, uint32_t buffer)
{
    const sc_image_instr *instr = o->items[index].instr;
    for (uint32_t a = 0; a < instr->arg_count; a++) {
        if (instr->args[a].buffer == buffer && sc_memory_access(o->image, instr, a) != SC_ACCESS_IN)
            return true;
    }
    return false;
}

/* ---- the original list ---- */
static void list_items(overlapping *o)
{
    const sc_image_func *func = o->func;
    o->items = sc_arena_array(o->arena, func->instr_count, sizeof *o->items);
    o->item_of = sc_arena_array(o->arena, func->instr_count, sizeof *o->item_of);
    for (uint32_t i = 0; i < func->instr_count; i++) {
        const sc_image_instr *instr = &func->instrs[i];
        o->item_of[i] = o->count;
        if (instr->kind == SC_INSTR_FINISH) {
            o->items[o->item_of[instr->index]].finish = instr;
            o->items[o->item_of[instr->index]].before = o->count;
        } else {
            o->items[o->count++] =
                (item){.instr = instr, .before = SC_NONE, .at = SC_NONE, .next = SC_NONE};
        }
    }
}

static void list_touches(overlapping *o)
{
    uint32_t *start = o->touch_start =
                 sc_arena_array(o->arena, (size_t)o->image->buffer_count + 2, sizeof *start),
             total = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        for (uint32_t a = 0; a < o->items[i].instr->arg_count; a++, total++)
            start[o->items[i].instr->args[a].buffer + 2]++;
    }
    for (uint32_t b = 0; b < o->image->buffer_count; b++)
        start[b + 2] += start[b + 1];
    o->touches = sc_arena_array(o->arena, total, sizeof *o->touches);
    for (uint32_t i = 0; i < o->count; i++) {
        for (uint32_t a = 0; a < o->items[i].instr->arg_count; a++)
            o->touches[start[o->items[i].instr->args[a].buffer + 1]++] = i;
    }
}

static void list_buffers(overlapping *o)
{
    const sc_image *image = o->image;
    o->is_state = sc_arena_array(o->arena, image->buffer_count, sizeof *o->is_state);
    o->is_outside = sc_arena_array(o->arena, image->buffer_count, sizeof *o->is_outside);
    for (uint32_t b = 0; b < image->buffer_count; b++)
        o->is_state[b] = image->buffers[b].kind < SC_BUFFER_ACT;
    for (uint32_t s = 0; s < image->state_count; s++)
        o->is_state[image->states[s].buffer] = true;
    for (uint32_t i = 0; i < o->func->input_count; i++)
        o->is_outside[o->func->inputs[i].buffer] = true;
    for (uint32_t i = 0; i < o->func->output_count; i++)
        o->is_outside[o->func->outputs[i].buffer] = true;
}

static bool has_once(const sc_image_instr *instr, uint32_t buffer)
{
    uint32_t count = 0;
    for (uint32_t a = 0; a < instr->arg_count; a++)
        count += instr->args[a].buffer == buffer;
    return count == 1;
}

/* Considers only the first wish of an item that can be granted. */
static void list_wishes(overlapping *o, uint32_t func, const sc_memory_wish *wishes, uint32_t count)
{
    o->wish_from = sc_arena_array(o->arena, o->count, sizeof *o->wish_from);
    o->wish_into = sc_arena_array(o->arena, o->count, sizeof *o->wish_into);
    for (uint32_t i = 0; i < o->count; i++)
        o->wish_from[i] = o->wish_into[i] = SC_NONE;
    for (uint32_t w = count; w-- > 0;) {
        const sc_memory_wish *wish = &wishes[w];
        if (wish->func != func)
            continue;
        uint32_t index = o->item_of[wish->instr];
        const sc_image_instr *instr = o->items[index].instr;
        if (!has_once(instr, wish->from) || !has_once(instr, wish->into) ||
            bytes_of(o, wish->from) != bytes_of(o, wish->into))
            continue;
        o->wish_from[index] = wish->from;
        o->wish_into[index] = wish->into;
    }
}

/* ---- live ranges ---- */
typedef struct life {
    uint32_t first, last; /* first > last: never live */
    bool is_held;         /* beyond `last`, until a later FINISH or the end */
} life;

/* Live ranges of buffers other than states, by position in `order`. `waits`: buffers of collectives
 * live until the original position of their FINISH. */
static life *find_lives(const overlapping *o, const uint32_t *order, bool waits)
{
    life *lives = sc_arena_array(o->arena, o->image->buffer_count, sizeof *lives);
    for (uint32_t b = 0; b < o->image->buffer_count; b++)
        lives[b] = (life){.first = SC_NONE};
    for (uint32_t at = 0; at < o->count; at++) {
        const item *one = &o->items[order[at]];
        bool held = waits && one->before != SC_NONE && one->before > at;
        for (uint32_t a = 0; a < one->instr->arg_count; a++) {
            life *of = &lives[one->instr->args[a].buffer];
            uint32_t last = held ? one->before - 1 : at;
            of->is_held = last > of->last ? held : of->is_held || (held && last == of->last);
            of->first = at < of->first ? at : of->first;
            of->last = last > of->last ? last : of->last;
        }
    }
    for (uint32_t i = 0; i < o->func->input_count; i++) {
        life *of = &lives[o->func->inputs[i].buffer];
        of->first = of->first == SC_NONE ? SC_NONE : 0;
    }
    if (o->count == 0)
        return lives;
    for (uint32_t i = 0; i < o->func->output_count; i++) {
        life *of = &lives[o->func->outputs[i].buffer];
        *of = (life){of->first, o->count - 1, true};
    }
    return lives;
}

/* Live bytes by position in the order; a buffer written in place of another starts after it. */
static int64_t *find_live(const overlapping *o, const uint32_t *order, const life *lives)
{
    int64_t *live = sc_arena_array(o->arena, (size_t)o->count + 2, sizeof *live);
    for (uint32_t b = 0; b < o->image->buffer_count; b++) {
        if (lives[b].first > lives[b].last)
            continue;
        live[lives[b].first] += bytes_of(o, b);
        live[lives[b].last + 1] -= bytes_of(o, b);
    }
    for (uint32_t at = 0; at < o->count; at++) {
        uint32_t into = o->wish_into[order[at]], from = o->wish_from[order[at]];
        if (into == SC_NONE || lives[into].first != at || lives[from].last != at ||
            lives[from].first == at || lives[from].is_held)
            continue;
        live[at] -= bytes_of(o, into);
        live[at + 1] += bytes_of(o, into);
    }
    for (uint32_t at = 1; at <= o->count; at++)
        live[at] += live[at - 1];
    return live;
}

/* Measures the original list. */
static void measure(overlapping *o)
{
    uint32_t *order = sc_arena_array(o->arena, o->count, sizeof *order);
    for (uint32_t i = 0; i < o->count; i++)
        order[i] = i;
    o->live = find_live(o, order, find_lives(o, order, true));
    for (uint32_t i = 0; i < o->count; i++)
        o->peak = o->live[i] > o->peak ? o->live[i] : o->peak;
}

static int64_t share_of(const overlapping *o, uint32_t share)
{
    return o->peak / SC_OVERLAP_ALL * share + o->peak % SC_OVERLAP_ALL * share / SC_OVERLAP_ALL;
}

/* ---- starts ---- */
/* The end of the buffer's touches before the item, as an index into o->touches. */
static uint32_t touches_before(const overlapping *o, uint32_t buffer, uint32_t index)
{
    uint32_t low = o->touch_start[buffer], high = o->touch_start[buffer + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (o->touches[middle] < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* True if only the group uses what the item writes. */
static bool prepares(const overlapping *o, uint32_t index)
{
    const item *one = &o->items[index];
    if (one->at != SC_NONE ||
        (one->instr->kind != SC_INSTR_KERNEL && one->instr->kind != SC_INSTR_COPY))
        return false;
    for (uint32_t a = 0; a < one->instr->arg_count; a++) {
        uint32_t buffer = one->instr->args[a].buffer;
        if (sc_memory_access(o->image, one->instr, a) == SC_ACCESS_IN)
            continue;
        if (o->is_state[buffer] || o->is_outside[buffer])
            return false;
        for (uint32_t t = o->touch_start[buffer]; t < o->touch_start[buffer + 1]; t++) {
            if (o->touches[t] != index && o->items[o->touches[t]].group != o->group)
                return false;
        }
    }
    return true;
}

typedef struct reason {
    uint32_t behind; /* the item that it must stay behind; SC_NONE: none */
    bool waits;      /* that item is a collective */
} reason;

static void stay_behind(overlapping *o, uint32_t index, reason *out)
{
    uint32_t at = o->items[index].at != SC_NONE ? o->items[index].at : index;
    if (o->items[index].group == o->group)
        return;
    if (prepares(o, index)) {
        o->items[index].group = o->group;
        o->members[o->member_count++] = index;
        return;
    }
    out->behind = out->behind == SC_NONE || at > out->behind ? at : out->behind;
    out->waits = out->waits || is_collective(o, index);
}

/* Collects the items that move with a collective in o->members, the collective first, and finds
 * what they depend on: the last writer of each operand and, for what is written, also the readers
 * since. */
static reason gather_group(overlapping *o, uint32_t collective)
{
    reason found = {.behind = SC_NONE};
    o->items[collective].group = ++o->group;
    o->members[0] = collective;
    o->member_count = 1;
    for (uint32_t m = 0; m < o->member_count; m++) {
        const sc_image_instr *instr = o->items[o->members[m]].instr;
        for (uint32_t a = 0; a < instr->arg_count; a++) {
            uint32_t buffer = instr->args[a].buffer, t = touches_before(o, buffer, o->members[m]);
            bool is_read = sc_memory_access(o->image, instr, a) == SC_ACCESS_IN, is_written = false;
            while (t-- > o->touch_start[buffer] && !is_written) {
                is_written = writes(o, o->touches[t], buffer);
                if (!is_read || is_written)
                    stay_behind(o, o->touches[t], &found);
            }
        }
    }
    return found;
}

/* Adds (sign) the bytes that the group writes to the live bytes up to the collective, from where
 * each buffer begins, or from `first`. */
static void count_group(overlapping *o, uint32_t first, int64_t sign)
{
    uint32_t end = o->members[0];
    for (uint32_t m = 0; m < o->member_count; m++) {
        const sc_image_instr *instr = o->items[o->members[m]].instr;
        for (uint32_t a = 0; a < instr->arg_count; a++) {
            uint32_t buffer = instr->args[a].buffer;
            bool is_born = sc_memory_access(o->image, instr, a) == SC_ACCESS_OUT &&
                           o->touches[o->touch_start[buffer]] == o->members[m];
            if (is_born) {
                for (uint32_t t = first != SC_NONE ? first : o->members[m]; t < end; t++)
                    o->live[t] += sign * bytes_of(o, buffer);
            }
        }
    }
}

static int64_t group_bytes(const overlapping *o)
{
    int64_t sum = 0;
    for (uint32_t m = 0; m < o->member_count; m++) {
        const sc_image_instr *instr = o->items[o->members[m]].instr;
        for (uint32_t a = 0; a < instr->arg_count; a++) {
            uint32_t buffer = instr->args[a].buffer;
            bool is_born = sc_memory_access(o->image, instr, a) == SC_ACCESS_OUT &&
                           o->touches[o->touch_start[buffer]] == o->members[m];
            sum += is_born ? bytes_of(o, buffer) : 0;
        }
    }
    return sum;
}

/* The position of the next start after `behind`. */
static uint32_t next_start(const overlapping *o, uint32_t behind)
{
    uint32_t next = SC_NONE;
    for (uint32_t i = 0; i < o->count; i++) {
        if (is_collective(o, i) && o->items[i].at != SC_NONE && o->items[i].at > behind &&
            o->items[i].at < next)
            next = o->items[i].at;
    }
    return next;
}

/* Moves the group up as far as memory allows, as a whole or not at all. */
static void move_up(overlapping *o, uint32_t behind)
{
    uint32_t end = o->members[0], first = end, at = end;
    for (uint32_t m = 1; m < o->member_count; m++)
        first = o->members[m] < first ? o->members[m] : first;
    int64_t room = o->limit - group_bytes(o);
    count_group(o, SC_NONE, -1);
    while (at > behind + 1 && o->live[at - 1] <= room)
        at--;
    bool moves = at > 0 && at <= first && at < end;
    count_group(o, moves ? at : SC_NONE, 1);
    if (moves) {
        for (uint32_t m = 0; m < o->member_count; m++)
            o->items[o->members[m]].at = at - 1;
    }
}

static void find_starts(overlapping *o)
{
    o->members = sc_arena_array(o->arena, o->count, sizeof *o->members);
    for (int waiting = 0; waiting < 2; waiting++) {
        for (uint32_t i = 0; i < o->count; i++) {
            if (!is_collective(o, i) || o->items[i].at != SC_NONE)
                continue;
            reason found = gather_group(o, i);
            if (found.behind == SC_NONE || found.waits != (waiting == 1))
                continue;
            uint32_t behind = found.waits ? next_start(o, found.behind) : found.behind;
            if (behind < i)
                move_up(o, behind);
        }
    }
}

static uint32_t *new_order(overlapping *o)
{
    uint32_t *order = sc_arena_array(o->arena, o->count, sizeof *order), count = 0;
    uint32_t *heads = sc_arena_array(o->arena, o->count, sizeof *heads);
    for (uint32_t i = 0; i < o->count; i++)
        heads[i] = SC_NONE;
    for (uint32_t i = o->count; i-- > 0;) {
        if (o->items[i].at == SC_NONE)
            continue;
        o->items[i].next = heads[o->items[i].at];
        heads[o->items[i].at] = i;
    }
    for (uint32_t i = 0; i < o->count; i++) {
        if (o->items[i].at == SC_NONE)
            order[count++] = i;
        for (uint32_t moved = heads[i]; moved != SC_NONE; moved = o->items[moved].next)
            order[count++] = moved;
    }
    return order;
}

/* ---- waits ---- */
typedef struct started {
    uint32_t item, instr; /* instr: index in the new list */
    uint32_t due;         /* position in the order of the original wait */
} started;

typedef struct writing {
    overlapping *o;
    const life *lives;
    started in_flight[SC_OVERLAP_IN_FLIGHT]; /* oldest first */
    uint32_t in_flight_count;
    uint32_t *taken, *brought; /* by buffer: counts of in-flight readers, writers */
    sc_image_instr *instrs;
    uint32_t count;
    uint32_t *place; /* by item: index of its instruction */
    uint32_t *due;   /* by item, and at the end: the position after all that stayed before it */
} writing;

static void mark(writing *w, uint32_t index, uint32_t by)
{
    const sc_image_instr *instr = w->o->items[index].instr;
    for (uint32_t a = 0; a < instr->arg_count; a++) {
        bool reads = sc_memory_access(w->o->image, instr, a) == SC_ACCESS_IN;
        uint32_t *marks = reads ? w->taken : w->brought;
        marks[instr->args[a].buffer] += by;
    }
}

static void finish(writing *w, uint32_t which)
{
    const started *one = &w->in_flight[which];
    sc_image_instr *instr = &w->instrs[w->count++];
    assert(w->o->items[one->item].finish != NULL);
    *instr = *w->o->items[one->item].finish;
    instr->index = one->instr;
    mark(w, one->item, (uint32_t)-1);
    memmove(&w->in_flight[which], &w->in_flight[which + 1],
            (--w->in_flight_count - which) * sizeof *w->in_flight);
}

/* Waits for collectives that use the buffer; if it is only read, for those that write it. `at`:
 * only for those originally waited for before it. `by`: what uses the buffer then; transfers run in
 * order and do not wait for one another. */
static void finish_for(writing *w, const sc_image_instr *by, uint32_t buffer, bool is_written,
                       uint32_t at)
{
    for (uint32_t f = 0; f < w->in_flight_count &&
                         (w->brought[buffer] > 0 || (is_written && w->taken[buffer] > 0));) {
        const sc_image_instr *instr = w->o->items[w->in_flight[f].item].instr;
        bool has = false, in_order = by->kind == SC_INSTR_TRANSFER && instr->kind == by->kind;
        for (uint32_t a = 0; a < instr->arg_count; a++)
            has = has || (instr->args[a].buffer == buffer &&
                          (is_written || sc_memory_access(w->o->image, instr, a) != SC_ACCESS_IN));
        if (has && !in_order && w->in_flight[f].due <= at)
            finish(w, f);
        else
            f++;
    }
}

/* Bytes of buffers that are live only because the collective uses them. */
static int64_t held_by(const writing *w, const started *one, uint32_t at)
{
    const sc_image_instr *instr = w->o->items[one->item].instr;
    int64_t sum = 0;
    for (uint32_t a = 0; a < instr->arg_count; a++)
        sum +=
            w->lives[instr->args[a].buffer].last < at ? bytes_of(w->o, instr->args[a].buffer) : 0;
    return sum;
}

/* Frees memory by waiting, but never earlier than in the original list. */
static void make_room(writing *w, uint32_t at, uint32_t index)
{
    uint32_t from = w->o->wish_from[index];
    int64_t sum = w->o->live[at];
    /* the wish is not granted in this case */
    if (from != SC_NONE && w->taken[from] + w->brought[from] > 0)
        sum += bytes_of(w->o, from);
    for (uint32_t f = 0; f < w->in_flight_count; f++)
        sum += held_by(w, &w->in_flight[f], at);
    for (uint32_t f = 0; f < w->in_flight_count && sum > w->o->limit;) {
        int64_t held = held_by(w, &w->in_flight[f], at);
        if (held > 0 && w->in_flight[f].due <= at) {
            sum -= held;
            finish(w, f);
        } else {
            f++;
        }
    }
}

static void write_item(writing *w, uint32_t at, uint32_t index)
{
    overlapping *o = w->o;
    const sc_image_instr *instr = o->items[index].instr;
    for (uint32_t a = 0; a < instr->arg_count; a++)
        finish_for(w, instr, instr->args[a].buffer,
                   sc_memory_access(o->image, instr, a) != SC_ACCESS_IN, SC_NONE);
    if (o->wish_from[index] != SC_NONE) /* its place will be written, as in the original list */
        finish_for(w, instr, o->wish_from[index], true, at);
    if (is_collective(o, index) && w->in_flight_count == SC_OVERLAP_IN_FLIGHT)
        finish(w, 0);
    make_room(w, at, index);
    w->place[index] = w->count;
    w->instrs[w->count++] = *instr;
    if (!is_collective(o, index))
        return;
    w->in_flight[w->in_flight_count++] =
        (started){index, w->count - 1, w->due[o->items[index].before]};
    mark(w, index, 1);
}

static void write_list(overlapping *o, sc_image_func *out, const uint32_t *order, uint32_t *place)
{
    writing w = {.o = o, .lives = find_lives(o, order, false), .place = place};
    o->live = find_live(o, order, w.lives);
    w.taken = sc_arena_array(o->arena, o->image->buffer_count, sizeof *w.taken);
    w.brought = sc_arena_array(o->arena, o->image->buffer_count, sizeof *w.brought);
    w.instrs = sc_arena_array(o->arena, o->func->instr_count, sizeof *w.instrs);
    w.due = sc_arena_array(o->arena, (size_t)o->count + 1, sizeof *w.due);
    for (uint32_t at = 0; at < o->count; at++)
        w.due[order[at] + 1] = o->items[order[at]].at == SC_NONE ? at + 1 : 0;
    for (uint32_t i = 0; i < o->count; i++)
        w.due[i + 1] = w.due[i + 1] > 0 ? w.due[i + 1] : w.due[i];
    for (uint32_t at = 0; at < o->count; at++)
        write_item(&w, at, order[at]);
    while (w.in_flight_count > 0)
        finish(&w, 0);
    out->instrs = w.instrs;
}

void sc_overlap(sc_arena *arena, sc_image *image, uint32_t func, const sc_overlap_room *room,
                sc_memory_wish *wishes, uint32_t wish_count)
{
    overlapping o = {.arena = arena, .image = image, .func = &image->funcs[func]};
    bool moves = false;
    for (uint32_t i = 0; i < o.func->instr_count; i++)
        moves = moves || o.func->instrs[i].kind == SC_INSTR_FINISH;
    if (!moves)
        return;
    list_items(&o);
    list_touches(&o);
    list_buffers(&o);
    list_wishes(&o, func, wishes, wish_count);
    measure(&o);
    o.limit = share_of(&o, room->starts);
    find_starts(&o);
    o.limit = share_of(&o, room->waits);
    uint32_t *place = sc_arena_array(arena, o.count, sizeof *place);
    write_list(&o, &image->funcs[func], new_order(&o), place);
    for (uint32_t w = 0; w < wish_count; w++) {
        if (wishes[w].func == func)
            wishes[w].instr = place[o.item_of[wishes[w].instr]];
    }
}
