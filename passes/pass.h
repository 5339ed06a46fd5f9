/* Passes: transformations of a module with the states they need and establish. The verifier runs
 * after each, in every build. */
#ifndef SHARDC_PASSES_PASS_H
#define SHARDC_PASSES_PASS_H

#include "ir/ops/ops.h"
#include "ir/plan.h"
#include "ir/train.h"
#include "passes/placing.h"

/* Data that passes share in addition to the module. */
typedef struct sc_pass_env {
    const sc_seeds *seeds;              /* NULL: placements come from types only (IR text) */
    const sc_train_step *step;          /* NULL: a forward program */
    const struct sc_pipeline *pipeline; /* NULL: no stages */
    const struct sc_batches *batches;   /* of an entry in stages; NULL: it runs as one */
    double bucket;     /* bytes of gradients to reduce in one call; 0: the default */
    uint32_t prefetch; /* number of FSDP units ahead that parameters are gathered */
    /* created by store-params or propagate; how each placement was decided */
    sc_placing *placing;
    struct sc_planner *planner;
    const struct sc_map *brought; /* filled by insert-reshards: value << 32 | type -> the value
                                     resharded to that type before any reader; NULL: unknown */
    bool cheap_functions;         /* of the target, as reading_costs.h says */
    bool no_verify;               /* for tests with invalid modules */
} sc_pass_env;

typedef struct sc_pass {
    const char *name;
    bool kernels;                             /* runs only when generating kernels */
    uint32_t needs, establishes, invalidates; /* state bits */
    const char *summary;
    bool (*run)(sc_module *m, sc_pass_env *env); /* false after reporting errors */
} sc_pass;

typedef enum sc_pass_id {
#define PASS(id, name, kernels, needs, establishes, invalidates, summary) SC_PASS_##id,
#include "passes/passes.def"
#undef PASS
    SC_PASS_COUNT
} sc_pass_id;

extern const sc_pass sc_passes[SC_PASS_COUNT]; /* in execution order */

/* Returns the pass of that name, or NULL. */
const sc_pass *sc_pass_find(const char *name);
/* Runs one pass, then the verifier. False after reporting errors, such as a missing state bit. */
bool sc_pass_run(sc_module *m, const sc_pass *pass, sc_pass_env *env);
/* Runs the passes up to and including `last`. NULL: all except kernel passes, which run only if
 * `last` is one. `after` (may be NULL) is called with the module after each pass. */
bool sc_pipeline_run(sc_module *m, sc_pass_env *env, const char *last,
                     void (*after)(sc_module *m, const sc_pass *pass, void *user), void *user);

#define PASS(id, name, kernels, needs, establishes, invalidates, summary)                          \
    bool sc_run_##id(sc_module *m, sc_pass_env *env);
#include "passes/passes.def"
#undef PASS

#endif
