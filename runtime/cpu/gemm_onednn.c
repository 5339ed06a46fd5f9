/* GEMMs with oneDNN's matmul primitive: one dim each of m, n and k, any batch dims, rows or columns
 * contiguous; the epilogue becomes post-ops. The library decides by refusing to create the
 * primitive; refused descriptors are left to the plain kernels, and so are those for which it only
 * has reference code. Its scratchpad is ours, but its gemm allocates packed copies itself.
 *
 * The library's result depends on its number of threads, by which it chooses kernels and splits k.
 * So it always gets one thread. c is split into pieces along one batch dim, m and n, by the
 * descriptor alone; each piece is one run of a primitive, and the team shares the pieces. Only
 * pieces at the ends of the split dims have other shapes, so there are up to eight primitives. */
#ifdef SHARDC_ONEDNN
#include "runtime/cpu/gemm_onednn.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/onednn.h"

enum { MAX_ARGS = 4 + SC_GEMM_MAX_STEPS, SCRATCHPAD = -1, MAX_CUTS = 3, SHAPES = 1 << MAX_CUTS };

/* Sizes of pieces: large enough that packing operands once per piece is cheap, small enough for a
 * team to share. Along a batch dim, enough to amortize the call. */
enum { PIECE_ROWS = 256, PIECE_COLUMNS = 768, PIECE_FLOPS = 1 << 22, PIECE_STEP = 32 };

/* An argument of the primitive. `array` is our array: SC_GEMM_A .., a step's tensor, or the
 * scratchpad. */
typedef struct library_arg {
    int number, array;
    dnnl_memory_desc_t desc;
} library_arg;

/* All pieces of one shape. */
typedef struct library_shape {
    dnnl_primitive_t primitive;
    size_t scratch_bytes;
    int arg_count;
    library_arg args[MAX_ARGS];
} library_shape;

/* A dim of the descriptor, split into `count` pieces of `part` elements; the last has the
 * remainder. */
typedef struct library_cut {
    uint32_t dim;
    int64_t part, count;
} library_cut;

struct sc_gemm_onednn {
    sc_onednn api;
    dnnl_engine_t engine;
    sc_gemm gemm;
    int cut_count;
    library_cut cuts[MAX_CUTS];
    int64_t pieces;
    library_shape *shapes[SHAPES]; /* by the set of splits at whose end a piece is; NULL: none */
    int64_t workers;               /* number for which the scratch memory suffices */
    size_t scratch_bytes;          /* per worker */
    char name[40];
};

/* Excludes f16: oneDNN 2.6 accepts it as a post-op tensor on CPUs without f16 multiplication, and
 * then computes zeros. */
static dnnl_data_type_t library_dtype(sc_dtype dtype)
{
    return dtype == SC_DTYPE_f32    ? dnnl_f32
           : dtype == SC_DTYPE_bf16 ? dnnl_bf16
                                    : dnnl_data_type_undef;
}

static int64_t stride_of(const sc_gemm *gemm, uint32_t i, int array)
{
    return array < SC_GEMM_OPERANDS ? gemm->dims[i].strides[array]
                                    : gemm->steps[array - SC_GEMM_OPERANDS].strides[i];
}

/* Describes an array to the library: its batch dims, then rows and columns (a role without dims has
 * size 1). Dims that a step's tensor lacks have size 1. False if a role has several dims, or if
 * neither rows nor columns of an operand are contiguous. */
