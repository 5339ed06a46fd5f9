/* Builders of language ops, except those that depend on positions (attention_ops.c). Implements the
 * number rules (LANGUAGE 3.1): elementwise ops and reductions get their operands in f32 or f64, dot
 * in the act dtype; ops that only move elements keep the dtype. */
#include <math.h>
#include <string.h>

#include "frontend/elaborate/op.h"
#include "ir/ops/fold.h"

/* ---- elementwise ---- */
static sc_bval_list fold(sc_op_call *c, const sc_bval *x, bool keeps_integers)
{
    double y = sc_op_fold(c->row->kind, &x->number, 1, NULL, 0);
    sc_bval result = keeps_integers && x->is_integer && fabs(y) < 9e15
                         ? sc_build_integer((int64_t)y)
                         : sc_build_number(y);
    result.unknown = x->unknown;
    if (!x->unknown && !isfinite(y))
        return sc_call_error(c, SC_D_bad_operand,
                             sc_build_text(c->f->b, "%s(%g) evaluates to %g, which is not finite",
                                           c->row->name, x->number, y));
    return sc_one_result(c, result);
}

sc_bval_list build_number(sc_op_call *c)
{
    bool needs_float = (sc_ops[c->row->kind].traits & SC_EXACT) == 0;
    sc_bval x = sc_call_value(c, 0);
    if (x.kind == SC_BVAL_NUMBER)
        return fold(c, &x, !needs_float);
    sc_dtype dtype = sc_build_compute_dtype(c->f, c->loc, &x, 1, needs_float);
    if (x.kind == SC_BVAL_NONE || dtype == SC_DTYPE_COUNT)
        return sc_no_results(c);
    if (dtype == SC_DTYPE_bool)
        return sc_call_error(c, SC_D_dtype_mismatch,
                             sc_build_text(c->f->b, "the operand of %s", c->row->name), "bool",
                             "a number");
    sc_value operand = sc_build_as(c->f, c->loc, &x, dtype);
    return sc_one_tensor(c, sc_emit(c->f, c->loc, c->row->kind, &operand, 1, NULL, 0, 0));
}

sc_bval_list build_numbers(sc_op_call *c)
{
    sc_bval a = sc_call_value(c, 0), b = sc_call_value(c, 1);
    return sc_one_result(c, sc_build_binary(c->f, c->loc, c->row->kind, a, b));
}

sc_bval_list build_bools(sc_op_call *c)
{
    sc_value operands[2];
    for (uint32_t i = 0; i < c->row->values; i++)
        operands[i] = sc_call_tensor(c, i);
    return sc_one_tensor(c,
                         sc_emit(c->f, c->loc, c->row->kind, operands, c->row->values, NULL, 0, 0));
}

sc_bval_list build_pow(sc_op_call *c)
{
    sc_bval x = sc_call_value(c, 0), exponent;
    if (!sc_build_constant(c->f, c->values[1], "the exponent of pow", &exponent) ||
        x.kind == SC_BVAL_NONE)
        return sc_no_results(c);
    if (x.kind == SC_BVAL_NUMBER) {
        sc_attr attr = sc_attr_number(SC_ATTR_exponent, exponent.number);
        sc_bval result = sc_build_number(sc_op_fold(c->row->kind, &x.number, 1, &attr, 1));
        result.unknown = x.unknown || exponent.unknown;
        if (!result.unknown && !isfinite(result.number))
            return sc_call_error(
                c, SC_D_bad_operand,
                sc_build_text(c->f->b, "pow(%g, %g) is not finite", x.number, exponent.number));
        return sc_one_result(c, result);
    }
    sc_dtype dtype = sc_build_compute_dtype(c->f, c->loc, &x, 1, true);
    if (dtype == SC_DTYPE_COUNT)
        return sc_no_results(c);
    sc_value operand = sc_build_as(c->f, c->loc, &x, dtype);
    sc_attr attr = sc_attr_number(SC_ATTR_exponent, exponent.unknown ? 1.0 : exponent.number);
    return sc_one_tensor(c, sc_emit(c->f, c->loc, SC_OP_pow, &operand, 1, &attr, 1, 0));
}

