/* shardc explain: the placement of each value with the chain of plan lines and ops that caused it;
 * the reason for each collective, and the plan edit that would remove it. */
#include <string.h>

#include "ir/text/text.h"
#include "passes/reason.h"
#include "tools/commands/commands.h"
#include "tools/explain/advice.h"
#include "tools/explain/cuts.h"
#include "tools/explain/expect.h"
#include "tools/explain/forms.h"
#include "tools/explain/instances.h"
#include "tools/explain/query.h"
#include "tools/explain/report.h"
#include "tools/explain/stages.h"

enum { MAX_CHAIN = 64 };

typedef struct explained {
    sc_sym path;
    sc_value value;
    sc_type type;
    sc_loc loc;            /* of its op, or of the declaration that it reads */
    uint32_t chunk;        /* of the pipeline, that computes it; SC_NO_CHUNK: none, or any */
    bool is_passed_on;     /* a partial sum that is not reduced itself; its readers' results are */
    sc_form_choices forms; /* of its op, if that computes nothing else */
} explained;

typedef SC_VEC(explained) explained_list;

typedef struct explaining {
    sc_context *context;
    const sc_compiled *compiled;
    explained_list values;
    /* ops with forms whose result has no name; their path is that of what they are computed with */
    explained_list nameless;
    sc_query query;
    sc_comm_rows rows;
    sc_comm_groups groups; /* groups of rows */
    sc_comm_rows copies;   /* between host and device memory */
    sc_crossings crossings;
    sc_map states;                  /* states already in the list of values */
    sc_stage_list *stages_by_state; /* NULL: the program is not cut */
    sc_adviser *adviser;
} explaining;

/* Collects partial sums that the plan reduces where they are produced, but that are passed on
 * unreduced. */
static void collect_passed_on(sc_module *m, explaining *e)
{
    sc_map by_path = {.arena = &e->context->arena};
    for (uint32_t i = 0; i < e->values.count; i++)
        sc_map_insert(&by_path, e->values.data[i].path, i, NULL);
    for (sc_value value = 0; value < m->values.count; value++) {
        const sc_type_info *type = sc_type_of(m, value);
        sc_sym path = m->values.data[value].path;
        const uint32_t *place = path == 0 || sc_placement_partial(&type->placement, 0) == 0
                                    ? NULL
                                    : sc_map_find(&by_path, path);
        if (place == NULL ||
            sc_placement_partial(&m->types.data[e->values.data[*place].type].placement, 0) != 0)
            continue;
        e->values.data[*place].type = m->values.data[value].type;
        e->values.data[*place].is_passed_on = true;
    }
}

/* Adds an op with forms whose result has no name, by the value of which a form splits dims. */
static void add_nameless(const sc_module *m, const sc_op *op, explained x, explaining *e)
{
    const uint32_t operand = sc_forms[sc_first_form((sc_op_kind)op->kind)].operand;
    x.path = sc_value_path(m, op->operands[operand]);
    x.path = x.path == 0 ? op->scope : x.path;
    *sc_vec_push(&e->context->arena, &e->nameless) = x;
}

/* Collects values after the update is placed: then placements are complete, and names that later
 * passes fold still exist. */
static void collect(sc_module *m, const sc_pass *pass, void *user)
{
    explaining *e = user;
    if (pass == &sc_passes[SC_PASS_sink_reductions])
        collect_passed_on(m, e);
    if (pass == NULL || pass != &sc_passes[SC_PASS_place_update])
        return;
    const bool *of_inputs = sc_dims_of_inputs(m);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            const sc_op *o = sc_op_at(m, op);
            bool reads_state = (sc_op_traits(o) & SC_STATE_READ) != 0;
            for (uint32_t r = 0; r < o->result_count; r++) {
                sc_value value = o->first_result + r;
                sc_sym path =
                    reads_state ? sc_op_word(o, SC_ATTR_name) : m->values.data[value].path;
                uint32_t state = path == 0 ? SC_NONE : sc_module_find_state(m, path);
                bool is_new = true;
                explained x = {.path = path,
                               .value = value,
                               .type = m->values.data[value].type,
                               .loc = o->loc,
                               .chunk = o->chunk};
                if (state != SC_NONE) {
                    x.type = m->state.data[state].type;
                    x.loc = m->state.data[state].loc;
                    /* each state once, as stored, wherever it is read */
                    sc_map_insert(&e->states, state, 0, &is_new);
                }
                if (r == 0)
                    sc_find_forms(m, e->compiled->env.placing, op, of_inputs, &x.forms);
                if (path != 0 && is_new)
                    *sc_vec_push(&e->context->arena, &e->values) = x;
                if (path == 0 && x.forms.count > 0)
                    add_nameless(m, o, x, e);
            }
        }
    }
}

