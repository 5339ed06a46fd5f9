/* Calls functions: scatters inputs, runs every rank; fetch.c gathers outputs. */
#include <stdio.h>
#include <string.h>

#include "program/lookup.h"
#include "runtime/session/session.h"

typedef struct run_call {
    uint32_t func, micro_batch;
} run_call;

/* Ends the messages that are still in flight after a schedule or function with this status. */
static shardc_status drain(sc_rank *rank, shardc_status status, shardc_error *error)
{
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status end = sc_rank_drain(rank, &reason);
    rank->has_lost_world = rank->has_lost_world || end != SHARDC_OK;
    return status != SHARDC_OK || end == SHARDC_OK ? status
                                                   : sc_fail(error, end, "%s", reason.text);
}

/* A stage without the function does nothing. */
static shardc_status run_rank(sc_rank *rank, void *user, shardc_error *error)
{
    const run_call *call = user;
    uint32_t stage = sc_image_stage_of(rank->session->image, rank->rank);
    uint32_t func = rank->session->program->all.funcs[call->func][stage];
    if (func == SC_NONE)
        return SHARDC_OK;
    shardc_status status = sc_rank_run(rank, func, call->micro_batch, error);
    return drain(rank, status, error);
}

/* ---- inputs ---- */

static const shardc_feed_value *find_feed(const shardc_feed_value *feeds, size_t count,
                                          const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(feeds[i].name, name) == 0)
            return &feeds[i];
    }
    return NULL;
}

