/* shardc plot: draws training logs as SVG. */
#include "tools/commands/commands.h"
#include "tools/explain/report.h"
#include "tools/plot/chart.h"

static json_t *run_json(const sc_log_run *run)
{
    static const char *const names[SC_LOG_SERIES] = {[SC_LOG_LOSS] = "loss",
                                                     [SC_LOG_HELD_OUT] = "eval_loss",
                                                     [SC_LOG_NORM] = "grad_norm",
                                                     [SC_LOG_SPEED] = "tokens_per_second"};
    json_t *root = json_pack("{s:s}", "log", run->path);
    for (uint32_t s = 0; s < SC_LOG_SERIES; s++) {
        json_t *points = json_array();
        for (uint32_t i = 0; i < run->series[s].count; i++)
            json_array_append_new(points,
                                  json_pack("[I,o]", (json_int_t)run->series[s].data[i].step,
                                            sc_number_json(run->series[s].data[i].value)));
        json_object_set_new(root, names[s], points);
    }
    json_object_set_new(root, "skipped", json_integer(run->skipped.count));
    return root;
}

static void print_json(const sc_log_runs *runs, sc_strbuf *out)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < runs->count; i++)
        json_array_append_new(list, run_json(&runs->data[i]));
    sc_print_json(json_pack("{s:i,s:o}", "version", 1, "runs", list), out);
}

int sc_cmd_plot(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    sc_log_runs runs = {0};
    sc_chart chart;
    bool ok = sc_log_read(context, options->file, sc_vec_push(&context->arena, &runs));
    for (uint32_t i = 0; i < options->rest.count; i++)
        ok = sc_log_read(context, options->rest.data[i], sc_vec_push(&context->arena, &runs)) && ok;
    if (!ok)
        return 0;
    if (options->run.json) {
        print_json(&runs, out);
        return 0;
    }
    sc_chart_lay_out(&context->arena, &runs, &chart);
    sc_chart_draw(&chart, out);
    return 0;
}
