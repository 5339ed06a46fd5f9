/* Encodes documents by all cores: one thread reads them in batches and writes the ids of the oldest
 * batch, the others encode. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data/text_internal.h"

enum { MOST_THREADS = 32, BATCHES_A_THREAD = 2, ERROR = 512 };

typedef enum batch_state { BATCH_FREE, BATCH_READ, BATCH_TAKEN, BATCH_ENCODED } batch_state;

typedef struct batch {
    batch_state state;
    sc_documents documents;
    shardc_token_ids ids;
    size_t *ends;  /* by document: the ids up to its end */
    size_t failed; /* the document that has no ids; the count: all have */
    char error[ERROR];
} batch;

typedef struct encoding {
    sc_context *context;
    const sc_encoder *text;
    const sc_text_list *files;
    FILE *out;
    const char *out_path;
    sc_text_counts *counts;
    sc_text_reader reader;
    pthread_t threads[MOST_THREADS];
    uint32_t thread_count, batch_count;
    batch *batches;   /* a ring: numbers are taken modulo its size */
    uint64_t written; /* batches written */
    uint64_t taken;   /* batches that a thread has taken */
    uint64_t read;    /* batches read */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ends; /* threads are to return */
} encoding;

/* ---- threads ---- */

static void encode(const sc_encoder *text, batch *b)
{
    b->ids.count = 0;
    b->failed = b->documents.count;
    for (size_t i = 0; i < b->documents.count; i++) {
        const sc_document *d = &b->documents.list[i];
        if (!sc_text_append(text, b->documents.bytes + d->begin, d->length, d->line > 0, &b->ids,
                            b->error, sizeof b->error)) {
            b->failed = i;
            break;
        }
        b->ends[i] = b->ids.count;
    }
}

static void *work(void *user)
{
    encoding *e = user;
    pthread_mutex_lock(&e->mutex);
    while (!e->ends) {
        batch *b = &e->batches[e->taken % e->batch_count];
        if (e->taken == e->read) {
            pthread_cond_wait(&e->changed, &e->mutex);
            continue;
        }
        e->taken++;
        b->state = BATCH_TAKEN;
        pthread_mutex_unlock(&e->mutex);
        encode(e->text, b);
        pthread_mutex_lock(&e->mutex);
        b->state = BATCH_ENCODED;
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->mutex);
    return NULL;
}

/* ---- reading and writing ---- */

static bool report(encoding *e, const char *path, uint64_t line, const char *why)
{
    sc_arena *arena = &e->context->arena;
    sc_report(&e->context->diag, SC_D_bad_data, (sc_loc){0},
              line > 0 ? sc_arena_printf(arena, "%s:%" PRIu64 ": %s", path, line, why)
                       : sc_arena_printf(arena, "%s: %s", path, why),
              NULL);
    return false;
}

static bool cannot_write(encoding *e)
{
    sc_report(&e->context->diag, SC_D_cannot_write, (sc_loc){0}, e->out_path, strerror(errno),
              NULL);
    return false;
}

static bool write_ids(encoding *e, const shardc_token_ids *ids)
{
    uint32_t width = sc_text_width(e->text);
    unsigned char bytes[4096];
    size_t used = 0;
    for (size_t i = 0; i < ids->count; i++) {
        for (uint32_t b = 0; b < width; b++)
            bytes[used++] = (unsigned char)(ids->data[i] >> 8 * b);
        if (used < sizeof bytes && i + 1 < ids->count)
            continue;
        if (fwrite(bytes, 1, used, e->out) != used)
            return cannot_write(e);
        used = 0;
    }
    return true;
}

static bool write_batch(encoding *e, const batch *b)
{
    size_t begin = 0;
    for (size_t i = 0; i < b->failed; i++) {
        sc_text_counts *counts = &e->counts[b->documents.list[i].file];
        counts->documents++;
        counts->tokens += b->ends[i] - begin;
        begin = b->ends[i];
    }
    if (b->failed < b->documents.count) {
        const sc_document *d = &b->documents.list[b->failed];
        return report(e, e->files->data[d->file], d->line, b->error);
    }
    return write_ids(e, &b->ids);
}

/* Fills the next batch of the ring, which is free. *is_end: there is no more to read. */
static bool read_batch(encoding *e, bool *is_end)
{
    batch *b = &e->batches[e->read % e->batch_count];
    const char *path = NULL, *reason = NULL;
    if (!sc_text_read(&e->reader, &b->documents, &path, &reason)) {
        sc_report(&e->context->diag, SC_D_cannot_read, (sc_loc){0}, path, reason, NULL);
        return false;
    }
    *is_end = b->documents.count == 0;
    size_t *ends = realloc(b->ends, (b->documents.count + 1) * sizeof *ends);
    if (ends == NULL)
        return report(e, e->out_path, 0, "there is not enough memory to write it");
    b->ends = ends;
    pthread_mutex_lock(&e->mutex);
    b->state = BATCH_READ;
    e->read += !*is_end;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->mutex);
    return true;
}

static bool write_oldest(encoding *e)
{
    batch *b = &e->batches[e->written % e->batch_count];
    if (e->thread_count == 0) {
        encode(e->text, b);
    } else {
        pthread_mutex_lock(&e->mutex);
        while (b->state != BATCH_ENCODED)
            pthread_cond_wait(&e->changed, &e->mutex);
        pthread_mutex_unlock(&e->mutex);
    }
    bool ok = write_batch(e, b);
    b->state = BATCH_FREE;
    e->written++;
    return ok;
}

static bool encode_all(encoding *e)
{
    bool is_end = false;
    while (!is_end || e->written < e->read) {
        bool has_room = !is_end && e->read - e->written < e->batch_count;
        if (!(has_room ? read_batch(e, &is_end) : write_oldest(e)))
            return false;
    }
    return true;
}

/* ---- all of it ---- */

static void start(encoding *e)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t wanted = cores < 1 ? 1 : cores < MOST_THREADS ? (uint32_t)cores : MOST_THREADS;
    pthread_mutex_init(&e->mutex, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->batch_count = wanted * BATCHES_A_THREAD;
    e->batches = calloc(e->batch_count, sizeof *e->batches);
    for (uint32_t i = 0; i < wanted && e->batches != NULL; i++) {
        if (pthread_create(&e->threads[i], NULL, work, e) != 0)
            break;
        e->thread_count++;
    }
}

static void end(encoding *e)
{
    pthread_mutex_lock(&e->mutex);
    e->ends = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->mutex);
    for (uint32_t i = 0; i < e->thread_count; i++)
        pthread_join(e->threads[i], NULL);
    for (uint32_t i = 0; i < e->batch_count && e->batches != NULL; i++) {
        sc_documents_free(&e->batches[i].documents);
        free(e->batches[i].ids.data);
        free(e->batches[i].ends);
    }
    free(e->batches);
    sc_text_reader_close(&e->reader);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->mutex);
}

bool sc_text_encode(sc_context *context, const sc_encoder *text, const sc_text_list *files,
                    FILE *out, const char *out_path, sc_text_counts *counts)
{
    encoding e = {.context = context,
                  .text = text,
                  .files = files,
                  .out = out,
                  .out_path = out_path,
                  .counts = counts,
                  .reader = {.files = files, .counts = counts, .file = -1}};
    start(&e);
    bool ok = e.batches != NULL ? encode_all(&e)
                                : report(&e, out_path, 0, "there is not enough memory to write it");
    end(&e);
    return ok && (fflush(out) == 0 || cannot_write(&e));
}
