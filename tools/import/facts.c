/* Sizes and static arguments of one config.json, as the rows of its family's table say. */
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/number.h"
#include "tools/import/import.h"

typedef struct finder {
    sc_import_config *config;
    sc_context *context;
    sc_import_facts *facts;
} finder;

int64_t sc_import_size(const sc_import_facts *facts, const char *dim)
{
    for (uint32_t i = 0; i < facts->dims.count; i++) {
        if (strcmp(facts->dims.data[i].name, dim) == 0)
            return facts->dims.data[i].size;
    }
    return 0;
}

/* Returns the next word of a list and moves behind it; NULL at its end. */
static const char *next_word(sc_context *context, const char **list, const char *ends)
{
    *list += strspn(*list, " ");
    size_t length = strcspn(*list, ends);
    if (length == 0)
        return NULL;
    const char *word = sc_arena_copy_text(&context->arena, *list, length);
    *list += length;
    return word;
}

/* ---- numbers ---- */
static const char *number_text(sc_context *context, const sc_import_value *value)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    bool is_whole = fabs(value->number) < 1e15 && value->number == floor(value->number);
    if (value->is_integer || is_whole)
        sc_strbuf_add_integer(&text, value->is_integer ? value->integer : (int64_t)value->number);
    else
        sc_strbuf_add_double(&text, value->number);
    return text.data;
}

static void report_missing(finder *f, const char *key, const char *what, const char *name)
{
    sc_import_fail(f->config, "%s is missing, of which %s '%s' is made; nothing is assumed", key,
                   what, name);
}

static void add_arg(finder *f, const char *name, const char *text, double number)
{
    *sc_vec_push(&f->context->arena, &f->facts->args) = (sc_import_arg){name, text, number};
}

static void read_dim(finder *f, const sc_import_row *row)
{
    sc_import_value value = sc_import_evaluate(f->config, &f->facts->dims, NULL, row->value);
    if (value.state == SC_IMPORT_ABSENT)
        report_missing(f, value.missing, "dim", row->name);
    else if (value.state == SC_IMPORT_KNOWN && (!value.is_integer || value.integer < 1))
        sc_import_fail(f->config, "dim '%s' (%s) is %s, not a size", row->name, row->value,
                       number_text(f->context, &value));
    else if (value.state == SC_IMPORT_KNOWN)
        *sc_vec_push(&f->context->arena, &f->facts->dims) =
            (sc_import_dim){row->name, value.integer};
}

static void read_arg(finder *f, const sc_import_row *row)
{
    sc_import_value value = sc_import_evaluate(f->config, &f->facts->dims, NULL, row->value);
    if (value.state == SC_IMPORT_ABSENT)
        report_missing(f, value.missing, "argument", row->name);
    else if (value.state == SC_IMPORT_KNOWN)
        add_arg(f, row->name, number_text(f->context, &value), value.number);
}

/* ---- lists: KEY: WORD VALUE, WORD VALUE ---- */
/* Appends what the table says of one element; false if it says nothing. */
static bool add_element(finder *f, const char *cases, const char *element, sc_strbuf *out)
{
    while (*cases != 0) {
        const char *word = next_word(f->context, &cases, " ,");
        const char *expression = next_word(f->context, &cases, ",");
        cases += *cases == ',';
        if (word == NULL || expression == NULL || strcmp(word, element) != 0)
            continue;
        sc_import_value value = sc_import_evaluate(f->config, &f->facts->dims, NULL, expression);
        if (value.state == SC_IMPORT_ABSENT)
            report_missing(f, value.missing, "list element", element);
        if (value.state == SC_IMPORT_KNOWN)
            sc_strbuf_add(out, number_text(f->context, &value));
        return true;
    }
    return false;
}

/* The element that is meant where config.json has no list: with `every`, of so many layers the last
 * is of the last kind in the table, the others are of the first; else the first ones are of the
 * first kind. */
