/* Words that a line of a plan chooses from a list. */
#include "frontend/plan/internal.h"

#include <string.h>

static const char *suggest_word(sc_resolved_plan *plan, sc_sym word, const char *const *words,
                                size_t count)
{
    const char *near = sc_nearest(sc_text(plan->context, word), words, count);
    return near == NULL ? "" : sc_arena_printf(&plan->context->arena, "; did you mean '%s'?", near);
}

static bool is_word(const sc_resolved_plan *plan, sc_sym word, const char *const *words,
                    size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(sc_text(plan->context, word), words[i]) == 0)
            return true;
    }
    return false;
}

const char *sc_plan_word_list(sc_resolved_plan *plan, const char *const *words, size_t count)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &plan->context->arena);
    for (size_t i = 0; i < count; i++)
        sc_strbuf_printf(&text, "%s%s", i > 0 ? ", " : "", words[i]);
    return text.data;
}

bool sc_plan_check_word(sc_resolved_plan *plan, sc_sym word, sc_loc loc, const char *what,
                        const char *const *words, size_t count)
{
    if (is_word(plan, word, words, count))
        return true;
    sc_report(&plan->context->diag, SC_D_bad_plan_statement, loc,
              sc_arena_printf(&plan->context->arena, "%s is not a valid %s%s",
                              word == 0 ? "this"
                                        : sc_arena_printf(&plan->context->arena, "'%s'",
                                                          sc_text(plan->context, word)),
                              what, word == 0 ? "" : suggest_word(plan, word, words, count)),
              NULL);
    sc_report_note(&plan->context->diag, (sc_loc){0}, "there are %s",
                   sc_plan_word_list(plan, words, count));
    return false;
}
