/* Expressions: names, numbers, operators and calls. */
#include "frontend/elaborate/internal.h"

static const sc_bval nothing = {.kind = SC_BVAL_NONE};

static sc_op_kind operator_kind(char op)
{
    return op == '+' ? SC_OP_add : op == '-' ? SC_OP_sub : op == '*' ? SC_OP_mul : SC_OP_div;
}

/* ---- names ---- */
static void report_unknown_name(sc_frame *f, const sc_expr *expr)
{
    sc_context *context = f->b->context;
    sc_text_list list = {0};
    for (uint32_t i = 0; i < f->locals.count; i++)
        sc_suggest_add(context, &list, f->locals.data[i].name);
    for (uint32_t i = 0; i < f->instance->statics.count; i++)
        sc_suggest_add(context, &list, f->instance->statics.data[i].name);
    if (f->instance->unit != NULL) {
        for (uint32_t i = 0; i < f->instance->unit->members.count; i++) {
            if (f->instance->unit->members.data[i].kind == SC_MEMBER_PARAM)
                sc_suggest_add(context, &list, f->instance->unit->members.data[i].name.text);
        }
    }
    for (uint32_t i = 0; i < f->b->program->dims.count; i++)
        sc_suggest_add(context, &list, f->b->program->dims.data[i].name.text);
    sc_build_error(f->b, SC_D_unknown_name, expr->loc, sc_name_text(f->b, expr->name),
                   sc_suggest(context, expr->name, &list));
    /* reported once per function */
    sc_build_set_local(f, (sc_name){expr->name, expr->loc}, nothing);
}

static sc_bval build_cache_name(sc_frame *f, const sc_expr *expr, const sc_member *member)
{
    if (f->b->entry.cached) {
        sc_value value = sc_build_cache(f, expr->loc, member);
        return value == SC_NONE ? nothing
                                : sc_bval_tensor(sc_emit_cast(f, expr->loc, value, f->act));
    }
    sc_build_error(f->b, SC_D_bad_operand, expr->loc,
                   sc_build_text(f->b,
                                 "cache '%s' has no value here: this entry has no live cache; "
                                 "write append[S -> T](%s, x)",
                                 sc_name_text(f->b, expr->name), sc_name_text(f->b, expr->name)));
    sc_build_note(f->b, member->name.loc, "the cache is declared here");
    return nothing;
}

static sc_bval build_member_name(sc_frame *f, const sc_expr *expr, const sc_member *member)
{
    if (!sc_build_is_present(f, member, expr->loc))
        return nothing;
    if (member->kind == SC_MEMBER_PARAM)
        return sc_build_param(f, expr->loc, member);
    if (member->kind == SC_MEMBER_CACHE)
        return build_cache_name(f, expr, member);
    sc_build_error(f->b, SC_D_bad_operand, expr->loc,
                   sc_build_text(f->b, "'%s' is not a value; call it: %s(..)",
                                 sc_name_text(f->b, expr->name), sc_name_text(f->b, expr->name)));
    sc_build_note(f->b, member->name.loc, "it is declared here");
    return nothing;
}

static sc_bval build_name(sc_frame *f, const sc_expr *expr)
{
    const sc_local *local = sc_build_find_local(f, expr->name);
    if (local != NULL)
        return local->value;
    const sc_bval *word = sc_build_find_static(f, expr->name);
    if (word != NULL)
        return *word;
    const sc_member *member =
        f->instance->unit == NULL ? NULL : sc_unit_member(f->instance->unit, expr->name);
    if (member != NULL)
        return build_member_name(f, expr, member);
    sc_dim dim = sc_build_find_dim(f, (sc_name){expr->name, expr->loc});
    if (dim == SC_NONE) {
        f->b->failed = true;
        if (sc_declarations_dim(f->b->program, expr->name) == SC_NONE)
            report_unknown_name(f, expr);
        return nothing;
    }
    sc_bval size = sc_build_integer(sc_build_size(f->b, dim));
    size.unknown = size.integer == 0;
    return size;
}

/* ---- calls ---- */
static void suggest_callees(sc_context *context, const sc_unit *unit, sc_text_list *list)
{
    for (uint32_t i = 0; i < unit->members.count; i++) {
        const sc_member *member = &unit->members.data[i];
        if (member->kind == SC_MEMBER_SUB || member->kind == SC_MEMBER_FN)
            sc_suggest_add(context, list, member->name.text);
    }
}

