/* Builders of ops that depend on positions. In a cached entry `at pos[B] along S`, position i of S
 * is pos + i, and caches hold earlier positions; the ops then have the operands pos and len. In
 * other entries positions count from 0, and append is only a rename. */
#include "frontend/elaborate/op.h"

#include <math.h>
#include <string.h>

#include "ir/ops/rope_scaling.h"

static const char *dim_text(const sc_op_call *c, sc_dim dim)
{
    return sc_name_text(c->f->b, c->f->b->m->dims.data[dim].name);
}

static bool is_along(const sc_op_call *c, sc_dim dim)
{
    return c->f->b->entry.cached && dim == c->f->b->entry.along;
}

/* Optional operands after the fixed ones; attribute `with` lists their names. */
typedef struct operand_list {
    uint32_t count, fixed;
    sc_value values[SC_MAX_FIXED_OPERANDS];
    sc_sym words[SC_MAX_FIXED_OPERANDS];
} operand_list;

static void add_operand(sc_op_call *c, operand_list *list, const char *word, sc_value value)
{
    list->words[list->count - list->fixed] = sc_intern_text(&c->f->b->context->names, word);
    list->values[list->count++] = value;
}

static uint32_t add_with(sc_op_call *c, const operand_list *list, sc_attr *attrs, uint32_t count)
{
    if (list->count > list->fixed)
        attrs[count++] =
            sc_attr_words(c->f->b->m, SC_ATTR_with, list->words, list->count - list->fixed);
    return count;
}

/* ---- positions ---- */
sc_bval_list build_positions(sc_op_call *c)
{
    sc_builder *b = c->f->b;
    sc_type_info info = {.dtype = SC_DTYPE_i32, .rank = 1, .placement = sc_placement_replicated()};
    info.dims[0] = (sc_type_dim){c->from[0], SC_NONE, sc_build_size(b, c->from[0])};
    if (c->leaf_count != 1 || c->leaves[0] != c->from[0])
        return sc_call_error(
            c, SC_D_bad_operand,
            sc_build_text(b, "positions count along a plain dim, but %s is a composite",
                          dim_text(c, c->from[0])));
    sc_type type = sc_type_intern(b->m, &info);
    sc_attr attr = sc_call_leaves_attr(c, SC_ATTR_dims);
    sc_value index = sc_emit_typed(c->f, c->loc, SC_OP_index, NULL, 0, &attr, 1, &type);
    if (!is_along(c, c->from[0]))
        return sc_one_tensor(c, index);
    sc_value operands[2] = {b->entry.pos, index};
    return sc_one_tensor(c, sc_emit(c->f, c->loc, SC_OP_add, operands, 2, NULL, 0, 0));
}

/* Reads `scaling`, a row of rope_scaling.def. Sets *counts_positions if it depends on how many are
 * in use. */
static bool rope_scaling(sc_op_call *c, sc_attr *attrs, uint32_t *count, bool *counts_positions)
{
    sc_builder *b = c->f->b;
    sc_bval scaling;
    const double *numbers;
    uint32_t number_count, kind = 0;
    static const char choices[] =
#define ROPE_SCALING(name, arguments) #name " "
#include "ir/ops/rope_scaling.def"
#undef ROPE_SCALING
        ;
    const char *names = sc_arena_copy_text(&b->context->arena, choices, sizeof choices - 2);
    if (!sc_call_word(c, "scaling", sc_rope_names[SC_ROPE_none], names, &scaling))
        return false;
    while (strcmp(sc_rope_names[kind], sc_name_text(b, scaling.word)) != 0)
        kind++;
    if (!sc_call_word_numbers(c, "scaling", &scaling, sc_rope_arguments[kind], &numbers,
                              &number_count))
        return false;
    for (uint32_t i = 0; i < number_count; i++) {
        bool is_switch = kind == SC_ROPE_yarn && i + 1 == number_count; /* truncate */
        if (is_switch ? numbers[i] == 0 || numbers[i] == 1 : numbers[i] > 0)
            continue;
        sc_build_error(b, SC_D_bad_argument, sc_call_option(c, "scaling")->loc,
                       is_switch ? "truncate is 0 or 1"
                                 : "the numbers of scaling must be positive");
        return false;
    }
    *counts_positions = kind == SC_ROPE_longrope;
    if (number_count > 0) {
        attrs[(*count)++] = sc_attr_text(SC_ATTR_scaling, scaling.word);
        attrs[(*count)++] = sc_attr_numbers(b->m, SC_ATTR_scaling_args, numbers, number_count);
    }
    return true;
}

