/* differentiate: reverse mode on the global program.
 *
 *   %2 = dot[D] %x, %w                 %2 = dot[D] %x, %w
 *   %3 = sum[B, F] %2           ->     %3 = sum[B, F] %2
 *   return %3                          %4 = constant 1    %5 = broadcast %4
 *                                      %6 = dot[B] %x, %5    %7 = use %6 {gradient = "w"}
 *
 * One walk from the end; each op's derive function gives the cotangents of its operands. The
 * cotangents of a value are summed in the order in which they appear. Views pass cotangents on to
 * the viewed value, so that a name does not force a gradient to be materialized. A value of a
 * recomputed region that the backward pass reads is recomputed right before its reader, from the
 * region's inputs and saved values; what one chunk of a pipeline computes for another is kept, so
 * that a backward pass needs no other chunk to recompute. Only cotangents that lead to a trained
 * parameter are computed. */
#include <string.h>

#include "ir/ops/build.h"
#include "passes/train_step.h"

typedef struct differentiation {
    sc_module *m;
    sc_func_id func;
    const sc_training *training;
    sc_train_step *step;
    sc_gradients *gradients;
    const sc_trained_param **is_trained; /* by state; NULL: frozen */
    uint32_t value_count;                /* values of the forward pass */
    bool *wanted;                        /* by value: depends on a trained parameter */
    bool *widened;                       /* by value: a parameter or its cast */
    sc_value *cotangent;                 /* by value: sum so far */
    sc_value *again;                     /* by value: its recomputed value */
    bool *kept;                          /* by value: input of its region, so available anyway */
    SC_VEC(uint32_t) region;             /* by op: as in training, extended to replacement ops */
    SC_VEC(bool) saved;                  /* by value: the same */
    sc_sym backward, recompute;
} differentiation;

/* ---- emitting ---- */

static void set_origin(differentiation *d, sc_op_id op, sc_op_id origin)
{
    while (d->step->origin.count <= op)
        *sc_vec_push(&d->m->context->arena, &d->step->origin) = SC_NONE;
    d->step->origin.data[op] = origin;
}

static void mark_backward(sc_emitter *e, sc_op_id made)
{
    differentiation *d = e->user;
    sc_op_set_attr(e->m, made, sc_attr_text(SC_ATTR_phase, d->backward));
    set_origin(d, made, e->like);
}

static sc_emitter emitter(differentiation *d, sc_op_id like)
{
    return (sc_emitter){.m = d->m,
                        .func = d->func,
                        .before = SC_NONE,
                        .like = like,
                        .made = mark_backward,
                        .user = d};
}

static void set_like(differentiation *d, sc_value value, sc_value like)
{
    while (d->step->like.count <= value)
        *sc_vec_push(&d->m->context->arena, &d->step->like) = SC_NONE;
    d->step->like.data[value] = like;
}

/* ---- what the backward pass needs ---- */

static uint32_t region_of(const differentiation *d, sc_op_id op)
{
    return op < d->region.count ? d->region.data[op] : 0;
}

/* Returns the parameter that an op reads, if it is trained. */
static const sc_trained_param *trained(const differentiation *d, const sc_op *op)
{
    uint32_t state = sc_module_find_state(d->m, sc_op_word(op, SC_ATTR_name));
    return state == SC_NONE ? NULL : d->is_trained[state];
}

static bool is_view(const sc_module *m, const sc_op *op)
{
    return (sc_op_traits(op) & SC_VIEW) != 0 && op->operand_count == 1 &&
           m->values.data[op->operands[0]].type == m->values.data[op->first_result].type;
}

/* A statistic is kept if the result it belongs to is. */
static void keep_results_together(differentiation *d)
{
    sc_for_each_op (d->m, d->func, id) {
        const sc_op *op = sc_op_at(d->m, id);
        if ((sc_op_traits(op) & SC_KEEPS_LSE) == 0)
            continue;
        for (uint32_t r = 1; r < op->result_count; r++)
            d->kept[op->first_result + r] =
                d->kept[op->first_result + r] || d->kept[op->first_result];
    }
}