/* The stages that have a state, or the one that computes a value; none for what each stage computes
 * that reads it. */
static sc_stage_list stages_of(const sc_compiled *c, const explaining *e, const explained *x)
{
    sc_stage_list list = {0};
    uint32_t state = sc_module_find_state(c->local, x->path);
    if (e->stages_by_state != NULL && state != SC_NONE)
        return e->stages_by_state[state];
    if (e->stages_by_state != NULL && x->chunk != SC_NO_CHUNK)
        *sc_vec_push(&e->context->arena, &list) = c->pipeline.schedule->rank_of[x->chunk];
    return list;
}

/* ---- the chain ---- */
typedef struct link {
    uint32_t line;
    const char *text;
} link;
typedef SC_VEC(link) chain;

static void add_link(sc_context *context, chain *links, uint32_t line, const char *text)
{
    for (uint32_t i = 0; i < links->count; i++) {
        if (links->data[i].line == line && strcmp(links->data[i].text, text) == 0)
            return;
    }
    *sc_vec_push(&context->arena, links) = (link){line, text};
}

static const char *name_of(const sc_module *m, sc_value value)
{
    sc_sym path = sc_value_path(m, value);
    return path != 0 ? sc_text(m->context, path)
                     : sc_arena_printf(&m->context->arena, "a result of %s",
                                       sc_ops[sc_op_at(m, sc_def(m, value))->kind].name);
}

static void follow(const sc_compiled *c, sc_value value, uint32_t sub_axis, chain *links)
{
    sc_module *m = c->local;
    const sc_placing *placing = c->env.placing;
    if (placing != NULL) {
        for (int step = 0; step < MAX_CHAIN && value < placing->value_count; step++) {
            const sc_cause *cause = sc_cause_of(placing, value, sub_axis);
            if (cause->op == SC_NONE) {
                if (cause->rule != SC_NONE)
                    add_link(m->context, links, m->rules.data[cause->rule].line,
                             sc_text(m->context, m->rules.data[cause->rule].text));
                return;
            }
            const sc_op *op = sc_op_at(m, cause->op);
            sc_line line = sc_sources_line(&m->context->sources, op->loc.begin);
            const char *from = cause->from == SC_NONE ? "its reader" : name_of(m, cause->from);
            add_link(m->context, links, line.line,
                     sc_arena_printf(&m->context->arena, "through %s, from %s",
                                     sc_ops[op->kind].name, from));
            if (cause->from == SC_NONE) {
                if (cause->rule != SC_NONE)
                    add_link(m->context, links, m->rules.data[cause->rule].line,
                             sc_text(m->context, m->rules.data[cause->rule].text));
                return;
            }
            value = cause->from;
        }
    }
}

static chain why(const sc_compiled *c, const explained *x)
{
    chain links = {0};
    sc_line made = sc_sources_line(&c->local->context->sources, x->loc.begin);
    if (x->is_passed_on)
        add_link(
            c->local->context, &links, made.line,
            "a partial sum: its consumers' results are reduced instead, which moves fewer bytes");
    for (uint32_t a = 0; a < c->local->mesh.sub_axis_count; a++)
        follow(c, x->value, a, &links);
    return links;
}

/* ---- JSON ---- */
static const char *group_name(const sc_module *m, const sc_type_dim *dim)
{
    return sc_text(m->context, m->dims.data[dim->group != SC_NONE ? dim->group : dim->dim].name);
}

/* Sizes by dim as written; a composite's size is the product of its leaves. */
static json_t *sizes_json(const sc_module *m, const sc_type_info *type, bool local)
{
    json_t *sizes = json_object();
    for (uint32_t i = 0; i < type->rank; i++) {
        const char *name = group_name(m, &type->dims[i]);
        json_int_t before = json_object_get(sizes, name) == NULL
                                ? 1
                                : json_integer_value(json_object_get(sizes, name));
        int64_t size = local ? sc_type_local_size(m, type, i) : type->dims[i].size;
        json_object_set_new(sizes, name, json_integer(before * (json_int_t)size));
    }
    return sizes;
}

