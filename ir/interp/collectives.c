/* Collectives on all ranks at once. They follow their attributes (over, reduce, gather, scatter)
 * and check only that the result's sizes fit, so an op whose attributes contradict its types gives
 * wrong numbers here, as it would on hardware.
 *
 * A group is the ranks that differ only in their coordinates on `over`. Its members are numbered
 * with the first sub-axis of `over` slowest. */
#include <stdlib.h>
#include <string.h>

#include "ir/interp/internal.h"
#include "support/min.h"

typedef struct sc_group {
    uint32_t sub_axis_count;
    const uint8_t *sub_axes;
    uint64_t size;
    uint64_t *offsets; /* rank of member j minus that of member 0 */
} sc_group;

/* One operand of a collective and its result. */
typedef struct sc_transfer {
    sc_interp *interp;
    sc_op_id op;
    sc_group group;
    uint32_t index; /* index of the operand */
    const sc_layout *from, *to;
    const sc_type_info *from_type, *to_type;
    double *source, *target; /* of all ranks */
} sc_transfer;

static uint64_t member_index(const sc_interp *interp, const sc_group *group, uint64_t rank)
{
    uint64_t index = 0;
    for (uint32_t i = 0; i < group->sub_axis_count; i++)
        index = index * interp->m->mesh.sub_axes[group->sub_axes[i]].size +
                sc_interp_coordinate(interp, rank, group->sub_axes[i]);
    return index;
}

/* Returns the rank of member j of the group that contains `rank`. */
static uint64_t member(const sc_transfer *t, uint64_t rank, uint64_t j)
{
    return rank - t->group.offsets[member_index(t->interp, &t->group, rank)] + t->group.offsets[j];
}

static bool find_group(sc_interp *interp, sc_op_id id, sc_group *group)
{
    const sc_mesh *mesh = &interp->m->mesh;
    const sc_attr *over = sc_op_attr(sc_op_at(interp->m, id), SC_ATTR_over);
    sc_sub_axis_set seen = 0;
    *group = (sc_group){.sub_axis_count = over == NULL ? 0 : over->count,
                        .sub_axes = over == NULL ? NULL : over->sub_axes,
                        .size = 1};
    for (uint32_t i = 0; i < group->sub_axis_count; i++) {
        if (group->sub_axes[i] >= mesh->sub_axis_count || (seen >> group->sub_axes[i] & 1) != 0)
            return sc_interp_fail(interp, id, SC_NO_RANK,
                                  "its sub-axes are not of the mesh, or not different");
        seen |= (sc_sub_axis_set)1 << group->sub_axes[i];
        group->size *= mesh->sub_axes[group->sub_axes[i]].size;
    }
    group->offsets = calloc(group->size, sizeof *group->offsets);
    if (group->offsets == NULL)
        return sc_interp_fail(interp, id, SC_NO_RANK, "out of memory");
    for (uint64_t j = 0; j < group->size; j++) {
        uint64_t rest = j;
        for (uint32_t i = group->sub_axis_count; i-- > 0;) {
            uint32_t size = mesh->sub_axes[group->sub_axes[i]].size;
            group->offsets[j] += rest % size * interp->sub_axis_strides[group->sub_axes[i]];
            rest /= size;
        }
    }
    return true;
}

static bool find_arrays(sc_transfer *t, uint32_t index)
{
    sc_interp *interp = t->interp;
    const sc_op *op = sc_op_at(interp->m, t->op);
    const sc_held *source = &interp->values[op->operands[index]],
                  *target = &interp->values[op->first_result + index];
    t->index = index;
    t->from = sc_interp_layout(interp, source->type);
    t->to = sc_interp_layout(interp, target->type);
    t->from_type = &interp->m->types.data[source->type];
    t->to_type = &interp->m->types.data[target->type];
    t->source = source->data;
    t->target = target->data;
    bool same = t->from->rank == t->to->rank;
    for (uint32_t i = 0; same && i < t->from->rank; i++)
        same = t->from_type->dims[i].dim == t->to_type->dims[i].dim;
    return same || sc_interp_fail(interp, t->op, SC_NO_RANK,
                                  "operand %u and its result have different dims", index + 1);
}

