/* The parser as a library: limits, long inputs, recovery, literals, running out of memory, and
 * formatting as a function of the tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/syntax/ast.h"
#include "frontend/syntax/words.h"

/* ---- running a piece of work in a context ---- */

typedef struct job {
    const char *text;
    size_t length;
    void (*look)(sc_context *context, const sc_file *file);
} job;

static void parse_and_look(sc_context *context, void *user)
{
    const job *j = user;
    const sc_file *file = sc_parse_text(context, "test.shard", j->text, j->length);
    assert_non_null(file);
    j->look(context, file);
}

static void with_text(const char *text, void (*look)(sc_context *context, const sc_file *file))
{
    sc_context context;
    job j = {text, strlen(text), look};
    assert_true(sc_context_run(&context, 0, parse_and_look, &j));
    sc_context_free(&context);
}

static void expect_messages(sc_context *context, const char *const *ids, uint32_t count)
{
    if (context->diag.list.count != count) {
        sc_strbuf out;
        sc_strbuf_init(&out, &context->arena);
        sc_diag_render_text(&context->diag, &context->sources, &out);
        print_error("%s", out.data);
    }
    assert_int_equal(context->diag.list.count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_string_equal(sc_diag_rows[context->diag.list.data[i].id].name, ids[i]);
}

static void expect_clean(sc_context *context, const sc_file *file)
{
    (void)file;
    expect_messages(context, NULL, 0);
}

/* `head`, then `unit` count times, then `tail`. */
static char *repeated(const char *head, const char *unit, size_t count, const char *tail)
{
    size_t head_length = strlen(head), unit_length = strlen(unit), tail_length = strlen(tail);
    char *text = malloc(head_length + unit_length * count + tail_length + 1);
    assert_non_null(text);
    memcpy(text, head, head_length);
    for (size_t i = 0; i < count; i++)
        memcpy(text + head_length + i * unit_length, unit, unit_length);
    memcpy(text + head_length + unit_length * count, tail, tail_length + 1);
    return text;
}

static void with_repeated(const char *head, const char *unit, size_t count, const char *tail,
                          void (*look)(sc_context *, const sc_file *))
{
    char *text = repeated(head, unit, count, tail);
    with_text(text, look);
    free(text);
}

/* ---- depth ---- */

static void expect_too_deep(sc_context *context, const sc_file *file)
{
    (void)file;
    expect_messages(context, (const char *const[]){"too_deep"}, 1);
}

static void depth_of_every_tree_is_capped(void **state)
{
    (void)state;
    static const struct {
        const char *head, *unit, *middle, *close, *tail;
    } chains[] = {
        {"lang 1; dim D = ", "a + ", "a", "", ";"},
        {"lang 1; dim D = ", "-", "a", "", ";"},
        {"lang 1; dim D = ", "(", "a", ")", ";"},
        {"lang 1; dim D = ", "f(", "a", ")", ";"},
        {"lang 1; dim D = ", "f[D](a, (b, c + d * ", "a", "))", ";"},
        {"lang 1; dim D = ", "f[D](a, b = ", "a", ")", ";"},
        {"lang 1; model m { ", "repeat L { ", "x = a;", "}", "}"},
        {"lang 1; model m { ", "fn f[A](x[B]) at p[B] along S -> [B] { ", "return a;", "}", "}"},
        {"lang 1; model m { ", "{ ", "", "", ""},
        {"lang 1; ", "fn f() { ", "", "", ""},
        {"lang 1; model m { x = ", "f(", "", "", ""},
        {"lang 1; dim D = ", "1 -", "", "", ""},
    };
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        if (chains[i].tail[0] != 0) {
            char *close = repeated(chains[i].middle, chains[i].close, 80, chains[i].tail);
            with_repeated(chains[i].head, chains[i].unit, 80, close, expect_clean);
            free(close);
        }
        if (i == 8) /* every brace is an error of its own before the depth is one */
            continue;
        char *close = repeated(chains[i].middle, chains[i].close, 100000, chains[i].tail);
        with_repeated(chains[i].head, chains[i].unit, 100000, close, expect_too_deep);
        free(close);
    }
}

