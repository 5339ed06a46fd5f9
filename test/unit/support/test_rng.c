/* The random numbers: the generator's published vectors, the distributions' moments, and bits that
 * may never change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "support/hash.h"
#include "support/rng.h"

/* Random123 1.14, tests/kat_vectors: philox4x32 10. */
static void philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t out[4];
        sc_rng_philox(rows[i].counter, rows[i].key, out);
        assert_memory_equal(out, rows[i].out, sizeof out);
    }
}

enum { DRAWS = 1 << 20 };

/* Four standard errors of each moment's estimate. */
static void uniforms_have_their_moments(void **state)
{
    (void)state;
    double sum = 0, square = 0, least = 1, most = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = sc_rng_uniform(7, 42, i);
        sum += x;
        square += (x - 0.5) * (x - 0.5);
        least = fmin(least, x);
        most = fmax(most, x);
    }
    assert_true(fabs(sum / DRAWS - 0.5) < 4 * sqrt(1 / 12.0 / DRAWS));
    assert_true(fabs(square / DRAWS - 1 / 12.0) < 4 * sqrt(1 / 180.0 / DRAWS));
    assert_true(least >= 0 && least < 1e-4 && most < 1 && most > 1 - 1e-4);
}

static void normals_have_their_moments(void **state)
{
    (void)state;
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
    int beyond_two = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = sc_rng_normal(7, 42, i), x2 = x * x;
        m1 += x;
        m2 += x2;
        m3 += x2 * x;
        m4 += x2 * x2;
        beyond_two += fabs(x) > 2;
        assert_true(x == (double)(float)x && fabs(x) < 8.6);
    }
    assert_true(fabs(m1 / DRAWS) < 4 * sqrt(1.0 / DRAWS));
    assert_true(fabs(m2 / DRAWS - 1) < 4 * sqrt(2.0 / DRAWS));
    assert_true(fabs(m3 / DRAWS) < 4 * sqrt(15.0 / DRAWS));
    assert_true(fabs(m4 / DRAWS - 3) < 4 * sqrt(96.0 / DRAWS));
    assert_true(fabs((double)beyond_two / DRAWS - 0.0455002639) < 4 * sqrt(0.0455 / DRAWS));
}

/* The formula with libm, to f32's resolution: the logarithm and cosine of our own are right. */
static void normals_are_box_muller(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        uint32_t counter[4] = {(uint32_t)i, 0, 0, 0}, key[2], w[4];
        sc_rng_key(3, 5, key);
        sc_rng_philox(counter, key, w);
        double u = 1 - ((double)(w[0] >> 5) * 67108864 + (w[1] >> 6)) / 9007199254740992.0,
               v = ((double)(w[2] >> 5) * 67108864 + (w[3] >> 6)) / 9007199254740992.0;
        double wanted = sqrt(-2 * log(u)) * cos(6.28318530717958647692 * v);
        assert_true(fabs(sc_rng_normal(3, 5, i) - wanted) <= 6e-8 * fabs(wanted) + 1e-15);
    }
}

/* FNV-1a over the bits of the first values of two paths: a change here changes every model's
 * initial values. */
static void bits_are_stable(void **state)
{
    (void)state;
    double values[4][256];
    uint64_t a = sc_fnv1a64("layers[0].attn.wq", 17), b = sc_fnv1a64("embed", 5);
    for (uint64_t i = 0; i < 256; i++) {
        values[0][i] = sc_rng_uniform(0, a, i);
        values[1][i] = sc_rng_uniform(1, b, i + ((uint64_t)1 << 40));
        values[2][i] = sc_rng_normal(0, a, i);
        values[3][i] = sc_rng_normal(1, b, i + ((uint64_t)1 << 40));
    }
    assert_true(sc_fnv1a64(values[0], 2 * sizeof *values) == 0x0c623863dfe1e2c6u);
    assert_true(sc_fnv1a64(values[2], 2 * sizeof *values) == 0xf62ac26fdbe02f75u);
}

/* Words 2 and 3 of a counter are 0 in a uniform by index. */
static void uniforms_by_counter(void **state)
{
    (void)state;
    uint32_t key[2], counter[] = {9, 7, 0, 0};
    sc_rng_key(5, 6, key);
    assert_true(sc_rng_uniform_at(counter, key) == sc_rng_uniform(5, 6, 9 + ((uint64_t)7 << 32)));
    counter[2] = 1;
    double step = sc_rng_uniform_at(counter, key);
    counter[2] = 0;
    counter[3] = 1;
    assert_true(step != sc_rng_uniform_at(counter, key) &&
                step != sc_rng_uniform(5, 6, 9 + ((uint64_t)7 << 32)));
}

static void seeds_paths_and_indices_differ(void **state)
{
    (void)state;
    double x = sc_rng_uniform(1, 2, 3);
    assert_true(x != sc_rng_uniform(2, 2, 3) && x != sc_rng_uniform(1, 3, 3) &&
                x != sc_rng_uniform(1, 2, 4) && x != sc_rng_uniform(2, 1, 3));
    assert_true(x != sc_rng_uniform(1, 2, 3 + ((uint64_t)1 << 32)));
    assert_true(x == sc_rng_uniform(1, 2, 3));
}

static void many_normals_are_those_of_one(void **state)
{
    (void)state;
    double many[37];
    for (uint64_t count = 0; count <= 37; count++) {
        uint64_t first = count * 1000003u;
        sc_rng_normals(11, 0x123456789abcdefu, first, count, many);
        for (uint64_t i = 0; i < count; i++)
            assert_true(many[i] == sc_rng_normal(11, 0x123456789abcdefu, first + i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(uniforms_have_their_moments),
        cmocka_unit_test(normals_have_their_moments),
        cmocka_unit_test(normals_are_box_muller),
        cmocka_unit_test(bits_are_stable),
        cmocka_unit_test(uniforms_by_counter),
        cmocka_unit_test(seeds_paths_and_indices_differ),
        cmocka_unit_test(many_normals_are_those_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