/* True for the inputs of a recomputed region; a region ends where a pipeline's chunk does. */
static bool enters(const differentiation *d, sc_value value, sc_op_id reader)
{
    sc_op_id def = sc_def(d->m, value);
    uint16_t made = sc_op_at(d->m, def)->chunk, read = sc_op_at(d->m, reader)->chunk;
    return region_of(d, def) != region_of(d, reader) ||
           (made != read && made != SC_NO_CHUNK && read != SC_NO_CHUNK);
}

static void look_forward(differentiation *d)
{
    sc_module *m = d->m;
    sc_for_each_op (m, d->func, id) {
        const sc_op *op = sc_op_at(m, id);
        uint32_t traits = sc_op_traits(op);
        bool reaches = false, is_param = (traits & SC_STATE_READ) != 0 && trained(d, op) != NULL,
             of_param = is_param;
        for (uint32_t i = 0; i < op->operand_count; i++) {
            sc_value value = op->operands[i];
            reaches = reaches || d->wanted[value];
            if (enters(d, value, id))
                d->kept[value] = true;
        }
        if (op->operand_count == 1 && d->widened[op->operands[0]] &&
            ((traits & SC_CONVERTS) != 0 || is_view(m, op)))
            of_param = true;
        for (uint32_t r = 0; r < op->result_count; r++) {
            sc_value value = op->first_result + r;
            bool is_float = sc_dtype_is_float(sc_type_of(m, value)->dtype);
            d->wanted[value] =
                is_float && (is_param || reaches) && (traits & SC_STOPS_GRADIENT) == 0;
            d->widened[value] = of_param;
        }
    }
}

/* ---- reading forward values ---- */

static sc_value read_value(differentiation *d, sc_value value);

static sc_value recompute(differentiation *d, sc_value value)
{
    sc_module *m = d->m;
    sc_op_id id = sc_def(m, value);
    const sc_op op = *sc_op_at(m, id);
    sc_value *operands =
        sc_arena_array(&m->context->arena, op.operand_count + 1u, sizeof *operands);
    sc_type *types = sc_arena_array(&m->context->arena, op.result_count, sizeof *types);
    for (uint32_t i = 0; i < op.operand_count; i++)
        operands[i] = read_value(d, op.operands[i]);
    for (uint32_t r = 0; r < op.result_count; r++)
        types[r] = m->values.data[op.first_result + r].type;
    sc_op_id made = sc_op_new(m, d->func, SC_NONE, (sc_op_kind)op.kind, operands, op.operand_count,
                              op.attrs, op.attr_count, types, op.result_count, id);
    sc_op_set_attr(m, made, sc_attr_text(SC_ATTR_phase, d->recompute));
    set_origin(d, made, id);
    for (uint32_t r = 0; r < op.result_count; r++) {
        set_like(d, sc_result(m, made, r), op.first_result + r);
        d->again[op.first_result + r] = sc_result(m, made, r);
    }
    return d->again[value];
}

/* Returns the value itself or, in a recomputed region, its copy in the backward pass. */
static sc_value read_value(differentiation *d, sc_value value)
{
    if (d->again[value] != SC_NONE)
        return d->again[value];
    sc_op_id def = sc_def(d->m, value);
    bool saved = value < d->saved.count && d->saved.data[value];
    if (region_of(d, def) == 0 || d->kept[value] || saved)
        return value;
    return recompute(d, value);
}

static sc_value read_for_derivative(sc_derive *derive, sc_value value)
{
    return read_value(derive->user, value);
}

/* ---- cotangents ---- */

/* Returns the parameter that this op reads: all of it, or a chunk's own view of it, for which a
 * gradient is kept apart. NULL: none, or it is frozen. */
