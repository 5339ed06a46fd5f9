/* PROG bench: steps on random inputs, and what takes their time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "runtime/drive/feed.h"
#include "runtime/drive/json.h"
#include "runtime/drive/train_log.h"
#include "runtime/gemm.h"
#include "runtime/session.h"
#include "tools/prog/prog.h"

enum { DEFAULT_STEPS = 10, MOST_ROWS = 10 };

typedef struct timing {
    double seconds, processor; /* processor: seconds of all threads of this process */
    double gemms;              /* seconds of the same step's products alone; 0: not asked */
    double loss;
} timing;

/* What one instruction of rank 0 of this process took, over all timed steps. */
typedef struct spent {
    sc_work work;
    double seconds;
    uint64_t calls;
} spent;

typedef struct bench {
    sc_prog *prog;
    sc_feed feed;
    sc_trainer *trainer; /* NULL: the entry is called */
    timing *timings;
    uint32_t first_rank;
    spent **spent; /* by function and instruction; NULL: no --profile */
} bench;

/* ---- one step ---- */

static double processor_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool call_entry(bench *b)
{
    sc_prog *prog = b->prog;
    sc_error error = {.text = ""};
    bool ok = prog->machine->verbs->run(prog->machine->self, prog->facts.entry.func, b->feed.arrays, b->feed.count, NULL, 0, &error);
    return ok || sc_prog_fail(prog, SC_D_run_failed, "%s", error.text);
}

static bool do_step(bench *b, timing *out)
{
    sc_step_result result = {.loss = 0};
    double begin = sc_seconds(), processor = processor_seconds();
    if (b->trainer != NULL ? !sc_trainer_step(b->trainer, b->feed.arrays, b->feed.count, &result) : !call_entry(b))
        return false;
    *out = (timing){.seconds = sc_seconds() - begin, .processor = processor_seconds() - processor, .loss = result.loss};
    if (!b->prog->gemms_only)
        return true;
    b->prog->session->gemms_only = true;
    begin = sc_seconds();
    bool ok = b->trainer != NULL ? sc_trainer_step(b->trainer, b->feed.arrays, b->feed.count, &result) : call_entry(b);
    out->gemms = sc_seconds() - begin;
    b->prog->session->gemms_only = false;
    return ok;
}

/* ---- --profile ---- */

static void note(void *user, const sc_trace_event *event)
{
    bench *b = user;
    if (event->rank != b->first_rank || b->prog->session->gemms_only)
        return;
    spent *s = &b->spent[event->func][event->instr];
    s->work = event->work;
    s->seconds += event->end - event->begin;
    s->calls++;
}

static void begin_profile(bench *b)
{
    const sc_image *image = b->prog->program->image;
    sc_arena *arena = &b->prog->context->arena;
    sc_session_local_ranks(b->prog->session, &b->first_rank);
    b->spent = sc_arena_array(arena, image->func_count + 1u, sizeof *b->spent);
    for (uint32_t f = 0; f < image->func_count; f++)
        b->spent[f] = sc_arena_array(arena, image->funcs[f].instr_count + 1u, sizeof **b->spent);
    sc_session_set_trace(b->prog->session, note, b);
}

/* Instructions that do the same work in different places. */
typedef struct profile_row {
    const char *what, *unit;
    double seconds, amount; /* amount: of one call, in 1e9 of the unit */
    uint64_t calls;
} profile_row;

typedef SC_VEC(profile_row) profile_rows;

static double kernel_bytes(const sc_image_kernel *kernel)
{
    double bytes = 0;
    for (uint32_t i = 0; i < kernel->arg_count; i++)
        bytes += (double)kernel->args[i].bytes * (kernel->args[i].access == SC_ACCESS_INOUT ? 2 : 1);
    return bytes;
}

