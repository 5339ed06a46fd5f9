/* The CPU device: kernels are functions of a shared object, GEMMs run on the rank thread's OpenMP
 * team, collectives move host memory. An instruction is complete when its function returns;
 * collectives and transfers run from start to finish. */
#define _GNU_SOURCE /* madvise, MAP_ANONYMOUS */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program/cpu_level.h"
#include "runtime/cpu/copier.h"
#include "runtime/cpu/device.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/loader.h"
#include "runtime/session/session.h"

#ifdef _OPENMP
#include <omp.h>
#endif

enum { HUGE_PAGE = 1 << 21 };

/* The code of one stage. */
typedef struct cpu_code {
    sc_loader *object;            /* NULL: the program has no kernels */
    sc_kernel_function **kernels; /* by kernel of the image; NULL: no rank here is of the stage */
} cpu_code;

static cpu_code *code_of(const sc_rank *rank)
{
    return (cpu_code *)rank->session->device_state + rank->image->pipeline.stage;
}

typedef struct cpu_rank {
    void *mapping; /* the memory mapping that contains the arena */
    size_t mapping_bytes;
    sc_gemm_plan **plans; /* by GEMM of the program */
    sc_copier *copier;    /* NULL: the program has no transfers */
} cpu_rank;

/* ---- sessions ---- */

/* Checks the CPU's instructions and the physical memory. Allocation would not fail: Linux
 * overcommits and would end the process later. */
static shardc_status check(const shardc_session *session, shardc_error *error)
{
    size_t length = 0;
    sc_cpu_level level;
    char problem[256];
    const bool is_host_in_memory = session->options.host_memory == NULL;
    const char *missing = NULL;
    double needed = 0;
    for (uint32_t r = 0; r < session->rank_count && missing == NULL; r++) {
        const sc_image *image = session->ranks[r].image;
        missing = sc_cpu_lacks(image->cpu, &length);
        needed += (double)image->arena_bytes;
        needed += is_host_in_memory ? (double)image->host_bytes : 0;
    }
    double available = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (!sc_cpu_allowed(&level, problem, sizeof problem))
        return sc_fail(error, SHARDC_ERROR_UNAVAILABLE, "%s", problem);
    if (missing != NULL)
        return sc_fail(
            error, SHARDC_ERROR_UNAVAILABLE,
            "the program's kernels were compiled for a CPU with '%.*s', which this one lacks",
            (int)length, missing);
    if (needed <= available)
        return SHARDC_OK;
    return sc_fail(error, SHARDC_ERROR_MEMORY,
                   "%u ranks need %.4g GiB of memory; this machine has %.4g GiB",
                   session->rank_count, needed / 0x1p30, available / 0x1p30);
}

