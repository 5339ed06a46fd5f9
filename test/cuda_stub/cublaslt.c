/* cuBLASLt on the driver's stub: products by columns, computed in f64 and rounded once when their
 * turn on the stream comes. What the library's manual forbids is refused. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/cuda/libcublaslt.h"
#include "test/cuda_stub/stub.h"

enum {
    STATUS_NOT_INITIALISED = 1,
    STATUS_INVALID_VALUE = SC_LT_INVALID_VALUE,
    STATUS_EXECUTION_FAILED = 13,
    STATUS_INTERNAL_ERROR = 14,
    ALGO_MARK = 0x5ca1ab1e
};

struct sc_lt_desc_object {
    sc_lt_compute compute;
    sc_lt_dtype scale;
    int32_t transpose_a, transpose_b, bias_dtype;
    uint32_t epilogue;
    const void *bias;
    void *aux;
    int64_t aux_stride, aux_batch_stride;
};

struct sc_lt_layout_object {
    sc_lt_dtype dtype;
    uint64_t rows, columns;
    int64_t stride, batch_stride;
    int32_t batches, order;
};

struct sc_lt_preference_object {
    uint64_t workspace;
    /* of a, b, c, d: 0 is 256, what is believed of addresses of which nothing is said */
    uint32_t aligned[4];
    uint32_t reductions;
};

struct cublasLtContext {
    int gpu; /* of the context that it was made in */
};

#define ENTER()                                                                                    \
    do {                                                                                           \
        unsigned injected = sc_stub_enter(__func__);                                               \
        if (injected != SC_LT_SUCCESS)                                                             \
            return injected;                                                                       \
    } while (0)

/* The library's functions, which the runtime looks up. */
#define SYMBOL(result, name, ...) SC_STUB_API result name(__VA_ARGS__);
#include "runtime/cuda/libcublaslt.def"
#undef SYMBOL

/* Another one: SHARDC_STUB_CUBLASLT_VERSION. */
size_t cublasLtGetVersion(void)
{
    const char *text = getenv("SHARDC_STUB_CUBLASLT_VERSION");
    return text == NULL ? 130000 : (size_t)strtoul(text, NULL, 10);
}

const char *cublasLtGetStatusString(sc_lt_status status)
{
    switch (status) {
    case SC_LT_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case SC_LT_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    case SC_LT_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
        return "CUBLAS_STATUS_UNKNOWN";
    }
}

/* ---- objects ---- */

sc_lt_status cublasLtCreate(sc_lt_handle *out)
{
    ENTER();
    int gpu = sc_stub_gpu();
    if (gpu < 0)
        return STATUS_NOT_INITIALISED;
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return SC_LT_ALLOC_FAILED;
    (*out)->gpu = gpu;
    return SC_LT_SUCCESS;
}

sc_lt_status cublasLtDestroy(sc_lt_handle handle)
{
    free(handle); /* even where it is told to fail, so that nothing is lost */
    ENTER();
    return SC_LT_SUCCESS;
}

sc_lt_status cublasLtMatmulDescCreate(sc_lt_desc *out, sc_lt_compute compute, sc_lt_dtype scale)
{
    ENTER();
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return SC_LT_ALLOC_FAILED;
    **out = (struct sc_lt_desc_object){
        .compute = compute, .scale = scale, .bias_dtype = -1, .epilogue = SC_LT_EPILOGUE_NONE};
    return SC_LT_SUCCESS;
}

static bool take(void *to, size_t room, const void *value, size_t bytes)
{
    if (room != bytes)
        return false;
    memcpy(to, value, bytes);
    return true;
}

