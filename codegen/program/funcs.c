/* Generates one function: its units in order. */
#include <string.h>

#include "codegen/lower/lower.h"
#include "codegen/program/internal.h"

static sc_unit_fn *const units[SC_OP_COUNT] = {
#define UNIT(op, function) [SC_OP_##op] = function,
#include "codegen/lower/lowering.def"
};

/* ---- one function ---- */
/* Ops that share a kernel are one unit; every other op is a unit by itself. */
static void number_units(const sc_module *m, sc_generator_func *f)
{
    int64_t last = -1;
    f->unit_count = 0;
    sc_for_each_op (m, f->id, op) {
        int64_t number = sc_op_int(sc_op_at(m, op), SC_ATTR_kernel, -1);
        if (f->unit_count == 0 || number < 0 || number != last)
            f->unit_count++;
        f->unit_of[op] = f->unit_count - 1;
        last = number;
    }
}

static void find_roots(const sc_module *m, sc_generator_func *f)
{
    sc_for_each_op (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        for (uint32_t r = 0; r < o->result_count; r++)
            f->root[o->first_result + r] =
                sc_is_view(o) ? f->root[o->operands[0]] : o->first_result + r;
    }
}

/* Finds the last reader of each value. A collective's operands are live until its results are read;
 * what the function returns is live to the end. */
static void find_last_reads(const sc_module *m, sc_generator_func *f)
{
    sc_for_each_op_reverse (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        uint32_t at = f->unit_of[op], traits = sc_op_traits(o);
        if ((traits & SC_COLLECTIVE) != 0 || sc_op_copies_memory((sc_op_kind)o->kind)) {
            for (uint32_t r = 0; r < o->result_count; r++)
                at = f->last_read[f->root[o->first_result + r]] > at
                         ? f->last_read[f->root[o->first_result + r]]
                         : at;
        }
        if ((traits & SC_EFFECT) != 0 && (traits & (SC_STATE_WRITE | SC_FROM_OUTSIDE)) == 0)
            at = SC_LASTS;
        for (uint32_t i = 0; i < o->operand_count; i++) {
            uint32_t *last = &f->last_read[f->root[o->operands[i]]];
            if ((traits & SC_STATE_WRITE) == 0 && at > *last)
                *last = at;
        }
    }
}

static void find_last_reads_of_states(const sc_module *m, sc_generator_func *f)
{
    sc_for_each_op (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        if ((sc_op_traits(o) & SC_STATE_READ) == 0)
            continue;
        uint32_t *last = &f->state_last_read[sc_module_find_state(m, sc_op_word(o, SC_ATTR_name))];
        *last = f->last_read[o->first_result] > *last ? f->last_read[o->first_result] : *last;
    }
}

static void find_written(const sc_module *m, sc_generator_func *f)
{
    sc_for_each_op (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        if ((sc_op_traits(o) & SC_STATE_WRITE) != 0)
            f->becomes[o->operands[0]] = sc_module_find_state(m, sc_op_word(o, SC_ATTR_name));
    }
}

/* Finds values that can be computed in the staging area of the state that they become. */
static void find_staged_targets(const sc_module *m, sc_generator_func *f)
{
    sc_for_each_op (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        for (uint32_t i = 0; i < o->operand_count; i++) {
            if (!sc_op_copies_memory((sc_op_kind)o->kind) || sc_value_is_in_host(m, o->operands[i]))
                continue;
            sc_value root = f->root[o->operands[i]];
            uint32_t state = f->becomes[o->first_result + i];
            const sc_op *def = sc_op_at(m, sc_def(m, root));
            if (state != SC_NONE && f->staged[state].is_staged && f->target[root] == SC_NONE &&
                !sc_op_copies_memory((sc_op_kind)def->kind) &&
                (sc_op_traits(def) & (SC_STATE_READ | SC_FROM_OUTSIDE)) == 0)
                f->target[root] = state;
        }
    }
}

