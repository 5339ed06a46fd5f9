/* The syntax tree of one .shard file, as grammar.y produces it: plain structs in the context's arena, lists as SC_VEC, each node with
 * its place. Names are symbols; nothing is resolved here. An omitted optional part is NULL, an empty list or symbol 0. */
#ifndef SHARDC_FRONTEND_AST_H
#define SHARDC_FRONTEND_AST_H

#include "support/context.h"

typedef struct sc_name {
    sc_sym text;
    sc_loc loc;
} sc_name;
typedef SC_VEC(sc_name) sc_name_list;

/* ---- expressions ---- */
typedef struct sc_expr sc_expr;
typedef SC_VEC(sc_expr *) sc_expr_list;

typedef enum sc_expr_kind {
    SC_EXPR_NAME,
    SC_EXPR_INT,
    SC_EXPR_FLOAT,
    SC_EXPR_STRING,
    SC_EXPR_NEG,
    SC_EXPR_BINARY,
    SC_EXPR_CALL
} sc_expr_kind;

/* D, E -> R (slice, concat, rename, append, topk) or D = X (a dim argument by name). `to` is empty without an arrow or `=`. */
typedef struct sc_op_dim {
    sc_name from, to;
    bool arrow; /* from -> to; else from = to */
} sc_op_dim;

/* An argument: a value (name is 0), a named one, or a parenthesised tuple of two or more values. */
typedef struct sc_arg {
    sc_name name;
    sc_expr_list values; /* one, or several for a tuple */
    sc_loc loc;
} sc_arg;
typedef SC_VEC(sc_arg) sc_arg_list;

struct sc_expr {
    sc_expr_kind kind;
    sc_loc loc;
    uint32_t depth;     /* of this tree; capped at 256 by the parser */
    bool parenthesised; /* as written, for fmt */
    union {
        sc_sym name; /* NAME; STRING: the unescaped text */
        int64_t integer;
        double number;
        struct {
            char op; /* + - * / */
            sc_expr *left, *right;
        } binary;
        sc_expr *operand; /* NEG */
        struct {
            sc_name callee;
            bool has_dims; /* f[..](..) against f(..) */
            SC_VEC(sc_op_dim) dims;
            sc_arg_list args;
        } call;
    };
    sc_sym spelling; /* INT, FLOAT, STRING: as written, for fmt */
};

/* ---- types ---- */
/* A dim of a shape: `..`, `D`, `D@tp` or `D@(x, y)`. */
typedef struct sc_dimref {
    bool rest; /* `..` */
    sc_name dim;
    sc_name_list axes;
    bool axes_parenthesised;
    sc_loc loc;
} sc_dimref;

typedef struct sc_shape {
    SC_VEC(sc_dimref) dims;
    sc_loc loc;
} sc_shape;

typedef struct sc_type_ref {
    sc_name dtype; /* 0: none given */
    sc_shape *shape;
    sc_loc loc;
} sc_type_ref;

/* ---- statements of blocks, models, functions ---- */
typedef struct sc_stmt sc_stmt;
typedef SC_VEC(sc_stmt *) sc_stmt_list;

typedef enum sc_formal_kind {
    SC_FORMAL_TYPED /* x: i32[B] */,
    SC_FORMAL_SHAPED /* x[B] */,
    SC_FORMAL_STATIC /* eps = 1e-5 */
} sc_formal_kind;

typedef struct sc_formal {
    sc_formal_kind kind;
    sc_name name;
    sc_type_ref type; /* TYPED, SHAPED */
    sc_expr *value;   /* STATIC: the default */
    sc_loc loc;
} sc_formal;

/* fn, block or entry. */
typedef struct sc_callable {
    sc_name name;
    sc_name_list dim_params;
    SC_VEC(sc_formal) formals;
    sc_name at_name; /* at pos[B] along S; 0 without */
    sc_shape *at_shape;
    sc_name along;
    SC_VEC(sc_type_ref) results; /* -> types */
    sc_stmt_list body;
    sc_loc loc, end; /* end: the closing brace */
} sc_callable;

typedef enum sc_lhs_kind { SC_LHS_NAME, SC_LHS_SHAPED /* x[B, S] = */, SC_LHS_TYPED /* x: f32[B] = */ } sc_lhs_kind;

typedef struct sc_lhs {
    sc_lhs_kind kind;
    sc_name name;
    sc_type_ref type;
} sc_lhs;

/* A param or cache: w[D, F] = init, w: bf16[D, F] = init. */
typedef struct sc_pdecl {
    sc_name name, dtype;
    sc_shape *shape;
    sc_expr *init; /* NULL without */
    sc_loc loc;
} sc_pdecl;