static void report_unknown_call(sc_frame *f, const sc_expr *expr)
{
    sc_context *context = f->b->context;
    sc_text_list list = {0};
    if (f->instance->unit != NULL)
        suggest_callees(context, f->instance->unit, &list);
    for (uint32_t i = 0; i < f->b->program->fns.count; i++)
        sc_suggest_add(context, &list, f->b->program->fns.data[i]->name.text);
    sc_lang_op_names(context, &list);
    sc_name callee = expr->call.callee;
    const sc_local *value = sc_build_find_local(f, callee.text);
    if (value != NULL && value->value.kind != SC_BVAL_NONE) {
        sc_build_error(f->b, SC_D_bad_call, callee.loc,
                       sc_build_text(f->b, "'%s' is a value here, which cannot be called",
                                     sc_name_text(f->b, callee.text)));
        sc_build_note(f->b, value->loc, "it is assigned here");
        return;
    }
    sc_build_error(f->b, SC_D_unknown_name, callee.loc, sc_name_text(f->b, callee.text),
                   sc_suggest(context, callee.text, &list));
    const sc_unit *block = sc_declarations_block(f->b->program, callee.text);
    if (block != NULL)
        sc_build_note(f->b, block->name.loc,
                      "'%s' is a block; declare an instance with 'sub' and call that",
                      sc_name_text(f->b, callee.text));
}

static sc_bval_list one(sc_frame *f, sc_bval value)
{
    sc_bval_list list = {sc_arena_alloc(&f->b->context->arena, sizeof value), 1};
    list.data[0] = value;
    return list;
}

static sc_bval_list build_call(sc_frame *f, const sc_expr *expr)
{
    sc_bval_list results;
    if (sc_build_call(f, expr, &results))
        return results;
    if (sc_lang_op_exists(sc_name_text(f->b, expr->call.callee.text)))
        return sc_build_op(f, expr);
    report_unknown_call(f, expr);
    return one(f, nothing);
}

sc_bval_list sc_build_exprs(sc_frame *f, const sc_expr *expr)
{
    if (expr->kind != SC_EXPR_CALL)
        return one(f, sc_build_expr(f, expr));
    if (!sc_build_enter(f->b, expr->loc))
        return one(f, nothing);
    sc_bval_list results = build_call(f, expr);
    sc_build_leave(f->b);
    return results;
}

static sc_bval build_single(sc_frame *f, const sc_expr *expr)
{
    sc_bval_list results = build_call(f, expr);
    if (results.count == 1)
        return results.data[0];
    if (results.count == 0 || results.data[0].kind != SC_BVAL_NONE)
        sc_build_error(
            f->b, SC_D_bad_call, expr->loc,
            sc_build_text(
                f->b,
                "'%s' returns %u values where one is expected; name them first: a, b = %s(..);",
                sc_name_text(f->b, expr->call.callee.text), results.count,
                sc_name_text(f->b, expr->call.callee.text)));
    return nothing;
}

sc_bval sc_build_expr(sc_frame *f, const sc_expr *expr)
{
    sc_bval result = nothing;
    if (!sc_build_enter(f->b, expr->loc))
        return nothing;
    switch (expr->kind) {
    case SC_EXPR_INT:
        result = sc_build_integer(expr->integer);
        break;
    case SC_EXPR_FLOAT:
        result = sc_build_number(expr->number);
        break;
    case SC_EXPR_NAME:
        result = build_name(f, expr);
        break;
    case SC_EXPR_STRING:
        sc_build_error(f->b, SC_D_bad_operand, expr->loc, "a string is not a value");
        break;
    case SC_EXPR_NEG:
        result = sc_build_negative(f, expr->loc, sc_build_expr(f, expr->operand));
        break;
    case SC_EXPR_BINARY: {
        sc_bval left = sc_build_expr(f, expr->binary.left),
                right = sc_build_expr(f, expr->binary.right);
        result = sc_build_binary(f, expr->loc, operator_kind(expr->binary.op), left, right);
        break;
    }
    case SC_EXPR_CALL:
        result = build_single(f, expr);
        break;
    case SC_EXPR_LIST:
        sc_build_error(f->b, SC_D_bad_operand, expr->loc,
                       "a list is not a value: it gives the instances of a stack their static "
                       "arguments, or a word its numbers");
        break;
    }
    sc_build_leave(f->b);
    return result;
}

