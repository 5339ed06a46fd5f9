/* Backend for ranks that are threads of one process. Starting a call publishes the member's
 * pointers in the group's record of the call; the last member to arrive makes the call ready. The
 * call is then a list of units of work on independent pieces of the buffers, and every waiting
 * thread takes the next unit until none is left. A unit of all_reduce, for example, reads its range
 * of all sources and writes it to all destinations. So every byte is read once and written once; a
 * rank that waits late, or has no core at the moment, finds its share done; and no order of waits
 * can deadlock, because a thread inside a unit never waits. Which thread runs a unit does not
 * change the result.
 *
 * Sleeping: each rank has a bell, a counter that others increment when a condition it may wait for
 * has changed: a call became ready, a call's last unit is done, the world failed. A waiter reads
 * the bell, checks its condition, and sleeps only while the bell is unchanged.
 *
 * Failing: the first error becomes the world's. Before a thread takes a unit it increments the
 * call's `active` and then checks whether the world has failed. A thread that abandons its request
 * has seen the failure, and then waits until `active` is 0. From then on nobody accesses its
 * buffers. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/comm/units.h"

enum {
    SPINS = 64 /* yields before sleeping: cheap if cores are free, and they release the core
                  otherwise */
};

typedef struct local_rank {
    _Alignas(64) _Atomic uint32_t bell;
    _Atomic uint32_t sleepers;
    _Atomic bool is_gone; /* closed: starts no more calls */
    pthread_mutex_t lock;
    pthread_cond_t rung;
} local_rank;

typedef struct local_call {
    struct local_call *next;
    uint64_t lane, number;
    uint32_t expected, arrived, left;
    sc_comm_request **members; /* by group rank; NULL: not arrived, or already left */
    bool *missing;             /* scratch for a message */
    sc_comm_units units;       /* valid once the call is ready */
    _Atomic bool is_ready;
    _Atomic uint32_t active;
    _Atomic int64_t next_unit, done_units;
} local_call;

typedef struct local_group {
    struct local_group *next;
    uint32_t size, ordinal, users;
    uint32_t *ranks;
    pthread_mutex_t lock; /* protects the calls, except their atomics */
    local_call *calls, *unused;
} local_group;

typedef struct local_world {
    pthread_mutex_t lock; /* protects groups and users, and failure until has_failed is set */
    uint32_t size, users;
    local_group *groups;
    _Atomic bool has_failed;
    shardc_error failure;
    local_rank ranks[];
} local_world;

static void ring(local_rank *rank)
{
    atomic_fetch_add(&rank->bell, 1);
    if (atomic_load(&rank->sleepers) == 0)
        return;
    pthread_mutex_lock(&rank->lock);
    pthread_cond_broadcast(&rank->rung);
    pthread_mutex_unlock(&rank->lock);
}

static void ring_members(local_world *world, const local_group *group)
{
    for (uint32_t i = 0; i < group->size; i++)
        ring(&world->ranks[group->ranks[i]]);
}

/* Sleeps until the bell is no longer `seen`, or until `limit`; NULL: no limit. False: the limit has
 * passed. */
static bool sleep_until_rung(local_rank *rank, uint32_t seen, const struct timespec *limit)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&rank->bell) != seen)
            return true;
        sched_yield();
    }
    int result = 0;
    pthread_mutex_lock(&rank->lock);
    atomic_fetch_add(&rank->sleepers, 1);
    while (atomic_load(&rank->bell) == seen && result != ETIMEDOUT)
        result = limit == NULL ? pthread_cond_wait(&rank->rung, &rank->lock)
                               : pthread_cond_timedwait(&rank->rung, &rank->lock, limit);
    atomic_fetch_sub(&rank->sleepers, 1);
    pthread_mutex_unlock(&rank->lock);
    return result != ETIMEDOUT;
}

/* Marks the world failed; the first error is kept. */
static void fail_world(local_world *world, const shardc_error *error)
{
    pthread_mutex_lock(&world->lock);
    if (!atomic_load(&world->has_failed)) {
        world->failure = *error;
        atomic_store(&world->has_failed, true);
    }
    pthread_mutex_unlock(&world->lock);
    for (uint32_t i = 0; i < world->size; i++)
        ring(&world->ranks[i]);
}

static shardc_status give_failure(const local_world *world, shardc_error *error)
{
    if (error != NULL)
        *error = world->failure;
    return world->failure.status;
}

