/* Parameters written through a weights block: what was loaded is written again byte for byte, in
 * the shapes that checkpoints have; a block that cannot be written through is refused before
 * anything is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/drive/load_weights.h"
#include "runtime/drive/read_param.h"
#include "runtime/drive/save_weights.h"
#include "runtime/files/safetensors.h"
#include "support/rng.h"
#include "tools/driver/driver.h"
#include "tools/run/facts.h"

static char folder[] = "/tmp/shardc_save_XXXXXX";

enum { MAX_TENSORS = 64, MAX_STATES = 64 };

typedef struct tensor_row {
    const char *name;
    uint32_t rank;
    uint64_t shape[4];
} tensor_row;

static const char *path_of(const char *name)
{
    static char paths[16][256];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, 256, "%s/%s", folder, name);
    return path;
}

/* Random values that every float type holds. */
static void write_random(const char *name, sc_element element, const tensor_row *rows, size_t count)
{
    sc_safetensors_item items[MAX_TENSORS];
    sc_safetensors_error error = {0};
    assert_true(count <= MAX_TENSORS);
    for (size_t t = 0; t < count; t++) {
        uint64_t elements = 1;
        for (uint32_t i = 0; i < rows[t].rank; i++)
            elements *= rows[t].shape[i];
        double *values = malloc(elements * sizeof *values);
        assert_non_null(values);
        for (uint64_t i = 0; i < elements; i++)
            values[i] = (double)(int)(sc_rng_uniform(t, 77, i) * 256 - 128) / 64;
        items[t] = (sc_safetensors_item){.name = rows[t].name,
                                         .element = element,
                                         .rank = rows[t].rank,
                                         .shape = rows[t].shape,
                                         .values = values};
    }
    assert_true(sc_safetensors_write(path_of(name), items, count, NULL, 0, &error));
    for (size_t t = 0; t < count; t++)
        free((void *)items[t].values);
}

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* ---- one round ---- */
typedef struct round_trip {
    const char *file, *plan, *plan_file; /* the program */
    bool without_block;
    const char *from, *like, *to; /* of weights; from NULL: all values are 1, like NULL: none */
    sc_context context;
    sc_compiled compiled;
    double *values[MAX_STATES]; /* by state */
    bool is_planned, ok;
    int exit_code;
    char messages[4096];
} round_trip;

static int64_t elements_of(const round_trip *r, uint32_t state)
{
    const sc_module *m = r->compiled.global;
    return sc_type_elements(sc_state_type(m, state));
}

static bool take(void *user, uint32_t state, const double *values)
{
    round_trip *r = user;
    size_t bytes = (size_t)elements_of(r, state) * sizeof *values;
    r->values[state] = malloc(bytes);
    assert_non_null(r->values[state]);
    memcpy(r->values[state], values, bytes);
    return true;
}

static sc_array give(void *user, uint32_t state)
{
    const round_trip *r = user;
    int64_t count = elements_of(r, state);
    sc_array array = sc_array_new(1, &count);
    for (int64_t i = 0; i < count; i++)
        array.data[i] = r->values[state] == NULL ? 1 : r->values[state][i];
    return array;
}

static bool load(sc_context *context, const sc_fact_weights *facts, round_trip *r)
{
    sc_weights_reading *reading = sc_weights_open(context, facts, r->from);
    bool ok = reading != NULL;
    for (uint32_t i = 0; i < facts->count; i++) {
        sc_shard_place whole;
        sc_array array = sc_array_new(facts->params[i].rank, facts->params[i].sizes);
        sc_place_whole(facts->params[i].rank, facts->params[i].sizes, &whole);
        ok = ok && sc_weights_read(reading, i, &whole, SC_ELEMENT_F64, array.data) &&
             take(r, i, array.data);
        sc_array_free(&array);
    }
    sc_weights_close(reading);
    return ok;
}

static void go_round(sc_context *context, void *user)
{
    round_trip *r = user;
    sc_options options = {.file = r->file,
                          .plan = r->plan,
                          .plan_file = r->plan_file,
                          .entry = "loss",
                          .forward = true};
    const sc_weights *weights = NULL;
    bool compiled = sc_driver_compile_file(context, &options, NULL, NULL, NULL, &r->compiled);
    const sc_module *m = r->compiled.global;
    if (compiled && !r->without_block)
        compiled =
            sc_weights_choose(context, r->compiled.program, r->compiled.model, NULL, &weights);
    /* every state of the model is a parameter, so that both are counted alike */
    sc_fact_weights facts;
    if (compiled)
        sc_weight_facts(context, r->compiled.program, r->compiled.model, weights, m, &facts);
    bool loaded = compiled && (r->from == NULL || load(context, &facts, r));
    sc_weights_file *file = loaded ? sc_weights_file_new(context, &facts, r->like) : NULL;
    r->is_planned = file != NULL;
    r->ok = file != NULL && sc_weights_save(file, r->to, give, r);
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_diag_render_text(&context->diag, &context->sources, &out);
    snprintf(r->messages, sizeof r->messages, "%s", out.data == NULL ? "" : out.data);
    r->exit_code = sc_diag_exit_code(&context->diag);
}