static void expect_depth_256(sc_context *context, const sc_file *file)
{
    expect_messages(context, NULL, 0);
    assert_int_equal(file->items.data[0]->dims.data[0].size->depth, 256);
}

static void depth_256_is_fine_and_257_is_not(void **state)
{
    (void)state;
    with_repeated("lang 1; dim D = ", "-", 255, "a;", expect_depth_256);
    with_repeated("lang 1; dim D = ", "-", 256, "a;", expect_too_deep);
    with_repeated("lang 1; dim D = a", " * a", 255, ";", expect_depth_256);
    with_repeated("lang 1; dim D = a", " * a", 256, ";", expect_too_deep);
}

/* Statements and the expressions in them share the cap. */
static void statements_and_expressions_add_up(void **state)
{
    (void)state;
    char *inner = repeated("x = ", "-", 150, "a;");
    char *close = repeated(inner, "}", 150, "}");
    with_repeated("lang 1; model m {", "repeat L {", 150, close, expect_too_deep);
    free(close);
    free(inner);
}

/* ---- long lists ---- */

static void expect_a_million(sc_context *context, const sc_file *file)
{
    expect_messages(context, NULL, 0);
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_format_file(context, file, &out);
    assert_true(out.length > 1000000);
}

static void lists_of_a_million_elements(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    with_repeated("lang 1; fn f() { ", "x = a;\n", MANY, "}", expect_a_million);
    with_repeated("lang 1; fn f() { return g(a", ",a", MANY, "); }", expect_a_million);
    with_repeated("lang 1; fn f() { return a", ",a", MANY, "; }", expect_a_million);
    with_repeated("lang 1; fn f(x[B", ",B", MANY, "]) {}", expect_a_million);
    with_repeated("lang 1; ", "dim D;", MANY, "", expect_a_million);
    with_repeated("lang 1; plan p for m { bind A = 1", ", B = 2", MANY, "; }", expect_a_million);
    with_repeated("lang 1; plan p for m { remat a", ".a", MANY, "; }", expect_a_million);
    with_repeated("lang 1; weights w for m { ", "a = \"b\";", MANY, "}", expect_a_million);
    with_repeated("lang 1; // c\n", "# c\n", MANY, "", expect_a_million);
}

static void expect_messages_suppressed(sc_context *context, const sc_file *file)
{
    (void)file;
    assert_int_equal(context->diag.list.count, SC_DIAG_LIMIT);
    assert_int_equal(context->diag.errors, 1000000);
}

static void a_million_errors(void **state)
{
    (void)state;
    with_repeated("lang 1; fn f() { ", "x y;\n", 1000000, "}", expect_messages_suppressed);
}

static void expect_too_large(sc_context *context, const sc_file *file)
{
    (void)file;
    expect_messages(context, (const char *const[]){"file_too_large"}, 1);
}

static void a_file_of_100_megabytes_is_refused(void **state)
{
    (void)state;
    with_repeated("lang 1; ", "dim D = 1;", 10000000, "", expect_too_large);
}

/* ---- tokens ---- */

static const sc_expr *size_of_dim(const sc_file *file, uint32_t i)
{
    return file->items.data[i]->dims.data[0].size;
}

