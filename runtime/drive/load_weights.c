/* Finds and checks the tensors of all parameters, then reads the boxes that are asked for. */
#include "runtime/drive/load_weights.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program/optimizer.h"
#include "runtime/drive/read_param.h"
#include "runtime/drive/state_set.h"
#include "runtime/drive/unread_tensors.h"
#include "support/hash.h"
#include "support/strbuf.h"

/* A problem of a parameter's tensor, and the number of others with the same problem in other
 * instances. */
typedef struct problem {
    sc_loc loc;
    const char *text;
    uint32_t others;
} problem;

struct sc_weights_reading {
    sc_context *context;
    const sc_fact_weights *weights;
    sc_safetensors *file;
    const char *path;
    const sc_safetensor ***tensors; /* by parameter, in the order of its facts */
    const char **names;             /* of all tensors; built when one is missing */
    SC_VEC(problem) problems;
    /* key: symbol of the parameter without indices, and the kind of problem */
    sc_map problem_kinds;
};

typedef sc_weights_reading loading;

/* ---- tensors ---- */

static const char *shape_text(sc_arena *arena, uint32_t rank, const uint64_t *shape)
{
    sc_strbuf text;
    sc_strbuf_init(&text, arena);
    sc_strbuf_add_char(&text, '[');
    for (uint32_t i = 0; i < rank; i++)
        sc_strbuf_printf(&text, "%s%llu", i > 0 ? ", " : "", (unsigned long long)shape[i]);
    sc_strbuf_add_char(&text, ']');
    return text.data;
}

static const char *nearest_tensor(loading *l, const char *name)
{
    size_t count = sc_safetensors_count(l->file);
    if (l->names == NULL) {
        l->names = sc_arena_array(&l->context->arena, count, sizeof *l->names);
        for (size_t i = 0; i < count; i++)
            l->names[i] = sc_safetensors_at(l->file, i)->name;
    }
    const char *near = sc_nearest(name, l->names, count);
    return near == NULL ? "" : sc_arena_printf(&l->context->arena, "; did you mean '%s'?", near);
}

static const char *missing_text(loading *l, const sc_fact_param *param, const char *name)
{
    const char *rule = l->weights->has_block
                           ? ""
                           : " (without a 'weights' block tensors are called like parameters)";
    return sc_arena_printf(&l->context->arena, "%s has no tensor '%s' for '%s'%s%s", l->path, name,
                           param->path, rule, nearest_tensor(l, name));
}

static const char *shape_problem_text(loading *l, const sc_fact_param *param, const char *name,
                                      const sc_safetensor *tensor)
{
    sc_arena *arena = &l->context->arena;
    return sc_arena_printf(
        arena,
        "tensor '%s' has shape %s, but '%s' needs %s of %lld elements (neighbours may be merged)",
        name, shape_text(arena, tensor->rank, tensor->shape), param->path, param->wanted,
        (long long)param->layout.elements);
}

static bool is_float(sc_element element)
{
    return element == SC_ELEMENT_F64 || element == SC_ELEMENT_F32 || element == SC_ELEMENT_BF16 ||
           element == SC_ELEMENT_F16;
}

static bool has_shape(const sc_fact_param *param, const sc_safetensor *tensor)
{
    int64_t sizes[SC_MAX_WEIGHT_DIMS];
    bool fits = tensor->rank <= SC_MAX_WEIGHT_DIMS;
    for (uint32_t i = 0; fits && i < tensor->rank; i++) {
        fits = tensor->shape[i] <= INT64_MAX;
        sizes[i] = (int64_t)tensor->shape[i];
    }
    return fits && sc_weight_layout_fits(&param->layout, tensor->rank, sizes);
}

typedef enum tensor_fault { FITS, MISSING, OTHER_SHAPE, OTHER_DTYPE } tensor_fault;

static tensor_fault fault_of(const sc_fact_param *param, const sc_safetensor *tensor)
{
    if (tensor == NULL)
        return MISSING;
    if (!has_shape(param, tensor))
        return OTHER_SHAPE;
    return !is_float(tensor->element) && sc_dtype_is_float(param->dtype) ? OTHER_DTYPE : FITS;
}

