/* Kernels that add rows at given ids: the gradient of an embedding. Their phases store zeros along
 * a dim of the written argument and add at loaded positions along it. Additions to one position are
 * in order, so a block owns a range of positions and the points that go there. The lanes of a warp
 * find these among 1024 points, lane i keeping a bit set of the i-th 32; then all lanes process
 * them one after the other, each for its own columns. */
#include "codegen/cuda/internal.h"

enum { AT_ONCE = 8 /* points that a lane examines at once, to overlap their loads */ };

static sc_knode place_of(const sc_cuda_printer *c, uint32_t item, uint32_t position)
{
    return c->e.k->operands.data[c->e.k->items.data[item].first + position];
}

/* True if lanes can compute the node for their own points: it is the same for all columns, and its
 * loads are valid regardless of checks. */
static bool is_of_point(const sc_cuda_printer *c, sc_knode id, uint64_t dims)
{
    const sc_kernel *k = c->e.k;
    const sc_printer_node *info = &c->e.nodes[id];
    if ((info->dims & ~dims) != 0 || info->late || info->reads_written)
        return false;
    if (k->nodes.data[id].kind == SC_NODE_load && info->has_load)
        return false;
    for (uint32_t i = 0; i < info->child_count; i++) {
        if (!is_of_point(c, info->children[i], dims))
            return false;
    }
    return true;
}

/* The phase's first item that writes; SC_NONE if none. */
static uint32_t writer_of(const sc_kernel *k, uint32_t phase_index)
{
    const sc_kernel_phase *phase = &k->phases.data[phase_index];
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        if (sc_item_writes(k->items.data[i].kind))
            return i;
    }
    return SC_NONE;
}

/* True if the phase has only checks and at most one writing item. */
static bool is_simple(const sc_kernel *k, uint32_t phase_index)
{
    const sc_kernel_phase *phase = &k->phases.data[phase_index];
    uint32_t writer = writer_of(k, phase_index);
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        if (k->items.data[i].kind != SC_ITEM_CHECK && i != writer)
            return false;
    }
    return true;
}

/* The phase's dim that covers all of the argument's `position`; SC_NONE if none. */
static uint32_t walks(const sc_cuda_printer *c, uint32_t phase_index, uint32_t position)
{
    const sc_kernel *k = c->e.k;
    uint32_t writer = writer_of(k, phase_index);
    if (writer == SC_NONE)
        return SC_NONE;
    const sc_kernel_node *place = &k->nodes.data[place_of(c, writer, position)];
    bool all = place->kind == SC_NODE_index &&
               (sc_kernel_phase_dims(k, phase_index) >> place->index & 1) != 0 &&
               k->dims.data[place->index].size == c->stage.form.whole &&
               k->phases.data[phase_index].item_count == 1;
    return all ? place->index : SC_NONE;
}

static bool phase_fits(const sc_cuda_printer *c, uint32_t phase_index, uint32_t position)
{
    const sc_kernel *k = c->e.k;
    const sc_kernel_phase *phase = &k->phases.data[phase_index];
    uint64_t dims = sc_kernel_phase_dims(k, phase_index);
    if (walks(c, phase_index, position) != SC_NONE)
        return true;
    uint32_t writer = writer_of(k, phase_index);
    if (phase->dim_count == 0 ||
        (writer != SC_NONE && !is_of_point(c, place_of(c, writer, position), dims)))
        return false;
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        const sc_kernel_item *item = &k->items.data[i];
        bool fits = item->kind == SC_ITEM_CHECK
                        ? is_of_point(c, item->value, dims)
                        : item->guard == SC_NONE || is_of_point(c, item->guard, dims);
        if (!fits)
            return false;
    }
    return true;
}

static bool shares(const sc_cuda_printer *c, uint32_t out)
{
    if (!c->e.arg_shared[out])
        return false;
    for (uint32_t i = 0; i < c->e.k->args.count; i++) {
        if (c->e.arg_shared[i] && sc_kernel_may_share(c->e.k, i, out))
            return true;
    }
    return false;
}