static void look_at_literals(sc_context *context, const sc_file *file)
{
    expect_messages(context, NULL, 0);
    assert_true(size_of_dim(file, 0)->integer == INT64_MAX);
    assert_true(size_of_dim(file, 1)->integer == 500000);
    assert_string_equal(sc_text(context, size_of_dim(file, 1)->spelling), "500_000");
    assert_true(size_of_dim(file, 2)->number == 1e-5);
    assert_true(size_of_dim(file, 3)->number == 0.1);
    assert_true(size_of_dim(file, 4)->number == 2.2250738585072014e-308);
    assert_true(size_of_dim(file, 5)->number == 1.7976931348623157e308);
    assert_true(size_of_dim(file, 6)->number == 0.0);
    assert_true(size_of_dim(file, 7)->number == 12.5e3);
    assert_true(size_of_dim(file, 8)->number == 1.0);
    assert_string_equal(sc_text(context, size_of_dim(file, 9)->name), "a\"b\\c");
    assert_string_equal(sc_text(context, size_of_dim(file, 9)->spelling), "\"a\\\"b\\\\c\"");
    assert_int_equal(size_of_dim(file, 10)->name, 0);
}

static void literals_have_their_values(void **state)
{
    (void)state;
    with_text("lang 1; dim A = 9223372036854775807; dim A = 500_000; dim A = 1e-5; dim A = 0.1; "
              "dim A = 2.2250738585072014e-308;"
              "dim A = 1.7976931348623157e308; dim A = 1.0e-400; dim A = 1_2.5E+3; dim A = "
              "10000.0e-4; dim A = \"a\\\"b\\\\c\"; dim A = \"\";",
              look_at_literals);
}

static void look_at_range(sc_context *context, const sc_file *file)
{
    expect_messages(context, NULL, 0);
    const sc_seg *seg = &file->items.data[0]->plan->body.data[0]->in.data[0].segs.data[0];
    assert_int_equal(seg->kind, SC_SEG_RANGE);
    assert_int_equal(seg->first, 1);
    assert_int_equal(seg->last, 15);
}

static void a_range_is_not_two_floats(void **state)
{
    (void)state;
    with_text("lang 1; plan p for m { remat layers[1..15]; }", look_at_range);
}

static void words_of_plans_are_names_elsewhere(void **state)
{
    (void)state;
    with_text("lang 1; dim act, opt, to, of; fn shard(input[act], save = opt) -> [to] { mesh = "
              "input; return grad(free, as = bind); }"
              "plan pin for m { pin act.input.save: [act1]; stage free = first; tune to = 1; "
              "expect count(x) == 1 in shard.mesh; }"
              "weights style for m { style.stage[3].* = \"x\" as [A]; } minimize m.loss over act, "
              "opt with intra(inter = 1) in to;",
              expect_clean);
}

/* rule `word` of the grammar */
static void each_word_of_plans_is_a_name_elsewhere(void **state)
{
    (void)state;
    static const char *const words[] = {
#define PLAN_LINE(word, TOKEN)    #word,
#define KIND(word, TOKEN, traits) WORD(word, TOKEN, traits)
#define WORD(word, TOKEN, traits) ((traits)&SC_WORD_IN_PLAN) != 0 ? #word : NULL,
#include "frontend/syntax/words.def"
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char text[256];
        if (words[i] == NULL)
            continue;
        snprintf(text, sizeof text,
                 "lang 1; dim D = 2; model m { param %s[D] = zeros(); } "
                 "plan p for m { pin %s.x: [D]; remat a.%s; } weights w for m { %s = \"x\"; }",
                 words[i], words[i], words[i], words[i]);
        with_text(text, expect_clean);
    }
}

static void the_end_of_a_plan_ends_its_words(void **state)
{
    (void)state;
    with_text("lang 1; plan p for m { mesh tp = 2; } dim mesh, act; weights w for m { a.act = "
              "\"b\"; } dim bind;",
              expect_clean);
}

static void a_byte_order_mark_is_skipped(void **state)
{
    (void)state;
    with_text("\xef\xbb\xbflang 1;\ndim D;", expect_clean);
}

static void expect_bad_number(sc_context *context, const sc_file *file)
{
    (void)file;
    expect_messages(context, (const char *const[]){"bad_number", "bad_number"}, 2);
}

static void numbers_that_do_not_fit(void **state)
{
    (void)state;
    with_text("lang 1; dim A = 9223372036854775808; dim B = 1.0e309;", expect_bad_number);
}

