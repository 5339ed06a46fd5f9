/* How fast emitted attention is, forward and backward, against the unfused form in the same run:
 * two matmuls (oneDNN's, where it is installed, else loops) around a softmax in f32, with the
 * scores of a head in memory; backward four products, from weights that were kept. Both go over
 * heads in parallel. A product that a causal mask makes useless counts for neither: GFLOP/s are of
 * the half that matters.
 *
 *     bench/attend                      the shapes below
 *     bench/attend B H S E [layout]     one other, causal; layout bshe (default) or bhse */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "codegen/attention/describe.h"
#include "ir/text/text.h"

typedef struct shape {
    int64_t b, h, s, e;
    bool is_head_major; /* B, H, S, E in memory; else B, S, H, E */
} shape;

typedef int64_t kernel_function(void *const *args, const int64_t *params);
/* scores: S x S of every head. */
typedef void forward_function(const float *q, const float *k, const float *v, float *out,
                              float *scores);
typedef void backward_function(const float *q, const float *k, const float *v, const float *out,
                               const float *d_out, const float *weights, float *d_q, float *d_k,
                               float *d_v, float *scratch);

typedef struct bench {
    shape shape;
    char model[2048];
    char *code;
    bool has_onednn;
    int64_t scratch_bytes[2];
    kernel_function *attend, *attend_grad;
    forward_function *forward;
    backward_function *backward;
    int (*team)(void);
} bench;

/* The other form. multiply: c = alpha op(a) op(b), row-major. */
static const char *const peer_text =
    "#include <stdlib.h>\n"
    "#include <dlfcn.h>\n"
    "typedef int sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float "
    "*a, "
    "int64_t lda, const float *b, int64_t ldb,\n"
    "                  float beta, float *c, int64_t ldc);\n"
    "static sgemm *library;\n"
    "int peer_open(void)\n"
    "{\n"
    "    void *handle = dlopen(\"libdnnl.so.2\", RTLD_NOW);\n"
    "    handle = handle ? handle : dlopen(\"libdnnl.so.3\", RTLD_NOW);\n"
    "    library = handle ? (sgemm *)dlsym(handle, \"dnnl_sgemm\") : NULL;\n"
    "    return library != NULL;\n"
    "}\n"
    "static void multiply(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const "
    "float *a, "
    "int64_t lda, const float *b, int64_t ldb,\n"
    "                     float *c, int64_t ldc)\n"
    "{\n"
    "    if (library) {\n"
    "        library(ta, tb, m, n, k, alpha, a, lda, b, ldb, 0.0f, c, ldc);\n"
    "        return;\n"
    "    }\n"
    "    float *rows = malloc((size_t)(n * k) * sizeof *rows); /* of b, not transposed */\n"
    "    for (int64_t i = 0; i < k; i++)\n"
    "        for (int64_t j = 0; j < n; j++)\n"
    "            rows[i * n + j] = tb == 'N' ? b[i * ldb + j] : b[j * ldb + i];\n"
    "    for (int64_t i = 0; i < m; i++) {\n"
    "        for (int64_t j = 0; j < n; j++)\n"
    "            c[i * ldc + j] = 0;\n"
    "        for (int64_t x = 0; x < k; x++) {\n"
    "            const float y = alpha * (ta == 'N' ? a[i * lda + x] : a[x * lda + i]);\n"
    "#pragma omp simd\n"
    "            for (int64_t j = 0; j < n; j++)\n"
    "                c[i * ldc + j] += y * rows[x * n + j];\n"
    "        }\n"
    "    }\n"
    "    free(rows);\n"
    "}\n"
    "void peer_forward(const float *q, const float *k, const float *v, float *out, float *scores)\n"
    "{\n"
    "#pragma omp parallel for schedule(dynamic, 1)\n"
    "    for (int64_t head = 0; head < B * H; head++) {\n"
    "        const int64_t at = PLACE(head);\n"
    "        float *p = scores + head * S * S;\n"
    "        multiply('N', 'T', S, S, E, SCALE, q + at, STEP, k + at, STEP, p, S);\n"
    "        for (int64_t s = 0; s < S; s++) {\n"
    "            float *row = p + s * S, most = -INFINITY, total = 0;\n"
    "#pragma omp simd reduction(max : most)\n"
    "            for (int64_t t = 0; t <= s; t++)\n"
    "                most = row[t] > most ? row[t] : most;\n"
    "#pragma omp simd reduction(+ : total)\n"
    "            for (int64_t t = 0; t <= s; t++) {\n"
    "                row[t] = sc_exp_f32(row[t] - most);\n"
    "                total += row[t];\n"
    "            }\n"
    "            for (int64_t t = 0; t <= s; t++)\n"
    "                row[t] *= 1.0f / total;\n"
    "            for (int64_t t = s + 1; t < S; t++)\n"
    "                row[t] = 0;\n"
    "        }\n"
    "        multiply('N', 'N', S, E, S, 1, p, S, v + at, STEP, out + at, STEP);\n"
    "    }\n"
    "}\n"
    "void peer_backward(const float *q, const float *k, const float *v, const float *out, const "
    "float "
    "*d_out, const float *weights, float *d_q,\n"
    "                   float *d_k, float *d_v, float *scratch)\n"
    "{\n"
    "#pragma omp parallel for schedule(dynamic, 1)\n"
    "    for (int64_t head = 0; head < B * H; head++) {\n"
    "        const int64_t at = PLACE(head);\n"
    "        const float *p = weights + head * S * S;\n"
    "        float *d = scratch + head * S * S;\n"
    "        multiply('T', 'N', S, E, S, 1, p, S, d_out + at, STEP, d_v + at, STEP);\n"
    "        multiply('N', 'T', S, S, E, 1, d_out + at, STEP, v + at, STEP, d, S);\n"
    "        for (int64_t s = 0; s < S; s++) {\n"
    "            float delta = 0;\n"
    "#pragma omp simd reduction(+ : delta)\n"
    "            for (int64_t e = 0; e < E; e++)\n"
    "                delta += out[at + s * STEP + e] * d_out[at + s * STEP + e];\n"
    "            for (int64_t t = 0; t < S; t++)\n"
    "                d[s * S + t] = p[s * S + t] * (d[s * S + t] - delta);\n"
    "        }\n"
    "        multiply('N', 'N', S, E, S, SCALE, d, S, k + at, STEP, d_q + at, STEP);\n"
    "        multiply('T', 'N', S, E, S, SCALE, d, S, q + at, STEP, d_k + at, STEP);\n"
    "    }\n"
    "}\n";

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- code ---- */

