/* Ranks of one process on GPUs, on stubs of CUDA's libraries: those that share a GPU and those that
 * have one each, with NCCL between them, move what CPUs move; a session goes on after an error; and
 * no call that fails ends in less than an error with its name (`test_cuda_ranks all`: each call of
 * a life, one at a time). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/helpers/cuda_steps.h"
#include "test/unit/helpers/moving_case.h"

static bool is_thorough; /* test_cuda_ranks all */

/* ---- collectives ---- */

static void expect_moves(bool share)
{
    static uint8_t x[MOST_RANKS * 2603 * 8], ours[sizeof x], theirs[sizeof x];
    uint64_t random = 1;
    for (int n = 1; n <= MOST_RANKS; n *= 2) {
        image_case cpu, cuda;
        have_gpus(share ? 1 : (uint32_t)n);
        shardc_executable *programs[2] = {moving_program(&cpu, false, n),
                                          moving_program(&cuda, true, n)};
        shardc_session *sessions[2] = {session_of(programs[0]), session_of(programs[1])};
        for (uint64_t seed = 0; seed < 3; seed++) {
            stub.sc_stub_seed(seed + 3 * (uint64_t)n);
            for (uint32_t f = 0; f < SC_DTYPE_COUNT * MOVINGS; f++) {
                sc_dtype dtype = (sc_dtype)(f / MOVINGS);
                int gives, gets;
                sizes_of(movings[f % MOVINGS].kind, n, &gives, &gets);
                size_t size = sc_dtypes[dtype].bytes;
                fill(dtype, x, (size_t)(n * gives), &random);
                shardc_feed_value feed = {"x", x, (size_t)(n * gives) * size, NULL};
                SUCCEED(shardc_session_run(sessions[0], f, &feed, 1,
                                           (shardc_fetch_value[]){{0, theirs, sizeof theirs, NULL}},
                                           1, &error));
                SUCCEED(shardc_session_run(sessions[1], f, &feed, 1,
                                           (shardc_fetch_value[]){{0, ours, sizeof ours, NULL}}, 1,
                                           &error));
                size_t count = (size_t)(n * gets),
                       at = first_difference(dtype, ours, theirs, count);
                if (at < count)
                    fail_msg("%s of %d ranks, seed %d: element %zu differs",
                             programs[1]->image->funcs[f].name, n, (int)seed, at);
            }
        }
        for (int i = 0; i < 2; i++) {
            shardc_session_free(sessions[i]);
            shardc_executable_free(programs[i]);
        }
        sc_arena_free(&cpu.arena);
        sc_arena_free(&cuda.arena);
        expect_clean();
    }
}

static void ranks_that_share_a_gpu_move_the_same(void **state)
{
    (void)state;
    expect_moves(true);
}

static void ranks_with_a_gpu_each_move_the_same(void **state)
{
    (void)state;
    expect_moves(false);
}

/* A group may be of all ranks in another order than theirs, which for some is the same. */
static shardc_executable *gather_program(image_case *c, const char *target)
{
    image_begin(c, 2, 3);
    c->image.target = target;
    uint32_t groups[] = {image_group(c, "tp", "dp"), image_group(c, "dp", "tp"),
                         image_group(c, "tp", NULL), image_group(c, "dp", NULL)};
    static const int64_t sizes[] = {6, 6, 3, 2};
    for (int g = 0; g < 4; g++) {
        uint32_t gather = image_collective(c, SC_IMAGE_ALL_GATHER, SC_IMAGE_WHOLE, groups[g],
                                           SC_DTYPE_i32, sizes[g]);
        uint32_t x = image_input(c, "x", "i32[A=2@dp, B=3@tp]", -1);
        uint32_t y = image_buffer(c, SC_BUFFER_COMM, sizes[g] * 4, "y");
        image_move(c, gather, x, y);
        image_output(c, "y", sc_arena_printf(&c->arena, "i32[A=2@dp, B=3@tp, K=%d]", (int)sizes[g]),
                     y);
        image_func(c, sc_arena_printf(&c->arena, "gather_%d", g));
    }
    if (strcmp(target, "cpu") != 0)
        cuda_object(c, "", "cubin", 80);
    return image_executable(c);
}

