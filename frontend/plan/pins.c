/* Pins: `pin PATH: [B, S@tp, D]` in the plan and `@axis` in the model. */
#include "frontend/declare/path_match.h"
#include "frontend/plan/internal.h"

#include <string.h>

/* ---- before sizes ---- */
/* Matches the shape of a pin with the dims of a type. `..` stands for any number of leading dims,
 * returned in *leading. */
static bool shape_fits(const sc_module *m, const sc_shape *shape, const sc_group_dims *dims,
                       uint32_t *leading)
{
    bool rest = shape->dims.count > 0 && shape->dims.data[0].rest;
    uint32_t count = shape->dims.count - rest;
    *leading = rest && dims->count >= count ? dims->count - count : 0;
    if (count + *leading != dims->count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (m->dims.data[dims->list[*leading + i].dim].name != shape->dims.data[i + rest].dim.text)
            return false;
    }
    return true;
}

/* Reports an axis in the shape that `over` does not list. */
static bool check_covered(sc_resolved_plan *plan, const sc_plan_line *line, const sc_name *name)
{
    int axis = sc_plan_axis(plan, name);
    if (axis < 0 || memchr(line->axes.axes, axis, line->axes.count) != NULL)
        return axis >= 0;
    sc_report(&plan->context->diag, SC_D_bad_pin, name->loc,
              sc_arena_printf(
                  &plan->context->arena, "axis '%s' is not among those this pin fixes (over %s)",
                  sc_text(plan->context, name->text), sc_plan_axes_text(plan, &line->axes)),
              NULL);
    return false;
}

static bool check_axes(sc_resolved_plan *plan, sc_plan_line *line)
{
    const sc_plan_stmt *stmt = line->stmt;
    sc_name_list names = {0};
    line->axes.count = plan->mesh.axis_count;
    for (uint8_t i = 0; i < plan->mesh.axis_count; i++)
        line->axes.axes[i] = i;
    if (stmt->pin.over.count > 0 && !sc_plan_axes(plan, &stmt->pin.over, &line->axes))
        return false;
    for (uint32_t i = 0; i < stmt->pin.shape->dims.count; i++) {
        const sc_name_list *axes = &stmt->pin.shape->dims.data[i].axes;
        for (uint32_t a = 0; a < axes->count; a++) {
            if (!check_covered(plan, line, &axes->data[a]))
                return false;
            *sc_vec_push(&plan->context->arena, &names) = axes->data[a];
        }
    }
    sc_axis_list used;
    return sc_plan_axes(plan, &names, &used);
}

static bool check_dims(sc_resolved_plan *plan, const sc_shape *shape)
{
    bool fine = true;
    for (uint32_t i = 0; i < shape->dims.count; i++) {
        const sc_dimref *dim = &shape->dims.data[i];
        if (!dim->rest) {
            fine = sc_plan_check_dim(plan, &dim->dim) && fine;
        } else if (i > 0) {
            sc_report(&plan->context->diag, SC_D_bad_pin, dim->loc,
                      "'..' must come first; it stands for any leading dims", NULL);
            fine = false;
        }
    }
    return fine;
}

static bool check_shapes(sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    sc_path_list paths = {0};
    *sc_vec_push(&plan->context->arena, &paths) = stmt->pin.path;
    for (uint32_t e = 0; e < plan->entries.count; e++) {
        const sc_plan_view *view = plan->entries.data[e];
        sc_plan_scope scope = sc_plan_scope_make(plan->context, view, &paths);
        for (uint32_t i = 0; i < scope.count; i++) {
            sc_value value = sc_plan_scope_value(&scope, i);
            sc_sym path = sc_plan_value_path(view->m, value);
            if (path == 0 || sc_plan_view_match(view, &stmt->pin.path, path) != SC_PATH_EXACT)
                continue;
            sc_group_dims dims;
            uint32_t leading;
            const sc_type_info *type = sc_type_of(view->m, value);
            sc_group_dims_of(type, &dims);
            if (shape_fits(view->m, stmt->pin.shape, &dims, &leading))
                continue;
            sc_report(&plan->context->diag, SC_D_bad_pin, stmt->pin.shape->loc,
                      sc_arena_printf(&plan->context->arena,
                                      "'%s' has shape %s, but the pin says %s",
                                      sc_path_text(plan->context, &stmt->pin.path),
                                      sc_plan_shape_text(view->m, type),
                                      sc_plan_pin_shape_text(plan->context, stmt->pin.shape)),
                      NULL);
            sc_report_note(&plan->context->diag, sc_op_at(view->m, sc_def(view->m, value))->loc,
                           "it is here");
            return false;
        }
    }
    return true;
}

void sc_plan_check_pin(sc_resolved_plan *plan, sc_plan_line *line)
{
    const sc_plan_stmt *stmt = line->stmt;
    bool fine = sc_plan_check_path(plan, &stmt->pin.path, true);
    fine = check_dims(plan, stmt->pin.shape) && fine;
    fine = check_axes(plan, line) && fine;
    line->broken = !fine || !check_shapes(plan, stmt);
}

