/* shardc explain: where each value stands, and the chain of lines and ops that put it there. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text.h"
#include "passes/comm_report.h"
#include "passes/reason.h"
#include "tools/commands.h"

enum { MAX_CHAIN = 64 };

typedef struct explained {
    sc_sym path;
    sc_value value;
    sc_type type;
} explained;

typedef struct explaining {
    sc_context *context;
    SC_VEC(explained) values;
} explaining;

static void remember(explaining *e, sc_sym path, sc_value value, sc_type type)
{
    *sc_vec_push(&e->context->arena, &e->values) = (explained){path, value, type};
}

/* Placements are whole right after propagation: names that later passes fold are still there. */
static void collect(sc_module *m, const sc_pass *pass, void *user)
{
    explaining *e = user;
    if (pass == NULL || pass != &sc_passes[SC_PASS_propagate])
        return;
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op(m, f, op) {
            const sc_op *o = sc_op_at(m, op);
            bool reads_state = (sc_op_traits(o) & SC_STATE_READ) != 0;
            for (uint32_t r = 0; r < o->result_count; r++) {
                sc_value value = o->first_result + r;
                sc_sym path = reads_state ? sc_op_word(o, SC_ATTR_name) : m->values.data[value].path;
                uint32_t state = reads_state ? sc_module_find_state(m, path) : SC_NONE;
                if (path != 0)
                    remember(e, path, value, state != SC_NONE ? m->state.data[state].type : m->values.data[value].type);
            }
        }
    }
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
    return path != 0 ? sc_text(m->context, path) : sc_arena_printf(&m->context->arena, "a result of %s", sc_ops[sc_op_at(m, sc_def(m, value))->kind].name);
}

static void follow(const sc_compiled *c, sc_value value, uint32_t atom, chain *links)
{
    sc_module *m = c->local;
    const sc_placing *placing = c->env.placing;
    for (int step = 0; step < MAX_CHAIN && placing != NULL && value < placing->value_count; step++) {
        const sc_cause *cause = sc_cause_of(placing, value, atom);
        if (cause->op == SC_NONE) {
            if (cause->rule != SC_NONE)
                add_link(m->context, links, m->rules.data[cause->rule].line, sc_text(m->context, m->rules.data[cause->rule].text));
            return;
        }
        const sc_op *op = sc_op_at(m, cause->op);
        sc_line line = sc_sources_line(&m->context->sources, op->loc.begin);
        const char *from = cause->from == SC_NONE ? "its reader" : name_of(m, cause->from);
        add_link(m->context, links, line.line, sc_arena_printf(&m->context->arena, "through %s, from %s", sc_ops[op->kind].name, from));
        if (cause->from == SC_NONE) {
            if (cause->rule != SC_NONE)
                add_link(m->context, links, m->rules.data[cause->rule].line, sc_text(m->context, m->rules.data[cause->rule].text));
            return;
        }
        value = cause->from;
    }
}

static chain why(const sc_compiled *c, const explained *x)
{
    chain links = {0};
    for (uint32_t a = 0; a < c->local->mesh.atom_count; a++)
        follow(c, x->value, a, &links);
    return links;
}

/* ---- JSON ---- */
static const char *group_name(const sc_module *m, const sc_type_dim *dim)
{
    return sc_text(m->context, m->dims.data[dim->group != SC_NONE ? dim->group : dim->dim].name);
}

/* Sizes by dim as written: a composite's is the product of its leaves. */
static json_t *sizes_json(const sc_module *m, const sc_type_info *type, bool local)
{
    json_t *sizes = json_object();
    for (uint32_t i = 0; i < type->rank; i++) {
        const char *name = group_name(m, &type->dims[i]);
        json_int_t before = json_object_get(sizes, name) == NULL ? 1 : json_integer_value(json_object_get(sizes, name));
        int64_t size = local ? sc_type_local_size(m, type, i) : type->dims[i].size;
        json_object_set_new(sizes, name, json_integer(before * (json_int_t)size));
    }
    return sizes;
}

