/* shardc verify: translation validation of one entry under one plan. */
#include <jansson.h>
#include <string.h>

#include "ir/ops/capacity.h"
#include "tools/commands/commands.h"
#include "tools/explain/report.h"
#include "tools/verify/compiled.h"

static json_t *path_json(const sc_context *context, const sc_difference *difference)
{
    if (difference->path != 0)
        return json_string(sc_text(context, difference->path));
    return difference->output >= 0 ? json_sprintf("out%d", difference->output) : json_null();
}

static json_t *difference_json(const sc_context *context, const sc_difference *difference)
{
    if (difference->run == NULL)
        return json_null();
    json_t *object = json_object();
    json_object_set_new(object, "run", json_string(difference->run));
    json_object_set_new(object, "path", path_json(context, difference));
    if (!difference->has_element) {
        json_object_set_new(object, "message", json_string(difference->message));
        return object;
    }
    json_t *index = json_array();
    for (uint32_t i = 0; i < difference->rank; i++)
        json_array_append_new(index, json_integer(difference->index[i]));
    json_object_set_new(object, "index", index);
    json_object_set_new(object, "expected", sc_number_json(difference->expected));
    json_object_set_new(object, "found", sc_number_json(difference->found));
    return object;
}

static json_t *shrunk_json(const sc_context *context, const sc_shrunk_list *shrunk)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < shrunk->count; i++) {
        const sc_shrunk_size *size = &shrunk->data[i];
        json_array_append_new(list, json_pack("{s:s,s:I,s:I}", size->is_axis ? "axis" : "dim",
                                              sc_text(context, size->name), "from",
                                              (json_int_t)size->from, "to", (json_int_t)size->to));
    }
    return list;
}

static uint32_t count_compared(const sc_validate_result *result)
{
    return result->values + result->caches + result->states + result->outputs;
}

static void print_json(const sc_context *context, const sc_validate_result *result, sc_strbuf *out)
{
    json_t *root = json_object();
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "equal", json_boolean(result->equal));
    json_object_set_new(root, "compared", json_integer(count_compared(result)));
    json_object_set_new(root, "exact", json_integer(result->exact));
    json_object_set_new(root, "rounded", json_integer(result->rounded));
    json_object_set_new(root, "ranks", json_integer((json_int_t)result->ranks));
    json_object_set_new(root, "max_error", sc_number_json(result->max_error));
    json_object_set_new(root, "shrunk", shrunk_json(context, &result->shrunk));
    json_object_set_new(root, "first_difference", difference_json(context, &result->first));
    sc_print_json(root, out);
}

static void print_shrunk(const sc_context *context, const sc_shrunk_list *shrunk, sc_strbuf *out)
{
    if (shrunk->count > 0)
        sc_strbuf_add(out, "  shrunk so that it can be interpreted; ops, placements and "
                           "collectives are those of the full size\n");
    for (uint32_t i = 0; i < shrunk->count; i++) {
        const sc_shrunk_size *size = &shrunk->data[i];
        sc_strbuf_printf(out, "    %-4s %-10s %10lld -> %lld\n", size->is_axis ? "axis" : "dim",
                         sc_text(context, size->name), (long long)size->from, (long long)size->to);
    }
}

static void print_text(const sc_context *context, const sc_compiled *c,
                       const sc_validate_result *result, sc_strbuf *out)
{
    sc_strbuf_printf(out, "%s: the per-rank program %s the global one, on %llu rank%s\n",
                     sc_text(context, c->entry), result->equal ? "equals" : "differs from",
                     (unsigned long long)result->ranks, result->ranks == 1 ? "" : "s");
    sc_strbuf_printf(out, "  compared on random inputs: %u named values, %u caches, ",
                     result->values, result->caches);
    if (result->states > 0)
        sc_strbuf_printf(out, "%u gradients, parameters and other state, ", result->states);
    sc_strbuf_printf(out, "%u outputs; largest error %.2g (allowed %.0e)\n", result->outputs,
                     result->max_error, SC_VALIDATE_TOLERANCE);
    if (result->exact > 0)
        sc_strbuf_printf(out, "  compared bit for bit on integers: %u\n", result->exact);
    if (result->rounded > 0)
        sc_strbuf_printf(out,
                         "  compared with the casts in force: %u; largest error %.2g of what the "
                         "dtypes resolve; %u depend on a decision\n",
                         result->rounded, result->max_rounding_error, result->undecided);
    print_shrunk(context, &result->shrunk, out);
}

