/* Contractions of GPT-2 124M at batch 4 and 256 positions, forward and both backward forms: GFLOP/s
 * of a plan as the runtime makes it, beside oneDNN called directly in the same run: sgemm, the
 * matmul primitive on the same strides, and the primitive with weights in whatever layout it likes
 * best (reordering them is not counted). Then the same in bf16, and a few rows against large
 * weights, as decoding does, beside the rate at which all threads together read memory. Medians;
 * every row's candidates take turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/cpu/gemm.h"
#include "runtime/drive/read_speed.h"
#ifdef SHARDC_ONEDNN
#include "runtime/cpu/onednn.h"
#endif

enum { REPEATS = 9, CANDIDATES = 4 };

typedef struct product {
    const char *name;
    int64_t m, n, k;
    /* stored as [k][m]; as [n][k]; bias and gelu in the epilogue */
    bool a_transposed, b_transposed, gelu;
} product;

static const product products[] = {
    {"qkv", 1024, 2304, 768, false, false, false},
    {"qkv dx", 1024, 768, 2304, false, true, false},
    {"qkv dw", 768, 2304, 1024, true, false, false},
    {"proj", 1024, 768, 768, false, false, false},
    {"proj dx", 1024, 768, 768, false, true, false},
    {"proj dw", 768, 768, 1024, true, false, false},
    {"up, gelu", 1024, 3072, 768, false, false, true},
    {"up dx", 1024, 768, 3072, false, true, false},
    {"up dw", 768, 3072, 1024, true, false, false},
    {"down", 1024, 768, 3072, false, false, false},
    {"down dx", 1024, 3072, 768, false, true, false},
    {"down dw", 3072, 768, 1024, true, false, false},
    {"tied head", 1024, 50257, 768, false, true, false},
    {"head dx", 1024, 768, 50257, false, false, false},
    {"head dw", 50257, 768, 1024, true, false, false},
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

static void *allocate(int64_t bytes)
{
    void *memory = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

/* Numbers that are neither zero nor subnormal; of bf16, the upper halves of such. */
static void *numbers(int64_t count, sc_dtype dtype)
{
    char *data = allocate(count * sc_dtypes[dtype].bytes);
    for (int64_t i = 0; i < count; i++) {
        float x = (float)(i % 997) * 0.002F - 0.9973F;
        memcpy(data + i * sc_dtypes[dtype].bytes,
               dtype == SC_DTYPE_f32 ? (const char *)&x : (const char *)&x + 2,
               sc_dtypes[dtype].bytes);
    }
    return data;
}

static sc_gemm describe(const product *p, sc_dtype dtype)
{
    sc_gemm gemm = {
        .dim_count = 3,
        .dims = {{.size = p->m,
                  .role = SC_GEMM_M,
                  .strides = {p->a_transposed ? 1 : p->k, 0, p->n}},
                 {.size = p->n, .role = SC_GEMM_N, .strides = {0, p->b_transposed ? p->k : 1, 1}},
                 {.size = p->k,
                  .role = SC_GEMM_K,
                  .strides = {p->a_transposed ? p->m : 1, p->b_transposed ? 1 : p->n, 0}}},
        .dtypes = {dtype, dtype, dtype},
        .sum = SC_DTYPE_f32};
    if (p->gelu) {
        gemm.step_count = 2;
        gemm.steps[0] = (sc_gemm_step){.kind = SC_GEMM_ADD, .dtype = dtype, .strides = {0, 1, 0}};
        gemm.steps[1] = (sc_gemm_step){.kind = SC_GEMM_GELU};
    }
    return gemm;
}

/* ---- the library, directly ---- */

#ifdef SHARDC_ONEDNN
typedef struct packed {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t memories[4];
    dnnl_exec_arg_t args[4];
    void *weights;
} packed;

static void must(dnnl_status_t status)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "oneDNN says %d\n", (int)status);
    exit(1);
}

/* matmul with bias (as a 4th argument of zeros when there is none to speak of, the same work) and
 * gelu. */