/* ---- on a function ---- */
/* Computes the splits of a pin on a value. Returns false if one does not fit. */
static bool pin_splits(sc_seeding *s, const sc_plan_stmt *stmt, sc_value value,
                       sc_claim_split *splits, uint32_t *count)
{
    const sc_shape *shape = stmt->pin.shape;
    sc_group_dims dims;
    uint32_t leading;
    *count = 0;
    sc_group_dims_of(sc_type_of(s->m, value), &dims);
    if (!shape_fits(s->m, shape, &dims, &leading))
        return false;
    bool rest = shape->dims.count > 0 && shape->dims.data[0].rest;
    for (uint32_t i = rest; i < shape->dims.count; i++) {
        const sc_dimref *ref = &shape->dims.data[i];
        sc_axis_list axes;
        if (ref->axes.count == 0 || !sc_plan_axes(s->plan, &ref->axes, &axes))
            continue;
        sc_dim dim = dims.list[leading + i - rest].dim;
        if (!sc_seeding_fits(s, dim, &axes, false)) {
            sc_seeding_report_misfit(s, dim, &axes, ref->loc);
            return false;
        }
        splits[(*count)++] = (sc_claim_split){dim, axes};
    }
    return true;
}

/* Returns the dim that a pin splits over an axis. *majors: the dim's axes within `both` that come
 * before it. */
static sc_dim pinned_dim(const sc_pin_claim *pin, uint32_t axis, sc_axis_set both,
                         sc_axis_set *majors)
{
    for (uint32_t i = 0; i < pin->count; i++) {
        *majors = 0;
        for (uint32_t k = 0; k < pin->splits[i].axes.count; k++) {
            if (pin->splits[i].axes.axes[k] == axis)
                return pin->splits[i].dim;
            *majors |= (sc_axis_set)(1u << pin->splits[i].axes.axes[k]) & both;
        }
    }
    *majors = 0;
    return SC_NONE;
}

/* True if two pins of one value agree on the axes that both fix. */
static bool pins_agree(const sc_pin_claim *a, const sc_pin_claim *b)
{
    sc_axis_set both = sc_axis_list_set(&a->source->axes) & sc_axis_list_set(&b->source->axes);
    for (uint32_t axis = 0; axis < SC_MAX_AXES; axis++) {
        sc_axis_set before_a, before_b;
        if ((both >> axis & 1) != 0 &&
            (pinned_dim(a, axis, both, &before_a) != pinned_dim(b, axis, both, &before_b) ||
             before_a != before_b))
            return false;
    }
    return true;
}

/* Adds a pin to a value. Returns false after reporting a conflict. A pin that adds nothing to an
 * earlier one is not recorded: whatever agrees with the earlier one agrees with it. */
static bool add_pin(sc_seeding *s, const sc_pin_claim *pin, sc_value value)
{
    bool is_new;
    sc_axis_set axes = sc_axis_list_set(&pin->source->axes);
    s->pinned.arena = &s->context->arena;
    uint32_t *newest = sc_map_insert(&s->pinned, value, s->pins.count, &is_new);
    for (uint32_t i = is_new ? SC_NONE : *newest; i != SC_NONE; i = s->pins.data[i].before) {
        const sc_plan_line *other = s->pins.data[i].source;
        if (!pins_agree(pin, &s->pins.data[i])) {
            const sc_shape *mine = pin->source->stmt->pin.shape, *its = other->stmt->pin.shape;
            sc_report(&s->context->diag, SC_D_bad_pin, mine->loc,
                      sc_arena_printf(
                          &s->context->arena, "%s is pinned as %s here and as %s before",
                          sc_seeding_value_text(s, value), sc_plan_pin_shape_text(s->context, mine),
                          sc_plan_pin_shape_text(s->context, its)),
                      NULL);
            sc_report_note(&s->context->diag, its->loc,
                           "the other pin is here; 'over AXES' limits a pin to these");
            return false;
        }
        if ((axes & ~sc_axis_list_set(&other->axes)) == 0)
            return true;
    }
    sc_pin_claim *made = sc_vec_push(&s->context->arena, &s->pins);
    *made = *pin;
    made->before = is_new ? SC_NONE : *newest;
    *newest = s->pins.count - 1;
    return true;
}

void sc_seeding_pin(sc_seeding *s, const sc_plan_line *source, uint32_t line)
{
    sc_path_list paths = {0};
    *sc_vec_push(&s->context->arena, &paths) = source->stmt->pin.path;
    sc_plan_scope scope = sc_plan_scope_make(s->context, s->view, &paths);
    sc_type last_type = SC_NONE;
    const sc_claim_split *splits = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < scope.count; i++) {
        sc_value value = sc_plan_scope_value(&scope, i);
        if (sc_plan_value_path(s->m, value) == 0 ||
            (s->view->kinds[value] & SC_KINDS_FOLLOWING) != 0 ||
            sc_plan_scope_match(&scope, s->view->places[value]) != SC_PATH_EXACT)
            continue;
        sc_type type = s->m->values.data[value].type;
        if (type != last_type) {
            sc_claim_split *fresh = sc_arena_array(&s->context->arena, SC_MAX_RANK, sizeof *fresh);
            if (!pin_splits(s, source->stmt, value, fresh, &count))
                return;
            splits = fresh;
            last_type = type;
        }
        if (!add_pin(s, &(sc_pin_claim){.source = source, .splits = splits, .count = count}, value))
            return;
        sc_seeding_claim(s, line, value, SC_SEED_PIN, sc_axis_list_set(&source->axes), splits,
                         count);
    }
}

