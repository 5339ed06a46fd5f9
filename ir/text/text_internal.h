/* Shared by the printer and the parser of `shardc.ir 1`, and the interface of the printer's
 * folding. */
#ifndef SHARDC_IR_TEXT_TEXT_INTERNAL_H
#define SHARDC_IR_TEXT_TEXT_INTERNAL_H

#include "ir/text/text.h"

/* ---- folding ---- */

typedef enum sc_fold_kind { SC_FOLD_OPS, SC_FOLD_STATES } sc_fold_kind;

/* A list of items to be searched for repeats. */
typedef struct sc_folder {
    const sc_module *m;
    sc_fold_kind kind;
    uint32_t count;
    const sc_op_id *ops;         /* SC_FOLD_OPS: the ops of a function in order */
    const uint32_t *place;       /* per op: its index in ops */
    uint64_t *hash;              /* per item, ignoring the numbers in its names */
    uint64_t *sums, *named_sums; /* prefix sums of these hashes, and of hashes of the names */
    uint64_t *powers;
    uint32_t *next; /* per item: the next one with the same hash, or SC_NONE */
} sc_folder;

/* A run of items, printed once for `count` consecutive runs. */
typedef struct sc_fold {
    uint32_t skip;   /* items before the first run */
    uint32_t length; /* items per run */
    uint32_t count;  /* consecutive equal runs; 1: nothing to fold */
    /* name of the stack (stack_length bytes); the indices of the first and the last run */
    const char *stack;
    size_t stack_length;
    int64_t from, to;
} sc_fold;

/* Prepares a folder with m, kind, count, ops and place set. */
void sc_folder_prepare(sc_folder *folder);
/* Returns the runs that begin at item `first`, or a few items later, and end before `end`. */
sc_fold sc_fold_at(const sc_folder *folder, uint32_t first, uint32_t end);

#endif
