/* GEMMs with cuBLASLt. Descriptors and the algorithm of each GEMM are set up when a rank starts; a
 * call only supplies addresses. */
#include <stdio.h>
#include <stdlib.h>

#include "program/gemm_blas.h"
#include "runtime/cuda/rank.h"

struct sc_cuda_matmul {
    sc_matmul form;
    sc_lt_desc desc;
    sc_lt_layout a, b, d;
    sc_lt_algo algo;
};

static shardc_status lt_check(const sc_cublaslt *lt, sc_lt_status result, const char *call,
                              shardc_error *error)
{
    if (result == SC_LT_SUCCESS)
        return SHARDC_OK;
    return sc_fail(error, result == SC_LT_ALLOC_FAILED ? SHARDC_ERROR_MEMORY : SHARDC_ERROR_DEVICE,
                   "%s: %s (%u)", call, lt->cublasLtGetStatusString(result), result);
}
#define LT(lt, error, name, ...) lt_check(lt, (lt)->name(__VA_ARGS__), #name, error)

static sc_lt_dtype dtype_of(sc_dtype dtype)
{
    return dtype == SC_DTYPE_f64    ? SC_LT_F64
           : dtype == SC_DTYPE_bf16 ? SC_LT_BF16
           : dtype == SC_DTYPE_f16  ? SC_LT_F16
                                    : SC_LT_F32;
}

static shardc_status set_desc(const sc_cublaslt *lt, sc_lt_desc desc, sc_lt_desc_attribute which,
                              const void *value, size_t bytes, shardc_error *error)
{
    return LT(lt, error, cublasLtMatmulDescSetAttribute, desc, which, value, bytes);
}

static shardc_status make_layout(const sc_cublaslt *lt, const sc_matmul_matrix *matrix,
                                 int64_t batches, sc_lt_layout *out, shardc_error *error)
{
    int32_t count = (int32_t)batches;
    shardc_status status = LT(lt, error, cublasLtMatrixLayoutCreate, out, dtype_of(matrix->dtype),
                              (uint64_t)matrix->rows, (uint64_t)matrix->columns, matrix->stride);
    if (status == SHARDC_OK && batches > 1)
        status = LT(lt, error, cublasLtMatrixLayoutSetAttribute, *out, SC_LT_LAYOUT_BATCH_COUNT,
                    &count, sizeof count);
    if (status == SHARDC_OK && batches > 1)
        status = LT(lt, error, cublasLtMatrixLayoutSetAttribute, *out, SC_LT_LAYOUT_BATCH_STRIDE,
                    &matrix->batch_stride, sizeof matrix->batch_stride);
    return status;
}

/* The library's epilogues by activation; SC_GEMM_STEP_KINDS: without one. 0: none. */
typedef struct library_epilogue {
    uint32_t plain, with_bias, stores_operand, stores_operand_with_bias, slope;
} library_epilogue;

static const library_epilogue epilogues[SC_GEMM_STEP_KINDS + 1] = {
#define NO_CUBLASLT    .plain = 0
#define CUBLASLT(NAME) .plain = SC_LT_EPILOGUE_##NAME, .with_bias = SC_LT_EPILOGUE_##NAME##_BIAS
#define CUBLASLT_SLOPE(NAME)                                                                       \
    CUBLASLT(NAME), .stores_operand = SC_LT_EPILOGUE_##NAME##_AUX,                                 \
                    .stores_operand_with_bias = SC_LT_EPILOGUE_##NAME##_AUX_BIAS,                  \
                    .slope = SC_LT_EPILOGUE_D##NAME
#define ACTIVATION(name, NAME, numbers, onednn, cublaslt) [SC_GEMM_##NAME] = {cublaslt},
#include "program/activations.def"
#undef CUBLASLT_SLOPE
#undef CUBLASLT
#undef NO_CUBLASLT
    [SC_GEMM_STEP_KINDS] = {.plain = SC_LT_EPILOGUE_NONE, .with_bias = SC_LT_EPILOGUE_BIAS},
};

