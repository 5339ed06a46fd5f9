/* Expressions of tables:
 *
 *   head_dim else hidden_size / num_attention_heads   the first of these that config.json has
 *   rope_parameters.rope_theta | rope_theta           two spellings, which agree if both are there
 *   not tie_word_embeddings else 1                    true and false are 1 and 0
 *   hidden_act is gelu_new                            1 or 0
 *   sqrt(x) log(x) max(x, y)                          as named
 *   has pad_token_id                                  1 if config.json has it and it is not null
 *   int(rotary_pct * head_dim)                        without what is behind the point
 *
 * A name is a dim of an earlier line or a key, with dots for keys of objects. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/number.h"
#include "tools/import/import.h"

typedef struct reader {
    sc_import_config *config;
    const sc_import_dims *dims;
    const char *within;
    const char *p;
    const char *bare; /* the key that the last operand is alone, or NULL */
    int depth;
    bool quiet; /* the value is known already: what follows only marks its keys as used */
} reader;

enum { MAX_DEPTH = 32 };

static const sc_import_value failed = {.state = SC_IMPORT_FAILED};

static sc_import_value integer_value(int64_t integer)
{
    return (sc_import_value){.state = SC_IMPORT_KNOWN,
                             .is_integer = true,
                             .integer = integer,
                             .number = (double)integer};
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool take(reader *r, const char *text)
{
    size_t length = strlen(text);
    r->p += strspn(r->p, " ");
    if (strncmp(r->p, text, length) != 0 ||
        (is_letter(text[0]) && (is_letter(r->p[length]) || is_digit(r->p[length]))))
        return false;
    r->p += length;
    return true;
}

/* Takes one of two operators; 0 if neither is next. */
static char take_one(reader *r, char a, char b)
{
    r->p += strspn(r->p, " ");
    const char op = *r->p;
    if (op != a && op != b)
        return 0;
    r->p++;
    return op;
}

static const char *take_name(reader *r)
{
    size_t length = 0;
    r->p += strspn(r->p, " ");
    while (is_letter(r->p[length]) || is_digit(r->p[length]) || r->p[length] == '.')
        length++;
    const char *name = sc_arena_copy_text(&r->config->context->arena, r->p, length);
    r->p += length;
    return name;
}

static void fail(const reader *r, const char *text)
{
    if (!r->quiet)
        sc_import_fail(r->config, "%s", text);
}

static sc_import_value of_json(reader *r, const char *key, const json_t *value)
{
    if (json_is_boolean(value))
        return integer_value(json_is_true(value));
    if (json_is_integer(value))
        return integer_value(json_integer_value(value));
    if (json_is_real(value))
        return (sc_import_value){.state = SC_IMPORT_KNOWN, .number = json_real_value(value)};
    fail(r, sc_arena_printf(&r->config->context->arena, "\"%s\" is a number here, not %s", key,
                            sc_import_text(r->config->context, value)));
    return failed;
}

static sc_import_value absent(reader *r, const char *key)
{
    return (sc_import_value){.missing = sc_arena_printf(&r->config->context->arena, "\"%s\"", key)};
}

/* The word behind `is`, which may have a dash. */
static const char *take_word(reader *r)
{
    r->p += strspn(r->p, " ");
    size_t length = strcspn(r->p, " ,)");
    const char *word = sc_arena_copy_text(&r->config->context->arena, r->p, length);
    r->p += length;
    return word;
}

/* `KEY`, or `KEY is WORD` */
static sc_import_value read_key(reader *r, const char *name)
{
    sc_context *context = r->config->context;
    const char *key = name;
    if (r->within != NULL) {
        const char *inner = sc_arena_printf(&context->arena, "%s.%s", r->within, name);
        key = sc_import_has(r->config, inner) ? inner : name;
    }
    const json_t *value = sc_import_get(r->config, key);
    if (take(r, "is")) {
        const char *word = take_word(r);
        if (value == NULL)
            return absent(r, name);
        if (json_is_string(value))
            return integer_value(strcmp(json_string_value(value), word) == 0);
        fail(r, sc_arena_printf(&context->arena, "\"%s\" is a word, not %s", key,
                                sc_import_text(context, value)));
        return failed;
    }
    r->bare = key;
    return value == NULL ? absent(r, key) : of_json(r, key, value);
}

static sc_import_value alternatives(reader *r);

/* `NAME(x)` or `max(x, y)`, behind its name; `nonzero(x)` is absent where x is 0. */
static sc_import_value call(reader *r, const char *name)
{
    sc_import_value x = failed, y = {.state = SC_IMPORT_KNOWN};
    bool is_max = strcmp(name, "max") == 0;
    if (r->depth++ < MAX_DEPTH) {
        x = alternatives(r);
        if (is_max)
            y = take(r, ",") ? alternatives(r) : failed;
    }
    r->depth--;
    r->bare = NULL;
    if (!take(r, ")"))
        return failed;
    if (x.state != SC_IMPORT_KNOWN || y.state != SC_IMPORT_KNOWN)
        return x.state != SC_IMPORT_KNOWN ? x : y;
    if (is_max)
        return x.number >= y.number ? x : y;
    if (strcmp(name, "nonzero") == 0)
        return x.number != 0.0 ? x : absent(r, name);
    double number = strcmp(name, "sqrt") == 0 ? sqrt(x.number) : log(x.number);
    if (isfinite(number))
        return (sc_import_value){.state = SC_IMPORT_KNOWN, .number = number};
    fail(r, sc_arena_printf(&r->config->context->arena, "there is no %s of %.17g", name, x.number));
    return failed;
}

static sc_import_value operand(reader *r)
{
    static const char *const functions[] = {"sqrt", "log", "max", "nonzero"};
    r->bare = NULL;
    if (take(r, "not")) {
        sc_import_value value = operand(r);
        r->bare = NULL;
        return value.state == SC_IMPORT_KNOWN ? integer_value(value.number == 0.0) : value;
    }
    if (take(r, "has"))
        return integer_value(sc_import_get(r->config, take_name(r)) != NULL);
    if (take(r, "int")) {
        sc_import_value value = operand(r);
        r->bare = NULL;
        bool fits = value.state == SC_IMPORT_KNOWN && fabs(value.number) < 1e15;
        return fits ? integer_value((int64_t)value.number) : value;
    }
    if (take(r, "(")) {
        sc_import_value value = failed;
        if (r->depth++ < MAX_DEPTH)
            value = alternatives(r);
        r->depth--;
        r->bare = NULL;
        return take(r, ")") ? value : failed;
    }
    if (is_digit(*r->p)) {
        char *end;
        bool is_integer =
            r->p[strspn(r->p, "0123456789")] != '.' && r->p[strspn(r->p, "0123456789")] != 'e';
        double number = sc_strtod(r->p, &end);
        r->p = end;
        return is_integer ? integer_value((int64_t)number)
                          : (sc_import_value){.state = SC_IMPORT_KNOWN, .number = number};
    }
    const char *name = take_name(r);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(name, functions[i]) == 0 && take(r, "("))
            return call(r, name);
    }
    uint32_t dims = r->dims == NULL ? 0 : r->dims->count;
    for (uint32_t i = 0; i < dims; i++) {
        if (strcmp(r->dims->data[i].name, name) == 0)
            return integer_value(r->dims->data[i].size);
    }
    return read_key(r, name);
}

