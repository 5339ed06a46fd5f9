/* Emitted attention, forward and backward, in each of its forms, against the interpreter: random
 * ops of every mask and layout, on one device and on the ranks of a mesh, with padding that is
 * poison. Then the same bits from teams of any size. */
#include "test/unit/helpers/emitted_case.h"

#include "test/unit/helpers/attend_case.h"

enum {
    CASES = 40,
    SETTINGS = 2 /* the form that fits, the simple one */,
    MAX_ARRAYS = 24,
    MAX_RANKS = 4
};

typedef int64_t kernel_function(void *const *args, const int64_t *params);

static const char *setting_names[] = {"fit", "simple"};

typedef struct compiled {
    const sc_attention_desc *desc;
    kernel_function *kernel;
} compiled;

/* One rank; results are malloc'd. */
static void run_rank(const attend_case *a, int which, uint64_t rank, void *user, void **results)
{
    const compiled *with = user;
    const sc_attention_desc *desc = with->desc;
    const sc_module *m = a->c->m;
    const sc_op *op = sc_op_at(m, a->ops[which]);
    void *args[MAX_ARRAYS];
    int64_t params[SC_MAX_RANK + 4];
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->operand_count; i++)
        args[count++] =
            local_of(m, sc_type_of(m, op->operands[i]), rank, value_of(a, op->operands[i]));
    for (uint32_t i = 0; i < op->result_count; i++)
        results[i] = args[count++] = local_of(m, sc_type_of(m, op->first_result + i), rank, NULL);
    assert_int_equal(count, desc->arg_count);
    args[count] = malloc((size_t)desc->scratch_bytes + 1);
    assert_non_null(args[count]);
    memset(args[count], 0xff, (size_t)desc->scratch_bytes + 1);
    param_values(desc, rank, params);
    assert_int_equal(with->kernel(args, params), 0);
    for (uint32_t i = 0; i < op->operand_count; i++)
        free(args[i]);
    free(args[count]);
}

/* ---- all cases, compiled as one file ---- */

typedef struct suite {
    attend_case cases[CASES];
    sc_attention_desc *descs[CASES][2][SETTINGS];
    emitted code;
    void (*set_team)(int);
    int forms[3];
} suite;

static suite all;

static const spec_range range = {.dtypes = {"f32", "f32", "f32", "f64", "bf16", "f16"},
                                 .heads = {1, 3, 8, 16, 20, 33, 64, 48},
                                 .few = 40,
                                 .many = 250,
                                 .few_keys = 70,
                                 .many_keys = 200,
                                 .most_keys = 900};

typedef struct emission {
    attend_case *a;
    int number;
    sc_helper_set *helpers;
    char **text;
} emission;

/* The simple form of every third case: it is the form that fits of others, anyway. */
static bool is_compiled(int number, int kernel)
{
    return kernel % SETTINGS == 0 || number % 3 == 0;
}

/* In the case's own context. */
static void emit_case(sc_context *context, void *user)
{
    emission *e = user;
    attend_case *a = e->a;
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    for (int i = 0; i < 2 * SETTINGS; i++) {
        char name[64];
        snprintf(name, sizeof name, "case%d_%d_%d", e->number, i / SETTINGS, i % SETTINGS);
        if (!is_compiled(e->number, i))
            continue;
        sc_attention_desc *desc = sc_attention_describe(a->c->m, a->ops[i / SETTINGS]);
        if (desc == NULL)
            fail_msg("not described:\n%s", a->spec.text);
        if (i % SETTINGS == 1)
            sc_attention_make_simple(desc);
        else
            all.forms[desc->form]++;
        assert_true((desc->form == SC_ATTENTION_SIMPLE) == (desc->why_simple != NULL));
        all.descs[e->number][i / SETTINGS][i % SETTINGS] = desc;
        sc_attention_emit(context, desc, name, &out, e->helpers);
    }
    *e->text = strdup(out.data);
}

static int open_suite(void **state)
{
    (void)state;
    static char *texts[CASES];
    sc_helper_set helpers = 0;
    sc_context context = {0};
    size_t length = 1 << 16;
    for (int i = 0; i < CASES; i++) {
        attend_case *a = &all.cases[i];
        open_attend_case(a, (uint64_t)i + 1, &range);
        emission e = {a, i, &helpers, &texts[i]};
        emit_case(a->c->m->context, &e);
        length += strlen(texts[i]);
    }
    sc_strbuf prelude;
    sc_arena_init(&context.arena, NULL, NULL);
    sc_strbuf_init(&prelude, &context.arena);
    sc_helpers_emit(&prelude, helpers);
    char *text = calloc(1, length);
    assert_non_null(text);
    strcpy(text, prelude.data);
    size_t at = strlen(text);
    for (int i = 0; i < CASES; i++) {
        at += (size_t)sprintf(text + at, "%s\n", texts[i]);
        free(texts[i]);
    }
    sc_arena_free(&context.arena);
    all.code = emitted_load(text, EMITTED_FLAGS);
    free(text);
    void *found = emitted_find(&all.code, "omp_set_num_threads");
    memcpy(&all.set_team, &found, sizeof all.set_team);
    return 0;
}