static const char *element_of_pattern(finder *f, const char *cases, int64_t layer, int64_t number,
                                      bool every)
{
    const char *first = next_word(f->context, &cases, " ,"), *last = first;
    while (*cases != 0) {
        cases += strcspn(cases, ",");
        cases += *cases == ',';
        const char *word = next_word(f->context, &cases, " ,");
        last = word == NULL ? last : word;
    }
    return (every ? (layer + 1) % number == 0 : layer >= number) ? last : first;
}

/* Appends the values of a list that config.json has as `every EXPR` or `first EXPR`; false if it
 * has not. */
static bool add_pattern(finder *f, const char *cases, const char *pattern, sc_strbuf *out)
{
    const char *word = next_word(f->context, &pattern, " ");
    const bool every = strcmp(word, "every") == 0;
    sc_import_value value = sc_import_evaluate(f->config, &f->facts->dims, NULL, pattern);
    int64_t layers = sc_import_size(f->facts, "L");
    if (value.state != SC_IMPORT_KNOWN || value.integer < (every ? 1 : 0))
        return false;
    for (int64_t i = 0; i < layers; i++) {
        sc_strbuf_add(out, i == 0 ? "[" : ", ");
        add_element(f, cases, element_of_pattern(f, cases, i, value.integer, every), out);
    }
    return true;
}

/* Where a list's row says what a missing list follows from; the values of its cases may have an
 * `else` of their own. */
static const char *find_pattern(const char *value)
{
    const char *every = strstr(value, " else every ");
    return every != NULL ? every : strstr(value, " else first ");
}

/* Adds the argument; a list of one value, however often, as that value. */
static void add_list(finder *f, const char *name, const char *list)
{
    const char *rest = list, *first = NULL;
    bool differ = false;
    while (*rest != 0) {
        rest += strspn(rest, "[], ");
        const char *value = next_word(f->context, &rest, "], ");
        first = first == NULL ? value : first;
        differ = differ || (value != NULL && strcmp(value, first) != 0);
    }
    if (first == NULL || differ)
        add_arg(f, name, list, NAN);
    else
        add_arg(f, name, first, sc_strtod(first, NULL));
}

static void read_list(finder *f, const sc_import_row *row)
{
    const char *cases = row->value, *pattern = find_pattern(row->value);
    const char *key = next_word(f->context, &cases, ":");
    cases += *cases == ':';
    if (pattern != NULL)
        cases = sc_arena_copy_text(&f->context->arena, cases, (size_t)(pattern - cases));
    const json_t *list = sc_import_get(f->config, key);
    sc_strbuf text, unread;
    sc_strbuf_init(&text, &f->context->arena);
    sc_strbuf_init(&unread, &f->context->arena);
    const char *rest = pattern == NULL ? NULL : pattern + strlen(" else ");
    if (list == NULL && (rest == NULL || !add_pattern(f, cases, rest, &text))) {
        report_missing(f,
                       sc_arena_printf(&f->context->arena, "\"%s\"%s%s", key,
                                       rest == NULL ? "" : ", or what it follows from, ",
                                       rest == NULL ? "" : rest),
                       "argument", row->name);
        return;
    }
    if (list != NULL && rest != NULL) /* marks its keys as used */
        add_pattern(f, cases, rest, &unread);
    if (list != NULL && !json_is_array(list)) {
        sc_import_fail(f->config, "\"%s\" is a list, not %s", key,
                       sc_import_text(f->context, list));
        return;
    }
    const size_t elements = list == NULL ? 0 : json_array_size(list);
    for (size_t i = 0; i < elements; i++) {
        const json_t *element = json_array_get(list, i);
        sc_strbuf_add(&text, i == 0 ? "[" : ", ");
        if (!json_is_string(element) || !add_element(f, cases, json_string_value(element), &text)) {
            sc_import_fail(f->config, "\"%s\" has %s, which this family has not", key,
                           sc_import_text(f->context, element));
            return;
        }
    }
    sc_strbuf_add(&text, "]");
    add_list(f, row->name, text.data);
}

