/* What is hostile rather than wrong: memory that runs out at any moment, nesting without end,
 * numbers that overflow, lists of a million, files of any bytes. Each is compiled, or refused with
 * an ordinary diagnostic, in bounded time and without a leak (sanitizers). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "frontend/read_program.h"
#include "tools/driver/driver.h"

#if !defined(__has_feature)
#define __has_feature(name) 0
#endif

/* PATIENCE: seconds of CPU time that one input may take; sanitizers cost three to ten times as
 * much. MANY: elements of a list. */
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { PATIENCE = 30, MANY = 200000 };
#else
enum { PATIENCE = 5, MANY = 1000000 };
#endif
enum { LARGEST_ARENA = 1 << 30 }; /* bytes that one input may take */

/* ---- text ---- */
typedef struct text {
    char *data;
    size_t length, capacity;
} text;

static void add_times(text *t, int times, const char *piece)
{
    size_t length = strlen(piece), more = (size_t)times * length;
    if (t->length + more + 1 > t->capacity) {
        t->capacity = 2 * (t->length + more + 1);
        t->data = realloc(t->data, t->capacity);
        assert_non_null(t->data);
    }
    for (int i = 0; i < times; i++)
        memcpy(t->data + t->length + (size_t)i * length, piece, length);
    t->length += more;
    t->data[t->length] = 0;
}

static void add(text *t, const char *piece)
{
    add_times(t, 1, piece);
}

/* `pattern` with # as 0, 1, .. and $ as the number after. */
static void add_numbered(text *t, int times, const char *pattern)
{
    for (int i = 0; i < times; i++) {
        for (const char *p = pattern; *p != 0; p++) {
            char piece[16] = {*p};
            if (*p == '#' || *p == '$')
                snprintf(piece, sizeof piece, "%d", *p == '#' ? i : i + 1);
            add(t, piece);
        }
    }
}

/* ---- compiling ---- */
typedef struct attempt {
    const text *source;
    uint32_t errors;
    char first[512]; /* the first message */
    char id[64];
} attempt;

static void compile_entries(sc_context *context, sc_declarations *program, const sc_plan *plan)
{
    sc_entry_list entries = {0};
    sc_declarations_entries(
        program, plan != NULL ? plan->model.text : sc_declarations_only_model(program), &entries);
    for (uint32_t i = 0; i < entries.count && i < 2; i++) {
        sc_options options = {.entry = sc_text(context, entries.data[i].entry)};
        sc_compiled compiled;
        sc_driver_compile(context, program, plan, &options, NULL, NULL, NULL, &compiled);
    }
}

static void compile(sc_context *context, const sc_file *file)
{
    if (file == NULL || context->diag.errors > 0)
        return;
    sc_declarations *program = sc_declarations_new(context, file);
    if (context->diag.errors > 0)
        return;
    sc_declarations_check(program);
    sc_plan_list plans = {0};
    sc_declarations_plans(program, &plans);
    for (uint32_t i = 0; i < plans.count && i < 2 && context->diag.errors == 0; i++)
        compile_entries(context, program, plans.data[i]);
    if (plans.count == 0 && context->diag.errors == 0)
        compile_entries(context, program, NULL);
}

static void keep_first(sc_context *context, attempt *a)
{
    a->errors = context->diag.errors;
    if (context->diag.list.count == 0)
        return;
    snprintf(a->first, sizeof a->first, "%s", context->diag.list.data[0].text);
    snprintf(a->id, sizeof a->id, "%s", sc_diag_rows[context->diag.list.data[0].id].name);
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_diag_render_text(&context->diag, &context->sources, &out);
    sc_diag_render_json(&context->diag, &context->sources, &out);
}

