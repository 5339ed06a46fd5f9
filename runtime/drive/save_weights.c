/* Plans the tensors of a weights file, and writes it one parameter at a time. */
#include "runtime/drive/save_weights.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/files/safetensors.h"
#include "runtime/session/shard.h"
#include "support/hash.h"
#include "support/none.h"

/* A tensor of the file to be written. */
typedef struct target {
    const char *name;
    sc_element element;
    uint32_t rank;
    uint64_t shape[SC_MAX_WEIGHT_DIMS];
    int64_t elements, given; /* given: filled by parameters so far */
    /* which elements are filled; NULL while one parameter fills all or none do */
    uint64_t *bits;
    uint32_t first, last; /* the parameters that fill it, in order */
    bool is_listed;
} target;

struct sc_weights_file {
    sc_context *context;
    const sc_fact_weights *weights;
    uint32_t **shares; /* by parameter and tensor: the targets that it fills */
    SC_VEC(target) targets;
    sc_map by_name;  /* symbol -> target */
    uint32_t *order; /* targets in the order of the file */
};

static const sc_fact_param *param_of(const sc_weights_file *f, uint32_t param)
{
    return &f->weights->params[param];
}

static void report(sc_weights_file *f, uint32_t param, const char *text)
{
    sc_report(&f->context->diag, SC_D_bad_weights, param_of(f, param)->loc, text, NULL);
}

/* ---- targets ---- */

/* Returns an element type that represents the values of both exactly. */
static sc_element wider(sc_element a, sc_element b)
{
    if (a == b)
        return a;
    size_t a_size = sc_element_size(a), b_size = sc_element_size(b);
    return a_size == b_size ? SC_ELEMENT_F32 : a_size > b_size ? a : b; /* bf16 and f16 */
}

static uint32_t add_target(sc_weights_file *f, uint32_t index, const char *name)
{
    const sc_fact_param *param = param_of(f, index);
    sc_element element = sc_element_of_dtype(param->dtype);
    bool is_new;
    uint32_t at = *sc_map_insert(&f->by_name, sc_intern_text(&f->context->names, name),
                                 f->targets.count, &is_new);
    if (is_new) {
        target *made = sc_vec_push(&f->context->arena, &f->targets);
        *made = (target){.name = name,
                         .element = element,
                         .elements = param->layout.elements,
                         .first = index,
                         .last = index,
                         .rank = param->shape_rank};
        memcpy(made->shape, param->shape, sizeof made->shape);
        return at;
    }
    target *into = &f->targets.data[at];
    into->last = index;
    into->element = wider(into->element, element);
    if (into->elements == param->layout.elements)
        return at;
    report(f, index,
           sc_arena_printf(&f->context->arena,
                           "tensor '%s' would have %lld elements for '%s', but %lld for '%s'",
                           into->name, (long long)param->layout.elements, param->path,
                           (long long)into->elements, param_of(f, into->first)->path));
    return SC_NONE;
}

/* ---- which parameter fills which elements ---- */

/* False: another parameter has filled the element. */
static bool give_element(sc_weights_file *f, target *into, int64_t element)
{
    if (into->given == into->elements)
        return false;
    if (into->bits == NULL)
        into->bits = sc_arena_array(&f->context->arena, (size_t)(into->elements / 64) + 1,
                                    sizeof *into->bits);
    uint64_t bit = (uint64_t)1 << element % 64, *word = &into->bits[element / 64];
    if ((*word & bit) != 0)
        return false;
    *word |= bit;
    into->given++;
    return true;
}

