/* Splits dims over axes, and axes into sub-axes.
 *
 * A composite is split major first: the axes of a line, in order, are assigned to its leaves. Let r
 * be the unsplit part of the current leaf. An axis of n ranks is assigned to this leaf alone if n
 * divides r. If r divides n, it covers the rest of the leaf and continues on the next; the axis
 * must then be cut at r. Otherwise the axes do not fit. Example, H = (K=2, G=4) over tp = 8:
 *
 *   K takes tp's major 2, G the other 4        tp = 8 is cut at 2: sub-axes tp.0 = 2, tp.1 = 4
 *
 * The cuts of an axis by all lines are merged, so they must divide each other. Sub-axes exist only
 * after that; until then claims are kept as ranges of axes. */
#include "frontend/plan/internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- dims ---- */
void sc_group_dims_of(const sc_type_info *type, sc_group_dims *out)
{
    out->count = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        const sc_type_dim *dim = &type->dims[i];
        sc_group_dim *last = out->count > 0 ? &out->list[out->count - 1] : NULL;
        if (dim->group != SC_NONE && last != NULL && last->dim == dim->group) {
            last->count++;
            last->size = dim->size > 0 && last->size > INT64_MAX / dim->size
                             ? INT64_MAX
                             : last->size * dim->size;
            continue;
        }
        out->list[out->count++] =
            (sc_group_dim){dim->group != SC_NONE ? dim->group : dim->dim, i, 1, dim->size};
    }
}

/* Returns the plan's size of a leaf that no tensor of the function has. */
static int64_t declared_size(sc_seeding *s, sc_dim dim)
{
    sc_sym name = s->m->dims.data[dim].name;
    if (!sc_declarations_has_dim(s->plan->program, name))
        return 1;
    const sc_expr expr = {.kind = SC_EXPR_NAME, .name = name, .depth = 1};
    int64_t size;
    return sc_declarations_eval_integer(s->plan->program, &expr, &s->bindings, &size) && size >= 1
               ? size
               : 1;
}

void sc_seeding_find_sizes(sc_seeding *s)
{
    sc_arena *arena = &s->context->arena;
    s->sizes = sc_arena_array(arena, s->m->dims.count, sizeof *s->sizes);
    uint8_t *seen = sc_arena_array(arena, s->m->types.count, 1);
    for (sc_value v = 0; v < s->view->value_count; v++) {
        sc_type id = s->m->values.data[v].type;
        if (seen[id])
            continue;
        seen[id] = 1;
        const sc_type_info *type = &s->m->types.data[id];
        for (uint32_t i = 0; i < type->rank; i++)
            s->sizes[type->dims[i].dim] = type->dims[i].size;
    }
    for (uint32_t d = 0; d < s->m->dims.count; d++) {
        const sc_dim_info *info = &s->m->dims.data[d];
        int64_t size = 1;
        bool any = false;
        for (uint32_t i = 0; i < info->part_count; i++)
            any = any || s->sizes[info->parts[i]] != 0;
        if (any) {
            for (uint32_t i = 0; i < info->part_count; i++) {
                int64_t *part = &s->sizes[info->parts[i]];
                *part = *part != 0 ? *part : declared_size(s, info->parts[i]);
                size = size > INT64_MAX / *part ? INT64_MAX : size * *part;
            }
        }
        if (any)
            s->sizes[d] = size;
    }
}

/* ---- composites ---- */
typedef struct walk {
    const sc_seeding *s;
    const sc_dim_info *dim;
    uint32_t leaf;
    uint64_t rest;         /* unsplit part of the current leaf */
    sc_leaf_split *leaves; /* NULL: only test whether it fits */
} walk;

static bool walk_axis(walk *w, uint8_t axis, uint64_t size)
{
    uint64_t left = size;
    while (left > 1) {
        if (w->rest == 1) {
            if (++w->leaf >= w->dim->part_count)
                return false;
            w->rest = (uint64_t)w->s->sizes[w->dim->parts[w->leaf]];
            continue;
        }
        uint64_t taken = w->rest % left == 0 ? left : w->rest;
        if (left % taken != 0)
            return false;
        if (w->leaves != NULL) {
            sc_leaf_split *leaf = &w->leaves[w->leaf];
            leaf->ranges[leaf->count++] =
                (sc_axis_range){axis, (uint32_t)(size / left), (uint32_t)(size / left * taken)};
        }
        left /= taken;
        w->rest /= taken;
    }
    return true;
}

static walk walk_begin(const sc_seeding *s, sc_dim dim, sc_leaf_split *leaves)
{
    const sc_dim_info *info = &s->m->dims.data[dim];
    return (walk){s, info, 0, (uint64_t)s->sizes[info->parts[0]], leaves};
}

