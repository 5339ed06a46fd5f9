/* shardc memory: bytes per rank, the contents of the peak, and parameters that are not sharded. */
#include <assert.h>
#include <string.h>

#include "runtime/files/durable.h"
#include "tools/commands/commands.h"
#include "tools/explain/expect.h"
#include "tools/explain/measure_memory.h"
#include "tools/explain/report.h"

enum { SHOWN = 8 };

/* ---- unsharded parameters ---- */
/* Instances of a stack with equal paths, axes and bytes, printed on one line. */
typedef struct whole_group {
    const char *path;
    sc_sub_axis_set on;
    int64_t bytes;
    uint32_t count;
} whole_group;
typedef SC_VEC(whole_group) whole_groups;

static void group_whole(sc_context *context, const sc_module *m, const sc_memory_report *report,
                        sc_sub_axis_set among, whole_groups *out)
{
    sc_map seen = {.arena = &context->arena}; /* path, axes and bytes -> group */
    for (uint32_t i = 0; i < report->whole.count; i++) {
        const sc_memory_whole *whole = &report->whole.data[i];
        if ((whole->on & among) == 0)
            continue;
        const char *path =
            sc_path_without_indices(context, sc_text(context, m->state.data[whole->state].path));
        bool is_new;
        uint64_t key =
            sc_hash_bytes(path, strlen(path), sc_hash_mix((uint64_t)whole->bytes, whole->on));
        uint32_t *group = sc_map_insert(&seen, key, out->count, &is_new);
        if (is_new)
            *sc_vec_push(&context->arena, out) = (whole_group){path, whole->on, whole->bytes, 0};
        assert(*group < out->count);
        out->data[*group].count++;
    }
}

static double total_bytes(const whole_group *group)
{
    return (double)group->bytes * group->count;
}

static void print_group(const sc_module *m, const whole_group *group, int width, sc_strbuf *out)
{
    const char *path = group->count == 1 ? group->path
                                         : sc_arena_printf(&m->context->arena, "%s (%u of them)",
                                                           group->path, group->count);
    sc_strbuf_printf(out, "  %-*s %9s  %s\n", width, sc_sub_axis_set_text(m, group->on),
                     sc_bytes_text(&m->context->arena, total_bytes(group)), path);
}

/* ---- parameters that `param` rules miss ---- */
static int axis_index(const sc_module *m, sc_sym name)
{
    for (uint32_t a = 0; a < m->mesh.axis_count; a++) {
        if (m->mesh.axes[a].name == name)
            return (int)a;
    }
    return -1;
}

/* Notes a few groups, largest first. */
static void note_groups(sc_context *context, const whole_groups *groups)
{
    bool *said = sc_arena_array(&context->arena, groups->count, sizeof *said);
    for (uint32_t n = 0; n < SHOWN; n++) {
        uint32_t best = SC_NONE;
        for (uint32_t g = 0; g < groups->count; g++) {
            if (!said[g] && (best == SC_NONE ||
                             total_bytes(&groups->data[g]) > total_bytes(&groups->data[best])))
                best = g;
        }
        if (best == SC_NONE)
            return;
        said[best] = true;
        sc_report_note(&context->diag, (sc_loc){0}, "%s, %s on each rank", groups->data[best].path,
                       sc_bytes_text(&context->arena, total_bytes(&groups->data[best])));
    }
}

static void warn_of_axis(sc_context *context, const sc_module *m, const sc_memory_report *report,
                         const sc_plan_stmt *stmt, uint32_t axis)
{
    const sc_axis *of = &m->mesh.axes[axis];
    double all = (double)sc_memory_parameter_bytes(m),
           whole = (double)sc_memory_bytes_whole_on(m, axis);
    if (of->size == 1 || whole <= 0.01 * all)
        return;
    whole_groups groups = {0};
    sc_report(&context->diag, SC_D_parameters_whole, stmt->loc,
              sc_arena_printf(&context->arena, "%.3g %%", 100 * whole / all),
              sc_text(context, of->name), NULL);
    group_whole(context, m, report,
                (((sc_sub_axis_set)1 << of->sub_axis_count) - 1) << of->first_sub_axis, &groups);
    note_groups(context, &groups);
}

