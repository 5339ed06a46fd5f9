/* Weights through a map: every form of line gives the right elements; whatever is wrong with a
 * block or a file is said, all of it at once. Token files and initial values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/read_program.h"
#include "runtime/drive/load_weights.h"
#include "runtime/drive/name_pattern.h"
#include "runtime/drive/read_param.h"
#include "runtime/files/safetensors.h"
#include "runtime/files/tokens.h"
#include "support/rng.h"
#include "tools/run/facts.h"
#include "tools/run/run.h"

static char folder[] = "/tmp/shardc_weights_XXXXXX";

/* wa: 2 instances; H = (K, G) composite; X experts. */
static const char model[] =
    "lang 1;\n"
    "dim B = 2, D = 4, K = 2, G = 3, H = (K, G), E = 2, F = 6, X = 3, L = 2;\n"
    "block layer(x[B, D]) -> [B, D] {\n"
    "  param wa[D, H, E] = normal(0.5), wo[H, E, D] = xavier();\n"
    "  return x + dot[H, E](dot[D](x, wa), wo);\n"
    "}\n"
    "model m {\n"
    "  param b[D] = ones(), ex[X, D] = uniform(-1.0, 2.0);\n"
    "  sub layers: layer * L;\n"
    "  entry f(x: f32[B, D]) -> [B, D] { repeat L { x = layers(x); } return x + b + sum[X](ex); }\n"
    "}\n";

/* ---- files ---- */
enum { MAX_TENSORS = 12 };

/* Element i of tensor t is 1000 t + i. */
typedef struct tensor_row {
    const char *name;
    sc_element element;
    uint32_t rank;
    uint64_t shape[4];
} tensor_row;

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_tensors(const tensor_row *rows, size_t count)
{
    sc_safetensors_item items[MAX_TENSORS];
    static double values[MAX_TENSORS][256];
    sc_safetensors_error error = {0};
    for (size_t t = 0; t < count; t++) {
        uint64_t elements = 1;
        for (uint32_t i = 0; i < rows[t].rank; i++)
            elements *= rows[t].shape[i];
        assert_true(elements <= 256);
        for (uint64_t i = 0; i < elements; i++)
            values[t][i] = rows[t].element == SC_ELEMENT_F32 || rows[t].element == SC_ELEMENT_F64
                               ? (double)(1000 * t + i)
                               : (double)(i % 2);
        items[t] = (sc_safetensors_item){.name = rows[t].name,
                                         .element = rows[t].element,
                                         .rank = rows[t].rank,
                                         .shape = rows[t].shape,
                                         .values = values[t]};
    }
    assert_true(sc_safetensors_write(path_of("w.safetensors"), items, count, NULL, 0, &error));
}

