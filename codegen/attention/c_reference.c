/* The simple form: one query at a time, by definition, for every layout, mask and dtype. Forward,
 * keys are processed in pieces whose scores fit on the stack; a piece with a new largest score
 * rescales the sums so far (Milakov and Gimelshein, "Online normalizer calculation for softmax",
 * 2018). Backward, queries that add to the same cotangent elements run sequentially. */
#include "codegen/attention/c_internal.h"

enum {
    PIECE = 64 /* keys */,
    OWN_PIECE = 1024 /* elements of v; with more, scores are recomputed */
};

static const char *place(sc_attention_text *text, const char *start, const char *a, const char *b)
{
    return sc_arena_printf(text->arena, "%s + %s + %s", start, a, b);
}

/* Computes `score` of key t: scaled and capped. */
static void score_of_key(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const sc_attention_dim *t = &desc->t, *e = &desc->e;
    const char *q = sc_arena_printf(text->arena, "q_at + %s",
                                    sc_attention_times(text, "e", e->strides[SC_ATTENTION_Q]));
    const char *k = place(text, "k_at", sc_attention_times(text, "t", t->strides[SC_ATTENTION_K]),
                          sc_attention_times(text, "e", e->strides[SC_ATTENTION_K]));
    sc_write_line(text->out, "%s score = 0;", text->real);
    sc_write_line(text->out, "#pragma omp simd reduction(+ : score)");
    sc_write_line(text->out, "for (int64_t e = 0; e < %lld; e++)", (long long)e->size);
    sc_write_line(text->out, "    score += %s * %s;", sc_attention_read(text, SC_ATTENTION_Q, q),
                  sc_attention_read(text, SC_ATTENTION_K, k));
    sc_write_line(text->out, "score *= %s;", sc_attention_number(text, desc->scale));
    if (desc->softcap != 0)
        sc_write_line(text->out, "score = %s * %s(score / %s);",
                      sc_attention_number(text, desc->softcap),
                      text->real[0] == 'f' ? "sc_tanh_f32" : "tanh",
                      sc_attention_number(text, desc->softcap));
}

static const char *exponential(const sc_attention_text *text)
{
    return text->real[0] == 'f' ? "sc_exp_f32" : "exp";
}

static const char *logarithm(const sc_attention_text *text)
{
    return text->real[0] == 'f' ? "sc_log_f32" : "log";
}

/* ---- forward ---- */

static void scores_of_piece(sc_attention_text *text)
{
    const char *visible = sc_attention_visible(text);
    sc_write_line(text->out, "%s weights[%d], most = -INFINITY;", text->real, PIECE);
    sc_write_open(text->out, "for (int64_t i = 0; i < count; i++)");
    sc_write_line(text->out, "const int64_t t = first + i;");
    sc_write_line(text->out, "weights[i] = -INFINITY;");
    if (visible != NULL) {
        sc_write_line(text->out, "if (!(%s))", visible);
        sc_write_line(text->out, "    continue;");
    }
    score_of_key(text);
    if (text->desc->arrays[SC_ATTENTION_BIAS].is_there)
        sc_write_line(text->out, "score += %s;", sc_attention_bias_of_key(text));
    sc_write_line(text->out, "weights[i] = score;");
    sc_write_line(text->out, "most = score > most || score != score ? score : most;");
    sc_write_close(text->out);
}

static void add_piece(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const char *v =
        place(text, "v_at", sc_attention_times(text, "t", desc->t.strides[SC_ATTENTION_V]),
              sc_attention_own(text, SC_ATTENTION_V, "(own + o)"));
    sc_write_line(text->out, "most = most > largest || most != most ? most : largest;");
    sc_write_line(text->out,
                  "const %s base = most == -INFINITY ? 0 : most, scale = %s(largest - base);",
                  text->real, exponential(text));
    sc_write_line(text->out, "largest = most;");
    sc_write_line(text->out, "total *= scale;");
    sc_write_line(text->out, "for (int64_t o = 0; o < width; o++)");
    sc_write_line(text->out, "    sums[o] *= scale;");
    sc_write_open(text->out, "for (int64_t i = 0; i < count; i++)");
    sc_write_line(text->out, "const int64_t t = first + i;");
    sc_write_line(text->out, "%s weight = %s(weights[i] - base);", text->real, exponential(text));
    sc_write_line(text->out, "total += weight;");
    if (desc->p > 0)
        sc_write_line(text->out, "weight *= %s;", sc_attention_factor_of_key(text));
    sc_write_line(text->out, "for (int64_t o = 0; o < width && weight != 0; o++)");
    sc_write_line(text->out, "    sums[o] += weight * %s;",
                  sc_attention_read(text, SC_ATTENTION_V, v));
    sc_write_close(text->out);
}

