/* The listening side of the rendezvous. Anybody may connect, but only ranks that know the secret
 * are accepted. Connections that are not yet authenticated are limited in number and time, and the
 * oldest is dropped first; a rank dropped that way connects again. So a flood of connections slows
 * a meeting down but does not break it. */
#define _GNU_SOURCE /* accept4 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/backend.h"
#include "runtime/comm/rendezvous_internal.h"
#include "support/clock.h"

enum {
    AT_ONCE = 32 /* connections accepted before pending ones are served again */,
    SHORTAGE_MS = 10,
    FLOODED = 1000
};

shardc_status sc_meet_listen(meeting *m, const struct sockaddr_storage *address, uint32_t wait_ms,
                             shardc_error *error)
{
    char name[MEET_ADDRESS_TEXT];
    uint64_t until = sc_milliseconds() + wait_ms;
    int on = 1, why;
    until = until < m->deadline ? until : m->deadline;
    for (;;) {
        m->listener = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (m->listener >= 0 &&
            setsockopt(m->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
            bind(m->listener, (const struct sockaddr *)address, sc_meet_address_length(address)) ==
                0 &&
            listen(m->listener, SC_RENDEZVOUS_MAX_RANKS) == 0)
            return SHARDC_OK;
        why = errno;
        if (m->listener >= 0)
            close(m->listener);
        m->listener = -1;
        if (why != EADDRINUSE || sc_meet_left_ms(until) == 0)
            break;
        poll(NULL, 0, MEET_RETRY_MS);
    }
    sc_meet_name_address(address, name, sizeof name);
    return sc_fail(error, SHARDC_ERROR_COMM, "rank %u cannot listen on %s: %s%s", m->rank, name,
                   strerror(why),
                   why == EADDRINUSE ? " (another job or service has it: set MASTER_PORT, or "
                                       "SHARDC_PORT, to another on all ranks)"
                                     : "");
}

/* ---- answers ---- */

static void answer(const meeting *m, const char *label, int socket, const uint8_t *nonce,
                   sc_meet_verdict verdict, const shardc_error *error, bool has_table,
                   uint64_t deadline)
{
    welcome_message welcome = {
        .magic = MEET_MAGIC, .verdict = (uint32_t)verdict, .status = (uint32_t)error->status};
    size_t table = has_table ? m->size * sizeof *m->places : 0;
    memcpy(welcome.world, m->world, sizeof welcome.world);
    snprintf(welcome.text, sizeof welcome.text, "%s", error->text);
    if (verdict != MEET_NO_SECRET)
        sc_meet_code(m, label, nonce, &welcome, offsetof(welcome_message, code), m->places, table,
                     welcome.code);
    if (sc_meet_move(socket, &welcome, sizeof welcome, true, deadline) == 0 && table > 0)
        sc_meet_move(socket, m->places, table, true, deadline);
}

void sc_meet_answer(const meeting *m, const char *label, uint32_t rank, sc_meet_verdict verdict,
                    const shardc_error *error, bool has_table, uint64_t deadline)
{
    answer(m, label, m->sockets[rank], m->nonces[rank], verdict, error, has_table, deadline);
}

shardc_status sc_meet_read_end(meeting *m, const uint8_t *nonce, uint64_t deadline,
                               shardc_error *error)
{
    welcome_message end = {0};
    uint8_t code[SC_SHA256_BYTES];
    int why = sc_meet_move(m->sockets[0], &end, sizeof end, false, deadline);
    if (why != 0)
        return sc_fail(
            error, why == ETIMEDOUT ? SHARDC_ERROR_TIMEOUT : SHARDC_ERROR_COMM,
            "rank %u lost rank 0 (%s) before every two of the %u ranks were connected: %s", m->rank,
            m->where, m->size, strerror(why));
    sc_meet_code(m, "end", nonce, &end, offsetof(welcome_message, code), NULL, 0, code);
    end.text[sizeof end.text - 1] = 0;
    if (end.magic != MEET_MAGIC || !sc_sha256_equal(code, end.code))
        return sc_fail(error, SHARDC_ERROR_COMM, "rank 0 (%s) sent an invalid message", m->where);
    if (end.verdict == MEET_WELCOME)
        return SHARDC_OK;
    return sc_fail(error, end.status == SHARDC_OK ? SHARDC_ERROR_COMM : (shardc_status)end.status,
                   "%s", end.text);
}

/* ---- strangers ---- */

static void drop_stranger(meeting *m, uint32_t index, bool closes)
{
    if (closes)
        close(m->strangers[index].socket);
    if (index != --m->stranger_count)
        m->strangers[index] = m->strangers[m->stranger_count];
}

void sc_meet_drop_strangers(meeting *m)
{
    while (m->stranger_count > 0)
        drop_stranger(m, 0, true);
}

static uint32_t find_oldest(const meeting *m)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < m->stranger_count; i++)
        oldest = m->strangers[i].since_ms < m->strangers[oldest].since_ms ? i : oldest;
    return oldest;
}

