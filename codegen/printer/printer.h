/* What C and CUDA share: what is known of a kernel's nodes, the loops it is given, and the text under construction.
 *
 * A function is a nest of scopes: 0 is the function's own block; then come the loops over outer dims, those that are shared out as one;
 * the deepest of these is the *body*, one outer iteration. Behind it stand, phase after phase, a block for what a phase reads of arguments
 * that the kernel writes, and the loops of the phase. A node is computed in the shallowest scope that knows what it depends on. */
#ifndef SHARDC_CODEGEN_PRINTER_PRINTER_H
#define SHARDC_CODEGEN_PRINTER_PRINTER_H

#include "codegen/kernel/access.h"
#include "codegen/kernel/kernel.h"
#include "codegen/printer/helpers.h"

enum { SC_PRINTER_MAX_SCOPES = SC_KERNEL_MAX_DIMS + 8 };

/* Of an element's offset: times a dim, or times a node that is no sum (dim: SC_IMAGE_NONE). */
typedef struct sc_printer_term {
    uint32_t dim;
    sc_knode node;
    int64_t times;
} sc_printer_term;

/* An element of an argument: the offset is the constant and the terms. */
typedef struct sc_printer_access {
    uint32_t arg, count;
    int64_t constant;
    sc_printer_term *terms;
} sc_printer_access;

typedef struct sc_printer_node {
    uint64_t dims; /* that it depends on */
    uint32_t child_count;
    sc_knode *children;       /* what its text names: operands; of a load the nodes of its offset, and its guard */
    sc_printer_access access; /* load */
    uint32_t uses;            /* by nodes and items that anything needs */
    bool late;                /* reads a reduction: not before the body */
    bool reads_written;       /* loads an argument that the kernel writes, at last */
    bool has_load, sub_axis;  /* sub-axis: a user's text names it twice */
    bool turned;              /* a load that finds the tile's elements in q12 */
    uint32_t kept_from;       /* the phase that leaves it in b12 for later ones; SC_IMAGE_NONE */
    uint32_t first_phase;     /* that needs it: sc_c_choose_prefetch */
    /* in the items that were placed last */
    uint32_t pass, visit;
    uint32_t depth, user_depth; /* scope; the deepest of its users' */
    /* in the text */
    bool visible;
    uint32_t size; /* nodes in its text */
} sc_printer_node;

typedef struct sc_printer_item {
    sc_printer_access access; /* STORE, ADD */
    uint32_t phase, check;    /* check: its number among checks */
    uint32_t depth;           /* scope in which it is done */
    bool running;             /* someone reads it on its way */
    bool wide;                /* the sum is in f64 .. */
    bool parts;               /* .. of sums of parts in f32 */
    bool of_vector;           /* a reduction that has one value for each index of the vector dim */
    bool turned, streamed;    /* a store that leaves the tile's elements, or a row of these, in w3; to go around the caches */
} sc_printer_item;

/* A part of an offset that is the same in inner loops and has a name there. */
typedef struct sc_printer_offset {
    sc_printer_access access;
    uint32_t scope, number;
} sc_printer_offset;

/* How outer iterations are walked: sc_c_choose_loop_order. */
typedef struct sc_printer_shape {
    uint32_t vector; /* an outer dim that is the innermost loop of every phase; SC_IMAGE_NONE: phases' last dims are */
    int64_t block;   /* so many of its indices at once */
    uint32_t tile;   /* an outer dim that is walked in tiles with the vector dim's blocks; SC_IMAGE_NONE */
    int64_t tile_size;
    uint32_t order[64], order_count; /* the other outer dims */
    uint32_t shared;                 /* loops of these, then the loop over blocks, that are shared out as one */
    bool parallel, split;
} sc_printer_shape;

typedef struct sc_kernel_printer sc_kernel_printer;
typedef struct sc_c_limits sc_c_limits; /* codegen/c/internal.h */

/* Where languages differ: c/phase.c has C's, cuda/phase.c CUDA's. */
typedef struct sc_printer_target {
    const char *letters;      /* that nodes and items take, with a number, as names */
    const char *const *words; /* that are no names besides those of C; NULL ends them, or there are none */
    const char *index_cast;   /* in front of a dim's name, to make it an int64_t */
    const char *whole_sum;    /* what sums of integers call; NULL: they are a + */
    /* Text of an operation, as nodes.def has it. */
    const char *(*operation)(const sc_kernel_printer *e, sc_knode id);
    /* Statements: a check does not hold. */
    void (*leave_iteration)(sc_kernel_printer *e, uint32_t item);
    /* What the innermost loop adds to; what stands behind the name of a reduction that has one value for each index of the vector dim. */
    void (*accumulator)(sc_kernel_printer *e, uint32_t item);
    void (*reduction_index)(sc_kernel_printer *e);
    /* The element of a load (id: the node), the one of an item (id: the item), one that an earlier phase kept. */
    void (*loaded)(sc_kernel_printer *e, const sc_printer_access *access, uint32_t depth, uint32_t id);
    void (*stored)(sc_kernel_printer *e, const sc_printer_access *access, uint32_t depth, uint32_t id);
    void (*kept)(sc_kernel_printer *e, sc_knode node);
} sc_printer_target;