static uint32_t epilogue_of(const sc_matmul *form)
{
    bool has_bias = form->bias != SC_GEMM_MAX_STEPS;
    if (form->total != SC_GEMM_MAX_STEPS)
        return form->total_of_b ? SC_LT_EPILOGUE_BGRAD_B : SC_LT_EPILOGUE_BGRAD_A;
    sc_gemm_step_kind slope_of = sc_gemm_step_slope_of(form->activation);
    if (slope_of != SC_GEMM_STEP_KINDS)
        return epilogues[slope_of].slope;
    const library_epilogue *row = &epilogues[form->activation];
    if (form->aux != SC_GEMM_MAX_STEPS)
        return has_bias ? row->stores_operand_with_bias : row->stores_operand;
    return has_bias ? row->with_bias : row->plain;
}

static shardc_status make_desc(const sc_cublaslt *lt, sc_cuda_matmul *m, shardc_error *error)
{
    const sc_matmul *form = &m->form;
    int32_t transpose_a = form->a.is_transposed ? SC_LT_TRANSPOSED : SC_LT_AS_IS;
    int32_t transpose_b = form->b.is_transposed ? SC_LT_TRANSPOSED : SC_LT_AS_IS;
    uint32_t epilogue = epilogue_of(form);
    bool wide = form->sum == SC_DTYPE_f64;
    shardc_status status =
        LT(lt, error, cublasLtMatmulDescCreate, &m->desc,
           wide ? SC_LT_COMPUTE_64F : SC_LT_COMPUTE_32F, wide ? SC_LT_F64 : SC_LT_F32);
    if (status == SHARDC_OK)
        status =
            set_desc(lt, m->desc, SC_LT_DESC_TRANSPOSE_A, &transpose_a, sizeof transpose_a, error);
    if (status == SHARDC_OK)
        status =
            set_desc(lt, m->desc, SC_LT_DESC_TRANSPOSE_B, &transpose_b, sizeof transpose_b, error);
    if (status == SHARDC_OK)
        status = set_desc(lt, m->desc, SC_LT_DESC_EPILOGUE, &epilogue, sizeof epilogue, error);
    if (status == SHARDC_OK && form->aux != SC_GEMM_MAX_STEPS)
        status = set_desc(lt, m->desc, SC_LT_DESC_AUX_STRIDE, &form->aux_stride,
                          sizeof form->aux_stride, error);
    if (status == SHARDC_OK && form->aux != SC_GEMM_MAX_STEPS && form->batches > 1)
        status = set_desc(lt, m->desc, SC_LT_DESC_AUX_BATCH_STRIDE, &form->aux_batch_stride,
                          sizeof form->aux_batch_stride, error);
    return status;
}

/* The workspace must be aligned to 256 bytes, more than buffers are. */
enum { WORKSPACE = SC_MATMUL_WORKSPACE - (256 - SC_IMAGE_ALIGN) };

static void *workspace_of(const sc_bound *bound)
{
    return (void *)(((uintptr_t)bound->scratch + 255) / 256 * 256);
}

/* Returns the step with the epilogue's vector: a bias, or the sums that are a bias gradient. */
static uint32_t vector_of(const sc_matmul *form)
{
    return form->total != SC_GEMM_MAX_STEPS ? form->total : form->bias;
}

/* Sets the addresses of the epilogue's tensors. */
static shardc_status set_tensors(const sc_cublaslt *lt, const sc_cuda_matmul *m, const void *bias,
                                 const void *aux, shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    if (bias != NULL)
        status = set_desc(lt, m->desc, SC_LT_DESC_BIAS, &bias, sizeof bias, error);
    if (status == SHARDC_OK && aux != NULL)
        status = set_desc(lt, m->desc, SC_LT_DESC_AUX, &aux, sizeof aux, error);
    return status;
}

static const void *step_tensor(const sc_bound *bound, uint32_t step)
{
    return step == SC_GEMM_MAX_STEPS ? NULL : bound->steps[step];
}

