/* Backend for ranks that are processes, without MPI. rendezvous.c connects every two ranks.
 *
 * Starting a call notifies the other members; bytes move once all have announced the call and agree
 * (tcp_move.c). A thread of the communicator moves bytes and receives messages whatever the rank
 * itself does; waits only sleep. It sends a heartbeat when nothing else was sent for a while. So a
 * rank that computes for long is heard and a stopped one is not, and in a chain of ranks that wait
 * for each other the right one is named. There is no limit on a call as long as its members live; a
 * rank that is silent for long is lost. A process that was itself stopped received nothing
 * meanwhile, and does not count that time as silence.
 *
 * A connection that closes without BYE is a dead rank: the world fails at once. A rank that detects
 * a failure notifies all others. Before a failure takes effect everything that has arrived is read,
 * since calls that it completes precede the failure. */
#include "runtime/comm/tcp.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm/rendezvous.h"
#include "support/clock.h"

enum {
    BEAT_MS = 100,
    BEAT_A_RANK_MS = 2, /* heartbeats are slower in large worlds */
    SILENT_BEATS = 5,   /* a rank that missed fewer heartbeats is not silent */
    /* ms; a wait whose deadline exceeds twice this also fails early, when a rank is silent */
    SURE_SILENCE = 2000,
    /* if the thread ran this much later than its heartbeat, the process was stopped */
    PAUSE_MS = 1000,
    LEAVE_MS = 5000 /* how long closing waits for the others to answer */
};

/* ---- failures ---- */

static void fail_world(tcp_world *world)
{
    tcp_header header = {.kind = TCP_FAILURE, .bytes = sizeof world->failure};
    if (world->has_failed || !world->is_failing)
        return;
    world->has_failed = true;
    world->is_failing = false;
    sc_tcp_give_up_data(world);
    for (uint32_t r = 0; r < world->size; r++) {
        if (world->peers[r].socket >= 0)
            sc_tcp_send(world, r, &header, &world->failure,
                        NULL); /* a rank that does not receive it has its deadline */
    }
    pthread_cond_broadcast(&world->changed);
}

static void fail_with(tcp_world *world, const shardc_error *error)
{
    tcp_failure failure = {.error = *error, .lost = -1};
    sc_tcp_find_failure(world, &failure);
    fail_world(world);
}

/* Reports the world's failure. For a lost rank the text names the request's call. */
static shardc_status give_failure(const tcp_world *world, const sc_comm_request *request,
                                  shardc_error *error)
{
    const tcp_failure *f = &world->failure;
    if (f->lost >= 0)
        return sc_comm_fail_lost(error, f->error.status, world->comm, request, (uint32_t)f->lost,
                                 f->error.text);
    return sc_fail(error, f->error.status, "%s", f->error.text);
}

/* ---- calls ---- */

static shardc_status announce(tcp_world *world, const sc_comm_request *request, shardc_error *error)
{
    const sc_comm_group *group = request->group;
    tcp_header header = {.kind = TCP_CALL,
                         .group = *(const uint64_t *)group->state,
                         .lane = request->lane,
                         .number = request->number,
                         .bytes = sizeof request->summary};
    shardc_status status = SHARDC_OK;
    for (uint32_t k = 1; k < group->size; k++) {
        if (status != SHARDC_OK)
            break;
        uint32_t i = (group->rank + k) % group->size;
        if (sc_comm_takes_part(request, i))
            status = sc_tcp_send(world, group->ranks[i], &header, &request->summary, error);
    }
    return status;
}

static shardc_status begin_call(tcp_world *world, sc_comm_request *request, shardc_error *error)
{
    tcp_call *call = sc_comm_find_call(&world->calls, *(const uint64_t *)request->group->state,
                                       request->lane, request->number, true);
    if (call == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "%s: out of memory",
                       sc_comm_kind_names[request->call.kind]);
    call->shared.request = request;
    request->work = call;
    shardc_status status = sc_tcp_prepare(call, error);
    if (status == SHARDC_OK)
        status = announce(world, request, error);
    if (status == SHARDC_OK)
        status = sc_comm_compare_notices(&call->shared, error);
    return status == SHARDC_OK && sc_comm_is_agreed(&call->shared)
               ? sc_tcp_begin(world, call, error)
               : status;
}

