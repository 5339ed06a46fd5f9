/* Binds a program's instructions to the addresses of one rank. */
#include <stdlib.h>
#include <string.h>

#include "program/lookup.h"
#include "runtime/session/session.h"

/* All bound instructions are carved out of one block. A first walk without a block computes its
 * size. */
typedef struct carver {
    char *block; /* NULL: only count */
    size_t used;
} carver;

static void *carve(carver *from, size_t count, size_t size)
{
    size_t at = from->used;
    from->used += (count * size + 15) / 16 * 16;
    return from->block == NULL ? NULL : from->block + at;
}

static void *address(const sc_rank *rank, const sc_image_ref *ref, uint32_t micro_batch)
{
    char *buffer = sc_rank_buffer(rank, ref->buffer);
    const sc_image_buffer *of = &rank->image->buffers[ref->buffer];
    return buffer == NULL ? NULL : buffer + sc_image_copy_at(of, (int32_t)micro_batch) + ref->at;
}

static bool does_move(const sc_image *image, const sc_image_instr *instr)
{
    for (uint32_t i = 0; i < instr->arg_count; i++) {
        if (image->buffers[instr->args[i].buffer].copies > 1)
            return true;
    }
    return false;
}

/* ---- instructions ---- */

static void bind_gemm(const sc_rank *rank, sc_bound *bound, const void **steps)
{
    const sc_gemm *gemm = &rank->image->gemms[bound->instr->index];
    uint32_t at = SC_GEMM_OPERANDS;
    for (uint32_t i = 0; i < gemm->step_count; i++)
        steps[i] = sc_gemm_step_has_tensor(gemm->steps[i].kind) ? bound->args[at++] : NULL;
    bound->steps = steps;
    bound->scratch = at < bound->instr->arg_count ? bound->args[at] : NULL;
}

/* Finds the members that a permute sends to and receives from. */
static void bind_permute(const sc_rank *rank, const sc_image_collective *collective,
                         sc_comm_call *call)
{
    const sc_image *image = rank->image;
    uint32_t own = (uint32_t)sc_image_group_rank(&image->groups[collective->group], rank->rank);
    call->from = (int32_t)collective->sources[own];
    for (uint32_t i = 0; i < collective->source_count; i++) {
        if (collective->sources[i] == own)
            call->to = (int32_t)i;
    }
}

#define COLLECTIVE(name, NAME, ...) _Static_assert((int)SC_COMM_##NAME == SC_IMAGE_##NAME, "kinds");
#include "program/collectives.def"
_Static_assert((int)SC_COMM_BARRIER == SC_IMAGE_COLLECTIVES &&
                   (int)SC_COMM_KINDS == SC_IMAGE_COLLECTIVES + 1,
               "kinds");
_Static_assert((int)SC_COMM_NONE == SC_IMAGE_WHOLE && (int)SC_COMM_SUM == SC_IMAGE_SUM,
               "reductions");
_Static_assert((int)SC_COMM_MAX == SC_IMAGE_MAX && (int)SC_COMM_MIN == SC_IMAGE_MIN &&
                   (int)SC_COMM_REDUCES == SC_IMAGE_REDUCES,
               "reductions");

static void bind_collective(const sc_rank *rank, sc_bound *bound, sc_comm_part *parts)
{
    const sc_image_collective *collective = &rank->image->collectives[bound->instr->index];
    bool gives = collective->kind != SC_IMAGE_RECV, gets = collective->kind != SC_IMAGE_SEND;
    uint32_t at = 0;
    for (uint32_t i = 0; i < collective->part_count; i++) {
        parts[i] = (sc_comm_part){.count = collective->counts[i], .dtype = collective->dtypes[i]};
        if (gives)
            parts[i].source = bound->args[at++];
        if (gets)
            parts[i].destination = bound->args[at++];
    }
    bound->parts = parts;
    bound->call =
        (sc_comm_call){.kind = (sc_comm_kind)collective->kind,
                       .reduce = (sc_comm_reduce)collective->reduce,
                       .part_count = collective->part_count,
                       .parts = parts,
                       .to = (int32_t)sc_image_terms_value(&collective->to, rank->rank),
                       .from = (int32_t)sc_image_terms_value(&collective->from, rank->rank),
                       .what = bound->instr->where};
    if (collective->kind == SC_IMAGE_PERMUTE)
        bind_permute(rank, collective, &bound->call);
}

