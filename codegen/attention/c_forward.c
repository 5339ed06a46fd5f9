/* The tiled form: blocks of queries against tiles of keys (Dao, "FlashAttention-2", 2023,
 * algorithms 1 and 2, on CPU vectors).
 *
 * All work is small matmuls whose vectors run over LANES queries, a *panel*. Scores of a tile are
 * keys (broadcast scalars) times the transposed queries of a panel (vectors), so the largest score,
 * the sum of weights and the mask of each query are vector elements, and there are no reductions
 * across a vector. Weighted values are values (scalars) times the weights (vectors), also
 * transposed. Four rows of LANES sums stay in registers.
 *
 *     block of queries (panels x LANES)             on the stack: queries, sums of values, largest
 *                                                   score, total
 *       for each tile of keys with unmasked ones    read once, to contiguous f32
 *         for each panel: scores; mask; weights; sums = sums * correction + values * weights
 *
 * A block runs its tiles in order and shares nothing, so results do not depend on the schedule.
 * Values of keys that a mask hides from some queries of a block must be finite: they are multiplied
 * by a weight of 0. */
#include "codegen/attention/c_internal.h"

sc_attention_blocking sc_attention_blocking_of(const sc_attention_desc *desc)
{
    sc_attention_blocking b = {.rows = sc_attention_rows(desc),
                               .units = sc_attention_units(desc),
                               .e = desc->e.size,
                               .own = desc->own[0].size};
    int64_t most = b.e > b.own ? b.e : b.own;
    b.e_width = (b.e + 7) / 8 * 8;
    b.own_width = (b.own + 7) / 8 * 8;
    /* a block's working set stays in a 512 KiB cache */
    int64_t room = (desc->is_grad ? 512 : 768) / most, limit = desc->is_grad ? 4 : 8;
    b.panels = room < 1 ? 1 : room > limit ? limit : room;
    int64_t needed = (b.rows + SC_ATTENTION_LANES - 1) / SC_ATTENTION_LANES;
    b.panels = needed < b.panels ? needed : b.panels;
    b.queries = b.panels * SC_ATTENTION_LANES;
    b.blocks = (b.rows + b.queries - 1) / b.queries;
    return b;
}

/* ---- shared by forward and backward ---- */

void sc_attention_emit_matmul(sc_attention_text *text, int lanes)
{
    const sc_write_word words[] = {{"NAME", text->name},
                                   {"LANES", sc_arena_printf(text->arena, "%d", lanes)},
                                   {"VECTORS", sc_arena_printf(text->arena, "%d", lanes / 8)}};
    sc_write_fixed(text->out, sc_attention_c_matmul_text, words, sizeof words / sizeof *words);
}

void sc_attention_emit_transposes(sc_attention_text *text)
{
    const sc_write_word words[] = {
        {"NAME", text->name}, {"LANES", sc_arena_printf(text->arena, "%d", SC_ATTENTION_LANES)}};
    sc_write_fixed(text->out, sc_attention_c_transpose_text, words, sizeof words / sizeof *words);
}

static const struct {
    sc_attention_role role;
    const char *name;
} cached_places[] = {{SC_ATTENTION_OUT, "out"},
                     {SC_ATTENTION_LSE, "lse"},
                     {SC_ATTENTION_KEEP, "keep"},
                     {SC_ATTENTION_BIAS, "bias"},
                     {SC_ATTENTION_SEGMENTS, "segments"},
                     {SC_ATTENTION_KEY_SEGMENTS, "key_segments"},
                     {SC_ATTENTION_D_Q, "d_q"}};

/* Declares, per query of the block: its row, times the scale; the keys that position masks leave;
 * the array offsets. Per panel: the keys that some query sees (panel_low to panel_high) and those
 * that all queries see (inner_). */