static void write_model(bench *b)
{
    char q[128], k[128], lse[128];
    const shape *s = &b->shape;
    if (s->is_head_major) {
        snprintf(q, sizeof q, "f32[B=%lld, K=%lld, S=%lld, E=%lld]", (long long)s->b,
                 (long long)s->h, (long long)s->s, (long long)s->e);
        snprintf(k, sizeof k, "f32[B=%lld, K=%lld, T=%lld, E=%lld]", (long long)s->b,
                 (long long)s->h, (long long)s->s, (long long)s->e);
        snprintf(lse, sizeof lse, "f32[B=%lld, K=%lld, S=%lld]", (long long)s->b, (long long)s->h,
                 (long long)s->s);
    } else {
        snprintf(q, sizeof q, "f32[B=%lld, S=%lld, K=%lld, E=%lld]", (long long)s->b,
                 (long long)s->s, (long long)s->h, (long long)s->e);
        snprintf(k, sizeof k, "f32[B=%lld, T=%lld, K=%lld, E=%lld]", (long long)s->b,
                 (long long)s->s, (long long)s->h, (long long)s->e);
        snprintf(lse, sizeof lse, "f32[B=%lld, S=%lld, K=%lld]", (long long)s->b, (long long)s->s,
                 (long long)s->h);
    }
    snprintf(b->model, sizeof b->model,
             "shardc.ir 1\ndim B\ndim K\ndim S\ndim T = alias S\ndim E\nfunc @f {\n%%q = input : "
             "%s\n%%k = input : %s\n%%v = input : %s\n"
             "%%d = input : %s\n%%o, %%l = attend[T, E -> S] %%q, %%k, %%v {mask = causal, lse = "
             "1} : %s, %s\n"
             "%%x, %%y, %%z = attend_grad[T, E -> S] %%q, %%k, %%v, %%o, %%l, %%d {mask = causal} "
             ": %s, %s, %s\nreturn %%x, %%y, %%z\n}\n",
             q, k, k, q, q, lse, q, k, k);
}

