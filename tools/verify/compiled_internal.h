/* What the files of the validation of emitted code share. */
#ifndef SHARDC_TOOLS_VERIFY_COMPILED_INTERNAL_H
#define SHARDC_TOOLS_VERIFY_COMPILED_INTERNAL_H

#include "tools/verify/compiled.h"
#include "tools/verify/error_bounds.h"
#include "tools/verify/runner.h"
#include "tools/verify/verification_run.h"

/* Runs of the interpreter from starts that are off by u: two signs of each number's error are few, but errors have many. A decision (which
 * expert, which of two equal numbers) is one: where one stands upstream of a difference, further runs say whether it is open. They start
 * as far off as the narrowest dtype of the program resolves. */
enum { SC_NEARBY = 2, SC_NEARBY_MOST = 18 };

/* What is compared: a state after a function's last call, or an output of the last function. */
typedef struct sc_compiled_place {
    sc_func_id func;
    uint32_t state; /* of the global program; SC_NONE: an output */
    sc_reach reach;
    sc_compared what;
} sc_compiled_place;

/* One run of everything: a value a place, absent where the run has not come. */
typedef struct sc_compiled_record {
    sc_array *values;
} sc_compiled_record;

typedef struct sc_compiled_check {
    sc_context *context;
    sc_module *global, *local;
    sc_func_id func, last; /* whose inputs are drawn, whose outputs are compared */
    bool has_step;
    const sc_target *target;
    bool is_on_gpus; /* where threads compute nothing */
    sc_compiled_result *result;
    sc_draws draws;
    SC_VEC(sc_type) inputs;
    SC_VEC(sc_compiled_place) places;
    double unit;    /* the largest of what the micro-batch leaves */
    bool decided;   /* something of it hangs on a decision */
    uint32_t nears; /* runs nearby that there are */
    sc_runner *truth, *nearby, *code, *wide;
    sc_compiled_record expected, near[SC_NEARBY_MOST], found, again;
    sc_limit limit;
    sc_draw_options options;
    sc_differences differences;
} sc_compiled_check;

/* c->found against c->expected, within what the runs nearby allow. False: nothing could be compared. */
bool sc_compiled_compare_values(sc_compiled_check *c);
/* Whether something that hangs on a decision differs more than the runs nearby do, as many as there are. */
bool sc_compiled_is_open(const sc_compiled_check *c);
/* c->again against c->found. */
void sc_compiled_compare_bits(sc_compiled_check *c);
/* What the session counted in the whole schedule against sc_comm_report. */
void sc_compiled_compare_traffic(sc_compiled_check *c);
/* What the joined function called, in the one call of it, against its halves. */
void sc_compiled_compare_joined_traffic(sc_compiled_check *c);

#endif
