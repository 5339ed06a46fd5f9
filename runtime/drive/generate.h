/* Generating tokens: a cached entry is called with the prompts, a chunk of positions at a time, and then with each new token alone. */
#ifndef SHARDC_RUNTIME_DRIVE_GENERATE_H
#define SHARDC_RUNTIME_DRIVE_GENERATE_H

#include "runtime/drive/evaluate.h"

/* Continues the prompts, each in a row of the batch, at its own position. The result, where it was not written to options->text, is
 * added to `out`. Text is bytes where the vocabulary has 256 entries, else ids with blanks between. The next token is the most likely one,
 * the lowest of several, or with a temperature drawn: by the seed, the row and the position alone. False after messages. */
bool sc_generate_text(sc_context *context, const sc_facts *facts, const sc_run_options *options, sc_open_machine *open, void *user,
                      sc_strbuf *out);

/* One draw from logits, by index below `count`; `u` is uniform in [0, 1). temperature 0: the largest. top_k 0, top_p 0: no limit; both:
 * what is among the k largest, and of these the fewest that have at least p of the probability. `order` and `weights` have room for count.
 */
uint32_t sc_sample(const double *logits, uint32_t count, double temperature, int64_t top_k, double top_p, double u, uint32_t *order,
                   double *weights);

#endif