sc_lt_status cublasLtMatmulDescSetAttribute(sc_lt_desc desc, sc_lt_desc_attribute which,
                                            const void *value, size_t bytes)
{
    ENTER();
    bool fits = false;
    switch (which) {
    case SC_LT_DESC_TRANSPOSE_A:
        fits = take(&desc->transpose_a, sizeof desc->transpose_a, value, bytes);
        break;
    case SC_LT_DESC_TRANSPOSE_B:
        fits = take(&desc->transpose_b, sizeof desc->transpose_b, value, bytes);
        break;
    case SC_LT_DESC_EPILOGUE:
        fits = take(&desc->epilogue, sizeof desc->epilogue, value, bytes);
        break;
    case SC_LT_DESC_BIAS:
        fits = take(&desc->bias, sizeof desc->bias, value, bytes);
        break;
    case SC_LT_DESC_AUX:
        fits = take(&desc->aux, sizeof desc->aux, value, bytes);
        break;
    case SC_LT_DESC_AUX_STRIDE:
        fits = take(&desc->aux_stride, sizeof desc->aux_stride, value, bytes);
        break;
    case SC_LT_DESC_AUX_BATCH_STRIDE:
        fits = take(&desc->aux_batch_stride, sizeof desc->aux_batch_stride, value, bytes);
        break;
    case SC_LT_DESC_BIAS_DTYPE:
        fits = take(&desc->bias_dtype, sizeof desc->bias_dtype, value, bytes);
        break;
    default:
        break;
    }
    return fits ? SC_LT_SUCCESS : STATUS_INVALID_VALUE;
}

sc_lt_status cublasLtMatmulDescDestroy(sc_lt_desc desc)
{
    free(desc);
    ENTER();
    return SC_LT_SUCCESS;
}

sc_lt_status cublasLtMatrixLayoutCreate(sc_lt_layout *out, sc_lt_dtype dtype, uint64_t rows,
                                        uint64_t columns, int64_t stride)
{
    ENTER();
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return SC_LT_ALLOC_FAILED;
    **out = (struct sc_lt_layout_object){
        .dtype = dtype, .rows = rows, .columns = columns, .stride = stride, .batches = 1};
    return SC_LT_SUCCESS;
}

sc_lt_status cublasLtMatrixLayoutSetAttribute(sc_lt_layout layout, sc_lt_layout_attribute which,
                                              const void *value, size_t bytes)
{
    ENTER();
    bool fits = false;
    if (which == SC_LT_LAYOUT_BATCH_COUNT)
        fits = take(&layout->batches, sizeof layout->batches, value, bytes);
    else if (which == SC_LT_LAYOUT_BATCH_STRIDE)
        fits = take(&layout->batch_stride, sizeof layout->batch_stride, value, bytes);
    else if (which == SC_LT_LAYOUT_ORDER)
        fits = take(&layout->order, sizeof layout->order, value, bytes);
    return fits ? SC_LT_SUCCESS : STATUS_INVALID_VALUE;
}

sc_lt_status cublasLtMatrixLayoutDestroy(sc_lt_layout layout)
{
    free(layout);
    ENTER();
    return SC_LT_SUCCESS;
}

sc_lt_status cublasLtMatmulPreferenceCreate(sc_lt_preference *out)
{
    ENTER();
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return SC_LT_ALLOC_FAILED;
    (*out)->reductions = SC_LT_REDUCE_ANY;
    return SC_LT_SUCCESS;
}

sc_lt_status cublasLtMatmulPreferenceSetAttribute(sc_lt_preference preference,
                                                  sc_lt_preference_attribute which,
                                                  const void *value, size_t bytes)
{
    ENTER();
    bool fits = which == SC_LT_PREFER_WORKSPACE_BYTES
                    ? take(&preference->workspace, sizeof preference->workspace, value, bytes)
                : which == SC_LT_PREFER_REDUCTIONS
                    ? take(&preference->reductions, sizeof preference->reductions, value, bytes)
                : which >= SC_LT_PREFER_ALIGN_A && which <= SC_LT_PREFER_ALIGN_D
                    ? take(&preference->aligned[which - SC_LT_PREFER_ALIGN_A],
                           sizeof *preference->aligned, value, bytes)
                    : false;
    return fits ? SC_LT_SUCCESS : STATUS_INVALID_VALUE;
}

sc_lt_status cublasLtMatmulPreferenceDestroy(sc_lt_preference preference)
{
    free(preference);
    ENTER();
    return SC_LT_SUCCESS;
}

/* ---- what can be computed ---- */

static size_t bytes_of(sc_lt_dtype dtype)
{
    return dtype == SC_LT_F64                          ? 8
           : dtype == SC_LT_F32                        ? 4
           : dtype == SC_LT_BF16 || dtype == SC_LT_F16 ? 2
                                                       : 0;
}

static bool is_matrix(const struct sc_lt_layout_object *m)
{
    return bytes_of(m->dtype) != 0 && m->order == SC_LT_ORDER_COLUMN && m->rows > 0 &&
           m->columns > 0 && m->stride >= (int64_t)m->rows && m->batches > 0;
}