/* ---- emitted code ---- */

static void print_compiled_json(const sc_context *context, const sc_compiled_result *result,
                                sc_strbuf *out)
{
    json_t *root = json_object();
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "equal", json_boolean(result->equal));
    json_object_set_new(root, "compared", json_integer(result->states + result->outputs));
    json_object_set_new(root, "limits", json_integer(result->limits));
    json_object_set_new(root, "undecided", json_integer(result->undecided));
    json_object_set_new(root, "redrawn", json_integer(result->redrawn));
    json_object_set_new(root, "ranks", json_integer((json_int_t)result->ranks));
    json_object_set_new(root, "max_error", sc_number_json(result->max_error));
    json_object_set_new(root, "max_relative_error", sc_number_json(result->max_relative_error));
    json_object_set_new(root, "worst",
                        result->worst == 0 ? json_null()
                                           : json_string(sc_text(context, result->worst)));
    json_object_set_new(root, "collectives", json_integer((json_int_t)result->collectives));
    json_object_set_new(root, "sent", sc_number_json(result->sent));
    json_object_set_new(root, "shrunk", shrunk_json(context, &result->shrunk));
    json_object_set_new(root, "first_difference", difference_json(context, &result->first));
    sc_print_json(root, out);
}

static void print_compiled_text(sc_context *context, const sc_compiled *c, const sc_target *target,
                                const sc_compiled_result *result, sc_strbuf *out)
{
    sc_strbuf_printf(out, "%s: the emitted code %s the global program, on %llu rank%s\n",
                     sc_text(context, c->entry), result->equal ? "equals" : "differs from",
                     (unsigned long long)result->ranks, result->ranks == 1 ? "" : "s");
    if (result->equal) {
        sc_strbuf_printf(out, "  compared on random inputs: %u states, %u outputs", result->states,
                         result->outputs);
        if (result->limits > 0)
            sc_strbuf_printf(out, ", %u of updates at their limits", result->limits);
        sc_strbuf_printf(out, "; largest error %.2g%s%s, %.2g of what is allowed; %u undecided\n",
                         result->max_relative_error, result->worst == 0 ? "" : " in ",
                         result->worst == 0 ? "" : sc_text(context, result->worst),
                         result->max_error, result->undecided);
        if (result->redrawn > 0)
            sc_strbuf_printf(out,
                             "  inputs drawn again, since a decision was open within what the "
                             "dtypes resolve: %u\n",
                             result->redrawn);
        sc_strbuf_printf(out, "  the same bits when repeated, and %s\n",
                         sc_target_is_cuda(target) ? "in a second session"
                                                   : "with two threads a rank");
        sc_strbuf_printf(out, "  %llu collectives, %s sent per rank, as `comm` counts them\n",
                         (unsigned long long)result->collectives,
                         sc_bytes_text(&context->arena, result->sent));
    }
    print_shrunk(context, &result->shrunk, out);
}