bool sc_cuda_plan_scatter(sc_cuda_printer *c)
{
    const sc_kernel *k = c->e.k;
    uint32_t arg = SC_NONE;
    for (uint32_t p = 0; p < k->phases.count; p++) {
        uint32_t writer = writer_of(k, p);
        bool writes = writer != SC_NONE;
        if (!is_simple(k, p) || (writes && arg != SC_NONE && k->items.data[writer].arg != arg))
            return false;
        arg = writes ? k->items.data[writer].arg : arg;
    }
    if (arg == SC_NONE || c->e.writes_read || c->teams % SC_CUDA_WARP != 0 || shares(c, arg))
        return false;
    for (uint32_t position = 0; position < k->args.data[arg].rank; position++) {
        c->stage.form.whole = k->args.data[arg].sizes[position];
        bool fits = c->stage.form.whole > 1;
        for (uint32_t p = 0; fits && p < k->phases.count; p++)
            fits = phase_fits(c, p, position);
        if (!fits)
            continue;
        int64_t parts = c->limits->wanted / c->teams;
        parts = parts < 1 ? 1 : parts > c->stage.form.whole ? c->stage.form.whole : parts;
        c->stage.form.per_part = (c->stage.form.whole + parts - 1) / parts;
        c->stage.form.parts =
            (c->stage.form.whole + c->stage.form.per_part - 1) / c->stage.form.per_part;
        c->stage.form.position = position;
        c->stage.form.scatters = true;
        c->stage.form.threads = c->limits->threads;
        while (c->teams % c->stage.form.threads != 0)
            c->stage.form.threads -= SC_CUDA_WARP;
        return true;
    }
    return false;
}

/* ---- text ---- */

/* Emits the condition that a point is relevant: a check fails, or it writes into the block's
 * range. */
static void matters(sc_cuda_printer *c, uint32_t phase_index)
{
    sc_kernel_printer *e = &c->e;
    const sc_kernel_phase *phase = &e->k->phases.data[phase_index];
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        const sc_kernel_item *item = &e->k->items.data[i];
        if (item->kind == SC_ITEM_CHECK) {
            sc_write_indent(e->out);
            sc_strbuf_add(e->out->text, "wanted |= !(");
            sc_printer_value(e, item->value, true);
            sc_strbuf_add(e->out->text, ");\n");
            continue;
        }
        sc_write_indent(e->out);
        sc_strbuf_add(e->out->text, "const int64_t place = ");
        sc_printer_value(e, place_of(c, i, c->stage.form.position), true);
        sc_strbuf_add(e->out->text, ";\n");
        sc_write_indent(e->out);
        sc_strbuf_add(e->out->text, "wanted |= place >= first && place < last");
        if (item->guard != SC_NONE) {
            sc_strbuf_add(e->out->text, " && ");
            sc_printer_value(e, item->guard, false);
        }
        sc_strbuf_add(e->out->text, ";\n");
    }
}

void sc_cuda_open_scatter(sc_cuda_printer *c, uint32_t phase_index)
{
    sc_kernel_printer *e = &c->e;
    const sc_kernel_phase *phase = &e->k->phases.data[phase_index];
    const char *type = sc_cuda_index_type(c);
    long long points = c->phases[phase_index].points;
    uint32_t along = walks(c, phase_index, c->stage.form.position);
    if (along != SC_NONE) {
        for (uint32_t i = 0; i < phase->dim_count; i++) {
            const char *name = e->dim_names[phase->dims[i]];
            if (phase->dims[i] == along)
                sc_write_open(e->out, "for (%s %s = first; %s < last; %s++)", type, name, name,
                              name);
            else
                sc_write_open(e->out, "for (%s %s = 0; %s < %lld; %s++)", type, name, name,
                              (long long)e->k->dims.data[phase->dims[i]].size, name);
        }
        return;
    }
    int64_t parts = (points + SC_CUDA_WARP - 1) / SC_CUDA_WARP;
    parts = parts < SC_CUDA_WARP ? parts : SC_CUDA_WARP;
    sc_write_open(e->out, "for (%s some = 0; some < %lld; some += %lld)", type, points,
                  (long long)parts * SC_CUDA_WARP);
    sc_write_line(e->out, "uint32_t found = 0;");
    sc_write_line(e->out, "#pragma unroll %d", AT_ONCE);
    sc_write_open(e->out, "for (int part = 0; part < %lld; part++)", (long long)parts);
    sc_write_line(e->out, "const %s point = some + part * %d + sc_lane();", type, SC_CUDA_WARP);
    sc_write_line(e->out, "bool wanted = false;");
    sc_write_open(e->out, "if (point < %lld)", points);
    sc_cuda_point_indices(c, phase_index);
    matters(c, phase_index);
    sc_write_close(e->out);
    sc_write_line(e->out, "const uint32_t set = sc_ballot(wanted);");
    sc_write_line(e->out, "found = part == sc_lane() ? set : found;");
    sc_write_close(e->out);
    sc_write_open(e->out,
                  "for (uint32_t parts = sc_ballot(found != 0); parts != 0; parts &= parts - 1)");
    sc_write_line(e->out, "const int part = sc_lowest_bit(parts);");
    sc_write_open(e->out, "for (uint32_t set = sc_shuffle(found, part); set != 0; set &= set - 1)");
    sc_write_line(e->out, "const %s point = some + part * %d + sc_lowest_bit(set);", type,
                  SC_CUDA_WARP);
    sc_cuda_point_indices(c, phase_index);
}
