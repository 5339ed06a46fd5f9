#include "runtime/drive/options.h"

#include <stddef.h>

static void set_stop(sc_context *context, void *into, const char *name, const char *value)
{
    sc_run_options *options = into;
    sc_arguments_number(context, name, value, &options->stop);
    options->has_stop = true;
}

#define ROW(name, kind, field, value, summary)                                                                                             \
    {                                                                                                                                      \
        name, SC_OPTION_##kind, offsetof(sc_run_options, field), value, summary, NULL                                                      \
    }

const sc_option_row sc_run_option_rows[] = {
    ROW("--weights", TEXT, weights, "FILE|DIR", "parameters: safetensors"),
    ROW("--data", TEXT, data, "FILE", "eval, train: tokens"),
    ROW("--input", NAMED, inputs, "NAME=FILE[:TENSOR]", "eval, train: an input; train: or one more dim, a step per index"),
    ROW("--seed", UNSIGNED, seed, "N", "of initial values, random inputs, dropout and the order of data"),
    ROW("--steps", NUMBER, steps, "N", "eval: batches; train: steps, those before --resume included; a program's bench: timed steps"),
    ROW("--set", JOINED, set, "lr=1e-4,decay=0", "train: scalars of the optimizers"),
    ROW("--log", TEXT, log, "FILE", "train: a line of JSON a step"),
    ROW("--save", TEXT, save, "FILE", "train: parameters at the end, through the weights block"),
    ROW("--state", TEXT, state, "DIR", "train: everything, at the end or when stopped, in DIR/step-000400"),
    ROW("--state-every", NUMBER, state_every, "N", "train: and every N steps"),
    ROW("--keep", NUMBER, keep, "K", "train: states that stay in DIR (default 2)"),
    ROW("--best", FLAG, best, NULL, "train: the state with the least held-out loss stays, too"),
    ROW("--resume", TEXT, resume, "DIR", "train: go on from there: DIR's last state, or DIR/step-000400"),
    ROW("--give-up", NUMBER, give_up, "N", "train: stop after N steps in a row with an infinite loss or norm (default 5)"),
    ROW("--eval-data", TEXT, eval_data, "FILE", "train: tokens of the held-out loss"),
    ROW("--eval-every", NUMBER, eval_every, "N", "train: steps between held-out losses"),
    ROW("--prompt", TEXTS, prompts, "TEXT", "generate: a row to continue; ids, or bytes where the vocabulary has 256"),
    ROW("--max-tokens", NUMBER, max_tokens, "N", "generate: new tokens of a row; a program's bench: timed tokens (default 64)"),
    ROW("--temperature", REAL, temperature, "X", "generate: draw; without it the most likely token"),
    ROW("--top-k", NUMBER, top_k, "N", "generate: draw among the N most likely"),
    ROW("--top-p", SHARE, top_p, "X", "generate: draw among the fewest that have this probability"),
    {"--stop", SC_OPTION_OWN, 0, "ID", "generate: the token that ends a row", set_stop},
    ROW("-o", TEXT, output, "FILE", "write the result there; eval: outputs as safetensors"),
    ROW("--format", JSON, json, "text|json", "of the result"),
    ROW("--diagnostics", JSON, json_diagnostics, "text|json", "form of messages"),
};
const uint32_t sc_run_option_count = sizeof sc_run_option_rows / sizeof *sc_run_option_rows;