static const char *sub_axis_place(const sc_module *m, const sc_type_info *type, uint32_t sub_axis)
{
    uint8_t on = type->placement.on[sub_axis];
    if (on == SC_ON_NOTHING)
        return "replicated";
    if (sc_is_partial(on))
        return on == SC_PARTIAL_SUM   ? "partial(sum)"
               : on == SC_PARTIAL_MAX ? "partial(max)"
                                      : "partial(min)";
    return group_name(m, &type->dims[on]);
}

static json_t *placement_json(const sc_module *m, const sc_type_info *type)
{
    json_t *placement = json_object();
    for (uint32_t x = 0; x < m->mesh.axis_count; x++) {
        const sc_axis *axis = &m->mesh.axes[x];
        const char *name = sc_text(m->context, axis->name),
                   *first = axis->sub_axis_count == 0
                                ? "replicated"
                                : sub_axis_place(m, type, axis->first_sub_axis);
        bool alike = true;
        if (axis->is_stage)
            continue;
        for (uint32_t a = 1; a < axis->sub_axis_count; a++)
            alike = alike && strcmp(first, sub_axis_place(m, type, axis->first_sub_axis + a)) == 0;
        if (!alike) {
            for (uint32_t a = 0; a < axis->sub_axis_count; a++)
                json_object_set_new(placement,
                                    sc_arena_printf(&m->context->arena, "%s.%u", name, a),
                                    json_string(sub_axis_place(m, type, axis->first_sub_axis + a)));
        }
        if (alike)
            json_object_set_new(placement, name, json_string(first));
    }
    return placement;
}

static json_t *value_json(const sc_compiled *c, const explaining *e, const explained *x)
{
    const sc_module *m = c->local;
    const sc_type_info *type = &m->types.data[x->type];
    json_t *links = json_array();
    chain reasons = why(c, x);
    for (uint32_t k = 0; k < reasons.count; k++)
        json_array_append_new(links,
                              json_pack("{s:I,s:s}", "line", (json_int_t)reasons.data[k].line,
                                        "text", reasons.data[k].text));
    json_t *object =
        json_pack("{s:s,s:s,s:o,s:o,s:o,s:o}", "path", sc_text(m->context, x->path), "type",
                  sc_type_text(m, x->type), "global", sizes_json(m, type, false), "local",
                  sizes_json(m, type, true), "placement", placement_json(m, type), "why", links);
    if (x->forms.count > 0)
        json_object_set_new(object, "forms", sc_forms_json(m, &x->forms, c->step != NULL));
    if (!sc_module_is_cut(m))
        return object;
    sc_stage_list stages = stages_of(c, e, x);
    json_object_set_new(object, "stages", sc_stages_json(&stages));
    json_object_set_new(object, "crosses", sc_crossings_json(&e->crossings, x->path));
    return object;
}

static const char *op_name(const sc_module *m, const explained *x)
{
    return sc_ops[sc_op_at(m, sc_def(m, x->value))->kind].name;
}

static json_t *nameless_json(const sc_compiled *c, const explained *x)
{
    const sc_module *m = c->local;
    return json_pack("{s:s,s:s,s:s,s:o}", "op", op_name(m, x), "with", sc_text(m->context, x->path),
                     "type", sc_type_text(m, x->type), "forms",
                     sc_forms_json(m, &x->forms, c->step != NULL));
}

static const char *const edit_names[] = {"remove", "replace", "add"};

static json_t *peak_json(const sc_plan_cost *cost)
{
    return cost->peak < 0 ? json_null() : json_integer((json_int_t)cost->peak);
}

