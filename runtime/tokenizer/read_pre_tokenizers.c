#include <string.h>

#include "runtime/tokenizer/characters.h"
#include "runtime/tokenizer/read.h"

static sc_splitter *add(sc_reader *r, const char *where, sc_split_kind kind, sc_behavior behavior)
{
    shardc_tokenizer *t = r->tokenizer;
    if (t->splitter_count == SC_STEPS) {
        sc_read_fail(r, where, "is more than %d pre-tokenizers", SC_STEPS);
        return NULL;
    }
    sc_splitter *step = &t->splitters[t->splitter_count++];
    step->kind = kind;
    step->behavior = behavior;
    return step;
}

static bool read_sequence(sc_reader *r, const char *where, const json_t *value)
{
    return sc_read_keys(r, where, value, "type pretokenizers") &&
           sc_read_parts(r, where, value, "pretokenizers", sc_read_pre_tokenizer);
}

static bool read_behavior(sc_reader *r, const char *where, const json_t *value, sc_behavior *out)
{
    static const struct {
        const char *name;
        sc_behavior behavior;
    } known[] = {{"Removed", SC_REMOVED},
                 {"Isolated", SC_ISOLATED},
                 {"MergedWithPrevious", SC_MERGED_WITH_PREVIOUS},
                 {"MergedWithNext", SC_MERGED_WITH_NEXT},
                 {"Contiguous", SC_CONTIGUOUS}};
    sc_span name;
    if (!sc_read_text(r, where, value, "behavior", &name))
        return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name.data, known[i].name) == 0) {
            *out = known[i].behavior;
            return true;
        }
    }
    return sc_read_fail(r, where,
                        "behavior '%.40s' is not supported; supported are Removed, Isolated, "
                        "MergedWithPrevious, MergedWithNext, Contiguous",
                        name.data);
}

static bool read_split(sc_reader *r, const char *where, const json_t *value)
{
    sc_behavior behavior;
    if (!sc_read_keys(r, where, value, "type pattern behavior invert") ||
        !read_behavior(r, where, value, &behavior))
        return false;
    sc_splitter *step = add(r, where, SC_SPLIT_PATTERN, behavior);
    return step != NULL &&
           sc_read_bool(r, where, value, "invert", SC_REQUIRED, &step->is_inverted) &&
           sc_read_pattern(r, where, value, "pattern", &step->pattern);
}

/* The pattern of GPT-2 (Radford et al. 2019; encoder.py of its release). */
static bool add_words(sc_reader *r, const char *where)
{
    static const char pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
                                  " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    const char *why;
    sc_splitter *step = add(r, where, SC_SPLIT_PATTERN, SC_ISOLATED);
    if (step == NULL)
        return false;
    step->pattern = sc_pattern_new(r->arena, pattern, sizeof pattern - 1, false, &why);
    return step->pattern != NULL || sc_read_fail(r, where, "%s", why);
}

static bool read_byte_level(sc_reader *r, const char *where, const json_t *value)
{
    bool adds_space, trims, has_pattern;
    return sc_read_keys(r, where, value, "type add_prefix_space trim_offsets use_regex") &&
           sc_read_bool(r, where, value, "add_prefix_space", SC_REQUIRED, &adds_space) &&
           sc_read_bool(r, where, value, "trim_offsets", 1, &trims) &&
           sc_read_bool(r, where, value, "use_regex", 1, &has_pattern) &&
           (!adds_space || add(r, where, SC_SPLIT_SPACE, SC_ISOLATED) != NULL) &&
           (!has_pattern || add_words(r, where)) &&
           add(r, where, SC_SPLIT_BYTES, SC_ISOLATED) != NULL;
}

static bool read_digits(sc_reader *r, const char *where, const json_t *value)
{
    bool individual;
    return sc_read_keys(r, where, value, "type individual_digits") &&
           sc_read_bool(r, where, value, "individual_digits", SC_REQUIRED, &individual) &&
           add(r, where, SC_SPLIT_DIGITS, individual ? SC_ISOLATED : SC_CONTIGUOUS) != NULL;
}

static bool read_punctuation(sc_reader *r, const char *where, const json_t *value)
{
    sc_behavior behavior = SC_ISOLATED;
    return sc_read_keys(r, where, value, "type behavior") &&
           (json_object_get(value, "behavior") == NULL ||
            read_behavior(r, where, value, &behavior)) &&
           add(r, where, SC_SPLIT_PUNCTUATION, behavior) != NULL;
}

static bool read_whitespace_split(sc_reader *r, const char *where, const json_t *value)
{
    return sc_read_keys(r, where, value, "type") &&
           add(r, where, SC_SPLIT_WHITE, SC_REMOVED) != NULL;
}

static bool read_whitespace(sc_reader *r, const char *where, const json_t *value)
{
    return sc_read_keys(r, where, value, "type") &&
           add(r, where, SC_SPLIT_WORDS, SC_ISOLATED) != NULL;
}

static bool read_bert(sc_reader *r, const char *where, const json_t *value)
{
    return read_whitespace_split(r, where, value) &&
           add(r, where, SC_SPLIT_PUNCTUATION, SC_ISOLATED) != NULL;
}

/* prepend_scheme and split came later; before, add_prefix_space was the scheme. */
static bool read_scheme(sc_reader *r, const char *where, const json_t *value, sc_splitter *step)
{
    bool adds;
    sc_span scheme;
    if (!sc_read_bool(r, where, value, "split", 1, &step->splits) ||
        !sc_read_bool(r, where, value, "add_prefix_space", 1, &adds) ||
        !sc_read_optional_text(r, where, value, "prepend_scheme", &scheme))
        return false;
    if (scheme.length == 0)
        step->prepend = adds ? SC_PREPEND_ALWAYS : SC_PREPEND_NEVER;
    else if (strcmp(scheme.data, "always") == 0)
        step->prepend = SC_PREPEND_ALWAYS;
    else if (strcmp(scheme.data, "first") == 0)
        step->prepend = SC_PREPEND_FIRST;
    else if (strcmp(scheme.data, "never") == 0)
        step->prepend = SC_PREPEND_NEVER;
    else
        return sc_read_fail(r, where,
                            "prepend_scheme '%.40s' is not supported; supported are always, "
                            "first, never",
                            scheme.data);
    return true;
}

static bool read_metaspace(sc_reader *r, const char *where, const json_t *value)
{
    unsigned length = 0;
    if (!sc_read_keys(r, where, value,
                      "type replacement str_rep add_prefix_space prepend_scheme split"))
        return false;
    sc_splitter *step = add(r, where, SC_SPLIT_METASPACE, SC_MERGED_WITH_NEXT);
    if (step == NULL || !sc_read_text(r, where, value, "replacement", &step->text) ||
        !read_scheme(r, where, value, step))
        return false;
    if (step->text.length > 0)
        sc_utf8_decode(step->text.data, &length);
    return (length > 0 && length == step->text.length) ||
           sc_read_fail(r, where, "'replacement' must be one character");
}

bool sc_read_pre_tokenizer(sc_reader *reader, const char *where, const json_t *value)
{
    static const sc_part_type types[] = {{"Sequence", read_sequence},
                                         {"ByteLevel", read_byte_level},
                                         {"Split", read_split},
                                         {"Digits", read_digits},
                                         {"Metaspace", read_metaspace},
                                         {"Whitespace", read_whitespace},
                                         {"WhitespaceSplit", read_whitespace_split},
                                         {"BertPreTokenizer", read_bert},
                                         {"Punctuation", read_punctuation}};
    return sc_read_part_of(reader, where, value, types, sizeof types / sizeof *types);
}
