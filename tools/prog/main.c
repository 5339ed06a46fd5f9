/* The runtime's executable. `shardc build` copies it and appends a program; the copy runs that
 * program and needs no other files. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "program/target.h"
#include "runtime/drive/generate.h"
#include "runtime/session/session.h"
#include "runtime/session/team.h"
#include "tools/prog/prog.h"

/* ---- checking options ---- */

/* Checks options whose effect depends on the program. */
static bool check_effects(sc_prog *prog, const sc_prog_verb *verb)
{
    const char *name = shardc_executable_target(prog->program);
    const sc_target *target = sc_target_find(name);
    bool on_gpu = target != NULL && sc_target_is_cuda(target), benches = verb->run == sc_prog_bench;
    const struct {
        const char *option, *why;
        bool is_given, has_effect;
    } rows[] = {
        {"--no-graph", "only functions of a GPU are launched as graphs", prog->no_graph, on_gpu},
        {"--gemm-cache", "cuBLASLt computes none of its matmuls", prog->gemm_cache != NULL, on_gpu},
        {"--host-memory",
         on_gpu ? "host memory is pinned for it" : "no line of its plan offloads anything",
         prog->run.host_memory != NULL, !on_gpu && prog->program->image->host_bytes > 0},
        {"--max-tokens", "it has no caches, so steps are timed, not tokens",
         benches && prog->run.max_tokens > 0, prog->facts.generates},
        {"--set", "it is not a train step, so it has no optimizer",
         benches && prog->run.set != NULL, prog->facts.trains},
    };
    uint32_t errors = prog->context->diag.errors;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].is_given && !rows[i].has_effect)
            sc_prog_fail(prog, SC_D_usage, "%s has no effect on this program, which is for %s: %s",
                         rows[i].option, name, rows[i].why);
    }
    return prog->context->diag.errors == errors;
}

/* ---- verbs ---- */

static void eval(sc_prog *prog)
{
    sc_evaluate(prog->context, &prog->facts, &prog->run, sc_prog_open, prog, &prog->out);
}

static void train(sc_prog *prog)
{
    sc_training_run *run = sc_train_begin(prog->context, &prog->run);
    if (run != NULL && !prog->facts.trains)
        sc_prog_fail(prog, SC_D_usage, "this program is entry '%s' alone: it has no train step",
                     prog->facts.entry.name);
    else if (run != NULL)
        sc_train_run(run, &prog->facts, sc_prog_open, prog, &prog->out);
}

static void generate(sc_prog *prog)
{
    sc_generate_text(prog->context, &prog->facts, &prog->run, sc_prog_open, prog, &prog->out);
}

static const sc_prog_verb verbs[SC_PROG_VERBS] = {
    {"info", sc_prog_info, "what this program is", "--format json"},
    {"eval", eval, "run the entry", "--weights w.safetensors --data text.txt"},
    {"train", train, "run the train step", "--data text.txt --steps 100 --state run1"},
    {"generate", generate, "continue prompts",
     "--weights w.safetensors --prompt 'once upon' --temperature 0.8"},
    {"bench", sc_prog_bench, "measure steps on random inputs", "--steps 20 --profile"},
    {"tune", sc_prog_tune, "on GPUs: measure algorithms of the matmuls and keep the fastest", ""},
};

typedef struct invocation {
    int argc;
    char **argv;
    int exit_code;
} invocation;

/* Must run before any OpenMP team is created. */
static void bound_threads(sc_prog *prog)
{
    char warning[160];
    uint32_t most = sc_team_most();
    if (sc_team_bound(warning, sizeof warning))
        sc_report(&prog->context->diag, SC_D_too_many_threads, (sc_loc){0},
                  sc_arena_printf(&prog->context->arena, "%s", warning), NULL);
    if (prog->threads <= (int64_t)most)
        return;
    sc_report(&prog->context->diag, SC_D_too_many_threads, (sc_loc){0},
              sc_arena_printf(&prog->context->arena,
                              "--threads %lld is reduced to %u, the most that the cores here allow",
                              (long long)prog->threads, most),
              NULL);
    prog->threads = most;
}

static void work(sc_context *context, void *user)
{
    invocation *call = user;
    sc_prog prog = {.context = context, .run = {.text = stdout, .progress = stderr}};
    sc_strbuf messages;
    int code = 0;
    sc_strbuf_init(&prog.out, &context->arena);
    sc_strbuf_init(&messages, &context->arena);
    const sc_prog_verb *verb = sc_prog_parse(&prog, verbs, call->argc, call->argv, &code);
    bound_threads(&prog);
    if (verb != NULL) {
        code = 0;
        if (sc_prog_read(&prog) && check_effects(&prog, verb))
            verb->run(&prog);
    }
    sc_executor_free(prog.executor);
    sc_session_say_graphs(prog.session, stderr);
    shardc_session_free(prog.session);
    if (prog.out.length > 0 &&
        (fwrite(prog.out.data, 1, prog.out.length, stdout) != prog.out.length ||
         fflush(stdout) != 0))
        sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0}, "standard output",
                  strerror(errno), NULL);
    if (prog.run.json_diagnostics)
        sc_diag_render_json(&context->diag, &context->sources, &messages);
    else
        sc_diag_render_text(&context->diag, &context->sources, &messages);
    fputs(messages.length > 0 ? messages.data : "", stderr);
    shardc_executable_free(prog.program);
    call->exit_code =
        sc_diag_exit_code(&context->diag) != 0 ? sc_diag_exit_code(&context->diag) : code;
}

int main(int argc, char **argv)
{
    sc_context context;
    invocation call = {.argc = argc, .argv = argv};
    bool fine = sc_context_run(&context, 0, work, &call);
    sc_context_free(&context);
    if (!fine)
        fputs("out of memory\n", stderr);
    return fine ? call.exit_code : 7;
}
