/* Values that the paths of a plan's line may match: the index finds candidates, then the match of
 * each place decides. Indices and segments after a `*` are checked only by the match. */
#include "frontend/declare/path_match.h"
#include "frontend/plan/internal.h"
#include "frontend/plan/place_index.h"

#include <stdlib.h>

/* Returns the names of a pattern from a segment up to the first `*`. */
static const char *key_of(sc_context *context, const sc_path *pattern, uint32_t first)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf_add(&text, "");
    for (uint32_t i = first; i < pattern->segs.count && pattern->segs.data[i].kind != SC_SEG_ANY;
         i++)
        sc_strbuf_printf(&text, "%s%s", i > first ? "." : "",
                         sc_text(context, pattern->segs.data[i].name.text));
    return text.data;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

sc_plan_scope sc_plan_scope_make(sc_context *context, const sc_plan_view *view,
                                 const sc_path_list *paths)
{
    sc_plan_scope scope = {.view = view, .paths = paths, .count = view->values.count};
    sc_place_values found = {0};
    if (paths->count == 0)
        return scope;
    sc_place_index_fill(view);
    scope.number = ++view->index->scopes;
    for (uint32_t i = 0; i < paths->count; i++) {
        const sc_path *path = &paths->data[i];
        sc_place_index_find(view, key_of(context, path, 0), &found);
        if (sc_path_begins_with(path, view->entry))
            sc_place_index_find(view, key_of(context, path, 1), &found);
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
    sc_place_memo *memo = &scope->view->index->matches[place];
    if (memo->scope != scope->number) {
        sc_path_match best = SC_PATH_NO;
        for (uint32_t i = 0; i < scope->paths->count; i++) {
            sc_path_match match = sc_plan_view_match(scope->view, &scope->paths->data[i],
                                                     scope->view->place_paths.data[place]);
            best = match > best ? match : best;
        }
        *memo = (sc_place_memo){scope->number, (uint8_t)best};
    }
    return (sc_path_match)memo->match;
}
