/* Shared by the two sides of a rendezvous: rendezvous_listen.c accepts connections; rendezvous.c
 * joins others and runs the whole. Both use meeting.c. */
#ifndef SHARDC_RUNTIME_COMM_RENDEZVOUS_INTERNAL_H
#define SHARDC_RUNTIME_COMM_RENDEZVOUS_INTERNAL_H

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include "runtime/comm/identity.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/rendezvous.h"
#include "runtime/comm/secret.h"
#include "support/sha256.h"

enum {
    MEET_MAGIC = 0x73686472,
    MEET_VERSION = 2,
    MEET_NONCE = 16,
    /* connections not yet authenticated; beyond that the oldest is dropped */
    MEET_STRANGERS = 256,
    MEET_STAY_MS = 100,       /* but each gets at least this long */
    MEET_STRANGER_MS = 10000, /* and at most this long */
    /* after refusing a rank, how long to wait for another in its place: two jobs may share a port
     */
    MEET_DECIDE_MS = 4000,
    /* after a failed meeting, how long late or returning ranks are sent the reason */
    MEET_VERDICT_MS = 500,
    MEET_REFUSED_MS = 10000, /* how long a refused rank retries: its own job may get the port */
    MEET_PORT_MS = 10000,    /* how long to wait for a port to become free */
    MEET_HELLO_MS = 5000,    /* how long to wait for the listener's hello */
    MEET_RETRY_MS = 50,
    /* the others wait this much longer than rank 0, to learn from it who is missing */
    MEET_GRACE_MS = 5000,
    MEET_HOST = 64, /* characters: a numeric address */
    MEET_PORT = 8,
    MEET_ADDRESS_TEXT = MEET_HOST + MEET_PORT + 4
};

typedef enum sc_meet_verdict {
    MEET_WELCOME,
    MEET_NO_SECRET,   /* the join's code is wrong; this answer itself has no code */
    MEET_OTHER_JOB,   /* the rank belongs to another job */
    MEET_OTHER_START, /* started differently; the text says how */
    MEET_OVER         /* the meeting has failed; the text says why */
} sc_meet_verdict;

/* Common to all versions. */
typedef struct hello_message {
    uint32_t magic, version;
    uint8_t nonce[MEET_NONCE];
} hello_message;

typedef struct join_message {
    uint32_t magic, version, rank, size;
    uint32_t to;   /* the rank that the sender expects here */
    uint32_t port; /* port on which it listens */
    uint8_t nonce[MEET_NONCE];
    uint8_t job[SC_SHA256_BYTES]; /* hash of the launcher's job name */
    uint8_t world[MEET_NONCE];    /* rank 0's nonce for this meeting; zeros from rank 0 itself */
    /* length of the identity text that follows; only sent to rank 0 */
    uint32_t text_bytes, unused;
    uint8_t code[SC_SHA256_BYTES]; /* over the hello's nonce, all fields above, and the text */
} join_message;

typedef struct welcome_message {
    uint32_t magic, verdict, status, unused; /* shardc_status */
    uint8_t world[MEET_NONCE];
    char text[sizeof((shardc_error *)0)->text];
    /* over the join's nonce, all fields above, and the table if one follows */
    uint8_t code[SC_SHA256_BYTES];
} welcome_message;

typedef struct place {
    struct sockaddr_storage address;
} place;

typedef struct stranger {
    int socket;
    size_t got;
    uint64_t since_ms;
    uint8_t nonce[MEET_NONCE];
    struct {
        join_message join;
        char text[SC_IDENTITY_ROOM];
    } said;
} stranger;

/* Counts of rejected connections. */
typedef struct turned_away {
    uint32_t nonsense, silent, other_secret, other_version, other_job;
} turned_away;

typedef struct meeting {
    const sc_launch *launch;
    const char *started_with; /* lines of runtime/comm/identity.h */
    uint32_t rank, size, join_ms;
    uint64_t deadline;
    uint8_t secret[SC_SECRET_BYTES], job[SC_SHA256_BYTES], world[MEET_NONCE];
    char where[MEET_ADDRESS_TEXT]; /* rank 0 */
    int listener;
    int *sockets;
    place *places;                 /* by rank: its listening address */
    uint8_t (*nonces)[MEET_NONCE]; /* by rank: nonces of the ranks that joined here */
    struct pollfd *polls;          /* size + MEET_STRANGERS + 2 */
    stranger *strangers;           /* MEET_STRANGERS */
    uint32_t stranger_count;
    turned_away turned_away;
    uint64_t refused_ms; /* time when a rank that is still missing was first refused; 0: none */
    uint32_t refused_rank;
    char refused_text[256];
    const shardc_error *over; /* why the meeting failed; NULL: it has not */
} meeting;

/* ---- meeting.c ---- */
int sc_meet_left_ms(uint64_t deadline);
void sc_meet_code(const meeting *m, const char *label, const void *nonce, const void *message,
                  size_t size, const void *more, size_t more_size, uint8_t out[SC_SHA256_BYTES]);
/* Sends or receives `size` bytes. 0: complete; else errno, ETIMEDOUT, or ECONNRESET at end of
 * stream. */
int sc_meet_move(int socket, void *bytes, size_t size, bool sends, uint64_t deadline);
void sc_meet_name_address(const struct sockaddr_storage *address, char *out, size_t size);
socklen_t sc_meet_address_length(const struct sockaddr_storage *address);
void sc_meet_set_port(struct sockaddr_storage *address, uint32_t port);

/* ---- rendezvous_listen.c ---- */
/* Listens on an address. Waits up to `wait_ms` for a port that is in use. */
shardc_status sc_meet_listen(meeting *m, const struct sockaddr_storage *address, uint32_t wait_ms,
                             shardc_error *error);
/* Waits until all ranks from `first` on have joined. Rank 0 watches their connections meanwhile;
 * the others watch rank 0's. */
shardc_status sc_meet_wait_for_joins(meeting *m, uint32_t first, shardc_error *error);
/* Reports a failed meeting to ranks that arrive shortly after it. Those that had joined already
 * know. */
void sc_meet_refuse_late(meeting *m, const shardc_error *error);
/* Sends "end" or "welcome" to a rank that has joined here. */
void sc_meet_answer(const meeting *m, const char *label, uint32_t rank, sc_meet_verdict verdict,
                    const shardc_error *error, bool has_table, uint64_t deadline);
/* Reads the "end" message from rank 0. */
shardc_status sc_meet_read_end(meeting *m, const uint8_t *nonce, uint64_t deadline,
                               shardc_error *error);
void sc_meet_drop_strangers(meeting *m);

#endif
