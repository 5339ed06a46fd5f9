/* Contractions as oneDNN's matmul primitive: one dim of m, n and k each, any batch dims, rows or columns that are contiguous; the epilogue
 * becomes post-operations. The library decides by refusing to make the primitive; what it refuses is left to the plain kernels, and so
 * is what it would only take in its reference code. Its scratchpad is ours, but its gemm allocates packed copies itself. */
#ifdef SHARDC_ONEDNN
#include "runtime/gemm_onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/onednn.h"

enum { MAX_ARGS = 4 + SC_GEMM_MAX_STEPS, SCRATCHPAD = -1 };

/* An argument of the primitive; `array` says which of ours it is: SC_GEMM_A .., a step's tensor, or the scratchpad. */
typedef struct library_arg {
    dnnl_memory_t memory;
    int array;
} library_arg;

struct sc_gemm_onednn {
    sc_onednn api;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    int arg_count;
    library_arg args[MAX_ARGS];
    dnnl_exec_arg_t exec_args[MAX_ARGS];
    char name[40];
};

/* Not f16: 2.6 takes it as a tensor of a post-operation on CPUs that it cannot multiply it on, and computes zeros. */
static dnnl_data_type_t library_dtype(sc_dtype dtype)
{
    return dtype == SC_DTYPE_f32 ? dnnl_f32 : dtype == SC_DTYPE_bf16 ? dnnl_bf16 : dnnl_data_type_undef;
}

static int64_t stride_of(const sc_gemm *gemm, uint32_t i, int array)
{
    return array < SC_GEMM_OPERANDS ? gemm->dims[i].strides[array] : gemm->steps[array - SC_GEMM_OPERANDS].strides[i];
}

/* What the library calls an array: its batch dims, then its rows and its columns (a role without dims is one of size 1). Of a step's tensor
 * a dim that it lacks has size 1. False when a role has several dims, or an operand's elements are nowhere contiguous. */
static bool describe(const sc_onednn *api, const sc_gemm *gemm, int array, dnnl_memory_desc_t *out)
{
    static const sc_gemm_role sides[SC_GEMM_OPERANDS][2] = {{SC_GEMM_M, SC_GEMM_K}, {SC_GEMM_K, SC_GEMM_N}, {SC_GEMM_M, SC_GEMM_N}};
    const sc_gemm_role *side = sides[array < SC_GEMM_OPERANDS ? array : SC_GEMM_C];
    sc_dtype dtype = array < SC_GEMM_OPERANDS ? gemm->dtypes[array] : gemm->steps[array - SC_GEMM_OPERANDS].dtype;
    dnnl_dims_t sizes, strides;
    int count = 0, at[2], dims[2] = {0, 0};
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        if (gemm->dims[i].role != SC_GEMM_BATCH)
            continue;
        if (count + 2 == DNNL_MAX_NDIMS)
            return false;
        sizes[count] = array >= SC_GEMM_OPERANDS && stride_of(gemm, i, array) == 0 ? 1 : gemm->dims[i].size;
        strides[count++] = stride_of(gemm, i, array);
    }
    for (int s = 0; s < 2; s++) {
        at[s] = count + s;
        sizes[at[s]] = 1;
        strides[at[s]] = 0;
        for (uint32_t i = 0; i < gemm->dim_count; i++) {
            if (gemm->dims[i].role != side[s])
                continue;
            dims[s]++;
            strides[at[s]] = stride_of(gemm, i, array);
            sizes[at[s]] = array >= SC_GEMM_OPERANDS && strides[at[s]] == 0 ? 1 : gemm->dims[i].size;
        }
    }
    count += 2;
    /* A dim of size 1 stands as if it were the outer one of a dense matrix. */
    int64_t rows = sizes[at[0]], columns = sizes[at[1]];
    strides[at[1]] = columns == 1 ? (rows == 1 ? 1 : rows * strides[at[0]]) : strides[at[1]];
    strides[at[0]] = rows == 1 ? columns * strides[at[1]] : strides[at[0]];
    for (int i = 0; i < count - 2; i++)
        strides[i] = sizes[i] == 1 ? rows * strides[at[0]] : strides[i];
    bool contiguous = strides[at[1]] == 1 || (strides[at[0]] == 1 && array != SC_GEMM_C);
    return dims[0] < 2 && dims[1] < 2 && contiguous && library_dtype(dtype) != dnnl_data_type_undef &&
           api->dnnl_memory_desc_init_by_strides(out, count, sizes, library_dtype(dtype), strides) == dnnl_success;
}