/* layers[3].attn.wq -> layers[].attn.wq */
static sc_sym kind_of_problem(sc_context *context, const char *path, tensor_fault fault)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    for (; *path != 0; path += strspn(path, "0123456789")) {
        size_t length = strcspn(path, "[");
        length += path[length] == '[';
        sc_strbuf_add_bytes(&text, path, length);
        path += length;
    }
    sc_strbuf_printf(&text, " %d", (int)fault);
    return sc_intern_text(&context->names, text.data);
}

static void check_tensor(loading *l, const sc_fact_param *param, const char *name,
                         const sc_safetensor *tensor)
{
    bool is_new;
    tensor_fault fault = fault_of(param, tensor);
    if (fault == FITS)
        return;
    uint32_t at = *sc_map_insert(&l->problem_kinds, kind_of_problem(l->context, param->path, fault),
                                 l->problems.count, &is_new);
    if (!is_new) {
        l->problems.data[at].others++;
        return;
    }
    problem *made = sc_vec_push(&l->context->arena, &l->problems);
    *made = (problem){.loc = param->loc};
    if (fault == MISSING)
        made->text = missing_text(l, param, name);
    else if (fault == OTHER_SHAPE)
        made->text = shape_problem_text(l, param, name, tensor);
    else
        made->text =
            sc_arena_printf(&l->context->arena, "tensor '%s' for '%s' holds %s, not floats", name,
                            param->path, sc_element_name(tensor->element));
}

static void find_tensors(loading *l, uint32_t index)
{
    const sc_fact_param *param = &l->weights->params[index];
    l->tensors[index] =
        sc_arena_array(&l->context->arena, param->tensor_count, sizeof *l->tensors[index]);
    for (uint32_t i = 0; i < param->tensor_count; i++) {
        l->tensors[index][i] = sc_safetensors_find(l->file, param->tensors[i]);
        check_tensor(l, param, param->tensors[i], l->tensors[index][i]);
    }
}

/* ---- the report ---- */

/* Limits the report to a page: a file of another model fails in hundreds of tensors. A message that
 * quotes its source line takes three lines. */
enum { MOST_LINES = 10, LEAST_LINES = 5, LINES_OF_PLACE = 3 };

static void report_problems(loading *l, uint32_t most_lines)
{
    uint32_t count = l->problems.count, rest = 0;
    bool has_places = count * LINES_OF_PLACE <= most_lines;
    for (uint32_t i = 0; i < count; i++) {
        const problem *p = &l->problems.data[i];
        if (i >= most_lines) {
            rest += 1 + p->others;
            continue;
        }
        const char *more = p->others == 0 ? ""
                                          : sc_arena_printf(&l->context->arena,
                                                            " (and %u more like it)", p->others);
        sc_report(&l->context->diag, SC_D_weights_file, has_places ? p->loc : (sc_loc){0},
                  sc_arena_printf(&l->context->arena, "%s%s", p->text, more), NULL);
    }
    if (rest > 0)
        sc_report_note(&l->context->diag, (sc_loc){0}, "%u more tensors do not fit either", rest);
}

/* False after messages. */
static bool check_file(loading *l)
{
    sc_unread_tensors unread = {0};
    for (uint32_t i = 0; i < l->weights->count; i++)
        find_tensors(l, i);
    if (l->weights->is_complete)
        sc_unread_find(l->context, l->weights, l->file, l->path, &unread);
    uint32_t lines = sc_unread_lines(&unread);
    if (l->problems.count > 0 && lines > LEAST_LINES)
        lines = LEAST_LINES;
    report_problems(l, lines < MOST_LINES ? MOST_LINES - lines : MOST_LINES);
    sc_unread_report(l->context, l->weights, l->path, &unread,
                     l->problems.count > 0 ? lines : MOST_LINES);
    return l->weights->is_complete && l->problems.count == 0 && unread.count == 0;
}

static void report_file(sc_context *context, const sc_safetensors_error *error)
{
    for (const char *line = error->text; *line != 0;) {
        size_t length = strcspn(line, "\n");
        sc_report(&context->diag, SC_D_weights_file, (sc_loc){0},
                  sc_arena_copy_text(&context->arena, line, length), NULL);
        line += length + (line[length] == '\n');
    }
}

/* True if the path is a checkpoint. It is a folder, too, but its tensors are named and laid out for
 * resuming. */
