/* insert-reshards: inserts a reshard where the placement of an operand differs from what its op
 * needs, and where a result is computed in a placement other than its value's.
 *
 *   %4 = dot[F] %2, %3 {split = [F@tp]} : f32[B, D]  ->  %4 = dot[F] %2, %3 : f32[B, D]{sum:tp}
 *                                                        %5 = reshard %4 : f32[B, D]
 *
 * A value is resharded to a placement once, right after its definition, for all its readers,
 * including those that read it as formals of blocks. An elementwise result is rematerialized from
 * resharded operands if that costs fewer bytes; constants and values that previously had the needed
 * placement cost none. Requires propagation; establishes PLACED: from here on types hold all
 * placements, and `split` attributes are removed. */
#include <string.h>

#include "passes/pass.h"
#include "passes/reason.h"
#include "passes/uses.h"

/* Cost of having a value in a type, valid until further reshards are made. */
typedef struct having {
    sc_cost cost;
    uint32_t made; /* number of entries of `made` at that time */
} having;

typedef struct insertion {
    sc_module *m;
    sc_pass_env *env;
    sc_value *current; /* per value at the start: its replacement for readers */
    uint32_t count;
    uint32_t *uses;   /* per value at the start: number of readers, under all its names */
    sc_value *formal; /* the same: a view that names it, or SC_NONE */
    sc_map *made;     /* value << 32 | type -> the value in that type */
    sc_map known;     /* the same key -> index in `costs` */
    SC_VEC(having) costs;
    sc_sym recompute;
} insertion;

/* maximum length of a chain of ops rematerialized instead of moving its result */
enum { MAX_REMADE = 12 };

static uint64_t key_of(sc_value value, sc_type type)
{
    return (uint64_t)value << 32 | type;
}

/* Length of the instance in a scope: layers[3] in layers[3].attn, all of norm. */
static size_t instance_length(const char *scope)
{
    const char *bracket = strchr(scope, ']');
    return bracket == NULL ? strlen(scope) : (size_t)(bracket - scope) + 1;
}

/* Returns the name of a forward value as used in a scope: layers[3].x in layers[3].n1, even if the
 * value is layers[2].out. */
static sc_sym known_as(const insertion *in, sc_value value, const char *scope)
{
    const sc_module *m = in->m;
    size_t length = instance_length(scope);
    sc_sym path = sc_value_path(m, value), first;
    /* its reshard has the name */
    if (path == 0 && value < in->count && in->current[value] != SC_NONE)
        path = sc_value_path(m, in->current[value]);
    first = path;
    for (;;) {
        const char *text = sc_text(m->context, path);
        if (path != 0 && strncmp(text, scope, length) == 0 && text[length] == '.')
            return path;
        if (value >= in->count || in->formal[value] == SC_NONE)
            return first;
        value = in->formal[value];
        path = m->values.data[value].path;
        first = first == 0 ? path : first;
    }
}

/* Derives a name for an unnamed value: the gradient of layers[0].h is layers[0].h.grad; a
 * recomputed value has the name of its original. 0: unknown. */
static sc_sym derived_name(const insertion *in, sc_value value)
{
    sc_module *m = in->m;
    sc_value like = sc_like_of(in->env->step, value);
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    while (like == SC_NONE && op->operand_count == 1 && (sc_op_traits(op) & SC_NAMESAKE) != 0) {
        value = op->operands[0];
        like = sc_like_of(in->env->step, value);
        op = sc_op_at(m, sc_def(m, value));
    }
    if (like == SC_NONE)
        return 0;
    const sc_op *primal = sc_op_at(m, sc_def(m, like));
    sc_sym path = known_as(in, like, sc_text(m->context, op->scope));
    const char *scope = sc_text(m->context, primal->scope);
    if (path == 0)
        path = sc_intern_printf(&m->context->names, "%s%s%s", scope, *scope != 0 ? "." : "",
                                sc_ops[primal->kind].name);
    bool repeats = sc_op_word(op, SC_ATTR_phase) == in->recompute;
    return repeats ? path
                   : sc_intern_printf(&m->context->names, "%s.grad", sc_text(m->context, path));
}

