/* Matching of paths beyond what plan.h declares. Private to frontend/. */
#ifndef SHARDC_FRONTEND_PATH_MATCH_H
#define SHARDC_FRONTEND_PATH_MATCH_H

#include "frontend/plan.h"

/* sc_path_matches on a text; `any_index`: the indices in the pattern are not looked at. */
sc_path_match sc_path_match_text(const sc_context *context, const sc_path *pattern, sc_sym entry, const char *path, bool any_index);
/* Whether the path is a direct member of what the pattern names: `layers.attn` and layers[3].attn.o. */
bool sc_path_matches_parent(const sc_context *context, const sc_path *pattern, sc_sym entry, const char *path, bool any_index);

#endif