void sc_attention_declare_block(sc_attention_text *text, const sc_attention_blocking *b)
{
    const sc_attention_desc *desc = text->desc;
    sc_write_line(text->out,
                  "enum { lanes = %d, tile = %d, panels = %lld, block_queries = panels * lanes };",
                  SC_ATTENTION_LANES, SC_ATTENTION_TILE, (long long)b->panels);
    sc_write_line(
        text->out, "enum { e_size = %lld, e_width = %lld, own_size = %lld, own_width = %lld };",
        (long long)b->e, (long long)b->e_width, (long long)b->own, (long long)b->own_width);
    sc_write_line(text->out, "float query_rows[block_queries * e_width]" ALIGNED
                             ", queries[panels * e_width * lanes]" ALIGNED ";");
    sc_write_line(text->out, "__builtin_memset(query_rows, 0, sizeof query_rows);");
    sc_write_line(text->out,
                  "int32_t low_of[block_queries]" ALIGNED ", high_of[block_queries]" ALIGNED ";");
    sc_write_line(
        text->out,
        "int64_t panel_low[panels], panel_high[panels], inner_low[panels], inner_high[panels];");
    sc_write_line(text->out, "int64_t block_low = %lld, block_high = 0;", (long long)desc->t.size);
    for (size_t i = 0; i < sizeof cached_places / sizeof *cached_places; i++) {
        if (desc->arrays[cached_places[i].role].is_there)
            sc_write_line(text->out, "int64_t %s_of[block_queries];", cached_places[i].name);
    }
    if (desc->p > 0)
        sc_write_line(text->out, "int64_t weight_row_of[block_queries];");
    sc_write_open(text->out, "for (int p = 0; p < panels; p++)");
    sc_write_line(text->out, "panel_low[p] = inner_high[p] = %lld;", (long long)desc->t.size);
    sc_write_line(text->out, "panel_high[p] = inner_low[p] = 0;");
    sc_write_close(text->out);
}

/* Opens the loop over the block's queries, with `continue` for missing ones. */
void sc_attention_open_queries(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    sc_write_open(text->out, "for (int64_t r = 0; r < block_queries; r++)");
    sc_write_line(text->out, "const int64_t p = r / lanes, number = block * block_queries + r;");
    sc_write_line(text->out, "low_of[r] = high_of[r] = 0;");
    for (size_t i = 0; i < sizeof cached_places / sizeof *cached_places; i++) {
        if (desc->arrays[cached_places[i].role].is_there)
            sc_write_line(text->out, "%s_of[r] = 0;", cached_places[i].name);
    }
    if (desc->p > 0)
        sc_write_line(text->out, "weight_row_of[r] = 0;");
}

/* Inside that loop; the query exists and its s.. are declared. */
void sc_attention_read_query(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const char *q = sc_arena_printf(text->arena, "q_at + %s",
                                    sc_attention_times(text, "e", desc->e.strides[SC_ATTENTION_Q]));
    sc_attention_declare_interval(text);
    sc_attention_declare_row(text);
    sc_write_line(text->out, "low_of[r] = (int32_t)(low < %lld ? low : %lld);",
                  (long long)desc->t.size, (long long)desc->t.size);
    sc_write_line(text->out, "high_of[r] = (int32_t)(high < %lld ? high : %lld);",
                  (long long)desc->t.size, (long long)desc->t.size);
    sc_write_open(text->out, "if (low < high)");
    sc_write_line(text->out, "panel_low[p] = low < panel_low[p] ? low : panel_low[p];");
    sc_write_line(text->out, "panel_high[p] = high > panel_high[p] ? high : panel_high[p];");
    sc_write_line(text->out, "block_low = low < block_low ? low : block_low;");
    sc_write_line(text->out, "block_high = high > block_high ? high : block_high;");
    sc_write_close(text->out);
    sc_write_line(text->out, "inner_low[p] = low > inner_low[p] ? low : inner_low[p];");
    sc_write_line(text->out, "inner_high[p] = high < inner_high[p] ? high : inner_high[p];");
    for (size_t i = 0; i < sizeof cached_places / sizeof *cached_places; i++) {
        if (desc->arrays[cached_places[i].role].is_there)
            sc_write_line(text->out, "%s_of[r] = %s;", cached_places[i].name,
                          sc_attention_at(text, cached_places[i].role, sc_attention_all));
    }
    if (desc->p > 0)
        sc_write_line(text->out, "weight_row_of[r] = weight_row;");
    sc_write_line(text->out, "const int64_t q_at = %s;",
                  sc_attention_at(text, SC_ATTENTION_Q, sc_attention_all));
    sc_write_line(text->out, "for (int64_t e = 0; e < e_size; e++)");
    sc_write_line(text->out, "    query_rows[r * e_width + e] = %s * %s;",
                  sc_attention_read(text, SC_ATTENTION_Q, q),
                  sc_attention_number(text, desc->scale));
}

