/* Writes and reads a program's facts as JSON. */
#include "runtime/drive/facts.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/json.h"

uint64_t sc_entry_tokens(const sc_fact_entry *entry)
{
    for (uint32_t i = 0; i < entry->inputs.count; i++) {
        const sc_fact_input *input = &entry->inputs.data[i];
        uint64_t count = 1;
        for (uint32_t d = 0; d < input->rank; d++)
            count *= (uint64_t)input->sizes[d];
        if (input->dtype == SC_DTYPE_i32 && input->rank > 0)
            return count;
    }
    return 0;
}

void sc_metric_place(uint32_t metric, char out[SC_METRIC_NAME])
{
    /* total and weight precede the metrics */
    snprintf(out, SC_METRIC_NAME, "out%" PRIu32, metric + 2);
}

const char *sc_metric_name(const sc_fact_train *train, uint32_t metric, char out[SC_METRIC_NAME])
{
    if (train->metric_names != NULL && train->metric_names[metric] != NULL)
        return train->metric_names[metric];
    sc_metric_place(metric, out);
    return out;
}

/* ---- writing ---- */

static json_t *sizes_json(const int64_t *sizes, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer((json_int_t)sizes[i]));
    return list;
}

/* Streams are unsigned 64-bit numbers, which JSON integers cannot hold. */
static json_t *draw_json(const sc_distribution *distribution)
{
    return json_pack("{s:i, s:I, s:f, s:f, s:b, s:I, s:I, s:b, s:f}", "form",
                     (int)distribution->form, "stream", (json_int_t)distribution->stream, "mean",
                     distribution->mean, "spread", distribution->spread, "positive",
                     (int)distribution->is_positive, "low", (json_int_t)distribution->low, "high",
                     (json_int_t)distribution->high, "may_ignore", (int)distribution->may_ignore,
                     "ignore", distribution->ignore);
}

static json_t *type_json(const sc_fact_type *type)
{
    return json_pack("{s:s, s:o}", "text", type->text, "sizes",
                     sizes_json(type->sizes, type->rank));
}

static json_t *entry_json(const sc_fact_entry *entry)
{
    json_t *inputs = json_array(), *outputs = json_array();
    for (uint32_t i = 0; i < entry->inputs.count; i++) {
        const sc_fact_input *input = &entry->inputs.data[i];
        json_array_append_new(inputs, json_pack("{s:s, s:o, s:s, s:o, s:o}", "name", input->name,
                                                "type", type_json(&input->type), "dtype",
                                                sc_dtypes[input->dtype].name, "sizes",
                                                sizes_json(input->sizes, input->rank), "draw",
                                                draw_json(&input->distribution)));
    }
    for (uint32_t i = 0; i < entry->outputs.count; i++)
        json_array_append_new(outputs, type_json(&entry->outputs.data[i]));
    return json_pack("{s:s, s:I, s:o, s:o, s:b, s:b, s:f}", "name", entry->name, "func",
                     (json_int_t)entry->func, "inputs", inputs, "outputs", outputs, "cached",
                     (int)entry->is_cached, "minimised", (int)entry->is_minimised, "flops",
                     entry->flops);
}

static json_t *group_json(const sc_optimizer_settings *group)
{
    json_t *hyper = json_object();
    for (int i = 0; i < SC_HYPER_COUNT; i++)
        json_object_set_new(hyper, sc_hyper_names[i], json_real(group->hyper[i]));
    return json_pack("{s:s, s:{s:i, s:f, s:f, s:f, s:f}, s:o}", "kind",
                     sc_optimizers[group->kind].name, "lr", "kind", (int)group->lr.kind, "peak",
                     group->lr.peak, "warmup", group->lr.warmup, "total", group->lr.total, "floor",
                     group->lr.floor, "hyper", hyper);
}

static json_t *train_json(const sc_fact_train *train)
{
    json_t *groups = json_array(), *constants = json_array(), *names = json_array();
    for (uint32_t i = 0; i < train->groups.count; i++)
        json_array_append_new(groups, group_json(&train->groups.data[i]));
    if (train->metric_names != NULL) {
        for (uint32_t i = 0; i < train->metric_count; i++)
            json_array_append_new(names, train->metric_names[i] == NULL
                                             ? json_null()
                                             : json_string(train->metric_names[i]));
    }
    for (uint32_t i = 0; i < train->constants.count; i++)
        json_array_append_new(constants,
                              json_pack("{s:s, s:f}", "path", train->constants.data[i].path,
                                        "value", train->constants.data[i].value));
    return json_pack("{s:o, s:o, s:I, s:o, s:b, s:f, s:s}", "groups", groups, "constants",
                     constants, "metrics", (json_int_t)train->metric_count, "metric_names", names,
                     "scales", (int)train->scales, "flops", train->flops, "program",
                     train->program);
}

