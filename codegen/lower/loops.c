/* Phases: the loops of a kernel and their order.
 *
 * Outer dims are walked once. Each iteration computes, depth by depth, the values that need as many
 * earlier reduction phases as the depth: first values over outer dims only, then those that also
 * have inner dims, together with the reductions of that depth. */
#include "codegen/lower/internal.h"

static bool depends_on(const sc_lowering *l, sc_knode node, const uint32_t *dims, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (sc_kernel_depends(l->k, node, dims[i]))
            return true;
    }
    return false;
}

/* Checks get phases of their own, so that the main loops have none; those of the outer iteration
 * come first. */
void sc_lower_phase(sc_lowering *l, const sc_loop_dims *inner)
{
    uint32_t dims[SC_KERNEL_MAX_RANK], count = 0;
    for (uint32_t i = 0; i < inner->count; i++)
        dims[count++] = sc_lower_add_dim(l, inner->dims[i]);
    for (uint32_t pass = 0; pass < 2; pass++) {
        bool begun = false;
        for (uint32_t i = 0; i < l->checks.count; i++) {
            if (depends_on(l, l->checks.data[i].holds, dims, count) != (pass == 1))
                continue;
            if (!begun)
                sc_kernel_add_phase(l->k, dims, pass == 1 ? count : 0);
            begun = true;
            sc_kernel_add_check(l->k, l->checks.data[i].holds, l->checks.data[i].shown,
                                l->checks.data[i].message);
        }
    }
    l->checks.count = 0;
    sc_kernel_add_phase(l->k, dims, count);
}

void sc_lower_store(sc_lowering *l, sc_item_kind kind, uint32_t arg, const sc_knode *index,
                    sc_knode value, sc_knode guard)
{
    value = sc_kernel_convert(l->k, value, sc_kernel_dtype(l->k->args.data[arg].dtype));
    sc_kernel_add_store(l->k, kind, arg, index, value, guard);
}

/* Sets the number of reduction phases before each op; returns the maximum. */
static uint32_t find_depths(sc_lowering *l)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < l->op_count; i++) {
        const sc_op *op = sc_op_at(l->m, l->ops[i]);
        for (uint32_t v = 0; v < op->operand_count; v++) {
            uint32_t from = sc_lower_find_op(l, sc_def(l->m, op->operands[v]));
            if (from == l->op_count)
                continue;
            uint32_t depth =
                l->depth[from] + ((sc_lower_fuse(l, from) & SC_FUSE_REDUCE) != 0 ? 1 : 0);
            l->depth[i] = depth > l->depth[i] ? depth : l->depth[i];
        }
        uint32_t needed = l->depth[i] + ((sc_lower_fuse(l, i) & SC_FUSE_REDUCE) != 0 ? 1 : 0);
        most = needed > most ? needed : most;
    }
    return most;
}

typedef struct space {
    sc_loop_dims outer, inner;
} space;

/* The value whose loops an op needs: the operand of a reduction, or a stored result; SC_NONE:
 * neither. */
static sc_value value_through(const sc_lowering *l, uint32_t i)
{
    const sc_op *op = sc_op_at(l->m, l->ops[i]);
    if ((sc_lower_fuse(l, i) & SC_FUSE_REDUCE) != 0)
        return op->operands[0];
    return l->escapes[op->first_result] ? op->first_result : SC_NONE;
}

/* Adds dims of size 1: the largest value may lack those of others. */
static void add_single_dims(const sc_lowering *l, sc_loop_dims *lead)
{
    for (uint32_t i = 0; i < l->op_count; i++) {
        sc_value value = value_through(l, i);
        sc_loop_dims own = value == SC_NONE ? (sc_loop_dims){0} : sc_loops_of(l->m, value),
                     left = sc_loops_minus(&own, lead);
        for (uint32_t d = 0; d < left.count; d++) {
            if (left.dims[d].size == 1)
                lead->dims[lead->count++] = left.dims[d];
        }
    }
}

/* Outer dims are those of the reductions' results or, without reductions, of the stored values.
 * Their order is that of the largest value. */