static int close_suite(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++)
        case_close(all.cases[i].c);
    emitted_close(&all.code);
    return 0;
}

static compiled kernel_of(int number, int which, int setting)
{
    char name[64];
    snprintf(name, sizeof name, "case%d_%d_%d", number, which, setting);
    void *found = emitted_find(&all.code, name);
    kernel_function *kernel;
    memcpy(&kernel, &found, sizeof kernel);
    return (compiled){all.descs[number][which][setting], kernel};
}

static void check_all(int which, int setting)
{
    all.set_team(2);
    for (int i = 0; i < CASES; i++) {
        if (!is_compiled(i, which * SETTINGS + setting))
            continue;
        compiled with = kernel_of(i, which, setting);
        check_op(&all.cases[i], which, setting_names[setting], 1, run_rank, &with);
    }
}

static void simple_forward_is_the_interpreters(void **state)
{
    (void)state;
    check_all(0, 1);
}

static void simple_backward_is_the_interpreters(void **state)
{
    (void)state;
    check_all(1, 1);
}

static void fitting_forward_is_the_interpreters(void **state)
{
    (void)state;
    check_all(0, 0);
}

static void fitting_backward_is_the_interpreters(void **state)
{
    (void)state;
    check_all(1, 0);
}

/* The cases would else not say what their names do. */
static void every_form_is_among_the_fitting(void **state)
{
    (void)state;
    int parts = 0, sums = 0, wide = 0, narrow = 0;
    for (int i = 0; i < CASES; i++) {
        const sc_attention_desc *forward = all.descs[i][0][0], *backward = all.descs[i][1][0];
        parts += forward->form == SC_ATTENTION_DECODE && forward->scratch_bytes > 0;
        if (backward->form != SC_ATTENTION_TILED)
            continue;
        int64_t units = 1;
        for (uint32_t q = 0; q < backward->query_count; q++)
            units *= (backward->queries[q].has >> SC_ATTENTION_K & 1) != 0
                         ? backward->queries[q].size
                         : 1;
        sums += backward->scratch_bytes > 0;
        wide += units >= 8;
        narrow += units < 8;
    }
    print_message("of %d kernels, %d are simple, %d tiled, %d decode, %d of these in chunks\n",
                  2 * CASES, all.forms[SC_ATTENTION_SIMPLE], all.forms[SC_ATTENTION_TILED],
                  all.forms[SC_ATTENTION_DECODE], parts);
    assert_true(all.forms[SC_ATTENTION_SIMPLE] >= 4 && all.forms[SC_ATTENTION_TILED] >= CASES / 2 &&
                all.forms[SC_ATTENTION_DECODE] >= CASES / 8);
    print_message(
        "of the tiled backward, %d go over keys and queries at once, %d one after the other\n",
        wide, narrow);
    assert_true(parts > 0 && sums > 0 && wide > 0 && narrow > 0);
}

static void teams_give_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const attend_case *a = &all.cases[i];
        for (int kernel = 0; kernel < 2 * SETTINGS; kernel++) {
            if (!is_compiled(i, kernel))
                continue;
            int which = kernel / SETTINGS, setting = kernel % SETTINGS;
            const sc_op *op = sc_op_at(a->c->m, a->ops[which]);
            void *results[3][4];
            compiled with = kernel_of(i, which, setting);
            for (int team = 1; team <= 3; team++) {
                all.set_team(team);
                run_rank(a, which, 0, &with, results[team - 1]);
            }
            for (uint32_t r = 0; r < op->result_count; r++) {
                const sc_type_info *type = sc_type_of(a->c->m, op->first_result + r);
                size_t bytes = (size_t)sc_type_local_bytes(a->c->m, type);
                for (int team = 2; team <= 3; team++) {
                    if (memcmp(results[0][r], results[team - 1][r], bytes) != 0)
                        fail_msg("result %u, %s form: a team of %d gives other bits\n%s", r,
                                 setting_names[setting], team, a->spec.text);
                }
                for (int team = 0; team < 3; team++)
                    free(results[team][r]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simple_forward_is_the_interpreters),
        cmocka_unit_test(simple_backward_is_the_interpreters),
        cmocka_unit_test(fitting_forward_is_the_interpreters),
        cmocka_unit_test(fitting_backward_is_the_interpreters),
        cmocka_unit_test(every_form_is_among_the_fitting),
        cmocka_unit_test(teams_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, open_suite, close_suite);
}
