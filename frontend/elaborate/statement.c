/* Statements, and calls of subs and fns. A call runs the callee's body in a frame of its own; in
 * the IR only the paths of its values and the scope of its ops show it. */
#include "frontend/elaborate/internal.h"

/* Hides names first assigned inside a repeat after its end. */
static void forget_locals(sc_frame *f, uint32_t kept)
{
    for (uint32_t i = kept; i < f->locals.count; i++)
        *sc_map_find(&f->local_map, f->locals.data[i].name) = SC_NONE;
    f->locals.count = kept;
}

/* ---- assignments ---- */
/* True if the name can become the value's path: the expression is not just another name, the value
 * has no path yet, and its op (before rounding) is not one that is shared between uses. */
static bool is_own(const sc_builder *b, const sc_expr *expr, sc_value before, sc_value value)
{
    const sc_op *op = sc_op_at(b->m, sc_def(b->m, before));
    bool shared = sc_op_has(op, SC_CONVERTS | SC_STATE_READ | SC_APPENDS) ||
                  sc_ops[op->kind].bound == SC_BOUND_value;
    return expr->kind != SC_EXPR_NAME && !shared && b->m->values.data[value].path == 0;
}

static bool same_shape(const sc_type_info *a, const sc_type_info *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; i < a->rank && same; i++)
        same = a->dims[i].dim == b->dims[i].dim && a->dims[i].group == b->dims[i].group;
    return same && sc_dtypes[a->dtype].kind == sc_dtypes[b->dtype].kind;
}

/* Checks that a name carried by a repeat keeps its shape, so that all iterations are the same. */
static bool check_carried(sc_frame *f, const sc_lhs *lhs, sc_value value)
{
    sc_builder *b = f->b;
    const sc_local *old = sc_build_find_local(f, lhs->name.text);
    if (old == NULL || old->depth >= f->repeats.count || old->value.kind != SC_BVAL_TENSOR)
        return true;
    const sc_type_info *before = sc_build_type(b, old->value.value),
                       *after = sc_build_type(b, value);
    if (same_shape(before, after))
        return true;
    sc_build_error(
        b, SC_D_bad_statement, lhs->name.loc,
        sc_build_text(b, "'%s' is carried through the repeat as %s%s, but this changes it to %s%s",
                      sc_name_text(b, lhs->name.text), sc_dtypes[before->dtype].name,
                      sc_build_shape_text(b, before, false), sc_dtypes[after->dtype].name,
                      sc_build_shape_text(b, after, false)));
    sc_build_note(b, old->loc, "'%s' is first assigned here", sc_name_text(b, lhs->name.text));
    return false;
}

/* Returns the dtype the name was declared with, which persists: `tot: f32[B] = ..; repeat L { tot =
 * tot + ..; }` accumulates in f32. */
static sc_name declared_dtype(const sc_frame *f, const sc_lhs *lhs)
{
    const sc_local *old = sc_build_find_local(f, lhs->name.text);
    if (lhs->kind != SC_LHS_NAME && lhs->type.dtype.text != 0)
        return lhs->type.dtype;
    return old == NULL ? (sc_name){0} : old->dtype;
}

