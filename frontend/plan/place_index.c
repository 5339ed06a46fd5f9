/* The places of a view, sorted by path without indices. The matches of `layers.attn` are a
 * contiguous range, found by binary search, because a dot sorts before every character of a
 * name. */
#include "frontend/plan/place_index.h"

#include <stdlib.h>
#include <string.h>

sc_place_index *sc_place_index_new(sc_context *context)
{
    sc_place_index *index = sc_arena_alloc(&context->arena, sizeof *index);
    *index = (sc_place_index){.context = context};
    return index;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const sc_named_place *)a)->path, ((const sc_named_place *)b)->path);
}

void sc_place_index_fill(const sc_plan_view *view)
{
    sc_place_index *index = view->index;
    sc_arena *arena = &index->context->arena;
    uint32_t count = view->place_paths.count;
    if (index->places != NULL)
        return;
    index->places = sc_arena_array(arena, count + 1u, sizeof *index->places);
    index->matches = sc_arena_array(arena, count, sizeof *index->matches);
    index->first_value = sc_arena_array(arena, count + 1u, sizeof *index->first_value);
    index->values = sc_arena_array(arena, view->values.count, sizeof *index->values);
    for (uint32_t i = 0; i < count; i++)
        index->places[i] = (sc_named_place){
            sc_path_without_indices(index->context,
                                    sc_text(index->context, view->place_paths.data[i])),
            i};
    qsort(index->places, count, sizeof *index->places, by_path);
    for (uint32_t i = 0; i < view->values.count; i++)
        index->first_value[view->places[view->values.data[i]]]++;
    for (uint32_t i = 0, sum = 0; i <= count; i++) {
        uint32_t of_place = i < count ? index->first_value[i] : 0;
        sum += of_place;
        index->first_value[i] = sum;
    }
    for (uint32_t i = view->values.count; i-- > 0;)
        index->values[--index->first_value[view->places[view->values.data[i]]]] = i;
}

void sc_place_index_find(const sc_plan_view *view, const char *key, sc_place_values *out)
{
    const sc_place_index *index = view->index;
    uint32_t low = 0, high = view->place_paths.count;
    size_t length = strlen(key);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strcmp(index->places[middle].path, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < view->place_paths.count; low++) {
        const sc_named_place *at = &index->places[low];
        if (strncmp(at->path, key, length) != 0 ||
            (length > 0 && at->path[length] != 0 && at->path[length] != '.'))
            return;
        for (uint32_t v = index->first_value[at->place]; v < index->first_value[at->place + 1]; v++)
            *sc_vec_push(&index->context->arena, out) = index->values[v];
    }
}