/* The rows of "Supported data types" in the manual's cublasLtMatmul() that are used. */
static bool fits_dtypes(const struct sc_lt_desc_object *desc, sc_lt_dtype a, sc_lt_dtype b,
                        sc_lt_dtype c, sc_lt_dtype d)
{
    if (a != b || c != d)
        return false;
    if (desc->compute == SC_LT_COMPUTE_64F)
        return desc->scale == SC_LT_F64 && a == SC_LT_F64 && d == SC_LT_F64 &&
               desc->epilogue == SC_LT_EPILOGUE_NONE;
    if (desc->compute != SC_LT_COMPUTE_32F || desc->scale != SC_LT_F32)
        return false;
    return (a == SC_LT_F32 && d == SC_LT_F32) ||
           ((a == SC_LT_BF16 || a == SC_LT_F16) && (d == a || d == SC_LT_F32));
}

/* A library that has none: SHARDC_STUB_CUBLASLT_EPILOGUES=no. One whose products take
 * SLOW_EPILOGUE_US longer with one: =slow. */
enum { SLOW_EPILOGUE_US = 5000 };

static uint64_t epilogue_us(uint32_t epilogue)
{
    const char *has = getenv("SHARDC_STUB_CUBLASLT_EPILOGUES");
    bool is_slow = has != NULL && strcmp(has, "slow") == 0;
    return is_slow && epilogue != SC_LT_EPILOGUE_NONE ? SLOW_EPILOGUE_US : 0;
}

static bool fits_epilogue(uint32_t epilogue)
{
    const char *has = getenv("SHARDC_STUB_CUBLASLT_EPILOGUES");
    if (has != NULL && strcmp(has, "no") == 0)
        return epilogue == SC_LT_EPILOGUE_NONE;
    return epilogue == SC_LT_EPILOGUE_NONE || epilogue == SC_LT_EPILOGUE_RELU ||
           epilogue == SC_LT_EPILOGUE_BIAS || epilogue == SC_LT_EPILOGUE_RELU_BIAS ||
           epilogue == SC_LT_EPILOGUE_GELU || epilogue == SC_LT_EPILOGUE_GELU_BIAS ||
           epilogue == SC_LT_EPILOGUE_GELU_AUX || epilogue == SC_LT_EPILOGUE_GELU_AUX_BIAS ||
           epilogue == SC_LT_EPILOGUE_DGELU || epilogue == SC_LT_EPILOGUE_BGRAD_A ||
           epilogue == SC_LT_EPILOGUE_BGRAD_B;
}

/* Sums of a's rows, or of b's columns, over k become the bias. */
static bool is_total(uint32_t epilogue)
{
    return epilogue == SC_LT_EPILOGUE_BGRAD_A || epilogue == SC_LT_EPILOGUE_BGRAD_B;
}

static bool has_aux(const struct sc_lt_desc_object *desc)
{
    return desc->epilogue == SC_LT_EPILOGUE_GELU_AUX ||
           desc->epilogue == SC_LT_EPILOGUE_GELU_AUX_BIAS || desc->epilogue == SC_LT_EPILOGUE_DGELU;
}

/* What the manual says of CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD and _BATCH_STRIDE for GELU; the
 * address says how it is aligned, before it is read. Two matrices must not be one where they are
 * written. */
static bool fits_aux(const struct sc_lt_desc_object *desc, const struct sc_lt_layout_object *d)
{
    if (!has_aux(desc))
        return true;
    int64_t span = (int64_t)(d->columns - 1) * desc->aux_stride + (int64_t)d->rows;
    bool apart = d->batches == 1 || desc->epilogue == SC_LT_EPILOGUE_DGELU ||
                 desc->aux_batch_stride >= span ||
                 desc->aux_stride >= (d->batches - 1) * desc->aux_batch_stride + (int64_t)d->rows;
    return desc->aux != NULL && desc->aux_stride % 8 == 0 && desc->aux_stride >= (int64_t)d->rows &&
           desc->aux_batch_stride % 8 == 0 && apart;
}

