/* Blocks of queries against tiles of keys on GPUs, for forward and d_q: row offsets, key intervals,
 * copies, masks, results. */
#include "codegen/attention/cuda_internal.h"

sc_attention_places sc_attention_places_of(const sc_attention_desc *desc,
                                           const sc_attention_role *more, size_t count)
{
    static const sc_attention_role always[] = {SC_ATTENTION_KEEP, SC_ATTENTION_BIAS,
                                               SC_ATTENTION_SEGMENTS, SC_ATTENTION_KEY_SEGMENTS};
    sc_attention_places places = {.has_weight_row = desc->p > 0};
    for (size_t i = 0; i < count; i++) {
        if (desc->arrays[more[i]].is_there)
            places.roles[places.count++] = more[i];
    }
    places.of_rows = places.count;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        if (desc->arrays[always[i]].is_there)
            places.roles[places.count++] = always[i];
    }
    return places;
}

void sc_attention_share_places(sc_attention_cuda *cuda, const sc_attention_places *places,
                               int64_t rows)
{
    for (uint32_t i = 0; i < places->count; i++)
        sc_attention_cuda_share(
            cuda, "int64_t",
            sc_arena_printf(cuda->text.arena, "%s_of", sc_attention_role_name(places->roles[i])), 8,
            rows);
    if (places->has_weight_row)
        sc_attention_cuda_share(cuda, "int64_t", "weight_row_of", 8, rows);
}

void sc_attention_store_places(sc_attention_text *text, const sc_attention_places *places,
                               const char *row)
{
    for (uint32_t i = 0; i < places->count; i++) {
        const char *name = sc_attention_role_name(places->roles[i]);
        sc_attention_line(text, "%s_of[%s] = %s;", name, row,
                          sc_attention_at(text, places->roles[i], sc_attention_all));
    }
    sc_attention_declare_row(text);
    if (places->has_weight_row)
        sc_attention_line(text, "weight_row_of[%s] = weight_row;", row);
}

void sc_attention_read_places(sc_attention_text *text, const char *row)
{
    const sc_attention_desc *desc = text->desc;
    sc_attention_places places = sc_attention_places_of(desc, NULL, 0);
    for (uint32_t i = 0; i < places.count; i++) {
        const char *name = sc_attention_role_name(places.roles[i]);
        sc_attention_line(text, "const int64_t %s_at = %s_of[%s];", name, name, row);
    }
    if (places.has_weight_row)
        sc_attention_line(text, "const int64_t weight_row = weight_row_of[%s];", row);
}

void sc_attention_open_elements(sc_attention_text *text, const char *columns)
{
    static const char *const loops[] = {"int i = 0; i < strips; i++", NULL,
                                        "int c = 0; c < 4; c++"};
    for (int i = 0; i < 3; i++) {
        sc_attention_line(text, "#pragma unroll");
        sc_attention_open(text, "for (%s)",
                          i == 1
                              ? sc_arena_printf(text->arena, "int j = 0; j < %s / 8; j++", columns)
                              : loops[i]);
    }
    sc_attention_line(text,
                      "const int r = 2 * i + c / 2, column = 8 * j + 2 * (lane & 3) + c %% 2;");
    sc_attention_line(text, "(void)r, (void)column;");
}

void sc_attention_close_elements(sc_attention_text *text)
{
    for (int i = 0; i < 3; i++)
        sc_attention_close(text);
}

void sc_attention_cuda_score(sc_attention_text *text, bool has_slope)
{
    const sc_attention_desc *desc = text->desc;
    if (desc->softcap != 0) {
        /* tanh(x) = 1 - 2 / (exp(2 x) + 1); the score's error is 1e-7 times the cap. */
        double times = 2 * SC_LOG2_E * desc->scale / desc->softcap;
        sc_attention_line(text,
                          "const float part = 1.0f - 2.0f / (sc_exp2_fast(score * %s) + 1.0f);",
                          sc_attention_number(text, times));
        sc_attention_line(text, "score = part * %s;",
                          sc_attention_number(text, desc->softcap * SC_LOG2_E));
        if (has_slope)
            sc_attention_line(text, "slope = 1.0f - part * part;");
    } else {
        sc_attention_line(text, "score *= %s;", sc_attention_number(text, desc->scale * SC_LOG2_E));
    }
    if (desc->arrays[SC_ATTENTION_BIAS].is_there)
        sc_attention_line(text, "score += %s * %s;", sc_attention_bias_of_key(text),
                          sc_attention_number(text, SC_LOG2_E));
}

/* ---- blocks of queries ---- */

