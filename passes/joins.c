/* Proves from the roles and traits in the op table how the results of micro-batches make those of
 * the whole batch. Unlike the objective of a step (passes/separable.c), they must be equal to those
 * of the entry run at once, so sums and means are told apart:
 *
 *   rows    has the batch dim, and each row depends only on that row of the inputs
 *   scaled  the mean of the micro-batches, times count^degree. Degree 1 is their sum, 0 their mean.
 *           A number is scaled: the same number with degree 0; the size of the batch has degree 1,
 *           1 / size has -1, which is what makes a sum a mean
 *   mixed   anything else; the op that first mixes rows is recorded
 *
 * The degree of a number is found by comparing the entry built with both sizes. */
#include "passes/joins.h"

#include <math.h>

#include "passes/separable.h"

typedef enum joint { ROWS, SCALED, MIXED } joint;

typedef struct value_class {
    uint8_t of;     /* joint */
    bool is_number; /* SCALED: equal in all micro-batches */
    int8_t degree;  /* SCALED: -1, 0, 1 */
    sc_op_id by;    /* MIXED: the op that first mixed rows */
} value_class;

typedef struct joining {
    const sc_join_request *r;
    value_class *of;    /* by value of `part` */
    const sc_op *whole; /* the op of `whole` that corresponds to the one at hand */
} joining;

static value_class scaled(int degree, bool is_number)
{
    bool is_kept = degree >= (is_number ? -1 : 0) && degree <= 1;
    return (value_class){is_kept ? SCALED : MIXED, is_number, (int8_t)degree, SC_NONE};
}

static const value_class mixed = {.of = MIXED, .by = SC_NONE};

/* ---- numbers ---- */

/* Attributes that say a number, which may depend on sizes; no other may. */
static bool is_same_but_for_number(const sc_op *op, const sc_op *whole, double *part, double *all)
{
    bool is_same = op->kind == whole->kind && op->operand_count == whole->operand_count &&
                   op->result_count == whole->result_count && op->attr_count == whole->attr_count,
         is_constant = sc_op_has(op, SC_CONSTANT);
    *part = *all = 0;
    for (uint32_t i = 0; is_same && i < op->attr_count; i++) {
        const sc_attr *mine = &op->attrs[i], *other = &whole->attrs[i];
        if (is_constant && mine->key == SC_ATTR_value && other->key == SC_ATTR_value) {
            *part = mine->number;
            *all = other->number;
        } else
            is_same = sc_attr_equal(mine, other);
    }
    return is_same;
}

/* Numbers computed in another order differ in their last bits. */
static bool is_near(double a, double b)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-13 * fabs(a);
}

static value_class of_number(const joining *j, double part, double all)
{
    double count = j->r->count;
    return is_near(part, all)           ? scaled(0, true)
           : is_near(part * count, all) ? scaled(1, true)
           : is_near(part / count, all) ? scaled(-1, true)
                                        : mixed;
}

/* ---- ops ---- */

/* Linear: all are sums or constant multiples of the size, or all are means or numbers. */
static value_class of_linear(const joining *j, const sc_op *op)
{
    const value_class first = j->of[op->operands[0]];
    bool is_number = true;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const value_class one = j->of[op->operands[i]];
        is_number = is_number && one.is_number;
        if (one.degree != first.degree)
            return mixed;
    }
    return scaled(first.degree, is_number);
}

static bool rounds_to_integer(const joining *j, const sc_op *op)
{
    const sc_module *m = j->r->part;
    return sc_op_has(op, SC_CONVERTS) && !sc_dtype_is_float(sc_type_of(m, op->first_result)->dtype);
}

/* Of an op on sums, means and numbers. */
static value_class of_scaled(const joining *j, const sc_op *op, uint32_t result)
{
    const value_class first = j->of[op->operands[0]];
    uint32_t numbers = 0;
    bool is_plain = true;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const value_class one = j->of[op->operands[i]];
        numbers += one.is_number;
        is_plain = is_plain && one.is_number && one.degree == 0;
    }
    bool has_rows =
        sc_type_find_dim(sc_type_of(j->r->part, op->first_result + result), j->r->batch) >= 0;
    if (is_plain) /* the same in all micro-batches, whatever it computes */
        return has_rows ? (value_class){.of = ROWS} : scaled(0, true);
    if (has_rows || rounds_to_integer(j, op))
        return mixed;
    if (sc_op_has(op, SC_LINEAR) || (op->operand_count == 1 && sc_op_has(op, SC_NAMESAKE)))
        return of_linear(j, op);
    if (sc_op_has(op, SC_BILINEAR) && numbers > 0)
        return scaled(first.degree + j->of[op->operands[1]].degree, numbers == 2);
    const value_class *second = op->operand_count < 2 ? NULL : &j->of[op->operands[1]];
    if (sc_op_has(op, SC_LINEAR_FIRST) && second != NULL && second->is_number &&
        second->degree == 0)
        return scaled(first.degree, first.is_number);
    return mixed;
}