static void write_bytes(const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* ---- one load ---- */
typedef struct loading {
    const char *block, *file, *map;
    off_t cut_at; /* the file ends there once the first parameter has been given; 0: it stays */
    sc_context context;
    sc_declarations *program;
    sc_compiled compiled;
    double *values[16]; /* by state */
    bool compiled_ok, ok;
    int exit_code;
    char messages[8192];
} loading;

static bool take(void *user, uint32_t state, const double *values)
{
    loading *l = user;
    int64_t count = sc_type_elements(sc_state_type(l->compiled.global, state));
    l->values[state] = malloc((size_t)count * sizeof *values);
    assert_non_null(l->values[state]);
    memcpy(l->values[state], values, (size_t)count * sizeof *values);
    return l->cut_at == 0 || truncate(path_of(l->file), l->cut_at) == 0;
}

static bool load_all(sc_context *context, const sc_fact_weights *facts, loading *l)
{
    sc_weights_reading *reading = sc_weights_open(context, facts, path_of(l->file));
    bool ok = reading != NULL;
    for (uint32_t i = 0; i < facts->count; i++) {
        sc_shard_place whole;
        sc_array array = sc_array_new(facts->params[i].rank, facts->params[i].sizes);
        sc_place_whole(facts->params[i].rank, facts->params[i].sizes, &whole);
        ok = ok && sc_weights_read(reading, i, &whole, SC_ELEMENT_F64, array.data) &&
             take(l, i, array.data);
        sc_array_free(&array);
    }
    sc_weights_close(reading);
    return ok;
}

static void load(sc_context *context, void *user)
{
    loading *l = user;
    sc_options options = {.plan = "none"};
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf_printf(&text, "%s%s", model, l->block);
    sc_file *file = sc_parse_text(context, "w.shard", text.data, text.length);
    l->program = sc_declarations_new(context, file);
    if (context->diag.errors == 0)
        l->compiled_ok =
            sc_driver_compile(context, l->program, NULL, &options, NULL, NULL, NULL, &l->compiled);
    const sc_weights *weights = NULL;
    if (l->compiled_ok &&
        sc_weights_choose(context, l->program, l->compiled.model, l->map, &weights)) {
        /* every state of the model is a parameter, so that both are counted alike */
        sc_fact_weights facts;
        sc_weight_facts(context, l->program, l->compiled.model, weights, l->compiled.global,
                        &facts);
        l->ok = load_all(context, &facts, l);
    }
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_diag_render_text(&context->diag, &context->sources, &out);
    snprintf(l->messages, sizeof l->messages, "%s", out.data == NULL ? "" : out.data);
    l->exit_code = sc_diag_exit_code(&context->diag);
}

static void open_load(loading *l, const char *block, const char *file)
{
    l->block = block;
    l->file = file;
    assert_true(sc_context_run(&l->context, 0, load, l));
}

static void close_load(loading *l)
{
    for (size_t i = 0; i < sizeof l->values / sizeof *l->values; i++)
        free(l->values[i]);
    sc_context_free(&l->context);
}

static const double *values_of(const loading *l, const char *path)
{
    const sc_module *m = l->compiled.global;
    for (uint32_t i = 0; i < m->state.count; i++) {
        if (strcmp(sc_text(&l->context, m->state.data[i].path), path) == 0)
            return l->values[i];
    }
    fail_msg("no parameter %s", path);
    return NULL;
}

#define REST " b = \"b\"; ex = \"experts.{X}\"; layers.wo = \"l.{L}.o\"; ignore \"not.of.*\";"

static const tensor_row good[] = {
    {"l.0.qkv", SC_ELEMENT_F32, 2, {36, 4}}, /* [3 * H * E, D] */
    {"l.1.qkv", SC_ELEMENT_F32, 2, {36, 4}},    {"l.0.o", SC_ELEMENT_F32, 2, {12, 4}},
    {"l.1.o", SC_ELEMENT_F64, 4, {2, 3, 2, 4}}, {"b", SC_ELEMENT_F32, 1, {4}},
    {"experts.0", SC_ELEMENT_F32, 1, {4}},      {"experts.1", SC_ELEMENT_F32, 1, {4}},
    {"experts.2", SC_ELEMENT_F32, 1, {4}},      {"not.of.the.model", SC_ELEMENT_I64, 1, {1}},
};
enum { GOOD_COUNT = sizeof good / sizeof *good };

static void good_maps_give_the_right_elements(void **state)
{
    (void)state;
    loading l = {0};
    write_tensors(good, GOOD_COUNT);
    open_load(&l, "weights hf for m { layers.wa = \"l.{L}.qkv\" as [1 of 3, H, E, D];" REST " }\n",
              "w.safetensors");
    if (!l.ok)
        fail_msg("%s", l.messages);
    const double *b = values_of(&l, "b"), *ex = values_of(&l, "ex"),
                 *wo = values_of(&l, "layers[1].wo");
    for (int i = 0; i < 4; i++)
        assert_true(b[i] == 4000 + i);
    for (int x = 0; x < 3; x++) {
        for (int d = 0; d < 4; d++)
            assert_true(ex[4 * x + d] == 1000 * (5 + x) + d);
    }
    for (int i = 0; i < 48; i++)
        assert_true(wo[i] == 3000 + i);
    for (int layer = 0; layer < 2; layer++) { /* wa[d, h, e] is row 12 + 2 h + e, column d */
        const double *wa = values_of(&l, layer == 0 ? "layers[0].wa" : "layers[1].wa");
        for (int d = 0; d < 4; d++) {
            for (int row = 0; row < 12; row++)
                assert_true(wa[12 * d + row] == 1000 * layer + 4 * (12 + row) + d);
        }
    }
    close_load(&l);
}

static void names_may_be_computed_and_lines_indexed(void **state)
{
    (void)state;
    static const tensor_row rows[] = {
        {"a1", SC_ELEMENT_F32, 2, {12, 4}},      {"a3", SC_ELEMENT_F32, 2, {12, 4}},
        {"first", SC_ELEMENT_F32, 3, {6, 2, 4}}, {"second", SC_ELEMENT_F32, 3, {6, 2, 4}},
        {"b", SC_ELEMENT_F32, 1, {4}},           {"ex", SC_ELEMENT_F32, 2, {4, 3}},
    };
    loading l = {0};
    write_tensors(rows, sizeof rows / sizeof *rows);
    open_load(&l,
              "weights hf for m { layers.wa = \"a{2*L+1}\" as [H, E, D]; layers[0].wo = \"first\"; "
              "layers[1].wo = \"second\"; b = \"b\"; "
              "ex = \"ex\" as [D, X]; }\n",
              "w.safetensors");
    if (!l.ok)
        fail_msg("%s", l.messages);
    assert_true(values_of(&l, "layers[1].wa")[0] == 1000 &&
                values_of(&l, "layers[1].wo")[47] == 3047);
    assert_true(values_of(&l, "ex")[4] == 5001); /* x = 1, d = 0 */
    close_load(&l);
}

static void a_range_of_parts_is_a_window(void **state)
{
    (void)state;
    tensor_row rows[GOOD_COUNT];
    memcpy(rows, good, sizeof rows);
    rows[0].shape[0] = rows[1].shape[0] = 30; /* 12 rows of 5 parts of 6: two of them */
    loading l = {0};
    write_tensors(rows, GOOD_COUNT);
    open_load(&l,
              "weights hf for m { layers.wa = \"l.{L}.qkv\" as [1..2 of 5, H, E, D];" REST " }\n",
              "w.safetensors");
    if (!l.ok)
        fail_msg("%s", l.messages);
    assert_true(values_of(&l, "layers[0].wa")[0] == 4 * 6);
    close_load(&l);
}

/* ---- what is wrong ---- */
#define WA " layers.wa = \"l.{L}.qkv\" as [1 of 3, H, E, D];"

typedef struct bad_row {
    const char *what, *block;
    int exit_code;
    const char *wanted[2]; /* parts of the messages */
    const char *replaced;  /* a tensor of the good file that becomes `with`; NULL name: it goes */
    tensor_row with;
} bad_row;

static const bad_row bad_rows[] = {
    {"no block",
     "",
     7,
     {"has no tensor 'layers[0].wa' for 'layers[0].wa'", "tensors are called like parameters"},
     NULL,
     {0}},
    {"two blocks",
     "weights u for m {" WA REST " } weights v for m {" WA REST " }",
     2,
     {"several 'weights' blocks: u, v"},
     NULL,
     {0}},
    {"a line is missing",
     "weights u for m {" WA " b = \"b\"; ex = \"experts.{X}\"; }",
     1,
     {"'layers[0].wo' (and 1 more instances) has no line", "declared here"},
     NULL,
     {0}},
    {"two lines are missing",
     "weights u for m { layers.wo = \"l.{L}.o\"; ex = \"experts.{X}\"; }",
     1,
     {"parameter 'b' has no line", "'layers[0].wa'"},
     NULL,
     {0}},
    {"a line for no parameter",
     "weights u for m {" WA REST " c = \"b\"; }",
     1,
     {"'c' matches nothing"},
     NULL,
     {0}},
    {"two lines for one",
     "weights u for m {" WA REST " b = \"b2\"; }",
     1,
     {"has a line already"},
     NULL,
     {0}},
    {"a dim that it lacks",
     "weights u for m { layers.wa = \"l.{L}.qkv\" as [1 of 3, H, E, F];" REST " }",
     1,
     {"'F' is not a dim of"},
     NULL,
     {0}},
    {"a dim is left out",
     "weights u for m { layers.wa = \"l.{L}.qkv\" as [1 of 3, H, E];" REST " }",
     1,
     {"lacks dim 'D'"},
     NULL,
     {0}},
    {"a dim stands twice",
     "weights u for m { layers.wa = \"l.{L}.qkv\" as [H, E, D, D];" REST " }",
     1,
     {"is listed twice"},
     NULL,
     {0}},
    {"a part that is none",
     "weights u for m { layers.wa = \"l.{L}.qkv\" as [3 of 3, H, E, D];" REST " }",
     1,
     {"the last of 3 parts is 2"},
     NULL,
     {0}},
    {"an unknown name in a hole",
     "weights u for m { layers.wa = \"l.{Q}.qkv\" as [1 of 3, H, E, D];" REST " }",
     1,
     {"does not fit"},
     NULL,
     {0}},
    {"a hole that stays open",
     "weights u for m { layers.wa = \"l.{L.qkv\" as [1 of 3, H, E, D];" REST " }",
     1,
     {"does not fit"},
     NULL,
     {0}},
    {"parts that do not divide",
     "weights u for m { layers.wa = \"l.{L}.qkv\" as [0..6 of 9, H, E, D];" REST " }",
     1,
     {"do not divide"},
     NULL,
     {0}},
    {"tensors are missing",
     "weights u for m { layers.wa = \"l.{L}.qvk\" as [1 of 3, H, E, D];" REST " }",
     7,
     {"no tensor 'l.0.qvk'", "did you mean 'l.0.qkv'?"},
     NULL,
     {0}},
    {"an expert is missing",
     "weights u for m {" WA REST " }",
     7,
     {"no tensor 'experts.2' for 'ex'"},
     "experts.2",
     {"experts.3", SC_ELEMENT_F32, 1, {4}}},
    {"another size",
     "weights u for m {" WA REST " }",
     7,
     {"has shape [5], but 'b' needs [D=4]"},
     "b",
     {"b", SC_ELEMENT_F32, 1, {5}}},
    {"as many elements in another shape",
     "weights u for m {" WA REST " }",
     7,
     {"has shape [4, 12], but 'layers[0].wo' needs [K=2, G=3, E=2, D=4]"},
     "l.0.o",
     {"l.0.o", SC_ELEMENT_F32, 2, {4, 12}}},
    {"the merged tensor without its other parts",
     "weights u for m {" WA REST " }",
     7,
     {"has shape [12, 4], but 'layers[1].wa' needs [part 1, H=6, E=2, D=4]"},
     "l.1.qkv",
     {"l.1.qkv", SC_ELEMENT_F32, 2, {12, 4}}},
    {"integers",
     "weights u for m {" WA REST " }",
     7,
     {"holds I64, not floats"},
     "b",
     {"b", SC_ELEMENT_I64, 1, {4}}},
    {"bools",
     "weights u for m {" WA REST " }",
     7,
     {"holds BOOL, not floats"},
     "b",
     {"b", SC_ELEMENT_BOOL, 1, {4}}},
    {"a scalar",
     "weights u for m {" WA REST " }",
     7,
     {"has shape []"},
     "b",
     {"b", SC_ELEMENT_F32, 0, {0}}},
    {"two things at once",
     "weights u for m {" WA " layers.wo = \"l.{L}.o\"; ex = \"experts.{X}\"; }",
     1,
     {"'b' has no line", "tensor 'l.0.o' has shape [3]"},
     "l.0.o",
     {"l.0.o", SC_ELEMENT_F32, 1, {3}}},
};

static void everything_wrong_is_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_rows / sizeof *bad_rows; i++) {
        const bad_row *row = &bad_rows[i];
        tensor_row rows[GOOD_COUNT];
        loading l = {0};
        memcpy(rows, good, sizeof rows);
        for (size_t t = 0; t < GOOD_COUNT && row->replaced != NULL; t++) {
            if (strcmp(rows[t].name, row->replaced) == 0)
                rows[t] = row->with;
        }
        write_tensors(rows, GOOD_COUNT);
        open_load(&l, row->block, "w.safetensors");
        bool said = strstr(l.messages, row->wanted[0]) != NULL &&
                    (row->wanted[1] == NULL || strstr(l.messages, row->wanted[1]) != NULL);
        if (l.ok || l.exit_code != row->exit_code || !said)
            fail_msg("%s: exit code %d, wanted %d\n%s", row->what, l.exit_code, row->exit_code,
                     l.messages);
        for (size_t s = 0; s < sizeof l.values / sizeof *l.values; s++)
            assert_null(l.values[s]); /* nothing is given unless all was found */
        close_load(&l);
    }
}

