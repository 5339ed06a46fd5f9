/* The parser of the kernel text: one pass that stops at the first error. It uses the constructors,
 * so a parsed kernel is like any other: nodes are unique and constants fold. Items keep their
 * numbers, as earlier nodes refer to them, so none is dropped for its guard. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/kernel/internal.h"
#include "codegen/kernel/kernel.h"
#include "ir/text/parse_internal.h"

typedef struct kernel_parser {
    sc_parser tokens; /* no module, no statements */
    sc_kernel *k;
    sc_map dims, args, nodes; /* symbol -> number */
} kernel_parser;

static sc_arena *arena_of(const kernel_parser *p)
{
    return p->k->arena;
}

/* ---- names ---- */

/* Without the article. */
static const char *noun_of(const char *what)
{
    return strchr(what, ' ') + 1;
}

static bool find(kernel_parser *p, const sc_map *map, const char *what, uint32_t *out_number)
{
    sc_loc loc = sc_parse_loc(&p->tokens);
    sc_sym name;
    *out_number = 0;
    if (!sc_parse_name(&p->tokens, what, &name))
        return false;
    const uint32_t *number = sc_map_find(map, name);
    if (number == NULL)
        return sc_parse_fail(&p->tokens, loc, "there is no %s '%.40s'", noun_of(what),
                             sc_text(p->k->context, name));
    *out_number = *number;
    return true;
}

static bool declare(kernel_parser *p, sc_map *map, const char *what, uint32_t number,
                    sc_sym *out_name)
{
    sc_loc loc = sc_parse_loc(&p->tokens);
    bool is_new;
    if (!sc_parse_name(&p->tokens, what, out_name))
        return false;
    sc_map_insert(map, *out_name, number, &is_new);
    return is_new || sc_parse_fail(&p->tokens, loc, "'%.40s' is declared twice",
                                   sc_text(p->k->context, *out_name));
}

/* The index of the current word in `words`. */
static bool parse_choice(kernel_parser *p, const char *what, const char *const *words,
                         uint32_t count, uint32_t *out_index)
{
    sc_parser *t = &p->tokens;
    uint32_t i = 0;
    *out_index = 0;
    if (t->token.kind != SC_TOKEN_WORD)
        return sc_parse_expected(t, what);
    while (i < count && !sc_parse_at_word(t, words[i]))
        i++;
    if (i == count)
        return sc_parse_unknown(t, sc_parse_loc(t), noun_of(what), t->token.sym, words, count);
    sc_parse_advance(t);
    *out_index = i;
    return true;
}

static bool parse_dtype(kernel_parser *p, sc_dtype *out_dtype)
{
    const char *names[SC_DTYPE_COUNT];
    uint32_t index;
    for (uint32_t i = 0; i < SC_DTYPE_COUNT; i++)
        names[i] = sc_dtypes[i].name;
    if (!parse_choice(p, "a dtype", names, SC_DTYPE_COUNT, &index))
        return false;
    *out_dtype = (sc_dtype)index;
    return true;
}

/* ---- declarations ---- */

/* dim S = 8 */
static bool parse_dim(kernel_parser *p)
{
    sc_sym name;
    int64_t size;
    if (!declare(p, &p->dims, "a dim", p->k->dims.count, &name) ||
        !sc_parse_expect(&p->tokens, '=') ||
        !sc_parse_integer(&p->tokens, 1, SC_TEXT_MAX_SIZE, &size))
        return false;
    sc_kernel_add_dim(p->k, name, size);
    return true;
}

static bool parse_sizes(kernel_parser *p, sc_kernel_arg *arg)
{
    sc_parser *t = &p->tokens;
    if (!sc_parse_expect(t, '['))
        return false;
    if (sc_parse_accept(t, ']'))
        return true;
    do {
        if (arg->rank == SC_KERNEL_MAX_RANK)
            return sc_parse_fail(t, sc_parse_loc(t), "an argument has at most %d dims",
                                 SC_KERNEL_MAX_RANK);
        if (!sc_parse_integer(t, 1, SC_TEXT_MAX_SIZE, &arg->sizes[arg->rank++]))
            return false;
    } while (sc_parse_accept(t, ','));
    return sc_parse_expect(t, ']');
}

