/* Helpers of sc_image_check: recording the first fault and its location, and rank-dependent
 * numbers. */
#include <stdarg.h>

#include "program/check.h"

bool sc_checker_fail(sc_checker *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = sc_arena_vprintf(c->arena, format, args);
    va_end(args);
    if (c->fault == NULL)
        c->fault = c->what == NULL ? text
                                   : sc_arena_printf(c->arena, "%s %u%s%s%s: %s", c->what, c->index,
                                                     c->name[0] != 0 ? " (" : "", c->name,
                                                     c->name[0] != 0 ? ")" : "", text);
    return false;
}

void sc_checker_at(sc_checker *c, const char *what, uint32_t index, const char *name)
{
    c->what = what;
    c->index = index;
    c->name = name == NULL ? "" : name;
}

/* ---- numbers that depend on the rank ---- */

bool sc_check_digit(sc_checker *c, uint64_t divide, uint64_t modulo)
{
    uint64_t ranks = c->image->ranks;
    if (divide == 0 || modulo == 0 || ranks % divide != 0 || ranks / divide % modulo != 0)
        return sc_checker_fail(c, "(rank / %llu) %% %llu is no digit of %llu ranks",
                               (unsigned long long)divide, (unsigned long long)modulo,
                               (unsigned long long)ranks);
    return true;
}

bool sc_check_terms(sc_checker *c, const sc_image_terms *terms, int64_t *out_least,
                    int64_t *out_most)
{
    *out_least = *out_most = 0;
    for (uint32_t i = 0; i < terms->count; i++) {
        const sc_image_term *term = &terms->terms[i];
        int64_t reach, *end = term->times < 0 ? out_least : out_most;
        if (!sc_check_digit(c, term->divide, term->modulo))
            return false;
        if (term->plus >= term->modulo)
            return sc_checker_fail(c, "a digit below %llu starts at %llu",
                                   (unsigned long long)term->modulo,
                                   (unsigned long long)term->plus);
        if (__builtin_mul_overflow((int64_t)(term->modulo - 1), term->times, &reach) ||
            __builtin_add_overflow(*end, reach, end))
            return sc_checker_fail(c, "a number that depends on the rank overflows");
    }
    return true;
}
