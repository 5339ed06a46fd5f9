/* Shared by the C emitters of attention; internal to codegen/attention. */
#ifndef SHARDC_CODEGEN_ATTENTION_C_INTERNAL_H
#define SHARDC_CODEGEN_ATTENTION_C_INTERNAL_H

#include "codegen/attention/text.h"

/* ---- forms ---- */
void sc_attention_emit_simple(sc_attention_text *text);
void sc_attention_emit_tiled(sc_attention_text *text);
void sc_attention_emit_tiled_grad(sc_attention_text *text);
void sc_attention_emit_decode(sc_attention_text *text);

/* ---- tiles ---- */
enum { SC_ATTENTION_LANES = 24 /* queries of a panel: three AVX2 vectors */ };

typedef struct sc_attention_blocking {
    int64_t units, rows;     /* rows: queries of a unit */
    int64_t panels, queries; /* per block */
    int64_t blocks;          /* per unit */
    int64_t e, own;          /* sizes, then the same rounded up to full vectors */
    int64_t e_width, own_width;
} sc_attention_blocking;

#define ALIGNED " __attribute__((aligned(64)))"

sc_attention_blocking sc_attention_blocking_of(const sc_attention_desc *desc);
void sc_attention_emit_matmul(sc_attention_text *text, int lanes);
void sc_attention_emit_transposes(sc_attention_text *text);
void sc_attention_declare_block(sc_attention_text *text, const sc_attention_blocking *b);
void sc_attention_open_queries(sc_attention_text *text);
void sc_attention_read_query(sc_attention_text *text);
void sc_attention_transpose_queries(sc_attention_text *text);
void sc_attention_declare_tiles(sc_attention_text *text);
void sc_attention_read_tiles(sc_attention_text *text);
void sc_attention_open_panels(sc_attention_text *text);
void sc_attention_score_tile(sc_attention_text *text);
const char *sc_attention_lane_factor(sc_attention_text *text);

#endif
