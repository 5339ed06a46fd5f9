/* Routed products (routed_dot) and their gradients as C and CUDA, from one descriptor. Inside, rows
 * are sorted by id (a counting sort of their offsets, in the kernel's scratch), and each id has one
 * matmul with packed operands; bf16 by bf16 in the CPU's tiles (AMX), where the code is compiled
 * for a machine that has them. The order of additions is that of rows, or of the contracted dims:
 * the same bits for any number of threads. */
#ifndef SHARDC_CODEGEN_ROUTED_ROUTED_H
#define SHARDC_CODEGEN_ROUTED_ROUTED_H

#include "codegen/cuda/launch.h"
#include "codegen/printer/helpers.h"
#include "ir/ops/ops.h"
#include "program/format.h"

/* The kernel's arguments: the op's operands and result, then scratch. `Y` is the weights, or the
 * cotangent of the result. */
typedef enum sc_routed_array {
    SC_ROUTED_X,
    SC_ROUTED_Y,
    SC_ROUTED_IDS,
    SC_ROUTED_OUT,
    SC_ROUTED_ARRAYS
} sc_routed_array;

/* One dim, or several that are contiguous in all arrays. */
typedef struct sc_routed_dim {
    int64_t size;
    int64_t strides[SC_ROUTED_ARRAYS]; /* 0 if the array lacks the dim */
} sc_routed_dim;

/* c[m, n] = sum over k of a[m, k] b[k, n] for each id, where a is x. The rows are m of a product
 * and k of a gradient; their number is known at run time. */
typedef struct sc_routed_desc {
    bool is_grad;
    sc_dtype dtypes[SC_ROUTED_ARRAYS];
    uint32_t row_dim_count;
    sc_routed_dim row_dims[2 * SC_MAX_RANK];
    sc_routed_dim own, columns; /* own: the other one of m and k; columns: n */
    sc_routed_dim experts;      /* of this rank */
    int64_t below;              /* number of ids over all ranks */
    int64_t least;              /* -1: that is the id of no weights; 0: there is none */
    const char *check;          /* the message of an id that is no weights' */
    int64_t scratch_bytes;
    bool has_offset;      /* this rank has a part of the ids: */
    sc_image_param first; /* its first one */
} sc_routed_desc;

/* NULL: describes the op; else why the op has no descriptor, and only the form by definition. */
const char *sc_routed_describe(const sc_module *m, sc_op_id op, sc_routed_desc *out);

/* Appends a function of C; adds the helpers that its text calls to *helpers (may be NULL). */
void sc_routed_emit(sc_context *context, const sc_routed_desc *desc, const char *name,
                    sc_strbuf *out, sc_helper_set *helpers);
/* Appends the functions of the stages, NAME_0 and NAME_1, in the form of codegen/cuda/emit.h. */
void sc_routed_emit_cuda(sc_context *context, const sc_routed_desc *desc, const char *name,
                         sc_strbuf *out, sc_helper_set *helpers, sc_cuda_code *code);

#endif
