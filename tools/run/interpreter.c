/* The reference interpreter as an executor. A train step comes with two programs, the step and the
 * forward entry; the second is given the first one's parameters whenever they have changed.
 *
 * A program that is cut into stages has other functions than those that it was cut from: an entry
 * is described as it was, and runs the whole schedule. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session/shard.h"
#include "support/hash.h"
#include "tools/run/interpret_stages.h"
#include "tools/run/run.h"
#include "tools/verify/join_batches.h"
#include "tools/verify/verification_run.h"

enum { PROGRAMS = 2 };

typedef struct interpreter {
    /* the per-rank programs, or the global ones for one device; NULL: none */
    const sc_module *modules[PROGRAMS];
    const sc_compiled *programs[PROGRAMS];
    sc_interp *interps[PROGRAMS]; /* the second is NULL until needed */
    uint32_t first_func;          /* index of the second program's first function */
    const sc_executor *executor;  /* describes the step */
    uint64_t seed, step;          /* of the next run */
    bool is_stale;                /* the second program's parameters are out of date */
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
    *out = (sc_shard_place){.rank = type->rank, .is_held = true, .is_given = true};
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
    in->seed = seed;
    in->step = step;
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

/* The function's inputs, in its order. */
static bool order_inputs(const sc_executor_func *func, const sc_named_arrays *inputs,
                         sc_array *ordered, shardc_error *error)
{
    for (uint32_t i = 0; i < func->input_count; i++) {
        uint32_t at = 0;
        while (at < inputs->count && strcmp(inputs->names[at], func->inputs[i].name) != 0)
            at++;
        if (at == inputs->count) {
            snprintf(error->text, sizeof error->text, "input '%s' is not given",
                     func->inputs[i].name);
            return false;
        }
        ordered[i] = inputs->arrays[at];
    }
    return true;
}

/* Runs one function of a program that is not cut. */
static bool run_func(interpreter *in, uint32_t func, const sc_named_arrays *inputs,
                     sc_array *outputs, uint32_t output_count, shardc_error *error)
{
    bool is_second = func >= in->first_func;
    const sc_executor_func *about = &in->executor->funcs[func];
    sc_array *ordered = calloc(about->input_count + 1u, sizeof *ordered);
    if (ordered == NULL)
        return no_memory(error);
    bool ok =
        order_inputs(about, inputs, ordered, error) &&
        sc_interp_run(in->interps[is_second], is_second ? func - in->first_func : func, ordered,
                      about->input_count, outputs, output_count, error->text, sizeof error->text);
    free(ordered);
    return ok;
}

static bool run(void *self, uint32_t func, const sc_named_arrays *inputs, sc_array *outputs,
                uint32_t output_count, shardc_error *error)
{
    interpreter *in = self;
    bool is_second = func >= in->first_func, ok = true;
    const sc_module *m = in->modules[is_second];
    error->status = SHARDC_ERROR_DATA;
    if (is_second && in->interps[1] == NULL)
        in->interps[1] = new_interp(in->modules[1]);
    if (is_second && (in->interps[1] == NULL || (in->is_stale && !copy_parameters(in))))
        return no_memory(error);
    in->is_stale = in->is_stale || !is_second;
    if (!sc_module_is_cut(m))
        return run_func(in, func, inputs, outputs, output_count, error);
    if (in->programs[is_second]->batches != NULL)
        return sc_interpret_batches(in->interps[is_second], m, in->programs[is_second],
                                    &in->executor->funcs[func], inputs, outputs, output_count,
                                    error);
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        if (ok)
            ok = sc_interpret_call(in->interps[is_second], m, &m->schedule.data[i], inputs, outputs,
                                   output_count, error);
    }
    return ok;
}

/* ---- steps ---- */

/* Makes room for the inputs of one micro-batch; false: out of memory. */
static bool make_parts(const interpreter *in, const sc_named_arrays *inputs, sc_array *parts)
{
    bool ok = true;
    for (uint32_t i = 0; i < inputs->count; i++) {
        const shardc_tensor_info *info =
            sc_executor_find_input(&in->executor->step, inputs->names[i]);
        int64_t sizes[SC_ARRAY_MAX_RANK];
        uint32_t rank = info == NULL ? 0 : info->rank; /* NULL: nothing reads it */
        for (uint32_t d = 0; d < rank; d++)
            sizes[d] = info->dims[d].size;
        parts[i] = sc_array_new(rank, sizes);
        ok = ok && parts[i].data != NULL;
    }
    return ok;
}

