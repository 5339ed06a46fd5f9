/* The facts of a program, as known to the compiler (runtime/drive/facts.h). */
#ifndef SHARDC_TOOLS_RUN_FACTS_H
#define SHARDC_TOOLS_RUN_FACTS_H

#include "runtime/drive/facts.h"
#include "tools/driver/driver.h"
#include "tools/run/weight_places.h"

/* Builds the entry of a train step with the whole batch; only `global` and `func` differ from `c`.
 * Returns false after reporting errors. */
bool sc_build_whole(const sc_compiled *c, sc_compiled *out);

/* Collects the facts of a compiled entry or, with `whole`, of a train step, whose forward entry is
 * not yet one of its functions. With `weights`, also the places of parameters in weight files, by
 * the block `map` (NULL: the only one). Returns false after reporting errors. */
bool sc_find_facts(const sc_compiled *c, const sc_compiled *whole, bool weights, const char *map,
                   sc_facts *out);

/* Collects the places of every parameter of the module; reports parameters missing from the block
 * (NULL: no block). */
void sc_weight_facts(sc_context *context, sc_declarations *program, sc_sym model,
                     const sc_weights *weights, const sc_module *m, sc_fact_weights *out);

#endif
