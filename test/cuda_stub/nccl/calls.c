/* Collectives and messages of NCCL's stub, and groups of these. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm/reduce.h"
#include "test/cuda_stub/nccl/internal.h"

static uint64_t calls;
static _Thread_local int depth;
static _Thread_local op group[MOST_CALLS];
static _Thread_local int group_count;
static _Thread_local unsigned group_error;

bool sc_nccl_is_grouping(void)
{
    return depth > 0;
}

static sc_dtype inner_dtype(sc_nccl_dtype dtype)
{
    switch (dtype) {
    case SC_NCCL_I32:
        return SC_DTYPE_i32;
    case SC_NCCL_I64:
        return SC_DTYPE_i64;
    case SC_NCCL_F16:
        return SC_DTYPE_f16;
    case SC_NCCL_F32:
        return SC_DTYPE_f32;
    case SC_NCCL_F64:
        return SC_DTYPE_f64;
    case SC_NCCL_BF16:
        return SC_DTYPE_bf16;
    case SC_NCCL_U8:
        return SC_DTYPE_u8;
    default:
        return SC_DTYPE_COUNT;
    }
}

static size_t given_bytes(const op *o)
{
    size_t bytes = o->count * sc_dtypes[inner_dtype(o->dtype)].bytes;
    bool is_mute = (o->kind == BROADCAST && o->comm->rank != o->peer) || o->kind == RECV;
    return is_mute ? 0 : o->kind == REDUCE_SCATTER ? bytes * (size_t)o->comm->size : bytes;
}

static size_t got_bytes(const op *o)
{
    size_t bytes = o->count * sc_dtypes[inner_dtype(o->dtype)].bytes;
    bool is_deaf = (o->kind == REDUCE && o->comm->rank != o->peer) || o->kind == SEND;
    return is_deaf ? 0 : o->kind == ALL_GATHER ? bytes * (size_t)o->comm->size : bytes;
}

static op_header header_of(const op *o)
{
    bool is_message = o->kind == SEND || o->kind == RECV;
    return (op_header){.kind = is_message ? SEND : o->kind,
                       .dtype = o->dtype,
                       .reduce = o->reduce,
                       .root = is_message ? 0 : (uint32_t)o->peer,
                       .count = o->count};
}

static bool run_give(void *data, char *why, size_t room)
{
    const op *o = data;
    char name[PATH];
    op_header header = header_of(o);
    pthread_mutex_lock(&sc_nccl_lock);
    bool is_void = o->comm->is_aborted || o->comm->is_gone || o->hangs;
    if (o->kind == SEND)
        sc_nccl_name_of(name, "%s.msg%d.%d.%llu", o->comm->place, o->comm->rank, o->peer,
                        (unsigned long long)o->comm->sent[o->peer]++);
    else
        sc_nccl_name_of(name, "%s.op%llu.%d", o->comm->place, (unsigned long long)o->comm->given++,
                        o->comm->rank);
    pthread_mutex_unlock(&sc_nccl_lock);
    bool ok = is_void || sc_nccl_give_file(name, &header, sizeof header, o->from, given_bytes(o));
    if (!ok)
        snprintf(why, room, "NCCL's stub cannot write %s: %s", name, strerror(errno));
    sc_stub_wake();
    return ok;
}

static bool is_got(void *data)
{
    const op *o = data;
    char name[PATH];
    bool ready = true;
    pthread_mutex_lock(&sc_nccl_lock);
    if (o->comm->is_aborted || o->comm->is_gone)
        ready = true;
    else if (o->hangs)
        ready = false;
    else if (o->kind == RECV)
        ready = sc_nccl_is_there(sc_nccl_name_of(name, "%s.msg%d.%d.%llu", o->comm->place, o->peer,
                                                 o->comm->rank,
                                                 (unsigned long long)o->comm->received[o->peer]));
    for (int r = 0;
         ready && !o->comm->is_aborted && !o->comm->is_gone && o->kind != RECV && r < o->comm->size;
         r++)
        ready = sc_nccl_is_there(sc_nccl_name_of(name, "%s.op%llu.%d", o->comm->place,
                                                 (unsigned long long)o->comm->got, r));
    o->comm->is_stuck = !ready;
    pthread_mutex_unlock(&sc_nccl_lock);
    return ready;
}

static bool get_message(const op *o, char *why, size_t room)
{
    char name[PATH];
    op_header header, mine = header_of(o);
    sc_nccl_name_of(name, "%s.msg%d.%d.%llu", o->comm->place, o->peer, o->comm->rank,
                    (unsigned long long)o->comm->received[o->peer]++);
    bool ok = sc_nccl_get_file(name, &header, sizeof header, o->to, got_bytes(o)) &&
              memcmp(&header, &mine, sizeof mine) == 0;
    if (!ok)
        snprintf(why, room, "rank %d does not send what rank %d receives", o->peer, o->comm->rank);
    unlink(name);
    return ok;
}

static bool combine(const op *o, char *const *terms)
{
    static const sc_comm_reduce reduces[] = {
        [SC_NCCL_SUM] = SC_COMM_SUM, [SC_NCCL_MAX] = SC_COMM_MAX, [SC_NCCL_MIN] = SC_COMM_MIN};
    const void *sources[MOST_RANKS];
    size_t bytes = o->count * sc_dtypes[inner_dtype(o->dtype)].bytes;
    if (o->kind == BROADCAST) {
        memcpy(o->to, terms[o->peer], bytes);
        return true;
    }
    if (o->kind == REDUCE && o->comm->rank != o->peer)
        return true;
    for (int r = 0; r < o->comm->size; r++) {
        if (o->kind == ALL_GATHER)
            memcpy((char *)o->to + (size_t)r * bytes, terms[r], bytes);
        sources[r] = terms[r] + (o->kind == REDUCE_SCATTER ? (size_t)o->comm->rank * bytes : 0);
    }
    if (o->kind != ALL_GATHER && o->count > 0)
        sc_comm_reduce_arrays(inner_dtype(o->dtype), reduces[o->reduce], o->to, sources,
                              (uint32_t)o->comm->size, (int64_t)o->count);
    return true;
}

static bool get_call(const op *o, char *why, size_t room)
{
    char name[PATH], *terms[MOST_RANKS] = {0};
    op_header header, mine = header_of(o);
    uint64_t number = o->comm->got++;
    bool ok = true;
    for (int r = 0; ok && r < o->comm->size; r++) {
        op theirs = *o;
        struct ncclComm as = *o->comm;
        as.rank = r;
        theirs.comm = &as;
        size_t bytes = given_bytes(&theirs);
        terms[r] = malloc(bytes + 1);
        ok = terms[r] != NULL &&
             sc_nccl_get_file(sc_nccl_name_of(name, "%s.op%llu.%d", o->comm->place,
                                              (unsigned long long)number, r),
                              &header, sizeof header, terms[r], bytes) &&
             memcmp(&header, &mine, sizeof mine) == 0;
        if (!ok)
            snprintf(why, room, "rank %d and rank %d make different calls of NCCL", r,
                     o->comm->rank);
    }
    ok = ok && combine(o, terms);
    for (int r = 0; r < o->comm->size; r++)
        free(terms[r]);
    /* everybody gave this one, and so has got what stood before its group */
    for (; !o->is_later && o->comm->cleared < number; o->comm->cleared++)
        unlink(sc_nccl_name_of(name, "%s.op%llu.%d", o->comm->place,
                               (unsigned long long)o->comm->cleared, o->comm->rank));
    return ok;
}

