/* Functions that cannot be recorded as graphs (stubs of CUDA's libraries): the call goes on without
 * one, with the same results; the session says so, and does not try again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/helpers/cuda_steps.h"

enum { REFUSED = 900 /* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED */, MEMORY = 2 };

typedef struct refusal {
    const char *function;
    uint64_t n; /* of its calls from the second step on, in which functions are recorded */
    unsigned result;
} refusal;

/* At the beginning of a capture, in its middle (the first kernel, the last, an event), at its end.
 */
static const refusal refusals[] = {
    {"cuStreamBeginCapture_v2", 1, REFUSED}, {"cuLaunchKernel", 1, REFUSED},
    {"cuLaunchKernel", 2, REFUSED},          {"cuStreamEndCapture", 1, REFUSED},
    {"cuGraphInstantiateWithFlags", 1, 999}, {"cuGraphInstantiateWithFlags", 1, MEMORY}};
enum { REFUSALS = sizeof refusals / sizeof *refusals };

/* The weights, and every total: a function that ran twice, or half, would add too much. */
static void expect_refusal(const refusal *r, uint64_t dp, uint64_t tp, uint64_t seed)
{
    step_data d = make_data();
    image_case c;
    shardc_graph_report report;
    stub.sc_stub_seed(seed);
    shardc_executable *program = cuda_step_program(&c, dp, tp);
    shardc_session *session = session_of(program);
    set_weights(session, &d);
    assert_true(run_step(session, &d) == d.total);
    uint64_t replays = stub.sc_stub_replays();
    stub.sc_stub_fail(r->function, r->n, r->result);
    for (int run = 0; run < 4; run++)
        assert_true(run_step(session, &d) == d.total);
    assert_non_null(stub.sc_stub_failed());
    stub.sc_stub_fail("cuStreamBeginCapture_v2", 0, 0); /* counts: it is not tried again */
    assert_true(run_step(session, &d) == d.total);
    assert_int_equal(stub.sc_stub_calls(), 0);
    stub.sc_stub_fail(NULL, 0, 0);
    shardc_session_graphs(session, &report);
    assert_int_equal(report.refused, 1);
    if (strstr(report.reason, "cannot be recorded as a graph") == NULL ||
        strstr(report.reason, r->function) == NULL || strncmp(report.reason, "rank ", 5) != 0)
        fail_msg("%s: %s", r->function, report.reason);
    assert_true(stub.sc_stub_replays() > replays); /* of the other function, and other ranks' */
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

static void a_step_goes_on_without(void **state)
{
    (void)state;
    have_gpus(1);
    for (uint64_t i = 0; i < REFUSALS; i++)
        expect_refusal(&refusals[i], 1, 1, i);
}

/* One rank of several: the others' collectives are in graphs. */
static void a_rank_goes_on_without(void **state)
{
    (void)state;
    static const refusal of_collectives[] = {{"cuEventRecord", 1, REFUSED},
                                             {"cuStreamWaitEvent", 1, REFUSED},
                                             {"cuMemcpyDtoHAsync_v2", 1, REFUSED}};
    have_gpus(4);
    for (uint64_t i = 0; i < REFUSALS; i++)
        expect_refusal(&refusals[i], 2, 2, i);
    for (uint64_t i = 0; i < sizeof of_collectives / sizeof *of_collectives; i++)
        expect_refusal(&of_collectives[i], 2, 2, i);
}

/* What fails without a graph, too, is an error, in its own words. */
static void an_error_stays_one(void **state)
{
    (void)state;
    step_data d = make_data();
    image_case c;
    shardc_error why = {.status = SHARDC_OK};
    have_gpus(1);
    shardc_executable *program = cuda_step_program(&c, 1, 1);
    shardc_session *session = session_of(program);
    d.ids[1] = -1;
    shardc_feed_value feeds[] = {{"ids", d.ids, sizeof d.ids, NULL}, {"x", d.x, sizeof d.x, NULL}};
    for (int run = 0; run < 3; run++) {
        assert_int_equal(shardc_session_step(session, feeds, 2, NULL, 0, &why), SHARDC_ERROR_DATA);
        if (strstr(why.text, "id -1 is negative") == NULL || strstr(why.text, "graph") != NULL)
            fail_msg("%s", why.text);
    }
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

int main(void)
{
    stub = cuda_stub_open();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_goes_on_without),
        cmocka_unit_test(a_rank_goes_on_without),
        cmocka_unit_test(an_error_stays_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
