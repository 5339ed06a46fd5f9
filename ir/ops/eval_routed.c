/* Products with the weights that ids select: routed_dot and its gradient. Ids are checked against
 * the global size of the indexed dim; rows of other ranks' weights give 0. */
#include "ir/ops/eval_walk.h"

/* The weights of an id: its index in this rank's shard of the dim, -1 if that has none of it;
 * false, and an error, if no rank has. `may_lack`: -1 is an id that no weights have. */
static bool find_weights(sc_eval *eval, const sc_walk_dim *experts, double id, bool may_lack,
                         int64_t *out)
{
    int64_t size = sc_eval_global_size(eval, experts->dim);
    *out = -1;
    if (may_lack && id == -1)
        return true;
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

/* Where the ids are apart, a row has one for each part: all its places, one after the other. */
static int64_t places_of(const sc_walk_dim *parts, uint32_t ids)
{
    return parts->strides[ids] != 0 ? parts->size : 1;
}

/* The weights of the row at `ids` in this place, -1: none, and in *part the part of this rank's
 * shard in which they are. */
static bool find_row(sc_eval *eval, const sc_walk_dim *experts, const sc_walk_dim *parts,
                     uint32_t array, int64_t ids, int64_t place, int64_t *part, int64_t *out)
{
    bool has_own = parts->strides[array] != 0;
    double id = eval->operands[2]->data[ids + place * parts->strides[array]];
    if (!find_weights(eval, experts, id, has_own, out))
        return false;
    *part = *out < 0 ? place : *out / (experts->size / parts->size);
    if (has_own && *part != place)
        *out = -1;
    return true;
}

static void multiply(sc_eval *eval, const sc_walk *walk, sc_walk *inner, int64_t x, int64_t w,
                     int64_t out)
{
    enum { OUT, X, W };
    double sum = 0;
    sc_walk_start(inner);
    do {
        sum += eval->operands[0]->data[walk->at[X] + x + inner->at[X]] *
               eval->operands[1]->data[walk->at[W] + w + inner->at[W]];
    } while (sc_walk_next(inner));
    eval->results[0].data[walk->at[OUT] + out] = sum;
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
        for (int64_t place = 0; place < places_of(&parts, IDS); place++) {
            int64_t local, part;
            if (!find_row(eval, &experts, &parts, IDS, walk.at[IDS], place, &part, &local))
                return false;
            if (local >= 0)
                multiply(eval, &walk, &inner, part * parts.strides[X], local * experts.strides[W],
                         part * parts.strides[OUT]);
        }
    } while (sc_walk_next(&walk));
    return true;
}

/* Adds the products of a row to its weights' gradient. */
static void add_row(sc_eval *eval, sc_walk *walk, int64_t x, int64_t dy, int64_t out)
{
    enum { X, DY, IDS, OUT };
    sc_walk_start(walk);
    do {
        eval->results[0].data[walk->at[OUT] + out] +=
            eval->operands[0]->data[walk->at[X] + x] * eval->operands[1]->data[walk->at[DY] + dy];
    } while (sc_walk_next(walk));
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
        for (int64_t place = 0; place < places_of(&parts, IDS); place++) {
            int64_t local, part;
            if (!find_row(eval, &experts, &parts, IDS, inner.at[IDS], place, &part, &local))
                return false;
            if (local >= 0)
                add_row(eval, &walk, inner.at[X] + part * parts.strides[X],
                        inner.at[DY] + part * parts.strides[DY], local * experts.strides[OUT]);
        }
    } while (sc_walk_next(&inner));
    return true;
}
