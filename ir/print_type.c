/* Prints names, sub-axes and types as in `shardc.ir 1`.
 *
 * A composite is printed under its name, `H=8@tp`. The sizes of its leaves are those of its `dim`
 * line (`dim H = (K = 2, G = 4)`), taken from the first type with the composite. A type with other
 * sizes, or with a split that the short form cannot express, is written out: `H=(K=2, G=4@tp)`. */
#include <string.h>

#include "ir/print_type.h"

/* ---- shared with the parser ---- */

const char *const sc_text_state_names[SC_TEXT_STATES] = {"shapes", "placed", "reshards_explicit",
                                                         "local", "fused"};

bool sc_text_is_word(const char *text, bool dots)
{
    bool start = true;
    for (const char *p = text; *p != 0; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_';
        bool digit = *p >= '0' && *p <= '9';
        if (letter || (digit && p > text))
            start = false;
        else if (*p == '.' && dots && !start)
            start = true;
        else
            return false;
    }
    return !start;
}

bool sc_text_distribute(const sc_mesh *mesh, const int64_t *sizes, uint32_t leaf_count,
                        const sc_sub_axis_list *sub_axes, sc_sub_axis_list *leaves)
{
    memset(leaves, 0, leaf_count * sizeof *leaves);
    uint32_t leaf = 0;
    int64_t rest = sizes[0];
    for (uint32_t i = 0; i < sub_axes->count; i++) {
        int64_t size = mesh->sub_axes[sub_axes->sub_axes[i]].size;
        while (rest == 1 && leaf + 1 < leaf_count)
            rest = sizes[++leaf];
        if (rest <= 1 || rest % size != 0)
            return false;
        leaves[leaf].sub_axes[leaves[leaf].count++] = sub_axes->sub_axes[i];
        rest /= size;
    }
    return true;
}

int64_t sc_text_product(const int64_t *sizes, uint32_t count)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (__builtin_mul_overflow(product, sizes[i], &product) || product > SC_TEXT_MAX_SIZE)
            return -1;
    }
    return product;
}

/* ---- names and sub-axes ---- */

void sc_print_name(sc_printer *p, sc_sym name)
{
    const char *text = sc_text(p->m->context, name);
    if (sc_text_is_word(text, true))
        sc_strbuf_add(p->out, text);
    else
        sc_strbuf_add_quoted(p->out, text);
}

void sc_print_quoted(sc_printer *p, sc_sym name)
{
    sc_strbuf_add_quoted(p->out, sc_text(p->m->context, name));
}

void sc_print_dim_name(sc_printer *p, sc_dim dim)
{
    sc_print_name(p, p->m->dims.data[dim].name);
}

/* Returns the number of sub-axes from sub-axes[0] on that form a whole axis, in order, or 0. */
static uint32_t whole_axis(const sc_mesh *mesh, const uint8_t *sub_axes, uint32_t count)
{
    const sc_axis *axis = &mesh->axes[mesh->sub_axes[sub_axes[0]].axis];
    if (axis->sub_axis_count > count)
        return 0;
    for (uint32_t i = 0; i < axis->sub_axis_count; i++) {
        if (sub_axes[i] != axis->first_sub_axis + i)
            return 0;
    }
    return axis->sub_axis_count;
}

void sc_print_axis_name(sc_printer *p, uint32_t axis)
{
    const char *name = sc_text(p->m->context, p->m->mesh.axes[axis].name);
    if (sc_text_is_word(name, false))
        sc_strbuf_add(p->out, name);
    else /* a dot would look like the one before a sub-axis */
        sc_strbuf_add_quoted(p->out, name);
}

/* Prints the first name of a list of sub-axes; returns how many sub-axes it covers. */
static uint32_t print_axis_or_sub_axis(sc_printer *p, const uint8_t *sub_axes, uint32_t count)
{
    const sc_mesh *mesh = &p->m->mesh;
    const sc_sub_axis *sub_axis = &mesh->sub_axes[sub_axes[0]];
    sc_print_axis_name(p, sub_axis->axis);
    uint32_t whole = whole_axis(mesh, sub_axes, count);
    if (whole > 0)
        return whole;
    sc_strbuf_add_char(p->out, '.');
    sc_strbuf_add_integer(p->out, sub_axis->index);
    return 1;
}

void sc_print_sub_axis_items(sc_printer *p, const uint8_t *sub_axes, uint32_t count)
{
    for (uint32_t i = 0; i < count;) {
        if (i > 0)
            sc_strbuf_add(p->out, ", ");
        i += print_axis_or_sub_axis(p, sub_axes + i, count - i);
    }
}