sc_attention_queries sc_attention_queries_of(sc_attention_cuda *cuda,
                                             const sc_attention_cuda_tile *tile, int parts,
                                             const sc_attention_role *roles, size_t count)
{
    const sc_attention_desc *desc = cuda->text.desc;
    sc_attention_queries q = {.cuda = cuda,
                              .text = &cuda->text,
                              .desc = desc,
                              .tile = *tile,
                              .e = sc_attention_head_of(desc->e.size),
                              .own = sc_attention_head_of(desc->own[0].size),
                              .rows = sc_attention_rows(desc),
                              .block_rows = 16 * tile->warps * tile->strips,
                              .parts = parts,
                              .has_interval = sc_attention_has_interval(desc),
                              .places = sc_attention_places_of(desc, roles, count)};
    q.blocks = (q.rows + q.block_rows - 1) / q.block_rows;
    return q;
}

void sc_attention_declare_sizes(sc_attention_queries *q)
{
    sc_attention_text *text = q->text;
    const sc_attention_cuda_tile *tile = &q->tile;
    sc_attention_line(text,
                      "constexpr int warps = %d, strips = %d, tile = %d, stages = %d, threads = 32 "
                      "* warps, block_rows = 16 * warps * strips;",
                      tile->warps, tile->strips, tile->tile, tile->stages);
    sc_attention_line(text,
                      "constexpr int e_size = %d, e_width = %d, e_step = %d, own_size = %d, "
                      "own_width = %d, own_step = %d;",
                      q->e.size, q->e.width, q->e.step, q->own.size, q->own.width, q->own.step);
    sc_attention_line(text, "const int lane = sc_lane(), warp_row = sc_warp() * 16 * strips;");
}

void sc_attention_share_queries(sc_attention_queries *q)
{
    sc_attention_cuda *cuda = q->cuda;
    int64_t step = q->e.step > q->own.step ? q->e.step : q->own.step;
    /* reused for the results */
    q->queries_at = sc_attention_cuda_share(cuda, "uint16_t", "queries", 2, q->block_rows * step);
    sc_attention_cuda_share(cuda, "uint16_t", "keys", 2,
                            (int64_t)q->tile.stages * q->tile.tile * q->e.step);
    sc_attention_cuda_share(cuda, "uint16_t", "values", 2,
                            (int64_t)q->tile.stages * q->tile.tile * q->own.step);
    sc_attention_share_places(cuda, &q->places, q->block_rows);
    if (q->has_interval) {
        sc_attention_cuda_share(cuda, "int32_t", "low_of", 4, q->block_rows);
        sc_attention_cuda_share(cuda, "int32_t", "high_of", 4, q->block_rows);
    }
}

void sc_attention_store_rows(sc_attention_queries *q)
{
    sc_attention_text *text = q->text;
    const char *beyond = sc_attention_beyond(text);
    long long keys = (long long)q->desc->t.size;
    sc_attention_open(text, "for (int row = sc_thread(); row < block_rows; row += threads)");
    sc_attention_line(text, "const int64_t number = block * block_rows + row;");
    sc_attention_open(text, "if (number >= %lld)", (long long)q->rows);
    for (uint32_t i = 0; i < q->places.count; i++)
        sc_attention_line(text, "%s_of[row] = %d;", sc_attention_role_name(q->places.roles[i]),
                          i < q->places.of_rows ? -1 : 0);
    if (q->places.has_weight_row)
        sc_attention_line(text, "weight_row_of[row] = 0;");
    if (q->has_interval)
        sc_attention_line(text, "low_of[row] = high_of[row] = 0;");
    sc_attention_line(text, "continue;");
    sc_attention_close(text);
    sc_attention_cuda_decode(text, sc_attention_of_row, "number");
    sc_attention_store_places(text, &q->places, "row");
    if (q->has_interval) {
        sc_attention_declare_interval(text);
        sc_attention_line(text, "low_of[row] = (int32_t)(low < %lld ? low : %lld);", keys, keys);
        sc_attention_line(text, "high_of[row] = (int32_t)(high < %lld ? high : %lld);", keys, keys);
    }
    if (beyond != NULL) {
        sc_attention_open(text, "if (%s) /* padding */", beyond);
        for (uint32_t i = 0; i < q->places.of_rows; i++) {
            if (!sc_attention_is_written(q->desc, q->places.roles[i]))
                sc_attention_line(text, "%s_of[row] = -1;",
                                  sc_attention_role_name(q->places.roles[i]));
        }
        if (q->has_interval)
            sc_attention_line(text, "low_of[row] = high_of[row] = 0;");
        sc_attention_close(text);
    }
    sc_attention_close(text);
    sc_attention_line(text, "sc_sync();");
}

