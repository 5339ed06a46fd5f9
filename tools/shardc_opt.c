/* shardc-opt: reads IR text (or the text of a kernel), verifies it, runs passes and prints IR text.
 * For pass development and tests. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "codegen/cuda/emit.h"
#include "codegen/kernel/kernel.h"
#include "ir/ops/verify.h"
#include "ir/text/text.h"
#include "passes/pass.h"
#include "support/arguments.h"

enum { EXIT_SOURCE = 1, EXIT_RUN = 7, EXIT_INTERNAL = 70 };

typedef struct options {
    const char *input, *output, *passes, *print_after;
    bool fold, verify_each, verify_roundtrip, verify_diagnostics, kernel, simplify, cuda, help;
} options;

typedef struct job {
    int argc;
    char **argv;
    options options;
    sc_context *context;
    FILE *out;
    const sc_pass *print_after; /* NULL: after none, or after all */
    int exit_code;
} job;

/* ---- command line ---- */

#define ROW(name, kind, field, value, summary)                                                     \
    {                                                                                              \
        name, SC_OPTION_##kind, offsetof(options, field), value, NULL, summary, NULL               \
    }

static const sc_option_row option_rows[] = {
    ROW("--passes", TEXT, passes, "A,B,..",
        "passes to run, in this order; `default` is the whole pipeline"),
    ROW("--print-after", TEXT, print_after, "PASS",
        "print the module after this pass too (`all`: after each)"),
    ROW("--fold", FLAG, fold, NULL, "print repeated layers once"),
    ROW("--verify-each", FLAG, verify_each, NULL,
        "the verifier runs after each pass (it always does)"),
    ROW("--verify-roundtrip", FLAG, verify_roundtrip, NULL,
        "check after each pass that the printed module reads back to the same"),
    ROW("--verify-diagnostics", FLAG, verify_diagnostics, NULL,
        "exit 0 if the messages are those of the comments `// expected-error@+1 {{text}}` (@-1, "
        "@unknown; -warning, -note)"),
    ROW("--kernel", FLAG, kernel, NULL, "the text is a kernel, which is verified and printed"),
    ROW("--simplify", FLAG, simplify, NULL, "with --kernel: merge dims that are traversed as one"),
    ROW("--cuda", FLAG, cuda, NULL, "with --kernel: its CUDA is printed instead"),
    ROW("-o", TEXT, output, "FILE", "write there instead of to stdout"),
    ROW("--help", FLAG, help, NULL, "this"),
};
enum { OPTION_COUNT = sizeof option_rows / sizeof *option_rows };

static bool usage_error(job *j, const char *text)
{
    sc_report(&j->context->diag, SC_D_usage, (sc_loc){0}, text, NULL);
    return false;
}

static bool unknown(job *j, const char *what, const char *name, const char *nearest)
{
    const char *hint =
        nearest == NULL ? "" : sc_arena_printf(&j->context->arena, "; did you mean '%s'?", nearest);
    return usage_error(
        j, sc_arena_printf(&j->context->arena, "there is no %s '%s'%s", what, name, hint));
}

/* `into` is NULL if only help is needed. */
static sc_command_line command_line(options *into, sc_option_table *table)
{
    *table = (sc_option_table){option_rows, OPTION_COUNT, into, NULL};
    return (sc_command_line){.program = "shardc-opt", .tables = table, .table_count = 1};
}

static bool read_options(job *j)
{
    sc_arguments arguments;
    sc_option_table table;
    const sc_command_line line = command_line(&j->options, &table);
    sc_arguments_parse(j->context, &line, j->argc, j->argv, &arguments);
    j->options.input = arguments.words.count > 0 ? arguments.words.data[0] : NULL;
    if (arguments.words.count > 1)
        return usage_error(j, "one file at a time");
    if (j->context->diag.errors > 0 || j->options.help)
        return j->context->diag.errors == 0;
    return j->options.input != NULL ||
           usage_error(j, "a file is needed, or - for stdin; see --help");
}

static void print_help(job *j)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &j->context->arena);
    sc_strbuf_add(&text, "usage: shardc-opt [options] FILE|-\nreads IR text (shardc.ir 1), runs "
                         "passes over it and prints the result\n");
    sc_option_table table;
    const sc_command_line line = command_line(NULL, &table);
    sc_arguments_help(&line, NULL, &text);
    fputs(text.data, stdout);
}