static void assign_tensor(sc_frame *f, const sc_lhs *lhs, const sc_expr *expr, sc_bval value)
{
    sc_builder *b = f->b;
    sc_sym path = sc_build_path(b, f->path, lhs->name.text);
    sc_name dtype = declared_dtype(f, lhs);
    sc_type_ref type = {.dtype = dtype,
                        .shape = lhs->kind == SC_LHS_NAME ? NULL : lhs->type.shape,
                        .loc = lhs->kind == SC_LHS_NAME ? dtype.loc : lhs->type.loc};
    const sc_type_ref *declared = lhs->kind == SC_LHS_NAME && dtype.text == 0 ? NULL : &type;
    const char *what = sc_build_text(b, "'%s'", sc_name_text(b, lhs->name.text));
    sc_value result = sc_build_round(f, what, &value, declared, f,
                                     sc_build_dtype_of(b, SC_KIND_ACT, path), expr->loc);
    sc_bval named = {.kind = SC_BVAL_NONE};
    if (result != SC_NONE && check_carried(f, lhs, result)) {
        if (value.kind == SC_BVAL_TENSOR && is_own(b, expr, value.value, result))
            b->m->values.data[result].path = path;
        else
            result = sc_emit_use(f, lhs->name.loc, result, path);
        named = sc_bval_tensor(result);
        named.fixed = value.fixed == SC_FIXED_BY_OP ? SC_FIXED_BY_OP : SC_ROUNDS;
        if (lhs->kind != SC_LHS_NAME)
            sc_build_pins(f, lhs->type.shape, path);
    }
    sc_build_set_local(f, lhs->name, named);
    f->locals.data[*sc_map_find(&f->local_map, lhs->name.text)].dtype = dtype;
}

static void assign(sc_frame *f, const sc_lhs *lhs, const sc_expr *expr, sc_bval value)
{
    /* a number remains a weak literal under its name, unless a type is declared */
    bool weak = value.kind == SC_BVAL_NUMBER && lhs->kind == SC_LHS_NAME &&
                declared_dtype(f, lhs).text == 0;
    if (value.kind == SC_BVAL_NONE || value.kind == SC_BVAL_WORD || weak)
        sc_build_set_local(f, lhs->name, value);
    else
        assign_tensor(f, lhs, expr, value);
}

static void build_assign(sc_frame *f, const sc_stmt *stmt)
{
    sc_builder *b = f->b;
    const sc_expr *expr = stmt->assign.value;
    sc_bval_list values = sc_build_exprs(f, expr);
    uint32_t wanted = stmt->assign.targets.count;
    bool poisoned = values.count > 0 && values.data[0].kind == SC_BVAL_NONE;
    if (values.count != wanted && !poisoned)
        sc_build_error(b, SC_D_wrong_count, stmt->loc, "this assignment",
                       sc_build_count(b, wanted, "value"), sc_build_given(b, values.count));
    for (uint32_t i = 0; i < wanted; i++) {
        bool usable = values.count == wanted;
        assign(f, &stmt->assign.targets.data[i], expr,
               usable ? values.data[i] : (sc_bval){.kind = SC_BVAL_NONE});
    }
}

/* ---- repeat and return ---- */
/* Without sizes a body runs once, or once for each value of a list, by which instances differ. */
static int64_t count_without_sizes(const sc_frame *f)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < f->instance->statics.count; i++) {
        const sc_bval *value = &f->instance->statics.data[i].value;
        if (value->kind == SC_BVAL_LIST && (int64_t)value->count > count)
            count = value->count;
    }
    return count;
}

static void build_repeat(sc_frame *f, const sc_stmt *stmt)
{
    sc_builder *b = f->b;
    sc_dim dim = sc_build_dim(f, stmt->repeat.dim);
    if (dim == SC_NONE)
        return;
    int64_t count = b->request.symbolic ? count_without_sizes(f) : sc_build_size(b, dim);
    if (count > SC_MAX_OPS) {
        sc_build_error(b, SC_D_too_large, stmt->repeat.dim.loc,
                       sc_build_text(b, "this repeat runs %lld times; the limit is %d",
                                     (long long)count, SC_MAX_OPS));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        if (b->limits.stopped)
            break;
        uint32_t kept = f->locals.count;
        *sc_vec_push(&b->context->arena, &f->repeats) = (sc_repeat){dim, i};
        sc_build_body(f, &stmt->repeat.body);
        f->repeats.count--;
        forget_locals(f, kept);
    }
}

/* The names that the body assigns are those of the statements around it: the `if` is gone once an
 * instance is elaborated. */
