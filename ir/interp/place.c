/* Conversion between a global array and the ranks' shards, and the boxes that this and the
 * collectives use. */
#include <math.h>
#include <string.h>

#include "ir/interp/internal.h"
#include "support/float16.h"
#include "support/min.h"

bool sc_row_copy(double *to, const double *from, int64_t count)
{
    memcpy(to, from, (size_t)count * sizeof *to);
    return true;
}

bool sc_row_sum(double *to, const double *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
    return true;
}

bool sc_row_max(double *to, const double *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i] > to[i] || isnan(from[i]) ? from[i] : to[i];
    return true;
}

bool sc_row_min(double *to, const double *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i] < to[i] || isnan(from[i]) ? from[i] : to[i];
    return true;
}

bool sc_row_agrees(double *to, const double *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (sc_bits_of_f64(to[i]) != sc_bits_of_f64(from[i]) && !(isnan(to[i]) && isnan(from[i])))
            return false;
    }
    return true;
}

sc_box_row *sc_row_of_partial(uint8_t kind)
{
    return kind == SC_PARTIAL_SUM   ? sc_row_sum
           : kind == SC_PARTIAL_MAX ? sc_row_max
           : kind == SC_PARTIAL_MIN ? sc_row_min
                                    : NULL;
}

sc_box sc_box_of(uint32_t rank, const int64_t *to_sizes, const int64_t *from_sizes)
{
    sc_box box = {.rank = rank};
    int64_t to_stride = 1, from_stride = 1;
    for (uint32_t i = rank; i-- > 0;) {
        box.sizes[i] = to_sizes[i] < from_sizes[i] ? to_sizes[i] : from_sizes[i];
        box.to_strides[i] = to_stride;
        box.from_strides[i] = from_stride;
        to_stride *= to_sizes[i];
        from_stride *= from_sizes[i];
    }
    return box;
}

bool sc_box_apply(const sc_box *box, double *to, const double *from, sc_box_row *row)
{
    int64_t count = 1, index[SC_MAX_RANK] = {0};
    uint32_t rank = box->rank;
    for (uint32_t i = 0; i < rank; i++) {
        if (box->sizes[i] <= 0)
            return true;
    }
    while (rank > 0 && box->to_strides[rank - 1] == count && box->from_strides[rank - 1] == count)
        count *= box->sizes[--rank];
    to += box->to_at;
    from += box->from_at;
    for (;;) {
        if (!row(to, from, count))
            return false;
        uint32_t i = rank;
        while (i > 0) {
            i--;
            to += box->to_strides[i];
            from += box->from_strides[i];
            if (++index[i] < box->sizes[i])
                break;
            to -= box->to_strides[i] * box->sizes[i];
            from -= box->from_strides[i] * box->sizes[i];
            index[i] = 0;
            if (i == 0)
                return true;
        }
        if (rank == 0)
            return true;
    }
}

int64_t sc_interp_shard(const sc_interp *interp, const sc_type_info *type, uint32_t i,
                        uint64_t rank)
{
    sc_sub_axis_list sub_axes = sc_placement_dim(&type->placement, i);
    int64_t shard = 0;
    for (uint32_t a = 0; a < sub_axes.count; a++)
        shard = shard * interp->m->mesh.sub_axes[sub_axes.sub_axes[a]].size +
                sc_interp_coordinate(interp, rank, sub_axes.sub_axes[a]);
    return shard;
}

/* A shard is one box of the global array, or two for each dim that is split zigzag. Box `number`
 * counts through them, with a run of each dim for each digit: 0 to SC_RUNS - 1. Boxes have a rank's
 * real elements (without padding) and may be empty. */
static uint32_t count_boxes(const sc_interp *interp, const sc_type_info *type)
{
    uint32_t count = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (interp->m->dims.data[type->dims[i].dim].zigzag.count > 0)
            count *= SC_RUNS;
    }
    return count;
}

