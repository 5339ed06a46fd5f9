/* shardc: the command line. The only place of the compiler that prints and exits. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/processor.h"
#include "tools/bindings.h"
#include "tools/commands.h"

typedef struct command_row {
    const char *name;
    sc_command *run;                 /* NULL: a command of the contract that this version does not have */
    const char *arguments, *summary; /* arguments in square brackets need not be given */
    bool writes;                     /* what -o names, by itself */
} command_row;

static const command_row commands[] = {
    {"check", sc_cmd_check, "F", "parse, type-check, place; check every expect", false},
    {"ir", sc_cmd_ir, "F", "the IR, final or --after PASS; --dump-dir DIR; --fold", false},
    {"explain", sc_cmd_explain, "F [WHAT]", "where values stand, and why; how to do without a collective (WHAT: PATH or FILE:LINE[:COL])",
     false},
    {"comm", sc_cmd_comm, "F", "the table of collectives", false},
    {"verify", sc_cmd_verify, "F", "the per-rank programs against the global one (--full, --dtypes), or the emitted code (--compiled)",
     false},
    {"eval", sc_cmd_eval, "F", "run an entry here: --weights, --input NAME=FILE[:TENSOR], --data FILE, -o FILE", true},
    {"fmt", sc_cmd_fmt, "F", "canonical formatting, comments kept", false},
    {"memory", sc_cmd_memory, "F", "bytes per rank", false},
    {"diff", sc_cmd_diff, "F", "two plans side by side: --plan A --plan B", false},
    {"legal", sc_cmd_legal, "F DIM", "sizes that an axis over DIM may have", false},
    {"kernels", sc_cmd_kernels, "F", "the emitted kernels; --target T; --compile; -o DIR: their sources, and code", true},
    {"train", sc_cmd_train, "F", "train here: --data FILE or --input, --steps N, --log, --save, --state, --resume, --set", false},
    {"generate", sc_cmd_generate, "F", "continue prompts with a cached entry: --prompt TEXT, --max-tokens, --temperature", false},
    {"build", sc_cmd_build, "F", "an executable that trains, evaluates, measures: -o PROGRAM", true},
    {"help", sc_cmd_help, "[ID]", "a paragraph on a diagnostic; without ID a list of them", false},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

typedef struct invocation {
    int argc;
    char **argv;
    sc_options options;
    bool help, version;
    int exit_code;
} invocation;

/* ---- the command line ---- */

static void set_plan(sc_context *context, void *into, const char *name, const char *value)
{
    invocation *call = into;
    (void)name;
    call->options.plan = value;
    *sc_vec_push(&context->arena, &call->options.plans) = value;
}

static void set_bind(sc_context *context, void *into, const char *name, const char *value)
{
    sc_parse_bindings(context, name, value, &((invocation *)into)->options.plan_options.binds);
}

static void set_mesh(sc_context *context, void *into, const char *name, const char *value)
{
    sc_parse_bindings(context, name, value, &((invocation *)into)->options.plan_options.mesh);
}

static void set_ranks(sc_context *context, void *into, const char *name, const char *value)
{
    sc_options *options = &((invocation *)into)->options;
    int64_t ranks;
    sc_arguments_number(context, name, value, &ranks);
    options->ranks = options->plan_options.ranks = (uint64_t)ranks;
}

#define ROW(name, kind, field, value, summary)                                                                                             \
    {                                                                                                                                      \
        name, SC_OPTION_##kind, offsetof(invocation, field), value, summary, NULL                                                          \
    }
#define OWN(name, set, value, summary)                                                                                                     \
    {                                                                                                                                      \
        name, SC_OPTION_OWN, 0, value, summary, set                                                                                        \
    }

static const sc_option_row option_rows[] = {
    OWN("--plan", set_plan, "NAME", "the plan (default: the file's only one); none: one device"),
    ROW("--plan-file", TEXT, options.plan_file, "FILE", "more plans"),
    OWN("--bind", set_bind, "D=64,E=8", "sizes of dims"),
    OWN("--mesh", set_mesh, "dp=16", "sizes of mesh axes"),
    ROW("--entry", TEXT, options.entry, "NAME", "the entry point"),
    ROW("--allow-padding", FLAG, options.plan_options.allow_padding, NULL, "pad sizes that axes do not divide"),
    ROW("--after", TEXT, options.after, "PASS", "ir: stop after this pass (build: as elaborated)"),
    ROW("--dump-dir", TEXT, options.dump_dir, "DIR", "ir: a numbered file per pass"),
    ROW("--fold", FLAG, options.fold, NULL, "ir: repeated layers once"),
    ROW("--full", FLAG, options.full, NULL, "verify: do not shrink"),
    ROW("--dtypes", FLAG, options.dtypes, NULL, "verify: with the casts in force"),
    ROW("--compiled", FLAG, options.compiled, NULL, "verify: the emitted code, run here, against the global program"),
    ROW("--map", TEXT, options.map, "NAME", "eval, train, build: the weights block"),
    ROW("--interpret", FLAG, options.interpret, NULL, "eval, train: on the reference interpreter, without a C compiler"),
    OWN("--ranks", set_ranks, "N", "ranks at hand, for an `auto` axis"),
    ROW("--target", TEXT, options.target, "cpu|cuda:sm_90a", "build, kernels, eval, train, generate, verify --compiled: what it runs on"),
    ROW("--compile", FLAG, options.compile, NULL, "kernels: compile them; of CUDA, what they take of a multiprocessor"),
    ROW("--help", FLAG, help, NULL, "this"),
    ROW("--version", FLAG, version, NULL, "the version"),
};
enum { OPTION_COUNT = sizeof option_rows / sizeof *option_rows };

static void parse_arguments(sc_context *context, invocation *call)
{
    sc_options *o = &call->options;
    sc_text_list words = {0};
    const sc_option_table tables[] = {{option_rows, OPTION_COUNT, call}, {sc_run_option_rows, sc_run_option_count, &o->run}};
    sc_arguments_parse(context, tables, 2, "shardc --help", call->argc, call->argv, &words);
    o->command = words.count > 0 ? words.data[0] : NULL;
    o->file = words.count > 1 ? words.data[1] : NULL;
    for (uint32_t i = 2; i < words.count; i++)
        *sc_vec_push(&context->arena, &o->rest) = words.data[i];
}

static const command_row *find_command(sc_context *context, const char *name)
{
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i].name;
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    }
    const char *near = sc_nearest(name, names, COMMAND_COUNT);
    sc_arguments_fail(context, "there is no command '%s'%s%s%s", name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    if (near == NULL)
        sc_report_note(&context->diag, (sc_loc){0}, "'shardc --help' lists the commands");
    return NULL;
}