static void build_if(sc_frame *f, const sc_stmt *stmt)
{
    const sc_condition condition = {stmt->when.name, stmt->when.is_else, NULL};
    if (stmt->when.name.text == 0) /* reported where statements are checked */
        f->b->failed = true;
    else if (sc_build_condition(f, &condition))
        sc_build_body(f, &stmt->when.body);
}

static void build_return(sc_frame *f, const sc_stmt *stmt)
{
    sc_builder *b = f->b;
    if (f->returned || f->repeats.count > 0) {
        b->failed = true; /* reported where statements are checked */
        return;
    }
    uint32_t count = stmt->results.count;
    sc_bval_list list = {0};
    if (count == 1) {
        /* e.g. `return topk[..](..);`, which returns both results */
        list = sc_build_exprs(f, stmt->results.data[0]);
    } else {
        list = (sc_bval_list){sc_arena_array(&b->context->arena, count, sizeof *list.data), count};
        for (uint32_t i = 0; i < count; i++)
            list.data[i] = sc_build_expr(f, stmt->results.data[i]);
    }
    f->returned = true;
    f->results = list;
}

static void build_stmt(sc_frame *f, const sc_stmt *stmt)
{
    switch (stmt->kind) {
    case SC_STMT_ASSIGN:
        build_assign(f, stmt);
        break;
    case SC_STMT_REPEAT:
        build_repeat(f, stmt);
        break;
    case SC_STMT_IF:
        build_if(f, stmt);
        break;
    case SC_STMT_RETURN:
        build_return(f, stmt);
        break;
    default: /* declarations are already collected */
        break;
    }
}

void sc_build_body(sc_frame *f, const sc_stmt_list *body)
{
    for (uint32_t i = 0; i < body->count && sc_build_enter(f->b, body->data[i]->loc); i++) {
        build_stmt(f, body->data[i]);
        sc_build_leave(f->b);
    }
}

/* ---- running a body ---- */
static const sc_expr *result_expr(const sc_frame *f, uint32_t i)
{
    const sc_stmt_list *body = &f->callable->body;
    for (uint32_t s = 0; s < body->count; s++) {
        if (body->data[s]->kind == SC_STMT_RETURN)
            return body->data[s]->results.count == 1 ? body->data[s]->results.data[0]
                                                     : body->data[s]->results.data[i];
    }
    return NULL;
}

static sc_bval finish_result(sc_frame *f, uint32_t i)
{
    sc_builder *b = f->b;
    const sc_callable *callable = f->callable;
    const sc_bval *value = &f->results.data[i];
    const sc_expr *expr = result_expr(f, i);
    const char *name = f->results.count == 1 ? "out" : sc_build_text(b, "out%u", i);
    const char *what =
        f->results.count == 1
            ? sc_build_text(b, "the result of '%s'", sc_name_text(b, callable->name.text))
            : sc_build_text(b, "result %u of '%s'", i + 1, sc_name_text(b, callable->name.text));
    sc_sym path = sc_build_path(b, f->path, sc_intern_text(&b->context->names, name));
    const sc_type_ref *declared = i < callable->results.count ? &callable->results.data[i] : NULL;
    sc_value rounded = sc_build_round(f, what, value, declared, f,
                                      sc_build_dtype_of(b, SC_KIND_ACT, path), expr->loc);
    if (rounded == SC_NONE)
        return (sc_bval){.kind = SC_BVAL_NONE};
    if (declared != NULL)
        sc_build_pins(f, declared->shape, path);
    sc_bval result = sc_bval_tensor(sc_emit_use(f, expr->loc, rounded, path));
    result.fixed = value->fixed == SC_FIXED_BY_OP ? SC_FIXED_BY_OP : SC_ROUNDS;
    return result;
}

static sc_bval_list no_results(sc_builder *b, const sc_callable *callable)
{
    uint32_t count = callable->results.count == 0 ? 1 : callable->results.count;
    return (sc_bval_list){sc_arena_array(&b->context->arena, count, sizeof(sc_bval)), count};
}

