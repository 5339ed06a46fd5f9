/* Collectives with NCCL, one GPU per rank. The world's ncclComm_t is created non-blocking from an
 * id that rank 0 broadcasts over the ranks' own communicator; groups are split from it. Calls go to
 * stream 1; later errors are found by polling. The order of a sum's terms is NCCL's: all members
 * get the same bits, but not necessarily those of the group order. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "program/lookup.h"
#include "runtime/comm/backend.h"
#include "runtime/cuda/rank.h"
#include "support/clock.h"

/* Aborts one communicator, on a thread of its own. */
typedef struct abortion {
    const sc_nccl *nccl;
    sc_nccl_comm comm;
    pthread_t thread;
    bool has_thread;
} abortion;

typedef struct nccl_rank {
    sc_nccl_comm world;
    sc_nccl_comm *groups; /* by group of the program; may contain the world's as well */
    uint32_t group_count;
    bool is_open;     /* all are created, and none has failed */
    abortion *aborts; /* scratch for aborting all of them */
} nccl_rank;

static const sc_nccl *library(const sc_rank *rank)
{
    return &((const sc_cuda_session *)rank->session->device_state)->nccl;
}

static shardc_status nccl_check(const sc_nccl *nccl, sc_nccl_comm comm, sc_nccl_result result,
                                const char *call, const char *what, shardc_error *error)
{
    if (result == SC_NCCL_SUCCESS || result == SC_NCCL_IN_PROGRESS)
        return SHARDC_OK;
    const char *last = comm != NULL ? nccl->ncclGetLastError(comm) : "";
    return sc_fail(error, SHARDC_ERROR_COMM, "%s%s%s: %s%s%.200s", what, *what == 0 ? "" : ": ",
                   call, nccl->ncclGetErrorString(result), last != NULL && *last != 0 ? ": " : "",
                   last == NULL ? "" : last);
}
#define NCCL(nccl, comm, error, what, name, ...)                                                   \
    nccl_check(nccl, comm, (nccl)->name(__VA_ARGS__), #name, what, error)

/* Waits until a non-blocking operation on the communicator is complete. */
static shardc_status settle(const sc_rank *rank, sc_nccl_comm comm, const char *what,
                            shardc_error *error)
{
    const sc_nccl *nccl = library(rank);
    double begin = sc_seconds(), deadline = rank->session->options.deadline_ms * 1e-3;
    shardc_error reason = {.status = SHARDC_OK};
    for (;;) {
        sc_nccl_result state = SC_NCCL_SUCCESS;
        shardc_status status = NCCL(nccl, comm, error, what, ncclCommGetAsyncError, comm, &state);
        if (status != SHARDC_OK || state != SC_NCCL_IN_PROGRESS)
            return status != SHARDC_OK ? status
                                       : nccl_check(nccl, comm, state, "NCCL", what, error);
        status = sc_comm_poll(rank->comm, &reason);
        if (status != SHARDC_OK)
            return sc_fail(error, status, "%s: %s", what, reason.text);
        if (deadline > 0 && sc_seconds() - begin > deadline)
            return sc_fail(error, SHARDC_ERROR_TIMEOUT, "%s: rank %u waited %.3g s for the others",
                           what, rank->rank, sc_seconds() - begin);
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

/* ---- communicators ---- */

static shardc_status open_world(sc_rank *rank, nccl_rank *own, shardc_error *error)
{
    const sc_nccl *nccl = library(rank);
    sc_nccl_config config = SC_NCCL_CONFIG;
    sc_nccl_id id = {{0}};
    shardc_error reason = {.status = SHARDC_OK};
    config.blocking = 0;
    shardc_status status =
        rank->rank == 0 ? NCCL(nccl, NULL, error, "", ncclGetUniqueId, &id) : SHARDC_OK;
    sc_comm_part part = {&id, &id, (int64_t)sizeof id, SC_DTYPE_u8};
    sc_comm_call call = {.kind = SC_COMM_BROADCAST,
                         .part_count = 1,
                         .parts = &part,
                         .what = "the id of NCCL's world"};
    if (status == SHARDC_OK)
        status = sc_comm_run(sc_comm_world(rank->comm), &call, &reason);
    if (reason.status != SHARDC_OK)
        return sc_fail(error, status, "%s", reason.text);
    if (status == SHARDC_OK)
        status = NCCL(nccl, NULL, error, "", ncclCommInitRankConfig, &own->world,
                      (int)rank->image->ranks, id, (int)rank->rank, &config);
    return status == SHARDC_OK ? settle(rank, own->world, "joining NCCL's world", error) : status;
}

/* True if the group is all ranks in order. All ranks get the same answer, as needed because
 * ncclCommSplit is a collective call. */
static bool is_world(const sc_image_group *group, uint64_t ranks)
{
    bool is = sc_image_group_size(group) == ranks;
    for (uint64_t r = 0; is && r < ranks; r++)
        is = sc_image_group_rank(group, r) == r;
    return is;
}

/* Opens the group with ncclCommSplit: the lowest member's rank is the colour that separates groups
 * of one kind. A non-blocking split completes only while the parent is polled. */
static shardc_status open_group(sc_rank *rank, nccl_rank *own, uint32_t index, shardc_error *error)
{
    const sc_image_group *group = &rank->image->groups[index];
    sc_nccl_config config = SC_NCCL_CONFIG;
    config.blocking = 0;
    if (is_world(group, rank->image->ranks)) {
        own->groups[index] = own->world;
        return SHARDC_OK;
    }
    shardc_status status =
        NCCL(library(rank), own->world, error, group->axes, ncclCommSplit, own->world,
             (int)sc_image_group_member(group, rank->rank, 0),
             (int)sc_image_group_rank(group, rank->rank), &own->groups[index], &config);
    if (status == SHARDC_OK)
        status = settle(rank, own->world, group->axes, error);
    return status == SHARDC_OK ? settle(rank, own->groups[index], group->axes, error) : status;
}

static void *abort_one(void *user)
{
    const abortion *a = user;
    a->nccl->ncclCommAbort(a->comm);
    return NULL;
}

/* Aborts all communicators at once: an abort waits for the GPU, which may be busy with another
 * communicator's call. An abort also waits for graphs that contain the communicator's calls, so
 * those must be destroyed before. */
static void abort_all(sc_rank *rank, nccl_rank *own)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i <= own->group_count; i++) {
        sc_nccl_comm comm = i < own->group_count ? own->groups[i] : own->world;
        if (comm != NULL && (i == own->group_count || comm != own->world))
            own->aborts[count++] = (abortion){.nccl = library(rank), .comm = comm};
    }
    for (uint32_t a = 0; a < count; a++)
        own->aborts[a].has_thread =
            pthread_create(&own->aborts[a].thread, NULL, abort_one, &own->aborts[a]) == 0;
    for (uint32_t a = 0; a < count; a++) {
        if (own->aborts[a].has_thread)
            pthread_join(own->aborts[a].thread, NULL);
        else
            abort_one(&own->aborts[a]);
    }
    memset(own->groups, 0, own->group_count * sizeof(sc_nccl_comm));
    own->world = NULL;
    own->is_open = false;
}

/* Closes a communicator after everything in flight on all members has ended. False: it must be
 * aborted. */
static bool leave(sc_rank *rank, sc_nccl_comm comm)
{
    const sc_nccl *nccl = library(rank);
    shardc_error ignored;
    sc_nccl_result result = nccl->ncclCommFinalize(comm);
    if ((result != SC_NCCL_SUCCESS && result != SC_NCCL_IN_PROGRESS) ||
        settle(rank, comm, "leaving", &ignored) != SHARDC_OK)
        return false;
    nccl->ncclCommDestroy(comm);
    return true;
}

/* Leaves the groups and then the world. What cannot be left is aborted after. */
static void leave_all(sc_rank *rank, nccl_rank *own)
{
    for (uint32_t i = 0; i <= own->group_count; i++) {
        sc_nccl_comm *comm = i < own->group_count ? &own->groups[i] : &own->world;
        if (i < own->group_count && *comm == own->world)
            *comm = NULL;
        if (*comm != NULL && leave(rank, *comm))
            *comm = NULL;
    }
}

static void close_groups(sc_rank *rank)
{
    sc_cuda_rank *device = rank->device_state;
    nccl_rank *own = device->comm_state;
    if (own == NULL)
        return;
    if (own->is_open && !rank->has_lost_world)
        leave_all(rank, own);
    abort_all(rank, own);
    free(own->aborts);
    free(own->groups);
    free(own);
    device->comm_state = NULL;
}

static shardc_status open_groups(sc_rank *rank, shardc_error *error)
{
    const sc_image *image = rank->image;
    sc_cuda_rank *device = rank->device_state;
    nccl_rank *own = device->comm_state;
    if (own != NULL) /* reopened after other ranks lost their world */
        own->is_open = false;
    close_groups(rank);
    own = device->comm_state = calloc(1, sizeof *own);
    if (own != NULL) {
        own->groups = calloc(image->group_count + 1u, sizeof(sc_nccl_comm));
        own->aborts = calloc(image->group_count + 1u, sizeof *own->aborts);
    }
    if (own == NULL || own->groups == NULL || own->aborts == NULL) {
        if (own != NULL) {
            free(own->groups);
            free(own->aborts);
        }
        free(own);
        device->comm_state = NULL;
        return sc_fail(error, SHARDC_ERROR_MEMORY,
                       "there is not enough memory for the groups of rank %u", rank->rank);
    }
    own->group_count = image->group_count;
    shardc_status status = open_world(rank, own, error);
    for (uint32_t i = 0; i < image->group_count; i++) {
        if (status != SHARDC_OK)
            break;
        status = open_group(rank, own, i, error);
    }
    own->is_open = status == SHARDC_OK;
    return status;
}

/* ---- calls ---- */

static sc_nccl_dtype dtype_of(sc_dtype dtype)
{
    static const sc_nccl_dtype dtypes[SC_DTYPE_COUNT] = {
        [SC_DTYPE_f32] = SC_NCCL_F32, [SC_DTYPE_f64] = SC_NCCL_F64, [SC_DTYPE_bf16] = SC_NCCL_BF16,
        [SC_DTYPE_f16] = SC_NCCL_F16, [SC_DTYPE_i32] = SC_NCCL_I32, [SC_DTYPE_i64] = SC_NCCL_I64,
        [SC_DTYPE_u8] = SC_NCCL_U8,   [SC_DTYPE_bool] = SC_NCCL_U8};
    return dtypes[dtype];
}

/* For bool (bytes 0 and 1) sum and max are `or`, min is `and`. */
static sc_nccl_reduce reduce_of(sc_comm_reduce reduce, sc_dtype dtype)
{
    if (reduce == SC_COMM_SUM && dtype != SC_DTYPE_bool)
        return SC_NCCL_SUM;
    return reduce == SC_COMM_MIN ? SC_NCCL_MIN : SC_NCCL_MAX;
}

static shardc_status send_and_receive(sc_rank *rank, const sc_bound *bound, sc_nccl_comm comm,
                                      const sc_comm_part *part, shardc_error *error)
{
    const sc_nccl *nccl = library(rank);
    const sc_cuda_rank *device = rank->device_state;
    const char *where = bound->instr->where;
    uint32_t n = sc_comm_group_size(bound->group);
    bool all = bound->call.kind == SC_COMM_ALL_TO_ALL;
    int64_t count = all ? part->count / n : part->count,
            bytes = count * sc_dtypes[part->dtype].bytes;
    int32_t to = bound->call.kind == SC_COMM_RECV ? SC_COMM_NOBODY : bound->call.to;
    int32_t from = bound->call.kind == SC_COMM_SEND ? SC_COMM_NOBODY : bound->call.from;
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < n; i++) {
        if (status != SHARDC_OK)
            break;
        int64_t at = all ? i * bytes : 0;
        if (all || (int32_t)i == to)
            status = NCCL(nccl, comm, error, where, ncclSend, (const char *)part->source + at,
                          (size_t)count, dtype_of(part->dtype), (int)i, comm, device->streams[1]);
        if (status == SHARDC_OK && (all || (int32_t)i == from))
            status = NCCL(nccl, comm, error, where, ncclRecv, (char *)part->destination + at,
                          (size_t)count, dtype_of(part->dtype), (int)i, comm, device->streams[1]);
    }
    return status;
}

