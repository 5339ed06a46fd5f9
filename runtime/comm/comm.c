/* The part of communicators common to all backends: checks arguments, copies and counts calls,
 * compares summaries, formats errors. */
#include "runtime/comm/backend.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/collective.h"
#include "support/hash.h"
#include "support/number.h"

const char *const sc_comm_kind_names[SC_COMM_KINDS] = {
#define COLLECTIVE(name, NAME, traits, shares, whole) #name,
#include "program/collectives.def"
    "barrier"};
const char *const sc_comm_reduce_names[SC_COMM_REDUCES] = {"", "sum", "max", "min"};

/* A message under construction in a buffer of fixed size; truncated if it does not fit. */
typedef struct message {
    char text[sizeof((shardc_error *)0)->text];
    size_t length;
} message;

__attribute__((format(printf, 2, 3))) static void add(message *m, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = sc_vsnprintf(m->text + m->length, sizeof m->text - m->length, format, arguments);
    va_end(arguments);
    size_t room = sizeof m->text - m->length - 1;
    m->length += written < 0 ? 0 : (size_t)written < room ? (size_t)written : room;
}

/* Appends "rank 2 (stage 1)", without the stage if there are none. */
static void add_rank(message *m, const sc_comm *comm, uint32_t rank)
{
    add(m, "rank %u", rank);
    if (comm->stage_count > 1)
        add(m, " (stage %u)", rank / comm->stage_divide % comm->stage_count);
}

static void add_summary(message *m, const sc_comm_group *group, const sc_comm_summary *s)
{
    add(m, "%s", sc_comm_kind_names[s->kind]);
    if (s->reduce != SC_COMM_NONE)
        add(m, "(%s)", sc_comm_reduce_names[s->reduce]);
    for (uint32_t i = 0; i < s->part_count && i < SC_COMM_SHOWN_PARTS; i++)
        add(m, "%s%s[%" PRId64 "]", i == 0 ? " of " : ", ", sc_dtypes[s->dtypes[i]].name,
            s->counts[i]);
    if (s->part_count > SC_COMM_SHOWN_PARTS)
        add(m, " and %u more, %" PRId64 " bytes", s->part_count - SC_COMM_SHOWN_PARTS, s->bytes);
    bool has_from = sc_collective_has(s->kind, SC_COLLECTIVE_FROM);
    if (has_from && s->from >= 0)
        add(m, " from rank %u", group->ranks[s->from]);
    if (sc_collective_has(s->kind, SC_COLLECTIVE_TO) && s->to >= 0)
        add(m, " to rank %u", group->ranks[s->to]);
    if (s->what[0] != 0)
        add(m, " (%s)", s->what);
}

/* Appends the flagged members (NULL: all, without their stages) as "2, 5". */
static void add_ranks(message *m, const sc_comm_group *group, const bool *flags)
{
    const sc_comm *comm = group->comm;
    uint32_t shown = 0;
    for (uint32_t i = 0; i < group->size; i++) {
        if (flags != NULL && !flags[i])
            continue;
        if (shown == 12) {
            add(m, ", ..");
            return;
        }
        add(m, "%s%u", shown++ == 0 ? "" : ", ", group->ranks[i]);
        if (flags != NULL && comm->stage_count > 1)
            add(m, " (stage %u)", group->ranks[i] / comm->stage_divide % comm->stage_count);
    }
}

static void add_place(message *m, const sc_comm_request *request)
{
    if (request->lane == 0)
        add(m, "call %" PRIu64 " of group ", request->number);
    else
        add(m, "message %" PRIu64 " in group ", request->number);
    add_ranks(m, request->group, NULL);
    if (request->group->ordinal > 0)
        add(m, " (its group %u)", request->group->ordinal);
}

/* Appends ": rank 0 calls send of f32[4] to rank 2". */
static void add_own_call(message *m, const sc_comm_request *mine)
{
    add(m, ": ");
    add_rank(m, mine->group->comm, mine->group->comm->rank);
    add(m, " calls ");
    add_summary(m, mine->group, &mine->summary);
}

