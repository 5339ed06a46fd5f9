/* What a GPU gives, for the rates of programs to be compared with: how fast memory is copied on it,
 * and how fast cuBLASLt multiplies when it is called for one product alone.
 *
 *     cuda_rates                                 the GPU
 *     cuda_rates --copy 1024 'gemm bf16 [m 512 | n 512 | k 512] a(512,1) b(512,1) c(512,1)' ..
 *
 * --copy MIB: of each of two buffers; bytes read and bytes written are counted. Products are
 * written as `bench --profile` prints them (program/gemm.h); epilogues that stand behind are left
 * out, sums with what the result held are not. Of the algorithms that the library proposes (at most
 * CHOICES) the fastest counts, of repetitions the best; --seconds S: how long each is repeated.
 * Numbers are random, since zeros take less power. The result is one line of JSON; what fails is
 * said on standard error, with status 7. */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/gemm_blas.h"
#include "runtime/cuda/rank.h"

enum {
    CHOICES = 8,
    REPEATS = 5,
    BLOCK = 1 << 22 /* bytes of random numbers */,
    MOST_CALLS = 1 << 16
};

typedef struct gpu {
    sc_cuda api;
    sc_cublaslt lt; /* library NULL: not needed */
    sc_lt_handle handle;
    sc_cu_device device;
    sc_cu_context context;
    sc_cu_stream stream;
    sc_cu_event begin, end;
    double seconds; /* to repeat for */
} gpu;

static void check(shardc_status status, const shardc_error *error)
{
    if (status == SHARDC_OK)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(7);
}

