/* The grammar of the shardc language, version 1 (design: grammar.y), with actions that build ast.h.
 * Besides the language's own rules there are only error rules, which resume parsing after a mistake:
 * at the next ';', at the end of the enclosing braces, or inside the braces that follow.
 *
 * Canonical LR keeps states apart that LALR would merge, so that a message lists exactly the tokens
 * allowed at that point. All memory is in the arena or in this function's frame (the stack has a
 * fixed size), so an out-of-memory jump may leave it. */
%require "3.8"
%define api.pure full
%define api.prefix {sc_yy}
%define api.token.prefix {SC_T_}
%define api.value.type {sc_value}
%define api.location.type {sc_loc}
%define lr.type canonical-lr
%define lr.default-reduction consistent
%define parse.error custom
%locations
%param {sc_parser *parser}

%code requires {
#include "frontend/syntax/parser_state.h"
}

%code {
#include <string.h>

/* 256 nested nodes need at most 12 entries each (nested `f[D](a, (b, c,`), so the limit on tree
 * depth is reached before that of the stack. */
#define YYINITDEPTH 4096
#define YYMAXDEPTH  YYINITDEPTH

#define YYLLOC_DEFAULT(current, rhs, count)                                                                                                \
    ((current) = (count) > 0 ? sc_loc_join(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, count))                                                         \
                             : (sc_loc){YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).end})

#define ARENA               (&parser->context->arena)
#define NEW(type)           ((type *)sc_arena_alloc(ARENA, sizeof(type)))
/* Most lists have one or two elements: the first push allocates two, where sc_vec_push would
 * allocate eight. */
#define PUSH(list, element)                                                                                                                \
    do {                                                                                                                                   \
        if ((list).capacity == 0) {                                                                                                        \
            (list).data = sc_arena_array(ARENA, 2, sizeof *(list).data);                                                                   \
            (list).capacity = 2;                                                                                                           \
        }                                                                                                                                  \
        *sc_vec_push(ARENA, &(list)) = (element);                                                                                          \
    } while (0)
/* Copies between the several C types of lists with one element type. */
#define MOVE(to, from)      ((to).data = (from).data, (to).count = (from).count, (to).capacity = (from).capacity)
#define DEEPER(a, b)        ((a) > (b) ? (a) : (b))
#define STOP_IF_STOPPED()                                                                                                                 \
    do {                                                                                                                                   \
        if (parser->stopped)                                                                                                               \
            YYABORT;                                                                                                                       \
    } while (0)

static int sc_yylex(sc_value *value, sc_loc *loc, sc_parser *parser)
{
    return sc_next_token(value, loc, parser);
}

/* Called only if the stack is full; yyreport_syntax_error reports all other errors. */
static void sc_yyerror(sc_loc *loc, sc_parser *parser, const char *message)
{
    (void)message;
    sc_report_too_deep(parser, *loc);
}

static void read_version(sc_parser *parser, sc_int_token version, sc_loc loc);
static sc_callable *make_callable(sc_parser *parser, sc_name name, sc_callable *at, const sc_body *body, sc_loc loc);
static sc_stmt *make_stmt(sc_parser *parser, sc_stmt_kind kind, sc_loc loc);
static sc_deep_stmt make_if(sc_parser *parser, sc_name name, const sc_body *body, sc_loc loc);
static void name_else(const sc_stmt_list *before, sc_stmt *stmt);
static sc_item *make_item(sc_parser *parser, sc_item_kind kind, sc_loc loc);
static sc_plan_stmt *make_plan_stmt(sc_parser *parser, sc_plan_stmt_kind kind, sc_loc loc);
static void set_bound(sc_plan_stmt *stmt, sc_expect_relation relation, sc_quantity bound);
static sc_name kind_name(sc_parser *parser, sc_tensor_kind kind, sc_loc loc);
static void add_kind(sc_parser *parser, sc_kind_list *kinds, sc_tensor_kind kind);
}

%token LANG "lang" IMPORT "import" DIM "dim" ALIAS "alias" FN "fn" BLOCK "block" MODEL "model" SUB "sub" PARAM "param" CACHE "cache" REPEAT "repeat"
%token RETURN "return" ENTRY "entry" AT "at" ALONG "along" MINIMIZE "minimize" WITH "with" IN "in" OVER "over" PLAN "plan" WEIGHTS "weights" FOR "for"
%token STATE "state" EXTERN "extern" SCAN "scan" IF "if" ELSE "else" METRIC "metric"
%token <name> MESH "mesh" BIND "bind" SHARD "shard" FREE "free" ACT "act" GRAD "grad" OPT "opt" INPUT "input" OUTPUT "output" PIN "pin" STYLE "style" STAGE "stage"
%token <name> REMAT "remat" SAVE "save" OFFLOAD "offload" RESHARD "reshard" AFTER "after" PRECISION "precision" ACCUMULATE "accumulate" PAD "pad" TO "to"
%token <name> MULTIPLE "multiple" TUNE "tune" EXPECT "expect" AS "as" OF "of" INTRA "intra" INTER "inter" FORM "form" ZIGZAG "zigzag"
%token <name> IGNORE "ignore"
%token <name> IDENT "identifier" <integer> INT "integer" <number> FLOAT "number" <string> STRING "string"
%token ARROW "->" DOTDOT ".." LE "<=" EQ "==" BADCHAR "invalid character"
%left '+' '-'
%left '*' '/'
%precedence NEG

