/* Opens and compares the data of a training run. */
#include "runtime/drive/train_feeds.h"

#include <inttypes.h>

#include "support/hash.h"
#include "support/none.h"

bool sc_train_holds_out(const sc_run_options *options)
{
    return options->eval_data.count > 0 || options->hold_out > 0;
}

/* An input with a value per step has none for the batches of the held-out loss. */
static bool check_steps(sc_context *context, const sc_run_options *options, const sc_feed *feed)
{
    for (uint32_t i = 0; i < feed->count; i++) {
        if (feed->steps[i].tensor == NULL)
            continue;
        sc_report(&context->diag, SC_D_usage, (sc_loc){0},
                  sc_arena_printf(&context->arena,
                                  "input '%s' holds a step per index, so it has no value for the "
                                  "batches of %s",
                                  feed->names[i],
                                  options->hold_out > 0 ? "--hold-out" : "--eval-data"),
                  NULL);
        return false;
    }
    return true;
}

bool sc_train_feeds_open(sc_context *context, const sc_fact_entry *entry,
                         const sc_run_options *options, sc_train_feeds *out)
{
    sc_run_options held_out = *options;
    sc_feed_request request = {
        .entry = entry, .options = options, .order = SC_FEED_TRAINING, .option = "--data"};
    if (!sc_feed_open(context, &request, &out->trained))
        return false;
    out->holds_out = sc_train_holds_out(options);
    if (!out->holds_out)
        return true;
    if (!check_steps(context, options, &out->trained))
        return false;
    if (options->hold_out > 0) {
        request.order = SC_FEED_HELD_OUT;
        request.from = &out->trained;
    } else {
        held_out.data = options->eval_data;
        request.options = &held_out;
        request.order = SC_FEED_AS_STORED;
        request.option = "--eval-data";
    }
    return sc_feed_open(context, &request, &out->held_out);
}

bool sc_train_feeds_bind(sc_context *context, const sc_executor *executor, uint32_t forward,
                         sc_train_feeds *feeds)
{
    return sc_feed_bind(context, executor, SC_NONE, &feeds->trained) &&
           (!feeds->holds_out || forward >= executor->func_count ||
            sc_feed_bind(context, executor, forward, &feeds->held_out));
}

/* ---- the place in the data, and which data it is ---- */

void sc_train_describe_data(const sc_run_options *options, const sc_feed *feed, sc_train_state *out)
{
    const sc_data *data = feed->data;
    out->tokens = data == NULL ? 0 : data->count;
    out->data_identity = data == NULL ? 0
                                      : sc_fnv1a64_more(data->identity, &options->hold_out,
                                                        sizeof options->hold_out);
    out->row_length = feed->row_length;
    out->rows = feed->rows;
}

void sc_train_compare_data(sc_context *context, const sc_run_options *options, const sc_feed *feed,
                           const sc_train_state *then)
{
    sc_arena *arena = &context->arena;
    sc_train_state now = {.id = NULL};
    const char *had = NULL, *has = NULL;
    sc_train_describe_data(options, feed, &now);
    if (then->steps == 0)
        return;
    if (now.tokens != then->tokens) {
        had = sc_arena_printf(arena, "%" PRIu64 " tokens", then->tokens);
        has = sc_arena_printf(arena, "%" PRIu64, now.tokens);
    } else if (then->data_identity != 0 && now.data_identity != then->data_identity) {
        had = sc_arena_printf(arena, "files or shares of hash %016" PRIx64, then->data_identity);
        has = sc_arena_printf(arena, "%016" PRIx64, now.data_identity);
    }
    if (had != NULL)
        sc_report(&context->diag, SC_D_other_data, (sc_loc){0}, options->resume, had, has, NULL);
}
