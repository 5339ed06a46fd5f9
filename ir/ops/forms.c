#include "ir/ops/forms.h"

enum { NO_MARK = -1 };

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

/* ---- the table ---- */
const sc_form sc_forms[SC_FORM_COUNT] = {
#define FORM(op, gradient, name, dims, mark, summary)                                              \
    {SC_OP_##op, SC_OP_##gradient, #name, summary, dims_##dims, mark},
#include "ir/ops/forms.def"
};

uint32_t sc_forms_of(sc_op_kind kind)
{
    uint32_t forms = 0;
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++)
        forms |= (uint32_t)(sc_forms[f].op == kind) << f;
    return forms;
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
    sc_op_kind kind = (sc_op_kind)sc_op_at(m, op)->kind;
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
        const sc_form *form = &sc_forms[f];
        const sc_attr *mark = form->mark != NO_MARK && (kind == form->op || kind == form->gradient)
                                  ? sc_op_attr(sc_op_at(m, origin), (sc_attr_key)form->mark)
                                  : NULL;
        if (mark != NULL)
            sc_op_set_attr(m, op, *mark);
    }
}
