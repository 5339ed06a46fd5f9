/* Helpers shared by the files of sink-reductions: creating the ops of a sum that is reduced
 * later. */
#include "passes/sinking.h"

sc_value sc_sink_reshard(sc_sinking *s, sc_op_id before, sc_op_id like, sc_value value,
                         sc_type type)
{
    const sc_op old = *sc_op_at(s->m, like);
    sc_op_id op = sc_op_new(s->m, old.func, before, SC_OP_reshard, &value, 1, old.attrs,
                            old.attr_count, &type, 1, like);
    /* the chunk of a pipeline that has the value reduces it: that of `like` may run earlier */
    const uint16_t chunk = sc_op_at(s->m, sc_def(s->m, value))->chunk;
    if (chunk != SC_NO_CHUNK)
        sc_op_at(s->m, op)->chunk = chunk;
    return sc_result(s->m, op, 0);
}

sc_value sc_sink_converted(sc_sinking *s, sc_op_id before, sc_value value, sc_dtype dtype)
{
    sc_module *m = s->m;
    if (sc_type_of(m, value)->dtype == dtype)
        return value;
    sc_op_id def = sc_def(m, value);
    const sc_attr *phase = sc_op_attr(sc_op_at(m, def), SC_ATTR_phase);
    sc_attr attr = phase != NULL ? *phase : (sc_attr){0};
    sc_type type = sc_type_with_dtype(m, m->values.data[value].type, dtype);
    return sc_result(m,
                     sc_op_new(m, m->ops.data[def].func, before, SC_OP_cast, &value, 1, &attr,
                               phase != NULL, &type, 1, def),
                     0);
}

void sc_sink_reduce_as(sc_sinking *s, sc_op_id op, sc_op_id like, sc_type made)
{
    sc_module *m = s->m;
    sc_value value = sc_result(m, op, 0);
    sc_type belongs = m->values.data[value].type;
    sc_dtype travels = m->types.data[made].dtype;
    m->values.data[value].type = made;
    sc_op_id next = m->ops.data[op].next;
    sc_value moved = sc_sink_reshard(s, next, like, value, sc_type_with_dtype(m, belongs, travels));
    moved = sc_sink_converted(s, next, moved, m->types.data[belongs].dtype);
    m->values.data[moved].path = m->values.data[value].path;
    m->values.data[value].path = 0;
    if (value < s->count) {
        s->current[value] = moved;
        sc_map_insert(&s->inherited, moved, s->uses[value], NULL);
        s->uses[value] = 1;
    }
}

void sc_sink_reduce_after(sc_sinking *s, sc_op_id op, sc_op_id like, const sc_placement *raw)
{
    sc_sink_reduce_as(
        s, op, like,
        sc_type_with_placement(s->m, s->m->values.data[sc_result(s->m, op, 0)].type, raw));
}

sc_value sc_sink_spread(sc_sinking *s, sc_op_id before, sc_value value, sc_sub_axis_set more)
{
    sc_module *m = s->m;
    uint8_t sub_axes[SC_MAX_SUB_AXES];
    uint32_t count = 0;
    sc_placement at = sc_type_of(m, value)->placement;
    for (uint32_t a = 0; a < m->mesh.sub_axis_count; a++) {
        if ((more >> a & 1) == 0)
            continue;
        sub_axes[count++] = (uint8_t)a;
        at.on[a] = SC_PARTIAL_SUM;
    }
    if (count == 0)
        return value;
    sc_attr over = sc_attr_sub_axes(m, SC_ATTR_over, sub_axes, count);
    sc_type type = sc_type_with_placement(m, m->values.data[value].type, &at);
    return sc_result(m,
                     sc_op_new(m, m->ops.data[before].func, before, SC_OP_to_partial, &value, 1,
                               &over, 1, &type, 1, before),
                     0);
}
