/* The states of an executor that a checkpoint holds, and the shards that ranks give to it. */
#ifndef SHARDC_RUNTIME_DRIVE_STATE_SET_H
#define SHARDC_RUNTIME_DRIVE_STATE_SET_H

#include "runtime/drive/executor.h"
#include "runtime/files/element.h"
#include "support/context.h"

typedef struct sc_state_set {
    const sc_executor *executor;
    const uint32_t *states; /* the executor's indices, in an order independent of the plan */
    uint32_t count;
} sc_state_set;

/* Lists parameters and, with `all`, optimizer state. */
void sc_state_set_of(sc_context *context, const sc_executor *executor, bool all, sc_state_set *out);

const shardc_tensor_info *sc_state_info(const sc_state_set *set, uint32_t index);
sc_element sc_state_element(const sc_state_set *set, uint32_t index);

/* True if the rank writes a shard of the state, which is at *place. */
bool sc_state_gives(const sc_state_set *set, uint32_t index, uint32_t rank, sc_shard_place *place);
/* Bytes of the shard without padding. */
uint64_t sc_place_bytes(const sc_shard_place *place, sc_element element);
/* Bytes of the shard in memory. */
uint64_t sc_place_local_bytes(const sc_shard_place *place, sc_element element);
/* Bytes of all shards that the rank gives. */
uint64_t sc_state_given_bytes(const sc_state_set *set, uint32_t rank);

/* Receives the rows of a shard without padding, in order. */
typedef void sc_state_row(void *user, const void *bytes, size_t length);
/* Passes the rank's shard to `row`. `room`: for shards in device memory. False after a message. */
bool sc_state_each_row(sc_context *context, const sc_state_set *set, uint32_t index, uint32_t rank,
                       const sc_shard_place *place, void *room, sc_state_row *row, void *user);

/* Reads a box of a tensor into `local`, an array of place->local elements of this type; leaves
 * padding alone. False after a message. */
typedef bool sc_read_box(void *user, const sc_shard_place *place, sc_element element, void *local);
/* Fills the shards of a state that ranks of this process hold; a box that several hold is read
 * once. `room`: for shards in device memory. False after a message. */
bool sc_state_fill(sc_context *context, const sc_state_set *set, uint32_t index, void *room,
                   sc_read_box *read, void *user);

#endif