static bool give(sc_weights_file *f, uint32_t index, uint32_t *taken)
{
    const sc_fact_param *param = param_of(f, index);
    const uint32_t *targets = f->shares[index];
    int64_t count = 1;
    for (uint32_t i = 0; i < param->rank; i++)
        count *= param->sizes[i];
    int64_t each = count / param->tensor_count;
    bool whole = true;
    for (uint32_t i = 0; whole && i < param->tensor_count; i++)
        whole =
            f->targets.data[targets[i]].given == 0 && f->targets.data[targets[i]].elements == each;
    if (whole) {
        for (uint32_t i = 0; i < param->tensor_count; i++)
            f->targets.data[targets[i]].given = each;
    }
    sc_weight_place place = {{0}};
    if (!whole) {
        for (int64_t e = 0; e < count; e++, sc_weight_next(&param->layout, param->sizes, &place)) {
            *taken = targets[sc_weight_tensor(&param->layout, param->sizes, &place)];
            if (!give_element(f, &f->targets.data[*taken],
                              sc_weight_element(&param->layout, &place)))
                return false;
        }
    }
    return true;
}

static void add_param(sc_weights_file *f, uint32_t index)
{
    const sc_fact_param *param = param_of(f, index);
    uint32_t taken;
    f->shares[index] =
        sc_arena_array(&f->context->arena, param->tensor_count, sizeof *f->shares[index]);
    for (uint32_t i = 0; i < param->tensor_count; i++) {
        f->shares[index][i] = add_target(f, index, param->tensors[i]);
        if (f->shares[index][i] == SC_NONE)
            return;
    }
    if (param->tensor_count == 0 || give(f, index, &taken))
        return;
    const target *into = &f->targets.data[taken];
    report(f, index,
           sc_arena_printf(&f->context->arena,
                           "'%s' and '%s' would be written to the same elements of tensor '%s'",
                           param->path, param_of(f, into->first)->path, into->name));
    sc_report_note(
        &f->context->diag, (sc_loc){0},
        "in a weights block that is used for saving each parameter has elements of its own");
}

/* The first element that no parameter covers. */
static int64_t first_missing(const target *into)
{
    int64_t at = 0;
    if (into->bits == NULL)
        return 0;
    while ((into->bits[at / 64] >> at % 64 & 1) != 0)
        at++;
    return at;
}

static void check_complete(sc_weights_file *f)
{
    for (uint32_t i = 0; i < f->targets.count; i++) {
        const target *into = &f->targets.data[i];
        if (into->given == into->elements)
            continue;
        report(f, into->first,
               sc_arena_printf(&f->context->arena,
                               "tensor '%s' has %lld elements, but parameters cover only %lld of "
                               "them; element %lld belongs to none",
                               into->name, (long long)into->elements, (long long)into->given,
                               (long long)first_missing(into)));
        sc_report_note(
            &f->context->diag, (sc_loc){0},
            "write a line for each part of it, or give the parameters tensors of their own");
    }
}

/* ---- shapes taken from another file ---- */

static bool fits_all(const sc_weights_file *f, uint32_t index, const sc_safetensor *tensor)
{
    int64_t sizes[SC_MAX_WEIGHT_DIMS];
    if (tensor->rank > SC_MAX_WEIGHT_DIMS ||
        tensor->count != (uint64_t)f->targets.data[index].elements)
        return false;
    for (uint32_t i = 0; i < tensor->rank; i++)
        sizes[i] = (int64_t)tensor->shape[i];
    for (uint32_t p = 0; p < f->weights->count; p++) {
        for (uint32_t i = 0; i < param_of(f, p)->tensor_count; i++) {
            if (f->shares[p][i] == index &&
                !sc_weight_layout_fits(&param_of(f, p)->layout, tensor->rank, sizes))
                return false;
        }
    }
    return true;
}

/* Unreadable files have already been reported by the loader. */
static void take_shapes(sc_weights_file *f, const char *like)
{
    sc_safetensors_error error = {0};
    sc_safetensors *file = sc_safetensors_open(like, &error);
    if (file != NULL) {
        for (uint32_t i = 0; i < f->targets.count; i++) {
            target *into = &f->targets.data[i];
            const sc_safetensor *tensor = sc_safetensors_find(file, into->name);
            if (tensor == NULL || !fits_all(f, i, tensor))
                continue;
            into->rank = tensor->rank;
            for (uint32_t d = 0; d < tensor->rank; d++)
                into->shape[d] = tensor->shape[d];
        }
    }
    sc_safetensors_close(file);
}

