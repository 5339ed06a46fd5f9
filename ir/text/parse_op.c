/* Parses ops of `shardc.ir 1`: `%1 "path" = dot[D] %4, %5 {..} : type`. */
#include <string.h>

#include "ir/text/parse_internal.h"

void sc_parse_op_start(sc_parser *p)
{
    p->op_names.arena = p->attr_names.arena = p->values.arena = &p->context->arena;
    for (uint32_t k = 0; k < SC_OP_COUNT; k++)
        sc_map_insert(&p->op_names, sc_intern_text(&p->context->names, sc_ops[k].name), k, NULL);
    for (uint32_t k = 0; k < SC_ATTR_COUNT; k++)
        sc_map_insert(&p->attr_names, sc_intern_text(&p->context->names, sc_attr_names[k]), k,
                      NULL);
}

/* ---- values ---- */

static uint64_t value_key(const sc_parser *p, sc_sym name)
{
    return ((uint64_t)p->func << 32) | name;
}

/* %3 "a.values", %4 = */
static bool parse_results(sc_parser *p)
{
    p->results.count = p->paths.count = 0;
    if (p->token.kind != SC_TOKEN_VALUE)
        return true;
    do {
        if (p->token.kind != SC_TOKEN_VALUE)
            return sc_parse_expected(p, "a value");
        *sc_vec_push(&p->context->arena, &p->results) = p->token;
        *sc_vec_push(&p->context->arena, &p->paths) = 0;
        sc_parse_advance(p);
        if (p->token.kind == SC_TOKEN_STRING &&
            !sc_parse_name(p, "a path", &p->paths.data[p->paths.count - 1]))
            return false;
    } while (sc_parse_accept(p, ','));
    return sc_parse_expect(p, '=');
}

static bool parse_operand(sc_parser *p)
{
    if (p->token.kind != SC_TOKEN_VALUE)
        return sc_parse_expected(p, "a value");
    const uint32_t *value = sc_map_find(&p->values, value_key(p, p->token.sym));
    if (value == NULL)
        return sc_parse_fail(p, sc_parse_loc(p), "%%%.40s is not defined above",
                             sc_text(p->context, p->token.sym));
    if (*value == SC_NONE) /* already reported at its definition */
        return false;
    *sc_vec_push(&p->context->arena, &p->operands) = *value;
    sc_parse_advance(p);
    return true;
}

/* `return` may have none: a value at the start of a line belongs to the next op. */
static bool parse_operands(sc_parser *p)
{
    p->operands.count = 0;
    if (p->token.kind != SC_TOKEN_VALUE || p->token.first_on_line)
        return true;
    do {
        if (!parse_operand(p))
            return false;
    } while (sc_parse_accept(p, ','));
    return true;
}

static bool parse_types(sc_parser *p)
{
    p->types.count = 0;
    if (p->results.count == 0)
        return true;
    if (!sc_parse_expect(p, ':'))
        return false;
    for (uint32_t r = 0; r < p->results.count; r++) {
        sc_type type;
        if ((r > 0 && !sc_parse_expect(p, ',')) || !sc_parse_type(p, &type))
            return false;
        *sc_vec_push(&p->context->arena, &p->types) = type;
    }
    return true;
}

/* ---- attributes ---- */

/* One list within an op's brackets; `()` is the empty list. */
static bool parse_bracket_list(sc_parser *p, sc_attr_key key)
{
    sc_loc loc = sc_parse_loc(p);
    p->dims.count = 0;
    bool empty = sc_parse_accept(p, '(');
    if (empty ? !sc_parse_expect(p, ')') : !sc_parse_dims(p))
        return false;
    if (p->dims.count > SC_MAX_RANK)
        return sc_parse_fail(p, loc, "an op acts on at most %d dims", SC_MAX_RANK);
    p->attrs[p->attr_count++] = sc_attr_dims(p->m, key, p->dims.data, p->dims.count);
    return true;
}

/* [D], [A + R -> E], [S -> T] */
static bool parse_brackets(sc_parser *p)
{
    if (!sc_parse_accept(p, '['))
        return true;
    if (sc_parse_accept(p, ']')) {
        p->attrs[p->attr_count++] = sc_attr_dims(p->m, SC_ATTR_dims, NULL, 0);
        return true;
    }
    bool dims = p->token.kind != '+' && p->token.kind != SC_TOKEN_ARROW;
    if (dims && !parse_bracket_list(p, SC_ATTR_dims))
        return false;
    if (sc_parse_accept(p, '+') && !parse_bracket_list(p, SC_ATTR_from_dims))
        return false;
    if (sc_parse_accept(p, SC_TOKEN_ARROW) && !parse_bracket_list(p, SC_ATTR_to))
        return false;
    return sc_parse_expect(p, ']');
}

