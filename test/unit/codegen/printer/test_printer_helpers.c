/* The helpers of emitted C, compiled as programs are, against libm's long double, the interpreter's
 * rounding and the generator itself. */
#include "test/unit/helpers/emitted_case.h"

#include <float.h>
#include <math.h>

#include "codegen/printer/helpers.h"
#include "ir/interp/interp.h"
#include "support/context.h"
#include "support/rng.h"

static const char *const flag_sets[] = {EMITTED_FLAGS,
                                        "-O2 -ffp-contract=off -fno-math-errno -fno-trapping-math"};

/* ---- loops over arrays around every helper ---- */

typedef struct loop_row {
    const char *name, *x, *y, *out; /* types; y NULL: one operand */
    bool is_vector;                 /* the compiler must vectorise the loop */
} loop_row;

static const loop_row loops[] = {
    {"bf16_to_f32", "uint16_t", NULL, "float", true},
    {"f16_to_f32", "uint16_t", NULL, "float", true},
    {"f32_to_bf16", "float", NULL, "uint16_t", true},
    {"f32_to_f16", "float", NULL, "uint16_t", true},
    {"f64_to_bf16", "double", NULL, "uint16_t", true},
    {"f64_to_f16", "double", NULL, "uint16_t", true},
    {"i64_to_f64", "int64_t", NULL, "double", true},
    {"i64_to_f32", "int64_t", NULL, "float", true},
    {"f64_to_i32", "double", NULL, "int32_t", true},
    {"f64_to_i64", "double", NULL, "int64_t", true},
    {"f64_to_u8", "double", NULL, "uint8_t", true},
    {"f32_to_i32", "float", NULL, "int32_t", true},
    {"f32_to_i64", "float", NULL, "int64_t", true},
    {"f32_to_u8", "float", NULL, "uint8_t", true},
    {"min_f32", "float", "float", "float", true},
    {"max_f32", "float", "float", "float", true},
    {"sign_f32", "float", NULL, "float", true},
    {"min_f64", "double", "double", "double", true},
    {"max_f64", "double", "double", "double", true},
    {"sign_f64", "double", NULL, "double", true},
    {"mod_f64", "double", "double", "double", true},
    {"mod_f32", "float", "float", "float", true},
    {"div_i32", "int32_t", "int32_t", "int32_t", true},
    {"div_i64", "int64_t", "int64_t", "int64_t", false},
    {"mod_i32", "int32_t", "int32_t", "int32_t", true},
    {"mod_i64", "int64_t", "int64_t", "int64_t", false},
    {"exp_f32", "float", NULL, "float", true},
    {"exp_below_f32", "float", NULL, "float", true},
    {"expm1_f32", "float", NULL, "float", true},
    {"log_f32", "float", NULL, "float", true},
    {"tanh_f32", "float", NULL, "float", true},
    {"sigmoid_f32", "float", NULL, "float", true},
    {"erf_f32", "float", NULL, "float", true},
    {"sin_f32", "float", NULL, "float", true},
    {"cos_f32", "float", NULL, "float", true},
    {"pow_f32", "float", "float", "float", true},
};
enum { LOOPS = sizeof loops / sizeof *loops };

typedef void loop_function(const void *x, const void *y, void *out, int64_t count);

static const char random_loops[] =
    "void loop_uniform53(const void *keys, const void *words, void *out, int64_t count)\n"
    "{\n"
    "    const uint64_t *k = keys;\n"
    "    const uint32_t *w = words;\n"
    "    uint64_t *o = out;\n"
    "    int64_t first = (int64_t)k[1];\n"
    "#pragma omp simd\n"
    "    for (int64_t i = 0; i < count; i++)\n"
    "        o[i] = sc_uniform53(first + i, w[0], w[1], k[0]);\n"
    "}\n"
    "void loop_uniform_f64(const void *keys, const void *words, void *out, int64_t count)\n"
    "{\n"
    "    const uint64_t *k = keys;\n"
    "    const uint32_t *w = words;\n"
    "    double *o = out;\n"
    "    int64_t first = (int64_t)k[1];\n"
    "#pragma omp simd\n"
    "    for (int64_t i = 0; i < count; i++)\n"
    "        o[i] = sc_uniform_f64(first + i, w[0], w[1], k[0]);\n"
    "}\n"
    "uint64_t key_of(uint64_t seed, uint64_t path)\n"
    "{\n"
    "    return sc_rng_key(seed, path);\n"
    "}\n";

