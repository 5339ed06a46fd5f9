/* The verifier: checks the invariants of a module in its state, op by op, from the op table alone.
 * It shares no code with the passes that place values, so it catches a pass that gets a placement
 * wrong. */
#include "ir/ops/verify.h"

#include <string.h>

#include "ir/ops/verify_pieces.h"
#include "ir/ops/verify_rows.h"
#include "ir/ops/verify_stages.h"
#include "ir/print_type.h"

enum { MAX_REPORTS = 20 };

typedef struct verification {
    sc_module *m;
    const char *after;
    uint32_t reports;
    uint32_t *defined; /* per value: position of its op in its function, SC_NONE if not seen yet */
    bool *sound;       /* per type: checked and valid */
    /* LOCAL: per value, the copy that brought it into a staging area, SC_NONE if none; per area,
     * the last copy into it */
    sc_op_id *staged_by, filled[2 * SC_STATE_KINDS];
    sc_pieces pieces;
    sc_sent_rows sent;
    /* fingerprint -> a valid op: ops with the same types and attributes are valid too */
    sc_map checked;
} verification;

#define wrong(v, op, ...) report((v), (op), sc_arena_printf(&(v)->m->context->arena, __VA_ARGS__))

static void report(verification *v, sc_op_id op, const char *text)
{
    sc_context *context = v->m->context;
    if (v->reports++ >= MAX_REPORTS)
        return;
    const sc_op *o = op == SC_NONE ? NULL : sc_op_at(v->m, op);
    if (o == NULL) {
        sc_report(&context->diag, SC_D_ir_invalid, (sc_loc){0}, v->after, text, NULL);
        return;
    }
    sc_report(&context->diag, SC_D_ir_invalid, o->loc, v->after,
              sc_arena_printf(&context->arena, "%s%s%s: %s", sc_ops[o->kind].name,
                              o->scope != 0 ? " in " : "", sc_text(context, o->scope), text),
              NULL);
    for (uint32_t i = 0; i < o->operand_count && i < SC_MAX_FIXED_OPERANDS; i++)
        sc_report_note(&context->diag, (sc_loc){0}, "operand %u: %s", i + 1,
                       sc_type_text(v->m, v->m->values.data[o->operands[i]].type));
    for (uint32_t i = 0; i < o->result_count && i < SC_MAX_FIXED_OPERANDS; i++)
        sc_report_note(&context->diag, (sc_loc){0}, "result %u: %s", i + 1,
                       sc_type_text(v->m, v->m->values.data[o->first_result + i].type));
}

/* ---- every state: structure and shapes ---- */
static void check_type(verification *v, sc_op_id op, sc_type type)
{
    const sc_module *m = v->m;
    const sc_type_info *info = &m->types.data[type];
    sc_sub_axis_set seen = 0;
    for (uint32_t i = 0; i < info->rank; i++) {
        if (info->dims[i].size < 1)
            wrong(v, op, "dim %s has size %lld",
                  sc_text(m->context, m->dims.data[info->dims[i].dim].name),
                  (long long)info->dims[i].size);
        for (uint32_t j = 0; j < i; j++) {
            if (info->dims[j].dim == info->dims[i].dim)
                wrong(v, op, "dim %s is listed twice in a type",
                      sc_text(m->context, m->dims.data[info->dims[i].dim].name));
        }
        sc_sub_axis_list list = sc_placement_dim(&info->placement, i);
        for (uint32_t a = 0; a < list.count; a++) {
            if (list.sub_axes[a] >= m->mesh.sub_axis_count || (seen >> list.sub_axes[a] & 1) != 0)
                wrong(v, op, "a placement uses an axis twice or one that the mesh lacks");
            else
                seen |= (sc_sub_axis_set)1 << list.sub_axes[a];
        }
        int64_t shards = (int64_t)sc_type_shards(&m->mesh, info, i);
        if (info->dims[i].size > 0 &&
            !sc_dim_divides(m, info->dims[i].dim, info->dims[i].size, (uint64_t)shards))
            wrong(v, op, "%lld shards do not divide dim %s", (long long)shards,
                  sc_text(m->context, m->dims.data[info->dims[i].dim].name));
    }
    if (sc_type_breaks_zigzag(m, info))
        wrong(v, op, "a placement splits a zigzag in another order");
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++) {
        uint8_t on = info->placement.on[a];
        if (on != SC_ON_NOTHING && !sc_is_partial(on) && on >= info->rank)
            wrong(v, op, "a placement names a dim that the type lacks");
    }
}

