/* shardc diff: compares the programs that two plans produce, side by side. */
#include <math.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/explain/measure_memory.h"
#include "tools/explain/report.h"

/* One of the two programs. */
typedef struct side {
    sc_compiled c;
    const char *plan;
    sc_comm_rows rows;
    sc_comm_totals totals;
    sc_memory_report memory;
} side;

/* Calls of one op over one set of axes in one phase, in either program. Axes are compared by name,
 * because the meshes may differ. */
typedef struct line {
    const char *op, *axes, *phase;
    uint32_t stage;
    const sc_comm_total *total[2]; /* NULL: none */
} line;
typedef SC_VEC(line) lines;

static const char *axes_text(const sc_module *m, uint32_t axes)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &m->context->arena);
    for (uint32_t a = 0; a < m->mesh.axis_count; a++) {
        if ((axes >> a & 1) != 0)
            sc_strbuf_printf(&text, "%s%s", text.length > 0 ? "+" : "",
                             sc_text(m->context, m->mesh.axes[a].name));
    }
    return text.data;
}

static void collect_lines(sc_context *context, const side *sides, lines *out)
{
    for (uint32_t s = 0; s < 2; s++) {
        for (uint32_t t = 0; t < sides[s].totals.count; t++) {
            const sc_comm_total *total = &sides[s].totals.data[t];
            const char *axes = axes_text(sides[s].c.local, total->first->axes);
            uint32_t i = 0;
            while (i < out->count && (strcmp(out->data[i].op, total->first->name) != 0 ||
                                      strcmp(out->data[i].axes, axes) != 0 ||
                                      out->data[i].stage != total->first->stage ||
                                      strcmp(out->data[i].phase, total->first->phase) != 0))
                i++;
            if (i == out->count)
                *sc_vec_push(&context->arena, out) = (line){.op = total->first->name,
                                                            .axes = axes,
                                                            .phase = total->first->phase,
                                                            .stage = total->first->stage};
            out->data[i].total[s] = total;
        }
    }
}

/* Bytes that a rank sends over one set of axes: with stages, a rank of the stage that sends most.
 */
typedef struct sent {
    const char *axes;
    double bytes[2];
} sent;
typedef SC_VEC(sent) sents;

static double sent_of(const line *l, uint32_t s)
{
    return l->total[s] == NULL ? 0 : l->total[s]->sent;
}

/* Bytes that a rank of the line's stage sends over the line's axes. */
static double sent_by_stage(const lines *all, const line *of, uint32_t s)
{
    double bytes = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        const line *l = &all->data[i];
        if (l->stage == of->stage && strcmp(l->axes, of->axes) == 0)
            bytes += sent_of(l, s);
    }
    return bytes;
}

static void collect_sent(sc_context *context, const lines *all, sents *out)
{
    for (uint32_t i = 0; i < all->count; i++) {
        uint32_t k = 0;
        while (k < out->count && strcmp(out->data[k].axes, all->data[i].axes) != 0)
            k++;
        if (k == out->count)
            *sc_vec_push(&context->arena, out) = (sent){.axes = all->data[i].axes};
        for (uint32_t s = 0; s < 2; s++)
            out->data[k].bytes[s] =
                fmax(out->data[k].bytes[s], sent_by_stage(all, &all->data[i], s));
    }
}

/* ---- output ---- */
static json_t *pair(double a, double b)
{
    return json_pack("[I,I]", (json_int_t)(a + 0.5), (json_int_t)(b + 0.5));
}

static json_t *line_json(const line *l)
{
    double count[2], bytes[2];
    for (uint32_t s = 0; s < 2; s++) {
        count[s] = l->total[s] == NULL ? 0 : l->total[s]->count;
        bytes[s] = l->total[s] == NULL ? 0 : l->total[s]->bytes;
    }
    json_t *axes = json_array();
    for (const char *name = l->axes; *name != 0; name += strcspn(name, "+"), name += *name == '+')
        json_array_append_new(axes, json_stringn(name, strcspn(name, "+")));
    return json_pack("{s:s,s:o,s:s,s:o,s:o,s:o,s:o}", "op", l->op, "axes", axes, "phase", l->phase,
                     "count", pair(count[0], count[1]), "bytes", pair(bytes[0], bytes[1]), "sent",
                     pair(sent_of(l, 0), sent_of(l, 1)), "stage", sc_stage_json(l->stage));
}

static void print_json(const sc_options *options, const side *sides, const lines *all,
                       const sents *totals, sc_strbuf *out)
{
    const sc_context *context = sides[0].c.local->context;
    json_t *root = json_object(), *calls = json_array(), *bytes = json_array(),
           *memory = json_object();
    for (uint32_t i = 0; i < all->count; i++)
        json_array_append_new(calls, line_json(&all->data[i]));
    for (uint32_t i = 0; i < totals->count; i++)
        json_array_append_new(bytes,
                              json_pack("{s:s,s:o}", "axes", totals->data[i].axes, "sent",
                                        pair(totals->data[i].bytes[0], totals->data[i].bytes[1])));
    for (sc_memory_kind k = 0; k < SC_MEMORY_KINDS; k++)
        json_object_set_new(
            memory, sc_memory_kind_names[k],
            pair((double)sides[0].memory.bytes[k], (double)sides[1].memory.bytes[k]));
    json_object_set_new(memory, "peak",
                        pair((double)sides[0].memory.peak, (double)sides[1].memory.peak));
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "file", json_string(options->file));
    json_object_set_new(root, "plans", json_pack("[s,s]", sides[0].plan, sides[1].plan));
    json_object_set_new(root, "entry", json_string(sc_text(context, sides[0].c.entry)));
    json_object_set_new(root, "ranks",
                        pair((double)sc_mesh_ranks(&sides[0].c.local->mesh),
                             (double)sc_mesh_ranks(&sides[1].c.local->mesh)));
    json_object_set_new(root, "collectives", calls);
    json_object_set_new(root, "sent", bytes);
    json_object_set_new(root, "memory", memory);
    sc_print_json(root, out);
}