static shardc_status load_kernels(const sc_image *image, cpu_code *code, shardc_error *error)
{
    shardc_error reason = {.status = SHARDC_OK};
    code->kernels = calloc(image->kernel_count + 1u, sizeof *code->kernels);
    if (code->kernels == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for the kernels");
    if (image->kernel_count == 0)
        return SHARDC_OK;
    code->object = sc_loader_open(image->object, image->object_bytes, &reason);
    if (code->object != NULL) {
        for (uint32_t i = 0; i < image->kernel_count; i++) {
            if (reason.status != SHARDC_OK)
                break;
            code->kernels[i] = sc_loader_symbol(code->object, image->kernels[i].symbol, &reason);
        }
    }
    return reason.status == SHARDC_OK ? SHARDC_OK
                                      : sc_fail(error, SHARDC_ERROR_DEVICE, "%s", reason.text);
}

/* Shortens the spinning of OpenMP threads. At the end of a parallel region libgomp spins for
 * milliseconds before it sleeps, unless it knows of more threads than cores; then only for
 * microseconds. If other processes need the cores, long spinning makes a loop a hundred times
 * slower, because the thread waited for is waiting for the one that spins. So this registers idle
 * threads with libgomp. OMP_WAIT_POLICY, if set, takes precedence. */
static void calm_teams(const shardc_session *session)
{
#ifdef _OPENMP
    if (session->options.threads < 2 * session->rank_count)
        return;
#pragma omp parallel num_threads((int)session->rank_count + 1)
    {
        (void)omp_get_thread_num(); /* keeps the region from being empty */
    }
#else
    (void)session;
#endif
}

static shardc_status open_session(shardc_session *session, shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    session->device_state = calloc(session->program->all.stage_count, sizeof(cpu_code));
    if (session->device_state == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for the kernels");
    for (uint32_t r = 0; r < session->rank_count; r++) {
        if (status != SHARDC_OK)
            break;
        if (code_of(&session->ranks[r])->kernels == NULL)
            status = load_kernels(session->ranks[r].image, code_of(&session->ranks[r]), error);
    }
    if (status == SHARDC_OK)
        status = sc_workers_probe(session->rank_count + 1, error);
    if (status == SHARDC_OK)
        calm_teams(session);
    return status;
}

static void close_session(shardc_session *session)
{
    cpu_code *code = session->device_state;
    if (code == NULL)
        return;
    for (uint32_t s = 0; s < session->program->all.stage_count; s++) {
        sc_loader_close(code[s].object);
        free(code[s].kernels);
    }
    free(code);
    session->device_state = NULL;
}

/* ---- ranks ---- */

/* Maps the arena. Pages are placed at the CPU that first writes to them, which is this thread's.
 * Uses huge pages if available. */
static shardc_status map_arena(sc_rank *rank, cpu_rank *own, shardc_error *error)
{
    size_t bytes = (size_t)rank->image->arena_bytes, page = (size_t)sysconf(_SC_PAGESIZE);
    own->mapping_bytes = bytes + (bytes >= HUGE_PAGE ? HUGE_PAGE : 0) + page;
    own->mapping =
        mmap(NULL, own->mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own->mapping == MAP_FAILED) {
        own->mapping = NULL;
        return sc_fail(error, SHARDC_ERROR_MEMORY,
                       "there is not enough memory for the %zu bytes of rank %u", bytes,
                       rank->rank);
    }
    size_t skip = bytes >= HUGE_PAGE ? HUGE_PAGE - (uintptr_t)own->mapping % HUGE_PAGE : 0;
    rank->arena = (char *)own->mapping + skip;
    if (bytes >= HUGE_PAGE)
        (void)madvise(rank->arena, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    for (size_t at = 0; at < bytes; at += page)
        ((volatile char *)rank->arena)[at] = 0;
    return SHARDC_OK;
}

/* Sets this thread's team size, both in the OpenMP library that the kernels use and in ours if they
 * differ. */
static void set_team(const sc_rank *rank)
{
    const shardc_session *session = rank->session;
    const cpu_code *code = code_of(rank);
    uint32_t threads = session->options.threads / session->rank_count;
    shardc_error ignored = {.status = SHARDC_OK};
    int size = threads > 1 ? (int)threads : 1;
    sc_kernel_function *found =
        code->object == NULL ? NULL
                             : sc_loader_symbol(code->object, "omp_set_num_threads", &ignored);
    void (*set_num_threads)(int) = (void (*)(int))(void (*)(void))found;
    if (set_num_threads != NULL)
        set_num_threads(size);
#ifdef _OPENMP
    omp_set_num_threads(size);
#endif
}

/* Starts the team's threads now: OpenMP ends the process when it cannot start one. They are kept
 * for later regions. */
static shardc_status start_team(const shardc_session *session, shardc_error *error)
{
    uint32_t threads = session->options.threads / session->rank_count;
    if (threads < 2)
        return SHARDC_OK;
    shardc_status status = sc_workers_probe(threads - 1, error);
#ifdef _OPENMP
    if (status == SHARDC_OK) {
#pragma omp parallel
        {
            (void)omp_get_thread_num();
        }
    }
#endif
    return status;
}

static shardc_status open_rank(sc_rank *rank, shardc_error *error)
{
    set_team(rank);
    cpu_rank *own = rank->device_state = calloc(1, sizeof *own);
    if (own == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for rank %u",
                       rank->rank);
    shardc_status status = map_arena(rank, own, error);
    if (status == SHARDC_OK)
        status = sc_host_arena_open(rank->session->options.host_memory, rank->image->host_bytes,
                                    rank->rank, &rank->host, error);
    return status == SHARDC_OK ? start_team(rank->session, error) : status;
}

static shardc_status prepare_rank(sc_rank *rank, shardc_error *error)
{
    const sc_image *image = rank->image;
    cpu_rank *own = rank->device_state;
    own->plans = calloc(image->gemm_count + 1u, sizeof *own->plans);
    if (own->plans == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY,
                       "there is not enough memory for the plans of the matmuls");
    for (uint32_t i = 0; i < image->gemm_count; i++) {
        own->plans[i] = sc_gemm_plan_new(&image->gemms[i], SC_GEMM_AUTO);
        if (own->plans[i] == NULL)
            return sc_fail(error, SHARDC_ERROR_MEMORY,
                           "there is not enough memory for the plan of matmul %u", i);
    }
    return sc_copier_new(rank, &own->copier, error);
}

/* Plans are freed on the thread that created them. */
static void close_rank(sc_rank *rank)
{
    cpu_rank *own = rank->device_state;
    if (own == NULL)
        return;
    sc_copier_free(own->copier);
    if (own->plans != NULL) {
        for (uint32_t i = 0; i < rank->image->gemm_count; i++)
            sc_gemm_plan_free(own->plans[i]);
    }
    free(own->plans);
    if (own->mapping != NULL)
        munmap(own->mapping, own->mapping_bytes);
    sc_host_arena_close(&rank->host);
    free(own);
    rank->device_state = NULL;
}

static shardc_status open_groups(sc_rank *rank, shardc_error *error)
{
    return sc_rank_bind_groups(rank, rank->comm, error);
}

/* ---- instructions ---- */

static shardc_status begin(sc_rank *rank, uint32_t func, uint32_t micro_batch, bool *out_done,
                           shardc_error *error)
{
    (void)rank, (void)func, (void)micro_batch, (void)error;
    *out_done = false;
    return SHARDC_OK;
}

static shardc_status kernel(sc_rank *rank, sc_bound *bound, uint32_t micro_batch,
                            shardc_error *error)
{
    const cpu_code *code = code_of(rank);
    sc_rank_set_params(rank, bound->instr, micro_batch);
    int64_t failure = code->kernels[bound->instr->index](bound->args, rank->params);
    if (failure != 0 && error->status == SHARDC_OK)
        sc_rank_fail_check(rank, bound->instr, failure, error);
    return SHARDC_OK;
}

static shardc_status gemm(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    const cpu_rank *own = rank->device_state;
    const sc_gemm_plan *plan = own->plans[bound->instr->index];
    if (!sc_gemm_run(plan, bound->args[SC_GEMM_A], bound->args[SC_GEMM_B], bound->args[SC_GEMM_C],
                     bound->steps, bound->scratch) &&
        error->status == SHARDC_OK)
        sc_fail(error, SHARDC_ERROR_DEVICE, "%s: matmul %s failed (rank %u)", bound->instr->where,
                sc_gemm_plan_name(plan), rank->rank);
    return SHARDC_OK;
}

static shardc_status copy(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    (void)rank, (void)error;
    memcpy(bound->args[1], bound->args[0], (size_t)bound->bytes);
    return SHARDC_OK;
}

static shardc_status transfer(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    (void)error;
    sc_copier_start(((const cpu_rank *)rank->device_state)->copier, bound);
    return SHARDC_OK;
}

/* Reports an error of communication; it takes precedence over a failed check. */
static shardc_status lose_world(sc_rank *rank, shardc_status status, const shardc_error *reason,
                                shardc_error *error)
{
    rank->has_lost_world = true;
    *error = *reason;
    return status;
}

static int64_t elements_of(int32_t rows, int64_t row, int64_t piece)
{
    int64_t most = piece / row, count = rows < 0 ? 0 : rows;
    return (count < most ? count : most) * row;
}

/* Tells a call with rows how many there are, and fills what does not arrive. */
static void count_rows(const sc_rank *rank, sc_bound *bound)
{
    const sc_image_collective *collective = &rank->image->collectives[bound->instr->index];
    if (collective->row_count == 0)
        return;
    const int64_t members = (int64_t)sc_comm_group_size(bound->group);
    const int32_t *given = bound->args[bound->instr->arg_count - 2],
                  *got = bound->args[bound->instr->arg_count - 1];
    for (uint32_t p = 0; p < collective->row_count; p++) {
        sc_comm_part *part = &bound->parts[p];
        int64_t *gives = &bound->counts[2 * p * members], *gets = gives + members;
        const int64_t piece = part->count / members, row = collective->rows[p];
        const size_t element = sc_dtypes[part->dtype].bytes;
        for (int64_t j = 0; j < members; j++) {
            gives[j] = elements_of(given[j], row, piece);
            gets[j] = elements_of(got[j], row, piece);
            memset((char *)part->destination + (size_t)(j * piece + gets[j]) * element,
                   (int)collective->fills[p], (size_t)(piece - gets[j]) * element);
        }
        part->gives = gives;
        part->gets = gets;
    }
}

/* An error here occurs before the call starts, so the other ranks cannot know of it: aborts the
 * world. */
static shardc_status start(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    shardc_error reason = {.status = SHARDC_OK};
    if (bound->instr->kind == SC_INSTR_COLLECTIVE)
        count_rows(rank, bound);
    shardc_status status = sc_comm_start(bound->group, &bound->call, &bound->request, &reason);
    rank->in_flight += status == SHARDC_OK;
    if (status == SHARDC_OK)
        return SHARDC_OK;
    bound->request = NULL;
    sc_comm_abort(rank->comm, reason.text);
    return lose_world(rank, status, &reason, error);
}

/* Other ranks cannot know of a copy that failed: aborts the world. */
static shardc_status finish_transfer(sc_rank *rank, const sc_bound *started, shardc_error *error)
{
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status =
        sc_copier_finish(((const cpu_rank *)rank->device_state)->copier, started, &reason);
    if (status == SHARDC_OK)
        return SHARDC_OK;
    sc_comm_abort(rank->comm, reason.text);
    return lose_world(rank, status, &reason, error);
}

static shardc_status finish(sc_rank *rank, sc_bound *started, shardc_error *error)
{
    shardc_error reason = {.status = SHARDC_OK};
    if (started->instr->kind == SC_INSTR_TRANSFER)
        return finish_transfer(rank, started, error);
    shardc_status status = sc_comm_wait(started->request, &reason);
    started->request = NULL;
    rank->in_flight--;
    return status == SHARDC_OK ? SHARDC_OK : lose_world(rank, status, &reason, error);
}

/* Calls in flight must be waited for even after an error; messages may be those of earlier
 * functions. */
static shardc_status end(sc_rank *rank, uint32_t func, bool failed, shardc_error *error)
{
    (void)error;
    (void)func;
    uint32_t funcs = failed ? rank->image->func_count : 0;
    for (uint32_t f = 0; f < funcs; f++) {
        for (uint32_t i = 0; i < rank->image->funcs[f].instr_count; i++) {
            shardc_error ignored = {.status = SHARDC_OK};
            sc_bound *bound = &rank->funcs[f][i];
            if (bound->request != NULL)
                sc_comm_wait(bound->request, &ignored);
            bound->request = NULL;
        }
    }
    if (failed)
        sc_copier_drain(((const cpu_rank *)rank->device_state)->copier);
    rank->in_flight = failed ? 0 : rank->in_flight;
    return SHARDC_OK;
}

/* ---- memory ---- */

static shardc_status read_buffer(sc_rank *rank, uint32_t buffer, int64_t at, void *to,
                                 int64_t bytes, shardc_error *error)
{
    const sc_image_buffer *of = &rank->image->buffers[buffer];
    if (of->host)
        return sc_host_arena_read(&rank->host, of->offset + at, to, bytes, error);
    memcpy(to, (const char *)sc_rank_buffer(rank, buffer) + at, (size_t)bytes);
    return SHARDC_OK;
}

static shardc_status write_buffer(sc_rank *rank, uint32_t buffer, const void *from, int64_t bytes,
                                  shardc_error *error)
{
    const sc_image_buffer *of = &rank->image->buffers[buffer];
    if (of->host)
        return sc_host_arena_write(&rank->host, of->offset, from, bytes, error);
    memcpy(sc_rank_buffer(rank, buffer), from, (size_t)bytes);
    return SHARDC_OK;
}

const sc_device sc_device_cpu = {
    .name = "cpu",
    .check = check,
    .open = open_session,
    .close = close_session,
    .open_rank = open_rank,
    .prepare_rank = prepare_rank,
    .close_rank = close_rank,
    .open_groups = open_groups,
    .begin = begin,
    .kernel = kernel,
    .gemm = gemm,
    .copy = copy,
    .start = start,
    .transfer = transfer,
    .finish = finish,
    .end = end,
    .read = read_buffer,
    .write = write_buffer,
    .is_host = true,
};
