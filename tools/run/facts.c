/* Collects the facts of a compiled program (runtime/drive/facts.h). */
#include "tools/run/facts.h"

#include <string.h>

#include "ir/text/text.h"
#include "support/strbuf.h"
#include "tools/driver/flops.h"
#include "tools/driver/random_inputs.h"
#include "tools/verify/verification_run.h"

/* ---- the entry ---- */

static sc_entry_info find_entry(const sc_compiled *c)
{
    sc_entry_list entries = {0};
    sc_declarations_entries(c->program, c->model, &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        if (entries.data[i].entry == c->entry)
            return entries.data[i];
    }
    return (sc_entry_info){0};
}

/* Parts of a composite are adjacent. */
static sc_fact_type whole_type(const sc_module *m, sc_type id)
{
    const sc_type_info *type = &m->types.data[id];
    sc_fact_type whole = {.text = sc_type_text(m, id)};
    for (uint32_t d = 0; d < type->rank; d++) {
        if (d > 0 && type->dims[d].group != SC_NONE &&
            type->dims[d].group == type->dims[d - 1].group)
            whole.sizes[whole.rank - 1] *= type->dims[d].size;
        else
            whole.sizes[whole.rank++] = type->dims[d].size;
    }
    return whole;
}

/* Collects inputs and outputs of a function, from a module with full sizes that is not in the
 * program. */
static void entry_facts(const sc_compiled *c, const sc_module *m, sc_func_id func,
                        sc_fact_entry *out)
{
    sc_random_inputs distributions;
    uint32_t at = 0;
    sc_entry_info row = find_entry(c);
    *out = (sc_fact_entry){.name = sc_text(m->context, c->entry),
                           .func = SC_NONE,
                           .is_cached = row.cached,
                           .is_minimised = row.minimised,
                           .flops = sc_func_flops(m, func)};
    sc_random_inputs_find(m, func, &distributions);
    sc_for_each_op (m, func, op) {
        if (!sc_op_has(sc_op_at(m, op), SC_FROM_OUTSIDE))
            continue;
        sc_type id = m->values.data[sc_result(m, op, 0)].type;
        const sc_type_info *type = &m->types.data[id];
        sc_fact_input *input = sc_vec_push(&m->context->arena, &out->inputs);
        *input =
            (sc_fact_input){.name = sc_text(m->context, sc_op_word(sc_op_at(m, op), SC_ATTR_name)),
                            .type = whole_type(m, id),
                            .dtype = type->dtype,
                            .rank = type->rank,
                            .distribution = distributions.inputs.data[at++]};
        for (uint32_t d = 0; d < type->rank; d++)
            input->sizes[d] = type->dims[d].size;
    }
    for (uint32_t i = 0; i < sc_output_count(m, func); i++)
        *sc_vec_push(&m->context->arena, &out->outputs) =
            whole_type(m, m->values.data[sc_returned(m, func)->operands[i]].type);
}

/* ---- the train step ---- */

/* Describes which optimizer trains which parameters; together with the program it determines which
 * state is saved. */
static void print_trained(const sc_compiled *c, sc_strbuf *out)
{
    const sc_training *trained = c->global_step->training;
    for (uint32_t i = 0; i < trained->params.count; i++) {
        const sc_trained_param *param = &trained->params.data[i];
        sc_strbuf_printf(out, "train \"%s\" with %s\n",
                         sc_text(c->global->context, c->global->state.data[param->state].path),
                         sc_optimizers[trained->groups.data[param->group].kind].name);
    }
}

/* Builds the entry before differentiation and placement, with the whole batch; the compiled step is
 * that of one micro-batch, placed by the plan. */
static bool build_whole(const sc_compiled *c, bool has_precision, sc_compiled *out)
{
    sc_binding_list bindings = {0};
    sc_build_result built = {0};
    sc_plan_bindings(c->resolved, c->entry, &bindings);
    sc_build_request request = {.model = c->model,
                                .entry = c->entry,
                                .bindings = &bindings,
                                .dtype_of = has_precision ? sc_plan_dtype_of : NULL,
                                .user = c->resolved,
                                .training = true};
    *out = *c;
    out->global = sc_module_new(c->global->context);
    if (!sc_build_entry(c->program, &request, out->global, &built))
        return false;
    out->func = built.func;
    return true;
}