static json_t *advice_json(sc_context *context, const sc_advice *advice)
{
    if (advice == NULL)
        return json_null();
    sc_line line = sc_sources_line(&context->sources, advice->edit.loc.begin);
    json_t *object = json_pack("{s:s,s:s,s:I,s:I}", "edit", edit_names[advice->edit.kind], "file",
                               line.source->name, "line", (json_int_t)line.line, "column",
                               (json_int_t)line.column);
    json_object_set_new(object, "old",
                        advice->edit.old == NULL ? json_null() : json_string(advice->edit.old));
    json_object_set_new(object, "new",
                        advice->edit.line == NULL ? json_null() : json_string(advice->edit.line));
    const sc_plan_cost *before = &advice->before, *after = &advice->after;
    json_object_set_new(
        object, "sent",
        json_pack("[I,I]", (json_int_t)(before->sent + 0.5), (json_int_t)(after->sent + 0.5)));
    json_object_set_new(object, "peak", json_pack("[o,o]", peak_json(before), peak_json(after)));
    json_object_set_new(object, "flops", json_pack("[f,f]", before->flops, after->flops));
    if (before->makespan > 0) {
        json_object_set_new(object, "makespan",
                            json_pack("[f,f]", before->makespan, after->makespan));
        json_object_set_new(object, "imbalance",
                            json_pack("[f,f]", before->imbalance, after->imbalance));
    }
    if (advice->leaner != NULL)
        json_object_set_new(object, "leaner", advice_json(context, advice->leaner));
    return object;
}

/* A permute of a ring of dots is hidden if flop/s <= flop_per_byte * byte/s. */
static json_t *hiding_json(const sc_module *m, const sc_comm_row *row)
{
    const double flops = sc_flops_behind(m, row->op);
    return flops > 0 ? json_pack("{s:f,s:f}", "flops", flops, "flop_per_byte", flops / row->sent)
                     : json_null();
}

static void print_json(const sc_compiled *c, explaining *e, sc_strbuf *out)
{
    json_t *root = json_object(), *values = json_array(), *collectives = json_array();
    for (uint32_t i = 0; i < e->values.count; i++)
        json_array_append_new(values, value_json(c, e, &e->values.data[i]));
    sc_answer *answers = sc_arena_array(&e->context->arena, e->groups.list.count, sizeof *answers);
    for (uint32_t g = 0; g < e->groups.list.count; g++)
        answers[g] = sc_adviser_ask(e->adviser, e->groups.list.data[g].row);
    for (uint32_t r = 0; r < e->rows.count; r++) {
        const sc_answer *answer = &answers[e->groups.of_row[r]];
        json_t *row = sc_comm_row_json(c->local, &e->rows.data[r]);
        json_object_set_new(row, "advice", advice_json(e->context, answer->advice));
        json_object_set_new(row, "tried_all", json_boolean(answer->complete));
        json_object_set_new(row, "behind", hiding_json(c->local, &e->rows.data[r]));
        json_array_append_new(collectives, row);
    }
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "values", values);
    json_object_set_new(root, "collectives", collectives);
    json_t *copies = json_array();
    for (uint32_t r = 0; r < e->copies.count; r++)
        json_array_append_new(copies, sc_comm_row_json(c->local, &e->copies.data[r]));
    json_object_set_new(root, "copies", copies);
    json_t *nameless = json_array();
    for (uint32_t i = 0; i < e->nameless.count; i++)
        json_array_append_new(nameless, nameless_json(c, &e->nameless.data[i]));
    json_object_set_new(root, "nameless", nameless);
    sc_print_json(root, out);
}

/* ---- text ---- */
/* Hashes what instances must share to be printed on one line: the type, the plan lines that caused
 * the placement, their stages, and the cuts that they cross. */
static uint64_t look_of(const sc_compiled *c, const explaining *e, const explained *x)
{
    const sc_placing *placing = c->env.placing;
    uint64_t look = sc_hash_mix(x->type, x->is_passed_on);
    if (placing != NULL && x->value < placing->value_count) {
        for (uint32_t a = 0; a < c->local->mesh.sub_axis_count; a++)
            look = sc_hash_mix(look, sc_cause_of(placing, x->value, a)->rule);
    }
    sc_strbuf where;
    sc_strbuf_init(&where, &e->context->arena);
    sc_stage_list stages = stages_of(c, e, x);
    sc_print_stages(&stages, &where);
    sc_print_crossings(&e->crossings, x->path, &where);
    sc_print_forms(c->local, &x->forms, c->step != NULL, &where);
    if (where.length > 0)
        look = sc_hash_bytes(where.data, where.length, look);
    return look;
}

