/* shardc comm: the table of collectives, and that of copies between memories, as text and JSON. */
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/explain/expect.h"
#include "tools/explain/report.h"

/* Copies and their totals, as those of collectives; nothing is sent. */
static void add_copies(const sc_module *m, const sc_comm_rows *copies, json_t *root)
{
    json_t *list = json_array(), *sums = json_array();
    sc_comm_totals totals = {0};
    sc_comm_add_up(m, copies, &totals);
    for (uint32_t r = 0; r < copies->count; r++)
        json_array_append_new(list, sc_comm_row_json(m, &copies->data[r]));
    for (uint32_t t = 0; t < totals.count; t++) {
        const sc_comm_total *sum = &totals.data[t];
        json_array_append_new(sums, json_pack("{s:s,s:o,s:s,s:I,s:I}", "op", sum->first->name,
                                              "stage", sc_stage_json(sum->first->stage), "phase",
                                              sum->first->phase, "count", (json_int_t)sum->count,
                                              "bytes", (json_int_t)sum->bytes));
    }
    json_object_set_new(root, "copies", list);
    json_object_set_new(root, "copied", sums);
}

static void print_json(const sc_compiled *c, const sc_options *options, const sc_comm_rows *rows,
                       const sc_comm_rows *copies, sc_strbuf *out)
{
    const sc_module *m = c->local;
    json_t *root = json_object(), *mesh = json_array(), *list = json_array(), *sums = json_array();
    for (uint32_t a = 0; a < m->mesh.axis_count; a++)
        json_array_append_new(mesh, json_pack("{s:s,s:I}", "axis",
                                              sc_text(m->context, m->mesh.axes[a].name), "size",
                                              (json_int_t)m->mesh.axes[a].size));
    for (uint32_t r = 0; r < rows->count; r++)
        json_array_append_new(list, sc_comm_row_json(m, &rows->data[r]));
    sc_comm_totals totals = {0};
    sc_comm_add_up(m, rows, &totals);
    for (uint32_t t = 0; t < totals.count; t++) {
        const sc_comm_total *sum = &totals.data[t];
        json_array_append_new(
            sums, json_pack("{s:s,s:o,s:o,s:s,s:I,s:I,s:I}", "op", sum->first->name, "axes",
                            sc_axes_json(m, sum->first), "stage", sc_stage_json(sum->first->stage),
                            "phase", sum->first->phase, "count", (json_int_t)sum->count, "sent",
                            (json_int_t)(sum->sent + 0.5), "cost", (json_int_t)(sum->cost + 0.5)));
    }
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "file", json_string(options->file));
    json_object_set_new(root, "plan", sc_plan_json(m->context, c->plan));
    json_object_set_new(root, "entry", json_string(sc_text(m->context, c->entry)));
    json_object_set_new(root, "mesh", mesh);
    json_object_set_new(root, "collectives", list);
    json_object_set_new(root, "totals", sums);
    add_copies(m, copies, root);
    sc_print_json(root, out);
}

static const char *op_text(sc_arena *arena, const sc_comm_row *row)
{
    bool sums = row->reduce == NULL || strcmp(row->reduce, "sum") == 0;
    return sums ? row->name : sc_arena_printf(arena, "%s(%s)", row->name, row->reduce);
}

/* Column widths, determined by the contents. */
typedef struct widths {
    int op, axes, calls;
    bool has_stages; /* after the phase: the column of the stage */
    bool has_costs;  /* after the bytes sent: what they cost, if that is not the same for all */
} widths;

static int wider(int width, const char *text)
{
    return (int)strlen(text) > width ? (int)strlen(text) : width;
}

static widths measure(const sc_module *m, const sc_comm_groups *groups,
                      const sc_comm_totals *totals)
{
    sc_arena *arena = &m->context->arena;
    widths w = {15, 8, 5, sc_module_is_cut(m), false};
    for (uint32_t g = 0; g < groups->list.count; g++) {
        w.op = wider(w.op, op_text(arena, groups->list.data[g].row));
        w.axes = wider(w.axes, sc_comm_group_text(m, groups->list.data[g].row));
    }
    for (uint32_t g = 0; g < groups->list.count; g++)
        w.has_costs =
            w.has_costs || groups->list.data[g].row->cost > groups->list.data[g].row->sent;
    for (uint32_t t = 0; t < totals->count; t++)
        w.calls = wider(w.calls, sc_arena_printf(arena, "%u", totals->data[t].count));
    return w;
}

static void print_phase(const widths *w, const sc_comm_row *row, sc_strbuf *out)
{
    sc_strbuf_printf(out, "%-9s ", row->phase);
    if (w->has_stages)
        sc_strbuf_printf(out, "%5u ", row->stage);
}

/* On a line of its own, `indent` to the right. */
static void print_reason(const sc_module *m, int indent, const sc_comm_row *row, sc_strbuf *out)
{
    sc_strbuf_printf(out, "%*s %s", indent, "", row->why);
    if (row->rule != SC_NONE)
        sc_strbuf_printf(out, " (%s:%u)", sc_text(m->context, m->rules.data[row->rule].file),
                         m->rules.data[row->rule].line);
    sc_strbuf_add_char(out, '\n');
}

