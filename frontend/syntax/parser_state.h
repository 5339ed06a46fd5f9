/* Shared by the scanner (lexer.l), the token stream (tokens.c), the grammar (parser.y) and its
 * messages (parse_error.c). Internal to the frontend. All memory is from the context's arena, so a
 * parse can be abandoned at any point. */
#ifndef SHARDC_FRONTEND_SYNTAX_PARSER_STATE_H
#define SHARDC_FRONTEND_SYNTAX_PARSER_STATE_H

#include "frontend/syntax/ast.h"

enum {
    SC_MAX_DEPTH = 256,         /* of nested statements, expressions and parentheses */
    SC_MAX_FILE_SIZE = 1 << 25, /* in bytes; a syntax tree takes up to 120 times as much memory */
};

/* ---- semantic values ---- */
typedef struct sc_int_token {
    int64_t value;
    sc_sym spelling;
} sc_int_token;

typedef struct sc_float_token {
    double value;
    sc_sym spelling;
} sc_float_token;

typedef struct sc_string_token {
    sc_sym text, spelling;
} sc_string_token;

/* `{ statements }`, with the depth of the deepest statement and the location of the closing
 * brace. */
typedef struct sc_body {
    sc_stmt_list list;
    uint32_t depth;
    sc_loc end;
} sc_body;

typedef struct sc_deep_stmt {
    sc_stmt *node; /* NULL after an error */
    uint32_t depth;
} sc_deep_stmt;

typedef struct sc_deep_callable {
    sc_callable *node; /* NULL after an error */
    uint32_t depth;
} sc_deep_callable;

typedef struct sc_quantity {
    bool is_float;
    int64_t integer;
    double number;
    sc_sym spelling;
    sc_name unit;
} sc_quantity;

/* The semantic value of a grammar symbol. Kept small, because the parser's stack holds YYMAXDEPTH
 * (parser.y) of them on the C stack. */
typedef union sc_value {
    sc_name name;
    sc_int_token integer;
    sc_float_token number;
    sc_string_token string;
    bool flag;
    sc_tensor_kind kind;
    sc_axis_link link;
    sc_name_list names;
    sc_expr *expr;
    sc_expr_list exprs;
    sc_arg arg;
    sc_arg_list args;
    sc_op_dim op_dim;
    SC_VEC(sc_op_dim) op_dims;
    sc_dimref dimref;
    sc_shape *shape;
    sc_type_ref type;
    SC_VEC(sc_type_ref) types;
    sc_formal *formal;
    SC_VEC(sc_formal) formals;
    sc_callable *at; /* only at_name, at_shape and along are set */
    sc_deep_callable callable;
    sc_body body;
    sc_deep_stmt stmt;
    sc_lhs lhs;
    SC_VEC(sc_lhs) lhss;
    sc_pdecl pdecl;
    SC_VEC(sc_pdecl) pdecls;
    sc_sub *sub;
    SC_VEC(sc_sub) subs;
    sc_dim_arg dim_arg;
    SC_VEC(sc_dim_arg) dim_args;
    sc_model *model;
    sc_seg seg;
    sc_path path;
    sc_path_list paths;
    sc_optimizer *optimizer;
    SC_VEC(sc_optimizer) optimizers;
    sc_minimize *minimize;
    sc_kind_list kinds;
    sc_axis_def axis;
    SC_VEC(sc_axis_def) axes;
    SC_VEC(sc_bind) binds;
    sc_precision precision;
    SC_VEC(sc_precision) precisions;
    sc_quantity quantity;
    sc_plan_stmt *plan_stmt;
    sc_plan *plan;
    sc_wdim *wdim;
    SC_VEC(sc_wdim) wdims;
    sc_wmap *wmap;
    sc_weights *weights;
    sc_dim_def *dim_def;
    SC_VEC(sc_dim_def) dim_defs;
    sc_item *item;
} sc_value;

/* ---- the parser ---- */
typedef struct sc_bracket {
    char kind; /* one of ( [ { */
    sc_loc loc;
} sc_bracket;

typedef struct sc_token {
    int kind; /* as returned by the scanner; 0 at the end of the file */
    sc_loc loc;
    sc_value value;
} sc_token;

/* A token already handed to the parser. */
typedef struct sc_past_token {
    int kind;
    sc_loc loc;
    sc_sym name; /* of an identifier */
} sc_past_token;

