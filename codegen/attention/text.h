/* Pieces of text that the forms of attention share, of C and of CUDA: inside of codegen/attention only. */
#ifndef SHARDC_CODEGEN_ATTENTION_TEXT_H
#define SHARDC_CODEGEN_ATTENTION_TEXT_H

#include "codegen/attention/describe.h"

/* What arrays are called in the text, and whether they are results. */
const char *sc_attention_role_name(sc_attention_role role);
bool sc_attention_is_written(const sc_attention_desc *desc, sc_attention_role role);

/* ---- text ---- */
typedef struct sc_attention_text {
    sc_arena *arena;
    const sc_attention_desc *desc;
    const char *name;
    const char *real; /* float, double */
    sc_strbuf *out;
    uint32_t depth;
} sc_attention_text;

/* A line, indented by the braces so far. */
void sc_attention_line(sc_attention_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sc_attention_open(sc_attention_text *text, const char *format, ...) __attribute__((format(printf, 2, 3))); /* and " {" */
void sc_attention_close(sc_attention_text *text);

/* A C type, and an expression of type `real` that reads an element of such an array; and a value of `real` as it is stored. */
const char *sc_attention_type(sc_dtype dtype);
const char *sc_attention_read(sc_attention_text *text, sc_attention_role role, const char *index);
const char *sc_attention_stored(sc_attention_text *text, sc_dtype dtype, const char *value);
/* A number of type `real`. */
const char *sc_attention_number(sc_attention_text *text, double number);

/* Which query dims a walk goes over. */
typedef bool sc_attention_choice(const sc_attention_desc *desc, const sc_attention_dim *dim);
sc_attention_choice sc_attention_all, sc_attention_of_unit, sc_attention_of_row, sc_attention_of_sums, sc_attention_within_sums;
int64_t sc_attention_product(const sc_attention_desc *desc, sc_attention_choice *choice);
/* Declares s0, s1, .. (by index of query dim) from a number that counts the chosen dims row-major. */
void sc_attention_decode(sc_attention_text *text, sc_attention_choice *choice, const char *number);
/* Where an array stands along the chosen dims: s0 * 4096 + s2 * 64. */
const char *sc_attention_at(sc_attention_text *text, sc_attention_role role, sc_attention_choice *choice);
/* The element of `own` number o, and of E number e. */
const char *sc_attention_own(sc_attention_text *text, sc_attention_role role, const char *o);
/* "index * stride", or the parts that are not 0 or 1. */
const char *sc_attention_times(sc_attention_text *text, const char *index, int64_t stride);

/* After the s.. of all query dims: declares low and high, the keys that masks by position leave, row (with dropout), and is_beyond where a
 * row may be padding. */
void sc_attention_declare_interval(sc_attention_text *text);
void sc_attention_declare_row(sc_attention_text *text);
/* Of padding, on ranks that say from where they count: NULL when there can be none. */
const char *sc_attention_beyond(sc_attention_text *text);
/* A condition under which keep and segments leave key t of the query, where keep_at, segments_at, key_segments_at stand; NULL: always. */
const char *sc_attention_visible(sc_attention_text *text);

/* Arguments, parameters. */
void sc_attention_declare_arrays(sc_attention_text *text);
void sc_attention_begin(sc_attention_text *text);
void sc_attention_end(sc_attention_text *text);

/* Of a query all of whose dims are decoded: q_at, k_at, .. of each array that is there, the interval, the row. Then of its key t, on
 * CPUs and GPUs: its bias, its factor of dropout. */
void sc_attention_declare_places(sc_attention_text *text);
const char *sc_attention_bias_of_key(sc_attention_text *text);
const char *sc_attention_factor_of_key(sc_attention_text *text);

/* Cotangents that are sums: zeros before the first addition; from scratch to the array after the last. */
void sc_attention_begin_sums(sc_attention_text *text);
void sc_attention_end_sums(sc_attention_text *text);

#endif