shardc_status sc_comm_fail_mismatch(shardc_error *error, const sc_comm_request *mine,
                                    const sc_comm_summary *a, uint32_t rank_a,
                                    const sc_comm_summary *b, uint32_t rank_b)
{
    message m = {.length = 0};
    const sc_comm_group *group = mine->group;
    if (rank_a > rank_b) {
        sc_comm_fail_mismatch(error, mine, b, rank_b, a, rank_a);
        return SHARDC_ERROR_COMM;
    }
    add_place(&m, mine);
    add(&m, ": ");
    add_rank(&m, group->comm, group->ranks[rank_a]);
    add(&m, " calls ");
    add_summary(&m, group, a);
    add(&m, ", ");
    add_rank(&m, group->comm, group->ranks[rank_b]);
    add(&m, " calls ");
    add_summary(&m, group, b);
    return sc_fail(error, SHARDC_ERROR_COMM, "%s", m.text);
}

shardc_status sc_comm_fail_missing(shardc_error *error, sc_comm_absence absence,
                                   const sc_comm_request *mine, const bool *is_missing,
                                   uint32_t waited_ms)
{
    message m = {.length = 0};
    uint32_t missing = 0;
    for (uint32_t i = 0; i < mine->group->size; i++)
        missing += is_missing[i];
    add_place(&m, mine);
    add_own_call(&m, mine);
    add(&m, ", but %s ", missing == 1 ? "rank" : "ranks");
    add_ranks(&m, mine->group, is_missing);
    switch (absence) {
    case SC_COMM_LATE:
        add(&m, " did not within %u ms", waited_ms);
        break;
    case SC_COMM_STALLED:
        add(&m, " started it and made no progress for %u ms", waited_ms);
        break;
    default:
        add(&m, " closed %s communicator before", missing == 1 ? "its" : "their");
        break;
    }
    return sc_fail(error, absence == SC_COMM_GONE ? SHARDC_ERROR_COMM : SHARDC_ERROR_TIMEOUT, "%s",
                   m.text);
}

shardc_status sc_comm_fail_lost(shardc_error *error, shardc_status status, const sc_comm *comm,
                                const sc_comm_request *mine, uint32_t lost, const char *why)
{
    message m = {.length = 0};
    if (mine != NULL) {
        add_place(&m, mine);
        add_own_call(&m, mine);
        add(&m, ", but ");
    }
    add_rank(&m, comm, lost);
    add(&m, " is lost: %s", why);
    return sc_fail(error, status, "%s", m.text);
}

static bool reads_source(const sc_comm_group *group, const sc_comm_call *call)
{
    switch (call->kind) {
    case SC_COMM_PERMUTE:
        return call->to != SC_COMM_NOBODY;
    case SC_COMM_BROADCAST:
        return call->from == (int32_t)group->rank;
    default:
        return call->kind != SC_COMM_RECV;
    }
}

static bool writes_destination(const sc_comm_call *call)
{
    return call->kind == SC_COMM_PERMUTE ? call->from != SC_COMM_NOBODY
                                         : call->kind != SC_COMM_SEND;
}

static shardc_status check_part(const sc_comm_group *group, const sc_comm_call *call,
                                uint32_t index, shardc_error *error)
{
    const sc_comm_part *part = &call->parts[index];
    const char *name = sc_comm_kind_names[call->kind];
    if ((uint32_t)part->dtype >= SC_DTYPE_COUNT)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s: part %u has no known dtype (%d)", name,
                       index, (int)part->dtype);
    uint8_t bytes = sc_dtypes[part->dtype].bytes;
    if (part->count < 0 || part->count > INT64_MAX / bytes)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s: part %u has %" PRId64 " elements", name,
                       index, part->count);
    if (sc_collective_has(call->kind, SC_COLLECTIVE_DIVIDES) && part->count % group->size != 0)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT,
                       "%s: the %" PRId64
                       " elements of part %u do not divide by the %u ranks of the group",
                       name, part->count, index, group->size);
    bool has_source = reads_source(group, call), has_destination = writes_destination(call);
    if (part->count > 0 &&
        ((has_source && part->source == NULL) || (has_destination && part->destination == NULL)))
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s: part %u has no %s", name, index,
                       has_source && part->source == NULL ? "source" : "destination");
    if ((has_source && (uintptr_t)part->source % bytes != 0) ||
        (has_destination && (uintptr_t)part->destination % bytes != 0))
        return sc_fail(error, SHARDC_ERROR_ARGUMENT,
                       "%s: part %u is not aligned to its %u-byte elements", name, index,
                       (unsigned)bytes);
    return SHARDC_OK;
}

