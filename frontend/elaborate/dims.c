/* Converts dims and shapes of the text to dims and types of the module. */
#include "frontend/elaborate/internal.h"

#include <string.h>

/* ---- dims ---- */
static void set_size(sc_builder *b, sc_dim dim, int64_t size)
{
    while (b->dims.sizes.count <= dim)
        *sc_vec_push(&b->context->arena, &b->dims.sizes) = 0;
    b->dims.sizes.data[dim] = size;
}

int64_t sc_build_size(const sc_builder *b, sc_dim dim)
{
    return dim < b->dims.sizes.count ? b->dims.sizes.data[dim] : 0;
}

uint32_t sc_build_leaves(const sc_builder *b, sc_dim dim, const sc_dim **leaves)
{
    const sc_dim_info *info = &b->m->dims.data[dim];
    *leaves = info->parts;
    return info->part_count;
}

sc_dim sc_build_root(const sc_builder *b, sc_dim dim)
{
    while (b->m->dims.data[dim].alias_of != SC_NONE)
        dim = b->m->dims.data[dim].alias_of;
    return dim;
}

bool sc_build_is_alias_of(const sc_builder *b, sc_dim dim, sc_dim of)
{
    while (dim != SC_NONE && dim != of)
        dim = b->m->dims.data[dim].alias_of;
    return dim == of;
}

sc_dim sc_build_new_dim(sc_builder *b, sc_sym name)
{
    sc_dim dim = sc_module_add_dim(b->m, name);
    set_size(b, dim, 0);
    return dim;
}

/* Finds a dim that an earlier build added to the same module, or adds it. */
static sc_dim find_or_add(sc_builder *b, sc_sym name, bool *is_new)
{
    sc_dim dim = sc_module_find_dim(b->m, name);
    *is_new = dim == SC_NONE;
    return *is_new ? sc_module_add_dim(b->m, name) : dim;
}

static sc_dim add_composite(sc_builder *b, const sc_dim_decl *decl, sc_loc loc)
{
    bool is_new;
    sc_dim *parts = sc_arena_array(&b->context->arena, decl->part_count, sizeof *parts);
    for (uint32_t i = 0; i < decl->part_count; i++) {
        parts[i] = sc_build_program_dim(b, decl->parts[i], loc);
        if (parts[i] == SC_NONE)
            return SC_NONE;
    }
    sc_dim dim = find_or_add(b, decl->name.text, &is_new);
    b->m->dims.data[dim].parts = parts;
    b->m->dims.data[dim].part_count = decl->part_count;
    return dim;
}

/* Adds an alias. An alias of a composite has its own leaves, J.K and J.G, so that both can be in
 * one tensor. */
static sc_dim add_alias(sc_builder *b, const sc_dim_decl *decl, sc_loc loc)
{
    bool is_new;
    sc_dim original = sc_build_program_dim(b, decl->original, loc);
    if (original == SC_NONE)
        return SC_NONE;
    sc_dim dim = find_or_add(b, decl->name.text, &is_new);
    b->m->dims.data[dim].alias_of = original;
    uint32_t count = b->m->dims.data[original].part_count;
    if (count == 0)
        return dim;
    sc_dim *parts = sc_arena_array(&b->context->arena, count, sizeof *parts);
    for (uint32_t i = 0; i < count; i++) {
        sc_dim leaf = b->m->dims.data[original].parts[i];
        const char *suffix = sc_name_text(b, b->m->dims.data[leaf].name),
                   *dot = strrchr(suffix, '.');
        parts[i] = find_or_add(b,
                               sc_intern_printf(&b->context->names, "%s.%s",
                                                sc_name_text(b, decl->name.text),
                                                dot == NULL ? suffix : dot + 1),
                               &is_new);
        b->m->dims.data[parts[i]].part_of = dim;
        b->m->dims.data[parts[i]].alias_of = leaf;
        set_size(b, parts[i], sc_build_size(b, leaf));
    }
    b->m->dims.data[dim].parts = parts;
    b->m->dims.data[dim].part_count = count;
    return dim;
}

static void report_unbound(sc_builder *b, const sc_dim_decl *decl, sc_loc loc)
{
    sc_build_error(b, SC_D_unbound_dim, loc, sc_name_text(b, b->request.entry),
                   sc_name_text(b, decl->name.text));
}

