/* Kernel IR: what one fused kernel computes, before it becomes C or CUDA.
 *
 * A kernel runs over named dims. The first `outer_count` of them are *outer*: their iterations are independent of each other and may run
 * anywhere, in any order. Every outer iteration goes through the kernel's phases in order. A phase runs over some *inner* dims (or none:
 * then once), in row-major order, and does its items at each point: it stores elements, checks conditions, or adds to reductions, which are
 * complete when the phase ends and are read afterwards as `reduced`. So a row of layernorm is: sum; sum of squares; store.
 *
 * Expressions are one DAG for all phases: a node is evaluated wherever a phase needs it, at the point where it stands. A node depends on
 * inner dims if one of its operands does (an `index` of an inner dim, at last); what does not is computed once for the outer iteration -
 * once a phase if it loads an argument that the kernel writes. At a point, what an item needs is evaluated before the item is done, and
 * may be evaluated before the items in front of it, except for checks: what stands behind a check is evaluated only where it held. A check
 * that fails ends its outer iteration.
 *
 * Arithmetic is in f32 or f64, i32 or i64, and bool; a load converts from what is stored (bf16 and f16 to f32, u8 to i32) and a store
 * back, rounding to nearest even. Integers wrap; a quotient is truncated, a remainder has the divisor's sign, both are 0 where one
 * divides by 0.
 *
 * What makes outer iterations independent, and points of a phase nearly so, is checked by sc_kernel_verify:
 *   - an element that an outer iteration stores or adds to is loaded, stored and added to by no other;
 *   - an element that a phase stores is loaded, stored and added to at no other point of the phase, and loaded only by what the phase's
 *     items up to the first store to the argument need. So a phase without `running` and `add` may do its points in any order, up to
 *     the order of its sums;
 *   - an OUT is loaded and added to only behind a phase that stored to it.
 *
 * Example, the sum of a row and the row divided by it:
 *
 *     kernel @k0 "softmax's last step" {
 *       dim S = 8
 *       dim D = 64
 *       arg x: f32[8, 64] in
 *       arg y: f32[8, 64] out
 *       outer S
 *       %0 = index S : i64
 *       %1 = index D : i64
 *       %2 = load x %0, %1 : f32
 *       %3 = reduced #0 : f32
 *       %4 = div %2, %3 : f32
 *       phase D {
 *         #0 = sum %2
 *       }
 *       phase D {
 *         store y %0, %1 = %4
 *       }
 *     }
 *
 * Other lines that a kernel may have: `from "a line of the model"` at its top; `param 0: rank = (divide, modulo, times) + ..`,
 * `param 1: key = "0123456789abcdef"` (the path's hash), `param 2: step`, `param 3: micro_batch` behind the arguments; `load x %0 if %5`,
 * `store y %0 = %4 if %5`, `add y %0 = %4`, `check %5 "what is wrong"`, `check %5 "id {value} is wrong" shows %3`, `#2 = max %4`. Items are
 * numbered from 0 through all phases, whatever they are. A name that is no word stands in quotes.
 */
#ifndef SHARDC_CODEGEN_KERNEL_KERNEL_H
#define SHARDC_CODEGEN_KERNEL_KERNEL_H

#include "codegen/kernel/types.h"
#include "support/strbuf.h"

/* ---- making one ---- */
/* In the context's arena, or in one that may end sooner than the context. */
sc_kernel *sc_kernel_new(sc_context *context, sc_sym name);
sc_kernel *sc_kernel_new_in(sc_context *context, sc_arena *arena, sc_sym name);
uint32_t sc_kernel_add_dim(sc_kernel *k, sc_sym name, int64_t size);
uint32_t sc_kernel_add_arg(sc_kernel *k, const sc_kernel_arg *arg);
/* The number of an equal parameter when there is one. */
uint32_t sc_kernel_add_param(sc_kernel *k, const sc_image_param *param);

/* Nodes are unique: the same kind, dtype, operands and index give the same node. Constants fold, x + 0, x * 1 and the like of integers and
 * conversions to the own dtype vanish (of floats only what is exact for every value, NaN and -0 included). Constants of floats are kept as
 * doubles, so that the reference knows them as well as the model does; those of integers are exact up to 2^53. */