static bool same_shape(const sc_type_info *a, const sc_type_info *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dims[i].dim != b->dims[i].dim || a->dims[i].group != b->dims[i].group ||
            a->dims[i].size != b->dims[i].size)
            return false;
    }
    return true;
}

static void check_shapes(verification *v, sc_op_id op)
{
    sc_module *m = v->m;
    sc_shape_request request;
    if (!sc_op_is_inferred((sc_op_kind)m->ops.data[op].kind))
        return;
    if (!sc_op_infer(m, op, &request)) {
        wrong(v, op, "%s", request.error);
        return;
    }
    if (request.result_count != m->ops.data[op].result_count) {
        wrong(v, op, "it should have %u results", request.result_count);
        return;
    }
    for (uint32_t r = 0; r < request.result_count; r++) {
        if (!same_shape(&request.results[r], sc_type_of(m, sc_result(m, op, r))))
            wrong(v, op, "result %u should be %s", r + 1,
                  sc_type_text(m, sc_type_intern(m, &request.results[r])));
    }
}

static void check_structure(verification *v, sc_op_id op, uint32_t position)
{
    const sc_module *m = v->m;
    const sc_op *o = sc_op_at(m, op);
    int wanted = sc_ops[o->kind].operands;
    if (wanted != SC_ANY &&
        (o->operand_count < (uint32_t)wanted || o->operand_count > SC_MAX_FIXED_OPERANDS))
        wrong(v, op, "it has %u operands", o->operand_count);
    for (uint32_t i = 0; i < o->operand_count; i++) {
        if (o->operands[i] >= m->values.count || v->defined[o->operands[i]] == SC_NONE)
            wrong(v, op, "operand %u is read before it is defined", i + 1);
    }
    for (uint32_t r = 0; r < o->result_count; r++) {
        sc_type type = m->values.data[o->first_result + r].type;
        uint32_t reports = v->reports;
        if (!v->sound[type])
            check_type(v, op, type);
        v->sound[type] = v->reports == reports;
        v->defined[o->first_result + r] = position;
    }
}

/* ---- PLACED: operands and results of computing ops agree with the roles ---- */
static uint8_t partial_kind(sc_role role)
{
    return role == SC_ROLE_SUMS    ? SC_PARTIAL_SUM
           : role == SC_ROLE_MAXES ? SC_PARTIAL_MAX
           : role == SC_ROLE_MINS  ? SC_PARTIAL_MIN
                                   : 0;
}

/* Checks that all dims of a factor are split the same way and returns the split. */
static bool factor_split(verification *v, sc_op_id op, const sc_factor *factor,
                         sc_sub_axis_list *split)
{
    const sc_module *m = v->m;
    const sc_op *o = sc_op_at(m, op);
    bool found = false;
    for (uint32_t i = 0; i < o->operand_count + o->result_count; i++) {
        bool is_operand = i < o->operand_count;
        int dim = is_operand ? factor->operand[i] : factor->result[i - o->operand_count];
        if (dim < 0)
            continue;
        sc_value value = is_operand ? o->operands[i] : o->first_result + (i - o->operand_count);
        sc_sub_axis_list list = sc_placement_dim(&sc_type_of(m, value)->placement, (uint32_t)dim);
        if (found && !sc_sub_axis_list_equal(&list, split)) {
            wrong(v, op, "dim %s is split differently in its operands and results",
                  sc_text(m->context, m->dims.data[factor->dim].name));
            return false;
        }
        *split = list;
        found = true;
    }
    return true;
}

/* Returns the operands' partial sums that the op passes on: those common to all operands of a
 * linear op, those of one operand of a bilinear one. */
