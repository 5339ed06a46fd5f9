/* Any bytes: the parser of kernels refuses them or makes a kernel whose text reads back to the same
 * text. If it verifies, it runs without leaving its arguments, and simplified it verifies and
 * stores the same. Seeds: kernels of test/unit/helpers/kernel_case.h. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/kernel/kernel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

enum { MOST_WORK = 200000 };

static const char *printed(const sc_kernel *k)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &k->context->arena);
    sc_kernel_print(k, &out);
    return out.data;
}

/* Evaluations of nodes, or more than it is worth. */
static bool is_small(const sc_kernel *k)
{
    double outer = 1, work = 0;
    for (uint32_t d = 0; d < k->outer_count; d++)
        outer *= (double)k->dims.data[d].size;
    for (uint32_t p = 0; p < k->phases.count; p++) {
        double points = outer;
        for (uint32_t i = 0; i < k->phases.data[p].dim_count; i++)
            points *= (double)k->dims.data[k->phases.data[p].dims[i]].size;
        work += points * (1 + (double)k->nodes.count + k->phases.data[p].item_count);
    }
    for (uint32_t a = 0; a < k->args.count; a++) {
        double elements = 1;
        for (uint32_t d = 0; d < k->args.data[a].rank; d++)
            elements *= (double)k->args.data[a].sizes[d];
        work += elements;
    }
    return work < MOST_WORK;
}

static size_t bytes_of(const sc_kernel_arg *arg)
{
    size_t count = 1;
    for (uint32_t d = 0; d < arg->rank; d++)
        count *= (size_t)arg->sizes[d];
    return count * sizeof(double);
}

/* Small integers, which every dtype has. */
static double **arguments(const sc_kernel *k)
{
    double **args = sc_arena_array(&k->context->arena, k->args.count + 1u, sizeof *args);
    for (uint32_t a = 0; a < k->args.count; a++) {
        size_t bytes = bytes_of(&k->args.data[a]);
        args[a] = sc_arena_alloc(&k->context->arena, bytes);
        for (size_t i = 0; i < bytes / sizeof(double); i++)
            args[a][i] =
                (double)((i * 2654435761u >> 7) % (k->args.data[a].dtype == SC_DTYPE_bool ? 2 : 4));
    }
    return args;
}

static int64_t run(const sc_kernel *k, double **args)
{
    int64_t *params = sc_arena_array(&k->context->arena, k->params.count + 1u, sizeof *params);
    for (uint32_t i = 0; i < k->params.count; i++)
        params[i] = 0;
    int64_t result = sc_kernel_interpret(k, args, params, true);
    if (result < 0)
        abort();
    return result;
}

static void run_twice(sc_kernel *k)
{
    size_t *bytes = sc_arena_array(&k->context->arena, k->args.count + 1u, sizeof *bytes);
    double **before = arguments(k), **after = arguments(k);
    uint32_t count = k->args.count;
    for (uint32_t a = 0; a < count; a++)
        bytes[a] = bytes_of(&k->args.data[a]);
    int64_t result = run(k, before);
    sc_kernel_simplify(k);
    if (sc_kernel_verify(k) != NULL || run(k, after) != result)
        abort();
    for (uint32_t a = 0; a < count; a++) {
        for (size_t i = 0; i < bytes[a] / sizeof(double); i++) {
            double x = before[a][i], y = after[a][i];
            if (x != y && (x == x || y == y)) /* any NaN is like any other */
                abort();
        }
    }
}

static void round_trip(sc_context *context, void *user)
{
    const input *in = user;
    sc_kernel *k = sc_kernel_parse(context, (const char *)in->data, in->size, "fuzz");
    if (k == NULL) {
        if (context->diag.errors == 0)
            abort();
        return;
    }
    const char *text = printed(k);
    sc_kernel *again = sc_kernel_parse(context, text, strlen(text), "printed");
    if (again == NULL || strcmp(printed(again), text) != 0)
        abort();
    if (sc_kernel_verify(again) == NULL && is_small(again))
        run_twice(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sc_context context;
    sc_context_run(&context, 0, round_trip, &(input){data, size});
    sc_context_free(&context);
    return 0;
}