struct sc_kernel_printer {
    const sc_kernel *k;
    const sc_printer_target *target;
    const sc_c_limits *limits; /* of C; NULL: CUDA's */
    sc_context *context;
    sc_arena *arena;
    sc_strbuf *out;
    bool comments;
    const char **dim_names, **arg_names;
    bool *arg_used, *param_used, *arg_shared;
    sc_printer_node *nodes;
    sc_printer_item *items;
    uint32_t check_count;
    uint32_t *floors; /* of each phase: the deepest scope, the body at most, of a check before it */
    sc_printer_shape shape;
    uint64_t scope_dims[SC_PRINTER_MAX_SCOPES];
    uint32_t body, inner; /* scopes: of an outer iteration; of the innermost loop of the phase */
    uint32_t pass, visit, indent;
    uint32_t cut; /* the dim of which the phase does `cut_size` indices at once; SC_IMAGE_NONE */
    int64_t cut_size;
    bool leaves;      /* a `goto next` was written */
    bool writes_read; /* the kernel loads what it writes */
    bool simd;        /* points of the phase's innermost loop may be done at once */
    int64_t lanes;    /* 0, or so many sums side by side: see c/phase.c */
    uint32_t phase;   /* that is being written */
    uint32_t ahead;   /* the phase that asks memory for what others need; SC_IMAGE_NONE */
    SC_VEC(sc_printer_offset) offsets;
    uint32_t offset_number;
    SC_VEC(sc_knode) declared; /* visible nodes, newest last */
    SC_VEC(uint32_t) declared_scopes;
};

/* names.c: what every language begins with, all but `target` and `limits`; the comment at a function's head. */
void sc_printer_begin(sc_kernel_printer *e, const sc_kernel *k, bool comments, sc_strbuf *out);
void sc_printer_comment(sc_kernel_printer *e);

/* Of an item's value. */
static inline sc_dtype sc_printer_dtype_of(const sc_kernel_printer *e, uint32_t item)
{
    return (sc_dtype)e->k->nodes.data[e->k->items.data[item].value].dtype;
}

/* nodes.c: what nodes and phases are. */
void sc_printer_analyse(sc_kernel_printer *e);
/* A bit for each dim that the place of the access depends on. */
uint64_t sc_printer_dims_of(const sc_kernel_printer *e, const sc_printer_access *access);
/* The C text of an operation on operands of these dtypes, as nodes.def has it. */
const char *sc_printer_template(const sc_kernel_printer *e, sc_knode id);
bool sc_printer_same_dims(const sc_kernel *k, uint32_t a, uint32_t b); /* of phases */
/* Whether the phase that is being written finds the node where an earlier one left it. */
bool sc_printer_is_kept(const sc_kernel_printer *e, sc_knode node);
/* Whether the phase's items read a reduction of an earlier phase: in values, guards or offsets. */
bool sc_printer_phase_reads(sc_kernel_printer *e, uint32_t phase, uint32_t item);

/* expression.c: what they say. */
const char *sc_printer_type(sc_dtype dtype);   /* of arithmetic */
const char *sc_printer_stored(sc_dtype dtype); /* of elements */
void sc_printer_value(sc_kernel_printer *e, sc_knode id, bool bare);
void sc_printer_offset_text(sc_kernel_printer *e, const sc_printer_access *access, uint32_t depth);
void sc_printer_line(sc_kernel_printer *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sc_printer_indent(sc_kernel_printer *e);
/* r3, or r3[D - D_from]: what an item reduces to; s3, t3: see c/phase.c. */
void sc_printer_reduction_name(sc_kernel_printer *e, char letter, uint32_t item);
/* "INT32_MIN", "-INFINITY", "0": of nothing. */
const char *sc_printer_identity(sc_item_kind kind, sc_dtype dtype);

/* scope.c: where nodes are computed. */
/* The scope of the last check before each phase; nodes of the scopes outside the body, for all phases. Innermost is e->inner. */
void sc_printer_place_all(sc_kernel_printer *e);
/* Gives the items' nodes their scopes, 0 .. inner. `floor`: that of the last check before them; gives that of the last check. */
uint32_t sc_printer_place(sc_kernel_printer *e, uint32_t first, uint32_t end, uint32_t floor);
/* Writes what the items need of a scope, and the items that are done in it. */
void sc_printer_scope(sc_kernel_printer *e, uint32_t depth, uint32_t first, uint32_t end);
/* Ends a scope: its names are gone. */
void sc_printer_leave(sc_kernel_printer *e, uint32_t depth);

/* stride.c: which loop runs in lanes. */
static inline int64_t sc_printer_size_of(const sc_kernel_printer *e, uint32_t dim)
{
    return e->k->dims.data[dim].size;
}
/* The product of these dims' sizes. */
double sc_printer_points_of(const sc_kernel_printer *e, uint64_t dims);
/* The outer dim whose indices lie side by side, or SC_IMAGE_NONE: phases' last dims do. */
uint32_t sc_printer_choose_vector(sc_kernel_printer *e);
/* How far apart neighbours along the dim lie; irregular: INT64_MAX. */
int64_t sc_printer_stride(const sc_kernel_printer *e, const sc_printer_access *access, uint32_t dim);
bool sc_printer_is_far(int64_t stride);
/* Whether iterations of the phase's loop over a dim may be done at once. */
bool sc_printer_may_vectorise(const sc_kernel_printer *e, uint32_t phase, uint32_t dim);

/* row_cache.c: what a phase leaves to later ones. Of the nodes that may be, those that several phases over the same dims need. */
void sc_printer_keep(sc_kernel_printer *e, bool (*may)(const sc_kernel_printer *e, sc_knode node, uint32_t phase));
bool sc_printer_is_expensive(sc_node_kind kind);
bool sc_printer_depends_on_all(const sc_kernel_printer *e, sc_knode node, uint32_t phase);

/* item.c */
void sc_printer_do_item(sc_kernel_printer *e, uint32_t item);
void sc_printer_failure(sc_kernel_printer *e, uint32_t item); /* what sc_image_failure is of it */

#endif