static void write_loops(sc_context *context, void *user)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    sc_helpers_emit(&text, ((sc_helper_set)1 << SC_HELPER_COUNT) - 1);
    for (int i = 0; i < LOOPS; i++) {
        const loop_row *row = &loops[i];
        sc_strbuf_printf(&text,
                         "void loop_%s(const void *a, const void *b, void *c, int64_t count)\n"
                         "{\n"
                         "    const %s *x = a;\n"
                         "    const %s *y = b;\n"
                         "    %s *out = c;\n"
                         "    (void)y;\n"
                         "#pragma omp simd\n"
                         "    for (int64_t i = 0; i < count; i++)\n"
                         "        out[i] = sc_%s(x[i]%s);\n"
                         "}\n",
                         row->name, row->x, row->y == NULL ? "void" : row->y, row->out, row->name,
                         row->y == NULL ? "" : ", y[i]");
    }
    sc_strbuf_add(&text, random_loops);
    *(char **)user = strdup(text.data);
}

/* Written once, compiled with each set of flags. */
static emitted codes[2];
static char *code_text;

static int compile_codes(void **state)
{
    (void)state;
    sc_context context = {0};
    if (!sc_context_run(&context, 0, write_loops, &code_text))
        return 1;
    sc_context_free(&context);
    codes[0] = emitted_load(code_text, EMITTED_FLAGS " -fopt-info-vec");
    codes[1] = emitted_load(code_text, flag_sets[1]);
    return 0;
}

static int close_codes(void **state)
{
    (void)state;
    emitted_close(&codes[0]);
    emitted_close(&codes[1]);
    free(code_text);
    return 0;
}

static void run_loop(int code, const char *name, const void *x, const void *y, void *out,
                     int64_t count)
{
    char symbol[64];
    loop_function *f;
    snprintf(symbol, sizeof symbol, "loop_%s", name);
    void *found = emitted_find(&codes[code], symbol);
    memcpy(&f, &found, sizeof f);
    f(x, y, out, count);
}

/* ---- samples ---- */

enum { SAMPLES = 1 << 20 };