static void run(round_trip *r)
{
    assert_true(sc_context_run(&r->context, 0, go_round, r));
    for (size_t i = 0; i < MAX_STATES; i++)
        free(r->values[i]);
    sc_context_free(&r->context);
}

static void expect_equal_values(const sc_safetensors *wanted, const sc_safetensor *a,
                                const sc_safetensors *got, const sc_safetensor *b)
{
    const char *reason;
    char *left = malloc(a->bytes + 1), *right = malloc(a->bytes + 1);
    assert_true(left != NULL && right != NULL);
    assert_true(sc_safetensors_read_stored(wanted, a, 0, a->count, left, &reason));
    assert_true(sc_safetensors_read_stored(got, b, 0, b->count, right, &reason));
    assert_memory_equal(left, right, a->bytes);
    free(left);
    free(right);
}

static void expect_equal_files(const char *wanted_path, const char *got_path)
{
    sc_safetensors_error error = {0};
    sc_safetensors *wanted = sc_safetensors_open(wanted_path, &error),
                   *got = sc_safetensors_open(got_path, &error);
    assert_non_null(wanted);
    assert_non_null(got);
    assert_int_equal(sc_safetensors_count(got), sc_safetensors_count(wanted));
    for (size_t i = 0; i < sc_safetensors_count(wanted); i++) {
        const sc_safetensor *a = sc_safetensors_at(wanted, i),
                            *b = sc_safetensors_find(got, a->name);
        if (b == NULL || b->element != a->element || b->rank != a->rank ||
            memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) != 0)
            fail_msg("tensor %s is missing or has another dtype or shape", a->name);
        expect_equal_values(wanted, a, got, b);
    }
    sc_safetensors_close(wanted);
    sc_safetensors_close(got);
}

/* ---- checkpoints in Hugging Face's layout ---- */
/* %d: of both layers. */
static const tensor_row llama[] = {
    {"model.embed_tokens.weight", 2, {96, 64}},
    {"lm_head.weight", 2, {96, 64}},
    {"model.norm.weight", 1, {64}},
    {"model.layers.%d.input_layernorm.weight", 1, {64}},
    {"model.layers.%d.post_attention_layernorm.weight", 1, {64}},
    {"model.layers.%d.self_attn.q_proj.weight", 2, {64, 64}},
    {"model.layers.%d.self_attn.k_proj.weight", 2, {32, 64}},
    {"model.layers.%d.self_attn.v_proj.weight", 2, {32, 64}},
    {"model.layers.%d.self_attn.o_proj.weight", 2, {64, 64}},
    {"model.layers.%d.mlp.gate_proj.weight", 2, {88, 64}},
    {"model.layers.%d.mlp.up_proj.weight", 2, {88, 64}},
    {"model.layers.%d.mlp.down_proj.weight", 2, {64, 88}},
};

static const tensor_row gpt2[] = {
    {"transformer.wte.weight", 2, {101, 48}},
    {"transformer.wpe.weight", 2, {32, 48}},
    {"transformer.ln_f.weight", 1, {48}},
    {"transformer.ln_f.bias", 1, {48}},
    {"transformer.h.%d.ln_1.weight", 1, {48}},
    {"transformer.h.%d.ln_1.bias", 1, {48}},
    {"transformer.h.%d.ln_2.weight", 1, {48}},
    {"transformer.h.%d.ln_2.bias", 1, {48}},
    {"transformer.h.%d.attn.c_attn.weight", 2, {48, 144}},
    {"transformer.h.%d.attn.c_attn.bias", 1, {144}},
    {"transformer.h.%d.attn.c_proj.weight", 2, {48, 48}},
    {"transformer.h.%d.attn.c_proj.bias", 1, {48}},
    {"transformer.h.%d.mlp.c_fc.weight", 2, {48, 192}},
    {"transformer.h.%d.mlp.c_fc.bias", 1, {192}},
    {"transformer.h.%d.mlp.c_proj.weight", 2, {192, 48}},
    {"transformer.h.%d.mlp.c_proj.bias", 1, {48}},
};

static void write_checkpoint(sc_element element, const tensor_row *rows, size_t count)
{
    static char names[MAX_TENSORS][80];
    tensor_row all[MAX_TENSORS];
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        for (char layer = '0'; layer < '2'; layer++) {
            char *hole = strcpy(names[made], rows[i].name);
            all[made] = rows[i];
            all[made].name = names[made];
            made++;
            hole = strstr(hole, "%d");
            if (hole == NULL)
                break;
            hole[0] = layer;
            memmove(hole + 1, hole + 2, strlen(hole + 2) + 1);
        }
    }
    write_random("in.safetensors", element, all, made);
}

