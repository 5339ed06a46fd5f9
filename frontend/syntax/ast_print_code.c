/* The formatter: expressions, types, and statements of functions, blocks and models. */
#include "frontend/syntax/ast_print.h"

/* ---- expressions ---- */

static void put_exprs(sc_layout *l, const sc_expr_list *exprs)
{
    for (uint32_t i = 0; i < exprs->count; i++) {
        sc_put_comma(l, i);
        l->depth++;
        sc_print_expr(l, exprs->data[i]);
        l->depth--;
    }
}

static void put_arg(sc_layout *l, const sc_arg *arg)
{
    if (arg->name.text != 0) {
        sc_put_name(l, arg->name);
        sc_put_between(l, "=");
    }
    if (arg->values.count == 1) {
        sc_print_expr(l, arg->values.data[0]);
        return;
    }
    sc_put(l, "(");
    l->depth++;
    put_exprs(l, &arg->values);
    l->depth--;
    sc_put(l, ")");
}

void sc_print_args(sc_layout *l, const sc_arg_list *args)
{
    for (uint32_t i = 0; i < args->count; i++) {
        sc_put_comma(l, i);
        l->depth++;
        put_arg(l, &args->data[i]);
        l->depth--;
    }
}

void sc_print_arguments(sc_layout *l, const sc_arg_list *args)
{
    sc_put(l, "(");
    l->depth++;
    sc_print_args(l, args);
    l->depth--;
    sc_put(l, ")");
}

static void put_op_dim(sc_layout *l, const sc_op_dim *dim)
{
    sc_put_name(l, dim->from);
    if (dim->to.text == 0)
        return;
    sc_put_between(l, dim->arrow ? "->" : "=");
    sc_put_name(l, dim->to);
}

static void put_call(sc_layout *l, const sc_expr *expr)
{
    sc_put_name(l, expr->call.callee);
    if (expr->call.has_dims) {
        sc_put_open_dims(l);
        for (uint32_t i = 0; i < expr->call.dims.count; i++) {
            sc_put_comma(l, i);
            put_op_dim(l, &expr->call.dims.data[i]);
        }
        sc_put_close_dims(l);
    }
    sc_print_arguments(l, &expr->call.args);
}

static bool is_product(const sc_expr *expr)
{
    return expr->kind == SC_EXPR_BINARY && !expr->parenthesised &&
           (expr->binary.op == '*' || expr->binary.op == '/');
}

/* Prints an operand; a sum breaks at its signs rather than inside its terms. */
static void put_operand(sc_layout *l, const sc_expr *operand, bool of_sum)
{
    uint32_t deeper = of_sum && is_product(operand);
    l->depth += deeper;
    sc_print_expr(l, operand);
    l->depth -= deeper;
}

static void put_binary(sc_layout *l, const sc_expr *expr)
{
    const char sign[] = {expr->binary.op, 0};
    bool is_sum = expr->binary.op == '+' || expr->binary.op == '-';
    put_operand(l, expr->binary.left, is_sum);
    sc_put_clause(l, sign);
    put_operand(l, expr->binary.right, is_sum);
}

static void put_list(sc_layout *l, const sc_expr *expr)
{
    sc_layout_add(l, expr->loc.begin, "[");
    l->depth++;
    put_exprs(l, &expr->items);
    l->depth--;
    sc_put(l, "]");
}

static void put_bare_expr(sc_layout *l, const sc_expr *expr)
{
    switch (expr->kind) {
    case SC_EXPR_NAME:
        sc_layout_add(l, expr->loc.begin, sc_layout_text_of(l, expr->name));
        break;
    case SC_EXPR_INT:
    case SC_EXPR_FLOAT:
    case SC_EXPR_STRING:
        sc_layout_add(l, expr->loc.begin, sc_layout_text_of(l, expr->spelling));
        break;
    case SC_EXPR_NEG:
        sc_layout_add(l, expr->loc.begin, "-");
        sc_print_expr(l, expr->operand);
        break;
    case SC_EXPR_BINARY:
        put_binary(l, expr);
        break;
    case SC_EXPR_CALL:
        put_call(l, expr);
        break;
    case SC_EXPR_LIST:
        put_list(l, expr);
        break;
    }
}

void sc_print_expr(sc_layout *l, const sc_expr *expr)
{
    if (!expr->parenthesised) {
        put_bare_expr(l, expr);
        return;
    }
    sc_layout_add(l, expr->loc.begin, "(");
    l->depth++;
    put_bare_expr(l, expr);
    l->depth--;
    sc_put(l, ")");
}

/* ---- types ---- */

static void put_dimref(sc_layout *l, const sc_dimref *ref)
{
    if (ref->rest) {
        sc_layout_add(l, ref->loc.begin, "..");
        return;
    }
    sc_put_name(l, ref->dim);
    if (ref->axes.count == 0)
        return;
    sc_put(l, ref->axes_parenthesised ? "@(" : "@");
    sc_put_names(l, &ref->axes);
    if (ref->axes_parenthesised)
        sc_put(l, ")");
}

void sc_print_shape(sc_layout *l, const sc_shape *shape)
{
    sc_put_open_dims(l);
    for (uint32_t i = 0; i < shape->dims.count; i++) {
        sc_put_comma(l, i);
        put_dimref(l, &shape->dims.data[i]);
    }
    sc_put_close_dims(l);
}

static void put_type(sc_layout *l, const sc_type_ref *type)
{
    if (type->dtype.text != 0)
        sc_put_name(l, type->dtype);
    sc_print_shape(l, type->shape);
}

