/* State in safetensors files, by its paths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/safetensors.h"
#include "runtime/session.h"

/* What a file holds: parameters, or also optimizer state. Masters are among that: they are the values, parameters only their roundings. */
static bool is_saved(const sc_image_state *state, bool all)
{
    return state->kind == SC_STATE_PARAM || (all && state->kind == SC_STATE_OPT);
}

/* ---- loading ---- */

static shardc_status refuse_file(const sc_safetensors_error *reason, shardc_error *error)
{
    return sc_fail(error, SHARDC_ERROR_DATA, "%.*s", (int)strcspn(reason->text, "\n"), reason->text);
}

static bool is_float(sc_element element)
{
    return element == SC_ELEMENT_F64 || element == SC_ELEMENT_F32 || element == SC_ELEMENT_BF16 || element == SC_ELEMENT_F16;
}

static shardc_status check_tensor(const sc_image_state *state, const sc_safetensor *tensor, const char *path, shardc_error *error)
{
    if (tensor == NULL)
        return sc_fail(error, SHARDC_ERROR_DATA, "%s has no tensor '%s'", path, state->path);
    bool fits = tensor->rank == state->tensor.rank;
    for (uint32_t i = 0; fits && i < tensor->rank; i++)
        fits = tensor->shape[i] == (uint64_t)state->tensor.dims[i].size;
    if (!fits)
        return sc_fail(error, SHARDC_ERROR_DATA, "%s: tensor '%s' is of another shape than the program's", path, state->path);
    if (is_float(tensor->element) != sc_dtype_is_float(state->tensor.dtype))
        return sc_fail(error, SHARDC_ERROR_DATA, "%s: tensor '%s' holds %s, the program's is %s", path, state->path,
                       sc_element_name(tensor->element), sc_dtypes[state->tensor.dtype].name);
    return SHARDC_OK;
}

static shardc_status check_file(const shardc_session *session, const sc_safetensors *file, const char *path, bool all, shardc_error *error)
{
    const sc_image *image = session->image;
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; status == SHARDC_OK && i < image->state_count; i++) {
        if (is_saved(&image->states[i], all))
            status = check_tensor(&image->states[i], sc_safetensors_find(file, image->states[i].path), path, error);
    }
    return status;
}

/* Parameters first: what sets a master with its parameter's value must not come after the master's own. */
static shardc_status set_states(shardc_session *session, const sc_safetensors *file, bool all, shardc_error *error)
{
    const sc_image *image = session->image;
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; status == SHARDC_OK && i < 2 * image->state_count; i++) {
        uint32_t index = i % image->state_count;
        const sc_image_state *state = &image->states[index];
        bool is_param = state->kind == SC_STATE_PARAM;
        if (!is_saved(state, all) || is_param != (i < image->state_count))
            continue;
        const sc_safetensor *tensor = sc_safetensors_find(file, state->path);
        status = sc_session_set_elements(session, index, tensor->data, tensor->element, error);
    }
    return status;
}

shardc_status shardc_session_load(shardc_session *session, const char *path, bool all, shardc_error *error)
{
    sc_safetensors_error reason = {0};
    sc_safetensors *file = sc_safetensors_open(path, &reason);
    shardc_status status = file == NULL ? refuse_file(&reason, error) : check_file(session, file, path, all, error);
    status = sc_session_agree(session, status, error);
    if (status == SHARDC_OK)
        status = set_states(session, file, all, error);
    sc_safetensors_close(file);
    return status;
}

/* ---- saving ---- */

typedef struct saving {
    uint32_t count;
    sc_safetensors_item *items;
    uint64_t (*shapes)[SC_IMAGE_MAX_RANK];
    void **values;
} saving;

static shardc_status gather_item(shardc_session *session, uint32_t index, saving *s, shardc_error *error)
{
    const sc_image_state *state = &session->image->states[index];
    uint32_t at = s->count;
    uint64_t bytes = sc_dtypes[state->tensor.dtype].bytes;
    for (uint32_t i = 0; i < state->tensor.rank; i++) {
        s->shapes[at][i] = (uint64_t)state->tensor.dims[i].size;
        bytes *= s->shapes[at][i];
    }
    s->values[at] = malloc(bytes);
    if (s->values[at] == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory to write '%s'", state->path);
    s->items[at] = (sc_safetensors_item){.name = state->path,
                                         .element = sc_element_of_dtype(state->tensor.dtype),
                                         .rank = state->tensor.rank,
                                         .shape = s->shapes[at],
                                         .raw = s->values[at]};
    s->count++;
    return shardc_session_get_state(session, index, s->values[at], NULL, error);
}

static shardc_status gather_items(shardc_session *session, bool all, saving *s, shardc_error *error)
{
    const sc_image *image = session->image;
    s->items = calloc(image->state_count + 1u, sizeof *s->items);
    s->shapes = calloc(image->state_count + 1u, sizeof *s->shapes);
    s->values = calloc(image->state_count + 1u, sizeof *s->values);
    if (s->items == NULL || s->shapes == NULL || s->values == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory to write the state");
    for (uint32_t i = 0; i < image->state_count; i++) {
        shardc_status status = is_saved(&image->states[i], all) ? gather_item(session, i, s, error) : SHARDC_OK;
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}

shardc_status shardc_session_save(shardc_session *session, const char *path, bool all, shardc_error *error)
{
    saving s = {0};
    sc_safetensors_error reason = {0};
    shardc_status status = gather_items(session, all, &s, error);
    if (status == SHARDC_OK && session->first_rank == 0 && !sc_safetensors_write(path, s.items, s.count, NULL, 0, &reason))
        status = refuse_file(&reason, error);
    status = sc_session_agree(session, status, error); /* and wait until the file is there */
    for (uint32_t i = 0; i < s.count; i++)
        free(s.values[i]);
    free(s.items);
    free(s.shapes);
    free(s.values);
    return status;
}
