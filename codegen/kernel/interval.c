/* Interval analysis of integers. A node's interval follows from those of its operands; if the
 * operation may overflow the dtype, it is the dtype's full range. Conditions that hold narrow the
 * nodes that they compare, and thereby all nodes computed from these. */
#include <string.h>

#include "codegen/kernel/access.h"
#include "codegen/kernel/internal.h"

static sc_interval whole(sc_dtype dtype)
{
    switch (dtype) {
    case SC_DTYPE_bool:
        return (sc_interval){0, 1};
    case SC_DTYPE_u8:
        return (sc_interval){0, UINT8_MAX};
    case SC_DTYPE_i32:
        return (sc_interval){INT32_MIN, INT32_MAX};
    default:
        return (sc_interval){INT64_MIN, INT64_MAX};
    }
}

static bool within(sc_interval a, sc_interval b)
{
    return a.low >= b.low && a.high <= b.high;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static sc_interval joined(sc_interval a, sc_interval b)
{
    return (sc_interval){least(a.low, b.low), largest(a.high, b.high)};
}

static bool at_corner(sc_node_kind kind, int64_t x, int64_t y, int64_t *out)
{
    switch (kind) {
    case SC_NODE_add:
        return !__builtin_add_overflow(x, y, out);
    case SC_NODE_sub:
        return !__builtin_sub_overflow(x, y, out);
    case SC_NODE_mul:
        return !__builtin_mul_overflow(x, y, out);
    case SC_NODE_div:
        if (y == 0 || (x == INT64_MIN && y == -1))
            return false;
        *out = x / y;
        return true;
    default:
        return false;
    }
}

/* For operations monotone in each operand: the extremes are at the corners. */
static bool of_corners(sc_node_kind kind, sc_interval x, sc_interval y, sc_interval *out)
{
    int64_t xs[] = {x.low, x.high}, ys[] = {y.low, y.high}, value;
    for (int i = 0; i < 4; i++) {
        if (!at_corner(kind, xs[i / 2], ys[i % 2], &value))
            return false;
        *out = i == 0 ? (sc_interval){value, value} : joined(*out, (sc_interval){value, value});
    }
    return true;
}

static bool of_magnitude(sc_interval x, int64_t *out)
{
    if (x.low == INT64_MIN)
        return false;
    *out = largest(x.high, -x.low);
    return true;
}

/* For a divisor that may be 0 or of either sign: the quotient's magnitude is at most the
 * dividend's. */
static bool of_quotient(sc_interval x, sc_interval y, sc_interval *out)
{
    int64_t most;
    if (y.low > 0 || y.high < 0)
        return of_corners(SC_NODE_div, x, y, out);
    if (!of_magnitude(x, &most))
        return false;
    *out = (sc_interval){-most, most};
    return true;
}

static bool of_remainder(sc_interval x, sc_interval y, sc_interval *out)
{
    if (y.low > 0 && x.low >= 0 && x.high < y.low)
        *out = x;
    else if (y.low >= 0)
        *out = (sc_interval){0, largest(y.high - 1, 0)};
    else if (y.high <= 0 && y.low > INT64_MIN)
        *out = (sc_interval){least(y.low + 1, 0), 0};
    else
        return false;
    return true;
}

static bool of_absolute(sc_interval x, sc_interval *out)
{
    int64_t most;
    if (!of_magnitude(x, &most))
        return false;
    *out = (sc_interval){x.low > 0 ? x.low : x.high < 0 ? -x.high : 0, most};
    return true;
}

/* x < y, or x <= y: always, never, or unknown (false). */
static bool of_order(sc_interval x, sc_interval y, bool strictly, sc_interval *out)
{
    bool always = strictly ? x.high < y.low : x.high <= y.low,
         never = strictly ? x.low >= y.high : x.low > y.high;
    *out = (sc_interval){always, always};
    return always || never;
}

static bool of_equality(sc_interval x, sc_interval y, bool when_equal, sc_interval *out)
{
    bool always = x.low == x.high && y.low == y.high && x.low == y.low,
         never = x.high < y.low || y.high < x.low;
    bool value = always == when_equal;
    *out = (sc_interval){value, value};
    return always || never;
}

/* Logical operations and comparisons. */
static bool of_condition(sc_node_kind kind, sc_interval x, sc_interval y, sc_interval *out)
{
    switch (kind) {
    case SC_NODE_lt:
        return of_order(x, y, true, out);
    case SC_NODE_le:
        return of_order(x, y, false, out);
    case SC_NODE_gt:
        return of_order(y, x, true, out);
    case SC_NODE_ge:
        return of_order(y, x, false, out);
    case SC_NODE_eq:
    case SC_NODE_ne:
        return of_equality(x, y, kind == SC_NODE_eq, out);
    case SC_NODE_and:
        *out = (sc_interval){x.low & y.low, x.high & y.high};
        return true;
    case SC_NODE_or:
        *out = (sc_interval){x.low | y.low, x.high | y.high};
        return true;
    case SC_NODE_not:
        *out = (sc_interval){1 - x.high, 1 - x.low};
        return true;
    default:
        return false;
    }
}

/* x, y: intervals of the operands. False: unknown. */
static bool of_operation(sc_node_kind kind, sc_interval x, sc_interval y, sc_interval *out)
{
    switch (kind) {
    case SC_NODE_convert:
        *out = x;
        return true;
    case SC_NODE_add:
    case SC_NODE_sub:
    case SC_NODE_mul:
        return of_corners(kind, x, y, out);
    case SC_NODE_div:
        return of_quotient(x, y, out);
    case SC_NODE_mod:
        return of_remainder(x, y, out);
    case SC_NODE_minimum:
        *out = (sc_interval){least(x.low, y.low), least(x.high, y.high)};
        return true;
    case SC_NODE_maximum:
        *out = (sc_interval){largest(x.low, y.low), largest(x.high, y.high)};
        return true;
    case SC_NODE_neg:
        return of_corners(SC_NODE_sub, (sc_interval){0, 0}, x, out);
    case SC_NODE_abs:
        return of_absolute(x, out);
    case SC_NODE_sign:
        *out = (sc_interval){x.low > 0    ? 1
                             : x.low == 0 ? 0
                                          : -1,
                             x.high < 0    ? -1
                             : x.high == 0 ? 0
                                           : 1};
        return true;
    case SC_NODE_relu:
        *out = (sc_interval){largest(x.low, 0), largest(x.high, 0)};
        return true;
    default:
        return of_condition(kind, x, y, out);
    }
}

/* The sum of the terms, each between 0 and (modulo - 1) times its factor. */
static bool of_terms(const sc_image_terms *terms, sc_interval *out)
{
    *out = (sc_interval){0, 0};
    for (uint32_t i = 0; i < terms->count; i++) {
        const sc_image_term *term = &terms->terms[i];
        sc_interval digit = {0, (int64_t)(term->modulo - 1)}, factor = {term->times, term->times},
                    product;
        if (digit.high < 0 || !of_corners(SC_NODE_mul, digit, factor, &product) ||
            !of_corners(SC_NODE_add, *out, product, out))
            return false;
    }
    return true;
}

static bool of_param(const sc_image_param *param, sc_interval *out)
{
    *out = (sc_interval){0, UINT32_MAX};
    return param->kind == SC_PARAM_STEP ||
           (param->kind == SC_PARAM_RANK && of_terms(&param->terms, out));
}

/* A maximum or minimum is one of the reduced values. */
static bool of_reduction(const sc_kernel *k, sc_knode n, const sc_interval *intervals,
                         sc_interval *out)
{
    const sc_kernel_item *item = &k->items.data[k->nodes.data[n].index];
    if (item->kind == SC_ITEM_SUM || item->value >= n)
        return false;
    *out = intervals[item->value];
    return true;
}

static bool of_node(const sc_kernel *k, sc_knode n, const sc_interval *intervals, sc_interval *out)
{
    const sc_kernel_node *node = &k->nodes.data[n];
    const sc_knode *operands = sc_kernel_operands(k, n);
    switch (node->kind) {
    case SC_NODE_constant:
        if (!(node->number >= -0x1p62 && node->number <= 0x1p62))
            return false;
        *out = (sc_interval){(int64_t)node->number, (int64_t)node->number};
        return true;
    case SC_NODE_index:
        *out = (sc_interval){0, k->dims.data[node->index].size - 1};
        return true;
    case SC_NODE_param:
        return of_param(&k->params.data[node->index], out);
    case SC_NODE_load:
        *out = whole(k->args.data[node->index].dtype);
        return true;
    case SC_NODE_reduced:
    case SC_NODE_running:
        return of_reduction(k, n, intervals, out);
    case SC_NODE_where:
        *out = joined(intervals[operands[1]], intervals[operands[2]]);
        return true;
    default:
        if (node->count == 0 || sc_dtype_is_float((sc_dtype)k->nodes.data[operands[0]].dtype))
            return false;
        return of_operation((sc_node_kind)node->kind, intervals[operands[0]],
                            intervals[operands[node->count - 1]], out);
    }
}

bool sc_kernel_stays(const sc_kernel *k, sc_knode node, const sc_interval *intervals)
{
    sc_interval exact;
    return of_node(k, node, intervals, &exact) &&
           within(exact, whole((sc_dtype)k->nodes.data[node].dtype));
}

/* Fills all intervals, narrowed to `known`. An empty interval belongs to unreachable code, where
 * any interval is valid. False: there was one. */
static bool fill(const sc_kernel *k, const sc_interval *known, sc_interval *out)
{
    bool is_possible = true;
    for (sc_knode n = 0; n < k->nodes.count; n++) {
        sc_dtype dtype = (sc_dtype)k->nodes.data[n].dtype;
        if (sc_dtype_is_float(dtype) || !of_node(k, n, out, &out[n]) ||
            !within(out[n], whole(dtype)))
            out[n] = whole(dtype);
        sc_interval narrowed = known == NULL ? out[n]
                                             : (sc_interval){largest(out[n].low, known[n].low),
                                                             least(out[n].high, known[n].high)};
        is_possible = is_possible && narrowed.low <= narrowed.high;
        if (narrowed.low <= narrowed.high)
            out[n] = narrowed;
    }
    return is_possible;
}

static void narrow(sc_interval *known, int64_t low, int64_t high)
{
    known->low = largest(known->low, low);
    known->high = least(known->high, high);
}

static int64_t below(int64_t x)
{
    return x == INT64_MIN ? x : x - 1;
}

static int64_t above(int64_t x)
{
    return x == INT64_MAX ? x : x + 1;
}

/* x < y and x <= y; the other comparisons swap the operands. */
static void narrow_ordered(sc_knode x, sc_knode y, bool strictly, const sc_interval *plain,
                           sc_interval *known)
{
    narrow(&known[x], INT64_MIN, strictly ? below(plain[y].high) : plain[y].high);
    narrow(&known[y], strictly ? above(plain[x].low) : plain[x].low, INT64_MAX);
}

static void learn_comparison(const sc_kernel *k, sc_knode condition, bool holds,
                             const sc_interval *plain, sc_interval *known)
{
    sc_node_kind kind = (sc_node_kind)k->nodes.data[condition].kind;
    sc_knode x = sc_kernel_operands(k, condition)[0], y = sc_kernel_operands(k, condition)[1];
    if (sc_dtype_is_float((sc_dtype)k->nodes.data[x].dtype))
        return;
    if (kind == (holds ? SC_NODE_eq : SC_NODE_ne)) {
        narrow(&known[x], plain[y].low, plain[y].high);
        narrow(&known[y], plain[x].low, plain[x].high);
    } else if (kind == SC_NODE_lt || kind == SC_NODE_ge) {
        bool less = (kind == SC_NODE_lt) == holds;
        narrow_ordered(less ? x : y, less ? y : x, less, plain, known);
    } else if (kind == SC_NODE_le || kind == SC_NODE_gt) {
        bool less = (kind == SC_NODE_le) == holds;
        narrow_ordered(less ? x : y, less ? y : x, !less, plain, known);
    }
}

void sc_kernel_mark_true(const sc_kernel *k, sc_knode fact, uint8_t *truth)
{
    memset(truth, 0, k->nodes.count * sizeof *truth);
    truth[fact] = SC_TRUTH_HOLDS;
    for (sc_knode n = fact + 1; n-- > 0;) {
        const sc_kernel_node *node = &k->nodes.data[n];
        const sc_knode *operands = sc_kernel_operands(k, n);
        if (node->kind == SC_NODE_not && truth[n] != 0)
            truth[operands[0]] |= (truth[n] & SC_TRUTH_HOLDS ? SC_TRUTH_FAILS : 0) |
                                  (truth[n] & SC_TRUTH_FAILS ? SC_TRUTH_HOLDS : 0);
        uint8_t both = node->kind == SC_NODE_and  ? SC_TRUTH_HOLDS
                       : node->kind == SC_NODE_or ? SC_TRUTH_FAILS
                                                  : 0;
        if ((truth[n] & both) != 0) {
            truth[operands[0]] |= both;
            truth[operands[1]] |= both;
        }
    }
}

static void learn(const sc_kernel *k, sc_knode fact, const sc_interval *plain, uint8_t *truth,
                  sc_interval *known)
{
    sc_kernel_mark_true(k, fact, truth);
    for (sc_knode n = 0; n <= fact; n++) {
        bool compares = k->nodes.data[n].kind >= SC_NODE_lt && k->nodes.data[n].kind <= SC_NODE_ne;
        if (compares && (truth[n] & SC_TRUTH_HOLDS) != 0)
            learn_comparison(k, n, true, plain, known);
        if (compares && (truth[n] & SC_TRUTH_FAILS) != 0)
            learn_comparison(k, n, false, plain, known);
    }
}

/* For a fact that is a disjunction, such as a check under a guard: if the other facts refute one
 * side, the other side holds. */
static void learn_alternatives(const sc_kernel *k, const sc_knode *facts, uint32_t count,
                               const sc_interval *plain, uint8_t *truth, sc_interval *known)
{
    uint8_t *all = sc_arena_array(k->arena, k->nodes.count, sizeof *all);
    for (uint32_t i = 0; i < count; i++) {
        sc_kernel_mark_true(k, facts[i], truth);
        for (sc_knode n = 0; n <= facts[i]; n++)
            all[n] |= truth[n];
    }
    for (uint32_t i = 0; i < count; i++) {
        if (k->nodes.data[facts[i]].kind != SC_NODE_or)
            continue;
        const sc_knode *sides = sc_kernel_operands(k, facts[i]);
        for (uint32_t side = 0; side < 2; side++) {
            bool is_not = k->nodes.data[sides[side]].kind == SC_NODE_not;
            bool fails =
                (all[sides[side]] & SC_TRUTH_FAILS) != 0 ||
                (is_not && (all[sc_kernel_operands(k, sides[side])[0]] & SC_TRUTH_HOLDS) != 0);
            if (fails)
                learn(k, sides[1 - side], plain, truth, known);
        }
    }
}

/* What is known of a sum narrows each operand: it is the sum minus the other. */
static void learn_parts(const sc_kernel *k, const sc_interval *plain, sc_interval *known)
{
    for (sc_knode n = k->nodes.count; n-- > 0;) {
        sc_node_kind kind = (sc_node_kind)k->nodes.data[n].kind;
        const sc_knode *parts = sc_kernel_operands(k, n);
        sc_interval first, second;
        bool sum = (kind == SC_NODE_add || kind == SC_NODE_sub) &&
                   !sc_dtype_is_float((sc_dtype)k->nodes.data[n].dtype);
        if (!sum || !sc_kernel_stays(k, n, plain))
            continue;
        sc_interval total = {largest(known[n].low, plain[n].low),
                             least(known[n].high, plain[n].high)},
                    x = plain[parts[0]], y = plain[parts[1]];
        if (of_corners(kind == SC_NODE_add ? SC_NODE_sub : SC_NODE_add, total, y, &first))
            narrow(&known[parts[0]], first.low, first.high);
        if (kind == SC_NODE_add ? of_corners(SC_NODE_sub, total, x, &second)
                                : of_corners(SC_NODE_sub, x, total, &second))
            narrow(&known[parts[1]], second.low, second.high);
    }
}

sc_interval *sc_kernel_intervals(const sc_kernel *k, const sc_knode *facts, uint32_t fact_count,
                                 bool *never)
{
    sc_arena *arena = k->arena;
    sc_interval *plain = sc_arena_array(arena, k->nodes.count + 1u, sizeof *plain);
    bool is_possible = fill(k, NULL, plain);
    if (never != NULL)
        *never = !is_possible;
    if (fact_count == 0)
        return plain;
    sc_interval *known = sc_arena_array(arena, k->nodes.count, sizeof *known),
                *out = sc_arena_array(arena, k->nodes.count, sizeof *out);
    uint8_t *truth = sc_arena_array(arena, k->nodes.count, sizeof *truth);
    for (sc_knode n = 0; n < k->nodes.count; n++)
        known[n] = whole(SC_DTYPE_i64);
    for (uint32_t i = 0; i < fact_count; i++)
        learn(k, facts[i], plain, truth, known);
    learn_alternatives(k, facts, fact_count, plain, truth, known);
    learn_parts(k, plain, known);
    is_possible = fill(k, known, out);
    if (never != NULL)
        *never = !is_possible;
    return out;
}
