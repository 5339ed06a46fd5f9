/* Manages a folder of checkpoints: lock, atomic renames, recovery after a killed run, removal of
 * old checkpoints. */
#define _GNU_SOURCE /* renameat2 */
#include "runtime/drive/state_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/files/durable.h"

#define LOCK_NAME  "shardc.lock"
#define LOCK_BEGIN "shardc lock\n"
#define TMP_BEGIN  "tmp-"
#define STEP_BEGIN "step-"

enum { LONGEST = 4096 };

static bool report(sc_context *context, const char *path, int reason)
{
    sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0}, path, strerror(reason), NULL);
    return false;
}

/* ---- names ---- */

static const char *inside(sc_arena *arena, const char *folder, const char *name)
{
    return sc_arena_printf(arena, "%s/%s", folder, name);
}

/* Does not use the arena: memory allocated there while saving would only be freed at the end of the
 * run. */
static bool join(char out[LONGEST], const char *folder, const char *name)
{
    int length = snprintf(out, LONGEST, "%s/%s", folder, name);
    errno = ENAMETOOLONG;
    return length > 0 && length < LONGEST;
}

const char *sc_state_step_name(sc_arena *arena, uint64_t step)
{
    return sc_arena_printf(arena, STEP_BEGIN "%06" PRIu64, step);
}

static bool is_step_name(const char *name)
{
    size_t length = strlen(STEP_BEGIN);
    return strncmp(name, STEP_BEGIN, length) == 0 && strlen(name) >= length + 6 &&
           name[length + strspn(name + length, "0123456789")] == 0;
}

static bool is_tmp_name(const char *name)
{
    size_t length = strlen(TMP_BEGIN);
    return strncmp(name, TMP_BEGIN, length) == 0 && sc_is_id(name + length) &&
           name[length + SC_DURABLE_ID] == 0;
}

