/* The order in which training reads a file of tokens. The file is split into consecutive windows of
 * `length` tokens; an incomplete last window is dropped. With targets a window has one more token,
 * the first of the next window: inputs are its tokens [0, length), targets [1, length + 1), so
 * every token of the file is a target once.
 *
 * An epoch reads each window once, in an order that depends on (seed, epoch) only, not on the mesh,
 * the ranks or earlier steps; so a resumed run finds its position by counting. Epochs follow each
 * other without a gap, and a batch may span two. Stateless, callable from any thread. */
#ifndef SHARDC_RUNTIME_FILES_WINDOWS_H
#define SHARDC_RUNTIME_FILES_WINDOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sc_windows {
    uint64_t seed;
    uint64_t length; /* tokens from one window to the next */
    uint64_t rows;   /* rows of a batch */
    uint64_t count;  /* complete windows of the file */
} sc_windows;

/* Sets up the windows of a file of `tokens` tokens. False, with `error` filled, if they do not fill
 * one batch. length and rows are at least 1. */
bool sc_windows_find(uint64_t tokens, uint64_t length, bool targets, uint64_t rows, uint64_t seed,
                     sc_windows *out, char *error, size_t error_size);

/* Returns the first token of the window in row `row` of step `step`; both count from 0. */
uint64_t sc_windows_at(const sc_windows *windows, uint64_t step, uint64_t row);

/* Returns the image of `index` (below count) under a permutation of [0, count) selected by (seed,
 * epoch). Needs no table: an index takes a few dozen rounds of Philox.
 *
 * A Feistel network of 8 rounds with Philox as round function permutes [0, 2^b), where b is even
 * and minimal with 2^b >= count (Luby and Rackoff, "How to construct pseudorandom permutations from
 * pseudorandom functions", SIAM J. Comput. 17, 1988). Results outside [0, count) are permuted again
 * until they are inside, "cycle walking" (Black and Rogaway, "Ciphers with arbitrary finite
 * domains", CT-RSA 2002, section 3). The walk ends because its cycle contains its start, which is
 * inside; 2^b < 4 count, so the expected number of steps is below 4. */
uint64_t sc_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t index);

#endif
