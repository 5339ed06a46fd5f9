#include "runtime/drive/train_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/drive/json.h"
#include "support/json.h"
#include "support/number.h"

enum { PROGRESS_SECONDS = 10 };

double sc_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool report(sc_train_log *log)
{
    sc_report(&log->context->diag, SC_D_cannot_write, (sc_loc){0}, log->path, strerror(errno), NULL);
    return false;
}

bool sc_train_log_open(sc_context *context, const char *path, bool append, FILE *progress, sc_train_log *log)
{
    bool is_terminal = progress != NULL && isatty(fileno(progress)) == 1;
    *log =
        (sc_train_log){.context = context, .path = path, .progress = progress, .is_terminal = is_terminal, .last_progress = sc_seconds()};
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
    bool ok = text != NULL && fputs(text, log->file) >= 0 && fputc('\n', log->file) != EOF && fflush(log->file) == 0;
    free(text);
    return ok || report(log);
}

static json_t *metrics_json(const sc_step_result *result)
{
    json_t *metrics = json_object();
    for (uint32_t i = 0; i < result->metric_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "out%" PRIu32, i + 2); /* as eval calls them: total and weight come first */
        json_object_set_new(metrics, name, sc_number_json(result->metrics[i]));
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
    json_object_set_new(line, "tokens_per_second", sc_number_json((double)record->tokens / seconds));
    json_object_set_new(line, "tflops", sc_number_json(record->flops / seconds * 1e-12));
    json_object_set_new(line, "metrics", metrics_json(result));
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

/* A training run lasts; what is printed at its end alone, like the results of other commands, would come too late. */
void sc_train_log_progress(sc_train_log *log, const sc_train_record *record, uint64_t steps)
{
    double now = sc_seconds();
    if (log->progress == NULL || (!log->is_terminal && now - log->last_progress < PROGRESS_SECONDS))
        return;
    log->last_progress = now;
    sc_fprintf(log->progress, "%sstep %" PRIu64 " of %" PRIu64 ", loss %.6g, gradient norm %.4g, lr %.4g, %.3g s a step%s",
            log->is_terminal ? "\r" : "", record->step, steps, record->result.loss, record->result.grad_norm, record->result.lr,
            record->seconds, log->is_terminal ? "\033[K" : "\n");
    fflush(log->progress);
    log->is_line_open = log->is_terminal;
}

void sc_train_log_close(sc_train_log *log)
{
    if (log->is_line_open)
        fputc('\n', log->progress);
    if (log->file != NULL && fclose(log->file) != 0)
        report(log);
    *log = (sc_train_log){.context = log->context};
}
