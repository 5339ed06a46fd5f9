/* Matching path patterns of the plan language against paths of values and parameters. */
#ifndef SHARDC_FRONTEND_DECLARE_PATH_MATCH_H
#define SHARDC_FRONTEND_DECLARE_PATH_MATCH_H

#include "frontend/syntax/ast.h"

/* Matches a pattern against a path (`layers[0].attn.wq`) as seen from an entry. EXACT: the whole
 * path; COVERS: a prefix of it (a pattern covers its subtree). */
typedef enum sc_path_match { SC_PATH_NO, SC_PATH_COVERS, SC_PATH_EXACT } sc_path_match;
sc_path_match sc_path_matches(const sc_context *context, const sc_path *pattern, sc_sym entry,
                              sc_sym path);
/* Strips the indices, e.g. layers[3].attn.wq -> layers.attn.wq. Allocated in the arena. */
const char *sc_path_without_indices(sc_context *context, const char *path);

/* As sc_path_matches, on a C string. With `any_index` the pattern's indices are ignored. */
sc_path_match sc_path_match_text(const sc_context *context, const sc_path *pattern, sc_sym entry,
                                 const char *path, bool any_index);
/* Returns the length of the prefix of `path` that the pattern's segments match: the pattern
 * `layers.attn` matches layers[3].attn of layers[3].attn.o. SIZE_MAX if they do not match; 0 if the
 * pattern is only the entry's name. */
size_t sc_path_match_length(const sc_context *context, const sc_path *pattern, sc_sym entry,
                            const char *path);
/* True if the path is a direct member of what the pattern names, e.g. layers[3].attn.o of
 * `layers.attn`. */
bool sc_path_matches_parent(const sc_context *context, const sc_path *pattern, sc_sym entry,
                            const char *path, bool any_index);

/* True if a pattern begins with the entry's name. */
bool sc_path_begins_with(const sc_path *pattern, sc_sym entry);

#endif