static bool run_get(void *data, char *why, size_t room)
{
    const op *o = data;
    pthread_mutex_lock(&sc_nccl_lock);
    bool is_void = o->comm->is_aborted || o->comm->is_gone;
    bool ok = is_void || (o->kind == RECV ? get_message(o, why, room) : get_call(o, why, room));
    pthread_mutex_unlock(&sc_nccl_lock);
    return ok;
}

/* The receiver has taken the message's file away. */
static bool is_taken(void *data)
{
    const op *o = data;
    char name[PATH];
    pthread_mutex_lock(&sc_nccl_lock);
    bool taken =
        o->comm->is_aborted || o->comm->is_gone ||
        (!o->hangs &&
         !sc_nccl_is_there(sc_nccl_name_of(name, "%s.msg%d.%d.%llu", o->comm->place, o->comm->rank,
                                           o->peer, (unsigned long long)o->comm->taken[o->peer])));
    o->comm->is_stuck = !taken;
    pthread_mutex_unlock(&sc_nccl_lock);
    return taken;
}

static bool run_taken(void *data, char *why, size_t room)
{
    const op *o = data;
    (void)why, (void)room;
    pthread_mutex_lock(&sc_nccl_lock);
    o->comm->taken[o->peer]++;
    pthread_mutex_unlock(&sc_nccl_lock);
    sc_stub_wake();
    return true;
}

