/* Ranks in a ring: each holds a block of numbers, the blocks go once around, and every rank has
 * then seen them all; while a block is under way, the rank works on the one that it has. At the end
 * all ranks compare what they have found.
 *
 *     comm_ring [RANKS]             ranks as threads of this process, 4 unless said otherwise
 *     mpirun -n 4 comm_ring mpi     ranks as processes of an MPI job
 *     torchrun --nproc-per-node 4 --no-python comm_ring tcp     ranks as processes without MPI
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shardc/comm.h"

enum { BLOCK = 1000, MOST_RANKS = 64, DEADLINE_MS = 60000 };

/* A rank, and all memory that takes part in calls: should one fail under MPI, it stays until the
 * communicator is closed. */
typedef struct ring_rank {
    shardc_comm *comm;
    shardc_error error; /* status SHARDC_OK when all went well */
    double blocks[2][BLOCK], sum, least, most;
} ring_rank;

/* The sum of the squares of all ranks' numbers, of which each rank sees only its own and what comes
 * by. */
static shardc_status go_around(ring_rank *r)
{
    uint32_t rank = shardc_comm_rank(r->comm), size = shardc_comm_size(r->comm);
    for (uint32_t i = 0; i < BLOCK; i++)
        r->blocks[0][i] = rank * BLOCK + i;
    for (uint32_t step = 0; step < size; step++) {
        double *here = r->blocks[step % 2], *next = r->blocks[1 - step % 2];
        shardc_comm_part part = {
            .source = here, .destination = next, .count = BLOCK, .dtype = SHARDC_F64};
        shardc_comm_call call = {.kind = SHARDC_PERMUTE,
                                 .part_count = 1,
                                 .parts = &part,
                                 .to = (int32_t)((rank + 1) % size),
                                 .from = (int32_t)((rank + size - 1) % size),
                                 .what = "block of the ring"};
        shardc_comm_request *request;
        shardc_status status =
            shardc_comm_start(shardc_comm_world(r->comm), &call, &request, &r->error);
        if (status != SHARDC_OK)
            return status;
        for (uint32_t i = 0; i < BLOCK; i++) /* reads what is being sent: that is allowed */
            r->sum += here[i] * here[i];
        status = shardc_comm_wait(request, &r->error);
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}

/* Whether all ranks have the same sum: the least is the largest, and what it must be. */
static shardc_status compare(ring_rank *r)
{
    shardc_comm_group *world = shardc_comm_world(r->comm);
    double n = (double)shardc_comm_size(r->comm) * BLOCK, wanted = (n - 1) * n * (2 * n - 1) / 6;
    shardc_comm_part least = {.source = &r->sum,
                              .destination = &r->least,
                              .count = 1,
                              .dtype = SHARDC_F64},
                     most = least;
    most.destination = &r->most;
    shardc_comm_call call = {
        .kind = SHARDC_ALL_REDUCE, .reduce = SHARDC_MIN, .part_count = 1, .parts = &least};
    shardc_status status = shardc_comm_run(world, &call, &r->error);
    if (status != SHARDC_OK)
        return status;
    call.reduce = SHARDC_MAX;
    call.parts = &most;
    status = shardc_comm_run(world, &call, &r->error);
    if (status != SHARDC_OK || (r->least == wanted && r->most == wanted))
        return status;
    r->error.status = SHARDC_ERROR_DATA;
    snprintf(r->error.text, sizeof r->error.text, "the sums are %.17g to %.17g, not %.17g",
             r->least, r->most, wanted);
    return SHARDC_ERROR_DATA;
}

static void *rank_main(void *user)
{
    ring_rank *r = user;
    shardc_status status = go_around(r);
    if (status == SHARDC_OK)
        status = compare(r);
    if (status != SHARDC_OK)
        shardc_comm_abort(r->comm, r->error.text); /* or the others would wait */
    if (status == SHARDC_OK && shardc_comm_rank(r->comm) == 0) {
        uint32_t size = shardc_comm_size(r->comm);
        shardc_comm_counter counter = shardc_comm_count(r->comm, SHARDC_PERMUTE);
        printf("%u ranks (%s): the squares of 0 to %u have the sum %.0f\n", size,
               shardc_comm_backend(r->comm), size * BLOCK - 1, r->sum);
        printf("each rank sent %u blocks, %.0f bytes\n", (unsigned)counter.calls, counter.sent);
    }
    shardc_comm_close(r->comm);
    return NULL;
}

static int run_threads(uint32_t size)
{
    static ring_rank ranks[MOST_RANKS];
    shardc_comm *comms[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    shardc_error error;
    int failures = 0;
    if (size > MOST_RANKS ||
        shardc_comm_open_local(size, DEADLINE_MS, comms, &error) != SHARDC_OK) {
        fprintf(stderr, "%s\n", size > MOST_RANKS ? "too many ranks for an example" : error.text);
        return 1;
    }
    for (uint32_t i = 0; i < size; i++) {
        ranks[i].comm = comms[i];
        if (pthread_create(&threads[i], NULL, rank_main, &ranks[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < size; i++) {
        pthread_join(threads[i], NULL);
        if (ranks[i].error.status != SHARDC_OK)
            fprintf(stderr, "rank %u: %s\n", i, ranks[i].error.text);
        failures += ranks[i].error.status != SHARDC_OK;
    }
    return failures > 0;
}

static int run_process(bool by_mpi)
{
    static ring_rank r;
    shardc_status opened = by_mpi ? shardc_comm_open_mpi(DEADLINE_MS, &r.comm, &r.error)
                                  : shardc_comm_open_tcp(DEADLINE_MS, &r.comm, &r.error);
    if (opened == SHARDC_OK)
        rank_main(&r);
    if (r.error.status != SHARDC_OK)
        fprintf(stderr, "%s\n", r.error.text);
    return r.error.status != SHARDC_OK;
}

int main(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "mpi") == 0 || strcmp(argv[1], "tcp") == 0))
        return run_process(strcmp(argv[1], "mpi") == 0);
    return run_threads(argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 4);
}
