/* Evaluates a minimize statement and the training lines of a plan for one built entry: which
 * optimizer trains each parameter, dtypes, micro-batches, recompute (remat.c), and how long
 * gathered parameters live. */
#include "frontend/plan/internal.h"
#include "frontend/train/check.h"
#include "frontend/train/offload.h"
#include "frontend/train/remat.h"

#include <string.h>

typedef struct training {
    sc_resolved_plan *plan;
    sc_context *context;
    const sc_minimize *minimize;
    sc_module *m;
    const sc_build_result *built;
    sc_training *out;
} training;

static const char *path_text(const training *t, uint32_t state)
{
    return sc_text(t->context, t->m->state.data[state].path);
}

/* ---- paths of parameters ---- */
static bool covers(const training *t, const sc_path_list *paths, uint32_t state)
{
    for (uint32_t i = 0; i < paths->count; i++) {
        if (sc_path_matches(t->context, &paths->data[i], t->built->entry,
                            t->m->state.data[state].path) != SC_PATH_NO)
            return true;
    }
    return false;
}

/* ---- roles ---- */
/* True for ops whose result is the operand's elements, moved or rounded: reading the result is
 * reading the parameter. */
static bool passes_on(const sc_op *op)
{
    return sc_op_has(op, SC_VIEW | SC_NAMESAKE | SC_RESIZES);
}

/* By value: true if a dot contracts it or a gather uses it as its table. */
static const bool *contracted_values(const training *t)
{
    bool *contracted = sc_arena_array(&t->context->arena, t->m->values.count, sizeof *contracted);
    sc_for_each_op_reverse (t->m, t->built->func, id) {
        const sc_op *op = sc_op_at(t->m, id);
        for (uint32_t i = 0; i < op->operand_count; i++) {
            if (sc_ops[op->kind].bound == SC_BOUND_contracted ||
                sc_op_is_table((sc_op_kind)op->kind, i) ||
                (passes_on(op) && contracted[op->first_result]))
                contracted[op->operands[i]] = true;
        }
    }
    return contracted;
}

static void check_indices(const training *t)
{
    const sc_plan_view *view = sc_plan_view_make(t->context, t->m, t->built->entry);
    for (uint32_t i = 0; i < t->minimize->over.count; i++)
        sc_plan_check_indices(t->context, view, &t->minimize->over.data[i]);
    for (uint32_t o = 0; o < t->minimize->optimizers.count; o++) {
        const sc_path_list *in = &t->minimize->optimizers.data[o].in;
        for (uint32_t i = 0; i < in->count; i++)
            sc_plan_check_indices(t->context, view, &in->data[i]);
    }
}

/* ---- optimizers ---- */
static bool read_groups(training *t)
{
    bool fine = true;
    sc_binding_list bindings = {0};
    sc_plan_bindings(t->plan, t->built->entry, &bindings);
    for (uint32_t i = 0; i < t->minimize->optimizers.count; i++) {
        sc_optimizer_settings *settings = sc_vec_push(&t->context->arena, &t->out->groups);
        fine = sc_optimizer_read(t->plan->program, &t->minimize->optimizers.data[i],
                                 t->built->entry, &bindings, settings) &&
               fine;
    }
    return fine;
}

/* Returns the last optimizer that covers this parameter; SC_NONE if none does. */
static uint32_t group_of(const training *t, uint32_t state)
{
    uint32_t group = SC_NONE;
    for (uint32_t i = 0; i < t->minimize->optimizers.count; i++) {
        const sc_path_list *in = &t->minimize->optimizers.data[i].in;
        if (in->count == 0 || covers(t, in, state))
            group = i;
    }
    return group;
}

static void report_without_optimizer(const training *t, uint32_t state)
{
    sc_report(&t->context->diag, SC_D_bad_statement, t->minimize->loc,
              sc_arena_printf(&t->context->arena, "no optimizer covers the trained parameter '%s'",
                              path_text(t, state)),
              NULL);
    sc_report_note(&t->context->diag, t->m->state.data[state].loc,
                   "begin with an optimizer without 'in', which covers the remaining parameters, "
                   "or remove this parameter from 'over'");
}

/* ---- parameters ---- */
static void add_param(training *t, uint32_t state, uint32_t group, bool contracted)
{
    sc_sym path = t->m->state.data[state].path;
    sc_dtype grad = sc_plan_dtype_of(t->plan, SC_KIND_GRAD, path);
    *sc_vec_push(&t->context->arena, &t->out->params) = (sc_trained_param){
        .state = state,
        .group = group,
        .decays = contracted || t->out->groups.data[group].hyper[SC_HYPER_DECAY_ALL] != 0.0,
        .grad = grad,
        .reduce = sc_plan_reduce_dtype(t->plan, path, grad),
        .opt = sc_plan_dtype_of(t->plan, SC_KIND_OPT, path)};
}

