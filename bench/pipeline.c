/* bench/pipeline: how close a step of a pipeline is to the makespan of its schedule.
 *
 *   shardc build bench/gpt2_124m.shard --plan pp2 -o PROG
 *   shardc schedule bench/gpt2_124m.shard --plan pp2 --format csv > ORDER.csv
 *   pipeline PROG ORDER.csv [STEPS]
 *
 * Runs steps on random inputs, a thread a core. The time of each chunk's functions, without what
 * they wait for messages, is that of its actions; the ideal step is the schedule with these times,
 * sends free, and then the slowest stage's update. Prints the medians of both, and of their
 * ratio in a step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/pipeline/schedule.h"
#include "program/file.h"
#include "program/lookup.h"
#include "runtime/session/session.h"
#include "support/clock.h"
#include "support/rng.h"

enum { MOST_INPUTS = 16, MOST_STEPS = 100 };

typedef struct bench {
    shardc_executable *program;
    shardc_session *session;
    shardc_stepper *stepper;
    const sc_pipeline_schedule *schedule;
    shardc_feed_value feeds[MOST_INPUTS];
    uint32_t feed_count;
    uint64_t step;
} bench;

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* ---- inputs ---- */

static void add_feed(bench *b, const shardc_tensor_info *info)
{
    uint32_t batches = shardc_executable_micro_batches(b->program);
    size_t count = (size_t)info->count * (info->batch_dim >= 0 ? batches : 1);
    double *values = malloc(count * sizeof *values);
    if (values == NULL || b->feed_count == MOST_INPUTS)
        stop(info->name, "no room for this input");
    for (size_t i = 0; i < count; i++) {
        double unit = sc_rng_uniform(1, b->feed_count, i);
        values[i] = info->below > 0 ? (double)(int64_t)(unit * (double)info->below) : unit;
    }
    b->feeds[b->feed_count++] =
        (shardc_feed_value){info->name, values, count * sizeof *values, "f64"};
}

static bool is_fed(const bench *b, const char *name)
{
    uint32_t i = 0;
    while (i < b->feed_count && strcmp(b->feeds[i].name, name) != 0)
        i++;
    return i < b->feed_count;
}

static void add_feeds(bench *b)
{
    for (uint32_t c = 0; c < shardc_executable_call_count(b->program); c++) {
        int32_t micro_batch;
        uint32_t func = shardc_executable_call(b->program, c, &micro_batch);
        for (uint32_t i = 0; i < shardc_executable_input_count(b->program, func); i++) {
            shardc_tensor_info info;
            shardc_executable_input(b->program, func, i, &info);
            if (!is_fed(b, info.name))
                add_feed(b, &info);
        }
    }
}

/* ---- running ---- */

static void open_program(bench *b, const char *path)
{
    shardc_error error;
    const shardc_session_options options = {.profile = true};
    if (shardc_executable_open(path, &b->program, &error) != SHARDC_OK ||
        shardc_session_new(b->program, &options, &b->session, &error) != SHARDC_OK ||
        shardc_stepper_new(b->program, &b->stepper, &error) != SHARDC_OK)
        stop(path, error.text);
    shardc_session_set_random(b->session, 1, 0, 0);
    if (shardc_session_initialise(b->session, &error) != SHARDC_OK)
        stop(path, error.text);
    add_feeds(b);
}

