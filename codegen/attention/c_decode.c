/* Few queries per unit, as when decoding one token against a long cache: keys and values are read
 * once and memory bandwidth is the limit. Vectors run over head elements. Keys are split into
 * chunks, each with its own softmax, and a second loop combines them (Dao and others,
 * "Flash-Decoding", 2023). This creates parallel work when units are few. It also keeps page
 * accesses close in time: in a cache the heads of a key are adjacent, so all heads should read the
 * same pages soon after each other. The number of chunks depends on the op alone. */
#include "codegen/attention/c_internal.h"

/* Keys per tile, read for every query before the next tile: two tiles fit in a 32 KiB cache. */
static int64_t tile_keys(const sc_attention_desc *desc)
{
    int64_t keys = 16384 / (4 * (desc->e.size + desc->own[0].size)) / 8 * 8;
    return keys < 8 ? 8 : keys > 64 ? 64 : keys;
}

static int64_t chunk_keys(const sc_attention_desc *desc)
{
    int64_t chunks = sc_attention_decode_chunks(desc), keys = (desc->t.size + chunks - 1) / chunks;
    return (keys + tile_keys(desc) - 1) / tile_keys(desc) * tile_keys(desc);
}

static void declare_sizes(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    sc_write_line(text->out,
                  "enum { tile = %lld, rows = %lld, e_size = %lld, own_size = %lld, part = %lld };",
                  (long long)tile_keys(desc), (long long)sc_attention_rows(desc),
                  (long long)desc->e.size, (long long)desc->own[0].size,
                  (long long)sc_attention_decode_part(desc));
    sc_write_line(text->out, "(void)unit;");
    sc_attention_decode(text, sc_attention_of_unit, "unit");
}

static const struct {
    sc_attention_role role;
    const char *name;
} cached_places[] = {{SC_ATTENTION_KEEP, "keep"},
                     {SC_ATTENTION_BIAS, "bias"},
                     {SC_ATTENTION_SEGMENTS, "segments"},
                     {SC_ATTENTION_KEY_SEGMENTS, "key_segments"}};

static void read_queries(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const char *q = sc_arena_printf(text->arena, "q_at + %s",
                                    sc_attention_times(text, "e", desc->e.strides[SC_ATTENTION_Q]));
    sc_write_line(text->out,
                  "float queries[rows * e_size]" ALIGNED ", largest[rows], total[rows];");
    sc_write_line(text->out, "int64_t low_of[rows], high_of[rows], least = %lld, most = 0;",
                  (long long)desc->t.size);
    for (size_t i = 0; i < sizeof cached_places / sizeof *cached_places; i++) {
        if (desc->arrays[cached_places[i].role].is_there)
            sc_write_line(text->out, "int64_t %s_of[rows];", cached_places[i].name);
    }
    if (desc->p > 0)
        sc_write_line(text->out, "int64_t weight_row_of[rows];");
    sc_write_open(text->out, "for (int64_t r = 0; r < rows; r++)");
    sc_attention_decode(text, sc_attention_of_row, "r");
    sc_attention_declare_interval(text);
    sc_attention_declare_row(text);
    sc_write_line(text->out, "const int64_t q_at = %s;",
                  sc_attention_at(text, SC_ATTENTION_Q, sc_attention_all));
    sc_write_line(text->out, "low_of[r] = low;");
    sc_write_line(text->out, "high_of[r] = high;");
    sc_write_line(text->out, "least = low < least ? low : least;");
    sc_write_line(text->out, "most = high > most ? high : most;");
    sc_write_line(text->out, "largest[r] = -INFINITY;");
    sc_write_line(text->out, "total[r] = 0;");
    for (size_t i = 0; i < sizeof cached_places / sizeof *cached_places; i++) {
        if (desc->arrays[cached_places[i].role].is_there)
            sc_write_line(text->out, "%s_of[r] = %s;", cached_places[i].name,
                          sc_attention_at(text, cached_places[i].role, sc_attention_all));
    }
    if (desc->p > 0)
        sc_write_line(text->out, "weight_row_of[r] = weight_row;");
    sc_write_line(text->out, "for (int64_t e = 0; e < e_size; e++)");
    sc_write_line(text->out, "    queries[r * e_size + e] = %s * %s;",
                  sc_attention_read(text, SC_ATTENTION_Q, q),
                  sc_attention_number(text, desc->scale));
    sc_write_close(text->out);
}

