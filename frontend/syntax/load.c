/* Loads files and their imports. Each file is read once, identified by its canonical path. A file
 * that is met again while its own imports are being read closes a cycle. An import that no file has
 * is looked up in the model library. */
#define _XOPEN_SOURCE 700 /* for realpath */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/syntax/library.h"
#include "frontend/syntax/parser_state.h"
#include "support/hash.h"

typedef struct loaded_file {
    sc_file *file;
    bool loading;
    sc_loc import; /* location of its first import */
} loaded_file;

typedef struct sc_importer {
    sc_context *context;
    sc_map by_path; /* symbol of the canonical path -> index into files */
    SC_VEC(loaded_file) files;
    uint32_t depth;
} sc_importer;

typedef struct file_text {
    char *bytes;
    size_t length;
    int error; /* errno, or 0 */
} file_text;

/* Reads an open file into `bytes`. Allocates nothing, because an out-of-memory jump would skip
 * closing the file. Waits for a pipe as long as it has a writer. */
static file_text read_open_file(int descriptor, char *bytes, size_t room)
{
    file_text text = {.bytes = bytes};
    while (text.length < room) {
        ssize_t got = read(descriptor, bytes + text.length, room - text.length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN &&
            poll(&(struct pollfd){.fd = descriptor, .events = POLLIN}, 1, -1) >= 0)
            continue;
        if (got < 0)
            text.error = errno;
        if (got <= 0)
            break;
        text.length += (size_t)got;
    }
    return text;
}

/* Reads a file, up to one byte more than the maximum size. A file that is not regular, such as a
 * pipe, has no known size and gets the maximum buffer (the arena's zeroed pages cost nothing until
 * written). Only the file given on the command line may be irregular; imports may not, so an import
 * never blocks on a pipe without a writer. */
static file_text read_file(sc_context *context, const char *path, bool is_import)
{
    enum { MOST = SC_MAX_FILE_SIZE + 1 };
    struct stat status;
    if (stat(path, &status) != 0)
        return (file_text){.error = errno};
    if (is_import && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        return (file_text){.error = ESPIPE};
    size_t room = S_ISREG(status.st_mode) && status.st_size < MOST ? (size_t)status.st_size : MOST;
    char *bytes = sc_arena_alloc(&context->arena, room);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return (file_text){.error = errno};
    file_text text = read_open_file(descriptor, bytes, room);
    if (S_ISFIFO(status.st_mode) && text.error == 0 && text.length == 0)
        text.error = ENODATA;
    close(descriptor);
    return text;
}

static const char *error_text(sc_context *context, int error)
{
    char buffer[128] = "unknown error";
    if (error == ESPIPE)
        return "it is not a regular file";
    strerror_r(error, buffer, sizeof buffer);
    return sc_arena_copy_text(&context->arena, buffer, strlen(buffer));
}

/* Resolves an import relative to the directory of the importing file. */
static const char *resolve(sc_context *context, const char *importer, const char *import)
{
    const char *slash = strrchr(importer, '/');
    if (slash == NULL || import[0] == '/')
        return import;
    return sc_arena_printf(&context->arena, "%.*s/%s", (int)(slash - importer), importer, import);
}

static void report_unreadable(sc_context *context, const char *path, int error, sc_loc import)
{
    sc_diag_id id = import.begin == 0 ? SC_D_cannot_read : SC_D_import_not_found;
    sc_report(&context->diag, id, import, path, error_text(context, error), NULL);
}

static const sc_library_file *find_in_library(const char *name)
{
    for (const sc_library_file *file = sc_library_files; file->name != NULL; file++) {
        if (strcmp(file->name, name) == 0)
            return file;
    }
    return NULL;
}

static sc_file *read_and_parse(sc_context *context, const char *path, sc_loc import)
{
    file_text text = read_file(context, path, import.begin != 0);
    if (text.error == 0)
        return sc_parse_text(context, path, text.bytes, text.length);
    report_unreadable(context, path, text.error, import);
    return NULL;
}

sc_file *sc_parse_file(sc_context *context, const char *path)
{
    return read_and_parse(context, path, (sc_loc){0});
}

/* Finds the canonical path. Pipes have none: /dev/stdin may not resolve to a path. */
static bool canonical_path(const char *path, char canonical[PATH_MAX])
{
    struct stat status;
    if (realpath(path, canonical) != NULL)
        return true;
    int error = errno;
    size_t length = strlen(path);
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode) &&
        length < PATH_MAX) {
        memcpy(canonical, path, length + 1);
        return true;
    }
    errno = error;
    return false;
}