static json_t *param_json(const sc_fact_param *param)
{
    json_t *tensors = json_array(), *indexed = json_array(), *shape = json_array();
    for (uint32_t i = 0; i < param->tensor_count; i++)
        json_array_append_new(tensors, json_string(param->tensors[i]));
    for (uint32_t i = 0; i < param->rank; i++)
        json_array_append_new(indexed, json_boolean(param->layout.indexed[i]));
    for (uint32_t i = 0; i < param->shape_rank; i++)
        json_array_append_new(shape, json_integer((json_int_t)param->shape[i]));
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:s, s:o}", "path", param->path, "dtype",
        sc_dtypes[param->dtype].name, "sizes", sizes_json(param->sizes, param->rank), "strides",
        sizes_json(param->layout.strides, param->rank), "indexed", indexed, "offset",
        (json_int_t)param->layout.offset, "elements", (json_int_t)param->layout.elements,
        "boundaries", sizes_json(param->layout.boundaries, param->layout.boundary_count), "tensors",
        tensors, "wanted", param->wanted, "shape", shape);
}

static json_t *weights_json(const sc_fact_weights *weights)
{
    json_t *params = json_array(), *patterns = json_array();
    for (uint32_t i = 0; i < weights->count; i++)
        json_array_append_new(params, param_json(&weights->params[i]));
    for (uint32_t i = 0; i < weights->patterns.count; i++)
        json_array_append_new(patterns,
                              json_pack("{s:s, s:b}", "name", weights->patterns.data[i].text,
                                        "ignore", (int)weights->patterns.data[i].is_ignore));
    return json_pack("{s:b, s:o, s:o}", "block", (int)weights->has_block, "params", params,
                     "patterns", patterns);
}

/* Releases `root`. */
static const char *text_of(json_t *root, sc_arena *arena)
{
    char *text = sc_json_write(root, JSON_COMPACT);
    const char *copy = text == NULL ? NULL : sc_arena_copy_text(arena, text, strlen(text));
    free(text);
    json_decref(root);
    return copy;
}

const char *sc_weight_facts_write(const sc_fact_weights *weights, sc_arena *arena)
{
    return text_of(weights_json(weights), arena);
}

const char *sc_facts_write(const sc_facts *facts, sc_arena *arena)
{
    const sc_fact_generate *how = &facts->generate;
    json_t *generate =
        facts->generates
            ? json_pack("{s:I, s:I, s:I}", "prefill", (json_int_t)how->prefill, "decode",
                        (json_int_t)how->decode, "capacity", (json_int_t)how->capacity)
            : json_null();
    json_t *root =
        json_pack("{s:i, s:s, s:s?, s:o, s:o, s:o, s:o}", "version", SC_FACTS_VERSION, "model",
                  facts->model, "plan", facts->plan, "entry", entry_json(&facts->entry), "train",
                  facts->trains ? train_json(&facts->train) : json_null(), "generate", generate,
                  "weights", facts->weights.is_known ? weights_json(&facts->weights) : json_null());
    return text_of(root, arena);
}

/* ---- reading, untrusted ---- */

typedef struct reading {
    sc_arena *arena;
    const char *error; /* the first one */
} reading;

static bool fail(reading *r, const char *what)
{
    if (r->error == NULL)
        r->error = sc_arena_printf(r->arena, "the program's facts: %s", what);
    return false;
}

static const char *copy_of(reading *r, const char *text)
{
    return sc_arena_copy_text(r->arena, text, strlen(text));
}

/* Reads at most `most` integers, each at least `least`. */
static bool read_sizes(reading *r, const json_t *list, int64_t least, uint32_t most, int64_t *out,
                       uint32_t *out_count)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > most)
        return fail(r, "a list of sizes is none, or too long");
    for (size_t i = 0; i < count; i++) {
        out[i] = (int64_t)json_integer_value(json_array_get(list, i));
        if (out[i] < least)
            return fail(r, "a size is too small");
    }
    *out_count = (uint32_t)count;
    return true;
}

static bool read_dtype(reading *r, const char *name, sc_dtype *out)
{
    *out = sc_dtype_find(name);
    return *out < SC_DTYPE_COUNT || fail(r, "there is no such dtype");
}

