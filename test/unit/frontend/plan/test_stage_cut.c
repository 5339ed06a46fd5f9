/* Cutting a row of instances: the slowest chunk has the least work that any cut gives it. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "frontend/plan/internal.h"
#include "support/rng.h"
#include "test/unit/helpers/in_context.h"

enum { MOST = 12, DRAWS = 400 };

static double draw(uint64_t index, uint64_t seed)
{
    return floor(sc_rng_uniform(seed, 7, index) * 9);
}

/* The least work of the slowest of `chunks` chunks, by trying every last chunk. */
static double best(const double *work, uint32_t count, const double *besides, uint32_t chunks)
{
    double table[MOST + 1][MOST + 1];
    for (uint32_t k = 0; k <= chunks; k++) {
        for (uint32_t n = 0; n <= count; n++)
            table[k][n] = k == 0 && n == 0 ? 0 : INFINITY;
    }
    for (uint32_t k = 1; k <= chunks; k++) {
        for (uint32_t n = k; n <= count; n++) {
            double own = besides[k - 1];
            for (uint32_t from = n; from-- > k - 1;) {
                own += work[from];
                double slowest = table[k - 1][from] > own ? table[k - 1][from] : own;
                table[k][n] = slowest < table[k][n] ? slowest : table[k][n];
            }
        }
    }
    return table[chunks][count];
}

static double slowest(const double *work, const double *besides, const uint32_t *ends,
                      uint32_t chunks, uint32_t count)
{
    double most = 0;
    uint32_t begin = 0;
    for (uint32_t k = 0; k < chunks; k++) {
        double own = besides[k];
        assert_true(ends[k] > begin);
        for (uint32_t i = begin; i < ends[k]; i++)
            own += work[i];
        most = own > most ? own : most;
        begin = ends[k];
    }
    assert_int_equal(begin, count);
    return most;
}

static void the_slowest_chunk_has_the_least_work(sc_context *context)
{
    for (uint64_t d = 0; d < DRAWS; d++) {
        double work[MOST], besides[MOST];
        uint32_t ends[MOST], count = 1 + (uint32_t)(d % MOST);
        for (uint32_t i = 0; i < MOST; i++)
            work[i] = draw(i, d);
        for (uint32_t chunks = 1; chunks <= count; chunks++) {
            for (uint32_t k = 0; k < chunks; k++)
                besides[k] = d % 3 == 0 || (k > 0 && k + 1 < chunks) ? 0 : draw(100 + k, d);
            sc_stage_cut_by_work(&context->arena, work, count, besides, chunks, ends);
            double found = slowest(work, besides, ends, chunks, count),
                   wanted = best(work, count, besides, chunks), total = 0;
            for (uint32_t i = 0; i < count; i++)
                total += work[i];
            if (total > 0 && found > wanted * (1 + 1e-9))
                fail_msg("draw %u: %u instances in %u chunks: %g, not %g", (unsigned)d, count,
                         chunks, found, wanted);
        }
    }
}

static void every_chunk_gets_an_instance(sc_context *context)
{
    for (uint64_t d = 0; d < DRAWS; d++) {
        double work[MOST], besides[MOST];
        uint32_t ends[MOST], count = 1 + (uint32_t)(d % MOST);
        for (uint32_t i = 0; i < MOST; i++) {
            work[i] = draw(i, d);
            besides[i] = draw(100 + i, d);
        }
        for (uint32_t chunks = 1; chunks <= count; chunks++) {
            sc_stage_cut_by_work(&context->arena, work, count, besides, chunks, ends);
            slowest(work, besides, ends, chunks, count);
        }
    }
}

static void equal_instances_give_even_chunks(sc_context *context)
{
    double work[10], besides[4] = {0};
    uint32_t ends[4];
    for (uint32_t i = 0; i < 10; i++)
        work[i] = 1;
    sc_stage_cut_by_work(&context->arena, work, 9, besides, 4, ends);
    assert_true(slowest(work, besides, ends, 4, 9) <= 3);
    for (uint32_t k = 0; k < 4; k++)
        assert_true(ends[k] - (k == 0 ? 0 : ends[k - 1]) >= 2);
    sc_stage_cut_evenly(10, 4, ends);
    const uint32_t even[] = {3, 6, 8, 10};
    assert_memory_equal(ends, even, sizeof even);
}

static void a_million_instances_are_cut_at_once(sc_context *context)
{
    enum { COUNT = 1 << 20, CHUNKS = 1024 };
    double *work = sc_arena_array(&context->arena, COUNT, sizeof *work),
           *besides = sc_arena_array(&context->arena, CHUNKS, sizeof *besides);
    uint32_t *ends = sc_arena_array(&context->arena, CHUNKS, sizeof *ends);
    for (uint32_t i = 0; i < COUNT; i++)
        work[i] = 1 + (double)(i % 7);
    sc_stage_cut_by_work(&context->arena, work, COUNT, besides, CHUNKS, ends);
    assert_true(slowest(work, besides, ends, CHUNKS, COUNT) <= 4.0 * COUNT / CHUNKS + 7);
}

int main(void)
{
    static void (*const functions[])(sc_context *) = {
        the_slowest_chunk_has_the_least_work, every_chunk_gets_an_instance,
        equal_instances_give_even_chunks, a_million_instances_are_cut_at_once};
    const struct CMUnitTest tests[] = {
        {"the_slowest_chunk_has_the_least_work", in_context, NULL, NULL,
         (void *)(uintptr_t)&functions[0]},
        {"every_chunk_gets_an_instance", in_context, NULL, NULL, (void *)(uintptr_t)&functions[1]},
        {"equal_instances_give_even_chunks", in_context, NULL, NULL,
         (void *)(uintptr_t)&functions[2]},
        {"a_million_instances_are_cut_at_once", in_context, NULL, NULL,
         (void *)(uintptr_t)&functions[3]},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
