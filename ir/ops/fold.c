#include "ir/ops/fold.h"

#include <assert.h>

#include "ir/ops/eval.h"

double sc_op_fold(sc_op_kind kind, const double *operands, uint32_t operand_count,
                  const sc_attr *attrs, uint32_t attr_count)
{
    static const sc_type_info scalar = {.dtype = SC_DTYPE_f64};
    double numbers[SC_MAX_FIXED_OPERANDS], result = 0;
    sc_array arrays[SC_MAX_FIXED_OPERANDS];
    sc_op op = {.kind = (uint16_t)kind,
                .attr_count = (uint16_t)attr_count,
                .attrs = (sc_attr *)attrs,
                .operand_count = operand_count,
                .result_count = 1};
    sc_eval eval = {
        .op = &op, .results = {{.count = 1, .data = &result}}, .result_types = {&scalar}};
    assert(operand_count <= SC_MAX_FIXED_OPERANDS && (sc_ops[kind].traits & SC_ELEMENTWISE) != 0);
    for (uint32_t i = 0; i < operand_count; i++) {
        numbers[i] = operands[i];
        arrays[i] = (sc_array){.count = 1, .data = &numbers[i]};
        eval.operands[i] = &arrays[i];
        eval.operand_types[i] = &scalar;
    }
    bool done = sc_op_functions[kind].eval(&eval);
    assert(done);
    (void)done;
    return result;
}

static bool add(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static bool subtract(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_sub_overflow(a, b, out);
}

static bool multiply(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* An inexact quotient is no integer: 1/2 is 0.5. */
static bool divide(int64_t a, int64_t b, int64_t *out)
{
    if (b == 0 || b == -1 || a % b != 0)
        return false;
    *out = a / b;
    return true;
}

/* The remainder has the divisor's sign. */
static bool modulo(int64_t a, int64_t b, int64_t *out)
{
    if (b == 0 || b == -1)
        return false;
    *out = a % b;
    *out += *out != 0 && (*out < 0) != (b < 0) ? b : 0;
    return true;
}

static bool minimum(int64_t a, int64_t b, int64_t *out)
{
    *out = a < b ? a : b;
    return true;
}

static bool maximum(int64_t a, int64_t b, int64_t *out)
{
    *out = a > b ? a : b;
    return true;
}

/* The ops that are exact beyond the integers of f64. */
static bool (*const of_integers[SC_OP_COUNT])(int64_t a, int64_t b, int64_t *out) = {
    [SC_OP_add] = add,         [SC_OP_sub] = subtract, [SC_OP_mul] = multiply,
    [SC_OP_div] = divide,      [SC_OP_mod] = modulo,   [SC_OP_minimum] = minimum,
    [SC_OP_maximum] = maximum,
};

bool sc_op_fold_integers(sc_op_kind kind, int64_t a, int64_t b, int64_t *out)
{
    return of_integers[kind] != NULL && of_integers[kind](a, b, out);
}
