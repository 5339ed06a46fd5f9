/* The table of calls and their notices; comparison of notices. */
#include "runtime/comm/calls.h"

#include <stdlib.h>

#include "support/hash.h"

uint64_t sc_comm_group_key(const sc_comm_group *group)
{
    return sc_hash_bytes(group->ranks, group->size * sizeof *group->ranks, group->ordinal);
}

uint32_t sc_comm_member(const sc_comm_group *group, uint32_t world_rank)
{
    uint32_t i = 0;
    while (i < group->size && group->ranks[i] != world_rank)
        i++;
    return i;
}

bool sc_comm_takes_part(const sc_comm_request *request, uint32_t member)
{
    const sc_comm_group *group = request->group;
    uint64_t pair = request->lane - 1; /* of a message: from * n + to */
    return member != group->rank &&
           (request->lane == 0 || member == pair / group->size || member == pair % group->size);
}

/* ---- the table ---- */

void *sc_comm_find_call(sc_comm_calls *calls, uint64_t group, uint64_t lane, uint64_t number,
                        bool makes)
{
    sc_comm_shared_call *call = calls->first;
    while (call != NULL && (call->group != group || call->lane != lane || call->number != number))
        call = call->next;
    if (call != NULL || !makes)
        return call;
    call = calls->unused;
    if (call != NULL)
        calls->unused = call->next;
    else
        call = calloc(1, calls->bytes);
    if (call == NULL)
        return NULL;
    call->group = group;
    call->lane = lane;
    call->number = number;
    call->request = NULL;
    call->notice_count = 0;
    call->disagrees = false;
    call->next = calls->first;
    calls->first = call;
    return call;
}

void sc_comm_drop_call(sc_comm_calls *calls, void *dropped)
{
    sc_comm_shared_call *call = dropped, **link = &calls->first;
    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
    call->next = calls->unused;
    calls->unused = call;
}

void sc_comm_free_calls(sc_comm_calls *calls, void (*free_own)(void *call))
{
    sc_comm_shared_call *lists[] = {calls->first, calls->unused};
    for (int i = 0; i < 2; i++) {
        while (lists[i] != NULL) {
            sc_comm_shared_call *next = lists[i]->next;
            free_own(lists[i]);
            free(lists[i]->notices);
            free(lists[i]);
            lists[i] = next;
        }
    }
}

/* ---- notices ---- */

/* Compares notice `index` with this rank's own call and, for a permute, with the notices before it:
 * two others can contradict each other even if both match this rank's call. */
static shardc_status compare(const sc_comm_shared_call *call, uint32_t index, shardc_error *error)
{
    const sc_comm_request *request = call->request;
    const sc_comm_group *group = request->group;
    const sc_comm_notice *n = &call->notices[index];
    uint32_t sender = sc_comm_member(group, n->sender);
    if (sender == group->size)
        return sc_fail(error, SHARDC_ERROR_COMM, "rank %u takes part in a group that it is not in",
                       n->sender);
    if (!sc_comm_summaries_fit(&request->summary, group->rank, &n->summary, sender))
        return sc_comm_fail_mismatch(error, request, &request->summary, group->rank, &n->summary,
                                     sender);
    if (!sc_comm_compares_all(&request->summary))
        return SHARDC_OK;
    for (uint32_t i = 0; i < index; i++) {
        const sc_comm_notice *other = &call->notices[i];
        uint32_t rank = sc_comm_member(group, other->sender);
        if (!sc_comm_summaries_fit(&other->summary, rank, &n->summary, sender))
            return sc_comm_fail_mismatch(error, request, &other->summary, rank, &n->summary,
                                         sender);
    }
    return SHARDC_OK;
}

/* Checks values from the network that error messages are made from. */
static shardc_status check_summary(const sc_comm_notice *notice, shardc_error *error)
{
    const sc_comm_summary *summary = &notice->summary;
    if (summary->kind >= SC_COMM_KINDS || summary->reduce >= SC_COMM_REDUCES)
        return sc_fail(error, SHARDC_ERROR_COMM, "rank %u makes a call of an unknown kind",
                       notice->sender);
    for (uint32_t i = 0; i < SC_COMM_SHOWN_PARTS; i++) {
        if (summary->dtypes[i] >= SC_DTYPE_COUNT)
            return sc_fail(error, SHARDC_ERROR_COMM, "rank %u calls with an unknown dtype",
                           notice->sender);
    }
    return SHARDC_OK;
}

static bool has_room(sc_comm_shared_call *call)
{
    if (call->notice_count < call->notice_room)
        return true;
    uint32_t room = call->notice_room == 0 ? 8 : 2 * call->notice_room;
    sc_comm_notice *notices = realloc(call->notices, room * sizeof *notices);
    if (notices == NULL)
        return false;
    call->notices = notices;
    call->notice_room = room;
    return true;
}

shardc_status sc_comm_take_notice(sc_comm_shared_call *call, const sc_comm_notice *notice,
                                  shardc_error *error)
{
    shardc_status status = check_summary(notice, error);
    if (status != SHARDC_OK)
        return status;
    if (call == NULL || !has_room(call))
        return sc_fail(error, SHARDC_ERROR_MEMORY, "notices between ranks: out of memory");
    call->notices[call->notice_count++] = *notice;
    status = call->request == NULL ? SHARDC_OK : compare(call, call->notice_count - 1, error);
    call->disagrees = call->disagrees || status != SHARDC_OK;
    return status;
}

shardc_status sc_comm_compare_notices(sc_comm_shared_call *call, shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < call->notice_count; i++) {
        if (status != SHARDC_OK)
            break;
        status = compare(call, i, error);
    }
    call->disagrees = call->disagrees || status != SHARDC_OK;
    return status;
}

bool sc_comm_is_agreed(const sc_comm_shared_call *call)
{
    return call->request != NULL && !call->disagrees &&
           call->notice_count == (call->lane == 0 ? call->request->group->size - 1 : 1);
}

uint32_t sc_comm_find_missing(const sc_comm_shared_call *call,
                              bool (*is_gone)(const void *world, uint32_t rank), const void *world,
                              bool *missing)
{
    const sc_comm_group *group = call->request->group;
    uint32_t count = 0;
    for (uint32_t i = 0; i < group->size; i++)
        missing[i] = sc_comm_takes_part(call->request, i) &&
                     (is_gone == NULL || is_gone(world, group->ranks[i]));
    for (uint32_t i = 0; i < call->notice_count; i++) {
        uint32_t sender = sc_comm_member(group, call->notices[i].sender);
        if (sender < group->size)
            missing[sender] = false;
    }
    for (uint32_t i = 0; i < group->size; i++)
        count += missing[i];
    return count;
}
