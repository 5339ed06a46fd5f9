/* The executor interface for a session. */
#include "runtime/drive/executor.h"

#include <stdlib.h>
#include <string.h>

#include "program/lookup.h"
#include "runtime/session/device.h"
#include "runtime/session/session.h"

bool sc_executor_reserve(sc_executor *executor, uint32_t states, uint32_t funcs)
{
    executor->states = calloc(states + 1u, sizeof *executor->states);
    executor->funcs = calloc(funcs + 1u, sizeof *executor->funcs);
    executor->state_count = states;
    executor->func_count = executor->funcs == NULL ? 0 : funcs;
    executor->micro_batches = 1;
    executor->rank_count = executor->local_ranks = 1;
    executor->is_first = true;
    return executor->states != NULL && executor->funcs != NULL;
}

bool sc_executor_reserve_func(sc_executor_func *func, uint32_t inputs, uint32_t outputs)
{
    func->inputs = calloc(inputs + 1u, sizeof *func->inputs);
    func->outputs = calloc(outputs + 1u, sizeof *func->outputs);
    func->input_count = inputs;
    func->output_count = outputs;
    return func->inputs != NULL && func->outputs != NULL;
}

uint32_t sc_executor_find_state(const sc_executor *executor, const char *path)
{
    for (uint32_t i = 0; i < executor->state_count; i++) {
        if (strcmp(executor->states[i].name, path) == 0)
            return i;
    }
    return SHARDC_NOT_FOUND;
}

static shardc_tensor_info *find_input(const sc_executor_func *func, const char *name)
{
    for (uint32_t i = 0; i < func->input_count; i++) {
        if (strcmp(func->inputs[i].name, name) == 0)
            return &func->inputs[i];
    }
    return NULL;
}

const shardc_tensor_info *sc_executor_find_input(const sc_executor_func *func, const char *name)
{
    return find_input(func, name);
}

void sc_executor_free(sc_executor *executor)
{
    if (executor == NULL)
        return;
    if (executor->self != NULL)
        executor->verbs->free(executor->self);
    for (uint32_t i = 0; i < executor->func_count; i++) {
        free(executor->funcs[i].inputs);
        free(executor->funcs[i].outputs);
    }
    free(executor->states);
    free(executor->funcs);
    free(executor->step.inputs);
    free(executor->step.outputs);
    free(executor);
}

/* ---- sessions ---- */

typedef struct session_executor {
    const shardc_executable *program;
    shardc_session *session;
    const sc_executor *executor;
} session_executor;

/* Size of the full tensor as doubles. */
static size_t whole_bytes(const shardc_tensor_info *info)
{
    return (size_t)info->count * sizeof(double);
}

static sc_array whole_array(const shardc_tensor_info *info)
{
    int64_t sizes[SC_ARRAY_MAX_RANK];
    for (uint32_t i = 0; i < info->rank; i++)
        sizes[i] = info->dims[i].size;
    return sc_array_new(info->rank, sizes);
}

static bool set_state(void *self, uint32_t state, const double *values, shardc_error *error)
{
    session_executor *m = self;
    return shardc_session_set_state(m->session, state, values,
                                    whole_bytes(&m->executor->states[state]), "f64",
                                    error) == SHARDC_OK;
}

/* Every process takes part even if it has no memory for the full tensor, because the others wait
 * for its shards. */
static sc_array get_state(void *self, uint32_t state, shardc_error *error)
{
    session_executor *m = self;
    const shardc_tensor_info *info = &m->executor->states[state];
    sc_array array = whole_array(info);
    shardc_status status = SHARDC_OK;
    if (array.data == NULL)
        status = sc_fail(error, SHARDC_ERROR_MEMORY,
                         "there is not enough memory for the values of '%s'", info->name);
    status = sc_session_agree(m->session, status, error);
    if (status == SHARDC_OK)
        status = shardc_session_get_state(m->session, state, array.data, whole_bytes(info), "f64",
                                          error);
    if (status != SHARDC_OK)
        sc_array_free(&array);
    return array;
}

static bool initialise(void *self, uint64_t seed, shardc_error *error)
{
    session_executor *m = self;
    shardc_session_set_random(m->session, seed, 0, 0);
    return shardc_session_initialise(m->session, error) == SHARDC_OK;
}

static void set_random(void *self, uint64_t seed, uint64_t step, uint32_t micro_batch)
{
    shardc_session_set_random(((session_executor *)self)->session, seed, step, micro_batch);
}

