/* Kernels as C in batches: emitted, compiled (many to a file), run for teams of several sizes and
 * compared with the reference. */
#ifndef SHARDC_TEST_C_KERNEL_CASE_H
#define SHARDC_TEST_C_KERNEL_CASE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/c/internal.h"
#include "codegen/toolchain/objects.h"
#include "runtime/cpu/loader.h"

#include "test/unit/helpers/emitted_values.h"

enum { EMITTED_GROUP = 24 /* kernels of a file that is compiled */ };

typedef struct emitted {
    random_kernel made;
    const char *label; /* for messages */
    uint64_t seed;     /* of its arguments */
    const sc_c_limits *limits;
    bool norm; /* of emitted_compare */
    char symbol[32];
} emitted;

static const char emitted_team[] = "extern void omp_set_num_threads(int);\n"
                                   "int64_t set_team(void *const *args, const int64_t *params)\n"
                                   "{\n"
                                   "    omp_set_num_threads((int)params[0]);\n"
                                   "    return args == NULL ? 0 : 1;\n"
                                   "}\n";

/* Compiles them; the loader, which the caller closes. */
static inline sc_loader *emitted_load(sc_context *context, emitted *all, uint32_t count,
                                      const char *cache)
{
    sc_arena *arena = &context->arena;
    uint32_t groups = (count + EMITTED_GROUP - 1) / EMITTED_GROUP;
    sc_object_function *files = sc_arena_array(arena, groups + 1, sizeof *files);
    for (uint32_t g = 0; g < groups; g++) {
        sc_strbuf text;
        sc_strbuf_init(&text, arena);
        for (uint32_t i = g * EMITTED_GROUP; i < count && i < (g + 1) * EMITTED_GROUP; i++) {
            snprintf(all[i].symbol, sizeof all[i].symbol, "k%u", i);
            sc_c_emit_within(all[i].made.k, all[i].symbol, true, all[i].limits, &text,
                             &files[g].helpers);
        }
        files[g].text = text.data;
        files[g].symbol = sc_arena_printf(arena, "group%u", g);
    }
    files[groups] = (sc_object_function){.symbol = "set_team", .text = emitted_team};
    sc_object object;
    const char *error =
        sc_objects_build(arena, files, groups + 1, &(sc_object_options){.cache = cache}, &object);
    if (error != NULL)
        fail_msg("%s", error);
    shardc_error why;
    sc_loader *loader = sc_loader_open(object.bytes, object.byte_count, &why);
    if (loader == NULL)
        fail_msg("%s", why.text);
    return loader;
}

static inline sc_kernel_function *emitted_function(sc_loader *loader, const char *name)
{
    shardc_error why;
    sc_kernel_function *function = sc_loader_symbol(loader, name, &why);
    if (function == NULL)
        fail_msg("%s", why.text);
    return function;
}

/* Runs it on fresh arguments; the elements of all, one behind another at multiples of 64 bytes. */
static inline char *emitted_run(const emitted *kernel, sc_kernel_function *function,
                                const int64_t *params, double *const *inputs,
                                const emitted_pair *pair, int64_t *result,
                                size_t at[SC_KERNEL_MAX_ARGS], size_t *bytes)
{
    const sc_kernel *k = kernel->made.k;
    void *args[SC_KERNEL_MAX_ARGS];
    *bytes = 0;
    for (uint32_t i = 0; i < k->args.count; i++) {
        at[i] = *bytes;
        *bytes += ((size_t)random_kernel_elements(&k->args.data[i]) *
                       sc_dtypes[k->args.data[i].dtype].bytes +
                   127) /
                  64 * 64;
    }
    char *memory = aligned_alloc(64, *bytes + 64);
    memset(memory, 0x55, *bytes);
    for (uint32_t i = 0; i < k->args.count; i++) {
        args[i] = memory + at[i];
        for (int64_t j = 0; j < random_kernel_elements(&k->args.data[i]); j++)
            sc_element_store(emitted_element(k->args.data[i].dtype), args[i], (uint64_t)j,
                             inputs[i][j]);
    }
    if (pair != NULL)
        memcpy(args[pair->out], args[pair->in],
               (size_t)random_kernel_elements(&k->args.data[pair->in]) *
                   sc_dtypes[k->args.data[pair->in].dtype].bytes);
    if (pair != NULL && pair->one)
        args[pair->in] = args[pair->out];
    *result = function(args, params);
    return memory;
}

/* In place as beside: the same bits in all that is written. */
static inline void emitted_check_pair(const emitted *kernel, sc_kernel_function *function,
                                      const int64_t *params, double *const *inputs,
                                      emitted_pair pair)
{
    int64_t results[2];
    size_t at[SC_KERNEL_MAX_ARGS], bytes;
    char *beside = emitted_run(kernel, function, params, inputs, &pair, &results[0], at, &bytes);
    pair.one = true;
    char *in_place = emitted_run(kernel, function, params, inputs, &pair, &results[1], at, &bytes);
    if (results[0] != results[1] || (results[0] == 0 && memcmp(beside, in_place, bytes) != 0))
        fail_msg("%s: argument %u in place of %u gives something else", kernel->label, pair.out,
                 pair.in);
    free(beside);
    free(in_place);
}

static inline void emitted_check(sc_loader *loader, const emitted *kernel)
{
    const sc_kernel *k = kernel->made.k;
    sc_kernel_function *set_team = emitted_function(loader, "set_team"),
                       *function = emitted_function(loader, kernel->symbol);
    const int64_t *params = random_kernel_params(&kernel->made, kernel->seed);
    double *inputs[SC_KERNEL_MAX_ARGS], *want[SC_KERNEL_MAX_ARGS];
    for (uint32_t i = 0; i < k->args.count; i++) {
        inputs[i] = random_kernel_fill(&kernel->made, i, kernel->seed);
        want[i] = random_kernel_fill(&kernel->made, i, kernel->seed);
    }
    int64_t expected = sc_kernel_interpret(k, want, params, true), result;
    size_t at[SC_KERNEL_MAX_ARGS], bytes;
    set_team(NULL, &(int64_t){1});
    char *first = emitted_run(kernel, function, params, inputs, NULL, &result, at, &bytes);
    if (result != expected)
        fail_msg("%s: gives %lld, not %lld", kernel->label, (long long)result, (long long)expected);
    for (uint32_t i = 0; expected == 0 && i < k->args.count; i++)
        emitted_compare(&kernel->made, kernel->label, kernel->norm, i, want[i], first + at[i]);
    for (int64_t team = 2; team <= 3; team++) {
        set_team(NULL, &team);
        char *again = emitted_run(kernel, function, params, inputs, NULL, &result, at, &bytes);
        if (result != expected || (expected == 0 && memcmp(first, again, bytes) != 0))
            fail_msg("%s: a team of %d gives something else", kernel->label, (int)team);
        free(again);
    }
    for (uint32_t i = 0; i < k->args.count; i++) {
        for (uint32_t j = 0; j < k->args.count; j++) {
            bool ends = k->args.data[i].mode == SC_ARG_IN && k->args.data[j].mode == SC_ARG_OUT;
            if (ends && sc_kernel_may_share(k, i, j))
                emitted_check_pair(kernel, function, params, inputs, (emitted_pair){i, j, false});
        }
    }
    free(first);
}

#endif