static void expect_bad_utf8(sc_context *context, const sc_file *file)
{
    expect_messages(context, (const char *const[]){"bad_utf8"}, 1);
    assert_int_equal(file->items.count, 0);
}

static void malformed_utf8_is_one_message(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80",
                                      "\xc0\xaf",
                                      "\xc3",
                                      "\xe0\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        with_repeated("lang 1; // ", bad[i], 3, "\n", expect_bad_utf8);
        with_repeated("lang 1; // ", bad[i], 1, "", expect_bad_utf8);
    }
    with_text("lang 1; // \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf \xed\x9f\xbf",
              expect_clean);
}

static void look_at_zeros(sc_context *context, void *user)
{
    (void)user;
    static const char text[] = "lang 1;\n\0\0\0dim D;";
    sc_parse_text(context, "test.shard", text, sizeof text - 1);
    expect_messages(context, (const char *const[]){"bad_character"}, 1);
}

static void bytes_of_zero_are_one_message(void **state)
{
    (void)state;
    sc_context context;
    assert_true(sc_context_run(&context, 0, look_at_zeros, NULL));
    sc_context_free(&context);
}

/* ---- recovery ---- */

static void expect_five_errors(sc_context *context, const sc_file *file)
{
    expect_messages(
        context,
        (const char *const[]){"syntax", "syntax", "reserved_word", "bad_character", "syntax"}, 5);
    assert_int_equal(file->items.count, 3);
    assert_int_equal(file->items.data[0]->callable->body.count, 2);
    assert_int_equal(file->items.data[1]->plan->body.count, 1);
    assert_int_equal(file->items.data[2]->kind, SC_ITEM_DIM);
}

static void each_mistake_is_one_message_and_the_rest_is_read(void **state)
{
    (void)state;
    with_text("lang 1;\n"
              "fn f(x[B]) -> [B] {\n"
              "  y = x + ;\n"
              "  z = x;\n"
              "  repeat { a = 1; b = 2; }\n"
              "  model = 3;\n"
              "  return x $$ 3;\n"
              "  w = z;\n"
              "}\n"
              "plan p for m {\n"
              "  mesh tp 2;\n"
              "  bind B = 4;\n"
              "}\n"
              "dim D = 4;\n",
              expect_five_errors);
}

static void expect_one_error_and_two_items(sc_context *context, const sc_file *file)
{
    expect_messages(context, (const char *const[]){"syntax"}, 1);
    assert_int_equal(file->items.count, 2);
}

static void a_missing_brace_costs_one_message(void **state)
{
    (void)state;
    with_text("lang 1; model m { repeat L { x = a; \n dim D = 4;", expect_one_error_and_two_items);
    with_text("lang 1; plan p for m { mesh tp = 2; \n fn mesh(act[B]) { x = act; }",
              expect_one_error_and_two_items);
    with_text("lang 1; modle m { x = a; } dim D = 4;", expect_one_error_and_two_items);
}

static void expect_missing_version(sc_context *context, const sc_file *file)
{
    expect_messages(context, (const char *const[]){"missing_version"}, 1);
    assert_int_equal(file->items.count, 1);
}

static void expect_bad_version(sc_context *context, const sc_file *file)
{
    expect_messages(context, (const char *const[]){"bad_version"}, 1);
    assert_int_equal(file->items.count, 0);
}

static void the_version_comes_first(void **state)
{
    (void)state;
    with_text("dim D;", expect_missing_version);
    with_text("lang 2; what is this?", expect_bad_version);
}

/* ---- memory ---- */

static const char small_file[] =
    "lang 1; // c\ndim D = 4 * (2 + 1.5e3), T = alias S, H = (K, G);\n"
    "block b[N](x[.., N], eps = 1e-5) -> [.., N] { param w[D, D@tp] = normal(0.02); return "
    "dot[D](x, w); }\n"
    "model m { sub l: b[D] * L; entry f(t: i32[B]) { repeat L { x = l(x); } return \"s\" } y z; }\n"
    "plan p for m { shard param, act H over tp in l.w if free; expect count(a) == 2; }\n"
    "weights w for m { a = \"b{L}\" as [0 of 3, D]; }\n";