/* The arrays of a call of a session. */
typedef struct session_call {
    shardc_feed_value *feeds;
    shardc_fetch_value *fetches;
    size_t feed_count;
} session_call;

static void end_call(session_call *call)
{
    free(call->feeds);
    free(call->fetches);
}

/* Feeds the inputs that the function has, and makes room for its outputs; false: out of memory. */
static bool begin_call(const sc_executor_func *about, const sc_named_arrays *inputs,
                       sc_array *outputs, uint32_t output_count, session_call *out,
                       shardc_error *error)
{
    *error = (shardc_error){.status = SHARDC_ERROR_MEMORY,
                            .text = "there is not enough memory for the results"};
    *out = (session_call){.feeds = calloc(inputs->count + 1u, sizeof *out->feeds),
                          .fetches = calloc(output_count + 1u, sizeof *out->fetches)};
    if (out->feeds == NULL || out->fetches == NULL)
        return false;
    for (uint32_t i = 0; i < inputs->count; i++) {
        if (sc_executor_find_input(about, inputs->names[i]) != NULL)
            out->feeds[out->feed_count++] =
                (shardc_feed_value){inputs->names[i], inputs->arrays[i].data,
                                    (size_t)inputs->arrays[i].count * sizeof(double), "f64"};
    }
    bool ok = true;
    for (uint32_t i = 0; i < output_count; i++) {
        outputs[i] = whole_array(&about->outputs[i]);
        out->fetches[i] =
            (shardc_fetch_value){i, outputs[i].data, whole_bytes(&about->outputs[i]), "f64"};
        ok = ok && outputs[i].data != NULL;
    }
    return ok;
}

static bool run(void *self, uint32_t func, const sc_named_arrays *inputs, sc_array *outputs,
                uint32_t output_count, shardc_error *error)
{
    session_executor *m = self;
    session_call call;
    bool ok = begin_call(&m->executor->funcs[func], inputs, outputs, output_count, &call, error) &&
              shardc_session_run(m->session, func, call.feeds, call.feed_count, call.fetches,
                                 output_count, error) == SHARDC_OK;
    end_call(&call);
    return ok;
}

static bool step(void *self, const sc_named_arrays *inputs, sc_array *outputs,
                 uint32_t output_count, shardc_error *error)
{
    session_executor *m = self;
    session_call call;
    bool ok = begin_call(&m->executor->step, inputs, outputs, output_count, &call, error) &&
              shardc_session_step(m->session, call.feeds, call.feed_count, call.fetches,
                                  output_count, error) == SHARDC_OK;
    end_call(&call);
    return ok;
}

static bool most(void *self, int32_t mine, int32_t *out, shardc_error *error)
{
    shardc_session *session = ((session_executor *)self)->session;
    sc_comm_part part = {.source = &mine, .destination = out, .count = 1, .dtype = SC_DTYPE_i32};
    sc_comm_call call = {.kind = SC_COMM_ALL_REDUCE,
                         .reduce = SC_COMM_MAX,
                         .part_count = 1,
                         .parts = &part,
                         .what = "whether to stop"};
    *out = mine;
    if (session->rank_count == session->image->ranks)
        return true;
    if (sc_comm_run(sc_comm_world(session->ranks[0].comm), &call, error) == SHARDC_OK)
        return true;
    session->is_world_lost = true;
    return false;
}

static void place(void *self, uint32_t state, uint64_t rank, sc_shard_place *out)
{
    const sc_image_tensor *tensor =
        &((session_executor *)self)->session->image->states[state].tensor;
    *out = (sc_shard_place){.rank = tensor->rank,
                            .is_held = sc_image_has(tensor, rank),
                            .is_given = sc_shard_is_given(tensor, rank)};
    int64_t at[SC_IMAGE_MAX_RANK];
    sc_shard_box(tensor, rank, 0, at, out->first, out->sizes); /* a state is one box */
    for (uint32_t i = 0; i < tensor->rank; i++)
        out->local[i] = tensor->dims[i].local;
}

static bool read_shard(void *self, uint32_t state, uint64_t rank, void *room, const void **out,
                       shardc_error *error)
{
    return sc_session_read_shard(((session_executor *)self)->session, state, (uint32_t)rank, room,
                                 out, error) == SHARDC_OK;
}

static void *shard_room(void *self, uint32_t state, uint64_t rank, void *room)
{
    return sc_session_shard_room(((session_executor *)self)->session, state, (uint32_t)rank, room);
}

