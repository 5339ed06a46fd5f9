/* What the printer and the parser of `shardc.ir 1` share, and the printer's folding. */
#ifndef SHARDC_IR_TEXT_TEXT_INTERNAL_H
#define SHARDC_IR_TEXT_TEXT_INTERNAL_H

#include "ir/text/text.h"

/* ---- folding ---- */

typedef enum sc_fold_kind { SC_FOLD_OPS, SC_FOLD_STATES, SC_FOLD_SLOTS } sc_fold_kind;

/* A list of items in which repeats are looked for. */
typedef struct sc_folder {
    const sc_module *m;
    sc_fold_kind kind;
    uint32_t count;
    const sc_op_id *ops;         /* of SC_FOLD_OPS: the ops of a function in order, */
    const uint32_t *place;       /* and per op its index in them */
    uint64_t *hash;              /* per item, without the numbers in its names */
    uint64_t *sums, *named_sums; /* of these, and of hashes of the names, from the front */
    uint64_t *powers;
    uint32_t *next; /* per item: the next one with its hash, or SC_NONE */
} sc_folder;

/* A run of items, printed once for `count` in a row. */
typedef struct sc_fold {
    uint32_t skip;     /* items before the first run */
    uint32_t length;   /* items of one run */
    uint32_t count;    /* runs in a row that are alike; 1: nothing to fold */
    const char *stack; /* its name, stack_length bytes; the first and the last run's index */
    size_t stack_length;
    int64_t from, to;
} sc_fold;

/* With m, kind, count, ops and place set. */
void sc_folder_prepare(sc_folder *folder);
/* The runs that begin at item `first`, or a few items later, and end before `end`. */
sc_fold sc_fold_at(const sc_folder *folder, uint32_t first, uint32_t end);

#endif
