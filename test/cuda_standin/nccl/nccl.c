/* NCCL where there are no cards: a shared object with the functions of runtime/nccl.def ($SHARDC_NCCL names it), among threads and
 * processes of this machine. Members meet in a folder, whose name is the unique id: whatever one says to the others is a file in it,
 * complete as soon as it is there. A call is two pieces of work on its stream: what this member gives is written to a file when the stream
 * gets there, and what it gets is made when the files of all others are there. Terms are added in the order of the ranks.
 *
 * It is as little helpful as the library may be:
 *  - non-blocking calls stay in progress until they are asked about, and a communicator in progress takes no calls. What a group has comes
 *    to the streams no sooner; a split is given out no sooner;
 *  - the abort of a communicator waits for all that the card is busy with, calls of other communicators included; that and a farewell wait
 *    for the graphs that have its calls to be gone. What would wait for ever ends the process, with a word on what it waits for;
 *  - a member that died is waited for for ever, and members that disagree break their streams;
 *  - of buffers that overlap only those are taken that are called in place.
 * From the environment:
 *     SHARDC_STANDIN_NCCL_REMOTE=1        a member that died is an asynchronous error (ncclRemoteError) of those who ask
 *     SHARDC_STANDIN_NCCL_ASYNC=n=result  the n-th call of this process never ends, and is that asynchronous error
 *     SHARDC_STANDIN_NCCL_FOLDER          where the folders are; /tmp. Members that die leave theirs
 * Calls that fail at once: the driver's stand-in counts them (SHARDC_STANDIN_FAIL). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm_reduce.h"
#include "runtime/nccl.h"
#include "test/cuda_standin/standin.h"

#define API __attribute__((visibility("default")))

#define SYMBOL(result, name, ...) API result name(__VA_ARGS__);
#include "runtime/nccl.def"
#undef SYMBOL

enum { MOST_RANKS = 64, MOST_CALLS = 256 /* of a group */, PATH = 256, WAKE_US = 500, ASKED_BEFORE_READY = 2 };

typedef enum op_kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE, SEND, RECV } op_kind;

struct ncclComm {
    struct ncclComm *next;
    char place[PATH]; /* the beginning of its files' names */
    char folder[PATH];
    int rank, size;
    int parent_ranks[MOST_RANKS]; /* what they are in the parent; in a world themselves */
    struct ncclComm *parent;      /* of a split under way */
    int color, key, split;        /* its part in it; the split's number in the parent */
    int splits;                   /* of this one so far */
    _Atomic bool is_aborted;
    bool is_blocking, is_joining, is_leaving, is_gone;
    int asks;           /* about what is in progress */
    struct op *waiting; /* calls that come to their streams when they are asked about */
    int waiting_count, card;
    struct ncclComm *child, **child_out; /* of a split under way: where it is given out */
    _Atomic int holds;                   /* calls on streams and in graphs */
    _Atomic bool is_stuck;               /* a call of its has the card, and waits for others */
    pid_t pids[MOST_RANKS];
    unsigned error;
    char text[512];
    uint64_t given, got;                             /* collectives, by this member: run so far */
    uint64_t cleared;                                /* of what this member gave: so many files are gone */
    uint64_t sent[MOST_RANKS], received[MOST_RANKS]; /* messages, by peer */
};

typedef struct op {
    op_kind kind;
    struct ncclComm *comm;
    sc_cu_stream stream;
    const void *from;
    void *to;
    size_t count; /* as the function has it */
    sc_nccl_dtype dtype;
    sc_nccl_reduce reduce;
    int peer; /* or root */
    bool hangs;
    bool is_later; /* of the collectives of its group and communicator not the first */
} op;

/* What a file of a call begins with: members that disagree are found. */
typedef struct op_header {
    uint32_t kind, dtype, reduce, root;
    uint64_t count;
} op_header;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken after the driver's, never before it */
static struct ncclComm *all;                             /* never freed: work on streams may know them */
static pthread_t waker;
static bool has_waker;
static uint64_t calls;
static _Thread_local int depth;
static _Thread_local op group[MOST_CALLS];
static _Thread_local int group_count;
static _Thread_local unsigned group_error;

