/* The simple form on GPUs: by definition, for every layout, mask and dtype. A warp takes one query
 * and its lanes take keys; for the weighted sums lanes take elements, and each key's weight is
 * broadcast from its lane. Forward: online softmax (Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", 2018). Backward there are no additions in memory: each cotangent is
 * summed by one warp per query (d_q), per key (d_k, d_v: lanes take queries) or per group of
 * elements (d_bias). */
#include "codegen/attention/cuda_internal.h"

enum {
    WARPS = 4,
    PIECE = 256 /* elements that a warp sums at once; with more, weights are recomputed */
};

static const char *exponential(const sc_attention_text *text)
{
    return text->real[0] == 'f' ? "sc_exp_f32" : "exp";
}

static const char *logarithm(const sc_attention_text *text)
{
    return text->real[0] == 'f' ? "sc_log_f32" : "log";
}

static bool has(const sc_attention_dim *dim, sc_attention_role role)
{
    return (dim->has >> role & 1) != 0;
}

static bool of_keys(const sc_attention_desc *desc, const sc_attention_dim *dim)
{
    (void)desc;
    return has(dim, SC_ATTENTION_K);
}

static bool not_of_keys(const sc_attention_desc *desc, const sc_attention_dim *dim)
{
    (void)desc;
    return !has(dim, SC_ATTENTION_K);
}

static bool of_values(const sc_attention_desc *desc, const sc_attention_dim *dim)
{
    (void)desc;
    return has(dim, SC_ATTENTION_V);
}

static bool not_of_values(const sc_attention_desc *desc, const sc_attention_dim *dim)
{
    (void)desc;
    return !has(dim, SC_ATTENTION_V);
}

static bool of_bias(const sc_attention_desc *desc, const sc_attention_dim *dim)
{
    (void)desc;
    return has(dim, SC_ATTENTION_BIAS);
}

static bool not_of_bias(const sc_attention_desc *desc, const sc_attention_dim *dim)
{
    (void)desc;
    return !has(dim, SC_ATTENTION_BIAS);
}

/* ---- the work of a warp ---- */

/* Opens a stage in which each warp takes an item; declares `item` and `lane`. */
static void begin(sc_attention_cuda *cuda, int64_t items)
{
    sc_attention_text *text = &cuda->text;
    sc_attention_cuda_begin(cuda, (items + WARPS - 1) / WARPS, 32 * WARPS, 4);
    sc_write_line(text->out, "const int64_t item = sc_block() * %d + sc_warp();", WARPS);
    sc_write_line(text->out, "const int lane = sc_lane();");
    sc_write_line(text->out, "if (item >= %lld)", (long long)items);
    sc_write_line(text->out, "    return;");
}

/* Butterfly sum; all lanes get the result. */
static void sum_of_lanes(sc_attention_text *text, const char *name)
{
    sc_write_line(text->out, "for (int apart = 16; apart > 0; apart /= 2)");
    sc_write_line(text->out, "    %s += sc_shuffle_xor(%s, apart);", name, name);
}

/* Opens the loop over pieces of `size` elements; a lane holds sums[j] for `at` = x + 32 j + lane
 * below size. */
static void open_pieces(sc_attention_text *text, int64_t size)
{
    int64_t piece = size < PIECE ? (size + 31) / 32 * 32 : PIECE;
    sc_write_open(text->out, "for (int64_t x = 0; x < %lld; x += %lld)", (long long)size,
                  (long long)piece);
    sc_write_line(text->out, "%s sums[%lld] = {0};", text->real, (long long)piece / 32);
}

static void open_elements(sc_attention_text *text, int64_t size)
{
    int64_t piece = size < PIECE ? (size + 31) / 32 * 32 : PIECE;
    sc_write_open(text->out, "for (int j = 0; j < %lld; j++)", (long long)piece / 32);
    sc_write_line(text->out, "const int64_t at = x + 32 * j + lane;");
    sc_write_line(text->out, "if (at >= %lld)", (long long)size);
    sc_write_line(text->out, "    break;");
}

/* ---- a query, whose places are declared, and a key t ---- */

