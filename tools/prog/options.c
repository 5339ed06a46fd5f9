#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prog/prog.h"

typedef enum option_kind { TEXT, NUMBER, FLAG, FORMAT, DIAGNOSTICS, INPUT, SETTING, SEED, PROMPT, REAL, STOP } option_kind;

typedef struct option_row {
    const char *name;
    option_kind kind;
    size_t field; /* offset in sc_prog of what TEXT, NUMBER and FLAG set */
    const char *value, *summary;
} option_row;

#define FIELD(name) offsetof(sc_prog, name)

static const option_row rows[] = {
    {"--data", TEXT, FIELD(run.data), "FILE", "eval, train: tokens"},
    {"--input", INPUT, 0, "NAME=FILE[:TENSOR]", "eval, train: an input; train: or one more dim, a step per index"},
    {"--weights", TEXT, FIELD(run.weights), "FILE|DIR", "parameters: safetensors"},
    {"--seed", SEED, 0, "N", "of initial values, random inputs, dropout and the order of data"},
    {"--steps", NUMBER, FIELD(run.steps), "N", "eval: batches; train: steps, those before --resume included; bench: timed steps"},
    {"--set", SETTING, 0, "lr=1e-4,decay=0", "train: scalars of the optimizers"},
    {"--log", TEXT, FIELD(run.log), "FILE", "train: a line of JSON a step"},
    {"--save", TEXT, FIELD(run.save), "FILE", "train: parameters at the end, through the weights block"},
    {"--state", TEXT, FIELD(run.state), "DIR", "train: everything, at the end or when stopped"},
    {"--resume", TEXT, FIELD(run.resume), "DIR", "train: go on from there"},
    {"--eval-data", TEXT, FIELD(run.eval_data), "FILE", "train: tokens of the held-out loss"},
    {"--eval-every", NUMBER, FIELD(run.eval_every), "N", "train: steps between held-out losses"},
    {"--prompt", PROMPT, 0, "TEXT", "generate: a row to continue; ids, or bytes where the vocabulary has 256"},
    {"--max-tokens", NUMBER, FIELD(run.max_tokens), "N", "generate: new tokens of a row; bench: timed tokens (default 64)"},
    {"--temperature", REAL, FIELD(run.temperature), "X", "generate: draw; without it the most likely token"},
    {"--top-k", NUMBER, FIELD(run.top_k), "N", "generate: draw among the N most likely"},
    {"--top-p", REAL, FIELD(run.top_p), "X", "generate: draw among the fewest that have this probability"},
    {"--stop", STOP, 0, "ID", "generate: the token that ends a row"},
    {"--calibrate", FLAG, FIELD(calibrate), NULL, "bench: only the speed of one large product"},
    {"--profile", FLAG, FIELD(profile), NULL, "bench: what takes the time"},
    {"--gemms-only", FLAG, FIELD(gemms_only), NULL, "bench: after each step its products alone"},
    {"--products", TEXT, FIELD(products), "FILE", "cards: where cuBLASLt's choices are kept (default: PROG.products; '': nowhere)"},
    {"--no-graph", FLAG, FIELD(no_graph), NULL, "on a card: functions are launched as they are, never as graphs"},
    {"--ranks", NUMBER, FIELD(ranks), "N", "must be the program's"},
    {"--threads", NUMBER, FIELD(threads), "N", "that compute in this process (default: a thread a core)"},
    {"--deadline", NUMBER, FIELD(deadline_ms), "MS", "of one collective"},
    {"-o", TEXT, FIELD(run.output), "FILE", "eval: outputs as safetensors"},
    {"--format", FORMAT, 0, "text|json", "of the result"},
    {"--json", FLAG, FIELD(run.json), NULL, "as --format json"},
    {"--diagnostics", DIAGNOSTICS, 0, "text|json", "form of messages"},
    {"--help", FLAG, FIELD(help), NULL, "this"},
    {"--version", FLAG, FIELD(version), NULL, "the version"},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* `-` and `_` are equal in option names. */
static bool same_option(const char *a, const char *b, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bool both = (a[i] == '_' || a[i] == '-') && (b[i] == '_' || b[i] == '-');
        if (a[i] != b[i] && !both)
            return false;
    }
    return b[length] == 0;
}

