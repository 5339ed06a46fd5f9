/* bench/compile: how long a file takes from its text to the final per-rank IR, verifier included,
 * and how that grows.
 *
 *   compile MODEL [RUNS]      MODEL is bench/llama_405b.shard: 126 layers on 16,384 ranks
 *
 * Prints medians of RUNS in-process compiles (default 15), the ratio of the full depth to half of
 * it, of all ranks to 128 of them, the peak memory, and the parser's rate on the file repeated to
 * 16 MB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "tools/driver/driver.h"

typedef struct shape {
    const char *what;
    int64_t layers, dp, fsdp;
    bool step; /* the train step: backward, recomputation, optimizer; else the forward entry */
    int64_t batch;
} shape;

typedef struct job {
    const char *file;
    const shape *shape;
    bool fine;
    uint32_t ops;
} job;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
    return values[count / 2];
}

static void bind(sc_context *context, sc_binding_list *list, const char *name, int64_t size)
{
    *sc_vec_push(&context->arena, list) =
        (sc_binding){.dim = sc_intern_text(&context->names, name), .size = size};
}

static void compile(sc_context *context, void *user)
{
    job *j = user;
    sc_options options = {.file = j->file, .entry = "loss", .trains = j->shape->step};
    sc_binding_list mesh = {0};
    bind(context, &options.plan_options.binds, "L", j->shape->layers);
    bind(context, &options.plan_options.binds, "B", j->shape->batch);
    bind(context, &mesh, "dp", j->shape->dp);
    bind(context, &mesh, "fsdp", j->shape->fsdp);
    for (uint32_t i = 0; i < mesh.count; i++)
        *sc_vec_push(&context->arena, &options.plan_options.mesh) = mesh.data[i];
    const sc_plan *plan;
    sc_compiled c;
    sc_declarations *program = sc_driver_load(context, &options);
    j->fine = program != NULL && sc_driver_choose_plan(context, program, &options, &plan) &&
              sc_driver_compile(context, program, plan, &options, NULL, NULL, NULL, &c);
    if (!j->fine) {
        sc_strbuf text;
        sc_strbuf_init(&text, &context->arena);
        sc_diag_render_text(&context->diag, &context->sources, &text);
        fputs(text.data, stderr);
        return;
    }
    j->ops = 0;
    sc_for_each_op_of_all(c.local, op) j->ops++;
}

static bool measure(const char *file, const shape *shapes, size_t count, int runs, double *medians,
                    uint32_t *ops)
{
    double *times = calloc(count * (size_t)runs, sizeof *times);
    bool fine = times != NULL;
    /* interleaved, so that drift of the machine touches all alike */
    for (int r = 0; fine && r < runs; r++) {
        for (size_t s = 0; fine && s < count; s++) {
            sc_context context;
            job j = {.file = file, .shape = &shapes[s]};
            double start = seconds();
            fine = sc_context_run(&context, 0, compile, &j) && j.fine;
            times[s * (size_t)runs + (size_t)r] = seconds() - start;
            sc_context_free(&context);
            ops[s] = j.ops;
        }
    }
    for (size_t s = 0; fine && s < count; s++)
        medians[s] = median(&times[s * (size_t)runs], (size_t)runs);
    free(times);
    return fine;
}

typedef struct text {
    char *data;
    size_t length;
    uint32_t errors;
} text;

static void parse(sc_context *context, void *user)
{
    text *t = user;
    sc_parse_text(context, "bench", t->data, t->length);
    t->errors = context->diag.errors;
}

/* The model's blocks again and again; parsing does not mind equal names. */
static bool repeat_file(const char *path, size_t wanted, text *out)
{
    FILE *file = fopen(path, "rb");
    char *once = calloc(1, 1 << 16);
    size_t length = file == NULL || once == NULL ? 0 : fread(once, 1, (1 << 16) - 1, file);
    if (file != NULL)
        fclose(file);
    const char *body = length == 0 ? NULL : strchr(once, ';');
    out->data = malloc(wanted + length + 16);
    if (body == NULL || out->data == NULL) {
        free(once);
        free(out->data);
        return false;
    }
    size_t head = (size_t)(body - once) + 1;
    memcpy(out->data, once, head);
    out->length = head;
    while (out->length < wanted) {
        memcpy(out->data + out->length, once + head, length - head);
        out->length += length - head;
    }
    free(once);
    return true;
}

static void measure_parser(const char *file)
{
    text t = {0};
    double times[5];
    if (!repeat_file(file, (size_t)16 << 20, &t)) {
        fprintf(stderr, "cannot read %s\n", file);
        return;
    }
    for (int r = 0; r < 5; r++) {
        sc_context context;
        double start = seconds();
        sc_context_run(&context, 0, parse, &t);
        times[r] = seconds() - start;
        sc_context_free(&context);
    }
    printf("parse            %6.1f MB/s (%.1f MB, %u errors)\n",
           (double)t.length / 1e6 / median(times, 5), (double)t.length / 1e6, t.errors);
    free(t.data);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: compile MODEL [RUNS]\n", stderr);
        return 2;
    }
    static const shape shapes[] = {{"126 layers, 16384 ranks", 126, 16, 128, false, 4096},
                                   {"63 layers, 16384 ranks", 63, 16, 128, false, 4096},
                                   {"126 layers, 128 ranks", 126, 2, 8, false, 4096},
                                   {"train step, 126 layers", 126, 16, 128, true, 4096},
                                   {"train step, 63 layers", 63, 16, 128, true, 4096},
                                   {"train step, 128 ranks", 126, 2, 8, true, 4096}};
    enum { COUNT = sizeof shapes / sizeof *shapes, STEP = 3 };
    double medians[COUNT];
    uint32_t ops[COUNT];
    int runs = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 15;
    if (runs < 1 || !measure(argv[1], shapes, COUNT, runs, medians, ops))
        return 1;
    for (size_t s = 0; s < COUNT; s++)
        printf("%-24s %7.1f ms  %u ops in the per-rank program\n", shapes[s].what, medians[s] * 1e3,
               ops[s]);
    printf("full depth / half        %6.2f   (linear: 2)\n", medians[0] / medians[1]);
    printf("16384 ranks / 128        %6.2f   (independent: 1)\n", medians[0] / medians[2]);
    printf("train step: full / half  %6.2f   ranks %.2f\n", medians[STEP] / medians[STEP + 1],
           medians[STEP] / medians[STEP + 2]);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("peak memory              %6.1f MB\n", (double)usage.ru_maxrss / 1e3);
    measure_parser(argv[1]);
    return 0;
}