/* Checks the dims of x and of its part that turns. */
static bool rope_dims(sc_op_call *c, sc_value x, sc_dim turned)
{
    sc_builder *b = c->f->b;
    for (uint32_t i = 0; i < 2; i++) {
        if (c->leaf_count == 2 && sc_type_find_dim(sc_build_type(b, x), c->from[i]) < 0) {
            sc_build_error(b, SC_D_missing_dim, c->loc, "rope", dim_text(c, c->from[i]),
                           sc_build_shape_text(b, sc_build_type(b, x), false));
            return false;
        }
    }
    int64_t size = sc_build_size(b, turned);
    if (c->leaf_count == 2 && size % 2 == 0)
        return true;
    sc_build_error(
        b, SC_D_bad_operand, c->loc,
        c->leaf_count != 2
            ? "rope rotates pairs along one plain dim by positions along another: rope[S, E](x, "
              "theta = 1e4)"
            : sc_build_text(b, "rope rotates pairs along %s, so its size must be even, not %lld",
                            dim_text(c, turned), (long long)size));
    return false;
}

/* Returns the dim of the elements that turn: E, or the smaller one of `dims`. SC_NONE after
 * reporting an error. */
static sc_dim turned_dim(sc_op_call *c)
{
    sc_builder *b = c->f->b;
    const sc_expr *expr = sc_call_option(c, "dims");
    if (expr == NULL)
        return c->from[1];
    if (expr->kind != SC_EXPR_NAME) {
        sc_build_error(b, SC_D_bad_argument, expr->loc,
                       "dims of rope is a dim: as many elements turn as it has");
        return SC_NONE;
    }
    sc_dim dim = sc_build_dim(c->f, (sc_name){expr->name, expr->loc});
    const sc_dim *parts;
    if (dim == SC_NONE)
        return SC_NONE;
    int64_t size = sc_build_size(b, dim), whole = sc_build_size(b, c->from[1]);
    if (sc_build_leaves(b, dim, &parts) == 0 && (size <= whole || size == 0 || whole == 0))
        return size == whole ? c->from[1] : dim;
    sc_build_error(b, SC_D_bad_argument, expr->loc,
                   sc_build_text(b,
                                 "dims of rope is a plain dim that is no larger than %s, whose "
                                 "size is %lld",
                                 dim_text(c, c->from[1]), (long long)whole));
    return SC_NONE;
}

/* The dim of the elements that stay where only the first ones turn. */
static sc_dim rest_dim(sc_op_call *c, sc_dim turned)
{
    sc_builder *b = c->f->b;
    sc_sym name = sc_intern_printf(&b->context->names, "%s.after_%s", dim_text(c, c->from[1]),
                                   dim_text(c, turned));
    sc_dim known = sc_module_find_dim(b->m, name);
    return known != SC_NONE ? known : sc_build_new_dim(b, name);
}

/* x[from -> to], from its `first` element on. */
static sc_value part_of(sc_op_call *c, sc_value x, sc_dim to, int64_t first, int64_t size)
{
    sc_attr attrs[3] = {sc_call_dim_attr(c, SC_ATTR_dims, c->from[1]),
                        sc_call_dim_attr(c, SC_ATTR_to, to), sc_attr_int(SC_ATTR_from, first)};
    return sc_emit(c->f, c->loc, SC_OP_slice, &x, 1, attrs, 3, size);
}

