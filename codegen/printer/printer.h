/* Shared by the C and CUDA printers: analysis of a kernel's nodes, its loops, and the text under
 * construction.
 *
 * A function is a nest of scopes. Scope 0 is the function's own block; then come the loops over
 * outer dims, those that are parallelized together as one. The deepest of these is the *body*: one
 * outer iteration. Inside it there is, phase after phase, a block for what the phase reads of
 * arguments that the kernel writes, and the loops of the phase. A node is computed in the outermost
 * scope in which all that it depends on is available. */
#ifndef SHARDC_CODEGEN_PRINTER_PRINTER_H
#define SHARDC_CODEGEN_PRINTER_PRINTER_H

#include "codegen/kernel/access.h"
#include "codegen/kernel/kernel.h"
#include "codegen/printer/helpers.h"
#include "codegen/printer/writer.h"

enum { SC_PRINTER_MAX_SCOPES = SC_KERNEL_MAX_DIMS + 8 };

/* A term of an element's offset: `times` a dim, or `times` a node that is not a sum (dim:
 * SC_NONE). */
typedef struct sc_printer_term {
    uint32_t dim;
    sc_knode node;
    int64_t times;
} sc_printer_term;

/* An element of an argument; its offset is the constant plus the terms. */
typedef struct sc_printer_access {
    uint32_t arg, count;
    int64_t constant;
    sc_printer_term *terms;
} sc_printer_access;

typedef struct sc_printer_node {
    uint64_t dims; /* that it depends on */
    uint32_t child_count;
    sc_knode *children;       /* nodes named in its text: operands; for a load the nodes of its
                               * offset, and its guard */
    sc_printer_access access; /* load */
    uint32_t uses;            /* by live nodes and items */
    bool late;                /* depends on a reduction: not before the body */
    bool reads_written;       /* depends on a load of an argument that the kernel writes */
    bool has_load, sub_axis;  /* sub_axis: a user's text names it twice */
    bool transposed;          /* a load that reads the transposed tile in q12 */
    uint32_t cached_from;     /* the phase that stores it in b12 for later ones; SC_NONE */
    uint32_t first_phase;     /* first phase that needs it: sc_c_choose_prefetch */
    /* for the items placed last */
    uint32_t pass, visit;
    uint32_t depth, user_depth; /* scope; the deepest of its users' scopes */
    /* in the text */
    bool visible;
    uint32_t size; /* number of nodes in its text */
} sc_printer_node;

typedef struct sc_printer_item {
    sc_printer_access access;  /* STORE, ADD */
    uint32_t phase, check;     /* check: its number among checks */
    uint32_t depth;            /* scope in which it is executed */
    bool running;              /* a node reads its running value */
    bool wide;                 /* the sum is in f64 .. */
    bool parts;                /* .. over partial sums in f32 */
    bool of_vector;            /* a reduction with one value per index of the vector dim */
    bool transposed, streamed; /* transposed: a store that puts the tile's elements, or a row of
                                * them, in w3; streamed: with non-temporal stores */
} sc_printer_item;

/* The part of an offset that is invariant in inner loops and named outside them. */
typedef struct sc_printer_offset {
    sc_printer_access access;
    uint32_t scope, number;
} sc_printer_offset;

/* The loop order of outer iterations: sc_c_choose_loop_order. */
typedef struct sc_printer_shape {
    uint32_t vector; /* an outer dim that is the innermost loop of every phase; SC_NONE: it is
                      * the phases' last dims */
    int64_t block;   /* of its indices per block */
    uint32_t tile;   /* an outer dim that is tiled with the vector dim's blocks; SC_NONE */
    int64_t tile_size;
    uint32_t order[64], order_count; /* the other outer dims */
    uint32_t shared;                 /* how many of these loops, and then the loop over blocks, are
                                      * parallelized as one */
    bool parallel, split;
} sc_printer_shape;

typedef struct sc_kernel_printer sc_kernel_printer;
typedef struct sc_c_limits sc_c_limits; /* codegen/c/internal.h */