/* dtypes are those of the parameters: `one` of these files says f64, the plans below another. */
static void checkpoints_come_back_byte_for_byte(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        sc_element element;
    } plans[] = {{"one", SC_ELEMENT_F64},
                 {"mix", SC_ELEMENT_F64},
                 {"narrow", SC_ELEMENT_F32},
                 {"brain", SC_ELEMENT_BF16},
                 {"half", SC_ELEMENT_F16}};
    write_text("plans.shard", "lang 1;\nplan narrow for m { bind B = 2, S = 16; }\n"
                              "plan brain for m { bind B = 2, S = 16; precision param = bf16; }\n"
                              "plan half for m { bind B = 2, S = 16; precision param = f16; }\n");
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        for (int is_gpt2 = 0; is_gpt2 < 2; is_gpt2++) {
            round_trip r = {.file = is_gpt2 ? SHARDC_SOURCE_DIR
                                        "/test/acceptance/cases/tg2_gpt2_train_one.shard"
                                            : SHARDC_SOURCE_DIR
                                        "/test/acceptance/cases/tg1_llama_train_one.shard",
                            .plan = plans[i].plan,
                            .plan_file = path_of("plans.shard"),
                            .from = path_of("in.safetensors"),
                            .to = path_of("out.safetensors")};
            if (is_gpt2)
                write_checkpoint(plans[i].element, gpt2, sizeof gpt2 / sizeof *gpt2);
            else
                write_checkpoint(plans[i].element, llama, sizeof llama / sizeof *llama);
            run(&r);
            if (!r.ok)
                fail_msg("%s", r.messages);
            expect_equal_files(path_of("in.safetensors"), path_of("out.safetensors"));
        }
    }
}

/* ---- every form of line ---- */
static const char model[] = "lang 1;\n"
                            "dim B = 2, D = 4, K = 2, G = 3, H = (K, G), E = 2, X = 3, L = 2;\n"
                            "block layer(x[B, D]) -> [B, D] {\n"
                            "  param wa[D, H, E], wb[D, H, E], wo[H, E, D];\n"
                            "  return x + dot[H, E](dot[D](x, wa) * dot[D](x, wb), wo);\n"
                            "}\n"
                            "model m {\n"
                            "  param b[D], ex[X, D];\n"
                            "  sub layers: layer * L;\n"
                            "  entry loss(x: f32[B, D]) -> [B, D] { repeat L { x = layers(x); } "
                            "return x + b + sum[X](ex); }\n"
                            "}\n";

#define FUSED                                                                                      \
    " layers.wa = \"l.{L}.ab\" as [0..1 of 4, H, E, D]; layers.wb = \"l.{L}.ab\" as [2..3 of 4, "  \
    "H, E, D];"
#define REST " b = \"b\"; ex = \"experts.{X}\"; layers.wo = \"o{2*L+1}\";"

static const tensor_row every_form[] = {
    {"l.0.ab", 2, {24, 4}}, {"l.1.ab", 2, {24, 4}}, {"o1", 2, {12, 4}},    {"o3", 2, {12, 4}},
    {"b", 1, {4}},          {"experts.0", 1, {4}},  {"experts.1", 1, {4}}, {"experts.2", 1, {4}}};

static void run_model(round_trip *r, const char *block)
{
    char text[4096];
    snprintf(text, sizeof text, "%s%s", model, block);
    write_text("m.shard", text);
    r->file = path_of("m.shard");
    r->plan = "none";
    r->to = path_of("out.safetensors");
    unlink(r->to);
    run(r);
}

static void every_form_of_line_comes_back(void **state)
{
    (void)state;
    round_trip r = {.from = path_of("in.safetensors")};
    write_random("in.safetensors", SC_ELEMENT_F32, every_form,
                 sizeof every_form / sizeof *every_form);
    run_model(&r, "weights hf for m {" FUSED REST " }\n");
    if (!r.ok)
        fail_msg("%s", r.messages);
    expect_equal_files(path_of("in.safetensors"), path_of("out.safetensors"));
}

/* The file that was loaded says which axes are merged, where it says something else than the rule.
 */
static void shapes_are_those_of_the_loaded_file(void **state)
{
    (void)state;
    tensor_row rows[sizeof every_form / sizeof *every_form];
    memcpy(rows, every_form, sizeof rows);
    rows[0] = (tensor_row){"l.0.ab", 4, {4, 3, 2, 4}};
    rows[2] = (tensor_row){"o1", 3, {6, 2, 4}};
    rows[4] = (tensor_row){"b", 3, {1, 4, 1}};
    write_random("in.safetensors", SC_ELEMENT_F32, rows, sizeof rows / sizeof *rows);
    round_trip r = {.from = path_of("in.safetensors"), .like = path_of("in.safetensors")};
    run_model(&r, "weights hf for m {" FUSED REST " }\n");
    if (!r.ok)
        fail_msg("%s", r.messages);
    expect_equal_files(path_of("in.safetensors"), path_of("out.safetensors"));
}

