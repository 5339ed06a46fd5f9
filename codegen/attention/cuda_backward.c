/* Attention with 16-bit elements on GPUs, backward (Dao, "FlashAttention-2", 2023, algorithm 2).
 * There are no additions in memory: weights are recomputed for each of the two sums.
 *
 * - Stage 0 computes a *record* of each query (its log-sum, delta and key interval) and the key
 *   hull of each tile of queries.
 * - Stage 1 computes d_k and d_v: a block holds keys and values of a unit and iterates over tiles
 *   of its queries, of all heads that share the keys. Scores are transposed: rows are keys, so
 *   weights are an A fragment for both sums. Large heads take one stage per sum.
 * - The last stage computes d_q: blocks of queries, as in forward.
 *
 * Missing queries, padding, and queries with every key masked have an infinite log-sum and so
 * weights of 0. Where a mask cuts through a tile, hidden elements get a score of -inf, and a 0 for
 * what is computed from the value, which may be anything. */
#include "codegen/attention/cuda_internal.h"

enum {
    RECORD = 16 /* bytes: lse in base 2, delta (f32), low, high (i32) */,
    HULL = 16 /* low, high, inner low, inner high */
};
enum { MAX_SUMS = 320 /* elements per key in registers: beyond, d_k and d_v take a stage each */ };

typedef struct grad {
    sc_attention_cuda *cuda;
    sc_attention_text *text;
    const sc_attention_desc *desc;
    sc_attention_cuda_tile tile; /* for d_k, d_v */
    sc_attention_head e, own;
    int64_t units, rows;
    int64_t padded;   /* rows with records: whole blocks of both stages */
    int64_t tiles;    /* of queries, not counting tiles without any */
    int64_t hulls_at; /* byte offset in scratch */
    bool has_interval, is_wide /* scores need more than a factor */;
    const char *factor;
    const char *unit; /* its number, in a narrow type where possible, as registers are scarce */
    sc_attention_places places;
} grad;

static int64_t round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t multiple = a;
    while (multiple % b != 0)
        multiple += a;
    return multiple;
}

/* ---- stage 0 ---- */

static void declare_record(grad *g, int chunks)
{
    sc_attention_text *text = g->text;
    const sc_attention_desc *desc = g->desc;
    const char *beyond = sc_attention_beyond(text),
               *narrow = desc->arrays[SC_ATTENTION_OUT].dtype == SC_DTYPE_bf16 ? "bf16" : "f16";
    long long keys = (long long)desc->t.size;
    sc_attention_line(text, "float sum = INFINITY, delta = 0.0f;");
    sc_attention_line(text, "int low_of_row = 0, high_of_row = 0;");
    sc_attention_open(text, "if (number < %lld)", (long long)g->rows);
    sc_attention_cuda_decode(text, sc_attention_of_row, "number");
    sc_attention_line(text, "const bool is_there = %s%s%s; /* no padding */",
                      beyond == NULL ? "true" : "!(", beyond == NULL ? "" : beyond,
                      beyond == NULL ? "" : ")");
    sc_attention_open(text, "if (is_there && part < %d)", chunks);
    sc_attention_line(text,
                      "const sc_vec<uint16_t, 8> x = sc_load<8>(out + %s + 8 * part), y = "
                      "sc_load<8>(d_out + %s + 8 * part);",
                      sc_attention_at(text, SC_ATTENTION_OUT, sc_attention_all),
                      sc_attention_at(text, SC_ATTENTION_D_OUT, sc_attention_all));
    sc_attention_line(text, "#pragma unroll");
    sc_attention_line(text, "for (int i = 0; i < 8; i++)");
    sc_attention_line(text, "    delta += sc_%s_to_f32(x[i]) * sc_%s_to_f32(y[i]);", narrow,
                      narrow);
    sc_attention_close(text);
    sc_attention_open(text, "if (is_there)");
    sc_attention_declare_interval(text);
    sc_attention_line(text, "low_of_row = (int)(low < %lld ? low : %lld);", keys, keys);
    sc_attention_line(text, "high_of_row = (int)(high < %lld ? high : %lld);", keys, keys);
    sc_attention_line(text, "const float log_sum = %s;",
                      sc_attention_read(text, SC_ATTENTION_LSE,
                                        sc_attention_at(text, SC_ATTENTION_LSE, sc_attention_all)));
    sc_attention_line(text, "sum = log_sum == -INFINITY ? INFINITY : log_sum * %s;",
                      sc_attention_number(text, SC_LOG2_E));
    sc_attention_close(text);
    sc_attention_close(text);
}