%type <item> item
%type <dim_def> dimdef
%type <dim_defs> dimdefs
%type <names> idlist idlist2 dimparams only
%type <callable> callable
%type <at> at
%type <type> type
%type <types> types ret
%type <formal> formal
%type <formals> formals formal_list
%type <shape> shape dims
%type <dimref> dimref
%type <body> body stmts
%type <stmt> stmt
%type <exprs> exprs
%type <lhs> lhs
%type <lhss> lhss
%type <pdecl> pdecl
%type <pdecls> pdecls
%type <expr> init expr call
%type <sub> subd
%type <subs> subs
%type <dim_args> dimargs dimarg_list
%type <dim_arg> dimarg
%type <args> statics args arg_list opts
%type <arg> arg
%type <name> stack word
%type <model> model
%type <minimize> minimize
%type <optimizer> optimizer
%type <optimizers> optimizers
%type <op_dim> opdim
%type <op_dims> opdims
%type <plan> plan plan_body pstmts
%type <plan_stmt> pstmt split
%type <quantity> qty
%type <axis> axis
%type <axes> axes
%type <binds> binds
%type <precision> prec
%type <precisions> precs
%type <kinds> kinds kinds1
%type <kind> kind
%type <paths> trained where saves paths
%type <path> path
%type <flag> order weak
%type <seg> seg
%type <weights> weights weights_body wmaps
%type <wmap> wmap as
%type <wdims> wdims
%type <wdim> wdim

%initial-action { @$ = (sc_loc){parser->source->base, parser->source->base}; }

%start file
%%
file: version items ;
version: LANG INT ';' {
        parser->file->lang_loc = @$;
        read_version(parser, $2, @2);
        STOP_IF_STOPPED();
    }
    | LANG error ';' { yyerrok; }
    ;
items: %empty
    | items item {
        if ($2 != NULL)
            PUSH(parser->file->items, $2);
    }
    ;
item: IMPORT STRING ';' {
        $$ = make_item(parser, SC_ITEM_IMPORT, @$);
        $$->import.path = $2.text;
        $$->import.spelling = $2.spelling;
    }
    | DIM dimdefs ';' {
        $$ = make_item(parser, SC_ITEM_DIM, @$);
        MOVE($$->dims, $2);
    }
    | FN callable {
        $$ = NULL;
        if ($2.node != NULL) {
            $$ = make_item(parser, SC_ITEM_FN, @$);
            $$->callable = $2.node;
        }
    }
    | BLOCK callable {
        $$ = NULL;
        if ($2.node != NULL) {
            $$ = make_item(parser, SC_ITEM_BLOCK, @$);
            $$->callable = $2.node;
        }
    }
    | model {
        $$ = NULL;
        if ($1 != NULL) {
            $$ = make_item(parser, SC_ITEM_MODEL, @$);
            $$->model = $1;
        }
    }
    | minimize {
        $$ = make_item(parser, SC_ITEM_MINIMIZE, @$);
        $$->minimize = $1;
    }
    | plan {
        $$ = NULL;
        if ($1 != NULL) {
            $$ = make_item(parser, SC_ITEM_PLAN, @$);
            $$->plan = $1;
        }
    }
    | weights {
        $$ = NULL;
        if ($1 != NULL) {
            $$ = make_item(parser, SC_ITEM_WEIGHTS, @$);
            $$->weights = $1;
        }
    }
    | error ';'  { $$ = NULL; yyerrok; }
    | error '}'  { $$ = NULL; yyerrok; }
    | error body { $$ = NULL; yyerrok; }
    ;

dimdefs: dimdef         { memset(&$$, 0, sizeof $$); PUSH($$, *$1); }
    | dimdefs ',' dimdef { $$ = $1; PUSH($$, *$3); }
    ;
dimdef: IDENT           { $$ = NEW(sc_dim_def); $$->name = $1; }
    | IDENT '=' expr    { $$ = NEW(sc_dim_def); $$->name = $1; $$->size = $3; }
    | IDENT '=' ALIAS IDENT { $$ = NEW(sc_dim_def); $$->name = $1; $$->alias = $4; }
    | IDENT '=' '(' idlist2 ')' { $$ = NEW(sc_dim_def); $$->name = $1; $$->parts = $4; }
    ;
idlist2: IDENT ',' IDENT { $$ = (sc_name_list){0}; PUSH($$, $1); PUSH($$, $3); }
    | idlist2 ',' IDENT { $$ = $1; PUSH($$, $3); }
    ;
