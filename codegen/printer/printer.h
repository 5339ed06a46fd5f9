/* What the files emit_c*.c share: what is known of a kernel's nodes, the loops it is given, and the text under construction.
 *
 * A function is a nest of scopes: 0 is the function's own block; then come the loops over outer dims, those that are shared out as one;
 * the deepest of these is the *body*, one outer iteration. Behind it stand, phase after phase, a block for what a phase reads of arguments
 * that the kernel writes, and the loops of the phase. A node is computed in the shallowest scope that knows what it depends on. */
#ifndef SHARDC_CODEGEN_PRINTER_PRINTER_H
#define SHARDC_CODEGEN_PRINTER_PRINTER_H

#include "codegen/c/emit.h"
#include "codegen/kernel/access.h"

enum { SC_EMIT_MAX_SCOPES = SC_KERNEL_MAX_DIMS + 8 };

/* What decides between loops. Tests make them small, so that small kernels come in every form. */
typedef struct sc_emit_limits {
    int64_t small_work;                 /* operations up to which a team is not worth waking */
    int64_t shares;                     /* pieces that are enough for any team */
    int64_t block;                      /* of an outer dim, with reductions: some KiB of the first cache */
    int64_t shortest_block;             /* without */
    int64_t few, piece;                 /* elements whose sum f32 lanes hold well; of a part of a longer one */
    int64_t few_rows, piece_rows;       /* the same where each sum is added to by itself */
    int64_t split_work, split_shares;   /* kernels of more work and fewer shares have their phases cut */
    int64_t split_points, split_memory; /* points of a cut at least; partial results of a reduction at most */
    int64_t split_block;
    int64_t tile, tile_block; /* indices of a tile, at most: of the dim along which one side lies, and the other */
    int64_t stream;           /* bytes of an array that no cache holds until it is read again */
    int64_t kept;             /* elements of a row of which a phase leaves to later ones what was dear */
    int64_t ahead, ahead_row; /* bytes of an array that memory is asked for ahead, at least; of a row of it, at most */
} sc_emit_limits;

extern const sc_emit_limits sc_emit_default_limits;
void sc_emit_c_within(const sc_kernel *k, const char *name, bool comments, const sc_emit_limits *limits, sc_strbuf *out,
                      sc_helper_set *helpers);

/* Of an element's offset: times a dim, or times a node that is no sum (dim: SC_IMAGE_NONE). */
typedef struct sc_emit_term {
    uint32_t dim;
    sc_knode node;
    int64_t times;
} sc_emit_term;

/* An element of an argument: the offset is the constant and the terms. */
typedef struct sc_emit_access {
    uint32_t arg, count;
    int64_t constant;
    sc_emit_term *terms;
} sc_emit_access;

typedef struct sc_emit_node {
    uint64_t dims; /* that it depends on */
    uint32_t child_count;
    sc_knode *children;    /* what its text names: operands; of a load the nodes of its offset, and its guard */
    sc_emit_access access; /* load */
    uint32_t uses;         /* by nodes and items that anything needs */
    bool late;             /* reads a reduction: not before the body */
    bool reads_written;    /* loads an argument that the kernel writes, at last */
    bool has_load, atom;   /* atom: a user's text names it twice */
    bool turned;           /* a load that finds the tile's elements in q12 */
    uint32_t kept_from;    /* the phase that leaves it in b12 for later ones; SC_IMAGE_NONE */
    uint32_t first_phase;  /* that needs it: sc_emit_choose_ahead */
    /* in the items that were placed last */
    uint32_t pass, visit;
    uint32_t depth, user_depth; /* scope; the deepest of its users' */
    /* in the text */
    bool visible;
    uint32_t size; /* nodes in its text */
} sc_emit_node;

typedef struct sc_emit_item {
    sc_emit_access access; /* STORE, ADD */
    uint32_t phase, check; /* check: its number among checks */
    uint32_t depth;        /* scope in which it is done */
    bool running;          /* someone reads it on its way */
    bool wide;             /* the sum is in f64 .. */
    bool parts;            /* .. of sums of parts in f32 */
    bool of_vector;        /* a reduction that has one value for each index of the vector dim */
    bool turned, streamed; /* a store that leaves the tile's elements, or a row of these, in w3; to go around the caches */
} sc_emit_item;

/* A part of an offset that is the same in inner loops and has a name there. */
typedef struct sc_emit_offset {
    sc_emit_access access;
    uint32_t scope, number;
} sc_emit_offset;

