/* Applies `shard` rules to one function: a claim for each value of the rule's kinds and scope that
 * has one of its dims. The effect of a rule depends only on the value's kinds, place and type; each
 * is looked up once, so the walk over values compares integers. */
#include "frontend/plan/internal.h"

#include <string.h>

enum {
    PARAM = 1 << SC_KIND_PARAM,
    GRAD = 1 << SC_KIND_GRAD,
    OPT = 1 << SC_KIND_OPT,
    OUTPUT = 1 << SC_KIND_OUTPUT
};

static bool storage_only(uint32_t mask)
{
    return mask != 0 && (mask & ~(uint32_t)(PARAM | GRAD | OPT)) == 0;
}

bool sc_plan_rule_only_stores(const sc_plan_stmt *stmt)
{
    return storage_only(stmt->shard.kinds.mask);
}

/* True if the rule applies to values of these kinds; sets the strength. */
static bool strength_for(const sc_plan_stmt *stmt, uint32_t kinds, sc_seed_strength *strength)
{
    uint32_t mask = stmt->shard.kinds.mask;
    if (kinds == SC_KIND_NO_RULES || (mask != 0 && (mask & kinds) == 0))
        return false;
    if (storage_only(mask))
        *strength = SC_SEED_STORAGE;
    else if (stmt->shard.if_free)
        *strength = SC_SEED_WEAK;
    else
        *strength = (mask & kinds & OUTPUT) != 0 ? SC_SEED_OUTPUT : SC_SEED_STRONG;
    return true;
}

/* ---- dims of a rule on a type ---- */
typedef struct rule_dims {
    sc_seeding *s;
    const sc_plan_line *source;
    uint32_t line;
    sc_dim *dims;  /* dims of the module; SC_NONE: this function has no dim of that name */
    uint8_t *fits; /* by dim of the rule: 0 unknown, 1 fits, 2 does not */
    bool two_reported;
    struct rule_type {
        bool known;
        sc_claim_split *split; /* NULL: none */
    } * types;
} rule_dims;

static rule_dims rule_begin(sc_seeding *s, const sc_plan_line *source, uint32_t line)
{
    sc_arena *arena = &s->context->arena;
    uint32_t count = source->stmt->shard.dims.count;
    rule_dims rule = {.s = s, .source = source, .line = line};
    rule.dims = sc_arena_array(arena, count, sizeof *rule.dims);
    rule.fits = sc_arena_array(arena, count, sizeof *rule.fits);
    rule.types = sc_arena_array(arena, s->m->types.count, sizeof *rule.types);
    for (uint32_t i = 0; i < count; i++)
        rule.dims[i] = sc_module_find_dim(s->m, source->stmt->shard.dims.data[i].text);
    return rule;
}

/* Returns the rule's dim that applies to a dim of a type: the same dim, else a composite that
 * contains it, else a part of it; -1 if there is none. */
static int dim_for(const rule_dims *rule, const sc_group_dim *dim)
{
    const sc_module *m = rule->s->m;
    uint32_t count = rule->source->stmt->shard.dims.count;
    int whole = -1, part = -1;
    for (uint32_t i = 0; i < count; i++) {
        if (rule->dims[i] == SC_NONE)
            continue;
        if (rule->dims[i] == dim->dim)
            return (int)i;
        if (whole < 0 && dim->count == 1 && sc_dim_has_part(m, rule->dims[i], dim->dim))
            whole = (int)i;
        if (part < 0 && sc_dim_has_part(m, dim->dim, rule->dims[i]))
            part = (int)i;
    }
    return whole >= 0 ? whole : part;
}

static void report_two(rule_dims *rule, sc_value value, int first, int second)
{
    sc_seeding *s = rule->s;
    sc_diag *diag = &s->context->diag;
    const sc_plan_stmt *stmt = rule->source->stmt;
    if (rule->two_reported)
        return;
    rule->two_reported = true;
    const sc_name *a = &stmt->shard.dims.data[first], *b = &stmt->shard.dims.data[second];
    const char *name_a = sc_text(s->context, a->text), *name_b = sc_text(s->context, b->text);
    sc_report(diag, SC_D_two_dims_one_axis, b->loc, sc_seeding_value_text(s, value),
              sc_plan_axes_text(s->plan, &rule->source->axes), name_a, name_b, NULL);
    sc_report_note(diag, a->loc, "the same rule uses %s here", name_a);
    sc_report_note(diag, sc_op_at(s->m, sc_def(s->m, value))->loc, "the tensor is here");
}

