/* The kernel IR: properties of random kernels, whole and broken. */
#include "test/unit/helpers/kernel_case.h"
#include "test/unit/helpers/random_kernel.h"

/* ---- random kernels ---- */

enum { RANDOM_KERNELS = 2000 };

typedef struct seeded {
    void (*test)(sc_context *context, uint64_t seed, int *count);
    uint64_t seed;
    int count; /* of whatever the test counts */
} seeded;

static void call_seeded(sc_context *context, void *user)
{
    seeded *s = user;
    s->test(context, s->seed, &s->count);
}

/* Each in its own memory; the sum of what they counted. */
static int for_each_seed(void (*test)(sc_context *context, uint64_t seed, int *count))
{
    seeded s = {.test = test};
    for (; s.seed < RANDOM_KERNELS; s.seed++) {
        sc_context context;
        assert_true(sc_context_run(&context, 0, call_seeded, &s));
        sc_context_free(&context);
    }
    return s.count;
}

static double **filled(const random_kernel *made, uint64_t seed)
{
    double **args =
        sc_arena_array(&made->k->context->arena, made->k->args.count + 1u, sizeof *args);
    for (uint32_t i = 0; i < made->k->args.count; i++)
        args[i] = random_kernel_fill(made, i, seed);
    return args;
}

static void verify_and_read_back(sc_context *context, uint64_t seed, int *count)
{
    sc_kernel *k = random_kernel_make(context, seed).k;
    verifies(k);
    const char *text = text_of(k);
    assert_string_equal(text_of(parse(context, text)), text);
    *count += k->phases.count > 1;
}

static void random_kernels_verify_and_read_back(void **state)
{
    (void)state;
    assert_in_range(for_each_seed(verify_and_read_back), RANDOM_KERNELS / 2, RANDOM_KERNELS);
}

/* Its accesses stay inside, and what it stores is finite. */
static void run_one(sc_context *context, uint64_t seed, int *failed)
{
    random_kernel made = random_kernel_make(context, seed);
    double **args = filled(&made, seed);
    int64_t result =
        sc_kernel_interpret(made.k, args, random_kernel_params(&made, seed), seed % 2 == 0);
    if (result < 0)
        fail_msg("%s", text_of(made.k));
    *failed += result > 0;
    for (uint32_t i = 0; i < made.k->args.count; i++) {
        for (int64_t e = 0; e < random_kernel_elements(&made.k->args.data[i]); e++) {
            if (!isfinite(args[i][e]))
                fail_msg("argument %u\n%s", i, text_of(made.k));
        }
    }
}

static void random_kernels_run_and_few_fail(void **state)
{
    (void)state;
    assert_in_range(for_each_seed(run_one), RANDOM_KERNELS / 200, RANDOM_KERNELS / 8);
}

/* The same numbers to the bit, in the same order. */
static void simplify_one(sc_context *context, uint64_t seed, int *simpler)
{
    random_kernel made = random_kernel_make(context, seed);
    double **before = filled(&made, seed), **after = filled(&made, seed);
    const int64_t *params = random_kernel_params(&made, seed);
    const char *text = text_of(made.k);
    uint32_t dims = made.k->dims.count;
    int64_t result = sc_kernel_interpret(made.k, before, params, seed % 2 == 0);
    sc_kernel_simplify(made.k);
    *simpler += made.k->dims.count < dims;
    const char *error = sc_kernel_verify(made.k), *simple_text = text_of(made.k);
    if (error != NULL)
        fail_msg("%s\n%s\n%s", error, text, simple_text);
    assert_int_equal(sc_kernel_interpret(made.k, after, params, seed % 2 == 0), result);
    for (uint32_t i = 0; i < made.k->args.count; i++) {
        if (memcmp(before[i], after[i],
                   (size_t)random_kernel_elements(&made.k->args.data[i]) * sizeof(double)) != 0)
            fail_msg("argument %u\n%s\n%s", i, text, simple_text);
    }
    assert_string_equal(text_of(parse(context, simple_text)), simple_text);
    sc_kernel_simplify(made.k);
    assert_string_equal(text_of(made.k), simple_text);
}

