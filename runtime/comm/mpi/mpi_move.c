/* Moves the data of a call between processes, once all members are known to agree on it. Everything
 * consists of messages between two members, and both derive their number and lengths from the call
 * alone. A call's messages from one member to another have one tag and are posted in the same order
 * on both ends, which is the order in which MPI matches them.
 *
 *     all_gather, all_to_all, permute, send    each block directly to its destination
 *     broadcast                                small: from the root to all; large: slice i to
 *                                              member i, then every slice to all
 *     reduce_scatter                           in rounds: a member receives a window of its slice
 *                                              from all sources and reduces them in group order
 *                                              while the next window is in flight
 *     all_reduce                               small: one round on the whole array; large: a
 *                                              reduce_scatter of slices, then every slice to all
 *
 * MPI_Reduce is not used because its order of terms is unspecified and may change with the number
 * of ranks. */
#include "runtime/comm/mpi/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/reduce.h"

enum {
    MOST_MESSAGE = 1 << 30,  /* bytes: MPI counts in int */
    MOST_PACKED = 64 << 10,  /* small pieces are packed into messages of up to this many bytes */
    SMALL_CALL = 8 << 10,    /* bytes up to which fewer steps are worth more messages */
    ROUND_BYTES = 1 << 20,   /* of all members' windows */
    LEAST_WINDOW = 64 << 10, /* bytes */
    LEAST_BLOCK = 256 << 10, /* of scratch memory */
    ALIGN = 64
};

typedef enum phase { PHASE_ONLY, PHASE_ROUNDS, PHASE_SCATTER, PHASE_GATHER } phase;

/* A range of elements of a part. BLOCK: of count / n; SLICE: as even as possible, the first count %
 * n slices have one element more. */
typedef enum range_kind { RANGE_WHOLE, RANGE_BLOCK, RANGE_FIRST_BLOCK, RANGE_SLICE } range_kind;

typedef struct range {
    int64_t first, length;
} range;

shardc_status sc_mpi_check(int code, const char *function, shardc_error *error)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (code == MPI_SUCCESS)
        return SHARDC_OK;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        length = 0;
    return sc_fail(error, SHARDC_ERROR_COMM, "%s fails: %.*s", function, length, text);
}

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static bool grow(void **array, size_t element, size_t needed, uint32_t *room)
{
    if (needed <= *room)
        return true;
    size_t more = needed < 16 ? 16 : needed + needed / 2;
    void *grown = more > UINT32_MAX ? NULL : realloc(*array, more * element);
    if (grown == NULL)
        return false;
    *array = grown;
    *room = (uint32_t)more;
    return true;
}

static shardc_status no_memory(shardc_error *error)
{
    return sc_fail(error, SHARDC_ERROR_MEMORY, "messages between ranks: out of memory");
}

/* Returns memory that is valid until the batch is used again; NULL: out of memory. */
static void *take_scratch(mpi_batch *batch, size_t bytes)
{
    bytes = (size_t)aligned((int64_t)bytes);
    for (scratch_block *b = batch->blocks; b != NULL; b = b->next) {
        if (b->size - b->used >= bytes) {
            b->used += bytes;
            return b->bytes + b->used - bytes;
        }
    }
    size_t size = bytes < LEAST_BLOCK ? LEAST_BLOCK : bytes;
    scratch_block *block = aligned_alloc(ALIGN, sizeof *block + size);
    if (block == NULL)
        return NULL;
    block->size = size;
    block->used = bytes;
    block->next = batch->blocks;
    batch->blocks = block;
    return block->bytes;
}

static void reset(mpi_batch *batch)
{
    batch->count = batch->left = batch->unpacking_count = 0;
    for (scratch_block *b = batch->blocks; b != NULL; b = b->next)
        b->used = 0;
}

static range range_of(const mpi_call *call, range_kind kind, uint32_t part, uint32_t block)
{
    int64_t count = call->shared.request->parts[part].count, n = call->shared.request->group->size;
    assert(n > 0);
    int64_t m = count / n, rest = count % n;
    switch (kind) {
    case RANGE_BLOCK:
        return (range){m * block, m};
    case RANGE_FIRST_BLOCK:
        return (range){0, m};
    case RANGE_SLICE:
        return (range){m * block + (block < rest ? block : rest), m + (block < rest)};
    default:
        return (range){0, count};
    }
}