static void emit(sc_context *context, void *user)
{
    bench *b = user;
    const shape *s = &b->shape;
    sc_strbuf text, kernels;
    sc_helper_set helpers = SC_HELPER(exp_f32) | SC_HELPER(math);
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf_init(&kernels, &context->arena);
    sc_module *m = sc_parse_module(context, "bench", b->model, strlen(b->model));
    if (m == NULL)
        return;
    sc_for_each_op (m, 0, op) {
        uint16_t kind = sc_op_at(m, op)->kind;
        if (kind != SC_OP_attend && kind != SC_OP_attend_grad)
            continue;
        sc_attention_desc *desc = sc_attention_describe(m, op);
        b->scratch_bytes[kind == SC_OP_attend_grad] = desc->scratch_bytes;
        sc_attention_emit(context, desc, kind == SC_OP_attend ? "attend" : "attend_grad", &kernels,
                          &helpers);
    }
    sc_helpers_emit(&text, helpers);
    sc_strbuf_add(&text, kernels.data);
    sc_strbuf_printf(
        &text,
        "enum { B = %lld, H = %lld, S = %lld, E = %lld, STEP = %lld };\n#define SCALE %.9ff\n",
        (long long)s->b, (long long)s->h, (long long)s->s, (long long)s->e,
        (long long)(s->is_head_major ? s->e : s->h * s->e), 1 / sqrt((double)s->e));
    sc_strbuf_add(&text, s->is_head_major
                             ? "#define PLACE(head) ((head) * S * E)\n"
                             : "#define PLACE(head) ((head) / H * S * STEP + (head) % H * E)\n");
    sc_strbuf_add(&text, peer_text);
    b->code = strdup(text.data);
}

static bool load(bench *b)
{
    char folder[] = "/tmp/benchXXXXXX", path[64], command[256];
    sc_context context = {0};
    write_model(b);
    bool ok = sc_context_run(&context, 0, emit, b) && b->code != NULL && mkdtemp(folder) != NULL;
    sc_context_free(&context);
    snprintf(path, sizeof path, "%s/code.c", folder);
    FILE *file = ok ? fopen(path, "w") : NULL;
    if (file == NULL)
        return false;
    fputs(b->code, file);
    fclose(file);
    snprintf(command, sizeof command,
             "cc -O3 -march=native -fno-math-errno -fno-trapping-math -fopenmp -shared -fPIC -o "
             "%s/code.so %s/code.c -lm -ldl",
             folder, folder);
    ok = system(command) == 0;
    snprintf(path, sizeof path, "%s/code.so", folder);
    void *library = ok ? dlopen(path, RTLD_NOW) : NULL;
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0 || library == NULL)
        return false;
    int (*open)(void);
    void *symbols[] = {dlsym(library, "attend"),       dlsym(library, "attend_grad"),
                       dlsym(library, "peer_forward"), dlsym(library, "peer_backward"),
                       dlsym(library, "peer_open"),    dlsym(library, "omp_get_max_threads")};
    memcpy(&b->attend, &symbols[0], sizeof symbols[0]);
    memcpy(&b->attend_grad, &symbols[1], sizeof symbols[1]);
    memcpy(&b->forward, &symbols[2], sizeof symbols[2]);
    memcpy(&b->backward, &symbols[3], sizeof symbols[3]);
    memcpy(&open, &symbols[4], sizeof symbols[4]);
    memcpy(&b->team, &symbols[5], sizeof symbols[5]);
    b->has_onednn = open();
    return true;
}

/* ---- measuring ---- */

enum { Q, K, V, OUT, D_OUT, D_Q, D_K, D_V, PEER_OUT, PEER_Q, PEER_K, PEER_V, ARRAYS };

typedef struct arrays {
    float *x[ARRAYS], *lse, *weights, *scratch, *own_scratch[2];
} arrays;

static float *floats(int64_t count)
{
    float *x = aligned_alloc(64, ((size_t)count * sizeof(float) + 63) / 64 * 64);
    if (x == NULL)
        abort();
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-23f - 1;
    return x;
}

static void run(bench *b, arrays *a, int what)
{
    void *forward[] = {a->x[Q], a->x[K], a->x[V], a->x[OUT], a->lse, a->own_scratch[0]};
    void *backward[] = {a->x[Q],     a->x[K],   a->x[V],   a->x[OUT], a->lse,
                        a->x[D_OUT], a->x[D_Q], a->x[D_K], a->x[D_V], a->own_scratch[1]};
    if (what == 0)
        b->attend(forward, NULL);
    if (what == 1)
        b->forward(a->x[Q], a->x[K], a->x[V], a->x[PEER_OUT], a->weights);
    if (what == 2)
        b->attend_grad(backward, NULL);
    if (what == 3)
        b->backward(a->x[Q], a->x[K], a->x[V], a->x[PEER_OUT], a->x[D_OUT], a->weights,
                    a->x[PEER_Q], a->x[PEER_K], a->x[PEER_V], a->scratch);
}