/* Finds values that can be computed in a state's buffer. */
static void find_targets(const sc_module *m, sc_generator_func *f)
{
    sc_for_each_op (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        if ((sc_op_traits(o) & SC_STATE_WRITE) == 0)
            continue;
        f->last_write[sc_module_find_state(m, sc_op_word(o, SC_ATTR_name))] = op;
        sc_value root = f->root[o->operands[0]];
        const sc_op *def = sc_op_at(m, sc_def(m, root));
        bool computed = (sc_op_traits(def) & (SC_STATE_READ | SC_FROM_OUTSIDE)) == 0;
        if (computed && f->target[root] == SC_NONE && !sc_value_is_in_host(m, root))
            f->target[root] = sc_module_find_state(m, sc_op_word(o, SC_ATTR_name));
    }
}

static bool contracts(const sc_module *m, const sc_op_id *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if ((sc_ops[sc_op_at(m, ops[i])->kind].fuse & SC_FUSE_CONTRACT) != 0)
            return true;
    }
    return false;
}

static bool generate_unit(sc_generator *g, const sc_op_id *ops, uint32_t count)
{
    const sc_op *first = sc_op_at(g->m, ops[0]);
    g->unit.number = g->func.unit_of[ops[0]];
    g->unit.loc = sc_op_at(g->m, ops[count - 1])->loc;
    if (g->func.is_fused_sum[g->unit.number])
        return true;
    bool is_fused = sc_op_attr(first, SC_ATTR_kernel) != NULL;
    if (g->exchanges != NULL)
        sc_generator_make_room(g, ops, count);
    if (is_fused && !contracts(g->m, ops, count))
        return sc_generate_kernel(g, ops, count);
    /* a copy to a state in host memory may go on */
    bool reads = (sc_op_traits(first) & SC_STATE_WRITE) == 0 ||
                 !sc_value_is_in_host(g->m, first->operands[0]);
    if (reads && !sc_generator_finish_operands(g, ops, count))
        return false;
    if (is_fused)
        return sc_generate_contraction(g, ops, count);
    if (units[first->kind] != NULL)
        return units[first->kind](g, ops[0]);
    sc_report(&g->m->context->diag, SC_D_ir_invalid, first->loc, "code generation",
              sc_arena_printf(g->arena, "lowering.def has no row for %s on its own",
                              sc_ops[first->kind].name),
              NULL);
    return false;
}

void *sc_generator_fresh(sc_arena *arena, size_t count, size_t size, int byte)
{
    void *made = sc_arena_array(arena, count, size);
    if (count > 0)
        memset(made, byte, count * size);
    return made;
}

static void begin_messages(sc_generator *g, sc_arena *scratch)
{
    const uint32_t values = g->m->values.count, exchanges = g->exchanges->list.count;
    sc_generator_func *f = &g->func;
    f->sent_place = sc_generator_fresh(scratch, values, sizeof *f->sent_place, 0xff);
    f->first_send = sc_generator_fresh(scratch, values, sizeof *f->first_send, 0xff);
    f->next_send = sc_generator_fresh(scratch, g->m->ops.count, sizeof *f->next_send, 0xff);
    f->arrives_with = sc_generator_fresh(scratch, values, sizeof *f->arrives_with, 0);
    f->has_room = sc_generator_fresh(scratch, exchanges, sizeof *f->has_room, 0);
    f->sent_count = sc_generator_fresh(scratch, exchanges, sizeof *f->sent_count, 0);
    sc_generator_find_sent(g);
}

/* Analyses a function before emission; what is known of it by value is in the scratch arena. Its
 * instructions follow those that `f` has already. */