/* True if the file is part of a checkpoint, judged by its name and its first bytes. */
static bool is_file_of_state(const char *folder, const char *name)
{
    char path[LONGEST], same[64];
    static const char prefix[] = "rank-";
    if (!join(path, folder, name))
        return false;
    if (strcmp(name, SC_STATE_INDEX_NAME) == 0 || strcmp(name, SC_STATE_COUNTS_NAME) == 0)
        return sc_file_may_begin(path, 0, SC_STATE_JSON_BEGIN);
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    unsigned long rank = strtoul(name + sizeof prefix - 1, NULL, 10);
    snprintf(same, sizeof same, "%s%05lu.safetensors", prefix, rank);
    return strcmp(name, same) == 0 &&
           sc_file_may_begin(path, SC_STATE_SHARDS_AT, SC_STATE_SHARDS_BEGIN);
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* True for a folder, false for a link to one. */
static bool is_folder(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool sc_state_is_ours(const char *folder)
{
    DIR *stream = is_folder(folder) ? opendir(folder) : NULL;
    bool ours = true;
    if (stream == NULL)
        return false;
    for (struct dirent *entry; ours && (entry = readdir(stream)) != NULL;)
        ours = is_dot(entry->d_name) || is_file_of_state(folder, entry->d_name);
    closedir(stream);
    return ours;
}

/* Removes nothing if the folder contains anything else. */
static void remove_state(const char *folder)
{
    char path[LONGEST];
    DIR *stream = sc_state_is_ours(folder) ? opendir(folder) : NULL;
    if (stream == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        if (!is_dot(entry->d_name) && is_file_of_state(folder, entry->d_name) &&
            join(path, folder, entry->d_name))
            (void)unlink(path);
    }
    closedir(stream);
    (void)rmdir(folder);
}

/* ---- listing checkpoints ---- */

/* Most recently written first, then those whose index is invalid. */
static int compare_entries(const void *left, const void *right)
{
    const sc_state_entry *a = left, *b = right;
    if ((a->wrong == NULL) != (b->wrong == NULL))
        return a->wrong == NULL ? -1 : 1;
    if (a->wrong == NULL && a->index.save != b->index.save)
        return a->index.save > b->index.save ? -1 : 1;
    return strcmp(b->name, a->name);
}

bool sc_state_list(sc_context *context, const char *folder, sc_state_entries *out)
{
    DIR *stream = opendir(folder);
    if (stream == NULL)
        return false;
    *out = (sc_state_entries){0};
    for (struct dirent *found; (found = readdir(stream)) != NULL;) {
        const char *path = inside(&context->arena, folder, found->d_name);
        if (!is_step_name(found->d_name) || !is_folder(path))
            continue;
        sc_state_entry *entry = sc_vec_push(&context->arena, out);
        entry->name = path + strlen(folder) + 1;
        entry->path = path;
        entry->wrong = sc_state_index_read(
            context, inside(&context->arena, path, SC_STATE_INDEX_NAME), &entry->index);
        if (entry->wrong == NULL &&
            strcmp(entry->name, sc_state_step_name(&context->arena, entry->index.step)) != 0)
            entry->wrong =
                sc_arena_printf(&context->arena, "it is that of step %" PRIu64, entry->index.step);
    }
    closedir(stream);
    if (out->count > 1)
        qsort(out->data, out->count, sizeof *out->data, compare_entries);
    return true;
}

const char *sc_state_latest(sc_arena *arena, const char *folder, const char **wrong)
{
    char text[64] = "";
    const char *path = inside(arena, folder, SC_STATE_LATEST);
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *wrong = file < 0 && errno != ENOENT ? sc_arena_printf(arena, "%s", strerror(errno)) : NULL;
    if (file < 0)
        return NULL;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    char *end = got <= 0 ? NULL : memchr(text, '\n', (size_t)got);
    if (end != NULL && end[1] == 0 && end + 1 == text + got) {
        *end = 0;
        if (is_step_name(text))
            return sc_arena_copy_text(arena, text, strlen(text));
    }
    *wrong = "it names no state";
    return NULL;
}

/* ---- the lock ---- */

/* Returns the owner of the lock, from the file's second line. */
static const char *owner(sc_context *context, int lock)
{
    char text[512];
    ssize_t got = pread(lock, text, sizeof text - 1, 0);
    size_t begin = strlen(LOCK_BEGIN);
    text[got < 0 ? 0 : got] = 0;
    if (got <= (ssize_t)begin || memcmp(text, LOCK_BEGIN, begin) != 0)
        return "another run";
    return sc_arena_copy_text(&context->arena, text + begin, strcspn(text + begin, "\n"));
}

static bool write_owner(int lock, const char *token)
{
    char text[512], host[128] = "?", since[80] = "?";
    time_t now = time(NULL);
    struct tm parts;
    (void)gethostname(host, sizeof host - 1);
    if (gmtime_r(&now, &parts) != NULL)
        snprintf(since, sizeof since, "%04d-%02d-%02dT%02d:%02d:%02dZ", parts.tm_year + 1900,
                 parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
    int length = snprintf(text, sizeof text, LOCK_BEGIN "process %ld on %s, since %s\n%s\n",
                          (long)getpid(), host, since, token);
    return ftruncate(lock, 0) == 0 && pwrite(lock, text, (size_t)length, 0) == length &&
           fsync(lock) == 0;
}

static bool take_lock(sc_context *context, sc_state_folder *folder, const char *token)
{
    const char *path = inside(&context->arena, folder->path, LOCK_NAME);
    folder->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (folder->lock < 0)
        return report(context, path, errno);
    if (!sc_file_may_begin(path, 0, LOCK_BEGIN)) {
        sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0}, path,
                  "it is not a lock of a training run", NULL);
        return false;
    }
    int reason = flock(folder->lock, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (reason == EWOULDBLOCK) {
        sc_report(&context->diag, SC_D_state_in_use, (sc_loc){0}, folder->path,
                  owner(context, folder->lock), NULL);
        return false;
    }
    if (reason != 0)
        sc_report(&context->diag, SC_D_no_lock, (sc_loc){0}, path, strerror(reason), NULL);
    return write_owner(folder->lock, token) || report(context, path, errno);
}

bool sc_state_folder_has(const char *path, const char *token)
{
    char name[LONGEST], text[512];
    int file = join(name, path, LOCK_NAME)
                   ? open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                   : -1;
    ssize_t got = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[got < 0 ? 0 : got] = 0;
    return strstr(text, token) != NULL;
}

/* ---- atomic renames ---- */

/* Generates an unused name. */
static bool draw_name(char out[LONGEST], const char *folder)
{
    char name[sizeof TMP_BEGIN + SC_DURABLE_ID] = TMP_BEGIN;
    return sc_random_id(name + strlen(TMP_BEGIN)) && join(out, folder, name);
}

/* Renames the new folder to `path`. An existing checkpoint there is exchanged with it, atomically
 * if the system supports that, and then removed. */
static bool put_in_place(const char *folder, const char *made, const char *path)
{
    char aside[LONGEST];
    if (access(path, F_OK) != 0)
        return rename(made, path) == 0;
    errno = EEXIST;
    if (!sc_state_is_ours(path))
        return false;
    if (renameat2(AT_FDCWD, made, AT_FDCWD, path, RENAME_EXCHANGE) == 0) {
        remove_state(made);
        return true;
    }
    if (!draw_name(aside, folder) || rename(path, aside) != 0 || rename(made, path) != 0)
        return false;
    remove_state(aside);
    return true;
}

static bool write_latest(const char *folder, const char *name)
{
    char made[LONGEST], path[LONGEST];
    sc_durable file;
    if (!draw_name(made, folder) || !join(path, folder, SC_STATE_LATEST))
        return false;
    if (!sc_durable_create(&file, made)) {
        errno = file.reason;
        return false;
    }
    sc_durable_add(&file, name, strlen(name));
    sc_durable_add(&file, "\n", 1);
    bool ok = sc_durable_end(&file) && rename(made, path) == 0;
    if (!ok) {
        int reason = file.reason != 0 ? file.reason : errno;
        (void)unlink(made);
        errno = reason;
    }
    return ok;
}

/* ---- after a killed run ---- */

/* Publishes a leftover checkpoint if it is complete and its name is free; otherwise removes it. */
static void settle_leftover(sc_context *context, const char *folder, const char *path)
{
    sc_saved_index index;
    if (!is_folder(path)) {
        if (sc_file_may_begin(path, 0, STEP_BEGIN))
            (void)unlink(path);
        return;
    }
    if (sc_state_is_ours(path) &&
        sc_state_index_read(context, inside(&context->arena, path, SC_STATE_INDEX_NAME), &index) ==
            NULL) {
        const char *name =
            inside(&context->arena, folder, sc_state_step_name(&context->arena, index.step));
        if (access(name, F_OK) != 0 && rename(path, name) == 0)
            return;
    }
    remove_state(path);
}

static bool settle_leftovers(sc_context *context, const char *folder)
{
    SC_VEC(const char *) found = {0};
    DIR *stream = opendir(folder);
    if (stream == NULL)
        return report(context, folder, errno);
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        if (is_tmp_name(entry->d_name))
            *sc_vec_push(&context->arena, &found) = inside(&context->arena, folder, entry->d_name);
    }
    closedir(stream);
    for (uint32_t i = 0; i < found.count; i++)
        settle_leftover(context, folder, found.data[i]);
    return found.count == 0 || sc_sync_folder(folder) || report(context, folder, errno);
}

/* ---- creation and destruction ---- */

static bool create_folder(sc_context *context, const char *path)
{
    struct stat about;
    if (mkdir(path, 0777) == 0) {
        char *parent = sc_parent_folder(path);
        bool ok = parent != NULL && sc_sync_folder(parent);
        int reason = errno;
        free(parent);
        return ok || report(context, path, reason);
    }
    int reason = errno;
    if (reason == EEXIST && stat(path, &about) == 0)
        return S_ISDIR(about.st_mode) || report(context, path, ENOTDIR);
    return report(context, path, reason);
}

/* If a checkpoint is newer than the one in `latest`, its run was killed before updating `latest`;
 * does so now. */
static bool settle_latest(sc_context *context, sc_state_folder *folder)
{
    sc_state_entries entries = {0};
    const char *wrong, *latest = sc_state_latest(&context->arena, folder->path, &wrong);
    if (wrong != NULL) {
        sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0},
                  inside(&context->arena, folder->path, SC_STATE_LATEST), wrong, NULL);
        sc_report_note(
            &context->diag, (sc_loc){0},
            "the folder of --state has a file of this name; remove it, or choose another folder");
        return false;
    }
    if (!sc_state_list(context, folder->path, &entries))
        return report(context, folder->path, errno);
    folder->states = entries.count;
    if (entries.count == 0 || entries.data[0].wrong != NULL)
        return true;
    folder->save = entries.data[0].index.save + 1;
    return (latest != NULL && strcmp(latest, entries.data[0].name) == 0) ||
           write_latest(folder->path, entries.data[0].name) || report(context, folder->path, errno);
}

