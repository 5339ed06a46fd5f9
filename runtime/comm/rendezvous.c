/* The joining side of the rendezvous, and the protocol as a whole.
 *
 * A connection begins with three messages. The listener says hello; the other side joins; it is
 * welcomed if its code is right, its job is the same, and it was started as rank 0 was. Rank 0
 * sends welcome once all ranks have joined, with every rank's listening address. Then rank k
 * connects to 1 .. k - 1 in this order and accepts connections from higher ranks. A rank that waits
 * for a lower rank waits for one with less left to do, so there is no cycle of waits. At the end
 * rank 0 collects "ready" from all ranks, closes its port and releases them; so a second meeting on
 * the same port cannot collide with the first. Meanwhile rank 0 detects lost ranks and tells the
 * others.
 *
 * A rank that is refused tries again: it may have been dropped among strangers, or another job may
 * own the port at the moment. */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/backend.h"
#include "runtime/comm/rendezvous_internal.h"
#include "support/clock.h"
#include "support/environment.h"

static uint32_t port_of(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET
                     ? ((const struct sockaddr_in *)(const void *)address)->sin_port
                     : ((const struct sockaddr_in6 *)(const void *)address)->sin6_port);
}

/* ---- addresses ---- */

static shardc_status choose_port(const sc_launch *launch, uint32_t *out, shardc_error *error)
{
    int64_t port = 0;
    char why[SC_ENVIRONMENT_WHY];
    if (!sc_environment_i64("SHARDC_PORT", 1, 65535, &port, why))
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s", why);
    if (port != 0) {
        *out = (uint32_t)port;
        return SHARDC_OK;
    }
    if (launch->port == 0)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT,
                       "MASTER_PORT is not set: it says on which port of rank 0 the %u ranks meet",
                       launch->size);
    *out = launch->launcher == SC_LAUNCH_TORCHRUN ? (launch->port < 65535 ? launch->port + 1 : 1024)
                                                  : launch->port;
    return SHARDC_OK;
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 ==
               127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static shardc_status choose_address(const sc_launch *launch, struct sockaddr_storage *out,
                                    shardc_error *error)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    const char *host = launch->address[0] == 0 ? "127.0.0.1" : launch->address;
    char service[16];
    uint32_t port = 0;
    memset(out, 0, sizeof *out);
    shardc_status status = choose_port(launch, &port, error);
    if (status != SHARDC_OK)
        return status;
    snprintf(service, sizeof service, "%u", port);
    int code = getaddrinfo(host, service, &hints, &found);
    if (code != 0)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "MASTER_ADDR is '%s': %s", host,
                       gai_strerror(code));
    const struct addrinfo *chosen = found;
    /* the name has both address families; all ranks must choose the same */
    while (chosen->ai_next != NULL && chosen->ai_family != AF_INET)
        chosen = chosen->ai_next;
    bool is_known = chosen->ai_family == AF_INET || chosen->ai_family == AF_INET6;
    if (is_known)
        memcpy(out, chosen->ai_addr, chosen->ai_addrlen);
    freeaddrinfo(found);
    return is_known ? SHARDC_OK
                    : sc_fail(error, SHARDC_ERROR_ARGUMENT,
                              "MASTER_ADDR is '%s', which is not an IP address", host);
}

/* ---- joining ---- */

/* Result of one attempt to join. */
typedef enum attempt {
    JOINED,
    NOT_THERE,  /* connection refused: no listener */
    NOT_HEARD,  /* the listener did not complete the exchange */
    OTHER_JOB,  /* its own rank 0 may get the port later */
    NOT_LET_IN, /* final, or for some seconds possibly another job's listener */
    NEVER
} attempt;

static attempt not_let_in(const meeting *m, uint32_t rank, const struct sockaddr_storage *address,
                          attempt how, const char *what, shardc_error *error)
{
    char name[MEET_ADDRESS_TEXT];
    sc_meet_name_address(address, name, sizeof name);
    sc_fail(error, SHARDC_ERROR_COMM, "rank %u was rejected by rank %u (%s): %s", m->rank, rank,
            name, what);
    return how;
}

/* A connection error. Its text becomes the error if the deadline passes. */
static attempt not_connected(attempt how, const char *what, shardc_error *error)
{
    sc_fail(error, SHARDC_ERROR_TIMEOUT, "%s", what);
    return how;
}