sc_bval_list build_where(sc_op_call *c)
{
    sc_value operands[3] = {sc_call_tensor(c, 0)};
    sc_bval choices[2] = {sc_call_value(c, 1), sc_call_value(c, 2)};
    if (operands[0] == SC_NONE || choices[0].kind == SC_BVAL_NONE ||
        choices[1].kind == SC_BVAL_NONE)
        return sc_no_results(c);
    sc_dtype dtype = sc_build_compute_dtype(c->f, c->loc, choices, 2, false);
    for (uint32_t i = 0; i < 2; i++)
        operands[i + 1] =
            dtype == SC_DTYPE_COUNT ? SC_NONE : sc_build_as(c->f, c->loc, &choices[i], dtype);
    return sc_one_tensor(c, sc_emit(c->f, c->loc, SC_OP_where, operands, 3, NULL, 0, 0));
}

sc_bval_list build_cast(sc_op_call *c)
{
    const sc_expr *word = c->values[1];
    sc_bval x = sc_call_value(c, 0);
    sc_dtype dtype;
    if (word->kind != SC_EXPR_NAME)
        return sc_call_error(c, SC_D_bad_argument, "cast takes a value and a dtype: cast(x, f32)");
    const sc_bval *known = sc_build_find_static(c->f, word->name);
    sc_name name = {known != NULL && known->kind == SC_BVAL_WORD ? known->word : word->name,
                    word->loc};
    if (!sc_build_dtype(c->f->b, name, &dtype) || x.kind == SC_BVAL_NONE)
        return sc_no_results(c);
    sc_bval result = sc_bval_tensor(sc_build_as(c->f, c->loc, &x, dtype));
    result.fixed = SC_FIXED_BY_CAST;
    return sc_one_result(c, result);
}

sc_sym sc_call_dropout_seed(const sc_op_call *call)
{
    sc_builder *b = call->f->b;
    uint32_t *count = sc_map_insert(&b->entry.dropouts, call->f->path, 0, NULL);
    return sc_intern_printf(&b->context->names, "%s.dropout%u", sc_name_text(b, call->f->path),
                            (*count)++);
}

sc_bval_list build_dropout(sc_op_call *c)
{
    double p;
    bool known;
    sc_bval x = sc_call_value(c, 0);
    if (sc_call_option(c, "p") == NULL)
        return sc_call_error(c, SC_D_wrong_count, "dropout", "an argument 'p'", "none is given");
    if (!sc_call_number(c, "p", 0, &p, &known) || x.kind == SC_BVAL_NONE)
        return sc_no_results(c);
    if (!(p >= 0 && p < 1))
        return sc_call_error(
            c, SC_D_bad_argument,
            sc_build_text(c->f->b, "dropout takes a probability p with 0 <= p < 1, not %g", p));
    if (!c->f->b->request.training || p == 0)
        return sc_one_result(c, x);
    sc_dtype dtype = sc_build_compute_dtype(c->f, c->loc, &x, 1, true);
    if (dtype == SC_DTYPE_COUNT)
        return sc_no_results(c);
    sc_value operand = sc_build_as(c->f, c->loc, &x, dtype);
    sc_attr attrs[2] = {sc_attr_number(SC_ATTR_p, p),
                        sc_attr_text(SC_ATTR_seed, sc_call_dropout_seed(c))};
    return sc_one_tensor(c, sc_emit(c->f, c->loc, SC_OP_dropout, &operand, 1, attrs, 2, 0));
}

sc_bval_list build_moved(sc_op_call *c)
{
    sc_value operand = sc_call_tensor(c, 0);
    return sc_one_tensor(c, sc_emit(c->f, c->loc, c->row->kind, &operand, 1, NULL, 0, 0));
}