static const char *key_at(sc_attention_text *text, sc_attention_role role, const char *t,
                          const char *rest)
{
    return sc_arena_printf(text->arena, "%s_at + %s + %s", sc_attention_role_name(role),
                           sc_attention_times(text, t, text->desc->t.strides[role]), rest);
}

static void declare_score(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const char *q = sc_arena_printf(text->arena, "q_at + %s",
                                    sc_attention_times(text, "e", desc->e.strides[SC_ATTENTION_Q]));
    const char *k = key_at(text, SC_ATTENTION_K, "t",
                           sc_attention_times(text, "e", desc->e.strides[SC_ATTENTION_K]));
    sc_write_line(text->out, "%s score = 0;", text->real);
    sc_write_line(text->out, "for (int64_t e = 0; e < %lld; e++)", (long long)desc->e.size);
    sc_write_line(text->out, "    score += %s * %s;", sc_attention_read(text, SC_ATTENTION_Q, q),
                  sc_attention_read(text, SC_ATTENTION_K, k));
    sc_write_line(text->out, "score *= %s;", sc_attention_number(text, desc->scale));
    if (desc->softcap != 0)
        sc_write_line(text->out, "score = %s * %s(score / %s);",
                      sc_attention_number(text, desc->softcap),
                      text->real[0] == 'f' ? "sc_tanh_f32" : "tanh",
                      sc_attention_number(text, desc->softcap));
}

/* "t < high" and the other masks of the key. */
static const char *condition_of_key(sc_attention_text *text)
{
    const char *visible = sc_attention_visible(text);
    return visible == NULL ? "t < high" : sc_arena_printf(text->arena, "t < high && %s", visible);
}

/* Computes weight and, if requested, factor (of dropout), d_score and d_dot; these must be 0
 * (factor: 1) before. */
static void differentiate_pair(sc_attention_text *text, bool wants_scores)
{
    const sc_attention_desc *desc = text->desc;
    const char *v = key_at(text, SC_ATTENTION_V, "t", sc_attention_own(text, SC_ATTENTION_V, "o"));
    const char *d_out = sc_arena_printf(text->arena, "d_out_at + %s",
                                        sc_attention_own(text, SC_ATTENTION_D_OUT, "o"));
    const char *cap = sc_attention_number(text, desc->softcap),
               *scale = sc_attention_number(text, desc->scale);
    declare_score(text);
    if (desc->arrays[SC_ATTENTION_BIAS].is_there)
        sc_write_line(text->out, "weight = %s(score + %s - log_sum);", exponential(text),
                      sc_attention_bias_of_key(text));
    else
        sc_write_line(text->out, "weight = %s(score - log_sum);", exponential(text));
    if (desc->p > 0)
        sc_write_line(text->out, "factor = %s;", sc_attention_factor_of_key(text));
    if (!wants_scores)
        return;
    sc_write_line(text->out, "%s d_weight = 0;", text->real);
    sc_write_line(text->out, "for (int64_t o = 0; o < %lld && weight != 0%s; o++)",
                  (long long)sc_attention_own_size(desc), desc->p > 0 ? " && factor != 0" : "");
    sc_write_line(text->out, "    d_weight += %s * %s;",
                  sc_attention_read(text, SC_ATTENTION_D_OUT, d_out),
                  sc_attention_read(text, SC_ATTENTION_V, v));
    sc_write_line(text->out, "d_score = weight == 0 ? 0 : weight * (d_weight * factor - delta);");
    if (desc->softcap != 0)
        sc_write_line(text->out, "d_dot = d_score * (1 - score / %s * (score / %s)) * %s;", cap,
                      cap, scale);
    else
        sc_write_line(text->out, "d_dot = d_score * %s;", scale);
}

static void declare_pair(sc_attention_text *text)
{
    sc_write_line(text->out, "%s weight = 0, factor = 1, d_score = 0, d_dot = 0;", text->real);
    sc_write_line(text->out, "(void)factor, (void)d_score, (void)d_dot;");
}

/* ---- forward ---- */