static bool move_each(sc_interp *interp, sc_op_id id, bool (*move)(const sc_transfer *))
{
    const sc_op *op = sc_op_at(interp->m, id);
    sc_transfer t = {.interp = interp, .op = id};
    const uint32_t counts = op->operand_count - op->result_count; /* of rows: not moved */
    if (counts != (sc_op_attr(op, SC_ATTR_fills) != NULL ? 2 : 0))
        return sc_interp_fail(interp, id, SC_NO_RANK, "%u operands and %u results",
                              op->operand_count, op->result_count);
    bool ok = find_group(interp, id, &t.group);
    for (uint32_t i = 0; i < op->result_count; i++) {
        if (!ok)
            break;
        ok = find_arrays(&t, i) && move(&t);
    }
    free(t.group.offsets);
    return ok;
}

/* Finds the index of the dim that an attribute lists for this operand. */
static bool find_dim(const sc_transfer *t, sc_attr_key key, uint32_t *dim)
{
    const sc_attr *attr = sc_op_attr(sc_op_at(t->interp->m, t->op), key);
    int at = attr == NULL || t->index >= attr->count
                 ? -1
                 : sc_type_find_dim(t->from_type, attr->dims[t->index]);
    *dim = (uint32_t)at;
    return at >= 0 || sc_interp_fail(t->interp, t->op, SC_NO_RANK, "%s names no dim of operand %u",
                                     sc_attr_names[key], t->index + 1);
}

/* Checks that every dim except these two (SC_NONE: none) keeps its size. */
static bool other_sizes_stay(const sc_transfer *t, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < t->from->rank; i++) {
        if (i != a && i != b && t->from->sizes[i] != t->to->sizes[i])
            return sc_interp_fail(
                t->interp, t->op, SC_NO_RANK,
                "dim %u of operand %u has local size %lld, but %lld in the result", i + 1,
                t->index + 1, (long long)t->from->sizes[i], (long long)t->to->sizes[i]);
    }
    return true;
}

/* Checks that a group's pieces make up the whole. Only a dim that is unsplit afterwards may have
 * padding in its last pieces. */
static bool pieces_fit(const sc_transfer *t, uint32_t dim, int64_t piece,
                       const sc_type_info *whole_type, int64_t whole)
{
    int64_t n = (int64_t)t->group.size;
    bool is_even = piece * n == whole;
    bool is_padded = sc_type_shards(&t->interp->m->mesh, whole_type, dim) == 1 && piece * n > whole;
    return is_even || is_padded ||
           sc_interp_fail(t->interp, t->op, SC_NO_RANK,
                          "%lld pieces of %lld do not make %lld, along dim %u of operand %u",
                          (long long)n, (long long)piece, (long long)whole, dim + 1, t->index + 1);
}

static double *target_of(const sc_transfer *t, uint64_t rank)
{
    return t->target + (int64_t)rank * t->to->count;
}

static double *source_of(const sc_transfer *t, uint64_t rank)
{
    return t->source + (int64_t)rank * t->from->count;
}

static sc_box whole_box(const sc_transfer *t)
{
    return sc_box_of(t->from->rank, t->to->sizes, t->from->sizes);
}

/* How a group's pieces lie in what they make up: as shards of the dim do that its sub-axes split
 * last. */
static sc_shard_order order_of_pieces(const sc_transfer *t, uint32_t dim)
{
    sc_sub_axis_list over = {.count = (uint8_t)t->group.sub_axis_count};
    memcpy(over.sub_axes, t->group.sub_axes, over.count);
    return sc_shard_order_of(t->interp->m, t->from_type->dims[dim].dim, &over);
}

/* Run `r` of piece j, which has `piece` elements of a dim that has `whole`: no padding. */
static sc_run run_of_piece(const sc_transfer *t, uint32_t dim, uint64_t j, uint32_t r,
                           int64_t piece, int64_t whole)
{
    sc_run runs[SC_RUNS];
    sc_shard_order order = order_of_pieces(t, dim);
    sc_shard_runs(&order, (int64_t)j, piece, runs);
    runs[r].count = sc_min_i64(runs[r].count, whole - runs[r].first);
    return runs[r];
}

/* Maps run `r` of the operand to its place in piece j of the result. */
static void place_piece(sc_box *box, const sc_transfer *t, uint32_t dim, uint64_t j, uint32_t r)
{
    sc_run run = run_of_piece(t, dim, j, r, t->from->sizes[dim], t->to->sizes[dim]);
    box->sizes[dim] = run.count;
    box->to_at += run.first * box->to_strides[dim];
    box->from_at += run.at * box->from_strides[dim];
}

