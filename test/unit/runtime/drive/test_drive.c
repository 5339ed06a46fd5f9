/* What programs from `shardc build` are driven by: facts as JSON, draws of tokens, the trailer of
 * the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "program/file.h"
#include "runtime/comm/identity.h"
#include "runtime/drive/facts.h"
#include "runtime/drive/options.h"
#include "runtime/drive/sample.h"
#include "runtime/drive/started.h"
#include "support/context.h"
#include "support/rng.h"

/* ---- facts ---- */

static sc_facts example(sc_arena *arena)
{
    sc_facts facts = {.model = "m \"quoted\"", .plan = NULL, .trains = true, .generates = true};
    facts.generate = (sc_fact_generate){3, 1, 77};
    facts.entry = (sc_fact_entry){.name = "loss", .func = 2, .is_cached = true, .flops = 1.25e18};
    *sc_vec_push(arena, &facts.entry.inputs) =
        (sc_fact_input){.name = "t",
                        .type = {.text = "i32[B=4]", .rank = 1, .sizes = {4}},
                        .dtype = SC_DTYPE_i32,
                        .rank = 1,
                        .sizes = {4},
                        .distribution = {.form = SC_RANDOM_INT,
                                         .stream = UINT64_MAX,
                                         .high = 256,
                                         .may_ignore = true,
                                         .ignore = -100}};
    *sc_vec_push(arena, &facts.entry.outputs) =
        (sc_fact_type){.text = "f32[B=4, H=6]", .rank = 2, .sizes = {4, 6}};
    facts.train =
        (sc_fact_train){.metric_count = 2, .scales = true, .flops = 0.1, .program = "text\n"};
    *sc_vec_push(arena, &facts.train.groups) =
        (sc_optimizer_settings){.kind = SC_LION,
                                .lr = {SC_RATE_COSINE, 0.1, 3, 1000, 1e-300},
                                .hyper = {[SC_HYPER_BETA1] = 0.9}};
    *sc_vec_push(arena, &facts.train.constants) = (sc_fact_constant){"scaling.scale", 65536};
    static const char *tensors[] = {"a.0", "a.1"};
    sc_fact_param *param = sc_arena_alloc(arena, sizeof *param);
    *param = (sc_fact_param){.path = "a",
                             .dtype = SC_DTYPE_bf16,
                             .rank = 2,
                             .sizes = {2, 3},
                             .layout = {.rank = 2,
                                        .strides = {0, 1},
                                        .indexed = {true},
                                        .offset = 1,
                                        .elements = 4,
                                        .boundary_count = 1,
                                        .boundaries = {4}},
                             .tensor_count = 2,
                             .tensors = tensors,
                             .wanted = "[D=3]",
                             .shape_rank = 1,
                             .shape = {4}};
    facts.weights = (sc_fact_weights){
        .is_known = true, .has_block = true, .is_complete = true, .count = 1, .params = param};
    *sc_vec_push(arena, &facts.weights.patterns) =
        (sc_fact_pattern){.text = "other.{L}.*", .is_ignore = true};
    return facts;
}

static void facts_come_back(sc_context *context, void *user)
{
    (void)user;
    sc_facts facts = example(&context->arena), back;
    const char *text = sc_facts_write(&facts, &context->arena);
    assert_non_null(text);
    assert_null(sc_facts_read(text, &context->arena, &back));
    assert_string_equal(sc_facts_write(&back, &context->arena), text);
    assert_true(back.trains && back.generates && back.plan == NULL && back.generate.capacity == 77);
    assert_true(back.entry.inputs.data[0].distribution.stream == UINT64_MAX &&
                back.train.groups.data[0].lr.floor == 1e-300);
    assert_true(back.train.groups.data[0].kind == SC_LION &&
                back.weights.params[0].layout.indexed[0] &&
                !back.weights.params[0].layout.indexed[1]);
}

/* Every text that lacks a piece, or has one changed, is refused or is still facts: nothing is
 * trusted. */