static float f32_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double f64_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t random_bits(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static const float special_f32[] = {
    0.0f,          -0.0f,     INFINITY, -INFINITY, NAN,         FLT_MIN,
    -FLT_MIN,      FLT_MAX,   -FLT_MAX, 1.0f,      -1.0f,       2.0f,
    -2.0f,         3.0f,      -3.0f,    0.5f,      -0.5f,       88.7f,
    88.73f,        -87.3f,    -87.4f,   -103.9f,   -104.5f,     0x1p-149f,
    -0x1p-149f,    0x1p-140f, 0x1p23f,  0x1p24f,   16777215.0f, 0x1.fffffep-1f,
    0x1.000002p0f, 65504.0f,  65519.0f, 65520.0f,  0x1p-14f,    0x1p-25f};
enum { SPECIALS = sizeof special_f32 / sizeof *special_f32 };

/* Specials, then all exponents alike. */
static void fill_f32(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = i < SPECIALS ? special_f32[i] : f32_of((uint32_t)i * 2654435761u);
}

/* ---- mathematics of f32 ---- */

static long double sigmoid(long double x)
{
    return 1 / (1 + expl(-x));
}

typedef struct math_row {
    const char *name;
    long double (*reference)(long double);
    double most;     /* |x|; samples beyond are not compared */
    double relative; /* bound, or */
    double absolute;
} math_row;

static const math_row math_rows[] = {
    {"exp_f32", expl, INFINITY, 3e-7, 0},      {"exp_below_f32", expl, 88, 3e-7, 0},
    {"expm1_f32", expm1l, INFINITY, 3e-7, 0},  {"log_f32", logl, INFINITY, 3e-7, 0},
    {"tanh_f32", tanhl, INFINITY, 3e-7, 0},    {"sigmoid_f32", sigmoid, INFINITY, 3e-7, 0},
    {"erf_f32", erfl, INFINITY, 3e-7, 0},      {"sin_f32", sinl, 1e6, 3e-7, 0},
    {"cos_f32", cosl, 1e6, 3e-7, 0},           {"sin_f32", sinl, 0x1.fffffep30, 0, 3e-7},
    {"cos_f32", cosl, 0x1.fffffep30, 0, 3e-7},
};

/* Of the result; what would be subnormal may be 0, what rounds to infinity may be it. */
static bool agrees(float got, long double wanted, double relative, double absolute, double *worst)
{
    if (isnan(wanted) || isnan(got))
        return isnan(wanted) && isnan(got);
    if (isinf(got) || isinf((float)wanted))
        return (long double)got == wanted ||
               (isinf((float)wanted) && (double)fabsf(got) > 0.9999997 * FLT_MAX &&
                (signbit(got) != 0) == (signbit(wanted) != 0)) ||
               (isinf(got) && fabsl(wanted) > 0.9999997L * FLT_MAX &&
                (signbit(got) != 0) == (signbit(wanted) != 0));
    long double error = fabsl((long double)got - wanted);
    if (fabsl(wanted) < FLT_MIN)
        return error <= FLT_MIN;
    if (relative > 0 && (double)(error / fabsl(wanted)) > *worst)
        *worst = (double)(error / fabsl(wanted));
    return relative > 0 ? error <= relative * fabsl(wanted) : error <= absolute;
}

static void mathematics_is_as_libm(void **state)
{
    (void)state;
    float *x = malloc(SAMPLES * sizeof *x), *out = malloc(SAMPLES * sizeof *out);
    assert_true(x != NULL && out != NULL);
    for (size_t row = 0; row < sizeof math_rows / sizeof *math_rows; row++) {
        const math_row *r = &math_rows[row];
        for (int code = 0; code < 2; code++) {
            double worst = 0;
            fill_f32(x, SAMPLES);
            run_loop(code, r->name, x, NULL, out, SAMPLES);
            for (int64_t i = 0; i < SAMPLES; i++) {
                if ((double)fabsf(x[i]) > r->most)
                    continue;
                if (!agrees(out[i], r->reference((long double)x[i]), r->relative, r->absolute,
                            &worst))
                    fail_msg("%s(%a) = %a, wanted %La", r->name, (double)x[i], (double)out[i],
                             r->reference((long double)x[i]));
            }
            print_message("%s: relative error at most %.2g\n", r->name, worst);
        }
    }
    free(x);
    free(out);
}

/* What is dense near 1 is sparse in all exponents alike. */
static void mathematics_is_as_libm_near_one(void **state)
{
    (void)state;
    float *x = malloc(SAMPLES * sizeof *x), *out = malloc(SAMPLES * sizeof *out);
    assert_true(x != NULL && out != NULL);
    for (size_t row = 0; row < sizeof math_rows / sizeof *math_rows; row++) {
        const math_row *r = &math_rows[row];
        double worst = 0;
        for (int64_t i = 0; i < SAMPLES; i++)
            x[i] = ((float)i - SAMPLES / 2) * (20.0f / SAMPLES) + 0x1p-12f;
        run_loop(0, r->name, x, NULL, out, SAMPLES);
        for (int64_t i = 0; i < SAMPLES; i++) {
            if (!agrees(out[i], r->reference((long double)x[i]), r->relative, r->absolute, &worst))
                fail_msg("%s(%a) = %a, wanted %La", r->name, (double)x[i], (double)out[i],
                         r->reference((long double)x[i]));
        }
        print_message("%s: relative error at most %.2g\n", r->name, worst);
    }
    free(x);
    free(out);
}

static void zeros_keep_their_sign(void **state)
{
    (void)state;
    static const char *const odd[] = {"expm1_f32", "tanh_f32", "erf_f32", "sin_f32", "sign_f32"};
    const float x[2] = {0.0f, -0.0f};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        float out[2] = {1, 1};
        run_loop(0, odd[i], x, NULL, out, 2);
        assert_true(out[0] == 0 && !signbit(out[0]) && out[1] == 0 && signbit(out[1]));
    }
    const float far[4] = {0x1p31f, -0x1p40f, INFINITY, NAN};
    float out[4];
    run_loop(0, "sin_f32", far, NULL, out, 4);
    for (int i = 0; i < 4; i++)
        assert_true(isnan(out[i]));
}

