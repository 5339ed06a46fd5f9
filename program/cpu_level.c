#include "program/cpu_level.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/strbuf.h"

#if defined(__x86_64__)
#define ARCHITECTURE "x86_64"
#elif defined(__aarch64__)
#define ARCHITECTURE "aarch64"
#else
#define ARCHITECTURE "other"
#endif

/* ---- levels ---- */

typedef struct level_row {
    const char *word, *flag;
} level_row;

static const level_row levels[] = {
#define LEVEL(identifier, word, flag, has) {word, flag},
#include "program/cpu_levels.def"
#undef LEVEL
};

static bool has_level(sc_cpu_level level)
{
    bool has_all = true;
    int at = 0;
#define SUPPORTS(name)                     (__builtin_cpu_supports(name) != 0)
#define LEVEL(identifier, word, flag, has) has_all = has_all && (at++ > (int)level || (has));
#include "program/cpu_levels.def"
#undef LEVEL
#undef SUPPORTS
    return has_all;
}

static void list_words(char *problem, size_t size, const char *asked)
{
    size_t length = (size_t)snprintf(problem, size, "SHARDC_CPU is '%s'; it is one of", asked);
    for (int i = 0; i < SC_CPU_LEVELS && length < size; i++)
        length += (size_t)snprintf(problem + length, size - length, "%s %s", i == 0 ? "" : ",",
                                   levels[i].word);
}

bool sc_cpu_allowed(sc_cpu_level *out, char *problem, size_t problem_size)
{
    const char *asked = getenv("SHARDC_CPU");
    *out = SC_CPU_NATIVE;
    if (asked == NULL || asked[0] == 0)
        return true;
    for (int i = 0; i < SC_CPU_LEVELS; i++) {
        if (strcmp(levels[i].word, asked) != 0)
            continue;
        if (i == SC_CPU_NATIVE || has_level((sc_cpu_level)i)) {
            *out = (sc_cpu_level)i;
            return true;
        }
        if (problem != NULL)
            snprintf(problem, problem_size,
                     "SHARDC_CPU is '%s', but this CPU lacks those instructions", asked);
        return false;
    }
    if (problem != NULL)
        list_words(problem, problem_size, asked);
    return false;
}

const char *sc_cpu_flag(sc_cpu_level level)
{
    return levels[level].flag;
}

bool sc_cpu_uses(sc_cpu_level level)
{
    sc_cpu_level allowed;
    sc_cpu_allowed(&allowed, NULL, 0);
    return level <= allowed && has_level(level);
}

/* ---- features ---- */

static const char *const names[] = {
    ARCHITECTURE,
#define FEATURE(name, level) name,
#include "program/cpu_features.def"
#undef FEATURE
};

enum { FEATURE_COUNT = sizeof names / sizeof *names };

static void find_features(bool has[FEATURE_COUNT])
{
    int at = 0;
    sc_cpu_level allowed;
    sc_cpu_allowed(&allowed, NULL, 0);
    has[at++] = true;
#define FEATURE(name, level)                                                                       \
    has[at++] = SC_CPU_##level <= allowed && __builtin_cpu_supports(name) != 0;
#include "program/cpu_features.def"
#undef FEATURE
}

const char *sc_cpu_features(sc_arena *arena)
{
    bool has[FEATURE_COUNT];
    sc_strbuf text;
    find_features(has);
    sc_strbuf_init(&text, arena);
    for (int i = 0; i < FEATURE_COUNT; i++) {
        if (has[i])
            sc_strbuf_printf(&text, "%s%s", i > 0 ? " " : "", names[i]);
    }
    return text.data;
}

const char *sc_cpu_lacks(const char *features, size_t *out_length)
{
    bool has[FEATURE_COUNT];
    find_features(has);
    for (const char *word = features; *word != 0; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        bool found = false;
        for (int i = 0; i < FEATURE_COUNT; i++)
            found = found ||
                    (has[i] && strlen(names[i]) == length && memcmp(names[i], word, length) == 0);
        if (!found) {
            *out_length = length;
            return word;
        }
        word += length;
    }
    return NULL;
}