/* Column widths, determined by the contents. */
typedef struct widths {
    int op, axes, side[2];
    bool has_stages; /* after the phase: the column of the stage */
} widths;

static int wider(int width, const char *text)
{
    return (int)strlen(text) > width ? (int)strlen(text) : width;
}

/* Width of everything left of the two columns. */
static int left(const widths *w)
{
    return (w->has_stages ? 22 : 13) + w->op + w->axes;
}

static void print_bytes(sc_arena *arena, const widths *w, const char *name, double a, double b,
                        sc_strbuf *out)
{
    sc_strbuf_printf(out, "  %-*s %*s %*s\n", left(w) - 2, name, w->side[0],
                     sc_bytes_text(arena, a), w->side[1], sc_bytes_text(arena, b));
}

static const char *calls_text(sc_arena *arena, const line *l, uint32_t s)
{
    const sc_comm_total *total = l->total[s];
    return total == NULL ? "-"
                         : sc_arena_printf(arena, "%u x %s", total->count,
                                           sc_bytes_text(arena, total->sent / total->count));
}

static const char *stage_text(sc_arena *arena, uint32_t stage)
{
    return stage == SC_ALL_STAGES_RUN ? "" : sc_arena_printf(arena, "stage %u", stage);
}

static widths measure(sc_arena *arena, const side *sides, const lines *all)
{
    widths w = {14, 8, {wider(16, sides[0].plan), wider(16, sides[1].plan)}, false};
    for (uint32_t i = 0; i < all->count; i++) {
        w.has_stages = w.has_stages || all->data[i].stage != SC_ALL_STAGES_RUN;
        w.op = wider(w.op, all->data[i].op);
        w.axes = wider(w.axes, all->data[i].axes);
        for (uint32_t s = 0; s < 2; s++)
            w.side[s] = wider(w.side[s], calls_text(arena, &all->data[i], s));
    }
    return w;
}

static void print_text(const side *sides, const lines *all, const sents *totals, sc_strbuf *out)
{
    sc_arena *arena = &sides[0].c.local->context->arena;
    widths w = measure(arena, sides, all);
    sc_strbuf_printf(out, "%-*s %*s %*s\n", left(&w),
                     sc_text(sides[0].c.local->context, sides[0].c.entry), w.side[0], sides[0].plan,
                     w.side[1], sides[1].plan);
    sc_strbuf_add(out,
                  all->count == 0 ? "no collectives\n" : "calls, and what a rank sends in each\n");
    for (uint32_t i = 0; i < all->count; i++) {
        const line *l = &all->data[i];
        sc_strbuf_printf(out, "  %-9s ", l->phase);
        if (w.has_stages)
            sc_strbuf_printf(out, "%-9s", stage_text(arena, l->stage));
        sc_strbuf_printf(out, "%-*s %-*s %*s %*s\n", w.op, l->op, w.axes, l->axes, w.side[0],
                         calls_text(arena, l, 0), w.side[1], calls_text(arena, l, 1));
    }
    if (totals->count > 0)
        sc_strbuf_add(out, "sent by a rank over\n");
    for (uint32_t i = 0; i < totals->count; i++)
        print_bytes(arena, &w, totals->data[i].axes, totals->data[i].bytes[0],
                    totals->data[i].bytes[1], out);
    sc_strbuf_add(out, "memory of a rank\n");
    for (sc_memory_kind k = 0; k < SC_MEMORY_KINDS; k++)
        print_bytes(arena, &w, sc_memory_kind_names[k], (double)sides[0].memory.bytes[k],
                    (double)sides[1].memory.bytes[k], out);
    print_bytes(arena, &w, "peak", (double)sides[0].memory.peak, (double)sides[1].memory.peak, out);
}

static bool compile_side(sc_context *context, sc_declarations *program, const sc_options *options,
                         const char *name, side *out)
{
    sc_options one = *options;
    const sc_plan *plan;
    one.plan = out->plan = name;
    if (!sc_driver_choose_plan(context, program, &one, &plan) ||
        !sc_driver_compile(context, program, plan, &one, NULL, NULL, NULL, &out->c))
        return false;
    sc_comm_report(out->c.local, &out->rows);
    sc_comm_add_up(out->c.local, &out->rows, &out->totals);
    return sc_measure_memory(context, &out->c, &out->memory);
}

int sc_cmd_diff(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    side sides[2] = {0};
    lines all = {0};
    sents totals = {0};
    if (options->plans.count != 2) {
        sc_report(&context->diag, SC_D_usage, (sc_loc){0},
                  "diff takes two plans: --plan A --plan B", NULL);
        return 0;
    }
    sc_declarations *program = sc_driver_load(context, options);
    for (uint32_t s = 0; s < 2; s++) {
        if (program == NULL ||
            !compile_side(context, program, options, options->plans.data[s], &sides[s]))
            return 0;
    }
    collect_lines(context, sides, &all);
    collect_sent(context, &all, &totals);
    if (options->run.json)
        print_json(options, sides, &all, &totals, out);
    else
        print_text(sides, &all, &totals, out);
    return 0;
}