/* arg x: bf16[8, 64] in */
static bool parse_arg(kernel_parser *p)
{
    sc_parser *t = &p->tokens;
    sc_kernel_arg arg = {0};
    uint32_t mode;
    if (p->k->args.count == SC_KERNEL_MAX_ARGS)
        return sc_parse_fail(t, sc_parse_loc(t), "a kernel has at most %d arguments",
                             SC_KERNEL_MAX_ARGS);
    if (!declare(p, &p->args, "an argument", p->k->args.count, &arg.name) ||
        !sc_parse_expect(t, ':') || !parse_dtype(p, &arg.dtype) || !parse_sizes(p, &arg) ||
        !parse_choice(p, "a mode", sc_kernel_mode_names, SC_ARG_MODES, &mode))
        return false;
    arg.mode = (sc_kernel_arg_mode)mode;
    sc_kernel_add_arg(p->k, &arg);
    return true;
}

/* (divide, modulo, times) or (divide, modulo, times, plus) */
static bool parse_term(kernel_parser *p, sc_image_term *out_term)
{
    sc_parser *t = &p->tokens;
    int64_t divide, modulo, plus = 0;
    if (!sc_parse_expect(t, '(') || !sc_parse_integer(t, 1, INT64_MAX, &divide) ||
        !sc_parse_expect(t, ',') || !sc_parse_integer(t, 1, INT64_MAX, &modulo) ||
        !sc_parse_expect(t, ',') || !sc_parse_integer(t, INT64_MIN, INT64_MAX, &out_term->times))
        return false;
    if (sc_parse_accept(t, ',') && !sc_parse_integer(t, 0, INT64_MAX, &plus))
        return false;
    out_term->divide = (uint64_t)divide;
    out_term->modulo = (uint64_t)modulo;
    out_term->plus = (uint64_t)plus;
    return sc_parse_expect(t, ')');
}

static bool parse_terms(kernel_parser *p, sc_image_terms *out_terms)
{
    sc_parser *t = &p->tokens;
    SC_VEC(sc_image_term) terms = {0};
    int64_t zero;
    if (t->token.kind == SC_TOKEN_NUMBER)
        return sc_parse_integer(t, 0, 0, &zero);
    do {
        if (!parse_term(p, sc_vec_push(arena_of(p), &terms)))
            return false;
    } while (sc_parse_accept(t, '+'));
    *out_terms = (sc_image_terms){terms.count, terms.data};
    return true;
}

static bool parse_hash(kernel_parser *p, uint64_t *out_hash)
{
    sc_loc loc = sc_parse_loc(&p->tokens);
    sc_sym name;
    if (!sc_parse_string(&p->tokens, "16 hexadecimal digits in quotes", &name))
        return false;
    const char *text = sc_text(p->k->context, name);
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return sc_parse_fail(&p->tokens, loc, "a hash is 16 hexadecimal digits");
    *out_hash = strtoull(text, NULL, 16);
    return true;
}

/* param 0: rank = (4, 2, 16) + (1, 4, 4) */
static bool parse_param(kernel_parser *p)
{
    sc_parser *t = &p->tokens;
    sc_image_param param = {0};
    sc_loc loc = sc_parse_loc(t);
    uint32_t kind, count = p->k->params.count;
    int64_t number;
    if (!sc_parse_integer(t, 0, UINT32_MAX, &number))
        return false;
    if (number != count)
        return sc_parse_fail(t, loc, "params count from 0: this is param %u", count);
    if (!sc_parse_expect(t, ':') ||
        !parse_choice(p, "a param", sc_kernel_param_names, SC_PARAM_KINDS, &kind))
        return false;
    param.kind = (sc_image_param_kind)kind;
    if (kind == SC_PARAM_RANK && (!sc_parse_expect(t, '=') || !parse_terms(p, &param.terms)))
        return false;
    if (kind == SC_PARAM_KEY && (!sc_parse_expect(t, '=') || !parse_hash(p, &param.path_hash)))
        return false;
    return sc_kernel_add_param(p->k, &param) == count ||
           sc_parse_fail(t, loc, "this param is declared twice");
}

