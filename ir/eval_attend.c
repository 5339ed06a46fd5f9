/* Attention, by its definition: for each query (every dim of q but E), scores over T, a softmax, and v's weighted mean. Keys and values
 * align by name, so grouped queries (k lacks G) and multi-query attention (k lacks both) need nothing of their own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval_walk.h"

/* Arrays of the walks, in the order in which they are added. */
enum { OUT, Q, K, V, KEEP, BIAS, SEGMENTS, KEY_SEGMENTS, POS, LEN };

typedef struct sc_attention {
    sc_walk queries; /* every dim but T, E and v's own */
    sc_walk own;     /* v's own dims, in the result in E's place */
    sc_walk_dim t, e;
    sc_dim position_dim; /* SC_NONE: no mask needs one */
    int64_t s_offset, t_offset;
    double scale, softcap; /* softcap 0: none */
    bool is_causal;
    double window; /* keys at <= position - window are masked; infinite without */
    const double *keep, *bias, *segments, *key_segments, *pos, *len;
    double *weights; /* one per key */
} sc_attention;

static bool add_arrays(sc_eval *eval, sc_attention *a)
{
    sc_walk_init(&a->queries);
    return sc_walk_add_result(eval, &a->queries, 0) && sc_walk_add_operand(eval, &a->queries, 0) &&
           sc_walk_add_operand(eval, &a->queries, 1) && sc_walk_add_operand(eval, &a->queries, 2) &&
           sc_walk_add_called(eval, &a->queries, "keep", &a->keep) && sc_walk_add_called(eval, &a->queries, "bias", &a->bias) &&
           sc_walk_add_called(eval, &a->queries, "segments", &a->segments) &&
           sc_walk_add_called(eval, &a->queries, "key_segments", &a->key_segments) &&
           sc_walk_add_called(eval, &a->queries, "pos", &a->pos) && sc_walk_add_called(eval, &a->queries, "len", &a->len);
}

/* E is contracted between q and k and, under the same name, v's own between v and the result. */
static bool take_dims(sc_eval *eval, sc_attention *a)
{
    const sc_attr *dims = sc_op_attr(eval->op, SC_ATTR_dims);
    if (dims == NULL || dims->count != 2)
        return sc_eval_fail(eval, "its dims need to be a key and a head dim");
    if (!sc_walk_take(eval, &a->queries, dims->dims[0], &a->t) || !sc_walk_take(eval, &a->queries, dims->dims[1], &a->e))
        return false;
    sc_walk_init(&a->own);
    a->own.arrays = a->queries.arrays;
    const sc_type_info *q = eval->operand_types[0], *k = eval->operand_types[1], *v = eval->operand_types[2];
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
    a->s_offset = a->position_dim == SC_NONE ? 0 : sc_eval_offset(eval, a->position_dim);
    a->t_offset = sc_eval_offset(eval, a->t.dim);
    if ((a->segments == NULL) != (a->key_segments == NULL))
        return sc_eval_fail(eval, "segments and key_segments come together");
    return true;
}

static bool prepare(sc_eval *eval, sc_attention *a)
{
    a->weights = NULL;
    if (!add_arrays(eval, a) || !take_dims(eval, a) || !read_mask(eval, a))
        return false;
    a->scale = sc_op_number(eval->op, SC_ATTR_scale, 1 / sqrt((double)a->e.size));
    a->softcap = sc_op_number(eval->op, SC_ATTR_softcap, 0);
    a->weights = malloc((size_t)a->t.size * sizeof *a->weights);
    return a->weights != NULL || sc_eval_fail(eval, "out of memory");
}

static double array_at(const double *data, const sc_attention *a, int array, int64_t t)
{
    return data[a->queries.at[array] + t * a->t.strides[array]];
}

static bool is_visible(const sc_attention *a, int64_t t)
{
    double key = (double)(a->t_offset + t), pos = a->pos == NULL ? 0 : a->pos[a->queries.at[POS]];
    double query = (double)(a->s_offset + sc_walk_index(&a->queries, a->position_dim)) + pos;
    if (a->len != NULL && key >= pos + a->len[a->queries.at[LEN]])
        return false;
    if (a->is_causal && (key > query || key <= query - a->window))
        return false;
    if (a->keep != NULL && array_at(a->keep, a, KEEP, t) == 0)
        return false;
    return a->segments == NULL || array_at(a->segments, a, SEGMENTS, t) == array_at(a->key_segments, a, KEY_SEGMENTS, t);
}

static double score(const sc_eval *eval, const sc_attention *a, int64_t t)
{
    const double *q = eval->operands[0]->data + a->queries.at[Q], *k = eval->operands[1]->data + a->queries.at[K] + t * a->t.strides[K];
    double sum = 0;
    for (int64_t e = 0; e < a->e.size; e++)
        sum += q[e * a->e.strides[Q]] * k[e * a->e.strides[K]];
    sum *= a->scale;
    if (a->softcap != 0)
        sum = a->softcap * tanh(sum / a->softcap);
    return a->bias == NULL ? sum : sum + array_at(a->bias, a, BIAS, t);
}

/* Leaves unnormalised weights and returns their sum; 0 when every key is masked. A masked key counts nothing even if its score is NaN. */
static double weigh(const sc_eval *eval, sc_attention *a)
{
    double most = -INFINITY, total = 0;
    for (int64_t t = 0; t < a->t.size; t++) {
        a->weights[t] = is_visible(a, t) ? score(eval, a, t) : -INFINITY;
        most = a->weights[t] > most || isnan(a->weights[t]) ? a->weights[t] : most;
    }
    if (most == -INFINITY)
        return 0;
    for (int64_t t = 0; t < a->t.size; t++) {
        a->weights[t] = exp(a->weights[t] - most);
        total += a->weights[t];
    }
    return total;
}

static void add_values(sc_eval *eval, sc_attention *a, double total)
{
    sc_walk_start(&a->own);
    do {
        const double *v = eval->operands[2]->data + a->queries.at[V] + a->own.at[V];
        double sum = 0;
        for (int64_t t = 0; t < a->t.size; t++)
            sum += a->weights[t] == 0 ? 0 : a->weights[t] * v[t * a->t.strides[V]];
        eval->results[0].data[a->queries.at[OUT] + a->own.at[OUT]] = sum / total;
    } while (sc_walk_next(&a->own));
}

bool eval_attend(sc_eval *eval)
{
    sc_attention a;
    bool is_ready = prepare(eval, &a);
    if (is_ready) {
        sc_walk_start(&a.queries);
        do {
            double total = weigh(eval, &a);
            if (total != 0)
                add_values(eval, &a, total);
        } while (sc_walk_next(&a.queries));
    }
    free(a.weights);
    return is_ready;
}
