/* Finding a place in a finished program and changing it, by the graph API: what mutations are
 * written with. SC_NONE stands for what was not found, and is passed on as false. */
#ifndef SHARDC_TEST_EDIT_H
#define SHARDC_TEST_EDIT_H

#include "ir/ops/ops.h"

/* ---- finding ---- */
/* The first op of a kind in a scope (NULL: anywhere). */
sc_op_id find_op(const sc_module *m, sc_func_id func, sc_op_kind kind, const char *scope);
/* The same among the ops of a phase: "backward", "recompute". */
sc_op_id find_in_phase(const sc_module *m, sc_func_id func, sc_op_kind kind, const char *scope,
                       const char *phase);
sc_value find_value(const sc_module *m, sc_func_id func, const char *path);
sc_op_id find_reader(const sc_module *m, sc_func_id func, sc_value value, sc_op_kind kind);
/* What reads and what writes a state. */
sc_op_id find_read(const sc_module *m, sc_func_id func, const char *name);
sc_op_id find_write(const sc_module *m, sc_func_id func, const char *name);
/* Of the ops of a kind that a value is computed from, the last one. */
sc_op_id find_maker(const sc_module *m, sc_value value, sc_op_kind kind);
/* The last function of a train step's schedule. */
sc_func_id update_of(const sc_module *m);
sc_value operand_of(const sc_module *m, sc_op_id op, uint32_t i);
sc_value result_of(const sc_module *m, sc_op_id op);
sc_op_id def_of(const sc_module *m, sc_value value);
/* Which operand of the op the value is; their number when it is none. */
uint32_t operand_index(const sc_module *m, sc_op_id op, sc_value value);

/* ---- changing ---- */
/* All but `except` read `fresh` for `old`. */
bool read_instead(sc_module *m, sc_func_id func, sc_value old, sc_value fresh, sc_op_id except);
/* One operand of one op. */
bool read_as_operand(sc_module *m, sc_op_id op, uint32_t i, sc_value value);
/* Readers of result i of an op read its operand i. */
bool bypass(sc_module *m, sc_func_id func, sc_op_id op, uint32_t i);
/* Its operand's type says what its result's does, and readers read the operand. */
bool claim(sc_module *m, sc_func_id func, sc_op_id op);
bool drop_attr(sc_module *m, sc_op_id op, sc_attr_key key);
bool set_word(sc_module *m, sc_op_id op, sc_attr_key key, const char *word);
bool set_dim(sc_module *m, sc_op_id op, sc_attr_key key, const char *dim);
bool set_group(sc_module *m, sc_op_id op, const uint8_t *sub_axes, uint32_t count);
bool reverse_offset(sc_module *m, sc_op_id op);
bool swap_operands(sc_module *m, sc_op_id op, uint32_t i, uint32_t j);
/* Readers of one read the other; both of one type. */
bool exchange_values(sc_module *m, sc_func_id func, sc_value a, sc_value b);
bool exchange_words(sc_module *m, sc_op_id a, sc_op_id b, sc_attr_key key);

/* ---- making ---- */
/* Another op on the same operand, right behind. */
sc_value add_after(sc_module *m, sc_func_id func, sc_op_id like, sc_op_kind kind, sc_value operand,
                   const sc_placement *at);
/* reader(all_reduce(x)) becomes all_reduce(reader(x)). */
bool reduce_behind(sc_module *m, sc_func_id func, sc_op_id reduction, sc_op_id reader);
/* An all_reduce of result i of a reduction, for its readers. */
bool reduce_twice(sc_module *m, sc_func_id func, sc_op_id reduction, uint32_t i);
/* An op of one (y SC_NONE) or two operands. */
sc_value make_before(sc_module *m, sc_op_id before, sc_op_kind kind, sc_value x, sc_value y,
                     sc_type type);
sc_value make_number(sc_module *m, sc_op_id before, double number, sc_type type);
bool scale_operand(sc_module *m, sc_op_id op, uint32_t i, double factor);

#endif
