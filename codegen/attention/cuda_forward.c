/* Attention with 16-bit elements on GPUs, forward (Dao, "FlashAttention-2", 2023, algorithm 1). A
 * block holds queries of a unit (heads that share keys are rows, just as positions are) and
 * iterates over tiles of keys and values, which are copied to shared memory while earlier ones are
 * used. A warp holds whole strips of 16 queries: scores, weights and sums stay in its registers,
 * and a row is spread over four neighbouring lanes.
 *
 * Scores are kept as raw dot products, or in base 2 if caps and biases need a pass over them
 * anyway; `factor` converts them to base 2. */
#include "codegen/attention/cuda_internal.h"

typedef struct forward {
    sc_attention_queries queries;
    bool is_wide /* scores need a pass for per-element terms */,
        is_based /* scores are in base 2 */;
    const char *factor;
} forward;

/* Finishes scores that need more than a factor, and masks the warp's part of a tile cut by a
 * mask. */
static void finish_scores(forward *f)
{
    sc_attention_text *text = f->queries.text;
    const char *inside = sc_attention_inside(&f->queries);
    if (f->is_wide) {
        const char *visible = sc_attention_visible(text);
        sc_attention_declare_bounds(&f->queries);
        sc_attention_open_elements(text, "tile");
        sc_attention_line(text, "const int row = warp_row + 8 * r + lane / 4;");
        sc_attention_line(text, "const int64_t t = begin + column;");
        sc_attention_line(text, "float score = -INFINITY;");
        sc_attention_open(text, "if (%s)", inside);
        sc_attention_read_places(text, "row");
        sc_attention_open(text, "if (%s)", visible == NULL ? "true" : visible);
        sc_attention_line(text, "score = scores[i][j][c];");
        sc_attention_cuda_score(text, false);
        sc_attention_close(text);
        sc_attention_close(text);
        sc_attention_line(text, "scores[i][j][c] = score;");
        sc_attention_close_elements(text);
        return;
    }
    if (f->is_based) {
        sc_attention_open_elements(text, "tile");
        sc_attention_line(text, "float &score = scores[i][j][c];");
        sc_attention_cuda_score(text, false);
        sc_attention_close_elements(text);
    }
    sc_attention_open(text, "if (%s)", sc_attention_cut(&f->queries));
    sc_attention_declare_bounds(&f->queries);
    sc_attention_open_elements(text, "tile");
    sc_attention_line(text, "scores[i][j][c] = %s ? scores[i][j][c] : -INFINITY;", inside);
    sc_attention_close_elements(text);
    sc_attention_close(text);
}

/* Replaces scores by weights relative to a base at most 8 below the largest score so far, in base
 * 2: weights below 2^8 are harmless, and earlier sums seldom need a correction. */
