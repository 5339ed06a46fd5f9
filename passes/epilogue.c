/* Epilogues are chains: a dot, then steps that each read the previous one at the same indices.
 *
 *   %3 = dot[D] %1, %2    %4 = add %3, %b    %5 = gelu %4
 *   the chained operand of %5 is %4, that of %4 is %3
 *
 * A query walks up a chain of at most MOST_STEPS. The operand of an activation may also be read
 * after the chain (by a derivative): it is then stored by the chain. */
#include "passes/epilogue.h"

#include "ir/ops/loops.h"
#include "ir/ops/ops.h"
#include "passes/uses.h"

enum { MOST_STEPS = 5 };

static uint32_t traits_of(const sc_epilogues *e, sc_op_id op)
{
    return sc_ops[sc_op_at(e->m, op)->kind].fuse;
}

static bool is_number(const sc_module *m, sc_value value)
{
    const sc_op *def = sc_op_at(m, sc_def(m, value));
    return sc_op_attr(def, SC_ATTR_value) != NULL && (sc_op_traits(def) & SC_CONSTANT) != 0 &&
           sc_type_of(m, value)->rank == 0;
}

/* True for elementwise functions of one operand from whose result the operand cannot be
 * recovered. */
static bool is_activation(const sc_op *op)
{
    return op->operand_count == 1 && (sc_op_traits(op) & SC_ELEMENTWISE) != 0 &&
           (sc_op_traits(op) & (SC_LINEAR | SC_CONVERTS)) == 0;
}

/* True if a step of the chain ending at `last` may be applied to a value: nothing else reads it
 * before the chain has run. */
static bool goes_on(const sc_epilogues *e, sc_value value, sc_op_id step, uint32_t last)
{
    if (e->uses[value] == 1)
        return true;
    return is_activation(sc_op_at(e->m, step)) && e->first_reader[value] == step &&
           e->index[e->second_reader[value]] > last;
}

static uint32_t bytes_of(const sc_epilogues *e, sc_value value)
{
    return sc_dtypes[sc_type_of(e->m, value)->dtype].bytes;
}

static int operand_of(const sc_epilogues *e, sc_op_id op, uint32_t last, uint32_t depth);

/* Returns the contraction at the start of an epilogue. */
static sc_op_id contraction_of(const sc_epilogues *e, sc_op_id op, uint32_t last, uint32_t depth)
{
    if ((traits_of(e, op) & SC_FUSE_CONTRACT) != 0)
        return op;
    int chained = operand_of(e, op, last, depth);
    return contraction_of(e, sc_def(e->m, sc_op_at(e->m, op)->operands[chained]), last, depth + 1);
}

/* True if another operand of a step is available when the contraction runs; otherwise the
 * contraction would have to wait, keeping its operands live. */
static bool is_there(const sc_epilogues *e, sc_value value, sc_op_id contraction)
{
    sc_op_id def = sc_def(e->m, value);
    return sc_op_at(e->m, def)->operand_count == 0 || e->index[def] < e->index[contraction];
}

/* True if the operand of a slope is in memory anyway, rather than cheaply recomputed. */
static bool is_kept(const sc_epilogues *e, sc_value value)
{
    sc_op_id def = sc_def(e->m, value), reader = e->first_reader[value];
    uint32_t traits = traits_of(e, def);
    if ((traits & SC_FUSE_VIEW) != 0)
        return is_kept(e, sc_op_at(e->m, def)->operands[0]);
    if ((traits & SC_FUSE_FREE) != 0)
        return false;
    bool stored_on_the_way =
        is_activation(sc_op_at(e->m, reader)) && operand_of(e, reader, e->index[reader], 0) == 0;
    return (traits & SC_FUSE_MAP) == 0 || (traits & SC_FUSE_EXPENSIVE) != 0 || stored_on_the_way;
}

