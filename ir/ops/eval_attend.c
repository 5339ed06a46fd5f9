/* Attention by its definition: for each query (every dim of q except E), scores over T, a softmax
 * and the weighted mean of v. Keys and values align by name, so grouped-query (k lacks G) and
 * multi-query attention (k lacks both) need no special case.
 *
 * The derivative recomputes the weights from the logsumexp: Dao, "FlashAttention-2", 2023, section
 * 3.1.2. With weights p, their cotangents dp = dout v and delta = sum(dout out), the cotangent of
 * the scores is ds = p (dp - delta), independent of the other keys of the row. Dropout multiplies a
 * weight by m, 0 or 1 / (1 - p): dv gets p m dout, and ds = p (m dp - delta). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ops/eval_dropout.h"

/* Arrays of the walks, in the order in which they are added; operands that the op lacks are
 * absent. */
enum {
    OUT,
    Q,
    K,
    V,
    LSE,
    KEEP,
    BIAS,
    SINKS,
    SEGMENTS,
    KEY_SEGMENTS,
    POS,
    LEN,
    D_OUT,
    D_Q,
    D_K,
    D_V,
    D_BIAS
};

typedef struct sc_attention {
    sc_walk queries; /* every dim except T, E and v's own */
    sc_walk own;     /* v's own dims, which replace E in the result */
    sc_walk_dim t, e;
    /* by dim of queries: elements from this rank's first one to the global end */
    int64_t left[SC_WALK_DIMS];
    sc_dim position_dim; /* SC_NONE: no mask needs it */
    sc_eval_shard s_shard, t_shard;
    int64_t t_global;
    double scale, softcap;                        /* softcap 0: none */
    bool is_causal, is_whole_keep, is_whole_bias; /* whole: it has the keys of all members */
    double window; /* keys at <= position - window are masked; infinity if there is none */
    const double *q, *k, *v, *keep, *bias, *sinks, *segments, *key_segments, *pos, *len;
    sc_dropout dropout; /* of the weights, as an array with q's dims without E, then T */
    double *weights;    /* one per key */
} sc_attention;

static bool add_inputs(sc_eval *eval, sc_attention *a)
{
    a->q = eval->operands[0]->data;
    a->k = eval->operands[1]->data;
    a->v = eval->operands[2]->data;
    return sc_walk_add_operand(eval, &a->queries, 0) && sc_walk_add_operand(eval, &a->queries, 1) &&
           sc_walk_add_operand(eval, &a->queries, 2);
}

static bool add_called(sc_eval *eval, sc_attention *a)
{
    return sc_walk_add_called(eval, &a->queries, "keep", &a->keep) &&
           sc_walk_add_called(eval, &a->queries, "bias", &a->bias) &&
           sc_walk_add_called(eval, &a->queries, "sinks", &a->sinks) &&
           sc_walk_add_called(eval, &a->queries, "segments", &a->segments) &&
           sc_walk_add_called(eval, &a->queries, "key_segments", &a->key_segments) &&
           sc_walk_add_called(eval, &a->queries, "pos", &a->pos) &&
           sc_walk_add_called(eval, &a->queries, "len", &a->len);
}

/* Keys of a ring are one member's: an array of queries and keys has those of all members. */
static bool start_walk(sc_eval *eval, sc_attention *a)
{
    const sc_attr *dims = sc_op_attr(eval->op, SC_ATTR_dims);
    sc_walk_init(&a->queries);
    if (dims == NULL || dims->count != 2)
        return sc_eval_fail(eval, "its dims need to be a key and a head dim");
    int at = sc_type_find_dim(eval->operand_types[1], dims->dims[0]);
    if (at < 0 || sc_op_attr(eval->op, SC_ATTR_ring) == NULL)
        return true;
    a->queries.part = dims->dims[0];
    a->queries.part_size = eval->operands[1]->sizes[at];
    return true;
}

/* True if the array has the keys of all members. */
static bool has_all_keys(const sc_attention *a, const sc_array *array, const sc_type_info *type)
{
    int at = sc_type_find_dim(type, a->t.dim);
    return at >= 0 && array->sizes[at] != a->t.size;
}

static void find_whole_arrays(sc_eval *eval, sc_attention *a)
{
    uint32_t fixed = (uint32_t)sc_ops[eval->op->kind].operands;
    int keep = sc_op_operand_called(eval->m, eval->op, "keep", fixed),
        bias = sc_op_operand_called(eval->m, eval->op, "bias", fixed);
    a->is_whole_keep =
        keep >= 0 && has_all_keys(a, eval->operands[keep], eval->operand_types[keep]);
    a->is_whole_bias =
        bias >= 0 && has_all_keys(a, eval->operands[bias], eval->operand_types[bias]);
}

