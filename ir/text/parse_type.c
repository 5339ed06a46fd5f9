/* Parses names, numbers, sub-axes, dims and types of `shardc.ir 1`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text/parse_internal.h"
#include "support/number.h"

/* ---- names and numbers ---- */

bool sc_parse_name(sc_parser *p, const char *what, sc_sym *out_name)
{
    if (p->token.kind != SC_TOKEN_WORD && p->token.kind != SC_TOKEN_STRING)
        return sc_parse_expected(p, what);
    *out_name = p->token.sym;
    sc_parse_advance(p);
    return true;
}

bool sc_parse_string(sc_parser *p, const char *what, sc_sym *out_text)
{
    if (p->token.kind != SC_TOKEN_STRING)
        return sc_parse_expected(p, what);
    return sc_parse_name(p, what, out_text);
}

bool sc_parse_integer(sc_parser *p, int64_t low, int64_t high, int64_t *out_value)
{
    sc_loc loc = sc_parse_loc(p);
    bool negative = sc_parse_accept(p, '-');
    if (p->token.kind != SC_TOKEN_NUMBER)
        return sc_parse_expected(p, "an integer");
    const char *text = p->lexer.text + p->token.begin;
    int64_t value = 0;
    for (uint32_t i = 0; i < p->token.end - p->token.begin; i++) {
        if (text[i] < '0' || text[i] > '9')
            return sc_parse_expected(p, "an integer");
        int digit = text[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return sc_parse_fail(p, loc, "this number does not fit 64 bits");
    }
    if (value < low || value > high)
        return sc_parse_fail(p, loc, "%lld is not between %lld and %lld", (long long)value,
                             (long long)low, (long long)high);
    sc_parse_advance(p);
    *out_value = value;
    return true;
}

bool sc_parse_number(sc_parser *p, double *out_value)
{
    sc_loc loc = sc_parse_loc(p);
    double sign = sc_parse_accept(p, '-') ? -1.0 : 1.0;
    if (sc_parse_accept_word(p, "inf")) {
        *out_value = sign * INFINITY;
        return true;
    }
    if (sc_parse_accept_word(p, "nan")) {
        *out_value = NAN;
        return true;
    }
    if (p->token.kind != SC_TOKEN_NUMBER)
        return sc_parse_expected(p, "a number");
    char *end;
    double value = sc_strtod(p->lexer.text + p->token.begin, &end);
    if (end != p->lexer.text + p->token.end || !isfinite(value))
        return sc_parse_fail(p, loc, "this number does not fit a double");
    *out_value = sign * value;
    sc_parse_advance(p);
    return true;
}

/* ---- sub-axes ---- */

static int find_axis(const sc_mesh *mesh, sc_sym name)
{
    for (int a = 0; a < mesh->axis_count; a++) {
        if (mesh->axes[a].name == name)
            return a;
    }
    return -1;
}

static bool unknown_axis(sc_parser *p, sc_loc loc, sc_sym name)
{
    const sc_mesh *mesh = &p->m->mesh;
    const char *names[SC_MAX_AXES];
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        names[a] = sc_text(p->context, mesh->axes[a].name);
    return sc_parse_unknown(p, loc, "axis", name, names, mesh->axis_count);
}

static bool add_sub_axis(sc_parser *p, sc_loc loc, sc_sub_axis_list *list, uint32_t sub_axis)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->sub_axes[i] == sub_axis)
            return sc_parse_fail(p, loc, "an axis is listed twice here");
    }
    list->sub_axes[list->count++] = (uint8_t)sub_axis;
    return true;
}

static bool add_axis(sc_parser *p, sc_loc loc, sc_sub_axis_list *list, const sc_axis *axis)
{
    if (axis->is_stage)
        return sc_parse_fail(p, loc, "axis '%s' has the stages; no value is placed on it",
                             sc_text(p->context, axis->name));
    for (uint32_t i = 0; i < axis->sub_axis_count; i++) {
        if (!add_sub_axis(p, loc, list, axis->first_sub_axis + i))
            return false;
    }
    return true;
}

static bool add_axis_sub_axis(sc_parser *p, sc_loc loc, sc_sub_axis_list *list, const sc_axis *axis,
                              int64_t index)
{
    if (index >= axis->sub_axis_count)
        return sc_parse_fail(p, loc, "axis '%s' is split in %u", sc_text(p->context, axis->name),
                             axis->sub_axis_count);
    return add_sub_axis(p, loc, list, axis->first_sub_axis + (uint32_t)index);
}

