#include "tools/explain/instances.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/plan/plan.h"
#include "support/strbuf.h"

enum { STACKS = 8 }; /* maximum number of nested stacks */

/* Instances that may share a line. */
typedef struct members {
    SC_VEC(uint32_t) list;
} members;

/* Reads the indices of a path, outermost first. Returns false if it has none or too many. */
static bool read_indices(const char *path, int64_t *indices, uint32_t *count)
{
    *count = 0;
    for (const char *open = strchr(path, '['); open != NULL; open = strchr(open + 1, '[')) {
        if (*count == STACKS)
            return false;
        indices[(*count)++] = strtoll(open + 1, NULL, 10);
    }
    return *count > 0;
}

/* Returns the path with the texts of `lists` in its brackets. */
static const char *with_lists(sc_context *context, const char *path, const char *const *lists)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    for (uint32_t i = 0; *path != 0; i++) {
        size_t length = strcspn(path, "[");
        sc_strbuf_printf(&text, "%.*s", (int)length, path);
        path += length;
        if (*path == 0)
            break;
        sc_strbuf_printf(&text, "[%s]", lists[i]);
        path += strcspn(path, "]");
        path += *path == ']';
    }
    return text.data;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Formats numbers as a list, e.g. 0..3, 5. *distinct: the number of different ones. */
static const char *list_text(sc_context *context, int64_t *numbers, uint32_t count,
                             uint32_t *distinct)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    qsort(numbers, count, sizeof *numbers, ascending);
    *distinct = 0;
    for (uint32_t i = 0; i < count;) {
        uint32_t end = i + 1, run = 1;
        for (; end < count && numbers[end] <= numbers[end - 1] + 1; end++)
            run += numbers[end] != numbers[end - 1];
        sc_strbuf_printf(&text, *distinct > 0 ? ", %lld" : "%lld", (long long)numbers[i]);
        if (run > 1)
            sc_strbuf_printf(&text, "..%lld", (long long)numbers[end - 1]);
        *distinct += run;
        i = end;
    }
    return text.data;
}

/* Joins all paths of a group into one, if every combination of the indices exists; otherwise
 * returns NULL. */
static const char *joined(sc_context *context, const sc_instance *instances, const members *group)
{
    int64_t indices[STACKS];
    uint32_t depth, count = group->list.count;
    const char *path = instances[group->list.data[0]].path, *lists[STACKS] = {0};
    double combinations = 1;
    if (!read_indices(path, indices, &depth))
        return NULL;
    for (uint32_t k = 0; k < depth; k++) {
        uint32_t distinct;
        int64_t *numbers = sc_arena_array(&context->arena, count, sizeof *numbers);
        for (uint32_t i = 0; i < count; i++) {
            read_indices(instances[group->list.data[i]].path, indices, &depth);
            numbers[i] = indices[k];
        }
        lists[k] = list_text(context, numbers, count, &distinct);
        combinations *= distinct;
    }
    return combinations == count ? with_lists(context, path, lists) : NULL;
}

void sc_instances_group(sc_context *context, const sc_instance *instances, uint32_t count,
                        sc_instance_groups *out)
{
    sc_arena *arena = &context->arena;
    /* a path may occur several times, e.g. recomputed */
    sc_map by_look = {.arena = arena}, seen = {.arena = arena};
    SC_VEC(members) groups = {0};
    uint32_t *group_of = sc_arena_array(arena, count, sizeof *group_of);
    *out = (sc_instance_groups){0};
    for (uint32_t i = 0; i < count; i++) {
        bool is_new;
        const char *path = sc_path_without_indices(context, instances[i].path);
        uint64_t one =
            sc_hash_bytes(instances[i].path, strlen(instances[i].path), instances[i].look);
        uint32_t *times = sc_map_insert(&seen, one, 0, NULL);
        uint64_t key =
            sc_hash_mix(sc_hash_bytes(path, strlen(path), instances[i].look), (*times)++);
        uint32_t *group = sc_map_insert(&by_look, key, groups.count, &is_new);
        if (is_new)
            *sc_vec_push(arena, &groups) = (members){0};
        assert(*group < groups.count);
        group_of[i] = *group;
        *sc_vec_push(arena, &groups.data[*group].list) = i;
    }
    const char **paths = sc_arena_array(arena, groups.count, sizeof *paths);
    for (uint32_t g = 0; g < groups.count; g++)
        paths[g] =
            groups.data[g].list.count > 1 ? joined(context, instances, &groups.data[g]) : NULL;
    for (uint32_t i = 0; i < count; i++) {
        const members *group = &groups.data[group_of[i]];
        if (paths[group_of[i]] == NULL)
            *sc_vec_push(arena, out) = (sc_instance_group){instances[i].path, i, 1};
        else if (group->list.data[0] == i)
            *sc_vec_push(arena, out) =
                (sc_instance_group){paths[group_of[i]], i, group->list.count};
    }
}
