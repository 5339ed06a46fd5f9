#include "support/arguments.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "support/none.h"
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

void sc_arguments_number(sc_context *context, const char *name, const char *value, int64_t least,
                         int64_t *out)
{
    if (sc_whole_number(value, out) && *out >= least)
        return;
    *out = 0;
    sc_arguments_fail(context, "%s takes a number of at least %lld, not '%s'", name,
                      (long long)least, value);
}

static double real(sc_context *context, const char *name, const char *value)
{
    char *end;
    double number = sc_strtod(value, &end);
    if (end != value && *end == 0 && number >= 0 && !isinf(number))
        return number;
    sc_arguments_fail(context, "%s takes a number of at least 0, not '%s'", name, value);
    return 0;
}

static double share(sc_context *context, const char *name, const char *value)
{
    char *end;
    double number = sc_strtod(value, &end);
    if (end != value && *end == 0 && number > 0 && number <= 1)
        return number;
    sc_arguments_fail(context, "%s takes a number above 0 and at most 1, not '%s'", name, value);
    return 0;
}

static bool is_json(sc_context *context, const char *name, const char *value)
{
    bool json = strcmp(value, "json") == 0;
    if (!json && strcmp(value, "text") != 0)
        sc_arguments_fail(context, "%s is text or json, not '%s'", name, value);
    return json;
}

static void add_named(sc_context *context, const sc_option_row *row, const char *value,
                      sc_named_text_list *list)
{
    size_t name = strcspn(value, "=");
    if (value[name] != '=' || name == 0)
        sc_arguments_fail(context, "%s takes %s, not '%s'", row->name, row->argument, value);
    else
        *sc_vec_push(&context->arena, list) =
            (sc_named_text){sc_arena_copy_text(&context->arena, value, name), value + name + 1};
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
    case SC_OPTION_COUNT:
        sc_arguments_number(context, row->name, value, row->kind == SC_OPTION_COUNT, field);
        break;
    case SC_OPTION_UNSIGNED:
        sc_arguments_number(context, row->name, value, 0, &number);
        *(uint64_t *)field = (uint64_t)number;
        break;
    case SC_OPTION_REAL:
        *(double *)field = real(context, row->name, value);
        break;
    case SC_OPTION_SHARE:
        *(double *)field = share(context, row->name, value);
        break;
    case SC_OPTION_OWN:
    case SC_OPTION_OWN_LIST:
        row->set(context, into, row->name, value);
        break;
    }
}

/* ---- options ---- */

/* Compares an option's text, up to `length`, with a name; a value may follow after `=`. */
static bool is_same(const char *text, const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bool both = (text[i] == '_' || text[i] == '-') && name[i] == '-';
        if (text[i] != name[i] && !both)
            return false;
    }
    return name[length] == 0;
}

static const sc_option_row *find_row(const sc_command_line *line, const char *text, size_t length,
                                     const sc_option_table **table)
{
    for (uint32_t t = 0; t < line->table_count; t++) {
        *table = &line->tables[t];
        for (uint32_t i = 0; i < line->tables[t].count; i++) {
            if (is_same(text, line->tables[t].rows[i].name, length))
                return &line->tables[t].rows[i];
        }
    }
    return NULL;
}

static const char *or_nearest(sc_context *context, const char *near)
{
    return near == NULL ? "" : sc_arena_printf(&context->arena, "; did you mean '%s'?", near);
}

static const char *nearest_option(sc_context *context, const sc_command_line *line,
                                  const char *text)
{
    uint32_t rows = 0, count = 0;
    for (uint32_t t = 0; t < line->table_count; t++)
        rows += line->tables[t].count;
    const char **names = sc_arena_array(&context->arena, rows, sizeof *names);
    for (uint32_t t = 0; t < line->table_count; t++) {
        if (line->tables[t].owner == NULL) {
            for (uint32_t i = 0; i < line->tables[t].count; i++)
                names[count++] = line->tables[t].rows[i].name;
        }
    }
    return sc_nearest(text, names, count);
}

static const sc_option_row *find(sc_context *context, const sc_command_line *line, const char *text,
                                 const sc_option_table **table)
{
    size_t length = strcspn(text, "=");
    const sc_option_row *row = find_row(line, text, length, table);
    if (row != NULL)
        return row;
    const char *near =
        nearest_option(context, line, sc_arena_copy_text(&context->arena, text, length));
    sc_arguments_fail(context, "there is no option '%.*s'%s", (int)length, text,
                      or_nearest(context, near));
    if (near == NULL)
        sc_report_note(&context->diag, (sc_loc){0}, "'%s --help' lists the options", line->program);
    return NULL;
}