/* A boundary's group is the sender and the receiver, in this order. */
static void bind_message(const sc_rank *rank, sc_bound *bound, sc_comm_part *parts)
{
    const sc_image_message *message = &rank->image->messages[bound->instr->index];
    bool is_receive = rank->image->boundaries[message->boundary].is_receive;
    for (uint32_t i = 0; i < message->part_count; i++) {
        parts[i] = (sc_comm_part){.count = message->counts[i], .dtype = message->dtypes[i]};
        if (is_receive)
            parts[i].destination = bound->args[i];
        else
            parts[i].source = bound->args[i];
    }
    bound->parts = parts;
    bound->call = (sc_comm_call){.kind = is_receive ? SC_COMM_RECV : SC_COMM_SEND,
                                 .part_count = message->part_count,
                                 .parts = parts,
                                 .to = 1,
                                 .from = 0,
                                 .what = bound->instr->where};
}

static uint32_t part_count(const sc_image *image, const sc_image_instr *instr)
{
    return instr->kind == SC_INSTR_COLLECTIVE ? image->collectives[instr->index].part_count
           : instr->kind == SC_INSTR_MESSAGE  ? image->messages[instr->index].part_count
                                              : 0;
}

/* What each part of rows gives, and gets, by member. */
static size_t row_counts(const sc_image *image, const sc_image_instr *instr)
{
    if (instr->kind != SC_INSTR_COLLECTIVE)
        return 0;
    const sc_image_collective *collective = &image->collectives[instr->index];
    return 2 * (size_t)collective->row_count *
           (size_t)sc_image_group_size(&image->groups[collective->group]);
}

static void bind_instr(const sc_rank *rank, const sc_image_instr *instr, sc_bound *bound,
                       carver *memory)
{
    const sc_image *image = rank->image;
    void **args = carve(memory, instr->arg_count, sizeof *args);
    const void **steps =
        carve(memory, instr->kind == SC_INSTR_GEMM ? image->gemms[instr->index].step_count : 0,
              sizeof *steps);
    sc_comm_part *parts = carve(memory, part_count(image, instr), sizeof *parts);
    int64_t *counts = carve(memory, row_counts(image, instr), sizeof *counts);
    if (memory->block == NULL)
        return;
    *bound = (sc_bound){.instr = instr,
                        .is_idle = instr->instead,
                        .moves = does_move(image, instr),
                        .args = args,
                        .steps = steps,
                        .parts = parts,
                        .counts = counts};
    sc_rank_move(rank, bound, 0);
}

void sc_rank_move(const sc_rank *rank, sc_bound *bound, uint32_t micro_batch)
{
    const sc_image_instr *instr = bound->instr;
    bound->micro_batch = micro_batch;
    for (uint32_t i = 0; i < instr->arg_count; i++)
        bound->args[i] = address(rank, &instr->args[i], micro_batch);
    if (instr->kind == SC_INSTR_GEMM)
        bind_gemm(rank, bound, bound->steps);
    else if (instr->kind == SC_INSTR_COLLECTIVE)
        bind_collective(rank, bound, bound->parts);
    else if (instr->kind == SC_INSTR_MESSAGE)
        bind_message(rank, bound, bound->parts);
    else if (instr->kind == SC_INSTR_COPY)
        bound->bytes = sc_image_copy_bytes(rank->image, &instr->args[0]);
}

