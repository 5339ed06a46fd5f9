/* Writes a checkpoint from weights files: the saver gets an executor whose shards are read from the
 * files when they are asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/optimizer.h"
#include "runtime/drive/convert_state.h"
#include "runtime/drive/load_weights.h"
#include "runtime/drive/read_param.h"
#include "runtime/session/shard.h"

typedef struct importing {
    sc_context *context;
    const sc_facts *facts;
    sc_weights_reading *reading;
    const shardc_tensor_info *states;
    sc_map params; /* symbol of a parameter or its master copy -> parameter */
} importing;

static void whole_place(const importing *m, uint32_t state, sc_shard_place *out)
{
    int64_t sizes[SHARDC_TENSOR_MAX_RANK];
    for (uint32_t d = 0; d < m->states[state].rank; d++)
        sizes[d] = m->states[state].dims[d].size;
    sc_place_whole(m->states[state].rank, sizes, out);
}

static void place(void *self, uint32_t state, uint64_t rank, sc_shard_place *out)
{
    (void)rank;
    whole_place(self, state, out);
}

static double first_value(const importing *m, const char *name)
{
    for (uint32_t i = 0; i < m->facts->train.constants.count; i++) {
        if (strcmp(m->facts->train.constants.data[i].path, name) == 0)
            return m->facts->train.constants.data[i].value;
    }
    return 0;
}

static bool read_shard(void *self, uint32_t state, uint64_t rank, void *room, const void **out,
                       shardc_error *error)
{
    importing *m = self;
    const shardc_tensor_info *info = &m->states[state];
    sc_dtype dtype = sc_dtype_find(info->dtype);
    sc_element element = sc_element_of_dtype(dtype);
    const uint32_t *param = sc_map_find(&m->params, sc_intern_text(&m->context->names, info->name));
    sc_shard_place box;
    (void)rank;
    *out = room;
    whole_place(m, state, &box);
    if (param != NULL) {
        snprintf(error->text, sizeof error->text, "the values of '%s' cannot be read", info->name);
        return sc_weights_read(m->reading, *param, &box, element, room);
    }
    memset(room, 0, (size_t)info->count * sc_element_size(element));
    return info->rank > 0 || sc_element_store(element, room, 0, first_value(m, info->name));
}

static const sc_executor_verbs verbs = {.place = place, .read_shard = read_shard};

static void find_params(importing *m)
{
    const sc_fact_weights *weights = &m->facts->weights;
    m->params = (sc_map){.arena = &m->context->arena};
    for (uint32_t i = 0; i < weights->count; i++) {
        const char *path = weights->params[i].path;
        sc_map_insert(&m->params, sc_intern_text(&m->context->names, path), i, NULL);
        sc_map_insert(&m->params, sc_intern_printf(&m->context->names, "%s" SC_MASTER_SUFFIX, path),
                      i, NULL);
    }
}

bool sc_state_import(sc_context *context, const sc_facts *facts, const shardc_tensor_info *states,
                     uint32_t count, const char *from, uint64_t seed, const char *folder)
{
    importing m = {.context = context, .facts = facts, .states = states};
    sc_executor executor = {.verbs = &verbs,
                            .self = &m,
                            .state_count = count,
                            .states = (shardc_tensor_info *)states,
                            .ranks = 1,
                            .rank_count = 1,
                            .local_ranks = 1,
                            .is_first = true};
    const sc_train_state state = {
        .seed = seed,
        .loss_scale = facts->train.scales ? first_value(&m, SC_SCALE_STATE) : 0,
        .program = facts->train.program,
        .weights = sc_weight_facts_write(&facts->weights, &context->arena)};
    const sc_save_options options = {.folder = folder, .keep = 1, .saves = 1};
    sc_state_set set;
    for (uint32_t i = 0; i < count; i++) {
        int64_t bytes = states[i].count * sc_dtypes[sc_dtype_find(states[i].dtype)].bytes;
        executor.room_bytes = bytes > executor.room_bytes ? bytes : executor.room_bytes;
    }
    find_params(&m);
    sc_state_set_of(context, &executor, true, &set);
    m.reading = sc_weights_open(context, &facts->weights, from);
    sc_state_saver *saver = m.reading == NULL ? NULL : sc_state_saver_open(context, &set, &options);
    bool ok = saver != NULL && sc_state_saver_save(saver, &state);
    sc_state_saver_close(saver);
    sc_weights_close(m.reading);
    return ok;
}