/* Puts the elements that stay, of x, after those that turned. */
static sc_value with_rest(sc_op_call *c, sc_value x, sc_value turned, sc_dim dim)
{
    sc_builder *b = c->f->b;
    int64_t first = sc_build_size(b, dim), size = sc_build_size(b, c->from[1]);
    sc_dim rest = rest_dim(c, dim);
    sc_value operands[2] = {turned, SC_NONE};
    operands[1] = part_of(c, x, rest, first, size == 0 || first == 0 ? 0 : size - first);
    if (operands[1] == SC_NONE || turned == SC_NONE)
        return SC_NONE;
    sc_attr attrs[3] = {sc_call_dim_attr(c, SC_ATTR_dims, dim),
                        sc_call_dim_attr(c, SC_ATTR_from_dims, rest),
                        sc_call_dim_attr(c, SC_ATTR_to, c->from[1])};
    return sc_emit(c->f, c->loc, SC_OP_concat, operands, 2, attrs, 3, size);
}

sc_bval_list build_rope(sc_op_call *c)
{
    sc_builder *b = c->f->b;
    double theta;
    sc_bval pairs;
    sc_attr attrs[6];
    uint32_t count = 0;
    bool counts_positions = false;
    sc_bval x = sc_call_value(c, 0);
    sc_dim turned = turned_dim(c);
    if (sc_call_option(c, "theta") == NULL)
        return sc_call_error(c, SC_D_wrong_count, "rope", "an argument 'theta'", "none is given");
    if (!sc_call_number(c, "theta", 1e4, &theta, NULL) ||
        !sc_call_word(c, "pairs", "halves", "halves interleaved", &pairs) ||
        !rope_scaling(c, attrs, &count, &counts_positions) || x.kind == SC_BVAL_NONE ||
        turned == SC_NONE)
        return sc_no_results(c);
    if (!(theta > 0))
        return sc_call_error(c, SC_D_bad_argument,
                             sc_build_text(b, "theta must be positive, not %g", theta));
    sc_dtype dtype = sc_build_compute_dtype(c->f, c->loc, &x, 1, true);
    operand_list operands = {.count = 1, .fixed = 1};
    sc_value whole = dtype == SC_DTYPE_COUNT ? SC_NONE : sc_build_as(c->f, c->loc, &x, dtype);
    if (whole == SC_NONE || !rope_dims(c, whole, turned))
        return sc_no_results(c);
    const bool is_part = turned != c->from[1];
    operands.values[0] = is_part ? part_of(c, whole, turned, 0, sc_build_size(b, turned)) : whole;
    if (operands.values[0] == SC_NONE)
        return sc_no_results(c);
    if (is_along(c, c->from[0]))
        add_operand(c, &operands, "pos", b->entry.pos);
    if (is_along(c, c->from[0]) && counts_positions)
        add_operand(c, &operands, "len", b->entry.len);
    sc_dim dims[2] = {c->from[0], turned};
    attrs[count++] = sc_attr_dims(b->m, SC_ATTR_dims, dims, 2);
    attrs[count++] = sc_attr_number(SC_ATTR_theta, theta);
    attrs[count++] = sc_attr_text(SC_ATTR_pairs, pairs.word);
    count = add_with(c, &operands, attrs, count);
    sc_value result =
        sc_emit(c->f, c->loc, SC_OP_rope, operands.values, operands.count, attrs, count, 0);
    return sc_one_tensor(c, is_part ? with_rest(c, whole, result, turned) : result);
}

