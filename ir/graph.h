/* The module: straight-line SSA functions, state and a schedule of calls. Everything is in
 * dense arrays in the context's arena, indexed by 32-bit handles; nothing is freed individually.
 * Handles are valid for the module's lifetime, addresses only until the next allocation of the same
 * kind. */
#ifndef SHARDC_IR_GRAPH_H
#define SHARDC_IR_GRAPH_H

#include "ir/type.h"
#include "support/context.h"
#include "support/hash.h"
#include "support/state.h"

typedef uint32_t sc_value;
typedef uint32_t sc_op_id;
typedef uint32_t sc_func_id;

typedef enum sc_op_kind {
#define OP(name, ...) SC_OP_##name,
#include "ir/ops/ops.def"
#undef OP
    SC_OP_COUNT
} sc_op_kind;

typedef enum sc_attr_key {
#define ATTR(name, kind) SC_ATTR_##name,
#include "ir/attrs.def"
#undef ATTR
    SC_ATTR_COUNT
} sc_attr_key;

typedef enum sc_attr_kind {
    SC_ATTR_KIND_INT,
    SC_ATTR_KIND_FLOAT,
    SC_ATTR_KIND_WORD,
    SC_ATTR_KIND_TEXT,
    SC_ATTR_KIND_DIMS,
    SC_ATTR_KIND_INTS,
    SC_ATTR_KIND_FLOATS,
    SC_ATTR_KIND_WORDS,
    SC_ATTR_KIND_SUB_AXES,
    SC_ATTR_KIND_SPLITS
} sc_attr_kind;

extern const char *const sc_attr_names[SC_ATTR_COUNT];
extern const sc_attr_kind sc_attr_kinds[SC_ATTR_COUNT];

typedef struct sc_split {
    sc_dim dim;
    sc_sub_axis_list sub_axes;
} sc_split;

/* One attribute of an op. An op's attributes are sorted by key; lists are immutable arrays in the
 * arena. */
typedef struct sc_attr {
    uint16_t key;
    uint32_t count; /* for lists */
    union {
        int64_t integer;
        double number;
        sc_sym text; /* WORD, TEXT */
        const sc_dim *dims;
        const int64_t *ints;
        const double *numbers;
        const sc_sym *words;
        const uint8_t *sub_axes;
        const sc_split *splits;
    };
} sc_attr;

/* Chunk numbers of ops that belong to no chunk, and stages of functions that all stages run. */
enum { SC_NO_CHUNK = 0xffff, SC_ALL_STAGES_RUN = 0xffff };

typedef struct sc_op {
    uint16_t kind; /* sc_op_kind */
    uint16_t attr_count;
    /* the chunk of the pipeline that runs it; SC_NO_CHUNK: there is no pipeline, or any chunk that
     * reads its result runs it */
    uint16_t chunk;
    uint32_t operand_count, result_count;
    sc_value *operands;
    sc_value first_result; /* results are consecutive */
    sc_attr *attrs;
    sc_loc loc; /* in the model text */
    /* path of the instance that contains the op, layers[3].attn, or the name of the entry or fn */
    sc_sym scope;
    sc_func_id func;
    sc_op_id prev, next; /* SC_NONE at the ends */
} sc_op;

typedef struct sc_value_info {
    sc_type type;
    sc_op_id def;
    uint32_t index; /* index among the results of def */
    sc_sym path;    /* name of the value, layers[3].attn.o; 0 for a subexpression */
} sc_value_info;

/* A parameter or cache of one instance, or anything else that a train step keeps between calls. */
typedef struct sc_state {
    sc_sym path; /* layers[0].attn.wq */
    sc_state_kind kind;
    sc_type type; /* as stored; replicated until PLACED */
    sc_init_kind init;
    /* constant: v; normal: std; uniform: lo, hi; xavier: fan-in, fan-out (0 until known) */
    double init_args[2];
    sc_loc loc;
    bool host; /* stored in host memory: read by to_device, written by to_host */
    /* 1 + the line that keeps it in host memory, in rules; 0: none */
    uint32_t host_rule;
} sc_state;