sc_composite_split *sc_seeding_composite(sc_seeding *s, sc_dim dim, const sc_axis_list *axes)
{
    for (uint32_t i = 0; i < s->composites.count; i++) {
        sc_composite_split *known = &s->composites.data[i];
        if (known->dim == dim && known->axes.count == axes->count &&
            memcmp(known->axes.axes, axes->axes, axes->count) == 0)
            return known;
    }
    sc_arena *arena = &s->context->arena;
    sc_leaf_split *leaves = sc_arena_array(arena, s->m->dims.data[dim].part_count, sizeof *leaves);
    bool fits = s->sizes[dim] > 0;
    walk w = walk_begin(s, dim, leaves);
    for (uint32_t i = 0; fits && i < axes->count; i++)
        fits = walk_axis(&w, axes->axes[i], s->plan->mesh.axes[axes->axes[i]].size);
    sc_composite_split *split = sc_vec_push(arena, &s->composites);
    *split = (sc_composite_split){.dim = dim, .axes = *axes, .leaves = fits ? leaves : NULL};
    return split;
}

bool sc_seeding_divides(sc_seeding *s, sc_dim dim, const sc_axis_list *axes)
{
    if (s->m->dims.data[dim].part_count > 0)
        return sc_seeding_composite(s, dim, axes)->leaves != NULL;
    return (uint64_t)s->sizes[dim] % sc_plan_axes_size(s->plan, axes) == 0;
}

/* ---- sizes that fit ---- */
enum { MAX_LISTED = 96, MAX_TRIED = 1 << 20 };

/* Lists divisors in ascending order. Of a very large size, only pairs with a small divisor. */
static uint32_t divisors_of(uint64_t size, uint64_t *out)
{
    uint32_t small = 0, large = 0;
    uint64_t upper[MAX_LISTED];
    for (uint64_t d = 1; d <= size / d && d <= MAX_TRIED && small + large + 2 <= MAX_LISTED; d++) {
        if (size % d != 0)
            continue;
        out[small++] = d;
        if (size / d != d)
            upper[large++] = size / d;
    }
    while (large > 0)
        out[small++] = upper[--large];
    return small;
}

static const char *legal_sizes(const sc_seeding *s, sc_dim dim)
{
    uint64_t divisors[MAX_LISTED];
    /* two chunks a shard */
    const bool is_zigzag = s->m->dims.data[dim].zigzag.count > 0 && s->sizes[dim] % 2 == 0;
    uint32_t count = divisors_of((uint64_t)s->sizes[dim] / (is_zigzag ? 2 : 1), divisors);
    sc_strbuf text;
    sc_strbuf_init(&text, &s->context->arena);
    for (uint32_t i = 0; i < count; i++) {
        if (s->m->dims.data[dim].part_count > 0) {
            walk w = walk_begin(s, dim, NULL);
            if (!walk_axis(&w, 0, divisors[i]))
                continue;
        }
        sc_strbuf_printf(&text, "%s%" PRIu64, text.length > 0 ? ", " : "", divisors[i]);
    }
    return text.data;
}

/* Formats a composite: "K=2 groups of G=4". */
static const char *parts_text(const sc_seeding *s, sc_dim dim)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &s->context->arena);
    const sc_dim_info *info = &s->m->dims.data[dim];
    for (uint32_t i = 0; i < info->part_count; i++)
        sc_strbuf_printf(&text, "%s%s=%" PRId64, i > 0 ? " groups of " : "",
                         sc_text(s->context, s->m->dims.data[info->parts[i]].name),
                         s->sizes[info->parts[i]]);
    return text.data;
}

/* Adds a note with the `pad` line that would make it fit. Suggests a multiple of 128, which suits
 * matrix units, except for smaller dims, which it would only inflate. */
static void note_padding(sc_seeding *s, sc_dim dim, uint64_t size, uint64_t product)
{
    for (uint32_t d = 0; d < s->m->dims.count; d++) {
        if (sc_dim_has_part(s->m, d, dim))
            return; /* composites are never padded */
    }
    uint64_t multiple = 128 % product == 0 && size >= 128 ? 128 : product;
    if (size > INT64_MAX - multiple)
        return;
    uint64_t padded = (size + multiple - 1) / multiple * multiple;
    double waste = 100.0 * (double)(padded - size) / (double)size;
    sc_report_note(&s->context->diag, (sc_loc){0},
                   "or pad it: 'pad %s to multiple %" PRIu64 ";' makes it %" PRIu64
                   ", %.*f %% more",
                   sc_text(s->context, s->m->dims.data[dim].name), multiple, padded,
                   waste < 10 ? 2 : 0, waste);
}