sc_bval_list build_last(sc_op_call *c)
{
    sc_builder *b = c->f->b;
    operand_list operands = {.count = 1, .fixed = 1};
    sc_attr attrs[2];
    operands.values[0] = sc_call_tensor(c, 0);
    if (operands.values[0] == SC_NONE)
        return sc_no_results(c);
    if (c->leaf_count != 1)
        return sc_call_error(
            c, SC_D_bad_operand,
            sc_build_text(b, "positions count along a plain dim, but %s is a composite",
                          dim_text(c, c->from[0])));
    if (sc_type_find_dim(sc_build_type(b, operands.values[0]), c->leaves[0]) < 0)
        return sc_call_error(c, SC_D_missing_dim, "last", dim_text(c, c->from[0]),
                             sc_build_shape_text(b, sc_build_type(b, operands.values[0]), false));
    if (is_along(c, c->from[0]))
        add_operand(c, &operands, "len", b->entry.len);
    attrs[0] = sc_call_leaves_attr(c, SC_ATTR_dims);
    uint32_t count = add_with(c, &operands, attrs, 1);
    return sc_one_tensor(
        c, sc_emit(c->f, c->loc, SC_OP_last, operands.values, operands.count, attrs, count, 0));
}

/* ---- caches ---- */
static const sc_member *named_cache(sc_op_call *c)
{
    const sc_expr *expr = c->values[0];
    const sc_unit *unit = c->f->instance->unit;
    const sc_member *member =
        expr->kind == SC_EXPR_NAME && unit != NULL ? sc_unit_member(unit, expr->name) : NULL;
    if (member != NULL && member->kind == SC_MEMBER_CACHE)
        return sc_build_is_present(c->f, member, expr->loc) ? member : NULL;
    sc_build_error(c->f->b, SC_D_bad_operand, expr->loc,
                   "append writes into a cache of this block: append[S -> T](cache, x)");
    return NULL;
}

/* Checks that the appended value has the dims of the cache, with S in place of T. */
static bool fits_cache(sc_op_call *c, const sc_member *member, sc_value x)
{
    sc_builder *b = c->f->b;
    sc_type_info cache;
    sc_frame home = sc_build_home(c->f);
    if (!sc_build_shape(&home, member->decl->shape, &cache, NULL))
        return false;
    const sc_type_info *type = sc_build_type(b, x);
    if (sc_type_find_dim(type, c->from[0]) < 0) {
        sc_build_error(b, SC_D_missing_dim, c->loc, "append", dim_text(c, c->from[0]),
                       sc_build_shape_text(b, type, false));
        return false;
    }
    if (sc_type_find_dim(&cache, c->to[0]) < 0) {
        sc_build_error(b, SC_D_bad_operand, c->loc,
                       sc_build_text(b, "append[%s -> %s] writes along %s, but cache '%s' is %s",
                                     dim_text(c, c->from[0]), dim_text(c, c->to[0]),
                                     dim_text(c, c->to[0]), sc_name_text(b, member->name.text),
                                     sc_build_shape_text(b, &cache, false)));
        sc_build_note(b, member->name.loc, "it is declared here");
        return false;
    }
    bool fits = type->rank == cache.rank;
    for (uint32_t i = 0; i < type->rank && fits; i++) {
        int at = sc_type_find_dim(&cache,
                                  type->dims[i].dim == c->from[0] ? c->to[0] : type->dims[i].dim);
        fits = at >= 0 && cache.dims[at].group == type->dims[i].group;
    }
    if (fits)
        return true;
    sc_build_error(b, SC_D_shape_mismatch, c->loc, "the appended value",
                   sc_build_shape_text(b, type, false), sc_build_shape_text(b, &cache, false));
    sc_build_note(
        b, member->name.loc, "cache '%s' is declared here; %s of the value becomes its %s",
        sc_name_text(b, member->name.text), dim_text(c, c->from[0]), dim_text(c, c->to[0]));
    return false;
}