/* Runs units until none is left or the world fails. */
static void work(local_world *world, const local_group *group, local_call *call,
                 const sc_comm_request *request)
{
    sc_comm_cursor cursor = {0};
    for (bool goes_on = true; goes_on;) {
        atomic_fetch_add(&call->active, 1);
        int64_t unit = atomic_load(&world->has_failed) ? call->units.count
                                                       : atomic_fetch_add(&call->next_unit, 1);
        goes_on = unit < call->units.count;
        if (goes_on)
            sc_comm_units_run(&call->units, request, &cursor, unit);
        atomic_fetch_sub(&call->active, 1);
        if (goes_on && atomic_fetch_add(&call->done_units, 1) + 1 == call->units.count)
            ring_members(world, group);
    }
}

static void free_call(local_call *call)
{
    free(call->members);
    free(call->missing);
    free(call);
}

static local_call *new_call(uint32_t group_size)
{
    local_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return NULL;
    call->members = calloc(group_size, sizeof *call->members);
    call->missing = calloc(group_size, sizeof *call->missing);
    if (call->members != NULL && call->missing != NULL)
        return call;
    free_call(call);
    return NULL;
}

/* Finds the record of the request's call; the first member creates it. The group is locked. */
static local_call *find_call(local_group *group, const sc_comm_request *request)
{
    local_call *call = group->calls;
    while (call != NULL && (call->lane != request->lane || call->number != request->number))
        call = call->next;
    if (call != NULL)
        return call;
    call = group->unused;
    if (call != NULL)
        group->unused = call->next;
    else
        call = new_call(group->size);
    if (call == NULL)
        return NULL;
    call->lane = request->lane;
    call->number = request->number;
    call->expected = request->lane == 0 ? group->size : 2;
    call->arrived = call->left = 0;
    atomic_store(&call->is_ready, false);
    atomic_store(&call->active, 0);
    atomic_store(&call->next_unit, 0);
    atomic_store(&call->done_units, 0);
    call->next = group->calls;
    group->calls = call;
    return call;
}

/* The group is locked. */
static shardc_status compare(const local_group *group, const local_call *call,
                             const sc_comm_request *request, shardc_error *error)
{
    bool all = sc_comm_compares_all(&request->summary);
    for (uint32_t i = 0; i < group->size; i++) {
        const sc_comm_request *other = call->members[i];
        if (other == NULL)
            continue;
        if (!sc_comm_summaries_fit(&other->summary, i, &request->summary, request->group->rank))
            return sc_comm_fail_mismatch(error, request, &other->summary, i, &request->summary,
                                         request->group->rank);
        if (!all)
            break;
    }
    return SHARDC_OK;
}

static shardc_status join_call(local_group *group, sc_comm_request *request, shardc_error *error)
{
    local_call *call = find_call(group, request);
    if (call == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "%s: out of memory",
                       sc_comm_kind_names[request->call.kind]);
    shardc_status status = compare(group, call, request, error);
    if (status != SHARDC_OK)
        return status;
    call->members[request->group->rank] = request;
    request->work = call;
    if (++call->arrived == call->expected) {
        sc_comm_units_init(&call->units, request, call->members);
        atomic_store(&call->is_ready, true);
    }
    return SHARDC_OK;
}

static shardc_status local_start(sc_comm_request *request, shardc_error *error)
{
    local_world *world = request->group->comm->state;
    local_group *group = request->group->state;
    shardc_error mismatch;
    if (atomic_load(&world->has_failed))
        return give_failure(world, error);
    pthread_mutex_lock(&group->lock);
    shardc_status status = join_call(group, request, &mismatch);
    bool is_ready = status == SHARDC_OK && atomic_load(&((local_call *)request->work)->is_ready);
    pthread_mutex_unlock(&group->lock);
    if (status == SHARDC_ERROR_COMM) {
        fail_world(world, &mismatch);
        return give_failure(world, error);
    }
    if (status != SHARDC_OK)
        return sc_fail(error, status, "%s", mismatch.text);
    if (is_ready)
        ring_members(world, group);
    return SHARDC_OK;
}

/* True if the call lacks members that have not started it. LATE: flags all of them; GONE: only
 * those that have closed, which the error then names. A closed rank starts no more calls, so it
 * stays missing. */