static void damaged_facts_are_no_crash(sc_context *context, void *user)
{
    (void)user;
    sc_facts facts = example(&context->arena), back;
    const char *text = sc_facts_write(&facts, &context->arena);
    size_t length = strlen(text), refused = 0;
    for (size_t i = 0; i < length; i++) {
        char *changed = sc_arena_copy_text(&context->arena, text, length);
        changed[i] = 0;
        assert_non_null(sc_facts_read(changed, &context->arena, &back));
        for (const char *c = "0-9[}\"x"; *c != 0; c++) {
            memcpy(changed, text, length);
            changed[i] = *c;
            refused += sc_facts_read(changed, &context->arena, &back) != NULL;
        }
    }
    assert_true(refused > length);
}

static void layouts_stay_inside_their_tensors(sc_context *context, void *user)
{
    (void)user;
    sc_facts facts = example(&context->arena), back;
    facts.weights.params[0].layout.offset = 2; /* 2 + (3 - 1) is element 4 of 4 */
    const char *problem =
        sc_facts_read(sc_facts_write(&facts, &context->arena), &context->arena, &back);
    assert_non_null(problem);
    assert_non_null(strstr(problem, "does not fit"));
    facts.weights.params[0].layout.offset = 1;
    facts.weights.params[0].tensor_count = 1;
    assert_non_null(sc_facts_read(sc_facts_write(&facts, &context->arena), &context->arena, &back));
}

static void run(void (*work)(sc_context *, void *))
{
    sc_context context;
    assert_true(sc_context_run(&context, 0, work, NULL));
    sc_context_free(&context);
}

static void test_facts(void **state)
{
    (void)state;
    run(facts_come_back);
    run(damaged_facts_are_no_crash);
    run(layouts_stay_inside_their_tensors);
}

/* ---- draws ---- */

enum { MOST = 40, DRAWS = 4000 };

static void random_logits(uint64_t seed, double *logits, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        logits[i] = floor(4 * sc_rng_normal(seed, 1, i)) / 2; /* with ties */
}

static uint32_t rank_of(const double *logits, uint32_t count, uint32_t index)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < count; i++)
        rank += logits[i] > logits[index] || (logits[i] == logits[index] && i < index);
    return rank;
}

/* What may be drawn, counted by hand, and how often it is. */
static void check_draws(uint64_t seed, uint32_t count, double temperature, int64_t top_k,
                        double top_p)
{
    double logits[MOST], weights[MOST], wanted[MOST] = {0}, total = 0, kept = 0;
    uint32_t order[MOST], seen[MOST] = {0}, best = 0;
    random_logits(seed, logits, count);
    for (uint32_t i = 0; i < count; i++)
        best = rank_of(logits, count, i) == 0 ? i : best;
    for (uint32_t rank = 0; rank < count; rank++) {
        for (uint32_t i = 0; i < count; i++) {
            if (rank_of(logits, count, i) == rank && (top_k == 0 || rank < top_k))
                total += wanted[i] = exp((logits[i] - logits[best]) / temperature);
        }
    }
    double sum = 0;
    for (uint32_t rank = 0; rank < count; rank++) {
        for (uint32_t i = 0; i < count; i++) {
            if (rank_of(logits, count, i) != rank)
                continue;
            if (top_p > 0 && sum >= top_p * total)
                wanted[i] = 0;
            sum += wanted[i];
            kept += wanted[i];
        }
    }
    for (int d = 0; d < DRAWS; d++)
        seen[sc_sample(logits, count, temperature, top_k, top_p, (d + 0.5) / DRAWS, order,
                       weights)]++;
    for (uint32_t i = 0; i < count; i++)
        assert_true(fabs((double)seen[i] - DRAWS * wanted[i] / kept) <= 1.5);
}

static void test_draws(void **state)
{
    (void)state;
    double logits[MOST], weights[MOST];
    uint32_t order[MOST];
    for (uint64_t seed = 0; seed < 12; seed++) {
        for (uint32_t count = 1; count <= MOST; count += 3) {
            random_logits(seed, logits, count);
            assert_int_equal(
                rank_of(logits, count, sc_sample(logits, count, 0, 0, 0, 0.99, order, weights)), 0);
            assert_int_equal(
                rank_of(logits, count, sc_sample(logits, count, 9, 1, 0, 0.99, order, weights)), 0);
            check_draws(seed, count, 1.5, 0, 0);
            check_draws(seed, count, 0.7, 5, 0);
            check_draws(seed, count, 2, 0, 0.6);
            check_draws(seed, count, 2, 7, 0.9);
        }
    }
}

