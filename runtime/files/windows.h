/* In which order training sees a file of tokens. The file is cut into windows of `length` tokens, one after the other; what is cut by the
 * end is left out. With targets a window has one token more, the first of the next window: inputs are its tokens [0, length), targets
 * [1, length + 1), so that a token of the file is a target once.
 *
 * An epoch sees each window once, in an order that depends on (seed, epoch) alone: nothing of the mesh, the ranks or the steps done so far
 * decides, and a run that goes on finds its place by counting. Epochs follow each other without a gap; a batch may hold the end of one
 * and the beginning of the next. Stateless; any thread. */
#ifndef SHARDC_RUNTIME_FILES_WINDOWS_H
#define SHARDC_RUNTIME_FILES_WINDOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sc_windows {
    uint64_t seed;
    uint64_t length; /* tokens from window to window */
    uint64_t rows;   /* of a batch */
    uint64_t count;  /* windows that the file holds */
} sc_windows;

/* The windows of a file of `tokens` tokens. False, with `error` filled, when they do not fill one batch. length and rows are at least 1. */
bool sc_windows_find(uint64_t tokens, uint64_t length, bool targets, uint64_t rows, uint64_t seed, sc_windows *out, char *error,
                     size_t error_size);

/* The first token of the window in row `row` of step `step`; both count from 0. */
uint64_t sc_windows_at(const sc_windows *windows, uint64_t step, uint64_t row);

/* Where `index` goes in a permutation of [0, count) that (seed, epoch) choose; index is below count. No table: any index takes a few
 * dozen rounds of Philox.
 *
 * A Feistel network of 8 rounds, whose round function is Philox, permutes [0, 2^b), the least even b with 2^b >= count (Luby and Rackoff,
 * "How to construct pseudorandom permutations from pseudorandom functions", SIAM J. Comput. 17, 1988); what lands outside [0, count) is
 * permuted again until it is inside, "cycle walking" (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, section
 * 3). A walk ends since it follows a cycle that began inside; 2^b < 4 count, so 4 tries are the most to be expected. */
uint64_t sc_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t index);

#endif
