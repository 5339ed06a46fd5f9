/* Kernels that move values: pieces brought together for a collective and put in order after it, and
 * copies. */
#include <assert.h>

#include "codegen/program/internal.h"

static sc_knode integer(sc_kernel *k, int64_t number)
{
    return sc_kernel_constant(k, SC_DTYPE_i64, (double)number);
}

static sc_knode node2(sc_kernel *k, sc_node_kind kind, sc_knode a, sc_knode b)
{
    return sc_kernel_node_new(k, kind, (sc_knode[]){a, b}, 2);
}

static void add_array(sc_generator *g, sc_kernel *k, const char *name, sc_kernel_arg_mode mode,
                      sc_dtype dtype, int64_t count, const int64_t *sizes, uint32_t rank)
{
    sc_kernel_arg arg = {
        .name = sc_intern_text(&g->m->context->names, name), .dtype = dtype, .mode = mode};
    if (count > 0)
        arg.sizes[arg.rank++] = count;
    for (uint32_t i = 0; i < rank; i++)
        arg.sizes[arg.rank++] = sizes[i];
    sc_kernel_add_arg(k, &arg);
}

static sc_knode node_with(sc_kernel *k, sc_node_kind kind, sc_knode a, int64_t number)
{
    return node2(k, kind, a, integer(k, number));
}

/* The index in the whole of element i of piece j (see sc_shard_order). */
static sc_knode index_in_whole(sc_kernel *k, const sc_shard_order *order, int64_t size, sc_knode j,
                               sc_knode i)
{
    if (order->members == 1)
        return node2(k, SC_NODE_add, node_with(k, SC_NODE_mul, j, size), i);
    int64_t held = size * order->inner, chunk = held / 2;
    sc_knode shard = node_with(k, SC_NODE_mod, j, order->inner);
    sc_knode within = node2(k, SC_NODE_add, node_with(k, SC_NODE_mul, shard, size), i);
    sc_knode number = node_with(k, SC_NODE_div, j, order->inner);
    sc_knode member = node_with(k, SC_NODE_mod, number, order->members);
    sc_knode part = node_with(k, SC_NODE_div, number, order->members);
    sc_knode mirrored = node2(k, SC_NODE_sub, integer(k, 2 * order->members - 2), member);
    sc_knode is_first = node_with(k, SC_NODE_lt, within, chunk);
    sc_knode from =
        sc_kernel_node_new(k, SC_NODE_where, (sc_knode[]){is_first, member, mirrored}, 3);
    sc_knode begin = node_with(k, SC_NODE_mul, part, order->members * held);
    sc_knode of_chunk = node_with(k, SC_NODE_mul, from, chunk);
    return node2(k, SC_NODE_add, begin, node2(k, SC_NODE_add, of_chunk, within));
}

/* The reverse: the piece and the index in it of an element of the whole. */
static void index_in_piece(sc_kernel *k, const sc_shard_order *order, int64_t size, sc_knode whole,
                           sc_knode *out_piece, sc_knode *out_index)
{
    sc_knode within = whole, member = SC_NONE;
    if (order->members > 1) {
        int64_t held = size * order->inner, chunk = held / 2;
        sc_knode part = node_with(k, SC_NODE_div, whole, order->members * held);
        sc_knode in_part = node_with(k, SC_NODE_mod, whole, order->members * held);
        sc_knode number = node_with(k, SC_NODE_div, in_part, chunk);
        sc_knode rest = node_with(k, SC_NODE_mod, in_part, chunk);
        sc_knode is_first = node_with(k, SC_NODE_lt, number, order->members);
        sc_knode mirrored = node2(k, SC_NODE_sub, integer(k, 2 * order->members - 1), number);
        sc_knode own =
            sc_kernel_node_new(k, SC_NODE_where, (sc_knode[]){is_first, number, mirrored}, 3);
        own = node_with(k, SC_NODE_mod, own, order->members); /* which it is, for bounds */
        sc_knode before = sc_kernel_node_new(
            k, SC_NODE_where, (sc_knode[]){is_first, integer(k, 0), integer(k, chunk)}, 3);
        within = node2(k, SC_NODE_add, rest, before);
        member = node2(k, SC_NODE_add, node_with(k, SC_NODE_mul, part, order->members), own);
    }
    *out_piece = node_with(k, SC_NODE_div, within, size);
    *out_index = node_with(k, SC_NODE_mod, within, size);
    if (member != SC_NONE)
        *out_piece =
            node2(k, SC_NODE_add, node_with(k, SC_NODE_mul, member, order->inner), *out_piece);
}