/* Of mine, then of the peer: by the clock, and of CPUs, which others that use the machine disturb
 * less. */
typedef struct timing {
    double clock[2], cpus[2];
} timing;

static int compare_numbers(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* The median of the runs of each, which take turns. */
static timing measure(bench *b, arrays *a, int mine, int peer)
{
    enum { RUNS = 9 };
    double times[2][2][RUNS];
    for (int i = 0; i < RUNS; i++) {
        for (int j = 0; j < 2; j++) {
            double start = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
            run(b, a, j == 0 ? mine : peer);
            times[0][j][i] = now(CLOCK_MONOTONIC) - start;
            times[1][j][i] = now(CLOCK_PROCESS_CPUTIME_ID) - used;
        }
    }
    timing t;
    for (int j = 0; j < 2; j++) {
        qsort(times[0][j], RUNS, sizeof(double), compare_numbers);
        qsort(times[1][j], RUNS, sizeof(double), compare_numbers);
        t.clock[j] = times[0][j][RUNS / 2];
        t.cpus[j] = times[1][j][RUNS / 2];
    }
    return t;
}

static double difference(const float *x, const float *y, int64_t count)
{
    double error = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        error += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        norm += (double)y[i] * (double)y[i];
    }
    return sqrt(error / norm);
}

static void report(const char *name, const timing *t, double flops)
{
    printf("  %-9s %8.2f ms %6.1f GFLOP/s, unfused %8.2f ms, ratio %.2f; of CPUs %8.2f ms %6.1f "
           "GFLOP/s, unfused %8.2f ms, ratio %.2f\n",
           name, t->clock[0] * 1e3, flops / t->clock[0] * 1e-9, t->clock[1] * 1e3,
           t->clock[1] / t->clock[0], t->cpus[0] * 1e3, flops / t->cpus[0] * 1e-9, t->cpus[1] * 1e3,
           t->cpus[1] / t->cpus[0]);
}

static int compare(const shape *s)
{
    bench b = {.shape = *s};
    if (!load(&b)) {
        fprintf(stderr, "attend: the code does not compile\n");
        return 1;
    }
    arrays a;
    int64_t count = s->b * s->h * s->s * s->e, pairs = s->b * s->h * s->s * s->s;
    for (int i = 0; i < ARRAYS; i++)
        a.x[i] = floats(count);
    a.lse = floats(s->b * s->h * s->s);
    a.weights = floats(pairs);
    a.scratch = floats(pairs);
    a.own_scratch[0] = floats(b.scratch_bytes[0] / 4 + 1);
    a.own_scratch[1] = floats(b.scratch_bytes[1] / 4 + 1);
    double product = (double)pairs * (double)s->e; /* 2 flops of half of the pairs */
    timing forward = measure(&b, &a, 0, 1), backward = measure(&b, &a, 2, 3);
    printf("B %lld H %lld S %lld E %lld %s, causal, a team of %d; unfused by %s\n", (long long)s->b,
           (long long)s->h, (long long)s->s, (long long)s->e, s->is_head_major ? "bhse" : "bshe",
           b.team(), b.has_onednn ? "oneDNN" : "loops");
    report("forward", &forward, 2 * product);
    report("backward", &backward, 5 * product);
    printf("  differences: out %.1e, d_q %.1e, d_k %.1e, d_v %.1e\n",
           difference(a.x[OUT], a.x[PEER_OUT], count), difference(a.x[D_Q], a.x[PEER_Q], count),
           difference(a.x[D_K], a.x[PEER_K], count), difference(a.x[D_V], a.x[PEER_V], count));
    for (int i = 0; i < ARRAYS; i++)
        free(a.x[i]);
    free(a.lse);
    free(a.weights);
    free(a.scratch);
    free(a.own_scratch[0]);
    free(a.own_scratch[1]);
    free(b.code);
    return 0;
}

int main(int argc, char **argv)
{
    setenv("OMP_WAIT_POLICY", "passive", 0); /* who waits uses no CPU */
    static const shape shapes[] = {{1, 12, 4096, 64, false}, {4, 12, 256, 64, false}};
    if (argc >= 5) {
        shape s = {strtoll(argv[1], NULL, 10), strtoll(argv[2], NULL, 10),
                   strtoll(argv[3], NULL, 10), strtoll(argv[4], NULL, 10),
                   argc > 5 && strcmp(argv[5], "bhse") == 0};
        return compare(&s);
    }
    return compare(&shapes[0]) + compare(&shapes[1]);
}
