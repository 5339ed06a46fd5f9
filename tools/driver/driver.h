/* What the commands share: options, loading, compiling one entry under one plan. A library of its own (sc_driver), so that tests use the
 * same steps as the command line. Nothing here prints or exits. */
#ifndef SHARDC_TOOLS_DRIVER_DRIVER_H
#define SHARDC_TOOLS_DRIVER_DRIVER_H

#include "frontend/plan/plan.h"
#include "passes/pass.h"
#include "program/target.h"
#include "runtime/drive/options.h"

typedef struct sc_options {
    const char *command, *file;
    const char *const *commands; /* all of them: help */
    uint32_t command_count;
    const char *text; /* of the file, when it is not on disk */
    size_t text_length;
    const char *plan, *plan_file, *entry; /* NULL: not given; plan "none": one device */
    sc_text_list plans;                   /* --plan as often as given (diff) */
    sc_text_list rest;                    /* arguments after FILE */
    sc_plan_options plan_options;         /* --bind, --mesh, --allow-padding */
    sc_run_options run;                   /* what `shardc` and built programs both take; its seed is verify's, too */
    bool forward;                         /* the command runs an entry, never its train step */
    bool compiled;                        /* verify emitted code */
    bool compile;                         /* kernels: their code, too */
    bool interpret;                       /* run on the interpreter instead of emitted code */
    bool trains;                          /* the train step of a minimised entry even where --entry names it */
    bool fold, full, dtypes;
    const char *after, *dump_dir;
    const char *target; /* cpu, cuda:sm_90a; NULL: not given */
    const char *map;    /* of weights: the block */
    uint64_t ranks;
    bool runs_ranks; /* the command runs as many, so that --ranks may also say what the plan says */
} sc_options;

/* A program compiled for one entry and plan. */
typedef struct sc_compiled {
    sc_declarations *program;
    const sc_plan *plan; /* NULL: none */
    sc_resolved_plan *resolved;
    sc_sym model, entry;
    bool is_default;   /* the entry that expect statements speak of: the minimised one, or the only bound one */
    sc_module *global; /* before placement: the reference, on no mesh */
    sc_module *local;  /* after the last pass: the per-rank program */
    const sc_options *options;
    sc_func_id func;                   /* the entry, in both; of a train step the micro-batch */
    const sc_minimize *minimize;       /* of a train step; NULL: the entry runs forward only */
    sc_train_step *step, *global_step; /* of `local` and `global`; NULL: forward only */
    sc_build_result built;             /* of `local` */
    sc_pass_env env;                   /* of `local`: how placements were decided */
    uint32_t errors_before;            /* messages of other plans and entries do not stop this one */
} sc_compiled;

/* Reads the file (and --plan-file), collects declarations. NULL after messages. */
sc_declarations *sc_driver_load(sc_context *context, const sc_options *options);
/* The plan that options name, or the file's only one, or none (*out NULL). False after messages. */
bool sc_driver_choose_plan(sc_context *context, sc_declarations *program, const sc_options *options, const sc_plan **out);

/* Sees the module after each pass (`pass` NULL: as built). */
typedef void sc_after_pass(sc_module *m, const sc_pass *pass, void *user);

/* Compiles one entry (options->entry, or the default) under a plan. False after messages. `after` may be NULL; `last` names the last pass
 * to run, NULL all. Parameters and caches are placed through the plan's default entry first. */
bool sc_driver_compile(sc_context *context, sc_declarations *program, const sc_plan *plan, const sc_options *options, sc_after_pass *after,
                       void *user, const char *last, sc_compiled *out);

/* What --target names, the CPU by default. NULL after a message. */
const sc_target *sc_driver_target(sc_context *context, const sc_options *options);

/* Load, choose the plan, compile: what most commands begin with. */
bool sc_driver_compile_file(sc_context *context, const sc_options *options, sc_after_pass *after, void *user, const char *last,
                            sc_compiled *out);

/* The forward entry of a train step, under the same plan. */
bool sc_compile_forward(sc_context *context, const sc_compiled *step, const sc_options *options, const char *last, sc_compiled *out);

#endif
