#include "tools/verify/join_batches.h"

#include <string.h>

void sc_take_batch(const sc_array *whole, int dim, int32_t micro_batch, sc_array *part)
{
    int64_t outer = 1, inner = 1, rows = dim < 0 ? 1 : part->sizes[dim];
    if (dim < 0 || micro_batch < 0) {
        memcpy(part->data, whole->data, (size_t)part->count * sizeof *part->data);
        return;
    }
    for (int i = 0; i < dim; i++)
        outer *= part->sizes[i];
    for (uint32_t i = (uint32_t)dim + 1; i < part->rank; i++)
        inner *= part->sizes[i];
    for (int64_t o = 0; o < outer; o++)
        memcpy(part->data + o * rows * inner,
               whole->data + (o * whole->sizes[dim] + micro_batch * rows) * inner,
               (size_t)(rows * inner) * sizeof *part->data);
}

/* Micro-batch b has rows [b, b + 1) n of the dim. */
static void put_rows(const sc_array *part, uint32_t batch, int dim, sc_array *joined)
{
    int64_t outer = 1, inner = 1, count = joined->sizes[dim] / part->sizes[dim];
    for (int d = 0; d < (int)part->rank; d++) {
        outer *= d < dim ? part->sizes[d] : 1;
        inner *= d >= dim ? part->sizes[d] : 1;
    }
    for (int64_t o = 0; o < outer; o++)
        memcpy(joined->data + (o * count + batch) * inner, part->data + o * inner,
               (size_t)inner * sizeof *joined->data);
}

static void put_sums(sc_array *const *parts, uint32_t index, uint32_t count, double factor,
                     sc_dtype dtype, sc_array *joined)
{
    for (int64_t i = 0; i < joined->count; i++) {
        double sum = 0;
        for (uint32_t b = 0; b < count; b++)
            sum += parts[b][index].data[i];
        joined->data[i] = sc_round_to(dtype, sum * factor);
    }
}

sc_array sc_join_batches(sc_array *const *parts, uint32_t index, uint32_t count, sc_join join,
                         int dim, sc_dtype dtype)
{
    const sc_array *one = &parts[0][index];
    int64_t sizes[SC_ARRAY_MAX_RANK];
    for (uint32_t d = 0; d < one->rank; d++)
        sizes[d] = one->sizes[d] * (join == SC_JOIN_ROWS && (int)d == dim ? count : 1);
    sc_array joined = sc_array_new(one->rank, sizes);
    if (joined.data == NULL)
        return joined;
    if (join == SC_JOIN_ONE)
        memcpy(joined.data, one->data, (size_t)one->count * sizeof *one->data);
    if (join == SC_JOIN_ROWS) {
        for (uint32_t b = 0; b < count; b++)
            put_rows(&parts[b][index], b, dim, &joined);
    }
    if (join == SC_JOIN_SUM || join == SC_JOIN_MEAN)
        put_sums(parts, index, count, join == SC_JOIN_MEAN ? 1.0 / count : 1, dtype, &joined);
    return joined;
}
