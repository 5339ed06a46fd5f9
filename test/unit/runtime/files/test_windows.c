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

static void epochs_follow_each_other(void **state)
{
    (void)state;
    /* 7 windows of 4 tokens, the 29th token is a target only, two are left over */
    sc_windows windows = sc_windows_find(31, 4, true, 9);
    assert_int_equal(windows.count, 7);
    for (uint64_t epoch = 0; epoch < 6; epoch++) {
        bool seen[7] = {false};
        for (uint64_t i = 0; i < 7; i++) {
            uint64_t token = sc_windows_at(&windows, epoch * 7 + i);
            assert_int_equal(token % 4, 0);
            assert_true(token + 4 < 31);
            assert_false(seen[token / 4]);
            seen[token / 4] = true;
        }
    }
}

static void the_last_window_is_whole(void **state)
{
    (void)state;
    assert_int_equal(sc_windows_find(9, 4, true, 0).count, 2);
    assert_int_equal(sc_windows_find(8, 4, true, 0).count, 1);
    assert_int_equal(sc_windows_find(8, 4, false, 0).count, 2);
    assert_int_equal(sc_windows_find(0, 4, true, 0).count, 0);
}

/* Every window is trained on once an epoch, or held out, whatever the sizes and shares. */
static void windows_are_held_out_or_read(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 2, 3, 100, 65535, 65536, 65537, 200000};
    static const double shares[] = {0, 1e-5, 0.01, 1.0 / 3, 0.5, 0.999};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
            sc_windows w = sc_windows_find(counts[c] * 3, 3, false, 7);
            uint8_t *seen = calloc(counts[c], 1);
            assert_non_null(seen);
            sc_windows_hold_out(&w, shares[s]);
            assert_true(w.held <= w.count);
            assert_true((double)w.held >= shares[s] * (double)w.count - 1e-6);
            assert_true((double)w.held <=
                        shares[s] * (double)w.count + (double)(w.count / SC_WINDOWS_BLOCK) + 1);
            for (uint64_t i = 0; i < w.held; i++)
                seen[sc_windows_held_at(&w, i) / 3]++;
            for (uint64_t i = 0; i < w.count - w.held; i++)
                seen[sc_windows_at(&w, w.count - w.held + i) / 3]++;
            for (uint64_t i = 0; i < w.count; i++)
                assert_int_equal(seen[i], 1);
            free(seen);
        }
    }
}

/* Another seed trains in another order, but holds out the same. */
static void the_seed_holds_out_nothing_else(void **state)
{
    (void)state;
    sc_windows a = sc_windows_find(1000, 1, false, 1), b = sc_windows_find(1000, 1, false, 2);
    sc_windows_hold_out(&a, 0.1);
    sc_windows_hold_out(&b, 0.1);
    uint32_t same = 0;
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(sc_windows_held_at(&a, i), sc_windows_held_at(&b, i));
        same += sc_windows_at(&a, i) == sc_windows_at(&b, i);
    }
    assert_true(same < 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_is_permuted),
        cmocka_unit_test(large_sizes_are_permuted),
        cmocka_unit_test(places_are_spread_evenly),
        cmocka_unit_test(seeds_and_epochs_differ),
        cmocka_unit_test(the_order_stays),
        cmocka_unit_test(epochs_follow_each_other),
        cmocka_unit_test(the_last_window_is_whole),
        cmocka_unit_test(windows_are_held_out_or_read),
        cmocka_unit_test(the_seed_holds_out_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