sc_bval_list sc_build_run(sc_frame *f)
{
    sc_builder *b = f->b;
    const sc_callable *callable = f->callable;
    sc_map_insert(&b->program->elaborated, (uint64_t)(uintptr_t)callable, 0, NULL);
    sc_build_body(f, &callable->body);
    if (!f->returned)
        return no_results(b, callable);
    bool poisoned = f->results.count > 0 && f->results.data[0].kind == SC_BVAL_NONE;
    if (callable->results.count > 0 && callable->results.count != f->results.count) {
        if (!poisoned) {
            sc_build_error(
                b, SC_D_wrong_count, result_expr(f, 0)->loc,
                sc_build_text(b, "the return of '%s'", sc_name_text(b, callable->name.text)),
                sc_build_count(b, callable->results.count, "value"),
                sc_build_given(b, f->results.count));
            sc_build_note(b, callable->results.data[0].loc, "the results are declared here");
        }
        return no_results(b, callable);
    }
    for (uint32_t i = 0; i < f->results.count; i++)
        f->results.data[i] = finish_result(f, i);
    return f->results;
}

/* ---- calls ---- */
static bool check_callable(sc_frame *f, const sc_callable *callable, sc_loc loc)
{
    sc_builder *b = f->b;
    for (const sc_frame *g = f; g != NULL; g = g->caller) {
        if (g->callable == callable) {
            sc_build_error(b, SC_D_recursion, loc, sc_name_text(b, callable->name.text));
            sc_build_note(b, callable->name.loc, "'%s' is declared here",
                          sc_name_text(b, callable->name.text));
            return false;
        }
    }
    if (f->level < SC_MAX_INLINE_DEPTH)
        return true;
    sc_build_error(b, SC_D_too_deep, loc, sc_build_text(b, "%d", SC_MAX_INLINE_DEPTH));
    return false;
}

static const sc_arg *find_argument(const sc_expr *call, const sc_callable *callable,
                                   uint32_t formal)
{
    uint32_t position = 0, passed = 0;
    for (uint32_t i = 0; i < formal; i++)
        position += callable->formals.data[i].kind != SC_FORMAL_STATIC;
    for (uint32_t i = 0; i < call->call.args.count; i++) {
        const sc_arg *arg = &call->call.args.data[i];
        if (arg->name.text != 0 ? arg->name.text == callable->formals.data[formal].name.text
                                : passed++ == position)
            return arg;
    }
    return NULL;
}

static void report_argument_count(sc_frame *f, const sc_expr *call, const sc_callable *callable,
                                  uint32_t wanted, uint32_t given)
{
    sc_builder *b = f->b;
    sc_build_error(b, SC_D_wrong_count, call->loc,
                   sc_build_text(b, "'%s'", sc_name_text(b, call->call.callee.text)),
                   sc_build_count(b, wanted, "argument"), sc_build_given(b, given));
    sc_build_note(b, callable->name.loc, "'%s' is declared here",
                  sc_name_text(b, callable->name.text));
}

/* Separates arguments that are statics of a fn into `statics`; the number of others must match the
 * formals that hold values. */
static bool sort_arguments(sc_frame *f, const sc_expr *call, const sc_callable *callable,
                           bool takes_statics, sc_arg_list *statics)
{
    uint32_t wanted = 0, given = 0;
    for (uint32_t i = 0; i < callable->formals.count; i++)
        wanted += callable->formals.data[i].kind != SC_FORMAL_STATIC;
    for (uint32_t i = 0; i < call->call.args.count; i++) {
        const sc_arg *arg = &call->call.args.data[i];
        bool is_value = arg->name.text == 0;
        for (uint32_t k = 0; k < callable->formals.count && !is_value; k++)
            is_value = callable->formals.data[k].kind != SC_FORMAL_STATIC &&
                       callable->formals.data[k].name.text == arg->name.text;
        if (is_value) {
            given++;
        } else if (takes_statics) {
            *sc_vec_push(&f->b->context->arena, statics) = *arg;
        } else {
            sc_build_error(f->b, SC_D_bad_argument, arg->loc,
                           sc_build_text(f->b,
                                         "'%s' is not an argument of this call; pass static "
                                         "arguments where the instance is declared",
                                         sc_name_text(f->b, arg->name.text)));
            sc_build_note(f->b, callable->name.loc, "'%s' is declared here",
                          sc_name_text(f->b, callable->name.text));
            return false;
        }
    }
    if (wanted != given)
        report_argument_count(f, call, callable, wanted, given);
    return wanted == given;
}