static void emit_records(grad *g)
{
    sc_attention_cuda *cuda = g->cuda;
    sc_attention_text *text = g->text;
    int chunks = g->own.size / 8, group = 8;
    while (group < chunks)
        group *= 2;
    long long blocks = (long long)(g->padded / g->tile.tile), keys = (long long)g->desc->t.size;
    sc_attention_cuda_begin(cuda, g->units * blocks, 128, 1);
    sc_attention_line(text, "constexpr int tile = %d, group = %d;", g->tile.tile, group);
    sc_attention_cuda_share(cuda, "int32_t", "low_of", 4, g->tile.tile);
    sc_attention_cuda_share(cuda, "int32_t", "high_of", 4, g->tile.tile);
    sc_attention_line(text, "const int64_t unit = sc_block() / %lld, block = sc_block() %% %lld;",
                      blocks, blocks);
    sc_attention_cuda_decode(text, sc_attention_of_unit, "unit");
    sc_attention_open(text, "for (int i = sc_thread(); i < tile * group; i += 128)");
    sc_attention_line(text, "const int row = i / group, part = i %% group;");
    sc_attention_line(text, "const int64_t number = block * tile + row;");
    declare_record(g, chunks);
    sc_attention_line(text, "for (int apart = group / 2; apart > 0; apart /= 2)");
    sc_attention_line(text, "    delta += sc_shuffle_xor(delta, apart);");
    sc_attention_line(text, "if (part != 0)");
    sc_attention_line(text, "    continue;");
    sc_attention_line(text, "low_of[row] = low_of_row;");
    sc_attention_line(text, "high_of[row] = high_of_row;");
    sc_attention_line(text, "const sc_vec<uint32_t, 4> record = {{sc_bits_of_f32(sum), "
                            "sc_bits_of_f32(delta), (uint32_t)low_of_row, "
                            "(uint32_t)high_of_row}};");
    sc_attention_line(text, "sc_store((uint32_t *)scratch + 4 * (unit * %lld + number), record);",
                      (long long)g->padded);
    sc_attention_close(text);
    sc_attention_line(text, "sc_sync();");
    sc_attention_line(text, "if (sc_warp() != 0)");
    sc_attention_line(text, "    return;");
    sc_attention_line(text, "int low = %lld, high = 0, inner_low = 0, inner_high = %lld;", keys,
                      keys);
    sc_attention_open(text, "for (int row = sc_lane(); row < tile; row += 32)");
    sc_attention_line(text, "const int from = low_of[row], to = high_of[row];");
    sc_attention_line(text, "low = from < to && from < low ? from : low;");
    sc_attention_line(text, "high = from < to && to > high ? to : high;");
    sc_attention_line(text, "inner_low = from > inner_low ? from : inner_low;");
    sc_attention_line(text, "inner_high = to < inner_high ? to : inner_high;");
    sc_attention_close(text);
    sc_attention_open(text, "for (int apart = 1; apart < 32; apart *= 2)");
    static const char *const names[] = {"low", "inner_high", "high", "inner_low"};
    for (int i = 0; i < 4; i++) {
        sc_attention_line(text, "const int %s_there = sc_shuffle_xor(%s, apart);", names[i],
                          names[i]);
        sc_attention_line(text, "%s = %s_there %c %s ? %s_there : %s;", names[i], names[i],
                          i < 2 ? '<' : '>', names[i], names[i], names[i]);
    }
    sc_attention_close(text);
    sc_attention_line(text,
                      "const sc_vec<int32_t, 4> hull = {{low, high, inner_low, inner_high}};");
    sc_attention_line(text, "if (sc_lane() == 0)");
    sc_attention_line(text, "    sc_store((int32_t *)(scratch + %lld) + 4 * sc_block(), hull);",
                      (long long)g->hulls_at);
    sc_attention_cuda_end(cuda);
}

