/* The op table (ops.def, one row per op) and the queries that all stages make of it. No other code
 * compares op kinds. */
#ifndef SHARDC_IR_OPS_OPS_H
#define SHARDC_IR_OPS_OPS_H

#include "ir/graph.h"

/* Traits. */
enum {
    /* each result element depends only on operand elements with the same index */
    SC_ELEMENTWISE = 1u << 0,
    SC_LINEAR =
        1u << 1, /* f(a + b) = f(a) + f(b) in all operands jointly: a partial sum may pass */
    SC_COMMUTES = 1u << 2, /* operands may be swapped */
    SC_RANDOM = 1u << 3,
    SC_CONSTANT =
        1u << 4, /* no tensor operands: created in whatever placement the consumer wants */
    SC_COLLECTIVE = 1u << 5, /* moves data between ranks */
    SC_RESHARD = 1u << 6,    /* changes placement, not value */
    SC_EFFECT = 1u << 7,     /* not dead if unused */
    SC_VIEW = 1u << 8,       /* the result is the operand under other dim names or groups */
    SC_STATE_READ = 1u << 9,
    SC_EXACT = 1u << 10,    /* integer operands give exact integer results */
    SC_COMPARES = 1u << 11, /* the result is bool */
    /* linear in each operand separately: one of them may be a partial sum */
    SC_BILINEAR = 1u << 12,
    SC_LOCAL_PURE = 1u << 13,   /* deterministic per rank: ops with equal operands may be merged */
    SC_NAMESAKE = 1u << 14,     /* messages name the result after its operand */
    SC_CONVERTS = 1u << 15,     /* changes only the dtype */
    SC_FROM_OUTSIDE = 1u << 16, /* a value passed by the caller: an input */
    /* out-of-range integer operands are a run-time error: padding must not trigger it */
    SC_CHECKS_INTEGERS = 1u << 17,
    SC_FILLS_PADDING = 1u << 18, /* the padding of its result has defined contents */
    /* operand 0 is the new value of the state that it names, after the call */
    SC_STATE_WRITE = 1u << 19,
    SC_KEEPS_LSE = 1u << 20,      /* lse = 1 gives it another result, which its derivative reads */
    SC_STOPS_GRADIENT = 1u << 21, /* constant almost everywhere: no gradient flows through it */
    SC_SPREADS = 1u << 22,        /* repeats its operand along dims */
    SC_LINEAR_FIRST = 1u << 23,   /* linear in its first operand */
    SC_DECIDES = 1u << 24,        /* a small change of an operand may change the result by much */
    SC_RESIZES = 1u << 25, /* its result has a part of the operands' elements, or theirs and more:
                            * the sizes of `dims`, `from_dims` and `to` scale together */
    SC_RENAMES = 1u << 26, /* the elements along `dims` are those along `to` */
    SC_ATTENDS =
        1u << 27, /* attention of the positions `to` over the keys of the first of `dims` */
    SC_PARAMETER = 1u << 28, /* reads a parameter */
    SC_RETURNS = 1u << 29,   /* ends its function; operands are the function's results */
    SC_APPENDS = 1u << 30    /* operand 0, a cache, with the positions `dims` written along `to` */
};

/* How large results are, in magnitude. Holds for partial sums in any order too. */
typedef enum sc_bound {
    SC_BOUND_value,      /* the attribute `value`, which is the whole op */
    SC_BOUND_position,   /* the last result has positions on the first of `dims` */
    SC_BOUND_largest,    /* at most the largest operand, or 1 */
    SC_BOUND_added,      /* the sum of the operands */
    SC_BOUND_subtracted, /* their difference */
    SC_BOUND_multiplied, /* the product of the operands */
    SC_BOUND_summed,     /* operand 0 along `dims` */
    SC_BOUND_scattered,  /* operand 0 along the dims that the result lacks */
    SC_BOUND_contracted, /* the product of the operands along `dims` */
    SC_BOUND_any         /* unknown; such an op is never SC_EXACT */
} sc_bound;

/* An elementwise function of the language with the op's name. */
typedef enum sc_language {
    SC_LANGUAGE_no,
    SC_LANGUAGE_number,  /* of one number */
    SC_LANGUAGE_numbers, /* of two */
    SC_LANGUAGE_bools    /* of one or two */
} sc_language;

/* How an op is fused into kernels: one of the first seven, plus flags. */
enum {
    /* never in a shared kernel: state, contractions, attention, collectives */
    SC_FUSE_ALONE = 0,
    SC_FUSE_FREE = 1u << 0,   /* recomputed wherever it is read */
    SC_FUSE_VIEW = 1u << 1,   /* a view of the same bytes; inside a kernel, index arithmetic only */
    SC_FUSE_MAP = 1u << 2,    /* elements of the result from elements of the operands */
    SC_FUSE_REDUCE = 1u << 3, /* reduces over `dims` */
    SC_FUSE_ROOT = 1u << 4,   /* its result is complete only in memory: ends its kernel */
    SC_FUSE_EXPAND = 1u << 5, /* enters kernels as its expansion */
    SC_FUSE_EXPENSIVE = 1u << 6, /* worth storing instead of computing twice */
    /* reads operand 0 (concat and ops of any number of operands: all) at indices other than its own
     */
    SC_FUSE_INDEXED = 1u << 7,
    SC_FUSE_EPILOGUE = 1u << 8, /* may be a step in the epilogue of a contraction */
    SC_FUSE_CONTRACT = 1u << 9, /* may have an epilogue */
    SC_FUSE_MOVES = 1u << 10    /* rearranges elements: best fused with their producer */
};

