/* shardc data: writes the ids of texts as NAME.bin, and what it is as NAME.json. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data/paths.h"
#include "runtime/data/text.h"
#include "runtime/drive/json.h"
#include "runtime/files/tokens_about.h"
#include "support/file.h"
#include "support/json.h"
#include "tools/commands/commands.h"

typedef struct writing {
    sc_context *context;
    const sc_options *options;
    const char *path; /* of the ids */
    sc_text_list files;
    sc_encoder *encoder;
    sc_text_counts *counts, total;
} writing;

static bool fail(writing *w, sc_diag_id id, const char *what, const char *why)
{
    sc_report(&w->context->diag, id, (sc_loc){0}, what, why, NULL);
    return false;
}

/* ---- files ---- */

/* What is there of an earlier run is replaced, but no other file of that name. */
static bool check_output(writing *w)
{
    char error[512];
    sc_tokens_about about;
    size_t length = w->path == NULL ? 0 : strlen(w->path);
    if (length <= 4 || strcmp(w->path + length - 4, ".bin") != 0)
        return fail(w, SC_D_usage, "shardc data needs -o NAME.bin, where the ids are written",
                    NULL);
    char *path = sc_tokens_about_path(w->path);
    bool is_free = path != NULL && access(path, F_OK) != 0;
    bool ok =
        is_free || (sc_tokens_about_read(w->path, &about, error, sizeof error) && about.width != 0);
    if (!ok)
        fail(w, SC_D_cannot_write, sc_arena_printf(&w->context->arena, "%s", path),
             "another file is there, which shardc data did not write");
    free(path);
    return ok;
}

/* Files of ids would be taken for text; the file of an earlier run may be in the same folder. */
static bool list_files(writing *w)
{
    sc_arena *arena = &w->context->arena;
    sc_text_list texts = {0};
    sc_data_items items;
    *sc_vec_push(arena, &texts) = w->options->file;
    for (uint32_t i = 0; i < w->options->rest.count; i++)
        *sc_vec_push(arena, &texts) = w->options->rest.data[i];
    if (!sc_data_list(w->context, &texts, &items))
        return false;
    if (items.data[0].weight > 0)
        return fail(w, SC_D_usage, "shardc data takes no weights: they are for --data of train",
                    NULL);
    for (uint32_t i = 0; i < items.count; i++) {
        for (uint32_t f = 0; f < items.data[i].files.count; f++)
            *sc_vec_push(arena, &w->files) = items.data[i].files.data[f];
    }
    bool has_lines = false;
    for (uint32_t f = 0; f < w->files.count; f++) {
        sc_text_kind kind = sc_text_kind_of(w->files.data[f]);
        has_lines = has_lines || kind == SC_TEXT_LINES;
        if (kind == SC_TEXT_IDS)
            return fail(w, SC_D_usage,
                        sc_arena_printf(arena, "%s holds ids already: name only files of text",
                                        w->files.data[f]),
                        NULL);
    }
    if (w->options->run.field != NULL && !has_lines)
        return fail(w, SC_D_usage, "--field has no effect: no file is .jsonl", NULL);
    return true;
}

/* ---- results ---- */

static json_t *about_json(const writing *w)
{
    uint32_t eos;
    json_t *root = json_pack(
        "{s:s,s:I,s:I,s:I,s:I}", "dtype", sc_text_width(w->encoder) == 2 ? "u16" : "u32", "tokens",
        (json_int_t)w->total.tokens, "documents", (json_int_t)w->total.documents, "bytes",
        (json_int_t)w->total.bytes, "vocabulary", (json_int_t)sc_text_vocabulary(w->encoder));
    if (sc_text_eos(w->encoder, &eos))
        json_object_set_new(root, "eos", json_integer(eos));
    return root;
}

static bool write_about(writing *w)
{
    char *path = sc_tokens_about_path(w->path);
    json_t *root = about_json(w);
    char *text = sc_json_write(root, JSON_INDENT(1));
    const char *reason = "there is not enough memory";
    bool ok =
        path != NULL && text != NULL && sc_file_write(path, text, strlen(text), 0666, &reason);
    if (!ok)
        fail(w, SC_D_cannot_write, path == NULL ? w->path : path, reason);
    json_decref(root);
    free(text);
    free(path);
    return ok;
}

/* The ids appear whole or not at all, and what they are said to be before them: a reader of new ids
 * finds no older description. */
static bool write_ids(writing *w)
{
    sc_file_writing file;
    const char *reason = NULL;
    w->counts = sc_arena_array(&w->context->arena, w->files.count, sizeof *w->counts);
    if (!sc_file_begin(&file, w->path, 0666, &reason))
        return fail(w, SC_D_cannot_write, w->path, reason);
    if (!sc_text_encode(w->context, w->encoder, &w->files, file.file, w->path, w->counts)) {
        sc_file_drop(&file);
        return false;
    }
    for (uint32_t f = 0; f < w->files.count; f++) {
        w->total.bytes += w->counts[f].bytes;
        w->total.documents += w->counts[f].documents;
        w->total.tokens += w->counts[f].tokens;
    }
    if (w->total.tokens == 0 || !write_about(w)) {
        sc_file_drop(&file);
        return w->context->diag.errors == 0 &&
               fail(w, SC_D_bad_data, "the texts have no tokens, so nothing was written", NULL);
    }
    return sc_file_end(&file, &reason) || fail(w, SC_D_cannot_write, w->path, reason);
}

static void print(const writing *w, sc_strbuf *out)
{
    const sc_text_counts *total = &w->total;
    if (w->options->run.json) {
        json_t *root = about_json(w);
        json_object_set_new(root, "version", json_integer(1));
        json_object_set_new(root, "file", json_string(w->path));
        sc_print_json(root, out);
        return;
    }
    uint32_t listed = w->files.count > 1 ? w->files.count : 0;
    for (uint32_t f = 0; f < listed; f++)
        sc_strbuf_printf(out, "%s: %" PRIu64 " tokens\n", w->files.data[f], w->counts[f].tokens);
    sc_strbuf_printf(out,
                     "%s: %" PRIu64 " tokens of %" PRIu32 " bits, %" PRIu64 " document%s, %" PRIu64
                     " bytes of text\n",
                     w->path, total->tokens, 8 * sc_text_width(w->encoder), total->documents,
                     total->documents == 1 ? "" : "s", total->bytes);
}

int sc_cmd_data(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    const sc_run_options *run = &options->run;
    const sc_text_options text = {
        .tokenizer = run->tokenizer, .field = run->field, .eos = run->eos};
    writing w = {.context = context, .options = options, .path = run->output};
    if (!check_output(&w) || !list_files(&w))
        return 0;
    w.encoder = sc_text_open(context, &text);
    if (w.encoder != NULL && write_ids(&w))
        print(&w, out);
    sc_text_close(w.encoder);
    return 0;
}