static bool bind_formal(sc_frame *f, sc_frame *callee, const sc_formal *formal,
                        const sc_bval *value, sc_loc loc)
{
    sc_builder *b = f->b;
    sc_sym path = sc_build_path(b, callee->path, formal->name.text);
    const char *what = sc_build_text(b, "argument '%s' of '%s'", sc_name_text(b, formal->name.text),
                                     sc_name_text(b, callee->callable->name.text));
    sc_value rounded = sc_build_round(callee, what, value, &formal->type, callee,
                                      sc_build_dtype_of(b, SC_KIND_ACT, path), loc);
    if (rounded == SC_NONE)
        return false;
    sc_value named = sc_emit_use(callee, loc, rounded, path);
    if (named == SC_NONE)
        return false;
    sc_op_set_attr(b->m, sc_def(b->m, named), sc_attr_int(SC_ATTR_formal, 1));
    sc_bval bound = sc_bval_tensor(named);
    bound.fixed = value->fixed == SC_FIXED_BY_OP ? SC_FIXED_BY_OP : SC_ROUNDS;
    sc_build_pins(callee, formal->type.shape, path);
    sc_build_set_local(callee, formal->name, bound);
    return true;
}

/* Evaluates the arguments in the caller's frame, before anything of the callee, and binds the
 * formals. */
static bool bind_formals(sc_frame *f, sc_frame *callee, const sc_expr *call)
{
    const sc_callable *callable = callee->callable;
    sc_bval *values =
        sc_arena_array(&f->b->context->arena, callable->formals.count, sizeof *values);
    bool ok = true;
    for (uint32_t i = 0; i < callable->formals.count; i++) {
        if (callable->formals.data[i].kind == SC_FORMAL_STATIC)
            continue;
        const sc_arg *arg = find_argument(call, callable, i);
        if (arg == NULL || arg->values.count != 1) {
            sc_build_error(f->b, SC_D_bad_call, call->loc,
                           sc_build_text(f->b, "argument '%s' of '%s' takes one value",
                                         sc_name_text(f->b, callable->formals.data[i].name.text),
                                         sc_name_text(f->b, callable->name.text)));
            return false;
        }
        values[i] = sc_build_expr(f, arg->values.data[0]);
        ok = ok && values[i].kind != SC_BVAL_NONE;
    }
    for (uint32_t i = 0; i < callable->formals.count; i++) {
        if (!ok)
            break;
        const sc_formal *formal = &callable->formals.data[i];
        if (formal->kind != SC_FORMAL_STATIC)
            ok = bind_formal(f, callee, formal, &values[i],
                             find_argument(call, callable, i)->values.data[0]->loc) &&
                 ok;
    }
    return ok;
}

/* Runs the body in a temporary frame of its own. */
static sc_bval_list run_call(sc_frame *f, const sc_expr *call, const sc_callable *callable,
                             const sc_instance *instance, sc_sym path, sc_sym scope)
{
    sc_arena *scratch = &f->b->context->scratch;
    const sc_arena_mark mark = sc_arena_mark_here(scratch);
    sc_frame *callee = sc_build_frame(f->b, f, callable, instance, path, scope);
    sc_bval_list results =
        bind_formals(f, callee, call) ? sc_build_run(callee) : no_results(f->b, callable);
    sc_arena_release(scratch, mark);
    return results;
}