/* Properties common to all calls of a GEMM. */
typedef struct calls {
    /* or'd together: the lowest set bit is the common alignment */
    uint64_t addresses[SC_GEMM_OPERANDS];
    const void *bias, *aux; /* the least aligned ones */
    sc_bound *one;
} calls;

/* 256 bytes is the library's default, and the most that it makes use of. */
static uint32_t alignment_of(uint64_t addresses)
{
    const uint64_t most = 256, bits = addresses | most;
    return (uint32_t)(bits & -bits);
}

static const void *aligned_least(const void *a, const void *b)
{
    return a == NULL || (b != NULL && alignment_of((uintptr_t)b) < alignment_of((uintptr_t)a)) ? b
                                                                                               : a;
}

static calls calls_of(const sc_rank *rank, uint32_t gemm, const sc_matmul *form)
{
    const sc_image *image = rank->image;
    calls all = {0};
    /* of what pipelines have in several copies every copy begins at a multiple of SC_IMAGE_ALIGN */
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        all.addresses[o] = image->pipeline.count > 0 ? SC_IMAGE_ALIGN : 0;
    for (uint32_t f = 0; f < image->func_count; f++) {
        for (uint32_t i = 0; i < image->funcs[f].instr_count; i++) {
            sc_bound *bound = &rank->funcs[f][i];
            if (bound->instr->kind != SC_INSTR_GEMM || bound->instr->index != gemm)
                continue;
            all.one = bound;
            for (int o = 0; o < SC_GEMM_OPERANDS; o++)
                all.addresses[o] |= (uint64_t)(uintptr_t)bound->args[o];
            all.bias = aligned_least(all.bias, step_tensor(bound, vector_of(form)));
            all.aux = aligned_least(all.aux, step_tensor(bound, form->aux));
        }
    }
    for (uint32_t l = 0; l < form->loop_count; l++) {
        for (int o = 0; o < SC_GEMM_OPERANDS; o++)
            all.addresses[o] |= (uint64_t)(form->loops[l].strides[o] *
                                           sc_dtypes[image->gemms[gemm].dtypes[o]].bytes);
    }
    return all;
}

/* By default the library may accumulate split-k parts in the result: with 16 bits each part would
 * be rounded. */
static uint32_t reductions_of(const sc_matmul *form)
{
    return sc_dtypes[form->d.dtype].bytes < sc_dtypes[form->sum].bytes ? SC_LT_REDUCE_AS_COMPUTED
                                                                       : SC_LT_REDUCE_ANY;
}

static shardc_status prefer(const sc_cublaslt *lt, sc_lt_preference preference,
                            const sc_matmul *form, const calls *all, shardc_error *error)
{
    const uint64_t workspace = WORKSPACE;
    const uint32_t reductions = reductions_of(form);
    const struct {
        sc_lt_preference_attribute which;
        uint32_t operand;
    } aligned[] = {{SC_LT_PREFER_ALIGN_A, form->a.operand},
                   {SC_LT_PREFER_ALIGN_B, form->b.operand},
                   {SC_LT_PREFER_ALIGN_C, form->d.operand},
                   {SC_LT_PREFER_ALIGN_D, form->d.operand}};
    shardc_status status = LT(lt, error, cublasLtMatmulPreferenceSetAttribute, preference,
                              SC_LT_PREFER_WORKSPACE_BYTES, &workspace, sizeof workspace);
    if (status == SHARDC_OK)
        status = LT(lt, error, cublasLtMatmulPreferenceSetAttribute, preference,
                    SC_LT_PREFER_REDUCTIONS, &reductions, sizeof reductions);
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++) {
        if (status != SHARDC_OK)
            break;
        uint32_t bytes = alignment_of(all->addresses[aligned[i].operand]);
        status = LT(lt, error, cublasLtMatmulPreferenceSetAttribute, preference, aligned[i].which,
                    &bytes, sizeof bytes);
    }
    return status;
}

enum { MOST_CANDIDATES = 8 };

/* Queries the library's algorithms for the alignment of the calls' addresses, within the workspace
 * limit: best first, at most `wanted`. *count is 0 if it does not support the GEMM, which it
 * reports in several ways. */
