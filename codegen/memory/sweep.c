/* Packing by a sweep over time, like an allocator: items are allocated and freed in order, each in
 * the narrowest hole that fits. Holes are in lists by size class (the two levels of Masmano et al.,
 * "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004) and linked to their
 * neighbours, so an allocation or release takes constant time. */
#include "codegen/memory/pack.h"
#include "support/none.h"

#include <stdbool.h>

enum {
    SUBCLASSES = 16,
    CLASSES = SC_MEMORY_SIZE_CLASSES,
    LOOKS = 16 /* holes examined per class */
};

/* A range of the arena, used or a hole; `below` and `above` are its neighbours by address. Holes
 * are also in the list of their size class. */
typedef struct block {
    int64_t offset, bytes;
    uint32_t below, above; /* SC_NONE at the ends */
    uint32_t previous, next;
    bool hole;
} block;

typedef struct space {
    block *blocks;
    uint32_t count, unused; /* unused: free list of blocks, linked by `next` */
    uint32_t holes[CLASSES];
    uint64_t filled[CLASSES / 64]; /* bit set of classes with holes */
    uint32_t highest;
    int64_t top;
} space;

uint32_t sc_memory_size_class(int64_t bytes)
{
    uint64_t size = (uint64_t)bytes;
    if (size < SUBCLASSES)
        return (uint32_t)size;
    uint32_t exponent = 63 - (uint32_t)__builtin_clzll(size);
    return (exponent - 3) * SUBCLASSES + (uint32_t)(size >> (exponent - 4) & (SUBCLASSES - 1));
}

static void add_hole(space *s, uint32_t at)
{
    block *b = &s->blocks[at];
    uint32_t class = sc_memory_size_class(b->bytes);
    b->hole = true;
    b->previous = SC_NONE;
    b->next = s->holes[class];
    if (b->next != SC_NONE)
        s->blocks[b->next].previous = at;
    s->holes[class] = at;
    s->filled[class / 64] |= (uint64_t)1 << class % 64;
}

static void remove_hole(space *s, uint32_t at)
{
    block *b = &s->blocks[at];
    uint32_t class = sc_memory_size_class(b->bytes);
    if (b->previous != SC_NONE)
        s->blocks[b->previous].next = b->next;
    else
        s->holes[class] = b->next;
    if (b->next != SC_NONE)
        s->blocks[b->next].previous = b->previous;
    if (s->holes[class] == SC_NONE)
        s->filled[class / 64] &= ~((uint64_t)1 << class % 64);
    b->hole = false;
}

static uint32_t new_block(space *s, block value)
{
    uint32_t at = s->unused;
    if (at != SC_NONE)
        s->unused = s->blocks[at].next;
    else
        at = s->count++;
    s->blocks[at] = value;
    return at;
}

/* The narrowest hole that fits: the best of the first few of its own class, else any of the next
 * non-empty class. */
static uint32_t narrow_hole(const space *s, int64_t bytes)
{
    uint32_t class = sc_memory_size_class(bytes), best = SC_NONE, looks = 0;
    for (uint32_t at = s->holes[class]; at != SC_NONE && looks < LOOKS;
         at = s->blocks[at].next, looks++) {
        if (s->blocks[at].bytes >= bytes &&
            (best == SC_NONE || s->blocks[at].bytes < s->blocks[best].bytes))
            best = at;
    }
    if (best != SC_NONE || ++class == CLASSES)
        return best;
    uint64_t word = s->filled[class / 64] & ~(uint64_t)0 << class % 64;
    for (uint32_t w = class / 64;; word = s->filled[w]) {
        if (word != 0)
            return s->holes[w * 64 + (uint32_t)__builtin_ctzll(word)];
        if (++w == CLASSES / 64)
            return SC_NONE;
    }
}