/* Not merely close: what multiplies a result, as gelu does, may be any size. */
static void ends_are_reached(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        float from, below, above; /* of |x| >= from: the result for -|x|, for |x| */
    } ends[] = {{"exp_f32", 104.5f, 0, INFINITY},    {"exp_below_f32", INFINITY, 0, INFINITY},
                {"expm1_f32", 104.5f, -1, INFINITY}, {"tanh_f32", 9.02f, -1, 1},
                {"sigmoid_f32", 104.5f, 0, 1},       {"erf_f32", 4.1f, -1, 1}};
    for (size_t row = 0; row < sizeof ends / sizeof *ends; row++) {
        for (int code = 0; code < 2; code++) {
            const float from = ends[row].from,
                        x[6] = {-INFINITY, -FLT_MAX, -from, from, FLT_MAX, INFINITY};
            float out[6];
            bool below_only = strcmp(ends[row].name, "exp_below_f32") == 0;
            run_loop(code, ends[row].name, x, NULL, out, 6);
            for (int i = 0; i < (below_only ? 3 : 6); i++) {
                if (out[i] != (i < 3 ? ends[row].below : ends[row].above))
                    fail_msg("%s(%a) = %a", ends[row].name, (double)x[i], (double)out[i]);
            }
        }
    }
}

static void check_pow(float x, float y, float got, double *worst)
{
    long double wanted = powl((long double)x, (long double)y);
    if (!agrees(got, wanted, 7e-8, 0, worst) ||
        (!isnan(got) && (signbit(got) != 0) != (signbit(wanted) != 0)))
        fail_msg("pow(%a, %a) = %a, wanted %La", (double)x, (double)y, (double)got, wanted);
}

static void powers_are_as_libm(void **state)
{
    (void)state;
    enum { COUNT = SPECIALS * SPECIALS + SAMPLES };
    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y),
          *out = malloc(COUNT * sizeof *out);
    assert_true(x != NULL && y != NULL && out != NULL);
    uint64_t seed = 7;
    for (int i = 0; i < COUNT; i++) {
        uint64_t bits = random_bits(&seed);
        x[i] = i < SPECIALS * SPECIALS ? special_f32[i / SPECIALS] : f32_of((uint32_t)bits);
        y[i] = i < SPECIALS * SPECIALS ? special_f32[i % SPECIALS]
                                       : f32_of((uint32_t)(bits >> 32) % 0x08000000u + 0x3c000000u);
        y[i] = i % 3 == 0 ? floorf(y[i]) : i % 3 == 1 ? -y[i] : y[i];
    }
    for (int code = 0; code < 2; code++) {
        double worst = 0;
        run_loop(code, "pow_f32", x, y, out, COUNT);
        for (int i = 0; i < COUNT; i++)
            check_pow(x[i], y[i], out[i], &worst);
        print_message("pow_f32: relative error at most %.2g\n", worst);
    }
    free(x);
    free(y);
    free(out);
}

/* ---- smaller and larger, signs, remainders ---- */

static double wanted_binary(const char *name, double x, double y)
{
    if (strncmp(name, "min", 3) == 0)
        return x < y || isnan(x) ? x : y;
    if (strncmp(name, "max", 3) == 0)
        return x > y || isnan(x) ? x : y;
    return x - floor(x / y) * y;
}

static bool same(double got, double wanted)
{
    return (isnan(got) && isnan(wanted)) ||
           (got == wanted && (got != 0 || (signbit(got) != 0) == (signbit(wanted) != 0)));
}

static void pairs_are_as_interpreted(void **state)
{
    (void)state;
    enum { COUNT = SPECIALS * SPECIALS };
    static const char *const names[] = {"min", "max", "mod"};
    static float x[COUNT], y[COUNT], out[COUNT];
    static double wide_x[COUNT], wide_y[COUNT], wide[COUNT];
    for (int i = 0; i < COUNT; i++) {
        wide_x[i] = (double)(x[i] = special_f32[i / SPECIALS]);
        wide_y[i] = (double)(y[i] = special_f32[i % SPECIALS]);
    }
    for (int n = 0; n < 6; n++) {
        char name[16];
        snprintf(name, sizeof name, "%s_%s", names[n / 2], n % 2 == 0 ? "f32" : "f64");
        run_loop(1, name, n % 2 == 0 ? (void *)x : (void *)wide_x,
                 n % 2 == 0 ? (void *)y : (void *)wide_y, n % 2 == 0 ? (void *)out : (void *)wide,
                 COUNT);
        for (int i = 0; i < COUNT; i++) {
            double got = n % 2 == 0 ? (double)out[i] : wide[i],
                   wanted = wanted_binary(names[n / 2], wide_x[i], wide_y[i]);
            if (!same(got, n % 2 == 0 ? (double)(float)wanted : wanted))
                fail_msg("%s(%a, %a) = %a, wanted %a", name, wide_x[i], wide_y[i], got, wanted);
        }
    }
    run_loop(0, "sign_f32", special_f32, NULL, out, SPECIALS);
    run_loop(0, "sign_f64", wide_y, NULL, wide, SPECIALS);
    for (int i = 0; i < SPECIALS; i++) {
        double wanted = wide_y[i] > 0 ? 1 : wide_y[i] < 0 ? -1 : wide_y[i];
        assert_true(same((double)out[i], wanted) && same(wide[i], wanted));
    }
}

