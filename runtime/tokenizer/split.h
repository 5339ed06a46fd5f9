/* Pre-tokenizers of a tokenizer.json, and the model behind them. */
#ifndef SHARDC_RUNTIME_TOKENIZER_SPLIT_H
#define SHARDC_RUNTIME_TOKENIZER_SPLIT_H

#include "runtime/tokenizer/encoder.h"

/* Splits a text and encodes its pieces. `begins`: it begins where the whole text does. */
void sc_split_and_encode(sc_encoder *encoder, sc_span text, bool begins);

#endif