static bool collects(sc_option_kind kind)
{
    return kind == SC_OPTION_TEXTS || kind == SC_OPTION_JOINED || kind == SC_OPTION_NAMED ||
           kind == SC_OPTION_OWN_LIST;
}

static bool is_given(const sc_arguments *arguments, const char *name)
{
    for (uint32_t i = 0; i < arguments->options.count; i++) {
        if (strcmp(arguments->options.data[i].row->name, name) == 0)
            return true;
    }
    return false;
}

/* Parses one option. `next` is the following argument or NULL. Returns true if it consumed `next`
 * as the value. */
static bool take(sc_context *context, const sc_command_line *line, const char *text,
                 const char *next, sc_arguments *out)
{
    const sc_option_table *table, *other;
    const sc_option_row *row = find(context, line, text, &table);
    if (row == NULL)
        return false;
    const char *value = strchr(text, '=') != NULL ? strchr(text, '=') + 1 : NULL;
    bool wants_next = row->argument != NULL && value == NULL,
         is_again = is_given(out, row->name) && !collects(row->kind);
    bool is_option = wants_next && next != NULL && strncmp(next, "--", 2) == 0 &&
                     find_row(line, next, strcspn(next, "="), &other) != NULL;
    *sc_vec_push(&context->arena, &out->options) = (sc_given_option){row, table->owner};
    if (row->argument == NULL && value != NULL)
        sc_arguments_fail(context, "%s takes no value", row->name);
    else if (wants_next && next == NULL)
        sc_arguments_fail(context, "%s needs %s", row->name, row->argument);
    else if (is_option)
        sc_arguments_fail(
            context,
            "%s needs %s, but '%s' is an option; a value that looks like one is written %s=%s",
            row->name, row->argument, next, row->name, next);
    else if (is_again)
        sc_arguments_fail(context, "%s is given twice", row->name);
    else if (table->owner == NULL)
        set(context, row, row->argument == NULL ? "" : wants_next ? next : value, table->into);
    return wants_next && !is_option;
}

void sc_arguments_parse(sc_context *context, const sc_command_line *line, int argc, char **argv,
                        sc_arguments *out)
{
    *out = (sc_arguments){0};
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' || argv[i][1] == 0)
            *sc_vec_push(&context->arena, &out->words) = argv[i];
        else if (take(context, line, argv[i], i + 1 < argc ? argv[i + 1] : NULL, out))
            i++;
    }
}

uint32_t sc_arguments_command(sc_context *context, const sc_command_line *line, const char *name)
{
    for (uint32_t i = 0; i < line->command_count; i++) {
        if (strcmp(line->commands[i], name) == 0)
            return i;
    }
    const char *near = sc_nearest(name, line->commands, line->command_count);
    sc_arguments_fail(context, "there is no command '%s'%s", name, or_nearest(context, near));
    if (near == NULL)
        sc_report_note(&context->diag, (sc_loc){0}, "'%s --help' lists the commands",
                       line->program);
    return SC_NONE;
}

/* ---- options of commands ---- */

/* Returns the next of blank-separated words and advances *words; NULL at the end. */
static const char *next_word(sc_context *context, const char **words)
{
    const char *begin = *words + strspn(*words, " ");
    size_t length = strcspn(begin, " ");
    *words = begin + length;
    return length == 0 ? NULL : sc_arena_copy_text(&context->arena, begin, length);
}

/* True if the list has the word, or is NULL (any word). */
static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *p = words; p != NULL && *p != 0; p += strspn(p, " ")) {
        size_t own = strcspn(p, " ");
        if (own == length && strncmp(p, word, own) == 0)
            return true;
        p += own;
    }
    return words == NULL;
}

/* Appends the row's takers that are commands of this program, in the program's order. Returns their
 * number. */
static uint32_t add_takers(const sc_command_line *line, const sc_option_row *row, sc_strbuf *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < line->command_count; i++) {
        if (has_word(row->takers, line->commands[i]))
            sc_strbuf_printf(out, "%s%s", count++ > 0 ? ", " : "", line->commands[i]);
    }
    return count;
}

