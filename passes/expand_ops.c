/* expand-ops: replaces ops that kernels implement through their definition.
 *
 *   %2 = softmax[V] %1    ->    %3 = max[V] %1    %4 = sub %1, %3    %5 = exp %4
 *                               %6 = sum[V] %5    %7 = div %5, %6
 *
 * The definition is the one that expand-forms uses (`expand` in the op's row); here no dim that
 * would need a form is split. New values are split like the op's operands and results, dim by dim.
 * Terminates because expansions contain no ops with expansions.
 *
 * Values that depend only on positions and numbers, such as rope's table of cosines, are then equal
 * in every layer and are computed once. */
#include "passes/pass.h"
#include "passes/uses.h"

typedef struct placing_like {
    sc_module *m;
    sc_op_id op;
} placing_like;

/* Returns how the replaced op splits the dim. */
static sc_sub_axis_list split_of(const sc_module *m, const sc_op *op, sc_dim dim)
{
    for (uint32_t i = 0; i < op->operand_count + op->result_count; i++) {
        const sc_type_info *type =
            sc_type_of(m, i < op->operand_count ? op->operands[i]
                                                : op->first_result + (i - op->operand_count));
        int at = sc_type_find_dim(type, dim);
        if (at >= 0)
            return sc_placement_dim(&type->placement, (uint32_t)at);
    }
    return (sc_sub_axis_list){0};
}

/* The new op is linear in its partial operands, as the replaced one is. */
static sc_sub_axis_set sums_of_operands(const sc_module *m, const sc_op *op)
{
    sc_sub_axis_set sums = 0;
    for (uint32_t i = 0; i < op->operand_count; i++)
        sums |= sc_placement_partial(&sc_type_of(m, op->operands[i])->placement, SC_PARTIAL_SUM);
    return sums;
}

static void place_made(sc_emitter *emitter, sc_op_id made)
{
    const placing_like *like = emitter->user;
    sc_module *m = emitter->m;
    for (uint32_t r = 0; r < sc_op_at(m, made)->result_count; r++) {
        sc_value value = sc_result(m, made, r);
        const sc_type_info type = *sc_type_of(m, value);
        sc_placement at = sc_placement_replicated();
        for (uint32_t i = 0; i < type.rank; i++) {
            sc_sub_axis_list list = split_of(m, sc_op_at(m, like->op), type.dims[i].dim);
            sc_placement_set_dim(&at, i, &list);
        }
        at = sc_placement_with(&at, sums_of_operands(m, sc_op_at(m, made)), SC_PARTIAL_SUM);
        m->values.data[value].type = sc_type_with_placement(m, m->values.data[value].type, &at);
    }
    const sc_attr *phase = sc_op_attr(sc_op_at(m, like->op), SC_ATTR_phase);
    if (phase != NULL)
        sc_op_set_attr(m, made, *phase);
}

static void expand(sc_module *m, sc_func_id f, sc_op_id op, sc_value *map)
{
    placing_like like = {m, op};
    sc_expand expansion = {.shards = 1, .made_dim = SC_NONE};
    expansion.e = (sc_emitter){
        .m = m, .func = f, .before = op, .like = op, .made = place_made, .user = &like};
    sc_op_functions[sc_op_at(m, op)->kind].expand(&expansion);
    for (uint32_t r = 0; r < sc_op_at(m, op)->result_count; r++) {
        sc_value old = sc_result(m, op, r), made = expansion.results[r];
        map[old] = made;
        if (m->values.data[made].path == 0)
            m->values.data[made].path = m->values.data[old].path;
    }
    sc_op_unlink(m, op);
}

/* ---- tables ---- */
typedef struct tables {
    sc_module *m;
    bool *is_table; /* by value: computed elementwise from constants, indices and integer inputs */
    sc_value *map;
    sc_map known; /* fingerprint -> newest op with it */
    uint32_t *older;
} tables;