static void pack(const sc_onednn *api, packed *out, const product *p, void *a, void *b, void *c,
                 void *bias)
{
    dnnl_memory_desc_t descs[4], any, given;
    dnnl_dims_t a_sizes = {p->m, p->k}, b_sizes = {p->k, p->n}, c_sizes = {p->m, p->n},
                bias_sizes = {1, p->n};
    dnnl_dims_t a_strides = {p->a_transposed ? 1 : p->k, p->a_transposed ? p->m : 1};
    dnnl_dims_t b_strides = {p->b_transposed ? 1 : p->n, p->b_transposed ? p->k : 1};
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t made, reorder_made;
    dnnl_primitive_t reorder;
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    must(api->dnnl_engine_create(&out->engine, dnnl_cpu, 0));
    must(api->dnnl_stream_create(&out->stream, out->engine, dnnl_stream_default_flags));
    must(api->dnnl_memory_desc_init_by_strides(&descs[0], 2, a_sizes, dnnl_f32, a_strides));
    must(api->dnnl_memory_desc_init_by_strides(&given, 2, b_sizes, dnnl_f32, b_strides));
    must(api->dnnl_memory_desc_init_by_tag(&any, 2, b_sizes, dnnl_f32, dnnl_format_tag_any));
    must(api->dnnl_memory_desc_init_by_tag(&descs[2], 2, c_sizes, dnnl_f32, dnnl_ab));
    must(api->dnnl_memory_desc_init_by_tag(&descs[3], 2, bias_sizes, dnnl_f32, dnnl_ab));
    must(api->dnnl_primitive_attr_create(&attr));
    must(api->dnnl_post_ops_create(&ops));
    if (p->gelu)
        must(api->dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_gelu_erf, 0, 0));
    must(api->dnnl_primitive_attr_set_post_ops(attr, ops));
    must(api->dnnl_matmul_desc_init(&desc, &descs[0], &any, p->gelu ? &descs[3] : NULL, &descs[2]));
    must(api->dnnl_primitive_desc_create(&made, &desc, attr, out->engine, NULL));
    descs[1] = *api->dnnl_primitive_desc_query_md(made, dnnl_query_weights_md, 0);
    out->weights = allocate((int64_t)api->dnnl_memory_desc_get_size(&descs[1]));
    void *data[4] = {a, out->weights, c, bias};
    const int numbers[4] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
    for (int i = 0; i < 4; i++) {
        must(api->dnnl_memory_create(&out->memories[i], &descs[i], out->engine, data[i]));
        out->args[i] = (dnnl_exec_arg_t){numbers[i], out->memories[i]};
    }
    dnnl_memory_t from;
    must(api->dnnl_memory_create(&from, &given, out->engine, b));
    must(api->dnnl_reorder_primitive_desc_create(&reorder_made, &given, out->engine, &descs[1],
                                                 out->engine, NULL));
    must(api->dnnl_primitive_create(&reorder, reorder_made));
    dnnl_exec_arg_t moved[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, out->memories[1]}};
    must(api->dnnl_primitive_execute(reorder, out->stream, 2, moved));
    must(api->dnnl_primitive_create(&out->primitive, made));
    must(api->dnnl_primitive_destroy(reorder));
    must(api->dnnl_primitive_desc_destroy(reorder_made));
    must(api->dnnl_memory_destroy(from));
    must(api->dnnl_primitive_desc_destroy(made));
    must(api->dnnl_post_ops_destroy(ops));
    must(api->dnnl_primitive_attr_destroy(attr));
}

static void run_packed(const sc_onednn *api, const packed *x, bool bias)
{
    must(api->dnnl_primitive_execute(x->primitive, x->stream, bias ? 4 : 3, x->args));
    must(api->dnnl_stream_wait(x->stream));
}

static void unpack(const sc_onednn *api, packed *x)
{
    for (int i = 0; i < 4; i++)
        must(api->dnnl_memory_destroy(x->memories[i]));
    must(api->dnnl_primitive_destroy(x->primitive));
    must(api->dnnl_stream_destroy(x->stream));
    must(api->dnnl_engine_destroy(x->engine));
    free(x->weights);
}
#endif

/* ---- large products ---- */