static const sc_trained_param *param_read(const differentiation *d, const sc_op *op)
{
    if ((sc_op_traits(op) & SC_STATE_READ) != 0)
        return trained(d, op);
    if (op->chunk == SC_NO_CHUNK || !is_view(d->m, op))
        return NULL;
    const sc_op *viewed = sc_op_at(d->m, sc_def(d->m, op->operands[0]));
    bool is_shared = (sc_op_traits(viewed) & SC_STATE_READ) != 0 && viewed->chunk == SC_NO_CHUNK;
    return is_shared ? trained(d, viewed) : NULL;
}

/* Follows views to the value that receives their cotangents. */
static sc_value viewed(const differentiation *d, sc_value value)
{
    for (;;) {
        const sc_op *op = sc_op_at(d->m, sc_def(d->m, value));
        if (!is_view(d->m, op) || !d->wanted[op->operands[0]] || param_read(d, op) != NULL)
            return value;
        value = op->operands[0];
    }
}

static void add_cotangent(differentiation *d, sc_emitter *e, sc_value value, sc_value more)
{
    value = viewed(d, value);
    const sc_type_info type = *sc_type_of(d->m, value);
    sc_dtype dtype = d->widened[value] ? sc_wide(type.dtype) : type.dtype;
    if (d->widened[value]) /* before summing */
        more = sc_make_cast(e, more, dtype);
    more = sc_make_fit(e, more, &type);
    more = sc_make_cast(e, more, dtype);
    if (sc_like_of(d->step, more) == SC_NONE && more >= d->value_count &&
        !sc_is_made_anywhere(d->m, more))
        set_like(d, more, value);
    if (d->cotangent[value] != SC_NONE) {
        more = sc_make2(e, SC_OP_add, d->cotangent[value], more);
        set_like(d, more, value);
    }
    d->cotangent[value] = more;
}

/* Emits the complete gradient of a parameter, or of a chunk's view of it, rounded once. */
static void finish_param(differentiation *d, sc_op_id id, const sc_trained_param *param)
{
    sc_module *m = d->m;
    const sc_op *op = sc_op_at(m, id);
    sc_value value = op->first_result, sum = d->cotangent[value];
    uint16_t chunk = op->chunk;
    if (sum == SC_NONE)
        return;
    sc_emitter e = emitter(d, id);
    sc_attr gradient = sc_attr_text(SC_ATTR_gradient, m->state.data[param->state].path);
    sc_type_info type = *sc_type_of(m, sum);
    if (type.dtype != param->grad) {
        type.dtype = param->grad;
        sum = sc_make_as(&e, SC_OP_cast, &sum, 1, &gradient, 1, &type);
        set_like(d, sum, value);
    }
    sc_attr attrs[2] = {
        gradient, sc_attr_text(SC_ATTR_travels,
                               sc_intern_text(&m->context->names, sc_dtypes[param->reduce].name))};
    sum = sc_make_value(&e, SC_OP_use, &sum, 1, attrs, param->reduce != param->grad ? 2 : 1);
    set_like(d, sum, value);
    /* the walk is backwards: earlier chunks come later */
    sc_gradients *found = d->gradients;
    *sc_vec_push(&m->context->arena, &found->list) = (sc_gradient){
        .state = param->state, .chunk = chunk, .value = sum, .next = found->first[param->state]};
    found->first[param->state] = found->list.count - 1;
}

/* Names the gradients: layers[0].wq.grad; tok.grad@0 of one chunk of several. */
static void name_gradients(differentiation *d)
{
    sc_module *m = d->m;
    sc_gradients *found = d->gradients;
    for (uint32_t i = 0; i < found->list.count; i++) {
        sc_gradient *gradient = &found->list.data[i];
        gradient->name = sc_state_name_of(m, gradient->state, "grad");
        if (found->first[gradient->state] != i || gradient->next != SC_NONE)
            gradient->name = sc_intern_printf(&m->context->names, "%s@%u",
                                              sc_text(m->context, gradient->name), gradient->chunk);
        m->values.data[gradient->value].path = gradient->name;
    }
}

/* ---- ops ---- */

/* Replaces an op by one with the additional result that its derivative reads, in the same region
 * and saved if the first result is. */
