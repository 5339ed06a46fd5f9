/* Linear forms of integer nodes. */
#include "codegen/kernel/access.h"
#include "codegen/kernel/internal.h"

int64_t sc_form_factor(const sc_form *f, sc_knode sub_axis)
{
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->terms[i].sub_axis == sub_axis)
            return f->terms[i].factor;
    }
    return 0;
}

/* Terms whose factor becomes 0 stay. */
static bool add_term(sc_form *out, sc_knode sub_axis, int64_t factor)
{
    uint32_t i = 0;
    while (i < out->count && out->terms[i].sub_axis != sub_axis)
        i++;
    if (i == SC_FORM_TERMS)
        return false;
    if (i == out->count)
        out->terms[out->count++] = (sc_form_term){sub_axis, 0};
    return !__builtin_add_overflow(out->terms[i].factor, factor, &out->terms[i].factor);
}

bool sc_form_add(sc_form *out, const sc_form *x, int64_t factor)
{
    int64_t scaled;
    if (__builtin_mul_overflow(x->constant, factor, &scaled) ||
        __builtin_add_overflow(out->constant, scaled, &out->constant))
        return false;
    for (uint32_t i = 0; i < x->count; i++) {
        if (__builtin_mul_overflow(x->terms[i].factor, factor, &scaled) ||
            !add_term(out, x->terms[i].sub_axis, scaled))
            return false;
    }
    return true;
}

static bool is_sum(const sc_kernel *k, sc_knode n, const sc_form *forms, sc_form *out)
{
    const sc_kernel_node *node = &k->nodes.data[n];
    const sc_knode *operands = sc_kernel_operands(k, n);
    *out = (sc_form){0};
    switch (node->kind) {
    case SC_NODE_constant:
        out->constant =
            node->number >= -0x1p62 && node->number <= 0x1p62 ? (int64_t)node->number : 0;
        return (double)out->constant == node->number;
    case SC_NODE_add:
    case SC_NODE_sub:
        return sc_form_add(out, &forms[operands[0]], 1) &&
               sc_form_add(out, &forms[operands[1]], node->kind == SC_NODE_add ? 1 : -1);
    case SC_NODE_neg:
        return sc_form_add(out, &forms[operands[0]], -1);
    case SC_NODE_mul:
        return forms[operands[1]].count == 0 &&
               sc_form_add(out, &forms[operands[0]], forms[operands[1]].constant);
    default:
        return false;
    }
}

/* A node that may have wrapped is not the sum of its operands. */
sc_form *sc_kernel_forms(const sc_kernel *k, const sc_interval *intervals)
{
    sc_form *forms = sc_arena_array(k->arena, k->nodes.count, sizeof *forms);
    for (sc_knode n = 0; n < k->nodes.count; n++) {
        if (k->nodes.data[n].dtype != SC_DTYPE_i64)
            continue;
        if (!sc_kernel_stays(k, n, intervals) || !is_sum(k, n, forms, &forms[n])) {
            forms[n] = (sc_form){.count = 1};
            forms[n].terms[0] = (sc_form_term){n, 1};
        }
    }
    return forms;
}
