/* Compares the ranks' programs before they run: ranks with different programs could wait for each
 * other for ever, or compute garbage. */
#include <stdlib.h>

#include "runtime/session/session.h"
#include "support/hash.h"

static uint64_t mix_terms(uint64_t hash, const sc_image_terms *terms)
{
    hash = sc_hash_mix(hash, terms->count);
    for (uint32_t i = 0; i < terms->count; i++) {
        hash = sc_hash_mix(hash, terms->terms[i].divide);
        hash = sc_hash_mix(hash, terms->terms[i].modulo);
        hash = sc_hash_mix(hash, (uint64_t)terms->terms[i].times);
        hash = sc_hash_mix(hash, terms->terms[i].plus);
    }
    return hash;
}

static uint64_t mix_collective(uint64_t hash, const sc_image *image,
                               const sc_image_collective *collective)
{
    const sc_image_group *group = &image->groups[collective->group];
    hash = sc_hash_mix(hash, (uint64_t)collective->kind << 8 | (uint64_t)collective->reduce);
    hash = sc_hash_mix(hash, group->digit_count);
    for (uint32_t i = 0; i < group->digit_count; i++)
        hash = sc_hash_mix(sc_hash_mix(hash, group->digits[i].divide), group->digits[i].modulo);
    hash = sc_hash_mix(hash, collective->part_count);
    for (uint32_t i = 0; i < collective->part_count; i++)
        hash =
            sc_hash_mix(sc_hash_mix(hash, collective->dtypes[i]), (uint64_t)collective->counts[i]);
    for (uint32_t i = 0; i < collective->row_count; i++)
        hash = sc_hash_mix(sc_hash_mix(hash, (uint64_t)collective->rows[i]),
                           (uint64_t)collective->fills[i]);
    hash = mix_terms(mix_terms(hash, &collective->to), &collective->from);
    hash = sc_hash_mix(hash, collective->source_count);
    for (uint32_t i = 0; i < collective->source_count; i++)
        hash = sc_hash_mix(hash, collective->sources[i]);
    return hash;
}

static uint64_t mix_message(uint64_t hash, const sc_image_message *message)
{
    hash = sc_hash_mix(sc_hash_mix(hash, message->boundary), message->part_count);
    for (uint32_t i = 0; i < message->part_count; i++)
        hash = sc_hash_mix(sc_hash_mix(hash, message->dtypes[i]), (uint64_t)message->counts[i]);
    return hash;
}

/* Adds everything of an image that concerns other ranks: each function's collectives and messages
 * in order, and the lists of calls. */
static uint64_t mix_collectives(uint64_t hash, const sc_image *image)
{
    hash = sc_hash_mix(sc_hash_mix(hash, image->func_count), image->call_count);
    for (uint32_t f = 0; f < image->func_count; f++) {
        const sc_image_func *func = &image->funcs[f];
        hash = sc_hash_mix(hash, f);
        for (uint32_t i = 0; i < func->instr_count; i++) {
            if (func->instrs[i].kind == SC_INSTR_COLLECTIVE)
                hash = mix_collective(hash, image, &image->collectives[func->instrs[i].index]);
            else if (func->instrs[i].kind == SC_INSTR_MESSAGE)
                hash = mix_message(hash, &image->messages[func->instrs[i].index]);
        }
    }
    for (uint32_t l = 0; l <= image->func_count; l++) {
        const sc_image_list list = sc_image_list_of(image, l);
        for (uint32_t c = 0; c < list.count; c++)
            hash = sc_hash_mix(hash, list.calls[c].func);
    }
    return hash;
}

static uint64_t hash_of_collectives(const sc_program *program)
{
    uint64_t hash = 0;
    for (uint32_t s = 0; s < program->stage_count; s++)
        hash = mix_collectives(hash, program->stages[s]);
    return hash;
}

enum { WHOLE, COLLECTIVES, HASHES };

shardc_status sc_session_same_program(sc_comm *comm, const shardc_executable *program,
                                      shardc_error *error)
{
    uint32_t ranks = sc_comm_size(comm), others = 0, first = 0;
    uint64_t mine[HASHES] = {
        [WHOLE] = program->image->hash, [COLLECTIVES] = hash_of_collectives(&program->all)};
    uint64_t(*all)[HASHES] = calloc(ranks, sizeof *all);
    if (all == NULL)
        sc_comm_abort(comm, "there is not enough memory to compare programs");
    if (all == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY,
                       "there is not enough memory to compare the programs of %u ranks", ranks);
    sc_comm_part part = {.source = mine,
                         .destination = all,
                         .count = (int64_t)ranks * HASHES,
                         .dtype = SC_DTYPE_i64};
    sc_comm_call call = {
        .kind = SC_COMM_ALL_GATHER, .part_count = 1, .parts = &part, .what = "program"};
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status = sc_comm_run(sc_comm_world(comm), &call, &reason);
    if (status == SHARDC_OK) {
        for (uint32_t r = ranks; r-- > 1;) {
            if (all[r][WHOLE] != all[0][WHOLE]) {
                first = r;
                others++;
            }
        }
    }
    if (status != SHARDC_OK)
        sc_fail(error, status, "%s", reason.text);
    else if (others > 0)
        status = sc_fail(error, SHARDC_ERROR_ARGUMENT,
                         "the ranks of the job were started with different programs: %u of %u %s "
                         "another one than rank 0, rank %u for one; %s",
                         others, ranks, others > 1 ? "have" : "has", first,
                         all[first][COLLECTIVES] != all[0][COLLECTIVES]
                             ? "its collectives differ, too"
                             : "its collectives are the same, but its computations differ");
    free(all);
    return status;
}
