/* Programs for GPUs on processes that find each other over TCP, with a GPU each and NCCL between
 * them (stubs of both): their results are those of the CPU, bit by bit, whatever their number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/helpers/cuda_stages_case.h"
#include "test/unit/helpers/processes.h"
#include "test/unit/helpers/stages_steps.h"

enum { TOTALS = 4 /* the later ones are graphs */ };

typedef struct results {
    float totals[TOTALS], y[STEP_ROWS * STEP_H];
} results;

/* Small integers, so that every sum is exact: neither products of GPUs nor NCCL promise an order of
 * terms. */
static void fill(float *out, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)((i * 7 + seed) % 11) - 5;
}

static shardc_status run_steps(const shardc_executable *program,
                               const shardc_session_options *options, results *out,
                               shardc_error *error)
{
    float x[STEP_BATCHES * STEP_ROWS * STEP_D], w[STEP_D * STEP_H], bias[STEP_H];
    int32_t ids[STEP_BATCHES * STEP_ROWS];
    shardc_session *session = NULL;
    fill(x, sizeof x / sizeof *x, 1);
    fill(w, sizeof w / sizeof *w, 2);
    fill(bias, sizeof bias / sizeof *bias, 3);
    for (int i = 0; i < STEP_BATCHES * STEP_ROWS; i++)
        ids[i] = i % 4;
    shardc_status status = shardc_session_new(program, options, &session, error);
    if (status == SHARDC_OK)
        status = shardc_session_set_state(session, shardc_executable_find_state(program, "w"), w,
                                          sizeof w, NULL, error);
    if (status == SHARDC_OK)
        status = shardc_session_set_state(session, shardc_executable_find_state(program, "bias"),
                                          bias, sizeof bias, NULL, error);
    for (int step = 0; status == SHARDC_OK && step < TOTALS; step++) {
        shardc_feed_value feeds[] = {{"ids", ids, sizeof ids, NULL}, {"x", x, sizeof x, NULL}};
        status = shardc_session_step(
            session, feeds, 2,
            (shardc_fetch_value[]){{0, &out->totals[step], sizeof out->totals[step], NULL}}, 1,
            error);
    }
    if (status == SHARDC_OK) {
        shardc_feed_value feeds[] = {{"ids", ids, sizeof ids / STEP_BATCHES, NULL},
                                     {"x", x, sizeof x / STEP_BATCHES, NULL}};
        status =
            shardc_session_run(session, shardc_executable_find_func(program, "micro"), feeds, 2,
                               (shardc_fetch_value[]){{0, out->y, sizeof out->y, NULL}}, 1, error);
    }
    shardc_session_free(session);
    return status;
}

/* 0 when this rank's results are those of the CPU. */
static int be_rank_of(const shardc_executable *program, const results *wanted, uint32_t rank)
{
    shardc_session_options options = {
        .world = SHARDC_WORLD_TCP, .threads = 1, .deadline_ms = 120000};
    results got;
    shardc_error error;
    memset(&got, 0xff, sizeof got);
    if (run_steps(program, &options, &got, &error) != SHARDC_OK) {
        fprintf(stderr, "rank %u: %s\n", rank, error.text);
        return 1;
    }
    if (memcmp(&got, wanted, sizeof got) == 0)
        return 0;
    fprintf(stderr, "rank %u: total %.9g, not %.9g; y[0] %.9g, not %.9g\n", rank,
            (double)got.totals[TOTALS - 1], (double)wanted->totals[TOTALS - 1], (double)got.y[0],
            (double)wanted->y[0]);
    return 1;
}

static void check_mesh(uint64_t dp, uint64_t tp)
{
    uint32_t size = (uint32_t)(dp * tp), port;
    image_case cpu, cuda;
    results wanted = {{0}, {0}};
    shardc_error error;
    int holder = hold_port(&port);
    shardc_executable *program = cuda_step_program(&cuda, dp, tp);
    char seed[16];
    snprintf(seed, sizeof seed, "%u", size);
    setenv("SHARDC_STUB_SEED", seed, 1); /* orders of streams */
    pid_t children[8];
    int pipe_ends[2], failures = 0;
    assert_int_equal(pipe(pipe_ends), 0);
    if (fork() == 0) { /* the CPU's threads stay out of the process that forks */
        shardc_executable *plain = step_program(&cpu, dp, tp);
        bool ok =
            run_steps(plain, &(shardc_session_options){.threads = 1}, &wanted, &error) == SHARDC_OK;
        _exit(ok && write(pipe_ends[1], &wanted, sizeof wanted) == (ssize_t)sizeof wanted ? 0 : 1);
    }
    close(pipe_ends[1]);
    assert_int_equal(read(pipe_ends[0], &wanted, sizeof wanted), sizeof wanted);
    close(pipe_ends[0]);
    wait(NULL);
    for (uint32_t r = 0; r < size; r++) {
        children[r] = fork_rank(r, size, port);
        if (children[r] == 0)
            _exit(be_rank_of(program, &wanted, r));
    }
    for (uint32_t r = 0; r < size; r++) {
        int how = 0;
        failures += waitpid(children[r], &how, 0) != children[r] || how != 0;
    }
    close(holder);
    shardc_executable_free(program);
    sc_arena_free(&cuda.arena);
    if (failures > 0)
        fail_msg("%d ranks of dp %llu, tp %llu are wrong", failures, (unsigned long long)dp,
                 (unsigned long long)tp);
}

static void every_number_of_ranks_gives_the_cpus_bits(void **state)
{
    (void)state;
    static const uint64_t meshes[][2] = {{1, 1}, {2, 1}, {1, 3}, {2, 2},
                                         {5, 1}, {3, 2}, {7, 1}, {4, 2}};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        check_mesh(meshes[m][0], meshes[m][1]);
}

/* ---- stages ---- */

/* Steps of a program of several stages, on one of their ranks. */
static void be_stage(const shardc_executable *program, const stages_case *s)
{
    shardc_session_options options = {
        .world = SHARDC_WORLD_TCP, .threads = 1, .deadline_ms = 120000};
    shardc_session *session = NULL;
    SUCCEED(shardc_session_new(program, &options, &session, &error));
    SUCCEED(shardc_session_initialise(session, &error));
    for (uint64_t step = 0; step < STEPS; step++)
        check_step(session, s, step);
    check_weights(session, s, STEPS + 1);
    shardc_session_free(session);
}

static void each_process_runs_its_stage(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        stages_case s;
        pid_t children[8];
        uint32_t port, size = (uint32_t)(shapes[i].count * shapes[i].others), failures = 0;
        char seed[16];
        snprintf(seed, sizeof seed, "%d", i);
        setenv("SHARDC_STUB_SEED", seed, 1);
        int holder = hold_port(&port);
        shardc_executable *program = cuda_stages_program(&s, shapes[i].count, shapes[i].others,
                                                         shapes[i].axis, shapes[i].batches);
        for (uint32_t r = 0; r < size; r++) {
            children[r] = fork_rank(r, size, port);
            if (children[r] == 0) {
                be_stage(program, &s); /* a check that fails ends the process */
                _exit(0);
            }
        }
        for (uint32_t r = 0; r < size; r++) {
            int how = 0;
            failures += waitpid(children[r], &how, 0) != children[r] || how != 0;
        }
        close(holder);
        shardc_executable_free(program);
        stages_end(&s);
        if (failures > 0)
            fail_msg("%u of %u ranks of shape %d are wrong", failures, size, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_number_of_ranks_gives_the_cpus_bits),
                                       cmocka_unit_test(each_process_runs_its_stage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