/* ---- planning the file ---- */

/* Orders targets by the parameter that completes them. */
static void order_targets(sc_weights_file *f)
{
    uint32_t count = 0;
    f->order = sc_arena_array(&f->context->arena, f->targets.count + 1u, sizeof *f->order);
    for (uint32_t p = 0; p < f->weights->count; p++) {
        for (uint32_t i = 0; i < param_of(f, p)->tensor_count; i++) {
            target *into = &f->targets.data[f->shares[p][i]];
            if (into->last == p && !into->is_listed) {
                into->is_listed = true;
                f->order[count++] = f->shares[p][i];
            }
        }
    }
}

sc_weights_file *sc_weights_file_new(sc_context *context, const sc_fact_weights *weights,
                                     const char *like)
{
    uint32_t errors = context->diag.errors;
    sc_weights_file *f = sc_arena_alloc(&context->arena, sizeof *f);
    *f = (sc_weights_file){
        .context = context, .weights = weights, .by_name = {.arena = &context->arena}};
    f->shares = sc_arena_array(&context->arena, weights->count + 1u, sizeof *f->shares);
    for (uint32_t i = 0; i < weights->count; i++)
        add_param(f, i);
    if (context->diag.errors == errors && weights->is_complete)
        check_complete(f);
    if (context->diag.errors > errors || !weights->is_complete)
        return NULL;
    if (like != NULL && weights->has_block)
        take_shapes(f, like);
    order_targets(f);
    return f;
}

uint32_t sc_weights_file_count(const sc_weights_file *f)
{
    return f->targets.count;
}

void sc_weights_file_tensor(const sc_weights_file *f, uint32_t index, sc_weights_tensor *out)
{
    const target *from = &f->targets.data[f->order[index]];
    *out = (sc_weights_tensor){.name = from->name,
                               .element = from->element,
                               .rank = from->rank,
                               .shape = from->shape,
                               .elements = (uint64_t)from->elements};
}

bool sc_weights_file_parts(const sc_weights_file *f, uint32_t index, sc_weights_filler *fill,
                           void *user)
{
    const target *into = &f->targets.data[f->order[index]];
    for (uint32_t p = into->first; p <= into->last; p++) {
        for (uint32_t i = 0; i < param_of(f, p)->tensor_count; i++) {
            if (f->shares[p][i] == f->order[index] && !fill(user, param_of(f, p), i))
                return false;
        }
    }
    return true;
}

/* ---- checks before the run ---- */

static bool report_unwritten(const sc_weights_file *f, const char *path, const char *reason)
{
    sc_report(&f->context->diag, SC_D_cannot_write, (sc_loc){0}, path,
              sc_arena_printf(&f->context->arena, "%s", reason), NULL);
    return false;
}

bool sc_weights_file_try(const sc_weights_file *f, const char *path)
{
    sc_replacement file;
    double needed = 0, free_bytes;
    if (!sc_may_replace(path))
        return report_unwritten(f, path, "not a regular file");
    if (!sc_replacement_begin(&file, path, SC_SAFETENSORS_BEGIN_AT, SC_SAFETENSORS_BEGIN))
        return report_unwritten(f, path, strerror(file.file.reason));
    (void)sc_replacement_end(&file, false);
    for (uint32_t i = 0; i < f->targets.count; i++)
        needed += (double)f->targets.data[i].elements *
                  (double)sc_element_size(f->targets.data[i].element);
    char *folder = sc_parent_folder(path);
    bool fits = folder == NULL || !sc_free_bytes(folder, &free_bytes) || needed <= free_bytes;
    free(folder);
    return fits ||
           report_unwritten(f, path,
                            sc_arena_printf(&f->context->arena,
                                            "it will have %.0f bytes, but the disk has %.0f free",
                                            needed, free_bytes));
}

/* ---- writing ---- */