/* Connects, and reads the listener's hello. */
static attempt connect_once(meeting *m, uint32_t rank, const struct sockaddr_storage *address,
                            hello_message *hello, shardc_error *error)
{
    int on = 1, why = 0;
    socklen_t size = sizeof why;
    uint64_t deadline = sc_milliseconds() + MEET_HELLO_MS;
    deadline = deadline < m->deadline ? deadline : m->deadline;
    int to = m->sockets[rank] =
        socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (to < 0)
        return not_let_in(m, rank, address, NEVER, strerror(errno), error);
    if (connect(to, (const struct sockaddr *)address, sc_meet_address_length(address)) != 0 &&
        errno != EINPROGRESS)
        why = errno;
    struct pollfd p = {.fd = to, .events = POLLOUT};
    if (why == 0 && poll(&p, 1, sc_meet_left_ms(deadline)) == 0)
        why = ETIMEDOUT;
    if (why == 0)
        getsockopt(to, SOL_SOCKET, SO_ERROR, &why, &size);
    if (why != 0)
        return not_connected(NOT_THERE, strerror(why), error);
    why = sc_meet_move(to, hello, sizeof *hello, false, deadline);
    if (why != 0)
        return not_connected(NOT_HEARD, "the process that listens there does not answer", error);
    if (hello->magic != MEET_MAGIC)
        return not_let_in(m, rank, address, NEVER,
                          "something else listens there (set MASTER_PORT, or SHARDC_PORT, to "
                          "another on all ranks)",
                          error);
    if (hello->version != MEET_VERSION)
        return not_let_in(m, rank, address, NEVER,
                          "it runs another version of shardc: all ranks need the same", error);
    setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return JOINED;
}

/* Listens on the local address from which this rank reaches rank 0. */
static shardc_status listen_beside(meeting *m, uint32_t *out_port, shardc_error *error)
{
    struct sockaddr_storage own = {0};
    socklen_t length = sizeof own;
    if (getsockname(m->sockets[0], (struct sockaddr *)&own, &length) != 0)
        return sc_fail(error, SHARDC_ERROR_COMM, "rank %u has no address: %s", m->rank,
                       strerror(errno));
    sc_meet_set_port(&own, 0);
    shardc_status status = sc_meet_listen(m, &own, 0, error);
    length = sizeof own;
    if (status == SHARDC_OK && getsockname(m->listener, (struct sockaddr *)&own, &length) == 0)
        *out_port = port_of(&own);
    return status;
}

static attempt read_welcome(meeting *m, uint32_t rank, const struct sockaddr_storage *address,
                            const uint8_t *nonce, shardc_error *error)
{
    welcome_message welcome = {0};
    uint8_t code[SC_SHA256_BYTES];
    size_t table = rank == 0 ? m->size * sizeof *m->places : 0;
    uint64_t deadline = m->deadline + MEET_GRACE_MS;
    int why = sc_meet_move(m->sockets[rank], &welcome, sizeof welcome, false, deadline);
    if (why == 0 && (welcome.magic != MEET_MAGIC || welcome.verdict != MEET_WELCOME))
        table = 0;
    if (why == 0 && table > 0)
        why = sc_meet_move(m->sockets[rank], m->places, table, false, deadline);
    if (why == ETIMEDOUT)
        return not_let_in(m, rank, address, NEVER, "it did not confirm that all ranks have joined",
                          error);
    if (why != 0)
        return not_connected(
            NOT_HEARD, "the process that listens there closed the connection before it answered",
            error);
    if (welcome.magic == MEET_MAGIC && welcome.verdict == MEET_NO_SECRET)
        return not_let_in(m, rank, address, NOT_LET_IN, "it has another secret (SHARDC_SECRET)",
                          error);
    sc_meet_code(m, "welcome", nonce, &welcome, offsetof(welcome_message, code), m->places, table,
                 code);
    if (welcome.magic != MEET_MAGIC || !sc_sha256_equal(code, welcome.code))
        return not_let_in(m, rank, address, NOT_LET_IN,
                          "it does not know the secret (SHARDC_SECRET)", error);
    welcome.text[sizeof welcome.text - 1] = 0;
    switch ((sc_meet_verdict)welcome.verdict) {
    case MEET_WELCOME:
        if (rank == 0)
            memcpy(m->world, welcome.world, sizeof m->world);
        return JOINED;
    case MEET_OTHER_JOB:
        return not_let_in(m, rank, address, OTHER_JOB, welcome.text, error);
    default:
        sc_fail(error,
                welcome.status == SHARDC_OK ? SHARDC_ERROR_COMM : (shardc_status)welcome.status,
                "%s", welcome.text);
        return welcome.verdict == MEET_OTHER_START ? NOT_LET_IN : NEVER;
    }
}

