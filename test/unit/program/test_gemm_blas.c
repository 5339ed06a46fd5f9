/* Contractions as matmuls: whatever takes this form computes the same, and what models are made of
 * takes it. */
#include "test/unit/helpers/gemm_case.h"

#include "program/gemm_blas.h"

/* Element (row, column) of op(matrix) in batch b. */
static int64_t element(const sc_matmul_matrix *matrix, int64_t row, int64_t column, int64_t b)
{
    int64_t down = matrix->is_transposed ? column : row,
            across = matrix->is_transposed ? row : column;
    assert_true(down < matrix->rows && across < matrix->columns && matrix->stride >= matrix->rows);
    return down + across * matrix->stride + b * matrix->batch_stride;
}

/* Of a row of op(a), or a column of op(b). */
static double total(const sc_matmul *p, double *const *values, int64_t of)
{
    double sum = 0;
    for (int64_t k = 0; k < p->depth; k++)
        sum += p->total_of_b ? values[p->b.operand][element(&p->b, k, of, 0)]
                             : values[p->a.operand][element(&p->a, of, k, 0)];
    return sum;
}

static void one_call(const sc_gemm *gemm, const sc_matmul *p, double *const *values,
                     double *const *tensors, const int64_t *at, double *c, double *kept)
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
                if (p->total < SC_GEMM_MAX_STEPS)
                    kept[p->total_of_b ? j : i] = total(p, values, p->total_of_b ? j : i);
                int64_t beside = i + j * p->aux_stride + b * p->aux_batch_stride;
                if (p->activation == SC_GEMM_GELU_TANH_GRAD)
                    sum *= gemm_case_gelu_tanh_grad(tensors[p->aux][beside]);
                else if (p->aux < SC_GEMM_MAX_STEPS)
                    kept[beside] = sum;
                if (p->activation != SC_GEMM_STEP_KINDS && p->activation != SC_GEMM_GELU_TANH_GRAD)
                    sum = gemm_case_activation(p->activation, sum, &slack);
                int64_t to = at[SC_GEMM_C] + element(&p->d, i, j, b);
                c[to] = sum + (p->accumulate ? values[SC_GEMM_C][to] : 0);
            }
    (void)gemm;
}

static void all_calls(const sc_gemm *gemm, const sc_matmul *p, uint32_t loop, double *const *values,
                      double *const *tensors, const int64_t *at, double *c, double *kept)
{
    if (loop == p->loop_count) {
        one_call(gemm, p, values, tensors, at, c, kept);
        return;
    }
    for (int64_t i = 0; i < p->loops[loop].size; i++) {
        int64_t next[SC_GEMM_OPERANDS];
        for (int o = 0; o < SC_GEMM_OPERANDS; o++)
            next[o] = at[o] + i * p->loops[loop].strides[o];
        all_calls(gemm, p, loop + 1, values, tensors, next, c, kept);
    }
}

/* How many took the form, and how. */
typedef struct tally {
    uint32_t taken, with_loops, with_bias, swapped, transposed, keeps, slopes, batched, totals,
        totals_of_b;
} tally;

static void expect_same(const sc_gemm *gemm, const char *what, const double *got,
                        const double *wanted, int64_t count)
{
    for (int64_t j = 0; j < count; j++) {
        if (!(fabs(got[j] - wanted[j]) <= 1e-9))
            fail_msg("%s: element %lld of %s is %g, wanted %g", gemm_case_text(gemm), (long long)j,
                     what, got[j], wanted[j]);
    }
}

static double *copy_of(const double *values, int64_t count)
{
    double *made = malloc(((size_t)count + 1) * sizeof *made);
    assert_non_null(made);
    memcpy(made, values, (size_t)count * sizeof *made);
    return made;
}