static void print_chain(const sc_compiled *c, const explained *x, sc_strbuf *out)
{
    chain reasons = why(c, x);
    for (uint32_t k = 0; k < reasons.count; k++)
        sc_strbuf_printf(out, "    line %u: %s\n", reasons.data[k].line, reasons.data[k].text);
}

static void print_values(const sc_compiled *c, explaining *e, sc_strbuf *out)
{
    sc_instance_groups groups;
    sc_instance *instances = sc_arena_array(&e->context->arena, e->values.count, sizeof *instances);
    for (uint32_t i = 0; i < e->values.count; i++)
        instances[i] = (sc_instance){sc_text(e->context, e->values.data[i].path),
                                     look_of(c, e, &e->values.data[i])};
    sc_instances_group(e->context, instances, e->values.count, &groups);
    for (uint32_t g = 0; g < groups.count; g++) {
        const explained *x = &e->values.data[groups.data[g].first];
        sc_stage_list stages = stages_of(c, e, x);
        sc_strbuf_printf(out, "%s: %s", groups.data[g].path, sc_type_text(c->local, x->type));
        sc_print_stages(&stages, out);
        sc_strbuf_add_char(out, '\n');
        print_chain(c, x, out);
        sc_print_forms(c->local, &x->forms, c->step != NULL, out);
        sc_print_crossings(&e->crossings, x->path, out);
    }
}

/* Ops with forms whose results have no name. */
static void print_nameless(const sc_compiled *c, explaining *e, sc_strbuf *out)
{
    sc_instance_groups groups;
    const uint32_t count = e->nameless.count;
    sc_instance *instances = sc_arena_array(&e->context->arena, count, sizeof *instances);
    for (uint32_t i = 0; i < count; i++)
        instances[i] = (sc_instance){sc_text(e->context, e->nameless.data[i].path),
                                     look_of(c, e, &e->nameless.data[i])};
    sc_instances_group(e->context, instances, count, &groups);
    for (uint32_t g = 0; g < groups.count; g++) {
        const explained *x = &e->nameless.data[groups.data[g].first];
        sc_strbuf_printf(out, "%s with %s: %s\n", op_name(c->local, x), groups.data[g].path,
                         sc_type_text(c->local, x->type));
        sc_print_forms(c->local, &x->forms, c->step != NULL, out);
    }
}

/* FLOPs of a rank; what is no longer split is computed by every rank. */
static void print_compute(sc_arena *arena, double before, double after, sc_strbuf *out)
{
    const char *was = sc_flops_text(arena, before), *is = sc_flops_text(arena, after);
    if (strcmp(was, is) == 0)
        sc_strbuf_add(out, ", compute the same");
    else
        sc_strbuf_printf(out, ", compute %s -> %s", was, is);
    if (after > before && before > 0 && strcmp(was, is) != 0)
        sc_strbuf_printf(out, " (%.3g times)", after / before);
}

/* What another cut does to the time of a step. */
static void print_pipeline(sc_arena *arena, const sc_plan_cost *before, const sc_plan_cost *after,
                           sc_strbuf *out)
{
    const char *was = sc_arena_printf(arena, "%.4g", before->makespan),
               *is = sc_arena_printf(arena, "%.4g", after->makespan);
    if (strcmp(was, is) != 0)
        sc_strbuf_printf(out, ", makespan %s -> %s, imbalance %.1f %% -> %.1f %%", was, is,
                         100 * before->imbalance, 100 * after->imbalance);
}

static void print_advice(const explaining *e, const char *begin, const sc_advice *advice,
                         sc_strbuf *out)
{
    sc_arena *arena = &e->context->arena;
    const sc_edit *edit = &advice->edit;
    sc_line line = sc_sources_line(&e->context->sources, edit->loc.begin);
    sc_strbuf_printf(out, "    %s ", begin);
    if (edit->kind == SC_EDIT_ADD)
        sc_strbuf_printf(out, "add '%s'", edit->line);
    else
        sc_strbuf_printf(out, "%s '%s'", edit_names[edit->kind], edit->old);
    if (edit->kind == SC_EDIT_REPLACE)
        sc_strbuf_printf(out, " by '%s'", edit->line);
    const sc_plan_cost *before = &advice->before, *after = &advice->after;
    const char *sent = sc_bytes_text(arena, before->sent),
               *then = sc_bytes_text(arena, after->sent);
    sc_strbuf_printf(out, " (%s:%u): ", line.source->name, line.line);
    if (strcmp(sent, then) == 0)
        sc_strbuf_printf(out, "%s sent as before", sent);
    else
        sc_strbuf_printf(out, "%s -> %s sent", sent, then);
    if (before->peak >= 0 && after->peak >= 0)
        sc_strbuf_printf(out, ", peak %s -> %s", sc_bytes_text(arena, (double)before->peak),
                         sc_bytes_text(arena, (double)after->peak));
    print_compute(arena, before->flops, after->flops, out);
    print_pipeline(arena, before, after, out);
    sc_strbuf_add_char(out, '\n');
}