/* Splits the keys into parts of whole tiles, except the last. */
static void take_part(sc_attention_queries *q)
{
    sc_attention_text *text = q->text;
    if (q->parts == 1)
        return;
    sc_attention_line(text,
                      "const int seen = block_high > block_low ? block_high - block_low : 0;");
    sc_attention_line(text, "const int share = (seen + %d * tile - 1) / (%d * tile) * tile;",
                      q->parts, q->parts);
    sc_attention_line(text, "block_high = (part + 1) * share < seen ? block_low + (part + 1) * "
                            "share : block_low + seen;");
    sc_attention_line(text, "block_low += part * share;");
}

void sc_attention_declare_hull(sc_attention_queries *q)
{
    sc_attention_text *text = q->text;
    long long keys = (long long)q->desc->t.size;
    if (!q->has_interval) {
        sc_attention_line(text, "int block_low = 0, block_high = %lld;", keys);
        take_part(q);
        return;
    }
    sc_attention_line(text,
                      "int block_low = %lld, block_high = 0, warp_low = %lld, warp_high = 0, "
                      "inner_low = 0, inner_high = %lld;",
                      keys, keys, keys);
    sc_attention_open(text, "for (int row = lane; row < block_rows; row += 32)");
    sc_attention_line(text, "const int low = low_of[row], high = high_of[row];");
    sc_attention_line(text, "block_low = low < high && low < block_low ? low : block_low;");
    sc_attention_line(text, "block_high = low < high && high > block_high ? high : block_high;");
    sc_attention_close(text);
    sc_attention_line(text, "#pragma unroll");
    sc_attention_open(text, "for (int r = 0; r < 2 * strips; r++)");
    sc_attention_line(text, "const int low = low_of[warp_row + 8 * r + lane / 4], high = "
                            "high_of[warp_row + 8 * r + lane / 4];");
    sc_attention_line(text, "warp_low = low < high && low < warp_low ? low : warp_low;");
    sc_attention_line(text, "warp_high = low < high && high > warp_high ? high : warp_high;");
    sc_attention_line(text, "inner_low = low > inner_low ? low : inner_low;");
    sc_attention_line(text, "inner_high = high < inner_high ? high : inner_high;");
    sc_attention_close(text);
    sc_attention_open(text, "for (int apart = 1; apart < 32; apart *= 2)");
    static const char *const least[] = {"block_low", "warp_low", "inner_high"}, *const most[] = {
                                                                                    "block_high",
                                                                                    "warp_high",
                                                                                    "inner_low"};
    for (int i = 0; i < 3; i++) {
        sc_attention_line(
            text,
            "const int %s_there = sc_shuffle_xor(%s, apart), %s_there = sc_shuffle_xor(%s, apart);",
            least[i], least[i], most[i], most[i]);
        sc_attention_line(text, "%s = %s_there < %s ? %s_there : %s;", least[i], least[i], least[i],
                          least[i], least[i]);
        sc_attention_line(text, "%s = %s_there > %s ? %s_there : %s;", most[i], most[i], most[i],
                          most[i], most[i]);
    }
    sc_attention_close(text);
    take_part(q);
}

/* Copies the tile that begins at key `from`, if there is one, to the slot. */
static void copy_tile(sc_attention_queries *q, const char *from, const char *slot)
{
    sc_attention_text *text = q->text;
    long long k_step = (long long)q->desc->t.strides[SC_ATTENTION_K],
              v_step = (long long)q->desc->t.strides[SC_ATTENTION_V];
    sc_attention_open(text, "if (%s < block_high)", from);
    sc_attention_line(text, "const int from = %s, to_slot = %s, end = block_high - from;", from,
                      slot);
    sc_attention_line(text,
                      "%s_copy<tile, e_size, e_width, threads>(keys + to_slot * tile * e_step, k + "
                      "k_at + from * %lldll, %lld, 0, end);",
                      text->name, k_step, k_step);
    sc_attention_line(text,
                      "%s_copy<tile, own_size, own_width, threads>(values + to_slot * tile * "
                      "own_step, v + v_at + from * %lldll, %lld, 0, end);",
                      text->name, v_step, v_step);
    sc_attention_close(text);
}

