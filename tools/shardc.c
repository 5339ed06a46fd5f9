/* shardc: the command line. The only place of the compiler that prints and exits. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    {"explain", sc_cmd_explain, "F [WHAT]", "where values stand, and why; how to do without a collective (WHAT: PATH or FILE:LINE[:COL])", false},
    {"comm", sc_cmd_comm, "F", "the table of collectives", false},
    {"verify", sc_cmd_verify, "F", "the per-rank programs against the global one (--full, --dtypes), or the emitted code (--compiled)", false},
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

typedef enum option_id {
    OPT_PLAN,
    OPT_PLAN_FILE,
    OPT_BIND,
    OPT_MESH,
    OPT_ENTRY,
    OPT_SEED,
    OPT_ALLOW_PADDING,
    OPT_FORMAT,
    OPT_OUTPUT,
    OPT_DIAGNOSTICS,
    OPT_AFTER,
    OPT_DUMP_DIR,
    OPT_FOLD,
    OPT_FULL,
    OPT_DTYPES,
    OPT_WEIGHTS,
    OPT_MAP,
    OPT_DATA,
    OPT_INPUT,
    OPT_STEPS,
    OPT_SET,
    OPT_LOG,
    OPT_SAVE,
    OPT_STATE,
    OPT_RESUME,
    OPT_EVAL_DATA,
    OPT_EVAL_EVERY,
    OPT_RANKS,
    OPT_INTERPRET,
    OPT_TARGET,
    OPT_PROMPT,
    OPT_MAX_TOKENS,
    OPT_TEMPERATURE,
    OPT_TOP_K,
    OPT_TOP_P,
    OPT_STOP,
    OPT_COMPILED,
    OPT_COMPILE,
    OPT_HELP,
    OPT_VERSION
} option_id;

typedef struct option_row {
    const char *name;
    option_id id;
    const char *value; /* what it takes; NULL: nothing */
    const char *summary;
} option_row;

static const option_row option_rows[] = {
    {"--plan", OPT_PLAN, "NAME", "the plan (default: the file's only one); none: one device"},
    {"--plan-file", OPT_PLAN_FILE, "FILE", "more plans"},
    {"--bind", OPT_BIND, "D=64,E=8", "sizes of dims"},
    {"--mesh", OPT_MESH, "dp=16", "sizes of mesh axes"},
    {"--entry", OPT_ENTRY, "NAME", "the entry point"},
    {"--seed", OPT_SEED, "N", "of initial values, random inputs, dropout and the order of data"},
    {"--allow-padding", OPT_ALLOW_PADDING, NULL, "pad sizes that axes do not divide"},
    {"--format", OPT_FORMAT, "text|json", "of the result"},
    {"-o", OPT_OUTPUT, "FILE", "write the result there"},
    {"--diagnostics", OPT_DIAGNOSTICS, "text|json", "form of messages"},
    {"--after", OPT_AFTER, "PASS", "ir: stop after this pass (build: as elaborated)"},
    {"--dump-dir", OPT_DUMP_DIR, "DIR", "ir: a numbered file per pass"},
    {"--fold", OPT_FOLD, NULL, "ir: repeated layers once"},
    {"--full", OPT_FULL, NULL, "verify: do not shrink"},
    {"--dtypes", OPT_DTYPES, NULL, "verify: with the casts in force"},
    {"--compiled", OPT_COMPILED, NULL, "verify: the emitted code, run here, against the global program"},
    {"--weights", OPT_WEIGHTS, "FILE|DIR", "eval, train: safetensors"},
    {"--map", OPT_MAP, "NAME", "eval, train, build: the weights block"},
    {"--data", OPT_DATA, "FILE", "eval, train: tokens"},
    {"--input", OPT_INPUT, "NAME=FILE[:TENSOR]", "eval, train: an input; train: or one more dim, a step per index"},
    {"--steps", OPT_STEPS, "N", "eval: batches; train: steps, those before --resume included"},
    {"--set", OPT_SET, "lr=1e-4,decay=0", "train: scalars of the optimizers"},
    {"--log", OPT_LOG, "FILE", "train: a line of JSON a step"},
    {"--save", OPT_SAVE, "FILE", "train: parameters at the end, through the weights block"},
    {"--state", OPT_STATE, "DIR", "train: everything, at the end or when stopped"},
    {"--resume", OPT_RESUME, "DIR", "train: go on from there"},
    {"--eval-data", OPT_EVAL_DATA, "FILE", "train: tokens of the held-out loss"},
    {"--interpret", OPT_INTERPRET, NULL, "eval, train: on the reference interpreter, without a C compiler"},
    {"--eval-every", OPT_EVAL_EVERY, "N", "train: steps between held-out losses"},
    {"--ranks", OPT_RANKS, "N", "ranks at hand, for an `auto` axis"},
    {"--prompt", OPT_PROMPT, "TEXT", "generate: a row to continue; ids, or bytes where the vocabulary has 256"},
    {"--max-tokens", OPT_MAX_TOKENS, "N", "generate: new tokens of a row (default 64)"},
    {"--temperature", OPT_TEMPERATURE, "X", "generate: draw; without it the most likely token"},
    {"--top-k", OPT_TOP_K, "N", "generate: draw among the N most likely"},
    {"--top-p", OPT_TOP_P, "X", "generate: draw among the fewest that have this probability"},
    {"--stop", OPT_STOP, "ID", "generate: the token that ends a row"},
    {"--target", OPT_TARGET, "cpu|cuda:sm_90a", "build, kernels, eval, train, generate, verify --compiled: what it runs on"},
    {"--compile", OPT_COMPILE, NULL, "kernels: compile them; of CUDA, what they take of a multiprocessor"},
    {"--help", OPT_HELP, NULL, "this"},
    {"--version", OPT_VERSION, NULL, "the version"},
};
enum { OPTION_COUNT = sizeof option_rows / sizeof *option_rows };