static void groups_are_of_any_order(void **state)
{
    (void)state;
    static const int32_t x[6] = {10, 11, 12, 20, 21, 22};
    image_case cpu, cuda;
    have_gpus(6);
    shardc_executable *programs[2] = {gather_program(&cpu, "cpu"),
                                      gather_program(&cuda, "cuda:sm_80")};
    shardc_session *sessions[2] = {session_of(programs[0]), session_of(programs[1])};
    for (uint32_t run = 0; run < 3; run++) {
        for (uint32_t f = 0; f < 4; f++) {
            int32_t y[2][36] = {{0}, {1}};
            shardc_feed_value feed = {"x", x, sizeof x, NULL};
            for (int i = 0; i < 2; i++)
                SUCCEED(shardc_session_run(sessions[i], f, &feed, 1,
                                           (shardc_fetch_value[]){{0, y[i], sizeof y[i], NULL}}, 1,
                                           &error));
            assert_memory_equal(y[0], y[1], (f < 2 ? 36 : f == 2 ? 18 : 12) * sizeof(int32_t));
        }
    }
    for (int i = 0; i < 2; i++) {
        shardc_session_free(sessions[i]);
        shardc_executable_free(programs[i]);
    }
    sc_arena_free(&cpu.arena);
    sc_arena_free(&cuda.arena);
    expect_clean();
}

/* A gather over dp, which is waited for as soon as it has been started, and one over tp, which is
 * not: the first has the greatest priority. */
static void groups_have_streams_of_their_own(void **state)
{
    (void)state;
    enum { URGENT = -5, RANKS = 6 };
    image_case c;
    have_gpus(RANKS);
    image_begin(&c, 2, 3);
    c.image.target = "cuda:sm_80";
    uint32_t groups[] = {image_group(&c, "tp", NULL), image_group(&c, "dp", NULL)};
    uint32_t x = image_input(&c, "x", "i32[A=2@dp, B=3@tp]", -1), starts[2];
    for (int g = 0; g < 2; g++) {
        int64_t size = g == 0 ? 3 : 2;
        uint32_t gather = image_collective(&c, SC_IMAGE_ALL_GATHER, SC_IMAGE_WHOLE, groups[g],
                                           SC_DTYPE_i32, size);
        uint32_t y = image_buffer(&c, SC_BUFFER_COMM, size * 4, g == 0 ? "y" : "z");
        starts[g] = image_instr(&c, SC_INSTR_COLLECTIVE, gather, 2, (uint32_t[]){x, y});
        c.instrs.data[starts[g]].stream = 1;
        image_output(&c, g == 0 ? "y" : "z",
                     g == 0 ? "i32[A=2@dp, B=3@tp, K=3]" : "i32[A=2@dp, B=3@tp, K=2]", y);
    }
    image_instr(&c, SC_INSTR_FINISH, starts[1], 0, NULL);
    image_instr(&c, SC_INSTR_FINISH, starts[0], 0, NULL);
    image_func(&c, "gather");
    cuda_object(&c, "", "cubin", 80);
    shardc_executable *program = image_executable(&c);
    unsigned urgent = stub.sc_stub_streams(URGENT), others = stub.sc_stub_streams(URGENT + 1);
    shardc_session *session = session_of(program);
    assert_int_equal(stub.sc_stub_streams(URGENT) - urgent, RANKS);
    assert_int_equal(stub.sc_stub_streams(URGENT + 1) - others, RANKS);
    for (int run = 0; run < 3; run++) {
        static const int32_t in[6] = {10, 11, 12, 20, 21, 22};
        int32_t y[18] = {0}, z[12] = {0};
        SUCCEED(shardc_session_run(
            session, 0, &(shardc_feed_value){"x", in, sizeof in, NULL}, 1,
            (shardc_fetch_value[]){{0, y, sizeof y, NULL}, {1, z, sizeof z, NULL}}, 2, &error));
        for (int i = 0; i < 18; i++)
            assert_int_equal(y[i], 10 * (i / 9 + 1) + i % 3);
        for (int i = 0; i < 12; i++)
            assert_int_equal(z[i], 10 * (i % 2 + 1) + i / 2 % 3);
    }
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

/* ---- steps ---- */

static void ranks_with_a_gpu_each_step_alike(void **state)
{
    (void)state;
    static const uint64_t meshes[][2] = {{2, 1}, {1, 2}, {2, 2}, {4, 2}};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++) {
        have_gpus((uint32_t)(meshes[m][0] * meshes[m][1]));
        expect_steps(meshes[m][0], meshes[m][1], 4);
    }
}