static attempt join_once(meeting *m, uint32_t rank, const struct sockaddr_storage *address,
                         uint32_t *port, uint8_t nonce[MEET_NONCE], shardc_error *error)
{
    hello_message hello;
    join_message j = {
        .magic = MEET_MAGIC, .version = MEET_VERSION, .rank = m->rank, .size = m->size, .to = rank};
    attempt how = connect_once(m, rank, address, &hello, error);
    if (how == JOINED && *port == 0 && listen_beside(m, port, error) != SHARDC_OK)
        how = NEVER;
    if (how == JOINED && sc_secret_random(j.nonce, sizeof j.nonce, error) != SHARDC_OK)
        how = NEVER;
    if (how != JOINED)
        return how;
    j.port = *port;
    j.text_bytes = rank == 0 ? (uint32_t)strlen(m->started_with) : 0;
    memcpy(j.job, m->job, sizeof j.job);
    memcpy(j.world, m->world, sizeof j.world);
    memcpy(nonce, j.nonce, MEET_NONCE);
    sc_meet_code(m, "join", hello.nonce, &j, offsetof(join_message, code), m->started_with,
                 j.text_bytes, j.code);
    /* an error shows when the answer is read */
    sc_meet_move(m->sockets[rank], &j, sizeof j, true, m->deadline);
    sc_meet_move(m->sockets[rank], (char *)(uintptr_t)m->started_with, j.text_bytes, true,
                 m->deadline);
    return read_welcome(m, rank, address, j.nonce, error);
}

static shardc_status fail_late(const meeting *m, uint32_t rank,
                               const struct sockaddr_storage *address, const shardc_error *last,
                               shardc_error *error)
{
    char name[MEET_ADDRESS_TEXT];
    sc_meet_name_address(address, name, sizeof name);
    return sc_fail(error, SHARDC_ERROR_TIMEOUT, "rank %u waited %u ms for rank %u (%s): %s",
                   m->rank, m->join_ms, rank, name, last->text);
}

/* Joins, with retries: the listener may not be there yet, may have dropped this rank among
 * strangers, or may belong to another job. */
static shardc_status join(meeting *m, uint32_t rank, const struct sockaddr_storage *address,
                          uint32_t *port, uint8_t nonce[MEET_NONCE], shardc_error *error)
{
    shardc_error last = {.status = SHARDC_OK, .text = ""}, refusal = {.status = SHARDC_OK};
    uint64_t refused_ms = 0, gone_ms = 0;
    bool was_there = rank > 0; /* it listened before rank 0 sent out its address */
    for (;;) {
        attempt how = join_once(m, rank, address, port, nonce, &last);
        uint64_t now = sc_milliseconds();
        if (how == JOINED)
            return SHARDC_OK;
        if (m->sockets[rank] >= 0)
            close(m->sockets[rank]);
        m->sockets[rank] = -1;
        if (how == NEVER)
            return sc_fail(error, last.status, "%s", last.text);
        if (how == NOT_LET_IN) {
            refused_ms = refused_ms == 0 ? now : refused_ms;
            refusal = last;
        }
        /* a rank 0 of another job does not count */
        was_there = how == NOT_THERE ? was_there : rank > 0 || how == NOT_HEARD;
        gone_ms = how != NOT_THERE || !was_there ? 0 : gone_ms == 0 ? now : gone_ms;
        struct pollfd first = {.fd = rank > 0 ? m->sockets[0] : -1, .events = POLLIN};
        /* rank 0 knows why this rank is unreachable, or is lost itself */
        if (poll(&first, 1, 0) > 0)
            return sc_meet_read_end(m, m->nonces[0], now + MEET_GRACE_MS, error);
        if (refused_ms != 0 &&
            (now - refused_ms > MEET_REFUSED_MS || sc_meet_left_ms(m->deadline) == 0))
            return sc_fail(error, refusal.status, "%s", refusal.text);
        if (refused_ms == 0 && gone_ms != 0 && now - gone_ms > MEET_REFUSED_MS) {
            not_let_in(m, rank, address, NEVER, "it joined and ended before all ranks had joined",
                       error);
            return SHARDC_ERROR_COMM;
        }
        if (sc_meet_left_ms(m->deadline) == 0)
            return fail_late(m, rank, address, &last, error);
        int rest = sc_meet_left_ms(m->deadline);
        poll(NULL, 0, rest < MEET_RETRY_MS ? rest : MEET_RETRY_MS);
    }
}