static shardc_status ask(const sc_cublaslt *lt, sc_lt_handle handle, const sc_cuda_matmul *m,
                         const calls *all, int wanted, sc_lt_heuristic found[MOST_CANDIDATES],
                         int *count, shardc_error *error)
{
    sc_lt_preference preference = NULL;
    int given = 0;
    *count = 0;
    shardc_status status = LT(lt, error, cublasLtMatmulPreferenceCreate, &preference);
    if (status == SHARDC_OK)
        status = prefer(lt, preference, &m->form, all, error);
    if (status == SHARDC_OK) {
        sc_lt_status answer = lt->cublasLtMatmulAlgoGetHeuristic(
            handle, m->desc, m->a, m->b, m->d, m->d, preference, wanted, found, &given);
        if (answer == SC_LT_NOT_SUPPORTED || answer == SC_LT_INVALID_VALUE)
            given = 0;
        else
            status = lt_check(lt, answer, "cublasLtMatmulAlgoGetHeuristic", error);
    }
    if (status == SHARDC_OK) {
        for (int i = 0; i < given && i < wanted; i++) {
            if (found[i].status == SC_LT_SUCCESS && found[i].workspace_bytes <= WORKSPACE)
                found[(*count)++] = found[i];
        }
    }
    if (preference != NULL)
        lt->cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

/* A call of a matmul, as work to be measured. */
typedef struct one_matmul {
    sc_bound *bound;
    const sc_cuda_matmul *m;
} one_matmul;

static shardc_status run_one(sc_rank *rank, void *user, shardc_error *error)
{
    const one_matmul *one = user;
    return sc_cuda_matmul_run(rank, one->bound, one->m, error);
}

/* Measures several algorithms on this rank's buffers, whose contents do not matter yet, and
 * takes the fastest. */
static shardc_status measure(sc_rank *rank, sc_cuda_matmul *m, const calls *all,
                             const sc_lt_heuristic *found, int count, sc_algorithm *out,
                             shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    for (int i = 0; i < count; i++) {
        if (status != SHARDC_OK)
            break;
        double seconds = 0;
        m->algo = found[i].algo;
        status = sc_cuda_seconds_of(rank, run_one, &(one_matmul){all->one, m}, &seconds, error);
        if (i == 0)
            out->first = seconds;
        if (i == 0 || seconds < out->least) {
            out->least = seconds;
            out->algo = m->algo;
        }
    }
    return status;
}

/* True if the library still accepts an algorithm from the file. */
static bool is_sure(const sc_cuda_rank *own, const sc_cuda_matmul *m, sc_algorithm *algorithm)
{
    sc_lt_heuristic checked = {.status = SC_LT_NOT_SUPPORTED};
    const sc_cublaslt *lt = &own->session->lt;
    if (algorithm->is_sure)
        return true;
    algorithm->is_sure = lt->cublasLtMatmulAlgoCheck(own->lt, m->desc, m->a, m->b, m->d, m->d,
                                                     &algorithm->algo, &checked) == SC_LT_SUCCESS &&
                         checked.status == SC_LT_SUCCESS && checked.workspace_bytes <= WORKSPACE;
    return algorithm->is_sure;
}

/* Queries or measures an algorithm, which `counts` among those of the program. *out_none: the
 * library does not support the GEMM. */
static shardc_status find_algorithm(sc_rank *rank, sc_cuda_matmul *m, const calls *all, bool counts,
                                    sc_algorithm *out, bool *out_none, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    shardc_gemm_tuning *info = &own->session->algorithms.info;
    bool tunes = rank->session->options.tune_gemms && all->one != NULL;
    sc_lt_heuristic found[MOST_CANDIDATES];
    int count = 0;
    shardc_status status =
        ask(&own->session->lt, own->lt, m, all, tunes ? MOST_CANDIDATES : 1, found, &count, error);
    *out_none = status == SHARDC_OK && count == 0;
    if (tunes && count > 0)
        status = measure(rank, m, all, found, count, out, error);
    if (status != SHARDC_OK || *out_none)
        return status;
    if (!tunes)
        out->algo = found[0].algo;
    if (counts) {
        info->queried++;
        info->measured += tunes;
        info->improved += out->least < out->first;
        info->first_seconds += out->first;
        info->best_seconds += out->least;
    }
    out->is_sure = true;
    return sc_algorithm_cache_set(&own->session->algorithms, out)
               ? SHARDC_OK
               : sc_fail(error, SHARDC_ERROR_MEMORY,
                         "there is not enough memory for the algorithms of the matmuls");
}

/* What identifies the algorithm of a matmul in the cache. */
static sc_algorithm key_of(const sc_cuda_rank *own, uint32_t gemm, const sc_cuda_matmul *m,
                           const calls *all)
{
    const uint32_t *operands =
        (const uint32_t[]){m->form.a.operand, m->form.b.operand, m->form.d.operand};
    sc_algorithm key = {.gpu = own->gpu->kind, .gemm = own->first_gemm + gemm};
    for (int i = 0; i < 3; i++)
        key.aligned[i] = alignment_of(all->addresses[operands[i]]);
    key.aligned[3] = all->bias == NULL ? 0 : alignment_of((uintptr_t)all->bias);
    key.aligned[4] = all->aux == NULL ? 0 : alignment_of((uintptr_t)all->aux);
    return key;
}

/* Chooses the algorithm: from the cache (another rank on the same kind of GPU, or an earlier run),
 * else from the library. One rank at a time, so that nothing is queried twice and measurements are
 * undisturbed. */
static shardc_status choose(sc_rank *rank, uint32_t gemm, sc_cuda_matmul *m, const calls *all,
                            bool counts, bool *out_none, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    sc_algorithm_cache *cache = &own->session->algorithms;
    sc_algorithm wanted = key_of(own, gemm, m, all);
    shardc_status status;
    /* the library checks their alignment */
    status = set_tensors(&own->session->lt, m, all->bias, all->aux, error);
    if (status != SHARDC_OK)
        return status;
    pthread_mutex_lock(&cache->lock);
    sc_algorithm *found = sc_algorithm_cache_find(cache, &wanted);
    bool is_new = found != NULL && !found->is_sure;
    if (found == NULL || (is_new && rank->session->options.tune_gemms) || !is_sure(own, m, found))
        status = find_algorithm(rank, m, all, counts, &wanted, out_none, error);
    else {
        wanted = *found;
        cache->info.from_cache += is_new;
        cache->info.apart += is_new && wanted.is_apart;
    }
    *out_none = *out_none || wanted.is_apart;
    pthread_mutex_unlock(&cache->lock);
    m->algo = wanted.algo;
    return status;
}

shardc_status sc_cuda_matmul_new(sc_rank *rank, uint32_t gemm, bool counts, sc_cuda_matmul **out,
                                 shardc_error *error)
{
    bool is_none = false;
    const sc_cuda_session *shared = rank->session->device_state;
    const sc_cublaslt *lt = &shared->lt;
    sc_cuda_matmul *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY,
                       "there is not enough memory for the plan of a matmul");
    const char *fault = sc_matmul_of(&rank->image->gemms[gemm], &m->form);
    if (fault != NULL) {
        free(m);
        return sc_fail(error, SHARDC_ERROR_DATA,
                       "the program has a matmul that cuBLASLt does not compute: %s", fault);
    }
    shardc_status status = make_desc(lt, m, error);
    if (status == SHARDC_OK)
        status = make_layout(lt, &m->form.a, m->form.batches, &m->a, error);
    if (status == SHARDC_OK)
        status = make_layout(lt, &m->form.b, m->form.batches, &m->b, error);
    if (status == SHARDC_OK)
        status = make_layout(lt, &m->form.d, m->form.batches, &m->d, error);
    if (status == SHARDC_OK) {
        const calls all = calls_of(rank, gemm, &m->form);
        status = choose(rank, gemm, m, &all, counts, &is_none, error);
    }
    if (status != SHARDC_OK || is_none) {
        sc_cuda_matmul_free(lt, m);
        return status;
    }
    *out = m;
    return SHARDC_OK;
}

