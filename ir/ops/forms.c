#include "ir/ops/forms.h"

#include "ir/ops/expand.h"
#include "program/collective.h"

enum { NO_MARK = -1, NOT_COMPILED = -2 };

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

/* ---- bytes sent ---- */
/* Of one rank: queries and the result together, keys and values together. */
static double bytes_of_queries(const sc_module *m, const sc_op *op)
{
    return (double)sc_type_local_bytes(m, sc_type_of(m, op->operands[0])) +
           (double)sc_type_local_bytes(m, sc_type_of(m, op->first_result));
}

static double bytes_of_keys(const sc_module *m, const sc_op *op, bool wide)
{
    double bytes = 0;
    for (uint32_t o = 1; o <= 2; o++) {
        sc_type_info type = *sc_type_of(m, op->operands[o]);
        type.dtype = wide && type.dtype != SC_DTYPE_f64 ? SC_DTYPE_f32 : type.dtype;
        bytes += (double)sc_type_local_bytes(m, &type);
    }
    return bytes;
}

/* Keys and values are kept for the backward pass, which reduces and scatters their cotangents. */
static bool sent_gather(const sc_module *m, const sc_op *op, const sc_form_dims *dims,
                        uint32_t ranks, sc_form_sent *out)
{
    (void)dims;
    double all = ranks * bytes_of_keys(m, op, false);
    out->forward = sc_collective_sent(SC_IMAGE_ALL_GATHER, all, ranks);
    out->backward = sc_collective_sent(SC_IMAGE_REDUCE_SCATTER, all, ranks);
    return true;
}

/* Every block visits every rank; in the backward pass with its cotangents, which are added up in
 * f32. */
static bool sent_ring(const sc_module *m, const sc_op *op, const sc_form_dims *dims, uint32_t ranks,
                      sc_form_sent *out)
{
    (void)dims;
    double block = bytes_of_keys(m, op, false);
    out->forward = (ranks - 1) * block;
    out->backward = (ranks - 1) * (block + bytes_of_keys(m, op, true));
    return true;
}

/* Divides ranks over the heads' dims, major first. Returns false if they do not divide. */
static bool divide_ranks(const sc_module *m, const sc_type_info *queries, const sc_form_dims *dims,
                         uint32_t ranks, uint32_t *parts)
{
    for (uint32_t d = 0; d < dims->count; d++) {
        int at = sc_type_find_dim(queries, dims->list[d]);
        uint32_t size = (uint32_t)sc_type_local_size(m, queries, (uint32_t)at);
        parts[d] = size % ranks == 0 ? ranks : size;
        if (ranks % parts[d] != 0)
            return false;
        ranks /= parts[d];
    }
    return ranks == 1;
}

/* Minor parts of the positions are exchanged first, so that the rest stays in order. A dim that
 * keys lack is one of query heads that share keys: these are copied. Cotangents go the same ways
 * back. */
static bool sent_heads(const sc_module *m, const sc_op *op, const sc_form_dims *dims,
                       uint32_t ranks, sc_form_sent *out)
{
    const double moved = bytes_of_queries(m, op);
    double shared = bytes_of_keys(m, op, false);
    uint32_t parts[SC_MAX_RANK];
    *out = (sc_form_sent){0};
    if (!divide_ranks(m, sc_type_of(m, op->operands[0]), dims, ranks, parts))
        return false;
    for (uint32_t d = dims->count; d-- > 0;) {
        out->forward += sc_collective_sent(SC_IMAGE_ALL_TO_ALL, moved, parts[d]);
        if (sc_type_find_dim(sc_type_of(m, op->operands[1]), dims->list[d]) >= 0) {
            out->forward += sc_collective_sent(SC_IMAGE_ALL_TO_ALL, shared, parts[d]);
        } else {
            shared *= parts[d];
            out->forward += sc_collective_sent(SC_IMAGE_ALL_GATHER, shared, parts[d]);
        }
    }
    out->backward = out->forward;
    return true;
}

/* What a product of several sends depends on which other one reads its result: `comm` has the bytes
 * of all together. */
static bool sent_rows(const sc_module *m, const sc_op *op, const sc_form_dims *dims, uint32_t ranks,
                      sc_form_sent *out)
{
    (void)m, (void)op, (void)dims, (void)ranks;
    *out = (sc_form_sent){0};
    return false;
}

/* ---- the table ---- */
const sc_form sc_forms[SC_FORM_COUNT] = {
#define FORM(op, gradient, name, operand, dims, mark, expand, expand_gradient, sent, summary)      \
    {SC_OP_##op,  SC_OP_##gradient, #name, summary,         operand,                               \
     dims_##dims, sent_##sent,      mark,  expand_##expand, expand_##expand_gradient},
#include "ir/ops/forms.def"
};

bool sc_form_is_compiled(sc_form_id form)
{
    return sc_forms[form].mark != NOT_COMPILED;
}

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
