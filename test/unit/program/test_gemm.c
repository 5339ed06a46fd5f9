/* Descriptors of contractions: a canonical one computes the same, what nothing can execute is
 * refused, and how one is printed. */
#include "test/unit/helpers/gemm_case.h"

/* ---- printing ---- */

static sc_gemm linear(int64_t m, int64_t n, int64_t k)
{
    return (sc_gemm){.dim_count = 3,
                     .dims = {{.size = m, .role = SC_GEMM_M, .strides = {k, 0, n}},
                              {.size = n, .role = SC_GEMM_N, .strides = {0, 1, 1}},
                              {.size = k, .role = SC_GEMM_K, .strides = {1, n, 0}}},
                     .sum = SC_DTYPE_f32};
}

static void prints(void **state)
{
    (void)state;
    sc_gemm gemm = linear(1024, 3072, 768);
    gemm.dims[1].strides[SC_GEMM_B] = 768;
    gemm.dims[2].strides[SC_GEMM_B] = 1;
    gemm.step_count = 2;
    gemm.steps[0] = (sc_gemm_step){.kind = SC_GEMM_ADD, .strides = {0, 1, 0}};
    gemm.steps[1] = (sc_gemm_step){.kind = SC_GEMM_GELU};
    assert_string_equal(
        gemm_case_text(&gemm),
        "gemm f32 [m 1024 | n 3072 | k 768] a(768,1) b(768,1) c(3072,1) + (0,1) gelu");
    gemm.step_count = 4;
    gemm.steps[0] = (sc_gemm_step){.kind = SC_GEMM_STORE, .strides = {3072, 1, 0}};
    gemm.steps[2] =
        (sc_gemm_step){.kind = SC_GEMM_STORE, .dtype = SC_DTYPE_bf16, .strides = {1, 1024, 0}};
    gemm.steps[3] = (sc_gemm_step){.kind = SC_GEMM_SILU_GRAD, .strides = {3072, 1, 0}};
    assert_string_equal(
        gemm_case_text(&gemm),
        "gemm [m 1024 | n 3072 | k 768] a f32(768,1) b f32(768,1) c f32(3072,1) store f32(3072,1) "
        "gelu store bf16(1,1024) silu_grad f32(3072,1)");
    gemm.step_count = 2;
    gemm.steps[0] = (sc_gemm_step){.kind = SC_GEMM_SUM_A, .strides = {1, 0, 0}};
    gemm.steps[1] = (sc_gemm_step){.kind = SC_GEMM_SUM_B, .strides = {0, 2, 0}};
    assert_string_equal(
        gemm_case_text(&gemm),
        "gemm f32 [m 1024 | n 3072 | k 768] a(768,1) b(768,1) c(3072,1) sum_a (1) sum_b (2)");
    assert_int_equal(sc_gemm_step_extent(&gemm, 0), 1024);
    assert_int_equal(sc_gemm_step_extent(&gemm, 1), 6143);
    gemm.dtypes[SC_GEMM_A] = SC_DTYPE_bf16;
    gemm.accumulate = true;
    gemm.step_count = 1;
    gemm.steps[0] = (sc_gemm_step){.kind = SC_GEMM_SCALE, .scale = 0.5};
    assert_string_equal(
        gemm_case_text(&gemm),
        "gemm [m 1024 | n 3072 | k 768] a bf16(768,1) b f32(768,1) c += f32(3072,1) * 0.5");
    gemm = (sc_gemm){.sum = SC_DTYPE_f64};
    assert_string_equal(gemm_case_text(&gemm), "gemm f32 sum f64 [] a() b() c()");
    gemm = (sc_gemm){.dim_count = 2,
                     .dims = {{.size = 2, .role = SC_GEMM_BATCH, .strides = {6, 6, 6}},
                              {.size = 3, .role = SC_GEMM_BATCH, .strides = {1, 0, 1}}},
                     .sum = SC_DTYPE_f32};
    assert_string_equal(gemm_case_text(&gemm), "gemm f32 [batch 2 3] a(6,1) b(6,0) c(6,1)");
}

/* ---- refusals ---- */

static void refused(const sc_gemm *gemm, const char *wanted)
{
    const char *why = sc_gemm_invalid(gemm);
    if (why == NULL || strcmp(why, wanted) != 0)
        fail_msg("wanted \"%s\", got \"%s\" of %s", wanted, why == NULL ? "valid" : why,
                 gemm_case_text(gemm));
    assert_false(sc_gemm_valid(gemm));
}

#define REFUSED(CHANGE, WANTED)                                                                    \
    do {                                                                                           \
        sc_gemm gemm = linear(4, 5, 6);                                                            \
        assert_true(sc_gemm_valid(&gemm));                                                         \
        CHANGE;                                                                                    \
        refused(&gemm, WANTED);                                                                    \
    } while (0)