/* ---- contractions and reductions ---- */
/* Checks that the operand has all dims in brackets. The message names the op as it is written. */
static bool has_dims(sc_op_call *c, sc_value value)
{
    sc_builder *b = c->f->b;
    if (value == SC_NONE)
        return false;
    for (uint32_t i = 0; i < c->leaf_count; i++) {
        if (sc_type_find_dim(sc_build_type(b, value), c->leaves[i]) >= 0)
            continue;
        sc_build_error(b, SC_D_missing_dim, c->loc, c->row->name,
                       sc_name_text(b, b->m->dims.data[c->leaves[i]].name),
                       sc_build_shape_text(b, sc_build_type(b, value), false));
        return false;
    }
    return true;
}

sc_bval_list build_dot(sc_op_call *c)
{
    sc_bval values[2] = {sc_call_value(c, 0), sc_call_value(c, 1)};
    sc_value operands[2];
    sc_dtype dtype = c->f->act;
    if (values[0].kind == SC_BVAL_NONE || values[1].kind == SC_BVAL_NONE)
        return sc_no_results(c);
    sc_dtype computed = sc_build_compute_dtype(c->f, c->loc, values, 2, false);
    if (computed == SC_DTYPE_COUNT)
        return sc_no_results(c);
    if (!sc_dtype_is_float(computed))
        dtype = computed;
    for (uint32_t i = 0; i < 2; i++) {
        operands[i] = sc_build_as(c->f, c->loc, &values[i], dtype);
        if (!has_dims(c, operands[i]))
            return sc_no_results(c);
        sc_build_note_fan(c->f->b, operands[i], c->leaves, c->leaf_count);
    }
    sc_attr attr = sc_call_leaves_attr(c, SC_ATTR_dims);
    return sc_one_tensor(c, sc_emit(c->f, c->loc, SC_OP_dot, operands, 2, &attr, 1, 0));
}

/* Returns the operand of a reduction in the dtype it is computed in. */
static sc_value reduced_operand(sc_op_call *c, bool needs_float)
{
    sc_bval x = sc_call_value(c, 0);
    sc_dtype dtype = x.kind == SC_BVAL_NONE
                         ? SC_DTYPE_COUNT
                         : sc_build_compute_dtype(c->f, c->loc, &x, 1, needs_float);
    sc_value operand = dtype == SC_DTYPE_COUNT ? SC_NONE : sc_build_as(c->f, c->loc, &x, dtype);
    return has_dims(c, operand) ? operand : SC_NONE;
}

/* As reduced_operand, for a sum. A sum of bools is a count: it stays f32 under any name; that of
 * what an op fixes as f32 or wider (a loss) keeps its dtype, too. *fixed is set then. */
static sc_value summed_operand(sc_op_call *c, bool needs_float, bool *fixed)
{
    sc_bval x = sc_call_value(c, 0);
    bool counts =
        x.kind == SC_BVAL_TENSOR && sc_build_type(c->f->b, x.value)->dtype == SC_DTYPE_bool;
    *fixed = counts || x.fixed == SC_FIXED_BY_OP;
    sc_dtype dtype =
        counts ? SC_DTYPE_f32 : sc_build_compute_dtype(c->f, c->loc, &x, 1, needs_float);
    sc_value operand = x.kind == SC_BVAL_NONE || dtype == SC_DTYPE_COUNT
                           ? SC_NONE
                           : sc_build_as(c->f, c->loc, &x, dtype);
    return has_dims(c, operand) ? operand : SC_NONE;
}

static sc_value emit_over_dims(sc_op_call *c, sc_value operand)
{
    sc_attr attr = sc_call_leaves_attr(c, SC_ATTR_dims);
    return sc_emit(c->f, c->loc, c->row->kind, &operand, 1, &attr, 1, 0);
}