static void keep_lse(differentiation *d, sc_op_id id, sc_value *map)
{
    sc_module *m = d->m;
    sc_arena *arena = &m->context->arena;
    const sc_op op = *sc_op_at(m, id);
    sc_attr attrs[SC_ATTR_COUNT];
    memcpy(attrs, op.attrs, op.attr_count * sizeof *attrs);
    attrs[op.attr_count] = sc_attr_int(SC_ATTR_lse, 1);
    sc_shape_request request = {.m = m,
                                .kind = (sc_op_kind)op.kind,
                                .operands = op.operands,
                                .operand_count = op.operand_count,
                                .attrs = attrs,
                                .attr_count = op.attr_count + 1u};
    sc_op_id made = sc_op_build(&request, d->func, id, id);
    sc_value first = sc_result(m, made, 0);
    map[op.first_result] = first;
    m->values.data[first].path = m->values.data[op.first_result].path;
    while (d->region.count > 0 && d->region.count <= made)
        *sc_vec_push(arena, &d->region) = d->region.data[id];
    while (d->saved.count > 0 && d->saved.count <= first + 1)
        *sc_vec_push(arena, &d->saved) = d->saved.data[op.first_result];
    sc_op_unlink(m, id);
}

/* Makes ops return a statistic that they compute anyway if their derivative reads it. */
static void keep_statistics(differentiation *d)
{
    sc_module *m = d->m;
    uint32_t count = m->values.count;
    sc_value *map = sc_arena_array(&m->context->arena, count, sizeof *map);
    memset(map, 0xff, count * sizeof *map);
    sc_for_each_op (m, d->func, id) {
        if ((sc_op_traits(sc_op_at(m, id)) & SC_KEEPS_LSE) != 0 && d->wanted[sc_result(m, id, 0)])
            keep_lse(d, id, map);
    }
    sc_func_replace_uses(m, d->func, map, count);
}

static bool derive_op(differentiation *d, sc_op_id id)
{
    sc_module *m = d->m;
    const sc_op op = *sc_op_at(m, id);
    sc_value cotangents[SC_MAX_FIXED_RESULTS];
    bool arrives = false;
    for (uint32_t r = 0; r < op.result_count && r < SC_MAX_FIXED_RESULTS; r++) {
        cotangents[r] = d->cotangent[op.first_result + r];
        arrives = arrives || cotangents[r] != SC_NONE;
    }
    if (!arrives || is_view(m, &op))
        return true;
    sc_derive derive = {.e = emitter(d, id),
                        .op = id,
                        .cotangents = cotangents,
                        .read = read_for_derivative,
                        .user = d};
    for (uint32_t i = 0; i < op.operand_count && i < SC_MAX_FIXED_OPERANDS; i++) {
        derive.wanted[i] = d->wanted[op.operands[i]];
        derive.widened[i] = d->widened[op.operands[i]];
    }
    memset(derive.gradients, 0xff, sizeof derive.gradients);
    if (sc_op_functions[op.kind].derive == NULL) {
        sc_report(
            &m->context->diag, SC_D_not_compiled, op.loc,
            sc_arena_printf(&m->context->arena, "the derivative of '%s'", sc_ops[op.kind].name),
            NULL);
        return false;
    }
    sc_op_functions[op.kind].derive(&derive);
    for (uint32_t i = 0; i < op.operand_count && i < SC_MAX_FIXED_OPERANDS; i++) {
        if (derive.wanted[i] && derive.gradients[i] != SC_NONE)
            add_cotangent(d, &derive.e, op.operands[i], derive.gradients[i]);
    }
    return true;
}

/* ---- the sweep ---- */

