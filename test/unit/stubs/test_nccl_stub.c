/* The stub of NCCL itself (test/cuda_stub/nccl), against plain C: what is compared with it is only
 * as right as it is. Ranks are threads with a GPU each. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>

#include "runtime/cuda/libnccl.h"
#include "test/unit/helpers/cuda_case.h"

enum { MOST_RANKS = 5, COUNT = 7, DTYPES = 7 };

static sc_cuda cuda;
static sc_nccl nccl;
static cuda_stub stub;

/* ---- elements: small integers, which every dtype has ---- */

static const struct {
    sc_nccl_dtype dtype;
    size_t bytes;
} dtypes[DTYPES] = {{SC_NCCL_U8, 1},   {SC_NCCL_I32, 4}, {SC_NCCL_I64, 8}, {SC_NCCL_F16, 2},
                    {SC_NCCL_BF16, 2}, {SC_NCCL_F32, 4}, {SC_NCCL_F64, 8}};

/* 1.f * 2^e with so many bits of fraction, the exponent with that bias. */
static uint16_t encode_half(double value, int fraction, int bias)
{
    int exponent;
    double mantissa = frexp(fabs(value), &exponent);
    uint16_t sign = value < 0 ? 0x8000 : 0;
    if (value == 0)
        return 0;
    return (uint16_t)(sign | ((exponent - 1 + bias) << fraction) |
                      ((int)ldexp(mantissa, fraction + 1) & ((1 << fraction) - 1)));
}

static void encode(int d, void *at, double value)
{
    const uint8_t u = (uint8_t)value;
    const int32_t i = (int32_t)value;
    const int64_t l = (int64_t)value;
    const float f = (float)value;
    const uint16_t h = encode_half(value, 10, 15), b = encode_half(value, 7, 127);
    const void *const all[DTYPES] = {&u, &i, &l, &h, &b, &f, &value};
    memcpy(at, all[d], dtypes[d].bytes);
}

/* Of rank r: 0 to 4. Sums of five of them are below 256, and exact in bf16. */
static double value_of(int r, size_t i)
{
    return (double)((i * 5 + (size_t)r * 3) % 7 % 5);
}

/* ---- ranks ---- */

typedef struct world world;
typedef void rank_work(world *w, int rank, sc_cu_stream stream);

struct world {
    int size;
    sc_nccl_id id;
    rank_work *work;
    pthread_barrier_t barrier;
    const char *wrong; /* of any rank */
    int dtype;
};

typedef struct rank_thread {
    world *w;
    int rank;
} rank_thread;

#define EXPECT(w, condition)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            (w)->wrong = #condition;                                                               \
    } while (0)

static void *rank_main(void *user)
{
    const rank_thread *t = user;
    sc_cu_context context;
    sc_cu_stream stream;
    EXPECT(t->w, cuda.cuDevicePrimaryCtxRetain(&context, t->rank) == SC_CU_SUCCESS &&
                     cuda.cuCtxSetCurrent(context) == SC_CU_SUCCESS);
    EXPECT(t->w, cuda.cuStreamCreate(&stream, SC_CU_STREAM_NON_BLOCKING) == SC_CU_SUCCESS);
    t->w->work(t->w, t->rank, stream);
    cuda.cuStreamDestroy_v2(stream);
    cuda.cuDevicePrimaryCtxRelease_v2(t->rank);
    return NULL;
}

static void run_ranks(int size, int dtype, rank_work *work)
{
    char text[256];
    world w = {.size = size, .work = work, .dtype = dtype};
    rank_thread ranks[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    assert_int_equal(nccl.ncclGetUniqueId(&w.id), SC_NCCL_SUCCESS);
    pthread_barrier_init(&w.barrier, NULL, (unsigned)size);
    for (int r = 0; r < size; r++) {
        ranks[r] = (rank_thread){&w, r};
        assert_int_equal(pthread_create(&threads[r], NULL, rank_main, &ranks[r]), 0);
    }
    for (int r = 0; r < size; r++)
        pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&w.barrier);
    if (w.wrong != NULL)
        fail_msg("%d ranks, dtype %d: not so: %s", size, dtype, w.wrong);
    if (stub.sc_stub_live(text, sizeof text) != 0)
        fail_msg("left: %s", text);
}

static sc_nccl_result settle(sc_nccl_comm comm)
{
    sc_nccl_result state = SC_NCCL_IN_PROGRESS;
    while (state == SC_NCCL_IN_PROGRESS &&
           nccl.ncclCommGetAsyncError(comm, &state) == SC_NCCL_SUCCESS)
        sched_yield();
    return state;
}

