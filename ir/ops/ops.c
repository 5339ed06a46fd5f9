#include "ir/ops/ops.h"

#include <string.h>

#include "program/collective.h"

/* The words in columns of ops.def. */
enum {
    ALONE = 0,
    FREE = SC_FUSE_FREE,
    VIEW = SC_FUSE_VIEW,
    MAP = SC_FUSE_MAP,
    REDUCE = SC_FUSE_REDUCE,
    ROOT = SC_FUSE_ROOT,
    EXPAND = SC_FUSE_EXPAND,
    EXPENSIVE = SC_FUSE_EXPENSIVE,
    INDEXED = SC_FUSE_INDEXED,
    EPILOGUE = SC_FUSE_EPILOGUE,
    CONTRACT = SC_FUSE_CONTRACT,
    MOVES = SC_FUSE_MOVES
};

enum { PICKS_NO = 0, PICKS_FIRST = 1, PICKS_LATER = ~1, PICKS_ALL = ~0, LAST_PICK = 31 };

enum {
    IDS_NO = 0,
    IDS_FIRST = SC_IDS_FIRST,
    IDS_SECOND = SC_IDS_SECOND,
    IDS_TARGETS = SC_IDS_SECOND | SC_IDS_IGNORED,
    IDS_THIRD = SC_IDS_THIRD
};

const sc_op_row sc_ops[SC_OP_COUNT] = {
#define OP(name, in, roles, shape, eval, expand, derive, flops, bound, picks, ids, language, fuse, \
           traits)                                                                                 \
    {#name, in,    SC_BOUND_##bound, (uint32_t)PICKS_##picks, IDS_##ids, SC_LANGUAGE_##language,   \
     fuse,  traits},
#include "ir/ops/ops.def"
#undef OP
};

bool sc_op_is_defined(const sc_module *m, const sc_op *op)
{
    return (sc_ops[op->kind].fuse & SC_FUSE_EXPAND) != 0 ||
           sc_op_operand_called(m, op, "sinks", (uint32_t)sc_ops[op->kind].operands) >= 0;
}

bool sc_op_picks(sc_op_kind kind, uint32_t operand)
{
    return (sc_ops[kind].picks >> (operand < LAST_PICK ? operand : LAST_PICK) & 1) != 0;
}

bool sc_op_takes_ids(sc_op_kind kind, uint32_t operand)
{
    static const uint32_t bits[] = {SC_IDS_FIRST, SC_IDS_SECOND, SC_IDS_THIRD};
    return operand < sizeof bits / sizeof *bits && (sc_ops[kind].ids & bits[operand]) != 0;
}

sc_attr_key sc_op_indexed(sc_op_kind kind)
{
    return (sc_ops[kind].ids & SC_IDS_THIRD) != 0 ? SC_ATTR_to : SC_ATTR_dims;
}

bool sc_op_is_table(sc_op_kind kind, uint32_t operand)
{
    return sc_op_picks(kind, operand) && sc_ops[kind].ids != 0 && !sc_op_takes_ids(kind, operand);
}

bool sc_op_is_sum(sc_op_kind kind)
{
    return (sc_ops[kind].fuse & SC_FUSE_REDUCE) != 0 && sc_ops[kind].bound == SC_BOUND_summed;
}

int sc_op_collective(sc_op_kind kind)
{
    static const uint8_t one_more[SC_OP_COUNT] = {
#define COLLECTIVE(name, NAME, traits, shares, whole)
#define COLLECTIVE_OP(op, name, NAME, traits, shares, whole) [SC_OP_##op] = SC_IMAGE_##NAME + 1,
#define TRANSFER_OP(op, name, NAME, traits, shares, whole)   [SC_OP_##op] = SC_IMAGE_##NAME + 1,
#define FURTHER_OP(op, NAME)                                 [SC_OP_##op] = SC_IMAGE_##NAME + 1,
#include "program/collectives.def"
    };
    return one_more[kind] - 1;
}

bool sc_op_transfers(sc_op_kind kind)
{
    static const bool transfers[SC_OP_COUNT] = {
#define COLLECTIVE(name, NAME, traits, shares, whole)
#define TRANSFER_OP(op, name, NAME, traits, shares, whole) [SC_OP_##op] = true,
#include "program/collectives.def"
    };
    return transfers[kind];
}

bool sc_op_copies_memory(sc_op_kind kind)
{
    return kind == SC_OP_to_device || kind == SC_OP_to_host;
}

bool sc_copy_brings_back(const sc_module *m, const sc_op *copy)
{
    if (copy->kind != SC_OP_to_device)
        return false;
    const sc_op *from = sc_op_at(m, sc_def(m, copy->operands[0]));
    uint32_t state = (sc_op_traits(from) & SC_STATE_READ) == 0
                         ? SC_NONE
                         : sc_module_find_state(m, sc_op_word(from, SC_ATTR_name));
    return from->kind == SC_OP_to_host ||
           (state != SC_NONE && m->state.data[state].kind == SC_STATE_SLOT);
}

bool sc_value_is_in_host(const sc_module *m, sc_value value)
{
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    if ((sc_op_traits(op) & SC_STATE_READ) == 0)
        return op->kind == SC_OP_to_host;
    uint32_t state = sc_module_find_state(m, sc_op_word(op, SC_ATTR_name));
    return state != SC_NONE && m->state.data[state].host;
}

bool sc_op_is_forward(const sc_module *m, const sc_op *op)
{
    const char *phase = sc_text(m->context, sc_op_word(op, SC_ATTR_phase));
    return phase[0] == 0 || strcmp(phase, "forward") == 0 || strcmp(phase, "recompute") == 0;
}

bool sc_is_made_anywhere(const sc_module *m, sc_value value)
{
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    if ((sc_op_traits(op) & SC_CONSTANT) != 0)
        return true;
    return (sc_op_traits(op) & SC_SPREADS) != 0 && sc_type_of(m, op->operands[0])->rank == 0;
}
