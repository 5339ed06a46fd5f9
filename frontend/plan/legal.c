/* Lists the sizes that an axis over a dim may have. Tries each size as if the plan's mesh were that
 * one axis, through the functions that decide on the plan's own lines (split.c and padding.c), so
 * the answer is the same as for a real plan. */
#include "frontend/plan/internal.h"

enum { MAX_TRIED = 1 << 20, MAX_PADDED = 64 };

typedef struct legal_walk {
    sc_seeding *s;
    sc_resolved_plan *trial; /* a plan with one axis */
    sc_dim dim;
    int64_t size;
} legal_walk;

static bool fits(legal_walk *w, uint32_t axis, const sc_axis_list *axes)
{
    w->trial->mesh.axes[0].size = axis;
    w->s->composites.count = 0; /* cached by axes, not by sizes */
    return sc_seeding_divides(w->s, w->dim, axes);
}

/* Returns the number of shards of a leaf: the product of the axis ranges on it. */
static uint32_t shards_of_leaf(const sc_leaf_split *leaf)
{
    uint32_t shards = 1;
    for (uint32_t r = 0; r < leaf->count; r++)
        shards *= leaf->ranges[r].to / leaf->ranges[r].from;
    return shards;
}

static void add_fit(legal_walk *w, uint32_t axis, const sc_axis_list *axes, sc_legal *out)
{
    sc_legal_size size = {
        .axis = axis, .local = w->size / axis, .replicated = 1, .padded = w->size};
    if (out->composite) {
        const sc_composite_split *split = sc_seeding_composite(w->s, w->dim, axes);
        uint32_t shards = shards_of_leaf(&split->leaves[0]);
        size.major = w->s->sizes[out->major] / shards;
        size.replicated = axis / shards;
    }
    *sc_vec_push(&w->s->context->arena, &out->fits) = size;
}

/* Prefers multiples of 128, which suit matrix units, except for smaller dims, which it would only
 * inflate. */
static void add_padded(legal_walk *w, uint32_t axis, sc_legal *out)
{
    int64_t multiple = 128 % axis == 0 && w->size >= 128 ? 128 : axis;
    if (w->size > INT64_MAX - multiple)
        return;
    sc_legal_size size = {.axis = axis, .replicated = 1, .multiple = (uint32_t)multiple};
    size.padded = (w->size + multiple - 1) / multiple * multiple;
    size.local = size.padded / axis;
    *sc_vec_push(&w->s->context->arena, &out->pads) = size;
}

static bool is_asked(const sc_resolved_plan *plan, uint32_t axis)
{
    bool asked = axis <= MAX_PADDED && (axis & (axis - 1)) == 0;
    for (uint32_t a = 0; a < plan->mesh.axis_count; a++)
        asked = asked || plan->mesh.axes[a].size == axis;
    return asked;
}

static bool is_part(const sc_module *m, sc_dim dim)
{
    bool part = false;
    for (uint32_t d = 0; d < m->dims.count; d++)
        part = part || sc_dim_has_part(m, d, dim);
    return part;
}

void sc_plan_legal_sizes(sc_resolved_plan *plan, sc_module *m, const sc_build_result *built,
                         sc_sym dim, sc_legal *out)
{
    sc_resolved_plan trial = *plan;
    sc_seeding s = {.plan = &trial, .context = plan->context, .m = m, .built = built};
    const sc_axis_list axes = {.count = 1, .axes = {0}};
    s.view = sc_plan_view_make(plan->context, m, built->entry);
    sc_plan_bindings(plan, s.view->entry, &s.bindings);
    sc_seeding_find_sizes(&s);
    legal_walk w = {.s = &s, .trial = &trial, .dim = sc_module_find_dim(m, dim)};
    *out = (sc_legal){.major = SC_NONE};
    if (w.dim == SC_NONE || s.sizes[w.dim] < 1)
        return;
    out->size = w.size = s.sizes[w.dim];
    out->composite = m->dims.data[w.dim].part_count > 0;
    out->major = out->composite ? m->dims.data[w.dim].parts[0] : SC_NONE;
    out->never_padded = out->composite || is_part(m, w.dim);
    trial.mesh = (sc_mesh){.axis_count = 1};
    for (uint32_t axis = 1; axis <= w.size && axis <= MAX_TRIED; axis++) {
        if (w.size % axis == 0 && fits(&w, axis, &axes))
            add_fit(&w, axis, &axes, out);
        else if (w.size % axis != 0 && !out->never_padded && is_asked(plan, axis))
            add_padded(&w, axis, out);
    }
}
