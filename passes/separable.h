/* Accumulation adds up micro-batches, which is correct only for objectives that are sums over the
 * batch. */
#ifndef SHARDC_PASSES_SEPARABLE_H
#define SHARDC_PASSES_SEPARABLE_H

#include "ir/ops/ops.h"

/* What an op does to rows of the batch that it reads. */
typedef enum sc_rows_effect {
    SC_ROWS_STAY, /* each row of the result depends only on that row */
    SC_ROWS_ADD,  /* the result is a sum over the rows */
    SC_ROWS_MIX   /* anything else */
} sc_rows_effect;
sc_rows_effect sc_effect_on_rows(const sc_module *m, const sc_op *op, uint32_t result,
                                 sc_dim batch);
/* Returns the source text of the expression, at most one line that fits a message; of an op without
 * a location, its name. */
const char *sc_written(const sc_module *m, const sc_op *op);

/* Proves that the first results of a forward function (a scalar, or total and weight) are sums over
 * `batch` of terms that do not mix its rows. Otherwise reports the op that mixes them and returns
 * false. `line` is the plan's line that splits the batch, `word` its first word. */
bool sc_check_separable(const sc_module *m, sc_func_id func, sc_dim batch, sc_loc line,
                        const char *word);

#endif
