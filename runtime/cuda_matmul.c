/* Products by cuBLASLt: descriptors and an algorithm a product, made when a rank starts; a call then only brings addresses. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/device_cuda.h"
#include "support/matmul.h"

struct sc_cuda_matmul {
    sc_matmul form;
    sc_lt_desc desc;
    sc_lt_layout a, b, d;
    sc_lt_algo algo;
};

static sc_status lt_check(const sc_cublaslt *lt, sc_lt_status result, const char *call, sc_error *error)
{
    if (result == SC_LT_SUCCESS)
        return SC_OK;
    return sc_fail(error, result == SC_LT_ALLOC_FAILED ? SC_ERROR_MEMORY : SC_ERROR_DEVICE, "%s: %s (%u)", call,
                   lt->cublasLtGetStatusString(result), result);
}
#define LT(lt, error, name, ...) lt_check(lt, (lt)->name(__VA_ARGS__), #name, error)

static sc_lt_dtype dtype_of(sc_dtype dtype)
{
    return dtype == SC_DTYPE_f64 ? SC_LT_F64 : dtype == SC_DTYPE_bf16 ? SC_LT_BF16 : dtype == SC_DTYPE_f16 ? SC_LT_F16 : SC_LT_F32;
}

static sc_status set_desc(const sc_cublaslt *lt, sc_lt_desc desc, sc_lt_desc_attribute which, const void *value, size_t bytes,
                          sc_error *error)
{
    return LT(lt, error, cublasLtMatmulDescSetAttribute, desc, which, value, bytes);
}

static sc_status make_layout(const sc_cublaslt *lt, const sc_matmul_matrix *matrix, int64_t batches, sc_lt_layout *out, sc_error *error)
{
    int32_t count = (int32_t)batches;
    sc_status status = LT(lt, error, cublasLtMatrixLayoutCreate, out, dtype_of(matrix->dtype), (uint64_t)matrix->rows,
                          (uint64_t)matrix->columns, matrix->stride);
    if (status == SC_OK && batches > 1)
        status = LT(lt, error, cublasLtMatrixLayoutSetAttribute, *out, SC_LT_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (status == SC_OK && batches > 1)
        status = LT(lt, error, cublasLtMatrixLayoutSetAttribute, *out, SC_LT_LAYOUT_BATCH_STRIDE, &matrix->batch_stride,
                    sizeof matrix->batch_stride);
    return status;
}

static uint32_t epilogue_of(const sc_matmul *form)
{
    bool has_bias = form->bias != SC_GEMM_MAX_STEPS;
    if (form->activation == SC_GEMM_GELU_TANH_GRAD)
        return SC_LT_EPILOGUE_DGELU;
    if (form->aux != SC_GEMM_MAX_STEPS)
        return has_bias ? SC_LT_EPILOGUE_GELU_AUX_BIAS : SC_LT_EPILOGUE_GELU_AUX;
    if (form->activation == SC_GEMM_RELU)
        return has_bias ? SC_LT_EPILOGUE_RELU_BIAS : SC_LT_EPILOGUE_RELU;
    if (form->activation == SC_GEMM_GELU_TANH)
        return has_bias ? SC_LT_EPILOGUE_GELU_BIAS : SC_LT_EPILOGUE_GELU;
    return has_bias ? SC_LT_EPILOGUE_BIAS : SC_LT_EPILOGUE_NONE;
}

static sc_status make_desc(const sc_cublaslt *lt, sc_cuda_matmul *m, sc_error *error)
{
    const sc_matmul *form = &m->form;
    int32_t transpose_a = form->a.is_transposed ? SC_LT_TRANSPOSED : SC_LT_AS_IS;
    int32_t transpose_b = form->b.is_transposed ? SC_LT_TRANSPOSED : SC_LT_AS_IS;
    uint32_t epilogue = epilogue_of(form);
    bool wide = form->sum == SC_DTYPE_f64;
    sc_status status =
        LT(lt, error, cublasLtMatmulDescCreate, &m->desc, wide ? SC_LT_COMPUTE_64F : SC_LT_COMPUTE_32F, wide ? SC_LT_F64 : SC_LT_F32);
    if (status == SC_OK)
        status = set_desc(lt, m->desc, SC_LT_DESC_TRANSPOSE_A, &transpose_a, sizeof transpose_a, error);
    if (status == SC_OK)
        status = set_desc(lt, m->desc, SC_LT_DESC_TRANSPOSE_B, &transpose_b, sizeof transpose_b, error);
    if (status == SC_OK)
        status = set_desc(lt, m->desc, SC_LT_DESC_EPILOGUE, &epilogue, sizeof epilogue, error);
    if (status == SC_OK && form->aux != SC_GEMM_MAX_STEPS)
        status = set_desc(lt, m->desc, SC_LT_DESC_AUX_STRIDE, &form->aux_stride, sizeof form->aux_stride, error);
    if (status == SC_OK && form->aux != SC_GEMM_MAX_STEPS && form->batches > 1)
        status = set_desc(lt, m->desc, SC_LT_DESC_AUX_BATCH_STRIDE, &form->aux_batch_stride, sizeof form->aux_batch_stride, error);
    return status;
}

/* The addresses that an epilogue has besides. */
static sc_status set_tensors(const sc_cublaslt *lt, const sc_cuda_matmul *m, const void *bias, const void *aux, sc_error *error)
{
    sc_status status = SC_OK;
    if (bias != NULL)
        status = set_desc(lt, m->desc, SC_LT_DESC_BIAS, &bias, sizeof bias, error);
    if (status == SC_OK && aux != NULL)
        status = set_desc(lt, m->desc, SC_LT_DESC_AUX, &aux, sizeof aux, error);
    return status;
}

