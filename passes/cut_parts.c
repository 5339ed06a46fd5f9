/* Sends a replicated value across a cut in parts, where that is cheaper.
 *
 *   %7 : f32[B=8, D=64]     chunk 0      %7 : f32[B=8, D=64]            chunk 0
 *                                        %8 = all_slice %7 over [tp]    chunk 0: f32[B=8@tp, D=64]
 *   %9 = relu %7            chunk 1 ->   %9 = all_gather %8 over [tp]   chunk 1
 *                                        %10 = relu %9                  chunk 1
 *
 * The n ranks of tp have the same value, and each sends it to its neighbour on the next stage: n
 * times the same bytes. Over an axis between nodes these cost more than a gather within one. The
 * functions of chunks then cut between slice and gather like any other program. Two walks. */
#include "passes/cutting.h"
#include "passes/lower_reshards.h"

/* What the values of one type are sent as. */
typedef struct part_plan {
    bool known;
    const sc_reshard_plan *slice, *gather; /* NULL: whole */
    sc_sym why;                            /* of the gather */
} part_plan;

/* A value that a stage receives. */
typedef struct crossing {
    sc_op_id reader; /* the first to run */
    sc_value here;   /* as gathered; SC_NONE: not yet */
} crossing;

typedef struct sending {
    sc_cutting *c;
    const sc_segments *segments;
    const uint8_t *backward; /* by op */
    part_plan *plans;        /* by type */
    sc_value *slices;        /* by value: as sent; SC_NONE: not yet */
    sc_map crossings;        /* value << 32 | stage -> in `list` */
    SC_VEC(crossing) list;
} sending;

/* ---- what a type is sent as ---- */

/* The type with one dim split over all axes over which it is replicated and a byte costs less than
 * over the stage axis; the dim that takes the most ranks. Returns their number. */
static uint64_t find_part(const sc_module *m, const sc_type_info *type, uint32_t stage_axis,
                          sc_placement *part, sc_sub_axis_list *over)
{
    uint64_t most = 1;
    for (uint32_t d = 0; d < type->rank; d++) {
        sc_type_info tried = *type;
        sc_sub_axis_list axes = {0};
        uint64_t ranks = 1;
        for (uint32_t a = 0; a < m->mesh.sub_axis_count; a++) {
            const sc_sub_axis *sub_axis = &m->mesh.sub_axes[a];
            bool is_whole = type->placement.on[a] == SC_ON_NOTHING && sub_axis->size > 1,
                 is_cheap = sc_axes_weight(&m->mesh, 1u << sub_axis->axis) <
                            sc_axes_weight(&m->mesh, 1u << stage_axis);
            if (!is_whole || !is_cheap ||
                !sc_dim_divides(m, type->dims[d].dim, type->dims[d].size,
                                sc_type_shards(&m->mesh, &tried, d) * sub_axis->size))
                continue;
            sc_placement_append(&tried.placement, d, a);
            axes.sub_axes[axes.count++] = (uint8_t)a;
            ranks *= sub_axis->size;
        }
        if (ranks <= most)
            continue;
        most = ranks;
        *part = tried.placement;
        *over = axes;
    }
    return most;
}

static const char *axes_text(const sc_module *m, const sc_sub_axis_list *over)
{
    sc_strbuf text;
    uint32_t last = SC_NONE;
    sc_strbuf_init(&text, &m->context->arena);
    for (uint32_t i = 0; i < over->count; i++) {
        uint32_t axis = m->mesh.sub_axes[over->sub_axes[i]].axis;
        if (axis != last)
            sc_strbuf_printf(&text, "%s%s", i > 0 ? "+" : "",
                             sc_text(m->context, m->mesh.axes[axis].name));
        last = axis;
    }
    return text.data;
}

static const part_plan *plan_of(sending *s, sc_type type)
{
    sc_module *m = s->c->m;
    part_plan *plan = &s->plans[type];
    const sc_type_info whole = m->types.data[type];
    uint32_t axis = s->c->pipeline->axis;
    sc_placement part;
    sc_sub_axis_list over = {0};
    if (plan->known)
        return plan;
    plan->known = true;
    uint64_t ranks = find_part(m, &whole, axis, &part, &over);
    if (ranks == 1)
        return plan;
    sc_type sliced = sc_type_with_placement(m, type, &part);
    const sc_reshard_plan *slice = sc_reshard_find(s->c->planner, type, &part),
                          *gather = sc_reshard_find(s->c->planner, sliced, &whole.placement);
    sc_cost cost = sc_send_cost(s->c->planner, sliced, axis),
            alone = sc_send_cost(s->c->planner, type, axis);
    sc_cost_add(&cost, &slice->cost);
    sc_cost_add(&cost, &gather->cost);
    if (cost.bytes >= alone.bytes)
        return plan;
    const char *name = sc_text(m->context, s->c->pipeline->axis_name);
    plan->slice = slice;
    plan->gather = gather;
    plan->why = sc_intern_printf(
        &m->context->names,
        "each rank of %s sends 1/%llu of it: a byte over %s costs %.0f, over %s %.0f",
        axes_text(m, &over), (unsigned long long)ranks, name, sc_axes_weight(&m->mesh, 1u << axis),
        axes_text(m, &over),
        sc_axes_weight(&m->mesh, 1u << m->mesh.sub_axes[over.sub_axes[0]].axis));
    return plan;
}