/* Makes room for one more connection, dropping the oldest stranger once its time is over. False: no
 * room. */
static bool make_room(meeting *m)
{
    if (m->stranger_count < MEET_STRANGERS)
        return true;
    uint32_t oldest = find_oldest(m);
    if (sc_milliseconds() - m->strangers[oldest].since_ms < MEET_STAY_MS)
        return false;
    m->turned_away.silent++;
    drop_stranger(m, oldest, true);
    return true;
}

/* Accepts a connection. False: none for now. */
static bool take_connection(meeting *m)
{
    hello_message hello = {.magic = MEET_MAGIC, .version = MEET_VERSION};
    int on = 1;
    if (!make_room(m))
        return false;
    int socket = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    /* out of descriptors: drop strangers, keep ranks */
    if (socket < 0 && (errno == EMFILE || errno == ENFILE)) {
        if (m->stranger_count > 0)
            drop_stranger(m, find_oldest(m), true);
        else
            poll(NULL, 0, SHORTAGE_MS);
        return false;
    }
    if (socket < 0)
        return errno == ECONNABORTED || errno == EINTR;
    stranger *s = &m->strangers[m->stranger_count];
    s->socket = socket;
    s->got = 0;
    s->since_ms = sc_milliseconds();
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    bool ok = sc_secret_random(s->nonce, MEET_NONCE, NULL) == SHARDC_OK;
    memcpy(hello.nonce, s->nonce, MEET_NONCE);
    if (ok && send(socket, &hello, sizeof hello, MSG_NOSIGNAL) == (ssize_t)sizeof hello)
        m->stranger_count++;
    else
        close(socket);
    return true;
}

/* ---- joins ---- */

/* Decides about a peer that knows the secret: OK, or why it is refused. */
static sc_meet_verdict judge(meeting *m, const stranger *s, uint32_t first, shardc_error *why)
{
    const join_message *j = &s->said.join;
    char difference[200];
    if (!sc_sha256_equal(j->job, m->job)) {
        m->turned_away.other_job++;
        sc_fail(why, SHARDC_ERROR_COMM, "it belongs to another job");
        return MEET_OTHER_JOB;
    }
    if (m->over != NULL) {
        *why = *m->over;
        return MEET_OVER;
    }
    if (j->size != m->size)
        sc_fail(why, SHARDC_ERROR_COMM,
                "rank %u was started as one of %u ranks, rank %u as one of %u", j->rank, j->size,
                m->rank, m->size);
    else if (j->to != m->rank || j->rank >= m->size || j->rank < first)
        sc_fail(why, SHARDC_ERROR_COMM, "rank %u took rank %u for rank %u", j->rank, m->rank,
                j->to);
    else if (m->rank > 0 && memcmp(j->world, m->world, sizeof m->world) != 0)
        sc_fail(why, SHARDC_ERROR_COMM, "rank %u met another rank 0 than rank %u", j->rank,
                m->rank);
    else if (m->sockets[j->rank] >= 0)
        sc_fail(why, SHARDC_ERROR_COMM, "two processes say that they are rank %u", j->rank);
    else if (m->rank == 0 && sc_identity_differs(s->said.text, j->rank, m->started_with, 0,
                                                 difference, sizeof difference))
        sc_fail(why, SHARDC_ERROR_ARGUMENT, "the ranks were started differently: %s", difference);
    else
        return MEET_WELCOME;
    if (m->rank == 0 && m->refused_ms == 0 && j->rank >= first && j->rank < m->size &&
        m->sockets[j->rank] < 0) {
        m->refused_ms = sc_milliseconds();
        m->refused_rank = j->rank;
        snprintf(m->refused_text, sizeof m->refused_text, "%s", why->text);
    }
    return MEET_OTHER_START;
}