static sc_sub_axis_set passed_sums(verification *v, sc_op_id op)
{
    const sc_module *m = v->m;
    const sc_op *o = sc_op_at(m, op);
    uint32_t traits = sc_op_traits(o);
    sc_sub_axis_set any = 0, all = ~(sc_sub_axis_set)0, twice = 0;
    for (uint32_t i = 0; i < o->operand_count; i++) {
        const sc_placement *at = &sc_type_of(m, o->operands[i])->placement;
        sc_sub_axis_set partial = sc_placement_partial(at, 0);
        if (partial != sc_placement_partial(at, SC_PARTIAL_SUM))
            wrong(v, op, "operand %u is a partial max or min, which no op accepts", i + 1);
        twice |= any & partial;
        any |= partial;
        all &= partial;
    }
    /* state may be partial according to its type, see check_state */
    if (any == 0 || (traits & SC_STATE_WRITE) != 0)
        return 0;
    /* rounds each rank's term of a gradient */
    bool rounds = (traits & SC_CONVERTS) != 0 && sc_op_attr(o, SC_ATTR_gradient) != NULL;
    if (((traits & SC_LINEAR) != 0 || rounds) && any == all)
        return any;
    if ((traits & SC_BILINEAR) != 0 && twice == 0)
        return any;
    if ((traits & SC_LINEAR_FIRST) != 0 && twice == 0 &&
        sc_placement_partial(&sc_type_of(m, o->operands[0])->placement, 0) == any)
        return any;
    wrong(v, op, "an operand is a partial sum, but the op is not linear in it");
    return 0;
}

/* State is read as stored (check_state); a constant 0 summed over ranks is 0. */
static bool may_be_partial(const sc_op *op)
{
    return (sc_op_traits(op) & SC_STATE_READ) != 0 ||
           ((sc_op_traits(op) & SC_CONSTANT) != 0 && sc_op_attr(op, SC_ATTR_value) != NULL &&
            sc_op_number(op, SC_ATTR_value, 1) == 0);
}

static void check_placement(verification *v, sc_op_id op)
{
    const sc_module *m = v->m;
    const sc_op *o = sc_op_at(m, op);
    sc_factors factors;
    sc_op_factors(m, o, &factors);
    sc_sub_axis_set sums = passed_sums(v, op), used = 0;
    sc_placement expected[SC_MAX_FIXED_RESULTS];
    for (uint32_t r = 0; r < SC_MAX_FIXED_RESULTS; r++)
        expected[r] = sc_placement_replicated();
    for (uint32_t f = 0; f < factors.count; f++) {
        const sc_factor *factor = &factors.list[f];
        sc_sub_axis_list split = {0};
        if (!factor_split(v, op, factor, &split))
            return;
        if (split.count > 0 && (factor->role == SC_ROLE_WHOLE || factor->role == SC_ROLE_FORM))
            wrong(v, op, "dim %s must be whole here",
                  sc_text(m->context, m->dims.data[factor->dim].name));
        for (uint32_t i = 0; i < split.count; i++) {
            sc_sub_axis_set bit = (sc_sub_axis_set)1 << split.sub_axes[i];
            if (((used | sums) & bit) != 0)
                wrong(v, op,
                      "two of its dims, or a dim and a partial sum, are split over one axis");
            used |= bit;
            for (uint32_t r = 0; r < o->result_count && r < SC_MAX_FIXED_RESULTS; r++) {
                if (partial_kind(factor->role) != 0 && factor->result[r] < 0)
                    expected[r].on[split.sub_axes[i]] = partial_kind(factor->role);
            }
        }
    }
    if (may_be_partial(o))
        return;
    for (uint32_t r = 0; r < o->result_count && r < SC_MAX_FIXED_RESULTS; r++) {
        const sc_placement *at = &sc_type_of(m, o->first_result + r)->placement;
        for (uint32_t a = 0; a < m->mesh.sub_axis_count; a++) {
            uint8_t partial = (sums >> a & 1) != 0 ? SC_PARTIAL_SUM : expected[r].on[a];
            uint8_t actual = sc_is_partial(at->on[a]) ? at->on[a] : SC_ON_NOTHING;
            if (partial != actual)
                wrong(v, op, "its result %s a partial reduction over %s",
                      partial == SC_ON_NOTHING ? "is not" : "must be",
                      sc_text(m->context, m->mesh.axes[m->mesh.sub_axes[a].axis].name));
        }
    }
}

