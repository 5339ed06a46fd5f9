#include "support/arguments.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "support/number.h"

void sc_arguments_fail(sc_context *context, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = sc_arena_vprintf(&context->arena, format, args);
    va_end(args);
    sc_report(&context->diag, SC_D_usage, (sc_loc){0}, text, NULL);
}

/* ---- values ---- */

bool sc_whole_number(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *out = value;
    return errno == 0 && end != text && *end == 0;
}

void sc_arguments_number(sc_context *context, const char *name, const char *value, int64_t *out)
{
    if (sc_whole_number(value, out) && *out >= 0)
        return;
    *out = 0;
    sc_arguments_fail(context, "%s takes a number of at least 0, not '%s'", name, value);
}

static double real(sc_context *context, const char *name, const char *value, double most)
{
    char *end;
    double number = sc_strtod(value, &end);
    if (end != value && *end == 0 && number >= 0 && number <= most && !isinf(number))
        return number;
    sc_arguments_fail(context, "%s takes a number of at least 0%s, not '%s'", name, most < INFINITY ? " and at most 1" : "", value);
    return 0;
}

static bool is_json(sc_context *context, const char *name, const char *value)
{
    bool json = strcmp(value, "json") == 0;
    if (!json && strcmp(value, "text") != 0)
        sc_arguments_fail(context, "%s is text or json, not '%s'", name, value);
    return json;
}

static void add_named(sc_context *context, const sc_option_row *row, const char *value, sc_named_text_list *list)
{
    size_t name = strcspn(value, "=");
    if (value[name] != '=' || name == 0)
        sc_arguments_fail(context, "%s takes %s, not '%s'", row->name, row->value, value);
    else
        *sc_vec_push(&context->arena, list) = (sc_named_text){sc_arena_copy_text(&context->arena, value, name), value + name + 1};
}

static void set(sc_context *context, const sc_option_row *row, const char *value, void *into)
{
    void *field = (char *)into + row->field;
    const char **text = field;
    int64_t number;
    switch (row->kind) {
    case SC_OPTION_FLAG:
        *(bool *)field = true;
        break;
    case SC_OPTION_TEXT:
        *text = value;
        break;
    case SC_OPTION_TEXTS:
        *sc_vec_push(&context->arena, (sc_text_list *)field) = value;
        break;
    case SC_OPTION_JOINED:
        *text = *text == NULL ? value : sc_arena_printf(&context->arena, "%s,%s", *text, value);
        break;
    case SC_OPTION_NAMED:
        add_named(context, row, value, field);
        break;
    case SC_OPTION_JSON:
        *(bool *)field = is_json(context, row->name, value);
        break;
    case SC_OPTION_NUMBER:
        sc_arguments_number(context, row->name, value, field);
        break;
    case SC_OPTION_UNSIGNED:
        sc_arguments_number(context, row->name, value, &number);
        *(uint64_t *)field = (uint64_t)number;
        break;
    case SC_OPTION_REAL:
        *(double *)field = real(context, row->name, value, INFINITY);
        break;
    case SC_OPTION_SHARE:
        *(double *)field = real(context, row->name, value, 1);
        break;
    case SC_OPTION_OWN:
        row->set(context, into, row->name, value);
        break;
    }
}

/* ---- options ---- */

/* `text` ends at its length, where a value may follow after =. */
static bool is_same(const char *text, const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bool both = (text[i] == '_' || text[i] == '-') && name[i] == '-';
        if (text[i] != name[i] && !both)
            return false;
    }
    return name[length] == 0;
}

static uint32_t count_rows(const sc_option_table *tables, uint32_t count)
{
    uint32_t rows = 0;
    for (uint32_t t = 0; t < count; t++)
        rows += tables[t].count;
    return rows;
}

/* The row and the structure that it speaks of; NULL after a message. */
static const sc_option_row *find(sc_context *context, const sc_option_table *tables, uint32_t count, const char *list, const char *text,
                                 void **into)
{
    size_t length = strcspn(text, "=");
    uint32_t names_count = 0;
    const char **names = sc_arena_array(&context->arena, count_rows(tables, count), sizeof *names);
    for (uint32_t t = 0; t < count; t++) {
        for (uint32_t i = 0; i < tables[t].count; i++) {
            names[names_count++] = tables[t].rows[i].name;
            *into = tables[t].into;
            if (is_same(text, tables[t].rows[i].name, length))
                return &tables[t].rows[i];
        }
    }
    const char *near = sc_nearest(sc_arena_copy_text(&context->arena, text, length), names, names_count);
    sc_arguments_fail(context, "there is no option '%.*s'%s%s%s", (int)length, text, near != NULL ? "; did you mean '" : "",
                      near != NULL ? near : "", near != NULL ? "'?" : "");
    if (near == NULL)
        sc_report_note(&context->diag, (sc_loc){0}, "'%s' lists the options", list);
    return NULL;
}

void sc_arguments_parse(sc_context *context, const sc_option_table *tables, uint32_t count, const char *list, int argc, char **argv,
                        sc_text_list *words)
{
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        if (text[0] != '-' || text[1] == 0) {
            *sc_vec_push(&context->arena, words) = text;
            continue;
        }
        void *into = NULL;
        const sc_option_row *row = find(context, tables, count, list, text, &into);
        if (row == NULL)
            continue;
        const char *value = strchr(text, '=') != NULL ? strchr(text, '=') + 1 : NULL;
        if (row->value == NULL && value != NULL)
            sc_arguments_fail(context, "%s takes no value", row->name);
        else if (row->value != NULL && value == NULL && i + 1 == argc)
            sc_arguments_fail(context, "%s needs %s", row->name, row->value);
        else
            set(context, row, row->value == NULL ? "" : value != NULL ? value : argv[++i], into);
    }
}

void sc_arguments_help(const sc_option_table *tables, uint32_t count, sc_strbuf *out)
{
    size_t name = 0, value = 0;
    for (uint32_t t = 0; t < count; t++) {
        for (uint32_t i = 0; i < tables[t].count; i++) {
            const sc_option_row *row = &tables[t].rows[i];
            size_t names = strlen(row->name), values = row->value == NULL ? 0 : strlen(row->value);
            name = names > name ? names : name;
            value = values > value ? values : value;
        }
    }
    for (uint32_t t = 0; t < count; t++) {
        for (uint32_t i = 0; i < tables[t].count; i++) {
            const sc_option_row *row = &tables[t].rows[i];
            sc_strbuf_printf(out, "  %-*s  %-*s  %s\n", (int)name, row->name, (int)value, row->value == NULL ? "" : row->value,
                             row->summary);
        }
    }
}
