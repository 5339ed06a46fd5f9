/* Builds kernels for GEMMs and epilogue steps that the GEMM library does not support. */
#include "codegen/program/gemm_kernel.h"

#include "codegen/lower/activation.h"
#include "codegen/program/gemm.h"

/* The kernel's dim for a dim of the op; created when new. */
static uint32_t dim_of(const sc_module *m, sc_kernel *k, const sc_type_info *type, uint32_t i,
                       uint32_t *known)
{
    sc_dim dim = type->dims[i].dim;
    for (uint32_t d = 0; d < k->dims.count; d++) {
        if (known[d] == dim)
            return d;
    }
    known[k->dims.count] = dim;
    return sc_kernel_add_dim(k, m->dims.data[dim].name, sc_type_local_size(m, type, i));
}

static uint32_t add_arg(const sc_module *m, sc_kernel *k, const sc_type_info *type,
                        const char *name, sc_kernel_arg_mode mode, uint32_t *known, sc_knode *index)
{
    sc_kernel_arg arg = {.name = sc_intern_text(&m->context->names, name),
                         .dtype = type->dtype,
                         .mode = mode,
                         .rank = type->rank};
    for (uint32_t i = 0; i < type->rank; i++) {
        arg.sizes[i] = sc_type_local_size(m, type, i);
        index[i] = sc_kernel_index(k, dim_of(m, k, type, i, known));
    }
    return sc_kernel_add_arg(k, &arg);
}

sc_kernel *sc_contract_kernel(const sc_module *m, const sc_op *dot)
{
    const sc_type_info *types[] = {sc_type_of(m, dot->operands[0]), sc_type_of(m, dot->operands[1]),
                                   sc_type_of(m, dot->first_result)};
    sc_dtype sum = sc_contract_sum(types[0]->dtype);
    sc_kernel *k = sc_kernel_new(m->context, sc_intern_text(&m->context->names, "kernel"));
    sc_knode index[3][SC_MAX_RANK], value = 0;
    uint32_t args[3], known[3 * SC_MAX_RANK] = {0}, inner[SC_KERNEL_MAX_RANK], inner_count = 0;
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
        sc_knode factor = sc_kernel_convert(k, sc_kernel_load(k, args[o], index[o], SC_NONE), sum);
        value =
            o == 0 ? factor : sc_kernel_node_new(k, SC_NODE_mul, (sc_knode[]){value, factor}, 2);
    }
    sc_kernel_add_phase(k, inner, inner_count);
    sc_knode total = sc_kernel_reduced(k, sc_kernel_add_reduction(k, SC_ITEM_SUM, value), false);
    sc_kernel_add_phase(k, NULL, 0);
    sc_kernel_add_store(k, SC_ITEM_STORE, args[2], index[2],
                        sc_kernel_convert(k, total, sc_kernel_dtype(types[2]->dtype)), SC_NONE);
    return k;
}

/* ---- kernels of a descriptor ---- */

/* The kernel's dims by dim of the descriptor; SC_NONE: none. */
typedef struct gemm_loops {
    sc_kernel *k;
    const sc_gemm *gemm;
    uint32_t loops[SC_GEMM_MAX_DIMS];
} gemm_loops;

static gemm_loops new_loops(sc_context *context, const sc_gemm *gemm, const char *title)
{
    gemm_loops l = {.k = sc_kernel_new(context, sc_intern_text(&context->names, "kernel")),
                    .gemm = gemm};
    l.k->title = title;
    for (uint32_t i = 0; i < gemm->dim_count; i++)
        l.loops[i] = SC_NONE;
    return l;
}

static const char *numbered(const gemm_loops *l, const char *letter, uint32_t number)
{
    return sc_arena_printf(l->k->arena, "%s%u", letter, number);
}

