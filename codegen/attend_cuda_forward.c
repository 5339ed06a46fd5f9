/* Attention of 16-bit elements on cards, forward (Dao, "FlashAttention-2", 2023, algorithm 1): a block holds some queries of a unit - with
 * the heads that share keys, since these are rows as positions are - and runs over tiles of keys and values, which are on their way to
 * shared memory while earlier ones are used. A warp holds whole strips of 16 queries: scores, weights and sums stay in its registers, and
 * what a row needs of other lanes is in the three next to it.
 *
 * Scores are kept as products come, or in base 2 where caps and biases need a pass over them anyway; `factor` takes them to base 2. */
#include "codegen/attend_cuda_emit.h"

typedef struct forward {
    sc_attend_cuda *cuda;
    sc_attend_text *text;
    const sc_attend_desc *desc;
    sc_attend_cuda_tile tile;
    sc_attend_head e, own;
    int64_t rows, blocks; /* of a unit: queries, blocks of them */
    int block_rows;
    bool has_interval, is_wide /* a pass over scores reads what elements have of their own */, is_based /* scores are in base 2 */;
    const char *factor;
    sc_attend_places places;
    uint32_t queries_at;
} forward;

static void declare_sizes(forward *f)
{
    sc_attend_text *text = f->text;
    const sc_attend_cuda_tile *tile = &f->tile;
    sc_attend_line(text,
                   "constexpr int warps = %d, strips = %d, tile = %d, stages = %d, threads = 32 * warps, block_rows = 16 * warps * strips;",
                   tile->warps, tile->strips, tile->tile, tile->stages);
    sc_attend_line(text, "constexpr int e_size = %d, e_width = %d, e_step = %d, own_size = %d, own_width = %d, own_step = %d;", f->e.size,
                   f->e.width, f->e.step, f->own.size, f->own.width, f->own.step);
    sc_attend_line(text, "const int lane = sc_lane(), warp_row = sc_warp() * 16 * strips;");
}

static void share(forward *f)
{
    sc_attend_cuda *cuda = f->cuda;
    int64_t step = f->e.step > f->own.step ? f->e.step : f->own.step;
    f->queries_at = sc_attend_cuda_share(cuda, "uint16_t", "queries", 2, f->block_rows * step); /* then, the results */
    sc_attend_cuda_share(cuda, "uint16_t", "keys", 2, (int64_t)f->tile.stages * f->tile.tile * f->e.step);
    sc_attend_cuda_share(cuda, "uint16_t", "values", 2, (int64_t)f->tile.stages * f->tile.tile * f->own.step);
    sc_attend_share_places(cuda, &f->places, f->block_rows);
    if (f->has_interval) {
        sc_attend_cuda_share(cuda, "int32_t", "low_of", 4, f->block_rows);
        sc_attend_cuda_share(cuda, "int32_t", "high_of", 4, f->block_rows);
    }
}

/* Of each row: where its arrays are - q below 0 for one that is not there or is padding, out below 0 for one that is not there - and its
 * keys. */
static void keep_rows(forward *f)
{
    sc_attend_text *text = f->text;
    const char *beyond = sc_attend_beyond(text);
    long long keys = (long long)f->desc->t.size;
    sc_attend_open(text, "for (int row = sc_thread(); row < block_rows; row += threads)");
    sc_attend_line(text, "const int64_t number = block * block_rows + row;");
    sc_attend_open(text, "if (number >= %lld)", (long long)f->rows);
    for (uint32_t i = 0; i < f->places.count; i++)
        sc_attend_line(text, "%s_of[row] = %d;", sc_attend_role_name(f->places.roles[i]), i < 2 ? -1 : 0);
    if (f->places.has_weight_row)
        sc_attend_line(text, "weight_row_of[row] = 0;");
    if (f->has_interval)
        sc_attend_line(text, "low_of[row] = high_of[row] = 0;");
    sc_attend_line(text, "continue;");
    sc_attend_close(text);
    sc_attend_cuda_decode(text, sc_attend_of_row, "number");
    sc_attend_keep_places(text, &f->places, "row");
    if (f->has_interval) {
        sc_attend_declare_interval(text);
        sc_attend_line(text, "low_of[row] = (int32_t)(low < %lld ? low : %lld);", keys, keys);
        sc_attend_line(text, "high_of[row] = (int32_t)(high < %lld ? high : %lld);", keys, keys);
    }
    if (beyond != NULL) {
        sc_attend_open(text, "if (%s) /* padding */", beyond);
        sc_attend_line(text, "q_of[row] = -1;");
        if (f->has_interval)
            sc_attend_line(text, "low_of[row] = high_of[row] = 0;");
        sc_attend_close(text);
    }
    sc_attend_close(text);
    sc_attend_line(text, "sc_sync();");
}