static shardc_status one_part(sc_rank *rank, const sc_bound *bound, sc_nccl_comm comm,
                              const sc_comm_part *part, shardc_error *error)
{
    const sc_nccl *nccl = library(rank);
    sc_cu_stream stream = ((const sc_cuda_rank *)rank->device_state)->streams[1];
    const char *where = bound->instr->where;
    size_t count = (size_t)part->count, piece = count / sc_comm_group_size(bound->group);
    sc_nccl_dtype dtype = dtype_of(part->dtype);
    switch (bound->call.kind) {
    case SC_COMM_ALL_GATHER:
        return NCCL(nccl, comm, error, where, ncclAllGather, part->source, part->destination, piece,
                    dtype, comm, stream);
    case SC_COMM_REDUCE_SCATTER:
        return NCCL(nccl, comm, error, where, ncclReduceScatter, part->source, part->destination,
                    piece, dtype, reduce_of(bound->call.reduce, part->dtype), comm, stream);
    case SC_COMM_ALL_REDUCE:
        return NCCL(nccl, comm, error, where, ncclAllReduce, part->source, part->destination, count,
                    dtype, reduce_of(bound->call.reduce, part->dtype), comm, stream);
    case SC_COMM_BROADCAST:
        return NCCL(nccl, comm, error, where, ncclBroadcast, part->source, part->destination, count,
                    dtype, (int)bound->call.from, comm, stream);
    default:
        return send_and_receive(rank, bound, comm, part, error);
    }
}