/* Handles a join that has been read completely. */
static void take_join(meeting *m, uint32_t index, uint32_t first)
{
    stranger *s = &m->strangers[index];
    const join_message *j = &s->said.join;
    uint8_t code[SC_SHA256_BYTES];
    shardc_error why = {.status = SHARDC_OK, .text = ""};
    s->said.text[j->text_bytes] = 0;
    sc_meet_code(m, "join", s->nonce, j, offsetof(join_message, code), s->said.text, j->text_bytes,
                 code);
    sc_meet_verdict verdict =
        sc_sha256_equal(code, j->code) ? judge(m, s, first, &why) : MEET_NO_SECRET;
    m->turned_away.other_secret += verdict == MEET_NO_SECRET;
    if (verdict != MEET_WELCOME) {
        answer(m, "welcome", s->socket, j->nonce, verdict, &why, false, sc_milliseconds());
        drop_stranger(m, index, true);
        return;
    }
    socklen_t length = sizeof m->places[j->rank].address;
    m->sockets[j->rank] = s->socket;
    memcpy(m->nonces[j->rank], j->nonce, MEET_NONCE);
    getpeername(s->socket, (struct sockaddr *)&m->places[j->rank].address, &length);
    sc_meet_set_port(&m->places[j->rank].address, j->port);
    if (m->refused_ms != 0 && m->refused_rank == j->rank)
        m->refused_ms = 0;
    drop_stranger(m, index, false);
}

/* Returns how many bytes a stranger has to send in total; 0: what it sent is invalid. */
static size_t wanted_bytes(meeting *m, const stranger *s)
{
    const join_message *j = &s->said.join;
    size_t first = offsetof(join_message, rank);
    if (s->got < first)
        return first;
    if (j->magic != MEET_MAGIC || j->version != MEET_VERSION) {
        *(j->magic == MEET_MAGIC ? &m->turned_away.other_version : &m->turned_away.nonsense) += 1;
        return 0;
    }
    if (s->got < sizeof *j)
        return sizeof *j;
    if (j->text_bytes < SC_IDENTITY_ROOM)
        return sizeof *j + j->text_bytes;
    m->turned_away.nonsense++;
    return 0;
}

/* Reads from a stranger, and drops it if that is invalid or took too long. */
static void hear_stranger(meeting *m, uint32_t index, uint32_t first)
{
    stranger *s = &m->strangers[index];
    for (;;) {
        size_t wanted = wanted_bytes(m, s);
        if (wanted == 0) {
            drop_stranger(m, index, true);
            return;
        }
        if (s->got == wanted) {
            take_join(m, index, first);
            return;
        }
        ssize_t got = recv(s->socket, (char *)&s->said + s->got, wanted - s->got, 0);
        if (got > 0) {
            s->got += (size_t)got;
            continue;
        }
        bool is_waiting = got < 0 && (errno == EAGAIN || errno == EINTR);
        if (!is_waiting || sc_milliseconds() - s->since_ms > MEET_STRANGER_MS) {
            m->turned_away.silent++;
            drop_stranger(m, index, true);
        }
        return;
    }
}

/* ---- waiting ---- */

static size_t add_count(char *out, size_t size, size_t length, uint32_t count, const char *one,
                        const char *several)
{
    int written = count == 0 ? 0
                             : snprintf(out + length, size - length, "; %u %s", count,
                                        count == 1 ? one : several);
    return written > 0 && (size_t)written < size - length ? length + (size_t)written : length;
}

/* Describes other connections to the port, as a possible reason. */
static void name_others(const meeting *m, char *out, size_t size)
{
    const turned_away *t = &m->turned_away;
    size_t length = 0;
    *out = 0;
    length =
        add_count(out, size, length, t->other_secret, "came with another secret (SHARDC_SECRET)",
                  "came with another secret (SHARDC_SECRET)");
    length = add_count(out, size, length, t->other_version, "was of another version of shardc",
                       "were of another version of shardc");
    length = add_count(out, size, length, t->other_job, "came from another job",
                       "came from another job");
    length = add_count(out, size, length, t->nonsense, "connection sent invalid data",
                       "connections sent invalid data");
    if (t->silent > FLOODED)
        add_count(out, size, length, t->silent, "",
                  "connections sent nothing in time: strangers flood the port");
}

