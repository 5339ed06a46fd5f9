/* Which values the paths of a plan's line may mean. The places of a view are sorted by their paths without indices: what `layers.attn` may
 * mean is one run of that order, found by halving, for a point sorts before whatever else may stand in a name. Indices and what comes
 * behind a `*` are left to the match of each place. */
#include "frontend/declare/path_match.h"
#include "frontend/plan/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct named_place {
    const char *path; /* without indices */
    uint32_t place;
} named_place;

/* A match that a scope has looked up. */
typedef struct remembered {
    uint32_t scope;
    uint8_t match;
} remembered;

typedef struct sc_place_index {
    sc_context *context;
    named_place *places;   /* sorted; NULL until it is needed */
    uint32_t *first_value; /* by place: where its values begin in `values`; one more at the end */
    uint32_t *values;      /* indices in view->values */
    remembered *matches;   /* by place */
    uint32_t scopes;       /* numbers given out */
} sc_place_index;

sc_place_index *sc_place_index_new(sc_context *context)
{
    sc_place_index *index = sc_arena_alloc(&context->arena, sizeof *index);
    *index = (sc_place_index){.context = context};
    return index;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const named_place *)a)->path, ((const named_place *)b)->path);
}

static void fill(const sc_plan_view *view)
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
        index->places[i] = (named_place){sc_path_without_indices(index->context, sc_text(index->context, view->place_paths.data[i])), i};
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

typedef SC_VEC(uint32_t) value_list;

/* Values of the places whose paths are `key` or begin with it and a point. */
static void add_run(const sc_plan_view *view, const char *key, value_list *out)
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
        const named_place *at = &index->places[low];
        if (strncmp(at->path, key, length) != 0 || (length > 0 && at->path[length] != 0 && at->path[length] != '.'))
            return;
        for (uint32_t v = index->first_value[at->place]; v < index->first_value[at->place + 1]; v++)
            *sc_vec_push(&index->context->arena, out) = index->values[v];
    }
}

/* The names of a pattern from a segment on, up to the first `*`. */
static const char *key_of(sc_context *context, const sc_path *pattern, uint32_t first)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf_add(&text, "");
    for (uint32_t i = first; i < pattern->segs.count && pattern->segs.data[i].kind != SC_SEG_ANY; i++)
        sc_strbuf_printf(&text, "%s%s", i > first ? "." : "", sc_text(context, pattern->segs.data[i].name.text));
    return text.data;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

sc_plan_scope sc_plan_scope_make(sc_context *context, const sc_plan_view *view, const sc_path_list *paths)
{
    sc_plan_scope scope = {.view = view, .paths = paths, .count = view->values.count};
    value_list found = {0};
    if (paths->count == 0)
        return scope;
    fill(view);
    scope.number = ++view->index->scopes;
    for (uint32_t i = 0; i < paths->count; i++) {
        const sc_path *path = &paths->data[i];
        add_run(view, key_of(context, path, 0), &found);
        if (sc_path_begins_with(path, view->entry))
            add_run(view, key_of(context, path, 1), &found);
    }
    if (found.count > 0)
        qsort(found.data, found.count, sizeof *found.data, ascending);
    scope.count = 0;
    for (uint32_t i = 0; i < found.count; i++) {
        if (i == 0 || found.data[i] != found.data[i - 1])
            found.data[scope.count++] = found.data[i];
    }
    scope.values = found.data;
    return scope;
}

sc_value sc_plan_scope_value(const sc_plan_scope *scope, uint32_t i)
{
    return scope->view->values.data[scope->paths->count == 0 ? i : scope->values[i]];
}

sc_path_match sc_plan_scope_match(sc_plan_scope *scope, uint32_t place)
{
    if (scope->paths->count == 0)
        return SC_PATH_COVERS;
    remembered *memo = &scope->view->index->matches[place];
    if (memo->scope != scope->number) {
        sc_path_match best = SC_PATH_NO;
        for (uint32_t i = 0; i < scope->paths->count; i++) {
            sc_path_match match = sc_plan_view_match(scope->view, &scope->paths->data[i], scope->view->place_paths.data[place]);
            best = match > best ? match : best;
        }
        *memo = (remembered){scope->number, (uint8_t)best};
    }
    return (sc_path_match)memo->match;
}
