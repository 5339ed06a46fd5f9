/* How fast the reference interpreter multiplies, and what an op costs: GFLOP/s of dot for a few
 * shapes, on one core, and nanoseconds for each op and rank of a program of scalars. The goal is 1
 * GFLOP/s and a few microseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir/interp/interp.h"
#include "ir/text/text.h"

enum { CHAIN = 1000, RANKS = 8 };

typedef struct sc_bench {
    char text[CHAIN * 64];
    sc_module *m;
} sc_bench;

static void parse(sc_context *context, void *user)
{
    sc_bench *bench = user;
    bench->m = sc_parse_module(context, "bench", bench->text, strlen(bench->text));
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of one run of the text's first function, or -1 when it does not run. The inputs are small
 * integers. */
static double time_text(sc_bench *bench, bool ranks)
{
    sc_context context;
    sc_array inputs[2] = {0}, output = {0};
    uint32_t input_count = 0;
    char error[512] = "the text does not parse";
    double best = -1;
    if (!sc_context_run(&context, 0, parse, bench) || bench->m == NULL)
        goto done;
    sc_for_each_op (bench->m, 0, op) {
        if (sc_op_at(bench->m, op)->kind != SC_OP_input || input_count == 2)
            continue;
        const sc_type_info *type = sc_type_of(bench->m, sc_result(bench->m, op, 0));
        int64_t sizes[SC_MAX_RANK];
        for (uint32_t i = 0; i < type->rank; i++)
            sizes[i] = type->dims[i].size;
        inputs[input_count] = sc_array_new(type->rank, sizes);
        for (int64_t i = 0; i < inputs[input_count].count; i++)
            inputs[input_count].data[i] = (double)(i % 7);
        input_count++;
    }
    sc_interp *interp = sc_interp_new(bench->m, &(sc_interp_options){.ranks = ranks});
    for (int repeat = 0; interp != NULL && repeat < 3; repeat++) {
        double start = now();
        if (!sc_interp_run(interp, 0, inputs, input_count, &output, 1, error, sizeof error))
            break;
        double seconds = now() - start;
        best = best < 0 || seconds < best ? seconds : best;
        sc_array_free(&output);
    }
    sc_interp_free(interp);
done:
    if (best < 0)
        fprintf(stderr, "%s\n", error);
    sc_array_free(&inputs[0]);
    sc_array_free(&inputs[1]);
    sc_context_free(&context);
    return best;
}

static bool bench_dot(sc_bench *bench, int b, int m, int n, int k)
{
    snprintf(bench->text, sizeof bench->text,
             "shardc.ir 1\ndim B\ndim M\ndim N\ndim K\nfunc @f {\n %%0 = input : f64[B=%d, M=%d, "
             "K=%d]\n %%1 = input : f64[B=%d, N=%d, K=%d]\n"
             "%%2 = dot[K] %%0, %%1 : f64[B=%d, M=%d, N=%d]\n return %%2\n}\n",
             b, m, k, b, n, k, b, m, n);
    double seconds = time_text(bench, false);
    printf("dot %3d x [%4d x %4d x %4d]  %6.2f GFLOP/s\n", b, m, n, k,
           2e-9 * b * m * n * k / seconds);
    return seconds > 0;
}

static bool bench_chain(sc_bench *bench)
{
    size_t at = (size_t)snprintf(
        bench->text, sizeof bench->text,
        "shardc.ir 1\nmesh x = %d\ndim A\nfunc @f {\n %%0 = input : f64[A=%d@x]\n", RANKS, RANKS);
    for (int i = 1; i <= CHAIN; i++)
        at += (size_t)snprintf(bench->text + at, sizeof bench->text - at,
                               " %%%d = add %%%d, %%%d : f64[A=%d@x]\n", i, i - 1, i - 1, RANKS);
    snprintf(bench->text + at, sizeof bench->text - at, " return %%%d\n}\n", CHAIN);
    double seconds = time_text(bench, true);
    printf("add of scalars, %d ranks         %6.0f ns for each op and rank\n", RANKS,
           1e9 * seconds / CHAIN / RANKS);
    return seconds > 0;
}

int main(void)
{
    sc_bench *bench = calloc(1, sizeof *bench);
    bool ok = bench != NULL && bench_dot(bench, 1, 512, 512, 512) &&
              bench_dot(bench, 1, 64, 4096, 256) && bench_dot(bench, 1, 33, 1000, 511) &&
              bench_dot(bench, 32, 64, 64, 64) && bench_dot(bench, 512, 8, 8, 8) &&
              bench_chain(bench);
    free(bench);
    return ok ? 0 : 1;
}
