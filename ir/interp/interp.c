/* The executor: runs a function op by op on all ranks in lockstep. The arrays of a value live from
 * its op to its last use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp/internal.h"

/* ---- arrays ---- */

static void drop(sc_held *held)
{
    free(held->data);
    held->data = NULL;
}

/* ---- ops implemented by the executor ---- */

/* Returns the array for an `input` op: the one of its name, or the next one. NULL after an error.
 */
static const sc_array *find_input(sc_interp *interp, sc_op_id id)
{
    uint32_t at = interp->next_input;
    if (interp->input_names != NULL) {
        sc_sym name = sc_op_word(sc_op_at(interp->m, id), SC_ATTR_name);
        at = 0;
        while (at < interp->input_count && interp->input_names[at] != name)
            at++;
        if (at == interp->input_count)
            sc_interp_fail(interp, id, SC_NO_RANK, "no input '%s' was given",
                           sc_text(interp->m->context, name));
    } else if (at == interp->input_count) {
        sc_interp_fail(interp, id, SC_NO_RANK, "only %u inputs were given", interp->input_count);
    }
    interp->next_input++;
    return at < interp->input_count ? &interp->inputs[at] : NULL;
}

static bool run_input(sc_interp *interp, sc_op_id id)
{
    const sc_held *result = &interp->values[sc_result(interp->m, id, 0)];
    const sc_type_info *type = &interp->m->types.data[result->type];
    const sc_array *input = find_input(interp, id);
    if (input == NULL)
        return false;
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
            !sc_interp_same_shards(interp, interp->values[op->operands[i]].type, to->type))
            return sc_interp_fail(interp, id, SC_NO_RANK, "result %u is not of its operand's shape",
                                  i + 1);
        sc_row_copy(to->data, interp->values[op->operands[i]].data,
                    (int64_t)interp->ranks * sc_interp_layout(interp, to->type)->count);
    }
    return true;
}

static sc_interp_handler *const handlers[SC_OP_COUNT] = {
    [SC_OP_input] = run_input,
    [SC_OP_param] = sc_interp_read_state,
    [SC_OP_cache_read] = sc_interp_read_state,
    [SC_OP_cache_write] = sc_interp_write_state,
    [SC_OP_state_read] = sc_interp_read_state,
    [SC_OP_state_write] = sc_interp_write_state,
    [SC_OP_return] = run_return,
    [SC_OP_to_device] = run_identity,
    [SC_OP_to_host] = run_identity,
    [SC_OP_reshard] = sc_interp_reshard,
    [SC_OP_all_slice] = sc_interp_all_slice,
    [SC_OP_to_partial] = sc_interp_to_partial,
    [SC_OP_piece] = sc_interp_piece,
    [SC_OP_take_piece] = sc_interp_take_piece,
    [SC_OP_join_pieces] = sc_interp_join_pieces,
    [SC_OP_add_pieces] = sc_interp_add_pieces,
#define COLLECTIVE(...)
#define COLLECTIVE_OP(op, ...) [SC_OP_##op] = sc_interp_##op,
#define TRANSFER_OP(op, ...)   [SC_OP_##op] = sc_interp_##op,
#define FURTHER_OP(op, NAME)   [SC_OP_##op] = sc_interp_##op,
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
        held->data = sc_interp_new_data(interp, layout);
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

/* True for what a rotation has moved, for the cotangents of such keys and values, and for what is
 * elementwise of either. */
static bool is_displaced(const sc_interp *interp, const sc_op *op, const sc_type_info *result)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    if (sc_op_attr(op, SC_ATTR_shift) != NULL)
        return true;
    if (sc_op_int(op, SC_ATTR_block, 0) != 0 && sc_type_find_dim(result, dims->dims[0]) >= 0)
        return true;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        if (interp->values[op->operands[i]].displaced && sc_op_has(op, SC_ELEMENTWISE | SC_VIEW) &&
            !sc_op_has(op, SC_FILLS_PADDING))
            return true;
    }
    return false;
}