static shardc_status tcp_start(sc_comm_request *request, shardc_error *error)
{
    tcp_world *world = request->group->comm->state;
    shardc_error failure;
    pthread_mutex_lock(&world->lock);
    /* sets request->work */
    shardc_status status = world->has_failed ? SHARDC_OK : begin_call(world, request, &failure);
    if (status != SHARDC_OK)
        fail_with(world, &failure);
    if (world->has_failed) {
        status = give_failure(world, request, error);
        if (request->work != NULL)
            sc_comm_drop_call(&world->calls, request->work);
    }
    pthread_mutex_unlock(&world->lock);
    return status;
}

static bool is_gone(const void *world, uint32_t rank)
{
    return ((const tcp_world *)world)->peers[rank].is_gone;
}

/* Returns the rank that was silent longest, if for at least `ms`; else the size of the world. */
static uint32_t find_silent(const tcp_world *world, uint64_t ms, uint64_t *out_ms)
{
    uint64_t now = world->looked_ms, most = 0;
    uint32_t found = world->size;
    for (uint32_t r = 0; r < world->size; r++) {
        const tcp_peer *peer = &world->peers[r];
        uint64_t silent =
            peer->socket < 0 || peer->is_gone || now < peer->heard_ms ? 0 : now - peer->heard_ms;
        if (silent >= ms && silent > most) {
            most = silent;
            found = r;
        }
    }
    *out_ms = most;
    return found;
}

static bool fail_for_silence(tcp_world *world, uint64_t ms)
{
    tcp_failure failure = {.error = {.status = SHARDC_ERROR_TIMEOUT}};
    uint64_t silent = 0;
    uint32_t rank = find_silent(world, ms, &silent);
    if (rank == world->size)
        return false;
    failure.lost = (int32_t)rank;
    sc_fail(&failure.error, SHARDC_ERROR_TIMEOUT,
            "nothing was received from it (%s) for %llu ms: it has stopped, or is cut off",
            world->peers[rank].host, (unsigned long long)silent);
    sc_tcp_find_failure(world, &failure);
    fail_world(world);
    return true;
}

/* Returns how long a rank may be silent, given a deadline (0: none). */
static uint64_t silence_of(const tcp_world *world, uint32_t deadline)
{
    uint64_t least = (uint64_t)world->beat_ms * SILENT_BEATS, silence = world->silence_ms;
    if (deadline > 0 && deadline / 2 < silence)
        silence = deadline / 2;
    return silence > least ? silence : least;
}

/* Fails the world for missing ranks: after a wait of `waited_ms`, or (0) because a rank may be
 * gone. The world is locked. */
static void fail_for_missing(tcp_world *world, sc_comm_request *request, uint32_t waited_ms)
{
    const tcp_call *call = request->work;
    sc_comm_absence absence = waited_ms == 0    ? SC_COMM_GONE
                              : call->is_moving ? SC_COMM_STALLED
                                                : SC_COMM_LATE;
    shardc_error error;
    if (waited_ms > 0 && fail_for_silence(world, silence_of(world, waited_ms)))
        return;
    bool *missing = calloc(request->group->size, sizeof *missing);
    uint32_t count = 0;
    if (missing != NULL)
        count = absence == SC_COMM_STALLED
                    ? sc_tcp_find_stalled(world, call, missing)
                    : sc_comm_find_missing(&call->shared, absence == SC_COMM_GONE ? is_gone : NULL,
                                           world, missing);
    if (missing == NULL)
        sc_fail(&error, SHARDC_ERROR_MEMORY, "out of memory");
    else if (count > 0)
        sc_comm_fail_missing(&error, absence, request, missing, waited_ms);
    if (missing == NULL || count > 0)
        fail_with(world, &error);
    free(missing);
}

static bool is_any_gone(const tcp_world *world, const sc_comm_group *group)
{
    for (uint32_t i = 0; i < group->size; i++) {
        if (world->peers[group->ranks[i]].is_gone)
            return true;
    }
    return false;
}

