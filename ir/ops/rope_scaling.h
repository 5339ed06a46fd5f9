/* The frequencies of a rope: theta^(-2i/E) for pair i, scaled as its attribute `scaling` says. */
#ifndef SHARDC_IR_OPS_ROPE_SCALING_H
#define SHARDC_IR_OPS_ROPE_SCALING_H

#include "ir/graph.h"

typedef enum sc_rope_kind {
#define ROPE_SCALING(name, arguments) SC_ROPE_##name,
#include "ir/ops/rope_scaling.def"
#undef ROPE_SCALING
    SC_ROPE_KINDS
} sc_rope_kind;

typedef struct sc_rope_scaling {
    sc_rope_kind kind;
    double theta;
    int64_t pairs;
    const double *args;
    double attention;   /* factor of the cosines and sines */
    double first, past; /* yarn: pairs before `first` keep their frequency, from `past` on it is
                         * divided by the factor, with a linear ramp in between */
    double original;    /* longrope: up to this many positions take the short factors */
} sc_rope_scaling;

/* Names and signatures by kind. */
extern const char *const sc_rope_names[SC_ROPE_KINDS], *const sc_rope_arguments[SC_ROPE_KINDS];

/* Reads the scaling of a rope with these attributes and so many pairs (0: not known yet, then only
 * the name is checked). Returns NULL, or what is wrong with its attributes as text. */
const char *sc_rope_scaling_of(const sc_module *m, const sc_attr *attrs, uint32_t attr_count,
                               int64_t pairs, sc_rope_scaling *out);
/* Returns the frequency of a pair; `is_long`: of longrope, beyond the original length. */
double sc_rope_frequency(const sc_rope_scaling *scaling, int64_t pair, bool is_long);

#endif
