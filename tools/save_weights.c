#include "tools/save_weights.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/safetensors.h"
#include "tools/elements.h"
#include "tools/weight_shape.h"

/* A tensor of the file to be written. */
typedef struct target {
    const char *name;
    sc_element element;
    uint32_t rank;
    uint64_t shape[SC_MAX_WEIGHT_DIMS];
    int64_t elements, given; /* given: by parameters so far */
    uint64_t *bits;          /* which are given; NULL while one parameter gives all or none does */
    uint32_t first;          /* the state that gave it first */
} target;

/* What one parameter gives. */
typedef struct share {
    const sc_wmap *line;
    sc_weight_tensors named;
    uint32_t *targets; /* as named */
} share;

struct sc_weights_file {
    sc_context *context;
    sc_program *program;
    const sc_weights *weights;
    const sc_module *m;
    share *shares; /* by state */
    sc_weight_roles roles;
    SC_VEC(target) targets;
    sc_map by_name; /* symbol -> target */
};

static const sc_type_info *type_of(const sc_weights_file *f, uint32_t state)
{
    return &f->m->types.data[f->m->state.data[state].type];
}

static const char *path_of(const sc_weights_file *f, uint32_t state)
{
    return sc_text(f->context, f->m->state.data[state].path);
}

static bool is_param(const sc_weights_file *f, uint32_t state)
{
    return f->m->state.data[state].kind == SC_STATE_PARAM;
}

static void report(sc_weights_file *f, uint32_t state, const char *text)
{
    const sc_wmap *line = f->shares[state].line;
    sc_report(&f->context->diag, SC_D_bad_weights, line == NULL ? f->m->state.data[state].loc : line->loc, text, NULL);
}

/* ---- targets ---- */

/* One that holds the values of both exactly. */
static sc_element wider(sc_element a, sc_element b)
{
    if (a == b)
        return a;
    size_t a_size = sc_element_size(a), b_size = sc_element_size(b);
    return a_size == b_size ? SC_ELEMENT_F32 : a_size > b_size ? a : b; /* bf16 and f16 */
}

static uint32_t add_target(sc_weights_file *f, uint32_t state, sc_sym name)
{
    const sc_weight_layout *layout = &f->shares[state].named.layout;
    sc_element element = sc_dtype_element(type_of(f, state)->dtype);
    bool is_new;
    uint32_t index = *sc_map_insert(&f->by_name, name, f->targets.count, &is_new);
    if (is_new) {
        target *made = sc_vec_push(&f->context->arena, &f->targets);
        *made = (target){.name = sc_text(f->context, name), .element = element, .elements = layout->elements, .first = state};
        made->rank = sc_weight_shape(layout, type_of(f, state), f->roles.of[state], made->shape);
        return index;
    }
    target *into = &f->targets.data[index];
    into->element = wider(into->element, element);
    if (into->elements == layout->elements)
        return index;
    report(f, state,
           sc_arena_printf(&f->context->arena, "tensor '%s' would have %lld elements for '%s', but %lld for '%s'", into->name,
                           (long long)layout->elements, path_of(f, state), (long long)into->elements, path_of(f, into->first)));
    return SC_NONE;
}

/* ---- who gives which elements ---- */

/* False: another parameter gave it. */
static bool give_element(sc_weights_file *f, target *into, int64_t element)
{
    if (into->given == into->elements)
        return false;
    if (into->bits == NULL)
        into->bits = sc_arena_array(&f->context->arena, (size_t)(into->elements / 64) + 1, sizeof *into->bits);
    uint64_t bit = (uint64_t)1 << element % 64, *word = &into->bits[element / 64];
    if ((*word & bit) != 0)
        return false;
    *word |= bit;
    into->given++;
    return true;
}

static bool give(sc_weights_file *f, uint32_t state, uint32_t *taken)
{
    const share *from = &f->shares[state];
    const sc_type_info *type = type_of(f, state);
    int64_t count = sc_type_elements(type), each = count / from->named.count;
    bool whole = true;
    for (uint32_t i = 0; whole && i < from->named.count; i++)
        whole = f->targets.data[from->targets[i]].given == 0 && f->targets.data[from->targets[i]].elements == each;
    for (uint32_t i = 0; whole && i < from->named.count; i++)
        f->targets.data[from->targets[i]].given = each;
    sc_weight_place place = {{0}};
    for (int64_t e = 0; !whole && e < count; e++, sc_weight_next(type, &place)) {
        *taken = from->targets[sc_weight_tensor(&from->named.layout, type, &place)];
        if (!give_element(f, &f->targets.data[*taken], sc_weight_element(&from->named.layout, &place)))
            return false;
    }
    return true;
}

