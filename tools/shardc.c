/* shardc: the command line. The only part of the compiler that prints and exits. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "program/cpu_level.h"
#include "runtime/session/team.h"
#include "support/arguments.h"
#include "support/none.h"
#include "tools/commands/commands.h"
#include "tools/driver/bindings.h"
#include "tools/explain/measure_memory.h"
#include "tools/explain/report.h"

typedef struct command_row {
    const char *name;
    sc_command *run;
    const char *arguments, *summary; /* arguments in square brackets are optional */
    const char *example;
    bool writes; /* the command itself writes the file of -o */
} command_row;

static const command_row commands[] = {
    {"check", sc_cmd_check, "F", "parse, type-check, place; check every expect",
     "shardc check examples/bytes.shard --plan tp4_sp", false},
    {"ir", sc_cmd_ir, "F", "the IR, final or after a pass",
     "shardc ir examples/bytes.shard --plan tp4_sp --after propagate --fold", false},
    {"explain", sc_cmd_explain, "F [WHAT]",
     "where values are placed, and why; how to avoid a collective (WHAT: PATH or FILE:LINE[:COL])",
     "shardc explain examples/bytes.shard layers.attn.wq --plan tp4_sp", false},
    {"comm", sc_cmd_comm, "F", "the table of collectives",
     "shardc comm examples/bytes.shard --plan dp2_fsdp2_tp2 --format json", false},
    {"verify", sc_cmd_verify, "F",
     "the per-rank programs against the global one, or (--compiled) the emitted code",
     "shardc verify examples/bytes.shard --plan tp4_sp --compiled", false},
    {"eval", sc_cmd_eval, "F", "run an entry here",
     "shardc eval examples/bytes.shard --plan one --weights w.safetensors --data text.txt", true},
    {"fmt", sc_cmd_fmt, "F", "canonical formatting, comments kept",
     "shardc fmt model.shard -o model.shard", false},
    {"memory", sc_cmd_memory, "F", "bytes per rank",
     "shardc memory examples/bytes.shard --plan dp2_fsdp2_tp2", false},
    {"diff", sc_cmd_diff, "F", "two plans side by side",
     "shardc diff examples/bytes.shard --plan tp4_sp --plan dp2_fsdp2_tp2", false},
    {"legal", sc_cmd_legal, "F DIM", "sizes that an axis over DIM may have",
     "shardc legal examples/bytes.shard H --plan tp4_sp", false},
    {"schedule", sc_cmd_schedule, "F", "the schedule of a pipeline: who does what, when",
     "shardc schedule llama.shard --plan pp --format csv -o schedule.csv", false},
    {"simulate", sc_cmd_simulate, "F",
     "how long a step takes on a described device, and where the time goes",
     "shardc simulate examples/llama.shard --plan tp8_sp_fsdp4 --device h100", false},
    {"kernels", sc_cmd_kernels, "F", "the emitted kernels",
     "shardc kernels examples/bytes.shard --plan one --target cuda:sm_90a -o out", true},
    {"train", sc_cmd_train, "F", "train here",
     "shardc train examples/bytes.shard --plan one --data text.txt --steps 100 --state run1",
     false},
    {"generate", sc_cmd_generate, "F", "continue prompts with a cached entry",
     "shardc generate chat.shard --weights w.safetensors --prompt 'once upon' --temperature 0.8",
     false},
    {"tokenize", sc_cmd_tokenize, "F|-", "lines of text to ids, or back (--decode)",
     "shardc tokenize text.txt --tokenizer tokenizer.json", false},
    {"convert", sc_cmd_convert, "F [FROM]",
     "a state of training as weights files of the model's weights block, or weights as a state",
     "shardc convert llama.shard run1 -o llama --dtype bf16 --max-shard 5GiB", true},
    {"build", sc_cmd_build, "F", "an executable that trains, evaluates, measures",
     "shardc build examples/bytes.shard --plan one -o step", true},
    {"data", sc_cmd_data, "F..", "write the ids of text, for --data",
     "shardc data corpus/*.jsonl --tokenizer tokenizer.json --eos '<|end|>' -o corpus.bin", true},
    {"plot", sc_cmd_plot, "LOG..", "draw the losses, norms and speeds of training logs as SVG",
     "shardc plot run1.log run2.log -o loss.svg", false},
    {"import", sc_cmd_import, "DIR", "a model file from the config.json of a Hugging Face folder",
     "shardc import Llama-3.1-8B --precision bf16 -o model.shard", false},
    {"help", sc_cmd_help, "[COMMAND|ID]",
     "a command's options, or a paragraph on a diagnostic; without either a list of those",
     "shardc help train", false},
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
    sc_arguments_number(context, name, value, 1, &ranks);
    options->ranks = options->plan_options.ranks = (uint64_t)ranks;
}

