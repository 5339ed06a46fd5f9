/* Backend for ranks that are processes of an MPI job: the module shardc_mpi.so.
 *
 * Starting a call sends a notice to every other member, and bytes move once all notices have
 * arrived and match. So members that disagree find out before anything is overwritten, missing
 * members can be named, and no buffer of a member that did not call is touched. Notices arrive at
 * one receive that is always posted; data follow in messages of their own.
 *
 * Every wait makes progress on all calls of its rank; a start and a poll do what they can without
 * blocking. Waits poll, eagerly at first, then with sleeps, since there may be more ranks than
 * cores. If MPI supports calls from several threads, a thread of the module sends heartbeats while
 * the rank computes, and detects ranks that are silent for long.
 *
 * The first failure that a rank detects or receives becomes its world's; the rank that detects
 * one notifies all others. Messages of its calls in flight are then cancelled as far as MPI can.
 * MPI cannot cancel a message whose memory another process may be reading at that moment. Such
 * calls are abandoned, not freed, until no message of theirs is in flight; closing waits for that,
 * as long as all ranks close within LEAVE_MS. */
#include "runtime/comm/mpi/internal.h"
#include "support/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    EAGER_POLLS = 2000, /* each followed by a yield */
    SLEEP_NS = 50000,
    BEAT_MS = 1000,
    BEAT_A_RANK_MS = 10, /* heartbeats are slower in large worlds */
    SILENT_BEATS = 5,    /* nobody is lost with fewer missed heartbeats */
    /* if the thread ran this much later than its heartbeat, the process was stopped */
    PAUSE_MS = 2000,
    BACKLOG = 4,    /* unsent notices to a rank; from then on no more heartbeats */
    LEAVE_MS = 5000 /* how long closing waits for the other ranks of a failed world */
};

/* Sends a copy of the notice. Out of memory: the notice is lost, and the caller must fail the
 * world. */
static shardc_status send_notice(mpi_world *world, uint32_t rank, const notice *n,
                                 shardc_error *error)
{
    outgoing *o = world->unused_outgoing;
    if (o != NULL)
        world->unused_outgoing = o->next;
    else
        o = malloc(sizeof *o);
    if (o == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "notices between ranks: out of memory");
    o->notice = *n;
    o->next = world->outbox;
    world->outbox = o;
    return sc_mpi_check(MPI_Isend(&o->notice, (int)sizeof o->notice, MPI_BYTE, (int)rank,
                                  CONTROL_TAG, world->comm, &o->request),
                        "MPI_Isend", error);
}

static void empty_outbox(mpi_world *world)
{
    for (outgoing **link = &world->outbox; *link != NULL;) {
        outgoing *o = *link;
        int is_complete = 0;
        if (MPI_Test(&o->request, &is_complete, MPI_STATUS_IGNORE) == MPI_SUCCESS && !is_complete) {
            link = &o->next;
            continue;
        }
        *link = o->next;
        o->next = world->unused_outgoing;
        world->unused_outgoing = o;
    }
}

/* `notifies`: sends the failure to the others, as the rank that detected it does. */
static void fail_world(sc_comm *comm, const shardc_error *error, bool notifies)
{
    mpi_world *world = comm->state;
    notice n = {.kind = NOTICE_FAILURE, .failure = *error};
    if (world->has_failed)
        return;
    world->has_failed = true;
    world->failure = *error;
    if (notifies) {
        for (uint32_t i = 0; i < comm->size; i++) {
            if (i != comm->rank && !world->is_gone[i])
                send_notice(world, i, &n,
                            NULL); /* a rank that does not receive it has its deadline */
        }
    }
}

/* ---- heartbeats ---- */

static uint32_t count_outbox(const mpi_world *world, uint32_t most)
{
    uint32_t count = 0;
    for (const outgoing *o = world->outbox; o != NULL && count < most; o = o->next)
        count++;
    return count;
}

/* Sends due heartbeats to all ranks that are left. Losing one is no failure: the next may
 * arrive. */
