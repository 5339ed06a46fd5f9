/* The text of loops over outer dims. */
#include "codegen/c/internal.h"

bool sc_c_is_blocked(const sc_kernel_printer *e)
{
    return e->shape.vector != SC_NONE && e->shape.block < e->k->dims.data[e->shape.vector].size;
}

/* Number of loops: the other outer dims, blocks of the vector dim, tiles, indices in a tile. */
uint32_t sc_c_outer_loops(const sc_kernel_printer *e)
{
    return e->shape.order_count + (e->shape.tile == SC_NONE ? 0 : 2) + sc_c_is_blocked(e);
}

void sc_c_open_outer_loop(sc_kernel_printer *e, uint32_t l)
{
    const sc_printer_shape *shape = &e->shape;
    bool tiled = shape->tile != SC_NONE, whole = l < shape->order_count,
         within = tiled && l + 1 == sc_c_outer_loops(e);
    bool tiles = tiled && l + 2 == sc_c_outer_loops(e);
    uint32_t dim = whole ? shape->order[l] : tiles || within ? shape->tile : shape->vector;
    const char *name = e->dim_names[dim];
    long long size = e->k->dims.data[dim].size, step = tiles ? shape->tile_size : shape->block;
    if (whole)
        sc_write_open(e->out, "for (int64_t %s = 0; %s < %lld; %s++)", name, name, size, name);
    else if (within)
        sc_write_open(e->out, "for (int64_t %s = %s_from; %s < %s_to; %s++)", name, name, name,
                      name, name);
    else
        sc_write_open(e->out, "for (int64_t %s_from = 0; %s_from < %lld; %s_from += %lld)", name,
                      name, size, name, step);
}

void sc_c_block_end(sc_kernel_printer *e, uint32_t dim, int64_t block)
{
    const char *name = e->dim_names[dim];
    long long size = e->k->dims.data[dim].size, step = block;
    if (size % step == 0)
        sc_write_line(e->out, "const int64_t %s_to = %s_from + %lld;", name, name, step);
    else
        sc_write_line(e->out, "const int64_t %s_to = %s_from < %lld ? %s_from + %lld : %lld;", name,
                      name, size - step, name, step, size);
}