static void add_keys(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const char *v =
        key_at(text, SC_ATTENTION_V, "(first + i)", sc_attention_own(text, SC_ATTENTION_V, "at"));
    sc_write_line(text->out, "%s most = score_of_lane;", text->real);
    sc_write_open(text->out, "for (int apart = 16; apart > 0; apart /= 2)");
    sc_write_line(text->out, "const %s other = sc_shuffle_xor(most, apart);", text->real);
    sc_write_line(text->out, "most = other > most || other != other ? other : most;");
    sc_write_close(text->out);
    sc_write_line(text->out, "most = most > largest || most != most ? most : largest;");
    sc_write_line(text->out,
                  "const %s base = most == -INFINITY ? 0 : most, scale = %s(largest - base);",
                  text->real, exponential(text));
    sc_write_line(text->out, "largest = most;");
    sc_write_line(text->out,
                  "%s weight = score_of_lane == -INFINITY ? 0 : %s(score_of_lane - base);",
                  text->real, exponential(text));
    sc_write_line(text->out, "total = total * scale + weight;");
    if (desc->p > 0) {
        sc_write_line(text->out, "if (weight != 0)");
        sc_write_line(text->out, "    weight *= %s;", sc_attention_factor_of_key(text));
    }
    sc_write_line(text->out, "for (int j = 0; j < (int)(sizeof sums / sizeof *sums); j++)");
    sc_write_line(text->out, "    sums[j] *= scale;");
    sc_write_open(text->out, "for (int i = 0; i < 32 && first + i < high; i++)");
    sc_write_line(text->out, "const %s weight_of_key = sc_shuffle(weight, i);", text->real);
    sc_write_line(text->out, "if (weight_of_key == 0)");
    sc_write_line(text->out, "    continue;");
    open_elements(text, sc_attention_own_size(desc));
    sc_write_line(text->out, "sums[j] += weight_of_key * %s;",
                  sc_attention_read(text, SC_ATTENTION_V, v));
    sc_write_close(text->out);
    sc_write_close(text->out);
}

static void emit_forward(sc_attention_cuda *cuda)
{
    sc_attention_text *text = &cuda->text;
    const sc_attention_desc *desc = text->desc;
    int64_t own = sc_attention_own_size(desc);
    const char *out =
        sc_arena_printf(text->arena, "out_at + %s", sc_attention_own(text, SC_ATTENTION_OUT, "at"));
    begin(cuda, sc_attention_points(desc, sc_attention_all));
    sc_attention_decode(text, sc_attention_all, "item");
    sc_attention_declare_places(text);
    open_pieces(text, own);
    sc_write_line(text->out, "%s largest = -INFINITY, total = 0;", text->real);
    sc_write_open(text->out, "for (int64_t first = low; first < high; first += 32)");
    sc_write_line(text->out, "const int64_t t = first + lane;");
    sc_write_line(text->out, "%s score_of_lane = -INFINITY;", text->real);
    sc_write_open(text->out, "if (%s)", condition_of_key(text));
    declare_score(text);
    if (desc->arrays[SC_ATTENTION_BIAS].is_there)
        sc_write_line(text->out, "score += %s;", sc_attention_bias_of_key(text));
    sc_write_line(text->out, "score_of_lane = score;");
    sc_write_close(text->out);
    add_keys(text);
    sc_write_close(text->out);
    sum_of_lanes(text, "total");
    open_elements(text, own);
    sc_write_line(text->out, "out[%s] = %s;", out,
                  sc_attention_stored(text, desc->arrays[SC_ATTENTION_OUT].dtype,
                                      "(total == 0 ? 0 : sums[j] / total)"));
    sc_write_close(text->out);
    if (desc->arrays[SC_ATTENTION_LSE].is_there) {
        sc_write_line(text->out, "if (lane == 0)");
        sc_write_line(text->out, "    lse[lse_at] = %s(total) + largest;", logarithm(text));
    }
    sc_write_close(text->out);
    sc_attention_cuda_end(cuda);
}

/* ---- backward ---- */

/* The row-major number of the query among all queries. */
static const char *number_of_query(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const char *sum = "0";
    for (uint32_t i = 0; i < desc->query_count; i++)
        sum = i == 0 ? "s0"
                     : sc_arena_printf(text->arena, "(%s) * %lld + s%u", sum,
                                       (long long)desc->queries[i].size, i);
    return sum;
}