static void check_form(const gemm_case *c, tally *t)
{
    static const int64_t origin[SC_GEMM_OPERANDS] = {0};
    sc_matmul p;
    const sc_gemm *gemm = &c->gemm;
    if (sc_matmul_of(gemm, &p) != NULL)
        return;
    uint32_t keeping = p.total < SC_GEMM_MAX_STEPS ? p.total : p.aux;
    bool keeps = keeping < SC_GEMM_MAX_STEPS && sc_gemm_step_writes(gemm->steps[keeping].kind);
    int64_t count = sc_gemm_extent(gemm, SC_GEMM_C),
            kept_count = keeps ? sc_gemm_step_extent(gemm, keeping) : 0;
    double *got = copy_of(c->values[2], count),
           *kept = keeps ? copy_of(c->tensors[keeping], kept_count) : NULL;
    double *wanted =
        gemm_case_reference(gemm, c->values[0], c->values[1], c->values[2], c->tensors);
    all_calls(gemm, &p, 0, c->values, c->tensors, origin, got, kept);
    expect_same(gemm, "c", got, wanted, count);
    if (keeps)
        expect_same(gemm, "what is kept", kept, c->tensors[keeping], kept_count);
    t->taken++;
    t->with_loops += p.loop_count > 0;
    t->with_bias += p.bias < SC_GEMM_MAX_STEPS;
    t->swapped += p.a.operand == SC_GEMM_A;
    t->transposed += p.a.is_transposed;
    t->keeps += p.aux < SC_GEMM_MAX_STEPS && keeps;
    t->totals += p.total < SC_GEMM_MAX_STEPS;
    t->totals_of_b += p.total < SC_GEMM_MAX_STEPS && p.total_of_b;
    t->slopes += p.activation == SC_GEMM_GELU_TANH_GRAD;
    t->batched += p.aux < SC_GEMM_MAX_STEPS && p.batches > 1;
    free(wanted);
    free(got);
    free(kept);
}

static void what_takes_the_form_computes_the_same(void **state)
{
    (void)state;
    uint64_t seed = 7;
    tally t = {0};
    for (int i = 0; i < 20000; i++) {
        gemm_case c;
        gemm_case_draw(&c, &seed, 5);
        check_form(&c, &t);
        gemm_case_free(&c);
    }
    if (t.taken < 1000 || t.with_loops < 20 || t.with_bias < 10 || t.swapped < 100 ||
        t.transposed < 100)
        fail_msg("only %u were taken, %u with loops, %u with a bias, %u with operands exchanged, "
                 "%u transposed",
                 t.taken, t.with_loops, t.with_bias, t.swapped, t.transposed);
}

static void sums_of_operands_take_the_form(void **state)
{
    (void)state;
    uint64_t seed = 31;
    tally t = {0};
    for (int i = 0; i < 4000; i++) {
        gemm_case c;
        gemm_case_draw(&c, &seed, 5);
        sc_gemm *gemm = &c.gemm;
        bool of_a = gemm_case_below(&seed, 2) == 0;
        int64_t stride = 1;
        if (gemm->step_count == 0) {
            sc_gemm_step *step = &gemm->steps[gemm->step_count++];
            *step = (sc_gemm_step){.kind = of_a ? SC_GEMM_SUM_A : SC_GEMM_SUM_B,
                                   .dtype = gemm->dtypes[SC_GEMM_C]};
            for (uint32_t d = gemm->dim_count; d-- > 0;) {
                if (gemm->dims[d].role != (of_a ? SC_GEMM_M : SC_GEMM_N))
                    continue;
                step->strides[d] = stride;
                stride *= gemm->dims[d].size;
            }
            c.tensors[0] = gemm_case_values(sc_gemm_step_extent(gemm, 0), step->dtype, &seed);
        }
        if (sc_gemm_valid(gemm))
            check_form(&c, &t);
        gemm_case_free(&c);
    }
    if (t.totals < 100 || t.totals_of_b < 30 || t.totals_of_b > t.totals - 30)
        fail_msg("%u sum an operand, %u the library's second one", t.totals, t.totals_of_b);
}

/* Random contractions seldom have what a derivative needs where the library wants it: strides are
 * multiples of 8 here, or almost. */
