/* Reductions over `dims`, and the ops along one dim built from them: softmax and related ops, xent,
 * argmax, cumsum. */
#include <math.h>

#include "ir/ops/eval_walk.h"

static double add(double sum, double x)
{
    return sum + x;
}

/* NaN propagates. */
static double larger(double most, double x)
{
    return x > most || isnan(x) ? x : most;
}

static double smaller(double least, double x)
{
    return x < least || isnan(x) ? x : least;
}

/* Row-major over the operand, so terms are added in index order. */
static bool reduce(sc_eval *eval, double start, double (*combine)(double, double))
{
    sc_walk walk;
    sc_walk_init(&walk);
    if (!sc_walk_add_operand(eval, &walk, 0) || !sc_walk_add_result(eval, &walk, 0))
        return false;
    for (int64_t i = 0; i < eval->results[0].count; i++)
        eval->results[0].data[i] = start;
    sc_walk_dim row = sc_walk_take_row(&walk);
    sc_walk_start(&walk);
    do {
        const double *x = eval->operands[0]->data + walk.at[0];
        double *out = eval->results[0].data + walk.at[1];
        for (int64_t i = 0; i < row.size; i++)
            out[i * row.strides[1]] = combine(out[i * row.strides[1]], x[i * row.strides[0]]);
    } while (sc_walk_next(&walk));
    return true;
}

bool eval_sum(sc_eval *eval)
{
    return reduce(eval, 0, add);
}

bool eval_max(sc_eval *eval)
{
    return reduce(eval, -INFINITY, larger);
}

bool eval_min(sc_eval *eval)
{
    return reduce(eval, INFINITY, smaller);
}

bool eval_argmax(sc_eval *eval)
{
    sc_walk walk;
    sc_walk_dim v;
    sc_walk_init(&walk);
    if (!sc_walk_add_operand(eval, &walk, 0) || !sc_walk_add_result(eval, &walk, 0) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_dims, &v))
        return false;
    sc_walk_start(&walk);
    do {
        const double *x = eval->operands[0]->data + walk.at[0];
        int64_t best = 0;
        for (int64_t i = 1; i < v.size; i++)
            best = x[i * v.strides[0]] > x[best * v.strides[0]] ? i : best;
        eval->results[0].data[walk.at[1]] = (double)best;
    } while (sc_walk_next(&walk));
    return true;
}

/* The max and sum of exponentials from which softmax and related ops are computed. */
typedef struct sc_exponentials {
    double most;  /* the largest x; -inf if all are */
    double total; /* sum of exp(x - most) */
} sc_exponentials;

static sc_exponentials sum_exponentials(const double *x, sc_walk *inner)
{
    sc_exponentials sums = {-INFINITY, 0};
    sc_walk_start(inner);
    do
        sums.most = larger(sums.most, x[inner->at[0]]);
    while (sc_walk_next(inner));
    if (sums.most == -INFINITY)
        return sums;
    sc_walk_start(inner);
    do
        sums.total += exp(x[inner->at[0]] - sums.most);
    while (sc_walk_next(inner));
    return sums;
}

/* -inf if all elements are: log(0). */
static double log_sum(sc_exponentials sums)
{
    return log(sums.total) + sums.most;
}

bool eval_logsumexp(sc_eval *eval)
{
    sc_walk walk, inner;
    sc_walk_init(&walk);
    if (!sc_walk_add_operand(eval, &walk, 0) || !sc_walk_add_result(eval, &walk, 0) ||
        !sc_walk_split(eval, &walk, &inner))
        return false;
    sc_walk_start(&walk);
    do
        eval->results[0].data[walk.at[1]] =
            log_sum(sum_exponentials(eval->operands[0]->data + walk.at[0], &inner));
    while (sc_walk_next(&walk));
    return true;
}

static double log_probability(double x, sc_exponentials sums)
{
    return sums.most == -INFINITY ? -INFINITY : x - sums.most - log(sums.total);
}

static double probability(double x, sc_exponentials sums)
{
    return sums.most == -INFINITY ? 0 : exp(x - sums.most) / sums.total;
}