static void files_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char block[] = "weights u for m {" WA REST " }";
    loading missing = {0}, broken = {0}, unknown = {.map = "v"};
    open_load(&missing, block, "nothing.safetensors");
    assert_false(missing.ok);
    assert_int_equal(missing.exit_code, 7);
    assert_non_null(strstr(missing.messages, "nothing.safetensors"));
    close_load(&missing);
    write_bytes("broken.safetensors", "this is no header", 17);
    open_load(&broken, block, "broken.safetensors");
    assert_false(broken.ok);
    assert_int_equal(broken.exit_code, 7);
    close_load(&broken);
    open_load(&unknown, block, "w.safetensors");
    assert_false(unknown.ok);
    assert_int_equal(unknown.exit_code, 2);
    assert_non_null(strstr(unknown.messages, "no 'weights' block 'v' for 'm'; the file has u"));
    close_load(&unknown);
}

/* A mapping would end the process, or read zeros where the rest of a page is. */
static void a_file_that_is_cut_while_it_is_read_is_refused(void **state)
{
    (void)state;
    loading l = {.cut_at = 1500};
    write_tensors(good, GOOD_COUNT);
    open_load(&l, "weights u for m {" WA REST " }", "w.safetensors");
    assert_false(l.ok);
    assert_int_equal(l.exit_code, 7);
    if (strstr(l.messages, "w.safetensors: tensor '") == NULL ||
        strstr(l.messages, "cannot be read: it has become shorter") == NULL)
        fail_msg("%s", l.messages);
    close_load(&l);
}