static void what_is_kept_for_a_derivative_takes_the_form(void **state)
{
    (void)state;
    uint64_t seed = 23;
    tally t = {0};
    for (int i = 0; i < 4000; i++) {
        gemm_case c = {0};
        sc_gemm *gemm = &c.gemm;
        int64_t batch = 1 + gemm_case_below(&seed, 3), m = 1 + gemm_case_below(&seed, 5),
                n = 1 + gemm_case_below(&seed, 17), k = 3;
        int64_t stride = (n + 7) / 8 * 8 + (gemm_case_below(&seed, 8) == 0 ? 4 : 0),
                apart = m * stride + 8 * gemm_case_below(&seed, 2);
        bool turned = gemm_case_below(&seed, 2) == 0;
        *gemm = (sc_gemm){
            .dim_count = 4,
            .dims = {{.size = batch, .role = SC_GEMM_BATCH, .strides = {m * k, n * k, m * n}},
                     {.size = m, .role = SC_GEMM_M, .strides = {turned ? 1 : k, 0, n}},
                     {.size = n, .role = SC_GEMM_N, .strides = {0, 1, 1}},
                     {.size = k, .role = SC_GEMM_K, .strides = {turned ? m : 1, n, 0}}},
            .sum = SC_DTYPE_f32};
        if (gemm_case_below(&seed, 2) == 0)
            gemm->steps[gemm->step_count++] = (sc_gemm_step){.kind = SC_GEMM_SCALE, .scale = 0.5};
        if (gemm_case_below(&seed, 2) == 0)
            gemm->steps[gemm->step_count++] =
                (sc_gemm_step){.kind = SC_GEMM_ADD, .strides = {0, 0, 1, 0}};
        bool keeps = gemm_case_below(&seed, 2) == 0;
        gemm->steps[gemm->step_count++] =
            (sc_gemm_step){.kind = keeps ? SC_GEMM_STORE : SC_GEMM_GELU_TANH_GRAD,
                           .strides = {apart, stride, 1, 0}};
        if (keeps)
            gemm->steps[gemm->step_count++] = (sc_gemm_step){
                .kind = gemm_case_below(&seed, 4) == 0 ? SC_GEMM_GELU : SC_GEMM_GELU_TANH};
        assert_null(sc_gemm_invalid(gemm));
        for (int o = 0; o < SC_GEMM_OPERANDS; o++)
            c.values[o] =
                gemm_case_values(sc_gemm_extent(gemm, (sc_gemm_operand)o), SC_DTYPE_f32, &seed);
        for (uint32_t s = 0; s < gemm->step_count; s++)
            c.tensors[s] = gemm_case_values(sc_gemm_step_extent(gemm, s), SC_DTYPE_f32, &seed);
        check_form(&c, &t);
        gemm_case_free(&c);
    }
    if (t.keeps < 1000 || t.slopes < 700 || t.batched < 800 || t.with_bias < 500 || t.taken > 3500)
        fail_msg("of %u, %u keep something, %u have a slope, %u a batch, %u a bias", t.taken,
                 t.keeps, t.slopes, t.batched, t.with_bias);
}

