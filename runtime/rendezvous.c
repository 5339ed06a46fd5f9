/* A connection begins with three messages: whoever listens says hello, the other joins, and is welcomed when its code is right. Rank 0 says
 * welcome when all have come, and adds where each listens. Then rank k connects to 1 .. k - 1 in this order and waits for those above it:
 * who waits for a lower rank waits for one that has less left to do, so nobody waits in a circle. At the end rank 0 hears from all that
 * they are ready, closes its port, and lets them go; so a second meeting on the same port cannot meet the first. */
#define _GNU_SOURCE /* accept4 */
#include "runtime/rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm_backend.h"
#include "runtime/secret.h"
#include "support/environment.h"
#include "support/sha256.h"

enum {
    MAGIC = 0x73686472,
    VERSION = 1,
    NONCE = 16,
    STRANGERS = 32,      /* who came and did not join yet; then the oldest goes */
    STRANGER_MS = 10000, /* how long each of them may take */
    RETRY_MS = 50,       /* until rank 0 listens */
    GRACE_MS = 5000,     /* longer than rank 0 the others wait, to hear from it who is missing */
    ADDRESS_TEXT = NI_MAXHOST + NI_MAXSERV + 4
};

typedef struct hello_message {
    uint32_t magic, version;
    uint8_t nonce[NONCE];
} hello_message;

typedef struct join_message {
    uint32_t magic, version, rank, size;
    uint32_t to;   /* rank whom it takes the other for */
    uint32_t port; /* it listens there */
    uint8_t nonce[NONCE];
    uint8_t code[SC_SHA256_BYTES]; /* of the hello's number and all above */
} join_message;

typedef struct welcome_message {
    uint32_t magic, status; /* shardc_status */
    char text[sizeof((shardc_error *)0)->text];
    uint8_t code[SC_SHA256_BYTES]; /* of the join's number, all above, and the table when one follows */
} welcome_message;

typedef struct place {
    struct sockaddr_storage address;
} place;

typedef struct stranger {
    int socket;
    size_t got;
    uint64_t since_ms;
    uint8_t nonce[NONCE];
    join_message join;
} stranger;

typedef struct meeting {
    const sc_launch *launch;
    uint32_t rank, size, join_ms;
    uint64_t deadline;
    uint8_t secret[SC_SECRET_BYTES];
    char where[ADDRESS_TEXT]; /* rank 0 */
    int listener;
    int *sockets;
    place *places;            /* by rank: where it listens */
    uint8_t (*nonces)[NONCE]; /* by rank: of those who joined here */
    struct pollfd *polls;     /* size + STRANGERS + 1 */
    stranger strangers[STRANGERS];
    uint32_t stranger_count;
} meeting;

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int left_ms(uint64_t deadline)
{
    uint64_t now = now_ms();
    return now >= deadline ? 0 : deadline - now > INT32_MAX ? INT32_MAX : (int)(deadline - now);
}

static void code_of(const meeting *m, const char *label, const void *nonce, const void *message, size_t size, const void *table,
                    size_t table_size, uint8_t out[SC_SHA256_BYTES])
{
    sc_hmac mac;
    sc_hmac_begin(&mac, m->secret, sizeof m->secret);
    sc_hmac_add(&mac, label, strlen(label));
    sc_hmac_add(&mac, nonce, NONCE);
    sc_hmac_add(&mac, message, size);
    if (table_size > 0)
        sc_hmac_add(&mac, table, table_size);
    sc_hmac_end(&mac, out);
}

/* ---- bytes by a deadline ---- */

/* 0: all of it is there (or sent); else errno, ETIMEDOUT, or ECONNRESET for an end. */
static int move_all(int socket, void *bytes, size_t size, bool sends, uint64_t deadline)
{
    char *at = bytes;
    while (size > 0) {
        ssize_t moved = sends ? send(socket, at, size, MSG_NOSIGNAL) : recv(socket, at, size, 0);
        if (moved == 0)
            return ECONNRESET;
        if (moved < 0 && errno != EAGAIN && errno != EINTR)
            return errno;
        if (moved < 0) {
            struct pollfd p = {.fd = socket, .events = sends ? POLLOUT : POLLIN};
            if (left_ms(deadline) == 0)
                return ETIMEDOUT;
            poll(&p, 1, left_ms(deadline));
            continue;
        }
        at += moved;
        size -= (size_t)moved;
    }
    return 0;
}