/* outer S, T: the first dims, in order */
static bool parse_outer(kernel_parser *p)
{
    sc_parser *t = &p->tokens;
    do {
        sc_loc loc = sc_parse_loc(t);
        uint32_t dim;
        if (!find(p, &p->dims, "a dim", &dim))
            return false;
        if (dim != p->k->outer_count)
            return sc_parse_fail(
                t, loc, "outer dims are the first ones, in order: here '%.40s' is next",
                sc_text(
                    p->k->context,
                    p->k->dims.data[p->k->outer_count < p->k->dims.count ? p->k->outer_count : dim]
                        .name));
        p->k->outer_count++;
    } while (sc_parse_accept(t, ','));
    return true;
}

/* ---- nodes ---- */

static bool parse_operand(kernel_parser *p, sc_knode *out_node)
{
    sc_parser *t = &p->tokens;
    if (t->token.kind != SC_TOKEN_VALUE)
        return sc_parse_expected(t, "a node");
    const uint32_t *node = sc_map_find(&p->nodes, t->token.sym);
    if (node == NULL)
        return sc_parse_fail(t, sc_parse_loc(t), "%%%.40s is not defined above",
                             sc_text(p->k->context, t->token.sym));
    *out_node = *node;
    sc_parse_advance(t);
    return true;
}

typedef struct operand_list {
    uint32_t count;
    sc_knode nodes[SC_KERNEL_MAX_RANK + 1];
} operand_list;

static bool parse_operands(kernel_parser *p, operand_list *list)
{
    sc_parser *t = &p->tokens;
    list->count = 0;
    if (t->token.kind != SC_TOKEN_VALUE)
        return true;
    do {
        if (list->count == SC_KERNEL_MAX_RANK)
            return sc_parse_fail(t, sc_parse_loc(t), "more operands than anything takes");
        if (!parse_operand(p, &list->nodes[list->count++]))
            return false;
    } while (sc_parse_accept(t, ','));
    return true;
}

/* `if %5`, or nothing */
static bool parse_guard(kernel_parser *p, sc_knode *out_guard)
{
    *out_guard = SC_NONE;
    return !sc_parse_accept_word(&p->tokens, "if") || parse_operand(p, out_guard);
}

/* `: f32`, an arithmetic dtype */
static bool parse_result(kernel_parser *p, sc_dtype *out_dtype)
{
    sc_loc loc = sc_parse_loc(&p->tokens);
    if (!sc_parse_expect(&p->tokens, ':') || !parse_dtype(p, out_dtype))
        return false;
    return sc_kernel_dtype(*out_dtype) == *out_dtype ||
           sc_parse_fail(&p->tokens, loc, "nothing is computed in %s", sc_dtypes[*out_dtype].name);
}

/* Checks that the node has the dtype given in the text. */
static bool parse_its_result(kernel_parser *p, sc_knode node)
{
    sc_loc loc = sc_parse_loc(&p->tokens);
    sc_dtype dtype;
    if (!parse_result(p, &dtype))
        return false;
    sc_dtype own = (sc_dtype)p->k->nodes.data[node].dtype;
    return own == dtype || sc_parse_fail(&p->tokens, loc, "this is %s", sc_dtypes[own].name);
}

static bool parse_constant(kernel_parser *p, sc_knode *out_node)
{
    sc_parser *t = &p->tokens;
    sc_loc loc = sc_parse_loc(t);
    sc_dtype dtype;
    double number = 1;
    bool truth = sc_parse_accept_word(t, "true");
    if (!truth && sc_parse_accept_word(t, "false")) {
        truth = true;
        number = 0;
    }
    if ((!truth && !sc_parse_number(t, &number)) || !parse_result(p, &dtype))
        return false;
    if (truth != (dtype == SC_DTYPE_bool))
        return sc_parse_fail(t, loc,
                             "constants of bool are 'true' and 'false', others are numbers");
    *out_node = sc_kernel_constant(p->k, dtype, number);
    return sc_dtype_is_float(dtype) || p->k->nodes.data[*out_node].number == number ||
           sc_parse_fail(t, loc, "this is not a number of %s", sc_dtypes[dtype].name);
}

