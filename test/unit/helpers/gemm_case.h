/* Random contractions and the reference that their tests hold everything against: the sum as it is
 * written in program/gemm.h, in f64. */
#ifndef SHARDC_TEST_GEMM_CASE_H
#define SHARDC_TEST_GEMM_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/gemm.h"
#include "support/context.h"

typedef struct gemm_case_text_request {
    const sc_gemm *gemm;
    char text[1024];
} gemm_case_text_request;

static inline void gemm_case_print(sc_context *context, void *user)
{
    sc_strbuf out;
    gemm_case_text_request *request = user;
    sc_strbuf_init(&out, &context->arena);
    sc_gemm_print(request->gemm, &out);
    snprintf(request->text, sizeof request->text, "%s", out.data);
}

/* Good until the fourth call after it. */
static inline const char *gemm_case_text(const sc_gemm *gemm)
{
    static gemm_case_text_request requests[4];
    static int next;
    gemm_case_text_request *request = &requests[next++ % 4];
    sc_context context;
    request->gemm = gemm;
    assert_true(sc_context_run(&context, 0, gemm_case_print, request));
    sc_context_free(&context);
    return request->text;
}

typedef struct gemm_case {
    sc_gemm gemm;
    double *values[SC_GEMM_OPERANDS]; /* as many as the operand's extent */
    double *tensors[SC_GEMM_MAX_STEPS];
} gemm_case;

static inline uint32_t gemm_case_below(uint64_t *seed, uint32_t limit)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % limit);
}

/* In [-1, 1] for floats, in -9 .. 9 for integers (0 .. 9 where they have no sign). */
static inline double gemm_case_value(uint64_t *seed, sc_dtype dtype)
{
    double x = gemm_case_below(seed, 20001);
    if (sc_dtype_is_float(dtype))
        return (x - 10000) / 10000;
    return dtype == SC_DTYPE_u8 ? fmod(x, 10) : fmod(x, 19) - 9;
}

static inline bool gemm_case_has(sc_gemm_role role, int operand)
{
    return role == SC_GEMM_BATCH || (int)role != (operand == SC_GEMM_A   ? (int)SC_GEMM_N
                                                  : operand == SC_GEMM_B ? (int)SC_GEMM_M
                                                                         : (int)SC_GEMM_K);
}

/* Strides of the dims that `wanted` marks, in a random order, now and then with gaps. */
static inline void gemm_case_strides(const sc_gemm *gemm, const bool *wanted, uint64_t *seed,
                                     int64_t *strides)
{
    uint32_t order[SC_GEMM_MAX_DIMS], count = 0;
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        strides[i] = 0;
        if (wanted[i])
            order[count++] = i;
    }
    for (uint32_t i = 1; i < count; i++) {
        uint32_t j = gemm_case_below(seed, 3) > 0 ? i : gemm_case_below(seed, i + 1),
                 moved = order[i];
        order[i] = order[j];
        order[j] = moved;
    }
    int64_t stride = gemm_case_below(seed, 8) == 0 ? 2 : 1;
    for (uint32_t i = count; i-- > 0;) {
        int64_t size = gemm->dims[order[i]].size;
        strides[order[i]] = stride;
        stride *= size > 0 ? size : 1;
        stride += gemm_case_below(seed, 6) == 0 ? gemm_case_below(seed, 4) : 0;
    }
}

static inline void gemm_case_draw_dims(sc_gemm *gemm, uint64_t *seed, int64_t most)
{
    gemm->dim_count = gemm_case_below(seed, 7);
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        uint32_t kind = gemm_case_below(seed, 12);
        gemm->dims[i].role = (sc_gemm_role)gemm_case_below(seed, SC_GEMM_ROLES);
        gemm->dims[i].size = kind == 0 ? 1
                             : kind == 1 && gemm_case_below(seed, 6) == 0
                                 ? 0
                                 : 1 + gemm_case_below(seed, (uint32_t)most);
    }
}

/* Halves the largest size until the product of all is at most `most`. */
static inline void gemm_case_shrink(sc_gemm *gemm, double most)
{
    while (sc_gemm_flops(gemm) > 2 * most) {
        sc_gemm_dim *largest = &gemm->dims[0];
        for (uint32_t i = 1; i < gemm->dim_count; i++)
            largest = gemm->dims[i].size > largest->size ? &gemm->dims[i] : largest;
        largest->size /= 2;
    }
}

