/* The order in which training reads a sequence of tokens. It is split into consecutive windows of
 * `length` tokens; an incomplete last window is dropped. With targets a window has one more token,
 * the first of the next window: inputs are its tokens [0, length), targets [1, length + 1), so
 * every token is a target once.
 *
 * An epoch reads each window once, in an order that depends on (seed, epoch) only, not on the mesh,
 * the ranks or earlier steps; so a resumed run finds its position by counting. Epochs follow each
 * other without a gap, and a batch may span two.
 *
 * A part of the windows may be held out of training. Which ones depends on their number only, not
 * on the seed: in each block of SC_WINDOWS_BLOCK windows those that a hash orders first. So no
 * table of them is needed. Stateless, callable from any thread. */
#ifndef SHARDC_RUNTIME_FILES_WINDOWS_H
#define SHARDC_RUNTIME_FILES_WINDOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SC_WINDOWS_BLOCK = 1 << 16 };

typedef struct sc_windows {
    uint64_t seed;
    uint64_t part; /* sequences of a mixture have orders of their own; 0: the first, or only one */
    uint64_t length; /* tokens from one window to the next */
    uint64_t count;  /* complete windows */
    /* held out: of each whole block, of what is left at the end, and altogether */
    uint64_t block_held, last_held, held;
} sc_windows;

/* Sets up the windows of `tokens` tokens. length is at least 1. */
sc_windows sc_windows_find(uint64_t tokens, uint64_t length, bool targets, uint64_t seed);

/* Holds out this share of the windows, from 0 to 1, in each block rounded up. */
void sc_windows_hold_out(sc_windows *windows, double share);

/* Returns the first token of the window that training reads as number `place` (from 0) of all;
 * there must be windows that are not held out. */
uint64_t sc_windows_at(const sc_windows *windows, uint64_t place);
/* Returns the first token of a window that is held out, by its number below windows->held. */
uint64_t sc_windows_held_at(const sc_windows *windows, uint64_t number);

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