static void attempt_text(sc_context *context, void *user)
{
    attempt *a = user;
    compile(context, sc_parse_text(context, "hard", a->source->data, a->source->length));
    keep_first(context, a);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- inputs ---- */
static const char small_model[] =
    "lang 1;\ndim B = 2, D = 4;\nmodel m { entry f(x: f32[B, D]) -> [B, D] { y = ";
static const char small_end[] = "; return y; } }\n";

/* An expression around x: `open` n times, x, `close` n times. */
static void nested(text *t, int n, const char *open, const char *close)
{
    add(t, small_model);
    add_times(t, n, open);
    add(t, "x");
    add_times(t, n, close);
    add(t, small_end);
}

static void parentheses(text *t)
{
    nested(t, 100000, "(", ")");
}

static void open_parentheses(text *t)
{
    nested(t, 100000, "(", "");
}

static void unary_chain(text *t)
{
    nested(t, 100000, "-", "");
}

static void left_chain(text *t)
{
    nested(t, 100000, "", " + x");
}

static void calls_in_calls(text *t)
{
    nested(t, 100000, "exp(", ")");
}

static void deepest_allowed(text *t)
{
    nested(t, 250, "(", ")");
}

static void repeats_in_repeats(text *t)
{
    add(t, "lang 1;\ndim B = 2, R = 2;\nmodel m { entry f(x: f32[B]) -> [B] { ");
    add_times(t, 100000, "repeat R { ");
    add(t, "x = x + x;");
    add_times(t, 100000, " }");
    add(t, " return x; } }\n");
}

static void repeats_that_multiply(text *t)
{
    add(t, "lang 1;\ndim B = 2, R = 2;\nmodel m { entry f(x: f32[B]) -> [B] { ");
    add_times(t, 60, "repeat R { ");
    add(t, "x = x + x;");
    add_times(t, 60, " }");
    add(t, " return x; } }\n");
}

static void blocks_in_blocks(text *t)
{
    add(t, "lang 1;\ndim B = 2;\nblock b0(x[B]) -> [B] { return x; }\n");
    add_numbered(t, 20000, "block b$(x[B]) -> [B] { sub s: b#; return s(x); }\n");
    add(t, "model m { sub s: b20000; entry f(x: f32[B]) -> [B] { return s(x); } }\n");
}

static void blocks_that_double(text *t)
{
    add(t, "lang 1;\ndim B = 2;\nblock b0(x[B]) -> [B] { param w[B]; return x * w; }\n");
    add_numbered(t, 60, "block b$(x[B]) -> [B] { sub s: b#, r: b#; return s(r(x)); }\n");
    add(t, "model m { sub s: b60; entry f(x: f32[B]) -> [B] { return s(x); } }\n");
}

static void fns_in_fns(text *t)
{
    add(t, "lang 1;\ndim B = 2;\nfn f0(x[B]) -> [B] { return x; }\n");
    add_numbered(t, 5000, "fn f$(x[B]) -> [B] { return f#(x); }\n");
    add(t, "model m { entry f(x: f32[B]) -> [B] { return f5000(x); } }\n");
}

static void fns_that_double(text *t)
{
    add(t, "lang 1;\ndim B = 2;\nfn f0(x[B]) -> [B] { return x; }\n");
    add_numbered(t, 60, "fn f$(x[B]) -> [B] { return f#(x) + f#(x); }\n");
    add(t, "model m { entry f(x: f32[B]) -> [B] { return f60(x); } }\n");
}

static void aliases_of_aliases(text *t)
{
    add(t, "lang 1;\ndim A0 = 4;\n");
    add_numbered(t, 100000, "dim A$ = alias A#;\n");
    add(t, "model m { entry f(x: f32[A100000]) -> [A100000] { return x; } }\n");
}

static void sizes_of_sizes(text *t)
{
    add(t, "lang 1;\ndim A0 = 4;\n");
    add_numbered(t, 100000, "dim A$ = A# + 1;\n");
    add(t, "model m { entry f(x: f32[A100000]) -> [A100000] { return x; } }\n");
}

static void sizes_that_overflow(text *t)
{
    add(t, "lang 1;\ndim A0 = 4;\n");
    add_numbered(t, 100, "dim A$ = A# * A#;\n");
    add(t, "model m { entry f(x: f32[A100]) -> [A100] { return x; } }\n");
}

static void sizes_from_the_end(text *t)
{
    add(t, "lang 1;\n");
    add_numbered(t, 50000, "dim A# = A$ + 1;\n");
    add(t, "dim A50000 = 1;\nmodel m { entry f(x: f32[A0]) -> [A0] { return x; } }\n");
}

static void composites_in_composites(text *t)
{
    add(t, "lang 1;\ndim A0 = 2, Z = 2;\n");
    add_numbered(t, 10000, "dim A$ = (A#, Z);\n");
    add(t, "model m { entry f(x: f32[A10000]) -> [A10000] { return x; } }\n");
}

static void composite_of_many(text *t)
{
    add(t, "lang 1;\n");
    add_numbered(t, 100000, "dim P# = 1;\n");
    add(t, "dim H = (P0");
    add_numbered(t, 99999, ", P$");
    add(t, ");\nmodel m { entry f(x: f32[H]) -> [H] { return x; } }\n");
}

static void tensor_too_large(text *t)
{
    add(t, "lang 1;\ndim A = 4000000000, B = 4000000000, C = 4000000000;\n");
    add(t, "model m { entry f(x: f32[A, B, C]) -> [A, B, C] { return x; } }\n");
}

static void integer_too_large(text *t)
{
    add(t, "lang 1;\ndim A = ");
    add_times(t, MANY, "9");
    add(t, ";\n");
}

static void float_too_long(text *t)
{
    add(t, "lang 1;\ndim A = 2;\nmodel m { entry f(x: f32[A]) -> [A] { return x * 0.");
    add_times(t, MANY, "3");
    add(t, "; } }\n");
}

static void many_dims(text *t)
{
    add(t, "lang 1;\ndim A = 1");
    add_numbered(t, MANY, ", B# = 2");
    add(t, ";\n");
}

static void long_shape(text *t)
{
    add(t, "lang 1;\ndim A = 2;\nmodel m { entry f(x: f32[A");
    add_times(t, MANY, ", A");
    add(t, "]) -> [A] { return x; } }\n");
}

static void many_arguments(text *t)
{
    add(t, small_model);
    add(t, "max(x");
    add_times(t, MANY, ", x");
    add(t, ")");
    add(t, small_end);
}

static void many_parameters(text *t)
{
    add(t, "lang 1;\ndim B = 2;\nmodel m { param w[B]");
    add_numbered(t, 200000, ", w#[B]");
    add(t, "; entry f(x: f32[B]) -> [B] { return x * w; } }\nplan p for m { mesh a = 2; shard B "
           "over a; }\n");
}

static void many_statements(text *t)
{
    add(t, "lang 1;\ndim B = 2, R = 2;\nmodel m { entry f(x: f32[B]) -> [B] { ");
    add_times(t, 10000, "x = x + x; ");
    add(t, "return x; } }\nplan p for m { mesh a = 2; shard B over a; }\n");
}

/* A plan for a model with one dot, two layers and a prime size. */
static void planned(text *t, const char *before, int times, const char *piece, const char *after)
{
    add(t, "lang 1;\ndim B = 4, D = 8, F = 8, P = 1000000000000037, L = 2;\n"
           "block layer(x[B, D]) -> [B, D] { param w[D, F]; return dot[F](dot[D](x, w), w); }\n"
           "model m { param p[P]; sub layers: layer * L; entry f(x: f32[B, D]) -> [B, D] { repeat "
           "L { x = layers(x); } return x; }\n"
           "  entry g(x: f32[P]) -> [P] { return x * p; } }\nplan p for m { ");
    add(t, before);
    add_times(t, times, piece);
    add(t, after);
    add(t, " }\n");
}

static void prime_size(text *t)
{
    planned(t, "mesh a = 2; shard P over a;", 0, "", "");
}

static void prime_axis(text *t)
{
    planned(t, "mesh a = 4294967291; shard P over a;", 0, "", "");
}

static void rule_of_many_dims(text *t)
{
    planned(t, "mesh a = 2; shard D", MANY, ", D", " over a;");
}

static void many_rules(text *t)
{
    planned(t, "mesh a = 2;", 20000, "shard B over a;", "");
}

static void many_expectations(text *t)
{
    planned(t, "mesh a = 2; shard B over a;", 20000, "expect count(all_reduce, any) == 0;", "");
}

static void many_pins(text *t)
{
    planned(t, "mesh a = 2;", 20000, "pin layers[0].x: [B@a, D];", "");
}

static void long_path(text *t)
{
    planned(t, "mesh a = 2; shard B over a in layers", MANY, ".x", ";");
}

static void path_of_stars(text *t)
{
    planned(t, "mesh a = 2; shard B over a in *", 200, ".*", ".w;");
}

static void many_axes(text *t)
{
    planned(t, "mesh a = 1", MANY, ", b = 1", ";");
}

static void instances_without_end(text *t)
{
    planned(t, "mesh a = 2; remat layers[0..9223372036854775807];", 0, "", "");
}

static void huge_numbers_in_plan(text *t)
{
    planned(t,
            "mesh a = 2; pad F to multiple 9223372036854775807; shard F over a; accumulate "
            "9223372036854775807 over B;",
            0, "", "");
}

static void weights_of_huge_numbers(text *t)
{
    planned(t, "", 0, "",
            "}\nweights h for m { layers.w = \"{9223372036854775807*L+9223372036854775807}\" as "
            "[0..9223372036854775807 of "
            "9223372036854775807, D, F];");
}

static void stack_of_billions(text *t)
{
    add(t, "lang 1;\ndim B = 2, L = 1000000000;\nblock layer(x[B]) -> [B] { param w[B]; return x * "
           "w; }\n"
           "model m { sub layers: layer * L; entry f(x: f32[B]) -> [B] { repeat L { x = layers(x); "
           "} return x; } }\n");
}

static void stacks_in_stacks(text *t)
{
    add(t,
        "lang 1;\ndim B = 2, L = 100000;\nblock b0(x[B]) -> [B] { param w[B]; return x * w; }\n");
    add_numbered(t, 5,
                 "block b$(x[B]) -> [B] { sub s: b# * L; repeat L { x = s(x); } return x; }\n");
    add(t, "model m { sub s: b5; entry f(x: f32[B]) -> [B] { return s(x); } }\n");
}

static void not_text(text *t)
{
    add(t, "lang 1;\n");
    add_times(t, 100000, "\xff\xc0\x80\xed\xa0\x80");
}

static void many_errors(text *t)
{
    add(t, "lang 1;\n");
    add_times(t, 200000, "dim = ; ");
}

static void many_unknown_names(text *t)
{
    add(t, "lang 1;\ndim B = 2;\nmodel m { entry f(x: f32[B]) -> [B] { return x");
    add_numbered(t, 200, " + y#");
    add(t, "; }\n");
    add_numbered(t, 3000, "entry g#(x: f32[B]) -> [B] { return z#; }\n");
    add(t, "}\n");
}

static void hundred_megabytes_of_brackets(text *t)
{
    add(t, "lang 1;\n");
    add_times(t, 100 << 20, "(");
}

static void megabytes_of_blanks(text *t)
{
    add(t, "lang 1;\n");
    add_times(t, 30 << 20, " ");
}

static void megabytes_in_a_name(text *t)
{
    add(t, "lang 1;\ndim ");
    add_times(t, 30 << 20, "x");
    add(t, " = 4;\n");
}

static void megabytes_in_a_string(text *t)
{
    add(t, "lang 1;\nimport \"");
    add_times(t, 30 << 20, "x");
    add(t, "\";\n");
}

static void megabytes_in_a_comment(text *t)
{
    add(t, "lang 1;\n//");
    add_times(t, 30 << 20, "x");
}

static void lines_without_end(text *t)
{
    add(t, "lang 1;\n");
    add_times(t, 30 << 20, "\n");
    add(t, "dim = 4;");
}

static void megabytes_of_open_braces(text *t)
{
    add(t, "lang 1; model m ");
    add_times(t, 4 << 20, "{");
}

static void expectation_of_parentheses(text *t)
{
    planned(t, "mesh a = 2; shard B over a; expect ", 100000, "count(", "all_reduce;");
}

static void pattern_of_parentheses(text *t)
{
    planned(t, "}\nweights h for m { layers.w = \"{", 100000, "(", "L}\";");
}

static void pattern_of_sums(text *t)
{
    planned(t, "}\nweights h for m { layers.w = \"{0", MANY, "+L-L", "+L}\";");
}

static void part_of_parentheses(text *t)
{
    planned(t, "}\nweights h for m { layers.w = \"{L}\" as [0 of ", 100000, "(", "2, D, F];");
}

/* id: of the first message; "" when it compiles. */
static const struct {
    void (*make)(text *t);
    const char *name, *id;
} inputs[] = {
#define INPUT(make, id)                                                                            \
    {                                                                                              \
        make, #make, id                                                                            \
    }
    INPUT(parentheses, "too_deep"),
    INPUT(open_parentheses, "too_deep"),
    INPUT(unary_chain, "too_deep"),
    INPUT(left_chain, "too_deep"),
    INPUT(calls_in_calls, "too_deep"),
    INPUT(deepest_allowed, ""),
    INPUT(repeats_in_repeats, "too_deep"),
    INPUT(repeats_that_multiply, "too_large"),
    INPUT(blocks_in_blocks, "too_deep"),
    INPUT(blocks_that_double, "too_large"),
    INPUT(fns_in_fns, "too_deep"),
    INPUT(fns_that_double, "too_large"),
    INPUT(aliases_of_aliases, "bad_alias"),
    INPUT(sizes_of_sizes, ""),
    INPUT(sizes_that_overflow, "bad_dim_size"),
    INPUT(sizes_from_the_end, ""),
    INPUT(composites_in_composites, "bad_composite"),
    INPUT(composite_of_many, "bad_composite"),
    INPUT(tensor_too_large, "too_large"),
    INPUT(integer_too_large, "bad_number"),
    INPUT(float_too_long, ""),
    INPUT(many_dims, ""),
    INPUT(long_shape, "repeated_dim"),
    INPUT(many_arguments, "wrong_count"),
    INPUT(many_parameters, ""),
    INPUT(many_statements, ""),
    INPUT(prime_size, "does_not_divide"),
    INPUT(prime_axis, "does_not_divide"),
    INPUT(rule_of_many_dims, "bad_plan_statement"),
    INPUT(many_rules, "line_repeated"),
    INPUT(many_expectations, ""),
    INPUT(many_pins, "line_repeated"),
    INPUT(long_path, "matches_nothing"),
    INPUT(path_of_stars, "matches_nothing"),
    INPUT(many_axes, "bad_mesh"),
    INPUT(instances_without_end, "axis_unused"),
    INPUT(huge_numbers_in_plan, ""),
    INPUT(weights_of_huge_numbers, "bad_weights"),
    INPUT(expectation_of_parentheses, "too_deep"),
    INPUT(pattern_of_parentheses, "bad_weights"),
    INPUT(pattern_of_sums, ""),
    INPUT(part_of_parentheses, "too_deep"),
    INPUT(stack_of_billions, "too_large"),
    INPUT(stacks_in_stacks, "too_large"),
    INPUT(not_text, "bad_utf8"),
    INPUT(many_errors, "reserved_word"),
    INPUT(many_unknown_names, "unknown_name"),
    INPUT(hundred_megabytes_of_brackets, "file_too_large"),
    INPUT(megabytes_of_blanks, ""),
    INPUT(megabytes_in_a_name, ""),
    INPUT(megabytes_in_a_string, ""),
    INPUT(megabytes_in_a_comment, ""),
    INPUT(lines_without_end, "reserved_word"),
    INPUT(megabytes_of_open_braces, "syntax"),
#undef INPUT
};

static void hard_inputs_end_soon(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        text t = {0};
        inputs[i].make(&t);
        attempt a = {.source = &t};
        sc_context context;
        double start = seconds();
        bool had_memory = sc_context_run(&context, 0, attempt_text, &a);
        double taken = seconds() - start;
        size_t bytes = context.arena.total;
        sc_context_free(&context);
        free(t.data);
        if (!had_memory || strcmp(a.id, inputs[i].id) != 0 || taken > PATIENCE ||
            bytes > LARGEST_ARENA)
            fail_msg("%s: %.1f s, %s, %zu bytes, [%s] %s", inputs[i].name, taken,
                     had_memory ? "enough memory" : "out of memory", bytes, a.id, a.first);
    }
}