/* Fills in the attributes of a reshard: origin and reason, and the unit and form of its op. */
static uint32_t reshard_attrs(const insertion *in, sc_op_id owner, sc_op_id reader, sc_value value,
                              const sc_reason *reason, sc_sym consumer, sc_attr *attrs)
{
    const sc_module *m = in->m;
    uint32_t count = 0;
    static const sc_attr_key inherited[] = {SC_ATTR_unit, SC_ATTR_form, SC_ATTR_phase,
                                            SC_ATTR_bucket, SC_ATTR_per_step};
    for (size_t i = 0; i < sizeof inherited / sizeof *inherited; i++) {
        const sc_attr *attr = sc_op_attr(sc_op_at(m, owner), inherited[i]);
        if (attr == NULL && reader != SC_NONE && (sc_op_traits(sc_op_at(m, reader)) & SC_VIEW) != 0)
            attr = sc_op_attr(sc_op_at(m, reader),
                              inherited[i]); /* a gradient's `use` determines its bucket */
        if (attr != NULL)
            attrs[count++] = *attr;
    }
    count += sc_reason_attrs(m, value, reason, attrs + count);
    sc_sym derived = sc_value_path(m, value) == 0 ? derived_name(in, value) : 0;
    if (derived != 0)
        attrs[count++] = sc_attr_text(SC_ATTR_moves, derived);
    if (consumer != 0)
        attrs[count++] = sc_attr_text(SC_ATTR_consumer, consumer);
    return count;
}

/* Emits a reshard of `value` right after its definition. */
static sc_value reshard_after(insertion *in, sc_value value, sc_type type, sc_op_id owner,
                              sc_op_id reader, const sc_reason *reason, sc_sym consumer)
{
    sc_module *m = in->m;
    sc_attr attrs[12];
    uint32_t count = reshard_attrs(in, owner, reader, value, reason, consumer, attrs);
    sc_op_id def = sc_def(m, value);
    sc_op_id op = sc_op_new(m, m->ops.data[def].func, m->ops.data[def].next, SC_OP_reshard, &value,
                            1, attrs, count, &type, 1, def);
    return sc_result(m, op, 0);
}

static sc_value copy_anywhere(insertion *in, sc_value value, sc_type type)
{
    sc_module *m = in->m;
    const sc_op op = *sc_op_at(m, sc_def(m, value));
    sc_op_id copy =
        sc_op_new(m, op.func, op.next, (sc_op_kind)op.kind, op.operands, op.operand_count, op.attrs,
                  op.attr_count, &type, 1, sc_def(m, value));
    sc_op_drop_attr(m, copy, SC_ATTR_split);
    return sc_result(m, copy, 0);
}

/* Computes the operand types an op needs for a result of `type`. False if its roles forbid that,
 * i.e. it would sum over a split dim. `types` has room for SC_MAX_FIXED_OPERANDS. */
static bool operand_types(const insertion *in, sc_op_id id, sc_type type, sc_type *types)
{
    sc_module *m = in->m;
    const sc_op *op = sc_op_at(m, id);
    sc_factors factors;
    sc_op_factors(m, op, &factors);
    for (uint32_t o = 0; o < op->operand_count; o++) {
        const sc_type_info *operand = sc_type_of(m, op->operands[o]);
        sc_placement at = sc_placement_replicated();
        for (uint32_t f = 0; f < factors.count; f++) {
            const sc_factor *factor = &factors.list[f];
            if (factor->operand[o] < 0)
                continue;
            uint32_t dim = (uint32_t)factor->operand[o];
            bool is_kept = factor->result[0] >= 0;
            const sc_sub_axis_list list = is_kept ? sc_placement_dim(&m->types.data[type].placement,
                                                                     (uint32_t)factor->result[0])
                                                  : sc_placement_dim(&operand->placement, dim);
            if (list.count == 0)
                continue;
            if (!is_kept || factor->role == SC_ROLE_WHOLE || factor->role == SC_ROLE_FORM ||
                !sc_dim_divides(m, operand->dims[dim].dim, operand->dims[dim].size,
                                sc_sub_axis_list_size(&m->mesh, &list)))
                return false;
            sc_placement_set_dim(&at, dim, &list);
        }
        types[o] = sc_type_with_placement(m, m->values.data[op->operands[o]].type, &at);
    }
    return true;
}

/* Returns the value that a value is another name of: formals and their arguments have equal
 * placements unless a plan line differs. A unit's own gathers, gradients and values recomputed in
 * another region are kept separate. */
