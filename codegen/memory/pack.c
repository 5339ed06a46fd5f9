/* Packing: dynamic storage allocation, NP-hard (Garey and Johnson, SR2). Programs are mostly easy,
 * as the values of a forward pass nest, and nested live ranges stack without holes.
 *
 * Heuristics from cheap to expensive; the smallest height wins, and one close to the bound ends the
 * search:
 *
 * - Sweep: like an allocator, forwards and backwards in time (sweep.c).
 * - Skyline: longest live ranges first, each on top of all that it overlaps in time. O(log n) per
 *   item, with a tree of heights over time. It stacks what nests, and never fills a hole.
 * - First fit and best fit, in several orders: each item goes to the lowest or the narrowest hole
 *   among the items that it overlaps in time. This examines every item placed before, so only
 *   programs of a few thousand buffers get it.
 * - Improvement: first fit under a ceiling between the bound and the best height. An item that does
 *   not fit moves to the head of the order and all are placed again, some times; then the ceiling
 *   moves, by bisection. ("Squeaky wheel": Joslin and Clements, JAIR 10, 1999.)
 *
 * The expensive ones have a budget of steps, not of seconds: a plan depends on its program only. */
#include "codegen/memory/pack.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 12 << 20 }; /* examined items; about a nanosecond each */
enum { TRIES = 24 };       /* orders tried per ceiling */

typedef struct packing {
    sc_arena *arena;
    sc_memory_item *items; /* offset: in the best packing */
    uint32_t count, times;
    int64_t bound, best; /* best: INT64_MAX before the first packing */
    int64_t steps;       /* remaining budget */
    int64_t *offsets;    /* of the current packing */
    uint32_t *order;
    struct sort_key *keys;
    struct placed *placed;
    struct heights *tree; /* of the skyline */
    uint32_t leaves;
} packing;

/* ---- orders ---- */
typedef struct sort_key {
    double first, second; /* descending; ties by index */
    uint32_t index;
} sort_key;