/* ---- files ---- */

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static bool give_file(const char *name, const void *header, size_t header_bytes, const void *data, size_t bytes)
{
    char temporary[PATH + 16];
    snprintf(temporary, sizeof temporary, "%s.part", name);
    FILE *file = fopen(temporary, "wb");
    bool ok = file != NULL && fwrite(header, 1, header_bytes, file) == header_bytes && fwrite(data, 1, bytes, file) == bytes;
    if (file != NULL)
        ok = fclose(file) == 0 && ok;
    return ok && rename(temporary, name) == 0;
}

static bool is_there(const char *name)
{
    return access(name, F_OK) == 0;
}

/* Exactly so many bytes. */
static bool get_file(const char *name, void *header, size_t header_bytes, void *data, size_t bytes)
{
    FILE *file = fopen(name, "rb");
    char more;
    bool ok = file != NULL && fread(header, 1, header_bytes, file) == header_bytes && fread(data, 1, bytes, file) == bytes &&
              fread(&more, 1, 1, file) == 0;
    if (file != NULL)
        fclose(file);
    return ok;
}

__attribute__((format(printf, 2, 3))) static const char *name_of(char out[PATH], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out, PATH, format, arguments);
    va_end(arguments);
    return out;
}

/* ---- joining ---- */

static bool is_dead(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return true;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    const char *end = strrchr(text, ')');
    return length == 0 || end == NULL || end[2] == 'Z' || end[2] == 'X';
}

/* A member of a world, as it said it. */
typedef struct world_part {
    pid_t pid;
    int card;
} world_part;

/* A member of a split, as it said it in the parent's file. */
typedef struct split_part {
    int color, key;
    pid_t pid;
} split_part;

/* All have said where they belong: the members of this color, by key and then by rank. */
static bool join_split(struct ncclComm *comm)
{
    split_part parts[MOST_RANKS], none;
    char name[PATH];
    for (int r = 0; r < comm->parent->size; r++) {
        name_of(name, "%s.split%d.%d", comm->parent->place, comm->split, r);
        if (!is_there(name) || !get_file(name, &parts[r], sizeof parts[r], &none, 0))
            return false;
    }
    comm->size = 0;
    for (int r = 0; r < comm->parent->size; r++) {
        if (parts[r].color != comm->color)
            continue;
        int at = comm->size++;
        while (at > 0 && parts[comm->parent_ranks[at - 1]].key > parts[r].key) {
            comm->parent_ranks[at] = comm->parent_ranks[at - 1];
            at--;
        }
        comm->parent_ranks[at] = r;
    }
    for (int i = 0; i < comm->size; i++) {
        comm->pids[i] = parts[comm->parent_ranks[i]].pid;
        if (comm->parent_ranks[i] == comm->parent->rank)
            comm->rank = i;
    }
    return true;
}

/* Two members on one card of a process are refused: processes have cards of their own here. */
static bool join_world(struct ncclComm *comm)
{
    char name[PATH], none;
    for (int r = 0; r < comm->size; r++) {
        world_part part;
        name_of(name, "%s.init.%d", comm->place, r);
        if (!is_there(name) || !get_file(name, &part, sizeof part, &none, 0))
            return false;
        comm->pids[r] = part.pid;
        if (r != comm->rank && part.pid == getpid() && part.card == comm->card) {
            comm->error = SC_NCCL_INVALID_USAGE;
            snprintf(comm->text, sizeof comm->text, "ranks %d and %d have the same card", r, comm->rank);
        }
    }
    return true;
}

static bool leave_world(struct ncclComm *comm)
{
    char name[PATH];
    for (int r = 0; r < comm->size; r++) {
        if (!is_there(name_of(name, "%s.left.%d", comm->place, r)))
            return false;
    }
    return true;
}

/* The split that all have come to. */
static void give_out(struct ncclComm *parent)
{
    parent->child->is_joining = false;
    if (parent->child->color == SC_NCCL_NO_COLOR)
        parent->child->is_gone = true;
    else
        *parent->child_out = parent->child;
    parent->child = NULL;
}

static bool is_busy(const struct ncclComm *comm)
{
    return comm->is_joining || comm->is_leaving || comm->waiting != NULL || comm->child != NULL;
}

