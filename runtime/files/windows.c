/* Windows of a sequence of tokens, and the permutations that order them. */
#include "runtime/files/windows.h"

#include <math.h>

#include "support/rng.h"

enum { ROUNDS = 8 };

/* Keys of random streams: sc_fnv1a64 of "data.windows" and of "data.held_out". A parameter's path
 * has the same key only by chance. */
static const uint64_t stream = 0x73f1906780357486u, held_out_stream = 0x439608f329de4329u;

static uint64_t feistel(const uint32_t key[2], uint64_t epoch, unsigned half, uint64_t index)
{
    uint64_t mask = ((uint64_t)1 << half) - 1, left = index >> half, right = index & mask;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t counter[4] = {(uint32_t)right, round, (uint32_t)epoch, (uint32_t)(epoch >> 32)},
                 words[4];
        sc_rng_philox(counter, key, words);
        uint64_t next = left ^ (words[0] & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

static uint64_t permute(const uint32_t key[2], uint64_t epoch, uint64_t count, uint64_t index)
{
    unsigned half = 1;
    while (half < 32 && ((uint64_t)1 << 2 * half) < count)
        half++;
    do {
        index = feistel(key, epoch, half, index);
    } while (index >= count);
    return index;
}

uint64_t sc_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t index)
{
    uint32_t key[2];
    sc_rng_key(seed, stream, key);
    return permute(key, epoch, count, index);
}

sc_windows sc_windows_find(uint64_t tokens, uint64_t length, bool targets, uint64_t seed)
{
    uint64_t further = targets ? 1 : 0;
    return (sc_windows){.seed = seed,
                        .length = length,
                        .count = tokens < further ? 0 : (tokens - further) / length};
}

/* ---- windows that are held out ---- */

/* Rounds up, but not what only the rounding of the product puts above a whole number. */
static uint64_t share_of(double share, uint64_t count)
{
    static const double NEAR = 1e-9;
    uint64_t held = (uint64_t)ceil(share * (double)count - NEAR);
    return held < count ? held : count;
}

void sc_windows_hold_out(sc_windows *w, double share)
{
    w->block_held = share_of(share, SC_WINDOWS_BLOCK);
    w->last_held = share_of(share, w->count % SC_WINDOWS_BLOCK);
    w->held = w->count / SC_WINDOWS_BLOCK * w->block_held + w->last_held;
}

/* Returns the window that the hash of its block orders at `rank`. */
static uint64_t ranked(const sc_windows *w, uint64_t block, uint64_t rank)
{
    uint64_t blocks = w->count / SC_WINDOWS_BLOCK,
             size = block < blocks ? SC_WINDOWS_BLOCK : w->count % SC_WINDOWS_BLOCK;
    uint32_t key[2];
    sc_rng_key(w->part, held_out_stream, key);
    return block * SC_WINDOWS_BLOCK + permute(key, block, size, rank);
}

uint64_t sc_windows_held_at(const sc_windows *w, uint64_t number)
{
    uint64_t blocks = w->count / SC_WINDOWS_BLOCK, in_blocks = blocks * w->block_held;
    uint64_t block = number < in_blocks ? number / w->block_held : blocks;
    return w->length * ranked(w, block, number - block * w->block_held);
}

/* Returns the window that is number `number` of those that are not held out. */
static uint64_t trained(const sc_windows *w, uint64_t number)
{
    uint64_t blocks = w->count / SC_WINDOWS_BLOCK, each = SC_WINDOWS_BLOCK - w->block_held;
    if (w->held == 0)
        return number;
    uint64_t block = number < blocks * each ? number / each : blocks;
    return ranked(w, block,
                  number - block * each + (block < blocks ? w->block_held : w->last_held));
}

uint64_t sc_windows_at(const sc_windows *w, uint64_t place)
{
    uint64_t count = w->count - w->held;
    uint32_t key[2];
    sc_rng_key(w->seed, stream + w->part, key);
    return w->length * trained(w, permute(key, place / count, count, place % count));
}