static void check_state(verification *v, sc_op_id op)
{
    const sc_module *m = v->m;
    const sc_op *o = sc_op_at(m, op);
    const sc_attr *name = sc_op_attr(o, SC_ATTR_name);
    bool reads = (sc_op_traits(o) & SC_STATE_READ) != 0,
         writes = (sc_op_traits(o) & SC_STATE_WRITE) != 0;
    if (!reads && !writes)
        return;
    uint32_t state = name == NULL ? SC_NONE : sc_module_find_state(m, name->text);
    if (state == SC_NONE) {
        wrong(v, op, "there is no such state");
        return;
    }
    sc_value value = reads ? o->first_result : o->operands[0];
    if (m->values.data[value].type != m->state.data[state].type)
        wrong(v, op, "the state is stored as %s", sc_type_text(m, m->state.data[state].type));
}

/* ---- memory: every op but a copy reads and writes device memory ---- */
enum { STAGING_AREAS = 2 }; /* of each kind of state */

static uint32_t state_of(const sc_module *m, const sc_op *op)
{
    return (sc_op_traits(op) & (SC_STATE_READ | SC_STATE_WRITE)) == 0
               ? SC_NONE
               : sc_module_find_state(m, sc_op_word(op, SC_ATTR_name));
}

/* The staging area that a copy fills; SC_NONE: none, or no such area. */
static uint32_t area_of(const sc_module *m, const sc_op *copy)
{
    int64_t staging = sc_op_int(copy, SC_ATTR_staging, -1);
    uint32_t state = state_of(m, sc_op_at(m, sc_def(m, copy->operands[0])));
    return copy->kind != SC_OP_to_device || staging < 0 || staging >= STAGING_AREAS ||
                   state == SC_NONE
               ? SC_NONE
               : (uint32_t)m->state.data[state].kind * STAGING_AREAS + (uint32_t)staging;
}

/* Checks that operands are where the op reads them: to_device reads host memory, and so does the
 * write of a state that is stored there; all others read device memory. */
static void check_memory(verification *v, sc_op_id op)
{
    const sc_module *m = v->m;
    const sc_op *o = sc_op_at(m, op);
    uint32_t state = (sc_op_traits(o) & SC_STATE_WRITE) != 0 ? state_of(m, o) : SC_NONE;
    bool wants_host = state != SC_NONE ? m->state.data[state].host : o->kind == SC_OP_to_device;
    for (uint32_t i = 0; i < o->operand_count; i++) {
        sc_value value = o->operands[i];
        if (value >= m->values.count || v->defined[value] == SC_NONE)
            continue; /* reported by check_structure */
        sc_op_id by = v->staged_by[value];
        if (sc_value_is_in_host(m, value) != wants_host)
            wrong(v, op, "operand %u is in %s memory, not in %s memory", i + 1,
                  wants_host ? "device" : "host", wants_host ? "host" : "device");
        else if (by != SC_NONE && v->filled[area_of(m, sc_op_at(m, by))] != by)
            wrong(v, op, "operand %u was in a staging area that a later copy has filled", i + 1);
        else if ((sc_op_traits(o) & SC_VIEW) != 0)
            v->staged_by[o->first_result] = by;
    }
}

/* Results have their operands' types. Notes which staging area holds them. */
static void check_copy(verification *v, sc_op_id op)
{
    const sc_module *m = v->m;
    const sc_op *o = sc_op_at(m, op);
    if (o->operand_count != o->result_count || o->operand_count == 0) {
        wrong(v, op, "a copy has as many results as operands");
        return;
    }
    for (uint32_t i = 0; i < o->operand_count; i++) {
        if (m->values.data[o->operands[i]].type != m->values.data[o->first_result + i].type)
            wrong(v, op, "result %u should be %s", i + 1,
                  sc_type_text(m, m->values.data[o->operands[i]].type));
    }
    if (sc_op_attr(o, SC_ATTR_staging) == NULL || v->reports > 0)
        return;
    uint32_t area = area_of(m, o);
    if (area == SC_NONE) {
        wrong(v, op, "staging is area 0 or 1, for states that are copied to the device");
        return;
    }
    for (uint32_t r = 0; r < o->result_count; r++)
        v->staged_by[o->first_result + r] = op;
    v->filled[area] = op;
}