/* What asking finds out; the lock is held. */
static unsigned ask(struct ncclComm *comm)
{
    const char *remote = getenv("SHARDC_STANDIN_NCCL_REMOTE");
    for (int r = 0; remote != NULL && *remote == '1' && r < comm->size && !comm->is_joining && comm->error == 0; r++) {
        if (!is_dead(comm->pids[r]))
            continue;
        comm->error = SC_NCCL_REMOTE;
        snprintf(comm->text, sizeof comm->text, "the process of rank %d has exited", r);
    }
    if (comm->error != 0)
        return comm->error;
    comm->asks++;
    if (comm->waiting != NULL) /* who asks puts them on their streams */
        return SC_NCCL_IN_PROGRESS;
    if (comm->is_joining && comm->asks >= ASKED_BEFORE_READY && join_world(comm))
        comm->is_joining = false;
    if (comm->child != NULL && comm->asks >= ASKED_BEFORE_READY && join_split(comm->child))
        give_out(comm);
    if (comm->is_leaving && comm->holds == 0 && leave_world(comm))
        comm->is_leaving = false;
    if (comm->error != 0)
        return comm->error;
    return is_busy(comm) ? SC_NCCL_IN_PROGRESS : SC_NCCL_SUCCESS;
}

static unsigned settle(struct ncclComm *comm)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        unsigned state = ask(comm);
        pthread_mutex_unlock(&lock);
        if (state != SC_NCCL_IN_PROGRESS)
            return state;
        pause_us(100);
    }
}

/* Who sleeps in the driver looks again: other processes do not wake it. */
static void *waker_main(void *unused)
{
    (void)unused;
    for (;;) {
        pause_us(WAKE_US);
        sc_standin_wake();
    }
    return NULL;
}

static struct ncclComm *new_comm(const char *place, const sc_nccl_config *config)
{
    struct ncclComm *comm = calloc(1, sizeof *comm);
    if (comm == NULL)
        abort();
    snprintf(comm->place, sizeof comm->place, "%s", place);
    snprintf(comm->folder, sizeof comm->folder, "%s", place);
    *strrchr(comm->folder, '/') = 0;
    comm->is_blocking = config == NULL || config->blocking != 0;
    comm->is_joining = true;
    comm->card = sc_standin_card();
    pthread_mutex_lock(&lock);
    comm->next = all;
    all = comm;
    if (!has_waker && pthread_create(&waker, NULL, waker_main, NULL) == 0) {
        has_waker = true;
        pthread_detach(waker);
    }
    pthread_mutex_unlock(&lock);
    return comm;
}

static unsigned put_ops(op *ops, int count);

/* ---- the functions of communicators ---- */

sc_nccl_result ncclGetVersion(int *out)
{
    *out = 22805;
    return SC_NCCL_SUCCESS;
}

