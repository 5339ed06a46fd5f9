/* Collectives between ranks that share a GPU. Buffers are in one address space, so each rank's
 * stream reads the others' buffers directly. Events order the work of a call: the ranks' threads
 * record theirs before a barrier (meet), after which every member may wait for every other member's
 * event.
 *
 *     start    record `ready`; meet; wait for all `ready`; [all_reduce: reduce one slice; record
 *              `half`; meet; wait for all `half`]; copy
 *     finish   meet, so that all have recorded `done`; stream 0 waits for all `done`: then all
 *              members have read what stream 0 may overwrite next
 *
 * all_reduce is a reduce_scatter followed by an all_gather: before `half` member g writes only
 * slice g of its buffer, which only g reads. */
#include "program/lookup.h"
#include "runtime/cuda/messages.h"

static shardc_status meet(sc_rank *rank, const sc_bound *bound, shardc_error *error)
{
    sc_comm_call call = {.kind = SC_COMM_BARRIER,
                         .to = SC_COMM_NOBODY,
                         .from = SC_COMM_NOBODY,
                         .what = bound->instr->where};
    (void)rank;
    return sc_comm_run(bound->group, &call, error);
}

/* Returns the same instruction of another member. */
static const sc_bound *peer_of(const sc_rank *rank, const sc_bound *bound, uint32_t member)
{
    const sc_image *image = rank->image;
    const sc_image_collective *collective = &image->collectives[bound->instr->index];
    uint64_t peer = sc_image_group_member(&image->groups[collective->group], rank->rank, member);
    for (uint32_t f = 0; f < image->func_count; f++) {
        size_t at = ((uintptr_t)bound - (uintptr_t)rank->funcs[f]) / sizeof *bound;
        if (at < image->funcs[f].instr_count)
            return &rank->session->ranks[peer - rank->session->first_rank].funcs[f][at];
    }
    return NULL; /* bound does not belong to the rank */
}

static shardc_status wait_for_members(const sc_rank *rank, const sc_bound *bound, size_t event,
                                      sc_cu_stream stream, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < sc_comm_group_size(bound->group); i++) {
        if (status != SHARDC_OK)
            break;
        const char *extra = peer_of(rank, bound, i)->device;
        status = SC_CUDA(&own->session->api, error, bound->instr->where, cuStreamWaitEvent, stream,
                         *(const sc_cu_event *)(const void *)(extra + event), 0);
    }
    return status;
}

static shardc_status move(const sc_rank *rank, const sc_bound *bound, void *to, const void *from,
                          int64_t bytes, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    if (to == from || bytes == 0)
        return SHARDC_OK;
    return SC_CUDA(&own->session->api, error, bound->instr->where, cuMemcpyDtoDAsync_v2,
                   (sc_cu_address)(uintptr_t)to, (sc_cu_address)(uintptr_t)from, (size_t)bytes,
                   sc_cuda_stream_of(rank, bound));
}

/* Reduces elements first .. first + count of the members' sources into `to`, in group order. */
static shardc_status reduce(const sc_rank *rank, const sc_bound *bound, uint32_t p, int64_t first,
                            int64_t count, void *to, shardc_error *error)
{
    enum { THREADS = 256 };
    const sc_cuda_rank *own = rank->device_state;
    const sc_comm_part *part = &bound->parts[p];
    uint64_t members = sc_comm_group_size(bound->group), sources[SC_CUDA_MAX_SHARING] = {0};
    for (uint32_t i = 0; i < members; i++)
        sources[i] = (uint64_t)(uintptr_t)peer_of(rank, bound, i)->parts[p].source;
    if (members == 1) {
        int64_t size = sc_dtypes[part->dtype].bytes;
        return move(rank, bound, to, (const char *)part->source + first * size, count * size,
                    error);
    }
    void *values[SC_CUDA_MAX_SHARING + 4];
    for (uint32_t i = 0; i < SC_CUDA_MAX_SHARING; i++)
        values[i] = &sources[i];
    values[SC_CUDA_MAX_SHARING] = &members;
    values[SC_CUDA_MAX_SHARING + 1] = &to;
    values[SC_CUDA_MAX_SHARING + 2] = &first;
    values[SC_CUDA_MAX_SHARING + 3] = &count;
    if (count == 0)
        return SHARDC_OK;
    return SC_CUDA(&own->session->api, error, bound->instr->where, cuLaunchKernel,
                   own->code->reductions[part->dtype][bound->call.reduce],
                   (unsigned)((count + THREADS - 1) / THREADS), 1, 1, THREADS, 1, 1, 0,
                   sc_cuda_stream_of(rank, bound), values, NULL);
}

/* Returns where slice i of n begins. */
static int64_t begin_of(int64_t count, int64_t i, int64_t n)
{
    return count / n * i + (count % n < i ? count % n : i);
}

