/* Shared by the files of the lowering. */
#ifndef SHARDC_CODEGEN_LOWER_INTERNAL_H
#define SHARDC_CODEGEN_LOWER_INTERNAL_H

#include "codegen/lower/lower.h"
#include "ir/ops/loops.h"

typedef struct sc_lowering sc_lowering;

/* Builds the expression for an element of the op's first result, in its arithmetic dtype; one index
 * per dim of the result. */
typedef sc_knode sc_lower_fn(sc_lowering *l, const sc_op *op, const sc_knode *index);
/* Builds the whole kernel of an op that ends one. */
typedef void sc_root_fn(sc_lowering *l, const sc_op *op);

typedef struct sc_lower_row {
    sc_lower_fn *lower;
    sc_root_fn *root;
    sc_node_kind node;
} sc_lower_row;

/* lowering.def by op; NULL, NULL: never part of a kernel. Functions named in rows access it as
 * l->rows. */
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
    uint32_t *depth;          /* by op: number of reduction phases before it */
    uint32_t *item;           /* by op: the reduction's item; SC_NONE before its phase */
    uint32_t *saved;          /* by op: 1 + the argument with its first result; 0: none */
    SC_VEC(sc_loop_dim) dims; /* as kernel->dims */
    SC_VEC(sc_lower_memo) memo;
    sc_map memo_map;
    SC_VEC(sc_pending_check) checks; /* collected since the last phase */
    sc_map checked;
    sc_knode guard; /* where the requested value is read at all; SC_NONE: everywhere */
    const char *error;
};

/* ---- values ---- */
/* An element of a value; one index per dim of its type. */
sc_knode sc_lower_value(sc_lowering *l, sc_value value, const sc_knode *index);
/* Operand i of op: its dims take the indices of the result's dims of the same name; a dim that the
 * result lacks is read at index 0. */
sc_knode sc_lower_operand(sc_lowering *l, const sc_op *op, uint32_t i, const sc_knode *index);
/* Fills `out` with the indices of an operand as above; dims that the result lacks get `other`. */
void sc_lower_map_index(sc_lowering *l, const sc_type_info *from, const sc_type_info *to,
                        const sc_knode *index, sc_knode other, sc_knode *out);
/* The value at the indices of the current loops. */
sc_knode sc_lower_here(sc_lowering *l, sc_value value);
/* The element, read only where `condition` also holds. */
sc_knode sc_lower_guarded(sc_lowering *l, sc_value value, const sc_knode *index,
                          sc_knode condition);
/* The operand named `word`, or SC_NONE. */
sc_value sc_lower_called(const sc_lowering *l, const sc_op *op, const char *word);
/* Makes the kernel fail where `holds` is false, with the op's name and location and this text;
 * {value} in it shows `shown`. */
void sc_lower_check(sc_lowering *l, const sc_op *op, sc_knode holds, sc_knode shown,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Records that the op checks each element of the value: 0 <= element < below. */
void sc_lower_ids(sc_lowering *l, sc_value value, int64_t below);

/* ---- nodes ---- */
sc_knode sc_lower_1(sc_lowering *l, sc_node_kind kind, sc_knode a);
sc_knode sc_lower_2(sc_lowering *l, sc_node_kind kind, sc_knode a, sc_knode b);
sc_knode sc_lower_where(sc_lowering *l, sc_knode condition, sc_knode yes, sc_knode no);
/* a OP number, of a's dtype. */
sc_knode sc_lower_with(sc_lowering *l, sc_node_kind kind, sc_knode a, double number);
sc_knode sc_lower_integer(sc_lowering *l, int64_t number);
/* Conjunction; SC_NONE is true. */
sc_knode sc_lower_both(sc_lowering *l, sc_knode a, sc_knode b);
/* 0 <= index < size. */
sc_knode sc_lower_within(sc_lowering *l, sc_knode index, int64_t size);
/* The arithmetic dtype of a value. */
sc_dtype sc_lower_dtype(const sc_lowering *l, sc_value value);
/* The global index, i64, of the rank's element `index` along a dim of the op with this local size;
 * and the reverse, not in 0 .. local - 1 if the rank does not have it. */
sc_knode sc_lower_position(sc_lowering *l, const sc_op *op, sc_dim dim, int64_t local,
                           sc_knode index);
sc_knode sc_lower_place(sc_lowering *l, const sc_op *op, sc_dim dim, int64_t local,
                        sc_knode position);
/* The same as the former for a shard of these sub-axes. */
sc_knode sc_lower_in_shard(sc_lowering *l, sc_dim dim, const sc_sub_axis_list *sub_axes,
                           int64_t local, sc_knode index);
sc_knode sc_lower_rank_param(sc_lowering *l, sc_image_terms terms);

/* ---- types ---- */
static inline const sc_type_info *sc_lower_type(const sc_lowering *l, sc_value value)
{
    return sc_type_of(l->m, value);
}
/* Position of the dim in the type, which has it. */
uint32_t sc_lower_at(const sc_type_info *type, sc_dim dim);
const char *sc_lower_dim_name(const sc_lowering *l, sc_dim dim);

/* Appends a scope with instance numbers generalized, as instances share the kernel: layers[3]
 * becomes layers[*]. */
void sc_lower_add_scope(sc_strbuf *out, const char *scope);

/* ---- the kernel ---- */
/* Index in l->ops; op_count: an op of another kernel. */
uint32_t sc_lower_find_op(const sc_lowering *l, sc_op_id op);
/* SC_FUSE_.. of ops[i] in the op table. */
uint32_t sc_lower_fuse(const sc_lowering *l, uint32_t i);
uint32_t sc_lower_add_dim(sc_lowering *l, sc_loop_dim dim);
/* Makes the dims added so far the outer ones. */
void sc_lower_end_outer(sc_lowering *l);
sc_knode sc_lower_loop(sc_lowering *l, sc_loop_dim dim);
uint32_t sc_lower_out(sc_lowering *l, sc_value value, sc_kernel_arg_mode mode, sc_value in_place);
/* Begins a phase over these dims, starting with the checks collected since the last one. */
void sc_lower_phase(sc_lowering *l, const sc_loop_dims *inner);
void sc_lower_store(sc_lowering *l, sc_item_kind kind, uint32_t arg, const sc_knode *index,
                    sc_knode value, sc_knode guard);

/* Builds all phases of a kernel whose last op is not a root. */
void sc_lower_phases(sc_lowering *l);

#endif
