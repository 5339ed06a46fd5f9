/* The memory of a rank as the generated program lays it out: what `shardc memory` shows is what a session maps. */
#ifndef SHARDC_TOOLS_EXPLAIN_MEASURE_MEMORY_H
#define SHARDC_TOOLS_EXPLAIN_MEASURE_MEMORY_H

#include "passes/memory_report.h"
#include "tools/driver/driver.h"

/* Compiles the entry once more, up to its program, and reads the plan of its arena. `peak` is the arena's size; of what is stored, bytes
 * are exact; WORKSPACE is scratch of contractions and attention, scalars, and what aligning and packing cost. False after messages. */
bool sc_measure_memory(sc_context *context, const sc_compiled *c, sc_memory_report *out);

#endif