/* ---- files ---- */
static const char planned_program[] = "lang 1;\ndim B = 4, D = 4, F = 8, L = 2;\n"
                                      "block layer(x[B, D]) -> [B, D] { param w[D, F], v[F, D]; h "
                                      "= gelu(dot[D](x, w)); return dot[F](h, v); }\n"
                                      "model m { sub layers: layer * L; entry f(x: f32[B, D]) -> "
                                      "[B, D] { repeat L { x = layers(x); } return x; } }\n"
                                      "plan p for m { mesh a = 2; shard F over a; shard act B over "
                                      "a if free; expect count(all_reduce, a) == 0; }\n";

static const char broken_program[] = "lang 1;\ndim B = 4, D = 5, F = 8;\n"
                                     "model m { param w[D, F], u[D, D]; entry f(x: f32[B, D]) -> "
                                     "[B, D] { h = dot[E](x, v); return dot[F](h, w) + relu(y); }\n"
                                     "  entry g(x: f32[B, D]) -> [B, D] { return x + w; } }\n"
                                     "plan p for m { mesh a = 2; shard D over a, b; pin f.z: "
                                     "[B@a]; expect count(all_reduce, c) == 0; }\n";

static const char unplaceable_program[] =
    "lang 1;\ndim B = 4, D = 5;\n"
    "model m { param w[D, D]; entry f(x: f32[B, D]) -> [B, D] { return x * 2; } }\n"
    "plan p for m { mesh a = 2; shard D over a; }\n";