sc_kernel *sc_generator_rearrange(sc_generator *g, const sc_type_info *type, uint32_t cut,
                                  const sc_shard_order *order, const int64_t *whole,
                                  const int64_t *piece, bool packs)
{
    const int64_t pieces_count = order->outer * order->members * order->inner;
    sc_context *context = g->m->context;
    sc_kernel *k =
        sc_kernel_new(context, sc_intern_text(&context->names, packs ? "pack" : "unpack"));
    const int64_t *to = packs ? piece : whole;
    sc_knode index[SC_KERNEL_MAX_RANK], there[SC_KERNEL_MAX_RANK], store[SC_KERNEL_MAX_RANK],
        j = SC_NONE, at_cut, guard = SC_NONE;
    uint32_t n = 0, s = 0;
    assert(cut < type->rank);
    k->title = packs ? "pieces brought together" : "pieces put in order";
    if (packs)
        store[s++] = j = sc_kernel_index(
            k, sc_kernel_add_dim(k, sc_intern_text(&context->names, "piece"), pieces_count));
    for (uint32_t i = 0; i < type->rank; i++) {
        index[i] = sc_kernel_index(
            k, sc_kernel_add_dim(k, g->m->dims.data[type->dims[i].dim].name, to[i]));
        store[s++] = index[i];
    }
    k->outer_count = k->dims.count;
    add_array(g, k, packs ? "whole" : "pieces", SC_ARG_IN, type->dtype, packs ? 0 : pieces_count,
              packs ? whole : piece, type->rank);
    add_array(g, k, packs ? "pieces" : "whole", SC_ARG_OUT, type->dtype, packs ? pieces_count : 0,
              to, type->rank);
    if (packs)
        at_cut = index_in_whole(k, order, piece[cut], j, index[cut]);
    else
        index_in_piece(k, order, piece[cut], index[cut], &there[n++], &at_cut);
    for (uint32_t i = 0; i < type->rank; i++)
        there[n++] = i == cut ? at_cut : index[i];
    if (packs && piece[cut] * pieces_count > whole[cut])
        guard = node2(k, SC_NODE_lt, there[cut], integer(k, whole[cut]));
    sc_knode value = sc_kernel_load(k, 0, there, guard);
    sc_kernel_add_phase(k, NULL, 0);
    sc_kernel_add_store(k, SC_ITEM_STORE, 1, store, value, SC_NONE);
    return k;
}

bool sc_generator_call_checked(sc_generator *g, sc_op_id op, sc_kernel *k, sc_image_ref from,
                               sc_image_ref to)
{
    const char *error = sc_kernel_verify(k);
    if (error != NULL) {
        sc_report(&g->m->context->diag, SC_D_ir_invalid, sc_op_at(g->m, op)->loc, "code generation",
                  error, NULL);
        return false;
    }
    sc_generator_call(g, op, k, (sc_image_ref[]){from, to});
    return true;
}

bool sc_generator_copy_value(sc_generator *g, sc_op_id op, sc_value value, sc_image_ref from,
                             sc_image_ref to)
{
    const sc_type_info *type = sc_type_of(g->m, value);
    sc_context *context = g->m->context;
    sc_kernel *k = sc_kernel_new(context, sc_intern_text(&context->names, "copy"));
    sc_knode index[SC_KERNEL_MAX_RANK];
    int64_t sizes[SC_MAX_RANK] = {0};
    k->title = "a value copied";
    for (uint32_t i = 0; i < type->rank; i++) {
        sizes[i] = sc_type_local_size(g->m, type, i);
        index[i] = sc_kernel_index(
            k, sc_kernel_add_dim(k, g->m->dims.data[type->dims[i].dim].name, sizes[i]));
    }
    k->outer_count = k->dims.count;
    add_array(g, k, "from", SC_ARG_IN, type->dtype, 0, sizes, type->rank);
    add_array(g, k, "to", SC_ARG_OUT, type->dtype, 0, sizes, type->rank);
    sc_knode loaded = sc_kernel_load(k, 0, index, SC_NONE);
    sc_kernel_add_phase(k, NULL, 0);
    sc_kernel_add_store(k, SC_ITEM_STORE, 1, index, loaded, SC_NONE);
    return sc_generator_call_checked(g, op, k, from, to);
}