static bool parse_index(kernel_parser *p, sc_knode *out_node)
{
    uint32_t dim;
    if (!find(p, &p->dims, "a dim", &dim))
        return false;
    *out_node = sc_kernel_index(p->k, dim);
    return parse_its_result(p, *out_node);
}

static bool parse_param_node(kernel_parser *p, sc_knode *out_node)
{
    int64_t number;
    if (!sc_parse_integer(&p->tokens, 0, (int64_t)p->k->params.count - 1, &number))
        return false;
    *out_node = sc_kernel_param(p->k, (uint32_t)number);
    return parse_its_result(p, *out_node);
}

/* load x %0, %1 if %5 : f32 */
static bool parse_load(kernel_parser *p, sc_knode *out_node)
{
    sc_parser *t = &p->tokens;
    sc_loc loc = sc_parse_loc(t);
    operand_list list;
    uint32_t arg;
    sc_knode guard;
    if (!find(p, &p->args, "an argument", &arg) || !parse_operands(p, &list) ||
        !parse_guard(p, &guard))
        return false;
    if (list.count != p->k->args.data[arg].rank)
        return sc_parse_fail(t, loc, "the argument needs an index for each of its dims: %u",
                             p->k->args.data[arg].rank);
    const char *error = sc_kernel_operands_error(p->k, SC_NODE_load, list.nodes, list.count);
    if (error == NULL && guard != SC_NONE && p->k->nodes.data[guard].dtype != SC_DTYPE_bool)
        error = "a guard is bool";
    if (error != NULL)
        return sc_parse_fail(t, loc, "%s", error);
    *out_node = sc_kernel_load(p->k, arg, list.nodes, guard);
    return parse_its_result(p, *out_node);
}

/* reduced #0 : f32; whether the item is a reduction of this dtype is checked after all items are
 * read */
static bool parse_reduced(kernel_parser *p, sc_node_kind kind, sc_knode *out_node)
{
    int64_t number;
    sc_dtype dtype;
    if (!sc_parse_expect(&p->tokens, '#') ||
        !sc_parse_integer(&p->tokens, 0, UINT32_MAX - 1, &number) || !parse_result(p, &dtype))
        return false;
    sc_kernel_node node = {
        .kind = (uint16_t)kind, .dtype = (uint8_t)dtype, .index = (uint32_t)number};
    *out_node = sc_kernel_unique(p->k, node, NULL, 0);
    return true;
}

static bool parse_operation(kernel_parser *p, sc_loc loc, sc_node_kind kind, sc_knode *out_node)
{
    sc_parser *t = &p->tokens;
    operand_list list = {0};
    sc_dtype dtype;
    if (!parse_operands(p, &list))
        return false;
    const char *error = sc_kernel_operands_error(p->k, kind, list.nodes, list.count);
    if (error != NULL)
        return sc_parse_fail(t, loc, "%s: %s", sc_node_rows[kind].name, error);
    if (kind == SC_NODE_convert) {
        if (!parse_result(p, &dtype))
            return false;
        *out_node = sc_kernel_convert(p->k, list.nodes[0], dtype);
        return true;
    }
    if (kind == SC_NODE_random && p->k->nodes.data[list.nodes[1]].kind != SC_NODE_param)
        return sc_parse_fail(t, loc, "random: the key is a param");
    *out_node = kind == SC_NODE_random ? sc_kernel_random(p->k, list.nodes[0], list.nodes[1],
                                                          list.nodes[2], list.nodes[3])
                                       : sc_kernel_node_new(p->k, kind, list.nodes, list.count);
    return parse_its_result(p, *out_node);
}

