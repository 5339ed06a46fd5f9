#include "edit.h"

#include <string.h>

/* ---- finding ---- */
sc_value operand_of(const sc_module *m, sc_op_id op, uint32_t i)
{
    return op == SC_NONE || i >= sc_op_at(m, op)->operand_count ? SC_NONE
                                                                : sc_op_at(m, op)->operands[i];
}

sc_value result_of(const sc_module *m, sc_op_id op)
{
    return op == SC_NONE ? SC_NONE : sc_result(m, op, 0);
}

sc_op_id def_of(const sc_module *m, sc_value value)
{
    return value == SC_NONE ? SC_NONE : sc_def(m, value);
}

uint32_t operand_index(const sc_module *m, sc_op_id op, sc_value value)
{
    uint32_t i = 0;
    while (op != SC_NONE && i < sc_op_at(m, op)->operand_count && operand_of(m, op, i) != value)
        i++;
    return i;
}

sc_op_id find_op(const sc_module *m, sc_func_id func, sc_op_kind kind, const char *scope)
{
    sc_for_each_op (m, func, op) {
        if (sc_op_at(m, op)->kind == kind &&
            (scope == NULL || strcmp(sc_text(m->context, sc_op_at(m, op)->scope), scope) == 0))
            return op;
    }
    return SC_NONE;
}

sc_value find_value(const sc_module *m, sc_func_id func, const char *path)
{
    sc_for_each_op (m, func, op) {
        for (uint32_t r = 0; r < sc_op_at(m, op)->result_count; r++) {
            if (strcmp(sc_text(m->context, m->values.data[sc_result(m, op, r)].path), path) == 0)
                return sc_result(m, op, r);
        }
    }
    return SC_NONE;
}

sc_op_id find_reader(const sc_module *m, sc_func_id func, sc_value value, sc_op_kind kind)
{
    sc_for_each_op (m, func, op) {
        for (uint32_t i = 0; i < sc_op_at(m, op)->operand_count; i++) {
            if (sc_op_at(m, op)->kind == kind && sc_op_at(m, op)->operands[i] == value)
                return op;
        }
    }
    return SC_NONE;
}

sc_func_id update_of(const sc_module *m)
{
    return m->schedule.data[m->schedule.count - 1].func;
}

static sc_op_id op_of_state(const sc_module *m, sc_func_id func, const char *name, uint32_t trait)
{
    sc_for_each_op (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        if ((sc_op_traits(o) & trait) != 0 &&
            strcmp(sc_text(m->context, sc_op_word(o, SC_ATTR_name)), name) == 0)
            return op;
    }
    return SC_NONE;
}

sc_op_id find_read(const sc_module *m, sc_func_id func, const char *name)
{
    return op_of_state(m, func, name, SC_STATE_READ);
}

sc_op_id find_write(const sc_module *m, sc_func_id func, const char *name)
{
    return op_of_state(m, func, name, SC_STATE_WRITE);
}

sc_op_id find_maker(const sc_module *m, sc_value value, sc_op_kind kind)
{
    bool *needed = sc_arena_array(&m->context->arena, m->values.count, sizeof *needed);
    if (value == SC_NONE)
        return SC_NONE;
    needed[value] = true;
    for (sc_op_id op = sc_def(m, value); op != SC_NONE; op = sc_op_at(m, op)->prev) {
        const sc_op *o = sc_op_at(m, op);
        bool is_needed = false;
        for (uint32_t r = 0; r < o->result_count; r++)
            is_needed = is_needed || needed[sc_result(m, op, r)];
        if (is_needed && o->kind == kind)
            return op;
        for (uint32_t i = 0; is_needed && i < o->operand_count; i++)
            needed[operand_of(m, op, i)] = true;
    }
    return SC_NONE;
}

sc_op_id find_in_phase(const sc_module *m, sc_func_id func, sc_op_kind kind, const char *scope,
                       const char *phase)
{
    sc_for_each_op (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        if (o->kind == kind &&
            strcmp(sc_text(m->context, sc_op_word(o, SC_ATTR_phase)), phase) == 0 &&
            (scope == NULL || strcmp(sc_text(m->context, o->scope), scope) == 0))
            return op;
    }
    return SC_NONE;
}

/* ---- changing ---- */

