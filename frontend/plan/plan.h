/* A plan: first what is needed before a program can be built (mesh, sizes, dtypes), then its rules resolved against the built function. */
#ifndef SHARDC_FRONTEND_PLAN_PLAN_H
#define SHARDC_FRONTEND_PLAN_PLAN_H

#include "frontend/declare/path_match.h"
#include "frontend/elaborate/build.h"
#include "ir/plan.h"
#include "ir/train.h"

/* What the command line adds to a plan. */
typedef struct sc_plan_options {
    sc_binding_list binds;    /* --bind */
    sc_binding_list defaults; /* sizes for dims to which neither the plan nor --bind gives one */
    sc_binding_list mesh;     /* --mesh: axis and size */
    uint64_t ranks;           /* for `auto` axes; 0: not known */
    bool allow_padding;
} sc_plan_options;

typedef struct sc_resolved_plan sc_resolved_plan;

/* Evaluates mesh, bind, precision, tune, accumulate .. of a plan (NULL: no plan, one device). Checks each line's names. Statements that
 * this version does not compile report not_compiled at their line (stage, pad, accumulate > 1 only where an entry is trained, offload,
 * reshard.., each only if it would change what the requested function does). NULL after errors that leave nothing to work with. */
sc_resolved_plan *sc_plan_resolve(sc_declarations *program, const sc_plan *plan, const sc_plan_options *options);

/* Whether an axis of the plan is `auto`, and no --mesh gives its size: then the number of ranks decides it. */
bool sc_plan_has_auto(sc_context *context, const sc_plan *plan, const sc_plan_options *options);

/* Sizes for one entry: the plan's `bind`s for all, then those `in` this entry, then the command line's. */
void sc_plan_bindings(const sc_resolved_plan *plan, sc_sym entry, sc_binding_list *out);
/* dtype of a kind for the tensor at `path`: precision lines, later and more specific ones win; f32 else. `user` is the plan. */
sc_dtype sc_plan_dtype_of(void *user, sc_tensor_kind kind, sc_sym path);
/* In how many micro-batches a step is made and which dim they split; 1 and 0 without `accumulate`. */
int64_t sc_plan_micro_batches(const sc_resolved_plan *plan, sc_sym *dim);
/* The sizes that one micro-batch of a train step is built with. False after a message: the micro-batches do not divide their dim, or it
 * has no size of its own. */
bool sc_plan_train_bindings(sc_resolved_plan *plan, sc_sym entry, sc_binding_list *out);
/* Where the mesh declares an axis. */
sc_loc sc_plan_axis_loc(const sc_resolved_plan *plan, uint32_t axis);
/* Whether a line of the plan names it, or an @axis of the model, to split tensors over it: not for stages alone. */
bool sc_plan_splits_over(const sc_resolved_plan *plan, uint32_t axis);
/* Whether earlier lines say all that this one says. */
bool sc_plan_repeats_line(const sc_resolved_plan *plan, const sc_plan_stmt *stmt);
/* The entry that commands mean without --entry: the minimised one if its dims are bound, else the only bound one; 0 after a message
 * that lists them. */
sc_sym sc_plan_default_entry(sc_declarations *program, const sc_resolved_plan *plan, sc_sym model);

/* Sets module->mesh (axes split into sub-axes where composites need it; axes of size one stay) and module->rules, and turns every rule,
 * pin, style and inline @axis into seeds and locks for the values of the built function. Reports what matches nothing, what does not
 * divide, pins and styles that do not fit. `fixed` (may be NULL) is a module whose state has been placed through the plan's default
 * entry: its parameters and caches keep those placements. */
bool sc_plan_seed(sc_resolved_plan *plan, sc_module *m, const sc_build_result *built, const sc_module *fixed, sc_seeds *seeds);

/* What the minimize statement and the plan's training lines say of its entry as built (training = true, with the sizes above), before it
 * is made into a train step. False after messages. */
bool sc_plan_training(sc_resolved_plan *plan, const sc_minimize *minimize, sc_module *m, const sc_build_result *built, sc_training *out);

/* A `shard`, `pin`, `style` or `expect` line in canonical form, in the arena, without its semicolon; of `shard` and `expect` what follows
 * the word. */
const char *sc_plan_line_text(sc_context *context, const sc_plan_stmt *stmt);

/* ---- sizes of axes ---- */
/* An axis of this size over a dim. */
typedef struct sc_legal_size {
    uint32_t axis;
    int64_t local;       /* of the dim on one rank; padding included */
    int64_t major;       /* composite: of its major part on one rank, else 0 */
    uint32_t replicated; /* composite: ranks that hold the same entries of the major part, else 1 */
    uint32_t multiple;   /* to be padded to; 0: the axis divides the size */
    int64_t padded;      /* the size then, else the size */
} sc_legal_size;

typedef struct sc_legal {
    int64_t size; /* of the dim in this function; 0: it has no such dim */
    bool composite;
    sc_dim major;                     /* composite: its major part, else SC_NONE */
    bool never_padded;                /* a composite, or a part of one */
    SC_VEC(sc_legal_size) fits, pads; /* ascending; pads: powers of two and the plan's axes that do not divide, unless never_padded */
} sc_legal;

/* Whether the program has the dim; false after a message with the nearest that it has. */
bool sc_plan_check_dim(sc_resolved_plan *plan, const sc_name *dim);
/* What one mesh axis over a dim of a built function may have, decided as for the plan's own lines. */
void sc_plan_legal_sizes(sc_resolved_plan *plan, sc_module *m, const sc_build_result *built, sc_sym dim, sc_legal *out);

/* ---- contracts ---- */
typedef enum sc_expect_kind { SC_EXPECTS_COUNT, SC_EXPECTS_BYTES, SC_EXPECTS_MEMORY } sc_expect_kind;

/* One `expect`, checked and not evaluated. */
typedef struct sc_expect {
    sc_expect_kind kind;
    sc_sym op;              /* COUNT: all_gather, .. */
    bool any_axis;          /* COUNT, BYTES: `any`; else exactly `axes` */
    uint32_t axes;          /* bit per axis of the mesh */
    sc_sym phase;           /* forward, recompute, backward, update; 0: all */
    bool exactly;           /* ==; else <= */
    int64_t count;          /* COUNT */
    double bytes;           /* BYTES, MEMORY */
    const sc_path_list *in; /* COUNT: each instance must hold it; empty: everywhere */
    const char *text;       /* count(all_gather, tp, forward) == 2 in layers */
    sc_loc loc;
} sc_expect;
typedef SC_VEC(sc_expect) sc_expect_list;

void sc_plan_expects(const sc_resolved_plan *plan, sc_expect_list *out);

/* `tune`: choices that never change results. */
typedef struct sc_plan_tuning {
    double bucket;    /* bytes */
    double prefetch;  /* units ahead */
    double call_cost; /* bytes that a call counts for */
} sc_plan_tuning;
sc_plan_tuning sc_plan_tune(const sc_resolved_plan *plan);

#endif
