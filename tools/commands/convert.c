/* shardc convert: a checkpoint of training as weights files, or weights files as a checkpoint. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/drive/convert_state.h"
#include "support/state.h"
#include "support/units.h"
#include "tools/commands/commands.h"
#include "tools/explain/report.h"
#include "tools/run/facts.h"
#include "tools/run/run.h"

static bool usage(sc_context *context, const char *text)
{
    sc_report(&context->diag, SC_D_usage, (sc_loc){0}, text, NULL);
    return false;
}

/* ---- options ---- */

static const uint64_t default_shard = (uint64_t)5 << 30;

/* Reads 5GiB, 500MB, 1000000. */
static bool read_bytes(sc_context *context, const char *text, uint64_t *out)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {{"", 1},
                 {"B", 1},
                 {"KB", 1000},
                 {"MB", 1000000},
                 {"GB", 1000000000},
                 {"TB", 1000000000000},
                 {"KiB", (uint64_t)1 << 10},
                 {"MiB", (uint64_t)1 << 20},
                 {"GiB", (uint64_t)1 << 30},
                 {"TiB", (uint64_t)1 << 40}};
    uint64_t number = 0;
    size_t digits = strspn(text, "0123456789");
    bool ok = digits > 0 && digits <= 18;
    for (size_t i = 0; i < digits; i++)
        number = ok ? 10 * number + (uint64_t)(text[i] - '0') : 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (ok && strcmp(text + digits, units[i].name) == 0 &&
            !__builtin_mul_overflow(number, units[i].bytes, out) && *out > 0)
            return true;
    }
    return usage(context, sc_arena_printf(&context->arena,
                                          "--max-shard '%s' is not a number of bytes, as 5GiB or "
                                          "500MB",
                                          text));
}

static bool is_state(sc_context *context, const char *path)
{
    static const char *const files[] = {"state.json", "latest"};
    bool found = false;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        found =
            found || access(sc_arena_printf(&context->arena, "%s/%s", path, files[i]), F_OK) == 0;
    return found;
}

static bool read_options(sc_context *context, const sc_options *options, sc_export_options *out)
{
    *out = (sc_export_options){
        .path = options->run.output, .dtype = SC_DTYPE_COUNT, .max_shard = default_shard};
    if (options->rest.count == 0 && !is_state(context, options->file))
        return usage(context, "convert needs a state or weights: shardc convert F FROM -o OUT");
    if (options->run.output == NULL)
        return usage(context, "convert needs -o OUT: a folder, or a file *.safetensors");
    if (options->max_shard != NULL && !read_bytes(context, options->max_shard, &out->max_shard))
        return false;
    if (options->dtype != NULL)
        out->dtype = sc_dtype_find(options->dtype);
    if (options->dtype != NULL && (out->dtype == SC_DTYPE_COUNT || !sc_dtype_is_float(out->dtype)))
        return usage(context,
                     sc_arena_printf(&context->arena, "--dtype is f64, f32, bf16 or f16, not '%s'",
                                     options->dtype));
    return true;
}

/* ---- the two directions ---- */

static void to_weights(sc_context *context, const sc_fact_weights *weights,
                       const sc_saved_state *saved, const sc_options *options,
                       const sc_export_options *how, sc_strbuf *out)
{
    sc_export_report report;
    if (!sc_state_export(context, weights, saved, how, &report))
        return;
    if (options->run.json)
        sc_print_json(json_pack("{s:i,s:s,s:I,s:i,s:i,s:I}", "version", 1, "path", how->path,
                                "step", (json_int_t)saved->counts.steps, "tensors",
                                (int)report.tensors, "files", (int)report.files, "bytes",
                                (json_int_t)report.bytes),
                      out);
    else
        sc_strbuf_printf(
            out, "%s: %u tensor%s of step %llu in %u file%s, %s\n", how->path, report.tensors,
            report.tensors == 1 ? "" : "s", (unsigned long long)saved->counts.steps, report.files,
            report.files == 1 ? "" : "s", sc_bytes_text(&context->arena, (double)report.bytes));
}