static bool makes_table(const tables *t, const sc_op *op)
{
    uint32_t traits = sc_op_traits(op), fuse = sc_ops[op->kind].fuse;
    if ((traits & SC_CONSTANT) != 0)
        return true;
    if ((traits & SC_FROM_OUTSIDE) != 0)
        return !sc_dtype_is_float(sc_type_of(t->m, op->first_result)->dtype);
    bool elementwise = (fuse & (SC_FUSE_MAP | SC_FUSE_FREE | SC_FUSE_VIEW)) != 0 &&
                       (traits & (SC_RANDOM | SC_EFFECT | SC_COLLECTIVE)) == 0;
    for (uint32_t i = 0; elementwise && i < op->operand_count; i++)
        elementwise = t->is_table[op->operands[i]];
    return elementwise;
}

/* Texts record only the origin of an op, not its meaning; so do phase and form. */
static bool decides(const sc_attr *attr)
{
    return sc_attr_kinds[attr->key] != SC_ATTR_KIND_TEXT && attr->key != SC_ATTR_phase &&
           attr->key != SC_ATTR_form && attr->key != SC_ATTR_formal;
}

static bool same_table(const sc_module *m, const sc_op *a, const sc_op *b)
{
    if (a->kind != b->kind || a->operand_count != b->operand_count || a->result_count != 1 ||
        b->result_count != 1 ||
        m->values.data[a->first_result].type != m->values.data[b->first_result].type)
        return false;
    for (uint32_t i = 0; i < a->operand_count; i++) {
        if (a->operands[i] != b->operands[i])
            return false;
    }
    uint32_t i = 0, j = 0;
    for (;;) {
        while (i < a->attr_count && !decides(&a->attrs[i]))
            i++;
        while (j < b->attr_count && !decides(&b->attrs[j]))
            j++;
        if (i == a->attr_count || j == b->attr_count)
            return i == a->attr_count && j == b->attr_count;
        if (!sc_attr_equal(&a->attrs[i++], &b->attrs[j++]))
            return false;
    }
}

static void share(tables *t, sc_op_id id)
{
    sc_op *op = sc_op_at(t->m, id);
    uint64_t print =
        sc_hash_mix(op->kind, op->result_count > 0 ? t->m->values.data[op->first_result].type : 0);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        while (t->map[op->operands[i]] != SC_NONE)
            op->operands[i] = t->map[op->operands[i]];
        print = sc_hash_mix(print, op->operands[i]);
    }
    if (op->result_count != 1 || !makes_table(t, op))
        return;
    t->is_table[op->first_result] = true;
    /* values that differ between ranks are cheap to compute, but take memory to keep */
    if ((sc_op_traits(op) & SC_FROM_OUTSIDE) != 0 || sc_op_attr(op, SC_ATTR_over) != NULL ||
        sc_op_attr(op, SC_ATTR_offset) != NULL)
        return;
    bool is_new;
    uint32_t *newest = sc_map_insert(&t->known, print, SC_NONE, &is_new);
    for (sc_op_id other = *newest; other != SC_NONE; other = t->older[other]) {
        if (same_table(t->m, op, sc_op_at(t->m, other))) {
            t->map[op->first_result] = sc_op_at(t->m, other)->first_result;
            return;
        }
    }
    t->older[id] = *newest;
    *newest = id;
}

static void share_tables(sc_module *m, sc_func_id f)
{
    sc_arena *arena = &m->context->arena;
    uint32_t count;
    tables t = {.m = m, .map = sc_new_value_map(m, &count), .known = {.arena = arena}};
    t.is_table = sc_arena_array(arena, count, sizeof *t.is_table);
    t.older = sc_arena_array(arena, m->ops.count, sizeof *t.older);
    sc_for_each_op (m, f, op)
        share(&t, op);
}

bool sc_run_expand_ops(sc_module *m, sc_pass_env *env)
{
    (void)env;
    uint32_t old_values;
    sc_value *map = sc_new_value_map(m, &old_values);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            if (sc_op_is_defined(m, sc_op_at(m, op)))
                expand(m, f, op, map);
        }
        sc_func_replace_uses(m, f, map, old_values);
        share_tables(m, f);
    }
    return sc_run_drop_dead(m, env);
}