/* "x".0 */
static bool quoted_sub_axis(sc_parser *p, sc_loc loc, sc_sym name, sc_sub_axis_list *list)
{
    int axis = find_axis(&p->m->mesh, name);
    int64_t index;
    if (axis < 0)
        return unknown_axis(p, loc, name);
    if (!sc_parse_accept(p, '.'))
        return add_axis(p, loc, list, &p->m->mesh.axes[axis]);
    return sc_parse_integer(p, 0, SC_MAX_SUB_AXES, &index) &&
           add_axis_sub_axis(p, loc, list, &p->m->mesh.axes[axis], index);
}

/* tp or tp.0. A dot in a word always precedes the number of a sub-axis, as axes with a dot in their
 * name are quoted. */
static bool bare_sub_axis(sc_parser *p, sc_loc loc, sc_sym word, sc_sub_axis_list *list)
{
    const char *text = sc_text(p->context, word), *dot = strchr(text, '.');
    if (dot == NULL)
        return quoted_sub_axis(p, loc, word, list);
    sc_sym name = sc_intern(&p->context->names, text, (size_t)(dot - text));
    int axis = find_axis(&p->m->mesh, name);
    if (axis < 0)
        return unknown_axis(p, loc, name);
    if (strspn(dot + 1, "0123456789") != strlen(dot + 1) || strlen(dot + 1) > 2)
        return sc_parse_fail(p, loc, "the number of a sub-axis comes after the dot");
    return add_axis_sub_axis(p, loc, list, &p->m->mesh.axes[axis], strtol(dot + 1, NULL, 10));
}

static bool parse_sub_axis(sc_parser *p, sc_sub_axis_list *list)
{
    sc_loc loc = sc_parse_loc(p);
    bool quoted = p->token.kind == SC_TOKEN_STRING;
    sc_sym name = 0;
    if (!sc_parse_name(p, "an axis", &name))
        return false;
    return quoted ? quoted_sub_axis(p, loc, name, list) : bare_sub_axis(p, loc, name, list);
}

bool sc_parse_sub_axis_items(sc_parser *p, int end, sc_sub_axis_list *list)
{
    memset(list, 0, sizeof *list);
    if (sc_parse_accept(p, end))
        return true;
    do {
        if (!parse_sub_axis(p, list))
            return false;
    } while (sc_parse_accept(p, ','));
    return sc_parse_expect(p, end);
}

bool sc_parse_sub_axis_list(sc_parser *p, sc_sub_axis_list *list)
{
    memset(list, 0, sizeof *list);
    return sc_parse_accept(p, '(') ? sc_parse_sub_axis_items(p, ')', list)
                                   : parse_sub_axis(p, list);
}

/* ---- dims ---- */

static bool parse_dim_name(sc_parser *p, sc_dim *out_dim)
{
    sc_loc loc = sc_parse_loc(p);
    sc_sym name = 0;
    if (!sc_parse_name(p, "a dim", &name))
        return false;
    *out_dim = sc_module_find_dim(p->m, name);
    if (*out_dim != SC_NONE)
        return true;
    const char **names = sc_arena_array(&p->context->arena, p->m->dims.count, sizeof *names);
    for (sc_dim d = 0; d < p->m->dims.count; d++)
        names[d] = sc_text(p->context, p->m->dims.data[d].name);
    return sc_parse_unknown(p, loc, "dim", name, names, p->m->dims.count);
}

bool sc_parse_leaf(sc_parser *p, sc_dim *out_dim)
{
    sc_loc loc = sc_parse_loc(p);
    if (!parse_dim_name(p, out_dim))
        return false;
    const sc_dim_info *info = &p->m->dims.data[*out_dim];
    return info->part_count == 0 ||
           sc_parse_fail(p, loc, "'%s' is a composite; name its leaves here",
                         sc_text(p->context, info->name));
}

bool sc_parse_dims(sc_parser *p)
{
    do {
        sc_dim dim;
        if (!parse_dim_name(p, &dim))
            return false;
        const sc_dim_info *info = &p->m->dims.data[dim];
        for (uint32_t i = 0; i < info->part_count; i++)
            *sc_vec_push(&p->context->arena, &p->dims) = info->parts[i];
        if (info->part_count == 0)
            *sc_vec_push(&p->context->arena, &p->dims) = dim;
    } while (sc_parse_accept(p, ','));
    return true;
}

/* ---- types ---- */

/* `=4/16`; 0 if not written. */
typedef struct written_size {
    sc_loc loc;
    int64_t local, global;
} written_size;

