/* Contractions as products of matrices: whatever takes this form computes the same, and what models are made of takes it. */
#include "gemm_case.h"

#include "support/matmul.h"

/* Element (row, column) of op(matrix) in batch b. */
static int64_t element(const sc_matmul_matrix *matrix, int64_t row, int64_t column, int64_t b)
{
    int64_t down = matrix->is_transposed ? column : row, across = matrix->is_transposed ? row : column;
    assert_true(down < matrix->rows && across < matrix->columns && matrix->stride >= matrix->rows);
    return down + across * matrix->stride + b * matrix->batch_stride;
}

static void one_call(const sc_gemm *gemm, const sc_matmul *p, double *const *values, double *const *tensors, const int64_t *at, double *c)
{
    for (int64_t b = 0; b < p->batches; b++)
        for (int64_t j = 0; j < p->columns; j++)
            for (int64_t i = 0; i < p->rows; i++) {
                double sum = 0, slack = 0;
                for (int64_t k = 0; k < p->depth; k++)
                    sum += values[p->a.operand][at[p->a.operand] + element(&p->a, i, k, b)] *
                           values[p->b.operand][at[p->b.operand] + element(&p->b, k, j, b)];
                sum *= p->alpha;
                if (p->bias < SC_GEMM_MAX_STEPS)
                    sum += tensors[p->bias][i];
                if (p->activation != SC_GEMM_STEP_KINDS)
                    sum = gemm_case_activation(p->activation, sum, &slack);
                int64_t to = at[SC_GEMM_C] + element(&p->d, i, j, b);
                c[to] = sum + (p->accumulate ? values[SC_GEMM_C][to] : 0);
            }
    (void)gemm;
}

static void all_calls(const sc_gemm *gemm, const sc_matmul *p, uint32_t loop, double *const *values, double *const *tensors,
                      const int64_t *at, double *c)
{
    if (loop == p->loop_count) {
        one_call(gemm, p, values, tensors, at, c);
        return;
    }
    for (int64_t i = 0; i < p->loops[loop].size; i++) {
        int64_t next[SC_GEMM_OPERANDS];
        for (int o = 0; o < SC_GEMM_OPERANDS; o++)
            next[o] = at[o] + i * p->loops[loop].strides[o];
        all_calls(gemm, p, loop + 1, values, tensors, next, c);
    }
}

static void what_takes_the_form_computes_the_same(void **state)
{
    (void)state;
    uint64_t seed = 7;
    uint32_t taken = 0, with_loops = 0, with_bias = 0, swapped = 0, transposed = 0;
    for (int i = 0; i < 20000; i++) {
        static const int64_t origin[SC_GEMM_OPERANDS] = {0};
        gemm_case c;
        sc_matmul p;
        gemm_case_draw(&c, &seed, 5);
        if (sc_matmul_of(&c.gemm, &p) == NULL) {
            size_t bytes = (size_t)sc_gemm_extent(&c.gemm, SC_GEMM_C) * sizeof(double);
            double *wanted = gemm_case_reference(&c.gemm, c.values[0], c.values[1], c.values[2], c.tensors), *got = malloc(bytes + 1);
            memcpy(got, c.values[2], bytes);
            all_calls(&c.gemm, &p, 0, c.values, c.tensors, origin, got);
            for (int64_t j = 0; j < sc_gemm_extent(&c.gemm, SC_GEMM_C); j++) {
                if (!(fabs(got[j] - wanted[j]) <= 1e-9))
                    fail_msg("%s: element %lld is %g, wanted %g", gemm_case_text(&c.gemm), (long long)j, got[j], wanted[j]);
            }
            taken++;
            with_loops += p.loop_count > 0;
            with_bias += p.bias < SC_GEMM_MAX_STEPS;
            swapped += p.a.operand == SC_GEMM_A;
            transposed += p.a.is_transposed;
            free(wanted);
            free(got);
        }
        gemm_case_free(&c);
    }
    if (taken < 1000 || with_loops < 20 || with_bias < 10 || swapped < 100 || transposed < 100)
        fail_msg("only %u were taken, %u with loops, %u with a bias, %u with operands exchanged, %u transposed", taken, with_loops,
                 with_bias, swapped, transposed);
}

/* m 4 256 | n 12 64 | k 768, as a model's projections are, with a bias. */
static sc_gemm projection(void)
{
    sc_gemm gemm = {.dim_count = 5,
                    .dtypes = {SC_DTYPE_bf16, SC_DTYPE_bf16, SC_DTYPE_bf16},
                    .sum = SC_DTYPE_f32,
                    .dims = {{4, SC_GEMM_M, {196608, 0, 196608}},
                             {256, SC_GEMM_M, {768, 0, 768}},
                             {12, SC_GEMM_N, {0, 64, 64}},
                             {64, SC_GEMM_N, {0, 1, 1}},
                             {768, SC_GEMM_K, {1, 768, 0}}},
                    .step_count = 1,
                    .steps = {{.kind = SC_GEMM_ADD, .dtype = SC_DTYPE_bf16, .strides = {0, 0, 64, 1, 0}}}};
    return gemm;
}

static void what_models_are_made_of_is_taken(void **state)
{
    (void)state;
    sc_matmul p;
    sc_gemm gemm = projection();
    assert_null(sc_matmul_of(&gemm, &p));
    assert_int_equal(p.rows, 768);
    assert_int_equal(p.columns, 1024);
    assert_int_equal(p.depth, 768);
    assert_int_equal(p.batches, 1);
    assert_int_equal(p.loop_count, 0);
    assert_int_equal(p.bias, 0);
    assert_int_equal(p.a.operand, SC_GEMM_B);
    assert_false(p.a.is_transposed || p.b.is_transposed);
    gemm.dims[4].strides[SC_GEMM_B] = 1; /* the same by stored transposed weights */
    gemm.dims[2].strides[SC_GEMM_B] = 64 * 768;
    gemm.dims[3].strides[SC_GEMM_B] = 768;
    assert_null(sc_matmul_of(&gemm, &p));
    assert_true(p.a.is_transposed);
}

static void what_does_not_is_told_why(void **state)
{
    (void)state;
    sc_matmul p;
    sc_gemm gemm = projection();
    gemm.steps[0].kind = SC_GEMM_SILU;
    assert_string_equal(sc_matmul_of(&gemm, &p), "the library has no such epilogue");
    gemm = projection();
    gemm.steps[0].dtype = SC_DTYPE_f32;
    assert_string_equal(sc_matmul_of(&gemm, &p), "it adds a vector of another dtype");
    gemm = projection();
    gemm.accumulate = true;
    assert_null(sc_matmul_of(&gemm, &p));
    gemm.steps[gemm.step_count++].kind = SC_GEMM_RELU;
    assert_string_equal(sc_matmul_of(&gemm, &p), "it adds to what is there behind an activation");
    gemm = projection();
    gemm.dtypes[SC_GEMM_B] = SC_DTYPE_f32;
    assert_string_equal(sc_matmul_of(&gemm, &p), "the library has no such combination of dtypes");
    gemm = projection();
    gemm.steps[0].strides[1] = 768;
    assert_string_equal(sc_matmul_of(&gemm, &p), "it adds what is no vector along its rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_takes_the_form_computes_the_same),
                                       cmocka_unit_test(what_models_are_made_of_is_taken), cmocka_unit_test(what_does_not_is_told_why)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
