/* Proves from the roles in the op table that an objective is a sum over the rows of the batch, so
 * that micro-batches add up to it.
 *
 *   rows    has the batch dim, and each row depends only on that row of the inputs
 *   sum     a sum over rows; only linear ops keep it one
 *   affine  such a sum plus a term independent of rows: valid if the objective is the mean
 *           of the micro-batches
 *   mixed   anything else; the op that first mixes rows is recorded */
#include "passes/separable.h"

#include <string.h>

typedef enum mixture { FREE_OF_ROWS, ROWS, SUM, AFFINE, MIXED } mixture;

typedef struct separation {
    const sc_module *m;
    sc_dim batch;
    uint8_t *of;        /* by value */
    sc_op_id *mixed_by; /* by value */
} separation;

static bool has_rows(const separation *s, sc_value value)
{
    return sc_type_find_dim(sc_type_of(s->m, value), s->batch) >= 0;
}

sc_rows_effect sc_effect_on_rows(const sc_module *m, const sc_op *op, uint32_t result, sc_dim batch)
{
    sc_factors factors;
    bool keeps = sc_type_find_dim(sc_type_of(m, op->first_result + result), batch) >= 0;
    sc_op_factors(m, op, &factors);
    for (uint32_t f = 0; f < factors.count; f++) {
        const sc_factor *factor = &factors.list[f];
        if (factor->dim != batch)
            continue;
        if (factor->role == SC_ROLE_PASSES ||
            (factor->role == SC_ROLE_SUMS && factor->result[result] >= 0))
            return keeps ? SC_ROWS_STAY : SC_ROWS_MIX;
        return factor->role == SC_ROLE_SUMS ? SC_ROWS_ADD : SC_ROWS_MIX;
    }
    return SC_ROWS_MIX;
}

/* Class of a result of an op on rows: rows, a sum, or mixed. */
static mixture of_rows(const separation *s, const sc_op *op, uint32_t result)
{
    static const mixture classes[] = {
        [SC_ROWS_STAY] = ROWS, [SC_ROWS_ADD] = SUM, [SC_ROWS_MIX] = MIXED};
    return classes[sc_effect_on_rows(s->m, op, result, s->batch)];
}

/* Class of the result of an op on sums over rows. */
static mixture of_sums(const separation *s, const sc_op *op)
{
    uint32_t traits = sc_op_traits(op), sums = 0, others = 0;
    mixture worst = SUM;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        mixture one = (mixture)s->of[op->operands[i]];
        if (one == ROWS)
            return MIXED;
        sums += one != FREE_OF_ROWS;
        others += one == FREE_OF_ROWS;
        worst = one == AFFINE ? AFFINE : worst;
    }
    bool one_operand = op->operand_count == 1 && (traits & (SC_LINEAR | SC_NAMESAKE)) != 0;
    if (one_operand || ((traits & SC_LINEAR) != 0 && others == 0))
        return worst;
    if ((traits & SC_LINEAR) != 0)
        return AFFINE;
    if ((traits & SC_BILINEAR) != 0 && sums == 1)
        return worst;
    if ((traits & SC_LINEAR_FIRST) != 0 && sums == 1 && s->of[op->operands[0]] != FREE_OF_ROWS)
        return worst;
    return MIXED;
}

static mixture of_op(const separation *s, const sc_op *op, uint32_t result)
{
    bool rows = false, sums = false;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        rows = rows || s->of[op->operands[i]] == ROWS;
        sums = sums || s->of[op->operands[i]] == SUM || s->of[op->operands[i]] == AFFINE;
    }
    if (sums)
        return of_sums(s, op);
    if (rows)
        return of_rows(s, op, result);
    if (!has_rows(s, op->first_result + result))
        return FREE_OF_ROWS;
    /* counts rows of its micro-batch */
    bool by_index = (sc_op_traits(op) & SC_CONSTANT) != 0 && sc_op_attr(op, SC_ATTR_dims) != NULL;
    return by_index ? MIXED : ROWS;
}

static void visit(separation *s, sc_op_id id)
{
    const sc_op *op = sc_op_at(s->m, id);
    sc_op_id before = SC_NONE;
    for (uint32_t i = 0; i < op->operand_count && before == SC_NONE; i++)
        before = s->of[op->operands[i]] == MIXED ? s->mixed_by[op->operands[i]] : SC_NONE;
    for (uint32_t r = 0; r < op->result_count; r++) {
        sc_value value = op->first_result + r;
        s->of[value] = (uint8_t)(before != SC_NONE ? MIXED : of_op(s, op, r));
        s->mixed_by[value] = before != SC_NONE ? before : id;
    }
}

const char *sc_written(const sc_module *m, const sc_op *op)
{
    enum { MOST = 48 };
    const char *text = sc_sources_text(&m->context->sources, op->loc);
    if (text == NULL || text[0] == 0)
        return sc_ops[op->kind].name;
    size_t length = strcspn(text, "\n");
    if (text[length] == 0 && length <= MOST)
        return text;
    if (length > MOST)
        length = MOST;
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) /* inside a UTF-8 sequence */
        length--;
    return sc_arena_printf(&m->context->arena, "%.*s..", (int)length, text);
}

static bool report(const separation *s, sc_value value, sc_loc line, const char *word)
{
    sc_module *m = (sc_module *)s->m; /* messages are allocated in its context */
    const sc_op *op = sc_op_at(m, s->of[value] == MIXED ? s->mixed_by[value] : sc_def(m, value));
    sc_report(&m->context->diag, SC_D_mixes_rows, op->loc, sc_written(m, op),
              sc_text(m->context, m->dims.data[s->batch].name), word, NULL);
    sc_report_note(&m->context->diag, line,
                   "the objective must be a sum of terms of single rows for this line");
    return false;
}

bool sc_check_separable(const sc_module *m, sc_func_id func, sc_dim batch, sc_loc line,
                        const char *word)
{
    separation s = {.m = m, .batch = batch};
    s.of = sc_arena_array(&m->context->arena, m->values.count, sizeof *s.of);
    s.mixed_by = sc_arena_array(&m->context->arena, m->values.count, sizeof *s.mixed_by);
    sc_for_each_op (m, func, op)
        visit(&s, op);
    const sc_op *returned = sc_op_at(m, m->funcs.data[func].last);
    bool is_mean = returned->operand_count < 2;
    for (uint32_t i = 0; i < returned->operand_count && i < 2; i++) {
        uint8_t of = s.of[returned->operands[i]];
        if (of == MIXED || of == ROWS || (of == AFFINE && !is_mean))
            return report(&s, returned->operands[i], line, word);
    }
    return true;
}