/* ---- the meeting ---- */

static shardc_status fail_unready(const meeting *m, const bool *is_ready, shardc_error *error)
{
    char list[128] = "";
    size_t length = 0;
    for (uint32_t r = 1; r < m->size && length + 16 < sizeof list; r++) {
        if (!is_ready[r])
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%u",
                                       length == 0 ? "" : ", ", r);
    }
    return sc_fail(error, SHARDC_ERROR_TIMEOUT,
                   "ranks did not connect with all others within %u ms: %s",
                   m->join_ms + MEET_GRACE_MS, list);
}

/* Waits until every rank reports that it is connected with all others. */
static shardc_status wait_for_ready(meeting *m, bool *is_ready, uint64_t deadline,
                                    shardc_error *error)
{
    for (uint32_t missing = m->size - 1; missing > 0;) {
        for (uint32_t r = 1; r < m->size; r++)
            m->polls[r] = (struct pollfd){.fd = is_ready[r] ? -1 : m->sockets[r], .events = POLLIN};
        if (sc_meet_left_ms(deadline) == 0)
            return fail_unready(m, is_ready, error);
        poll(m->polls + 1, m->size - 1, sc_meet_left_ms(deadline));
        for (uint32_t r = 1; r < m->size; r++) {
            uint32_t word = 0;
            if (is_ready[r] || m->polls[r].revents == 0)
                continue;
            if (sc_meet_move(m->sockets[r], &word, sizeof word, false, deadline) != 0 ||
                word != MEET_MAGIC)
                return sc_fail(error, SHARDC_ERROR_COMM,
                               "rank %u left before every two of the %u ranks were connected", r,
                               m->size);
            is_ready[r] = true;
            missing--;
        }
    }
    return SHARDC_OK;
}

static void send_to_all(const meeting *m, const char *label, const shardc_error *error)
{
    for (uint32_t r = 1; r < m->size; r++) {
        if (m->sockets[r] >= 0)
            sc_meet_answer(m, label, r, error->status == SHARDC_OK ? MEET_WELCOME : MEET_OVER,
                           error, false, sc_milliseconds() + 100);
    }
}

static shardc_status meet_as_first(meeting *m, const struct sockaddr_storage *address,
                                   shardc_error *error)
{
    shardc_status status = sc_meet_listen(m, address, MEET_PORT_MS, error);
    if (status == SHARDC_OK)
        status = sc_secret_random(m->world, sizeof m->world, error);
    if (status != SHARDC_OK)
        return status;
    m->places[0].address = *address;
    status = sc_meet_wait_for_joins(m, 1, error);
    if (status != SHARDC_OK) {
        send_to_all(m, "welcome", error);
        sc_meet_refuse_late(m, error);
        return status;
    }
    uint64_t deadline = m->deadline + MEET_GRACE_MS;
    bool *is_ready = calloc(m->size, sizeof *is_ready);
    shardc_error fine = {.status = SHARDC_OK, .text = ""};
    for (uint32_t r = 1; r < m->size; r++)
        sc_meet_answer(m, "welcome", r, MEET_WELCOME, &fine, true, deadline);
    status = is_ready == NULL ? sc_fail(error, SHARDC_ERROR_MEMORY,
                                        "a world of %u ranks: out of memory", m->size)
                              : wait_for_ready(m, is_ready, deadline, error);
    free(is_ready);
    close(m->listener);
    m->listener = -1;
    /* ranks lost by now are detected by the first call */
    send_to_all(m, "end", status == SHARDC_OK ? &fine : error);
    return status;
}