/* The keys from low to high that some query of the block sees, of the warp sees (warp_), that all of the warp see (inner_). */
static void declare_hull(forward *f)
{
    sc_attend_text *text = f->text;
    long long keys = (long long)f->desc->t.size;
    if (!f->has_interval) {
        sc_attend_line(text, "const int block_low = 0, block_high = %lld;", keys);
        return;
    }
    sc_attend_line(text, "int block_low = %lld, block_high = 0, warp_low = %lld, warp_high = 0, inner_low = 0, inner_high = %lld;", keys,
                   keys, keys);
    sc_attend_open(text, "for (int row = lane; row < block_rows; row += 32)");
    sc_attend_line(text, "const int low = low_of[row], high = high_of[row];");
    sc_attend_line(text, "block_low = low < high && low < block_low ? low : block_low;");
    sc_attend_line(text, "block_high = low < high && high > block_high ? high : block_high;");
    sc_attend_close(text);
    sc_attend_line(text, "int low_of_row[2 * strips], high_of_row[2 * strips];");
    sc_attend_line(text, "#pragma unroll");
    sc_attend_open(text, "for (int r = 0; r < 2 * strips; r++)");
    sc_attend_line(text, "const int low = low_of[warp_row + 8 * r + lane / 4], high = high_of[warp_row + 8 * r + lane / 4];");
    sc_attend_line(text, "low_of_row[r] = low;");
    sc_attend_line(text, "high_of_row[r] = high;");
    sc_attend_line(text, "warp_low = low < high && low < warp_low ? low : warp_low;");
    sc_attend_line(text, "warp_high = low < high && high > warp_high ? high : warp_high;");
    sc_attend_line(text, "inner_low = low > inner_low ? low : inner_low;");
    sc_attend_line(text, "inner_high = high < inner_high ? high : inner_high;");
    sc_attend_close(text);
    sc_attend_open(text, "for (int apart = 1; apart < 32; apart *= 2)");
    static const char *const least[] = {"block_low", "warp_low", "inner_high"}, *const most[] = {"block_high", "warp_high", "inner_low"};
    for (int i = 0; i < 3; i++) {
        sc_attend_line(text, "const int %s_there = sc_shuffle_xor(%s, apart), %s_there = sc_shuffle_xor(%s, apart);", least[i], least[i],
                       most[i], most[i]);
        sc_attend_line(text, "%s = %s_there < %s ? %s_there : %s;", least[i], least[i], least[i], least[i], least[i]);
        sc_attend_line(text, "%s = %s_there > %s ? %s_there : %s;", most[i], most[i], most[i], most[i], most[i]);
    }
    sc_attend_close(text);
}

/* Begins the copies of tile `number`, if it is one. */
static void copy_tile(forward *f, const char *number)
{
    sc_attend_text *text = f->text;
    long long k_step = (long long)f->desc->t.strides[SC_ATTEND_K], v_step = (long long)f->desc->t.strides[SC_ATTEND_V];
    sc_attend_open(text, "if (%s < tiles)", number);
    sc_attend_line(text, "const int slot = (%s) %% stages, begin = block_low + (%s) * tile, end = block_high - begin;", number, number);
    sc_attend_line(text, "%s_copy<tile, e_size, e_width, threads>(keys + slot * tile * e_step, k + k_at + begin * %lldll, %lld, 0, end);",
                   text->name, k_step, k_step);
    sc_attend_line(text,
                   "%s_copy<tile, own_size, own_width, threads>(values + slot * tile * own_step, v + v_at + begin * %lldll, %lld, 0, end);",
                   text->name, v_step, v_step);
    sc_attend_close(text);
}

/* Where scores need more than a factor, and where a mask cuts through the warp's part of the tile. */
static void finish_scores(forward *f)
{
    sc_attend_text *text = f->text;
    const sc_attend_desc *desc = f->desc;
    const char *inside =
        f->has_interval ? "begin + column >= low_of_row[r] && begin + column < high_of_row[r]" : "begin + column < block_high";
    if (f->is_wide) {
        const char *visible = sc_attend_visible(text);
        sc_attend_open_elements(text, "tile");
        sc_attend_line(text, "const int row = warp_row + 8 * r + lane / 4;");
        sc_attend_line(text, "const int64_t t = begin + column;");
        sc_attend_line(text, "float score = -INFINITY;");
        sc_attend_open(text, "if (%s)", inside);
        sc_attend_read_places(text, "row");
        sc_attend_open(text, "if (%s)", visible == NULL ? "true" : visible);
        sc_attend_line(text, "score = scores[i][j][c];");
        sc_attend_cuda_score(text, false);
        sc_attend_close(text);
        sc_attend_close(text);
        sc_attend_line(text, "scores[i][j][c] = score;");
        sc_attend_close_elements(text);
        return;
    }
    if (f->is_based) {
        sc_attend_open_elements(text, "tile");
        sc_attend_line(text, "float &score = scores[i][j][c];");
        sc_attend_cuda_score(text, false);
        sc_attend_close_elements(text);
    }
    sc_attend_open(text, f->has_interval ? "if (begin < inner_low || begin + tile > inner_high)" : "if (begin + tile > block_high)");
    sc_attend_open_elements(text, "tile");
    sc_attend_line(text, "if (!(%s))", inside);
    sc_attend_line(text, "    scores[i][j][c] = -INFINITY;");
    sc_attend_close_elements(text);
    sc_attend_close(text);
    (void)desc;
}

