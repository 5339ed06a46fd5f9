#include "ir/ops/ops.h"

#include <string.h>

#include "program/collective.h"

/* The words in the last column of ops.def. */
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

const sc_op_row sc_ops[SC_OP_COUNT] = {
#define OP(name, in, traits, roles, shape, eval, expand, derive, fuse) {#name, in, traits, fuse},
#include "ir/ops/ops.def"
#undef OP
};

int sc_op_collective(sc_op_kind kind)
{
    static const uint8_t one_more[SC_OP_COUNT] = {
#define COLLECTIVE(name, NAME, traits, shares, whole)
#define COLLECTIVE_OP(op, name, NAME, traits, shares, whole) [SC_OP_##op] = SC_IMAGE_##NAME + 1,
#include "program/collectives.def"
    };
    return one_more[kind] - 1;
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