/* The results of an entry must not be partial. */
static void check_return(verification *v, sc_op_id op)
{
    const sc_op *o = sc_op_at(v->m, op);
    for (uint32_t i = 0; i < o->operand_count; i++) {
        if (sc_placement_partial(&sc_type_of(v->m, o->operands[i])->placement, 0) != 0)
            wrong(v, op, "operand %u is returned as a partial reduction", i + 1);
    }
}

/* ---- RESHARDS_EXPLICIT: collectives match their types ---- */
static bool move_group(sc_placement *at, const sc_attr *over, uint8_t from, uint8_t to)
{
    if (from != SC_ON_NOTHING && !sc_is_partial(from)) {
        const sc_sub_axis_list rest = sc_placement_dim(at, from);
        if (rest.count < over->count ||
            memcmp(&rest.sub_axes[rest.count - over->count], over->sub_axes, over->count) != 0)
            return false; /* only the minor sub-axes, in this order, can be removed from a dim */
    }
    for (uint32_t i = 0; i < over->count; i++) {
        if (over->sub_axes[i] >= SC_MAX_SUB_AXES || at->on[over->sub_axes[i]] != from)
            return false;
        at->on[over->sub_axes[i]] = SC_ON_NOTHING;
        at->order[over->sub_axes[i]] = 0;
    }
    if (to != SC_ON_NOTHING) {
        for (uint32_t i = 0; i < over->count; i++)
            sc_placement_append(at, to, over->sub_axes[i]);
    }
    return true;
}

static uint8_t reduction_of(const sc_module *m, const sc_op *op)
{
    const char *word = sc_text(m->context, sc_op_word(op, SC_ATTR_reduce));
    return strcmp(word, "sum") == 0   ? SC_PARTIAL_SUM
           : strcmp(word, "max") == 0 ? SC_PARTIAL_MAX
           : strcmp(word, "min") == 0 ? SC_PARTIAL_MIN
                                      : 0;
}

static uint8_t dim_named(const sc_module *m, const sc_op *op, sc_attr_key key, uint32_t i)
{
    const sc_attr *attr = sc_op_attr(op, key);
    int dim = attr == NULL || i >= attr->count
                  ? -1
                  : sc_type_find_dim(sc_type_of(m, op->operands[i]), attr->dims[i]);
    return dim < 0 ? SC_MAX_RANK : (uint8_t)dim;
}

/* Computes the placement of operand i after the collective; false if it is invalid. */
static bool collective_result(const sc_module *m, const sc_op *op, uint32_t i, sc_placement *at)
{
    const sc_attr *over = sc_op_attr(op, SC_ATTR_over);
    uint8_t gather = dim_named(m, op, SC_ATTR_gather, i),
            scatter = dim_named(m, op, SC_ATTR_scatter, i), reduce = reduction_of(m, op);
    *at = sc_type_of(m, op->operands[i])->placement;
    if (over == NULL || over->count == 0)
        return false;
    switch (op->kind) {
    case SC_OP_all_gather:
        return gather < SC_MAX_RANK && move_group(at, over, gather, SC_ON_NOTHING);
    case SC_OP_all_slice:
        return gather < SC_MAX_RANK && move_group(at, over, SC_ON_NOTHING, gather);
    case SC_OP_reduce_scatter:
        return gather < SC_MAX_RANK && reduce != 0 && move_group(at, over, reduce, gather);
    case SC_OP_all_reduce:
        return reduce != 0 && move_group(at, over, reduce, SC_ON_NOTHING);
    case SC_OP_to_partial:
        for (uint32_t k = 0; k < over->count; k++) {
            if (over->sub_axes[k] >= SC_MAX_SUB_AXES || at->on[over->sub_axes[k]] != SC_ON_NOTHING)
                return false;
            at->on[over->sub_axes[k]] = SC_PARTIAL_SUM;
        }
        return true;
    case SC_OP_all_to_all:
        return gather < SC_MAX_RANK && scatter < SC_MAX_RANK &&
               move_group(at, over, gather, scatter);
    default:
        return false;
    }
}

