/* Options shared by `shardc` and compiled programs. All options are listed in options.def. */
#ifndef SHARDC_RUNTIME_DRIVE_OPTIONS_H
#define SHARDC_RUNTIME_DRIVE_OPTIONS_H

#include <stdio.h>

#include "support/arguments.h"

typedef struct sc_run_options {
    uint64_t seed;
    bool json, json_diagnostics; /* result, and messages, as JSON */
    bool csv;                    /* result of `schedule` as CSV */
    const char *format_text;     /* as written by the user */
    const char *output, *weights;
    sc_text_list data, eval_data; /* as written: paths.h of runtime/data says what they name */
    const char *field, *eos;      /* of their text; NULL: not given */
    double hold_out;              /* share of the windows; 0: none */
    bool documents;
    sc_named_text_list inputs; /* --input NAME=FILE[:TENSOR] */
    int64_t steps;             /* 0: not given */
    /* scalars of the optimizers: lr=1e-4,decay=0 (runtime/drive/settings.h) */
    const char *set;
    const char *log, *save, *state, *resume;
    const char *host_memory;            /* a folder; NULL: in memory */
    int64_t eval_every;                 /* in steps; 0: not given */
    int64_t state_every, keep, give_up; /* 0: not given */
    bool best, state_async;
    const char *tokenizer, *template; /* a file; the name of a chat template */
    sc_text_list prompts;
    int64_t max_tokens, top_k, stop; /* 0: not given; stop is valid if has_stop */
    /* temperature 0: take the most likely token; top_p 0: no limit */
    double temperature, top_p;
    bool has_stop;
    const char *stop_text; /* as written by the user */
    /* Not options: set by callers that show output while the run goes on. NULL: not shown */
    FILE *text; /* generate: the text of a single prompt as it is generated */
    /* train: a line that is overwritten on a terminal, else one line every ten seconds */
    FILE *progress;
} sc_run_options;

/* Rows of options that set fields of sc_run_options, for a table of support/arguments.h. */
extern const sc_option_row sc_run_option_rows[];
extern const uint32_t sc_run_option_count;

/* Which options require or exclude others, for sc_command_line. */
extern const sc_option_relation sc_option_relations[];
extern const uint32_t sc_option_relation_count;

/* Reports --format csv, for commands that do not write it, and returns false. */
bool sc_run_check_format(sc_context *context, const sc_run_options *options);

#endif
