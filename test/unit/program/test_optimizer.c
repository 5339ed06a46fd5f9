/* Optimizers' defaults, learning rates over steps, and the scalars that a step reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "program/optimizer.h"

static void close_to(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-15 * fmax(1.0, fabs(wanted))))
        fail_msg("wanted %.17g, got %.17g", wanted, got);
}

static void rates_follow_their_schedule(void **state)
{
    (void)state;
    static const struct {
        sc_rate rate;
        int64_t step;
        double wanted;
    } cases[] = {
        {{SC_RATE_CONSTANT, 0.25, 0, 0, 0}, 1, 0.25},
        {{SC_RATE_CONSTANT, 0.25, 0, 0, 0}, 1000000, 0.25},
        {{SC_RATE_COSINE, 1.0, 10, 110, 0.1}, 0, 0.0},
        {{SC_RATE_COSINE, 1.0, 10, 110, 0.1}, 1, 0.1},
        {{SC_RATE_COSINE, 1.0, 10, 110, 0.1}, 5, 0.5},
        {{SC_RATE_COSINE, 1.0, 10, 110, 0.1}, 10, 1.0},
        {{SC_RATE_COSINE, 1.0, 10, 110, 0.1}, 35, 0.1 + 0.9 * 0.5 * (1.0 + 0.70710678118654752)},
        {{SC_RATE_COSINE, 1.0, 10, 110, 0.1}, 60, 0.55},
        {{SC_RATE_COSINE, 1.0, 10, 110, 0.1}, 110, 0.1},
        {{SC_RATE_COSINE, 1.0, 10, 110, 0.1}, 100000, 0.1},
        {{SC_RATE_COSINE, 2.0, 0, 100, 0.0}, 0, 2.0},
        {{SC_RATE_COSINE, 2.0, 0, 100, 0.0}, 50, 1.0},
        {{SC_RATE_COSINE, 2.0, 0, 100, 0.0}, 100, 0.0},
        {{SC_RATE_LINEAR, 1.0, 10, 110, 0.0}, 9, 0.9},
        {{SC_RATE_LINEAR, 1.0, 10, 110, 0.0}, 10, 1.0},
        {{SC_RATE_LINEAR, 1.0, 10, 110, 0.0}, 35, 0.75},
        {{SC_RATE_LINEAR, 1.0, 10, 110, 0.5}, 60, 0.75},
        {{SC_RATE_LINEAR, 1.0, 10, 110, 0.5}, 109, 0.505},
        {{SC_RATE_LINEAR, 1.0, 10, 110, 0.5}, 110, 0.5},
        {{SC_RATE_LINEAR, 1.0, 10, 110, 0.5}, 111, 0.5},
        {{SC_RATE_LINEAR, 1.0, 0, 4, 0.0}, 1, 0.75},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        close_to(sc_rate_at(&cases[i].rate, cases[i].step), cases[i].wanted);
}

static void defaults_are_those_of_the_language(void **state)
{
    (void)state;
    static const struct {
        sc_optimizer_kind kind;
        const char *name, *arguments;
        double defaults[SC_HYPER_COUNT];
    } cases[] = {
        {SC_SGD, "sgd", "lr momentum nesterov decay clip decay_all", {0, 0, 0, 0, 0, 0, 0, 0}},
        {SC_ADAM,
         "adam",
         "lr beta1 beta2 eps decay clip decay_all",
         {0, 0, 0.9, 0.999, 1e-8, 0, 0, 0}},
        {SC_ADAMW,
         "adamw",
         "lr beta1 beta2 eps decay clip decay_all",
         {0, 0, 0.9, 0.999, 1e-8, 0.01, 0, 0}},
        {SC_LION, "lion", "lr beta1 beta2 decay clip decay_all", {0, 0, 0.9, 0.99, 0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sc_optimizer_row *row = &sc_optimizers[cases[i].kind];
        assert_string_equal(row->name, cases[i].name);
        assert_string_equal(row->arguments, cases[i].arguments);
        for (int h = 0; h < SC_HYPER_COUNT; h++)
            assert_true(row->defaults[h] == cases[i].defaults[h]);
    }
}

/* Every argument but lr has a place among the numbers, and every number a name. */
static void arguments_have_places(void **state)
{
    (void)state;
    for (int o = 0; o < SC_OPTIMIZER_COUNT; o++) {
        char text[128];
        strcpy(text, sc_optimizers[o].arguments);
        char *word = strtok(text, " ");
        assert_string_equal(word, "lr");
        while ((word = strtok(NULL, " ")) != NULL) {
            bool found = false;
            for (int h = 0; h < SC_HYPER_COUNT; h++)
                found = found || strcmp(sc_hyper_names[h], word) == 0;
            assert_true(found);
        }
    }
    for (int s = 0; s < SC_SCALAR_COUNT; s++)
        assert_non_null(sc_scalar_names[s]);
    assert_string_equal(sc_scalar_names[SC_SCALAR_LR], "lr");
    assert_string_equal(sc_scalar_names[SC_SCALAR_CORRECTION2], "correction2");
}

static void a_step_reads_its_scalars(void **state)
{
    (void)state;
    sc_optimizer_settings settings = {.kind = SC_ADAMW, .lr = {SC_RATE_LINEAR, 1.0, 2, 4, 0.0}};
    memcpy(settings.hyper, sc_optimizers[SC_ADAMW].defaults, sizeof settings.hyper);
    double scalars[SC_SCALAR_COUNT];
    sc_optimizer_scalars(&settings, 1, scalars);
    close_to(scalars[SC_SCALAR_LR], 0.5);
    close_to(scalars[SC_SCALAR_BETA1], 0.9);
    close_to(scalars[SC_SCALAR_BETA2], 0.999);
    close_to(scalars[SC_SCALAR_EPS], 1e-8);
    close_to(scalars[SC_SCALAR_DECAY], 0.01);
    assert_true(isinf(scalars[SC_SCALAR_CLIP]) && scalars[SC_SCALAR_CLIP] > 0);
    close_to(scalars[SC_SCALAR_CORRECTION1], 0.1);
    close_to(scalars[SC_SCALAR_CORRECTION2], 0.001);
    settings.hyper[SC_HYPER_CLIP] = 1.5;
    sc_optimizer_scalars(&settings, 3, scalars);
    close_to(scalars[SC_SCALAR_LR], 0.5);
    close_to(scalars[SC_SCALAR_CLIP], 1.5);
    close_to(scalars[SC_SCALAR_CORRECTION1], 1.0 - 0.729);
    close_to(scalars[SC_SCALAR_CORRECTION2], 1.0 - 0.999 * 0.999 * 0.999);
    /* sgd has no betas: nothing is corrected */
    settings.kind = SC_SGD;
    memcpy(settings.hyper, sc_optimizers[SC_SGD].defaults, sizeof settings.hyper);
    settings.hyper[SC_HYPER_MOMENTUM] = 0.9;
    sc_optimizer_scalars(&settings, 1, scalars);
    close_to(scalars[SC_SCALAR_MOMENTUM], 0.9);
    close_to(scalars[SC_SCALAR_CORRECTION1], 1.0);
    close_to(scalars[SC_SCALAR_CORRECTION2], 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_follow_their_schedule),
        cmocka_unit_test(defaults_are_those_of_the_language),
        cmocka_unit_test(arguments_have_places),
        cmocka_unit_test(a_step_reads_its_scalars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
