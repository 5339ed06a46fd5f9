/* PROG bench: times steps on random inputs and profiles them. For an entry with caches, then times
 * single tokens, compared with the memory read rate: the time to read the weights is a lower bound
 * for a token. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "runtime/cpu/gemm.h"
#include "runtime/drive/json.h"
#include "runtime/drive/read_speed.h"
#include "runtime/drive/train_log.h"
#include "runtime/session/session.h"
#include "support/clock.h"
#include "support/json.h"
#include "tools/prog/bench.h"

enum { DEFAULT_STEPS = 10, DEFAULT_TOKENS = 64, READINGS = 8 };

typedef struct timing {
    double seconds, cpu; /* cpu: CPU seconds of all threads of this process */
    double gemms;        /* seconds of the step's matmuls alone; 0: not requested */
    double loss;
} timing;

/* Sets this thread's OpenMP team to --threads, the total over all ranks. */
static void set_team(const sc_prog *prog)
{
#ifdef _OPENMP
    if (prog->threads > 0)
        omp_set_num_threads((int)prog->threads);
#else
    (void)prog;
#endif
}

/* ---- one step ---- */

static double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool call(sc_bench *b)
{
    sc_prog *prog = b->prog;
    shardc_error error = {.text = ""};
    const sc_named_arrays inputs = {b->feed.names, b->inputs, b->input_count};
    bool ok = prog->executor->verbs->run(prog->executor->self, b->func, &inputs, NULL, 0, &error);
    return ok || sc_prog_fail(prog, SC_D_run_failed, "%s", error.text);
}

