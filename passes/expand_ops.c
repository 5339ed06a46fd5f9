/* expand-ops: ops that kernels know by their definition become it.
 *
 *   %2 = softmax[V] %1    ->    %3 = max[V] %1    %4 = sub %1, %3    %5 = exp %4    %6 = sum[V] %5    %7 = div %5, %6
 *
 * The definition is the one that expand-forms uses (`expand` in the op's row); here none of the op's dims along which it needs a form is
 * split. Made values are split as the op's operands and results are, dim by dim. Terminates: expansions consist of ops that have none.
 */
#include "passes/pass.h"
#include "passes/uses.h"

typedef struct placing_like {
    sc_module *m;
    sc_op_id op;
} placing_like;

/* How the op that is replaced has the dim split. */
static sc_atom_list split_of(const sc_module *m, const sc_op *op, sc_dim dim)
{
    for (uint32_t i = 0; i < op->operand_count + op->result_count; i++) {
        const sc_type_info *type = sc_type_of(m, i < op->operand_count ? op->operands[i] : op->first_result + (i - op->operand_count));
        int at = sc_type_find_dim(type, dim);
        if (at >= 0)
            return sc_placement_dim(&type->placement, (uint32_t)at);
    }
    return (sc_atom_list){0};
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
            sc_atom_list list = split_of(m, sc_op_at(m, like->op), type.dims[i].dim);
            sc_placement_set_dim(&at, i, &list);
        }
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
    expansion.e = (sc_emitter){.m = m, .func = f, .before = op, .like = op, .made = place_made, .user = &like};
    sc_ops[sc_op_at(m, op)->kind].expand(&expansion);
    for (uint32_t r = 0; r < sc_op_at(m, op)->result_count; r++) {
        sc_value old = sc_result(m, op, r), made = expansion.results[r];
        map[old] = made;
        if (m->values.data[made].path == 0)
            m->values.data[made].path = m->values.data[old].path;
    }
    sc_op_unlink(m, op);
}

bool sc_run_expand_ops(sc_module *m, sc_pass_env *env)
{
    (void)env;
    uint32_t old_values;
    sc_value *map = sc_new_value_map(m, &old_values);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            if ((sc_ops[sc_op_at(m, op)->kind].fuse & SC_FUSE_EXPAND) != 0)
                expand(m, f, op, map);
        }
        sc_func_replace_uses(m, f, map, old_values);
    }
    return sc_run_drop_dead(m, env);
}