static const void *step_tensor(const sc_bound *bound, uint32_t step)
{
    return step == SC_GEMM_MAX_STEPS ? NULL : bound->steps[step];
}

/* What the calls of a product have in common. */
typedef struct calls {
    uint64_t addresses[SC_GEMM_OPERANDS]; /* or'd: their lowest bit is what all are aligned to */
    const void *bias, *aux;               /* of the one where aux is aligned least */
} calls;

/* The library takes 256 bytes for granted where nothing is said, which is as much as it asks for. */
static uint32_t alignment_of(uint64_t addresses)
{
    const uint64_t most = 256, bits = addresses | most;
    return (uint32_t)(bits & -bits);
}

static calls calls_of(const sc_rank *rank, uint32_t gemm, const sc_matmul *form)
{
    const sc_image *image = rank->session->image;
    calls all = {0};
    for (uint32_t f = 0; f < image->func_count; f++) {
        for (uint32_t i = 0; i < image->funcs[f].instr_count; i++) {
            const sc_bound *bound = &rank->funcs[f][i];
            if (bound->instr->kind != SC_INSTR_GEMM || bound->instr->index != gemm)
                continue;
            for (int o = 0; o < SC_GEMM_OPERANDS; o++)
                all.addresses[o] |= (uint64_t)(uintptr_t)bound->args[o];
            const void *aux = step_tensor(bound, form->aux);
            if (all.aux == NULL || alignment_of((uint64_t)(uintptr_t)aux) <= alignment_of((uint64_t)(uintptr_t)all.aux)) {
                all.aux = aux;
                all.bias = step_tensor(bound, form->bias);
            }
        }
    }
    for (uint32_t l = 0; l < form->loop_count; l++) {
        for (int o = 0; o < SC_GEMM_OPERANDS; o++)
            all.addresses[o] |= (uint64_t)(form->loops[l].strides[o] * sc_dtypes[image->gemms[gemm].dtypes[o]].bytes);
    }
    return all;
}

static sc_status prefer(const sc_cublaslt *lt, sc_lt_preference preference, const sc_matmul *form, const calls *all, sc_error *error)
{
    const uint64_t workspace = SC_MATMUL_WORKSPACE;
    const struct {
        sc_lt_preference_attribute which;
        uint32_t operand;
    } aligned[] = {{SC_LT_PREFER_ALIGN_A, form->a.operand},
                   {SC_LT_PREFER_ALIGN_B, form->b.operand},
                   {SC_LT_PREFER_ALIGN_C, form->d.operand},
                   {SC_LT_PREFER_ALIGN_D, form->d.operand}};
    sc_status status =
        LT(lt, error, cublasLtMatmulPreferenceSetAttribute, preference, SC_LT_PREFER_WORKSPACE_BYTES, &workspace, sizeof workspace);
    for (size_t i = 0; status == SC_OK && i < sizeof aligned / sizeof *aligned; i++) {
        uint32_t bytes = alignment_of(all->addresses[aligned[i].operand]);
        status = LT(lt, error, cublasLtMatmulPreferenceSetAttribute, preference, aligned[i].which, &bytes, sizeof bytes);
    }
    return status;
}

/* The library's first choice for the addresses that calls will bring, within the workspace. */
static sc_status choose(const sc_cublaslt *lt, sc_lt_handle handle, sc_cuda_matmul *m, const calls *all, const char *what, sc_error *error)
{
    sc_lt_preference preference = NULL;
    sc_lt_heuristic found = {.status = SC_LT_NOT_SUPPORTED};
    int count = 0;
    sc_status status = LT(lt, error, cublasLtMatmulPreferenceCreate, &preference);
    if (status == SC_OK)
        status = prefer(lt, preference, &m->form, all, error);
    if (status == SC_OK) /* their alignment counts, too */
        status = set_tensors(lt, m, all->bias, all->aux, error);
    if (status == SC_OK)
        status = LT(lt, error, cublasLtMatmulAlgoGetHeuristic, handle, m->desc, m->a, m->b, m->d, m->d, preference, 1, &found, &count);
    if (status == SC_OK && (count == 0 || found.status != SC_LT_SUCCESS))
        status = sc_fail(error, SC_ERROR_UNAVAILABLE, "cuBLASLt has no algorithm for a product of %s", what);
    if (preference != NULL)
        lt->cublasLtMatmulPreferenceDestroy(preference);
    m->algo = found.algo;
    return status;
}