static sc_nccl_comm join(world *w, int rank, bool is_blocking)
{
    sc_nccl_config config = SC_NCCL_CONFIG;
    sc_nccl_comm comm = NULL;
    config.blocking = is_blocking;
    sc_nccl_result result = nccl.ncclCommInitRankConfig(&comm, w->size, w->id, rank, &config);
    EXPECT(w, result == (is_blocking ? SC_NCCL_SUCCESS : SC_NCCL_IN_PROGRESS));
    EXPECT(w, settle(comm) == SC_NCCL_SUCCESS);
    return comm;
}

static void leave(world *w, sc_nccl_comm comm)
{
    sc_nccl_result result = nccl.ncclCommFinalize(comm);
    EXPECT(w, result == SC_NCCL_SUCCESS || result == SC_NCCL_IN_PROGRESS);
    EXPECT(w, settle(comm) == SC_NCCL_SUCCESS);
    EXPECT(w, nccl.ncclCommDestroy(comm) == SC_NCCL_SUCCESS);
}

static sc_cu_address device_memory(world *w, size_t bytes)
{
    sc_cu_address at = 0;
    EXPECT(w, cuda.cuMemAlloc_v2(&at, bytes) == SC_CU_SUCCESS);
    return at;
}

#define AT(address) ((void *)(uintptr_t)(address))

/* ---- what calls give ---- */

/* `count` elements behind `first` of rank r. */
static void fill(const world *w, int r, size_t first, size_t count, char *out)
{
    for (size_t i = 0; i < count; i++)
        encode(w->dtype, out + i * dtypes[w->dtype].bytes, value_of(r, first + i));
}

static double reduced(const world *w, sc_nccl_reduce how, size_t i)
{
    double result = value_of(0, i);
    for (int r = 1; r < w->size; r++) {
        double next = value_of(r, i);
        result = how == SC_NCCL_SUM   ? result + next
                 : how == SC_NCCL_MAX ? fmax(result, next)
                                      : fmin(result, next);
    }
    return result;
}

typedef enum call_kind {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    REDUCE,
    RING,
    CALL_KINDS
} call_kind;

static sc_nccl_result call(const world *w, call_kind kind, sc_nccl_reduce how, int rank,
                           sc_nccl_comm comm, sc_cu_stream stream, void *from, void *to)
{
    sc_nccl_dtype dtype = dtypes[w->dtype].dtype;
    int root = w->size - 1;
    switch (kind) {
    case ALL_REDUCE:
        return nccl.ncclAllReduce(from, to, COUNT, dtype, how, comm, stream);
    case REDUCE_SCATTER:
        return nccl.ncclReduceScatter(from, to, COUNT, dtype, how, comm, stream);
    case ALL_GATHER:
        return nccl.ncclAllGather(from, to, COUNT, dtype, comm, stream);
    case BROADCAST:
        return nccl.ncclBroadcast(from, to, COUNT, dtype, root, comm, stream);
    case REDUCE:
        return nccl.ncclReduce(from, to, COUNT, dtype, how, root, comm, stream);
    default:
        nccl.ncclGroupStart();
        nccl.ncclSend(from, COUNT, dtype, (rank + 1) % w->size, comm, stream);
        nccl.ncclRecv(to, COUNT, dtype, (rank + w->size - 1) % w->size, comm, stream);
        return nccl.ncclGroupEnd();
    }
}

/* What `to` must hold; how many elements that are. */
static size_t wanted(const world *w, call_kind kind, sc_nccl_reduce how, int rank, char *out)
{
    size_t bytes = dtypes[w->dtype].bytes, n = (size_t)w->size;
    if (kind == BROADCAST || kind == RING) {
        fill(w, kind == RING ? (rank + w->size - 1) % w->size : w->size - 1, 0, COUNT, out);
        return COUNT;
    }
    if (kind == ALL_GATHER) {
        for (size_t r = 0; r < n; r++)
            fill(w, (int)r, 0, COUNT, out + r * COUNT * bytes);
        return n * COUNT;
    }
    for (size_t i = 0; i < COUNT; i++)
        encode(w->dtype, out + i * bytes,
               reduced(w, how, (kind == REDUCE_SCATTER ? (size_t)rank * COUNT : 0) + i));
    return kind == REDUCE && rank != w->size - 1 ? 0 : COUNT;
}

