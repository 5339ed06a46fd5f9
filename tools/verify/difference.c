#include "tools/verify/difference.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "support/number.h"

/* Errors of runs are texts; these are all the texts for running out of memory. */
static bool says_memory(const char *text)
{
    return strstr(text, "out of memory") != NULL || strstr(text, "not enough memory") != NULL;
}

/* Returns NULL if there already is a difference. */
static sc_difference *new_difference(const sc_differences *to)
{
    if (to->first->run != NULL)
        return NULL;
    *to->equal = false;
    *to->first = (sc_difference){.run = to->run, .output = -1};
    return to->first;
}

static sc_difference *new_difference_of(const sc_differences *to, const sc_compared *what)
{
    sc_difference *difference = new_difference(to);
    if (difference != NULL) {
        difference->path = what->path;
        difference->output = what->output;
        difference->loc = what->loc;
    }
    return difference;
}

void sc_differ_because(const sc_differences *to, const char *format, ...)
{
    sc_difference *difference = new_difference(to);
    if (difference == NULL)
        return;
    va_list args;
    va_start(args, format);
    sc_vsnprintf(difference->message, sizeof difference->message, format, args);
    va_end(args);
    difference->is_memory = says_memory(difference->message);
}

void sc_differ_whole(const sc_differences *to, const sc_compared *what, const char *message)
{
    sc_difference *difference = new_difference_of(to, what);
    if (difference != NULL)
        snprintf(difference->message, sizeof difference->message, "%s", message);
}

void sc_differ_at(const sc_differences *to, const sc_compared *what, const sc_array *expected,
                  const sc_array *found, int64_t element)
{
    sc_difference *difference = new_difference_of(to, what);
    if (difference == NULL)
        return;
    difference->has_element = true;
    difference->rank = expected->rank;
    difference->expected = expected->data[element];
    difference->found = found->data[element];
    for (uint32_t i = expected->rank; i-- > 0; element /= expected->sizes[i])
        difference->index[i] = element % expected->sizes[i];
}