static bool is_sliced(const mpi_call *call)
{
    const sc_comm_summary *s = &call->shared.request->summary;
    return s->kind == SC_COMM_REDUCE_SCATTER || s->bytes > SMALL_CALL;
}

/* Returns what a round reduces of a member's slice. Rounds advance through a row of all parts'
 * slices, each padded to the part's longest slice and aligned. The row is the same for all members;
 * if a member's own slice is shorter its window is, too. */
static range window_of(const mpi_call *call, int64_t round, uint32_t part, uint32_t block)
{
    range slice = range_of(call, is_sliced(call) ? RANGE_SLICE : RANGE_WHOLE, part, block);
    int64_t element = sc_dtypes[call->shared.request->parts[part].dtype].bytes;
    int64_t start = round * call->window - call->offsets[part], end = start + call->window;
    int64_t low = start > 0 ? start / element : 0, high = end > 0 ? end / element : 0;
    low = low < slice.length ? low : slice.length;
    high = high < slice.length ? high : slice.length;
    return (range){slice.first + low, high - low};
}

/* Returns where a part begins in a window's memory. */
static int64_t offset_in_window(const mpi_call *call, int64_t round, uint32_t part)
{
    int64_t offset = call->offsets[part] - round * call->window;
    return offset > 0 ? offset : 0;
}

static mpi_piece piece_at(const sc_comm_part *part, const void *array, range r)
{
    int64_t element = sc_dtypes[part->dtype].bytes;
    return (mpi_piece){.at = r.length == 0 ? NULL : (char *)array + r.first * element,
                       .bytes = (size_t)(r.length * element)};
}

/* Posts one piece as a message, or as several if it exceeds MPI's int count. */
static shardc_status post_piece(mpi_world *world, mpi_call *call, mpi_batch *batch, uint32_t peer,
                                bool is_send, mpi_piece piece, shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    for (size_t done = 0; done < piece.bytes; done += MOST_MESSAGE) {
        if (status != SHARDC_OK)
            break;
        int some = piece.bytes - done < MOST_MESSAGE ? (int)(piece.bytes - done) : MOST_MESSAGE;
        if (!grow((void **)&batch->messages, sizeof *batch->messages, (size_t)batch->count + 1,
                  &batch->room))
            return no_memory(error);
        batch->messages[batch->count].peer = peer;
        MPI_Request *request = &batch->messages[batch->count].request;
        int rank = (int)call->shared.request->group->ranks[peer];
        int code = is_send ? MPI_Isend(piece.at + done, some, MPI_BYTE, rank, call->tag,
                                       world->comm, request)
                           : MPI_Irecv(piece.at + done, some, MPI_BYTE, rank, call->tags[peer],
                                       world->comm, request);
        status = sc_mpi_check(code, is_send ? "MPI_Isend" : "MPI_Irecv", error);
        batch->count += status == SHARDC_OK;
        batch->left += status == SHARDC_OK;
    }
    return status;
}

static shardc_status pack(mpi_batch *batch, bool is_send, const mpi_piece *pieces, uint32_t count,
                          char *packed, shardc_error *error)
{
    if (!is_send && !grow((void **)&batch->unpackings, sizeof *batch->unpackings,
                          (size_t)batch->unpacking_count + count, &batch->unpacking_room))
        return no_memory(error);
    for (uint32_t i = 0; i < count; i++) {
        if (pieces[i].bytes == 0)
            continue;
        if (is_send)
            memcpy(packed, pieces[i].at, pieces[i].bytes);
        else
            batch->unpackings[batch->unpacking_count++] =
                (mpi_unpacking){.from = packed, .to = pieces[i]};
        packed += pieces[i].bytes;
    }
    return SHARDC_OK;
}

/* Posts call->pieces, one per part, to or from a member. Several small ones are packed into one
 * message. */