bool sc_state_folder_open(sc_context *context, const char *path, const char *token,
                          sc_state_folder *out)
{
    *out = (sc_state_folder){.path = path, .lock = -1};
    return create_folder(context, path) && take_lock(context, out, token) &&
           settle_leftovers(context, path) && settle_latest(context, out);
}

void sc_state_folder_close(sc_state_folder *folder)
{
    if (folder->lock >= 0)
        close(folder->lock);
    free(folder->made);
    *folder = (sc_state_folder){.lock = -1};
}

/* ---- one checkpoint ---- */

bool sc_state_folder_begin(sc_context *context, sc_state_folder *folder, const char *id)
{
    char path[LONGEST], name[sizeof TMP_BEGIN + SC_DURABLE_ID];
    snprintf(name, sizeof name, TMP_BEGIN "%.*s", SC_DURABLE_ID, id);
    bool ok = join(path, folder->path, name) && mkdir(path, 0777) == 0;
    if (ok) {
        folder->made = strdup(path);
        errno = ENOMEM;
    }
    return (ok && folder->made != NULL) || report(context, folder->path, errno);
}

void sc_state_folder_drop(sc_state_folder *folder)
{
    if (folder->made != NULL)
        remove_state(folder->made);
    free(folder->made);
    folder->made = NULL;
}