/* Sleeps until something has changed, for at most `ms`. */
static void sleep_for(tcp_world *world, uint64_t ms)
{
    struct timespec limit;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += (time_t)(ms / 1000);
    limit.tv_nsec += (long)(ms % 1000) * 1000000;
    if (limit.tv_nsec >= 1000000000) {
        limit.tv_sec++;
        limit.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&world->changed, &world->lock, &limit);
}

static shardc_status tcp_wait(sc_comm_request *request, shardc_error *error)
{
    tcp_world *world = request->group->comm->state;
    tcp_call *call = request->work;
    uint64_t begin = sc_milliseconds();
    pthread_mutex_lock(&world->lock);
    while (!call->is_done && !world->has_failed) {
        uint32_t deadline = atomic_load(&request->group->comm->deadline_ms);
        uint64_t since = call->moved_ms > begin ? call->moved_ms : begin, now = sc_milliseconds(),
                 waited = now > since ? now - since : 0;
        if (!call->is_moving && is_any_gone(world, request->group))
            fail_for_missing(world, request, 0);
        else if (deadline > 0 && waited >= deadline)
            fail_for_missing(world, request, deadline);
        else if (deadline > 2 * SURE_SILENCE)
            fail_for_silence(world, silence_of(world, deadline));
        if (world->has_failed)
            break;
        uint64_t rest = deadline > 0 && waited < deadline ? deadline - waited : world->beat_ms;
        sleep_for(world, rest < SURE_SILENCE / 4 ? rest : SURE_SILENCE / 4);
    }
    shardc_status status = call->is_done ? SHARDC_OK : give_failure(world, request, error);
    sc_comm_drop_call(&world->calls, call);
    pthread_mutex_unlock(&world->lock);
    return status;
}

static void tcp_abort(sc_comm *comm, const shardc_error *error)
{
    tcp_world *world = comm->state;
    pthread_mutex_lock(&world->lock);
    fail_with(world, error);
    pthread_mutex_unlock(&world->lock);
}

static shardc_status tcp_poll(sc_comm *comm, shardc_error *error)
{
    tcp_world *world = comm->state;
    uint32_t deadline = atomic_load(&comm->deadline_ms);
    pthread_mutex_lock(&world->lock);
    if (!world->has_failed)
        fail_for_silence(world, silence_of(world, deadline));
    shardc_status status = world->has_failed ? give_failure(world, NULL, error) : SHARDC_OK;
    pthread_mutex_unlock(&world->lock);
    return status;
}

/* ---- the thread ---- */

static void send_beats(tcp_world *world)
{
    uint64_t now = sc_milliseconds();
    for (uint32_t r = 0; r < world->size; r++) {
        tcp_peer *peer = &world->peers[r];
        if (peer->socket >= 0 && peer->first == NULL && !peer->is_mute &&
            now >= peer->sent_ms + world->beat_ms)
            sc_tcp_send(world, r, &(tcp_header){.kind = TCP_BEAT}, NULL, NULL);
    }
}

/* Notes that all that had arrived is read. Time during which this process did not run does not
 * count as the others' silence. */
static void note_look(tcp_world *world)
{
    uint64_t now = sc_milliseconds(), pause = now - world->looked_ms;
    world->looked_ms = now;
    if (pause <= PAUSE_MS + world->beat_ms)
        return;
    for (uint32_t r = 0; r < world->size; r++) {
        uint64_t heard = world->peers[r].heard_ms + pause;
        world->peers[r].heard_ms = heard < now ? heard : now;
    }
}

static uint32_t fill_polls(const tcp_world *world)
{
    uint32_t count = 1;
    world->polls[0] = (struct pollfd){.fd = world->bell, .events = POLLIN};
    for (uint32_t r = 0; r < world->size; r++) {
        const tcp_peer *peer = &world->peers[r];
        world->polls[count++] = (struct pollfd){
            .fd = peer->socket,
            .events = (short)(POLLIN | (peer->first != NULL && !peer->is_mute ? POLLOUT : 0))};
    }
    return count;
}