static void check_calls(world *w, int rank, sc_cu_stream stream)
{
    enum { ROOM = (MOST_RANKS * COUNT + 1) * 8 };
    static const sc_nccl_reduce reduces[] = {SC_NCCL_SUM, SC_NCCL_MAX, SC_NCCL_MIN};
    char given[ROOM], got[ROOM], right[ROOM];
    size_t bytes = dtypes[w->dtype].bytes, all = (size_t)w->size * COUNT;
    sc_nccl_comm comm = join(w, rank, rank % 2 == 0);
    sc_cu_address from = device_memory(w, ROOM), to = device_memory(w, ROOM);
    for (int k = 0; k < CALL_KINDS; k++) {
        for (int how = 0; how < 3; how++) {
            bool is_in_place = how == 1 && k != RING;
            size_t piece = (size_t)rank * COUNT * bytes;
            memset(got, 0x7f, sizeof got);
            fill(w, rank, 0, all, given);
            cuda.cuMemcpyHtoDAsync_v2(to, got, ROOM, stream);
            cuda.cuMemcpyHtoDAsync_v2(from, given, all * bytes, stream);
            sc_cu_address source = is_in_place && k == ALL_GATHER ? from + piece : from;
            sc_cu_address target = !is_in_place ? to : k == REDUCE_SCATTER ? from + piece : from;
            if (source != from)
                cuda.cuMemcpyHtoDAsync_v2(source, given, COUNT * bytes, stream);
            sc_nccl_result result =
                call(w, (call_kind)k, reduces[how], rank, comm, stream, AT(source), AT(target));
            EXPECT(w, result == (rank % 2 == 0 ? SC_NCCL_SUCCESS : SC_NCCL_IN_PROGRESS));
            EXPECT(w, settle(comm) == SC_NCCL_SUCCESS);
            EXPECT(w, cuda.cuMemcpyDtoHAsync_v2(got, target,
                                                ROOM - (size_t)(target - (is_in_place ? from : to)),
                                                stream) == SC_CU_SUCCESS);
            size_t count = wanted(w, (call_kind)k, reduces[how], rank, right);
            EXPECT(w, memcmp(got, right, count * bytes) == 0);
            /* and not a byte more */
            EXPECT(w, is_in_place || (unsigned char)got[count * bytes] == 0x7f);
            pthread_barrier_wait(&w->barrier);
        }
    }
    cuda.cuMemFree_v2(from);
    cuda.cuMemFree_v2(to);
    leave(w, comm);
}

static void calls_give_what_plain_c_gives(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 5};
    for (int s = 0; s < 4; s++) {
        for (int d = 0; d < DTYPES; d++) {
            stub.sc_stub_seed((uint64_t)(s + d));
            run_ranks(sizes[s], d, check_calls);
        }
    }
}

/* ---- splits ---- */

/* Odd and even ranks, the highest first; rank 4 in none. A split is there when the parent says so,
 * and not before. */
static void check_splits(world *w, int rank, sc_cu_stream stream)
{
    sc_nccl_config config = SC_NCCL_CONFIG;
    sc_nccl_comm comm = join(w, rank, false), half = NULL;
    config.blocking = 0;
    EXPECT(w, nccl.ncclCommSplit(comm, rank == 4 ? SC_NCCL_NO_COLOR : rank % 2, -rank, &half,
                                 &config) == SC_NCCL_IN_PROGRESS);
    EXPECT(w, half == NULL);
    /* one at a time */
    EXPECT(w, nccl.ncclCommSplit(comm, 0, 0, &half, &config) == SC_NCCL_INVALID_ARGUMENT);
    EXPECT(w, settle(comm) == SC_NCCL_SUCCESS);
    EXPECT(w, (half == NULL) == (rank == 4));
    if (half != NULL) {
        int32_t mine = rank, got[2] = {-1, -1};
        sc_cu_address at = device_memory(w, sizeof mine), all = device_memory(w, sizeof got);
        EXPECT(w, settle(half) == SC_NCCL_SUCCESS);
        cuda.cuMemcpyHtoDAsync_v2(at, &mine, sizeof mine, stream);
        nccl.ncclAllGather(AT(at), AT(all), 1, SC_NCCL_I32, half, stream);
        EXPECT(w, settle(half) == SC_NCCL_SUCCESS);
        EXPECT(w, cuda.cuMemcpyDtoHAsync_v2(got, all, sizeof got, stream) == SC_CU_SUCCESS);
        EXPECT(w, got[0] == 2 + rank % 2 && got[1] == rank % 2);
        cuda.cuMemFree_v2(at);
        cuda.cuMemFree_v2(all);
        leave(w, half);
    }
    leave(w, comm);
}