static shardc_status post_pieces(mpi_world *world, mpi_call *call, mpi_batch *batch, uint32_t peer,
                                 bool is_send, shardc_error *error)
{
    uint32_t count = call->shared.request->call.part_count, filled = 0;
    size_t total = 0;
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < count; i++) {
        total += call->pieces[i].bytes;
        filled += call->pieces[i].bytes > 0;
    }
    if (filled > 1 && total <= MOST_PACKED) {
        char *packed = take_scratch(batch, total);
        status = packed == NULL ? no_memory(error)
                                : pack(batch, is_send, call->pieces, count, packed, error);
        return status != SHARDC_OK ? status
                                   : post_piece(world, call, batch, peer, is_send,
                                                (mpi_piece){.at = packed, .bytes = total}, error);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (status != SHARDC_OK)
            break;
        status = post_piece(world, call, batch, peer, is_send, call->pieces[i], error);
    }
    return status;
}

/* Sends elements of the sources. */
static shardc_status send_sources(mpi_world *world, mpi_call *call, uint32_t peer, range_kind kind,
                                  uint32_t block, shardc_error *error)
{
    const sc_comm_call *c = &call->shared.request->call;
    for (uint32_t i = 0; i < c->part_count; i++)
        call->pieces[i] =
            piece_at(&c->parts[i], c->parts[i].source, range_of(call, kind, i, block));
    return post_pieces(world, call, &call->batches[0], peer, true, error);
}

/* Sends elements of the destinations, or receives into them. */
static shardc_status move_destinations(mpi_world *world, mpi_call *call, uint32_t peer,
                                       bool is_send, range_kind kind, uint32_t block,
                                       shardc_error *error)
{
    const sc_comm_call *c = &call->shared.request->call;
    for (uint32_t i = 0; i < c->part_count; i++)
        call->pieces[i] =
            piece_at(&c->parts[i], c->parts[i].destination, range_of(call, kind, i, block));
    return post_pieces(world, call, &call->batches[0], peer, is_send, error);
}

/* Copies what a member sends to itself. */
static void copy_own(const mpi_call *call, range_kind from_kind, range_kind to_kind, uint32_t block)
{
    const sc_comm_call *c = &call->shared.request->call;
    for (uint32_t i = 0; i < c->part_count; i++) {
        mpi_piece from =
            piece_at(&c->parts[i], c->parts[i].source, range_of(call, from_kind, i, block));
        mpi_piece to =
            piece_at(&c->parts[i], c->parts[i].destination, range_of(call, to_kind, i, block));
        if (to.bytes > 0 && to.at != from.at)
            memcpy(to.at, from.at, to.bytes);
    }
}

/* all_gather and all_to_all: one block to each member and one from each. Starts with the next rank,
 * so that not all send to the same one at once. */
static shardc_status post_exchange(mpi_world *world, mpi_call *call, shardc_error *error)
{
    const sc_comm_group *group = call->shared.request->group;
    range_kind kind =
        call->shared.request->call.kind == SC_COMM_ALL_GATHER ? RANGE_FIRST_BLOCK : RANGE_BLOCK;
    shardc_status status = SHARDC_OK;
    for (uint32_t k = 1; k < group->size; k++) {
        if (status != SHARDC_OK)
            break;
        uint32_t from = (group->rank + group->size - k) % group->size,
                 to = (group->rank + k) % group->size;
        status = move_destinations(world, call, from, false, RANGE_BLOCK, from, error);
        if (status == SHARDC_OK)
            status = send_sources(world, call, to, kind, to, error);
    }
    copy_own(call, kind, RANGE_BLOCK, group->rank);
    return status;
}

static shardc_status post_pair(mpi_world *world, mpi_call *call, shardc_error *error)
{
    /* its `to` and `from` are NOBODY if the kind does not use them */
    const sc_comm_summary *s = &call->shared.request->summary;
    int32_t self = (int32_t)call->shared.request->group->rank;
    shardc_status status = SHARDC_OK;
    if (s->from == self)
        copy_own(call, RANGE_WHOLE, RANGE_WHOLE, 0);
    else if (s->from != SC_COMM_NOBODY)
        status = move_destinations(world, call, (uint32_t)s->from, false, RANGE_WHOLE, 0, error);
    if (status == SHARDC_OK && s->to != SC_COMM_NOBODY && s->to != self)
        status = send_sources(world, call, (uint32_t)s->to, RANGE_WHOLE, 0, error);
    return status;
}

