/* Communicators of NCCL. The world's is created non-blocking from an id that rank 0 broadcasts over
 * the ranks' own communicator; all others are split from it. A split is a call of all members of
 * what is split. So stages, whose groups need not be alike, split theirs from a communicator of the
 * stage; and boundaries are split from the world, in an order that all ranks know, by ranks without
 * a part in them too. One split makes as many boundaries as have no stage in common. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "program/lookup.h"
#include "runtime/comm/backend.h"
#include "runtime/cuda/messages.h"
#include "runtime/cuda/nccl.h"

/* Aborts one communicator, on a thread of its own. */
struct sc_nccl_abortion {
    const sc_nccl *nccl;
    sc_nccl_comm comm;
    pthread_t thread;
    bool has_thread;
};

/* Communicators could share buffers and connections with the one that they are split from
 * (ncclConfig_t.splitShare of the parent, since 2.18), which saves memory. They do not, because
 * what shares resources is one queue to NCCL: each launch waits for the previous one of the whole
 * family, whatever streams they are on (sharedRes->deviceStream in its sources), so
 *  - messages would wait for one another across boundaries, whose two ends start theirs in orders
 *    of their own: two ranks that wait for each other's earlier message would wait for ever;
 *  - collectives of different groups could not run at the same time, on however many streams.
 * And aborting one communicator may make all of its family unusable (user guide, Types), while
 * calls for parent and child from several threads, as abort_all makes them, are not allowed (Thread
 * Safety). NCCL_COMM_SPLIT_SHARE_RESOURCES=1 would override this. */
enum { SHARES_RESOURCES = 0 };

static sc_nccl_config config_of_all(void)
{
    sc_nccl_config config = SC_NCCL_CONFIG;
    config.blocking = 0;
    config.split_share = SHARES_RESOURCES;
    return config;
}

/* ---- opening ---- */

static shardc_status open_world(sc_rank *rank, sc_nccl_rank *own, shardc_error *error)
{
    const sc_nccl *nccl = sc_nccl_of(rank);
    sc_nccl_config config = config_of_all();
    sc_nccl_id id = {{0}};
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status =
        rank->rank == 0 ? SC_NCCL(nccl, NULL, error, "", ncclGetUniqueId, &id) : SHARDC_OK;
    sc_comm_part part = {
        .source = &id, .destination = &id, .count = (int64_t)sizeof id, .dtype = SC_DTYPE_u8};
    sc_comm_call call = {.kind = SC_COMM_BROADCAST,
                         .part_count = 1,
                         .parts = &part,
                         .what = "the id of NCCL's world"};
    if (status == SHARDC_OK)
        status = sc_comm_run(sc_comm_world(rank->comm), &call, &reason);
    if (reason.status != SHARDC_OK)
        return sc_fail(error, status, "%s", reason.text);
    if (status == SHARDC_OK)
        status = SC_NCCL(nccl, NULL, error, "", ncclCommInitRankConfig, own->world,
                         (int)rank->image->ranks, id, (int)rank->rank, &config);
    return status == SHARDC_OK ? sc_nccl_settle(rank, *own->world, "joining NCCL's world", error)
                               : status;
}

/* Splits a communicator: members with the same colour get a common one, ordered by key; with
 * SC_NCCL_NO_COLOR none. A non-blocking split completes only while the parent is polled. */
static shardc_status split(sc_rank *rank, sc_nccl_comm parent, int color, int key, const char *what,
                           sc_nccl_comm *out, shardc_error *error)
{
    sc_nccl_config config = config_of_all();
    shardc_status status = SC_NCCL(sc_nccl_of(rank), parent, error, what, ncclCommSplit, parent,
                                   color, key, out, &config);
    if (status == SHARDC_OK)
        status = sc_nccl_settle(rank, parent, what, error);
    return status == SHARDC_OK && color != SC_NCCL_NO_COLOR
               ? sc_nccl_settle(rank, *out, what, error)
               : status;
}