sc_knode sc_kernel_constant(sc_kernel *k, sc_dtype dtype, double number);
sc_knode sc_kernel_index(sc_kernel *k, uint32_t dim);
sc_knode sc_kernel_param(sc_kernel *k, uint32_t param);
/* guard SC_IMAGE_NONE: none. The dtype is that of arithmetic on what the argument stores. */
sc_knode sc_kernel_load(sc_kernel *k, uint32_t arg, const sc_knode *indices, sc_knode guard);
sc_knode sc_kernel_reduced(sc_kernel *k, uint32_t item, bool running);
/* The key is a param of kind KEY and is used nowhere else; step and micro_batch are words 2 and 3 of the counter (a param, or constant 0).
 */
sc_knode sc_kernel_random(sc_kernel *k, sc_knode element, sc_knode key, sc_knode step, sc_knode micro_batch);
/* Arithmetic: operands of binary rows have one dtype. */
sc_knode sc_kernel_node_new(sc_kernel *k, sc_node_kind kind, const sc_knode *operands, uint32_t count);
sc_knode sc_kernel_convert(sc_kernel *k, sc_knode value, sc_dtype dtype);

/* Begins a phase; items go to the newest phase. A store that a constant guard keeps from happening is not added, nor a check of true. A
 * reduction's result is the number of its item. */
void sc_kernel_add_phase(sc_kernel *k, const uint32_t *dims, uint32_t dim_count);
uint32_t sc_kernel_add_reduction(sc_kernel *k, sc_item_kind kind, sc_knode value);
void sc_kernel_add_store(sc_kernel *k, sc_item_kind kind, uint32_t arg, const sc_knode *indices, sc_knode value, sc_knode guard);
void sc_kernel_add_check(sc_kernel *k, sc_knode value, sc_knode shown, const char *message);

/* The dtype that values of a stored dtype are computed in. */
sc_dtype sc_kernel_dtype(sc_dtype stored);

/* ---- asking ---- */
/* Whether the node depends on a dim: through an index of it, or a running sum of a phase over it. A `reduced` depends on the outer dims
 * that its value depends on. */
bool sc_kernel_depends(const sc_kernel *k, sc_knode node, uint32_t dim);
/* Whether the arguments may be the same array: see sc_kernel_arg. The kernel verifies. */
bool sc_kernel_may_share(const sc_kernel *k, uint32_t in, uint32_t out);

/* Merges neighbouring dims that every access (and every sum that has one of them) walks as one, drops dims of size 1, nodes that nobody
 * needs and guards that always hold: fewer loops, the same kernel. Arguments, params and items keep their numbers, arguments get other
 * dims. The kernel verifies, and does so afterwards. */
void sc_kernel_simplify(sc_kernel *k);
/* NULL, or what is wrong with it, in the arena: dims and dtypes that do not fit, an item read before its phase ended, an outer dim that a
 * store lacks, an index that may leave its argument (as far as intervals tell; what is checked or guarded is known to hold), .. */
const char *sc_kernel_verify(const sc_kernel *k);

/* ---- text ---- */
void sc_kernel_print(const sc_kernel *k, sc_strbuf *out);
/* One kernel. NULL after a message (at line of text): `file` is the name for messages. What a constructor would refuse is refused here;
 * verifying is left to the caller. Names of nodes are free; print gives them their numbers. */
sc_kernel *sc_kernel_parse(sc_context *context, const char *text, size_t length, const char *file);

/* ---- the reference: f64 arrays, as sc_interp holds them ---- */
enum { SC_KERNEL_NO_MEMORY = -1, SC_KERNEL_OUTSIDE = -2 };
/* args[i]: the elements of argument i as doubles; OUT and INOUT are written, rounded to the argument's dtype when `round` (integers and
 * bool: always). params as the emitted function gets them: one int64 a param, in the kernel's order; that of a KEY is the whole key, word 0
 * its low half. 0, or the least sc_image_failure at which an outer iteration ended (checks count in order of items); or a negative number:
 * memory ran out, an access would have left its argument. The kernel verifies. */
int64_t sc_kernel_interpret(const sc_kernel *k, double *const *args, const int64_t *params, bool round);

#endif
