/* The rate of routed products against one plain matmul of as many rows, in the same run: medians of
 * the times of both, taken in turns, of random rows and ids. The goal is 0.8 where ids have 64 rows
 * or more. Arguments: the rows of an id, instead of several numbers (0: these); with a second one,
 * by the time of CPUs, which other work does not disturb (one thread then). OMP_NUM_THREADS says
 * how many threads. */
#define _GNU_SOURCE /* madvise */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"
#include "codegen/routed/routed.h"
#include "codegen/toolchain/objects.h"
#include "ir/text/text.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/loader.h"

enum { EXPERTS = 16, DEPTH = 512, COLUMNS = 1024, REPEATS = 15, KINDS = 3 };

/* A product, the cotangent of its x, and that of its weights; a plain matmul has the dims m, n, k
 * with these sizes, -1: the rows. */
static const struct {
    const char *name, *x, *y, *to, *op;
    int64_t m, n, k;
    int64_t a[2], b[2]; /* strides of a along m, k and of b along k, n; -1: the other size */
} kinds[KINDS] = {
    {"product",
     "R=%lld, D=512",
     "X=16, D=512, F=1024",
     "R=%lld, F=1024",
     "routed_dot[D -> X]",
     -1,
     COLUMNS,
     DEPTH,
     {DEPTH, 1},
     {COLUMNS, 1}},
    {"to x",
     "R=%lld, F=1024",
     "X=16, D=512, F=1024",
     "R=%lld, D=512",
     "routed_dot[F -> X]",
     -1,
     DEPTH,
     COLUMNS,
     {COLUMNS, 1},
     {1, COLUMNS}},
    {"to weights",
     "R=%lld, D=512",
     "R=%lld, F=1024",
     "X=16, D=512, F=1024",
     "routed_dot_grad[R -> X]",
     DEPTH,
     COLUMNS,
     -1,
     {1, DEPTH},
     {COLUMNS, 1}},
};

static const sc_dtype dtypes[] = {SC_DTYPE_f32, SC_DTYPE_f64, SC_DTYPE_bf16};

typedef struct bench {
    int64_t rows_of_id; /* 0: several */
    clockid_t clock;
    bool failed;
} bench;

static uint64_t seed = 1;

static double draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) * 0x1p-53;
}

static void *filled(sc_dtype dtype, int64_t count)
{
    char *data = room(count * sc_dtypes[dtype].bytes);
    for (int64_t i = 0; i < count; i++) {
        double value = draw() - 0.5;
        float narrow = (float)value;
        if (dtype == SC_DTYPE_f64)
            ((double *)(void *)data)[i] = value;
        else if (dtype == SC_DTYPE_f32)
            ((float *)(void *)data)[i] = narrow;
        else
            memcpy(data + 2 * i, (char *)&narrow + 2, 2);
    }
    return data;
}

/* Each id as often, in random order. */
static int32_t *shuffled_ids(int64_t rows)
{
    int32_t *ids = malloc((size_t)rows * sizeof *ids);
    if (ids == NULL)
        exit(1);
    for (int64_t i = 0; i < rows; i++)
        ids[i] = (int32_t)(i % EXPERTS);
    for (int64_t i = rows - 1; i > 0; i--) {
        int64_t other = (int64_t)(draw() * (double)(i + 1));
        int32_t id = ids[i];
        ids[i] = ids[other];
        ids[other] = id;
    }
    return ids;
}

static const char *type_text(sc_arena *arena, sc_dtype dtype, const char *dims, int64_t rows)
{
    sc_strbuf text;
    sc_strbuf_init(&text, arena);
    sc_strbuf_printf(&text, "%s[", sc_dtypes[dtype].name);
    const char *hole = strstr(dims, "%lld");
    if (hole == NULL)
        sc_strbuf_add(&text, dims);
    else
        sc_strbuf_printf(&text, "%.*s%lld%s", (int)(hole - dims), dims, (long long)rows, hole + 4);
    sc_strbuf_add(&text, "]");
    return text.data;
}

static bool describe(sc_context *context, int kind, sc_dtype dtype, int64_t rows,
                     sc_routed_desc *desc)
{
    sc_arena *arena = &context->arena;
    const char *text = sc_arena_printf(
        arena,
        "shardc.ir 1\nstates shapes\ndim R\ndim D\ndim F\ndim X\nfunc @f {\n%%x = input : "
        "%s\n%%y = input : %s\n%%i = input : i32[R=%lld]\n%%z = %s %%x, %%y, %%i : %s\nreturn "
        "%%z\n}\n",
        type_text(arena, dtype, kinds[kind].x, rows), type_text(arena, dtype, kinds[kind].y, rows),
        (long long)rows, kinds[kind].op, type_text(arena, dtype, kinds[kind].to, rows));
    sc_module *m = sc_parse_module(context, "bench", text, strlen(text));
    if (m == NULL) {
        fprintf(stderr, "%s: %s\n", text, context->diag.list.data[0].text);
        return false;
    }
    sc_op_id last = sc_op_at(m, m->funcs.data[0].last)->prev;
    const char *why = sc_routed_describe(m, last, desc);
    if (why != NULL)
        fprintf(stderr, "%s\n", why);
    return why == NULL;
}