/* Groups are of ranks of one stage, and only its ranks know them. */
static shardc_status open_stage(sc_rank *rank, sc_nccl_rank *own, shardc_error *error)
{
    const sc_program *program = &rank->session->program->all;
    bool has_groups = false;
    for (uint32_t s = 0; s < program->stage_count; s++)
        has_groups = has_groups || program->stages[s]->group_count > 0;
    if (rank->image->pipeline.count == 0 || !has_groups) {
        *own->stage = *own->world;
        return SHARDC_OK;
    }
    return split(rank, *own->world, (int)rank->image->pipeline.stage, (int)rank->rank, "its stage",
                 own->stage, error);
}

/* True if the group is all ranks of the stage in order. All of them get the same answer. */
static bool is_stage(const sc_image *image, const sc_image_group *group)
{
    uint64_t stages = image->pipeline.count == 0 ? 1 : image->pipeline.count, before = 0;
    bool is = sc_image_group_size(group) == image->ranks / stages;
    for (uint64_t r = 0; is && r < image->ranks; r++) {
        if (sc_image_stage_of(image, r) == image->pipeline.stage)
            is = sc_image_group_rank(group, r) == before++;
    }
    return is;
}

/* Of a rank that is alone every group is the stage, and is split all the same: a split, too, is to
 * be tried. The lowest member's rank is the colour that separates groups of one kind. */
static shardc_status open_group(sc_rank *rank, sc_nccl_rank *own, uint32_t index,
                                shardc_error *error)
{
    const sc_image_group *group = &rank->image->groups[index];
    const sc_cuda_session *session = rank->session->device_state;
    if (is_stage(rank->image, group) && !session->is_nccl_alone) {
        own->groups[index] = *own->stage;
        return SHARDC_OK;
    }
    return split(rank, *own->stage, (int)sc_image_group_member(group, rank->rank, 0),
                 (int)sc_image_group_rank(group, rank->rank), group->axes, &own->groups[index],
                 error);
}

/* A split: boundary `mine` of the rank (SC_NONE: none), whose sender's rank is the colour. */
static shardc_status open_boundary(sc_rank *rank, sc_nccl_rank *own, uint32_t mine,
                                   shardc_error *error)
{
    char what[SC_CUDA_BOUNDARY_NAME] = "boundaries of other stages";
    sc_nccl_comm none = NULL;
    if (mine == SC_NONE)
        return split(rank, *own->world, SC_NCCL_NO_COLOR, 0, what, &none, error);
    const sc_image_boundary *boundary = &rank->image->boundaries[mine];
    uint64_t peer = sc_image_stage_peer(rank->image, rank->rank, boundary->peer);
    sc_cuda_boundary_name(rank->image, mine, what, sizeof what);
    shardc_status status = split(rank, *own->world, (int)(boundary->is_receive ? peer : rank->rank),
                                 boundary->is_receive ? 1 : 0, what, &own->boundaries[mine], error);
    return status == SHARDC_OK ? sc_nccl_connect(rank, mine, error) : status;
}

/* What the splits so far have made. */
typedef struct splits {
    bool *is_made; /* by stage and its boundary, in a row */
    bool *is_busy; /* by stage: it has a boundary in the current split */
    uint32_t left; /* boundaries */
} splits;

/* Chooses the boundaries of a split: every one, by sender, whose stages are both free. Returns the
 * rank's own. */
static uint32_t choose(const sc_rank *rank, splits *all)
{
    const sc_program *program = &rank->session->program->all;
    uint32_t stage = rank->image->pipeline.stage, mine = SC_NONE;
    bool *is_made = all->is_made;
    memset(all->is_busy, 0, program->stage_count * sizeof *all->is_busy);
    for (uint32_t s = 0; s < program->stage_count; s++) {
        const sc_image *image = program->stages[s];
        for (uint32_t i = 0; i < image->boundary_count; i++, is_made++) {
            uint32_t peer = image->boundaries[i].peer;
            if (image->boundaries[i].is_receive || *is_made || all->is_busy[s] ||
                all->is_busy[peer])
                continue;
            *is_made = all->is_busy[s] = all->is_busy[peer] = true;
            all->left--;
            if (s == stage)
                mine = i;
            else if (peer == stage)
                mine = sc_cuda_other_end(image, i, rank->image);
        }
    }
    return mine;
}