static int compare_keys(const void *left, const void *right)
{
    const sort_key *a = left, *b = right;
    if (a->first != b->first)
        return a->first > b->first ? -1 : 1;
    if (a->second != b->second)
        return a->second > b->second ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

typedef enum order_kind { BY_LIFETIME, BY_SIZE, BY_AREA, BY_START, ORDERS } order_kind;

static void make_order(packing *p, order_kind kind)
{
    for (uint32_t i = 0; i < p->count; i++) {
        const sc_memory_item *item = &p->items[i];
        double bytes = (double)item->bytes, life = (double)(item->last - item->first) + 1;
        sort_key *key = &p->keys[i];
        key->index = i;
        switch (kind) {
        case BY_LIFETIME:
            key->first = life, key->second = bytes;
            break;
        case BY_SIZE:
            key->first = bytes, key->second = life;
            break;
        case BY_AREA:
            key->first = bytes * life, key->second = life;
            break;
        default:
            key->first = -(double)item->first, key->second = life;
            break;
        }
    }
    qsort(p->keys, p->count, sizeof *p->keys, compare_keys);
    for (uint32_t i = 0; i < p->count; i++)
        p->order[i] = p->keys[i].index;
}

/* Keeps the packing in `offsets` if it is the best so far. */
static void keep(packing *p, int64_t height)
{
    if (height >= p->best)
        return;
    p->best = height;
    for (uint32_t i = 0; i < p->count; i++)
        p->items[i].offset = p->offsets[i];
}

/* ---- skyline ---- */
/* Heights over time, which only grow. A node of the tree covers a range of times: `whole` is a
 * lower bound for all of it, `any` is the maximum in it. */
typedef struct heights {
    int64_t whole, any;
} heights;

static int64_t higher(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t skyline_top(const packing *p, uint32_t first, uint32_t last)
{
    int64_t top = 0;
    uint32_t l = first + p->leaves, r = last + p->leaves + 1;
    for (; l < r; l >>= 1, r >>= 1) {
        if ((l & 1) != 0)
            top = higher(top, p->tree[l++].any);
        if ((r & 1) != 0)
            top = higher(top, p->tree[--r].any);
    }
    for (l = (first + p->leaves) >> 1, r = (last + p->leaves) >> 1; l != r; l >>= 1, r >>= 1)
        top = higher(top, higher(p->tree[l].whole, p->tree[r].whole));
    for (; l > 0; l >>= 1)
        top = higher(top, p->tree[l].whole);
    return top;
}

static void skyline_raise(packing *p, uint32_t first, uint32_t last, int64_t height)
{
    uint32_t l = first + p->leaves, r = last + p->leaves + 1;
    for (; l < r; l >>= 1, r >>= 1) {
        if ((l & 1) != 0)
            p->tree[l++] = (heights){height, height};
        if ((r & 1) != 0)
            p->tree[--r] = (heights){height, height};
    }
    for (l = (first + p->leaves) >> 1, r = (last + p->leaves) >> 1; l != r; l >>= 1, r >>= 1) {
        p->tree[l].any = higher(p->tree[l].any, height);
        p->tree[r].any = higher(p->tree[r].any, height);
    }
    for (; l > 0 && p->tree[l].any < height; l >>= 1)
        p->tree[l].any = height;
}

/* Stable counting sort of `from` into `to`, by descending keys below `limit`. */
static void sort_counting(packing *p, const uint32_t *keys, uint32_t limit, const uint32_t *from,
                          uint32_t *to)
{
    uint32_t *starts = sc_arena_array(p->arena, (size_t)limit + 1, sizeof *starts);
    for (uint32_t i = 0; i < p->count; i++)
        starts[limit - keys[i]]++;
    for (uint32_t k = 0; k < limit; k++)
        starts[k + 1] += starts[k];
    for (uint32_t i = 0; i < p->count; i++)
        to[starts[limit - 1 - keys[from[i]]]++] = from[i];
}

/* Longest live range first, ties by size, largest first. */
static void order_for_skyline(packing *p)
{
    uint32_t *keys = sc_arena_array(p->arena, p->count, sizeof *keys),
             *by_size = sc_arena_array(p->arena, p->count, sizeof *by_size);
    for (uint32_t i = 0; i < p->count; i++) {
        p->order[i] = i;
        keys[i] = sc_memory_size_class(p->items[i].bytes);
    }
    sort_counting(p, keys, SC_MEMORY_SIZE_CLASSES, p->order, by_size);
    for (uint32_t i = 0; i < p->count; i++)
        keys[i] = p->items[i].last - p->items[i].first;
    sort_counting(p, keys, p->times, by_size, p->order);
}

static void pack_skyline(packing *p)
{
    int64_t height = 0;
    order_for_skyline(p);
    for (uint32_t i = 0; i < p->count; i++) {
        const sc_memory_item *item = &p->items[p->order[i]];
        int64_t at = skyline_top(p, item->first, item->last);
        p->offsets[p->order[i]] = at;
        skyline_raise(p, item->first, item->last, at + item->bytes);
        height = higher(height, at + item->bytes);
    }
    keep(p, height);
}

/* ---- first fit, best fit ---- */
/* Placed items, sorted by offset. */
typedef struct placed {
    int64_t offset, end;
    uint32_t first, last;
} placed;

/* The lowest hole or, if `narrowest`, the lowest of the narrowest. */
static int64_t find_hole(packing *p, uint32_t count, const sc_memory_item *item, bool narrowest,
                         uint32_t *out_at)
{
    int64_t top = 0, best = -1, best_room = INT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const placed *other = &p->placed[i];
        if (other->first > item->last || other->last < item->first)
            continue;
        int64_t room = other->offset - top;
        if (room >= item->bytes && room < best_room) {
            best = top;
            best_room = room;
            if (!narrowest) {
                p->steps -= i;
                break;
            }
        }
        top = higher(top, other->end);
    }
    p->steps -= best < 0 || narrowest ? count : 0;
    if (best < 0)
        best = top;
    uint32_t low = 0, high = count; /* binary search for the first at a higher offset */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (p->placed[middle].offset > best)
            high = middle;
        else
            low = middle + 1;
    }
    *out_at = low;
    return best;
}

