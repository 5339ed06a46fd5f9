/* The device `cuda` on stand-ins of its libraries: what it puts on streams gives what a processor gives, in any order that streams leave
 * open; what a machine lacks is said before anything is allocated; and no call that fails ends in less than an error with its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "support/rng.h"
#include "test/unit/cuda_case.h"

#define SUCCEED(call)                                                                                                                      \
    do {                                                                                                                                   \
        sc_error error = {.status = SC_OK};                                                                                                \
        if ((call) != SC_OK)                                                                                                               \
            fail_msg("%s", error.text);                                                                                                    \
    } while (0)

static cuda_standin standin;

static sc_session *session_of(const sc_executable *program)
{
    sc_session *session = NULL;
    SUCCEED(sc_session_new(program, &(sc_session_options){.threads = 1}, &session, &error));
    return session;
}

/* Nothing is left, nothing was written where nobody should. */
static void expect_clean(void)
{
    char text[1024];
    if (!standin.sc_standin_check(text, sizeof text))
        fail_msg("%s", text);
    if (standin.sc_standin_live(text, sizeof text) != 0)
        fail_msg("left: %s", text);
}

/* ---- steps ---- */

/* Small integers, so that every sum is exact and no order of terms shows. */
static float number(int i)
{
    return (float)((i * 7 + 3) % 11 - 5);
}

typedef struct step_data {
    float x[STEP_BATCHES * STEP_ROWS * STEP_D], w[STEP_D * STEP_H], bias[STEP_H];
    int32_t ids[STEP_BATCHES * STEP_ROWS];
    float y[STEP_BATCHES * STEP_ROWS * STEP_H], total; /* what is expected */
} step_data;

static step_data make_data(void)
{
    step_data d = {.total = 0};
    for (int i = 0; i < STEP_BATCHES * STEP_ROWS * STEP_D; i++)
        d.x[i] = number(i);
    for (int i = 0; i < STEP_D * STEP_H; i++)
        d.w[i] = number(i + 5);
    for (int i = 0; i < STEP_H; i++)
        d.bias[i] = number(i + 2);
    for (int i = 0; i < STEP_BATCHES * STEP_ROWS; i++) {
        d.ids[i] = i % 4;
        for (int j = 0; j < STEP_H; j++) {
            float *y = &d.y[i * STEP_H + j];
            for (int k = 0; k < STEP_D; k++)
                *y += d.x[i * STEP_D + k] * d.w[k * STEP_H + j];
            d.total += (*y + d.bias[j]) * (float)d.ids[i];
        }
    }
    return d;
}

static void set_weights(sc_session *session, const step_data *d)
{
    SUCCEED(sc_session_set_state(session, sc_executable_find_state(session->program, "w"), d->w, NULL, &error));
    SUCCEED(sc_session_set_state(session, sc_executable_find_state(session->program, "bias"), d->bias, "f32", &error));
}

static float run_step(sc_session *session, const step_data *d)
{
    float total = NAN;
    sc_feed_value feeds[] = {{"ids", d->ids, "i32"}, {"x", d->x, NULL}};
    SUCCEED(sc_session_step(session, feeds, 2, (sc_fetch_value[]){{0, &total, NULL}}, 1, &error));
    return total;
}

static void a_step_runs(void **state)
{
    (void)state;
    static const uint64_t meshes[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 2}};
    step_data d = make_data();
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++) {
        for (uint64_t seed = 0; seed < 8; seed++) {
            image_case c;
            standin.sc_standin_seed(seed);
            sc_executable *program = cuda_step_program(&c, meshes[m][0], meshes[m][1]);
            sc_session *session = session_of(program);
            set_weights(session, &d);
            for (int run = 0; run < 4; run++)
                assert_true(run_step(session, &d) == d.total);
            sc_session_free(session);
            sc_executable_free(program);
            sc_arena_free(&c.arena);
            expect_clean();
        }
    }
}

