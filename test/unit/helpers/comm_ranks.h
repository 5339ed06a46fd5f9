/* Runs a test on the ranks of a world: threads, or this process as one of an MPI job or of those
 * that found each other over TCP. After cmocka.h and comm_case.h. */
#ifndef SHARDC_TEST_COMM_RANKS_H
#define SHARDC_TEST_COMM_RANKS_H

#include <pthread.h>
#include <time.h>

enum { MOST_RANKS = 7 };

/* Of processes: this one's first world, which keeps MPI running until the end. NULL: threads. */
static sc_comm *process_world;

/* Another one, of the same kind; the first of them says which. */
static inline shardc_status open_process(const sc_comm_options *options, sc_comm **out,
                                         shardc_error *error)
{
    bool is_tcp = strcmp(sc_comm_backend_name(process_world), "tcp") == 0;
    return is_tcp ? sc_comm_open_tcp(NULL, options, out, error)
                  : sc_comm_open_mpi(options, out, error);
}

/* What a test does on each rank. A failed check is a text in `wrong`; assertions of cmocka are for
 * the main thread. */
typedef struct rank_state {
    sc_comm *comm;
    void (*body)(struct rank_state *r);
    uint64_t seed;
    void *kept; /* freed when the communicator is closed */
    char wrong[1024];
} rank_state;

#define CHECK(r, condition, ...)                                                                   \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            if ((r)->wrong[0] == 0) {                                                              \
                int at = snprintf((r)->wrong, sizeof(r)->wrong,                                    \
                                  "rank %u, line %d: ", sc_comm_rank((r)->comm), __LINE__);        \
                snprintf((r)->wrong + at, sizeof(r)->wrong - (size_t)at, __VA_ARGS__);             \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
    } while (0)

static inline void *rank_main(void *user)
{
    rank_state *r = user;
    r->body(r);
    if (r->wrong[0] != 0) /* the others may wait for this one */
        sc_comm_abort(r->comm, r->wrong);
    sc_comm_close(r->comm);
    free(r->kept);
    return NULL;
}

static inline void run_threads(uint32_t size, void (*body)(rank_state *r), uint64_t seed,
                               uint32_t deadline_ms)
{
    sc_comm *comms[CASE_RANKS];
    pthread_t threads[CASE_RANKS];
    static rank_state states[CASE_RANKS];
    shardc_error error;
    if (sc_comm_open_local(size, &(sc_comm_options){.deadline_ms = deadline_ms}, comms, &error) !=
        SHARDC_OK)
        fail_msg("%s", error.text);
    for (uint32_t i = 0; i < size; i++) {
        states[i] = (rank_state){.comm = comms[i], .body = body, .seed = seed};
        assert_int_equal(pthread_create(&threads[i], NULL, rank_main, &states[i]), 0);
    }
    for (uint32_t i = 0; i < size; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (uint32_t i = 0; i < size; i++) {
        if (states[i].wrong[0] != 0)
            print_error("%u ranks: %s\n", size, states[i].wrong);
    }
    for (uint32_t i = 0; i < size; i++)
        assert_int_equal(states[i].wrong[0], 0);
}

static inline void run_process(void (*body)(rank_state *r), uint64_t seed, uint32_t deadline_ms)
{
    static rank_state state;
    shardc_error error;
    state = (rank_state){.body = body, .seed = seed};
    if (open_process(&(sc_comm_options){.deadline_ms = deadline_ms}, &state.comm, &error) !=
        SHARDC_OK)
        fail_msg("%s", error.text);
    rank_main(&state);
    /* all fail where one does: they have to run the same tests */
    int32_t failures = state.wrong[0] != 0;
    sc_comm_part part = {
        .source = &failures, .destination = &failures, .count = 1, .dtype = SC_DTYPE_i32};
    sc_comm_call call = {
        .kind = SC_COMM_ALL_REDUCE, .reduce = SC_COMM_SUM, .part_count = 1, .parts = &part};
    if (sc_comm_run(sc_comm_world(process_world), &call, &error) != SHARDC_OK)
        fail_msg("%s", error.text);
    if (failures > 0)
        fail_msg("%s", state.wrong[0] != 0 ? state.wrong : "another rank");
}

/* On worlds of all sizes from `least` on. */
static inline void run_all(uint32_t least, void (*body)(rank_state *r), uint64_t seed,
                           uint32_t deadline_ms)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, MOST_RANKS};
    if (process_world != NULL) {
        if (sc_comm_size(process_world) >= least)
            run_process(body, seed, deadline_ms);
        return;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] >= least)
            run_threads(sizes[i], body, seed + i, deadline_ms);
    }
}

/* What takes seconds: in one world of threads, of three ranks. */
static inline void run_slow(void (*body)(rank_state *r), uint32_t deadline_ms)
{
    if (process_world == NULL)
        run_threads(3, body, 0, deadline_ms);
    else if (sc_comm_size(process_world) > 1)
        run_process(body, 0, deadline_ms);
}

static inline void sleep_ms(uint32_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000},
              NULL);
}

static inline double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

#endif