/* True if a permute preserves every dim's local size and every partial reduction; what is split
 * zigzag it leaves alone, whose shards are no other split's. */
static bool is_permutation(const sc_module *m, const sc_type_info *a, const sc_type_info *b)
{
    for (uint32_t i = 0; i < a->rank; i++) {
        if (sc_type_shards(&m->mesh, a, i) != sc_type_shards(&m->mesh, b, i) ||
            sc_moves_zigzag(m, a, &b->placement, i))
            return false;
    }
    for (uint32_t i = 0; i < m->mesh.sub_axis_count; i++) {
        bool x = sc_is_partial(a->placement.on[i]), y = sc_is_partial(b->placement.on[i]);
        if (x != y || (x && a->placement.on[i] != b->placement.on[i]))
            return false;
    }
    return true;
}

/* Returns the distance, in shards of its dim, between neighbours on a sub-axis. */
static uint64_t shards_apart(const sc_module *m, const sc_placement *at, uint32_t sub_axis)
{
    uint64_t apart = 1;
    for (uint32_t i = 0; i < m->mesh.sub_axis_count; i++) {
        if (at->on[i] == at->on[sub_axis] && at->order[i] > at->order[sub_axis])
            apart *= m->mesh.sub_axes[i].size;
    }
    return apart;
}

/* Ranks of a group differ only on its sub-axes: what other sub-axes split before a permute, they
 * must split the same way after it. */
static bool permutes_within(const sc_module *m, const sc_attr *over, const sc_placement *a,
                            const sc_placement *b)
{
    if (over == NULL || over->count == 0)
        return false;
    for (uint32_t i = 0; i < m->mesh.sub_axis_count; i++) {
        bool moves = memchr(over->sub_axes, (int)i, over->count) != NULL,
             splits = a->on[i] < SC_MAX_RANK && m->mesh.sub_axes[i].size > 1;
        if (splits && !moves &&
            (a->on[i] != b->on[i] || shards_apart(m, a, i) != shards_apart(m, b, i)))
            return false;
    }
    return true;
}

static void check_permute(verification *v, sc_op_id op, const sc_type_info *from,
                          const sc_type_info *to)
{
    const sc_module *m = v->m;
    if (!is_permutation(m, from, to))
        wrong(v, op, "it is not a permutation of shards");
    else if (!permutes_within(m, sc_op_attr(sc_op_at(m, op), SC_ATTR_over), &from->placement,
                              &to->placement))
        wrong(v, op, "its groups lack shards that their ranks receive");
}

static void check_collective(verification *v, sc_op_id op)
{
    const sc_module *m = v->m;
    const sc_op *o = sc_op_at(m, op);
    if (o->operand_count != o->result_count || o->operand_count == 0) {
        wrong(v, op, "a collective has as many results as operands");
        return;
    }
    for (uint32_t i = 0; i < o->operand_count; i++) {
        const sc_type_info *from = sc_type_of(m, o->operands[i]),
                           *to = sc_type_of(m, o->first_result + i);
        sc_placement at;
        if (!same_shape(from, to)) {
            wrong(v, op, "it changes more than a placement");
        } else if (o->kind == SC_OP_collective_permute) {
            check_permute(v, op, from, to);
        } else if (o->kind == SC_OP_reshard) {
            if ((m->states & SC_RESHARDS_EXPLICIT) != 0)
                wrong(v, op, "no reshard may be left");
        } else if (!collective_result(m, o, i, &at) || !sc_placement_equal(&at, &to->placement)) {
            wrong(v, op, "result %u does not follow from operand %u by this collective", i + 1,
                  i + 1);
        }
    }
}

