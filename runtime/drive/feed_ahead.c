/* Binds a feed to a function, and reads its batches: while one is computed, a thread reads the
 * next. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/drive/feed_internal.h"
#include "support/clock.h"
#include "support/none.h"

struct sc_feed_ahead {
    sc_feed *feed;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    sc_feed_slot slot; /* the batch that the thread reads, or has read */
    bool is_wanted;    /* the thread is to read it, or is reading it */
    bool is_read;      /* it is in the slot, or `ok` is false */
    bool ok, ends;
};

/* ---- the thread ---- */

static void *read_ahead(void *user)
{
    sc_feed_ahead *a = user;
    pthread_mutex_lock(&a->mutex);
    while (!a->ends) {
        if (!a->is_wanted) {
            pthread_cond_wait(&a->changed, &a->mutex);
            continue;
        }
        pthread_mutex_unlock(&a->mutex);
        bool ok = sc_feed_read(a->feed, &a->slot);
        pthread_mutex_lock(&a->mutex);
        a->ok = ok;
        a->is_wanted = false;
        a->is_read = true;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->mutex);
    return NULL;
}

static void free_arrays(sc_feed_ahead *a)
{
    for (uint32_t i = 0; i < a->feed->count && a->slot.arrays != NULL; i++) {
        if (sc_feed_is_read(a->feed, i))
            sc_array_free(&a->slot.arrays[i]);
    }
    free(a->slot.arrays);
    free(a);
}

/* Inputs that are the same in every batch have one array. */
static bool make_arrays(sc_feed_ahead *a)
{
    sc_feed *feed = a->feed;
    a->slot.arrays = calloc(feed->count + 1u, sizeof *a->slot.arrays);
    bool ok = a->slot.arrays != NULL;
    for (uint32_t i = 0; i < feed->count; i++) {
        if (!ok)
            break;
        a->slot.arrays[i] = feed->arrays[i];
        if (sc_feed_is_read(feed, i)) {
            a->slot.arrays[i] = sc_array_new(feed->arrays[i].rank, feed->arrays[i].sizes);
            ok = a->slot.arrays[i].data != NULL;
        }
    }
    return ok;
}

/* Without memory or a thread for it nothing is read ahead. */
static void start(sc_feed *feed)
{
    sc_feed_ahead *a = calloc(1, sizeof *a);
    if (a == NULL)
        return;
    a->feed = feed;
    pthread_mutex_init(&a->mutex, NULL);
    pthread_cond_init(&a->changed, NULL);
    if (make_arrays(a) && pthread_create(&a->thread, NULL, read_ahead, a) == 0)
        feed->ahead = a;
    else
        free_arrays(a);
}

void sc_feed_stop(sc_feed *feed)
{
    sc_feed_ahead *a = feed->ahead;
    if (a == NULL)
        return;
    pthread_mutex_lock(&a->mutex);
    a->ends = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->mutex);
    pthread_join(a->thread, NULL);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->mutex);
    free_arrays(a);
    feed->ahead = NULL;
}

/* ---- batches ---- */

static void swap_arrays(sc_feed *feed, sc_feed_ahead *a)
{
    for (uint32_t i = 0; i < feed->count; i++) {
        sc_array array = feed->arrays[i];
        feed->arrays[i] = a->slot.arrays[i];
        a->slot.arrays[i] = array;
    }
    feed->bytes = a->slot.bytes;
}

/* Waits for the thread. True if it has read this batch, which is then in the feed's arrays, or
 * *error says why not. */
static bool take(sc_feed *feed, uint64_t batch, bool *ok, sc_feed_error *error)
{
    sc_feed_ahead *a = feed->ahead;
    if (a == NULL)
        return false;
    pthread_mutex_lock(&a->mutex);
    while (a->is_wanted)
        pthread_cond_wait(&a->changed, &a->mutex);
    bool has_batch = a->is_read && a->slot.batch == batch;
    a->is_read = false;
    pthread_mutex_unlock(&a->mutex);
    if (!has_batch)
        return false;
    *ok = a->ok;
    if (a->ok)
        swap_arrays(feed, a);
    else
        *error = a->slot.error;
    return true;
}

