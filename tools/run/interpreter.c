/* The reference interpreter as an executor. A train step comes with two programs, the step and the
 * forward entry; the second is given the first one's parameters whenever they have changed.
 *
 * A program that is cut into stages has other functions than those that it was cut from. Whoever
 * runs a step knows the latter: a call for each micro-batch, and one for the update. So the inputs
 * of the micro-batches are kept, and the update's call runs the whole schedule. */
#include <stdlib.h>
#include <string.h>

#include "runtime/session/shard.h"
#include "support/hash.h"
#include "tools/run/run.h"
#include "tools/verify/verification_run.h"

enum { PROGRAMS = 2 };

typedef struct interpreter {
    /* the per-rank programs, or the global ones for one device; NULL: none */
    const sc_module *modules[PROGRAMS];
    sc_interp *interps[PROGRAMS];        /* the second is NULL until needed */
    uint32_t first_func;                 /* index of the second program's first function */
    const sc_sym *input_names[PROGRAMS]; /* of an entry that is cut, in order */
    /* of a step that is cut: its two functions, as others know them; else SC_NONE */
    sc_func_id micro, update;
    uint32_t micro_batch; /* of the next run */
    /* [micro-batch][input]: their inputs */
    sc_array *kept;
    uint32_t micro_batches, input_count;
    bool is_stale; /* the second program's parameters are out of date */
} interpreter;

static const sc_module *module_of(const sc_compiled *c)
{
    return sc_mesh_ranks(&c->local->mesh) > 1 ? c->local : c->global;
}

static sc_interp *new_interp(const sc_module *m)
{
    return sc_interp_new(m,
                         &(sc_interp_options){.ranks = sc_mesh_ranks(&m->mesh) > 1, .round = true});
}

/* ---- state ---- */

static bool no_memory(shardc_error *error)
{
    *error = (shardc_error){.status = SHARDC_ERROR_MEMORY, .text = "there is not enough memory"};
    return false;
}

/* Sets a parameter's value, and that of its master copy. */
static bool set_state(void *self, uint32_t state, const double *values, shardc_error *error)
{
    interpreter *in = self;
    const sc_module *m = in->modules[0];
    sc_sym name = sc_intern_printf(&m->context->names, "%s.master",
                                   sc_text(m->context, m->state.data[state].path));
    uint32_t master =
        m->state.data[state].kind == SC_STATE_PARAM ? sc_module_find_state(m, name) : SC_NONE;
    in->is_stale = true;
    bool ok = sc_interp_set_state(in->interps[0], state, values) &&
              (master == SC_NONE || sc_interp_set_state(in->interps[0], master, values));
    return ok || no_memory(error);
}

static sc_array get_state(void *self, uint32_t state, shardc_error *error)
{
    sc_array array = sc_interp_get_state(((interpreter *)self)->interps[0], state, NULL);
    if (array.data == NULL)
        no_memory(error);
    return array;
}

/* ---- shards: a single one, the whole tensor, with elements of the state's dtype ---- */

static const sc_type_info *type_of(const interpreter *in, uint32_t state)
{
    const sc_module *m = in->modules[0];
    return sc_state_type(m, state);
}

static void place(void *self, uint32_t state, uint64_t rank, sc_shard_place *out)
{
    const sc_type_info *type = type_of(self, state);
    (void)rank;
    *out = (sc_shard_place){.rank = type->rank, .is_given = true};
    for (uint32_t d = 0; d < type->rank; d++)
        out->sizes[d] = out->local[d] = type->dims[d].size;
}

static bool read_shard(void *self, uint32_t state, uint64_t rank, void *room, const void **out,
                       shardc_error *error)
{
    sc_element element = sc_element_of_dtype(type_of(self, state)->dtype);
    sc_array array = get_state(self, state, error);
    bool ok = array.data != NULL;
    (void)rank;
    for (int64_t i = 0; i < array.count; i++) {
        if (!ok)
            break;
        ok = sc_element_store(element, room, (uint64_t)i, array.data[i]);
    }
    sc_array_free(&array);
    *out = room;
    return ok || no_memory(error);
}

static void *shard_room(void *self, uint32_t state, uint64_t rank, void *room)
{
    (void)self;
    (void)state;
    (void)rank;
    return room;
}

