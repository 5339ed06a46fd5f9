/* Loads and saves session state as safetensors files: parameters through the program's weights map,
 * or all state by its paths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/drive/executor.h"
#include "runtime/drive/load_weights.h"
#include "runtime/drive/save_weights.h"
#include "runtime/files/safetensors.h"
#include "runtime/session/session.h"

/* ---- by paths ---- */

/* True if the file contains the state: parameters, and with `all` optimizer state. That includes
 * master copies, which have the exact values; parameters are roundings of them. */
static bool is_saved(const sc_image_state *state, bool all)
{
    return state->kind == SC_STATE_PARAM || (all && state->kind == SC_STATE_OPT);
}

static shardc_status refuse_file(const sc_safetensors_error *reason, shardc_error *error)
{
    return sc_fail(error, SHARDC_ERROR_DATA, "%.*s", (int)strcspn(reason->text, "\n"),
                   reason->text);
}

static bool is_float(sc_element element)
{
    return element == SC_ELEMENT_F64 || element == SC_ELEMENT_F32 || element == SC_ELEMENT_BF16 ||
           element == SC_ELEMENT_F16;
}

static shardc_status check_tensor(const sc_image_state *state, const sc_safetensor *tensor,
                                  const char *path, shardc_error *error)
{
    if (tensor == NULL)
        return sc_fail(error, SHARDC_ERROR_DATA, "%s has no tensor '%s'", path, state->path);
    bool fits = tensor->rank == state->tensor.rank;
    for (uint32_t i = 0; fits && i < tensor->rank; i++)
        fits = tensor->shape[i] == (uint64_t)state->tensor.dims[i].size;
    if (!fits)
        return sc_fail(error, SHARDC_ERROR_DATA,
                       "%s: tensor '%s' is of another shape than the program's", path, state->path);
    if (is_float(tensor->element) != sc_dtype_is_float(state->tensor.dtype))
        return sc_fail(error, SHARDC_ERROR_DATA, "%s: tensor '%s' holds %s, the program's is %s",
                       path, state->path, sc_element_name(tensor->element),
                       sc_dtypes[state->tensor.dtype].name);
    return SHARDC_OK;
}

static shardc_status check_file(const shardc_session *session, const sc_safetensors *file,
                                const char *path, bool all, shardc_error *error)
{
    const sc_image *image = session->image;
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < image->state_count; i++) {
        if (status != SHARDC_OK)
            break;
        if (is_saved(&image->states[i], all))
            status = check_tensor(&image->states[i],
                                  sc_safetensors_find(file, image->states[i].path), path, error);
    }
    return status;
}

static shardc_status set_state(shardc_session *session, uint32_t index, const sc_safetensors *file,
                               const sc_safetensor *tensor, shardc_error *error)
{
    const char *reason;
    void *room = malloc((size_t)tensor->bytes + 1);
    shardc_status status;
    if (room == NULL)
        status = sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for tensor '%s'",
                         tensor->name);
    else if (!sc_safetensors_read_stored(file, tensor, 0, tensor->count, room, &reason))
        status = sc_fail(error, SHARDC_ERROR_DATA, "%s: tensor '%s' cannot be read: %s",
                         sc_safetensors_label(file, tensor), tensor->name, reason);
    else
        status = sc_session_set_elements(session, index, room, tensor->element, error);
    free(room);
    return status;
}

