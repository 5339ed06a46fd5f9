/* shardc comm: the table of collectives, for people and for programs. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "passes/comm_report.h"
#include "tools/commands.h"

static json_t *axes_json(const sc_module *m, const sc_comm_row *row)
{
    json_t *axes = json_array();
    for (uint32_t a = 0; a < m->mesh.axis_count; a++) {
        if ((row->axes >> a & 1) != 0)
            json_array_append_new(axes, json_string(sc_text(m->context, m->mesh.axes[a].name)));
    }
    return axes;
}

static json_t *layer_json(const sc_comm_row *row)
{
    if (row->layers.count == 0)
        return json_null();
    if (row->layers.count == 1)
        return json_integer((json_int_t)row->layers.data[0]);
    json_t *list = json_array();
    for (uint32_t i = 0; i < row->layers.count; i++)
        json_array_append_new(list, json_integer((json_int_t)row->layers.data[i]));
    return list;
}

static json_t *text_or_null(const char *text)
{
    return text == NULL ? json_null() : json_string(text);
}

static json_t *why_json(const sc_module *m, const sc_comm_row *row)
{
    json_t *why = json_object();
    const sc_rule_ref *rule = row->rule == SC_NONE ? NULL : &m->rules.data[row->rule];
    json_object_set_new(why, "file", rule == NULL ? json_null() : json_string(sc_text(m->context, rule->file)));
    json_object_set_new(why, "line", rule == NULL ? json_null() : json_integer(rule->line));
    json_object_set_new(why, "text", json_string(row->why));
    return why;
}

static json_t *row_json(const sc_module *m, const sc_comm_row *row)
{
    json_t *values = json_array(), *object = json_object();
    for (uint32_t i = 0; i < row->values.count; i++)
        json_array_append_new(values, json_string(row->values.data[i]));
    json_object_set_new(object, "op", json_string(row->name));
    json_object_set_new(object, "reduce", text_or_null(row->reduce));
    json_object_set_new(object, "axes", axes_json(m, row));
    json_object_set_new(object, "sub", row->whole_axes ? json_null() : json_string(sc_comm_group_text(m, row)));
    json_object_set_new(object, "group", json_integer((json_int_t)row->ranks));
    json_object_set_new(object, "phase", json_string(row->phase));
    json_object_set_new(object, "scope", json_string(row->scope));
    json_object_set_new(object, "layer", layer_json(row));
    json_object_set_new(object, "value", json_string(row->values.data[0]));
    json_object_set_new(object, "values", values);
    json_object_set_new(object, "dim", text_or_null(row->dim));
    json_object_set_new(object, "dtype", json_string(row->dtype));
    json_object_set_new(object, "bytes", json_integer((json_int_t)row->bytes));
    json_object_set_new(object, "sent", json_integer((json_int_t)(row->sent + 0.5)));
    json_object_set_new(object, "count", json_integer(row->count));
    json_object_set_new(object, "control", json_boolean(row->control));
    json_object_set_new(object, "why", why_json(m, row));
    return object;
}

/* Rows that share op, axes and phase, added up. */
typedef struct total {
    const sc_comm_row *first;
    uint32_t count;
    double sent;
} total;
typedef SC_VEC(total) total_list;

static void add_up(const sc_module *m, const sc_comm_rows *rows, total_list *totals)
{
    for (uint32_t r = 0; r < rows->count; r++) {
        const sc_comm_row *row = &rows->data[r];
        uint32_t t = 0;
        while (t < totals->count && (strcmp(totals->data[t].first->name, row->name) != 0 || totals->data[t].first->axes != row->axes ||
                                     strcmp(totals->data[t].first->phase, row->phase) != 0))
            t++;
        if (t == totals->count)
            *sc_vec_push(&m->context->arena, totals) = (total){.first = row};
        totals->data[t].count += row->count;
        totals->data[t].sent += row->sent * row->count;
    }
}

static void print_json(const sc_compiled *c, const sc_options *options, const sc_comm_rows *rows, sc_strbuf *out)
{
    const sc_module *m = c->local;
    json_t *root = json_object(), *mesh = json_array(), *list = json_array(), *sums = json_array();
    for (uint32_t a = 0; a < m->mesh.axis_count; a++)
        json_array_append_new(mesh, json_pack("{s:s,s:I}", "axis", sc_text(m->context, m->mesh.axes[a].name), "size", (json_int_t)m->mesh.axes[a].size));
    for (uint32_t r = 0; r < rows->count; r++)
        json_array_append_new(list, row_json(m, &rows->data[r]));
    total_list totals = {0};
    add_up(m, rows, &totals);
    for (uint32_t t = 0; t < totals.count; t++) {
        const total *sum = &totals.data[t];
        json_array_append_new(sums, json_pack("{s:s,s:o,s:s,s:I,s:I}", "op", sum->first->name, "axes", axes_json(m, sum->first), "phase", sum->first->phase,
                                              "count", (json_int_t)sum->count, "sent", (json_int_t)(sum->sent + 0.5)));
    }
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "file", json_string(options->file));
    json_object_set_new(root, "plan", c->plan == NULL ? json_null() : json_string(sc_text(m->context, c->plan->name.text)));
    json_object_set_new(root, "entry", json_string(sc_text(m->context, c->entry)));
    json_object_set_new(root, "mesh", mesh);
    json_object_set_new(root, "collectives", list);
    json_object_set_new(root, "totals", sums);
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    json_decref(root);
    sc_strbuf_add(out, text == NULL ? "" : text);
    sc_strbuf_add_char(out, '\n');
    free(text);
}