static void emit_forward(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    long long own = (long long)sc_attention_own_size(desc),
              piece = own < OWN_PIECE ? own : OWN_PIECE;
    const char *out = sc_arena_printf(text->arena, "out_at + %s",
                                      sc_attention_own(text, SC_ATTENTION_OUT, "(own + o)"));
    sc_attention_begin(text);
    sc_write_line(text->out, "#pragma omp parallel for schedule(dynamic, 4)");
    sc_write_open(text->out, "for (int64_t number = 0; number < %lld; number++)",
                  (long long)sc_attention_points(desc, sc_attention_all));
    sc_attention_decode(text, sc_attention_all, "number");
    sc_attention_declare_places(text);
    sc_write_open(text->out, "for (int64_t own = 0; own < %lld; own += %lld)", own, piece);
    sc_write_line(text->out, "const int64_t width = %lld - own < %lld ? %lld - own : %lld;", own,
                  piece, own, piece);
    sc_write_line(text->out, "%s sums[%lld] = {0}, largest = -INFINITY, total = 0;", text->real,
                  piece);
    sc_write_open(text->out, "for (int64_t first = low; first < high; first += %d)", PIECE);
    sc_write_line(text->out, "const int64_t count = high - first < %d ? high - first : %d;", PIECE,
                  PIECE);
    scores_of_piece(text);
    add_piece(text);
    sc_write_close(text->out);
    sc_write_line(text->out, "for (int64_t o = 0; o < width; o++)");
    sc_write_line(text->out, "    out[%s] = %s;", out,
                  sc_attention_stored(text, desc->arrays[SC_ATTENTION_OUT].dtype,
                                      "(total == 0 ? 0 : sums[o] / total)"));
    if (desc->arrays[SC_ATTENTION_LSE].is_there)
        sc_write_line(text->out, "lse[lse_at] = %s(total) + largest;", logarithm(text));
    sc_write_close(text->out);
    sc_write_close(text->out);
    sc_attention_end(text);
}

/* ---- backward ---- */

/* The part of d_score that is common to all keys of the query. */
static void declare_delta(sc_attention_text *text)
{
    const char *out =
        sc_arena_printf(text->arena, "out_at + %s", sc_attention_own(text, SC_ATTENTION_OUT, "o"));
    const char *d_out = sc_arena_printf(text->arena, "d_out_at + %s",
                                        sc_attention_own(text, SC_ATTENTION_D_OUT, "o"));
    sc_write_line(text->out, "%s delta = 0;", text->real);
    sc_write_line(text->out, "for (int64_t o = 0; o < %lld; o++)",
                  (long long)sc_attention_own_size(text->desc));
    sc_write_line(text->out, "    delta += %s * %s;",
                  sc_attention_read(text, SC_ATTENTION_D_OUT, d_out),
                  sc_attention_read(text, SC_ATTENTION_OUT, out));
}

/* Adds to d_v and computes d_weight. */
static void through_values(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const char *v =
        place(text, "v_at", sc_attention_times(text, "t", desc->t.strides[SC_ATTENTION_V]),
              sc_attention_own(text, SC_ATTENTION_V, "o"));
    const char *d_v =
        place(text, "d_v_at", sc_attention_times(text, "t", desc->t.strides[SC_ATTENTION_D_V]),
              sc_attention_own(text, SC_ATTENTION_D_V, "o"));
    const char *d_out = sc_arena_printf(text->arena, "d_out_at + %s",
                                        sc_attention_own(text, SC_ATTENTION_D_OUT, "o"));
    sc_write_line(text->out, "%s d_weight = 0;", text->real);
    sc_write_open(text->out, "for (int64_t o = 0; o < %lld%s; o++)",
                  (long long)sc_attention_own_size(desc), desc->p > 0 ? " && factor != 0" : "");
    sc_write_line(text->out, "d_weight += %s * %s;",
                  sc_attention_read(text, SC_ATTENTION_D_OUT, d_out),
                  sc_attention_read(text, SC_ATTENTION_V, v));
    sc_write_line(text->out, "sum_d_v[%s] += weight%s * %s;", d_v, desc->p > 0 ? " * factor" : "",
                  sc_attention_read(text, SC_ATTENTION_D_OUT, d_out));
    sc_write_close(text->out);
    if (desc->p > 0)
        sc_write_line(text->out, "d_weight *= factor;");
}