void sc_print_sub_axis_list(sc_printer *p, const sc_sub_axis_list *list)
{
    bool single = list->count == 1 || (list->count > 0 && whole_axis(&p->m->mesh, list->sub_axes,
                                                                     list->count) == list->count);
    if (!single)
        sc_strbuf_add_char(p->out, '(');
    sc_print_sub_axis_items(p, list->sub_axes, list->count);
    if (!single)
        sc_strbuf_add_char(p->out, ')');
}

/* ---- types ---- */

static void print_size(sc_printer *p, int64_t local, int64_t global)
{
    if ((p->m->states & SC_LOCAL) != 0 && local != global) {
        sc_strbuf_add_integer(p->out, local);
        sc_strbuf_add_char(p->out, '/');
    }
    sc_strbuf_add_integer(p->out, global);
}

static void print_dim_sub_axes(sc_printer *p, const sc_sub_axis_list *sub_axes)
{
    if (sub_axes->count == 0)
        return;
    sc_strbuf_add_char(p->out, '@');
    sc_print_sub_axis_list(p, sub_axes);
}

static void print_leaf(sc_printer *p, const sc_type_info *type, uint32_t i)
{
    sc_print_dim_name(p, type->dims[i].dim);
    if (type->dims[i].size != 0) {
        sc_strbuf_add_char(p->out, '=');
        print_size(p, sc_type_local_size(p->m, type, i), type->dims[i].size);
    }
    sc_sub_axis_list sub_axes = sc_placement_dim(&type->placement, i);
    print_dim_sub_axes(p, &sub_axes);
}

/* Returns the number of consecutive dims from i on in the same group. */
static uint32_t group_length(const sc_type_info *type, uint32_t i)
{
    uint32_t end = i + 1;
    if (type->dims[i].group == SC_NONE)
        return 1;
    while (end < type->rank && type->dims[end].group == type->dims[i].group)
        end++;
    return end - i;
}

static bool is_whole_group(const sc_module *m, const sc_type_info *type, uint32_t i,
                           uint32_t length)
{
    const sc_dim_info *composite = &m->dims.data[type->dims[i].group];
    if (composite->part_count != length)
        return false;
    for (uint32_t k = 0; k < length; k++) {
        if (composite->parts[k] != type->dims[i + k].dim)
            return false;
    }
    return true;
}

typedef struct composite {
    int64_t sizes[SC_MAX_RANK];
    int64_t global, local;     /* products; 0 if unknown */
    sc_sub_axis_list sub_axes; /* of all leaves, in order */
} composite;

/* Fills in the short form of a whole group; false if it would not mean the same. */
static bool short_form(sc_printer *p, const sc_type_info *type, uint32_t i, uint32_t length,
                       composite *c)
{
    sc_sub_axis_list lists[SC_MAX_RANK], again[SC_MAX_RANK];
    int64_t local[SC_MAX_RANK];
    c->sub_axes.count = 0;
    for (uint32_t k = 0; k < length; k++) {
        c->sizes[k] = type->dims[i + k].size;
        local[k] = sc_type_local_size(p->m, type, i + k);
        lists[k] = sc_placement_dim(&type->placement, i + k);
        for (uint32_t a = 0; a < lists[k].count; a++)
            c->sub_axes.sub_axes[c->sub_axes.count++] = lists[k].sub_axes[a];
    }
    c->global = sc_text_product(c->sizes, length);
    c->local = sc_text_product(local, length);
    if (c->global < 0 || !sc_text_distribute(&p->m->mesh, c->sizes, length, &c->sub_axes, again))
        return false;
    for (uint32_t k = 0; k < length; k++) {
        if (!sc_sub_axis_list_equal(&lists[k], &again[k]) || (c->global == 0 && c->sizes[k] != 0))
            return false;
    }
    const int64_t *declared = p->leaf_sizes == NULL ? NULL : p->leaf_sizes[type->dims[i].group];
    return c->global == 0 || p->leaf_sizes == NULL ||
           (declared != NULL && memcmp(declared, c->sizes, length * sizeof *declared) == 0);
}

static void print_group(sc_printer *p, const sc_type_info *type, uint32_t i, uint32_t length)
{
    sc_print_dim_name(p, type->dims[i].group);
    composite c;
    if (is_whole_group(p->m, type, i, length) && short_form(p, type, i, length, &c)) {
        if (c.global != 0) {
            sc_strbuf_add_char(p->out, '=');
            print_size(p, c.local, c.global);
        }
        print_dim_sub_axes(p, &c.sub_axes);
        return;
    }
    sc_strbuf_add(p->out, "=(");
    for (uint32_t k = 0; k < length; k++) {
        if (k > 0)
            sc_strbuf_add(p->out, ", ");
        print_leaf(p, type, i + k);
    }
    sc_strbuf_add_char(p->out, ')');
}