/* No more messages are in flight than a list of calls starts. */
static uint32_t most_messages(const sc_image *image)
{
    uint64_t count = 1;
    for (uint32_t l = 0; l <= image->func_count; l++) {
        const sc_image_list list = sc_image_list_of(image, l);
        for (uint32_t i = 0; i < list.count; i++)
            count += image->funcs[list.calls[i].func].instr_count;
    }
    for (uint32_t f = 0; f < image->func_count; f++)
        count += image->funcs[f].instr_count;
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

static void bind_boundaries(sc_rank *rank, carver *memory)
{
    const sc_image *image = rank->image;
    sc_rank_boundary *boundaries = carve(memory, image->boundary_count, sizeof *boundaries);
    uint32_t most = most_messages(image);
    for (uint32_t i = 0; i < image->boundary_count; i++) {
        uint32_t slots = image->boundaries[i].slots, room = slots < most ? slots : most,
                 parts = sc_image_most_parts(image, i);
        sc_bound *started = carve(memory, room, sizeof *started);
        sc_comm_part *list = carve(memory, (size_t)room * parts, sizeof *list);
        if (memory->block == NULL)
            continue;
        boundaries[i] = (sc_rank_boundary){.started = started, .room = room};
        for (uint32_t k = 0; k < room; k++)
            started[k].parts = &list[(size_t)k * parts];
    }
    rank->boundaries = boundaries;
}

static void number_funcs(sc_rank *rank, carver *memory)
{
    const shardc_session *session = rank->session;
    uint32_t stage = sc_image_stage_of(session->image, rank->rank);
    rank->func_numbers = carve(memory, rank->image->func_count, sizeof *rank->func_numbers);
    uint32_t count = memory->block == NULL ? 0 : session->image->func_count;
    for (uint32_t f = 0; f < count; f++) {
        uint32_t own = session->program->all.funcs[f][stage];
        if (own != SC_NONE)
            rank->func_numbers[own] = f;
    }
}

/* Returns the size of all bound instructions, in bytes. */
static size_t bind_funcs(sc_rank *rank, char *block)
{
    const sc_image *image = rank->image;
    carver memory = {.block = block};
    sc_bound **funcs = carve(&memory, image->func_count, sizeof *funcs);
    uint32_t most_params = 0;
    for (uint32_t f = 0; f < image->func_count; f++) {
        const sc_image_func *func = &image->funcs[f];
        sc_bound *bound = carve(&memory, func->instr_count, sizeof *bound);
        if (block != NULL)
            funcs[f] = bound;
        for (uint32_t i = 0; i < func->instr_count; i++) {
            bind_instr(rank, &func->instrs[i], block == NULL ? NULL : &bound[i], &memory);
            most_params = func->instrs[i].param_count > most_params ? func->instrs[i].param_count
                                                                    : most_params;
        }
    }
    bind_boundaries(rank, &memory);
    number_funcs(rank, &memory);
    rank->params = carve(&memory, most_params, sizeof *rank->params);
    rank->funcs = funcs;
    return memory.used;
}

/* ---- ranks ---- */

shardc_status sc_rank_bind(sc_rank *rank, shardc_error *error)
{
    size_t bytes = bind_funcs(rank, NULL);
    rank->funcs = NULL;
    rank->bound_memory = calloc(1, bytes + 1);
    rank->profile = calloc(rank->session->image->func_count + 1u, sizeof *rank->profile);
    if (rank->bound_memory == NULL || rank->profile == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY,
                       "there is not enough memory for the instructions of rank %u", rank->rank);
    bind_funcs(rank, rank->bound_memory);
    return SHARDC_OK;
}

void sc_rank_unbind(sc_rank *rank)
{
    free(rank->bound_memory);
    free(rank->profile);
    free(rank->groups);
}

static shardc_status make_group(const sc_rank *rank, sc_comm *comm, const sc_image_group *group,
                                uint32_t *members, sc_comm_group **out, shardc_error *error)
{
    uint32_t size = (uint32_t)sc_image_group_size(group);
    for (uint32_t i = 0; i < size; i++)
        members[i] = (uint32_t)sc_image_group_member(group, rank->rank, i);
    return sc_comm_group_new(comm, members, size, out, error);
}

/* Both ends list the sender first, and open the boundaries of one direction by ascending number. */
static shardc_status open_boundary(sc_rank *rank, sc_comm *comm, uint32_t index,
                                   shardc_error *error)
{
    const sc_image_boundary *boundary = &rank->image->boundaries[index];
    uint32_t peer = (uint32_t)sc_image_stage_peer(rank->image, rank->rank, boundary->peer);
    uint32_t members[2] = {boundary->is_receive ? peer : rank->rank,
                           boundary->is_receive ? rank->rank : peer};
    sc_rank_boundary *own = &rank->boundaries[index];
    own->first = own->count = 0;
    return sc_comm_group_new(comm, members, 2, &own->group, error);
}

/* Assigns the groups to the bound calls. */
static void give_groups(sc_rank *rank)
{
    const sc_image *image = rank->image;
    for (uint32_t f = 0; f < image->func_count; f++) {
        for (uint32_t i = 0; i < image->funcs[f].instr_count; i++) {
            sc_bound *bound = &rank->funcs[f][i];
            uint32_t index = bound->instr->index;
            if (bound->instr->kind == SC_INSTR_COLLECTIVE)
                bound->group = rank->groups[image->collectives[index].group];
            else if (bound->instr->kind == SC_INSTR_MESSAGE)
                bound->group = rank->boundaries[image->messages[index].boundary].group;
        }
    }
}

shardc_status sc_rank_bind_groups(sc_rank *rank, sc_comm *comm, shardc_error *error)
{
    const sc_image *image = rank->image;
    shardc_status status = SHARDC_OK;
    uint32_t *members = calloc(image->ranks, sizeof *members);
    if (rank->groups == NULL)
        rank->groups = calloc(image->group_count + 1u, sizeof *rank->groups);
    if (members == NULL || rank->groups == NULL) {
        free(members);
        return sc_fail(error, SHARDC_ERROR_MEMORY,
                       "there is not enough memory for the groups of rank %u", rank->rank);
    }
    for (uint32_t i = 0; i < image->group_count; i++) {
        status = make_group(rank, comm, &image->groups[i], members, &rank->groups[i], error);
        if (status != SHARDC_OK)
            break;
    }
    free(members);
    for (uint32_t i = 0; i < image->boundary_count; i++) {
        if (status != SHARDC_OK)
            break;
        status = open_boundary(rank, comm, i, error);
    }
    if (status == SHARDC_OK)
        give_groups(rank);
    return status;
}