/* Parameters are processed one at a time; a tensor is written when its last parameter has been. */
typedef struct saving {
    const sc_weights_file *file;
    void **raw; /* by target: memory of those being filled */
    sc_safetensors_writer writer;
    bool writes;
} saving;

static bool failed(const sc_weights_file *f, const char *text)
{
    sc_report(&f->context->diag, SC_D_run_failed, (sc_loc){0}, text, NULL);
    return false;
}

/* False after a message. */
static bool fill(saving *s, uint32_t param, const sc_array *array)
{
    const sc_weights_file *f = s->file;
    const sc_fact_param *about = param_of(f, param);
    sc_weight_place place = {{0}};
    for (uint32_t i = 0; i < about->tensor_count; i++) {
        const target *into = &f->targets.data[f->shares[param][i]];
        void **raw = &s->raw[f->shares[param][i]];
        if (*raw == NULL &&
            (*raw = calloc((size_t)into->elements, sc_element_size(into->element))) == NULL)
            return failed(f, "there is not enough memory to write the parameters");
    }
    for (int64_t e = 0; e < array->count;
         e++, sc_weight_next(&about->layout, about->sizes, &place)) {
        uint32_t into = f->shares[param][sc_weight_tensor(&about->layout, about->sizes, &place)];
        uint64_t element = (uint64_t)sc_weight_element(&about->layout, &place);
        if (!sc_element_store(f->targets.data[into].element, s->raw[into], element, array->data[e]))
            return failed(
                f, sc_arena_printf(&f->context->arena,
                                   "'%s' has a value that the dtype of its tensor cannot hold",
                                   about->path));
    }
    return true;
}

/* Writes the tensors that are complete now. */
static void write_complete(saving *s, uint32_t param)
{
    for (uint32_t i = 0; i < param_of(s->file, param)->tensor_count; i++) {
        uint32_t index = s->file->shares[param][i];
        if (s->file->targets.data[index].last != param || s->raw[index] == NULL)
            continue;
        sc_safetensors_add(&s->writer, s->raw[index]);
        free(s->raw[index]);
        s->raw[index] = NULL;
    }
}

/* Every process requests every parameter, even after a write error, because the other processes
 * take part. */
static bool save_all(saving *s, sc_weights_source *source, void *user)
{
    bool ok = true;
    for (uint32_t p = 0; p < s->file->weights->count; p++) {
        sc_array array = source(user, p);
        ok = array.data != NULL && ok && (!s->writes || fill(s, p, &array));
        sc_array_free(&array);
        if (ok && s->writes)
            write_complete(s, p);
    }
    return ok;
}

static bool open_file(saving *s, const char *path, sc_safetensors_error *error)
{
    /* Hugging Face readers require this key */
    static const sc_safetensors_pair metadata[] = {{"format", "pt"}};
    const sc_weights_file *f = s->file;
    sc_safetensors_item *items =
        sc_arena_array(&f->context->arena, f->targets.count + 1u, sizeof *items);
    for (uint32_t i = 0; i < f->targets.count; i++) {
        const target *from = &f->targets.data[f->order[i]];
        items[i] = (sc_safetensors_item){
            .name = from->name, .element = from->element, .rank = from->rank, .shape = from->shape};
    }
    return sc_safetensors_create(&s->writer, path, items, f->targets.count, metadata, 1, error);
}

bool sc_weights_save(const sc_weights_file *f, const char *path, sc_weights_source *source,
                     void *user)
{
    sc_safetensors_error error = {0};
    saving s = {.file = f,
                .raw = sc_arena_array(&f->context->arena, f->targets.count + 1u, sizeof *s.raw)};
    s.writes = path != NULL && open_file(&s, path, &error);
    bool ok = save_all(&s, source, user);
    if (s.writes)
        (void)sc_safetensors_end(&s.writer, ok);
    for (uint32_t i = 0; i < f->targets.count; i++)
        free(s.raw[i]);
    if (error.count == 0)
        return ok;
    error.text[strcspn(error.text, "\n")] = 0;
    return report_unwritten(f, path, error.text);
}