static bool describe(const sc_onednn *api, const sc_gemm *gemm, int array, dnnl_memory_desc_t *out)
{
    static const sc_gemm_role sides[SC_GEMM_OPERANDS][2] = {
        {SC_GEMM_M, SC_GEMM_K}, {SC_GEMM_K, SC_GEMM_N}, {SC_GEMM_M, SC_GEMM_N}};
    const sc_gemm_role *side = sides[array < SC_GEMM_OPERANDS ? array : SC_GEMM_C];
    sc_dtype dtype = array < SC_GEMM_OPERANDS ? gemm->dtypes[array]
                                              : gemm->steps[array - SC_GEMM_OPERANDS].dtype;
    dnnl_dims_t sizes, strides;
    int count = 0, at[2], dims[2] = {0, 0};
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        if (gemm->dims[i].role != SC_GEMM_BATCH)
            continue;
        if (count + 2 == DNNL_MAX_NDIMS)
            return false;
        sizes[count] =
            array >= SC_GEMM_OPERANDS && stride_of(gemm, i, array) == 0 ? 1 : gemm->dims[i].size;
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
            sizes[at[s]] =
                array >= SC_GEMM_OPERANDS && strides[at[s]] == 0 ? 1 : gemm->dims[i].size;
        }
    }
    count += 2;
    /* A dim of size 1 gets the stride of the outer dim of a dense matrix. */
    int64_t rows = sizes[at[0]], columns = sizes[at[1]];
    strides[at[1]] = columns == 1 ? (rows == 1 ? 1 : rows * strides[at[0]]) : strides[at[1]];
    strides[at[0]] = rows == 1 ? columns * strides[at[1]] : strides[at[0]];
    for (int i = 0; i < count - 2; i++)
        strides[i] = sizes[i] == 1 ? rows * strides[at[0]] : strides[i];
    bool contiguous = strides[at[1]] == 1 || (strides[at[0]] == 1 && array != SC_GEMM_C);
    return dims[0] < 2 && dims[1] < 2 && contiguous &&
           library_dtype(dtype) != dnnl_data_type_undef &&
           api->dnnl_memory_desc_init_by_strides(out, count, sizes, library_dtype(dtype),
                                                 strides) == dnnl_success;
}

/* The library's kind of a step and the parameter alpha of that; 0: none. */
static const struct {
    dnnl_alg_kind_t kind;
    float alpha;
} library_steps[SC_GEMM_STEP_KINDS] = {
    [SC_GEMM_ADD] = {dnnl_binary_add, 0},
    [SC_GEMM_MUL] = {dnnl_binary_mul, 0},
    [SC_GEMM_SCALE] = {dnnl_eltwise_linear, 0}, /* alpha is the step's own */
#define NO_ONEDNN                                         dnnl_alg_kind_undef, 0
#define ONEDNN(name, alpha)                               dnnl_eltwise_##name, alpha
#define ACTIVATION(name, NAME, numbers, onednn, cublaslt) [SC_GEMM_##NAME] = {onednn},
#include "program/activations.def"
#undef ONEDNN
#undef NO_ONEDNN
};

bool sc_gemm_onednn_has_step(sc_gemm_step_kind kind)
{
    return library_steps[kind].kind != dnnl_alg_kind_undef;
}

/* Appends the post-op of a step, with its tensor's descriptor. */
static bool append_step(const sc_onednn *api, const sc_gemm *gemm, uint32_t s, dnnl_post_ops_t ops)
{
    const sc_gemm_step *step = &gemm->steps[s];
    dnnl_memory_desc_t tensor;
    if (!sc_gemm_onednn_has_step(step->kind))
        return false;
    if (sc_gemm_step_has_tensor(step->kind))
        return describe(api, gemm, SC_GEMM_OPERANDS + (int)s, &tensor) &&
               api->dnnl_post_ops_append_binary(ops, library_steps[step->kind].kind, &tensor) ==
                   dnnl_success;
    float alpha =
        step->kind == SC_GEMM_SCALE ? (float)step->scale : library_steps[step->kind].alpha;
    return api->dnnl_post_ops_append_eltwise(ops, 1.0F, library_steps[step->kind].kind, alpha,
                                             0.0F) == dnnl_success;
}

static bool set_attributes(const sc_onednn *api, const sc_gemm *gemm, dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t ops = NULL;
    bool ok = api->dnnl_post_ops_create(&ops) == dnnl_success;
    for (uint32_t s = 0; s < gemm->step_count; s++) {
        if (!ok)
            break;
        ok = append_step(api, gemm, s, ops);
    }
    if (ok && gemm->accumulate)
        ok = api->dnnl_post_ops_append_sum(ops, 1.0F) == dnnl_success;
    ok = ok && api->dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success &&
         api->dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) ==
             dnnl_success;
    if (ops != NULL)
        api->dnnl_post_ops_destroy(ops);
    return ok;
}

