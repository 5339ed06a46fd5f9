/* Contracts of a plan on a compiled entry. */
#ifndef SHARDC_TOOLS_EXPLAIN_EXPECT_H
#define SHARDC_TOOLS_EXPLAIN_EXPECT_H

#include "tools/driver/driver.h"

/* Holds the plan's expect statements against the collectives of a compiled entry, if it is the default one, and reports those that do not
 * hold as `id`: expect_fails, or expect_warns for commands that show a program all the same. */
void sc_check_expects(sc_context *context, const sc_compiled *c, sc_diag_id id);

/* The same; what came out of each is added to `results`. */
typedef struct sc_expect_result {
    const sc_expect *expect;
    double found;      /* calls or bytes; with `in` those of the first instance that does not hold it, else of the last */
    bool known, holds; /* known: it could be counted */
} sc_expect_result;
typedef SC_VEC(sc_expect_result) sc_expect_results;
void sc_check_expects_into(sc_context *context, const sc_compiled *c, sc_diag_id id, sc_expect_results *results);

#endif