static void splits_are_by_color_and_key(void **state)
{
    (void)state;
    stub.sc_stub_seed(2);
    run_ranks(5, 0, check_splits);
}

/* ---- what the library does not take ---- */

static void check_refusals(world *w, int rank, sc_cu_stream stream)
{
    sc_nccl_comm comm = join(w, rank, false);
    sc_nccl_config config = SC_NCCL_CONFIG;
    sc_nccl_result state;
    sc_cu_address at = device_memory(w, 64);
    char host[8] = {0};
    config.not_ours = 0;
    EXPECT(w, nccl.ncclCommSplit(comm, 0, 0, &(sc_nccl_comm){NULL}, &config) ==
                  SC_NCCL_INVALID_ARGUMENT);
    /* the host's memory, beyond the end, no such root, reduction, dtype; buffers that overlap and
     * are not the same */
    EXPECT(w, nccl.ncclAllReduce(host, host, 2, SC_NCCL_F32, SC_NCCL_SUM, comm, stream) ==
                  SC_NCCL_INVALID_ARGUMENT);
    EXPECT(w, nccl.ncclAllReduce(AT(at), AT(at), 17, SC_NCCL_F32, SC_NCCL_SUM, comm, stream) ==
                  SC_NCCL_INVALID_ARGUMENT);
    EXPECT(w, nccl.ncclBroadcast(AT(at), AT(at), 4, SC_NCCL_F32, w->size, comm, stream) ==
                  SC_NCCL_INVALID_ARGUMENT);
    EXPECT(w, nccl.ncclAllReduce(AT(at), AT(at), 4, SC_NCCL_F32, 1, comm, stream) ==
                  SC_NCCL_INVALID_ARGUMENT);
    EXPECT(w, nccl.ncclAllReduce(AT(at), AT(at), 4, 99, SC_NCCL_SUM, comm, stream) ==
                  SC_NCCL_INVALID_ARGUMENT);
    EXPECT(w, nccl.ncclAllReduce(AT(at), AT(at + 4), 4, SC_NCCL_F32, SC_NCCL_SUM, comm, stream) ==
                  SC_NCCL_INVALID_USAGE);
    EXPECT(w, nccl.ncclAllGather(AT(at + (rank == 0 ? 4 : 0)), AT(at), 1, SC_NCCL_F32, comm,
                                 stream) == SC_NCCL_INVALID_USAGE);
    nccl.ncclGroupStart();
    nccl.ncclSend(AT(at), 1, SC_NCCL_F32, 1 - rank, comm, stream);
    nccl.ncclRecv(AT(at), 1, SC_NCCL_F32, 1 - rank, comm, stream);
    EXPECT(w, nccl.ncclGroupEnd() == SC_NCCL_INVALID_USAGE);
    EXPECT(w, nccl.ncclGroupEnd() == SC_NCCL_INVALID_USAGE);
    /* a call while another one is in progress; a farewell then */
    EXPECT(w, nccl.ncclAllReduce(AT(at), AT(at), 4, SC_NCCL_I32, SC_NCCL_SUM, comm, stream) ==
                  SC_NCCL_IN_PROGRESS);
    EXPECT(w, nccl.ncclAllReduce(AT(at), AT(at), 4, SC_NCCL_I32, SC_NCCL_SUM, comm, stream) ==
                  SC_NCCL_INVALID_ARGUMENT);
    EXPECT(w, nccl.ncclCommFinalize(comm) == SC_NCCL_INVALID_ARGUMENT);
    EXPECT(w, cuda.cuStreamQuery(stream) == SC_CU_SUCCESS); /* nothing is on the stream yet */
    EXPECT(w, settle(comm) == SC_NCCL_SUCCESS);
    EXPECT(w, cuda.cuStreamSynchronize(stream) == SC_CU_SUCCESS);
    cuda.cuMemFree_v2(at);
    leave(w, comm);
    EXPECT(w, nccl.ncclCommGetAsyncError(comm, &state) == SC_NCCL_INVALID_ARGUMENT);
}

static void what_is_wrong_is_refused(void **state)
{
    (void)state;
    stub.sc_stub_seed(2);
    run_ranks(2, 0, check_refusals);
}

/* ---- ends ---- */

/* Nobody comes to rank 0's call: its stream is free when the communicators are aborted, both at
 * once. */