idlist: IDENT           { $$ = (sc_name_list){0}; PUSH($$, $1); }
    | idlist ',' IDENT  { $$ = $1; PUSH($$, $3); }
    ;

callable: IDENT dimparams '(' formals ')' at ret body {
        $$.node = make_callable(parser, $1, $6, &$8, @$);
        $$.node->dim_params = $2;
        MOVE($$.node->formals, $4);
        MOVE($$.node->results, $7);
        $$.depth = DEEPER($8.depth, sc_formals_depth($4.data, $4.count));
    }
    | error body        { $$ = (sc_deep_callable){0}; yyerrok; }
    | error ';'         { $$ = (sc_deep_callable){0}; yyerrok; }
    ;
dimparams: %empty       { $$ = (sc_name_list){0}; }
    | '[' idlist ']'    { $$ = $2; }
    ;
at: %empty              { $$ = NULL; }
    | AT IDENT shape ALONG IDENT {
        $$ = NEW(sc_callable);
        $$->at_name = $2;
        $$->at_shape = $3;
        $$->along = $5;
    }
    ;
ret: %empty             { memset(&$$, 0, sizeof $$); }
    | ARROW types       { $$ = $2; }
    ;
types: type             { memset(&$$, 0, sizeof $$); PUSH($$, $1); }
    | types ',' type    { $$ = $1; PUSH($$, $3); }
    ;
formals: %empty         { memset(&$$, 0, sizeof $$); }
    | formal_list
    ;
formal_list: formal     { memset(&$$, 0, sizeof $$); PUSH($$, *$1); }
    | formal_list ',' formal { $$ = $1; PUSH($$, *$3); }
    ;
formal: IDENT ':' type  { $$ = NEW(sc_formal); *$$ = (sc_formal){.kind = SC_FORMAL_TYPED, .name = $1, .type = $3, .loc = @$}; }
    | IDENT shape {
        $$ = NEW(sc_formal);
        *$$ = (sc_formal){.kind = SC_FORMAL_SHAPED, .name = $1, .type = {.shape = $2, .loc = @2}, .loc = @$};
    }
    | IDENT '=' expr    { $$ = NEW(sc_formal); *$$ = (sc_formal){.kind = SC_FORMAL_STATIC, .name = $1, .value = $3, .loc = @$}; }
    ;
type: shape             { $$ = (sc_type_ref){.shape = $1, .loc = @$}; }
    | IDENT shape       { $$ = (sc_type_ref){.dtype = $1, .shape = $2, .loc = @$}; }
    ;
shape: '[' ']'          { $$ = NEW(sc_shape); $$->loc = @$; }
    | '[' dims ']'      { $$ = $2; $$->loc = @$; }
    ;
dims: dimref            { $$ = NEW(sc_shape); PUSH($$->dims, $1); }
    | dims ',' dimref   { $$ = $1; PUSH($$->dims, $3); }
    ;
dimref: DOTDOT          { $$ = (sc_dimref){.rest = true, .loc = @$}; }
    | IDENT             { $$ = (sc_dimref){.dim = $1, .loc = @$}; }
    | IDENT '@' IDENT   { $$ = (sc_dimref){.dim = $1, .loc = @$}; PUSH($$.axes, $3); }
    | IDENT '@' '(' idlist ')' { $$ = (sc_dimref){.dim = $1, .axes = $4, .axes_parenthesised = true, .loc = @$}; }
    ;

/* A body ends at its brace even if the last statement lacks its ';'. */
body: '{' stmts '}'     { $$ = $2; $$.end = @3; }
    | '{' stmts error '}' { $$ = $2; $$.end = @4; yyerrok; }
    ;
stmts: %empty           { $$ = (sc_body){0}; }
    | stmts stmt {
        $$ = $1;
        if ($2.node != NULL) {
            name_else(&$$.list, $2.node);
            PUSH($$.list, $2.node);
            $$.depth = DEEPER($$.depth, $2.depth);
        }
    }
    ;
