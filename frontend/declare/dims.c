/* Dims: dependencies between them, and their sizes under bindings. */
#include "frontend/declare/internal.h"

#include <string.h>

/* ---- forms ---- */
static uint32_t resolve(const sc_declarations *program, sc_name name)
{
    uint32_t index = sc_declarations_dim(program, name.text);
    if (index == SC_NONE)
        sc_report_unknown_dim(program, name);
    return index;
}

static void report_text(const sc_declarations *program, sc_diag_id id, sc_loc loc, const char *text)
{
    sc_report(&program->context->diag, id, loc, text, (char *)NULL);
}

typedef SC_VEC(uint32_t) index_list;

/* Collects the dims named in a size expression; reports anything that is not allowed in one. */
static void collect_expr(const sc_declarations *program, const sc_expr *expr, index_list *out,
                         bool *bad)
{
    uint32_t index;
    switch (expr->kind) {
    case SC_EXPR_INT:
        return;
    case SC_EXPR_NAME:
        index = resolve(program, (sc_name){expr->name, expr->loc});
        if (index == SC_NONE)
            *bad = true;
        else
            *sc_vec_push(&program->context->arena, out) = index;
        return;
    case SC_EXPR_NEG:
        collect_expr(program, expr->operand, out, bad);
        return;
    case SC_EXPR_BINARY:
        collect_expr(program, expr->binary.left, out, bad);
        collect_expr(program, expr->binary.right, out, bad);
        return;
    default:
        *bad = true;
        report_text(program, SC_D_not_a_constant, expr->loc,
                    "this part of a size (sizes are made of integers and dims with + - * /)");
    }
}

static void check_alias(sc_declarations *program, sc_dim_decl *decl, index_list *out)
{
    decl->original = resolve(program, decl->def->alias);
    if (decl->original == SC_NONE)
        decl->broken = true;
    else
        *sc_vec_push(&program->context->arena, out) = decl->original;
}

static void check_composite(sc_declarations *program, sc_dim_decl *decl, index_list *out)
{
    sc_context *context = program->context;
    const sc_name_list *names = (const sc_name_list *)&decl->def->parts;
    if (names->count > SC_MAX_RANK) {
        decl->broken = true;
        report_text(program, SC_D_bad_composite, decl->name.loc,
                    sc_arena_printf(&context->arena,
                                    "dim '%s' has %u parts; a tensor has at most %d dims",
                                    sc_text(context, decl->name.text), names->count, SC_MAX_RANK));
        return;
    }
    decl->parts = sc_arena_array(&context->arena, names->count, sizeof *decl->parts);
    for (uint32_t i = 0; i < names->count; i++) {
        uint32_t part = resolve(program, names->data[i]);
        bool twice = false;
        if (part != SC_NONE) {
            for (uint32_t j = 0; j < i; j++)
                twice = twice || names->data[j].text == names->data[i].text;
        }
        if (part == SC_NONE || twice || program->dims.data[part].form == SC_DIM_COMPOSITE)
            decl->broken = true;
        if (twice)
            report_text(program, SC_D_bad_composite, names->data[i].loc,
                        sc_arena_printf(&context->arena, "dim '%s' has part '%s' twice",
                                        sc_text(context, decl->name.text),
                                        sc_text(context, names->data[i].text)));
        else if (part != SC_NONE && program->dims.data[part].form == SC_DIM_COMPOSITE)
            report_text(program, SC_D_bad_composite, names->data[i].loc,
                        sc_arena_printf(
                            &context->arena,
                            "part '%s' of dim '%s' is itself a composite; name its parts instead",
                            sc_text(context, names->data[i].text),
                            sc_text(context, decl->name.text)));
        decl->parts[i] = part;
        if (part != SC_NONE)
            *sc_vec_push(&context->arena, out) = part;
    }
    decl->part_count = decl->broken ? 0 : names->count;
}