/* Renames first, so that no half-removed folder has a checkpoint's name. */
static void remove_entry(const sc_state_folder *folder, const sc_state_entry *entry)
{
    char aside[LONGEST];
    if (sc_state_is_ours(entry->path) && draw_name(aside, folder->path) &&
        rename(entry->path, aside) == 0)
        remove_state(aside);
}

static const sc_state_entry *find_best(const sc_state_entries *entries)
{
    const sc_state_entry *best = NULL;
    for (uint32_t i = 0; i < entries->count; i++) {
        const sc_state_entry *entry = &entries->data[i];
        if (entry->wrong == NULL && entry->index.has_held_out &&
            (best == NULL || entry->index.held_out < best->index.held_out))
            best = entry;
    }
    return best;
}

/* Damaged checkpoints are kept: their contents are unknown. */
static bool remove_older(sc_context *context, const sc_state_folder *folder, uint32_t keep,
                         bool best)
{
    sc_state_entries entries = {0};
    if (!sc_state_list(context, folder->path, &entries))
        return report(context, folder->path, errno);
    const sc_state_entry *spared = best ? find_best(&entries) : NULL;
    for (uint32_t i = keep; i < entries.count; i++) {
        if (entries.data[i].wrong == NULL && &entries.data[i] != spared)
            remove_entry(folder, &entries.data[i]);
    }
    return true;
}

bool sc_state_folder_publish(sc_context *context, sc_state_folder *folder, uint64_t step,
                             uint32_t keep, bool best)
{
    const char *name = sc_state_step_name(&context->arena, step),
               *path = inside(&context->arena, folder->path, name);
    if (!sc_sync_folder(folder->made) || !put_in_place(folder->path, folder->made, path) ||
        !sc_sync_folder(folder->path))
        return report(context, path, errno);
    free(folder->made);
    folder->made = NULL;
    folder->save++;
    if (!write_latest(folder->path, name) || !sc_sync_folder(folder->path))
        return report(context, inside(&context->arena, folder->path, SC_STATE_LATEST), errno);
    return remove_older(context, folder, keep, best);
}