static void refuses_shapes(void **state)
{
    (void)state;
    REFUSED(gemm.dims[0].size = -1, "a size is negative");
    REFUSED(gemm.dims[0].strides[SC_GEMM_A] = -6, "a stride is negative");
    REFUSED(gemm.dims[0].strides[SC_GEMM_B] = 1, "an operand has a stride for a dim that it lacks");
    REFUSED(gemm.dims[1].strides[SC_GEMM_B] = 0, "an operand has no stride for a dim that it has");
    REFUSED(gemm.dims[2].strides[SC_GEMM_A] = 0, "an operand has no stride for a dim that it has");
    REFUSED((gemm.dims[0].role = SC_GEMM_BATCH, gemm.dims[0].strides[SC_GEMM_A] = 0),
            "neither a nor b has a batch dim");
    REFUSED(gemm.dims[0].strides[SC_GEMM_C] = 4, "two elements of c have the same address");
    REFUSED(gemm.dims[1].strides[SC_GEMM_C] = 5, "two elements of c have the same address");
    REFUSED(gemm.dims[2].strides[SC_GEMM_A] = INT64_MAX / 5, "an operand's extent overflows");
    REFUSED(gemm.dims[2].strides[SC_GEMM_A] = INT64_MAX, "an operand's extent overflows");
    sc_gemm gemm = linear(4, 5, 6);
    gemm.dims[0].size = gemm.dims[1].size = INT64_MAX / 2;
    gemm.dims[1].role = SC_GEMM_M;
    gemm.dims[1].strides[SC_GEMM_A] = 1;
    gemm.dims[1].strides[SC_GEMM_B] = 0;
    refused(&gemm, "the sizes of a role overflow");
}

/* Enums out of range cannot be printed, and whoever reads them from a file has not seen them yet.
 */
static void refuses_numbers_out_of_range(void **state)
{
    (void)state;
    sc_gemm gemm = linear(4, 5, 6);
    gemm.dim_count = SC_GEMM_MAX_DIMS + 1;
    assert_string_equal(sc_gemm_invalid(&gemm), "too many dims");
    gemm = linear(4, 5, 6);
    gemm.step_count = SC_GEMM_MAX_STEPS + 1;
    assert_string_equal(sc_gemm_invalid(&gemm), "too many steps");
    gemm = linear(4, 5, 6);
    gemm.dims[1].role = SC_GEMM_ROLES;
    assert_string_equal(sc_gemm_invalid(&gemm), "a dim has no such role");
    gemm = linear(4, 5, 6);
    gemm.dtypes[SC_GEMM_B] = SC_DTYPE_COUNT;
    assert_string_equal(sc_gemm_invalid(&gemm), "an operand's dtype is not numeric");
    gemm = linear(4, 5, 6);
    gemm.sum = SC_DTYPE_bf16;
    assert_string_equal(sc_gemm_invalid(&gemm), "sums are of f32, f64 or i64");
    gemm = linear(4, 5, 6);
    gemm.step_count = 1;
    gemm.steps[0].kind = SC_GEMM_STEP_KINDS;
    assert_string_equal(sc_gemm_invalid(&gemm), "there is no such step");
}

