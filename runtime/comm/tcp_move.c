/* Moves data, in a group of n: every member sends its piece of each part directly to the member
 * that needs it. all_reduce has two phases: in phase 0 member i receives everybody's slice i and
 * reduces them in group order; in phase 1 it sends the result to all. reduce_scatter is phase 0
 * alone. A piece of phase 1 comes from a member that has already received this rank's piece of
 * phase 0, so the call can be in place.
 *
 * Pieces may arrive before this rank has all notices, but never before it has started the call: the
 * sender has seen its notice. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/comm/reduce.h"
#include "runtime/comm/tcp.h"
#include "support/clock.h"

enum { PHASES = 2, ALIGN = 64, ZEROS = 4096 };

typedef struct piece {
    char *at;
    int64_t bytes;
} piece;

void sc_tcp_find_failure(tcp_world *world, const tcp_failure *failure)
{
    if (world->has_failed || world->is_failing)
        return;
    world->failure = *failure;
    world->is_failing = true;
}

/* ---- pieces ---- */

static int64_t slice_begin(int64_t count, uint32_t n, uint32_t member)
{
    int64_t rest = count % n;
    return count / n * member + (member < rest ? member : rest);
}

static bool reduces(const tcp_call *call)
{
    sc_comm_kind kind = call->shared.request->call.kind;
    return kind == SC_COMM_ALL_REDUCE || kind == SC_COMM_REDUCE_SCATTER;
}

/* Returns elements [begin, begin + count) of an array of the part. */
static piece stretch(const sc_comm_part *part, const void *base, int64_t begin, int64_t count)
{
    int64_t size = sc_dtypes[part->dtype].bytes;
    return base == NULL || count == 0
               ? (piece){NULL, 0}
               : (piece){(char *)(uintptr_t)base + begin * size, count * size};
}

/* Returns a member's slice of a part that is reduced. */
static piece slice_of(const tcp_call *call, uint32_t part, const void *base, uint32_t member)
{
    uint32_t n = call->shared.request->group->size;
    const sc_comm_part *p = &call->shared.request->parts[part];
    int64_t begin = slice_begin(p->count, n, member);
    return stretch(p, base, begin, slice_begin(p->count, n, member + 1) - begin);
}

/* Returns what this rank sends to `member` of a part. */
static piece outgoing(const tcp_call *call, uint32_t phase, uint32_t part, uint32_t member)
{
    const sc_comm_call *c = &call->shared.request->call;
    const sc_comm_part *p = &call->shared.request->parts[part];
    uint32_t n = call->shared.request->group->size, rank = call->shared.request->group->rank;
    int64_t m = p->count / n;
    if (phase == 1)
        return c->kind == SC_COMM_ALL_REDUCE ? slice_of(call, part, p->destination, rank)
                                             : (piece){NULL, 0};
    switch (c->kind) {
    case SC_COMM_ALL_GATHER:
        return stretch(p, p->source, 0, m);
    case SC_COMM_ALL_TO_ALL:
        return stretch(p, p->source, m * member, p->gives == NULL ? m : p->gives[member]);
    case SC_COMM_REDUCE_SCATTER:
    case SC_COMM_ALL_REDUCE:
        return slice_of(call, part, p->source, member);
    case SC_COMM_BROADCAST:
        return (uint32_t)c->from == rank ? stretch(p, p->source, 0, p->count) : (piece){NULL, 0};
    case SC_COMM_PERMUTE:
    case SC_COMM_SEND:
        return c->to == (int32_t)member ? stretch(p, p->source, 0, p->count) : (piece){NULL, 0};
    default:
        return (piece){NULL, 0};
    }
}