static sc_lt_status check(const struct sc_lt_desc_object *desc, const struct sc_lt_layout_object *a,
                          const struct sc_lt_layout_object *b, const struct sc_lt_layout_object *c,
                          const struct sc_lt_layout_object *d)
{
    if (!is_matrix(a) || !is_matrix(b) || !is_matrix(c) || !is_matrix(d))
        return STATUS_INVALID_VALUE;
    uint64_t depth_a = desc->transpose_a ? a->rows : a->columns,
             depth_b = desc->transpose_b ? b->columns : b->rows;
    uint64_t rows = desc->transpose_a ? a->columns : a->rows,
             columns = desc->transpose_b ? b->rows : b->columns;
    if (depth_a != depth_b || rows != d->rows || columns != d->columns || c->rows != d->rows ||
        c->columns != d->columns || a->batches != d->batches || b->batches != d->batches ||
        c->batches != d->batches)
        return STATUS_INVALID_VALUE;
    if (!fits_aux(desc, d))
        return STATUS_INVALID_VALUE;
    /* where each matrix' sums would stand nobody said */
    if (is_total(desc->epilogue) && d->batches > 1)
        return SC_LT_NOT_SUPPORTED;
    return fits_dtypes(desc, a->dtype, b->dtype, c->dtype, d->dtype) &&
                   fits_epilogue(desc->epilogue)
               ? SC_LT_SUCCESS
               : SC_LT_NOT_SUPPORTED;
}

enum { WORKSPACE = 1 << 20, WAYS = 4 };

/* What an algorithm may take the bias for, and what an epilogue keeps or reads: it looks at the
 * addresses that the description has when it is chosen. */
static uint64_t alignment(const void *address, uint64_t widest)
{
    const uint64_t bits = (uint64_t)(uintptr_t)address | widest;
    return bits & -bits;
}

/* Where it may, an algorithm rounds the first half of a sum to the result's 16 bits (data[6], from
 * bit 32 on), as one does that computes parts beside each other and adds them there. */
static uint64_t parts_of(const struct sc_lt_preference_object *preference,
                         const struct sc_lt_layout_object *d)
{
    bool may = (preference->reductions & (SC_LT_REDUCE_IN_PLACE | SC_LT_REDUCE_AS_RESULT)) != 0;
    return (uint64_t)(may && bytes_of(d->dtype) == 2) << 32;
}

/* Who asks for several algorithms gets some that are slower than others (data[6]: by so many
 * microseconds), the best as the third, and one that is none; who asks for one gets the best. */
static const struct {
    sc_lt_status status;
    uint64_t slower;
} ways[WAYS] = {
    {SC_LT_SUCCESS, 400}, {SC_LT_NOT_SUPPORTED, 0}, {SC_LT_SUCCESS, 0}, {SC_LT_SUCCESS, 800}};

sc_lt_status cublasLtMatmulAlgoGetHeuristic(sc_lt_handle handle, sc_lt_desc desc, sc_lt_layout a,
                                            sc_lt_layout b, sc_lt_layout c, sc_lt_layout d,
                                            sc_lt_preference preference, int wanted,
                                            sc_lt_heuristic *out, int *out_count)
{
    ENTER();
    *out_count = 0;
    if (handle == NULL || wanted < 1)
        return STATUS_INVALID_VALUE;
    if (sc_stub_records()) /* as the library of CUDA 13.3 */
        return STATUS_INTERNAL_ERROR;
    sc_lt_status status = check(desc, a, b, c, d);
    if (status != SC_LT_SUCCESS)
        return status;
    *out_count = wanted < WAYS ? 1 : WAYS;
    for (int w = 0; w < *out_count; w++) {
        sc_lt_heuristic *one = &out[w];
        *one = (sc_lt_heuristic){.status = *out_count == 1 ? SC_LT_SUCCESS : ways[w].status,
                                 .waves = 1};
        one->algo.data[0] = ALGO_MARK;
        one->workspace_bytes =
            preference->workspace < WORKSPACE ? (size_t)preference->workspace : WORKSPACE;
        one->algo.data[1] = one->workspace_bytes;
        for (int i = 0; i < 4; i++)
            one->algo.data[2 + i] = preference->aligned[i] == 0 ? 256 : preference->aligned[i];
        one->algo.data[6] = (*out_count == 1 ? 0 : ways[w].slower) | parts_of(preference, d);
        one->algo.data[7] =
            alignment(desc->bias, 16) << 32 | (has_aux(desc) ? alignment(desc->aux, 256) : 1);
    }
    return SC_LT_SUCCESS;
}

