/* What the forms of attention share while they are written: inside of codegen/attention only. */
#ifndef SHARDC_CODEGEN_ATTENTION_TEXT_H
#define SHARDC_CODEGEN_ATTENTION_TEXT_H

#include "codegen/attention/describe.h"

enum {
    SC_ATTEND_MAX_HEAD = 512,
    SC_ATTEND_LANES = 24, /* queries of a panel: three vectors of AVX2 */
    SC_ATTEND_TILE = 48,  /* keys */
    SC_ATTEND_FEW = 8     /* queries of a unit: no more than these are decoded */
};

/* ---- of descriptors ---- */
bool sc_attend_is_unit(const sc_attend_dim *dim);
int64_t sc_attend_units(const sc_attend_desc *desc);
/* Queries of a unit. */
int64_t sc_attend_rows(const sc_attend_desc *desc);
int64_t sc_attend_own_size(const sc_attend_desc *desc);
/* Whether a cotangent is a sum that begins with zeros and grows in memory. */
bool sc_attend_is_summed(const sc_attend_desc *desc, sc_attend_role role);
/* Whether that happens in scratch, in the dtype of arithmetic, as a copy of the array, and where that begins, in elements of that. */
bool sc_attend_needs_sum(const sc_attend_desc *desc, sc_attend_role role);
int64_t sc_attend_sum_at(const sc_attend_desc *desc, sc_attend_role role);
/* Decoding: into how many chunks keys are split; what a query keeps of one, in elements of f32: sums, the largest score, the total; and the
 * scratch for that, in bytes. */
int64_t sc_attend_decode_chunks(const sc_attend_desc *desc);
int64_t sc_attend_decode_part(const sc_attend_desc *desc);
int64_t sc_attend_decode_scratch(const sc_attend_desc *desc);

/* What arrays are called in the text, and whether they are results. */
const char *sc_attend_role_name(sc_attend_role role);
bool sc_attend_is_written(const sc_attend_desc *desc, sc_attend_role role);

/* ---- text ---- */
typedef struct sc_attend_text {
    sc_arena *arena;
    const sc_attend_desc *desc;
    const char *name;
    const char *real; /* float, double */
    sc_strbuf *out;
    uint32_t depth;
} sc_attend_text;

/* A line, indented by the braces so far. */
void sc_attend_line(sc_attend_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sc_attend_open(sc_attend_text *text, const char *format, ...) __attribute__((format(printf, 2, 3))); /* and " {" */
void sc_attend_close(sc_attend_text *text);

/* A C type, and an expression of type `real` that reads an element of such an array; and a value of `real` as it is stored. */
const char *sc_attend_type(sc_dtype dtype);
const char *sc_attend_read(sc_attend_text *text, sc_attend_role role, const char *index);
const char *sc_attend_stored(sc_attend_text *text, sc_dtype dtype, const char *value);
/* A number of type `real`. */
const char *sc_attend_number(sc_attend_text *text, double number);

/* Which query dims a walk goes over. */
typedef bool sc_attend_choice(const sc_attend_desc *desc, const sc_attend_dim *dim);
sc_attend_choice sc_attend_all, sc_attend_of_unit, sc_attend_of_row, sc_attend_of_sums, sc_attend_within_sums;
int64_t sc_attend_product(const sc_attend_desc *desc, sc_attend_choice *choice);
/* Declares s0, s1, .. (by index of query dim) from a number that counts the chosen dims row-major. */
void sc_attend_decode(sc_attend_text *text, sc_attend_choice *choice, const char *number);
/* Where an array stands along the chosen dims: s0 * 4096 + s2 * 64. */
const char *sc_attend_at(sc_attend_text *text, sc_attend_role role, sc_attend_choice *choice);
/* The element of `own` number o, and of E number e. */
const char *sc_attend_own(sc_attend_text *text, sc_attend_role role, const char *o);
/* "index * stride", or the parts that are not 0 or 1. */
const char *sc_attend_times(sc_attend_text *text, const char *index, int64_t stride);

/* After the s.. of all query dims: declares low and high, the keys that masks by position leave, row (with dropout), and is_beyond where a
 * row may be padding. */
void sc_attend_declare_interval(sc_attend_text *text);
void sc_attend_declare_row(sc_attend_text *text);
/* Of padding, on ranks that say from where they count: NULL when there can be none. */
const char *sc_attend_beyond(sc_attend_text *text);
/* A condition under which keep and segments leave key t of the query, where keep_at, segments_at, key_segments_at stand; NULL: always. */
const char *sc_attend_visible(sc_attend_text *text);

/* Arguments, parameters. */
void sc_attend_declare_arrays(sc_attend_text *text);
void sc_attend_begin(sc_attend_text *text);
void sc_attend_end(sc_attend_text *text);

/* Of a query all of whose dims are decoded: q_at, k_at, .. of each array that is there, the interval, the row. Then of its key t, on
 * processors and cards: its bias, its factor of dropout. */
void sc_attend_declare_places(sc_attend_text *text);
const char *sc_attend_bias_of_key(sc_attend_text *text);
const char *sc_attend_factor_of_key(sc_attend_text *text);

/* Cotangents that are sums: zeros before the first addition; from scratch to the array after the last. */
void sc_attend_begin_sums(sc_attend_text *text);
void sc_attend_end_sums(sc_attend_text *text);

/* ---- forms ---- */
void sc_attend_emit_simple(sc_attend_text *text);

typedef struct sc_attend_blocking {
    int64_t units, rows;     /* rows: queries of a unit */
    int64_t panels, queries; /* of a block */
    int64_t blocks;          /* of a unit */
    int64_t e, own;          /* sizes, and rounded up to vectors: */
    int64_t e_width, own_width;
} sc_attend_blocking;

#define ALIGNED " __attribute__((aligned(64)))"

sc_attend_blocking sc_attend_blocking_of(const sc_attend_desc *desc);
void sc_attend_emit_product(sc_attend_text *text, int lanes);
void sc_attend_emit_turns(sc_attend_text *text);
void sc_attend_declare_block(sc_attend_text *text, const sc_attend_blocking *b);
void sc_attend_open_queries(sc_attend_text *text);
void sc_attend_read_query(sc_attend_text *text);
void sc_attend_turn_queries(sc_attend_text *text);
void sc_attend_declare_tiles(sc_attend_text *text);
void sc_attend_read_tiles(sc_attend_text *text);
void sc_attend_open_panels(sc_attend_text *text);
void sc_attend_score_tile(sc_attend_text *text);
const char *sc_attend_lane_factor(sc_attend_text *text);
void sc_attend_emit_tiled(sc_attend_text *text);
void sc_attend_emit_tiled_grad(sc_attend_text *text);
void sc_attend_emit_decode(sc_attend_text *text);

#endif