static bool run_op(sc_interp *interp, sc_op_id id)
{
    const sc_op *op = sc_op_at(interp->m, id);
    bool is_move = !interp->options.ranks && sc_op_has(op, SC_RESHARD | SC_COLLECTIVE);
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
            sc_interp_round(interp, held, &interp->layouts[held->type]);
        held->displaced = is_displaced(interp, op, &interp->m->types.data[held->type]);
        if (interp->options.poison && !held->displaced && !sc_op_has(op, SC_FILLS_PADDING))
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

static bool grow_layouts(sc_interp *interp)
{
    uint32_t wanted = interp->m->types.count;
    if (wanted <= interp->layout_count)
        return true;
    sc_layout *layouts =
        sc_interp_grown(interp->layouts, interp->layout_count, wanted, sizeof *layouts);
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
    sc_held *values = sc_interp_grown(interp->values, interp->value_count, wanted, sizeof *values);
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
    interp->stage = sc_interp_stage_of(m, func);
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
    if (interp->input_names != NULL || interp->next_input == interp->input_count)
        return true;
    snprintf(interp->error, interp->error_size, "%u inputs were given, but %u are read",
             interp->input_count, interp->next_input);
    return false;
}

static bool run(sc_interp *interp, sc_func_id func, sc_array *outputs, uint32_t output_count,
                char *error, size_t error_size)
{
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
    if (ok && !sc_interp_commit(interp, func)) {
        snprintf(error, error_size, "out of memory");
        ok = false;
    }
    end_run(interp, func, ok);
    return ok;
}

bool sc_interp_run(sc_interp *interp, sc_func_id func, const sc_array *inputs, uint32_t input_count,
                   sc_array *outputs, uint32_t output_count, char *error, size_t error_size)
{
    interp->input_names = NULL;
    interp->inputs = inputs;
    interp->input_count = input_count;
    return run(interp, func, outputs, output_count, error, error_size);
}

bool sc_interp_run_call(sc_interp *interp, const sc_call *call, const sc_interp_inputs *inputs,
                        sc_array *outputs, uint32_t output_count, char *error, size_t error_size)
{
    interp->micro_batch = call->microbatch;
    interp->random.micro_batch = call->microbatch < 0 ? 0 : (uint32_t)call->microbatch;
    interp->input_names = inputs->names;
    interp->inputs = inputs->values;
    interp->input_count = inputs->count;
    return run(interp, call->func, outputs, output_count, error, error_size);
}

/* ---- life, kept values ---- */

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

sc_interp *sc_interp_new(const sc_module *m, const sc_interp_options *options)
{
    uint64_t ranks = options->ranks ? sc_mesh_stage_ranks(&m->mesh) : 1;
    bool is_small = !options->ranks || sc_mesh_ranks(&m->mesh) <= SC_INTERP_MAX_RANKS;
    sc_interp *interp = is_small ? calloc(1, sizeof *interp) : NULL;
    if (interp == NULL)
        return NULL;
    interp->m = m;
    interp->options = *options;
    interp->ranks = ranks;
    interp->stages = sc_mesh_stages(&m->mesh);
    interp->coordinates = calloc((size_t)ranks * SC_MAX_SUB_AXES, sizeof *interp->coordinates);
    if (interp->coordinates == NULL || !sc_interp_make_state(interp)) {
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
    sc_interp_drop_state(interp);
    free(interp->values);
    free(interp->layouts);
    free(interp->coordinates);
    free(interp);
}

void sc_interp_set_random(sc_interp *interp, uint64_t seed, uint64_t step, uint32_t micro_batch)
{
    interp->random = (sc_random){seed, step, micro_batch};
    interp->micro_batch = (int32_t)micro_batch;
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
    if (value >= interp->value_count)
        return (sc_array){0};
    return sc_interp_fetch(interp, &interp->values[value], agree);
}