static void add_param(sc_weights_file *f, uint32_t state)
{
    share *from = &f->shares[state];
    uint32_t taken;
    from->targets = sc_arena_array(&f->context->arena, from->named.count, sizeof *from->targets);
    for (uint32_t i = 0; i < from->named.count; i++) {
        from->targets[i] = add_target(f, state, from->named.names[i]);
        if (from->targets[i] == SC_NONE)
            return;
    }
    if (give(f, state, &taken))
        return;
    const target *into = &f->targets.data[taken];
    report(f, state,
           sc_arena_printf(&f->context->arena, "'%s' and '%s' would be written to the same elements of tensor '%s'", path_of(f, state),
                           path_of(f, into->first), into->name));
    sc_report_note(&f->context->diag, (sc_loc){0}, "a weights block that files are written through gives each parameter its own elements");
}

static void check_complete(sc_weights_file *f)
{
    for (uint32_t i = 0; i < f->targets.count; i++) {
        const target *into = &f->targets.data[i];
        int64_t missing = 0;
        if (into->given == into->elements)
            continue;
        while (into->bits != NULL && (into->bits[missing / 64] >> missing % 64 & 1) != 0)
            missing++;
        report(f, into->first,
               sc_arena_printf(&f->context->arena,
                               "tensor '%s' has %lld elements, but parameters give %lld of them; element %lld is none's", into->name,
                               (long long)into->elements, (long long)into->given, (long long)missing));
        sc_report_note(&f->context->diag, (sc_loc){0}, "give each part of it a line, or the parameters tensors of their own");
    }
}

/* ---- shapes of another file ---- */

static bool fits_all(const sc_weights_file *f, uint32_t index, const sc_safetensor *tensor)
{
    int64_t sizes[SC_MAX_WEIGHT_DIMS];
    if (tensor->rank > SC_MAX_WEIGHT_DIMS || tensor->count != (uint64_t)f->targets.data[index].elements)
        return false;
    for (uint32_t i = 0; i < tensor->rank; i++)
        sizes[i] = (int64_t)tensor->shape[i];
    for (uint32_t s = 0; s < f->m->state.count; s++) {
        const share *from = &f->shares[s];
        for (uint32_t i = 0; i < from->named.count; i++) {
            if (from->targets[i] == index && !sc_weight_layout_fits(&from->named.layout, tensor->rank, sizes))
                return false;
        }
    }
    return true;
}

/* A file that cannot be read has been reported by whoever loaded it. */
static void take_shapes(sc_weights_file *f, const char *like)
{
    sc_safetensors_error error = {0};
    sc_safetensors *file = sc_safetensors_open(like, &error);
    for (uint32_t i = 0; file != NULL && i < f->targets.count; i++) {
        target *into = &f->targets.data[i];
        const sc_safetensor *tensor = sc_safetensors_find(file, into->name);
        if (tensor == NULL || !fits_all(f, i, tensor))
            continue;
        into->rank = tensor->rank;
        for (uint32_t d = 0; d < tensor->rank; d++)
            into->shape[d] = tensor->shape[d];
    }
    sc_safetensors_close(file);
}

/* ---- without a weights block ---- */

/* The parameter's own dims, composites as one: what the model text declares. */
static void take_own_shape(sc_weights_file *f, uint32_t state)
{
    const sc_type_info *type = type_of(f, state);
    target *into = &f->targets.data[f->shares[state].targets[0]];
    into->rank = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        bool joined = i > 0 && type->dims[i].group != SC_NONE && type->dims[i].group == type->dims[i - 1].group;
        if (joined)
            into->shape[into->rank - 1] *= (uint64_t)type->dims[i].size;
        else
            into->shape[into->rank++] = (uint64_t)type->dims[i].size;
    }
}

/* ---- the whole ---- */

