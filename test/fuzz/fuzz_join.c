/* Any bytes that a stranger sends to a port where ranks meet, and any that come back at the end of
 * a meeting: only who knows the secret, is of this job and was started alike is let in. The first
 * byte says what the others are; codes are computed, so that what is behind them is reached, too.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/rendezvous_internal.h"
#include "support/clock.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum {
    IS_END = 1,       /* what rank 0 says at the end; else a join */
    IS_SIGNED = 2,    /* with the right code */
    TO_OTHER = 4,     /* to rank 1 of the ranks; else to rank 0 */
    HAS_LENGTH = 8,   /* a join says how long its text is */
    COMES_TWICE = 16, /* a second stranger says the same */
    RANKS = 3,
    WAIT_MS = 2
};

static const char started_with[] = "program 5\n--seed 7\n--steps 12\n";

/* A connection over which these bytes have come, and nothing more will. */
static int connection(const uint8_t *bytes, size_t size, int *far)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0 ||
        send(pair[1], bytes, size, 0) != (ssize_t)size)
        abort();
    shutdown(pair[1], SHUT_WR);
    *far = pair[1];
    return pair[0];
}

static void sign_join(const meeting *m, const stranger *s, uint8_t *bytes, size_t size,
                      unsigned flags)
{
    join_message j;
    if (size < sizeof j)
        return;
    memcpy(&j, bytes, sizeof j);
    if ((flags & HAS_LENGTH) != 0)
        j.text_bytes = (uint32_t)(size - sizeof j);
    size_t text_bytes = j.text_bytes < size - sizeof j ? j.text_bytes : size - sizeof j;
    if ((flags & IS_SIGNED) != 0)
        sc_meet_code(m, "join", s->nonce, &j, offsetof(join_message, code), bytes + sizeof j,
                     text_bytes, j.code);
    memcpy(bytes, &j, sizeof j);
}

/* Whether somebody who says this may be let in. */
static bool is_ours(const meeting *m, const uint8_t *bytes, size_t size, unsigned flags)
{
    join_message j;
    if ((flags & IS_SIGNED) == 0 || size < sizeof j)
        return false;
    memcpy(&j, bytes, sizeof j);
    size_t text_bytes = strlen(m->started_with);
    bool is_alike =
        m->rank > 0 || (j.text_bytes <= size - sizeof j &&
                        strnlen((const char *)bytes + sizeof j, j.text_bytes) == text_bytes &&
                        memcmp(bytes + sizeof j, m->started_with, text_bytes) == 0);
    return is_alike && j.magic == MEET_MAGIC && j.version == MEET_VERSION && j.size == m->size &&
           j.to == m->rank && j.rank > m->rank && j.rank < m->size &&
           memcmp(j.job, m->job, sizeof m->job) == 0;
}

static void join(meeting *m, uint8_t *bytes, size_t size, unsigned flags)
{
    shardc_error error = {.status = SHARDC_OK};
    int far[2] = {-1, -1};
    uint32_t joined = 0;
    sign_join(m, m->strangers, bytes, size, flags);
    m->stranger_count = (flags & COMES_TWICE) != 0 ? 2 : 1;
    for (uint32_t i = 0; i < m->stranger_count; i++) {
        m->strangers[i] =
            (stranger){.socket = connection(bytes, size, &far[i]), .since_ms = sc_milliseconds()};
    }
    m->deadline = sc_milliseconds() + WAIT_MS;
    if (sc_meet_wait_for_joins(m, m->rank + 1, &error) == SHARDC_OK && m->rank == 0)
        abort(); /* two are missing, and one came at most */
    for (uint32_t r = m->rank + 1; r < m->size; r++)
        joined += m->sockets[r] >= 0;
    if (joined > 1 || (joined == 1 && !is_ours(m, bytes, size, flags)))
        abort();
    sc_meet_drop_strangers(m);
    close(far[0]);
    if (far[1] >= 0)
        close(far[1]);
}

static void read_end(meeting *m, uint8_t *bytes, size_t size, unsigned flags)
{
    shardc_error error = {.status = SHARDC_OK};
    welcome_message end;
    int far;
    if ((flags & IS_SIGNED) != 0 && size >= sizeof end) {
        memcpy(&end, bytes, sizeof end);
        sc_meet_code(m, "end", m->nonces[0], &end, offsetof(welcome_message, code), NULL, 0,
                     end.code);
        memcpy(bytes, &end, sizeof end);
    }
    m->sockets[0] = connection(bytes, size, &far);
    if (sc_meet_read_end(m, m->nonces[0], sc_milliseconds() + WAIT_MS, &error) == SHARDC_OK &&
        ((flags & IS_SIGNED) == 0 || size < sizeof end))
        abort();
    close(far);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    int sockets[RANKS] = {-1, -1, -1};
    place places[RANKS] = {0};
    uint8_t nonces[RANKS][MEET_NONCE] = {{0}};
    struct pollfd polls[RANKS + MEET_STRANGERS + 2];
    sc_launch launch = {.size = RANKS};
    if (size == 0)
        return 0;
    unsigned flags = bytes[0];
    uint8_t *said = malloc(size);
    meeting m = {.launch = &launch,
                 .started_with = started_with,
                 .rank = (flags & TO_OTHER) != 0,
                 .size = RANKS,
                 .listener = -1,
                 .sockets = sockets,
                 .places = places,
                 .nonces = nonces,
                 .polls = polls,
                 .strangers = calloc(2, sizeof *m.strangers)};
    if (said == NULL || m.strangers == NULL)
        abort();
    memcpy(said, bytes + 1, size - 1);
    if ((flags & IS_END) != 0)
        read_end(&m, said, size - 1, flags);
    else
        join(&m, said, size - 1, flags);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (sockets[r] >= 0)
            close(sockets[r]);
    }
    free(m.strangers);
    free(said);
    return 0;
}
