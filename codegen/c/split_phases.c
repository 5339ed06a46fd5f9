/* Kernels with few outer iterations and much work in each: a norm, the gradient of a bias. Each
 * phase is parallelized separately and, within an outer iteration, split along one of its dims. A
 * split puts its partial results in c3, one per outer iteration and split; they are combined in
 * order to q3, which later phases read as r3. The number of splits depends on sizes alone, so
 * results do not depend on the number of threads. */
#include "codegen/c/internal.h"

static bool may_cut(const sc_kernel_printer *e, uint32_t phase_index)
{
    const sc_kernel_phase *phase = &e->k->phases.data[phase_index];
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        if (e->items[i].running || e->k->items.data[i].kind == SC_ITEM_ADD)
            return false;
    }
    return phase->dim_count > 0;
}

static int64_t outer_points(const sc_kernel_printer *e)
{
    int64_t points = 1;
    for (uint32_t i = 0; i < e->k->outer_count; i++)
        points *= sc_printer_size_of(e, i);
    return points;
}

static double phase_points(const sc_kernel_printer *e, uint32_t phase_index)
{
    const sc_kernel_phase *phase = &e->k->phases.data[phase_index];
    double points = 1;
    for (uint32_t i = 0; i < phase->dim_count; i++)
        points *= (double)sc_printer_size_of(e, phase->dims[i]);
    return points;
}

/* True if most points are in phases that can be split. With checks it is false: an iteration that a
 * check ends would have to be skipped in later phases. */
bool sc_c_may_split(const sc_kernel_printer *e)
{
    double cut = 0, whole = 0;
    for (uint32_t p = 0; p < e->k->phases.count; p++)
        *(may_cut(e, p) ? &cut : &whole) += phase_points(e, p);
    return e->check_count == 0 && cut > whole && outer_points(e) <= e->limits->split_memory / 8;
}

/* ---- results ---- */

static bool is_of_vector(const sc_kernel_printer *e, uint32_t item)
{
    return e->shape.vector != SC_NONE &&
           (e->nodes[e->k->items.data[item].value].dims >> e->shape.vector & 1) != 0;
}

/* The number of distinct results of an item over the outer iterations. */
static int64_t result_count(const sc_kernel_printer *e, uint32_t item)
{
    int64_t count = is_of_vector(e, item) ? sc_printer_size_of(e, e->shape.vector) : 1;
    for (uint32_t i = 0; i < e->shape.order_count; i++)
        count *= sc_printer_size_of(e, e->shape.order[i]);
    return count;
}

static sc_dtype partial_dtype(const sc_kernel_printer *e, uint32_t item)
{
    bool wide =
        e->k->items.data[item].kind == SC_ITEM_SUM && sc_printer_dtype_of(e, item) == SC_DTYPE_f32;
    return wide ? SC_DTYPE_f64 : sc_printer_dtype_of(e, item);
}

/* " + S * 768 + D_from": the offset of the outer iteration's results; for a split, after the
 * results of earlier ones. */
static void result_offset(sc_kernel_printer *e, uint32_t item)
{
    int64_t stride = is_of_vector(e, item) ? sc_printer_size_of(e, e->shape.vector) : 1;
    int64_t strides[64];
    for (uint32_t i = e->shape.order_count; i-- > 0;
         stride *= sc_printer_size_of(e, e->shape.order[i]))
        strides[i] = stride;
    for (uint32_t i = 0; i < e->shape.order_count; i++) {
        sc_strbuf_printf(e->out->text, " + %s", e->dim_names[e->shape.order[i]]);
        if (strides[i] != 1)
            sc_strbuf_printf(e->out->text, " * %lld", (long long)strides[i]);
    }
    if (is_of_vector(e, item) && e->shape.block < sc_printer_size_of(e, e->shape.vector))
        sc_strbuf_printf(e->out->text, " + %s_from", e->dim_names[e->shape.vector]);
}

static void read_results(sc_kernel_printer *e, uint32_t phase)
{
    for (uint32_t i = 0; i < e->k->items.count; i++) {
        if (!sc_item_reduces(e->k->items.data[i].kind) || !sc_printer_phase_reads(e, phase, i))
            continue;
        const char *type = sc_printer_type(sc_printer_dtype_of(e, i));
        sc_write_indent(e->out);
        if (is_of_vector(e, i)) {
            sc_strbuf_printf(e->out->text, "const %s *const r%u = q%u", type, i, i);
            result_offset(e, i);
            sc_strbuf_add(e->out->text, ";\n");
        } else {
            sc_strbuf_printf(e->out->text, "const %s r%u = q%u[0", type, i, i);
            result_offset(e, i);
            sc_strbuf_add(e->out->text, "];\n");
        }
    }
}

