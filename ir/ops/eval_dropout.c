#include "ir/ops/eval_dropout.h"

#include <string.h>

#include "support/hash.h"
#include "support/rng.h"

void sc_dropout_init(const sc_eval *eval, const sc_dim *dims, uint32_t rank, sc_dropout *dropout)
{
    const char *path = sc_text(eval->m->context, sc_op_word(eval->op, SC_ATTR_seed));
    *dropout = (sc_dropout){.p = sc_op_number(eval->op, SC_ATTR_p, 0),
                            .step = (uint32_t)eval->random.step,
                            .micro_batch = eval->random.micro_batch,
                            .rank = rank};
    sc_rng_key(eval->random.seed, sc_fnv1a64(path, strlen(path)), dropout->key);
    int64_t stride = 1;
    for (uint32_t i = rank; i-- > 0; stride *= sc_eval_global_size(eval, dims[i])) {
        dropout->dims[i] = dims[i];
        dropout->strides[i] = stride;
        dropout->shards[i] = sc_eval_shard_of(eval, dims[i]);
    }
}

int64_t sc_dropout_index(const sc_dropout *dropout, const sc_walk *walk)
{
    int64_t index = 0;
    for (uint32_t i = 0; i < dropout->rank; i++)
        index += dropout->strides[i] *
                 sc_eval_position(&dropout->shards[i], sc_walk_index(walk, dropout->dims[i]));
    return index;
}

double sc_dropout_factor(const sc_dropout *dropout, int64_t index)
{
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)((uint64_t)index >> 32), dropout->step,
                           dropout->micro_batch};
    return sc_rng_uniform_at(counter, dropout->key) >= dropout->p ? 1 / (1 - dropout->p) : 0;
}

bool eval_dropout(sc_eval *eval)
{
    const sc_type_info *type = eval->operand_types[0];
    sc_dim dims[SC_MAX_RANK];
    sc_dropout dropout;
    sc_walk walk;
    for (uint32_t i = 0; i < type->rank; i++)
        dims[i] = type->dims[i].dim;
    sc_dropout_init(eval, dims, type->rank, &dropout);
    sc_walk_init(&walk);
    if (!sc_walk_add_result(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 0))
        return false;
    sc_walk_start(&walk);
    do {
        double factor =
            dropout.p == 0 ? 1 : sc_dropout_factor(&dropout, sc_dropout_index(&dropout, &walk));
        eval->results[0].data[walk.at[0]] =
            factor == 0 ? 0 : factor * eval->operands[0]->data[walk.at[1]];
    } while (sc_walk_next(&walk));
    return true;
}
