/* NCCL where there are no GPUs: a shared object with the functions of runtime/cuda/libnccl.def
 * ($SHARDC_NCCL names it), among threads and processes of this machine. Members meet in a folder,
 * whose name is the unique id: whatever one says to the others is a file in it, complete as soon as
 * it is there. A call is two pieces of work on its stream: what this member gives is written to a
 * file when the stream gets there, and what it gets is made when the files of all others are there.
 * Terms are added in the order of the ranks.
 *
 * It is as little helpful as the library may be:
 *  - non-blocking calls stay in progress until they are asked about, and a communicator in progress
 * takes no calls. What a group has comes to the streams no sooner; a split is given out no sooner;
 *  - the abort of a communicator waits for all that the GPU is busy with, calls of other
 * communicators included; that and a farewell wait for the graphs that have its calls to be gone.
 * What would wait for ever ends the process, with a word on what it waits for;
 *  - the first message between two members connects them: until both have one in progress, neither
 * comes to its stream. A send ends when it was received;
 *  - a member that died is waited for for ever, and members that disagree break their streams;
 *  - of buffers that overlap only those are taken that are called in place.
 * From the environment:
 *     SHARDC_STUB_NCCL_REMOTE=1        a member that died is an asynchronous error
 *                                      (ncclRemoteError) of those who ask
 *     SHARDC_STUB_NCCL_ASYNC=n=result  the n-th call of this process never ends, and is that
 *                                      asynchronous error
 *     SHARDC_STUB_NCCL_FOLDER          where the folders are; /tmp. Members that die leave theirs
 *
 * Calls that fail at once: the driver's stub counts them (SHARDC_STUB_FAIL). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "test/cuda_stub/nccl/internal.h"

pthread_mutex_t sc_nccl_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *all; /* never freed: work on streams may know them */
static pthread_t waker;
static bool has_waker;

/* ---- files ---- */

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

bool sc_nccl_give_file(const char *name, const void *header, size_t header_bytes, const void *data,
                       size_t bytes)
{
    char temporary[PATH + 16];
    snprintf(temporary, sizeof temporary, "%s.part", name);
    FILE *file = fopen(temporary, "wb");
    bool ok = file != NULL && fwrite(header, 1, header_bytes, file) == header_bytes &&
              fwrite(data, 1, bytes, file) == bytes;
    if (file != NULL)
        ok = fclose(file) == 0 && ok;
    return ok && rename(temporary, name) == 0;
}

bool sc_nccl_is_there(const char *name)
{
    return access(name, F_OK) == 0;
}

bool sc_nccl_get_file(const char *name, void *header, size_t header_bytes, void *data, size_t bytes)
{
    FILE *file = fopen(name, "rb");
    char more;
    bool ok = file != NULL && fread(header, 1, header_bytes, file) == header_bytes &&
              fread(data, 1, bytes, file) == bytes && fread(&more, 1, 1, file) == 0;
    if (file != NULL)
        fclose(file);
    return ok;
}

__attribute__((format(printf, 2, 3))) const char *sc_nccl_name_of(char out[PATH],
                                                                  const char *format, ...)
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
    int gpu;
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
        sc_nccl_name_of(name, "%s.split%d.%d", comm->parent->place, comm->split, r);
        if (!sc_nccl_is_there(name) ||
            !sc_nccl_get_file(name, &parts[r], sizeof parts[r], &none, 0))
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

/* Two members on one GPU of a process are refused: processes have GPUs of their own here. */
static bool join_world(struct ncclComm *comm)
{
    char name[PATH], none;
    for (int r = 0; r < comm->size; r++) {
        world_part part;
        sc_nccl_name_of(name, "%s.init.%d", comm->place, r);
        if (!sc_nccl_is_there(name) || !sc_nccl_get_file(name, &part, sizeof part, &none, 0))
            return false;
        comm->pids[r] = part.pid;
        if (r != comm->rank && part.pid == getpid() && part.gpu == comm->gpu) {
            comm->error = SC_NCCL_INVALID_USAGE;
            snprintf(comm->text, sizeof comm->text, "ranks %d and %d have the same GPU", r,
                     comm->rank);
        }
    }
    return true;
}