static void report_difference(sc_context *context, const char *what,
                              const sc_difference *difference)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf_printf(&text, "the %s is not the global %s: ", what,
                     strcmp(what, "emitted code") == 0 ? "program" : "one");
    if (difference->output >= 0)
        sc_strbuf_printf(&text, "output %d%s", difference->output,
                         difference->path != 0 ? ", " : "");
    if (difference->path != 0)
        sc_strbuf_add(&text, sc_text(context, difference->path));
    if (!difference->has_element) {
        sc_strbuf_printf(&text, "%s%s",
                         difference->path != 0 || difference->output >= 0 ? ": " : "",
                         difference->message);
    } else {
        for (uint32_t i = 0; i < difference->rank; i++)
            sc_strbuf_printf(&text, "%s%lld%s", i == 0 ? "[" : ", ",
                             (long long)difference->index[i], i + 1 == difference->rank ? "]" : "");
        sc_strbuf_printf(&text, " is %.17g, expected %.17g", difference->found,
                         difference->expected);
    }
    sc_strbuf_printf(&text, " (%s inputs)", difference->run);
    sc_report(&context->diag, SC_D_verify_failed, difference->loc, text.data, NULL);
}

/* Running out of memory reveals nothing about the program and is not reported as a compiler
 * error. */
static bool report_memory(sc_context *context, const sc_difference *difference)
{
    if (difference->run == NULL || !difference->is_memory)
        return false;
    sc_report(&context->diag, SC_D_run_failed, (sc_loc){0},
              sc_arena_printf(&context->arena, "nothing was verified: %s", difference->message),
              NULL);
    return true;
}

/* True if the program lacked room for rows of experts: what it would have computed is not known.
 * Sets the capacity to compile it with instead. */
static bool lacks_room(sc_context *context, const sc_difference *difference, sc_options *options)
{
    double wanted, last = options->plan_options.capacity;
    if (difference->run == NULL || difference->has_element ||
        !sc_capacity_wanted(difference->message, &wanted) || wanted <= last)
        return false;
    options->plan_options.capacity = sc_capacity_next(wanted, last);
    sc_report(&context->diag, SC_D_more_capacity, (sc_loc){0},
              sc_arena_printf(&context->arena, "%s", difference->message),
              sc_arena_printf(&context->arena, SC_CAPACITY_FORMAT, options->plan_options.capacity),
              NULL);
    return true;
}

/* False: the program is to be compiled with more room. */
static bool verify_compiled(sc_context *context, const sc_compiled *c, sc_options *options,
                            const sc_validate_options *how, sc_strbuf *out)
{
    sc_compiled_result result;
    if (!sc_validate_compiled(c, how, &result) && result.first.run == NULL)
        return true;
    if (report_memory(context, &result.first))
        return true;
    if (!result.equal && lacks_room(context, &result.first, options))
        return false;
    if (!result.equal)
        report_difference(context, "emitted code", &result.first);
    if (options->run.json)
        print_compiled_json(context, &result, out);
    else
        print_compiled_text(context, c, how->target, &result, out);
    return true;
}

static bool verify_interpreted(sc_context *context, sc_compiled *c, sc_options *options,
                               const sc_validate_options *how, sc_strbuf *out)
{
    sc_validate_result result;
    bool is_equal = sc_validate(c->global, c->local, c->func, how, &result);
    if (report_memory(context, &result.first))
        return true;
    if (!is_equal && lacks_room(context, &result.first, options))
        return false;
    if (!is_equal)
        report_difference(context, "per-rank program", &result.first);
    if (options->run.json)
        print_json(context, &result, out);
    else
        print_text(context, c, &result, out);
    return true;
}

int sc_cmd_verify(sc_context *context, const sc_options *given, sc_strbuf *out)
{
    sc_options options = *given;
    sc_validate_options how = {.full = options.full,
                               .dtypes = options.dtypes,
                               .seed = options.run.seed,
                               .target = sc_driver_target(context, &options)};
    bool is_done = options.compiled && how.target == NULL;
    while (!is_done) {
        sc_compiled c;
        if (!sc_driver_compile_file(context, &options, NULL, NULL, options.compiled ? "fuse" : NULL,
                                    &c))
            return 0;
        is_done = options.compiled ? verify_compiled(context, &c, &options, &how, out)
                                   : verify_interpreted(context, &c, &options, &how, out);
    }
    return 0;
}
