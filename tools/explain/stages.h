/* The stages of a pipeline that have a state. */
#ifndef SHARDC_TOOLS_EXPLAIN_STAGES_H
#define SHARDC_TOOLS_EXPLAIN_STAGES_H

#include <jansson.h>

#include "ir/graph.h"
#include "support/strbuf.h"

typedef SC_VEC(uint32_t) sc_stage_list; /* ascending */

/* By state, the stages with functions that read or write it; NULL for a program that is not cut. */
sc_stage_list *sc_find_stages(const sc_module *m);

/* Appends ", stage 1" or ", stages 0, 3"; nothing for an empty list. */
void sc_print_stages(const sc_stage_list *list, sc_strbuf *out);
json_t *sc_stages_json(const sc_stage_list *list);

#endif
