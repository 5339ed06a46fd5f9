/* Helpers for builders of language ops: read a call's operands and options, make attributes of its
 * dims and wrap its results. */
#include "frontend/elaborate/op.h"

#include <string.h>

/* ---- results ---- */
sc_bval_list sc_one_result(sc_op_call *call, sc_bval value)
{
    sc_bval_list list = {sc_arena_alloc(&call->f->b->context->arena, sizeof value), 1};
    list.data[0] = value;
    return list;
}

sc_bval_list sc_no_results(sc_op_call *call)
{
    return sc_one_result(call, (sc_bval){.kind = SC_BVAL_NONE});
}

sc_bval_list sc_one_tensor(sc_op_call *call, sc_value value)
{
    return sc_one_result(call, sc_bval_tensor(value));
}

/* ---- dims in brackets ---- */
sc_attr sc_call_dim_attr(sc_op_call *call, sc_attr_key key, sc_dim dim)
{
    const sc_dim *parts;
    uint32_t count = sc_build_leaves(call->f->b, dim, &parts);
    return count == 0 ? sc_attr_dims(call->f->b->m, key, &dim, 1)
                      : sc_attr_dims(call->f->b->m, key, parts, count);
}

sc_attr sc_call_leaves_attr(sc_op_call *call, sc_attr_key key)
{
    return sc_attr_dims(call->f->b->m, key, call->leaves, call->leaf_count);
}

/* ---- lists of words ---- */
int sc_word_index(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (int i = 0; *list != 0; i++) {
        size_t end = strcspn(list, " ");
        if (end == length && memcmp(list, word, length) == 0)
            return i;
        list += end;
        list += *list == ' ';
    }
    return -1;
}

const char *sc_word_list(sc_builder *b, const char *list)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &b->context->arena);
    for (; *list != 0; list++) {
        sc_strbuf_add(&out, *list == ' ' ? "," : "");
        sc_strbuf_add_char(&out, *list);
    }
    return out.data;
}

/* ---- arguments ---- */
sc_bval sc_call_value(sc_op_call *call, uint32_t i)
{
    return sc_build_expr(call->f, call->values[i]);
}

static sc_value as_it_is(sc_frame *f, sc_loc loc, const sc_bval *value)
{
    if (value->kind == SC_BVAL_TENSOR)
        return value->value;
    return sc_build_as(f, loc, value, value->is_integer ? SC_DTYPE_i32 : SC_DTYPE_f32);
}

sc_value sc_call_tensor(sc_op_call *call, uint32_t i)
{
    sc_bval value = sc_call_value(call, i);
    return as_it_is(call->f, call->values[i]->loc, &value);
}

const sc_expr *sc_call_option(sc_op_call *call, const char *name)
{
    const sc_arg *arg = call->options[sc_word_index(call->row->options, name)];
    return arg == NULL ? NULL : arg->values.data[0];
}

bool sc_call_number(sc_op_call *call, const char *name, double otherwise, double *out, bool *known)
{
    const sc_expr *expr = sc_call_option(call, name);
    sc_bval value;
    *out = otherwise;
    if (known != NULL)
        *known = true;
    if (expr == NULL)
        return true;
    if (!sc_build_constant(call->f, expr,
                           sc_build_text(call->f->b, "argument '%s' of %s", name, call->row->name),
                           &value))
        return false;
    if (known != NULL)
        *known = !value.unknown;
    if (!value.unknown)
        *out = value.number;
    return true;
}

bool sc_call_integer(sc_op_call *call, const char *name, int64_t otherwise, int64_t *out)
{
    const sc_expr *expr = sc_call_option(call, name);
    sc_bval value;
    *out = otherwise;
    if (expr == NULL)
        return true;
    if (!sc_build_constant(call->f, expr,
                           sc_build_text(call->f->b, "argument '%s' of %s", name, call->row->name),
                           &value))
        return false;
    if (value.unknown)
        return true;
    if (!value.is_integer) {
        sc_build_error(
            call->f->b, SC_D_bad_argument, expr->loc,
            sc_build_text(call->f->b, "argument '%s' of %s is an integer", name, call->row->name));
        return false;
    }
    *out = value.integer;
    return true;
}

static bool word_numbers(sc_op_call *call, const char *name, const sc_expr *expr,
                         sc_word_option *out)
{
    sc_builder *b = call->f->b;
    uint32_t count = expr->call.args.count;
    if (count > 4 || expr->call.has_dims) {
        sc_build_error(b, SC_D_bad_argument, expr->loc,
                       sc_build_text(b, "argument '%s' of %s does not fit", name, call->row->name));
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const sc_arg *arg = &expr->call.args.data[i];
        if (arg->name.text != 0 || arg->values.count != 1) {
            sc_build_error(b, SC_D_bad_argument, arg->loc,
                           sc_build_text(b, "%s takes plain numbers", sc_name_text(b, out->word)));
            return false;
        }
        if (!sc_build_constant(call->f, arg->values.data[0], "this argument", &out->numbers[i]))
            return false;
    }
    out->count = count;
    return true;
}

bool sc_call_word(sc_op_call *call, const char *name, const char *otherwise, const char *choices,
                  sc_word_option *out)
{
    sc_builder *b = call->f->b;
    const sc_expr *expr = sc_call_option(call, name);
    *out = (sc_word_option){.word = sc_intern_text(&b->context->names, otherwise)};
    if (expr == NULL)
        return true;
    if (expr->kind == SC_EXPR_CALL) {
        out->word = expr->call.callee.text;
        if (!word_numbers(call, name, expr, out))
            return false;
    } else if (expr->kind == SC_EXPR_NAME) {
        const sc_bval *known = sc_build_find_static(call->f, expr->name);
        out->word = known != NULL && known->kind == SC_BVAL_WORD ? known->word : expr->name;
    } else {
        out->word = 0;
    }
    if (out->word != 0 && sc_word_index(choices, sc_name_text(b, out->word)) >= 0)
        return true;
    sc_build_error(b, SC_D_bad_argument, expr->loc,
                   sc_build_text(b, "argument '%s' of %s is one of %s", name, call->row->name,
                                 sc_word_list(b, choices)));
    return false;
}