/* What the library calls a step; 0: it has none. */
static const dnnl_alg_kind_t kinds[SC_GEMM_STEP_KINDS] = {
    [SC_GEMM_ADD] = dnnl_binary_add,     [SC_GEMM_MUL] = dnnl_binary_mul,        [SC_GEMM_SCALE] = dnnl_eltwise_linear,
    [SC_GEMM_RELU] = dnnl_eltwise_relu,  [SC_GEMM_GELU] = dnnl_eltwise_gelu_erf, [SC_GEMM_GELU_TANH] = dnnl_eltwise_gelu_tanh,
    [SC_GEMM_SILU] = dnnl_eltwise_swish, [SC_GEMM_TANH] = dnnl_eltwise_tanh,     [SC_GEMM_SIGMOID] = dnnl_eltwise_logistic,
};

bool sc_gemm_onednn_has_step(sc_gemm_step_kind kind)
{
    return kinds[kind] != dnnl_alg_kind_undef;
}

/* The post-operation of a step; a tensor's description goes with it. */
static bool append_step(const sc_onednn *api, const sc_gemm *gemm, uint32_t s, dnnl_post_ops_t ops)
{
    const sc_gemm_step *step = &gemm->steps[s];
    dnnl_memory_desc_t tensor;
    if (!sc_gemm_onednn_has_step(step->kind))
        return false;
    if (sc_gemm_step_has_tensor(step->kind))
        return describe(api, gemm, SC_GEMM_OPERANDS + (int)s, &tensor) &&
               api->dnnl_post_ops_append_binary(ops, kinds[step->kind], &tensor) == dnnl_success;
    float alpha = step->kind == SC_GEMM_SCALE ? (float)step->scale : step->kind == SC_GEMM_SILU ? 1.0F : 0.0F;
    return api->dnnl_post_ops_append_eltwise(ops, 1.0F, kinds[step->kind], alpha, 0.0F) == dnnl_success;
}

static bool set_attributes(const sc_onednn *api, const sc_gemm *gemm, dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t ops = NULL;
    bool ok = api->dnnl_post_ops_create(&ops) == dnnl_success;
    for (uint32_t s = 0; ok && s < gemm->step_count; s++)
        ok = append_step(api, gemm, s, ops);
    if (ok && gemm->accumulate)
        ok = api->dnnl_post_ops_append_sum(ops, 1.0F) == dnnl_success;
    ok = ok && api->dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success &&
         api->dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success;
    if (ops != NULL)
        api->dnnl_post_ops_destroy(ops);
    return ok;
}

/* Adds an argument; its address is given at every run. */
static bool add_arg(sc_gemm_onednn *o, int number, int array, const dnnl_memory_desc_t *desc)
{
    library_arg *arg = &o->args[o->arg_count];
    if (o->api.dnnl_memory_create(&arg->memory, desc, o->engine, DNNL_MEMORY_NONE) != dnnl_success)
        return false;
    arg->array = array;
    o->exec_args[o->arg_count++] = (dnnl_exec_arg_t){number, arg->memory};
    return true;
}