/* Reports the import cycle: the files between the two occurrences of one file, outermost first. */
static void report_cycle(sc_importer *importer, uint32_t index, const char *path, sc_loc import)
{
    sc_diag *diag = &importer->context->diag;
    sc_report(diag, SC_D_import_cycle, import, path, NULL);
    for (uint32_t i = index + 1; i < importer->files.count; i++) {
        if (importer->files.data[i].loading)
            sc_report_note(diag, importer->files.data[i].import, "'%s' is imported here",
                           importer->files.data[i].file->source->name);
    }
}

static sc_file *load_import(sc_importer *importer, const sc_file *file, const sc_item *item);

static void load_imports(sc_importer *importer, sc_file *file)
{
    sc_context *context = importer->context;
    if (++importer->depth > SC_MAX_DEPTH) {
        sc_report(&context->diag, SC_D_imports_too_deep, file->lang_loc,
                  sc_arena_printf(&context->arena, "%d", SC_MAX_DEPTH), NULL);
    } else {
        for (uint32_t i = 0; i < file->items.count; i++) {
            sc_item *item = file->items.data[i];
            if (item->kind == SC_ITEM_IMPORT)
                item->import.file = load_import(importer, file, item);
        }
    }
    importer->depth--;
}

/* Loads the file of this name and its imports, unless they are already; `library` is its text if
 * it is one of the library's, else NULL. */
static sc_file *load_once(sc_importer *importer, const char *canonical, const char *path,
                          const sc_library_file *library, sc_loc import)
{
    sc_context *context = importer->context;
    bool is_new;
    uint32_t index = *sc_map_insert(&importer->by_path, sc_intern_text(&context->names, canonical),
                                    importer->files.count, &is_new);
    if (!is_new) {
        if (importer->files.data[index].loading)
            report_cycle(importer, index, path, import);
        return importer->files.data[index].file;
    }
    *sc_vec_push(&context->arena, &importer->files) =
        (loaded_file){.loading = true, .import = import};
    sc_file *file = library != NULL ? sc_parse_text(context, library->name, library->text,
                                                    strlen(library->text))
                                    : read_and_parse(context, path, import);
    importer->files.data[index].file = file;
    if (file != NULL)
        load_imports(importer, file);
    importer->files.data[index].loading = false;
    return file;
}

static sc_file *load(sc_importer *importer, const char *path, sc_loc import)
{
    char canonical[PATH_MAX];
    if (canonical_path(path, canonical))
        return load_once(importer, canonical, path, NULL, import);
    report_unreadable(importer->context, path, errno, import);
    return NULL;
}

static sc_file *load_import(sc_importer *importer, const sc_file *file, const sc_item *item)
{
    sc_context *context = importer->context;
    const char *spelled = sc_text(context, item->import.path),
               *path = resolve(context, file->source->name, spelled);
    const sc_library_file *library = find_in_library(spelled);
    struct stat status;
    if (library != NULL && stat(path, &status) != 0)
        return load_once(importer, library->name, library->name, library, item->loc);
    return load(importer, path, item->loc);
}

sc_file *sc_load_text(sc_context *context, const char *name, const char *text, size_t length)
{
    sc_importer importer = {.context = context, .by_path = {.arena = &context->arena}};
    sc_file *file = sc_parse_text(context, name, text, length);
    if (file != NULL)
        load_imports(&importer, file);
    return file;
}

sc_file *sc_load_file(sc_context *context, const char *path, const char *more)
{
    sc_importer importer = {.context = context, .by_path = {.arena = &context->arena}};
    sc_file *file = load(&importer, path, (sc_loc){0});
    sc_file *added = more == NULL || file == NULL ? NULL : load(&importer, more, (sc_loc){0});
    if (more != NULL && added == NULL)
        return NULL;
    if (added != NULL && added != file) { /* as if the file imported it */
        sc_item *item = sc_arena_alloc(&context->arena, sizeof *item);
        *item = (sc_item){.kind = SC_ITEM_IMPORT, .loc = added->lang_loc};
        item->import.file = added;
        *sc_vec_push(&context->arena, &file->items) = item;
    }
    return file;
}
