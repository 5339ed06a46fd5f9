/* Copies between a full tensor and a rank's shard of it: row by row, converting elements where the
 * types differ. */
#ifndef SHARDC_RUNTIME_SESSION_SHARD_H
#define SHARDC_RUNTIME_SESSION_SHARD_H

#include "program/format.h"
#include "runtime/files/element.h"
#include "runtime/files/rows.h"

/* Returns the element type in which a dtype is stored. */
sc_element sc_element_of_dtype(sc_dtype dtype);

/* A full tensor, row-major. An input of a step may hold all micro-batches: it is then `batches`
 * times as large along `batch_dim`, and `batch` selects one. */
typedef struct sc_whole {
    void *data; /* sc_shard_scatter only reads it */
    sc_element element;
    int32_t batch_dim; /* -1: none */
    int64_t batch, batches;
} sc_whole;

/* Fills the rank's shard. Padding becomes 0. For a partial sum, max or min one rank takes the value
 * and the others the reduction's neutral element. False: the dtype cannot represent an integer,
 * whose index in the full tensor is *bad. */
bool sc_shard_scatter(const sc_image_tensor *tensor, uint64_t rank, const sc_whole *whole,
                      void *local, int64_t *bad);

/* Copies the rank's shard into the full tensor; of replicas, pass only the first rank's. Partial
 * values are reduced on the way, in the order of the calls, which must be ascending by rank. */
bool sc_shard_gather(const sc_image_tensor *tensor, uint64_t rank, const void *local,
                     const sc_whole *whole, int64_t *bad);

/* Of how many boxes a shard is: one, or more where dims are split zigzag. Gets box `number`: where
 * it begins in the shard and in the full tensor, and its size without padding (0: padding only). */
uint32_t sc_shard_boxes(const sc_image_tensor *tensor);
void sc_shard_box(const sc_image_tensor *tensor, uint64_t rank, uint32_t number, int64_t *at,
                  int64_t *first, int64_t *sizes);

/* True if the rank is the first of those that hold the same shard, in the first stage that has the
 * tensor. */
bool sc_shard_is_given(const sc_image_tensor *tensor, uint64_t rank);

/* Writes the initial values of state `from`, stored as `tensor` (its own, or its master copy's).
 * False as above. */
bool sc_shard_initialise(const sc_image_state *from, const sc_image_tensor *tensor, uint64_t rank,
                         uint64_t seed, void *local);

#endif
