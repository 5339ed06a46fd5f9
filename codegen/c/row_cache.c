/* What a phase leaves to later ones (printer/row_cache.c) stands in an array. */
#include "codegen/c/internal.h"

static int64_t points_of(const sc_kernel *k, uint32_t phase)
{
    int64_t points = 1;
    for (uint32_t i = 0; i < k->phases.data[phase].dim_count; i++)
        points *= k->dims.data[k->phases.data[phase].dims[i]].size;
    return points;
}

/* Nodes whose phases so far are one, and what they depend on does not change on the way. */
static bool may_keep(const sc_emit *e, sc_knode node, uint32_t phase)
{
    const sc_emit_node *info = &e->nodes[node];
    return sc_emit_is_dear((sc_node_kind)e->k->nodes.data[node].kind) && !info->reads_written && e->k->phases.data[phase].dim_count > 0 &&
           points_of(e->k, phase) <= e->limits->kept && sc_emit_depends_on_all(e, node, phase);
}

void sc_emit_choose_kept(sc_emit *e)
{
    if (e->shape.vector == SC_IMAGE_NONE && !e->shape.split)
        sc_emit_keep(e, may_keep);
}

void sc_emit_kept_element(sc_emit *e, sc_knode node)
{
    const sc_kernel_phase *phase = &e->k->phases.data[e->phase];
    sc_strbuf_printf(e->out, "b%u[", node);
    int64_t strides[SC_KERNEL_MAX_RANK], stride = 1;
    for (uint32_t i = phase->dim_count; i-- > 0; stride *= e->k->dims.data[phase->dims[i]].size)
        strides[i] = stride;
    for (uint32_t i = 0; i < phase->dim_count; i++) {
        sc_strbuf_printf(e->out, "%s%s", i == 0 ? "" : " + ", e->dim_names[phase->dims[i]]);
        if (strides[i] != 1)
            sc_strbuf_printf(e->out, " * %lld", (long long)strides[i]);
    }
    sc_strbuf_add_char(e->out, ']');
}

/* The arrays that this phase fills, in the body. */
void sc_emit_declare_kept(sc_emit *e)
{
    for (sc_knode i = 0; i < e->k->nodes.count; i++) {
        if (e->nodes[i].kept_from == e->phase)
            sc_emit_line(e, "%s b%u[%lld];", sc_emit_type((sc_dtype)e->k->nodes.data[i].dtype), i, (long long)points_of(e->k, e->phase));
    }
}