/* The index along T of key t in such an array. */
static int64_t key_in(const sc_attention *a, bool is_whole, int64_t t)
{
    return is_whole ? sc_eval_position(&a->t_shard, t) : t;
}

/* E is contracted between q and k. v may have a dim of the same name as its own dim, which goes to
 * the result. */
static bool take_dims(sc_eval *eval, sc_attention *a)
{
    const sc_attr *dims = sc_op_attr(eval->op, SC_ATTR_dims);
    if (!sc_walk_take(eval, &a->queries, dims->dims[0], &a->t) ||
        !sc_walk_take(eval, &a->queries, dims->dims[1], &a->e))
        return false;
    sc_walk_init(&a->own);
    a->own.arrays = a->queries.arrays;
    const sc_type_info *q = eval->operand_types[0], *k = eval->operand_types[1],
                       *v = eval->operand_types[2];
    for (uint32_t i = 0; i < v->rank; i++) {
        sc_dim dim = v->dims[i].dim;
        if (dim == a->e.dim)
            a->own.dims[a->own.rank++] = a->e;
        else if (dim != a->t.dim && sc_type_find_dim(q, dim) < 0 && sc_type_find_dim(k, dim) < 0) {
            if (!sc_walk_take(eval, &a->queries, dim, &a->own.dims[a->own.rank]))
                return false;
            a->own.rank++;
        }
    }
    return true;
}

static bool read_mask(sc_eval *eval, sc_attention *a)
{
    const char *mask = sc_text(eval->m->context, sc_op_word(eval->op, SC_ATTR_mask));
    const sc_attr *to = sc_op_attr(eval->op, SC_ATTR_to);
    bool is_window = strcmp(mask, "window") == 0;
    a->is_causal = is_window || strcmp(mask, "causal") == 0;
    if (!a->is_causal && mask[0] != 0 && strcmp(mask, "none") != 0)
        return sc_eval_fail(eval, "unknown mask %s", mask);
    if (a->is_causal && (to == NULL || to->count != 1))
        return sc_eval_fail(eval, "mask %s needs to know the query dim", mask);
    a->window = is_window ? (double)sc_op_int(eval->op, SC_ATTR_window, 0) : INFINITY;
    a->position_dim = to == NULL || to->count != 1 ? SC_NONE : to->dims[0];
    if (a->position_dim != SC_NONE)
        a->s_shard = sc_eval_shard_of(eval, a->position_dim);
    a->t_shard = sc_eval_shard_of(eval, a->t.dim);
    a->t_global = sc_eval_global_size(eval, a->t.dim);
    if ((a->segments == NULL) != (a->key_segments == NULL))
        return sc_eval_fail(eval, "segments and key_segments come together");
    return true;
}

static void read_dropout(const sc_eval *eval, sc_attention *a)
{
    const sc_type_info *q = eval->operand_types[0];
    sc_dim dims[SC_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < q->rank; i++) {
        if (q->dims[i].dim != a->e.dim)
            dims[rank++] = q->dims[i].dim;
    }
    dims[rank++] = a->t.dim;
    sc_dropout_init(eval, dims, rank, &a->dropout);
}

static int64_t left_of(const sc_eval *eval, sc_dim dim)
{
    const sc_eval_shard shard = sc_eval_shard_of(eval, dim);
    return sc_eval_global_size(eval, dim) - sc_eval_position(&shard, 0);
}

/* Call after all arrays have been added. */
static bool prepare(sc_eval *eval, sc_attention *a)
{
    if (!take_dims(eval, a) || !read_mask(eval, a))
        return false;
    for (uint32_t i = 0; i < a->queries.rank; i++)
        a->left[i] = left_of(eval, a->queries.dims[i].dim);
    a->scale = sc_op_number(eval->op, SC_ATTR_scale, 1 / sqrt((double)a->e.size));
    a->softcap = sc_op_number(eval->op, SC_ATTR_softcap, 0);
    read_dropout(eval, a);
    find_whole_arrays(eval, a);
    return true;
}

static double array_at(const double *data, const sc_attention *a, int array, int64_t t)
{
    return data[a->queries.at[array] + t * a->t.strides[array]];
}

static bool is_visible(const sc_attention *a, int64_t t)
{
    int64_t at = sc_eval_position(&a->t_shard, t);
    /* in a ring the last member may have padding for keys */
    if (at >= a->t_global)
        return false;
    double key = (double)at, pos = a->pos == NULL ? 0 : a->pos[a->queries.at[POS]];
    double query = pos;
    if (a->position_dim != SC_NONE)
        query += (double)sc_eval_position(&a->s_shard, sc_walk_index(&a->queries, a->position_dim));
    if (a->len != NULL && key >= pos + a->len[a->queries.at[LEN]])
        return false;
    if (a->is_causal && (key > query || key <= query - a->window))
        return false;
    if (a->keep != NULL && array_at(a->keep, a, KEEP, key_in(a, a->is_whole_keep, t)) == 0)
        return false;
    return a->segments == NULL ||
           array_at(a->segments, a, SEGMENTS, t) == array_at(a->key_segments, a, KEY_SEGMENTS, t);
}

