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

sc_kernel *sc_generator_rearrange(sc_generator *g, const sc_type_info *type, uint32_t cut,
                                  int64_t pieces_count, const int64_t *whole, const int64_t *piece,
                                  bool packs)
{
    sc_context *context = g->m->context;
    sc_kernel *k =
        sc_kernel_new(context, sc_intern_text(&context->names, packs ? "pack" : "unpack"));
    const int64_t *to = packs ? piece : whole;
    sc_knode index[SC_KERNEL_MAX_RANK], there[SC_KERNEL_MAX_RANK], store[SC_KERNEL_MAX_RANK],
        j = SC_NONE, guard = SC_NONE;
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
    if (!packs)
        there[n++] = node2(k, SC_NODE_div, index[cut], integer(k, piece[cut]));
    for (uint32_t i = 0; i < type->rank; i++) {
        sc_knode at = index[i];
        if (i == cut)
            at = packs ? node2(k, SC_NODE_add, node2(k, SC_NODE_mul, j, integer(k, piece[cut])), at)
                       : node2(k, SC_NODE_mod, at, integer(k, piece[cut]));
        there[n++] = at;
    }
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
