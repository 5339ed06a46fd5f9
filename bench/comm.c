/* How fast ranks talk to each other, against memcpy on all of them at the same time: comm [RANKS]
 * for threads, mpirun -n RANKS comm mpi for processes. Counted are the bytes that must be read and
 * written at least: all_reduce of b bytes on n ranks reads and writes n b, all_gather reads b and
 * writes n b, reduce_scatter reads n b and writes b; memcpy of b reads and writes b. Of buffers
 * that fit into no cache the goal between threads is a ratio of 1; smaller ones stay in each core's
 * own cache under memcpy, and must go from core to core between ranks. Then what a call costs that
 * moves nothing. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/comm/comm.h"

enum { MOST_RANKS = 64, MOST_BYTES = 128 << 20, REPEATS = 5, CALLS = 2000 };

typedef struct bench {
    sc_comm *comm;
    char *source, *destination;
    size_t bytes;
    sc_comm_kind kind; /* SC_COMM_KINDS: memcpy */
    double seconds;    /* the best, of the slowest rank: known to rank 0 */
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(shardc_status status, const shardc_error *error)
{
    if (status == SHARDC_OK)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

static void run_once(bench *b)
{
    shardc_error error;
    if (b->kind == SC_COMM_KINDS) {
        memcpy(b->destination, b->source, b->bytes);
        return;
    }
    bool reduces = b->kind == SC_COMM_ALL_REDUCE || b->kind == SC_COMM_REDUCE_SCATTER;
    sc_comm_part part = {.source = b->source,
                         .destination = b->destination,
                         .count = (int64_t)b->bytes / 4,
                         .dtype = SC_DTYPE_f32};
    sc_comm_call call = {.kind = b->kind,
                         .reduce = reduces ? SC_COMM_SUM : SC_COMM_NONE,
                         .part_count = b->kind != SC_COMM_BARRIER,
                         .parts = &part};
    check(sc_comm_run(sc_comm_world(b->comm), &call, &error), &error);
}

/* Each repeat between barriers: the time is that of all ranks. */
static void *rank_main(void *user)
{
    bench *b = user;
    shardc_error error;
    int calls =
        b->kind == SC_COMM_BARRIER || b->bytes < 65536 ? CALLS : 1 + (int)((64u << 20) / b->bytes);
    run_once(b);
    b->seconds = 1e9;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        check(sc_comm_barrier(sc_comm_world(b->comm), &error), &error);
        double start = now();
        for (int i = 0; i < calls; i++)
            run_once(b);
        check(sc_comm_barrier(sc_comm_world(b->comm), &error), &error);
        double seconds = (now() - start) / calls;
        b->seconds = seconds < b->seconds ? seconds : b->seconds;
    }
    return NULL;
}

/* `threads`: ranks in this process, one of which it is under MPI. */
static double time_of(bench *ranks, uint32_t threads, sc_comm_kind kind, size_t bytes)
{
    pthread_t others[MOST_RANKS];
    for (uint32_t i = 0; i < threads; i++) {
        ranks[i].kind = kind;
        ranks[i].bytes = bytes;
        if (i > 0 && pthread_create(&others[i], NULL, rank_main, &ranks[i]) != 0)
            exit(1);
    }
    rank_main(&ranks[0]);
    for (uint32_t i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
    return ranks[0].seconds;
}

static void measure(bench *ranks, uint32_t threads, size_t size)
{
    static const sc_comm_kind kinds[] = {SC_COMM_ALL_REDUCE, SC_COMM_ALL_GATHER,
                                         SC_COMM_REDUCE_SCATTER};
    uint32_t n = sc_comm_size(ranks[0].comm);
    bool prints = sc_comm_rank(ranks[0].comm) == 0;
    size_t bytes = size / 4 / n * 4 * n;
    double b = (double)bytes, copy_rate = 2 * n * b / time_of(ranks, threads, SC_COMM_KINDS, bytes);
    if (prints)
        printf("%9.0f bytes, %u ranks: memcpy on all at once       %6.1f GB/s\n", b, n,
               1e-9 * copy_rate);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        double seconds = time_of(ranks, threads, kinds[k], bytes),
               touched = (kinds[k] == SC_COMM_ALL_REDUCE ? 2 * n : n + 1) * b;
        if (prints)
            printf("%9.0f bytes, %u ranks: %-14s %9.1f us  %6.1f GB/s  %4.2f of memcpy\n", b, n,
                   sc_comm_kind_names[kinds[k]], 1e6 * seconds, 1e-9 * touched / seconds,
                   touched / seconds / copy_rate);
    }
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64 << 10, 1 << 20, 16 << 20, MOST_BYTES};
    bool is_mpi = argc > 1 && strcmp(argv[1], "mpi") == 0;
    uint32_t threads = is_mpi ? 1 : argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2;
    static bench ranks[MOST_RANKS];
    sc_comm *comms[MOST_RANKS];
    shardc_error error;
    if (threads < 1 || threads > MOST_RANKS)
        return 2;
    check(is_mpi ? sc_comm_open_mpi(NULL, comms, &error)
                 : sc_comm_open_local(threads, NULL, comms, &error),
          &error);
    for (uint32_t i = 0; i < threads; i++) {
        ranks[i] = (bench){
            .comm = comms[i], .source = malloc(MOST_BYTES), .destination = malloc(MOST_BYTES)};
        if (ranks[i].source == NULL || ranks[i].destination == NULL)
            return 1;
        memset(ranks[i].source, 0, MOST_BYTES);
        memset(ranks[i].destination, 0, MOST_BYTES);
    }
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        measure(ranks, threads, sizes[s]);
    double barrier = time_of(ranks, threads, SC_COMM_BARRIER, 0),
           reduce = time_of(ranks, threads, SC_COMM_ALL_REDUCE, 4);
    if (sc_comm_rank(comms[0]) == 0)
        printf("a barrier %.1f us, an all_reduce of 4 bytes %.1f us\n", 1e6 * barrier,
               1e6 * reduce);
    for (uint32_t i = 0; i < threads; i++) {
        sc_comm_close(comms[i]);
        free(ranks[i].source);
        free(ranks[i].destination);
    }
    return 0;
}