static void name_address(const struct sockaddr_storage *address, char *out, size_t size)
{
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    socklen_t length = address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    getnameinfo((const struct sockaddr *)address, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out, size, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

static socklen_t length_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static uint32_t port_of(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET ? ((const struct sockaddr_in *)(const void *)address)->sin_port
                                               : ((const struct sockaddr_in6 *)(const void *)address)->sin6_port);
}

static void set_port(struct sockaddr_storage *address, uint32_t port)
{
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)address)->sin_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons((uint16_t)port);
}

/* ---- where ---- */

static shardc_status choose_port(const sc_launch *launch, uint32_t *out, shardc_error *error)
{
    int64_t port = 0;
    char why[SC_ENVIRONMENT_WHY];
    if (!sc_environment_i64("SHARDC_PORT", 1, 65535, &port, why))
        return sc_comm_fail(error, SHARDC_ERROR_ARGUMENT, "%s", why);
    if (port != 0) {
        *out = (uint32_t)port;
        return SHARDC_OK;
    }
    if (launch->port == 0)
        return sc_comm_fail(error, SHARDC_ERROR_ARGUMENT, "MASTER_PORT is not set: it says on which port of rank 0 the %u ranks meet",
                            launch->size);
    *out = launch->launcher == SC_LAUNCH_TORCHRUN ? (launch->port < 65535 ? launch->port + 1 : 1024) : launch->port;
    return SHARDC_OK;
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static shardc_status choose_address(const sc_launch *launch, struct sockaddr_storage *out, shardc_error *error)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    const char *host = launch->address[0] == 0 ? "127.0.0.1" : launch->address;
    char service[16];
    uint32_t port = 0;
    shardc_status status = choose_port(launch, &port, error);
    if (status != SHARDC_OK)
        return status;
    snprintf(service, sizeof service, "%u", port);
    int code = getaddrinfo(host, service, &hints, &found);
    if (code != 0)
        return sc_comm_fail(error, SHARDC_ERROR_ARGUMENT, "MASTER_ADDR is '%s': %s", host, gai_strerror(code));
    const struct addrinfo *chosen = found;
    while (chosen->ai_next != NULL && chosen->ai_family != AF_INET) /* a name has both kinds: all ranks take the same one */
        chosen = chosen->ai_next;
    memset(out, 0, sizeof *out);
    bool is_known = chosen->ai_family == AF_INET || chosen->ai_family == AF_INET6;
    if (is_known)
        memcpy(out, chosen->ai_addr, chosen->ai_addrlen);
    freeaddrinfo(found);
    return is_known ? SHARDC_OK : sc_comm_fail(error, SHARDC_ERROR_ARGUMENT, "MASTER_ADDR is '%s': no address of IP", host);
}

/* ---- who listens ---- */

static shardc_status listen_at(meeting *m, const struct sockaddr_storage *address, shardc_error *error)
{
    char name[ADDRESS_TEXT];
    int on = 1;
    m->listener = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ok = m->listener >= 0 && setsockopt(m->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
              bind(m->listener, (const struct sockaddr *)address, length_of(address)) == 0 &&
              listen(m->listener, SC_RENDEZVOUS_MAX_RANKS) == 0;
    int why = errno;
    name_address(address, name, sizeof name);
    return ok ? SHARDC_OK
              : sc_comm_fail(error, SHARDC_ERROR_COMM, "rank %u cannot listen on %s: %s%s", m->rank, name, strerror(why),
                             why == EADDRINUSE ? " (set MASTER_PORT, or SHARDC_PORT, to another on all ranks)" : "");
}

static void drop_stranger(meeting *m, uint32_t index, bool closes)
{
    if (closes)
        close(m->strangers[index].socket);
    m->strangers[index] = m->strangers[--m->stranger_count];
}

static void take_connections(meeting *m)
{
    for (;;) {
        hello_message hello = {.magic = MAGIC, .version = VERSION};
        int on = 1, socket = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket < 0)
            return;
        uint32_t oldest = 0;
        for (uint32_t i = 1; i < m->stranger_count; i++)
            oldest = m->strangers[i].since_ms < m->strangers[oldest].since_ms ? i : oldest;
        if (m->stranger_count == STRANGERS)
            drop_stranger(m, oldest, true);
        stranger *s = &m->strangers[m->stranger_count];
        *s = (stranger){.socket = socket, .since_ms = now_ms()};
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (sc_secret_random(s->nonce, NONCE, NULL) != SHARDC_OK) {
            close(socket);
            return;
        }
        memcpy(hello.nonce, s->nonce, NONCE);
        if (send(socket, &hello, sizeof hello, MSG_NOSIGNAL) == (ssize_t)sizeof hello)
            m->stranger_count++;
        else
            close(socket);
    }
}

