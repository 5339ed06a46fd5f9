/* Regular expressions of a tokenizer.json. They are written for Oniguruma in its Ruby syntax; they
 * are translated to PCRE2's, with the character classes of characters.def, and matched by its
 * just-in-time compiler. */
#ifndef SHARDC_RUNTIME_TOKENIZER_PATTERN_H
#define SHARDC_RUNTIME_TOKENIZER_PATTERN_H

#include <stdbool.h>

#include "support/strbuf.h"

typedef struct sc_pattern sc_pattern;

/* Translates a regular expression. Returns NULL and sets *why (in the arena) if it has a part that
 * is not supported. */
const char *sc_pattern_translate(sc_arena *arena, const char *regex, size_t length,
                                 const char **why);

/* Compiles a regular expression, or a text that is matched as it is. Returns NULL and sets *why (in
 * the arena) if that fails. The caller frees it. */
sc_pattern *sc_pattern_new(sc_arena *arena, const char *text, size_t length, bool is_literal,
                           const char **why);
void sc_pattern_free(sc_pattern *pattern);

/* What matching needs, for one thread at a time. */
typedef struct sc_matcher sc_matcher;

/* Returns NULL if memory runs out. */
sc_matcher *sc_matcher_new(void);
void sc_matcher_free(sc_matcher *matcher);

/* The matches in a text, one after another, as Oniguruma's bindings for Rust find them: they do not
 * overlap, and none is empty right behind another. */
typedef struct sc_matches {
    const sc_pattern *pattern;
    sc_matcher *matcher;
    const char *text; /* valid UTF-8 */
    size_t length;
    size_t from;       /* where the next search begins */
    size_t last_end;   /* end of the last match; SIZE_MAX: none yet */
    size_t begin, end; /* the match */
} sc_matches;

typedef enum sc_match { SC_MATCH_NONE, SC_MATCH_FOUND, SC_MATCH_LIMIT, SC_MATCH_MEMORY } sc_match;

void sc_matches_init(sc_matches *matches, const sc_pattern *pattern, sc_matcher *matcher,
                     const char *text, size_t length);
/* LIMIT: the match takes more steps or stack than allowed. */
sc_match sc_matches_next(sc_matches *matches);

#endif