static sc_import_value combine(reader *r, char op, sc_import_value a, sc_import_value b)
{
    if (a.state != SC_IMPORT_KNOWN)
        return a;
    if (b.state != SC_IMPORT_KNOWN)
        return b;
    bool integers = a.is_integer && b.is_integer;
    sc_import_value value = {.state = SC_IMPORT_KNOWN, .is_integer = integers};
    bool overflow = false;
    if (op == '/' &&
        (b.number == 0.0 || (integers && (b.integer < 1 || a.integer % b.integer != 0)))) {
        fail(r, sc_arena_printf(&r->config->context->arena, "%.17g does not divide %.17g", b.number,
                                a.number));
        return failed;
    }
    value.number = op == '*'   ? a.number * b.number
                   : op == '/' ? a.number / b.number
                   : op == '+' ? a.number + b.number
                               : a.number - b.number;
    if (integers) {
        overflow = op == '*'   ? __builtin_mul_overflow(a.integer, b.integer, &value.integer)
                   : op == '+' ? __builtin_add_overflow(a.integer, b.integer, &value.integer)
                   : op == '-' ? __builtin_sub_overflow(a.integer, b.integer, &value.integer)
                               : false;
        if (op == '/')
            value.integer = a.integer / b.integer;
    }
    if (!overflow)
        return value;
    fail(r, "a size does not fit 64 bits");
    return failed;
}

static sc_import_value product(reader *r)
{
    sc_import_value value = operand(r);
    for (;;) {
        char op = take_one(r, '*', '/');
        if (op == 0)
            return value;
        value = combine(r, op, value, operand(r));
        r->bare = NULL;
    }
}

static sc_import_value sum(reader *r)
{
    sc_import_value value = product(r);
    for (;;) {
        char op = take_one(r, '+', '-');
        if (op == 0)
            return value;
        value = combine(r, op, value, product(r));
        r->bare = NULL;
    }
}

/* Two spellings of one key; where config.json has both they must agree. */
static sc_import_value spellings(reader *r)
{
    sc_import_value value = sum(r);
    const char *key = r->bare;
    while (take(r, "|")) {
        sc_import_value other = sum(r);
        if (value.state == SC_IMPORT_ABSENT) {
            if (other.state == SC_IMPORT_ABSENT)
                other.missing = sc_arena_printf(&r->config->context->arena, "%s or %s",
                                                value.missing, other.missing);
            value = other;
            key = r->bare;
        } else if (value.state == SC_IMPORT_KNOWN && other.state == SC_IMPORT_KNOWN &&
                   value.number != other.number) {
            fail(r,
                 sc_arena_printf(&r->config->context->arena, "\"%s\" is %.17g and \"%s\" is %.17g",
                                 key == NULL ? "one spelling" : key, value.number,
                                 r->bare == NULL ? "another" : r->bare, other.number));
            value = failed;
        }
    }
    return value;
}

/* The first that is there. */
static sc_import_value alternatives(reader *r)
{
    bool was_quiet = r->quiet;
    sc_import_value value = spellings(r);
    while (take(r, "else")) {
        r->quiet = was_quiet || value.state != SC_IMPORT_ABSENT;
        sc_import_value other = spellings(r);
        r->quiet = was_quiet;
        if (value.state == SC_IMPORT_ABSENT)
            value = other;
    }
    r->bare = NULL;
    return value;
}

sc_import_value sc_import_evaluate(sc_import_config *config, const sc_import_dims *dims,
                                   const char *within, const char *expression)
{
    reader r = {.config = config, .dims = dims, .within = within, .p = expression};
    return alternatives(&r);
}