/* Maps run `r` of piece j of the operand to its place in the result. */
static void take_piece(sc_box *box, const sc_transfer *t, uint32_t dim, uint64_t j, uint32_t r)
{
    sc_run run = run_of_piece(t, dim, j, r, t->to->sizes[dim], t->from->sizes[dim]);
    box->sizes[dim] = run.count;
    box->from_at += run.first * box->from_strides[dim];
    box->to_at += run.at * box->to_strides[dim];
}

static bool all_gather(const sc_transfer *t)
{
    uint32_t dim;
    if (!find_dim(t, SC_ATTR_gather, &dim) || !other_sizes_stay(t, dim, SC_NONE) ||
        !pieces_fit(t, dim, t->from->sizes[dim], t->to_type, t->to->sizes[dim]))
        return false;
    for (uint64_t r = 0; r < t->interp->ranks; r++) {
        for (uint64_t j = 0; j < t->group.size; j++) {
            for (uint32_t run = 0; run < SC_RUNS; run++) {
                sc_box box = whole_box(t);
                place_piece(&box, t, dim, j, run);
                sc_box_apply(&box, target_of(t, r), source_of(t, member(t, r, j)), sc_row_copy);
            }
        }
    }
    return true;
}

static bool all_slice(const sc_transfer *t)
{
    uint32_t dim;
    if (!find_dim(t, SC_ATTR_gather, &dim) || !other_sizes_stay(t, dim, SC_NONE) ||
        !pieces_fit(t, dim, t->to->sizes[dim], t->from_type, t->from->sizes[dim]))
        return false;
    for (uint64_t r = 0; r < t->interp->ranks; r++) {
        for (uint32_t run = 0; run < SC_RUNS; run++) {
            sc_box box = whole_box(t);
            take_piece(&box, t, dim, member_index(t->interp, &t->group, r), run);
            sc_box_apply(&box, target_of(t, r), source_of(t, r), sc_row_copy);
        }
    }
    return true;
}

static sc_box_row *find_reduction(const sc_transfer *t)
{
    const char *word =
        sc_text(t->interp->m->context, sc_op_word(sc_op_at(t->interp->m, t->op), SC_ATTR_reduce));
    sc_box_row *row = strcmp(word, "sum") == 0   ? sc_row_sum
                      : strcmp(word, "max") == 0 ? sc_row_max
                      : strcmp(word, "min") == 0 ? sc_row_min
                                                 : NULL;
    if (row == NULL)
        sc_interp_fail(t->interp, t->op, SC_NO_RANK, "unknown reduction '%s'", word);
    return row;
}

/* Reduces the operands of all members, in member order. */
static void reduce_group(const sc_transfer *t, uint64_t rank, sc_box_row *reduce, double *out)
{
    sc_row_copy(out, source_of(t, member(t, rank, 0)), t->from->count);
    for (uint64_t j = 1; j < t->group.size; j++)
        reduce(out, source_of(t, member(t, rank, j)), t->from->count);
}

static bool all_reduce(const sc_transfer *t)
{
    sc_box_row *reduce = find_reduction(t);
    if (reduce == NULL || !other_sizes_stay(t, SC_NONE, SC_NONE))
        return false;
    for (uint64_t r = 0; r < t->interp->ranks; r++) {
        uint64_t first = member(t, r, 0);
        if (first == r)
            reduce_group(t, r, reduce, target_of(t, r));
        else
            sc_row_copy(target_of(t, r), target_of(t, first),
                        t->to->count); /* first < r: already reduced */
    }
    return true;
}

static bool reduce_scatter(const sc_transfer *t)
{
    uint32_t dim;
    sc_box_row *reduce = find_reduction(t);
    if (reduce == NULL || !find_dim(t, SC_ATTR_gather, &dim) ||
        !other_sizes_stay(t, dim, SC_NONE) ||
        !pieces_fit(t, dim, t->to->sizes[dim], t->from_type, t->from->sizes[dim]))
        return false;
    double *sum = malloc((size_t)t->from->count * sizeof *sum);
    if (sum == NULL)
        return sc_interp_fail(t->interp, t->op, SC_NO_RANK, "out of memory");
    for (uint64_t r = 0; r < t->interp->ranks; r++) {
        if (member(t, r, 0) != r)
            continue;
        reduce_group(t, r, reduce, sum);
        for (uint64_t j = 0; j < t->group.size; j++) {
            for (uint32_t run = 0; run < SC_RUNS; run++) {
                sc_box box = whole_box(t);
                take_piece(&box, t, dim, j, run);
                sc_box_apply(&box, target_of(t, member(t, r, j)), sum, sc_row_copy);
            }
        }
    }
    free(sum);
    return true;
}