static shardc_status check_peer(const sc_comm_group *group, const sc_comm_call *call, int32_t peer,
                                const char *name, shardc_error *error)
{
    if (call->kind == SC_COMM_PERMUTE && peer == SC_COMM_NOBODY)
        return SHARDC_OK;
    if (peer < 0 || (uint32_t)peer >= group->size)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s: `%s` is %d in a group of %u ranks",
                       sc_comm_kind_names[call->kind], name, (int)peer, group->size);
    if ((call->kind == SC_COMM_SEND || call->kind == SC_COMM_RECV) && (uint32_t)peer == group->rank)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s: `%s` is the rank itself",
                       sc_comm_kind_names[call->kind], name);
    return SHARDC_OK;
}

static shardc_status check_call(const sc_comm_group *group, const sc_comm_call *call,
                                shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    if ((uint32_t)call->kind >= SC_COMM_KINDS)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "no such kind of call: %d", (int)call->kind);
    const char *name = sc_comm_kind_names[call->kind];
    bool is_reduce = (uint32_t)call->reduce < SC_COMM_REDUCES && call->reduce != SC_COMM_NONE;
    if (sc_collective_has(call->kind, SC_COLLECTIVE_REDUCES) ? !is_reduce
                                                             : call->reduce != SC_COMM_NONE)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s: %s (%d)", name,
                       sc_collective_has(call->kind, SC_COLLECTIVE_REDUCES) ? "no such reduction"
                                                                            : "it reduces nothing",
                       (int)call->reduce);
    if (call->kind == SC_COMM_BARRIER && call->part_count != 0)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s: it has no parts", name);
    if (call->part_count > 0 && call->parts == NULL)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s: the parts are missing", name);
    if (sc_collective_has(call->kind, SC_COLLECTIVE_TO))
        status = check_peer(group, call, call->to, "to", error);
    if (status == SHARDC_OK && sc_collective_has(call->kind, SC_COLLECTIVE_FROM))
        status = check_peer(group, call, call->from, "from", error);
    int64_t total = 0;
    for (uint32_t i = 0; i < call->part_count; i++) {
        if (status != SHARDC_OK)
            break;
        status = check_part(group, call, i, error);
        if (status == SHARDC_OK &&
            __builtin_add_overflow(
                total, call->parts[i].count * sc_dtypes[call->parts[i].dtype].bytes, &total))
            status = sc_fail(error, SHARDC_ERROR_ARGUMENT,
                             "%s: the parts have more bytes than 64 bits count", name);
    }
    return status;
}

static void summarise(const sc_comm_call *call, sc_comm_summary *out)
{
    memset(out, 0, sizeof *out); /* it is sent: leave no byte undefined */
    out->kind = call->kind;
    out->reduce = call->reduce;
    out->to = sc_collective_has(call->kind, SC_COLLECTIVE_TO) ? call->to : SC_COMM_NOBODY;
    out->from = sc_collective_has(call->kind, SC_COLLECTIVE_FROM) ? call->from : SC_COMM_NOBODY;
    out->part_count = call->part_count;
    for (uint32_t i = 0; i < call->part_count; i++) {
        const sc_comm_part *part = &call->parts[i];
        out->parts_hash = sc_hash_mix(out->parts_hash, (uint64_t)part->dtype + 1);
        out->parts_hash = sc_hash_mix(out->parts_hash, (uint64_t)part->count);
        out->bytes += part->count * sc_dtypes[part->dtype].bytes;
        if (i < SC_COMM_SHOWN_PARTS) {
            out->dtypes[i] = part->dtype;
            out->counts[i] = part->count;
        }
    }
    if (call->what != NULL)
        snprintf(out->what, sizeof out->what, "%s", call->what);
}

bool sc_comm_compares_all(const sc_comm_summary *summary)
{
    return summary->kind == SC_COMM_PERMUTE;
}

