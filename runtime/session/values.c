/* Scatters full tensors to a session's ranks and gathers them; sets, reads and initializes
 * state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/lookup.h"
#include "runtime/session/device.h"
#include "runtime/session/session.h"

shardc_status sc_element_named(const char *dtype, sc_dtype stored, sc_element *out,
                               shardc_error *error)
{
    sc_dtype found = dtype == NULL ? stored : sc_dtype_find(dtype);
    if (found == SC_DTYPE_COUNT)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "there is no dtype '%s'", dtype);
    *out = sc_element_of_dtype(found);
    return SHARDC_OK;
}

/* ---- sizes ---- */

/* Formats a type as f32[B = 2, D = 4]; truncated if `room` is too small. */
static void describe_tensor(const sc_image_tensor *tensor, int32_t batch_dim, int64_t batches,
                            char *out, size_t room)
{
    size_t at = (size_t)snprintf(out, room, "%s[", sc_dtypes[tensor->dtype].name);
    for (uint32_t i = 0; i < tensor->rank && at < room; i++) {
        int64_t size = tensor->dims[i].size * ((int32_t)i == batch_dim ? batches : 1);
        at += (size_t)snprintf(out + at, room - at, "%s%s = %lld", i > 0 ? ", " : "",
                               tensor->dims[i].name, (long long)size);
    }
    if (at < room)
        snprintf(out + at, room - at, "]");
}

shardc_status sc_check_bytes(const sc_image_tensor *tensor, const sc_whole *whole, const char *kind,
                             const char *name, size_t bytes, bool is_room, shardc_error *error)
{
    char text[200];
    uint64_t wanted = sc_element_size(whole->element);
    int64_t batches = whole->batch_dim < 0 ? 1 : whole->batches;
    for (uint32_t i = 0; i < tensor->rank; i++)
        wanted *= (uint64_t)(tensor->dims[i].size * ((int32_t)i == whole->batch_dim ? batches : 1));
    if (wanted == bytes || (is_room && wanted < bytes))
        return SHARDC_OK;
    describe_tensor(tensor, whole->batch_dim, batches, text, sizeof text);
    uint32_t dtype = 0;
    while (dtype + 1 < SC_DTYPE_COUNT && sc_element_of_dtype((sc_dtype)dtype) != whole->element)
        dtype++;
    return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s '%s' is %s: %llu bytes as %s, not %zu", kind,
                   name, text, (unsigned long long)wanted, sc_dtypes[dtype].name, bytes);
}

static shardc_status bad_element(const char *name, const sc_whole *whole, int64_t at,
                                 const char *dtype, shardc_error *error)
{
    return sc_fail(error, SHARDC_ERROR_DATA, "element %lld of '%s' is %.17g, which %s cannot hold",
                   (long long)at, name, sc_element_load(whole->element, whole->data, (uint64_t)at),
                   dtype);
}

/* ---- staging of memory that this thread cannot address ---- */

/* True if the buffer of the rank's image has an address for this thread. */
static bool is_direct(const sc_rank *rank, uint32_t buffer)
{
    return rank->session->device->is_host &&
           (!rank->image->buffers[buffer].host || rank->host.memory != NULL);
}

/* True if this thread has an address for every shard of the tensor that is in this process. */
static bool is_all_direct(const shardc_session *session, const sc_image_tensor *tensor,
                          uint32_t buffer)
{
    for (uint32_t r = 0; r < session->rank_count; r++) {
        const sc_rank *rank = &session->ranks[r];
        uint32_t own = sc_image_buffer_of(tensor, buffer, rank->rank);
        if (own != SC_NONE && !is_direct(rank, own))
            return false;
    }
    return true;
}

typedef struct staging {
    void *memory; /* NULL: the buffer itself */
    int64_t bytes;
} staging;

static shardc_status open_staging(const sc_rank *rank, const sc_image_tensor *tensor,
                                  uint32_t buffer, staging *out, shardc_error *error)
{
    *out = (staging){.bytes = sc_image_tensor_bytes(tensor)};
    if (is_direct(rank, buffer))
        return SHARDC_OK;
    out->memory = malloc((size_t)out->bytes + 1);
    return out->memory != NULL ? SHARDC_OK
                               : sc_fail(error, SHARDC_ERROR_MEMORY,
                                         "there is not enough memory for a shard of %lld bytes",
                                         (long long)out->bytes);
}