/* Prints the bytes sent and what they cost. */
static void print_sent(const sc_module *m, const widths *w, double sent, double cost,
                       sc_strbuf *out)
{
    sc_arena *arena = &m->context->arena;
    sc_strbuf_printf(out, " %9s", sc_bytes_text(arena, sent));
    if (w->has_costs)
        sc_strbuf_printf(out, " %9s", sc_bytes_text(arena, cost));
}

static void print_row(const sc_module *m, const widths *w, const sc_comm_group *group,
                      sc_strbuf *out)
{
    sc_arena *arena = &m->context->arena;
    const sc_comm_row *row = group->row;
    print_phase(w, row, out);
    sc_strbuf_printf(out, "%-*s %-*s %*u %9s", w->op, op_text(arena, row), w->axes,
                     sc_comm_group_text(m, row), w->calls, group->calls,
                     sc_bytes_text(arena, row->bytes));
    print_sent(m, w, row->sent, row->cost, out);
    sc_strbuf_printf(out, "  %s%s\n", sc_comm_values_text(arena, row),
                     row->control ? " (control)" : "");
    print_reason(
        m, 33 + w->op + w->axes + w->calls + (w->has_stages ? 6 : 0) + (w->has_costs ? 10 : 0), row,
        out);
}

/* Copies, in columns of their own: the rows of instances together, then the bytes of each phase. */
static void print_copies(sc_module *m, const sc_comm_rows *copies, sc_strbuf *out)
{
    sc_arena *arena = &m->context->arena;
    sc_comm_groups groups;
    sc_comm_totals totals = {0};
    if (copies->count == 0)
        return;
    sc_comm_group_rows(m->context, copies, &groups);
    sc_comm_add_up(m, copies, &totals);
    widths w = {9, 0, 5, sc_module_is_cut(m), false};
    for (uint32_t t = 0; t < totals.count; t++)
        w.calls = wider(w.calls, sc_arena_printf(arena, "%u", totals.data[t].count));
    sc_strbuf_printf(out, "copies between host and device memory, per rank%s\n",
                     w.has_stages ? " of a stage" : "");
    sc_strbuf_printf(out, "%-9s %s%-*s %*s %9s  what, why\n", "phase", w.has_stages ? "stage " : "",
                     w.op, "op", w.calls, "calls", "bytes");
    for (uint32_t g = 0; g < groups.list.count; g++) {
        const sc_comm_row *row = groups.list.data[g].row;
        print_phase(&w, row, out);
        sc_strbuf_printf(out, "%-*s %*u %9s  %s\n", w.op, row->name, w.calls,
                         groups.list.data[g].calls, sc_bytes_text(arena, row->bytes),
                         sc_comm_values_text(arena, row));
        print_reason(m, (w.has_stages ? 28 : 22) + w.op + w.calls, row, out);
    }
    for (uint32_t t = 0; t < totals.count; t++) {
        const sc_comm_total *sum = &totals.data[t];
        print_phase(&w, sum->first, out);
        sc_strbuf_printf(out, "%-*s %*u %9s  in all\n", w.op, sum->first->name, w.calls, sum->count,
                         sc_bytes_text(arena, sum->bytes));
    }
}

static void print_text(const sc_compiled *c, const sc_comm_rows *rows, sc_strbuf *out)
{
    const sc_module *m = c->local;
    if (rows->count == 0) {
        sc_strbuf_printf(out, "%s: no collectives\n", sc_text(m->context, c->entry));
        return;
    }
    sc_comm_groups groups;
    sc_comm_totals totals = {0};
    sc_comm_group_rows(m->context, rows, &groups);
    sc_comm_add_up(m, rows, &totals);
    widths w = measure(m, &groups, &totals);
    sc_strbuf_printf(out, "%-9s %s%-*s %-*s %*s %9s %9s%s  %s\n", "phase",
                     w.has_stages ? "stage " : "", w.op, "op", w.axes, "axes", w.calls, "calls",
                     "buffer", "sent", w.has_costs ? "      cost" : "", "what, why");
    for (uint32_t g = 0; g < groups.list.count; g++)
        print_row(m, &w, &groups.list.data[g], out);
    sc_strbuf_add(out, w.has_stages ? "totals per rank of a stage\n" : "totals per rank\n");
    for (uint32_t t = 0; t < totals.count; t++) {
        const sc_comm_total *sum = &totals.data[t];
        print_phase(&w, sum->first, out);
        sc_strbuf_printf(out, "%-*s %-*s %*u %9s", w.op, sum->first->name, w.axes,
                         sc_comm_group_text(m, sum->first), w.calls, sum->count, "");
        print_sent(m, &w, sum->sent, sum->cost, out);
        sc_strbuf_add_char(out, '\n');
    }
}

int sc_cmd_comm(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    sc_compiled c;
    if (!sc_driver_compile_file(context, options, NULL, NULL, NULL, &c))
        return 0;
    sc_comm_rows rows = {0}, copies = {0};
    sc_comm_report(c.local, &rows);
    sc_copy_report(c.local, &copies);
    if (options->run.json) {
        print_json(&c, options, &rows, &copies, out);
    } else {
        print_text(&c, &rows, out);
        print_copies(c.local, &copies, out);
    }
    sc_check_expects(context, &c, SC_D_expect_warns);
    return 0;
}