static void parse_and_format(sc_context *context, void *user)
{
    (void)user;
    const sc_file *file = sc_parse_text(context, "small.shard", small_file, sizeof small_file - 1);
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_diag_render_text(&context->diag, &context->sources, &out);
    sc_format_file(context, file, &out);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    sc_context context;
    assert_true(sc_context_run(&context, 0, parse_and_format, NULL));
    uint64_t allocations = context.arena.allocations;
    assert_true(allocations > 100);
    sc_context_free(&context);
    for (uint64_t n = 1; n <= allocations; n++) {
        assert_false(sc_context_run(&context, n, parse_and_format, NULL));
        sc_context_free(&context);
    }
}

/* ---- formatting ---- */

static sc_strbuf format(sc_context *context, const sc_file *file)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_format_file(context, file, &out);
    return out;
}

/* The file's format without comments and blanks: equal for equal trees. */
static const char *tokens(sc_context *context, const sc_file *file)
{
    sc_file bare = *file;
    memset(&bare.comments, 0, sizeof bare.comments);
    sc_strbuf text = format(context, &bare);
    size_t kept = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] != ' ' && text.data[i] != '\n')
            text.data[kept++] = text.data[i];
    }
    text.data[kept] = 0;
    return text.data;
}

static void format_twice(sc_context *context, void *user)
{
    const sc_file *file = sc_parse_file(context, user);
    assert_non_null(file);
    expect_messages(context, NULL, 0);
    sc_strbuf once = format(context, file);
    const sc_file *again = sc_parse_text(context, "again", once.data, once.length);
    expect_messages(context, NULL, 0);
    assert_string_equal(format(context, again).data, once.data);
    assert_string_equal(tokens(context, again), tokens(context, file));
    assert_int_equal(again->comments.count, file->comments.count);
}

static void check_format_of(const char *folder, unsigned least)
{
    char path[1024];
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    unsigned count = 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        if (strstr(entry->d_name, ".shard") == NULL)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        sc_context context;
        assert_true(sc_context_run(&context, 0, format_twice, path));
        sc_context_free(&context);
        count++;
    }
    closedir(listing);
    assert_true(count >= least);
}

static void formatting_keeps_the_tree(void **state)
{
    (void)state;
    check_format_of(SHARDC_SOURCE_DIR "/examples", 2);
    check_format_of(SHARDC_SOURCE_DIR "/test/acceptance/cases", 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_of_every_tree_is_capped),
        cmocka_unit_test(depth_256_is_fine_and_257_is_not),
        cmocka_unit_test(statements_and_expressions_add_up),
        cmocka_unit_test(lists_of_a_million_elements),
        cmocka_unit_test(a_million_errors),
        cmocka_unit_test(a_file_of_100_megabytes_is_refused),
        cmocka_unit_test(literals_have_their_values),
        cmocka_unit_test(a_range_is_not_two_floats),
        cmocka_unit_test(words_of_plans_are_names_elsewhere),
        cmocka_unit_test(each_word_of_plans_is_a_name_elsewhere),
        cmocka_unit_test(the_end_of_a_plan_ends_its_words),
        cmocka_unit_test(a_byte_order_mark_is_skipped),
        cmocka_unit_test(numbers_that_do_not_fit),
        cmocka_unit_test(malformed_utf8_is_one_message),
        cmocka_unit_test(bytes_of_zero_are_one_message),
        cmocka_unit_test(each_mistake_is_one_message_and_the_rest_is_read),
        cmocka_unit_test(a_missing_brace_costs_one_message),
        cmocka_unit_test(the_version_comes_first),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(formatting_keeps_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
