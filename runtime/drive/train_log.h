/* Logs a training run for programs: one line of JSON per step. For people see train_console.h. */
#ifndef SHARDC_RUNTIME_DRIVE_TRAIN_LOG_H
#define SHARDC_RUNTIME_DRIVE_TRAIN_LOG_H

#include <stdio.h>

#include "runtime/drive/train_state.h"
#include "runtime/drive/trainer.h"

typedef struct sc_train_log {
    sc_context *context;
    const char *path;
    const sc_fact_train *train; /* for the names of metrics */
    FILE *file;                 /* NULL: no --log */
} sc_train_log;

typedef struct sc_train_record {
    uint64_t step; /* from 1 */
    sc_step_result result;
    uint64_t tokens;       /* in the step's batch */
    double seconds, flops; /* of the step; flops of all ranks */
    double waited;         /* of the seconds: for the batch to be read */
    uint64_t data_bytes;   /* of files of tokens that this process read for it */
} sc_train_record;

/* Opens the log. `path` NULL: no file. `append`: a resumed run appends to the file. False after a
 * message. */
bool sc_train_log_open(sc_context *context, const char *path, bool append,
                       const sc_fact_train *train, sc_train_log *log);
/* Append one line each, flushed before the call returns. False after a message. */
bool sc_train_log_step(sc_train_log *log, const sc_train_record *record);
bool sc_train_log_held_out(sc_train_log *log, uint64_t step, double loss);
bool sc_train_log_state(sc_train_log *log, const sc_save_report *report);
void sc_train_log_close(sc_train_log *log);

#endif
