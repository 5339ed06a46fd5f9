/* Routed products: on the global program, before it is differentiated.
 *
 *   %1 = gather[X] %w, %ids : f32[B, Q, D, F]
 *   %2 = dot[D] %x, %1 : f32[B, Q, F]         ->     %2 = routed_dot[D -> X] %x, %w, %ids
 *
 * A gather of weights makes a copy of them for every row, which no memory holds. The routed product
 * sorts the rows by id and multiplies each group by the weights that it shares; its derivative is
 * made of such products, too.
 *
 * A dot is routed if one operand is a table that ids pick from, under names or in another dtype,
 * the rows of the other operand have ids of their own (they share a dim with the ids), and the
 * weights of an id are a matrix: they have contracted dims, and a dim that x lacks. So an
 * embedding, a bias for each expert, or a row compared with gathered rows stays a gather. Dims of
 * ids that the dot contracts are summed afterwards. One walk. */
#include "frontend/elaborate/route_dots.h"

#include "ir/ops/build.h"

typedef struct routing {
    sc_emitter e;
    uint32_t *uses; /* by value of the function as it was */
    sc_path_texts *unmade;
} routing;

/* What a dot that can be routed consists of. */
typedef struct routed {
    uint32_t operand; /* the gathered one */
    sc_op_id gather;
    sc_dim contracted[SC_MAX_RANK], summed[SC_MAX_RANK];
    uint32_t contracted_count, summed_count;
} routed;

/* The gather behind names and casts, or SC_NONE. */
static sc_op_id find_gather(const sc_module *m, sc_value value)
{
    for (;;) {
        sc_op_id id = sc_def(m, value);
        const sc_op *op = sc_op_at(m, id);
        if (sc_op_is_table((sc_op_kind)op->kind, 0))
            return id;
        if (!sc_op_is_operand(op) || !sc_op_has(op, SC_VIEW | SC_CONVERTS) ||
            sc_op_has(op, SC_STOPS_GRADIENT))
            return SC_NONE;
        value = op->operands[0];
    }
}

static bool shares_dim(const sc_type_info *a, const sc_type_info *b)
{
    bool shares = false;
    for (uint32_t i = 0; i < a->rank; i++)
        shares = shares || sc_type_find_dim(b, a->dims[i].dim) >= 0;
    return shares;
}

static bool has_new_dim(const sc_type_info *table, const sc_type_info *x, sc_dim indexed)
{
    bool has = false;
    for (uint32_t i = 0; i < table->rank; i++)
        has = has || (table->dims[i].dim != indexed && sc_type_find_dim(x, table->dims[i].dim) < 0);
    return has;
}

static bool can_route(const sc_module *m, const sc_op *dot, uint32_t operand, routed *out)
{
    *out = (routed){.operand = operand, .gather = find_gather(m, dot->operands[operand])};
    if (out->gather == SC_NONE)
        return false;
    const sc_op *gather = sc_op_at(m, out->gather);
    const sc_type_info *table = sc_type_of(m, gather->operands[0]),
                       *ids = sc_type_of(m, gather->operands[1]),
                       *x = sc_type_of(m, dot->operands[1 - operand]);
    const sc_attr *dims = sc_op_attr(dot, SC_ATTR_dims);
    sc_dim indexed = sc_op_attr(gather, SC_ATTR_dims)->dims[0];
    for (uint32_t i = 0; i < dims->count; i++) {
        if (sc_type_find_dim(ids, dims->dims[i]) >= 0)
            out->summed[out->summed_count++] = dims->dims[i];
        else
            out->contracted[out->contracted_count++] = dims->dims[i];
    }
    return out->contracted_count > 0 && shares_dim(x, ids) && !shares_dim(table, ids) &&
           has_new_dim(table, x, indexed) && sc_type_find_dim(x, indexed) < 0;
}