/* ---- integers ---- */

static void integers_divide_as_interpreted(void **state)
{
    (void)state;
    static const int64_t special[] = {0,
                                      1,
                                      -1,
                                      2,
                                      -2,
                                      3,
                                      -3,
                                      7,
                                      -7,
                                      10,
                                      1000003,
                                      -1000003,
                                      INT32_MAX,
                                      INT32_MIN,
                                      INT32_MAX - 1,
                                      INT32_MIN + 1};
    enum { SPECIAL = sizeof special / sizeof *special, COUNT = 1 << 16 };
    static int32_t x[COUNT], y[COUNT], quotient[COUNT], rest[COUNT];
    static int64_t wide_x[COUNT], wide_y[COUNT], wide_quotient[COUNT], wide_rest[COUNT];
    uint64_t seed = 3;
    for (int i = 0; i < COUNT; i++) {
        uint64_t bits = random_bits(&seed);
        wide_x[i] = x[i] =
            (int32_t)(i < SPECIAL * SPECIAL ? special[i / SPECIAL]
                                            : (int64_t)(int32_t)bits >> (bits >> 59));
        wide_y[i] = y[i] =
            (int32_t)(i < SPECIAL * SPECIAL ? special[i % SPECIAL]
                                            : (int64_t)(int32_t)(bits >> 32) >> (bits >> 54 & 31));
    }
    for (int code = 0; code < 2; code++) {
        run_loop(code, "div_i32", x, y, quotient, COUNT);
        run_loop(code, "mod_i32", x, y, rest, COUNT);
        run_loop(code, "div_i64", wide_x, wide_y, wide_quotient, COUNT);
        run_loop(code, "mod_i64", wide_x, wide_y, wide_rest, COUNT);
        for (int i = 0; i < COUNT; i++) {
            double a = x[i], b = y[i];
            int64_t q = (int64_t)sc_round_to(SC_DTYPE_i32, a / b),
                    r = (int64_t)sc_round_to(SC_DTYPE_i32, a - floor(a / b) * b);
            if (quotient[i] != q || rest[i] != r)
                fail_msg("%d, %d: %d rest %d, wanted %lld rest %lld", x[i], y[i], quotient[i],
                         rest[i], (long long)q, (long long)r);
            if (wide_quotient[i] != (int64_t)sc_round_to(SC_DTYPE_i64, a / b) || wide_rest[i] != r)
                fail_msg("%d, %d in i64: %lld rest %lld", x[i], y[i], (long long)wide_quotient[i],
                         (long long)wide_rest[i]);
        }
    }
    const int64_t far_x[3] = {INT64_MIN, INT64_MIN, INT64_MAX}, far_y[3] = {-1, 0, 10};
    int64_t far[3];
    run_loop(0, "div_i64", far_x, far_y, far, 3);
    assert_true(far[0] == INT64_MIN && far[1] == 0 && far[2] == INT64_MAX / 10);
    run_loop(0, "mod_i64", far_x, far_y, far, 3);
    assert_true(far[0] == 0 && far[1] == 0 && far[2] == 7);
}

/* ---- conversions ---- */

static double special_f64(int i)
{
    static const double more[] = {
        0x1p31,         -0x1p31,  2147483647.5, -2147483648.5, 0x1p32,         -0x1p32,
        255.5,          256,      -1,           -0.75,         4294967297.0,   0x1p53,
        -0x1p53 + 1,    1e15,     -1e15,        65519.999,     0x1.00ffffffp0, 0x1.01p0,
        0x1.01000001p0, 0x1p-150, 0x1.8p-25,    DBL_MIN,       DBL_MAX,        1e300};
    return i < SPECIALS                                       ? (double)special_f32[i]
           : i - SPECIALS < (int)(sizeof more / sizeof *more) ? more[i - SPECIALS]
                                                              : NAN;
}

static void fill_f64(double *x, int count)
{
    uint64_t seed = 11;
    for (int i = 0; i < count; i++) {
        uint64_t bits = random_bits(&seed);
        uint64_t exponent = 1023 - 160 + (bits >> 52) % 320; /* what f32 reaches, and some more */
        x[i] = i < 64 ? special_f64(i) : f64_of((bits & 0x800fffffffffffffu) | exponent << 52);
        if (i >= 64 && i % 2 == 0) /* ties and their neighbours */
            x[i] =
                f64_of((bits & 0x800fe00000000000u) | exponent << 52) * (1 + (i % 3 - 1) * 0x1p-50);
    }
}