/* ---- elements: turns scores and d_scores, still raw dot products, into weights (with dropout) and
 * cotangents of the dot products ---- */

/* `inside`: condition that the query sees the key; `row`: index into places; `sum`, `delta`: of the
 * element's query, after the lines in `declares`. t is the key. `has_scores`: d_scores is
 * computed. */
typedef struct elements {
    const char *inside, *cut, *row, *t, *declares, *sum, *delta;
    bool has_scores;
    const sc_attention_queries *queries; /* NULL: rows are keys */
} elements;

static void differentiate_wide(grad *g, const elements *x)
{
    sc_attention_text *text = g->text;
    const sc_attention_desc *desc = g->desc;
    const char *visible = sc_attention_visible(text), *dropout = desc->p > 0 ? " * factor" : "";
    if (x->queries != NULL)
        sc_attention_declare_bounds(x->queries);
    sc_attention_open_elements(text, "tile");
    sc_attention_line(text, "%s", x->declares);
    sc_attention_line(text, "const int64_t t = %s;", x->t);
    sc_attention_line(text, "const int row = %s;", x->row);
    sc_attention_line(text, "float score = -INFINITY, slope = 1.0f, d_weight = 0.0f;");
    sc_attention_line(text, "(void)row, (void)slope, (void)d_weight;");
    sc_attention_open(text, "if (%s)", x->inside);
    sc_attention_read_places(text, "row");
    sc_attention_open(text, "if (%s)", visible == NULL ? "true" : visible);
    sc_attention_line(text, "score = scores[i][j][c];");
    if (x->has_scores)
        sc_attention_line(text, "d_weight = d_scores[i][j][c];");
    sc_attention_cuda_score(text, true);
    sc_attention_close(text);
    sc_attention_close(text);
    sc_attention_line(text, "const float weight = sc_exp2_fast(score - %s);", x->sum);
    if (desc->p > 0) {
        sc_attention_line(text, "const int64_t weight_row = weight_row_of[row];");
        sc_attention_line(text, "const float factor = %s;", sc_attention_factor_of_key(text));
    }
    sc_attention_line(text, "scores[i][j][c] = weight%s;", dropout);
    if (x->has_scores)
        sc_attention_line(text, "d_scores[i][j][c] = weight * (d_weight%s - %s)%s;", dropout,
                          x->delta, desc->softcap != 0 ? " * slope" : "");
    sc_attention_close_elements(text);
}

static void differentiate(grad *g, const elements *x)
{
    sc_attention_text *text = g->text;
    if (g->is_wide) {
        differentiate_wide(g, x);
        return;
    }
    if (x->cut != NULL) {
        sc_attention_open(text, "if (%s)", x->cut);
        if (x->queries != NULL)
            sc_attention_declare_bounds(x->queries);
        sc_attention_open_elements(text, "tile");
        sc_attention_line(text, "%s", x->declares);
        sc_attention_line(text, "const int t = %s;", x->t);
        sc_attention_line(text, "const bool is_inside = %s;", x->inside);
        sc_attention_line(text, "(void)t;");
        sc_attention_line(text, "scores[i][j][c] = is_inside ? scores[i][j][c] : -INFINITY;");
        if (x->has_scores)
            sc_attention_line(text, "d_scores[i][j][c] = is_inside ? d_scores[i][j][c] : 0.0f;");
        sc_attention_close_elements(text);
        sc_attention_close(text);
    }
    sc_attention_open_elements(text, "tile");
    sc_attention_line(text, "%s", x->declares);
    sc_attention_line(text, "scores[i][j][c] = sc_exp2_fast(scores[i][j][c] * %s - %s);", g->factor,
                      x->sum);
    if (x->has_scores)
        sc_attention_line(text, "d_scores[i][j][c] = scores[i][j][c] * (d_scores[i][j][c] - %s);",
                          x->delta);
    sc_attention_close_elements(text);
}