static bool run_call(interpreter *in, const sc_call *call, bool is_last,
                     const sc_named_arrays *inputs, sc_array *parts, sc_array *outputs,
                     uint32_t output_count, shardc_error *error)
{
    const sc_module *m = in->modules[0];
    const sc_named_arrays named = {inputs->names, parts, inputs->count};
    for (uint32_t i = 0; i < inputs->count; i++) {
        const shardc_tensor_info *info =
            sc_executor_find_input(&in->executor->step, inputs->names[i]);
        if (info != NULL)
            sc_take_batch(&inputs->arrays[i], info->batch_dim, call->microbatch, &parts[i]);
    }
    sc_interp_set_random(in->interps[0], in->seed, in->step,
                         call->microbatch < 0 ? 0 : (uint32_t)call->microbatch);
    return sc_module_is_cut(m)
               ? sc_interpret_call(in->interps[0], m, call, &named, outputs, output_count, error)
               : run_func(in, call->func, &named, outputs, is_last ? output_count : 0, error);
}

static bool step(void *self, const sc_named_arrays *inputs, sc_array *outputs,
                 uint32_t output_count, shardc_error *error)
{
    interpreter *in = self;
    const sc_module *m = in->modules[0];
    sc_array *parts = calloc(inputs->count + 1u, sizeof *parts);
    bool ok = parts != NULL && make_parts(in, inputs, parts);
    *error = (shardc_error){.status = SHARDC_ERROR_DATA, .text = "there is not enough memory"};
    in->is_stale = true;
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        if (ok)
            ok = run_call(in, &m->schedule.data[i], i + 1 == m->schedule.count, inputs, parts,
                          outputs, output_count, error);
    }
    if (parts == NULL)
        return false;
    for (uint32_t i = 0; i < inputs->count; i++)
        sc_array_free(&parts[i]);
    free(parts);
    return ok;
}

static void free_interpreter(void *self)
{
    interpreter *in = self;
    sc_interp_free(in->interps[0]);
    sc_interp_free(in->interps[1]);
    free(in);
}

static const sc_executor_verbs verbs = {
    .set_state = set_state,
    .get_state = get_state,
    .initialise = initialise,
    .set_random = set_random,
    .run = run,
    .step = step,
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

/* In place of what it was described as. */
static bool describe_again(const sc_module *m, sc_func_id id, sc_dim batch, sc_executor_func *func)
{
    free(func->inputs);
    free(func->outputs);
    return describe_func(m, id, batch, func);
}

/* Describes a step as one function: its micro-batch's inputs, and the outputs of its end. */
static bool describe_step(const sc_compiled *c, sc_executor *executor)
{
    const sc_module *m = c->global;
    sc_executor_func update = {0};
    bool ok = describe_func(m, c->global_step->micro, c->global_step->training->batch_dim,
                            &executor->step) &&
              describe_func(m, c->global_step->update, SC_NONE, &update);
    free(update.inputs);
    free(executor->step.outputs);
    executor->step.outputs = update.outputs;
    executor->step.output_count = update.output_count;
    executor->step.name = "step";
    return ok;
}

static bool describe(const interpreter *in, const sc_training *training, sc_executor *executor)
{
    const sc_module *m = in->modules[0], *second = in->modules[1];
    uint32_t more = second == NULL ? 0 : second->funcs.count;
    if (!sc_executor_reserve(executor, m->state.count, m->funcs.count + more))
        return false;
    for (uint32_t s = 0; s < m->state.count; s++) {
        executor->states[s] = info_of(m, m->state.data[s].path, sc_state_type(m, s));
        executor->states[s].kind = sc_state_kind_names[m->state.data[s].kind];
        int64_t bytes = executor->states[s].count * sc_dtypes[sc_state_type(m, s)->dtype].bytes;
        executor->room_bytes = bytes > executor->room_bytes ? bytes : executor->room_bytes;
    }
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
    in->programs[0] = c;
    in->programs[1] = second;
    in->modules[0] = module_of(c);
    in->modules[1] = second == NULL ? NULL : module_of(second);
    in->first_func = in->modules[0]->funcs.count;
    in->is_stale = true;
    in->interps[0] = new_interp(in->modules[0]);
    in->executor = executor;
    bool ok = in->interps[0] != NULL &&
              describe(in, step == NULL ? NULL : step->training, executor) &&
              (c->global_step == NULL || describe_step(c, executor));
    for (uint32_t p = 0; p < PROGRAMS; p++) {
        bool is_entry = ok && in->modules[p] != NULL && sc_module_is_cut(in->modules[p]) &&
                        programs[p]->global_step == NULL;
        if (is_entry)
            ok =
                describe_again(programs[p]->whole, programs[p]->whole_func, SC_NONE,
                               &executor->funcs[(p == 0 ? 0 : in->first_func) + programs[p]->func]);
    }
    if (!ok) {
        sc_executor_free(executor);
        return NULL;
    }
    return executor;
}