/* The entry of a matmul that has one, with the cache locked. */
static sc_algorithm *entry_of(sc_rank *rank, uint32_t gemm, const sc_cuda_matmul *matmul)
{
    sc_cuda_rank *own = rank->device_state;
    const calls all = calls_of(rank, gemm, &matmul->form);
    const sc_algorithm key = key_of(own, gemm, matmul, &all);
    return sc_algorithm_cache_find(&own->session->algorithms, &key);
}

bool sc_cuda_matmul_is_compared(sc_rank *rank, uint32_t gemm, const sc_cuda_matmul *matmul)
{
    sc_algorithm_cache *cache = &((sc_cuda_rank *)rank->device_state)->session->algorithms;
    pthread_mutex_lock(&cache->lock);
    const sc_algorithm *found = entry_of(rank, gemm, matmul);
    bool is_compared = found != NULL && found->is_compared;
    pthread_mutex_unlock(&cache->lock);
    return is_compared;
}

shardc_status sc_cuda_matmul_compared(sc_rank *rank, uint32_t gemm, bool is_apart,
                                      sc_cuda_matmul **matmul, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    sc_algorithm_cache *cache = &own->session->algorithms;
    pthread_mutex_lock(&cache->lock);
    sc_algorithm *found = entry_of(rank, gemm, *matmul);
    if (found != NULL) {
        found->is_compared = true;
        found->is_apart = is_apart;
        cache->info.apart += is_apart;
    }
    pthread_mutex_unlock(&cache->lock);
    if (is_apart) {
        sc_cuda_matmul_free(&own->session->lt, *matmul);
        *matmul = NULL;
    }
    return found != NULL ? SHARDC_OK
                         : sc_fail(error, SHARDC_ERROR_DEVICE,
                                   "a measured matmul has no entry among the algorithms");
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

static shardc_status one_call(sc_rank *rank, sc_bound *bound, const sc_cuda_matmul *m,
                              const int64_t at[SC_GEMM_OPERANDS], shardc_error *error)
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
        operands[i] = (char *)bound->args[matrices[i]->operand] +
                      at[matrices[i]->operand] * sc_dtypes[matrices[i]->dtype].bytes;
    return LT(&shared->lt, error, cublasLtMatmul, own->lt, m->desc,
              wide ? (const void *)&wide_alpha : &alpha, operands[0], m->a, operands[1], m->b,
              wide ? (const void *)&wide_beta : &beta, operands[2], m->d, operands[2], m->d,
              &m->algo, workspace_of(bound), WORKSPACE, own->streams[0]);
}