/* %2 = load x %0, %1 : f32 */
static bool parse_node(kernel_parser *p)
{
    sc_parser *t = &p->tokens;
    const char *names[SC_NODE_COUNT];
    uint32_t kind;
    sc_sym name = t->token.sym;
    sc_knode node = SC_NONE;
    if (sc_map_find(&p->nodes, name) != NULL)
        return sc_parse_fail(t, sc_parse_loc(t), "%%%.40s is defined twice",
                             sc_text(p->k->context, name));
    sc_parse_advance(t);
    if (!sc_parse_expect(t, '='))
        return false;
    sc_loc loc = sc_parse_loc(t);
    for (uint32_t i = 0; i < SC_NODE_COUNT; i++)
        names[i] = sc_node_rows[i].name;
    if (!parse_choice(p, "a kind of node", names, SC_NODE_COUNT, &kind))
        return false;
    bool good = kind == SC_NODE_constant  ? parse_constant(p, &node)
                : kind == SC_NODE_index   ? parse_index(p, &node)
                : kind == SC_NODE_param   ? parse_param_node(p, &node)
                : kind == SC_NODE_load    ? parse_load(p, &node)
                : kind == SC_NODE_reduced ? parse_reduced(p, SC_NODE_reduced, &node)
                : kind == SC_NODE_running ? parse_reduced(p, SC_NODE_running, &node)
                                          : parse_operation(p, loc, (sc_node_kind)kind, &node);
    if (good)
        sc_map_insert(&p->nodes, name, node, NULL);
    return good;
}

/* ---- phases ---- */

/* #1 = sum %2, after the # */
static bool parse_reduction(kernel_parser *p, sc_kernel_item *item)
{
    sc_parser *t = &p->tokens;
    sc_loc loc = sc_parse_loc(t);
    int64_t number;
    uint32_t kind;
    if (!sc_parse_integer(t, 0, UINT32_MAX, &number))
        return false;
    if (number != p->k->items.count)
        return sc_parse_fail(t, loc, "items count from 0 through all phases: this is #%u",
                             p->k->items.count);
    if (!sc_parse_expect(t, '=') ||
        !parse_choice(p, "a reduction", sc_kernel_item_names, SC_ITEM_STORE, &kind))
        return false;
    item->kind = (sc_item_kind)kind;
    return parse_operand(p, &item->value);
}

/* store y %0, %1 = %4 if %5, after the first word */
static bool parse_store(kernel_parser *p, sc_kernel_item *item, operand_list *indices)
{
    if (!find(p, &p->args, "an argument", &item->arg) || !parse_operands(p, indices) ||
        !sc_parse_expect(&p->tokens, '=') || !parse_operand(p, &item->value) ||
        !parse_guard(p, &item->guard))
        return false;
    item->count = indices->count;
    return true;
}

static bool parse_check(kernel_parser *p, sc_kernel_item *item)
{
    sc_sym message;
    if (!parse_operand(p, &item->value) ||
        !sc_parse_string(&p->tokens, "what is wrong, in quotes", &message))
        return false;
    item->message = sc_text(p->k->context, message);
    return !sc_parse_accept_word(&p->tokens, "shows") || parse_operand(p, &item->shown);
}

static bool parse_item(kernel_parser *p)
{
    sc_parser *t = &p->tokens;
    sc_loc loc = sc_parse_loc(t);
    sc_kernel_item item = {.kind = SC_ITEM_CHECK, .guard = SC_NONE, .shown = SC_NONE};
    operand_list indices;
    bool good;
    if (sc_parse_accept(t, '#')) {
        good = parse_reduction(p, &item);
    } else if (sc_parse_accept_word(t, "check")) {
        good = parse_check(p, &item);
    } else {
        item.kind = sc_parse_at_word(t, "add") ? SC_ITEM_ADD : SC_ITEM_STORE;
        if (!sc_parse_accept_word(t, sc_kernel_item_names[item.kind]))
            return sc_parse_expected(t, "an item ('#', store, add, check) or '}'");
        good = parse_store(p, &item, &indices);
    }
    if (!good)
        return false;
    const char *error = sc_kernel_item_error(p->k, &item, indices.nodes);
    if (error != NULL)
        return sc_parse_fail(t, loc, "%s", error);
    sc_kernel_add_item(p->k, item, indices.nodes);
    return true;
}

