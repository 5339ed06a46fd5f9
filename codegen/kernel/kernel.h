/* Kernel IR: the computation of one fused kernel, before it is printed as C or CUDA.
 *
 * A kernel iterates over named dims. The first `outer_count` of them are *outer*: their iterations
 * are independent and may run anywhere, in any order. Each outer iteration executes the kernel's
 * phases in order. A phase iterates over some *inner* dims (or none: then once) in row-major order
 * and executes its items at each point: an item stores elements, checks conditions, or adds to
 * reductions, which are complete when the phase ends and are read afterwards as `reduced`. A
 * layernorm row, for example: sum; sum of squares; store.
 *
 * Expressions form one DAG for all phases: a node is evaluated wherever a phase needs it, at the
 * current point. A node depends on inner dims if one of its operands does (ultimately through an
 * `index` of an inner dim). A node that does not is computed once per outer iteration, or once per
 * phase if it loads an argument that the kernel writes. At a point, the operands of an item are
 * evaluated before the item is executed, and may be evaluated before earlier items except checks:
 * what follows a check is evaluated only if it held. A failed check ends its outer iteration.
 *
 * Arithmetic is in f32, f64, i32, i64 and bool. A load converts from the stored dtype (bf16 and f16
 * to f32, u8 to i32) and a store converts back, rounding to nearest even. Integers wrap; a quotient
 * is truncated, a remainder has the divisor's sign, and both are 0 when dividing by 0.
 *
 * sc_kernel_verify checks what makes outer iterations independent, and points of a phase nearly so:
 * - An element that an outer iteration stores or adds to is not loaded, stored or added to by any
 *   other.
 * - An element that a phase stores is not loaded, stored or added to at any other point of the
 *   phase, and is loaded only by operands of the phase's items up to the first store to the
 *   argument. So a phase without `running` and `add` may execute its points in any order, up to the
 *   order of its sums.
 * - An OUT is loaded and added to only after a phase that stored to it.
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
 * Further lines: `from "a line of the model"` at the top; `param 0: rank = (divide, modulo, times)
 * + ..`, `param 1: key = "0123456789abcdef"` (the path's hash), `param 2: step`, `param 3:
 * micro_batch` after the arguments; `load x %0 if %5`, `store y %0 = %4 if %5`, `add y %0 = %4`,
 * `check %5 "what is wrong"`, `check %5 "id {value} is wrong" shows %3`, `#2 = max %4`. Items of
 * all kinds are numbered from 0 through all phases. A name that is not a word is quoted. */
#ifndef SHARDC_CODEGEN_KERNEL_KERNEL_H
#define SHARDC_CODEGEN_KERNEL_KERNEL_H

#include "codegen/kernel/types.h"
#include "support/strbuf.h"

/* ---- construction ---- */
/* Allocates in the context's arena, or in one that may be freed before the context. */
sc_kernel *sc_kernel_new(sc_context *context, sc_sym name);
sc_kernel *sc_kernel_new_in(sc_context *context, sc_arena *arena, sc_sym name);
uint32_t sc_kernel_add_dim(sc_kernel *k, sc_sym name, int64_t size);
uint32_t sc_kernel_add_arg(sc_kernel *k, const sc_kernel_arg *arg);
/* Returns the number of an equal parameter if there is one. */
uint32_t sc_kernel_add_param(sc_kernel *k, const sc_image_param *param);

/* Nodes are unique: equal kind, dtype, operands and index give the same node. Constants fold; x +
 * 0, x * 1 and the like are simplified for integers (for floats only what is exact for every value,
 * NaN and -0 included), as are conversions to the same dtype. Float constants are kept as doubles,
 * so that the reference knows them as precisely as the model does; integer constants are exact up
 * to 2^53. */
