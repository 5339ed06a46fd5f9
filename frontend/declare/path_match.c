/* Matches path patterns of the plan language (`layers.attn.wq`, `layers[0..3]`, `layers.*.g`,
 * `decode.layers`) against paths such as `layers[2].attn.wq`. Walks both segment by segment;
 * allocates nothing. */
#include "frontend/declare/path_match.h"

#include <string.h>

typedef struct segment {
    const char *name;
    size_t length;
    int64_t index; /* -1: none */
} segment;

/* Reads the segment at *text and advances past it and its dot. Returns false at the end. */
static bool next_segment(const char **text, segment *out)
{
    const char *p = *text;
    if (*p == 0)
        return false;
    *out = (segment){.name = p, .index = -1};
    while (*p != 0 && *p != '.' && *p != '[')
        p++;
    out->length = (size_t)(p - out->name);
    if (*p == '[') {
        out->index = 0;
        for (p++; *p >= '0' && *p <= '9'; p++)
            out->index = out->index < INT32_MAX ? out->index * 10 + (*p - '0') : out->index;
        while (*p != 0 && *p != '.')
            p++;
    }
    *text = *p == '.' ? p + 1 : p;
    return true;
}

static bool segment_matches(const sc_context *context, const sc_seg *pattern, const segment *thing,
                            bool any_index)
{
    if (pattern->kind == SC_SEG_ANY)
        return true;
    const char *name = sc_text(context, pattern->name.text);
    if (strlen(name) != thing->length || memcmp(name, thing->name, thing->length) != 0)
        return false;
    return any_index || pattern->kind == SC_SEG_NAME ||
           (thing->index >= pattern->first && thing->index <= pattern->last);
}

/* Returns the rest of the path after matching the pattern's segments from `first` on, or NULL if
 * they do not match. */
static const char *rest_after(const sc_context *context, const sc_path *pattern, uint32_t first,
                              const char *path, bool any_index)
{
    for (uint32_t i = first; i < pattern->segs.count; i++) {
        segment thing;
        if (!next_segment(&path, &thing) ||
            !segment_matches(context, &pattern->segs.data[i], &thing, any_index))
            return NULL;
    }
    return path;
}

bool sc_path_begins_with(const sc_path *pattern, sc_sym entry)
{
    return entry != 0 && pattern->segs.count > 0 && pattern->segs.data[0].kind == SC_SEG_NAME &&
           pattern->segs.data[0].name.text == entry;
}

sc_path_match sc_path_match_text(const sc_context *context, const sc_path *pattern, sc_sym entry,
                                 const char *path, bool any_index)
{
    const char *rest = rest_after(context, pattern, 0, path, any_index);
    if (rest != NULL || !sc_path_begins_with(pattern, entry))
        return rest == NULL ? SC_PATH_NO : *rest == 0 ? SC_PATH_EXACT : SC_PATH_COVERS;
    if (pattern->segs.count == 1)
        return SC_PATH_COVERS;
    rest = rest_after(context, pattern, 1, path, any_index);
    return rest == NULL ? SC_PATH_NO : *rest == 0 ? SC_PATH_EXACT : SC_PATH_COVERS;
}

size_t sc_path_match_length(const sc_context *context, const sc_path *pattern, sc_sym entry,
                            const char *path)
{
    const char *rest = rest_after(context, pattern, 0, path, false);
    if (rest == NULL && sc_path_begins_with(pattern, entry))
        rest = rest_after(context, pattern, 1, path, false);
    if (rest == NULL)
        return SIZE_MAX;
    size_t length = (size_t)(rest - path);
    return length > 0 && path[length - 1] == '.' ? length - 1 : length;
}

bool sc_path_matches_parent(const sc_context *context, const sc_path *pattern, sc_sym entry,
                            const char *path, bool any_index)
{
    const char *rest = rest_after(context, pattern, 0, path, any_index);
    if (rest == NULL && pattern->segs.count > 1 && sc_path_begins_with(pattern, entry))
        rest = rest_after(context, pattern, 1, path, any_index);
    segment last;
    return rest != NULL && next_segment(&rest, &last) && *rest == 0;
}

sc_path_match sc_path_matches(const sc_context *context, const sc_path *pattern, sc_sym entry,
                              sc_sym path)
{
    return sc_path_match_text(context, pattern, entry, sc_text(context, path), false);
}

const char *sc_path_without_indices(sc_context *context, const char *path)
{
    char *text = sc_arena_copy_text(&context->arena, path, strlen(path)), *to = text;
    for (const char *p = text; *p != 0; p++) {
        if (*p == '[') {
            while (*p != 0 && *p != ']')
                p++;
            if (*p == 0)
                break;
        } else {
            *to++ = *p;
        }
    }
    *to = 0;
    return text;
}