/* delta[query]: the part of d_score common to all keys of a query; 0 for padding, whose values may
 * be anything. */
static void emit_delta(sc_attention_cuda *cuda)
{
    sc_attention_text *text = &cuda->text;
    const sc_attention_desc *desc = text->desc;
    const char *beyond = sc_attention_beyond(text),
               *o = sc_attention_own(text, SC_ATTENTION_OUT, "o"),
               *d_o = sc_attention_own(text, SC_ATTENTION_D_OUT, "o");
    begin(cuda, sc_attention_points(desc, sc_attention_all));
    sc_attention_decode(text, sc_attention_all, "item");
    sc_write_line(text->out, "const int64_t out_at = %s, d_out_at = %s;",
                  sc_attention_at(text, SC_ATTENTION_OUT, sc_attention_all),
                  sc_attention_at(text, SC_ATTENTION_D_OUT, sc_attention_all));
    sc_write_line(text->out, "%s delta = 0;", text->real);
    if (beyond != NULL)
        sc_write_line(text->out, "const bool is_beyond = %s;", beyond);
    sc_write_line(text->out, "for (int64_t o = lane; o < %lld%s; o += 32)",
                  (long long)sc_attention_own_size(desc), beyond == NULL ? "" : " && !is_beyond");
    sc_write_line(
        text->out, "    delta += %s * %s;",
        sc_attention_read(text, SC_ATTENTION_D_OUT,
                          sc_arena_printf(text->arena, "d_out_at + %s", d_o)),
        sc_attention_read(text, SC_ATTENTION_OUT, sc_arena_printf(text->arena, "out_at + %s", o)));
    sum_of_lanes(text, "delta");
    sc_write_line(text->out, "if (lane == 0)");
    sc_write_line(text->out, "    ((%s *)scratch)[item] = delta;", text->real);
    sc_attention_cuda_end(cuda);
}

/* After all dims: declares the places, log_sum, delta, and `is_there`, false for queries that
 * contribute nothing. */
static void declare_query(sc_attention_text *text)
{
    const char *beyond = sc_attention_beyond(text);
    sc_attention_declare_places(text);
    sc_write_line(text->out, "const %s delta = ((const %s *)scratch)[%s];", text->real, text->real,
                  number_of_query(text));
    sc_write_line(text->out, "const %s log_sum = %s;", text->real,
                  sc_attention_read(text, SC_ATTENTION_LSE, "lse_at"));
    sc_write_line(text->out, "(void)delta;");
    if (beyond == NULL)
        sc_write_line(text->out, "const bool is_there = log_sum != -INFINITY;");
    else
        sc_write_line(text->out, "const bool is_there = !(%s) && log_sum != -INFINITY;", beyond);
}

static void emit_d_q(sc_attention_cuda *cuda)
{
    sc_attention_text *text = &cuda->text;
    const sc_attention_desc *desc = text->desc;
    const char *k = key_at(text, SC_ATTENTION_K, "(first + i)",
                           sc_attention_times(text, "at", desc->e.strides[SC_ATTENTION_K]));
    const char *d_q =
        sc_arena_printf(text->arena, "d_q_at + %s",
                        sc_attention_times(text, "at", desc->e.strides[SC_ATTENTION_D_Q]));
    begin(cuda, sc_attention_points(desc, sc_attention_all));
    sc_attention_decode(text, sc_attention_all, "item");
    declare_query(text);
    open_pieces(text, desc->e.size);
    sc_write_open(text->out, "for (int64_t first = low; first < high && is_there; first += 32)");
    sc_write_line(text->out, "const int64_t t = first + lane;");
    declare_pair(text);
    sc_write_open(text->out, "if (%s)", condition_of_key(text));
    differentiate_pair(text, true);
    sc_write_close(text->out);
    sc_write_open(text->out, "for (int i = 0; i < 32 && first + i < high; i++)");
    sc_write_line(text->out, "const %s d_dot_of_key = sc_shuffle(d_dot, i);", text->real);
    sc_write_line(text->out, "if (d_dot_of_key == 0)");
    sc_write_line(text->out, "    continue;");
    open_elements(text, desc->e.size);
    sc_write_line(text->out, "sums[j] += d_dot_of_key * %s;",
                  sc_attention_read(text, SC_ATTENTION_K, k));
    sc_write_close(text->out);
    sc_write_close(text->out);
    sc_write_close(text->out);
    open_elements(text, desc->e.size);
    sc_write_line(text->out, "d_q[%s] = %s;", d_q,
                  sc_attention_stored(text, desc->arrays[SC_ATTENTION_D_Q].dtype, "sums[j]"));
    sc_write_close(text->out);
    sc_write_close(text->out);
    sc_attention_cuda_end(cuda);
}