sc_bval_list build_sum(sc_op_call *c)
{
    bool fixed;
    sc_value operand = summed_operand(c, false, &fixed);
    sc_bval result = sc_bval_tensor(emit_over_dims(c, operand));
    result.fixed = fixed ? SC_FIXED_BY_OP : SC_ROUNDS;
    return sc_one_result(c, result);
}

sc_bval_list build_mean(sc_op_call *c)
{
    bool fixed;
    double size = 1.0;
    sc_value operand = summed_operand(c, true, &fixed);
    sc_value sum = emit_over_dims(c, operand);
    if (sum == SC_NONE)
        return sc_no_results(c);
    for (uint32_t i = 0; i < c->leaf_count; i++)
        size *= (double)sc_build_size(c->f->b, c->leaves[i]);
    sc_value factors[2] = {sum, sc_emit_constant(c->f, c->loc, size > 0 ? 1.0 / size : 1.0,
                                                 sc_build_type(c->f->b, sum)->dtype)};
    sc_bval result = sc_bval_tensor(sc_emit(c->f, c->loc, SC_OP_mul, factors, 2, NULL, 0, 0));
    result.fixed = fixed ? SC_FIXED_BY_OP : SC_ROUNDS;
    return sc_one_result(c, result);
}

sc_bval_list build_reduction(sc_op_call *c)
{
    return sc_one_tensor(c, emit_over_dims(c, reduced_operand(c, false)));
}

sc_bval_list build_normalised(sc_op_call *c)
{
    sc_bval result = sc_bval_tensor(emit_over_dims(c, reduced_operand(c, true)));
    result.fixed = SC_ROUNDS;
    return sc_one_result(c, result);
}

sc_bval_list build_logsumexp(sc_op_call *c)
{
    sc_bval result = sc_bval_tensor(emit_over_dims(c, reduced_operand(c, true)));
    result.fixed = SC_FIXED_BY_OP;
    return sc_one_result(c, result);
}

sc_bval_list build_gather(sc_op_call *c)
{
    sc_value operands[2] = {sc_call_tensor(c, 0), sc_call_tensor(c, 1)};
    if (!has_dims(c, operands[0]) || operands[1] == SC_NONE)
        return sc_no_results(c);
    sc_build_note_fan(c->f->b, operands[0], c->leaves, c->leaf_count);
    sc_attr attr = sc_call_leaves_attr(c, SC_ATTR_dims);
    return sc_one_tensor(c, sc_emit(c->f, c->loc, SC_OP_gather, operands, 2, &attr, 1, 0));
}

sc_bval_list build_xent(sc_op_call *c)
{
    int64_t ignore;
    double smoothing;
    sc_value operands[2] = {sc_call_tensor(c, 0), sc_call_tensor(c, 1)};
    if (!sc_call_integer(c, "ignore", -100, &ignore) ||
        !sc_call_number(c, "smoothing", 0, &smoothing, NULL) || !has_dims(c, operands[0]))
        return sc_no_results(c);
    if (!(smoothing >= 0 && smoothing <= 1))
        return sc_call_error(
            c, SC_D_bad_argument,
            sc_build_text(c->f->b, "smoothing must be between 0 and 1, not %g", smoothing));
    sc_attr attrs[3] = {sc_call_leaves_attr(c, SC_ATTR_dims), sc_attr_int(SC_ATTR_ignore, ignore),
                        sc_attr_number(SC_ATTR_smoothing, smoothing)};
    sc_bval result = sc_bval_tensor(sc_emit(c->f, c->loc, SC_OP_xent, operands, 2, attrs, 3, 0));
    result.fixed = SC_FIXED_BY_OP;
    return sc_one_result(c, result);
}

