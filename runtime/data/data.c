/* Opens and reads the tokens of several files as one sequence a part. */
#include "runtime/data/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data/paths.h"
#include "runtime/data/spool.h"
#include "support/hash.h"

/* files that are open at a time, far below what systems allow */
enum { AWAKE = 128, SAMPLE = 64 };

typedef struct opening {
    sc_context *context;
    const sc_data_request *request;
    sc_data *data;
    sc_encoder *text;
    sc_text_list texts; /* files whose ids are written first */
    sc_text_counts *counts;
    uint32_t next_text;
    uint64_t next_begin; /* of its ids, in the file without a name */
} opening;

static bool cannot_read(opening *o, const char *path, const char *why)
{
    sc_report(&o->context->diag, SC_D_cannot_read, (sc_loc){0}, path,
              sc_arena_copy_text(&o->context->arena, why, strlen(why)), NULL);
    return false;
}

static bool usage(opening *o, const char *text)
{
    sc_report(&o->context->diag, SC_D_usage, (sc_loc){0}, text, NULL);
    return false;
}

/* ---- files that are open ---- */

/* Lets the file that was opened first rest when there are too many. Locked. */
static void keep_awake(sc_data *data, sc_tokens *tokens)
{
    sc_tokens **slot = &data->awake[data->next_awake];
    if (*slot != NULL && *slot != tokens)
        sc_tokens_rest(*slot);
    *slot = tokens;
    data->next_awake = (data->next_awake + 1) % AWAKE;
}

static void note_use(sc_data *data, const sc_data_file *file)
{
    if (sc_tokens_is_resting(file->tokens))
        keep_awake(data, file->tokens);
}

/* ---- opening ---- */

/* Writes the ids of all files of text, in the order in which they are opened then. */
static bool write_texts(opening *o, const sc_data_items *items)
{
    sc_arena *arena = &o->context->arena;
    const char *folder;
    for (uint32_t i = 0; i < items->count; i++) {
        const sc_text_list *files = &items->data[i].files;
        for (uint32_t f = 0; f < files->count; f++) {
            if (sc_text_takes(&o->request->text, files->data[f]))
                *sc_vec_push(arena, &o->texts) = files->data[f];
        }
    }
    if (o->texts.count == 0)
        return true;
    o->counts = sc_arena_array(arena, o->texts.count, sizeof *o->counts);
    FILE *out = sc_spool_open(o->context, &o->data->spool, &folder);
    bool ok = out != NULL && sc_text_encode(o->context, o->text, &o->texts, out, folder, o->counts);
    if (out != NULL)
        fclose(out);
    return ok;
}

static sc_tokens *next_text(opening *o, char *error, size_t error_size)
{
    uint64_t count = o->counts[o->next_text++].tokens, begin = o->next_begin;
    uint32_t width = sc_text_width(o->text);
    o->next_begin += count * width;
    snprintf(error, error_size, "there is not enough memory");
    return sc_tokens_of_file(o->data->spool, begin, count, width);
}

static bool open_file(opening *o, const char *path, sc_data_part *part)
{
    char error[512];
    sc_tokens *tokens = sc_text_takes(&o->request->text, path)
                            ? next_text(o, error, sizeof error)
                            : sc_tokens_open(path, o->request->is_wide, error, sizeof error);
    if (tokens == NULL)
        return cannot_read(o, path, error);
    keep_awake(o->data, tokens);
    *sc_vec_push(&o->context->arena, &part->files) =
        (sc_data_file){path, tokens, part->count, sc_tokens_count(tokens)};
    part->count += sc_tokens_count(tokens);
    uint32_t bits = 8 * sc_tokens_width(tokens);
    o->data->bits = bits > o->data->bits ? bits : o->data->bits;
    return true;
}