static void *abort_comm(void *comm)
{
    nccl.ncclCommAbort(comm);
    return NULL;
}

static void check_abort(world *w, int rank, sc_cu_stream stream)
{
    sc_nccl_config config = SC_NCCL_CONFIG;
    sc_nccl_comm comm = join(w, rank, false), other = NULL;
    sc_cu_address at = device_memory(w, 64);
    config.blocking = 0;
    nccl.ncclCommSplit(comm, 0, rank, &other, &config);
    EXPECT(w, settle(comm) == SC_NCCL_SUCCESS);
    if (rank == 0) {
        nccl.ncclAllReduce(AT(at), AT(at), 4, SC_NCCL_I32, SC_NCCL_SUM, other, stream);
        EXPECT(w, settle(other) == SC_NCCL_SUCCESS);
        for (int i = 0; i < 100; i++)
            EXPECT(w, cuda.cuStreamQuery(stream) == SC_CU_NOT_READY);
    }
    pthread_barrier_wait(&w->barrier);
    pthread_t thread;
    /* waits for the GPU, which the other one has */
    pthread_create(&thread, NULL, abort_comm, comm);
    nccl.ncclCommAbort(other);
    pthread_join(thread, NULL);
    EXPECT(w, cuda.cuStreamSynchronize(stream) == SC_CU_SUCCESS);
    cuda.cuMemFree_v2(at);
}

static void aborts_free_the_gpu(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        stub.sc_stub_seed(seed);
        run_ranks(2, 0, check_abort);
    }
}

/* A farewell waits for the graphs that have calls of the communicator. */
static void check_graphs(world *w, int rank, sc_cu_stream stream)
{
    sc_nccl_comm comm = join(w, rank, false);
    sc_nccl_result state = SC_NCCL_SUCCESS;
    sc_cu_address at = device_memory(w, sizeof(int32_t));
    sc_cu_graph graph = NULL;
    sc_cu_graph_exec exec = NULL;
    int32_t value = rank + 1, got = 0;
    cuda.cuMemcpyHtoDAsync_v2(at, &value, sizeof value, stream);
    EXPECT(w, cuda.cuStreamBeginCapture_v2(stream, SC_CU_CAPTURE_THREAD) == SC_CU_SUCCESS);
    nccl.ncclAllReduce(AT(at), AT(at), 1, SC_NCCL_I32, SC_NCCL_SUM, comm, stream);
    EXPECT(w, settle(comm) == SC_NCCL_SUCCESS);
    EXPECT(w, cuda.cuStreamEndCapture(stream, &graph) == SC_CU_SUCCESS);
    EXPECT(w, cuda.cuGraphInstantiateWithFlags(&exec, graph, 0) == SC_CU_SUCCESS);
    for (int i = 0; i < 3; i++)
        EXPECT(w, cuda.cuGraphLaunch(exec, stream) == SC_CU_SUCCESS);
    EXPECT(w, cuda.cuMemcpyDtoHAsync_v2(&got, at, sizeof got, stream) == SC_CU_SUCCESS);
    EXPECT(w, got == 3 * 2 * 2);
    cuda.cuGraphDestroy(graph);
    nccl.ncclCommFinalize(comm);
    pthread_barrier_wait(&w->barrier); /* all have said farewell */
    for (int i = 0; i < 100; i++) {
        nccl.ncclCommGetAsyncError(comm, &state);
        EXPECT(w, state == SC_NCCL_IN_PROGRESS);
    }
    cuda.cuGraphExecDestroy(exec);
    EXPECT(w, settle(comm) == SC_NCCL_SUCCESS);
    EXPECT(w, nccl.ncclCommDestroy(comm) == SC_NCCL_SUCCESS);
    cuda.cuMemFree_v2(at);
}

static void a_farewell_waits_for_graphs(void **state)
{
    (void)state;
    stub.sc_stub_seed(2);
    run_ranks(2, 0, check_graphs);
}

/* Members that disagree break their streams: the driver's next call says why. */
static void check_mismatch(world *w, int rank, sc_cu_stream stream)
{
    sc_nccl_comm comm = join(w, rank, true);
    sc_cu_address at = device_memory(w, 64);
    const char *text = "";
    nccl.ncclAllReduce(AT(at), AT(at), rank == 0 ? 4 : 5, SC_NCCL_I32, SC_NCCL_SUM, comm, stream);
    sc_cu_result result = cuda.cuStreamSynchronize(stream);
    EXPECT(w, result != SC_CU_SUCCESS && cuda.cuGetErrorString(result, &text) == SC_CU_SUCCESS);
    EXPECT(w, strstr(text, "make different calls of NCCL") != NULL);
    pthread_barrier_wait(&w->barrier);
}