/* A dim argument of an instance: `E`, or `S = Sv` (name = S, value = Sv). */
typedef struct sc_dim_arg {
    sc_name name, value; /* name.text is 0 for a positional one */
} sc_dim_arg;

/* layers: layer[S = Sv](eps = 1e-6) * L */
typedef struct sc_sub {
    sc_name name, block;
    bool has_dim_args, has_statics;
    SC_VEC(sc_dim_arg) dim_args;
    sc_arg_list statics;
    sc_name stack; /* 0 without */
    sc_loc loc;
} sc_sub;

typedef enum sc_stmt_kind {
    SC_STMT_PARAM,
    SC_STMT_CACHE,
    SC_STMT_SUB,
    SC_STMT_FN,
    SC_STMT_ENTRY,
    SC_STMT_ASSIGN,
    SC_STMT_REPEAT,
    SC_STMT_RETURN
} sc_stmt_kind;

struct sc_stmt {
    sc_stmt_kind kind;
    sc_loc loc;
    union {
        SC_VEC(sc_pdecl) decls; /* PARAM, CACHE */
        SC_VEC(sc_sub) subs;
        sc_callable *callable; /* FN, ENTRY */
        struct {
            SC_VEC(sc_lhs) targets;
            sc_expr *value;
        } assign;
        struct {
            sc_name dim;
            sc_stmt_list body;
            sc_loc end;
        } repeat;
        sc_expr_list results; /* RETURN */
    };
};

typedef struct sc_model {
    sc_name name;
    sc_stmt_list body;
    sc_loc loc, end;
} sc_model;

/* ---- paths ---- */
typedef enum sc_seg_kind { SC_SEG_NAME, SC_SEG_ANY /* * */, SC_SEG_RANGE /* w[a..b], inclusive */, SC_SEG_INDEX /* w[a] */ } sc_seg_kind;

typedef struct sc_seg {
    sc_seg_kind kind;
    sc_name name;
    int64_t first, last; /* RANGE, INDEX (equal) */
} sc_seg;

typedef struct sc_path {
    SC_VEC(sc_seg) segs;
    sc_loc loc;
} sc_path;
typedef SC_VEC(sc_path) sc_path_list;

/* ---- minimize ---- */
typedef struct sc_optimizer {
    sc_name name;
    sc_arg_list args;
    sc_path_list in;
    sc_loc loc;
} sc_optimizer;

typedef struct sc_minimize {
    sc_path target;
    sc_path_list over;
    SC_VEC(sc_optimizer) optimizers;
    sc_loc loc;
} sc_minimize;

/* ---- plans ---- */
typedef enum sc_tensor_kind {
    SC_KIND_PARAM,
    SC_KIND_ACT,
    SC_KIND_GRAD,
    SC_KIND_OPT,
    SC_KIND_CACHE,
    SC_KIND_INPUT,
    SC_KIND_OUTPUT,
    SC_KIND_COUNT
} sc_tensor_kind;

typedef struct sc_kind_list {
    uint32_t mask;                /* bit per sc_tensor_kind; 0: none named */
    SC_VEC(sc_tensor_kind) order; /* as written, for fmt */
} sc_kind_list;

typedef enum sc_plan_stmt_kind {
    SC_PLAN_MESH,
    SC_PLAN_BIND,
    SC_PLAN_SHARD,
    SC_PLAN_PIN,
    SC_PLAN_STYLE,
    SC_PLAN_STAGE,    /* stage PATHS over AXIS: opts */
    SC_PLAN_STAGE_AT, /* stage PATH = first */
    SC_PLAN_REMAT,
    SC_PLAN_OFFLOAD,
    SC_PLAN_RESHARD,
    SC_PLAN_PRECISION,
    SC_PLAN_ACCUMULATE,
    SC_PLAN_PAD,
    SC_PLAN_TUNE,
    SC_PLAN_EXPECT
} sc_plan_stmt_kind;

typedef enum sc_axis_link { SC_LINK_DEFAULT, SC_LINK_INTRA, SC_LINK_INTER } sc_axis_link;

typedef struct sc_axis_def {
    sc_name name;
    sc_expr *size;
    sc_axis_link link;
} sc_axis_def;

typedef struct sc_bind {
    sc_name dim;
    sc_expr *value;
} sc_bind;

typedef struct sc_precision {
    sc_name what, dtype; /* what: param, act, grad, opt, cache, reduce */
} sc_precision;

typedef enum sc_expect_relation { SC_EXPECT_NONE, SC_EXPECT_LE, SC_EXPECT_EQ } sc_expect_relation;

