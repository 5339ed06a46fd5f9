/* What a training run says to people: lines of given numbers at given times, no clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "runtime/drive/train_console.h"

static const char *const names[] = {"accuracy", NULL};
static const sc_fact_train named = {.metric_count = 2, .metric_names = names};
static const sc_fact_train unnamed = {.metric_count = 1};

static sc_train_record record(uint64_t step, double seconds)
{
    static const double metrics[] = {0.25, 7};
    return (sc_train_record){
        .step = step,
        .result = {.loss = 1.5, .grad_norm = 0.125, .lr = 3e-4, .metrics = metrics},
        .tokens = 64,
        .seconds = seconds,
        .flops = 2e9};
}

static const sc_train_start start = {.entry = "loss",
                                     .plan = "dp",
                                     .ranks = 2,
                                     .parameters = 8192,
                                     .wanted = 100,
                                     .rank_bytes = 1536,
                                     .tokens_an_epoch = 640};
#define FIRST                                                                                      \
    "training loss, plan dp, 2 ranks: 8192 parameters, 1.5 KiB a rank, 640 tokens an epoch\n"

static void assert_written(FILE *file, const char *wanted)
{
    char text[4096];
    rewind(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    text[length] = 0;
    fclose(file);
    assert_string_equal(text, wanted);
}

/* Within ten seconds of the line before only the last step is shown. */
static void the_last_step_is_shown(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    sc_train_console console;
    sc_train_console_open(&console, file, false, &named, &start, 1000);
    for (uint64_t step = 1; step <= 100; step++) {
        const sc_train_record r = record(step, 0.0625);
        sc_train_console_step(&console, &r, 1000 + 0.0625 * (double)step);
    }
    sc_train_console_close(&console);
    assert_written(file, FIRST
                   "step 100 of 100, loss 1.5, norm 0.125, lr 0.0003, 1024 tokens/s, 32 GFLOP/s\n");
}

static void a_line_every_ten_seconds(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    sc_train_console console;
    sc_train_console_open(&console, file, false, &named, &start, 0);
    for (uint64_t step = 1; step <= 5; step++) {
        sc_train_record r = record(step, 4);
        r.result.metric_count = 2;
        r.result.skipped = step == 3;
        sc_train_console_step(&console, &r, 4 * (double)step);
    }
    sc_train_console_close(&console);
    assert_written(file, FIRST "step 3 of 100, loss 1.5, norm 0.125, lr 0.0003, not applied, "
                               "accuracy 0.25, out3 7, 16 tokens/s, 500 MFLOP/s, ETA 6:28\n"
                               "step 5 of 100, loss 1.5, norm 0.125, lr 0.0003, accuracy 0.25, "
                               "out3 7, 16 tokens/s, 500 MFLOP/s, ETA 6:20\n");
}

static void a_held_out_loss_is_shown_at_once(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    sc_train_console console;
    sc_train_start resumed = start;
    resumed.plan = NULL;
    resumed.ranks = resumed.parameters = resumed.done = 1;
    resumed.rank_bytes = 0;
    resumed.tokens_an_epoch = 0;
    sc_train_console_open(&console, file, false, &unnamed, &resumed, 0);
    sc_train_record r = record(2, 2);
    r.flops = 0;
    r.result.metric_count = 1;
    sc_train_console_step(&console, &r, 40);
    sc_train_console_held_out(&console, 1.75, 41);
    sc_train_console_close(&console);
    assert_written(
        file,
        "training loss, no plan, 1 rank: 1 parameter, 1 step done\n"
        "step 2 of 100, loss 1.5, norm 0.125, lr 0.0003, out2 0.25, 32 tokens/s, ETA 1:05:20\n"
        "step 2 of 100, loss 1.5, norm 0.125, lr 0.0003, out2 0.25, 32 tokens/s, ETA 1:05:20, "
        "held-out loss 1.75\n");
}

/* One line that is written over; held-out losses and the last step stay. */
static void a_terminal_has_one_line(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    sc_train_console console;
    sc_train_start few = start;
    few.wanted = 3;
    sc_train_console_open(&console, file, true, &unnamed, &few, 0);
    for (uint64_t step = 1; step <= 3; step++) {
        sc_train_record r = record(step, 1);
        r.flops = 0;
        sc_train_console_step(&console, &r, (double)step / 16);
        if (step == 2)
            sc_train_console_held_out(&console, 2, (double)step / 16);
    }
    sc_train_console_close(&console);
#define STEP(n) "\rstep " n " of 3, loss 1.5, norm 0.125, lr 0.0003, 64 tokens/s"
    assert_written(file, "\rtraining loss, plan dp, 2 ranks: 8192 parameters, 1.5 KiB a rank, 640 "
                         "tokens an epoch\033[K\n" STEP("2") ", ETA 0:00\033[K" STEP(
                             "2") ", ETA 0:00, held-out loss 2\033[K\n" STEP("3") "\033[K\n");
}

static void no_console_shows_nothing(void **state)
{
    (void)state;
    sc_train_console console;
    const sc_train_record r = record(1, 1);
    sc_train_console_open(&console, NULL, false, &unnamed, &start, 0);
    sc_train_console_step(&console, &r, 100);
    sc_train_console_held_out(&console, 1, 101);
    sc_train_console_close(&console);
}

/* Names that are longer than a line are left out, whole. */
static void a_line_has_an_end(void **state)
{
    (void)state;
    enum { METRICS = 100 };
    static const char *many[METRICS];
    double values[METRICS] = {0};
    for (int i = 0; i < METRICS; i++)
        many[i] = "a_metric_of_some_length";
    const sc_fact_train train = {.metric_count = METRICS, .metric_names = many};
    sc_train_console console;
    FILE *file = tmpfile();
    sc_train_console_open(&console, file, false, &train, &start, 0);
    sc_train_record r = record(1, 1);
    r.result.metric_count = METRICS;
    r.result.metrics = values;
    sc_train_console_step(&console, &r, 100);
    assert_true(strlen(console.line) == console.length && console.length < SC_CONSOLE_LINE);
    assert_non_null(strstr(console.line, "a_metric_of_some_length 0"));
    sc_train_console_close(&console);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_step_is_shown),
        cmocka_unit_test(a_line_every_ten_seconds),
        cmocka_unit_test(a_held_out_loss_is_shown_at_once),
        cmocka_unit_test(a_terminal_has_one_line),
        cmocka_unit_test(no_console_shows_nothing),
        cmocka_unit_test(a_line_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
