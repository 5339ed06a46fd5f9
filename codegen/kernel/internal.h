/* Shared by the files of the kernel IR. */
#ifndef SHARDC_CODEGEN_KERNEL_INTERNAL_H
#define SHARDC_CODEGEN_KERNEL_INTERNAL_H

#include "codegen/kernel/kernel.h"

/* Names in the text form; indexed by sc_item_kind, sc_image_param_kind and sc_kernel_arg_mode. */
enum { SC_ITEM_KINDS = SC_ITEM_CHECK + 1, SC_ARG_MODES = SC_ARG_INOUT + 1 };
extern const char *const sc_kernel_item_names[SC_ITEM_KINDS],
    *const sc_kernel_param_names[SC_PARAM_KINDS], *const sc_kernel_mode_names[SC_ARG_MODES];

/* NULL, or why a node of this kind cannot have these operands: wrong number or dtypes. Operands are
 * nodes of the kernel. */
const char *sc_kernel_operands_error(const sc_kernel *k, sc_node_kind kind,
                                     const sc_knode *operands, uint32_t count);
/* The same for an item; `arg` and `indices` are those of STORE and ADD. */
const char *sc_kernel_item_error(const sc_kernel *k, const sc_kernel_item *item,
                                 const sc_knode *indices);
/* The dtype of a node with these operands; not for SC_RESULT_GIVEN kinds. */
sc_dtype sc_kernel_result_dtype(const sc_kernel *k, sc_node_kind kind, const sc_knode *operands);
/* Returns the node, reusing an equal one; no folding. Fills in `first` and `count`. */
sc_knode sc_kernel_unique(sc_kernel *k, sc_kernel_node node, const sc_knode *operands,
                          uint32_t count);
/* Adds an item to the newest phase, whatever its guard; fills in `first`. */
uint32_t sc_kernel_add_item(sc_kernel *k, sc_kernel_item item, const sc_knode *indices);
bool sc_kernel_is_constant(const sc_kernel *k, sc_knode node, double *out_number);
/* True if the node is this constant; -0 is not 0. */
bool sc_kernel_is_number(const sc_kernel *k, sc_knode node, double number);
/* Evaluates the operation in f64; the result is rounded to an integer dtype if `dtype` is one. */
double sc_node_evaluate(sc_node_kind kind, sc_dtype dtype, double x, double y, double z);
/* Combines a reduction's value so far with one more; the identity of the reduction. */
double sc_item_combine(sc_item_kind kind, sc_dtype dtype, double so_far, double value);
double sc_item_nothing(sc_item_kind kind, sc_dtype dtype);

#endif
