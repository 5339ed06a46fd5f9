/* Formats lines of a plan and shapes as text, for messages and reports. */
#include "frontend/plan/internal.h"

#include <inttypes.h>

static void add_names(sc_context *context, sc_strbuf *out, const sc_name_list *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        sc_strbuf_add(out, i > 0 ? ", " : "");
        sc_strbuf_add(out, sc_text(context, names->data[i].text));
    }
}

const char *sc_plan_names_text(sc_context *context, const sc_name_list *names)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    add_names(context, &out, names);
    return out.data;
}

static void add_paths(sc_context *context, sc_strbuf *out, const char *before,
                      const sc_path_list *paths)
{
    for (uint32_t i = 0; i < paths->count; i++) {
        sc_strbuf_add(out, i > 0 ? ", " : before);
        sc_strbuf_add(out, sc_path_text(context, &paths->data[i]));
    }
}

static void add_shape(sc_context *context, sc_strbuf *out, const sc_shape *shape)
{
    sc_strbuf_add_char(out, '[');
    for (uint32_t i = 0; i < shape->dims.count; i++) {
        const sc_dimref *dim = &shape->dims.data[i];
        sc_strbuf_add(out, i > 0 ? ", " : "");
        sc_strbuf_add(out, dim->rest ? ".." : sc_text(context, dim->dim.text));
        if (dim->axes.count == 0)
            continue;
        bool several = dim->axes.count > 1;
        sc_strbuf_add(out, several ? "@(" : "@");
        add_names(context, out, &dim->axes);
        sc_strbuf_add(out, several ? ")" : "");
    }
    sc_strbuf_add_char(out, ']');
}

const char *sc_plan_pin_shape_text(sc_context *context, const sc_shape *shape)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    add_shape(context, &out, shape);
    return out.data;
}

/* Appends arguments and values of `expect`: names, numbers and calls of them; an accepted plan has
 * nothing more deeply nested. */
static void add_value(sc_context *context, sc_strbuf *out, const sc_expr *value);

static void add_args(sc_context *context, sc_strbuf *out, const sc_arg_list *args)
{
    for (uint32_t i = 0; i < args->count; i++) {
        const sc_arg *arg = &args->data[i];
        sc_strbuf_add(out, i > 0 ? ", " : "");
        if (arg->name.text != 0)
            sc_strbuf_printf(out, "%s = ", sc_text(context, arg->name.text));
        sc_strbuf_add(out, arg->values.count > 1 ? "(" : "");
        for (uint32_t v = 0; v < arg->values.count; v++) {
            sc_strbuf_add(out, v > 0 ? ", " : "");
            add_value(context, out, arg->values.data[v]);
        }
        sc_strbuf_add(out, arg->values.count > 1 ? ")" : "");
    }
}

static void add_value(sc_context *context, sc_strbuf *out, const sc_expr *value)
{
    switch (value->kind) {
    case SC_EXPR_NAME:
        sc_strbuf_add(out, sc_text(context, value->name));
        break;
    case SC_EXPR_INT:
    case SC_EXPR_FLOAT:
    case SC_EXPR_STRING:
        sc_strbuf_add(out, sc_text(context, value->spelling));
        break;
    case SC_EXPR_CALL:
        sc_strbuf_printf(out, "%s(", sc_text(context, value->call.callee.text));
        add_args(context, out, &value->call.args);
        sc_strbuf_add_char(out, ')');
        break;
    default:
        sc_strbuf_add(out, "..");
        break;
    }
}

