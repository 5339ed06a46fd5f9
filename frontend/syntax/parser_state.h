/* What the scanner (lexer.l), the token stream (parse.c), the grammar (parser.y) and their messages (parse_error.c) share. Internal to
 * the frontend. Everything is allocated in the context's arena, so that a parse can be abandoned at any point. */
#ifndef SHARDC_FRONTEND_SYNTAX_PARSER_STATE_H
#define SHARDC_FRONTEND_SYNTAX_PARSER_STATE_H

#include "frontend/syntax/ast.h"

enum {
    SC_MAX_DEPTH = 256,         /* of statements, expressions and parentheses in one another */
    SC_MAX_FILE_SIZE = 1 << 25, /* bytes; a tree takes up to 120 times as many */
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

/* `{ statements }`, with the depth of the deepest and the place of the brace that closes it. */
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

/* What a symbol of the grammar carries. Small, because the parser's stack has SC_STACK_DEPTH of them on the C stack. */
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
    sc_callable *at; /* only its at_name, at_shape and along */
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
    char kind; /* ( [ { */
    sc_loc loc;
} sc_bracket;

typedef struct sc_token {
    int kind; /* as the scanner returns it; 0 at the end of the file */
    sc_loc loc;
    sc_value value;
} sc_token;

/* A token that was handed out. */
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
    uint32_t scanned;    /* place of the scanner's next byte */
    uint32_t broken_end; /* of the newest string without a closing quote: what follows it is no news */
    bool stopped;        /* a message was given after which nothing can be read */

    /* the token stream */
    SC_VEC(sc_bracket) open;
    sc_bracket unclosed; /* the innermost ( or [ that the newest token, ; or }, left open */
    uint32_t brace_depth;
    bool plan_pending;  /* after `plan` or `weights`, until its brace */
    bool in_plan;       /* inside its braces, or right before them: the scanner knows more words */
    bool started;       /* the first token was seen */
    int version_tokens; /* of `lang 1 ;` that are still to be handed out in place of a missing one */
    bool opening;       /* a brace is to be handed out before `held` */
    uint32_t closing;   /* closing ones that still are */
    bool past_formals;  /* a parenthesis was closed in this statement */
    bool holds;
    sc_token held;
    sc_past_token last, before_last, statement; /* the newest two and the first of its statement, for messages */
} sc_parser;

/* ---- lexer.l ---- */
int sc_scan(sc_value *value, sc_loc *loc, void *scanner);
/* Makes a scanner over bytes that end in two zeros beyond `length`; both live as long as the arena. */
void *sc_scanner_make(sc_parser *parser, char *text, size_t length);

/* ---- parse.c ---- */
int sc_next_token(sc_value *value, sc_loc *loc, sc_parser *parser);
sc_int_token sc_read_integer(sc_parser *parser, const char *text, size_t length, sc_loc loc);
sc_float_token sc_read_float(sc_parser *parser, const char *text, size_t length, sc_loc loc);
sc_string_token sc_read_string(sc_parser *parser, const char *text, size_t length, sc_loc loc);
void sc_record_comment(sc_parser *parser, sc_loc loc);

/* ---- parse_build.c: nodes ---- */
sc_expr *sc_make_leaf(sc_parser *parser, sc_expr_kind kind, sc_loc loc);
sc_expr *sc_make_negation(sc_parser *parser, sc_expr *operand, sc_loc loc);
sc_expr *sc_make_binary(sc_parser *parser, char op, sc_expr *left, sc_expr *right, sc_loc loc);
/* The depth counts what the parser's stack must hold, so that parentheses count too. */
sc_expr *sc_make_parenthesised(sc_parser *parser, sc_expr *expr, sc_loc loc);
sc_expr *sc_make_call(sc_parser *parser, sc_name callee, sc_arg_list args, sc_loc loc);
sc_arg sc_make_arg(sc_parser *parser, sc_name name, sc_expr *value, sc_loc loc);
/* Also measures the statement's depth. */
sc_deep_stmt sc_make_stmt(sc_parser *parser, sc_stmt *node, uint32_t body_depth);
uint32_t sc_formals_depth(const sc_formal *formals, uint32_t count);

/* ---- parse_error.c ---- */
/* The text of the source from a position on. */
const char *sc_source_text(const sc_parser *parser, uint32_t position);
/* `found` and `expected` are the grammar's names of tokens. Reorders `expected`. */
void sc_report_syntax(sc_parser *parser, const char *found, sc_loc loc, const char **expected, int expected_count);
void sc_report_too_deep(sc_parser *parser, sc_loc loc);
/* What is written between these signs elsewhere; it is skipped. */
void sc_report_block_comment(sc_parser *parser, sc_loc loc);
void sc_report_bad_characters(sc_parser *parser, sc_loc loc);
/* A declaration inside braces: a closing one is probably missing. */
void sc_report_misplaced_declaration(sc_parser *parser, sc_loc loc);
/* Whether what stands there is the first word of a plan's statement. */
bool sc_starts_plan_statement(const sc_parser *parser, sc_loc loc);
/* The first statement of a body that has no opening brace. */
void sc_report_missing_brace(sc_parser *parser, sc_loc loc);

#endif