/* Sends from the root: everything to each member, or each member its slice. */
static shardc_status post_from_root(mpi_world *world, mpi_call *call, range_kind kind,
                                    shardc_error *error)
{
    const sc_comm_group *group = call->shared.request->group;
    uint32_t root = (uint32_t)call->shared.request->call.from;
    if (group->rank != root)
        return move_destinations(world, call, root, false, kind, group->rank, error);
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < group->size; i++) {
        if (status != SHARDC_OK)
            break;
        if (i != root)
            status = send_sources(world, call, i, kind, i, error);
    }
    copy_own(call, RANGE_WHOLE, RANGE_WHOLE, 0);
    return status;
}

/* Sends every slice to all members; the root of a broadcast already has them. */
static shardc_status post_gather(mpi_world *world, mpi_call *call, shardc_error *error)
{
    const sc_comm_group *group = call->shared.request->group;
    bool has_root = call->shared.request->call.kind == SC_COMM_BROADCAST;
    uint32_t root = has_root ? (uint32_t)call->shared.request->call.from : group->size;
    shardc_status status = SHARDC_OK;
    reset(&call->batches[0]);
    for (uint32_t k = 1; k < group->size; k++) {
        if (status != SHARDC_OK)
            break;
        uint32_t from = (group->rank + group->size - k) % group->size,
                 to = (group->rank + k) % group->size;
        if (group->rank != root)
            status = move_destinations(world, call, from, false, RANGE_SLICE, from, error);
        if (status == SHARDC_OK && to != root)
            status = move_destinations(world, call, to, true, RANGE_SLICE, group->rank, error);
    }
    return status;
}

/* Returns where a member's terms of a round arrive. */
static char *terms_of(const mpi_call *call, const mpi_batch *batch, uint32_t member)
{
    return batch->terms +
           (size_t)(member - (member > call->shared.request->group->rank)) * (size_t)call->window;
}

/* Posts a round: a window of each slice, to the member that reduces it. */
static shardc_status post_round(mpi_world *world, mpi_call *call, int64_t round,
                                shardc_error *error)
{
    const sc_comm_call *c = &call->shared.request->call;
    const sc_comm_group *group = call->shared.request->group;
    mpi_batch *batch = &call->batches[round % 2];
    shardc_status status = SHARDC_OK;
    reset(batch);
    batch->terms = take_scratch(batch, (size_t)call->window * (group->size - 1));
    if (batch->terms == NULL)
        return no_memory(error);
    for (uint32_t k = 1; k < group->size; k++) {
        if (status != SHARDC_OK)
            break;
        uint32_t from = (group->rank + group->size - k) % group->size,
                 to = (group->rank + k) % group->size;
        for (uint32_t i = 0; i < c->part_count; i++) {
            range r = {0, window_of(call, round, i, group->rank).length};
            call->pieces[i] = piece_at(
                &c->parts[i], terms_of(call, batch, from) + offset_in_window(call, round, i), r);
        }
        status = post_pieces(world, call, batch, from, false, error);
        for (uint32_t i = 0; i < c->part_count; i++)
            call->pieces[i] =
                piece_at(&c->parts[i], c->parts[i].source, window_of(call, round, i, to));
        if (status == SHARDC_OK)
            status = post_pieces(world, call, batch, to, true, error);
    }
    return status;
}

