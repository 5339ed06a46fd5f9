/* The executor: runs a function op by op on all ranks in lockstep. The arrays of a value live from
 * its op to its last use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp/internal.h"

/* ---- arrays ---- */

static double *new_data(const sc_interp *interp, const sc_layout *layout)
{
    return calloc((size_t)interp->ranks * (size_t)layout->count, sizeof(double));
}

static void drop(sc_held *held)
{
    free(held->data);
    held->data = NULL;
}

/* True if two types distribute the same elements to every rank. */
static bool same_shards(const sc_interp *interp, sc_type a, sc_type b)
{
    const sc_type_info *x = &interp->m->types.data[a], *y = &interp->m->types.data[b];
    if (a == b)
        return true;
    if (x->rank != y->rank ||
        (interp->options.ranks && !sc_placement_equal(&x->placement, &y->placement)))
        return false;
    for (uint32_t i = 0; i < x->rank; i++) {
        if (x->dims[i].dim != y->dims[i].dim || x->dims[i].size != y->dims[i].size)
            return false;
    }
    return true;
}

/* Floats only if requested; integers and bools always, so that they stay exact. */
static bool is_rounded(const sc_interp *interp, sc_type type)
{
    return interp->options.round || !sc_dtype_is_float(interp->m->types.data[type].dtype);
}

static void round_held(const sc_interp *interp, const sc_held *held, const sc_layout *layout)
{
    if (is_rounded(interp, held->type))
        sc_round_array(interp->m->types.data[held->type].dtype, held->data,
                       (int64_t)interp->ranks * layout->count);
}

/* ---- ops implemented by the executor ---- */

/* Returns the state that the op names, if its type matches `type`. */
static sc_held *find_state(sc_interp *interp, sc_op_id id, sc_type type)
{
    const sc_module *m = interp->m;
    sc_sym name = sc_op_word(sc_op_at(m, id), SC_ATTR_name);
    uint32_t state = sc_module_find_state(m, name);
    if (state >= interp->state_count || interp->state[state].data == NULL) {
        sc_interp_fail(interp, id, SC_NO_RANK, "there is no state '%s', or its sizes are not known",
                       sc_text(m->context, name));
        return NULL;
    }
    if (!same_shards(interp, interp->state[state].type, type)) {
        sc_interp_fail(interp, id, SC_NO_RANK, "state '%s' has another shape or placement",
                       sc_text(m->context, name));
        return NULL;
    }
    return &interp->state[state];
}

static bool run_state_read(sc_interp *interp, sc_op_id id)
{
    const sc_held *result = &interp->values[sc_result(interp->m, id, 0)];
    const sc_held *state = find_state(interp, id, result->type);
    if (state == NULL)
        return false;
    return sc_row_copy(result->data, state->data,
                       (int64_t)interp->ranks * sc_interp_layout(interp, result->type)->count);
}

/* State changes at the end of the run: see commit_writes. */
static bool run_state_write(sc_interp *interp, sc_op_id id)
{
    return find_state(interp, id, interp->values[sc_op_at(interp->m, id)->operands[0]].type) !=
           NULL;
}

static bool run_input(sc_interp *interp, sc_op_id id)
{
    const sc_held *result = &interp->values[sc_result(interp->m, id, 0)];
    const sc_type_info *type = &interp->m->types.data[result->type];
    if (interp->next_input >= interp->input_count)
        return sc_interp_fail(interp, id, SC_NO_RANK, "only %u inputs were given",
                              interp->input_count);
    const sc_array *input = &interp->inputs[interp->next_input++];
    bool fits = input->data != NULL && input->rank == type->rank;
    for (uint32_t i = 0; fits && i < type->rank; i++)
        fits = input->sizes[i] == type->dims[i].size;
    if (!fits)
        return sc_interp_fail(interp, id, SC_NO_RANK, "the given array is not of its shape");
    if (interp->options.ranks && sc_placement_partial(&type->placement, 0) != 0)
        return sc_interp_fail(interp, id, SC_NO_RANK, "an input cannot be a partial reduction");
    sc_interp_split(interp, result->type, input->data, result->data);
    return true;
}

