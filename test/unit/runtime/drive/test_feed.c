/* Batches that a thread reads ahead are those that are read directly, in any order of queries; rows
 * that nobody reads cost nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/drive/feed_internal.h"
#include "support/none.h"

enum { ROWS = 3, LENGTH = 5, TOKENS = 200 };

static char path[] = "/tmp/shardc-test-feed-XXXXXX";

static int write_tokens(void **state)
{
    (void)state;
    unsigned char bytes[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        bytes[i] = (unsigned char)i;
    int file = mkstemp(path);
    bool ok = file >= 0 && write(file, bytes, sizeof bytes) == (ssize_t)sizeof bytes;
    return ok && close(file) == 0 ? 0 : -1;
}

static int remove_tokens(void **state)
{
    (void)state;
    return remove(path);
}

typedef struct inputs {
    const char *names[2];
    sc_array arrays[2];
    sc_feed_steps steps[2];
    sc_feed_limit limits[2];
} inputs;

/* A feed of inputs t and y, as sc_feed_open makes it. */
static void make_feed(sc_context *context, inputs *in, sc_data *data, sc_feed *feed)
{
    const int64_t sizes[] = {ROWS, LENGTH};
    sc_text_list texts = {0};
    *sc_vec_push(&context->arena, &texts) = path;
    const sc_data_request request = {.texts = &texts, .option = "--data"};
    assert_true(sc_data_open(context, &request, data));
    *in = (inputs){.names = {"t", "y"}};
    *feed = (sc_feed){.count = 2,
                      .names = in->names,
                      .arrays = in->arrays,
                      .steps = in->steps,
                      .limits = in->limits,
                      .order = SC_FEED_TRAINING,
                      .data = data,
                      .label = path,
                      .token_inputs = {0, 1},
                      .token_input_count = 2,
                      .segments = SC_NONE,
                      .positions = SC_NONE,
                      .rows = ROWS,
                      .row_length = LENGTH,
                      .wanted = UINT64_MAX};
    feed->windows = sc_order_of(data, SC_ORDER_TRAINED, LENGTH, true, ROWS, 0, 4, &context->arena);
    feed->room = sc_arena_array(&context->arena, LENGTH + 1, sizeof *feed->room);
    for (int i = 0; i < 2; i++)
        in->arrays[i] = sc_array_new(2, sizes);
}

static void check_batch(const sc_feed *feed, uint64_t batch)
{
    for (uint64_t row = 0; row < ROWS; row++) {
        bool is_read = feed->reads == NULL || feed->reads[row];
        uint64_t first = sc_windows_at(&feed->windows.parts[0], batch * ROWS + row);
        for (uint64_t i = 0; i < LENGTH; i++) {
            double wanted = is_read ? (double)(first + i) : 0;
            assert_true(feed->arrays[0].data[row * LENGTH + i] == wanted);
            assert_true(feed->arrays[1].data[row * LENGTH + i] == (is_read ? wanted + 1 : 0));
        }
    }
}

static void read_batches(sc_context *context, void *user)
{
    inputs in;
    sc_data data;
    sc_feed feed;
    bool *reads = user;
    uint64_t rows = 0;
    make_feed(context, &in, &data, &feed);
    feed.reads = reads;
    for (int row = 0; row < ROWS; row++)
        rows += reads == NULL || reads[row];
    for (uint64_t i = 0; i < 400; i++) {
        /* mostly one after the other, sometimes another than the one that was read ahead */
        uint64_t batch = i % 50 == 49 ? 3 : i;
        assert_true(sc_feed_batch(context, &feed, batch));
        check_batch(&feed, batch);
        assert_int_equal(feed.bytes, rows * (LENGTH + 1));
        assert_true(feed.waited >= 0);
    }
    sc_feed_close(&feed);
}

static void run(void (*work)(sc_context *, void *), void *user)
{
    sc_context context;
    assert_true(sc_context_run(&context, 0, work, user));
    sc_context_free(&context);
}

static void batches_are_read_ahead(void **state)
{
    (void)state;
    run(read_batches, NULL);
}

static void rows_of_others_are_not_read(void **state)
{
    (void)state;
    bool reads[ROWS] = {false, true, false};
    run(read_batches, reads);
}

/* What is wrong with a batch is reported when it is due, not when it is read. */
static void read_bad(sc_context *context, void *user)
{
    (void)user;
    inputs in;
    sc_data data;
    sc_feed feed;
    make_feed(context, &in, &data, &feed);
    feed.limits[1].below = 195;
    uint64_t bad = 0;
    while (bad < 100) {
        bool has_bad = false;
        for (uint64_t row = 0; row < ROWS; row++)
            has_bad =
                has_bad || sc_windows_at(&feed.windows.parts[0], bad * ROWS + row) + LENGTH >= 195;
        if (has_bad)
            break;
        assert_true(sc_feed_batch(context, &feed, bad));
        bad++;
    }
    assert_true(bad < 100);
    assert_int_equal(context->diag.errors, 0);
    assert_false(sc_feed_batch(context, &feed, bad));
    assert_int_equal(context->diag.errors, 1);
    sc_feed_close(&feed);
}

static void mistakes_are_reported_in_their_step(void **state)
{
    (void)state;
    run(read_bad, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_read_ahead),
        cmocka_unit_test(rows_of_others_are_not_read),
        cmocka_unit_test(mistakes_are_reported_in_their_step),
    };
    return cmocka_run_group_tests(tests, write_tokens, remove_tokens);
}
