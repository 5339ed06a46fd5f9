/* The expand functions that rows of ops.def name: an op's definition in terms of others, which is also its sharded form. */
#ifndef SHARDC_IR_EXPAND_H
#define SHARDC_IR_EXPAND_H

#include "ir/ops.h"

typedef void sc_expand_fn(sc_expand *expand);

sc_expand_fn expand_argmax, expand_softmax, expand_log_softmax, expand_logsumexp, expand_xent, expand_topk,
    expand_rope;

#endif