/* True if the op can be applied to a contraction's result through this operand. */
static bool is_chained(const sc_op *op, uint32_t operand)
{
    return (sc_op_traits(op) & SC_LINEAR_FIRST) == 0 || operand == 0;
}

/* Returns the operand of an epilogue step that comes from the contraction, or -1. */
static int operand_of(const sc_epilogues *e, sc_op_id op, uint32_t last, uint32_t depth)
{
    const sc_module *m = e->m;
    const sc_op *o = sc_op_at(m, op);
    int found = -1;
    bool found_contraction = false;
    if ((traits_of(e, op) & SC_FUSE_EPILOGUE) == 0 || depth >= MOST_STEPS ||
        !sc_dtype_is_float(sc_type_of(m, o->first_result)->dtype))
        return -1;
    for (uint32_t i = 0; i < o->operand_count; i++) {
        sc_op_id def = sc_def(m, o->operands[i]);
        sc_loop_dims from = sc_loops_of(m, o->operands[i]), to = sc_loops_of(m, o->first_result);
        bool contraction = (traits_of(e, def) & SC_FUSE_CONTRACT) != 0;
        if (is_chained(o, i) && goes_on(e, o->operands[i], op, last) &&
            sc_loops_equal(&from, &to) &&
            sc_op_word(sc_op_at(m, def), SC_ATTR_phase) == sc_op_word(o, SC_ATTR_phase) &&
            (contraction || (!found_contraction && operand_of(e, def, last, depth + 1) >= 0))) {
            found = (int)i;
            found_contraction = contraction;
        }
    }
    if (found < 0)
        return -1;
    sc_op_id contraction = contraction_of(e, sc_def(m, o->operands[found]), last, depth + 1);
    /* it is stored instead of the contraction's result */
    if (e->uses[o->operands[found]] > 1 &&
        bytes_of(e, o->operands[found]) > bytes_of(e, sc_result(m, contraction, 0)))
        return -1;
    if ((sc_op_traits(o) & SC_LINEAR_FIRST) != 0 && !is_kept(e, o->operands[1]))
        return -1;
    int64_t size = sc_type_local_elements(m, sc_type_of(m, o->first_result));
    for (uint32_t i = 0; i < o->operand_count; i++) {
        /* operands recomputed where they are read are not in memory, but may be scale factors;
         * multiplication by a large tensor belongs in a kernel */
        bool made = (traits_of(e, sc_def(m, o->operands[i])) & SC_FUSE_FREE) != 0,
             scales = (sc_op_traits(o) & SC_BILINEAR) != 0;
        if (!made && (int)i != found && !is_there(e, o->operands[i], contraction))
            return -1;
        bool large =
            (int)i != found && sc_type_local_elements(m, sc_type_of(m, o->operands[i])) > size / 8;
        if ((made && !(scales && is_number(m, o->operands[i]))) ||
            (scales && large && !is_number(m, o->operands[i])))
            return -1;
    }
    return found;
}

int sc_epilogue_operand(const sc_epilogues *e, sc_op_id op, uint32_t last)
{
    return operand_of(e, op, last, 0);
}

static void note_read(sc_epilogues *e, sc_value value, sc_op_id by)
{
    if (e->first_reader[value] == SC_NONE)
        e->first_reader[value] = by;
    else if (e->first_reader[value] != by && e->second_reader[value] == SC_NONE)
        e->second_reader[value] = by;
}

sc_epilogues sc_epilogues_of(sc_module *m)
{
    sc_epilogues e = {.m = m, .uses = sc_count_uses(m), .index = sc_number_ops(m)};
    uint32_t count;
    e.first_reader = sc_new_value_map(m, &count);
    e.second_reader = sc_new_value_map(m, &count);
    sc_for_each_op_of_all(m, op)
    {
        const sc_op *o = sc_op_at(m, op);
        for (uint32_t i = 0; i < o->operand_count; i++)
            note_read(&e, o->operands[i], op);
    }
    return e;
}