sc_knode sc_kernel_constant(sc_kernel *k, sc_dtype dtype, double number);
sc_knode sc_kernel_index(sc_kernel *k, uint32_t dim);
sc_knode sc_kernel_param(sc_kernel *k, uint32_t param);
/* guard SC_NONE: none. The dtype is the arithmetic dtype of what the argument stores. */
sc_knode sc_kernel_load(sc_kernel *k, uint32_t arg, const sc_knode *indices, sc_knode guard);
sc_knode sc_kernel_reduced(sc_kernel *k, uint32_t item, bool running);
/* The key is a param of kind KEY that has no other use; step and micro_batch are words 2 and 3 of
 * the counter (a param, or constant 0). */
sc_knode sc_kernel_random(sc_kernel *k, sc_knode element, sc_knode key, sc_knode step,
                          sc_knode micro_batch);
/* Arithmetic: operands of binary nodes have one dtype. */
sc_knode sc_kernel_node_new(sc_kernel *k, sc_node_kind kind, const sc_knode *operands,
                            uint32_t count);
sc_knode sc_kernel_convert(sc_kernel *k, sc_knode value, sc_dtype dtype);

/* Begins a phase; items are added to the newest phase. A store whose guard is constant false and a
 * check of constant true are dropped. A reduction returns its item number. */
void sc_kernel_add_phase(sc_kernel *k, const uint32_t *dims, uint32_t dim_count);
uint32_t sc_kernel_add_reduction(sc_kernel *k, sc_item_kind kind, sc_knode value);
void sc_kernel_add_store(sc_kernel *k, sc_item_kind kind, uint32_t arg, const sc_knode *indices,
                         sc_knode value, sc_knode guard);
void sc_kernel_add_check(sc_kernel *k, sc_knode value, sc_knode shown, const char *message);

/* The arithmetic dtype for a stored dtype. */
sc_dtype sc_kernel_dtype(sc_dtype stored);

/* ---- queries ---- */
/* True if the node depends on the dim: through an index of it, or a running sum of a phase over it.
 * A `reduced` depends on the outer dims that its value depends on. */
bool sc_kernel_depends(const sc_kernel *k, sc_knode node, uint32_t dim);
/* True if the arguments may be the same array: see sc_kernel_arg. The kernel must verify. */
bool sc_kernel_may_share(const sc_kernel *k, uint32_t in, uint32_t out);

/* Fills in, per argument, how many bytes a call has to read and write, at most: of a table whose
 * rows ids select as many rows as there are ids. What is read several times counts once. */
void sc_kernel_traffic(const sc_kernel *k, int64_t *out_bytes);

/* Merges neighbouring dims that every access (and every sum over one of them) walks as one; drops
 * dims of size 1, dead nodes and guards that always hold. Arguments, params and items keep their
 * numbers; arguments get other dims. The kernel must verify, and still does afterwards. */
void sc_kernel_simplify(sc_kernel *k);
/* Returns NULL, or an error message in the arena: dims or dtypes that do not match, an item read
 * before its phase ends, an outer dim that a store lacks, an index that may be outside its argument
 * (as far as intervals show; checks and guards are taken into account), .. */
const char *sc_kernel_verify(const sc_kernel *k);

/* ---- text ---- */
void sc_kernel_print(const sc_kernel *k, sc_strbuf *out);
/* Parses one kernel. NULL after a diagnostic; `file` is the name in it. Rejects what a constructor
 * would reject; verification is up to the caller. Names of nodes are free; print numbers them. */
sc_kernel *sc_kernel_parse(sc_context *context, const char *text, size_t length, const char *file);

/* ---- reference interpreter: f64 arrays, as in sc_interp ---- */
enum { SC_KERNEL_NO_MEMORY = -1, SC_KERNEL_OUTSIDE = -2 };
/* args[i]: the elements of argument i as doubles. OUT and INOUT are written, rounded to the
 * argument's dtype if `round` (integers and bool: always). params: as for the emitted function, one
 * int64 per param in the kernel's order; a KEY is the whole key, word 0 the low half. Returns 0; or
 * the least sc_image_failure at which an outer iteration ended (checks count in order of items); or
 * a negative number: out of memory, or an access outside its argument. The kernel must verify. */
int64_t sc_kernel_interpret(const sc_kernel *k, double *const *args, const int64_t *params,
                            bool round);

#endif
