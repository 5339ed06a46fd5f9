/* Cuts a row of instances into contiguous chunks.
 *
 * By work: the least limit on a chunk's work with which the row can be cut is found by bisection. A
 * limit will do if taking as many instances as fit, chunk by chunk, takes all of them: prefix sums
 * make each step a binary search. Then, as cuts that reach the limit are many, each chunk ends as
 * near the mean of what is left as the limit allows; the same walk from the right gives the
 * earliest ends after which the rest still fits. */
#include "frontend/plan/internal.h"

void sc_stage_cut_evenly(uint32_t count, uint32_t chunks, uint32_t *ends)
{
    uint32_t end = 0;
    for (uint32_t c = 0; c < chunks; c++) {
        end += count / chunks + (c < count % chunks ? 1 : 0);
        ends[c] = end;
    }
}

typedef struct cutting {
    const double *sums; /* of the work of the first 0, 1, .. instances */
    const double *besides;
    uint32_t count, chunks;
} cutting;

/* Returns the last end of a chunk from `from` on whose instances' work is at most `room`. */
static uint32_t last_end(const cutting *c, uint32_t from, uint32_t most, double room)
{
    uint32_t low = from, high = most;
    while (low < high) {
        uint32_t middle = high - (high - low) / 2;
        if (c->sums[middle] - c->sums[from] <= room)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Returns the first begin of a chunk that ends at `to`. */
static uint32_t first_begin(const cutting *c, uint32_t to, uint32_t least, double room)
{
    uint32_t low = least, high = to;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (c->sums[to] - c->sums[middle] <= room)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Takes as many instances a chunk as fit. Returns false if that does not take all. */
static bool take_most(const cutting *c, double limit, uint32_t *ends)
{
    uint32_t at = 0;
    for (uint32_t k = 0; k < c->chunks; k++) {
        uint32_t most = c->count - (c->chunks - 1 - k),
                 end = last_end(c, at, most, limit - c->besides[k]);
        if (end == at || limit < c->besides[k])
            return false;
        ends[k] = at = end;
    }
    return at == c->count;
}

static double least_limit(const cutting *c, uint32_t *ends)
{
    enum { STEPS = 200 };
    double low = 0, high = c->sums[c->count];
    for (uint32_t k = 0; k < c->chunks; k++)
        high += c->besides[k];
    for (uint32_t i = 0; i < STEPS && high - low > 1e-13 * high; i++) {
        double middle = low + (high - low) / 2;
        if (take_most(c, middle, ends))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Returns the end in [low, high] whose chunk's work is nearest to `wanted`. */
static uint32_t nearest_end(const cutting *c, uint32_t from, uint32_t low, uint32_t high,
                            double wanted)
{
    uint32_t end = last_end(c, from, high, wanted);
    end = end < low ? low : end;
    if (end < high &&
        c->sums[end + 1] - c->sums[from] - wanted <= wanted - (c->sums[end] - c->sums[from]))
        end++;
    return end;
}

/* Chooses ends near the mean. Returns false if a chunk would be above the limit after all: its
 * first instance may not fit, if the chunk has much besides. */
static bool take_mean(const cutting *c, double limit, const uint32_t *earliest, uint32_t *ends)
{
    double besides = 0;
    uint32_t at = 0;
    for (uint32_t k = 0; k < c->chunks; k++)
        besides += c->besides[k];
    for (uint32_t k = 0; k < c->chunks; k++) {
        uint32_t left = c->chunks - k, most = c->count - (left - 1),
                 high = last_end(c, at, most, limit - c->besides[k]),
                 low = left == 1          ? c->count
                       : earliest[k] > at ? earliest[k]
                                          : at + 1;
        double mean = (c->sums[c->count] - c->sums[at] + besides) / left;
        if (low > high)
            return false;
        ends[k] = nearest_end(c, at, low, high, mean - c->besides[k]);
        besides -= c->besides[k];
        at = ends[k];
    }
    return true;
}

void sc_stage_cut_by_work(sc_arena *arena, const double *work, uint32_t count,
                          const double *besides, uint32_t chunks, uint32_t *ends)
{
    double *sums = sc_arena_array(arena, (size_t)count + 1, sizeof *sums);
    uint32_t *earliest = sc_arena_array(arena, chunks, sizeof *earliest);
    for (uint32_t i = 0; i < count; i++)
        sums[i + 1] = sums[i] + work[i];
    if (!(sums[count] > 0)) {
        sc_stage_cut_evenly(count, chunks, ends);
        return;
    }
    const cutting c = {sums, besides, count, chunks};
    double limit = least_limit(&c, ends);
    uint32_t to = count;
    for (uint32_t k = chunks; k-- > 1;) {
        to = first_begin(&c, to, k, limit - besides[k]);
        earliest[k - 1] = to;
    }
    if (!take_mean(&c, limit, earliest, ends))
        take_most(&c, limit, ends);
}