sc_lt_status cublasLtMatmulAlgoCheck(sc_lt_handle handle, sc_lt_desc desc, sc_lt_layout a,
                                     sc_lt_layout b, sc_lt_layout c, sc_lt_layout d,
                                     const sc_lt_algo *algo, sc_lt_heuristic *out)
{
    ENTER();
    if (handle == NULL || algo->data[0] != ALGO_MARK)
        return STATUS_INVALID_VALUE;
    *out = (sc_lt_heuristic){
        .algo = *algo, .workspace_bytes = (size_t)algo->data[1], .status = check(desc, a, b, c, d)};
    return out->status;
}

/* ---- elements ---- */

static double load(sc_lt_dtype dtype, const char *at)
{
    float f;
    double wide;
    uint16_t half;
    uint32_t bits;
    switch (dtype) {
    case SC_LT_F64:
        memcpy(&wide, at, sizeof wide);
        return wide;
    case SC_LT_F32:
        memcpy(&f, at, sizeof f);
        return (double)f;
    case SC_LT_BF16:
        memcpy(&half, at, sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    default:
        memcpy(&half, at, sizeof half);
        wide = (half & 0x7c00) == 0 ? ldexp(half & 0x3ff, -24)
                                    : ldexp((half & 0x3ff) | 0x400, (half >> 10 & 31) - 25);
        if ((half & 0x7c00) == 0x7c00)
            wide = (half & 0x3ff) != 0 ? (double)NAN : (double)INFINITY;
        return (half & 0x8000) != 0 ? -wide : wide;
    }
}

/* To nearest even with so many bits of mantissa and no exponent below `least`. */
static double rounded(double x, int bits, int least)
{
    int exponent;
    if (x == 0 || !isfinite(x))
        return x;
    frexp(x, &exponent);
    exponent = exponent - bits < least ? least : exponent - bits;
    return ldexp(nearbyint(ldexp(x, -exponent)), exponent);
}

static void store(sc_lt_dtype dtype, char *at, double x)
{
    float f;
    uint32_t bits;
    uint16_t half;
    switch (dtype) {
    case SC_LT_F64:
        memcpy(at, &x, sizeof x);
        return;
    case SC_LT_F32:
        f = (float)x;
        memcpy(at, &f, sizeof f);
        return;
    case SC_LT_BF16:
        f = (float)rounded(x, 8, -133);
        memcpy(&bits, &f, sizeof bits);
        half = (uint16_t)(bits >> 16);
        memcpy(at, &half, sizeof half);
        return;
    default:
        x = rounded(x, 11, -24);
        half = signbit(x) ? 0x8000 : 0;
        x = fabs(x);
        if (isnan(x))
            half = 0x7fff;
        else if (x > 65504)
            half |= 0x7c00;
        else if (x < 0x1p-14)
            half = (uint16_t)(half | (uint16_t)ldexp(x, 24));
        else {
            int exponent;
            double mantissa = frexp(x, &exponent);
            half = (uint16_t)(half | ((uint16_t)(exponent + 14) << 10) |
                              ((uint16_t)ldexp(mantissa, 11) & 0x3ff));
        }
        memcpy(at, &half, sizeof half);
        return;
    }
}

/* ---- products ---- */

typedef struct product {
    struct sc_lt_desc_object desc;
    struct sc_lt_layout_object a, b, c, d;
    double alpha, beta;
    const char *from_a, *from_b, *from_c;
    char *to, *workspace;
    size_t workspace_bytes;
    uint64_t slower;
    bool in_parts;
} product;

/* As the dtype has it. */
static double as_stored(sc_lt_dtype dtype, double x)
{
    char bytes[8];
    store(dtype, bytes, x);
    return load(dtype, bytes);
}

static double element(const struct sc_lt_layout_object *m, const char *data, int64_t batch,
                      int64_t row, int64_t column)
{
    return load(m->dtype, data + (batch * m->batch_stride + column * m->stride + row) *
                                     (int64_t)bytes_of(m->dtype));
}

/* GELU with tanh: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, section 2; and its
 * derivative. */
static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

static double finish(const product *p, double x, int64_t batch, int64_t row, int64_t column)
{
    int64_t aux_at = batch * p->desc.aux_batch_stride + column * p->desc.aux_stride + row;
    char *aux =
        has_aux(&p->desc) ? (char *)p->desc.aux + aux_at * (int64_t)bytes_of(p->d.dtype) : NULL;
    uint32_t epilogue = p->desc.epilogue;
    sc_lt_dtype bias = p->desc.bias_dtype < 0 ? p->d.dtype : (sc_lt_dtype)p->desc.bias_dtype;
    if ((epilogue & SC_LT_EPILOGUE_BIAS) != 0)
        x += load(bias, (const char *)p->desc.bias + row * (int64_t)bytes_of(bias));
    if ((epilogue & SC_LT_EPILOGUE_RELU) != 0)
        return x > 0 ? x : x != x ? x : 0;
    if (epilogue == SC_LT_EPILOGUE_DGELU)
        return x * gelu_slope(load(p->d.dtype, aux));
    if (aux != NULL)
        store(p->d.dtype, aux, x);
    return (epilogue & SC_LT_EPILOGUE_GELU) != 0 ? gelu(x) : x;
}

static void sum_operand(const product *p, int64_t depth)
{
    bool of_a = p->desc.epilogue == SC_LT_EPILOGUE_BGRAD_A,
         turned = of_a ? p->desc.transpose_a : !p->desc.transpose_b;
    const struct sc_lt_layout_object *m = of_a ? &p->a : &p->b;
    sc_lt_dtype dtype = p->desc.bias_dtype < 0 ? p->d.dtype : (sc_lt_dtype)p->desc.bias_dtype;
    for (int64_t i = 0; i < (int64_t)(of_a ? p->d.rows : p->d.columns); i++) {
        double sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += element(m, of_a ? p->from_a : p->from_b, 0, turned ? k : i, turned ? i : k);
        store(dtype, (char *)(uintptr_t)p->desc.bias + i * (int64_t)bytes_of(dtype), sum);
    }
}

/* It uses both ends of its workspace, as the library may all of it. */
static bool run_product(void *data, char *why, size_t room)
{
    const product *p = data;
    int64_t rows = (int64_t)p->d.rows, columns = (int64_t)p->d.columns;
    int64_t depth = (int64_t)(p->desc.transpose_a ? p->a.rows : p->a.columns);
    (void)why, (void)room;
    uint64_t slower = p->slower + epilogue_us(p->desc.epilogue);
    if (slower > 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000 * (long)slower}, NULL);
    size_t end = p->workspace_bytes < 4096 ? p->workspace_bytes : 4096;
    if (end > 0) {
        memset(p->workspace, 0x5a, end);
        memset(p->workspace + p->workspace_bytes - end, 0x5a, end);
    }
    if (is_total(p->desc.epilogue))
        sum_operand(p, depth);
    for (int64_t batch = 0; batch < p->d.batches; batch++) {
        for (int64_t j = 0; j < columns; j++) {
            for (int64_t i = 0; i < rows; i++) {
                double sum = 0;
                for (int64_t k = 0; k < depth; k++) {
                    if (p->in_parts && k == depth / 2)
                        sum = as_stored(p->d.dtype, sum);
                    sum += element(&p->a, p->from_a, batch, p->desc.transpose_a ? k : i,
                                   p->desc.transpose_a ? i : k) *
                           element(&p->b, p->from_b, batch, p->desc.transpose_b ? j : k,
                                   p->desc.transpose_b ? k : j);
                }
                sum *= p->alpha;
                if (p->beta != 0)
                    sum += p->beta * element(&p->c, p->from_c, batch, i, j);
                store(p->d.dtype,
                      p->to + (batch * p->d.batch_stride + j * p->d.stride + i) *
                                  (int64_t)bytes_of(p->d.dtype),
                      finish(p, sum, batch, i, j));
            }
        }
    }
    return true;
}