static sc_run run_of(const sc_interp *interp, const sc_type_info *type, const sc_layout *layout,
                     uint32_t i, uint64_t rank, uint32_t *number)
{
    sc_run runs[SC_RUNS];
    sc_sub_axis_list sub_axes = sc_placement_dim(&type->placement, i);
    sc_shard_order order = sc_shard_order_of(interp->m, type->dims[i].dim, &sub_axes);
    uint32_t digit = 0;
    if (interp->m->dims.data[type->dims[i].dim].zigzag.count > 0) {
        digit = *number % SC_RUNS;
        *number /= SC_RUNS;
    }
    sc_shard_runs(&order, sc_interp_shard(interp, type, i, rank), layout->sizes[i], runs);
    runs[digit].count = sc_min_i64(runs[digit].count, type->dims[i].size - runs[digit].first);
    return runs[digit];
}

static sc_box shard_box(const sc_interp *interp, const sc_type_info *type, const sc_layout *layout,
                        uint64_t rank, bool to_global, uint32_t number)
{
    int64_t global[SC_MAX_RANK] = {0};
    for (uint32_t i = 0; i < type->rank; i++)
        global[i] = type->dims[i].size;
    sc_box box = to_global ? sc_box_of(type->rank, global, layout->sizes)
                           : sc_box_of(type->rank, layout->sizes, global);
    for (uint32_t i = 0; i < type->rank; i++) {
        sc_run run = run_of(interp, type, layout, i, rank, &number);
        box.sizes[i] = run.count;
        box.to_at += (to_global ? run.first : run.at) * box.to_strides[i];
        box.from_at += (to_global ? run.at : run.first) * box.from_strides[i];
    }
    return box;
}

/* Returns the rank whose coordinates equal those of `rank`, except 0 on the sub-axes for which
 * `wanted` is true. */
static uint64_t lowest_twin(const sc_interp *interp, const sc_type_info *type, uint64_t rank,
                            bool (*wanted)(uint8_t on))
{
    uint64_t twin = rank;
    for (uint32_t a = 0; a < interp->m->mesh.sub_axis_count; a++) {
        if (wanted(type->placement.on[a]))
            twin -= sc_interp_coordinate(interp, rank, a) * interp->sub_axis_strides[a];
    }
    return twin;
}

static bool is_nothing(uint8_t on)
{
    return on == SC_ON_NOTHING;
}

/* Returns the kind of the partial reduction; if there are several, that of the last sub-axis. The
 * value of a type with two kinds is undefined. */
static uint8_t partial_kind(const sc_interp *interp, const sc_type_info *type)
{
    uint8_t kind = SC_ON_NOTHING;
    for (uint32_t a = 0; a < interp->m->mesh.sub_axis_count; a++)
        kind = sc_is_partial(type->placement.on[a]) ? type->placement.on[a] : kind;
    return kind;
}

void sc_interp_split(const sc_interp *interp, sc_type type_handle, const double *global,
                     double *local)
{
    const sc_type_info *type = &interp->m->types.data[type_handle];
    sc_layout layout;
    if (!sc_interp_find_layout(interp, type_handle, &layout))
        return;
    if (!interp->options.ranks) {
        sc_row_copy(local, global, layout.count);
        return;
    }
    uint8_t kind = partial_kind(interp, type);
    double nothing = kind == SC_PARTIAL_MAX ? -INFINITY : kind == SC_PARTIAL_MIN ? INFINITY : 0;
    for (uint64_t r = 0; r < interp->ranks; r++) {
        double *shard = local + (int64_t)r * layout.count;
        if (lowest_twin(interp, type, r, sc_is_partial) == r) {
            for (uint32_t b = 0; b < count_boxes(interp, type); b++) {
                sc_box box = shard_box(interp, type, &layout, r, false, b);
                sc_box_apply(&box, shard, global, sc_row_copy);
            }
        } else {
            for (int64_t i = 0; i < layout.count; i++)
                shard[i] = nothing;
        }
    }
}

