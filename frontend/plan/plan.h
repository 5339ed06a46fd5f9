/* Plans: first what is needed to build a program (mesh, sizes, dtypes), then the rules resolved
 * against the built function. */
#ifndef SHARDC_FRONTEND_PLAN_PLAN_H
#define SHARDC_FRONTEND_PLAN_PLAN_H

#include "frontend/declare/path_match.h"
#include "frontend/elaborate/build.h"
#include "ir/pipeline/pipeline.h"
#include "ir/plan.h"
#include "ir/train.h"

/* Command-line additions to a plan. */
typedef struct sc_plan_options {
    sc_binding_list binds;    /* --bind */
    sc_binding_list defaults; /* sizes for dims that neither the plan nor --bind gives a size */
    sc_binding_list mesh;     /* --mesh: axis and size */
    uint64_t ranks;           /* for `auto` axes; 0: unknown */
    double capacity;          /* instead of the plan's `tune capacity`; 0: none */
    bool allow_padding;
    const sc_refused_schedules *refused; /* that `schedule = auto` does not take; NULL: none */
} sc_plan_options;

typedef struct sc_resolved_plan sc_resolved_plan;

/* Evaluates mesh, bind, precision, tune, accumulate .. of a plan (NULL: no plan, one device) and
 * checks the names in each line. Returns NULL after errors that leave nothing usable. */
sc_resolved_plan *sc_plan_resolve(sc_declarations *program, const sc_plan *plan,
                                  const sc_plan_options *options);

/* True if an axis of the plan is `auto` and --mesh does not give its size, so that the number of
 * ranks determines it. */
bool sc_plan_has_auto(sc_context *context, const sc_plan *plan, const sc_plan_options *options);

/* Collects the sizes for one entry: `bind`s of the plan for all entries, then those `in` this
 * entry, then those of the command line. */
void sc_plan_bindings(const sc_resolved_plan *plan, sc_sym entry, sc_binding_list *out);
/* Returns the dtype of a kind for the tensor at `path`. More specific precision lines win, then
 * later ones; f32 by default. `user` is the plan. */
sc_dtype sc_plan_dtype_of(void *user, sc_tensor_kind kind, sc_sym path);
/* Returns the number of micro-batches of a step and the dim they split: `accumulate`'s times
 * `stage`'s; 1 and 0 without both. */
int64_t sc_plan_micro_batches(const sc_resolved_plan *plan, sc_sym *dim);
/* "stage" or "accumulate": the line that splits the batch. */
const char *sc_plan_micro_batch_word(const sc_resolved_plan *plan);
/* Collects the sizes with which one micro-batch of a train step is built. Returns false after
 * reporting an error: the number of micro-batches does not divide the dim, or the dim has no size
 * of its own. */
bool sc_plan_train_bindings(sc_resolved_plan *plan, sc_sym entry, sc_binding_list *out);
/* Returns the micro-batches of the plan's pipeline; 1 without stages. */
uint32_t sc_plan_staged_batches(const sc_resolved_plan *plan);
/* Collects the sizes with which one micro-batch of an entry that is not trained is built, from the
 * entry as built with the whole batch: it runs forward through the same stages. *count: the number
 * of micro-batches; 1, and no sizes, without stages or if no input has the dim that they split.
 * Returns false after reporting an error, as above. */
bool sc_plan_forward_bindings(sc_resolved_plan *plan, sc_sym entry, const sc_module *whole,
                              sc_func_id func, sc_binding_list *out, uint32_t *count);
/* Location of an axis in the mesh declaration. */
sc_loc sc_plan_axis_loc(const sc_resolved_plan *plan, uint32_t axis);
/* True if a line of the plan or an @axis of the model uses the axis and no `stage` line does. */
bool sc_plan_splits_over(const sc_resolved_plan *plan, uint32_t axis);
/* True if earlier lines make this one redundant. */
bool sc_plan_repeats_line(const sc_resolved_plan *plan, const sc_plan_stmt *stmt);
/* Returns the entry used without --entry: the minimised one if its dims are bound, else the only
 * bound one. 0 after an error that lists them. */
sc_sym sc_plan_default_entry(sc_declarations *program, const sc_resolved_plan *plan, sc_sym model);

/* Sets module->mesh and module->rules, and turns every rule, pin, style and inline @axis into seeds
 * and locks on the values of the built function. In the mesh, axes are split into sub-axes where
 * composites need it; axes of size one remain. Reports lines that match nothing, sizes that do not
 * divide, and pins and styles that do not fit. `fixed` (may be NULL) is a module whose state was
 * placed for the plan's default entry: parameters and caches keep those placements. */