static sc_value named_value(const sc_module *m, sc_value value)
{
    for (;;) {
        const sc_op *op = sc_op_at(m, sc_def(m, value));
        if ((sc_op_traits(op) & SC_VIEW) == 0 ||
            m->values.data[op->operands[0]].type != m->values.data[value].type ||
            sc_op_attr(op, SC_ATTR_unit) != NULL || sc_op_attr(op, SC_ATTR_gradient) != NULL ||
            sc_op_word(op, SC_ATTR_phase) !=
                sc_op_word(sc_op_at(m, sc_def(m, op->operands[0])), SC_ATTR_phase))
            return value;
        value = op->operands[0];
    }
}

/* Moves a reshard of one name of a value to the definition of the value, so that readers of its
 * other names share it. */
static void share_reshard(insertion *in, sc_value made, sc_value named)
{
    sc_module *m = in->m;
    sc_op_id op = sc_def(m, made), def = sc_def(m, named);
    if ((sc_op_traits(sc_op_at(m, op)) & SC_RESHARD) == 0 || m->ops.data[op].operands[0] == named ||
        named_value(m, m->ops.data[op].operands[0]) != named)
        return;
    m->ops.data[op].operands[0] = named;
    m->ops.data[op].scope = m->ops.data[def].scope;
    sc_op_drop_attr(m, op, SC_ATTR_moves);
    if (sc_value_path(m, named) != 0)
        sc_op_set_attr(m, op, sc_attr_text(SC_ATTR_moves, sc_value_path(m, named)));
    if (m->ops.data[def].next != op)
        sc_op_move(m, op, m->ops.data[def].next);
}

/* Returns the value in that type, resharded under this or another name. */
static const uint32_t *find_made(const insertion *in, sc_value value, sc_type type)
{
    const uint32_t *made = sc_map_find(in->made, key_of(value, type));
    return made != NULL ? made : sc_map_find(in->made, key_of(named_value(in->m, value), type));
}

/* True if a value can be computed in that type from its operands, whose types are returned:
 * elementwise, or as sums of elements. Contractions, gathers and attention are never repeated; a
 * recomputed region cannot use values from outside. */
static bool can_be_remade(const insertion *in, sc_value value, sc_type type, sc_type *types)
{
    const sc_module *m = in->m;
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    uint32_t fuse = sc_ops[op->kind].fuse;
    bool is_cheap = (fuse & (SC_FUSE_FREE | SC_FUSE_VIEW | SC_FUSE_MAP | SC_FUSE_REDUCE)) != 0 &&
                    (fuse & SC_FUSE_INDEXED) == 0;
    if (!is_cheap || (sc_op_traits(op) & (SC_RANDOM | SC_RESHARD)) != 0 || op->result_count != 1 ||
        op->operand_count > SC_MAX_FIXED_OPERANDS || sc_op_attr(op, SC_ATTR_unit) != NULL ||
        sc_op_attr(op, SC_ATTR_gradient) != NULL ||
        sc_placement_partial(&sc_type_of(m, value)->placement, 0) != 0 ||
        sc_placement_partial(&m->types.data[type].placement, 0) != 0)
        return false;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        sc_sym phase = sc_op_word(op, SC_ATTR_phase),
               before = sc_op_word(sc_op_at(m, sc_def(m, op->operands[i])), SC_ATTR_phase);
        bool is_partial = sc_placement_partial(&sc_type_of(m, op->operands[i])->placement, 0) != 0;
        if (is_partial ||
            (phase == in->recompute && before != phase && !sc_is_made_anywhere(m, op->operands[i])))
            return false;
    }
    return operand_types(in, sc_def(m, value), type, types);
}

static sc_cost cost_to_move(insertion *in, sc_value value, sc_type type)
{
    return sc_reshard_find(in->env->planner, in->m->values.data[value].type,
                           &in->m->types.data[type].placement)
        ->cost;
}

static sc_cost cost_to_have(insertion *in, sc_value value, sc_type type, uint32_t depth);

/* Cost of having the operands in the types needed to compute the value. */
static sc_cost cost_of_operands(insertion *in, sc_value value, const sc_type *types, uint32_t depth)
{
    const sc_op *op = sc_op_at(in->m, sc_def(in->m, value));
    sc_cost total = {0};
    for (uint32_t i = 0; i < op->operand_count; i++) {
        bool is_again = false;
        for (uint32_t j = 0; j < i; j++)
            is_again = is_again || op->operands[j] == op->operands[i];
        if (is_again)
            continue;
        sc_cost one = cost_to_have(in, op->operands[i], types[i], depth - 1);
        sc_cost_add(&total, &one);
    }
    return total;
}