/* ---- rotary scaling ---- */
/* Appends the numbers of the list that the object has at `key`. */
static void add_number_list(finder *f, const char *object, const char *key, sc_strbuf *out)
{
    const char *path = sc_arena_printf(&f->context->arena, "%s.%s", object, key);
    const json_t *list = sc_import_get(f->config, path);
    if (list == NULL)
        report_missing(f, sc_arena_printf(&f->context->arena, "\"%s\"", path), "rotary scaling",
                       object);
    else if (!json_is_array(list))
        sc_import_fail(f->config, "\"%s\" is a list, not %s", path,
                       sc_import_text(f->context, list));
    sc_strbuf_add(out, "[");
    /* 0 of what is no array */
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *number = json_array_get(list, i);
        sc_import_value value = {.is_integer = json_is_integer(number),
                                 .integer = json_integer_value(number),
                                 .number = json_number_value(number)};
        if (!json_is_number(number))
            sc_import_fail(f->config, "\"%s\" has %s, which is no number", path,
                           sc_import_text(f->context, number));
        sc_strbuf_printf(out, "%s%s", i > 0 ? ", " : "", number_text(f->context, &value));
    }
    sc_strbuf_add(out, "]");
}

/* Returns the next item of `EXPR, name = EXPR, ..)`; NULL behind the last. */
static const char *next_item(sc_context *context, const char **list)
{
    const char *p = *list;
    int depth = 0;
    for (; *p != 0 && (depth > 0 || (*p != ',' && *p != ')')); p++)
        depth += (*p == '(') - (*p == ')');
    const char *item = *list + strspn(*list, " ");
    if (p <= item)
        return NULL;
    *list = p + (*p == ',');
    return sc_arena_copy_text(&context->arena, item, (size_t)(p - item));
}

/* Appends the numbers of `word(EXPR, KEY.., name = EXPR)`; a named one that config.json lacks is
 * left out. */
static void add_numbers(finder *f, const char *object, const char *list, sc_strbuf *out)
{
    uint32_t count = 0;
    for (const char *item; (item = next_item(f->context, &list)) != NULL;) {
        const char *equals = strchr(item, '='), *name = "";
        size_t length = strlen(item);
        if (length > 2 && strcmp(item + length - 2, "..") == 0) {
            sc_strbuf_add(out, count++ > 0 ? ", " : "");
            add_number_list(f, object, sc_arena_copy_text(&f->context->arena, item, length - 2),
                            out);
            continue;
        }
        if (equals != NULL)
            name = sc_arena_printf(&f->context->arena, "%.*s= ", (int)(equals - item), item);
        sc_import_value value = sc_import_evaluate(f->config, &f->facts->dims, object,
                                                   equals == NULL ? item : equals + 1);
        if (value.state == SC_IMPORT_ABSENT && equals == NULL)
            report_missing(f, value.missing, "rotary scaling", object);
        if (value.state == SC_IMPORT_KNOWN)
            sc_strbuf_printf(out, "%s%s%s", count++ > 0 ? ", " : "", name,
                             number_text(f->context, &value));
    }
}

/* Reads the object at `object` by the `scaling` row of its kind. */
static void read_scaling(finder *f, const sc_import_row *rope, const char *object)
{
    static const char *const spellings[] = {"rope_type", "type"};
    const sc_import_family *family = f->facts->family;
    const char *kind = NULL;
    for (size_t i = 0; i < 2; i++) {
        const char *key = sc_arena_printf(&f->context->arena, "%s.%s", object, spellings[i]);
        const json_t *value = sc_import_get(f->config, key);
        if (value != NULL && json_is_string(value) && kind == NULL)
            kind = json_string_value(value);
        else if (value != NULL &&
                 (!json_is_string(value) || strcmp(kind, json_string_value(value)) != 0))
            sc_import_fail(f->config, "\"%s\" is %s", key, sc_import_text(f->context, value));
    }
    if (kind == NULL) {
        sc_import_fail(f->config, "\"%s\" lacks \"rope_type\": nothing is assumed", object);
        return;
    }
    for (uint32_t i = 0; i < family->rows.count; i++) {
        const sc_import_row *row = &family->rows.data[i];
        if (row->kind != SC_IMPORT_SCALING || strcmp(row->name, kind) != 0)
            continue;
        sc_strbuf text;
        sc_strbuf_init(&text, &f->context->arena);
        size_t word = strcspn(row->value, "(");
        sc_strbuf_add_bytes(&text, row->value, word);
        if (row->value[word] == '(') {
            sc_strbuf_add(&text, "(");
            add_numbers(f, object, row->value + word + 1, &text);
            sc_strbuf_add(&text, ")");
        }
        add_arg(f, rope->name, text.data, NAN);
        return;
    }
    sc_import_fail(f->config, "\"%s\" asks for the \"rope_type\" \"%s\", which no model here has",
                   object, kind);
}

