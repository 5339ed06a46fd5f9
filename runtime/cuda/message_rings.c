/* Messages between pipeline stages: the rings of boundaries, and names. */
#include "runtime/cuda/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/lookup.h"
#include "runtime/comm/backend.h"

/* ---- names ---- */

sc_cuda_boundary *sc_cuda_boundary_of(const sc_rank *rank, uint32_t boundary)
{
    return &((const sc_cuda_rank *)rank->device_state)->messages->boundaries[boundary];
}

sc_cu_stream sc_cuda_boundary_stream(const sc_rank *rank, uint32_t boundary)
{
    return sc_cuda_boundary_of(rank, boundary)->stream;
}

uint32_t sc_cuda_other_end(const sc_image *image, uint32_t boundary, const sc_image *peer)
{
    const sc_image_boundary *of = &image->boundaries[boundary];
    uint32_t i = 0;
    while (i < peer->boundary_count && (peer->boundaries[i].is_receive == of->is_receive ||
                                        peer->boundaries[i].peer != image->pipeline.stage ||
                                        peer->boundaries[i].number != of->number))
        i++;
    return i; /* sc_program_check: there is one */
}

void sc_cuda_boundary_name(const sc_image *image, uint32_t boundary, char *out, size_t size)
{
    const sc_image_boundary *of = &image->boundaries[boundary];
    uint32_t stage = image->pipeline.stage;
    int length = snprintf(out, size, "the boundary from stage %u to stage %u",
                          of->is_receive ? of->peer : stage, of->is_receive ? stage : of->peer);
    if (of->number > 0) /* the first of several is as good as the only one */
        snprintf(out + length, size - (size_t)length, ", number %u", of->number);
}

void sc_cuda_message_describe(const sc_rank *rank, uint32_t boundary,
                              const sc_cuda_message *message, char *out, size_t size)
{
    char name[SC_CUDA_BOUNDARY_NAME];
    sc_cuda_boundary_name(rank->image, boundary, name, sizeof name);
    sc_comm_describe(rank->boundaries[boundary].group, &message->call, out, size);
    size_t length = strlen(out);
    snprintf(out + length, size - length, ", message %llu of %s",
             (unsigned long long)message->number, name);
}

shardc_status sc_cuda_message_awaited(const sc_rank *rank, const sc_cuda_message **out,
                                      uint32_t *out_boundary, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    uint32_t count = own->messages == NULL ? 0 : own->messages->count;
    *out = NULL;
    for (uint32_t b = 0; b < count; b++) {
        const sc_cuda_boundary *end = sc_cuda_boundary_of(rank, b);
        for (uint32_t i = 0; i < end->room; i++) {
            const sc_cuda_message *m = &end->ring[i];
            bool is_done = true;
            shardc_status status = SHARDC_OK;
            if (m->order != 0 && (*out == NULL || m->order < (*out)->order))
                status = sc_cuda_is_done(&own->session->api, m->done, &is_done, error);
            if (status != SHARDC_OK)
                return status;
            if (!is_done) {
                *out = m;
                *out_boundary = b;
            }
        }
    }
    return SHARDC_OK;
}

/* ---- opening and closing ---- */

/* Forgets all messages. Their requests went with the communicator, or were waited for. */
static void forget(struct sc_cuda_messages *all)
{
    for (uint32_t b = 0; b < all->count; b++) {
        sc_cuda_boundary *end = &all->boundaries[b];
        end->started = end->waited = 0;
    }
    for (uint64_t m = 0; m < all->message_count; m++) {
        all->messages[m].order = 0;
        all->messages[m].request = NULL;
    }
}

/* Other ranks find no message here any more. */
static void withdraw(const sc_cuda_rank *own)
{
    pthread_mutex_lock(&own->session->messages);
    for (uint32_t b = 0; b < own->messages->count; b++)
        own->messages->boundaries[b].posted = 0;
    pthread_mutex_unlock(&own->session->messages);
}

static shardc_status lacks_memory(const sc_rank *rank, shardc_error *error)
{
    return sc_fail(error, SHARDC_ERROR_MEMORY,
                   "there is not enough memory for the messages of rank %u", rank->rank);
}