/* Finds the instance's index: that of the innermost repeat over the stack's dim. */
static bool stack_index(sc_frame *f, const sc_sub *sub, sc_loc loc, int64_t *index)
{
    sc_builder *b = f->b;
    sc_frame home = sc_build_home(f);
    sc_dim dim = sc_build_dim(&home, sub->stack);
    if (dim == SC_NONE)
        return false;
    for (uint32_t i = f->repeats.count; i-- > 0;) {
        if (f->repeats.data[i].dim == dim) {
            *index = f->repeats.data[i].index;
            return true;
        }
    }
    const char *name = sc_name_text(b, sub->name.text), *stack = sc_name_text(b, sub->stack.text);
    sc_build_error(
        b, SC_D_bad_call, loc,
        f->repeats.count == 0
            ? sc_build_text(b, "'%s' is a stack of %s instances; use it inside 'repeat %s { .. }'",
                            name, stack, stack)
            : sc_build_text(
                  b, "'%s' is a stack of %s instances, but this repeat is over %s", name, stack,
                  sc_name_text(b,
                               b->m->dims.data[f->repeats.data[f->repeats.count - 1].dim].name)));
    sc_build_note(b, sub->name.loc, "the stack is declared here");
    return false;
}

/* Creates the instance that a sub declares, in the scope of `home`. NULL after reporting an
 * error. */
static sc_instance *instantiate(sc_frame *home, const sc_member *member, sc_sym path, int64_t index)
{
    sc_builder *b = home->b;
    const sc_sub *sub = member->sub;
    const sc_callable *callable = member->block->callable;
    sc_instance *instance = sc_arena_alloc(&b->context->arena, sizeof *instance);
    *instance = (sc_instance){
        .unit = member->block, .path = path, .substitutions = home->instance->substitutions};
    sc_stack_place place = {.is_stack = sub->stack.text != 0, .index = index};
    sc_dim stack = place.is_stack ? sc_build_dim(home, sub->stack) : SC_NONE;
    place.size = stack == SC_NONE ? 0 : sc_build_size(b, stack);
    sc_map_insert(&b->program->elaborated, (uint64_t)(uintptr_t)sub, 0, NULL);
    bool fine = sc_build_dim_args(home, callable, sub->dim_args.data, sub->dim_args.count, sub->loc,
                                  instance) &&
                sc_build_statics(home, callable, &sub->statics, &place, instance);
    return fine ? instance : NULL;
}

void sc_build_declaration(sc_frame *home, const sc_member *member)
{
    if (member->kind == SC_MEMBER_PARAM)
        sc_build_param(home, member->decl->loc, member);
    else if (member->kind == SC_MEMBER_CACHE)
        sc_build_cache(home, member->decl->loc, member);
    else if (member->kind == SC_MEMBER_SUB && member->block != NULL && !member->block->broken)
        instantiate(home, member, sc_build_path(home->b, home->instance->path, member->name.text),
                    0);
}

static sc_bval_list call_sub(sc_frame *f, const sc_expr *call, const sc_member *member)
{
    sc_builder *b = f->b;
    const sc_sub *sub = member->sub;
    int64_t index = 0;
    sc_arg_list statics = {0};
    if (member->block == NULL || member->block->broken) {
        b->failed = true;
        return (sc_bval_list){sc_arena_alloc(&b->context->arena, sizeof(sc_bval)), 1};
    }
    const sc_callable *callable = member->block->callable;
    if (call->call.has_dims) {
        sc_build_error(b, SC_D_bad_call, call->loc,
                       sc_build_text(b, "dims of '%s' are given where it is declared",
                                     sc_name_text(b, sub->name.text)));
        sc_build_note(b, sub->loc, "here: %s: %s[..]", sc_name_text(b, sub->name.text),
                      sc_name_text(b, sub->block.text));
        return no_results(b, callable);
    }
    if (!sort_arguments(f, call, callable, false, &statics) ||
        !check_callable(f, callable, call->loc) ||
        (sub->stack.text != 0 && !stack_index(f, sub, call->loc, &index)))
        return no_results(b, callable);
    sc_frame home = sc_build_home(f);
    sc_sym path = sc_build_path(b, f->instance->path, sub->name.text);
    if (sub->stack.text != 0)
        path = sc_intern_printf(&b->context->names, "%s[%lld]", sc_name_text(b, path),
                                (long long)index);
    const sc_instance *instance = instantiate(&home, member, path, index);
    if (instance == NULL)
        return no_results(b, callable);
    return run_call(f, call, callable, instance, instance->path, instance->path);
}