sc_weights_file *sc_weights_file_new(sc_context *context, sc_program *program, const sc_weights *weights, const sc_module *m,
                                     const char *like)
{
    uint32_t errors = context->diag.errors;
    sc_weights_file *f = sc_arena_alloc(&context->arena, sizeof *f);
    *f = (sc_weights_file){.context = context, .program = program, .weights = weights, .m = m, .by_name = {.arena = &context->arena}};
    f->shares = sc_arena_array(&context->arena, m->state.count + 1u, sizeof *f->shares);
    sc_weight_roles_find(m, &f->roles);
    const sc_wmap **lines = weights == NULL ? NULL : sc_weights_lines(context, weights, m);
    for (uint32_t i = 0; i < m->state.count; i++) {
        if (!is_param(f, i))
            continue;
        f->shares[i].line = lines == NULL ? NULL : lines[i];
        bool has_place = lines == NULL || lines[i] != NULL;
        if (!has_place || !sc_weights_tensors(program, weights, f->shares[i].line, m, i, &f->shares[i].named))
            continue;
        add_param(f, i);
        if (lines == NULL)
            take_own_shape(f, i);
    }
    if (context->diag.errors == errors)
        check_complete(f);
    if (context->diag.errors > errors)
        return NULL;
    if (like != NULL && weights != NULL)
        take_shapes(f, like);
    return f;
}

/* ---- writing ---- */

static bool fill(const sc_weights_file *f, uint32_t state, const sc_array *array, void **raw)
{
    const share *from = &f->shares[state];
    const sc_type_info *type = type_of(f, state);
    sc_weight_place place = {{0}};
    for (int64_t e = 0; e < array->count; e++, sc_weight_next(type, &place)) {
        uint32_t into = from->targets[sc_weight_tensor(&from->named.layout, type, &place)];
        uint64_t element = (uint64_t)sc_weight_element(&from->named.layout, &place);
        if (!sc_element_store(f->targets.data[into].element, raw[into], element, array->data[e]))
            return false;
    }
    return true;
}

static bool fill_all(const sc_weights_file *f, sc_weights_source *source, void *user, void **raw)
{
    for (uint32_t i = 0; i < f->targets.count; i++) {
        const target *into = &f->targets.data[i];
        raw[i] = calloc((size_t)into->elements, sc_element_size(into->element));
        if (raw[i] == NULL)
            return false;
    }
    for (uint32_t i = 0; i < f->m->state.count; i++) {
        if (!is_param(f, i))
            continue;
        sc_array array = source(user, i);
        bool ok = array.data != NULL && fill(f, i, &array, raw);
        sc_array_free(&array);
        if (!ok)
            return false;
    }
    return true;
}

static bool write_tensors(const sc_weights_file *f, const char *path, void **raw)
{
    /* readers of Hugging Face's files refuse one that does not say this */
    static const sc_safetensors_pair metadata[] = {{"format", "pt"}};
    sc_safetensors_error error = {0};
    sc_safetensors_item *items = sc_arena_array(&f->context->arena, f->targets.count + 1u, sizeof *items);
    for (uint32_t i = 0; i < f->targets.count; i++) {
        const target *from = &f->targets.data[i];
        items[i] =
            (sc_safetensors_item){.name = from->name, .element = from->element, .rank = from->rank, .shape = from->shape, .raw = raw[i]};
    }
    if (sc_safetensors_write(path, items, f->targets.count, metadata, 1, &error))
        return true;
    sc_report(&f->context->diag, SC_D_cannot_write, (sc_loc){0}, path,
              sc_arena_copy_text(&f->context->arena, error.text, strcspn(error.text, "\n")), NULL);
    return false;
}

bool sc_weights_save(const sc_weights_file *f, const char *path, sc_weights_source *source, void *user)
{
    void **raw = sc_arena_array(&f->context->arena, f->targets.count + 1u, sizeof *raw);
    bool ok = fill_all(f, source, user, raw);
    if (!ok)
        sc_report(&f->context->diag, SC_D_run_failed, (sc_loc){0}, "there is not enough memory to write the parameters", NULL);
    ok = ok && write_tensors(f, path, raw);
    for (uint32_t i = 0; i < f->targets.count; i++)
        free(raw[i]);
    return ok;
}
