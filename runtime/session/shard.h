/* Between a whole value and a rank's shard of it: rows are copied, elements converted where the two sides' types differ. */
#ifndef SHARDC_RUNTIME_SESSION_SHARD_H
#define SHARDC_RUNTIME_SESSION_SHARD_H

#include "program/format.h"
#include "runtime/files/element.h"
#include "runtime/files/rows.h"

/* The stored element of a dtype. */
sc_element sc_element_of_dtype(sc_dtype dtype);

/* The whole value, row-major. Of an input of a step it may be that of all micro-batches: `batches` times as large along `batch_dim`, of
 * which the part `batch` is meant. */
typedef struct sc_whole {
    void *data; /* only read by sc_shard_scatter */
    sc_element element;
    int32_t batch_dim; /* -1: none */
    int64_t batch, batches;
} sc_whole;

/* Fills the rank's shard. Padding becomes 0; where a reduction is partial, one rank takes the value and the others what the reduction does
 * not see. False: an integer that the dtype does not hold, at *bad of the whole. */
bool sc_shard_scatter(const sc_image_tensor *tensor, uint64_t rank, const sc_whole *whole, void *local, int64_t *bad);

/* Brings the rank's shard, given by whoever is first among its replicas, into the whole; a partial reduction is done on the way, in the
 * order in which ranks come, which must be ascending. */
bool sc_shard_gather(const sc_image_tensor *tensor, uint64_t rank, const void *local, const sc_whole *whole, int64_t *bad);

/* Which part of the whole value the rank holds: where it begins, and its size without padding (0: only padding). */
void sc_shard_box(const sc_image_tensor *tensor, uint64_t rank, int64_t *first, int64_t *sizes);

/* Whether the rank is the first of those that hold its shard. */
bool sc_shard_is_given(const sc_image_tensor *tensor, uint64_t rank);

/* Initial values: of the state `from`, stored as `tensor` (its own, or its master's). False as above. */
bool sc_shard_initialise(const sc_image_state *from, const sc_image_tensor *tensor, uint64_t rank, uint64_t seed, void *local);

#endif