/* How outer iterations are walked: sc_emit_choose_shape. */
typedef struct sc_emit_shape {
    uint32_t vector; /* an outer dim that is the innermost loop of every phase; SC_IMAGE_NONE: phases' last dims are */
    int64_t block;   /* so many of its indices at once */
    uint32_t tile;   /* an outer dim that is walked in tiles with the vector dim's blocks; SC_IMAGE_NONE */
    int64_t tile_size;
    uint32_t order[64], order_count; /* the other outer dims */
    uint32_t shared;                 /* loops of these, then the loop over blocks, that are shared out as one */
    bool parallel, split;
} sc_emit_shape;

typedef struct sc_emit sc_emit;

/* Where languages differ: emit_c_phase.c has C's, emit_cuda_phase.c CUDA's. */
typedef struct sc_emit_target {
    const char *letters;      /* that nodes and items take, with a number, as names */
    const char *const *words; /* that are no names besides those of C; NULL ends them, or there are none */
    const char *index_cast;   /* in front of a dim's name, to make it an int64_t */
    const char *whole_sum;    /* what sums of integers call; NULL: they are a + */
    /* Text of an operation, as nodes.def has it. */
    const char *(*operation)(const sc_emit *e, sc_knode id);
    /* Statements: a check does not hold. */
    void (*leave_iteration)(sc_emit *e, uint32_t item);
    /* What the innermost loop adds to; what stands behind the name of a reduction that has one value for each index of the vector dim. */
    void (*accumulator)(sc_emit *e, uint32_t item);
    void (*reduction_index)(sc_emit *e);
    /* The element of a load (id: the node), the one of an item (id: the item), one that an earlier phase kept. */
    void (*loaded)(sc_emit *e, const sc_emit_access *access, uint32_t depth, uint32_t id);
    void (*stored)(sc_emit *e, const sc_emit_access *access, uint32_t depth, uint32_t id);
    void (*kept)(sc_emit *e, sc_knode node);
} sc_emit_target;

extern const sc_emit_target sc_emit_c_target;

struct sc_emit {
    const sc_kernel *k;
    const sc_emit_target *target;
    const sc_emit_limits *limits;
    sc_context *context;
    sc_arena *arena;
    sc_strbuf *out;
    bool comments;
    const char **dim_names, **arg_names;
    bool *arg_used, *param_used, *arg_shared;
    sc_emit_node *nodes;
    sc_emit_item *items;
    uint32_t check_count;
    uint32_t *floors; /* of each phase: the deepest scope, the body at most, of a check before it */
    sc_emit_shape shape;
    uint64_t scope_dims[SC_EMIT_MAX_SCOPES];
    uint32_t body, inner; /* scopes: of an outer iteration; of the innermost loop of the phase */
    uint32_t pass, visit, indent;
    uint32_t cut; /* the dim of which the phase does `cut_size` indices at once; SC_IMAGE_NONE */
    int64_t cut_size;
    bool leaves;      /* a `goto next` was written */
    bool writes_read; /* the kernel loads what it writes */
    bool simd;        /* points of the phase's innermost loop may be done at once */
    int64_t lanes;    /* 0, or so many sums side by side: see emit_c_phase.c */
    uint32_t phase;   /* that is being written */
    uint32_t ahead;   /* the phase that asks memory for what others need; SC_IMAGE_NONE */
    SC_VEC(sc_emit_offset) offsets;
    uint32_t offset_number;
    SC_VEC(sc_knode) declared; /* visible nodes, newest last */
    SC_VEC(uint32_t) declared_scopes;
};

/* emit_c_nodes.c: what nodes are. */
void sc_emit_analyse(sc_emit *e);
/* A bit for each dim that the place of the access depends on. */
uint64_t sc_emit_dims_of(const sc_emit *e, const sc_emit_access *access);
/* The C text of an operation on operands of these dtypes, as nodes.def has it. */
const char *sc_emit_template(const sc_emit *e, sc_knode id);
/* The same for C, where an exponential of what is not above 0 is less work. */
const char *sc_emit_c_operation(const sc_emit *e, sc_knode id);

