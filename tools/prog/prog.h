/* A compiled program as a command: shared by its verbs. */
#ifndef SHARDC_TOOLS_PROG_H
#define SHARDC_TOOLS_PROG_H

#include "runtime/drive/train.h"
#include "runtime/session/executable.h"

typedef struct sc_prog {
    sc_context *context;
    shardc_executable *program;
    sc_facts facts;
    shardc_session *session; /* NULL until a verb opens it */
    sc_executor *executor;   /* executor of the session */
    const char *command;
    sc_arguments arguments;
    sc_run_options run;
    bool help, version, calibrate, profile, gemms_only, no_graph, tune;
    const char *gemm_cache;              /* a file; NULL: beside the program; "": none */
    int64_t ranks, threads, deadline_ms; /* 0: not given */
    sc_strbuf out;
} sc_prog;

typedef struct sc_prog_verb {
    const char *name;
    void (*run)(sc_prog *prog);
    const char *summary, *example; /* options for an example command line */
} sc_prog_verb;
enum { SC_PROG_VERBS = 6 };

/* Parses the command line and returns its verb. Returns NULL if there is nothing to run: after an
 * error, or with a result in prog->out (--help, --version). */
const sc_prog_verb *sc_prog_parse(sc_prog *prog, const sc_prog_verb *verbs, int argc, char **argv,
                                  int *exit_code);
/* Returns the options of the session as lines for shardc_session_options. */
const char *sc_prog_started_with(sc_prog *prog);

/* Reads the program at the end of this file into prog->program and prog->facts. Returns false after
 * reporting an error. */
bool sc_prog_read(sc_prog *prog);
/* An sc_open_executor; `user` is the sc_prog. */
sc_executor *sc_prog_open(void *user);

/* The verbs. Results are appended to prog->out. */
void sc_prog_info(sc_prog *prog);
void sc_prog_bench(sc_prog *prog);
void sc_prog_tune(sc_prog *prog);

bool sc_prog_fail(sc_prog *prog, sc_diag_id id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
