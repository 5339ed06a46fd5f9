/* Sampling from logits. What is drawn depends on sums of weights in the order of the entries,
 * largest first, but few of a large vocabulary are kept: these are selected, and only they are
 * sorted. */
#include "runtime/drive/sample.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

enum { FEW = 16, MOST_ROUNDS = 64 };

/* ---- order ---- */

/* True if entry a precedes b: it is larger, or equal with a lower index. */
static bool is_before(const double *logits, uint32_t a, uint32_t b)
{
    return logits[a] > logits[b] || (!(logits[a] < logits[b]) && a < b);
}

static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t kept = *a;
    *a = *b;
    *b = kept;
}

/* Restores heap order: every child precedes its parent, so the root is the last entry. */
static void sift_down(const double *logits, uint32_t *order, uint32_t at, uint32_t count)
{
    for (uint32_t child = 2 * at + 1; child < count; at = child, child = 2 * at + 1) {
        if (child + 1 < count && is_before(logits, order[child], order[child + 1]))
            child++;
        if (is_before(logits, order[at], order[child]))
            swap(&order[at], &order[child]);
        else
            return;
    }
}

/* Heap sort: takes the same time for every order. */
static void sort_heap(const double *logits, uint32_t *order, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sift_down(logits, order, i, count);
    for (uint32_t end = count; end-- > 1;) {
        swap(&order[0], &order[end]);
        sift_down(logits, order, 0, end);
    }
}

/* Moves what precedes the median of three entries to the front, that median behind it. Returns its
 * place. */
static uint32_t partition(const double *logits, uint32_t *order, uint32_t count)
{
    uint32_t *first = &order[0], *middle = &order[count / 2], *last = &order[count - 1], at = 0;
    if (is_before(logits, *middle, *first))
        swap(middle, first);
    if (is_before(logits, *last, *first))
        swap(last, first);
    if (is_before(logits, *middle, *last))
        swap(middle, last);
    const uint32_t pivot = *last;
    for (uint32_t i = 0; i + 1 < count; i++) { /* without a branch, which nobody could predict */
        uint32_t entry = order[i];
        order[i] = order[at];
        order[at] = entry;
        at +=
            (logits[entry] > logits[pivot]) | (!(logits[entry] < logits[pivot]) & (entry < pivot));
    }
    swap(&order[at], last);
    return at;
}

/* Quicksort; what has been parted too unevenly for too long ends in a heap sort, as do few entries.
 */
static void sort_parts(const double *logits, uint32_t *order, uint32_t count, int rounds)
{
    for (int left = rounds; left > 0; left--) {
        if (count <= FEW)
            break;
        uint32_t at = partition(logits, order, count);
        sort_parts(logits, order, at, left - 1);
        order += at + 1;
        count -= at + 1;
    }
    sort_heap(logits, order, count);
}

/* No two entries are equal, so there is one order, on every platform. */
static void sort_entries(const double *logits, uint32_t *order, uint32_t count)
{
    sort_parts(logits, order, count, MOST_ROUNDS);
}

/* ---- the first entries ---- */

/* Moves the first `kept` entries to the front, in any order: quickselect (Hoare, Algorithm 65). */
static void select_first(const double *logits, uint32_t *order, uint32_t count, uint32_t kept)
{
    for (int round = 0; round < MOST_ROUNDS; round++) {
        if (kept == 0 || kept >= count)
            return;
        if (count <= FEW)
            break;
        uint32_t at = partition(logits, order, count);
        if (kept <= at) {
            count = at;
        } else {
            order += at + 1;
            count -= at + 1;
            kept -= at + 1;
        }
    }
    sort_entries(logits, order, count);
}

static double sum_of(const uint32_t *order, const double *weights, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += weights[order[i]];
    return sum;
}

/* Moves the first entries whose weights come to `wanted` to the front, in any order, with few more,
 * and returns how many they are: the same by weight. */
static uint32_t select_weight(const double *logits, uint32_t *order, const double *weights,
                              uint32_t count, double wanted)
{
    uint32_t needed = 0;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        if (count <= FEW)
            break;
        uint32_t at = partition(logits, order + needed, count);
        double sum = sum_of(order + needed, weights, at);
        if (sum >= wanted) {
            count = at;
        } else {
            wanted -= sum + weights[order[needed + at]];
            needed += at + 1;
            count -= at + 1;
        }
    }
    return needed + count;
}

/* ---- the fewest whose probability is at least p ---- */

/* Sorts as many of `count` entries as are needed, and returns how many they are; *out_sum: of their
 * weights. They are those whose sum, largest first, is at least p of the sum of all in that order.
 * The latter is known without the order up to rounding: a sum of n positive terms is exact to
 * within n - 1 roundings, in whatever order. 0: the rounding decides. */
static uint32_t find_enough(const double *logits, uint32_t *order, const double *weights,
                            uint32_t count, double top_p, double *out_sum)
{
    double all = sum_of(order, weights, count), sum = 0;
    const double slack = 4 * DBL_EPSILON * (double)count * all;
    uint32_t most = select_weight(logits, order, weights, count, top_p * all + slack);
    sort_entries(logits, order, most);
    for (uint32_t i = 0; i < most; i++) {
        double over = sum - top_p * all;
        if (!(fabs(over) > slack))
            return 0;
        *out_sum = sum;
        if (over > 0)
            return i;
        sum += weights[order[i]];
    }
    *out_sum = sum;
    return most == count || sum - top_p * all > slack ? most : 0;
}

/* The same where all are sorted. */
static uint32_t count_enough(const uint32_t *order, const double *weights, uint32_t count,
                             double top_p, double *out_sum)
{
    double all = sum_of(order, weights, count), sum = 0;
    uint32_t enough = 0;
    while (enough < count && sum < top_p * all)
        sum += weights[order[enough++]];
    *out_sum = sum;
    return enough > 0 ? enough : 1; /* weights may be no numbers */
}

/* ---- drawing ---- */

static uint32_t draw(const uint32_t *order, const double *weights, uint32_t count, double level)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += weights[order[i]];
        if (level < sum)
            return order[i];
    }
    return order[count - 1];
}

uint32_t sc_sample(const double *logits, uint32_t count, double temperature, int64_t top_k,
                   double top_p, double u, uint32_t *order, double *weights)
{
    uint32_t best = 0, kept = top_k > 0 && top_k < (int64_t)count ? (uint32_t)top_k : count;
    bool limits_k = kept<count, limits_p = top_p> 0 && top_p < 1;
    for (uint32_t i = 1; i < count; i++)
        best = logits[i] > logits[best] ? i : best;
    if (!(temperature > 0) || !isfinite(logits[best])) /* or there are no weights */
        return best;
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    select_first(logits, order, count, kept);
    for (uint32_t i = 0; i < kept; i++)
        weights[order[i]] = exp((logits[order[i]] - logits[best]) / temperature);
    double total = 0;
    uint32_t enough = limits_p ? find_enough(logits, order, weights, kept, top_p, &total) : 0;
    if (enough > 0)
        return draw(order, weights, enough, u * total);
    if (limits_k || limits_p)
        sort_entries(logits, order, kept);
    if (limits_p)
        kept = count_enough(order, weights, kept, top_p, &total);
    else
        total = sum_of(order, weights, kept);
    return draw(order, weights, kept, u * total);
}
