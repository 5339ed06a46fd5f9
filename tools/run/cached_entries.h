/* A cached entry as two functions that share its caches: one that takes many positions, and one that takes one. */
#ifndef SHARDC_TOOLS_RUN_CACHED_ENTRIES_H
#define SHARDC_TOOLS_RUN_CACHED_ENTRIES_H

#include "runtime/drive/facts.h"
#include "tools/driver/driver.h"

/* The entry that is meant where options name none: the model's only cached one, or of several the one called decode; NULL after a message.
 */
const char *sc_choose_cached(sc_context *context, sc_declarations *program, sc_sym model, const sc_options *options);

/* How a compiled cached entry generates, `c` being functions of the program from 0 on. `other` is the same entry with one position, or
 * where `c` has one, with many; its functions follow. False after messages; *has_other false: `c` cannot generate, it has no caches whose
 * capacity is a dim of its own. */
bool sc_compile_other(sc_context *context, const sc_compiled *c, const sc_options *options, const char *last, sc_compiled *other,
                      bool *has_other, sc_fact_generate *out);

/* What the other function is called. */
const char *sc_other_name(sc_context *context, const sc_compiled *c, const sc_fact_generate *how);

/* The options with one position bound: what the interpreter, which shares no caches, runs for prompts too. */
bool sc_bind_one_position(sc_context *context, const sc_compiled *c, const sc_options *options, sc_options *out, sc_fact_generate *how);

#endif