static void weigh_tile(forward *f)
{
    sc_attend_text *text = f->text;
    sc_attend_line(text, "#pragma unroll");
    sc_attend_open(text, "for (int r = 0; r < 2 * strips; r++)");
    sc_attend_line(text, "float most = largest[r], added = 0.0f;");
    sc_attend_line(text, "#pragma unroll");
    sc_attend_line(text, "for (int j = 0; j < tile / 8; j++)");
    sc_attend_line(text, "    most = fmaxf(most, fmaxf(scores[r / 2][j][r %% 2 * 2], scores[r / 2][j][r %% 2 * 2 + 1]));");
    sc_attend_line(text, "most = fmaxf(most, sc_shuffle_xor(most, 1));");
    sc_attend_line(text, "most = fmaxf(most, sc_shuffle_xor(most, 2));");
    sc_attend_line(text, "const float base = most == -INFINITY ? 0.0f : most * %s;", f->factor);
    sc_attend_line(text, "const float correction = sc_exp2_fast(largest[r] * %s - base);", f->factor);
    sc_attend_line(text, "largest[r] = most;");
    sc_attend_line(text, "#pragma unroll");
    sc_attend_open(text, "for (int j = 0; j < 2 * (tile / 8); j++)");
    sc_attend_line(text, "float &score = scores[r / 2][j / 2][r %% 2 * 2 + j %% 2];");
    sc_attend_line(text, "score = sc_exp2_fast(score * %s - base);", f->factor);
    sc_attend_line(text, "added += score;");
    sc_attend_close(text);
    sc_attend_line(text, "total[r] = total[r] * correction + added;");
    sc_attend_line(text, "#pragma unroll");
    sc_attend_line(text, "for (int x = 0; x < 2 * (own_width / 8); x++)");
    sc_attend_line(text, "    sums[r / 2][x / 2][r %% 2 * 2 + x %% 2] *= correction;");
    sc_attend_close(text);
    if (f->desc->p == 0)
        return;
    sc_attend_open_elements(text, "tile");
    sc_attend_line(text, "const int64_t t = begin + column, weight_row = weight_row_of[warp_row + 8 * r + lane / 4];");
    sc_attend_line(text, "scores[i][j][c] *= %s;", sc_attend_factor_of_key(text));
    sc_attend_close_elements(text);
}

static void run_tiles(forward *f)
{
    sc_attend_text *text = f->text;
    sc_attend_line(text, "const int tiles = block_high > block_low ? (block_high - block_low + tile - 1) / tile : 0;");
    sc_attend_line(text, "%s_gather<block_rows, e_size, e_width, threads>(queries, q, q_of);", text->name);
    sc_attend_line(text, "#pragma unroll");
    sc_attend_open(text, "for (int ahead = 0; ahead < stages - 1; ahead++)");
    copy_tile(f, "ahead");
    sc_attend_line(text, "sc_copy_commit();");
    sc_attend_close(text);
    sc_attend_line(text, "float sums[strips][own_width / 8][4] = {}, largest[2 * strips], total[2 * strips] = {};");
    sc_attend_line(text, "#pragma unroll");
    sc_attend_line(text, "for (int r = 0; r < 2 * strips; r++)");
    sc_attend_line(text, "    largest[r] = -INFINITY;");
    sc_attend_open(text, "for (int number = 0; number < tiles; number++)");
    sc_attend_line(text, "const int begin = block_low + number * tile;");
    sc_attend_line(text, "sc_copy_wait<stages - 2>();");
    sc_attend_line(text, "sc_sync();");
    copy_tile(f, "number + stages - 1");
    sc_attend_line(text, "sc_copy_commit();");
    if (f->has_interval) {
        sc_attend_line(text, "if (begin >= warp_high || begin + tile <= warp_low)");
        sc_attend_line(text, "    continue;");
    }
    sc_attend_line(text, "float scores[strips][tile / 8][4] = {};");
    sc_attend_line(text, "%s_product<strips, tile, e_width>(scores, queries + warp_row * e_step, keys + number %% stages * tile * e_step);",
                   text->name);
    finish_scores(f);
    weigh_tile(f);
    sc_attend_line(text, "%s_add_weighted<strips, tile, own_width>(sums, scores, values + number %% stages * tile * own_step);",
                   text->name);
    sc_attend_close(text);
}

