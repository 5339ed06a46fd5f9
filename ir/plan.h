/* A plan resolved against one function: the constraints that its rules, pins and styles put on each
 * value, before propagation. Filled by the frontend, read by the placement passes. Axes are
 * resolved to sub-axes of module->mesh, dims to leaves, paths to values. */
#ifndef SHARDC_IR_PLAN_H
#define SHARDC_IR_PLAN_H

#include "ir/graph.h"

typedef enum sc_seed_strength {
    /* state already placed by an earlier entry of the plan: takes precedence over everything */
    SC_SEED_FIXED,
    SC_SEED_PIN,    /* pins, inline @axis */
    SC_SEED_OUTPUT, /* `output` rules: take precedence over act rules on entry outputs */
    SC_SEED_STRONG, /* rules and styles */
    SC_SEED_WEAK,   /* `if free` */
    SC_SEED_STORAGE /* storage of a parameter; never affects its uses */
} sc_seed_strength;

/* The constraint of one plan line on one value. */
typedef struct sc_seed {
    sc_value value; /* for a parameter or cache: the result of its `param` or `cache_read` op */
    sc_seed_strength strength;
    uint32_t rule;          /* in module->rules */
    sc_sub_axis_set closed; /* sub-axes on which the value takes only what its pins give it */
    uint32_t split_count;   /* number of leaf dims of the value's type that it splits */
    const sc_split *splits;
} sc_seed;

/* Styles fix which dim of an op is split over an axis, not only the placement of its weight. */
typedef struct sc_lock {
    sc_op_id op;
    sc_dim dim; /* identifies the factor */
    uint8_t sub_axis;
    uint32_t rule;
} sc_lock;

/* A `form` line on one op. It decides once everything else has: where lines have split the op over
 * sub-axes of the form, these sub-axes split the form's dims instead. */
typedef struct sc_form_seed {
    sc_op_id op;
    uint32_t form; /* sc_form_id (ir/ops/forms.h) */
    uint32_t rule;
    uint32_t split_count;
    const sc_split *splits; /* of dims that the form allows; of SC_NONE: it splits nothing */
} sc_form_seed;

typedef struct sc_seeds {
    SC_VEC(sc_seed) list; /* in the order of plan lines, then in function order */
    SC_VEC(sc_lock) locks;
    SC_VEC(sc_form_seed) forms;
    double call_cost; /* `tune`: cost of one call, in bytes */
    double capacity;  /* `tune`: slots for rows of experts, in even shares; 0: the default */
} sc_seeds;

#endif
