/* Array sizes, arrays and error messages, used by all parts of the interpreter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp/internal.h"
#include "support/number.h"

/* Returns the number of a value in dumps: its index among all results of its function. */
static uint32_t printed_number(const sc_module *m, sc_value value)
{
    uint32_t number = m->values.data[value].index;
    for (sc_op_id op = sc_op_at(m, sc_def(m, value))->prev; op != SC_NONE;
         op = sc_op_at(m, op)->prev)
        number += sc_op_at(m, op)->result_count;
    return number;
}

bool sc_interp_fail(sc_interp *interp, sc_op_id id, int64_t rank, const char *format, ...)
{
    const sc_module *m = interp->m;
    const sc_op *op = sc_op_at(m, id);
    char text[256], name[300] = "", where[32] = "";
    va_list args;
    va_start(args, format);
    sc_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sc_sym path = op->result_count > 0 ? m->values.data[op->first_result].path : 0;
    if (op->result_count > 0)
        snprintf(name, sizeof name, " %%%u%s%.200s", printed_number(m, op->first_result),
                 path == 0 ? "" : " ", sc_text(m->context, path));
    if (rank != SC_NO_RANK)
        snprintf(where, sizeof where, " on rank %lld", (long long)rank);
    snprintf(interp->error, interp->error_size, "%s%s%s%.100s%s: %s", sc_ops[op->kind].name, name,
             op->scope == 0 ? "" : " in ", sc_text(m->context, op->scope), where, text);
    return false;
}

bool sc_interp_find_layout(const sc_interp *interp, sc_type type, sc_layout *layout)
{
    const sc_type_info *info = &interp->m->types.data[type];
    int64_t count = 1, total;
    layout->rank = info->rank;
    for (uint32_t i = 0; i < info->rank; i++) {
        int64_t size =
            interp->options.ranks ? sc_type_local_size(interp->m, info, i) : info->dims[i].size;
        layout->sizes[i] = size;
        if (size < 1 || __builtin_mul_overflow(count, size, &count))
            return false;
    }
    layout->count = count;
    return !__builtin_mul_overflow(count, (int64_t)interp->ranks * (int64_t)sizeof(double), &total);
}

const sc_layout *sc_interp_layout(sc_interp *interp, sc_type type)
{
    sc_layout *layout = &interp->layouts[type];
    if (layout->count == 0 && !sc_interp_find_layout(interp, type, layout)) {
        layout->count = 0;
        return NULL;
    }
    return layout;
}

/* ---- arrays ---- */

double *sc_interp_new_data(const sc_interp *interp, const sc_layout *layout)
{
    return calloc((size_t)interp->ranks * (size_t)layout->count, sizeof(double));
}

bool sc_interp_same_shards(const sc_interp *interp, sc_type a, sc_type b)
{
    const sc_type_info *x = &interp->m->types.data[a], *y = &interp->m->types.data[b];
    if (a == b)
        return true;
    if (x->rank != y->rank ||
        (interp->options.ranks && !sc_placement_equal(&x->placement, &y->placement)))
        return false;
    for (uint32_t i = 0; i < x->rank; i++) {
        if (x->dims[i].dim != y->dims[i].dim || x->dims[i].size != y->dims[i].size)
            return false;
    }
    return true;
}

/* Floats only if requested; integers and bools always, so that they stay exact. */
static bool is_rounded(const sc_interp *interp, sc_type type)
{
    return interp->options.round || !sc_dtype_is_float(interp->m->types.data[type].dtype);
}

void sc_interp_round(const sc_interp *interp, const sc_held *held, const sc_layout *layout)
{
    if (is_rounded(interp, held->type))
        sc_round_array(interp->m->types.data[held->type].dtype, held->data,
                       (int64_t)interp->ranks * layout->count);
}

void *sc_interp_grown(void *table, uint32_t count, uint32_t wanted, size_t size)
{
    char *larger = realloc(table, (wanted > 0 ? wanted : 1) * size);
    if (larger != NULL)
        memset(larger + count * size, 0, (wanted - count) * size);
    return larger;
}