static void check_form(sc_declarations *program, uint32_t index)
{
    sc_dim_decl *decl = &program->dims.data[index];
    index_list out = {0};
    if (decl->form == SC_DIM_SIZED)
        collect_expr(program, decl->def->size, &out, &decl->broken);
    else if (decl->form == SC_DIM_ALIAS)
        check_alias(program, decl, &out);
    else if (decl->form == SC_DIM_COMPOSITE)
        check_composite(program, decl, &out);
    decl->dependencies = out.data;
    decl->dependency_count = out.count;
}

/* ---- order ---- */
enum { NEW, OPEN, DONE };

typedef struct order_step {
    uint32_t dim, next; /* next: index of the next dependency to visit */
} order_step;

static void report_cycle(sc_declarations *program, uint32_t dim)
{
    sc_dim_decl *decl = &program->dims.data[dim];
    if (!decl->broken)
        sc_report(&program->context->diag, SC_D_dim_cycle, decl->name.loc,
                  sc_text(program->context, decl->name.text), (char *)NULL);
    decl->broken = true;
}

/* Depth-first search with an explicit stack: a chain of sizes can be as long as the file. */
static void order_from(sc_declarations *program, uint32_t root, uint8_t *state)
{
    sc_arena *arena = &program->context->arena;
    SC_VEC(order_step) stack = {0};
    *sc_vec_push(arena, &stack) = (order_step){root, 0};
    state[root] = OPEN;
    while (stack.count > 0) {
        order_step *top = &stack.data[stack.count - 1];
        const sc_dim_decl *decl = &program->dims.data[top->dim];
        if (top->next == decl->dependency_count) {
            state[top->dim] = DONE;
            *sc_vec_push(arena, &program->dim_order) = top->dim;
            stack.count--;
            continue;
        }
        uint32_t dependency = decl->dependencies[top->next++];
        if (state[dependency] == OPEN) {
            report_cycle(program, dependency);
        } else if (state[dependency] == NEW) {
            state[dependency] = OPEN;
            *sc_vec_push(arena, &stack) = (order_step){dependency, 0};
        }
    }
}

enum { MAX_ALIAS_CHAIN = 64 };

/* Limits the length of alias chains, because later code follows them recursively. */
static void check_chain(sc_declarations *program, sc_dim_decl *decl)
{
    decl->chain = program->dims.data[decl->original].chain + 1;
    if (decl->chain != MAX_ALIAS_CHAIN + 1)
        return;
    decl->broken = true;
    report_text(program, SC_D_bad_alias, decl->name.loc,
                sc_arena_printf(&program->context->arena,
                                "dim '%s' is an alias at the end of a chain of more than %d",
                                sc_text(program->context, decl->name.text), MAX_ALIAS_CHAIN));
}

void sc_dims_check(sc_declarations *program)
{
    for (uint32_t i = 0; i < program->dims.count; i++)
        check_form(program, i);
    uint8_t *state = sc_arena_array(&program->context->arena, program->dims.count, sizeof *state);
    for (uint32_t i = 0; i < program->dims.count; i++) {
        if (state[i] == NEW)
            order_from(program, i, state);
    }
    for (uint32_t i = 0; i < program->dim_order.count; i++) {
        sc_dim_decl *decl = &program->dims.data[program->dim_order.data[i]];
        if (decl->form == SC_DIM_ALIAS && decl->original != SC_NONE)
            check_chain(program, decl);
        for (uint32_t d = 0; d < decl->dependency_count; d++)
            decl->broken = decl->broken || program->dims.data[decl->dependencies[d]].broken;
    }
}

/* ---- sizes ---- */
typedef struct size_eval {
    const sc_declarations *program;
    const int64_t *sizes;
    const char *problem; /* not an integer, or overflow */
    sc_loc loc;
    bool unknown; /* a dim without a size, or one whose error is already reported */
} size_eval;

static int64_t problem(size_eval *eval, sc_loc loc, const char *text)
{
    if (eval->problem == NULL) {
        eval->problem = text;
        eval->loc = loc;
    }
    return 0;
}

