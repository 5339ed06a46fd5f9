/* How much a kernel moves. An access touches at most as many elements as there are points of the
 * dims that its indices depend on, and no more than the argument has: so a gather counts rows that
 * are read, not the table. */
#include "codegen/kernel/access.h"

/* In elements. */
typedef struct traffic {
    double read, written;
} traffic;

static double points(const sc_kernel *k, const uint64_t *depends, const sc_knode *indices,
                     uint32_t count)
{
    uint64_t dims = 0;
    double product = 1;
    for (uint32_t i = 0; i < count; i++)
        dims |= depends[indices[i]];
    for (uint32_t d = 0; d < k->dims.count; d++)
        product *= (dims >> d & 1) != 0 ? (double)k->dims.data[d].size : 1;
    return product;
}

static void add_loads(const sc_kernel *k, const uint64_t *depends, traffic *args)
{
    for (sc_knode n = 0; n < k->nodes.count; n++) {
        const sc_kernel_node *node = &k->nodes.data[n];
        if (node->kind == SC_NODE_load)
            args[node->index].read +=
                points(k, depends, sc_kernel_operands(k, n), k->args.data[node->index].rank);
    }
}

static void add_items(const sc_kernel *k, const uint64_t *depends, traffic *args)
{
    for (uint32_t i = 0; i < k->items.count; i++) {
        const sc_kernel_item *item = &k->items.data[i];
        if (!sc_item_writes(item->kind))
            continue;
        double elements = points(k, depends, k->operands.data + item->first, item->count);
        args[item->arg].written += elements;
        args[item->arg].read += item->kind == SC_ITEM_ADD ? elements : 0;
    }
}

/* What a kernel has stored itself need not be read from memory. */
void sc_kernel_traffic(const sc_kernel *k, int64_t *out_bytes)
{
    uint64_t *depends = sc_arena_array(k->arena, k->nodes.count + 1u, sizeof *depends);
    traffic *args = sc_arena_array(k->arena, k->args.count + 1u, sizeof *args);
    sc_kernel_mark_dependence(k, depends);
    add_loads(k, depends, args);
    add_items(k, depends, args);
    for (uint32_t a = 0; a < k->args.count; a++) {
        const sc_kernel_arg *arg = &k->args.data[a];
        double all = 1, moved = 0;
        for (uint32_t d = 0; d < arg->rank; d++)
            all *= (double)arg->sizes[d];
        if (arg->mode != SC_ARG_OUT)
            moved += args[a].read < all ? args[a].read : all;
        if (arg->mode != SC_ARG_IN)
            moved += args[a].written < all ? args[a].written : all;
        out_bytes[a] = (int64_t)moved * sc_dtypes[arg->dtype].bytes;
    }
}