/* Callbacks where the languages differ: c/phase.c has C's, cuda/phase.c CUDA's. */
typedef struct sc_printer_target {
    const char *letters;      /* used, with a number, as names of nodes and items */
    const char *const *words; /* reserved words in addition to C's; NULL-terminated, or NULL */
    const char *index_cast;   /* written before a dim's name to make it an int64_t */
    const char *whole_sum;    /* function for sums of integers; NULL: + */
    /* The text of an operation, as in nodes.def. */
    const char *(*operation)(const sc_kernel_printer *e, sc_knode id);
    /* Emits the statements for a check that fails. */
    void (*leave_iteration)(sc_kernel_printer *e, uint32_t item);
    /* Emits the variable that the innermost loop accumulates in; emits the index after the name of
     * a reduction with one value per index of the vector dim. */
    void (*accumulator)(sc_kernel_printer *e, uint32_t item);
    void (*reduction_index)(sc_kernel_printer *e);
    /* Emit the element of a load (id: the node), of an item (id: the item), of a node cached by an
     * earlier phase. */
    void (*loaded)(sc_kernel_printer *e, const sc_printer_access *access, uint32_t depth,
                   uint32_t id);
    void (*stored)(sc_kernel_printer *e, const sc_printer_access *access, uint32_t depth,
                   uint32_t id);
    void (*cached)(sc_kernel_printer *e, sc_knode node);
    /* Emits an item that the target executes in its own way; false: it does not. NULL: none. */
    bool (*item)(sc_kernel_printer *e, uint32_t item);
} sc_printer_target;

/* Of the function being written: where its nodes are computed, and the names in scope. */
typedef struct sc_printer_scopes {
    uint64_t dims[SC_PRINTER_MAX_SCOPES];
    uint32_t body, inner; /* of an outer iteration; of the phase's innermost loop */
    uint32_t *floors;     /* per phase: the deepest scope, the body at most, of a check before it */
    uint32_t pass, visit;
    SC_VEC(sc_printer_offset) offsets;
    uint32_t offset_number;
    SC_VEC(sc_knode) declared; /* visible nodes, newest last */
    SC_VEC(uint32_t) declared_scopes;
    bool leaves; /* a `goto next` was emitted */
} sc_printer_scopes;

/* Of the phase being written. */
typedef struct sc_printer_phase {
    uint32_t number;
    uint32_t cut; /* the dim that it splits by `cut_size`; SC_NONE */
    int64_t cut_size;
    bool simd;     /* points of its innermost loop are independent */
    int64_t lanes; /* 0, or the number of parallel accumulators: see c/phase.c */
} sc_printer_phase;

struct sc_kernel_printer {
    const sc_kernel *k;
    const sc_printer_target *target;
    const sc_c_limits *limits; /* of C; NULL for CUDA */
    sc_context *context;
    sc_arena *arena;
    sc_writer *out;
    bool comments;
    const char **dim_names, **arg_names;
    /* analysis of the kernel, and its loop order */
    bool *arg_used, *param_used, *arg_shared;
    sc_printer_node *nodes;
    sc_printer_item *items;
    uint32_t check_count;
    bool writes_read; /* the kernel loads what it writes */
    sc_printer_shape shape;
    uint32_t prefetch_phase; /* the phase that prefetches for others; SC_NONE */
    /* the text under construction */
    sc_printer_scopes scopes;
    sc_printer_phase phase;
};

/* names.c: initializes all but `target` and `limits`; emits the comment before a function. */
void sc_printer_begin(sc_kernel_printer *e, const sc_kernel *k, bool comments, sc_strbuf *out);
void sc_printer_comment(sc_kernel_printer *e);

/* The dtype of an item's value. */
static inline sc_dtype sc_printer_dtype_of(const sc_kernel_printer *e, uint32_t item)
{
    return (sc_dtype)e->k->nodes.data[e->k->items.data[item].value].dtype;
}