static int64_t eval_binary(size_eval *eval, const sc_expr *expr, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool overflow = false;
    if (eval->unknown || eval->problem != NULL)
        return 0;
    switch (expr->binary.op) {
    case '+':
        overflow = __builtin_add_overflow(a, b, &result);
        break;
    case '-':
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
    default:
        if (b == 0 || (a == INT64_MIN && b == -1) || a % b != 0)
            return problem(eval, expr->loc,
                           b == 0 ? "nothing (a division by zero)"
                                  : "a fraction (the division leaves a remainder)");
        result = a / b;
    }
    return overflow ? problem(eval, expr->loc, "a number that does not fit 64 bits") : result;
}

static int64_t eval_size(size_eval *eval, const sc_expr *expr)
{
    uint32_t dim;
    int64_t a, b;
    switch (expr->kind) {
    case SC_EXPR_INT:
        return expr->integer;
    case SC_EXPR_NAME:
        dim = sc_declarations_dim(eval->program, expr->name);
        if (dim == SC_NONE || eval->sizes[dim] == 0)
            eval->unknown = true;
        return dim == SC_NONE ? 0 : eval->sizes[dim];
    case SC_EXPR_NEG:
        a = eval_size(eval, expr->operand);
        return a == INT64_MIN ? problem(eval, expr->loc, "a number that does not fit 64 bits") : -a;
    case SC_EXPR_BINARY:
        a = eval_size(eval, expr->binary.left);
        b = eval_size(eval, expr->binary.right);
        return eval_binary(eval, expr, a, b);
    default:
        return problem(eval, expr->loc, "something that is not an integer");
    }
}

static bool report_size(const sc_declarations *program, sc_name dim, sc_loc loc, const char *size)
{
    sc_report(&program->context->diag, SC_D_bad_dim_size, loc, sc_text(program->context, dim.text),
              size, (char *)NULL);
    return false;
}

static bool eval_sized(const sc_declarations *program, const sc_dim_decl *decl, int64_t *sizes,
                       int64_t *out)
{
    size_eval eval = {.program = program, .sizes = sizes};
    int64_t size = eval_size(&eval, decl->def->size);
    *out = 0;
    if (eval.problem != NULL)
        return report_size(program, decl->name, eval.loc, eval.problem);
    if (eval.unknown)
        return true;
    if (size < 1)
        return report_size(program, decl->name, decl->def->size->loc,
                           sc_arena_printf(&program->context->arena, "%lld", (long long)size));
    *out = size;
    return true;
}

static bool eval_composite(const sc_declarations *program, const sc_dim_decl *decl,
                           const int64_t *sizes, int64_t *out)
{
    int64_t size = 1;
    *out = 0;
    for (uint32_t i = 0; i < decl->part_count; i++) {
        if (__builtin_mul_overflow(size, sizes[decl->parts[i]], &size))
            return report_size(program, decl->name, decl->name.loc,
                               "a number that does not fit 64 bits");
    }
    *out = size;
    return true;
}

/* True if the alias chain of `dim` leads to `to`. */
static bool is_alias_of(const sc_declarations *program, uint32_t dim, uint32_t to)
{
    uint32_t steps = 0;
    while (dim != SC_NONE && program->dims.data[dim].form == SC_DIM_ALIAS &&
           steps++ < program->dims.count) {
        dim = program->dims.data[dim].original;
        if (dim == to)
            return true;
    }
    return false;
}

static bool has_composite_root(const sc_declarations *program, uint32_t dim)
{
    uint32_t steps = 0;
    while (dim != SC_NONE && program->dims.data[dim].form == SC_DIM_ALIAS &&
           steps++ < program->dims.count)
        dim = program->dims.data[dim].original;
    return dim != SC_NONE && program->dims.data[dim].form == SC_DIM_COMPOSITE;
}

