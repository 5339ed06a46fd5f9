/* Finds waste in a plan: repeated computation, and lines without effect. */
#ifndef SHARDC_TOOLS_EXPLAIN_WASTE_H
#define SHARDC_TOOLS_EXPLAIN_WASTE_H

#include "tools/driver/driver.h"

typedef SC_VEC(const sc_compiled *) sc_compiled_list;

/* Warns about axes along which ranks repeat (nearly) all contractions of the program. Considers the
 * default entry if it is among those compiled under the plan, else reports axes for which this is
 * true in every entry. */
void sc_warn_of_repeated_work(sc_context *context, const sc_compiled_list *entries);
/* Warns about rules, pins and styles that match values of these entries (all entries compiled for
 * the plan) but place none of them, and about `offload` lines that keep nothing in host memory. */
void sc_warn_of_idle_lines(sc_context *context, const sc_compiled_list *entries);

#endif