static void reduce_round(mpi_call *call, int64_t round)
{
    const sc_comm_call *c = &call->shared.request->call;
    const sc_comm_group *group = call->shared.request->group;
    const mpi_batch *batch = &call->batches[round % 2];
    for (uint32_t i = 0; i < c->part_count; i++) {
        range window = window_of(call, round, i, group->rank), to = window;
        if (window.length == 0)
            continue;
        for (uint32_t member = 0; member < group->size; member++)
            call->sources[member] =
                member == group->rank
                    ? piece_at(&c->parts[i], c->parts[i].source, window).at
                    : terms_of(call, batch, member) + offset_in_window(call, round, i);
        if (c->kind == SC_COMM_REDUCE_SCATTER)
            to.first -= range_of(call, RANGE_SLICE, i, group->rank).first;
        sc_comm_reduce_arrays(c->parts[i].dtype, c->reduce,
                              piece_at(&c->parts[i], c->parts[i].destination, to).at, call->sources,
                              group->size, window.length);
    }
}

static shardc_status begin_rounds(mpi_world *world, mpi_call *call, shardc_error *error)
{
    const sc_comm_call *c = &call->shared.request->call;
    uint32_t n = call->shared.request->group->size;
    int64_t row = 0;
    if (!grow((void **)&call->offsets, sizeof *call->offsets, c->part_count, &call->offset_room) ||
        !grow((void **)&call->sources, sizeof *call->sources, n, &call->source_room))
        return no_memory(error);
    for (uint32_t i = 0; i < c->part_count; i++) {
        call->offsets[i] = row;
        int64_t longest = range_of(call, is_sliced(call) ? RANGE_SLICE : RANGE_WHOLE, i, 0).length;
        row += aligned(longest * sc_dtypes[c->parts[i].dtype].bytes);
    }
    int64_t window = ROUND_BYTES / n / ALIGN * ALIGN;
    window = window < LEAST_WINDOW ? LEAST_WINDOW : window;
    call->window = !is_sliced(call) || row < window ? row : window;
    call->round_count = row == 0 ? 0 : (row + call->window - 1) / call->window;
    shardc_status status = SHARDC_OK;
    for (int64_t round = 0; round < 2 && round < call->round_count; round++) {
        if (status != SHARDC_OK)
            break;
        status = post_round(world, call, round, error);
    }
    return status;
}

shardc_status sc_mpi_begin(mpi_world *world, mpi_call *call, shardc_error *error)
{
    const sc_comm_call *c = &call->shared.request->call;
    bool is_small =
        call->shared.request->summary.bytes <= SMALL_CALL || call->shared.request->group->size <= 2;
    call->is_moving = true;
    call->round = call->round_count = 0;
    reset(&call->batches[0]);
    reset(&call->batches[1]);
    if (!grow((void **)&call->pieces, sizeof *call->pieces, c->part_count, &call->piece_room))
        return no_memory(error);
    call->phase = PHASE_ONLY;
    switch (c->kind) {
    case SC_COMM_ALL_GATHER:
    case SC_COMM_ALL_TO_ALL:
        return post_exchange(world, call, error);
    case SC_COMM_PERMUTE:
    case SC_COMM_SEND:
    case SC_COMM_RECV:
        return post_pair(world, call, error);
    case SC_COMM_BROADCAST:
        call->phase = is_small ? PHASE_ONLY : PHASE_SCATTER;
        return post_from_root(world, call, is_small ? RANGE_WHOLE : RANGE_SLICE, error);
    case SC_COMM_ALL_REDUCE:
    case SC_COMM_REDUCE_SCATTER:
        call->phase = PHASE_ROUNDS;
        return begin_rounds(world, call, error);
    default:
        return SHARDC_OK;
    }
}

/* Sets *out_is_complete if all messages of the batch are complete; packed messages are then
 * unpacked. */
static shardc_status test_batch(mpi_batch *batch, bool *out_moved, bool *out_is_complete,
                                shardc_error *error)
{
    for (uint32_t i = 0; i < batch->count && batch->left > 0; i++) {
        int is_complete = 0;
        if (batch->messages[i].request == MPI_REQUEST_NULL)
            continue;
        shardc_status status =
            sc_mpi_check(MPI_Test(&batch->messages[i].request, &is_complete, MPI_STATUS_IGNORE),
                         "MPI_Test", error);
        if (status != SHARDC_OK)
            return status;
        batch->left -= is_complete != 0;
        *out_moved = *out_moved || is_complete != 0;
    }
    *out_is_complete = batch->left == 0;
    if (!*out_is_complete)
        return SHARDC_OK;
    for (uint32_t i = 0; i < batch->unpacking_count; i++)
        memcpy(batch->unpackings[i].to.at, batch->unpackings[i].from,
               batch->unpackings[i].to.bytes);
    batch->unpacking_count = 0;
    return SHARDC_OK;
}

