/* Tensor names with holes: integer arithmetic over + - * / ( ), integers and names. */
#include "frontend/weights/pattern.h"

#include <string.h>

typedef struct hole {
    sc_context *context;
    const char *p;
    const sc_pattern_names *names;
    const char *problem;
    int depth;
} hole;

enum { MAX_DEPTH = 32 };

static int64_t fail(hole *h, const char *problem)
{
    if (h->problem == NULL)
        h->problem = problem;
    return 0;
}

static void skip_blanks(hole *h)
{
    while (*h->p == ' ' || *h->p == '\t')
        h->p++;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int64_t sum(hole *h);

static int64_t read_name(hole *h)
{
    const char *begin = h->p;
    int64_t value = 0;
    while (is_letter(*h->p) || is_digit(*h->p))
        h->p++;
    sc_sym name = sc_intern(&h->context->names, begin, (size_t)(h->p - begin));
    if (!h->names->value(h->names->user, name, &value))
        return fail(h, sc_arena_printf(&h->context->arena,
                                       "'%s' is neither the dim of a stack on the parameter's path "
                                       "nor a dim of the parameter",
                                       sc_text(h->context, name)));
    return value;
}

static int64_t read_integer(hole *h)
{
    int64_t value = 0;
    for (; is_digit(*h->p); h->p++) {
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_add_overflow(value, (int64_t)(*h->p - '0'), &value))
            return fail(h, "a number does not fit 64 bits");
    }
    return value;
}

static int64_t factor(hole *h)
{
    int64_t value = 0;
    skip_blanks(h);
    if (is_letter(*h->p))
        return read_name(h);
    if (is_digit(*h->p))
        return read_integer(h);
    if (*h->p != '(' || h->depth == MAX_DEPTH)
        return fail(h, h->depth == MAX_DEPTH ? "it is nested too deeply"
                                             : "an integer or a name is missing");
    h->p++;
    h->depth++;
    value = sum(h);
    h->depth--;
    skip_blanks(h);
    if (*h->p != ')')
        return fail(h, "a ')' is missing");
    h->p++;
    return value;
}

static int64_t product(hole *h)
{
    int64_t value = factor(h);
    for (;;) {
        skip_blanks(h);
        char op = *h->p;
        if ((op != '*' && op != '/') || h->problem != NULL)
            return value;
        h->p++;
        int64_t other = factor(h);
        if (op == '/' && (other <= 0 || value < 0))
            return h->problem != NULL ? 0 : fail(h, "a division needs positive numbers");
        if (op == '/')
            value /= other;
        else if (__builtin_mul_overflow(value, other, &value))
            return fail(h, "a number does not fit 64 bits");
    }
}

static int64_t sum(hole *h)
{
    int64_t value = product(h);
    for (;;) {
        skip_blanks(h);
        char op = *h->p;
        if ((op != '+' && op != '-') || h->problem != NULL)
            return value;
        h->p++;
        int64_t other = product(h);
        if (op == '+' ? __builtin_add_overflow(value, other, &value)
                      : __builtin_sub_overflow(value, other, &value))
            return fail(h, "a number does not fit 64 bits");
    }
}

const char *sc_pattern_fill(sc_context *context, const char *pattern, const sc_pattern_names *names,
                            const char **problem)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_strbuf_add(&out, "");
    hole h = {.context = context, .p = pattern, .names = names};
    while (*h.p != 0) {
        if (*h.p != '{' && *h.p != '}') {
            sc_strbuf_add_char(&out, *h.p++);
            continue;
        }
        if (*h.p++ == '}') {
            fail(&h, "'}' has no '{'");
            break;
        }
        int64_t value = sum(&h);
        skip_blanks(&h);
        if (*h.p++ != '}') {
            fail(&h, "'{' has no '}'");
            break;
        }
        if (value < 0)
            fail(&h, "an index is negative");
        sc_strbuf_add_integer(&out, value);
        if (h.problem != NULL)
            break;
    }
    *problem = h.problem;
    return h.problem == NULL ? out.data : NULL;
}