/* Returns where data from `member` go. */
static piece incoming(const tcp_call *call, uint32_t phase, uint32_t part, uint32_t member)
{
    const sc_comm_call *c = &call->shared.request->call;
    const sc_comm_part *p = &call->shared.request->parts[part];
    uint32_t n = call->shared.request->group->size, rank = call->shared.request->group->rank;
    int64_t m = p->count / n;
    if (phase == 1)
        return c->kind == SC_COMM_ALL_REDUCE ? slice_of(call, part, p->destination, member)
                                             : (piece){NULL, 0};
    switch (c->kind) {
    case SC_COMM_ALL_GATHER:
        return stretch(p, p->destination, m * member, m);
    case SC_COMM_ALL_TO_ALL:
        return stretch(p, p->destination, m * member, p->gets == NULL ? m : p->gets[member]);
    case SC_COMM_REDUCE_SCATTER:
    case SC_COMM_ALL_REDUCE: {
        piece own = slice_of(call, part, p->source, rank);
        return own.bytes == 0
                   ? own
                   : (piece){call->terms + call->row * member + call->offsets[part], own.bytes};
    }
    case SC_COMM_BROADCAST:
    case SC_COMM_PERMUTE:
    case SC_COMM_RECV:
        return c->from == (int32_t)member ? stretch(p, p->destination, 0, p->count)
                                          : (piece){NULL, 0};
    default:
        return (piece){NULL, 0};
    }
}

bool sc_tcp_find_target(tcp_world *world, uint32_t rank, const tcp_header *h, char **out)
{
    *out = NULL;
    if (world->has_failed)
        return true;
    const tcp_call *call = sc_comm_find_call(&world->calls, h->group, h->lane, h->number, false);
    if (call == NULL || call->shared.request == NULL || call->is_done || h->phase >= PHASES ||
        h->part >= call->shared.request->call.part_count)
        return false;
    uint32_t member = sc_comm_member(call->shared.request->group, rank),
             n = call->shared.request->group->size;
    if (member == n || h->bytes > call->incoming[h->phase * n + member])
        return false;
    piece to = incoming(call, h->phase, h->part, member);
    if (h->offset < 0 || h->offset > to.bytes || h->bytes > to.bytes - h->offset)
        return false;
    *out = to.at + h->offset;
    return true;
}

/* Copies what stays on this rank. */
static void move_own(const tcp_call *call)
{
    sc_comm_kind kind = call->shared.request->call.kind;
    uint32_t rank = call->shared.request->group->rank;
    bool is_message = kind == SC_COMM_SEND || kind == SC_COMM_RECV;
    if (is_message || reduces(call))
        return;
    for (uint32_t i = 0; i < call->shared.request->call.part_count; i++) {
        piece from = outgoing(call, 0, i, rank), to = incoming(call, 0, i, rank);
        if (to.bytes > 0 && from.bytes == to.bytes && from.at != to.at)
            memcpy(to.at, from.at, (size_t)to.bytes);
    }
}

static void reduce(tcp_call *call)
{
    const sc_comm_call *c = &call->shared.request->call;
    uint32_t n = call->shared.request->group->size, rank = call->shared.request->group->rank;
    for (uint32_t i = 0; i < c->part_count; i++) {
        const sc_comm_part *p = &call->shared.request->parts[i];
        int64_t begin = slice_begin(p->count, n, rank),
                count = slice_begin(p->count, n, rank + 1) - begin;
        if (count == 0)
            continue;
        for (uint32_t k = 0; k < n; k++)
            call->sources[k] =
                k == rank ? stretch(p, p->source, begin, count).at : incoming(call, 0, i, k).at;
        piece to = stretch(p, p->destination, c->kind == SC_COMM_ALL_REDUCE ? begin : 0, count);
        sc_comm_reduce_arrays(p->dtype, c->reduce, to.at, call->sources, n, count);
    }
}

static shardc_status no_memory(shardc_error *error)
{
    return sc_fail(error, SHARDC_ERROR_MEMORY, "a call between processes: out of memory");
}

/* Grows a block; its contents are lost. */
static bool make_room(void **block, uint32_t *room, size_t count, size_t size)
{
    if (*room >= count)
        return true;
    free(*block);
    *block = malloc(count * size);
    *room = *block == NULL ? 0 : (uint32_t)count;
    return *block != NULL;
}