static void drop_call(void *data)
{
    const op *o = data;
    o->comm->is_stuck = false;
    o->comm->holds--;
}

/* One that cannot be put is dropped. */
static bool put_call(const op *o, const sc_stub_work *work)
{
    o->comm->holds++;
    return sc_stub_enqueue(o->stream, work, o, sizeof *o) == SC_CU_SUCCESS;
}

unsigned sc_nccl_put_ops(op *ops, int count)
{
    static const sc_stub_work give = {.name = "NCCL gives", .run = run_give, .drop = drop_call},
                              taken = {.name = "NCCL has sent",
                                       .is_ready = is_taken,
                                       .run = run_taken,
                                       .drop = drop_call},
                              get = {.name = "NCCL gets",
                                     .is_ready = is_got,
                                     .run = run_get,
                                     .drop = drop_call};
    const char *async = getenv("SHARDC_STUB_NCCL_ASYNC");
    for (int i = 0; i < count; i++) {
        op *o = &ops[i];
        pthread_mutex_lock(&sc_nccl_lock);
        calls++;
        for (int k = 0; k < i && o->kind != SEND && o->kind != RECV; k++)
            o->is_later = o->is_later ||
                          (ops[k].comm == o->comm && ops[k].kind != SEND && ops[k].kind != RECV);
        if (async != NULL && strtoull(async, NULL, 10) == calls) {
            o->hangs = true;
            o->comm->error = (unsigned)strtoul(strchr(async, '=') + 1, NULL, 10);
            snprintf(o->comm->text, sizeof o->comm->text,
                     "an error that the stub was told to have");
        }
        pthread_mutex_unlock(&sc_nccl_lock);
        if (o->kind != RECV && !put_call(o, &give))
            return SC_NCCL_UNHANDLED_CUDA;
    }
    for (int i = 0; i < count; i++) {
        if (ops[i].kind != SEND && !put_call(&ops[i], &get))
            return SC_NCCL_UNHANDLED_CUDA;
    }
    for (int i = 0; i < count; i++) {
        if (ops[i].kind == SEND && !put_call(&ops[i], &taken))
            return SC_NCCL_UNHANDLED_CUDA;
    }
    return SC_NCCL_SUCCESS;
}