static sc_value append_to_cache(sc_op_call *c, const sc_member *member, sc_value x)
{
    sc_builder *b = c->f->b;
    sc_value cache = sc_build_cache(c->f, c->loc, member);
    if (cache == SC_NONE)
        return SC_NONE;
    operand_list operands = {.count = 2, .fixed = 2, .values = {cache}};
    operands.values[1] = sc_emit_cast(c->f, c->loc, x, sc_build_type(b, cache)->dtype);
    add_operand(c, &operands, "pos", b->entry.pos);
    add_operand(c, &operands, "len", b->entry.len);
    sc_attr attrs[3] = {sc_call_leaves_attr(c, SC_ATTR_dims),
                        sc_call_dim_attr(c, SC_ATTR_to, c->to[0])};
    uint32_t count = add_with(c, &operands, attrs, 2);
    sc_value result =
        sc_emit(c->f, c->loc, SC_OP_append, operands.values, operands.count, attrs, count, 0);
    if (result == SC_NONE)
        return SC_NONE;
    sc_build_write_cache(c->f, c->loc, member, result);
    if (b->result != NULL)
        b->result->cache_dim = c->to[0];
    return sc_emit_cast(c->f, c->loc, result, c->f->act);
}

sc_bval_list build_append(sc_op_call *c)
{
    sc_builder *b = c->f->b;
    const sc_member *member = named_cache(c);
    sc_value x = sc_call_tensor(c, 1);
    if (member == NULL || x == SC_NONE)
        return sc_no_results(c);
    if (!sc_build_is_alias_of(b, c->to[0], c->from[0]) || c->to[0] == c->from[0] ||
        c->leaf_count != 1)
        return sc_call_error(
            c, SC_D_bad_operand,
            sc_build_text(b, "append[%s -> %s] needs %s to be an alias of %s: dim %s = alias %s;",
                          dim_text(c, c->from[0]), dim_text(c, c->to[0]), dim_text(c, c->to[0]),
                          dim_text(c, c->from[0]), dim_text(c, c->to[0]), dim_text(c, c->from[0])));
    if (!fits_cache(c, member, x))
        return sc_no_results(c);
    if (is_along(c, c->from[0]))
        return sc_one_tensor(c, append_to_cache(c, member, x));
    sc_attr attrs[2] = {sc_call_leaves_attr(c, SC_ATTR_dims),
                        sc_call_dim_attr(c, SC_ATTR_to, c->to[0])};
    return sc_one_tensor(c, sc_emit(c->f, c->loc, SC_OP_rename, &x, 1, attrs, 2, 0));
}

/* ---- attention ---- */
/* Returns the dim of the queries that shares positions with T: T's original, or a dim with the same
 * original; SC_NONE if there is none. */
static sc_dim query_dim(const sc_builder *b, const sc_type_info *q, sc_dim t)
{
    for (uint32_t i = 0; i < q->rank; i++) {
        if (sc_build_is_alias_of(b, t, q->dims[i].dim))
            return q->dims[i].dim;
    }
    for (uint32_t i = 0; i < q->rank; i++) {
        if (sc_build_root(b, q->dims[i].dim) == sc_build_root(b, t))
            return q->dims[i].dim;
    }
    return SC_NONE;
}

static bool attend_keep(sc_op_call *c, operand_list *operands)
{
    const sc_expr *expr = sc_call_option(c, "keep");
    if (expr == NULL)
        return true;
    sc_bval keep = sc_build_expr(c->f, expr);
    if (keep.kind != SC_BVAL_TENSOR || sc_build_type(c->f->b, keep.value)->dtype != SC_DTYPE_bool) {
        if (keep.kind != SC_BVAL_NONE)
            sc_build_error(c->f->b, SC_D_dtype_mismatch, expr->loc, "keep",
                           keep.kind == SC_BVAL_TENSOR
                               ? sc_dtypes[sc_build_type(c->f->b, keep.value)->dtype].name
                               : "a number",
                           "bool");
        return false;
    }
    add_operand(c, operands, "keep", keep.value);
    return true;
}