shardc_status sc_tcp_prepare(tcp_call *call, shardc_error *error)
{
    const sc_comm_call *c = &call->shared.request->call;
    uint32_t n = call->shared.request->group->size, rank = call->shared.request->group->rank;
    if (!make_room((void **)&call->incoming, &call->incoming_room, (size_t)PHASES * n,
                   sizeof *call->incoming) ||
        !make_room((void **)&call->offsets, &call->offset_room, c->part_count + 1u,
                   sizeof *call->offsets) ||
        !make_room((void **)&call->sources, &call->source_room, n, sizeof *call->sources))
        return no_memory(error);
    call->row = 0;
    if (reduces(call)) {
        for (uint32_t i = 0; i < c->part_count; i++) {
            call->offsets[i] = call->row;
            call->row +=
                (slice_of(call, i, call->shared.request->parts[i].source, rank).bytes + ALIGN - 1) /
                ALIGN * ALIGN;
        }
    }
    size_t terms = (size_t)call->row * n;
    if (terms > call->term_room) {
        free(call->terms);
        call->terms = aligned_alloc(ALIGN, terms);
        call->term_room = call->terms == NULL ? 0 : terms;
        if (call->terms == NULL)
            return no_memory(error);
    }
    for (uint32_t phase = 0; phase < PHASES; phase++) {
        for (uint32_t k = 0; k < n; k++) {
            call->incoming[phase * n + k] = 0;
            if (k != rank) {
                for (uint32_t i = 0; i < c->part_count; i++)
                    call->incoming[phase * n + k] += incoming(call, phase, i, k).bytes;
            }
        }
    }
    call->is_moving = call->is_done = false;
    call->has_reduced = !reduces(call);
    call->unsent = 0;
    call->moved_ms = sc_milliseconds();
    return SHARDC_OK;
}

/* ---- items ---- */

static tcp_item *new_item(tcp_world *world)
{
    tcp_item *item = world->unused_items;
    if (item == NULL)
        return malloc(sizeof *item);
    world->unused_items = item->next;
    return item;
}

static void add_item(tcp_world *world, uint32_t rank, tcp_item *item)
{
    tcp_peer *peer = &world->peers[rank];
    item->next = NULL;
    if (peer->last != NULL)
        peer->last->next = item;
    else
        peer->first = item;
    peer->last = item;
}

static void put_item(tcp_world *world, tcp_item *item)
{
    item->next = world->unused_items;
    world->unused_items = item;
}

static void drop_first(tcp_world *world, tcp_peer *peer)
{
    tcp_item *item = peer->first;
    peer->first = item->next;
    if (peer->first == NULL)
        peer->last = NULL;
    put_item(world, item);
}

void sc_tcp_free_items(tcp_item *items)
{
    while (items != NULL) {
        tcp_item *next = items->next;
        free(items);
        items = next;
    }
}

void sc_tcp_free_call(void *freed)
{
    tcp_call *call = freed;
    free(call->incoming);
    free(call->offsets);
    free(call->terms);
    free(call->sources);
}

/* ---- sending ---- */

static bool begin_frame(tcp_peer *peer)
{
    tcp_item *item = peer->first;
    if (item == NULL)
        return false;
    peer->sending = item->header;
    if (item->header.kind == TCP_DATA)
        peer->sending.bytes = item->bytes < SC_TCP_CHUNK ? (uint32_t)item->bytes : SC_TCP_CHUNK;
    peer->sent = 0;
    peer->trailer = SC_TCP_GOOD_TRAILER;
    peer->is_sending = true;
    peer->is_void = false;
    return true;
}

static size_t frame_bytes(const tcp_header *header)
{
    return sizeof *header + header->bytes + (header->kind == TCP_DATA ? sizeof(uint32_t) : 0);
}