static bool leave_world(struct ncclComm *comm)
{
    char name[PATH];
    for (int r = 0; r < comm->size; r++) {
        if (!sc_nccl_is_there(sc_nccl_name_of(name, "%s.left.%d", comm->place, r)))
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

bool sc_nccl_is_busy(const struct ncclComm *comm)
{
    return comm->is_joining || comm->is_leaving || comm->waiting != NULL || comm->child != NULL;
}

/* What asking finds out; the lock is held. */
static unsigned ask(struct ncclComm *comm)
{
    const char *remote = getenv("SHARDC_STUB_NCCL_REMOTE");
    for (int r = 0; remote != NULL && *remote == '1' && r < comm->size && !comm->is_joining &&
                    comm->error == 0;
         r++) {
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
    return sc_nccl_is_busy(comm) ? SC_NCCL_IN_PROGRESS : SC_NCCL_SUCCESS;
}

static unsigned settle(struct ncclComm *comm)
{
    for (;;) {
        pthread_mutex_lock(&sc_nccl_lock);
        unsigned state = ask(comm);
        pthread_mutex_unlock(&sc_nccl_lock);
        if (state != SC_NCCL_IN_PROGRESS)
            return state;
        pause_us(100);
    }
}

static bool has_calls(void)
{
    pthread_mutex_lock(&sc_nccl_lock);
    const struct ncclComm *c = all;
    while (c != NULL && (c->is_gone || c->holds == 0))
        c = c->next;
    pthread_mutex_unlock(&sc_nccl_lock);
    return c != NULL;
}

/* Who sleeps in the driver looks again: other processes do not wake it. And a GPU gets on with its
 * calls though its own process waits for nothing: now and then, or no order would be lazy. */
static void *waker_main(void *unused)
{
    (void)unused;
    for (int i = 1;; i++) {
        pause_us(WAKE_US);
        if (i % WAKES_TO_GO_ON == 0 && has_calls())
            sc_stub_go_on();
        sc_stub_wake();
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
    comm->gpu = sc_stub_gpu();
    pthread_mutex_lock(&sc_nccl_lock);
    comm->next = all;
    all = comm;
    if (!has_waker && pthread_create(&waker, NULL, waker_main, NULL) == 0) {
        has_waker = true;
        pthread_detach(waker);
    }
    pthread_mutex_unlock(&sc_nccl_lock);
    return comm;
}

/* ---- the functions of communicators ---- */

sc_nccl_result ncclGetVersion(int *out)
{
    *out = 22805;
    return SC_NCCL_SUCCESS;
}

const char *ncclGetErrorString(sc_nccl_result result)
{
    static const char *const texts[] = {
        "no error",         "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
    return result < sizeof texts / sizeof *texts ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(sc_nccl_comm comm)
{
    return comm == NULL ? "" : comm->text;
}

bool sc_nccl_is_live(struct ncclComm *comm)
{
    pthread_mutex_lock(&sc_nccl_lock);
    const struct ncclComm *c = all;
    while (c != NULL && c != comm)
        c = c->next;
    bool result = c != NULL && !c->is_gone;
    pthread_mutex_unlock(&sc_nccl_lock);
    return result;
}

sc_nccl_result ncclGetUniqueId(sc_nccl_id *out)
{
    ENTER();
    const char *where = getenv("SHARDC_STUB_NCCL_FOLDER");
    memset(out, 0, sizeof *out);
    int length = snprintf(out->bytes, sizeof out->bytes, "%s/shardc_nccl_XXXXXX",
                          where == NULL ? "/tmp" : where);
    return length < (int)sizeof out->bytes && mkdtemp(out->bytes) != NULL ? SC_NCCL_SUCCESS
                                                                          : SC_NCCL_SYSTEM;
}

/* One that says of itself that it is old sets nothing that came later. Nothing is shared here: what
 * shares resources would have one order for all its calls, which the stub does not keep. */
static bool is_config(const sc_nccl_config *config)
{
    return config == NULL ||
           (config->magic == SC_NCCL_MAGIC && config->size == sizeof *config &&
            config->not_ours == SC_NCCL_UNSET &&
            (config->split_share == 0 || config->split_share == SC_NCCL_UNSET) &&
            (config->blocking == 0 || config->blocking == 1 || config->blocking == SC_NCCL_UNSET));
}

sc_nccl_result ncclCommInitRankConfig(sc_nccl_comm *out, int ranks, sc_nccl_id id, int rank,
                                      sc_nccl_config *config)
{
    ENTER();
    char name[PATH], place[PATH];
    world_part part = {getpid(), sc_stub_gpu()};
    id.bytes[sizeof id.bytes - 1] = 0;
    if (out == NULL || ranks < 1 || ranks > MOST_RANKS || rank < 0 || rank >= ranks ||
        !sc_nccl_is_there(id.bytes) || sc_nccl_is_grouping())
        return SC_NCCL_INVALID_ARGUMENT;
    if (!is_config(config) || part.gpu < 0)
        return SC_NCCL_INVALID_ARGUMENT;
    struct ncclComm *comm = new_comm(sc_nccl_name_of(place, "%s/w", id.bytes), config);
    comm->size = ranks;
    comm->rank = rank;
    for (int r = 0; r < ranks; r++)
        comm->parent_ranks[r] = r;
    if (!sc_nccl_give_file(sc_nccl_name_of(name, "%s.init.%d", comm->place, rank), &part,
                           sizeof part, "", 0))
        return SC_NCCL_SYSTEM;
    *out = comm;
    return comm->is_blocking ? settle(comm) : SC_NCCL_IN_PROGRESS;
}

sc_nccl_result ncclCommSplit(sc_nccl_comm comm, int color, int key, sc_nccl_comm *out,
                             sc_nccl_config *config)
{
    ENTER();
    char name[PATH], place[PATH];
    split_part part = {.color = color, .key = key, .pid = getpid()};
    if (!sc_nccl_is_live(comm) || out == NULL || (color < 0 && color != SC_NCCL_NO_COLOR) ||
        !is_config(config) || sc_nccl_is_busy(comm))
        return SC_NCCL_INVALID_ARGUMENT;
    if (comm->error != 0)
        return comm->error;
    int number = comm->splits++;
    if (!sc_nccl_give_file(sc_nccl_name_of(name, "%s.split%d.%d", comm->place, number, comm->rank),
                           &part, sizeof part, "", 0))
        return SC_NCCL_SYSTEM;
    *out = NULL;
    struct ncclComm *made =
        new_comm(sc_nccl_name_of(place, "%s_%d_%d", comm->place, number, color), config);
    made->parent = comm;
    made->color = color;
    made->key = key;
    made->split = number;
    made->gpu = comm->gpu;
    pthread_mutex_lock(&sc_nccl_lock);
    comm->child = made;
    comm->child_out = out;
    comm->asks = 0;
    pthread_mutex_unlock(&sc_nccl_lock);
    return comm->is_blocking ? settle(comm) : SC_NCCL_IN_PROGRESS;
}

/* This member's files, but for its farewell (one that aborts leaves what others may be about to
 * read); the last to leave takes all with it.
 */
static void clear_files(struct ncclComm *comm)
{
    char command[2 * PATH], name[PATH];
    for (uint64_t n = comm->cleared; n < comm->given && !comm->is_aborted; n++)
        unlink(
            sc_nccl_name_of(name, "%s.op%llu.%d", comm->place, (unsigned long long)n, comm->rank));
    bool is_world = strcmp(comm->place + strlen(comm->folder), "/w") == 0;
    sc_nccl_give_file(sc_nccl_name_of(name, "%s.gone.%d", comm->place, comm->rank), "", 0, "", 0);
    for (int r = 0; r < comm->size && is_world; r++)
        is_world = sc_nccl_is_there(sc_nccl_name_of(name, "%s.gone.%d", comm->place, r));
    snprintf(command, sizeof command, "rm -rf %s", comm->folder);
    if (is_world && strstr(comm->folder, "/shardc_nccl_") != NULL && system(command) != 0)
        fprintf(stderr, "%s stays\n", comm->folder);
}

sc_nccl_result ncclCommFinalize(sc_nccl_comm comm)
{
    ENTER();
    char name[PATH];
    if (!sc_nccl_is_live(comm) || sc_nccl_is_busy(comm))
        return SC_NCCL_INVALID_ARGUMENT;
    if (comm->error != 0)
        return comm->error;
    if (!sc_nccl_give_file(sc_nccl_name_of(name, "%s.left.%d", comm->place, comm->rank), "", 0, "",
                           0))
        return SC_NCCL_SYSTEM;
    comm->asks = 0;
    comm->is_leaving = true;
    return comm->is_blocking ? settle(comm) : SC_NCCL_IN_PROGRESS;
}

/* The GPU gets on with its work, and with what waits for this member. */
static void wait_for_gpu(struct ncclComm *comm, const char *call)
{
    enum { PAUSE_US = 200, PATIENCE = 10000000 / PAUSE_US };
    for (int waited = 0; waited < PATIENCE; waited++) {
        bool is_stuck = false;
        sc_stub_go_on();
        pthread_mutex_lock(&sc_nccl_lock);
        for (const struct ncclComm *c = all; c != NULL; c = c->next)
            is_stuck = is_stuck || (c->gpu == comm->gpu && c->is_stuck && !c->is_gone);
        pthread_mutex_unlock(&sc_nccl_lock);
        if (!is_stuck && comm->holds == 0)
            return;
        pause_us(PAUSE_US);
    }
    fprintf(
        stderr,
        "%s of %s waits for ever: %d calls are in graphs or behind what no other member comes to\n",
        call, comm->place, comm->holds);
    abort();
}

static void drop_waiting(struct ncclComm *comm)
{
    pthread_mutex_lock(&sc_nccl_lock);
    free(comm->waiting);
    comm->waiting = NULL;
    comm->waiting_count = 0;
    if (comm->child != NULL)
        comm->child->is_gone = true;
    comm->child = NULL;
    pthread_mutex_unlock(&sc_nccl_lock);
}

sc_nccl_result ncclCommDestroy(sc_nccl_comm comm)
{
    ENTER();
    if (!sc_nccl_is_live(comm) || sc_nccl_is_busy(comm))
        return SC_NCCL_INVALID_ARGUMENT;
    wait_for_gpu(comm, __func__);
    clear_files(comm);
    comm->is_gone = true;
    return SC_NCCL_SUCCESS;
}

/* One that is told to fail has told the GPU, too: else nobody would get on. */
sc_nccl_result ncclCommAbort(sc_nccl_comm comm)
{
    unsigned injected = sc_stub_enter(__func__);
    if (!sc_nccl_is_live(comm))
        return SC_NCCL_INVALID_ARGUMENT;
    drop_waiting(comm);
    comm->is_aborted = true;
    sc_stub_wake();
    wait_for_gpu(comm, __func__);
    clear_files(comm);
    comm->is_gone = true;
    return injected;
}

sc_nccl_result ncclCommGetAsyncError(sc_nccl_comm comm, sc_nccl_result *out)
{
    ENTER();
    if (!sc_nccl_is_live(comm) || out == NULL)
        return SC_NCCL_INVALID_ARGUMENT;
    pthread_mutex_lock(&sc_nccl_lock);
    unsigned state = ask(comm);
    bool is_time = state == SC_NCCL_IN_PROGRESS && comm->waiting != NULL &&
                   comm->asks >= ASKED_BEFORE_READY &&
                   sc_nccl_connects(comm->waiting, comm->waiting_count);
    op *ops = is_time ? comm->waiting : NULL;
    int count = comm->waiting_count;
    if (is_time)
        comm->waiting = NULL;
    pthread_mutex_unlock(&sc_nccl_lock);
    if (is_time) {
        state = sc_nccl_put_ops(ops, count);
        free(ops);
        pthread_mutex_lock(&sc_nccl_lock);
        if (comm->error == 0) /* which may have come with it */
            comm->error = state;
        state = comm->error;
        pthread_mutex_unlock(&sc_nccl_lock);
    }
    *out = state;
    return SC_NCCL_SUCCESS;
}