static bool assemble_output(sc_interp *interp, sc_op_id id, const sc_held *value, sc_array *output)
{
    const sc_type_info *type = &interp->m->types.data[value->type];
    int64_t sizes[SC_MAX_RANK], first = 0, second = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        sizes[i] = type->dims[i].size;
    if (interp->options.ranks && sc_placement_partial(&type->placement, 0) != 0)
        return sc_interp_fail(interp, id, SC_NO_RANK,
                              "a result is returned as a partial reduction");
    *output = sc_array_new(type->rank, sizes);
    if (output->data == NULL)
        return sc_interp_fail(interp, id, SC_NO_RANK, "out of memory");
    return sc_interp_assemble(interp, value->type, value->data, output->data, &first, &second) ||
           sc_interp_fail(interp, id, second,
                          "the replicas of a result on ranks %lld and %lld differ",
                          (long long)first, (long long)second);
}

static bool run_return(sc_interp *interp, sc_op_id id)
{
    const sc_op *op = sc_op_at(interp->m, id);
    if (op->operand_count != interp->output_count)
        return sc_interp_fail(interp, id, SC_NO_RANK, "%u results, but room for %u",
                              op->operand_count, interp->output_count);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        if (!assemble_output(interp, id, &interp->values[op->operands[i]], &interp->outputs[i]))
            return false;
    }
    return true;
}

/* Copies of all ranks: on one device there is nothing to communicate, and the interpreter has one
 * memory. */
static bool run_identity(sc_interp *interp, sc_op_id id)
{
    const sc_op *op = sc_op_at(interp->m, id);
    for (uint32_t i = 0; i < op->result_count; i++) {
        const sc_held *to = &interp->values[op->first_result + i];
        if (i >= op->operand_count ||
            !same_shards(interp, interp->values[op->operands[i]].type, to->type))
            return sc_interp_fail(interp, id, SC_NO_RANK, "result %u is not of its operand's shape",
                                  i + 1);
        sc_row_copy(to->data, interp->values[op->operands[i]].data,
                    (int64_t)interp->ranks * sc_interp_layout(interp, to->type)->count);
    }
    return true;
}

static sc_interp_handler *const handlers[SC_OP_COUNT] = {
    [SC_OP_input] = run_input,
    [SC_OP_param] = run_state_read,
    [SC_OP_cache_read] = run_state_read,
    [SC_OP_cache_write] = run_state_write,
    [SC_OP_state_read] = run_state_read,
    [SC_OP_state_write] = run_state_write,
    [SC_OP_return] = run_return,
    [SC_OP_to_device] = run_identity,
    [SC_OP_to_host] = run_identity,
    [SC_OP_reshard] = sc_interp_reshard,
    [SC_OP_all_slice] = sc_interp_all_slice,
    [SC_OP_to_partial] = sc_interp_to_partial,
#define COLLECTIVE(...)
#define COLLECTIVE_OP(op, ...) [SC_OP_##op] = sc_interp_##op,
#include "program/collectives.def"
};

/* ---- one op ---- */

static void set_view(const sc_interp *interp, sc_array *view, const sc_held *held)
{
    const sc_layout *layout = &interp->layouts[held->type];
    view->rank = layout->rank;
    view->count = layout->count;
    memcpy(view->sizes, layout->sizes, layout->rank * sizeof *view->sizes);
    view->data = held->data;
}