const char *ncclGetErrorString(sc_nccl_result result)
{
    static const char *const texts[] = {"no error",         "unhandled cuda error", "unhandled system error", "internal error",
                                        "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
    return result < sizeof texts / sizeof *texts ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(sc_nccl_comm comm)
{
    return comm == NULL ? "" : comm->text;
}

static bool is_live(struct ncclComm *comm)
{
    pthread_mutex_lock(&lock);
    const struct ncclComm *c = all;
    while (c != NULL && c != comm)
        c = c->next;
    bool result = c != NULL && !c->is_gone;
    pthread_mutex_unlock(&lock);
    return result;
}

#define ENTER()                                                                                                                            \
    do {                                                                                                                                   \
        unsigned injected = sc_standin_enter(__func__);                                                                                    \
        if (injected != 0)                                                                                                                 \
            return injected;                                                                                                               \
    } while (0)

sc_nccl_result ncclGetUniqueId(sc_nccl_id *out)
{
    ENTER();
    const char *where = getenv("SHARDC_STANDIN_NCCL_FOLDER");
    memset(out, 0, sizeof *out);
    int length = snprintf(out->bytes, sizeof out->bytes, "%s/shardc_nccl_XXXXXX", where == NULL ? "/tmp" : where);
    return length < (int)sizeof out->bytes && mkdtemp(out->bytes) != NULL ? SC_NCCL_SUCCESS : SC_NCCL_SYSTEM;
}

/* One that says of itself that it is old sets nothing that came later. */
static bool is_config(const sc_nccl_config *config)
{
    return config == NULL || (config->magic == SC_NCCL_MAGIC && config->size == sizeof *config && config->not_ours == SC_NCCL_UNSET &&
                              (config->blocking == 0 || config->blocking == 1 || config->blocking == SC_NCCL_UNSET));
}

sc_nccl_result ncclCommInitRankConfig(sc_nccl_comm *out, int ranks, sc_nccl_id id, int rank, sc_nccl_config *config)
{
    ENTER();
    char name[PATH], place[PATH];
    world_part part = {getpid(), sc_standin_card()};
    id.bytes[sizeof id.bytes - 1] = 0;
    if (out == NULL || ranks < 1 || ranks > MOST_RANKS || rank < 0 || rank >= ranks || !is_there(id.bytes) || depth > 0)
        return SC_NCCL_INVALID_ARGUMENT;
    if (!is_config(config) || part.card < 0)
        return SC_NCCL_INVALID_ARGUMENT;
    struct ncclComm *comm = new_comm(name_of(place, "%s/w", id.bytes), config);
    comm->size = ranks;
    comm->rank = rank;
    for (int r = 0; r < ranks; r++)
        comm->parent_ranks[r] = r;
    if (!give_file(name_of(name, "%s.init.%d", comm->place, rank), &part, sizeof part, "", 0))
        return SC_NCCL_SYSTEM;
    *out = comm;
    return comm->is_blocking ? settle(comm) : SC_NCCL_IN_PROGRESS;
}

sc_nccl_result ncclCommSplit(sc_nccl_comm comm, int color, int key, sc_nccl_comm *out, sc_nccl_config *config)
{
    ENTER();
    char name[PATH], place[PATH];
    split_part part = {.color = color, .key = key, .pid = getpid()};
    if (!is_live(comm) || out == NULL || (color < 0 && color != SC_NCCL_NO_COLOR) || !is_config(config) || is_busy(comm))
        return SC_NCCL_INVALID_ARGUMENT;
    if (comm->error != 0)
        return comm->error;
    int number = comm->splits++;
    if (!give_file(name_of(name, "%s.split%d.%d", comm->place, number, comm->rank), &part, sizeof part, "", 0))
        return SC_NCCL_SYSTEM;
    *out = NULL;
    struct ncclComm *made = new_comm(name_of(place, "%s_%d_%d", comm->place, number, color), config);
    made->parent = comm;
    made->color = color;
    made->key = key;
    made->split = number;
    made->card = comm->card;
    pthread_mutex_lock(&lock);
    comm->child = made;
    comm->child_out = out;
    comm->asks = 0;
    pthread_mutex_unlock(&lock);
    return comm->is_blocking ? settle(comm) : SC_NCCL_IN_PROGRESS;
}

/* This member's files, but for its farewell; the last to leave takes all with it. */
static void clear_files(struct ncclComm *comm)
{
    char command[2 * PATH], name[PATH];
    for (uint64_t n = comm->cleared; n < comm->given; n++)
        unlink(name_of(name, "%s.op%llu.%d", comm->place, (unsigned long long)n, comm->rank));
    bool is_world = strcmp(comm->place + strlen(comm->folder), "/w") == 0;
    give_file(name_of(name, "%s.gone.%d", comm->place, comm->rank), "", 0, "", 0);
    for (int r = 0; r < comm->size && is_world; r++)
        is_world = is_there(name_of(name, "%s.gone.%d", comm->place, r));
    snprintf(command, sizeof command, "rm -rf %s", comm->folder);
    if (is_world && strstr(comm->folder, "/shardc_nccl_") != NULL && system(command) != 0)
        fprintf(stderr, "%s stays\n", comm->folder);
}

sc_nccl_result ncclCommFinalize(sc_nccl_comm comm)
{
    ENTER();
    char name[PATH];
    if (!is_live(comm) || is_busy(comm))
        return SC_NCCL_INVALID_ARGUMENT;
    if (comm->error != 0)
        return comm->error;
    if (!give_file(name_of(name, "%s.left.%d", comm->place, comm->rank), "", 0, "", 0))
        return SC_NCCL_SYSTEM;
    comm->asks = 0;
    comm->is_leaving = true;
    return comm->is_blocking ? settle(comm) : SC_NCCL_IN_PROGRESS;
}

/* The card gets on with its work, and with what waits for this member. */
static void wait_for_card(struct ncclComm *comm, const char *call)
{
    enum { PAUSE_US = 200, PATIENCE = 10000000 / PAUSE_US };
    for (int waited = 0; waited < PATIENCE; waited++) {
        bool is_stuck = false;
        sc_standin_go_on();
        pthread_mutex_lock(&lock);
        for (const struct ncclComm *c = all; c != NULL; c = c->next)
            is_stuck = is_stuck || (c->card == comm->card && c->is_stuck && !c->is_gone);
        pthread_mutex_unlock(&lock);
        if (!is_stuck && comm->holds == 0)
            return;
        pause_us(PAUSE_US);
    }
    fprintf(stderr, "%s of %s waits for ever: %d calls are in graphs or behind what no other member comes to\n", call, comm->place,
            comm->holds);
    abort();
}

static void drop_waiting(struct ncclComm *comm)
{
    pthread_mutex_lock(&lock);
    free(comm->waiting);
    comm->waiting = NULL;
    comm->waiting_count = 0;
    if (comm->child != NULL)
        comm->child->is_gone = true;
    comm->child = NULL;
    pthread_mutex_unlock(&lock);
}

sc_nccl_result ncclCommDestroy(sc_nccl_comm comm)
{
    ENTER();
    if (!is_live(comm) || is_busy(comm))
        return SC_NCCL_INVALID_ARGUMENT;
    wait_for_card(comm, __func__);
    clear_files(comm);
    comm->is_gone = true;
    return SC_NCCL_SUCCESS;
}

/* One that is told to fail has told the card, too: else nobody would get on. */
sc_nccl_result ncclCommAbort(sc_nccl_comm comm)
{
    unsigned injected = sc_standin_enter(__func__);
    if (!is_live(comm))
        return SC_NCCL_INVALID_ARGUMENT;
    drop_waiting(comm);
    comm->is_aborted = true;
    sc_standin_wake();
    wait_for_card(comm, __func__);
    clear_files(comm);
    comm->is_gone = true;
    return injected;
}

sc_nccl_result ncclCommGetAsyncError(sc_nccl_comm comm, sc_nccl_result *out)
{
    ENTER();
    if (!is_live(comm) || out == NULL)
        return SC_NCCL_INVALID_ARGUMENT;
    pthread_mutex_lock(&lock);
    unsigned state = ask(comm);
    bool is_time = state == SC_NCCL_IN_PROGRESS && comm->waiting != NULL && comm->asks >= ASKED_BEFORE_READY;
    op *ops = is_time ? comm->waiting : NULL;
    int count = comm->waiting_count;
    if (is_time)
        comm->waiting = NULL;
    pthread_mutex_unlock(&lock);
    if (is_time) {
        state = put_ops(ops, count);
        free(ops);
        pthread_mutex_lock(&lock);
        if (comm->error == 0) /* which may have come with it */
            comm->error = state;
        state = comm->error;
        pthread_mutex_unlock(&lock);
    }
    *out = state;
    return SC_NCCL_SUCCESS;
}

/* ---- calls ---- */

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
    pthread_mutex_lock(&lock);
    bool is_void = o->comm->is_aborted || o->comm->is_gone || o->hangs;
    if (o->kind == SEND)
        name_of(name, "%s.msg%d.%d.%llu", o->comm->place, o->comm->rank, o->peer, (unsigned long long)o->comm->sent[o->peer]++);
    else
        name_of(name, "%s.op%llu.%d", o->comm->place, (unsigned long long)o->comm->given++, o->comm->rank);
    pthread_mutex_unlock(&lock);
    bool ok = is_void || give_file(name, &header, sizeof header, o->from, given_bytes(o));
    if (!ok)
        snprintf(why, room, "NCCL's stand-in cannot write %s: %s", name, strerror(errno));
    sc_standin_wake();
    return ok;
}

static bool is_got(void *data)
{
    const op *o = data;
    char name[PATH];
    bool ready = true;
    pthread_mutex_lock(&lock);
    if (o->comm->is_aborted || o->comm->is_gone)
        ready = true;
    else if (o->hangs)
        ready = false;
    else if (o->kind == RECV)
        ready = is_there(
            name_of(name, "%s.msg%d.%d.%llu", o->comm->place, o->peer, o->comm->rank, (unsigned long long)o->comm->received[o->peer]));
    for (int r = 0; ready && !o->comm->is_aborted && !o->comm->is_gone && o->kind != RECV && r < o->comm->size; r++)
        ready = is_there(name_of(name, "%s.op%llu.%d", o->comm->place, (unsigned long long)o->comm->got, r));
    o->comm->is_stuck = !ready;
    pthread_mutex_unlock(&lock);
    return ready;
}

static bool get_message(const op *o, char *why, size_t room)
{
    char name[PATH];
    op_header header, mine = header_of(o);
    name_of(name, "%s.msg%d.%d.%llu", o->comm->place, o->peer, o->comm->rank, (unsigned long long)o->comm->received[o->peer]++);
    bool ok = get_file(name, &header, sizeof header, o->to, got_bytes(o)) && memcmp(&header, &mine, sizeof mine) == 0;
    if (!ok)
        snprintf(why, room, "rank %d does not send what rank %d receives", o->peer, o->comm->rank);
    unlink(name);
    return ok;
}

static bool combine(const op *o, char *const *terms)
{
    static const sc_comm_reduce reduces[] = {[SC_NCCL_SUM] = SC_COMM_SUM, [SC_NCCL_MAX] = SC_COMM_MAX, [SC_NCCL_MIN] = SC_COMM_MIN};
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
        sc_comm_reduce_arrays(inner_dtype(o->dtype), reduces[o->reduce], o->to, sources, (uint32_t)o->comm->size, (int64_t)o->count);
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
             get_file(name_of(name, "%s.op%llu.%d", o->comm->place, (unsigned long long)number, r), &header, sizeof header, terms[r],
                      bytes) &&
             memcmp(&header, &mine, sizeof mine) == 0;
        if (!ok)
            snprintf(why, room, "rank %d and rank %d make different calls of NCCL", r, o->comm->rank);
    }
    ok = ok && combine(o, terms);
    for (int r = 0; r < o->comm->size; r++)
        free(terms[r]);
    /* everybody gave this one, and so has got what stood before its group */
    for (; !o->is_later && o->comm->cleared < number; o->comm->cleared++)
        unlink(name_of(name, "%s.op%llu.%d", o->comm->place, (unsigned long long)o->comm->cleared, o->comm->rank));
    return ok;
}

