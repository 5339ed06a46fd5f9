/* Memory of a rank as the generated program lays it out: `shardc memory` shows what a session
 * maps. */
#ifndef SHARDC_TOOLS_EXPLAIN_MEASURE_MEMORY_H
#define SHARDC_TOOLS_EXPLAIN_MEASURE_MEMORY_H

#include "passes/memory_report.h"
#include "tools/driver/driver.h"

/* Compiles the entry again, down to its program, and reads the layout of its arena. `peak` is the
 * arena's size. Stored bytes are exact; WORKSPACE is the scratch memory of contractions and
 * attention, scalars, and the overhead of alignment and packing. Returns false after reporting
 * errors. */
bool sc_measure_memory(sc_context *context, const sc_compiled *c, sc_memory_report *out);

#endif