static void parameters_without_a_block_have_their_paths(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t rank;
        uint64_t shape[3];
    } wanted[] = {{"b", 1, {4}},
                  {"ex", 2, {3, 4}},
                  {"layers[0].wa", 3, {4, 6, 2}},
                  {"layers[1].wo", 3, {6, 2, 4}}};
    round_trip r = {.without_block = true};
    run_model(&r, "");
    if (!r.ok)
        fail_msg("%s", r.messages);
    sc_safetensors_error error = {0};
    sc_safetensors *file = sc_safetensors_open(path_of("out.safetensors"), &error);
    assert_non_null(file);
    assert_int_equal(sc_safetensors_count(file), 8);
    assert_string_equal(sc_safetensors_metadata(file, "format"), "pt");
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const sc_safetensor *tensor = sc_safetensors_find(file, wanted[i].name);
        assert_non_null(tensor);
        assert_int_equal(tensor->rank, wanted[i].rank);
        assert_memory_equal(tensor->shape, wanted[i].shape, tensor->rank * sizeof *tensor->shape);
    }
    sc_safetensors_close(file);
}

/* ---- what is wrong ---- */
static void blocks_that_cannot_be_written_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *block, *wanted;
    } rows[] = {
        {"weights u for m { layers.wa = \"l.{L}.ab\" as [0 of 3, H, E, D]; layers.wb = "
         "\"l.{L}.ab\" as [2 of 3, H, E, D];" REST " }",
         "tensor 'l.0.ab' has 144 elements, but parameters cover only 96 of them; element 48 "
         "belongs to none"},
        {"weights u for m { layers.wa = \"l.{L}.ab\" as [0 of 2, H, E, D]; layers.wb = "
         "\"l.{L}.ab\" as [0 of 2, H, E, D];" REST " }",
         "'layers[0].wb' and 'layers[0].wa' would be written to the same elements of tensor "
         "'l.0.ab'"},
        {"weights u for m { layers.wa = \"l.{L}.ab\"; layers.wb = \"l.{L}.ab\";" REST " }",
         "'layers[0].wb' and 'layers[0].wa' would be written to the same elements of tensor "
         "'l.0.ab'"},
        {"weights u for m { layers.wa = \"ab\" as [0 of 2, H, E, D]; layers.wb = \"ab\" as [1 of "
         "2, H, E, D];" REST " }",
         "'layers[1].wa' and 'layers[0].wa' would be written to the same elements of tensor 'ab'"},
        {"weights u for m { layers.wa = \"l.{L}.ab\" as [0 of 2, H, E, D]; layers.wb = "
         "\"l.{L}.ab\" as [1 of 3, H, E, D];" REST " }",
         "tensor 'l.0.ab' would have 144 elements for 'layers[0].wb', but 96 for 'layers[0].wa'"},
        {"weights u for m {" REST " }",
         "parameter 'layers[0].wa' (and 1 more instances) has no line in 'weights u'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        round_trip r = {.from = NULL};
        run_model(&r, rows[i].block);
        if (r.is_planned || r.exit_code != 1 || strstr(r.messages, rows[i].wanted) == NULL)
            fail_msg("%s\nexit code %d\n%s", rows[i].block, r.exit_code, r.messages);
        assert_int_equal(access(path_of("out.safetensors"), F_OK), -1);
    }
}

static void files_that_cannot_be_written_are_said(void **state)
{
    (void)state;
    char text[4096];
    snprintf(text, sizeof text, "%sweights hf for m {" FUSED REST " }\n", model);
    write_text("m.shard", text);
    round_trip r = {
        .file = path_of("m.shard"), .plan = "none", .to = path_of("no/such/folder.safetensors")};
    run(&r);
    assert_true(r.is_planned);
    assert_false(r.ok);
    assert_int_equal(r.exit_code, 7);
    assert_non_null(strstr(r.messages, "cannot write"));
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"in.safetensors", "out.safetensors", "m.shard",
                                        "plans.shard"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_of(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints_come_back_byte_for_byte),
        cmocka_unit_test(every_form_of_line_comes_back),
        cmocka_unit_test(shapes_are_those_of_the_loaded_file),
        cmocka_unit_test(parameters_without_a_block_have_their_paths),
        cmocka_unit_test(blocks_that_cannot_be_written_are_refused),
        cmocka_unit_test(files_that_cannot_be_written_are_said),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