static void send_beats(sc_comm *comm)
{
    mpi_world *world = comm->state;
    uint64_t now = sc_milliseconds();
    shardc_error ignored;
    notice n = {.kind = NOTICE_BEAT};
    if (!world->has_thread || world->is_leaving || world->has_failed ||
        now < world->sent_ms + world->beat_ms ||
        count_outbox(world, BACKLOG * comm->size) == BACKLOG * comm->size)
        return;
    world->sent_ms = now;
    for (uint32_t i = 0; i < comm->size; i++) {
        if (i != comm->rank && !world->is_gone[i])
            send_notice(world, i, &n, &ignored);
    }
}

/* Notes that all that had arrived is read. Time during which this process did not run does not
 * count as the others' silence. */
static void note_look(sc_comm *comm)
{
    mpi_world *world = comm->state;
    uint64_t now = sc_milliseconds(), pause = now - world->looked_ms;
    world->looked_ms = now;
    if (pause <= PAUSE_MS + world->beat_ms)
        return;
    for (uint32_t i = 0; i < comm->size; i++) {
        uint64_t heard = world->heard_ms[i] + pause;
        world->heard_ms[i] = heard < now ? heard : now;
    }
}

static void fail_for_silence(sc_comm *comm)
{
    mpi_world *world = comm->state;
    uint64_t least = (uint64_t)world->beat_ms * SILENT_BEATS,
             most = world->silence_ms > least ? world->silence_ms : least;
    for (uint32_t i = 0; i < comm->size; i++) {
        if (world->has_failed)
            break;
        uint64_t silent =
            i == comm->rank || world->is_gone[i] ? 0 : world->looked_ms - world->heard_ms[i];
        char why[96];
        shardc_error error;
        if (silent < most)
            continue;
        snprintf(why, sizeof why,
                 "nothing was received from it for %llu ms: it has stopped, or is cut off",
                 (unsigned long long)silent);
        sc_comm_fail_lost(&error, SHARDC_ERROR_TIMEOUT, comm, NULL, i, why);
        fail_world(comm, &error, true);
    }
}

/* ---- calls ---- */

static void drop_call(mpi_world *world, mpi_call *call)
{
    call->is_moving = call->is_done = call->is_abandoned = false;
    sc_comm_drop_call(&world->calls, call);
}

/* Detaches a failed call from its request, which the caller gets back although messages may still
 * be in flight. */
static void abandon(mpi_world *world, mpi_call *call)
{
    call->shared.request = NULL;
    if (!call->is_moving) {
        drop_call(world, call);
        return;
    }
    sc_mpi_cancel(call);
    call->is_abandoned = true;
}

static void drop_quiet_calls(mpi_world *world)
{
    for (sc_comm_shared_call *shared = world->calls.first, *next; shared != NULL; shared = next) {
        mpi_call *call = (mpi_call *)shared;
        next = shared->next;
        if (call->is_abandoned && sc_mpi_is_quiet(call))
            drop_call(world, call);
    }
}

static bool has_abandoned(const mpi_world *world)
{
    const sc_comm_shared_call *call = world->calls.first;
    while (call != NULL && !((const mpi_call *)call)->is_abandoned)
        call = call->next;
    return call != NULL;
}

/* Starts to move the call's data if all members have announced it. */
static shardc_status begin_if_agreed(mpi_world *world, mpi_call *call, shardc_error *error)
{
    if (!sc_comm_is_agreed(&call->shared))
        return SHARDC_OK;
    for (uint32_t i = 0; i < call->shared.notice_count; i++)
        call->tags[sc_comm_member(call->shared.request->group, call->shared.notices[i].sender)] =
            call->shared.notices[i].tag;
    return sc_mpi_begin(world, call, error);
}

static shardc_status take_notice(mpi_world *world, const call_notice *n, shardc_error *error)
{
    sc_comm_shared_call *call =
        sc_comm_find_call(&world->calls, n->group, n->lane, n->number, true);
    shardc_status status = sc_comm_take_notice(call, &n->notice, error);
    return status == SHARDC_OK ? begin_if_agreed(world, (mpi_call *)call, error) : status;
}