/* d_k or d_v of one key: sums over the queries of the key's unit, 32 at a time. */
static void sum_over_queries(sc_attention_text *text, bool is_values, sc_attention_choice *outside,
                             sc_attention_choice *within)
{
    const sc_attention_desc *desc = text->desc;
    sc_attention_role from = is_values ? SC_ATTENTION_D_OUT : SC_ATTENTION_Q,
                      to = is_values ? SC_ATTENTION_D_V : SC_ATTENTION_D_K;
    int64_t size = is_values ? sc_attention_own_size(desc) : desc->e.size;
    long long queries = (long long)sc_attention_points(desc, within);
    const char *to_element = is_values ? sc_attention_own(text, to, "at")
                                       : sc_attention_times(text, "at", desc->e.strides[to]);
    const char *element = is_values ? sc_attention_own(text, from, "at")
                                    : sc_attention_times(text, "at", desc->e.strides[from]);
    const char *index = sc_arena_printf(text->arena, "query_at + %s", element),
               *name = sc_attention_role_name(from);
    sc_write_line(text->out, "const int64_t t = number %% %lld, point = number / %lld;",
                  (long long)desc->t.size, (long long)desc->t.size);
    sc_attention_decode(text, outside, "point");
    open_pieces(text, size);
    sc_write_open(text->out, "for (int64_t first = 0; first < %lld; first += 32)", queries);
    declare_pair(text);
    sc_write_line(text->out, "int64_t query_of_lane = 0;");
    sc_write_open(text->out, "if (first + lane < %lld)", queries);
    sc_attention_decode(text, within, "(first + lane)");
    declare_query(text);
    sc_write_line(text->out, "query_of_lane = %s_at;", name);
    sc_write_open(text->out, "if (is_there && t >= low && %s)", condition_of_key(text));
    differentiate_pair(text, !is_values);
    sc_write_close(text->out);
    sc_write_close(text->out);
    sc_write_open(text->out, "for (int i = 0; i < 32 && first + i < %lld; i++)", queries);
    sc_write_line(text->out, "const %s number_of_query = sc_shuffle(%s, i);", text->real,
                  is_values ? "weight * factor" : "d_dot");
    sc_write_line(text->out, "const int64_t query_at = sc_shuffle(query_of_lane, i);");
    sc_write_line(text->out, "if (number_of_query == 0)");
    sc_write_line(text->out, "    continue;");
    open_elements(text, size);
    sc_write_line(text->out, "sums[j] += number_of_query * %s;",
                  sc_attention_read(text, from, index));
    sc_write_close(text->out);
    sc_write_close(text->out);
    sc_write_close(text->out);
    open_elements(text, size);
    sc_write_line(text->out, "%s[%s + %s + %s] = %s;", sc_attention_role_name(to),
                  sc_attention_at(text, to, outside),
                  sc_attention_times(text, "t", desc->t.strides[to]), to_element,
                  sc_attention_stored(text, desc->arrays[to].dtype, "sums[j]"));
    sc_write_close(text->out);
    sc_write_close(text->out);
}

static void emit_d_k_d_v(sc_attention_cuda *cuda)
{
    sc_attention_text *text = &cuda->text;
    const sc_attention_desc *desc = text->desc;
    int64_t keys = sc_attention_points(desc, of_keys) * desc->t.size;
    int64_t values = sc_attention_points(desc, of_values) * desc->t.size;
    begin(cuda, keys + values);
    sc_write_open(text->out, "if (item < %lld)", (long long)keys);
    sc_write_line(text->out, "const int64_t number = item;");
    sum_over_queries(text, false, of_keys, not_of_keys);
    sc_write_close(text->out);
    sc_write_open(text->out, "else");
    sc_write_line(text->out, "const int64_t number = item - %lld;", (long long)keys);
    sum_over_queries(text, true, of_values, not_of_values);
    sc_write_close(text->out);
    sc_attention_cuda_end(cuda);
}