static void weigh_tile(forward *f)
{
    sc_attention_text *text = f->queries.text;
    sc_attention_line(text, "float corrections[2 * strips];");
    sc_attention_line(text, "bool corrects = false;");
    sc_attention_line(text, "#pragma unroll");
    sc_attention_open(text, "for (int r = 0; r < 2 * strips; r++)");
    sc_attention_line(text, "float most = -INFINITY, added = 0.0f;");
    sc_attention_line(text, "#pragma unroll");
    sc_attention_line(text, "for (int j = 0; j < tile / 8; j++)");
    sc_attention_line(text, "    most = fmaxf(most, fmaxf(scores[r / 2][j][r %% 2 * 2], scores[r / "
                            "2][j][r %% 2 * 2 + 1]));");
    sc_attention_line(text, "most = fmaxf(most, sc_shuffle_xor(most, 1));");
    sc_attention_line(text, "most = fmaxf(most, sc_shuffle_xor(most, 2)) * %s;", f->factor);
    sc_attention_line(text, "most = most > largest[r] + 8.0f ? most : largest[r];");
    sc_attention_line(text, "const float base = most == -INFINITY ? 0.0f : most;");
    sc_attention_line(text, "corrections[r] = sc_exp2_fast(largest[r] - base);");
    sc_attention_line(text, "corrects = corrects || most != largest[r];");
    sc_attention_line(text, "largest[r] = most;");
    sc_attention_line(text, "#pragma unroll");
    sc_attention_open(text, "for (int j = 0; j < 2 * (tile / 8); j++)");
    sc_attention_line(text, "float &score = scores[r / 2][j / 2][r %% 2 * 2 + j %% 2];");
    sc_attention_line(text, "score = sc_exp2_fast(score * %s - base);", f->factor);
    sc_attention_line(text, "added += score;");
    sc_attention_close(text);
    sc_attention_line(text, "total[r] = total[r] * corrections[r] + added;");
    sc_attention_close(text);
    sc_attention_open(text, "if (sc_ballot(corrects) != 0)");
    sc_attention_line(text, "#pragma unroll");
    sc_attention_line(text, "for (int x = 0; x < strips * (own_width / 8) * 4; x++)");
    sc_attention_line(text, "    sums[x / 4 / (own_width / 8)][x / 4 %% (own_width / 8)][x %% 4] "
                            "*= corrections[x / 4 / (own_width / 8) * 2 + x %% 4 / 2];");
    sc_attention_close(text);
    if (f->queries.desc->p == 0)
        return;
    sc_attention_open_elements(text, "tile");
    sc_attention_line(text, "const int64_t t = begin + column, weight_row = weight_row_of[warp_row "
                            "+ 8 * r + lane / 4];");
    sc_attention_line(text, "scores[i][j][c] *= %s;", sc_attention_factor_of_key(text));
    sc_attention_close_elements(text);
}

static void write_block(forward *f)
{
    sc_attention_text *text = f->queries.text;
    const sc_attention_desc *desc = f->queries.desc;
    sc_attention_line(text, "sc_copy_wait<0>();");
    sc_attention_line(text, "sc_sync();");
    sc_attention_line(text, "float factors[2 * strips];");
    sc_attention_line(text, "#pragma unroll");
    sc_attention_open(text, "for (int r = 0; r < 2 * strips; r++)");
    sc_attention_line(text, "total[r] += sc_shuffle_xor(total[r], 1);");
    sc_attention_line(text, "total[r] += sc_shuffle_xor(total[r], 2);");
    sc_attention_line(text, "factors[r] = total[r] == 0.0f ? 0.0f : 1.0f / total[r];");
    if (desc->arrays[SC_ATTENTION_LSE].is_there) {
        sc_attention_line(text, "const int row = warp_row + 8 * r + lane / 4;");
        sc_attention_line(text, "if ((lane & 3) == 0 && out_of[row] >= 0)");
        sc_attention_line(text, "    lse[lse_of[row]] = sc_log_f32(total[r]) + largest[r] * %s;",
                          sc_attention_number(text, 1 / SC_LOG2_E));
    }
    sc_attention_close(text);
    sc_attention_write_rows(&f->queries, SC_ATTENTION_OUT, "own");
}

/* ---- parts: sums and totals relative to the part's largest score, in scratch, combined in order
 * by one warp per query ---- */

static int64_t bytes_of_sums(const forward *f)
{
    int64_t queries = sc_attention_units(f->queries.desc) * f->queries.rows;
    return f->queries.parts * queries * f->queries.own.size * 4;
}

/* Stores the scratch offsets of this part's rows in shared memory, as registers are scarce until
 * they are needed; negative: none. */
static void store_parts(forward *f)
{
    sc_attention_text *text = f->queries.text;
    long long units = (long long)sc_attention_units(f->queries.desc),
              rows = (long long)f->queries.rows;
    sc_attention_cuda_share(f->queries.cuda, "int64_t", "part_of", 8, f->queries.block_rows);
    sc_attention_open(text, "for (int row = sc_thread(); row < block_rows; row += threads)");
    sc_attention_line(text, "const int64_t number = block * block_rows + row;");
    sc_attention_line(text,
                      "part_of[row] = number < %lld ? (part * %lldll + unit) * %lld + number : -1;",
                      rows, units, rows);
    sc_attention_close(text);
}