static void begin_func(sc_generator *g, sc_func_id id)
{
    const sc_module *m = g->m;
    const uint32_t values = m->values.count;
    sc_arena *scratch = &m->context->scratch;
    sc_generator_func *f = &g->func, before = *f;
    *f = (sc_generator_func){.id = id, .escapes = sc_find_escaping(m, id)};
    f->instrs.data = before.instrs.data, f->instrs.count = before.instrs.count,
    f->instrs.capacity = before.instrs.capacity;
    f->inputs.data = before.inputs.data, f->inputs.count = before.inputs.count,
    f->inputs.capacity = before.inputs.capacity;
    f->outputs.data = before.outputs.data, f->outputs.count = before.outputs.count,
    f->outputs.capacity = before.outputs.capacity;
    f->unit_of = sc_generator_fresh(scratch, m->ops.count, sizeof *f->unit_of, 0);
    f->root = sc_generator_fresh(scratch, values, sizeof *f->root, 0xff);
    f->last_read = sc_generator_fresh(scratch, values, sizeof *f->last_read, 0);
    f->state_last_read = sc_generator_fresh(scratch, m->state.count, sizeof *f->state_last_read, 0);
    f->last_write = sc_generator_fresh(scratch, m->state.count, sizeof *f->last_write, 0xff);
    f->target = sc_generator_fresh(scratch, values, sizeof *f->target, 0xff);
    f->becomes = sc_generator_fresh(scratch, values, sizeof *f->becomes, 0xff);
    f->in_flight_of = sc_generator_fresh(scratch, values, sizeof *f->in_flight_of, 0);
    f->place = sc_generator_fresh(scratch, values, sizeof *f->place, 0xff);
    f->fused_sum_of = sc_generator_fresh(scratch, m->ops.count, sizeof *f->fused_sum_of, 0);
    number_units(m, f);
    f->is_fused_sum = sc_generator_fresh(scratch, f->unit_count, sizeof *f->is_fused_sum, 0);
    find_roots(m, f);
    find_last_reads(m, f);
    find_last_reads_of_states(m, f);
    find_targets(m, f);
    find_written(m, f);
    sc_generator_find_staged(g);
    find_staged_targets(m, f);
    sc_generator_find_fused_sums(g);
    if (g->exchanges != NULL)
        begin_messages(g, scratch);
}

static bool generate_units(sc_generator *g)
{
    sc_op_id *ops = sc_arena_array(g->arena, g->m->ops.count, sizeof *ops);
    uint32_t count = 0;
    sc_for_each_op (g->m, g->func.id, op) {
        if (count > 0 && g->func.unit_of[op] != g->func.unit_of[ops[0]]) {
            if (!generate_unit(g, ops, count))
                return false;
            count = 0;
        }
        ops[count++] = op;
    }
    return count == 0 || generate_unit(g, ops, count);
}

/* Finishes collectives and copies states after the last unit. */
static bool end_func(sc_generator *g)
{
    for (uint32_t i = 0; i < g->func.in_flight.count; i++) {
        if (!sc_generator_finish(g, i))
            return false;
    }
    for (uint32_t i = 0; i < g->func.state_copies.count; i++) {
        const sc_state_copy *copy = &g->func.state_copies.data[i];
        sc_generator_copy(g, copy->op, copy->from, copy->to);
    }
    return true;
}

bool sc_generator_ops(sc_generator *g, sc_func_id id)
{
    sc_arena *scratch = &g->m->context->scratch;
    const sc_arena_mark mark = sc_arena_mark_here(scratch);
    begin_func(g, id);
    bool ok = generate_units(g) && end_func(g);
    sc_arena_release(scratch, mark);
    return ok;
}

void sc_generator_begin_func(sc_generator *g, const sc_image *image)
{
    g->func_index = image->func_count;
    g->func = (sc_generator_func){0};
}

void sc_generator_end_func(const sc_generator *g, const char *name, sc_image *image)
{
    const sc_generator_func *f = &g->func;
    image->funcs[image->func_count++] = (sc_image_func){.name = name,
                                                        .instr_count = f->instrs.count,
                                                        .instrs = f->instrs.data,
                                                        .input_count = f->inputs.count,
                                                        .inputs = f->inputs.data,
                                                        .output_count = f->outputs.count,
                                                        .outputs = f->outputs.data};
}
