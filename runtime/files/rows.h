/* Iterates over a box shared by two dense row-major arrays, row by row. Inner dims that are
 * complete in both arrays are merged into the row. */
#ifndef SHARDC_RUNTIME_FILES_ROWS_H
#define SHARDC_RUNTIME_FILES_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SC_ROWS_MAX_RANK = 15 };

typedef struct sc_rows {
    uint32_t rank; /* dims that are iterated over */
    int64_t sizes[SC_ROWS_MAX_RANK], a_strides[SC_ROWS_MAX_RANK], b_strides[SC_ROWS_MAX_RANK],
        index[SC_ROWS_MAX_RANK];
    int64_t length;     /* of a row */
    int64_t a_at, b_at; /* offset of the row in each array, in elements */
    bool is_done;
} sc_rows;

/* The position of a box in an array. */
typedef struct sc_rows_place {
    const int64_t *dims, *first; /* the array's sizes; the index where the box begins (NULL: 0) */
} sc_rows_place;

/* Begins a box of these sizes. If one is at most 0 there are no rows. */
sc_rows sc_rows_begin(uint32_t rank, const int64_t *sizes, sc_rows_place a, sc_rows_place b);
void sc_rows_next(sc_rows *rows);

#endif