/* Adds a note that the size is that of a micro-batch, a part of the dim in the plan. */
static void note_micro_batches(sc_seeding *s, sc_dim dim, int64_t size)
{
    sc_sym split;
    int64_t count = sc_plan_micro_batches(s->plan, &split);
    const sc_declarations *program = s->plan->program;
    uint32_t whole = count > 1 ? sc_declarations_dim(program, split) : SC_NONE;
    int64_t *sizes = sc_arena_array(&s->context->arena, program->dims.count, sizeof *sizes);
    if (whole == SC_NONE || s->m->dims.data[dim].name != split ||
        !sc_dims_sizes(program, &s->bindings, SC_NONE, sizes) || sizes[whole] / count != size)
        return;
    sc_loc line = {0};
    sc_plan_micro_batch_dim(s->plan, &line);
    sc_report_note(&s->context->diag, line, "a micro-batch has %" PRId64 " of %s = %" PRId64, size,
                   sc_text(s->context, split), sizes[whole]);
}

void sc_seeding_report_shards(sc_seeding *s, sc_dim dim, int64_t size, const sc_axis_list *axes,
                              uint64_t product, sc_loc loc)
{
    sc_diag *diag = &s->context->diag;
    sc_arena *arena = &s->context->arena;
    const char *name = sc_text(s->context, s->m->dims.data[dim].name),
               *size_text = sc_arena_printf(arena, "%" PRId64, size);
    const char *wanted = sc_plan_axes_text(s->plan, axes),
               *shards = sc_arena_printf(arena, "%" PRIu64, product);
    bool composite = s->m->dims.data[dim].part_count > 0;
    if (composite) {
        sc_report(diag, SC_D_heads_do_not_divide, loc, name, size_text, wanted, shards,
                  legal_sizes(s, dim), parts_text(s, dim), NULL);
    } else {
        sc_report(diag, SC_D_does_not_divide, loc, name, size_text, wanted, shards,
                  legal_sizes(s, dim), NULL);
        if (s->m->dims.data[dim].zigzag.count > 0)
            sc_report_note(diag, (sc_loc){0},
                           "split zigzag, every shard is two chunks of one size");
        else
            note_padding(s, dim, (uint64_t)size, product);
    }
    note_micro_batches(s, dim, size);
    sc_plan_note_axes(s->plan, axes);
}

void sc_seeding_report_misfit(sc_seeding *s, sc_dim dim, const sc_axis_list *axes, sc_loc loc)
{
    sc_seeding_report_shards(s, dim, s->sizes[dim], axes, sc_plan_axes_size(s->plan, axes), loc);
}

/* ---- cutting axes ---- */
void sc_seeding_add_cut(sc_seeding *s, uint8_t axis, uint32_t at, sc_loc loc)
{
    if (at == 1 || at == s->plan->mesh.axes[axis].size)
        return;
    for (uint32_t i = 0; i < s->cuts.count; i++) {
        if (s->cuts.data[i].axis == axis && s->cuts.data[i].at == at)
            return;
    }
    *sc_vec_push(&s->context->arena, &s->cuts) = (sc_cut){axis, at, loc};
    for (uint32_t i = s->cuts.count - 1; i > 0 && s->cuts.data[i - 1].at > s->cuts.data[i].at;
         i--) {
        sc_cut swapped = s->cuts.data[i];
        s->cuts.data[i] = s->cuts.data[i - 1];
        s->cuts.data[i - 1] = swapped;
    }
}

static void collect_cuts(sc_seeding *s)
{
    for (uint32_t i = 0; i < s->composites.count; i++) {
        const sc_composite_split *split = &s->composites.data[i];
        if (!split->used)
            continue;
        for (uint32_t k = 0; k < s->m->dims.data[split->dim].part_count; k++) {
            for (uint32_t r = 0; r < split->leaves[k].count; r++) {
                const sc_axis_range *range = &split->leaves[k].ranges[r];
                sc_seeding_add_cut(s, range->axis, range->from, split->loc);
                sc_seeding_add_cut(s, range->axis, range->to, split->loc);
            }
        }
    }
}

