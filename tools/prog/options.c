#include <stddef.h>

#include "tools/prog/prog.h"

static void set_stop(sc_context *context, void *into, const char *name, const char *value)
{
    sc_run_options *run = &((sc_prog *)into)->run;
    sc_arguments_number(context, name, value, &run->stop);
    run->has_stop = true;
}

#define ROW(name, kind, field, value, summary)                                                                                             \
    {                                                                                                                                      \
        name, SC_OPTION_##kind, offsetof(sc_prog, field), value, summary, NULL                                                             \
    }
#define OWN(name, set, value, summary)                                                                                                     \
    {                                                                                                                                      \
        name, SC_OPTION_OWN, 0, value, summary, set                                                                                        \
    }

static const sc_option_row rows[] = {
    ROW("--data", TEXT, run.data, "FILE", "eval, train: tokens"),
    ROW("--input", NAMED, run.inputs, "NAME=FILE[:TENSOR]", "eval, train: an input; train: or one more dim, a step per index"),
    ROW("--weights", TEXT, run.weights, "FILE|DIR", "parameters: safetensors"),
    ROW("--seed", UNSIGNED, run.seed, "N", "of initial values, random inputs, dropout and the order of data"),
    ROW("--steps", NUMBER, run.steps, "N", "eval: batches; train: steps, those before --resume included; bench: timed steps"),
    ROW("--set", JOINED, run.set, "lr=1e-4,decay=0", "train: scalars of the optimizers"),
    ROW("--log", TEXT, run.log, "FILE", "train: a line of JSON a step"),
    ROW("--save", TEXT, run.save, "FILE", "train: parameters at the end, through the weights block"),
    ROW("--state", TEXT, run.state, "DIR", "train: everything, at the end or when stopped"),
    ROW("--resume", TEXT, run.resume, "DIR", "train: go on from there"),
    ROW("--eval-data", TEXT, run.eval_data, "FILE", "train: tokens of the held-out loss"),
    ROW("--eval-every", NUMBER, run.eval_every, "N", "train: steps between held-out losses"),
    ROW("--prompt", TEXTS, run.prompts, "TEXT", "generate: a row to continue; ids, or bytes where the vocabulary has 256"),
    ROW("--max-tokens", NUMBER, run.max_tokens, "N", "generate: new tokens of a row; bench: timed tokens (default 64)"),
    ROW("--temperature", REAL, run.temperature, "X", "generate: draw; without it the most likely token"),
    ROW("--top-k", NUMBER, run.top_k, "N", "generate: draw among the N most likely"),
    ROW("--top-p", SHARE, run.top_p, "X", "generate: draw among the fewest that have this probability"),
    OWN("--stop", set_stop, "ID", "generate: the token that ends a row"),
    ROW("--calibrate", FLAG, calibrate, NULL, "bench: only the speed of one large product"),
    ROW("--profile", FLAG, profile, NULL, "bench: what takes the time"),
    ROW("--gemms-only", FLAG, gemms_only, NULL, "bench: after each step its products alone"),
    ROW("--products", TEXT, products, "FILE", "cards: where cuBLASLt's choices are kept (default: PROG.products; '': nowhere)"),
    ROW("--no-graph", FLAG, no_graph, NULL, "on a card: functions are launched as they are, never as graphs"),
    ROW("--ranks", NUMBER, ranks, "N", "must be the program's"),
    ROW("--threads", NUMBER, threads, "N", "that compute in this process (default: a thread a core)"),
    ROW("--deadline", NUMBER, deadline_ms, "MS", "of one collective"),
    ROW("-o", TEXT, run.output, "FILE", "eval: outputs as safetensors"),
    ROW("--format", JSON, run.json, "text|json", "of the result"),
    ROW("--json", FLAG, run.json, NULL, "as --format json"),
    ROW("--diagnostics", JSON, json_diagnostics, "text|json", "form of messages"),
    ROW("--help", FLAG, help, NULL, "this"),
    ROW("--version", FLAG, version, NULL, "the version"),
};
enum { ROWS = sizeof rows / sizeof *rows };

bool sc_prog_parse(sc_prog *prog, int argc, char **argv)
{
    sc_text_list words = {0};
    const char *list = sc_arena_printf(&prog->context->arena, "%s --help", argv[0]);
    sc_arguments_parse(prog->context, rows, ROWS, list, argc, argv, prog, &words);
    prog->command = words.count > 0 ? words.data[0] : NULL;
    if (words.count > 1)
        sc_arguments_fail(prog->context, "'%s' is one argument too many", words.data[1]);
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
    sc_arguments_help(rows, ROWS, out);
    sc_strbuf_add(out, "\nexit codes: 0 fine, 2 usage, 7 run time\n");
}