static void clear_d_bias(sc_attention_cuda *cuda)
{
    sc_attention_text *text = &cuda->text;
    const sc_attention_array *bias = &text->desc->arrays[SC_ATTENTION_D_BIAS];
    begin(cuda, (bias->count + 31) / 32);
    sc_write_line(text->out, "if (item * 32 + lane < %lld)", (long long)bias->count);
    sc_write_line(text->out, "    d_bias[item * 32 + lane] = 0;");
    sc_attention_cuda_end(cuda);
}

/* Lanes take keys; if the bias lacks T, the result is the sum over the lanes. In a ring the bias
 * may have keys that are not at hand, whose cotangents are cleared before. */
static void emit_d_bias(sc_attention_cuda *cuda)
{
    sc_attention_text *text = &cuda->text;
    const sc_attention_desc *desc = text->desc;
    bool has_keys = has(&desc->t, SC_ATTENTION_BIAS);
    long long pieces = has_keys ? (long long)(desc->t.size + 31) / 32 : 1,
              keys = (long long)desc->t.size;
    const char *stored = sc_attention_stored(text, desc->arrays[SC_ATTENTION_D_BIAS].dtype, "sum");
    begin(cuda, pieces * sc_attention_points(desc, of_bias));
    sc_write_line(text->out, "const int64_t point = item / %lld;", pieces);
    sc_attention_decode(text, of_bias, "point");
    sc_write_line(text->out, "%s sum = 0;", text->real);
    sc_write_open(text->out, "for (int64_t within = 0; within < %lld; within++)",
                  (long long)sc_attention_points(desc, not_of_bias));
    sc_attention_decode(text, not_of_bias, "within");
    declare_query(text);
    if (has_keys)
        sc_write_line(text->out, "const int64_t first = item %% %lld * 32, end = first + 32;",
                      pieces);
    else
        sc_write_line(text->out, "const int64_t first = 0, end = %lld;", keys);
    sc_write_open(text->out, "for (int64_t t = first + lane; t < end && is_there; t += 32)");
    declare_pair(text);
    sc_write_open(text->out, "if (t >= low && %s)", condition_of_key(text));
    differentiate_pair(text, true);
    sc_write_close(text->out);
    sc_write_line(text->out, "sum += d_score;");
    sc_write_close(text->out);
    sc_write_close(text->out);
    if (!has_keys)
        sum_of_lanes(text, "sum");
    if (has_keys)
        sc_write_line(text->out, "const int64_t t = item %% %lld * 32 + lane;", pieces);
    if (has_keys)
        sc_write_line(text->out, "if (t < %lld)", keys);
    else
        sc_write_line(text->out, "if (lane == 0)");
    sc_write_line(text->out, "    d_bias[%s + %s] = %s;",
                  sc_attention_at(text, SC_ATTENTION_D_BIAS, of_bias),
                  sc_attention_times(text, sc_attention_key(text, SC_ATTENTION_D_BIAS),
                                     desc->t.strides[SC_ATTENTION_D_BIAS]),
                  stored);
    sc_attention_cuda_end(cuda);
}

void sc_attention_cuda_simple(sc_attention_cuda *cuda)
{
    const sc_attention_desc *desc = cuda->text.desc;
    if (!desc->is_grad) {
        emit_forward(cuda);
        return;
    }
    cuda->code->scratch_bytes =
        sc_attention_points(desc, sc_attention_all) * (cuda->text.real[0] == 'f' ? 4 : 8);
    emit_delta(cuda);
    emit_d_q(cuda);
    emit_d_k_d_v(cuda);
    if ((desc->t.in_all >> SC_ATTENTION_D_BIAS & 1) != 0)
        clear_d_bias(cuda);
    if (desc->arrays[SC_ATTENTION_D_BIAS].is_there)
        emit_d_bias(cuda);
}
