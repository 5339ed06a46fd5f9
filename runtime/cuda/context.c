/* Checks GPUs against a program's needs, creates contexts, loads code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/archive.h"
#include "program/target.h"
#include "runtime/comm/launch.h"
#include "runtime/cuda/rank.h"

shardc_status sc_cuda_give_back(const sc_cuda *api, sc_cu_context context, shardc_status status,
                                shardc_error *error)
{
    sc_cu_result result = api->cuCtxSetCurrent(context);
    return status != SHARDC_OK ? status : sc_cuda_check(api, result, "cuCtxSetCurrent", "", error);
}

/* ---- before anything is allocated ---- */

static shardc_status start_driver(sc_cuda *api, shardc_error *error)
{
    if (!sc_cuda_open(api, error))
        return SHARDC_ERROR_UNAVAILABLE;
    sc_cu_result result = api->cuInit(0);
    if (result == SC_CU_SUCCESS)
        return SHARDC_OK;
    shardc_error reason;
    sc_cuda_check(api, result, "cuInit", "", &reason);
    sc_cuda_close(api);
    return sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                   "there is no GPU that CUDA's driver would use: %s", reason.text);
}

/* Ranks of this process take GPUs round-robin, starting at the process's own GPU if there are
 * several processes on the machine. */
static uint32_t first_gpu(const sc_image *image, uint32_t ranks)
{
    sc_launch launch;
    if (ranks == image->ranks || sc_launch_read(NULL, NULL, &launch, NULL) != SHARDC_OK ||
        launch.local_rank < 0)
        return 0;
    return (uint32_t)launch.local_rank;
}

static shardc_status attribute(const sc_cuda *api, sc_cu_device device,
                               sc_cu_device_attribute which, int *out, shardc_error *error)
{
    return SC_CUDA(api, error, "", cuDeviceGetAttribute, out, which, device);
}

static shardc_status identify(const sc_cuda *api, int ordinal, sc_cuda_gpu *out,
                              shardc_error *error)
{
    int major = 0, minor = 0;
    *out = (sc_cuda_gpu){.ordinal = ordinal};
    shardc_status status = SC_CUDA(api, error, "", cuDeviceGet, &out->device, ordinal);
    if (status == SHARDC_OK)
        status =
            SC_CUDA(api, error, "", cuDeviceGetName, out->name, (int)sizeof out->name, out->device);
    if (status == SHARDC_OK)
        status = attribute(api, out->device, SC_CU_CAPABILITY_MAJOR, &major, error);
    if (status == SHARDC_OK)
        status = attribute(api, out->device, SC_CU_CAPABILITY_MINOR, &minor, error);
    out->capability = 10u * (unsigned)major + (unsigned)minor;
    return status;
}

/* Checks the shared memory that a block of each kernel needs. */
static shardc_status check_kernels(const sc_image *image, const sc_cuda_gpu *gpu, uint32_t shared,
                                   shardc_error *error)
{
    for (uint32_t k = 0; k < image->kernel_count; k++) {
        const sc_image_kernel *kernel = &image->kernels[k];
        for (uint32_t s = 0; s < kernel->stage_count; s++) {
            if (kernel->stages[s].shared_bytes > shared)
                return sc_fail(
                    error, SHARDC_ERROR_UNAVAILABLE,
                    "GPU %d (%s) gives a block %u bytes of shared memory; kernel %s needs %u",
                    gpu->ordinal, gpu->name, shared, kernel->symbol,
                    kernel->stages[s].shared_bytes);
        }
    }
    return SHARDC_OK;
}

/* Checks shared memory for the session's ranks on the GPU: `first` and every `gpus`-th after it. */
static shardc_status check_ranks(const shardc_session *session, const sc_cuda_gpu *gpu,
                                 uint32_t first, uint32_t gpus, uint32_t shared,
                                 shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    for (uint32_t r = first; r < session->rank_count; r += gpus) {
        if (status != SHARDC_OK)
            break;
        status = check_kernels(session->ranks[r].image, gpu, shared, error);
    }
    return status;
}

/* Checks that the memory that others have left, and the context, holds the session's ranks. Only a
 * context knows what is free; nothing else has been allocated yet. */