static bool parse_split(sc_parser *p)
{
    sc_split split = {0};
    if (!sc_parse_leaf(p, &split.dim) || !sc_parse_expect(p, '@') ||
        !sc_parse_sub_axis_list(p, &split.sub_axes))
        return false;
    *sc_vec_push(&p->context->arena, &p->splits) = split;
    return true;
}

static bool parse_item(sc_parser *p, sc_attr_kind kind)
{
    sc_arena *arena = &p->context->arena;
    int64_t integer;
    double number;
    sc_sym word;
    switch (kind) {
    case SC_ATTR_KIND_DIMS:
        return sc_parse_dims(p); /* any number of names */
    case SC_ATTR_KIND_INTS:
        if (!sc_parse_integer(p, INT64_MIN, INT64_MAX, &integer))
            return false;
        *sc_vec_push(arena, &p->ints) = integer;
        return true;
    case SC_ATTR_KIND_FLOATS:
        if (!sc_parse_number(p, &number))
            return false;
        *sc_vec_push(arena, &p->numbers) = number;
        return true;
    case SC_ATTR_KIND_WORDS:
        if (!sc_parse_name(p, "a word", &word))
            return false;
        *sc_vec_push(arena, &p->words) = word;
        return true;
    default:
        return parse_split(p);
    }
}

static sc_attr list_attr(sc_parser *p, sc_attr_key key)
{
    switch (sc_attr_kinds[key]) {
    case SC_ATTR_KIND_DIMS:
        return sc_attr_dims(p->m, key, p->dims.data, p->dims.count);
    case SC_ATTR_KIND_INTS: {
        int64_t *ints = sc_arena_array(&p->context->arena, p->ints.count, sizeof *ints);
        if (p->ints.count > 0)
            memcpy(ints, p->ints.data, p->ints.count * sizeof *ints);
        return (sc_attr){.key = (uint16_t)key, .count = p->ints.count, .ints = ints};
    }
    case SC_ATTR_KIND_FLOATS:
        return sc_attr_numbers(p->m, key, p->numbers.data, p->numbers.count);
    case SC_ATTR_KIND_WORDS:
        return sc_attr_words(p->m, key, p->words.data, p->words.count);
    default:
        return sc_attr_splits(p->m, key, p->splits.data, p->splits.count);
    }
}

static bool parse_list(sc_parser *p, sc_attr_key key, sc_attr *out_attr)
{
    if (!sc_parse_expect(p, '['))
        return false;
    if (sc_attr_kinds[key] == SC_ATTR_KIND_SUB_AXES) {
        sc_sub_axis_list sub_axes;
        if (!sc_parse_sub_axis_items(p, ']', &sub_axes))
            return false;
        *out_attr = sc_attr_sub_axes(p->m, key, sub_axes.sub_axes, sub_axes.count);
        return true;
    }
    p->dims.count = p->ints.count = p->numbers.count = p->words.count = p->splits.count = 0;
    if (!sc_parse_accept(p, ']')) {
        do {
            if (!parse_item(p, sc_attr_kinds[key]))
                return false;
        } while (sc_parse_accept(p, ','));
        if (!sc_parse_expect(p, ']'))
            return false;
    }
    *out_attr = list_attr(p, key);
    return true;
}

static bool parse_attr_value(sc_parser *p, sc_attr_key key, sc_attr *out_attr)
{
    int64_t integer;
    double number;
    sc_sym text;
    switch (sc_attr_kinds[key]) {
    case SC_ATTR_KIND_INT:
        if (!sc_parse_integer(p, INT64_MIN, INT64_MAX, &integer))
            return false;
        *out_attr = sc_attr_int(key, integer);
        return true;
    case SC_ATTR_KIND_FLOAT:
        if (!sc_parse_number(p, &number))
            return false;
        *out_attr = sc_attr_number(key, number);
        return true;
    case SC_ATTR_KIND_WORD:
        if (!sc_parse_name(p, "a word", &text))
            return false;
        *out_attr = sc_attr_text(key, text);
        return true;
    case SC_ATTR_KIND_TEXT:
        if (!sc_parse_string(p, "a text in quotes", &text))
            return false;
        *out_attr = sc_attr_text(key, text);
        return true;
    default:
        return parse_list(p, key, out_attr);
    }
}

static bool parse_attr_key(sc_parser *p, sc_attr_key *out_key)
{
    sc_loc loc = sc_parse_loc(p);
    sc_sym name = p->token.sym;
    if (p->token.kind != SC_TOKEN_WORD)
        return sc_parse_expected(p, "an attribute");
    const uint32_t *key = sc_map_find(&p->attr_names, name);
    if (key == NULL)
        return sc_parse_unknown(p, loc, "attribute", name, sc_attr_names, SC_ATTR_COUNT);
    if (*key == SC_ATTR_dims || *key == SC_ATTR_from_dims || *key == SC_ATTR_to)
        return sc_parse_fail(p, loc, "'%s' goes in brackets after the op: [dims + from_dims -> to]",
                             sc_attr_names[*key]);
    for (uint32_t i = 0; i < p->attr_count; i++) {
        if (p->attrs[i].key == *key)
            return sc_parse_fail(p, loc, "'%s' is listed twice here", sc_attr_names[*key]);
    }
    *out_key = (sc_attr_key)*key;
    sc_parse_advance(p);
    return true;
}