typedef struct pattern_row {
    const char *pattern, *name;
    bool is_like, ends_like;
} pattern_row;

static const pattern_row patterns[] = {
    {"a.b", "a.b", true, true},
    {"a.b", "a.bc", false, false},
    {"a.bc", "a.b", false, false},
    {"", "", true, true},
    {"*", "", true, true},
    {"*", "anything.0", true, true},
    {"b.*", "a.b.c", false, true},
    {"b.*", "ab.c", false, false},
    {"b", "a.b.c", false, false},
    {"*.b", "a.b", true, true},
    {"*a*b*", "xaxaxbx", true, true},
    {"*ab", "aab", true, true},
    {"*a*b", "ba", false, false},
    {"l.{L}.w", "l.12.w", true, true},
    {"l.{L}.w", "l..w", false, false},
    {"l.{L}.w", "l.x.w", false, false},
    {"l.{L}.w", "m.l.3.w", false, true},
    {"*{L}x", "a1b22x", true, true},
    {"{2*L+1}", "7", true, true},
    {"a{L}", "a", false, false},
    {"*.", "a.b", false, false},
};

static void patterns_match_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const pattern_row *row = &patterns[i];
        if (sc_name_is_like(row->pattern, row->name) != row->is_like ||
            sc_name_ends_like(row->pattern, row->name) != row->ends_like)
            fail_msg("%s and %s", row->pattern, row->name);
    }
}

