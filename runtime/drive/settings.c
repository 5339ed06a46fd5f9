/* Parses --set and learning rate schedules. */
#include "runtime/drive/settings.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/number.h"

typedef struct setting_row {
    const char *name;
    int hyper;         /* sc_hyper; -1: the learning rate */
    double below;      /* valid values are at least 0 and below this */
    const char *range; /* the range in words */
} setting_row;

static const setting_row rows[] = {
    {"lr", -1, INFINITY, "of at least 0"},
    {"momentum", SC_HYPER_MOMENTUM, 1, "of at least 0 and below 1"},
    {"beta1", SC_HYPER_BETA1, 1, "of at least 0 and below 1"},
    {"beta2", SC_HYPER_BETA2, 1, "of at least 0 and below 1"},
    {"eps", SC_HYPER_EPS, INFINITY, "of at least 0"},
    {"decay", SC_HYPER_DECAY, INFINITY, "of at least 0"},
    {"clip", SC_HYPER_CLIP, INFINITY, "of at least 0 (0: no clipping)"},
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

static bool usage(sc_context *context, const char *text)
{
    sc_report(&context->diag, SC_D_usage, (sc_loc){0}, text, NULL);
    return false;
}

static const setting_row *find_row(sc_context *context, const char *name)
{
    const char *names[ROW_COUNT];
    for (size_t i = 0; i < ROW_COUNT; i++) {
        names[i] = rows[i].name;
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    }
    const char *near = sc_nearest(name, names, ROW_COUNT);
    usage(context, sc_arena_printf(&context->arena, "--set has no '%s'%s%s%s", name,
                                   near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                                   near != NULL ? "'?" : ""));
    if (near == NULL)
        sc_report_note(&context->diag, (sc_loc){0},
                       "it sets lr, momentum, beta1, beta2, eps, decay and clip");
    return NULL;
}

static bool parse_value(const char *text, double *out)
{
    char *end;
    errno = 0;
    *out = sc_strtod(text, &end);
    return end != text && *end == 0 && isfinite(*out) && errno != ERANGE;
}

/* ---- schedules: lr=cosine(3e-4,warmup=10,total=100,floor=0) ---- */

static const char rate_forms[] = "lr is a number, linear(PEAK,warmup=STEPS,total=STEPS) or "
                                 "cosine(PEAK,warmup=STEPS,total=STEPS), both also "
                                 "with floor=LEAST";

static const char *trimmed(sc_context *context, const char *text, size_t length)
{
    while (length > 0 && *text == ' ') {
        text++;
        length--;
    }
    while (length > 0 && text[length - 1] == ' ')
        length--;
    return sc_arena_copy_text(&context->arena, text, length);
}

static bool wrong_rate(sc_context *context, const char *pair, const char *format, const char *what)
{
    const char *text = sc_arena_printf(&context->arena, format, what);
    usage(context, sc_arena_printf(&context->arena, "--set %s: %s", pair, text));
    sc_report_note(&context->diag, (sc_loc){0}, "%s", rate_forms);
    return false;
}

static bool no_word(sc_context *context, const char *pair, const char *kind, const char *word,
                    const char *const *known, size_t count)
{
    const char *near = sc_nearest(word, known, count);
    return wrong_rate(
        context, pair, "%s",
        sc_arena_printf(
            &context->arena, "there is no %s '%s'%s", kind, word,
            near == NULL ? "" : sc_arena_printf(&context->arena, "; did you mean '%s'?", near)));
}

/* Reads warmup=10 or, for the first argument (the peak), a bare number. */
static bool read_rate_argument(sc_context *context, const char *pair, const char *text,
                               bool is_first, double *values, bool *given)
{
    size_t length = strcspn(text, "=");
    int which = is_first && text[length] == 0 ? SC_RATE_PEAK : SC_RATE_ARGUMENTS;
    const char *name = trimmed(context, text, length), *value = text;
    if (text[length] == '=') {
        for (int i = 0; i < SC_RATE_ARGUMENTS; i++)
            which = strcmp(name, sc_rate_argument_names[i]) == 0 ? i : which;
    }
    if (which == SC_RATE_ARGUMENTS && text[length] == 0)
        return wrong_rate(context, pair, "'%s' has no name", text);
    if (which == SC_RATE_ARGUMENTS)
        return no_word(context, pair, "argument", name, sc_rate_argument_names, SC_RATE_ARGUMENTS);
    if (given[which])
        return wrong_rate(context, pair, "'%s' is given twice", sc_rate_argument_names[which]);
    if (text[length] == '=')
        value = trimmed(context, text + length + 1, strlen(text + length + 1));
    given[which] = true;
    return (parse_value(value, &values[which]) && values[which] >= 0) ||
           wrong_rate(context, pair, "'%s' is not a number of at least 0", value);
}

static bool check_rate(sc_context *context, const char *pair, const double *values,
                       const bool *given)
{
    for (int i = 0; i < SC_RATE_FLOOR; i++) {
        if (!given[i])
            return wrong_rate(context, pair, "'%s' is missing", sc_rate_argument_names[i]);
    }
    return values[SC_RATE_TOTAL] > values[SC_RATE_WARMUP] ||
           wrong_rate(context, pair, "%s",
                      "the rate decays from step 'warmup' to step 'total', the number of all "
                      "steps, which must be larger");
}

static bool read_schedule(sc_context *context, const char *pair, const char *text,
                          size_t name_length, sc_rate *out)
{
    const char *name = trimmed(context, text, name_length), *rest = text + name_length + 1,
               *end = strrchr(rest, ')');
    double values[SC_RATE_ARGUMENTS] = {0};
    bool given[SC_RATE_ARGUMENTS] = {false};
    int kind = SC_RATE_CONSTANT + 1;
    while (kind < SC_RATE_KINDS && strcmp(name, sc_rate_names[kind]) != 0)
        kind++;
    if (kind == SC_RATE_KINDS)
        return no_word(context, pair, "schedule", name, &sc_rate_names[SC_RATE_CONSTANT + 1],
                       SC_RATE_KINDS - SC_RATE_CONSTANT - 1);
    if (end == NULL || end[1] != 0)
        return wrong_rate(context, pair, "%s",
                          end == NULL ? "the ')' is missing" : "something follows the ')'");
    for (bool is_first = true; rest <= end; is_first = false) {
        size_t length = strcspn(rest, ",");
        length = length < (size_t)(end - rest) ? length : (size_t)(end - rest);
        if (!read_rate_argument(context, pair, trimmed(context, rest, length), is_first, values,
                                given))
            return false;
        rest += length + 1;
    }
    *out = (sc_rate){(sc_rate_kind)kind, values[SC_RATE_PEAK], values[SC_RATE_WARMUP],
                     values[SC_RATE_TOTAL], values[SC_RATE_FLOOR]};
    return check_rate(context, pair, values, given);
}

/* Reads what follows the =: a number, or for lr also a schedule. */
static bool read_value(sc_context *context, const setting_row *row, const char *pair, sc_rate *out)
{
    const char *text = strchr(pair, '=') + 1;
    size_t name_length = strcspn(text, "(");
    *out = (sc_rate){.kind = SC_RATE_CONSTANT};
    if (row->hyper < 0 && text[name_length] == '(')
        return read_schedule(context, pair, text, name_length, out);
    if (parse_value(text, &out->peak) && out->peak >= 0 && out->peak < row->below)
        return true;
    usage(context, sc_arena_printf(&context->arena, "--set %s: %s is a number %s", pair, row->name,
                                   row->range));
    if (row->hyper < 0)
        sc_report_note(&context->diag, (sc_loc){0}, "%s", rate_forms);
    return false;
}

/* ---- applying settings ---- */

static bool takes(const sc_optimizer_settings *group, const char *name)
{
    size_t length = strlen(name);
    for (const char *p = sc_optimizers[group->kind].arguments; *p != 0;) {
        size_t word = strcspn(p, " ");
        if (word == length && strncmp(p, name, length) == 0)
            return true;
        p += word + (p[word] == ' ');
    }
    return false;
}

static bool apply(sc_context *context, const setting_row *row, sc_rate value,
                  sc_optimizer_settings *groups, uint32_t count)
{
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!takes(&groups[i], row->name))
            continue;
        taken++;
        if (row->hyper < 0)
            groups[i].lr = value;
        else
            groups[i].hyper[row->hyper] = value.peak;
    }
    if (taken > 0 || count == 0)
        return true;
    const sc_optimizer_row *optimizer = &sc_optimizers[groups[0].kind];
    return usage(context,
                 sc_arena_printf(&context->arena,
                                 "--set %s: no optimizer here has it; the arguments of %s are %s",
                                 row->name, optimizer->name, optimizer->arguments));
}