/* 1536 -> 1.5 KiB */
static const char *bytes_text(sc_arena *arena, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        bytes /= 1024;
    return sc_arena_printf(arena, unit == 0 || bytes >= 100 ? "%.0f %s" : "%.3g %s", bytes, units[unit]);
}

static bool same_but_layer(const sc_comm_row *a, const sc_comm_row *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->scope, b->scope) == 0 && strcmp(a->values.data[0], b->values.data[0]) == 0 &&
           a->axes == b->axes && a->bytes == b->bytes && strcmp(a->phase, b->phase) == 0 && strcmp(a->why, b->why) == 0 &&
           a->values.count == b->values.count && a->layers.count == b->layers.count && a->control == b->control;
}

/* Instances of a stacked layer have equal rows: one line, with how many there are. */
static void print_rows(const sc_compiled *c, const sc_comm_rows *rows, sc_strbuf *out)
{
    const sc_module *m = c->local;
    sc_arena *arena = &m->context->arena;
    bool *shown = sc_arena_array(arena, rows->count, sizeof *shown);
    sc_strbuf_printf(out, "%-9s %-15s %-8s %5s %9s %9s  %s\n", "phase", "op", "axes", "calls", "buffer", "sent", "what, why");
    for (uint32_t r = 0; r < rows->count; r++) {
        const sc_comm_row *row = &rows->data[r];
        uint32_t calls = 0;
        for (uint32_t i = r; i < rows->count && !shown[r]; i++) {
            if (!shown[i] && i != r && same_but_layer(row, &rows->data[i])) {
                calls += rows->data[i].count;
                shown[i] = true;
            }
        }
        if (shown[r])
            continue;
        calls += row->count;
        sc_strbuf_printf(out, "%-9s %-15s %-8s %5u %9s %9s  %s%s%s", row->phase,
                         row->reduce != NULL && strcmp(row->reduce, "sum") != 0 ? sc_arena_printf(arena, "%s(%s)", row->name, row->reduce) : row->name,
                         sc_comm_group_text(m, row), calls, bytes_text(arena, row->bytes), bytes_text(arena, row->sent), row->scope,
                         row->scope[0] != 0 ? ": " : "", row->values.data[0]);
        for (uint32_t v = 1; v < row->values.count; v++)
            sc_strbuf_printf(out, ", %s", row->values.data[v]);
        sc_strbuf_printf(out, "%s\n%61s %s", row->control ? " (control)" : "", "", row->why);
        if (row->rule != SC_NONE)
            sc_strbuf_printf(out, " (%s:%u)", sc_text(m->context, m->rules.data[row->rule].file), m->rules.data[row->rule].line);
        sc_strbuf_add_char(out, '\n');
    }
}

static void print_text(const sc_compiled *c, const sc_comm_rows *rows, sc_strbuf *out)
{
    const sc_module *m = c->local;
    if (rows->count == 0) {
        sc_strbuf_printf(out, "%s: no collectives\n", sc_text(m->context, c->entry));
        return;
    }
    print_rows(c, rows, out);
    total_list totals = {0};
    add_up(m, rows, &totals);
    sc_strbuf_add(out, "totals per rank\n");
    for (uint32_t t = 0; t < totals.count; t++) {
        const total *sum = &totals.data[t];
        sc_strbuf_printf(out, "%-9s %-15s %-8s %5u %9s %9s\n", sum->first->phase, sum->first->name, sc_comm_group_text(m, sum->first), sum->count, "",
                         bytes_text(&m->context->arena, sum->sent));
    }
}

int sc_cmd_comm(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    sc_compiled c;
    if (!sc_driver_compile_file(context, options, NULL, NULL, NULL, &c))
        return 0;
    sc_comm_rows rows = {0};
    sc_comm_report(c.local, c.func, &rows);
    if (options->json)
        print_json(&c, options, &rows, out);
    else
        print_text(&c, &rows, out);
    sc_check_expects(context, &c, SC_D_expect_warns);
    return 0;
}
