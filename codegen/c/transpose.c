/* Tiles that are contiguous along one dim and walked along another: transposes, possibly fused with
 * other ops.
 *
 * A load's neighbours along the vector dim are far apart; along the tile's dim they are adjacent.
 * So the tile is first transposed, by squares in registers, into an array q12 whose rows run along
 * the vector dim. A store with such a layout goes to an array w3 that is transposed after the tile:
 *
 *     for each block of R, each tile of D {
 *       float q2[36864], w0[144];
 *       sc_transpose_b32(x + .., 768, q2, 144, R_to - R_from, D_to - D_from);
 *       for (D in the tile) {
 *         for (R in the block)
 *           w0[R - R_from] = f(q2[(D - D_from) * 144 + R - R_from]);
 *         sc_stream(y + .., w0, ..);
 *       }
 *     }
 *
 * A tile spans many cache lines, each of which is read once while later rows are prefetched. CPUs
 * do not detect stores to distant pieces of rows as a stream and would read each line before
 * writing it, so rows of a large array use non-temporal stores. */
#include "codegen/c/internal.h"

enum { MOST_TRANSPOSED = 8, SMALL_TILE = 16, SMALL_BLOCK = 64, LINE = 64 /* bytes */ };

static uint32_t bytes_of(const sc_kernel_printer *e, uint32_t arg)
{
    return sc_dtypes[e->k->args.data[arg].dtype].bytes;
}

static int64_t array_bytes(const sc_kernel_printer *e, uint32_t arg)
{
    int64_t bytes = bytes_of(e, arg);
    for (uint32_t i = 0; i < e->k->args.data[arg].rank; i++)
        bytes *= e->k->args.data[arg].sizes[i];
    return bytes;
}

/* True if the offset consists of dims and of params, which are known in the whole function. */
static bool is_plain(const sc_kernel_printer *e, const sc_printer_access *access)
{
    bool plain = true;
    for (uint32_t i = 0; i < access->count; i++) {
        const sc_printer_term *term = &access->terms[i];
        plain =
            plain && (term->dim != SC_NONE || e->k->nodes.data[term->node].kind == SC_NODE_param);
    }
    return plain;
}

static bool lies_across(const sc_kernel_printer *e, const sc_printer_access *access)
{
    uint32_t bytes = bytes_of(e, access->arg);
    return access->count > 0 && is_plain(e, access) && (bytes == 2 || bytes == 4) &&
           sc_printer_stride(e, access, e->shape.tile) == 1 &&
           sc_printer_is_far(sc_printer_stride(e, access, e->shape.vector));
}

/* True if this is the only access to the array, unconditional. */
static bool is_only_store(const sc_kernel_printer *e, uint32_t id)
{
    const sc_kernel *k = e->k;
    const sc_kernel_item *item = &k->items.data[id];
    if (item->kind != SC_ITEM_STORE || item->guard != SC_NONE ||
        k->args.data[item->arg].mode != SC_ARG_OUT)
        return false;
    bool only = true;
    for (uint32_t i = 0; i < k->items.count; i++) {
        bool writes = sc_item_writes(k->items.data[i].kind);
        only = only && (i == id || !writes || k->items.data[i].arg != item->arg);
    }
    for (sc_knode i = 0; i < k->nodes.count; i++)
        only = only && (e->nodes[i].uses == 0 || k->nodes.data[i].kind != SC_NODE_load ||
                        k->nodes.data[i].index != item->arg);
    return only;
}

/* Marks the loads and stores to transpose, at most MOST_TRANSPOSED, and returns their number. None
 * with checks: guarded elements must not be read early. */
