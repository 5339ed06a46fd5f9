/* Joins the last micro-batch and the update into one function, so that the update's first step, the
 * reductions of gradients, can overlap the backward pass (overlap.c).
 *
 *   schedule: micro 0, micro 1, update   ->   schedule: micro 0, micro+update 1
 *
 * Its list concatenates those of the two functions: states are shared, and other buffers are
 * cloned. The two functions stay in the program for callers that compose steps of calls. The joined
 * one needs no more memory than the larger of them. */
#include <string.h>

#include "codegen/program/internal.h"

typedef struct joining {
    sc_generator *g;
    sc_image *image;
    uint32_t func;   /* the joined one */
    uint32_t *clone; /* by buffer; SC_NONE: not cloned yet */
    sc_image_func made;
} joining;

static uint32_t own_buffer(joining *j, uint32_t buffer)
{
    sc_generator *g = j->g;
    if (sc_generator_is_state(g, buffer))
        return buffer;
    if (j->clone[buffer] == SC_NONE) {
        sc_image_buffer like = g->buffers.data[buffer];
        g->unit.loc = g->out->buffer_locs.data[buffer];
        j->clone[buffer] = sc_generator_buffer(g, like.kind, like.bytes, like.name);
        g->buffers.data[j->clone[buffer]].host = like.host;
    }
    return j->clone[buffer];
}

static void add_instrs(joining *j, const sc_image_func *from)
{
    uint32_t base = j->made.instr_count;
    for (uint32_t i = 0; i < from->instr_count; i++) {
        sc_image_instr *instr = &j->made.instrs[j->made.instr_count++];
        *instr = from->instrs[i];
        instr->index += instr->kind == SC_INSTR_FINISH ? base : 0;
        instr->args = sc_arena_array(j->g->arena, instr->arg_count, sizeof *instr->args);
        for (uint32_t a = 0; a < instr->arg_count; a++)
            instr->args[a] = (sc_image_ref){own_buffer(j, from->instrs[i].args[a].buffer),
                                            from->instrs[i].args[a].at};
    }
}

static sc_image_value *own_values(joining *j, const sc_image_value *values, uint32_t count)
{
    sc_image_value *made = sc_arena_array(j->g->arena, count, sizeof *made);
    for (uint32_t i = 0; i < count; i++) {
        made[i] = values[i];
        made[i].buffer = own_buffer(j, values[i].buffer);
    }
    return made;
}

static void add_wishes(joining *j, uint32_t from, uint32_t base)
{
    for (uint32_t w = 0, count = j->g->wishes.count; w < count; w++) {
        sc_memory_wish wish = j->g->wishes.data[w];
        if (wish.func == from)
            *sc_vec_push(j->g->arena, &j->g->wishes) = (sc_memory_wish){
                j->func, base + wish.instr, own_buffer(j, wish.into), own_buffer(j, wish.from)};
    }
}

/* True if the function has a micro-batch param: calls of the joined function have a micro-batch,
 * those of the second function did not. */
static bool asks_for_micro_batch(const sc_image_func *func)
{
    for (uint32_t i = 0; i < func->instr_count; i++) {
        for (uint32_t p = 0; p < func->instrs[i].param_count; p++) {
            if (func->instrs[i].params[p].kind == SC_PARAM_MICRO_BATCH)
                return true;
        }
    }
    return false;
}

void sc_generator_join(sc_generator *g, sc_image *image)
{
    uint32_t last = image->call_count - 1;
    if (image->call_count < 2 || image->schedule[last].micro_batch >= 0 ||
        image->schedule[last - 1].micro_batch < 0)
        return;
    uint32_t from = image->schedule[last - 1].func, to = image->schedule[last].func;
    const sc_image_func *first = &image->funcs[from], *second = &image->funcs[to];
    if (second->input_count > 0 || asks_for_micro_batch(second))
        return;
    joining j = {.g = g,
                 .image = image,
                 .func = image->func_count,
                 .clone = sc_arena_array(g->arena, g->buffers.count, sizeof *j.clone)};
    memset(j.clone, 0xff, g->buffers.count * sizeof *j.clone);
    j.made = (sc_image_func){.name = sc_arena_printf(g->arena, "%s+%s", first->name, second->name),
                             .input_count = first->input_count,
                             .output_count = second->output_count};
    j.made.instrs = sc_arena_array(g->arena, (size_t)first->instr_count + second->instr_count,
                                   sizeof *j.made.instrs);
    add_instrs(&j, first);
    add_instrs(&j, second);
    j.made.inputs = own_values(&j, first->inputs, first->input_count);
    j.made.outputs = own_values(&j, second->outputs, second->output_count);
    add_wishes(&j, from, 0);
    add_wishes(&j, to, first->instr_count);
    image->funcs[image->func_count++] = j.made;
    image->schedule[last - 1].func = j.func;
    image->call_count = last;
}