static bool parse_size(sc_parser *p, written_size *size)
{
    size->loc = sc_parse_loc(p);
    size->local = 0;
    if (!sc_parse_integer(p, 1, SC_TEXT_MAX_SIZE, &size->global))
        return false;
    sc_loc slash = sc_parse_loc(p);
    if (!sc_parse_accept(p, '/'))
        return true;
    if ((p->m->states & SC_LOCAL) == 0)
        return sc_parse_fail(p, slash,
                             "local sizes are allowed only in a module whose states say local");
    size->local = size->global;
    return sc_parse_integer(p, 1, SC_TEXT_MAX_SIZE, &size->global);
}

/* In a LOCAL module a sharded dim has both sizes, and the local one must be correct. */
static bool check_local(sc_parser *p, const written_size *written, int64_t local, int64_t global)
{
    if ((p->m->states & SC_LOCAL) == 0 || local == global || written->local == local)
        return true;
    return sc_parse_fail(p, written->loc, "the local size is %lld: expected '%lld/%lld'",
                         (long long)local, (long long)local, (long long)global);
}

static bool parse_dim_sub_axes(sc_parser *p, sc_sub_axis_list *sub_axes)
{
    memset(sub_axes, 0, sizeof *sub_axes);
    return !sc_parse_accept(p, '@') || sc_parse_sub_axis_list(p, sub_axes);
}

static bool use_sub_axes(sc_parser *p, sc_loc loc, sc_type_info *type,
                         const sc_sub_axis_list *sub_axes, uint8_t on)
{
    for (uint32_t i = 0; i < sub_axes->count; i++) {
        uint8_t sub_axis = sub_axes->sub_axes[i];
        if (type->placement.on[sub_axis] != SC_ON_NOTHING)
            return sc_parse_fail(
                p, loc, "axis '%s' is used twice in this type",
                sc_text(p->context, p->m->mesh.axes[p->m->mesh.sub_axes[sub_axis].axis].name));
        type->placement.on[sub_axis] = on;
        type->placement.order[sub_axis] = (uint8_t)(sc_is_partial(on) ? 0 : i);
    }
    return true;
}

static bool add_leaf(sc_parser *p, sc_loc loc, sc_type_info *type, sc_type_dim dim,
                     const sc_sub_axis_list *sub_axes)
{
    if (type->rank == SC_MAX_RANK)
        return sc_parse_fail(p, loc, "a type has at most %d dims", SC_MAX_RANK);
    if (sc_type_find_dim(type, dim.dim) >= 0)
        return sc_parse_fail(p, loc, "dim '%s' is listed twice in this type",
                             sc_text(p->context, p->m->dims.data[dim.dim].name));
    type->dims[type->rank] = dim;
    return use_sub_axes(p, loc, type, sub_axes, (uint8_t)type->rank++);
}

/* The rest after a leaf's name: =16@fsdp. */
static bool parse_leaf_rest(sc_parser *p, sc_loc loc, sc_type_info *type, sc_dim dim, sc_dim group)
{
    written_size size = {0};
    sc_sub_axis_list sub_axes;
    if ((sc_parse_accept(p, '=') && !parse_size(p, &size)) || !parse_dim_sub_axes(p, &sub_axes) ||
        !add_leaf(p, loc, type, (sc_type_dim){dim, group, size.global}, &sub_axes))
        return false;
    return size.global == 0 ||
           check_local(p, &size, sc_type_local_size(p->m, type, type->rank - 1), size.global);
}

/* H=(K=2, G=4@tp), after the opening parenthesis */
static bool parse_group_leaves(sc_parser *p, sc_type_info *type, sc_dim group)
{
    const sc_dim_info *info = &p->m->dims.data[group];
    for (uint32_t i = 0; i < info->part_count; i++) {
        sc_loc loc = sc_parse_loc(p);
        sc_dim dim;
        if ((i > 0 && !sc_parse_expect(p, ',')) || !sc_parse_leaf(p, &dim))
            return false;
        if (dim != info->parts[i])
            return sc_parse_fail(p, loc, "leaf %u of '%s' is '%s'", i + 1,
                                 sc_text(p->context, info->name),
                                 sc_text(p->context, p->m->dims.data[info->parts[i]].name));
        if (!parse_leaf_rest(p, loc, type, dim, group))
            return false;
    }
    return sc_parse_expect(p, ')');
}

