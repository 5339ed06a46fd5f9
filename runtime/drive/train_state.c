#include "runtime/drive/train_state.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/safetensors.h"
#include "support/hash.h"
#include "support/json.h"
#include "support/strbuf.h"

enum { VERSION = 1 };

static const char counts_name[] = "state.json", values_name[] = "state.safetensors", program_name[] = "program.txt";

static bool report(sc_context *context, sc_diag_id id, const char *path, const char *reason)
{
    if (id == SC_D_bad_data)
        sc_report(&context->diag, id, (sc_loc){0}, sc_arena_printf(&context->arena, "%s: %s", path, reason), NULL);
    else
        sc_report(&context->diag, id, (sc_loc){0}, path, reason, NULL);
    return false;
}

/* ---- paths ---- */

static const char *without_slash(sc_context *context, const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    return sc_arena_copy_text(&context->arena, path, length);
}

static const char *inside(sc_context *context, const char *folder, const char *name)
{
    return sc_arena_printf(&context->arena, "%s/%s", folder, name);
}

bool sc_check_writable(sc_context *context, const char *path)
{
    const char *plain = without_slash(context, path), *slash = strrchr(plain, '/');
    const char *folder = slash == NULL ? "." : slash == plain ? "/" : sc_arena_copy_text(&context->arena, plain, (size_t)(slash - plain));
    return access(folder, W_OK) == 0 || report(context, SC_D_cannot_write, path, strerror(errno));
}

bool sc_train_state_check(sc_context *context, const char *given)
{
    const char *folder = without_slash(context, given);
    if (!sc_check_writable(context, folder))
        return false;
    if (access(folder, F_OK) != 0 || access(inside(context, folder, counts_name), F_OK) == 0)
        return true;
    report(context, SC_D_cannot_write, folder, "it exists and holds no state of a training run");
    sc_report_note(&context->diag, (sc_loc){0}, "--state makes a folder of its own; choose a name that is free");
    return false;
}

/* Only what a state consists of: a folder with anything else in it stays. */
static void remove_state(sc_context *context, const char *folder)
{
    (void)unlink(inside(context, folder, counts_name));
    (void)unlink(inside(context, folder, values_name));
    (void)unlink(inside(context, folder, program_name));
    (void)rmdir(folder);
}

/* ---- files ---- */

static bool write_text(sc_context *context, const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    bool ok = file != NULL && fputs(text, file) >= 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    int reason = errno;
    if (file != NULL && fclose(file) != 0 && ok) {
        reason = errno;
        ok = false;
    }
    return ok || report(context, SC_D_cannot_write, path, strerror(reason));
}

static const char *read_text(sc_context *context, const char *path)
{
    sc_strbuf text;
    char part[4096];
    size_t length;
    FILE *file = fopen(path, "r");
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf_add(&text, "");
    if (file == NULL) {
        report(context, SC_D_cannot_read, path, strerror(errno));
        return NULL;
    }
    while ((length = fread(part, 1, sizeof part, file)) > 0)
        sc_strbuf_add_bytes(&text, part, length);
    fclose(file);
    return text.data;
}

static const char *program_hash(sc_context *context, const char *program)
{
    return sc_arena_printf(&context->arena, "%016" PRIx64, sc_fnv1a64(program, strlen(program)));
}

/* ---- writing ---- */

static bool write_counts(sc_context *context, const char *path, const sc_train_state *state)
{
    json_t *root = json_pack("{s:i, s:s, s:I, s:I, s:{s:I, s:I, s:I, s:I}}", "version", VERSION, "program",
                             program_hash(context, state->program), "steps", (json_int_t)state->steps, "seed", (json_int_t)state->seed,
                             "data", "tokens", (json_int_t)state->tokens, "row_length", (json_int_t)state->row_length, "rows",
                             (json_int_t)state->rows, "next_row", (json_int_t)(state->steps * state->rows));
    char *text = sc_json_write(root, JSON_INDENT(1));
    bool ok = text != NULL && write_text(context, path, sc_arena_printf(&context->arena, "%s\n", text));
    free(text);
    json_decref(root);
    return ok;
}