bool sc_plan_seed(sc_resolved_plan *plan, sc_module *m, const sc_build_result *built,
                  const sc_module *fixed, sc_seeds *seeds);

/* Evaluates the minimize statement and the plan's training lines for its entry as built (training =
 * true, with the sizes above), before conversion to a train step. Returns false after reporting
 * errors. */
bool sc_plan_training(sc_resolved_plan *plan, const sc_minimize *minimize, sc_module *m,
                      const sc_build_result *built, sc_training *out);

/* Cuts an entry, as built and before differentiation, into the stages of the plan's `stage` line.
 * out->schedule is NULL if there are none: no such line, or its axis has one rank. Returns false
 * after reporting errors. Linear in the ops, times the log of the number of instances. */
bool sc_plan_pipeline(sc_resolved_plan *plan, sc_module *m, const sc_build_result *built,
                      sc_pipeline *out);
/* Adds the plan's `offload` lines to the rules of a built module, which has none yet: rule k is the
 * k-th. Marks the parameters that they keep in host memory; of several lines the first does. */
void sc_plan_offload_params(sc_resolved_plan *plan, sc_module *m, sc_sym entry);

/* Formats a `shard`, `pin`, `style`, `form`, `offload` or `expect` line in canonical form without
 * its semicolon; for `shard` and `expect` without the first word. Allocated in the arena. */
const char *sc_plan_line_text(sc_context *context, const sc_plan_stmt *stmt);

/* ---- sizes of axes ---- */
/* One size of a mesh axis over a dim. */
typedef struct sc_legal_size {
    uint32_t axis;
    int64_t local; /* size of the dim on one rank, padding included */
    int64_t major; /* composites: size of the major part on one rank; else 0 */
    /* composites: number of ranks with the same entries of the major part; else 1 */
    uint32_t replicated;
    uint32_t multiple; /* multiple to pad to; 0: the axis divides the size */
    int64_t padded;    /* the padded size, or the size */
} sc_legal_size;

typedef struct sc_legal {
    int64_t size; /* of the dim in this function; 0: it has no such dim */
    bool composite;
    sc_dim major;      /* composites: the major part; else SC_NONE */
    bool never_padded; /* a composite, or a part of one */
    /* ascending; pads: powers of two and the plan's axes that do not divide the size, unless
     * never_padded */
    SC_VEC(sc_legal_size) fits, pads;
} sc_legal;

/* True if the program has the dim; otherwise reports an error with the nearest name and returns
 * false. */
bool sc_plan_check_dim(sc_resolved_plan *plan, const sc_name *dim);
/* Lists the sizes that one mesh axis over a dim of a built function may have, by the rules that
 * apply to the plan's own lines. */
void sc_plan_legal_sizes(sc_resolved_plan *plan, sc_module *m, const sc_build_result *built,
                         sc_sym dim, sc_legal *out);

/* ---- contracts ---- */
typedef enum sc_expect_kind {
    SC_EXPECTS_COUNT,
    SC_EXPECTS_BYTES,
    SC_EXPECTS_MEMORY
} sc_expect_kind;

/* One `expect` line, checked but not evaluated. */
typedef struct sc_expect {
    sc_expect_kind kind;
    sc_sym op;              /* COUNT: all_gather, .. */
    bool any_axis;          /* COUNT, BYTES: `any`; otherwise exactly `axes` */
    uint32_t axes;          /* one bit per axis of the mesh */
    sc_sym phase;           /* forward, recompute, backward, update; 0: all */
    bool exactly;           /* ==; otherwise <= */
    int64_t count;          /* COUNT */
    double bytes;           /* BYTES, MEMORY */
    const sc_path_list *in; /* COUNT: must hold for each instance; empty: for the whole program */
    const char *text;       /* e.g. count(all_gather, tp, forward) == 2 in layers */
    sc_loc loc;
} sc_expect;
typedef SC_VEC(sc_expect) sc_expect_list;

void sc_plan_expects(const sc_resolved_plan *plan, sc_expect_list *out);
/* Returns the plan's least `expect memory() <= n` if it has stages with `schedule = auto`, which
 * takes a schedule that fits; else NULL. */
const sc_expect *sc_plan_memory_to_fit(const sc_resolved_plan *plan);

/* Settings of `tune` lines. They never change results; rows without room are an error. */
typedef struct sc_plan_tuning {
    double bucket;    /* bytes */
    double prefetch;  /* units ahead */
    double call_cost; /* cost of a call, in bytes */
    double capacity;  /* slots for rows of experts, in even shares; 0: the default */
} sc_plan_tuning;
sc_plan_tuning sc_plan_tune(const sc_resolved_plan *plan);

#endif