stmt: PARAM pdecls ';'  { sc_stmt *s = make_stmt(parser, SC_STMT_PARAM, @$); MOVE(s->decls, $2); $$ = sc_make_stmt(parser, s, 0); }
    | CACHE pdecls ';'  { sc_stmt *s = make_stmt(parser, SC_STMT_CACHE, @$); MOVE(s->decls, $2); $$ = sc_make_stmt(parser, s, 0); }
    | SUB subs ';'      { sc_stmt *s = make_stmt(parser, SC_STMT_SUB, @$); MOVE(s->subs, $2); $$ = sc_make_stmt(parser, s, 0); }
    | FN callable {
        $$ = (sc_deep_stmt){0};
        if ($2.node != NULL) {
            sc_stmt *s = make_stmt(parser, SC_STMT_FN, @$);
            s->callable = $2.node;
            $$ = sc_make_stmt(parser, s, $2.depth);
        }
        STOP_IF_STOPPED();
    }
    | ENTRY callable {
        $$ = (sc_deep_stmt){0};
        if ($2.node != NULL) {
            sc_stmt *s = make_stmt(parser, SC_STMT_ENTRY, @$);
            s->callable = $2.node;
            $$ = sc_make_stmt(parser, s, $2.depth);
        }
        STOP_IF_STOPPED();
    }
    | lhss '=' expr ';' {
        sc_stmt *s = make_stmt(parser, SC_STMT_ASSIGN, @$);
        MOVE(s->assign.targets, $1);
        s->assign.value = $3;
        $$ = sc_make_stmt(parser, s, 0);
    }
    | REPEAT IDENT body {
        sc_stmt *s = make_stmt(parser, SC_STMT_REPEAT, @$);
        s->repeat.dim = $2;
        s->repeat.body = $3.list;
        s->repeat.end = $3.end;
        $$ = sc_make_stmt(parser, s, $3.depth);
        STOP_IF_STOPPED();
    }
    | IF IDENT body     { $$ = make_if(parser, $2, &$3, @$); STOP_IF_STOPPED(); }
    | ELSE body         { $$ = make_if(parser, (sc_name){0, @1}, &$2, @$); $$.node->when.is_else = true; STOP_IF_STOPPED(); }
    | IF error body     { $$ = (sc_deep_stmt){0}; yyerrok; }
    | IF error ';'      { $$ = (sc_deep_stmt){0}; yyerrok; }
    | REPEAT error body { $$ = (sc_deep_stmt){0}; yyerrok; }
    | REPEAT error ';'  { $$ = (sc_deep_stmt){0}; yyerrok; }
    | RETURN exprs ';'  { sc_stmt *s = make_stmt(parser, SC_STMT_RETURN, @$); s->results = $2; $$ = sc_make_stmt(parser, s, 0); }
    | error ';'         { $$ = (sc_deep_stmt){0}; yyerrok; }
    | error body        { $$ = (sc_deep_stmt){0}; yyerrok; }
    ;
exprs: expr             { $$ = (sc_expr_list){0}; PUSH($$, $1); }
    | exprs ',' expr    { $$ = $1; PUSH($$, $3); }
    ;
lhss: lhs               { memset(&$$, 0, sizeof $$); PUSH($$, $1); }
    | lhss ',' lhs      { $$ = $1; PUSH($$, $3); }
    ;
lhs: IDENT              { $$ = (sc_lhs){.kind = SC_LHS_NAME, .name = $1}; }
    | IDENT shape       { $$ = (sc_lhs){.kind = SC_LHS_SHAPED, .name = $1, .type = {.shape = $2, .loc = @2}}; }
    | IDENT ':' type    { $$ = (sc_lhs){.kind = SC_LHS_TYPED, .name = $1, .type = $3}; }
    ;
pdecls: pdecl           { memset(&$$, 0, sizeof $$); PUSH($$, $1); }
    | pdecls ',' pdecl  { $$ = $1; PUSH($$, $3); }
    ;
pdecl: IDENT shape init { $$ = (sc_pdecl){.name = $1, .shape = $2, .init = $3, .loc = @$}; }
    | IDENT ':' IDENT shape init { $$ = (sc_pdecl){.name = $1, .dtype = $3, .shape = $4, .init = $5, .loc = @$}; }
    ;
init: %empty            { $$ = NULL; }
    | '=' expr          { $$ = $2; }
    ;
subs: subd              { memset(&$$, 0, sizeof $$); PUSH($$, *$1); }
    | subs ',' subd     { $$ = $1; PUSH($$, *$3); }
    ;
subd: IDENT ':' IDENT dimargs statics stack {
        $$ = NEW(sc_sub);
        *$$ = (sc_sub){.name = $1, .block = $3, .statics = $5, .stack = $6, .loc = @$};
        $$->has_dim_args = @4.end > @4.begin;
        $$->has_statics = @5.end > @5.begin;
        MOVE($$->dim_args, $4);
    }
    ;
dimargs: %empty         { memset(&$$, 0, sizeof $$); }
    | '[' dimarg_list ']' { $$ = $2; }
    ;
dimarg_list: dimarg     { memset(&$$, 0, sizeof $$); PUSH($$, $1); }
    | dimarg_list ',' dimarg { $$ = $1; PUSH($$, $3); }
    ;
dimarg: IDENT           { $$ = (sc_dim_arg){.value = $1}; }
    | IDENT '=' IDENT   { $$ = (sc_dim_arg){.name = $1, .value = $3}; }
    ;
statics: %empty         { $$ = (sc_arg_list){0}; }
    | '(' args ')'      { $$ = $2; }
    ;
stack: %empty           { $$ = (sc_name){0}; }
    | '*' IDENT         { $$ = $2; }
    ;