#define CU(gpu, name, ...)                                                                         \
    do {                                                                                           \
        shardc_error why;                                                                          \
        check(sc_cuda_check(&(gpu)->api, (gpu)->api.name(__VA_ARGS__), #name, "", &why), &why);    \
    } while (0)

static void lt_check(const gpu *c, sc_lt_status status, const char *call)
{
    if (status == SC_LT_SUCCESS)
        return;
    fprintf(stderr, "%s: %s (%u)\n", call, c->lt.cublasLtGetStatusString(status), status);
    exit(7);
}
#define LT(gpu, name, ...) lt_check(gpu, (gpu)->lt.name(__VA_ARGS__), #name)

/* ---- the GPU ---- */

static int attribute(const gpu *c, sc_cu_device_attribute which)
{
    int value = 0;
    CU(c, cuDeviceGetAttribute, &value, which, c->device);
    return value;
}

static void open_gpu(gpu *c)
{
    shardc_error error;
    int count = 0;
    if (!sc_cuda_open(&c->api, &error))
        check(SHARDC_ERROR_UNAVAILABLE, &error);
    CU(c, cuInit, 0);
    CU(c, cuDeviceGetCount, &count);
    if (count == 0) {
        fputs("there is no GPU that CUDA's driver would use\n", stderr);
        exit(7);
    }
    CU(c, cuDeviceGet, &c->device, 0);
    CU(c, cuDevicePrimaryCtxRetain, &c->context, c->device);
    CU(c, cuCtxSetCurrent, c->context);
    CU(c, cuStreamCreate, &c->stream, SC_CU_STREAM_NON_BLOCKING);
    CU(c, cuEventCreate, &c->begin, 0);
    CU(c, cuEventCreate, &c->end, 0);
}

static void close_gpu(gpu *c)
{
    if (c->lt.library != NULL) {
        LT(c, cublasLtDestroy, c->handle);
        sc_cublaslt_close(&c->lt);
    }
    CU(c, cuEventDestroy_v2, c->begin);
    CU(c, cuEventDestroy_v2, c->end);
    CU(c, cuStreamDestroy_v2, c->stream);
    CU(c, cuDevicePrimaryCtxRelease_v2, c->device);
    sc_cuda_close(&c->api);
}

static json_t *describe(const gpu *c)
{
    char name[128] = "", capability[32];
    size_t bytes = 0;
    int driver = 0, gpus = 0;
    CU(c, cuDeviceGetCount, &gpus);
    CU(c, cuDeviceGetName, name, (int)sizeof name, c->device);
    CU(c, cuDeviceTotalMem_v2, &bytes, c->device);
    CU(c, cuDriverGetVersion, &driver);
    snprintf(capability, sizeof capability, "%d.%d", attribute(c, SC_CU_CAPABILITY_MAJOR),
             attribute(c, SC_CU_CAPABILITY_MINOR));
    return json_pack("{s:s, s:s, s:i, s:I, s:i, s:i}", "gpu", name, "capability", capability,
                     "multiprocessors", attribute(c, SC_CU_MULTIPROCESSORS), "memory",
                     (json_int_t)bytes, "driver", driver, "gpus", gpus);
}

/* ---- time ---- */

typedef void (*one_call)(const gpu *c, const void *user);

static double seconds_of(const gpu *c, one_call call, const void *user, int calls)
{
    float milliseconds = 0;
    CU(c, cuEventRecord, c->begin, c->stream);
    for (int i = 0; i < calls; i++)
        call(c, user);
    CU(c, cuEventRecord, c->end, c->stream);
    CU(c, cuEventSynchronize, c->end);
    CU(c, cuEventElapsedTime, &milliseconds, c->begin, c->end);
    return 1e-3 * (double)milliseconds;
}

/* Of one call: the first ones tell how many make up a repetition. */
static double best_seconds(const gpu *c, one_call call, const void *user)
{
    int calls = 1;
    double best, taken;
    seconds_of(c, call, user, calls);
    while ((taken = seconds_of(c, call, user, calls)) < c->seconds / REPEATS && calls < MOST_CALLS)
        calls *= 2;
    best = taken / calls;
    for (int i = 1; i < REPEATS; i++)
        best = fmin(best, seconds_of(c, call, user, calls) / calls);
    return best;
}

/* ---- memory ---- */

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 32 ^ *seed;
}

/* Bits of numbers between 1/16 and 1, of either sign. */
static uint64_t bits_of(sc_dtype dtype, uint64_t random)
{
    switch (dtype) {
    case SC_DTYPE_f64:
        return (random & 0x800fffffffffffffu) | (1019 + (random >> 52 & 3)) << 52;
    case SC_DTYPE_f32:
        return (random & 0x807fffffu) | (123 + (random >> 23 & 3)) << 23;
    case SC_DTYPE_f16:
        return (random & 0x83ffu) | (11 + (random >> 10 & 3)) << 10;
    default:
        return (random & 0x807fu) | (123 + (random >> 7 & 3)) << 7;
    }
}

static sc_cu_address new_numbers(const gpu *c, sc_dtype dtype, size_t bytes)
{
    sc_cu_address memory = 0;
    void *block = NULL;
    size_t size = sc_dtypes[dtype].bytes, done = bytes < BLOCK ? bytes : BLOCK;
    uint64_t seed = bytes;
    CU(c, cuMemAlloc_v2, &memory, bytes + 1);
    CU(c, cuMemHostAlloc, &block, BLOCK, 0);
    for (size_t i = 0; i < BLOCK / size; i++) {
        uint64_t bits = bits_of(dtype, next(&seed));
        memcpy((char *)block + i * size, &bits, size);
    }
    CU(c, cuMemcpyHtoDAsync_v2, memory, block, done, c->stream);
    for (size_t piece; done < bytes; done += piece) {
        piece = bytes - done < done ? bytes - done : done;
        CU(c, cuMemcpyDtoDAsync_v2, memory + done, memory, piece, c->stream);
    }
    CU(c, cuStreamSynchronize, c->stream);
    CU(c, cuMemFreeHost, block);
    return memory;
}

/* ---- copying ---- */

typedef struct copying {
    sc_cu_address from, to;
    size_t bytes;
} copying;

static void copy_once(const gpu *c, const void *user)
{
    const copying *m = user;
    CU(c, cuMemcpyDtoDAsync_v2, m->to, m->from, m->bytes, c->stream);
}

/* Bytes read and written a second. */
static double copy_rate(const gpu *c, size_t bytes)
{
    copying m = {.from = new_numbers(c, SC_DTYPE_f32, bytes),
                 .to = new_numbers(c, SC_DTYPE_f32, bytes),
                 .bytes = bytes};
    double rate = 2 * (double)bytes / best_seconds(c, copy_once, &m);
    CU(c, cuMemFree_v2, m.from);
    CU(c, cuMemFree_v2, m.to);
    return rate;
}

/* ---- products in words ---- */

static bool skip(const char **at, const char *word)
{
    size_t length = strlen(word);
    *at += strspn(*at, " ");
    if (strncmp(*at, word, length) != 0 ||
        (isalnum((unsigned char)word[length - 1]) && isalnum((unsigned char)(*at)[length])))
        return false;
    *at += length;
    return true;
}

/* SC_DTYPE_COUNT: there is none here. */
static sc_dtype read_dtype(const char **at)
{
    char name[8] = "";
    const char *word = *at + strspn(*at, " ");
    size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789");
    if (length >= sizeof name)
        return SC_DTYPE_COUNT;
    memcpy(name, word, length);
    sc_dtype dtype = sc_dtype_find(name);
    *at = dtype == SC_DTYPE_COUNT ? *at : word + length;
    return dtype;
}

static bool read_sizes(const char **at, sc_gemm *out)
{
    static const char *const names[SC_GEMM_ROLES] = {"batch", "m", "n", "k"};
    if (!skip(at, "["))
        return false;
    for (int role = 0; role < SC_GEMM_ROLES; role++) {
        if (!skip(at, names[role]))
            continue;
        for (*at += strspn(*at, " "); isdigit((unsigned char)**at); *at += strspn(*at, " ")) {
            char *end;
            if (out->dim_count == SC_GEMM_MAX_DIMS)
                return false;
            out->dims[out->dim_count++] =
                (sc_gemm_dim){.size = strtoll(*at, &end, 10), .role = (sc_gemm_role)role};
            *at = end;
        }
        skip(at, "|");
    }
    return skip(at, "]");
}

static bool read_operand(const char **at, sc_gemm *out, sc_gemm_operand operand)
{
    static const char *const names[SC_GEMM_OPERANDS] = {"a", "b", "c"};
    static const sc_gemm_role lacks[SC_GEMM_OPERANDS] = {SC_GEMM_N, SC_GEMM_M, SC_GEMM_K};
    if (!skip(at, names[operand]))
        return false;
    out->accumulate = skip(at, "+=");
    sc_dtype dtype = read_dtype(at);
    out->dtypes[operand] = dtype == SC_DTYPE_COUNT ? out->dtypes[operand] : dtype;
    if (!skip(at, "("))
        return false;
    for (uint32_t i = 0; i < out->dim_count; i++) {
        char *end;
        if (out->dims[i].role == lacks[operand])
            continue;
        out->dims[i].strides[operand] = strtoll(*at, &end, 10);
        if (end == *at)
            return false;
        *at = end;
        skip(at, ",");
    }
    return skip(at, ")");
}

/* As sc_gemm_print writes it, but for the steps. NULL, or what is wrong. */
static const char *read_gemm(const char *text, sc_gemm *out)
{
    *out = (sc_gemm){.sum = SC_DTYPE_COUNT};
    if (!skip(&text, "gemm"))
        return "it does not begin with 'gemm'";
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        out->dtypes[o] = SC_DTYPE_COUNT;
    sc_dtype all = read_dtype(&text);
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        out->dtypes[o] = all;
    if (skip(&text, "sum"))
        out->sum = read_dtype(&text);
    bool ok = read_sizes(&text, out);
    for (int o = 0; ok && o < SC_GEMM_OPERANDS; o++)
        ok = read_operand(&text, out, (sc_gemm_operand)o);
    for (int o = 0; ok && o < SC_GEMM_OPERANDS; o++)
        ok = out->dtypes[o] != SC_DTYPE_COUNT;
    if (!ok)
        return "it is not written as `bench --profile` prints products";
    bool is_wide = out->dtypes[SC_GEMM_A] == SC_DTYPE_f64 || out->dtypes[SC_GEMM_B] == SC_DTYPE_f64;
    if (out->sum == SC_DTYPE_COUNT)
        out->sum = !sc_dtype_is_float(out->dtypes[SC_GEMM_A]) ? SC_DTYPE_i64
                   : is_wide                                  ? SC_DTYPE_f64
                                                              : SC_DTYPE_f32;
    return sc_gemm_invalid(out);
}

/* ---- products ---- */

typedef struct product {
    const sc_gemm *gemm;
    sc_matmul form;
    sc_lt_desc desc;
    sc_lt_layout a, b, d;
    sc_lt_algo algo;
    sc_cu_address operands[SC_GEMM_OPERANDS], workspace;
} product;

static sc_lt_dtype lt_dtype(sc_dtype dtype)
{
    return dtype == SC_DTYPE_f64    ? SC_LT_F64
           : dtype == SC_DTYPE_bf16 ? SC_LT_BF16
           : dtype == SC_DTYPE_f16  ? SC_LT_F16
                                    : SC_LT_F32;
}

static sc_lt_layout new_layout(const gpu *c, const sc_matmul_matrix *matrix, int64_t batches)
{
    sc_lt_layout layout;
    int32_t count = (int32_t)batches;
    LT(c, cublasLtMatrixLayoutCreate, &layout, lt_dtype(matrix->dtype), (uint64_t)matrix->rows,
       (uint64_t)matrix->columns, matrix->stride);
    if (batches > 1) {
        LT(c, cublasLtMatrixLayoutSetAttribute, layout, SC_LT_LAYOUT_BATCH_COUNT, &count,
           sizeof count);
        LT(c, cublasLtMatrixLayoutSetAttribute, layout, SC_LT_LAYOUT_BATCH_STRIDE,
           &matrix->batch_stride, sizeof matrix->batch_stride);
    }
    return layout;
}

static void open_product(const gpu *c, product *p)
{
    const sc_matmul *form = &p->form;
    int32_t transpose_a = form->a.is_transposed ? SC_LT_TRANSPOSED : SC_LT_AS_IS;
    int32_t transpose_b = form->b.is_transposed ? SC_LT_TRANSPOSED : SC_LT_AS_IS;
    bool wide = form->sum == SC_DTYPE_f64;
    LT(c, cublasLtMatmulDescCreate, &p->desc, wide ? SC_LT_COMPUTE_64F : SC_LT_COMPUTE_32F,
       wide ? SC_LT_F64 : SC_LT_F32);
    LT(c, cublasLtMatmulDescSetAttribute, p->desc, SC_LT_DESC_TRANSPOSE_A, &transpose_a,
       sizeof transpose_a);
    LT(c, cublasLtMatmulDescSetAttribute, p->desc, SC_LT_DESC_TRANSPOSE_B, &transpose_b,
       sizeof transpose_b);
    p->a = new_layout(c, &form->a, form->batches);
    p->b = new_layout(c, &form->b, form->batches);
    p->d = new_layout(c, &form->d, form->batches);
    for (int o = 0; o < SC_GEMM_OPERANDS; o++) {
        sc_dtype dtype = p->gemm->dtypes[o];
        p->operands[o] = new_numbers(
            c, dtype, (size_t)sc_gemm_extent(p->gemm, (sc_gemm_operand)o) * sc_dtypes[dtype].bytes);
    }
    CU(c, cuMemAlloc_v2, &p->workspace, SC_MATMUL_WORKSPACE);
}

static void close_product(const gpu *c, product *p)
{
    LT(c, cublasLtMatrixLayoutDestroy, p->d);
    LT(c, cublasLtMatrixLayoutDestroy, p->b);
    LT(c, cublasLtMatrixLayoutDestroy, p->a);
    LT(c, cublasLtMatmulDescDestroy, p->desc);
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        CU(c, cuMemFree_v2, p->operands[o]);
    CU(c, cuMemFree_v2, p->workspace);
}

/* All calls of the product, as the runtime makes them. */
static void multiply_once(const gpu *c, const void *user)
{
    const product *p = user;
    const sc_matmul *form = &p->form;
    const sc_matmul_matrix *matrices[] = {&form->a, &form->b, &form->d};
    const double wide[] = {form->alpha, form->accumulate ? 1 : 0};
    const float narrow[] = {(float)wide[0], (float)wide[1]};
    bool is_wide = form->sum == SC_DTYPE_f64;
    int64_t calls = 1;
    for (uint32_t l = 0; l < form->loop_count; l++)
        calls *= form->loops[l].size;
    for (int64_t i = 0; i < calls; i++) {
        char *at[SC_GEMM_OPERANDS];
        for (int o = 0; o < SC_GEMM_OPERANDS; o++) {
            int64_t rest = i, offset = 0;
            uint32_t operand = matrices[o]->operand;
            for (uint32_t l = form->loop_count; l-- > 0; rest /= form->loops[l].size)
                offset += rest % form->loops[l].size * form->loops[l].strides[operand];
            at[o] = (char *)(uintptr_t)p->operands[operand] +
                    offset * sc_dtypes[matrices[o]->dtype].bytes;
        }
        LT(c, cublasLtMatmul, c->handle, p->desc, is_wide ? (const void *)&wide[0] : &narrow[0],
           at[0], p->a, at[1], p->b, is_wide ? (const void *)&wide[1] : &narrow[1], at[2], p->d,
           at[2], p->d, &p->algo, (void *)(uintptr_t)p->workspace, SC_MATMUL_WORKSPACE, c->stream);
    }
}

/* Bytes that all addresses of an operand are multiples of, as runtime/cuda/gemm.c says it; the
 * library asks for 256 at most. */
static uint32_t alignment(const product *p, uint32_t operand)
{
    uint64_t bits = 256;
    for (uint32_t l = 0; l < p->form.loop_count; l++)
        bits |= (uint64_t)(p->form.loops[l].strides[operand] *
                           sc_dtypes[p->gemm->dtypes[operand]].bytes);
    return (uint32_t)(bits & -bits);
}

static sc_lt_preference new_preference(const gpu *c, const product *p)
{
    const uint64_t workspace = SC_MATMUL_WORKSPACE;
    /* As programs have it: sums that end as 16 bits are not added up in these. */
    bool is_rounded = sc_dtypes[p->form.d.dtype].bytes < sc_dtypes[p->form.sum].bytes;
    const uint32_t reductions = is_rounded ? SC_LT_REDUCE_AS_COMPUTED : SC_LT_REDUCE_ANY;
    const uint32_t operands[] = {p->form.a.operand, p->form.b.operand, p->form.d.operand,
                                 p->form.d.operand};
    sc_lt_preference preference;
    LT(c, cublasLtMatmulPreferenceCreate, &preference);
    LT(c, cublasLtMatmulPreferenceSetAttribute, preference, SC_LT_PREFER_WORKSPACE_BYTES,
       &workspace, sizeof workspace);
    LT(c, cublasLtMatmulPreferenceSetAttribute, preference, SC_LT_PREFER_REDUCTIONS, &reductions,
       sizeof reductions);
    for (unsigned i = 0; i < sizeof operands / sizeof *operands; i++) {
        uint32_t bytes = alignment(p, operands[i]);
        LT(c, cublasLtMatmulPreferenceSetAttribute, preference, SC_LT_PREFER_ALIGN_A + i, &bytes,
           sizeof bytes);
    }
    return preference;
}

/* INFINITY: the library has no algorithm, which it says in several ways. */
static double product_seconds(const gpu *c, product *p)
{
    sc_lt_heuristic found[CHOICES];
    sc_lt_preference preference = new_preference(c, p);
    double best = INFINITY;
    int count = 0;
    sc_lt_status answer = c->lt.cublasLtMatmulAlgoGetHeuristic(
        c->handle, p->desc, p->a, p->b, p->d, p->d, preference, CHOICES, found, &count);
    if (answer == SC_LT_NOT_SUPPORTED || answer == SC_LT_INVALID_VALUE)
        count = 0;
    else
        lt_check(c, answer, "cublasLtMatmulAlgoGetHeuristic");
    LT(c, cublasLtMatmulPreferenceDestroy, preference);
    for (int i = 0; i < count; i++) {
        if (found[i].status != SC_LT_SUCCESS)
            continue;
        p->algo = found[i].algo;
        best = fmin(best, best_seconds(c, multiply_once, p));
    }
    return best;
}

static void open_products(gpu *c)
{
    shardc_error error;
    if (!sc_cublaslt_open(&c->lt, &error))
        check(SHARDC_ERROR_UNAVAILABLE, &error);
    LT(c, cublasLtCreate, &c->handle);
}

/* What cuBLASLt does not compute has a reason instead of a rate. */
static json_t *measure_gemm(gpu *c, const char *text)
{
    sc_gemm gemm;
    product p = {.gemm = &gemm};
    const char *wrong = read_gemm(text, &gemm);
    if (wrong != NULL) {
        fprintf(stderr, "'%s': %s\n", text, wrong);
        exit(2);
    }
    wrong = sc_matmul_of(&gemm, &p.form);
    if (wrong != NULL)
        return json_pack("{s:s, s:s}", "what", text, "refused", wrong);
    open_product(c, &p);
    double seconds = product_seconds(c, &p);
    close_product(c, &p);
    if (!isfinite(seconds))
        return json_pack("{s:s, s:s}", "what", text, "refused", "cuBLASLt has no algorithm for it");
    return json_pack("{s:s, s:f, s:f}", "what", text, "seconds", seconds, "flops",
                     sc_gemm_flops(&gemm));
}

/* ---- the command line ---- */

static double number_of(const char *option, const char *text)
{
    char *end;
    double value = text == NULL ? -1 : strtod(text, &end);
    if (text != NULL && end != text && *end == 0 && value > 0)
        return value;
    fprintf(stderr, "%s takes a positive number\n", option);
    exit(2);
}

int main(int argc, char **argv)
{
    gpu c = {.seconds = 0.5};
    double mib = 0;
    int first = 1;
    for (; first < argc && argv[first][0] == '-'; first += 2) {
        if (strcmp(argv[first], "--copy") == 0) {
            mib = number_of(argv[first], argv[first + 1]);
        } else if (strcmp(argv[first], "--seconds") == 0) {
            c.seconds = number_of(argv[first], argv[first + 1]);
        } else {
            fprintf(stderr, "usage: %s [--copy MIB] [--seconds S] [PRODUCT ..]\n", argv[0]);
            return 2;
        }
    }
    open_gpu(&c);
    json_t *result = describe(&c), *gemms = json_array();
    if (mib > 0)
        json_object_set_new(result, "copy", json_real(copy_rate(&c, (size_t)(mib * 0x1p20))));
    if (first < argc)
        open_products(&c);
    for (int i = first; i < argc; i++)
        json_array_append_new(gemms, measure_gemm(&c, argv[i]));
    if (first < argc)
        json_object_set_new(result, "cublaslt",
                            json_integer((json_int_t)c.lt.cublasLtGetVersion()));
    json_object_set_new(result, "gemms", gemms);
    close_gpu(&c);
    char *line = json_dumps(result, JSON_COMPACT);
    json_decref(result);
    if (line == NULL || printf("%s\n", line) < 0)
        return 7;
    free(line);
    return 0;
}
