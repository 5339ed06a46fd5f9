/* Orders windows of one or several parts. */
#include "runtime/data/order.h"

#include <string.h>

#include "support/none.h"
#include "support/rng.h"

/* The random stream's key: sc_fnv1a64 of "data.mixture". */
static const uint64_t mixture_stream = 0x31dc7c72d8a8ba37u;

static void weigh(const sc_data *data, sc_order *order)
{
    double sum = 0, until = 0;
    for (uint32_t p = 0; p < order->part_count; p++)
        sum += data->parts.data[p].weight;
    for (uint32_t p = 0; p < order->part_count; p++) {
        until += data->parts.data[p].weight;
        order->limits[p] = until / sum;
    }
}

/* A batch must be full of windows that are held out. */
static double least_share(const sc_order *order, uint64_t rows, double share)
{
    uint64_t count = 0;
    for (uint32_t p = 0; p < order->part_count; p++)
        count += order->parts[p].count;
    double least = count == 0 ? 1 : (double)rows / (double)count;
    share = share > least ? share : least;
    return share < 1 ? share : 1;
}

sc_order sc_order_of(const sc_data *data, sc_order_kind kind, uint64_t length, bool targets,
                     uint64_t rows, double share, uint64_t seed, sc_arena *arena)
{
    sc_order order = {.kind = kind, .seed = seed, .part_count = data->parts.count};
    order.parts = sc_arena_array(arena, order.part_count, sizeof *order.parts);
    order.limits = sc_arena_array(arena, order.part_count, sizeof *order.limits);
    order.taken = sc_arena_array(arena, order.part_count, sizeof *order.taken);
    for (uint32_t p = 0; p < order.part_count; p++) {
        order.parts[p] = sc_windows_find(data->parts.data[p].count, length, targets, seed);
        order.parts[p].part = p;
    }
    share = share > 0 ? least_share(&order, rows, share) : 0;
    for (uint32_t p = 0; p < order.part_count; p++)
        sc_windows_hold_out(&order.parts[p], share);
    weigh(data, &order);
    return order;
}

static uint64_t count_of(const sc_order *order, uint32_t part)
{
    const sc_windows *w = &order->parts[part];
    switch (order->kind) {
    case SC_ORDER_HELD_OUT:
        return w->held;
    case SC_ORDER_TRAINED:
        return w->count - w->held;
    default:
        return w->count;
    }
}

uint64_t sc_order_count(const sc_order *order)
{
    uint64_t count = 0;
    for (uint32_t p = 0; p < order->part_count; p++)
        count += count_of(order, p);
    return count;
}

uint32_t sc_order_empty_part(const sc_order *order)
{
    for (uint32_t p = 0; p < order->part_count; p++) {
        if (count_of(order, p) == 0)
            return p;
    }
    return SC_NONE;
}

/* ---- rows ---- */

static uint32_t draw(const sc_order *order, uint64_t row)
{
    double at = sc_rng_uniform(order->seed, mixture_stream, row);
    uint32_t part = 0;
    while (part + 1 < order->part_count && at >= order->limits[part])
        part++;
    return part;
}

static sc_order_row mixed_row(sc_order *order, uint64_t row)
{
    if (row < order->row) {
        order->row = 0;
        memset(order->taken, 0, order->part_count * sizeof *order->taken);
    }
    for (; order->row < row; order->row++)
        order->taken[draw(order, order->row)]++;
    uint32_t part = draw(order, row);
    return (sc_order_row){part, sc_windows_at(&order->parts[part], order->taken[part])};
}

sc_order_row sc_order_row_at(sc_order *order, uint64_t row)
{
    uint32_t part = 0;
    if (order->kind == SC_ORDER_TRAINED)
        return order->part_count > 1 ? mixed_row(order, row)
                                     : (sc_order_row){0, sc_windows_at(&order->parts[0], row)};
    while (part + 1 < order->part_count && row >= count_of(order, part))
        row -= count_of(order, part++);
    const sc_windows *w = &order->parts[part];
    return (sc_order_row){part, order->kind == SC_ORDER_HELD_OUT ? sc_windows_held_at(w, row)
                                                                 : row * w->length};
}