static void write_welcome(const meeting *m, uint32_t rank, shardc_status status, const char *text, bool has_table, uint64_t deadline)
{
    welcome_message welcome = {.magic = MAGIC, .status = (uint32_t)status};
    size_t table = has_table ? m->size * sizeof *m->places : 0;
    snprintf(welcome.text, sizeof welcome.text, "%s", text);
    code_of(m, "welcome", m->nonces[rank], &welcome, offsetof(welcome_message, code), m->places, table, welcome.code);
    if (move_all(m->sockets[rank], &welcome, sizeof welcome, true, deadline) == 0 && table > 0)
        move_all(m->sockets[rank], m->places, table, true, deadline);
}

/* A complete join. Who shows the code and makes no sense hears why; who does not is just refused. */
static void take_join(meeting *m, uint32_t index, uint32_t first)
{
    stranger s = m->strangers[index];
    const join_message *j = &s.join;
    uint8_t code[SC_SHA256_BYTES];
    char why[128] = "";
    drop_stranger(m, index, false);
    code_of(m, "join", s.nonce, j, offsetof(join_message, code), NULL, 0, code);
    if (j->magic != MAGIC || j->version != VERSION || !sc_sha256_equal(code, j->code)) {
        close(s.socket);
        return;
    }
    if (j->size != m->size)
        snprintf(why, sizeof why, "rank %u was started as one of %u ranks, rank %u as one of %u", j->rank, j->size, m->rank, m->size);
    else if (j->to != m->rank || j->rank >= m->size || j->rank < first)
        snprintf(why, sizeof why, "rank %u took rank %u for rank %u", j->rank, m->rank, j->to);
    else if (m->sockets[j->rank] >= 0)
        snprintf(why, sizeof why, "two processes say that they are rank %u", j->rank);
    if (why[0] != 0) {
        meeting aside = *m;
        aside.sockets = &s.socket;
        aside.nonces = (uint8_t(*)[NONCE])(uintptr_t)j->nonce;
        write_welcome(&aside, 0, SHARDC_ERROR_COMM, why, false, now_ms());
        close(s.socket);
        return;
    }
    socklen_t length = sizeof m->places[j->rank].address;
    m->sockets[j->rank] = s.socket;
    memcpy(m->nonces[j->rank], j->nonce, NONCE);
    getpeername(s.socket, (struct sockaddr *)&m->places[j->rank].address, &length);
    set_port(&m->places[j->rank].address, j->port);
}

/* Reads what a stranger sent; it goes when that is wrong, or takes too long. */
static void hear_stranger(meeting *m, uint32_t index, uint32_t first)
{
    stranger *s = &m->strangers[index];
    ssize_t got = recv(s->socket, (char *)&s->join + s->got, sizeof s->join - s->got, 0);
    if (got > 0)
        s->got += (size_t)got;
    bool is_silent = got < 0 && (errno == EAGAIN || errno == EINTR);
    if (s->got == sizeof s->join)
        take_join(m, index, first);
    else if (got == 0 || (got < 0 && !is_silent) || now_ms() - s->since_ms > STRANGER_MS)
        drop_stranger(m, index, true);
}