/* Lists the parameters that the entry reads, in the order of the module's state. */
static bool read_params(training *t)
{
    sc_arena *arena = &t->context->arena;
    const bool *contracted = contracted_values(t);
    bool *read = sc_arena_array(arena, t->m->state.count, sizeof *read),
         *decays = sc_arena_array(arena, t->m->state.count, sizeof *decays);
    sc_for_each_op (t->m, t->built->func, id) {
        const sc_op *op = sc_op_at(t->m, id);
        uint32_t state = sc_op_has(op, SC_PARAMETER)
                             ? sc_module_find_state(t->m, sc_op_word(op, SC_ATTR_name))
                             : SC_NONE;
        if (state == SC_NONE || !sc_dtype_is_float(sc_type_of(t->m, op->first_result)->dtype))
            continue;
        read[state] = true;
        decays[state] = decays[state] || contracted[op->first_result];
    }
    for (uint32_t state = 0; state < t->m->state.count; state++) {
        if (!read[state] || (t->minimize->over.count > 0 && !covers(t, &t->minimize->over, state)))
            continue;
        uint32_t group = group_of(t, state);
        if (group == SC_NONE) {
            report_without_optimizer(t, state);
            return false;
        }
        add_param(t, state, group, decays[state]);
    }
    if (t->out->params.count > 0)
        return true;
    sc_report(&t->context->diag, SC_D_bad_statement, t->minimize->loc,
              sc_arena_printf(&t->context->arena,
                              "there is nothing to train: '%s' reads no parameter%s",
                              sc_text(t->context, t->built->entry),
                              t->minimize->over.count > 0 ? " that 'over' names" : ""),
              NULL);
    return false;
}

/* ---- gathered parameters ---- */
static void read_reshards(training *t)
{
    const sc_plan *plan = t->plan->plan;
    if (plan != NULL) {
        for (uint32_t i = 0; i < plan->body.count; i++) {
            const sc_plan_stmt *stmt = plan->body.data[i];
            if (stmt->kind != SC_PLAN_RESHARD)
                continue;
            const char *word = sc_text(t->context, stmt->reshard.text);
            sc_reshard_after moment = strcmp(word, "step") == 0  ? SC_RESHARD_AFTER_STEP
                                      : strcmp(word, "use") == 0 ? SC_RESHARD_AFTER_USE
                                                                 : SC_RESHARD_AFTER_FORWARD;
            if (t->out->reshard == NULL) {
                t->out->reshard =
                    sc_arena_array(&t->context->arena, t->m->state.count, sizeof *t->out->reshard);
                memset(t->out->reshard, (int)t->out->reshard_otherwise, t->m->state.count);
            }
            for (uint32_t state = 0; state < t->m->state.count; state++) {
                if (t->m->state.data[state].kind == SC_STATE_PARAM &&
                    (stmt->in.count == 0 || covers(t, &stmt->in, state)))
                    t->out->reshard[state] = (uint8_t)moment;
            }
        }
    }
}

/* ---- micro-batches ---- */
static bool has_dim_in_inputs(const training *t, sc_dim dim)
{
    sc_for_each_op (t->m, t->built->func, id) {
        const sc_op *op = sc_op_at(t->m, id);
        if (sc_op_has(op, SC_FROM_OUTSIDE) &&
            sc_type_find_dim(sc_type_of(t->m, op->first_result), dim) >= 0)
            return true;
    }
    return false;
}

static bool read_micro_batches(training *t)
{
    sc_sym name;
    sc_loc line = {0};
    const sc_name *dim = sc_plan_micro_batch_dim(t->plan, &line);
    t->out->micro_batches = sc_plan_micro_batches(t->plan, &name);
    t->out->accumulate = line;
    t->out->batch_dim = name == 0 ? SC_NONE : sc_module_find_dim(t->m, name);
    if (dim == NULL || (t->out->batch_dim != SC_NONE && has_dim_in_inputs(t, t->out->batch_dim)))
        return true;
    sc_report(
        &t->context->diag, SC_D_bad_plan_statement, dim->loc,
        sc_arena_printf(&t->context->arena,
                        "no input of '%s' has dim %s: there is nothing to split into micro-batches",
                        sc_text(t->context, t->built->entry), sc_text(t->context, name)),
        NULL);
    sc_report_note(&t->context->diag, (sc_loc){0},
                   "name the dim that counts the examples of a batch");
    return false;
}

bool sc_plan_training(sc_resolved_plan *plan, const sc_minimize *minimize, sc_module *m,
                      const sc_build_result *built, sc_training *out)
{
    uint32_t errors = plan->context->diag.errors;
    training t = {plan, plan->context, minimize, m, built, out};
    memset(out, 0, sizeof *out);
    check_indices(&t);
    if (read_groups(&t))
        read_params(&t);
    sc_plan_read_offload(plan, m, built, out);
    read_micro_batches(&t);
    /* each unit would be gathered twice a micro-batch otherwise */
    out->reshard_otherwise =
        sc_plan_has_stages(plan) ? SC_RESHARD_AFTER_STEP : SC_RESHARD_AFTER_FORWARD;
    read_reshards(&t);
    sc_plan_read_remat(plan, m, built, out);
    return plan->context->diag.errors == errors;
}