/* ---- d_k, d_v ---- */

/* NAME_next: the first tile of queries from `at` on in which some query sees a key in low .. high.
 * `found` caches the answer for 32 tiles, one bit each. */
static void emit_next(grad *g)
{
    sc_attention_text *text = g->text;
    long long tiles = (long long)g->tiles;
    sc_attention_line(
        text,
        "SC_DEVICE int %s_next(const int32_t *hulls, int at, uint32_t &found, int low, int high)",
        text->name);
    sc_attention_line(text, "{");
    text->depth++;
    sc_attention_open(text, "for (; at < %lld; at++)", tiles);
    sc_attention_open(text, "if (at %% 32 == 0)");
    sc_attention_line(text, "bool sees = false;");
    sc_attention_open(text, "if (at + sc_lane() < %lld)", tiles);
    sc_attention_line(text,
                      "const sc_vec<int32_t, 4> hull = sc_load<4>(hulls + 4 * (at + sc_lane()));");
    sc_attention_line(text, "sees = hull[0] < high && hull[1] > low;");
    sc_attention_close(text);
    sc_attention_line(text, "found = sc_ballot(sees);");
    sc_attention_close(text);
    sc_attention_line(text, "if ((found >> at %% 32 & 1) != 0)");
    sc_attention_line(text, "    return at;");
    sc_attention_line(text, "if (found >> at %% 32 == 0)");
    sc_attention_line(text, "    at |= 31;");
    sc_attention_close(text);
    sc_attention_line(text, "return %lld;", tiles);
    sc_attention_close(text);
    sc_strbuf_add_char(text->out, '\n');
}

/* Copies the rows of q or d_out of tile `ahead` to `to`. */
static void copy_heads(grad *g, sc_attention_role role, const char *to, const char *head)
{
    sc_attention_text *text = g->text;
    const char *beyond = sc_attention_beyond(text);
    sc_attention_line(text, "#pragma unroll");
    sc_attention_open(text, "for (int i = 0; i < tile * (%s_width / 8); i += threads)", head);
    sc_attention_line(text,
                      "const int row = (i + sc_thread()) / (%s_width / 8), at = (i + sc_thread()) "
                      "%% (%s_width / 8) * 8;",
                      head, head);
    sc_attention_line(text, "const int query = ahead * tile + row;");
    sc_attention_line(text, "if (row >= tile)");
    sc_attention_line(text, "    break;");
    sc_attention_cuda_decode(text, sc_attention_of_row, "query");
    sc_attention_line(text, "const bool is_there = query < %lld && at < %s_size%s%s%s;",
                      (long long)g->rows, head, beyond == NULL ? "" : " && !(",
                      beyond == NULL ? "" : beyond, beyond == NULL ? "" : ")");
    sc_attention_line(text,
                      "const uint16_t *from = %s + %s + at; /* not read where it is not there */",
                      sc_attention_role_name(role), sc_attention_at(text, role, sc_attention_all));
    sc_attention_line(
        text, "sc_copy_async(%s + (to_slot * tile + row) * %s_step + at, from, is_there ? 16 : 0);",
        to, head);
    sc_attention_close(text);
}

/* Copies tile `tile_number` of queries, if it exists, with its records and places, to
 * `slot_number`. */
