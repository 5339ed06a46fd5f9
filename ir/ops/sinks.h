/* Attention sinks as elementwise ops on the result of an attend without them. */
#ifndef SHARDC_IR_OPS_SINKS_H
#define SHARDC_IR_OPS_SINKS_H

#include "ir/ops/ops.h"

/* The operands and attributes of an attend but for its sinks. */
typedef struct sc_sinkless {
    sc_value sinks; /* SC_NONE: it has none */
    uint32_t operand_count, attr_count;
    sc_value operands[SC_MAX_FIXED_OPERANDS];
    sc_attr attrs[SC_ATTR_COUNT + 1]; /* with room for one more */
} sc_sinkless;

sc_sinkless sc_without_sinks(sc_module *m, const sc_op *op);

/* A result of attend and the logsumexp of its scores, in f32 or wider. */
typedef struct sc_attended {
    sc_value out, log_sum;
} sc_attended;

/* Adds a sink to the softmax's sum; the result is as wide as the logsumexp. */
sc_attended sc_add_sinks(sc_emitter *e, sc_attended attended, sc_value sinks);
/* Returns the cotangent of the sinks, with a dim for each of the queries: out and log_sum include
 * the sinks. */
sc_value sc_sinks_cotangent(sc_emitter *e, sc_attended attended, sc_value cotangent,
                            sc_value sinks);

#endif