static bool run_eval(sc_interp *interp, sc_op_id id)
{
    const sc_module *m = interp->m;
    const sc_op *op = sc_op_at(m, id);
    if (op->operand_count > SC_MAX_FIXED_OPERANDS || op->result_count > SC_MAX_FIXED_RESULTS ||
        op->result_count == 0 ||
        (sc_ops[op->kind].operands != SC_ANY &&
         op->operand_count < (uint32_t)sc_ops[op->kind].operands))
        return sc_interp_fail(interp, id, SC_NO_RANK, "%u operands and %u results",
                              op->operand_count, op->result_count);
    sc_array operands[SC_MAX_FIXED_OPERANDS] = {{0}};
    sc_eval eval;
    eval.m = m;
    eval.op = op;
    eval.round = interp->options.round;
    eval.random = interp->random;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        set_view(interp, &operands[i], &interp->values[op->operands[i]]);
        eval.operands[i] = &operands[i];
        eval.operand_types[i] = sc_type_of(m, op->operands[i]);
    }
    for (uint32_t i = 0; i < op->result_count; i++) {
        set_view(interp, &eval.results[i], &interp->values[op->first_result + i]);
        eval.result_types[i] = sc_type_of(m, op->first_result + i);
    }
    for (eval.rank = 0; eval.rank < interp->ranks; eval.rank++) {
        if (!sc_op_functions[op->kind].eval(&eval))
            return sc_interp_fail(interp, id,
                                  interp->options.ranks ? (int64_t)eval.rank : SC_NO_RANK, "%s",
                                  eval.error);
        for (uint32_t i = 0; i < op->operand_count; i++)
            operands[i].data += operands[i].count;
        for (uint32_t i = 0; i < op->result_count; i++)
            eval.results[i].data += eval.results[i].count;
    }
    return true;
}

static bool make_results(sc_interp *interp, sc_op_id id)
{
    const sc_op *op = sc_op_at(interp->m, id);
    for (uint32_t i = 0; i < op->result_count; i++) {
        sc_held *held = &interp->values[op->first_result + i];
        const sc_layout *layout = sc_interp_layout(interp, held->type);
        if (layout == NULL)
            return sc_interp_fail(interp, id, SC_NO_RANK,
                                  "a size is not known, or the arrays of all ranks are too large");
        held->data = new_data(interp, layout);
        if (held->data == NULL)
            return sc_interp_fail(interp, id, SC_NO_RANK, "out of memory");
    }
    return true;
}

static void release(sc_held *held)
{
    if (held->uses == 0 && !held->keep)
        drop(held);
}

static bool run_op(sc_interp *interp, sc_op_id id)
{
    const sc_op *op = sc_op_at(interp->m, id);
    bool is_move = !interp->options.ranks && (sc_op_traits(op) & SC_RESHARD) != 0;
    sc_interp_handler *handler = is_move                      ? run_identity
                                 : handlers[op->kind] != NULL ? handlers[op->kind]
                                                              : run_eval;
    if (handler == run_eval && sc_op_functions[op->kind].eval == NULL)
        return sc_interp_fail(interp, id, SC_NO_RANK, "the interpreter does not implement it");
    for (uint32_t i = 0; i < op->operand_count; i++) {
        if (interp->values[op->operands[i]].data == NULL)
            return sc_interp_fail(interp, id, SC_NO_RANK, "operand %u has no value here", i + 1);
    }
    if (!make_results(interp, id) || !handler(interp, id))
        return false;
    for (uint32_t i = 0; i < op->result_count; i++) {
        sc_held *held = &interp->values[op->first_result + i];
        if ((sc_op_traits(op) & SC_VIEW) == 0)
            round_held(interp, held, &interp->layouts[held->type]);
        if (interp->options.poison && (sc_op_traits(op) & SC_FILLS_PADDING) == 0)
            sc_interp_poison(interp, held->type, held->data);
        release(held);
    }
    for (uint32_t i = 0; i < op->operand_count; i++) {
        interp->values[op->operands[i]].uses--;
        release(&interp->values[op->operands[i]]);
    }
    return true;
}

/* ---- a run ---- */

/* Grows a table to `wanted` entries, zeroing the new ones; NULL if out of memory (the old one stays
 * valid). */
static void *grown(void *table, uint32_t count, uint32_t wanted, size_t size)
{
    char *larger = realloc(table, (wanted > 0 ? wanted : 1) * size);
    if (larger != NULL)
        memset(larger + count * size, 0, (wanted - count) * size);
    return larger;
}

static bool grow_layouts(sc_interp *interp)
{
    uint32_t wanted = interp->m->types.count;
    if (wanted <= interp->layout_count)
        return true;
    sc_layout *layouts = grown(interp->layouts, interp->layout_count, wanted, sizeof *layouts);
    if (layouts == NULL)
        return false;
    interp->layouts = layouts;
    interp->layout_count = wanted;
    return true;
}

