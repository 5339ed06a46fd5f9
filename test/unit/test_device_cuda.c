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

int main(void)
{
    standin = cuda_standin_open();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