/* Reads what has arrived. */
static shardc_status read_inbox(sc_comm *comm, bool *out_moved, shardc_error *error)
{
    mpi_world *world = comm->state;
    for (;;) {
        int is_there = 0;
        MPI_Status from;
        shardc_status status =
            sc_mpi_check(MPI_Test(&world->inbox_request, &is_there, &from), "MPI_Test", error);
        if (status != SHARDC_OK || !is_there)
            return status;
        *out_moved = *out_moved || world->inbox.kind != NOTICE_BEAT;
        world->heard_ms[from.MPI_SOURCE] = sc_milliseconds();
        if (world->inbox.kind == NOTICE_CALL && !world->has_failed)
            status = take_notice(world, &world->inbox.call, error);
        if (world->inbox.kind == NOTICE_FAILURE)
            fail_world(comm, &world->inbox.failure, false);
        if (world->inbox.kind == NOTICE_BYE && !world->is_gone[from.MPI_SOURCE]) {
            world->is_gone[from.MPI_SOURCE] = true;
            world->gone_count++;
        }
        int code = MPI_Irecv(&world->inbox, (int)sizeof world->inbox, MPI_BYTE, MPI_ANY_SOURCE,
                             CONTROL_TAG, world->comm, &world->inbox_request);
        if (status == SHARDC_OK)
            status = sc_mpi_check(code, "MPI_Irecv", error);
        if (status != SHARDC_OK)
            return status;
    }
}

/* Reads the others' messages, and sends heartbeats. */
static shardc_status hear(sc_comm *comm, bool *out_moved, shardc_error *error)
{
    empty_outbox(comm->state);
    shardc_status status = read_inbox(comm, out_moved, error);
    note_look(comm);
    send_beats(comm);
    return status;
}

/* Does everything possible without blocking; an error fails the world. */
static bool make_progress(sc_comm *comm)
{
    mpi_world *world = comm->state;
    bool moved = false;
    shardc_error error;
    shardc_status status = hear(comm, &moved, &error);
    /* Also in a failed world: calls that all members agreed on and whose data have arrived still
     * succeed. */
    for (sc_comm_shared_call *shared = world->calls.first; shared != NULL; shared = shared->next) {
        if (status != SHARDC_OK)
            break;
        mpi_call *call = (mpi_call *)shared;
        if (call->is_moving && !call->is_done && !call->is_abandoned)
            status = sc_mpi_continue(world, call, &moved, &error);
    }
    if (status != SHARDC_OK)
        fail_world(comm, &error, true);
    if (world->has_failed)
        drop_quiet_calls(world);
    return moved;
}

static void *thread_main(void *user)
{
    sc_comm *comm = user;
    mpi_world *world = comm->state;
    bool ignored = false;
    shardc_error error;
    pthread_mutex_lock(&world->lock);
    while (!world->stops) {
        uint64_t ms = world->beat_ms / 2;
        struct timespec limit;
        clock_gettime(CLOCK_MONOTONIC, &limit);
        limit.tv_sec += (time_t)(ms / 1000);
        limit.tv_nsec += (long)(ms % 1000) * 1000000;
        if (limit.tv_nsec >= 1000000000) {
            limit.tv_sec++;
            limit.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&world->woken, &world->lock, &limit);
        if (world->stops)
            break;
        if (hear(comm, &ignored, &error) != SHARDC_OK)
            fail_world(comm, &error, true);
        fail_for_silence(comm);
    }
    pthread_mutex_unlock(&world->lock);
    return NULL;
}

/* Without MPI support for threads there is no watching of ranks: only a deadline detects one that
 * is stopped. */
static void start_thread(sc_comm *comm)
{
    mpi_world *world = comm->state;
    int provided = MPI_THREAD_SINGLE;
    if (comm->size == 1 || MPI_Query_thread(&provided) != MPI_SUCCESS ||
        provided < MPI_THREAD_MULTIPLE)
        return;
    pthread_mutex_lock(&world->lock);
    world->has_thread = pthread_create(&world->thread, NULL, thread_main, comm) == 0;
    pthread_mutex_unlock(&world->lock);
}

static void stop_thread(mpi_world *world)
{
    pthread_mutex_lock(&world->lock);
    bool has_thread = world->has_thread;
    world->stops = true;
    world->has_thread = false;
    pthread_cond_signal(&world->woken);
    pthread_mutex_unlock(&world->lock);
    if (has_thread)
        pthread_join(world->thread, NULL);
}

static shardc_status give_failure(const mpi_world *world, shardc_error *error)
{
    if (error != NULL)
        *error = world->failure;
    return world->failure.status;
}

