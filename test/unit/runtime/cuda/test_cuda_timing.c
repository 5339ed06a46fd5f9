/* Instructions of GPUs are measured by events: each once, on its stream, in order, by the GPU's
 * clock, while the stream runs on; and what is measured computes what it does otherwise, in any
 * order of the stub, and ends in an error with its name when a call fails. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "test/unit/helpers/cuda_case.h"

static cuda_stub stub;

/* k_long computes much longer than k_short. */
static const char kernels[] =
    "SC_KERNEL(32, 1) void k_short_0(float *x, const int64_t *sc_call, uint64_t *sc_failure)\n"
    "{\n    x[sc_thread()] += 1.0f;\n}\n"
    "SC_KERNEL(32, 1) void k_long_0(float *x, const int64_t *sc_call, uint64_t *sc_failure)\n"
    "{\n    volatile float sum = 0;\n    for (int i = 0; i < 400000; i++)\n        sum = sum + "
    "1.0f;\n"
    "    x[sc_thread()] += sum > 0 ? 1.0f : 0.0f;\n}\n";

enum { LONG_AT = 130, KERNELS = 250 /* several bunches */, MOST_RANKS = 4 };
enum { COPY = KERNELS, FIRST, SECOND, BESIDE, FIRST_WAIT, SECOND_WAIT, INSTRS };

/* x += 1 for each kernel; then x, and a copy of it, become sums over ranks while a kernel runs that
 * touches neither. */
static shardc_executable *times_program(image_case *c, int ranks)
{
    cuda_begin(c, 1, (uint64_t)ranks);
    uint32_t all = image_group(c, "tp", NULL);
    uint32_t sum = image_collective(c, SC_IMAGE_ALL_REDUCE, SC_IMAGE_SUM, all, SC_DTYPE_f32, 32);
    uint32_t quick = image_kernel(c, "k_short", "b", (int64_t[]){128}, 0, NULL);
    uint32_t slow = image_kernel(c, "k_long", "b", (int64_t[]){128}, 0, NULL);
    uint32_t x = image_input(c, "x", sc_arena_printf(&c->arena, "f32[T=%d@tp, K=32]", ranks), -1);
    uint32_t y = image_buffer(c, SC_BUFFER_COMM, 128, "y"),
             z = image_buffer(c, SC_BUFFER_ACT, 128, "z");
    for (int i = 0; i < KERNELS; i++)
        image_instr(c, SC_INSTR_KERNEL, i == LONG_AT ? slow : quick, 1, &x);
    image_instr(c, SC_INSTR_COPY, 0, 2, (uint32_t[]){x, y});
    uint32_t start = image_instr(c, SC_INSTR_COLLECTIVE, sum, 2, (uint32_t[]){x, x});
    uint32_t second = image_instr(c, SC_INSTR_COLLECTIVE, sum, 2, (uint32_t[]){y, y});
    c->instrs.data[start].stream = c->instrs.data[second].stream = 1;
    image_instr(c, SC_INSTR_KERNEL, quick, 1, &z);
    image_instr(c, SC_INSTR_FINISH, start, 0, NULL);
    image_instr(c, SC_INSTR_FINISH, second, 0, NULL);
    image_output(c, "x", sc_arena_printf(&c->arena, "f32[T=%d@tp, K=32]", ranks), x);
    image_func(c, "f");
    cuda_object(c, kernels, "cubin", 80);
    return image_executable(c);
}

/* By rank and instruction: how often it was said, and what last. */
typedef struct log {
    uint32_t counts[MOST_RANKS][INSTRS];
    shardc_trace_event events[MOST_RANKS][INSTRS];
} log_of_events;

static void note(void *user, const shardc_trace_event *event)
{
    log_of_events *log = user;
    assert_true(event->rank < MOST_RANKS && event->instr < INSTRS);
    log->counts[event->rank][event->instr]++;
    log->events[event->rank][event->instr] = *event;
}

static shardc_session *session_of(const shardc_executable *program, bool profile)
{
    shardc_session *session = NULL;
    shardc_error error = {.status = SHARDC_OK};
    if (shardc_session_new(program, &(shardc_session_options){.threads = 1, .profile = profile},
                           &session, &error) != SHARDC_OK)
        fail_msg("%s", error.text);
    return session;
}