static void write_rows(forward *f)
{
    sc_attend_text *text = f->text;
    const sc_attend_desc *desc = f->desc;
    sc_attend_line(text, "sc_copy_wait<0>();");
    sc_attend_line(text, "sc_sync();");
    sc_attend_line(text, "float shares[2 * strips];");
    sc_attend_line(text, "#pragma unroll");
    sc_attend_open(text, "for (int r = 0; r < 2 * strips; r++)");
    sc_attend_line(text, "total[r] += sc_shuffle_xor(total[r], 1);");
    sc_attend_line(text, "total[r] += sc_shuffle_xor(total[r], 2);");
    sc_attend_line(text, "shares[r] = total[r] == 0.0f ? 0.0f : 1.0f / total[r];");
    if (desc->arrays[SC_ATTEND_LSE].is_there) {
        sc_attend_line(text, "const int row = warp_row + 8 * r + lane / 4;");
        sc_attend_line(text, "if ((lane & 3) == 0 && out_of[row] >= 0)");
        sc_attend_line(text, "    lse[lse_of[row]] = sc_log_f32(total[r]) + largest[r] * %s;",
                       sc_attend_number(text, f->is_based ? 1 / SC_LOG2_E : desc->scale));
    }
    sc_attend_close(text);
    sc_attend_line(text, "%s_round<strips, own_width>(%u + warp_row * own_step * 2, sums, shares);", text->name, f->queries_at);
    sc_attend_line(text, "sc_sync_warp();");
    sc_attend_open(text, "for (int i = lane; i < 16 * strips * (own_size / 8); i += 32)");
    sc_attend_line(text, "const int row = warp_row + i / (own_size / 8), at = i %% (own_size / 8) * 8;");
    sc_attend_line(text, "const int64_t place = out_of[row];");
    sc_attend_line(text, "if (place >= 0)");
    sc_attend_line(text, "    sc_store(out + place + at, queries.load<8>(row * own_step + at));");
    sc_attend_close(text);
}

void sc_attend_cuda_forward(sc_attend_cuda *cuda)
{
    static const sc_attend_role roles[] = {SC_ATTEND_Q, SC_ATTEND_OUT, SC_ATTEND_LSE};
    const sc_attend_desc *desc = cuda->text.desc;
    bool has_bias = desc->arrays[SC_ATTEND_BIAS].is_there;
    forward f = {.cuda = cuda,
                 .text = &cuda->text,
                 .desc = desc,
                 .tile = cuda->tiles->forward,
                 .e = sc_attend_head_of(desc->e.size),
                 .own = sc_attend_head_of(desc->own[0].size),
                 .rows = sc_attend_rows(desc),
                 .has_interval = sc_attend_has_interval(desc),
                 .is_wide = has_bias || sc_attend_has_visible(desc),
                 .places = sc_attend_places_of(desc, roles, sizeof roles / sizeof *roles)};
    f.is_based = f.is_wide || desc->softcap != 0 || desc->scale <= 0;
    f.factor = sc_attend_number(f.text, f.is_based ? 1 : desc->scale * SC_LOG2_E);
    f.block_rows = 16 * f.tile.warps * f.tile.strips;
    f.blocks = (f.rows + f.block_rows - 1) / f.block_rows;
    int64_t units = sc_attend_units(desc);
    sc_attend_cuda_begin(cuda, units * f.blocks, 32 * (uint32_t)f.tile.warps, f.tile.resident);
    declare_sizes(&f);
    share(&f);
    /* The last blocks of a causal mask have most to do. */
    sc_attend_line(f.text, "const int64_t unit = sc_block() %% %lld, block = %lld - sc_block() / %lld;", (long long)units,
                   (long long)f.blocks - 1, (long long)units);
    sc_attend_cuda_decode(f.text, sc_attend_of_unit, "unit");
    sc_attend_line(f.text, "const int64_t k_at = %s, v_at = %s;", sc_attend_at(f.text, SC_ATTEND_K, sc_attend_of_unit),
                   sc_attend_at(f.text, SC_ATTEND_V, sc_attend_of_unit));
    keep_rows(&f);
    declare_hull(&f);
    run_tiles(&f);
    write_rows(&f);
    sc_attend_cuda_end(cuda);
}