static bool attend_bias(sc_op_call *c, operand_list *operands)
{
    const sc_expr *expr = sc_call_option(c, "bias");
    if (expr == NULL)
        return true;
    sc_bval bias = sc_build_expr(c->f, expr);
    if (bias.kind == SC_BVAL_TENSOR && sc_build_type(c->f->b, bias.value)->dtype == SC_DTYPE_bool) {
        sc_build_error(c->f->b, SC_D_dtype_mismatch, expr->loc, "bias", "bool", "a number");
        sc_build_note(c->f->b, (sc_loc){0}, "pass a bool mask as keep = ..");
        return false;
    }
    sc_value value = sc_build_as(c->f, expr->loc, &bias, c->f->act);
    if (value == SC_NONE)
        return false;
    add_operand(c, operands, "bias", value);
    return true;
}

static bool attend_sinks(sc_op_call *c, operand_list *operands)
{
    const sc_expr *expr = sc_call_option(c, "sinks");
    if (expr == NULL)
        return true;
    sc_bval sinks = sc_build_expr(c->f, expr);
    sc_value value = sc_build_as(c->f, expr->loc, &sinks, c->f->act);
    if (value == SC_NONE)
        return false;
    add_operand(c, operands, "sinks", value);
    return true;
}

/* Segment ids are given once, along the queries' dim; those of the keys are the same, renamed to
 * T. */
static bool attend_segments(sc_op_call *c, operand_list *operands, sc_dim s, bool live)
{
    sc_builder *b = c->f->b;
    const sc_expr *expr = sc_call_option(c, "segments");
    if (expr == NULL)
        return true;
    sc_bval ids = sc_build_expr(c->f, expr);
    if (ids.kind == SC_BVAL_NONE)
        return false;
    if (live) {
        sc_build_error(b, SC_D_not_compiled, expr->loc, "'segments' in a cached entry");
        return false;
    }
    const sc_type_info *type = ids.kind == SC_BVAL_TENSOR ? sc_build_type(b, ids.value) : NULL;
    if (type == NULL || sc_dtypes[type->dtype].kind != SC_DTYPE_INT || s == SC_NONE ||
        sc_type_find_dim(type, s) < 0) {
        sc_build_error(b, SC_D_bad_operand, expr->loc,
                       "segments are integer ids along the queries' position dim, of which the key "
                       "dim is an alias");
        return false;
    }
    sc_attr attrs[2] = {sc_attr_dims(b->m, SC_ATTR_dims, &s, 1),
                        sc_call_dim_attr(c, SC_ATTR_to, c->from[0])};
    sc_value keys = sc_emit(c->f, expr->loc, SC_OP_rename, &ids.value, 1, attrs, 2, 0);
    if (keys == SC_NONE)
        return false;
    add_operand(c, operands, "segments", ids.value);
    add_operand(c, operands, "key_segments", keys);
    return true;
}

static bool attend_mask(sc_op_call *c, sc_dim s, bool live, sc_attr *attrs, uint32_t *count)
{
    sc_builder *b = c->f->b;
    sc_bval mask;
    if (!sc_call_word(c, "mask", "none", "none causal window", &mask))
        return false;
    const sc_expr *expr = sc_call_option(c, "mask");
    const char *word = sc_name_text(b, mask.word);
    bool window = strcmp(word, "window") == 0, none = strcmp(word, "none") == 0;
    if (mask.count != (window ? 1 : 0) ||
        (window && !mask.numbers[0].unknown &&
         (!mask.numbers[0].is_integer || mask.numbers[0].number < 1))) {
        sc_build_error(b, SC_D_bad_argument, expr->loc,
                       window ? "a window has one size, an integer of at least 1: window(4096)"
                              : "this mask takes no number");
        return false;
    }
    if (s == SC_NONE && (!none || live)) {
        sc_build_error(
            b, SC_D_bad_operand, c->loc,
            sc_build_text(
                b, "%s compares positions, so %s must be an alias of a dim of the queries",
                none ? "attention in a cached entry" : sc_build_text(b, "mask = %s", word),
                dim_text(c, c->from[0])));
        sc_build_note(b, (sc_loc){0}, "declare it so: 'dim %s = alias S;'",
                      dim_text(c, c->from[0]));
        return false;
    }
    attrs[(*count)++] = sc_attr_text(SC_ATTR_mask, mask.word);
    if (window)
        attrs[(*count)++] = sc_attr_int(SC_ATTR_window, (int64_t)mask.numbers[0].number);
    if (s != SC_NONE)
        attrs[(*count)++] = sc_attr_dims(b->m, SC_ATTR_to, &s, 1);
    return true;
}

