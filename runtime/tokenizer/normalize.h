/* Normalizers of a tokenizer.json. */
#ifndef SHARDC_RUNTIME_TOKENIZER_NORMALIZE_H
#define SHARDC_RUNTIME_TOKENIZER_NORMALIZE_H

#include "runtime/tokenizer/encoder.h"

/* Returns the text after all normalizers, in the encoder's arena, or the text itself. *begins: the
 * first character of the result comes from the first of the text; set to false where it does not.
 * Linear in the text. */
sc_span sc_normalize(sc_encoder *encoder, sc_span text, bool *begins);

#endif
