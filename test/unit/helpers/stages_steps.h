/* Sessions of the programs of stages_case.h: their steps give what is expected. */
#ifndef SHARDC_TEST_STAGES_STEPS_H
#define SHARDC_TEST_STAGES_STEPS_H

#include "test/unit/helpers/stages_case.h"
#include "test/unit/helpers/succeed.h"

enum { STEPS = 3 };

static inline int64_t value_of(uint32_t i)
{
    return (int64_t)(i * 7 + 3) % 11;
}

/* An entry of several micro-batches takes and gives the whole batch. */
static inline void check_turns(shardc_session *session, const stages_case *s)
{
    int64_t seeds[8 * STAGES_MOST_VALUES], rows[8 * STAGES_MOST_VALUES], sum[STAGES_MOST_VALUES],
        mean[STAGES_MOST_VALUES], one[STAGES_MOST_VALUES];
    const uint32_t length = STAGES_LENGTH * (uint32_t)s->others, count = s->batches * length,
                   added = s->count * (s->count - 1) / 2;
    const size_t bytes = length * sizeof *sum;
    uint32_t turns = shardc_executable_find_func(session->program, "turns");
    shardc_tensor_info info;
    shardc_executable_input(session->program, turns, 0, &info);
    assert_int_equal(info.count, count);
    assert_int_equal(info.dims[0].size, count);
    assert_int_equal(info.batch_dim, -1);
    shardc_executable_output(session->program, turns, 0, &info);
    assert_int_equal(info.count, count);
    shardc_executable_output(session->program, turns, 1, &info);
    assert_int_equal(info.count, length);
    for (uint32_t i = 0; i < count; i++)
        seeds[i] = (int64_t)s->batches * (i * i % 17); /* their mean is an integer */
    const shardc_fetch_value fetches[] = {{0, rows, s->batches * bytes, NULL},
                                          {1, sum, bytes, NULL},
                                          {2, mean, bytes, NULL},
                                          {3, one, bytes, NULL}};
    SUCCEED(shardc_session_run(session, turns,
                               &(shardc_feed_value){"seeds", seeds, s->batches * bytes, NULL}, 1,
                               fetches, 4, &error));
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(rows[i], seeds[i] + added);
    for (uint32_t i = 0; i < length; i++) {
        int64_t all = 0;
        for (uint32_t b = 0; b < s->batches; b++)
            all += rows[b * length + i];
        assert_int_equal(sum[i], all);
        assert_int_equal(mean[i] * s->batches, all);
        assert_int_equal(one[i], rows[i]);
    }
}

static inline void check_step(shardc_session *session, const stages_case *s, uint64_t step)
{
    int64_t x[8 * STAGES_MOST_VALUES], last[STAGES_MOST_VALUES], given[STAGES_MOST_VALUES],
        acc[STAGES_MOST][STAGES_MOST_VALUES], expected[STAGES_MOST_VALUES];
    size_t length = (size_t)(STAGES_LENGTH * s->others), bytes = length * sizeof *x;
    shardc_fetch_value fetches[STAGES_MOST + 1];
    int64_t sums[STAGES_MOST][STAGES_MOST_VALUES];
    for (uint32_t i = 0; i < s->batches * length; i++)
        x[i] = value_of(i + (uint32_t)step);
    stages_expect(s, step, x, sums, expected);
    for (uint32_t k = 0; k < s->count; k++)
        fetches[k] = (shardc_fetch_value){k, acc[k], bytes, NULL};
    fetches[s->count] = (shardc_fetch_value){s->count, last, bytes, NULL};
    shardc_feed_value feed = {"x", x, s->batches * bytes, NULL};
    SUCCEED(shardc_session_step(session, &feed, 1, fetches, s->count + 1, &error));
    for (uint32_t k = 0; k < s->count; k++)
        assert_memory_equal(acc[k], sums[k], bytes);
    assert_memory_equal(last, expected, bytes);
    int64_t seed[STAGES_MOST_VALUES];
    for (uint32_t i = 0; i < length; i++)
        seed[i] = i;
    uint32_t turn = shardc_executable_find_func(session->program, "turn");
    SUCCEED(shardc_session_run(session, turn, &(shardc_feed_value){"seed", seed, bytes, NULL}, 1,
                               &(shardc_fetch_value){0, given, bytes, NULL}, 1, &error));
    for (uint32_t i = 0; i < length; i++)
        assert_int_equal(given[i], i + s->count * (s->count - 1) / 2);
    check_turns(session, s);
}

/* Of each stage's w: 1, and one more for each step. */
static inline void check_weights(shardc_session *session, const stages_case *s, int64_t expected)
{
    for (uint32_t k = 0; k < s->count; k++) {
        char path[16];
        int64_t w = 0;
        snprintf(path, sizeof path, "w%u", k);
        SUCCEED(shardc_session_get_state(session,
                                         shardc_executable_find_state(session->program, path), &w,
                                         sizeof w, NULL, &error));
        assert_int_equal(w, expected);
    }
}

/* Whoever's check fails, of the last micro-batch: nothing is updated, and the next step is right.
 */
static inline void check_failed_step(shardc_session *session, const stages_case *s)
{
    shardc_error why = {.status = SHARDC_OK};
    int64_t x[8 * STAGES_MOST_VALUES] = {0}, zeros[STAGES_MOST_VALUES] = {0};
    const size_t length = (size_t)(STAGES_LENGTH * s->others), bytes = length * sizeof *x;
    x[s->batches * length - 1] = -9;
    shardc_feed_value feed = {"x", x, s->batches * bytes, NULL};
    assert_int_equal(shardc_session_step(session, &feed, 1, NULL, 0, &why), SHARDC_ERROR_DATA);
    assert_non_null(strstr(why.text, "value -9 is negative"));
    check_weights(session, s, 1);
    for (uint32_t k = 0; k < s->count; k++) {
        char path[16];
        snprintf(path, sizeof path, "acc%u", k);
        SUCCEED(shardc_session_set_state(session,
                                         shardc_executable_find_state(session->program, path),
                                         zeros, bytes, NULL, &error));
    }
    check_step(session, s, 0);
}

typedef struct shape {
    uint32_t count, axis, batches;
    uint64_t others;
} shape;

static const shape shapes[] = {{2, 0, 1, 1}, {2, 1, 2, 1}, {2, 0, 5, 2}, {2, 1, 5, 2},
                               {3, 0, 4, 1}, {3, 1, 7, 2}, {4, 0, 1, 1}, {4, 1, 6, 2}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

#endif
