#include "support/processor.h"

#include <stdbool.h>
#include <string.h>

#include "support/strbuf.h"

#if defined(__x86_64__)
#define ARCHITECTURE "x86_64"
#elif defined(__aarch64__)
#define ARCHITECTURE "aarch64"
#else
#define ARCHITECTURE "other"
#endif

static const char *const names[] = {
    ARCHITECTURE,
#define FEATURE(name) name,
#include "support/processor.def"
#undef FEATURE
};

enum { FEATURE_COUNT = sizeof names / sizeof *names };

static void find_features(bool has[FEATURE_COUNT])
{
    int at = 0;
    has[at++] = true;
#define FEATURE(name) has[at++] = __builtin_cpu_supports(name) != 0;
#include "support/processor.def"
#undef FEATURE
}

const char *sc_processor_features(sc_arena *arena)
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

const char *sc_processor_lacks(const char *features, size_t *out_length)
{
    bool has[FEATURE_COUNT];
    find_features(has);
    for (const char *word = features; *word != 0; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        bool found = false;
        for (int i = 0; i < FEATURE_COUNT; i++)
            found = found || (has[i] && strlen(names[i]) == length && memcmp(names[i], word, length) == 0);
        if (!found) {
            *out_length = length;
            return word;
        }
        word += length;
    }
    return NULL;
}