static inline void gemm_case_draw_layouts(sc_gemm *gemm, uint64_t *seed)
{
    bool wanted[SC_GEMM_OPERANDS][SC_GEMM_MAX_DIMS];
    int64_t strides[SC_GEMM_MAX_DIMS];
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        for (int o = 0; o < SC_GEMM_OPERANDS; o++)
            wanted[o][i] = gemm_case_has(gemm->dims[i].role, o);
        if (gemm->dims[i].role == SC_GEMM_BATCH && gemm_case_below(seed, 4) == 0)
            wanted[gemm_case_below(seed, 2)][i] = false;
    }
    for (int o = 0; o < SC_GEMM_OPERANDS; o++) {
        gemm_case_strides(gemm, wanted[o], seed, strides);
        for (uint32_t i = 0; i < gemm->dim_count; i++)
            gemm->dims[i].strides[o] = strides[i];
    }
}

static inline void gemm_case_draw_steps(sc_gemm *gemm, uint64_t *seed, const sc_dtype *dtypes,
                                        uint32_t dtype_count)
{
    bool wanted[SC_GEMM_MAX_DIMS];
    gemm->step_count = gemm_case_below(seed, 2) == 0 ? 0 : gemm_case_below(seed, 4);
    for (uint32_t s = 0; s < gemm->step_count; s++) {
        sc_gemm_step *step = &gemm->steps[s];
        step->kind = (sc_gemm_step_kind)gemm_case_below(
            seed, gemm->sum == SC_DTYPE_i64 ? SC_GEMM_RELU + 1 : SC_GEMM_STEP_KINDS);
        step->scale = gemm->sum == SC_DTYPE_i64 ? 3 : 0.7;
        if (!sc_gemm_step_has_tensor(step->kind))
            continue;
        step->dtype = dtypes[gemm_case_below(seed, dtype_count)];
        sc_gemm_operand summed = sc_gemm_step_sums(step->kind);
        for (uint32_t i = 0; i < gemm->dim_count; i++)
            wanted[i] = gemm->dims[i].role != SC_GEMM_K &&
                        (sc_gemm_step_writes(step->kind) || gemm_case_below(seed, 2) == 0);
        for (uint32_t i = 0; summed != SC_GEMM_OPERANDS && i < gemm->dim_count; i++) {
            wanted[i] = wanted[i] && gemm_case_has(gemm->dims[i].role, (int)summed);
            if (gemm->dims[i].role == SC_GEMM_BATCH && gemm->dims[i].strides[summed] == 0)
                gemm->dims[i].size = 1; /* what all share has no sum of its own */
        }
        gemm_case_strides(gemm, wanted, seed, step->strides);
    }
}

