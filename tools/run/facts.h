/* What the compiler knows of a program that runs (runtime/drive/facts.h). */
#ifndef SHARDC_TOOLS_RUN_FACTS_H
#define SHARDC_TOOLS_RUN_FACTS_H

#include "runtime/drive/facts.h"
#include "tools/driver/driver.h"
#include "tools/run/weight_places.h"

/* Of a train step: the entry as it was built, with the whole batch; only `global` and `func` differ from `c`. False after messages. */
bool sc_build_whole(const sc_compiled *c, sc_compiled *out);

/* The facts of a compiled entry, or with `whole` of a train step, whose forward entry is not yet a function of it. With `weights` also
 * where parameters lie in files, by the block called `map` (NULL: the only one). False after messages. */
bool sc_find_facts(const sc_compiled *c, const sc_compiled *whole, bool weights, const char *map, sc_facts *out);

/* Of every parameter of the module; what a block (NULL: none) lacks is reported. */
void sc_weight_facts(sc_context *context, sc_declarations *program, sc_sym model, const sc_weights *weights, const sc_module *m,
                     sc_fact_weights *out);

#endif