static void write_part(forward *f)
{
    sc_attention_text *text = f->queries.text;
    sc_attention_line(text, "sc_copy_wait<0>();");
    sc_attention_line(text, "#pragma unroll");
    sc_attention_open(text, "for (int r = 0; r < 2 * strips; r++)");
    sc_attention_line(text, "total[r] += sc_shuffle_xor(total[r], 1);");
    sc_attention_line(text, "total[r] += sc_shuffle_xor(total[r], 2);");
    sc_attention_line(text, "const int64_t place = part_of[warp_row + 8 * r + lane / 4];");
    sc_attention_line(text, "if (place < 0)");
    sc_attention_line(text, "    continue;");
    sc_attention_line(text, "const sc_vec<float, 2> weight = {{largest[r], total[r]}};");
    sc_attention_line(text, "if ((lane & 3) == 0)");
    sc_attention_line(text, "    sc_store((float *)(scratch + %lld) + 2 * place, weight);",
                      (long long)bytes_of_sums(f));
    sc_attention_line(text, "#pragma unroll");
    sc_attention_open(text, "for (int x = 0; x < own_size / 8; x++)");
    sc_attention_line(text, "const sc_vec<float, 2> pair = {{sums[r / 2][x][r %% 2 * 2], sums[r / "
                            "2][x][r %% 2 * 2 + 1]}};");
    sc_attention_line(
        text, "sc_store((float *)scratch + place * own_size + 8 * x + 2 * (lane & 3), pair);");
    sc_attention_close(text);
    sc_attention_close(text);
}

static void emit_parts(forward *f)
{
    enum { WARPS = 4 };
    sc_attention_cuda *cuda = f->queries.cuda;
    sc_attention_text *text = f->queries.text;
    const sc_attention_desc *desc = f->queries.desc;
    long long units = (long long)sc_attention_units(desc), rows = (long long)f->queries.rows,
              parts = f->queries.parts;
    sc_attention_cuda_begin(cuda, (units * rows + WARPS - 1) / WARPS, 32 * WARPS, 4);
    sc_attention_line(text, "constexpr int own_size = %d, parts = %lld;", f->queries.own.size,
                      parts);
    sc_attention_line(text,
                      "const int64_t item = sc_block() * %d + sc_warp(), unit = item / %lld, "
                      "number = item %% %lld;",
                      WARPS, rows, rows);
    sc_attention_line(text, "const int lane = sc_lane();");
    sc_attention_line(text, "if (item >= %lld)", units * rows);
    sc_attention_line(text, "    return;");
    sc_attention_cuda_decode(text, sc_attention_of_unit, "unit");
    sc_attention_cuda_decode(text, sc_attention_of_row, "number");
    sc_attention_line(text,
                      "sc_vec<float, 2> weight = {{-INFINITY, 0.0f}}; /* of part number `lane` */");
    sc_attention_line(text, "if (lane < parts)");
    sc_attention_line(
        text,
        "    weight = sc_load<2>((const float *)(scratch + %lld) + 2 * (lane * %lldll + item));",
        (long long)bytes_of_sums(f), units * rows);
    sc_attention_line(text, "float largest = weight[0];");
    sc_attention_line(text, "for (int apart = 16; apart > 0; apart /= 2)");
    sc_attention_line(text, "    largest = fmaxf(largest, sc_shuffle_xor(largest, apart));");
    sc_attention_line(
        text,
        "const float factor = sc_exp2_fast(weight[0] - (largest == -INFINITY ? 0.0f : largest));");
    sc_attention_line(text, "float total = weight[1] * factor, sums[(own_size + 31) / 32] = {};");
    sc_attention_line(text, "for (int apart = 16; apart > 0; apart /= 2)");
    sc_attention_line(text, "    total += sc_shuffle_xor(total, apart);");
    sc_attention_open(text, "for (int part = 0; part < parts; part++)");
    sc_attention_line(text, "const float factor_of_part = sc_shuffle(factor, part);");
    sc_attention_line(text, "#pragma unroll");
    sc_attention_line(text, "for (int x = 0; x < own_size; x += 32)");
    sc_attention_line(text, "    if (x + lane < own_size)");
    sc_attention_line(text,
                      "        sums[x / 32] += factor_of_part * ((const float *)scratch)[(part * "
                      "%lldll + item) * own_size + x + lane];",
                      units * rows);
    sc_attention_close(text);
    sc_attention_line(text, "const float share = total == 0.0f ? 0.0f : 1.0f / total;");
    sc_attention_line(text, "#pragma unroll");
    sc_attention_line(text, "for (int x = 0; x < own_size; x += 32)");
    sc_attention_line(text, "    if (x + lane < own_size)");
    sc_attention_line(
        text, "        out[%s + x + lane] = %s;",
        sc_attention_at(text, SC_ATTENTION_OUT, sc_attention_all),
        sc_attention_stored(text, desc->arrays[SC_ATTENTION_OUT].dtype, "sums[x / 32] * share"));
    if (desc->arrays[SC_ATTENTION_LSE].is_there) {
        sc_attention_line(text, "if (lane == 0)");
        sc_attention_line(text, "    lse[%s] = sc_log_f32(total) + largest * %s;",
                          sc_attention_at(text, SC_ATTENTION_LSE, sc_attention_all),
                          sc_attention_number(text, 1 / SC_LOG2_E));
    }
    sc_attention_cuda_end(cuda);
}