static profile_row describe(bench *b, const sc_image_func *func, const sc_image_instr *instr)
{
    const sc_image *image = b->prog->program->image;
    sc_strbuf text;
    switch (instr->kind) {
    case SC_INSTR_KERNEL:
        return (profile_row){image->kernels[instr->index].title, "GB/s", 0, 1e-9 * kernel_bytes(&image->kernels[instr->index]), 0};
    case SC_INSTR_GEMM:
        sc_strbuf_init(&text, &b->prog->context->arena);
        sc_gemm_print(&image->gemms[instr->index], &text);
        return (profile_row){text.data, "GFLOP/s", 0, 1e-9 * sc_gemm_flops(&image->gemms[instr->index]), 0};
    case SC_INSTR_COLLECTIVE:
        return (profile_row){sc_image_collective_names[image->collectives[instr->index].kind], NULL, 0, 0, 0};
    case SC_INSTR_FINISH:
        return (profile_row){sc_arena_printf(&b->prog->context->arena, "wait for %s", describe(b, func, &func->instrs[instr->index]).what),
                             NULL, 0, 0, 0};
    default:
        return (profile_row){"copy", NULL, 0, 0, 0};
    }
}

static int slower_first(const void *a, const void *b)
{
    double left = ((const profile_row *)a)->seconds, right = ((const profile_row *)b)->seconds;
    return (left < right) - (left > right);
}

static profile_rows add_up(bench *b, double works[SC_WORK_KINDS])
{
    const sc_image *image = b->prog->program->image;
    profile_rows rows = {0};
    for (uint32_t f = 0; f < image->func_count; f++) {
        for (uint32_t i = 0; i < image->funcs[f].instr_count; i++) {
            const spent *s = &b->spent[f][i];
            if (s->calls == 0)
                continue;
            profile_row row = describe(b, &image->funcs[f], &image->funcs[f].instrs[i]);
            uint32_t at = 0;
            while (at < rows.count && (strcmp(rows.data[at].what, row.what) != 0 || fabs(rows.data[at].amount - row.amount) > 0))
                at++;
            if (at == rows.count)
                *sc_vec_push(&b->prog->context->arena, &rows) = row;
            rows.data[at].seconds += s->seconds;
            rows.data[at].calls += s->calls;
            works[s->work] += s->seconds;
        }
    }
    if (rows.count > 0)
        qsort(rows.data, rows.count, sizeof *rows.data, slower_first);
    return rows;
}

/* ---- results ---- */

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values, uint64_t count)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

typedef struct summary {
    double median, least, gemms, tokens, flops, peak_rss;
} summary;

static summary summarise(const bench *b, const timing *timings, uint64_t count)
{
    struct rusage usage;
    double *values = sc_arena_array(&b->prog->context->arena, (size_t)count, sizeof *values);
    summary s = {.flops = b->trainer != NULL ? b->prog->facts.train.flops : b->prog->facts.entry.flops};
    for (uint64_t i = 0; i < count; i++)
        values[i] = timings[i].gemms;
    s.gemms = median(values, count);
    for (uint64_t i = 0; i < count; i++)
        values[i] = timings[i].seconds;
    s.median = median(values, count);
    s.least = values[0];
    s.tokens = (double)sc_entry_tokens(&b->prog->facts.entry);
    getrusage(RUSAGE_SELF, &usage);
    s.peak_rss = 1024.0 * (double)usage.ru_maxrss;
    return s;
}

static const char *const work_names[SC_WORK_KINDS] = {
    [SC_WORK_KERNEL] = "kernel", [SC_WORK_ATTENTION] = "attention", [SC_WORK_GEMM] = "gemm",
    [SC_WORK_COMM] = "comm",     [SC_WORK_WAIT] = "wait",           [SC_WORK_COPY] = "copy"};

static void print_profile(bench *b, sc_strbuf *out)
{
    double works[SC_WORK_KINDS] = {0}, total = 0;
    profile_rows rows = add_up(b, works);
    for (int k = 0; k < SC_WORK_KINDS; k++)
        total += works[k];
    total = total > 0 ? total : 1;
    sc_strbuf_add(out, "time of the first rank here:");
    for (int k = 0; k < SC_WORK_KINDS; k++)
        sc_strbuf_printf(out, "%s %s %.1f%%", k > 0 ? "," : "", work_names[k], 100 * works[k] / total);
    sc_strbuf_add(out, "\n");
    for (uint32_t i = 0; i < rows.count && i < MOST_ROWS; i++) {
        const profile_row *row = &rows.data[i];
        sc_strbuf_printf(out, "%5.1f%% %9.3f ms %6llu calls ", 100 * row->seconds / total, 1e3 * row->seconds / (double)row->calls,
                         (unsigned long long)row->calls);
        if (row->unit != NULL && row->seconds > 0)
            sc_strbuf_printf(out, "%8.4g %-7s ", row->amount * (double)row->calls / row->seconds, row->unit);
        sc_strbuf_printf(out, "%s\n", row->what);
    }
}

