/* sc_image_check: the schedule, and functions that are lists of calls. */
#include <string.h>

#include "program/check.h"
#include "program/lookup.h"

static bool check_list(sc_checker *c, sc_image_list list, int64_t batches)
{
    for (uint32_t i = 0; i < list.count; i++) {
        const sc_image_call *call = &list.calls[i];
        sc_checker_at(c, "call", i, NULL);
        if (call->func >= c->image->func_count || c->image->funcs[call->func].batches > 0 ||
            call->micro_batch < -1 || call->micro_batch >= batches)
            return sc_checker_fail(c, "of function %u, of %u, for micro-batch %d", call->func,
                                   c->image->func_count, call->micro_batch);
    }
    return true;
}

/* Its list is of one function: a call may have messages in flight that others wait for. */
static bool check_owner(sc_checker *c, sc_image_list list, uint32_t number, uint32_t *owners)
{
    for (uint32_t i = 0; i < list.count; i++) {
        uint32_t *owner = &owners[list.calls[i].func];
        sc_checker_at(c, "call", i, c->image->funcs[list.calls[i].func].name);
        if (*owner != 0 && *owner != 1 + number)
            return sc_checker_fail(c, "another list calls it too");
        *owner = 1 + number;
    }
    return true;
}

static const sc_image_value *find_input(const sc_image_func *func, const char *name)
{
    uint32_t i = 0;
    while (i < func->input_count && strcmp(func->inputs[i].name, name) != 0)
        i++;
    return i < func->input_count ? &func->inputs[i] : NULL;
}

/* The caller's array is checked against the function's input, and a call reads its part of it. */
static bool check_inputs(sc_checker *c, const sc_image_func *func, const sc_image_func *called)
{
    for (uint32_t i = 0; i < called->input_count; i++) {
        const sc_image_value *input = &called->inputs[i], *whole = find_input(func, input->name);
        bool is_same = whole != NULL && whole->batch_dim == input->batch_dim &&
                       whole->tensor.dtype == input->tensor.dtype &&
                       whole->tensor.rank == input->tensor.rank;
        for (uint32_t d = 0; is_same && d < input->tensor.rank; d++)
            is_same = whole->tensor.dims[d].size == input->tensor.dims[d].size;
        if (!is_same)
            return sc_checker_fail(c, "input '%s' of '%s' is not one of its own", input->name,
                                   called->name);
    }
    return true;
}

static bool check_outputs(sc_checker *c, const sc_image_func *func)
{
    for (uint32_t i = 0; i < func->output_count; i++) {
        const sc_image_value *output = &func->outputs[i];
        const sc_image_buffer *buffer = &c->image->buffers[output->buffer];
        if (buffer->kind != SC_BUFFER_SLOT || buffer->copies < func->batches)
            return sc_checker_fail(c, "output %u has %u copies, for %u micro-batches", i,
                                   buffer->copies, func->batches);
        if ((output->join == SC_JOIN_ROWS) != (output->batch_dim >= 0))
            return sc_checker_fail(c, "output %u is joined as %s along dim %d", i,
                                   sc_join_names[output->join], output->batch_dim);
    }
    return true;
}

static bool check_func(sc_checker *c, uint32_t index)
{
    const sc_image_func *func = &c->image->funcs[index];
    const sc_image_list list = sc_image_list_of(c->image, 1 + index);
    sc_checker_at(c, "function", index, func->name);
    if (func->batches == 0) {
        for (uint32_t i = 0; i < func->output_count; i++) {
            if (func->outputs[i].join != SC_JOIN_ONE)
                return sc_checker_fail(c, "it joins outputs of micro-batches, but calls nothing");
        }
        return func->call_count == 0 || sc_checker_fail(c, "calls, but no micro-batches");
    }
    if (c->image->pipeline.count == 0 || func->instr_count > 0 ||
        func->batches > SC_IMAGE_MAX_SLOTS)
        return sc_checker_fail(c, "calls for %u micro-batches, %u instructions, of %u stages",
                               func->batches, func->instr_count, c->image->pipeline.count);
    if (!check_outputs(c, func) || !check_list(c, list, func->batches))
        return false;
    for (uint32_t i = 0; i < list.count; i++) {
        sc_checker_at(c, "function", index, func->name);
        if (!check_inputs(c, func, &c->image->funcs[list.calls[i].func]))
            return false;
    }
    return true;
}

bool sc_check_calls(sc_checker *c)
{
    const sc_image *image = c->image;
    uint32_t *owners = sc_arena_array(c->arena, image->func_count, sizeof *owners);
    if (!check_list(c, sc_image_list_of(image, 0), INT64_MAX))
        return false;
    for (uint32_t f = 0; f < image->func_count; f++) {
        if (!check_func(c, f))
            return false;
    }
    for (uint32_t l = 0; l <= image->func_count; l++) {
        if (!check_owner(c, sc_image_list_of(image, l), l, owners))
            return false;
    }
    return true;
}
