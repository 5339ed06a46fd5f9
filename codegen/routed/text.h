/* What the C and CUDA emitters of routed products share; internal to codegen/routed. */
#ifndef SHARDC_CODEGEN_ROUTED_TEXT_H
#define SHARDC_CODEGEN_ROUTED_TEXT_H

#include "codegen/printer/printer.h"
#include "codegen/printer/writer.h"
#include "codegen/routed/routed.h"

typedef struct sc_routed_text {
    sc_arena *arena;
    const sc_routed_desc *desc;
    const char *name;
    bool is_wide; /* sums are f64, otherwise f32 */
    sc_writer *out;
} sc_routed_text;

sc_routed_text sc_routed_text_of(sc_arena *arena, const sc_routed_desc *desc, const char *name,
                                 sc_writer *out);

/* The number of rows; an integer, the type of sums. */
int64_t sc_routed_rows(const sc_routed_desc *desc);
const char *sc_routed_number(const sc_routed_text *text, int64_t value);
const char *sc_routed_real(const sc_routed_text *text);
/* True for bf16 and f16. */
bool sc_routed_is_half(sc_dtype dtype);
/* The offset of the row r0, r1, .. in an array. */
const char *sc_routed_row_at(const sc_routed_text *text, sc_routed_array array);
/* The array that the second offset of a row is in: of the result, or of its cotangent. */
sc_routed_array sc_routed_second(const sc_routed_desc *desc);

/* The words of the fixed texts that both have: types, conversions, sizes and steps. */
enum { SC_ROUTED_WORDS = 19 };
void sc_routed_words(const sc_routed_text *text, sc_write_word words[SC_ROUTED_WORDS]);

#endif