static void add_loop(gemm_loops *l, uint32_t dim)
{
    sc_sym name = sc_intern_text(&l->k->context->names, numbered(l, "d", dim));
    l->loops[dim] = sc_kernel_add_dim(l->k, name, l->gemm->dims[dim].size);
}

/* The dims of an array, slowest first; false if it has gaps or overlaps. */
static bool order_dims(const gemm_loops *l, const int64_t *strides, uint32_t *order,
                       uint32_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < l->gemm->dim_count; i++) {
        if (l->loops[i] == SC_NONE || strides[i] == 0 || l->gemm->dims[i].size == 1)
            continue;
        uint32_t at = (*count)++;
        for (; at > 0 && strides[order[at - 1]] < strides[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    int64_t within = 1;
    for (uint32_t o = *count; o-- > 0;) {
        if (strides[order[o]] != within)
            return false;
        within *= l->gemm->dims[order[o]].size;
    }
    return *count <= SC_KERNEL_MAX_RANK;
}

/* Adds an argument and computes its indices at the loops; false: a kernel cannot have this
 * layout. */
static bool add_array(gemm_loops *l, const char *name, sc_dtype dtype, sc_kernel_arg_mode mode,
                      const int64_t *strides, uint32_t *out_arg, sc_knode *index)
{
    uint32_t order[SC_GEMM_MAX_DIMS], count;
    if (!order_dims(l, strides, order, &count))
        return false;
    sc_kernel_arg arg = {.name = sc_intern_text(&l->k->context->names, name),
                         .dtype = dtype,
                         .mode = mode,
                         .rank = count};
    for (uint32_t i = 0; i < count; i++) {
        arg.sizes[i] = l->gemm->dims[order[i]].size;
        index[i] = sc_kernel_index(l->k, l->loops[order[i]]);
    }
    *out_arg = sc_kernel_add_arg(l->k, &arg);
    return true;
}

static void operand_strides(const sc_gemm *gemm, sc_gemm_operand operand, int64_t *strides)
{
    for (uint32_t i = 0; i < gemm->dim_count; i++)
        strides[i] = gemm->dims[i].strides[operand];
}

/* Applies a step to x and the element of its tensor. */
static sc_knode step_node(sc_kernel *k, const sc_gemm_step *step, sc_knode x, sc_knode tensor)
{
    sc_gemm_step_kind activation = sc_gemm_step_slope_of(step->kind);
    if (activation != SC_GEMM_STEP_KINDS)
        return sc_slope_node(k, activation, x, tensor);
    switch (step->kind) {
    case SC_GEMM_ADD:
        return sc_kernel_node_new(k, SC_NODE_add, (sc_knode[]){x, tensor}, 2);
    case SC_GEMM_MUL:
        return sc_kernel_node_new(k, SC_NODE_mul, (sc_knode[]){x, tensor}, 2);
    case SC_GEMM_SCALE:
        return sc_kernel_node_new(
            k, SC_NODE_mul,
            (sc_knode[]){x, sc_kernel_constant(k, (sc_dtype)k->nodes.data[x].dtype, step->scale)},
            2);
    default:
        return sc_activation_node(k, step->kind, x);
    }
}

static sc_knode add_step(gemm_loops *l, uint32_t s, sc_knode x, bool *ok)
{
    const sc_gemm_step *step = &l->gemm->steps[s];
    sc_knode index[SC_KERNEL_MAX_RANK], tensor = 0;
    uint32_t arg;
    if (sc_gemm_step_sums(step->kind) != SC_GEMM_OPERANDS)
        return x;
    if (step->kind == SC_GEMM_STORE) {
        *ok = *ok && add_array(l, numbered(l, "kept", s), step->dtype, SC_ARG_OUT, step->strides,
                               &arg, index);
        if (*ok)
            sc_kernel_add_store(l->k, SC_ITEM_STORE, arg, index,
                                sc_kernel_convert(l->k, x, sc_kernel_dtype(step->dtype)), SC_NONE);
        return x;
    }
    if (sc_gemm_step_has_tensor(step->kind)) {
        *ok = *ok &&
              add_array(l, numbered(l, "t", s), step->dtype, SC_ARG_IN, step->strides, &arg, index);
        if (*ok)
            tensor =
                sc_kernel_convert(l->k, sc_kernel_load(l->k, arg, index, SC_NONE), l->gemm->sum);
    }
    return *ok ? step_node(l->k, step, x, tensor) : x;
}

sc_kernel *sc_steps_kernel(sc_context *context, const sc_gemm *gemm, uint32_t first)
{
    gemm_loops l = new_loops(context, gemm, "steps of a GEMM");
    int64_t strides[SC_GEMM_MAX_DIMS] = {0};
    sc_knode index[SC_KERNEL_MAX_RANK];
    uint32_t c;
    bool ok = true;
    operand_strides(gemm, SC_GEMM_C, strides);
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        if (gemm->dims[i].role != SC_GEMM_K)
            add_loop(&l, i);
    }
    l.k->outer_count = l.k->dims.count;
    if (l.k->dims.count > SC_KERNEL_MAX_RANK ||
        !add_array(&l, "c", gemm->dtypes[SC_GEMM_C], SC_ARG_INOUT, strides, &c, index))
        return NULL;
    sc_kernel_add_phase(l.k, NULL, 0);
    sc_knode x = sc_kernel_convert(l.k, sc_kernel_load(l.k, c, index, SC_NONE), gemm->sum);
    for (uint32_t s = first; s < gemm->step_count; s++)
        x = add_step(&l, s, x, &ok);
    sc_kernel_add_store(l.k, SC_ITEM_STORE, c, index,
                        sc_kernel_convert(l.k, x, sc_kernel_dtype(gemm->dtypes[SC_GEMM_C])),
                        SC_NONE);
    return ok ? l.k : NULL;
}

sc_kernel *sc_sum_kernel(sc_context *context, const sc_gemm *gemm, uint32_t step)
{
    gemm_loops l = new_loops(context, gemm, "sum of what is multiplied");
    const sc_gemm_step *of = &gemm->steps[step];
    sc_gemm_operand operand = sc_gemm_step_sums(of->kind);
    int64_t strides[SC_GEMM_MAX_DIMS] = {0};
    sc_knode from[SC_KERNEL_MAX_RANK], to[SC_KERNEL_MAX_RANK];
    uint32_t inner[SC_KERNEL_MAX_RANK], inner_count = 0, in, out;
    operand_strides(gemm, operand, strides);
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        if (of->strides[i] > 0 && gemm->dims[i].size > 1)
            add_loop(&l, i);
    }
    l.k->outer_count = l.k->dims.count;
    for (uint32_t i = 0; i < gemm->dim_count && l.k->dims.count < SC_KERNEL_MAX_RANK; i++) {
        if (gemm->dims[i].role == SC_GEMM_K && gemm->dims[i].size > 1) {
            add_loop(&l, i);
            inner[inner_count++] = l.loops[i];
        }
    }
    if (!add_array(&l, "x", gemm->dtypes[operand], SC_ARG_IN, strides, &in, from) ||
        !add_array(&l, "sum", of->dtype, SC_ARG_OUT, of->strides, &out, to))
        return NULL;
    sc_knode x = sc_kernel_convert(l.k, sc_kernel_load(l.k, in, from, SC_NONE), gemm->sum);
    sc_kernel_add_phase(l.k, inner, inner_count);
    sc_knode total = sc_kernel_reduced(l.k, sc_kernel_add_reduction(l.k, SC_ITEM_SUM, x), false);
    sc_kernel_add_phase(l.k, NULL, 0);
    sc_kernel_add_store(l.k, SC_ITEM_STORE, out, to,
                        sc_kernel_convert(l.k, total, sc_kernel_dtype(of->dtype)), SC_NONE);
    return l.k;
}
