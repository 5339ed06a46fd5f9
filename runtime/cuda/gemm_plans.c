/* The GEMMs of a session and its ranks: opens the library, manages the algorithm cache and its
 * file, and creates a plan for each GEMM. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "program/lookup.h"
#include "runtime/cuda/rank.h"

/* ---- sessions ---- */

/* Describes what cuBLASLt's choice depends on besides the program. */
static shardc_status name_gpu(sc_cuda_session *own, sc_cuda_gpu *gpu, shardc_error *error)
{
    const sc_cuda *api = &own->api;
    char name[128] = "", text[SC_CUDA_GPU_NAME];
    int major = 0, minor = 0, cpus = 0;
    shardc_status status =
        SC_CUDA(api, error, "", cuDeviceGetName, name, (int)sizeof name, gpu->device);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, name, cuDeviceGetAttribute, &major, SC_CU_CAPABILITY_MAJOR,
                         gpu->device);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, name, cuDeviceGetAttribute, &minor, SC_CU_CAPABILITY_MINOR,
                         gpu->device);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, name, cuDeviceGetAttribute, &cpus, SC_CU_MULTIPROCESSORS,
                         gpu->device);
    if (status != SHARDC_OK)
        return status;
    snprintf(text, sizeof text, "%s, capability %d.%d, %d multiprocessors, cuBLASLt %zu", name,
             major, minor, cpus, own->lt.cublasLtGetVersion());
    return sc_algorithm_cache_gpu(&own->algorithms, text, &gpu->kind)
               ? SHARDC_OK
               : sc_fail(error, SHARDC_ERROR_MEMORY,
                         "there is not enough memory for the algorithms of the matmuls");
}

/* Counts the GEMMs for which the library is queried; fallbacks do not count. */
static uint32_t count_gemms(const sc_image *image)
{
    uint32_t count = 0;
    for (uint32_t g = 0; g < image->gemm_count; g++) {
        bool is_asked = false;
        for (uint32_t f = 0; f < image->func_count; f++) {
            for (uint32_t i = 0; !is_asked && i < image->funcs[f].instr_count; i++) {
                const sc_image_instr *instr = &image->funcs[f].instrs[i];
                is_asked = instr->kind == SC_INSTR_GEMM && instr->index == g && !instr->instead;
            }
        }
        count += is_asked;
    }
    return count;
}

shardc_status sc_cuda_gemm_plans_open(shardc_session *session, shardc_error *error)
{
    sc_cuda_session *own = session->device_state;
    shardc_status status = SHARDC_OK;
    if (!sc_cublaslt_open(&own->lt, error)) {
        own->lt.library = NULL;
        return SHARDC_ERROR_UNAVAILABLE;
    }
    const sc_program *program = &session->program->all;
    uint32_t gemms = 0, asked = 0;
    for (uint32_t s = 0; s < program->stage_count; s++) {
        gemms += program->stages[s]->gemm_count;
        asked += count_gemms(program->stages[s]);
    }
    sc_algorithm_cache_init(&own->algorithms, session->image->hash, gemms);
    own->algorithms.info.gemms = asked;
    for (uint32_t c = 0; c < own->gpu_count; c++) {
        if (status != SHARDC_OK)
            break;
        status = name_gpu(own, &own->gpus[c], error);
    }
    if (status == SHARDC_OK && session->options.gemm_cache != NULL)
        sc_algorithm_cache_read(&own->algorithms, session->options.gemm_cache);
    return status;
}

void sc_cuda_gemm_plans_close(sc_cuda_session *session)
{
    if (session->lt.library != NULL)
        sc_cublaslt_close(&session->lt);
    sc_algorithm_cache_free(&session->algorithms);
}

/* ---- ranks ---- */

/* Fills the arena while nothing runs. With bytes 0x3c every element is a number of moderate size,
 * whatever its dtype. */
static shardc_status fill_arena(sc_rank *rank, unsigned char byte, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    shardc_status status = SC_CUDA(api, error, "", cuMemsetD8Async, own->memory, byte,
                                   (size_t)rank->image->arena_bytes + 1, own->streams[0]);
    return status == SHARDC_OK ? SC_CUDA(api, error, "", cuStreamSynchronize, own->streams[0])
                               : status;
}

/* Ranks of one stage have the same GEMMs. */
static bool is_first_of_stage(const sc_rank *rank)
{
    const sc_image *image = rank->image;
    return rank->rank ==
           (image->pipeline.count == 0 ? 0 : sc_image_stage_peer(image, 0, image->pipeline.stage));
}