/* Places items in order until one does not fit under the ceiling; returns how many did. */
static uint32_t pack_fit(packing *p, bool narrowest, int64_t ceiling)
{
    int64_t height = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const sc_memory_item *item = &p->items[p->order[i]];
        uint32_t at = 0;
        int64_t offset = find_hole(p, i, item, narrowest, &at);
        if (offset + item->bytes > ceiling)
            return i;
        memmove(&p->placed[at + 1], &p->placed[at], (i - at) * sizeof *p->placed);
        p->placed[at] = (placed){offset, offset + item->bytes, item->first, item->last};
        p->offsets[p->order[i]] = offset;
        height = higher(height, offset + item->bytes);
    }
    keep(p, height);
    return p->count;
}

static void to_the_head(packing *p, uint32_t at)
{
    uint32_t item = p->order[at];
    memmove(&p->order[1], &p->order[0], at * sizeof *p->order);
    p->order[0] = item;
}

/* Within a thousandth of the bound: further gains are not worth compile time. */
static bool is_good(const packing *p)
{
    return p->best - p->bound <= p->bound / 1024;
}

static bool affords_a_round(const packing *p)
{
    return !is_good(p) && (double)p->count * p->count / 2 <= (double)p->steps;
}

static void improve(packing *p)
{
    int64_t hopeless = p->bound - 1; /* ceilings up to this one have failed */
    for (bool first = true; affords_a_round(p) && p->best - hopeless > 1; first = false) {
        int64_t ceiling = first ? p->bound : hopeless + (p->best - hopeless) / 2;
        make_order(p, BY_AREA);
        uint32_t tries = 0, fit = 0;
        for (; tries < TRIES && p->steps > 0 && fit < p->count; tries++) {
            fit = pack_fit(p, false, ceiling);
            if (fit < p->count)
                to_the_head(p, fit);
        }
        if (fit < p->count)
            hopeless = ceiling;
    }
}

/* ---- interface ---- */
int64_t sc_memory_bound(sc_arena *arena, const sc_memory_item *items, uint32_t count,
                        uint32_t times, uint32_t *out_when)
{
    int64_t *change = sc_arena_array(arena, (size_t)times + 1, sizeof *change), live = 0, most = 0;
    for (uint32_t i = 0; i < count; i++) {
        change[items[i].first] += items[i].bytes;
        change[items[i].last + 1] -= items[i].bytes;
    }
    *out_when = 0;
    for (uint32_t t = 0; t < times; t++) {
        live += change[t];
        if (live > most) {
            most = live;
            *out_when = t;
        }
    }
    return most;
}

int64_t sc_memory_pack(sc_arena *arena, sc_memory_item *items, uint32_t count, uint32_t times,
                       int64_t bound)
{
    packing p = {.arena = arena,
                 .items = items,
                 .count = count,
                 .times = times,
                 .bound = bound,
                 .best = INT64_MAX,
                 .steps = STEPS};
    if (count == 0)
        return 0;
    for (p.leaves = 1; p.leaves < times; p.leaves *= 2)
        ;
    p.offsets = sc_arena_array(arena, count, sizeof *p.offsets);
    p.order = sc_arena_array(arena, count, sizeof *p.order);
    p.keys = sc_arena_array(arena, count, sizeof *p.keys);
    p.placed = sc_arena_array(arena, count, sizeof *p.placed);
    p.tree = sc_arena_array(arena, (size_t)p.leaves * 2, sizeof *p.tree);

    for (int backwards = 0; backwards < 2 && !is_good(&p); backwards++)
        keep(&p, sc_memory_sweep(arena, items, count, times, backwards != 0, p.offsets));
    if (!is_good(&p))
        pack_skyline(&p);
    for (order_kind kind = 0; kind < ORDERS && affords_a_round(&p); kind++) {
        make_order(&p, kind);
        pack_fit(&p, false, p.best - 1);
        if (affords_a_round(&p))
            pack_fit(&p, true, p.best - 1);
    }
    improve(&p);
    return p.best;
}