/* Cost of having a value in that type. None if it had that type before it was sliced or has been
 * resharded to it; otherwise the cheaper of resharding it and of rematerializing it elementwise,
 * where constants and operands that had the needed type before a slice cost nothing. */
static sc_cost cost_to_have(insertion *in, sc_value value, sc_type type, uint32_t depth)
{
    sc_module *m = in->m;
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    if (m->values.data[value].type == type || sc_is_made_anywhere(m, value) ||
        find_made(in, value, type) != NULL)
        return (sc_cost){0};
    if ((sc_op_traits(op) & SC_RESHARD) != 0 && m->values.data[op->operands[0]].type == type)
        return (sc_cost){0};
    const uint32_t *known = sc_map_find(&in->known, key_of(value, type));
    if (known != NULL && in->costs.data[*known].made == in->made->count)
        return in->costs.data[*known].cost;
    sc_cost cost = cost_to_move(in, value, type);
    sc_type types[SC_MAX_FIXED_OPERANDS] = {0};
    if (depth > 0 && can_be_remade(in, value, type, types)) {
        sc_cost of_operands = cost_of_operands(in, value, types, depth);
        cost = of_operands.bytes < cost.bytes ? of_operands : cost;
    }
    uint32_t place = known != NULL ? *known : in->costs.count;
    if (known == NULL) {
        sc_vec_push(&m->context->arena, &in->costs);
        sc_map_insert(&in->known, key_of(value, type), place, NULL);
    }
    in->costs.data[place].cost = cost;
    in->costs.data[place].made = in->made->count;
    return cost;
}

/* True if rematerializing costs fewer bytes; or as many, if the value is a view with its own dims
 * of a value that others may view too: that value is then resharded once for all. */
static bool is_better_remade(insertion *in, sc_value value, sc_type type, uint32_t depth,
                             sc_type *types)
{
    const sc_module *m = in->m;
    if (depth == 0 || !can_be_remade(in, value, type, types))
        return false;
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    sc_cost of_operands = cost_of_operands(in, value, types, depth),
            own = cost_to_move(in, value, type);
    bool is_less = of_operands.bytes < own.bytes;
    if ((sc_op_traits(op) & SC_VIEW) == 0 || named_value(m, value) != value || is_less)
        return is_less;
    sc_value viewed = named_value(m, op->operands[0]);
    return viewed < in->count && in->uses[viewed] > 1 && sc_cost_compare(&of_operands, &own) <= 0;
}

static sc_sym consumer_name(sc_module *m, sc_op_id reader)
{
    const sc_op *op = sc_op_at(m, reader);
    sc_sym path = op->result_count > 0 ? m->values.data[op->first_result].path : 0;
    return path != 0 ? path
                     : sc_intern_printf(&m->context->names, "%s in %s", sc_ops[op->kind].name,
                                        sc_text(m->context, op->scope));
}

/* Returns the dtype in which the reader wants a partial sum to be reduced; SC_DTYPE_COUNT: its
 * own. */
static sc_dtype travel_dtype(const sc_module *m, sc_op_id reader, const sc_placement *has,
                             const sc_placement *needed)
{
    sc_sym word = sc_op_word(sc_op_at(m, reader), SC_ATTR_travels);
    bool reduces = (sc_placement_partial(has, 0) & ~sc_placement_partial(needed, 0)) != 0;
    return word == 0 || !reduces ? SC_DTYPE_COUNT : sc_dtype_find(sc_text(m->context, word));
}

/* Emits a cast right after the definition of a value; marked as a gradient's, so that a partial sum
 * may pass it. */
static sc_value cast_after(insertion *in, sc_value value, sc_type type, sc_op_id reader)
{
    sc_module *m = in->m;
    sc_op_id def = sc_def(m, value);
    sc_sym name = sc_op_word(sc_op_at(m, reader), SC_ATTR_gradient);
    sc_attr attrs[2] = {sc_attr_text(SC_ATTR_gradient, name)};
    const sc_attr *phase = sc_op_attr(sc_op_at(m, reader), SC_ATTR_phase);
    if (phase != NULL)
        attrs[1] = *phase;
    sc_op_id op = sc_op_new(m, m->ops.data[def].func, m->ops.data[def].next, SC_OP_cast, &value, 1,
                            attrs, phase != NULL ? 2 : 1, &type, 1, def);
    return sc_result(m, op, 0);
}