static json_t *profile_json(bench *b)
{
    double works[SC_WORK_KINDS] = {0};
    profile_rows rows = add_up(b, works);
    json_t *object = json_object(), *kinds = json_object(), *list = json_array();
    for (int k = 0; k < SC_WORK_KINDS; k++)
        json_object_set_new(kinds, work_names[k], sc_number_json(works[k]));
    for (uint32_t i = 0; i < rows.count && i < MOST_ROWS; i++) {
        const profile_row *row = &rows.data[i];
        json_t *item = json_pack("{s:s, s:I, s:f}", "what", row->what, "calls", (json_int_t)row->calls, "total", row->seconds);
        if (row->unit != NULL && row->seconds > 0)
            json_object_set_new(item, row->unit, sc_number_json(row->amount * (double)row->calls / row->seconds));
        json_array_append_new(list, item);
    }
    json_object_set_new(object, "kinds", kinds);
    json_object_set_new(object, "slowest", list);
    return object;
}

static void print_text(bench *b, const summary *s, uint64_t count, sc_strbuf *out)
{
    sc_strbuf_printf(out, "%llu step%s: median %.6g s, least %.6g s\n", (unsigned long long)count, count == 1 ? "" : "s", s->median,
                     s->least);
    if (s->tokens > 0)
        sc_strbuf_printf(out, "%.6g tokens/s\n", s->tokens / s->median);
    if (s->flops > 0)
        sc_strbuf_printf(out, "%.4g TFLOP/s\n", s->flops / s->median * 1e-12);
    if (b->prog->gemms_only)
        sc_strbuf_printf(out, "products alone: median %.6g s, %.3f of the step\n", s->gemms, s->gemms / s->median);
    sc_strbuf_printf(out, "peak memory %.4g GiB\n", s->peak_rss / 0x1p30);
    if (b->spent != NULL)
        print_profile(b, out);
}

static void print_line(json_t *line)
{
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(line);
    if (text != NULL)
        printf("%s\n", text);
    fflush(stdout);
    free(text);
}

/* As steps end: who measures from outside waits for them. */
static void print_step(const bench *b, uint64_t step, const timing *t)
{
    json_t *line = json_pack("{s:I, s:f, s:f}", "step", (json_int_t)step, "seconds", t->seconds, "cpu", t->processor);
    if (b->trainer != NULL)
        json_object_set_new(line, "loss", sc_number_json(t->loss));
    if (b->prog->gemms_only)
        json_object_set_new(line, "gemm_seconds", json_real(t->gemms));
    print_line(line);
}

static void print_summary(bench *b, const summary *s, uint64_t count)
{
    json_t *line =
        json_pack("{s:I, s:f, s:f, s:f}", "steps", (json_int_t)count, "median", s->median, "least", s->least, "peak_rss", s->peak_rss);
    if (s->tokens > 0)
        json_object_set_new(line, "tokens_per_second", json_real(s->tokens / s->median));
    if (s->flops > 0)
        json_object_set_new(line, "tflops", json_real(s->flops / s->median * 1e-12));
    if (b->prog->gemms_only)
        json_object_set_new(line, "gemms", json_real(s->gemms));
    if (b->spent != NULL)
        json_object_set_new(line, "profile", profile_json(b));
    print_line(line);
}

/* ---- --calibrate ---- */