/* Returns host memory to fill with the buffer's new contents; give_staged copies it there. */
static void *staged(const staging *room, const sc_rank *rank, uint32_t buffer)
{
    return room->memory != NULL ? room->memory : sc_rank_buffer(rank, buffer);
}

static shardc_status give_staged(const staging *room, sc_rank *rank, uint32_t buffer,
                                 shardc_error *error)
{
    return room->memory == NULL
               ? SHARDC_OK
               : rank->session->device->write(rank, buffer, room->memory, room->bytes, error);
}

/* ---- full tensors ---- */

shardc_status sc_rank_scatter(sc_rank *rank, const sc_image_tensor *tensor, uint32_t buffer,
                              const sc_whole *whole, const char *name, shardc_error *error)
{
    int64_t bad = 0;
    staging room;
    uint32_t own = sc_image_buffer_of(tensor, buffer, rank->rank);
    if (own == SC_NONE)
        return SHARDC_OK;
    shardc_status status = open_staging(rank, tensor, own, &room, error);
    if (status == SHARDC_OK &&
        !sc_shard_scatter(tensor, rank->rank, whole, staged(&room, rank, own), &bad))
        status = bad_element(name, whole, bad, sc_dtypes[tensor->dtype].name, error);
    else if (status == SHARDC_OK)
        status = give_staged(&room, rank, own, error);
    free(room.memory);
    return status;
}

shardc_status sc_session_scatter(shardc_session *session, const sc_image_tensor *tensor,
                                 uint32_t buffer, const sc_whole *whole, const char *name,
                                 shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    for (uint32_t r = 0; r < session->rank_count; r++) {
        if (status != SHARDC_OK)
            break;
        status = sc_rank_scatter(&session->ranks[r], tensor, buffer, whole, name, error);
    }
    return status;
}

/* Gets the shard of a rank, of the buffer's copy for a micro-batch: the buffer itself if it is in
 * host memory, otherwise a copy. The shard
 * of another process is broadcast by its owner. */
static shardc_status fetch_shard(shardc_session *session, const sc_image_tensor *tensor,
                                 uint32_t buffer, uint64_t rank, int32_t micro_batch, void *copy,
                                 const void **out, shardc_error *error)
{
    sc_rank *self = &session->ranks[0];
    uint64_t index = rank - session->first_rank;
    uint32_t at = sc_image_buffer_of(tensor, buffer, rank);
    /* All processes agree where any could fail, whatever each keeps its host arena in. */
    const sc_image_buffer *of = &sc_session_image_of(session, (uint32_t)rank)->buffers[at];
    bool may_fail = !session->device->is_host || of->host;
    int64_t from = sc_image_copy_at(of, micro_batch);
    shardc_status read = SHARDC_OK;
    *out = copy;
    if (rank >= session->first_rank && index < session->rank_count) {
        sc_rank *own = &session->ranks[index];
        if (is_direct(own, at))
            *out = (const char *)sc_rank_buffer(own, at) + from;
        else
            read = session->device->read(own, at, from, copy, sc_image_tensor_bytes(tensor), error);
    }
    if (may_fail)
        read = sc_session_agree(session, read, error);
    if (session->rank_count == session->image->ranks || read != SHARDC_OK)
        return read;
    sc_comm_part part = {.source = *out,
                         .destination = (void *)*out,
                         .count = sc_image_tensor_bytes(tensor) / sc_dtypes[tensor->dtype].bytes,
                         .dtype = tensor->dtype};
    sc_comm_call call = {.kind = SC_COMM_BROADCAST,
                         .part_count = 1,
                         .parts = &part,
                         .from = (int32_t)rank,
                         .what = "value"};
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status = sc_comm_run(sc_comm_world(self->comm), &call, &reason);
    session->is_world_lost = session->is_world_lost || status != SHARDC_OK;
    return status == SHARDC_OK ? SHARDC_OK : sc_fail(error, status, "%s", reason.text);
}