/* The scaled and capped score, without bias. */
static double score(const sc_attention *a, int64_t t)
{
    const double *q = a->q + a->queries.at[Q], *k = a->k + a->queries.at[K] + t * a->t.strides[K];
    double sum = 0;
    for (int64_t e = 0; e < a->e.size; e++)
        sum += q[e * a->e.strides[Q]] * k[e * a->e.strides[K]];
    sum *= a->scale;
    return a->softcap == 0 ? sum : a->softcap * tanh(sum / a->softcap);
}

static double bias_at(const sc_attention *a, int64_t t)
{
    return a->bias == NULL ? 0 : array_at(a->bias, a, BIAS, key_in(a, a->is_whole_bias, t));
}

/* Returns the dropout factor of a key's weight; `row` is the index of the row's key 0 at hand. */
static double kept(const sc_attention *a, int64_t row, int64_t t)
{
    if (a->dropout.p == 0)
        return 1;
    int64_t beyond = sc_eval_position(&a->t_shard, t) - sc_eval_position(&a->t_shard, 0);
    return sc_dropout_factor(&a->dropout, row + beyond);
}

/* ---- attend ---- */

/* Stores unnormalised weights and returns their sum, 0 if every key is masked and there is no sink.
 * A masked key contributes nothing even if its score is NaN. *most is the largest score. A sink is
 * a score that is never masked and weighs no value. */
static double weigh(sc_attention *a, double *most)
{
    const double sink = a->sinks == NULL ? -INFINITY : a->sinks[a->queries.at[SINKS]];
    double total = 0;
    *most = sink;
    for (int64_t t = 0; t < a->t.size; t++) {
        a->weights[t] = is_visible(a, t) ? score(a, t) + bias_at(a, t) : -INFINITY;
        *most = a->weights[t] > *most || isnan(a->weights[t]) ? a->weights[t] : *most;
    }
    if (*most == -INFINITY)
        return 0;
    for (int64_t t = 0; t < a->t.size; t++) {
        a->weights[t] = exp(a->weights[t] - *most);
        total += a->weights[t];
    }
    return total + exp(sink - *most);
}

static void drop_weights(sc_attention *a)
{
    int64_t row = sc_dropout_index(&a->dropout, &a->queries);
    for (int64_t t = 0; t < a->t.size; t++)
        a->weights[t] *= kept(a, row, t);
}

static void add_values(sc_eval *eval, sc_attention *a, double total)
{
    sc_walk_start(&a->own);
    do {
        const double *v = a->v + a->queries.at[V] + a->own.at[V];
        double sum = 0;
        for (int64_t t = 0; t < a->t.size; t++)
            sum += a->weights[t] == 0 ? 0 : a->weights[t] * v[t * a->t.strides[V]];
        eval->results[0].data[a->queries.at[OUT] + a->own.at[OUT]] = sum / total;
    } while (sc_walk_next(&a->own));
}

static void attend_rows(sc_eval *eval, sc_attention *a)
{
    sc_walk_start(&a->queries);
    do {
        double most, total = weigh(a, &most);
        if (eval->op->result_count > 1)
            eval->results[1].data[a->queries.at[LSE]] =
                log(total) + most; /* -inf if every key is masked */
        if (total == 0)
            continue;
        if (a->dropout.p != 0)
            drop_weights(a);
        add_values(eval, a, total);
    } while (sc_walk_next(&a->queries));
}

bool eval_attend(sc_eval *eval)
{
    sc_attention a;
    if (!start_walk(eval, &a) || !sc_walk_add_result(eval, &a.queries, 0) ||
        !add_inputs(eval, &a) || !sc_walk_add_optional(eval, &a.queries, 1) ||
        !add_called(eval, &a) || !prepare(eval, &a))
        return false;
    a.weights = malloc((size_t)a.t.size * sizeof *a.weights);
    if (a.weights == NULL)
        return sc_eval_fail(eval, "out of memory");
    attend_rows(eval, &a);
    free(a.weights);
    return true;
}

/* ---- derivative ---- */

typedef struct sc_cotangents {
    const double *out, *lse, *d_out;
    double *d_q, *d_k, *d_v, *d_bias; /* d_bias: NULL if not wanted */
} sc_cotangents;