static void through_key(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const sc_attention_dim *t = &desc->t, *e = &desc->e;
    const char *q = sc_arena_printf(text->arena, "q_at + %s",
                                    sc_attention_times(text, "e", e->strides[SC_ATTENTION_Q]));
    const char *d_q = sc_arena_printf(text->arena, "d_q_at + %s",
                                      sc_attention_times(text, "e", e->strides[SC_ATTENTION_D_Q]));
    const char *k = place(text, "k_at", sc_attention_times(text, "t", t->strides[SC_ATTENTION_K]),
                          sc_attention_times(text, "e", e->strides[SC_ATTENTION_K]));
    const char *d_k =
        place(text, "d_k_at", sc_attention_times(text, "t", t->strides[SC_ATTENTION_D_K]),
              sc_attention_times(text, "e", e->strides[SC_ATTENTION_D_K]));
    const char *cap = sc_attention_number(text, desc->softcap);
    sc_write_line(text->out, "const %s d_score = weight * (d_weight - delta);", text->real);
    if (desc->arrays[SC_ATTENTION_D_BIAS].is_there)
        sc_write_line(text->out, "sum_d_bias[d_bias_at + %s] += d_score;",
                      sc_attention_times(text, sc_attention_key(text, SC_ATTENTION_D_BIAS),
                                         t->strides[SC_ATTENTION_D_BIAS]));
    if (desc->softcap != 0)
        sc_write_line(text->out, "const %s d_dot = d_score * (1 - score / %s * (score / %s)) * %s;",
                      text->real, cap, cap, sc_attention_number(text, desc->scale));
    else
        sc_write_line(text->out, "const %s d_dot = d_score * %s;", text->real,
                      sc_attention_number(text, desc->scale));
    sc_write_open(text->out, "for (int64_t e = 0; e < %lld; e++)", (long long)e->size);
    sc_write_line(text->out, "sum_d_q[%s] += d_dot * %s;", d_q,
                  sc_attention_read(text, SC_ATTENTION_K, k));
    sc_write_line(text->out, "sum_d_k[%s] += d_dot * %s;", d_k,
                  sc_attention_read(text, SC_ATTENTION_Q, q));
    sc_write_close(text->out);
}

static void differentiate_key(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const char *visible = sc_attention_visible(text);
    if (visible != NULL) {
        sc_write_line(text->out, "if (!(%s))", visible);
        sc_write_line(text->out, "    continue;");
    }
    score_of_key(text);
    if (desc->arrays[SC_ATTENTION_BIAS].is_there)
        sc_write_line(text->out, "const %s weight = %s(score + %s - log_sum);", text->real,
                      exponential(text), sc_attention_bias_of_key(text));
    else
        sc_write_line(text->out, "const %s weight = %s(score - log_sum);", text->real,
                      exponential(text));
    sc_write_line(text->out, "if (weight == 0)");
    sc_write_line(text->out, "    continue;");
    if (desc->p > 0)
        sc_write_line(text->out, "const %s factor = %s;", text->real,
                      sc_attention_factor_of_key(text));
    through_values(text);
    through_key(text);
}

static void emit_backward(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const char *beyond = sc_attention_beyond(text);
    sc_attention_begin(text);
    sc_attention_begin_sums(text);
    sc_write_line(text->out, "#pragma omp parallel for schedule(dynamic, 1)");
    sc_write_open(text->out, "for (int64_t unit = 0; unit < %lld; unit++)",
                  (long long)sc_attention_points(desc, sc_attention_of_sums));
    sc_attention_decode(text, sc_attention_of_sums, "unit");
    sc_write_open(text->out, "for (int64_t number = 0; number < %lld; number++)",
                  (long long)sc_attention_points(desc, sc_attention_within_sums));
    sc_attention_decode(text, sc_attention_within_sums, "number");
    sc_attention_declare_places(text);
    sc_write_line(text->out, "const %s log_sum = %s;", text->real,
                  sc_attention_read(text, SC_ATTENTION_LSE, "lse_at"));
    if (beyond != NULL)
        sc_write_line(text->out, "if (%s) /* padding */", beyond);
    if (beyond != NULL)
        sc_write_line(text->out, "    continue;");
    sc_write_line(text->out, "if (log_sum == -INFINITY) /* every key is masked */");
    sc_write_line(text->out, "    continue;");
    declare_delta(text);
    sc_write_open(text->out, "for (int64_t t = low; t < high; t++)");
    differentiate_key(text);
    sc_write_close(text->out);
    sc_write_close(text->out);
    sc_write_close(text->out);
    sc_attention_end_sums(text);
    sc_attention_end(text);
}

void sc_attention_emit_simple(sc_attention_text *text)
{
    if (text->desc->is_grad)
        emit_backward(text);
    else
        emit_forward(text);
}