static sc_gemm matmul(int kind, sc_dtype dtype, int64_t rows)
{
    int64_t m = kinds[kind].m < 0 ? rows : kinds[kind].m,
            k = kinds[kind].k < 0 ? rows : kinds[kind].k, n = kinds[kind].n;
    return (sc_gemm){.dim_count = 3,
                     .dims = {{.size = m, .role = SC_GEMM_M, .strides = {kinds[kind].a[0], 0, n}},
                              {.size = n, .role = SC_GEMM_N, .strides = {0, kinds[kind].b[1], 1}},
                              {.size = k,
                               .role = SC_GEMM_K,
                               .strides = {kinds[kind].a[1], kinds[kind].b[0], 0}}},
                     .dtypes = {dtype, dtype, dtype},
                     .sum = dtype == SC_DTYPE_f64 ? SC_DTYPE_f64 : SC_DTYPE_f32};
}

static void compare(const bench *b, int kind, sc_dtype dtype, int64_t rows,
                    const sc_routed_desc *desc, sc_kernel_function *function)
{
    const sc_gemm gemm = matmul(kind, dtype, rows);
    sc_gemm_plan *plan = sc_gemm_plan_new(&gemm, SC_GEMM_AUTO);
    int64_t large = rows * COLUMNS + EXPERTS * DEPTH * COLUMNS;
    void *x = filled(dtype, rows * COLUMNS), *y = filled(dtype, large), *z = filled(dtype, large),
         *scratch = room(desc->scratch_bytes), *packed = room(sc_gemm_scratch_bytes(&gemm));
    int32_t *ids = shuffled_ids(rows);
    double times[2][REPEATS];
    for (int i = -2; i < REPEATS && plan != NULL; i++) {
        double start = now(b->clock);
        (void)sc_gemm_run(plan, x, y, z, NULL, packed);
        double between = now(b->clock);
        function((void *[]){x, y, ids, z, scratch}, NULL);
        double end = now(b->clock);
        times[0][i < 0 ? 0 : i] = between - start;
        times[1][i < 0 ? 0 : i] = end - between;
    }
    double flops = 2.0 * (double)rows * DEPTH * COLUMNS, plain = median(times[0], REPEATS),
           routed = median(times[1], REPEATS);
    printf("%-5s %-11s %5lld rows an id %7.1f GFLOP/s, a matmul (%s) %7.1f: %5.2f\n",
           sc_dtypes[dtype].name, kinds[kind].name, (long long)rows / EXPERTS,
           flops / routed * 1e-9, plan == NULL ? "none" : sc_gemm_plan_name(plan),
           flops / plain * 1e-9, plain / routed);
    sc_gemm_plan_free(plan);
    free(x);
    free(y);
    free(z);
    free(scratch);
    free(packed);
    free(ids);
}

static bool bench_rows(const bench *b, sc_context *context, int64_t rows)
{
    enum { COUNT = KINDS * (sizeof dtypes / sizeof *dtypes) };
    sc_object_function functions[COUNT];
    sc_routed_desc descs[COUNT];
    for (int i = 0; i < (int)COUNT; i++) {
        sc_strbuf text;
        sc_strbuf_init(&text, &context->arena);
        if (!describe(context, i % KINDS, dtypes[i / KINDS], rows, &descs[i]))
            return false;
        functions[i] = (sc_object_function){.symbol = sc_arena_printf(&context->arena, "k%d", i)};
        sc_routed_emit(context, &descs[i], functions[i].symbol, &text, &functions[i].helpers);
        functions[i].text = text.data;
    }
    sc_object object;
    shardc_error error = {0};
    const char *wrong = sc_objects_build(&context->arena, functions, COUNT, NULL, &object);
    sc_loader *loader =
        wrong != NULL ? NULL : sc_loader_open(object.bytes, object.byte_count, &error);
    if (loader == NULL) {
        fprintf(stderr, "%s\n", wrong != NULL ? wrong : error.text);
        return false;
    }
    for (int i = 0; i < (int)COUNT; i++)
        compare(b, i % KINDS, dtypes[i / KINDS], rows, &descs[i],
                sc_loader_symbol(loader, functions[i].symbol, &error));
    sc_loader_close(loader);
    return true;
}

static void run(sc_context *context, void *user)
{
    static const int64_t several[] = {64, 100, 256};
    bench *b = user;
    bool ok = true;
    for (size_t i = 0; ok && i < (b->rows_of_id > 0 ? 1 : sizeof several / sizeof *several); i++)
        ok = bench_rows(b, context, EXPERTS * (b->rows_of_id > 0 ? b->rows_of_id : several[i]));
    b->failed = !ok;
}

int main(int argc, char **argv)
{
    sc_context context;
    bench b = {.rows_of_id = argc > 1 ? strtol(argv[1], NULL, 10) : 0,
               .clock = argc > 2 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC};
    bool ran = sc_context_run(&context, 0, run, &b);
    sc_context_free(&context);
    return ran && !b.failed ? 0 : 1;
}
