/* Parts of the formatter: each function adds a node to the statement being built. Internal to the
 * ast_print files. */
#ifndef SHARDC_FRONTEND_SYNTAX_AST_PRINT_H
#define SHARDC_FRONTEND_SYNTAX_AST_PRINT_H

#include "frontend/syntax/layout.h"

/* ast_print_code.c */
void sc_print_expr(sc_layout *l, const sc_expr *expr);
void sc_print_args(sc_layout *l, const sc_arg_list *args);
/* Prints the arguments in parentheses. */
void sc_print_arguments(sc_layout *l, const sc_arg_list *args);
void sc_print_shape(sc_layout *l, const sc_shape *shape);
/* Prints everything before the brace. */
void sc_print_callable_head(sc_layout *l, const sc_callable *callable);
/* Prints everything before the brace or the semicolon. */
void sc_print_stmt_head(sc_layout *l, const sc_stmt *stmt);

/* ast_print_plan.c: prints everything before the semicolon */
void sc_print_plan_stmt(sc_layout *l, const sc_plan_stmt *stmt);
void sc_print_wmap(sc_layout *l, const sc_wmap *map);
void sc_print_minimize(sc_layout *l, const sc_minimize *minimize);

#endif
