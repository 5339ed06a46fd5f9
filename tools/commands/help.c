/* shardc help: explains each diagnostic in a paragraph (support/help.def). */
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/explain/report.h"

typedef struct help_row {
    const char *stage, *meaning, *remedy;
    const char *example; /* NULL: none */
} help_row;

static const help_row help_rows[SC_D_COUNT] = {
#define HELP(id, stage, meaning, remedy, example) [SC_D_##id] = {stage, meaning, remedy, example},
#include "support/help.def"
#undef HELP
};

/* The compiler rejects duplicate rows, so an equal number of rows and ids means one row per id. */
enum {
#define HELP(id, stage, meaning, remedy, example) HELP_ROW_##id,
#include "support/help.def"
#undef HELP
    HELP_ROWS
};
_Static_assert((int)HELP_ROWS == (int)SC_D_COUNT,
               "support/help.def has one row for each of support/diag.def");

static const char *const severity_names[] = {"error", "warning", "note"};

enum { WIDTH = 96 };

/* Appends one paragraph, wrapped between words. */
static void add_wrapped(sc_strbuf *out, const char *text)
{
    size_t column = 0;
    for (const char *p = text; *p != 0;) {
        size_t word = strcspn(p, " ");
        if (column > 0 && column + 1 + word > WIDTH) {
            sc_strbuf_add_char(out, '\n');
            column = 0;
        }
        sc_strbuf_printf(out, "%s%.*s", column > 0 ? " " : "", (int)word, p);
        column += word + (column > 0);
        p += word + strspn(p + word, " ");
    }
    sc_strbuf_add_char(out, '\n');
}

static void add_indented(sc_strbuf *out, const char *text)
{
    for (const char *p = text; *p != 0;) {
        size_t line = strcspn(p, "\n");
        sc_strbuf_printf(out, "  %.*s\n", (int)line, p);
        p += line + (p[line] == '\n');
    }
}

static json_t *row_json(int id)
{
    const help_row *help = &help_rows[id];
    const sc_diag_row *row = &sc_diag_rows[id];
    return json_pack("{s:s,s:s,s:s,s:i,s:s,s:s,s:s?}", "id", row->name, "stage", help->stage,
                     "severity", severity_names[row->severity], "exit", row->exit_code, "meaning",
                     help->meaning, "remedy", help->remedy, "example", help->example);
}

static void print_row(int id, sc_strbuf *out)
{
    const help_row *help = &help_rows[id];
    const sc_diag_row *row = &sc_diag_rows[id];
    sc_strbuf_printf(out, "%s (%s, %s", row->name, help->stage, severity_names[row->severity]);
    if (row->exit_code != 0)
        sc_strbuf_printf(out, ", exit code %d", row->exit_code);
    sc_strbuf_add(out, ")\n\n");
    add_wrapped(out, help->meaning);
    sc_strbuf_add_char(out, '\n');
    add_wrapped(out, help->remedy);
    if (help->example != NULL) {
        sc_strbuf_add_char(out, '\n');
        add_indented(out, help->example);
    }
}

/* Returns the length of the first sentence with its full stop. */
static int first_sentence(const char *text)
{
    const char *end = strstr(text, ". ");
    return end == NULL ? (int)strlen(text) : (int)(end - text) + 1;
}

/* Rows of one stage are consecutive in the table. */
static void print_list(sc_strbuf *out)
{
    for (int id = 0; id < SC_D_COUNT; id++) {
        if (id == 0 || strcmp(help_rows[id].stage, help_rows[id - 1].stage) != 0)
            sc_strbuf_printf(out, "%s%s\n", id > 0 ? "\n" : "", help_rows[id].stage);
        const char *meaning = help_rows[id].meaning;
        sc_strbuf_printf(out, "  %-21s %.*s\n", sc_diag_rows[id].name, first_sentence(meaning),
                         meaning);
    }
    sc_strbuf_add(
        out,
        "\n'shardc help ID' explains one, 'shardc help environment' the environment variables.\n");
}

static json_t *list_json(void)
{
    json_t *list = json_array();
    for (int id = 0; id < SC_D_COUNT; id++)
        json_array_append_new(list, row_json(id));
    return json_pack("{s:i,s:o}", "version", 1, "diagnostics", list);
}

/* ---- environment variables ---- */

typedef struct variable_row {
    const char *name, *values, *fallback, *meaning;
} variable_row;

static const variable_row variables[] = {
#define ENVIRONMENT(name, values, fallback, meaning) {#name, values, fallback, meaning},
#include "support/environment.def"
#undef ENVIRONMENT
};
enum { VARIABLES = sizeof variables / sizeof *variables };

static void print_variables(sc_strbuf *out)
{
    for (int i = 0; i < VARIABLES; i++)
        sc_strbuf_printf(out, "%s: %s (default: %s)\n  %s\n", variables[i].name,
                         variables[i].values, variables[i].fallback, variables[i].meaning);
}

static json_t *variables_json(void)
{
    json_t *list = json_array();
    for (int i = 0; i < VARIABLES; i++)
        json_array_append_new(list,
                              json_pack("{s:s,s:s,s:s,s:s}", "name", variables[i].name, "values",
                                        variables[i].values, "default", variables[i].fallback,
                                        "meaning", variables[i].meaning));
    return json_pack("{s:i,s:o}", "version", 1, "environment", list);
}

/* ---- the command ---- */

static int find_id(sc_context *context, const sc_options *options)
{
    const char *name = options->file,
               **names = sc_arena_array(&context->arena, SC_D_COUNT + options->command_count,
                                        sizeof *names);
    for (uint32_t i = 0; i < options->command_count; i++)
        names[SC_D_COUNT + i] = options->commands[i];
    for (int id = 0; id < SC_D_COUNT; id++) {
        names[id] = sc_diag_rows[id].name;
        if (strcmp(names[id], name) == 0)
            return id;
    }
    const char *near = sc_nearest(name, names, SC_D_COUNT + options->command_count);
    sc_report(&context->diag, SC_D_usage, (sc_loc){0},
              sc_arena_printf(&context->arena, "no command and no diagnostic is called '%s'%s%s%s",
                              name, near ? "; did you mean '" : "", near ? near : "",
                              near ? "'?" : ""),
              NULL);
    sc_report_note(&context->diag, (sc_loc){0},
                   "'shardc help' lists the diagnostics; the id of a message is in brackets at its "
                   "end. 'shardc --help' lists the commands");
    return SC_D_COUNT;
}

int sc_cmd_help(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    if (options->file == NULL && options->run.json)
        sc_print_json(list_json(), out);
    else if (options->file == NULL)
        print_list(out);
    bool is_environment = options->file != NULL && strcmp(options->file, "environment") == 0;
    if (is_environment && options->run.json)
        sc_print_json(variables_json(), out);
    else if (is_environment)
        print_variables(out);
    if (options->file == NULL || is_environment)
        return 0;
    int id = find_id(context, options);
    if (id == SC_D_COUNT)
        return 0;
    if (options->run.json) {
        json_t *root = row_json(id);
        json_object_set_new(root, "version", json_integer(1));
        sc_print_json(root, out);
    } else {
        print_row(id, out);
    }
    return 0;
}
