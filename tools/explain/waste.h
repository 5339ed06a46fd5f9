/* What of a plan is in vain: ranks that compute the same, lines that change nothing. */
#ifndef SHARDC_TOOLS_EXPLAIN_WASTE_H
#define SHARDC_TOOLS_EXPLAIN_WASTE_H

#include "tools/driver/driver.h"

typedef SC_VEC(const sc_compiled *) sc_compiled_list;

/* Warns of axes along which (nearly) all contractions of the program are repeated: of the default entry among those compiled under one
 * plan, else, of axes of which that is true in every one. */
void sc_warn_of_repeated_work(sc_context *context, const sc_compiled_list *entries);
/* Warns of rules, pins and styles that speak of values of these entries, all that the plan was compiled for, and place none of them. */
void sc_warn_of_idle_lines(sc_context *context, const sc_compiled_list *entries);

#endif
