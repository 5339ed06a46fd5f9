/* Text fragments shared by the C and CUDA emitters of attention; internal to codegen/attention. */
#ifndef SHARDC_CODEGEN_ATTENTION_TEXT_H
#define SHARDC_CODEGEN_ATTENTION_TEXT_H

#include "codegen/attention/describe.h"
#include "codegen/printer/printer.h"
#include "codegen/printer/writer.h"

/* The name of a role's array in the text; true if the array is a result. */
const char *sc_attention_role_name(sc_attention_role role);
bool sc_attention_is_written(const sc_attention_desc *desc, sc_attention_role role);

/* ---- text ---- */
typedef struct sc_attention_text {
    sc_arena *arena;
    const sc_attention_desc *desc;
    const char *name;
    const char *real; /* the arithmetic type: float or double */
    sc_writer *out;
} sc_attention_text;

/* An expression of type `real` that reads an element; an expression that converts a value of type
 * `real` to the stored dtype. */
const char *sc_attention_read(sc_attention_text *text, sc_attention_role role, const char *index);
const char *sc_attention_stored(sc_attention_text *text, sc_dtype dtype, const char *value);
/* A literal of type `real`. */
const char *sc_attention_number(sc_attention_text *text, double number);

/* Selects the query dims that a function goes over. */
typedef bool sc_attention_choice(const sc_attention_desc *desc, const sc_attention_dim *dim);
sc_attention_choice sc_attention_all, sc_attention_of_unit, sc_attention_of_row,
    sc_attention_of_sums, sc_attention_within_sums;
int64_t sc_attention_points(const sc_attention_desc *desc, sc_attention_choice *choice);
/* Declares s0, s1, .. (numbered by query dim) from a row-major index over the chosen dims. */
void sc_attention_decode(sc_attention_text *text, sc_attention_choice *choice, const char *number);
/* The offset in an array along the chosen dims: s0 * 4096 + s2 * 64. */
const char *sc_attention_at(sc_attention_text *text, sc_attention_role role,
                            sc_attention_choice *choice);
/* The offset of element o of the own dims. */
const char *sc_attention_own(sc_attention_text *text, sc_attention_role role, const char *o);
/* "index * stride", simplified when the stride is 0 or 1. */
const char *sc_attention_times(sc_attention_text *text, const char *index, int64_t stride);

/* The global index of element `index` of a dim; the index of key t in an array. */
const char *sc_attention_position(sc_attention_text *text, const sc_attention_dim *dim,
                                  const char *index);
const char *sc_attention_key(sc_attention_text *text, sc_attention_role role);
/* After the s.. of all query dims: declares low and high, the keys that position masks leave; row
 * (for dropout); and is_beyond where a row may be padding. */
void sc_attention_declare_interval(sc_attention_text *text);
void sc_attention_declare_row(sc_attention_text *text);
/* The condition that the row is padding, on ranks with a global offset; NULL if there is none. */
const char *sc_attention_beyond(sc_attention_text *text);
/* The condition that keep and segments admit key t of the query; uses keep_at, segments_at,
 * key_segments_at. NULL: always. */
const char *sc_attention_visible(sc_attention_text *text);

/* The function's arguments and parameters. */
void sc_attention_declare_arrays(sc_attention_text *text);
void sc_attention_begin(sc_attention_text *text);
void sc_attention_end(sc_attention_text *text);

/* For a query with all dims decoded: q_at, k_at, .. of each array present, the interval, the row.
 * Then, for its key t, on CPUs and GPUs: its bias and its dropout factor. */
void sc_attention_declare_places(sc_attention_text *text);
const char *sc_attention_bias_of_key(sc_attention_text *text);
const char *sc_attention_factor_of_key(sc_attention_text *text);

/* Cotangents that are sums: clears them before the first addition; copies them from scratch to the
 * array after the last. */
void sc_attention_begin_sums(sc_attention_text *text);
void sc_attention_end_sums(sc_attention_text *text);

#endif