/* The best of repetitions: what the machine gives when nobody disturbs it. */
static bool calibrate(sc_prog *prog)
{
    enum { M = 1024, K = 768, N = 3072, LEAST_ROUNDS = 10 };
    const sc_gemm gemm = {.dim_count = 3,
                          .dims = {{M, SC_GEMM_M, {K, 0, N}}, {N, SC_GEMM_N, {0, 1, 1}}, {K, SC_GEMM_K, {1, N, 0}}},
                          .dtypes = {SC_DTYPE_f32, SC_DTYPE_f32, SC_DTYPE_f32},
                          .sum = SC_DTYPE_f32};
    double best = INFINITY, begun = sc_seconds();
#ifdef _OPENMP
    if (prog->threads > 0)
        omp_set_num_threads((int)prog->threads);
#endif
    float *a = malloc(sizeof *a * M * K), *b = malloc(sizeof *b * K * N), *c = malloc(sizeof *c * M * N);
    void *scratch = aligned_alloc(64, ((size_t)sc_gemm_scratch_bytes(&gemm) + 127) / 64 * 64);
    sc_gemm_plan *plan = sc_gemm_plan_new(&gemm, SC_GEMM_AUTO);
    bool ok = a != NULL && b != NULL && c != NULL && scratch != NULL && plan != NULL;
    for (int i = 0; ok && i < M * K; i++)
        a[i] = (float)(i % 17) - 8;
    for (int i = 0; ok && i < K * N; i++)
        b[i] = (float)(i % 13) - 6;
    for (int round = 0; ok && (round < LEAST_ROUNDS || sc_seconds() - begun < 1); round++) {
        double begin = sc_seconds();
        ok = sc_gemm_run(plan, a, b, c, NULL, scratch);
        best = fmin(best, sc_seconds() - begin);
    }
    double gflops = sc_gemm_flops(&gemm) / best * 1e-9;
    if (ok && prog->run.json)
        print_line(json_pack("{s:f, s:s}", "gflops", gflops, "backend", sc_gemm_plan_name(plan)));
    else if (ok)
        sc_strbuf_printf(&prog->out, "%.4g GFLOP/s: f32, %dx%d by %dx%d, %s\n", gflops, M, K, K, N, sc_gemm_plan_name(plan));
    sc_gemm_plan_free(plan);
    free(a);
    free(b);
    free(c);
    free(scratch);
    return ok || sc_prog_fail(prog, SC_D_run_failed, "the product cannot be run");
}

/* ---- the whole ---- */

static bool prepare(bench *b)
{
    sc_prog *prog = b->prog;
    if (!sc_feed_draw(prog->context, &prog->facts.entry, prog->run.seed, &b->feed) || sc_prog_open(prog) == NULL)
        return false;
    if (prog->facts.trains)
        b->trainer = sc_trainer_new(prog->context, &prog->facts, &prog->run, prog->machine);
    else if (prog->facts.entry.func >= prog->machine->func_count)
        return sc_prog_fail(prog, SC_D_run_failed, "the program has no forward function");
    else
        return sc_fill_parameters(prog->context, &prog->facts, &prog->run, prog->machine);
    return b->trainer != NULL;
}

/* The first step warms up: caches, pages, clocks. As lines of JSON it is one of the steps asked for; else it comes before them. */
static bool measure(bench *b)
{
    sc_prog *prog = b->prog;
    uint64_t asked = prog->run.steps > 0 ? (uint64_t)prog->run.steps : DEFAULT_STEPS, steps = asked + !prog->run.json;
    uint64_t warm = steps > 1 ? 1 : 0;
    bool prints = prog->machine->is_first;
    b->timings = sc_arena_array(&prog->context->arena, (size_t)steps, sizeof *b->timings);
    for (uint64_t i = 0; i < steps; i++) {
        if (i == warm && prog->profile)
            begin_profile(b);
        if (!do_step(b, &b->timings[i]))
            return false;
        if (prints && prog->run.json)
            print_step(b, i, &b->timings[i]);
    }
    summary s = summarise(b, b->timings + warm, steps - warm);
    if (prints && prog->run.json)
        print_summary(b, &s, steps - warm);
    else if (prints)
        print_text(b, &s, steps - warm, &prog->out);
    return true;
}

void sc_prog_bench(sc_prog *prog)
{
    bench b = {.prog = prog};
    if (prog->calibrate) {
        calibrate(prog);
        return;
    }
    if (prepare(&b))
        measure(&b);
    sc_trainer_free(b.trainer);
    sc_feed_close(&b.feed);
}