/* ---- @axis ---- */
/* Returns the axes of an annotation that the plan has; others are ignored with a note. */
static sc_axis_list known_axes(sc_seeding *s, const sc_inline_pin *pin)
{
    sc_axis_list axes = {0};
    for (uint32_t i = 0; i < pin->axes.count; i++) {
        const sc_name *name = &pin->axes.data[i];
        uint8_t a = 0;
        while (a < s->plan->mesh.axis_count && s->plan->mesh.axes[a].name != name->text)
            a++;
        if (a == s->plan->mesh.axis_count) {
            if (s->plan->plan != NULL)
                sc_report(&s->context->diag, SC_D_axis_ignored, name->loc,
                          sc_text(s->context, name->text), NULL);
        } else if (memchr(axes.axes, a, axes.count) != NULL) {
            sc_report(&s->context->diag, SC_D_axis_twice, name->loc,
                      sc_text(s->context, name->text), NULL);
        } else {
            axes.axes[axes.count++] = a;
        }
    }
    return axes;
}

static uint32_t line_of(sc_seeding *s, sc_map *lines, const sc_inline_pin *pin)
{
    bool is_new;
    uint32_t *line = sc_map_insert(lines, pin->loc.begin, s->lines.count, &is_new);
    if (is_new) {
        const char *path = sc_path_without_indices(s->context, sc_text(s->context, pin->path));
        const char *dim = sc_text(s->context, s->m->dims.data[pin->dim].name),
                   *axes = sc_plan_names_text(s->context, &pin->axes);
        bool several = pin->axes.count > 1;
        sc_seeding_add_line(s,
                            sc_arena_printf(&s->context->arena,
                                            several ? "%s: %s@(%s)" : "%s: %s@%s", path, dim, axes),
                            pin->loc);
    }
    return *line;
}

/* The paths of weights gathered for routed products, which no value has. */
static sc_map unmade_paths(const sc_seeding *s)
{
    sc_map unmade = {.arena = &s->context->arena};
    for (uint32_t i = 0; i < s->built->unmade.count; i++)
        sc_map_insert(&unmade, s->built->unmade.data[i], i, NULL);
    return unmade;
}

/* Warns of a pin of such weights. */
static void report_unmade(const sc_seeding *s, const sc_inline_pin *pin)
{
    sc_context *context = s->context;
    sc_report(&context->diag, SC_D_line_idle, pin->loc,
              sc_arena_printf(&context->arena, "'%s'", sc_text(context, s->built->entry)),
              sc_arena_printf(&context->arena,
                              "the gathered weights '%s' are never made; pin the parameter that "
                              "they are gathered from",
                              sc_path_without_indices(context, sc_text(context, pin->path))),
              NULL);
}

void sc_seeding_inline_pins(sc_seeding *s)
{
    sc_map lines = {.arena = &s->context->arena}, said = {.arena = &s->context->arena};
    const sc_map unmade = unmade_paths(s);
    for (uint32_t p = 0; p < s->built->pins.count; p++) {
        const sc_inline_pin *pin = &s->built->pins.data[p];
        sc_axis_list axes = known_axes(s, pin);
        if (axes.count == 0 || s->sizes[pin->dim] == 0)
            continue;
        if (!sc_seeding_fits(s, pin->dim, &axes, false)) {
            sc_seeding_report_misfit(s, pin->dim, &axes, pin->loc);
            continue;
        }
        sc_claim_split *split = sc_arena_alloc(&s->context->arena, sizeof *split);
        *split = (sc_claim_split){pin->dim, axes};
        const uint32_t *first = sc_map_find(&s->view->by_path, pin->path);
        bool is_new = false; /* the instances of a block have one pin */
        if (first == NULL && sc_map_find(&unmade, pin->path) != NULL)
            sc_map_insert(&said, pin->loc.begin, p, &is_new);
        if (is_new)
            report_unmade(s, pin);
        for (uint32_t i = first == NULL ? SC_NONE : *first; i != SC_NONE;
             i = s->view->next_same.data[i]) {
            sc_value value = s->view->values.data[i];
            if (sc_type_has_dim(s->m, sc_type_of(s->m, value), pin->dim))
                sc_seeding_claim(s, line_of(s, &lines, pin), value, SC_SEED_PIN,
                                 sc_axis_list_set(&axes), split, 1);
        }
    }
}