static void copy_queries(grad *g, const char *tile_number, const char *slot_number)
{
    sc_attention_text *text = g->text;
    sc_attention_open(text, "if (%s < %lld)", tile_number, (long long)g->tiles);
    sc_attention_line(text, "const int ahead = %s, to_slot = %s;", tile_number, slot_number);
    copy_heads(g, SC_ATTENTION_Q, "queries", "e");
    copy_heads(g, SC_ATTENTION_D_OUT, "d_outs", "own");
    sc_attention_line(text, "#pragma unroll");
    sc_attention_open(text, "for (int i = 0; i < tile; i += threads)");
    sc_attention_line(text, "const int row = i + sc_thread();");
    sc_attention_line(text, "if (row < tile)");
    sc_attention_line(text,
                      "    sc_copy_async(records + 4 * (to_slot * tile + row), (const float "
                      "*)scratch + 4 * (%s * %lld + ahead * tile + row), 16);",
                      g->unit, (long long)g->padded);
    sc_attention_close(text);
    if (g->places.count > 0 || g->places.has_weight_row) {
        sc_attention_open(text, "for (int row = sc_thread(); row < tile; row += threads)");
        sc_attention_line(
            text,
            "const int last = %lld, query = ahead * tile + row < last ? ahead * tile + row : last;",
            (long long)g->rows - 1);
        sc_attention_cuda_decode(text, sc_attention_of_row, "query");
        sc_attention_store_places(text, &g->places, "to_slot * tile + row");
        sc_attention_close(text);
    }
    sc_attention_close(text);
}

static void share_keys(grad *g, bool for_keys, uint32_t at[2])
{
    sc_attention_cuda *cuda = g->cuda;
    const sc_attention_cuda_tile *tile = &g->tile;
    int64_t block_keys = 16 * tile->warps * tile->strips;
    /* reused for the sums */
    at[0] = sc_attention_cuda_share(cuda, "uint16_t", "keys", 2, block_keys * g->e.step);
    at[1] = for_keys
                ? sc_attention_cuda_share(cuda, "uint16_t", "values", 2, block_keys * g->own.step)
                : 0;
    sc_attention_cuda_share(cuda, "uint16_t", "queries", 2, 2 * (int64_t)tile->tile * g->e.step);
    sc_attention_cuda_share(cuda, "uint16_t", "d_outs", 2, 2 * (int64_t)tile->tile * g->own.step);
    sc_attention_cuda_share(cuda, "float", "records", 4, 8 * (int64_t)tile->tile);
    sc_attention_share_places(cuda, &g->places, 2 * (int64_t)tile->tile);
}

static void begin_keys(grad *g, bool for_keys, uint32_t at[2])
{
    sc_attention_cuda *cuda = g->cuda;
    sc_attention_text *text = g->text;
    const sc_attention_cuda_tile *tile = &g->tile;
    long long keys = (long long)g->desc->t.size, block_keys = 16 * tile->warps * tile->strips;
    long long k_step = (long long)g->desc->t.strides[SC_ATTENTION_K],
              v_step = (long long)g->desc->t.strides[SC_ATTENTION_V];
    sc_attention_cuda_begin(cuda, g->units * ((keys + block_keys - 1) / block_keys),
                            32 * (uint32_t)tile->warps, tile->resident);
    sc_attention_line(text,
                      "constexpr int warps = %d, strips = %d, tile = %d, threads = 32 * warps, "
                      "block_keys = 16 * warps * strips;",
                      tile->warps, tile->strips, tile->tile);
    sc_attention_line(text,
                      "constexpr int e_size = %d, e_width = %d, e_step = %d, own_size = %d, "
                      "own_width = %d, own_step = %d;",
                      g->e.size, g->e.width, g->e.step, g->own.size, g->own.width, g->own.step);
    share_keys(g, for_keys, at);
    /* The first keys of a causal mask have the most work. */
    sc_attention_line(text, "const int64_t unit = sc_block() %% %lld;", (long long)g->units);
    sc_attention_line(
        text, "const int first_key = (int)(sc_block() / %lld) * block_keys, lane = sc_lane();",
        (long long)g->units);
    sc_attention_line(
        text, "const int warp_row = sc_warp() * 16 * strips, warp_low = first_key + warp_row;");
    sc_attention_line(
        text,
        "const int warp_high = warp_low + 16 * strips < %lld ? warp_low + 16 * strips : %lld;",
        keys, keys);
    sc_attention_cuda_decode(text, sc_attention_of_unit, "unit");
    sc_attention_line(text,
                      "%s_copy<block_keys, e_size, e_width, threads>(keys, k + %s + first_key * "
                      "%lldll, %lld, 0, %lld - first_key);",
                      text->name, sc_attention_at(text, SC_ATTENTION_K, sc_attention_of_unit),
                      k_step, k_step, keys);
    if (for_keys)
        sc_attention_line(text,
                          "%s_copy<block_keys, own_size, own_width, threads>(values, v + %s + "
                          "first_key * %lldll, %lld, 0, %lld - first_key);",
                          text->name, sc_attention_at(text, SC_ATTENTION_V, sc_attention_of_unit),
                          v_step, v_step, keys);
}