/* ---- trailers ---- */

/* Every bit of the file counts: of the runtime, of the program, of the trailer. */
static void test_trailers(void **state)
{
    (void)state;
    char stub[60], image[40], *file = NULL;
    size_t size = 0;
    sc_program_trailer back;
    for (size_t i = 0; i < sizeof stub; i++)
        stub[i] = (char)(i * 7);
    memset(image, 3, sizeof image);
    FILE *out = open_memstream(&file, &size);
    assert_true(sc_program_file_write(out, stub, sizeof stub, image, sizeof image));
    assert_int_equal(fclose(out), 0);
    assert_int_equal(size, 100 + SC_PROGRAM_TRAILER_BYTES);
    assert_null(sc_program_trailer_read(file, size, &back));
    assert_true(back.offset == 60 && back.length == 40);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        file[bit / 8] ^= (char)(1 << bit % 8);
        assert_non_null(sc_program_trailer_read(file, size, &back));
        file[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < size; cut++)
        assert_non_null(sc_program_trailer_read(file, cut, &back));
    free(file);
}

/* ---- what ranks must have in common ---- */

static const sc_option_row *find_row(const char *name)
{
    for (uint32_t i = 0; i < sc_run_option_count; i++) {
        if (strcmp(sc_run_option_rows[i].name, name) == 0)
            return &sc_run_option_rows[i];
    }
    return NULL;
}

static const char *line_of(sc_context *context, sc_run_options *options)
{
    const sc_option_table table = {sc_run_option_rows, sc_run_option_count, options, NULL};
    return sc_started_with(context, "train", &table, 1);
}

/* Each option by itself: it makes a line, unless it is a rank's own affair. */
static void compare_each_option(sc_context *context, void *user)
{
    (void)user;
    sc_run_options none = {.seed = 0};
    const char *before = line_of(context, &none);
    assert_string_equal(before, "command train\n");
    for (uint32_t i = 0; i < sc_run_option_count; i++) {
        const sc_option_row *row = &sc_run_option_rows[i];
        sc_run_options options = {.seed = 0};
        sc_arguments given = {0};
        const sc_option_table table = {sc_run_option_rows, sc_run_option_count, &options, NULL};
        const sc_command_line line = {.program = "prog", .tables = &table, .table_count = 1};
        bool is_format = row->kind == SC_OPTION_JSON || strcmp(row->name, "--format") == 0;
        const char *value = row->kind == SC_OPTION_NAMED ? "a=/none" : is_format ? "json" : "1";
        char *argv[] = {(char *)(uintptr_t) "prog", (char *)(uintptr_t)row->name,
                        (char *)(uintptr_t)value};
        sc_arguments_parse(context, &line, row->argument == NULL ? 2 : 3, argv, &given);
        assert_int_equal(context->diag.errors, 0);
        bool is_compared = strcmp(line_of(context, &options), before) != 0;
        if (is_compared != (sc_started_kind_of(row->name) != SC_STARTED_FREE))
            fail_msg("%s is %scompared", row->name, is_compared ? "" : "not ");
    }
}

static void every_option_is_compared(void **state)
{
    (void)state;
    sc_context context;
    static const char *const own[] = {"--log", "--format", "--diagnostics"}, *const contents[] = {
                                                                                 "--data",
                                                                                 "--weights",
                                                                                 "--resume"};
    assert_true(sc_context_run(&context, 0, compare_each_option, NULL));
    sc_context_free(&context);
    for (size_t i = 0; i < 3; i++) {
        assert_non_null(find_row(own[i]));
        assert_int_equal(sc_started_kind_of(own[i]), SC_STARTED_FREE);
        assert_non_null(find_row(contents[i]));
        assert_int_equal(sc_started_kind_of(contents[i]), SC_STARTED_CONTENTS);
    }
    assert_int_equal(sc_started_kind_of("--a-new-one"), SC_STARTED_SAME);
}

