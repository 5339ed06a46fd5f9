/* Reads frames from connections and delivers them to their calls, whether or not this rank has
 * started them. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/tcp.h"
#include "support/clock.h"

/* when at least this many bytes of an array remain, read into it directly */
enum { DIRECT = 16 << 10 };

static shardc_status take_notice(tcp_world *world, uint32_t sender, const tcp_header *header,
                                 const sc_comm_summary *summary, shardc_error *error)
{
    sc_comm_shared_call *call =
        sc_comm_find_call(&world->calls, header->group, header->lane, header->number, true);
    shardc_status status =
        sc_comm_take_notice(call, &(sc_comm_notice){.sender = sender, .summary = *summary}, error);
    return status == SHARDC_OK && sc_comm_is_agreed(call)
               ? sc_tcp_begin(world, (tcp_call *)call, error)
               : status;
}

static void lose(tcp_world *world, uint32_t rank, const char *why)
{
    tcp_peer *peer = &world->peers[rank];
    tcp_failure failure = {.error = {.status = SHARDC_ERROR_COMM}, .lost = (int32_t)rank};
    sc_tcp_go_mute(world, peer);
    close(peer->socket);
    peer->socket = -1;
    peer->has_heard = true;
    pthread_cond_broadcast(&world->changed);
    if (peer->is_gone)
        return;
    sc_fail(&failure.error, SHARDC_ERROR_COMM, "%s (%s)", why, peer->host);
    sc_tcp_find_failure(world, &failure);
}

static bool begin_payload(tcp_world *world, uint32_t rank)
{
    tcp_peer *peer = &world->peers[rank];
    const tcp_header *h = &peer->receiving;
    static const uint32_t sizes[TCP_KINDS] = {
        [TCP_CALL] = sizeof(sc_comm_summary), [TCP_FAILURE] = sizeof(tcp_failure)};
    if (h->magic != SC_TCP_MAGIC || h->kind >= TCP_KINDS)
        return false;
    peer->got = 0;
    if (h->kind == TCP_DATA)
        return h->bytes > 0 && h->bytes <= SC_TCP_CHUNK &&
               sc_tcp_find_target(world, rank, h, &peer->target);
    peer->target = (char *)&peer->small;
    return h->bytes == sizes[h->kind];
}

static shardc_status end_payload(tcp_world *world, uint32_t rank, uint32_t trailer,
                                 shardc_error *error)
{
    tcp_peer *peer = &world->peers[rank];
    const tcp_header *h = &peer->receiving;
    switch ((tcp_kind)h->kind) {
    case TCP_CALL:
        peer->small.summary.what[SC_COMM_WHAT - 1] = 0;
        return world->has_failed ? SHARDC_OK
                                 : take_notice(world, rank, h, &peer->small.summary, error);
    case TCP_FAILURE:
        peer->small.failure.error.text[sizeof peer->small.failure.error.text - 1] = 0;
        sc_tcp_find_failure(world, &peer->small.failure);
        return SHARDC_OK;
    case TCP_BYE:
        peer->is_gone = true;
        pthread_cond_broadcast(&world->changed);
        return sc_tcp_send(world, rank, &(tcp_header){.kind = TCP_HEARD}, NULL, error);
    case TCP_HEARD:
        peer->has_heard = true;
        pthread_cond_broadcast(&world->changed);
        return SHARDC_OK;
    case TCP_DATA: {
        if (world->has_failed || peer->target == NULL || trailer != SC_TCP_GOOD_TRAILER)
            return SHARDC_OK;
        tcp_call *call = sc_comm_find_call(&world->calls, h->group, h->lane, h->number, false);
        call->incoming[h->phase * call->shared.request->group->size +
                       sc_comm_member(call->shared.request->group, rank)] -= h->bytes;
        call->moved_ms = sc_milliseconds();
        return sc_tcp_advance(world, call, error);
    }
    default:
        return SHARDC_OK;
    }
}

/* Handles the frames in the buffer; false: the stream is invalid. */
static bool read_frames(tcp_world *world, uint32_t rank)
{
    tcp_peer *peer = &world->peers[rank];
    for (;;) {
        size_t there = peer->end - peer->begin;
        uint32_t trailer = SC_TCP_GOOD_TRAILER;
        if (!peer->has_header) {
            if (there < sizeof peer->receiving)
                return true;
            memcpy(&peer->receiving, peer->buffer + peer->begin, sizeof peer->receiving);
            peer->begin += sizeof peer->receiving;
            there -= sizeof peer->receiving;
            if (!begin_payload(world, rank))
                return false;
            peer->has_header = true;
        }
        size_t left = peer->receiving.bytes - peer->got, some = there < left ? there : left;
        if (peer->target != NULL && some > 0)
            memcpy(peer->target + peer->got, peer->buffer + peer->begin, some);
        peer->got += some;
        peer->begin += some;
        there -= some;
        if (peer->got < peer->receiving.bytes ||
            (peer->receiving.kind == TCP_DATA && there < sizeof trailer))
            return true;
        if (peer->receiving.kind == TCP_DATA) {
            memcpy(&trailer, peer->buffer + peer->begin, sizeof trailer);
            peer->begin += sizeof trailer;
        }
        shardc_error error;
        peer->has_header = false;
        shardc_status status = end_payload(world, rank, trailer, &error);
        if (status != SHARDC_OK) {
            tcp_failure failure = {.error = error, .lost = -1};
            sc_tcp_find_failure(world, &failure);
        }
    }
}

/* Reads once, directly into the array if much of it remains. */
static ssize_t read_some(tcp_peer *peer)
{
    size_t left = peer->has_header ? peer->receiving.bytes - peer->got : 0;
    if (peer->begin == peer->end && left >= DIRECT && peer->target != NULL) {
        ssize_t got = recv(peer->socket, peer->target + peer->got, left, 0);
        peer->got += got > 0 ? (size_t)got : 0;
        return got;
    }
    memmove(peer->buffer, peer->buffer + peer->begin, peer->end - peer->begin);
    peer->end -= peer->begin;
    peer->begin = 0;
    ssize_t got = recv(peer->socket, peer->buffer + peer->end, SC_TCP_BUFFER - peer->end, 0);
    peer->end += got > 0 ? (size_t)got : 0;
    return got;
}

void sc_tcp_receive(tcp_world *world, uint32_t rank)
{
    tcp_peer *peer = &world->peers[rank];
    while (peer->socket >= 0) {
        ssize_t got = read_some(peer);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            lose(world, rank, "its connection closed: it died, or exited without a message");
            return;
        }
        peer->heard_ms = sc_milliseconds();
        if (!read_frames(world, rank))
            lose(world, rank, "it sent invalid data");
    }
}