typedef struct folder {
    char path[32], file[64];
} folder;

static void write_file(const char *path, const char *content)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void make_folder(folder *f)
{
    snprintf(f->path, sizeof f->path, "/tmp/shardc_hard_XXXXXX");
    assert_non_null(mkdtemp(f->path));
    snprintf(f->file, sizeof f->file, "%s/0.shard", f->path);
}

static void attempt_file(sc_context *context, void *user)
{
    const folder *f = user;
    sc_compiled compiled;
    sc_options options = {.file = f->file};
    sc_driver_compile_file(context, &options, NULL, NULL, NULL, &compiled);
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_diag_render_json(&context->diag, &context->sources, &out);
}

/* The n-th request for memory fails, for all n: the compile ends with `false`, and what it held is
 * freed (address sanitizer). */
static void fail_every_allocation(const char *program, bool compiles)
{
    folder f;
    make_folder(&f);
    write_file(f.file, program);
    sc_context context;
    assert_true(sc_context_run(&context, 0, attempt_file, &f));
    assert_int_equal(context.diag.errors == 0, compiles);
    uint64_t count = context.arena.allocations;
    sc_context_free(&context);
    assert_true(count > 100);
    for (uint64_t n = 1; n <= count; n++) {
        bool fine = sc_context_run(&context, n, attempt_file, &f);
        sc_context_free(&context);
        if (fine)
            fail_msg("allocation %llu of %llu fails and nobody notices", (unsigned long long)n,
                     (unsigned long long)count);
    }
    unlink(f.file);
    rmdir(f.path);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_every_allocation(planned_program, true);
    fail_every_allocation(broken_program, false);
    fail_every_allocation(unplaceable_program, false);
}

/* File i imports file i + 1. */
static void imports_of_imports(void **state)
{
    (void)state;
    enum { FILES = 2000 };
    folder f;
    char path[64], content[64];
    make_folder(&f);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%d.shard", f.path, i);
        snprintf(content, sizeof content, "lang 1;\nimport \"%d.shard\";\n", i + 1);
        write_file(path, content);
    }
    sc_context context;
    assert_true(sc_context_run(&context, 0, attempt_file, &f));
    assert_true(context.diag.list.count > 0);
    assert_string_equal(sc_diag_rows[context.diag.list.data[0].id].name, "imports_too_deep");
    sc_context_free(&context);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%d.shard", f.path, i);
        unlink(path);
    }
    rmdir(f.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(imports_of_imports),
        cmocka_unit_test(hard_inputs_end_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