/* Returns the rest of the current frame as buffers for one system call. */
static int frame_pieces(tcp_peer *peer, struct iovec out[3])
{
    static const char zeros[ZEROS];
    int count = 0;
    size_t header = sizeof peer->sending, payload = peer->sending.bytes, at = peer->sent;
    if (at < header) {
        out[count++] = (struct iovec){(char *)&peer->sending + at, header - at};
        at = header;
    }
    size_t done = at - header;
    if (done < payload) {
        const char *from = peer->first->header.kind == TCP_DATA ? peer->first->data
                                                                : (const char *)&peer->first->small;
        size_t left = payload - done;
        if (peer->is_void) {
            out[count++] = (struct iovec){(char *)(uintptr_t)zeros, left < ZEROS ? left : ZEROS};
            if (left > ZEROS)
                return count;
        } else {
            out[count++] = (struct iovec){(char *)(uintptr_t)from + done, left};
        }
        done = payload;
    }
    if (peer->sending.kind == TCP_DATA)
        out[count++] = (struct iovec){(char *)&peer->trailer + (done - payload),
                                      sizeof peer->trailer - (done - payload)};
    return count;
}

static void end_frame(tcp_world *world, tcp_peer *peer)
{
    tcp_item *item = peer->first;
    tcp_call *call = item->call;
    shardc_error error;
    peer->is_sending = false;
    if (item->header.kind == TCP_DATA && call != NULL) {
        item->data += peer->sending.bytes;
        item->bytes -= peer->sending.bytes;
        item->header.offset += peer->sending.bytes;
        call->moved_ms = sc_milliseconds();
        if (item->bytes > 0)
            return;
        call->unsent--;
        drop_first(world, peer);
        /* this may have completed the call; no failure is possible then */
        sc_tcp_advance(world, call, &error);
        return;
    }
    drop_first(world, peer);
}

/* Sending failed: the peer is gone or the connection is broken. Reading finds out which. */
void sc_tcp_go_mute(tcp_world *world, tcp_peer *peer)
{
    peer->is_mute = true;
    peer->is_sending = false;
    while (peer->first != NULL)
        drop_first(world, peer);
}

void sc_tcp_send_more(tcp_world *world, uint32_t rank)
{
    tcp_peer *peer = &world->peers[rank];
    if (peer->is_mute || peer->socket < 0) {
        sc_tcp_go_mute(world, peer);
        return;
    }
    while (peer->is_sending || begin_frame(peer)) {
        struct iovec pieces[3];
        struct msghdr message = {.msg_iov = pieces,
                                 .msg_iovlen = (size_t)frame_pieces(peer, pieces)};
        ssize_t sent = sendmsg(peer->socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0) {
            sc_tcp_go_mute(world, peer);
            return;
        }
        peer->sent += (size_t)sent;
        peer->sent_ms = sc_milliseconds();
        if (peer->sent == frame_bytes(&peer->sending))
            end_frame(world, peer);
    }
}

static void wake_thread(tcp_world *world, const tcp_peer *peer)
{
    uint64_t one = 1;
    if (peer->first != NULL && write(world->bell, &one, sizeof one) < 0)
        return; /* already signalled */
}

shardc_status sc_tcp_send(tcp_world *world, uint32_t rank, const tcp_header *header,
                          const void *payload, shardc_error *error)
{
    tcp_item *item = new_item(world);
    if (item == NULL)
        return no_memory(error);
    item->header = *header;
    item->header.magic = SC_TCP_MAGIC;
    item->data = NULL;
    item->call = NULL;
    if (header->bytes > 0)
        memcpy(&item->small, payload, header->bytes);
    add_item(world, rank, item);
    sc_tcp_send_more(world, rank);
    wake_thread(world, &world->peers[rank]);
    return SHARDC_OK;
}

