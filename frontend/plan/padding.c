/* Pads dims so that axes divide them: by `pad` lines, with --allow-padding, and where a parameter
 * is split only for storage. */
#include "frontend/plan/internal.h"

static bool moves_activations(const sc_plan_stmt *rule)
{
    const uint32_t stored = 1u << SC_KIND_PARAM | 1u << SC_KIND_GRAD | 1u << SC_KIND_OPT;
    return rule->shard.kinds.mask == 0 || (rule->shard.kinds.mask & ~stored) != 0;
}

/* True if a rule that places activations splits this dim: padding it for storage would pad
 * activations too. */
static bool splits_activations(const sc_seeding *s, sc_dim dim)
{
    for (uint32_t i = 0; i < s->plan->lines.count; i++) {
        const sc_plan_stmt *stmt = s->plan->lines.data[i].stmt;
        bool moves = stmt->kind == SC_PLAN_SHARD && moves_activations(stmt);
        if (moves) {
            for (uint32_t d = 0; d < stmt->shard.dims.count; d++) {
                if (sc_module_find_dim(s->m, stmt->shard.dims.data[d].text) == dim)
                    return true;
            }
        }
    }
    return false;
}

/* Pads to the least common multiple with the current padding, so that what divided before still
 * divides. */
static bool add_multiple(sc_module *m, sc_dim dim, uint64_t wanted)
{
    sc_dim_info *info = &m->dims.data[dim];
    uint64_t multiple = info->multiple > 1 ? (uint64_t)info->multiple : 1, a = multiple, b = wanted;
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    if (wanted / a > ((uint64_t)1 << 40) / multiple)
        return false;
    info->multiple = (int64_t)(wanted / a * multiple);
    return true;
}

bool sc_seeding_pad_as_needed(sc_seeding *s, sc_dim dim, uint64_t product, bool stored)
{
    /* neither composites nor zigzags are padded */
    if (s->m->dims.data[dim].part_count > 0 || s->m->dims.data[dim].zigzag.count > 0 ||
        !(s->plan->options.allow_padding || (stored && !splits_activations(s, dim))))
        return false;
    for (uint32_t d = 0; d < s->m->dims.count; d++) {
        if (sc_dim_has_part(s->m, d, dim))
            return false;
    }
    return add_multiple(s->m, dim, product);
}

/* ---- storage ---- */
/* Returns the number of shards of a leaf under a split. */
static uint64_t shards_of(sc_seeding *s, const sc_claim_split *split, sc_dim leaf)
{
    const sc_dim_info *info = &s->m->dims.data[split->dim];
    uint64_t shards = split->dim == leaf ? sc_plan_axes_size(s->plan, &split->axes) : 1;
    const sc_leaf_split *leaves =
        info->part_count > 0 ? sc_seeding_composite(s, split->dim, &split->axes)->leaves : NULL;
    if (leaves != NULL) {
        for (uint32_t k = 0; k < info->part_count; k++) {
            if (info->parts[k] != leaf)
                continue;
            for (uint32_t r = 0; r < leaves[k].count; r++)
                shards *= leaves[k].ranges[r].to / leaves[k].ranges[r].from;
        }
    }
    return shards;
}

/* Returns the number of shards of a value's leaf under the lines so far. */
static uint64_t taken_shards(sc_seeding *s, sc_value value, sc_dim leaf)
{
    uint64_t shards = 1;
    for (uint32_t t = s->last_taken[value]; t != 0; t = s->taken.data[t - 1].before)
        shards *= shards_of(s, s->taken.data[t - 1].split, leaf);
    return shards;
}

/* True if a line that places activations splits a part of the composite: padding it for storage
 * would pad activations too. */