static shardc_status fail_absent(const meeting *m, uint32_t first, shardc_error *error)
{
    char list[256] = "";
    uint32_t count = 0;
    size_t length = 0;
    for (uint32_t r = first; r < m->size; r++) {
        if (r == m->rank || m->sockets[r] >= 0)
            continue;
        if (count++ < 12)
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%u", count == 1 ? "" : ", ", r);
        else if (count == 14)
            length += (size_t)snprintf(list + length, sizeof list - length, ", ..");
    }
    return sc_comm_fail(error, SHARDC_ERROR_TIMEOUT, "%u of %u ranks did not come to rank %u (%s) within %u ms: %s %s", count, m->size,
                        m->rank, m->where, m->join_ms, count == 1 ? "rank" : "ranks", list);
}

/* Until all from `first` on have joined. Who joined and goes away again ends it, where `watches`. */
static shardc_status wait_for_joins(meeting *m, uint32_t first, bool watches, shardc_error *error)
{
    for (;;) {
        uint32_t missing = 0, polls = 0;
        for (uint32_t r = first; r < m->size; r++)
            missing += r != m->rank && m->sockets[r] < 0;
        if (missing == 0)
            return SHARDC_OK;
        if (left_ms(m->deadline) == 0)
            return fail_absent(m, first, error);
        m->polls[polls++] = (struct pollfd){.fd = m->listener, .events = POLLIN};
        for (uint32_t i = 0; i < m->stranger_count; i++)
            m->polls[polls++] = (struct pollfd){.fd = m->strangers[i].socket, .events = POLLIN};
        uint32_t heard = m->stranger_count;
        for (uint32_t r = first; watches && r < m->size; r++)
            m->polls[polls++] = (struct pollfd){.fd = m->sockets[r], .events = POLLIN}; /* negative: passed over */
        int wait = left_ms(m->deadline);
        poll(m->polls, polls, heard > 0 && wait > 1000 ? 1000 : wait);
        for (uint32_t r = first; watches && r < m->size; r++) {
            if (m->polls[1 + heard + r - first].revents != 0)
                return sc_comm_fail(error, SHARDC_ERROR_COMM, "rank %u left before all %u ranks had come", r, m->size);
        }
        for (uint32_t i = heard; i-- > 0;) /* a removal moves a later one, which was heard already */
            hear_stranger(m, i, first);
        if (m->polls[0].revents != 0)
            take_connections(m);
    }
}

/* ---- who comes ---- */

static shardc_status fail_join(const meeting *m, uint32_t rank, const struct sockaddr_storage *address, int why, const char *what,
                               shardc_error *error)
{
    char name[ADDRESS_TEXT];
    name_address(address, name, sizeof name);
    if (why == ETIMEDOUT)
        return sc_comm_fail(error, SHARDC_ERROR_TIMEOUT, "rank %u waited %u ms for rank %u (%s): %s", m->rank, m->join_ms, rank, name,
                            what);
    return sc_comm_fail(error, SHARDC_ERROR_COMM, "rank %u is not let in by rank %u (%s): %s", m->rank, rank, name, what);
}

/* A connection over which somebody said hello; again and again, since it may not listen yet, or still be about an earlier meeting. */
static shardc_status connect_to(meeting *m, uint32_t rank, const struct sockaddr_storage *address, hello_message *hello,
                                shardc_error *error)
{
    for (;;) {
        int on = 1, to = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), why = 0;
        socklen_t size = sizeof why;
        if (to < 0)
            return sc_comm_fail(error, SHARDC_ERROR_COMM, "rank %u has no socket: %s", m->rank, strerror(errno));
        if (connect(to, (const struct sockaddr *)address, length_of(address)) != 0 && errno != EINPROGRESS)
            why = errno;
        struct pollfd p = {.fd = to, .events = POLLOUT};
        if (why == 0 && poll(&p, 1, left_ms(m->deadline)) == 0)
            why = ETIMEDOUT;
        if (why == 0)
            getsockopt(to, SOL_SOCKET, SO_ERROR, &why, &size);
        if (why == 0)
            why = move_all(to, hello, sizeof *hello, false, m->deadline);
        if (why == 0 && (hello->magic != MAGIC || hello->version != VERSION)) {
            close(to);
            return fail_join(m, rank, address, EPROTO, "something else listens there, or another version of shardc", error);
        }
        if (why == 0) {
            setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            m->sockets[rank] = to;
            return SHARDC_OK;
        }
        close(to);
        if (left_ms(m->deadline) == 0)
            return fail_join(m, rank, address, ETIMEDOUT, strerror(why), error);
        poll(NULL, 0, left_ms(m->deadline) < RETRY_MS ? left_ms(m->deadline) : RETRY_MS);
    }
}