static void *thread_main(void *user)
{
    tcp_world *world = user;
    pthread_mutex_lock(&world->lock);
    while (!world->stops) {
        uint64_t rung;
        uint32_t count = fill_polls(world);
        pthread_mutex_unlock(&world->lock);
        poll(world->polls, count, (int)world->beat_ms);
        pthread_mutex_lock(&world->lock);
        if ((world->polls[0].revents & POLLIN) != 0 && read(world->bell, &rung, sizeof rung) < 0)
            continue;
        for (uint32_t r = 0; r < world->size; r++) {
            if ((world->polls[r + 1].revents & POLLOUT) != 0)
                sc_tcp_send_more(world, r);
            if ((world->polls[r + 1].revents & ~POLLOUT) != 0)
                sc_tcp_receive(world, r);
        }
        if (world->is_failing) {
            for (uint32_t r = 0; r < world->size; r++)
                sc_tcp_receive(world, r);
        }
        fail_world(world);
        note_look(world);
        if (!world->has_failed)
            fail_for_silence(world, silence_of(world, 0));
        send_beats(world);
    }
    pthread_mutex_unlock(&world->lock);
    return NULL;
}

/* ---- opening and closing ---- */

static shardc_status tcp_group_open(sc_comm_group *group, shardc_error *error)
{
    uint64_t *key = malloc(sizeof *key);
    if (key == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "a group of %u ranks: out of memory",
                       group->size);
    *key = sc_comm_group_key(group);
    group->state = key;
    return SHARDC_OK;
}

static void tcp_group_close(sc_comm_group *group)
{
    free(group->state);
}

/* Announces that this rank leaves, and waits until every other rank has received it. */
static void tcp_leave(sc_comm *comm)
{
    tcp_world *world = comm->state;
    uint64_t begin = sc_milliseconds(), now = begin;
    pthread_mutex_lock(&world->lock);
    for (uint32_t r = 0; r < world->size; r++) {
        if (world->peers[r].socket >= 0)
            sc_tcp_send(world, r, &(tcp_header){.kind = TCP_BYE}, NULL, NULL);
    }
    for (uint32_t waits = world->size; waits > 0 && now - begin < LEAVE_MS;
         now = sc_milliseconds()) {
        waits = 0;
        for (uint32_t r = 0; r < world->size; r++) {
            const tcp_peer *peer = &world->peers[r];
            bool is_lost =
                world->has_failed && now > peer->heard_ms + (uint64_t)SILENT_BEATS * world->beat_ms;
            waits += peer->socket >= 0 && !peer->has_heard && !peer->is_mute && !is_lost;
        }
        if (waits > 0)
            sleep_for(world, world->beat_ms);
    }
    world->stops = true;
    pthread_mutex_unlock(&world->lock);
    if (world->has_thread) {
        uint64_t one = 1;
        while (write(world->bell, &one, sizeof one) < 0 && errno == EINTR)
            ;
        pthread_join(world->thread, NULL);
        world->has_thread = false;
    }
}

static void free_world(tcp_world *world)
{
    if (world->peers != NULL) {
        for (uint32_t r = 0; r < world->size; r++) {
            if (world->peers[r].socket >= 0)
                close(world->peers[r].socket);
            sc_tcp_free_items(world->peers[r].first);
            free(world->peers[r].buffer);
        }
    }
    sc_comm_free_calls(&world->calls, sc_tcp_free_call);
    sc_tcp_free_items(world->unused_items);
    if (world->bell >= 0)
        close(world->bell);
    if (world->has_changed)
        pthread_cond_destroy(&world->changed);
    if (world->has_lock)
        pthread_mutex_destroy(&world->lock);
    free(world->peers);
    free(world->polls);
    free(world);
}

static void tcp_close(sc_comm *comm)
{
    free_world(comm->state);
}

static const sc_comm_backend tcp_backend = {
    .name = "tcp",
    .group_open = tcp_group_open,
    .group_close = tcp_group_close,
    .start = tcp_start,
    .wait = tcp_wait,
    .abort = tcp_abort,
    .leave = tcp_leave,
    .close = tcp_close,
    .poll = tcp_poll,
};

/* Deadlines use the monotonic clock. */
static bool init_condition(tcp_world *world)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    world->has_changed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                         pthread_cond_init(&world->changed, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return world->has_changed;
}