static void bench_product(const product *p, void *library)
{
    float *a = numbers(p->m * p->k, SC_DTYPE_f32), *b = numbers(p->k * p->n, SC_DTYPE_f32),
          *c = numbers(p->m * p->n, SC_DTYPE_f32);
    float *bias = numbers(p->n, SC_DTYPE_f32);
    const void *steps[SC_GEMM_MAX_STEPS] = {bias};
    sc_gemm gemm = describe(p, SC_DTYPE_f32);
    double flops = sc_gemm_flops(&gemm), seconds[CANDIDATES][REPEATS];
    void *scratch = allocate(sc_gemm_scratch_bytes(&gemm));
    sc_gemm_plan *ours = sc_gemm_plan_new(&gemm, SC_GEMM_AUTO),
                 *strided = sc_gemm_plan_new(&gemm, SC_GEMM_ONEDNN);
    int repeats = flops > 5e10 ? 5 : REPEATS;
#ifdef SHARDC_ONEDNN
    const sc_onednn *api = library;
    packed best;
    if (api != NULL)
        pack(api, &best, p, a, b, c, bias);
#else
    (void)library;
#endif
    memset(seconds, 0, sizeof seconds);
    for (int r = -1; r < repeats; r++) {
        double at[CANDIDATES + 1];
        at[0] = now();
        if (ours == NULL || !sc_gemm_run(ours, a, b, c, steps, scratch))
            exit(1);
        at[1] = at[2] = at[3] = at[4] = now();
#ifdef SHARDC_ONEDNN
        if (api != NULL && strided != NULL) {
            must(api->dnnl_sgemm(p->a_transposed ? 'T' : 'N', p->b_transposed ? 'T' : 'N', p->m,
                                 p->n, p->k, 1, a, p->a_transposed ? p->m : p->k, b,
                                 p->b_transposed ? p->k : p->n, 0, c, p->n));
            at[2] = now();
            if (!sc_gemm_run(strided, a, b, c, steps, scratch))
                exit(1);
            at[3] = now();
            run_packed(api, &best, p->gelu);
            at[4] = now();
        }
#endif
        for (int i = 0; r >= 0 && i < CANDIDATES; i++)
            seconds[i][r] = at[i + 1] - at[i];
    }
    printf("%-10s %6lld %6lld %6lld %s%s ", p->name, (long long)p->m, (long long)p->n,
           (long long)p->k, p->a_transposed ? "T" : "N", p->b_transposed ? "T" : "N");
    double ours_seconds = median(seconds[0], repeats), best_seconds = 0;
    printf("%7.1f", 1e-9 * flops / ours_seconds);
    for (int i = 1; i < CANDIDATES && seconds[i][0] > 0; i++) {
        double s = median(seconds[i], repeats);
        printf(" %7.1f", 1e-9 * flops / s);
        bool does_all = i > 1 || !p->gelu; /* sgemm leaves bias and gelu undone */
        best_seconds = does_all && (best_seconds == 0 || s < best_seconds) ? s : best_seconds;
    }
    printf("   %5.2f\n", best_seconds / ours_seconds);
    fflush(stdout);
#ifdef SHARDC_ONEDNN
    if (api != NULL)
        unpack(api, &best);
#endif
    sc_gemm_plan_free(ours);
    sc_gemm_plan_free(strided);
    free(scratch);
    free(a);
    free(b);
    free(c);
    free(bias);
}

/* A plan with its arrays. */
typedef struct trial {
    sc_gemm gemm;
    sc_gemm_plan *plan;
    void *arrays[SC_GEMM_OPERANDS], *scratch;
} trial;

static void open_trial(trial *t, const sc_gemm *gemm)
{
    t->gemm = *gemm;
    t->scratch = allocate(sc_gemm_scratch_bytes(gemm));
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        t->arrays[o] = numbers(sc_gemm_extent(gemm, (sc_gemm_operand)o), gemm->dtypes[o]);
    t->plan = sc_gemm_plan_new(gemm, SC_GEMM_AUTO);
}

static double time_trial(const trial *t)
{
    double start = now();
    if (t->plan == NULL ||
        !sc_gemm_run(t->plan, t->arrays[0], t->arrays[1], t->arrays[2], NULL, t->scratch))
        exit(1);
    return now() - start;
}