static bool write_values(sc_context *context, const char *path, const sc_trainer *trainer)
{
    sc_arena *arena = &context->arena;
    sc_safetensors_error error = {0};
    uint32_t count = sc_trainer_state_count(trainer);
    sc_array *arrays = sc_arena_array(arena, count + 1u, sizeof *arrays);
    sc_safetensors_item *items = sc_arena_array(arena, count + 1u, sizeof *items);
    bool ok = true;
    for (uint32_t i = 0; ok && i < count; i++) {
        arrays[i] = sc_trainer_get_state(trainer, i);
        uint64_t *shape = sc_arena_array(arena, arrays[i].rank + 1u, sizeof *shape);
        for (uint32_t d = 0; d < arrays[i].rank; d++)
            shape[d] = (uint64_t)arrays[i].sizes[d];
        items[i] = (sc_safetensors_item){.name = sc_trainer_state_name(trainer, i),
                                         .element = SC_ELEMENT_F64,
                                         .rank = arrays[i].rank,
                                         .shape = shape,
                                         .raw = arrays[i].data};
        ok = arrays[i].data != NULL;
    }
    if (ok && sc_trainer_writes(trainer) && !sc_safetensors_write(path, items, count, NULL, 0, &error))
        ok = report(context, SC_D_cannot_write, path, sc_arena_copy_text(arena, error.text, strcspn(error.text, "\n")));
    for (uint32_t i = 0; i < count; i++)
        sc_array_free(&arrays[i]);
    return ok;
}

/* A folder cannot be renamed over one that is not empty, so the old one steps aside first. */
static bool move_into_place(sc_context *context, const char *made, const char *folder)
{
    const char *old = sc_arena_printf(&context->arena, "%s.old", folder);
    remove_state(context, old);
    bool had_one = rename(folder, old) == 0;
    if (rename(made, folder) != 0) {
        int reason = errno;
        if (had_one)
            (void)rename(old, folder);
        return report(context, SC_D_cannot_write, folder, strerror(reason));
    }
    remove_state(context, old);
    return true;
}

bool sc_train_state_write(sc_context *context, const char *given, const sc_train_state *state, const sc_trainer *trainer)
{
    const char *folder = without_slash(context, given), *made = sc_arena_printf(&context->arena, "%s.tmp", folder);
    if (!sc_trainer_writes(trainer))
        return write_values(context, inside(context, made, values_name), trainer);
    remove_state(context, made);
    if (mkdir(made, 0777) != 0)
        return report(context, SC_D_cannot_write, made, strerror(errno));
    if (write_counts(context, inside(context, made, counts_name), state) &&
        write_text(context, inside(context, made, program_name), state->program) &&
        write_values(context, inside(context, made, values_name), trainer) && move_into_place(context, made, folder))
        return true;
    remove_state(context, made);
    return false;
}

/* ---- reading ---- */

static bool unpack(sc_context *context, const char *path, json_t *root, sc_train_state *out)
{
    json_int_t version = 0, steps = 0, seed = 0, tokens = 0, row_length = 0, rows = 0;
    const char *hash = "";
    bool known = json_unpack(root, "{s:I}", "version", &version) == 0;
    if (known && version != VERSION)
        return report(
            context, SC_D_bad_data, path,
            sc_arena_printf(&context->arena, "it is of version %lld, and this program reads version %d", (long long)version, VERSION));
    if (!known || json_unpack(root, "{s:s, s:I, s:I, s:{s:I, s:I, s:I}}", "program", &hash, "steps", &steps, "seed", &seed, "data",
                              "tokens", &tokens, "row_length", &row_length, "rows", &rows) != 0)
        return report(context, SC_D_bad_data, path, "it is no state of a training run");
    if (strcmp(hash, program_hash(context, out->program)) != 0)
        return report(context, SC_D_bad_data, path, "its hash is not that of the program beside it; the state is damaged");
    out->steps = (uint64_t)steps;
    out->seed = (uint64_t)seed;
    out->tokens = (uint64_t)tokens;
    out->row_length = (uint64_t)row_length;
    out->rows = (uint64_t)rows;
    return true;
}

bool sc_train_state_read(sc_context *context, const char *given, sc_train_state *out)
{
    const char *folder = without_slash(context, given), *path = inside(context, folder, counts_name);
    *out = (sc_train_state){0};
    const char *counts = read_text(context, path);
    if (counts == NULL) {
        if (access(inside(context, sc_arena_printf(&context->arena, "%s.old", folder), counts_name), F_OK) == 0)
            sc_report_note(&context->diag, (sc_loc){0}, "%s.old is the state before it: writing the last one was cut short", folder);
        return false;
    }
    out->program = read_text(context, inside(context, folder, program_name));
    if (out->program == NULL)
        return false;
    json_error_t error;
    json_t *root = sc_json_read(counts, strlen(counts), 0, &error);
    bool ok = root == NULL ? report(context, SC_D_bad_data, path, error.text) : unpack(context, path, root, out);
    json_decref(root);
    return ok;
}

