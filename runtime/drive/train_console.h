/* Shows the progress of a training run to people: a first line that describes the run; then the
 * progress, on a terminal as one line that is overwritten, else a line every ten seconds; a line
 * for each held-out loss and each checkpoint, and one for the last step. Times are passed by the
 * caller, in seconds of one clock. */
#ifndef SHARDC_RUNTIME_DRIVE_TRAIN_CONSOLE_H
#define SHARDC_RUNTIME_DRIVE_TRAIN_CONSOLE_H

#include <stdio.h>

#include "runtime/drive/train_log.h"

enum { SC_CONSOLE_LINE = 512 };

typedef struct sc_train_console {
    FILE *to; /* NULL: show nothing */
    bool is_terminal, is_line_open, is_pending;
    const sc_fact_train *train;
    uint64_t first, wanted; /* steps done before this run, and total */
    double begin, shown;
    double tokens_a_second, flops_a_second; /* moving averages */
    size_t length;                          /* of the current line, which has no newline yet */
    char line[SC_CONSOLE_LINE];
} sc_train_console;

typedef struct sc_train_start {
    const char *entry, *plan; /* plan NULL: none */
    uint64_t ranks, parameters, done, wanted;
    int64_t rank_bytes;       /* 0: unknown */
    uint64_t tokens_an_epoch; /* 0: unknown */
    uint64_t tokens_held_out; /* 0: none */
} sc_train_start;

/* `to` stays the caller's. */
void sc_train_console_open(sc_train_console *console, FILE *to, bool is_terminal,
                           const sc_fact_train *train, const sc_train_start *start, double now);
void sc_train_console_step(sc_train_console *console, const sc_train_record *record, double now);
/* Call it after the step that was shown last. */
void sc_train_console_held_out(sc_train_console *console, double loss, double now);
/* Shows that a checkpoint is complete. Call it after the step that was shown last. */
void sc_train_console_state(sc_train_console *console, const sc_save_report *report, double now);
void sc_train_console_close(sc_train_console *console);

#endif