static void add_arg(library_shape *shape, int number, int array, const dnnl_memory_desc_t *desc)
{
    shape->args[shape->arg_count++] = (library_arg){number, array, *desc};
}

static bool add_step_args(const sc_onednn *api, const sc_gemm *gemm, library_shape *shape)
{
    bool ok = true;
    for (uint32_t s = 0; s < gemm->step_count; s++) {
        if (!ok)
            break;
        dnnl_memory_desc_t tensor;
        if (!sc_gemm_step_has_tensor(gemm->steps[s].kind))
            continue;
        ok = describe(api, gemm, SC_GEMM_OPERANDS + (int)s, &tensor);
        if (ok)
            add_arg(shape, DNNL_ARG_ATTR_MULTIPLE_POST_OP((int)s) | DNNL_ARG_SRC_1,
                    SC_GEMM_OPERANDS + (int)s, &tensor);
    }
    return ok;
}

/* Creates the primitive of a piece. False if the library has no optimized code for it. */
static bool make_primitive(sc_gemm_onednn *o, const sc_gemm *gemm, library_shape *shape)
{
    static const int numbers[SC_GEMM_OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    const sc_onednn *api = &o->api;
    dnnl_memory_desc_t operands[SC_GEMM_OPERANDS];
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t made = NULL;
    bool ok =
        api->dnnl_primitive_attr_create(&attr) == dnnl_success && set_attributes(api, gemm, attr);
    for (int operand = 0; operand < SC_GEMM_OPERANDS; operand++) {
        if (!ok)
            break;
        ok = describe(api, gemm, operand, &operands[operand]);
        if (ok)
            add_arg(shape, numbers[operand], operand, &operands[operand]);
    }
    ok = ok && add_step_args(api, gemm, shape) &&
         api->dnnl_matmul_desc_init(&desc, &operands[SC_GEMM_A], &operands[SC_GEMM_B], NULL,
                                    &operands[SC_GEMM_C]) == dnnl_success &&
         api->dnnl_primitive_desc_create(&made, &desc, attr, o->engine, NULL) == dnnl_success;
    if (ok) {
        const char *implementation = "";
        const dnnl_memory_desc_t *scratchpad =
            api->dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0);
        api->dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, (void *)&implementation);
        snprintf(o->name, sizeof o->name, "onednn %s", implementation);
        add_arg(shape, DNNL_ARG_SCRATCHPAD, SCRATCHPAD, scratchpad);
        shape->scratch_bytes = api->dnnl_memory_desc_get_size(scratchpad);
        ok = strncmp(implementation, "ref", 3) != 0 &&
             api->dnnl_primitive_create(&shape->primitive, made) == dnnl_success;
    }
    if (made != NULL)
        api->dnnl_primitive_desc_destroy(made);
    if (attr != NULL)
        api->dnnl_primitive_attr_destroy(attr);
    return ok;
}

/* ---- pieces ---- */

static void cut(sc_gemm_onednn *o, uint32_t dim, int64_t part)
{
    int64_t size = o->gemm.dims[dim].size;
    if (part >= size)
        return;
    o->cuts[o->cut_count++] = (library_cut){dim, part, (size + part - 1) / part};
    o->pieces *= (size + part - 1) / part;
}

/* Returns a size for nearly equal pieces, none above `most`. */
static int64_t even_part(int64_t size, int64_t most)
{
    int64_t count = (size + most - 1) / most, part = (size + count - 1) / count;
    return (part + PIECE_STEP - 1) / PIECE_STEP * PIECE_STEP;
}

/* Splits c. Depends on the descriptor only, so that the result does not depend on the team's
 * size. */
