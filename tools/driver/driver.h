/* Shared by the commands: options, loading, compiling one entry under one plan. A library of its
 * own (sc_driver), so that tests take the same steps as the command line. Never prints or exits. */
#ifndef SHARDC_TOOLS_DRIVER_DRIVER_H
#define SHARDC_TOOLS_DRIVER_DRIVER_H

#include "frontend/plan/plan.h"
#include "ir/batches.h"
#include "passes/memory_report.h"
#include "passes/pass.h"
#include "program/target.h"
#include "runtime/drive/options.h"

typedef struct sc_compiled sc_compiled;

typedef struct sc_options {
    const char *command, *file;
    const char *const *commands; /* names of all commands, for help */
    uint32_t command_count;
    const char *text; /* contents of the file, if it is not on disk */
    size_t text_length;
    const char *plan, *plan_file, *entry; /* NULL: not given; plan "none": one device */
    sc_text_list plans;                   /* every --plan given (diff) */
    sc_text_list rest;                    /* arguments after FILE */
    sc_plan_options plan_options;         /* --bind, --mesh, --allow-padding */
    /* options shared by `shardc` and built programs; verify uses its seed too */
    sc_run_options run;
    bool forward;            /* compile the entry itself, never its train step */
    bool compiled;           /* verify emitted code */
    bool compile;            /* kernels: also compile them */
    bool interpret;          /* run on the interpreter instead of emitted code */
    bool decode, no_special; /* tokenize */
    bool trains; /* compile the train step of a minimised entry even if --entry names it */
    bool fold, full, dtypes;
    const char *after, *dump_dir;
    /* the exact memory of a compiled program, to choose what fits; NULL: the estimate of passes */
    bool (*measure)(sc_context *context, const sc_compiled *c, sc_memory_report *out);
    const char *target;            /* cpu, cuda:sm_90a; NULL: not given */
    const char *device;            /* simulate: h100, or a file; NULL: not given */
    const char *trace;             /* simulate: the file for its intervals; NULL: none */
    const char *map;               /* name of the weights block */
    const char *dtype, *max_shard; /* convert; NULL: not given */
    const char *precision, *check; /* import: of the plans; logits to compare with, or NULL */
    uint64_t ranks;
    bool runs_ranks; /* the command runs the ranks, so --ranks may repeat what the plan says */
} sc_options;

/* A program compiled for one entry and plan. */
struct sc_compiled {
    sc_declarations *program;
    const sc_plan *plan; /* NULL: none */
    sc_resolved_plan *resolved;
    sc_sym model, entry;
    /* the entry that `expect` statements apply to: the minimised one, or the only bound one */
    bool is_default;
    sc_module *global; /* before placement: the reference, without a mesh */
    sc_module *local;  /* after the last pass: the per-rank program */
    const sc_options *options;
    /* the entry, in both modules; in a train step the micro-batch */
    sc_func_id func;
    /* The entry with the whole batch, which is what callers see: `global`, unless it runs as
     * several micro-batches. Then `global` and `local` are of one, with a schedule of all. Of a
     * train step `global` */
    const sc_module *whole;
    sc_func_id whole_func;
    const sc_batches *batches;   /* NULL: it runs as one; */
    const char *why_one;         /* though the plan's pipeline has more, because of this; or NULL */
    const sc_minimize *minimize; /* of a train step; NULL: the entry runs forward only */
    sc_train_step *step, *global_step; /* of `local` and `global`; NULL: forward only */
    sc_build_result built;             /* of `local` */
    sc_pipeline pipeline;              /* of `local`; its schedule is NULL without stages */
    sc_pass_env env;                   /* of `local`: records how placements were decided */
    /* error count before compiling; errors of other plans and entries do not stop this one */
    uint32_t errors_before;
};

/* Reads the file (and --plan-file) and collects declarations. Returns NULL after reporting
 * errors. */
sc_declarations *sc_driver_load(sc_context *context, const sc_options *options);
/* Finds the plan: the one named in the options, else the file's only one, else none (*out NULL).
 * Returns false after reporting errors. */
bool sc_driver_choose_plan(sc_context *context, sc_declarations *program, const sc_options *options,
                           const sc_plan **out);

/* Called with the module after each pass (`pass` NULL: as built). */
typedef void sc_after_pass(sc_module *m, const sc_pass *pass, void *user);

/* Compiles one entry (options->entry, or the default) under a plan. Parameters and caches are first
 * placed for the plan's default entry. `after` may be NULL; `last` is the last pass to run (NULL:
 * all). Returns false after reporting errors. */
bool sc_driver_compile(sc_context *context, sc_declarations *program, const sc_plan *plan,
                       const sc_options *options, sc_after_pass *after, void *user,
                       const char *last, sc_compiled *out);

/* True if rows or choices of rows are in slots of their experts' ranks, so that a step may lack
 * room (`tune capacity`). */
bool sc_has_slots(const sc_module *m);
/* True for the program of a rank that has some of the experts of a routed product only. */
bool sc_splits_experts(const sc_module *m);

/* Returns the target of --target, by default the CPU. NULL after reporting an error. */
const sc_target *sc_driver_target(sc_context *context, const sc_options *options);

/* Loads the file, chooses the plan and compiles: the first steps of most commands. */
bool sc_driver_compile_file(sc_context *context, const sc_options *options, sc_after_pass *after,
                            void *user, const char *last, sc_compiled *out);

/* Chooses an entry as sc_driver_compile does, elaborates it (out->global, before differentiation;
 * no other module) and cuts it into the stages of the plan. pipeline->schedule is NULL if there are
 * none. Returns false after reporting errors. */
bool sc_driver_pipeline(sc_context *context, sc_declarations *program, const sc_plan *plan,
                        const sc_options *options, sc_compiled *out, sc_pipeline *pipeline);

/* Shared by the files of this folder: elaborates an entry, with the sizes of a micro-batch if it is
 * `trained`, otherwise with `sizes` (NULL: those of the whole batch), and cuts it into the
 * stages of the plan. */
sc_module *sc_driver_elaborate(sc_context *context, const sc_compiled *c, sc_sym entry,
                               bool trained, const sc_binding_list *sizes, sc_build_result *built,
                               sc_pipeline *pipeline);
/* Finds whether the entry runs as several micro-batches: sets whole, batches and why_one, and the
 * sizes of one micro-batch. Entries that decide the cut have been elaborated. Returns false after
 * reporting errors. */
bool sc_driver_find_batches(sc_context *context, sc_compiled *c, sc_binding_list *sizes);

/* Compiles the forward entry of a train step under the same plan. */
bool sc_compile_forward(sc_context *context, const sc_compiled *step, const sc_options *options,
                        const char *last, sc_compiled *out);

#endif