static shardc_status split_all(sc_rank *rank, sc_nccl_rank *own, splits *all, shardc_error *error)
{
    while (all->left > 0) {
        shardc_status status = open_boundary(rank, own, choose(rank, all), error);
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}

static shardc_status open_boundaries(sc_rank *rank, sc_nccl_rank *own, shardc_error *error)
{
    const sc_program *program = &rank->session->program->all;
    uint32_t count = 0;
    splits all = {.left = 0};
    shardc_status status;
    for (uint32_t s = 0; s < program->stage_count; s++) {
        for (uint32_t i = 0; i < program->stages[s]->boundary_count; i++)
            all.left += !program->stages[s]->boundaries[i].is_receive;
        count += program->stages[s]->boundary_count;
    }
    all.is_made = calloc(count + 1u, sizeof *all.is_made);
    all.is_busy = calloc(program->stage_count, sizeof *all.is_busy);
    if (all.is_made == NULL || all.is_busy == NULL)
        status = sc_fail(error, SHARDC_ERROR_MEMORY,
                         "there is not enough memory for the boundaries of rank %u", rank->rank);
    else
        status = split_all(rank, own, &all, error);
    free(all.is_made);
    free(all.is_busy);
    return status;
}

/* ---- closing ---- */

/* True if a later entry is the same communicator. */
static bool is_repeated(const sc_nccl_rank *own, uint32_t index)
{
    sc_nccl_comm comm = own->all[index];
    return (index < own->count - 2 && comm == *own->stage) ||
           (index < own->count - 1 && comm == *own->world);
}

static void *abort_one(void *user)
{
    const sc_nccl_abortion *a = user;
    a->nccl->ncclCommAbort(a->comm);
    return NULL;
}

/* Aborts all communicators at once: an abort waits for the GPU, which may be busy with another
 * communicator's call. An abort also waits for graphs that contain the communicator's calls, so
 * those must be destroyed before. */
static void abort_all(sc_rank *rank, sc_nccl_rank *own)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < own->count; i++) {
        if (own->all[i] != NULL && !is_repeated(own, i))
            own->aborts[count++] =
                (sc_nccl_abortion){.nccl = sc_nccl_of(rank), .comm = own->all[i]};
    }
    for (uint32_t a = 0; a < count; a++)
        own->aborts[a].has_thread =
            pthread_create(&own->aborts[a].thread, NULL, abort_one, &own->aborts[a]) == 0;
    for (uint32_t a = 0; a < count; a++) {
        if (own->aborts[a].has_thread)
            pthread_join(own->aborts[a].thread, NULL);
        else
            abort_one(&own->aborts[a]);
    }
    memset(own->all, 0, own->count * sizeof(sc_nccl_comm));
    own->is_open = false;
}

/* Closes communicators `first` to `end` after everything in flight on all members has ended. First
 * all are told, then all are waited for: members have their boundaries in orders of their own. What
 * stays must be aborted. */
static void leave(sc_rank *rank, sc_nccl_rank *own, uint32_t first, uint32_t end)
{
    const sc_nccl *nccl = sc_nccl_of(rank);
    bool is_told = true;
    for (uint32_t i = first; i < end; i++) {
        if (is_repeated(own, i))
            own->all[i] = NULL;
        if (own->all[i] == NULL || !is_told)
            continue;
        sc_nccl_result result = nccl->ncclCommFinalize(own->all[i]);
        is_told = result == SC_NCCL_SUCCESS || result == SC_NCCL_IN_PROGRESS;
    }
    for (uint32_t i = first; i < end; i++) {
        shardc_error ignored;
        if (!is_told)
            break;
        if (own->all[i] == NULL ||
            sc_nccl_settle(rank, own->all[i], "leaving", &ignored) != SHARDC_OK)
            continue;
        nccl->ncclCommDestroy(own->all[i]);
        own->all[i] = NULL;
    }
}