static void steps_give_whole_values(void **state)
{
    (void)state;
    step_data d = make_data();
    image_case c;
    sc_executable *program = cuda_step_program(&c, 2, 2);
    sc_session *session = session_of(program);
    float y[STEP_ROWS * STEP_H], w[STEP_D * STEP_H], total;
    set_weights(session, &d);
    SUCCEED(sc_session_get_state(session, sc_executable_find_state(program, "w"), w, NULL, &error));
    assert_memory_equal(w, d.w, sizeof w);
    assert_null(sc_session_local_state(session, 0, 0));
    for (int batch = 0; batch < STEP_BATCHES; batch++) {
        sc_feed_value feeds[] = {{"x", d.x + batch * STEP_ROWS * STEP_D, NULL}, {"ids", d.ids + batch * STEP_ROWS, NULL}};
        SUCCEED(sc_session_run(session, sc_executable_find_func(program, "micro"), feeds, 2, (sc_fetch_value[]){{0, y, NULL}}, 1, &error));
        assert_memory_equal(y, d.y + batch * STEP_ROWS * STEP_H, sizeof y);
    }
    SUCCEED(sc_session_get_state(session, sc_executable_find_state(program, "total"), &total, NULL, &error));
    assert_true(total == d.total);
    sc_session_free(session);
    sc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

static void expect_parameters(sc_session *session, uint64_t dp, uint64_t tp, uint64_t seed, uint64_t step, uint32_t micro)
{
    int64_t seen[8][4];
    uint32_t key[2];
    sc_session_set_random(session, seed, step, micro);
    sc_rng_key(seed, sc_fnv1a64("a.path", 6), key);
    SUCCEED(sc_session_run(session, sc_executable_find_func(session->program, "who"), NULL, 0, (sc_fetch_value[]){{0, seen, NULL}}, 1, &error));
    for (uint64_t rank = 0; rank < dp * tp; rank++) {
        assert_int_equal(seen[rank][0], rank / tp * 10 + rank % tp);
        assert_true((uint64_t)seen[rank][1] == ((uint64_t)key[1] << 32 | key[0]));
        assert_int_equal(seen[rank][2], step & UINT32_MAX);
        assert_int_equal(seen[rank][3], micro);
    }
}

/* A graph keeps parameters as they were: what changes from call to call must not be kept. */
static void parameters_change_between_calls(void **state)
{
    (void)state;
    static const uint64_t meshes[][2] = {{1, 1}, {2, 2}};
    for (int m = 0; m < 2; m++) {
        image_case c;
        sc_executable *program = cuda_step_program(&c, meshes[m][0], meshes[m][1]);
        sc_session *session = session_of(program);
        for (uint64_t i = 0; i < 24; i++)
            expect_parameters(session, meshes[m][0], meshes[m][1], 42 + i / 8, 0x1234567890u + i, (uint32_t)(i / 2 % 2));
        sc_session_free(session);
        sc_executable_free(program);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

/* From the third run on at the latest; not when instructions are measured. */
static void functions_become_graphs(void **state)
{
    (void)state;
    step_data d = make_data();
    for (int is_measured = 0; is_measured < 2; is_measured++) {
        image_case c;
        sc_session *session = NULL;
        sc_executable *program = cuda_step_program(&c, 1, 1);
        SUCCEED(sc_session_new(program, &(sc_session_options){.threads = 1, .profile = is_measured == 1}, &session, &error));
        set_weights(session, &d);
        uint64_t before = standin.sc_standin_replays(), launches = standin.sc_standin_launches();
        for (int run = 0; run < 5; run++)
            assert_true(run_step(session, &d) == d.total);
        assert_int_equal(standin.sc_standin_replays() - before, is_measured ? 0 : 4 * (STEP_BATCHES + 1));
        assert_int_equal(standin.sc_standin_launches() - launches, 5 * (2 * STEP_BATCHES + 1));
        sc_session_free(session);
        sc_executable_free(program);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

static void a_check_that_fails_is_said(void **state)
{
    (void)state;
    step_data d = make_data();
    for (uint64_t seed = 0; seed < 6; seed++) {
        image_case c;
        standin.sc_standin_seed(seed);
        sc_executable *program = cuda_step_program(&c, 2, 1);
        sc_session *session = session_of(program);
        set_weights(session, &d);
        for (int run = 0; run < 3; run++) {
            sc_error why = {.status = SC_OK};
            step_data bad = d;
            sc_feed_value feeds[] = {{"ids", bad.ids, NULL}, {"x", bad.x, NULL}};
            bad.ids[5] = -7; /* rank 1 has rows 4 to 6: the second check, then the first, and of its values one */
            bad.ids[4] = 100;
            bad.ids[6] = -9;
            assert_int_equal(sc_session_step(session, feeds, 2, NULL, 0, &why), SC_ERROR_DATA);
            assert_string_equal(why.text, "rows of layers[0]: id -9 is negative (rank 1)");
            set_weights(session, &d);
            SUCCEED(sc_session_set_state(session, sc_executable_find_state(program, "total"), &(float){0}, NULL, &error));
            assert_true(run_step(session, &d) == d.total); /* the session goes on */
        }
        sc_session_free(session);
        sc_executable_free(program);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

/* ---- what a machine lacks ---- */

typedef struct refusal {
    const char *variable, *value;
    uint64_t ranks;
    sc_status status;
    const char *text; /* in the message */
} refusal;

static void refusals_come_first(void **state)
{
    (void)state;
    static const refusal refusals[] = {
        {"SHARDC_STANDIN_CARDS", "0", 1, SC_ERROR_UNAVAILABLE, "there is no card that CUDA's driver would use: cuInit"},
        {"SHARDC_STANDIN_CAPABILITY", "7.5", 1, SC_ERROR_UNAVAILABLE,
         "card 0 (Stand-in 0) has compute capability 7.5; the program, for cuda:sm_80, needs 8.0"},
        {"SHARDC_STANDIN_DRIVER", "11020", 1, SC_ERROR_UNAVAILABLE, "the driver is of CUDA 11.2; a newer one is needed"},
        {"SHARDC_STANDIN_MEMORY", "60", 2, SC_ERROR_MEMORY, "2 ranks on card 0 (Stand-in 0) need"},
        {"SHARDC_STANDIN_MODE", "2", 1, SC_ERROR_UNAVAILABLE, "prohibits its use"},
        {"SHARDC_STANDIN_SHARED", "40", 1, SC_ERROR_UNAVAILABLE, "gives a block 40960 bytes of shared memory; kernel k_add needs 50000"},
        {"SHARDC_STANDIN_CARDS", "2", 4, SC_ERROR_UNAVAILABLE, "4 ranks on 2 cards: have a card for each rank, or one for all"},
        {"SHARDC_STANDIN_CARDS", "1", 32, SC_ERROR_UNAVAILABLE, "32 ranks on one card are more than 16"},
        {"SHARDC_LIBCUDA", "/nowhere/libcuda.so", 1, SC_ERROR_UNAVAILABLE, "what SHARDC_LIBCUDA names does not load"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *r = &refusals[i];
        image_case c;
        sc_session *session = NULL;
        sc_error error = {.status = SC_OK};
        char *before = getenv(r->variable) == NULL ? NULL : strdup(getenv(r->variable));
        cuda_begin(&c, r->ranks, 1);
        step_image(&c);
        for (uint32_t k = 0; k < c.kernels.count; k++)
            cuda_stage(&c, k, 1, 32, strcmp(c.kernels.data[k].symbol, "k_add") == 0 ? 50000 : 0);
        c.image.arena_bytes = r->status == SC_ERROR_MEMORY ? 40 << 20 : c.image.arena_bytes;
        cuda_object(&c, "", "cubin", 80);
        sc_executable *program = image_executable(&c);
        uint64_t made = standin.sc_standin_allocated();
        setenv(r->variable, r->value, 1);
        sc_status status = sc_session_new(program, NULL, &session, &error);
        if (before != NULL)
            setenv(r->variable, before, 1);
        else
            unsetenv(r->variable);
        free(before);
        assert_int_equal(status, r->status);
        assert_null(session);
        if (strstr(error.text, r->text) == NULL)
            fail_msg("%s=%s: %s", r->variable, r->value, error.text);
        assert_true(made == standin.sc_standin_allocated());
        sc_executable_free(program);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

/* ---- calls that fail ---- */

/* A life of a session: SC_OK, or what was wrong. */
static sc_status live(const sc_executable *program, const step_data *d, sc_error *error)
{
    sc_session *session = NULL;
    float total = NAN;
    sc_feed_value feeds[] = {{"ids", d->ids, "i32"}, {"x", d->x, NULL}};
    sc_status status = sc_session_new(program, &(sc_session_options){.threads = 1, .deadline_ms = 20000}, &session, error);
    if (status == SC_OK)
        status = sc_session_set_state(session, sc_executable_find_state(program, "w"), d->w, NULL, error);
    if (status == SC_OK)
        status = sc_session_set_state(session, sc_executable_find_state(program, "bias"), d->bias, NULL, error);
    for (int run = 0; status == SC_OK && run < 3; run++) {
        status = sc_session_step(session, feeds, 2, (sc_fetch_value[]){{0, &total, NULL}}, 1, error);
        if (status == SC_OK && total != d->total)
            fail_msg("a call failed, and the result is wrong: %g", (double)total);
    }
    sc_session_free(session);
    return status;
}

/* What nobody can do anything about: the end of things. */
static bool is_cleanup(const char *function)
{
    static const char *const names[] = {"cuMemFree_v2",     "cuMemFreeHost",  "cuModuleUnload",     "cuStreamDestroy_v2",
                                        "cuEventDestroy_v2", "cuGraphDestroy", "cuGraphExecDestroy", "cuDevicePrimaryCtxRelease_v2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], function) == 0)
            return true;
    }
    return strstr(function, "Destroy") != NULL;
}

/* `result` is in range of both libraries'. */
static void every_call_fails_in_turn(uint64_t dp, uint64_t tp, unsigned result, uint64_t stride)
{
    step_data d = make_data();
    image_case c;
    sc_executable *program = cuda_step_program(&c, dp, tp);
    sc_error error = {.status = SC_OK};
    standin.sc_standin_seed(0);
    standin.sc_standin_fail(NULL, 0, 0);
    assert_int_equal(live(program, &d, &error), SC_OK);
    uint64_t count = standin.sc_standin_calls(), failed = 0;
    assert_true(count > 50);
    for (uint64_t n = 1; n <= count; n += stride) {
        char left[256];
        error = (sc_error){.status = SC_OK};
        standin.sc_standin_seed(0);
        standin.sc_standin_fail(NULL, n, result);
        sc_status status = live(program, &d, &error);
        const char *function = standin.sc_standin_failed();
        if (function == NULL)
            continue; /* threads made fewer calls this time */
        bool ends = is_cleanup(function) || n + 100 * dp * tp > count;
        failed += status != SC_OK;
        if (status == SC_OK && !ends)
            fail_msg("call %llu, of %s, failed and nobody noticed", (unsigned long long)n, function);
        if (status != SC_OK && strstr(error.text, function) == NULL)
            fail_msg("call %llu, of %s, failed; the error is: %s", (unsigned long long)n, function, error.text);
        uint32_t alive = standin.sc_standin_live(left, sizeof left);
        if (alive != 0 && !ends)
            fail_msg("call %llu, of %s, failed; left: %s", (unsigned long long)n, function, left);
        standin.sc_standin_reset();
    }
    standin.sc_standin_fail(NULL, 0, 0);
    assert_true(failed > count / stride / 2);
    assert_int_equal(live(program, &d, &error), SC_OK);
    sc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

static void one_rank_survives_every_call_that_fails(void **state)
{
    (void)state;
    every_call_fails_in_turn(1, 1, 999, 1);
    every_call_fails_in_turn(1, 1, 2, 3);
}

static void ranks_survive_calls_that_fail(void **state)
{
    (void)state;
    every_call_fails_in_turn(2, 1, 999, 3);
}

int main(void)
{
    standin = cuda_standin_open();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_runs),
        cmocka_unit_test(steps_give_whole_values),
        cmocka_unit_test(parameters_change_between_calls),
        cmocka_unit_test(functions_become_graphs),
        cmocka_unit_test(a_check_that_fails_is_said),
        cmocka_unit_test(refusals_come_first),
        cmocka_unit_test(one_rank_survives_every_call_that_fails),
        cmocka_unit_test(ranks_survive_calls_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
