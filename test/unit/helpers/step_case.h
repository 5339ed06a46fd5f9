/* The step of session_case.h and cuda_case.h through the API: its values, and what it gives for
 * them. After cmocka.h. */
#ifndef SHARDC_TEST_STEP_CASE_H
#define SHARDC_TEST_STEP_CASE_H

#include <math.h>

#include "test/unit/helpers/session_case.h"
#include "test/unit/helpers/succeed.h"

/* Small integers, so that every sum is exact and no order of terms shows. */
static inline float number(int i)
{
    return (float)((i * 7 + 3) % 11 - 5);
}

typedef struct step_data {
    float x[STEP_BATCHES * STEP_ROWS * STEP_D], w[STEP_D * STEP_H], bias[STEP_H];
    int32_t ids[STEP_BATCHES * STEP_ROWS];
    float y[STEP_BATCHES * STEP_ROWS * STEP_H], total; /* what is expected */
} step_data;

static inline step_data make_data(void)
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

static inline void set_weights(shardc_session *session, const step_data *d)
{
    SUCCEED(shardc_session_set_state(session, shardc_executable_find_state(session->program, "w"),
                                     d->w, sizeof d->w, NULL, &error));
    SUCCEED(shardc_session_set_state(session,
                                     shardc_executable_find_state(session->program, "bias"),
                                     d->bias, sizeof d->bias, "f32", &error));
}

static inline float run_step(shardc_session *session, const step_data *d)
{
    float total = NAN;
    shardc_feed_value feeds[] = {{"ids", d->ids, sizeof d->ids, "i32"},
                                 {"x", d->x, sizeof d->x, NULL}};
    SUCCEED(shardc_session_step(
        session, feeds, 2, (shardc_fetch_value[]){{0, &total, sizeof total, NULL}}, 1, &error));
    return total;
}

#endif
