#include "runtime/cpu/copier.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct sc_copier {
    sc_rank *rank;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t started, finished;
    /* ring of transfers that are started and not finished. One is started again only after it was
     * waited for, so there is room for all. */
    const sc_bound **queue;
    uint32_t room;
    uint64_t *tickets;               /* by transfer: its number at its last start */
    uint64_t start_count, end_count; /* of transfers so far */
    bool is_copying;                 /* some thread makes the oldest copy */
    bool is_over;
    shardc_status status; /* of the first copy that failed */
    shardc_error error;
};

/* ---- copies ---- */

static shardc_status copy(const sc_rank *rank, const sc_bound *transfer, shardc_error *error)
{
    const sc_image_buffer *buffers = rank->image->buffers;
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i + 1 < transfer->instr->arg_count; i += 2) {
        if (status != SHARDC_OK)
            break;
        const sc_image_buffer *from = &buffers[transfer->instr->args[i].buffer],
                              *to = &buffers[transfer->instr->args[i + 1].buffer];
        int64_t at = sc_image_copy_at(from->host ? from : to, (int32_t)transfer->micro_batch);
        status = from->host ? sc_host_arena_read(&rank->host, from->offset + at,
                                                 transfer->args[i + 1], from->bytes, error)
                            : sc_host_arena_write(&rank->host, to->offset + at, transfer->args[i],
                                                  to->bytes, error);
    }
    return status;
}

/* Makes the oldest copy, without the lock, which the caller holds. */
static void copy_oldest(sc_copier *copier)
{
    const sc_bound *transfer = copier->queue[copier->end_count % copier->room];
    bool is_wanted = copier->status == SHARDC_OK;
    shardc_error error = {.status = SHARDC_OK};
    copier->is_copying = true;
    pthread_mutex_unlock(&copier->lock);
    shardc_status status = is_wanted ? copy(copier->rank, transfer, &error) : SHARDC_OK;
    pthread_mutex_lock(&copier->lock);
    copier->is_copying = false;
    if (status != SHARDC_OK) {
        copier->status = status;
        copier->error = error;
    }
    copier->end_count++;
    pthread_cond_broadcast(&copier->finished);
}

static void *run(void *argument)
{
    sc_copier *copier = argument;
    pthread_mutex_lock(&copier->lock);
    while (!copier->is_over) {
        if (copier->is_copying || copier->end_count == copier->start_count)
            pthread_cond_wait(&copier->started, &copier->lock);
        else
            copy_oldest(copier);
    }
    pthread_mutex_unlock(&copier->lock);
    return NULL;
}

void sc_copier_start(sc_copier *copier, const sc_bound *transfer)
{
    pthread_mutex_lock(&copier->lock);
    copier->queue[copier->start_count % copier->room] = transfer;
    *(uint64_t *)transfer->device = ++copier->start_count;
    pthread_cond_signal(&copier->started);
    pthread_mutex_unlock(&copier->lock);
}

/* Waits for the first `count` copies. If the thread has not woken up yet this one makes them. */
static void wait_for(sc_copier *copier, uint64_t count)
{
    while (copier->end_count < count) {
        if (copier->is_copying)
            pthread_cond_wait(&copier->finished, &copier->lock);
        else
            copy_oldest(copier);
    }
    pthread_cond_signal(&copier->started); /* it may have seen this thread copy */
}

shardc_status sc_copier_finish(sc_copier *copier, const sc_bound *transfer, shardc_error *error)
{
    pthread_mutex_lock(&copier->lock);
    wait_for(copier, *(const uint64_t *)transfer->device);
    shardc_status status = copier->status;
    if (status != SHARDC_OK)
        *error = copier->error;
    pthread_mutex_unlock(&copier->lock);
    return status;
}

void sc_copier_drain(sc_copier *copier)
{
    if (copier == NULL)
        return;
    pthread_mutex_lock(&copier->lock);
    wait_for(copier, copier->start_count);
    copier->status = SHARDC_OK;
    pthread_mutex_unlock(&copier->lock);
}

/* ---- creation and destruction ---- */

/* Gives each transfer its ticket; returns their number. `tickets` NULL: only counts. */
static uint32_t give_tickets(const sc_rank *rank, uint64_t *tickets)
{
    const sc_image *image = rank->image;
    uint32_t count = 0;
    for (uint32_t f = 0; f < image->func_count; f++) {
        for (uint32_t i = 0; i < image->funcs[f].instr_count; i++) {
            if (image->funcs[f].instrs[i].kind != SC_INSTR_TRANSFER)
                continue;
            if (tickets != NULL)
                rank->funcs[f][i].device = &tickets[count];
            count++;
        }
    }
    return count;
}

shardc_status sc_copier_new(sc_rank *rank, sc_copier **out, shardc_error *error)
{
    uint32_t count = give_tickets(rank, NULL);
    *out = NULL;
    if (count == 0)
        return SHARDC_OK;
    sc_copier *copier = calloc(1, sizeof *copier);
    const sc_bound **queue = calloc(count, sizeof *queue);
    uint64_t *tickets = calloc(count, sizeof *tickets);
    int reason = 0;
    if (copier != NULL && queue != NULL && tickets != NULL) {
        *copier = (sc_copier){.rank = rank,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .started = PTHREAD_COND_INITIALIZER,
                              .finished = PTHREAD_COND_INITIALIZER,
                              .queue = queue,
                              .room = count,
                              .tickets = tickets};
        give_tickets(rank, tickets);
        reason = pthread_create(&copier->thread, NULL, run, copier);
        *out = reason == 0 ? copier : NULL;
    }
    if (*out != NULL)
        return SHARDC_OK;
    free(tickets);
    free(queue);
    free(copier);
    return reason != 0
               ? sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                         "cannot start the thread that copies host memory for rank %u: %s",
                         rank->rank, strerror(reason))
               : sc_fail(error, SHARDC_ERROR_MEMORY,
                         "there is not enough memory for the copies of rank %u", rank->rank);
}

void sc_copier_free(sc_copier *copier)
{
    if (copier == NULL)
        return;
    pthread_mutex_lock(&copier->lock);
    copier->is_over = true;
    pthread_cond_signal(&copier->started);
    pthread_mutex_unlock(&copier->lock);
    pthread_join(copier->thread, NULL);
    pthread_cond_destroy(&copier->finished);
    pthread_cond_destroy(&copier->started);
    pthread_mutex_destroy(&copier->lock);
    free(copier->tickets);
    free(copier->queue);
    free(copier);
}