static void refuses_dtypes_and_steps(void **state)
{
    (void)state;
    REFUSED(gemm.dtypes[SC_GEMM_A] = SC_DTYPE_bool, "an operand's dtype is not numeric");
    REFUSED(gemm.dtypes[SC_GEMM_A] = SC_DTYPE_i32, "floats and integers are mixed");
    REFUSED(gemm.dtypes[SC_GEMM_A] = SC_DTYPE_f64, "the sum is narrower than an operand");
    REFUSED((gemm.step_count = 1, gemm.steps[0].kind = SC_GEMM_ADD, gemm.steps[0].strides[2] = 1),
            "a step's tensor has a k");
    REFUSED((gemm.step_count = 1, gemm.steps[0].kind = SC_GEMM_MUL, gemm.steps[0].strides[1] = -1),
            "a stride is negative");
    REFUSED(
        (gemm.step_count = 1, gemm.steps[0].kind = SC_GEMM_ADD, gemm.steps[0].dtype = SC_DTYPE_i64),
        "a step's tensor has a different kind of dtype");
    REFUSED((gemm.step_count = 1, gemm.steps[0].kind = SC_GEMM_ADD,
             gemm.steps[0].strides[0] = INT64_MAX / 4),
            "a step's extent overflows");
    REFUSED((gemm.step_count = 1, gemm.steps[0].kind = SC_GEMM_STORE, gemm.steps[0].strides[0] = 5),
            "two elements that a step stores have the same address");
    REFUSED((gemm.step_count = 1, gemm.steps[0].kind = SC_GEMM_STORE, gemm.steps[0].strides[0] = 4,
             gemm.steps[0].strides[1] = 1),
            "two elements that a step stores have the same address");
    REFUSED((gemm.step_count = 1, gemm.steps[0].kind = SC_GEMM_SUM_A, gemm.steps[0].strides[0] = 1,
             gemm.steps[0].strides[1] = 4),
            "the sum of an operand has a dim that this lacks");
    REFUSED((gemm.step_count = 1, gemm.steps[0].kind = SC_GEMM_SUM_B),
            "two elements that a step stores have the same address");
    REFUSED(gemm.dims[0].others = -1, "a number of other pieces is negative or too large");
    REFUSED(gemm.dims[0].others = INT64_MAX / 2, "the pieces of a role overflow");
    REFUSED((gemm.step_count = 1, gemm.steps[0].kind = SC_GEMM_SUM_B, gemm.steps[0].strides[1] = 1,
             gemm.dim_count = 4, gemm.dims[3] = (sc_gemm_dim){3, SC_GEMM_BATCH, {24, 0, 20}, 0}),
            "what is summed is the same for all of a batch dim");
    sc_gemm gemm = linear(4, 5, 6);
    gemm.sum = SC_DTYPE_i64;
    gemm.dtypes[0] = gemm.dtypes[1] = gemm.dtypes[2] = SC_DTYPE_i32;
    gemm.step_count = 1;
    gemm.steps[0] = (sc_gemm_step){.kind = SC_GEMM_SCALE, .scale = 2};
    assert_true(sc_gemm_valid(&gemm));
    gemm.steps[0].scale = 0.5;
    refused(&gemm, "integers cannot be scaled by a fraction");
    gemm.steps[0].kind = SC_GEMM_GELU;
    refused(&gemm, "a step needs floats");
    gemm.steps[0].kind = SC_GEMM_RELU_GRAD;
    refused(&gemm, "a step needs floats");
}

/* ---- sizes ---- */

static void sizes_and_extents(void **state)
{
    (void)state;
    sc_gemm gemm = linear(4, 5, 6);
    assert_int_equal(sc_gemm_size(&gemm, SC_GEMM_M), 4);
    assert_int_equal(sc_gemm_size(&gemm, SC_GEMM_BATCH), 1);
    assert_int_equal(sc_gemm_extent(&gemm, SC_GEMM_A), 24);
    assert_int_equal(sc_gemm_extent(&gemm, SC_GEMM_C), 20);
    assert_true(sc_gemm_flops(&gemm) == 2 * 4 * 5 * 6);
    gemm.dims[0].strides[SC_GEMM_C] = 50;
    assert_int_equal(sc_gemm_extent(&gemm, SC_GEMM_C), 155);
    gemm.dims[1].size = 0;
    assert_int_equal(sc_gemm_extent(&gemm, SC_GEMM_C), 0);
    assert_int_equal(sc_gemm_extent(&gemm, SC_GEMM_B), 0);
    assert_int_equal(sc_gemm_extent(&gemm, SC_GEMM_A), 24);
}

/* ---- canonical form ---- */

static void expect_canonical_order(const sc_gemm *gemm)
{
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        const sc_gemm_dim *dim = &gemm->dims[i];
        assert_int_not_equal(dim->size, 1);
        if (dim->role == SC_GEMM_BATCH && dim->size > 0)
            assert_true(dim->strides[SC_GEMM_A] != 0 && dim->strides[SC_GEMM_B] != 0);
        if (i > 0)
            assert_true(gemm->dims[i - 1].role <= dim->role);
    }
}

static double *copied(const double *values, int64_t count)
{
    double *copy = malloc(((size_t)count + 1) * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, values, (size_t)count * sizeof *copy);
    return copy;
}

static void expect_same(const sc_gemm *canonical, const double *got, const double *wanted,
                        int64_t count)
{
    for (int64_t j = 0; j < count; j++) {
        if (!(fabs(got[j] - wanted[j]) <= 1e-9))
            fail_msg("%s: element %lld is %g, wanted %g", gemm_case_text(canonical), (long long)j,
                     got[j], wanted[j]);
    }
}

