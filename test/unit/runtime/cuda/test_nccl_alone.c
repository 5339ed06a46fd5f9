/* NCCL on one GPU: a world of one rank, and a group that is split from it. Every collective of the
 * runtime runs in it, launched, recorded as a graph and replayed, and gives what it was given. On
 * stubs of CUDA's libraries, and with the libraries themselves where there is a GPU
 * (scripts/gpu-check): kernels it has none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/cuda/nccl.h"
#include "test/unit/helpers/moving_case.h"
#include "test/unit/helpers/succeed.h"

enum { RUNS = 4 /* launched, recorded, replayed twice */, DEADLINE_MS = 60000 };

static image_case image;
static shardc_executable *program;
static shardc_session *session;

static const sc_cuda_rank *device(void)
{
    return session->ranks[0].device_state;
}

static void open_session(void)
{
    SUCCEED(shardc_session_new(program,
                               &(shardc_session_options){.threads = 1, .deadline_ms = DEADLINE_MS},
                               &session, &error));
}

static void the_world_opens(void **state)
{
    (void)state;
    int version = 0;
    setenv("SHARDC_NCCL_ALONE", "1", 1);
    program = moving_program(&image, true, 1);
    open_session();
    assert_non_null(device()->session->nccl.library);
    assert_ptr_equal(device()->comm, &sc_cuda_comm_nccl);
    assert_int_equal(device()->session->nccl.ncclGetVersion(&version), SC_NCCL_SUCCESS);
    print_message("NCCL %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
    const sc_nccl_rank *comms = device()->comm_state;
    assert_true(comms->is_open);
    assert_non_null(comms->groups[0]);
    assert_ptr_not_equal(comms->groups[0], *comms->world);
}

/* Of one rank every collective is a copy. In place it changes nothing. */
static void moves(void **state)
{
    static uint8_t x[2603 * 8], y[sizeof x];
    static uint64_t random = 1;
    const moving *m = *state;
    if (session == NULL)
        fail_msg("the world is not open");
    for (sc_dtype dtype = 0; dtype < SC_DTYPE_COUNT; dtype++) {
        uint32_t f = (uint32_t)dtype * MOVINGS + (uint32_t)(m - movings);
        int gives, gets;
        sizes_of(m->kind, 1, &gives, &gets);
        assert_int_equal(gives, gets);
        for (int run = 0; run < RUNS; run++) {
            size_t bytes = (size_t)gives * sc_dtypes[dtype].bytes;
            fill(dtype, x, (size_t)gives, &random);
            memset(y, 0xa5, sizeof y);
            shardc_feed_value feed = {"x", x, bytes, NULL};
            SUCCEED(shardc_session_run(session, f, &feed, 1,
                                       (shardc_fetch_value[]){{0, y, bytes, NULL}}, 1, &error));
            size_t at = first_difference(dtype, x, y, (size_t)gives);
            if (at < (size_t)gives)
                fail_msg("%s, run %d: element %zu differs", sc_dtypes[dtype].name, run, at);
        }
        shardc_graph_report graphs;
        shardc_session_graphs(session, &graphs);
        if (graphs.refused > 0)
            fail_msg("%s", graphs.reason);
        assert_non_null(device()->graphs[f].exec);
        /* the graph has said that its collective began and that it ended */
        assert_int_equal(*device()->progress->word, 2);
    }
}

static void the_world_closes(void **state)
{
    (void)state;
    if (session == NULL)
        fail_msg("the world is not open");
    shardc_session_free(session);
    open_session(); /* and opens again */
    shardc_session_free(session);
    unsetenv("SHARDC_NCCL_ALONE");
    open_session();
    assert_null(device()->session->nccl.library);
    shardc_session_free(session);
    setenv("SHARDC_NCCL_ALONE", "yes", 1);
    shardc_error why;
    assert_int_equal(
        shardc_session_new(program, &(shardc_session_options){.threads = 1}, &session, &why),
        SHARDC_ERROR_ARGUMENT);
    assert_non_null(strstr(why.text, "SHARDC_NCCL_ALONE is 'yes'"));
    shardc_executable_free(program);
    sc_arena_free(&image.arena);
}

int main(void)
{
    struct CMUnitTest tests[MOVINGS + 2] = {cmocka_unit_test(the_world_opens)};
    static char names[MOVINGS][64];
    for (int m = 0; m < MOVINGS; m++) {
        const moving *of = &movings[m];
        snprintf(names[m], sizeof names[m], "%s%s%s%s", sc_collectives[of->kind].name,
                 of->reduce == SC_IMAGE_WHOLE ? "" : " of ",
                 of->reduce == SC_IMAGE_WHOLE ? "" : sc_image_reduce_names[of->reduce],
                 of->is_in_place ? ", in place" : "");
        tests[1 + m] = (struct CMUnitTest){names[m], moves, NULL, NULL, (void *)(uintptr_t)of};
    }
    tests[MOVINGS + 1] = (struct CMUnitTest)cmocka_unit_test(the_world_closes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