/* ---- functions, blocks, models ---- */

static void put_formal(sc_layout *l, const sc_formal *formal)
{
    sc_put_name(l, formal->name);
    switch (formal->kind) {
    case SC_FORMAL_TYPED:
        sc_put_word(l, ":");
        put_type(l, &formal->type);
        break;
    case SC_FORMAL_SHAPED:
        sc_print_shape(l, formal->type.shape);
        break;
    case SC_FORMAL_STATIC:
        sc_put_between(l, "=");
        sc_print_expr(l, formal->value);
        break;
    }
}

void sc_print_callable_head(sc_layout *l, const sc_callable *callable)
{
    sc_put_name(l, callable->name);
    if (callable->dim_params.count > 0) {
        sc_put_open_dims(l);
        sc_put_names(l, &callable->dim_params);
        sc_put_close_dims(l);
    }
    sc_put(l, "(");
    l->depth++;
    for (uint32_t i = 0; i < callable->formals.count; i++) {
        sc_put_comma(l, i);
        put_formal(l, &callable->formals.data[i]);
    }
    l->depth--;
    sc_put(l, ")");
    if (callable->at_name.text != 0) {
        sc_put_clause(l, "at");
        sc_put_name(l, callable->at_name);
        sc_print_shape(l, callable->at_shape);
        sc_put_clause(l, "along");
        sc_put_name(l, callable->along);
    }
    if (callable->results.count > 0)
        sc_put_clause(l, "->");
    l->depth++;
    for (uint32_t i = 0; i < callable->results.count; i++) {
        sc_put_comma(l, i);
        put_type(l, &callable->results.data[i]);
    }
    l->depth--;
}

static void put_pdecl(sc_layout *l, const sc_pdecl *decl)
{
    sc_put_name(l, decl->name);
    if (decl->dtype.text != 0) {
        sc_put_word(l, ":");
        sc_put_name(l, decl->dtype);
    }
    sc_print_shape(l, decl->shape);
    if (decl->init == NULL)
        return;
    sc_put_between(l, "=");
    l->depth++;
    sc_print_expr(l, decl->init);
    l->depth--;
}

static void put_sub(sc_layout *l, const sc_sub *sub)
{
    sc_put_name(l, sub->name);
    sc_put_word(l, ":");
    sc_put_name(l, sub->block);
    if (sub->has_dim_args) {
        sc_put_open_dims(l);
        for (uint32_t i = 0; i < sub->dim_args.count; i++) {
            const sc_dim_arg *arg = &sub->dim_args.data[i];
            sc_put_comma(l, i);
            if (arg->name.text != 0) {
                sc_put_name(l, arg->name);
                sc_put_between(l, "=");
            }
            sc_put_name(l, arg->value);
        }
        sc_put_close_dims(l);
    }
    if (sub->has_statics)
        sc_print_arguments(l, &sub->statics);
    if (sub->stack.text == 0)
        return;
    sc_put_between(l, "*");
    sc_put_name(l, sub->stack);
}

static void put_assignment(sc_layout *l, const sc_stmt *stmt)
{
    l->depth += 2; /* prefer breaks on the right-hand side */
    for (uint32_t i = 0; i < stmt->assign.targets.count; i++) {
        const sc_lhs *target = &stmt->assign.targets.data[i];
        sc_put_comma(l, i);
        sc_put_name(l, target->name);
        if (target->kind == SC_LHS_TYPED) {
            sc_put_word(l, ":");
        }
        if (target->kind != SC_LHS_NAME)
            put_type(l, &target->type);
    }
    l->depth -= 2;
    sc_put_between(l, "=");
    sc_print_expr(l, stmt->assign.value);
}

void sc_print_stmt_head(sc_layout *l, const sc_stmt *stmt)
{
    static const char *const words[] = {
        [SC_STMT_PARAM] = "param",   [SC_STMT_CACHE] = "cache", [SC_STMT_SUB] = "sub",
        [SC_STMT_FN] = "fn",         [SC_STMT_ENTRY] = "entry", [SC_STMT_REPEAT] = "repeat",
        [SC_STMT_RETURN] = "return", [SC_STMT_IF] = "if"};
    if (stmt->kind == SC_STMT_IF && stmt->when.is_else) {
        sc_put(l, "else");
        return;
    }
    if (stmt->kind != SC_STMT_ASSIGN)
        sc_put_word(l, words[stmt->kind]);
    switch (stmt->kind) {
    case SC_STMT_PARAM:
    case SC_STMT_CACHE:
        for (uint32_t i = 0; i < stmt->decls.count; i++) {
            sc_put_comma(l, i);
            put_pdecl(l, &stmt->decls.data[i]);
        }
        break;
    case SC_STMT_SUB:
        for (uint32_t i = 0; i < stmt->subs.count; i++) {
            sc_put_comma(l, i);
            put_sub(l, &stmt->subs.data[i]);
        }
        break;
    case SC_STMT_FN:
    case SC_STMT_ENTRY:
        sc_print_callable_head(l, stmt->callable);
        break;
    case SC_STMT_ASSIGN:
        put_assignment(l, stmt);
        break;
    case SC_STMT_REPEAT:
        sc_put_name(l, stmt->repeat.dim);
        break;
    case SC_STMT_IF:
        sc_put_name(l, stmt->when.name);
        break;
    case SC_STMT_RETURN:
        put_exprs(l, &stmt->results);
        break;
    }
}
