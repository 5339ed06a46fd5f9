#include "runtime/drive/state_set.h"

#include <string.h>

#include "runtime/files/rows.h"
#include "runtime/session/shard.h"
#include "support/state.h"

static bool is_kept(const shardc_tensor_info *state, bool all)
{
    return strcmp(state->kind, sc_state_kind_names[SC_STATE_PARAM]) == 0 ||
           (all && strcmp(state->kind, sc_state_kind_names[SC_STATE_OPT]) == 0);
}

void sc_state_set_of(sc_context *context, const sc_executor *executor, bool all, sc_state_set *out)
{
    uint32_t *states = sc_arena_array(&context->arena, executor->state_count + 1u, sizeof *states);
    *out = (sc_state_set){.executor = executor, .states = states};
    for (uint32_t s = 0; s < executor->state_count; s++) {
        if (is_kept(&executor->states[s], all))
            states[out->count++] = s;
    }
}

const shardc_tensor_info *sc_state_info(const sc_state_set *set, uint32_t index)
{
    return &set->executor->states[set->states[index]];
}

sc_element sc_state_element(const sc_state_set *set, uint32_t index)
{
    return sc_element_of_dtype(sc_dtype_find(sc_state_info(set, index)->dtype));
}

bool sc_state_gives(const sc_state_set *set, uint32_t index, uint32_t rank, sc_shard_place *place)
{
    const sc_executor *executor = set->executor;
    executor->verbs->place(executor->self, set->states[index], rank, place);
    bool has = place->is_given;
    for (uint32_t d = 0; d < place->rank; d++)
        has = has && place->sizes[d] > 0;
    return has;
}

static uint64_t bytes_of(uint32_t rank, const int64_t *sizes, sc_element element)
{
    uint64_t bytes = sc_element_size(element);
    for (uint32_t d = 0; d < rank; d++)
        bytes *= (uint64_t)sizes[d];
    return bytes;
}

uint64_t sc_place_bytes(const sc_shard_place *place, sc_element element)
{
    return bytes_of(place->rank, place->sizes, element);
}

uint64_t sc_place_local_bytes(const sc_shard_place *place, sc_element element)
{
    return bytes_of(place->rank, place->local, element);
}

uint64_t sc_state_given_bytes(const sc_state_set *set, uint32_t rank)
{
    uint64_t bytes = 0;
    sc_shard_place place;
    for (uint32_t i = 0; i < set->count; i++) {
        if (sc_state_gives(set, i, rank, &place))
            bytes += sc_place_bytes(&place, sc_state_element(set, i));
    }
    return bytes;
}

static bool failed(sc_context *context, const shardc_error *error)
{
    sc_report(&context->diag, SC_D_run_failed, (sc_loc){0},
              sc_arena_printf(&context->arena, "%s", error->text), NULL);
    return false;
}

bool sc_state_each_row(sc_context *context, const sc_state_set *set, uint32_t index, uint32_t rank,
                       const sc_shard_place *place, void *room, sc_state_row *row, void *user)
{
    const sc_executor *executor = set->executor;
    shardc_error error = {.text = ""};
    size_t size = sc_element_size(sc_state_element(set, index));
    const void *local;
    if (!executor->verbs->read_shard(executor->self, set->states[index], rank, room, &local,
                                     &error))
        return failed(context, &error);
    sc_rows rows = sc_rows_begin(place->rank, place->sizes, (sc_rows_place){place->local, NULL},
                                 (sc_rows_place){place->sizes, NULL});
    for (; !rows.is_done; sc_rows_next(&rows))
        row(user, (const char *)local + (size_t)rows.a_at * size, (size_t)rows.length * size);
    return true;
}

/* ---- filling ---- */

static bool is_same_box(const sc_shard_place *a, const sc_shard_place *b)
{
    size_t bytes = a->rank * sizeof *a->first;
    return memcmp(a->first, b->first, bytes) == 0 && memcmp(a->sizes, b->sizes, bytes) == 0 &&
           memcmp(a->local, b->local, bytes) == 0;
}

bool sc_state_fill(sc_context *context, const sc_state_set *set, uint32_t index, void *room,
                   sc_read_box *read, void *user)
{
    const sc_executor *executor = set->executor;
    shardc_error error = {.text = ""};
    sc_element element = sc_state_element(set, index);
    uint32_t state = set->states[index];
    const void *last = NULL; /* the shard filled last */
    sc_shard_place last_place = {0}, place;
    for (uint32_t i = 0; i < executor->local_ranks; i++) {
        uint64_t rank = executor->first_rank + i;
        executor->verbs->place(executor->self, state, rank, &place);
        if (!place.is_held)
            continue;
        void *local = executor->verbs->shard_room(executor->self, state, rank, room);
        size_t bytes = (size_t)sc_place_local_bytes(&place, element);
        bool is_filled = last != NULL && is_same_box(&place, &last_place);
        if (is_filled && local != last)
            memcpy(local, last, bytes);
        if (!is_filled && sc_place_bytes(&place, element) < bytes)
            memset(local, 0, bytes); /* clears the padding */
        if (!is_filled && !read(user, &place, element, local))
            return false;
        if (!executor->verbs->write_shard(executor->self, state, rank, local, &error))
            return failed(context, &error);
        last = local;
        last_place = place;
    }
    return true;
}
