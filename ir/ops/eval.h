/* The eval functions that rows of ops.def name: one op on one rank, in f64 (see sc_eval in interp.h). */
#ifndef SHARDC_IR_OPS_EVAL_H
#define SHARDC_IR_OPS_EVAL_H

#include "ir/interp/interp.h"

typedef bool sc_eval_fn(sc_eval *eval);

sc_eval_fn eval_constant, eval_index, eval_copy, eval_transpose, eval_cast, eval_add, eval_sub, eval_mul, eval_div, eval_mod, eval_minimum,
    eval_maximum, eval_neg, eval_abs, eval_exp, eval_log, eval_sqrt, eval_rsqrt, eval_sin, eval_cos, eval_tanh, eval_sigmoid, eval_relu,
    eval_silu, eval_gelu, eval_gelu_tanh, eval_relu_grad, eval_silu_grad, eval_gelu_grad, eval_gelu_tanh_grad, eval_erf, eval_floor,
    eval_sign, eval_pow, eval_lt, eval_le, eval_gt, eval_ge, eval_eq, eval_ne, eval_and, eval_or, eval_not, eval_where, eval_mask,
    eval_dropout, eval_dot, eval_sum, eval_max, eval_min, eval_argmax, eval_softmax, eval_log_softmax, eval_logsumexp, eval_xent,
    eval_cumsum, eval_gather, eval_onehot, eval_topk, eval_rope, eval_attend, eval_append, eval_last, eval_slice, eval_concat,
    eval_broadcast, eval_scatter_add, eval_unslice, eval_attend_grad;

#endif