static shardc_status announce(mpi_world *world, const sc_comm_request *request, int32_t tag,
                              shardc_error *error)
{
    const sc_comm_group *group = request->group;
    notice n;
    memset(&n, 0, sizeof n);
    n.kind = NOTICE_CALL;
    n.call = (call_notice){
        .group = *(const uint64_t *)group->state, .lane = request->lane, .number = request->number};
    n.call.notice =
        (sc_comm_notice){.sender = group->comm->rank, .tag = tag, .summary = request->summary};
    shardc_status status = SHARDC_OK;
    for (uint32_t k = 1; k < group->size; k++) {
        if (status != SHARDC_OK)
            break;
        uint32_t i = (group->rank + k) % group->size;
        if (sc_comm_takes_part(request, i))
            status = send_notice(world, group->ranks[i], &n, error);
    }
    return status;
}

static shardc_status begin_call(mpi_world *world, sc_comm_request *request, shardc_error *error)
{
    const sc_comm_group *group = request->group;
    mpi_call *call = sc_comm_find_call(&world->calls, *(const uint64_t *)group->state,
                                       request->lane, request->number, true);
    if (call == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "%s: out of memory",
                       sc_comm_kind_names[request->call.kind]);
    if (call->tag_room < group->size) {
        int32_t *tags = realloc(call->tags, group->size * sizeof *tags);
        if (tags == NULL)
            return sc_fail(error, SHARDC_ERROR_MEMORY, "%s: out of memory",
                           sc_comm_kind_names[request->call.kind]);
        call->tags = tags;
        call->tag_room = group->size;
    }
    call->shared.request = request;
    request->work = call;
    call->tag = world->next_tag;
    world->next_tag = world->next_tag == world->last_tag ? FIRST_DATA_TAG : world->next_tag + 1;
    shardc_status status = announce(world, request, call->tag, error);
    if (status == SHARDC_OK)
        status = sc_comm_compare_notices(&call->shared, error);
    return status == SHARDC_OK ? begin_if_agreed(world, call, error) : status;
}

static shardc_status mpi_start(sc_comm_request *request, shardc_error *error)
{
    sc_comm *comm = request->group->comm;
    mpi_world *world = comm->state;
    shardc_error failure;
    pthread_mutex_lock(&world->lock);
    make_progress(comm);
    /* sets request->work */
    shardc_status status = world->has_failed ? SHARDC_OK : begin_call(world, request, &failure);
    if (status != SHARDC_OK)
        fail_world(comm, &failure, true);
    if (world->has_failed) {
        status = give_failure(world, error);
        if (request->work != NULL)
            abandon(world, request->work);
    }
    pthread_mutex_unlock(&world->lock);
    return status;
}

static bool is_gone(const void *world, uint32_t rank)
{
    return ((const mpi_world *)world)->is_gone[rank];
}

/* Fails the world for missing ranks: after a wait of `waited_ms`, or (0) because a rank may be
 * gone. The world is locked. */
static void fail_for_missing(sc_comm_request *request, uint32_t waited_ms)
{
    sc_comm *comm = request->group->comm;
    mpi_call *call = request->work;
    sc_comm_absence absence = waited_ms == 0    ? SC_COMM_GONE
                              : call->is_moving ? SC_COMM_STALLED
                                                : SC_COMM_LATE;
    shardc_error error;
    bool *missing = calloc(request->group->size, sizeof *missing);
    uint32_t count = 0;
    if (missing != NULL)
        count = absence == SC_COMM_STALLED
                    ? sc_mpi_find_stalled(call, missing)
                    : sc_comm_find_missing(&call->shared, absence == SC_COMM_GONE ? is_gone : NULL,
                                           comm->state, missing);
    if (missing == NULL)
        sc_fail(&error, SHARDC_ERROR_MEMORY, "out of memory");
    else if (count > 0)
        sc_comm_fail_missing(&error, absence, request, missing, waited_ms);
    if (missing == NULL || count > 0)
        fail_world(comm, &error, true);
    free(missing);
}