typedef struct invocation {
    int argc;
    char **argv;
    sc_options options;
    bool help, version;
    int exit_code;
    char *result;
    size_t result_length;
} invocation;

static void usage(sc_context *context, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void usage(sc_context *context, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = sc_arena_vprintf(&context->arena, format, args);
    va_end(args);
    sc_report(&context->diag, SC_D_usage, (sc_loc){0}, text, NULL);
}

/* `-` and `_` are equal in option names. */
static bool same_option(const char *a, const char *b, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bool both_dashes = (a[i] == '_' || a[i] == '-') && (b[i] == '_' || b[i] == '-');
        if (a[i] != b[i] && !both_dashes)
            return false;
    }
    return b[length] == 0;
}

static const option_row *find_option(sc_context *context, const char *text)
{
    size_t length = strcspn(text, "=");
    const char *names[OPTION_COUNT];
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        names[i] = option_rows[i].name;
        if (same_option(text, option_rows[i].name, length))
            return &option_rows[i];
    }
    const char *near = sc_nearest(sc_arena_copy_text(&context->arena, text, length), names, OPTION_COUNT);
    usage(context, "there is no option '%.*s'%s%s%s", (int)length, text, near ? "; did you mean '" : "", near ? near : "",
          near ? "'?" : "");
    if (near == NULL)
        sc_report_note(&context->diag, (sc_loc){0}, "'shardc --help' lists the options");
    return NULL;
}


static bool one_of(sc_context *context, const char *option, const char *value, bool *json)
{
    *json = strcmp(value, "json") == 0;
    if (!*json && strcmp(value, "text") != 0)
        usage(context, "%s is text or json, not '%s'", option, value);
    return *json;
}

static void set_number(sc_context *context, const char *option, const char *value, int64_t *out)
{
    if (!sc_parse_number_option(value, out) || *out < 0)
        usage(context, "%s takes a number of at least 0, not '%s'", option, value);
}

static void set_real(sc_context *context, const char *option, const char *value, double most, double *out)
{
    char *end;
    *out = strtod(value, &end);
    if (end == value || *end != 0 || !(*out >= 0 && *out <= most) || isinf(*out))
        usage(context, "%s takes a number of at least 0%s, not '%s'", option, most < INFINITY ? " and at most 1" : "", value);
}

