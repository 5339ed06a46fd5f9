/* The op table (ops.def, one row per op) and the queries that all stages make of it. No other code
 * switches on op kinds. */
#ifndef SHARDC_IR_OPS_OPS_H
#define SHARDC_IR_OPS_OPS_H

#include "ir/graph.h"

enum {
    /* each result element depends only on operand elements with the same index */
    SC_ELEMENTWISE = 1,
    SC_LINEAR = 2,   /* f(a + b) = f(a) + f(b) in all operands jointly: a partial sum may pass */
    SC_COMMUTES = 4, /* operands may be swapped */
    SC_RANDOM = 8,
    SC_CONSTANT = 16,   /* no tensor operands: created in whatever placement the consumer wants */
    SC_COLLECTIVE = 32, /* moves data between ranks */
    SC_RESHARD = 64,    /* changes placement, not value */
    SC_EFFECT = 128,    /* not dead if unused */
    SC_VIEW = 256,      /* the result is the operand under other dim names or groups */
    SC_STATE_READ = 512,
    SC_EXACT = 1024,    /* integer operands give exact integer results */
    SC_COMPARES = 2048, /* the result is bool */
    /* linear in each operand separately: one of them may be a partial sum */
    SC_BILINEAR = 4096,
    SC_LOCAL_PURE = 8192,        /* deterministic per rank: ops with equal operands may be merged */
    SC_NAMESAKE = 16384,         /* messages name the result after its operand */
    SC_CONVERTS = 32768,         /* changes only the dtype */
    SC_FROM_OUTSIDE = 65536,     /* a value passed by the caller */
    SC_FILLS_PADDING = 262144,   /* the padding of its result has defined contents */
    SC_LINEAR_FIRST = 8388608,   /* linear in its first operand */
    SC_SPREADS = 4194304,        /* repeats its operand along dims */
    SC_STOPS_GRADIENT = 2097152, /* constant almost everywhere: no gradient flows through it */
    SC_KEEPS_LSE = 1048576,      /* lse = 1 gives it another result, which its derivative reads */
    /* operand 0 is the new value of the state that it names, after the call */
    SC_STATE_WRITE = 524288,
    /* out-of-range integer operands are a run-time error: padding must not trigger it */
    SC_CHECKS_INTEGERS = 131072
};

/* How an op is fused into kernels: one of the first seven, plus flags. */
enum {
    /* never in a shared kernel: state, contractions, attention, collectives */
    SC_FUSE_ALONE = 0,
    SC_FUSE_FREE = 1,       /* recomputed wherever it is read */
    SC_FUSE_VIEW = 2,       /* a view of the same bytes; inside a kernel, index arithmetic only */
    SC_FUSE_MAP = 4,        /* elements of the result from elements of the operands */
    SC_FUSE_REDUCE = 8,     /* reduces over `dims` */
    SC_FUSE_ROOT = 16,      /* its result is complete only in memory: ends its kernel */
    SC_FUSE_EXPAND = 32,    /* enters kernels as its expansion */
    SC_FUSE_EXPENSIVE = 64, /* worth storing instead of computing twice */
    SC_FUSE_INDEXED = 128,  /* reads operand 0 (concat: both) at indices other than its own */
    SC_FUSE_EPILOGUE = 256, /* may be a step in the epilogue of a contraction */
    SC_FUSE_CONTRACT = 512, /* may have an epilogue */
    SC_FUSE_MOVES = 1024    /* rearranges elements: best fused with their producer */
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

typedef struct sc_op_row {
    const char *name;
    int operands; /* or SC_ANY */
    uint32_t traits;
    uint32_t fuse; /* SC_FUSE_.. */
} sc_op_row;

typedef struct sc_op_function_row {
    /* NULL: no roles (collectives, effects) */
    void (*roles)(const sc_module *m, const sc_op *op, sc_factors *factors);
    /* NULL: implemented by the interpreter (state, collectives) */
    bool (*eval)(struct sc_eval *eval);
    /* NULL: no expansion */
    void (*expand)(struct sc_expand *expand);
    /* NULL: no derivative */
    void (*derive)(struct sc_derive *derive);
} sc_op_function_row;

enum { SC_ANY = -1 };

extern const sc_op_row sc_ops[SC_OP_COUNT];
extern const sc_op_function_row sc_op_functions[SC_OP_COUNT]; /* in table.c */

static inline uint32_t sc_op_traits(const sc_op *op)
{
    return sc_ops[op->kind].traits;
}

/* The collective of programs (program/collective.h) that an op of this kind is; -1: none. */
int sc_op_collective(sc_op_kind kind);

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
    sc_emitter e;    /* e.before is the op being expanded */
    uint64_t shards; /* number of shards of the op's first dim */
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
