/* The tiled form, backward (Dao, "FlashAttention-2", 2023, algorithm 2): weights are recomputed
 * from their log-sum, and every cotangent is again a small matmul. Vectors over queries compute
 * scores, weights, cotangents of weights, and sums for queries; vectors over head elements compute
 * sums for keys and values, over the queries of a block.
 *
 *     block of queries            on the stack: queries and cotangents of the result, both as rows
 *                                 and as panels; sums for queries
 *       for each tile of keys     read once; sums for keys and values
 *         for each panel: weights, cotangents of scores; three matmuls
 *         add the tile's sums for keys and values to those of earlier blocks
 *
 * The keys and values of a unit belong to one thread, which runs the blocks in order. With few
 * units there are two passes: sums for queries, by blocks; then sums for keys and values, by chunks
 * of keys. The choice depends on the op alone, so results do not depend on the number of
 * threads. */
#include "codegen/attention/c_internal.h"

enum { CHUNK_TILES = 4 /* per chunk of keys */, FEW_UNITS = 8 };

static void declare_block(sc_attention_text *text, const sc_attention_blocking *b)
{
    sc_attention_declare_block(text, b);
    sc_write_line(text->out, "float d_queries[panels * e_width * lanes]" ALIGNED ";");
    sc_write_line(text->out, "float d_outs[panels * own_width * lanes]" ALIGNED
                             ", d_out_rows[block_queries * own_width]" ALIGNED ";");
    sc_write_line(text->out,
                  "float log_sum[block_queries]" ALIGNED ", delta[block_queries]" ALIGNED ";");
    sc_write_line(text->out, "__builtin_memset(d_queries, 0, sizeof d_queries);");
    sc_write_line(text->out, "__builtin_memset(d_out_rows, 0, sizeof d_out_rows);");
}

/* Missing queries, padding, and queries with every key masked have weights exp(-inf). */
static void read_queries(sc_attention_text *text, const sc_attention_blocking *b)
{
    const sc_attention_desc *desc = text->desc;
    const char *beyond = sc_attention_beyond(text);
    const char *out =
        sc_arena_printf(text->arena, "out_of[r] + %s",
                        sc_attention_times(text, "o", desc->own[0].strides[SC_ATTENTION_OUT]));
    const char *d_out =
        sc_arena_printf(text->arena, "d_out_at + %s",
                        sc_attention_times(text, "o", desc->own[0].strides[SC_ATTENTION_D_OUT]));
    sc_attention_open_queries(text);
    sc_write_line(text->out, "log_sum[r] = INFINITY;");
    sc_write_line(text->out, "delta[r] = 0;");
    sc_write_line(text->out, "if (number >= %lld)", (long long)b->rows);
    sc_write_line(text->out, "    continue;");
    sc_attention_decode(text, sc_attention_of_row, "number");
    if (beyond != NULL) {
        sc_write_line(text->out, "if (%s) /* padding */", beyond);
        sc_write_line(text->out, "    continue;");
    }
    sc_attention_read_query(text);
    sc_write_line(text->out, "const int64_t d_out_at = %s;",
                  sc_attention_at(text, SC_ATTENTION_D_OUT, sc_attention_all));
    sc_write_open(text->out, "for (int64_t o = 0; o < own_size; o++)");
    sc_write_line(text->out, "const float d = %s;",
                  sc_attention_read(text, SC_ATTENTION_D_OUT, d_out));
    sc_write_line(text->out, "d_out_rows[r * own_width + o] = d;");
    sc_write_line(text->out, "delta[r] += d * %s;", sc_attention_read(text, SC_ATTENTION_OUT, out));
    sc_write_close(text->out);
    sc_write_line(text->out, "const float sum = %s;",
                  sc_attention_read(text, SC_ATTENTION_LSE, "lse_of[r]"));
    sc_write_line(text->out, "log_sum[r] = sum == -INFINITY ? INFINITY : sum;");
    sc_write_close(text->out);
    sc_attention_transpose_queries(text);
    sc_write_line(text->out, "for (int64_t p = 0; p < panels; p++)");
    sc_write_line(text->out,
                  "    %s_to_panel(d_out_rows + p * lanes * own_width, d_outs + p * own_width "
                  "* lanes, own_width);",
                  text->name);
}