/* A ring that has not been replaced by its steps reads one block of keys. */
static void check_ring(verification *v, sc_op_id op)
{
    const sc_module *m = v->m;
    const sc_op *o = sc_op_at(m, op);
    if (sc_op_attr(o, SC_ATTR_ring) == NULL || sc_op_attr(o, SC_ATTR_block) != NULL)
        return;
    sc_split splits[SC_MAX_FACTORS];
    uint32_t count = sc_op_offsets(m, op, splits);
    for (uint32_t i = 0; i < count; i++) {
        if (splits[i].dim == sc_op_attr(o, SC_ATTR_to)->dims[0])
            wrong(v, op, "its keys are those of one member of a ring");
    }
}

/* Of the members of a ring; what they rotate is checked with pieces (verify_pieces.c). */
static void check_rotation(verification *v, sc_op_id op)
{
    const sc_module *m = v->m;
    const sc_op *o = sc_op_at(m, op);
    const sc_attr *over = sc_op_attr(o, SC_ATTR_over);
    if (over == NULL || over->count == 0) {
        wrong(v, op, "it rotates over no axis");
        return;
    }
    int64_t members = 1, shift = sc_op_int(o, SC_ATTR_shift, 0);
    for (uint32_t a = 0; a < over->count; a++)
        members *= (int64_t)m->mesh.sub_axes[over->sub_axes[a]].size;
    if (shift < 1 || shift >= members)
        wrong(v, op, "it rotates by %lld among %lld members", (long long)shift, (long long)members);
}

/* ---- LOCAL: ops that need a global index have an `offset` ---- */
static void check_offsets(verification *v, sc_op_id op)
{
    const sc_module *m = v->m;
    sc_split needed[SC_MAX_FACTORS];
    uint32_t count = sc_op_offsets(m, op, needed), found = 0;
    const sc_attr *attr = sc_op_attr(sc_op_at(m, op), SC_ATTR_offset);
    uint32_t given = attr == NULL ? 0 : attr->count;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < given; j++)
            found += attr->splits[j].dim == needed[i].dim &&
                     sc_sub_axis_list_equal(&attr->splits[j].sub_axes, &needed[i].sub_axes);
    }
    if (found != count || given != count)
        wrong(v, op, "its offsets are not those of its split dims");
}

/* ---- ops equal to one that was found valid ---- */
/* Texts (names and reasons) and kernel numbers do not affect validity. */
static bool same_attr(const sc_attr *a, const sc_attr *b)
{
    bool decides = sc_attr_kinds[a->key] != SC_ATTR_KIND_TEXT && a->key != SC_ATTR_kernel;
    return a->key == b->key && (!decides || sc_attr_equal(a, b));
}

static bool same_op(const sc_module *m, const sc_op *a, const sc_op *b)
{
    if (a->kind != b->kind || a->operand_count != b->operand_count ||
        a->result_count != b->result_count || a->attr_count != b->attr_count)
        return false;
    for (uint32_t i = 0; i < a->operand_count; i++) {
        if (m->values.data[a->operands[i]].type != m->values.data[b->operands[i]].type)
            return false;
    }
    for (uint32_t i = 0; i < a->result_count; i++) {
        if (m->values.data[a->first_result + i].type != m->values.data[b->first_result + i].type)
            return false;
    }
    for (uint32_t i = 0; i < a->attr_count; i++) {
        if (!same_attr(&a->attrs[i], &b->attrs[i]))
            return false;
    }
    return true;
}

static uint64_t fingerprint(const sc_module *m, const sc_op *op)
{
    uint64_t hash = op->kind;
    for (uint32_t i = 0; i < op->operand_count; i++)
        hash = sc_hash_mix(hash, m->values.data[op->operands[i]].type);
    for (uint32_t i = 0; i < op->result_count; i++)
        hash = sc_hash_mix(hash, m->values.data[op->first_result + i].type);
    for (uint32_t i = 0; i < op->attr_count; i++)
        hash = sc_hash_mix(hash, op->attrs[i].key);
    return hash;
}

/* Checks an op against its own types and attributes. Layers repeat, so few distinct ops are
 * checked. */