/* Ends a phase whose messages are complete: reduces, and posts the next. */
static shardc_status advance(mpi_world *world, mpi_call *call, shardc_error *error)
{
    switch ((phase)call->phase) {
    case PHASE_ROUNDS:
        reduce_round(call, call->round);
        if (call->round + 2 < call->round_count) {
            shardc_status status = post_round(world, call, call->round + 2, error);
            if (status != SHARDC_OK)
                return status;
        }
        if (++call->round < call->round_count)
            return SHARDC_OK;
        break;
    case PHASE_SCATTER:
        break;
    default:
        call->is_done = true;
        return SHARDC_OK;
    }
    if (call->shared.request->call.kind == SC_COMM_REDUCE_SCATTER || !is_sliced(call)) {
        call->is_done = true;
        return SHARDC_OK;
    }
    call->phase = PHASE_GATHER;
    return post_gather(world, call, error);
}

shardc_status sc_mpi_continue(mpi_world *world, mpi_call *call, bool *out_moved,
                              shardc_error *error)
{
    if (call->phase == PHASE_ROUNDS && call->round_count == 0)
        call->is_done = true;
    while (!call->is_done) {
        bool is_complete;
        mpi_batch *batch = &call->batches[call->phase == PHASE_ROUNDS ? call->round % 2 : 0];
        shardc_status status = test_batch(batch, out_moved, &is_complete, error);
        if (status == SHARDC_OK && is_complete)
            status = advance(world, call, error);
        if (status != SHARDC_OK || !is_complete)
            return status;
    }
    *out_moved = true;
    return SHARDC_OK;
}

uint32_t sc_mpi_find_stalled(mpi_call *call, bool *is_stalled)
{
    uint32_t count = 0;
    bool moved = false, is_complete;
    memset(is_stalled, 0, call->shared.request->group->size * sizeof *is_stalled);
    for (int b = 0; b < 2; b++) {
        mpi_batch *batch = &call->batches[b];
        /* otherwise messages of the round after the current one would not make progress */
        test_batch(batch, &moved, &is_complete, NULL);
        for (uint32_t i = 0; i < batch->count; i++) {
            if (batch->messages[i].request == MPI_REQUEST_NULL ||
                is_stalled[batch->messages[i].peer])
                continue;
            is_stalled[batch->messages[i].peer] = true;
            count++;
        }
    }
    return count;
}

void sc_mpi_cancel(mpi_call *call)
{
    for (int b = 0; b < 2; b++) {
        for (uint32_t i = 0; i < call->batches[b].count; i++) {
            if (call->batches[b].messages[i].request != MPI_REQUEST_NULL)
                MPI_Cancel(&call->batches[b].messages[i].request);
        }
    }
}

bool sc_mpi_is_quiet(mpi_call *call)
{
    bool is_quiet = true, moved = false;
    for (int b = 0; b < 2; b++) {
        bool is_complete = false;
        call->batches[b].unpacking_count = 0;
        shardc_status status = test_batch(&call->batches[b], &moved, &is_complete, NULL);
        is_quiet = is_quiet && (is_complete || status != SHARDC_OK);
    }
    return is_quiet;
}

void sc_mpi_free_moves(void *freed)
{
    mpi_call *call = freed;
    for (int b = 0; b < 2; b++) {
        mpi_batch *batch = &call->batches[b];
        free(batch->messages);
        free(batch->unpackings);
        while (batch->blocks != NULL) {
            scratch_block *next = batch->blocks->next;
            free(batch->blocks);
            batch->blocks = next;
        }
    }
    free(call->offsets);
    free(call->pieces);
    free(call->sources);
}