/* Zeros are not sent to a GPU: it writes them, over what was there, and over nothing else. */
static void states_begin_as_zeros_again(void **state)
{
    (void)state;
    enum { D = 37, H = 22, COUNT = D * H };
    image_case c;
    float first[3][COUNT], values[COUNT], noise[COUNT];
    have_gpus(2);
    image_begin(&c, 1, 2);
    c.image.target = "cuda:sm_80";
    image_state(&c, SC_STATE_PARAM, "a", "f32[D=37, H=22@tp]", SC_INIT_NORMAL, 0.1, 0);
    image_state(&c, SC_STATE_OPT, "z", "f32[D=37, H=22@tp]", SC_INIT_ZEROS, 0, 0);
    image_state(&c, SC_STATE_OPT, "b", "f32[D=37, H=22]", SC_INIT_UNIFORM, 1, 2);
    cuda_object(&c, "", "cubin", 80);
    shardc_executable *program = image_executable(&c);
    shardc_session *session = session_of(program);
    for (int i = 0; i < COUNT; i++)
        noise[i] = (float)(i + 1);
    for (int run = 0; run < 2; run++) {
        SUCCEED(shardc_session_initialise(session, &error));
        for (uint32_t s = 0; s < 3; s++) {
            float *to = run == 0 ? first[s] : values;
            SUCCEED(shardc_session_get_state(session, s, to, sizeof values, NULL, &error));
            assert_memory_equal(to, first[s], sizeof values);
        }
        SUCCEED(shardc_session_set_state(session, 1, noise, sizeof noise, NULL, &error));
    }
    for (int i = 0; i < COUNT; i++)
        assert_true(first[1][i] == 0 && first[0][i] != 0 && first[2][i] >= 1);
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

/* An application has contexts of its own; sessions leave its thread as it was. */
static void the_callers_context_stays(void **state)
{
    (void)state;
    static sc_cuda api;
    sc_cu_context mine = NULL, seen = NULL;
    step_data d = make_data();
    float w[STEP_D * STEP_H];
    have_gpus(3);
    SUCCEED(sc_cuda_open(&api, &error) ? SHARDC_OK : error.status);
    assert_int_equal(api.cuInit(0), SC_CU_SUCCESS);
    assert_int_equal(api.cuDevicePrimaryCtxRetain(&mine, 2), SC_CU_SUCCESS);
    for (int i = 0; i < 2; i++) {
        image_case c;
        sc_cu_context set = i == 0 ? mine : NULL;
        shardc_executable *program = cuda_step_program(&c, 2, 1);
        assert_int_equal(api.cuCtxSetCurrent(set), SC_CU_SUCCESS);
        shardc_session *session = session_of(program);
        set_weights(session, &d);
        assert_true(run_step(session, &d) == d.total);
        SUCCEED(shardc_session_get_state(session, shardc_executable_find_state(program, "w"), w,
                                         sizeof w, NULL, &error));
        assert_int_equal(api.cuCtxGetCurrent(&seen), SC_CU_SUCCESS);
        assert_ptr_equal(seen, set);
        shardc_session_free(session);
        assert_int_equal(api.cuCtxGetCurrent(&seen), SC_CU_SUCCESS);
        assert_ptr_equal(seen, set);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
    assert_int_equal(api.cuDevicePrimaryCtxRelease_v2(2), SC_CU_SUCCESS);
    sc_cuda_close(&api);
    expect_clean();
}

/* Steps are graphs when a call fails on one rank; those of the communicators that go must not be
 * replayed with the new ones. */
static void a_session_goes_on_after_an_error(void **state)
{
    (void)state;
    step_data d = make_data();
    for (uint32_t gpus = 1; gpus <= 4; gpus += 3) {
        image_case c;
        have_gpus(gpus);
        stub.sc_stub_seed(3);
        shardc_executable *program = cuda_step_program(&c, 2, 2);
        shardc_session *session = session_of(program);
        set_weights(session, &d);
        for (int round = 0; round < 3; round++) {
            shardc_error why = {.status = SHARDC_OK};
            shardc_feed_value feeds[] = {{"ids", d.ids, sizeof d.ids, NULL},
                                         {"x", d.x, sizeof d.x, NULL}};
            for (int run = 0; run < 4; run++)
                assert_true(run_step(session, &d) == d.total);
            stub.sc_stub_fail(gpus == 1 ? "cuLaunchKernel" : "cuGraphLaunch", 2, 999);
            assert_int_equal(shardc_session_step(session, feeds, 2, NULL, 0, &why),
                             SHARDC_ERROR_DEVICE);
            if (strstr(why.text, stub.sc_stub_failed()) == NULL)
                fail_msg("%s failed: %s", stub.sc_stub_failed(), why.text);
            stub.sc_stub_fail(NULL, 0, 0);
            set_weights(session, &d);
            SUCCEED(shardc_session_set_state(session,
                                             shardc_executable_find_state(program, "total"),
                                             &(float){0}, sizeof(float), NULL, &error));
        }
        assert_true(run_step(session, &d) == d.total);
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

/* ---- calls that fail ---- */

/* A life of a session: SHARDC_OK, or what was wrong; and whether a call had been made to fail
 * before the session's end, without a graph's being refused for it. */
static shardc_status live(const shardc_executable *program, const step_data *d, bool *out_early,
                          shardc_error *error)
{
    shardc_session *session = NULL;
    float total = NAN;
    shardc_feed_value feeds[] = {{"ids", d->ids, sizeof d->ids, "i32"},
                                 {"x", d->x, sizeof d->x, NULL}};
    shardc_status status = shardc_session_new(
        program, &(shardc_session_options){.threads = 1, .deadline_ms = 20000}, &session, error);
    if (status == SHARDC_OK)
        status = shardc_session_set_state(session, shardc_executable_find_state(program, "w"), d->w,
                                          sizeof d->w, NULL, error);
    if (status == SHARDC_OK)
        status = shardc_session_set_state(session, shardc_executable_find_state(program, "bias"),
                                          d->bias, sizeof d->bias, NULL, error);
    for (int run = 0; status == SHARDC_OK && run < 3; run++) {
        status = shardc_session_step(
            session, feeds, 2, (shardc_fetch_value[]){{0, &total, sizeof total, NULL}}, 1, error);
        if (status == SHARDC_OK && total != d->total)
            fail_msg("a call failed, and the result is wrong: %g", (double)total);
    }
    shardc_graph_report graphs = {.refused = 0};
    if (session != NULL)
        shardc_session_graphs(session, &graphs);
    *out_early = stub.sc_stub_failed() != NULL && graphs.refused == 0;
    if (graphs.refused > 0 && strstr(graphs.reason, stub.sc_stub_failed()) == NULL)
        fail_msg("%s failed; the graph: %s", stub.sc_stub_failed(), graphs.reason);
    shardc_session_free(session);
    return status;
}

/* The n-th call of the function (NULL: of all) fails: the error has its name, and nothing is left.
 * `result` is in range of all libraries'. False: there was no such call. */
static bool survives(const shardc_executable *program, const step_data *d, const char *function,
                     uint64_t n, unsigned result, bool *out_noticed)
{
    char left[256];
    bool is_early;
    shardc_error error = {.status = SHARDC_OK};
    stub.sc_stub_seed(2);
    stub.sc_stub_fail(function, n, result);
    shardc_status status = live(program, d, &is_early, &error);
    const char *failed = stub.sc_stub_failed();
    *out_noticed = status != SHARDC_OK;
    if (failed == NULL)
        return false;
    bool ends = is_cleanup(failed) || !is_early;
    if (status == SHARDC_OK && !ends)
        fail_msg("call %llu, of %s, failed and nobody noticed", (unsigned long long)n, failed);
    if (status != SHARDC_OK && strstr(error.text, failed) == NULL)
        fail_msg("call %llu, of %s, failed; the error is: %s", (unsigned long long)n, failed,
                 error.text);
    if (stub.sc_stub_live(left, sizeof left) != 0 && !ends)
        fail_msg("call %llu, of %s, failed; left: %s", (unsigned long long)n, failed, left);
    stub.sc_stub_reset();
    return true;
}

static void every_call_fails_in_turn(uint64_t dp, uint64_t tp, unsigned result, uint64_t stride)
{
    step_data d = make_data();
    image_case c;
    shardc_executable *program = cuda_step_program(&c, dp, tp);
    shardc_error error = {.status = SHARDC_OK};
    bool noticed;
    stub.sc_stub_seed(2);
    stub.sc_stub_fail(NULL, 0, 0);
    assert_int_equal(live(program, &d, &noticed, &error), SHARDC_OK);
    uint64_t count = stub.sc_stub_calls(), failed = 0;
    assert_true(count > 50);
    for (uint64_t n = 1; n <= count; n += is_thorough ? 1 : stride)
        failed += survives(program, &d, NULL, n, result, &noticed) && noticed;
    stub.sc_stub_fail(NULL, 0, 0);
    assert_true(failed > count / (is_thorough ? 1 : stride) / 2);
    assert_int_equal(live(program, &d, &noticed, &error), SHARDC_OK);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

/* The first calls of each function of the libraries; of a thorough test, all of them. */
static void each_function_fails_in_turn(uint64_t dp, uint64_t tp, uint64_t most)
{
    static const char *const names[] = {
#define SYMBOL(result, name, ...) #name,
#include "runtime/cuda/libcublaslt.def"
#include "runtime/cuda/libcuda.def"
#include "runtime/cuda/libnccl.def"
#undef SYMBOL
    };
    step_data d = make_data();
    image_case c;
    shardc_executable *program = cuda_step_program(&c, dp, tp);
    uint32_t called = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool noticed;
        uint64_t n = 1;
        while ((is_thorough || n <= most) && survives(program, &d, names[i], n, 999, &noticed))
            n++;
        called += n > 1;
    }
    assert_true(called >= 45);
    stub.sc_stub_fail(NULL, 0, 0);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

static void one_rank_survives_every_call_that_fails(void **state)
{
    (void)state;
    have_gpus(1);
    every_call_fails_in_turn(1, 1, 999, 1);
    every_call_fails_in_turn(1, 1, 2, 3);
}

static void ranks_survive_calls_that_fail(void **state)
{
    (void)state;
    have_gpus(1);
    every_call_fails_in_turn(2, 1, 999, 3);
}

static void ranks_with_a_gpu_each_survive_calls_that_fail(void **state)
{
    (void)state;
    have_gpus(2);
    each_function_fails_in_turn(2, 1, 6);
}

int main(int argc, char **argv)
{
    is_thorough = argc > 1 && strcmp(argv[1], "all") == 0;
    stub = cuda_stub_open();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_share_a_gpu_move_the_same),
        cmocka_unit_test(ranks_with_a_gpu_each_move_the_same),
        cmocka_unit_test(groups_are_of_any_order),
        cmocka_unit_test(groups_have_streams_of_their_own),
        cmocka_unit_test(ranks_with_a_gpu_each_step_alike),
        cmocka_unit_test(states_begin_as_zeros_again),
        cmocka_unit_test(the_callers_context_stays),
        cmocka_unit_test(a_session_goes_on_after_an_error),
        cmocka_unit_test(one_rank_survives_every_call_that_fails),
        cmocka_unit_test(ranks_survive_calls_that_fail),
        cmocka_unit_test(ranks_with_a_gpu_each_survive_calls_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
