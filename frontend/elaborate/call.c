/* Helpers for builders of language ops: read a call's operands and options, make attributes of its
 * dims and wrap its results. */
#include "frontend/elaborate/op.h"

#include <string.h>

#include "support/number.h"

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

bool sc_call_word(sc_op_call *call, const char *name, const char *otherwise, const char *choices,
                  sc_bval *out)
{
    sc_builder *b = call->f->b;
    const sc_expr *expr = sc_call_option(call, name);
    *out = (sc_bval){.kind = SC_BVAL_WORD, .word = sc_intern_text(&b->context->names, otherwise)};
    if (expr == NULL)
        return true;
    *out = sc_build_word(call->f, expr);
    if (out->kind != SC_BVAL_WORD)
        return false;
    if (out->word != 0 && sc_word_index(choices, sc_name_text(b, out->word)) >= 0)
        return true;
    sc_build_error(b, SC_D_bad_argument, expr->loc,
                   sc_build_text(b, "argument '%s' of %s is one of %s", name, call->row->name,
                                 sc_word_list(b, choices)));
    return false;
}

/* ---- numbers of words ---- */
enum { MOST_ENTRIES = 8 };

typedef struct signature_entry {
    const char *name;
    bool is_list, has_default;
    double number;               /* the default, or as given */
    const sc_word_number *given; /* by name; NULL: not */
} signature_entry;

typedef struct signature {
    const char *text;
    signature_entry entries[MOST_ENTRIES];
    uint32_t count, lists, required, optional; /* the last two: numbers to be given by place */
} signature;

static signature read_signature(sc_builder *b, const char *text)
{
    signature s = {.text = text};
    while (*text != 0 && s.count < MOST_ENTRIES) {
        size_t length = strcspn(text, " "), name = strcspn(text, ".= ");
        signature_entry *entry = &s.entries[s.count++];
        entry->name = sc_arena_copy_text(&b->context->arena, text, name);
        entry->is_list = text[name] == '.';
        entry->has_default = text[name] == '=';
        entry->number = entry->has_default ? sc_strtod(text + name + 1, NULL) : 0;
        s.lists += entry->is_list;
        s.required += !entry->is_list && !entry->has_default;
        s.optional += entry->has_default;
        text += length + (text[length] == ' ');
    }
    return s;
}

/* Takes the numbers that have names. */
static bool take_named(sc_op_call *call, const sc_bval *word, signature *s)
{
    sc_builder *b = call->f->b;
    for (uint32_t i = 0; i < word->count; i++) {
        const sc_word_number *number = &word->numbers[i];
        if (number->name.text == 0)
            continue;
        const char *name = sc_name_text(b, number->name.text);
        signature_entry *entry = NULL;
        for (uint32_t k = 0; k < s->count; k++) {
            if (!s->entries[k].is_list && strcmp(s->entries[k].name, name) == 0)
                entry = &s->entries[k];
        }
        if (entry == NULL || entry->given != NULL) {
            sc_build_error(b, SC_D_bad_argument, number->name.loc,
                           sc_build_text(b,
                                         entry == NULL ? "%s has no argument '%s'"
                                                       : "%s is given argument '%s' twice",
                                         sc_name_text(b, word->word), name));
            if (entry == NULL)
                sc_build_note(b, (sc_loc){0}, "its arguments are %s", sc_word_list(b, s->text));
            return false;
        }
        entry->given = number;
        *(entry->has_default ? &s->optional : &s->required) -= 1;
    }
    return true;
}

static bool report_numbers(sc_op_call *call, const char *name, const sc_bval *word,
                           const signature *s, uint32_t given)
{
    sc_builder *b = call->f->b;
    const char *wanted = s->lists > 0      ? "lists of one length, then numbers"
                         : s->optional > 0 ? sc_build_text(b, "%u to %u numbers by their places",
                                                           s->required, s->required + s->optional)
                                           : sc_build_count(b, s->required, "number");
    const char *text = sc_name_text(b, word->word);
    sc_build_error(b, SC_D_wrong_count, sc_call_option(call, name)->loc, text, wanted,
                   sc_build_given(b, given));
    if (s->count > 0)
        sc_build_note(b, (sc_loc){0}, "write %s(%s)", text, sc_word_list(b, s->text));
    return false;
}

/* Returns the length of the lists; false if the numbers by place do not fit. */
static bool list_length(const sc_bval *word, const signature *s, uint32_t given, uint32_t *length)
{
    if (given < s->required)
        return false;
    *length = s->lists == 0 ? 0 : (given - s->required) / s->lists;
    uint32_t run = 0;
    for (uint32_t i = 0; i < word->count; i++) {
        const sc_word_number *number = &word->numbers[i];
        run = number->list == 0 ? 0 : run + 1;
        if (run == 1 && i != (number->list - 1) * *length)
            return false;
        bool ends = i + 1 == word->count || word->numbers[i + 1].list != number->list;
        if (number->list != 0 && ends) {
            if (run != *length)
                return false;
            run = 0;
        }
    }
    return given - s->required - s->lists * *length <= s->optional;
}

bool sc_call_word_numbers(sc_op_call *call, const char *name, const sc_bval *word, const char *text,
                          const double **numbers, uint32_t *count)
{
    sc_builder *b = call->f->b;
    signature s = read_signature(b, text);
    uint32_t given = 0, length = 0, at = 0;
    if (!take_named(call, word, &s))
        return false;
    for (uint32_t i = 0; i < word->count; i++)
        given += word->numbers[i].name.text == 0;
    if (!list_length(word, &s, given, &length))
        return report_numbers(call, name, word, &s, given);
    double *out = sc_arena_array(&b->context->arena, s.lists * (size_t)length + (s.count - s.lists),
                                 sizeof *out);
    *numbers = out;
    for (uint32_t k = 0; k < s.count; k++) {
        const signature_entry *entry = &s.entries[k];
        for (uint32_t i = 0; i < (entry->is_list ? length : 1); i++) {
            while (at < word->count && word->numbers[at].name.text != 0)
                at++;
            if (entry->given != NULL)
                *out++ = entry->given->number;
            else
                *out++ = at < word->count ? word->numbers[at++].number : entry->number;
        }
    }
    *count = (uint32_t)(out - *numbers);
    return true;
}
