/* The op table: one row an op (ops.def), and what every stage asks of it. Nothing else switches on op kinds. */
#ifndef SHARDC_IR_OPS_OPS_H
#define SHARDC_IR_OPS_OPS_H

#include "ir/graph.h"

enum {
    SC_ELEMENTWISE = 1, /* each result element from the operand elements of the same index */
    SC_LINEAR = 2,      /* f(a + b) = f(a) + f(b) in all operands together: a partial sum may pass */
    SC_COMMUTES = 4,    /* operands may be swapped */
    SC_RANDOM = 8,
    SC_CONSTANT = 16,   /* no tensor operands: made in whatever placement the consumer wants */
    SC_COLLECTIVE = 32, /* moves data between ranks */
    SC_RESHARD = 64,    /* changes placement, not value */
    SC_EFFECT = 128,    /* not dead when unused */
    SC_VIEW = 256,      /* the result is its operand under another name or grouping */
    SC_STATE_READ = 512,
    SC_EXACT = 1024,             /* integer operands give exactly computed integer results */
    SC_COMPARES = 2048,          /* result bool */
    SC_BILINEAR = 4096,          /* linear in each operand alone: one of them may be a partial sum */
    SC_LOCAL_PURE = 8192,        /* the same operands on the same rank give the same result: may be merged */
    SC_NAMESAKE = 16384,         /* messages call the result by its operand's name */
    SC_CONVERTS = 32768,         /* another dtype, else the same */
    SC_FROM_OUTSIDE = 65536,     /* a value that the caller gives */
    SC_FILLS_PADDING = 262144,   /* what stands in the padding of its result is defined */
    SC_LINEAR_FIRST = 8388608,   /* linear in its first operand */
    SC_SPREADS = 4194304,        /* repeats its operand along dims */
    SC_STOPS_GRADIENT = 2097152, /* flat: nothing goes back through it */
    SC_KEEPS_LSE = 1048576,      /* with lse = 1 it has a further result that its derivative reads */
    SC_STATE_WRITE = 524288,     /* operand 0 is what the state that it names is after the call */
    SC_CHECKS_INTEGERS = 131072  /* integer operands out of range are a run-time error: padding must not look like one */
};

/* How an op goes into kernels: one of the first seven, and what else holds. */
enum {
    SC_FUSE_ALONE = 0,      /* never shares one: state, contractions, attention, collectives */
    SC_FUSE_FREE = 1,       /* recomputed wherever it is read */
    SC_FUSE_VIEW = 2,       /* another name for the same bytes; inside a kernel, other indices */
    SC_FUSE_MAP = 4,        /* an element of the result from elements of the operands */
    SC_FUSE_REDUCE = 8,     /* over `dims` */
    SC_FUSE_ROOT = 16,      /* its result is complete only in memory: the end of its kernel */
    SC_FUSE_EXPAND = 32,    /* goes in as its expansion */
    SC_FUSE_EXPENSIVE = 64, /* worth storing rather than computing twice */
    SC_FUSE_INDEXED = 128,  /* reads operand 0 (concat: both) at other indices than its own */
    SC_FUSE_EPILOGUE = 256, /* may be a step of a contraction's epilogue */
    SC_FUSE_CONTRACT = 512, /* may have one */
    SC_FUSE_MOVES = 1024    /* puts elements elsewhere: what makes them does that best */
};

/* What sharding a dim does to an op. */
typedef enum sc_role {
    SC_ROLE_PASSES, /* results are sharded alike */
    SC_ROLE_SUMS,   /* results that lack the dim are a partial sum */
    SC_ROLE_MAXES,
    SC_ROLE_MINS,
    SC_ROLE_WHOLE, /* must not be sharded */
    SC_ROLE_FORM   /* may be sharded once the op is replaced by its expansion */
} sc_role;

enum { SC_MAX_FACTORS = 24, SC_MAX_FIXED_OPERANDS = 12, SC_MAX_FIXED_RESULTS = 4 };

/* A factor: the dims of operands and results that are split together. */
typedef struct sc_factor {
    sc_role role;
    bool offset;                           /* when sharded, the op needs its global index on this dim */
    sc_dim dim;                            /* a name for it */
    int8_t operand[SC_MAX_FIXED_OPERANDS]; /* index of the dim in each operand's type, or -1 */
    int8_t result[SC_MAX_FIXED_RESULTS];
} sc_factor;

typedef struct sc_factors {
    uint32_t count;
    sc_factor list[SC_MAX_FACTORS];
} sc_factors;