sc_dim sc_build_program_dim(sc_builder *b, uint32_t index, sc_loc loc)
{
    if (b->dims.module_dims[index] != SC_NONE)
        return b->dims.module_dims[index];
    const sc_dim_decl *decl = &b->program->dims.data[index];
    if (b->dims.needed != NULL)
        b->dims.needed[index] = true;
    if (decl->broken) {
        b->failed = true;
        return SC_NONE;
    }
    bool is_new;
    sc_dim dim = decl->form == SC_DIM_COMPOSITE ? add_composite(b, decl, loc)
                 : decl->form == SC_DIM_ALIAS   ? add_alias(b, decl, loc)
                                                : find_or_add(b, decl->name.text, &is_new);
    if (dim == SC_NONE)
        return SC_NONE;
    if (!b->request.symbolic && b->dims.program_sizes[index] == 0)
        report_unbound(b, decl, loc);
    set_size(b, dim, b->request.symbolic ? 0 : b->dims.program_sizes[index]);
    b->dims.module_dims[index] = dim;
    return dim;
}

static sc_dim find_binding(const sc_dim_binding_list *list, sc_sym name)
{
    for (uint32_t i = list->count; i-- > 0;) {
        if (list->data[i].name == name)
            return list->data[i].dim;
    }
    return SC_NONE;
}

sc_dim sc_build_find_dim(sc_frame *f, sc_name name)
{
    sc_dim dim = find_binding(&f->instance->params, name.text);
    if (dim == SC_NONE)
        dim = find_binding(&f->instance->substitutions, name.text);
    if (dim != SC_NONE)
        return dim;
    uint32_t index = sc_declarations_dim(f->b->program, name.text);
    return index == SC_NONE ? SC_NONE : sc_build_program_dim(f->b, index, name.loc);
}

sc_dim sc_build_dim(sc_frame *f, sc_name name)
{
    sc_dim dim = sc_build_find_dim(f, name);
    if (dim == SC_NONE) {
        f->b->failed = true;
        if (sc_declarations_dim(f->b->program, name.text) == SC_NONE)
            sc_report_unknown_dim(f->b->program, name);
    }
    return dim;
}

/* ---- shapes ---- */
static bool report_rank(sc_builder *b, sc_loc loc)
{
    sc_build_error(b, SC_D_too_large, loc,
                   sc_build_text(b, "a tensor has at most %d dims, the parts of composites counted",
                                 SC_MAX_RANK));
    return false;
}

static bool append_leaf(sc_builder *b, sc_type_info *type, sc_dim leaf, sc_dim group, sc_loc loc)
{
    if (sc_type_find_dim(type, leaf) >= 0) {
        sc_build_error(b, SC_D_repeated_dim, loc, "this shape",
                       sc_name_text(b, b->m->dims.data[leaf].name));
        return false;
    }
    if (type->rank == SC_MAX_RANK)
        return report_rank(b, loc);
    type->dims[type->rank++] = (sc_type_dim){leaf, group, sc_build_size(b, leaf)};
    return true;
}

static bool append_dim(sc_builder *b, sc_type_info *type, sc_dim dim, sc_loc loc)
{
    const sc_dim *leaves;
    uint32_t count = sc_build_leaves(b, dim, &leaves);
    if (count == 0)
        return append_leaf(b, type, dim, SC_NONE, loc);
    for (uint32_t i = 0; i < count; i++) {
        if (!append_leaf(b, type, leaves[i], dim, loc))
            return false;
    }
    return true;
}

bool sc_build_shape(sc_frame *f, const sc_shape *shape, sc_type_info *type, bool *rest)
{
    bool ok = true, open = false;
    type->rank = 0;
    type->placement = sc_placement_replicated();
    for (uint32_t i = 0; i < shape->dims.count; i++) {
        const sc_dimref *ref = &shape->dims.data[i];
        if (ref->rest) {
            if (i > 0 || rest == NULL) {
                sc_build_error(f->b, SC_D_bad_statement, ref->loc,
                               rest == NULL ? "'..' is not allowed here: only formals and results "
                                              "of blocks and fns may leave dims open"
                                            : "'..' stands for leading dims, so it comes first");
                ok = false;
            }
            open = true;
            continue;
        }
        sc_dim dim = sc_build_dim(f, ref->dim);
        ok = dim != SC_NONE && append_dim(f->b, type, dim, ref->loc) && ok;
        if (!ok && type->rank == SC_MAX_RANK)
            break; /* excess dims are reported once */
    }
    if (rest != NULL)
        *rest = open;
    return ok;
}