/* Warns if a rule meant to shard the parameters misses a large part of them. */
static void warn_of_whole(sc_context *context, const sc_compiled *c, const sc_memory_report *report)
{
    uint32_t seen = 0;
    if (c->plan != NULL) {
        for (uint32_t i = 0; i < c->plan->body.count; i++) {
            const sc_plan_stmt *stmt = c->plan->body.data[i];
            if (stmt->kind != SC_PLAN_SHARD || (stmt->shard.kinds.mask >> SC_KIND_PARAM & 1) == 0)
                continue;
            for (uint32_t k = 0; k < stmt->shard.axes.count; k++) {
                int axis = axis_index(c->local, stmt->shard.axes.data[k].text);
                if (axis >= 0 && (seen >> axis & 1) == 0)
                    warn_of_axis(context, c->local, report, stmt, (uint32_t)axis);
                seen |= axis >= 0 ? 1u << axis : 0;
            }
        }
    }
}

/* ---- output ---- */
static json_t *whole_axes_json(const sc_module *m, sc_sub_axis_set on)
{
    json_t *axes = json_array();
    for (uint32_t x = 0; x < m->mesh.axis_count; x++) {
        const sc_axis *axis = &m->mesh.axes[x];
        sc_sub_axis_set of_axis = (((sc_sub_axis_set)1 << axis->sub_axis_count) - 1)
                                  << axis->first_sub_axis;
        bool is_whole = (on & of_axis) == of_axis;
        if (is_whole && of_axis != 0)
            json_array_append_new(axes, json_string(sc_text(m->context, axis->name)));
        if (is_whole)
            continue;
        for (uint32_t a = 0; a < axis->sub_axis_count; a++) {
            if ((on >> (axis->first_sub_axis + a) & 1) != 0)
                json_array_append_new(axes,
                                      json_string(sc_sub_axis_set_text(
                                          m, (sc_sub_axis_set)1 << (axis->first_sub_axis + a))));
        }
    }
    return axes;
}

static json_t *kinds_json(const int64_t *bytes, int64_t peak)
{
    json_t *kinds = json_object();
    for (sc_memory_kind k = 0; k < SC_MEMORY_KINDS; k++)
        json_object_set_new(kinds, sc_memory_kind_names[k], json_integer((json_int_t)bytes[k]));
    json_object_set_new(kinds, "peak", json_integer((json_int_t)peak));
    return kinds;
}

static void print_json(const sc_module *m, const sc_memory_report *report, sc_strbuf *out)
{
    json_t *root = json_object(), *whole = json_array(), *live = json_array(),
           *padding = json_array();
    for (uint32_t i = 0; i < report->whole.count; i++) {
        const sc_memory_whole *w = &report->whole.data[i];
        json_array_append_new(whole,
                              json_pack("{s:s,s:o,s:I}", "path",
                                        sc_text(m->context, m->state.data[w->state].path), "axes",
                                        whole_axes_json(m, w->on), "bytes", (json_int_t)w->bytes));
    }
    for (uint32_t i = 0; i < report->live.count && i < SHOWN; i++) {
        const sc_memory_live *l = &report->live.data[i];
        json_array_append_new(live, json_pack("{s:s,s:s,s:I}", "value", l->name, "kind",
                                              sc_memory_kind_names[l->kind], "bytes",
                                              (json_int_t)l->bytes));
    }
    for (uint32_t i = 0; i < report->padding.count; i++) {
        const sc_memory_padding *p = &report->padding.data[i];
        json_array_append_new(padding, json_pack("{s:s,s:I}", "path",
                                                 sc_text(m->context, m->state.data[p->state].path),
                                                 "bytes", (json_int_t)p->bytes));
    }
    json_t *stages = json_array();
    for (uint32_t s = 0; s < report->stages.count; s++)
        json_array_append_new(
            stages, kinds_json(report->stages.data[s].bytes, report->stages.data[s].peak));
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "ranks", json_integer((json_int_t)sc_mesh_ranks(&m->mesh)));
    json_object_set_new(root, "per_rank", kinds_json(report->bytes, report->peak));
    json_object_set_new(root, "stages", stages);
    json_object_set_new(root, "whole", whole);
    json_object_set_new(root, "live", live);
    json_object_set_new(root, "padding", padding);
    if (report->largest_saved > 0)
        json_object_set_new(root, "saving",
                            json_pack("{s:I,s:I,s:s}", "cpu", (json_int_t)SC_DURABLE_BUFFER, "cuda",
                                      (json_int_t)SC_DURABLE_BUFFER + report->largest_saved,
                                      "largest", report->saved_name));
    sc_print_json(root, out);
}