static shardc_status all_reduce(sc_rank *rank, const sc_bound *bound, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    uint32_t n = sc_comm_group_size(bound->group), g = sc_comm_group_rank(bound->group);
    const sc_cuda_bound *extra = bound->device;
    shardc_status status = SHARDC_OK;
    for (uint32_t p = 0; p < bound->call.part_count; p++) {
        if (status != SHARDC_OK)
            break;
        const sc_comm_part *part = &bound->parts[p];
        int64_t first = begin_of(part->count, g, n), end = begin_of(part->count, g + 1, n);
        status = reduce(rank, bound, p, first, end - first,
                        (char *)part->destination + first * sc_dtypes[part->dtype].bytes, error);
    }
    if (status == SHARDC_OK)
        status = SC_CUDA(&own->session->api, error, bound->instr->where, cuEventRecord, extra->half,
                         sc_cuda_stream_of(rank, bound));
    if (status == SHARDC_OK)
        status = meet(rank, bound, error);
    if (status == SHARDC_OK)
        status = wait_for_members(rank, bound, offsetof(sc_cuda_bound, half),
                                  sc_cuda_stream_of(rank, bound), error);
    for (uint32_t p = 0; p < bound->call.part_count; p++) {
        if (status != SHARDC_OK)
            break;
        const sc_comm_part *part = &bound->parts[p];
        int64_t size = sc_dtypes[part->dtype].bytes;
        for (uint32_t i = 0; i < n; i++) {
            if (status != SHARDC_OK)
                break;
            int64_t first = begin_of(part->count, i, n), end = begin_of(part->count, i + 1, n);
            status =
                i == g ? SHARDC_OK
                       : move(rank, bound, (char *)part->destination + first * size,
                              (char *)peer_of(rank, bound, i)->parts[p].destination + first * size,
                              (end - first) * size, error);
        }
    }
    return status;
}

/* Copies what comes from member i. */
static shardc_status take(sc_rank *rank, const sc_bound *bound, uint32_t p, uint32_t i,
                          shardc_error *error)
{
    const sc_comm_part *part = &bound->parts[p], *peer = &peer_of(rank, bound, i)->parts[p];
    uint32_t n = sc_comm_group_size(bound->group), g = sc_comm_group_rank(bound->group);
    int64_t bytes = part->count * sc_dtypes[part->dtype].bytes, piece = bytes / n;
    char *to = part->destination;
    const char *from = peer->source;
    switch (bound->call.kind) {
    case SC_COMM_ALL_GATHER:
        return move(rank, bound, to + i * piece, from, piece, error);
    case SC_COMM_ALL_TO_ALL:
        return move(rank, bound, to + i * piece, from + g * piece, piece, error);
    default: /* everything, from one member: broadcast, permute, recv */
        return (int32_t)i == bound->call.from ? move(rank, bound, to, from, bytes, error)
                                              : SHARDC_OK;
    }
}

static shardc_status take_all(sc_rank *rank, sc_bound *bound, uint32_t part, shardc_error *error)
{
    uint32_t size = sc_comm_group_size(bound->group);
    for (uint32_t i = 0; i < size; i++) {
        shardc_status status = take(rank, bound, part, i, error);
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}

static shardc_status start(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    uint32_t n = sc_comm_group_size(bound->group), g = sc_comm_group_rank(bound->group);
    shardc_status status = meet(rank, bound, error);
    if (status == SHARDC_OK)
        status = wait_for_members(rank, bound, offsetof(sc_cuda_bound, ready),
                                  sc_cuda_stream_of(rank, bound), error);
    if (bound->call.kind == SC_COMM_ALL_REDUCE)
        return status == SHARDC_OK ? all_reduce(rank, bound, error) : status;
    for (uint32_t p = 0; p < bound->call.part_count; p++) {
        if (status != SHARDC_OK)
            break;
        int64_t piece = bound->parts[p].count / n;
        if (bound->call.kind == SC_COMM_REDUCE_SCATTER)
            status = reduce(rank, bound, p, piece * g, piece, bound->parts[p].destination, error);
        else if (bound->call.kind != SC_COMM_SEND)
            status = take_all(rank, bound, p, error);
    }
    return status;
}

static shardc_status finish(sc_rank *rank, sc_bound *started, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    shardc_status status = meet(rank, started, error);
    return status == SHARDC_OK ? wait_for_members(rank, started, offsetof(sc_cuda_bound, done),
                                                  own->streams[0], error)
                               : status;
}

static shardc_status open_groups(sc_rank *rank, shardc_error *error)
{
    (void)rank, (void)error;
    return SHARDC_OK;
}

static void close_groups(sc_rank *rank)
{
    (void)rank;
}

static void abort_world(sc_rank *rank, const char *why)
{
    sc_comm_abort(rank->comm, why);
}

const sc_cuda_comm sc_cuda_comm_local = {
    .name = "local",
    .open = open_groups,
    .close = close_groups,
    .start = start,
    .finish = finish,
    .transmit = sc_cuda_shared_transmit,
    .meet = sc_cuda_shared_meet,
    .abort = abort_world,
};