/* nodes.c: analysis of nodes and phases. */
void sc_printer_analyse(sc_kernel_printer *e);
/* A bit for each dim that the offset of the access depends on. */
uint64_t sc_printer_dims_of(const sc_kernel_printer *e, const sc_printer_access *access);
/* The C text of the operation for its operands' dtypes, as in nodes.def. */
const char *sc_printer_template(const sc_kernel_printer *e, sc_knode id);
bool sc_printer_same_dims(const sc_kernel *k, uint32_t a, uint32_t b); /* of phases */
/* True if the phase being written reads the node from the row cache. */
bool sc_printer_is_cached(const sc_kernel_printer *e, sc_knode node);
/* True if the phase's items read a reduction of an earlier phase in values, guards or offsets. */
bool sc_printer_phase_reads(sc_kernel_printer *e, uint32_t phase, uint32_t item);

/* expression.c: the text of nodes. */
const char *sc_printer_type(sc_dtype dtype);   /* of arithmetic */
const char *sc_printer_stored(sc_dtype dtype); /* of elements */
void sc_printer_value(sc_kernel_printer *e, sc_knode id, bool bare);
void sc_printer_offset_text(sc_kernel_printer *e, const sc_printer_access *access, uint32_t depth);
/* r3, or r3[D - D_from]: the result of an item; s3, t3: see c/phase.c. */
void sc_printer_reduction_name(sc_kernel_printer *e, char letter, uint32_t item);
/* The identity of a reduction: "INT32_MIN", "-INFINITY", "0". */
const char *sc_printer_identity(sc_item_kind kind, sc_dtype dtype);

/* scope.c: the scopes in which nodes are computed. */
/* Finds the scope of the last check before each phase and places the nodes of scopes outside the
 * body, for all phases. The innermost scope is e->scopes.inner. */
void sc_printer_place_all(sc_kernel_printer *e);
/* Assigns scopes 0 .. inner to the items' nodes. `floor`: the scope of the last check before them.
 * Returns that of the last check. */
uint32_t sc_printer_place(sc_kernel_printer *e, uint32_t first, uint32_t end, uint32_t floor);
/* Emits the items' nodes of a scope, and the items executed in it. */
void sc_printer_scope(sc_kernel_printer *e, uint32_t depth, uint32_t first, uint32_t end);
/* Ends a scope and forgets its names. */
void sc_printer_leave(sc_kernel_printer *e, uint32_t depth);

/* stride.c: the choice of the vectorized loop. */
static inline int64_t sc_printer_size_of(const sc_kernel_printer *e, uint32_t dim)
{
    return e->k->dims.data[dim].size;
}
/* The product of these dims' sizes. */
double sc_printer_points_of(const sc_kernel_printer *e, uint64_t dims);
/* The outer dim to vectorize along, or SC_NONE: the phases' last dims. */
uint32_t sc_printer_choose_vector(sc_kernel_printer *e);
/* The distance of neighbours along the dim, in elements; irregular: INT64_MAX. */
int64_t sc_printer_stride(const sc_kernel_printer *e, const sc_printer_access *access,
                          uint32_t dim);
bool sc_printer_is_far(int64_t stride);
/* True if iterations of the phase's loop over a dim may run in SIMD lanes. */
bool sc_printer_may_vectorise(const sc_kernel_printer *e, uint32_t phase, uint32_t dim);

/* row_cache.c: caches nodes that `may` accepts and that several phases over the same dims need. */
void sc_printer_choose_cached(sc_kernel_printer *e, bool (*may)(const sc_kernel_printer *e,
                                                                sc_knode node, uint32_t phase));
bool sc_printer_is_expensive(sc_node_kind kind);
bool sc_printer_depends_on_all(const sc_kernel_printer *e, sc_knode node, uint32_t phase);

/* item.c */
void sc_printer_do_item(sc_kernel_printer *e, uint32_t item);
void sc_printer_failure(sc_kernel_printer *e, uint32_t item); /* emits its sc_image_failure */

#endif