shardc_status sc_session_gather(shardc_session *session, const sc_image_tensor *tensor,
                                uint32_t buffer, const sc_whole *whole, const char *name,
                                shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    int64_t bad = -1;
    void *copy = NULL;
    if (session->rank_count < session->image->ranks || !is_all_direct(session, tensor, buffer)) {
        copy = malloc((size_t)sc_image_tensor_bytes(tensor) + 1);
        status = sc_session_agree(
            session,
            copy != NULL ? SHARDC_OK
                         : sc_fail(error, SHARDC_ERROR_MEMORY,
                                   "there is not enough memory for a shard of '%s'", name),
            error);
    }
    for (uint64_t rank = 0; rank < session->image->ranks; rank++) {
        if (status != SHARDC_OK)
            break;
        const void *local;
        if (!sc_shard_is_given(tensor, rank))
            continue;
        status =
            fetch_shard(session, tensor, buffer, rank, (int32_t)whole->batch, copy, &local, error);
        /* Keep taking part in the broadcasts even after a bad value: the other processes wait for
         * this rank. */
        if (status == SHARDC_OK && bad < 0)
            sc_shard_gather(tensor, rank, local, whole, &bad);
    }
    free(copy);
    if (status == SHARDC_OK && bad >= 0)
        status = sc_fail(error, SHARDC_ERROR_DATA,
                         "element %lld of '%s' is not a value of the requested dtype",
                         (long long)bad, name);
    return status;
}

/* ---- shards of state ---- */

shardc_status sc_session_read_shard(shardc_session *session, uint32_t state, uint32_t rank,
                                    void *room, const void **out, shardc_error *error)
{
    const sc_image_state *of = &session->image->states[state];
    sc_rank *own = &session->ranks[rank - session->first_rank];
    uint32_t buffer = sc_image_buffer_of(&of->tensor, of->buffer, rank);
    *out = is_direct(own, buffer) ? sc_rank_buffer(own, buffer) : room;
    if (is_direct(own, buffer))
        return SHARDC_OK;
    return session->device->read(own, buffer, 0, room, sc_image_tensor_bytes(&of->tensor), error);
}

void *sc_session_shard_room(shardc_session *session, uint32_t state, uint32_t rank, void *room)
{
    const sc_image_state *of = &session->image->states[state];
    sc_rank *own = &session->ranks[rank - session->first_rank];
    uint32_t buffer = sc_image_buffer_of(&of->tensor, of->buffer, rank);
    return is_direct(own, buffer) ? sc_rank_buffer(own, buffer) : room;
}

shardc_status sc_session_write_shard(shardc_session *session, uint32_t state, uint32_t rank,
                                     const void *filled, shardc_error *error)
{
    const sc_image_state *of = &session->image->states[state];
    sc_rank *own = &session->ranks[rank - session->first_rank];
    uint32_t buffer = sc_image_buffer_of(&of->tensor, of->buffer, rank);
    if (is_direct(own, buffer))
        return SHARDC_OK;
    return session->device->write(own, buffer, filled, sc_image_tensor_bytes(&of->tensor), error);
}

shardc_status sc_session_sum(shardc_session *session, int64_t *values, uint32_t count,
                             const char *what, shardc_error *error)
{
    sc_comm_part part = {
        .source = values, .destination = values, .count = count, .dtype = SC_DTYPE_i64};
    sc_comm_call call = {.kind = SC_COMM_ALL_REDUCE,
                         .reduce = SC_COMM_SUM,
                         .part_count = 1,
                         .parts = &part,
                         .what = what};
    shardc_error reason = {.status = SHARDC_OK};
    if (session->rank_count == session->image->ranks)
        return SHARDC_OK;
    shardc_status status = sc_comm_run(sc_comm_world(session->ranks[0].comm), &call, &reason);
    session->is_world_lost = session->is_world_lost || status != SHARDC_OK;
    return status == SHARDC_OK ? SHARDC_OK : sc_fail(error, status, "%s", reason.text);
}

/* ---- state ---- */

static shardc_status check_state(const shardc_session *session, uint32_t state, shardc_error *error)
{
    if (state < session->image->state_count)
        return SHARDC_OK;
    return sc_fail(error, SHARDC_ERROR_ARGUMENT, "there is no state %u", state);
}

/* Checks dtype and size. Sets whole->element. */
static shardc_status check_whole(const sc_image_state *state, sc_whole *whole, size_t bytes,
                                 const char *dtype, bool is_room, shardc_error *error)
{
    shardc_status status = sc_element_named(dtype, state->tensor.dtype, &whole->element, error);
    if (status == SHARDC_OK && whole->data == NULL && bytes > 0)
        status =
            sc_fail(error, SHARDC_ERROR_ARGUMENT, "no memory is given for state '%s'", state->path);
    return status == SHARDC_OK
               ? sc_check_bytes(&state->tensor, whole, "state", state->path, bytes, is_room, error)
               : status;
}