/* ---- moving elements ---- */
/* Checks that the dim an op introduces is new to its operand, except for the dims it replaces. */
static bool is_new_dim(sc_op_call *c, sc_value operand, sc_dim from, sc_dim to)
{
    sc_builder *b = c->f->b;
    const sc_dim *leaves, *replaced;
    uint32_t count = sc_build_leaves(b, to, &leaves),
             replaced_count = from == SC_NONE ? 0 : sc_build_leaves(b, from, &replaced);
    for (uint32_t i = 0; i < (count == 0 ? 1 : count); i++) {
        sc_dim leaf = count == 0 ? to : leaves[i];
        bool goes = leaf == from;
        for (uint32_t r = 0; r < replaced_count; r++)
            goes = goes || replaced[r] == leaf;
        if (goes || operand == SC_NONE || sc_type_find_dim(sc_build_type(b, operand), leaf) < 0)
            continue;
        sc_build_error(b, SC_D_repeated_dim, c->loc,
                       sc_build_text(b, "the result of %s", c->row->name),
                       sc_name_text(b, b->m->dims.data[leaf].name));
        return false;
    }
    return true;
}

sc_bval_list build_onehot(sc_op_call *c)
{
    sc_value operand = sc_call_tensor(c, 0);
    if (!is_new_dim(c, operand, SC_NONE, c->from[0]))
        return sc_no_results(c);
    sc_attr attr = sc_call_leaves_attr(c, SC_ATTR_dims);
    return sc_one_tensor(c, sc_emit(c->f, c->loc, SC_OP_onehot, &operand, 1, &attr, 1,
                                    sc_build_size(c->f->b, c->from[0])));
}

sc_bval_list build_topk(sc_op_call *c)
{
    sc_value operand = sc_call_tensor(c, 0);
    if (!has_dims(c, operand) || !is_new_dim(c, operand, c->from[0], c->to[0]))
        return sc_no_results(c);
    sc_attr attrs[2] = {sc_call_dim_attr(c, SC_ATTR_dims, c->from[0]),
                        sc_call_dim_attr(c, SC_ATTR_to, c->to[0])};
    sc_value values =
        sc_emit(c->f, c->loc, SC_OP_topk, &operand, 1, attrs, 2, sc_build_size(c->f->b, c->to[0]));
    sc_bval_list list = {sc_arena_array(&c->f->b->context->arena, 2, sizeof *list.data), 2};
    list.data[0] = sc_bval_tensor(values);
    list.data[1] = sc_bval_tensor(values == SC_NONE ? SC_NONE : values + 1);
    return list;
}

sc_bval_list build_slice(sc_op_call *c)
{
    int64_t from;
    sc_value operand = sc_call_tensor(c, 0);
    if (!sc_call_integer(c, "from", 0, &from) || !has_dims(c, operand) ||
        !is_new_dim(c, operand, c->from[0], c->to[0]))
        return sc_no_results(c);
    sc_attr attrs[3] = {sc_call_dim_attr(c, SC_ATTR_dims, c->from[0]),
                        sc_call_dim_attr(c, SC_ATTR_to, c->to[0]), sc_attr_int(SC_ATTR_from, from)};
    return sc_one_tensor(c, sc_emit(c->f, c->loc, SC_OP_slice, &operand, 1, attrs, 3,
                                    sc_build_size(c->f->b, c->to[0])));
}