/* Computes weights[t][query] and d_scores from scores and the cotangents of weights. */
static void differentiate_tile(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    sc_write_line(text->out, "for (int64_t i = 0; i < seen; i += 4)");
    sc_write_line(text->out,
                  "    %s_matmul%d(values + i * own_width, own_width, 1, d_outs + p * "
                  "own_width * lanes, lanes, d_scores + i * lanes, "
                  "lanes, own_size, 0);",
                  text->name, SC_ATTENTION_LANES);
    sc_write_open(text->out, "for (int64_t i = 0; i < seen; i++)");
    if (desc->p > 0)
        sc_write_line(text->out, "const int64_t t = first + i;");
    sc_write_line(text->out, "#pragma omp simd");
    sc_write_open(text->out, "for (int64_t l = 0; l < lanes; l++)");
    sc_write_line(
        text->out,
        "const float weight = sc_exp_below_f32(scores[i * lanes + l] - log_sum[p * lanes + l]);");
    const char *slope = desc->softcap != 0 ? " * slopes[i * lanes + l]" : "";
    if (desc->p > 0) {
        sc_write_line(text->out, "const float factor = %s;", sc_attention_lane_factor(text));
        sc_write_line(text->out,
                      "d_scores[i * lanes + l] = weight * (d_scores[i * lanes + l] * factor - "
                      "delta[p * lanes + l])%s;",
                      slope);
        sc_write_line(text->out, "scores[i * lanes + l] = weight * factor;");
    } else {
        sc_write_line(text->out,
                      "d_scores[i * lanes + l] = weight * (d_scores[i * lanes + l] - delta[p * "
                      "lanes + l])%s;",
                      slope);
        sc_write_line(text->out, "scores[i * lanes + l] = weight;");
    }
    sc_write_close(text->out);
    sc_write_close(text->out);
}

/* sums[t][x] += sum over the panel's queries of left[t][query] right[query][x], in vectors of 16
 * elements, then 8. */
static void add_matmuls(sc_attention_text *text, const char *left, const char *right,
                        const char *sums, const char *width, int64_t elements)
{
    long long sixteens = (long long)elements / 16 * 16;
    sc_write_open(text->out, "for (int64_t i = 0; i < seen; i += 4)");
    if (sixteens > 0) {
        sc_write_line(text->out, "for (int64_t x = 0; x < %lld; x += 16)", sixteens);
        sc_write_line(text->out,
                      "    %s_matmul16(%s + i * lanes, lanes, 1, %s + p * lanes * %s + x, %s, "
                      "%s + i * %s + x, %s, lanes, 1);",
                      text->name, left, right, width, width, sums, width, width);
    }
    if (sixteens < elements)
        sc_write_line(text->out,
                      "%s_matmul8(%s + i * lanes, lanes, 1, %s + p * lanes * %s + %lld, %s, "
                      "%s + i * %s + %lld, %s, lanes, 1);",
                      text->name, left, right, width, sixteens, width, sums, width, sixteens,
                      width);
    sc_write_close(text->out);
}

static void through_panels(sc_attention_text *text, const sc_attention_blocking *b)
{
    sc_attention_open_panels(text);
    sc_attention_score_tile(text);
    differentiate_tile(text);
    sc_write_open(text->out, "if (for_keys)");
    sc_write_line(text->out, "for (int64_t i = seen * lanes; i < (seen + 3) / 4 * 4 * lanes; i++)");
    sc_write_line(text->out, "    scores[i] = d_scores[i] = 0;");
    add_matmuls(text, "scores", "d_out_rows", "d_values", "own_width", b->own_width);
    add_matmuls(text, "d_scores", "query_rows", "d_keys", "e_width", b->e_width);
    sc_write_close(text->out);
    sc_write_open(text->out, "if (for_queries)");
    sc_write_line(text->out, "for (int64_t e = 0; e < e_size; e += 4)");
    sc_write_line(text->out,
                  "    %s_matmul%d(keys + e, 1, e_width, d_scores, lanes, d_queries + (p * "
                  "e_width + e) * lanes, lanes, seen, 1);",
                  text->name, SC_ATTENTION_LANES);
    sc_write_close(text->out);
    sc_write_close(text->out);
}