/* Under construction of an op: fills result types from operand types and attributes, or explains. */
typedef struct sc_shape_request {
    sc_module *m;
    sc_op_kind kind;
    const sc_value *operands;
    uint32_t operand_count;
    const sc_attr *attrs; /* sorted */
    uint32_t attr_count;
    int64_t new_size;                           /* of a dim that operands do not have: slice's and topk's `to`, onehot's dim; 0 unknown */
    sc_type_info results[SC_MAX_FIXED_RESULTS]; /* out; placements are set replicated by the caller */
    uint32_t result_count;                      /* out */
    const char *error;                          /* out: why not, in the arena */
    sc_diag_id error_id;                        /* out: the row of diag.def it belongs to; error then is its only argument */
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
    void (*roles)(const sc_module *m, const sc_op *op, sc_factors *factors); /* NULL: has none (collectives, effects) */
    bool (*eval)(struct sc_eval *eval);                                      /* NULL: the interpreter's own (state, collectives) */
    void (*expand)(struct sc_expand *expand);                                /* NULL: no sharded form */
    void (*derive)(struct sc_derive *derive);                                /* NULL: no derivative */
} sc_op_function_row;

enum { SC_ANY = -1 };

extern const sc_op_row sc_ops[SC_OP_COUNT];
extern const sc_op_function_row sc_op_functions[SC_OP_COUNT]; /* table.c */

static inline uint32_t sc_op_traits(const sc_op *op)
{
    return sc_ops[op->kind].traits;
}

/* The collective of programs (program/collective.h) that an op of this kind is; -1: none. */
int sc_op_collective(sc_op_kind kind);

/* Whether the op computes what a program without a train step would: its phase is none, forward or recompute. */
bool sc_op_is_forward(const sc_module *m, const sc_op *op);

/* The factors of an op; every dim of every operand and result belongs to exactly one. */
void sc_op_factors(const sc_module *m, const sc_op *op, sc_factors *factors);

/* A value without an own place: a constant, or a scalar spread over dims. It is made wherever it is read, as its reader wants it. */
bool sc_is_made_anywhere(const sc_module *m, sc_value value);

/* The dims on which a placed op reads its global index, with the sub-axes that split them there: what its `offset` attribute must say in a
 * per-rank program. `splits` has room for SC_MAX_FACTORS. */
uint32_t sc_op_offsets(const sc_module *m, sc_op_id op, sc_split *splits);

/* Makes an op with its result types inferred by its row (replicated), at the end of func or before `before`. Returns SC_NONE and fills
 * request->error when operands or attributes do not fit. */
sc_op_id sc_op_build(sc_shape_request *request, sc_func_id func, sc_op_id before, sc_op_id like);

/* Whether a row infers result types; else they are given. */
bool sc_op_is_inferred(sc_op_kind kind);
/* Result types of an existing op as its row infers them from operands and attributes; false with request->error when they do not fit.
 * The verifier holds the actual types against these. */
bool sc_op_infer(sc_module *m, sc_op_id op, sc_shape_request *request);

/* ---- making ops: ir/ops/build.h ---- */
/* Where new ops go, and whose location and scope they take. */
typedef struct sc_emitter {
    sc_module *m;
    sc_func_id func;
    sc_op_id before; /* SC_NONE: at the end of func */
    sc_op_id like;
    /* called after each new op is made (NULL: not), so that a pass can place or mark it */
    void (*made)(struct sc_emitter *emitter, sc_op_id made);
    void *user;
} sc_emitter;

/* ---- expansion: an op as a sequence of others ---- */
/* The row's function emits ops in front of the op and sets `results`. The same sequence is what differentiates and what shards. */
typedef struct sc_expand {
    sc_emitter e;     /* e.before is the op being expanded */
    uint64_t shards;  /* that the op's first dim is split into */
    sc_dim made_dim;  /* a dim that the expansion makes and that is split like the op's first one; SC_NONE */
    bool may_decline; /* where the op whole is cheaper, or the form has no room, nothing need be made: results[0] is SC_NONE then */
    sc_value results[SC_MAX_FIXED_RESULTS];
} sc_expand;

/* ---- derivatives: cotangents of operands from those of results ---- */
/* The row's function emits ops and sets `gradients` of the operands that want one; each may have more or fewer dims than its operand (it
 * is then summed or broadcast), and the operand's dtype or a wider one. */
typedef struct sc_derive {
    sc_emitter e;
    sc_op_id op;
    const sc_value *cotangents;                             /* of each result; SC_NONE: nothing arrives */
    bool wanted[SC_MAX_FIXED_OPERANDS];                     /* by operand */
    bool widened[SC_MAX_FIXED_OPERANDS];                    /* by operand: its cotangent stays in f32 or wider */
    sc_value (*read)(struct sc_derive *derive, sc_value v); /* a forward value as the backward pass may read it: it may be recomputed */
    void *user;
    sc_value gradients[SC_MAX_FIXED_OPERANDS]; /* SC_NONE: none */
} sc_derive;

#endif