static bool read_draw(reading *r, json_t *from, sc_distribution *out)
{
    json_int_t stream, low, high;
    int form, positive, may_ignore;
    if (json_unpack(from, "{s:i, s:I, s:F, s:F, s:b, s:I, s:I, s:b, s:F}", "form", &form, "stream",
                    &stream, "mean", &out->mean, "spread", &out->spread, "positive", &positive,
                    "low", &low, "high", &high, "may_ignore", &may_ignore, "ignore",
                    &out->ignore) != 0 ||
        form < SC_RANDOM_FLOAT || form > SC_RANDOM_BOOL)
        return fail(r, "how an input is drawn");
    out->form = (sc_distribution_form)form;
    out->stream = (uint64_t)stream;
    out->is_positive = positive != 0;
    out->low = low;
    out->high = high;
    out->may_ignore = may_ignore != 0;
    return true;
}

static bool read_type(reading *r, json_t *from, sc_fact_type *out)
{
    const char *text;
    json_t *sizes;
    if (json_unpack(from, "{s:s, s:o}", "text", &text, "sizes", &sizes) != 0)
        return fail(r, "a type");
    out->text = copy_of(r, text);
    return read_sizes(r, sizes, 1, SC_ARRAY_MAX_RANK, out->sizes, &out->rank);
}

static bool read_input(reading *r, json_t *from, sc_fact_input *out)
{
    const char *name, *dtype;
    json_t *type, *sizes, *distribution;
    if (json_unpack(from, "{s:s, s:o, s:s, s:o, s:o}", "name", &name, "type", &type, "dtype",
                    &dtype, "sizes", &sizes, "draw", &distribution) != 0)
        return fail(r, "an input");
    out->name = copy_of(r, name);
    return read_type(r, type, &out->type) && read_dtype(r, dtype, &out->dtype) &&
           read_sizes(r, sizes, 1, SC_ARRAY_MAX_RANK, out->sizes, &out->rank) &&
           read_draw(r, distribution, &out->distribution);
}

static bool read_entry(reading *r, json_t *from, sc_fact_entry *out)
{
    const char *name;
    json_int_t func;
    json_t *inputs, *outputs;
    int cached, minimised;
    if (json_unpack(from, "{s:s, s:I, s:o, s:o, s:b, s:b, s:F}", "name", &name, "func", &func,
                    "inputs", &inputs, "outputs", &outputs, "cached", &cached, "minimised",
                    &minimised, "flops", &out->flops) != 0 ||
        func < 0 || func > UINT32_MAX || !json_is_array(inputs) || !json_is_array(outputs))
        return fail(r, "the entry");
    out->name = copy_of(r, name);
    out->func = (uint32_t)func;
    out->is_cached = cached != 0;
    out->is_minimised = minimised != 0;
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        sc_fact_input *input = sc_vec_push(r->arena, &out->inputs);
        *input = (sc_fact_input){0};
        if (!read_input(r, json_array_get(inputs, i), input))
            return false;
    }
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        sc_fact_type *output = sc_vec_push(r->arena, &out->outputs);
        *output = (sc_fact_type){0};
        if (!read_type(r, json_array_get(outputs, i), output))
            return false;
    }
    return true;
}

static bool read_group(reading *r, json_t *from, sc_optimizer_settings *out)
{
    const char *kind;
    int rate;
    json_t *hyper;
    if (json_unpack(from, "{s:s, s:{s:i, s:F, s:F, s:F, s:F}, s:o}", "kind", &kind, "lr", "kind",
                    &rate, "peak", &out->lr.peak, "warmup", &out->lr.warmup, "total",
                    &out->lr.total, "floor", &out->lr.floor, "hyper", &hyper) != 0 ||
        rate < SC_RATE_CONSTANT || rate > SC_RATE_LINEAR)
        return fail(r, "an optimizer");
    out->lr.kind = (sc_rate_kind)rate;
    int found = 0;
    while (found < SC_OPTIMIZER_COUNT && strcmp(sc_optimizers[found].name, kind) != 0)
        found++;
    out->kind = (sc_optimizer_kind)found;
    for (int i = 0; i < SC_HYPER_COUNT; i++)
        out->hyper[i] = json_number_value(json_object_get(hyper, sc_hyper_names[i]));
    return found < SC_OPTIMIZER_COUNT || fail(r, "there is no such optimizer");
}