static void read_rope(finder *f, const sc_import_row *row)
{
    const char *keys = row->value, *found = NULL;
    for (;;) {
        const char *key = next_word(f->context, &keys, " |");
        if (key == NULL)
            break;
        keys += strspn(keys, " |");
        const json_t *value = sc_import_get(f->config, key);
        if (value == NULL)
            continue;
        if (!json_is_object(value))
            sc_import_fail(f->config, "\"%s\" is an object, not %s", key,
                           sc_import_text(f->context, value));
        else if (found != NULL)
            sc_import_fail(f->config, "both \"%s\" and \"%s\" say how positions are scaled", found,
                           key);
        else
            found = key;
    }
    if (found == NULL)
        add_arg(f, row->name, "none", NAN);
    else
        read_scaling(f, row, found);
}

/* ---- refusals ---- */
static bool is_word(finder *f, const json_t *value, const char *word)
{
    char *end;
    int64_t size = sc_import_size(f->facts, word);
    if (size > 0) /* a dim's name */
        return json_is_integer(value) && json_integer_value(value) == size;
    if (json_is_object(value) && json_object_size(value) == 0) /* pruned_heads: {} */
        return strcmp(word, "none") == 0;
    if (json_is_string(value))
        return strcmp(json_string_value(value), word) == 0;
    if (json_is_boolean(value))
        return strcmp(json_is_true(value) ? "true" : "false", word) == 0;
    double number = sc_strtod(word, &end);
    return json_is_number(value) && *end == 0 && json_number_value(value) == number;
}

static bool is_allowed(finder *f, const json_t *value, const char *words)
{
    for (const char *word; (word = next_word(f->context, &words, " ")) != NULL;) {
        if (is_word(f, value, word))
            return true;
    }
    return false;
}

/* Each element of a list has to be allowed. */
static void read_only(finder *f, const char *key, const char *words)
{
    const json_t *value = sc_import_get(f->config, key);
    bool ok = value == NULL || json_is_array(value) || is_allowed(f, value, words);
    for (size_t i = 0; i < json_array_size(value); i++)
        ok = ok && is_allowed(f, json_array_get(value, i), words);
    sc_import_use(f->config, key);
    if (!ok)
        sc_import_fail(f->config, "\"%s\" is %s; models/%s.shard has only %s", key,
                       sc_import_text(f->context, value), f->facts->family->name, words);
}

/* Marks a key and all that is in its value. */
static void use_whole(finder *f, const char *path, const json_t *value)
{
    const char *name;
    json_t *inner;
    sc_import_use(f->config, path);
    json_object_foreach ((json_t *)value, name, inner)
        use_whole(f, sc_arena_printf(&f->context->arena, "%s.%s", path, name), inner);
}

/* Marks the keys of an object that match; `prefix` is its path with a dot, or empty. */
static void use_matching(finder *f, const json_t *object, const char *prefix, const char *pattern)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)object, name, value) {
        if (fnmatch(pattern, name, 0) == 0)
            use_whole(f, sc_arena_printf(&f->context->arena, "%s%s", prefix, name), value);
    }
}