/* Pauses between two polls. */
static void rest(uint32_t *idle_polls)
{
    if (++*idle_polls < EAGER_POLLS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
}

static shardc_status mpi_wait(sc_comm_request *request, shardc_error *error)
{
    sc_comm *comm = request->group->comm;
    mpi_world *world = comm->state;
    mpi_call *call = request->work;
    uint32_t deadline = atomic_load(&comm->deadline_ms), idle_polls = 0;
    uint64_t since = sc_milliseconds();
    shardc_status status = SHARDC_OK;
    pthread_mutex_lock(&world->lock);
    for (;;) {
        bool moved = make_progress(comm);
        if (call->is_done || world->has_failed)
            break;
        if (!call->is_moving && world->gone_count > 0)
            fail_for_missing(request, 0);
        if (moved) {
            idle_polls = 0;
            /* while moving, the deadline restarts with each step */
            since = call->is_moving ? sc_milliseconds() : since;
        } else if (deadline > 0 && sc_milliseconds() - since >= deadline) {
            fail_for_missing(request, deadline);
        }
        if (!moved && !world->has_failed) {
            pthread_mutex_unlock(&world->lock);
            rest(&idle_polls);
            pthread_mutex_lock(&world->lock);
        }
    }
    if (call->is_done) {
        drop_call(world, call);
    } else {
        status = give_failure(world, error);
        abandon(world, call);
    }
    pthread_mutex_unlock(&world->lock);
    return status;
}

static void mpi_progress(sc_comm *comm)
{
    mpi_world *world = comm->state;
    pthread_mutex_lock(&world->lock);
    make_progress(comm);
    pthread_mutex_unlock(&world->lock);
}

static void mpi_abort(sc_comm *comm, const shardc_error *error)
{
    mpi_world *world = comm->state;
    pthread_mutex_lock(&world->lock);
    fail_world(comm, error, true);
    make_progress(comm);
    pthread_mutex_unlock(&world->lock);
}

static shardc_status mpi_poll(sc_comm *comm, shardc_error *error)
{
    mpi_world *world = comm->state;
    pthread_mutex_lock(&world->lock);
    make_progress(comm);
    shardc_status status = world->has_failed ? give_failure(world, error) : SHARDC_OK;
    pthread_mutex_unlock(&world->lock);
    return status;
}

static shardc_status mpi_group_open(sc_comm_group *group, shardc_error *error)
{
    uint64_t *key = malloc(sizeof *key);
    if (key == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "a group of %u ranks: out of memory",
                       group->size);
    *key = sc_comm_group_key(group);
    group->state = key;
    return SHARDC_OK;
}

static void mpi_group_close(sc_comm_group *group)
{
    free(group->state);
}

/* Sends goodbye and waits for everybody's: afterwards nothing is in flight. In a failed world the
 * wait is limited. */
static void mpi_leave(sc_comm *comm)
{
    mpi_world *world = comm->state;
    notice n = {.kind = NOTICE_BYE};
    uint32_t idle_polls = 0;
    shardc_error error;
    pthread_mutex_lock(&world->lock);
    for (uint32_t i = 0; i < comm->size; i++) {
        if (i != comm->rank && send_notice(world, i, &n, &error) != SHARDC_OK)
            fail_world(comm, &error, true);
    }
    world->is_leaving = true;
    uint64_t since = sc_milliseconds();
    for (;;) {
        bool moved = make_progress(comm);
        if (world->gone_count == comm->size - 1 && world->outbox == NULL && !has_abandoned(world))
            break;
        if (world->has_failed && sc_milliseconds() - since > LEAVE_MS) {
            world->has_lost_messages = true;
            break;
        }
        idle_polls = moved ? 0 : idle_polls;
        if (!moved) {
            pthread_mutex_unlock(&world->lock);
            rest(&idle_polls);
            pthread_mutex_lock(&world->lock);
        }
    }
    pthread_mutex_unlock(&world->lock);
    stop_thread(world);
}

static void free_call(void *call)
{
    sc_mpi_free_moves(call);
    free(((mpi_call *)call)->tags);
}

static void free_world(mpi_world *world)
{
    while (world->unused_outgoing != NULL) {
        outgoing *next = world->unused_outgoing->next;
        free(world->unused_outgoing);
        world->unused_outgoing = next;
    }
    sc_comm_free_calls(&world->calls, free_call);
    pthread_cond_destroy(&world->woken);
    pthread_mutex_destroy(&world->lock);
    free(world->is_gone);
    free(world->heard_ms);
    free(world);
}

static void mpi_close(sc_comm *comm)
{
    mpi_world *world = comm->state;
    /* MPI still references memory in it, and cannot be finalized properly */
    if (world->has_lost_messages)
        return;
    MPI_Cancel(&world->inbox_request);
    MPI_Wait(&world->inbox_request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&world->comm);
    if (world->ends_mpi)
        MPI_Finalize();
    free_world(world);
}

static const sc_comm_backend mpi_backend = {
    .name = "mpi",
    .group_open = mpi_group_open,
    .group_close = mpi_group_close,
    .start = mpi_start,
    .wait = mpi_wait,
    .progress = mpi_progress,
    .abort = mpi_abort,
    .leave = mpi_leave,
    .close = mpi_close,
    .poll = mpi_poll,
};

static shardc_status start_mpi(bool *out_started, shardc_error *error)
{
    int is_running = 0, is_over = 0, provided = 0;
    *out_started = false;
    MPI_Finalized(&is_over);
    if (is_over)
        return sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                       "MPI was finalised already, and cannot be started twice in a process");
    MPI_Initialized(&is_running);
    if (is_running)
        return SHARDC_OK;
    *out_started = true;
    return sc_mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided),
                        "MPI_Init_thread", error);
}