/* Where the interpreter's f64 arithmetic is exact, as it does; remainders are exact everywhere. */
static double wanted_integer(sc_dtype dtype, double x)
{
    if (!(fabs(x) >= 0x1p52))
        return sc_round_to(dtype, x);
    double range = dtype == SC_DTYPE_i64   ? 0x1p64
                   : dtype == SC_DTYPE_i32 ? 0x1p32
                                           : 256,
           rest = isfinite(x) ? fmod(x, range) : 0;
    double high = dtype == SC_DTYPE_u8 ? range : range / 2, low = high - range;
    return rest >= high ? rest - range : rest < low ? rest + range : rest;
}

static void floats_become_integers_as_interpreted(void **state)
{
    (void)state;
    enum { COUNT = 1 << 16 };
    static double x[COUNT];
    static float narrow[COUNT];
    static int32_t i32[COUNT], from_f32[COUNT];
    static int64_t i64[COUNT], i64_from_f32[COUNT];
    static uint8_t u8[COUNT], u8_from_f32[COUNT];
    fill_f64(x, COUNT);
    for (int i = 0; i < COUNT; i++)
        narrow[i] = (float)x[i];
    for (int code = 0; code < 2; code++) {
        run_loop(code, "f64_to_i32", x, NULL, i32, COUNT);
        run_loop(code, "f64_to_i64", x, NULL, i64, COUNT);
        run_loop(code, "f64_to_u8", x, NULL, u8, COUNT);
        run_loop(code, "f32_to_i32", narrow, NULL, from_f32, COUNT);
        run_loop(code, "f32_to_i64", narrow, NULL, i64_from_f32, COUNT);
        run_loop(code, "f32_to_u8", narrow, NULL, u8_from_f32, COUNT);
        for (int i = 0; i < COUNT; i++) {
            double n = (double)narrow[i];
            if ((double)i32[i] != wanted_integer(SC_DTYPE_i32, x[i]) ||
                (double)u8[i] != wanted_integer(SC_DTYPE_u8, x[i]) ||
                (double)from_f32[i] != wanted_integer(SC_DTYPE_i32, n) ||
                (double)u8_from_f32[i] != wanted_integer(SC_DTYPE_u8, n))
                fail_msg("%a: %d %d, %d %d", x[i], i32[i], u8[i], from_f32[i], u8_from_f32[i]);
            if ((double)i64[i] != wanted_integer(SC_DTYPE_i64, x[i]) ||
                (double)i64_from_f32[i] != wanted_integer(SC_DTYPE_i64, n))
                fail_msg("%a: %lld, %lld", x[i], (long long)i64[i], (long long)i64_from_f32[i]);
        }
    }
}

static void integers_become_floats(void **state)
{
    (void)state;
    enum { COUNT = 1 << 12 };
    static int64_t x[COUNT];
    static double out[COUNT];
    static float narrow[COUNT];
    uint64_t seed = 5;
    for (int i = 0; i < COUNT; i++)
        x[i] = (int64_t)random_bits(&seed) >> (i % 64);
    x[0] = INT64_MIN;
    x[1] = INT64_MAX;
    x[2] = 0;
    for (int code = 0; code < 2; code++) {
        run_loop(code, "i64_to_f64", x, NULL, out, COUNT);
        run_loop(code, "i64_to_f32", x, NULL, narrow, COUNT);
        for (int i = 0; i < COUNT; i++)
            assert_true(out[i] == (double)x[i] && narrow[i] == (float)(double)x[i]);
    }
}

/* bits: significand bits that are stored, of the 15 without a sign. */
static double half_value(uint32_t half, int bits)
{
    int bias = (1 << (14 - bits)) - 1, exponent = (int)(half >> bits & ((1u << (15 - bits)) - 1)),
        low = 1 - bias - bits;
    double fraction = (double)(half & ((1u << bits) - 1)), one = ldexp(1, bits),
           sign = (half & 0x8000) != 0 ? -1 : 1;
    if (exponent == 2 * bias + 1)
        return fraction != 0 ? NAN : sign * INFINITY;
    return sign *
           (exponent == 0 ? ldexp(fraction, low) : ldexp(one + fraction, low + exponent - 1));
}

