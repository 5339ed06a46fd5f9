/* Normal forms of Unicode (Annex 15). */
#ifndef SHARDC_RUNTIME_TOKENIZER_FORMS_H
#define SHARDC_RUNTIME_TOKENIZER_FORMS_H

#include "runtime/tokenizer/encoder.h"

/* Returns NFD, NFC, NFKD or NFKC of a text, in the encoder's arena. Linear, also for text that is
 * all combining marks. */
sc_span sc_normal_form(sc_encoder *encoder, sc_span text, bool is_composed, bool is_compatible);

#endif