bool sc_comm_summaries_fit(const sc_comm_summary *a, uint32_t rank_a, const sc_comm_summary *b,
                           uint32_t rank_b)
{
    if (a->part_count != b->part_count || a->bytes != b->bytes || a->parts_hash != b->parts_hash)
        return false;
    if (a->kind == SC_COMM_SEND || a->kind == SC_COMM_RECV) /* the lane identifies both peers */
        return b->kind == (a->kind == SC_COMM_SEND ? SC_COMM_RECV : SC_COMM_SEND);
    if (a->kind != b->kind || a->reduce != b->reduce)
        return false;
    if (a->kind == SC_COMM_PERMUTE)
        return (a->to == (int32_t)rank_b) == (b->from == (int32_t)rank_a) &&
               (b->to == (int32_t)rank_a) == (a->from == (int32_t)rank_b);
    return a->from == b->from;
}

/* Bytes that all_to_all parts need not send. */
static double not_given(const sc_comm_group *group, const sc_comm_call *call)
{
    double bytes = 0;
    for (uint32_t p = 0; p < call->part_count; p++) {
        const sc_comm_part *part = &call->parts[p];
        if (part->gives == NULL)
            continue;
        for (uint32_t j = 0; j < group->size; j++) {
            int64_t kept = part->count / group->size - part->gives[j];
            bytes += j == group->rank ? 0 : (double)kept * sc_dtypes[part->dtype].bytes;
        }
    }
    return bytes;
}

static void count_summary(sc_comm_group *group, const sc_comm_summary *summary,
                          const sc_comm_call *call)
{
    sc_comm_counter *counter = &group->comm->counters[summary->kind];
    bool is_to_nobody = sc_collective_has(summary->kind, SC_COLLECTIVE_TO) &&
                        (summary->to == SC_COMM_NOBODY || summary->to == (int32_t)group->rank);
    counter->calls++;
    counter->bytes += (uint64_t)summary->bytes;
    if (summary->kind != SC_COMM_BARRIER && !is_to_nobody)
        counter->sent += sc_collective_sent((sc_image_collective_kind)summary->kind,
                                            (double)summary->bytes, (double)group->size) -
                         not_given(group, call);
}

void sc_comm_count(sc_comm_group *group, const sc_comm_call *call)
{
    sc_comm_summary summary;
    summarise(call, &summary);
    count_summary(group, &summary, call);
}

/* Takes an unused request with memory for the parts; NULL: out of memory. */
static sc_comm_request *take_request(sc_comm *comm, uint32_t part_count)
{
    pthread_mutex_lock(&comm->lock);
    sc_comm_request *request = comm->unused;
    if (request != NULL)
        comm->unused = request->next;
    pthread_mutex_unlock(&comm->lock);
    if (request == NULL)
        request = calloc(1, sizeof *request);
    if (request != NULL && request->part_room < part_count) {
        sc_comm_part *parts = realloc(request->parts, part_count * sizeof *parts);
        if (parts == NULL) {
            free(request->parts);
            free(request);
            return NULL;
        }
        request->parts = parts;
        request->part_room = part_count;
    }
    return request;
}

static void put_in_flight(sc_comm *comm, sc_comm_request *request)
{
    pthread_mutex_lock(&comm->lock);
    request->previous = NULL;
    request->next = comm->in_flight;
    if (request->next != NULL)
        request->next->previous = request;
    comm->in_flight = request;
    pthread_mutex_unlock(&comm->lock);
}

static void put_back(sc_comm *comm, sc_comm_request *request)
{
    pthread_mutex_lock(&comm->lock);
    if (request->next != NULL)
        request->next->previous = request->previous;
    if (request->previous != NULL)
        request->previous->next = request->next;
    else
        comm->in_flight = request->next;
    request->next = comm->unused;
    comm->unused = request;
    pthread_mutex_unlock(&comm->lock);
}

