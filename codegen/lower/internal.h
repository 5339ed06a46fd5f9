/* What the files of the lowering share. */
#ifndef SHARDC_CODEGEN_LOWER_INTERNAL_H
#define SHARDC_CODEGEN_LOWER_INTERNAL_H

#include "codegen/lower/lower.h"
#include "ir/ops/loops.h"

typedef struct sc_lowering sc_lowering;

/* The expression of an element of the op's first result, of the dtype that it is computed in; one index a dim of the result. */
typedef sc_knode sc_lower_fn(sc_lowering *l, const sc_op *op, const sc_knode *index);
/* The whole kernel of an op that ends one. */
typedef void sc_root_fn(sc_lowering *l, const sc_op *op);

typedef struct sc_lower_row {
    sc_lower_fn *lower;
    sc_root_fn *root;
    sc_node_kind node;
} sc_lower_row;

/* lowering.def by op; NULL, NULL: the op never stands in a kernel. Functions that rows name reach it as l->rows. */
extern const sc_lower_row sc_lower_rows[SC_OP_COUNT];

typedef struct sc_lower_memo {
    sc_value value;
    sc_knode guard, node;
    const sc_knode *index;
    uint32_t next;
} sc_lower_memo;

typedef struct sc_pending_check {
    sc_knode holds, shown;
    const char *message;
} sc_pending_check;

struct sc_lowering {
    const sc_module *m;
    sc_kernel *k;
    sc_lowered *out;
    const sc_lower_row *rows; /* sc_lower_rows */
    const bool *escapes;
    int64_t number; /* of the kernel */
    const sc_op_id *ops;
    uint32_t op_count;
    uint32_t *depth;          /* by op: how many phases of reductions come before it */
    uint32_t *item;           /* by op: the reduction's item; SC_NONE before its phase */
    uint32_t *saved;          /* by op: 1 + the argument that holds its first result already; 0: none */
    SC_VEC(sc_loop_dim) dims; /* as kernel->dims */
    SC_VEC(sc_lower_memo) memo;
    sc_map memo_map;
    SC_VEC(sc_pending_check) checks; /* met since the last phase */
    sc_map checked;
    sc_knode guard; /* where what is asked for is read at all; SC_IMAGE_NONE: everywhere */
    const char *error;
};

/* ---- asking ---- */
/* An element of a value; one index a dim of its type. */
sc_knode sc_lower_value(sc_lowering *l, sc_value value, const sc_knode *index);
/* Of operand i of op, its dims at the indices of the result's dims of the same name; where the result lacks one, at `own` (0: there is
 * none). */
sc_knode sc_lower_operand(sc_lowering *l, const sc_op *op, uint32_t i, const sc_knode *index);
/* Fills `out` with the indices of an operand as above; dims that the result lacks get `other`. */
void sc_lower_map_index(sc_lowering *l, const sc_type_info *from, const sc_type_info *to, const sc_knode *index, sc_knode other,
                        sc_knode *out);
/* The value at the loop's own indices. */
sc_knode sc_lower_here(sc_lowering *l, sc_value value);
/* Asks with a further condition on where it is read. */
sc_knode sc_lower_guarded(sc_lowering *l, sc_value value, const sc_knode *index, sc_knode condition);
/* The operand called `word`, or SC_NONE. */
sc_value sc_lower_called(const sc_lowering *l, const sc_op *op, const char *word);
/* The kernel fails where `holds` does not, with the op's name and place, and this text, in which {value} is what `shown` is. */
void sc_lower_check(sc_lowering *l, const sc_op *op, sc_knode holds, sc_knode shown, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Notes that the op checks each element of the value: 0 <= element < below. */
void sc_lower_ids(sc_lowering *l, sc_value value, int64_t below);

/* ---- nodes ---- */
sc_knode sc_lower_1(sc_lowering *l, sc_node_kind kind, sc_knode a);
sc_knode sc_lower_2(sc_lowering *l, sc_node_kind kind, sc_knode a, sc_knode b);
sc_knode sc_lower_where(sc_lowering *l, sc_knode condition, sc_knode yes, sc_knode no);
/* a op number, of a's dtype. */
sc_knode sc_lower_with(sc_lowering *l, sc_node_kind kind, sc_knode a, double number);
sc_knode sc_lower_integer(sc_lowering *l, int64_t number);
/* SC_IMAGE_NONE is true. */
sc_knode sc_lower_both(sc_lowering *l, sc_knode a, sc_knode b);
/* 0 <= index < size. */
sc_knode sc_lower_within(sc_lowering *l, sc_knode index, int64_t size);
/* The dtype that a value is computed in. */
sc_dtype sc_lower_dtype(const sc_lowering *l, sc_value value);
/* Global index of local element 0 of the op's dim, whose local size this is; i64. */
sc_knode sc_lower_offset(sc_lowering *l, const sc_op *op, sc_dim dim, int64_t local);
sc_knode sc_lower_rank_param(sc_lowering *l, sc_image_terms terms);

/* ---- types ---- */
static inline const sc_type_info *sc_lower_type(const sc_lowering *l, sc_value value)
{
    return sc_type_of(l->m, value);
}
/* Index of the dim in the type, which has it. */
uint32_t sc_lower_at(const sc_type_info *type, sc_dim dim);
const char *sc_lower_dim_name(const sc_lowering *l, sc_dim dim);

/* A scope as all instances that share the kernel have it: layers[3] is layers[*]. */
void sc_lower_add_scope(sc_strbuf *out, const char *scope);

/* ---- the kernel ---- */
/* Index in l->ops; op_count: another kernel's. */
uint32_t sc_lower_find_op(const sc_lowering *l, sc_op_id op);
/* What the op table says of ops[i]: SC_FUSE_.. */
uint32_t sc_lower_fuse(const sc_lowering *l, uint32_t i);
uint32_t sc_lower_add_dim(sc_lowering *l, sc_loop_dim dim);
/* What was added so far is outer. */
void sc_lower_end_outer(sc_lowering *l);
sc_knode sc_lower_loop(sc_lowering *l, sc_loop_dim dim);
uint32_t sc_lower_out(sc_lowering *l, sc_value value, sc_kernel_arg_mode mode, sc_value in_place);
/* A phase over these dims; first the checks that what was asked for since the last one made. */
void sc_lower_phase(sc_lowering *l, const sc_loop_dims *dims);
void sc_lower_store(sc_lowering *l, sc_item_kind kind, uint32_t arg, const sc_knode *index, sc_knode value, sc_knode guard);

/* All phases of a kernel whose last op is no root. */
void sc_lower_phases(sc_lowering *l);

#endif