static void halves_are_read(void **state)
{
    (void)state;
    static uint16_t x[1 << 16];
    static float out[1 << 16];
    for (int i = 0; i < 1 << 16; i++)
        x[i] = (uint16_t)i;
    for (int n = 0; n < 4; n++) {
        run_loop(n / 2, n % 2 == 0 ? "bf16_to_f32" : "f16_to_f32", x, NULL, out, 1 << 16);
        for (uint32_t i = 0; i < 1 << 16; i++) {
            if (!same((double)out[i], half_value(i, n % 2 == 0 ? 7 : 10)))
                fail_msg("%x is read as %a, not %a", i, (double)out[i],
                         half_value(i, n % 2 == 0 ? 7 : 10));
        }
    }
}

static void halves_are_rounded_once(void **state)
{
    (void)state;
    enum { COUNT = 1 << 18 };
    double *x = malloc(COUNT * sizeof *x);
    float *narrow = malloc(COUNT * sizeof *narrow);
    uint16_t *out = malloc(COUNT * sizeof *out);
    assert_true(x != NULL && narrow != NULL && out != NULL);
    fill_f64(x, COUNT);
    for (int i = 0; i < COUNT; i++)
        narrow[i] = (float)x[i];
    for (int n = 0; n < 8; n++) {
        bool is_bf16 = n % 2 == 0, is_wide = n / 2 % 2 == 1;
        const char *name = is_wide   ? is_bf16 ? "f64_to_bf16" : "f64_to_f16"
                           : is_bf16 ? "f32_to_bf16"
                                     : "f32_to_f16";
        run_loop(n / 4, name, is_wide ? (void *)x : (void *)narrow, NULL, out, COUNT);
        for (int i = 0; i < COUNT; i++) {
            double given = is_wide ? x[i] : (double)narrow[i],
                   got = half_value(out[i], is_bf16 ? 7 : 10);
            double wanted = sc_round_to(is_bf16 ? SC_DTYPE_bf16 : SC_DTYPE_f16, given);
            if (!same(got, wanted))
                fail_msg("%s(%a) = %a, wanted %a", name, given, got, wanted);
        }
    }
    free(x);
    free(narrow);
    free(out);
}

/* ---- random numbers ---- */

static void random_numbers_are_the_generators(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static uint64_t bits[COUNT];
    static double uniform[COUNT];
    uint64_t (*key_of)(uint64_t, uint64_t);
    void *found = emitted_find(&codes[0], "key_of");
    memcpy(&key_of, &found, sizeof key_of);
    const uint64_t firsts[] = {0, 0xfffffe00u, 0x123456789abcu};
    for (int n = 0; n < 6; n++) {
        uint32_t key[2], words[2] = {(uint32_t)n * 77, (uint32_t)n * 13};
        sc_rng_key((uint64_t)n * 1000003, 0xabcdef0123456789u + (uint64_t)n, key);
        uint64_t keys[2] = {key_of((uint64_t)n * 1000003, 0xabcdef0123456789u + (uint64_t)n),
                            firsts[n % 3]};
        assert_true((uint32_t)keys[0] == key[0] && (uint32_t)(keys[0] >> 32) == key[1]);
        run_loop(n / 3, "uniform53", keys, words, bits, COUNT);
        run_loop(n / 3, "uniform_f64", keys, words, uniform, COUNT);
        for (int i = 0; i < COUNT; i++) {
            uint64_t index = keys[1] + (uint64_t)i;
            uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), words[0], words[1]};
            double wanted = sc_rng_uniform_at(counter, key);
            assert_true(uniform[i] == wanted && (double)bits[i] * 0x1p-53 == wanted);
            for (double p = 0; p <= 1; p += 0.1)
                assert_true((bits[i] < sc_uniform53_limit(p)) == (wanted < p));
            assert_true((bits[i] < sc_uniform53_limit(wanted)) == (wanted < wanted));
        }
    }
}

/* ---- texts ---- */