/* Effect of sharding a dim on an op. */
typedef enum sc_role {
    SC_ROLE_PASSES, /* results are sharded the same way */
    SC_ROLE_SUMS,   /* results without the dim become partial sums */
    SC_ROLE_MAXES,
    SC_ROLE_MINS,
    SC_ROLE_WHOLE, /* must not be sharded */
    SC_ROLE_FORM   /* may be sharded once the op is replaced by its expansion */
} sc_role;

enum { SC_MAX_FACTORS = 24, SC_MAX_FIXED_OPERANDS = 12, SC_MAX_FIXED_RESULTS = 4 };

/* A factor: dims of operands and results that must be split together. */
typedef struct sc_factor {
    sc_role role;
    /* if sharded, the op needs its global index on this dim */
    bool offset;
    sc_dim dim;                            /* identifies the factor */
    int8_t operand[SC_MAX_FIXED_OPERANDS]; /* index of the dim in each operand's type, or -1 */
    int8_t result[SC_MAX_FIXED_RESULTS];
} sc_factor;

typedef struct sc_factors {
    uint32_t count;
    sc_factor list[SC_MAX_FACTORS];
} sc_factors;

/* An op under construction: result types are filled in from operand types and attributes, or
 * `error` is set. */
typedef struct sc_shape_request {
    sc_module *m;
    sc_op_kind kind;
    const sc_value *operands;
    uint32_t operand_count;
    const sc_attr *attrs; /* sorted */
    uint32_t attr_count;
    /* size of a dim that no operand has: `to` of slice and topk, onehot's dim; 0: unknown */
    int64_t new_size;
    sc_type_info results[SC_MAX_FIXED_RESULTS]; /* out; the caller sets placements to replicated */
    uint32_t result_count;                      /* out */
    const char *error;                          /* out: the error message, in the arena */
    /* out: its row in diag.def, with `error` as the only argument */
    sc_diag_id error_id;
} sc_shape_request;

struct sc_eval;
struct sc_expand;
struct sc_derive;
/* The size of a type's i-th dim: over all ranks, or of one rank's shard. */
typedef int64_t sc_size_of(const sc_module *m, const sc_type_info *type, uint32_t i);

typedef struct sc_op_row {
    const char *name;
    int operands; /* or SC_ANY */
    sc_bound bound;
    uint32_t picks; /* by operand, a bit; the last bit stands for all further ones */
    uint32_t ids;   /* SC_IDS_.. */
    sc_language language;
    uint32_t fuse; /* SC_FUSE_.. */
    uint32_t traits;
} sc_op_row;

enum {
    SC_IDS_FIRST = 1u << 0, /* operand 0 has ids */
    SC_IDS_SECOND = 1u << 1,
    SC_IDS_IGNORED = 1u << 2, /* the attribute `ignore` is an id that is skipped */
    SC_IDS_THIRD = 1u << 3    /* operand 2 has ids, which index `to` instead of `dims` */
};

typedef struct sc_op_function_row {
    /* NULL: no roles (collectives, effects) */
    void (*roles)(const sc_module *m, const sc_op *op, sc_factors *factors);
    /* NULL: implemented by the interpreter (state, collectives) */
    bool (*eval)(struct sc_eval *eval);
    /* NULL: no expansion */
    void (*expand)(struct sc_expand *expand);
    /* NULL: no derivative */
    void (*derive)(struct sc_derive *derive);
    /* NULL: no matmuls */
    double (*flops)(const sc_module *m, const sc_op *op, sc_size_of *size);
} sc_op_function_row;

enum { SC_ANY = -1 };

extern const sc_op_row sc_ops[SC_OP_COUNT];
extern const sc_op_function_row sc_op_functions[SC_OP_COUNT]; /* in table.c */

static inline uint32_t sc_op_traits(const sc_op *op)
{
    return sc_ops[op->kind].traits;
}

/* True if the op has one of these traits. */
static inline bool sc_op_has(const sc_op *op, uint32_t traits)
{
    return (sc_ops[op->kind].traits & traits) != 0;
}

/* True if the result is operand 0, whole: under another name, with other groups, in another dtype
 * or order. */
static inline bool sc_op_is_operand(const sc_op *op)
{
    return sc_op_has(op, SC_NAMESAKE) && sc_op_has(op, SC_ELEMENTWISE);
}

/* True if kernels have the op's definition (`expand` in its row) in its place: always, or with
 * operands that no kernel takes. */
