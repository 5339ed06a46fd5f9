/* Prints a training run's progress. */
#include "runtime/drive/train_console.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#include "support/number.h"
#include "support/units.h"

static const double LINE_SECONDS = 10, TERMINAL_SECONDS = 0.1;
static const double LATE = 0.1; /* weight of the newest step in a moving average */

/* ---- a line ---- */

/* Text that does not fit is dropped. */
static void add(sc_train_console *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(sc_train_console *c, const char *format, ...)
{
    char text[SC_CONSOLE_LINE];
    va_list args;
    va_start(args, format);
    int length = sc_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0 || c->length + (size_t)length >= sizeof c->line)
        return;
    memcpy(c->line + c->length, text, (size_t)length + 1);
    c->length += (size_t)length;
}

/* Formats as 1:02:03 or 2:03. */
static void add_time(sc_train_console *c, double seconds)
{
    static const double LONGEST = 1e9;
    uint64_t all = seconds < LONGEST ? (uint64_t)(seconds + 0.5) : (uint64_t)LONGEST;
    if (all >= 3600)
        add(c, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, all / 3600, all / 60 % 60, all % 60);
    else
        add(c, "%" PRIu64 ":%02" PRIu64, all / 60, all % 60);
}

static void add_speed(sc_train_console *c, const sc_train_record *record, double now)
{
    double done = (double)(record->step - c->first), left = (double)(c->wanted - record->step);
    if (c->tokens_a_second > 0)
        add(c, c->tokens_a_second >= 100 ? ", %.0f tokens/s" : ", %.3g tokens/s",
            c->tokens_a_second);
    if (c->flops_a_second > 0) {
        char text[SC_UNITS_TEXT];
        sc_flops_print(c->flops_a_second, text);
        add(c, ", %s/s", text);
    }
    if (left > 0) {
        add(c, ", ETA ");
        add_time(c, (now - c->begin) / done * left);
    }
}

static void measure(sc_train_console *c, const sc_train_record *record)
{
    double seconds = record->seconds > 0 ? record->seconds : 1e-9;
    double tokens = (double)record->tokens / seconds, flops = record->flops / seconds;
    bool is_first = record->step <= c->first + 1;
    c->tokens_a_second =
        is_first ? tokens : c->tokens_a_second + LATE * (tokens - c->tokens_a_second);
    c->flops_a_second = is_first ? flops : c->flops_a_second + LATE * (flops - c->flops_a_second);
}

static void write_step(sc_train_console *c, const sc_train_record *record, double now)
{
    const sc_step_result *result = &record->result;
    c->length = 0;
    add(c, "step %" PRIu64 " of %" PRIu64 ", loss %.6g, norm %.4g, lr %.4g", record->step,
        c->wanted, result->loss, result->grad_norm, result->lr);
    if (result->skipped)
        add(c, ", not applied");
    for (uint32_t i = 0; i < result->metric_count; i++) {
        char place[SC_METRIC_NAME];
        add(c, ", %s %.6g", sc_metric_name(c->train, i, place), result->metrics[i]);
    }
    add_speed(c, record, now);
}

/* ---- on the console ---- */

/* An overwritten line must fit the terminal's width. */
static int columns(const sc_train_console *c)
{
    struct winsize size = {0};
    if (!c->is_terminal || ioctl(fileno(c->to), TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
        return SC_CONSOLE_LINE;
    return size.ws_col - 1;
}

static void show(sc_train_console *c, bool stays, double now)
{
    if (c->is_terminal)
        fprintf(c->to, "\r%.*s\033[K", stays ? SC_CONSOLE_LINE : columns(c), c->line);
    else
        fputs(c->line, c->to);
    if (stays || !c->is_terminal)
        fputc('\n', c->to);
    fflush(c->to);
    c->is_line_open = c->is_terminal && !stays;
    c->is_pending = false;
    c->shown = now;
}

void sc_train_console_open(sc_train_console *c, FILE *to, bool is_terminal,
                           const sc_fact_train *train, const sc_train_start *start, double now)
{
    *c = (sc_train_console){.to = to, .is_terminal = is_terminal, .train = train};
    if (to == NULL)
        return;
    c->first = start->done;
    c->wanted = start->wanted;
    c->begin = now;
    add(c, "training %s, %s%s, %" PRIu64 " rank%s: %" PRIu64 " parameter%s", start->entry,
        start->plan == NULL ? "no plan" : "plan ", start->plan == NULL ? "" : start->plan,
        start->ranks, start->ranks == 1 ? "" : "s", start->parameters,
        start->parameters == 1 ? "" : "s");
    if (start->rank_bytes > 0) {
        char text[SC_UNITS_TEXT];
        sc_bytes_print((double)start->rank_bytes, text);
        add(c, ", %s a rank", text);
    }
    if (start->tokens_an_epoch > 0)
        add(c, ", %" PRIu64 " tokens an epoch", start->tokens_an_epoch);
    if (start->tokens_held_out > 0)
        add(c, ", %" PRIu64 " held out", start->tokens_held_out);
    if (start->done > 0)
        add(c, ", %" PRIu64 " step%s done", start->done, start->done == 1 ? "" : "s");
    show(c, true, now);
}

void sc_train_console_step(sc_train_console *c, const sc_train_record *record, double now)
{
    if (c->to == NULL)
        return;
    measure(c, record);
    write_step(c, record, now);
    c->is_pending = true;
    if (now - c->shown >= (c->is_terminal ? TERMINAL_SECONDS : LINE_SECONDS))
        show(c, false, now);
}

void sc_train_console_held_out(sc_train_console *c, double loss, double now)
{
    if (c->to == NULL)
        return;
    add(c, ", held-out loss %.6g", loss);
    show(c, true, now);
}

void sc_train_console_state(sc_train_console *c, const sc_save_report *report, double now)
{
    if (c->to == NULL)
        return;
    if (!c->is_pending)
        c->length = 0;
    add(c, c->is_pending ? ", state of step %" PRIu64 : "step %" PRIu64 ": its state",
        report->step);
    add(c, " saved in %.3g s, waited %.3g s", report->seconds, report->blocked_seconds);
    show(c, true, now);
}

void sc_train_console_close(sc_train_console *c)
{
    if (c->to != NULL && c->is_pending)
        show(c, true, c->shown);
    else if (c->to != NULL && c->is_line_open)
        fputc('\n', c->to);
    *c = (sc_train_console){.to = NULL};
}
