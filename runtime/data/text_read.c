/* Reads documents of files, in order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data/text_internal.h"
#include "support/file.h"

static const char no_memory[] = "there is not enough memory for a document";

enum { BLOCK = 1 << 16 };

void sc_documents_free(sc_documents *documents)
{
    free(documents->bytes);
    free(documents->list);
    *documents = (sc_documents){0};
}

/* Returns room for `length` more bytes, or NULL. */
static char *reserve(sc_documents *documents, uint64_t length)
{
    if (length > SIZE_MAX / 2 - documents->length)
        return NULL;
    size_t wanted = documents->length + (size_t)length;
    if (wanted > documents->capacity) {
        size_t capacity = wanted > 2 * documents->capacity ? wanted : 2 * documents->capacity;
        char *bytes = realloc(documents->bytes, capacity + 1);
        if (bytes == NULL)
            return NULL;
        documents->bytes = bytes;
        documents->capacity = capacity;
    }
    return documents->bytes == NULL ? NULL : documents->bytes + documents->length;
}

static bool add_document(sc_documents *documents, sc_document document)
{
    if (documents->count == documents->list_capacity) {
        size_t capacity = documents->list_capacity == 0 ? 64 : 2 * documents->list_capacity;
        sc_document *list = realloc(documents->list, capacity * sizeof *list);
        if (list == NULL)
            return false;
        documents->list = list;
        documents->list_capacity = capacity;
    }
    documents->list[documents->count++] = document;
    return true;
}

/* ---- lines ---- */

static bool is_blank(const char *line, size_t length)
{
    while (length > 0 && strchr(" \t\r", line[length - 1]) != NULL && line[length - 1] != 0)
        length--;
    return length == 0;
}

static bool add_line(sc_text_reader *r, const char *line, size_t length, sc_documents *out)
{
    r->line++;
    if (is_blank(line, length))
        return true;
    char *room = reserve(out, length);
    if (room == NULL)
        return false;
    memcpy(room, line, length);
    sc_document document = {r->next - 1, r->line, out->length, length};
    out->length += length;
    return add_document(out, document);
}

/* Takes the whole lines of `rest`, and at the end of the file also what follows them. */
static bool take_lines(sc_text_reader *r, sc_documents *out)
{
    sc_documents *rest = &r->rest;
    size_t at = 0;
    bool ok = true;
    while (at < rest->length) {
        if (!ok)
            break;
        const char *begin = rest->bytes + at, *end = memchr(begin, '\n', rest->length - at);
        if (end == NULL && r->at < r->size)
            break;
        size_t length = end == NULL ? rest->length - at : (size_t)(end - begin);
        ok = add_line(r, begin, length, out);
        at += length + (end != NULL);
    }
    memmove(rest->bytes, rest->bytes + at, rest->length - at);
    rest->length -= at;
    return ok;
}

/* A line that is longer than a block is looked through again with each block, so blocks become as
 * long as what there is of it: the time stays linear. */
static bool read_lines(sc_text_reader *r, sc_documents *out, const char **reason)
{
    while (out->length < SC_TEXT_BATCH) {
        uint64_t left = r->size - r->at, block = r->rest.length > BLOCK ? r->rest.length : BLOCK;
        size_t now = (size_t)(left < block ? left : block);
        if (now == 0)
            break;
        char *room = reserve(&r->rest, now);
        *reason = no_memory;
        if (room == NULL || !sc_file_read_at(r->file, room, now, r->at, reason))
            return false;
        r->rest.length += now;
        r->at += now;
        *reason = no_memory;
        if (!take_lines(r, out))
            return false;
    }
    if (r->at == r->size) {
        close(r->file);
        r->file = -1;
    }
    return true;
}

/* ---- files ---- */

static bool read_whole(int file, uint64_t size, uint32_t index, sc_documents *out,
                       const char **reason)
{
    char *room = reserve(out, size + 1);
    sc_document document = {index, 0, out->length, (size_t)size};
    *reason = no_memory;
    if (room == NULL || !sc_file_read_at(file, room, (size_t)size, 0, reason))
        return false;
    out->length += (size_t)size;
    *reason = no_memory;
    return add_document(out, document);
}

static bool open_next(sc_text_reader *r, sc_documents *out, const char **reason)
{
    const char *path = r->files->data[r->next++];
    uint64_t size = 0;
    int file = sc_file_open(path, &size, reason);
    bool ok = file >= 0;
    *reason = file >= 0 && size == 0 ? "the file is empty" : *reason;
    r->counts[r->next - 1].bytes = size;
    if (ok && size > 0 && sc_text_kind_of(path) == SC_TEXT_LINES) {
        r->file = file;
        r->size = size;
        r->at = r->line = 0;
        r->rest.length = 0;
        return true;
    }
    ok = ok && size > 0 && read_whole(file, size, r->next - 1, out, reason);
    if (file >= 0)
        close(file);
    return ok;
}

bool sc_text_read(sc_text_reader *r, sc_documents *out, const char **path, const char **reason)
{
    bool ok = true;
    out->length = out->count = 0;
    while (out->length < SC_TEXT_BATCH) {
        if (!ok)
            break;
        if (r->file >= 0)
            ok = read_lines(r, out, reason);
        else if (r->next < r->files->count)
            ok = open_next(r, out, reason);
        else
            break;
    }
    if (!ok)
        *path = r->files->data[r->next - 1];
    return ok;
}

void sc_text_reader_close(sc_text_reader *r)
{
    if (r->file >= 0)
        close(r->file);
    r->file = -1;
    sc_documents_free(&r->rest);
}