static bool check_fit(rule_dims *rule, uint32_t at, bool stored)
{
    if (rule->fits[at] == 0) {
        const sc_plan_stmt *stmt = rule->source->stmt;
        bool fits = sc_seeding_fits(rule->s, rule->dims[at], &rule->source->axes, stored);
        rule->fits[at] = fits ? 1 : 2;
        if (!fits && !stmt->shard.if_free)
            sc_seeding_report_misfit(rule->s, rule->dims[at], &rule->source->axes,
                                     stmt->shard.dims.data[at].loc);
    }
    return rule->fits[at] == 1;
}

/* Returns the split that the rule gives to values of this type. */
static const sc_claim_split *split_for(rule_dims *rule, sc_value value, bool stored)
{
    sc_seeding *s = rule->s;
    struct rule_type *memo = &rule->types[s->m->values.data[value].type];
    if (memo->known)
        return memo->split;
    memo->known = true;
    sc_group_dims dims;
    sc_group_dims_of(sc_type_of(s->m, value), &dims);
    int found = -1;
    for (uint32_t i = 0; i < dims.count; i++) {
        int at = dim_for(rule, &dims.list[i]);
        if (at >= 0 && found >= 0 && at != found) {
            report_two(rule, value, found, at);
            return NULL;
        }
        found = at >= 0 ? at : found;
    }
    if (found < 0 || !check_fit(rule, (uint32_t)found, stored))
        return NULL;
    memo->split = sc_arena_alloc(&s->context->arena, sizeof *memo->split);
    *memo->split = (sc_claim_split){rule->dims[found], rule->source->axes};
    return memo->split;
}

void sc_seeding_rule(sc_seeding *s, const sc_plan_line *source, uint32_t line)
{
    const sc_plan_stmt *stmt = source->stmt;
    rule_dims rule = rule_begin(s, source, line);
    sc_plan_scope scope = sc_plan_scope_make(s->context, s->view, &stmt->in);
    sc_axis_set axes = sc_axis_list_set(&source->axes);
    for (uint32_t i = 0; i < scope.count; i++) {
        sc_value value = sc_plan_scope_value(&scope, i);
        sc_seed_strength strength;
        if (!strength_for(stmt, s->view->kinds[value], &strength) ||
            sc_plan_scope_match(&scope, s->view->places[value]) == SC_PATH_NO)
            continue;
        if (strength == SC_SEED_STORAGE && stmt->shard.if_free && (s->used_axes[value] & axes) != 0)
            continue; /* not free */
        const sc_claim_split *split = split_for(&rule, value, strength == SC_SEED_STORAGE);
        if (split != NULL)
            sc_seeding_claim(s, line, value, strength, 0, split, 1);
    }
}

/* ---- `*` ---- */
static bool is_claimed(const sc_seeding *s, sc_value value, const sc_group_dim *dim)
{
    uint32_t bits = ((1u << dim->count) - 1) << dim->first;
    return (s->claimed[value] & bits) != 0;
}

/* Iterates over the dims that no other line splits, largest first, leftmost first if equal. Returns
 * the one after `above` (NULL: the first), or NULL. */
static const sc_group_dim *next_free(const sc_seeding *s, sc_value value, const sc_group_dims *dims,
                                     const sc_group_dim *above)
{
    const sc_group_dim *found = NULL;
    for (uint32_t i = 0; i < dims->count; i++) {
        const sc_group_dim *dim = &dims->list[i];
        bool is_behind =
            above == NULL || dim->size < above->size || (dim->size == above->size && dim > above);
        if (is_behind && !is_claimed(s, value, dim) && (found == NULL || dim->size > found->size))
            found = dim;
    }
    return found;
}

/* Chooses the dim for `*`: the largest dim that no other line splits and that the axes divide; else
 * the largest dim; if that cannot be split, the largest that no other line splits and that can be.
 * Ties go to the left. If there is none, returns SC_NONE and reports an error unless the line has
 * `if free`. */