static void refuse(sc_context *context, const sc_command_line *line, const sc_given_option *option,
                   const char *command)
{
    const sc_option_row *row = option->row;
    sc_strbuf takers;
    sc_strbuf_init(&takers, &context->arena);
    uint32_t count = option->owner == NULL ? add_takers(line, row, &takers) : 0;
    const char *rest = row->takers;
    if (count == 0 && rest != NULL) {
        for (const char *word; (word = next_word(context, &rest)) != NULL;)
            sc_strbuf_printf(&takers, "%s%s", takers.length > 0 ? ", " : "", word);
    }
    if (count > 0)
        sc_arguments_fail(context, "'%s' does not take %s; %s %s it", command, row->name,
                          takers.data, count == 1 ? "takes" : "take");
    else
        sc_arguments_fail(context, "'%s' does not take %s, an option of %s%s%s%s", command,
                          row->name, option->owner != NULL ? option->owner : "other programs",
                          takers.length > 0 ? " (" : "", takers.data, takers.length > 0 ? ")" : "");
}

static void check_relation(sc_context *context, const sc_arguments *arguments,
                           const sc_option_relation *relation)
{
    const char *rest = relation->others, *found = NULL;
    sc_strbuf others;
    sc_strbuf_init(&others, &context->arena);
    for (const char *word; (word = next_word(context, &rest)) != NULL;) {
        found = found == NULL && is_given(arguments, word) ? word : found;
        sc_strbuf_printf(&others, "%s%s", others.length > 0 ? " or " : "", word);
    }
    if (relation->excludes && found != NULL)
        sc_arguments_fail(context, "%s makes no sense with %s: %s", relation->option, found,
                          relation->why);
    else if (!relation->excludes && found == NULL)
        sc_arguments_fail(context, "%s needs %s: %s", relation->option, others.data, relation->why);
}

bool sc_arguments_check(sc_context *context, const sc_command_line *line,
                        const sc_arguments *arguments, const char *command)
{
    uint32_t errors = context->diag.errors;
    for (uint32_t i = 0; i < arguments->options.count; i++) {
        const sc_given_option *option = &arguments->options.data[i];
        if (option->owner != NULL || !has_word(option->row->takers, command))
            refuse(context, line, option, command);
    }
    for (uint32_t i = 0; i < line->relation_count; i++) {
        if (context->diag.errors != errors)
            break;
        const sc_option_relation *relation = &line->relations[i];
        if (has_word(relation->takers, command) && is_given(arguments, relation->option))
            check_relation(context, arguments, relation);
    }
    return context->diag.errors == errors;
}

/* ---- help ---- */

bool sc_arguments_listed(const sc_option_table *table, const sc_option_row *row,
                         const char *command)
{
    return table->owner == NULL && row->summary != NULL &&
           (command == NULL || has_word(row->takers, command));
}

/* Adds the help line of an option; if few commands take it, their names too. */
static void add_line(const sc_command_line *line, const sc_option_row *row, const char *command,
                     int name, int argument, sc_strbuf *out)
{
    enum { FEW = 8 };
    sc_strbuf takers;
    sc_strbuf_init(&takers, out->arena);
    bool names = command == NULL && row->takers != NULL && add_takers(line, row, &takers) <= FEW;
    sc_strbuf_printf(out, "  %-*s  %-*s  %s%s%s\n", name, row->name, argument,
                     row->argument == NULL ? "" : row->argument, names ? takers.data : "",
                     names ? ": " : "", row->summary);
}

void sc_arguments_help(const sc_command_line *line, const char *command, sc_strbuf *out)
{
    size_t name = 0, argument = 0;
    for (uint32_t t = 0; t < line->table_count; t++) {
        for (uint32_t i = 0; i < line->tables[t].count; i++) {
            const sc_option_row *row = &line->tables[t].rows[i];
            if (!sc_arguments_listed(&line->tables[t], row, command))
                continue;
            size_t names = strlen(row->name),
                   arguments = row->argument == NULL ? 0 : strlen(row->argument);
            name = names > name ? names : name;
            argument = arguments > argument ? arguments : argument;
        }
    }
    for (uint32_t t = 0; t < line->table_count; t++) {
        for (uint32_t i = 0; i < line->tables[t].count; i++) {
            if (sc_arguments_listed(&line->tables[t], &line->tables[t].rows[i], command))
                add_line(line, &line->tables[t].rows[i], command, (int)name, (int)argument, out);
        }
    }
}