/* Returns the length up to the next comma outside parentheses. */
static size_t pair_length(const char *text)
{
    size_t length = 0;
    for (uint32_t depth = 0; text[length] != 0 && (depth > 0 || text[length] != ','); length++) {
        if (text[length] == '(')
            depth++;
        else if (text[length] == ')' && depth > 0)
            depth--;
    }
    return length;
}

bool sc_apply_settings(sc_context *context, const char *text, sc_optimizer_settings *groups,
                       uint32_t count)
{
    bool given[ROW_COUNT] = {false}, good = true;
    while (text != NULL && *text != 0) {
        size_t length = pair_length(text), name_length = strcspn(text, "=");
        const char *pair = sc_arena_copy_text(&context->arena, text, length);
        text += length + (text[length] == ',');
        if (name_length == 0 || name_length >= length) {
            good = usage(context, sc_arena_printf(&context->arena,
                                                  "--set takes NAME=VALUE,.., not '%s'", pair));
            continue;
        }
        const setting_row *row =
            find_row(context, sc_arena_copy_text(&context->arena, pair, name_length));
        sc_rate value;
        if (row == NULL || !read_value(context, row, pair, &value))
            good = false;
        else if (given[row - rows])
            good = usage(context,
                         sc_arena_printf(&context->arena, "--set gives '%s' twice", row->name));
        else
            good = apply(context, row, value, groups, count) && good;
        if (row != NULL)
            given[row - rows] = true;
    }
    return good;
}
