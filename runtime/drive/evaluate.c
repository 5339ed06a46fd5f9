/* Runs an entry over batches and prints or writes its results. */
#include "runtime/drive/evaluate.h"

#include <string.h>

#include "runtime/drive/feed.h"
#include "runtime/drive/json.h"
#include "runtime/drive/trainer.h"
#include "runtime/files/safetensors.h"
#include "runtime/session/shard.h"

typedef struct evaluation {
    sc_context *context;
    const sc_facts *facts;
    const sc_run_options *options;
    sc_executor *executor;
    const sc_executor_func *func;
    sc_array *arrays;         /* by output: full tensors of the last batch; malloc'd */
    double *sums;             /* by output: sums of scalars over the batches */
    uint64_t batches;         /* that were run */
    uint64_t batches_in_file; /* in the file of --data; 0: no --data */
    bool is_scalar;           /* every output is a single number */
} evaluation;

static bool fail(sc_context *context, const char *text)
{
    sc_report(&context->diag, SC_D_run_failed, (sc_loc){0}, text, NULL);
    return false;
}

/* ---- batches ---- */

static bool find_func(evaluation *e)
{
    sc_arena *arena = &e->context->arena;
    uint32_t func = e->facts->entry.func;
    if (func >= e->executor->func_count)
        return fail(e->context, "the program has no forward function");
    e->func = &e->executor->funcs[func];
    if (e->func->output_count != e->facts->entry.outputs.count)
        return fail(e->context, "the program lacks outputs of its entry");
    e->arrays = sc_arena_array(arena, e->func->output_count + 1u, sizeof *e->arrays);
    e->sums = sc_arena_array(arena, e->func->output_count + 1u, sizeof *e->sums);
    e->is_scalar = e->func->output_count > 0;
    for (uint32_t i = 0; i < e->func->output_count; i++)
        e->is_scalar = e->is_scalar && e->func->outputs[i].rank == 0;
    return true;
}

static void free_outputs(evaluation *e)
{
    if (e->func != NULL) {
        for (uint32_t i = 0; i < e->func->output_count; i++)
            sc_array_free(&e->arrays[i]);
    }
}

static bool run_batch(evaluation *e, const sc_feed *feed)
{
    shardc_error error = {.text = ""};
    free_outputs(e);
    const sc_named_arrays inputs = {feed->names, feed->arrays, feed->count};
    if (!e->executor->verbs->run(e->executor->self, e->facts->entry.func, &inputs, e->arrays,
                                 e->func->output_count, &error))
        return fail(e->context, sc_arena_printf(&e->context->arena, "%s", error.text));
    for (uint32_t i = 0; i < e->func->output_count; i++)
        e->sums[i] += e->arrays[i].rank == 0 ? e->arrays[i].data[0] : 0;
    e->batches++;
    return true;
}

static bool count_batches(sc_context *context, const sc_run_options *options, sc_feed *feed,
                          uint64_t *batches)
{
    *batches = options->steps > 0 ? (uint64_t)options->steps : 1;
    feed->wanted = *batches;
    if (feed->data == NULL || *batches <= feed->batches)
        return true;
    sc_report(&context->diag, SC_D_bad_data, (sc_loc){0},
              sc_arena_printf(&context->arena, "%s holds %llu batches, but --steps asks for %llu",
                              feed->label, (unsigned long long)feed->batches,
                              (unsigned long long)*batches),
              NULL);
    return false;
}

static bool run_batches(evaluation *e, sc_feed *feed)
{
    uint64_t batches;
    bool ok = count_batches(e->context, e->options, feed, &batches) &&
              sc_feed_bind(e->context, e->executor, e->facts->entry.func, feed) &&
              sc_read_parameters(e->context, e->facts, e->options, e->executor);
    for (uint64_t b = 0; b < batches; b++) {
        if (!ok)
            break;
        ok = sc_feed_batch(e->context, feed, b) && run_batch(e, feed);
    }
    e->batches_in_file = feed->batches;
    return ok;
}

/* ---- results ---- */