static void add_rule(sc_context *context, sc_strbuf *out, const sc_plan_stmt *stmt)
{
    for (uint32_t i = 0; i < stmt->shard.kinds.order.count; i++)
        sc_strbuf_printf(out, "%s%s", i > 0 ? ", " : "",
                         sc_kind_names[stmt->shard.kinds.order.data[i]]);
    sc_strbuf_add(out, stmt->shard.kinds.order.count > 0 ? " " : "");
    if (stmt->shard.star)
        sc_strbuf_add_char(out, '*');
    else
        add_names(context, out, &stmt->shard.dims);
    sc_strbuf_add(out, " over ");
    add_names(context, out, &stmt->shard.axes);
    sc_strbuf_add(out, stmt->shard.zigzag ? " zigzag" : "");
    add_paths(context, out, " in ", &stmt->in);
    sc_strbuf_add(out, stmt->shard.if_free ? " if free" : "");
}

static void add_offload(sc_context *context, sc_strbuf *out, const sc_plan_stmt *stmt)
{
    for (uint32_t i = 0; i < stmt->offload.order.count; i++)
        sc_strbuf_printf(out, "%s%s", i > 0 ? ", " : "offload ",
                         sc_kind_names[stmt->offload.order.data[i]]);
    add_paths(context, out, " in ", &stmt->in);
}

static void add_pin(sc_context *context, sc_strbuf *out, const sc_plan_stmt *stmt)
{
    sc_strbuf_printf(out, "pin %s: ", sc_path_text(context, &stmt->pin.path));
    add_shape(context, out, stmt->pin.shape);
    sc_strbuf_add(out, stmt->pin.over.count > 0 ? " over " : "");
    add_names(context, out, &stmt->pin.over);
}

static void add_style(sc_context *context, sc_strbuf *out, const sc_plan_stmt *stmt)
{
    add_paths(context, out, "style ", &stmt->in);
    sc_strbuf_printf(out, ": %s", sc_text(context, stmt->style.style.text));
    if (stmt->style.has_args) {
        sc_strbuf_add_char(out, '(');
        add_args(context, out, &stmt->style.args);
        sc_strbuf_add_char(out, ')');
    }
    sc_strbuf_printf(out, " over %s", sc_text(context, stmt->style.axis.text));
}

static void add_form(sc_context *context, sc_strbuf *out, const sc_plan_stmt *stmt)
{
    add_paths(context, out, "form ", &stmt->in);
    sc_strbuf_printf(out, ": %s over ", sc_text(context, stmt->form.name.text));
    add_names(context, out, &stmt->form.axes);
}

static void add_expect(sc_context *context, sc_strbuf *out, const sc_plan_stmt *stmt)
{
    add_value(context, out, stmt->expect.what);
    sc_strbuf_printf(out, " %s %s", stmt->expect.relation == SC_EXPECT_EQ ? "==" : "<=",
                     sc_text(context, stmt->expect.spelling));
    if (stmt->expect.unit.text != 0)
        sc_strbuf_printf(out, " %s", sc_text(context, stmt->expect.unit.text));
    add_paths(context, out, " in ", &stmt->in);
}

const char *sc_plan_line_text(sc_context *context, const sc_plan_stmt *stmt)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    if (stmt->kind == SC_PLAN_SHARD)
        add_rule(context, &out, stmt);
    else if (stmt->kind == SC_PLAN_PIN)
        add_pin(context, &out, stmt);
    else if (stmt->kind == SC_PLAN_STYLE)
        add_style(context, &out, stmt);
    else if (stmt->kind == SC_PLAN_FORM)
        add_form(context, &out, stmt);
    else if (stmt->kind == SC_PLAN_OFFLOAD)
        add_offload(context, &out, stmt);
    else if (stmt->kind == SC_PLAN_EXPECT)
        add_expect(context, &out, stmt);
    return out.data;
}

const char *sc_plan_shape_text(const sc_module *m, const sc_type_info *type)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &m->context->arena);
    sc_group_dims dims;
    sc_group_dims_of(type, &dims);
    sc_strbuf_add_char(&out, '[');
    for (uint32_t i = 0; i < dims.count; i++)
        sc_strbuf_printf(&out, "%s%s", i > 0 ? ", " : "",
                         sc_text(m->context, m->dims.data[dims.list[i].dim].name));
    sc_strbuf_add_char(&out, ']');
    return out.data;
}
