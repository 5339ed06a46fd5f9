/* Transposes: stores are contiguous along one dim, loads along another. A block takes a tile of
 * both: its warps read rows along one dim into shared memory, whose rows are one element longer
 * than a warp so that columns are in different banks, and read columns from it, which are rows
 * along the other. */
#include "codegen/cuda/internal.h"

enum { TILE = SC_CUDA_WARP, ROW = TILE + 1, WARPS = 8, FAR = 8 /* elements */, MOST_TILES = 5 };

static bool is_far(int64_t stride)
{
    return stride > FAR && stride != INT64_MAX;
}

static bool is_plain(const sc_printer_access *access)
{
    for (uint32_t i = 0; i < access->count; i++) {
        if (access->terms[i].dim == SC_NONE)
            return false;
    }
    return true;
}

/* A load that is contiguous along `rows` while neighbours along `columns` are far apart. */
static bool is_transposed(const sc_cuda_printer *c, sc_knode id, uint32_t rows, uint32_t columns)
{
    const sc_kernel *k = c->e.k;
    const sc_kernel_node *node = &k->nodes.data[id];
    const sc_printer_node *info = &c->e.nodes[id];
    return node->kind == SC_NODE_load && info->uses > 0 &&
           node->count == k->args.data[node->index].rank && !info->reads_written &&
           is_plain(&info->access) && sc_printer_stride(&c->e, &info->access, rows) == 1 &&
           is_far(sc_printer_stride(&c->e, &info->access, columns));
}

static bool has_transposed(const sc_cuda_printer *c, uint32_t rows, uint32_t columns)
{
    const sc_kernel *k = c->e.k;
    int tiles = 0;
    for (uint32_t i = 0; i < k->items.count; i++) {
        if (k->items.data[i].kind != SC_ITEM_STORE ||
            sc_printer_stride(&c->e, &c->e.items[i].access, columns) != 1)
            return false;
    }
    for (sc_knode i = 0; i < k->nodes.count; i++)
        tiles += is_transposed(c, i, rows, columns);
    return tiles > 0 && tiles <= MOST_TILES;
}

bool sc_cuda_plan_tile(sc_cuda_printer *c)
{
    const sc_kernel *k = c->e.k;
    if (k->phases.count != 1 || k->phases.data[0].dim_count > 0 || c->e.check_count > 0)
        return false;
    for (uint32_t columns = 0; columns < k->outer_count; columns++) {
        for (uint32_t rows = 0; rows < k->outer_count; rows++) {
            bool large = sc_printer_size_of(&c->e, rows) >= c->limits->tile &&
                         sc_printer_size_of(&c->e, columns) >= c->limits->tile;
            if (rows == columns || !large || !has_transposed(c, rows, columns))
                continue;
            c->lanes = 1;
            c->e.shape.vector = SC_NONE;
            c->tile_rows = rows;
            c->tile_columns = columns;
            c->stage.form = (sc_cuda_form){.team = SC_CUDA_TILES,
                                           .team_threads = 1,
                                           .threads = WARPS * SC_CUDA_WARP,
                                           .end = 1,
                                           .parts = 1};
            for (sc_knode i = 0; i < k->nodes.count; i++) {
                if (is_transposed(c, i, rows, columns))
                    c->shared_bytes +=
                        (int)sc_dtypes[k->args.data[c->e.nodes[i].access.arg].dtype].bytes * TILE *
                        ROW;
            }
            return true;
        }
    }
    return false;
}

int64_t sc_cuda_tiles(const sc_cuda_printer *c)
{
    int64_t blocks = ((sc_printer_size_of(&c->e, c->tile_rows) + TILE - 1) / TILE) *
                     ((sc_printer_size_of(&c->e, c->tile_columns) + TILE - 1) / TILE);
    for (uint32_t i = 0; i < c->e.k->outer_count; i++)
        blocks *= i == c->tile_rows || i == c->tile_columns ? 1 : sc_printer_size_of(&c->e, i);
    return blocks;
}

/* ---- text ---- */

static void find_tile(sc_cuda_printer *c)
{
    sc_kernel_printer *e = &c->e;
    const char *type = sc_cuda_index_type(c);
    long long columns = (sc_printer_size_of(&c->e, c->tile_columns) + TILE - 1) / TILE,
              rows = (sc_printer_size_of(&c->e, c->tile_rows) + TILE - 1) / TILE;
    long long faster = columns * rows;
    sc_write_line(e->out, "const %s at = %ssc_block();", type, c->wide ? "" : "(int)");
    sc_write_line(e->out, "const %s %s_from = at %% %lld * %d;", type,
                  e->dim_names[c->tile_columns], columns, TILE);
    sc_write_line(e->out, "const %s %s_from = at / %lld %% %lld * %d;", type,
                  e->dim_names[c->tile_rows], columns, rows, TILE);
    for (uint32_t i = e->k->outer_count; i-- > 0;) {
        if (i == c->tile_rows || i == c->tile_columns)
            continue;
        sc_write_line(e->out, "const %s %s = at / %lld %% %lld;", type, e->dim_names[i], faster,
                      (long long)sc_printer_size_of(&c->e, i));
        faster *= sc_printer_size_of(&c->e, i);
    }
}

