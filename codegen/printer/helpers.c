/* The table of helpers: their texts and what they call. */
#include "codegen/printer/helpers.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "codegen/kernel/types.h"

typedef struct sc_helper_row {
    const char *name;
    sc_helper_set needs;
    const char *text;
} sc_helper_row;

/* Generated from the sections of program/kernel_helpers.h and codegen/printer/array_helpers.h. */
static const sc_helper_row rows[SC_HELPER_COUNT] = {
#include "codegen/printer/helper_rows.inc"
};

const char *sc_helper_name(sc_helper helper)
{
    return rows[helper].name;
}

const char *sc_helper_text(sc_helper helper)
{
    return rows[helper].text;
}

/* A helper calls only earlier ones. */
sc_helper_set sc_helpers_closed(sc_helper_set helpers)
{
    for (int i = SC_HELPER_COUNT; i-- > 0;)
        helpers |= (helpers >> i & 1) != 0 ? rows[i].needs : 0;
    return helpers;
}

void sc_helpers_emit(sc_strbuf *out, sc_helper_set helpers)
{
    helpers = sc_helpers_closed(helpers);
    for (int i = 0; i < SC_HELPER_COUNT; i++) {
        if ((helpers >> i & 1) == 0)
            continue;
        sc_strbuf_add(out, rows[i].text);
        if (i > SC_HELPER_math || (helpers >> (i + 1) & 1) == 0)
            sc_strbuf_add_char(out, '\n');
    }
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* True if the helper's text defines a function or macro of this name: the name is on a line that
 * starts a definition, after a blank and before a parenthesis. */
static bool defines(const sc_helper_row *row, const char *name, size_t length)
{
    for (const char *line = row->text; line != NULL && *line != 0;
         line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, "static inline ", 14) != 0 && strncmp(line, "#define ", 8) != 0)
            continue;
        const char *attribute = strstr(line, ")) "), *stop = strchr(line, '\n');
        bool has_attribute = strncmp(line, "static inline __attribute__", 27) == 0 &&
                             attribute != NULL && attribute < stop;
        const char *end = strchr(has_attribute ? attribute + 2 : line, '(');
        if (end != NULL && (size_t)(end - line) > length && end[-(ptrdiff_t)length - 1] == ' ' &&
            memcmp(end - length, name, length) == 0)
            return true;
    }
    return false;
}

/* True if a C text of a kernel node calls the function. */
static bool is_called_by(const char *text, const char *name, size_t length)
{
    for (const char *at = strchr(text, '('); at != NULL; at = strchr(at + 1, '(')) {
        size_t before = (size_t)(at - text);
        if (before >= length && memcmp(at - length, name, length) == 0 &&
            (before == length || !is_name(at[-(ptrdiff_t)length - 1])))
            return true;
    }
    return false;
}

/* True for a call of a function that a row of nodes.def calls and that is no helper. */
static bool is_called_by_nodes(const char *name, size_t length)
{
    if (name[length] != '(')
        return false;
    for (int i = 0; i < SC_NODE_COUNT; i++) {
        if (is_called_by(sc_node_rows[i].f32, name, length) ||
            is_called_by(sc_node_rows[i].f64, name, length) ||
            is_called_by(sc_node_rows[i].integer, name, length))
            return true;
    }
    return false;
}

/* The names of math.h that helpers use; is_called_by_nodes has those that only nodes call. */
static bool is_of_libm(const char *name, size_t length)
{
    static const char *const names[] = {"INFINITY", "NAN",  "ceil",  "cos",   "erf",    "exp",
                                        "expm1",    "fabs", "fabsf", "floor", "floorf", "isinf",
                                        "isnan",    "log",  "log1p", "pow",   "sin",    "sqrt",
                                        "sqrtf",    "tanh", "trunc", "truncf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i][0] == name[0] && strncmp(names[i], name, length) == 0 && names[i][length] == 0)
            return true;
    }
    return false;
}

static sc_helper_set helpers_of_name(const char *name, size_t length)
{
    if (is_of_libm(name, length))
        return SC_HELPER(math);
    if (length < 3 || memcmp(name, "sc_", 3) != 0)
        return is_called_by_nodes(name, length) ? SC_HELPER(math) : 0;
    for (int i = 0; i < SC_HELPER_COUNT; i++) {
        if (defines(&rows[i], name, length))
            return (sc_helper_set)1 << i;
    }
    return 0;
}

sc_helper_set sc_helpers_named_in(const char *text)
{
    sc_helper_set named = 0;
    while (*text != 0) {
        const char *comment_end = text[0] == '/' && text[1] == '*' ? strstr(text + 2, "*/") : NULL;
        text = comment_end == NULL ? text : comment_end;
        size_t length = 0;
        while (is_name(text[length]))
            length++;
        if (length > 0)
            named |= helpers_of_name(text, length);
        text += length == 0 ? 1 : length;
    }
    return named;
}

uint64_t sc_uniform53_limit(double p)
{
    return (uint64_t)ceil(ldexp(p, 53));
}