static void print_help(sc_strbuf *out)
{
    sc_strbuf_add(out, "shardc COMMAND FILE [OPTIONS]\n\ncommands\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (commands[i].run != NULL)
            sc_strbuf_printf(out, "  %-8s %-9s %s\n", commands[i].name, commands[i].arguments, commands[i].summary);
    }
    sc_strbuf_add(out, "\noptions\n");
    sc_arguments_help((sc_option_table[]){{option_rows, OPTION_COUNT, NULL}, {sc_run_option_rows, sc_run_option_count, NULL}}, 2, out);
    sc_strbuf_add(
        out,
        "\nexit codes: 0 fine, 1 source, 2 usage, 3 expect, 4 infeasible, 5 verification, 6 not compiled by this version, 7 run time\n");
}

/* How many arguments may follow the first: one a word of the row's `arguments` but that. */
static uint32_t most_further(const command_row *command)
{
    uint32_t count = 0;
    for (const char *p = command->arguments; *p != 0; p++)
        count += *p == ' ';
    return count;
}

static bool check_arguments(sc_context *context, const command_row *command, const sc_options *options)
{
    bool compares = strcmp(command->name, "diff") == 0;
    if (options->file == NULL && command->arguments[0] != '[')
        sc_arguments_fail(context, "shardc %s needs a file", command->name);
    else if (options->rest.count > most_further(command))
        sc_arguments_fail(context, "'%s' is one argument too many: shardc %s %s", options->rest.data[most_further(command)], command->name,
                          command->arguments);
    else if (options->plans.count > 1 && !compares)
        sc_arguments_fail(context, "shardc %s works on one plan, but %u are given; 'shardc diff' compares two", command->name,
                          options->plans.count);
    else
        return true;
    return false;
}

/* What only some commands read is checked by all: a word that does nothing would not be noticed. */
static bool check_environment(sc_context *context)
{
    sc_processor_level level;
    char problem[256];
    bool ok = sc_processor_allowed(&level, problem, sizeof problem);
    if (!ok)
        sc_arguments_fail(context, "%s", problem);
    return ok;
}

static int dispatch(sc_context *context, invocation *call, sc_strbuf *out)
{
    parse_arguments(context, call);
    if (call->version) {
        sc_strbuf_printf(out, "shardc %s\n", SHARDC_VERSION);
        return 0;
    }
    if (call->help || (call->options.command == NULL && context->diag.errors == 0)) {
        print_help(out);
        return call->help ? 0 : 2;
    }
    if (context->diag.errors > 0)
        return 0;
    const command_row *command = find_command(context, call->options.command);
    if (command == NULL)
        return 0;
    if (command->run == NULL) {
        sc_report(&context->diag, SC_D_not_compiled, (sc_loc){0}, sc_arena_printf(&context->arena, "the command '%s'", command->name),
                  NULL);
        return 0;
    }
    if (!check_arguments(context, command, &call->options) || !check_environment(context))
        return 0;
    return command->run(context, &call->options, out);
}

static bool writes_itself(const invocation *call)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (call->options.command != NULL && strcmp(call->options.command, commands[i].name) == 0)
            return commands[i].writes;
    }
    return false;
}

static void write_result(sc_context *context, const invocation *call, const sc_strbuf *out)
{
    const char *path = writes_itself(call) ? NULL : call->options.run.output;
    FILE *file = path == NULL || out->length == 0 ? stdout : fopen(path, "w");
    if (file == NULL || fwrite(out->data, 1, out->length, file) != out->length || (file != stdout ? fclose(file) : fflush(file)) != 0)
        sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0}, path == NULL ? "standard output" : path, strerror(errno), NULL);
}

static void work(sc_context *context, void *user)
{
    invocation *call = user;
    sc_strbuf out, messages;
    sc_strbuf_init(&out, &context->arena);
    sc_strbuf_init(&messages, &context->arena);
    int code = dispatch(context, call, &out);
    write_result(context, call, &out);
    if (call->options.run.json_diagnostics)
        sc_diag_render_json(&context->diag, &context->sources, &messages);
    else
        sc_diag_render_text(&context->diag, &context->sources, &messages);
    fputs(messages.data, stderr);
    call->exit_code = sc_diag_exit_code(&context->diag) != 0 ? sc_diag_exit_code(&context->diag) : code;
}

int main(int argc, char **argv)
{
    sc_context context;
    invocation call = {.argc = argc, .argv = argv, .options.run = {.text = stdout, .progress = stderr}};
    bool fine = sc_context_run(&context, 0, work, &call);
    sc_context_free(&context);
    if (!fine)
        fputs("shardc: out of memory\n", stderr);
    return fine ? call.exit_code : 70;
}
