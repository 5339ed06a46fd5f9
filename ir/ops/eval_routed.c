/* Products with the weights that ids select: routed_dot and its gradient. Ids are checked against
 * the global size of the indexed dim; rows of other ranks' weights give 0. */
#include "ir/ops/eval_walk.h"

/* The weights of an id: its index in this rank's shard of the dim, -1 if that has none of it;
 * false, and an error, if no rank has. */
static bool find_weights(sc_eval *eval, const sc_walk_dim *experts, double id, int64_t *out)
{
    int64_t size = sc_eval_global_size(eval, experts->dim);
    if (!(id >= 0 && id < (double)size))
        return sc_eval_fail(eval, "id %.17g is outside 0 <= id < %s = %lld", id,
                            sc_eval_dim_name(eval, experts->dim), (long long)size);
    const sc_eval_shard shard = sc_eval_shard_of(eval, experts->dim);
    *out = sc_eval_place(&shard, (int64_t)id);
    return true;
}

static bool add_operands(sc_eval *eval, sc_walk *walk)
{
    return sc_walk_add_operand(eval, walk, 0) && sc_walk_add_operand(eval, walk, 1) &&
           sc_walk_add_operand(eval, walk, 2);
}

/* Takes the indexed dim, that of parts (no array has a step along it if there are none) and those
 * of the inner loop out of the walk. */
static bool take_dims(sc_eval *eval, sc_walk *walk, sc_walk *inner, sc_walk_dim *experts,
                      sc_walk_dim *parts)
{
    *parts = (sc_walk_dim){.size = 1};
    return sc_walk_take_attr(eval, walk, SC_ATTR_to, experts) &&
           (sc_op_attr(eval->op, SC_ATTR_parts) == NULL ||
            sc_walk_take_attr(eval, walk, SC_ATTR_parts, parts)) &&
           sc_walk_split(eval, walk, inner);
}

/* The part of this rank's shard in which the weights are. */
static int64_t part_of(const sc_walk_dim *parts, const sc_walk_dim *experts, int64_t local)
{
    return local / (experts->size / parts->size);
}

bool eval_routed_dot(sc_eval *eval)
{
    enum { OUT, X, W, IDS };
    sc_walk walk, inner;
    sc_walk_dim experts, parts;
    sc_walk_init(&walk);
    if (!sc_walk_add_result(eval, &walk, 0) || !add_operands(eval, &walk) ||
        !take_dims(eval, &walk, &inner, &experts, &parts))
        return false;
    sc_walk_start(&walk);
    do {
        int64_t local = -1;
        if (!find_weights(eval, &experts, eval->operands[2]->data[walk.at[IDS]], &local))
            return false;
        if (local < 0)
            continue;
        int64_t part = part_of(&parts, &experts, local);
        const double *x = eval->operands[0]->data + walk.at[X] + part * parts.strides[X],
                     *w = eval->operands[1]->data + walk.at[W] + local * experts.strides[W];
        double sum = 0;
        sc_walk_start(&inner);
        do {
            sum += x[inner.at[X]] * w[inner.at[W]];
        } while (sc_walk_next(&inner));
        eval->results[0].data[walk.at[OUT] + part * parts.strides[OUT]] = sum;
    } while (sc_walk_next(&walk));
    return true;
}

/* The terms of an element are added in the order of rows. */
bool eval_routed_grad(sc_eval *eval)
{
    enum { X, DY, IDS, OUT };
    sc_walk walk, inner;
    sc_walk_dim experts, parts;
    sc_walk_init(&walk);
    if (!add_operands(eval, &walk) || !sc_walk_add_result(eval, &walk, 0) ||
        !take_dims(eval, &walk, &inner, &experts, &parts))
        return false;
    sc_walk_start(&inner); /* rows */
    do {
        int64_t local = -1;
        if (!find_weights(eval, &experts, eval->operands[2]->data[inner.at[IDS]], &local))
            return false;
        if (local < 0)
            continue;
        int64_t part = part_of(&parts, &experts, local);
        const double *x = eval->operands[0]->data + inner.at[X] + part * parts.strides[X],
                     *dy = eval->operands[1]->data + inner.at[DY] + part * parts.strides[DY];
        double *out = eval->results[0].data + local * experts.strides[OUT];
        sc_walk_start(&walk);
        do {
            out[walk.at[OUT]] += x[walk.at[X]] * dy[walk.at[DY]];
        } while (sc_walk_next(&walk));
    } while (sc_walk_next(&inner));
    return true;
}
