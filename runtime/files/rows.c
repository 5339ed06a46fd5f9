/* Iteration over a box shared by two arrays. */
#include "runtime/files/rows.h"

sc_rows sc_rows_begin(uint32_t rank, const int64_t *sizes, sc_rows_place a, sc_rows_place b)
{
    sc_rows rows = {.rank = rank, .length = 1};
    int64_t a_stride = 1, b_stride = 1;
    for (uint32_t i = rank; i-- > 0;) {
        rows.sizes[i] = sizes[i];
        rows.is_done = rows.is_done || sizes[i] <= 0;
        rows.a_strides[i] = a_stride;
        rows.b_strides[i] = b_stride;
        rows.a_at += (a.first == NULL ? 0 : a.first[i]) * a_stride;
        rows.b_at += (b.first == NULL ? 0 : b.first[i]) * b_stride;
        a_stride *= a.dims[i];
        b_stride *= b.dims[i];
    }
    while (rows.rank > 0 && rows.a_strides[rows.rank - 1] == rows.length &&
           rows.b_strides[rows.rank - 1] == rows.length)
        rows.length *= rows.sizes[--rows.rank];
    return rows;
}

void sc_rows_next(sc_rows *rows)
{
    for (uint32_t i = rows->rank; i-- > 0;) {
        rows->a_at += rows->a_strides[i];
        rows->b_at += rows->b_strides[i];
        if (++rows->index[i] < rows->sizes[i])
            return;
        rows->a_at -= rows->a_strides[i] * rows->sizes[i];
        rows->b_at -= rows->b_strides[i] * rows->sizes[i];
        rows->index[i] = 0;
    }
    rows->is_done = true;
}