static bool all_to_all(const sc_transfer *t)
{
    uint32_t gather, scatter;
    if (!find_dim(t, SC_ATTR_gather, &gather) || !find_dim(t, SC_ATTR_scatter, &scatter) ||
        !other_sizes_stay(t, gather, scatter) ||
        !pieces_fit(t, gather, t->from->sizes[gather], t->to_type, t->to->sizes[gather]) ||
        !pieces_fit(t, scatter, t->to->sizes[scatter], t->from_type, t->from->sizes[scatter]))
        return false;
    if (gather == scatter)
        return sc_interp_fail(t->interp, t->op, SC_NO_RANK, "it gathers and scatters one dim");
    for (uint64_t r = 0; r < t->interp->ranks; r++) {
        for (uint64_t j = 0; j < t->group.size; j++) {
            for (uint32_t run = 0; run < SC_RUNS * SC_RUNS; run++) {
                sc_box box = whole_box(t);
                place_piece(&box, t, gather, j, run % SC_RUNS);
                take_piece(&box, t, scatter, member_index(t->interp, &t->group, r), run / SC_RUNS);
                sc_box_apply(&box, target_of(t, r), source_of(t, member(t, r, j)), sc_row_copy);
            }
        }
    }
    return true;
}

/* Identifies the contents of a rank: its shard, and for a partial reduction its term. */
static int64_t content_of(const sc_interp *interp, const sc_type_info *type, uint64_t rank)
{
    int64_t content = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        content = content * (int64_t)sc_type_shards(&interp->m->mesh, type, i) +
                  sc_interp_shard(interp, type, i, rank);
    for (uint32_t a = 0; a < interp->m->mesh.sub_axis_count; a++) {
        if (sc_is_partial(type->placement.on[a]))
            content =
                content * interp->m->mesh.sub_axes[a].size + sc_interp_coordinate(interp, rank, a);
    }
    return content;
}

static bool permutes_shards(const sc_transfer *t)
{
    for (uint32_t i = 0; i < t->from->rank; i++) {
        if (sc_type_shards(&t->interp->m->mesh, t->from_type, i) !=
            sc_type_shards(&t->interp->m->mesh, t->to_type, i))
            return sc_interp_fail(t->interp, t->op, SC_NO_RANK,
                                  "operand %u and its result have different numbers of shards",
                                  t->index + 1);
    }
    if (sc_placement_partial(&t->from_type->placement, 0) !=
        sc_placement_partial(&t->to_type->placement, 0))
        return sc_interp_fail(t->interp, t->op, SC_NO_RANK,
                              "operand %u and its result have different partial reductions",
                              t->index + 1);
    return true;
}

/* Each rank takes the shard that its result needs from itself, or else from the lowest rank of its
 * group that has it. */
static bool collective_permute(const sc_transfer *t)
{
    const sc_interp *interp = t->interp;
    if (!other_sizes_stay(t, SC_NONE, SC_NONE) || !permutes_shards(t))
        return false;
    int64_t *contents = calloc((size_t)interp->ranks, sizeof *contents);
    if (contents == NULL)
        return sc_interp_fail(t->interp, t->op, SC_NO_RANK, "out of memory");
    for (uint64_t r = 0; r < interp->ranks; r++)
        contents[r] = content_of(interp, t->from_type, r);
    bool found = true;
    for (uint64_t r = 0; r < interp->ranks; r++) {
        int64_t wanted = content_of(interp, t->to_type, r);
        uint64_t from = contents[r] == wanted ? r : UINT64_MAX;
        for (uint64_t j = 0; from != r && j < t->group.size; j++) {
            uint64_t candidate = member(t, r, j);
            from = contents[candidate] == wanted && candidate < from ? candidate : from;
        }
        found = from != UINT64_MAX;
        if (!found) {
            sc_interp_fail(t->interp, t->op, (int64_t)r,
                           "no rank of its group has the shard that it needs");
            break;
        }
        sc_row_copy(target_of(t, r), source_of(t, from), t->to->count);
    }
    free(contents);
    return found;
}

