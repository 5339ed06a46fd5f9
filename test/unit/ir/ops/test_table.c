/* The columns of the op table: every op has what its other columns ask for, and what a column says
 * of values holds for those that the op's eval function computes. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <string.h>

#include "codegen/lower/internal.h"
#include "ir/ops/fold.h"
#include "support/rng.h"

enum { DRAWS = 200 };

static bool has(int kind, uint32_t traits)
{
    return (sc_ops[kind].traits & traits) != 0;
}

/* Ops on rows of one rank, whose placements verify_rows.c checks. */
static bool is_in_slots(int kind)
{
    return kind == SC_OP_row_slots || kind == SC_OP_pack_rows || kind == SC_OP_unpack_rows ||
           kind == SC_OP_exchange_rows;
}

static void every_op_has_its_columns(void **state)
{
    (void)state;
    const uint32_t bases =
        SC_FUSE_FREE | SC_FUSE_VIEW | SC_FUSE_MAP | SC_FUSE_REDUCE | SC_FUSE_ROOT | SC_FUSE_EXPAND;
    for (int kind = 0; kind < SC_OP_COUNT; kind++) {
        const sc_op_row *row = &sc_ops[kind];
        const sc_op_function_row *functions = &sc_op_functions[kind];
        const char *missing = NULL;
        if (row->name == NULL || row->name[0] == 0)
            missing = "name";
        else if (row->operands != SC_ANY && (row->operands < 0 || row->operands > 6))
            missing = "in";
        else if (functions->roles == NULL && !has(kind, SC_RESHARD | SC_EFFECT) &&
                 !sc_op_copies_memory((sc_op_kind)kind) && !is_in_slots(kind))
            missing = "roles";
        else if (functions->eval == NULL &&
                 !has(kind,
                      SC_FROM_OUTSIDE | SC_STATE_READ | SC_RESHARD | SC_COLLECTIVE | SC_EFFECT) &&
                 !sc_op_copies_memory((sc_op_kind)kind))
            missing = "eval";
        else if ((row->fuse & SC_FUSE_EXPAND) != 0 && functions->expand == NULL)
            missing = "expand";
        else if ((functions->flops != NULL) !=
                 (row->bound == SC_BOUND_contracted || has(kind, SC_ATTENDS)))
            missing = "flops";
        else if (row->bound == SC_BOUND_any && has(kind, SC_EXACT))
            missing = "bound";
        else if ((row->bound == SC_BOUND_value || row->bound == SC_BOUND_position) &&
                 functions->derive != NULL && !has(kind, SC_RESIZES))
            missing = "bound";
        else if (row->picks != 0 && row->operands == 0)
            missing = "picks";
        else if (has(kind, SC_VIEW | SC_RESHARD | SC_CONVERTS) && !sc_op_picks((sc_op_kind)kind, 0))
            missing = "picks";
        else if (row->ids != 0 && !has(kind, SC_CHECKS_INTEGERS))
            missing = "ids";
        else if ((row->fuse & bases & ((row->fuse & bases) - 1)) != 0)
            missing = "fuse";
        else if (has(kind, SC_ELEMENTWISE) && (row->fuse & bases) == 0)
            missing = "fuse";
        if (missing != NULL)
            fail_msg("the row of '%s' in ops.def is wrong or lacks something in column '%s'",
                     row->name, missing);
    }
}

/* What enters kernels is lowered by a row of lowering.def or a FUNCTION of nodes.def. */
static void every_op_of_kernels_is_lowered(void **state)
{
    (void)state;
    const uint32_t lowered =
        SC_FUSE_FREE | SC_FUSE_VIEW | SC_FUSE_MAP | SC_FUSE_REDUCE | SC_FUSE_ROOT;
    for (int kind = 0; kind < SC_OP_COUNT; kind++) {
        const sc_lower_row *row = &sc_lower_rows[kind];
        bool is_lowered = row->lower != NULL || row->root != NULL || row->node != SC_NODE_constant;
        if ((sc_ops[kind].fuse & lowered) != 0 && !is_lowered)
            fail_msg("'%s' is fused into kernels and has no lowering", sc_ops[kind].name);
    }
}

/* ---- values ---- */

