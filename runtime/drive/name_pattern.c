/* Matches tensor names against patterns. */
#include "runtime/drive/name_pattern.h"

#include <stddef.h>
#include <string.h>

/* Advances both by one step; a braced expression consumes all digits. False: mismatch. */
static bool step(const char **pattern, const char **name)
{
    if (**pattern != '{') {
        bool same = **pattern == **name && **name != 0;
        *pattern += same;
        *name += same;
        return same;
    }
    size_t digits = strspn(*name, "0123456789"), hole = strcspn(*pattern, "}");
    *name += digits;
    *pattern += hole + ((*pattern)[hole] == '}');
    return digits > 0;
}

/* A `*` first matches as little as possible; after a mismatch the last `*` consumes one more
 * character. */
bool sc_name_is_like(const char *pattern, const char *name)
{
    const char *after_star = NULL, *taken_to = NULL;
    while (*name != 0 || *pattern != 0) {
        if (*pattern == '*') {
            after_star = ++pattern;
            taken_to = name;
        } else if (!step(&pattern, &name)) {
            if (after_star == NULL || *taken_to == 0)
                return false;
            pattern = after_star;
            name = ++taken_to;
        }
    }
    return true;
}

bool sc_name_ends_like(const char *pattern, const char *name)
{
    for (; name != NULL; name = strchr(name, '.')) {
        name += *name == '.';
        if (sc_name_is_like(pattern, name))
            return true;
    }
    return false;
}
