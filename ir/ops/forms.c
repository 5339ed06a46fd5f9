#include "ir/ops/forms.h"

#include "ir/ops/expand.h"
#include "ir/ops/form_sent.h"

enum { NO_MARK = -1, ALONE = -1 };

#define expand_none NULL
#define dims_none   NULL
#define sent_none   NULL

/* ---- dims ---- */
/* Of attention: the positions of the queries. */
static void dims_queries(const sc_module *m, const sc_op *op, const bool *of_inputs,
                         sc_form_dims *out)
{
    const sc_attr *to = sc_op_attr(op, SC_ATTR_to);
    (void)m, (void)of_inputs;
    *out = (sc_form_dims){.count = 0};
    if (to != NULL)
        out->list[out->count++] = to->dims[0];
}

/* Of attention: the heads. They are the dims of the queries that are neither positions nor
 * contracted, and that no input of the program has: dims of the batch come from inputs, those of
 * heads from weights. */
static void dims_heads(const sc_module *m, const sc_op *op, const bool *of_inputs,
                       sc_form_dims *out)
{
    const sc_type_info *queries = sc_type_of(m, op->operands[0]);
    *out = (sc_form_dims){.count = 0};
    for (uint32_t i = 0; i < queries->rank; i++) {
        sc_dim dim = queries->dims[i].dim;
        if (!of_inputs[dim] && !sc_attr_has_dim(sc_op_attr(op, SC_ATTR_dims), dim) &&
            !sc_attr_has_dim(sc_op_attr(op, SC_ATTR_to), dim))
            out->list[out->count++] = dim;
    }
}

/* Of routed products: what the ids index. */
static void dims_experts(const sc_module *m, const sc_op *op, const bool *of_inputs,
                         sc_form_dims *out)
{
    (void)m, (void)of_inputs;
    *out = (sc_form_dims){.count = 1, .list = {sc_op_attr(op, SC_ATTR_to)->dims[0]}};
}

/* ---- the table ---- */
const sc_form sc_forms[SC_FORM_COUNT] = {
#define FORM(op, gradient, name, operand, together, dims, mark, expand, expand_gradient, sent,     \
             summary)                                                                              \
    {SC_OP_##op,                                                                                   \
     SC_OP_##gradient,                                                                             \
     #name,                                                                                        \
     summary,                                                                                      \
     operand,                                                                                      \
     together,                                                                                     \
     dims_##dims,                                                                                  \
     sent_##sent,                                                                                  \
     mark,                                                                                         \
     expand_##expand,                                                                              \
     expand_##expand_gradient},
#include "ir/ops/forms.def"
};

void (*sc_form_expansion(const sc_op *op))(sc_expand *expand)
{
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
        const sc_form *form = &sc_forms[f];
        if (form->mark < 0 || sc_op_attr(op, (sc_attr_key)form->mark) == NULL)
            continue;
        if (op->kind == form->op || op->kind == form->gradient)
            return op->kind == form->op ? form->expand : form->expand_gradient;
    }
    return NULL;
}

uint32_t sc_forms_of(sc_op_kind kind)
{
    uint32_t forms = 0;
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++)
        forms |= (uint32_t)(sc_forms[f].op == kind) << f;
    return forms;
}

sc_form_id sc_first_form(sc_op_kind kind)
{
    sc_form_id form = 0;
    while (form < SC_FORM_COUNT && (sc_forms[form].op != kind || sc_forms[form].dims == NULL))
        form++;
    return form;
}

bool sc_form_splits(const sc_module *m, const sc_op *op, sc_form_id form, const bool *of_inputs,
                    sc_dim dim)
{
    sc_form_dims dims;
    bool found = false;
    sc_forms[form].dims(m, op, of_inputs, &dims);
    for (uint32_t d = 0; d < dims.count; d++)
        found = found || dims.list[d] == dim;
    return found;
}

const bool *sc_dims_of_inputs(const sc_module *m)
{
    bool *has = sc_arena_array(&m->context->arena, m->dims.count, sizeof *has);
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        if (!sc_op_has(op, SC_FROM_OUTSIDE))
            continue;
        const sc_type_info *type = sc_type_of(m, op->first_result);
        for (uint32_t i = 0; i < type->rank; i++)
            has[type->dims[i].dim] = true;
    }
    return has;
}

void sc_form_follow(sc_module *m, sc_op_id op, sc_op_id origin)
{
    sc_op_kind kind = (sc_op_kind)sc_op_at(m, op)->kind, of = (sc_op_kind)sc_op_at(m, origin)->kind;
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
        const sc_form *form = &sc_forms[f];
        bool follows =
            form->mark >= 0 && of == form->op && (kind == form->op || kind == form->gradient);
        const sc_attr *mark =
            follows ? sc_op_attr(sc_op_at(m, origin), (sc_attr_key)form->mark) : NULL;
        if (mark == NULL)
            continue;
        sc_op_set_attr(m, op, *mark);
        const sc_attr *lines = sc_op_attr(sc_op_at(m, origin), SC_ATTR_lines);
        if (lines != NULL)
            sc_op_set_attr(m, op, *lines);
    }
}