/* Allocates the rings: two numbers of entries a boundary, slots and parts. */
static shardc_status allocate(const sc_rank *rank, struct sc_cuda_messages *all,
                              shardc_error *error)
{
    const sc_image *image = rank->image;
    uint64_t parts = 0, at = 0, part_at = 0;
    all->boundaries = calloc(image->boundary_count + 1u, sizeof *all->boundaries);
    if (all->boundaries == NULL)
        return lacks_memory(rank, error);
    all->count = image->boundary_count;
    for (uint32_t b = 0; b < all->count; b++) {
        all->boundaries[b].room = image->boundaries[b].slots + 1;
        all->message_count += all->boundaries[b].room;
        parts += (uint64_t)all->boundaries[b].room * sc_image_most_parts(image, b);
    }
    all->messages = calloc(all->message_count + 1, sizeof *all->messages);
    all->parts = calloc(parts + 1, sizeof *all->parts);
    if (all->messages == NULL || all->parts == NULL) {
        all->message_count = 0;
        return lacks_memory(rank, error);
    }
    for (uint32_t b = 0; b < all->count; b++) {
        sc_cuda_boundary *end = &all->boundaries[b];
        uint32_t most = sc_image_most_parts(image, b);
        end->ring = &all->messages[at];
        at += end->room;
        for (uint32_t i = 0; i < end->room; i++, part_at += most)
            end->ring[i].parts = &all->parts[part_at];
    }
    return SHARDC_OK;
}

/* Finds the other ends, where they are in this process. */
static void find_peers(const sc_rank *rank, struct sc_cuda_messages *all)
{
    const shardc_session *session = rank->session;
    if (session->rank_count < rank->image->ranks)
        return;
    for (uint32_t b = 0; b < all->count; b++) {
        uint64_t peer =
            sc_image_stage_peer(rank->image, rank->rank, rank->image->boundaries[b].peer);
        all->boundaries[b].peer = &session->ranks[peer];
        all->boundaries[b].peer_boundary =
            sc_cuda_other_end(rank->image, b, session->ranks[peer].image);
    }
}

static shardc_status create(const sc_rank *rank, const struct sc_cuda_messages *all,
                            shardc_error *error)
{
    const sc_cuda *api = &((const sc_cuda_rank *)rank->device_state)->session->api;
    shardc_status status = SHARDC_OK;
    for (uint32_t b = 0; b < all->count; b++) {
        if (status != SHARDC_OK)
            break;
        status = SC_CUDA(api, error, "", cuStreamCreate, &all->boundaries[b].stream,
                         SC_CU_STREAM_NON_BLOCKING);
    }
    for (uint64_t m = 0; m < 3 * all->message_count; m++) {
        sc_cuda_message *message = &all->messages[m / 3];
        sc_cu_event *events[] = {&message->ready, &message->reached, &message->done};
        if (status != SHARDC_OK)
            break;
        status = SC_CUDA(api, error, "", cuEventCreate, events[m % 3], SC_CU_EVENT_NO_TIMING);
    }
    return status;
}

shardc_status sc_cuda_messages_open(sc_rank *rank, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    if (rank->image->boundary_count == 0)
        return SHARDC_OK;
    if (own->messages != NULL) {
        withdraw(own);
        forget(own->messages);
        return SHARDC_OK;
    }
    own->messages = calloc(1, sizeof *own->messages);
    if (own->messages == NULL)
        return lacks_memory(rank, error);
    shardc_status status = allocate(rank, own->messages, error);
    if (status == SHARDC_OK)
        find_peers(rank, own->messages);
    return status == SHARDC_OK ? create(rank, own->messages, error) : status;
}

void sc_cuda_messages_close(sc_rank *rank)
{
    sc_cuda_rank *own = rank->device_state;
    struct sc_cuda_messages *all = own->messages;
    const sc_cuda *api = &own->session->api;
    if (all == NULL)
        return;
    for (uint64_t m = 0; m < all->message_count; m++) {
        const sc_cuda_message *message = &all->messages[m];
        const sc_cu_event events[] = {message->ready, message->reached, message->done};
        for (int e = 0; e < 3; e++) {
            if (events[e] != NULL)
                api->cuEventDestroy_v2(events[e]);
        }
    }
    for (uint32_t b = 0; b < all->count; b++) {
        if (all->boundaries[b].stream != NULL)
            api->cuStreamDestroy_v2(all->boundaries[b].stream);
    }
    free(all->parts);
    free(all->messages);
    free(all->boundaries);
    free(all);
    own->messages = NULL;
}

void sc_cuda_messages_abandon(sc_rank *rank)
{
    const sc_cuda_rank *own = rank->device_state;
    const struct sc_cuda_messages *all = own->messages;
    if (all == NULL)
        return;
    withdraw(own);
    for (uint32_t b = 0; b < all->count; b++)
        own->session->api.cuStreamSynchronize(all->boundaries[b].stream);
    for (uint64_t m = 0; m < all->message_count; m++) {
        shardc_error ignored = {.status = SHARDC_OK};
        if (all->messages[m].request != NULL)
            sc_comm_wait(all->messages[m].request, &ignored);
    }
    forget(own->messages);
}
