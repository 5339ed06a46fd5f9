/* The row cache: an expensive value needed by several phases over the same dims is computed by the
 * first and kept in an array if the row is short; softmax, for example, sums its exponentials and
 * then divides them. All else is recomputed, as the row is still in L1. */
#include "codegen/printer/printer.h"

bool sc_printer_is_expensive(sc_node_kind kind)
{
    return sc_node_rows[kind].is_expensive;
}

bool sc_printer_depends_on_all(const sc_kernel_printer *e, sc_knode node, uint32_t phase)
{
    bool all = true;
    for (uint32_t i = 0; i < e->k->phases.data[phase].dim_count; i++)
        all &= (e->nodes[node].dims >> e->k->phases.data[phase].dims[i] & 1) != 0;
    return all;
}

void sc_printer_choose_cached(sc_kernel_printer *e, bool (*may)(const sc_kernel_printer *e,
                                                                sc_knode node, uint32_t phase))
{
    const sc_kernel *k = e->k;
    uint32_t *first = sc_arena_array(e->arena, k->nodes.count + 1, sizeof *first);
    e->scopes.body = 0, e->scopes.inner = 0;
    for (uint32_t p = 0; p < k->phases.count; p++) {
        uint32_t item = k->phases.data[p].first_item;
        sc_printer_place(e, item, item + k->phases.data[p].item_count, 0);
        for (sc_knode i = 0; i < k->nodes.count; i++) {
            if (e->nodes[i].pass != e->scopes.pass || !may(e, i, p))
                continue;
            if (first[i] == 0)
                first[i] = p + 1;
            else if (sc_printer_same_dims(k, first[i] - 1, p))
                e->nodes[i].cached_from = first[i] - 1;
        }
    }
}