static bool moves_part(sc_seeding *s, sc_dim leaf)
{
    for (uint32_t l = 0; l < s->lines.count; l++) {
        const sc_line_claims *line = &s->lines.data[l];
        for (uint32_t c = 0; c < line->list.count; c++) {
            if (line->list.data[c].strength == SC_SEED_STORAGE)
                continue;
            for (uint32_t k = 0; k < line->list.data[c].split_count; k++) {
                if (shards_of(s, &line->list.data[c].splits[k], leaf) > 1)
                    return true;
            }
        }
    }
    for (uint32_t l = 0; l < s->plan->lines.count; l++) { /* lines that are read later */
        const sc_plan_stmt *stmt = s->plan->lines.data[l].stmt;
        bool is_later =
            stmt->kind == SC_PLAN_SHARD && stmt->shard.if_free && moves_activations(stmt);
        if (is_later) {
            for (uint32_t d = 0; d < stmt->shard.dims.count; d++) {
                sc_dim dim = sc_module_find_dim(s->m, stmt->shard.dims.data[d].text);
                if (dim != SC_NONE &&
                    shards_of(s, &(sc_claim_split){dim, s->plan->lines.data[l].axes}, leaf) > 1)
                    return true;
            }
        }
    }
    return false;
}

/* Returns the largest part that may be padded, the first if equal: it wastes the least. */
static sc_dim uneven_part(sc_seeding *s, const sc_dim_info *composite)
{
    sc_dim found = SC_NONE;
    for (uint32_t p = 0; p < composite->part_count; p++) {
        sc_dim part = composite->parts[p];
        if (!moves_part(s, part) && (found == SC_NONE || s->sizes[part] > s->sizes[found]))
            found = part;
    }
    return found;
}

sc_dim sc_seeding_stored_dim(sc_seeding *s, sc_value value, const sc_group_dim *dim,
                             const sc_axis_list *axes, sc_storing how)
{
    const sc_dim_info *info = &s->m->dims.data[dim->dim];
    uint64_t shards = sc_plan_axes_size(s->plan, axes), taken = 1;
    uint32_t part_count = info->part_count > 0 ? info->part_count : 1;
    /* one of the axes already has its dim */
    if ((s->used_axes[value] & sc_axis_list_set(axes)) != 0)
        return how == SC_STORE_IN_ONE && sc_seeding_fits(s, dim->dim, axes, true) ? dim->dim
                                                                                  : SC_NONE;
    for (uint32_t p = 0; p < part_count; p++) {
        sc_dim part = info->part_count > 0 ? info->parts[p] : dim->dim;
        uint64_t of_part = taken_shards(s, value, part);
        taken *= of_part;
        if (how == SC_STORE_IN_ONE && sc_dim_divides(s->m, part, s->sizes[part], of_part * shards))
            return part;
    }
    if (how == SC_STORE_IN_ALL_PARTS)
        return info->part_count > 0 && taken == 1 && sc_seeding_divides(s, dim->dim, axes)
                   ? dim->dim
                   : SC_NONE;
    if (how != SC_STORE_UNEVENLY)
        return SC_NONE;
    if (info->part_count == 0)
        return sc_seeding_pad_as_needed(s, dim->dim, taken * shards, true) ? dim->dim : SC_NONE;
    sc_dim part = uneven_part(s, info);
    return part != SC_NONE && add_multiple(s->m, part, taken_shards(s, value, part) * shards)
               ? part
               : SC_NONE;
}

/* Applies a property of one dim to another that some op splits together with it (a rename). Returns
 * true if anything changed. */
typedef bool tie_function(void *what, sc_dim a, sc_dim b);

/* Equalizes their padding. A zigzag has none: it is never split together with the other. */
static bool tie_paddings(void *module, sc_dim a, sc_dim b)
{
    sc_module *m = module;
    int64_t x = m->dims.data[a].multiple, y = m->dims.data[b].multiple;
    if (x == y || (x <= 1 && y <= 1) || m->dims.data[a].zigzag.count > 0 ||
        m->dims.data[b].zigzag.count > 0)
        return false;
    add_multiple(m, a, (uint64_t)(y > 1 ? y : 1));
    add_multiple(m, b, (uint64_t)m->dims.data[a].multiple);
    return m->dims.data[a].multiple != x || m->dims.data[b].multiple != y;
}

/* If one is split, so is the other. */
static bool tie_splits(void *dims, sc_dim a, sc_dim b)
{
    bool *splits = dims, changed = splits[a] != splits[b];
    splits[a] = splits[b] = splits[a] || splits[b];
    return changed;
}