/* One's own hand, and the peer's, for the direction of the message. */
bool sc_nccl_connects(const op *ops, int count)
{
    bool both = true;
    for (int i = 0; i < count; i++) {
        const op *o = &ops[i];
        const struct ncclComm *comm = o->comm;
        char name[PATH];
        if ((o->kind != SEND && o->kind != RECV) || o->peer == comm->rank)
            continue;
        int from = o->kind == SEND ? comm->rank : o->peer,
            to = o->kind == SEND ? o->peer : comm->rank;
        sc_nccl_name_of(name, "%s.link%d.%d.%d", comm->place, from, to, comm->rank);
        if (!sc_nccl_is_there(name) && !sc_nccl_give_file(name, "", 0, "", 0))
            return false;
        both = both && sc_nccl_is_there(sc_nccl_name_of(name, "%s.link%d.%d.%d", comm->place, from,
                                                        to, o->peer));
    }
    return both;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return a_bytes > 0 && b_bytes > 0 && (uintptr_t)a < (uintptr_t)b + b_bytes &&
           (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* What one call of a group writes no other one touches. */
static bool are_apart(void)
{
    for (int i = 0; i < group_count; i++) {
        for (int j = 0; j < group_count; j++) {
            const op *a = &group[i], *b = &group[j];
            if (i != j && (overlap(a->to, got_bytes(a), b->to, got_bytes(b)) ||
                           overlap(a->to, got_bytes(a), b->from, given_bytes(b))))
                return false;
        }
    }
    return true;
}

/* Blocking calls wait here until both ends are connected. */
static void connect_all(void)
{
    while (!sc_nccl_connects(group, group_count))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* Non-blocking communicators keep theirs until they are asked. */
static unsigned put_group(void)
{
    bool waits = false;
    if (!are_apart())
        return SC_NCCL_INVALID_USAGE;
    for (int i = 0; i < group_count; i++) {
        struct ncclComm *comm = group[i].comm;
        if (comm->is_blocking)
            continue;
        pthread_mutex_lock(&sc_nccl_lock);
        comm->waiting_count = comm->waiting == NULL ? 0 : comm->waiting_count;
        comm->waiting =
            realloc(comm->waiting, (size_t)(comm->waiting_count + 1) * sizeof *comm->waiting);
        if (comm->waiting == NULL)
            abort();
        comm->waiting[comm->waiting_count++] = group[i];
        comm->asks = 0;
        waits = true;
        pthread_mutex_unlock(&sc_nccl_lock);
    }
    if (waits)
        return SC_NCCL_IN_PROGRESS;
    connect_all();
    return sc_nccl_put_ops(group, group_count);
}

sc_nccl_result ncclGroupStart(void)
{
    ENTER();
    if (depth++ == 0) {
        group_count = 0;
        group_error = 0;
    }
    return SC_NCCL_SUCCESS;
}

sc_nccl_result ncclGroupEnd(void)
{
    if (depth == 0)
        return SC_NCCL_INVALID_USAGE;
    depth--;
    ENTER();
    if (depth > 0)
        return SC_NCCL_SUCCESS;
    unsigned result = group_error != 0 ? group_error : put_group();
    group_count = 0;
    return result;
}

static unsigned check(const op *o)
{
    size_t give = inner_dtype(o->dtype) == SC_DTYPE_COUNT ? 0 : given_bytes(o),
           get = inner_dtype(o->dtype) == SC_DTYPE_COUNT ? 0 : got_bytes(o);
    if (inner_dtype(o->dtype) == SC_DTYPE_COUNT || o->peer < 0 || o->peer >= o->comm->size ||
        (o->reduce != SC_NCCL_SUM && o->reduce != SC_NCCL_MAX && o->reduce != SC_NCCL_MIN))
        return SC_NCCL_INVALID_ARGUMENT;
    if ((give > 0 && !sc_stub_owns(o->stream, o->from, give)) ||
        (get > 0 && !sc_stub_owns(o->stream, o->to, get)))
        return SC_NCCL_INVALID_ARGUMENT;
    if (sc_stub_gpu_of(o->stream) != o->comm->gpu || sc_stub_gpu() != o->comm->gpu)
        return SC_NCCL_INVALID_ARGUMENT;
    if (!overlap(o->from, give, o->to, get))
        return SC_NCCL_SUCCESS;
    const char *in_place =
        (const char *)o->to + (o->kind == ALL_GATHER ? (size_t)o->comm->rank * give : 0);
    const char *from =
        (const char *)o->from + (o->kind == REDUCE_SCATTER ? (size_t)o->comm->rank * get : 0);
    return in_place == from ? SC_NCCL_SUCCESS : SC_NCCL_INVALID_USAGE;
}

static unsigned add(op o)
{
    unsigned result = SC_NCCL_SUCCESS;
    if (!sc_nccl_is_live(o.comm))
        return SC_NCCL_INVALID_ARGUMENT;
    if (sc_nccl_is_busy(o.comm))
        result = SC_NCCL_INVALID_ARGUMENT;
    else if (o.comm->error != 0)
        result = o.comm->error;
    else
        result = group_count == MOST_CALLS ? (unsigned)SC_NCCL_INVALID_USAGE : check(&o);
    if (depth > 0) {
        if (result == SC_NCCL_SUCCESS)
            group[group_count++] = o;
        else if (group_error == 0)
            group_error = result;
        return result;
    }
    if (result != SC_NCCL_SUCCESS)
        return result;
    group[0] = o;
    group_count = 1;
    result = put_group();
    group_count = 0;
    return result;
}

sc_nccl_result ncclAllReduce(const void *from, void *to, size_t count, sc_nccl_dtype dtype,
                             sc_nccl_reduce reduce, sc_nccl_comm comm, sc_cu_stream stream)
{
    ENTER();
    return add((op){.kind = ALL_REDUCE,
                    .comm = comm,
                    .stream = stream,
                    .from = from,
                    .to = to,
                    .count = count,
                    .dtype = dtype,
                    .reduce = reduce});
}

sc_nccl_result ncclReduceScatter(const void *from, void *to, size_t to_count, sc_nccl_dtype dtype,
                                 sc_nccl_reduce reduce, sc_nccl_comm comm, sc_cu_stream stream)
{
    ENTER();
    return add((op){.kind = REDUCE_SCATTER,
                    .comm = comm,
                    .stream = stream,
                    .from = from,
                    .to = to,
                    .count = to_count,
                    .dtype = dtype,
                    .reduce = reduce});
}

sc_nccl_result ncclAllGather(const void *from, void *to, size_t from_count, sc_nccl_dtype dtype,
                             sc_nccl_comm comm, sc_cu_stream stream)
{
    ENTER();
    return add((op){.kind = ALL_GATHER,
                    .comm = comm,
                    .stream = stream,
                    .from = from,
                    .to = to,
                    .count = from_count,
                    .dtype = dtype});
}

sc_nccl_result ncclBroadcast(const void *from, void *to, size_t count, sc_nccl_dtype dtype,
                             int root, sc_nccl_comm comm, sc_cu_stream stream)
{
    ENTER();
    return add((op){.kind = BROADCAST,
                    .comm = comm,
                    .stream = stream,
                    .from = from,
                    .to = to,
                    .count = count,
                    .dtype = dtype,
                    .peer = root});
}

sc_nccl_result ncclReduce(const void *from, void *to, size_t count, sc_nccl_dtype dtype,
                          sc_nccl_reduce reduce, int root, sc_nccl_comm comm, sc_cu_stream stream)
{
    ENTER();
    return add((op){.kind = REDUCE,
                    .comm = comm,
                    .stream = stream,
                    .from = from,
                    .to = to,
                    .count = count,
                    .dtype = dtype,
                    .reduce = reduce,
                    .peer = root});
}

sc_nccl_result ncclSend(const void *from, size_t count, sc_nccl_dtype dtype, int peer,
                        sc_nccl_comm comm, sc_cu_stream stream)
{
    ENTER();
    return add((op){.kind = SEND,
                    .comm = comm,
                    .stream = stream,
                    .from = from,
                    .count = count,
                    .dtype = dtype,
                    .peer = peer});
}

sc_nccl_result ncclRecv(void *to, size_t count, sc_nccl_dtype dtype, int peer, sc_nccl_comm comm,
                        sc_cu_stream stream)
{
    ENTER();
    return add((op){.kind = RECV,
                    .comm = comm,
                    .stream = stream,
                    .to = to,
                    .count = count,
                    .dtype = dtype,
                    .peer = peer});
}