/* The offset of a split's results. */
static const char *cut_offset(sc_kernel_printer *e, uint32_t item)
{
    int64_t count = result_count(e, item);
    return count == 1 ? "cut" : sc_arena_printf(e->arena, "cut * %lld", (long long)count);
}

static void write_results(sc_kernel_printer *e, uint32_t phase_index, bool cut)
{
    const sc_kernel_phase *phase = &e->k->phases.data[phase_index];
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        if (!sc_item_reduces(e->k->items.data[i].kind))
            continue;
        const char *cuts = cut ? cut_offset(e, i) : "0";
        bool blocked =
            is_of_vector(e, i) && e->shape.block < sc_printer_size_of(e, e->shape.vector);
        const char *name = is_of_vector(e, i) ? e->dim_names[e->shape.vector] : "";
        char letter = cut && e->items[i].wide ? 's' : 'r';
        if (blocked)
            sc_write_line(e->out, "for (int64_t i = 0; i < %s_to - %s_from; i++)", name, name);
        else if (is_of_vector(e, i))
            sc_write_line(e->out, "for (int64_t i = 0; i < %lld; i++)",
                          (long long)sc_printer_size_of(e, e->shape.vector));
        sc_write_indent(e->out);
        sc_strbuf_printf(e->out->text, "%s%c%u[%s", is_of_vector(e, i) ? "    " : "",
                         cut ? 'c' : 'q', i, cuts);
        result_offset(e, i);
        sc_strbuf_printf(e->out->text, is_of_vector(e, i) ? " + i] = %c%u[i];\n" : "] = %c%u;\n",
                         letter, i);
    }
}

static void combine(sc_kernel_printer *e, uint32_t item, int64_t cuts)
{
    sc_item_kind kind = e->k->items.data[item].kind;
    sc_dtype dtype = partial_dtype(e, item);
    long long count = result_count(e, item);
    if (count > 1)
        sc_write_line(e->out, "#pragma omp for schedule(static)");
    else
        sc_write_line(e->out, "#pragma omp single");
    sc_write_open(e->out, "for (int64_t i = 0; i < %lld; i++)", count);
    sc_write_line(e->out, "%s r = c%u[i];", sc_printer_type(dtype), item);
    sc_write_line(e->out, "for (int64_t cut = 1; cut < %lld; cut++)", (long long)cuts);
    const char *part = sc_arena_printf(e->arena, "c%u[%s + i]", item, cut_offset(e, item));
    const char *which = kind == SC_ITEM_MAX ? "max" : "min";
    if (kind == SC_ITEM_SUM)
        sc_write_line(e->out, "    r += %s;", part);
    else if (sc_dtype_is_float(dtype))
        sc_write_line(e->out, "    r = sc_%s_%s(r, %s);", which, sc_dtypes[dtype].name, part);
    else
        sc_write_line(e->out, "    r = %s %s r ? %s : r;", part, kind == SC_ITEM_MAX ? ">" : "<",
                      part);
    sc_write_line(e->out, "q%u[i] = %sr;", item,
                  dtype == sc_printer_dtype_of(e, item) ? "" : "(float)");
    sc_write_close(e->out);
}

static void combine_all(sc_kernel_printer *e, const sc_kernel_phase *phase, int64_t cuts)
{
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        if (sc_item_reduces(e->k->items.data[i].kind))
            combine(e, i, cuts);
    }
}

/* ---- phases ---- */

