/* The lanes of a point: neighbours that a thread processes in an unrolled loop. Contiguous loads
 * are done as one vector load before the loop, to l5 for node 5; contiguous stores go to w3, for
 * item 3, and are stored after it. */
#include <string.h>

#include "codegen/cuda/internal.h"

/* ---- guards ---- */

enum { DEEPEST = 8 }; /* nested conditions */

/* True if a - b < shift is the same for all lanes: if it changes at a multiple of `lanes`. */
static bool changes_between_runs(const sc_cuda_printer *c, const sc_knode *operands, int64_t shift,
                                 uint32_t dim, int lanes)
{
    sc_form d = {0};
    int64_t direction = 0;
    if (!sc_form_add(&d, &c->forms[operands[0]], 1) || !sc_form_add(&d, &c->forms[operands[1]], -1))
        return false;
    for (uint32_t i = 0; i < d.count; i++) {
        const sc_kernel_node *node = &c->e.k->nodes.data[d.terms[i].sub_axis];
        bool is_lane = node->kind == SC_NODE_index && node->index == dim;
        bool varies = (c->e.nodes[d.terms[i].sub_axis].dims >> dim & 1) != 0;
        if (is_lane)
            direction = d.terms[i].factor;
        else if (d.terms[i].factor % lanes != 0 || (varies && d.terms[i].factor != 0))
            return false;
    }
    /* E + constant < shift, or constant - E < shift, which is not E < constant - shift + 1 */
    int64_t place = direction == 1 ? d.constant - shift : d.constant - shift + 1;
    return (direction == 1 || direction == -1) && place % lanes == 0;
}

/* True if the condition is the same for all lanes of a run along `dim`. */
static bool is_uniform(const sc_cuda_printer *c, sc_knode condition, uint32_t dim, int lanes,
                       int depth)
{
    const sc_kernel_node *node = &c->e.k->nodes.data[condition];
    const sc_knode *operands = sc_kernel_operands(c->e.k, condition);
    if ((c->e.nodes[condition].dims >> dim & 1) == 0)
        return true;
    if (depth == DEEPEST)
        return false;
    switch (node->kind) {
    case SC_NODE_not:
        return is_uniform(c, operands[0], dim, lanes, depth + 1);
    case SC_NODE_and:
    case SC_NODE_or:
        return is_uniform(c, operands[0], dim, lanes, depth + 1) &&
               is_uniform(c, operands[1], dim, lanes, depth + 1);
    case SC_NODE_lt:
    case SC_NODE_ge:
    case SC_NODE_le:
    case SC_NODE_gt:
        return c->e.k->nodes.data[operands[0]].dtype == SC_DTYPE_i64 &&
               changes_between_runs(c, operands,
                                    node->kind == SC_NODE_lt || node->kind == SC_NODE_ge ? 0 : 1,
                                    dim, lanes);
    default:
        return false;
    }
}

/* True if the guard of a run can be tested once, before the loop over lanes. */
static bool at_point(const sc_cuda_printer *c, sc_knode guard, uint32_t dim, int lanes)
{
    return guard == SC_NONE || c->e.nodes[guard].depth < SC_CUDA_LANES ||
           (c->e.nodes[guard].depth == SC_CUDA_LANES && is_uniform(c, guard, dim, lanes, 0));
}

/* The guard at the first lane. Nodes of the lanes' scope have no names yet: their text is the
 * guard's. */
static void guard_text(sc_cuda_printer *c, sc_knode guard, uint32_t dim)
{
    const char *name = c->e.dim_names[dim];
    c->e.dim_names[dim] = sc_cuda_first_lane(c, dim);
    sc_printer_value(&c->e, guard, true);
    c->e.dim_names[dim] = name;
}

/* ---- runs ---- */

static sc_knode guard_of(const sc_kernel *k, sc_knode id)
{
    const sc_kernel_node *node = &k->nodes.data[id];
    uint32_t rank = k->args.data[node->index].rank;
    return node->count > rank ? sc_kernel_operands(k, id)[rank] : SC_NONE;
}

/* An ADD reads its element first: no other item may write the argument in between. */
static bool writes_alone(const sc_cuda_printer *c, uint32_t item, uint32_t first, uint32_t end)
{
    const sc_kernel *k = c->e.k;
    if (k->items.data[item].kind != SC_ITEM_ADD)
        return k->items.data[item].kind == SC_ITEM_STORE;
    for (uint32_t i = first; i < end; i++) {
        if (i != item && sc_item_writes(k->items.data[i].kind) &&
            k->items.data[i].arg == k->items.data[item].arg)
            return false;
    }
    return true;
}

static void choose_runs(sc_cuda_printer *c, uint32_t dim, int lanes, uint32_t first, uint32_t end)
{
    const sc_kernel *k = c->e.k;
    for (sc_knode i = 0; i < k->nodes.count; i++) {
        const sc_printer_node *info = &c->e.nodes[i];
        bool here = dim != SC_NONE && k->nodes.data[i].kind == SC_NODE_load &&
                    info->pass == c->e.scopes.pass && info->depth == SC_CUDA_LANES &&
                    !sc_printer_is_cached(&c->e, i);
        c->run_of_load[i] = here && at_point(c, guard_of(k, i), dim, lanes) &&
                            sc_cuda_is_run(c, &info->access, dim, lanes);
    }
    for (uint32_t i = first; i < end; i++) {
        const sc_kernel_item *item = &k->items.data[i];
        c->run_of_item[i] = dim != SC_NONE && writes_alone(c, i, first, end) &&
                            at_point(c, item->guard, dim, lanes) &&
                            sc_cuda_is_run(c, &c->e.items[i].access, dim, lanes);
    }
}