/* This rank listens on the address from which it reaches rank 0. */
static shardc_status listen_beside(meeting *m, uint32_t *out_port, shardc_error *error)
{
    struct sockaddr_storage own = {0};
    socklen_t length = sizeof own;
    if (getsockname(m->sockets[0], (struct sockaddr *)&own, &length) != 0)
        return sc_comm_fail(error, SHARDC_ERROR_COMM, "rank %u has no address: %s", m->rank, strerror(errno));
    set_port(&own, 0);
    shardc_status status = listen_at(m, &own, error);
    length = sizeof own;
    if (status == SHARDC_OK && getsockname(m->listener, (struct sockaddr *)&own, &length) == 0)
        *out_port = port_of(&own);
    return status;
}

static shardc_status read_welcome(meeting *m, uint32_t rank, const struct sockaddr_storage *address, const uint8_t *nonce,
                                  shardc_error *error)
{
    welcome_message welcome = {0};
    uint8_t code[SC_SHA256_BYTES];
    bool has_table = rank == 0;
    size_t table = has_table ? m->size * sizeof *m->places : 0;
    uint64_t deadline = m->deadline + GRACE_MS;
    int why = move_all(m->sockets[rank], &welcome, sizeof welcome, false, deadline);
    if (why == 0 && welcome.magic == MAGIC && welcome.status != SHARDC_OK)
        table = 0;
    if (why == 0 && welcome.magic == MAGIC && table > 0)
        why = move_all(m->sockets[rank], m->places, table, false, deadline);
    if (why == ETIMEDOUT)
        return fail_join(m, rank, address, why, "it does not say that all ranks have come", error);
    if (why != 0)
        return fail_join(m, rank, address, why, "it has another secret (SHARDC_SECRET), or has ended", error);
    code_of(m, "welcome", nonce, &welcome, offsetof(welcome_message, code), m->places, table, code);
    if (welcome.magic != MAGIC || !sc_sha256_equal(code, welcome.code))
        return fail_join(m, rank, address, EPROTO, "it does not know the secret", error);
    welcome.text[sizeof welcome.text - 1] = 0;
    return welcome.status == SHARDC_OK
               ? SHARDC_OK
               : sc_comm_fail(error, welcome.status == SHARDC_ERROR_TIMEOUT ? SHARDC_ERROR_TIMEOUT : SHARDC_ERROR_COMM, "%s", welcome.text);
}

static shardc_status join(meeting *m, uint32_t rank, const struct sockaddr_storage *address, uint32_t *port, shardc_error *error)
{
    hello_message hello;
    join_message j = {.magic = MAGIC, .version = VERSION, .rank = m->rank, .size = m->size, .to = rank};
    shardc_status status = connect_to(m, rank, address, &hello, error);
    if (status == SHARDC_OK && *port == 0)
        status = listen_beside(m, port, error);
    if (status == SHARDC_OK)
        status = sc_secret_random(j.nonce, sizeof j.nonce, error);
    if (status != SHARDC_OK)
        return status;
    j.port = *port;
    code_of(m, "join", hello.nonce, &j, offsetof(join_message, code), NULL, 0, j.code);
    move_all(m->sockets[rank], &j, sizeof j, true, m->deadline); /* the answer tells whether it arrived */
    return read_welcome(m, rank, address, j.nonce, error);
}

/* ---- the whole ---- */

static void tell_failure(const meeting *m, const shardc_error *error)
{
    for (uint32_t r = 1; r < m->size; r++) {
        if (m->sockets[r] >= 0)
            write_welcome(m, r, error->status, error->text, false, now_ms() + 100);
    }
}