/* The last rank of this process to finish writes the cache file. */
static void write_algorithms(shardc_session *session)
{
    sc_cuda_session *own = session->device_state;
    sc_algorithm_cache *cache = &own->algorithms;
    pthread_mutex_lock(&cache->lock);
    bool is_new = cache->info.queried > 0 &&
                  (!session->options.tune_gemms || is_first_of_stage(&session->ranks[0]));
    if (++cache->ready == session->rank_count && is_new && session->options.gemm_cache != NULL)
        sc_algorithm_cache_write(cache, session->options.gemm_cache);
    pthread_mutex_unlock(&cache->lock);
}

/* A GEMM that the library does not support with all its epilogue steps, or that was measured to be
 * slower with them, is executed by the fallback instructions that follow it in the list, if there
 * are any. */
typedef struct gemm_state {
    bool is_made, is_lacking;
} gemm_state;

static shardc_status make_plan(sc_rank *rank, uint32_t gemm, bool counts, gemm_state *of,
                               shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    if (of->is_made)
        return SHARDC_OK;
    shardc_status status = sc_cuda_matmul_new(rank, gemm, counts, &own->matmuls[gemm], error);
    of->is_made = true;
    of->is_lacking = own->matmuls[gemm] == NULL;
    return status;
}

static shardc_status lacks(const sc_rank *rank, const sc_image_instr *instr, shardc_error *error)
{
    const sc_gemm *gemm = &rank->image->gemms[instr->index];
    return sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                   "%s: cuBLASLt has no algorithm for a matmul of %lld x %lld x %lld", instr->where,
                   (long long)sc_gemm_size(gemm, SC_GEMM_M),
                   (long long)sc_gemm_size(gemm, SC_GEMM_N),
                   (long long)sc_gemm_size(gemm, SC_GEMM_K));
}

static bool has_fallback(const sc_image_func *f, uint32_t at)
{
    for (uint32_t i = at + 1; i < f->instr_count; i++) {
        if (f->instrs[i].instead || f->instrs[i].kind == SC_INSTR_GEMM)
            return f->instrs[i].instead;
    }
    return false;
}

/* An instruction that stands for a matmul with its epilogue, or that matmul, as work. */
typedef struct one_instr {
    sc_bound *bound;
    const sc_cuda_matmul *matmul; /* NULL: a kernel */
} one_instr;

static shardc_status run_instr(sc_rank *rank, void *user, shardc_error *error)
{
    const one_instr *one = user;
    return one->matmul == NULL ? sc_cuda_launch(rank, one->bound, 0, error)
                               : sc_cuda_matmul_run(rank, one->bound, one->matmul, error);
}

static bool follows(const sc_image_func *f, uint32_t i)
{
    return i < f->instr_count && (f->instrs[i].instead || f->instrs[i].kind != SC_INSTR_GEMM);
}

/* The seconds of the instructions that stand for the matmul at `at`; INFINITY if the library lacks
 * theirs, too. */
static shardc_status time_fallback(sc_rank *rank, uint32_t func, uint32_t at, gemm_state *states,
                                   double *out, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_image_func *f = &rank->image->funcs[func];
    shardc_status status = SHARDC_OK;
    *out = 0;
    for (uint32_t i = at + 1; follows(f, i); i++) {
        const sc_image_instr *instr = &f->instrs[i];
        bool is_gemm = instr->kind == SC_INSTR_GEMM;
        double seconds = 0;
        if (status != SHARDC_OK)
            break;
        if (!instr->instead)
            continue;
        if (is_gemm)
            status = make_plan(rank, instr->index, false, &states[instr->index], error);
        if (is_gemm && own->matmuls[instr->index] == NULL)
            seconds = INFINITY;
        else if (status == SHARDC_OK)
            status = sc_cuda_seconds_of(
                rank, run_instr,
                &(one_instr){&rank->funcs[func][i], is_gemm ? own->matmuls[instr->index] : NULL},
                &seconds, error);
        *out += seconds;
    }
    return status;
}

/* Measures a matmul with its epilogue, and what stands for both, and keeps the faster. */
static shardc_status compare_fallback(sc_rank *rank, uint32_t func, uint32_t at, gemm_state *states,
                                      shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_image_instr *instr = &rank->image->funcs[func].instrs[at];
    gemm_state *of = &states[instr->index];
    sc_cuda_matmul **matmul = &own->matmuls[instr->index];
    double fused = 0, apart = 0;
    shardc_status status = sc_cuda_seconds_of(
        rank, run_instr, &(one_instr){&rank->funcs[func][at], *matmul}, &fused, error);
    if (status == SHARDC_OK)
        status = time_fallback(rank, func, at, states, &apart, error);
    if (status == SHARDC_OK) {
        status = sc_cuda_matmul_compared(rank, instr->index, apart < fused, matmul, error);
        of->is_lacking = *matmul == NULL;
    }
    return status;
}