static const option_row *find_row(sc_prog *prog, const char *text)
{
    size_t length = strcspn(text, "=");
    const char *names[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        names[i] = rows[i].name;
        if (same_option(text, rows[i].name, length))
            return &rows[i];
    }
    const char *near = sc_nearest(sc_arena_copy_text(&prog->context->arena, text, length), names, ROWS);
    sc_prog_fail(prog, SC_D_usage, "there is no option '%.*s'%s%s%s", (int)length, text, near != NULL ? "; did you mean '" : "",
                 near != NULL ? near : "", near != NULL ? "'?" : "");
    return NULL;
}

static void set_number(sc_prog *prog, const char *name, const char *value, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != 0 || *out < 0)
        sc_prog_fail(prog, SC_D_usage, "%s takes a number of at least 0, not '%s'", name, value);
}

static void set_real(sc_prog *prog, const char *name, const char *value, double *out)
{
    char *end;
    *out = strtod(value, &end);
    if (end == value || *end != 0 || !(*out >= 0) || isinf(*out))
        sc_prog_fail(prog, SC_D_usage, "%s takes a number of at least 0, not '%s'", name, value);
}

static bool is_json(sc_prog *prog, const char *name, const char *value)
{
    if (strcmp(value, "json") != 0 && strcmp(value, "text") != 0)
        sc_prog_fail(prog, SC_D_usage, "%s is text or json, not '%s'", name, value);
    return strcmp(value, "json") == 0;
}

static void add_input(sc_prog *prog, const char *value)
{
    sc_arena *arena = &prog->context->arena;
    size_t name = strcspn(value, "=");
    if (value[name] != '=' || name == 0)
        sc_prog_fail(prog, SC_D_usage, "--input takes NAME=FILE[:TENSOR], not '%s'", value);
    else
        *sc_vec_push(arena, &prog->run.inputs) = (sc_named_text){sc_arena_copy_text(arena, value, name), value + name + 1};
}

static void set_option(sc_prog *prog, const option_row *row, const char *value)
{
    char *field = (char *)prog + row->field;
    int64_t seed = 0;
    switch (row->kind) {
    case TEXT:
        *(const char **)(void *)field = value;
        break;
    case NUMBER:
        set_number(prog, row->name, value, (int64_t *)(void *)field);
        break;
    case FLAG:
        *(bool *)field = true;
        break;
    case FORMAT:
        prog->run.json = is_json(prog, row->name, value);
        break;
    case DIAGNOSTICS:
        prog->json_diagnostics = is_json(prog, row->name, value);
        break;
    case INPUT:
        add_input(prog, value);
        break;
    case SETTING:
        prog->run.set = prog->run.set == NULL ? value : sc_arena_printf(&prog->context->arena, "%s,%s", prog->run.set, value);
        break;
    case PROMPT:
        *sc_vec_push(&prog->context->arena, &prog->run.prompts) = value;
        break;
    case REAL:
        set_real(prog, row->name, value, (double *)(void *)field);
        break;
    case STOP:
        set_number(prog, row->name, value, &prog->run.stop);
        prog->run.has_stop = true;
        break;
    case SEED:
        set_number(prog, row->name, value, &seed);
        prog->run.seed = (uint64_t)seed;
        break;
    }
}

bool sc_prog_parse(sc_prog *prog, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        if (text[0] != '-' || text[1] == 0) {
            if (prog->command != NULL)
                sc_prog_fail(prog, SC_D_usage, "'%s' is one argument too many", text);
            else
                prog->command = text;
            continue;
        }
        const option_row *row = find_row(prog, text);
        if (row == NULL)
            continue;
        const char *value = strchr(text, '=') != NULL ? strchr(text, '=') + 1 : NULL;
        if (row->value == NULL && value != NULL)
            sc_prog_fail(prog, SC_D_usage, "%s takes no value", row->name);
        else if (row->value != NULL && value == NULL && i + 1 == argc)
            sc_prog_fail(prog, SC_D_usage, "%s needs %s", row->name, row->value);
        else
            set_option(prog, row, row->value == NULL || value != NULL ? value : argv[++i]);
    }
    return prog->context->diag.errors == 0;
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
    for (size_t i = 0; i < ROWS; i++)
        sc_strbuf_printf(out, "  %-14s %-19s %s\n", rows[i].name, rows[i].value != NULL ? rows[i].value : "", rows[i].summary);
    sc_strbuf_add(out, "\nexit codes: 0 fine, 2 usage, 7 run time\n");
}