/* Sub-axes on which a replicated value should become a term of a partial sum. */
static sc_sub_axis_set newly_partial(const sc_placement *has, const sc_placement *needed)
{
    return sc_placement_partial(needed, SC_PARTIAL_SUM) &
           ~sc_placement_partial(has, SC_PARTIAL_SUM);
}

static sc_value keep_once(insertion *in, sc_op_id reader, sc_value value, sc_sub_axis_set sub_axes,
                          sc_type type)
{
    sc_module *m = in->m;
    uint8_t list[SC_MAX_SUB_AXES];
    uint32_t count = 0;
    for (uint32_t a = 0; a < m->mesh.sub_axis_count; a++) {
        if ((sub_axes >> a & 1) != 0)
            list[count++] = (uint8_t)a;
    }
    sc_attr attrs[2] = {sc_attr_sub_axes(m, SC_ATTR_over, list, count)};
    const sc_attr *phase = sc_op_attr(sc_op_at(m, reader), SC_ATTR_phase);
    if (phase != NULL)
        attrs[1] = *phase;
    sc_op_id op = sc_op_new(m, m->ops.data[reader].func, reader, SC_OP_to_partial, &value, 1, attrs,
                            phase != NULL ? 2 : 1, &type, 1, reader);
    return sc_result(m, op, 0);
}

/* Reshards an operand; for a gradient communicated in another dtype, between two casts. */
static sc_value move_operand(insertion *in, sc_op_id reader, uint32_t operand, sc_type type)
{
    sc_module *m = in->m;
    sc_value value = m->ops.data[reader].operands[operand];
    const sc_placement has = sc_type_of(m, value)->placement,
                       needed = m->types.data[type].placement;
    sc_reason reason = sc_reason_of_operand(m, in->env->placing, reader, operand, &has, &needed);
    sc_dtype own = sc_type_of(m, value)->dtype, travels = travel_dtype(m, reader, &has, &needed);
    if (travels == SC_DTYPE_COUNT)
        return reshard_after(in, value, type, sc_def(m, value), reader, &reason,
                             consumer_name(m, reader));
    sc_value rounded =
        cast_after(in, value, sc_type_with_dtype(m, m->values.data[value].type, travels), reader);
    sc_value moved = reshard_after(in, rounded, sc_type_with_dtype(m, type, travels),
                                   sc_def(m, rounded), reader, &reason, consumer_name(m, reader));
    m->values.data[moved].path = m->values.data[sc_result(m, reader, 0)].path;
    return cast_after(in, moved, sc_type_with_dtype(m, type, own), reader);
}

/* Reshards the value for this operand of a reader, or a value that it is computed from. */
static sc_value move_for(insertion *in, sc_op_id reader, uint32_t operand, sc_value value,
                         sc_type type)
{
    sc_module *m = in->m;
    if (m->ops.data[reader].operands[operand] == value)
        return move_operand(in, reader, operand, type);
    const sc_placement has = sc_type_of(m, value)->placement,
                       needed = m->types.data[type].placement;
    sc_reason reason = sc_reason_of_operand(m, in->env->placing, reader, operand, &has, &needed);
    return reshard_after(in, value, type, sc_def(m, value), SC_NONE, &reason,
                         consumer_name(m, reader));
}

/* Returns a value in that type for this operand of a reader: the value itself or an earlier one, a
 * reshard, or a rematerialization. */
