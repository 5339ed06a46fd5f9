/* The two sides of a meeting: rendezvous_listen.c is who listens, rendezvous.c who comes, and the whole; both use
 * meeting.c. */
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
    MEET_STRANGERS = 256,     /* who came and did not join yet; then the oldest goes */
    MEET_STAY_MS = 100,       /* but everybody has as long */
    MEET_STRANGER_MS = 10000, /* and nobody longer */
    MEET_DECIDE_MS = 4000,    /* after a rank was refused, until another one comes in its place: there may be two jobs on a port */
    MEET_VERDICT_MS = 500,    /* after a meeting failed, those who come late, or again, hear why */
    MEET_REFUSED_MS = 10000,  /* how long a refused rank tries again: its own job may get the port */
    MEET_PORT_MS = 10000,     /* until a port is free */
    MEET_HELLO_MS = 5000,     /* until who listens says something */
    MEET_RETRY_MS = 50,
    MEET_GRACE_MS = 5000, /* longer than rank 0 the others wait, to hear from it who is missing */
    MEET_HOST = 64,       /* characters: numbers, not names */
    MEET_PORT = 8,
    MEET_ADDRESS_TEXT = MEET_HOST + MEET_PORT + 4
};

typedef enum sc_meet_verdict {
    MEET_WELCOME,
    MEET_NO_SECRET,   /* the join's code is wrong; this answer has none */
    MEET_OTHER_JOB,   /* of another launcher's job: it is none of ours */
    MEET_OTHER_START, /* it says things that do not fit: the text */
    MEET_OVER         /* the meeting has failed: the text */
} sc_meet_verdict;

/* Of any version. */
typedef struct hello_message {
    uint32_t magic, version;
    uint8_t nonce[MEET_NONCE];
} hello_message;

typedef struct join_message {
    uint32_t magic, version, rank, size;
    uint32_t to;   /* rank whom it takes the other for */
    uint32_t port; /* it listens there */
    uint8_t nonce[MEET_NONCE];
    uint8_t job[SC_SHA256_BYTES];  /* of the launcher's name for the job */
    uint8_t world[MEET_NONCE];     /* what rank 0 has drawn for this meeting; zeros for rank 0 itself */
    uint32_t text_bytes, unused;   /* of what the rank was started with, which follows; only for rank 0 */
    uint8_t code[SC_SHA256_BYTES]; /* of the hello's number, all above, and the text */
} join_message;

typedef struct welcome_message {
    uint32_t magic, verdict, status, unused; /* shardc_status */
    uint8_t world[MEET_NONCE];
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
    uint8_t nonce[MEET_NONCE];
    struct {
        join_message join;
        char text[SC_IDENTITY_ROOM];
    } said;
} stranger;

/* Connections that led to nothing. */
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
    place *places;                 /* by rank: where it listens */
    uint8_t (*nonces)[MEET_NONCE]; /* by rank: of those who joined here */
    struct pollfd *polls;          /* size + MEET_STRANGERS + 2 */
    stranger *strangers;           /* MEET_STRANGERS */
    uint32_t stranger_count;
    turned_away turned_away;
    uint64_t refused_ms; /* when a rank that is still missing was first refused; 0: none was */
    uint32_t refused_rank;
    char refused_text[256];
    const shardc_error *over; /* why the meeting has failed; NULL: it has not */
} meeting;

/* ---- meeting.c ---- */
int sc_meet_left_ms(uint64_t deadline);
void sc_meet_code(const meeting *m, const char *label, const void *nonce, const void *message, size_t size, const void *more,
                  size_t more_size, uint8_t out[SC_SHA256_BYTES]);
/* 0: all of it is there (or sent); else errno, ETIMEDOUT, or ECONNRESET for an end. */
int sc_meet_move(int socket, void *bytes, size_t size, bool sends, uint64_t deadline);
void sc_meet_name_address(const struct sockaddr_storage *address, char *out, size_t size);
socklen_t sc_meet_address_length(const struct sockaddr_storage *address);
void sc_meet_set_port(struct sockaddr_storage *address, uint32_t port);

/* ---- rendezvous_listen.c ---- */
/* A port that somebody else has is waited for, for `wait_ms`. */
shardc_status sc_meet_listen(meeting *m, const struct sockaddr_storage *address, uint32_t wait_ms, shardc_error *error);
/* Until all from `first` on have joined. Rank 0 watches them meanwhile, the others rank 0. */
shardc_status sc_meet_wait_for_joins(meeting *m, uint32_t first, shardc_error *error);
/* The meeting has failed, and all who had joined know why: tells those who come in the next moments. */
void sc_meet_refuse_late(meeting *m, const shardc_error *error);
/* "end" or "welcome" to a rank that has joined here. */
void sc_meet_answer(const meeting *m, const char *label, uint32_t rank, sc_meet_verdict verdict, const shardc_error *error, bool has_table,
                    uint64_t deadline);
/* The other ranks' "end". */
shardc_status sc_meet_read_end(meeting *m, const uint8_t *nonce, uint64_t deadline, shardc_error *error);
void sc_meet_drop_strangers(meeting *m);

#endif