static bool parse_attrs(sc_parser *p)
{
    if (!sc_parse_accept(p, '{'))
        return true;
    do {
        sc_attr_key key = SC_ATTR_COUNT;
        sc_attr attr;
        if (!parse_attr_key(p, &key) || !sc_parse_expect(p, '='))
            return false;
        sc_loc loc = sc_parse_loc(p);
        if (!parse_attr_value(p, key, &attr))
            return false;
        if (key == SC_ATTR_rule && (attr.integer < 0 || attr.integer >= p->m->rules.count))
            return sc_parse_fail(p, loc, "there is no rule %lld", (long long)attr.integer);
        p->attrs[p->attr_count++] = attr;
    } while (sc_parse_accept(p, ','));
    return sc_parse_expect(p, '}');
}

/* ---- the op ---- */

static bool check_counts(sc_parser *p, sc_loc loc, sc_op_kind kind)
{
    const sc_op_row *row = &sc_ops[kind];
    uint32_t named = 0;
    if (row->operands == SC_ANY)
        return true;
    for (uint32_t i = 0; i < p->attr_count; i++) {
        if (p->attrs[i].key == SC_ATTR_with)
            named = p->attrs[i].count;
    }
    if (named > SC_MAX_FIXED_OPERANDS || p->operands.count != (uint32_t)row->operands + named)
        return sc_parse_fail(
            p, loc, "'%s' has %d operands and one for each name of 'with': %u, not %u", row->name,
            row->operands, (uint32_t)row->operands + named, p->operands.count);
    if (p->operands.count > SC_MAX_FIXED_OPERANDS || p->results.count > SC_MAX_FIXED_RESULTS)
        return sc_parse_fail(p, loc, "'%s' has at most %d operands and %d results", row->name,
                             SC_MAX_FIXED_OPERANDS, SC_MAX_FIXED_RESULTS);
    return true;
}

static bool parse_op_kind(sc_parser *p, sc_op_kind *out_kind)
{
    if (p->token.kind != SC_TOKEN_WORD)
        return sc_parse_expected(p, "an op");
    const uint32_t *kind = sc_map_find(&p->op_names, p->token.sym);
    if (kind == NULL) {
        const char *names[SC_OP_COUNT];
        for (int k = 0; k < SC_OP_COUNT; k++)
            names[k] = sc_ops[k].name;
        return sc_parse_unknown(p, sc_parse_loc(p), "op", p->token.sym, names, SC_OP_COUNT);
    }
    *out_kind = (sc_op_kind)*kind;
    sc_parse_advance(p);
    return true;
}

/* Defines the results; SC_NONE for an op with an error, so that their uses are not reported too. */
static bool define_results(sc_parser *p, sc_op_id op)
{
    bool good = true;
    for (uint32_t r = 0; r < p->results.count; r++) {
        sc_token token = p->results.data[r];
        bool is_new;
        sc_map_insert(&p->values, value_key(p, token.sym),
                      op == SC_NONE ? SC_NONE : sc_result(p->m, op, r), &is_new);
        if (!is_new && op != SC_NONE)
            good = sc_parse_fail(p, (sc_loc){p->base + token.begin, p->base + token.end},
                                 "%%%.40s is defined twice", sc_text(p->context, token.sym));
        if (op != SC_NONE)
            p->m->values.data[sc_result(p->m, op, r)].path = p->paths.data[r];
    }
    return good;
}

static bool parse_op_text(sc_parser *p, sc_op_kind *out_kind, sc_loc *out_loc)
{
    p->attr_count = 0;
    if (!parse_results(p))
        return false;
    *out_loc = sc_parse_loc(p);
    return parse_op_kind(p, out_kind) && parse_brackets(p) && parse_operands(p) && parse_attrs(p) &&
           parse_types(p) && check_counts(p, *out_loc, *out_kind);
}

bool sc_parse_op(sc_parser *p, sc_sym scope)
{
    sc_op_kind kind = SC_OP_COUNT;
    sc_loc loc = {0};
    if (!parse_op_text(p, &kind, &loc)) {
        define_results(p, SC_NONE);
        return false;
    }
    sc_op_id op = sc_op_new(p->m, p->func, SC_NONE, kind, p->operands.data, p->operands.count,
                            p->attrs, p->attr_count, p->types.data, p->results.count, SC_NONE);
    sc_op_at(p->m, op)->loc = loc;
    sc_op_at(p->m, op)->scope = scope;
    sc_op_at(p->m, op)->chunk = p->chunk;
    return define_results(p, op);
}
