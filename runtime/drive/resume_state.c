/* Resumes a run: selects the checkpoint, checks it, and loads its values into the ranks' shards,
 * whatever mesh they were written on. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/drive/train_state.h"
#include "runtime/files/rows.h"
#include "runtime/session/shard.h"
#include "support/checksum.h"

static bool refuse(sc_context *context, const char *path, const char *reason)
{
    sc_report(&context->diag, SC_D_bad_state, (sc_loc){0}, path, reason, NULL);
    return false;
}

static const char *inside(sc_context *context, const char *folder, const char *name)
{
    return sc_arena_printf(&context->arena, "%s/%s", folder, name);
}

/* ---- checking files ---- */

enum { BLOCK = 1 << 20 };

/* Reads bytes at offset `at`. False: errno, or 0 at the end of the file. */
static bool read_at(int file, void *to, size_t length, uint64_t at)
{
    for (char *next = to; length > 0;) {
        errno = 0;
        ssize_t got = pread(file, next, length, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        next += got;
        at += (uint64_t)got;
        length -= (size_t)got;
    }
    return true;
}

static int open_file(const char *path, uint64_t bytes, const char **wrong, sc_arena *arena)
{
    struct stat about;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    *wrong = NULL;
    if (file < 0 || fstat(file, &about) != 0)
        *wrong = sc_arena_printf(arena, "%s", strerror(errno));
    else if (!S_ISREG(about.st_mode))
        *wrong = "it is not a regular file";
    else if ((uint64_t)about.st_size != bytes)
        *wrong = sc_arena_printf(arena, "it has %lld bytes, and its index says %" PRIu64,
                                 (long long)about.st_size, bytes);
    return file;
}

/* Explains a wrong checksum: the file may begin with another checkpoint's id. */
static const char *mismatch(int file, const char *id)
{
    char begin[sizeof SC_STATE_SHARDS_BEGIN + SC_STATE_ID];
    size_t length = strlen(SC_STATE_SHARDS_BEGIN);
    bool is_shards = read_at(file, begin, length + SC_STATE_ID, SC_STATE_SHARDS_AT) &&
                     memcmp(begin, SC_STATE_SHARDS_BEGIN, length) == 0;
    if (is_shards && memcmp(begin + length, id, SC_STATE_ID) != 0)
        return "it belongs to another state than its index";
    return "its checksum is wrong: it is damaged";
}

/* Checks a file. NULL, or what is wrong with it. */
static const char *check_file(sc_arena *arena, const char *path, const sc_saved_file *about,
                              const char *id, void *block)
{
    const char *wrong;
    sc_checksum sum;
    int file = open_file(path, about->bytes, &wrong, arena);
    sc_checksum_begin(&sum);
    for (uint64_t at = 0; at < about->bytes; at += BLOCK) {
        if (wrong != NULL)
            break;
        size_t length = about->bytes - at < BLOCK ? (size_t)(about->bytes - at) : BLOCK;
        if (read_at(file, block, length, at))
            sc_checksum_add(&sum, block, length);
        else
            wrong = errno == 0 ? "it is truncated" : sc_arena_printf(arena, "%s", strerror(errno));
    }
    if (wrong == NULL && sc_checksum_value(&sum) != about->sum)
        wrong = mismatch(file, id);
    if (file >= 0)
        close(file);
    return wrong;
}

/* Checks the files of this process's share, number `part` of `of`. *which: the first file that is
 * wrong. */
static const char *check_files(sc_context *context, const char *folder, const sc_saved_index *index,
                               uint32_t part, uint32_t of, const char **which)
{
    const char *wrong = NULL;
    void *block = malloc(BLOCK);
    *which = folder;
    if (block == NULL)
        return "there is not enough memory to check it";
    for (uint32_t i = part; i < index->files.count; i += of) {
        if (wrong != NULL)
            break;
        *which = inside(context, folder, index->files.data[i].name);
        wrong = check_file(&context->arena, *which, &index->files.data[i], index->id, block);
    }
    free(block);
    return wrong;
}

/* ---- selecting the checkpoint ---- */

/* After an error: names another checkpoint of the folder that is complete. */
static void note_whole(sc_context *context, const char *folder, const char *refused)
{
    sc_state_entries entries = {0};
    const char *which;
    if (!sc_state_list(context, folder, &entries))
        return;
    for (uint32_t i = 0; i < entries.count && entries.data[i].wrong == NULL; i++) {
        const sc_state_entry *entry = &entries.data[i];
        if ((refused != NULL && strcmp(entry->path, refused) == 0) ||
            check_files(context, entry->path, &entry->index, 0, 1, &which) != NULL)
            continue;
        sc_report_note(&context->diag, (sc_loc){0},
                       "the state of step %" PRIu64 " is intact: --resume %s continues from it",
                       entry->index.step, entry->path);
        return;
    }
    sc_report_note(&context->diag, (sc_loc){0}, "%s has no other intact state", folder);
}

/* Returns the folder of checkpoints that contains this one. */
static const char *folder_of(sc_context *context, const char *state)
{
    const char *slash = strrchr(state, '/');
    return slash == NULL    ? "."
           : slash == state ? "/"
                            : sc_arena_copy_text(&context->arena, state, (size_t)(slash - state));
}

static const char *choose_entry(sc_context *context, const char *folder,
                                const sc_state_entries *entries)
{
    const char *wrong, *latest = sc_state_latest(&context->arena, folder, &wrong);
    const sc_state_entry *newest = &entries->data[0], *named = NULL;
    if (latest != NULL) {
        for (uint32_t i = 0; i < entries->count; i++)
            named = strcmp(entries->data[i].name, latest) == 0 ? &entries->data[i] : named;
    }
    if (latest != NULL && named == NULL)
        wrong = sc_arena_printf(&context->arena, "it names %s, which is not there", latest);
    if (wrong != NULL) {
        refuse(context, inside(context, folder, SC_STATE_LATEST), wrong);
        note_whole(context, folder, NULL);
        return NULL;
    }
    if (named != NULL && named->wrong != NULL)
        return named->path; /* its index is rejected later, by name */
    if (named != NULL && named != newest)
        sc_report(&context->diag, SC_D_newer_state, (sc_loc){0},
                  inside(context, folder, SC_STATE_LATEST), latest, newest->name, NULL);
    return newest->path;
}

static const char *choose_state(sc_context *context, const char *path)
{
    sc_state_entries entries = {0};
    if (access(inside(context, path, SC_STATE_INDEX_NAME), F_OK) == 0)
        return path;
    if (!sc_state_list(context, path, &entries)) {
        sc_report(&context->diag, SC_D_cannot_read, (sc_loc){0}, path, strerror(errno), NULL);
        return NULL;
    }
    if (entries.count > 0)
        return choose_entry(context, path, &entries);
    refuse(context, path, "it has no state of a training run");
    if (access(inside(context, path, "state.safetensors"), F_OK) == 0)
        sc_report_note(&context->diag, (sc_loc){0},
                       "it was written by an earlier version, whose states this one does not read");
    return NULL;
}

static const char *read_parts(sc_context *context, sc_saved_state *out, const char **which)
{
    const char *wrong, *slash = strrchr(out->path, '/'),
                       *name = slash == NULL ? out->path : slash + 1;
    *which = inside(context, out->path, SC_STATE_INDEX_NAME);
    if ((wrong = sc_state_index_read(context, *which, &out->index)) != NULL)
        return wrong;
    if (strncmp(name, "step-", 5) == 0 &&
        strcmp(name, sc_state_step_name(&context->arena, out->index.step)) != 0)
        return sc_arena_printf(&context->arena, "it is that of step %" PRIu64, out->index.step);
    *which = inside(context, out->path, SC_STATE_COUNTS_NAME);
    if ((wrong = sc_state_counts_read(context, *which, &out->counts)) != NULL)
        return wrong;
    if (strcmp(out->counts.id, out->index.id) != 0 || out->counts.steps != out->index.step)
        return sc_arena_printf(&context->arena,
                               "it belongs to another state than its index: it is of step %" PRIu64
                               ", that of step %" PRIu64,
                               out->counts.steps, out->index.step);
    return NULL;
}

bool sc_saved_state_read(sc_context *context, const char *given, sc_saved_state *out)
{
    size_t length = strlen(given);
    const char *which;
    while (length > 1 && given[length - 1] == '/')
        length--;
    *out = (sc_saved_state){
        .path = choose_state(context, sc_arena_copy_text(&context->arena, given, length))};
    if (out->path == NULL)
        return false;
    const char *wrong = read_parts(context, out, &which);
    if (wrong == NULL)
        return true;
    refuse(context, which, wrong);
    note_whole(context, folder_of(context, out->path), out->path);
    return false;
}

/* ---- matching the program ---- */

/* Returns the first line of `text` without leading blanks; "nothing" if it is empty. */
static const char *line_text(sc_context *context, const char *text)
{
    size_t length = strcspn(text, "\n");
    for (; *text == ' '; length--)
        text++;
    return length == 0 ? "nothing" : sc_arena_copy_text(&context->arena, text, length);
}

bool sc_saved_state_fits(sc_context *context, const sc_saved_state *saved, const char *program)
{
    if (strcmp(saved->counts.program, program) == 0)
        return true;
    const char *a = saved->counts.program, *b = program;
    for (const char *p = a, *q = b; *p != 0 && *p == *q; p++, q++) {
        if (*p == '\n') {
            a = p + 1;
            b = q + 1;
        }
    }
    sc_report(&context->diag, SC_D_bad_data, (sc_loc){0},
              sc_arena_printf(&context->arena,
                              "%s is the state of another program: it has '%s', and this one '%s'",
                              saved->path, line_text(context, a), line_text(context, b)),
              NULL);
    sc_report_note(&context->diag, (sc_loc){0},
                   "plan and mesh may change, the program, its sizes, precision and optimizers may "
                   "not; --save and --weights carry parameters over");
    return false;
}

/* ---- values ---- */

/* A file read in blocks, because rows of a shard are often shorter. */
typedef struct block_file {
    uint32_t index; /* among the checkpoint's files; SC_NONE: none */
    int file;
    uint64_t data, size; /* where the tensors' data begin; size of the file */
    uint64_t at;         /* offset of the block */
    size_t held;
    char *block;
} block_file;

enum { OPEN_FILES = 16 };

typedef struct restoring {
    sc_context *context;
    const sc_saved_state *saved;
    sc_trainer *trainer;
    const sc_executor *executor;
    void *room;
    block_file files[OPEN_FILES]; /* cache of open files, by file number modulo OPEN_FILES */
} restoring;

static bool open_block_file(restoring *r, block_file *file, uint32_t index)
{
    const sc_saved_file *about = &r->saved->index.files.data[index];
    const char *wrong, *path = inside(r->context, r->saved->path, about->name);
    uint64_t header = 0;
    if (file->file >= 0)
        close(file->file);
    if (file->block == NULL)
        file->block = malloc(BLOCK);
    *file = (block_file){.index = index,
                         .block = file->block,
                         .file = open_file(path, about->bytes, &wrong, &r->context->arena)};
    if (wrong == NULL && file->block == NULL)
        wrong = "there is not enough memory to read it";
    if (wrong == NULL &&
        (!read_at(file->file, &header, sizeof header, 0) || header > about->bytes - sizeof header))
        wrong = "its header is wrong";
    file->data = sizeof header + header;
    file->size = about->bytes;
    return wrong == NULL || refuse(r->context, path, wrong);
}

static bool read_bytes(restoring *r, uint32_t index, uint64_t at, size_t length, void *to)
{
    block_file *file = &r->files[index % OPEN_FILES];
    if ((file->file < 0 || file->index != index) && !open_block_file(r, file, index))
        return false;
    at += file->data;
    bool ok = at <= file->size && length <= file->size - at;
    if (ok && length >= BLOCK) {
        ok = read_at(file->file, to, length, at);
    } else if (ok) {
        if (at < file->at || at + length > file->at + file->held) {
            file->held = file->size - at < BLOCK ? (size_t)(file->size - at) : BLOCK;
            file->at = at;
            ok = read_at(file->file, file->block, file->held, at);
        }
        if (ok)
            memcpy(to, file->block + (at - file->at), length);
    }
    return ok || refuse(r->context,
                        inside(r->context, r->saved->path, r->saved->index.files.data[index].name),
                        "it cannot be read again");
}

/* Reads the part of a saved shard that belongs to this rank's shard. */
static bool read_part(restoring *r, const sc_saved_shard *shard, const sc_shard_place *place,
                      size_t size, char *local)
{
    int64_t sizes[SHARDC_TENSOR_MAX_RANK], from[SHARDC_TENSOR_MAX_RANK], to[SHARDC_TENSOR_MAX_RANK];
    for (uint32_t d = 0; d < place->rank; d++) {
        int64_t first = shard->first[d] > place->first[d] ? shard->first[d] : place->first[d];
        int64_t shard_end = shard->first[d] + shard->sizes[d],
                end = place->first[d] + place->sizes[d];
        sizes[d] = (shard_end < end ? shard_end : end) - first;
        from[d] = first - shard->first[d];
        to[d] = first - place->first[d];
        if (sizes[d] <= 0)
            return true;
    }
    bool ok = true;
    sc_rows rows = sc_rows_begin(place->rank, sizes, (sc_rows_place){shard->sizes, from},
                                 (sc_rows_place){place->local, to});
    for (; !rows.is_done; sc_rows_next(&rows)) {
        if (!ok)
            break;
        ok = read_bytes(r, shard->file, shard->begin + (uint64_t)rows.a_at * size,
                        (size_t)rows.length * size, local + (size_t)rows.b_at * size);
    }
    return ok;
}

static bool restore_shard(restoring *r, uint32_t state, uint32_t rank,
                          const sc_saved_tensor *tensor)
{
    const sc_executor *executor = r->executor;
    shardc_error error = {.text = ""};
    sc_shard_place place;
    size_t size = sc_element_size(tensor->element);
    executor->verbs->place(executor->self, state, rank, &place);
    if (!place.is_held)
        return true;
    char *local = executor->verbs->shard_room(executor->self, state, rank, r->room);
    size_t bytes = size;
    for (uint32_t d = 0; d < place.rank; d++)
        bytes *= (size_t)place.local[d];
    memset(local, 0, bytes); /* clears the padding */
    for (uint32_t i = 0; i < tensor->shards.count; i++) {
        if (!read_part(r, &tensor->shards.data[i], &place, size, local))
            return false;
    }
    if (executor->verbs->write_shard(executor->self, state, rank, local, &error))
        return true;
    sc_report(&r->context->diag, SC_D_run_failed, (sc_loc){0},
              sc_arena_printf(&r->context->arena, "%s", error.text), NULL);
    return false;
}

static bool restore_tensor(restoring *r, uint32_t index)
{
    uint32_t state = sc_trainer_state(r->trainer, index);
    const shardc_tensor_info *info = &r->executor->states[state];
    const uint32_t *found =
        sc_map_find(&r->saved->index.by_name, sc_intern_text(&r->context->names, info->name));
    if (found == NULL)
        return refuse(r->context, r->saved->path,
                      sc_arena_printf(&r->context->arena,
                                      "it has no '%s', which this program needs", info->name));
    const sc_saved_tensor *tensor = &r->saved->index.tensors.data[*found];
    bool fits = tensor->rank == info->rank &&
                tensor->element == sc_element_of_dtype(sc_dtype_find(info->dtype));
    for (uint32_t d = 0; fits && d < info->rank; d++)
        fits = tensor->sizes[d] == info->dims[d].size;
    if (!fits)
        return refuse(r->context, r->saved->path,
                      sc_arena_printf(&r->context->arena,
                                      "'%s' is not of this program's shape or dtype", info->name));
    bool ok = true;
    for (uint32_t i = 0; i < r->executor->local_ranks; i++) {
        if (!ok)
            break;
        ok = restore_shard(r, state, r->executor->first_rank + i, tensor);
    }
    return ok;
}

static bool has_no_more(restoring *r)
{
    sc_map known = {.arena = &r->context->arena};
    for (uint32_t i = 0; i < sc_trainer_state_count(r->trainer); i++)
        sc_map_insert(&known,
                      sc_intern_text(&r->context->names, sc_trainer_state_name(r->trainer, i)), 0,
                      NULL);
    for (uint32_t i = 0; i < r->saved->index.tensors.count; i++) {
        const char *name = r->saved->index.tensors.data[i].name;
        if (sc_map_find(&known, sc_intern_text(&r->context->names, name)) == NULL)
            return refuse(
                r->context, r->saved->path,
                sc_arena_printf(&r->context->arena, "it has '%s', which this program lacks", name));
    }
    return true;
}

static bool restore_values(restoring *r)
{
    bool ok =
        r->executor->room_bytes == 0 || (r->room = malloc((size_t)r->executor->room_bytes)) != NULL;
    if (!ok)
        refuse(r->context, r->saved->path, "there is not enough memory for its largest shard");
    for (uint32_t i = 0; i < OPEN_FILES; i++)
        r->files[i] = (block_file){.file = -1};
    ok = ok && has_no_more(r);
    for (uint32_t i = 0; i < sc_trainer_state_count(r->trainer); i++) {
        if (!ok)
            break;
        ok = restore_tensor(r, i);
    }
    for (uint32_t i = 0; i < OPEN_FILES; i++) {
        if (r->files[i].file >= 0)
            close(r->files[i].file);
        free(r->files[i].block);
    }
    free(r->room);
    return ok;
}

/* ---- restoring ---- */

/* Checks that all processes resume from the same checkpoint, the first one's. */
static bool same_everywhere(restoring *r)
{
    int64_t id = (int64_t)sc_checksum_of(r->saved->index.id, SC_STATE_ID),
            first = r->executor->is_first ? id : 0;
    shardc_error error = {.text = ""};
    if (r->executor->verbs->sum == NULL)
        return true;
    if (!r->executor->verbs->sum(r->executor->self, &first, 1, "which state is resumed", &error))
        return refuse(r->context, r->saved->path,
                      sc_arena_printf(&r->context->arena, "%s", error.text));
    return first == id || refuse(r->context, r->saved->path, "rank 0 resumes from another state");
}

/* True if all processes succeeded. */
static bool agree(restoring *r, bool ok)
{
    int64_t failures = !ok;
    shardc_error error = {.text = ""};
    if (r->executor->verbs->sum == NULL)
        return ok;
    if (!r->executor->verbs->sum(r->executor->self, &failures, 1, "whether the state is whole",
                                 &error))
        return refuse(r->context, r->saved->path,
                      sc_arena_printf(&r->context->arena, "%s", error.text));
    return failures == 0 ||
           (ok && refuse(r->context, r->saved->path,
                         "another rank cannot resume from it: its message says why"));
}

/* Checks all files; the processes share the work. */
static bool is_whole(restoring *r)
{
    const sc_executor *executor = r->executor;
    const char *which, *wrong = check_files(r->context, r->saved->path, &r->saved->index,
                                            executor->first_rank / executor->local_ranks,
                                            executor->rank_count / executor->local_ranks, &which);
    if (wrong == NULL)
        return true;
    refuse(r->context, which, wrong);
    note_whole(r->context, folder_of(r->context, r->saved->path), r->saved->path);
    return false;
}

bool sc_saved_state_restore(sc_context *context, const sc_saved_state *saved, sc_trainer *trainer)
{
    restoring r = {.context = context,
                   .saved = saved,
                   .trainer = trainer,
                   .executor = sc_trainer_executor(trainer)};
    if (!agree(&r, same_everywhere(&r)) || !agree(&r, is_whole(&r)) ||
        !agree(&r, restore_values(&r)))
        return false;
    sc_trainer_set_steps(trainer, saved->counts.steps, saved->counts.skipped);
    return true;
}
