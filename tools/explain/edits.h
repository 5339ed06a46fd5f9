/* Edits of a plan that may remove a collective, for the adviser to try. */
#ifndef SHARDC_TOOLS_EXPLAIN_EDITS_H
#define SHARDC_TOOLS_EXPLAIN_EDITS_H

#include "tools/explain/advice.h"

/* Appends edits for a collective of a compiled plan: of the line that caused it first. */
void sc_list_edits(const sc_compiled *c, const sc_comm_row *row, sc_edits *out);

#endif
