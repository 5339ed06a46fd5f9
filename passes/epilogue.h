/* Ops that can be fused into the epilogue of a contraction: a bias, an activation, another layout,
 * a sum. */
#ifndef SHARDC_PASSES_EPILOGUE_H
#define SHARDC_PASSES_EPILOGUE_H

#include "ir/graph.h"

/* Facts about the functions before any op is moved. */
typedef struct sc_epilogues {
    const sc_module *m;
    const uint32_t *uses;                   /* by value */
    const uint32_t *index;                  /* by op: its position */
    sc_op_id *first_reader, *second_reader; /* by value: its first two readers; SC_NONE: none */
} sc_epilogues;

sc_epilogues sc_epilogues_of(sc_module *m);

/* Returns the operand through which the op extends a contraction, or an op that already extends
 * one, in a chain whose last op is at `last`; -1: none. No other op may read that operand before
 * the chain has run; if one reads it later, it must be stored. */
int sc_epilogue_operand(const sc_epilogues *e, sc_op_id op, uint32_t last);

#endif