/* Sets the parameters, or the other states. */
static shardc_status set_states_if(shardc_session *session, const sc_safetensors *file, bool params,
                                   bool all, shardc_error *error)
{
    const sc_image *image = session->image;
    for (uint32_t i = 0; i < image->state_count; i++) {
        const sc_image_state *state = &image->states[i];
        if (!is_saved(state, all) || (state->kind == SC_STATE_PARAM) != params)
            continue;
        shardc_status status =
            set_state(session, i, file, sc_safetensors_find(file, state->path), error);
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}

/* Sets parameters first: setting a parameter also sets its master copy, which must then be
 * overwritten by its own value. */
static shardc_status set_states(shardc_session *session, const sc_safetensors *file, bool all,
                                shardc_error *error)
{
    shardc_status status = set_states_if(session, file, true, all, error);
    if (status == SHARDC_OK)
        status = set_states_if(session, file, false, all, error);
    return sc_session_agree(session, status, error);
}

static shardc_status load_paths(shardc_session *session, const char *path, bool all,
                                shardc_error *error)
{
    sc_safetensors_error reason = {0};
    sc_safetensors *file = sc_safetensors_open(path, &reason);
    shardc_status status =
        file == NULL ? refuse_file(&reason, error) : check_file(session, file, path, all, error);
    status = sc_session_agree(session, status, error);
    if (status == SHARDC_OK)
        status = set_states(session, file, all, error);
    sc_safetensors_close(file);
    return status;
}

typedef struct saving {
    uint32_t count, *states; /* by item */
    sc_safetensors_item *items;
    uint64_t (*shapes)[SC_IMAGE_MAX_RANK];
    void *room; /* scratch for the largest of them */
    size_t room_bytes;
    sc_safetensors_writer *writer;
    bool writes; /* this process writes, unless an error occurred */
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
    s->items[at] = (sc_safetensors_item){.name = state->path,
                                         .element = sc_element_of_dtype(state->tensor.dtype),
                                         .rank = state->tensor.rank,
                                         .shape = s->shapes[at]};
    return bytes;
}

/* Adds the states to save; returns the bytes of the largest, at least 1. */
static uint64_t add_items(const sc_image *image, bool all, saving *s)
{
    uint64_t largest = 1;
    for (uint32_t i = 0; i < image->state_count; i++) {
        uint64_t bytes = is_saved(&image->states[i], all) ? add_item(&image->states[i], i, s) : 0;
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

static shardc_status list_items(const shardc_session *session, bool all, saving *s,
                                shardc_error *error)
{
    const sc_image *image = session->image;
    s->items = calloc(image->state_count + 1u, sizeof *s->items);
    s->shapes = calloc(image->state_count + 1u, sizeof *s->shapes);
    s->states = calloc(image->state_count + 1u, sizeof *s->states);
    bool is_listed = s->items != NULL && s->shapes != NULL && s->states != NULL;
    uint64_t largest = is_listed ? add_items(image, all, s) : 1;
    s->room_bytes = largest;
    s->room = malloc(largest);
    if (is_listed && s->room != NULL)
        return SHARDC_OK;
    return sc_fail(error, SHARDC_ERROR_MEMORY,
                   "there is not enough memory to write the state: %llu bytes",
                   (unsigned long long)largest);
}

/* Gathers one value at a time. After a write error gathering continues, because the other ranks
 * take part. */
static shardc_status save_items(shardc_session *session, saving *s, shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < s->count; i++) {
        if (status != SHARDC_OK)
            break;
        status =
            shardc_session_get_state(session, s->states[i], s->room, s->room_bytes, NULL, error);
        if (status == SHARDC_OK && s->writes)
            sc_safetensors_add(s->writer, s->room);
    }
    return status;
}

static shardc_status save_paths(shardc_session *session, const char *path, bool all,
                                shardc_error *error)
{
    sc_safetensors_writer writer;
    saving s = {.writer = &writer};
    sc_safetensors_error reason = {0};
    shardc_status status = list_items(session, all, &s, error);
    bool is_writer = session->first_rank == 0 && status == SHARDC_OK;
    s.writes =
        is_writer && sc_safetensors_create(&writer, path, s.items, s.count, NULL, 0, &reason);
    if (is_writer && !s.writes)
        status = refuse_file(&reason, error);
    status = sc_session_agree(session, status, error);
    if (status == SHARDC_OK)
        status = save_items(session, &s, error);
    if (s.writes && !sc_safetensors_end(&writer, status == SHARDC_OK) && status == SHARDC_OK)
        status = refuse_file(&reason, error);
    status = sc_session_agree(session, status, error); /* also waits until the file exists */
    free(s.items);
    free(s.shapes);
    free(s.states);
    free(s.room);
    return status;
}

/* ---- through the map ---- */

typedef struct mapping {
    shardc_session *session;
    const char *path;
    bool saves, is_agreed; /* is_agreed: all ranks know whether file and map are usable */
    bool is_refused;       /* they are not: no more communication */
    sc_facts facts;
    shardc_status status;
    shardc_error *error;
} mapping;

/* Takes the first message as the error text. */
static void take_message(mapping *m, const sc_context *context)
{
    if (m->status != SHARDC_OK || context->diag.errors == 0)
        return;
    uint32_t errors = context->diag.suppressed;
    for (uint32_t i = 0; i < context->diag.list.count; i++)
        errors += sc_diag_rows[context->diag.list.data[i].id].severity == SC_ERROR;
    const char *more = errors > 1 ? " (and more)" : "";
    for (uint32_t i = 0; i < context->diag.list.count; i++) {
        const sc_diagnostic *d = &context->diag.list.data[i];
        if (sc_diag_rows[d->id].severity == SC_ERROR) {
            m->status = sc_fail(m->error, SHARDC_ERROR_DATA, "%.400s%s", d->text, more);
            return;
        }
    }
}

/* Called once on every rank: an error on one must fail all before anything changes. */
static bool agree(mapping *m)
{
    if (!m->is_agreed) {
        m->status = sc_session_agree(m->session, m->status, m->error);
        m->is_refused = m->status != SHARDC_OK;
    }
    m->is_agreed = true;
    return m->status == SHARDC_OK;
}

/* Returns the state of a parameter of the map, which may also contain parameters that the program
 * lacks. */
static uint32_t state_of(const mapping *m, uint32_t param)
{
    return shardc_executable_find_state(m->session->program, m->facts.weights.params[param].path);
}

/* All ranks open the file before any of them changes its parameters. */
static void load_map(sc_context *context, mapping *m)
{
    sc_weights_reading *reading = sc_weights_open(context, &m->facts.weights, m->path);
    sc_executor *executor = sc_executor_of_session(m->session->program, m->session);
    if (reading == NULL)
        take_message(m, context);
    else if (executor == NULL)
        m->status =
            sc_fail(m->error, SHARDC_ERROR_MEMORY, "there is not enough memory for the parameters");
    if (agree(m))
        sc_weights_fill(reading, executor);
    sc_executor_free(executor);
    sc_weights_close(reading);
}

static sc_array take_values(void *user, uint32_t param)
{
    mapping *m = user;
    const sc_fact_param *about = &m->facts.weights.params[param];
    uint32_t state = state_of(m, param);
    sc_array array = sc_array_new(about->rank, about->sizes);
    if (state == SHARDC_NOT_FOUND)
        m->status = sc_fail(m->error, SHARDC_ERROR_ARGUMENT,
                            "the program has no '%s', which the weights map writes", about->path);
    else if (array.data == NULL)
        m->status = sc_fail(m->error, SHARDC_ERROR_MEMORY,
                            "there is not enough memory to write '%s'", about->path);
    else
        m->status =
            shardc_session_get_state(m->session, state, array.data,
                                     (size_t)array.count * sizeof *array.data, "f64", m->error);
    if (m->status != SHARDC_OK)
        sc_array_free(&array);
    return array;
}

static void go_through_map(sc_context *context, void *user)
{
    mapping *m = user;
    const char *wrong =
        sc_facts_read(shardc_executable_facts(m->session->program), &context->arena, &m->facts);
    if (wrong != NULL)
        m->status = sc_fail(m->error, SHARDC_ERROR_DATA, "%s", wrong);
    else if (!m->facts.weights.is_known)
        m->status = sc_fail(
            m->error, SHARDC_ERROR_ARGUMENT,
            "the program was built without one of the model's weights maps: build it with --map");
    if (m->status == SHARDC_OK && !m->saves)
        load_map(context, m);
    if (m->status == SHARDC_OK && m->saves) {
        sc_weights_file *file = sc_weights_file_new(context, &m->facts.weights, NULL);
        if (file != NULL)
            sc_weights_save(file, m->session->first_rank == 0 ? m->path : NULL, take_values, m);
    }
    take_message(m, context);
}

/* Programs made by hand contain no facts. */
static bool has_map(const shardc_session *session)
{
    const char *facts = shardc_executable_facts(session->program);
    return facts[0] != 0 && strcmp(facts, "{}") != 0;
}

static shardc_status map_file(shardc_session *session, const char *path, bool saves,
                              shardc_error *error)
{
    sc_context context;
    shardc_error reason = {.status = SHARDC_OK};
    mapping m = {.session = session, .path = path, .saves = saves, .error = &reason};
    if (!sc_context_run(&context, 0, go_through_map, &m))
        m.status =
            sc_fail(&reason, SHARDC_ERROR_MEMORY, "there is not enough memory for the parameters");
    sc_context_free(&context);
    if (!m.is_refused)
        m.status = sc_session_agree(
            session, m.status, &reason); /* loading: everything was read; saving: the file exists */
    return m.status == SHARDC_OK ? SHARDC_OK : sc_fail(error, m.status, "%s", reason.text);
}

/* ---- public functions ---- */

shardc_status shardc_session_load(shardc_session *session, const char *path, bool all,
                                  shardc_error *error)
{
    return all || !has_map(session) ? load_paths(session, path, all, error)
                                    : map_file(session, path, false, error);
}

shardc_status shardc_session_save(shardc_session *session, const char *path, bool all,
                                  shardc_error *error)
{
    return all || !has_map(session) ? save_paths(session, path, all, error)
                                    : map_file(session, path, true, error);
}