static void read_unused(finder *f, const char *patterns)
{
    for (const char *pattern; (pattern = next_word(f->context, &patterns, " ")) != NULL;) {
        const char *dot = strchr(pattern, '.');
        if (dot == NULL) {
            use_matching(f, f->config->root, "", pattern);
            continue;
        }
        const char *key = sc_arena_copy_text(&f->context->arena, pattern, (size_t)(dot - pattern));
        const json_t *object = sc_import_get(f->config, key);
        use_matching(f, object, sc_arena_printf(&f->context->arena, "%s.", key), dot + 1);
    }
}

/* ---- rows ---- */
/* True if no earlier row says what values the key may have. Those of the family come first. */
static bool is_first(const finder *f, const sc_import_row *row)
{
    for (const sc_import_row *earlier = f->facts->family->rows.data; earlier < row; earlier++) {
        if (earlier->kind == SC_IMPORT_ONLY && strcmp(earlier->name, row->name) == 0)
            return false;
    }
    return true;
}

static void read_row(finder *f, const sc_import_row *row)
{
    switch (row->kind) {
    case SC_IMPORT_ARCH:
        read_only(f, "architectures", row->value);
        break;
    case SC_IMPORT_DIM:
        read_dim(f, row);
        break;
    case SC_IMPORT_ARG:
        read_arg(f, row);
        break;
    case SC_IMPORT_LIST:
        read_list(f, row);
        break;
    case SC_IMPORT_ROPE:
        read_rope(f, row);
        break;
    case SC_IMPORT_ONLY:
        if (is_first(f, row))
            read_only(f, row->name, row->value);
        break;
    case SC_IMPORT_UNUSED:
        read_unused(f, row->value);
        break;
    case SC_IMPORT_TYPES:
    case SC_IMPORT_FOR:
    case SC_IMPORT_SCALING:
    case SC_IMPORT_POSITIONS:
    case SC_IMPORT_SPLIT:
    case SC_IMPORT_WHERE:
    case SC_IMPORT_PAD:
    case SC_IMPORT_KINDS:
        break;
    }
}

/* Reads models/NAME.shard as an import of it would. */
static bool load_family(finder *f)
{
    const char *text = sc_arena_printf(&f->context->arena, "lang 1;\nimport \"shardc/%s.shard\";\n",
                                       f->facts->family->name);
    const sc_file *file = sc_load_text(f->context, "", text, strlen(text));
    f->facts->file = file == NULL ? NULL : file->items.data[0]->import.file;
    if (f->facts->file == NULL)
        return false;
    for (uint32_t i = 0; i < f->facts->file->items.count; i++) {
        if (f->facts->file->items.data[i]->kind == SC_ITEM_MODEL)
            f->facts->model = f->facts->file->items.data[i]->model;
    }
    return f->facts->model != NULL;
}

/* Of dtype and torch_dtype, its older name. */
static void read_dtype(finder *f)
{
    const json_t *old = sc_import_get(f->config, "torch_dtype"),
                 *value = sc_import_get(f->config, "dtype");
    if (value != NULL && old != NULL && !json_equal(value, old))
        sc_import_fail(f->config, "\"dtype\" is %s and \"torch_dtype\" is %s",
                       sc_import_text(f->context, value), sc_import_text(f->context, old));
    value = value == NULL ? old : value;
    sc_import_use(f->config, "dtype");
    sc_import_use(f->config, "torch_dtype");
    if (value == NULL)
        return;
    if (is_allowed(f, value, "bfloat16 float32 float64 float16"))
        f->facts->dtype = json_string_value(value);
    else
        sc_import_fail(f->config, "\"dtype\" is %s, not one of bfloat16 float32 float64 float16",
                       sc_import_text(f->context, value));
}

bool sc_import_find_facts(sc_import_config *config, const sc_import_family *family,
                          sc_import_facts *out)
{
    finder f = {.config = config, .context = config->context, .facts = out};
    uint32_t errors = config->context->diag.errors;
    *out = (sc_import_facts){.family = family};
    if (!load_family(&f))
        return false;
    sc_import_use(config, "model_type");
    read_dtype(&f);
    for (uint32_t i = 0; i < family->rows.count; i++)
        read_row(&f, &family->rows.data[i]);
    sc_import_check_used(config);
    return config->context->diag.errors == errors;
}