/* The loop over tiles of queries, around the matmuls. */
static void run_queries(grad *g, bool for_keys, bool for_values)
{
    sc_attention_text *text = g->text;
    const char *next = "number + 1", *name = text->name;
    if (g->has_interval) {
        sc_attention_line(
            text,
            "const int32_t *const hulls = (const int32_t *)(scratch + %lld) + 4 * (%s * %lld);",
            (long long)g->hulls_at, g->unit, (long long)(g->padded / g->tile.tile));
        sc_attention_line(text, "const int block_high = first_key + block_keys;");
        sc_attention_line(text, "uint32_t found = 0;");
        sc_attention_line(text, "int number = %s_next(hulls, 0, found, first_key, block_high);",
                          name);
        next = sc_arena_printf(text->arena,
                               "%s_next(hulls, number + 1, found, first_key, block_high)", name);
    } else {
        sc_attention_line(text, "int number = 0;");
    }
    copy_queries(g, "number", "0");
    sc_attention_line(text, "sc_copy_commit();");
    sc_attention_open(text, "for (int slot = 0; number < %lld; slot = 1 - slot)",
                      (long long)g->tiles);
    sc_attention_line(text, "const int next = %s;", next);
    if (g->has_interval) {
        sc_attention_line(text, "const sc_vec<int32_t, 4> hull = sc_load<4>(hulls + 4 * number);");
        sc_attention_line(text, "const bool is_seen = hull[0] < warp_high && hull[1] > warp_low;");
        sc_attention_line(text, "const bool is_cut = hull[2] > warp_low || hull[3] < warp_high;");
    }
    sc_attention_line(text, "sc_copy_wait<0>();");
    sc_attention_line(text, "sc_sync();");
    copy_queries(g, "next", "1 - slot");
    sc_attention_line(text, "sc_copy_commit();");
    if (g->has_interval)
        sc_attention_open(text, "if (is_seen)");
    sc_attention_line(text, "float scores[strips][tile / 8][4] = {};");
    sc_attention_line(text,
                      "%s_matmul<strips, tile, e_width>(scores, keys + warp_row * e_step, queries "
                      "+ slot * tile * e_step);",
                      name);
    if (for_keys) {
        sc_attention_line(text, "float d_scores[strips][tile / 8][4] = {};");
        sc_attention_line(text,
                          "%s_matmul<strips, tile, own_width>(d_scores, values + warp_row * "
                          "own_step, d_outs + slot * tile * own_step);",
                          name);
    }
    elements x = {
        .inside =
            g->has_interval || g->is_wide
                ? "(t >= (int)sc_bits_of_f32(record[2])) & (t < (int)sc_bits_of_f32(record[3]))"
                : NULL,
        .cut = g->has_interval ? "is_cut" : NULL,
        .row = "slot * tile + column",
        .t = "warp_low + 8 * r + lane / 4",
        .declares = "const sc_vec<float, 4> record = records.load<4>(4 * (slot * tile + column));",
        .sum = "record[0]",
        .delta = "record[1]",
        .has_scores = for_keys};
    differentiate(g, &x);
    if (for_values)
        sc_attention_line(text,
                          "%s_add_weighted<strips, tile, own_width>(d_values, scores, d_outs + "
                          "slot * tile * own_step);",
                          name);
    if (for_keys)
        sc_attention_line(text,
                          "%s_add_weighted<strips, tile, e_width>(d_keys, d_scores, queries + slot "
                          "* tile * e_step);",
                          name);
    if (g->has_interval)
        sc_attention_close(text);
    sc_attention_line(text, "number = next;");
    sc_attention_close(text);
}