static void prepare(differentiation *d)
{
    sc_arena *arena = &d->m->context->arena;
    const sc_training *training = d->training;
    uint32_t values = d->m->values.count, ops = d->m->ops.count;
    d->backward = sc_intern_text(&d->m->context->names, "backward");
    d->recompute = sc_intern_text(&d->m->context->names, "recompute");
    if (training->region != NULL) {
        for (uint32_t i = 0; i < ops; i++)
            *sc_vec_push(arena, &d->region) = training->region[i];
    }
    if (training->saved != NULL) {
        for (uint32_t i = 0; i < values; i++)
            *sc_vec_push(arena, &d->saved) = training->saved[i];
    }
    d->is_trained = sc_arena_array(arena, d->m->state.count, sizeof *d->is_trained);
    for (uint32_t i = 0; i < training->params.count; i++)
        d->is_trained[training->params.data[i].state] = &training->params.data[i];
    *d->gradients = (sc_gradients){
        .first = sc_arena_array(arena, d->m->state.count, sizeof *d->gradients->first)};
    memset(d->gradients->first, 0xff, d->m->state.count * sizeof *d->gradients->first);
}

static void make_tables(differentiation *d)
{
    sc_arena *arena = &d->m->context->arena;
    uint32_t count = d->value_count = d->m->values.count;
    d->wanted = sc_arena_array(arena, count, sizeof *d->wanted);
    d->widened = sc_arena_array(arena, count, sizeof *d->widened);
    d->kept = sc_arena_array(arena, count, sizeof *d->kept);
    d->cotangent = sc_arena_array(arena, count, sizeof *d->cotangent);
    d->again = sc_arena_array(arena, count, sizeof *d->again);
    memset(d->cotangent, 0xff, count * sizeof *d->cotangent);
    memset(d->again, 0xff, count * sizeof *d->again);
    look_forward(d);
    keep_results_together(d);
}

/* Propagates cotangents from the objective, whose cotangent is 1, to the parameters. */
static bool sweep(differentiation *d, sc_value objective, sc_op_id last)
{
    sc_module *m = d->m;
    sc_emitter e = emitter(d, sc_def(m, objective));
    if (!d->wanted[objective])
        return true;
    sc_dtype dtype = sc_type_of(m, objective)->dtype;
    sc_value one =
        d->step->scales
            ? sc_make_cast(&e, sc_read_scaling(&e, d->step, SC_SCALE_STATE, SC_SCALE_INITIAL),
                           dtype)
            : sc_make_constant(&e, 1, dtype);
    add_cotangent(d, &e, objective, one);
    for (sc_op_id id = last; id != SC_NONE; id = m->ops.data[id].prev) {
        const sc_trained_param *param = param_read(d, sc_op_at(m, id));
        if (param != NULL)
            finish_param(d, id, param);
        else if (!derive_op(d, id))
            return false;
    }
    return true;
}

/* Gradients are those of the total divided by the weight, so the weight must not depend on
 * parameters. */
static bool check_weight(const differentiation *d, sc_op_id end)
{
    sc_module *m = d->m;
    const sc_op *returned = sc_op_at(m, end);
    if (returned->operand_count < 2 || !d->wanted[returned->operands[1]])
        return true;
    sc_report(&m->context->diag, SC_D_bad_statement,
              sc_op_at(m, sc_def(m, returned->operands[1]))->loc,
              "the weight of a minimised entry depends on its parameters, but only the total is "
              "differentiated",
              NULL);
    sc_report_note(&m->context->diag, (sc_loc){0},
                   "return stop_gradient(weight), or one scalar: the total divided by it");
    return false;
}

bool sc_differentiate(sc_module *m, sc_func_id func, const sc_training *training,
                      sc_train_step *step, sc_gradients *gradients)
{
    differentiation d = {
        .m = m, .func = func, .training = training, .step = step, .gradients = gradients};
    prepare(&d);
    make_tables(&d);
    keep_statistics(&d);
    make_tables(&d);
    sc_op_id end = m->funcs.data[func].last, last = m->ops.data[end].prev;
    if (!check_weight(&d, end))
        return false;
    sc_value objective = m->ops.data[end].operands[0];
    sc_op_unlink(m, end);
    if (!sweep(&d, objective, last))
        return false;
    name_gradients(&d);
    return true;
}