static shardc_status check_memory(const shardc_session *session, const sc_cuda_gpu *gpu,
                                  uint32_t first, uint32_t gpus, shardc_error *error)
{
    const sc_cuda *api = &((const sc_cuda_session *)session->device_state)->api;
    size_t free = 0, total = 0;
    double needed = 0;
    unsigned ranks = 0;
    shardc_status status = SC_CUDA(api, error, "", cuMemGetInfo_v2, &free, &total);
    for (uint32_t r = first; r < session->rank_count; r += gpus, ranks++)
        needed += (double)session->ranks[r].image->arena_bytes;
    if (status == SHARDC_OK && needed > (double)free)
        status = sc_fail(error, SHARDC_ERROR_MEMORY,
                         "%u rank%s on GPU %d (%s) need%s %.4g GiB of memory; %.4g GiB of its %.4g "
                         "GiB are free",
                         ranks, ranks > 1 ? "s" : "", gpu->ordinal, gpu->name, ranks > 1 ? "" : "s",
                         needed / 0x1p30, (double)free / 0x1p30, (double)total / 0x1p30);
    return status;
}

/* True if the GPU can run the target's machine code (CUDA C++ programming guide, "Binary
 * compatibility"): the same major capability and at least the same minor one; with suffix `a` the
 * same capability exactly. */
static bool takes_machine_code(const sc_target *target, uint32_t capability)
{
    if (sc_target_is_virtual(target))
        return false;
    if (sc_target_is_special(target))
        return capability == target->capability;
    return capability / 10 == target->capability / 10 && capability >= target->capability;
}

/* Requires a driver that takes what NVRTC made (CUDA compatibility, "Minor version compatibility"):
 * machine code of its own major version of CUDA or of earlier ones, PTX of its own version or of
 * earlier ones. */
static shardc_status check_nvrtc(const sc_cuda *api, const sc_image *image, const sc_cuda_gpu *gpu,
                                 const sc_target *target, shardc_error *error)
{
    int version = 0;
    shardc_status status = SC_CUDA(api, error, "", cuDriverGetVersion, &version);
    if (status != SHARDC_OK)
        return status;
    bool is_ptx = !takes_machine_code(target, gpu->capability);
    uint32_t driver = (uint32_t)version, nvrtc = image->nvrtc;
    char minor[16];
    snprintf(minor, sizeof minor, "%u or earlier", driver % 1000 / 10);
    if (is_ptx ? nvrtc / 10 <= driver / 10 : nvrtc / 1000 <= driver / 1000)
        return SHARDC_OK;
    return sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                   "GPU %d (%s): the driver, of CUDA %u.%u, does not take the %s that NVRTC %u.%u "
                   "made; update the driver, or compile with an NVRTC of CUDA %u.%s (SHARDC_NVRTC "
                   "names its library)",
                   gpu->ordinal, gpu->name, driver / 1000, driver % 1000 / 10,
                   is_ptx ? "PTX" : "machine code", nvrtc / 1000, nvrtc % 1000 / 10, driver / 1000,
                   is_ptx ? minor : "x");
}

/* Checks compute capability and compute mode, and what the ranks on the GPU need. */
static shardc_status check_gpu(const sc_cuda *api, const shardc_session *session, int ordinal,
                               uint32_t first, uint32_t gpus, shardc_error *error)
{
    const sc_image *image = session->image;
    const sc_target *target = sc_target_find(image->target);
    sc_cuda_gpu gpu;
    const char *name = gpu.name;
    int mode = 0, shared = 0;
    shardc_status status = identify(api, ordinal, &gpu, error);
    if (status == SHARDC_OK)
        status = attribute(api, gpu.device, SC_CU_COMPUTE_MODE, &mode, error);
    if (status == SHARDC_OK)
        status = attribute(api, gpu.device, SC_CU_MAX_SHARED_BYTES, &shared, error);
    if (status != SHARDC_OK)
        return status;
    if (target == NULL)
        return sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                       "the program is for target '%s', which this library does not know",
                       image->target);
    if (gpu.capability < target->capability)
        return sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                       "GPU %d (%s) has compute capability %u.%u; the program, for %s, needs %u.%u",
                       ordinal, name, gpu.capability / 10, gpu.capability % 10, image->target,
                       target->capability / 10, target->capability % 10);
    if (mode == SC_CU_PROHIBITED)
        return sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                       "GPU %d (%s) is in a compute mode that prohibits its use", ordinal, name);
    status = check_nvrtc(api, image, &gpu, target, error);
    return status != SHARDC_OK ? status
                               : check_ranks(session, &gpu, first, gpus, (uint32_t)shared, error);
}

