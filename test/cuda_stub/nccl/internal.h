/* What the files of NCCL's stub share. */
#ifndef SHARDC_TEST_CUDA_STUB_NCCL_INTERNAL_H
#define SHARDC_TEST_CUDA_STUB_NCCL_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "runtime/cuda/libnccl.h"
#include "test/cuda_stub/stub.h"

#define SYMBOL(result, name, ...) __attribute__((visibility("default"))) result name(__VA_ARGS__);
#include "runtime/cuda/libnccl.def"
#undef SYMBOL

enum {
    MOST_RANKS = 64,
    MOST_CALLS = 256 /* of a group */,
    PATH = 256,
    WAKE_US = 500,
    WAKES_TO_GO_ON = 20,
    ASKED_BEFORE_READY = 2
};

typedef enum op_kind {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    REDUCE,
    SEND,
    RECV
} op_kind;

struct ncclComm {
    struct ncclComm *next;
    char place[PATH]; /* the beginning of its files' names */
    char folder[PATH];
    int rank, size;
    int parent_ranks[MOST_RANKS]; /* what they are in the parent; in a world themselves */
    struct ncclComm *parent;      /* of a split under way */
    int color, key, split;        /* its part in it; the split's number in the parent */
    int splits;                   /* of this one so far */
    _Atomic bool is_aborted;
    bool is_blocking, is_joining, is_leaving, is_gone;
    int asks;           /* about what is in progress */
    struct op *waiting; /* calls that come to their streams when they are asked about */
    int waiting_count, gpu;
    struct ncclComm *child, **child_out; /* of a split under way: where it is given out */
    _Atomic int holds;                   /* calls on streams and in graphs */
    _Atomic bool is_stuck;               /* a call of its has the GPU, and waits for others */
    pid_t pids[MOST_RANKS];
    unsigned error;
    char text[512];
    uint64_t given, got; /* collectives, by this member: run so far */
    /* of what this member gave: so many files are gone */
    uint64_t cleared;
    uint64_t sent[MOST_RANKS], received[MOST_RANKS]; /* messages, by peer */
    uint64_t taken[MOST_RANKS];                      /* of those sent, by peer */
};

typedef struct op {
    op_kind kind;
    struct ncclComm *comm;
    sc_cu_stream stream;
    const void *from;
    void *to;
    size_t count; /* as the function has it */
    sc_nccl_dtype dtype;
    sc_nccl_reduce reduce;
    int peer; /* or root */
    bool hangs;
    bool is_later; /* of the collectives of its group and communicator not the first */
} op;

/* What a file of a call begins with: members that disagree are found. */
typedef struct op_header {
    uint32_t kind, dtype, reduce, root;
    uint64_t count;
} op_header;

extern pthread_mutex_t sc_nccl_lock; /* taken after the driver's, never before it */

#define ENTER()                                                                                    \
    do {                                                                                           \
        unsigned injected = sc_stub_enter(__func__);                                               \
        if (injected != 0)                                                                         \
            return injected;                                                                       \
    } while (0)

/* ---- nccl.c ---- */
bool sc_nccl_is_live(struct ncclComm *comm);
/* Whether something of it is in progress: it takes no calls. */
bool sc_nccl_is_busy(const struct ncclComm *comm);
bool sc_nccl_give_file(const char *name, const void *header, size_t header_bytes, const void *data,
                       size_t bytes);
bool sc_nccl_is_there(const char *name);
/* Exactly so many bytes. */
bool sc_nccl_get_file(const char *name, void *header, size_t header_bytes, void *data,
                      size_t bytes);
__attribute__((format(printf, 2, 3))) const char *sc_nccl_name_of(char out[PATH],
                                                                  const char *format, ...);

/* ---- calls.c ---- */
/* All give before any gets: so the calls of a group help each other. */
unsigned sc_nccl_put_ops(op *ops, int count);
/* Says to the peers of messages that their ends here are there; whether the other ends are, too. */
bool sc_nccl_connects(const op *ops, int count);
/* Whether this thread is in a group. */
bool sc_nccl_is_grouping(void);

#endif
