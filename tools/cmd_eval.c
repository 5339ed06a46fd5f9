/* shardc eval: run an entry here; what it returns, as numbers or as a file of tensors. */
#include <jansson.h>
#include <stdlib.h>

#include "ir/text.h"
#include "runtime/safetensors.h"
#include "tools/commands.h"
#include "tools/elements.h"
#include "tools/evaluate.h"
#include "tools/report.h"

static void write_outputs(sc_context *context, const sc_evaluation *e, const char *path)
{
    sc_arena *arena = &context->arena;
    sc_safetensors_error error = {0};
    sc_safetensors_item *items = sc_arena_array(arena, e->output_count, sizeof *items);
    for (uint32_t i = 0; i < e->output_count; i++) {
        const sc_array *array = &e->arrays[i];
        uint64_t *shape = sc_arena_array(arena, array->rank + 1u, sizeof *shape);
        for (uint32_t d = 0; d < array->rank; d++)
            shape[d] = (uint64_t)array->sizes[d];
        items[i] = (sc_safetensors_item){.name = sc_arena_printf(arena, "out%u", i),
                                         .element = sc_dtype_element(sc_type_of(e->m, e->outputs[i])->dtype),
                                         .rank = array->rank,
                                         .shape = shape,
                                         .values = array->data};
    }
    if (!sc_safetensors_write(path, items, e->output_count, NULL, 0, &error))
        sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0}, path, sc_arena_printf(arena, "%.*s", (int)error.length - 1, error.text),
                  NULL);
}

static bool is_minimised(const sc_compiled *c)
{
    sc_entry_list entries = {0};
    sc_program_entries(c->program, c->model, &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        if (entries.data[i].entry == c->entry)
            return entries.data[i].minimised;
    }
    return false;
}

/* A scalar entry's results over all batches: the mean of one number; of (total, weight), total / weight, 0 for no weight. */
typedef struct objective {
    bool has_loss;
    double loss;
    uint32_t metrics; /* index of the first result that is a metric */
} objective;

static objective find_objective(const sc_evaluation *e, bool minimised)
{
    objective result = {0};
    if (e->output_count == 1 || minimised) {
        result.has_loss = true;
        result.metrics = e->output_count == 1 ? 1 : 2;
        result.loss = e->output_count == 1 ? e->sums[0] / (double)e->batches : e->sums[1] == 0 ? 0 : e->sums[0] / e->sums[1];
    }
    return result;
}

static void print_scalars(const sc_evaluation *e, const objective *o, sc_strbuf *out)
{
    if (o->has_loss)
        sc_strbuf_printf(out, "loss %.10g\n", o->loss);
    for (uint32_t i = o->metrics; i < e->output_count; i++)
        sc_strbuf_printf(out, "out%u %.10g\n", i, e->sums[i] / (double)e->batches);
    if (e->batches_in_file > 0)
        sc_strbuf_printf(out, "%llu of %llu batches (--steps N for more)\n", (unsigned long long)e->batches,
                         (unsigned long long)e->batches_in_file);
}

static void print_shapes(const sc_evaluation *e, const sc_options *options, sc_strbuf *out)
{
    for (uint32_t i = 0; i < e->output_count; i++) {
        const sc_type_info *type = sc_type_of(e->m, e->outputs[i]);
        sc_strbuf_printf(out, "out%u %s[", i, sc_dtypes[type->dtype].name);
        for (uint32_t d = 0; d < type->rank; d++)
            sc_strbuf_printf(out, "%s%s=%lld", d > 0 ? ", " : "", sc_text(e->m->context, e->m->dims.data[type->dims[d].dim].name),
                             (long long)type->dims[d].size);
        sc_strbuf_add(out, type->rank == 0 ? "]" : "] ");
        if (type->rank == 0)
            sc_strbuf_printf(out, " = %.10g", e->arrays[i].data[0]);
        else if (options->output != NULL)
            sc_strbuf_printf(out, "written to %s", options->output);
        else
            sc_strbuf_add(out, "(-o FILE.safetensors keeps it)");
        sc_strbuf_add_char(out, '\n');
    }
}

static void print_json(const sc_evaluation *e, const objective *o, sc_strbuf *out)
{
    json_t *root = json_object(), *outputs = json_array();
    for (uint32_t i = 0; i < e->output_count; i++) {
        if (e->arrays[i].rank == 0)
            json_array_append_new(outputs, sc_number_json(e->sums[i] / (double)e->batches));
    }
    json_object_set_new(root, "version", json_integer(1));
    if (o->has_loss)
        json_object_set_new(root, "loss", sc_number_json(o->loss));
    json_object_set_new(root, "outputs", outputs);
    json_object_set_new(root, "batches", json_integer((json_int_t)e->batches));
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    json_decref(root);
    sc_strbuf_add(out, text == NULL ? "" : text);
    sc_strbuf_add_char(out, '\n');
    free(text);
}

static void print(const sc_evaluation *e, const sc_options *options, bool minimised, sc_strbuf *out)
{
    objective o = {0};
    if (e->is_scalar)
        o = find_objective(e, minimised);
    if (options->json)
        print_json(e, &o, out);
    else if (e->is_scalar)
        print_scalars(e, &o, out);
    else
        print_shapes(e, options, out);
}

int sc_cmd_eval(sc_context *context, const sc_options *given, sc_strbuf *out)
{
    sc_options forward = *given;
    const sc_options *options = &forward;
    forward.forward = true;
    sc_compiled c;
    if (!sc_driver_compile_file(context, options, NULL, NULL, sc_runner_last_pass(options), &c))
        return 0;
    sc_evaluation e;
    bool minimised = is_minimised(&c);
    if (sc_evaluate(context, &c, options, &e)) {
        print(&e, options, minimised, out);
        if (options->output != NULL)
            write_outputs(context, &e, options->output);
        sc_check_expects(context, &c, SC_D_expect_fails);
    }
    sc_evaluation_free(&e);
    return 0;
}