void sc_attention_transpose_queries(sc_attention_text *text)
{
    sc_write_line(text->out, "for (int64_t p = 0; p < panels; p++)");
    sc_write_line(text->out,
                  "    %s_to_panel(query_rows + p * lanes * e_width, queries + p * e_width * "
                  "lanes, e_width);",
                  text->name);
}

/* Fills name[i][0 .. width), contiguous f32, with keys first .. first + count; rows up to a
 * multiple of 4 and columns up to width are 0. */
static void read_tile(sc_attention_text *text, sc_attention_role role, const char *name,
                      const char *source, const sc_attention_dim *dim, const char *width)
{
    const char *index =
        sc_arena_printf(text->arena, "%s_at + %s + %s", source,
                        sc_attention_times(text, "(first + i)", text->desc->t.strides[role]),
                        sc_attention_times(text, "x", dim->strides[role]));
    sc_write_open(text->out, "for (int64_t i = 0; i < (count + 3) / 4 * 4; i++)");
    sc_write_open(text->out, "if (i >= count)");
    sc_write_line(text->out, "for (int64_t x = 0; x < %s; x++)", width);
    sc_write_line(text->out, "    %s[i * %s + x] = 0;", name, width);
    sc_write_line(text->out, "continue;");
    sc_write_close(text->out);
    sc_write_line(text->out, "#pragma omp simd");
    sc_write_line(text->out, "for (int64_t x = 0; x < %lld; x++)", (long long)dim->size);
    /* The addition keeps gcc from calling memcpy for every row; its only effect is to turn -0 into
     * 0. */
    sc_write_line(text->out, "    %s[i * %s + x] = %s%s;", name, width,
                  sc_attention_read(text, role, index),
                  text->desc->arrays[role].dtype == SC_DTYPE_f32 ? " + 0.0f" : "");
    if (dim->size % 8 != 0) {
        sc_write_line(text->out, "for (int64_t x = %lld; x < %s; x++)", (long long)dim->size,
                      width);
        sc_write_line(text->out, "    %s[i * %s + x] = 0;", name, width);
    }
    sc_write_close(text->out);
}

void sc_attention_read_tiles(sc_attention_text *text)
{
    read_tile(text, SC_ATTENTION_K, "keys", "k", &text->desc->e, "e_width");
    read_tile(text, SC_ATTENTION_V, "values", "v", &text->desc->own[0], "own_width");
}

void sc_attention_declare_tiles(sc_attention_text *text)
{
    sc_write_line(text->out, "const int64_t k_at = %s, v_at = %s;",
                  sc_attention_at(text, SC_ATTENTION_K, sc_attention_of_unit),
                  sc_attention_at(text, SC_ATTENTION_V, sc_attention_of_unit));
    sc_write_line(text->out,
                  "float keys[tile * e_width]" ALIGNED ", values[tile * own_width]" ALIGNED ";");
}

/* Opens loops over the tile's keys and the panel's queries; declares i, t, l and, if requested,
 * r. */
static void open_elements(sc_attention_text *text, bool is_vector)
{
    sc_write_open(text->out, "for (int64_t i = 0; i < seen; i++)");
    sc_write_line(text->out, "const int64_t t = first + i;");
    sc_write_line(text->out, "(void)t;");
    if (is_vector)
        sc_write_line(text->out, "#pragma omp simd");
    sc_write_open(text->out, "for (int64_t l = 0; l < lanes; l++)");
}