static bool grow_values(sc_interp *interp)
{
    uint32_t wanted = interp->m->values.count;
    if (wanted <= interp->value_count)
        return true;
    sc_held *values = grown(interp->values, interp->value_count, wanted, sizeof *values);
    if (values == NULL)
        return false;
    interp->values = values;
    interp->value_count = wanted;
    return true;
}

/* Counts the uses of the function's values. A value written to state gets one more use, which keeps
 * it to the end. */
static bool start_run(sc_interp *interp, sc_func_id func)
{
    const sc_module *m = interp->m;
    if (!grow_layouts(interp) || !grow_values(interp))
        return false;
    interp->next_input = 0;
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        for (uint32_t i = 0; i < op->result_count; i++) {
            sc_value value = op->first_result + i;
            sc_held *held = &interp->values[value];
            drop(held);
            *held = (sc_held){.type = m->values.data[value].type};
            held->keep = interp->keep != NULL && interp->keep(m, value, interp->keep_user);
        }
        for (uint32_t i = 0; i < op->operand_count; i++)
            interp->values[op->operands[i]].uses +=
                (sc_op_traits(op) & SC_STATE_WRITE) != 0 ? 2 : 1;
    }
    return true;
}

static void commit_writes(sc_interp *interp, sc_func_id func)
{
    sc_for_each_op (interp->m, func, id) {
        const sc_op *op = sc_op_at(interp->m, id);
        if ((sc_op_traits(op) & SC_STATE_WRITE) == 0)
            continue;
        const sc_held *value = &interp->values[op->operands[0]];
        const sc_held *state =
            &interp->state[sc_module_find_state(interp->m, sc_op_word(op, SC_ATTR_name))];
        sc_row_copy(state->data, value->data,
                    (int64_t)interp->ranks * interp->layouts[value->type].count);
    }
}

static void end_run(sc_interp *interp, sc_func_id func, bool ok)
{
    sc_for_each_op (interp->m, func, id) {
        const sc_op *op = sc_op_at(interp->m, id);
        for (uint32_t i = 0; i < op->result_count; i++) {
            if (!interp->values[op->first_result + i].keep)
                drop(&interp->values[op->first_result + i]);
        }
    }
    if (!ok) {
        for (uint32_t i = 0; i < interp->output_count; i++)
            sc_array_free(&interp->outputs[i]);
    }
}

static bool run_ops(sc_interp *interp, sc_func_id func)
{
    sc_for_each_op (interp->m, func, id) {
        if (interp->options.tick != NULL && !interp->options.tick(interp->options.user))
            return sc_interp_fail(interp, id, SC_NO_RANK, "stopped");
        if (!run_op(interp, id))
            return false;
    }
    if (interp->next_input == interp->input_count)
        return true;
    snprintf(interp->error, interp->error_size, "%u inputs were given, but %u are read",
             interp->input_count, interp->next_input);
    return false;
}

bool sc_interp_run(sc_interp *interp, sc_func_id func, const sc_array *inputs, uint32_t input_count,
                   sc_array *outputs, uint32_t output_count, char *error, size_t error_size)
{
    interp->inputs = inputs;
    interp->input_count = input_count;
    interp->outputs = outputs;
    interp->output_count = output_count;
    interp->error = error;
    interp->error_size = error_size;
    for (uint32_t i = 0; i < output_count; i++)
        outputs[i] = (sc_array){0};
    if (!start_run(interp, func)) {
        snprintf(error, error_size, "out of memory");
        return false;
    }
    bool ok = run_ops(interp, func);
    if (ok)
        commit_writes(interp, func);
    end_run(interp, func, ok);
    return ok;
}

/* ---- life, state, kept values ---- */

static void find_coordinates(sc_interp *interp)
{
    const sc_mesh *mesh = &interp->m->mesh;
    for (uint32_t a = 0; a < mesh->sub_axis_count; a++)
        interp->sub_axis_strides[a] = sc_mesh_stride(mesh, a);
    for (uint64_t r = 0; r < interp->ranks; r++) {
        for (uint32_t a = 0; a < mesh->sub_axis_count; a++)
            interp->coordinates[r * SC_MAX_SUB_AXES + a] =
                (uint32_t)(r / interp->sub_axis_strides[a] % mesh->sub_axes[a].size);
    }
}