/* An array that is not contiguous f32 is first copied to a contiguous f32 tile. */
static bool needs_tile(const sc_attention_desc *desc, sc_attention_role role,
                       const sc_attention_dim *dim)
{
    return desc->arrays[role].dtype != SC_DTYPE_f32 || (dim->strides[role] != 1 && dim->size > 1);
}

static void read_tile(sc_attention_text *text, sc_attention_role role, const char *array,
                      const sc_attention_dim *dim, const char *size)
{
    const sc_attention_desc *desc = text->desc;
    const char *key = sc_attention_times(text, "(first + i)", desc->t.strides[role]);
    if (!needs_tile(desc, role, dim)) {
        sc_write_line(text->out, "const float *const %s_tile = %s + %s_at + %s;", array, array,
                      array, sc_attention_times(text, "first", desc->t.strides[role]));
        return;
    }
    const char *index = sc_arena_printf(text->arena, "%s_at + %s + %s", array, key,
                                        sc_attention_times(text, "x", dim->strides[role]));
    sc_write_line(text->out, "float %s_tile[tile * %s]" ALIGNED ";", array, size);
    sc_write_line(text->out, "for (int64_t i = 0; i < count; i++)");
    sc_write_line(text->out, "#pragma omp simd");
    sc_write_line(text->out, "    for (int64_t x = 0; x < %s; x++)", size);
    sc_write_line(text->out, "        %s_tile[i * %s + x] = %s;", array, size,
                  sc_attention_read(text, role, index));
}

static int64_t tile_stride(const sc_attention_desc *desc, sc_attention_role role,
                           const sc_attention_dim *dim)
{
    return needs_tile(desc, role, dim) ? dim->size : desc->t.strides[role];
}

static void score_tile(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    long long step = (long long)tile_stride(desc, SC_ATTENTION_K, &desc->e);
    sc_write_line(text->out, "const float *const row = queries + r * e_size;");
    sc_write_line(text->out, "int64_t key = 0;");
    sc_write_open(text->out, "for (; key + 4 <= count; key += 4)"); /* four independent sums */
    sc_write_line(text->out, "const float *const of_key = k_tile + key * %lld;", step);
    sc_write_line(text->out, "float sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;");
    sc_write_line(text->out, "#pragma omp simd reduction(+ : sum0, sum1, sum2, sum3)");
    sc_write_open(text->out, "for (int64_t e = 0; e < e_size; e++)");
    for (int i = 0; i < 4; i++)
        sc_write_line(text->out, "sum%d += row[e] * of_key[e + %lld];", i, i * step);
    sc_write_close(text->out);
    for (int i = 0; i < 4; i++)
        sc_write_line(text->out, "scores[key + %d] = sum%d;", i, i);
    sc_write_close(text->out);
    sc_write_open(text->out, "for (; key < count; key++)");
    sc_write_line(text->out, "float sum = 0;");
    sc_write_line(text->out, "#pragma omp simd reduction(+ : sum)");
    sc_write_line(text->out, "for (int64_t e = 0; e < e_size; e++)");
    sc_write_line(text->out, "    sum += row[e] * k_tile[key * %lld + e];", step);
    sc_write_line(text->out, "scores[key] = sum;");
    sc_write_close(text->out);
    if (desc->softcap != 0) {
        sc_write_line(text->out, "#pragma omp simd");
        sc_write_line(text->out, "for (int64_t i = 0; i < count; i++)");
        sc_write_line(text->out, "    scores[i] = %s * sc_tanh_f32(scores[i] * %s);",
                      sc_attention_number(text, desc->softcap),
                      sc_attention_number(text, 1 / desc->softcap));
    }
    const char *visible = sc_attention_visible(text);
    sc_write_open(text->out, "for (int64_t i = 0; i < count; i++)");
    sc_write_line(text->out, "const int64_t t = first + i;");
    for (size_t i = 0; i < sizeof cached_places / sizeof *cached_places; i++) {
        if (desc->arrays[cached_places[i].role].is_there)
            sc_write_line(text->out, "const int64_t %s_at = %s_of[r];", cached_places[i].name,
                          cached_places[i].name);
    }
    if (desc->arrays[SC_ATTENTION_BIAS].is_there) {
        const char *index =
            sc_arena_printf(text->arena, "bias_at + %s",
                            sc_attention_times(text, sc_attention_key(text, SC_ATTENTION_BIAS),
                                               desc->t.strides[SC_ATTENTION_BIAS]));
        sc_write_line(text->out, "scores[i] += %s;",
                      sc_attention_read(text, SC_ATTENTION_BIAS, index));
    }
    sc_write_line(
        text->out, "scores[i] = t >= low_of[r] && t < high_of[r]%s%s%s ? scores[i] : -INFINITY;",
        visible == NULL ? "" : " && (", visible == NULL ? "" : visible, visible == NULL ? "" : ")");
    sc_write_close(text->out);
}

