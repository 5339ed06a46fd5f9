/* What may be computed with a contraction's result before it is stored: a bias, an activation, another layout, a sum. */
#ifndef SHARDC_PASSES_EPILOGUE_H
#define SHARDC_PASSES_EPILOGUE_H

#include "ir/graph.h"

/* Of the function as it was before any op moved. */
typedef struct sc_epilogues {
    const sc_module *m;
    const uint32_t *uses;  /* by value */
    const uint32_t *index; /* by op: where it stands */
} sc_epilogues;

/* The operand of the op through which it continues a contraction, or what continues one: nobody else reads it. -1: there is none. */
int sc_epilogue_operand(const sc_epilogues *e, sc_op_id op);

#endif
