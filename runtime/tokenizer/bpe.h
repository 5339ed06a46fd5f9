/* Byte-pair encoding (Sennrich et al. 2016, section 3.2): pairs of symbols are merged, the pair of
 * the lowest rank first, of equal ones the leftmost, until none can be. */
#ifndef SHARDC_RUNTIME_TOKENIZER_BPE_H
#define SHARDC_RUNTIME_TOKENIZER_BPE_H

#include "runtime/tokenizer/encoder.h"

/* Encodes a piece. `is_bytes`: its bytes stand for their characters (sc_bpe.reads_bytes). Takes
 * O(n log n) in the symbols of the longest part that merges may join. */
void sc_bpe_encode(sc_encoder *encoder, sc_span piece, bool is_bytes);

/* Fills `cuts`: all pairs of symbols that some merge joins, by the last symbol of its left and the
 * first of its right token. Other neighbours are never merged, so that a piece may be cut between
 * them. `has_cuts` stays false where a token has several first or last symbols. */
void sc_bpe_find_cuts(sc_bpe *bpe, sc_arena *arena, const sc_vocabulary *vocabulary,
                      uint32_t unknown);

/* Returns the rank of a merge, or SC_NONE. */
uint32_t sc_bpe_rank(const sc_bpe *bpe, uint32_t left, uint32_t right);

#endif