static bool normalise(sc_eval *eval, double (*f)(double, sc_exponentials))
{
    sc_walk walk, inner;
    sc_walk_init(&walk);
    if (!sc_walk_add_operand(eval, &walk, 0) || !sc_walk_add_result(eval, &walk, 0) ||
        !sc_walk_split(eval, &walk, &inner))
        return false;
    sc_walk_start(&walk);
    do {
        const double *x = eval->operands[0]->data + walk.at[0];
        double *out = eval->results[0].data + walk.at[1];
        sc_exponentials sums = sum_exponentials(x, &inner);
        sc_walk_start(&inner);
        do
            out[inner.at[1]] = f(x[inner.at[0]], sums);
        while (sc_walk_next(&inner));
    } while (sc_walk_next(&walk));
    return true;
}

bool eval_softmax(sc_eval *eval)
{
    return normalise(eval, probability);
}

bool eval_log_softmax(sc_eval *eval)
{
    return normalise(eval, log_probability);
}

/* (1 - e) * nll(target) + e * mean of nll over V, with nll(v) = log(sum exp) - x[v]. */
static double smoothed_loss(const double *x, const sc_walk_dim *v, int64_t target, double log_total,
                            double smoothing)
{
    double sum = 0;
    if (smoothing != 0) {
        for (int64_t i = 0; i < v->size; i++)
            sum += x[i * v->strides[0]];
    }
    double loss = (1 - smoothing) * (log_total - x[target * v->strides[0]]);
    return smoothing == 0 ? loss : loss + smoothing * (log_total - sum / (double)v->size);
}

bool eval_xent(sc_eval *eval)
{
    double ignore = (double)sc_op_int(eval->op, SC_ATTR_ignore, -100),
           smoothing = sc_op_number(eval->op, SC_ATTR_smoothing, 0);
    sc_walk walk, row;
    sc_walk_dim v;
    sc_walk_init(&walk);
    if (!sc_walk_add_operand(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 1) ||
        !sc_walk_add_result(eval, &walk, 0) || !sc_walk_add_optional(eval, &walk, 1) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_dims, &v))
        return false;
    int at = sc_type_find_dim(eval->operand_types[0], v.dim);
    if (at < 0 || v.size != eval->operand_types[0]->dims[at].size)
        return sc_eval_fail(eval, "dim %s is split here; xent needs it whole",
                            sc_eval_dim_name(eval, v.dim));
    sc_walk_init(&row);
    row.arrays = walk.arrays;
    row.dims[row.rank++] = v;
    sc_walk_start(&walk);
    do {
        const double *x = eval->operands[0]->data + walk.at[0];
        double target = eval->operands[1]->data[walk.at[1]], log_total = 0;
        bool has_log_total = eval->op->result_count > 1;
        if (has_log_total || target != ignore)
            log_total = log_sum(sum_exponentials(x, &row));
        if (has_log_total)
            eval->results[1].data[walk.at[3]] = log_total;
        if (target == ignore)
            continue; /* the result is already zero */
        if (!(target >= 0 && target < (double)v.size))
            return sc_eval_fail(eval, "target %.17g is outside 0 <= id < %s = %lld", target,
                                sc_eval_dim_name(eval, v.dim), (long long)v.size);
        eval->results[0].data[walk.at[2]] =
            smoothed_loss(x, &v, (int64_t)target, log_total, smoothing);
    } while (sc_walk_next(&walk));
    return true;
}

bool eval_cumsum(sc_eval *eval)
{
    sc_walk walk;
    sc_walk_dim s;
    sc_walk_init(&walk);
    if (!sc_walk_add_operand(eval, &walk, 0) || !sc_walk_add_result(eval, &walk, 0) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_dims, &s))
        return false;
    bool is_reverse = sc_op_int(eval->op, SC_ATTR_reverse, 0) != 0;
    sc_walk_start(&walk);
    do {
        double sum = 0;
        for (int64_t n = 0; n < s.size; n++) {
            int64_t i = is_reverse ? s.size - 1 - n : n;
            sum += eval->operands[0]->data[walk.at[0] + i * s.strides[0]];
            eval->results[0].data[walk.at[1] + i * s.strides[1]] = sum;
        }
    } while (sc_walk_next(&walk));
    return true;
}