/* Returns the leaf sizes of a composite in short form; all 0 without a size. */
static bool leaf_sizes(sc_parser *p, sc_loc loc, sc_dim group, int64_t product,
                       int64_t sizes[SC_MAX_RANK])
{
    const sc_dim_info *info = &p->m->dims.data[group];
    const int64_t *declared = p->dim_lines.data[group].sizes;
    const char *name = sc_text(p->context, info->name);
    memset(sizes, 0, SC_MAX_RANK * sizeof *sizes);
    if (product == 0)
        return true;
    if (declared == NULL)
        return sc_parse_fail(p, loc,
                             "the 'dim' line of '%s' gives no sizes of its leaves; write them "
                             "here: %s=(.. = .., ..)",
                             name, name);
    memcpy(sizes, declared, info->part_count * sizeof *sizes);
    int64_t expected = sc_text_product(sizes, info->part_count);
    if (product == expected)
        return true;
    return sc_parse_fail(p, loc,
                         "the leaves of '%s' make %lld, not %lld; for other leaves write them "
                         "here: %s=(.. = .., ..)",
                         name, (long long)expected, (long long)product, name);
}

/* H=8@tp, after the name and `=` */
static bool parse_group_rest(sc_parser *p, sc_loc loc, sc_type_info *type, sc_dim group, bool sized)
{
    const sc_dim_info *info = &p->m->dims.data[group];
    written_size size = {0};
    sc_sub_axis_list sub_axes, leaves[SC_MAX_RANK];
    int64_t sizes[SC_MAX_RANK], local = 1;
    if ((sized && !parse_size(p, &size)) || !parse_dim_sub_axes(p, &sub_axes) ||
        !leaf_sizes(p, size.loc, group, size.global, sizes))
        return false;
    if (!sc_text_distribute(&p->m->mesh, sizes, info->part_count, &sub_axes, leaves))
        return sc_parse_fail(p, loc, "these axes do not divide the leaves of '%s' major first",
                             sc_text(p->context, info->name));
    for (uint32_t i = 0; i < info->part_count; i++) {
        if (!add_leaf(p, loc, type, (sc_type_dim){info->parts[i], group, sizes[i]}, &leaves[i]))
            return false;
        local *= sc_type_local_size(p->m, type, type->rank - 1);
    }
    return size.global == 0 || check_local(p, &size, local, size.global);
}

static bool parse_type_dim(sc_parser *p, sc_type_info *type)
{
    sc_loc loc = sc_parse_loc(p);
    sc_dim dim;
    if (!parse_dim_name(p, &dim))
        return false;
    if (p->m->dims.data[dim].part_count == 0)
        return parse_leaf_rest(p, loc, type, dim, SC_NONE);
    bool sized = sc_parse_accept(p, '=');
    if (sized && sc_parse_accept(p, '('))
        return parse_group_leaves(p, type, dim);
    return parse_group_rest(p, loc, type, dim, sized);
}

/* {sum:tp, max:(x, y)} */
static bool parse_partials(sc_parser *p, sc_type_info *type)
{
    static const char *const kinds[] = {"sum", "max", "min"};
    do {
        sc_loc loc = sc_parse_loc(p);
        uint8_t k = 0;
        while (k < 3 && !sc_parse_at_word(p, kinds[k]))
            k++;
        if (k == 3)
            return sc_parse_expected(p, "sum, max or min");
        sc_parse_advance(p);
        sc_sub_axis_list sub_axes;
        if (!sc_parse_expect(p, ':') || !sc_parse_sub_axis_list(p, &sub_axes) ||
            !use_sub_axes(p, loc, type, &sub_axes, (uint8_t)(SC_PARTIAL_SUM + k)))
            return false;
    } while (sc_parse_accept(p, ','));
    return sc_parse_expect(p, '}');
}

static bool parse_dtype(sc_parser *p, sc_dtype *out_dtype)
{
    sc_loc loc = sc_parse_loc(p);
    sc_sym name = p->token.sym;
    if (p->token.kind != SC_TOKEN_WORD)
        return sc_parse_expected(p, "a type");
    *out_dtype = sc_dtype_find(sc_text(p->context, name));
    if (*out_dtype == SC_DTYPE_COUNT) {
        const char *names[SC_DTYPE_COUNT];
        for (int i = 0; i < SC_DTYPE_COUNT; i++)
            names[i] = sc_dtypes[i].name;
        return sc_parse_unknown(p, loc, "dtype", name, names, SC_DTYPE_COUNT);
    }
    sc_parse_advance(p);
    return true;
}

bool sc_parse_type(sc_parser *p, sc_type *out_type)
{
    sc_type_info type = {.placement = sc_placement_replicated()};
    if (!parse_dtype(p, &type.dtype) || !sc_parse_expect(p, '['))
        return false;
    if (!sc_parse_accept(p, ']')) {
        do {
            if (!parse_type_dim(p, &type))
                return false;
        } while (sc_parse_accept(p, ','));
        if (!sc_parse_expect(p, ']'))
            return false;
    }
    if (sc_parse_accept(p, '{') && !parse_partials(p, &type))
        return false;
    *out_type = sc_type_intern(p->m, &type);
    return true;
}
