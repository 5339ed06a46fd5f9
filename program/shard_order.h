/* How the shards of a dim lie in it: one after the other, or zigzag. */
#ifndef SHARDC_PROGRAM_SHARD_ORDER_H
#define SHARDC_PROGRAM_SHARD_ORDER_H

#include <stdint.h>

/* How shards lie in a dim. It has `outer` parts. Each is cut into 2 * members chunks, of which
 * member i holds i and 2 * members - 1 - i, in this order; and what it holds into `inner` shards.
 * So shard (part * members + member) * inner + i is the i-th of a member's. Without zigzag members
 * is 1: the shards lie one after the other. */
typedef struct sc_shard_order {
    int64_t outer, members, inner;
} sc_shard_order;

/* A shard's elements at, at + 1, .. are first, first + 1, .. of the dim. */
typedef struct sc_run {
    int64_t at, first, count;
} sc_run;

enum { SC_RUNS = 2 };

/* The runs of a shard of so many elements, ascending in both; empty ones have a count of 0. */
void sc_shard_runs(const sc_shard_order *order, int64_t shard, int64_t local, sc_run runs[SC_RUNS]);
/* The index in the dim of element i of a shard. */
int64_t sc_shard_position(const sc_shard_order *order, int64_t shard, int64_t local, int64_t i);
/* The reverse; -1 if another shard holds it. */
int64_t sc_shard_find(const sc_shard_order *order, int64_t shard, int64_t local, int64_t position);

#endif