static void add_tile(sc_attention_text *text, sc_attention_role role, const char *name,
                     const char *sums, const char *at, const char *width,
                     const sc_attention_dim *dim)
{
    const char *index =
        sc_arena_printf(text->arena, "%s + %s + %s", at,
                        sc_attention_times(text, "(first + i)", text->desc->t.strides[role]),
                        sc_attention_times(text, "x", dim->strides[role]));
    sc_write_open(text->out, "for (int64_t i = 0; i < count; i++)");
    sc_write_line(text->out, "#pragma omp simd");
    sc_write_line(text->out, "for (int64_t x = 0; x < %lld; x++)", (long long)dim->size);
    sc_write_line(text->out, "    %s[%s] += %s[i * %s + x];", sums, index, name, width);
    sc_write_close(text->out);
}

/* A block of queries against the tiles of keys from first_key to end_key. */
static void emit_block(sc_attention_text *text, const sc_attention_blocking *b)
{
    const sc_attention_desc *desc = text->desc;
    sc_write_line(text->out, "static inline __attribute__((always_inline)) void %s_block(",
                  text->name);
    sc_write_line(text->out, "    void *const *args, const int64_t *params, int64_t unit, int64_t "
                             "block, int64_t first_key, int64_t end_key,");
    sc_write_line(text->out, "    int for_queries, int for_keys)");
    sc_write_open_block(text->out);
    sc_attention_declare_arrays(text);
    sc_write_line(text->out, "(void)unit;");
    sc_attention_decode(text, sc_attention_of_unit, "unit");
    declare_block(text, b);
    read_queries(text, b);
    sc_attention_declare_tiles(text);
    sc_write_line(text->out, "const int64_t d_k_at = %s, d_v_at = %s;",
                  sc_attention_at(text, SC_ATTENTION_D_K, sc_attention_of_unit),
                  sc_attention_at(text, SC_ATTENTION_D_V, sc_attention_of_unit));
    sc_write_line(text->out,
                  "float scores[tile * lanes]" ALIGNED ", d_scores[tile * lanes]" ALIGNED ";");
    if (desc->softcap != 0)
        sc_write_line(text->out, "float slopes[tile * lanes]" ALIGNED ";");
    sc_write_line(text->out, "float d_keys[tile * e_width]" ALIGNED
                             ", d_values[tile * own_width]" ALIGNED ";");
    sc_write_line(text->out, "first_key = first_key > block_low - block_low %% tile ? first_key : "
                             "block_low - block_low %% tile;");
    sc_write_line(text->out, "end_key = end_key < block_high ? end_key : block_high;");
    sc_write_open(text->out, "for (int64_t first = first_key; first < end_key; first += tile)");
    sc_write_line(text->out,
                  "const int64_t count = end_key - first < tile ? end_key - first : tile;");
    sc_attention_read_tiles(text);
    sc_write_line(text->out, "__builtin_memset(d_keys, 0, sizeof d_keys);");
    sc_write_line(text->out, "__builtin_memset(d_values, 0, sizeof d_values);");
    through_panels(text, b);
    sc_write_open(text->out, "if (for_keys)");
    add_tile(text, SC_ATTENTION_D_K, "d_keys", "sum_d_k", "d_k_at", "e_width", &desc->e);
    add_tile(text, SC_ATTENTION_D_V, "d_values", "sum_d_v", "d_v_at", "own_width", &desc->own[0]);
    sc_write_close(text->out);
    sc_write_close(text->out);
    sc_write_line(text->out, "for (int64_t p = 0; for_queries && p < panels; p++)");
    sc_write_line(text->out,
                  "    %s_from_panel(query_rows + p * lanes * e_width, d_queries + p * e_width "
                  "* lanes, e_width);",
                  text->name);
    sc_write_open(text->out,
                  "for (int64_t r = 0; for_queries && r < block_queries && block * "
                  "block_queries + r < %lld; r++)",
                  (long long)b->rows);
    sc_attention_decode(text, sc_attention_of_row, "(block * block_queries + r)");
    sc_write_line(text->out, "const int64_t d_q_at = %s;",
                  sc_attention_at(text, SC_ATTENTION_D_Q, sc_attention_all));
    const char *value = sc_arena_printf(text->arena, "query_rows[r * e_width + e] * %s",
                                        sc_attention_number(text, desc->scale));
    sc_write_line(text->out, "#pragma omp simd");
    sc_write_line(text->out, "for (int64_t e = 0; e < e_size; e++)");
    sc_write_line(text->out, "    d_q[d_q_at + %s] = %s;",
                  sc_attention_times(text, "e", desc->e.strides[SC_ATTENTION_D_Q]),
                  sc_attention_stored(text, desc->arrays[SC_ATTENTION_D_Q].dtype, value));
    sc_write_close(text->out);
    sc_write_close(text->out);
    sc_strbuf_add_char(text->out->text, '\n');
}