/* ---- initial values ---- */
static void initialisers_are_what_they_say(void **state)
{
    (void)state;
    loading l = {0};
    double values[64], again[64];
    open_load(&l, "weights u for m {" WA REST " }", "nothing.safetensors");
    assert_true(l.compiled_ok);
    const sc_module *m = l.compiled.global;
    for (uint32_t s = 0; s < m->state.count; s++) {
        const char *path = sc_text(&l.context, m->state.data[s].path);
        int64_t count = sc_type_elements(sc_state_type(m, s));
        assert_true(count <= 64);
        sc_initial_values(m, s, 7, values);
        sc_initial_values(m, s, 7, again);
        assert_memory_equal(values, again, (size_t)count * sizeof *values);
        for (int64_t i = 0; i < count; i++) {
            if (strcmp(path, "b") == 0)
                assert_true(values[i] == 1);
            else if (strcmp(path, "ex") == 0)
                assert_true(values[i] ==
                            -1 + 3 * sc_rng_uniform(7, sc_fnv1a64("ex", 2), (uint64_t)i));
            else if (strcmp(path, "layers[1].wa") == 0)
                assert_true(values[i] ==
                            0.5 * sc_rng_normal(7, sc_fnv1a64("layers[1].wa", 12), (uint64_t)i));
            else if (strcmp(path, "layers[0].wo") == 0) /* fan-in H E = 12, fan-out D = 4 */
                assert_true(fabs(values[i]) <= sqrt(6.0 / 16));
        }
    }
    close_load(&l);
}

