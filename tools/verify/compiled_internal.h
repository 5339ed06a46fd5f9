/* Shared by the files that validate emitted code. */
#ifndef SHARDC_TOOLS_VERIFY_COMPILED_INTERNAL_H
#define SHARDC_TOOLS_VERIFY_COMPILED_INTERNAL_H

#include "tools/verify/compiled.h"
#include "tools/verify/error_bounds.h"
#include "tools/verify/runner.h"
#include "tools/verify/verification_run.h"

/* Interpreter runs from perturbed starts. Two are enough to estimate rounding errors, because there
 * are many errors. A decision (which expert, which of two equal numbers) is a single event: if one
 * is upstream of a difference, further runs, perturbed by the narrowest dtype's resolution,
 * determine whether it is open. */
enum { SC_NEARBY = 2, SC_NEARBY_MOST = 18 };

/* A value to compare: a state after a function's last call, or an output of the last function. */
typedef struct sc_compiled_place {
    sc_func_id func;
    uint32_t state; /* of the global program; SC_NONE: an output */
    sc_error_bounds bounds;
    sc_compared what;
} sc_compiled_place;

/* The result of one whole run: one value per place, absent where the run has not got to it. */
typedef struct sc_compiled_record {
    sc_array *values;
} sc_compiled_record;

typedef struct sc_compiled_check {
    sc_context *context;
    sc_module *global, *local;
    sc_func_id func, last; /* func: gets the random inputs; last: its outputs are compared */
    sc_func_id local_last; /* `last` in the per-rank program, if that is cut: what returns them */
    bool has_step;
    const sc_train_step *step; /* of the per-rank program; NULL: none */
    bool is_cut;               /* the per-rank program has the functions of stages */
    const sc_target *target;
    bool is_on_gpus; /* host threads do not compute there */
    sc_compiled_result *result;
    sc_random_inputs distributions;
    SC_VEC(sc_type) inputs;
    SC_VEC(sc_sym) input_names;
    SC_VEC(sc_compiled_place) places;
    double unit;    /* largest u of the values that the micro-batches leave */
    bool decided;   /* one of these values depends on a decision */
    uint32_t nears; /* number of perturbed runs so far */
    sc_runner *truth, *nearby, *code, *wide;
    sc_compiled_record expected, near[SC_NEARBY_MOST], found, again;
    sc_limit limit;
    sc_random_options options;
    sc_differences differences;
} sc_compiled_check;

/* Compares c->found with c->expected, within the error that the perturbed runs allow. Returns false
 * if nothing could be compared. */
bool sc_compiled_compare_values(sc_compiled_check *c);
/* True if a value that depends on a decision differs by more than the perturbed runs so far
 * allow. */
bool sc_compiled_is_open(const sc_compiled_check *c);
/* Compares c->again with c->found, bit for bit. */
void sc_compiled_compare_bits(sc_compiled_check *c);
/* Compares the session's counts over the whole schedule with sc_comm_report. */
void sc_compiled_compare_traffic(sc_compiled_check *c);
/* The same for a program of stages: over all functions of each stage. */
void sc_compiled_compare_stage_traffic(sc_compiled_check *c);
/* Compares the collectives of one call of the joined function with those of its halves. */
void sc_compiled_compare_joined_traffic(sc_compiled_check *c);

#endif
