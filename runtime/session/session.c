/* Creates and frees sessions: device, threads, ranks, world. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session/device.h"
#include "runtime/session/session.h"
#include "runtime/session/team.h"

/* ---- jobs ---- */

typedef struct rank_job {
    shardc_session *session;
    shardc_status (*work)(sc_rank *rank, void *user, shardc_error *error);
    void *user;
} rank_job;

static void run_rank_job(void *user, uint32_t worker)
{
    rank_job *job = user;
    sc_rank *rank = &job->session->ranks[worker];
    rank->error = (shardc_error){.status = SHARDC_OK};
    rank->status = job->work(rank, job->user, &rank->error);
}

void sc_session_each_rank(shardc_session *session,
                          shardc_status (*work)(sc_rank *rank, void *user, shardc_error *error),
                          void *user)
{
    rank_job job = {session, work, user};
    sc_workers_run(session->workers, run_rank_job, &job);
}

/* ---- outcomes ---- */

shardc_status sc_session_agree(shardc_session *session, shardc_status status, shardc_error *error)
{
    sc_rank *rank = &session->ranks[0];
    int32_t mine = status != SHARDC_OK ? (int32_t)session->first_rank + 1 : 0, any = 0;
    sc_comm_part part = {.source = &mine, .destination = &any, .count = 1, .dtype = SC_DTYPE_i32};
    sc_comm_call call = {.kind = SC_COMM_ALL_REDUCE,
                         .reduce = SC_COMM_MAX,
                         .part_count = 1,
                         .parts = &part,
                         .what = "outcome"};
    shardc_error reason = {.status = SHARDC_OK};
    if (session->rank_count == session->image->ranks || session->is_world_lost)
        return status;
    shardc_status agreed = sc_comm_run(sc_comm_world(rank->comm), &call, &reason);
    if (agreed != SHARDC_OK) {
        session->is_world_lost = true;
        return status != SHARDC_OK ? status : sc_fail(error, agreed, "%s", reason.text);
    }
    return status == SHARDC_OK && any != 0
               ? sc_fail(error, SHARDC_ERROR_COMM, "rank %d failed: its message says why", any - 1)
               : status;
}

/* Prefers the first rank with an error of its own over ranks that failed because another one
 * did. */
shardc_status sc_session_outcome(shardc_session *session, shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    for (uint32_t r = 0; r < session->rank_count; r++) {
        sc_rank *rank = &session->ranks[r];
        session->is_world_lost = session->is_world_lost || rank->has_lost_world;
        if (rank->status != SHARDC_OK &&
            (status == SHARDC_OK ||
             (status == SHARDC_ERROR_COMM && rank->status != SHARDC_ERROR_COMM)))
            status = sc_fail(error, rank->status, "%s", rank->error.text);
    }
    return sc_session_agree(session, status, error);
}

/* ---- worlds ---- */

/* Errors of communication then name the stages of ranks. */
static void name_stages(const shardc_session *session, sc_comm *comm)
{
    if (session->image->pipeline.count > 0) {
        sc_image_digit digit = sc_image_stage_digit(session->image);
        sc_comm_set_stages(comm, (uint32_t)digit.divide, (uint32_t)digit.modulo);
    }
}

static shardc_status open_local_world(shardc_session *session, shardc_error *error)
{
    sc_comm_options options = {.deadline_ms = session->options.deadline_ms};
    sc_comm **comms = calloc(session->rank_count, sizeof *comms);
    shardc_error reason = {.status = SHARDC_OK};
    if (comms == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for %u ranks",
                       session->rank_count);
    shardc_status status = sc_comm_open_local(session->rank_count, &options, comms, &reason);
    if (status == SHARDC_OK) {
        for (uint32_t r = 0; r < session->rank_count; r++) {
            session->ranks[r].comm = comms[r];
            name_stages(session, comms[r]);
        }
    }
    free(comms);
    return status == SHARDC_OK ? SHARDC_OK : sc_fail(error, status, "%s", reason.text);
}

static void close_local_world(shardc_session *session)
{
    if (!session->owns_world)
        return;
    for (uint32_t r = 0; r < session->rank_count; r++) {
        sc_comm_close(session->ranks[r].comm);
        session->ranks[r].comm = NULL;
    }
}

/* Aborts the world if this rank failed: others may be waiting for it while they open groups. */
static shardc_status come_or_abort(sc_rank *rank, shardc_status status, const shardc_error *error)
{
    if (status != SHARDC_OK) {
        rank->has_lost_world = true;
        sc_comm_abort(rank->comm, error->text);
    }
    return status;
}

static shardc_status bind_groups(sc_rank *rank, void *user, shardc_error *error)
{
    (void)user;
    return come_or_abort(rank, rank->session->device->open_groups(rank, error), error);
}

shardc_status sc_session_recover(shardc_session *session, shardc_error *error)
{
    if (!session->is_world_lost)
        return SHARDC_OK;
    if (session->rank_count < session->image->ranks)
        return sc_fail(error, SHARDC_ERROR_COMM,
                       "an earlier error ended the connection to the other ranks; the session "
                       "cannot continue");
    close_local_world(session);
    shardc_status status = open_local_world(session, error);
    if (status != SHARDC_OK)
        return status;
    session->is_world_lost = false;
    for (uint32_t r = 0; r < session->rank_count; r++)
        session->ranks[r].has_lost_world = false;
    sc_session_each_rank(session, bind_groups, NULL);
    return sc_session_outcome(session, error);
}

/* ---- ranks ---- */