static void name_host(tcp_peer *peer)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    snprintf(peer->host, sizeof peer->host, "?");
    if (getpeername(peer->socket, (struct sockaddr *)&address, &length) == 0)
        getnameinfo((const struct sockaddr *)&address, length, peer->host, sizeof peer->host, NULL,
                    0, NI_NUMERICHOST);
}

/* Gives each peer its socket and buffer; false if there is not enough memory for a buffer. */
static bool connect_peers(tcp_world *world, const int *sockets)
{
    bool ok = true;
    for (uint32_t r = 0; r < world->size; r++) {
        world->peers[r].socket = sockets[r];
        world->peers[r].heard_ms = world->peers[r].sent_ms = world->looked_ms = sc_milliseconds();
        world->peers[r].buffer = sockets[r] >= 0 ? malloc(SC_TCP_BUFFER) : NULL;
        ok = ok && (sockets[r] < 0 || world->peers[r].buffer != NULL);
        if (sockets[r] >= 0)
            name_host(&world->peers[r]);
    }
    return ok;
}

/* Takes ownership of the sockets, even on failure. */
static tcp_world *new_world(uint32_t rank, uint32_t size, const int *sockets)
{
    tcp_world *world = calloc(1, sizeof *world);
    if (world != NULL) {
        world->rank = rank;
        world->size = size;
        world->calls.bytes = sizeof(tcp_call);
        world->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        world->peers = calloc(size, sizeof *world->peers);
        world->polls = calloc(size + 1u, sizeof *world->polls);
        world->has_lock = pthread_mutex_init(&world->lock, NULL) == 0;
        world->beat_ms = size * BEAT_A_RANK_MS > BEAT_MS ? size * BEAT_A_RANK_MS : BEAT_MS;
    }
    bool ok = world != NULL && world->bell >= 0 && world->polls != NULL && world->has_lock &&
              init_condition(world);
    if (world != NULL && world->peers != NULL) {
        ok = connect_peers(world, sockets) && ok;
    } else {
        for (uint32_t r = 0; r < size; r++) {
            if (sockets[r] >= 0)
                close(sockets[r]);
        }
        ok = false;
    }
    if (ok)
        return world;
    if (world != NULL)
        free_world(world);
    return NULL;
}

static shardc_status open_world(const sc_launch *launch, const sc_comm_options *options,
                                const int *sockets, sc_comm **out, shardc_error *error)
{
    tcp_world *world = new_world(launch->rank, launch->size, sockets);
    if (world == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "a world of %u ranks: out of memory",
                       launch->size);
    world->silence_ms = options->silence_ms;
    world->comm = sc_comm_new(&tcp_backend, launch->rank, launch->size, options, world, error);
    if (world->comm == NULL) {
        free_world(world);
        return SHARDC_ERROR_MEMORY;
    }
    world->has_thread =
        launch->size > 1 && pthread_create(&world->thread, NULL, thread_main, world) == 0;
    if (launch->size > 1 && !world->has_thread) {
        sc_comm_close(world->comm);
        return sc_fail(error, SHARDC_ERROR_MEMORY, "a world of %u ranks: no thread can be started",
                       launch->size);
    }
    *out = world->comm;
    return SHARDC_OK;
}

shardc_status sc_comm_open_tcp(const sc_launch *launch, const sc_comm_options *options,
                               sc_comm **out, shardc_error *error)
{
    sc_launch read;
    sc_comm_options settled;
    shardc_status status = sc_comm_settle_options(options, &settled, error);
    if (status == SHARDC_OK && launch == NULL)
        status = sc_launch_read(NULL, NULL, &read, error);
    launch = launch == NULL ? &read : launch;
    if (status != SHARDC_OK)
        return status;
    int *sockets = calloc(launch->size, sizeof *sockets);
    if (sockets == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "a world of %u ranks: out of memory",
                       launch->size);
    status = sc_rendezvous_meet(launch, settled.started_with, settled.join_ms, sockets, error);
    if (status == SHARDC_OK)
        status = open_world(launch, &settled, sockets, out, error);
    free(sockets);
    return status;
}
