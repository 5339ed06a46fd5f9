/* shardc simulate: how long a step, or a call of an entry, takes on a described device, and where
 * the time goes. */
#include <string.h>

#include "program/target.h"
#include "runtime/files/durable.h"
#include "support/file.h"
#include "support/json.h"
#include "tools/commands/commands.h"
#include "tools/driver/flops.h"
#include "tools/explain/report.h"
#include "tools/time/simulate.h"

#define MILLI 1e3

typedef struct answer {
    sc_context *context;
    const sc_compiled *compiled;
    const sc_device_model *device;
    sc_simulated simulated;
    double ranks, model_flops, all_flops, peak, tokens;
    int64_t memory; /* of the fullest rank */
} answer;

static bool generate(sc_context *context, const sc_compiled *c, const sc_target *target,
                     sc_generated_program *out)
{
    const sc_generate_part part = {.m = c->local,
                                   .step = c->step,
                                   .name = sc_module_is_cut(c->local) ? sc_text(context, c->entry)
                                                                      : NULL};
    return sc_generate_program(&part, 1,
                               &(sc_generate_options){.target = target, .no_object = true}, out);
}

/* ---- rates ---- */

/* The peak is that of the dtype in which most of the matmuls' FLOPs are. */
static sc_dtype matmul_dtype(const sc_generated_program *program)
{
    double most = 0, flops[SC_DTYPE_COUNT] = {0};
    sc_dtype best = SC_DTYPE_bf16;
    const sc_image *image = program->stages[0].image;
    for (uint32_t g = 0; g < image->gemm_count; g++)
        flops[image->gemms[g].dtypes[SC_GEMM_A]] += sc_gemm_flops(&image->gemms[g]);
    for (int d = 0; d < SC_DTYPE_COUNT; d++) {
        if (flops[d] > most) {
            most = flops[d];
            best = (sc_dtype)d;
        }
    }
    return best;
}

/* Ids that the entry reads, in a step of all micro-batches: elements of its first integer input. */
static double count_tokens(const sc_compiled *c)
{
    const sc_module *m = c->global;
    double batches = 0;
    for (uint32_t i = 0; i < m->schedule.count; i++)
        batches += m->schedule.data[i].func == c->func ? 1 : 0;
    sc_for_each_op (m, c->func, op) {
        const sc_op *o = sc_op_at(m, op);
        if (!sc_op_has(o, SC_FROM_OUTSIDE))
            continue;
        const sc_type_info *type = sc_type_of(m, o->first_result);
        double count = 1;
        for (uint32_t d = 0; d < type->rank; d++)
            count *= (double)type->dims[d].size;
        if (type->dtype == SC_DTYPE_i32 && type->rank > 0)
            return count * (batches < 1 ? 1 : batches);
    }
    return 0;
}

static void find_rates(answer *a, const sc_generated_program *program)
{
    const sc_compiled *c = a->compiled;
    a->ranks = (double)program->stages[0].image->ranks;
    a->all_flops = sc_schedule_flops(c->local);
    a->model_flops = a->all_flops - sc_schedule_flops_recomputed(c->local);
    a->peak = sc_time_peak(a->device, matmul_dtype(program));
    a->tokens = count_tokens(c);
    for (uint32_t s = 0; s < program->stage_count; s++) {
        int64_t bytes = program->stages[s].image->arena_bytes;
        a->memory = bytes > a->memory ? bytes : a->memory;
    }
}

static double utilization(const answer *a, double flops)
{
    return flops / (a->simulated.seconds * a->ranks * a->peak);
}

/* ---- text ---- */

static const char *row_name(const answer *a, const sc_time_row *row)
{
    if (row->kind != SC_TIME_COLLECTIVE)
        return sc_time_kind_names[row->kind];
    return sc_arena_printf(&a->context->arena, "%s over %s", row->op, row->axes);
}

static void print_row(const answer *a, const char *name, uint64_t count, double seconds,
                      double hidden, double exposed, const char *where, sc_strbuf *out)
{
    sc_strbuf_printf(out, "%-28s %8llu %10.3f %10.3f %10.3f %6.1f %%%s%s\n", name,
                     (unsigned long long)count, seconds * MILLI, hidden * MILLI, exposed * MILLI,
                     100 * exposed / a->simulated.seconds, where[0] == 0 ? "" : "  ", where);
}