static const sc_option_row option_rows[] = {
#define COMPILER(name, kind, field, argument, takers, summary)                                     \
    {name, SC_OPTION_##kind, offsetof(invocation, field), argument, takers, summary, NULL},
#define COMPILER_SET(name, kind, set, argument, takers, summary)                                   \
    {name, SC_OPTION_##kind, 0, argument, takers, summary, set},
#include "runtime/drive/options.def"
};

/* Options of built programs, listed so that they are rejected with a specific message. */
static const sc_option_row program_rows[] = {
#define PROGRAM(name, kind, field, argument, takers, summary)                                      \
    {name, SC_OPTION_##kind, 0, argument, takers, summary, NULL},
#include "runtime/drive/options.def"
};

typedef struct own_line {
    sc_command_line line;
    const char *names[COMMAND_COUNT];
    sc_option_table tables[3];
} own_line;

/* Describes the command line; `call` is NULL if only help is needed. */
static void describe(invocation *call, own_line *out)
{
    for (uint32_t i = 0; i < COMMAND_COUNT; i++)
        out->names[i] = commands[i].name;
    out->tables[0] =
        (sc_option_table){option_rows, sizeof option_rows / sizeof *option_rows, call, NULL};
    out->tables[1] = (sc_option_table){sc_run_option_rows, sc_run_option_count,
                                       call == NULL ? NULL : &call->options.run, NULL};
    out->tables[2] = (sc_option_table){program_rows, sizeof program_rows / sizeof *program_rows,
                                       NULL, "programs of 'shardc build'"};
    out->line = (sc_command_line){.program = "shardc",
                                  .commands = out->names,
                                  .command_count = COMMAND_COUNT,
                                  .tables = out->tables,
                                  .table_count = 3,
                                  .relations = sc_option_relations,
                                  .relation_count = sc_option_relation_count};
}

static void parse_arguments(sc_context *context, const own_line *own, invocation *call,
                            sc_arguments *arguments)
{
    sc_options *o = &call->options;
    sc_arguments_parse(context, &own->line, call->argc, call->argv, arguments);
    const sc_text_list *words = &arguments->words;
    o->command = words->count > 0 ? words->data[0] : NULL;
    o->file = words->count > 1 ? words->data[1] : NULL;
    for (uint32_t i = 2; i < words->count; i++)
        *sc_vec_push(&context->arena, &o->rest) = words->data[i];
}

static void print_help(const own_line *own, sc_strbuf *out)
{
    sc_strbuf_add(out, "shardc COMMAND FILE [OPTIONS]\n\ncommands\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        sc_strbuf_printf(out, "  %-8s %-12s %s\n", commands[i].name, commands[i].arguments,
                         commands[i].summary);
    sc_strbuf_add(out, "\noptions ('shardc help COMMAND' lists those of one command)\n");
    sc_arguments_help(&own->line, NULL, out);
    sc_strbuf_add(out, "\nexit codes: 0 fine, 1 source, 2 usage, 3 expect, 4 infeasible, 5 "
                       "verification, 6 not compiled by this version, 7 run time\n");
}

static void print_command_help(const own_line *own, const command_row *command, sc_strbuf *out)
{
    sc_strbuf_printf(out, "shardc %s %s [OPTIONS]\n\n%s\n\noptions\n", command->name,
                     command->arguments, command->summary);
    sc_arguments_help(&own->line, command->name, out);
    sc_strbuf_printf(out, "\nexample\n  %s\n", command->example);
}

/* ---- help as JSON ---- */
static json_t *command_json(const command_row *command)
{
    return json_pack("{s:s,s:s,s:s,s:s}", "name", command->name, "arguments", command->arguments,
                     "summary", command->summary, "example", command->example);
}

/* `command` NULL: options of all commands. */
static json_t *options_json(const own_line *own, const char *command)
{
    json_t *list = json_array();
    for (uint32_t t = 0; t < own->line.table_count; t++) {
        const sc_option_table *table = &own->tables[t];
        for (uint32_t i = 0; i < table->count; i++) {
            const sc_option_row *row = &table->rows[i];
            if (sc_arguments_listed(table, row, command))
                json_array_append_new(list, json_pack("{s:s,s:s?,s:s?,s:s}", "name", row->name,
                                                      "argument", row->argument, "commands",
                                                      row->takers, "summary", row->summary));
        }
    }
    return list;
}

static void print_help_json(const own_line *own, sc_strbuf *out)
{
    json_t *list = json_array();
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        json_array_append_new(list, command_json(&commands[i]));
    sc_print_json(json_pack("{s:i,s:o,s:o}", "version", 1, "commands", list, "options",
                            options_json(own, NULL)),
                  out);
}

static void print_command_help_json(const own_line *own, const command_row *command, sc_strbuf *out)
{
    json_t *root = command_json(command);
    json_object_del(root, "name");
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "command", json_string(command->name));
    json_object_set_new(root, "options", options_json(own, command->name));
    sc_print_json(root, out);
}

/* Returns the maximum number of arguments after the first: one per further word in the row's
 * `arguments`; any number after "..". */
static uint32_t most_further(const command_row *command)
{
    uint32_t count = strstr(command->arguments, "..") != NULL ? UINT32_MAX / 2 : 0;
    for (const char *p = command->arguments; *p != 0; p++)
        count += *p == ' ';
    return count;
}

static bool check_arguments(sc_context *context, const command_row *command,
                            const sc_options *options)
{
    bool compares = strcmp(command->name, "diff") == 0;
    if (options->file == NULL && command->arguments[0] != '[')
        sc_arguments_fail(context, "shardc %s needs a file", command->name);
    else if (options->rest.count > most_further(command))
        sc_arguments_fail(context, "'%s' is one argument too many: shardc %s %s",
                          options->rest.data[most_further(command)], command->name,
                          command->arguments);
    else if (options->plans.count > 1 && !compares)
        sc_arguments_fail(
            context, "shardc %s works on one plan, but %u are given; 'shardc diff' compares two",
            command->name, options->plans.count);
    else
        return true;
    return false;
}

/* Returns the command whose help is requested by `shardc help COMMAND` or `shardc COMMAND --help`;
 * NULL: another kind of help. */
static const command_row *find_helped(const sc_options *options, bool asks)
{
    const char *name = asks ? options->command : NULL;
    if (options->command != NULL && strcmp(options->command, "help") == 0 && options->file != NULL)
        name = options->file;
    if (name != NULL) {
        for (size_t i = 0; i < COMMAND_COUNT; i++) {
            if (strcmp(name, commands[i].name) == 0)
                return &commands[i];
        }
    }
    return NULL;
}

/* Checks every variable for all commands, because an ineffective value would go unnoticed. */
static bool check_environment(sc_context *context)
{
    sc_cpu_level level;
    char problem[256];
    bool ok = sc_cpu_allowed(&level, problem, sizeof problem);
    if (!ok)
        sc_arguments_fail(context, "%s", problem);
    return ok;
}

static int dispatch(sc_context *context, invocation *call, sc_strbuf *out)
{
    own_line own;
    sc_arguments arguments;
    sc_options *options = &call->options;
    describe(call, &own);
    options->commands = own.names;
    options->command_count = COMMAND_COUNT;
    parse_arguments(context, &own, call, &arguments);
    bool takes_csv = options->command != NULL && strcmp(options->command, "schedule") == 0;
    if (!takes_csv)
        sc_run_check_format(context, &options->run);
    if (context->diag.errors > 0 && !call->version)
        return 0;
    if (call->version && options->run.json)
        sc_print_json(json_pack("{s:i,s:s}", "version", 1, "shardc", SHARDC_VERSION), out);
    else if (call->version)
        sc_strbuf_printf(out, "shardc %s\n", SHARDC_VERSION);
    if (call->version)
        return 0;
    const command_row *helped = find_helped(options, call->help);
    if (helped != NULL) {
        (options->run.json ? print_command_help_json : print_command_help)(&own, helped, out);
        return 0;
    }
    if (options->command == NULL) {
        (options->run.json ? print_help_json : print_help)(&own, out);
        return call->help ? 0 : 2;
    }
    uint32_t command = sc_arguments_command(context, &own.line, options->command);
    if (command == SC_NONE ||
        !sc_arguments_check(context, &own.line, &arguments, options->command) ||
        !check_arguments(context, &commands[command], options) || !check_environment(context))
        return 0;
    return commands[command].run(context, options, out);
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
    if (file == NULL || fwrite(out->data, 1, out->length, file) != out->length ||
        (file != stdout ? fclose(file) : fflush(file)) != 0)
        sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0},
                  path == NULL ? "standard output" : path, strerror(errno), NULL);
}