/* Compares the real elements of two replicas. */
static bool replicas_agree(const sc_interp *interp, const sc_type_info *type,
                           const sc_layout *layout, double *local, uint64_t a, uint64_t b)
{
    bool agree = true;
    for (uint32_t number = 0; number < count_boxes(interp, type); number++) {
        sc_box real = shard_box(interp, type, layout, a, false, number),
               box = sc_box_of(layout->rank, layout->sizes, layout->sizes);
        memcpy(box.sizes, real.sizes, layout->rank * sizeof *box.sizes);
        box.to_at = box.from_at = real.to_at;
        agree = sc_box_apply(&box, local + (int64_t)a * layout->count,
                             local + (int64_t)b * layout->count, sc_row_agrees) &&
                agree;
    }
    return agree;
}

bool sc_interp_assemble(const sc_interp *interp, sc_type type_handle, double *local, double *global,
                        int64_t *first, int64_t *second)
{
    const sc_type_info *type = &interp->m->types.data[type_handle];
    sc_layout layout;
    bool agree = true;
    if (!sc_interp_find_layout(interp, type_handle, &layout))
        return true;
    if (!interp->options.ranks)
        return sc_row_copy(global, local, layout.count);
    sc_box_row *reduce = sc_row_of_partial(partial_kind(interp, type));
    /* Ascending: the rank that copies a block comes before those that are reduced into it. */
    for (uint64_t r = 0; r < interp->ranks; r++) {
        uint64_t twin = lowest_twin(interp, type, r, is_nothing);
        if (twin != r) {
            if (agree && !replicas_agree(interp, type, &layout, local, twin, r)) {
                agree = false;
                *first = (int64_t)twin;
                *second = (int64_t)r;
            }
            continue;
        }
        bool is_first = lowest_twin(interp, type, r, sc_is_partial) == r;
        for (uint32_t b = 0; b < count_boxes(interp, type); b++) {
            sc_box box = shard_box(interp, type, &layout, r, true, b);
            sc_box_apply(&box, global, local + (int64_t)r * layout.count,
                         is_first ? sc_row_copy : reduce);
        }
    }
    return agree;
}

/* The sizes of a rank's real elements, which stand before the padding. A zigzag has no padding. */
static void real_sizes(const sc_interp *interp, const sc_type_info *type, const sc_layout *layout,
                       uint64_t rank, int64_t *sizes)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        sizes[i] = interp->m->dims.data[type->dims[i].dim].zigzag.count > 0
                       ? layout->sizes[i]
                       : run_of(interp, type, layout, i, rank, &number).count;
    }
}

static bool is_beyond(uint32_t rank, const int64_t *sizes, const int64_t *index)
{
    for (uint32_t i = 0; i < rank; i++) {
        if (index[i] >= sizes[i])
            return true;
    }
    return false;
}

void sc_interp_poison(const sc_interp *interp, sc_type type_handle, double *local)
{
    const sc_type_info *type = &interp->m->types.data[type_handle];
    sc_layout layout;
    bool uneven = false;
    for (uint32_t i = 0; i < type->rank; i++)
        uneven = uneven || sc_type_is_uneven(interp->m, type, i);
    if (!uneven || !interp->options.ranks || !sc_interp_find_layout(interp, type_handle, &layout))
        return;
    double poison = sc_dtype_is_float(type->dtype) ? (double)NAN : 1073741824.0;
    for (uint64_t r = 0; r < interp->ranks; r++) {
        int64_t real[SC_MAX_RANK], index[SC_MAX_RANK] = {0};
        real_sizes(interp, type, &layout, r, real);
        for (int64_t at = 0; at < layout.count; at++) {
            if (is_beyond(type->rank, real, index))
                local[(int64_t)r * layout.count + at] = poison;
            for (uint32_t i = type->rank; i-- > 0 && ++index[i] == layout.sizes[i];)
                index[i] = 0;
        }
    }
}
