/* What the files of the kernel IR share. */
#ifndef SHARDC_CODEGEN_KERNEL_INTERNAL_H
#define SHARDC_CODEGEN_KERNEL_INTERNAL_H

#include "codegen/kernel/kernel.h"

/* As the text has them; by sc_item_kind, sc_image_param_kind and sc_kernel_arg_mode. */
enum { SC_ITEM_KINDS = SC_ITEM_CHECK + 1, SC_ARG_MODES = SC_ARG_INOUT + 1 };
extern const char *const sc_kernel_item_names[SC_ITEM_KINDS], *const sc_kernel_param_names[SC_PARAM_KINDS],
                                                                  *const sc_kernel_mode_names[SC_ARG_MODES];

/* NULL, or why a node of this kind cannot have these operands: their number and their dtypes. Operands are nodes of the kernel. */
const char *sc_kernel_operands_error(const sc_kernel *k, sc_node_kind kind, const sc_knode *operands, uint32_t count);
/* The same for an item; `arg` and `indices` of STORE and ADD. */
const char *sc_kernel_item_error(const sc_kernel *k, const sc_kernel_item *item, const sc_knode *indices);
/* Of a node made of these operands; SC_RESULT_GIVEN kinds have none. */
sc_dtype sc_kernel_result_dtype(const sc_kernel *k, sc_node_kind kind, const sc_knode *operands);
/* The node as it is, unless there is one already; nothing folds. Its `first` and `count` are filled in here. */
sc_knode sc_kernel_unique(sc_kernel *k, sc_kernel_node node, const sc_knode *operands, uint32_t count);
/* An item of the newest phase, whatever its guard; its `first` is filled in here. */
uint32_t sc_kernel_add_item(sc_kernel *k, sc_kernel_item item, const sc_knode *indices);
bool sc_kernel_is_constant(const sc_kernel *k, sc_knode node, double *out_number);
/* Whether it is this constant; -0 is not 0. */
bool sc_kernel_is_number(const sc_kernel *k, sc_knode node, double number);
/* What the operation gives, by f64, rounded to an integer dtype when it is one. */
double sc_node_evaluate(sc_node_kind kind, sc_dtype dtype, double x, double y, double z);
/* Combines a reduction's value so far with one more; what nothing gives. */
double sc_item_combine(sc_item_kind kind, sc_dtype dtype, double so_far, double value);
double sc_item_nothing(sc_item_kind kind, sc_dtype dtype);

#endif
