#include "codegen/contract_kernel.h"

#include "codegen/contract.h"

/* The kernel's dim for a dim of the op, made when it is new. */
static uint32_t dim_of(const sc_module *m, sc_kernel *k, const sc_type_info *type, uint32_t i, uint32_t *known)
{
    sc_dim dim = type->dims[i].dim;
    for (uint32_t d = 0; d < k->dims.count; d++) {
        if (known[d] == dim)
            return d;
    }
    known[k->dims.count] = dim;
    return sc_kernel_add_dim(k, m->dims.data[dim].name, sc_type_local_size(m, type, i));
}

static uint32_t add_arg(const sc_module *m, sc_kernel *k, const sc_type_info *type, const char *name, sc_kernel_arg_mode mode,
                        uint32_t *known, sc_knode *index)
{
    sc_kernel_arg arg = {.name = sc_intern_text(&m->context->names, name), .dtype = type->dtype, .mode = mode, .rank = type->rank};
    for (uint32_t i = 0; i < type->rank; i++) {
        arg.sizes[i] = sc_type_local_size(m, type, i);
        index[i] = sc_kernel_index(k, dim_of(m, k, type, i, known));
    }
    return sc_kernel_add_arg(k, &arg);
}

sc_kernel *sc_contract_kernel(const sc_module *m, const sc_op *dot)
{
    const sc_type_info *types[] = {sc_type_of(m, dot->operands[0]), sc_type_of(m, dot->operands[1]), sc_type_of(m, dot->first_result)};
    sc_dtype sum = sc_contract_sum(types[0]->dtype);
    sc_kernel *k = sc_kernel_new(m->context, sc_intern_text(&m->context->names, "kernel"));
    sc_knode index[3][SC_MAX_RANK], value = 0;
    uint32_t args[3], known[3 * SC_MAX_RANK], inner[SC_KERNEL_MAX_RANK], inner_count = 0;
    k->title = "dot";
    for (uint32_t i = 0; i < types[2]->rank; i++)
        dim_of(m, k, types[2], i, known);
    k->outer_count = k->dims.count;
    args[0] = add_arg(m, k, types[0], "a", SC_ARG_IN, known, index[0]);
    args[1] = add_arg(m, k, types[1], "b", SC_ARG_IN, known, index[1]);
    args[2] = add_arg(m, k, types[2], "c", SC_ARG_OUT, known, index[2]);
    for (uint32_t d = k->outer_count; d < k->dims.count; d++)
        inner[inner_count++] = d;
    for (uint32_t o = 0; o < 2; o++) {
        sc_knode factor = sc_kernel_convert(k, sc_kernel_load(k, args[o], index[o], SC_IMAGE_NONE), sum);
        value = o == 0 ? factor : sc_kernel_node_new(k, SC_NODE_mul, (sc_knode[]){value, factor}, 2);
    }
    sc_kernel_add_phase(k, inner, inner_count);
    sc_knode total = sc_kernel_reduced(k, sc_kernel_add_reduction(k, SC_ITEM_SUM, value), false);
    sc_kernel_add_phase(k, NULL, 0);
    sc_kernel_add_store(k, SC_ITEM_STORE, args[2], index[2], sc_kernel_convert(k, total, sc_kernel_dtype(types[2]->dtype)), SC_IMAGE_NONE);
    return k;
}
