#include <stddef.h>
#include <string.h>

#include "runtime/drive/started.h"
#include "support/none.h"
#include "tools/prog/prog.h"

static const sc_option_row rows[] = {
#define PROGRAM(name, kind, field, argument, takers, summary)                                      \
    {name, SC_OPTION_##kind, offsetof(sc_prog, field), argument, takers, summary, NULL},
#include "runtime/drive/options.def"
};

/* Options of the compiler, listed so that they are rejected with a specific message: sizes and
 * plans were fixed when the program was built. */
static const sc_option_row compiler_rows[] = {
#define COMPILER(name, kind, field, argument, takers, summary)                                     \
    {name, SC_OPTION_##kind, 0, argument, takers, summary, NULL},
#define COMPILER_SET(name, kind, set, argument, takers, summary)                                   \
    {name, SC_OPTION_##kind, 0, argument, takers, summary, NULL},
#include "runtime/drive/options.def"
};

static void print_help(const sc_command_line *line, const sc_prog_verb *verbs, sc_strbuf *out)
{
    sc_strbuf_printf(out, "%s COMMAND [OPTIONS]\n\ncommands\n", line->program);
    for (uint32_t i = 0; i < SC_PROG_VERBS; i++)
        sc_strbuf_printf(out, "  %-8s  %s\n", verbs[i].name, verbs[i].summary);
    sc_strbuf_printf(out, "\noptions ('%s COMMAND --help' lists those of one command)\n",
                     line->program);
    sc_arguments_help(line, NULL, out);
    sc_strbuf_add(out, "\nexit codes: 0 fine, 2 usage, 7 run time\n");
}

static void print_verb_help(const sc_command_line *line, const sc_prog_verb *verb, sc_strbuf *out)
{
    sc_strbuf_printf(out, "%s %s [OPTIONS]\n\n%s\n\noptions\n", line->program, verb->name,
                     verb->summary);
    sc_arguments_help(line, verb->name, out);
    sc_strbuf_printf(out, "\nexample\n  %s %s%s%s\n", line->program, verb->name,
                     verb->example[0] != 0 ? " " : "", verb->example);
}

static bool check_arguments(sc_prog *prog)
{
    const sc_text_list *words = &prog->arguments.words;
    if (words->count > 1)
        sc_arguments_fail(prog->context, "'%s' is one argument too many", words->data[1]);
    if (prog->threads > UINT32_MAX || prog->deadline_ms > UINT32_MAX)
        sc_arguments_fail(prog->context, "%s is at most %u",
                          prog->threads > UINT32_MAX ? "--threads" : "--deadline", UINT32_MAX);
    return prog->context->diag.errors == 0;
}

const char *sc_prog_started_with(sc_prog *prog)
{
    const sc_option_table tables[] = {{sc_run_option_rows, sc_run_option_count, &prog->run, NULL},
                                      {rows, sizeof rows / sizeof *rows, prog, NULL}};
    return sc_started_with(prog->context, prog->command, tables, 2);
}

/* Returns the verb to run; NULL after printing help or the version, or reporting an error. */
static const sc_prog_verb *choose(sc_prog *prog, const sc_prog_verb *verbs,
                                  const sc_command_line *line, int *exit_code)
{
    *exit_code = prog->help || prog->version ? 0 : 2;
    if (prog->version) {
        sc_strbuf_printf(&prog->out, "shardc %s\n", SHARDC_VERSION);
        return NULL;
    }
    if (prog->command == NULL) {
        print_help(line, verbs, &prog->out);
        return NULL;
    }
    uint32_t index = sc_arguments_command(prog->context, line, prog->command);
    if (index == SC_NONE)
        return NULL;
    if (prog->help) {
        print_verb_help(line, &verbs[index], &prog->out);
        return NULL;
    }
    return sc_run_check_format(prog->context, &prog->run) &&
                   sc_arguments_check(prog->context, line, &prog->arguments, prog->command)
               ? &verbs[index]
               : NULL;
}

const sc_prog_verb *sc_prog_parse(sc_prog *prog, const sc_prog_verb *verbs, int argc, char **argv,
                                  int *exit_code)
{
    const char *names[SC_PROG_VERBS];
    for (uint32_t i = 0; i < SC_PROG_VERBS; i++)
        names[i] = verbs[i].name;
    const sc_option_table tables[] = {{sc_run_option_rows, sc_run_option_count, &prog->run, NULL},
                                      {rows, sizeof rows / sizeof *rows, prog, NULL},
                                      {compiler_rows, sizeof compiler_rows / sizeof *compiler_rows,
                                       NULL, "shardc, which built this program"}};
    const sc_command_line line = {.program = argv[0],
                                  .commands = names,
                                  .command_count = SC_PROG_VERBS,
                                  .tables = tables,
                                  .table_count = sizeof tables / sizeof *tables,
                                  .relations = sc_option_relations,
                                  .relation_count = sc_option_relation_count};
    sc_arguments_parse(prog->context, &line, argc, argv, &prog->arguments);
    prog->command = prog->arguments.words.count > 0 ? prog->arguments.words.data[0] : NULL;
    *exit_code = 2;
    return check_arguments(prog) ? choose(prog, verbs, &line, exit_code) : NULL;
}
