/* bf16 and f16: every value comes back, and doubles are rounded once, to nearest, ties to even. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "support/float16.h"
#include "support/rng.h"

typedef struct format {
    float (*widen)(uint16_t bits);
    uint16_t (*of_f32)(float value);
    uint16_t (*of_f64)(double value);
    uint16_t infinity;
} format;

static float widen_bf16(uint16_t bits)
{
    return sc_f32_of_bf16(bits);
}

static float widen_f16(uint16_t bits)
{
    return sc_f32_of_f16(bits);
}

static uint16_t narrow_bf16(float value)
{
    return sc_bf16_of_f32(value);
}

static uint16_t narrow_f16(float value)
{
    return sc_f16_of_f32(value);
}

static const format formats[] = {{widen_bf16, narrow_bf16, sc_bf16_of_f64, 0x7f80},
                                 {widen_f16, narrow_f16, sc_f16_of_f64, 0x7c00}};
enum { FORMATS = sizeof formats / sizeof *formats };

static void every_value_comes_back(void **state)
{
    (void)state;
    for (int f = 0; f < FORMATS; f++) {
        for (uint32_t bits = 0; bits < 1u << 16; bits++) {
            float value = formats[f].widen((uint16_t)bits);
            if ((bits & 0x7fff) > formats[f].infinity) {
                assert_true(isnan(value));
                assert_true(isnan(formats[f].widen(formats[f].of_f32(value))));
                assert_true(isnan(formats[f].widen(formats[f].of_f64((double)value))));
                continue;
            }
            assert_int_equal(formats[f].of_f32(value), bits);
            assert_int_equal(formats[f].of_f64((double)value), bits);
        }
    }
}

static void known_values(void **state)
{
    (void)state;
    assert_true(sc_f32_of_f16(0x3c00) == 1.0F && sc_f32_of_f16(0x0001) == 0x1p-24F &&
                sc_f32_of_f16(0x7bff) == 65504.0F);
    assert_true(sc_f32_of_f16(0xfc00) == -INFINITY && sc_f32_of_bf16(0x3f80) == 1.0F &&
                sc_f32_of_bf16(0xc049) == -3.140625F);
    assert_int_equal(sc_f16_of_f64(65519.99), 0x7bff);
    assert_int_equal(sc_f16_of_f64(65520.0), 0x7c00);
    assert_int_equal(sc_f16_of_f64(0x1p-25), 0x0000);
    assert_int_equal(sc_f16_of_f64(0x1.8p-24), 0x0002);
}

/* The two neighbours of a value of the format, the middle between them, and what is a little to
 * either side of it. */
static void doubles_are_rounded_once(void **state)
{
    (void)state;
    for (int f = 0; f < FORMATS; f++) {
        for (uint16_t bits = 0; bits + 1 < formats[f].infinity; bits++) {
            double low = (double)formats[f].widen(bits),
                   high = (double)formats[f].widen((uint16_t)(bits + 1)), middle = (low + high) / 2;
            uint16_t even = (uint16_t)(bits + (bits & 1));
            assert_int_equal(formats[f].of_f64(middle), even);
            assert_int_equal(formats[f].of_f64(nextafter(middle, INFINITY)), bits + 1);
            assert_int_equal(formats[f].of_f64(nextafter(middle, 0)), bits);
            assert_int_equal(formats[f].of_f64(-middle), even | 0x8000);
            /* exact: a float has more than one bit to spare */
            assert_int_equal(formats[f].of_f32((float)middle), even);
        }
    }
}

/* Of floats, both ways give the same. */
static void floats_are_rounded_alike(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1u << 18; i++) {
        uint32_t out[4];
        sc_rng_philox((const uint32_t[4]){i, 0, 0, 0}, (const uint32_t[2]){16, 0}, out);
        for (int f = 0; f < FORMATS; f++) {
            float value = sc_f32_of_bits(out[f]);
            if (!isnan(value))
                assert_int_equal(formats[f].of_f32(value), formats[f].of_f64((double)value));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_comes_back), cmocka_unit_test(known_values),
        cmocka_unit_test(doubles_are_rounded_once), cmocka_unit_test(floats_are_rounded_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