typedef struct sc_plan_stmt {
    sc_plan_stmt_kind kind;
    sc_loc loc;
    sc_path_list in; /* in PATHS of bind, shard, offload, reshard, precision, expect; the paths of style, stage, remat */
    union {
        SC_VEC(sc_axis_def) axes;
        SC_VEC(sc_bind) binds;
        struct {
            sc_kind_list kinds;
            bool star;
            sc_name_list dims, axes;
            bool if_free;
        } shard;
        struct {
            sc_path path;
            sc_shape *shape;
            sc_name_list over;
        } pin;
        struct {
            sc_name style;
            bool has_args;
            sc_arg_list args;
            sc_name axis;
        } style;
        struct {
            sc_name axis; /* STAGE */
            sc_arg_list options;
            sc_expr *value; /* STAGE_AT; its path is in[0] */
        } stage;
        struct {
            sc_path_list save;
        } remat;
        sc_kind_list offload;
        sc_name reshard; /* forward, use, step */
        SC_VEC(sc_precision) precisions;
        struct {
            int64_t count;
            sc_name dim;
        } accumulate;
        struct {
            sc_name dim;
            sc_expr *multiple;
        } pad;
        sc_arg_list tune;
        struct {
            sc_expr *what;
            sc_expect_relation relation;
            bool is_float;
            int64_t integer;
            double number;
            sc_sym spelling; /* of the number */
            sc_name unit;    /* 0 without */
        } expect;
    };
} sc_plan_stmt;

typedef struct sc_plan {
    sc_name name, model;
    SC_VEC(sc_plan_stmt *) body;
    sc_loc loc, end;
} sc_plan;

/* ---- weights ---- */
typedef enum sc_wdim_kind { SC_WDIM_NAME, SC_WDIM_PART /* 0 of 3 */, SC_WDIM_RANGE /* 0..3 of 5 */ } sc_wdim_kind;

typedef struct sc_wdim {
    sc_wdim_kind kind;
    sc_name dim;
    int64_t first, last; /* PART: equal; RANGE: as written */
    sc_expr *of;
    sc_loc loc;
} sc_wdim;

typedef struct sc_wmap {
    sc_path path;
    sc_sym pattern; /* the unescaped string */
    sc_sym pattern_spelling;
    sc_loc pattern_loc;
    bool has_as;
    SC_VEC(sc_wdim) as;
    sc_loc loc;
} sc_wmap;

typedef struct sc_weights {
    sc_name name, model;
    SC_VEC(sc_wmap) maps;
    sc_loc loc, end;
} sc_weights;

/* ---- files ---- */
typedef struct sc_dim_def {
    sc_name name;
    sc_expr *size;      /* dim D = 4 * E */
    sc_name alias;      /* dim T = alias S */
    sc_name_list parts; /* dim H = (K, G) */
} sc_dim_def;

typedef enum sc_item_kind {
    SC_ITEM_IMPORT,
    SC_ITEM_DIM,
    SC_ITEM_FN,
    SC_ITEM_BLOCK,
    SC_ITEM_MODEL,
    SC_ITEM_MINIMIZE,
    SC_ITEM_PLAN,
    SC_ITEM_WEIGHTS
} sc_item_kind;

typedef struct sc_item {
    sc_item_kind kind;
    sc_loc loc;
    union {
        struct {
            sc_sym path; /* unescaped */
            sc_sym spelling;
            struct sc_file *file; /* filled by sc_load_file */
        } import;
        SC_VEC(sc_dim_def) dims;
        sc_callable *callable;
        sc_model *model;
        sc_minimize *minimize;
        sc_plan *plan;
        sc_weights *weights;
    };
} sc_item;

/* A comment, for fmt: text without the line's end, // or # included. */
typedef struct sc_comment {
    sc_loc loc;
    bool own_line; /* nothing but blanks before it on its line */
} sc_comment;

typedef struct sc_file {
    const sc_source *source;
    int64_t lang;
    sc_loc lang_loc; /* lang 1; */
    SC_VEC(sc_item *) items;
    SC_VEC(sc_comment) comments; /* in order of place */
} sc_file;

/* Parses one text (name is for messages). Messages go to context->diag; the tree of what could be read is returned even then, never
 * NULL. Imports are not followed. */
sc_file *sc_parse_text(sc_context *context, const char *name, const char *text, size_t length);

/* Reads and parses one file; imports are not followed. NULL, with a message, when it cannot be read. */
sc_file *sc_parse_file(sc_context *context, const char *path);

/* Reads and parses a file and, depth first, everything it imports (each file once; a cycle is an error); `more` (may be NULL) is a second
 * file, read as if the first imported it at its end. NULL when one of the two cannot be read. */
sc_file *sc_load_file(sc_context *context, const char *path, const char *more);

/* The canonical form of the file, comments kept; formatting the result again gives the same text. Only for files that parsed without
 * errors. */
void sc_format_file(sc_context *context, const sc_file *file, sc_strbuf *out);

#endif