static bool do_step(sc_bench *b, timing *out)
{
    sc_step_result result = {.loss = 0};
    double begin = sc_seconds(), cpu = cpu_seconds();
    if (b->trainer != NULL ? !sc_trainer_step(b->trainer, b->inputs, b->input_count, &result)
                           : !call(b))
        return false;
    *out =
        (timing){.seconds = sc_seconds() - begin, .cpu = cpu_seconds() - cpu, .loss = result.loss};
    if (!b->prog->gemms_only)
        return true;
    b->prog->session->gemms_only = true;
    begin = sc_seconds();
    bool ok = b->trainer != NULL ? sc_trainer_step(b->trainer, b->inputs, b->input_count, &result)
                                 : call(b);
    out->gemms = sc_seconds() - begin;
    b->prog->session->gemms_only = false;
    return ok;
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

static summary summarise(const sc_bench *b, const timing *timings, uint64_t count)
{
    struct rusage usage;
    double *values = sc_arena_array(&b->prog->context->arena, (size_t)count, sizeof *values);
    summary s = {.flops =
                     b->trainer != NULL ? b->prog->facts.train.flops : b->prog->facts.entry.flops};
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

static void print_text(sc_bench *b, const summary *s, uint64_t count, sc_strbuf *out)
{
    sc_strbuf_printf(out, "%llu step%s: median %.6g s, least %.6g s\n", (unsigned long long)count,
                     count == 1 ? "" : "s", s->median, s->least);
    if (s->tokens > 0)
        sc_strbuf_printf(out, "%.6g tokens/s\n", s->tokens / s->median);
    if (s->flops > 0)
        sc_strbuf_printf(out, "%.4g TFLOP/s\n", s->flops / s->median * 1e-12);
    if (b->prog->gemms_only)
        sc_strbuf_printf(out, "matmuls alone: median %.6g s, %.3f of the step\n", s->gemms,
                         s->gemms / s->median);
    sc_strbuf_printf(out, "peak memory %.4g GiB\n", s->peak_rss / 0x1p30);
    if (b->spent != NULL)
        sc_bench_print_profile(b, out);
}

static void print_line(json_t *line)
{
    char *text = sc_json_write(line, JSON_COMPACT);
    json_decref(line);
    if (text != NULL)
        printf("%s\n", text);
    fflush(stdout);
    free(text);
}

/* Prints each step as it ends, for external measurements that wait for it. */
static void print_step(const sc_bench *b, uint64_t step, const timing *t)
{
    json_t *line = json_pack("{s:I, s:f, s:f}", "step", (json_int_t)step, "seconds", t->seconds,
                             "cpu", t->cpu);
    if (b->trainer != NULL)
        json_object_set_new(line, "loss", sc_number_json(t->loss));
    if (b->prog->gemms_only)
        json_object_set_new(line, "gemm_seconds", json_real(t->gemms));
    print_line(line);
}

static void print_summary(sc_bench *b, const summary *s, uint64_t count)
{
    json_t *line = json_pack("{s:I, s:f, s:f, s:f}", "steps", (json_int_t)count, "median",
                             s->median, "least", s->least, "peak_rss", s->peak_rss);
    if (s->tokens > 0)
        json_object_set_new(line, "tokens_per_second", json_real(s->tokens / s->median));
    if (s->flops > 0)
        json_object_set_new(line, "tflops", json_real(s->flops / s->median * 1e-12));
    if (b->prog->gemms_only)
        json_object_set_new(line, "gemms", json_real(s->gemms));
    if (b->spent != NULL)
        json_object_set_new(line, "profile", sc_bench_profile_json(b));
    print_line(line);
}

/* ---- --calibrate ---- */

/* Takes the best of several repetitions: the machine's rate when undisturbed. */
static bool calibrate(sc_prog *prog)
{
    enum { M = 1024, K = 768, N = 3072, LEAST_ROUNDS = 10 };
    const sc_gemm gemm = {.dim_count = 3,
                          .dims = {{.size = M, .role = SC_GEMM_M, .strides = {K, 0, N}},
                                   {.size = N, .role = SC_GEMM_N, .strides = {0, 1, 1}},
                                   {.size = K, .role = SC_GEMM_K, .strides = {1, N, 0}}},
                          .dtypes = {SC_DTYPE_f32, SC_DTYPE_f32, SC_DTYPE_f32},
                          .sum = SC_DTYPE_f32};
    double best = INFINITY, begun = sc_seconds();
    set_team(prog);
    float *a = malloc(sizeof *a * M * K), *b = malloc(sizeof *b * K * N),
          *c = malloc(sizeof *c * M * N);
    void *scratch = aligned_alloc(64, ((size_t)sc_gemm_scratch_bytes(&gemm) + 127) / 64 * 64);
    sc_gemm_plan *plan = sc_gemm_plan_new(&gemm, SC_GEMM_AUTO);
    bool ok = a != NULL && b != NULL && c != NULL && scratch != NULL && plan != NULL;
    if (ok) {
        for (int i = 0; i < M * K; i++)
            a[i] = (float)(i % 17) - 8;
    }
    if (ok) {
        for (int i = 0; i < K * N; i++)
            b[i] = (float)(i % 13) - 6;
    }
    for (int round = 0; (round < LEAST_ROUNDS || sc_seconds() - begun < 1); round++) {
        if (!ok)
            break;
        double begin = sc_seconds();
        ok = sc_gemm_run(plan, a, b, c, NULL, scratch);
        best = fmin(best, sc_seconds() - begin);
    }
    double gflops = sc_gemm_flops(&gemm) / best * 1e-9;
    if (ok && prog->run.json)
        print_line(json_pack("{s:f, s:s}", "gflops", gflops, "backend", sc_gemm_plan_name(plan)));
    else if (ok)
        sc_strbuf_printf(&prog->out, "%.4g GFLOP/s: f32, %dx%d by %dx%d, %s\n", gflops, M, K, K, N,
                         sc_gemm_plan_name(plan));
    sc_gemm_plan_free(plan);
    free(a);
    free(b);
    free(c);
    free(scratch);
    return ok || sc_prog_fail(prog, SC_D_run_failed, "the matmul cannot be run");
}

/* ---- tokens ---- */

typedef struct token_run {
    sc_array *positions;
    uint64_t count, first, room;  /* token i is at position first + i % room */
    double parameters;            /* bytes that the matmuls of a token read, over all ranks here */
    double reading, best_reading; /* seconds to read SC_READ_BYTES */
} token_run;

/* Copies the prompt's inputs with a single position. Returns false if memory runs out. */
static bool new_token_inputs(sc_bench *b)
{
    const sc_executor_func *func = &b->prog->executor->funcs[b->func];
    const sc_fact_entry *entry = &b->prog->facts.entry;
    bool ok = true;
    b->input_count = entry->inputs.count;
    b->inputs = sc_arena_array(&b->prog->context->arena, b->input_count + 1u, sizeof *b->inputs);
    for (uint32_t i = 0; i < b->input_count; i++) {
        const shardc_tensor_info *info = sc_executor_find_input(func, entry->inputs.data[i].name);
        int64_t sizes[SC_ARRAY_MAX_RANK];
        uint32_t rank = info == NULL ? 0 : info->rank; /* NULL: nothing reads it */
        for (uint32_t d = 0; d < rank; d++)
            sizes[d] = info->dims[d].size;
        sc_array *array = &b->inputs[i];
        *array = sc_array_new(rank, sizes);
        ok = ok && array->data != NULL;
        bool is_length = i + 1 == b->input_count, is_position = i + 2 == b->input_count;
        if (ok && is_length) {
            for (int64_t e = 0; e < array->count; e++)
                array->data[e] = 1;
        }
        if (ok && !is_length && !is_position)
            sc_random_fill(&entry->inputs.data[i].distribution,
                           &(sc_random_options){.seed = b->prog->run.seed}, array->data,
                           array->count);
    }
    return ok ||
           sc_prog_fail(b->prog, SC_D_run_failed, "there is not enough memory for the inputs");
}

/* Places tokens after the prompt if the caches have room for all, else at the caches' end. */
static void place_tokens(const sc_bench *b, token_run *t)
{
    const sc_prog *prog = b->prog;
    uint64_t capacity = (uint64_t)prog->facts.generate.capacity,
             prompt = (uint64_t)b->feed.arrays[b->feed.count - 1].data[0];
    t->count = prog->run.max_tokens > 0 ? (uint64_t)prog->run.max_tokens : DEFAULT_TOKENS;
    t->first = prompt + t->count <= capacity ? prompt
               : t->count < capacity         ? capacity - t->count
                                             : 0;
    t->room = capacity - t->first;
    t->positions = &b->inputs[b->input_count - 2];
}

/* Counts the bytes that matmuls read; rows picked by gathers are negligible. */
static double parameter_bytes(const sc_bench *b)
{
    uint32_t rank;
    shardc_session_local_ranks(b->prog->session, &rank);
    const sc_program *all = &b->prog->program->all;
    uint32_t stage = sc_image_stage_of(b->prog->program->image, rank);
    const sc_image *image = all->stages[stage];
    const sc_image_func *func = &image->funcs[all->funcs[b->func][stage]];
    bool *is_read =
        sc_arena_array(&b->prog->context->arena, image->buffer_count + 1u, sizeof *is_read);
    double bytes = 0;
    for (uint32_t i = 0; i < func->instr_count; i++) {
        if (func->instrs[i].kind != SC_INSTR_GEMM)
            continue;
        for (uint32_t a = 0; a < func->instrs[i].arg_count; a++) {
            uint32_t buffer = func->instrs[i].args[a].buffer;
            bool is_new = image->buffers[buffer].kind == SC_BUFFER_PARAM && !is_read[buffer];
            bytes += is_new ? (double)image->buffers[buffer].bytes : 0;
            is_read[buffer] = true;
        }
    }
    return bytes * shardc_session_local_ranks(b->prog->session, &rank);
}

static bool do_token(sc_bench *b, const token_run *t, uint64_t i, timing *out)
{
    for (int64_t e = 0; e < t->positions->count; e++)
        t->positions->data[e] = (double)(t->first + i % t->room);
    return do_step(b, out);
}

/* Alternates reading with tokens, so that other load on the machine affects both. */
static bool time_tokens(sc_bench *b, token_run *t, timing *timings)
{
    uint64_t *memory = sc_read_memory();
    double readings[READINGS] = {0};
    uint64_t done = 0;
    timing warm;
    bool ok = memory != NULL ||
              sc_prog_fail(b->prog, SC_D_run_failed, "there is not enough memory to read");
    set_team(b->prog);
    for (int r = 0; r < READINGS; r++) {
        if (!ok)
            break;
        readings[r] = sc_read_seconds(memory);
        if (r == 0)
            ok = do_token(b, t, 0, &warm);
        if (r == 0 && b->prog->profile)
            sc_bench_begin_profile(b);
        for (; done < t->count * (uint64_t)(r + 1) / READINGS; done++) {
            if (!ok)
                break;
            ok = do_token(b, t, done, &timings[done]);
        }
    }
    if (ok) {
        t->reading = median(readings, READINGS);
        t->best_reading = readings[0];
    }
    free(memory);
    return ok;
}

static void print_token_text(sc_bench *b, const token_run *t, const summary *s, sc_strbuf *out)
{
    double rate = t->parameters / s->median, limit = SC_READ_BYTES / t->reading;
    sc_strbuf_printf(out, "%llu token%s from position %llu: median %.6g ms, least %.6g ms\n",
                     (unsigned long long)t->count, t->count == 1 ? "" : "s",
                     (unsigned long long)t->first, 1e3 * s->median, 1e3 * s->least);
    sc_strbuf_printf(out, "%.6g tokens/s\n", s->tokens / s->median);
    sc_strbuf_printf(out,
                     "%.4g GB/s of parameters, %.3f of the %.4g GB/s at which memory is read; at "
                     "best %.3f of %.4g\n",
                     1e-9 * rate, rate / limit, 1e-9 * limit,
                     t->parameters / s->least * t->best_reading / SC_READ_BYTES,
                     1e-9 * SC_READ_BYTES / t->best_reading);
    if (b->prog->gemms_only)
        sc_strbuf_printf(out, "matmuls alone: median %.6g ms, %.3f of the token\n", 1e3 * s->gemms,
                         s->gemms / s->median);
    if (b->spent != NULL)
        sc_bench_print_profile(b, out);
}

static void print_token_json(sc_bench *b, const token_run *t, const summary *s,
                             const timing *timings)
{
    for (uint64_t i = 0; i < t->count; i++)
        print_line(json_pack("{s:I, s:I, s:f, s:f}", "token", (json_int_t)i, "position",
                             (json_int_t)t->first + (json_int_t)(i % t->room), "seconds",
                             timings[i].seconds, "cpu", timings[i].cpu));
    json_t *line =
        json_pack("{s:I, s:f, s:f, s:f}", "tokens", (json_int_t)t->count, "median", s->median,
                  "least", s->least, "tokens_per_second", s->tokens / s->median);
    json_object_set_new(line, "parameter_bytes", json_real(t->parameters));
    json_object_set_new(line, "parameter_rate", json_real(t->parameters / s->median));
    json_object_set_new(line, "read_rate", json_real(SC_READ_BYTES / t->reading));
    json_object_set_new(line, "of_read_rate",
                        json_real(t->parameters / s->median * t->reading / SC_READ_BYTES));
    if (b->prog->gemms_only)
        json_object_set_new(line, "gemms", json_real(s->gemms));
    if (b->spent != NULL)
        json_object_set_new(line, "profile", sc_bench_profile_json(b));
    print_line(line);
}

static void free_token_inputs(sc_bench *b)
{
    for (uint32_t i = 0; i < b->input_count; i++)
        sc_array_free(&b->inputs[i]);
}

static bool measure_tokens(sc_bench *b)
{
    sc_prog *prog = b->prog;
    b->func = prog->facts.generate.decode;
    if (b->func >= prog->executor->func_count || prog->facts.entry.inputs.count != b->feed.count ||
        b->feed.count < 2)
        return sc_prog_fail(prog, SC_D_run_failed, "the program has no function of one token");
    token_run t = {.parameters = parameter_bytes(b)};
    bool ok = new_token_inputs(b);
    if (ok) {
        place_tokens(b, &t);
        timing *timings = sc_arena_array(&prog->context->arena, (size_t)t.count, sizeof *timings);
        ok = time_tokens(b, &t, timings);
        if (ok && prog->executor->is_first) {
            summary s = summarise(b, timings, t.count);
            s.tokens = (double)t.positions->count;
            if (prog->run.json)
                print_token_json(b, &t, &s, timings);
            else
                print_token_text(b, &t, &s, &prog->out);
        }
    }
    free_token_inputs(b);
    return ok;
}

/* ---- the whole ---- */

static bool prepare(sc_bench *b)
{
    sc_prog *prog = b->prog;
    if (!sc_feed_draw(prog->context, &prog->facts.entry, prog->run.seed, &b->feed) ||
        sc_prog_open(prog) == NULL)
        return false;
    b->func = prog->facts.entry.func;
    b->inputs = b->feed.arrays;
    b->input_count = b->feed.count;
    if (prog->facts.trains)
        b->trainer = sc_trainer_new(prog->context, &prog->facts, &prog->run, prog->executor);
    else if (prog->facts.entry.func >= prog->executor->func_count)
        return sc_prog_fail(prog, SC_D_run_failed, "the program has no forward function");
    else
        return sc_read_parameters(prog->context, &prog->facts, &prog->run, prog->executor);
    return b->trainer != NULL;
}

/* The first step warms up caches, pages and clocks. With JSON lines it is one of the requested
 * steps; otherwise it comes in addition. */
static bool measure(sc_bench *b)
{
    sc_prog *prog = b->prog;
    uint64_t asked = prog->run.steps > 0 ? (uint64_t)prog->run.steps : DEFAULT_STEPS,
             steps = asked + !prog->run.json;
    uint64_t warm = steps > 1 ? 1 : 0;
    bool prints = prog->executor->is_first;
    timing *timings = sc_arena_array(&prog->context->arena, (size_t)steps, sizeof *timings);
    for (uint64_t i = 0; i < steps; i++) {
        if (i == warm && prog->profile)
            sc_bench_begin_profile(b);
        if (!do_step(b, &timings[i]))
            return false;
        if (prints && prog->run.json)
            print_step(b, i, &timings[i]);
    }
    summary s = summarise(b, timings + warm, steps - warm);
    if (prints && prog->run.json)
        print_summary(b, &s, steps - warm);
    else if (prints)
        print_text(b, &s, steps - warm, &prog->out);
    return true;
}

void sc_prog_bench(sc_prog *prog)
{
    sc_bench b = {.prog = prog};
    if (prog->calibrate) {
        calibrate(prog);
        return;
    }
    if (prepare(&b) && measure(&b) && prog->facts.generates)
        measure_tokens(&b);
    sc_trainer_free(b.trainer);
    sc_feed_close(&b.feed);
}