static void cut_pieces(sc_gemm_onednn *o)
{
    const sc_gemm *gemm = &o->gemm;
    uint32_t batch = SC_GEMM_MAX_DIMS;
    o->pieces = 1;
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        if (gemm->dims[i].role == SC_GEMM_M)
            cut(o, i, even_part(gemm->dims[i].size, PIECE_ROWS));
        else if (gemm->dims[i].role == SC_GEMM_N)
            cut(o, i, even_part(gemm->dims[i].size, PIECE_COLUMNS));
        else if (gemm->dims[i].role == SC_GEMM_BATCH &&
                 (batch == SC_GEMM_MAX_DIMS || gemm->dims[i].size > gemm->dims[batch].size))
            batch = i;
    }
    if (batch == SC_GEMM_MAX_DIMS)
        return;
    double flops = (double)sc_gemm_flops(gemm) / (double)o->pieces / (double)gemm->dims[batch].size;
    cut(o, batch, flops >= PIECE_FLOPS ? 1 : (int64_t)((double)PIECE_FLOPS / flops));
}

/* Returns the shape index of a piece, and the descriptor of that shape. */
static int shape_of(const sc_gemm_onednn *o, int64_t piece, sc_gemm *out)
{
    int shape = 0;
    for (int c = 0; c < o->cut_count; c++) {
        const library_cut *at = &o->cuts[c];
        int64_t size = o->gemm.dims[at->dim].size, first = piece % at->count * at->part;
        bool is_end = size - first < at->part;
        shape |= is_end ? 1 << c : 0;
        if (out != NULL)
            out->dims[at->dim].size = is_end ? size - first : at->part;
        piece /= at->count;
    }
    return shape;
}

/* Returns where a piece of an array begins, in elements. */
static int64_t start_of(const sc_gemm_onednn *o, int64_t piece, int array)
{
    int64_t start = 0;
    for (int c = 0; c < o->cut_count; c++) {
        const library_cut *at = &o->cuts[c];
        start += piece % at->count * at->part * stride_of(&o->gemm, at->dim, array);
        piece /= at->count;
    }
    return start;
}

/* Creates the primitives. Only the last piece along a split has another shape, so one piece for
 * each set of ends is enough. */
static bool make_shapes(sc_gemm_onednn *o)
{
    for (int ends = 0; ends < 1 << o->cut_count; ends++) {
        int64_t piece = 0, step = 1;
        for (int c = 0; c < o->cut_count; c++) {
            piece += (ends >> c & 1) != 0 ? (o->cuts[c].count - 1) * step : 0;
            step *= o->cuts[c].count;
        }
        sc_gemm gemm = o->gemm;
        library_shape **shape = &o->shapes[shape_of(o, piece, &gemm)];
        if (*shape != NULL)
            continue;
        *shape = calloc(1, sizeof **shape);
        if (*shape == NULL || !make_primitive(o, &gemm, *shape))
            return false;
        o->scratch_bytes =
            (*shape)->scratch_bytes > o->scratch_bytes ? (*shape)->scratch_bytes : o->scratch_bytes;
    }
    return true;
}

/* The library reads the number of threads when a primitive is created and when it runs; both happen
 * in a task with one thread. */
static bool make_for_one_thread(sc_gemm_onednn *o)
{
    bool ok = false;
#pragma omp parallel num_threads(1)
    {
        omp_set_num_threads(1);
        ok = make_shapes(o);
    }
    return ok;
}

/* False if the scratch memory is too small for one worker. */
static bool share_scratch(sc_gemm_onednn *o, int64_t scratch_bytes)
{
    o->scratch_bytes = (o->scratch_bytes + 63) / 64 * 64;
    o->workers = o->scratch_bytes == 0 ? o->pieces : scratch_bytes / (int64_t)o->scratch_bytes;
    o->workers = o->workers < o->pieces ? o->workers : o->pieces;
    return o->workers > 0;
}