/* A plan line (or an annotation in the model) that placement decisions refer to. */
typedef struct sc_rule_ref {
    sc_sym text; /* act S over tp if free */
    sc_sym file;
    uint32_t line;
    sc_loc loc;
} sc_rule_ref;

typedef struct sc_func {
    sc_sym name;
    uint32_t stage;       /* whose ranks run it; SC_ALL_STAGES_RUN without stages */
    sc_op_id first, last; /* SC_NONE when empty; the last op of a finished function is `return` */
} sc_func;

typedef struct sc_call {
    sc_func_id func;
    int32_t microbatch;
} sc_call;

/* State bits: properties that hold for every function of the module. The verifier checks each
 * one. */
enum {
    SC_SHAPES = 1, /* every value has its type; sizes known */
    /* every value has a placement; a reshard op is wherever producer and consumer differ */
    SC_PLACED = 2,
    SC_RESHARDS_EXPLICIT = 4, /* only collectives, no reshard ops */
    SC_LOCAL = 8,             /* per-rank program: ops that need a global index have `offset` */
    SC_FUSED = 16,            /* the ops of one kernel are adjacent and have its number */
    SC_ALL_STATES = 31
};

struct sc_module {
    sc_context *context;
    sc_mesh mesh;
    uint32_t states; /* state bits */
    SC_VEC(sc_dim_info) dims;
    SC_VEC(sc_type_info) types;
    SC_VEC(sc_value_info) values;
    SC_VEC(sc_op) ops;
    SC_VEC(sc_func) funcs;
    SC_VEC(sc_state) state;
    SC_VEC(sc_call) schedule;
    SC_VEC(sc_rule_ref) rules;
    sc_map type_map; /* hash of a type -> newest type with that hash; type_next chains the others */
    SC_VEC(uint32_t) type_next;
    sc_map dim_map;   /* symbol -> dim */
    sc_map state_map; /* path symbol -> state */
};

/* Returns a new module with a mesh of no axes (one device). */
sc_module *sc_module_new(sc_context *context);

/* ---- dims, types, state ---- */
sc_dim sc_module_add_dim(sc_module *m, sc_sym name);
/* Adds an entry to the module's rules, with the line of `loc`. Returns its index. */
uint32_t sc_module_add_rule(sc_module *m, const char *text, sc_loc loc);
sc_dim sc_module_find_dim(const sc_module *m, sc_sym name); /* SC_NONE if there is none */
/* Returns the composite with exactly these leaves in this order, or SC_NONE (a plain dim). */
sc_dim sc_module_group_of(const sc_module *m, const sc_dim *leaves, uint32_t count);
sc_type sc_type_intern(sc_module *m, const sc_type_info *info);
static inline const sc_type_info *sc_type_of(const sc_module *m, sc_value value)
{
    return &m->types.data[m->values.data[value].type];
}
sc_type sc_type_with_dtype(sc_module *m, sc_type type, sc_dtype dtype);
sc_type sc_type_with_placement(sc_module *m, sc_type type, const sc_placement *placement);
uint32_t sc_module_add_state(sc_module *m, const sc_state *state);
uint32_t sc_module_find_state(const sc_module *m, sc_sym path); /* SC_NONE if there is none */
static inline const sc_type_info *sc_state_type(const sc_module *m, uint32_t state)
{
    return &m->types.data[m->state.data[state].type];
}

/* True if the schedule calls functions of stages: the program has been cut. */
bool sc_module_is_cut(const sc_module *m);

/* ---- functions and ops ---- */
sc_func_id sc_module_add_func(sc_module *m, sc_sym name);
static inline sc_op *sc_op_at(const sc_module *m, sc_op_id op)
{
    return &m->ops.data[op];
}
static inline sc_value sc_result(const sc_module *m, sc_op_id op, uint32_t index)
{
    return m->ops.data[op].first_result + index;
}
static inline sc_op_id sc_def(const sc_module *m, sc_value value)
{
    return m->values.data[value].def;
}

/* Creates an op with results of types result_types[0..result_count) and inserts it before `before`
 * in func (SC_NONE: appends it). attrs need not be sorted; lists in them must be in the arena.
 * Location, scope and chunk are copied from `like` unless that is SC_NONE. */