/* State of unknown size has no data; an op that reads it fails. */
static bool make_state(sc_interp *interp)
{
    interp->state = calloc(interp->m->state.count + 1u, sizeof *interp->state);
    if (interp->state == NULL)
        return false;
    interp->state_count = interp->m->state.count;
    for (uint32_t i = 0; i < interp->state_count; i++) {
        sc_held *state = &interp->state[i];
        sc_layout layout;
        state->type = interp->m->state.data[i].type;
        if (!sc_interp_find_layout(interp, state->type, &layout))
            continue;
        state->data = new_data(interp, &layout);
        if (state->data == NULL)
            return false;
    }
    return true;
}

sc_interp *sc_interp_new(const sc_module *m, const sc_interp_options *options)
{
    uint64_t ranks = options->ranks ? sc_mesh_ranks(&m->mesh) : 1;
    sc_interp *interp = ranks > SC_INTERP_MAX_RANKS ? NULL : calloc(1, sizeof *interp);
    if (interp == NULL)
        return NULL;
    interp->m = m;
    interp->options = *options;
    interp->ranks = ranks;
    interp->coordinates = calloc((size_t)ranks * SC_MAX_SUB_AXES, sizeof *interp->coordinates);
    if (interp->coordinates == NULL || !make_state(interp)) {
        sc_interp_free(interp);
        return NULL;
    }
    if (options->ranks)
        find_coordinates(interp);
    return interp;
}

static void drop_all(sc_held *held, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        drop(&held[i]);
}

void sc_interp_free(sc_interp *interp)
{
    if (interp == NULL)
        return;
    drop_all(interp->values, interp->value_count);
    drop_all(interp->state, interp->state_count);
    free(interp->values);
    free(interp->state);
    free(interp->layouts);
    free(interp->coordinates);
    free(interp);
}

bool sc_interp_set_state(sc_interp *interp, uint32_t state, const double *global)
{
    sc_layout layout;
    if (state >= interp->state_count || interp->state[state].data == NULL ||
        !sc_interp_find_layout(interp, interp->state[state].type, &layout))
        return false;
    sc_held *held = &interp->state[state];
    memset(held->data, 0, (size_t)interp->ranks * (size_t)layout.count * sizeof *held->data);
    sc_interp_split(interp, held->type, global, held->data);
    round_held(interp, held, &layout);
    return true;
}

/* Returns the global value of a value or state; no data if it has none. */
static sc_array fetch(const sc_interp *interp, const sc_held *held, bool *agree)
{
    const sc_type_info *type = &interp->m->types.data[held->type];
    int64_t sizes[SC_MAX_RANK], first, second;
    for (uint32_t i = 0; i < type->rank; i++)
        sizes[i] = type->dims[i].size;
    if (agree != NULL)
        *agree = true;
    if (held->data == NULL)
        return (sc_array){0};
    sc_array array = sc_array_new(type->rank, sizes);
    if (array.data != NULL &&
        !sc_interp_assemble(interp, held->type, held->data, array.data, &first, &second) &&
        agree != NULL)
        *agree = false;
    return array;
}

void sc_interp_set_random(sc_interp *interp, uint64_t seed, uint64_t step, uint32_t micro_batch)
{
    interp->random = (sc_random){seed, step, micro_batch};
}

sc_array sc_interp_get_state(const sc_interp *interp, uint32_t state, bool *agree)
{
    return state < interp->state_count ? fetch(interp, &interp->state[state], agree)
                                       : (sc_array){0};
}

void sc_interp_keep(sc_interp *interp, bool (*keep)(const sc_module *m, sc_value value, void *user),
                    void *user)
{
    interp->keep = keep;
    interp->keep_user = user;
    drop_all(interp->values, interp->value_count);
}

sc_array sc_interp_get_value(const sc_interp *interp, sc_value value, bool *agree)
{
    return value < interp->value_count ? fetch(interp, &interp->values[value], agree)
                                       : (sc_array){0};
}