/* Requires a driver with CUDA 11.4's functions. */
static shardc_status check_driver(const sc_cuda *api, shardc_error *error)
{
    enum { LEAST = 11040 };
    int version = 0;
    shardc_status status = SC_CUDA(api, error, "", cuDriverGetVersion, &version);
    if (status == SHARDC_OK && version < LEAST)
        status = sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                         "the driver supports CUDA %d.%d; the program needs CUDA %d.%d or later",
                         version / 1000, version % 1000 / 10, LEAST / 1000, LEAST % 1000 / 10);
    return status;
}

/* Rejects what ranks that share a GPU cannot do. */
static shardc_status check_sharing(const shardc_session *session, shardc_error *error)
{
    if (session->rank_count > SC_CUDA_MAX_SHARING)
        return sc_fail(error, SHARDC_ERROR_UNAVAILABLE, "%u ranks on one GPU are more than %d",
                       session->rank_count, SC_CUDA_MAX_SHARING);
    for (uint32_t r = 0; r < session->rank_count; r++) {
        const sc_image *image = session->ranks[r].image;
        for (uint32_t c = 0; c < image->collective_count; c++) {
            sc_image_collective_kind kind = image->collectives[c].kind;
            if (kind == SC_IMAGE_SEND || kind == SC_IMAGE_RECV)
                return sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                               "ranks that share a GPU do not %s to one another",
                               sc_collectives[kind].name);
        }
    }
    return SHARDC_OK;
}

shardc_status sc_cuda_check_machine(const shardc_session *session, shardc_error *error)
{
    const uint32_t ranks = session->rank_count;
    sc_cuda api;
    int count = 0;
    if (session->options.host_memory != NULL)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT,
                       "files of host memory are for CPUs: a GPU's host memory is pinned");
    shardc_status status = start_driver(&api, error);
    if (status != SHARDC_OK)
        return status;
    status = check_driver(&api, error);
    if (status == SHARDC_OK)
        status = SC_CUDA(&api, error, "", cuDeviceGetCount, &count);
    if (status == SHARDC_OK && count == 0)
        status = sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                         "there is no GPU that CUDA's driver would use");
    if (status == SHARDC_OK && ranks > (uint32_t)count)
        status = check_sharing(session, error);
    uint32_t first = first_gpu(session->image, ranks),
             gpus = (uint32_t)count < ranks ? (uint32_t)count : ranks;
    for (uint32_t c = 0; c < gpus; c++) {
        if (status != SHARDC_OK)
            break;
        status = check_gpu(&api, session, (int)((first + c) % (uint32_t)count), c, gpus, error);
    }
    if (status == SHARDC_OK && ranks > (uint32_t)count && count > 1)
        status =
            sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                    "%u ranks on %d GPUs: use a GPU for each rank, or one for all", ranks, count);
    sc_cuda_close(&api);
    return status;
}

/* ---- code ---- */

