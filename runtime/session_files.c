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
    uint32_t count, *states; /* by item */
    sc_safetensors_item *items;
    uint64_t (*shapes)[SC_IMAGE_MAX_RANK];
    void *room; /* for the largest of them */
    sc_safetensors_writer writer;
    bool writes; /* what is gathered is written here, as far as that went well */
} saving;

static uint64_t add_item(const sc_image_state *state, uint32_t index, saving *s)
{
    uint32_t at = s->count++;
    uint64_t bytes = sc_dtypes[state->tensor.dtype].bytes;
    for (uint32_t i = 0; i < state->tensor.rank; i++) {
        s->shapes[at][i] = (uint64_t)state->tensor.dims[i].size;
        bytes *= s->shapes[at][i];
    }
    s->states[at] = index;
    s->items[at] = (sc_safetensors_item){
        .name = state->path, .element = sc_element_of_dtype(state->tensor.dtype), .rank = state->tensor.rank, .shape = s->shapes[at]};
    return bytes;
}

static shardc_status list_items(const shardc_session *session, bool all, saving *s, shardc_error *error)
{
    const sc_image *image = session->image;
    uint64_t largest = 1;
    s->items = calloc(image->state_count + 1u, sizeof *s->items);
    s->shapes = calloc(image->state_count + 1u, sizeof *s->shapes);
    s->states = calloc(image->state_count + 1u, sizeof *s->states);
    for (uint32_t i = 0; s->items != NULL && s->shapes != NULL && s->states != NULL && i < image->state_count; i++) {
        uint64_t bytes = is_saved(&image->states[i], all) ? add_item(&image->states[i], i, s) : 0;
        largest = bytes > largest ? bytes : largest;
    }
    s->room = malloc(largest);
    if (s->items != NULL && s->shapes != NULL && s->states != NULL && s->room != NULL)
        return SHARDC_OK;
    return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory to write the state: %llu bytes", (unsigned long long)largest);
}

/* A value at a time. Whoever writes goes on gathering after a write has failed: the other ranks count on it. */
static shardc_status save_items(shardc_session *session, saving *s, shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; status == SHARDC_OK && i < s->count; i++) {
        status = shardc_session_get_state(session, s->states[i], s->room, NULL, error);
        if (status == SHARDC_OK && s->writes)
            sc_safetensors_add(&s->writer, s->room);
    }
    return status;
}

shardc_status shardc_session_save(shardc_session *session, const char *path, bool all, shardc_error *error)
{
    saving s = {0};
    sc_safetensors_error reason = {0};
    shardc_status status = list_items(session, all, &s, error);
    bool is_writer = session->first_rank == 0 && status == SHARDC_OK;
    s.writes = is_writer && sc_safetensors_create(&s.writer, path, s.items, s.count, NULL, 0, &reason);
    if (is_writer && !s.writes)
        status = refuse_file(&reason, error);
    status = sc_session_agree(session, status, error);
    if (status == SHARDC_OK)
        status = save_items(session, &s, error);
    if (s.writes && !sc_safetensors_end(&s.writer, status == SHARDC_OK) && status == SHARDC_OK)
        status = refuse_file(&reason, error);
    status = sc_session_agree(session, status, error); /* and wait until the file is there */
    free(s.items);
    free(s.shapes);
    free(s.states);
    free(s.room);
    return status;
}
