/* Reads and checks the batches of a feed. What is here runs on the thread that reads ahead, too:
 * errors are texts. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/drive/feed_internal.h"
#include "support/none.h"

static bool is_token_input(const sc_feed *feed, uint32_t input)
{
    for (uint32_t i = 0; i < feed->token_input_count; i++) {
        if (feed->token_inputs[i] == input)
            return true;
    }
    return false;
}

bool sc_feed_is_read(const sc_feed *feed, uint32_t input)
{
    bool is_of_data = feed->data != NULL && (is_token_input(feed, input) ||
                                             input == feed->segments || input == feed->positions);
    return is_of_data || feed->steps[input].tensor != NULL;
}

bool sc_feed_reads(const sc_feed *feed)
{
    for (uint32_t i = 0; i < feed->count; i++) {
        if (sc_feed_is_read(feed, i))
            return true;
    }
    return false;
}

/* ---- tokens ---- */

static sc_order_row find_row(sc_feed *feed, uint64_t batch, uint64_t row)
{
    return sc_order_row_at(&feed->windows, batch * feed->rows + row);
}

/* A document begins after the id that ends one, and with a file. */
static void number_documents(const sc_feed *feed, sc_order_row at, double *segments,
                             double *positions)
{
    uint64_t next = sc_data_next_file(feed->data, at.part, at.first);
    double segment = 0, position = 0;
    for (uint64_t i = 0; i < feed->row_length; i++) {
        bool begins_file = at.first + i >= next;
        bool begins =
            i > 0 && (begins_file || (feed->data->has_eos && feed->room[i - 1] == feed->data->eos));
        if (begins_file)
            next = sc_data_next_file(feed->data, at.part, at.first + i);
        segment += begins;
        position = begins ? 0 : position;
        if (segments != NULL)
            segments[i] = segment;
        if (positions != NULL)
            positions[i] = position;
        position++;
    }
}

static double *row_of(const sc_feed *feed, sc_array *into, uint32_t input, uint64_t row)
{
    return input == SC_NONE ? NULL : into[input].data + row * feed->row_length;
}

/* A row is read once for all inputs: the second is shifted by one. */
static bool read_row(sc_feed *feed, sc_feed_slot *slot, uint64_t row)
{
    sc_array *into = slot->arrays;
    sc_order_row at = find_row(feed, slot->batch, row);
    sc_data_error problem;
    if (!sc_data_read(feed->data, at.part, at.first, feed->row_length + feed->token_input_count - 1,
                      feed->room, &slot->bytes, &problem)) {
        snprintf(slot->error.text, sizeof slot->error.text, "%s, for step %" PRIu64 ": %s",
                 problem.path, slot->batch + 1, problem.reason);
        return false;
    }
    for (uint32_t i = 0; i < feed->token_input_count; i++)
        memcpy(row_of(feed, into, feed->token_inputs[i], row), feed->room + i,
               (size_t)feed->row_length * sizeof *feed->room);
    if (feed->segments != SC_NONE || feed->positions != SC_NONE)
        number_documents(feed, at, row_of(feed, into, feed->segments, row),
                         row_of(feed, into, feed->positions, row));
    return true;
}

static bool read_rows(sc_feed *feed, sc_feed_slot *slot)
{
    for (uint64_t row = 0; row < feed->rows; row++) {
        bool is_read = feed->reads == NULL || feed->reads[row];
        if (is_read && !read_row(feed, slot, row))
            return false;
    }
    return true;
}

/* ---- limits of ids ---- */

bool sc_feed_bad_id(const sc_feed *feed, uint32_t input, double id, const char *where,
                    sc_feed_error *error)
{
    /* every id is an integer that i32 holds */
    snprintf(error->text, sizeof error->text,
             "%s is %" PRId64 ", but input '%s' takes ids of at least 0 and less than %" PRId64,
             where, (int64_t)id, feed->names[input], feed->limits[input].below);
    return false;
}

/* Writes where element `e` of an input comes from. */
static void describe_element(sc_feed *feed, uint32_t input, uint64_t batch, int64_t e, char *out,
                             size_t room)
{
    const sc_safetensor *tensor = feed->steps[input].tensor;
    for (uint32_t i = 0; i < feed->token_input_count && feed->data != NULL; i++) {
        if (feed->token_inputs[i] != input)
            continue;
        uint64_t at;
        sc_order_row row = find_row(feed, batch, (uint64_t)e / feed->row_length);
        const sc_data_file *file = sc_data_find_file(
            feed->data, row.part, row.first + i + (uint64_t)e % feed->row_length, &at);
        snprintf(out, room, "%s, for step %" PRIu64 ": token %" PRIu64, file->path, batch + 1, at);
        return;
    }
    if (tensor == NULL)
        snprintf(out, room, "element %" PRId64 " of what --input gives", e);
    else
        snprintf(out, room, "tensor '%s', for step %" PRIu64 ": element %" PRId64, tensor->name,
                 batch + 1, e);
}

static bool check_ids(sc_feed *feed, uint32_t input, uint64_t batch, const sc_array *array,
                      sc_feed_error *error)
{
    const sc_feed_limit *limit = &feed->limits[input];
    char where[512];
    if (limit->below <= 0)
        return true;
    for (int64_t e = 0; e < array->count; e++) {
        double id = array->data[e];
        bool is_right = (id >= 0 && id < (double)limit->below) ||
                        (limit->may_ignore && id == (double)limit->ignore);
        if (is_right)
            continue;
        describe_element(feed, input, batch, e, where, sizeof where);
        return sc_feed_bad_id(feed, input, id, where, error);
    }
    return true;
}

/* ---- batches ---- */

static bool read_step(const sc_feed *feed, uint32_t input, uint64_t batch, sc_array *into,
                      sc_feed_error *error)
{
    const sc_feed_steps *steps = &feed->steps[input];
    uint64_t count = (uint64_t)into[input].count;
    const char *reason;
    if (sc_safetensors_read(steps->file, steps->tensor, batch * count, count, into[input].data,
                            &reason))
        return true;
    snprintf(error->text, sizeof error->text, "%s: tensor '%s' cannot be read: %s",
             sc_safetensors_label(steps->file, steps->tensor), steps->tensor->name, reason);
    return false;
}

bool sc_feed_read(sc_feed *feed, sc_feed_slot *slot)
{
    slot->bytes = 0;
    bool ok = feed->data == NULL || read_rows(feed, slot);
    for (uint32_t i = 0; i < feed->count; i++) {
        if (!ok)
            break;
        ok = feed->steps[i].tensor == NULL ||
             read_step(feed, i, slot->batch, slot->arrays, &slot->error);
        ok = ok && check_ids(feed, i, slot->batch, &slot->arrays[i], &slot->error);
    }
    return ok;
}