/* ---- going on ---- */

/* The line that `text` begins, without the blanks at its ends. */
static const char *line_text(sc_context *context, const char *text)
{
    size_t length = strcspn(text, "\n");
    for (; *text == ' '; length--)
        text++;
    return length == 0 ? "nothing" : sc_arena_copy_text(&context->arena, text, length);
}

bool sc_train_state_fits(sc_context *context, const char *given, const sc_train_state *saved, const char *program)
{
    if (strcmp(saved->program, program) == 0)
        return true;
    const char *a = saved->program, *b = program;
    for (const char *p = a, *q = b; *p != 0 && *p == *q; p++, q++) {
        if (*p == '\n') {
            a = p + 1;
            b = q + 1;
        }
    }
    sc_report(&context->diag, SC_D_bad_data, (sc_loc){0},
              sc_arena_printf(&context->arena, "%s is the state of another program: it has '%s', and this one '%s'",
                              without_slash(context, given), line_text(context, a), line_text(context, b)),
              NULL);
    sc_report_note(
        &context->diag, (sc_loc){0},
        "plan and mesh may change, the program, its sizes, precision and optimizers may not; --save and --weights carry parameters over");
    return false;
}

static bool restore_one(sc_context *context, const char *folder, const sc_safetensors *file, sc_trainer *trainer, uint32_t index)
{
    const char *name = sc_trainer_state_name(trainer, index);
    const sc_safetensor *tensor = sc_safetensors_find(file, name);
    int64_t sizes[SC_ARRAY_MAX_RANK];
    if (tensor == NULL)
        return report(context, SC_D_bad_data, folder, sc_arena_printf(&context->arena, "it has no '%s', which this program needs", name));
    bool fits = tensor->element == SC_ELEMENT_F64 && tensor->rank <= SC_ARRAY_MAX_RANK;
    for (uint32_t d = 0; fits && d < tensor->rank; d++)
        sizes[d] = (int64_t)tensor->shape[d];
    sc_array array = fits ? sc_array_new(tensor->rank, sizes) : (sc_array){0};
    if (array.data != NULL)
        memcpy(array.data, tensor->data, tensor->bytes);
    bool ok = array.data != NULL && sc_trainer_set_state(trainer, index, &array);
    sc_array_free(&array);
    return ok || report(context, SC_D_bad_data, folder,
                        sc_arena_printf(&context->arena, "'%s' is not of this program's shape, or there is not enough memory", name));
}

static bool has_no_more(sc_context *context, const char *folder, const sc_safetensors *file, const sc_trainer *trainer)
{
    sc_map known = {.arena = &context->arena};
    for (uint32_t i = 0; i < sc_trainer_state_count(trainer); i++)
        sc_map_insert(&known, sc_intern_text(&context->names, sc_trainer_state_name(trainer, i)), 0, NULL);
    for (size_t i = 0; i < sc_safetensors_count(file); i++) {
        const char *name = sc_safetensors_at(file, i)->name;
        if (sc_map_find(&known, sc_intern_text(&context->names, name)) == NULL)
            return report(context, SC_D_bad_data, folder, sc_arena_printf(&context->arena, "it has '%s', which this program lacks", name));
    }
    return true;
}

bool sc_train_state_restore(sc_context *context, const char *given, const sc_train_state *saved, sc_trainer *trainer)
{
    const char *folder = without_slash(context, given);
    sc_safetensors_error error = {0};
    sc_safetensors *file = sc_safetensors_open(inside(context, folder, values_name), &error);
    if (file == NULL)
        return report(context, SC_D_bad_data, folder, sc_arena_copy_text(&context->arena, error.text, strcspn(error.text, "\n")));
    bool ok = has_no_more(context, folder, file, trainer);
    for (uint32_t i = 0; ok && i < sc_trainer_state_count(trainer); i++)
        ok = restore_one(context, folder, file, trainer, i);
    sc_safetensors_close(file);
    if (ok)
        sc_trainer_set_steps(trainer, saved->steps);
    return ok;
}