static void close_elements(sc_attention_text *text)
{
    sc_write_close(text->out);
    sc_write_close(text->out);
}

/* Opens the loop over panels that see keys of the tile: only its first `seen` ones. */
void sc_attention_open_panels(sc_attention_text *text)
{
    sc_write_open(text->out, "for (int64_t p = 0; p < panels; p++)");
    sc_write_line(text->out, "if (first >= panel_high[p] || first + count <= panel_low[p])");
    sc_write_line(text->out, "    continue;");
    sc_write_line(
        text->out,
        "const int64_t seen = panel_high[p] - first < count ? panel_high[p] - first : count;");
}

/* Scores of the tile for panel p, capped, with bias, masked keys -inf; also the slopes of the cap
 * if there is an array for them. */
void sc_attention_score_tile(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const sc_attention_dim *t = &desc->t;
    sc_write_line(text->out, "for (int64_t i = 0; i < seen; i += 4)");
    sc_write_line(text->out,
                  "    %s_matmul%d(keys + i * e_width, e_width, 1, queries + p * e_width * "
                  "lanes, lanes, scores + i * lanes, lanes, e_size, 0);",
                  text->name, SC_ATTENTION_LANES);
    if (desc->softcap != 0) {
        open_elements(text, true);
        sc_write_line(text->out, "const float part = sc_tanh_f32(scores[i * lanes + l] * %s);",
                      sc_attention_number(text, 1 / desc->softcap));
        sc_write_line(text->out, "scores[i * lanes + l] = part * %s;",
                      sc_attention_number(text, desc->softcap));
        if (desc->is_grad)
            sc_write_line(text->out, "slopes[i * lanes + l] = 1.0f - part * part;");
        close_elements(text);
    }
    if (desc->arrays[SC_ATTENTION_BIAS].is_there) {
        const char *index =
            sc_arena_printf(text->arena, "bias_of[p * lanes + l] + %s",
                            sc_attention_times(text, sc_attention_key(text, SC_ATTENTION_BIAS),
                                               t->strides[SC_ATTENTION_BIAS]));
        open_elements(text, false);
        sc_write_line(text->out, "scores[i * lanes + l] += %s;",
                      sc_attention_read(text, SC_ATTENTION_BIAS, index));
        close_elements(text);
    }
    const char *visible = sc_attention_visible(text);
    if (visible != NULL) {
        open_elements(text, false);
        static const char *const names[] = {"keep", "segments", "key_segments"};
        for (int i = 0; i < 3; i++) {
            if (desc->arrays[i == 0   ? SC_ATTENTION_KEEP
                             : i == 1 ? SC_ATTENTION_SEGMENTS
                                      : SC_ATTENTION_KEY_SEGMENTS]
                    .is_there)
                sc_write_line(text->out, "const int64_t %s_at = %s_of[p * lanes + l];", names[i],
                              names[i]);
        }
        sc_write_line(text->out, "scores[i * lanes + l] = %s ? scores[i * lanes + l] : -INFINITY;",
                      visible);
        close_elements(text);
    }
    sc_write_open(text->out, "if (first < inner_low[p] || first + seen > inner_high[p])");
    sc_write_line(
        text->out,
        "const int32_t *const lows = low_of + p * lanes, *const highs = high_of + p * lanes;");
    open_elements(text, true);
    sc_write_line(text->out, "scores[i * lanes + l] = ((int32_t)t >= lows[l]) & ((int32_t)t < "
                             "highs[l]) ? scores[i * lanes + l] : -INFINITY;");
    close_elements(text);
    sc_write_close(text->out);
}

const char *sc_attention_lane_factor(sc_attention_text *text)
{
    double p = text->desc->p;
    return sc_arena_printf(text->arena,
                           "(sc_uniform53(weight_row_of[p * lanes + l] + t, random_step, "
                           "random_micro_batch, random_key) < %lluu ? 0.0f : %s)",
                           (unsigned long long)sc_uniform53_limit(p),
                           sc_attention_number(text, p < 1 ? 1 / (1 - p) : 0));
}

