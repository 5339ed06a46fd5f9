/* Constructors of expressions and statements. Each node records its depth. The parser rejects nodes
 * deeper than SC_MAX_DEPTH and stops, so later code can walk trees recursively. */
#include "frontend/syntax/parser_state.h"

static uint32_t deeper(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void set_depth(sc_parser *parser, sc_expr *expr, uint32_t depth)
{
    expr->depth = depth;
    if (depth > SC_MAX_DEPTH)
        sc_report_too_deep(parser, expr->loc);
}

sc_expr *sc_make_leaf(sc_parser *parser, sc_expr_kind kind, sc_loc loc)
{
    sc_expr *expr = sc_arena_alloc(&parser->context->arena, sizeof *expr);
    expr->kind = kind;
    expr->loc = loc;
    expr->depth = 1;
    return expr;
}

sc_expr *sc_make_negation(sc_parser *parser, sc_expr *operand, sc_loc loc)
{
    sc_expr *expr = sc_make_leaf(parser, SC_EXPR_NEG, loc);
    expr->operand = operand;
    set_depth(parser, expr, operand->depth + 1);
    return expr;
}

sc_expr *sc_make_binary(sc_parser *parser, char op, sc_expr *left, sc_expr *right, sc_loc loc)
{
    sc_expr *expr = sc_make_leaf(parser, SC_EXPR_BINARY, loc);
    expr->binary.op = op;
    expr->binary.left = left;
    expr->binary.right = right;
    set_depth(parser, expr, deeper(left->depth, right->depth) + 1);
    return expr;
}

sc_expr *sc_make_list(sc_parser *parser, sc_expr_list items, sc_loc loc)
{
    sc_expr *expr = sc_make_leaf(parser, SC_EXPR_LIST, loc);
    uint32_t depth = 0;
    for (uint32_t i = 0; i < items.count; i++)
        depth = deeper(depth, items.data[i]->depth);
    expr->items = items;
    set_depth(parser, expr, depth + 1);
    return expr;
}

sc_expr *sc_make_parenthesised(sc_parser *parser, sc_expr *expr, sc_loc loc)
{
    expr->parenthesised = true;
    expr->loc = loc;
    set_depth(parser, expr, expr->depth + 1);
    return expr;
}

static uint32_t args_depth(const sc_arg_list *args)
{
    uint32_t depth = 0;
    for (uint32_t i = 0; i < args->count; i++) {
        for (uint32_t v = 0; v < args->data[i].values.count; v++)
            depth = deeper(depth, args->data[i].values.data[v]->depth);
    }
    return depth;
}

sc_expr *sc_make_call(sc_parser *parser, sc_name callee, sc_arg_list args, sc_loc loc)
{
    sc_expr *expr = sc_make_leaf(parser, SC_EXPR_CALL, loc);
    expr->call.callee = callee;
    expr->call.args = args;
    set_depth(parser, expr, args_depth(&args) + 1);
    return expr;
}

sc_arg sc_make_arg(sc_parser *parser, sc_name name, sc_expr *value, sc_loc loc)
{
    sc_arg arg = {.name = name, .loc = loc};
    /* Nearly every argument has one value: allocate room for one, where a push would allocate for
     * eight. */
    arg.values.data = sc_arena_alloc(&parser->context->arena, sizeof *arg.values.data);
    arg.values.data[0] = value;
    arg.values.count = arg.values.capacity = 1;
    return arg;
}

static uint32_t depth_of_parts(const sc_stmt *stmt)
{
    uint32_t depth = 0;
    switch (stmt->kind) {
    case SC_STMT_PARAM:
    case SC_STMT_CACHE:
        for (uint32_t i = 0; i < stmt->decls.count; i++)
            depth = deeper(depth,
                           stmt->decls.data[i].init != NULL ? stmt->decls.data[i].init->depth : 0);
        break;
    case SC_STMT_SUB:
        for (uint32_t i = 0; i < stmt->subs.count; i++)
            depth = deeper(depth, args_depth(&stmt->subs.data[i].statics));
        break;
    case SC_STMT_ASSIGN:
        depth = stmt->assign.value->depth;
        break;
    case SC_STMT_RETURN:
        for (uint32_t i = 0; i < stmt->results.count; i++)
            depth = deeper(depth, stmt->results.data[i]->depth);
        break;
    case SC_STMT_FN:
    case SC_STMT_ENTRY:
    case SC_STMT_REPEAT:
    case SC_STMT_IF:
        break;
    }
    return depth;
}

sc_deep_stmt sc_make_stmt(sc_parser *parser, sc_stmt *node, uint32_t body_depth)
{
    sc_deep_stmt stmt = {node, 1 + deeper(body_depth, depth_of_parts(node))};
    /* The statement itself is one level: an expression of the full depth is allowed at the top of a
     * body. */
    if (stmt.depth > SC_MAX_DEPTH + 1)
        sc_report_too_deep(parser, node->loc);
    return stmt;
}

uint32_t sc_formals_depth(const sc_formal *formals, uint32_t count)
{
    uint32_t depth = 0;
    for (uint32_t i = 0; i < count; i++)
        depth = deeper(depth, formals[i].value != NULL ? formals[i].value->depth : 0);
    return depth;
}