sc_op_id sc_op_new(sc_module *m, sc_func_id func, sc_op_id before, sc_op_kind kind,
                   const sc_value *operands, uint32_t operand_count, const sc_attr *attrs,
                   uint32_t attr_count, const sc_type *result_types, uint32_t result_count,
                   sc_op_id like);
void sc_op_unlink(sc_module *m, sc_op_id id);
void sc_op_move(sc_module *m, sc_op_id op, sc_op_id before);
/* Appends an unlinked op to a function. */
void sc_op_append(sc_module *m, sc_op_id op, sc_func_id func);

/* NULL if the op does not have the attribute. */
const sc_attr *sc_op_attr(const sc_op *op, sc_attr_key key);
int64_t sc_op_int(const sc_op *op, sc_attr_key key, int64_t otherwise);
double sc_op_number(const sc_op *op, sc_attr_key key, double otherwise);
sc_sym sc_op_word(const sc_op *op, sc_attr_key key); /* 0 if absent */
/* Adds or replaces one attribute. */
void sc_op_set_attr(sc_module *m, sc_op_id id, sc_attr attr);
void sc_op_drop_attr(sc_module *m, sc_op_id id, sc_attr_key key);
/* Returns the index of the operand that attribute `with` names `word` (the first name is operand
 * `fixed`), or -1. */
int sc_op_operand_called(const sc_module *m, const sc_op *op, const char *word, uint32_t fixed);

sc_attr sc_attr_int(sc_attr_key key, int64_t value);
sc_attr sc_attr_number(sc_attr_key key, double value);
sc_attr sc_attr_text(sc_attr_key key, sc_sym value); /* WORD or TEXT */
sc_attr sc_attr_dims(sc_module *m, sc_attr_key key, const sc_dim *dims, uint32_t count);
sc_attr sc_attr_sub_axes(sc_module *m, sc_attr_key key, const uint8_t *sub_axes, uint32_t count);
sc_attr sc_attr_numbers(sc_module *m, sc_attr_key key, const double *numbers, uint32_t count);
sc_attr sc_attr_ints(sc_module *m, sc_attr_key key, const int64_t *ints, uint32_t count);
sc_attr sc_attr_words(sc_module *m, sc_attr_key key, const sc_sym *words, uint32_t count);
sc_attr sc_attr_splits(sc_module *m, sc_attr_key key, const sc_split *splits, uint32_t count);
/* True if key and value are equal; floats are compared bit by bit. */
bool sc_attr_equal(const sc_attr *a, const sc_attr *b);
/* True if the list of dims contains `dim`; NULL is an empty list. */
bool sc_attr_has_dim(const sc_attr *dims, sc_dim dim);

/* Iterates over a function in order. The body may unlink the current op or insert ops before it. */
/* NOLINTBEGIN(bugprone-macro-parentheses): op is declared here */
#define sc_for_each_op(m, f, op)                                                                   \
    for (sc_op_id op = (m)->funcs.data[f].first, op##_next_;                                       \
         op != SC_NONE && (op##_next_ = (m)->ops.data[op].next, true); op = op##_next_)

/* Iterates over all functions in turn; `break` leaves only the current function. */
#define sc_for_each_op_of_all(m, op)                                                               \
    for (sc_func_id op##_func_ = 0; op##_func_ < (m)->funcs.count; op##_func_++)                   \
        sc_for_each_op (m, op##_func_, op)

#define sc_for_each_op_reverse(m, f, op)                                                           \
    for (sc_op_id op = (m)->funcs.data[f].last, op##_prev_;                                        \
         op != SC_NONE && (op##_prev_ = (m)->ops.data[op].prev, true); op = op##_prev_)
/* NOLINTEND(bugprone-macro-parentheses) */

/* Returns the number of uses per value. */
uint32_t *sc_count_uses(sc_module *m);
/* Replaces every use of a value by map[value], following chains, in one walk. SC_NONE: unchanged;
 * map has one entry per value. */
void sc_func_replace_uses(sc_module *m, sc_func_id func, const sc_value *map, uint32_t map_count);

#endif