/* Allocates a block: the low end of a hole, or new space at the top. */
static uint32_t take_space(space *s, int64_t bytes)
{
    uint32_t at = narrow_hole(s, bytes);
    if (at == SC_NONE) {
        if (s->highest != SC_NONE && s->blocks[s->highest].hole) { /* grow the hole at the top */
            at = s->highest;
            remove_hole(s, at);
            s->top = s->blocks[at].offset + bytes;
            s->blocks[at].bytes = bytes;
            return at;
        }
        at = new_block(
            s, (block){.offset = s->top, .bytes = bytes, .below = s->highest, .above = SC_NONE});
        if (s->highest != SC_NONE)
            s->blocks[s->highest].above = at;
        s->highest = at;
        s->top += bytes;
        return at;
    }
    remove_hole(s, at);
    int64_t room = s->blocks[at].bytes, offset = s->blocks[at].offset;
    if (room == bytes)
        return at;
    uint32_t left = new_block(s, (block){.offset = offset + bytes,
                                         .bytes = room - bytes,
                                         .below = at,
                                         .above = s->blocks[at].above});
    if (s->blocks[left].above != SC_NONE)
        s->blocks[s->blocks[left].above].below = left;
    else
        s->highest = left;
    s->blocks[at].above = left;
    s->blocks[at].bytes = bytes;
    add_hole(s, left);
    return at;
}

/* Merges `from`, the neighbour above, into `into`. */
static void join(space *s, uint32_t into, uint32_t from)
{
    s->blocks[into].bytes += s->blocks[from].bytes;
    s->blocks[into].above = s->blocks[from].above;
    if (s->blocks[from].above != SC_NONE)
        s->blocks[s->blocks[from].above].below = into;
    else
        s->highest = into;
    s->blocks[from].next = s->unused;
    s->unused = from;
}

static void give_space(space *s, uint32_t at)
{
    uint32_t below = s->blocks[at].below, above = s->blocks[at].above;
    if (above != SC_NONE && s->blocks[above].hole) {
        remove_hole(s, above);
        join(s, at, above);
    }
    if (below != SC_NONE && s->blocks[below].hole) {
        remove_hole(s, below);
        join(s, below, at);
        at = below;
    }
    add_hole(s, at);
}

/* Sorts items by their first or last time. */
static void sort_by_time(const sc_memory_item *items, uint32_t count, uint32_t times, bool by_last,
                         uint32_t *starts, uint32_t *sorted)
{
    for (uint32_t t = 0; t <= times; t++)
        starts[t] = 0;
    for (uint32_t i = 0; i < count; i++)
        starts[(by_last ? items[i].last : items[i].first) + 1]++;
    for (uint32_t t = 0; t < times; t++)
        starts[t + 1] += starts[t];
    for (uint32_t i = 0; i < count; i++)
        sorted[starts[by_last ? items[i].last : items[i].first]++] = i;
}

int64_t sc_memory_sweep(sc_arena *arena, const sc_memory_item *items, uint32_t count,
                        uint32_t times, bool backwards, int64_t *offsets)
{
    space s = {.blocks = sc_arena_array(arena, count, sizeof *s.blocks),
               .unused = SC_NONE,
               .highest = SC_NONE};
    uint32_t *starts = sc_arena_array(arena, (size_t)times + 1, sizeof *starts),
             *blocks = sc_arena_array(arena, count, sizeof *blocks);
    uint32_t *come = sc_arena_array(arena, count, sizeof *come),
             *go = sc_arena_array(arena, count, sizeof *go);
    for (uint32_t c = 0; c < CLASSES; c++)
        s.holes[c] = SC_NONE;
    sort_by_time(items, count, times, backwards, starts, come);
    sort_by_time(items, count, times, !backwards, starts, go);
    for (uint32_t i = 0, gone = 0; i < count; i++) {
        uint32_t item = come[backwards ? count - 1 - i : i];
        for (;; gone++) {
            uint32_t other = go[backwards ? count - 1 - gone : gone];
            if (backwards ? items[other].first <= items[item].last
                          : items[other].last >= items[item].first)
                break;
            give_space(&s, blocks[other]);
        }
        blocks[item] = take_space(&s, items[item].bytes);
        offsets[item] = s.blocks[blocks[item]].offset;
    }
    return s.top;
}
