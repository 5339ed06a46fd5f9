/* Expressions: names, constants (folded in f64), arithmetic. */
#include "frontend/elaborate/internal.h"

#include <math.h>

static const sc_bval nothing = {.kind = SC_BVAL_NONE};

/* ---- limits ---- */
bool sc_build_enter(sc_builder *b, sc_loc loc)
{
    if (b->stopped)
        return false;
    if (++b->steps > b->step_limit) {
        if (!b->may_stop)
            sc_build_error(b, SC_D_too_large, loc,
                           sc_build_text(b, "the program is too large: more than %u steps of elaboration", b->step_limit));
        b->failed = b->stopped = true;
        return false;
    }
    if (b->depth >= SC_MAX_EVAL_DEPTH) {
        sc_build_error(b, SC_D_too_deep, loc, sc_build_text(b, "%d", SC_MAX_EVAL_DEPTH));
        return false;
    }
    b->depth++;
    return true;
}

/* ---- constants ---- */
sc_bval sc_build_integer(int64_t value)
{
    return (sc_bval){.kind = SC_BVAL_NUMBER, .is_integer = true, .integer = value, .number = (double)value};
}

sc_bval sc_build_number(double value)
{
    return (sc_bval){.kind = SC_BVAL_NUMBER, .number = value};
}

static sc_bval negate_number(sc_bval a)
{
    a.number = -a.number;
    if (a.is_integer && __builtin_sub_overflow((int64_t)0, a.integer, &a.integer))
        a.is_integer = false;
    return a;
}

static bool fold_integers(sc_op_kind kind, int64_t a, int64_t b, int64_t *out)
{
    switch (kind) {
    case SC_OP_add:
        return !__builtin_add_overflow(a, b, out);
    case SC_OP_sub:
        return !__builtin_sub_overflow(a, b, out);
    case SC_OP_mul:
        return !__builtin_mul_overflow(a, b, out);
    case SC_OP_div: /* a quotient that leaves a remainder is a number: 1/2 is 0.5 */
        if (b == 0 || b == -1 || a % b != 0)
            return false;
        *out = a / b;
        return true;
    case SC_OP_mod:
        if (b == 0 || b == -1)
            return false;
        *out = a % b;
        *out += *out != 0 && (*out < 0) != (b < 0) ? b : 0;
        return true;
    case SC_OP_minimum:
        *out = a < b ? a : b;
        return true;
    case SC_OP_maximum:
        *out = a > b ? a : b;
        return true;
    default:
        return false;
    }
}

static double fold_doubles(sc_op_kind kind, double a, double b)
{
    switch (kind) {
    case SC_OP_add:
        return a + b;
    case SC_OP_sub:
        return a - b;
    case SC_OP_mul:
        return a * b;
    case SC_OP_div:
        return a / b;
    case SC_OP_mod:
        return a - b * floor(a / b);
    case SC_OP_minimum:
        return a < b ? a : b;
    default:
        return a > b ? a : b;
    }
}

static bool folds(sc_op_kind kind)
{
    return kind == SC_OP_add || kind == SC_OP_sub || kind == SC_OP_mul || kind == SC_OP_div || kind == SC_OP_mod || kind == SC_OP_minimum ||
           kind == SC_OP_maximum;
}

static sc_bval fold(sc_frame *f, sc_loc loc, sc_op_kind kind, const sc_bval *a, const sc_bval *b)
{
    int64_t integer;
    sc_bval result;
    bool unknown = a->unknown || b->unknown;
    if (a->is_integer && b->is_integer && fold_integers(kind, a->integer, b->integer, &integer))
        result = sc_build_integer(integer);
    else
        result = sc_build_number(fold_doubles(kind, a->number, b->number));
    result.unknown = unknown;
    if (!unknown && !isfinite(result.number)) {
        sc_build_error(f->b, SC_D_bad_operand, loc,
                       sc_build_text(f->b, "this constant expression has no finite value: it gives %g", result.number));
        return nothing;
    }
    return result;
}

/* ---- arithmetic ---- */
sc_bval sc_build_binary(sc_frame *f, sc_loc loc, sc_op_kind kind, sc_bval a, sc_bval b)
{
    if (a.kind == SC_BVAL_NONE || b.kind == SC_BVAL_NONE)
        return nothing;
    if (a.kind == SC_BVAL_NUMBER && b.kind == SC_BVAL_NUMBER && folds(kind))
        return fold(f, loc, kind, &a, &b);
    sc_bval both[2] = {a, b};
    sc_dtype dtype = sc_build_compute_dtype(f, loc, both, 2, kind == SC_OP_div);
    if (dtype == SC_DTYPE_COUNT)
        return nothing;
    sc_value operands[2] = {sc_build_as(f, loc, &a, dtype), SC_NONE};
    operands[1] = sc_build_as(f, loc, &b, dtype);
    return sc_bval_tensor(sc_emit(f, loc, kind, operands, 2, NULL, 0, 0));
}