bool read_instead(sc_module *m, sc_func_id func, sc_value old, sc_value fresh, sc_op_id except)
{
    bool found = false;
    sc_for_each_op (m, func, op) {
        for (uint32_t i = 0; op != except && i < sc_op_at(m, op)->operand_count; i++) {
            if (operand_of(m, op, i) == old) {
                m->ops.data[op].operands[i] = fresh;
                found = true;
            }
        }
    }
    return found;
}

bool bypass(sc_module *m, sc_func_id func, sc_op_id op, uint32_t i)
{
    return op != SC_NONE && i < sc_op_at(m, op)->result_count &&
           read_instead(m, func, sc_result(m, op, i), operand_of(m, op, i), SC_NONE);
}

bool claim(sc_module *m, sc_func_id func, sc_op_id op)
{
    if (op == SC_NONE)
        return false;
    m->values.data[operand_of(m, op, 0)].type = m->values.data[sc_result(m, op, 0)].type;
    return bypass(m, func, op, 0);
}

bool drop_attr(sc_module *m, sc_op_id op, sc_attr_key key)
{
    if (op == SC_NONE || sc_op_attr(sc_op_at(m, op), key) == NULL)
        return false;
    sc_op_drop_attr(m, op, key);
    return true;
}

bool set_word(sc_module *m, sc_op_id op, sc_attr_key key, const char *word)
{
    if (op == SC_NONE || sc_op_attr(sc_op_at(m, op), key) == NULL)
        return false;
    sc_op_set_attr(m, op, sc_attr_text(key, sc_intern_text(&m->context->names, word)));
    return true;
}

bool set_dim(sc_module *m, sc_op_id op, sc_attr_key key, const char *dim)
{
    sc_dim found = sc_module_find_dim(m, sc_intern_text(&m->context->names, dim));
    if (op == SC_NONE || found == SC_NONE)
        return false;
    sc_op_set_attr(m, op, sc_attr_dims(m, key, &found, 1));
    return true;
}

bool reverse_offset(sc_module *m, sc_op_id op)
{
    const sc_attr *offset = op == SC_NONE ? NULL : sc_op_attr(sc_op_at(m, op), SC_ATTR_offset);
    if (offset == NULL || offset->splits[0].sub_axes.count != 2)
        return false;
    sc_split split = offset->splits[0];
    split.sub_axes.sub_axes[0] = offset->splits[0].sub_axes.sub_axes[1];
    split.sub_axes.sub_axes[1] = offset->splits[0].sub_axes.sub_axes[0];
    sc_op_set_attr(m, op, sc_attr_splits(m, SC_ATTR_offset, &split, 1));
    return true;
}

bool swap_operands(sc_module *m, sc_op_id op, uint32_t i, uint32_t j)
{
    if (op == SC_NONE || sc_op_at(m, op)->operand_count <= j ||
        operand_of(m, op, i) == operand_of(m, op, j))
        return false;
    sc_value *operands = m->ops.data[op].operands, first = operands[i];
    operands[i] = operands[j];
    operands[j] = first;
    return true;
}

sc_value add_after(sc_module *m, sc_func_id func, sc_op_id like, sc_op_kind kind, sc_value operand,
                   const sc_placement *at)
{
    const sc_op op = *sc_op_at(m, like);
    sc_type type = sc_type_with_placement(m, m->values.data[operand].type, at);
    sc_op_id made =
        sc_op_new(m, func, op.next, kind, &operand, 1, op.attrs, op.attr_count, &type, 1, like);
    return sc_result(m, made, 0);
}

bool set_group(sc_module *m, sc_op_id op, const uint8_t *sub_axes, uint32_t count)
{
    if (op == SC_NONE)
        return false;
    sc_op_set_attr(m, op, sc_attr_sub_axes(m, SC_ATTR_over, sub_axes, count));
    return true;
}