static shardc_status start_rank(sc_rank *rank, void *user, shardc_error *error)
{
    const sc_device *device = rank->session->device;
    (void)user;
    shardc_status status = device->open_rank(rank, error);
    if (status == SHARDC_OK)
        status = sc_rank_bind(rank, error);
    if (status == SHARDC_OK)
        status = device->prepare_rank(rank, error);
    if (status == SHARDC_OK)
        status = device->open_groups(rank, error);
    return come_or_abort(rank, status, error);
}

static shardc_status stop_rank(sc_rank *rank, void *user, shardc_error *error)
{
    (void)user;
    (void)error;
    rank->session->device->close_rank(rank);
    sc_rank_unbind(rank);
    return SHARDC_OK;
}

/* ---- sessions ---- */

static shardc_status start_session(shardc_session *session, sc_comm *comm, shardc_error *error)
{
    session->ranks = calloc(session->rank_count, sizeof *session->ranks);
    if (session->ranks == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for %u ranks",
                       session->rank_count);
    for (uint32_t r = 0; r < session->rank_count; r++)
        session->ranks[r] =
            (sc_rank){.session = session,
                      .rank = session->first_rank + r,
                      .image = sc_session_image_of(session, session->first_rank + r),
                      .host = {.file = -1},
                      .comm = comm};
    if (comm != NULL)
        name_stages(session, comm);
    shardc_status status = session->device->check(session, error);
    if (status == SHARDC_OK)
        status = session->device->open(session, error);
    if (status == SHARDC_OK && comm == NULL) {
        session->owns_world = true;
        status = open_local_world(session, error);
    }
    if (status == SHARDC_OK)
        status = sc_workers_new(session->rank_count, &session->workers, error);
    if (status != SHARDC_OK)
        return status;
    sc_session_each_rank(session, start_rank, NULL);
    return sc_session_outcome(session, error);
}

/* A check of rows without room says what share they are of. The ranks of stages meet before an
 * update anyway. */
static bool may_lack_room(const sc_image *image)
{
    if (image->pipeline.count > 0)
        return false;
    for (uint32_t k = 0; k < image->kernel_count; k++) {
        for (uint32_t c = 0; c < image->kernels[k].check_count; c++) {
            if (strstr(image->kernels[k].checks[c], "{value/") != NULL)
                return true;
        }
    }
    return false;
}

/* Tells waiting ranks that this one is not coming. */
static void give_up(sc_comm *comm)
{
    if (comm != NULL)
        sc_comm_abort(comm, "its session did not start");
}

shardc_status sc_session_new_on(const sc_device *device, const shardc_executable *program,
                                const shardc_session_options *options, sc_comm *comm,
                                shardc_session **out, shardc_error *error)
{
    shardc_session *session = calloc(1, sizeof *session);
    *out = NULL;
    if (session == NULL) {
        give_up(comm);
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for a session");
    }
    session->program = program;
    session->device = device;
    session->image = program->image;
    session->may_lack_room = may_lack_room(program->image);
    session->rank_count = comm == NULL ? (uint32_t)program->image->ranks : 1;
    session->first_rank = comm == NULL ? 0 : sc_comm_rank(comm);
    if (options != NULL)
        session->options = *options;
    if (session->options.threads == 0)
        session->options.threads = sc_team_size();
    if (session->options.threads > sc_team_most())
        session->options.threads = sc_team_most();
    shardc_status status = start_session(session, comm, error);
    /* the strings are the caller's, valid only during this call */
    session->options.gemm_cache = session->options.started_with = session->options.host_memory =
        NULL;
    if (status == SHARDC_OK) {
        *out = session;
        return SHARDC_OK;
    }
    give_up(comm);
    shardc_session_free(session);
    return status;
}

void shardc_session_free(shardc_session *session)
{
    if (session == NULL)
        return;
    if (session->workers != NULL)
        sc_session_each_rank(session, stop_rank, NULL);
    sc_workers_free(session->workers);
    if (session->ranks != NULL)
        close_local_world(session);
    session->device->close(session);
    free(session->ranks);
    free(session);
}

uint32_t shardc_session_local_ranks(const shardc_session *session, uint32_t *out_first)
{
    if (out_first != NULL)
        *out_first = session->first_rank;
    return session->rank_count;
}

void shardc_session_gemm_tuning(const shardc_session *session, shardc_gemm_tuning *out)
{
    *out = (shardc_gemm_tuning){.gemms = 0};
    if (session->device->gemm_tuning != NULL)
        session->device->gemm_tuning(session, out);
}

void shardc_session_graphs(const shardc_session *session, shardc_graph_report *out)
{
    *out = (shardc_graph_report){.refused = 0};
    if (session->device->graphs != NULL)
        session->device->graphs(session, out);
}

void shardc_session_set_random(shardc_session *session, uint64_t seed, uint64_t step,
                               uint32_t micro_batch)
{
    session->seed = seed;
    session->step = step;
    session->micro_batch = micro_batch;
}

/* ---- measuring ---- */

void shardc_session_profile(const shardc_session *session, uint32_t func, uint32_t rank,
                            shardc_func_profile *out)
{
    uint32_t index = rank - session->first_rank;
    *out = (shardc_func_profile){0};
    if (func < session->image->func_count && rank >= session->first_rank &&
        index < session->rank_count)
        *out = session->ranks[index].profile[func];
}

void shardc_session_reset_profile(shardc_session *session)
{
    for (uint32_t r = 0; r < session->rank_count; r++)
        memset(session->ranks[r].profile, 0,
               session->image->func_count * sizeof *session->ranks[r].profile);
}

void shardc_session_set_trace(shardc_session *session,
                              void (*trace)(void *user, const shardc_trace_event *event),
                              void *user)
{
    session->trace = trace;
    session->trace_user = user;
}