static void give_number(sc_comm_group *group, sc_comm_request *request)
{
    const sc_comm_call *call = &request->call;
    uint64_t *next = &group->next_number, n = group->size;
    request->lane = 0;
    if (call->kind == SC_COMM_SEND) {
        next = &group->next_send[call->to];
        request->lane = 1 + group->rank * n + (uint64_t)call->to;
    } else if (call->kind == SC_COMM_RECV) {
        next = &group->next_recv[call->from];
        request->lane = 1 + (uint64_t)call->from * n + group->rank;
    }
    request->number = (*next)++;
}

void sc_comm_describe(const sc_comm_group *group, const sc_comm_call *call, char *out, size_t size)
{
    message m = {.length = 0};
    sc_comm_summary summary;
    summarise(call, &summary);
    add_summary(&m, group, &summary);
    add(&m, " in group ");
    add_ranks(&m, group, NULL);
    snprintf(out, size, "%s", m.text);
}

shardc_status sc_comm_start(sc_comm_group *group, const sc_comm_call *call, sc_comm_request **out,
                            shardc_error *error)
{
    sc_comm *comm = group->comm;
    shardc_status status = check_call(group, call, error);
    if (status != SHARDC_OK)
        return status;
    sc_comm_request *request = take_request(comm, call->part_count);
    if (request == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "%s: out of memory",
                       sc_comm_kind_names[call->kind]);
    request->group = group;
    request->call = *call;
    request->call.parts = request->parts;
    if (call->part_count > 0)
        memcpy(request->parts, call->parts, call->part_count * sizeof *call->parts);
    summarise(call, &request->summary);
    give_number(group, request);
    request->work = NULL;
    put_in_flight(comm, request);
    status = comm->backend->start(request, error);
    if (status != SHARDC_OK) {
        put_back(comm, request);
        return status;
    }
    if (!call->is_uncounted)
        count_summary(group, &request->summary, call);
    *out = request;
    return SHARDC_OK;
}

shardc_status sc_comm_wait(sc_comm_request *request, shardc_error *error)
{
    sc_comm *comm = request->group->comm;
    shardc_status status = comm->backend->wait(request, error);
    put_back(comm, request);
    return status;
}

void sc_comm_progress(sc_comm *comm)
{
    if (comm->backend->progress != NULL)
        comm->backend->progress(comm);
}

shardc_status sc_comm_run(sc_comm_group *group, const sc_comm_call *call, shardc_error *error)
{
    sc_comm_request *request = NULL;
    shardc_status status = sc_comm_start(group, call, &request, error);
    return request != NULL ? sc_comm_wait(request, error) : status;
}

shardc_status sc_comm_barrier(sc_comm_group *group, shardc_error *error)
{
    return sc_comm_run(group, &(sc_comm_call){.kind = SC_COMM_BARRIER}, error);
}

void sc_comm_abort(sc_comm *comm, const char *why)
{
    shardc_error error;
    message m = {.length = 0};
    add_rank(&m, comm, comm->rank);
    add(&m, " gave up: %s", why);
    sc_fail(&error, SHARDC_ERROR_COMM, "%s", m.text);
    comm->backend->abort(comm, &error);
}

shardc_status sc_comm_poll(sc_comm *comm, shardc_error *error)
{
    return comm->backend->poll(comm, error);
}

const char *sc_comm_backend_name(const sc_comm *comm)
{
    return comm->backend->name;
}

uint32_t sc_comm_rank(const sc_comm *comm)
{
    return comm->rank;
}

uint32_t sc_comm_size(const sc_comm *comm)
{
    return comm->size;
}

sc_comm_group *sc_comm_world(sc_comm *comm)
{
    return comm->world;
}

void sc_comm_set_stages(sc_comm *comm, uint32_t divide, uint32_t count)
{
    comm->stage_divide = divide;
    comm->stage_count = count;
}

void sc_comm_set_deadline(sc_comm *comm, uint32_t deadline_ms)
{
    atomic_store(&comm->deadline_ms, deadline_ms);
}

uint32_t sc_comm_group_rank(const sc_comm_group *group)
{
    return group->rank;
}

uint32_t sc_comm_group_size(const sc_comm_group *group)
{
    return group->size;
}

const sc_comm_counter *sc_comm_counters(const sc_comm *comm)
{
    return comm->counters;
}

void sc_comm_reset_counters(sc_comm *comm)
{
    memset(comm->counters, 0, sizeof comm->counters);
}