static void random_kernels_stay_what_they_are(void **state)
{
    (void)state;
    assert_in_range(for_each_seed(simplify_one), RANDOM_KERNELS / 5, RANDOM_KERNELS);
}

/* In one array two arguments give what they give in two that begin alike. */
static void share_one(sc_context *context, uint64_t seed, int *shared)
{
    random_kernel made = random_kernel_make(context, seed);
    const int64_t *params = random_kernel_params(&made, seed);
    for (uint32_t out = 0; out < made.k->args.count; out++) {
        for (uint32_t in = 0; in < made.k->args.count; in++) {
            if (!sc_kernel_may_share(made.k, in, out))
                continue;
            double **apart_args = filled(&made, seed), **one = filled(&made, seed);
            memcpy(apart_args[out], apart_args[in],
                   (size_t)random_kernel_elements(&made.k->args.data[in]) * sizeof(double));
            one[out] = one[in];
            int64_t result = sc_kernel_interpret(made.k, apart_args, params, true);
            assert_int_equal(sc_kernel_interpret(made.k, one, params, true), result);
            ++*shared;
            for (uint32_t i = 0; i < made.k->args.count; i++) {
                size_t bytes =
                    (size_t)random_kernel_elements(&made.k->args.data[i]) * sizeof(double);
                if (i != in && memcmp(apart_args[i], one[i], bytes) != 0)
                    fail_msg("argument %u, when %u and %u are one\n%s", i, in, out,
                             text_of(made.k));
            }
        }
    }
}

static void arguments_that_may_share_do(void **state)
{
    (void)state;
    assert_in_range(for_each_seed(share_one), RANDOM_KERNELS / 20, INT32_MAX);
}

/* ---- broken kernels ---- */

/* The same text with outer dims run from behind: `%3 = index A` becomes size - 1 less an index of
 * A. */
static const char *turned_round(const sc_kernel *k)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &k->context->arena);
    for (const char *line = text_of(k), *end; *line != 0; line = end) {
        end = strchr(line, '\n') + 1;
        unsigned node, dim = UINT32_MAX;
        if (sscanf(line, "  %%%u = index ", &node) == 1 &&
            k->nodes.data[node].kind == SC_NODE_index)
            dim = k->nodes.data[node].index;
        if (dim >= k->outer_count) {
            sc_strbuf_add_bytes(&out, line, (size_t)(end - line));
            continue;
        }
        const char *name_of_dim = strstr(line, "index ") + 6;
        sc_strbuf_printf(&out, "  %%i%u = index %.*s", node, (int)(end - name_of_dim), name_of_dim);
        sc_strbuf_printf(&out, "  %%c%u = constant %lld : i64\n", node,
                         (long long)k->dims.data[dim].size - 1);
        sc_strbuf_printf(&out, "  %%%u = sub %%c%u, %%i%u : i64\n", node, node, node);
    }
    return out.data;
}