static void loops_become_vectors(void **state)
{
    (void)state;
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || system("cc --version | grep -q -i 'clang'") == 0)
        skip();
    char *log = emitted_log(&codes[0]);
    int line = 1;
    for (const char *at = code_text; at != NULL && *at != 0;
         at = strchr(at, '\n'), at += at != NULL, line++) {
        char name[64] = "", remark[64];
        if (sscanf(at, "void loop_%63[a-z0-9_](", name) != 1)
            continue;
        bool wanted = true;
        for (int i = 0; i < LOOPS; i++)
            wanted = strcmp(loops[i].name, name) == 0 ? loops[i].is_vector : wanted;
        bool is_vector = false;
        for (int i = 6; i <= 10; i++) { /* lines from the function's first to its loop's */
            snprintf(remark, sizeof remark, "code.c:%d:", line + i);
            for (const char *found = strstr(log, remark); found != NULL;
                 found = strstr(found + 1, remark)) {
                const char *end = strchr(found, '\n'),
                           *loop = strstr(found, "optimized: loop vectorized");
                is_vector = is_vector || (loop != NULL && loop < end);
            }
        }
        if (is_vector != wanted)
            fail_msg("the loop around %s is %svectorised", name, is_vector ? "" : "not ");
    }
    free(log);
#else
    skip();
#endif
}

static void helpers_are_found_by_name(void **state)
{
    (void)state;
    assert_true(sc_helpers_named_in("sc_exp_f32(x) + sc_f32_of_bits(3)") ==
                (SC_HELPER(exp_f32) | SC_HELPER(bits)));
    assert_true(sc_helpers_named_in("sc_div_int(a, b) * sqrtf(c)") ==
                (SC_HELPER(div_int) | SC_HELPER(math)));
    assert_true(sc_helpers_named_in("sc_mod_i64(a, b)") == SC_HELPER(mod_int));
    assert_true(sc_helpers_named_in("sc_exp_f322(x) xsc_log_f32(y) expx + sc_") == 0);
    assert_true(sc_helpers_named_in("/* exp(x), sc_log_f32 */ sc_sin_f32(x) /* tanh") ==
                (SC_HELPER(sin_f32) | SC_HELPER(math)));
    assert_true(sc_helpers_named_in("") == 0);
    for (int i = SC_HELPER_bits64 + 1; i < SC_HELPER_COUNT; i++) {
        char text[64];
        snprintf(text, sizeof text, "sc_%s", sc_helper_name((sc_helper)i));
        assert_true(sc_helpers_named_in(text) == (sc_helper_set)1 << i);
    }
}

/* Whatever the nodes' texts call is there, and nothing that a helper calls is missing from its
 * needs. */
static void nodes_call_what_is_there(void **state)
{
    (void)state;
    static const char *const texts[][3] = {
#define NODE(name, operands, type, cost, f32, f64, integer, reference) {f32, f64, integer},
#include "codegen/kernel/nodes.def"
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (int j = 0; j < 3; j++) {
            for (const char *at = strchr(texts[i][j], '('); at != NULL; at = strchr(at + 1, '(')) {
                const char *name = at;
                char word[64] = "";
                while (name > texts[i][j] &&
                       (name[-1] == '_' || (name[-1] >= '0' && name[-1] <= '9') ||
                        (name[-1] >= 'a' && name[-1] <= 'z')))
                    name--;
                memcpy(word, name, (size_t)(at + 1 - name));
                if (word[0] != '(' && sc_helpers_named_in(word) == 0)
                    fail_msg("%s is no helper and none of libm's", word);
            }
        }
    }
    for (int i = 0; i < SC_HELPER_COUNT; i++) {
        sc_helper_set own = (sc_helper_set)1 << i,
                      named = sc_helpers_named_in(sc_helper_text((sc_helper)i)),
                      closed = sc_helpers_closed(own);
        if ((named & ~closed) != 0 || closed >> i != 1)
            fail_msg("%s needs what it does not say, or what comes after it",
                     sc_helper_name((sc_helper)i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mathematics_is_as_libm),
        cmocka_unit_test(mathematics_is_as_libm_near_one),
        cmocka_unit_test(zeros_keep_their_sign),
        cmocka_unit_test(ends_are_reached),
        cmocka_unit_test(powers_are_as_libm),
        cmocka_unit_test(pairs_are_as_interpreted),
        cmocka_unit_test(integers_divide_as_interpreted),
        cmocka_unit_test(floats_become_integers_as_interpreted),
        cmocka_unit_test(integers_become_floats),
        cmocka_unit_test(halves_are_read),
        cmocka_unit_test(halves_are_rounded_once),
        cmocka_unit_test(random_numbers_are_the_generators),
        cmocka_unit_test(loops_become_vectors),
        cmocka_unit_test(helpers_are_found_by_name),
        cmocka_unit_test(nodes_call_what_is_there),
    };
    return cmocka_run_group_tests(tests, compile_codes, close_codes);
}
