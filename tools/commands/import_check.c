/* import --check: runs the entry `logits` of the written text as `shardc eval` does. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/files/safetensors.h"
#include "tools/commands/commands.h"
#include "tools/import/check.h"

/* Largest difference that rounding explains, as part of the largest logit. */
static const struct {
    const char *precision;
    double within;
} bounds[] = {{"f64", 1e-9}, {"f32", 1e-4}, {"bf16", 5e-2}};

typedef struct checker {
    sc_context *context;
    const char *path; /* of the given logits */
    double within;
} checker;

static void fail(const checker *c, const char *text)
{
    sc_report(&c->context->diag, SC_D_bad_data, (sc_loc){0},
              sc_arena_printf(&c->context->arena, "%s: %s", c->path, text), NULL);
}

static sc_safetensors *open_file(const checker *c, const char *path)
{
    sc_safetensors_error error = {0};
    sc_safetensors *file = sc_safetensors_open(path, &error);
    if (file == NULL)
        fail(c, sc_arena_copy_text(&c->context->arena, error.text, strlen(error.text)));
    return file;
}

static double *read_all(const checker *c, const sc_safetensors *file, const sc_safetensor *tensor)
{
    const char *reason;
    double *values = sc_arena_array(&c->context->arena, (size_t)tensor->count, sizeof *values);
    if (sc_safetensors_read(file, tensor, 0, tensor->count, values, &reason))
        return values;
    fail(c, reason);
    return NULL;
}

/* ---- comparison ---- */
static void compare_values(const checker *c, const double *got, const double *want, uint64_t count)
{
    sc_context *context = c->context;
    double worst = 0.0, largest = 0.0;
    for (uint64_t i = 0; i < count; i++) {
        double difference = fabs(got[i] - want[i]);
        worst = difference > worst || isnan(difference) ? difference : worst;
        largest = fmax(largest, fabs(want[i]));
    }
    const char *text = sc_arena_printf(
        &context->arena, "the largest of %llu logits is %.3g, the largest difference %.2g",
        (unsigned long long)count, largest, worst);
    bool fits = worst <= c->within * fmax(largest, 1.0);
    sc_report(&context->diag, fits ? SC_D_logits_agree : SC_D_logits_differ, (sc_loc){0}, c->path,
              text, NULL);
}

static void compare(const checker *c, const sc_safetensors *given, const char *output)
{
    const sc_safetensor *want = sc_safetensors_find(given, "logits");
    sc_safetensors *made = open_file(c, output);
    const sc_safetensor *got = made == NULL ? NULL : sc_safetensors_find(made, "out0");
    if (got != NULL && got->count != want->count) {
        fail(c, "its logits have another number of elements than those of the model");
    } else if (got != NULL) {
        const double *a = read_all(c, made, got), *b = read_all(c, given, want);
        if (a != NULL && b != NULL)
            compare_values(c, a, b, want->count);
    }
    sc_safetensors_close(made);
}

/* ---- the run ---- */
static void set_size(const checker *c, sc_options *options, const char *dim, uint64_t size)
{
    *sc_vec_push(&c->context->arena, &options->plan_options.binds) =
        (sc_binding){sc_intern_text(&c->context->names, dim), (int64_t)size, {0}};
}

/* The names that the families give inputs of transformers, and the dims of their positions. */
static const struct {
    const char *published, *input, *positions;
} ids_of[] = {{"input_ids", "t", "S"}, {"decoder_input_ids", "d", "Y"}};

/* Other inputs have their own names, and no sizes that are not known. */
static void set_inputs(const checker *c, sc_options *options, const sc_safetensors *given)
{
    sc_arena *arena = &c->context->arena;
    for (size_t i = 0; i < sc_safetensors_count(given); i++) {
        const sc_safetensor *tensor = sc_safetensors_at(given, i);
        const char *name = tensor->name, *input = name;
        if (strcmp(name, "logits") == 0)
            continue;
        for (size_t k = 0; k < sizeof ids_of / sizeof *ids_of; k++) {
            if (strcmp(name, ids_of[k].published) != 0)
                continue;
            input = ids_of[k].input;
            if (tensor->rank == 2)
                set_size(c, options, ids_of[k].positions, tensor->shape[1]);
        }
        *sc_vec_push(arena, &options->run.inputs) =
            (sc_named_text){input, sc_arena_printf(arena, "%s:%s", c->path, name)};
    }
}

static void run(const checker *c, const sc_options *given_options, const sc_strbuf *model,
                const sc_safetensors *given, const sc_safetensor *ids, const char *output)
{
    sc_options options = *given_options;
    sc_strbuf unused;
    uint32_t errors = c->context->diag.errors;
    options.file = "the imported model";
    options.text = model->data;
    options.text_length = model->length;
    options.plan = "one";
    options.entry = "logits";
    options.run.weights = given_options->file;
    options.run.output = output;
    options.plan_options.binds = (sc_binding_list){0};
    set_size(c, &options, "B", ids->shape[0]);
    set_inputs(c, &options, given);
    sc_strbuf_init(&unused, &c->context->arena);
    sc_cmd_eval(c->context, &options, &unused);
    if (c->context->diag.errors == errors)
        compare(c, given, output);
}

void sc_import_check(sc_context *context, const sc_options *options, const char *precision,
                     const sc_strbuf *model)
{
    checker c = {.context = context, .path = options->check};
    char output[] = "/tmp/shardc-logits-XXXXXX";
    sc_safetensors *given = open_file(&c, options->check);
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        if (strcmp(bounds[i].precision, precision) == 0)
            c.within = bounds[i].within;
    }
    if (given == NULL)
        return;
    const sc_safetensor *ids = sc_safetensors_find(given, "input_ids");
    int file = -1;
    if (ids == NULL || ids->rank != 2 || sc_safetensors_find(given, "logits") == NULL)
        fail(&c, "it needs the tensors 'input_ids', with two dims, and 'logits'");
    else if ((file = mkstemp(output)) < 0)
        sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0}, output, "no file can be made",
                  NULL);
    if (file >= 0) {
        close(file);
        run(&c, options, model, given, ids, output);
        unlink(output);
    }
    sc_safetensors_close(given);
}