typedef struct sc_parser {
    sc_context *context;
    const sc_source *source;
    sc_file *file;
    void *scanner;
    uint32_t scanned; /* position of the scanner's next byte */
    /* end of the newest unterminated string; errors right after it are not reported */
    uint32_t broken_end;
    bool stopped; /* an error was reported after which parsing cannot continue */

    /* the token stream */
    SC_VEC(sc_bracket) open;
    sc_bracket unclosed; /* the innermost ( or [ left open, if the newest token is ; or } */
    uint32_t brace_depth;
    bool plan_pending; /* between `plan` or `weights` and the brace */
    /* inside the braces or right before them: the scanner knows more keywords */
    bool in_plan;
    bool started;       /* the first token was read */
    int version_tokens; /* remaining tokens of a missing `lang 1 ;` to insert */
    bool opening;       /* an opening brace is to be inserted before `held` */
    uint32_t closing;   /* number of closing braces to insert */
    bool past_formals;  /* a parenthesis was closed in this statement */
    bool holds;
    sc_token held;
    /* the last two tokens and the first of the current statement, for messages */
    sc_past_token last, before_last, statement;
} sc_parser;

/* ---- lexer.l ---- */
int sc_scan(sc_value *value, sc_loc *loc, void *scanner);
/* Creates a scanner over bytes followed by two zero bytes after `length`. Both live as long as the
 * arena. */
void *sc_scanner_make(sc_parser *parser, char *text, size_t length);

/* ---- tokens.c, literals.c ---- */
int sc_next_token(sc_value *value, sc_loc *loc, sc_parser *parser);
sc_int_token sc_read_integer(sc_parser *parser, const char *text, size_t length, sc_loc loc);
sc_float_token sc_read_float(sc_parser *parser, const char *text, size_t length, sc_loc loc);
sc_string_token sc_read_string(sc_parser *parser, const char *text, size_t length, sc_loc loc);
void sc_record_comment(sc_parser *parser, sc_loc loc);

/* ---- parse_build.c: nodes ---- */
sc_expr *sc_make_leaf(sc_parser *parser, sc_expr_kind kind, sc_loc loc);
sc_expr *sc_make_negation(sc_parser *parser, sc_expr *operand, sc_loc loc);
sc_expr *sc_make_binary(sc_parser *parser, char op, sc_expr *left, sc_expr *right, sc_loc loc);
/* Increases the depth: it counts entries of the parser's stack, which parentheses also use. */
sc_expr *sc_make_parenthesised(sc_parser *parser, sc_expr *expr, sc_loc loc);
sc_expr *sc_make_list(sc_parser *parser, sc_expr_list items, sc_loc loc);
sc_expr *sc_make_call(sc_parser *parser, sc_name callee, sc_arg_list args, sc_loc loc);
sc_arg sc_make_arg(sc_parser *parser, sc_name name, sc_expr *value, sc_loc loc);
/* Also computes the statement's depth. */
sc_deep_stmt sc_make_stmt(sc_parser *parser, sc_stmt *node, uint32_t body_depth);
uint32_t sc_formals_depth(const sc_formal *formals, uint32_t count);

/* ---- parse_error.c ---- */
/* Returns the source text from a position on. */
const char *sc_source_text(const sc_parser *parser, uint32_t position);
/* Reports a syntax error. `found` and `expected` are token names of the grammar. Reorders
 * `expected`. */
void sc_report_syntax(sc_parser *parser, const char *found, sc_loc loc, const char **expected,
                      int expected_count);
void sc_report_too_deep(sc_parser *parser, sc_loc loc);
/* Reports a C-style block comment, which the language does not have; the comment is skipped. */
void sc_report_block_comment(sc_parser *parser, sc_loc loc);
void sc_report_bad_characters(sc_parser *parser, sc_loc loc);
/* Reports a declaration inside braces: a closing brace is probably missing. */
void sc_report_misplaced_declaration(sc_parser *parser, sc_loc loc);
/* True if the text at `loc` is the first word of a plan statement. */
bool sc_starts_plan_statement(const sc_parser *parser, sc_loc loc);
/* Reports a missing opening brace before the first statement of a body. */
void sc_report_missing_brace(sc_parser *parser, sc_loc loc);

#endif