static void print_partials(sc_printer *p, const sc_placement *placement)
{
    static const char *const names[] = {"sum:", "max:", "min:"};
    bool any = false;
    for (uint8_t k = 0; k < 3; k++) {
        sc_sub_axis_set set = sc_placement_partial(placement, (uint8_t)(SC_PARTIAL_SUM + k));
        sc_sub_axis_list list = {0};
        for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++) {
            if ((set >> a & 1) != 0)
                list.sub_axes[list.count++] = (uint8_t)a;
        }
        if (set == 0)
            continue;
        sc_strbuf_add(p->out, any ? ", " : "{");
        sc_strbuf_add(p->out, names[k]);
        sc_print_sub_axis_list(p, &list);
        any = true;
    }
    if (any)
        sc_strbuf_add_char(p->out, '}');
}

void sc_print_type_handle(sc_printer *p, sc_type handle)
{
    const sc_type_info *type = &p->m->types.data[handle];
    sc_strbuf_add(p->out, sc_dtypes[type->dtype].name);
    sc_strbuf_add_char(p->out, '[');
    for (uint32_t i = 0; i < type->rank;) {
        uint32_t length = group_length(type, i);
        if (i > 0)
            sc_strbuf_add(p->out, ", ");
        if (type->dims[i].group == SC_NONE)
            print_leaf(p, type, i);
        else
            print_group(p, type, i, length);
        i += length;
    }
    sc_strbuf_add_char(p->out, ']');
    print_partials(p, &type->placement);
}

/* ---- lists of dims ---- */

/* Returns the longest composite whose leaves are dims[0], dims[1], .., or SC_NONE. */
static sc_dim composite_at(const sc_module *m, const sc_dim *dims, uint32_t count)
{
    sc_dim best = SC_NONE;
    uint32_t best_length = 1;
    for (sc_dim d = 0; d < m->dims.count; d++) {
        const sc_dim_info *info = &m->dims.data[d];
        if (info->part_count <= best_length || info->part_count > count)
            continue;
        if (memcmp(info->parts, dims, info->part_count * sizeof *dims) == 0) {
            best = d;
            best_length = info->part_count;
        }
    }
    return best;
}

void sc_print_dim_list(sc_printer *p, const sc_dim *dims, uint32_t count)
{
    for (uint32_t i = 0; i < count;) {
        if (i > 0)
            sc_strbuf_add(p->out, ", ");
        sc_dim group = composite_at(p->m, dims + i, count - i);
        sc_print_dim_name(p, group == SC_NONE ? dims[i] : group);
        i += group == SC_NONE ? 1 : p->m->dims.data[group].part_count;
    }
}

/* ---- leaf sizes of composites ---- */

void sc_print_note_type(sc_printer *p, sc_type handle, bool *seen)
{
    const sc_type_info *type = &p->m->types.data[handle];
    if (seen[handle])
        return;
    seen[handle] = true;
    for (uint32_t i = 0, length; i < type->rank; i += length) {
        length = group_length(type, i);
        sc_dim group = type->dims[i].group;
        if (group == SC_NONE || p->leaf_sizes[group] != NULL ||
            !is_whole_group(p->m, type, i, length))
            continue;
        int64_t *sizes = sc_arena_array(&p->m->context->arena, length, sizeof *sizes);
        for (uint32_t k = 0; k < length; k++)
            sizes[k] = type->dims[i + k].size;
        /* only if all are known */
        p->leaf_sizes[group] = sc_text_product(sizes, length) > 0 ? sizes : NULL;
    }
}

/* ---- interface ---- */

void sc_print_type(const sc_module *m, sc_type type, sc_strbuf *out)
{
    sc_print_type_handle(&(sc_printer){.m = m, .out = out}, type);
}

void sc_print_sub_axes(const sc_module *m, const sc_sub_axis_list *sub_axes, sc_strbuf *out)
{
    sc_print_sub_axis_list(&(sc_printer){.m = m, .out = out}, sub_axes);
}

const char *sc_type_text(const sc_module *m, sc_type type)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &m->context->arena);
    sc_print_type(m, type, &out);
    return out.data;
}

void sc_print_dims(const sc_module *m, const sc_dim *dims, uint32_t count, sc_strbuf *out)
{
    sc_printer p = {.m = m, .out = out};
    sc_strbuf_add_char(out, '[');
    sc_print_dim_list(&p, dims, count);
    sc_strbuf_add_char(out, ']');
}