static bool report_cuts(sc_seeding *s, const sc_axis *axis, const sc_cut *a, const sc_cut *b)
{
    sc_arena *arena = &s->context->arena;
    sc_report(&s->context->diag, SC_D_axis_cut_twice, b->loc, sc_text(s->context, axis->name),
              sc_arena_printf(arena, "%" PRIu32, axis->size),
              sc_arena_printf(arena, "%" PRIu32, a->at), sc_arena_printf(arena, "%" PRIu32, b->at),
              NULL);
    sc_report_note(&s->context->diag, a->loc, "this line divides it at %" PRIu32, a->at);
    return false;
}

static bool add_sub_axis(sc_seeding *s, sc_mesh *mesh, uint8_t axis, uint32_t size)
{
    if (mesh->sub_axis_count == SC_MAX_SUB_AXES) {
        sc_report(&s->context->diag, SC_D_bad_mesh, s->plan->axis_locs[axis],
                  "too many axes and composites together: the mesh would have more than 16 axes "
                  "and parts of axes",
                  NULL);
        return false;
    }
    mesh->sub_axes[mesh->sub_axis_count++] =
        (sc_sub_axis){axis, mesh->axes[axis].sub_axis_count++, size};
    return true;
}

bool sc_seeding_cut_axes(sc_seeding *s)
{
    collect_cuts(s);
    sc_mesh mesh = s->plan->mesh;
    mesh.sub_axis_count = 0;
    memset(mesh.sub_axes, 0, sizeof mesh.sub_axes);
    for (uint8_t a = 0; a < mesh.axis_count; a++) {
        sc_axis *axis = &mesh.axes[a];
        axis->first_sub_axis = mesh.sub_axis_count;
        axis->sub_axis_count = 0;
        axis->is_stage = s->plan->axis_staged[a] && axis->size > 1;
        if (axis->is_stage)
            continue; /* nothing is placed on it */
        const sc_cut *last = NULL;
        for (uint32_t i = 0; i < s->cuts.count; i++) {
            const sc_cut *cut = &s->cuts.data[i];
            if (cut->axis != a)
                continue;
            if (last != NULL && cut->at % last->at != 0)
                return report_cuts(s, axis, last, cut);
            if (!add_sub_axis(s, &mesh, a, last == NULL ? cut->at : cut->at / last->at))
                return false;
            last = cut;
        }
        if (!add_sub_axis(s, &mesh, a, last == NULL ? axis->size : axis->size / last->at))
            return false;
    }
    s->m->mesh = mesh;
    return true;
}

/* ---- sub-axes ---- */
void sc_seeding_add_range(const sc_seeding *s, sc_axis_range range, sc_sub_axis_list *list)
{
    const sc_mesh *mesh = &s->m->mesh;
    const sc_axis *axis = &mesh->axes[range.axis];
    uint32_t at = 1;
    for (uint8_t i = 0; i < axis->sub_axis_count; i++) {
        uint8_t sub_axis = (uint8_t)(axis->first_sub_axis + i);
        uint32_t next = at * mesh->sub_axes[sub_axis].size;
        if (at >= range.from && next <= range.to && next > at)
            list->sub_axes[list->count++] = sub_axis;
        at = next;
    }
}

sc_sub_axis_set sc_seeding_sub_axes(const sc_seeding *s, sc_axis_set axes)
{
    sc_sub_axis_set set = 0;
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
        if ((axes >> s->m->mesh.sub_axes[a].axis & 1) != 0)
            set |= (sc_sub_axis_set)1 << a;
    }
    return set;
}

uint32_t sc_seeding_splits(sc_seeding *s, const sc_type_info *type, const sc_claim_split *claim,
                           sc_split *out)
{
    const sc_dim_info *info = &s->m->dims.data[claim->dim];
    if (info->part_count == 0) {
        out[0] = (sc_split){.dim = claim->dim};
        for (uint32_t i = 0; i < claim->axes.count; i++)
            sc_seeding_add_range(
                s,
                (sc_axis_range){claim->axes.axes[i], 1, s->m->mesh.axes[claim->axes.axes[i]].size},
                &out[0].sub_axes);
        return sc_type_find_dim(type, claim->dim) >= 0 && out[0].sub_axes.count > 0;
    }
    const sc_composite_split *split = sc_seeding_composite(s, claim->dim, &claim->axes);
    uint32_t count = 0;
    if (split->leaves != NULL) {
        for (uint32_t k = 0; k < info->part_count; k++) {
            if (sc_type_find_dim(type, info->parts[k]) < 0 || split->leaves[k].count == 0)
                continue;
            out[count] = (sc_split){.dim = info->parts[k]};
            for (uint32_t r = 0; r < split->leaves[k].count; r++)
                sc_seeding_add_range(s, split->leaves[k].ranges[r], &out[count].sub_axes);
            count += out[count].sub_axes.count > 0;
        }
    }
    return count;
}