/* Programs built by older versions have none. */
static bool read_metric_names(reading *r, json_t *from, sc_fact_train *out)
{
    if (json_array_size(from) == 0)
        return true;
    if (json_array_size(from) != out->metric_count)
        return fail(r, "the names of metrics");
    const char **names = sc_arena_array(r->arena, out->metric_count, sizeof *names);
    for (uint32_t i = 0; i < out->metric_count; i++) {
        const char *name = json_string_value(json_array_get(from, i));
        names[i] = name == NULL ? NULL : copy_of(r, name);
    }
    out->metric_names = names;
    return true;
}

static bool read_train(reading *r, json_t *from, sc_fact_train *out)
{
    json_int_t metrics;
    json_t *groups, *constants;
    const char *program;
    int scales;
    if (json_unpack(from, "{s:o, s:o, s:I, s:b, s:F, s:s}", "groups", &groups, "constants",
                    &constants, "metrics", &metrics, "scales", &scales, "flops", &out->flops,
                    "program", &program) != 0 ||
        metrics < 0 || metrics > 1 << 20)
        return fail(r, "the train step");
    out->metric_count = (uint32_t)metrics;
    out->scales = scales != 0;
    out->program = copy_of(r, program);
    if (!read_metric_names(r, json_object_get(from, "metric_names"), out))
        return false;
    for (size_t i = 0; i < json_array_size(groups); i++) {
        sc_optimizer_settings *group = sc_vec_push(r->arena, &out->groups);
        *group = (sc_optimizer_settings){0};
        if (!read_group(r, json_array_get(groups, i), group))
            return false;
    }
    for (size_t i = 0; i < json_array_size(constants); i++) {
        sc_fact_constant *constant = sc_vec_push(r->arena, &out->constants);
        const char *path;
        if (json_unpack(json_array_get(constants, i), "{s:s, s:F}", "path", &path, "value",
                        &constant->value) != 0)
            return fail(r, "a constant");
        constant->path = copy_of(r, path);
    }
    return out->groups.count > 0 || fail(r, "the train step has no optimizer");
}

/* Checks that every element of the parameter is within its tensor. */
static bool check_layout(reading *r, const sc_fact_param *param)
{
    int64_t last = param->layout.offset, tensors = 1;
    for (uint32_t i = 0; i < param->rank; i++) {
        int64_t step;
        if (param->layout.indexed[i]
                ? __builtin_mul_overflow(tensors, param->sizes[i], &tensors)
                : __builtin_mul_overflow(param->sizes[i] - 1, param->layout.strides[i], &step) ||
                      __builtin_add_overflow(last, step, &last))
            return fail(r, "a layout of weights is too large");
    }
    return (last < param->layout.elements && tensors == (int64_t)param->tensor_count) ||
           fail(r, "a layout of weights does not fit");
}

static bool read_param(reading *r, json_t *from, sc_fact_param *out)
{
    const char *path, *dtype, *wanted;
    json_t *sizes, *strides, *indexed, *boundaries, *tensors, *shape;
    json_int_t offset, elements;
    int64_t written[SC_MAX_WEIGHT_DIMS] = {0};
    uint32_t strides_count = 0;
    if (json_unpack(from, "{s:s, s:s, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:s, s:o}", "path", &path,
                    "dtype", &dtype, "sizes", &sizes, "strides", &strides, "indexed", &indexed,
                    "offset", &offset, "elements", &elements, "boundaries", &boundaries, "tensors",
                    &tensors, "wanted", &wanted, "shape", &shape) != 0 ||
        offset < 0 || elements < 1)
        return fail(r, "a parameter of the weights");
    out->path = copy_of(r, path);
    out->wanted = copy_of(r, wanted);
    out->layout.offset = offset;
    out->layout.elements = elements;
    if (!read_dtype(r, dtype, &out->dtype) ||
        !read_sizes(r, sizes, 1, SC_ARRAY_MAX_RANK, out->sizes, &out->rank) ||
        !read_sizes(r, strides, 0, SC_ARRAY_MAX_RANK, out->layout.strides, &strides_count) ||
        !read_sizes(r, boundaries, 1, SC_MAX_WEIGHT_DIMS, out->layout.boundaries,
                    &out->layout.boundary_count) ||
        !read_sizes(r, shape, 1, SC_MAX_WEIGHT_DIMS, written, &out->shape_rank))
        return false;
    out->layout.rank = out->rank;
    if (strides_count != out->rank || json_array_size(indexed) != out->rank)
        return fail(r, "a layout of weights has another rank");
    for (uint32_t i = 0; i < out->rank; i++)
        out->layout.indexed[i] = json_is_true(json_array_get(indexed, i));
    for (uint32_t i = 0; i < out->shape_rank; i++)
        out->shape[i] = (uint64_t)written[i];
    out->tensor_count = (uint32_t)json_array_size(tensors);
    out->tensors = sc_arena_array(r->arena, out->tensor_count, sizeof *out->tensors);
    for (uint32_t i = 0; i < out->tensor_count; i++) {
        const char *name = json_string_value(json_array_get(tensors, i));
        if (name == NULL)
            return fail(r, "a tensor has no name");
        out->tensors[i] = copy_of(r, name);
    }
    return check_layout(r, out);
}