/* Loads machine code if the GPU can run it, else PTX, which the driver compiles. */
static shardc_status load_module(const sc_cuda *api, const sc_image *image, const sc_cuda_gpu *gpu,
                                 const char *name, sc_cu_module *out, shardc_error *error)
{
    const sc_target *target = sc_target_find(image->target);
    char file[160], log[1024] = "";
    sc_archive_entry entry;
    sc_cu_result result = SC_CU_NO_BINARY_FOR_GPU;
    snprintf(file, sizeof file, "%s.cubin", name);
    if (takes_machine_code(target, gpu->capability) &&
        sc_archive_find(image->object, image->object_bytes, file, &entry))
        result = api->cuModuleLoadData(out, entry.bytes);
    snprintf(file, sizeof file, "%s.ptx", name);
    if ((result == SC_CU_NO_BINARY_FOR_GPU || result == SC_CU_NEEDS_NEWER_DRIVER) &&
        sc_archive_find(image->object, image->object_bytes, file, &entry)) {
        sc_cu_jit_option options[] = {SC_CU_JIT_ERROR_LOG, SC_CU_JIT_ERROR_LOG_BYTES};
        void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
        result = api->cuModuleLoadDataEx(out, entry.bytes, 2, options, values);
    }
    if (result == SC_CU_SUCCESS)
        return SHARDC_OK;
    *out = NULL;
    shardc_error reason;
    shardc_status status = sc_cuda_check(api, result, "cuModuleLoadData", name, &reason);
    return sc_fail(
        error, status,
        "GPU %d (%s, compute capability %u.%u) rejects the program, for %s: %.200s%s%.200s",
        gpu->ordinal, gpu->name, gpu->capability / 10, gpu->capability % 10, image->target,
        reason.text, log[0] != 0 ? ": " : "", log);
}

static shardc_status load_kernel(const sc_cuda *api, const sc_image *image, const sc_cuda_gpu *gpu,
                                 sc_cuda_loaded_code *code, uint32_t k, shardc_error *error)
{
    const sc_image_kernel *kernel = &image->kernels[k];
    shardc_status status = load_module(api, image, gpu, kernel->symbol, &code->modules[k], error);
    for (uint32_t s = 0; s < kernel->stage_count; s++) {
        if (status != SHARDC_OK)
            break;
        char entry[160];
        snprintf(entry, sizeof entry, "%s_%u", kernel->symbol, s);
        status = SC_CUDA(api, error, entry, cuModuleGetFunction, &code->functions[k][s],
                         code->modules[k], entry);
        if (status == SHARDC_OK && kernel->stages[s].shared_bytes > SC_CU_SHARED_BYTES)
            status = SC_CUDA(api, error, entry, cuFuncSetAttribute, code->functions[k][s],
                             SC_CU_MAX_DYNAMIC_SHARED_BYTES, (int)kernel->stages[s].shared_bytes);
    }
    return status;
}

/* Loads the reduction kernels that the program's collectives use. */
static shardc_status load_reductions(const sc_cuda *api, const sc_image *image,
                                     const sc_cuda_gpu *gpu, sc_cuda_loaded_code *code,
                                     shardc_error *error)
{
    sc_cu_module *module = &code->modules[image->kernel_count];
    shardc_status status = SHARDC_OK;
    for (uint32_t c = 0; c < image->collective_count; c++) {
        if (status != SHARDC_OK)
            break;
        const sc_image_collective *collective = &image->collectives[c];
        if (collective->reduce == SC_IMAGE_WHOLE)
            continue;
        for (uint32_t p = 0; p < collective->part_count; p++) {
            if (status != SHARDC_OK)
                break;
            sc_cu_function *function = &code->reductions[collective->dtypes[p]][collective->reduce];
            char entry[64];
            snprintf(entry, sizeof entry, "sc_reduce_%s_%s",
                     sc_image_reduce_names[collective->reduce],
                     sc_dtypes[collective->dtypes[p]].name);
            if (*module == NULL)
                status = load_module(api, image, gpu, "sc_reduce", module, error);
            if (status == SHARDC_OK && *function == NULL)
                status = SC_CUDA(api, error, entry, cuModuleGetFunction, function, *module, entry);
        }
    }
    return status;
}