static sc_bval build_negative(sc_frame *f, const sc_expr *expr)
{
    sc_bval value = sc_build_expr(f, expr->operand);
    if (value.kind == SC_BVAL_NUMBER)
        return negate_number(value);
    if (value.kind == SC_BVAL_NONE)
        return nothing;
    sc_dtype dtype = sc_build_compute_dtype(f, expr->loc, &value, 1, false);
    if (dtype == SC_DTYPE_bool) {
        sc_build_error(f->b, SC_D_dtype_mismatch, expr->loc, "the operand of -", "bool", "a number");
        return nothing;
    }
    sc_value operand = dtype == SC_DTYPE_COUNT ? SC_NONE : sc_build_as(f, expr->loc, &value, dtype);
    return sc_bval_tensor(sc_emit(f, expr->loc, SC_OP_neg, &operand, 1, NULL, 0, 0));
}

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
    for (uint32_t i = 0; f->instance->unit != NULL && i < f->instance->unit->members.count; i++) {
        if (f->instance->unit->members.data[i].kind == SC_MEMBER_PARAM)
            sc_suggest_add(context, &list, f->instance->unit->members.data[i].name.text);
    }
    for (uint32_t i = 0; i < f->b->program->dims.count; i++)
        sc_suggest_add(context, &list, f->b->program->dims.data[i].name.text);
    sc_build_error(f->b, SC_D_unknown_name, expr->loc, sc_name_text(f->b, expr->name), sc_suggest(context, expr->name, &list));
    sc_build_set_local(f, (sc_name){expr->name, expr->loc}, nothing); /* told once a function */
}

static sc_bval build_cache_name(sc_frame *f, const sc_expr *expr, const sc_member *member)
{
    if (f->b->cached) {
        sc_value value = sc_build_cache(f, expr->loc, member);
        return value == SC_NONE ? nothing : sc_bval_tensor(sc_emit_cast(f, expr->loc, value, f->act));
    }
    sc_build_error(f->b, SC_D_bad_operand, expr->loc,
                   sc_build_text(f->b, "cache '%s' has no value here: this entry has no live cache; write append[S -> T](%s, x)",
                                 sc_name_text(f->b, expr->name), sc_name_text(f->b, expr->name)));
    sc_build_note(f->b, member->name.loc, "the cache is declared here");
    return nothing;
}

static sc_bval build_member_name(sc_frame *f, const sc_expr *expr, const sc_member *member)
{
    if (member->kind == SC_MEMBER_PARAM)
        return sc_build_param(f, expr->loc, member);
    if (member->kind == SC_MEMBER_CACHE)
        return build_cache_name(f, expr, member);
    sc_build_error(
        f->b, SC_D_bad_operand, expr->loc,
        sc_build_text(f->b, "'%s' is not a value; call it: %s(..)", sc_name_text(f->b, expr->name), sc_name_text(f->b, expr->name)));
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
    const sc_member *member = f->instance->unit == NULL ? NULL : sc_unit_member(f->instance->unit, expr->name);
    if (member != NULL)
        return build_member_name(f, expr, member);
    sc_dim dim = sc_build_find_dim(f, (sc_name){expr->name, expr->loc});
    if (dim == SC_NONE) {
        f->b->failed = true;
        if (sc_program_dim(f->b->program, expr->name) == SC_NONE)
            report_unknown_name(f, expr);
        return nothing;
    }
    sc_bval size = sc_build_integer(sc_build_size(f->b, dim));
    size.unknown = size.integer == 0;
    return size;
}

/* ---- calls ---- */
static void report_unknown_call(sc_frame *f, const sc_expr *expr)
{
    sc_context *context = f->b->context;
    sc_text_list list = {0};
    for (uint32_t i = 0; f->instance->unit != NULL && i < f->instance->unit->members.count; i++) {
        const sc_member *member = &f->instance->unit->members.data[i];
        if (member->kind == SC_MEMBER_SUB || member->kind == SC_MEMBER_FN)
            sc_suggest_add(context, &list, member->name.text);
    }
    for (uint32_t i = 0; i < f->b->program->fns.count; i++)
        sc_suggest_add(context, &list, f->b->program->fns.data[i]->name.text);
    sc_lang_op_names(context, &list);
    sc_name callee = expr->call.callee;
    const sc_local *value = sc_build_find_local(f, callee.text);
    if (value != NULL && value->value.kind != SC_BVAL_NONE) {
        sc_build_error(f->b, SC_D_bad_call, callee.loc,
                       sc_build_text(f->b, "'%s' is a value here, which cannot be called", sc_name_text(f->b, callee.text)));
        sc_build_note(f->b, value->loc, "it gets its value here");
        return;
    }
    sc_build_error(f->b, SC_D_unknown_name, callee.loc, sc_name_text(f->b, callee.text), sc_suggest(context, callee.text, &list));
    const sc_unit *block = sc_program_block(f->b->program, callee.text);
    if (block != NULL)
        sc_build_note(f->b, block->name.loc, "'%s' is a block; make an instance of it with 'sub' and call that",
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
        sc_build_error(f->b, SC_D_bad_call, expr->loc,
                       sc_build_text(f->b, "'%s' gives %u values where one is wanted; name them first: a, b = %s(..);",
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
        result = build_negative(f, expr);
        break;
    case SC_EXPR_BINARY: {
        sc_bval left = sc_build_expr(f, expr->binary.left), right = sc_build_expr(f, expr->binary.right);
        result = sc_build_binary(f, expr->loc, operator_kind(expr->binary.op), left, right);
        break;
    }
    case SC_EXPR_CALL:
        result = build_single(f, expr);
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

sc_bval sc_build_static(sc_frame *f, const sc_expr *expr)
{
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
