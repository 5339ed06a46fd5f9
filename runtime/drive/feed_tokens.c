/* Opens the tokens of --data, and finds the inputs that they feed. */
#include <inttypes.h>
#include <string.h>

#include "runtime/drive/feed_internal.h"
#include "support/none.h"
#include "support/strbuf.h"

static int64_t elements(const sc_fact_input *input)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < input->rank; i++)
        count *= input->sizes[i];
    return count;
}

/* ---- inputs ---- */

/* True if the input is of i32, not fed yet, and of one dim or more. */
static bool is_open(const sc_feeding *f, uint32_t input)
{
    const sc_fact_input *about = sc_feeding_input(f, input);
    return about->dtype == SC_DTYPE_i32 && f->feed->arrays[input].data == NULL && about->rank > 0;
}

static uint32_t find_document_input(const sc_feeding *f, const char *name)
{
    for (uint32_t i = 0; i < f->feed->count; i++) {
        if (f->options->documents && strcmp(f->feed->names[i], name) == 0 && is_open(f, i))
            return i;
    }
    return SC_NONE;
}

static void find_inputs(sc_feeding *f)
{
    sc_feed *feed = f->feed;
    feed->segments = find_document_input(f, SC_FEED_SEGMENTS);
    feed->positions = find_document_input(f, SC_FEED_POSITIONS);
    for (uint32_t i = 0; i < feed->count && feed->token_input_count < 2; i++) {
        bool is_position = f->entry->is_cached && i + 2 >= feed->count;
        if (is_open(f, i) && !is_position && i != feed->segments && i != feed->positions)
            feed->token_inputs[feed->token_input_count++] = i;
    }
}

static bool has_shape_of(sc_feeding *f, uint32_t input)
{
    uint32_t first = f->feed->token_inputs[0];
    const sc_fact_input *of = sc_feeding_input(f, first), *about = sc_feeding_input(f, input);
    if (about->rank == of->rank && elements(about) == elements(of) &&
        about->sizes[about->rank - 1] == of->sizes[of->rank - 1])
        return true;
    sc_feeding_report(f, sc_arena_printf(&f->context->arena,
                                         "inputs '%s' and '%s' differ in shape, so --data cannot "
                                         "feed both",
                                         f->feed->names[first], f->feed->names[input]));
    return false;
}

/* Makes room for every input that the tokens feed. */
static bool reserve_inputs(sc_feeding *f)
{
    sc_feed *feed = f->feed;
    const uint32_t inputs[] = {feed->token_inputs[0],
                               feed->token_input_count > 1 ? feed->token_inputs[1] : SC_NONE,
                               feed->segments, feed->positions};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        if (inputs[i] != SC_NONE &&
            (!has_shape_of(f, inputs[i]) || !sc_feeding_reserve(f, inputs[i])))
            return false;
    }
    const sc_fact_input *input = sc_feeding_input(f, feed->token_inputs[0]);
    feed->row_length = (uint64_t)input->sizes[input->rank - 1];
    feed->rows = (uint64_t)elements(input) / feed->row_length;
    feed->room = sc_arena_array(&f->context->arena, feed->row_length + 1, sizeof *feed->room);
    return true;
}

/* ---- windows ---- */

static const char *describe_texts(sc_feeding *f)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &f->context->arena);
    for (uint32_t i = 0; i < f->options->data.count; i++)
        sc_strbuf_printf(&text, "%s%s", i > 0 ? "," : "", f->options->data.data[i]);
    return text.data;
}

/* The name of a single file, as messages about its tokens have it; else what was written. */
static const char *label_of(sc_feeding *f)
{
    const sc_data *data = f->feed->data;
    bool is_one = data->parts.count == 1 && data->parts.data[0].files.count == 1;
    return is_one ? data->parts.data[0].files.data[0].path : describe_texts(f);
}

static void report_few(sc_feeding *f, uint64_t windows)
{
    const sc_feed *feed = f->feed;
    if (feed->order == SC_FEED_AS_STORED) {
        sc_feeding_report(
            f, sc_arena_printf(&f->context->arena,
                               "%s holds %" PRIu64 " tokens (of %" PRIu32
                               " bits), but one batch takes %" PRIu64,
                               feed->label, feed->data->count, feed->data->bits,
                               feed->rows * feed->row_length + feed->token_input_count - 1));
        return;
    }
    sc_feeding_report(
        f, sc_arena_printf(&f->context->arena,
                           "%s (ids of %" PRIu32 " bits): %" PRIu64 " tokens hold %" PRIu64
                           " of the %" PRIu64 " windows (%" PRIu64
                           " tokens each) that one batch takes%s",
                           feed->label, feed->data->bits, feed->data->count, windows, feed->rows,
                           feed->row_length + feed->token_input_count - 1,
                           f->options->hold_out > 0 ? ", after those that are held out" : ""));
}

/* Divides the tokens into windows and batches; there must be at least one. */
static void cut(sc_feeding *f)
{
    static const sc_order_kind kinds[] = {[SC_FEED_AS_STORED] = SC_ORDER_STORED,
                                          [SC_FEED_TRAINING] = SC_ORDER_TRAINED,
                                          [SC_FEED_HELD_OUT] = SC_ORDER_HELD_OUT};
    sc_feed *feed = f->feed;
    feed->windows =
        sc_order_of(feed->data, kinds[feed->order], feed->row_length, feed->token_input_count > 1,
                    feed->rows, f->options->hold_out, f->options->seed, &f->context->arena);
    uint64_t windows = sc_order_count(&feed->windows);
    feed->batches = windows / feed->rows;
    uint32_t empty = sc_order_empty_part(&feed->windows);
    bool is_mixed = feed->data->parts.count > 1 && feed->order == SC_FEED_TRAINING;
    if (feed->batches == 0)
        report_few(f, windows);
    else if (is_mixed && empty != SC_NONE)
        sc_feeding_report(
            f, sc_arena_printf(&f->context->arena,
                               "%s has no whole window of %" PRIu64
                               " tokens, so it cannot be a part of the mixture%s",
                               feed->data->parts.data[empty].text,
                               feed->row_length + feed->token_input_count - 1,
                               f->options->hold_out > 0 ? ", after those that are held out" : ""));
}

/* ---- opening ---- */

static bool open_data(sc_feeding *f, const sc_feed_request *how)
{
    const sc_run_options *o = f->options;
    sc_feed *feed = f->feed;
    const sc_fact_input *input = sc_feeding_input(f, feed->token_inputs[0]);
    const sc_data_request request = {
        .texts = &o->data,
        .option = how->option,
        .is_wide = input->distribution.high > SC_TOKENS_NARROW_LIMIT,
        .may_mix = feed->order == SC_FEED_TRAINING,
        .wants_documents = o->documents,
        .text = {.tokenizer = o->tokenizer, .field = o->field, .eos = o->eos}};
    feed->shares_data = how->from != NULL;
    if (how->from != NULL) {
        feed->data = how->from->data;
        return true;
    }
    feed->data = sc_arena_alloc(&f->context->arena, sizeof *feed->data);
    return sc_data_open(f->context, &request, feed->data);
}

void sc_feed_tokens(sc_feeding *f, const sc_feed_request *request)
{
    sc_feed *feed = f->feed;
    find_inputs(f);
    if (feed->token_input_count == 0) {
        sc_feeding_report(f, sc_arena_printf(&f->context->arena,
                                             "'%s' has no i32 input for the tokens of --data",
                                             f->entry->name));
        return;
    }
    if (!reserve_inputs(f) || !open_data(f, request))
        return;
    feed->label = label_of(f);
    cut(f);
}
