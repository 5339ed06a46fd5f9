/* What may be computed with a contraction's result before it is stored: a bias, an activation, another layout, a sum. */
#ifndef SHARDC_PASSES_EPILOGUE_H
#define SHARDC_PASSES_EPILOGUE_H

#include "ir/graph.h"

/* Of the functions as they were before any op moved. */
typedef struct sc_epilogues {
    const sc_module *m;
    const uint32_t *uses;                   /* by value */
    const uint32_t *index;                  /* by op: where it stands */
    sc_op_id *first_reader, *second_reader; /* by value: the ops that read it first; SC_NONE: there is none */
} sc_epilogues;

sc_epilogues sc_epilogues_of(sc_module *m);

/* The operand of the op through which it continues a contraction, or what continues one, in a chain whose last op stands at `last`. Nobody
 * reads it before the chain has run, but the op; if others do after that, it is to be stored. -1: there is none. */
int sc_epilogue_operand(const sc_epilogues *e, sc_op_id op, uint32_t last);

#endif