/* Emits the address of the first lane's element. */
static void address(sc_cuda_printer *c, const sc_printer_access *access, uint32_t dim)
{
    sc_kernel_printer *e = &c->e;
    const char *name = e->dim_names[dim];
    e->dim_names[dim] = sc_cuda_first_lane(c, dim);
    sc_strbuf_printf(e->out->text, "%s + ", e->arg_names[access->arg]);
    sc_printer_offset_text(e, access, SC_CUDA_LANES);
    e->dim_names[dim] = name;
}

static void load_runs(sc_cuda_printer *c, uint32_t dim, int lanes)
{
    sc_kernel_printer *e = &c->e;
    for (sc_knode i = 0; i < e->k->nodes.count; i++) {
        if (!c->run_of_load[i])
            continue;
        const sc_printer_access *access = &e->nodes[i].access;
        const char *type = sc_printer_stored(e->k->args.data[access->arg].dtype);
        sc_knode guard = guard_of(e->k, i);
        sc_write_indent(e->out);
        if (guard == SC_NONE) {
            sc_strbuf_printf(e->out->text, "const sc_run<%s, %d> l%u = sc_load_run<%d>(", type,
                             lanes, i, lanes);
        } else {
            sc_strbuf_printf(e->out->text, "sc_run<%s, %d> l%u = {};\n", type, lanes, i);
            sc_write_indent(e->out);
            sc_strbuf_add(e->out->text, "if (");
            guard_text(c, guard, dim);
            sc_strbuf_printf(e->out->text, ")\n");
            sc_write_indent(e->out);
            sc_strbuf_printf(e->out->text, "    l%u = sc_load_run<%d>(", i, lanes);
        }
        address(c, access, dim);
        sc_strbuf_add(e->out->text, ");\n");
    }
}

static void declare_stored_runs(sc_cuda_printer *c, uint32_t dim, int lanes, uint32_t first,
                                uint32_t end)
{
    sc_kernel_printer *e = &c->e;
    for (uint32_t i = first; i < end; i++) {
        if (!c->run_of_item[i])
            continue;
        const sc_kernel_item *item = &e->k->items.data[i];
        sc_write_line(e->out, "sc_run<%s, %d> w%u%s;",
                      sc_printer_stored(e->k->args.data[item->arg].dtype), lanes, i,
                      item->guard == SC_NONE ? "" : " = {}");
        if (item->kind != SC_ITEM_ADD)
            continue;
        sc_write_indent(e->out);
        if (item->guard != SC_NONE) {
            sc_strbuf_add(e->out->text, "if (");
            guard_text(c, item->guard, dim);
            sc_strbuf_add(e->out->text, ")\n");
            sc_write_indent(e->out);
            sc_strbuf_add(e->out->text, "    ");
        }
        sc_strbuf_printf(e->out->text, "w%u = sc_load_run<%d>(", i, lanes);
        address(c, &e->items[i].access, dim);
        sc_strbuf_add(e->out->text, ");\n");
    }
}

static void store_runs(sc_cuda_printer *c, uint32_t dim, uint32_t first, uint32_t end)
{
    sc_kernel_printer *e = &c->e;
    for (uint32_t i = first; i < end; i++) {
        if (!c->run_of_item[i])
            continue;
        sc_knode guard = e->k->items.data[i].guard;
        sc_write_indent(e->out);
        if (guard != SC_NONE) {
            sc_strbuf_add(e->out->text, "if (");
            guard_text(c, guard, dim);
            sc_strbuf_printf(e->out->text, ")\n");
            sc_write_indent(e->out);
            sc_strbuf_add(e->out->text, "    ");
        }
        sc_strbuf_add(e->out->text, "sc_store_run(");
        address(c, &e->items[i].access, dim);
        sc_strbuf_printf(e->out->text, ", w%u);\n", i);
    }
}

void sc_cuda_point_text(sc_cuda_printer *c, uint32_t phase_index, uint32_t first, uint32_t end)
{
    sc_kernel_printer *e = &c->e;
    uint32_t dim = sc_cuda_lane_dim(c, phase_index);
    int lanes = c->phases[phase_index].lanes;
    sc_printer_scope(e, SC_CUDA_POINT, first, end);
    choose_runs(c, dim, lanes, first, end);
    if (dim != SC_NONE) {
        load_runs(c, dim, lanes);
        declare_stored_runs(c, dim, lanes, first, end);
        sc_write_line(e->out, "#pragma unroll");
        sc_write_open(e->out, "for (int lane = 0; lane < %d; lane++)", lanes);
        sc_write_line(e->out, "const %s %s = %s + lane;", sc_cuda_index_type(c), e->dim_names[dim],
                      sc_cuda_first_lane(c, dim));
    }
    sc_printer_scope(e, SC_CUDA_LANES, first, end);
    sc_printer_leave(e, SC_CUDA_LANES);
    if (dim != SC_NONE) {
        sc_write_close(e->out);
        store_runs(c, dim, first, end);
    }
    memset(c->run_of_load, 0, e->k->nodes.count * sizeof *c->run_of_load);
    memset(c->run_of_item, 0, e->k->items.count * sizeof *c->run_of_item);
}
