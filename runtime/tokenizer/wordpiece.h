/* WordPiece: a piece is its longest prefix in the vocabulary, then the longest continuing tokens,
 * or the unknown token if it has none (Song et al. 2020, section 3). */
#ifndef SHARDC_RUNTIME_TOKENIZER_WORDPIECE_H
#define SHARDC_RUNTIME_TOKENIZER_WORDPIECE_H

#include "runtime/tokenizer/encoder.h"

/* Encodes a piece, in time linear in it but for the length of the longest token. */
void sc_wordpiece_encode(sc_encoder *encoder, sc_span piece);

#endif
