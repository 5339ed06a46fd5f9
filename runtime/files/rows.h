/* A box that two dense row-major arrays share, row by row: what is whole in both belongs to the row. */
#ifndef SHARDC_RUNTIME_FILES_ROWS_H
#define SHARDC_RUNTIME_FILES_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SC_ROWS_MAX_RANK = 15 };

typedef struct sc_rows {
    uint32_t rank; /* of the dims that are stepped through */
    int64_t sizes[SC_ROWS_MAX_RANK], a_strides[SC_ROWS_MAX_RANK], b_strides[SC_ROWS_MAX_RANK], index[SC_ROWS_MAX_RANK];
    int64_t length;     /* of a row */
    int64_t a_at, b_at; /* where the row begins, in elements */
    bool is_done;
} sc_rows;

/* Where a box lies in an array. */
typedef struct sc_rows_place {
    const int64_t *dims, *first; /* the array's sizes; the index where the box begins (NULL: 0) */
} sc_rows_place;

/* The box has these sizes; one of at most 0 has no rows. */
sc_rows sc_rows_begin(uint32_t rank, const int64_t *sizes, sc_rows_place a, sc_rows_place b);
void sc_rows_next(sc_rows *rows);

#endif