static inline double *gemm_case_values(int64_t count, sc_dtype dtype, uint64_t *seed)
{
    double *values = malloc(((size_t)count + 1) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = gemm_case_value(seed, dtype);
    return values;
}

/* A valid descriptor with sizes up to `most` and a product of all of at most 2e5, and values for
 * it. */
static inline void gemm_case_draw(gemm_case *c, uint64_t *seed, int64_t most)
{
    static const sc_dtype floats[] = {SC_DTYPE_f32, SC_DTYPE_bf16, SC_DTYPE_f16, SC_DTYPE_f64},
                          integers[] = {SC_DTYPE_i32, SC_DTYPE_i64, SC_DTYPE_u8};
    memset(c, 0, sizeof *c);
    sc_gemm *gemm = &c->gemm;
    uint32_t kind = gemm_case_below(seed, 8), narrow = kind < 4 ? 1 : kind < 6 ? 3 : 4;
    gemm->sum = kind == 7 ? SC_DTYPE_i64 : kind == 6 ? SC_DTYPE_f64 : SC_DTYPE_f32;
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        gemm->dtypes[o] =
            kind == 7 ? integers[gemm_case_below(seed, 3)] : floats[gemm_case_below(seed, narrow)];
    gemm->accumulate = gemm_case_below(seed, 3) == 0;
    gemm_case_draw_dims(gemm, seed, most);
    gemm_case_shrink(gemm, 2e5);
    gemm_case_draw_layouts(gemm, seed);
    gemm_case_draw_steps(gemm, seed, kind == 7 ? integers : floats, kind == 7 ? 3 : 4);
    if (!sc_gemm_valid(gemm))
        fail_msg("drew an invalid descriptor: %s", sc_gemm_invalid(gemm));
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        c->values[o] =
            gemm_case_values(sc_gemm_extent(gemm, (sc_gemm_operand)o), gemm->dtypes[o], seed);
    for (uint32_t s = 0; s < gemm->step_count; s++)
        c->tensors[s] = gemm_case_values(sc_gemm_step_extent(gemm, s), gemm->steps[s].dtype, seed);
}

static inline void gemm_case_free(gemm_case *c)
{
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        free(c->values[o]);
    for (uint32_t s = 0; s < SC_GEMM_MAX_STEPS; s++)
        free(c->tensors[s]);
}

/* ---- activations, and their derivatives ---- */
static inline double gemm_case_relu(double x)
{
    return x < 0 ? 0 : x;
}

static inline double gemm_case_gelu(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}

static inline double gemm_case_gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static inline double gemm_case_silu(double x)
{
    return x / (1 + exp(-x));
}

static inline double gemm_case_tanh(double x)
{
    return tanh(x);
}

static inline double gemm_case_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static inline double gemm_case_relu_grad(double x)
{
    return x > 0;
}

static inline double gemm_case_gelu_grad(double x)
{
    return 0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
}

static inline double gemm_case_gelu_tanh_grad(double x)
{
    double c = sqrt(2 / acos(-1)), t = tanh(c * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

static inline double gemm_case_silu_grad(double x)
{
    double s = gemm_case_sigmoid(x);
    return s + x * s * (1 - s);
}

static double (*const gemm_case_functions[SC_GEMM_STEP_KINDS])(double x) = {
#define ACTIVATION(name, NAME, ...) [SC_GEMM_##NAME] = gemm_case_##name,
#include "program/activations.def"
#define ACTIVATION(...)
#define ACTIVATION_SLOPE(name, NAME, ...) [SC_GEMM_##NAME##_GRAD] = gemm_case_##name##_grad,
#include "program/activations.def"
};

/* An activation, and how far off its result may be when x is off by *slack: none is steeper
 * than 1.2. None is larger than x, but for the sigmoid, which is 1/2 at 0. */
static inline double gemm_case_activation(sc_gemm_step_kind kind, double x, double *slack)
{
    *slack = 1.2 * *slack + fabs(x) + fabs(gemm_case_functions[kind](0));
    return gemm_case_functions[kind](x);
}

static inline double gemm_case_step(const sc_gemm_step *step, double x, double tensor,
                                    double *slack)
{
    switch (step->kind) {
    case SC_GEMM_ADD:
        *slack += fabs(tensor);
        return x + tensor;
    case SC_GEMM_MUL:
        *slack *= fabs(tensor);
        return x * tensor;
    case SC_GEMM_STORE:
    case SC_GEMM_SUM_A:
    case SC_GEMM_SUM_B:
        return x;
    case SC_GEMM_SCALE:
        *slack *= fabs(step->scale);
        return x * step->scale;
    default:
        break;
    }
    if (sc_gemm_step_slope_of(step->kind) == SC_GEMM_STEP_KINDS)
        return gemm_case_activation(step->kind, x, slack);
    *slack = 1.2 * *slack + fabs(x); /* no activation is steeper */
    return x * gemm_case_functions[step->kind](tensor);
}

/* Counts up the indices of the dims with (or without) the role k; false after the last. */
static inline bool gemm_case_next(const sc_gemm *gemm, bool k, int64_t *index)
{
    for (uint32_t i = gemm->dim_count; i-- > 0;) {
        if ((gemm->dims[i].role == SC_GEMM_K) != k)
            continue;
        if (++index[i] < gemm->dims[i].size)
            return true;
        index[i] = 0;
    }
    return false;
}

static inline int64_t gemm_case_at(const sc_gemm *gemm, const int64_t *index, int operand)
{
    int64_t at = 0;
    for (uint32_t i = 0; i < gemm->dim_count; i++)
        at += index[i] * gemm->dims[i].strides[operand];
    return at;
}

/* The sum of an operand over k becomes a step's tensor. */
static inline void gemm_case_sum(const sc_gemm *gemm, uint32_t s, const double *operand,
                                 double *tensor, double *slacks)
{
    int64_t index[SC_GEMM_MAX_DIMS] = {0}, count = sc_gemm_step_extent(gemm, s),
            k = sc_gemm_size(gemm, SC_GEMM_K);
    sc_gemm_operand summed = sc_gemm_step_sums(gemm->steps[s].kind);
    bool more = count > 0;
    while (more) {
        int64_t at = 0;
        for (uint32_t i = 0; i < gemm->dim_count; i++)
            at += index[i] * gemm->steps[s].strides[i];
        tensor[at] = 0;
        if (slacks != NULL)
            slacks[at] = 0;
        for (int64_t p = 0; p < k; p++, gemm_case_next(gemm, true, index)) {
            double x = operand[gemm_case_at(gemm, index, (int)summed)];
            tensor[at] += x;
            if (slacks != NULL)
                slacks[at] += fabs(x);
        }
        more = false;
        for (uint32_t i = gemm->dim_count; !more && i-- > 0;) {
            sc_gemm_role role = gemm->dims[i].role;
            if (role == SC_GEMM_K || !gemm_case_has(role, (int)summed))
                continue;
            more = ++index[i] < gemm->dims[i].size;
            index[i] = more ? index[i] : 0;
        }
    }
}

/* What c holds afterwards, not rounded; what steps store is put into their tensors. With `slacks`
 * (as long as c) also the sum of magnitudes that rounding errors are in proportion to, with
 * `step_slacks` those of what steps store. */
static inline double *gemm_case_reference_of_all(const sc_gemm *gemm, const double *a,
                                                 const double *b, const double *c,
                                                 double *const *tensors, double *slacks,
                                                 double *const *step_slacks)
{
    int64_t extent = sc_gemm_extent(gemm, SC_GEMM_C), index[SC_GEMM_MAX_DIMS] = {0};
    double *result = malloc(((size_t)extent + 1) * sizeof *result);
    assert_non_null(result);
    memcpy(result, c, (size_t)extent * sizeof *result);
    int64_t k = sc_gemm_size(gemm, SC_GEMM_K), *terms = malloc((2 * (size_t)k + 1) * sizeof *terms);
    assert_non_null(terms);
    for (int64_t p = 0; p < k; p++, gemm_case_next(gemm, true, index)) {
        terms[2 * p] = gemm_case_at(gemm, index, SC_GEMM_A);
        terms[2 * p + 1] = gemm_case_at(gemm, index, SC_GEMM_B);
    }
    for (uint32_t s = 0; s < gemm->step_count; s++) {
        sc_gemm_operand summed = sc_gemm_step_sums(gemm->steps[s].kind);
        if (summed != SC_GEMM_OPERANDS)
            gemm_case_sum(gemm, s, summed == SC_GEMM_A ? a : b, tensors[s],
                          step_slacks == NULL ? NULL : step_slacks[s]);
    }
    memset(index, 0, sizeof index);
    while (extent > 0) {
        const double *left = a + gemm_case_at(gemm, index, SC_GEMM_A),
                     *right = b + gemm_case_at(gemm, index, SC_GEMM_B);
        double sum = 0, slack = 0;
        for (int64_t p = 0; p < k; p++) {
            double product = left[terms[2 * p]] * right[terms[2 * p + 1]];
            sum += product;
            slack += fabs(product);
        }
        for (uint32_t s = 0; s < gemm->step_count; s++) {
            int64_t at = 0;
            for (uint32_t i = 0; i < gemm->dim_count; i++)
                at += index[i] * gemm->steps[s].strides[i];
            if (gemm->steps[s].kind == SC_GEMM_STORE)
                tensors[s][at] = sum;
            if (gemm->steps[s].kind == SC_GEMM_STORE && step_slacks != NULL)
                step_slacks[s][at] = slack + fabs(sum);
            sum = gemm_case_step(&gemm->steps[s], sum,
                                 sc_gemm_step_has_tensor(gemm->steps[s].kind) ? tensors[s][at] : 0,
                                 &slack);
        }
        int64_t at = gemm_case_at(gemm, index, SC_GEMM_C);
        result[at] = sum + (gemm->accumulate ? c[at] : 0);
        if (slacks != NULL)
            slacks[at] = slack + fabs(result[at]);
        if (!gemm_case_next(gemm, false, index))
            break;
    }
    free(terms);
    return result;
}

static inline double *gemm_case_reference_with(const sc_gemm *gemm, const double *a,
                                               const double *b, const double *c,
                                               double *const *tensors, double *slacks)
{
    return gemm_case_reference_of_all(gemm, a, b, c, tensors, slacks, NULL);
}

static inline double *gemm_case_reference(const sc_gemm *gemm, const double *a, const double *b,
                                          const double *c, double *const *tensors)
{
    return gemm_case_reference_with(gemm, a, b, c, tensors, NULL);
}

#endif