/* ---- what crosses ---- */

static uint32_t stage_of(const sending *s, sc_op_id op)
{
    return s->c->pipeline->schedule->rank_of[sc_op_at(s->c->m, op)->chunk];
}

/* True if an op of one stage reads what another one computes. */
static bool crosses(const sending *s, sc_op_id reader, sc_value value)
{
    sc_op_id def = sc_def(s->c->m, value);
    return sc_op_at(s->c->m, reader)->chunk != SC_NO_CHUNK &&
           sc_op_at(s->c->m, def)->chunk != SC_NO_CHUNK && !s->segments->repeats[reader] &&
           !s->segments->repeats[def] && stage_of(s, def) != stage_of(s, reader);
}

static uint64_t key_of(const sending *s, sc_op_id reader, sc_value value)
{
    return (uint64_t)value << 32 | stage_of(s, reader);
}

/* True if the chunk and direction of `a` run before those of `b`: forward passes in the order of
 * chunks, then backward passes in the other. */
static bool runs_before(const sending *s, sc_op_id a, sc_op_id b)
{
    uint32_t x = sc_op_at(s->c->m, a)->chunk, y = sc_op_at(s->c->m, b)->chunk;
    if (s->backward[a] != s->backward[b])
        return !s->backward[a];
    return s->backward[a] ? x > y : x < y;
}

static void find_crossings(sending *s)
{
    const sc_module *m = s->c->m;
    sc_for_each_op (m, s->c->micro, id) {
        const sc_op *op = sc_op_at(m, id);
        for (uint32_t i = 0; i < op->operand_count; i++) {
            sc_value value = op->operands[i];
            bool is_new;
            if (!crosses(s, id, value) || plan_of(s, m->values.data[value].type)->gather == NULL)
                continue;
            uint32_t *known =
                sc_map_insert(&s->crossings, key_of(s, id, value), s->list.count, &is_new);
            if (is_new)
                *sc_vec_push(&m->context->arena, &s->list) = (crossing){id, SC_NONE};
            else if (runs_before(s, id, s->list.data[*known].reader))
                s->list.data[*known].reader = id;
        }
    }
}

/* ---- slices and gathers ---- */

/* Adds the steps of a path after the value's op, for the chunk and the phase of another op. */
static sc_value add_steps(sending *s, const sc_reshard_plan *path, sc_value value, sc_sym why,
                          sc_op_id like)
{
    sc_module *m = s->c->m;
    sc_attr attrs[3];
    uint32_t count = 0;
    sc_sym moves = sc_segments_path_of(s->segments, value),
           phase = sc_op_word(sc_op_at(m, like), SC_ATTR_phase);
    if (moves != 0)
        attrs[count++] = sc_attr_text(SC_ATTR_moves, moves);
    if (phase != 0)
        attrs[count++] = sc_attr_text(SC_ATTR_phase, phase);
    if (why != 0)
        attrs[count++] = sc_attr_text(SC_ATTR_why, why);
    for (uint32_t i = 0; i < path->step_count; i++) {
        sc_op_id def = sc_def(m, value),
                 step = sc_add_reshard_step(m, sc_op_at(m, def)->next, &path->steps[i], value,
                                            attrs, count, def);
        sc_op_at(m, step)->chunk = sc_op_at(m, like)->chunk;
        value = sc_result(m, step, 0);
    }
    return value;
}

/* The value as the stage of the reader gathers it. */
static sc_value gathered(sending *s, sc_op_id reader, sc_value value)
{
    sc_module *m = s->c->m;
    uint32_t *known = sc_map_find(&s->crossings, key_of(s, reader, value));
    if (known == NULL)
        return value;
    crossing *to = &s->list.data[*known];
    const part_plan *plan = plan_of(s, m->values.data[value].type);
    if (to->here != SC_NONE)
        return to->here;
    if (s->slices[value] == SC_NONE)
        s->slices[value] = add_steps(s, plan->slice, value, 0, sc_def(m, value));
    to->here = add_steps(s, plan->gather, s->slices[value], plan->why, to->reader);
    m->values.data[to->here].path = m->values.data[value].path;
    return to->here;
}

bool sc_send_parts(sc_cutting *c, const sc_segments *segments, const uint8_t *backward)
{
    sc_module *m = c->m;
    sc_arena *arena = &m->context->arena;
    uint32_t values = m->values.count, ops = m->ops.count;
    sending s = {.c = c,
                 .segments = segments,
                 .backward = backward,
                 .plans = sc_arena_array(arena, m->types.count + 1u, sizeof *s.plans),
                 .slices = sc_arena_array(arena, values + 1u, sizeof *s.slices),
                 .crossings = {.arena = arena}};
    for (uint32_t v = 0; v < values; v++)
        s.slices[v] = SC_NONE;
    find_crossings(&s);
    if (s.list.count == 0)
        return false;
    sc_for_each_op (m, c->micro, id) {
        sc_value *operands = sc_op_at(m, id)->operands;
        uint32_t count = id < ops ? sc_op_at(m, id)->operand_count : 0;
        for (uint32_t i = 0; i < count; i++)
            operands[i] =
                crosses(&s, id, operands[i]) ? gathered(&s, id, operands[i]) : operands[i];
    }
    return true;
}
