/* Paths of the plan language against the paths of things. */
#ifndef SHARDC_FRONTEND_DECLARE_PATH_MATCH_H
#define SHARDC_FRONTEND_DECLARE_PATH_MATCH_H

#include "frontend/syntax/ast.h"

/* Whether a path of the plan language matches the path of a thing (`layers[0].attn.wq`) seen from an entry: exactly, or as a part of the
 * thing's prefix (a path covers its subtree). */
typedef enum sc_path_match { SC_PATH_NO, SC_PATH_COVERS, SC_PATH_EXACT } sc_path_match;
sc_path_match sc_path_matches(const sc_context *context, const sc_path *pattern, sc_sym entry, sc_sym path);
/* layers[3].attn.wq -> layers.attn.wq, in the arena. */
const char *sc_path_without_indices(sc_context *context, const char *path);

/* sc_path_matches on a text; `any_index`: the indices in the pattern are not looked at. */
sc_path_match sc_path_match_text(const sc_context *context, const sc_path *pattern, sc_sym entry, const char *path, bool any_index);
/* How much of the text the pattern's segments match, from its front: `layers.attn` of layers[3].attn.o is layers[3].attn. SIZE_MAX when
 * they do not; 0 when the pattern is only the entry's name. */
size_t sc_path_match_length(const sc_context *context, const sc_path *pattern, sc_sym entry, const char *path);
/* Whether the path is a direct member of what the pattern names: `layers.attn` and layers[3].attn.o. */
bool sc_path_matches_parent(const sc_context *context, const sc_path *pattern, sc_sym entry, const char *path, bool any_index);

/* Whether a pattern begins with the entry's name. */
bool sc_path_begins_with(const sc_path *pattern, sc_sym entry);

#endif