static bool lacks_members(const sc_comm_request *request, local_call *call, sc_comm_absence absence,
                          uint32_t waited_ms, shardc_error *error)
{
    const local_world *world = request->group->comm->state;
    local_group *group = request->group->state;
    uint32_t count = 0, n = group->size;
    pthread_mutex_lock(&group->lock);
    for (uint32_t i = 0; i < n; i++) {
        bool is_gone = atomic_load(&world->ranks[group->ranks[i]].is_gone);
        bool is_expected =
            call->lane == 0 || i == (call->lane - 1) / n || i == (call->lane - 1) % n;
        call->missing[i] =
            is_expected && call->members[i] == NULL && (is_gone || absence == SC_COMM_LATE);
        count += call->missing[i];
    }
    bool lacks = count > 0 && !atomic_load(&call->is_ready);
    if (lacks)
        sc_comm_fail_missing(error, absence, request, call->missing, waited_ms);
    pthread_mutex_unlock(&group->lock);
    return lacks;
}

static bool is_any_gone(const local_world *world, const local_group *group)
{
    for (uint32_t i = 0; i < group->size; i++) {
        if (atomic_load(&world->ranks[group->ranks[i]].is_gone))
            return true;
    }
    return false;
}

static void leave_call(local_group *group, local_call *call, uint32_t rank)
{
    pthread_mutex_lock(&group->lock);
    call->members[rank] = NULL;
    if (++call->left == call->expected) {
        local_call **link = &group->calls;
        while (*link != call)
            link = &(*link)->next;
        *link = call->next;
        call->next = group->unused;
        group->unused = call;
    }
    pthread_mutex_unlock(&group->lock);
}

