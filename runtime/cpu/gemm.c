/* Creates GEMM plans: canonicalizes the descriptor, computes offset tables, and chooses the
 * backend. */
#include "runtime/cpu/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SHARDC_ONEDNN
#include "runtime/cpu/gemm_onednn.h"
#endif
#include "program/cpu_level.h"
#include "runtime/cpu/gemm_types.h"

/* Returns the stride of dim `i` in an array. */
static int64_t stride_of(const sc_gemm *gemm, uint32_t i, int array)
{
    return array < SC_GEMM_OPERANDS ? gemm->dims[i].strides[array]
                                    : gemm->steps[array - SC_GEMM_OPERANDS].strides[i];
}

static uint32_t dims_of(const sc_gemm *gemm, int role)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < gemm->dim_count; i++)
        count += (int)gemm->dims[i].role == role;
    return count;
}

/* True if a role with several dims needs an offset table for this array; c, for example, has no
 * offsets along k. */
static bool has_array(int role, int array)
{
    static const bool has[SC_GEMM_ROLES][SC_GEMM_OPERANDS] = {
        {true, true, true}, {true, false, true}, {false, true, true}, {true, true, false}};
    return has[role][array < SC_GEMM_OPERANDS ? array : SC_GEMM_C];
}

/* Fills in the offsets of all indices of a role in one array, last dim fastest. */
static void fill_offsets(const sc_gemm *gemm, int role, int array, int64_t *out)
{
    int64_t count = 1;
    out[0] = 0;
    for (uint32_t i = gemm->dim_count; i-- > 0;) {
        if ((int)gemm->dims[i].role != role)
            continue;
        int64_t stride = stride_of(gemm, i, array), size = gemm->dims[i].size;
        for (int64_t x = 1; x < size; x++) {
            for (int64_t j = 0; j < count; j++)
                out[x * count + j] = out[j] + x * stride;
        }
        count *= size;
    }
}

static bool make_walks(sc_gemm_plan *plan)
{
    const sc_gemm *gemm = &plan->gemm;
    int arrays = SC_GEMM_OPERANDS + (int)gemm->step_count;
    int64_t total = 0, at = 0;
    for (int role = 0; role < SC_GEMM_ROLES; role++) {
        for (int array = 0; array < arrays; array++)
            total += dims_of(gemm, role) > 1 && has_array(role, array) ? plan->sizes[role] : 0;
    }
    plan->offsets = total == 0 ? NULL : calloc((size_t)total, sizeof *plan->offsets);
    if (total != 0 && plan->offsets == NULL)
        return false;
    for (int role = 0; role < SC_GEMM_ROLES; role++) {
        for (int array = 0; array < arrays; array++) {
            sc_gemm_walk *walk = &plan->walks[role][array];
            for (uint32_t i = 0; i < gemm->dim_count; i++)
                walk->stride =
                    (int)gemm->dims[i].role == role ? stride_of(gemm, i, array) : walk->stride;
            if (dims_of(gemm, role) < 2 || !has_array(role, array) || plan->sizes[role] == 0)
                continue;
            fill_offsets(gemm, role, array, plan->offsets + at);
            walk->offsets = plan->offsets + at;
            at += plan->sizes[role];
        }
    }
    return true;
}

static const sc_gemm_kernels *find_kernels(sc_dtype sum)
{
    if (sum == SC_DTYPE_i64)
        return &sc_gemm_i64_base;
#if defined(SHARDC_X86_KERNELS)
    if (sc_cpu_uses(SC_CPU_AVX512))
        return sum == SC_DTYPE_f32 ? &sc_gemm_f32_avx512 : &sc_gemm_f64_avx512;
    if (sc_cpu_uses(SC_CPU_AVX2))
        return sum == SC_DTYPE_f32 ? &sc_gemm_f32_avx2 : &sc_gemm_f64_avx2;
#endif
    return sum == SC_DTYPE_f32 ? &sc_gemm_f32_base : &sc_gemm_f64_base;
}

/* Chooses the backend for `auto`. Measured by bench/gemm.c: on AVX2 the plain f32 kernels are as
 * fast as oneDNN's for any transposition (they copy both operands anyway), apply the epilogue while
 * a tile is in the cache, and allocate nothing. Narrower floats are widened while copied, which is
 * as fast as f32. What the plain kernels lack are bf16 multiply instructions. */