model: MODEL IDENT body { $$ = NEW(sc_model); *$$ = (sc_model){.name = $2, .has_body = true, .body = $3.list, .loc = @$, .end = $3.end}; }
    | MODEL IDENT '(' args ')' body {
        $$ = NEW(sc_model);
        *$$ = (sc_model){.name = $2, .has_statics = true, .has_body = true, .statics = $4, .body = $6.list, .loc = @$, .end = $6.end};
    }
    | MODEL IDENT '(' args ')' ';' { $$ = NEW(sc_model); *$$ = (sc_model){.name = $2, .has_statics = true, .statics = $4, .loc = @$}; }
    | MODEL error body  { $$ = NULL; yyerrok; }
    | MODEL error ';'   { $$ = NULL; yyerrok; }
    ;

minimize: MINIMIZE path trained optimizers ';' {
        $$ = NEW(sc_minimize);
        *$$ = (sc_minimize){.target = $2, .over = $3, .loc = @$};
        MOVE($$->optimizers, $4);
    }
    ;
trained: %empty         { $$ = (sc_path_list){0}; }
    | OVER paths        { $$ = $2; }
    ;
optimizers: optimizer   { memset(&$$, 0, sizeof $$); PUSH($$, *$1); }
    | optimizers optimizer { $$ = $1; PUSH($$, *$2); }
    ;
optimizer: WITH IDENT '(' args ')' where {
        $$ = NEW(sc_optimizer);
        *$$ = (sc_optimizer){.name = $2, .args = $4, .in = $6, .loc = @$};
    }
    ;

expr: expr '+' expr     { $$ = sc_make_binary(parser, '+', $1, $3, @$); STOP_IF_STOPPED(); }
    | expr '-' expr     { $$ = sc_make_binary(parser, '-', $1, $3, @$); STOP_IF_STOPPED(); }
    | expr '*' expr     { $$ = sc_make_binary(parser, '*', $1, $3, @$); STOP_IF_STOPPED(); }
    | expr '/' expr     { $$ = sc_make_binary(parser, '/', $1, $3, @$); STOP_IF_STOPPED(); }
    | '-' expr %prec NEG { $$ = sc_make_negation(parser, $2, @$); STOP_IF_STOPPED(); }
    | '(' expr ')'      { $$ = sc_make_parenthesised(parser, $2, @$); STOP_IF_STOPPED(); }
    | '[' exprs ']'     { $$ = sc_make_list(parser, $2, @$); STOP_IF_STOPPED(); }
    | IDENT             { $$ = sc_make_leaf(parser, SC_EXPR_NAME, @$); $$->name = $1.text; }
    | INT               { $$ = sc_make_leaf(parser, SC_EXPR_INT, @$); $$->integer = $1.value; $$->spelling = $1.spelling; }
    | FLOAT             { $$ = sc_make_leaf(parser, SC_EXPR_FLOAT, @$); $$->number = $1.value; $$->spelling = $1.spelling; }
    | STRING            { $$ = sc_make_leaf(parser, SC_EXPR_STRING, @$); $$->name = $1.text; $$->spelling = $1.spelling; }
    | call
    ;
call: IDENT '(' args ')' { $$ = sc_make_call(parser, $1, $3, @$); STOP_IF_STOPPED(); }
    | IDENT '[' opdims ']' '(' args ')' {
        $$ = sc_make_call(parser, $1, $6, @$);
        $$->call.has_dims = true;
        MOVE($$->call.dims, $3);
        STOP_IF_STOPPED();
    }
    ;
opdims: opdim           { memset(&$$, 0, sizeof $$); PUSH($$, $1); }
    | opdims ',' opdim  { $$ = $1; PUSH($$, $3); }
    ;
opdim: IDENT            { $$ = (sc_op_dim){.from = $1}; }
    | IDENT '=' IDENT   { $$ = (sc_op_dim){.from = $1, .to = $3}; }
    | IDENT ARROW IDENT { $$ = (sc_op_dim){.from = $1, .to = $3, .arrow = true}; }
    ;
args: %empty            { $$ = (sc_arg_list){0}; }
    | arg_list
    ;
arg_list: arg           { $$ = (sc_arg_list){0}; PUSH($$, $1); }
    | arg_list ',' arg  { $$ = $1; PUSH($$, $3); }
    ;
arg: expr               { $$ = sc_make_arg(parser, (sc_name){0}, $1, @$); }
    | '(' expr ',' exprs ')' {
        $$ = sc_make_arg(parser, (sc_name){0}, $2, @$);
        for (uint32_t i = 0; i < $4.count; i++)
            PUSH($$.values, $4.data[i]);
    }
    | word '=' expr     { $$ = sc_make_arg(parser, $1, $3, @$); }
    ;

plan: PLAN IDENT FOR IDENT plan_body { $$ = $5; $$->name = $2; $$->model = $4; $$->loc = @$; }
    | PLAN error plan_body { $$ = NULL; yyerrok; }
    | PLAN error ';'    { $$ = NULL; yyerrok; }
    ;
plan_body: '{' pstmts '}' { $$ = $2; $$->end = @3; }
    | '{' pstmts error '}' { $$ = $2; $$->end = @4; yyerrok; }
    ;