static shardc_status meet_as_first(meeting *m, const struct sockaddr_storage *address, shardc_error *error)
{
    uint32_t word = MAGIC;
    shardc_status status = listen_at(m, address, error);
    if (status != SHARDC_OK)
        return status;
    m->places[0].address = *address;
    status = wait_for_joins(m, 1, true, error);
    if (status != SHARDC_OK) {
        tell_failure(m, error);
        return status;
    }
    uint64_t deadline = m->deadline + GRACE_MS;
    for (uint32_t r = 1; r < m->size; r++)
        write_welcome(m, r, SHARDC_OK, "", true, deadline);
    for (uint32_t r = 1; r < m->size; r++) {
        if (move_all(m->sockets[r], &word, sizeof word, false, deadline) != 0 || word != MAGIC)
            return sc_comm_fail(error, SHARDC_ERROR_COMM, "rank %u left before every two of the %u ranks were connected", r, m->size);
    }
    close(m->listener);
    m->listener = -1;
    for (uint32_t r = 1; r < m->size; r++)
        move_all(m->sockets[r], &word, sizeof word, true, deadline); /* who is gone by now is found by the first call */
    return SHARDC_OK;
}

static shardc_status meet_as_other(meeting *m, const struct sockaddr_storage *address, shardc_error *error)
{
    uint32_t word = MAGIC, port = 0;
    shardc_status status = join(m, 0, address, &port, error);
    for (uint32_t r = 1; r < m->rank && status == SHARDC_OK; r++)
        status = join(m, r, &m->places[r].address, &port, error);
    if (status == SHARDC_OK)
        status = wait_for_joins(m, m->rank + 1, false, error);
    for (uint32_t r = m->rank + 1; r < m->size && status == SHARDC_OK; r++)
        write_welcome(m, r, SHARDC_OK, "", false, m->deadline);
    if (status != SHARDC_OK)
        return status;
    uint64_t deadline = m->deadline + GRACE_MS;
    int why = move_all(m->sockets[0], &word, sizeof word, true, deadline);
    if (why == 0)
        why = move_all(m->sockets[0], &word, sizeof word, false, deadline);
    return why == 0 && word == MAGIC ? SHARDC_OK : fail_join(m, 0, address, why, "a rank left before every two were connected", error);
}

shardc_status sc_rendezvous_meet(const sc_launch *launch, uint32_t join_ms, int *sockets, shardc_error *error)
{
    struct sockaddr_storage address;
    shardc_error reason = {.status = SHARDC_OK};
    meeting m = {.launch = launch, .rank = launch->rank, .size = launch->size, .listener = -1, .sockets = sockets};
    m.join_ms = join_ms;
    m.deadline = now_ms() + m.join_ms;
    for (uint32_t r = 0; r < m.size; r++)
        sockets[r] = -1;
    if (m.size == 1)
        return SHARDC_OK;
    if (m.size > SC_RENDEZVOUS_MAX_RANKS)
        return sc_comm_fail(error, SHARDC_ERROR_ARGUMENT, "a world over TCP has at most %d ranks, not %u", (int)SC_RENDEZVOUS_MAX_RANKS,
                            m.size);
    m.places = calloc(m.size, sizeof *m.places);
    m.nonces = calloc(m.size, sizeof *m.nonces);
    m.polls = calloc(m.size + STRANGERS + 1u, sizeof *m.polls);
    shardc_status status = choose_address(launch, &address, &reason);
    if (m.places == NULL || m.nonces == NULL || m.polls == NULL)
        status = sc_comm_fail(&reason, SHARDC_ERROR_MEMORY, "a world of %u ranks: out of memory", m.size);
    if (status == SHARDC_OK)
        status = sc_secret_read(is_loopback(&address) || launch->local_size == (int32_t)launch->size, m.secret, &reason);
    if (status == SHARDC_OK) {
        name_address(&address, m.where, sizeof m.where);
        status = m.rank == 0 ? meet_as_first(&m, &address, &reason) : meet_as_other(&m, &address, &reason);
    }
    while (m.stranger_count > 0)
        drop_stranger(&m, 0, true);
    if (m.listener >= 0)
        close(m.listener);
    for (uint32_t r = 0; status != SHARDC_OK && r < m.size; r++) {
        if (sockets[r] >= 0)
            close(sockets[r]);
        sockets[r] = -1;
    }
    free(m.places);
    free(m.nonces);
    free(m.polls);
    return status == SHARDC_OK ? SHARDC_OK : sc_comm_fail(error, status, "%s", reason.text);
}
