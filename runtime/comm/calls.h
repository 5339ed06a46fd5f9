/* Agreement between processes about calls, independent of the transport. A rank that starts a call
 * sends a notice to the other members that take part; bytes move once all notices have arrived and
 * match. Everything here runs under the backend's lock. */
#ifndef SHARDC_RUNTIME_COMM_CALLS_H
#define SHARDC_RUNTIME_COMM_CALLS_H

#include "runtime/comm/backend.h"

/* Another rank's notice of a call. */
typedef struct sc_comm_notice {
    uint32_t sender; /* world rank */
    int32_t tag;     /* used by the backend */
    sc_comm_summary summary;
} sc_comm_notice;

/* A call started by this rank or by another one. First member of a backend's own structure. */
typedef struct sc_comm_shared_call {
    struct sc_comm_shared_call *next;
    uint64_t group, lane, number; /* `group`: sc_comm_group_key */
    sc_comm_request *request;     /* NULL: not yet started by this rank */
    sc_comm_notice *notices;      /* of the other members, in order of arrival */
    uint32_t notice_count, notice_room;
    /* the members' calls differ, so it never moves, even if the world is marked failed only later
     */
    bool disagrees;
} sc_comm_shared_call;

/* Initialize with zeros and set `bytes`. */
typedef struct sc_comm_calls {
    size_t bytes; /* size of the backend's structure */
    sc_comm_shared_call *first, *unused;
} sc_comm_calls;

/* Returns a hash of the group's ranks and ordinal, equal on all members. */
uint64_t sc_comm_group_key(const sc_comm_group *group);
/* Returns the group rank of a world rank; the group's size if it is not a member. */
uint32_t sc_comm_member(const sc_comm_group *group, uint32_t world_rank);
/* True if the member (a group rank) sends and receives a notice for this request. */
bool sc_comm_takes_part(const sc_comm_request *request, uint32_t member);

/* Finds a call. If it does not exist and `makes` is set, creates it, zeroed or reused as
 * sc_comm_drop_call left it. NULL: not found, or out of memory. */
void *sc_comm_find_call(sc_comm_calls *calls, uint64_t group, uint64_t lane, uint64_t number,
                        bool makes);
/* Puts a call on the free list; the backend's fields are kept for its next use. */
void sc_comm_drop_call(sc_comm_calls *calls, void *dropped);
/* Frees all calls, running `free_own` on each first. */
void sc_comm_free_calls(sc_comm_calls *calls, void (*free_own)(void *call));

/* Takes another rank's notice, which is not trusted. Notices are compared now, and again when this
 * rank starts its own call. They are compared with each other only if the kind requires it, because
 * every rank does the same. */
shardc_status sc_comm_take_notice(sc_comm_shared_call *call, const sc_comm_notice *notice,
                                  shardc_error *error);
shardc_status sc_comm_compare_notices(sc_comm_shared_call *call, shardc_error *error);
/* True if this rank has started the call and all other members have sent matching notices. */
bool sc_comm_is_agreed(const sc_comm_shared_call *call);

/* Flags the members that have not announced the call, and returns their number; one flag per
 * member. With `is_gone`, flags only those for which it returns true; it takes world ranks. */
uint32_t sc_comm_find_missing(const sc_comm_shared_call *call,
                              bool (*is_gone)(const void *world, uint32_t rank), const void *world,
                              bool *missing);

#endif
