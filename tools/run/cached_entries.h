/* A cached entry as two functions that share its caches: one for many positions, one for a single
 * position. */
#ifndef SHARDC_TOOLS_RUN_CACHED_ENTRIES_H
#define SHARDC_TOOLS_RUN_CACHED_ENTRIES_H

#include "runtime/drive/facts.h"
#include "tools/driver/driver.h"

/* Returns the entry used without --entry: the model's only cached one, or of several the one named
 * decode. NULL after reporting an error. */
const char *sc_choose_cached(sc_context *context, sc_declarations *program, sc_sym model,
                             const sc_options *options);

/* Finds how a compiled cached entry `c` generates, with its functions numbered from 0. Compiles
 * into `other` the same entry for one position or, if `c` has one, for many; its functions come
 * after those of `c`. *has_other is false if `c` cannot generate: it has no caches whose capacity
 * is a dim of its own. Returns false after reporting errors. */
bool sc_compile_other(sc_context *context, const sc_compiled *c, const sc_options *options,
                      const char *last, sc_compiled *other, bool *has_other, sc_fact_generate *out);

/* Returns the name of the other function. */
const char *sc_other_name(sc_context *context, const sc_compiled *c, const sc_fact_generate *how);

/* Binds one position in the options. The interpreter, which does not share caches, runs prompts
 * this way too. */
bool sc_bind_one_position(sc_context *context, const sc_compiled *c, const sc_options *options,
                          sc_options *out, sc_fact_generate *how);

#endif