sc_gemm_onednn *sc_gemm_onednn_new(const sc_gemm *gemm, int64_t scratch_bytes)
{
    sc_gemm_onednn *o = calloc(1, sizeof *o);
    bool ok = o != NULL && gemm->sum == SC_DTYPE_f32 && sc_gemm_flops(gemm) > 0 &&
              sc_onednn_open(&o->api) &&
              o->api.dnnl_engine_create(&o->engine, dnnl_cpu, 0) == dnnl_success;
    if (ok) {
        o->gemm = *gemm;
        cut_pieces(o);
        ok = make_for_one_thread(o) && share_scratch(o, scratch_bytes);
    }
    if (ok)
        return o;
    sc_gemm_onednn_free(o);
    return NULL;
}

void sc_gemm_onednn_free(sc_gemm_onednn *o)
{
    if (o == NULL)
        return;
    for (int s = 0; s < SHAPES; s++) {
        if (o->shapes[s] != NULL && o->shapes[s]->primitive != NULL)
            o->api.dnnl_primitive_destroy(o->shapes[s]->primitive);
        free(o->shapes[s]);
    }
    if (o->engine != NULL)
        o->api.dnnl_engine_destroy(o->engine);
    sc_onednn_close(&o->api);
    free(o);
}

/* ---- runs ---- */

typedef struct library_run {
    const sc_gemm_onednn *o;
    const void *arrays[SC_GEMM_OPERANDS];
    const void *const *steps;
    char *scratch;
} library_run;

static void *address_of(const library_run *run, int64_t piece, int array, int worker)
{
    const sc_gemm *gemm = &run->o->gemm;
    if (array == SCRATCHPAD)
        return run->scratch + (size_t)worker * run->o->scratch_bytes;
    sc_dtype dtype = array < SC_GEMM_OPERANDS ? gemm->dtypes[array]
                                              : gemm->steps[array - SC_GEMM_OPERANDS].dtype;
    const char *data =
        array < SC_GEMM_OPERANDS ? run->arrays[array] : run->steps[array - SC_GEMM_OPERANDS];
    return (void *)(uintptr_t)(data +
                               start_of(run->o, piece, array) * (int64_t)sc_dtypes[dtype].bytes);
}

static bool run_piece(const library_run *run, int64_t piece, int worker, dnnl_stream_t stream)
{
    const sc_onednn *api = &run->o->api;
    const library_shape *shape = run->o->shapes[shape_of(run->o, piece, NULL)];
    dnnl_exec_arg_t args[MAX_ARGS];
    int made = 0;
    bool ok = true;
    for (; made < shape->arg_count; made++) {
        const library_arg *arg = &shape->args[made];
        args[made].arg = arg->number;
        ok = api->dnnl_memory_create(&args[made].memory, &arg->desc, run->o->engine,
                                     address_of(run, piece, arg->array, worker)) == dnnl_success;
        if (!ok)
            break;
    }
    ok = ok && api->dnnl_primitive_execute(shape->primitive, stream, made, args) == dnnl_success &&
         api->dnnl_stream_wait(stream) == dnnl_success;
    while (made > 0)
        api->dnnl_memory_destroy(args[--made].memory);
    return ok;
}

static int team_size(const sc_gemm_onednn *o)
{
    int most = omp_get_max_threads();
    return most < o->workers ? most : (int)o->workers;
}

bool sc_gemm_onednn_run(const sc_gemm_onednn *o, const void *a, const void *b, void *c,
                        const void *const *steps, void *scratch)
{
    const library_run run = {o, {a, b, c}, steps, scratch};
    int failures = 0;
#pragma omp parallel num_threads(team_size(o)) reduction(+ : failures)
    {
        dnnl_stream_t stream = NULL;
        omp_set_num_threads(1);
        bool ok = o->api.dnnl_stream_create(&stream, o->engine, dnnl_stream_default_flags) ==
                  dnnl_success;
#pragma omp for schedule(dynamic)
        for (int64_t piece = 0; piece < o->pieces; piece++)
            ok = ok && run_piece(&run, piece, omp_get_thread_num(), stream);
        if (stream != NULL)
            o->api.dnnl_stream_destroy(stream);
        failures += !ok;
    }
    return failures == 0;
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
    return (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}
#else
typedef int sc_gemm_onednn_is_not_there; /* ISO C forbids an empty file */
#endif