shardc_status sc_session_set_elements(shardc_session *session, uint32_t index, const void *data,
                                      sc_element element, shardc_error *error)
{
    const sc_image_state *state = &session->image->states[index];
    sc_whole whole = {.data = (void *)data, .element = element, .batch_dim = -1};
    shardc_status status =
        sc_session_scatter(session, &state->tensor, state->buffer, &whole, state->path, error);
    if (status != SHARDC_OK || state->master == SC_NONE)
        return status;
    const sc_image_state *master = &session->image->states[state->master];
    return sc_session_scatter(session, &master->tensor, master->buffer, &whole, master->path,
                              error);
}

shardc_status shardc_session_set_state(shardc_session *session, uint32_t index, const void *data,
                                       size_t bytes, const char *dtype, shardc_error *error)
{
    sc_whole whole = {.data = (void *)data, .batch_dim = -1};
    shardc_status status = check_state(session, index, error);
    if (status == SHARDC_OK)
        status = check_whole(&session->image->states[index], &whole, bytes, dtype, false, error);
    return status == SHARDC_OK ? sc_session_set_elements(session, index, data, whole.element, error)
                               : status;
}

shardc_status shardc_session_get_state(shardc_session *session, uint32_t index, void *data,
                                       size_t bytes, const char *dtype, shardc_error *error)
{
    sc_whole whole = {.data = data, .batch_dim = -1};
    shardc_status status = check_state(session, index, error);
    if (status == SHARDC_OK)
        status = check_whole(&session->image->states[index], &whole, bytes, dtype, true, error);
    if (status == SHARDC_OK)
        status = sc_session_recover(session, error);
    if (status != SHARDC_OK)
        return status;
    const sc_image_state *state = &session->image->states[index];
    return sc_session_gather(session, &state->tensor, state->buffer, &whole, state->path, error);
}

void *shardc_session_local_state(shardc_session *session, uint32_t state, uint32_t rank)
{
    uint32_t index = rank - session->first_rank;
    if (state >= session->image->state_count || rank < session->first_rank ||
        index >= session->rank_count)
        return NULL;
    const sc_image_state *of = &session->image->states[state];
    const sc_rank *own = &session->ranks[index];
    uint32_t buffer = sc_image_buffer_of(&of->tensor, of->buffer, rank);
    return buffer == SC_NONE || !is_direct(own, buffer) ? NULL : sc_rank_buffer(own, buffer);
}

/* ---- initial values ---- */

static shardc_status initialise_state(sc_rank *rank, const sc_image_state *from,
                                      const sc_image_state *to, shardc_error *error)
{
    staging room;
    uint32_t buffer = sc_image_buffer_of(&to->tensor, to->buffer, rank->rank);
    if (buffer == SC_NONE)
        return SHARDC_OK;
    const sc_device *device = rank->session->device;
    if (from->init == SC_INIT_ZEROS && to->tensor.partial == SC_IMAGE_WHOLE &&
        device->clear != NULL && !rank->image->buffers[buffer].host)
        return device->clear(rank, buffer, sc_image_tensor_bytes(&to->tensor), error);
    shardc_status status = open_staging(rank, &to->tensor, buffer, &room, error);
    if (status == SHARDC_OK &&
        !sc_shard_initialise(from, &to->tensor, rank->rank, rank->session->seed,
                             staged(&room, rank, buffer)))
        status = sc_fail(error, SHARDC_ERROR_DATA,
                         "an initial value of '%s' does not fit its dtype", to->path);
    if (status == SHARDC_OK)
        status = give_staged(&room, rank, buffer, error);
    free(room.memory);
    return status;
}

static shardc_status initialise_rank(sc_rank *rank, void *user, shardc_error *error)
{
    const sc_image *image = rank->session->image;
    (void)user;
    for (uint32_t i = 0; i < image->state_count; i++) {
        const sc_image_state *state = &image->states[i];
        shardc_status status = initialise_state(rank, state, state, error);
        if (status != SHARDC_OK)
            return status;
    }
    for (uint32_t i = 0; i < image->state_count; i++) {
        const sc_image_state *from = &image->states[i];
        if (from->master == SC_NONE)
            continue;
        shardc_status status = initialise_state(rank, from, &image->states[from->master], error);
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}

shardc_status shardc_session_initialise(shardc_session *session, shardc_error *error)
{
    shardc_status status = sc_session_recover(session, error);
    if (status != SHARDC_OK)
        return status;
    sc_session_each_rank(session, initialise_rank, NULL);
    return sc_session_outcome(session, error);
}