/* Kernels and matmuls are exposed as they are; what runs beside them, as far as they wait for it.
 */
static bool runs_beside(sc_time_kind kind)
{
    return kind == SC_TIME_COLLECTIVE || kind == SC_TIME_TRANSFER || kind == SC_TIME_MESSAGE;
}

static void print_rows(const answer *a, const sc_time_stage *stage, sc_strbuf *out)
{
    sc_strbuf_printf(out, "%-28s %8s %10s %10s %10s %8s\n", "of a rank, in ms", "calls", "alone",
                     "hidden", "exposed", "share");
    for (sc_time_kind k = 0; k < SC_TIME_KINDS; k++) {
        for (uint32_t i = 0; i < stage->rows.count; i++) {
            const sc_time_row *row = &stage->rows.data[i];
            if (row->kind != k || (row->count == 0 && row->exposed == 0))
                continue;
            bool beside = runs_beside(k);
            double exposed = beside ? row->exposed : row->seconds,
                   hidden = row->seconds > exposed ? row->seconds - exposed : 0;
            print_row(a, row_name(a, row), row->count, row->seconds, hidden, exposed,
                      k != SC_TIME_COLLECTIVE ? ""
                      : row->within_node      ? "within a node"
                                              : "between nodes",
                      out);
        }
    }
    double idle = a->simulated.seconds - stage->end;
    if (idle > 0)
        print_row(a, "idle at the end", 1, idle, 0, idle, "", out);
}

static void print_text(const answer *a, sc_strbuf *out)
{
    sc_arena *arena = &a->context->arena;
    const sc_simulated *s = &a->simulated;
    sc_strbuf_printf(out, "%s on %.0f of %s: %.3f ms, simulated\n",
                     a->compiled->minimize != NULL ? "a step" : "a call", a->ranks, a->device->name,
                     s->seconds * MILLI);
    if (a->tokens > 0)
        sc_strbuf_printf(out, "%.0f tokens: %.6g tokens/s, %.4g on each\n", a->tokens,
                         a->tokens / s->seconds, a->tokens / s->seconds / a->ranks);
    sc_strbuf_printf(out, "%s: %.1f %% of the peak of %s/s (MFU)",
                     sc_flops_text(arena, a->model_flops), 100 * utilization(a, a->model_flops),
                     sc_flops_text(arena, a->ranks * a->peak));
    if (a->all_flops > a->model_flops)
        sc_strbuf_printf(out, "; with what is recomputed %s: %.1f %% (HFU)",
                         sc_flops_text(arena, a->all_flops), 100 * utilization(a, a->all_flops));
    sc_strbuf_printf(out, "\nmemory %s of %.4g GB%s\n", sc_bytes_text(arena, (double)a->memory),
                     a->device->memory,
                     (double)a->memory > a->device->memory * 1e9 ? ": it does not fit" : "");
    for (uint32_t k = 0; k < s->stage_count; k++) {
        const sc_time_stage *stage = &s->stages[k];
        if (s->stage_count > 1)
            sc_strbuf_printf(out, "\nstage %u: busy %.3f ms, waits for messages %.3f ms\n", k,
                             stage->busy * MILLI, stage->waiting * MILLI);
        print_rows(a, stage, out);
    }
}

/* ---- JSON ---- */

static json_t *rows_json(const sc_time_stage *stage)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < stage->rows.count; i++) {
        const sc_time_row *row = &stage->rows.data[i];
        double exposed = runs_beside(row->kind) ? row->exposed : row->seconds;
        json_array_append_new(
            list,
            json_pack(
                "{s:s,s:s?,s:s?,s:o,s:I,s:f,s:f}", "kind", sc_time_kind_names[row->kind], "op",
                row->op, "axes", row->axes, "within_node",
                row->kind == SC_TIME_COLLECTIVE ? json_boolean(row->within_node) : json_null(),
                "count", (json_int_t)row->count, "seconds", row->seconds, "exposed", exposed));
    }
    return list;
}

