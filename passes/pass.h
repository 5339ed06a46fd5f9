/* Passes: functions from a module to a module, with what they need and establish. The verifier runs after each, in every build. */
#ifndef SHARDC_PASSES_PASS_H
#define SHARDC_PASSES_PASS_H

#include "ir/ops/ops.h"
#include "ir/plan.h"
#include "ir/train.h"
#include "passes/placing.h"

/* What passes share besides the module. */
typedef struct sc_pass_env {
    const sc_seeds *seeds;     /* NULL: placements come from the types alone (IR text) */
    const sc_train_step *step; /* NULL: a forward program */
    double bucket;             /* bytes that gradients travelling together add up to; 0: the default */
    uint32_t prefetch;         /* units ahead that parameters are gathered */
    sc_placing *placing;       /* made by store-params or propagate; how each placement was decided */
    struct sc_planner *planner;
    const struct sc_map
        *brought;   /* by insert-reshards: value << 32 | type -> the value in that type, made before any reader; NULL: not known */
    bool no_verify; /* tests that look at broken modules */
} sc_pass_env;

typedef struct sc_pass {
    const char *name;
    bool kernels;                             /* only on the way to kernels */
    uint32_t needs, establishes, invalidates; /* state bits */
    const char *summary;
    bool (*run)(sc_module *m, sc_pass_env *env); /* false after a message */
} sc_pass;

typedef enum sc_pass_id {
#define PASS(id, name, kernels, needs, establishes, invalidates, summary) SC_PASS_##id,
#include "passes/passes.def"
#undef PASS
    SC_PASS_COUNT
} sc_pass_id;

extern const sc_pass sc_passes[SC_PASS_COUNT]; /* in order */

/* NULL when there is none of that name. */
const sc_pass *sc_pass_find(const char *name);
/* Runs one pass, then the verifier. False after messages (a missing state bit is one). */
bool sc_pass_run(sc_module *m, const sc_pass *pass, sc_pass_env *env);
/* Runs the passes up to and including `last` (NULL: all that are not for kernels; those for kernels run when `last` is one). `after` (may
 * be NULL) sees the module after each pass. */
bool sc_pipeline_run(sc_module *m, sc_pass_env *env, const char *last, void (*after)(sc_module *m, const sc_pass *pass, void *user),
                     void *user);

bool sc_run_store_params(sc_module *m, sc_pass_env *env);
bool sc_run_propagate(sc_module *m, sc_pass_env *env);
bool sc_run_defer_reductions(sc_module *m, sc_pass_env *env);
bool sc_run_place_update(sc_module *m, sc_pass_env *env);
bool sc_run_expand_forms(sc_module *m, sc_pass_env *env);
bool sc_run_insert_reshards(sc_module *m, sc_pass_env *env);
bool sc_run_sink_reductions(sc_module *m, sc_pass_env *env);
bool sc_run_lower_reshards(sc_module *m, sc_pass_env *env);
bool sc_run_fold_views(sc_module *m, sc_pass_env *env);
bool sc_run_coalesce(sc_module *m, sc_pass_env *env);
bool sc_run_hoist_gathers(sc_module *m, sc_pass_env *env);
bool sc_run_drop_dead(sc_module *m, sc_pass_env *env);
bool sc_run_add_early(sc_module *m, sc_pass_env *env);
bool sc_run_prefetch(sc_module *m, sc_pass_env *env);
bool sc_run_mask_padding(sc_module *m, sc_pass_env *env);
bool sc_run_localise(sc_module *m, sc_pass_env *env);
bool sc_run_expand_ops(sc_module *m, sc_pass_env *env);
bool sc_run_fuse(sc_module *m, sc_pass_env *env);

#endif
