/* Kernels as CUDA in batches: emitted, compiled for the CPU (test/cuda_on_cpu), run in several
 * orders and compared with the reference. */
#ifndef SHARDC_TEST_CUDA_KERNEL_CASE_H
#define SHARDC_TEST_CUDA_KERNEL_CASE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/internal.h"

#include "test/cuda_on_cpu/harness.h"

#include "test/unit/helpers/emitted_values.h"

typedef struct emitted {
    random_kernel made;
    const char *label; /* for messages */
    uint64_t seed;     /* of its arguments */
    const sc_cuda_limits *limits;
    bool norm; /* of emitted_compare */
    char symbol[32];
    sc_cuda_code code;
} emitted;

/* How blocks and warps come one after the other. */
typedef struct emitted_way {
    sc_machine_place place;
    sc_machine_schedule schedule;
    sc_machine_order order;
} emitted_way;

typedef struct emitted_arrays {
    sc_machine_memory *memory;
    void *args[SC_KERNEL_MAX_ARGS], *scratch;
    int64_t *call;
    uint64_t *failure;
} emitted_arrays;

static inline size_t emitted_bytes(const sc_kernel_arg *arg)
{
    return (size_t)random_kernel_elements(arg) * sc_dtypes[arg->dtype].bytes;
}

static inline void *emitted_alloc(const emitted *kernel, sc_machine_memory *memory, size_t bytes,
                                  sc_machine_place place, const char *name)
{
    void *array = sc_machine_alloc(memory, bytes, place, name);
    if (array == NULL)
        fail_msg("%s: memory ran out", kernel->label);
    return array;
}

static inline emitted_arrays emitted_arrays_new(const emitted *kernel, const int64_t *params,
                                                double *const *inputs, const emitted_pair *pair,
                                                sc_machine_place place)
{
    const sc_kernel *k = kernel->made.k;
    emitted_arrays a = {.memory = sc_machine_memory_new()};
    for (uint32_t i = 0; i < k->args.count; i++) {
        const sc_kernel_arg *arg = &k->args.data[i];
        a.args[i] = emitted_alloc(kernel, a.memory, emitted_bytes(arg), place,
                                  sc_text(k->context, arg->name));
        for (int64_t j = 0; j < random_kernel_elements(arg); j++)
            sc_element_store(emitted_element(arg->dtype), a.args[i], (uint64_t)j, inputs[i][j]);
        sc_machine_read_only(a.memory, a.args[i], arg->mode == SC_ARG_IN);
    }
    if (pair != NULL)
        memcpy(a.args[pair->out], a.args[pair->in], emitted_bytes(&k->args.data[pair->in]));
    if (pair != NULL && pair->one)
        a.args[pair->in] = a.args[pair->out];
    if (kernel->code.scratch_bytes > 0)
        a.scratch =
            emitted_alloc(kernel, a.memory, (size_t)kernel->code.scratch_bytes, place, "scratch");
    a.call = emitted_alloc(kernel, a.memory, sizeof *a.call, place, "call");
    a.failure = emitted_alloc(kernel, a.memory, sizeof *a.failure, place, "failure");
    *a.call = 0;
    for (uint32_t i = 0; i < k->params.count; i++) {
        if (k->params.data[i].kind == SC_PARAM_STEP)
            *a.call = params[i];
    }
    *a.failure = UINT64_MAX;
    return a;
}

/* Runs it on fresh arguments, which the caller frees. */
static inline emitted_arrays emitted_run(const emitted *kernel, const sc_machine_module *module,
                                         const int64_t *params, double *const *inputs,
                                         const emitted_pair *pair, emitted_way way)
{
    const sc_kernel *k = kernel->made.k;
    emitted_arrays a = emitted_arrays_new(kernel, params, inputs, pair, way.place);
    void *given[SC_KERNEL_MAX_ARGS + 64];
    int64_t numbers[64];
    uint32_t count = 0;
    for (uint32_t i = 0; i < k->args.count; i++)
        given[count++] = &a.args[i];
    if (a.scratch != NULL)
        given[count++] = &a.scratch;
    for (uint32_t i = 0; i < k->params.count; i++) {
        numbers[i] = k->params.data[i].kind == SC_PARAM_STEP ? -1 : params[i];
        given[count++] = &numbers[i];
    }
    given[count++] = &a.call;
    given[count++] = &a.failure;
    for (uint32_t stage = 0; stage < kernel->code.stage_count; stage++) {
        const sc_cuda_stage *s = &kernel->code.stages[stage];
        char entry[48];
        sc_machine_report report;
        snprintf(entry, sizeof entry, "%s_%u", kernel->symbol, stage);
        sc_machine_launch launch = {.module = module,
                                    .entry = entry,
                                    .blocks = s->blocks,
                                    .threads = s->threads,
                                    .shared_bytes = s->shared_bytes,
                                    .params = given,
                                    .memory = a.memory,
                                    .schedule = way.schedule,
                                    .order = way.order,
                                    .seed = kernel->seed};
        if (!sc_machine_run(&launch, &report) || !sc_machine_memory_check(a.memory, &report))
            fail_msg("%s: %s", kernel->label, report.text);
    }
    return a;
}