static void add_tile(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    long long step = (long long)tile_stride(desc, SC_ATTENTION_V, &desc->own[0]);
    sc_write_line(text->out, "float *const sums = parts + r * part, best = largest[r], added = 0;");
    sc_write_line(text->out, "#pragma omp simd reduction(max : best)");
    sc_write_line(text->out, "for (int64_t i = 0; i < count; i++)");
    sc_write_line(text->out, "    best = scores[i] > best ? scores[i] : best;");
    sc_write_line(text->out, "const float base = best == -INFINITY ? 0 : best, correction = "
                             "sc_exp_below_f32(largest[r] - base);");
    sc_write_line(text->out, "#pragma omp simd reduction(+ : added)");
    sc_write_open(text->out, "for (int64_t i = 0; i < count; i++)");
    sc_write_line(text->out, "scores[i] = sc_exp_below_f32(scores[i] - base);");
    sc_write_line(text->out, "added += scores[i];");
    sc_write_close(text->out);
    sc_write_line(text->out, "total[r] = total[r] * correction + added;");
    sc_write_line(text->out, "for (int64_t o = 0; o < own_size && best != largest[r]; o++)");
    sc_write_line(text->out, "    sums[o] *= correction;");
    sc_write_line(text->out, "largest[r] = best;");
    if (desc->p > 0) {
        double p = desc->p;
        sc_write_line(text->out, "#pragma omp simd");
        sc_write_line(text->out, "for (int64_t i = 0; i < count; i++)");
        sc_write_line(text->out,
                      "    scores[i] *= sc_uniform53(weight_row_of[r] + first + i, "
                      "random_step, random_micro_batch, random_key) < %lluu ? 0.0f : %s;",
                      (unsigned long long)sc_uniform53_limit(p),
                      sc_attention_number(text, p < 1 ? 1 / (1 - p) : 0));
    }
    sc_write_line(text->out, "int64_t i = 0;");
    sc_write_open(text->out, "for (; i + 4 <= count; i += 4)");
    sc_write_line(text->out, "const float *const row = v_tile + i * %lld;", step);
    sc_write_line(text->out, "#pragma omp simd");
    sc_write_line(text->out, "for (int64_t o = 0; o < own_size; o++)");
    sc_write_line(text->out,
                  "    sums[o] += scores[i] * row[o] + scores[i + 1] * row[o + %lld] + "
                  "scores[i + 2] * row[o + %lld] + scores[i + 3] * "
                  "row[o + %lld];",
                  step, 2 * step, 3 * step);
    sc_write_close(text->out);
    sc_write_line(text->out, "for (; i < count; i++)");
    sc_write_line(text->out, "#pragma omp simd");
    sc_write_line(text->out, "    for (int64_t o = 0; o < own_size; o++)");
    sc_write_line(text->out, "        sums[o] += scores[i] * v_tile[i * %lld + o];", step);
}

/* A head's rows are far apart if another dim is inside, which defeats the hardware prefetcher. Each
 * query prefetches its share of the next tile. */
