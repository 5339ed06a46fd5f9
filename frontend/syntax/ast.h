/* The syntax tree of one .shard file, as parser.y builds it: plain structs in the context's arena,
 * lists as SC_VEC, each node with its source location. Names are symbols and not resolved. An
 * omitted part is NULL, an empty list or symbol 0. */
#ifndef SHARDC_FRONTEND_SYNTAX_AST_H
#define SHARDC_FRONTEND_SYNTAX_AST_H

#include "frontend/syntax/ast_expr.h"
#include "frontend/syntax/ast_plan.h"

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
    sc_name at_name; /* at pos[B] along S; 0 if absent */
    sc_shape *at_shape;
    sc_name along;
    SC_VEC(sc_type_ref) results; /* -> types */
    sc_stmt_list body;
    sc_loc loc, end; /* end: the closing brace */
} sc_callable;

typedef enum sc_lhs_kind {
    SC_LHS_NAME,
    SC_LHS_SHAPED /* x[B, S] = */,
    SC_LHS_TYPED /* x: f32[B] = */
} sc_lhs_kind;

typedef struct sc_lhs {
    sc_lhs_kind kind;
    sc_name name;
    sc_type_ref type;
} sc_lhs;

/* A param or cache: w[D, F] = init, w: bf16[D, F] = init. */
typedef struct sc_pdecl {
    sc_name name, dtype;
    sc_shape *shape;
    sc_expr *init; /* NULL if absent */
    sc_loc loc;
} sc_pdecl;

/* A dim argument of an instance: `E`, or `S = Sv` (name = S, value = Sv). */
typedef struct sc_dim_arg {
    sc_name name, value; /* name.text is 0 for a positional argument */
} sc_dim_arg;

/* layers: layer[S = Sv](eps = 1e-6) * L */
typedef struct sc_sub {
    sc_name name, block;
    bool has_dim_args, has_statics;
    SC_VEC(sc_dim_arg) dim_args;
    sc_arg_list statics;
    sc_name stack; /* 0 if absent */
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
    SC_STMT_IF,
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
        /* if NAME { .. }: the body is there in instances whose static argument NAME is neither 0
         * nor the word none; an `else` is a statement of its own, with the name of the `if` before
         * it (0: there is none) */
        struct {
            sc_name name;
            bool is_else;
            sc_stmt_list body;
            sc_loc end;
        } when;
        sc_expr_list results; /* RETURN */
    };
};

/* model m(theta = 1e4) { .. }, or `model m(theta = 5e5);`, which gives values to the static
 * arguments of a model in another file. */
typedef struct sc_model {
    sc_name name;
    bool has_statics, has_body;
    sc_arg_list statics;
    sc_stmt_list body;
    sc_loc loc, end;
} sc_model;

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
            struct sc_file *file; /* set by sc_load_file */
        } import;
        SC_VEC(sc_dim_def) dims;
        sc_callable *callable;
        sc_model *model;
        sc_minimize *minimize;
        sc_plan *plan;
        sc_weights *weights;
    };
} sc_item;

/* A comment, for the formatter: its text with // or # and without the newline. */
typedef struct sc_comment {
    sc_loc loc;
    bool own_line; /* only blanks before it on its line */
} sc_comment;

typedef struct sc_file {
    const sc_source *source;
    int64_t lang;
    sc_loc lang_loc; /* lang 1; */
    SC_VEC(sc_item *) items;
    SC_VEC(sc_comment) comments; /* in source order */
} sc_file;

/* Parses one text; `name` is for messages. Errors go to context->diag. Never returns NULL: after
 * errors the tree has what could be parsed. Imports are not followed. */
sc_file *sc_parse_text(sc_context *context, const char *name, const char *text, size_t length);

/* Reads and parses one file without following imports. Returns NULL after reporting an error if the
 * file cannot be read. */
sc_file *sc_parse_file(sc_context *context, const char *path);

/* Reads and parses a file and, depth first, all its imports, each once; an import cycle is an
 * error. `more` (may be NULL) is a second file, read as if the first imported it at its end.
 * Returns NULL if one of the two cannot be read. */
sc_file *sc_load_file(sc_context *context, const char *path, const char *more);
/* As sc_load_file, for a text in memory. Imports are resolved relative to the file name `name`. */
sc_file *sc_load_text(sc_context *context, const char *name, const char *text, size_t length);

/* Appends the canonical form of the file, with comments, to `out`. Idempotent. Only for files
 * parsed without errors. */
void sc_format_file(sc_context *context, const sc_file *file, sc_strbuf *out);

#endif