static shardc_status start(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    const sc_nccl *nccl = library(rank);
    const nccl_rank *own = ((const sc_cuda_rank *)rank->device_state)->comm_state;
    sc_nccl_comm comm = own->groups[rank->image->collectives[bound->instr->index].group];
    shardc_status status = nccl_check(nccl, comm, nccl->ncclGroupStart(), "ncclGroupStart",
                                      bound->instr->where, error);
    if (status != SHARDC_OK)
        return status;
    for (uint32_t p = 0; p < bound->call.part_count; p++) {
        if (status != SHARDC_OK)
            break;
        if (bound->parts[p].count > 0)
            status = one_part(rank, bound, comm, &bound->parts[p], error);
    }
    sc_nccl_result ended = nccl->ncclGroupEnd();
    if (status == SHARDC_OK)
        status = nccl_check(nccl, comm, ended, "ncclGroupEnd", bound->instr->where, error);
    shardc_error reason = {.status = SHARDC_OK};
    if (status != SHARDC_OK || (status = settle(rank, comm, "starting it", &reason)) == SHARDC_OK)
        return status;
    char what[256];
    sc_comm_describe(bound->group, &bound->call, what, sizeof what);
    return sc_fail(error, status, "rank %u waits for %s: %s", rank->rank, what, reason.text);
}

