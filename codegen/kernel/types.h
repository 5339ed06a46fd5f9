/* The data structures of a kernel; semantics and functions are in kernel.h. */
#ifndef SHARDC_CODEGEN_KERNEL_TYPES_H
#define SHARDC_CODEGEN_KERNEL_TYPES_H

#include "program/format.h"
#include "support/context.h"
#include "support/dtype.h"
#include "support/hash.h"
#include "support/vec.h"

typedef uint32_t sc_knode;

/* One more dim than a value has: the pieces of a collective are an extra leading dim. */
enum { SC_KERNEL_MAX_RANK = SC_IMAGE_MAX_RANK + 1, SC_KERNEL_MAX_ARGS = 96 };

typedef enum sc_node_kind {
#define NODE(name, ...) SC_NODE_##name,
#include "codegen/kernel/nodes.def"
    SC_NODE_COUNT
} sc_node_kind;

/* Rows of nodes.def. */
typedef enum sc_node_result {
    SC_RESULT_SAME,
    SC_RESULT_LAST,
    SC_RESULT_BOOL,
    SC_RESULT_GIVEN
} sc_node_result;
typedef struct sc_node_row {
    const char *name;
    int8_t operands; /* SC_NODE_ANY: load */
    uint8_t result;
    bool is_expensive;
    const char *f32, *f64, *integer; /* C text; "" where there is none */
} sc_node_row;

enum { SC_NODE_ANY = -1 };
extern const sc_node_row sc_node_rows[SC_NODE_COUNT];

typedef struct sc_kernel_dim {
    sc_sym name;
    int64_t size; /* local; at least 1 */
} sc_kernel_dim;

typedef enum sc_kernel_arg_mode { SC_ARG_IN, SC_ARG_OUT, SC_ARG_INOUT } sc_kernel_arg_mode;

/* A dense row-major array. OUT: every element that the kernel covers is stored before any is read.
 * Arguments do not overlap, except that an IN and an OUT may be the same array if every element is
 * read only by the outer iteration that stores it, at or before its store (see
 * sc_kernel_may_share). */
typedef struct sc_kernel_arg {
    sc_sym name;
    sc_dtype dtype; /* as stored */
    sc_kernel_arg_mode mode;
    uint32_t rank;
    int64_t sizes[SC_KERNEL_MAX_RANK];
} sc_kernel_arg;

typedef struct sc_kernel_node {
    uint16_t kind;
    uint8_t dtype;         /* f32, f64, i32, i64, bool */
    uint32_t first, count; /* operands, in kernel->operands; they precede the node */
    union {
        double number;  /* constant */
        uint32_t index; /* index: dim; param: param; load: argument; reduced, running: item */
    };
} sc_kernel_node;

typedef enum sc_item_kind {
    SC_ITEM_SUM, /* reductions over the phase's dims, in the value's dtype; empty: 0, -inf, inf
                  * (integers: the least, the largest) */
    SC_ITEM_MAX, /* NaN if any value is, as in the interpreter */
    SC_ITEM_MIN,
    SC_ITEM_STORE,
    SC_ITEM_ADD,  /* to an element of an INOUT or OUT; no two outer iterations add to one element,
                   * one iteration adds in order */
    SC_ITEM_CHECK /* the kernel fails if value is false anywhere; it may then store garbage, but
                   * only inside its arguments */
} sc_item_kind;

static inline bool sc_item_reduces(sc_item_kind kind)
{
    return kind == SC_ITEM_SUM || kind == SC_ITEM_MAX || kind == SC_ITEM_MIN;
}

static inline bool sc_item_writes(sc_item_kind kind)
{
    return kind == SC_ITEM_STORE || kind == SC_ITEM_ADD;
}

typedef struct sc_kernel_item {
    sc_item_kind kind;
    sc_knode value;
    uint32_t arg;          /* STORE, ADD */
    uint32_t first, count; /* indices, in kernel->operands, one per dim of the argument */
    sc_knode guard;        /* STORE, ADD: executed only where true; SC_NONE: always */
    sc_knode shown;        /* CHECK: an i64 (48 bits) for the message; SC_NONE: none */
    const char *message;   /* CHECK: the message on failure: see sc_image_kernel */
} sc_kernel_item;

typedef struct sc_kernel_phase {
    uint32_t dim_count;
    uint32_t dims[SC_KERNEL_MAX_RANK]; /* inner dims of the kernel, slowest first */
    uint32_t first_item, item_count;   /* in kernel->items */
} sc_kernel_phase;

typedef struct sc_kernel {
    sc_context *context;
    sc_arena *arena;               /* the kernel's own memory, also for analyses of it */
    sc_sym name;                   /* of the function: a C identifier */
    const char *title;             /* a line for users */
    SC_VEC(const char *) comments; /* "examples/gpt2.shard:7: c = x - mean[D](x)" */
    SC_VEC(sc_kernel_dim) dims;
    uint32_t outer_count;
    SC_VEC(sc_kernel_arg) args;
    SC_VEC(sc_image_param) params;
    SC_VEC(sc_kernel_node) nodes;
    SC_VEC(sc_knode) operands;
    SC_VEC(sc_kernel_item) items;
    SC_VEC(sc_kernel_phase) phases;
    sc_map unique; /* hash of a node -> the node */
} sc_kernel;

static inline const sc_knode *sc_kernel_operands(const sc_kernel *k, sc_knode node)
{
    return k->operands.data + k->nodes.data[node].first;
}

#endif
