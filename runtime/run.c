/* Calls of functions: inputs in, every rank runs, outputs out. */
#include <string.h>

#include "runtime/session.h"

typedef struct run_call {
    uint32_t func, micro_batch;
} run_call;

static shardc_status run_rank(sc_rank *rank, void *user, shardc_error *error)
{
    const run_call *call = user;
    return sc_rank_run(rank, call->func, call->micro_batch, error);
}

/* ---- inputs ---- */

static const shardc_feed_value *find_feed(const shardc_feed_value *feeds, size_t count, const char *name)
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

/* Every input has its value; the functions are those of `calls`. */
static shardc_status check_feeds(const sc_image *image, const sc_image_call *calls, uint32_t call_count, const shardc_feed_value *feeds,
                                 size_t feed_count, shardc_error *error)
{
    for (uint32_t c = 0; c < call_count; c++) {
        const sc_image_func *func = &image->funcs[calls[c].func];
        for (uint32_t i = 0; i < func->input_count; i++) {
            const shardc_feed_value *feed = find_feed(feeds, feed_count, func->inputs[i].name);
            if (feed == NULL || feed->data == NULL)
                return sc_fail(error, SHARDC_ERROR_ARGUMENT, "input '%s' of '%s' is not given", func->inputs[i].name, func->name);
        }
    }
    for (size_t i = 0; i < feed_count; i++) {
        bool is_known = false;
        for (uint32_t c = 0; c < call_count && !is_known; c++)
            is_known = has_input(&image->funcs[calls[c].func], feeds[i].name);
        if (!is_known)
            return sc_fail(error, SHARDC_ERROR_ARGUMENT, "there is no input '%s'", feeds[i].name);
        if (find_feed(feeds, i, feeds[i].name) != NULL)
            return sc_fail(error, SHARDC_ERROR_ARGUMENT, "input '%s' is given twice", feeds[i].name);
    }
    return SHARDC_OK;
}

/* `batches`: how many micro-batches the values hold. */
static shardc_status feed_call(shardc_session *session, const sc_image_call *call, int64_t batches, const shardc_feed_value *feeds,
                               size_t feed_count, shardc_error *error)
{
    const sc_image_func *func = &session->image->funcs[call->func];
    for (uint32_t i = 0; i < func->input_count; i++) {
        const sc_image_value *input = &func->inputs[i];
        const shardc_feed_value *feed = find_feed(feeds, feed_count, input->name);
        sc_whole whole = {.data = (void *)feed->data,
                          .batch_dim = batches > 1 ? input->batch_dim : -1,
                          .batch = call->micro_batch < 0 ? 0 : call->micro_batch,
                          .batches = batches};
        shardc_status status = sc_element_named(feed->dtype, input->tensor.dtype, &whole.element, error);
        if (status == SHARDC_OK)
            status = sc_session_scatter(session, &input->tensor, input->buffer, &whole, input->name, error);
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}

/* ---- outputs ---- */

static shardc_status check_fetches(const sc_image_func *func, const shardc_fetch_value *fetches, size_t count, shardc_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (fetches[i].output >= func->output_count || fetches[i].data == NULL)
            return sc_fail(error, SHARDC_ERROR_ARGUMENT, "output %u of '%s', which has %u, or no room for it", fetches[i].output,
                           func->name, func->output_count);
    }
    return SHARDC_OK;
}

static shardc_status fetch_call(shardc_session *session, const sc_image_func *func, const shardc_fetch_value *fetches, size_t count,
                                shardc_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const sc_image_value *output = &func->outputs[fetches[i].output];
        sc_whole whole = {.data = fetches[i].data, .batch_dim = -1};
        shardc_status status = sc_element_named(fetches[i].dtype, output->tensor.dtype, &whole.element, error);
        if (status == SHARDC_OK)
            status = sc_session_gather(session, &output->tensor, output->buffer, &whole, output->name, error);
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}

/* ---- calls ---- */

static shardc_status run_calls(shardc_session *session, const sc_image_call *calls, uint32_t count, int64_t batches,
                               const shardc_feed_value *feeds, size_t feed_count, const shardc_fetch_value *fetches, size_t fetch_count,
                               shardc_error *error)
{
    const sc_image_func *last = &session->image->funcs[calls[count - 1].func];
    shardc_status status = check_feeds(session->image, calls, count, feeds, feed_count, error);
    if (status == SHARDC_OK)
        status = check_fetches(last, fetches, fetch_count, error);
    if (status == SHARDC_OK)
        status = sc_session_recover(session, error);
    for (uint32_t i = 0; status == SHARDC_OK && i < count; i++) {
        run_call call = {calls[i].func, calls[i].micro_batch < 0 ? 0 : (uint32_t)calls[i].micro_batch};
        status = sc_session_agree(session, feed_call(session, &calls[i], batches, feeds, feed_count, error), error);
        if (status != SHARDC_OK)
            break;
        sc_session_each_rank(session, run_rank, &call);
        status = sc_session_outcome(session, error);
    }
    return status == SHARDC_OK ? fetch_call(session, last, fetches, fetch_count, error) : status;
}

shardc_status shardc_session_run(shardc_session *session, uint32_t func, const shardc_feed_value *feeds, size_t feed_count,
                                 const shardc_fetch_value *fetches, size_t fetch_count, shardc_error *error)
{
    if (func >= session->image->func_count)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "there is no function %u", func);
    sc_image_call call = {func, (int32_t)session->micro_batch};
    return run_calls(session, &call, 1, 1, feeds, feed_count, fetches, fetch_count, error);
}

shardc_status shardc_session_step(shardc_session *session, const shardc_feed_value *feeds, size_t feed_count,
                                  const shardc_fetch_value *fetches, size_t fetch_count, shardc_error *error)
{
    const sc_image *image = session->image;
    if (image->call_count == 0)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "the program has no steps, only functions");
    return run_calls(session, image->schedule, image->call_count, shardc_executable_micro_batches(session->program), feeds, feed_count,
                     fetches, fetch_count, error);
}
