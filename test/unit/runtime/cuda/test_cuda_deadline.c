/* The deadline of collectives of NCCL (stubs of CUDA's libraries): it is for one collective, from
 * when this rank's stream has come to it; a step whose kernels take longer goes on. The error names
 * the collective that waits, in a graph as without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/clock.h"
#include "test/unit/helpers/cuda_steps.h"

enum { PAIRS = 8, LONG_MS = 200, DEADLINE_MS = 1200, MISSING_MS = 3000 };

static const char kernels[] =
    "SC_KERNEL(32, 1) void k_first_0(float *x, const int64_t *sc_call, uint64_t *sc_failure)\n"
    "{\n    if (sc_thread() == 0)\n        *x += 1;\n}\n"
    "SC_KERNEL(32, 1) void k_long_0(float *x, const int64_t *sc_call, uint64_t *sc_failure)\n"
    "{\n    if (sc_thread() == 0)\n        *x += 1;\n}\n"
    "SC_KERNEL(32, 1) void k_last_0(int32_t *y, const int64_t *sc_call, uint64_t *sc_failure)\n"
    "{\n    if (sc_thread() < 2)\n        y[sc_thread()] += 1;\n}\n";

/* work(x, y): a kernel on x before each sum, the first a different one, and last a kernel on y
 * before a maximum. */
static shardc_executable *work_program(image_case *c)
{
    cuda_begin(c, 1, 2);
    uint32_t all = image_group(c, "tp", NULL);
    uint32_t sum = image_collective(c, SC_IMAGE_ALL_REDUCE, SC_IMAGE_SUM, all, SC_DTYPE_f32, 1),
             most = image_collective(c, SC_IMAGE_ALL_REDUCE, SC_IMAGE_MAX, all, SC_DTYPE_i32, 2);
    uint32_t first_kernel = image_kernel(c, "k_first", "b", (int64_t[]){4}, 0, NULL),
             long_kernel = image_kernel(c, "k_long", "b", (int64_t[]){4}, 0, NULL),
             last_kernel = image_kernel(c, "k_last", "b", (int64_t[]){8}, 0, NULL);
    uint32_t x = image_input(c, "x", "f32[]", -1), y = image_input(c, "y", "i32[K=2]", -1);
    for (int i = 0; i < PAIRS; i++) {
        image_instr(c, SC_INSTR_KERNEL, i == 0 ? first_kernel : long_kernel, 1, &x);
        image_move(c, sum, x, x);
    }
    image_instr(c, SC_INSTR_KERNEL, last_kernel, 1, &y);
    image_move(c, most, y, y);
    image_output(c, "x", "f32[]", x);
    image_output(c, "y", "i32[K=2]", y);
    image_func(c, "work");
    cuda_object(c, kernels, "cubin", 80);
    return image_executable(c);
}

static shardc_status run(shardc_session *session, shardc_error *error)
{
    float x = 1, got_x = 0, wanted = 1;
    int32_t y[2] = {3, 4}, got_y[2] = {0, 0};
    shardc_feed_value feeds[] = {{"x", &x, sizeof x, NULL}, {"y", y, sizeof y, NULL}};
    shardc_fetch_value fetches[] = {{0, &got_x, sizeof got_x, NULL},
                                    {1, got_y, sizeof got_y, NULL}};
    shardc_status status = shardc_session_run(session, 0, feeds, 2, fetches, 2, error);
    for (int i = 0; i < PAIRS; i++)
        wanted = 2 * (wanted + 1);
    if (status == SHARDC_OK) {
        assert_true(got_x == wanted);
        assert_int_equal(got_y[0], 4);
        assert_int_equal(got_y[1], 5);
    }
    return status;
}

typedef struct life {
    image_case c;
    shardc_executable *program;
    shardc_session *session;
} life;

/* Everything is connected and there is a graph, whether it is used from now on or not: only what
 * comes now has the deadline. */
static void begin(life *l, bool has_graphs, uint64_t seed)
{
    have_gpus(2);
    stub.sc_stub_seed(seed);
    l->program = work_program(&l->c);
    l->session = session_of(l->program);
    for (int i = 0; i < 2; i++)
        SUCCEED(run(l->session, &error));
    l->session->no_graphs = !has_graphs;
    l->session->options.deadline_ms = DEADLINE_MS;
}

static void end(life *l)
{
    stub.sc_stub_delay(NULL, 0, 0);
    shardc_session_free(l->session);
    shardc_executable_free(l->program);
    sc_arena_free(&l->c.arena);
    expect_clean();
}

static void a_step_may_take_longer(void **state)
{
    (void)state;
    for (int has_graphs = 0; has_graphs < 2; has_graphs++) {
        life l;
        begin(&l, has_graphs != 0, 1 + (uint64_t)has_graphs);
        uint64_t replays = stub.sc_stub_replays();
        stub.sc_stub_delay("k_long_0", -1, LONG_MS); /* many, each shorter than the deadline */
        double before = sc_seconds();
        SUCCEED(run(l.session, &error));
        assert_true(sc_seconds() - before > 1e-3 * DEADLINE_MS);
        stub.sc_stub_delay("k_last_0", -1, 2 * DEADLINE_MS); /* one that is longer */
        SUCCEED(run(l.session, &error));
        assert_int_equal(stub.sc_stub_replays() - replays, has_graphs != 0 ? 4 : 0);
        end(&l);
    }
}

/* Rank 1's kernel before a collective does not end in time; ranks of a process have no heartbeats.
 */
static void who_does_not_come_is_waited_for(const char *kernel, const char *name)
{
    for (int has_graphs = 0; has_graphs < 2; has_graphs++) {
        life l;
        shardc_error why = {.status = SHARDC_OK};
        begin(&l, has_graphs != 0, 2 + (uint64_t)has_graphs);
        stub.sc_stub_delay(kernel, 1, MISSING_MS);
        double before = sc_seconds();
        assert_int_equal(run(l.session, &why), SHARDC_ERROR_TIMEOUT);
        assert_true(sc_seconds() - before > 1e-3 * DEADLINE_MS);
        if (strstr(why.text, name) == NULL || strstr(why.text, " in group ") == NULL ||
            strstr(why.text, "the deadline is 1.2 s") == NULL || strstr(why.text, "one after"))
            fail_msg("%s", why.text);
        stub.sc_stub_delay(NULL, 0, 0);
        l.session->options.deadline_ms = 0;
        SUCCEED(run(l.session, &error)); /* the session goes on */
        end(&l);
    }
}

static void the_first_that_waits_is_named(void **state)
{
    (void)state;
    who_does_not_come_is_waited_for("k_first_0", "rank 0 waits for all_reduce(sum) of f32[1] ");
}

static void the_last_that_waits_is_named(void **state)
{
    (void)state;
    who_does_not_come_is_waited_for("k_last_0", "rank 0 waits for all_reduce(max) of i32[2] ");
}

int main(void)
{
    stub = cuda_stub_open();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_may_take_longer),
        cmocka_unit_test(the_first_that_waits_is_named),
        cmocka_unit_test(the_last_that_waits_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