/* phase S, D { .. } */
static bool parse_phase(kernel_parser *p)
{
    sc_parser *t = &p->tokens;
    uint32_t dims[SC_KERNEL_MAX_RANK], count = 0;
    while (t->token.kind != '{') {
        if (count > 0 && !sc_parse_expect(t, ','))
            return false;
        if (count == SC_KERNEL_MAX_RANK)
            return sc_parse_fail(t, sc_parse_loc(t), "a phase has at most %d dims",
                                 SC_KERNEL_MAX_RANK);
        if (!find(p, &p->dims, "a dim", &dims[count++]))
            return false;
    }
    sc_parse_advance(t);
    sc_kernel_add_phase(p->k, dims, count);
    while (!sc_parse_accept(t, '}')) {
        if (!parse_item(p))
            return false;
    }
    return true;
}

/* ---- the kernel ---- */

static bool parse_comment(kernel_parser *p)
{
    sc_sym text;
    if (!sc_parse_string(&p->tokens, "a line of the model in quotes", &text))
        return false;
    *sc_vec_push(arena_of(p), &p->k->comments) = sc_text(p->k->context, text);
    return true;
}

static const struct {
    const char *word;
    bool (*parse)(kernel_parser *p);
} statements[] = {
    {"from", parse_comment}, {"dim", parse_dim},     {"arg", parse_arg},
    {"param", parse_param},  {"outer", parse_outer}, {"phase", parse_phase},
};
enum { STATEMENTS = sizeof statements / sizeof *statements };

static bool parse_statement(kernel_parser *p)
{
    sc_parser *t = &p->tokens;
    if (t->token.kind == SC_TOKEN_VALUE)
        return parse_node(p);
    uint32_t i = 0;
    while (i < STATEMENTS && !sc_parse_at_word(t, statements[i].word))
        i++;
    if (i == STATEMENTS)
        return sc_parse_expected(t, "dim, arg, param, outer, a node, phase or '}'");
    sc_parse_advance(t);
    return statements[i].parse(p);
}

static bool check_reduced(kernel_parser *p)
{
    const sc_kernel *k = p->k;
    for (sc_knode n = 0; n < k->nodes.count; n++) {
        const sc_kernel_node *node = &k->nodes.data[n];
        if (node->kind != SC_NODE_reduced && node->kind != SC_NODE_running)
            continue;
        bool known =
            node->index < k->items.count && sc_item_reduces(k->items.data[node->index].kind);
        if (!known || k->nodes.data[k->items.data[node->index].value].dtype != node->dtype)
            return sc_parse_fail(&p->tokens, sc_parse_loc(&p->tokens),
                                 "there is no reduction #%u of %s", node->index,
                                 sc_dtypes[node->dtype].name);
    }
    return true;
}

/* kernel @k0 "softmax's last step" { .. } */
static bool parse_kernel(kernel_parser *p)
{
    sc_parser *t = &p->tokens;
    sc_parse_advance(t);
    if (!sc_parse_accept_word(t, "kernel"))
        return sc_parse_expected(t, "'kernel'");
    if (!sc_parse_expect(t, '@') || !sc_parse_name(t, "a name", &p->k->name))
        return false;
    if (t->token.kind == SC_TOKEN_STRING) {
        p->k->title = sc_text(p->k->context, t->token.sym);
        sc_parse_advance(t);
    }
    if (!sc_parse_expect(t, '{'))
        return false;
    while (t->token.kind != '}') {
        if (!parse_statement(p))
            return false;
    }
    if (!check_reduced(p))
        return false;
    sc_parse_advance(t);
    return t->token.kind == SC_TOKEN_END || sc_parse_expected(t, "the end of the text");
}

sc_kernel *sc_kernel_parse(sc_context *context, const char *text, size_t length, const char *file)
{
    const sc_source *source = sc_sources_add(&context->sources, file, text, length);
    if (source == NULL) {
        sc_report(&context->diag, SC_D_ir_syntax, (sc_loc){0}, "the text is too large", NULL);
        return NULL;
    }
    kernel_parser *p = sc_arena_alloc(&context->arena, sizeof *p);
    p->tokens.context = context;
    p->tokens.lexer =
        (sc_text_lexer){.context = context, .text = source->text, .length = source->length};
    p->tokens.base = source->base;
    p->dims.arena = p->args.arena = p->nodes.arena = &context->arena;
    p->k = sc_kernel_new(context, 0);
    return parse_kernel(p) ? p->k : NULL;
}
