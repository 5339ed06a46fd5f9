#define _GNU_SOURCE
#include "support/dynlib.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_ROOM = 4096, LIST_ROOM = 200 };

const char *const sc_dynlib_cuda_folders[] = {"$CUDA_HOME/lib64",      "$CUDA_HOME/lib",
                                              "$CUDA_PATH/lib64",      "$CUDA_PATH/lib",
                                              "/usr/local/cuda/lib64", NULL};

/* ---- opening ---- */
static void *open_path(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/* Keeps the first error of a file that exists but cannot be loaded; a missing file only reports
 * that it is missing. */
static void keep_reason(const char *path, char *reason, size_t room)
{
    const char *text = dlerror();
    size_t length = strlen(path);
    bool is_absent =
        text == NULL || (strncmp(text, path, length) == 0 && strstr(text, "No such file") != NULL);
    if (!is_absent && reason[0] == 0)
        snprintf(reason, room, "%s", text);
}

/* Joins FOLDER/NAME, replacing a leading variable. Returns false if the variable is unset or the
 * result does not fit. */
static bool join(const char *folder, const char *name, char *out, size_t room)
{
    const char *base = "";
    if (folder[0] == '$') {
        char variable[64];
        size_t length = strcspn(folder, "/");
        if (length > sizeof variable)
            return false;
        memcpy(variable, folder + 1, length - 1);
        variable[length - 1] = 0;
        base = getenv(variable);
        folder += length;
        if (base == NULL || base[0] == 0)
            return false;
    }
    int length = snprintf(out, room, "%s%s/%s", base, folder, name);
    return length > 0 && (size_t)length < room;
}

static void *open_name(const sc_dynlib *what, const char *name, char *reason, size_t room)
{
    char path[PATH_ROOM];
    void *library = open_path(name);
    if (library == NULL)
        keep_reason(name, reason, room);
    for (size_t i = 0; library == NULL && what->folders != NULL && what->folders[i] != NULL; i++) {
        if (!join(what->folders[i], name, path, sizeof path))
            continue;
        library = open_path(path);
        if (library == NULL)
            keep_reason(path, reason, room);
    }
    return library;
}

/* ---- messages: the remedy is never cut ---- */
static const char *separator(const sc_dynlib *what)
{
    return what->variable != NULL ? ", or name its file in " : "";
}

static const char *variable_of(const sc_dynlib *what)
{
    return what->variable != NULL ? what->variable : "";
}

static void list_names(const sc_dynlib *what, char *out, size_t room)
{
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; what->names[i] != NULL && at < room; i++) {
        int length = snprintf(out + at, room - at, "%s%s", i > 0 ? ", " : "", what->names[i]);
        at += length > 0 ? (size_t)length : 0;
    }
}

static void *open_any(const sc_dynlib *what, shardc_error *error)
{
    char reason[LIST_ROOM] = "", names[LIST_ROOM];
    const char *given = what->variable != NULL ? getenv(what->variable) : NULL;
    void *library = NULL;
    error->status = SHARDC_ERROR_UNAVAILABLE;
    if (given != NULL && given[0] != 0) {
        library = open_path(given);
        if (library == NULL)
            snprintf(error->text, sizeof error->text,
                     "%s: the file that %s names does not load: %.300s", what->title,
                     what->variable, dlerror());
        return library;
    }
    for (size_t i = 0; library == NULL && what->names[i] != NULL; i++)
        library = open_name(what, what->names[i], reason, sizeof reason);
    if (library != NULL)
        return library;
    list_names(what, names, sizeof names);
    if (reason[0] != 0)
        snprintf(error->text, sizeof error->text, "%s does not load: %s; %s%s%s", what->title,
                 reason, what->remedy, separator(what), variable_of(what));
    else
        snprintf(error->text, sizeof error->text, "%s was not found (looked for %s): %s%s%s",
                 what->title, names, what->remedy, separator(what), variable_of(what));
    return NULL;
}

static void set_pointer(void *out, size_t at, void *pointer)
{
    memcpy((char *)out + at, &pointer, sizeof pointer);
}

bool sc_dynlib_open(const sc_dynlib *what, void *out, shardc_error *error)
{
    for (size_t i = 0; i < what->symbol_count; i++)
        set_pointer(out, what->symbols[i].at, NULL);
    set_pointer(out, 0, NULL);
    void *library = open_any(what, error);
    if (library == NULL)
        return false;
    set_pointer(out, 0, library);
    for (size_t i = 0; i < what->symbol_count; i++) {
        void *symbol = dlsym(library, what->symbols[i].name);
        if (symbol == NULL) {
            snprintf(error->text, sizeof error->text,
                     "%s: %.200s has no %s, so it is another version: %s%s%s", what->title,
                     sc_dynlib_path(library), what->symbols[i].name, what->remedy, separator(what),
                     variable_of(what));
            sc_dynlib_close(what, out);
            return false;
        }
        set_pointer(out, what->symbols[i].at, symbol);
    }
    return true;
}

void sc_dynlib_close(const sc_dynlib *what, void *out)
{
    void *library;
    memcpy(&library, out, sizeof library);
    if (library != NULL)
        dlclose(library);
    for (size_t i = 0; i < what->symbol_count; i++)
        set_pointer(out, what->symbols[i].at, NULL);
    set_pointer(out, 0, NULL);
}

const char *sc_dynlib_path(void *library)
{
    struct link_map *map = NULL;
    return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != NULL && map->l_name != NULL
               ? map->l_name
               : "";
}