static bool fn_dim_args(sc_frame *f, const sc_expr *call, const sc_callable *callable,
                        sc_instance *instance)
{
    sc_builder *b = f->b;
    uint32_t count = call->call.dims.count;
    sc_dim_arg *args = sc_arena_array(&b->context->arena, count, sizeof *args);
    for (uint32_t i = 0; i < count; i++) {
        const sc_op_dim *dim = &call->call.dims.data[i];
        if (dim->arrow) {
            sc_build_error(b, SC_D_bad_argument, dim->from.loc,
                           sc_build_text(b, "dims of a fn are given as D or N = D, without '->'"));
            return false;
        }
        args[i] = dim->to.text == 0 ? (sc_dim_arg){.value = dim->from}
                                    : (sc_dim_arg){.name = dim->from, .value = dim->to};
    }
    return sc_build_dim_args(f, callable, args, count, call->loc, instance);
}

/* Calls a fn. A fn of the unit sees its params; a file-level fn sees none, only the dims that the
 * instance substitutes. */
static sc_bval_list call_fn(sc_frame *f, const sc_expr *call, const sc_callable *callable,
                            bool of_unit)
{
    sc_builder *b = f->b;
    sc_arg_list statics = {0};
    sc_instance *instance = sc_arena_alloc(&b->context->arena, sizeof *instance);
    *instance = of_unit ? *f->instance
                        : (sc_instance){.path = f->instance->path,
                                        .substitutions = f->instance->substitutions};
    if (of_unit && instance->home == NULL)
        instance->home = f->instance;
    if (!sort_arguments(f, call, callable, true, &statics) ||
        !check_callable(f, callable, call->loc) || !fn_dim_args(f, call, callable, instance))
        return no_results(b, callable);
    if (!sc_build_statics(f, callable, &statics, &(sc_stack_place){0}, instance))
        return no_results(b, callable);
    sc_sym path = sc_build_path(b, f->instance->path, callable->name.text);
    return run_call(f, call, callable, instance, path, f->instance->path == 0 ? path : f->scope);
}

bool sc_build_call(sc_frame *f, const sc_expr *call, sc_bval_list *out)
{
    sc_sym name = call->call.callee.text;
    const sc_member *member =
        f->instance->unit == NULL ? NULL : sc_unit_member(f->instance->unit, name);
    if (member != NULL && member->kind == SC_MEMBER_SUB) {
        if (!sc_build_is_present(f, member, call->loc)) {
            *out = (sc_bval_list){sc_arena_alloc(&f->b->context->arena, sizeof(sc_bval)), 1};
            return true;
        }
        *out = call_sub(f, call, member);
        return true;
    }
    bool is_entry =
        member != NULL && member->kind == SC_MEMBER_ENTRY && member->callable->at_name.text == 0;
    if (is_entry || (member != NULL && member->kind == SC_MEMBER_FN)) {
        *out = call_fn(f, call, member->callable, true);
        return true;
    }
    const sc_callable *callable = sc_declarations_fn(f->b->program, name);
    if (callable == NULL)
        return false;
    *out = call_fn(f, call, callable, false);
    return true;
}