void sc_attention_cuda_forward(sc_attention_cuda *cuda)
{
    static const sc_attention_role roles[] = {SC_ATTENTION_Q, SC_ATTENTION_OUT, SC_ATTENTION_LSE};
    sc_attention_text *text = &cuda->text;
    const sc_attention_desc *desc = text->desc;
    forward f = {.queries = sc_attention_queries_of(cuda, &cuda->tiles->forward, cuda->tiles->parts,
                                                    roles, sizeof roles / sizeof *roles),
                 .is_wide =
                     desc->arrays[SC_ATTENTION_BIAS].is_there || sc_attention_has_visible(desc)};
    f.is_based = f.is_wide || desc->softcap != 0 || desc->scale <= 0;
    f.factor = sc_attention_number(text, f.is_based ? 1 : desc->scale * SC_LOG2_E);
    if (f.queries.parts > 1)
        cuda->code->scratch_bytes = bytes_of_sums(&f) + f.queries.parts * sc_attention_units(desc) *
                                                            f.queries.rows * 2 *
                                                            (int64_t)sizeof(float);
    sc_attention_begin_queries(&f.queries);
    if (f.queries.parts > 1)
        store_parts(&f);
    sc_attention_store_rows(&f.queries);
    sc_attention_declare_hull(&f.queries);
    sc_attention_begin_copies(&f.queries);
    sc_attention_line(
        text,
        "float sums[strips][own_width / 8][4] = {}, largest[2 * strips], total[2 * strips] = {};");
    sc_attention_line(text, "#pragma unroll");
    sc_attention_line(text, "for (int r = 0; r < 2 * strips; r++)");
    sc_attention_line(text, "    largest[r] = -INFINITY;");
    sc_attention_open_tiles(&f.queries);
    sc_attention_line(text, "float scores[strips][tile / 8][4] = {};");
    sc_attention_line(text,
                      "%s_matmul<strips, tile, e_width>(scores, queries + warp_row * e_step, keys "
                      "+ slot * tile * e_step);",
                      text->name);
    finish_scores(&f);
    weigh_tile(&f);
    sc_attention_line(
        text,
        "%s_add_weighted<strips, tile, own_width>(sums, scores, values + slot * tile * own_step);",
        text->name);
    sc_attention_close(text);
    if (f.queries.parts == 1)
        write_block(&f);
    else
        write_part(&f);
    sc_attention_cuda_end(cuda);
    if (f.queries.parts > 1)
        emit_parts(&f);
}