static size_t span_of(const struct sc_lt_layout_object *m)
{
    int64_t elements = (m->batches - 1) * m->batch_stride + (int64_t)(m->columns - 1) * m->stride +
                       (int64_t)m->rows;
    return (size_t)elements * bytes_of(m->dtype);
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* Whether all that a matrix spans is the GPU's. */
static bool owns(sc_cu_stream stream, const struct sc_lt_layout_object *m, const void *at)
{
    return (uintptr_t)at % bytes_of(m->dtype) == 0 && sc_stub_owns(stream, at, span_of(m));
}

static double scalar(sc_lt_dtype scale, const void *at)
{
    return load(scale, at);
}

sc_lt_status cublasLtMatmul(sc_lt_handle handle, sc_lt_desc desc, const void *alpha, const void *a,
                            sc_lt_layout a_layout, const void *b, sc_lt_layout b_layout,
                            const void *beta, const void *c, sc_lt_layout c_layout, void *d,
                            sc_lt_layout d_layout, const sc_lt_algo *algo, void *workspace,
                            size_t workspace_bytes, sc_cu_stream stream)
{
    static const sc_stub_work work = {.name = "cublasLtMatmul", .run = run_product};
    ENTER();
    if (handle == NULL || algo == NULL || algo->data[0] != ALGO_MARK)
        return STATUS_INVALID_VALUE;
    sc_lt_status status = check(desc, a_layout, b_layout, c_layout, d_layout);
    if (status != SC_LT_SUCCESS)
        return status;
    product p = {.desc = *desc,
                 .a = *a_layout,
                 .b = *b_layout,
                 .c = *c_layout,
                 .d = *d_layout,
                 .alpha = scalar(desc->scale, alpha),
                 .beta = scalar(desc->scale, beta),
                 .from_a = a,
                 .from_b = b,
                 .from_c = c,
                 .to = d,
                 .workspace = workspace,
                 .workspace_bytes = workspace_bytes,
                 .slower = (uint32_t)algo->data[6] % 1000,
                 .in_parts = algo->data[6] >> 32 != 0};
    struct sc_lt_layout_object vector = {
        .dtype = desc->bias_dtype < 0 ? d_layout->dtype : (sc_lt_dtype)desc->bias_dtype,
        .rows = desc->epilogue == SC_LT_EPILOGUE_BGRAD_B ? d_layout->columns : d_layout->rows,
        .columns = 1,
        .batches = 1};
    bool has_bias = (desc->epilogue & SC_LT_EPILOGUE_BIAS) != 0 || is_total(desc->epilogue);
    if (handle->gpu != sc_stub_gpu() || handle->gpu != sc_stub_gpu_of(stream))
        return STATUS_INVALID_VALUE;
    struct sc_lt_layout_object kept = *d_layout;
    kept.stride = desc->aux_stride;
    kept.batch_stride = desc->aux_batch_stride;
    if (has_aux(desc) &&
        (!owns(stream, &kept, desc->aux) ||
         (uintptr_t)desc->aux % (algo->data[7] & UINT32_MAX) != 0 || desc->aux == d))
        return STATUS_INVALID_VALUE;
    /* the workspace may be larger than the algorithm wants, not smaller */
    if (workspace_bytes < algo->data[1] || (uintptr_t)workspace % 256 != 0 ||
        (workspace_bytes > 0 && !sc_stub_owns(stream, workspace, workspace_bytes)))
        return STATUS_INVALID_VALUE;
    if (!owns(stream, a_layout, a) || !owns(stream, b_layout, b) || !owns(stream, d_layout, d) ||
        (p.beta != 0 && !owns(stream, c_layout, c)) ||
        (has_bias && !owns(stream, &vector, desc->bias)))
        return STATUS_INVALID_VALUE;
    /* d may be c, and overlaps with nothing else */
    size_t d_bytes = span_of(d_layout);
    if (overlap(d, d_bytes, a, span_of(a_layout)) || overlap(d, d_bytes, b, span_of(b_layout)) ||
        overlap(d, d_bytes, workspace, workspace_bytes) ||
        (c != d && overlap(d, d_bytes, c, span_of(c_layout))) ||
        (has_bias && overlap(d, d_bytes, desc->bias, span_of(&vector))))
        return STATUS_INVALID_VALUE;
    if (is_total(desc->epilogue) &&
        (overlap(desc->bias, span_of(&vector), a, span_of(a_layout)) ||
         overlap(desc->bias, span_of(&vector), b, span_of(b_layout)) ||
         overlap(desc->bias, span_of(&vector), workspace, workspace_bytes)))
        return STATUS_INVALID_VALUE;
    if (has_bias && (uintptr_t)desc->bias % (algo->data[7] >> 32) != 0)
        return STATUS_INVALID_VALUE;
    /* the algorithm was chosen for addresses like these: a GPU's would fault */
    const void *addresses[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) {
        if ((uintptr_t)addresses[i] % algo->data[2 + i] != 0)
            return STATUS_INVALID_VALUE;
    }
    return sc_stub_enqueue(stream, &work, &p, sizeof p) == SC_CU_SUCCESS ? SC_LT_SUCCESS
                                                                         : STATUS_EXECUTION_FAILED;
}
