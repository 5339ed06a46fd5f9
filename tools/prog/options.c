#include <stddef.h>

#include "runtime/drive/started.h"
#include "tools/prog/prog.h"

#define ROW(name, kind, field, value, summary)                                                                                             \
    {                                                                                                                                      \
        name, SC_OPTION_##kind, offsetof(sc_prog, field), value, summary, NULL                                                             \
    }
static const sc_option_row rows[] = {
    ROW("--calibrate", FLAG, calibrate, NULL, "bench: only the speed of one large product"),
    ROW("--profile", FLAG, profile, NULL, "bench: what takes the time"),
    ROW("--gemms-only", FLAG, gemms_only, NULL, "bench: after each step its products alone"),
    ROW("--products", TEXT, products, "FILE", "cards: where cuBLASLt's choices are kept (default: PROG.products; '': nowhere)"),
    ROW("--no-graph", FLAG, no_graph, NULL, "on a card: functions are launched as they are, never as graphs"),
    ROW("--ranks", NUMBER, ranks, "N", "must be the program's"),
    ROW("--threads", NUMBER, threads, "N", "that compute in this process (default: a thread a core)"),
    ROW("--deadline", NUMBER, deadline_ms, "MS", "of one collective"),
    ROW("--json", FLAG, run.json, NULL, "as --format json"),
    ROW("--help", FLAG, help, NULL, "this"),
    ROW("--version", FLAG, version, NULL, "the version"),
};
enum { ROWS = sizeof rows / sizeof *rows };

bool sc_prog_parse(sc_prog *prog, int argc, char **argv)
{
    sc_text_list words = {0};
    const char *list = sc_arena_printf(&prog->context->arena, "%s --help", argv[0]);
    const sc_option_table tables[] = {{sc_run_option_rows, sc_run_option_count, &prog->run}, {rows, ROWS, prog}};
    sc_arguments_parse(prog->context, tables, 2, list, argc, argv, &words);
    prog->command = words.count > 0 ? words.data[0] : NULL;
    if (words.count > 1)
        sc_arguments_fail(prog->context, "'%s' is one argument too many", words.data[1]);
    if (prog->threads > UINT32_MAX || prog->deadline_ms > UINT32_MAX)
        sc_arguments_fail(prog->context, "%s is at most %u", prog->threads > UINT32_MAX ? "--threads" : "--deadline", UINT32_MAX);
    return prog->context->diag.errors == 0;
}

const char *sc_prog_started_with(sc_prog *prog)
{
    const sc_option_table tables[] = {{sc_run_option_rows, sc_run_option_count, &prog->run}, {rows, ROWS, prog}};
    return sc_started_with(prog->context, prog->command, tables, 2);
}

void sc_prog_help(sc_prog *prog, const char *name)
{
    sc_strbuf *out = &prog->out;
    sc_strbuf_printf(out, "%s COMMAND [OPTIONS]\n\ncommands\n", name);
    sc_strbuf_add(out, "  info      what this program is\n"
                       "  eval      run the entry: --data or --input\n"
                       "  train     run the train step: --data or --input, --steps N\n"
                       "  generate  continue prompts: --prompt TEXT\n"
                       "  bench     measure steps on random inputs\n"
                       "  tune      on cards: measure algorithms of the products and keep the fastest\n\noptions\n");
    sc_arguments_help((sc_option_table[]){{sc_run_option_rows, sc_run_option_count, NULL}, {rows, ROWS, NULL}}, 2, out);
    sc_strbuf_add(out, "\nexit codes: 0 fine, 2 usage, 7 run time\n");
}
