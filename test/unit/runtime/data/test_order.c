/* The order in which parts of a mixture are read: by weight, each part's windows once an epoch of
 * its own, the same wherever a run begins to count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "runtime/data/order.h"
#include "support/none.h"

enum { PARTS = 3, LENGTH = 4, ROWS = 5 };

static const uint64_t sizes[PARTS] = {403, 41, 1201};
static const double weights[PARTS] = {5, 1, 4};

static void make_data(sc_context *context, uint32_t parts, sc_data *out)
{
    *out = (sc_data){.spool = -1};
    for (uint32_t p = 0; p < parts; p++)
        *sc_vec_push(&context->arena, &out->parts) =
            (sc_data_part){.weight = weights[p], .count = sizes[p]};
}

static void check_weights(sc_context *context, void *user)
{
    (void)user;
    enum { DRAWS = 20000 };
    sc_data data;
    uint32_t taken[PARTS] = {0};
    make_data(context, PARTS, &data);
    sc_order order =
        sc_order_of(&data, SC_ORDER_TRAINED, LENGTH, true, ROWS, 0, 3, &context->arena);
    for (uint64_t row = 0; row < DRAWS; row++) {
        sc_order_row at = sc_order_row_at(&order, row);
        const sc_windows *w = &order.parts[at.part];
        assert_true(at.first + LENGTH < sizes[at.part]);
        assert_int_equal(at.first, sc_windows_at(w, taken[at.part]));
        taken[at.part]++;
    }
    for (uint32_t p = 0; p < PARTS; p++) {
        double share = weights[p] / 10, sigma = sqrt(DRAWS * share * (1 - share));
        assert_true(fabs(taken[p] - DRAWS * share) < 5 * sigma);
    }
}

/* Whoever begins at a later row, or goes back, finds the same. */
static void check_places(sc_context *context, void *user)
{
    (void)user;
    sc_data data;
    make_data(context, PARTS, &data);
    sc_order a = sc_order_of(&data, SC_ORDER_TRAINED, LENGTH, true, ROWS, 0.1, 8, &context->arena),
             b = sc_order_of(&data, SC_ORDER_TRAINED, LENGTH, true, ROWS, 0.1, 8, &context->arena);
    for (uint64_t row = 1000; row-- > 0;) {
        sc_order_row there = sc_order_row_at(&a, row), here = sc_order_row_at(&b, 999 - row);
        sc_order fresh =
            sc_order_of(&data, SC_ORDER_TRAINED, LENGTH, true, ROWS, 0.1, 8, &context->arena);
        sc_order_row again = sc_order_row_at(&fresh, row);
        assert_int_equal(there.part, again.part);
        assert_int_equal(there.first, again.first);
        again = sc_order_row_at(&a, 999 - row);
        assert_int_equal(here.part, again.part);
        assert_int_equal(here.first, again.first);
    }
}

/* What is held out fills a batch, and is read by nobody else. */
static void check_held_out(sc_context *context, void *user)
{
    (void)user;
    sc_data data;
    bool held[PARTS][2000] = {{false}};
    make_data(context, PARTS, &data);
    sc_order out =
        sc_order_of(&data, SC_ORDER_HELD_OUT, LENGTH, true, ROWS, 1e-3, 8, &context->arena);
    sc_order in =
        sc_order_of(&data, SC_ORDER_TRAINED, LENGTH, true, ROWS, 1e-3, 8, &context->arena);
    assert_true(sc_order_count(&out) >= ROWS);
    assert_int_equal(sc_order_count(&out) + sc_order_count(&in), 100 + 10 + 300);
    for (uint64_t i = 0; i < sc_order_count(&out); i++) {
        sc_order_row at = sc_order_row_at(&out, i);
        assert_false(held[at.part][at.first]);
        held[at.part][at.first] = true;
    }
    for (uint64_t i = 0; i < 5000; i++) {
        sc_order_row at = sc_order_row_at(&in, i);
        assert_false(held[at.part][at.first]);
    }
}

static void check_empty(sc_context *context, void *user)
{
    (void)user;
    sc_data data;
    make_data(context, PARTS, &data);
    sc_order order = sc_order_of(&data, SC_ORDER_TRAINED, 50, true, ROWS, 0, 8, &context->arena);
    assert_int_equal(sc_order_empty_part(&order), 1);
    order = sc_order_of(&data, SC_ORDER_TRAINED, 40, true, ROWS, 0, 8, &context->arena);
    assert_int_equal(sc_order_empty_part(&order), SC_NONE);
}

static void run(void (*work)(sc_context *, void *))
{
    sc_context context;
    assert_true(sc_context_run(&context, 0, work, NULL));
    sc_context_free(&context);
}

static void parts_are_drawn_by_weight(void **state)
{
    (void)state;
    run(check_weights);
}

static void places_depend_on_the_row_alone(void **state)
{
    (void)state;
    run(check_places);
}

static void held_out_windows_fill_a_batch(void **state)
{
    (void)state;
    run(check_held_out);
}

static void parts_without_windows_are_found(void **state)
{
    (void)state;
    run(check_empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_drawn_by_weight),
        cmocka_unit_test(places_depend_on_the_row_alone),
        cmocka_unit_test(held_out_windows_fill_a_batch),
        cmocka_unit_test(parts_without_windows_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