pstmts: %empty          { $$ = NEW(sc_plan); }
    | pstmts pstmt {
        $$ = $1;
        if ($2 != NULL)
            PUSH($$->body, $2);
    }
    ;
pstmt: MESH axes ';'    { $$ = make_plan_stmt(parser, SC_PLAN_MESH, @$); MOVE($$->axes, $2); }
    | BIND binds where ';' { $$ = make_plan_stmt(parser, SC_PLAN_BIND, @$); MOVE($$->binds, $2); $$->in = $3; }
    | SHARD kinds split OVER idlist order where weak ';' {
        $$ = $3;
        $$->loc = @$;
        $$->in = $7;
        $$->shard.kinds = $2;
        $$->shard.axes = $5;
        $$->shard.zigzag = $6;
        $$->shard.zigzag_loc = @6;
        $$->shard.if_free = $8;
    }
    | PIN path ':' shape only ';' {
        $$ = make_plan_stmt(parser, SC_PLAN_PIN, @$);
        $$->pin.path = $2;
        $$->pin.shape = $4;
        $$->pin.over = $5;
    }
    | STYLE paths ':' IDENT statics OVER IDENT ';' {
        $$ = make_plan_stmt(parser, SC_PLAN_STYLE, @$);
        $$->in = $2;
        $$->style.style = $4;
        $$->style.has_args = @5.end > @5.begin;
        $$->style.args = $5;
        $$->style.axis = $7;
    }
    | FORM paths ':' IDENT OVER idlist ';' {
        $$ = make_plan_stmt(parser, SC_PLAN_FORM, @$);
        $$->in = $2;
        $$->form.name = $4;
        $$->form.axes = $6;
    }
    | STAGE paths OVER IDENT opts ';' {
        $$ = make_plan_stmt(parser, SC_PLAN_STAGE, @$);
        $$->in = $2;
        $$->stage.axis = $4;
        $$->stage.options = $5;
    }
    | STAGE path '=' expr ';' {
        $$ = make_plan_stmt(parser, SC_PLAN_STAGE_AT, @$);
        PUSH($$->in, $2);
        $$->stage.value = $4;
    }
    | REMAT paths saves ';' { $$ = make_plan_stmt(parser, SC_PLAN_REMAT, @$); $$->in = $2; $$->remat.save = $3; }
    | OFFLOAD kinds1 where ';' { $$ = make_plan_stmt(parser, SC_PLAN_OFFLOAD, @$); $$->offload = $2; $$->in = $3; }
    | RESHARD AFTER IDENT where ';' { $$ = make_plan_stmt(parser, SC_PLAN_RESHARD, @$); $$->reshard = $3; $$->in = $4; }
    | PRECISION precs where ';' { $$ = make_plan_stmt(parser, SC_PLAN_PRECISION, @$); MOVE($$->precisions, $2); $$->in = $3; }
    | ACCUMULATE INT OVER IDENT ';' {
        $$ = make_plan_stmt(parser, SC_PLAN_ACCUMULATE, @$);
        $$->accumulate.count = $2.value;
        $$->accumulate.dim = $4;
    }
    | PAD IDENT TO MULTIPLE expr ';' { $$ = make_plan_stmt(parser, SC_PLAN_PAD, @$); $$->pad.dim = $2; $$->pad.multiple = $5; }
    | TUNE args ';'     { $$ = make_plan_stmt(parser, SC_PLAN_TUNE, @$); $$->tune = $2; }
    | EXPECT expr where ';' { $$ = make_plan_stmt(parser, SC_PLAN_EXPECT, @$); $$->expect.what = $2; $$->in = $3; }
    | EXPECT expr LE qty where ';' {
        $$ = make_plan_stmt(parser, SC_PLAN_EXPECT, @$);
        $$->expect.what = $2;
        set_bound($$, SC_EXPECT_LE, $4);
        $$->in = $5;
    }
    | EXPECT expr EQ qty where ';' {
        $$ = make_plan_stmt(parser, SC_PLAN_EXPECT, @$);
        $$->expect.what = $2;
        set_bound($$, SC_EXPECT_EQ, $4);
        $$->in = $5;
    }
    | error ';'         { $$ = NULL; yyerrok; }
    ;
split: idlist           { $$ = make_plan_stmt(parser, SC_PLAN_SHARD, @$); $$->shard.dims = $1; }
    | '*'               { $$ = make_plan_stmt(parser, SC_PLAN_SHARD, @$); $$->shard.star = true; }
    ;
only: %empty            { $$ = (sc_name_list){0}; }
    | OVER idlist       { $$ = $2; }
    ;
qty: INT                { $$ = (sc_quantity){.integer = $1.value, .spelling = $1.spelling}; }
    | FLOAT             { $$ = (sc_quantity){.is_float = true, .number = $1.value, .spelling = $1.spelling}; }
    | INT IDENT         { $$ = (sc_quantity){.integer = $1.value, .spelling = $1.spelling, .unit = $2}; }
    | FLOAT IDENT       { $$ = (sc_quantity){.is_float = true, .number = $1.value, .spelling = $1.spelling, .unit = $2}; }
    ;