static shardc_status finish(sc_rank *rank, sc_bound *started, shardc_error *error)
{
    (void)rank, (void)started, (void)error;
    return SHARDC_OK;
}

static shardc_status poll(sc_rank *rank, shardc_error *error)
{
    const nccl_rank *own = ((const sc_cuda_rank *)rank->device_state)->comm_state;
    const sc_nccl *nccl = library(rank);
    shardc_error reason = {.status = SHARDC_OK};
    /* polls the processes: NCCL detects the death of one much later, if at all */
    shardc_status status = sc_comm_poll(rank->comm, &reason);
    if (status != SHARDC_OK)
        return sc_fail(error, status, "%s", reason.text);
    for (uint32_t i = 0; i < own->group_count; i++) {
        if (status != SHARDC_OK)
            break;
        sc_nccl_result state = SC_NCCL_SUCCESS;
        status =
            NCCL(nccl, own->groups[i], error, "", ncclCommGetAsyncError, own->groups[i], &state);
        if (status == SHARDC_OK)
            status =
                nccl_check(nccl, own->groups[i], state, "NCCL", rank->image->groups[i].axes, error);
    }
    return status;
}

/* Ends this rank's NCCL calls. Other ranks that wait for it in NCCL find out by their own
 * polling. */
static void abort_world(sc_rank *rank)
{
    nccl_rank *own = ((sc_cuda_rank *)rank->device_state)->comm_state;
    sc_comm_abort(rank->comm,
                  rank->error.text[0] != 0 ? rank->error.text : "its call on the GPU failed");
    if (own != NULL)
        abort_all(rank, own);
}

const sc_cuda_comm sc_cuda_comm_nccl = {
    .name = "nccl",
    .is_captured = true,
    .open = open_groups,
    .close = close_groups,
    .start = start,
    .finish = finish,
    .poll = poll,
    .abort = abort_world,
};