static space find_space(const sc_lowering *l)
{
    sc_loop_dims lead = {0}, outer = {0};
    int64_t most = -1;
    bool reduces = false;
    for (uint32_t i = 0; i < l->op_count; i++) {
        const sc_op *op = sc_op_at(l->m, l->ops[i]);
        bool reduction = (sc_lower_fuse(l, i) & SC_FUSE_REDUCE) != 0,
             stored = l->escapes[op->first_result];
        sc_value largest = value_through(l, i);
        if (largest == SC_NONE)
            continue;
        int64_t elements = sc_type_local_elements(l->m, sc_lower_type(l, largest));
        if (elements > most || (elements == most && stored && !reduction)) {
            most = elements;
            lead = sc_loops_of(l->m, largest);
        }
        if (reduction)
            outer = sc_loops_of(l->m, op->first_result);
        reduces = reduces || reduction;
    }
    add_single_dims(l, &lead);
    space s = {.inner = reduces ? sc_loops_minus(&lead, &outer) : (sc_loop_dims){0}};
    s.outer = sc_loops_minus(&lead, &s.inner);
    return s;
}

/* Lowers the values of this depth: with `whole` false those over outer dims only, then the
 * others. */
static void lower_depth(sc_lowering *l, const space *s, uint32_t depth, bool whole)
{
    sc_knode *values = sc_arena_array(l->k->arena, l->op_count, sizeof *values);
    bool *taken = sc_arena_array(l->k->arena, l->op_count, sizeof *taken), any = false;
    for (uint32_t i = 0; i < l->op_count; i++) {
        const sc_op *op = sc_op_at(l->m, l->ops[i]);
        bool reduction = (sc_lower_fuse(l, i) & SC_FUSE_REDUCE) != 0;
        sc_loop_dims own = sc_loops_of(l->m, op->first_result),
                     inner = sc_loops_minus(&own, &s->outer);
        bool stored = l->escapes[op->first_result] && (inner.count > 0) == whole &&
                      (reduction ? depth == l->depth[i] + 1 : depth == l->depth[i]);
        bool reduced = reduction && whole && depth == l->depth[i];
        if (!stored && !reduced)
            continue;
        taken[i] = any = true;
        values[i] = sc_lower_here(l, reduced ? op->operands[0] : op->first_result);
    }
    if (!any)
        return;
    const sc_loop_dims none = {0};
    sc_lower_phase(l, whole ? &s->inner : &none);
    for (uint32_t i = 0; i < l->op_count; i++) {
        const sc_op *op = sc_op_at(l->m, l->ops[i]);
        if (!taken[i])
            continue;
        if ((sc_lower_fuse(l, i) & SC_FUSE_REDUCE) != 0 && depth == l->depth[i]) {
            sc_node_kind node = l->rows[op->kind].node;
            sc_item_kind kind = node == SC_NODE_add       ? SC_ITEM_SUM
                                : node == SC_NODE_maximum ? SC_ITEM_MAX
                                                          : SC_ITEM_MIN;
            l->item[i] = sc_kernel_add_reduction(
                l->k, kind,
                sc_kernel_convert(l->k, values[i], sc_lower_dtype(l, op->first_result)));
            continue;
        }
        sc_knode index[SC_MAX_RANK];
        sc_loop_dims own = sc_loops_of(l->m, op->first_result);
        for (uint32_t d = 0; d < own.count; d++)
            index[d] = sc_lower_loop(l, own.dims[d]);
        uint32_t arg = sc_lower_out(l, op->first_result, SC_ARG_OUT, SC_NONE);
        sc_lower_store(l, SC_ITEM_STORE, arg, index, values[i], SC_NONE);
        l->saved[i] = arg + 1;
    }
    /* values stored so far are loaded from now on */
    l->memo.count = 0;
    l->memo_map = (sc_map){.arena = l->k->arena};
}

void sc_lower_phases(sc_lowering *l)
{
    space s = find_space(l);
    for (uint32_t i = 0; i < s.outer.count; i++)
        sc_lower_add_dim(l, s.outer.dims[i]);
    sc_lower_end_outer(l);
    for (uint32_t i = 0; i < s.inner.count; i++)
        sc_lower_add_dim(l, s.inner.dims[i]);
    uint32_t most = find_depths(l);
    for (uint32_t depth = 0; depth <= most; depth++) {
        lower_depth(l, &s, depth, false);
        lower_depth(l, &s, depth, true);
    }
}
