/* Calls of language ops: finds the op, its dims and its arguments. The builders are in ops.c and
 * attention_ops.c. */
#include "frontend/elaborate/op.h"

#include <string.h>

static const sc_lang_op lang_ops[] = {
#define LANGUAGE_no(name, in)
#define LANGUAGE_number(name, in)  {#name, build_number, SC_OP_##name, 0, in, "", false},
#define LANGUAGE_numbers(name, in) {#name, build_numbers, SC_OP_##name, 0, in, "", false},
#define LANGUAGE_bools(name, in)   {#name, build_bools, SC_OP_##name, 0, in, "", false},
#define OP(name, in, roles, shape, eval, expand, derive, flops, bound, picks, ids, language, ...)  \
    LANGUAGE_##language(name, in)
#include "ir/ops/ops.def"
#undef OP
#define LANG(name, builder, kind, dims, values, options)                                           \
    {#name, builder, kind, dims, values, options, false},
#define LANG_TO(name, builder, kind, dims, values, options)                                        \
    {#name, builder, kind, dims, values, options, true},
#include "frontend/elaborate/lang_ops.def"
#undef LANG_TO
#undef LANG
    {"min", build_numbers, SC_OP_minimum, 0, 2, "", false},
    {"max", build_numbers, SC_OP_maximum, 0, 2, "", false},
};

enum { LANG_OP_COUNT = sizeof lang_ops / sizeof *lang_ops };

static const sc_lang_op *find_op(const char *name, bool has_dims)
{
    const sc_lang_op *found = NULL;
    for (int i = 0; i < LANG_OP_COUNT; i++) {
        if (lang_ops[i].name[0] == name[0] && strcmp(lang_ops[i].name, name) == 0 &&
            (found == NULL || (lang_ops[i].dims > 0) == has_dims))
            found = &lang_ops[i];
    }
    return found;
}

bool sc_lang_op_exists(const char *name)
{
    return find_op(name, false) != NULL;
}

void sc_lang_op_names(sc_context *context, sc_text_list *out)
{
    for (int i = 0; i < LANG_OP_COUNT; i++)
        *sc_vec_push(&context->arena, out) = lang_ops[i].name;
}

/* ---- dims in brackets ---- */
static bool check_dim_count(sc_op_call *c)
{
    sc_builder *b = c->f->b;
    uint32_t wanted = c->row->dims, given = c->expr->call.dims.count;
    if (wanted == given || (wanted == SC_SOME && given > 0))
        return true;
    const char *found = given == 0   ? "none are given"
                        : given == 1 ? "1 is given"
                                     : sc_build_text(b, "%u are given", given);
    if (wanted == 0)
        found = "some are given";
    sc_build_error(b, SC_D_wrong_count, c->expr->call.callee.loc, c->row->name,
                   wanted == SC_SOME ? "one or more dims in brackets"
                   : wanted == 0
                       ? "no dims in brackets"
                       : sc_build_text(b, "%s in brackets", sc_build_count(b, wanted, "dim")),
                   found);
    if (wanted > 0 && given == 0)
        sc_build_note(b, (sc_loc){0}, "name them: %s[D](..)", c->row->name);
    return false;
}

static bool is_listed(const sc_op_call *c, sc_dim leaf)
{
    for (uint32_t i = 0; i < c->leaf_count; i++) {
        if (c->leaves[i] == leaf)
            return true;
    }
    return false;
}

static bool add_leaves(sc_op_call *c, sc_dim dim, sc_loc loc)
{
    sc_builder *b = c->f->b;
    const sc_dim *parts;
    uint32_t count = sc_build_leaves(b, dim, &parts);
    for (uint32_t i = 0; i < (count == 0 ? 1 : count); i++) {
        sc_dim leaf = count == 0 ? dim : parts[i];
        if (!c->row->has_arrow && is_listed(c, leaf)) {
            sc_build_error(b, SC_D_bad_operand, loc,
                           sc_build_text(b, "dim %s is listed twice in the brackets",
                                         sc_name_text(b, b->m->dims.data[leaf].name)));
            return false;
        }
        if (c->leaf_count == SC_MAX_RANK) {
            sc_build_error(b, SC_D_too_large, loc, "more dims than a tensor can have");
            return false;
        }
        c->leaves[c->leaf_count++] = leaf;
    }
    return true;
}

static bool resolve_dims(sc_op_call *c)
{
    sc_builder *b = c->f->b;
    if (!check_dim_count(c))
        return false;
    for (uint32_t i = 0; i < c->expr->call.dims.count && i < SC_MAX_RANK; i++) {
        const sc_op_dim *dim = &c->expr->call.dims.data[i];
        bool arrow = c->row->has_arrow;
        if ((dim->to.text != 0) != arrow || dim->arrow != arrow) {
            sc_build_error(
                b, SC_D_bad_argument, dim->from.loc,
                arrow ? sc_build_text(b, "%s maps one dim to another: write %s[A -> B](..)",
                                      c->row->name, c->row->name)
                      : sc_build_text(b, "%s takes dims as they are, without '->' or '='",
                                      c->row->name));
            return false;
        }
        c->from[i] = sc_build_dim(c->f, dim->from);
        c->to[i] = arrow ? sc_build_dim(c->f, dim->to) : SC_NONE;
        if (c->from[i] == SC_NONE || (arrow && c->to[i] == SC_NONE) ||
            !add_leaves(c, c->from[i], dim->from.loc))
            return false;
        c->dim_count++;
    }
    return true;
}

/* ---- arguments ---- */

static void report_option(sc_op_call *c, const sc_arg *arg)
{
    sc_builder *b = c->f->b;
    const char *name = sc_name_text(b, arg->name.text), *list = c->row->options;
    sc_text_list names = {0};
    for (const char *p = list; *p != 0;) {
        size_t length = strcspn(p, " ");
        *sc_vec_push(&b->context->arena, &names) =
            sc_arena_copy_text(&b->context->arena, p, length);
        p += length + (p[length] == ' ');
    }
    sc_build_error(b, SC_D_bad_argument, arg->name.loc,
                   sc_build_text(b, "%s has no argument '%s'%s", c->row->name, name,
                                 sc_suggest(b->context, arg->name.text, &names)));
    if (list[0] != 0)
        sc_build_note(b, (sc_loc){0}, "its named arguments are %s", sc_word_list(b, list));
}

static bool take_argument(sc_op_call *c, const sc_arg *arg)
{
    sc_builder *b = c->f->b;
    if (arg->values.count != 1) {
        sc_build_error(b, SC_D_bad_argument, arg->loc,
                       sc_build_text(b, "%s takes no tuple", c->row->name));
        return false;
    }
    if (arg->name.text == 0) {
        if (c->value_count < SC_MAX_OPTIONS)
            c->values[c->value_count] = arg->values.data[0];
        c->value_count++;
        return true;
    }
    int index = sc_word_index(c->row->options, sc_name_text(b, arg->name.text));
    if (index < 0) {
        report_option(c, arg);
        return false;
    }
    if (c->options[index] != NULL) {
        sc_build_error(
            b, SC_D_bad_argument, arg->loc,
            sc_build_text(b, "argument '%s' is given twice", sc_name_text(b, arg->name.text)));
        sc_build_note(b, c->options[index]->loc, "first here");
        return false;
    }
    c->options[index] = arg;
    return true;
}

static bool take_arguments(sc_op_call *c)
{
    sc_builder *b = c->f->b;
    bool ok = true;
    for (uint32_t i = 0; i < c->expr->call.args.count; i++)
        ok = take_argument(c, &c->expr->call.args.data[i]) && ok;
    if (!ok || c->value_count == c->row->values)
        return ok;
    sc_build_error(b, SC_D_wrong_count, c->loc, c->row->name,
                   sc_build_count(b, c->row->values, "operand"), sc_build_given(b, c->value_count));
    if (c->row->options[0] != 0 && c->value_count > c->row->values)
        sc_build_note(b, (sc_loc){0}, "further arguments are named: %s",
                      sc_word_list(b, c->row->options));
    return false;
}

/* ---- calling ---- */
sc_bval_list sc_build_op(sc_frame *f, const sc_expr *expr)
{
    sc_op_call call = {.f = f, .expr = expr, .loc = expr->loc};
    call.row = find_op(sc_name_text(f->b, expr->call.callee.text), expr->call.has_dims);
    if (!resolve_dims(&call) || !take_arguments(&call)) {
        f->b->failed = true;
        return sc_no_results(&call);
    }
    return call.row->build(&call);
}