/* One number in it becomes another, most often one that could stand there. */
static void break_something(sc_kernel *k, uint64_t *seed)
{
    uint32_t bits = (uint32_t)(random_bits(seed) >> 32), node = bits % k->nodes.count,
             item = bits % k->items.count, phase = bits % k->phases.count;
    sc_kernel_arg *arg = &k->args.data[bits % k->args.count];
    sc_kernel_node *n = &k->nodes.data[node];
    switch (random_bits(seed) % 12) {
    case 0:
    case 1:
    case 2:
        if (n->count > 0)
            k->operands.data[n->first + bits / 7 % n->count] =
                (uint32_t)(random_bits(seed) % (node + 1));
        break;
    case 3:
        if (k->items.data[item].count > 0)
            k->operands.data[k->items.data[item].first + bits / 7 % k->items.data[item].count] =
                node;
        break;
    case 4:
        if (arg->rank > 0)
            arg->sizes[bits / 7 % arg->rank] += bits % 3 == 0 ? 1 : -1;
        break;
    case 5:
        k->dims.data[bits % k->dims.count].size += bits % 3 == 0 ? -1 : 1;
        break;
    case 6:
        n->number = n->kind == SC_NODE_constant && n->dtype == SC_DTYPE_i64
                        ? n->number + (double)(bits % 5) - 2
                        : n->number;
        break;
    case 7:
        k->outer_count += bits % 2 == 0 ? 1 : UINT32_MAX;
        break;
    case 8:
        k->items.data[item].kind = (sc_item_kind)(bits / 7 % 6);
        break;
    case 9:
        if (k->phases.data[phase].dim_count > 0)
            k->phases.data[phase].dims[0] = bits / 7 % k->dims.count;
        break;
    case 10:
        k->phases.data[phase].dim_count += bits % 2 == 0 ? 1 : UINT32_MAX;
        break;
    default:
        arg->mode = (sc_kernel_arg_mode)(bits / 7 % 3);
    }
}

static double **with_room(const sc_kernel *k)
{
    double **args = sc_arena_array(&k->context->arena, k->args.count + 1u, sizeof *args);
    random_kernel made = {.k = (sc_kernel *)(uintptr_t)k};
    for (uint32_t i = 0; i < k->args.count; i++) {
        made.low[i] =
            k->args.data[i].dtype == SC_DTYPE_bool || k->args.data[i].dtype == SC_DTYPE_u8 ? 0 : -1;
        made.high[i] = k->args.data[i].dtype == SC_DTYPE_bool ? 1 : 4;
        args[i] = random_kernel_fill(&made, i, 5);
    }
    return args;
}

/* What verifies stays inside its arguments, and the order of outer iterations is of no matter. */
static void what_verifies_is_sound(const sc_kernel *k)
{
    const char *text = text_of(k);
    sc_kernel *plain = parse(k->context, text), *turned = parse(k->context, turned_round(k));
    double **args = with_room(k), **turned_args = with_room(k);
    int64_t params[64] = {3, 1, 4, 1, 5};
    assert_true(k->params.count < 64);
    int64_t result = sc_kernel_interpret(plain, args, params, true);
    if (result < 0)
        fail_msg("accesses lead outside\n%s", text);
    assert_int_equal(sc_kernel_interpret(turned, turned_args, params, true), result);
    for (uint32_t i = 0; i < k->args.count; i++) {
        size_t bytes = (size_t)random_kernel_elements(&k->args.data[i]) * sizeof(double);
        for (size_t e = 0; e < bytes / sizeof(double); e++) {
            if (args[i][e] != turned_args[i][e] && !(isnan(args[i][e]) && isnan(turned_args[i][e])))
                fail_msg("argument %u depends on the order of iterations\n%s", i, text);
        }
    }
}

static void break_one(sc_context *context, uint64_t seed, int *refused)
{
    sc_kernel *k = random_kernel_make(context, seed % 500).k;
    for (uint64_t count = random_bits(&seed) % 3; count-- > 0;)
        break_something(k, &seed);
    /* nodes are unique again */
    sc_kernel *as_text = sc_kernel_verify(k) == NULL ? parse(context, text_of(k)) : NULL;
    if (as_text != NULL && sc_kernel_verify(as_text) == NULL)
        what_verifies_is_sound(as_text);
    else
        ++*refused;
}

static void what_is_broken_is_refused_or_sound(void **state)
{
    (void)state;
    assert_in_range(for_each_seed(break_one), RANDOM_KERNELS / 5, RANDOM_KERNELS * 4 / 5);
}

/* ---- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_kernels_verify_and_read_back),
        cmocka_unit_test(random_kernels_run_and_few_fail),
        cmocka_unit_test(random_kernels_stay_what_they_are),
        cmocka_unit_test(arguments_that_may_share_do),
        cmocka_unit_test(what_is_broken_is_refused_or_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