static sc_dim choose_used_dim(sc_seeding *s, sc_value value, const sc_group_dims *dims,
                              const sc_plan_line *source)
{
    const sc_axis_list *axes = &source->axes;
    const sc_group_dim *largest = NULL, *free;
    for (free = next_free(s, value, dims, NULL); free != NULL;
         free = next_free(s, value, dims, free)) {
        if (sc_seeding_divides(s, free->dim, axes))
            return free->dim;
    }
    for (uint32_t i = 0; i < dims->count; i++)
        largest = largest == NULL || dims->list[i].size > largest->size ? &dims->list[i] : largest;
    if (largest == NULL || sc_seeding_fits(s, largest->dim, axes, false))
        return largest == NULL ? SC_NONE : largest->dim;
    for (free = next_free(s, value, dims, NULL); free != NULL;
         free = next_free(s, value, dims, free)) {
        if (sc_seeding_fits(s, free->dim, axes, false))
            return free->dim;
    }
    if (!source->stmt->shard.if_free)
        sc_seeding_report_misfit(s, largest->dim, axes, source->stmt->loc);
    return SC_NONE;
}

/* Likewise for storage, also on a dim that other lines split, as far as a part of it remains. A
 * vector over a composite is padded rather than split over several parts: its bytes are few, and it
 * is gathered in the one call of its FSDP unit. SC_NONE if nothing is left. */
static sc_dim choose_stored_dim(sc_seeding *s, sc_value value, const sc_group_dims *dims,
                                const sc_axis_list *axes)
{
    bool is_vector = dims->count == 1;
    const sc_storing last[] = {is_vector ? SC_STORE_UNEVENLY : SC_STORE_IN_ALL_PARTS,
                               is_vector ? SC_STORE_IN_ALL_PARTS : SC_STORE_UNEVENLY};
    const sc_group_dim *largest = NULL, *free;
    sc_dim found = SC_NONE;
    for (free = next_free(s, value, dims, NULL); found == SC_NONE && free != NULL;
         free = next_free(s, value, dims, free)) {
        found = is_vector ? SC_NONE
                          : sc_seeding_stored_dim(s, value, free, axes, SC_STORE_IN_ALL_PARTS);
        found =
            found != SC_NONE ? found : sc_seeding_stored_dim(s, value, free, axes, SC_STORE_IN_ONE);
    }
    for (uint32_t i = 0; i < dims->count; i++)
        largest = largest == NULL || dims->list[i].size > largest->size ? &dims->list[i] : largest;
    if (found == SC_NONE && largest != NULL)
        found = sc_seeding_stored_dim(s, value, largest, axes, SC_STORE_IN_ONE);
    if (largest != NULL) {
        for (uint32_t i = 0; i < 2 && found == SC_NONE; i++)
            found = sc_seeding_stored_dim(s, value, largest, axes, last[i]);
    }
    for (free = next_free(s, value, dims, NULL); found == SC_NONE && free != NULL;
         free = next_free(s, value, dims, free))
        found = sc_seeding_stored_dim(s, value, free, axes, SC_STORE_UNEVENLY);
    return found;
}

/* A dim that is split zigzag somewhere is no choice of `*`, which is mostly for what is stored. */
static void drop_zigzags(const sc_module *m, sc_group_dims *dims)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < dims->count; i++) {
        if (m->dims.data[dims->list[i].dim].zigzag.count == 0)
            dims->list[kept++] = dims->list[i];
    }
    dims->count = kept;
}

void sc_seeding_star_rule(sc_seeding *s, const sc_plan_line *source, uint32_t line)
{
    const sc_plan_stmt *stmt = source->stmt;
    sc_plan_scope scope = sc_plan_scope_make(s->context, s->view, &stmt->in);
    for (uint32_t i = 0; i < scope.count; i++) {
        sc_value value = sc_plan_scope_value(&scope, i);
        sc_seed_strength strength;
        if (!strength_for(stmt, s->view->kinds[value], &strength) ||
            sc_plan_scope_match(&scope, s->view->places[value]) == SC_PATH_NO)
            continue;
        if (stmt->shard.if_free && (s->used_axes[value] & sc_axis_list_set(&source->axes)) != 0)
            continue;
        sc_group_dims dims;
        sc_group_dims_of(sc_type_of(s->m, value), &dims);
        drop_zigzags(s->m, &dims);
        sc_dim chosen = strength == SC_SEED_STORAGE
                            ? choose_stored_dim(s, value, &dims, &source->axes)
                            : choose_used_dim(s, value, &dims, source);
        if (chosen == SC_NONE)
            continue;
        sc_claim_split *split = sc_arena_alloc(&s->context->arena, sizeof *split);
        *split = (sc_claim_split){chosen, source->axes};
        sc_seeding_claim(s, line, value, strength, 0, split, 1);
    }
}