/* Chooses the dim to split and e->phase.cut_size; returns the number of splits, 1 for none. */
static int64_t choose_cuts(sc_kernel_printer *e, uint32_t phase_index)
{
    const sc_kernel_phase *phase = &e->k->phases.data[phase_index];
    e->phase.cut = SC_NONE;
    if (!may_cut(e, phase_index))
        return 1;
    uint32_t dim = phase->dims[0];
    for (uint32_t i = 1; i < phase->dim_count; i++)
        dim = sc_printer_size_of(e, phase->dims[i]) > sc_printer_size_of(e, dim) ? phase->dims[i]
                                                                                 : dim;
    double lanes = e->shape.vector == SC_NONE ? 1 : (double)e->shape.block;
    double most = phase_points(e, phase_index) * lanes / (double)e->limits->split_points;
    int64_t shares =
        outer_points(e) / (e->shape.vector == SC_NONE ? 1 : sc_printer_size_of(e, e->shape.vector));
    if (e->shape.vector != SC_NONE)
        shares *= (sc_printer_size_of(e, e->shape.vector) + e->shape.block - 1) / e->shape.block;
    int64_t cuts = (e->limits->shares + shares - 1) / shares;
    cuts = (double)cuts > most ? (int64_t)most : cuts;
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        int64_t memory = e->limits->split_memory / e->k->items.count;
        if (sc_item_reduces(e->k->items.data[i].kind) && cuts > memory / result_count(e, i))
            cuts = memory / result_count(e, i);
    }
    if (cuts <= 1 || sc_printer_size_of(e, dim) < 2)
        return 1;
    e->phase.cut = dim;
    e->phase.cut_size = (sc_printer_size_of(e, dim) + cuts - 1) / cuts;
    if (e->phase.cut_size > 64)
        e->phase.cut_size = (e->phase.cut_size + 63) / 64 * 64;
    cuts = (sc_printer_size_of(e, dim) + e->phase.cut_size - 1) / e->phase.cut_size;
    e->phase.cut = cuts > 1 ? dim : SC_NONE;
    return cuts;
}

static void open_cut(sc_kernel_printer *e, int64_t cuts)
{
    sc_write_open(e->out, "for (int64_t cut = 0; cut < %lld; cut++)", (long long)cuts);
}

static void begin_cut(sc_kernel_printer *e)
{
    const char *name = e->dim_names[e->phase.cut];
    long long size = sc_printer_size_of(e, e->phase.cut), part = e->phase.cut_size;
    sc_write_line(e->out, "const int64_t %s_first = cut * %lld;", name, part);
    if (size % part == 0)
        sc_write_line(e->out, "const int64_t %s_end = %s_first + %lld;", name, name, part);
    else
        sc_write_line(e->out, "const int64_t %s_end = %s_first < %lld ? %s_first + %lld : %lld;",
                      name, name, size - part, name, part, size);
}

static void split_phase(sc_kernel_printer *e, uint32_t phase_index)
{
    const sc_kernel_phase *phase = &e->k->phases.data[phase_index];
    int64_t cuts = choose_cuts(e, phase_index);
    uint32_t loops = sc_c_outer_loops(e), all = loops + (cuts > 1);
    if (all == 0)
        sc_write_line(e->out, "#pragma omp single");
    else if (all == 1)
        sc_write_line(e->out, "#pragma omp for schedule(static)");
    else
        sc_write_line(e->out, "#pragma omp for schedule(static) collapse(%u)", all);
    for (uint32_t l = 0; l < loops; l++)
        sc_c_open_outer_loop(e, l);
    if (cuts > 1)
        open_cut(e, cuts);
    if (all == 0)
        sc_write_open_block(e->out);
    if (loops > e->shape.order_count)
        sc_c_block_end(e, e->shape.vector, e->shape.block);
    if (cuts > 1)
        begin_cut(e);
    read_results(e, phase_index);
    sc_c_phase(e, phase_index);
    sc_printer_leave(e, e->scopes.body);
    write_results(e, phase_index, cuts > 1);
    for (uint32_t l = 0; l < (all == 0 ? 1 : all); l++)
        sc_write_close(e->out);
    if (cuts > 1)
        combine_all(e, phase, cuts);
    e->phase.cut = SC_NONE;
}

void sc_c_split(sc_kernel_printer *e)
{
    for (uint32_t p = 0; p < e->k->phases.count; p++) {
        const sc_kernel_phase *phase = &e->k->phases.data[p];
        int64_t cuts = choose_cuts(e, p);
        for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
            if (!sc_item_reduces(e->k->items.data[i].kind))
                continue;
            long long count = result_count(e, i);
            if (cuts > 1)
                sc_write_line(e->out, "%s c%u[%lld];", sc_printer_type(partial_dtype(e, i)), i,
                              cuts * count);
            sc_write_line(e->out, "%s q%u[%lld];", sc_printer_type(sc_printer_dtype_of(e, i)), i,
                          count);
        }
    }
    sc_write_line(e->out, "#pragma omp parallel");
    sc_write_open_block(e->out);
    for (uint32_t p = 0; p < e->k->phases.count; p++)
        split_phase(e, p);
    sc_write_close(e->out);
}