static double do_step(bench *b)
{
    shardc_error error;
    double begin = sc_seconds(), loss;
    shardc_fetch_value fetch = {0, &loss, sizeof loss, "f64"};
    if (shardc_stepper_begin(b->stepper, b->session, 1, ++b->step, &error) != SHARDC_OK ||
        shardc_session_step(b->session, b->feeds, b->feed_count, &fetch, 1, &error) != SHARDC_OK)
        stop("step", error.text);
    return sc_seconds() - begin;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- the ideal ---- */

/* Seconds of a call of the function on the ranks that have it, without waiting; 0: there is none.
 */
static double time_of(const bench *b, const char *name)
{
    double seconds = 0;
    uint64_t calls = 0;
    for (uint32_t f = 0; f < shardc_executable_func_count(b->program); f++) {
        if (strcmp(shardc_executable_func(b->program, f), name) != 0)
            continue;
        for (uint32_t r = 0; r < shardc_executable_ranks(b->program); r++) {
            shardc_func_profile profile;
            shardc_session_profile(b->session, f, r, &profile);
            seconds += profile.seconds - profile.work[SHARDC_WORK_WAIT];
            calls += profile.calls;
        }
    }
    return calls == 0 ? 0 : seconds / (double)calls;
}

static double action_time(const bench *b, const sc_action *action)
{
    char name[32];
    snprintf(name, sizeof name, "%c%u", sc_action_letter(action->kind), action->chunk);
    double seconds = time_of(b, name);
    if (action->kind != SC_ACTION_B || seconds > 0)
        return seconds;
    snprintf(name, sizeof name, "I%u", action->chunk);
    seconds = time_of(b, name);
    snprintf(name, sizeof name, "W%u", action->chunk);
    return seconds + time_of(b, name);
}

/* When the data of an action are there; -1: not yet. `ends`: by kind (F, B or I), chunk and
 * micro-batch. */
static double ready(const sc_pipeline_schedule *s, double *const ends[2], const sc_action *a)
{
    size_t at = (size_t)a->chunk * s->micro_batches + a->micro_batch;
    if (a->kind == SC_ACTION_F)
        return a->chunk == 0 ? 0 : ends[0][at - s->micro_batches];
    if (a->kind == SC_ACTION_W)
        return ends[1][at];
    return a->chunk + 1 == s->chunks ? ends[0][at] : ends[1][at + s->micro_batches];
}

static double makespan(const bench *b)
{
    const sc_pipeline_schedule *s = b->schedule;
    size_t cells = (size_t)s->chunks * s->micro_batches;
    double *ends[2] = {malloc(cells * sizeof(double)), malloc(cells * sizeof(double))}, last = 0;
    double *time = calloc(s->ranks, sizeof *time);
    uint32_t *at = calloc(s->ranks, sizeof *at);
    if (ends[0] == NULL || ends[1] == NULL || time == NULL || at == NULL)
        stop("schedule", "there is not enough memory");
    for (size_t i = 0; i < cells; i++)
        ends[0][i] = ends[1][i] = -1;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t r = 0; r < s->ranks; r++) {
            while (at[r] < s->actions[r].list.count) {
                const sc_action *a = &s->actions[r].list.data[at[r]];
                double begin = ready(s, ends, a);
                if (begin < 0)
                    break;
                time[r] = (begin > time[r] ? begin : time[r]) + action_time(b, a);
                if (a->kind != SC_ACTION_W)
                    ends[a->kind != SC_ACTION_F]
                        [(size_t)a->chunk * s->micro_batches + a->micro_batch] = time[r];
                last = time[r] > last ? time[r] : last;
                at[r]++;
                moved = true;
            }
        }
    }
    free(ends[0]);
    free(ends[1]);
    free(time);
    free(at);
    return last;
}

/* Seconds of the slowest rank's functions that run once a step. */
static double update_time(const bench *b)
{
    double slowest = 0;
    for (uint32_t r = 0; r < shardc_executable_ranks(b->program); r++) {
        double own = 0;
        for (uint32_t f = 0; f < shardc_executable_func_count(b->program); f++) {
            shardc_func_profile profile;
            shardc_session_profile(b->session, f, r, &profile);
            own += profile.calls == 1 ? profile.seconds - profile.work[SHARDC_WORK_WAIT] : 0;
        }
        slowest = own > slowest ? own : slowest;
    }
    return slowest;
}

static void on_no_memory(void *user)
{
    stop(user, "there is not enough memory");
}

int main(int argc, char **argv)
{
    bench b = {.step = 0};
    double seconds[MOST_STEPS], ideals[MOST_STEPS], ratios[MOST_STEPS];
    sc_arena arena;
    sc_schedule_fault fault = {0};
    sc_action_place place;
    const char *problem;
    size_t size = 0;
    if (argc < 3)
        stop("usage", "pipeline PROG ORDER.csv [STEPS]");
    uint32_t steps = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 5;
    steps = steps < 1 ? 1 : steps < MOST_STEPS ? steps : MOST_STEPS;
    char *text = sc_file_read(argv[2], SIZE_MAX, &size, &problem);
    if (text == NULL)
        stop(argv[2], problem);
    sc_arena_init(&arena, on_no_memory, argv[2]);
    b.schedule = sc_schedule_read(&arena, text, size, NULL, &fault, &place);
    if (b.schedule == NULL)
        stop(argv[2], fault.text);
    open_program(&b, argv[1]);
    do_step(&b);
    for (uint32_t i = 0; i < steps; i++) {
        shardc_session_reset_profile(b.session);
        seconds[i] = do_step(&b);
        ideals[i] = makespan(&b) + update_time(&b);
        ratios[i] = seconds[i] / ideals[i];
    }
    qsort(seconds, steps, sizeof *seconds, ascending);
    qsort(ideals, steps, sizeof *ideals, ascending);
    qsort(ratios, steps, sizeof *ratios, ascending);
    printf("medians of %u: step %.4f s, ideal %.4f s, ratio %.3f (%.3f to %.3f)\n", steps,
           seconds[steps / 2], ideals[steps / 2], ratios[steps / 2], ratios[0], ratios[steps - 1]);
    for (uint32_t c = 0; c < b.schedule->chunks; c++) {
        double forward = action_time(&b, &(sc_action){SC_ACTION_F, c, 0}),
               backward = action_time(&b, &(sc_action){SC_ACTION_B, c, 0});
        printf("chunk %u: forward %.4f s, backward %.4f s\n", c, forward, backward);
    }
    return 0;
}