/* ---- which sends least ---- */
/* True if the axis splits the type along a dim of the form. */
static bool axis_splits(const sc_form_site *site, uint32_t axis, const sc_type_info *type,
                        sc_form_id form, const bool *of_inputs)
{
    const sc_axis *x = &site->m->mesh.axes[axis];
    if (x->size == 1 || x->sub_axis_count == 0)
        return false;
    uint8_t on = type->placement.on[x->first_sub_axis];
    return on < type->rank &&
           sc_form_splits(site->m, site->op, form, of_inputs, type->dims[on].dim);
}

bool sc_form_is_over(const sc_form_site *site, uint32_t axis, const bool *of_inputs)
{
    const sc_form_id form = sc_first_form((sc_op_kind)site->op->kind);
    return axis_splits(site, axis, site->result, form, of_inputs) ||
           axis_splits(site, axis, &site->operands[sc_forms[form].operand], form, of_inputs);
}

static uint32_t count_axes(const sc_form_site *site, const bool *of_inputs)
{
    uint32_t count = 0;
    for (uint32_t x = 0; x < site->m->mesh.axis_count; x++)
        count += sc_form_is_over(site, x, of_inputs);
    return count;
}

/* Why only a line gives the op this form; NULL: cost may. `first`: its first form. */
static const char *needs_line(const sc_form_site *site, sc_form_id form, sc_form_id first,
                              const bool *of_inputs)
{
    sc_split splits[SC_MAX_RANK];
    uint32_t count;
    if (form == first)
        return NULL;
    if (count_axes(site, of_inputs) > 1)
        return "more than one axis splits the op this way: a line says which of them takes it";
    if (!sc_form_place(site, form, of_inputs, splits, &count))
        return "it cuts the axis between two dims: a line asks for that";
    return NULL;
}

void sc_form_price(const sc_form_site *site, const bool *of_inputs, sc_form_prices *out)
{
    const uint32_t forms = sc_forms_of((sc_op_kind)site->op->kind);
    const sc_form_id first = sc_first_form((sc_op_kind)site->op->kind);
    *out = (sc_form_prices){0};
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
        sc_form_dims dims;
        if ((forms >> f & 1) == 0 || sc_forms[f].dims == NULL)
            continue;
        out->forms |= 1u << f;
        sc_forms[f].dims(site->m, site->op, of_inputs, &dims);
        out->barred[f] = sc_forms[f].sent(site, &dims, &out->sent[f]);
        if (out->barred[f] != NULL)
            continue;
        out->possible |= 1u << f;
        out->barred[f] = needs_line(site, (sc_form_id)f, first, of_inputs);
    }
}

sc_form_id sc_form_cheapest(const sc_form_prices *prices, bool trains, bool any)
{
    sc_form_id best = SC_FORM_COUNT;
    double least = 0;
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
        const sc_form_sent *sent = &prices->sent[f];
        double all = sent->forward + (trains ? sent->backward : 0);
        if (all > 0)
            all += sent->spare * all / (sent->forward + sent->backward);
        if ((prices->possible >> f & 1) == 0 || (!any && prices->barred[f] != NULL) ||
            (best != SC_FORM_COUNT && all >= least * (1 - 1e-9))) /* products are rounded */
            continue;
        best = (sc_form_id)f;
        least = all;
    }
    return best;
}

bool sc_form_place(const sc_form_site *site, sc_form_id form, const bool *of_inputs,
                   sc_split *splits, uint32_t *count)
{
    const sc_mesh *mesh = &site->m->mesh;
    const sc_axis *axis = &mesh->axes[site->axis];
    const sc_type_info *type = &site->operands[sc_forms[form].operand];
    uint32_t parts[SC_MAX_RANK], next = axis->first_sub_axis, end = next + axis->sub_axis_count;
    sc_form_dims dims;
    *count = 0;
    sc_forms[form].dims(site->m, site->op, of_inputs, &dims);
    if (dims.count == 1) { /* the dim may be split already */
        parts[0] = axis->size;
    } else if (!sc_form_divide(site->m, type, &dims, axis->size, parts)) {
        return false;
    }
    for (uint32_t d = 0; d < dims.count; d++) {
        sc_split *split = &splits[*count];
        uint32_t ranks = 1;
        *split = (sc_split){.dim = dims.list[d]};
        for (; next < end && ranks < parts[d]; next++) {
            split->sub_axes.sub_axes[split->sub_axes.count++] = (uint8_t)next;
            ranks *= mesh->sub_axes[next].size;
        }
        if (ranks != parts[d])
            return false;
        *count += split->sub_axes.count > 0;
    }
    return next == end;
}