static void print_json(const answer *a, sc_strbuf *out)
{
    json_t *stages = json_array();
    const sc_simulated *s = &a->simulated;
    for (uint32_t k = 0; k < s->stage_count; k++)
        json_array_append_new(stages,
                              json_pack("{s:f,s:f,s:f,s:o}", "end", s->stages[k].end, "busy",
                                        s->stages[k].busy, "waiting", s->stages[k].waiting, "rows",
                                        rows_json(&s->stages[k])));
    sc_print_json(json_pack("{s:i,s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:o}", "version", 1, "device",
                            a->device->name, "seconds", s->seconds, "ranks", a->ranks, "tokens",
                            a->tokens, "flops", a->model_flops, "mfu",
                            utilization(a, a->model_flops), "hfu", utilization(a, a->all_flops),
                            "memory", (json_int_t)a->memory, "stages", stages),
                  out);
}

/* ---- traces: the JSON of Chrome's trace viewer, which Perfetto reads; times in microseconds ----
 */

static uint32_t track_of(sc_context *context, sc_text_list *names, const char *name)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (strcmp(names->data[i], name) == 0)
            return i;
    }
    *sc_vec_push(&context->arena, names) = name;
    return names->count - 1;
}

static json_t *name_json(const char *what, uint32_t stage, uint32_t track, const char *name)
{
    return json_pack("{s:s,s:s,s:I,s:I,s:{s:s}}", "ph", "M", "name", what, "pid", (json_int_t)stage,
                     "tid", (json_int_t)track, "args", "name", name);
}

static bool write_trace(const answer *a, const char *file)
{
    sc_text_list tracks = {0};
    json_t *events = json_array();
    const sc_simulated *s = &a->simulated;
    for (uint32_t i = 0; i < s->slices.count; i++) {
        const sc_time_slice *slice = &s->slices.data[i];
        uint32_t before = tracks.count,
                 track = track_of(a->context, &tracks,
                                  sc_arena_printf(&a->context->arena, "stage %u: %s", slice->stage,
                                                  slice->stream));
        if (tracks.count > before)
            json_array_append_new(events,
                                  name_json("thread_name", slice->stage, track, slice->stream));
        json_array_append_new(events, json_pack("{s:s,s:s,s:s,s:I,s:I,s:f,s:f}", "ph", "X", "name",
                                                slice->name[0] == 0 ? "kernel" : slice->name, "cat",
                                                slice->is_wait ? "wait" : "work", "pid",
                                                (json_int_t)slice->stage, "tid", (json_int_t)track,
                                                "ts", slice->start * 1e6, "dur",
                                                (slice->end - slice->start) * 1e6));
    }
    for (uint32_t k = 0; k < s->stage_count; k++)
        json_array_append_new(
            events,
            name_json("process_name", k, 0, sc_arena_printf(&a->context->arena, "stage %u", k)));
    json_t *root = json_pack("{s:o,s:s}", "traceEvents", events, "displayTimeUnit", "ms");
    char *text = sc_json_write(root, JSON_COMPACT);
    const char *reason = "memory ran out";
    bool ok = text != NULL && sc_file_write(file, text, strlen(text), 0666, &reason);
    free(text);
    json_decref(root);
    if (!ok)
        sc_report(&a->context->diag, SC_D_usage, (sc_loc){0},
                  sc_arena_printf(&a->context->arena, "cannot write %s: %s", file, reason), NULL);
    return ok;
}

/* ---- the command ---- */

int sc_cmd_simulate(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    sc_compiled compiled;
    sc_generated_program program;
    answer a = {.context = context, .compiled = &compiled};
    if (options->device == NULL) {
        sc_report(&context->diag, SC_D_usage, (sc_loc){0},
                  "simulate needs --device: h100, or a file NAME.json", NULL);
        return 0;
    }
    a.device = sc_device_find(context, options->device);
    if (a.device == NULL)
        return 0;
    sc_options own = *options;
    own.target = a.device->target;
    if (!sc_driver_compile_file(context, &own, NULL, NULL, "fuse", &compiled) ||
        !generate(context, &compiled, sc_target_find(a.device->target), &program))
        return 0;
    const char *why =
        sc_simulate(&context->arena, a.device, &program, options->trace != NULL, &a.simulated);
    if (why != NULL) {
        sc_report(&context->diag, SC_D_ir_invalid, (sc_loc){0}, "simulation", why, NULL);
        return 0;
    }
    find_rates(&a, &program);
    if (options->trace != NULL && !write_trace(&a, options->trace))
        return 0;
    if (options->run.json)
        print_json(&a, out);
    else
        print_text(&a, out);
    return 0;
}