/* The first member of each group gets the value; results are zero beforehand. */
static bool to_partial(const sc_transfer *t)
{
    for (uint64_t r = 0; r < t->interp->ranks; r++) {
        if (member_index(t->interp, &t->group, r) == 0)
            sc_row_copy(target_of(t, r), source_of(t, r), t->to->count);
    }
    return true;
}

bool sc_interp_to_partial(sc_interp *interp, sc_op_id op)
{
    return move_each(interp, op, to_partial);
}

bool sc_interp_all_slice(sc_interp *interp, sc_op_id op)
{
    return move_each(interp, op, all_slice);
}

/* ---- pieces of a ring ---- */
static void hold(sc_transfer *t, uint32_t operand)
{
    const sc_interp *interp = t->interp;
    const sc_op *op = sc_op_at(interp->m, t->op);
    const sc_held *source = &interp->values[op->operands[operand]],
                  *target = &interp->values[op->first_result];
    t->index = operand;
    t->from = sc_interp_layout(t->interp, source->type);
    t->to = sc_interp_layout(t->interp, target->type);
    t->from_type = &interp->m->types.data[source->type];
    t->to_type = &interp->m->types.data[target->type];
    t->source = source->data;
    t->target = target->data;
}

/* Moves every operand to the only result. */
static bool move_all(sc_interp *interp, sc_op_id id, bool (*move)(const sc_transfer *))
{
    sc_transfer t = {.interp = interp, .op = id};
    bool ok = interp->options.ranks && sc_op_at(interp->m, id)->result_count == 1;
    if (!ok)
        return sc_interp_fail(interp, id, SC_NO_RANK, "pieces are those of the ranks of a ring");
    ok = find_group(interp, id, &t.group);
    for (uint32_t i = 0; i < sc_op_at(interp->m, id)->operand_count; i++) {
        if (!ok)
            break;
        hold(&t, i);
        ok = t.from->rank == t.to->rank
                 ? move(&t)
                 : sc_interp_fail(interp, id, SC_NO_RANK, "operand %u has another rank", i + 1);
    }
    free(t.group.offsets);
    return ok;
}

static bool same_count(const sc_transfer *t)
{
    return t->from->count == t->to->count ||
           sc_interp_fail(t->interp, t->op, SC_NO_RANK, "operand %u has another size",
                          t->index + 1);
}

static bool piece(const sc_transfer *t)
{
    if (!same_count(t))
        return false;
    sc_row_copy(t->target, t->source, (int64_t)t->interp->ranks * t->to->count);
    return true;
}

/* The number of the member so many after the rank's, all around the ring. */
static uint64_t member_after(const sc_transfer *t, uint64_t rank, int64_t shift)
{
    int64_t size = (int64_t)t->group.size, own = (int64_t)member_index(t->interp, &t->group, rank);
    return (uint64_t)(((own + shift) % size + size) % size);
}

static bool take_one(const sc_transfer *t)
{
    uint32_t dim;
    if (!find_dim(t, SC_ATTR_dims, &dim) || !other_sizes_stay(t, dim, SC_NONE))
        return false;
    int64_t shift = sc_op_int(sc_op_at(t->interp->m, t->op), SC_ATTR_shift, 0);
    for (uint64_t r = 0; r < t->interp->ranks; r++) {
        for (uint32_t run = 0; run < SC_RUNS; run++) {
            sc_box box = whole_box(t);
            take_piece(&box, t, dim, member_after(t, r, shift), run);
            sc_box_apply(&box, target_of(t, r), source_of(t, r), sc_row_copy);
        }
    }
    return true;
}

static bool join_one(const sc_transfer *t)
{
    int at = sc_type_find_dim(t->from_type,
                              sc_op_attr(sc_op_at(t->interp->m, t->op), SC_ATTR_dims)->dims[0]);
    if (at < 0 || !other_sizes_stay(t, (uint32_t)at, SC_NONE))
        return at >= 0 ? false
                       : sc_interp_fail(t->interp, t->op, SC_NO_RANK, "operand %u is no piece",
                                        t->index + 1);
    for (uint64_t r = 0; r < t->interp->ranks; r++) {
        for (uint32_t run = 0; run < SC_RUNS; run++) {
            sc_box box = whole_box(t);
            place_piece(&box, t, (uint32_t)at, member_after(t, r, -(int64_t)t->index), run);
            sc_box_apply(&box, target_of(t, r), source_of(t, r), sc_row_copy);
        }
    }
    return true;
}

