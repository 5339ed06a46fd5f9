/* Kernels for tests: as text, and what tests do with any. */
#ifndef SHARDC_TEST_KERNEL_CASE_H
#define SHARDC_TEST_KERNEL_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/kernel/kernel.h"

/* ---- tests with a context ---- */

typedef struct run {
    void (*test)(sc_context *);
    bool done;
} run;

static inline void call_test(sc_context *context, void *user)
{
    run *r = user;
    r->test(context);
    r->done = true;
}

/* A failed assertion of cmocka jumps out of here; the memory is then lost, which is fine in a test
 * that failed. */
static inline void in_context(void **state)
{
    sc_context context;
    run r = {.test = *(void (**)(sc_context *)) * state};
    assert_true(sc_context_run(&context, 0, call_test, &r));
    assert_true(r.done);
    sc_context_free(&context);
}

static inline sc_sym name(sc_context *context, const char *text)
{
    return sc_intern_text(&context->names, text);
}

static inline const char *text_of(const sc_kernel *k)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &k->context->arena);
    sc_kernel_print(k, &out);
    return out.data;
}

static inline uint32_t add_arg(sc_kernel *k, const char *text, sc_dtype dtype,
                               sc_kernel_arg_mode mode, uint32_t rank, const int64_t *sizes)
{
    sc_kernel_arg arg = {
        .name = name(k->context, text), .dtype = dtype, .mode = mode, .rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        arg.sizes[i] = sizes[i];
    return sc_kernel_add_arg(k, &arg);
}

static inline sc_kernel *parse_only(sc_context *context, const char *text)
{
    return sc_kernel_parse(context, text, strlen(text), "kernel");
}

static inline sc_kernel *parse(sc_context *context, const char *text)
{
    sc_kernel *k = parse_only(context, text);
    if (k == NULL) {
        sc_strbuf out;
        sc_strbuf_init(&out, &context->arena);
        sc_diag_render_text(&context->diag, &context->sources, &out);
        fail_msg("%s", out.data);
    }
    return k;
}

static inline void verifies(const sc_kernel *k)
{
    const char *error = sc_kernel_verify(k);
    if (error != NULL)
        fail_msg("%s\n%s", error, text_of(k));
}

#define TEST(f)                                                                                    \
    {                                                                                              \
#f, in_context, NULL, NULL, &(void (*)(sc_context *))                                      \
        {                                                                                          \
            f                                                                                      \
        }                                                                                          \
    }

/* ---- kernels ---- */

static const char softmax[] = "kernel @softmax {\n"
                              "  dim S = 5\n"
                              "  dim D = 7\n"
                              "  arg x: f32[5, 7] in\n"
                              "  arg y: f32[5, 7] out\n"
                              "  outer S\n"
                              "  %0 = index S : i64\n"
                              "  %1 = index D : i64\n"
                              "  %2 = load x %0, %1 : f32\n"
                              "  %3 = reduced #0 : f32\n"
                              "  %4 = sub %2, %3 : f32\n"
                              "  %5 = exp %4 : f32\n"
                              "  %6 = reduced #1 : f32\n"
                              "  %7 = div %5, %6 : f32\n"
                              "  phase D {\n"
                              "    #0 = max %2\n"
                              "  }\n"
                              "  phase D {\n"
                              "    #1 = sum %5\n"
                              "  }\n"
                              "  phase D {\n"
                              "    store y %0, %1 = %7\n"
                              "  }\n"
                              "}\n";

static const char layernorm[] = "kernel @layernorm {\n"
                                "  dim B = 2\n"
                                "  dim S = 3\n"
                                "  dim D = 11\n"
                                "  arg x: f32[2, 3, 11] in\n"
                                "  arg w: f32[11] in\n"
                                "  arg b: f32[11] in\n"
                                "  arg y: f32[2, 3, 11] out\n"
                                "  arg r: f32[2, 3] out\n"
                                "  outer B, S\n"
                                "  %0 = index B : i64\n"
                                "  %1 = index S : i64\n"
                                "  %2 = index D : i64\n"
                                "  %3 = load x %0, %1, %2 : f32\n"
                                "  %4 = reduced #0 : f32\n"
                                "  %5 = constant 11.0 : f32\n"
                                "  %6 = div %4, %5 : f32\n"
                                "  %7 = sub %3, %6 : f32\n"
                                "  %8 = mul %7, %7 : f32\n"
                                "  %9 = reduced #1 : f32\n"
                                "  %10 = div %9, %5 : f32\n"
                                "  %11 = constant 1e-05 : f32\n"
                                "  %12 = add %10, %11 : f32\n"
                                "  %13 = rsqrt %12 : f32\n"
                                "  %14 = mul %7, %13 : f32\n"
                                "  %15 = load w %2 : f32\n"
                                "  %16 = mul %14, %15 : f32\n"
                                "  %17 = load b %2 : f32\n"
                                "  %18 = add %16, %17 : f32\n"
                                "  phase D {\n"
                                "    #0 = sum %3\n"
                                "  }\n"
                                "  phase D {\n"
                                "    #1 = sum %8\n"
                                "  }\n"
                                "  phase {\n"
                                "    store r %0, %1 = %13\n"
                                "  }\n"
                                "  phase D {\n"
                                "    store y %0, %1, %2 = %18\n"
                                "  }\n"
                                "}\n";

static const char column_sums[] = "kernel @columns {\n"
                                  "  dim D = 4\n"
                                  "  dim B = 2\n"
                                  "  dim S = 3\n"
                                  "  arg x: bf16[2, 3, 4] in\n"
                                  "  arg g: f32[4] inout\n"
                                  "  outer D\n"
                                  "  %0 = index D : i64\n"
                                  "  %1 = index B : i64\n"
                                  "  %2 = index S : i64\n"
                                  "  %3 = load x %1, %2, %0 : f32\n"
                                  "  %4 = reduced #0 : f32\n"
                                  "  phase B, S {\n"
                                  "    #0 = sum %3\n"
                                  "  }\n"
                                  "  phase {\n"
                                  "    add g %0 = %4\n"
                                  "  }\n"
                                  "}\n";

static const char scatter_add[] = "kernel @scatter {\n"
                                  "  dim D = 3\n"
                                  "  dim V = 5\n"
                                  "  dim S = 6\n"
                                  "  arg ids: i32[6] in\n"
                                  "  arg x: f32[6, 3] in\n"
                                  "  arg y: f32[5, 3] out\n"
                                  "  outer D\n"
                                  "  %0 = index D : i64\n"
                                  "  %1 = index V : i64\n"
                                  "  %2 = index S : i64\n"
                                  "  %3 = constant 0.0 : f32\n"
                                  "  %4 = load ids %2 : i32\n"
                                  "  %5 = convert %4 : i64\n"
                                  "  %6 = constant 0 : i64\n"
                                  "  %7 = ge %5, %6 : bool\n"
                                  "  %8 = constant 5 : i64\n"
                                  "  %9 = lt %5, %8 : bool\n"
                                  "  %10 = and %7, %9 : bool\n"
                                  "  %11 = load x %2, %0 : f32\n"
                                  "  phase V {\n"
                                  "    store y %1, %0 = %3\n"
                                  "  }\n"
                                  "  phase S {\n"
                                  "    check %10 \"id {value} is out of range\" shows %5\n"
                                  "    add y %5, %0 = %11\n"
                                  "  }\n"
                                  "}\n";

static const char cumsum[] = "kernel @cumsum {\n"
                             "  dim A = 2\n"
                             "  dim C = 3\n"
                             "  dim B = 4\n"
                             "  arg x: i32[2, 4, 3] in\n"
                             "  arg y: i32[2, 4, 3] out\n"
                             "  arg z: i32[2, 4, 3] out\n"
                             "  outer A, C\n"
                             "  %0 = index A : i64\n"
                             "  %1 = index B : i64\n"
                             "  %2 = index C : i64\n"
                             "  %3 = load x %0, %1, %2 : i32\n"
                             "  %4 = running #1 : i32\n"
                             "  phase B {\n"
                             "    store z %0, %1, %2 = %4\n"
                             "    #1 = sum %3\n"
                             "    store y %0, %1, %2 = %4\n"
                             "  }\n"
                             "}\n";

static const char dropout[] = "kernel @dropout {\n"
                              "  dim S = 4\n"
                              "  dim D = 25\n"
                              "  arg x: f32[4, 25] in\n"
                              "  arg y: f32[4, 25] out\n"
                              "  param 0: key = \"0123456789abcdef\"\n"
                              "  param 1: rank = (1, 2, 100)\n"
                              "  param 2: step\n"
                              "  param 3: micro_batch\n"
                              "  outer S, D\n"
                              "  %0 = index S : i64\n"
                              "  %1 = index D : i64\n"
                              "  %2 = constant 25 : i64\n"
                              "  %3 = mul %0, %2 : i64\n"
                              "  %4 = add %1, %3 : i64\n"
                              "  %5 = param 1 : i64\n"
                              "  %6 = add %4, %5 : i64\n"
                              "  %7 = param 0 : i64\n"
                              "  %8 = param 2 : i64\n"
                              "  %9 = param 3 : i64\n"
                              "  %10 = random %6, %7, %8, %9 : f64\n"
                              "  %11 = constant 0.3 : f64\n"
                              "  %12 = ge %10, %11 : bool\n"
                              "  %13 = load x %0, %1 : f32\n"
                              "  %14 = constant 1.4285714285714286 : f32\n"
                              "  %15 = mul %13, %14 : f32\n"
                              "  %16 = constant 0.0 : f32\n"
                              "  %17 = where %12, %15, %16 : f32\n"
                              "  phase {\n"
                              "    store y %0, %1 = %17\n"
                              "  }\n"
                              "}\n";

/* Columns 2 to 4 of x between columns of zeros. */
static const char window[] = "kernel @window {\n"
                             "  dim S = 2\n"
                             "  dim D = 6\n"
                             "  arg x: f32[2, 3] in\n"
                             "  arg y: f32[2, 6] out\n"
                             "  outer S\n"
                             "  %0 = index S : i64\n"
                             "  %1 = index D : i64\n"
                             "  %2 = constant 2 : i64\n"
                             "  %3 = sub %1, %2 : i64\n"
                             "  %4 = ge %1, %2 : bool\n"
                             "  %5 = constant 5 : i64\n"
                             "  %6 = lt %1, %5 : bool\n"
                             "  %7 = and %4, %6 : bool\n"
                             "  %8 = load x %0, %3 if %7 : f32\n"
                             "  phase D {\n"
                             "    store y %0, %1 = %8\n"
                             "  }\n"
                             "}\n";

#endif