axes: axis              { memset(&$$, 0, sizeof $$); PUSH($$, $1); }
    | axes ',' axis     { $$ = $1; PUSH($$, $3); }
    ;
axis: IDENT '=' expr    { $$ = (sc_axis_def){.name = $1, .size = $3, .link = SC_LINK_DEFAULT}; }
    | IDENT '=' expr INTRA { $$ = (sc_axis_def){.name = $1, .size = $3, .link = SC_LINK_INTRA}; }
    | IDENT '=' expr INTER { $$ = (sc_axis_def){.name = $1, .size = $3, .link = SC_LINK_INTER}; }
    ;
binds: IDENT '=' expr   { memset(&$$, 0, sizeof $$); PUSH($$, ((sc_bind){.dim = $1, .value = $3})); }
    | binds ',' IDENT '=' expr { $$ = $1; PUSH($$, ((sc_bind){.dim = $3, .value = $5})); }
    ;
precs: prec             { memset(&$$, 0, sizeof $$); PUSH($$, $1); }
    | precs ',' prec    { $$ = $1; PUSH($$, $3); }
    ;
prec: kind '=' IDENT    { $$ = (sc_precision){.what = kind_name(parser, $1, @1), .dtype = $3}; }
    | IDENT '=' IDENT   { $$ = (sc_precision){.what = $1, .dtype = $3}; }
    ;
kinds: %empty           { $$ = (sc_kind_list){0}; }
    | kinds1
    ;
kinds1: kind            { $$ = (sc_kind_list){0}; add_kind(parser, &$$, $1); }
    | kinds1 ',' kind   { $$ = $1; add_kind(parser, &$$, $3); }
    ;
kind: PARAM { $$ = SC_KIND_PARAM; } | ACT { $$ = SC_KIND_ACT; } | GRAD { $$ = SC_KIND_GRAD; } | OPT { $$ = SC_KIND_OPT; }
    | CACHE { $$ = SC_KIND_CACHE; } | INPUT { $$ = SC_KIND_INPUT; } | OUTPUT { $$ = SC_KIND_OUTPUT; } ;
where: %empty           { $$ = (sc_path_list){0}; }
    | IN paths          { $$ = $2; }
    ;
order: %empty           { $$ = false; }
    | ZIGZAG            { $$ = true; }
    ;
weak: %empty            { $$ = false; }
    | IF FREE           { $$ = true; }
    ;
opts: %empty            { $$ = (sc_arg_list){0}; }
    | ':' args          { $$ = $2; }
    ;
saves: %empty           { $$ = (sc_path_list){0}; }
    | SAVE paths        { $$ = $2; }
    ;
paths: path             { $$ = (sc_path_list){0}; PUSH($$, $1); }
    | paths ',' path    { $$ = $1; PUSH($$, $3); }
    ;
path: seg               { $$ = (sc_path){.loc = @$}; PUSH($$.segs, $1); }
    | path '.' seg      { $$ = $1; $$.loc = @$; PUSH($$.segs, $3); }
    ;
seg: word               { $$ = (sc_seg){.kind = SC_SEG_NAME, .name = $1}; }
    | '*'               { $$ = (sc_seg){.kind = SC_SEG_ANY, .name = {0, @1}}; }
    | word '[' INT DOTDOT INT ']' { $$ = (sc_seg){.kind = SC_SEG_RANGE, .name = $1, .first = $3.value, .last = $5.value}; }
    | word '[' INT ']'  { $$ = (sc_seg){.kind = SC_SEG_INDEX, .name = $1, .first = $3.value, .last = $3.value}; }
    ;
word: IDENT | MESH | BIND | SHARD | FREE | ACT | GRAD | OPT | INPUT | OUTPUT | PIN | STYLE | STAGE | REMAT | SAVE | OFFLOAD | RESHARD | AFTER
    | PRECISION | ACCUMULATE | PAD | TO | MULTIPLE | TUNE | EXPECT | AS | OF | INTRA | INTER | FORM | ZIGZAG | IGNORE ;

weights: WEIGHTS IDENT FOR IDENT weights_body { $$ = $5; $$->name = $2; $$->model = $4; $$->loc = @$; }
    | WEIGHTS error weights_body { $$ = NULL; yyerrok; }
    | WEIGHTS error ';' { $$ = NULL; yyerrok; }
    ;
weights_body: '{' wmaps '}' { $$ = $2; $$->end = @3; }
    | '{' wmaps error '}' { $$ = $2; $$->end = @4; yyerrok; }
    ;
wmaps: %empty           { $$ = NEW(sc_weights); }
    | wmaps wmap {
        $$ = $1;
        if ($2 != NULL)
            PUSH($$->maps, *$2);
    }
    ;