static bool write_shard(void *self, uint32_t state, uint64_t rank, const void *filled,
                        shardc_error *error)
{
    return sc_session_write_shard(((session_executor *)self)->session, state, (uint32_t)rank,
                                  filled, error) == SHARDC_OK;
}

static bool sum(void *self, int64_t *values, uint32_t count, const char *what, shardc_error *error)
{
    return sc_session_sum(((session_executor *)self)->session, values, count, what, error) ==
           SHARDC_OK;
}

/* ---- rows of inputs ---- */

/* Marks the rows of one box of an input, whose rows are along all dims but the last. */
static void mark_box(const sc_image_value *input, uint64_t rank, uint32_t box, int64_t batch,
                     int64_t batches, bool *rows, uint64_t count)
{
    const sc_image_tensor *tensor = &input->tensor;
    int64_t at[SC_IMAGE_MAX_RANK], first[SC_IMAGE_MAX_RANK], sizes[SC_IMAGE_MAX_RANK],
        dims[SC_IMAGE_MAX_RANK];
    sc_shard_box(tensor, rank, box, at, first, sizes);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        bool is_split = batches > 1 && input->batch_dim == (int32_t)i;
        dims[i] = tensor->dims[i].size * (is_split ? batches : 1);
        first[i] += is_split ? batch * tensor->dims[i].size : 0;
    }
    if (tensor->rank == 0 || sizes[tensor->rank - 1] <= 0)
        return;
    const sc_rows_place place = {dims, first};
    sc_rows runs = sc_rows_begin(tensor->rank - 1, sizes, place, place);
    for (; !runs.is_done; sc_rows_next(&runs)) {
        for (int64_t i = 0; i < runs.length; i++) {
            if ((uint64_t)(runs.a_at + i) < count)
                rows[runs.a_at + i] = true;
        }
    }
}

static void mark_call(const sc_rank *rank, const sc_image_call *call, int64_t batches,
                      const char *name, bool *rows, uint64_t count)
{
    const sc_image_func *func = &rank->image->funcs[call->func];
    for (uint32_t i = 0; i < func->input_count; i++) {
        const sc_image_value *input = &func->inputs[i];
        if (strcmp(input->name, name) != 0)
            continue;
        uint32_t boxes =
            sc_image_has(&input->tensor, rank->rank) ? sc_shard_boxes(&input->tensor) : 0;
        for (uint32_t box = 0; box < boxes; box++)
            mark_box(input, rank->rank, box, call->micro_batch < 0 ? 0 : call->micro_batch, batches,
                     rows, count);
    }
}

static void mark_rows(void *self, uint32_t func, const char *input, bool *rows, uint64_t count)
{
    const shardc_session *session = ((session_executor *)self)->session;
    const sc_program *all = &session->program->all;
    int64_t batches = func == SC_NONE ? shardc_executable_micro_batches(session->program)
                                      : session->image->funcs[func].batches;
    for (uint32_t r = 0; r < session->rank_count; r++) {
        const sc_rank *rank = &session->ranks[r];
        uint32_t stage = sc_image_stage_of(session->image, rank->rank),
                 own = func == SC_NONE ? SC_NONE : all->funcs[func][stage];
        if (func != SC_NONE && own == SC_NONE)
            continue;
        const sc_image_call alone = {own, 0};
        sc_image_list list = sc_image_list_of(rank->image, func == SC_NONE ? 0 : 1 + own);
        if (list.count == 0 && own != SC_NONE)
            list = (sc_image_list){&alone, 1};
        for (uint32_t i = 0; i < list.count; i++)
            mark_call(rank, &list.calls[i], batches, input, rows, count);
    }
}

static const sc_executor_verbs session_verbs = {
    .set_state = set_state,
    .get_state = get_state,
    .initialise = initialise,
    .set_random = set_random,
    .run = run,
    .step = step,
    .most = most,
    .place = place,
    .read_shard = read_shard,
    .shard_room = shard_room,
    .write_shard = write_shard,
    .sum = sum,
    .mark_rows = mark_rows,
    .free = free,
};

/* Shards in GPU memory and in files are copied through memory, one at a time. */
static int64_t room_bytes(const shardc_session *session)
{
    bool is_direct = session->device->is_host;
    for (uint32_t r = 0; r < session->rank_count; r++)
        is_direct = is_direct && session->ranks[r].host.file < 0;
    uint32_t largest = is_direct ? SC_NONE : sc_image_largest_saved(session->image);
    return largest == SC_NONE ? 0 : sc_image_tensor_bytes(&session->image->states[largest].tensor);
}