static sc_value have(insertion *in, sc_op_id reader, uint32_t operand, sc_value value, sc_type type,
                     uint32_t depth)
{
    sc_module *m = in->m;
    const sc_op op = *sc_op_at(m, sc_def(m, value));
    sc_value named = named_value(m, value), made;
    sc_type types[SC_MAX_FIXED_OPERANDS];
    if (m->values.data[value].type == type)
        return value;
    const uint32_t *own = sc_map_find(in->made, key_of(value, type)),
                   *there = find_made(in, value, type);
    if (own != NULL) {
        share_reshard(in, *own, value); /* maybe made for a reader of another name */
        return *own;
    }
    if (there != NULL)
        share_reshard(in, made = *there, named);
    else if ((sc_op_traits(&op) & SC_RESHARD) != 0 && m->values.data[op.operands[0]].type == type)
        made = op.operands[0];
    else if (sc_is_made_anywhere(m, value))
        made = copy_anywhere(in, value, type);
    else if (!is_better_remade(in, value, type, depth, types))
        made = move_for(in, reader, operand, value, type);
    else if (named != value)
        made = have(in, reader, operand, named, type, depth);
    else {
        made = copy_anywhere(in, value, type);
        for (uint32_t i = 0; i < op.operand_count; i++) {
            sc_value part = have(in, reader, operand, op.operands[i], types[i], depth - 1);
            /* readers of another name may be after the copy */
            share_reshard(in, part, named_value(m, op.operands[i]));
            m->ops.data[sc_def(m, made)].operands[i] = part;
        }
    }
    sc_map_insert(in->made, key_of(named, type), made, NULL);
    sc_map_insert(in->made, key_of(value, type), made, NULL);
    return made;
}

static void bring_operand(insertion *in, sc_op_id reader, uint32_t operand,
                          const sc_placement *needed)
{
    sc_module *m = in->m;
    sc_value value = m->ops.data[reader].operands[operand];
    const sc_placement has = sc_type_of(m, value)->placement;
    if (sc_placement_equal(&has, needed))
        return;
    sc_type type = sc_type_with_placement(m, m->values.data[value].type, needed);
    sc_sub_axis_set fresh = newly_partial(&has, needed);
    if (fresh != 0) { /* the other sub-axes first */
        sc_placement rest = *needed;
        for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++)
            rest.on[a] = (fresh >> a & 1) != 0 ? SC_ON_NOTHING : rest.on[a];
        bring_operand(in, reader, operand, &rest);
        m->ops.data[reader].operands[operand] =
            keep_once(in, reader, m->ops.data[reader].operands[operand], fresh, type);
        return;
    }
    sc_value there = have(in, reader, operand, value, type, MAX_REMADE);
    m->ops.data[reader].operands[operand] = there;
}

/* Sets the type in which a result is computed; a reshard converts it to the value's placement and
 * takes over its name. A formal that a plan line places differently from its argument shares the
 * reshard of the argument's other names. */
static void settle_result(insertion *in, sc_op_id op, uint32_t result, const sc_placement *made)
{
    sc_module *m = in->m;
    sc_value value = sc_result(m, op, result);
    sc_type belongs = m->values.data[value].type;
    const sc_placement wanted = sc_type_of(m, value)->placement;
    if (sc_placement_equal(&wanted, made))
        return;
    sc_reason reason = sc_reason_of_result(m, in->env->placing, value, made, &wanted);
    m->values.data[value].type = sc_type_with_placement(m, belongs, made);
    sc_value named = named_value(m, value);
    const uint32_t *there = named == value ? NULL : find_made(in, value, belongs);
    if (there != NULL) {
        share_reshard(in, *there, named);
        m->ops.data[op].operands[0] = *there;
        m->values.data[value].type = belongs;
        return;
    }
    sc_sym path = m->values.data[value].path;
    sc_value moved = reshard_after(in, value, belongs, op, SC_NONE, &reason, path);
    m->values.data[moved].path = path;
    m->values.data[value].path = 0;
    if (value < in->count)
        in->current[value] = moved;
    if (named != value)
        *sc_map_insert(in->made, key_of(named, belongs), moved, NULL) = moved;
}

static void add_partial(sc_placement *at, sc_sub_axis_set sub_axes)
{
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++) {
        if ((sub_axes >> a & 1) != 0)
            at->on[a] = SC_PARTIAL_SUM;
    }
}

/* Returns the sums that stay partial in the result because operands are partial, not because of the
 * op itself. */
static sc_sub_axis_set passed_sums(const sc_module *m, sc_op_id op, const sc_factors *factors,
                                   const sc_assignment *assignment)
{
    const sc_op *o = sc_op_at(m, op);
    if (o->result_count != 1)
        return 0;
    const sc_placement made = sc_assigned_result(m, factors, assignment, o, 0),
                       *wanted = &sc_type_of(m, o->first_result)->placement;
    return sc_placement_partial(wanted, SC_PARTIAL_SUM) &
           ~sc_placement_partial(&made, SC_PARTIAL_SUM);
}

