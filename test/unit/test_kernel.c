/* The kernel IR: making, text, checks, the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/kernel.h"

typedef struct run {
    void (*test)(sc_context *);
    bool done;
} run;

static void call_test(sc_context *context, void *user)
{
    run *r = user;
    r->test(context);
    r->done = true;
}

/* A failed assertion of cmocka jumps out of here; the memory is then lost, which is fine in a test that failed. */
static void in_context(void **state)
{
    sc_context context;
    run r = {.test = *(void (**)(sc_context *)) * state};
    assert_true(sc_context_run(&context, 0, call_test, &r));
    assert_true(r.done);
    sc_context_free(&context);
}

static sc_sym name(sc_context *context, const char *text)
{
    return sc_intern_text(&context->names, text);
}

static const char *text_of(const sc_kernel *k)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &k->context->arena);
    sc_kernel_print(k, &out);
    return out.data;
}

static uint32_t add_arg(sc_kernel *k, const char *text, sc_dtype dtype, sc_kernel_arg_mode mode, uint32_t rank, const int64_t *sizes)
{
    sc_kernel_arg arg = {.name = name(k->context, text), .dtype = dtype, .mode = mode, .rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        arg.sizes[i] = sizes[i];
    return sc_kernel_add_arg(k, &arg);
}

/* ---- making ---- */

static sc_kernel *last_step_of_softmax(sc_context *context)
{
    sc_kernel *k = sc_kernel_new(context, name(context, "k0"));
    k->title = "softmax's last step";
    sc_kernel_add_dim(k, name(context, "S"), 8);
    sc_kernel_add_dim(k, name(context, "D"), 64);
    k->outer_count = 1;
    uint32_t x = add_arg(k, "x", SC_DTYPE_bf16, SC_ARG_IN, 2, (int64_t[]){8, 64});
    uint32_t y = add_arg(k, "y", SC_DTYPE_f32, SC_ARG_OUT, 2, (int64_t[]){8, 64});
    sc_knode at[2] = {sc_kernel_index(k, 0), sc_kernel_index(k, 1)};
    sc_knode value = sc_kernel_load(k, x, at, SC_IMAGE_NONE);
    sc_kernel_add_phase(k, (uint32_t[]){1}, 1);
    uint32_t sum = sc_kernel_add_reduction(k, SC_ITEM_SUM, value);
    sc_knode part = sc_kernel_node_new(k, SC_NODE_div, (sc_knode[]){value, sc_kernel_reduced(k, sum, false)}, 2);
    sc_kernel_add_phase(k, (uint32_t[]){1}, 1);
    sc_kernel_add_store(k, SC_ITEM_STORE, y, at, part, SC_IMAGE_NONE);
    return k;
}

static void kernels_print(sc_context *context)
{
    assert_string_equal(text_of(last_step_of_softmax(context)), "kernel @k0 \"softmax's last step\" {\n"
                                                                "  dim S = 8\n"
                                                                "  dim D = 64\n"
                                                                "  arg x: bf16[8, 64] in\n"
                                                                "  arg y: f32[8, 64] out\n"
                                                                "  outer S\n"
                                                                "  %0 = index S : i64\n"
                                                                "  %1 = index D : i64\n"
                                                                "  %2 = load x %0, %1 : f32\n"
                                                                "  %3 = reduced #0 : f32\n"
                                                                "  %4 = div %2, %3 : f32\n"
                                                                "  phase D {\n"
                                                                "    #0 = sum %2\n"
                                                                "  }\n"
                                                                "  phase D {\n"
                                                                "    store y %0, %1 = %4\n"
                                                                "  }\n"
                                                                "}\n");
}

static void dependence_goes_through_operands_and_ends_at_reductions(sc_context *context)
{
    sc_kernel *k = last_step_of_softmax(context);
    assert_true(sc_kernel_depends(k, 2, 0) && sc_kernel_depends(k, 2, 1));
    assert_true(sc_kernel_depends(k, 3, 0) && !sc_kernel_depends(k, 3, 1));
    assert_true(sc_kernel_depends(k, 4, 1) && !sc_kernel_depends(k, 0, 1));
}

static sc_knode op(sc_kernel *k, sc_node_kind kind, sc_knode x, sc_knode y)
{
    return sc_kernel_node_new(k, kind, (sc_knode[]){x, y}, 2);
}

static void equal_nodes_are_one(sc_context *context)
{
    sc_kernel *k = sc_kernel_new(context, 0);
    sc_kernel_add_dim(k, name(context, "A"), 3);
    sc_kernel_add_dim(k, name(context, "B"), 4);
    sc_knode a = sc_kernel_index(k, 0), b = sc_kernel_index(k, 1);
    assert_int_equal(op(k, SC_NODE_add, a, b), op(k, SC_NODE_add, b, a));
    assert_int_not_equal(op(k, SC_NODE_sub, a, b), op(k, SC_NODE_sub, b, a));
    assert_int_equal(sc_kernel_index(k, 0), a);
    assert_int_not_equal(sc_kernel_constant(k, SC_DTYPE_f32, 0.0), sc_kernel_constant(k, SC_DTYPE_f32, -0.0));
    assert_int_not_equal(sc_kernel_constant(k, SC_DTYPE_f32, 1), sc_kernel_constant(k, SC_DTYPE_f64, 1));
    assert_int_equal(sc_kernel_constant(k, SC_DTYPE_f32, NAN), sc_kernel_constant(k, SC_DTYPE_f32, -NAN));
    uint32_t count = k->nodes.count;
    for (int i = 0; i < 1000; i++) /* many enough for the table to grow */
        assert_int_equal(sc_kernel_constant(k, SC_DTYPE_i64, 100 + i), count + (uint32_t)i);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(sc_kernel_constant(k, SC_DTYPE_i64, 100 + i), count + (uint32_t)i);
    sc_image_param step = {.kind = SC_PARAM_STEP}, key = {.kind = SC_PARAM_KEY, .path_hash = 7},
                   other = {.kind = SC_PARAM_KEY, .path_hash = 8};
    assert_int_equal(sc_kernel_add_param(k, &step), 0);
    assert_int_equal(sc_kernel_add_param(k, &key), 1);
    assert_int_equal(sc_kernel_add_param(k, &other), 2);
    assert_int_equal(sc_kernel_add_param(k, &key), 1);
}

static void what_changes_nothing_folds(sc_context *context)
{
    sc_kernel *k = sc_kernel_new(context, 0);
    sc_kernel_add_dim(k, name(context, "A"), 3);
    uint32_t arg = add_arg(k, "x", SC_DTYPE_f32, SC_ARG_IN, 1, (int64_t[]){3});
    sc_knode i = sc_kernel_index(k, 0), x = sc_kernel_load(k, arg, &i, SC_IMAGE_NONE);
    sc_knode zero = sc_kernel_constant(k, SC_DTYPE_i64, 0), one = sc_kernel_constant(k, SC_DTYPE_i64, 1);
    assert_int_equal(op(k, SC_NODE_add, zero, i), i);
    assert_int_equal(op(k, SC_NODE_mul, i, one), i);
    assert_int_equal(op(k, SC_NODE_mul, i, zero), zero);
    assert_int_equal(op(k, SC_NODE_sub, i, i), zero);
    assert_int_equal(op(k, SC_NODE_mod, i, one), zero);
    sc_knode yes = op(k, SC_NODE_ge, i, i), positive = op(k, SC_NODE_gt, i, zero);
    assert_int_equal(yes, sc_kernel_constant(k, SC_DTYPE_bool, 1));
    assert_int_equal(op(k, SC_NODE_and, yes, positive), positive);
    assert_int_equal(sc_kernel_node_new(k, SC_NODE_where, (sc_knode[]){yes, i, zero}, 3), i);
    /* of floats: x + 0 is not x where x is -0 */
    sc_knode f0 = sc_kernel_constant(k, SC_DTYPE_f32, 0), f1 = sc_kernel_constant(k, SC_DTYPE_f32, 1);
    assert_int_not_equal(op(k, SC_NODE_add, x, f0), x);
    assert_int_equal(op(k, SC_NODE_sub, x, f0), x);
    assert_int_equal(op(k, SC_NODE_add, x, sc_kernel_constant(k, SC_DTYPE_f32, -0.0)), x);
    assert_int_equal(op(k, SC_NODE_mul, f1, x), x);
    assert_int_not_equal(op(k, SC_NODE_mul, x, f0), f0);
    assert_int_not_equal(op(k, SC_NODE_sub, x, x), f0);
    assert_int_not_equal(op(k, SC_NODE_eq, x, x), yes);
    /* constants */
    assert_int_equal(op(k, SC_NODE_div, sc_kernel_constant(k, SC_DTYPE_i32, -7), sc_kernel_constant(k, SC_DTYPE_i32, 2)),
                     sc_kernel_constant(k, SC_DTYPE_i32, -3));
    assert_int_equal(op(k, SC_NODE_mod, sc_kernel_constant(k, SC_DTYPE_i32, -7), sc_kernel_constant(k, SC_DTYPE_i32, 4)),
                     sc_kernel_constant(k, SC_DTYPE_i32, 1));
    assert_int_equal(op(k, SC_NODE_add, sc_kernel_constant(k, SC_DTYPE_i32, 0x7fffffff), sc_kernel_constant(k, SC_DTYPE_i32, 1)),
                     sc_kernel_constant(k, SC_DTYPE_i32, -0x1p31));
    assert_int_equal(op(k, SC_NODE_div, one, zero), zero);
    assert_int_equal(op(k, SC_NODE_maximum, f0, sc_kernel_constant(k, SC_DTYPE_f32, NAN)), sc_kernel_constant(k, SC_DTYPE_f32, NAN));
    /* conversions */
    sc_knode wide = sc_kernel_convert(k, x, SC_DTYPE_f64), whole = sc_kernel_convert(k, x, SC_DTYPE_i32);
    assert_int_equal(sc_kernel_convert(k, x, SC_DTYPE_f32), x);
    assert_int_equal(sc_kernel_convert(k, wide, SC_DTYPE_f32), x);
    assert_int_equal(sc_kernel_convert(k, wide, SC_DTYPE_i32), whole);
    assert_int_not_equal(sc_kernel_convert(k, whole, SC_DTYPE_f32), x);
    assert_int_equal(sc_kernel_convert(k, sc_kernel_convert(k, whole, SC_DTYPE_i64), SC_DTYPE_f64),
                     sc_kernel_convert(k, whole, SC_DTYPE_f64));
    assert_int_equal(sc_kernel_convert(k, sc_kernel_constant(k, SC_DTYPE_f64, -2.9), SC_DTYPE_i64),
                     sc_kernel_constant(k, SC_DTYPE_i64, -2));
    assert_int_equal(sc_kernel_convert(k, sc_kernel_constant(k, SC_DTYPE_f64, 0.5), SC_DTYPE_bool), yes);
    /* guards */
    sc_knode no = sc_kernel_constant(k, SC_DTYPE_bool, 0);
    assert_int_equal(sc_kernel_load(k, arg, &i, yes), x);
    assert_int_equal(sc_kernel_load(k, arg, &i, no), f0);
}

/* ---- */

#define TEST(f)                                                                                                                            \
    {                                                                                                                                      \
#f, in_context, NULL, NULL, &(void (*)(sc_context *))                                                                              \
        {                                                                                                                                  \
            f                                                                                                                              \
        }                                                                                                                                  \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kernels_print),
        TEST(dependence_goes_through_operands_and_ends_at_reductions),
        TEST(equal_nodes_are_one),
        TEST(what_changes_nothing_folds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
