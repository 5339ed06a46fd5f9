/* Finds the name that was probably meant: the same in other case, another framework's term, or one
 * within a small edit distance. */
#include <string.h>

#include "support/diag.h"

enum { LONGEST_NAME = 64 };

/* ASCII only, as in names, and independent of the locale. */
static char lower(char c)
{
    if (c < 'A' || c > 'Z')
        return c;
    return (char)(c - 'A' + 'a');
}

static bool is_same_but_case(const char *a, const char *b)
{
    while (*a != 0 && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return *a == 0 && *b == 0;
}

/* True if `candidate` is this language's word for another framework's term. */
static bool is_familiar(const char *name, const char *candidate)
{
    static const struct {
        const char *theirs, *ours;
    } rows[] = {
#define FAMILIAR(theirs, ours) {theirs, ours},
#include "support/familiar.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].ours, candidate) == 0 && is_same_but_case(rows[i].theirs, name))
            return true;
    }
    return false;
}

static size_t edit_distance(const char *a, const char *b)
{
    size_t row[LONGEST_NAME + 1], length = strlen(b);
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 0; a[i] != 0; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < length; j++) {
            size_t changed = diagonal + (lower(a[i]) != lower(b[j]));
            diagonal = row[j + 1];
            size_t shorter = diagonal < row[j] ? diagonal : row[j];
            row[j + 1] = changed < shorter + 1 ? changed : shorter + 1;
        }
    }
    return row[length];
}

static size_t common_prefix(const char *a, const char *b)
{
    size_t length = 0;
    while (a[length] != 0 && lower(a[length]) == lower(b[length]))
        length++;
    return length;
}

/* NULL if there is none. */
static const char *find_exactly(const char *name, const char *const *candidates, size_t count,
                                bool (*is_it)(const char *, const char *))
{
    for (size_t i = 0; i < count; i++) {
        if (is_it(name, candidates[i]))
            return candidates[i];
    }
    return NULL;
}

static const char *find_nearest(const char *name, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    size_t best_distance = 2 + strlen(name) / 3;
    for (size_t i = 0; i < count; i++) {
        if (strlen(candidates[i]) > LONGEST_NAME)
            continue;
        size_t distance = edit_distance(name, candidates[i]);
        bool begins_alike =
            best != NULL && common_prefix(name, candidates[i]) > common_prefix(name, best);
        if (distance < best_distance || (distance == best_distance && begins_alike)) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    return best;
}

const char *sc_nearest(const char *name, const char *const *candidates, size_t count)
{
    const char *found = find_exactly(name, candidates, count, is_same_but_case);
    if (found == NULL)
        found = find_exactly(name, candidates, count, is_familiar);
    return found != NULL ? found : find_nearest(name, candidates, count);
}