static bool read_patterns(reading *r, json_t *from, sc_fact_weights *out)
{
    for (size_t i = 0; i < json_array_size(from); i++) {
        const char *text;
        int ignore;
        if (json_unpack(json_array_get(from, i), "{s:s, s:b}", "name", &text, "ignore", &ignore) !=
            0)
            return fail(r, "a pattern of the weights");
        *sc_vec_push(r->arena, &out->patterns) =
            (sc_fact_pattern){.text = copy_of(r, text), .is_ignore = ignore != 0};
    }
    return true;
}

static bool read_weights(reading *r, json_t *from, sc_fact_weights *out)
{
    int block;
    json_t *params, *patterns;
    if (json_unpack(from, "{s:b, s:o, s:o}", "block", &block, "params", &params, "patterns",
                    &patterns) != 0 ||
        !json_is_array(params) || !json_is_array(patterns))
        return fail(r, "the weights");
    out->is_known = out->is_complete = true;
    out->has_block = block != 0;
    out->count = (uint32_t)json_array_size(params);
    out->params = sc_arena_array(r->arena, out->count + 1u, sizeof *out->params);
    for (uint32_t i = 0; i < out->count; i++) {
        if (!read_param(r, json_array_get(params, i), &out->params[i]))
            return false;
    }
    return read_patterns(r, patterns, out);
}

static bool read_generate(reading *r, json_t *from, sc_fact_generate *out)
{
    json_int_t prefill, decode, capacity;
    if (json_unpack(from, "{s:I, s:I, s:I}", "prefill", &prefill, "decode", &decode, "capacity",
                    &capacity) != 0 ||
        prefill < 0 || prefill >= UINT32_MAX || decode < 0 || decode >= UINT32_MAX || capacity < 1)
        return fail(r, "how it generates");
    *out = (sc_fact_generate){(uint32_t)prefill, (uint32_t)decode, capacity};
    return true;
}

static void read_root(reading *r, json_t *root, sc_facts *out)
{
    json_int_t version = 0;
    const char *model;
    json_t *plan, *entry, *train, *generate, *weights;
    if (json_unpack(root, "{s:I}", "version", &version) != 0 || version != SC_FACTS_VERSION) {
        fail(r,
             version == 0 ? "it was not made by 'shardc build'" : "they are from another version");
        return;
    }
    if (json_unpack(root, "{s:s, s:o, s:o, s:o, s:o, s:o}", "model", &model, "plan", &plan, "entry",
                    &entry, "train", &train, "generate", &generate, "weights", &weights) != 0) {
        fail(r, "something is missing");
        return;
    }
    out->model = copy_of(r, model);
    out->plan = json_is_string(plan) ? copy_of(r, json_string_value(plan)) : NULL;
    out->trains = !json_is_null(train);
    out->generates = !json_is_null(generate);
    if (out->generates && !read_generate(r, generate, &out->generate))
        return;
    if (read_entry(r, entry, &out->entry) && (!out->trains || read_train(r, train, &out->train)) &&
        !json_is_null(weights))
        read_weights(r, weights, &out->weights);
}

const char *sc_weight_facts_read(const char *json, sc_arena *arena, sc_fact_weights *out)
{
    reading r = {.arena = arena};
    json_error_t error;
    json_t *root = sc_json_read(json, strlen(json), 0, &error);
    *out = (sc_fact_weights){0};
    if (root == NULL)
        fail(&r, error.text);
    else
        read_weights(&r, root, out);
    json_decref(root);
    return r.error;
}

const char *sc_facts_read(const char *json, sc_arena *arena, sc_facts *out)
{
    reading r = {.arena = arena};
    json_error_t error;
    json_t *root = sc_json_read(json, strlen(json), 0, &error);
    *out = (sc_facts){0};
    if (root == NULL)
        fail(&r, error.text);
    else
        read_root(&r, root, out);
    json_decref(root);
    return r.error;
}