/* Makes the plan of a matmul that is no fallback. */
static shardc_status make_first_plan(sc_rank *rank, uint32_t func, uint32_t at, gemm_state *states,
                                     shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    sc_algorithm_cache *cache = &own->session->algorithms;
    const sc_image_func *f = &rank->image->funcs[func];
    gemm_state *of = &states[f->instrs[at].index];
    uint32_t gemm = f->instrs[at].index;
    if (!rank->session->options.tune_gemms || of->is_made)
        return make_plan(rank, gemm, true, of, error);
    pthread_mutex_lock(&cache->measuring);
    shardc_status status = make_plan(rank, gemm, true, of, error);
    if (status == SHARDC_OK && !of->is_lacking && has_fallback(f, at) &&
        !sc_cuda_matmul_is_compared(rank, gemm, own->matmuls[gemm]))
        status = compare_fallback(rank, func, at, states, error);
    pthread_mutex_unlock(&cache->measuring);
    return status;
}

static shardc_status make_func_plans(sc_rank *rank, uint32_t func, gemm_state *states,
                                     shardc_error *error)
{
    const sc_image_func *f = &rank->image->funcs[func];
    bool is_lacking = false; /* whether the last GEMM that is no fallback is unsupported */
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < f->instr_count; i++) {
        if (status != SHARDC_OK)
            break;
        sc_bound *bound = &rank->funcs[func][i];
        const sc_image_instr *instr = bound->instr;
        if (instr->instead)
            bound->is_idle = !is_lacking;
        if (instr->kind != SC_INSTR_GEMM || (instr->instead && !is_lacking))
            continue;
        gemm_state *of = &states[instr->index];
        status = instr->instead ? make_plan(rank, instr->index, true, of, error)
                                : make_first_plan(rank, func, i, states, error);
        if (status == SHARDC_OK && of->is_lacking && (instr->instead || !has_fallback(f, i)))
            status = lacks(rank, instr, error);
        if (!instr->instead)
            bound->is_idle = is_lacking = of->is_lacking;
    }
    return status;
}

static shardc_status open_library(sc_cuda_rank *own, shardc_error *error)
{
    sc_lt_status created = own->session->lt.cublasLtCreate(&own->lt);
    if (created == SC_LT_SUCCESS)
        return SHARDC_OK;
    own->lt = NULL;
    return sc_fail(error, SHARDC_ERROR_DEVICE, "cublasLtCreate: %s (%u)",
                   own->session->lt.cublasLtGetStatusString(created), created);
}

shardc_status sc_cuda_gemm_plans_make(sc_rank *rank, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    shardc_session *session = rank->session;
    const sc_image *image = rank->image;
    gemm_state *states = calloc(image->gemm_count + 1u, sizeof *states);
    own->matmuls = calloc(image->gemm_count + 1u, sizeof(sc_cuda_matmul *));
    if (own->matmuls == NULL || states == NULL) {
        free(states);
        return sc_fail(error, SHARDC_ERROR_MEMORY,
                       "there is not enough memory for the plans of the matmuls");
    }
    for (uint32_t s = 0; s < image->pipeline.stage; s++)
        own->first_gemm += session->program->all.stages[s]->gemm_count;
    shardc_status status = image->gemm_count > 0 ? open_library(own, error) : SHARDC_OK;
    bool tunes = image->gemm_count > 0 && session->options.tune_gemms;
    if (status == SHARDC_OK && tunes)
        status = fill_arena(rank, 0x3c, error);
    for (uint32_t f = 0; f < image->func_count; f++) {
        if (status != SHARDC_OK)
            break;
        status = make_func_plans(rank, f, states, error);
    }
    if (status == SHARDC_OK && tunes)
        status = fill_arena(rank, 0, error);
    if (status == SHARDC_OK && own->session->lt.library != NULL)
        write_algorithms(session);
    free(states);
    return status;
}

void sc_cuda_gemm_tuning(const shardc_session *session, shardc_gemm_tuning *out)
{
    *out = ((const sc_cuda_session *)session->device_state)->algorithms.info;
}

void sc_cuda_gemm_plans_free(sc_rank *rank)
{
    sc_cuda_rank *own = rank->device_state;
    if (own->matmuls != NULL) {
        for (uint32_t g = 0; g < rank->image->gemm_count; g++)
            sc_cuda_matmul_free(&own->session->lt, own->matmuls[g]);
    }
    if (own->lt != NULL)
        own->session->lt.cublasLtDestroy(own->lt);
    free(own->matmuls);
    own->matmuls = NULL;
    own->lt = NULL;
}
