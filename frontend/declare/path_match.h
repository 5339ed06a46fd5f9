/* Matching of paths beyond what plan.h declares. Private to frontend/. */
#ifndef SHARDC_FRONTEND_DECLARE_PATH_MATCH_H
#define SHARDC_FRONTEND_DECLARE_PATH_MATCH_H

#include "frontend/plan/plan.h"

/* sc_path_matches on a text; `any_index`: the indices in the pattern are not looked at. */
sc_path_match sc_path_match_text(const sc_context *context, const sc_path *pattern, sc_sym entry, const char *path, bool any_index);
/* How much of the text the pattern's segments match, from its front: `layers.attn` of layers[3].attn.o is layers[3].attn. SIZE_MAX when
 * they do not; 0 when the pattern is only the entry's name. */
size_t sc_path_match_length(const sc_context *context, const sc_path *pattern, sc_sym entry, const char *path);
/* Whether the path is a direct member of what the pattern names: `layers.attn` and layers[3].attn.o. */
bool sc_path_matches_parent(const sc_context *context, const sc_path *pattern, sc_sym entry, const char *path, bool any_index);

/* Whether a pattern begins with the entry's name. */
bool sc_path_begins_with(const sc_path *pattern, sc_sym entry);

/* Where the places of a view stand, sorted; empty until it is needed. */
struct sc_place_index *sc_place_index_new(sc_context *context);

#endif
