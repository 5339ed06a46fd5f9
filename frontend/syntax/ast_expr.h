/* Syntax tree: names, expressions and types, used by statements and plans. */
#ifndef SHARDC_FRONTEND_SYNTAX_AST_EXPR_H
#define SHARDC_FRONTEND_SYNTAX_AST_EXPR_H

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
    SC_EXPR_CALL,
    SC_EXPR_LIST
} sc_expr_kind;

/* D, E -> R (slice, concat, rename, append, topk) or D = X (a named dim argument). `to` is empty
 * without an arrow or `=`. */
typedef struct sc_op_dim {
    sc_name from, to;
    bool arrow; /* from -> to; else from = to */
} sc_op_dim;

/* An argument: a value (name is 0), a named value, or a parenthesised tuple of two or more
 * values. */
typedef struct sc_arg {
    sc_name name;
    sc_expr_list values; /* one, or several for a tuple */
    sc_loc loc;
} sc_arg;
typedef SC_VEC(sc_arg) sc_arg_list;

struct sc_expr {
    sc_expr_kind kind;
    sc_loc loc;
    uint32_t depth;     /* of this subtree; the parser limits it to 256 */
    bool parenthesised; /* in the source; for the formatter */
    union {
        sc_sym name; /* NAME; STRING: the unescaped text */
        int64_t integer;
        double number;
        struct {
            char op; /* + - * / */
            sc_expr *left, *right;
        } binary;
        sc_expr *operand;   /* NEG */
        sc_expr_list items; /* LIST */
        struct {
            sc_name callee;
            bool has_dims; /* f[..](..) rather than f(..) */
            SC_VEC(sc_op_dim) dims;
            sc_arg_list args;
        } call;
    };
    sc_sym spelling; /* INT, FLOAT, STRING: as written, for the formatter */
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

#endif