static void set_option(sc_context *context, invocation *call, const option_row *row, const char *value)
{
    sc_options *o = &call->options;
    int64_t number = 0;
    switch (row->id) {
    case OPT_PLAN:
        o->plan = value;
        *sc_vec_push(&context->arena, &o->plans) = value;
        break;
    case OPT_PLAN_FILE:
        o->plan_file = value;
        break;
    case OPT_BIND:
        sc_parse_bindings(context, "--bind", value, &o->plan_options.binds);
        break;
    case OPT_MESH: {
        sc_binding_list list = {0};
        sc_parse_bindings(context, "--mesh", value, &list);
        for (uint32_t i = 0; i < list.count; i++)
            *sc_vec_push(&context->arena, &o->plan_options.mesh) = list.data[i];
        break;
    }
    case OPT_ENTRY:
        o->entry = value;
        break;
    case OPT_SEED:
        set_number(context, row->name, value, &number);
        o->seed = (uint64_t)number;
        break;
    case OPT_ALLOW_PADDING:
        o->plan_options.allow_padding = true;
        break;
    case OPT_FORMAT:
        one_of(context, row->name, value, &o->json);
        break;
    case OPT_OUTPUT:
        o->output = value;
        break;
    case OPT_DIAGNOSTICS:
        one_of(context, row->name, value, &o->json_diagnostics);
        break;
    case OPT_AFTER:
        o->after = value;
        break;
    case OPT_DUMP_DIR:
        o->dump_dir = value;
        break;
    case OPT_FOLD:
        o->fold = true;
        break;
    case OPT_COMPILED:
        o->compiled = true;
        break;
    case OPT_INTERPRET:
        o->interpret = true;
        break;
    case OPT_FULL:
        o->full = true;
        break;
    case OPT_DTYPES:
        o->dtypes = true;
        break;
    case OPT_WEIGHTS:
        o->weights = value;
        break;
    case OPT_MAP:
        o->map = value;
        break;
    case OPT_DATA:
        o->data = value;
        break;
    case OPT_INPUT: {
        size_t name = strcspn(value, "=");
        if (value[name] != '=' || name == 0)
            usage(context, "--input takes NAME=FILE[:TENSOR], not '%s'", value);
        else
            *sc_vec_push(&context->arena, &o->inputs) = (sc_named_text){sc_arena_copy_text(&context->arena, value, name), value + name + 1};
        break;
    }
    case OPT_STEPS:
        set_number(context, row->name, value, &o->steps);
        break;
    case OPT_SET:
        o->set = o->set == NULL ? value : sc_arena_printf(&context->arena, "%s,%s", o->set, value);
        break;
    case OPT_LOG:
        o->log = value;
        break;
    case OPT_SAVE:
        o->save = value;
        break;
    case OPT_STATE:
        o->state = value;
        break;
    case OPT_RESUME:
        o->resume = value;
        break;
    case OPT_EVAL_DATA:
        o->eval_data = value;
        break;
    case OPT_EVAL_EVERY:
        set_number(context, row->name, value, &o->eval_every);
        break;
    case OPT_RANKS:
        set_number(context, row->name, value, &number);
        o->ranks = o->plan_options.ranks = (uint64_t)number;
        break;
    case OPT_PROMPT:
        *sc_vec_push(&context->arena, &o->prompts) = value;
        break;
    case OPT_MAX_TOKENS:
        set_number(context, row->name, value, &o->max_tokens);
        break;
    case OPT_TEMPERATURE:
        set_real(context, row->name, value, INFINITY, &o->temperature);
        break;
    case OPT_TOP_K:
        set_number(context, row->name, value, &o->top_k);
        break;
    case OPT_TOP_P:
        set_real(context, row->name, value, 1, &o->top_p);
        break;
    case OPT_STOP:
        set_number(context, row->name, value, &o->stop);
        o->has_stop = true;
        break;
    case OPT_COMPILE:
        o->compile = true;
        break;
    case OPT_TARGET:
        o->target = value;
        break;
    case OPT_HELP:
        call->help = true;
        break;
    case OPT_VERSION:
        call->version = true;
        break;
    }
}

static void parse_arguments(sc_context *context, invocation *call)
{
    for (int i = 1; i < call->argc; i++) {
        const char *text = call->argv[i];
        if (text[0] != '-' || text[1] == 0) {
            if (call->options.command == NULL)
                call->options.command = text;
            else if (call->options.file == NULL)
                call->options.file = text;
            else
                *sc_vec_push(&context->arena, &call->options.rest) = text;
            continue;
        }
        const option_row *row = find_option(context, text);
        if (row == NULL)
            continue;
        const char *value = strchr(text, '=') != NULL ? strchr(text, '=') + 1 : NULL;
        if (row->value == NULL && value != NULL)
            usage(context, "%s takes no value", row->name);
        else if (row->value != NULL && value == NULL && i + 1 == call->argc)
            usage(context, "%s needs %s", row->name, row->value);
        else
            set_option(context, call, row, row->value == NULL || value != NULL ? value : call->argv[++i]);
    }
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
    usage(context, "there is no command '%s'%s%s%s", name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
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
    for (size_t i = 0; i < OPTION_COUNT; i++)
        sc_strbuf_printf(out, "  %-15s %-19s %s\n", option_rows[i].name, option_rows[i].value ? option_rows[i].value : "",
                         option_rows[i].summary);
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
        usage(context, "shardc %s needs a file", command->name);
    else if (options->rest.count > most_further(command))
        usage(context, "'%s' is one argument too many: shardc %s %s", options->rest.data[most_further(command)], command->name,
              command->arguments);
    else if (options->plans.count > 1 && !compares)
        usage(context, "shardc %s works on one plan, but %u are given; 'shardc diff' compares two", command->name, options->plans.count);
    else
        return true;
    return false;
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
    if (!check_arguments(context, command, &call->options))
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
    const char *path = writes_itself(call) ? NULL : call->options.output;
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
    if (call->options.json_diagnostics)
        sc_diag_render_json(&context->diag, &context->sources, &messages);
    else
        sc_diag_render_text(&context->diag, &context->sources, &messages);
    fputs(messages.data, stderr);
    call->exit_code = sc_diag_exit_code(&context->diag) != 0 ? sc_diag_exit_code(&context->diag) : code;
}

int main(int argc, char **argv)
{
    sc_context context;
    invocation call = {.argc = argc, .argv = argv};
    bool fine = sc_context_run(&context, 0, work, &call);
    sc_context_free(&context);
    if (!fine)
        fputs("shardc: out of memory\n", stderr);
    return fine ? call.exit_code : 70;
}