static bool check_binding(const sc_declarations *program, const sc_binding *binding, uint32_t dim)
{
    sc_context *context = program->context;
    if (dim == SC_NONE) {
        sc_report_unknown_dim(program, (sc_name){binding->dim, binding->loc});
        return false;
    }
    if (has_composite_root(program, dim)) {
        sc_report(
            &context->diag, SC_D_bad_composite, binding->loc,
            sc_arena_printf(&context->arena,
                            "'%s' is a composite; its size is the product of its parts: bind those",
                            sc_text(context, binding->dim)),
            (char *)NULL);
        return false;
    }
    if (binding->size < 1)
        return report_size(program, (sc_name){binding->dim, binding->loc}, binding->loc,
                           sc_arena_printf(&context->arena, "%lld", (long long)binding->size));
    return true;
}

/* Sets the sizes of bound dims; false if a binding was reported. */
static bool bind_dims(const sc_declarations *program, const sc_binding_list *bindings,
                      int64_t *bound)
{
    bool ok = true;
    for (uint32_t i = 0; i < bindings->count; i++) {
        uint32_t dim = sc_declarations_dim(program, bindings->data[i].dim);
        if (check_binding(program, &bindings->data[i], dim))
            bound[dim] = bindings->data[i].size;
        else
            ok = false;
    }
    return ok;
}

bool sc_dims_sizes(const sc_declarations *program, const sc_binding_list *bindings, uint32_t along,
                   int64_t *sizes)
{
    int64_t *bound = sc_arena_array(&program->context->arena, program->dims.count, sizeof *bound);
    bool ok = bindings == NULL || bind_dims(program, bindings, bound);
    memset(sizes, 0, program->dims.count * sizeof *sizes);
    for (uint32_t i = 0; i < program->dim_order.count; i++) {
        uint32_t dim = program->dim_order.data[i];
        const sc_dim_decl *decl = &program->dims.data[dim];
        if (decl->broken)
            continue;
        if (decl->form == SC_DIM_ALIAS) {
            /* outside cached entries an alias has the size of its original, even if it is bound */
            bool capacity = along != SC_NONE && is_alias_of(program, dim, along);
            sizes[dim] = capacity || (along != SC_NONE && bound[dim] != 0) ? bound[dim]
                                                                           : sizes[decl->original];
        } else if (decl->form == SC_DIM_COMPOSITE) {
            ok = eval_composite(program, decl, sizes, &sizes[dim]) && ok;
        } else if (bound[dim] != 0) {
            sizes[dim] = bound[dim];
        } else if (decl->form == SC_DIM_SIZED) {
            ok = eval_sized(program, decl, sizes, &sizes[dim]) && ok;
        }
    }
    return ok;
}

bool sc_declarations_eval_integer(const sc_declarations *program, const sc_expr *expr,
                                  const sc_binding_list *bindings, int64_t *out)
{
    sc_context *context = program->context;
    index_list used = {0};
    bool bad = false;
    collect_expr(program, expr, &used, &bad);
    int64_t *sizes = sc_arena_array(&context->arena, program->dims.count, sizeof *sizes);
    if (bad || (used.count > 0 && !sc_dims_sizes(program, bindings, SC_NONE, sizes)))
        return false;
    for (uint32_t i = 0; i < used.count; i++) {
        if (sizes[used.data[i]] != 0)
            continue;
        const char *name = sc_text(context, program->dims.data[used.data[i]].name.text);
        sc_report(&context->diag, SC_D_not_a_constant, expr->loc,
                  sc_arena_printf(&context->arena, "dim '%s' has no size here, so this", name),
                  (char *)NULL);
        return false;
    }
    size_eval eval = {.program = program, .sizes = sizes};
    *out = eval_size(&eval, expr);
    if (eval.problem == NULL)
        return true;
    sc_report(&context->diag, SC_D_not_a_constant, eval.loc,
              sc_arena_printf(&context->arena, "%s", eval.problem), (char *)NULL);
    return false;
}