static bool tie_renamed(sc_seeding *s, sc_func_id func, tie_function *tie, void *what)
{
    bool changed = false;
    sc_for_each_op (s->m, func, op) {
        const sc_op *o = sc_op_at(s->m, op);
        const sc_attr *from = sc_op_attr(o, SC_ATTR_dims), *to = sc_op_attr(o, SC_ATTR_to);
        if ((sc_op_traits(o) & SC_VIEW) == 0 || from == NULL || to == NULL ||
            from->count != to->count)
            continue;
        for (uint32_t i = 0; i < from->count; i++)
            changed = tie(what, from->dims[i], to->dims[i]) || changed;
    }
    return changed;
}

static bool tie_all_renamed(sc_seeding *s, tie_function *tie, void *what)
{
    bool changed = false;
    for (sc_func_id func = 0; func < s->m->funcs.count; func++)
        changed = tie_renamed(s, func, tie, what) || changed;
    return changed;
}

/* Rechecks lines: one that divided the size must also divide the padded size. */
static bool fit_lines(sc_seeding *s, const sc_seeds *seeds)
{
    bool changed = false;
    for (uint32_t i = 0; i < seeds->list.count; i++) {
        const sc_seed *seed = &seeds->list.data[i];
        for (uint32_t k = 0; k < seed->split_count; k++) {
            const sc_split *split = &seed->splits[k];
            uint64_t shards = sc_sub_axis_list_size(&s->m->mesh, &split->sub_axes);
            const int64_t before = s->m->dims.data[split->dim].multiple;
            if (before > 1 && !sc_dim_divides(s->m, split->dim, s->sizes[split->dim], shards))
                add_multiple(s->m, split->dim, shards);
            /* a zigzag that its size does not fit stays so: it is reported where it is placed */
            changed = changed || s->m->dims.data[split->dim].multiple != before;
        }
    }
    return changed;
}

void sc_seeding_settle_padding(sc_seeding *s, const sc_module *fixed, const sc_seeds *seeds)
{
    bool padded = false;
    /* placed parameters keep their padding */
    if (fixed != NULL) {
        for (uint32_t d = 0; d < fixed->dims.count; d++) {
            sc_dim dim = fixed->dims.data[d].multiple > 1
                             ? sc_module_find_dim(s->m, fixed->dims.data[d].name)
                             : SC_NONE;
            if (dim != SC_NONE)
                add_multiple(s->m, dim, (uint64_t)fixed->dims.data[d].multiple);
        }
    }
    for (uint32_t d = 0; d < s->m->dims.count; d++)
        padded = padded || s->m->dims.data[d].multiple > 1;
    if (!padded)
        return;
    while (tie_all_renamed(s, tie_paddings, s->m) || fit_lines(s, seeds)) {
    }
}

const bool *sc_seeding_split_dims(sc_seeding *s, const sc_seeds *seeds)
{
    bool *splits = sc_arena_array(&s->context->arena, s->m->dims.count, sizeof *splits);
    for (uint32_t i = 0; i < seeds->list.count; i++) {
        const sc_seed *seed = &seeds->list.data[i];
        for (uint32_t k = 0; k < seed->split_count; k++)
            splits[seed->splits[k].dim] = true;
    }
    while (tie_all_renamed(s, tie_splits, splits)) {
    }
    return splits;
}

bool sc_seeding_fits(sc_seeding *s, sc_dim dim, const sc_axis_list *axes, bool stored)
{
    if (s->m->dims.data[dim].part_count > 0)
        return sc_seeding_composite(s, dim, axes)->leaves != NULL;
    uint64_t product = sc_plan_axes_size(s->plan, axes);
    return sc_dim_divides(s->m, dim, s->sizes[dim], product) ||
           sc_seeding_pad_as_needed(s, dim, product, stored);
}

void sc_seeding_pad(sc_seeding *s)
{
    if (s->plan->plan != NULL) {
        for (uint32_t i = 0; i < s->plan->plan->body.count; i++) {
            const sc_plan_stmt *stmt = s->plan->plan->body.data[i];
            sc_dim dim =
                stmt->kind == SC_PLAN_PAD ? sc_module_find_dim(s->m, stmt->pad.dim.text) : SC_NONE;
            int64_t multiple;
            if (dim != SC_NONE &&
                sc_declarations_eval_integer(s->plan->program, stmt->pad.multiple,
                                             &s->plan->options.binds, &multiple) &&
                multiple > 1)
                s->m->dims.data[dim].multiple = multiple;
        }
    }
}