/* State on a CPU is written directly; state of a GPU is copied through host memory. */
static void print_saving(sc_arena *arena, const sc_memory_report *report, sc_strbuf *out)
{
    if (report->largest_saved == 0)
        return;
    sc_strbuf_add(out, "additional host memory while a state is saved or read\n");
    sc_strbuf_printf(out, "  %-12s %9s  a file's buffer\n", "cpu",
                     sc_bytes_text(arena, SC_DURABLE_BUFFER));
    sc_strbuf_printf(out, "  %-12s %9s  and the largest shard, %s\n", "cuda",
                     sc_bytes_text(arena, (double)(SC_DURABLE_BUFFER + report->largest_saved)),
                     report->saved_name);
}

static void print_text(const sc_module *m, const sc_memory_report *report, sc_strbuf *out)
{
    sc_arena *arena = &m->context->arena;
    sc_strbuf_printf(out, "bytes per rank, on %llu", (unsigned long long)sc_mesh_ranks(&m->mesh));
    if (report->stages.count > 0)
        sc_strbuf_printf(out, "; of the fullest stage, %u", report->stage);
    sc_strbuf_add_char(out, '\n');
    for (sc_memory_kind k = 0; k < SC_MEMORY_KINDS; k++)
        sc_strbuf_printf(out, "  %-12s %9s\n", sc_memory_kind_names[k],
                         sc_bytes_text(arena, (double)report->bytes[k]));
    sc_strbuf_printf(out, "  %-12s %9s\n", "peak", sc_bytes_text(arena, (double)report->peak));
    if (report->stages.count > 0)
        sc_strbuf_add(out, "peak of each stage\n");
    for (uint32_t s = 0; s < report->stages.count; s++)
        sc_strbuf_printf(out, "  stage %-6u %9s\n", s,
                         sc_bytes_text(arena, (double)report->stages.data[s].peak));
    if (report->at != NULL)
        sc_strbuf_printf(out, "alive at the peak, %s\n", report->at);
    for (uint32_t i = 0; i < report->live.count && i < SHOWN; i++) {
        const sc_memory_live *live = &report->live.data[i];
        sc_strbuf_printf(out, "  %-12s %9s  %s\n", sc_memory_kind_names[live->kind],
                         sc_bytes_text(arena, (double)live->bytes), live->name);
    }
    if (report->live.count > SHOWN)
        sc_strbuf_printf(out, "  and %u more\n", report->live.count - SHOWN);
    if (report->padding.count > 0)
        sc_strbuf_add(out, "padding, over all shards\n");
    for (uint32_t i = 0; i < report->padding.count; i++)
        sc_strbuf_printf(out, "  %-12s %9s  %s\n", "",
                         sc_bytes_text(arena, (double)report->padding.data[i].bytes),
                         sc_text(m->context, m->state.data[report->padding.data[i].state].path));
    print_saving(arena, report, out);
    whole_groups groups = {0};
    group_whole(m->context, m, report, UINT32_MAX, &groups);
    if (groups.count > 0)
        sc_strbuf_add(out, "parameters replicated over\n");
    int width = 12;
    for (uint32_t g = 0; g < groups.count; g++) {
        size_t length = strlen(sc_sub_axis_set_text(m, groups.data[g].on));
        width = (int)length > width ? (int)length : width;
    }
    for (uint32_t g = 0; g < groups.count; g++)
        print_group(m, &groups.data[g], width, out);
}

int sc_cmd_memory(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    sc_compiled c;
    sc_memory_report report;
    if (!sc_driver_compile_file(context, options, NULL, NULL, NULL, &c))
        return 0;
    if (!sc_measure_memory(context, &c, &report))
        return 0;
    if (options->run.json)
        print_json(c.local, &report, out);
    else
        print_text(c.local, &report, out);
    warn_of_whole(context, &c, &report);
    sc_check_expects(context, &c, SC_D_expect_warns);
    return 0;
}
