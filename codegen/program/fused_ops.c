/* Ops that share a kernel: lowers them to one and calls it. The order of its arguments is known
 * only after lowering. */
#include "codegen/lower/lower.h"
#include "codegen/program/internal.h"
#include "ir/ops/expand.h"
#include "program/lookup.h"

/* ---- checks of inputs before a run ---- */

/* True if the result has the same elements, renamed, moved, or as wider integers. */
static bool is_same_elements(const sc_module *m, const sc_op *op, uint32_t result)
{
    uint32_t traits = sc_op_traits(op);
    if ((traits & SC_NAMESAKE) == 0 || result >= op->operand_count)
        return false;
    const sc_dtype_row *from = &sc_dtypes[sc_type_of(m, op->operands[result])->dtype],
                       *to = &sc_dtypes[sc_type_of(m, op->first_result)->dtype];
    return (traits & SC_CONVERTS) == 0 ||
           (from->kind == SC_DTYPE_INT && to->kind == SC_DTYPE_INT && from->bytes <= to->bytes);
}

/* The input that the value is a copy of, and which value its reader ignores; NULL: the value is
 * computed. */
static sc_image_value *input_behind(sc_generator *g, sc_value value, bool *may_ignore,
                                    double *ignore)
{
    *may_ignore = false;
    for (;;) {
        const sc_op *op = sc_op_at(g->m, sc_def(g->m, value));
        if ((sc_op_traits(op) & SC_FROM_OUTSIDE) != 0)
            break;
        if (!*may_ignore && sc_is_ignoring(g->m, op, &value, ignore))
            *may_ignore = true;
        else if (is_same_elements(g->m, op, value - op->first_result))
            value = op->operands[value - op->first_result];
        else
            return NULL;
    }
    for (uint32_t i = 0; i < g->func.inputs.count; i++) {
        if (g->func.inputs.data[i].buffer == g->func.place[value].buffer)
            return &g->func.inputs.data[i];
    }
    return NULL;
}

/* A value ignored by one reader may be invalid for another. */
void sc_generator_limit_ids(sc_generator *g, sc_value ids, int64_t below)
{
    bool may_ignore;
    double ignore = 0;
    sc_image_value *input = input_behind(g, ids, &may_ignore, &ignore);
    if (input != NULL)
        sc_image_limit_ids(input, &(sc_image_value){.below = below,
                                                    .may_ignore = may_ignore,
                                                    .ignore = may_ignore ? (int64_t)ignore : 0});
}

static bool call_kernel(sc_generator *g, const sc_op_id *ops, uint32_t count)
{
    sc_generator_func *f = &g->func;
    sc_lowered lowered;
    if (!sc_lower_kernel(g->m, ops, count, f->escapes, &lowered))
        return false;
    for (uint32_t i = 0; i < lowered.ids.count; i++)
        sc_generator_limit_ids(g, lowered.ids.data[i].value, lowered.ids.data[i].below);
    sc_kernel *k = lowered.kernel;
    sc_image_ref *args = sc_arena_array(g->arena, k->args.count, sizeof *args);
    for (uint32_t i = 0; i < k->args.count; i++) {
        if (k->args.data[i].mode != SC_ARG_IN)
            continue;
        if (!sc_generator_finish_value(g, lowered.args.data[i].value))
            return false;
        args[i] = sc_generator_read(g, lowered.args.data[i].value);
    }
    for (uint32_t i = 0; i < k->args.count; i++) {
        sc_value value = lowered.args.data[i].value, before = lowered.args.data[i].in_place;
        if (k->args.data[i].mode == SC_ARG_IN)
            continue;
        if (before != SC_NONE && !sc_generator_finish_value(g, before))
            return false;
        sc_image_ref old = before != SC_NONE ? sc_generator_read(g, before) : (sc_image_ref){0};
        bool may_share = true, is_read_too = false;
        for (uint32_t j = 0; j < k->args.count; j++) {
            if (k->args.data[j].mode != SC_ARG_IN)
                continue;
            if (sc_generator_overwrites(g, value, lowered.args.data[j].value))
                may_share = may_share && sc_kernel_may_share(k, j, i);
            is_read_too = is_read_too || (before != SC_NONE &&
                                          f->root[lowered.args.data[j].value] == f->root[before]);
        }
        bool takes_place = before != SC_NONE && !is_read_too && f->target[value] == SC_NONE &&
                           f->last_read[f->root[before]] == g->unit.number &&
                           !sc_generator_is_state(g, old.buffer) &&
                           !sc_generator_is_input(f, old.buffer) && old.at == 0;
        args[i] = takes_place ? (f->place[value] = old)
                              : sc_generator_write(g, value, SC_BUFFER_ACT, may_share);
        if (before != SC_NONE && (args[i].buffer != old.buffer || args[i].at != old.at))
            sc_generator_copy(g, ops[count - 1], old, args[i]);
    }
    sc_generator_call(g, ops[count - 1], k, args);
    return true;
}

bool sc_generate_kernel(sc_generator *g, const sc_op_id *ops, uint32_t count)
{
    sc_arena *scratch = &g->m->context->scratch;
    const sc_arena_mark mark = sc_arena_mark_here(scratch);
    bool fine = call_kernel(g, ops, count);
    sc_arena_release(scratch, mark);
    return fine;
}