static value_class of_rows(const joining *j, const sc_op *op, uint32_t result)
{
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const value_class one = j->of[op->operands[i]];
        bool fits = one.of == ROWS || (one.is_number && one.degree == 0);
        if (!fits)
            return mixed;
    }
    switch (sc_effect_on_rows(j->r->part, op, result, j->r->batch)) {
    case SC_ROWS_STAY:
        return (value_class){.of = ROWS};
    case SC_ROWS_ADD:
        return scaled(1, false);
    default:
        return mixed;
    }
}

/* Of an op without operands. A constant that has dims counts along them. */
static value_class of_source(const joining *j, const sc_op *op, double part, double all)
{
    bool has_rows = sc_type_find_dim(sc_type_of(j->r->part, op->first_result), j->r->batch) >= 0,
         counts = sc_op_has(op, SC_CONSTANT) && sc_op_attr(op, SC_ATTR_dims) != NULL;
    const value_class number = of_number(j, part, all);
    if (!has_rows)
        return number;
    return counts || sc_op_has(op, SC_STATE_READ) || number.of != SCALED || number.degree != 0
               ? mixed
               : (value_class){.of = ROWS};
}

static value_class of_op(const joining *j, const sc_op *op, uint32_t result)
{
    bool has_rows = false;
    double part, all;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const value_class one = j->of[op->operands[i]];
        has_rows = has_rows || one.of == ROWS;
        if (one.of == MIXED)
            return one;
    }
    if (!is_same_but_for_number(op, j->whole, &part, &all))
        return mixed;
    return op->operand_count == 0 ? of_source(j, op, part, all)
           : has_rows             ? of_rows(j, op, result)
                                  : of_scaled(j, op, result);
}

static void visit(joining *j, sc_op_id id)
{
    const sc_op *op = sc_op_at(j->r->part, id);
    for (uint32_t r = 0; r < op->result_count; r++) {
        value_class found = of_op(j, op, r);
        if (found.of == MIXED && found.by == SC_NONE)
            found.by = id;
        j->of[op->first_result + r] = found;
    }
}

/* ---- results ---- */

static const char *why_not(const joining *j, const sc_op *op)
{
    const sc_module *m = j->r->part;
    return sc_arena_printf(&m->context->arena,
                           "'%s' is no row of %s, nor a sum or a mean over its rows",
                           sc_written(m, op), sc_text(m->context, m->dims.data[j->r->batch].name));
}

const char *sc_find_joins(const sc_join_request *request, uint8_t *joins)
{
    const sc_module *m = request->part;
    joining j = {.r = request};
    j.of = sc_arena_array(&m->context->arena, m->values.count, sizeof *j.of);
    sc_op_id other = request->whole->funcs.data[request->whole_func].first;
    sc_for_each_op (m, request->func, id) {
        if (other == SC_NONE)
            return why_not(&j, sc_op_at(m, id));
        j.whole = sc_op_at(request->whole, other);
        other = j.whole->next;
        visit(&j, id);
    }
    const sc_op *returned = sc_op_at(m, m->funcs.data[request->func].last);
    for (uint32_t i = 0; i < returned->operand_count; i++) {
        const value_class found = j.of[returned->operands[i]];
        if (found.of == MIXED || (found.of == SCALED && found.degree < 0))
            return why_not(&j, found.of == MIXED ? sc_op_at(m, found.by)
                                                 : sc_op_at(m, sc_def(m, returned->operands[i])));
        joins[i] = found.of == ROWS    ? SC_JOIN_ROWS
                   : found.degree == 1 ? SC_JOIN_SUM
                   : found.is_number   ? SC_JOIN_ONE
                                       : SC_JOIN_MEAN;
    }
    return NULL;
}