/* Writes the warp's sums through its rows of keys or values in shared memory, which no other warp
 * reads. */
static void write_sums(grad *g, sc_attention_role role, const char *sums, const char *from,
                       uint32_t at, const char *head, double factor)
{
    sc_attention_text *text = g->text;
    sc_attention_line(text, "float factors_of_%s[2 * strips];", sums);
    sc_attention_line(text, "#pragma unroll");
    sc_attention_line(text, "for (int r = 0; r < 2 * strips; r++)");
    sc_attention_line(text, "    factors_of_%s[r] = %s;", sums, sc_attention_number(text, factor));
    sc_attention_line(text,
                      "%s_round<strips, %s_width>(%u + warp_row * %s_step * 2, %s, factors_of_%s);",
                      text->name, head, at, head, sums, sums);
    sc_attention_line(text, "sc_sync_warp();");
    sc_attention_open(text, "for (int i = lane; i < 16 * strips * (%s_size / 8); i += 32)", head);
    sc_attention_line(text,
                      "const int row = warp_row + i / (%s_size / 8), at = i %% (%s_size / 8) * 8;",
                      head, head);
    sc_attention_line(text, "if (first_key + row < %lld)", (long long)g->desc->t.size);
    sc_attention_line(
        text,
        "    sc_store(%s + %s + (first_key + row) * %lldll + at, %s.load<8>(row * %s_step + at));",
        sc_attention_role_name(role), sc_attention_at(text, role, sc_attention_of_unit),
        (long long)g->desc->t.strides[role], from, head);
    sc_attention_close(text);
}

static void emit_keys(grad *g, bool for_keys, bool for_values)
{
    sc_attention_text *text = g->text;
    uint32_t at[2];
    begin_keys(g, for_keys, at);
    if (for_keys)
        sc_attention_line(text, "float d_keys[strips][e_width / 8][4] = {};");
    if (for_values)
        sc_attention_line(text, "float d_values[strips][own_width / 8][4] = {};");
    run_queries(g, for_keys, for_values);
    sc_attention_line(text, "sc_copy_wait<0>();");
    sc_attention_line(text, "sc_sync();");
    if (for_keys)
        write_sums(g, SC_ATTENTION_D_K, "d_keys", "keys", at[0], "e", g->desc->scale);
    if (for_values)
        write_sums(g, SC_ATTENTION_D_V, "d_values", for_keys ? "values" : "keys", at[for_keys],
                   "own", 1);
    sc_attention_cuda_end(g->cuda);
}

/* ---- d_q ---- */

