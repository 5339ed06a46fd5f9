/* Random products as a program has them: what cuBLASLt takes, with its epilogues, a function each.
 */
#ifndef SHARDC_TEST_GEMM_BLAS_CASE_H
#define SHARDC_TEST_GEMM_BLAS_CASE_H

#include "test/unit/helpers/gemm_case.h"
#include "test/unit/helpers/image_case.h"

#include "program/gemm_blas.h"

static inline uint32_t flat_input(image_case *c, const char *name, int64_t count, sc_dtype dtype)
{
    return image_input(
        c, name, sc_arena_printf(&c->arena, "%s[N=%lld]", sc_dtypes[dtype].name, (long long)count),
        -1);
}

static inline void flat_output(image_case *c, const char *name, int64_t count, sc_dtype dtype,
                               uint32_t buffer)
{
    image_output(c, name,
                 sc_arena_printf(&c->arena, "%s[N=%lld]", sc_dtypes[dtype].name, (long long)count),
                 buffer);
}

/* A function that computes the contraction on what it is given; it returns c, and what a step
 * stores. */
static inline void add_product(image_case *c, const sc_gemm *gemm, uint32_t workspace)
{
    uint32_t args[SC_GEMM_OPERANDS + SC_GEMM_MAX_STEPS + 1], count = 0;
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        args[count++] = flat_input(c, (const char *const[]){"a", "b", "c"}[o],
                                   sc_gemm_extent(gemm, (sc_gemm_operand)o), gemm->dtypes[o]);
    for (uint32_t s = 0; s < gemm->step_count; s++) {
        if (sc_gemm_step_has_tensor(gemm->steps[s].kind))
            args[count++] = flat_input(c, sc_arena_printf(&c->arena, "t%u", s),
                                       sc_gemm_step_extent(gemm, s), gemm->steps[s].dtype);
    }
    args[count++] = workspace;
    *sc_vec_push(&c->arena, &c->gemms) = *gemm;
    image_instr(c, SC_INSTR_GEMM, c->gemms.count - 1, count, args);
    flat_output(c, "c", sc_gemm_extent(gemm, SC_GEMM_C), gemm->dtypes[SC_GEMM_C], args[SC_GEMM_C]);
    for (uint32_t s = 0, at = SC_GEMM_OPERANDS; s < gemm->step_count; s++) {
        if (sc_gemm_step_writes(gemm->steps[s].kind))
            flat_output(c, "kept", sc_gemm_step_extent(gemm, s), gemm->steps[s].dtype, args[at]);
        at += sc_gemm_step_has_tensor(gemm->steps[s].kind);
    }
    image_func(c, sc_arena_printf(&c->arena, "product_%u", c->gemms.count));
}

/* Half a unit in the last place of 1. */
static inline double unit(sc_dtype dtype)
{
    return dtype == SC_DTYPE_f64   ? 0x1p-53
           : dtype == SC_DTYPE_f32 ? 0x1p-24
           : dtype == SC_DTYPE_f16 ? 0x1p-11
                                   : 0x1p-8;
}

static inline void expect_near(const sc_gemm *gemm, const char *what, const double *got,
                               const double *wanted, const double *slacks, size_t count,
                               double units)
{
    for (size_t i = 0; i < count; i++) {
        if (!(fabs(got[i] - wanted[i]) <= units * (slacks[i] + fabs(wanted[i]))))
            fail_msg("%s: element %zu of %s is %.9g, wanted %.9g", gemm_case_text(gemm), i, what,
                     got[i], wanted[i]);
    }
}

/* The step that stores something; SC_GEMM_MAX_STEPS: there is none. */
static inline uint32_t storing_step(const sc_gemm *gemm)
{
    uint32_t s = 0;
    while (s < gemm->step_count && !sc_gemm_step_writes(gemm->steps[s].kind))
        s++;
    return s < gemm->step_count ? s : SC_GEMM_MAX_STEPS;
}

static inline sc_gemm_step *add_step(sc_gemm *gemm, sc_gemm_step_kind kind)
{
    gemm->steps[gemm->step_count] =
        (sc_gemm_step){.kind = kind, .dtype = gemm->dtypes[SC_GEMM_C], .scale = 0.5};
    return &gemm->steps[gemm->step_count++];
}

/* As c, with columns and matrices apart as the library wants it of what derivatives need. */
static inline void lay_out_aux(const sc_gemm *gemm, uint32_t along, sc_gemm_step *step)
{
    int64_t stride = (gemm->dims[along].size + 7) / 8 * 8;
    step->strides[along] = 1;
    for (uint32_t i = gemm->dim_count; i-- > 0;) {
        if (i == along || gemm->dims[i].role == SC_GEMM_K)
            continue;
        step->strides[i] = stride;
        stride *= gemm->dims[i].size;
    }
}

/* What the library has: a scale, a vector along one of the dims, an activation, which may keep what
 * it is applied to; the derivative of one; or the sums of an operand. False: this product takes
 * none. */
static inline bool add_epilogue(gemm_case *p, uint64_t *seed)
{
    sc_matmul form;
    sc_gemm *gemm = &p->gemm, before = p->gemm;
    gemm->accumulate = false;
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        uint32_t activation = gemm_case_below(seed, 8);
        gemm->step_count = 0;
        if (activation < 6 && gemm_case_below(seed, 2) == 0)
            add_step(gemm, SC_GEMM_SCALE);
        if (activation >= 6)
            add_step(gemm, gemm->dims[i].role == SC_GEMM_M ? SC_GEMM_SUM_A : SC_GEMM_SUM_B)
                ->strides[i] = 1;
        else if (activation == 5)
            lay_out_aux(gemm, i, add_step(gemm, SC_GEMM_GELU_TANH_GRAD));
        else
            add_step(gemm, SC_GEMM_ADD)->strides[i] = 1;
        if (activation == 4)
            lay_out_aux(gemm, i, add_step(gemm, SC_GEMM_STORE));
        if (activation > 1 && activation < 5)
            add_step(gemm, activation == 2 ? SC_GEMM_RELU : SC_GEMM_GELU_TANH);
        if (gemm->dims[i].size > 1 && sc_gemm_valid(gemm) && sc_matmul_of(gemm, &form) == NULL) {
            for (uint32_t s = 0; s < gemm->step_count; s++)
                p->tensors[s] =
                    gemm_case_values(sc_gemm_step_extent(gemm, s), gemm->steps[s].dtype, seed);
            return true;
        }
    }
    *gemm = before;
    return false;
}

static inline void draw_product(gemm_case *p, bool has_epilogue, uint64_t *seed)
{
    sc_matmul form;
    while (true) {
        gemm_case_draw(p, seed, 9);
        if (p->gemm.step_count == 0 && sc_matmul_of(&p->gemm, &form) == NULL &&
            (!has_epilogue || add_epilogue(p, seed)))
            return;
        gemm_case_free(p);
    }
}

#endif
