/* How the results of micro-batches make those of the whole batch. Compiler, reports and runtime
 * share these numbers. */
#ifndef SHARDC_SUPPORT_JOIN_H
#define SHARDC_SUPPORT_JOIN_H

typedef enum sc_join {
    SC_JOIN_ONE,  /* all micro-batches have the same: it is that of the first */
    SC_JOIN_ROWS, /* concatenated along the dim that micro-batches split */
    SC_JOIN_SUM,  /* added in the order of micro-batches, in f64, and rounded once */
    SC_JOIN_MEAN, /* such a sum, over the number of micro-batches */
    SC_JOINS
} sc_join;

extern const char *const sc_join_names[SC_JOINS];

#endif