void sc_attention_begin_queries(sc_attention_queries *q)
{
    sc_attention_text *text = q->text;
    long long units = (long long)sc_attention_units(q->desc), blocks = (long long)q->blocks;
    sc_attention_cuda_begin(q->cuda, units * blocks * q->parts, 32 * (uint32_t)q->tile.warps,
                            q->tile.resident);
    sc_attention_declare_sizes(q);
    /* The last blocks of a causal mask have the most work. */
    sc_attention_line(
        text, "const int64_t unit = sc_block() %% %lld, block = %lld - sc_block() / %lld %% %lld;",
        units, blocks - 1, units, blocks);
    if (q->parts > 1)
        sc_attention_line(text, "const int part = (int)(sc_block() / %lld);", units * blocks);
    sc_attention_cuda_decode(text, sc_attention_of_unit, "unit");
    sc_attention_line(text, "const int64_t k_at = %s, v_at = %s;",
                      sc_attention_at(text, SC_ATTENTION_K, sc_attention_of_unit),
                      sc_attention_at(text, SC_ATTENTION_V, sc_attention_of_unit));
    sc_attention_share_queries(q);
}

void sc_attention_open_tiles(sc_attention_queries *q)
{
    sc_attention_text *text = q->text;
    sc_attention_open(text, "for (int begin = block_low, slot = 0; begin < block_high; begin += "
                            "tile, slot = (slot + 1) %% stages)");
    sc_attention_line(text, "sc_copy_wait<stages - 2>();");
    sc_attention_line(text, "sc_sync();");
    copy_tile(q, "begin + (stages - 1) * tile", "(slot + stages - 1) % stages");
    sc_attention_line(text, "sc_copy_commit();");
    if (!q->has_interval)
        return;
    sc_attention_line(text, "if (begin >= warp_high || begin + tile <= warp_low)");
    sc_attention_line(text, "    continue;");
}

void sc_attention_begin_copies(sc_attention_queries *q)
{
    sc_attention_text *text = q->text;
    for (uint32_t i = 0; i < q->places.of_rows; i++) {
        sc_attention_role role = q->places.roles[i];
        bool is_q = role == SC_ATTENTION_Q;
        if (is_q || role == SC_ATTENTION_D_OUT)
            sc_attention_line(text, "%s_gather<block_rows, %s, threads>(%s, %s, %s_of);",
                              text->name, is_q ? "e_size, e_width" : "own_size, own_width",
                              is_q ? "queries" : "d_outs", sc_attention_role_name(role),
                              sc_attention_role_name(role));
    }
    sc_attention_line(text, "#pragma unroll");
    sc_attention_open(text, "for (int ahead = 0; ahead < stages - 1; ahead++)");
    copy_tile(q, "block_low + ahead * tile", "ahead");
    sc_attention_line(text, "sc_copy_commit();");
    sc_attention_close(text);
}

const char *sc_attention_inside(const sc_attention_queries *q)
{
    return q->has_interval ? "(begin + column >= lows[r]) & (begin + column < highs[r])"
                           : "begin + column < block_high";
}

void sc_attention_declare_bounds(const sc_attention_queries *q)
{
    sc_attention_text *text = q->text;
    if (!q->has_interval)
        return;
    sc_attention_line(text, "int lows[2 * strips], highs[2 * strips];");
    sc_attention_line(text, "#pragma unroll");
    sc_attention_open(text, "for (int r = 0; r < 2 * strips; r++)");
    sc_attention_line(text, "lows[r] = low_of[warp_row + 8 * r + lane / 4];");
    sc_attention_line(text, "highs[r] = high_of[warp_row + 8 * r + lane / 4];");
    sc_attention_close(text);
}

const char *sc_attention_cut(const sc_attention_queries *q)
{
    return q->has_interval ? "begin < inner_low || begin + tile > inner_high"
                           : "begin + tile > block_high";
}

void sc_attention_write_rows(sc_attention_queries *q, sc_attention_role role, const char *head)
{
    sc_attention_text *text = q->text;
    const char *name = sc_attention_role_name(role);
    sc_attention_line(text,
                      "%s_round<strips, %s_width>(%u + warp_row * %s_step * 2, sums, factors);",
                      text->name, head, q->queries_at, head);
    sc_attention_line(text, "sc_sync_warp();");
    sc_attention_open(text, "for (int i = lane; i < 16 * strips * (%s_size / 8); i += 32)", head);
    sc_attention_line(text,
                      "const int row = warp_row + i / (%s_size / 8), at = i %% (%s_size / 8) * 8;",
                      head, head);
    sc_attention_line(text, "const int64_t place = %s_of[row];", name);
    sc_attention_line(text, "if (place >= 0)");
    sc_attention_line(text, "    sc_store(%s + place + at, queries.load<8>(row * %s_step + at));",
                      name, head);
    sc_attention_close(text);
}
