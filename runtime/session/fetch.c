/* Gathers outputs: of a function, or of all micro-batches of one that runs as several. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session/session.h"

/* The caller's array for an output; that of a function of several micro-batches has all their rows,
 * if they are joined so. */
static sc_whole whole_of(const sc_image_func *func, const sc_image_value *output,
                         const shardc_fetch_value *fetch)
{
    return (sc_whole){
        .data = fetch->data, .batch_dim = output->batch_dim, .batches = func->batches};
}

shardc_status sc_session_check_fetches(const sc_image_func *func, const shardc_fetch_value *fetches,
                                       size_t count, shardc_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (fetches[i].output >= func->output_count || fetches[i].data == NULL)
            return sc_fail(error, SHARDC_ERROR_ARGUMENT,
                           "output %u of '%s', which has %u, or no room for it", fetches[i].output,
                           func->name, func->output_count);
        const sc_image_value *output = &func->outputs[fetches[i].output];
        sc_whole whole = whole_of(func, output, &fetches[i]);
        char name[32];
        snprintf(name, sizeof name, "%u", fetches[i].output);
        shardc_status status =
            sc_element_named(fetches[i].dtype, output->tensor.dtype, &whole.element, error);
        if (status == SHARDC_OK)
            status = sc_check_bytes(&output->tensor, &whole, "output",
                                    output->name[0] != 0 ? output->name : name, fetches[i].bytes,
                                    true, error);
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}

/* ---- sums over micro-batches ---- */

static int64_t elements_of(const sc_image_tensor *tensor)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        count *= tensor->dims[i].size;
    return count;
}

/* Rounds the sums to the output's dtype, then stores them as the caller's elements. */
static shardc_status give_sums(const sc_image_value *output, const double *sums, double factor,
                               const sc_whole *whole, shardc_error *error)
{
    sc_element element = sc_element_of_dtype(output->tensor.dtype);
    int64_t count = elements_of(&output->tensor);
    for (int64_t i = 0; i < count; i++) {
        uint64_t rounded = 0;
        if (!sc_element_store(element, &rounded, 0, sums[i] * factor) ||
            !sc_element_store(whole->element, whole->data, (uint64_t)i,
                              sc_element_load(element, &rounded, 0)))
            return sc_fail(error, SHARDC_ERROR_DATA,
                           "element %lld of '%s' is not a value of the requested dtype",
                           (long long)i, output->name);
    }
    return SHARDC_OK;
}

/* Adds the results of all micro-batches, in their order. */
static shardc_status add_up(shardc_session *session, const sc_image_func *func,
                            const sc_image_value *output, double *sums, double *one,
                            shardc_error *error)
{
    int64_t count = elements_of(&output->tensor);
    for (uint32_t b = 0; b < func->batches; b++) {
        const sc_whole part = {.data = one, .element = SC_ELEMENT_F64, .batch_dim = -1, .batch = b};
        shardc_status status =
            sc_session_gather(session, &output->tensor, output->buffer, &part, output->name, error);
        if (status != SHARDC_OK)
            return status;
        for (int64_t i = 0; i < count; i++)
            sums[i] += one[i];
    }
    return SHARDC_OK;
}

/* The processes of a session agree whether each has the memory. */
static shardc_status check_memory(shardc_session *session, const sc_image_value *output,
                                  bool has_memory, shardc_error *error)
{
    shardc_status status =
        has_memory ? SHARDC_OK
                   : sc_fail(error, SHARDC_ERROR_MEMORY,
                             "there is not enough memory to add up the micro-batches of '%s'",
                             output->name);
    return sc_session_agree(session, status, error);
}

static shardc_status fetch_sum(shardc_session *session, const sc_image_func *func,
                               const sc_image_value *output, const sc_whole *whole,
                               shardc_error *error)
{
    size_t count = (size_t)elements_of(&output->tensor);
    double *sums = calloc(2 * count, sizeof *sums),
           factor = output->join == SC_JOIN_MEAN ? 1.0 / func->batches : 1;
    shardc_status status = check_memory(session, output, sums != NULL, error);
    if (sums == NULL)
        return status;
    if (status == SHARDC_OK)
        status = add_up(session, func, output, sums, sums + count, error);
    if (status == SHARDC_OK)
        status = give_sums(output, sums, factor, whole, error);
    free(sums);
    return status;
}

/* ---- outputs ---- */

static shardc_status fetch(shardc_session *session, const sc_image_func *func,
                           const sc_image_value *output, sc_whole *whole, shardc_error *error)
{
    uint32_t parts = output->join == SC_JOIN_ROWS ? func->batches : 1;
    if (output->join == SC_JOIN_SUM || output->join == SC_JOIN_MEAN)
        return fetch_sum(session, func, output, whole, error);
    for (uint32_t b = 0; b < parts; b++) {
        whole->batch = b;
        shardc_status status =
            sc_session_gather(session, &output->tensor, output->buffer, whole, output->name, error);
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}

shardc_status sc_session_fetch(shardc_session *session, const sc_image_func *func,
                               const shardc_fetch_value *fetches, size_t count, shardc_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const sc_image_value *output = &func->outputs[fetches[i].output];
        sc_whole whole = whole_of(func, output, &fetches[i]);
        shardc_status status =
            sc_element_named(fetches[i].dtype, output->tensor.dtype, &whole.element, error);
        if (status == SHARDC_OK)
            status = fetch(session, func, output, &whole, error);
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}