/* Makes `id` what the last of its new ops is, so that the value keeps its number and name. */
static void become(sc_module *m, sc_op_id id, sc_value result)
{
    sc_op_id last = sc_def(m, result);
    sc_op *op = sc_op_at(m, id);
    const sc_op *made = sc_op_at(m, last);
    op->kind = made->kind;
    op->operands = made->operands;
    op->operand_count = made->operand_count;
    op->attrs = made->attrs;
    op->attr_count = made->attr_count;
    sc_op_unlink(m, last);
}

/* Removes the gather and the ops behind it that nothing reads any more. */
static void drop_unread(routing *r, sc_value value)
{
    sc_module *m = r->e.m;
    bool is_gather = false;
    while (!is_gather && r->uses[value] == 0) {
        sc_op_id id = sc_def(m, value);
        if (m->values.data[value].path != 0)
            *sc_vec_push(&m->context->arena, r->unmade) = m->values.data[value].path;
        is_gather = sc_op_is_table((sc_op_kind)sc_op_at(m, id)->kind, 0);
        value = sc_op_at(m, id)->operands[0];
        r->uses[value] -= is_gather ? 0 : 1;
        sc_op_unlink(m, id);
    }
}

/* The table in the dtype and with the composite dims in which the dot has what is gathered from
 * it. */
static sc_value table_as_read(routing *r, sc_value table, sc_value gathered)
{
    const sc_type_info like = *sc_type_of(r->e.m, gathered);
    table = sc_make_cast(&r->e, table, like.dtype);
    sc_type_info type = *sc_type_of(r->e.m, table);
    for (uint32_t i = 0; i < type.rank; i++) {
        int at = sc_type_find_dim(&like, type.dims[i].dim);
        type.dims[i].group = at < 0 ? type.dims[i].group : like.dims[at].group;
    }
    return sc_make_fit(&r->e, table, &type);
}

static void route(routing *r, sc_op_id id, const routed *found)
{
    sc_module *m = r->e.m;
    const sc_op dot = *sc_op_at(m, id), gather = *sc_op_at(m, found->gather);
    const sc_type_info type = *sc_type_of(m, dot.first_result);
    sc_value x = dot.operands[1 - found->operand];
    r->e.before = r->e.like = id;
    const sc_attr dims = sc_attr_dims(m, SC_ATTR_dims, found->contracted, found->contracted_count);
    sc_value table = table_as_read(r, gather.operands[0], dot.operands[found->operand]);
    const sc_attr attrs[] = {
        dims, sc_attr_dims(m, SC_ATTR_to, sc_op_attr(&gather, SC_ATTR_dims)->dims, 1),
        sc_attr_int(SC_ATTR_wide, 1)};
    /* as the dot would, a sum that follows adds what is not rounded yet */
    bool is_wide = sc_op_int(&dot, SC_ATTR_wide, 0) != 0 || found->summed_count > 0;
    sc_value result =
        sc_make_value(&r->e, SC_OP_routed_dot, (sc_value[]){x, table, gather.operands[1]}, 3, attrs,
                      is_wide ? 3 : 2);
    if (found->summed_count > 0) {
        const sc_attr summed = sc_attr_dims(m, SC_ATTR_dims, found->summed, found->summed_count);
        result = sc_make_value(&r->e, SC_OP_sum, &result, 1, &summed, 1);
        result = sc_make_cast(&r->e, result, type.dtype);
    }
    become(m, id, sc_make_fit(&r->e, result, &type));
    r->uses[dot.operands[found->operand]]--;
    drop_unread(r, dot.operands[found->operand]);
}

void sc_route_dots(sc_module *m, sc_func_id func, sc_path_texts *unmade)
{
    routing r = {.e = {.m = m, .func = func}, .uses = sc_count_uses(m), .unmade = unmade};
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        routed found;
        if ((sc_ops[op->kind].fuse & SC_FUSE_CONTRACT) == 0)
            continue;
        if (can_route(m, op, 1, &found) || can_route(m, op, 0, &found))
            route(&r, id, &found);
    }
}
