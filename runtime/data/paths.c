/* Lists the files of --data. */
#include "runtime/data/paths.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/number.h"

static bool cannot_read(sc_context *context, const char *path, const char *why)
{
    sc_report(&context->diag, SC_D_cannot_read, (sc_loc){0}, path, why, NULL);
    return false;
}

static bool exists(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* By bytes, so that the order is that of no locale. */
static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort(sc_text_list *list, uint32_t from)
{
    if (list->count > from)
        qsort(list->data + from, list->count - from, sizeof *list->data, by_name);
}

/* ---- folders ---- */

static bool has_data_name(const char *name)
{
    static const char *const ends[] = {".bin", ".txt", ".jsonl"};
    const char *dot = strrchr(name, '.');
    bool found = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        found = found || (dot != NULL && strcmp(dot, ends[i]) == 0);
    return found && name[0] != '.';
}

static bool list_folder(sc_context *context, const char *path, sc_text_list *out)
{
    uint32_t first = out->count;
    DIR *folder = opendir(path);
    struct dirent *entry = NULL;
    if (folder == NULL)
        return cannot_read(context, path, strerror(errno));
    errno = 0;
    for (entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        const char *full = sc_arena_printf(&context->arena, "%s/%s", path, entry->d_name);
        if (has_data_name(entry->d_name) && !is_folder(full))
            *sc_vec_push(&context->arena, out) = full;
    }
    int problem = errno;
    closedir(folder);
    if (problem != 0)
        return cannot_read(context, path, strerror(problem));
    sort(out, first);
    return out->count > first ||
           cannot_read(context, path, "the folder has no .bin, .txt or .jsonl file");
}

static bool list_path(sc_context *context, const char *path, sc_text_list *out)
{
    if (is_folder(path))
        return list_folder(context, path, out);
    *sc_vec_push(&context->arena, out) = path;
    return true;
}

/* ---- patterns ---- */

static bool list_matches(sc_context *context, const char *pattern, sc_text_list *out)
{
    glob_t found = {0};
    sc_text_list matches = {0};
    int result = glob(pattern, GLOB_NOSORT, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++)
        *sc_vec_push(&context->arena, &matches) =
            sc_arena_copy_text(&context->arena, found.gl_pathv[i], strlen(found.gl_pathv[i]));
    globfree(&found);
    if (result != 0)
        return cannot_read(context, pattern,
                           result == GLOB_NOSPACE ? "there is not enough memory"
                                                  : "no file matches the pattern");
    sort(&matches, 0);
    bool ok = true;
    for (uint32_t i = 0; i < matches.count; i++)
        ok = list_path(context, matches.data[i], out) && ok;
    return ok;
}

/* ---- items ---- */

/* Splits PATH:WEIGHT. What follows the last colon is part of the path unless it is a number. */
static bool split_weight(sc_context *context, sc_data_item *item)
{
    const char *colon = exists(item->text) ? NULL : strrchr(item->text, ':');
    char *end = NULL;
    double weight = colon == NULL ? 0 : sc_strtod(colon + 1, &end);
    if (colon == NULL || end == colon + 1 || *end != 0)
        return true;
    const char *text = item->text;
    item->text = sc_arena_copy_text(&context->arena, text, (size_t)(colon - text));
    item->weight = weight;
    if (isfinite(weight) && weight > 0)
        return true;
    sc_arguments_fail(context, "--data %s: a weight is a number above 0, not '%s'", text,
                      colon + 1);
    return false;
}

static bool add_item(sc_context *context, const char *text, sc_data_items *out)
{
    sc_data_item item = {.text = text};
    if (!split_weight(context, &item))
        return false;
    bool is_pattern = !exists(item.text) && strpbrk(item.text, "*?[") != NULL;
    bool ok = is_pattern ? list_matches(context, item.text, &item.files)
                         : list_path(context, item.text, &item.files);
    *sc_vec_push(&context->arena, out) = item;
    return ok;
}

static bool add_text(sc_context *context, const char *text, sc_data_items *out)
{
    if (exists(text))
        return add_item(context, text, out);
    for (const char *at = text; at != NULL;) {
        size_t length = strcspn(at, ",");
        const char *item = sc_arena_copy_text(&context->arena, at, length);
        if (length == 0)
            return cannot_read(context, text, "a name in the list is empty");
        if (!add_item(context, item, out))
            return false;
        at = at[length] == 0 ? NULL : at + length + 1;
    }
    return true;
}

bool sc_data_list(sc_context *context, const sc_text_list *texts, sc_data_items *out)
{
    const sc_data_item *weighted = NULL, *unweighted = NULL;
    bool ok = true;
    *out = (sc_data_items){0};
    for (uint32_t i = 0; i < texts->count; i++)
        ok = add_text(context, texts->data[i], out) && ok;
    for (uint32_t i = 0; i < out->count; i++) {
        if (out->data[i].weight > 0)
            weighted = &out->data[i];
        else
            unweighted = &out->data[i];
    }
    if (!ok || weighted == NULL || unweighted == NULL)
        return ok;
    sc_arguments_fail(context,
                      "--data gives '%s' a weight, but not '%s': weights are for all or none",
                      weighted->text, unweighted->text);
    return false;
}