sc_bval_list build_concat(sc_op_call *c)
{
    sc_bval values[2] = {sc_call_value(c, 0), sc_call_value(c, 1)};
    if (c->to[0] != c->to[1])
        return sc_call_error(
            c, SC_D_bad_argument,
            "concat joins both operands along one dim: concat[A -> E, R -> E](x, y)");
    if (values[0].kind != SC_BVAL_TENSOR || values[1].kind != SC_BVAL_TENSOR)
        return values[0].kind == SC_BVAL_NONE || values[1].kind == SC_BVAL_NONE
                   ? sc_no_results(c)
                   : sc_call_error(c, SC_D_bad_operand,
                                   "concat joins tensors, but one operand is a number");
    sc_dtype a = sc_build_type(c->f->b, values[0].value)->dtype,
             b = sc_build_type(c->f->b, values[1].value)->dtype;
    sc_dtype dtype = a == b ? a : sc_build_compute_dtype(c->f, c->loc, values, 2, false);
    sc_value operands[2] = {SC_NONE, SC_NONE};
    if (dtype != SC_DTYPE_COUNT) {
        for (uint32_t i = 0; i < 2; i++)
            operands[i] = sc_build_as(c->f, c->loc, &values[i], dtype);
    }
    if (!is_new_dim(c, operands[0], c->from[0], c->to[0]) ||
        !is_new_dim(c, operands[1], c->from[1], c->to[0]))
        return sc_no_results(c);
    sc_attr attrs[3] = {sc_call_dim_attr(c, SC_ATTR_dims, c->from[0]),
                        sc_call_dim_attr(c, SC_ATTR_from_dims, c->from[1]),
                        sc_call_dim_attr(c, SC_ATTR_to, c->to[0])};
    return sc_one_tensor(c, sc_emit(c->f, c->loc, SC_OP_concat, operands, 2, attrs, 3,
                                    sc_build_size(c->f->b, c->to[0])));
}

sc_bval_list build_rename(sc_op_call *c)
{
    sc_builder *b = c->f->b;
    sc_value operand = sc_call_tensor(c, 0);
    int64_t from = sc_build_size(b, c->from[0]), to = sc_build_size(b, c->to[0]);
    if (!has_dims(c, operand) || !is_new_dim(c, operand, c->from[0], c->to[0]))
        return sc_no_results(c);
    if (from != to && from != 0 && to != 0)
        return sc_call_error(
            c, SC_D_bad_operand,
            sc_build_text(b, "rename needs equal sizes, but %s is %lld and %s is %lld",
                          sc_name_text(b, b->m->dims.data[c->from[0]].name), (long long)from,
                          sc_name_text(b, b->m->dims.data[c->to[0]].name), (long long)to));
    sc_attr attrs[2] = {sc_call_dim_attr(c, SC_ATTR_dims, c->from[0]),
                        sc_call_dim_attr(c, SC_ATTR_to, c->to[0])};
    return sc_one_tensor(c, sc_emit(c->f, c->loc, SC_OP_rename, &operand, 1, attrs, 2, 0));
}

/* split removes the grouping of a composite's leaves, merge adds it; no elements move. */
sc_bval_list build_regroup(sc_op_call *c)
{
    sc_builder *b = c->f->b;
    bool merges = strcmp(c->row->name, "merge") == 0;
    sc_value operand = sc_call_tensor(c, 0);
    const char *name = sc_name_text(b, b->m->dims.data[c->from[0]].name);
    const sc_dim *parts;
    uint32_t count = sc_build_leaves(b, c->from[0], &parts);
    if (operand == SC_NONE)
        return sc_no_results(c);
    if (count == 0)
        return sc_call_error(
            c, SC_D_bad_operand,
            sc_build_text(b, "%s works on a composite, but %s is a plain dim", c->row->name, name));
    sc_type_info type = *sc_build_type(b, operand);
    int at = sc_type_find_dim(&type, parts[0]);
    bool fits = at >= 0 && (uint32_t)at + count <= type.rank;
    for (uint32_t i = 0; i < count && fits; i++) {
        sc_type_dim *dim = &type.dims[(uint32_t)at + i];
        fits = dim->dim == parts[i] && dim->group == (merges ? SC_NONE : c->from[0]);
        dim->group = merges ? c->from[0] : SC_NONE;
    }
    if (!fits)
        return sc_call_error(
            c, SC_D_bad_operand,
            sc_build_text(
                b,
                merges
                    ? "merge[%s] needs the parts of %s adjacent and in order, but its operand is %s"
                    : "split[%s] needs dim %s, but its operand is %s",
                name, name, sc_build_shape_text(b, sc_build_type(b, operand), false)));
    sc_type result = sc_type_intern(b->m, &type);
    return sc_one_tensor(c,
                         sc_emit_typed(c->f, c->loc, SC_OP_regroup, &operand, 1, NULL, 0, &result));
}