static bool run_get(void *data, char *why, size_t room)
{
    const op *o = data;
    pthread_mutex_lock(&lock);
    bool is_void = o->comm->is_aborted || o->comm->is_gone;
    bool ok = is_void || (o->kind == RECV ? get_message(o, why, room) : get_call(o, why, room));
    pthread_mutex_unlock(&lock);
    return ok;
}

static void drop_call(void *data)
{
    const op *o = data;
    o->comm->is_stuck = false;
    o->comm->holds--;
}

static bool put_call(const op *o, const sc_standin_work *work)
{
    o->comm->holds++;
    if (sc_standin_enqueue(o->stream, work, o, sizeof *o) == SC_CU_SUCCESS)
        return true;
    o->comm->holds--;
    return false;
}

/* All give before any gets: so the calls of a group help each other. */
static unsigned put_ops(op *ops, int count)
{
    static const sc_standin_work give = {.name = "NCCL gives", .run = run_give, .drop = drop_call},
                                 get = {.name = "NCCL gets", .is_ready = is_got, .run = run_get, .drop = drop_call};
    const char *async = getenv("SHARDC_STANDIN_NCCL_ASYNC");
    for (int i = 0; i < count; i++) {
        op *o = &ops[i];
        pthread_mutex_lock(&lock);
        calls++;
        for (int k = 0; k < i && o->kind != SEND && o->kind != RECV; k++)
            o->is_later = o->is_later || (group[k].comm == o->comm && group[k].kind != SEND && group[k].kind != RECV);
        if (async != NULL && strtoull(async, NULL, 10) == calls) {
            o->hangs = true;
            o->comm->error = (unsigned)strtoul(strchr(async, '=') + 1, NULL, 10);
            snprintf(o->comm->text, sizeof o->comm->text, "an error that the stand-in was told to have");
        }
        pthread_mutex_unlock(&lock);
        if (o->kind != RECV && !put_call(o, &give))
            return SC_NCCL_UNHANDLED_CUDA;
    }
    for (int i = 0; i < count; i++) {
        if (ops[i].kind != SEND && !put_call(&ops[i], &get))
            return SC_NCCL_UNHANDLED_CUDA;
    }
    return SC_NCCL_SUCCESS;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return a_bytes > 0 && b_bytes > 0 && (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* What one call of a group writes no other one touches. */
static bool are_apart(void)
{
    for (int i = 0; i < group_count; i++) {
        for (int j = 0; j < group_count; j++) {
            const op *a = &group[i], *b = &group[j];
            if (i != j && (overlap(a->to, got_bytes(a), b->to, got_bytes(b)) || overlap(a->to, got_bytes(a), b->from, given_bytes(b))))
                return false;
        }
    }
    return true;
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
        pthread_mutex_lock(&lock);
        comm->waiting_count = comm->waiting == NULL ? 0 : comm->waiting_count;
        comm->waiting = realloc(comm->waiting, (size_t)(comm->waiting_count + 1) * sizeof *comm->waiting);
        if (comm->waiting == NULL)
            abort();
        comm->waiting[comm->waiting_count++] = group[i];
        comm->asks = 0;
        waits = true;
        pthread_mutex_unlock(&lock);
    }
    return waits ? SC_NCCL_IN_PROGRESS : put_ops(group, group_count);
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
    if ((give > 0 && !sc_standin_owns(o->stream, o->from, give)) || (get > 0 && !sc_standin_owns(o->stream, o->to, get)))
        return SC_NCCL_INVALID_ARGUMENT;
    if (sc_standin_card_of(o->stream) != o->comm->card || sc_standin_card() != o->comm->card)
        return SC_NCCL_INVALID_ARGUMENT;
    const char *in_place = (const char *)o->to + (o->kind == ALL_GATHER ? (size_t)o->comm->rank * give : 0);
    const char *from = (const char *)o->from + (o->kind == REDUCE_SCATTER ? (size_t)o->comm->rank * get : 0);
    return overlap(o->from, give, o->to, get) && in_place != from ? SC_NCCL_INVALID_USAGE : SC_NCCL_SUCCESS;
}

static unsigned add(op o)
{
    unsigned result = SC_NCCL_SUCCESS;
    if (!is_live(o.comm))
        return SC_NCCL_INVALID_ARGUMENT;
    if (is_busy(o.comm))
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

sc_nccl_result ncclAllReduce(const void *from, void *to, size_t count, sc_nccl_dtype dtype, sc_nccl_reduce reduce, sc_nccl_comm comm,
                             sc_cu_stream stream)
{
    ENTER();
    return add(
        (op){.kind = ALL_REDUCE, .comm = comm, .stream = stream, .from = from, .to = to, .count = count, .dtype = dtype, .reduce = reduce});
}

sc_nccl_result ncclReduceScatter(const void *from, void *to, size_t to_count, sc_nccl_dtype dtype, sc_nccl_reduce reduce, sc_nccl_comm comm,
                                 sc_cu_stream stream)
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

sc_nccl_result ncclAllGather(const void *from, void *to, size_t from_count, sc_nccl_dtype dtype, sc_nccl_comm comm, sc_cu_stream stream)
{
    ENTER();
    return add((op){.kind = ALL_GATHER, .comm = comm, .stream = stream, .from = from, .to = to, .count = from_count, .dtype = dtype});
}

sc_nccl_result ncclBroadcast(const void *from, void *to, size_t count, sc_nccl_dtype dtype, int root, sc_nccl_comm comm,
                             sc_cu_stream stream)
{
    ENTER();
    return add(
        (op){.kind = BROADCAST, .comm = comm, .stream = stream, .from = from, .to = to, .count = count, .dtype = dtype, .peer = root});
}

sc_nccl_result ncclReduce(const void *from, void *to, size_t count, sc_nccl_dtype dtype, sc_nccl_reduce reduce, int root, sc_nccl_comm comm,
                          sc_cu_stream stream)
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

sc_nccl_result ncclSend(const void *from, size_t count, sc_nccl_dtype dtype, int peer, sc_nccl_comm comm, sc_cu_stream stream)
{
    ENTER();
    return add((op){.kind = SEND, .comm = comm, .stream = stream, .from = from, .count = count, .dtype = dtype, .peer = peer});
}

sc_nccl_result ncclRecv(void *to, size_t count, sc_nccl_dtype dtype, int peer, sc_nccl_comm comm, sc_cu_stream stream)
{
    ENTER();
    return add((op){.kind = RECV, .comm = comm, .stream = stream, .to = to, .count = count, .dtype = dtype, .peer = peer});
}