/* Loads the code of one stage. */
static shardc_status load_code(const sc_cuda *api, const sc_image *image, bool is_shared,
                               const sc_cuda_gpu *gpu, sc_cuda_loaded_code *code,
                               shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    code->modules = calloc(image->kernel_count + 1u, sizeof(sc_cu_module));
    code->functions = calloc(image->kernel_count + 1u, sizeof *code->functions);
    if (code->modules == NULL || code->functions == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for the kernels");
    for (uint32_t k = 0; k < image->kernel_count; k++) {
        if (status != SHARDC_OK)
            break;
        status = load_kernel(api, image, gpu, code, k, error);
    }
    return status == SHARDC_OK && is_shared ? load_reductions(api, image, gpu, code, error)
                                            : status;
}

/* Creates the context of GPU `index` and loads the code of its ranks' stages. */
static shardc_status open_gpu(const shardc_session *session, uint32_t index, shardc_error *error)
{
    sc_cuda_session *own = session->device_state;
    const sc_cuda *api = &own->api;
    sc_cuda_gpu *gpu = &own->gpus[index];
    shardc_status status = identify(api, gpu->ordinal, gpu, error);
    if (status != SHARDC_OK)
        return status;
    gpu->codes = calloc(session->program->all.stage_count, sizeof *gpu->codes);
    if (gpu->codes == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for the kernels");
    status = SC_CUDA(api, error, "", cuDevicePrimaryCtxRetain, &gpu->context, gpu->device);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, "", cuCtxSetCurrent, gpu->context);
    if (status == SHARDC_OK)
        status = check_memory(session, gpu, index, own->gpu_count, error);
    for (uint32_t r = index; r < session->rank_count; r += own->gpu_count) {
        const sc_image *image = session->ranks[r].image;
        sc_cuda_loaded_code *code = &gpu->codes[image->pipeline.stage];
        if (status != SHARDC_OK)
            break;
        if (code->modules == NULL)
            status = load_code(api, image, session->rank_count > own->gpu_count, gpu, code, error);
    }
    return status;
}

shardc_status sc_cuda_open_gpus(shardc_session *session, shardc_error *error)
{
    sc_cuda_session *own = session->device_state;
    int count = 0;
    shardc_status status = start_driver(&own->api, error);
    if (status != SHARDC_OK) {
        own->api.library = NULL;
        return status;
    }
    status = SC_CUDA(&own->api, error, "", cuDeviceGetCount, &count);
    if (status != SHARDC_OK)
        return status;
    uint32_t gpus = (uint32_t)count < session->rank_count ? (uint32_t)count : session->rank_count;
    own->gpus = calloc(gpus + 1u, sizeof *own->gpus);
    if (own->gpus == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for %u GPUs", gpus);
    own->gpu_count = gpus;
    sc_cu_context callers = NULL;
    status = SC_CUDA(&own->api, error, "", cuCtxGetCurrent, &callers);
    for (uint32_t c = 0; c < gpus; c++) {
        if (status != SHARDC_OK)
            break;
        own->gpus[c].ordinal =
            (int)((first_gpu(session->image, session->rank_count) + c) % (uint32_t)count);
        status = open_gpu(session, c, error);
    }
    return sc_cuda_give_back(&own->api, callers, status, error);
}

static void unload_code(const sc_cuda *api, const sc_image *image, sc_cuda_loaded_code *code)
{
    if (code->modules == NULL)
        return;
    for (uint32_t k = 0; k <= image->kernel_count; k++) {
        if (code->modules[k] != NULL)
            api->cuModuleUnload(code->modules[k]);
    }
    free(code->modules);
    free(code->functions);
}

static void close_gpu(const shardc_session *session, sc_cuda_gpu *gpu)
{
    const sc_cuda *api = &((const sc_cuda_session *)session->device_state)->api;
    const sc_program *program = &session->program->all;
    if (gpu->context != NULL)
        api->cuCtxSetCurrent(gpu->context);
    uint32_t codes = gpu->codes == NULL ? 0 : program->stage_count;
    for (uint32_t s = 0; s < codes; s++)
        unload_code(api, program->stages[s], &gpu->codes[s]);
    if (gpu->context != NULL)
        api->cuDevicePrimaryCtxRelease_v2(gpu->device);
    free(gpu->codes);
}

void sc_cuda_close_gpus(shardc_session *session)
{
    sc_cuda_session *own = session->device_state;
    if (own->gpus != NULL) {
        sc_cu_context callers = NULL;
        own->api.cuCtxGetCurrent(&callers);
        for (uint32_t c = 0; c < own->gpu_count; c++)
            close_gpu(session, &own->gpus[c]);
        own->api.cuCtxSetCurrent(callers);
    }
    free(own->gpus);
    if (own->api.library != NULL)
        sc_cuda_close(&own->api);
}

sc_cuda_gpu *sc_cuda_gpu_of(const sc_rank *rank)
{
    sc_cuda_session *own = rank->session->device_state;
    return &own->gpus[(rank->rank - rank->session->first_rank) % own->gpu_count];
}