/* emit_c_text.c: what they say. */
const char *sc_emit_type(sc_dtype dtype);   /* of arithmetic */
const char *sc_emit_stored(sc_dtype dtype); /* of elements */
void sc_emit_value(sc_emit *e, sc_knode id, bool bare);
void sc_emit_offset_text(sc_emit *e, const sc_emit_access *access, uint32_t depth);
void sc_emit_line(sc_emit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sc_emit_indent(sc_emit *e);
/* r3, or r3[D - D_from]: what an item reduces to; s3, t3: see emit_c_phase.c. */
void sc_emit_reduction_name(sc_emit *e, char letter, uint32_t item);
/* "INT32_MIN", "-INFINITY", "0": of nothing. */
const char *sc_emit_identity(sc_item_kind kind, sc_dtype dtype);

/* emit_c_scope.c: where nodes are computed. */
/* The scope of the last check before each phase; nodes of the scopes outside the body, for all phases. Innermost is e->inner. */
void sc_emit_place_all(sc_emit *e);
/* Gives the items' nodes their scopes, 0 .. inner. `floor`: that of the last check before them; gives that of the last check. */
uint32_t sc_emit_place(sc_emit *e, uint32_t first, uint32_t end, uint32_t floor);
/* Writes what the items need of a scope, and the items that are done in it. */
void sc_emit_scope(sc_emit *e, uint32_t depth, uint32_t first, uint32_t end);
/* Ends a scope: its names are gone. */
void sc_emit_leave(sc_emit *e, uint32_t depth);

/* emit_c_shape.c */
void sc_emit_choose_shape(sc_emit *e);
/* The outer dim whose indices lie side by side, or SC_IMAGE_NONE: phases' last dims do. */
uint32_t sc_emit_choose_vector(sc_emit *e);
/* How far apart neighbours along the dim lie; irregular: INT64_MAX. */
int64_t sc_emit_stride(const sc_emit *e, const sc_emit_access *access, uint32_t dim);
bool sc_emit_is_far(int64_t stride);
/* Whether iterations of the phase's loop over a dim may be done at once. */
bool sc_emit_may_vectorise(const sc_emit *e, uint32_t phase, uint32_t dim);

/* emit_c.c: what every language begins with, all but `target` and `limits`; the comment at a function's head; loops over outer dims, and
 * where a cut or a block ends. */
void sc_emit_begin(sc_emit *e, const sc_kernel *k, bool comments, sc_strbuf *out);
void sc_emit_comment(sc_emit *e);
void sc_emit_open_outer_loop(sc_emit *e, uint32_t loop);
uint32_t sc_emit_outer_loops(const sc_emit *e);
void sc_emit_block_end(sc_emit *e, uint32_t dim, int64_t block);
bool sc_emit_is_blocked(const sc_emit *e);

/* emit_c_turn.c: tiles that lie one way in memory and are walked the other. */
/* Marks the loads and stores that go by way of an array, and chooses the sizes of tiles, of which there are `others` times
 * those of two dims. Needs the rest of the shape. */
void sc_emit_choose_turns(sc_emit *e, int64_t others);
/* q12[(D - D_from) * 144 + R - R_from], of the argument's type; without the tile: w3[R - R_from]. */
void sc_emit_turned_element(sc_emit *e, char letter, uint32_t id, uint32_t arg, bool tile);
/* What stands before a tile's loop, behind a row of it, and behind the tile. */
void sc_emit_turn_in(sc_emit *e);
void sc_emit_stream_row(sc_emit *e);
void sc_emit_turn_out(sc_emit *e);

/* emit_c_keep.c: what a phase leaves to later ones. */
void sc_emit_choose_kept(sc_emit *e);
/* Of the nodes that may be, those that several phases over the same dims need. */
void sc_emit_keep(sc_emit *e, bool (*may)(const sc_emit *e, sc_knode node, uint32_t phase));
bool sc_emit_is_dear(sc_node_kind kind);
bool sc_emit_depends_on_all(const sc_emit *e, sc_knode node, uint32_t phase);
bool sc_emit_is_kept(const sc_emit *e, sc_knode node);
void sc_emit_kept_element(sc_emit *e, sc_knode node);
void sc_emit_declare_kept(sc_emit *e);

/* emit_c_ahead.c: what a phase with much to compute fetches for others. */
void sc_emit_choose_ahead(sc_emit *e);
/* What stands before the phase's loop, and before the lanes that begin at the index `at`. */
void sc_emit_ahead_begin(sc_emit *e);
void sc_emit_ahead(sc_emit *e, const char *at);

/* emit_c_split.c: the function's phases, one after the other, each shared out. */
bool sc_emit_may_split(const sc_emit *e);
void sc_emit_split(sc_emit *e);
/* Whether the phase's items read a reduction of an earlier phase: in values, guards or offsets. */
bool sc_emit_phase_reads(sc_emit *e, uint32_t phase, uint32_t item);

/* emit_c_item.c */
void sc_emit_do_item(sc_emit *e, uint32_t item);
void sc_emit_failure(sc_emit *e, uint32_t item); /* what sc_image_failure is of it */

/* emit_c_phase.c */
void sc_emit_phase(sc_emit *e, uint32_t phase);

#endif