static bool library_wins(const sc_gemm_plan *plan)
{
    const sc_dtype *dtypes = plan->gemm.dtypes;
    return dtypes[SC_GEMM_A] == SC_DTYPE_bf16 && dtypes[SC_GEMM_B] == SC_DTYPE_bf16 &&
           !plan->blocks.skinny;
}

#ifdef SHARDC_ONEDNN
/* Uses the library for the matmul and all its epilogue steps, or for the steps before the first one
 * that the library lacks. */
static void choose_library(sc_gemm_plan *plan)
{
    sc_gemm part = plan->gemm;
    plan->onednn = sc_gemm_onednn_new(&part, plan->blocks.bytes);
    for (part.step_count = 0; part.step_count < plan->gemm.step_count; part.step_count++) {
        if (!sc_gemm_onednn_has_step(part.steps[part.step_count].kind))
            break;
    }
    plan->onednn_steps = plan->gemm.step_count;
    if (plan->onednn != NULL || part.step_count == plan->gemm.step_count || part.accumulate)
        return;
    for (uint32_t s = part.step_count; s < plan->gemm.step_count; s++) {
        if (plan->gemm.steps[s].kind == SC_GEMM_STORE &&
            plan->gemm.steps[s].dtype != plan->gemm.dtypes[SC_GEMM_C])
            return; /* the step would get values already rounded to another dtype */
    }
    plan->onednn = sc_gemm_onednn_new(&part, plan->blocks.bytes);
    plan->onednn_steps = part.step_count;
}
#endif

static bool choose_backend(sc_gemm_plan *plan, sc_gemm_backend backend)
{
    snprintf(plan->name, sizeof plan->name, "plain %s%s", plan->kernels->name,
             plan->blocks.skinny ? ", skinny" : "");
#ifdef SHARDC_ONEDNN
    if (backend == SC_GEMM_ONEDNN ||
        (backend == SC_GEMM_AUTO && library_wins(plan) && sc_gemm_onednn_multiplies_bf16()))
        choose_library(plan);
    if (plan->onednn != NULL)
        snprintf(plan->name, sizeof plan->name, "%s", sc_gemm_onednn_name(plan->onednn));
#endif
    return plan->onednn != NULL || backend != SC_GEMM_ONEDNN;
}

sc_gemm_plan *sc_gemm_plan_new(const sc_gemm *gemm, sc_gemm_backend backend)
{
    sc_gemm_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return NULL;
    plan->gemm = sc_gemm_canonical(gemm, &plan->swapped);
    plan->blocks = sc_gemm_cut(&plan->gemm);
    plan->kernels = find_kernels(plan->gemm.sum);
    for (int role = 0; role < SC_GEMM_ROLES; role++)
        plan->sizes[role] = sc_gemm_size(&plan->gemm, (sc_gemm_role)role);
    if (make_walks(plan) && choose_backend(plan, backend))
        return plan;
    sc_gemm_plan_free(plan);
    return NULL;
}

void sc_gemm_plan_free(sc_gemm_plan *plan)
{
    if (plan == NULL)
        return;
#ifdef SHARDC_ONEDNN
    sc_gemm_onednn_free(plan->onednn);
#endif
    free(plan->offsets);
    free(plan);
}

bool sc_gemm_run(const sc_gemm_plan *plan, const void *a, const void *b, void *c,
                 const void *const *steps, void *scratch)
{
    const void *left = plan->swapped ? b : a, *right = plan->swapped ? a : b;
    sc_gemm_sum_plain(plan, left, right, steps);
#ifdef SHARDC_ONEDNN
    if (plan->onednn != NULL) {
        bool ok = sc_gemm_onednn_run(plan->onednn, left, right, c, steps, scratch);
        if (ok && plan->onednn_steps < plan->gemm.step_count)
            sc_gemm_finish_plain(plan, c, steps, plan->onednn_steps);
        return ok;
    }
#endif
    sc_gemm_run_plain(plan, left, right, c, steps, scratch);
    return true;
}

const char *sc_gemm_plan_name(const sc_gemm_plan *plan)
{
    return plan->name;
}
