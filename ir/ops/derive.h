/* The derive functions of ops.def: reverse mode, one op at a time. Each emits ops that compute the
 * cotangents of the operands from those of the results. */
#ifndef SHARDC_IR_OPS_DERIVE_H
#define SHARDC_IR_OPS_DERIVE_H

#include "ir/ops/ops.h"

typedef void sc_derive_fn(sc_derive *derive);

sc_derive_fn derive_same, derive_add, derive_sub, derive_mul, derive_div, derive_mod,
    derive_minimum, derive_maximum, derive_neg, derive_abs, derive_exp, derive_log, derive_sqrt,
    derive_rsqrt, derive_sin, derive_cos, derive_tanh, derive_sigmoid, derive_relu, derive_silu,
    derive_gelu, derive_gelu_tanh, derive_erf, derive_pow, derive_where, derive_again, derive_dot,
    derive_max, derive_min, derive_softmax, derive_log_softmax, derive_logsumexp, derive_xent,
    derive_cumsum, derive_gather, derive_topk, derive_rope, derive_attend, derive_last,
    derive_slice, derive_concat, derive_rename;

#endif