bool sc_build_whole(const sc_compiled *c, sc_compiled *out)
{
    return build_whole(c, true, out);
}

/* Prints what a checkpoint must match: the program and its optimizers, in declared dtypes, because
 * the plan's precision may change. */
static const char *model_text(const sc_compiled *c)
{
    sc_compiled plain;
    sc_strbuf text;
    sc_strbuf_init(&text, &c->global->context->arena);
    if (!build_whole(c, false, &plain))
        return "";
    sc_print_module(plain.global, NULL, &text);
    print_trained(c, &text);
    return text.data;
}

/* Lists the state of the running step that is not initialised to 0. */
static void find_constants(const sc_module *m, sc_fact_train *out)
{
    for (uint32_t s = 0; s < m->state.count; s++) {
        const sc_state *state = &m->state.data[s];
        if (state->kind == SC_STATE_OPT && state->init == SC_INIT_CONSTANT &&
            m->types.data[state->type].rank == 0)
            *sc_vec_push(&m->context->arena, &out->constants) =
                (sc_fact_constant){sc_text(m->context, state->path), state->init_args[0]};
    }
}

/* True for a name that a metric without one gets: its place among the results. */
static bool is_default_name(const char *name, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char place[SC_METRIC_NAME];
        sc_metric_place(i, place);
        if (strcmp(name, place) == 0)
            return true;
    }
    return false;
}

/* Names metrics after what the entry returns. A name is used only if it is unique and differs from
 * the default names. */
static const char *const *metric_names(const sc_compiled *c, uint32_t count)
{
    enum { BEFORE = 2 }; /* total and weight */
    sc_sym_list returned = {0};
    sc_declarations_returned_names(c->program, c->model, c->entry, &returned);
    if (count == 0 || returned.count != BEFORE + count)
        return NULL;
    const char **names = sc_arena_array(&c->global->context->arena, count, sizeof *names);
    for (uint32_t i = 0; i < count; i++) {
        bool is_used = returned.data[BEFORE + i] == 0;
        for (uint32_t j = 0; j < returned.count && !is_used; j++)
            is_used = j != BEFORE + i && returned.data[j] == returned.data[BEFORE + i];
        const char *name = is_used ? NULL : sc_text(c->global->context, returned.data[BEFORE + i]);
        names[i] = name == NULL || is_default_name(name, count) ? NULL : name;
    }
    return names;
}

static void find_train(const sc_compiled *c, sc_fact_train *out)
{
    sc_context *context = c->global->context;
    const sc_training *training = c->global_step->training;
    *out = (sc_fact_train){.metric_count = c->step->metric_count,
                           .metric_names = metric_names(c, c->step->metric_count),
                           .scales = c->step->scales,
                           .flops = sc_schedule_flops(c->local),
                           .program = model_text(c)};
    for (uint32_t i = 0; i < training->groups.count; i++)
        *sc_vec_push(&context->arena, &out->groups) = training->groups.data[i];
    find_constants(c->local, out);
}

/* ---- the whole ---- */

static bool add_weights(const sc_compiled *c, const sc_module *m, const char *map, sc_facts *out)
{
    const sc_weights *weights;
    if (!sc_weights_choose(m->context, c->program, c->model, map, &weights))
        return false;
    sc_weight_facts(m->context, c->program, c->model, weights, m, &out->weights);
    return true;
}

bool sc_find_facts(const sc_compiled *c, const sc_compiled *whole, bool weights, const char *map,
                   sc_facts *out)
{
    sc_context *context = c->global->context;
    *out = (sc_facts){.model = sc_text(context, c->model),
                      .plan = c->plan == NULL ? NULL : sc_text(context, c->plan->name.text),
                      .trains = whole != NULL};
    if (whole == NULL) {
        entry_facts(c, c->whole, c->whole_func, &out->entry);
        out->entry.func = c->func;
    } else {
        entry_facts(whole, whole->global, whole->func, &out->entry);
        find_train(c, &out->train);
    }
    return !weights || add_weights(c, whole == NULL ? c->global : whole->global, map, out);
}
