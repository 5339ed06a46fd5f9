/* Implements include/shardc/comm.h with runtime/comm/comm.h. */
#include "shardc/comm.h"

#include <stdlib.h>

#include "runtime/comm/backend.h"

enum { FEW_PARTS = 16 /* calls with up to this many parts are translated without allocating */ };

_Static_assert((int)SHARDC_F32 == SC_DTYPE_f32 && (int)SHARDC_F64 == SC_DTYPE_f64 &&
                   (int)SHARDC_BF16 == SC_DTYPE_bf16,
               "dtypes");
_Static_assert((int)SHARDC_F16 == SC_DTYPE_f16 && (int)SHARDC_I32 == SC_DTYPE_i32 &&
                   (int)SHARDC_I64 == SC_DTYPE_i64,
               "dtypes");
_Static_assert((int)SHARDC_U8 == SC_DTYPE_u8 && (int)SHARDC_BOOL == SC_DTYPE_bool &&
                   (int)SC_DTYPE_COUNT == SHARDC_BOOL + 1,
               "dtypes");
#define COLLECTIVE(name, NAME, ...) _Static_assert((int)SHARDC_##NAME == SC_COMM_##NAME, "kinds");
#include "program/collectives.def"
_Static_assert((int)SHARDC_BARRIER == SC_COMM_BARRIER && (int)SC_COMM_KINDS == SHARDC_BARRIER + 1,
               "kinds");
_Static_assert((int)SHARDC_NO_REDUCE == SC_COMM_NONE && (int)SHARDC_SUM == SC_COMM_SUM,
               "reductions");
_Static_assert((int)SHARDC_MAX == SC_COMM_MAX && (int)SHARDC_MIN == SC_COMM_MIN, "reductions");
_Static_assert((int)SHARDC_NOBODY == SC_COMM_NOBODY, "nobody");

/* The public handle types are never defined: a public handle is the internal one, cast. */
static sc_comm *inner(const shardc_comm *comm)
{
    return (sc_comm *)comm;
}

static sc_comm_group *inner_group(const shardc_comm_group *group)
{
    return (sc_comm_group *)group;
}

shardc_status shardc_comm_open_local(uint32_t size, uint32_t deadline_ms, shardc_comm **out,
                                     shardc_error *error)
{
    sc_comm **comms = calloc(size == 0 ? 1 : size, sizeof *comms);
    if (comms == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "a world of %u ranks: out of memory", size);
    shardc_status status =
        sc_comm_open_local(size, &(sc_comm_options){.deadline_ms = deadline_ms}, comms, error);
    for (uint32_t i = 0; status == SHARDC_OK && i < size; i++)
        out[i] = (shardc_comm *)comms[i];
    free(comms);
    return status;
}

shardc_status shardc_comm_open_mpi(uint32_t deadline_ms, shardc_comm **out, shardc_error *error)
{
    sc_comm *comm = NULL;
    shardc_status status =
        sc_comm_open_mpi(&(sc_comm_options){.deadline_ms = deadline_ms}, &comm, error);
    *out = (shardc_comm *)comm;
    return status;
}

shardc_status shardc_comm_open_tcp(uint32_t deadline_ms, shardc_comm **out, shardc_error *error)
{
    sc_comm *comm = NULL;
    shardc_status status =
        sc_comm_open_tcp(NULL, &(sc_comm_options){.deadline_ms = deadline_ms}, &comm, error);
    *out = (shardc_comm *)comm;
    return status;
}

void shardc_comm_close(shardc_comm *comm)
{
    sc_comm_close(inner(comm));
}

uint32_t shardc_comm_rank(const shardc_comm *comm)
{
    return sc_comm_rank(inner(comm));
}

uint32_t shardc_comm_size(const shardc_comm *comm)
{
    return sc_comm_size(inner(comm));
}

const char *shardc_comm_backend(const shardc_comm *comm)
{
    return sc_comm_backend_name(inner(comm));
}

void shardc_comm_set_deadline(shardc_comm *comm, uint32_t deadline_ms)
{
    sc_comm_set_deadline(inner(comm), deadline_ms);
}

shardc_comm_group *shardc_comm_world(shardc_comm *comm)
{
    return (shardc_comm_group *)sc_comm_world(inner(comm));
}

shardc_status shardc_comm_group_new(shardc_comm *comm, const uint32_t *ranks, uint32_t count,
                                    shardc_comm_group **out, shardc_error *error)
{
    sc_comm_group *group = NULL;
    shardc_status status = sc_comm_group_new(inner(comm), ranks, count, &group, error);
    *out = (shardc_comm_group *)group;
    return status;
}

uint32_t shardc_comm_group_rank(const shardc_comm_group *group)
{
    return sc_comm_group_rank(inner_group(group));
}

uint32_t shardc_comm_group_size(const shardc_comm_group *group)
{
    return sc_comm_group_size(inner_group(group));
}

shardc_status shardc_comm_start(shardc_comm_group *group, const shardc_comm_call *call,
                                shardc_comm_request **out, shardc_error *error)
{
    sc_comm_part few[FEW_PARTS], *parts = few;
    sc_comm_request *request = NULL;
    if (call->part_count > FEW_PARTS)
        parts = calloc(call->part_count, sizeof *parts);
    if (parts == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "a call of %u parts: out of memory",
                       call->part_count);
    for (uint32_t i = 0; call->parts != NULL && i < call->part_count; i++)
        parts[i] = (sc_comm_part){.source = call->parts[i].source,
                                  .destination = call->parts[i].destination,
                                  .count = call->parts[i].count,
                                  .dtype = (sc_dtype)call->parts[i].dtype};
    sc_comm_call translated = {.kind = (sc_comm_kind)call->kind,
                               .reduce = (sc_comm_reduce)call->reduce,
                               .part_count = call->part_count,
                               .parts = call->parts == NULL ? NULL : parts,
                               .to = call->to,
                               .from = call->from,
                               .what = call->what};
    shardc_status status = sc_comm_start(inner_group(group), &translated, &request, error);
    if (parts != few)
        free(parts);
    *out = (shardc_comm_request *)request;
    return status;
}

shardc_status shardc_comm_wait(shardc_comm_request *request, shardc_error *error)
{
    return sc_comm_wait((sc_comm_request *)request, error);
}

shardc_status shardc_comm_run(shardc_comm_group *group, const shardc_comm_call *call,
                              shardc_error *error)
{
    shardc_comm_request *request = NULL;
    shardc_status status = shardc_comm_start(group, call, &request, error);
    return request != NULL ? shardc_comm_wait(request, error) : status;
}

shardc_status shardc_comm_barrier(shardc_comm_group *group, shardc_error *error)
{
    return sc_comm_barrier(inner_group(group), error);
}

void shardc_comm_abort(shardc_comm *comm, const char *why)
{
    sc_comm_abort(inner(comm), why);
}

shardc_status shardc_comm_poll(shardc_comm *comm, shardc_error *error)
{
    return sc_comm_poll(inner(comm), error);
}

shardc_comm_counter shardc_comm_count(const shardc_comm *comm, shardc_comm_kind kind)
{
    const sc_comm_counter *counter = &sc_comm_counters(inner(comm))[kind];
    return (shardc_comm_counter){
        .calls = counter->calls, .bytes = counter->bytes, .sent = counter->sent};
}
