/* Opens what feeds an entry's inputs. */
#include "runtime/drive/feed.h"

#include <string.h>

#include "runtime/drive/feed_internal.h"
#include "support/none.h"
#include "support/strbuf.h"

static void list_inputs(sc_feeding *f)
{
    sc_arena *arena = &f->context->arena;
    f->feed->count = f->entry->inputs.count;
    f->feed->names = sc_arena_array(arena, f->feed->count + 1u, sizeof *f->feed->names);
    f->feed->arrays = sc_arena_array(arena, f->feed->count + 1u, sizeof *f->feed->arrays);
    f->feed->steps = sc_arena_array(arena, f->feed->count + 1u, sizeof *f->feed->steps);
    f->feed->limits = sc_arena_array(arena, f->feed->count + 1u, sizeof *f->feed->limits);
    for (uint32_t i = 0; i < f->feed->count; i++)
        f->feed->names[i] = sc_feeding_input(f, i)->name;
}

/* pos stays 0; pos_len is the number of new positions. */
static void feed_positions(sc_feeding *f)
{
    sc_feed *feed = f->feed;
    if (!f->entry->is_cached || feed->count < 2)
        return;
    for (uint32_t i = feed->count - 2; i < feed->count; i++) {
        double *values = feed->arrays[i].data == NULL ? sc_feeding_reserve(f, i) : NULL;
        if (values == NULL || i + 2 == feed->count)
            continue;
        bool is_read = sc_feeding_input(f, i)->distribution.form == SC_RANDOM_LENGTH;
        if (is_read) {
            for (int64_t e = 0; e < feed->arrays[i].count; e++)
                values[e] = (double)(sc_feeding_input(f, i)->distribution.high - 1);
        }
    }
}

static bool is_of_documents(const char *name)
{
    return strcmp(name, SC_FEED_SEGMENTS) == 0 || strcmp(name, SC_FEED_POSITIONS) == 0;
}

static void report_missing(sc_feeding *f)
{
    sc_strbuf text;
    uint32_t missing = 0;
    bool has_documents = false;
    sc_strbuf_init(&text, &f->context->arena);
    for (uint32_t i = 0; i < f->feed->count; i++) {
        if (f->feed->arrays[i].data != NULL)
            continue;
        sc_strbuf_printf(&text, "%s'%s' %s", missing++ > 0 ? ", " : "", f->feed->names[i],
                         sc_feeding_input(f, i)->type.text);
        has_documents = has_documents || is_of_documents(f->feed->names[i]);
    }
    const char *hint = f->options->data.count == 0 ? ", or --data FILE for tokens"
                       : has_documents && !f->options->documents
                           ? ", or --documents for " SC_FEED_SEGMENTS " and " SC_FEED_POSITIONS
                           : "";
    if (missing > 0)
        sc_report(&f->context->diag, SC_D_usage, (sc_loc){0},
                  sc_arena_printf(&f->context->arena,
                                  "'%s' needs %s %s; give --input NAME=FILE.safetensors[:TENSOR]%s",
                                  f->entry->name, missing > 1 ? "inputs" : "input", text.data,
                                  hint),
                  NULL);
}

/* An option that nothing uses would go unnoticed. */
static void check_documents(sc_feeding *f)
{
    const sc_feed *feed = f->feed;
    bool is_fed = feed->segments != SC_NONE || feed->positions != SC_NONE;
    if (f->options->documents && feed->data != NULL && !is_fed)
        sc_report(&f->context->diag, SC_D_usage, (sc_loc){0},
                  sc_arena_printf(&f->context->arena,
                                  "--documents has no effect: '%s' has no input '" SC_FEED_SEGMENTS
                                  "' or '" SC_FEED_POSITIONS "' of i32 that --input leaves open",
                                  f->entry->name),
                  NULL);
}

bool sc_feed_open(sc_context *context, const sc_feed_request *request, sc_feed *feed)
{
    const sc_run_options *options = request->options;
    sc_feed_order order = request->order;
    sc_feeding f = {.context = context, .entry = request->entry, .options = options, .feed = feed};
    uint32_t errors = context->diag.errors;
    *feed = (sc_feed){.order = order, .segments = SC_NONE, .positions = SC_NONE};
    list_inputs(&f);
    for (uint32_t i = 0; i < options->inputs.count; i++)
        sc_feed_tensor(&f, &options->inputs.data[i]);
    if (options->data.count > 0)
        sc_feed_tokens(&f, request);
    feed_positions(&f);
    if (context->diag.errors == errors)
        check_documents(&f);
    if (context->diag.errors == errors)
        report_missing(&f);
    feed->wanted = order == SC_FEED_TRAINING ? (uint64_t)options->steps : feed->batches;
    return context->diag.errors == errors;
}

bool sc_feed_draw(sc_context *context, const sc_fact_entry *entry, uint64_t seed, sc_feed *feed)
{
    sc_feeding f = {.context = context, .entry = entry, .feed = feed};
    *feed = (sc_feed){.order = SC_FEED_AS_STORED, .segments = SC_NONE, .positions = SC_NONE};
    list_inputs(&f);
    feed_positions(&f);
    for (uint32_t i = 0; i < feed->count; i++) {
        if (feed->arrays[i].data != NULL)
            continue;
        if (!sc_feeding_reserve(&f, i))
            return false;
        sc_random_fill(&sc_feeding_input(&f, i)->distribution, &(sc_random_options){.seed = seed},
                       feed->arrays[i].data, feed->arrays[i].count);
    }
    return true;
}

void sc_feed_close(sc_feed *feed)
{
    sc_feed_stop(feed);
    for (uint32_t i = 0; i < feed->count; i++) {
        sc_array_free(&feed->arrays[i]);
        sc_safetensors_close(feed->steps[i].file);
    }
    if (feed->data != NULL && !feed->shares_data)
        sc_data_close(feed->data);
}