static bool add_cotangents(sc_eval *eval, sc_attention *a, sc_cotangents *c)
{
    *c = (sc_cotangents){eval->operands[3]->data,
                         eval->operands[4]->data,
                         eval->operands[5]->data,
                         eval->results[0].data,
                         eval->results[1].data,
                         eval->results[2].data,
                         eval->op->result_count > 3 ? eval->results[3].data : NULL};
    return start_walk(eval, a) && sc_walk_add_operand(eval, &a->queries, 3) &&
           add_inputs(eval, a) && sc_walk_add_operand(eval, &a->queries, 4) &&
           add_called(eval, a) && sc_walk_add_operand(eval, &a->queries, 5) &&
           sc_walk_add_result(eval, &a->queries, 0) && sc_walk_add_result(eval, &a->queries, 1) &&
           sc_walk_add_result(eval, &a->queries, 2) && sc_walk_add_optional(eval, &a->queries, 3);
}

/* True for a padding row (on ranks with an `offset`), which is no query: its contents must not
 * reach sums over queries. */
static bool is_beyond(const sc_attention *a)
{
    for (uint32_t i = 0; i < a->queries.rank; i++) {
        if (a->queries.dims[i].index >= a->left[i])
            return true;
    }
    return false;
}

/* Returns sum(dout out), the term that all scores of a row share. */
static double find_delta(sc_attention *a, const sc_cotangents *c)
{
    double sum = 0;
    sc_walk_start(&a->own);
    do
        sum += c->d_out[a->queries.at[D_OUT] + a->own.at[D_OUT]] *
               c->out[a->queries.at[OUT] + a->own.at[OUT]];
    while (sc_walk_next(&a->own));
    return sum;
}

/* Adds a key's contribution to dv and returns the cotangent of its weight. */
static double through_values(sc_attention *a, const sc_cotangents *c, int64_t t, double weight)
{
    int64_t from = a->queries.at[V] + t * a->t.strides[V],
            to = a->queries.at[D_V] + t * a->t.strides[D_V];
    double sum = 0;
    sc_walk_start(&a->own);
    do {
        double d_out = c->d_out[a->queries.at[D_OUT] + a->own.at[D_OUT]];
        sum += d_out * a->v[from + a->own.at[V]];
        c->d_v[to + a->own.at[D_V]] += weight * d_out;
    } while (sc_walk_next(&a->own));
    return sum;
}

/* Backpropagates d_dot, the cotangent of q times k, to q and k. */
static void through_dot(const sc_attention *a, const sc_cotangents *c, int64_t t, double d_dot)
{
    const double *q = a->q + a->queries.at[Q], *k = a->k + a->queries.at[K] + t * a->t.strides[K];
    double *d_q = c->d_q + a->queries.at[D_Q],
           *d_k = c->d_k + a->queries.at[D_K] + t * a->t.strides[D_K];
    for (int64_t e = 0; e < a->e.size; e++) {
        d_q[e * a->e.strides[D_Q]] += d_dot * k[e * a->e.strides[K]];
        d_k[e * a->e.strides[D_K]] += d_dot * q[e * a->e.strides[Q]];
    }
}

static void differentiate_row(sc_attention *a, const sc_cotangents *c)
{
    double lse = c->lse[a->queries.at[LSE]], delta = find_delta(a, c);
    int64_t row = sc_dropout_index(&a->dropout, &a->queries);
    for (int64_t t = 0; t < a->t.size; t++) {
        if (!is_visible(a, t))
            continue;
        double capped = score(a, t), weight = exp(capped + bias_at(a, t) - lse),
               factor = kept(a, row, t);
        if (weight == 0)
            continue;
        double d_score =
            weight *
            ((factor == 0 ? 0 : factor * through_values(a, c, t, weight * factor)) - delta);
        if (c->d_bias != NULL)
            c->d_bias[a->queries.at[D_BIAS] +
                      key_in(a, a->is_whole_bias, t) * a->t.strides[D_BIAS]] += d_score;
        double slope = a->softcap == 0 ? 1 : 1 - capped / a->softcap * (capped / a->softcap);
        through_dot(a, c, t, d_score * slope * a->scale);
    }
}

bool eval_attend_grad(sc_eval *eval)
{
    sc_attention a;
    sc_cotangents c;
    if (eval->op->result_count < 3)
        return sc_eval_fail(eval, "%u results", eval->op->result_count);
    if (!add_cotangents(eval, &a, &c) || !prepare(eval, &a))
        return false;
    sc_walk_start(&a.queries);
    do {
        /* nor if every key is masked */
        if (!is_beyond(&a) && c.lse[a.queries.at[LSE]] != -INFINITY)
            differentiate_row(&a, &c);
    } while (sc_walk_next(&a.queries));
    return true;
}
