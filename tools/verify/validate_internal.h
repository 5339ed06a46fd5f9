/* Shared by the files of translation validation by interpretation: values that are compared, the
 * run in progress, and comparisons of what two runs left. */
#ifndef SHARDC_TOOLS_VERIFY_VALIDATE_INTERNAL_H
#define SHARDC_TOOLS_VERIFY_VALIDATE_INTERNAL_H

#include "tools/verify/error_bounds.h"
#include "tools/verify/validate.h"
#include "tools/verify/verification_run.h"

typedef enum sc_validate_run { SC_RUN_RANDOM, SC_RUN_INTEGERS, SC_RUN_DTYPES } sc_validate_run;

/* A value with a name. */
typedef struct sc_named {
    sc_sym path;
    uint32_t order; /* position in the function, or in the functions of all stages */
    sc_value value;
} sc_named;
typedef SC_VEC(sc_named) sc_named_list;

/* A named value of the per-rank program, and the values of the global one that it may correspond
 * to: several if the name is assigned repeatedly and some of the values were eliminated. */
typedef struct sc_name_pair {
    sc_named local;
    uint32_t first, count; /* range in the sorted list of the global program */
    uint32_t matched;      /* the one that it equals on random inputs; SC_NONE: unknown */
} sc_name_pair;

typedef struct sc_validation {
    sc_module *global, *local;
    sc_func_id func; /* function that gets random inputs: the entry, or a step's micro-batch */
    sc_func_id last; /* function whose outputs are compared: the entry, or a step's update */
    /* that of the per-rank program: `last`, or the one of the stage that returns the results */
    sc_func_id local_last;
    /* The per-rank program is cut into stages: its functions are other ones than the global
     * program's, and its schedule's calls from `tail` on are the update. */
    bool is_cut;
    uint32_t tail;
    uint32_t micro_batches; /* of a cut program; else 1: inputs are drawn anew for each */
    sc_validate_result *result;
    sc_differences differences;
    sc_random_inputs distributions;
    sc_error_bounds *bounds; /* of the global program, by value of `func` */
    sc_error_bounds *last_bounds;
    bool has_step; /* the schedule has more than one function */
    sc_named_list names;
    SC_VEC(sc_name_pair) pairs;
    uint32_t global_outputs, local_outputs;
    bool has_exact;
    /* the run in progress */
    sc_validate_run kind;
    sc_limit limit; /* of an update alone, after the schedule */
    /* the per-rank program failed: only what it computed until then can be compared */
    bool stopped;
    sc_interp *one, *all;
    /* if casts are applied: the global program without them; else NULL */
    sc_interp *truth;
    sc_sym *input_names;
    sc_array *inputs;                       /* [micro-batch][input] */
    sc_array *expected, *found, *unrounded; /* unrounded: outputs of `truth` */
    bool *kept_global, *kept_local;         /* by value */
} sc_validation;

/* ---- validate_compare.c ---- */
/* Finds the pairs of values to compare, and marks those that the interpreters must keep. */
void sc_validate_pair(sc_validation *v);
/* Compares the kept values of one function of the per-rank program; SC_NONE: of all. */
void sc_validate_values(sc_validation *v, sc_func_id func);
/* Compares the state of each kind that the global program's `func` writes, and state that it leaves
 * unchanged but that the per-rank program writes meanwhile. */
void sc_validate_states(sc_validation *v, sc_func_id func, const sc_error_bounds *bounds);
void sc_validate_outputs(sc_validation *v);

/* ---- validate_run.c ---- */
/* Run one call, with the inputs of its micro-batch. */
bool sc_validate_run_global(sc_validation *v, const sc_call *call, char *error, size_t error_size);
bool sc_validate_run_local(sc_validation *v, const sc_call *call, char *error, size_t error_size);
/* Draws the inputs of a micro-batch; false: out of memory. */
bool sc_validate_draw(sc_validation *v, const sc_random_options *options, int32_t micro_batch);

/* ---- validate_stages.c: per-rank programs that are cut into stages ---- */
/* Checks the schedule, and finds what the validation has to know of it. Returns NULL, or why the
 * programs cannot be compared. */
const char *sc_validate_find_stages(sc_validation *v);
/* Runs the rest of a step, whose first global call has been made, and compares. Returns false if
 * nothing more can be compared. */
bool sc_validate_stages(sc_validation *v, const sc_random_options *options);
/* Runs the calls of the update; false after an error. */
bool sc_validate_run_tail(sc_validation *v, char *error, size_t error_size);

#endif