static const char *atom_place(const sc_module *m, const sc_type_info *type, uint32_t atom)
{
    uint8_t on = type->placement.on[atom];
    if (on == SC_ON_NOTHING)
        return "replicated";
    if (sc_is_partial(on))
        return on == SC_PARTIAL_SUM ? "partial(sum)" : on == SC_PARTIAL_MAX ? "partial(max)" : "partial(min)";
    return group_name(m, &type->dims[on]);
}

static json_t *placement_json(const sc_module *m, const sc_type_info *type)
{
    json_t *placement = json_object();
    for (uint32_t x = 0; x < m->mesh.axis_count; x++) {
        const sc_axis *axis = &m->mesh.axes[x];
        const char *name = sc_text(m->context, axis->name), *first = axis->atom_count == 0 ? "replicated" : atom_place(m, type, axis->first_atom);
        bool alike = true;
        for (uint32_t a = 1; a < axis->atom_count; a++)
            alike = alike && strcmp(first, atom_place(m, type, axis->first_atom + a)) == 0;
        for (uint32_t a = 0; !alike && a < axis->atom_count; a++)
            json_object_set_new(placement, sc_arena_printf(&m->context->arena, "%s.%u", name, a), json_string(atom_place(m, type, axis->first_atom + a)));
        if (alike)
            json_object_set_new(placement, name, json_string(first));
    }
    return placement;
}

static void print_json(const sc_compiled *c, const explaining *e, sc_strbuf *out)
{
    const sc_module *m = c->local;
    json_t *root = json_object(), *values = json_array();
    for (uint32_t i = 0; i < e->values.count; i++) {
        const explained *x = &e->values.data[i];
        const sc_type_info *type = &m->types.data[x->type];
        json_t *links = json_array();
        chain reasons = why(c, x);
        for (uint32_t k = 0; k < reasons.count; k++)
            json_array_append_new(links, json_pack("{s:I,s:s}", "line", (json_int_t)reasons.data[k].line, "text", reasons.data[k].text));
        json_array_append_new(values, json_pack("{s:s,s:s,s:o,s:o,s:o,s:o}", "path", sc_text(m->context, x->path), "type", sc_type_text(m, x->type), "global",
                                                sizes_json(m, type, false), "local", sizes_json(m, type, true), "placement", placement_json(m, type), "why",
                                                links));
    }
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "values", values);
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    json_decref(root);
    sc_strbuf_add(out, text == NULL ? "" : text);
    sc_strbuf_add_char(out, '\n');
    free(text);
}

/* ---- text ---- */
/* layers[0].attn.wq is covered by itself, layers.attn.wq, layers[0].attn and layers. */
static bool is_asked(const char *asked, const char *path)
{
    while (*asked != 0) {
        if (*path == '[' && *asked != '[') {
            while (*path != 0 && *path != ']')
                path++;
            path += *path == ']';
            continue;
        }
        if (*asked++ != *path++)
            return false;
    }
    return *path == 0 || *path == '.' || *path == '[';
}

static void print_text(const sc_compiled *c, const explaining *e, const char *asked, sc_strbuf *out)
{
    const sc_module *m = c->local;
    uint32_t found = 0;
    for (uint32_t i = 0; i < e->values.count; i++) {
        const explained *x = &e->values.data[i];
        if (asked != NULL && !is_asked(asked, sc_text(m->context, x->path)))
            continue;
        found++;
        sc_strbuf_printf(out, "%s: %s\n", sc_text(m->context, x->path), sc_type_text(m, x->type));
        chain reasons = why(c, x);
        for (uint32_t k = 0; k < reasons.count; k++)
            sc_strbuf_printf(out, "    line %u: %s\n", reasons.data[k].line, reasons.data[k].text);
    }
    if (found == 0 && asked != NULL)
        sc_report(&m->context->diag, SC_D_matches_nothing, (sc_loc){0}, asked, "", NULL);
}

int sc_cmd_explain(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    sc_compiled c;
    explaining e = {.context = context};
    if (!sc_driver_compile_file(context, options, collect, &e, NULL, &c))
        return 0;
    if (options->json)
        print_json(&c, &e, out);
    else
        print_text(&c, &e, options->rest.count > 0 ? options->rest.data[0] : NULL, out);
    sc_check_expects(context, &c, SC_D_expect_warns);
    return 0;
}
