/* Checks the `expect` statements of a plan on a compiled entry. */
#ifndef SHARDC_TOOLS_EXPLAIN_EXPECT_H
#define SHARDC_TOOLS_EXPLAIN_EXPECT_H

#include "tools/driver/driver.h"

/* Checks the plan's `expect` statements on the collectives of a compiled entry, if it is the
 * default entry. Reports those that fail as `id`: expect_fails, or expect_warns for commands that
 * show the program anyway. */
void sc_check_expects(sc_context *context, const sc_compiled *c, sc_diag_id id);

/* As sc_check_expects; appends the result of each statement to `results`. */
typedef struct sc_expect_result {
    const sc_expect *expect;
    /* calls or bytes; with `in`, those of the first failing instance, else of the last */
    double found;
    bool known, holds; /* known: it could be counted */
} sc_expect_result;
typedef SC_VEC(sc_expect_result) sc_expect_results;
void sc_check_expects_into(sc_context *context, const sc_compiled *c, sc_diag_id id,
                           sc_expect_results *results);

#endif