/* ---- forward ---- */

/* Replaces scores by weights relative to a base at most 8 below the largest score so far: weights
 * below e^8 are harmless, and earlier sums seldom need a correction. */
static void weigh_tile(sc_attention_text *text)
{
    sc_write_line(text->out, "float most[lanes]" ALIGNED ", base[lanes]" ALIGNED
                             ", correction[lanes]" ALIGNED ", added[lanes]" ALIGNED ";");
    sc_write_line(text->out, "for (int l = 0; l < lanes; l++)");
    sc_write_line(text->out, "    most[l] = -INFINITY;");
    open_elements(text, true);
    sc_write_line(text->out,
                  "most[l] = scores[i * lanes + l] > most[l] ? scores[i * lanes + l] : most[l];");
    close_elements(text);
    sc_write_line(text->out, "int corrects = 0;");
    sc_write_line(text->out, "#pragma omp simd reduction(| : corrects)");
    sc_write_open(text->out, "for (int l = 0; l < lanes; l++)");
    sc_write_line(text->out,
                  "const float before = largest[p * lanes + l], now = most[l] > before + "
                  "8.0f ? most[l] : before;");
    sc_write_line(text->out, "base[l] = now == -INFINITY ? 0.0f : now;");
    sc_write_line(text->out, "correction[l] = sc_exp_below_f32(before - base[l]);");
    sc_write_line(text->out, "corrects |= (before != now) & (before != -INFINITY);");
    sc_write_line(text->out, "largest[p * lanes + l] = now;");
    sc_write_line(text->out, "added[l] = 0.0f;");
    sc_write_close(text->out);
    open_elements(text, true);
    sc_write_line(text->out,
                  "scores[i * lanes + l] = sc_exp_below_f32(scores[i * lanes + l] - base[l]);");
    sc_write_line(text->out, "added[l] += scores[i * lanes + l];");
    close_elements(text);
    sc_write_open(text->out, "if (corrects)");
    sc_write_line(text->out, "for (int l = 0; l < lanes; l++)");
    sc_write_line(text->out, "    total[p * lanes + l] *= correction[l];");
    sc_write_open(text->out, "for (int64_t o = 0; o < own_width; o++)");
    sc_write_line(text->out, "#pragma omp simd");
    sc_write_line(text->out, "for (int l = 0; l < lanes; l++)");
    sc_write_line(text->out, "    sums[(p * own_width + o) * lanes + l] *= correction[l];");
    sc_write_close(text->out);
    sc_write_close(text->out);
    sc_write_line(text->out, "for (int l = 0; l < lanes; l++)");
    sc_write_line(text->out, "    total[p * lanes + l] += added[l];");
    if (text->desc->p > 0) {
        open_elements(text, true);
        sc_write_line(text->out, "scores[i * lanes + l] *= %s;", sc_attention_lane_factor(text));
        close_elements(text);
    }
}

static void write_block(sc_attention_text *text, const sc_attention_blocking *b)
{
    const sc_attention_desc *desc = text->desc;
    const char *index =
        sc_arena_printf(text->arena, "out_of[r] + %s",
                        sc_attention_times(text, "o", desc->own[0].strides[SC_ATTENTION_OUT]));
    sc_write_open(text->out,
                  "for (int64_t r = 0; r < block_queries && block * block_queries + r < %lld; r++)",
                  (long long)b->rows);
    sc_write_line(text->out, "const int64_t p = r / lanes, l = r %% lanes;");
    sc_write_line(text->out, "if (l == 0)");
    sc_write_line(text->out, "    %s_from_panel(rows, sums + p * own_width * lanes, own_width);",
                  text->name);
    sc_write_line(text->out,
                  "const float all = total[r], share = all == 0.0f ? 0.0f : 1.0f / all;");
    sc_write_line(text->out, "#pragma omp simd");
    sc_write_line(text->out, "for (int64_t o = 0; o < own_size; o++)");
    sc_write_line(text->out, "    out[%s] = %s;", index,
                  sc_attention_stored(text, desc->arrays[SC_ATTENTION_OUT].dtype,
                                      "rows[l * own_width + o] * share"));
    if (desc->arrays[SC_ATTENTION_LSE].is_there)
        sc_write_line(text->out, "lse[lse_of[r]] = sc_log_f32(all) + largest[r];");
    sc_write_close(text->out);
}