bool reduce_behind(sc_module *m, sc_func_id func, sc_op_id reduction, sc_op_id reader)
{
    if (reduction == SC_NONE || reader == SC_NONE)
        return false;
    const sc_value reduced = sc_result(m, reduction, 0), raw = operand_of(m, reduction, 0),
                   result = sc_result(m, reader, 0);
    const sc_placement partial = sc_type_of(m, raw)->placement,
                       whole = sc_type_of(m, result)->placement;
    for (uint32_t i = 0; i < sc_op_at(m, reader)->operand_count; i++) {
        if (operand_of(m, reader, i) == reduced)
            m->ops.data[reader].operands[i] = raw;
    }
    m->values.data[result].type = sc_type_with_placement(m, m->values.data[result].type, &partial);
    const sc_op like = *sc_op_at(m, reduction);
    sc_type type = sc_type_with_placement(m, m->values.data[result].type, &whole);
    sc_op_id made = sc_op_new(m, func, sc_op_at(m, reader)->next, SC_OP_all_reduce, &result, 1,
                              like.attrs, like.attr_count, &type, 1, reduction);
    return read_instead(m, func, result, sc_result(m, made, 0), made);
}

/* ---- making ---- */
sc_value make_before(sc_module *m, sc_op_id before, sc_op_kind kind, sc_value x, sc_value y,
                     sc_type type)
{
    const sc_value operands[2] = {x, y};
    const sc_op at = *sc_op_at(m, before);
    sc_op_id made = sc_op_new(m, at.func, before, kind, operands, y == SC_NONE ? 1 : 2, NULL, 0,
                              &type, 1, before);
    return sc_result(m, made, 0);
}

sc_value make_number(sc_module *m, sc_op_id before, double number, sc_type type)
{
    const sc_attr value = sc_attr_number(SC_ATTR_value, number);
    const sc_op at = *sc_op_at(m, before);
    sc_op_id made =
        sc_op_new(m, at.func, before, SC_OP_constant, NULL, 0, &value, 1, &type, 1, before);
    return sc_result(m, made, 0);
}

bool scale_operand(sc_module *m, sc_op_id op, uint32_t i, double factor)
{
    if (op == SC_NONE || i >= sc_op_at(m, op)->operand_count)
        return false;
    const sc_value old = operand_of(m, op, i);
    const sc_type scalar =
        sc_type_intern(m, &(sc_type_info){.dtype = sc_type_of(m, old)->dtype,
                                          .placement = sc_placement_replicated()});
    sc_value number = make_number(m, op, factor, scalar);
    sc_value scaled = make_before(m, op, SC_OP_mul, old, number, m->values.data[old].type);
    m->ops.data[op].operands[i] = scaled;
    return true;
}

bool read_as_operand(sc_module *m, sc_op_id op, uint32_t i, sc_value value)
{
    if (op == SC_NONE || value == SC_NONE || operand_of(m, op, i) == SC_NONE ||
        operand_of(m, op, i) == value)
        return false;
    m->ops.data[op].operands[i] = value;
    return true;
}

bool exchange_values(sc_module *m, sc_func_id func, sc_value a, sc_value b)
{
    bool found = false;
    if (a == SC_NONE || b == SC_NONE || a == b || m->values.data[a].type != m->values.data[b].type)
        return false;
    sc_for_each_op (m, func, op) {
        for (uint32_t i = 0; i < sc_op_at(m, op)->operand_count; i++) {
            const sc_value value = operand_of(m, op, i);
            m->ops.data[op].operands[i] = value == a ? b : value == b ? a : value;
            found = found || value == a || value == b;
        }
    }
    return found;
}

bool exchange_words(sc_module *m, sc_op_id a, sc_op_id b, sc_attr_key key)
{
    if (a == SC_NONE || b == SC_NONE)
        return false;
    const sc_sym first = sc_op_word(sc_op_at(m, a), key), second = sc_op_word(sc_op_at(m, b), key);
    sc_op_set_attr(m, a, sc_attr_text(key, second));
    sc_op_set_attr(m, b, sc_attr_text(key, first));
    return first != 0 && second != 0 && first != second;
}

bool reduce_twice(sc_module *m, sc_func_id func, sc_op_id reduction, uint32_t i)
{
    if (reduction == SC_NONE || i >= sc_op_at(m, reduction)->result_count)
        return false;
    const sc_value once = sc_result(m, reduction, i);
    const sc_placement at = sc_type_of(m, once)->placement;
    sc_value twice = add_after(m, func, reduction, SC_OP_all_reduce, once, &at);
    sc_op_drop_attr(m, sc_def(m, twice), SC_ATTR_gather);
    return read_instead(m, func, once, twice, sc_def(m, twice));
}
