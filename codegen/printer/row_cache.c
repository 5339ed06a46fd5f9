/* What is dear and needed by several phases over the same dims is computed by the first and left in an array, if the row is short: the
 * exponentials of softmax are summed, and then divided. All else is computed again: the row is still in the first cache. */
#include "codegen/printer/printer.h"

bool sc_emit_is_dear(sc_node_kind kind)
{
    switch (kind) {
    case SC_NODE_exp:
    case SC_NODE_log:
    case SC_NODE_sin:
    case SC_NODE_cos:
    case SC_NODE_tanh:
    case SC_NODE_erf:
    case SC_NODE_pow:
    case SC_NODE_random:
        return true;
    default:
        return false;
    }
}

static bool same_dims(const sc_kernel *k, uint32_t a, uint32_t b)
{
    const sc_kernel_phase *first = &k->phases.data[a], *second = &k->phases.data[b];
    bool same = first->dim_count == second->dim_count;
    for (uint32_t i = 0; same && i < first->dim_count; i++)
        same = first->dims[i] == second->dims[i];
    return same;
}

static int64_t points_of(const sc_kernel *k, uint32_t phase)
{
    int64_t points = 1;
    for (uint32_t i = 0; i < k->phases.data[phase].dim_count; i++)
        points *= k->dims.data[k->phases.data[phase].dims[i]].size;
    return points;
}

bool sc_emit_depends_on_all(const sc_emit *e, sc_knode node, uint32_t phase)
{
    bool all = true;
    for (uint32_t i = 0; i < e->k->phases.data[phase].dim_count; i++)
        all &= (e->nodes[node].dims >> e->k->phases.data[phase].dims[i] & 1) != 0;
    return all;
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

void sc_emit_keep(sc_emit *e, bool (*may)(const sc_emit *e, sc_knode node, uint32_t phase))
{
    const sc_kernel *k = e->k;
    uint32_t *first = sc_arena_array(e->arena, k->nodes.count + 1, sizeof *first);
    e->body = 0, e->inner = 0;
    for (uint32_t p = 0; p < k->phases.count; p++) {
        uint32_t item = k->phases.data[p].first_item;
        sc_emit_place(e, item, item + k->phases.data[p].item_count, 0);
        for (sc_knode i = 0; i < k->nodes.count; i++) {
            if (e->nodes[i].pass != e->pass || !may(e, i, p))
                continue;
            if (first[i] == 0)
                first[i] = p + 1;
            else if (same_dims(k, first[i] - 1, p))
                e->nodes[i].kept_from = first[i] - 1;
        }
    }
}

/* Whether the phase that is being written finds it there. */
bool sc_emit_is_kept(const sc_emit *e, sc_knode node)
{
    uint32_t from = e->nodes[node].kept_from;
    return from != SC_IMAGE_NONE && e->phase > from && same_dims(e->k, from, e->phase);
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