static bool write_shard(void *self, uint32_t state, uint64_t rank, const void *filled,
                        shardc_error *error)
{
    interpreter *in = self;
    sc_element element = sc_element_of_dtype(type_of(in, state)->dtype);
    sc_array array = get_state(self, state, error);
    bool ok = array.data != NULL;
    (void)rank;
    if (ok) {
        for (int64_t i = 0; i < array.count; i++)
            array.data[i] = sc_element_load(element, filled, (uint64_t)i);
        ok = sc_interp_set_state(in->interps[0], state, array.data);
    }
    sc_array_free(&array);
    in->is_stale = true;
    return ok || no_memory(error);
}

void sc_initial_values(const sc_module *m, uint32_t state_index, uint64_t seed, double *values)
{
    const sc_state *state = &m->state.data[state_index];
    const char *path = sc_text(m->context, state->path);
    uint64_t stream = sc_fnv1a64(path, strlen(path));
    int64_t count = sc_type_elements(&m->types.data[state->type]);
    sc_init_values(state->init, state->init_args, seed, stream, 0, (uint64_t)count, values);
}

static bool initialise(void *self, uint64_t seed, shardc_error *error)
{
    const sc_module *m = ((interpreter *)self)->modules[0];
    for (uint32_t s = 0; s < m->state.count; s++) {
        int64_t count = sc_type_elements(sc_state_type(m, s));
        if (m->state.data[s].kind != SC_STATE_PARAM)
            continue;
        double *values = (uint64_t)count > SIZE_MAX / sizeof *values
                             ? NULL
                             : malloc((size_t)count * sizeof *values);
        if (values != NULL)
            sc_initial_values(m, s, seed, values);
        bool ok = values != NULL && set_state(self, s, values, error);
        free(values);
        if (!ok)
            return no_memory(error);
    }
    return true;
}

static void set_random(void *self, uint64_t seed, uint64_t step, uint32_t micro_batch)
{
    interpreter *in = self;
    in->micro_batch = micro_batch;
    sc_interp_set_random(in->interps[0], seed, step, micro_batch);
}

/* ---- running ---- */

static bool copy_parameters(interpreter *in)
{
    const sc_module *from = in->modules[0], *to = in->modules[1];
    for (uint32_t s = 0; s < to->state.count; s++) {
        if (to->state.data[s].kind != SC_STATE_PARAM)
            continue;
        uint32_t source = sc_module_find_state(from, to->state.data[s].path);
        sc_array array =
            source == SC_NONE ? (sc_array){0} : sc_interp_get_state(in->interps[0], source, NULL);
        bool ok = array.data != NULL && sc_interp_set_state(in->interps[1], s, array.data);
        sc_array_free(&array);
        if (!ok)
            return false;
    }
    in->is_stale = false;
    return true;
}

/* Keeps the inputs of a micro-batch until the step's last call. */
static bool keep_inputs(interpreter *in, const sc_array *inputs, uint32_t input_count)
{
    for (uint32_t i = 0; i < input_count; i++) {
        sc_array *kept = &in->kept[in->micro_batch * in->input_count + i];
        sc_array_free(kept);
        *kept = sc_array_new(inputs[i].rank, inputs[i].sizes);
        if (kept->data == NULL)
            return false;
        memcpy(kept->data, inputs[i].data, (size_t)inputs[i].count * sizeof *kept->data);
    }
    return true;
}

/* Runs the whole schedule of a program that is cut: a step on the inputs that were kept, an entry
 * on those given. */
static bool run_stages(interpreter *in, bool is_second, const sc_array *inputs,
                       uint32_t input_count, sc_array *outputs, uint32_t output_count,
                       shardc_error *error)
{
    const sc_module *m = in->modules[is_second];
    bool is_step = !is_second && in->micro != SC_NONE;
    sc_interp_inputs named = {
        .names = in->input_names[is_second], .values = inputs, .count = input_count};
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        const sc_call *call = &m->schedule.data[i];
        uint32_t micro_batch = call->microbatch < 0 ? 0 : (uint32_t)call->microbatch;
        if (is_step) {
            named.values = &in->kept[micro_batch * in->input_count];
            named.count = in->input_count;
        }
        bool returns = sc_output_count(m, call->func) > 0;
        if (!sc_interp_run_call(in->interps[is_second], call, &named, outputs,
                                returns ? output_count : 0, error->text, sizeof error->text))
            return false;
    }
    return true;
}