/* m 4 256 | n 12 64 | k 768, as a model's projections are, with a bias. */
static sc_gemm projection(void)
{
    sc_gemm gemm = {
        .dim_count = 5,
        .dtypes = {SC_DTYPE_bf16, SC_DTYPE_bf16, SC_DTYPE_bf16},
        .sum = SC_DTYPE_f32,
        .dims = {{.size = 4, .role = SC_GEMM_M, .strides = {196608, 0, 196608}},
                 {.size = 256, .role = SC_GEMM_M, .strides = {768, 0, 768}},
                 {.size = 12, .role = SC_GEMM_N, .strides = {0, 64, 64}},
                 {.size = 64, .role = SC_GEMM_N, .strides = {0, 1, 1}},
                 {.size = 768, .role = SC_GEMM_K, .strides = {1, 768, 0}}},
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
    assert_string_equal(sc_matmul_of(&gemm, &p), "it adds a vector of a different dtype");
    gemm = projection();
    gemm.accumulate = true;
    assert_null(sc_matmul_of(&gemm, &p));
    gemm.steps[gemm.step_count++].kind = SC_GEMM_RELU;
    assert_string_equal(sc_matmul_of(&gemm, &p), "it accumulates after an activation");
    gemm = projection();
    gemm.steps[1] = (sc_gemm_step){
        .kind = SC_GEMM_STORE, .dtype = SC_DTYPE_bf16, .strides = {196608, 768, 64, 1, 0}};
    gemm.steps[2].kind = SC_GEMM_GELU_TANH;
    gemm.step_count = 3;
    assert_null(sc_matmul_of(&gemm, &p));
    assert_int_equal(p.aux, 1);
    assert_int_equal(p.aux_stride, 768);
    assert_int_equal(p.activation, SC_GEMM_GELU_TANH);
    gemm.steps[1].dtype = SC_DTYPE_f32;
    assert_string_equal(sc_matmul_of(&gemm, &p), "what its derivative needs has a different dtype");
    gemm.steps[1] = (sc_gemm_step){
        .kind = SC_GEMM_STORE, .dtype = SC_DTYPE_bf16, .strides = {256 * 770, 770, 64, 1, 0}};
    assert_string_equal(sc_matmul_of(&gemm, &p),
                        "what its derivative needs is not laid out as the library requires");
    gemm.steps[1] = (sc_gemm_step){
        .kind = SC_GEMM_STORE, .dtype = SC_DTYPE_bf16, .strides = {196608, 768, 64, 1, 0}};
    gemm.steps[2].kind = SC_GEMM_RELU; /* the library would keep bits of it */
    assert_string_equal(sc_matmul_of(&gemm, &p), "the library has no such epilogue");
    gemm.steps[1].kind = SC_GEMM_GELU_TANH_GRAD;
    gemm.step_count = 2;
    /* behind a bias */
    assert_string_equal(sc_matmul_of(&gemm, &p), "the library has no such epilogue");
    gemm = projection();
    gemm.steps[0] =
        (sc_gemm_step){.kind = SC_GEMM_SUM_B, .dtype = SC_DTYPE_bf16, .strides = {0, 0, 64, 1, 0}};
    assert_null(sc_matmul_of(&gemm, &p));
    assert_int_equal(p.total, 0);
    assert_false(p.total_of_b);
    gemm.steps[0].dtype = SC_DTYPE_f32;
    assert_string_equal(sc_matmul_of(&gemm, &p),
                        "what it sums has a different dtype than the result");
    gemm.dtypes[SC_GEMM_C] = SC_DTYPE_f32;
    assert_null(sc_matmul_of(&gemm, &p));
    gemm.steps[0].strides[2] = 1;
    gemm.steps[0].strides[3] = 12;
    assert_string_equal(sc_matmul_of(&gemm, &p), "what it sums is several matrices");
    gemm.steps[0].strides[3] = 2;
    gemm.steps[0].strides[2] = 128;
    assert_string_equal(sc_matmul_of(&gemm, &p), "the sums are not contiguous");
    gemm.steps[0] =
        (sc_gemm_step){.kind = SC_GEMM_SUM_A, .dtype = SC_DTYPE_f32, .strides = {256, 1, 0, 0, 0}};
    assert_null(sc_matmul_of(&gemm, &p));
    assert_true(p.total_of_b);
    gemm.steps[gemm.step_count++].kind = SC_GEMM_RELU;
    assert_string_equal(sc_matmul_of(&gemm, &p), "the library has no such epilogue");
    gemm = projection();
    gemm.dtypes[SC_GEMM_B] = SC_DTYPE_f32;
    assert_string_equal(sc_matmul_of(&gemm, &p), "the library has no such combination of dtypes");
    gemm = projection();
    gemm.steps[0].strides[1] = 768;
    assert_string_equal(sc_matmul_of(&gemm, &p),
                        "it adds something other than a vector along its rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_takes_the_form_computes_the_same),
        cmocka_unit_test(what_is_kept_for_a_derivative_takes_the_form),
        cmocka_unit_test(sums_of_operands_take_the_form),
        cmocka_unit_test(what_models_are_made_of_is_taken),
        cmocka_unit_test(what_does_not_is_told_why)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