sc_status sc_cuda_matmul_new(sc_rank *rank, uint32_t gemm, sc_cuda_matmul **out, sc_error *error)
{
    const sc_cuda_session *shared = rank->session->device_state;
    const sc_cuda_rank *own = rank->device_state;
    const sc_cublaslt *lt = &shared->lt;
    sc_cuda_matmul *m = calloc(1, sizeof *m);
    char what[96];
    *out = NULL;
    if (m == NULL)
        return sc_fail(error, SC_ERROR_MEMORY, "there is not enough memory for a product's plan");
    const char *fault = sc_matmul_of(&rank->session->image->gemms[gemm], &m->form);
    if (fault != NULL) {
        free(m);
        return sc_fail(error, SC_ERROR_DATA, "the program has a product that cuBLASLt does not compute: %s", fault);
    }
    snprintf(what, sizeof what, "%lld x %lld x %lld", (long long)m->form.rows, (long long)m->form.columns, (long long)m->form.depth);
    sc_status status = make_desc(lt, m, error);
    if (status == SC_OK)
        status = make_layout(lt, &m->form.a, m->form.batches, &m->a, error);
    if (status == SC_OK)
        status = make_layout(lt, &m->form.b, m->form.batches, &m->b, error);
    if (status == SC_OK)
        status = make_layout(lt, &m->form.d, m->form.batches, &m->d, error);
    if (status == SC_OK) {
        const calls all = calls_of(rank, gemm, &m->form);
        status = choose(lt, own->lt, m, &all, what, error);
    }
    if (status != SC_OK) {
        sc_cuda_matmul_free(lt, m);
        return status;
    }
    *out = m;
    return SC_OK;
}

void sc_cuda_matmul_free(const sc_cublaslt *lt, sc_cuda_matmul *m)
{
    if (m == NULL)
        return;
    if (m->d != NULL)
        lt->cublasLtMatrixLayoutDestroy(m->d);
    if (m->b != NULL)
        lt->cublasLtMatrixLayoutDestroy(m->b);
    if (m->a != NULL)
        lt->cublasLtMatrixLayoutDestroy(m->a);
    if (m->desc != NULL)
        lt->cublasLtMatmulDescDestroy(m->desc);
    free(m);
}

static sc_status one_call(sc_rank *rank, sc_bound *bound, const sc_cuda_matmul *m, const int64_t at[SC_GEMM_OPERANDS], sc_error *error)
{
    const sc_cuda_session *shared = rank->session->device_state;
    const sc_cuda_rank *own = rank->device_state;
    const sc_matmul *form = &m->form;
    const double wide_alpha = form->alpha, wide_beta = form->accumulate ? 1 : 0;
    const float alpha = (float)wide_alpha, beta = (float)wide_beta;
    bool wide = form->sum == SC_DTYPE_f64;
    char *operands[SC_GEMM_OPERANDS];
    const sc_matmul_matrix *matrices[] = {&form->a, &form->b, &form->d};
    for (int i = 0; i < SC_GEMM_OPERANDS; i++)
        operands[i] = (char *)bound->args[matrices[i]->operand] + at[matrices[i]->operand] * sc_dtypes[matrices[i]->dtype].bytes;
    return LT(&shared->lt, error, cublasLtMatmul, own->lt, m->desc, wide ? (const void *)&wide_alpha : &alpha, operands[0], m->a,
              operands[1], m->b, wide ? (const void *)&wide_beta : &beta, operands[2], m->d, operands[2], m->d, &m->algo, bound->scratch,
              SC_MATMUL_WORKSPACE, own->streams[0]);
}

sc_status sc_cuda_matmul_run(sc_rank *rank, sc_bound *bound, const sc_cuda_matmul *m, sc_error *error)
{
    const sc_cuda_session *shared = rank->session->device_state;
    const sc_matmul *form = &m->form;
    int64_t index[SC_MATMUL_LOOPS] = {0}, at[SC_GEMM_OPERANDS] = {0};
    sc_status status = set_tensors(&shared->lt, m, step_tensor(bound, form->bias), step_tensor(bound, form->aux), error);
    while (status == SC_OK) {
        uint32_t loop = form->loop_count;
        status = one_call(rank, bound, m, at, error);
        while (loop > 0) {
            const sc_matmul_loop *l = &form->loops[--loop];
            bool again = ++index[loop] < l->size;
            for (int o = 0; o < SC_GEMM_OPERANDS; o++)
                at[o] += again ? l->strides[o] : -(l->size - 1) * l->strides[o];
            if (again)
                break;
            index[loop] = 0;
            if (loop == 0)
                return status;
        }
        if (form->loop_count == 0)
            return status;
    }
    return status;
}
