#include "runtime/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

struct sc_pattern {
    pcre2_code *code;
};

struct sc_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

enum {
    STACK_FIRST = 32 << 10,
    STACK_MOST = 4 << 20,
    MATCH_LIMIT = 10000000, /* steps of one match */
    HEAP_LIMIT = 64 << 10   /* KiB, for machines without the just-in-time compiler */
};

static const char *message(sc_arena *arena, int code, size_t offset, bool is_literal)
{
    PCRE2_UCHAR text[200];
    if (pcre2_get_error_message(code, text, sizeof text) < 0)
        text[0] = 0;
    return is_literal ? sc_arena_printf(arena, "%s", (const char *)text)
                      : sc_arena_printf(arena, "%s (at byte %zu of its translation)",
                                        (const char *)text, offset);
}

sc_pattern *sc_pattern_new(sc_arena *arena, const char *text, size_t length, bool is_literal,
                           const char **why)
{
    uint32_t options = PCRE2_UTF | (is_literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE);
    const char *source = text;
    int error = 0;
    PCRE2_SIZE offset = 0;
    if (!is_literal) {
        source = sc_pattern_translate(arena, text, length, why);
        if (source == NULL)
            return NULL;
        length = strlen(source);
    }
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    sc_pattern *pattern = malloc(sizeof *pattern);
    if (context == NULL || pattern == NULL) {
        pcre2_compile_context_free(context);
        free(pattern);
        sc_arena_fail(arena);
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pattern->code = pcre2_compile((PCRE2_SPTR)source, length, options, &error, &offset, context);
    pcre2_compile_context_free(context);
    if (pattern->code == NULL) {
        free(pattern);
        *why = message(arena, error, offset, is_literal);
        return NULL;
    }
    /* Without it matching is slower, but the same. */
    (void)pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE);
    return pattern;
}

void sc_pattern_free(sc_pattern *pattern)
{
    if (pattern != NULL)
        pcre2_code_free(pattern->code);
    free(pattern);
}

sc_matcher *sc_matcher_new(void)
{
    sc_matcher *matcher = calloc(1, sizeof *matcher);
    if (matcher == NULL)
        return NULL;
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    matcher->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MOST, NULL);
    if (matcher->data == NULL || matcher->context == NULL) {
        sc_matcher_free(matcher);
        return NULL;
    }
    pcre2_set_match_limit(matcher->context, MATCH_LIMIT);
    pcre2_set_heap_limit(matcher->context, HEAP_LIMIT);
    if (matcher->stack != NULL)
        pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    return matcher;
}

void sc_matcher_free(sc_matcher *matcher)
{
    if (matcher == NULL)
        return;
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->context);
    pcre2_jit_stack_free(matcher->stack);
    free(matcher);
}

void sc_matches_init(sc_matches *matches, const sc_pattern *pattern, sc_matcher *matcher,
                     const char *text, size_t length)
{
    *matches = (sc_matches){.pattern = pattern,
                            .matcher = matcher,
                            .text = text,
                            .length = length,
                            .last_end = SIZE_MAX};
}

static size_t after_character(const sc_matches *matches, size_t at)
{
    at++;
    while (at < matches->length && ((unsigned char)matches->text[at] & 0xc0) == 0x80)
        at++;
    return at;
}

sc_match sc_matches_next(sc_matches *matches)
{
    while (matches->from <= matches->length) {
        int found = pcre2_match(matches->pattern->code, (PCRE2_SPTR)matches->text, matches->length,
                                matches->from, PCRE2_NO_UTF_CHECK, matches->matcher->data,
                                matches->matcher->context);
        if (found == PCRE2_ERROR_NOMATCH)
            return SC_MATCH_NONE;
        if (found < 0)
            return found == PCRE2_ERROR_NOMEMORY ? SC_MATCH_MEMORY : SC_MATCH_LIMIT;
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(matches->matcher->data);
        if (range[0] == range[1] && range[1] == matches->last_end) {
            matches->from = after_character(matches, matches->from);
            continue;
        }
        matches->begin = range[0];
        matches->end = matches->from = matches->last_end = range[1];
        return SC_MATCH_FOUND;
    }
    return SC_MATCH_NONE;
}