/* Opens a loop over the tile: warps take indices of `slow`, lanes those of `fast`. */
static void open_tile(sc_cuda_printer *c, uint32_t slow, uint32_t fast)
{
    sc_kernel_printer *e = &c->e;
    const char *type = sc_cuda_index_type(c), *s = e->dim_names[slow], *f = e->dim_names[fast];
    sc_write_line(e->out, "#pragma unroll");
    sc_write_open(e->out, "for (int step = sc_warp(); step < %d; step += %d)", TILE, WARPS);
    sc_write_line(e->out, "const %s %s = %s_from + step;", type, s, s);
    sc_write_line(e->out, "const %s %s = %s_from + sc_lane();", type, f, f);
    sc_write_open(e->out, "if (%s < %lld && %s < %lld)", s,
                  (long long)sc_printer_size_of(&c->e, slow), f,
                  (long long)sc_printer_size_of(&c->e, fast));
}

static void close_tile(sc_cuda_printer *c)
{
    sc_write_close(c->e.out);
    sc_write_close(c->e.out);
}

static const char *stored_type(const sc_cuda_printer *c, sc_knode load)
{
    return sc_printer_stored(c->e.k->args.data[c->e.nodes[load].access.arg].dtype);
}

static void fill_tiles(sc_cuda_printer *c)
{
    sc_kernel_printer *e = &c->e;
    int at = 0;
    for (sc_knode i = 0; i < e->k->nodes.count; i++) {
        if (!is_transposed(c, i, c->tile_rows, c->tile_columns))
            continue;
        const char *type = stored_type(c, i);
        sc_write_line(e->out, "const sc_shared_ptr<%s> t%u = sc_shared<%s>(%d);", type, i, type,
                      at);
        at += (int)sc_dtypes[e->k->args.data[e->nodes[i].access.arg].dtype].bytes * TILE * ROW;
    }
    open_tile(c, c->tile_columns, c->tile_rows);
    for (sc_knode i = 0; i < e->k->nodes.count; i++) {
        if (!is_transposed(c, i, c->tile_rows, c->tile_columns))
            continue;
        sc_write_indent(e->out);
        sc_strbuf_printf(e->out->text, "t%u[step * %d + sc_lane()] = %s[", i, ROW,
                         e->arg_names[e->nodes[i].access.arg]);
        sc_printer_offset_text(e, &e->nodes[i].access, SC_CUDA_LANES);
        sc_strbuf_add(e->out->text, "];\n");
    }
    close_tile(c);
    sc_write_line(e->out, "sc_sync();");
}

void sc_cuda_tile_text(sc_cuda_printer *c)
{
    sc_kernel_printer *e = &c->e;
    uint32_t end = e->k->phases.data[0].item_count;
    uint64_t tile = (uint64_t)1 << c->tile_rows | (uint64_t)1 << c->tile_columns;
    find_tile(c);
    e->phase.number = 0;
    e->scopes.inner = SC_CUDA_LANES;
    e->scopes.dims[SC_CUDA_BODY] &= ~tile;
    e->scopes.dims[SC_CUDA_READS] = 0;
    e->scopes.dims[SC_CUDA_POINT] = 0;
    e->scopes.dims[SC_CUDA_LANES] = tile;
    for (uint32_t i = 0; i < end; i++)
        e->items[i].depth = SC_CUDA_LANES;
    sc_printer_place(e, 0, end, 0);
    for (uint32_t scope = 0; scope < SC_CUDA_LANES; scope++)
        sc_printer_scope(e, scope, 0, end);
    fill_tiles(c);
    open_tile(c, c->tile_rows, c->tile_columns);
    for (sc_knode i = 0; i < e->k->nodes.count; i++) {
        c->run_of_load[i] = is_transposed(c, i, c->tile_rows, c->tile_columns);
        if (c->run_of_load[i])
            sc_write_line(e->out, "const %s l%u = t%u[sc_lane() * %d + step];", stored_type(c, i),
                          i, i, ROW);
    }
    sc_printer_scope(e, SC_CUDA_LANES, 0, end);
    sc_printer_leave(e, 0);
    close_tile(c);
}
