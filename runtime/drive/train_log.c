/* Writes a training run's log as JSON lines. */
#include "runtime/drive/train_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/drive/json.h"
#include "support/json.h"

static bool report(sc_train_log *log)
{
    sc_report(&log->context->diag, SC_D_cannot_write, (sc_loc){0}, log->path, strerror(errno),
              NULL);
    return false;
}

bool sc_train_log_open(sc_context *context, const char *path, bool append,
                       const sc_fact_train *train, sc_train_log *log)
{
    *log = (sc_train_log){.context = context, .path = path, .train = train};
    if (path == NULL)
        return true;
    log->file = fopen(path, append ? "a" : "w");
    return log->file != NULL || report(log);
}

static bool write_line(sc_train_log *log, json_t *line)
{
    char *text = sc_json_write(line, JSON_COMPACT);
    json_decref(line);
    errno = ENOMEM;
    bool ok = text != NULL && fputs(text, log->file) >= 0 && fputc('\n', log->file) != EOF &&
              fflush(log->file) == 0;
    free(text);
    return ok || report(log);
}

/* Lists each metric by position, and again by name. */
static json_t *metrics_json(const sc_fact_train *train, const sc_step_result *result)
{
    json_t *metrics = json_object();
    for (uint32_t i = 0; i < result->metric_count; i++) {
        char place[SC_METRIC_NAME], room[SC_METRIC_NAME];
        sc_metric_place(i, place);
        json_object_set_new(metrics, place, sc_number_json(result->metrics[i]));
        json_object_set_new(metrics, sc_metric_name(train, i, room),
                            sc_number_json(result->metrics[i]));
    }
    return metrics;
}

bool sc_train_log_step(sc_train_log *log, const sc_train_record *record)
{
    const sc_step_result *result = &record->result;
    double seconds = record->seconds > 0 ? record->seconds : 1e-9;
    if (log->file == NULL)
        return true;
    json_t *line = json_object();
    json_object_set_new(line, "step", json_integer((json_int_t)record->step));
    json_object_set_new(line, "loss", sc_number_json(result->loss));
    json_object_set_new(line, "grad_norm", sc_number_json(result->grad_norm));
    json_object_set_new(line, "lr", sc_number_json(result->lr));
    json_object_set_new(line, "tokens", json_integer((json_int_t)record->tokens));
    json_object_set_new(line, "seconds", sc_number_json(record->seconds));
    json_object_set_new(line, "tokens_per_second",
                        sc_number_json((double)record->tokens / seconds));
    json_object_set_new(line, "tflops", sc_number_json(record->flops / seconds * 1e-12));
    json_object_set_new(line, "metrics", metrics_json(log->train, result));
    json_object_set_new(line, "data_wait", sc_number_json(record->waited));
    json_object_set_new(line, "data_bytes", json_integer((json_int_t)record->data_bytes));
    if (result->skipped)
        json_object_set_new(line, "skipped", json_true());
    return write_line(log, line);
}

bool sc_train_log_held_out(sc_train_log *log, uint64_t step, double loss)
{
    if (log->file == NULL)
        return true;
    json_t *line = json_object();
    json_object_set_new(line, "step", json_integer((json_int_t)step));
    json_object_set_new(line, "eval_loss", sc_number_json(loss));
    return write_line(log, line);
}

bool sc_train_log_state(sc_train_log *log, const sc_save_report *report)
{
    if (log->file == NULL)
        return true;
    json_t *line = json_object(), *state = json_object();
    json_object_set_new(state, "seconds", sc_number_json(report->seconds));
    json_object_set_new(state, "blocked_seconds", sc_number_json(report->blocked_seconds));
    json_object_set_new(line, "step", json_integer((json_int_t)report->step));
    json_object_set_new(line, "state", state);
    return write_line(log, line);
}

void sc_train_log_close(sc_train_log *log)
{
    if (log->file != NULL && fclose(log->file) != 0)
        report(log);
    *log = (sc_train_log){.context = log->context};
}