static void begin(sc_feed *feed, uint64_t batch)
{
    if (batch >= feed->wanted || !sc_feed_reads(feed))
        return;
    if (feed->ahead == NULL)
        start(feed);
    sc_feed_ahead *a = feed->ahead;
    if (a == NULL)
        return;
    pthread_mutex_lock(&a->mutex);
    a->slot.batch = batch;
    a->is_wanted = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->mutex);
}

static bool read_now(sc_feed *feed, uint64_t batch, sc_feed_error *error)
{
    sc_feed_slot slot = {.batch = batch, .arrays = feed->arrays};
    bool ok = sc_feed_read(feed, &slot);
    feed->bytes = slot.bytes;
    if (!ok)
        *error = slot.error;
    return ok;
}

static bool report(sc_context *context, const sc_feed_error *error)
{
    sc_report(&context->diag, SC_D_bad_data, (sc_loc){0},
              sc_arena_copy_text(&context->arena, error->text, strlen(error->text)), NULL);
    return false;
}

bool sc_feed_batch(sc_context *context, sc_feed *feed, uint64_t batch)
{
    double before = sc_seconds();
    sc_feed_error error;
    bool ok = true;
    if (!take(feed, batch, &ok, &error))
        ok = read_now(feed, batch, &error);
    if (ok)
        begin(feed, batch + 1);
    feed->waited = sc_seconds() - before;
    return ok || report(context, &error);
}

/* ---- the function that is fed ---- */

/* Checks the tokens that an input reads of a part. */
static bool check_part(sc_feed *feed, uint32_t index, uint32_t part, sc_feed_error *error)
{
    uint32_t input = feed->token_inputs[index];
    const sc_windows *windows = &feed->windows.parts[part];
    sc_data_error problem;
    uint64_t found, at;
    double id = 0;
    char where[512];
    if (!sc_data_find_beyond(feed->data, part, index, windows->count * windows->length,
                             (uint64_t)feed->limits[input].below, &found, &id, &problem)) {
        snprintf(error->text, sizeof error->text, "%s: %s", problem.path, problem.reason);
        return false;
    }
    if (found == UINT64_MAX)
        return true;
    const sc_data_file *file = sc_data_find_file(feed->data, part, found, &at);
    snprintf(where, sizeof where, "%s: token %" PRIu64, file->path, at);
    return sc_feed_bad_id(feed, input, id, where, error);
}

/* Checks all tokens, if the files are small enough to read quickly. */
static bool check_files(sc_context *context, sc_feed *feed)
{
    enum { QUICK_BYTES = 1 << 28 };
    const sc_data *data = feed->data;
    sc_feed_error error;
    if (data->count * (data->bits / 8) > QUICK_BYTES || feed->shares_data)
        return true;
    for (uint32_t i = 0; i < feed->token_input_count; i++) {
        const sc_feed_limit *limit = &feed->limits[feed->token_inputs[i]];
        /* not here: each batch is checked when it is read */
        bool is_open = limit->below == 0 || (limit->may_ignore && limit->ignore >= limit->below);
        for (uint32_t p = 0; p < data->parts.count; p++) {
            if (!is_open && !check_part(feed, i, p, &error))
                return report(context, &error);
        }
    }
    return true;
}

/* Marks the rows that ranks of this process read of any input that tokens feed. */
static void find_rows(sc_context *context, const sc_executor *executor, uint32_t func,
                      sc_feed *feed)
{
    if (executor->verbs->mark_rows == NULL)
        return;
    feed->reads = sc_arena_array(&context->arena, feed->rows, sizeof *feed->reads);
    for (uint32_t i = 0; i < feed->count; i++) {
        if (sc_feed_is_read(feed, i) && feed->steps[i].tensor == NULL)
            executor->verbs->mark_rows(executor->self, func, feed->names[i], feed->reads,
                                       feed->rows);
    }
}

bool sc_feed_bind(sc_context *context, const sc_executor *executor, uint32_t func, sc_feed *feed)
{
    const sc_executor_func *of = func == SC_NONE ? &executor->step : &executor->funcs[func];
    for (uint32_t i = 0; i < feed->count; i++) {
        const shardc_tensor_info *info = sc_executor_find_input(of, feed->names[i]);
        if (info != NULL)
            feed->limits[i] = (sc_feed_limit){info->below, info->may_ignore, info->ignore};
    }
    if (feed->data == NULL)
        return true;
    find_rows(context, executor, func, feed);
    return check_files(context, feed);
}
