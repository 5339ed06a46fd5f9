/* A plan resolved against one function: what its rules, pins and styles say of each value, before anything is propagated. The frontend
 * fills it, the placement passes read it. Axes have become the sub-axes of module->mesh, dims leaves, paths values. */
#ifndef SHARDC_IR_PLAN_H
#define SHARDC_IR_PLAN_H

#include "ir/graph.h"

typedef enum sc_seed_strength {
    SC_SEED_FIXED,  /* state that an earlier entry of the plan has placed: wins over everything */
    SC_SEED_PIN,    /* pins, inline @axis */
    SC_SEED_OUTPUT, /* `output` rules: win over act rules on entry outputs */
    SC_SEED_STRONG, /* rules and styles */
    SC_SEED_WEAK,   /* `if free` */
    SC_SEED_STORAGE /* how a parameter is stored; never moves its uses */
} sc_seed_strength;

/* What one line says of one value. */
typedef struct sc_seed {
    sc_value value; /* for a parameter or cache: the result of its `param` or `cache_read` op */
    sc_seed_strength strength;
    uint32_t rule;          /* in module->rules */
    sc_sub_axis_set closed; /* on these sub-axes the value takes nothing but what its pins say */
    uint32_t split_count;   /* leaf dims of the value's type that it splits */
    const sc_split *splits;
} sc_seed;

/* A style says which dim of an op is split over an axis, not only how its weight is placed. */
typedef struct sc_lock {
    sc_op_id op;
    sc_dim dim; /* names the factor */
    uint8_t sub_axis;
    uint32_t rule;
} sc_lock;

typedef struct sc_seeds {
    SC_VEC(sc_seed) list; /* in the order of the plan's lines; of one line, in function order */
    SC_VEC(sc_lock) locks;
    double call_cost; /* tune: bytes that a call counts for */
} sc_seeds;

#endif