static bool open_items(opening *o, const sc_data_items *items)
{
    sc_data *data = o->data;
    bool ok = true;
    for (uint32_t i = 0; i < items->count; i++) {
        const sc_data_item *item = &items->data[i];
        if (i == 0 || item->weight > 0)
            *sc_vec_push(&o->context->arena, &data->parts) =
                (sc_data_part){.text = item->text, .weight = item->weight};
        sc_data_part *part = &data->parts.data[data->parts.count - 1];
        for (uint32_t f = 0; f < item->files.count; f++)
            ok = open_file(o, item->files.data[f], part) && ok;
    }
    for (uint32_t i = 0; i < data->parts.count; i++)
        data->count += data->parts.data[i].count;
    return ok;
}

/* ---- the id that ends documents ---- */

/* Takes what the files say of themselves if --eos does not: all must say the same. */
static bool find_eos(opening *o)
{
    sc_data *data = o->data;
    const char *from = NULL;
    if (sc_text_eos(o->text, &data->eos)) {
        data->has_eos = true;
        return true;
    }
    for (uint32_t p = 0; p < data->parts.count; p++) {
        for (uint32_t f = 0; f < data->parts.data[p].files.count; f++) {
            const sc_data_file *file = &data->parts.data[p].files.data[f];
            uint32_t eos = 0;
            if (!sc_tokens_eos(file->tokens, &eos))
                continue;
            if (from != NULL && eos != data->eos)
                return !o->request->wants_documents ||
                       usage(o, sc_arena_printf(&o->context->arena,
                                                "documents end with id %" PRIu32
                                                " in %s, but with %" PRIu32
                                                " in %s; say which it is with --eos",
                                                data->eos, from, eos, file->path));
            from = file->path;
            data->eos = eos;
        }
    }
    data->has_eos = from != NULL;
    if (!data->has_eos && o->request->wants_documents)
        return usage(o, "--documents needs the id that ends a document: give it with --eos, or as "
                        "\"eos\" in a .json beside the file");
    return true;
}

/* ---- identity ---- */

static uint64_t add_number(uint64_t hash, uint64_t number)
{
    return sc_fnv1a64_more(hash, &number, sizeof number);
}

static bool add_sample(opening *o, const sc_data_file *file, uint64_t *hash)
{
    double ids[SAMPLE];
    const char *reason = NULL;
    uint64_t count = file->count < SAMPLE ? file->count : SAMPLE;
    const uint64_t starts[] = {0, file->count - count};
    *hash = add_number(*hash, file->count);
    note_use(o->data, file);
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
        if (!sc_tokens_read(file->tokens, starts[s], count, ids, &reason))
            return cannot_read(o, file->path, reason);
        for (uint64_t i = 0; i < count; i++)
            *hash = add_number(*hash, (uint64_t)ids[i]);
    }
    return true;
}

static bool identify(opening *o)
{
    sc_data *data = o->data;
    uint64_t hash = sc_fnv1a64("", 0);
    for (uint32_t p = 0; p < data->parts.count; p++) {
        const sc_data_part *part = &data->parts.data[p];
        hash = sc_fnv1a64_more(hash, &part->weight, sizeof part->weight);
        for (uint32_t f = 0; f < part->files.count; f++) {
            if (!add_sample(o, &part->files.data[f], &hash))
                return false;
        }
    }
    data->identity = hash;
    return true;
}

/* ---- opening all ---- */

static bool check_request(opening *o, const sc_data_items *items)
{
    const sc_data_request *request = o->request;
    const sc_text_options *text = &request->text;
    bool has_text = false, has_lines = false;
    if (!request->may_mix && items->data[0].weight > 0)
        return usage(o, sc_arena_printf(&o->context->arena,
                                        "%s has weights, but only the data of training is "
                                        "mixed: here every file is read once",
                                        request->option));
    for (uint32_t i = 0; i < items->count; i++) {
        for (uint32_t f = 0; f < items->data[i].files.count; f++) {
            sc_text_kind kind = sc_text_kind_of(items->data[i].files.data[f]);
            has_text = has_text || kind != SC_TEXT_IDS;
            has_lines = has_lines || kind == SC_TEXT_LINES;
        }
    }
    if (text->tokenizer != NULL && !has_text)
        return usage(o, "--tokenizer has no effect: every file is .bin, which holds ids");
    if (text->field != NULL && !has_lines)
        return usage(o, "--field has no effect: no file is .jsonl");
    if (text->eos != NULL && !has_text && !request->wants_documents)
        return usage(o, "--eos has no effect: every file is .bin, and without --documents its "
                        "documents are not told apart");
    return true;
}

