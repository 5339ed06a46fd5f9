/* Selects a checkpoint, reads its two JSON files, and compares it with the program. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/drive/state_reader.h"
#include "runtime/drive/train_state.h"

static const char *inside(sc_context *context, const char *folder, const char *name)
{
    return sc_arena_printf(&context->arena, "%s/%s", folder, name);
}

/* ---- selecting the checkpoint ---- */

/* After an error: names another checkpoint of the folder that is complete. */
static void note_whole(sc_context *context, const char *folder, const char *refused)
{
    sc_state_entries entries = {0};
    if (!sc_state_list(context, folder, &entries))
        return;
    for (uint32_t i = 0; i < entries.count && entries.data[i].wrong == NULL; i++) {
        const sc_state_entry *entry = &entries.data[i];
        if ((refused != NULL && strcmp(entry->path, refused) == 0) ||
            !sc_saved_files_are_whole(context, entry->path, &entry->index))
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
        sc_state_refuse(context, inside(context, folder, SC_STATE_LATEST), wrong);
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
    sc_state_refuse(context, path, "it has no state of a training run");
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
    sc_state_refuse(context, which, wrong);
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
                   "plan, mesh and precision may change, the program, its sizes and optimizers may "
                   "not; --save and --weights carry parameters over");
    return false;
}

void sc_saved_state_note_whole(sc_context *context, const sc_saved_state *refused)
{
    note_whole(context, folder_of(context, refused->path), refused->path);
}
