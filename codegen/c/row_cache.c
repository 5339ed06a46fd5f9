/* In C, the row cache (printer/row_cache.c) is an array. */
#include "codegen/c/internal.h"

static int64_t points_of(const sc_kernel *k, uint32_t phase)
{
    int64_t points = 1;
    for (uint32_t i = 0; i < k->phases.data[phase].dim_count; i++)
        points *= k->dims.data[k->phases.data[phase].dims[i]].size;
    return points;
}

/* True for expensive nodes over a short row that do not change between phases. */
static bool may_cache(const sc_kernel_printer *e, sc_knode node, uint32_t phase)
{
    const sc_printer_node *info = &e->nodes[node];
    return sc_printer_is_expensive((sc_node_kind)e->k->nodes.data[node].kind) &&
           !info->reads_written && e->k->phases.data[phase].dim_count > 0 &&
           points_of(e->k, phase) <= e->limits->cached && sc_printer_depends_on_all(e, node, phase);
}

void sc_c_choose_row_cache(sc_kernel_printer *e)
{
    if (e->shape.vector == SC_NONE && !e->shape.split)
        sc_printer_choose_cached(e, may_cache);
}

void sc_c_cached_element(sc_kernel_printer *e, sc_knode node)
{
    const sc_kernel_phase *phase = &e->k->phases.data[e->phase.number];
    sc_strbuf_printf(e->out->text, "b%u[", node);
    int64_t strides[SC_KERNEL_MAX_RANK], stride = 1;
    for (uint32_t i = phase->dim_count; i-- > 0; stride *= e->k->dims.data[phase->dims[i]].size)
        strides[i] = stride;
    for (uint32_t i = 0; i < phase->dim_count; i++) {
        sc_strbuf_printf(e->out->text, "%s%s", i == 0 ? "" : " + ", e->dim_names[phase->dims[i]]);
        if (strides[i] != 1)
            sc_strbuf_printf(e->out->text, " * %lld", (long long)strides[i]);
    }
    sc_strbuf_add_char(e->out->text, ']');
}

/* Declares, in the body, the arrays that this phase fills. */
void sc_c_declare_row_cache(sc_kernel_printer *e)
{
    for (sc_knode i = 0; i < e->k->nodes.count; i++) {
        if (e->nodes[i].cached_from == e->phase.number)
            sc_write_line(e->out, "%s b%u[%lld];",
                          sc_printer_type((sc_dtype)e->k->nodes.data[i].dtype), i,
                          (long long)points_of(e->k, e->phase.number));
    }
}