bool sc_data_open(sc_context *context, const sc_data_request *request, sc_data *out)
{
    sc_data_items items;
    opening o = {.context = context, .request = request, .data = out};
    *out = (sc_data){.spool = -1};
    pthread_mutex_init(&out->mutex, NULL);
    out->awake = sc_arena_array(&context->arena, AWAKE, sizeof *out->awake);
    if (!sc_data_list(context, request->texts, &items) || !check_request(&o, &items))
        return false;
    o.text = sc_text_open(context, &request->text);
    bool ok = o.text != NULL && write_texts(&o, &items) && open_items(&o, &items) && find_eos(&o) &&
              identify(&o);
    sc_text_close(o.text);
    return ok;
}

void sc_data_close(sc_data *data)
{
    for (uint32_t p = 0; p < data->parts.count; p++) {
        for (uint32_t f = 0; f < data->parts.data[p].files.count; f++)
            sc_tokens_close(data->parts.data[p].files.data[f].tokens);
    }
    if (data->spool >= 0)
        close(data->spool);
    data->parts.count = 0;
    data->spool = -1;
}

/* ---- reading ---- */

const sc_data_file *sc_data_find_file(const sc_data *data, uint32_t part, uint64_t at,
                                      uint64_t *out_at)
{
    const sc_data_part *of = &data->parts.data[part];
    uint32_t low = 0, high = of->files.count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (of->files.data[middle].first <= at)
            low = middle;
        else
            high = middle;
    }
    *out_at = at - of->files.data[low].first;
    return &of->files.data[low];
}

static bool failed(const sc_data_file *file, const char *reason, sc_data_error *error)
{
    error->path = file->path;
    snprintf(error->reason, sizeof error->reason, "%s", reason);
    return false;
}

uint64_t sc_data_next_file(const sc_data *data, uint32_t part, uint64_t at)
{
    uint64_t before;
    const sc_data_part *of = &data->parts.data[part];
    const sc_data_file *file = sc_data_find_file(data, part, at, &before);
    return file + 1 < of->files.data + of->files.count ? file->first + file->count : UINT64_MAX;
}

/* Locked, because a file may have to be opened again. */
bool sc_data_read(sc_data *data, uint32_t part, uint64_t first, uint64_t count, double *out,
                  uint64_t *bytes, sc_data_error *error)
{
    const char *reason = NULL;
    const sc_data_file *file = NULL;
    bool ok = true;
    pthread_mutex_lock(&data->mutex);
    while (count > 0) {
        uint64_t at;
        if (!ok)
            break;
        file = sc_data_find_file(data, part, first, &at);
        uint64_t now = file->count - at < count ? file->count - at : count;
        note_use(data, file);
        ok = sc_tokens_read(file->tokens, at, now, out, &reason);
        *bytes += now * sc_tokens_width(file->tokens);
        out += now;
        first += now;
        count -= now;
    }
    pthread_mutex_unlock(&data->mutex);
    return ok || failed(file, reason, error);
}

bool sc_data_find_beyond(sc_data *data, uint32_t part, uint64_t first, uint64_t count,
                         uint64_t below, uint64_t *out_at, double *out_id, sc_data_error *error)
{
    const char *reason = NULL;
    *out_at = UINT64_MAX;
    while (count > 0 && *out_at == UINT64_MAX) {
        uint64_t at;
        const sc_data_file *file = sc_data_find_file(data, part, first, &at);
        uint64_t now = file->count - at < count ? file->count - at : count;
        note_use(data, file);
        if (!sc_tokens_find_beyond(file->tokens, at, now, below, out_at, out_id, &reason))
            return failed(file, reason, error);
        if (*out_at != UINT64_MAX)
            *out_at += file->first;
        first += now;
        count -= now;
    }
    return true;
}
