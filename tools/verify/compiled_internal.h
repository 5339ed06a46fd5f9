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
    const sc_batches *batches; /* of an entry that runs as several micro-batches; NULL: none */
    /* that entry with the whole batch, which is then what is right; NULL: other sizes are
     * compared, or there are no micro-batches */
    const sc_module *whole;
    sc_func_id whole_func;
    uint32_t batch_count; /* of the step or the entry */
    sc_dim batch_dim;     /* that they split; SC_NONE */
    bool is_cut;          /* the per-rank program has the functions of stages */
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

/* ---- compiled_values.c ---- */
/* Settles the values that a run starts from: `nearby` numbers the perturbed starts, from 1. */
void sc_compiled_settle(const sc_compiled_check *c, const sc_type_info *type,
                        const sc_distribution *distribution, uint32_t nearby, sc_array *values);
/* Draws the inputs of a micro-batch. */
bool sc_compiled_draw_inputs(sc_compiled_check *c, int32_t micro_batch, uint32_t nearby,
                             sc_array *inputs);
/* Record the states that a function leaves (or `joined`, SC_NONE: none), and outputs, which it
 * takes. */
bool sc_compiled_note_states(sc_compiled_check *c, const sc_runner *runner, sc_func_id func,
                             sc_func_id joined, sc_compiled_record *out);
void sc_compiled_note_outputs(sc_compiled_check *c, sc_array *outputs, uint32_t count,
                              sc_compiled_record *out);
/* ---- compiled_stages.c ---- */
/* Runs the emitted code of stages: a whole step, or an entry. */
bool sc_compiled_run_stages(sc_compiled_check *c, sc_runner *runner, sc_compiled_record *out,
                            char *error, size_t error_size);
/* Runs all micro-batches of an entry in the global program, and joins their results; of c->whole
 * the entry at once. */
bool sc_compiled_run_batches(sc_compiled_check *c, sc_runner *runner, uint32_t nearby,
                             sc_compiled_record *out, char *error, size_t error_size);
/* ---- compiled_compare.c ---- */
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