static void emit_queries(grad *g)
{
    static const sc_attention_role roles[] = {SC_ATTENTION_Q, SC_ATTENTION_D_OUT, SC_ATTENTION_D_Q};
    sc_attention_cuda *cuda = g->cuda;
    sc_attention_text *text = g->text;
    sc_attention_queries q =
        sc_attention_queries_of(cuda, &cuda->tiles->d_q, 1, roles, sizeof roles / sizeof *roles);
    sc_attention_begin_queries(&q);
    sc_attention_cuda_share(cuda, "uint16_t", "d_outs", 2, q.block_rows * (int64_t)g->own.step);
    sc_attention_store_rows(&q);
    sc_attention_declare_hull(&q);
    sc_attention_begin_copies(&q);
    sc_attention_line(text, "float sums[strips][e_width / 8][4] = {}, sum_of_row[2 * strips], "
                            "delta_of_row[2 * strips], factors[2 * strips];");
    sc_attention_line(text, "#pragma unroll");
    sc_attention_open(text, "for (int r = 0; r < 2 * strips; r++)");
    sc_attention_line(
        text, "const int64_t row = unit * %lld + block * block_rows + warp_row + 8 * r + lane / 4;",
        (long long)g->padded);
    sc_attention_line(
        text, "const sc_vec<float, 4> record = sc_load<4>((const float *)scratch + 4 * row);");
    sc_attention_line(text, "sum_of_row[r] = record[0];");
    sc_attention_line(text, "delta_of_row[r] = record[1];");
    sc_attention_line(text, "factors[r] = %s;", sc_attention_number(text, g->desc->scale));
    sc_attention_close(text);
    sc_attention_open_tiles(&q);
    sc_attention_line(
        text, "float scores[strips][tile / 8][4] = {}, d_scores[strips][tile / 8][4] = {};");
    sc_attention_line(text,
                      "%s_matmul<strips, tile, e_width>(scores, queries + warp_row * e_step, keys "
                      "+ slot * tile * e_step);",
                      text->name);
    sc_attention_line(text,
                      "%s_matmul<strips, tile, own_width>(d_scores, d_outs + warp_row * own_step, "
                      "values + slot * tile * own_step);",
                      text->name);
    elements x = {.inside = sc_attention_inside(&q),
                  .cut = sc_attention_cut(&q),
                  .row = "warp_row + 8 * r + lane / 4",
                  .t = "begin + column",
                  .declares = "",
                  .sum = "sum_of_row[r]",
                  .delta = "delta_of_row[r]",
                  .has_scores = true,
                  .queries = &q};
    differentiate(g, &x);
    sc_attention_line(
        text,
        "%s_add_weighted<strips, tile, e_width>(sums, d_scores, keys + slot * tile * e_step);",
        text->name);
    sc_attention_close(text);
    sc_attention_line(text, "sc_copy_wait<0>();");
    sc_attention_line(text, "sc_sync();");
    sc_attention_write_rows(&q, SC_ATTENTION_D_Q, "e");
    sc_attention_cuda_end(cuda);
}

void sc_attention_cuda_grad(sc_attention_cuda *cuda)
{
    const sc_attention_desc *desc = cuda->text.desc;
    const sc_attention_cuda_tile *keys = &cuda->tiles->d_k_d_v, *queries = &cuda->tiles->d_q;
    grad g = {.cuda = cuda,
              .text = &cuda->text,
              .desc = desc,
              .tile = *keys,
              .e = sc_attention_head_of(desc->e.size),
              .own = sc_attention_head_of(desc->own[0].size),
              .units = sc_attention_units(desc),
              .rows = sc_attention_rows(desc),
              .has_interval = sc_attention_has_interval(desc),
              .is_wide = desc->arrays[SC_ATTENTION_BIAS].is_there ||
                         sc_attention_has_visible(desc) || desc->softcap != 0 || desc->p > 0,
              .factor = sc_attention_number(&cuda->text, desc->scale * SC_LOG2_E),
              .places = sc_attention_places_of(desc, NULL, 0)};
    g.padded = round_up(g.rows, common_multiple(keys->tile, 16 * queries->warps * queries->strips));
    g.tiles = (g.rows + keys->tile - 1) / keys->tile;
    g.unit = 4 * g.units * g.padded < INT32_MAX ? "(int)unit" : "unit";
    g.hulls_at = g.units * g.padded * RECORD;
    cuda->code->scratch_bytes = g.hulls_at + g.units * (g.padded / keys->tile) * HULL;
    bool splits = keys->strips * (g.e.width + g.own.width) > MAX_SUMS;
    emit_records(&g);
    if (g.has_interval)
        emit_next(&g);
    if (splits)
        emit_keys(&g, false, true);
    emit_keys(&g, true, !splits);
    emit_queries(&g);
}