/* Duplicates the communicator, so that no foreign messages arrive in it. */
static shardc_status make_comm(mpi_world *world, shardc_error *error)
{
    void *limit;
    int is_set = 0;
    shardc_status status =
        sc_mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &world->comm), "MPI_Comm_dup", error);
    if (status != SHARDC_OK)
        return status;
    MPI_Comm_set_errhandler(world->comm, MPI_ERRORS_RETURN);
    MPI_Comm_get_attr(world->comm, MPI_TAG_UB, &limit, &is_set);
    /* the minimum that the MPI standard guarantees */
    world->last_tag = is_set ? *(int *)limit : 32767;
    world->next_tag = FIRST_DATA_TAG;
    return sc_mpi_check(MPI_Irecv(&world->inbox, (int)sizeof world->inbox, MPI_BYTE, MPI_ANY_SOURCE,
                                  CONTROL_TAG, world->comm, &world->inbox_request),
                        "MPI_Irecv", error);
}

/* Waits use the monotonic clock. */
static bool init_lock(mpi_world *world)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool has_condition = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                         pthread_cond_init(&world->woken, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (has_condition && pthread_mutex_init(&world->lock, NULL) == 0)
        return true;
    if (has_condition)
        pthread_cond_destroy(&world->woken);
    return false;
}

static mpi_world *new_world(uint32_t size)
{
    mpi_world *world = calloc(1, sizeof *world);
    bool *is_gone = calloc(size, sizeof *is_gone);
    uint64_t *heard_ms = calloc(size, sizeof *heard_ms);
    if (world == NULL || is_gone == NULL || heard_ms == NULL || !init_lock(world)) {
        free(world);
        free(is_gone);
        free(heard_ms);
        return NULL;
    }
    world->calls.bytes = sizeof(mpi_call);
    world->is_gone = is_gone;
    world->heard_ms = heard_ms;
    world->sent_ms = world->looked_ms = sc_milliseconds();
    for (uint32_t i = 0; i < size; i++)
        heard_ms[i] = world->looked_ms;
    world->beat_ms = size * BEAT_A_RANK_MS > BEAT_MS ? size * BEAT_A_RANK_MS : BEAT_MS;
    return world;
}

static shardc_status open_world(const sc_comm_options *options, sc_comm **out, shardc_error *error)
{
    bool has_started;
    shardc_status status = start_mpi(&has_started, error);
    if (status != SHARDC_OK)
        return status;
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    mpi_world *world = new_world((uint32_t)size);
    if (world == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "a world of %d ranks: out of memory", size);
    world->ends_mpi = has_started;
    world->silence_ms = options->silence_ms;
    status = make_comm(world, error);
    *out = status == SHARDC_OK
               ? sc_comm_new(&mpi_backend, (uint32_t)rank, (uint32_t)size, options, world, error)
               : NULL;
    if (*out == NULL)
        free_world(world);
    else
        start_thread(*out);
    return *out != NULL ? SHARDC_OK : status != SHARDC_OK ? status : SHARDC_ERROR_MEMORY;
}

__attribute__((visibility("default"))) extern const sc_comm_module shardc_mpi_module;
const sc_comm_module shardc_mpi_module = {.abi = SC_COMM_ABI, .open = open_world};