static bool has_input(const sc_image_func *func, const char *name)
{
    for (uint32_t i = 0; i < func->input_count; i++) {
        if (strcmp(func->inputs[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Lists the inputs of all calls, each once, as "tokens, targets"; truncated if `room` is too
 * small. */
static void list_inputs(const sc_image *image, const sc_image_call *calls, uint32_t count,
                        char *out, size_t room)
{
    size_t at = 0;
    out[0] = 0;
    for (uint32_t c = 0; c < count; c++) {
        const sc_image_func *func = &image->funcs[calls[c].func];
        for (uint32_t i = 0; i < func->input_count && at < room; i++) {
            bool is_known = false;
            for (uint32_t before = 0; before < c && !is_known; before++)
                is_known = has_input(&image->funcs[calls[before].func], func->inputs[i].name);
            if (!is_known)
                at += (size_t)snprintf(out + at, room - at, "%s%s", at > 0 ? ", " : "",
                                       func->inputs[i].name);
        }
    }
}

static shardc_status refuse_name(const sc_image *image, const sc_image_call *calls, uint32_t count,
                                 const char *name, shardc_error *error)
{
    char names[300];
    list_inputs(image, calls, count, names, sizeof names);
    return sc_fail(error, SHARDC_ERROR_ARGUMENT, "there is no input '%.100s'; '%.60s' has %s", name,
                   image->funcs[calls[count - 1].func].name, names[0] == 0 ? "none" : names);
}

/* Describes the position of element `at`: "[B = 1, S = 5]". */
static void describe_place(const sc_image_value *input, const sc_whole *whole, int64_t at,
                           char *out, size_t room)
{
    int64_t places[SC_IMAGE_MAX_RANK];
    for (uint32_t i = input->tensor.rank; i-- > 0;) {
        int64_t size =
            input->tensor.dims[i].size * ((int32_t)i == whole->batch_dim ? whole->batches : 1);
        places[i] = at % size;
        at /= size;
    }
    size_t length = (size_t)snprintf(out, room, "[");
    for (uint32_t i = 0; i < input->tensor.rank && length < room; i++)
        length += (size_t)snprintf(out + length, room - length, "%s%s = %lld", i > 0 ? ", " : "",
                                   input->tensor.dims[i].name, (long long)places[i]);
    if (length < room)
        snprintf(out + length, room - length, "]");
}

/* Checks integers: each must be representable in the input's dtype, and ids must be in range. */
static shardc_status check_values(const sc_image_value *input, const sc_whole *whole, size_t bytes,
                                  shardc_error *error)
{
    char place[200], limit[64] = "";
    uint64_t count = bytes / sc_element_size(whole->element), stored = 0;
    sc_element element = sc_element_of_dtype(input->tensor.dtype);
    if (sc_dtype_is_float(input->tensor.dtype) || (element == whole->element && input->below == 0))
        return SHARDC_OK;
    for (uint64_t i = 0; i < count; i++) {
        double value = sc_element_load(whole->element, whole->data, i);
        bool is_in_range = input->below == 0 || (value >= 0 && value < (double)input->below) ||
                           (input->may_ignore && value == (double)input->ignore);
        if (is_in_range && sc_element_store(element, &stored, 0, value))
            continue;
        describe_place(input, whole, (int64_t)i, place, sizeof place);
        if (!is_in_range)
            snprintf(limit, sizeof limit, ": at least 0 and less than %lld",
                     (long long)input->below);
        return sc_fail(error, SHARDC_ERROR_DATA,
                       "input '%.100s' is %.17g at %s, which is not a valid %s%s; nothing was run",
                       input->name, value, place,
                       is_in_range ? sc_dtypes[input->tensor.dtype].name : "id", limit);
    }
    return SHARDC_OK;
}

/* Describes the part of the caller's array that one call reads. */
static sc_whole whole_of(const sc_image_value *input, const shardc_feed_value *feed,
                         const sc_image_call *call, int64_t batches)
{
    return (sc_whole){.data = (void *)feed->data,
                      .batch_dim = batches > 1 ? input->batch_dim : -1,
                      .batch = call->micro_batch < 0 ? 0 : call->micro_batch,
                      .batches = batches};
}

static shardc_status check_feed(const sc_image_func *func, const sc_image_value *input,
                                const shardc_feed_value *feed, const sc_image_call *call,
                                int64_t batches, shardc_error *error)
{
    if (feed == NULL || feed->data == NULL)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "input '%s' of '%s' is not given", input->name,
                       func->name);
    sc_whole whole = whole_of(input, feed, call, batches);
    shardc_status status =
        sc_element_named(feed->dtype, input->tensor.dtype, &whole.element, error);
    if (status == SHARDC_OK)
        status =
            sc_check_bytes(&input->tensor, &whole, "input", input->name, feed->bytes, false, error);
    return status == SHARDC_OK ? check_values(input, &whole, feed->bytes, error) : status;
}

/* Checks that every input of `calls` has a feed of the right size with valid values. A function
 * called for several micro-batches is checked once. */
static shardc_status check_feeds(const sc_image *image, const sc_image_call *calls,
                                 uint32_t call_count, int64_t batches,
                                 const shardc_feed_value *feeds, size_t feed_count,
                                 shardc_error *error)
{
    for (size_t i = 0; i < feed_count; i++) {
        bool is_known = false;
        if (feeds[i].name == NULL)
            return sc_fail(error, SHARDC_ERROR_ARGUMENT, "feed %zu has no name", i);
        for (uint32_t c = 0; c < call_count && !is_known; c++)
            is_known = has_input(&image->funcs[calls[c].func], feeds[i].name);
        if (!is_known)
            return refuse_name(image, calls, call_count, feeds[i].name, error);
        if (find_feed(feeds, i, feeds[i].name) != NULL)
            return sc_fail(error, SHARDC_ERROR_ARGUMENT, "input '%s' is given twice",
                           feeds[i].name);
    }
    for (uint32_t c = 0; c < call_count; c++) {
        const sc_image_func *func = &image->funcs[calls[c].func];
        bool is_checked = c > 0 && calls[c - 1].func == calls[c].func;
        if (!is_checked) {
            for (uint32_t i = 0; i < func->input_count; i++) {
                const sc_image_value *input = &func->inputs[i];
                shardc_status status =
                    check_feed(func, input, find_feed(feeds, feed_count, input->name), &calls[c],
                               batches, error);
                if (status != SHARDC_OK)
                    return status;
            }
        }
    }
    return SHARDC_OK;
}

/* `batches`: the number of micro-batches that the arrays hold. */
static shardc_status feed_call(shardc_session *session, const sc_image_call *call, int64_t batches,
                               const shardc_feed_value *feeds, size_t feed_count,
                               shardc_error *error)
{
    const sc_image_func *func = &session->image->funcs[call->func];
    for (uint32_t i = 0; i < func->input_count; i++) {
        const sc_image_value *input = &func->inputs[i];
        const shardc_feed_value *feed = find_feed(feeds, feed_count, input->name);
        sc_whole whole = whole_of(input, feed, call, batches);
        shardc_status status =
            sc_element_named(feed->dtype, input->tensor.dtype, &whole.element, error);
        if (status == SHARDC_OK)
            status = sc_session_scatter(session, &input->tensor, input->buffer, &whole, input->name,
                                        error);
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}

/* ---- lists of calls of several stages ---- */

typedef struct staged_run {
    uint32_t func; /* of the session's image: whose calls run; SC_NONE: those of the schedule */
    const shardc_feed_value *feeds;
    size_t feed_count;
    int64_t batches;
} staged_run;

/* Sets the inputs of a call on one rank. The values were checked. */
static shardc_status feed_rank(sc_rank *rank, const sc_image_call *call, const staged_run *run,
                               shardc_error *error)
{
    const sc_image_func *func = &rank->image->funcs[call->func];
    for (uint32_t i = 0; i < func->input_count; i++) {
        const sc_image_value *input = &func->inputs[i];
        const shardc_feed_value *feed = find_feed(run->feeds, run->feed_count, input->name);
        sc_whole whole = whole_of(input, feed, call, run->batches);
        shardc_status status =
            sc_element_named(feed->dtype, input->tensor.dtype, &whole.element, error);
        if (status == SHARDC_OK)
            status =
                sc_rank_scatter(rank, &input->tensor, input->buffer, &whole, input->name, error);
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}

/* Runs one call of a list. Sets rank->has_lost_world if the rank cannot go on. */
static shardc_status run_call_of(sc_rank *rank, const sc_image_call *call, const staged_run *run,
                                 shardc_error *error)
{
    shardc_status status = feed_rank(rank, call, run, error);
    if (status == SHARDC_OK)
        return sc_rank_run(rank, call->func,
                           call->micro_batch < 0 ? 0 : (uint32_t)call->micro_batch, error);
    rank->has_lost_world = true;
    sc_comm_abort(rank->comm, error->text);
    return status;
}

static sc_image_list list_of(const sc_rank *rank, uint32_t func)
{
    uint32_t stage = sc_image_stage_of(rank->session->image, rank->rank),
             own = func == SC_NONE ? SC_NONE : rank->session->program->all.funcs[func][stage];
    bool is_missing = func != SC_NONE && own == SC_NONE;
    return is_missing ? (sc_image_list){0}
                      : sc_image_list_of(rank->image, func == SC_NONE ? 0 : 1 + own);
}

/* Runs the list of the rank's stage. After a failed check the rank goes on, because others wait for
 * its messages; but before the last call of a schedule, which updates the state, all ranks meet,
 * and it only runs if none has failed. */
static shardc_status run_list(sc_rank *rank, void *user, shardc_error *error)
{
    const staged_run *run = user;
    const sc_image_list list = list_of(rank, run->func);
    bool meets = run->func == SC_NONE && rank->session->image->call_count > 1;
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < list.count; i++) {
        bool is_last = run->func == SC_NONE && i + 1 == list.count;
        if (rank->has_lost_world)
            break;
        if (is_last && meets)
            status = sc_rank_meet(rank, status, error);
        if (is_last && status != SHARDC_OK)
            break;
        shardc_error reason = {.status = SHARDC_OK};
        shardc_status own = run_call_of(rank, &list.calls[i], run, &reason);
        if (own != SHARDC_OK && (status == SHARDC_OK || rank->has_lost_world))
            status = sc_fail(error, own, "%s", reason.text);
    }
    return drain(rank, status, error);
}

/* ---- calls ---- */

/* The calls one after the other, each on all ranks. */
static shardc_status run_in_turn(shardc_session *session, const sc_image_call *calls,
                                 uint32_t count, int64_t batches, const shardc_feed_value *feeds,
                                 size_t feed_count, shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < count; i++) {
        if (status != SHARDC_OK)
            break;
        run_call call = {calls[i].func,
                         calls[i].micro_batch < 0 ? 0 : (uint32_t)calls[i].micro_batch};
        status = sc_session_agree(
            session, feed_call(session, &calls[i], batches, feeds, feed_count, error), error);
        if (status != SHARDC_OK)
            break;
        sc_session_each_rank(session, run_rank, &call);
        status = sc_session_outcome(session, error);
    }
    return status;
}

static shardc_status run_calls(shardc_session *session, const sc_image_call *calls, uint32_t count,
                               int64_t batches, const shardc_feed_value *feeds, size_t feed_count,
                               const shardc_fetch_value *fetches, size_t fetch_count,
                               shardc_error *error)
{
    const sc_image_func *last = &session->image->funcs[calls[count - 1].func];
    shardc_status status = sc_session_recover(session, error);
    if (status != SHARDC_OK)
        return status;
    status = check_feeds(session->image, calls, count, batches, feeds, feed_count, error);
    if (status == SHARDC_OK)
        status = sc_session_check_fetches(last, fetches, fetch_count, error);
    /* if one process got invalid values, the others must not wait for it */
    status = sc_session_agree(session, status, error);
    bool is_step = calls == session->image->schedule,
         is_staged = session->image->pipeline.count > 0 && (is_step || last->batches > 0);
    if (status == SHARDC_OK && is_staged) {
        staged_run run = {is_step ? SC_NONE : calls[0].func, feeds, feed_count, batches};
        sc_session_each_rank(session, run_list, &run);
        status = sc_session_outcome(session, error);
    } else if (status == SHARDC_OK)
        status = run_in_turn(session, calls, count, batches, feeds, feed_count, error);
    return status == SHARDC_OK ? sc_session_fetch(session, last, fetches, fetch_count, error)
                               : status;
}

/* True if a stage's list calls the function, and it starts or waits for messages: other calls of
 * the list have the other half. */
static bool is_part_of_list(const shardc_session *session, uint32_t func)
{
    const sc_program *program = &session->program->all;
    for (uint32_t s = 0; s < program->stage_count; s++) {
        const sc_image *image = program->stages[s];
        uint32_t own = program->funcs[func][s];
        if (own != SC_NONE && sc_image_is_called(image, own) &&
            sc_image_has_messages(&image->funcs[own]))
            return true;
    }
    return false;
}

shardc_status shardc_session_run(shardc_session *session, uint32_t func,
                                 const shardc_feed_value *feeds, size_t feed_count,
                                 const shardc_fetch_value *fetches, size_t fetch_count,
                                 shardc_error *error)
{
    if (func >= session->image->func_count)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "there is no function %u", func);
    if (session->image->pipeline.count > 0 && is_part_of_list(session, func))
        return sc_fail(
            error, SHARDC_ERROR_ARGUMENT,
            "function '%s' exchanges messages with other calls of a step or an entry: it "
            "runs only as part of one",
            session->image->funcs[func].name);
    sc_image_call call = {func, (int32_t)session->micro_batch};
    uint32_t batches = session->image->funcs[func].batches;
    return run_calls(session, &call, 1, batches > 0 ? batches : 1, feeds, feed_count, fetches,
                     fetch_count, error);
}

shardc_status shardc_session_step(shardc_session *session, const shardc_feed_value *feeds,
                                  size_t feed_count, const shardc_fetch_value *fetches,
                                  size_t fetch_count, shardc_error *error)
{
    const sc_image *image = session->image;
    if (image->call_count == 0)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "the program has no steps, only functions");
    return run_calls(session, image->schedule, image->call_count,
                     shardc_executable_micro_batches(session->program), feeds, feed_count, fetches,
                     fetch_count, error);
}