/* Elementwise ops of numbers, which need no more than their operands. */
static bool is_function(int kind)
{
    return sc_ops[kind].language != SC_LANGUAGE_no ||
           (has(kind, SC_ELEMENTWISE) && has(kind, SC_EXACT) && sc_ops[kind].operands > 1);
}

static void results_keep_their_bound(void **state)
{
    (void)state;
    uint32_t checked = 0;
    uint64_t drawn = 0;
    for (int kind = 0; kind < SC_OP_COUNT; kind++) {
        const sc_op_row *row = &sc_ops[kind];
        for (int i = 0; i < DRAWS && is_function(kind) && row->bound != SC_BOUND_any; i++) {
            double x[3], largest = 1, sum = 0, product = 1;
            for (int k = 0; k < row->operands; k++) {
                x[k] = floor(40 * sc_rng_uniform(7, 0, drawn++)) - 20;
                x[k] += x[k] == 0; /* divisors */
                largest = fmax(largest, fabs(x[k]));
                sum += fabs(x[k]);
                product *= fabs(x[k]);
            }
            double bound = row->bound == SC_BOUND_largest      ? largest
                           : row->bound == SC_BOUND_multiplied ? product
                                                               : sum;
            double y = sc_op_fold((sc_op_kind)kind, x, (uint32_t)row->operands, NULL, 0);
            if (fabs(y) > bound)
                fail_msg("%s(%g, ..) is %g and not within its bound, %g", row->name, x[0], y,
                         bound);
            bool is_picked = row->picks == 0;
            for (int k = 0; k < row->operands; k++)
                is_picked = is_picked || (sc_op_picks((sc_op_kind)kind, (uint32_t)k) && y == x[k]);
            if (!is_picked)
                fail_msg("%s(%g, ..) is %g, which is none of its operands", row->name, x[0], y);
            checked++;
        }
    }
    assert_true(checked > 20 * DRAWS);
}

static void integers_fold_as_numbers_do(void **state)
{
    (void)state;
    uint32_t checked = 0;
    for (int kind = 0; kind < SC_OP_COUNT; kind++) {
        for (int64_t a = -9; a <= 9; a++) {
            for (int64_t b = -9; b <= 9; b++) {
                int64_t exact;
                if (!sc_op_fold_integers((sc_op_kind)kind, a, b, &exact))
                    continue;
                double y =
                    sc_op_fold((sc_op_kind)kind, (double[]){(double)a, (double)b}, 2, NULL, 0);
                if (y != (double)exact)
                    fail_msg("%s(%d, %d) is %g and folds to %d", sc_ops[kind].name, (int)a, (int)b,
                             y, (int)exact);
                checked++;
            }
        }
    }
    assert_true(checked > 5 * 19 * 19);
}

static void constants_fold_by_evaluation(void **state)
{
    (void)state;
    const double x = 0.75, y = -2.5;
    const struct {
        sc_op_kind kind;
        double value;
    } rows[] = {
        {SC_OP_neg, -x},       {SC_OP_exp, exp(x)},     {SC_OP_rsqrt, 1 / sqrt(x)},
        {SC_OP_tanh, tanh(x)}, {SC_OP_erf, erf(x)},     {SC_OP_silu, x / (1 + exp(-x))},
        {SC_OP_add, x + y},    {SC_OP_div, x / y},      {SC_OP_mod, x - y * floor(x / y)},
        {SC_OP_minimum, y},    {SC_OP_maximum, x},      {SC_OP_lt, 0},
        {SC_OP_sign, 1},       {SC_OP_floor, floor(x)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double value = sc_op_fold(rows[i].kind, (double[]){x, y},
                                  (uint32_t)sc_ops[rows[i].kind].operands, NULL, 0);
        if (value != rows[i].value)
            fail_msg("%s folds to %g, not %g", sc_ops[rows[i].kind].name, value, rows[i].value);
    }
    sc_attr exponent = sc_attr_number(SC_ATTR_exponent, 1.5);
    assert_true(sc_op_fold(SC_OP_pow, &x, 1, &exponent, 1) == pow(x, 1.5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_its_columns),
        cmocka_unit_test(every_op_of_kernels_is_lowered),
        cmocka_unit_test(results_keep_their_bound),
        cmocka_unit_test(integers_fold_as_numbers_do),
        cmocka_unit_test(constants_fold_by_evaluation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