static void calls_that_differ_break(void **state)
{
    (void)state;
    world w = {.size = 2, .work = check_mismatch};
    rank_thread ranks[2] = {{&w, 0}, {&w, 1}};
    pthread_t threads[2];
    assert_int_equal(nccl.ncclGetUniqueId(&w.id), SC_NCCL_SUCCESS);
    pthread_barrier_init(&w.barrier, NULL, 2);
    for (int r = 0; r < 2; r++)
        pthread_create(&threads[r], NULL, rank_main, &ranks[r]);
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&w.barrier);
    stub.sc_stub_reset();
    if (w.wrong != NULL)
        fail_msg("not so: %s", w.wrong);
}

/* ---- calls that are told to fail ---- */

static void check_failures(world *w, int rank, sc_cu_stream stream)
{
    sc_cu_address at = device_memory(w, 64);
    sc_nccl_comm comm = NULL, other = NULL;
    sc_nccl_config config = SC_NCCL_CONFIG;
    sc_nccl_result state;
    (void)rank;
#define FAILS(name, arguments)                                                                     \
    do {                                                                                           \
        stub.sc_stub_fail(#name, 1, SC_NCCL_SYSTEM);                                               \
        EXPECT(w, nccl.name arguments == SC_NCCL_SYSTEM);                                          \
        EXPECT(w, stub.sc_stub_failed() != NULL && strcmp(stub.sc_stub_failed(), #name) == 0);     \
    } while (0)
    FAILS(ncclGetUniqueId, (&(sc_nccl_id){{0}}));
    FAILS(ncclCommInitRankConfig, (&comm, 1, w->id, 0, &config));
    comm = join(w, 0, true);
    FAILS(ncclCommGetAsyncError, (comm, &state));
    FAILS(ncclCommSplit, (comm, 0, 0, &other, &config));
    FAILS(ncclAllReduce, (AT(at), AT(at), 1, SC_NCCL_I32, SC_NCCL_SUM, comm, stream));
    FAILS(ncclReduceScatter, (AT(at), AT(at), 1, SC_NCCL_I32, SC_NCCL_SUM, comm, stream));
    FAILS(ncclAllGather, (AT(at), AT(at), 1, SC_NCCL_I32, comm, stream));
    FAILS(ncclBroadcast, (AT(at), AT(at), 1, SC_NCCL_I32, 0, comm, stream));
    FAILS(ncclReduce, (AT(at), AT(at), 1, SC_NCCL_I32, SC_NCCL_SUM, 0, comm, stream));
    FAILS(ncclSend, (AT(at), 1, SC_NCCL_I32, 0, comm, stream));
    FAILS(ncclRecv, (AT(at), 1, SC_NCCL_I32, 0, comm, stream));
    FAILS(ncclGroupStart, ());
    nccl.ncclGroupStart();
    FAILS(ncclGroupEnd, ());
    FAILS(ncclCommFinalize, (comm));
    FAILS(ncclCommDestroy, (comm));
    stub.sc_stub_fail(NULL, 0, 0);
    EXPECT(w, nccl.ncclAllReduce(AT(at), AT(at), 1, SC_NCCL_I32, SC_NCCL_SUM, comm, stream) ==
                  SC_NCCL_SUCCESS);
    EXPECT(w, cuda.cuStreamSynchronize(stream) == SC_CU_SUCCESS);
    cuda.cuMemFree_v2(at);
    leave(w, comm);
}

static void every_function_fails_when_told(void **state)
{
    (void)state;
    stub.sc_stub_seed(2);
    run_ranks(1, 0, check_failures);
}

int main(void)
{
    shardc_error error;
    setenv("SHARDC_STUB_GPUS", "5", 1);
    stub = cuda_stub_open();
    if (!sc_cuda_open(&cuda, &error) || !sc_nccl_open(&nccl, &error) ||
        cuda.cuInit(0) != SC_CU_SUCCESS)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_give_what_plain_c_gives),
        cmocka_unit_test(splits_are_by_color_and_key),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(aborts_free_the_gpu),
        cmocka_unit_test(a_farewell_waits_for_graphs),
        cmocka_unit_test(calls_that_differ_break),
        cmocka_unit_test(every_function_fails_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