static shardc_status meet_as_other(meeting *m, const struct sockaddr_storage *address,
                                   shardc_error *error)
{
    uint32_t word = MEET_MAGIC, port = 0;
    uint8_t unused[MEET_NONCE];
    shardc_error fine = {.status = SHARDC_OK, .text = ""};
    shardc_status status = join(m, 0, address, &port, m->nonces[0], error);
    for (uint32_t r = 1; r < m->rank; r++) {
        if (status != SHARDC_OK)
            break;
        status = join(m, r, &m->places[r].address, &port, unused, error);
    }
    if (status == SHARDC_OK)
        status = sc_meet_wait_for_joins(m, m->rank + 1, error);
    if (status == SHARDC_OK) {
        for (uint32_t r = m->rank + 1; r < m->size; r++)
            sc_meet_answer(m, "welcome", r, MEET_WELCOME, &fine, false, m->deadline);
    }
    if (status != SHARDC_OK)
        return status;
    uint64_t deadline = m->deadline + 2 * MEET_GRACE_MS;
    /* an error shows when the answer is read */
    sc_meet_move(m->sockets[0], &word, sizeof word, true, deadline);
    return sc_meet_read_end(m, m->nonces[0], deadline, error);
}

static shardc_status meet(meeting *m, shardc_error *error)
{
    struct sockaddr_storage address;
    shardc_status status = choose_address(m->launch, &address, error);
    if (status == SHARDC_OK)
        status = sc_secret_read(is_loopback(&address) ||
                                    m->launch->local_size == (int32_t)m->launch->size,
                                m->secret, error);
    if (status != SHARDC_OK)
        return status;
    sc_sha256 job;
    sc_sha256_begin(&job);
    sc_sha256_add(&job, m->launch->job, strlen(m->launch->job));
    sc_sha256_end(&job, m->job);
    sc_meet_name_address(&address, m->where, sizeof m->where);
    return m->rank == 0 ? meet_as_first(m, &address, error) : meet_as_other(m, &address, error);
}

shardc_status sc_rendezvous_meet(const sc_launch *launch, const char *started_with,
                                 uint32_t join_ms, int *sockets, shardc_error *error)
{
    shardc_error reason = {.status = SHARDC_OK};
    meeting m = {.launch = launch,
                 .rank = launch->rank,
                 .size = launch->size,
                 .listener = -1,
                 .sockets = sockets,
                 .join_ms = join_ms};
    assert(m.size > 0);
    m.started_with = started_with == NULL ? "" : started_with;
    m.deadline = sc_milliseconds() + m.join_ms;
    for (uint32_t r = 0; r < m.size; r++)
        sockets[r] = -1;
    if (m.size == 1)
        return SHARDC_OK;
    if (m.size > SC_RENDEZVOUS_MAX_RANKS)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT,
                       "a world over TCP has at most %d ranks, not %u",
                       (int)SC_RENDEZVOUS_MAX_RANKS, m.size);
    m.places = calloc(m.size, sizeof *m.places);
    m.nonces = calloc(m.size, sizeof *m.nonces);
    m.polls = calloc(m.size + MEET_STRANGERS + 2u, sizeof *m.polls);
    m.strangers = malloc(MEET_STRANGERS * sizeof *m.strangers);
    shardc_status status = SHARDC_OK;
    if (m.places == NULL || m.nonces == NULL || m.polls == NULL || m.strangers == NULL)
        status =
            sc_fail(&reason, SHARDC_ERROR_MEMORY, "a world of %u ranks: out of memory", m.size);
    if (status == SHARDC_OK)
        status = meet(&m, &reason);
    sc_meet_drop_strangers(&m);
    if (m.listener >= 0)
        close(m.listener);
    if (status != SHARDC_OK) {
        for (uint32_t r = 0; r < m.size; r++) {
            if (sockets[r] >= 0)
                close(sockets[r]);
            sockets[r] = -1;
        }
    }
    free(m.places);
    free(m.nonces);
    free(m.polls);
    free(m.strangers);
    return status == SHARDC_OK ? SHARDC_OK : sc_fail(error, status, "%s", reason.text);
}
