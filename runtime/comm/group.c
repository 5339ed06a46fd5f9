/* Creates and frees communicators and groups, for every backend. */
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/backend.h"

static void free_group(sc_comm_group *group)
{
    free(group->ranks);
    free(group->next_send);
    free(group->next_recv);
    free(group);
}

static sc_comm_group *new_group(sc_comm *comm, const uint32_t *ranks, uint32_t count)
{
    sc_comm_group *group = calloc(1, sizeof *group);
    if (group == NULL)
        return NULL;
    group->comm = comm;
    group->size = count;
    group->ranks = calloc(count, sizeof *group->ranks);
    group->next_send = calloc(count, sizeof *group->next_send);
    group->next_recv = calloc(count, sizeof *group->next_recv);
    if (group->ranks == NULL || group->next_send == NULL || group->next_recv == NULL) {
        free_group(group);
        return NULL;
    }
    memcpy(group->ranks, ranks, count * sizeof *ranks);
    for (const sc_comm_group *g = comm->groups; g != NULL; g = g->next)
        group->ordinal += g->size == count && memcmp(g->ranks, ranks, count * sizeof *ranks) == 0;
    return group;
}

/* Checks the list and finds this rank in it; `seen` has one flag per rank of the world. */
static shardc_status check_ranks(const sc_comm *comm, const uint32_t *ranks, uint32_t count,
                                 bool *seen, uint32_t *out_rank, shardc_error *error)
{
    bool has_self = false;
    for (uint32_t i = 0; i < count; i++) {
        if (ranks[i] >= comm->size)
            return sc_fail(error, SHARDC_ERROR_ARGUMENT,
                           "a group has rank %u, the world has %u ranks", ranks[i], comm->size);
        if (seen[ranks[i]])
            return sc_fail(error, SHARDC_ERROR_ARGUMENT, "a group has rank %u twice", ranks[i]);
        seen[ranks[i]] = true;
        if (ranks[i] == comm->rank) {
            *out_rank = i;
            has_self = true;
        }
    }
    return has_self ? SHARDC_OK
                    : sc_fail(error, SHARDC_ERROR_ARGUMENT,
                              "rank %u makes a group that it is not in", comm->rank);
}

shardc_status sc_comm_group_new(sc_comm *comm, const uint32_t *ranks, uint32_t count,
                                sc_comm_group **out, shardc_error *error)
{
    uint32_t rank = 0;
    bool *seen = calloc(comm->size, sizeof *seen);
    shardc_status status =
        seen != NULL ? check_ranks(comm, ranks, count, seen, &rank, error) : SHARDC_OK;
    sc_comm_group *group =
        seen != NULL && status == SHARDC_OK ? new_group(comm, ranks, count) : NULL;
    free(seen);
    if (status != SHARDC_OK)
        return status;
    if (group == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "a group of %u ranks: out of memory", count);
    group->rank = rank;
    status = comm->backend->group_open(group, error);
    if (status != SHARDC_OK) {
        free_group(group);
        return status;
    }
    group->next = comm->groups;
    comm->groups = group;
    *out = group;
    return SHARDC_OK;
}

/* Frees the handle only: does not leave the world or free the backend's state. */
static void free_comm(sc_comm *comm)
{
    while (comm->groups != NULL) {
        sc_comm_group *group = comm->groups;
        comm->groups = group->next;
        comm->backend->group_close(group);
        free_group(group);
    }
    while (comm->unused != NULL) {
        sc_comm_request *request = comm->unused;
        comm->unused = request->next;
        free(request->parts);
        free(request);
    }
    pthread_mutex_destroy(&comm->lock);
}

sc_comm *sc_comm_new(const sc_comm_backend *backend, uint32_t rank, uint32_t size,
                     const sc_comm_options *options, void *state, shardc_error *error)
{
    sc_comm *comm = calloc(1, sizeof *comm);
    uint32_t *ranks = calloc(size, sizeof *ranks);
    bool is_ready = comm != NULL && ranks != NULL && pthread_mutex_init(&comm->lock, NULL) == 0;
    if (!is_ready) {
        free(comm);
        free(ranks);
        sc_fail(error, SHARDC_ERROR_MEMORY, "a communicator of %u ranks: out of memory", size);
        return NULL;
    }
    comm->backend = backend;
    comm->rank = rank;
    comm->size = size;
    comm->state = state;
    atomic_init(&comm->deadline_ms, options == NULL ? 0 : options->deadline_ms);
    for (uint32_t i = 0; i < size; i++)
        ranks[i] = i;
    shardc_status status = sc_comm_group_new(comm, ranks, size, &comm->world, error);
    free(ranks);
    if (status == SHARDC_OK)
        return comm;
    free_comm(comm);
    free(comm);
    return NULL;
}

void sc_comm_close(sc_comm *comm)
{
    if (comm == NULL)
        return;
    if (comm->in_flight != NULL)
        sc_comm_abort(comm, "it closed its communicator with calls in flight");
    while (comm->in_flight != NULL)
        sc_comm_wait(comm->in_flight, NULL);
    comm->backend->leave(comm);
    free_comm(comm);
    comm->backend->close(comm);
    free(comm);
}