bool sc_op_is_defined(const sc_module *m, const sc_op *op);

/* True if elements of the result are elements of this operand, unchanged or rounded. */
bool sc_op_picks(sc_op_kind kind, uint32_t operand);
/* True if integers of this operand index dims; the attribute that names these. */
bool sc_op_takes_ids(sc_op_kind kind, uint32_t operand);
sc_attr_key sc_op_indexed(sc_op_kind kind);
/* True if elements of this operand, a table, are picked by ids in another one. */
bool sc_op_is_table(sc_op_kind kind, uint32_t operand);
/* True if the op is the sum of operand 0 along `dims`. */
bool sc_op_is_sum(sc_op_kind kind);
/* Returns the multiplications and additions of the op's matmuls. */
double sc_op_flops(const sc_module *m, const sc_op *op, sc_size_of *size);

/* The collective of programs (program/collective.h) that an op of this kind is; -1: none. */
int sc_op_collective(sc_op_kind kind);
/* True if the op sends its operand to another stage, or receives its result from one. */
bool sc_op_transfers(sc_op_kind kind);

/* True for copies between device and host memory: to_device, to_host. */
bool sc_op_copies_memory(sc_op_kind kind);
/* True for a copy to the device of what another copy has put in host memory, for a part of a
 * pipeline in a slot: of saved activations. */
bool sc_copy_brings_back(const sc_module *m, const sc_op *copy);
/* True if the value is in host memory: a stored state, or a result of to_host. */
bool sc_value_is_in_host(const sc_module *m, sc_value value);

/* True if the phase of the op is none, forward or recompute: it computes what a program without a
 * train step would. */
bool sc_op_is_forward(const sc_module *m, const sc_op *op);

/* Returns the factors of an op. Every dim of every operand and result belongs to exactly one. */
void sc_op_factors(const sc_module *m, const sc_op *op, sc_factors *factors);

/* True for a value without a placement of its own: a constant or a broadcast scalar. It is created
 * wherever it is read, in the placement that the reader wants. */
bool sc_is_made_anywhere(const sc_module *m, sc_value value);

/* Returns the dims on which a placed op needs its global index, with the sub-axes that split them:
 * the required `offset` attribute in a per-rank program. `splits` has room for SC_MAX_FACTORS. */
uint32_t sc_op_offsets(const sc_module *m, sc_op_id op, sc_split *splits);

/* Creates an op with inferred result types (replicated), before `before` or at the end of func.
 * Returns SC_NONE and sets request->error if operands or attributes do not fit. */
sc_op_id sc_op_build(sc_shape_request *request, sc_func_id func, sc_op_id before, sc_op_id like);

/* True if the row infers result types; otherwise they must be given. */
bool sc_op_is_inferred(sc_op_kind kind);
/* Infers the result types of an existing op; false with request->error if operands or attributes do
 * not fit. The verifier compares the actual types with these. */
bool sc_op_infer(sc_module *m, sc_op_id op, sc_shape_request *request);

/* ---- emitting ops: ir/ops/build.h ---- */
/* Insertion point of new ops, and the op from which they copy location and scope. */
typedef struct sc_emitter {
    sc_module *m;
    sc_func_id func;
    sc_op_id before; /* SC_NONE: the end of func */
    sc_op_id like;
    /* called after each new op, e.g. to place or mark it; may be NULL */
    void (*made)(struct sc_emitter *emitter, sc_op_id made);
    void *user;
} sc_emitter;

/* ---- expansion: an op as a sequence of other ops ---- */
/* The row's function emits ops before the op and sets `results`. Differentiation and sharding use
 * the same sequence. */
typedef struct sc_expand {
    sc_emitter e;           /* e.before is the op being expanded */
    uint64_t shards;        /* number of shards of the op's first dim */
    sc_sub_axis_list split; /* the sub-axes that split it */
    /* a dim created by the expansion and split like the op's first one, or SC_NONE */
    sc_dim made_dim;
    /* may emit nothing and set results[0] to SC_NONE, if the op is cheaper or the rank too large */
    bool may_decline;
    sc_value results[SC_MAX_FIXED_RESULTS];
} sc_expand;

/* ---- derivatives: cotangents of operands from those of results ---- */
/* The row's function emits ops and sets `gradients` for the wanted operands. A gradient may have
 * more or fewer dims than its operand (the caller sums or broadcasts it), and the operand's dtype
 * or a wider one. */
typedef struct sc_derive {
    sc_emitter e;
    sc_op_id op;
    const sc_value *cotangents;         /* by result; SC_NONE: zero */
    bool wanted[SC_MAX_FIXED_OPERANDS]; /* by operand */
    /* by operand: its cotangent is kept in f32 or wider */
    bool widened[SC_MAX_FIXED_OPERANDS];
    /* the value to read in the backward pass, maybe recomputed */
    sc_value (*read)(struct sc_derive *derive, sc_value v);
    void *user;
    sc_value gradients[SC_MAX_FIXED_OPERANDS]; /* SC_NONE: none */
} sc_derive;

#endif