/* A step has the inputs of all its calls, each once, and the outputs of the last. */
/* An input of the step has the limits of all functions that read it. */
static void limit_ids(shardc_tensor_info *input, const shardc_tensor_info *other)
{
    sc_image_value both = {
        .below = input->below, .may_ignore = input->may_ignore, .ignore = input->ignore};
    const sc_image_value more = {
        .below = other->below, .may_ignore = other->may_ignore, .ignore = other->ignore};
    sc_image_limit_ids(&both, &more);
    input->below = both.below;
    input->may_ignore = both.may_ignore;
    input->ignore = both.ignore;
}

static bool describe_step(const shardc_executable *program, sc_executor *executor)
{
    uint32_t calls = shardc_executable_call_count(program), inputs = 0;
    sc_executor_func *step = &executor->step;
    int32_t micro_batch;
    if (calls == 0)
        return true;
    const sc_executor_func *last =
        &executor->funcs[shardc_executable_call(program, calls - 1, &micro_batch)];
    for (uint32_t f = 0; f < executor->func_count; f++)
        inputs += executor->funcs[f].input_count;
    step->name = "step";
    if (!sc_executor_reserve_func(step, inputs, last->output_count))
        return false;
    step->input_count = 0;
    for (uint32_t c = 0; c < calls; c++) {
        const sc_executor_func *func =
            &executor->funcs[shardc_executable_call(program, c, &micro_batch)];
        for (uint32_t i = 0; i < func->input_count; i++) {
            shardc_tensor_info *known = find_input(step, func->inputs[i].name);
            if (known == NULL)
                step->inputs[step->input_count++] = func->inputs[i];
            else
                limit_ids(known, &func->inputs[i]);
        }
    }
    for (uint32_t i = 0; i < last->output_count; i++)
        step->outputs[i] = last->outputs[i];
    return true;
}

static bool describe(const shardc_executable *program, sc_executor *executor)
{
    if (!sc_executor_reserve(executor, shardc_executable_state_count(program),
                             shardc_executable_func_count(program)))
        return false;
    executor->micro_batches = shardc_executable_micro_batches(program);
    for (uint32_t i = 0; i < executor->state_count; i++)
        shardc_executable_state(program, i, &executor->states[i]);
    for (uint32_t f = 0; f < executor->func_count; f++) {
        sc_executor_func *func = &executor->funcs[f];
        func->name = shardc_executable_func(program, f);
        if (!sc_executor_reserve_func(func, shardc_executable_input_count(program, f),
                                      shardc_executable_output_count(program, f)))
            return false;
        for (uint32_t i = 0; i < func->input_count; i++)
            shardc_executable_input(program, f, i, &func->inputs[i]);
        for (uint32_t i = 0; i < func->output_count; i++)
            shardc_executable_output(program, f, i, &func->outputs[i]);
    }
    return describe_step(program, executor);
}

sc_executor *sc_executor_of_session(const shardc_executable *program, shardc_session *session)
{
    sc_executor *executor = calloc(1, sizeof *executor);
    session_executor *self = calloc(1, sizeof *self);
    uint32_t first;
    if (executor == NULL || self == NULL) {
        free(executor);
        free(self);
        return NULL;
    }
    *self = (session_executor){program, session, executor};
    executor->verbs = &session_verbs;
    executor->self = self;
    if (!describe(program, executor)) {
        sc_executor_free(executor);
        return NULL;
    }
    executor->local_ranks = shardc_session_local_ranks(session, &first);
    executor->first_rank = first;
    executor->ranks = (uint64_t)session->image->ranks;
    executor->rank_count = (uint32_t)session->image->ranks;
    executor->arena_bytes = shardc_executable_arena_bytes(program);
    executor->room_bytes = room_bytes(session);
    executor->is_first = first == 0;
    return executor;
}

void sc_session_say_graphs(const shardc_session *session, FILE *to)
{
    shardc_graph_report report = {.refused = 0};
    if (session != NULL)
        shardc_session_graphs(session, &report);
    if (report.refused > 1)
        fprintf(to, "%s; so are %u others\n", report.reason, report.refused - 1);
    else if (report.refused == 1)
        fprintf(to, "%s\n", report.reason);
}