static void emit_block(sc_attention_text *text, const sc_attention_blocking *b)
{
    sc_write_line(text->out,
                  "static void %s_block(void *const *args, const int64_t *params, int64_t "
                  "unit, int64_t block)",
                  text->name);
    sc_write_open_block(text->out);
    sc_attention_declare_arrays(text);
    sc_write_line(text->out, "(void)unit;");
    sc_attention_decode(text, sc_attention_of_unit, "unit");
    sc_attention_declare_block(text, b);
    sc_attention_open_queries(text);
    sc_write_line(text->out, "if (number >= %lld)", (long long)b->rows);
    sc_write_line(text->out, "    continue;");
    sc_attention_decode(text, sc_attention_of_row, "number");
    sc_attention_read_query(text);
    sc_write_close(text->out);
    sc_attention_transpose_queries(text);
    sc_attention_declare_tiles(text);
    sc_write_line(text->out,
                  "float scores[tile * lanes]" ALIGNED ", rows[lanes * own_width]" ALIGNED
                  ", sums[panels * own_width * lanes]" ALIGNED ";");
    sc_write_line(text->out,
                  "float largest[panels * lanes]" ALIGNED ", total[panels * lanes]" ALIGNED ";");
    sc_write_line(text->out, "__builtin_memset(sums, 0, sizeof sums);");
    sc_write_line(text->out, "__builtin_memset(total, 0, sizeof total);");
    sc_write_line(text->out, "for (int i = 0; i < panels * lanes; i++)");
    sc_write_line(text->out, "    largest[i] = -INFINITY;");
    sc_write_open(
        text->out,
        "for (int64_t first = block_low - block_low %% tile; first < block_high; first += tile)");
    sc_write_line(text->out,
                  "const int64_t count = block_high - first < tile ? block_high - first : tile;");
    sc_attention_read_tiles(text);
    sc_attention_open_panels(text);
    sc_attention_score_tile(text);
    weigh_tile(text);
    sc_write_line(text->out, "for (int64_t o = 0; o < own_size; o += 4)");
    sc_write_line(text->out,
                  "    %s_matmul%d(values + o, 1, own_width, scores, lanes, sums + (p * "
                  "own_width + o) * lanes, lanes, seen, 1);",
                  text->name, SC_ATTENTION_LANES);
    sc_write_close(text->out);
    sc_write_close(text->out);
    write_block(text, b);
    sc_write_close(text->out);
    sc_strbuf_add_char(text->out->text, '\n');
}

void sc_attention_emit_tiled(sc_attention_text *text)
{
    sc_attention_blocking b = sc_attention_blocking_of(text->desc);
    sc_attention_emit_matmul(text, SC_ATTENTION_LANES);
    sc_attention_emit_transposes(text);
    emit_block(text, &b);
    sc_write_line(text->out, "int64_t %s(void *const *args, const int64_t *params)", text->name);
    sc_write_open_block(text->out);
    /* the last blocks of a causal mask have the most work */
    sc_write_line(text->out, "#pragma omp parallel for schedule(dynamic, 1)");
    sc_write_line(text->out, "for (int64_t item = 0; item < %lld; item++)",
                  (long long)b.units * b.blocks);
    sc_write_line(text->out, "    %s_block(args, params, item %% %lld, %lld - item / %lld);",
                  text->name, (long long)b.units, (long long)b.blocks - 1, (long long)b.units);
    sc_attention_end(text);
}