/* Must run before any OpenMP team is created. */
static void bound_threads(sc_context *context)
{
    char warning[160];
    if (sc_team_bound(warning, sizeof warning))
        sc_report(&context->diag, SC_D_too_many_threads, (sc_loc){0},
                  sc_arena_printf(&context->arena, "%s", warning), NULL);
}

static void work(sc_context *context, void *user)
{
    invocation *call = user;
    sc_strbuf out, messages;
    sc_strbuf_init(&out, &context->arena);
    sc_strbuf_init(&messages, &context->arena);
    bound_threads(context);
    int code = dispatch(context, call, &out);
    write_result(context, call, &out);
    if (call->options.run.json_diagnostics)
        sc_diag_render_json(&context->diag, &context->sources, &messages);
    else
        sc_diag_render_text(&context->diag, &context->sources, &messages);
    fputs(messages.data, stderr);
    call->exit_code =
        sc_diag_exit_code(&context->diag) != 0 ? sc_diag_exit_code(&context->diag) : code;
}

/* The stack is grown while there is room for it: where a limit of the address space is reached,
 * growing it later would end the process by a signal. */
enum { STACK_BYTES = 512 << 10, STACK_STEP = 4096 };

static bool has_room_for_stack(void)
{
    void *room =
        mmap(NULL, STACK_BYTES + (64 << 10), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && munmap(room, STACK_BYTES + (64 << 10)) == 0;
}

static __attribute__((noinline)) void grow_stack(void)
{
    volatile char stack[STACK_BYTES];
    stack[STACK_BYTES - 1] = 0;
    for (size_t i = STACK_BYTES - STACK_STEP; i >= STACK_STEP; i -= STACK_STEP)
        stack[i] = stack[STACK_BYTES - 1];
}

int main(int argc, char **argv)
{
    sc_context context;
    if (!has_room_for_stack()) {
        fputs("shardc: out of memory\n", stderr);
        return 70;
    }
    grow_stack();
    invocation call = {
        .argc = argc,
        .argv = argv,
        .options = {.run = {.text = stdout, .progress = stderr}, .measure = sc_measure_memory}};
    bool fine = sc_context_run(&context, 0, work, &call);
    sc_context_free(&context);
    if (!fine)
        fputs("shardc: out of memory\n", stderr);
    return fine ? call.exit_code : 70;
}