static void one_pass(sc_attention_text *text, const sc_attention_blocking *b)
{
    sc_write_line(text->out, "#pragma omp parallel for schedule(dynamic, 1)");
    sc_write_line(text->out, "for (int64_t unit = 0; unit < %lld; unit++)", (long long)b->units);
    sc_write_line(text->out, "    for (int64_t block = 0; block < %lld; block++)",
                  (long long)b->blocks);
    sc_write_line(text->out, "        %s_block(args, params, unit, block, 0, %lld, 1, 1);",
                  text->name, (long long)text->desc->t.size);
}

static void two_passes(sc_attention_text *text, const sc_attention_blocking *b)
{
    long long keys = (long long)text->desc->t.size, chunk = CHUNK_TILES * SC_ATTENTION_TILE,
              chunks = (keys + chunk - 1) / chunk;
    sc_write_line(text->out, "#pragma omp parallel for schedule(dynamic, 1)");
    sc_write_line(text->out, "for (int64_t item = 0; item < %lld; item++)",
                  (long long)b->units * b->blocks);
    sc_write_line(
        text->out, "    %s_block(args, params, item %% %lld, %lld - item / %lld, 0, %lld, 1, 0);",
        text->name, (long long)b->units, (long long)b->blocks - 1, (long long)b->units, keys);
    sc_write_line(text->out, "#pragma omp parallel for schedule(dynamic, 1)");
    sc_write_open(text->out, "for (int64_t item = 0; item < %lld; item++)",
                  (long long)b->units * chunks);
    sc_write_line(text->out, "const int64_t unit = item %% %lld, first = item / %lld * %lld;",
                  (long long)b->units, (long long)b->units, chunk);
    sc_write_line(text->out, "for (int64_t block = 0; block < %lld; block++)",
                  (long long)b->blocks);
    sc_write_line(text->out,
                  "    %s_block(args, params, unit, block, first, first + %lld < %lld ? first "
                  "+ %lld : %lld, 0, 1);",
                  text->name, chunk, keys, chunk, keys);
    sc_write_close(text->out);
}

void sc_attention_emit_tiled_grad(sc_attention_text *text)
{
    sc_attention_blocking b = sc_attention_blocking_of(text->desc);
    sc_attention_emit_matmul(text, SC_ATTENTION_LANES);
    sc_attention_emit_matmul(text, 16);
    sc_attention_emit_matmul(text, 8);
    sc_attention_emit_transposes(text);
    emit_block(text, &b);
    sc_attention_begin(text);
    sc_attention_begin_sums(text);
    if (b.units >= FEW_UNITS)
        one_pass(text, &b);
    else
        two_passes(text, &b);
    sc_attention_end_sums(text);
    sc_attention_end(text);
}