void sc_nccl_close_comms(sc_rank *rank)
{
    sc_nccl_rank *own = sc_nccl_rank_of(rank);
    if (own == NULL)
        return;
    if (own->is_open && !rank->has_lost_world) { /* children before their parents */
        leave(rank, own, 0, own->count - 2);
        leave(rank, own, own->count - 2, own->count - 1);
        leave(rank, own, own->count - 1, own->count);
    }
    abort_all(rank, own);
    free(own->aborts);
    free(own->all);
    free(own);
    ((sc_cuda_rank *)rank->device_state)->comm_state = NULL;
}

static sc_nccl_rank *new_rank(const sc_image *image)
{
    sc_nccl_rank *own = calloc(1, sizeof *own);
    if (own == NULL)
        return NULL;
    own->count = image->group_count + image->boundary_count + 2;
    own->all = calloc(own->count, sizeof(sc_nccl_comm));
    own->aborts = calloc(own->count, sizeof *own->aborts);
    if (own->all == NULL || own->aborts == NULL) {
        free(own->all);
        free(own->aborts);
        free(own);
        return NULL;
    }
    own->groups = own->all;
    own->boundaries = own->all + image->group_count;
    own->stage = own->boundaries + image->boundary_count;
    own->world = own->stage + 1;
    return own;
}

shardc_status sc_nccl_open_comms(sc_rank *rank, shardc_error *error)
{
    const sc_image *image = rank->image;
    sc_nccl_rank *own = sc_nccl_rank_of(rank);
    if (own != NULL) /* reopened after other ranks lost their world */
        own->is_open = false;
    sc_nccl_close_comms(rank);
    own = ((sc_cuda_rank *)rank->device_state)->comm_state = new_rank(image);
    if (own == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY,
                       "there is not enough memory for the groups of rank %u", rank->rank);
    shardc_status status = open_world(rank, own, error);
    if (status == SHARDC_OK)
        status = open_stage(rank, own, error);
    for (uint32_t i = 0; i < image->group_count; i++) {
        if (status != SHARDC_OK)
            break;
        status = open_group(rank, own, i, error);
    }
    if (status == SHARDC_OK)
        status = open_boundaries(rank, own, error);
    own->is_open = status == SHARDC_OK;
    return status;
}

/* ---- errors elsewhere ---- */

shardc_status sc_nccl_poll(sc_rank *rank, shardc_error *error)
{
    const sc_nccl_rank *own = sc_nccl_rank_of(rank);
    const sc_nccl *nccl = sc_nccl_of(rank);
    const sc_image *image = rank->image;
    shardc_error reason = {.status = SHARDC_OK};
    /* polls the processes: NCCL detects the death of one much later, if at all */
    shardc_status status = sc_comm_poll(rank->comm, &reason);
    if (status != SHARDC_OK)
        return sc_fail(error, status, "%s", reason.text);
    for (uint32_t i = 0; i < image->group_count + image->boundary_count; i++) {
        char name[SC_CUDA_BOUNDARY_NAME];
        const char *what = i < image->group_count ? image->groups[i].axes : name;
        sc_nccl_result state = SC_NCCL_SUCCESS;
        if (status != SHARDC_OK)
            break;
        status = SC_NCCL(nccl, own->all[i], error, "", ncclCommGetAsyncError, own->all[i], &state);
        if (i >= image->group_count)
            sc_cuda_boundary_name(image, i - image->group_count, name, sizeof name);
        if (status == SHARDC_OK)
            status = sc_nccl_check(nccl, own->all[i], state, "NCCL", what, error);
    }
    return status;
}

/* Ends this rank's NCCL calls. Other ranks that wait for it in NCCL find out by their own
 * polling. */
void sc_nccl_abort(sc_rank *rank, const char *why)
{
    sc_nccl_rank *own = sc_nccl_rank_of(rank);
    sc_comm_abort(rank->comm, why);
    if (own != NULL)
        abort_all(rank, own);
}