static shardc_status post_phase(tcp_world *world, tcp_call *call, uint32_t phase,
                                shardc_error *error)
{
    const sc_comm_group *group = call->shared.request->group;
    uint32_t part_count = call->shared.request->call.part_count;
    for (uint32_t k = 1; k < group->size; k++) {
        uint32_t member = (group->rank + k) % group->size, rank = group->ranks[member];
        for (uint32_t i = 0; i < part_count; i++) {
            piece out = outgoing(call, phase, i, member);
            if (out.bytes == 0)
                continue;
            tcp_item *item = new_item(world);
            if (item == NULL)
                return no_memory(error);
            item->header = (tcp_header){.magic = SC_TCP_MAGIC,
                                        .kind = TCP_DATA,
                                        .group = call->shared.group,
                                        .lane = call->shared.lane,
                                        .number = call->shared.number,
                                        .part = i,
                                        .phase = phase};
            item->data = out.at;
            item->bytes = out.bytes;
            item->call = call;
            call->unsent++;
            add_item(world, rank, item);
        }
    }
    call->unsent++; /* held by this function, so that the call is not done before it ends */
    for (uint32_t k = 0; k < group->size; k++) {
        if (k == group->rank)
            continue;
        sc_tcp_send_more(world, group->ranks[k]);
        wake_thread(world, &world->peers[group->ranks[k]]);
    }
    call->unsent--;
    return SHARDC_OK;
}

shardc_status sc_tcp_begin(tcp_world *world, tcp_call *call, shardc_error *error)
{
    call->is_moving = true;
    call->moved_ms = sc_milliseconds();
    move_own(call);
    shardc_status status = post_phase(world, call, 0, error);
    return status == SHARDC_OK ? sc_tcp_advance(world, call, error) : status;
}

static bool has_all(const tcp_call *call, uint32_t phase)
{
    uint32_t n = call->shared.request->group->size, k = 0;
    while (k < n && call->incoming[phase * n + k] == 0)
        k++;
    return k == n;
}

shardc_status sc_tcp_advance(tcp_world *world, tcp_call *call, shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    if (!call->is_moving || call->is_done || !has_all(call, 0))
        return SHARDC_OK;
    if (!call->has_reduced) {
        reduce(call);
        call->has_reduced = true;
        call->moved_ms = sc_milliseconds();
        if (call->shared.request->call.kind == SC_COMM_ALL_REDUCE)
            status = post_phase(world, call, 1, error);
    }
    if (status == SHARDC_OK && !call->is_done && call->unsent == 0 && has_all(call, 1)) {
        call->is_done = true;
        pthread_cond_broadcast(&world->changed);
    }
    return status;
}

uint32_t sc_tcp_find_stalled(const tcp_world *world, const tcp_call *call, bool *is_stalled)
{
    const sc_comm_group *group = call->shared.request->group;
    uint32_t count = 0, n = group->size;
    for (uint32_t k = 0; k < n; k++) {
        bool sends = false;
        for (const tcp_item *item = world->peers[group->ranks[k]].first; item != NULL;
             item = item->next)
            sends = sends || item->call == call;
        is_stalled[k] = k != group->rank && (sends || call->incoming[k] > 0);
        count += is_stalled[k];
    }
    /* phase 1 only now: such a member may itself be waiting for others */
    if (count == 0) {
        for (uint32_t k = 0; k < n; k++)
            is_stalled[k] = call->incoming[n + k] > 0;
    }
    for (uint32_t k = 0; k < n && count == 0; k++)
        count += is_stalled[k];
    return count;
}

void sc_tcp_give_up_data(tcp_world *world)
{
    for (uint32_t r = 0; r < world->size; r++) {
        tcp_peer *peer = &world->peers[r];
        tcp_item **link = &peer->first;
        bool is_first = peer->is_sending;
        peer->last = NULL;
        while (*link != NULL) {
            tcp_item *item = *link;
            if (item->header.kind == TCP_DATA && !is_first) {
                *link = item->next;
                put_item(world, item);
                continue;
            }
            if (item->header.kind == TCP_DATA) {
                peer->is_void = true;
                peer->trailer = SC_TCP_VOID_TRAILER;
                item->call = NULL;
                item->bytes = 0;
            }
            is_first = false;
            peer->last = item;
            link = &item->next;
        }
        if (peer->has_header && peer->receiving.kind == TCP_DATA)
            peer->target = NULL;
    }
}
