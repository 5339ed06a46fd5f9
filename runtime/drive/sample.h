/* Draws a token from logits. */
#ifndef SHARDC_RUNTIME_DRIVE_SAMPLE_H
#define SHARDC_RUNTIME_DRIVE_SAMPLE_H

#include <stdint.h>

/* Samples an index below `count` from logits; `u` is uniform in [0, 1). temperature 0: the largest
 * logit. top_k 0, top_p 0: no limit; with both: of the k largest, the fewest whose probability is
 * at least p. Of equal logits the one with the lower index counts as larger. `order` and `weights`
 * are scratch for `count` elements. Time is linear in `count`, plus sorting the entries that are
 * kept. */
uint32_t sc_sample(const double *logits, uint32_t count, double temperature, int64_t top_k,
                   double top_p, double u, uint32_t *order, double *weights);

#endif