bool sc_build_constant(sc_frame *f, const sc_expr *expr, const char *what, sc_bval *out)
{
    *out = sc_build_expr(f, expr);
    if (out->kind == SC_BVAL_NUMBER)
        return true;
    if (out->kind != SC_BVAL_NONE)
        sc_build_error(f->b, SC_D_not_a_constant, expr->loc, what);
    return false;
}

/* Appends the numbers of one argument of a word: one, or those of a list. */
static bool word_argument(sc_frame *f, const sc_expr *call, const sc_arg *arg, uint32_t *lists,
                          sc_word_number_list *out)
{
    const sc_expr *expr = arg->values.data[0];
    const bool is_list = expr->kind == SC_EXPR_LIST;
    if (arg->values.count != 1 || (is_list && arg->name.text != 0)) {
        sc_build_error(f->b, SC_D_bad_argument, arg->loc,
                       sc_build_text(f->b, "%s takes plain numbers",
                                     sc_name_text(f->b, call->call.callee.text)));
        return false;
    }
    *lists += is_list;
    for (uint32_t i = 0; i < (is_list ? expr->items.count : 1); i++) {
        sc_bval number;
        if (!sc_build_constant(f, is_list ? expr->items.data[i] : expr, "this argument", &number))
            return false;
        *sc_vec_push(&f->b->context->arena, out) =
            (sc_word_number){.name = arg->name,
                             .list = is_list ? *lists : 0,
                             .number = number.unknown ? 1.0 : number.number,
                             .is_integer = number.is_integer,
                             .unknown = number.unknown};
    }
    return true;
}

sc_bval sc_build_word(sc_frame *f, const sc_expr *expr)
{
    sc_bval word = {.kind = SC_BVAL_WORD};
    if (expr->kind == SC_EXPR_NAME) {
        const sc_bval *known = sc_build_find_static(f, expr->name);
        word.word = expr->name;
        return known != NULL && known->kind == SC_BVAL_WORD ? *known : word;
    }
    if (expr->kind != SC_EXPR_CALL || expr->call.has_dims)
        return word;
    sc_word_number_list numbers = {0};
    uint32_t lists = 0;
    for (uint32_t i = 0; i < expr->call.args.count; i++) {
        if (!word_argument(f, expr, &expr->call.args.data[i], &lists, &numbers))
            return nothing;
    }
    word.word = expr->call.callee.text;
    word.numbers = numbers.data;
    word.count = numbers.count;
    return word;
}

/* True for a call that is no constant, such as `window(4096)`: nothing of that name can be called.
 */
static bool is_word_call(sc_frame *f, const sc_expr *expr)
{
    const sc_unit *unit = f->instance->unit;
    sc_sym name = expr->call.callee.text;
    return expr->kind == SC_EXPR_CALL && !expr->call.has_dims &&
           !sc_lang_op_exists(sc_name_text(f->b, name)) &&
           (unit == NULL || sc_unit_member(unit, name) == NULL) &&
           sc_declarations_fn(f->b->program, name) == NULL;
}

static sc_bval build_static_list(sc_frame *f, const sc_expr *expr)
{
    uint32_t count = expr->items.count;
    sc_bval *items = sc_arena_array(&f->b->context->arena, count, sizeof *items);
    for (uint32_t i = 0; i < count; i++) {
        items[i] = sc_build_static(f, expr->items.data[i]);
        if (items[i].kind == SC_BVAL_LIST)
            sc_build_error(f->b, SC_D_bad_argument, expr->items.data[i]->loc,
                           "an instance takes a number or a word, not a list");
        if (items[i].kind == SC_BVAL_NONE || items[i].kind == SC_BVAL_LIST)
            return nothing;
    }
    return (sc_bval){.kind = SC_BVAL_LIST, .count = count, .items = items};
}

sc_bval sc_build_static(sc_frame *f, const sc_expr *expr)
{
    if (expr->kind == SC_EXPR_LIST)
        return build_static_list(f, expr);
    if (is_word_call(f, expr))
        return sc_build_word(f, expr);
    if (expr->kind == SC_EXPR_NAME) {
        const sc_bval *known = sc_build_find_static(f, expr->name);
        if (known != NULL)
            return *known;
        if (sc_build_find_dim(f, (sc_name){expr->name, expr->loc}) == SC_NONE)
            return (sc_bval){.kind = SC_BVAL_WORD, .word = expr->name};
    }
    sc_bval value = nothing;
    sc_build_constant(f, expr, "a static argument (a number or a word)", &value);
    return value;
}
