/* fold-views: removes views that do not change the type, and casts that round a widened value back.
 *
 *   %5 = use %4 : f32[B, S, D]          uses of %5 become uses of %4, which inherits a missing name
 *
 *   %2 = cast %1 : f32[B, T, E]
 *   %3 = rename[T -> S] %2
 *   %4 = cast %3 : bf16[B, S, E]    ->  %4 = rename[T -> S] %1 : bf16[B, S, E]
 *
 * Formals, results and names were separate values so that a plan could place them; once reshards
 * are explicit that is not needed. Derivatives of views are computed in the dtype in which
 * cotangents are summed; a single cotangent needs no sum. Requires RESHARDS_EXPLICIT. One walk;
 * drop-dead removes what is no longer read. */
#include "passes/pass.h"
#include "passes/uses.h"

static bool is_view(const sc_module *m, sc_op_id op)
{
    return (sc_op_traits(sc_op_at(m, op)) & SC_VIEW) != 0;
}

/* True if the op only changes the dtype of its operand. */
static bool is_cast(sc_module *m, sc_op_id op)
{
    if ((sc_op_traits(sc_op_at(m, op)) & SC_CONVERTS) == 0)
        return false;
    sc_type from = m->values.data[sc_op_at(m, op)->operands[0]].type,
            to = m->values.data[sc_result(m, op, 0)].type;
    return sc_type_with_dtype(m, from, sc_type_of(m, sc_result(m, op, 0))->dtype) == to;
}

/* Returns the original value that a rounding cast restores, `*out_views` views away from its
 * widening; SC_NONE if the cast does not restore one. */
static sc_value widened_from(sc_module *m, sc_op_id cast, uint32_t *out_views)
{
    *out_views = 0;
    if (!is_cast(m, cast))
        return SC_NONE;
    sc_dtype dtype = sc_type_of(m, sc_result(m, cast, 0))->dtype,
             wide = sc_type_of(m, sc_op_at(m, cast)->operands[0])->dtype;
    sc_op_id def = sc_def(m, sc_op_at(m, cast)->operands[0]);
    for (; is_view(m, def); def = sc_def(m, sc_op_at(m, def)->operands[0]))
        ++*out_views;
    if (!sc_dtype_widens(dtype, wide) || !is_cast(m, def) ||
        sc_type_of(m, sc_op_at(m, def)->operands[0])->dtype != dtype)
        return SC_NONE;
    return sc_op_at(m, def)->operands[0];
}

/* Applies the `count` views ending at `view` to the value before widening. Iterative, because IR
 * text may contain chains of any length. */
static sc_value view_again(sc_module *m, sc_func_id f, sc_op_id before, sc_op_id view,
                           uint32_t count, sc_value source)
{
    sc_op_id *views = sc_arena_array(&m->context->arena, count, sizeof *views);
    for (uint32_t i = count; i-- > 0; view = sc_def(m, sc_op_at(m, view)->operands[0]))
        views[i] = view;
    for (uint32_t i = 0; i < count; i++) {
        const sc_op o = *sc_op_at(m, views[i]);
        sc_type type = sc_type_with_dtype(m, m->values.data[o.first_result].type,
                                          sc_type_of(m, source)->dtype);
        sc_op_id made = sc_op_new(m, f, before, (sc_op_kind)o.kind, &source, 1, o.attrs,
                                  o.attr_count, &type, 1, views[i]);
        source = sc_result(m, made, 0);
    }
    return source;
}

/* Returns the replacement of the op's result; SC_NONE: none. */
static sc_value meaning_of(sc_module *m, sc_func_id f, sc_op_id op, const sc_value *map,
                           uint32_t count)
{
    uint32_t views;
    sc_value result = sc_result(m, op, 0), widened = widened_from(m, op, &views);
    if (widened != SC_NONE)
        return view_again(m, f, op, sc_def(m, sc_op_at(m, op)->operands[0]), views, widened);
    if (!is_view(m, op))
        return SC_NONE;
    sc_value source = sc_op_at(m, op)->operands[0];
    source = source < count && map[source] != SC_NONE ? map[source] : source;
    return m->values.data[source].type == m->values.data[result].type ? source : SC_NONE;
}

bool sc_run_fold_views(sc_module *m, sc_pass_env *env)
{
    (void)env;
    uint32_t count;
    sc_value *map = sc_new_value_map(m, &count);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            if (sc_op_at(m, op)->result_count != 1 || sc_result(m, op, 0) >= count)
                continue;
            sc_value result = sc_result(m, op, 0), source = meaning_of(m, f, op, map, count);
            if (source == SC_NONE)
                continue;
            bool is_state = (sc_op_traits(sc_op_at(m, sc_def(m, source))) & SC_STATE_READ) != 0;
            if (m->values.data[source].path == 0 && !is_state)
                m->values.data[source].path = m->values.data[result].path;
            map[result] = source;
            sc_op_unlink(m, op);
        }
        sc_func_replace_uses(m, f, map, count);
    }
    return true;
}