static void canonical_computes_the_same(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 3000; i++) {
        gemm_case c;
        gemm_case_draw(&c, &seed, 5);
        bool swapped;
        sc_gemm canonical = sc_gemm_canonical(&c.gemm, &swapped);
        if (!sc_gemm_valid(&canonical))
            fail_msg("%s becomes %s: %s", gemm_case_text(&c.gemm), gemm_case_text(&canonical),
                     sc_gemm_invalid(&canonical));
        expect_canonical_order(&canonical);
        double *stored[SC_GEMM_MAX_STEPS];
        for (uint32_t s = 0; s < c.gemm.step_count; s++)
            stored[s] = copied(c.tensors[s], sc_gemm_step_extent(&c.gemm, s));
        double *wanted =
            gemm_case_reference(&c.gemm, c.values[0], c.values[1], c.values[2], c.tensors);
        double *got = gemm_case_reference(&canonical, c.values[swapped], c.values[!swapped],
                                          c.values[2], stored);
        expect_same(&canonical, got, wanted, sc_gemm_extent(&c.gemm, SC_GEMM_C));
        for (uint32_t s = 0; s < c.gemm.step_count; s++) {
            expect_same(&canonical, stored[s], c.tensors[s], sc_gemm_step_extent(&c.gemm, s));
            free(stored[s]);
        }
        bool again;
        sc_gemm twice = sc_gemm_canonical(&canonical, &again);
        assert_false(again);
        assert_memory_equal(&twice, &canonical, sizeof twice);
        free(wanted);
        free(got);
        gemm_case_free(&c);
    }
}

/* A dim may be cut in two and dims may change places: the canonical form is the same bytes. */
static void canonical_is_one_form(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int i = 0; i < 3000; i++) {
        gemm_case c;
        gemm_case_draw(&c, &seed, 5);
        bool swapped, other_swapped;
        sc_gemm gemm = c.gemm, canonical = sc_gemm_canonical(&gemm, &swapped);
        for (uint32_t d = 0; d < gemm.dim_count && gemm.dim_count < SC_GEMM_MAX_DIMS; d++) {
            if (gemm.dims[d].size != 4)
                continue;
            sc_gemm_dim *outer = &gemm.dims[gemm.dim_count];
            *outer = gemm.dims[d];
            outer->size = gemm.dims[d].size = 2;
            for (int o = 0; o < SC_GEMM_OPERANDS; o++)
                outer->strides[o] *= 2;
            for (uint32_t s = 0; s < gemm.step_count; s++)
                gemm.steps[s].strides[gemm.dim_count] = 2 * gemm.steps[s].strides[d];
            gemm.dim_count++;
            break;
        }
        for (uint32_t d = 1; d < gemm.dim_count; d++) {
            uint32_t e = gemm_case_below(&seed, d + 1);
            sc_gemm_dim moved = gemm.dims[d];
            gemm.dims[d] = gemm.dims[e];
            gemm.dims[e] = moved;
            for (uint32_t s = 0; s < gemm.step_count; s++) {
                int64_t stride = gemm.steps[s].strides[d];
                gemm.steps[s].strides[d] = gemm.steps[s].strides[e];
                gemm.steps[s].strides[e] = stride;
            }
        }
        sc_gemm other = sc_gemm_canonical(&gemm, &other_swapped);
        if (memcmp(&other, &canonical, sizeof other) != 0)
            fail_msg("two canonical forms of one:\n%s\n%s", gemm_case_text(&canonical),
                     gemm_case_text(&other));
        assert_int_equal(swapped, other_swapped);
        gemm_case_free(&c);
    }
}

static void canonical_examples(void **state)
{
    (void)state;
    bool swapped;
    sc_gemm gemm = linear(1, 5, 6), canonical = sc_gemm_canonical(&gemm, &swapped);
    assert_string_equal(gemm_case_text(&canonical), "gemm f32 [n 5 | k 6] a(1) b(1,5) c(1)");
    assert_false(swapped);
    gemm = linear(4, 1, 6);
    canonical = sc_gemm_canonical(&gemm, &swapped);
    assert_string_equal(gemm_case_text(&canonical), "gemm f32 [n 4 | k 6] a(1) b(6,1) c(1)");
    assert_true(swapped);
    gemm.step_count = 1;
    gemm.steps[0] = (sc_gemm_step){.kind = SC_GEMM_SUM_A, .strides = {1, 0, 0}};
    canonical = sc_gemm_canonical(&gemm, &swapped);
    assert_string_equal(gemm_case_text(&canonical),
                        "gemm f32 [n 4 | k 6] a(1) b(6,1) c(1) sum_b (1)");
    gemm = linear(4, 5, 6);
    gemm.dims[3] = (sc_gemm_dim){3, SC_GEMM_BATCH, {24, 0, 20}, 0};
    gemm.dim_count = 4;
    canonical = sc_gemm_canonical(&gemm, &swapped);
    assert_string_equal(gemm_case_text(&canonical),
                        "gemm f32 [m 12 | n 5 | k 6] a(6,1) b(1,5) c(5,1)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints),
        cmocka_unit_test(refuses_shapes),
        cmocka_unit_test(refuses_numbers_out_of_range),
        cmocka_unit_test(refuses_dtypes_and_steps),
        cmocka_unit_test(sizes_and_extents),
        cmocka_unit_test(canonical_computes_the_same),
        cmocka_unit_test(canonical_is_one_form),
        cmocka_unit_test(canonical_examples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