/* ---- files ---- */

static bool read_input(job *j, sc_strbuf *text)
{
    bool is_stdin = strcmp(j->options.input, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(j->options.input, "rb");
    char block[1 << 16];
    sc_strbuf_init(text, &j->context->arena);
    if (file != NULL) {
        for (size_t got; (got = fread(block, 1, sizeof block, file)) > 0;)
            sc_strbuf_add_bytes(text, block, got);
        bool failed = ferror(file) != 0;
        if (!is_stdin)
            fclose(file);
        if (!failed)
            return true;
    }
    sc_report(&j->context->diag, SC_D_cannot_read, (sc_loc){0}, j->options.input, strerror(errno),
              NULL);
    return false;
}

static bool open_output(job *j)
{
    j->out = j->options.output == NULL ? stdout : fopen(j->options.output, "wb");
    if (j->out != NULL)
        return true;
    sc_report(&j->context->diag, SC_D_cannot_write, (sc_loc){0}, j->options.output, strerror(errno),
              NULL);
    return false;
}

static void close_output(job *j)
{
    bool failed = fflush(j->out) != 0 || ferror(j->out) != 0;
    failed = (j->out != stdout && fclose(j->out) != 0) || failed;
    if (failed)
        sc_report(&j->context->diag, SC_D_cannot_write, (sc_loc){0},
                  j->options.output == NULL ? "-" : j->options.output, strerror(errno), NULL);
}

/* ---- passes ---- */

typedef struct pass_list {
    SC_VEC(const sc_pass *) list;
} pass_list;

static void unknown_pass(job *j, const char *name)
{
    const char *names[SC_PASS_COUNT];
    for (size_t i = 0; i < SC_PASS_COUNT; i++)
        names[i] = sc_passes[i].name;
    unknown(j, "pass", name, sc_nearest(name, names, SC_PASS_COUNT));
}

/* Finds a pass; - and _ are equal in names. Returns NULL after reporting an error with the nearest
 * name. */
static const sc_pass *find_pass(job *j, const char *text, size_t length)
{
    char *name = sc_arena_copy_text(&j->context->arena, text, length);
    for (char *c = name; *c != 0; c++)
        *c = (char)(*c == '_' ? '-' : *c);
    const sc_pass *pass = sc_pass_find(name);
    if (pass == NULL)
        unknown_pass(j, name);
    return pass;
}

static bool add_pass(job *j, pass_list *passes, const char *text, size_t length)
{
    sc_arena *arena = &j->context->arena;
    if (length == strlen("default") && strncmp(text, "default", length) == 0) {
        for (size_t i = 0; i < SC_PASS_COUNT; i++)
            *sc_vec_push(arena, &passes->list) = &sc_passes[i];
        return true;
    }
    const sc_pass *pass = find_pass(j, text, length);
    if (pass != NULL)
        *sc_vec_push(arena, &passes->list) = pass;
    return pass != NULL;
}

static bool find_passes(job *j, pass_list *passes)
{
    const char *text = j->options.passes == NULL ? "" : j->options.passes,
               *after = j->options.print_after;
    while (*text != 0) {
        size_t length = strcspn(text, ",");
        if (!add_pass(j, passes, text, length))
            return false;
        text += length + (text[length] == ',');
    }
    if (after == NULL || strcmp(after, "all") == 0)
        return true;
    j->print_after = find_pass(j, after, strlen(after));
    return j->print_after != NULL;
}

static const char *module_text(job *j, const sc_module *m, bool fold)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &j->context->arena);
    sc_print_module(m, &(sc_print_options){.fold = fold}, &out);
    return out.data;
}

/* Checks that printed text parses to the same module; otherwise the text reproduces a compiler
 * bug. */
static bool reads_back(job *j, const sc_module *m)
{
    const char *text = module_text(j, m, false);
    sc_module *again = sc_parse_module(j->context, "(printed)", text, strlen(text));
    if (again != NULL && strcmp(text, module_text(j, again, false)) == 0)
        return true;
    fprintf(stderr,
            "shardc-opt: internal error: this text does not read back to the same module:\n%s",
            text);
    j->exit_code = EXIT_INTERNAL;
    return false;
}