static bool is_state(sc_context *context, const char *path)
{
    static const char *const files[] = {"state.json", "latest"};
    bool found = false;
    for (size_t i = 0; i < sizeof files / sizeof *files && !found; i++)
        found = access(sc_arena_printf(&context->arena, "%s/%s", path, files[i]), F_OK) == 0;
    if (found)
        sc_report(&context->diag, SC_D_weights_file, (sc_loc){0},
                  sc_arena_printf(&context->arena,
                                  "%s is the state of a training run, not weights: 'train --resume "
                                  "%s --save FILE' writes its parameters",
                                  path, path),
                  NULL);
    return found;
}

sc_weights_reading *sc_weights_open(sc_context *context, const sc_fact_weights *weights,
                                    const char *path)
{
    sc_safetensors_error error = {0};
    sc_weights_reading *l = sc_arena_alloc(&context->arena, sizeof *l);
    *l = (sc_weights_reading){.context = context,
                              .weights = weights,
                              .path = path,
                              .problem_kinds = {.arena = &context->arena}};
    l->tensors = sc_arena_array(&context->arena, weights->count + 1u, sizeof *l->tensors);
    if (is_state(context, path))
        return NULL;
    l->file = sc_safetensors_open(path, &error);
    if (l->file == NULL)
        report_file(context, &error);
    if (l->file != NULL && check_file(l))
        return l;
    sc_weights_close(l);
    return NULL;
}

void sc_weights_close(sc_weights_reading *reading)
{
    if (reading != NULL)
        sc_safetensors_close(reading->file);
}

/* ---- values ---- */

bool sc_weights_read(sc_weights_reading *l, uint32_t param, const sc_shard_place *place,
                     sc_element element, void *local)
{
    sc_read_failure failure = {0};
    if (sc_param_read(l->file, &l->weights->params[param], l->tensors[param], place, element, local,
                      &failure))
        return true;
    sc_report(&l->context->diag, SC_D_weights_file, (sc_loc){0},
              sc_arena_printf(&l->context->arena, "%s: tensor '%s' cannot be read: %s",
                              sc_safetensors_label(l->file, failure.tensor), failure.tensor->name,
                              failure.reason),
              NULL);
    return false;
}

/* ---- the shards of an executor ---- */

typedef struct filling {
    sc_weights_reading *reading;
    uint32_t param;
} filling;

static bool fill_box(void *user, const sc_shard_place *place, sc_element element, void *local)
{
    const filling *f = user;
    return sc_weights_read(f->reading, f->param, place, element, local);
}

/* A master copy is a state of its own, and may be sharded otherwise. */
static bool fill_param(filling *f, const sc_state_set *set, const sc_map *by_name, void *room)
{
    static const char *const suffixes[] = {"", SC_MASTER_SUFFIX};
    sc_context *context = f->reading->context;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const char *name = sc_arena_printf(&context->arena, "%s%s",
                                           f->reading->weights->params[f->param].path, suffixes[i]);
        const uint32_t *at = sc_map_find(by_name, sc_intern_text(&context->names, name));
        if (at != NULL && !sc_state_fill(context, set, *at, room, fill_box, f))
            return false;
    }
    return true;
}

bool sc_weights_fill(sc_weights_reading *l, const sc_executor *executor)
{
    sc_map by_name = {.arena = &l->context->arena};
    sc_state_set set;
    filling f = {.reading = l};
    void *room = executor->room_bytes > 0 ? malloc((size_t)executor->room_bytes) : NULL;
    bool ok = executor->room_bytes == 0 || room != NULL;
    if (!ok)
        sc_report(&l->context->diag, SC_D_run_failed, (sc_loc){0},
                  "there is not enough memory for the parameters", NULL);
    sc_state_set_of(l->context, executor, true, &set);
    for (uint32_t i = 0; i < set.count; i++)
        sc_map_insert(&by_name, sc_intern_text(&l->context->names, sc_state_info(&set, i)->name), i,
                      NULL);
    for (; f.param < l->weights->count; f.param++) {
        if (ok)
            ok = fill_param(&f, &set, &by_name, room);
    }
    free(room);
    return ok;
}

bool sc_weights_load(sc_context *context, const sc_fact_weights *weights, const char *path,
                     const sc_executor *executor)
{
    sc_weights_reading *reading = sc_weights_open(context, weights, path);
    bool ok = reading != NULL && sc_weights_fill(reading, executor);
    sc_weights_close(reading);
    return ok;
}