static shardc_status fail_absent(const meeting *m, uint32_t first, shardc_error *error)
{
    char list[128] = "", others[256];
    uint32_t count = 0;
    size_t length = 0;
    for (uint32_t r = first; r < m->size; r++) {
        if (r == m->rank || m->sockets[r] >= 0)
            continue;
        if (count++ < 12)
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%u",
                                       count == 1 ? "" : ", ", r);
        else if (count == 14)
            length += (size_t)snprintf(list + length, sizeof list - length, ", ..");
    }
    name_others(m, others, sizeof others);
    return sc_fail(error, SHARDC_ERROR_TIMEOUT,
                   "%u of %u ranks did not come to rank %u (%s) within %u ms: %s %s%s", count,
                   m->size, m->rank, m->where, m->join_ms, count == 1 ? "rank" : "ranks", list,
                   others);
}

/* Checks ranks that have joined: they must stay connected, and rank 0 must not send anything before
 * all are connected. */
static shardc_status check_watched(meeting *m, uint32_t first, const struct pollfd *polls,
                                   shardc_error *error)
{
    if (m->rank > 0)
        return polls[0].revents == 0
                   ? SHARDC_OK
                   : sc_meet_read_end(m, m->nonces[0], sc_milliseconds() + MEET_GRACE_MS, error);
    for (uint32_t r = first; r < m->size; r++) {
        if (polls[r - first].revents != 0)
            return sc_fail(error, SHARDC_ERROR_COMM, "rank %u left before all %u ranks had joined",
                           r, m->size);
    }
    return SHARDC_OK;
}

static uint32_t fill_polls(meeting *m, uint32_t first, bool is_full)
{
    uint32_t polls = 0;
    m->polls[polls++] = (struct pollfd){.fd = is_full ? -1 : m->listener, .events = POLLIN};
    for (uint32_t i = 0; i < m->stranger_count; i++)
        m->polls[polls++] = (struct pollfd){.fd = m->strangers[i].socket, .events = POLLIN};
    if (m->rank > 0) {
        m->polls[polls++] = (struct pollfd){.fd = m->sockets[0], .events = POLLIN};
        return polls;
    }
    for (uint32_t r = first; r < m->size; r++)
        m->polls[polls++] = (struct pollfd){
            .fd = m->sockets[r], .events = POLLIN}; /* negative descriptors are ignored by poll */
    return polls;
}

/* Serves connections for up to `wait` ms. Watched connections follow the strangers' in `polls`;
 * check_watched looks at them. */
static uint32_t serve(meeting *m, uint32_t first, int wait)
{
    bool is_full = !make_room(m);
    uint32_t heard = m->stranger_count, polls = fill_polls(m, first, is_full);
    int most = is_full ? SHORTAGE_MS : heard > 0 || m->refused_ms != 0 ? MEET_VERDICT_MS : wait;
    poll(m->polls, polls, wait < most ? wait : most);
    bool has_come = m->polls[0].revents != 0;
    /* backwards: a removal moves a later entry, already served, here */
    for (uint32_t i = heard; i-- > 0;)
        hear_stranger(m, i, first);
    if (has_come) {
        for (int i = 0; i < AT_ONCE && take_connection(m); i++)
            ;
    }
    return 1 + heard;
}

shardc_status sc_meet_wait_for_joins(meeting *m, uint32_t first, shardc_error *error)
{
    for (;;) {
        uint32_t missing = 0;
        for (uint32_t r = first; r < m->size; r++)
            missing += r != m->rank && m->sockets[r] < 0;
        if (missing == 0)
            return SHARDC_OK;
        if (sc_meet_left_ms(m->deadline) == 0)
            return fail_absent(m, first, error);
        if (m->refused_ms != 0 && sc_milliseconds() - m->refused_ms > MEET_DECIDE_MS)
            return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s", m->refused_text);
        uint32_t watched = serve(m, first, sc_meet_left_ms(m->deadline));
        shardc_status status = check_watched(m, first, m->polls + watched, error);
        if (status != SHARDC_OK)
            return status;
    }
}

void sc_meet_refuse_late(meeting *m, const shardc_error *error)
{
    uint64_t until = sc_milliseconds() + MEET_VERDICT_MS;
    m->over = error;
    for (uint32_t r = 1; r < m->size; r++) { /* they have been notified */
        if (m->sockets[r] >= 0)
            close(m->sockets[r]);
        m->sockets[r] = -1;
    }
    while (sc_meet_left_ms(until) > 0)
        serve(m, 1, sc_meet_left_ms(until));
}
