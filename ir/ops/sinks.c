/* A sink s is one more score in a row's softmax, with no value: with o and l, the result and the
 * logsumexp without it,
 *
 *   o' = o * sigmoid(l - s)        l' = log(exp(l) + exp(s))
 *
 * Its weight is p = exp(s - l'), and that weight's cotangent before the softmax is 0, so that ds =
 * -p * sum(do' o'). The cotangents of q, k and v are those of attend_grad with o' and l' (Dao,
 * "FlashAttention-2", 2023, section 3.1.2). Sinks: Xiao et al., "Efficient Streaming Language
 * Models with Attention Sinks", 2023, equation 2, with a learned score as in OpenAI's gpt-oss.
 *
 * Therefore no kernel of attention and no step of a ring knows of sinks. */
#include "ir/ops/sinks.h"

#include <string.h>

#include "ir/ops/build.h"
#include "ir/ops/expand.h"

sc_sinkless sc_without_sinks(sc_module *m, const sc_op *op)
{
    sc_sinkless out = {.sinks = SC_NONE};
    uint32_t fixed = (uint32_t)sc_ops[op->kind].operands;
    int at = sc_op_operand_called(m, op, "sinks", fixed);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        if ((int)i == at)
            out.sinks = op->operands[i];
        else
            out.operands[out.operand_count++] = op->operands[i];
    }
    for (uint32_t i = 0; i < op->attr_count; i++) {
        sc_attr attr = op->attrs[i];
        if (at >= 0 && attr.key == SC_ATTR_with) {
            sc_sym words[SC_MAX_FIXED_OPERANDS];
            uint32_t count = 0;
            for (uint32_t w = 0; w < attr.count; w++) {
                if (fixed + w != (uint32_t)at)
                    words[count++] = attr.words[w];
            }
            if (count == 0)
                continue;
            attr = sc_attr_words(m, SC_ATTR_with, words, count);
        }
        out.attrs[out.attr_count++] = attr;
    }
    return out;
}

sc_attended sc_add_sinks(sc_emitter *e, sc_attended attended, sc_value sinks)
{
    sc_dtype wide = sc_type_of(e->m, attended.log_sum)->dtype;
    sc_value out = sc_make_cast(e, attended.out, wide), l = attended.log_sum;
    sc_value sink = sc_make_cast(e, sinks, wide);
    sc_value ahead = sc_make2(e, SC_OP_sub, l, sink);
    sc_value share = sc_make1(e, SC_OP_sigmoid, ahead);
    /* a row that is masked has the logsumexp -inf, and its sink is finite */
    sc_value most = sc_make2(e, SC_OP_maximum, l, sink);
    sc_value of_keys = sc_make2(e, SC_OP_sub, l, most);
    sc_value of_sink = sc_make2(e, SC_OP_sub, sink, most);
    of_keys = sc_make1(e, SC_OP_exp, of_keys);
    of_sink = sc_make1(e, SC_OP_exp, of_sink);
    sc_value total = sc_make2(e, SC_OP_add, of_keys, of_sink);
    total = sc_make1(e, SC_OP_log, total);
    out = sc_make2(e, SC_OP_mul, out, share);
    return (sc_attended){out, sc_make2(e, SC_OP_add, total, most)};
}

sc_value sc_sinks_cotangent(sc_emitter *e, sc_attended attended, sc_value cotangent, sc_value sinks)
{
    const sc_type_info out = *sc_type_of(e->m, attended.out),
                       row = *sc_type_of(e->m, attended.log_sum);
    sc_dim own[SC_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; i < out.rank; i++) {
        if (sc_type_find_dim(&row, out.dims[i].dim) < 0)
            own[count++] = out.dims[i].dim;
    }
    sc_value delta = sc_make_cast(e, attended.out, row.dtype);
    sc_value other = sc_make_cast(e, cotangent, row.dtype);
    delta = sc_make2(e, SC_OP_mul, delta, other);
    if (count > 0) {
        sc_attr dims = sc_attr_dims(e->m, SC_ATTR_dims, own, count);
        delta = sc_make_value(e, SC_OP_sum, &delta, 1, &dims, 1);
    }
    sc_value sink = sc_make_cast(e, sinks, row.dtype);
    sc_value behind = sc_make2(e, SC_OP_sub, attended.log_sum, sink);
    behind = sc_make1(e, SC_OP_neg, behind);
    sc_value weight = sc_make1(e, SC_OP_exp, behind);
    sc_value product = sc_make2(e, SC_OP_mul, weight, delta);
    return sc_make1(e, SC_OP_neg, product);
}

/* The definition of an attend by one without sinks, which is its own. */
void expand_attend(sc_expand *expand)
{
    sc_emitter *e = &expand->e;
    const sc_op op = *sc_op_at(e->m, e->before); /* a copy: emitting moves ops */
    sc_sinkless one = sc_without_sinks(e->m, &op);
    if (one.sinks == SC_NONE) {
        sc_op_id same = sc_make_op(e, (sc_op_kind)op.kind, one.operands, one.operand_count,
                                   one.attrs, one.attr_count);
        for (uint32_t r = 0; r < op.result_count; r++)
            expand->results[r] = sc_result(e->m, same, r);
        return;
    }
    if (sc_op_int(&op, SC_ATTR_lse, 0) == 0)
        one.attrs[one.attr_count++] = sc_attr_int(SC_ATTR_lse, 1);
    sc_op_id made = sc_make_op(e, (sc_op_kind)op.kind, one.operands, one.operand_count, one.attrs,
                               one.attr_count);
    sc_attended all = {sc_result(e->m, made, 0), sc_result(e->m, made, 1)};
    all = sc_add_sinks(e, all, one.sinks);
    expand->results[0] = sc_make_cast(e, all.out, sc_type_of(e->m, op.first_result)->dtype);
    expand->results[1] = all.log_sum;
}