wmap: path '=' STRING as ';' {
        $$ = $4;
        $$->path = $1;
        $$->pattern = $3.text;
        $$->pattern_spelling = $3.spelling;
        $$->pattern_loc = @3;
        $$->loc = @$;
    }
    | IGNORE STRING ';' {
        $$ = NEW(sc_wmap);
        *$$ = (sc_wmap){.is_ignore = true, .pattern = $2.text, .pattern_spelling = $2.spelling, .pattern_loc = @2, .loc = @$};
    }
    | error ';'         { $$ = NULL; yyerrok; }
    ;
as: %empty              { $$ = NEW(sc_wmap); }
    | AS '[' wdims ']'  { $$ = NEW(sc_wmap); $$->has_as = true; MOVE($$->as, $3); }
    ;
wdims: wdim             { memset(&$$, 0, sizeof $$); PUSH($$, *$1); }
    | wdims ',' wdim    { $$ = $1; PUSH($$, *$3); }
    ;
wdim: IDENT             { $$ = NEW(sc_wdim); *$$ = (sc_wdim){.kind = SC_WDIM_NAME, .dim = $1, .loc = @$}; }
    | expr OF expr      { $$ = NEW(sc_wdim); *$$ = (sc_wdim){.kind = SC_WDIM_PART, .first = $1, .last = $1, .of = $3, .loc = @$}; }
    | expr DOTDOT expr OF expr {
        $$ = NEW(sc_wdim);
        *$$ = (sc_wdim){.kind = SC_WDIM_RANGE, .first = $1, .last = $3, .of = $5, .loc = @$};
    }
    ;
%%

static void read_version(sc_parser *parser, sc_int_token version, sc_loc loc)
{
    parser->file->lang = version.value;
    if (version.value == 1)
        return;
    sc_report(&parser->context->diag, SC_D_bad_version, loc, sc_text(parser->context, version.spelling), NULL);
    parser->stopped = true;
}

static sc_callable *make_callable(sc_parser *parser, sc_name name, sc_callable *at, const sc_body *body, sc_loc loc)
{
    sc_callable *callable = at != NULL ? at : NEW(sc_callable);
    callable->name = name;
    callable->body = body->list;
    callable->loc = loc;
    callable->end = body->end;
    return callable;
}

static sc_stmt *make_stmt(sc_parser *parser, sc_stmt_kind kind, sc_loc loc)
{
    sc_stmt *stmt = NEW(sc_stmt);
    stmt->kind = kind;
    stmt->loc = loc;
    return stmt;
}

static sc_deep_stmt make_if(sc_parser *parser, sc_name name, const sc_body *body, sc_loc loc)
{
    sc_stmt *stmt = make_stmt(parser, SC_STMT_IF, loc);
    stmt->when.name = name;
    stmt->when.body = body->list;
    stmt->when.end = body->end;
    return sc_make_stmt(parser, stmt, body->depth);
}

/* An `else` has the name of the `if` that it follows. */
static void name_else(const sc_stmt_list *before, sc_stmt *stmt)
{
    if (stmt->kind != SC_STMT_IF || !stmt->when.is_else || before->count == 0)
        return;
    const sc_stmt *last = before->data[before->count - 1];
    if (last->kind == SC_STMT_IF && !last->when.is_else)
        stmt->when.name = last->when.name;
}

static sc_item *make_item(sc_parser *parser, sc_item_kind kind, sc_loc loc)
{
    sc_item *item = NEW(sc_item);
    item->kind = kind;
    item->loc = loc;
    return item;
}

static sc_plan_stmt *make_plan_stmt(sc_parser *parser, sc_plan_stmt_kind kind, sc_loc loc)
{
    sc_plan_stmt *stmt = NEW(sc_plan_stmt);
    stmt->kind = kind;
    stmt->loc = loc;
    return stmt;
}

static void set_bound(sc_plan_stmt *stmt, sc_expect_relation relation, sc_quantity bound)
{
    stmt->expect.relation = relation;
    stmt->expect.is_float = bound.is_float;
    stmt->expect.integer = bound.integer;
    stmt->expect.number = bound.number;
    stmt->expect.spelling = bound.spelling;
    stmt->expect.unit = bound.unit;
}

static sc_name kind_name(sc_parser *parser, sc_tensor_kind kind, sc_loc loc)
{
    return (sc_name){sc_intern_text(&parser->context->names, sc_kind_names[kind]), loc};
}

static void add_kind(sc_parser *parser, sc_kind_list *kinds, sc_tensor_kind kind)
{
    kinds->mask |= 1u << kind;
    PUSH(kinds->order, kind);
}

static int yyreport_syntax_error(const yypcontext_t *place, sc_parser *parser)
{
    yysymbol_kind_t kinds[YYNTOKENS];
    const char *expected[YYNTOKENS];
    int count = yypcontext_expected_tokens(place, kinds, YYNTOKENS);
    for (int i = 0; i < count; i++)
        expected[i] = yysymbol_name(kinds[i]);
    sc_report_syntax(parser, yysymbol_name(yypcontext_token(place)), *yypcontext_location(place), expected, count);
    return 0;
}