static uint32_t mark_transposed(sc_kernel_printer *e)
{
    const sc_kernel *k = e->k;
    uint32_t count = 0;
    if (k->phases.count != 1 || e->check_count > 0)
        return 0;
    for (sc_knode i = 0; i < k->nodes.count && count < MOST_TRANSPOSED; i++) {
        const sc_kernel_node *node = &k->nodes.data[i];
        sc_printer_node *info = &e->nodes[i];
        if (node->kind != SC_NODE_load || info->uses == 0 ||
            k->args.data[node->index].mode != SC_ARG_IN)
            continue;
        info->transposed =
            node->count == k->args.data[node->index].rank && lies_across(e, &info->access);
        count += info->transposed;
    }
    for (uint32_t i = 0; i < k->items.count && count < MOST_TRANSPOSED; i++) {
        sc_printer_item *info = &e->items[i];
        info->transposed = is_only_store(e, i) && lies_across(e, &info->access);
        count += info->transposed;
    }
    return count;
}

static void mark_streams(sc_kernel_printer *e)
{
    for (uint32_t i = 0; i < e->k->items.count; i++) {
        sc_printer_item *info = &e->items[i];
        bool row = is_only_store(e, i) && is_plain(e, &info->access) &&
                   sc_printer_stride(e, &info->access, e->shape.vector) == 1;
        info->streamed = (info->transposed || row) &&
                         array_bytes(e, e->k->items.data[i].arg) >= e->limits->stream;
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t pieces(int64_t size, int64_t piece)
{
    return (size + piece - 1) / piece;
}

/* Tiles fit in L1 without staging arrays and in L2 with them, and there must be tiles for every
 * thread. */
void sc_c_choose_transposes(sc_kernel_printer *e, int64_t others)
{
    sc_printer_shape *shape = &e->shape;
    int64_t rows = e->k->dims.data[shape->tile].size, columns = e->k->dims.data[shape->vector].size;
    uint32_t count = mark_transposed(e);
    shape->tile_size = least(e->limits->tile, SMALL_TILE);
    shape->block = least(columns, least(e->limits->tile_block, SMALL_BLOCK));
    if (count == 0)
        return;
    mark_streams(e);
    shape->block = least(columns, e->limits->tile_block);
    int64_t smallest = shape->tile_size;
    while (shape->tile_size * 2 * count <= e->limits->tile)
        shape->tile_size *= 2;
    while (shape->tile_size > smallest &&
           others * pieces(columns, shape->block) * pieces(rows, shape->tile_size) <
               e->limits->split_shares)
        shape->tile_size /= 2;
    shape->tile_size = least(shape->tile_size, rows);
}

/* Row stride of a staging array: whole squares plus a cache line, so that the rows of a square do
 * not share a cache set. */
static int64_t row_of(const sc_kernel_printer *e, uint32_t arg)
{
    return pieces(e->shape.block, 8) * 8 + LINE / bytes_of(e, arg);
}

void sc_c_transposed_element(sc_kernel_printer *e, char letter, uint32_t id, uint32_t arg,
                             bool tile)
{
    const char *row = e->dim_names[e->shape.tile], *column = e->dim_names[e->shape.vector];
    sc_strbuf_printf(e->out->text, "%c%u[", letter, id);
    if (tile)
        sc_strbuf_printf(e->out->text, "(%s - %s_from) * %lld + ", row, row,
                         (long long)row_of(e, arg));
    sc_strbuf_add(e->out->text, column);
    if (sc_c_is_blocked(e))
        sc_strbuf_printf(e->out->text, " - %s_from", column);
    sc_strbuf_add_char(e->out->text, ']');
}

/* x + D_from + R_from * 768: the block's first element, in the tile's first row or in the current
 * one. */
static void first_text(sc_kernel_printer *e, const sc_printer_access *access, bool tile)
{
    sc_strbuf_add(e->out->text, e->arg_names[access->arg]);
    for (uint32_t i = 0; i < access->count; i++) {
        const sc_printer_term *term = &access->terms[i];
        if (term->dim == e->shape.vector && !sc_c_is_blocked(e))
            continue;
        bool first = term->dim == e->shape.vector || (tile && term->dim == e->shape.tile);
        sc_strbuf_add(e->out->text, term->times < 0 ? " - " : " + ");
        if (term->dim == SC_NONE)
            sc_printer_value(e, term->node, false);
        else
            sc_strbuf_printf(e->out->text, "%s%s", e->dim_names[term->dim], first ? "_from" : "");
        if (term->times != 1 && term->times != -1)
            sc_strbuf_printf(e->out->text, " * %lld",
                             (long long)(term->times < 0 ? -term->times : term->times));
    }
    if (access->constant != 0)
        sc_strbuf_printf(e->out->text, access->constant < 0 ? " - %lld" : " + %lld",
                         (long long)(access->constant < 0 ? -access->constant : access->constant));
}

static const char *count_text(const sc_kernel_printer *e, uint32_t dim)
{
    const char *name = e->dim_names[dim];
    if (dim == e->shape.vector && !sc_c_is_blocked(e))
        return sc_arena_printf(e->arena, "%lld", (long long)e->shape.block);
    return sc_arena_printf(e->arena, "%s_to - %s_from", name, name);
}

static void declare(sc_kernel_printer *e, char letter, uint32_t id, uint32_t arg, int64_t rows)
{
    sc_write_line(e->out, "%s %c%u[%lld] __attribute__((aligned(%d)));",
                  sc_printer_stored(e->k->args.data[arg].dtype), letter, id,
                  (long long)rows * row_of(e, arg), LINE);
}

void sc_c_transpose_in(sc_kernel_printer *e)
{
    const sc_printer_shape *shape = &e->shape;
    for (sc_knode i = 0; i < e->k->nodes.count; i++) {
        const sc_printer_access *access = &e->nodes[i].access;
        if (!e->nodes[i].transposed)
            continue;
        declare(e, 'q', i, access->arg, shape->tile_size);
        sc_write_indent(e->out);
        sc_strbuf_printf(e->out->text, "sc_transpose_b%u(", 8 * bytes_of(e, access->arg));
        first_text(e, access, true);
        sc_strbuf_printf(e->out->text, ", %lld, q%u, %lld, %s, %s);\n",
                         (long long)sc_printer_stride(e, access, shape->vector), i,
                         (long long)row_of(e, access->arg), count_text(e, shape->vector),
                         count_text(e, shape->tile));
    }
    for (uint32_t i = 0; i < e->k->items.count; i++) {
        if (e->items[i].transposed || e->items[i].streamed)
            declare(e, 'w', i, e->k->items.data[i].arg,
                    e->items[i].transposed ? shape->tile_size : 1);
    }
}

void sc_c_stream_row(sc_kernel_printer *e)
{
    for (uint32_t i = 0; i < e->k->items.count; i++) {
        if (!e->items[i].streamed || e->items[i].transposed)
            continue;
        sc_write_indent(e->out);
        sc_strbuf_add(e->out->text, "sc_stream(");
        first_text(e, &e->items[i].access, false);
        const char *count = count_text(e, e->shape.vector);
        sc_strbuf_printf(e->out->text, ", w%u, (%s) * %u);\n", i, count,
                         bytes_of(e, e->k->items.data[i].arg));
    }
}

void sc_c_transpose_out(sc_kernel_printer *e)
{
    const sc_printer_shape *shape = &e->shape;
    bool streamed = false;
    for (uint32_t i = 0; i < e->k->items.count; i++) {
        const sc_printer_access *access = &e->items[i].access;
        streamed |= e->items[i].streamed;
        if (!e->items[i].transposed)
            continue;
        sc_write_indent(e->out);
        sc_strbuf_printf(e->out->text, "sc_transpose_%sb%u(w%u, %lld, ",
                         e->items[i].streamed ? "out_" : "", 8 * bytes_of(e, access->arg), i,
                         (long long)row_of(e, access->arg));
        first_text(e, access, true);
        sc_strbuf_printf(e->out->text, ", %lld, %s, %s);\n",
                         (long long)sc_printer_stride(e, access, shape->vector),
                         count_text(e, shape->tile), count_text(e, shape->vector));
    }
    if (streamed)
        sc_write_line(e->out, "sc_streamed();");
}