static bool attend_numbers(sc_op_call *c, sc_attr *attrs, uint32_t *count)
{
    sc_builder *b = c->f->b;
    int64_t size = sc_build_size(b, c->from[1]);
    double scale, softcap, dropout;
    if (!sc_call_number(c, "scale", size > 0 ? 1 / sqrt((double)size) : 1, &scale, NULL) ||
        !sc_call_number(c, "softcap", 0, &softcap, NULL) ||
        !sc_call_number(c, "dropout", 0, &dropout, NULL))
        return false;
    if (!(softcap >= 0) || !(dropout >= 0 && dropout < 1)) {
        sc_build_error(b, SC_D_bad_argument, c->loc,
                       !(softcap >= 0) ? "softcap must be positive"
                                       : "dropout takes a probability p with 0 <= p < 1");
        return false;
    }
    attrs[(*count)++] = sc_attr_number(SC_ATTR_scale, scale);
    if (softcap > 0)
        attrs[(*count)++] = sc_attr_number(SC_ATTR_softcap, softcap);
    if (dropout > 0 && b->request.training) {
        attrs[(*count)++] = sc_attr_number(SC_ATTR_p, dropout);
        attrs[(*count)++] = sc_attr_text(SC_ATTR_seed, sc_call_dropout_seed(c));
    }
    return true;
}

sc_bval_list build_attend(sc_op_call *c)
{
    sc_builder *b = c->f->b;
    operand_list operands = {.count = 3, .fixed = 3};
    sc_attr attrs[9]; /* dims, mask, window, to, scale, softcap, p, seed, with */
    uint32_t count = 0;
    for (uint32_t i = 0; i < 3; i++) {
        sc_bval value = sc_call_value(c, i);
        operands.values[i] = sc_build_as(c->f, c->values[i]->loc, &value, c->f->act);
    }
    if (operands.values[0] == SC_NONE || operands.values[1] == SC_NONE ||
        operands.values[2] == SC_NONE)
        return sc_no_results(c);
    if (c->leaf_count != 2)
        return sc_call_error(
            c, SC_D_bad_operand,
            "attend works over one plain key dim and one plain head dim: attend[T, E](q, k, v)");
    sc_dim s = query_dim(b, sc_build_type(b, operands.values[0]), c->from[0]);
    bool live = b->entry.cached && c->from[0] != b->entry.along &&
                sc_build_is_alias_of(b, c->from[0], b->entry.along);
    attrs[count++] = sc_call_leaves_attr(c, SC_ATTR_dims);
    if (!attend_mask(c, s, live, attrs, &count) || !attend_numbers(c, attrs, &count) ||
        !attend_keep(c, &operands) || !attend_bias(c, &operands) || !attend_sinks(c, &operands) ||
        !attend_segments(c, &operands, s, live))
        return sc_no_results(c);
    if (live) {
        add_operand(c, &operands, "pos", b->entry.pos);
        add_operand(c, &operands, "len", b->entry.len);
    }
    count = add_with(c, &operands, attrs, count);
    return sc_one_tensor(
        c, sc_emit(c->f, c->loc, SC_OP_attend, operands.values, operands.count, attrs, count, 0));
}