static bool after_pass(job *j, const sc_module *m, const sc_pass *pass)
{
    if (j->options.verify_roundtrip && !reads_back(j, m))
        return false;
    if (j->options.print_after != NULL && (j->print_after == NULL || j->print_after == pass))
        fprintf(j->out, "// after %s\n%s\n", pass->name, module_text(j, m, j->options.fold));
    return true;
}

static const char *input_name(const job *j)
{
    return strcmp(j->options.input, "-") == 0 ? "<stdin>" : j->options.input;
}

static bool run_passes(job *j, const pass_list *passes, const sc_strbuf *text)
{
    const char *name = input_name(j);
    sc_module *m = sc_parse_module(j->context, name, text->data, text->length);
    if (m == NULL || (j->options.verify_roundtrip && !reads_back(j, m)) ||
        !sc_verify_module(m, "reading"))
        return false;
    sc_pass_env env = {0};
    for (uint32_t i = 0; i < passes->list.count; i++) {
        if (!sc_pass_run(m, passes->list.data[i], &env) || !after_pass(j, m, passes->list.data[i]))
            return false;
    }
    if (!j->options.verify_diagnostics)
        fputs(module_text(j, m, j->options.fold), j->out);
    return true;
}

/* ---- kernels ---- */

static const char *kernel_text(const sc_kernel *k)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &k->context->arena);
    sc_kernel_print(k, &out);
    return out.data;
}

static bool kernel_reads_back(job *j, const sc_kernel *k)
{
    const char *text = kernel_text(k);
    sc_kernel *again = sc_kernel_parse(j->context, text, strlen(text), "(printed)");
    if (again != NULL && strcmp(text, kernel_text(again)) == 0)
        return true;
    fprintf(stderr,
            "shardc-opt: internal error: this text does not read back to the same kernel:\n%s",
            text);
    j->exit_code = EXIT_INTERNAL;
    return false;
}

static bool kernel_verifies(job *j, const sc_kernel *k, const char *after)
{
    const char *error = sc_kernel_verify(k);
    if (error != NULL)
        sc_report(&j->context->diag, SC_D_ir_invalid, (sc_loc){0}, after, error, NULL);
    return error == NULL;
}

static void print_cuda(job *j, const sc_kernel *k)
{
    sc_strbuf text;
    sc_cuda_code code;
    sc_strbuf_init(&text, &j->context->arena);
    sc_cuda_emit(k, sc_text(j->context, k->name), true, &text, NULL, &code);
    if (code.why_simple != NULL)
        fprintf(j->out, "// simple: %s\n", code.why_simple);
    if (code.scratch_bytes > 0)
        fprintf(j->out, "// %lld bytes of scratch\n", (long long)code.scratch_bytes);
    for (uint32_t i = 0; i < code.stage_count; i++)
        fprintf(j->out, "// stage %u: %lld blocks of %u threads, %u bytes shared\n", i,
                (long long)code.stages[i].blocks, code.stages[i].threads,
                code.stages[i].shared_bytes);
    fputs(text.data, j->out);
}

static void run_kernel(job *j, const sc_strbuf *text)
{
    sc_kernel *k = sc_kernel_parse(j->context, text->data, text->length, input_name(j));
    if (k == NULL || !kernel_verifies(j, k, "reading"))
        return;
    if (j->options.simplify) {
        sc_kernel_simplify(k);
        if (!kernel_verifies(j, k, "simplifying"))
            return;
    }
    if (j->options.cuda)
        print_cuda(j, k);
    else if (!j->options.verify_diagnostics &&
             (!j->options.verify_roundtrip || kernel_reads_back(j, k)))
        fputs(kernel_text(k), j->out);
}

/* ---- expected messages ---- */

typedef struct expectation {
    int severity;
    /* at: its own line; line: the line of the expected message (0: no location) */
    uint32_t at, line;
    const char *text;
    bool met;
} expectation;

typedef struct expectations {
    SC_VEC(expectation) list;
} expectations;

static const char *const severity_names[] = {"error", "warning", "note"};

/* Reads the line after @: +1, -2 or unknown; without @ it is the comment's own line. */
static const char *read_offset(const char *p, uint32_t at, uint32_t *out_line)
{
    *out_line = at;
    if (*p != '@')
        return p;
    if (strncmp(p, "@unknown", 8) == 0) {
        *out_line = 0;
        return p + 8;
    }
    bool back = p[1] == '-';
    uint32_t lines = 0;
    for (p += 2; *p >= '0' && *p <= '9' && lines < 1000000; p++)
        lines = lines * 10 + (uint32_t)(*p - '0');
    *out_line = back ? at - lines : at + lines;
    return p;
}