static bool add_args(sc_gemm_onednn *o, const sc_gemm *gemm, const dnnl_memory_desc_t *operands, const dnnl_memory_desc_t *scratchpad)
{
    static const int numbers[SC_GEMM_OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    bool ok = true;
    for (int operand = 0; ok && operand < SC_GEMM_OPERANDS; operand++)
        ok = add_arg(o, numbers[operand], operand, &operands[operand]);
    for (uint32_t s = 0; ok && s < gemm->step_count; s++) {
        dnnl_memory_desc_t tensor;
        if (sc_gemm_step_has_tensor(gemm->steps[s].kind))
            ok = describe(&o->api, gemm, SC_GEMM_OPERANDS + (int)s, &tensor) &&
                 add_arg(o, DNNL_ARG_ATTR_MULTIPLE_POST_OP((int)s) | DNNL_ARG_SRC_1, SC_GEMM_OPERANDS + (int)s, &tensor);
    }
    return ok && add_arg(o, DNNL_ARG_SCRATCHPAD, SCRATCHPAD, scratchpad);
}

/* Makes the primitive unless the library has no fast code for it, or wants more scratch than the plan will be given. */
static bool make_primitive(sc_gemm_onednn *o, const sc_gemm *gemm, int64_t scratch_bytes)
{
    const sc_onednn *api = &o->api;
    dnnl_memory_desc_t operands[SC_GEMM_OPERANDS];
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t made = NULL;
    bool ok = api->dnnl_primitive_attr_create(&attr) == dnnl_success && set_attributes(api, gemm, attr);
    for (int operand = 0; ok && operand < SC_GEMM_OPERANDS; operand++)
        ok = describe(api, gemm, operand, &operands[operand]);
    ok = ok && api->dnnl_matmul_desc_init(&desc, &operands[SC_GEMM_A], &operands[SC_GEMM_B], NULL, &operands[SC_GEMM_C]) == dnnl_success &&
         api->dnnl_primitive_desc_create(&made, &desc, attr, o->engine, NULL) == dnnl_success;
    if (ok) {
        const char *implementation = "";
        const dnnl_memory_desc_t *scratchpad = api->dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0);
        api->dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, (void *)&implementation);
        snprintf(o->name, sizeof o->name, "onednn %s", implementation);
        ok = strncmp(implementation, "ref", 3) != 0 && api->dnnl_memory_desc_get_size(scratchpad) <= (size_t)scratch_bytes &&
             api->dnnl_primitive_create(&o->primitive, made) == dnnl_success && add_args(o, gemm, operands, scratchpad);
    }
    if (made != NULL)
        api->dnnl_primitive_desc_destroy(made);
    if (attr != NULL)
        api->dnnl_primitive_attr_destroy(attr);
    return ok;
}

sc_gemm_onednn *sc_gemm_onednn_new(const sc_gemm *gemm, int64_t scratch_bytes)
{
    sc_gemm_onednn *o = calloc(1, sizeof *o);
    bool ok = o != NULL && gemm->sum == SC_DTYPE_f32 && sc_gemm_flops(gemm) > 0 && sc_onednn_open(&o->api);
    ok = ok && o->api.dnnl_engine_create(&o->engine, dnnl_cpu, 0) == dnnl_success &&
         o->api.dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags) == dnnl_success &&
         make_primitive(o, gemm, scratch_bytes);
    if (ok)
        return o;
    sc_gemm_onednn_free(o);
    return NULL;
}

void sc_gemm_onednn_free(sc_gemm_onednn *o)
{
    if (o == NULL)
        return;
    for (int i = 0; i < o->arg_count; i++)
        o->api.dnnl_memory_destroy(o->args[i].memory);
    if (o->primitive != NULL)
        o->api.dnnl_primitive_destroy(o->primitive);
    if (o->stream != NULL)
        o->api.dnnl_stream_destroy(o->stream);
    if (o->engine != NULL)
        o->api.dnnl_engine_destroy(o->engine);
    sc_onednn_close(&o->api);
    free(o);
}

bool sc_gemm_onednn_run(const sc_gemm_onednn *o, const void *a, const void *b, void *c, const void *const *steps, void *scratch)
{
    for (int i = 0; i < o->arg_count; i++) {
        int array = o->args[i].array;
        const void *data = array == SCRATCHPAD  ? scratch
                           : array == SC_GEMM_A ? a
                           : array == SC_GEMM_B ? b
                           : array == SC_GEMM_C ? c
                                                : steps[array - SC_GEMM_OPERANDS];
        if (o->api.dnnl_memory_set_data_handle(o->args[i].memory, (void *)(uintptr_t)data) != dnnl_success)
            return false;
    }
    return o->api.dnnl_primitive_execute(o->primitive, o->stream, o->arg_count, o->exec_args) == dnnl_success &&
           o->api.dnnl_stream_wait(o->stream) == dnnl_success;
}

const char *sc_gemm_onednn_name(const sc_gemm_onednn *o)
{
    return o->name;
}

bool sc_gemm_onednn_multiplies_bf16(void)
{
    sc_onednn api;
    if (!sc_onednn_open(&api))
        return false;
    dnnl_cpu_isa_t isa = api.dnnl_get_effective_cpu_isa();
    sc_onednn_close(&api);
    return isa >= dnnl_cpu_isa_avx512_core_bf16;
}
#else
typedef int sc_gemm_onednn_is_not_there; /* a file is never empty */
#endif