static struct timespec after_ms(uint32_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* Works on the call until all units are done (true) or the world has failed. */
static bool wait_for_call(const sc_comm_request *request, local_call *call)
{
    local_world *world = request->group->comm->state;
    local_group *group = request->group->state;
    local_rank *rank = &world->ranks[request->group->comm->rank];
    uint32_t deadline = atomic_load(&request->group->comm->deadline_ms);
    struct timespec limit = after_ms(deadline);
    shardc_error error;
    for (;;) {
        uint32_t seen = atomic_load(&rank->bell);
        bool is_ready = atomic_load(&call->is_ready);
        if (is_ready)
            work(world, group, call, request);
        if (is_ready && atomic_load(&call->done_units) == call->units.count)
            return true;
        if (atomic_load(&world->has_failed))
            return false;
        bool has_limit = deadline > 0 && !is_ready;
        bool is_left = !is_ready && is_any_gone(world, group) &&
                       lacks_members(request, call, SC_COMM_GONE, 0, &error);
        bool is_late = !is_left && !sleep_until_rung(rank, seen, has_limit ? &limit : NULL) &&
                       lacks_members(request, call, SC_COMM_LATE, deadline, &error);
        if (is_left || is_late)
            fail_world(world, &error);
    }
}

static shardc_status local_wait(sc_comm_request *request, shardc_error *error)
{
    local_world *world = request->group->comm->state;
    local_group *group = request->group->state;
    local_call *call = request->work;
    bool is_done = wait_for_call(request, call);
    if (!is_done) {
        while (atomic_load(&call->active) > 0)
            sched_yield();
    }
    leave_call(group, call, request->group->rank);
    return is_done ? SHARDC_OK : give_failure(world, error);
}

static void local_abort(sc_comm *comm, const shardc_error *error)
{
    fail_world(comm->state, error);
}

static shardc_status local_poll(sc_comm *comm, shardc_error *error)
{
    const local_world *world = comm->state;
    return atomic_load(&world->has_failed) ? give_failure(world, error) : SHARDC_OK;
}

static local_group *new_local_group(const sc_comm_group *like)
{
    local_group *group = calloc(1, sizeof *group);
    uint32_t *ranks = calloc(like->size, sizeof *ranks);
    if (group == NULL || ranks == NULL || pthread_mutex_init(&group->lock, NULL) != 0) {
        free(group);
        free(ranks);
        return NULL;
    }
    group->size = like->size;
    group->ordinal = like->ordinal;
    group->ranks = memcpy(ranks, like->ranks, like->size * sizeof *ranks);
    return group;
}

/* Finds the state shared by the group's members; the first member creates it. */
static shardc_status local_group_open(sc_comm_group *group, shardc_error *error)
{
    local_world *world = group->comm->state;
    pthread_mutex_lock(&world->lock);
    local_group *g = world->groups;
    while (g != NULL && (g->size != group->size || g->ordinal != group->ordinal ||
                         memcmp(g->ranks, group->ranks, g->size * sizeof *g->ranks) != 0))
        g = g->next;
    if (g == NULL && (g = new_local_group(group)) != NULL) {
        g->next = world->groups;
        world->groups = g;
    }
    if (g != NULL)
        g->users++;
    pthread_mutex_unlock(&world->lock);
    group->state = g;
    return g != NULL ? SHARDC_OK
                     : sc_fail(error, SHARDC_ERROR_MEMORY, "a group of %u ranks: out of memory",
                               group->size);
}

static void free_calls(local_call *calls)
{
    while (calls != NULL) {
        local_call *next = calls->next;
        free_call(calls);
        calls = next;
    }
}

static void local_group_close(sc_comm_group *group)
{
    local_world *world = group->comm->state;
    local_group *g = group->state;
    pthread_mutex_lock(&world->lock);
    bool is_last = --g->users == 0;
    if (is_last) {
        local_group **link = &world->groups;
        while (*link != g)
            link = &(*link)->next;
        *link = g->next;
    }
    pthread_mutex_unlock(&world->lock);
    if (!is_last)
        return;
    free_calls(g->calls);
    free_calls(g->unused);
    pthread_mutex_destroy(&g->lock);
    free(g->ranks);
    free(g);
}

static void free_world(local_world *world, uint32_t ranks)
{
    for (uint32_t i = 0; i < ranks; i++) {
        pthread_mutex_destroy(&world->ranks[i].lock);
        pthread_cond_destroy(&world->ranks[i].rung);
    }
    pthread_mutex_destroy(&world->lock);
    free(world);
}

static void local_leave(sc_comm *comm)
{
    local_world *world = comm->state;
    atomic_store(&world->ranks[comm->rank].is_gone, true);
    for (uint32_t i = 0; i < world->size; i++)
        ring(&world->ranks[i]);
}

static void local_close(sc_comm *comm)
{
    local_world *world = comm->state;
    pthread_mutex_lock(&world->lock);
    bool is_last = --world->users == 0;
    pthread_mutex_unlock(&world->lock);
    if (is_last)
        free_world(world, world->size);
}

static const sc_comm_backend local_backend = {
    .name = "local",
    .group_open = local_group_open,
    .group_close = local_group_close,
    .start = local_start,
    .wait = local_wait,
    .abort = local_abort,
    .leave = local_leave,
    .close = local_close,
    .poll = local_poll,
};

/* Deadlines use the monotonic clock. */
static bool init_rank(local_rank *rank)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool has_condition = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                         pthread_cond_init(&rank->rung, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (has_condition && pthread_mutex_init(&rank->lock, NULL) == 0)
        return true;
    if (has_condition)
        pthread_cond_destroy(&rank->rung);
    return false;
}

static local_world *new_world(uint32_t size)
{
    size_t bytes = sizeof(local_world) + size * sizeof(local_rank);
    local_world *world =
        aligned_alloc(_Alignof(local_rank), (bytes + _Alignof(local_rank) - 1) /
                                                _Alignof(local_rank) * _Alignof(local_rank));
    if (world == NULL)
        return NULL;
    memset(world, 0, bytes);
    world->size = size;
    if (pthread_mutex_init(&world->lock, NULL) != 0) {
        free(world);
        return NULL;
    }
    for (uint32_t i = 0; i < size; i++) {
        if (!init_rank(&world->ranks[i])) {
            free_world(world, i);
            return NULL;
        }
    }
    return world;
}

shardc_status sc_comm_open_local(uint32_t size, const sc_comm_options *options, sc_comm **out,
                                 shardc_error *error)
{
    if (size == 0 || size > SC_COMM_MAX_LOCAL_RANKS)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT,
                       "a world in one process has 1 to %d ranks, not %u",
                       (int)SC_COMM_MAX_LOCAL_RANKS, size);
    local_world *world = new_world(size);
    if (world == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "a world of %u ranks: out of memory", size);
    world->users = size + 1; /* plus this function, until all are open */
    uint32_t made = 0;
    while (made < size &&
           (out[made] = sc_comm_new(&local_backend, made, size, options, world, error)) != NULL)
        made++;
    bool is_complete = made == size;
    if (!is_complete) {
        for (uint32_t i = 0; i < made; i++) {
            sc_comm_close(out[i]);
            out[i] = NULL;
        }
    }
    pthread_mutex_lock(&world->lock);
    world->users -= 1 + (is_complete ? 0 : size - made);
    pthread_mutex_unlock(&world->lock);
    if (is_complete)
        return SHARDC_OK;
    free_world(world, size);
    return SHARDC_ERROR_MEMORY;
}