static void print_answer(const explaining *e, const sc_answer *answer, sc_strbuf *out)
{
    const sc_advice *advice = answer->advice;
    if (advice == NULL && answer->complete)
        sc_strbuf_add(out, "    no single edit removes it and saves anything\n");
    else if (advice == NULL)
        sc_strbuf_add(out, "    not all edits were tried: name a path or a line\n");
    else
        print_advice(e,
                     advice->after.sent < advice->before.sent ? "to remove it:"
                                                              : "to remove it, with less memory:",
                     advice, out);
    if (advice != NULL && advice->leaner != NULL)
        print_advice(e,
                     advice->leaner->after.peak < advice->before.peak
                         ? "or, with less memory:"
                         : "or, with less memory than that:",
                     advice->leaner, out);
}

/* The line that a row is for, and the end of its reason. */
static void print_line(const sc_module *m, const sc_comm_row *row, sc_strbuf *out)
{
    if (row->rule != SC_NONE)
        sc_strbuf_printf(out, " (%s:%u)", sc_text(m->context, m->rules.data[row->rule].file),
                         m->rules.data[row->rule].line);
    sc_strbuf_add_char(out, '\n');
}

/* What a form of dots decides: a permute is hidden if the products behind it take as long. */
static void print_hiding(const sc_module *m, const sc_comm_row *row, sc_strbuf *out)
{
    sc_arena *arena = &m->context->arena;
    const double flops = sc_flops_behind(m, row->op);
    if (flops > 0)
        sc_strbuf_printf(out,
                         "    on its way during products of %s: hidden if flop/s <= %.3g byte/s\n",
                         sc_flops_text(arena, flops), flops / row->sent);
}

static void print_group(const sc_compiled *c, explaining *e, const sc_comm_group *group,
                        sc_strbuf *out)
{
    const sc_module *m = c->local;
    const sc_comm_row *row = group->row;
    sc_arena *arena = &m->context->arena;
    bool transfers = sc_row_transfers(m, row);
    sc_strbuf_printf(out, "%s over %s, ", row->name, sc_comm_group_text(m, row));
    if (row->stage != SC_ALL_STAGES_RUN)
        sc_strbuf_printf(out, "stage %u, ", row->stage);
    sc_strbuf_add(out, sc_comm_values_text(arena, row));
    if (group->calls > 1)
        sc_strbuf_printf(out, ", %u times", group->calls);
    sc_strbuf_printf(out, ": buffer %s, sent %s", sc_bytes_text(arena, row->bytes),
                     sc_bytes_text(arena, row->sent));
    if (transfers && row->sent > 0)
        sc_strbuf_printf(out, ", %s a step", sc_bytes_text(arena, row->sent * group->calls));
    sc_strbuf_printf(out, "\n    %s", row->why);
    print_line(m, row, out);
    print_hiding(m, row, out);
    sc_answer answer = sc_adviser_ask(e->adviser, row);
    if (!transfers || !answer.complete)
        print_answer(e, &answer, out);
    else if (answer.advice != NULL)
        print_advice(e, "to send less:", answer.advice, out);
}