static void prefetch_next(sc_attention_text *text)
{
    static const struct {
        sc_attention_role role;
        const char *name;
    } arrays[] = {{SC_ATTENTION_K, "k"}, {SC_ATTENTION_V, "v"}};
    const sc_attention_desc *desc = text->desc;
    sc_write_open(text->out,
                  "for (int64_t next = first + tile + r; next < first + 2 * tile && next "
                  "< most; next += rows)");
    for (int i = 0; i < 2; i++) {
        const sc_attention_dim *dim = i == 0 ? &desc->e : &desc->own[0];
        int64_t line = 64 / sc_dtypes[desc->arrays[arrays[i].role].dtype].bytes;
        if (dim->strides[arrays[i].role] != 1)
            continue;
        sc_write_line(text->out, "for (int64_t x = 0; x < %lld; x += %lld)", (long long)dim->size,
                      (long long)line);
        sc_write_line(text->out, "    __builtin_prefetch(%s + %s_at + %s + x);", arrays[i].name,
                      arrays[i].name,
                      sc_attention_times(text, "next", desc->t.strides[arrays[i].role]));
    }
    sc_write_close(text->out);
}

/* parts[query]: sums over the chunk's keys, the largest score, the total. */
static void emit_chunk(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    long long keys = (long long)chunk_keys(desc);
    sc_write_line(text->out,
                  "static void %s_chunk(void *const *args, const int64_t *params, int64_t "
                  "unit, int64_t chunk, float *parts)",
                  text->name);
    sc_write_open_block(text->out);
    sc_attention_declare_arrays(text);
    sc_write_line(text->out, "(void)out;");
    declare_sizes(text);
    read_queries(text);
    sc_write_line(text->out, "const int64_t k_at = %s, v_at = %s;",
                  sc_attention_at(text, SC_ATTENTION_K, sc_attention_of_unit),
                  sc_attention_at(text, SC_ATTENTION_V, sc_attention_of_unit));
    sc_write_line(text->out, "least = least > chunk * %lld ? least : chunk * %lld;", keys, keys);
    sc_write_line(text->out, "most = most < (chunk + 1) * %lld ? most : (chunk + 1) * %lld;", keys,
                  keys);
    sc_write_line(text->out, "__builtin_memset(parts, 0, rows * part * sizeof *parts);");
    sc_write_open(text->out, "for (int64_t first = least; first < most; first += tile)");
    sc_write_line(text->out, "const int64_t count = most - first < tile ? most - first : tile;");
    read_tile(text, SC_ATTENTION_K, "k", &desc->e, "e_size");
    read_tile(text, SC_ATTENTION_V, "v", &desc->own[0], "own_size");
    sc_write_open(text->out, "for (int64_t r = 0; r < rows; r++)");
    prefetch_next(text);
    sc_write_line(text->out, "float scores[tile]" ALIGNED ";");
    score_tile(text);
    add_tile(text);
    sc_write_close(text->out);
    sc_write_close(text->out);
    sc_write_open(text->out, "for (int64_t r = 0; r < rows; r++)");
    sc_write_line(text->out, "parts[r * part + own_size] = largest[r];");
    sc_write_line(text->out, "parts[r * part + own_size + 1] = total[r];");
    sc_write_close(text->out);
    sc_write_close(text->out);
    sc_strbuf_add_char(text->out->text, '\n');
}

