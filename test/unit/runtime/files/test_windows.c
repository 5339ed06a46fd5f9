/* The order in which training sees a file: each window once an epoch, whatever the sizes; the same
 * for everybody who counts the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/files/windows.h"
#include "support/hash.h"
#include "support/rng.h"

static uint64_t draw(uint64_t index, uint64_t below)
{
    return (uint64_t)(sc_rng_uniform(11, sc_fnv1a64("test", 4), index) * (double)below);
}

static void every_size_is_permuted(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < 400; trial++) {
        uint64_t count = trial < 130 ? trial + 1 : 1 + draw(3 * trial, 5000),
                 seed = draw(3 * trial + 1, 1000), epoch = trial % 3;
        bool *seen = calloc(count, sizeof *seen);
        assert_non_null(seen);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t at = sc_permute(seed, epoch, count, i);
            assert_true(at < count);
            assert_false(seen[at]);
            seen[at] = true;
        }
        free(seen);
    }
}

/* Large ones cannot be listed: neighbours stay inside and apart. */
static void large_sizes_are_permuted(void **state)
{
    (void)state;
    static const uint64_t counts[] = {((uint64_t)1 << 32) + 1, (uint64_t)1 << 62, UINT64_MAX};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        uint64_t last = 0;
        for (uint64_t i = 0; i < 1000; i++) {
            uint64_t at = sc_permute(5, 0, counts[c], counts[c] - 1 - i);
            assert_true(at < counts[c]);
            assert_true(i == 0 || at != last);
            last = at;
        }
    }
}

/* Over all (epoch, index), a place is hit as often as chance would have it: chi-squared stays
 * within 6 sigma of its mean. */
static void places_are_spread_evenly(void **state)
{
    (void)state;
    enum { COUNT = 100, EPOCHS = 20000 };
    static uint32_t hits[COUNT];
    double chi = 0;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        hits[sc_permute(3, epoch, COUNT, 7)]++;
    for (int i = 0; i < COUNT; i++)
        chi += pow(hits[i] - (double)EPOCHS / COUNT, 2) / ((double)EPOCHS / COUNT);
    assert_true(fabs(chi - (COUNT - 1)) < 6 * sqrt(2.0 * (COUNT - 1)));
}

static void seeds_and_epochs_differ(void **state)
{
    (void)state;
    uint32_t same_seed = 0, same_epoch = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        same_seed += sc_permute(1, 0, 1000, i) == sc_permute(2, 0, 1000, i);
        same_epoch += sc_permute(1, 0, 1000, i) == sc_permute(1, 1, 1000, i);
    }
    assert_true(same_seed < 10 && same_epoch < 10);
}

/* The order is part of what a run means: it may not change from version to version. */
static void the_order_stays(void **state)
{
    (void)state;
    static const uint64_t first[] = {537, 164, 990, 555, 111, 926, 490, 412};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        assert_int_equal(sc_permute(0, 0, 1000, i), first[i]);
}

static void batches_go_on_over_epochs(void **state)
{
    (void)state;
    sc_windows windows;
    char error[256];
    /* 7 windows of 4 tokens, the 29th token is a target only, two are left over; the third batch of
     * 3 holds windows of two epochs */
    assert_true(sc_windows_find(31, 4, true, 3, 9, &windows, error, sizeof error));
    assert_int_equal(windows.count, 7);
    for (uint64_t epoch = 0; epoch < 6; epoch++) {
        bool seen[7] = {false};
        for (uint64_t i = 0; i < 7; i++) {
            uint64_t place = epoch * 7 + i, token = sc_windows_at(&windows, place / 3, place % 3);
            assert_int_equal(token % 4, 0);
            assert_true(token + 4 < 31);
            assert_false(seen[token / 4]);
            seen[token / 4] = true;
        }
    }
}

/* As many rows a step or fewer: the same windows one after the other. */
static void rows_do_not_change_the_order(void **state)
{
    (void)state;
    sc_windows narrow, wide;
    char error[256];
    assert_true(sc_windows_find(1000, 3, false, 1, 4, &narrow, error, sizeof error));
    assert_true(sc_windows_find(1000, 3, false, 8, 4, &wide, error, sizeof error));
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(sc_windows_at(&narrow, i, 0), sc_windows_at(&wide, i / 8, i % 8));
}

static void short_files_are_refused(void **state)
{
    (void)state;
    sc_windows windows;
    char error[256];
    assert_true(sc_windows_find(9, 4, true, 2, 0, &windows, error, sizeof error));
    assert_false(sc_windows_find(8, 4, true, 2, 0, &windows, error, sizeof error));
    assert_string_equal(error,
                        "8 tokens hold 1 of the 2 windows (5 tokens each) that one batch takes");
    assert_true(sc_windows_find(8, 4, false, 2, 0, &windows, error, sizeof error));
    assert_false(sc_windows_find(0, 4, true, 1, 0, &windows, error, sizeof error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_is_permuted),
        cmocka_unit_test(large_sizes_are_permuted),
        cmocka_unit_test(places_are_spread_evenly),
        cmocka_unit_test(seeds_and_epochs_differ),
        cmocka_unit_test(the_order_stays),
        cmocka_unit_test(batches_go_on_over_epochs),
        cmocka_unit_test(rows_do_not_change_the_order),
        cmocka_unit_test(short_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
