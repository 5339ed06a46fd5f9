/* Sampling selects what it keeps; what it draws is, bit for bit, what sorting all entries draws:
 * random logits with ties, masked ones, orders that are bad for quickselect, and sums of which only
 * the rounding says whether they are enough. `test_sample time` measures both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/drive/sample.h"
#include "support/clock.h"
#include "support/rng.h"

enum { MOST = 6000, CASES = 6000, DRAWS = 4 };

/* ---- by sorting ---- */

static const double *sorted_by;

static int by_logit(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (sorted_by[x] > sorted_by[y] || sorted_by[x] < sorted_by[y])
        return sorted_by[x] > sorted_by[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

static uint32_t sample_by_sorting(const double *logits, uint32_t count, double temperature,
                                  int64_t top_k, double top_p, double u, uint32_t *order,
                                  double *weights)
{
    bool limits_p = top_p > 0 && top_p<1, limits_k = top_k> 0 && top_k < (int64_t)count;
    uint32_t kept = limits_k ? (uint32_t)top_k : count;
    double total = 0, sum = 0, best = -INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
        best = logits[i] > best ? logits[i] : best;
    }
    sorted_by = logits;
    if (limits_p || limits_k)
        qsort(order, count, sizeof *order, by_logit);
    for (uint32_t i = 0; i < kept; i++)
        total += weights[i] = exp((logits[order[i]] - best) / temperature);
    if (limits_p) {
        uint32_t enough = 0;
        while (enough < kept && sum < top_p * total)
            sum += weights[enough++];
        kept = enough;
        total = sum;
    }
    sum = 0;
    for (uint32_t i = 0; i < kept; i++) {
        sum += weights[i];
        if (u * total < sum)
            return order[i];
    }
    return order[kept - 1];
}

/* ---- logits ---- */

typedef enum shape { NORMAL, TIES, EQUAL, RISING, FALLING, PIPES, MASKED, NARROW, SHAPES } shape;

static double uniform(uint64_t seed, uint64_t index)
{
    return sc_rng_uniform(seed, 1, index);
}

static void fill(shape s, uint64_t seed, double *logits, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        double normal = sc_rng_normal(seed, 2, i);
        logits[i] = s == NORMAL    ? 4 * normal
                    : s == TIES    ? floor(3 * normal)
                    : s == EQUAL   ? 1
                    : s == RISING  ? 1e-3 * i
                    : s == FALLING ? -1e-3 * i
                    : s == PIPES   ? (i < count / 2 ? 1e-3 * i : 1e-3 * (count - i))
                    : s == MASKED  ? (i % 3 == 1 ? 2 * normal : -INFINITY)
                                   : 1e-15 * normal;
    }
    if (s == MASKED && count < 2)
        logits[0] = 0;
}

static void what_is_drawn_is_the_same(void **state)
{
    (void)state;
    static double logits[MOST], weights[MOST];
    static uint32_t order[MOST];
    for (uint64_t seed = 0; seed < CASES; seed++) {
        shape s = (shape)(seed % SHAPES);
        uint32_t count = 1 + (uint32_t)(uniform(seed, 0) * (seed % 10 == 0 ? MOST - 1 : 200));
        /* 1/2, 1/4, .. of equal weights are sums that p times all of them is, exactly */
        double top_p = seed % 3 == 0   ? 0
                       : seed % 7 == 0 ? ldexp(1, -1 - (int)(seed % 5))
                       : seed % 3 == 1 ? uniform(seed, 1)
                                       : 1 - 1e-9 * uniform(seed, 1);
        if (s == NARROW) /* and of nearly equal ones up to rounding, which differs by the order */
            top_p = floor(uniform(seed, 1) * count) / count;
        int64_t top_k = seed % 4 < 2 ? 0 : 1 + (int64_t)(uniform(seed, 2) * count * 1.2);
        double temperature = 0.1 + 3 * uniform(seed, 3);
        fill(s, seed, logits, count);
        for (uint64_t d = 0; d < DRAWS; d++) {
            double u = d == 0 ? 0 : d == 1 ? 1 - 0x1p-53 : uniform(seed, 4 + d);
            uint32_t got = sc_sample(logits, count, temperature, top_k, top_p, u, order, weights),
                     wanted = sample_by_sorting(logits, count, temperature, top_k, top_p, u, order,
                                                weights);
            if (got != wanted)
                fail_msg("seed %llu, shape %d, %u entries, k %lld, p %.17g, u %.17g: %u, not %u",
                         (unsigned long long)seed, (int)s, count, (long long)top_k, top_p, u, got,
                         wanted);
        }
    }
}

/* A model that has diverged. */
static void no_numbers_are_drawn_from(void **state)
{
    (void)state;
    const double logits[3][4] = {{1, NAN, 2, 3}, {NAN, NAN, NAN, NAN}, {1, INFINITY, 2, INFINITY}};
    double weights[4];
    uint32_t order[4];
    for (int i = 0; i < 3; i++) {
        for (int64_t k = 0; k < 4; k++) {
            for (int p = 0; p < 4; p++)
                assert_true(sc_sample(logits[i], 4, 1, k, 0.3 * p, 0.5, order, weights) < 4);
        }
    }
}

static int measure(void)
{
    static const uint32_t counts[] = {50257, 128256};
    static const struct {
        int64_t k;
        double p;
    } limits[] = {{50, 0}, {0, 0.9}, {50, 0.9}, {0, 0}};
    enum { TIMES = 40 };
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        uint32_t count = counts[c], *order = calloc(count, sizeof *order), differ = 0;
        double *logits = calloc(count, sizeof *logits), *weights = calloc(count, sizeof *weights);
        fill(NORMAL, c, logits, count);
        for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
            double begin = sc_seconds(), middle;
            uint32_t drawn[TIMES];
            for (uint32_t i = 0; i < TIMES; i++)
                drawn[i] = sc_sample(logits, count, 1, limits[l].k, limits[l].p, uniform(9, i),
                                     order, weights);
            middle = sc_seconds();
            for (uint32_t i = 0; i < TIMES; i++)
                differ += drawn[i] != sample_by_sorting(logits, count, 1, limits[l].k, limits[l].p,
                                                        uniform(9, i), order, weights);
            double selecting = middle - begin, sorting = sc_seconds() - middle;
            printf("%u entries, k %lld, p %g: %.3f ms, by sorting %.3f ms, %.1f times as long\n",
                   count, (long long)limits[l].k, limits[l].p, 1e3 * selecting / TIMES,
                   1e3 * sorting / TIMES, sorting / selecting);
        }
        free(order);
        free(logits);
        free(weights);
        if (differ > 0)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_drawn_is_the_same),
        cmocka_unit_test(no_numbers_are_drawn_from),
    };
    if (argc > 1 && strcmp(argv[1], "time") == 0)
        return measure();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