bool sc_interp_piece(sc_interp *interp, sc_op_id op)
{
    return move_all(interp, op, piece);
}

bool sc_interp_take_piece(sc_interp *interp, sc_op_id op)
{
    return move_all(interp, op, take_one);
}

bool sc_interp_join_pieces(sc_interp *interp, sc_op_id op)
{
    return move_all(interp, op, join_one);
}

/* Each rank has the terms of all members; member j's is operand i - j. */
bool sc_interp_add_pieces(sc_interp *interp, sc_op_id id)
{
    const sc_op *op = sc_op_at(interp->m, id);
    sc_transfer t = {.interp = interp, .op = id};
    if (!interp->options.ranks || !find_group(interp, id, &t.group))
        return false;
    bool ok = op->operand_count == t.group.size ||
              sc_interp_fail(interp, id, SC_NO_RANK, "%u terms of %llu members", op->operand_count,
                             (unsigned long long)t.group.size);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        if (!ok)
            break;
        hold(&t, i);
        ok = same_count(&t);
    }
    for (uint64_t r = 0; r < interp->ranks; r++) {
        for (uint64_t j = 0; j < t.group.size; j++) {
            if (!ok)
                break;
            hold(&t, (uint32_t)member_after(&t, r, -(int64_t)j));
            sc_box_row *row = j == 0 ? sc_row_copy : sc_row_sum;
            row(target_of(&t, r), source_of(&t, r), t.to->count);
        }
    }
    free(t.group.offsets);
    return ok;
}

/* Member i of a group gets what member i - shift has. */
static bool rotate(const sc_transfer *t)
{
    if (!other_sizes_stay(t, SC_NONE, SC_NONE))
        return false;
    int64_t size = (int64_t)t->group.size,
            shift = sc_op_int(sc_op_at(t->interp->m, t->op), SC_ATTR_shift, 0);
    for (uint64_t r = 0; r < t->interp->ranks; r++) {
        int64_t own = (int64_t)member_index(t->interp, &t->group, r),
                from = ((own - shift) % size + size) % size;
        sc_row_copy(target_of(t, r), source_of(t, member(t, r, (uint64_t)from)), t->to->count);
    }
    return true;
}

/* Empty slots move too: they hold what they are to hold. */
static bool exchange_rows(const sc_transfer *t)
{
    return all_to_all(t);
}

#define COLLECTIVE(...)
#define COLLECTIVE_OP(kind, ...)                                                                   \
    bool sc_interp_##kind(sc_interp *interp, sc_op_id op)                                          \
    {                                                                                              \
        return move_each(interp, op, kind);                                                        \
    }
#define FURTHER_OP(kind, NAME) COLLECTIVE_OP(kind, )
#include "program/collectives.def"

/* Reshards through the global value, by definition. */
static bool reshard(const sc_transfer *t)
{
    const sc_op *op = sc_op_at(t->interp->m, t->op);
    int64_t count = sc_type_elements(t->from_type), first, second;
    for (uint32_t i = 0; i < t->from->rank; i++) {
        if (t->from_type->dims[i].size != t->to_type->dims[i].size)
            return sc_interp_fail(t->interp, t->op, SC_NO_RANK,
                                  "operand and result differ in size");
    }
    double *global = calloc((size_t)count, sizeof *global);
    if (global == NULL)
        return sc_interp_fail(t->interp, t->op, SC_NO_RANK, "out of memory");
    bool agree = sc_interp_assemble(t->interp, t->interp->values[op->operands[t->index]].type,
                                    t->source, global, &first, &second);
    if (agree)
        sc_interp_split(t->interp, t->interp->values[op->first_result + t->index].type, global,
                        t->target);
    else
        sc_interp_fail(t->interp, t->op, second,
                       "the replicas of its operand on ranks %lld and %lld differ",
                       (long long)first, (long long)second);
    free(global);
    return agree;
}

bool sc_interp_reshard(sc_interp *interp, sc_op_id op)
{
    return move_each(interp, op, reshard);
}