static inline int64_t emitted_failure(const emitted_arrays *a)
{
    return *a->failure == UINT64_MAX ? 0 : (int64_t)*a->failure;
}

static inline bool emitted_same(const emitted *kernel, const emitted_arrays *a,
                                const emitted_arrays *b)
{
    bool same = *a->failure == *b->failure;
    for (uint32_t i = 0; same && *a->failure == UINT64_MAX && i < kernel->made.k->args.count; i++) {
        const sc_kernel_arg *arg = &kernel->made.k->args.data[i];
        same = arg->mode == SC_ARG_IN || memcmp(a->args[i], b->args[i], emitted_bytes(arg)) == 0;
    }
    return same;
}

static inline void emitted_check_pair(const emitted *kernel, const sc_machine_module *module,
                                      const int64_t *params, double *const *inputs,
                                      emitted_pair pair)
{
    emitted_arrays beside = emitted_run(kernel, module, params, inputs, &pair,
                                        (emitted_way){.schedule = SC_MACHINE_WARPS});
    pair.one = true;
    emitted_arrays in_place = emitted_run(kernel, module, params, inputs, &pair,
                                          (emitted_way){.schedule = SC_MACHINE_WARPS_REVERSED});
    if (!emitted_same(kernel, &beside, &in_place))
        fail_msg("%s: argument %u in place of %u gives something else", kernel->label, pair.out,
                 pair.in);
    sc_machine_memory_free(beside.memory);
    sc_machine_memory_free(in_place.memory);
}

static inline void emitted_check(const emitted *kernel, const sc_machine_module *module)
{
    static const emitted_way ways[] = {
        {SC_MACHINE_AT_START, SC_MACHINE_WARPS, SC_MACHINE_SHUFFLED},
        {SC_MACHINE_AT_END, SC_MACHINE_WARPS_REVERSED, SC_MACHINE_REVERSED}};
    const sc_kernel *k = kernel->made.k;
    const int64_t *params = random_kernel_params(&kernel->made, kernel->seed);
    double *inputs[SC_KERNEL_MAX_ARGS], *want[SC_KERNEL_MAX_ARGS];
    for (uint32_t i = 0; i < k->args.count; i++) {
        inputs[i] = random_kernel_fill(&kernel->made, i, kernel->seed);
        want[i] = random_kernel_fill(&kernel->made, i, kernel->seed);
    }
    int64_t expected = sc_kernel_interpret(k, want, params, true);
    emitted_arrays first = emitted_run(kernel, module, params, inputs, NULL,
                                       (emitted_way){.schedule = SC_MACHINE_LOCK_STEP});
    if (emitted_failure(&first) != expected)
        fail_msg("%s: gives %lld, not %lld", kernel->label, (long long)emitted_failure(&first),
                 (long long)expected);
    for (uint32_t i = 0; expected == 0 && i < k->args.count; i++)
        emitted_compare(&kernel->made, kernel->label, kernel->norm, i, want[i], first.args[i]);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        emitted_arrays again = emitted_run(kernel, module, params, inputs, NULL, ways[w]);
        if (!emitted_same(kernel, &first, &again))
            fail_msg("%s: another order gives something else", kernel->label);
        sc_machine_memory_free(again.memory);
    }
    sc_machine_memory_free(first.memory);
    for (uint32_t i = 0; i < k->args.count; i++) {
        for (uint32_t j = 0; j < k->args.count; j++) {
            bool ends = k->args.data[i].mode == SC_ARG_IN && k->args.data[j].mode == SC_ARG_OUT;
            if (ends && sc_kernel_may_share(k, i, j))
                emitted_check_pair(kernel, module, params, inputs, (emitted_pair){i, j, false});
        }
    }
}

/* All in one module. */
static inline void emitted_run_all(sc_context *context, emitted *all, uint32_t count)
{
    const char **texts = sc_arena_array(&context->arena, count, sizeof *texts);
    for (uint32_t i = 0; i < count; i++) {
        sc_strbuf text, stages;
        sc_helper_set helpers = 0;
        sc_strbuf_init(&text, &context->arena);
        sc_strbuf_init(&stages, &context->arena);
        snprintf(all[i].symbol, sizeof all[i].symbol, "k%u", i);
        sc_cuda_emit_within(all[i].made.k, all[i].symbol, true, all[i].limits, &stages, &helpers,
                            &all[i].code);
        sc_cuda_helpers_emit(&text, helpers);
        sc_strbuf_add(&text, stages.data);
        texts[i] = text.data;
    }
    sc_machine_report report;
    sc_machine_module *module = sc_machine_compile(texts, count, &report);
    if (module == NULL)
        fail_msg("%s", report.text);
    for (uint32_t i = 0; i < count; i++)
        emitted_check(&all[i], module);
    sc_machine_unload(module);
}

#endif