static void visit(insertion *in, sc_op_id op)
{
    sc_module *m = in->m;
    for (uint32_t i = 0; i < m->ops.data[op].operand_count; i++) {
        sc_value value = m->ops.data[op].operands[i];
        if (value < in->count && in->current[value] != SC_NONE)
            m->ops.data[op].operands[i] = in->current[value];
    }
    uint32_t traits = sc_op_traits(sc_op_at(m, op));
    sc_factors factors;
    sc_assignment assignment;
    sc_op_factors(m, sc_op_at(m, op), &factors);
    uint32_t state = (traits & SC_EFFECT) != 0
                         ? sc_module_find_state(m, sc_op_word(sc_op_at(m, op), SC_ATTR_name))
                         : SC_NONE;
    /* a write has the placement of its state */
    if (state != SC_NONE && m->ops.data[op].operand_count == 1) {
        const sc_placement at = sc_state_type(m, state)->placement;
        bring_operand(in, op, 0, &at);
        return;
    }
    if (sc_op_functions[sc_op_at(m, op)->kind].roles == NULL ||
        (traits & (SC_CONSTANT | SC_STATE_READ | SC_EFFECT)) != 0)
        return;
    sc_assignment_load(m, op, &factors, &assignment);
    sc_op_drop_attr(m, op, SC_ATTR_split);
    sc_sub_axis_set passed = passed_sums(m, op, &factors, &assignment);
    for (uint32_t o = 0; o < m->ops.data[op].operand_count; o++) {
        sc_placement needed = sc_assigned_operand(m, &factors, &assignment, sc_op_at(m, op), o);
        const sc_placement has = sc_type_of(m, m->ops.data[op].operands[o])->placement;
        bool brings = (traits & (SC_BILINEAR | SC_LINEAR_FIRST)) == 0 ||
                      (sc_placement_partial(&has, SC_PARTIAL_SUM) & passed) == passed;
        add_partial(&needed, brings ? passed : 0);
        bring_operand(in, op, o, &needed);
    }
    for (uint32_t r = 0; r < m->ops.data[op].result_count; r++) {
        sc_placement made = sc_assigned_result(m, &factors, &assignment, sc_op_at(m, op), r);
        add_partial(&made, passed);
        settle_result(in, op, r, &made);
    }
}

/* Returns, per value, its first named view. */
static sc_value *find_formals(sc_module *m)
{
    sc_value *formal = sc_arena_array(&m->context->arena, m->values.count, sizeof *formal);
    memset(formal, 0xff, m->values.count * sizeof *formal);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op_reverse (m, f, id) {
            const sc_op *op = sc_op_at(m, id);
            if ((sc_op_traits(op) & SC_VIEW) != 0 && m->values.data[op->first_result].path != 0)
                formal[op->operands[0]] = op->first_result;
        }
    }
    return formal;
}

/* A value's names are no readers of it; what they are read by are. */
static uint32_t *count_readers(const sc_module *m)
{
    uint32_t *uses = sc_arena_array(&m->context->arena, m->values.count, sizeof *uses);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, id) {
            const sc_op *op = sc_op_at(m, id);
            if (op->result_count == 1 && named_value(m, op->first_result) != op->first_result)
                continue;
            for (uint32_t i = 0; i < op->operand_count; i++)
                uses[named_value(m, op->operands[i])]++;
        }
    }
    return uses;
}

bool sc_run_insert_reshards(sc_module *m, sc_pass_env *env)
{
    insertion in = {.m = m, .env = env, .count = m->values.count, .uses = count_readers(m)};
    in.formal = find_formals(m);
    in.recompute = sc_intern_text(&m->context->names, "recompute");
    in.made = sc_arena_alloc(&m->context->arena, sizeof *in.made);
    in.made->arena = in.known.arena = &m->context->arena;
    if (env->planner == NULL)
        env->planner = sc_planner_new(m, env->seeds == NULL ? 0 : env->seeds->call_cost);
    in.current = sc_arena_array(&m->context->arena, in.count, sizeof *in.current);
    memset(in.current, 0xff, in.count * sizeof *in.current);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op)
            visit(&in, op);
        sc_for_each_op (m, f, op)
            sc_op_drop_attr(m, op, SC_ATTR_split);
    }
    env->brought = in.made;
    return true;
}