static void check_by_itself(verification *v, sc_op_id op)
{
    const sc_module *m = v->m;
    bool is_new;
    uint32_t reports = v->reports,
             *like = sc_map_insert(&v->checked, fingerprint(m, sc_op_at(m, op)), op, &is_new);
    if (!is_new && same_op(m, sc_op_at(m, op), sc_op_at(m, *like)))
        return;
    *like = op;
    if ((m->states & SC_SHAPES) != 0)
        check_shapes(v, op);
    if ((m->states & SC_PLACED) != 0 && v->reports == 0 &&
        sc_op_functions[sc_op_at(m, op)->kind].roles != NULL)
        check_placement(v, op);
    if ((m->states & SC_PLACED) != 0 && v->reports == 0 && (m->states & SC_LOCAL) != 0)
        check_offsets(v, op);
    if ((m->states & SC_PLACED) != 0 && v->reports == 0) {
        check_ring(v, op);
        if (sc_op_has(sc_op_at(m, op), SC_COLLECTIVE) &&
            sc_op_attr(sc_op_at(m, op), SC_ATTR_fills) == NULL)
            check_rotation(v, op);
    }
    if (v->reports > reports) /* an invalid op must not vouch for others */
        v->checked = (sc_map){.arena = v->checked.arena};
}

static void report_of(void *user, sc_op_id op, const char *text)
{
    report(user, op, text);
}

static void check_op(verification *v, sc_op_id op, uint32_t position)
{
    const sc_module *m = v->m;
    check_structure(v, op, position);
    uint32_t traits = sc_op_traits(sc_op_at(m, op));
    if ((m->states & SC_LOCAL) != 0 && v->reports == 0)
        check_memory(v, op);
    if (sc_op_copies_memory((sc_op_kind)sc_op_at(m, op)->kind)) {
        check_copy(v, op);
        return;
    }
    sc_verify_rows(&v->sent, op, report_of, v);
    if ((traits & SC_RESHARD) != 0) {
        if (!sc_verify_pieces(&v->pieces, op, report_of, v))
            check_collective(v, op);
        return;
    }
    sc_verify_pieces(&v->pieces, op, report_of, v);
    check_by_itself(v, op);
    if ((m->states & SC_PLACED) == 0 || v->reports > 0)
        return;
    if ((traits & SC_RETURNS) != 0)
        check_return(v, op);
    check_state(v, op);
}

/* ---- FUSED: the ops of a kernel are adjacent and can be computed ---- */
static void check_kernels(verification *v, sc_func_id f)
{
    const sc_module *m = v->m;
    int64_t last = -1, number = -1;
    sc_for_each_op (m, f, op) {
        int64_t its = sc_op_int(sc_op_at(m, op), SC_ATTR_kernel, -1);
        if (its >= 0 && its != last && its <= number)
            wrong(v, op, "kernel %lld is in two places", (long long)its);
        number = its > number ? its : number;
        last = its;
    }
}

static void report_stage(void *user, sc_op_id op, const char *text)
{
    report(user, op, text);
}

bool sc_verify_module(const sc_module *module, const char *after)
{
    /* interning a type for a message does not change the program */
    verification v = {.m = (sc_module *)module, .after = after};
    v.defined = sc_arena_array(&module->context->arena, module->values.count, sizeof *v.defined);
    memset(v.defined, 0xff, module->values.count * sizeof *v.defined);
    v.sound = sc_arena_array(&module->context->arena, module->types.count, sizeof *v.sound);
    v.staged_by =
        sc_arena_array(&module->context->arena, module->values.count, sizeof *v.staged_by);
    memset(v.staged_by, 0xff, module->values.count * sizeof *v.staged_by);
    v.checked.arena = &module->context->arena;
    v.pieces = sc_pieces_of(v.m);
    v.sent = sc_sent_rows_of(v.m);
    for (sc_func_id f = 0; f < module->funcs.count; f++) {
        uint32_t position = 0;
        sc_for_each_op (module, f, op)
            check_op(&v, op, position++);
        if ((module->states & SC_FUSED) != 0)
            check_kernels(&v, f);
    }
    if (v.reports == 0)
        sc_verify_stages(module, report_stage, &v);
    return v.reports == 0;
}