/* Describes the states of the step with their full sizes. */
static shardc_tensor_info *describe(sc_context *context, const sc_module *m)
{
    shardc_tensor_info *infos = sc_arena_array(&context->arena, m->state.count + 1u, sizeof *infos);
    for (uint32_t s = 0; s < m->state.count; s++) {
        const sc_type_info *type = sc_state_type(m, s);
        infos[s] = (shardc_tensor_info){.name = sc_text(context, m->state.data[s].path),
                                        .kind = sc_state_kind_names[m->state.data[s].kind],
                                        .dtype = sc_dtypes[type->dtype].name,
                                        .rank = type->rank,
                                        .batch_dim = -1,
                                        .count = 1};
        for (uint32_t d = 0; d < type->rank; d++) {
            infos[s].dims[d].size = infos[s].dims[d].local = type->dims[d].size;
            infos[s].count *= type->dims[d].size;
        }
    }
    return infos;
}

static void to_state(sc_context *context, const sc_facts *facts, const sc_compiled *c,
                     const sc_options *options, sc_strbuf *out)
{
    const char *from = options->rest.data[0], *folder = options->run.output;
    if (options->dtype != NULL || options->max_shard != NULL) {
        usage(context, sc_arena_printf(&context->arena,
                                       "--dtype and --max-shard are for weights files, but %s has "
                                       "no state, so a state is written: its dtypes are the plan's",
                                       from));
        return;
    }
    if (!sc_state_import(context, facts, describe(context, c->local), c->local->state.count, from,
                         options->run.seed, folder))
        return;
    if (options->run.json)
        sc_print_json(json_pack("{s:i,s:s,s:i}", "version", 1, "state", folder, "step", 0), out);
    else
        sc_strbuf_printf(out, "the state is in %s; --resume %s continues from it\n", folder,
                         folder);
}

/* Without a model: through the weights block that the state was saved with. */
static void convert_alone(sc_context *context, const sc_options *options,
                          const sc_export_options *how, sc_strbuf *out)
{
    sc_saved_state saved;
    sc_fact_weights weights;
    if (!sc_saved_state_read(context, options->file, &saved))
        return;
    const char *wrong = saved.counts.weights == NULL
                            ? "it was saved without a weights block"
                            : sc_weight_facts_read(saved.counts.weights, &context->arena, &weights);
    if (wrong == NULL) {
        to_weights(context, &weights, &saved, options, how, out);
        return;
    }
    sc_state_refuse(context, saved.path, wrong);
    sc_report_note(&context->diag, (sc_loc){0}, "shardc convert F %s -o %s takes that of a model",
                   saved.path, how->path);
}

static void convert_with(sc_context *context, const sc_facts *facts, const sc_compiled *c,
                         const sc_options *options, const sc_export_options *how, sc_strbuf *out)
{
    sc_saved_state saved;
    if (!is_state(context, options->rest.data[0]))
        to_state(context, facts, c, options, out);
    else if (sc_saved_state_read(context, options->rest.data[0], &saved) &&
             sc_saved_state_fits(context, &saved, facts->train.program))
        to_weights(context, &facts->weights, &saved, options, how, out);
}

int sc_cmd_convert(sc_context *context, const sc_options *given, sc_strbuf *out)
{
    sc_options options = *given;
    sc_export_options how;
    sc_compiled c, whole;
    sc_facts facts;
    options.trains = options.runs_ranks = true;
    if (!read_options(context, given, &how))
        return 0;
    if (given->rest.count == 0) {
        convert_alone(context, given, &how, out);
        return 0;
    }
    if (!sc_compile_train_file(context, &options, &c) || !sc_build_whole(&c, &whole) ||
        !sc_find_facts(&c, &whole, true, options.map, &facts))
        return 0;
    convert_with(context, &facts, &c, &options, &how, out);
    return 0;
}
