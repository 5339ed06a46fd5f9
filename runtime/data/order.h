/* Which window of which part each row of a run reads. Rows are counted from 0 over all batches: row
 * r of batch b is number b * rows + r. In training a mixture draws the part of each row by weight,
 * from the seed and the row's number, and takes that part's next window; so an epoch of one part
 * may end while others are in their first. */
#ifndef SHARDC_RUNTIME_DATA_ORDER_H
#define SHARDC_RUNTIME_DATA_ORDER_H

#include "runtime/data/data.h"
#include "runtime/files/windows.h"

typedef enum sc_order_kind {
    SC_ORDER_STORED,  /* the windows in the order of the files */
    SC_ORDER_TRAINED, /* windows.h: permuted, again in each epoch, without those held out */
    SC_ORDER_HELD_OUT /* the windows that are held out, each part's after those of the one before */
} sc_order_kind;

typedef struct sc_order {
    sc_order_kind kind;
    uint64_t seed;
    uint32_t part_count;
    sc_windows *parts;
    double *limits; /* by part of a mixture: the sum of the weights up to it, of 1 */
    /* in a mixture: the windows taken of each part by the rows before `row` */
    uint64_t row, *taken;
} sc_order;

/* A row's tokens. */
typedef struct sc_order_row {
    uint32_t part;
    uint64_t first;
} sc_order_row;

/* `share` of the windows is held out (0: none), but at least as many as a batch has rows. In the
 * arena. */
sc_order sc_order_of(const sc_data *data, sc_order_kind kind, uint64_t length, bool targets,
                     uint64_t rows, double share, uint64_t seed, sc_arena *arena);
/* Returns the windows that an epoch reads: in a mixture those of all parts. */
uint64_t sc_order_count(const sc_order *order);
/* Returns the first part that has no window to read, though its weight makes rows read it; SC_NONE
 * if all have some. */
uint32_t sc_order_empty_part(const sc_order *order);

/* Returns where a row begins: of a number below the count, or in training of any. A mixture counts
 * the rows between the last call and this one, so rows are best queried in ascending order. */
sc_order_row sc_order_row_at(sc_order *order, uint64_t row);

#endif