static bool run(void *self, uint32_t func, const sc_array *inputs, uint32_t input_count,
                sc_array *outputs, uint32_t output_count, shardc_error *error)
{
    interpreter *in = self;
    bool is_second = func >= in->first_func;
    error->status = SHARDC_ERROR_DATA;
    if (is_second && in->interps[1] == NULL)
        in->interps[1] = new_interp(in->modules[1]);
    if (is_second && (in->interps[1] == NULL || (in->is_stale && !copy_parameters(in))))
        return no_memory(error);
    in->is_stale = in->is_stale || !is_second;
    if (!is_second && func == in->micro)
        return keep_inputs(in, inputs, input_count) || no_memory(error);
    if (sc_module_is_cut(in->modules[is_second]))
        return run_stages(in, is_second, inputs, input_count, outputs, output_count, error);
    return sc_interp_run(in->interps[is_second], is_second ? func - in->first_func : func, inputs,
                         input_count, outputs, output_count, error->text, sizeof error->text);
}

static void free_interpreter(void *self)
{
    interpreter *in = self;
    sc_interp_free(in->interps[0]);
    sc_interp_free(in->interps[1]);
    for (uint32_t i = 0; i < in->micro_batches * in->input_count; i++)
        sc_array_free(&in->kept[i]);
    free(in->kept);
    free(in);
}

static const sc_executor_verbs verbs = {
    .set_state = set_state,
    .get_state = get_state,
    .initialise = initialise,
    .set_random = set_random,
    .run = run,
    .place = place,
    .read_shard = read_shard,
    .shard_room = shard_room,
    .write_shard = write_shard,
    .free = free_interpreter,
};

/* ---- descriptions ---- */

static shardc_tensor_info info_of(const sc_module *m, sc_sym name, const sc_type_info *type)
{
    shardc_tensor_info info = {.name = sc_text(m->context, name),
                               .kind = "",
                               .dtype = sc_dtypes[type->dtype].name,
                               .rank = type->rank,
                               .batch_dim = -1,
                               .count = 1};
    for (uint32_t d = 0; d < type->rank; d++) {
        info.dims[d].name = sc_text(m->context, m->dims.data[type->dims[d].dim].name);
        info.dims[d].size = type->dims[d].size;
        info.dims[d].local = sc_type_local_size(m, type, d);
        info.count *= type->dims[d].size;
    }
    return info;
}

static bool describe_func(const sc_module *m, sc_func_id id, sc_dim batch, sc_executor_func *func)
{
    const sc_op *returned = sc_op_at(m, m->funcs.data[id].last);
    uint32_t inputs = 0, at = 0,
             outputs = sc_op_has(returned, SC_RETURNS) ? returned->operand_count : 0;
    sc_for_each_op (m, id, op)
        inputs += sc_op_has(sc_op_at(m, op), SC_FROM_OUTSIDE);
    func->name = sc_text(m->context, m->funcs.data[id].name);
    if (!sc_executor_reserve_func(func, inputs, outputs))
        return false;
    sc_for_each_op (m, id, op) {
        if (!sc_op_has(sc_op_at(m, op), SC_FROM_OUTSIDE))
            continue;
        const sc_type_info *type = sc_type_of(m, sc_result(m, op, 0));
        func->inputs[at] = info_of(m, sc_op_word(sc_op_at(m, op), SC_ATTR_name), type);
        func->inputs[at++].batch_dim = batch == SC_NONE ? -1 : sc_type_find_dim(type, batch);
    }
    for (uint32_t i = 0; i < outputs; i++)
        func->outputs[i] = info_of(m, m->values.data[returned->operands[i]].path,
                                   sc_type_of(m, returned->operands[i]));
    return true;
}

/* ---- programs that are cut ---- */

/* Lists the names of the inputs of an entry, or of a micro-batch; returns their number. */
static uint32_t list_inputs(const sc_compiled *c, const sc_sym **names)
{
    const sc_module *m = c->global;
    uint32_t count = 0;
    sc_sym *list = sc_arena_array(&m->context->arena, m->ops.count + 1u, sizeof *list);
    sc_for_each_op (m, c->global_step == NULL ? c->func : c->global_step->micro, op) {
        if (sc_op_has(sc_op_at(m, op), SC_FROM_OUTSIDE))
            list[count++] = sc_op_word(sc_op_at(m, op), SC_ATTR_name);
    }
    *names = list;
    return count;
}

/* Makes room for the inputs of a step that is cut; false: out of memory. */
static bool prepare_step(interpreter *in, const sc_compiled *c)
{
    const sc_module *m = in->modules[0];
    in->input_count = list_inputs(c, &in->input_names[0]);
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        int32_t micro_batch = m->schedule.data[i].microbatch;
        if (micro_batch >= (int32_t)in->micro_batches)
            in->micro_batches = (uint32_t)micro_batch + 1;
    }
    in->micro = c->step->micro;
    in->update = c->step->update;
    in->kept = calloc((size_t)in->micro_batches * in->input_count + 1, sizeof *in->kept);
    return in->kept != NULL;
}