/* Moves the index of the loops, and with it the operands' offsets, to the next call; false after
 * the last. */
static bool next_call(const sc_matmul *form, int64_t *index, int64_t *at)
{
    for (uint32_t loop = form->loop_count; loop-- > 0;) {
        const sc_matmul_loop *l = &form->loops[loop];
        bool again = ++index[loop] < l->size;
        for (int o = 0; o < SC_GEMM_OPERANDS; o++)
            at[o] += again ? l->strides[o] : -(l->size - 1) * l->strides[o];
        if (again)
            return true;
        index[loop] = 0;
    }
    return false;
}

shardc_status sc_cuda_matmul_run(sc_rank *rank, sc_bound *bound, const sc_cuda_matmul *m,
                                 shardc_error *error)
{
    const sc_cuda_session *shared = rank->session->device_state;
    const sc_matmul *form = &m->form;
    int64_t index[SC_MATMUL_LOOPS] = {0}, at[SC_GEMM_OPERANDS] = {0};
    shardc_status status = set_tensors(&shared->lt, m, step_tensor(bound, vector_of(form)),
                                       step_tensor(bound, form->aux), error);
    if (status != SHARDC_OK)
        return status;
    do {
        status = one_call(rank, bound, m, at, error);
        if (status != SHARDC_OK)
            break;
    } while (next_call(form, index, at));
    return status;
}