static void run(shardc_session *session, int ranks)
{
    float x[MOST_RANKS * 32] = {0}, got[MOST_RANKS * 32];
    shardc_error error = {.status = SHARDC_OK};
    shardc_feed_value feed = {"x", x, (size_t)ranks * 32 * sizeof *x, NULL};
    if (shardc_session_run(session, 0, &feed, 1, (shardc_fetch_value[]){{0, got, sizeof got, NULL}},
                           1, &error) != SHARDC_OK)
        fail_msg("%s", error.text);
    for (int i = 0; i < ranks * 32; i++)
        assert_true(got[i] == (float)(KERNELS * ranks));
}

/* Everything once; on either stream one after the other; who waits does so until it is over. */
static void expect_times(const log_of_events *log, int ranks, double begin, double end)
{
    const double slack = 1e-6; /* of a float's milliseconds */
    for (int r = 0; r < ranks; r++) {
        const shardc_trace_event *e = log->events[r];
        double at = begin;
        for (uint32_t i = 0; i < INSTRS; i++) {
            assert_int_equal(log->counts[r][i], 1);
            assert_true(e[i].end >= e[i].begin && e[i].begin > begin - slack &&
                        e[i].end < end + slack);
            if (i == FIRST || i == SECOND)
                continue;
            assert_true(e[i].begin > at - slack);
            at = e[i].end;
        }
        assert_true(e[FIRST].begin > e[COPY].end - slack && e[SECOND].begin > e[FIRST].end - slack);
        assert_true(e[FIRST_WAIT].end > e[FIRST].end - slack &&
                    e[SECOND_WAIT].end > e[SECOND].end - slack);
        assert_true(e[FIRST].work == SHARDC_WORK_COMM && e[SECOND].work == SHARDC_WORK_COMM);
        assert_true(e[FIRST_WAIT].work == SHARDC_WORK_WAIT &&
                    e[SECOND_WAIT].work == SHARDC_WORK_WAIT);
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void instructions_have_times(void **state)
{
    (void)state;
    static const int meshes[] = {1, 2, 4};
    log_of_events *log = malloc(sizeof *log);
    for (int m = 0; m < 3; m++) {
        image_case c;
        shardc_executable *program = times_program(&c, meshes[m]);
        shardc_session *session = session_of(program, false);
        shardc_session_set_trace(session, note, log);
        for (uint64_t seed = 0; seed < 6; seed++) {
            memset(log, 0, sizeof *log);
            stub.sc_stub_seed(seed);
            double begin = now();
            run(session, meshes[m]);
            expect_times(log, meshes[m], begin, now());
        }
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        assert_int_equal(stub.sc_stub_live(NULL, 0), 0);
    }
    free(log);
}

/* A profile is what the events say. */
static void a_profile_adds_times_up(void **state)
{
    (void)state;
    enum { RUNS = 3 };
    image_case c;
    shardc_func_profile profile;
    log_of_events *log = calloc(1, sizeof *log);
    double works[SHARDC_WORK_KINDS] = {0}, slow = 0, quickest = INFINITY;
    shardc_executable *program = times_program(&c, 1);
    shardc_session *session = session_of(program, true);
    shardc_session_set_trace(session, note, log);
    stub.sc_stub_seed(0);
    for (int i = 0; i < RUNS; i++) {
        run(session, 1);
        for (uint32_t k = 0; k < INSTRS; k++) {
            const shardc_trace_event *e = &log->events[0][k];
            works[e->work] += e->end - e->begin;
            if (e->work == SHARDC_WORK_KERNEL && e->end - e->begin < quickest)
                quickest = e->end - e->begin;
        }
        slow += log->events[0][LONG_AT].end - log->events[0][LONG_AT].begin;
    }
    shardc_session_profile(session, 0, 0, &profile);
    assert_int_equal(profile.calls, RUNS);
    for (int k = 0; k < SHARDC_WORK_KINDS; k++)
        assert_true(profile.work[k] - works[k] < 1e-9 && works[k] - profile.work[k] < 1e-9);
    /* 32 threads of 400,000 steps: no CPU does that faster; and it is not as if all kernels took
     * the same. Load makes kernels slower, but of hundreds not every one. */
    assert_true(slow > RUNS * 1e-3 && slow > RUNS * 20 * quickest);
    assert_true(works[SHARDC_WORK_KERNEL] < profile.seconds);
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    free(log);
}

/* The stream is not waited for in between. What ran before stands behind gates: nothing of a bunch
 * runs before all of it is there. */
static void the_stream_runs_on(void **state)
{
    (void)state;
    image_case c;
    shardc_executable *program = times_program(&c, 1);
    shardc_session *session = session_of(program, true);
    stub.sc_stub_seed(0);
    for (int i = 0; i < 3; i++) {
        stub.sc_stub_fail("cuLaunchHostFunc", 0, 0);
        run(session, 1);
        assert_int_equal(stub.sc_stub_calls(), i == 0 ? 0 : 3);
    }
    /* those that feed and fetch: one each */
    stub.sc_stub_fail("cuStreamSynchronize", 0, 0);
    run(session, 1);
    assert_int_equal(stub.sc_stub_calls(), 2);
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    stub.sc_stub_fail(NULL, 0, 0);
}

/* A function is a graph before and after it is traced. */
static void graphs_come_back(void **state)
{
    (void)state;
    image_case c;
    log_of_events *log = calloc(1, sizeof *log);
    shardc_executable *program = times_program(&c, 1);
    shardc_session *session = session_of(program, false);
    for (int round = 0; round < 2; round++) {
        uint64_t before = stub.sc_stub_replays();
        for (int i = 0; i < 3; i++)
            run(session, 1);
        assert_int_equal(stub.sc_stub_replays() - before, round == 0 ? 2 : 3);
        shardc_session_set_trace(session, note, log);
        before = stub.sc_stub_replays();
        run(session, 1);
        assert_int_equal(stub.sc_stub_replays(), before);
        assert_int_equal(log->counts[0][0], round + 1);
        shardc_session_set_trace(session, NULL, NULL);
    }
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    free(log);
}

static shardc_status live(const shardc_executable *program, shardc_error *error)
{
    float x[MOST_RANKS * 32] = {0};
    shardc_session *session = NULL;
    shardc_feed_value feed = {"x", x, shardc_executable_ranks(program) * 32 * sizeof *x, NULL};
    shardc_status status = shardc_session_new(
        program, &(shardc_session_options){.threads = 1, .profile = true, .deadline_ms = 20000},
        &session, error);
    for (int i = 0; i < 2 && status == SHARDC_OK; i++)
        status = shardc_session_run(session, 0, &feed, 1, NULL, 0, error);
    shardc_session_free(session);
    return status;
}

static void calls_that_fail_are_named(void **state)
{
    (void)state;
    static const char *const names[] = {"cuEventCreate", "cuEventRecord", "cuEventElapsedTime",
                                        "cuEventSynchronize", "cuLaunchHostFunc"};
    for (int ranks = 1; ranks <= 2; ranks++) {
        image_case c;
        shardc_executable *program = times_program(&c, ranks);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            for (uint64_t n = 1; n < 2000; n = 6 * n + 1) {
                shardc_error error = {.status = SHARDC_OK};
                char left[256];
                stub.sc_stub_seed(2);
                stub.sc_stub_fail(names[i], n, 999);
                shardc_status status = live(program, &error);
                if (stub.sc_stub_failed() != NULL &&
                    (status == SHARDC_OK || strstr(error.text, names[i]) == NULL))
                    fail_msg("call %d of %s failed: %s", (int)n, names[i], error.text);
                if (stub.sc_stub_live(left, sizeof left) != 0)
                    fail_msg("call %d of %s; left: %s", (int)n, names[i], left);
                stub.sc_stub_reset();
            }
        }
        stub.sc_stub_fail(NULL, 0, 0);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
}

int main(void)
{
    stub = cuda_stub_open();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_have_times),   cmocka_unit_test(a_profile_adds_times_up),
        cmocka_unit_test(the_stream_runs_on),        cmocka_unit_test(graphs_come_back),
        cmocka_unit_test(calls_that_fail_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