/* In place of what it was described as. */
static bool describe_again(const sc_module *m, sc_func_id id, sc_dim batch, sc_executor_func *func)
{
    free(func->inputs);
    free(func->outputs);
    return describe_func(m, id, batch, func);
}

/* Describes a program that is cut as the one that it was cut from. */
static bool describe_cut(const interpreter *in, uint32_t program, const sc_compiled *c,
                         sc_executor *executor)
{
    sc_executor_func *funcs = &executor->funcs[program == 0 ? 0 : in->first_func];
    const sc_train_step *step = c->global_step;
    if (program != 0 || in->micro == SC_NONE)
        return describe_again(c->global, c->func, SC_NONE, &funcs[c->func]);
    executor->call_count = 0;
    for (uint32_t i = 0; i < in->micro_batches; i++)
        executor->calls[executor->call_count++] = (sc_executor_call){in->micro, (int32_t)i};
    executor->calls[executor->call_count++] = (sc_executor_call){in->update, -1};
    return describe_again(c->global, step->micro, step->training->batch_dim, &funcs[in->micro]) &&
           describe_again(c->global, step->update, SC_NONE, &funcs[in->update]);
}

static bool describe(const interpreter *in, const sc_training *training, sc_executor *executor)
{
    const sc_module *m = in->modules[0], *second = in->modules[1];
    uint32_t more = second == NULL ? 0 : second->funcs.count;
    if (!sc_executor_reserve(executor, m->state.count, m->funcs.count + more, m->schedule.count))
        return false;
    for (uint32_t s = 0; s < m->state.count; s++) {
        executor->states[s] = info_of(m, m->state.data[s].path, sc_state_type(m, s));
        executor->states[s].kind = sc_state_kind_names[m->state.data[s].kind];
        int64_t bytes = executor->states[s].count * sc_dtypes[sc_state_type(m, s)->dtype].bytes;
        executor->room_bytes = bytes > executor->room_bytes ? bytes : executor->room_bytes;
    }
    for (uint32_t i = 0; i < m->schedule.count; i++)
        executor->calls[i] =
            (sc_executor_call){m->schedule.data[i].func, m->schedule.data[i].microbatch};
    executor->ranks = sc_mesh_ranks(&in->modules[0]->mesh);
    executor->micro_batches = training == NULL ? 1 : (uint32_t)training->micro_batches;
    for (sc_func_id f = 0; f < m->funcs.count + more; f++) {
        bool is_second = f >= m->funcs.count;
        sc_dim batch = training == NULL || is_second ? SC_NONE : training->batch_dim;
        if (!describe_func(is_second ? second : m, is_second ? f - m->funcs.count : f, batch,
                           &executor->funcs[f]))
            return false;
    }
    return true;
}

sc_executor *sc_interpreter_new(const sc_compiled *c, const sc_compiled *second)
{
    sc_executor *executor = calloc(1, sizeof *executor);
    interpreter *in = calloc(1, sizeof *in);
    const sc_compiled *programs[PROGRAMS] = {c, second};
    const sc_train_step *step = sc_mesh_ranks(&c->local->mesh) > 1 ? c->step : c->global_step;
    if (executor == NULL || in == NULL) {
        free(executor);
        free(in);
        return NULL;
    }
    executor->verbs = &verbs;
    executor->self = in;
    in->modules[0] = module_of(c);
    in->modules[1] = second == NULL ? NULL : module_of(second);
    in->first_func = in->modules[0]->funcs.count;
    in->is_stale = true;
    in->interps[0] = new_interp(in->modules[0]);
    in->micro = in->update = SC_NONE;
    bool ok = in->interps[0] != NULL &&
              describe(in, step == NULL ? NULL : step->training, executor) &&
              (step == NULL || !sc_module_is_cut(in->modules[0]) || prepare_step(in, c));
    for (uint32_t p = 0; p < PROGRAMS; p++) {
        if (!ok || in->modules[p] == NULL || !sc_module_is_cut(in->modules[p]))
            continue;
        list_inputs(programs[p], &in->input_names[p]);
        ok = describe_cut(in, p, programs[p], executor);
    }
    if (!ok) {
        sc_executor_free(executor);
        return NULL;
    }
    return executor;
}