/* ---- tokens ---- */
static void expect_tokens(const char *name, bool wide, uint32_t width, const uint32_t *ids,
                          uint64_t count)
{
    char error[256] = "";
    sc_tokens *tokens = sc_tokens_open(path_of(name), wide, error, sizeof error);
    if (tokens == NULL)
        fail_msg("%s: %s", name, error);
    assert_int_equal(sc_tokens_width(tokens), width);
    assert_int_equal(sc_tokens_count(tokens), count);
    double found[8];
    const char *reason;
    assert_true(count <= 8 && sc_tokens_read(tokens, 0, count, found, &reason));
    for (uint64_t i = 0; i < count; i++)
        assert_true(found[i] == (double)ids[i]);
    sc_tokens_close(tokens);
}

static void expect_no_tokens(const char *name, const char *wanted)
{
    char error[256] = "";
    assert_null(sc_tokens_open(path_of(name), false, error, sizeof error));
    if (strstr(error, wanted) == NULL)
        fail_msg("wanted \"%s\", got \"%s\"", wanted, error);
}

static void token_files_have_three_forms(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {1, 0, 255, 255, 7, 2, 0, 0};
    write_bytes("t.bin", bytes, sizeof bytes);
    write_bytes("t.txt", bytes, 3);
    expect_tokens("t.bin", false, 2, (const uint32_t[]){1, 65535, 519, 0}, 4);
    expect_tokens("t.bin", true, 4, (const uint32_t[]){0xffff0001u, 519}, 2);
    char error[256];
    double found[4];
    const char *reason;
    sc_tokens *tokens = sc_tokens_open(path_of("t.bin"), false, error, sizeof error);
    assert_int_equal(truncate(path_of("t.bin"), 3), 0);
    assert_false(sc_tokens_read(tokens, 0, 4, found, &reason));
    assert_string_equal(reason, "it has become shorter since it was opened");
    sc_tokens_close(tokens);
    expect_tokens("t.txt", true, 1, (const uint32_t[]){1, 0, 255}, 3);

    unsigned char header[1024 + 8] = {0};
    uint32_t words[] = {20240801, 7, 2};
    for (size_t i = 0; i < sizeof words; i++)
        header[i] = (unsigned char)(words[i / 4] >> 8 * (i % 4));
    memcpy(header + 1024, bytes, 8);
    write_bytes("h.bin", header, sizeof header);
    expect_tokens("h.bin", false, 4, (const uint32_t[]){0xffff0001u, 519}, 2);

    header[8] = 3;
    write_bytes("h.bin", header, sizeof header);
    expect_no_tokens("h.bin", "its header says 3 ids, but 2 follow");
    write_bytes("odd.bin", bytes, 3);
    expect_no_tokens("odd.bin", "3 bytes are no whole number of 16-bit ids");
    write_bytes("empty.bin", bytes, 0);
    expect_no_tokens("empty.bin", "the file is empty");
    expect_no_tokens("none.bin", "No such file");
    expect_no_tokens("", "not a regular file");
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {
        "w.safetensors", "broken.safetensors", "t.bin", "t.txt", "h.bin", "odd.bin", "empty.bin"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_of(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_maps_give_the_right_elements),
        cmocka_unit_test(names_may_be_computed_and_lines_indexed),
        cmocka_unit_test(a_range_of_parts_is_a_window),
        cmocka_unit_test(everything_wrong_is_said),
        cmocka_unit_test(patterns_match_names),
        cmocka_unit_test(files_that_are_none_are_refused),
        cmocka_unit_test(a_file_that_is_cut_while_it_is_read_is_refused),
        cmocka_unit_test(initialisers_are_what_they_say),
        cmocka_unit_test(token_files_have_three_forms),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
