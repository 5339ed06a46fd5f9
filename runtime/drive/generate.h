/* Generates tokens with a cached entry: first the prompts, a chunk of positions per call, then one
 * new token per call. */
#ifndef SHARDC_RUNTIME_DRIVE_GENERATE_H
#define SHARDC_RUNTIME_DRIVE_GENERATE_H

#include "runtime/drive/evaluate.h"

/* Continues the prompts, one per row of the batch, each at its own position. A single prompt's text
 * goes to options->text, if set, as it is generated; otherwise the result is appended to `out`.
 * Text goes through --tokenizer, is bytes if the vocabulary has 256 entries, or else ids separated
 * by blanks. A row ends at --stop, with a --template at the end of the turn. The next token is the
 * most likely one (the lowest of several), or with a temperature sampled, depending only on seed,
 * row and position. False after messages. */
bool sc_generate_text(sc_context *context, const sc_facts *facts, const sc_run_options *options,
                      sc_open_executor *open, void *user, sc_strbuf *out);

#endif