/* Reads one `expected-error@+1 {{text}}`, starting after "expected-"; comments of another form are
 * ignored. */
static void read_expectation(job *j, const char *p, uint32_t at, expectations *expected)
{
    for (int severity = SC_ERROR; severity <= SC_NOTE; severity++) {
        size_t length = strlen(severity_names[severity]);
        if (strncmp(p, severity_names[severity], length) != 0)
            continue;
        expectation e = {.severity = severity, .at = at};
        const char *open = read_offset(p + length, at, &e.line);
        const char *close = strncmp(open, " {{", 3) == 0 ? strstr(open, "}}") : NULL;
        if (close == NULL || memchr(open, '\n', (size_t)(close - open)) != NULL)
            return;
        e.text = sc_arena_copy_text(&j->context->arena, open + 3, (size_t)(close - open - 3));
        *sc_vec_push(&j->context->arena, &expected->list) = e;
    }
}

static expectations find_expectations(job *j, const char *text)
{
    static const char mark[] = "// expected-";
    expectations expected = {0};
    uint32_t line = 1;
    for (const char *p = text; *p != 0; p++) {
        line += *p == '\n';
        if (strncmp(p, mark, sizeof mark - 1) == 0)
            read_expectation(j, p + sizeof mark - 1, line, &expected);
    }
    return expected;
}

static bool meets(expectations *expected, const sc_diagnostic *d, uint32_t line)
{
    for (uint32_t i = 0; i < expected->list.count; i++) {
        expectation *e = &expected->list.data[i];
        if (!e->met && e->severity == (int)sc_diag_rows[d->id].severity && e->line == line &&
            strstr(d->text, e->text) != NULL)
            return e->met = true;
    }
    return false;
}

/* Returns the exit code: 0 if exactly the expected messages were reported. */
static int compare_messages(job *j, const char *text)
{
    const sc_diag *diag = &j->context->diag;
    expectations expected = find_expectations(j, text);
    int exit_code = 0;
    for (uint32_t i = 0; i < diag->list.count; i++) {
        const sc_diagnostic *d = &diag->list.data[i];
        uint32_t line = sc_sources_line(&j->context->sources, d->loc.begin).line;
        if (meets(&expected, d, line))
            continue;
        fprintf(stderr, "%s:%u: unexpected %s: %s\n", j->options.input, line,
                severity_names[sc_diag_rows[d->id].severity], d->text);
        exit_code = EXIT_SOURCE;
    }
    for (uint32_t i = 0; i < expected.list.count; i++) {
        const expectation *e = &expected.list.data[i];
        if (e->met)
            continue;
        fprintf(stderr, "%s:%u: this %s was not reported: %s\n", j->options.input, e->at,
                severity_names[e->severity], e->text);
        exit_code = EXIT_SOURCE;
    }
    return exit_code;
}

/* ---- */

static void render_messages(job *j)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &j->context->arena);
    sc_diag_render_text(&j->context->diag, &j->context->sources, &text);
    fputs(text.data, stderr);
}

static void work_on(job *j)
{
    sc_strbuf text;
    pass_list passes = {0};
    if (!find_passes(j, &passes) || !read_input(j, &text) || !open_output(j))
        return;
    if (j->options.kernel)
        run_kernel(j, &text);
    else
        run_passes(j, &passes, &text);
    close_output(j);
    if (!j->options.verify_diagnostics || j->exit_code != 0)
        return;
    j->exit_code = compare_messages(j, text.data);
    sc_diag_init(&j->context->diag, &j->context->arena); /* all of them were compared */
}

static void work(sc_context *context, void *user)
{
    job *j = user;
    j->context = context;
    if (read_options(j)) {
        if (j->options.help)
            print_help(j);
        else
            work_on(j);
    }
    render_messages(j);
    if (j->exit_code == 0)
        j->exit_code = sc_diag_exit_code(&context->diag);
}

int main(int argc, char **argv)
{
    static sc_context context;
    job j = {.argc = argc, .argv = argv};
    if (!sc_context_run(&context, 0, work, &j)) {
        fputs("shardc-opt: out of memory\n", stderr);
        j.exit_code = EXIT_RUN;
    }
    sc_context_free(&context);
    return j.exit_code;
}