static void write_file(const char *folder, const char *name, size_t size, size_t at, char byte)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < size; i++)
        fputc(i == at ? byte : 'a', file);
    assert_int_equal(fclose(file), 0);
}

static const char *line_of_file(sc_context *context, const char *folder, const char *name,
                                bool is_state)
{
    const char *path =
        sc_arena_printf(&context->arena, "%s%s%s", folder, *name == 0 ? "" : "/", name);
    sc_run_options options = {.resume = is_state ? path : NULL};
    if (!is_state)
        *sc_vec_push(&context->arena, &options.data) = path;
    return line_of(context, &options);
}

static void compare_contents(sc_context *context, void *user)
{
    const char *folder = user, *state = sc_arena_printf(&context->arena, "%s/step-1", folder);
    write_file(folder, "a", 5000, 4999, 'b');
    write_file(folder, "b", 5000, 4999, 'b');
    write_file(folder, "c", 5000, 4999, 'c');
    const char *a = line_of_file(context, folder, "a", false);
    assert_string_equal(a, line_of_file(context, folder, "b", false)); /* wherever it lies */
    assert_string_not_equal(a, line_of_file(context, folder, "c", false));
    write_file(folder, "b", 5001, 4999, 'b');
    assert_string_not_equal(a, line_of_file(context, folder, "b", false));
    /* of a folder of states the newest, and no locks */
    assert_int_equal(mkdir(state, 0777), 0);
    write_file(state, "state.json", 10, 0, 'x');
    const char *alone = line_of_file(context, folder, "step-1", true);
    write_file(folder, "latest", 0, 0, 0);
    FILE *latest = fopen(sc_arena_printf(&context->arena, "%s/latest", folder), "w");
    assert_non_null(latest);
    fputs("step-1\n", latest);
    fclose(latest);
    assert_string_not_equal(alone, "command train\n");
    const char *whole = line_of_file(context, folder, "", true);
    write_file(folder, "shardc.lock", 10, 0, 'x');
    write_file(folder, "other", 10, 0, 'x');
    assert_string_equal(whole, line_of_file(context, folder, "", true));
    write_file(state, "shardc.lock", 10, 0, 'x');
    assert_string_equal(whole, line_of_file(context, folder, "", true));
    write_file(state, "state.json", 10, 0, 'y');
    assert_string_not_equal(whole, line_of_file(context, folder, "", true));
}

static void contents_are_compared(void **state)
{
    (void)state;
    char folder[] = "/tmp/shardc_started_XXXXXX", command[64];
    sc_context context;
    assert_non_null(mkdtemp(folder));
    assert_true(sc_context_run(&context, 0, compare_contents, folder));
    sc_context_free(&context);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void the_first_difference_is_named(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"--seed 5\n--steps 4\n", "--seed 7\n--steps 4\n",
         "rank 2 has --seed 5, rank 0 has --seed 7"},
        {"--steps 4\n", "--seed 7\n--steps 4\n", "rank 0 has --seed 7, rank 2 has no --seed"},
        {"--seed 7\n--profile\n", "--seed 7\n", "rank 2 has --profile, rank 0 has no --profile"},
        {"--input a x\n--input b y\n", "--input a x\n--input b z\n",
         "rank 2 has --input b y, rank 0 has --input b z"},
        {"--a\n--b\n", "--b\n--a\n", "rank 2 has the options of rank 0 in another order"},
        {"", "", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256] = "";
        assert_int_equal(sc_identity_differs(cases[i][0], 2, cases[i][1], 0, text, sizeof text),
                         cases[i][2] != NULL);
        assert_string_equal(text, cases[i][2] == NULL ? "" : cases[i][2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_facts),
                                       cmocka_unit_test(test_draws),
                                       cmocka_unit_test(test_trailers),
                                       cmocka_unit_test(every_option_is_compared),
                                       cmocka_unit_test(the_first_difference_is_named),
                                       cmocka_unit_test(contents_are_compared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