static void close_trial(trial *t)
{
    sc_gemm_plan_free(t->plan);
    free(t->scratch);
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        free(t->arrays[o]);
}

static void bench_bf16(const product *p)
{
    sc_gemm gemm[2] = {describe(p, SC_DTYPE_f32), describe(p, SC_DTYPE_bf16)};
    trial trials[2];
    double seconds[2][REPEATS];
    for (int i = 0; i < 2; i++) {
        gemm[i].step_count = 0;
        open_trial(&trials[i], &gemm[i]);
        time_trial(&trials[i]);
    }
    for (int r = 0; r < REPEATS; r++) {
        for (int i = 0; i < 2; i++)
            seconds[i][r] = time_trial(&trials[i]);
    }
    double f32 = median(seconds[0], REPEATS), bf16 = median(seconds[1], REPEATS),
           flops = sc_gemm_flops(&gemm[0]);
    printf("%-10s %6lld %6lld %6lld %s%s %7.1f %7.1f   %5.2f\n", p->name, (long long)p->m,
           (long long)p->n, (long long)p->k, p->a_transposed ? "T" : "N",
           p->b_transposed ? "T" : "N", 1e-9 * flops / f32, 1e-9 * flops / bf16, f32 / bf16);
    close_trial(&trials[0]);
    close_trial(&trials[1]);
}

/* ---- a few rows ---- */

static void bench_rows(int64_t m, sc_dtype dtype, bool transposed, const uint64_t *memory)
{
    product p = {.m = m, .n = 8192, .k = 4096, .b_transposed = transposed};
    sc_gemm gemm = describe(&p, SC_DTYPE_f32);
    trial t;
    double seconds[REPEATS], reading[REPEATS];
    gemm.dtypes[SC_GEMM_B] = dtype;
    open_trial(&t, &gemm);
    time_trial(&t);
    for (int r = 0; r < REPEATS; r++) {
        seconds[r] = time_trial(&t);
        reading[r] = sc_read_seconds(memory);
    }
    double rate = (double)(p.n * p.k) * sc_dtypes[dtype].bytes / median(seconds, REPEATS),
           limit = SC_READ_BYTES / median(reading, REPEATS);
    printf("%lld rows, %-4s weights as %s  %6.1f GB/s   %5.2f\n", (long long)m,
           sc_dtypes[dtype].name, transposed ? "[n][k]" : "[k][n]", 1e-9 * rate, rate / limit);
    close_trial(&t);
}

static void bench_all_rows(void)
{
    static const sc_dtype dtypes[] = {SC_DTYPE_f32, SC_DTYPE_bf16};
    uint64_t *memory = sc_read_memory();
    if (memory == NULL)
        exit(1);
    for (int layout = 0; layout < 4; layout++) {
        for (int64_t m = 1; m <= 8; m *= 2)
            bench_rows(m, dtypes[layout / 2], layout % 2 != 0, memory);
    }
    free(memory);
}

int main(int argc, char **argv)
{
    void *library = NULL;
    const char *only = argc > 1 ? argv[1] : "";
#ifdef SHARDC_ONEDNN
    sc_onednn api;
    library = sc_onednn_open(&api) ? &api : NULL;
#endif
    if (strcmp(only, "bf16") != 0 && strcmp(only, "rows") != 0) {
        printf("GFLOP/s         m      n      k        ours   sgemm  matmul  packed   ours / "
               "oneDNN's best\n");
        for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
            if (strncmp(products[i].name, only, strlen(only)) == 0)
                bench_product(&products[i], library);
        }
    }
    if (only[0] == 0 || strcmp(only, "bf16") == 0) {
        printf("GFLOP/s         m      n      k         f32    bf16   bf16 / f32\n");
        for (size_t i = 0; i < 12; i++)
            bench_bf16(&products[i]);
    }
    if (only[0] == 0 || strcmp(only, "rows") == 0) {
        printf("weights read, against reading memory\n");
        bench_all_rows();
    }
#ifdef SHARDC_ONEDNN
    if (library != NULL)
        sc_onednn_close(&api);
#endif
    return 0;
}
