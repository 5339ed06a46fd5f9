/* How ranks in different processes agree about calls, whatever carries their notices: who starts a call tells the other members that take
 * part, and bytes move once all have said so and fit. Under the backend's lock. */
#ifndef SHARDC_RUNTIME_COMM_CALLS_H
#define SHARDC_RUNTIME_COMM_CALLS_H

#include "runtime/comm/backend.h"

/* What another rank says of a call. */
typedef struct sc_comm_notice {
    uint32_t sender; /* world rank */
    int32_t tag;     /* the backend's */
    sc_comm_summary summary;
} sc_comm_notice;

/* A call that this rank or another one has started: the first member of a backend's own structure. */
typedef struct sc_comm_shared_call {
    struct sc_comm_shared_call *next;
    uint64_t group, lane, number; /* of group: sc_comm_group_key */
    sc_comm_request *request;     /* NULL: this rank did not start it yet */
    sc_comm_notice *notices;      /* of the others, in the order of arrival */
    uint32_t notice_count, notice_room;
    bool disagrees; /* members make different calls: it never moves, though the world's failure may come a moment later */
} sc_comm_shared_call;

/* Zeros and `bytes`: none yet. */
typedef struct sc_comm_calls {
    size_t bytes; /* of the backend's structure */
    sc_comm_shared_call *first, *unused;
} sc_comm_calls;

/* A hash of the group's list and ordinal, which all members compute alike. */
uint64_t sc_comm_group_key(const sc_comm_group *group);
/* The group's size when it is no member. */
uint32_t sc_comm_member(const sc_comm_group *group, uint32_t world_rank);
/* Whether the member (a group rank) is told of the request, and tells of its own. */
bool sc_comm_takes_part(const sc_comm_request *request, uint32_t member);

/* The call, made (of zeros, or as it was dropped) when it is not there and `makes`. NULL: it is not there, or there is no memory. */
void *sc_comm_find_call(sc_comm_calls *calls, uint64_t group, uint64_t lane, uint64_t number, bool makes);
/* It may be given again, with what the backend keeps in it. */
void sc_comm_drop_call(sc_comm_calls *calls, void *call);
/* Frees what sc_comm_find_call made, after `free_own` of each. */
void sc_comm_free_calls(sc_comm_calls *calls, void (*free_own)(void *call));

/* Another rank's notice, which nobody vouches for. Then, and when this rank starts its own, all that are there are compared: with each
 * other only where the kind wants it, since every rank does the same. */
shardc_status sc_comm_take_notice(sc_comm_shared_call *call, const sc_comm_notice *notice, shardc_error *error);
shardc_status sc_comm_compare_notices(sc_comm_shared_call *call, shardc_error *error);
/* This rank has started it and all others have said that they did, alike. */
bool sc_comm_is_agreed(const sc_comm_shared_call *call);

/* Flags (one a member) the ones that have not said that they make the call: all of them, or with `is_gone` those of whom it is true, by
 * world rank. Their number. */
uint32_t sc_comm_find_missing(const sc_comm_shared_call *call, bool (*is_gone)(const void *world, uint32_t rank), const void *world,
                              bool *missing);

#endif