/* No edit is offered for a copy: it is there because a line asks for it. */
static void print_copies(const sc_module *m, explaining *e, sc_strbuf *out)
{
    sc_arena *arena = &e->context->arena;
    sc_comm_groups groups;
    sc_comm_group_rows(e->context, &e->copies, &groups);
    for (uint32_t g = 0; g < groups.list.count; g++) {
        const sc_comm_row *row = groups.list.data[g].row;
        sc_strbuf_printf(out, "%s, ", row->name);
        if (row->stage != SC_ALL_STAGES_RUN)
            sc_strbuf_printf(out, "stage %u, ", row->stage);
        sc_strbuf_add(out, sc_comm_values_text(arena, row));
        if (groups.list.data[g].calls > 1)
            sc_strbuf_printf(out, ", %u times", groups.list.data[g].calls);
        sc_strbuf_printf(out, ": %s\n    %s", sc_bytes_text(arena, row->bytes), row->why);
        print_line(m, row, out);
    }
}

/* ---- queries ---- */
/* True if the query means a value of the row by its path; a new value of a state has none in IR. */
static bool means_value(const sc_compiled *c, const sc_query *query, const sc_comm_row *row)
{
    sc_context *context = c->local->context;
    for (uint32_t v = 0; v < row->values.count; v++) {
        const char *name = row->values.data[v];
        const char *path = row->layers.count != 1
                               ? name
                               : sc_arena_printf(&context->arena, "%s[%lld].%s", row->scope,
                                                 (long long)row->layers.data[0], name);
        if (query->path != NULL &&
            sc_query_matches(context, query, c->entry, sc_intern_text(&context->names, path),
                             (sc_loc){0}))
            return true;
    }
    return false;
}

/* Keeps the rows that the query means. */
static void keep_rows(const sc_compiled *c, const sc_query *query, sc_comm_rows *rows)
{
    uint32_t kept = 0;
    for (uint32_t r = 0; r < rows->count; r++) {
        const sc_comm_row row = rows->data[r];
        if (sc_query_matches_row(query, c, &row) || means_value(c, query, &row))
            rows->data[kept++] = row;
    }
    rows->count = kept;
}

/* Moves what the query means to the front of the list. Returns how many there are. */
static uint32_t keep_values(const sc_compiled *c, explaining *e, explained_list *list)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const explained x = list->data[i];
        if (sc_query_matches(e->context, &e->query, c->entry, x.path, x.loc))
            list->data[kept++] = x;
    }
    return kept;
}

static void keep_asked(const sc_compiled *c, explaining *e)
{
    uint32_t values = keep_values(c, e, &e->values), nameless = keep_values(c, e, &e->nameless);
    sc_comm_rows rows = e->rows, copies = e->copies;
    keep_rows(c, &e->query, &rows);
    keep_rows(c, &e->query, &copies);
    const bool is_empty = values == 0 && nameless == 0 && rows.count == 0 && copies.count == 0;
    /* nothing at this column: use everything on the line */
    if (is_empty && e->query.column != 0) {
        e->query.column = 0;
        keep_asked(c, e);
        return;
    }
    if (is_empty && e->query.text != NULL) {
        sc_sym *paths = sc_arena_array(&e->context->arena, e->values.count, sizeof *paths);
        for (uint32_t i = 0; i < e->values.count; i++)
            paths[i] = e->values.data[i].path;
        sc_query_report_no_match(e->context, &e->query, paths, e->values.count);
    }
    e->values.count = values;
    e->nameless.count = nameless;
    e->rows = rows;
    e->copies = copies;
}

int sc_cmd_explain(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    sc_compiled c;
    explaining e = {.context = context, .compiled = &c, .states = {.arena = &context->arena}};
    if (!sc_query_parse(context, options->rest.count > 0 ? options->rest.data[0] : NULL, &e.query))
        return 0;
    if (!sc_driver_compile_file(context, options, collect, &e, NULL, &c))
        return 0;
    sc_comm_report(c.local, &e.rows);
    sc_copy_report(c.local, &e.copies);
    sc_find_crossings(c.local, &e.rows, &e.crossings);
    e.stages_by_state = sc_find_stages(c.local);
    e.adviser = sc_adviser_new(context, options, &c);
    keep_asked(&c, &e);
    sc_comm_group_rows(context, &e.rows, &e.groups);
    if (options->run.json) {
        print_json(&c, &e, out);
    } else {
        print_values(&c, &e, out);
        print_nameless(&c, &e, out);
        for (uint32_t g = 0; g < e.groups.list.count; g++)
            print_group(&c, &e, &e.groups.list.data[g], out);
        print_copies(c.local, &e, out);
    }
    sc_check_expects(context, &c, SC_D_expect_warns);
    return 0;
}