bool sc_build_dtype(sc_builder *b, sc_name name, sc_dtype *dtype)
{
    const char *text = sc_name_text(b, name.text);
    *dtype = sc_dtype_find(text);
    if (*dtype != SC_DTYPE_COUNT)
        return true;
    if (strcmp(text, "f8e4m3") == 0 || strcmp(text, "f8e5m2") == 0) {
        sc_build_error(b, SC_D_not_compiled, name.loc, sc_build_text(b, "dtype %s", text));
        return false;
    }
    sc_text_list list = {0};
    for (int i = 0; i < SC_DTYPE_COUNT; i++)
        *sc_vec_push(&b->context->arena, &list) = sc_dtypes[i].name;
    sc_build_error(b, SC_D_unknown_name, name.loc, text,
                   sc_build_text(b, "%s", sc_suggest(b->context, name.text, &list)));
    sc_build_note(b, (sc_loc){0}, "dtypes are f32, f64, bf16, f16, i32, i64, u8, bool");
    return false;
}

bool sc_build_declared(sc_frame *f, const sc_type_ref *ref, sc_dtype otherwise, sc_type_info *type,
                       bool *rest)
{
    type->dtype = otherwise;
    bool ok = ref->dtype.text == 0 || sc_build_dtype(f->b, ref->dtype, &type->dtype);
    return sc_build_shape(f, ref->shape, type, rest) && ok;
}

const char *sc_build_shape_text(const sc_builder *b, const sc_type_info *type, bool rest)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &b->context->arena);
    sc_strbuf_add(&out, rest ? "[.." : "[");
    for (uint32_t i = 0; i < type->rank; i++) {
        sc_dim group = type->dims[i].group;
        if (group != SC_NONE && i > 0 && type->dims[i - 1].group == group)
            continue;
        sc_strbuf_add(&out, rest || i > 0 ? ", " : "");
        sc_strbuf_add(
            &out,
            sc_name_text(b, b->m->dims.data[group != SC_NONE ? group : type->dims[i].dim].name));
    }
    sc_strbuf_add(&out, "]");
    return out.data;
}

static bool same_dims(const sc_type_info *actual, const sc_type_info *declared, bool rest)
{
    if (actual->rank < declared->rank || (!rest && actual->rank != declared->rank))
        return false;
    uint32_t skipped = actual->rank - declared->rank;
    for (uint32_t i = 0; i < declared->rank; i++) {
        if (actual->dims[skipped + i].dim != declared->dims[i].dim ||
            actual->dims[skipped + i].group != declared->dims[i].group)
            return false;
    }
    return true;
}

bool sc_build_check_shape(sc_frame *f, const char *what, sc_value value, sc_loc loc,
                          const sc_shape *declared, sc_frame *declared_in)
{
    sc_type_info wanted;
    bool rest;
    if (!sc_build_shape(declared_in, declared, &wanted, &rest))
        return false;
    const sc_type_info *actual = sc_build_type(f->b, value);
    if (same_dims(actual, &wanted, rest))
        return true;
    sc_build_error(f->b, SC_D_shape_mismatch, loc, what, sc_build_shape_text(f->b, actual, false),
                   sc_build_shape_text(f->b, &wanted, rest));
    sc_build_note(f->b, declared->loc, "declared here");
    return false;
}

void sc_build_pins(sc_frame *f, const sc_shape *shape, sc_sym path)
{
    sc_builder *b = f->b;
    if (b->result == NULL)
        return;
    for (uint32_t i = 0; i < shape->dims.count; i++) {
        const sc_dimref *ref = &shape->dims.data[i];
        if (ref->axes.count == 0)
            continue;
        bool is_new;
        sc_map_insert(&b->entry.pins, ((uint64_t)path << 32) | ref->loc.begin, 0, &is_new);
        sc_dim dim = is_new ? sc_build_find_dim(f, ref->dim) : SC_NONE;
        if (dim != SC_NONE)
            *sc_vec_push(&b->context->arena, &b->result->pins) =
                (sc_inline_pin){path, dim, ref->axes, ref->loc};
    }
}
