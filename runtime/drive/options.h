/* What a run is asked to do: the options that `shardc` and compiled programs share. All options are in options.def. */
#ifndef SHARDC_RUNTIME_DRIVE_OPTIONS_H
#define SHARDC_RUNTIME_DRIVE_OPTIONS_H

#include <stdio.h>

#include "support/arguments.h"

typedef struct sc_run_options {
    uint64_t seed;
    bool json, json_diagnostics; /* the result, messages as JSON */
    const char *output, *weights, *data;
    sc_named_text_list inputs; /* --input NAME=FILE[:TENSOR] */
    int64_t steps;             /* 0: not given */
    const char *set;           /* scalars of the optimizers, lr=1e-4,decay=0 (runtime/drive/settings.h) */
    const char *eval_data, *log, *save, *state, *resume;
    int64_t eval_every;                 /* steps; 0: not given */
    int64_t state_every, keep, give_up; /* 0: not given */
    bool best;
    sc_text_list prompts;
    int64_t max_tokens, top_k, stop; /* 0: not given; stop counts when has_stop */
    double temperature, top_p;       /* 0: the most likely token; no limit */
    bool has_stop;
    const char *stop_text; /* as given */
    /* Set by whoever has them, no options: where what would come too late at the end is shown at once. NULL: nowhere */
    FILE *text;     /* generate: a single prompt's, as it is made */
    FILE *progress; /* train: a line that is written over on a terminal, else one every ten seconds */
} sc_run_options;

/* Rows whose fields are in an sc_run_options, for a table of support/arguments.h. */
extern const sc_option_row sc_run_option_rows[];
extern const uint32_t sc_run_option_count;

/* What options need and exclude, for a sc_command_line. */
extern const sc_option_relation sc_option_relations[];
extern const uint32_t sc_option_relation_count;

#endif
