/* Epilogues are chains: dot, then steps that each read the one before at the same indices.
 *
 *   %3 = dot[D] %1, %2    %4 = add %3, %b    %5 = gelu %4    the operand of %5 is %4, that of %4 is %3
 *
 * Whoever asks walks up a chain of at most MOST_STEPS. */
#include "passes/epilogue.h"

#include "ir/loops.h"
#include "ir/ops.h"

enum { MOST_STEPS = 5 };

static uint32_t traits_of(const sc_epilogues *e, sc_op_id op)
{
    return sc_ops[sc_op_at(e->m, op)->kind].fuse;
}

static bool is_number(const sc_module *m, sc_value value)
{
    const sc_op *def = sc_op_at(m, sc_def(m, value));
    return sc_op_attr(def, SC_ATTR_value) != NULL && (sc_op_traits(def) & SC_CONSTANT) != 0 && sc_type_of(m, value)->rank == 0;
}

static int operand_of(const sc_epilogues *e, sc_op_id op, uint32_t depth);

/* The contraction that an epilogue ends. */
static sc_op_id contraction_of(const sc_epilogues *e, sc_op_id op, uint32_t depth)
{
    if ((traits_of(e, op) & SC_FUSE_CONTRACT) != 0)
        return op;
    int chained = operand_of(e, op, depth);
    return contraction_of(e, sc_def(e->m, sc_op_at(e->m, op)->operands[chained]), depth + 1);
}

/* What a step reads besides is there when the contraction runs where it stands: else it would wait, and its operands live, for that. */
static bool is_there(const sc_epilogues *e, sc_value value, sc_op_id contraction)
{
    sc_op_id def = sc_def(e->m, value);
    return sc_op_at(e->m, def)->operand_count == 0 || e->index[def] < e->index[contraction];
}

/* The operand of an epilogue's step that comes from the contraction: one that nobody else reads. -1: none. */
static int operand_of(const sc_epilogues *e, sc_op_id op, uint32_t depth)
{
    const sc_module *m = e->m;
    const sc_op *o = sc_op_at(m, op);
    int found = -1;
    bool found_contraction = false;
    if ((traits_of(e, op) & SC_FUSE_EPILOGUE) == 0 || depth >= MOST_STEPS || !sc_dtype_is_float(sc_type_of(m, o->first_result)->dtype))
        return -1;
    for (uint32_t i = 0; i < o->operand_count; i++) {
        sc_op_id def = sc_def(m, o->operands[i]);
        sc_loop_dims from = sc_loops_of(m, o->operands[i]), to = sc_loops_of(m, o->first_result);
        bool contraction = (traits_of(e, def) & SC_FUSE_CONTRACT) != 0;
        if (e->uses[o->operands[i]] == 1 && sc_loops_equal(&from, &to) &&
            sc_op_word(sc_op_at(m, def), SC_ATTR_phase) == sc_op_word(o, SC_ATTR_phase) &&
            (contraction || (!found_contraction && operand_of(e, def, depth + 1) >= 0))) {
            found = (int)i;
            found_contraction = contraction;
        }
    }
    int64_t size = sc_type_local_elements(m, sc_type_of(m, o->first_result));
    for (uint32_t i = 0; i < o->operand_count && found >= 0; i++) {
        /* what is made where it is read is no tensor; numbers only scale; a product of large ones is a kernel's */
        bool made = (traits_of(e, sc_def(m, o->operands[i])) & SC_FUSE_FREE) != 0, scales = (sc_op_traits(o) & SC_BILINEAR) != 0;
        if (!made && (int)i != found && !is_there(e, o->operands[i], contraction_of(e, sc_def(m, o->operands[found]), depth + 1)))
            return -1;
        bool large = (int)i != found && sc_type_local_elements(m, sc_type_of(m, o->operands[i])) > size / 8;
        if ((made && !(scales && is_number(m, o->operands[i]))) || (scales && large && !is_number(m, o->operands[i])))
            return -1;
    }
    return found;
}

int sc_epilogue_operand(const sc_epilogues *e, sc_op_id op)
{
    return operand_of(e, op, 0);
}
