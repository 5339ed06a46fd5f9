/* Windows of a token file, and the permutation that orders them. */
#include "runtime/files/windows.h"

#include <inttypes.h>
#include <stdio.h>

#include "support/rng.h"

enum { ROUNDS = 8 };

/* The random stream's key: sc_fnv1a64 of "data.windows". A parameter's path has the same key only
 * by chance. */
static const uint64_t stream = 0x73f1906780357486u;

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

uint64_t sc_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t index)
{
    unsigned half = 1;
    uint32_t key[2];
    while (half < 32 && ((uint64_t)1 << 2 * half) < count)
        half++;
    sc_rng_key(seed, stream, key);
    do {
        index = feistel(key, epoch, half, index);
    } while (index >= count);
    return index;
}

bool sc_windows_find(uint64_t tokens, uint64_t length, bool targets, uint64_t rows, uint64_t seed,
                     sc_windows *out, char *error, size_t error_size)
{
    uint64_t further = targets ? 1 : 0;
    *out = (sc_windows){.seed = seed,
                        .length = length,
                        .rows = rows,
                        .count = tokens < further ? 0 : (tokens - further) / length};
    if (out->count >= rows)
        return true;
    snprintf(error, error_size,
             "%" PRIu64 " tokens hold %" PRIu64 " of the %" PRIu64 " windows (%" PRIu64
             " tokens each) that one batch takes",
             tokens, out->count, rows, length + further);
    return false;
}

uint64_t sc_windows_at(const sc_windows *windows, uint64_t step, uint64_t row)
{
    uint64_t place = step * windows->rows + row;
    return windows->length * sc_permute(windows->seed, place / windows->count, windows->count,
                                        place % windows->count);
}
