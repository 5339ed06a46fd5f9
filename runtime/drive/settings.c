#include "runtime/drive/settings.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/number.h"

typedef struct setting_row {
    const char *name;
    int hyper;         /* sc_hyper; -1: the learning rate */
    double below;      /* values are at least 0 and below this */
    const char *range; /* in words */
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
    usage(context, sc_arena_printf(&context->arena, "--set has no '%s'%s%s%s", name, near != NULL ? "; did you mean '" : "",
                                   near != NULL ? near : "", near != NULL ? "'?" : ""));
    if (near == NULL)
        sc_report_note(&context->diag, (sc_loc){0}, "it sets lr, momentum, beta1, beta2, eps, decay and clip");
    return NULL;
}

static bool parse_value(const char *text, double *out)
{
    char *end;
    errno = 0;
    *out = sc_strtod(text, &end);
    return end != text && *end == 0 && isfinite(*out) && errno != ERANGE;
}

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

static bool apply(sc_context *context, const setting_row *row, double value, sc_optimizer_settings *groups, uint32_t count)
{
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!takes(&groups[i], row->name))
            continue;
        taken++;
        if (row->hyper < 0)
            groups[i].lr = (sc_rate){.kind = SC_RATE_CONSTANT, .peak = value};
        else
            groups[i].hyper[row->hyper] = value;
    }
    if (taken > 0 || count == 0)
        return true;
    const sc_optimizer_row *optimizer = &sc_optimizers[groups[0].kind];
    return usage(context, sc_arena_printf(&context->arena, "--set %s: no optimizer here has it; the arguments of %s are %s", row->name,
                                          optimizer->name, optimizer->arguments));
}

bool sc_apply_settings(sc_context *context, const char *text, sc_optimizer_settings *groups, uint32_t count)
{
    bool given[ROW_COUNT] = {false}, good = true;
    while (text != NULL && *text != 0) {
        size_t length = strcspn(text, ","), name_length = strcspn(text, "=");
        const char *pair = sc_arena_copy_text(&context->arena, text, length);
        text += length + (text[length] == ',');
        if (name_length == 0 || name_length >= length) {
            good = usage(context, sc_arena_printf(&context->arena, "--set takes NAME=VALUE,.., not '%s'", pair));
            continue;
        }
        const setting_row *row = find_row(context, sc_arena_copy_text(&context->arena, pair, name_length));
        double value;
        if (row == NULL)
            good = false;
        else if (!parse_value(pair + name_length + 1, &value) || value < 0 || value >= row->below)
            good = usage(context, sc_arena_printf(&context->arena, "--set %s: %s is a number %s", pair, row->name, row->range));
        else if (given[row - rows])
            good = usage(context, sc_arena_printf(&context->arena, "--set gives '%s' twice", row->name));
        else
            good = apply(context, row, value, groups, count) && good;
        if (row != NULL)
            given[row - rows] = true;
    }
    return good;
}
