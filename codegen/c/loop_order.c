/* Chooses how outer iterations are walked: blocks, tiles, and parallel loops. printer/stride.c
 * chooses the vectorized loop. */
#include "codegen/c/internal.h"

enum { LEAST_TILE = 16 };

static bool has_reduction(const sc_kernel *k)
{
    for (uint32_t i = 0; i < k->items.count; i++) {
        if (sc_item_reduces(k->items.data[i].kind))
            return true;
    }
    return false;
}

static double operations(const sc_kernel_printer *e)
{
    double sum = 0;
    for (sc_knode i = 0; i < e->k->nodes.count; i++)
        sum += e->nodes[i].uses > 0 && e->k->nodes.data[i].count > 0
                   ? sc_printer_points_of(e, e->nodes[i].dims)
                   : 0;
    return sum;
}

/* Chooses a dim along which neighbours are contiguous that are far apart along the vector dim: a
 * transpose. The next rows reuse the cache lines that one row reads, so both dims are walked in
 * tiles. */
static uint32_t choose_tile(const sc_kernel_printer *e, uint32_t vector)
{
    const sc_kernel *k = e->k;
    int64_t least = e->limits->tile < LEAST_TILE ? e->limits->tile : LEAST_TILE;
    if (vector == SC_NONE || k->dims.count > k->outer_count || has_reduction(k) ||
        sc_printer_size_of(e, vector) < least)
        return SC_NONE;
    for (uint32_t i = 0; i < k->nodes.count + k->items.count; i++) {
        bool load = i < k->nodes.count && e->nodes[i].uses > 0;
        const sc_printer_access *access = load ? &e->nodes[i].access
                                          : i < k->nodes.count
                                              ? NULL
                                              : &e->items[i - k->nodes.count].access;
        if (access == NULL || access->count == 0 ||
            !sc_printer_is_far(sc_printer_stride(e, access, vector)))
            continue;
        for (uint32_t d = 0; d < k->outer_count; d++) {
            int64_t stride = sc_printer_stride(e, access, d);
            if (d != vector && (stride == 1 || stride == -1) && sc_printer_size_of(e, d) >= least)
                return d;
        }
    }
    return SC_NONE;
}

void sc_c_choose_loop_order(sc_kernel_printer *e)
{
    const sc_kernel *k = e->k;
    sc_printer_shape *shape = &e->shape;
    *shape = (sc_printer_shape){.vector = sc_printer_choose_vector(e), .tile = SC_NONE, .block = 1};
    shape->tile = choose_tile(e, shape->vector);
    int64_t others = 1;
    for (uint32_t i = 0; i < k->outer_count; i++) {
        if (i == shape->vector || i == shape->tile)
            continue;
        shape->order[shape->order_count++] = i;
        others *= sc_printer_size_of(e, i);
    }
    int64_t size = shape->vector == SC_NONE ? 1 : sc_printer_size_of(e, shape->vector),
            shares = others;
    shape->block = size;
    if (shape->tile != SC_NONE) {
        sc_c_choose_transposes(e, others);
        shares = e->limits->split_shares;
    } else if (has_reduction(k)) {
        shape->block = size > e->limits->block ? e->limits->block : size;
        shares *= (size + shape->block - 1) / shape->block;
    } else if (others < e->limits->shares && size > 2 * e->limits->shortest_block) {
        shape->block = e->limits->shortest_block;
        shares = e->limits->split_shares;
    }
    double work = operations(e);
    shape->split = work > (double)e->limits->split_work && shares < e->limits->split_shares &&
                   sc_c_may_split(e);
    if (shape->split && size > shape->block)
        shape->block = size < e->limits->split_block ? size : e->limits->split_block;
    if (shape->tile != SC_NONE) {
        shape->shared = sc_c_outer_loops(e) - 1;
        shape->parallel = work > (double)e->limits->small_work;
        return;
    }
    uint32_t loops = shape->order_count + (shape->block < size);
    shape->parallel = work > (double)e->limits->small_work && loops > 0;
    shape->shared = loops > 0;
    shares = loops > 0 && shape->order_count > 0 ? sc_printer_size_of(e, shape->order[0]) : 1;
    if (!shape->parallel)
        return;
    while (shape->shared < loops && shares < e->limits->shares) {
        shares *= shape->shared < shape->order_count
                      ? sc_printer_size_of(e, shape->order[shape->shared])
                      : 1;
        shape->shared++;
    }
}