/* Combines the chunks of a unit, in order. */
static void emit_finish(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const char *index =
        sc_arena_printf(text->arena, "out_at + %s",
                        sc_attention_times(text, "o", desc->own[0].strides[SC_ATTENTION_OUT]));
    sc_write_line(text->out,
                  "static void %s_finish(void *const *args, const int64_t *params, int64_t "
                  "unit, const float *parts)",
                  text->name);
    sc_write_open_block(text->out);
    sc_write_line(text->out, "enum { chunks = %lld };",
                  (long long)sc_attention_decode_chunks(desc));
    for (int role = SC_ATTENTION_OUT; role <= SC_ATTENTION_LSE; role++) {
        if (desc->arrays[role].is_there)
            sc_write_line(text->out, "%s *const %s = args[%u];",
                          sc_printer_stored(desc->arrays[role].dtype),
                          role == SC_ATTENTION_OUT ? "out" : "lse", desc->arrays[role].arg);
    }
    sc_write_line(text->out, "(void)params;");
    declare_sizes(text);
    sc_write_open(text->out, "for (int64_t r = 0; r < rows; r++)");
    sc_attention_decode(text, sc_attention_of_row, "r");
    sc_write_line(text->out, "const int64_t out_at = %s;",
                  sc_attention_at(text, SC_ATTENTION_OUT, sc_attention_all));
    sc_write_line(text->out, "const float *const of_row = parts + r * part;");
    sc_write_line(text->out, "float largest = -INFINITY, total = 0, shares[chunks];");
    sc_write_line(text->out, "for (int c = 0; c < chunks; c++)");
    sc_write_line(text->out,
                  "    largest = of_row[c * rows * part + own_size] > largest ? of_row[c "
                  "* rows * part + own_size] : largest;");
    sc_write_open(text->out, "for (int c = 0; c < chunks; c++)");
    sc_write_line(text->out, "shares[c] = sc_exp_below_f32(of_row[c * rows * part + own_size] - "
                             "(largest == -INFINITY ? 0 : largest));");
    sc_write_line(text->out, "total += shares[c] * of_row[c * rows * part + own_size + 1];");
    sc_write_close(text->out);
    sc_write_open(text->out, "for (int64_t o = 0; o < own_size; o++)");
    sc_write_line(text->out, "float sum = 0;");
    sc_write_line(text->out, "for (int c = 0; c < chunks; c++)");
    sc_write_line(text->out, "    sum += shares[c] * of_row[c * rows * part + o];");
    sc_write_line(text->out, "out[%s] = %s;", index,
                  sc_attention_stored(text, desc->arrays[SC_ATTENTION_OUT].dtype,
                                      "(total == 0.0f ? 0.0f : sum / total)"));
    sc_write_close(text->out);
    if (desc->arrays[SC_ATTENTION_LSE].is_there)
        sc_write_line(text->out, "lse[%s] = sc_log_f32(total) + largest;",
                      sc_attention_at(text, SC_ATTENTION_LSE, sc_attention_all));
    sc_write_close(text->out);
    sc_write_close(text->out);
    sc_strbuf_add_char(text->out->text, '\n');
}

void sc_attention_emit_decode(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    long long units = (long long)sc_attention_units(desc),
              chunks = (long long)sc_attention_decode_chunks(desc);
    long long part = (long long)sc_attention_rows(desc) * sc_attention_decode_part(desc);
    emit_chunk(text);
    emit_finish(text);
    sc_write_line(text->out, "int64_t %s(void *const *args, const int64_t *params)", text->name);
    sc_write_open_block(text->out);
    if (chunks > 1) {
        sc_write_line(text->out, "float *const parts = args[%u];", desc->arg_count);
        sc_write_line(text->out, "#pragma omp parallel for schedule(dynamic, 1)");
        sc_write_line(text->out, "for (int64_t item = 0; item < %lld; item++)", units * chunks);
        sc_write_line(text->out,
                      "    %s_chunk(args, params, item / %lld, item %% %lld, parts + item * %lld);",
                      text->name, chunks, chunks, part);
        sc_write_line(text->out, "#pragma omp parallel for schedule(static)");
        sc_write_line(text->out, "for (int64_t unit = 0; unit < %lld; unit++)", units);
        sc_write_line(text->out, "    %s_finish(args, params, unit, parts + unit * %lld);",
                      text->name, chunks * part);
    } else {
        sc_write_line(text->out, "#pragma omp parallel for schedule(dynamic, 1)");
        sc_write_open(text->out, "for (int64_t unit = 0; unit < %lld; unit++)", units);
        sc_write_line(text->out, "float parts[%lld]" ALIGNED ";", part);
        sc_write_line(text->out, "%s_chunk(args, params, unit, 0, parts);", text->name);
        sc_write_line(text->out, "%s_finish(args, params, unit, parts);", text->name);
        sc_write_close(text->out);
    }
    sc_attention_end(text);
}
