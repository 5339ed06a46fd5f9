/* Steps of contractions as kernels: on what the product without them left, they make what it makes
 * with them. */
#include "codegen/program/gemm_kernel.h"
#include "test/unit/helpers/gemm_case.h"

enum { CASES = 3000 };

typedef struct tally {
    uint32_t with_steps, with_sums, refused;
} tally;

static void expect_same(const sc_gemm *gemm, const char *what, const double *got,
                        const double *wanted, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (!(fabs(got[i] - wanted[i]) <= 1e-9 * (1 + fabs(wanted[i]))))
            fail_msg("%s: element %lld of %s is %.12g, wanted %.12g", gemm_case_text(gemm),
                     (long long)i, what, got[i], wanted[i]);
    }
}

static double *copy_of(const double *values, int64_t count)
{
    double *made = malloc(((size_t)count + 1) * sizeof *made);
    assert_non_null(made);
    memcpy(made, values, (size_t)count * sizeof *made);
    return made;
}

static void run(sc_kernel *k, double *const *args)
{
    const char *fault = sc_kernel_verify(k);
    if (fault != NULL)
        fail_msg("%s", fault);
    sc_kernel_simplify(k);
    assert_null(sc_kernel_verify(k));
    assert_int_equal(sc_kernel_interpret(k, args, NULL, false), 0);
}

static void run_sums(sc_context *context, const gemm_case *c, double *const *wanted, tally *t)
{
    for (uint32_t s = 0; s < c->gemm.step_count; s++) {
        sc_gemm_operand summed = sc_gemm_step_sums(c->gemm.steps[s].kind);
        sc_kernel *k = summed == SC_GEMM_OPERANDS ? NULL : sc_sum_kernel(context, &c->gemm, s);
        t->refused += k == NULL && summed != SC_GEMM_OPERANDS;
        if (k == NULL)
            continue;
        run(k, (double *[]){c->values[summed], c->tensors[s]});
        expect_same(&c->gemm, "a sum", c->tensors[s], wanted[s], sc_gemm_step_extent(&c->gemm, s));
        t->with_sums++;
    }
}

static void run_case(sc_context *context, const gemm_case *c, uint32_t first, tally *t)
{
    const sc_gemm *gemm = &c->gemm;
    sc_gemm bare = *gemm;
    int64_t extent = sc_gemm_extent(gemm, SC_GEMM_C);
    double *kept[SC_GEMM_MAX_STEPS], *args[SC_GEMM_MAX_STEPS + 1];
    uint32_t count = 0;
    bare.step_count = first;
    for (uint32_t s = 0; s < gemm->step_count; s++)
        kept[s] = copy_of(c->tensors[s], sc_gemm_step_extent(gemm, s));
    double *wanted = gemm_case_reference(gemm, c->values[0], c->values[1], c->values[2], kept);
    double *got = gemm_case_reference(&bare, c->values[0], c->values[1], c->values[2], c->tensors);
    args[count++] = got;
    for (uint32_t s = first; s < gemm->step_count; s++) {
        if (sc_gemm_step_has_tensor(gemm->steps[s].kind) &&
            sc_gemm_step_sums(gemm->steps[s].kind) == SC_GEMM_OPERANDS)
            args[count++] = c->tensors[s];
    }
    sc_kernel *k = sc_steps_kernel(context, gemm, first);
    t->refused += k == NULL;
    if (k != NULL) {
        run(k, args);
        expect_same(gemm, "c", got, wanted, extent);
        for (uint32_t s = first; s < gemm->step_count; s++) {
            if (gemm->steps[s].kind == SC_GEMM_STORE)
                expect_same(gemm, "what is stored", c->tensors[s], kept[s],
                            sc_gemm_step_extent(gemm, s));
        }
        t->with_steps += gemm->step_count > first;
    }
    run_sums(context, c, kept, t);
    for (uint32_t s = 0; s < gemm->step_count; s++)
        free(kept[s]);
    free(wanted);
    free(got);
}

/* What a kernel has no room for: empty dims. */
static bool has_elements(const sc_gemm *gemm)
{
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        if (gemm->dims[i].size == 0)
            return false;
    }
    return true;
}

static void all_cases(sc_context *context, void *user)
{
    uint64_t seed = 5;
    for (int i = 0; i < CASES; i++) {
        gemm_case c;
        gemm_case_draw(&c, &seed, 4);
        c.gemm.accumulate = false;
        if (has_elements(&c.gemm) && sc_dtype_is_float(c.gemm.sum))
            run_case(context, &c,
                     c.gemm.step_count > 0 && c.gemm.steps[0].kind == SC_GEMM_SCALE ? 1 : 0, user);
        gemm_case_free(&c);
    }
}

static void steps_make_what_the_product_does(void **state)
{
    (void)state;
    tally t = {0};
    sc_context context;
    assert_true(sc_context_run(&context, 0, all_cases, &t));
    sc_context_free(&context);
    if (t.with_steps < 300 || t.with_sums < 50 || t.refused < 100)
        fail_msg("%u had steps, %u sums, %u layouts that kernels lack", t.with_steps, t.with_sums,
                 t.refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_make_what_the_product_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
