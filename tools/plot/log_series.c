/* Reads training logs. */
#include "tools/plot/log_series.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/json.h"

static const char *const keys[SC_LOG_SERIES] = {[SC_LOG_LOSS] = "loss",
                                                [SC_LOG_HELD_OUT] = "eval_loss",
                                                [SC_LOG_NORM] = "grad_norm",
                                                [SC_LOG_SPEED] = "tokens_per_second"};

/* Numbers that JSON lacks are texts. */
static bool read_number(const json_t *value, double *out)
{
    const char *text = json_string_value(value);
    bool is_known = json_is_number(value) ||
                    (text != NULL && (strcmp(text, "nan") == 0 || strcmp(text, "inf") == 0 ||
                                      strcmp(text, "-inf") == 0));
    *out = json_is_number(value)                       ? json_number_value(value)
           : text != NULL && strcmp(text, "inf") == 0  ? (double)INFINITY
           : text != NULL && strcmp(text, "-inf") == 0 ? (double)-INFINITY
                                                       : (double)NAN;
    return is_known;
}

/* Drops what an earlier run did from this step on. */
static void add(sc_arena *arena, sc_log_points *points, double step, double value)
{
    while (points->count > 0 && points->data[points->count - 1].step >= step)
        points->count--;
    *sc_vec_push(arena, points) = (sc_log_point){step, value};
}

/* Repeated steps may have been applied, or have a held-out loss that comes later. */
static void go_back(sc_log_run *run, double step)
{
    sc_log_points *lists[] = {&run->skipped, &run->series[SC_LOG_HELD_OUT]};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        while (lists[i]->count > 0 && lists[i]->data[lists[i]->count - 1].step >= step)
            lists[i]->count--;
    }
}

/* Returns NULL, or what is wrong with the line. */
static const char *read_line(sc_context *context, const char *line, size_t length, sc_log_run *run)
{
    json_error_t problem;
    json_t *root = sc_json_read(line, length, 0, &problem);
    const json_t *step = json_object_get(root, "step");
    const char *wrong = NULL;
    double at = json_number_value(step), value;
    uint32_t found = 0;
    if (root == NULL)
        wrong = sc_arena_printf(&context->arena, "it is no JSON: %s", problem.text);
    else if (!json_is_integer(step) || json_integer_value(step) < 0)
        wrong = "it has no \"step\", so it is no line of a training log";
    if (wrong == NULL && json_object_get(root, keys[SC_LOG_LOSS]) != NULL)
        go_back(run, at);
    for (uint32_t s = 0; s < SC_LOG_SERIES; s++) {
        const json_t *given = json_object_get(root, keys[s]);
        if (wrong != NULL || given == NULL)
            continue;
        found++;
        if (!read_number(given, &value))
            wrong = sc_arena_printf(&context->arena, "its \"%s\" is no number", keys[s]);
        else
            add(&context->arena, &run->series[s], at, value);
    }
    if (wrong == NULL && found == 0)
        wrong = "it has neither a loss nor a held-out loss";
    if (wrong == NULL && json_is_true(json_object_get(root, "skipped")))
        add(&context->arena, &run->skipped, at, 0);
    json_decref(root);
    return wrong;
}

static bool cannot_read(sc_context *context, const char *path, const char *why)
{
    sc_report(&context->diag, SC_D_cannot_read, (sc_loc){0}, path, why, NULL);
    return false;
}

static bool read_lines(sc_context *context, FILE *file, const char *path, sc_log_run *out)
{
    char *line = NULL;
    size_t room = 0;
    uint64_t number = 0;
    const char *wrong = NULL;
    for (ssize_t length; (length = getline(&line, &room, file)) > 0;) {
        number++;
        bool is_whole = line[length - 1] == '\n';
        if (strspn(line, " \t\r\n") < (size_t)length && is_whole)
            wrong = read_line(context, line, (size_t)length, out);
        if (wrong != NULL)
            break;
    }
    free(line);
    if (wrong != NULL)
        sc_report(&context->diag, SC_D_bad_data, (sc_loc){0},
                  sc_arena_printf(&context->arena, "%s:%" PRIu64 ": %s", path, number, wrong),
                  NULL);
    else if (ferror(file))
        return cannot_read(context, path, strerror(errno));
    return wrong == NULL;
}

bool sc_log_read(sc_context *context, const char *path, sc_log_run *out)
{
    struct stat about;
    FILE *file = stat(path, &about) == 0 && S_ISREG(about.st_mode) ? fopen(path, "r") : NULL;
    *out = (sc_log_run){.path = path};
    if (file == NULL)
        return cannot_read(context, path,
                           stat(path, &about) == 0 && !S_ISREG(about.st_mode)
                               ? "it is not a regular file"
                               : strerror(errno));
    bool ok = read_lines(context, file, path, out);
    fclose(file);
    uint32_t count = 0;
    for (uint32_t s = 0; s < SC_LOG_SERIES; s++)
        count += out->series[s].count;
    if (ok && count == 0)
        return cannot_read(context, path, "it has no step yet");
    return ok;
}