static void write_outputs(const evaluation *e, const char *path)
{
    sc_arena *arena = &e->context->arena;
    sc_safetensors_error error = {0};
    sc_safetensors_item *items = sc_arena_array(arena, e->func->output_count, sizeof *items);
    for (uint32_t i = 0; i < e->func->output_count; i++) {
        const sc_fact_type *type = &e->facts->entry.outputs.data[i];
        uint64_t *shape = sc_arena_array(arena, type->rank + 1u, sizeof *shape);
        for (uint32_t d = 0; d < type->rank; d++)
            shape[d] = (uint64_t)type->sizes[d];
        items[i] = (sc_safetensors_item){
            .name = sc_arena_printf(arena, "out%u", i),
            .element = sc_element_of_dtype(sc_dtype_find(e->func->outputs[i].dtype)),
            .rank = type->rank,
            .shape = shape,
            .values = e->arrays[i].data};
    }
    if (!sc_safetensors_write(path, items, e->func->output_count, NULL, 0, &error))
        sc_report(&e->context->diag, SC_D_cannot_write, (sc_loc){0}, path,
                  sc_arena_printf(arena, "%.*s", (int)error.length - 1, error.text), NULL);
}

/* Results of a scalar entry over all batches: the mean of a number; of (total, weight), total /
 * weight, or 0 if the weight is 0. */
typedef struct objective {
    bool has_loss;
    double loss;
    uint32_t metrics; /* index of the first output that is a metric */
} objective;

static objective find_objective(const evaluation *e, bool minimised)
{
    objective result = {0};
    if (e->func->output_count == 1 || minimised) {
        result.has_loss = true;
        result.metrics = e->func->output_count == 1 ? 1 : 2;
        result.loss = e->func->output_count == 1 ? e->sums[0] / (double)e->batches
                      : e->sums[1] == 0          ? 0
                                                 : e->sums[0] / e->sums[1];
    }
    return result;
}

static void print_scalars(const evaluation *e, const objective *o, sc_strbuf *out)
{
    if (o->has_loss)
        sc_strbuf_printf(out, "loss %.10g\n", o->loss);
    for (uint32_t i = o->metrics; i < e->func->output_count; i++)
        sc_strbuf_printf(out, "out%u %.10g\n", i, e->sums[i] / (double)e->batches);
    if (e->batches_in_file > 0)
        sc_strbuf_printf(out, "%llu of %llu batches (--steps N for more)\n",
                         (unsigned long long)e->batches, (unsigned long long)e->batches_in_file);
}

static void print_shapes(const evaluation *e, sc_strbuf *out)
{
    for (uint32_t i = 0; i < e->func->output_count; i++) {
        const sc_fact_type *type = &e->facts->entry.outputs.data[i];
        sc_strbuf_printf(out, "out%u %s%s", i, type->text, type->rank == 0 ? "" : " ");
        if (type->rank == 0)
            sc_strbuf_printf(out, " = %.10g", e->arrays[i].data[0]);
        else if (e->options->output != NULL)
            sc_strbuf_printf(out, "written to %s", e->options->output);
        else
            sc_strbuf_add(out, "(-o FILE.safetensors keeps it)");
        sc_strbuf_add_char(out, '\n');
    }
}

static void print_json(const evaluation *e, const objective *o, sc_strbuf *out)
{
    json_t *root = json_object(), *outputs = json_array();
    for (uint32_t i = 0; i < e->func->output_count; i++) {
        if (e->arrays[i].rank == 0)
            json_array_append_new(outputs, sc_number_json(e->sums[i] / (double)e->batches));
    }
    json_object_set_new(root, "version", json_integer(1));
    if (o->has_loss)
        json_object_set_new(root, "loss", sc_number_json(o->loss));
    json_object_set_new(root, "outputs", outputs);
    json_object_set_new(root, "batches", json_integer((json_int_t)e->batches));
    sc_print_json(root, out);
}

static void print(const evaluation *e, sc_strbuf *out)
{
    objective o = {0};
    if (e->is_scalar)
        o = find_objective(e, e->facts->entry.is_minimised);
    if (e->options->json)
        print_json(e, &o, out);
    else if (e->is_scalar)
        print_scalars(e, &o, out);
    else
        print_shapes(e, out);
}

bool sc_evaluate(sc_context *context, const sc_facts *facts, const sc_run_options *options,
                 sc_open_executor *open, void *user, sc_strbuf *out)
{
    evaluation e = {.context = context, .facts = facts, .options = options};
    sc_feed feed;
    const sc_feed_request request = {
        .entry = &facts->entry, .options = options, .order = SC_FEED_AS_STORED, .option = "--data"};
    bool ok = sc_feed_open(context, &request, &feed);
    e.executor = ok ? open(user) : NULL;
    ok = e.executor != NULL && find_func(&e) && run_batches(&e, &feed);
    if (ok)
        sc_note_initial_weights(context, facts, options, e.executor);
    if (ok && e.executor->is_first) {
        print(&e, out);
        if (options->output != NULL)
            write_outputs(&e, options->output);
    }
    free_outputs(&e);
    sc_feed_close(&feed);
    return ok;
}
