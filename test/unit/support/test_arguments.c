/* Command lines by tables: what is right is set, what is wrong is said, and the rest is set all the
 * same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "support/arguments.h"
#include "test/unit/helpers/in_context.h"

typedef struct asked {
    bool flag, json;
    const char *text, *joined;
    sc_text_list texts;
    sc_named_text_list named;
    int64_t number, count, own;
    uint64_t whole;
    double real, share;
    struct shared {
        int64_t depth, width;
    } shared; /* of a table of its own */
} asked;

static void set_own(sc_context *context, void *into, const char *name, const char *value)
{
    sc_arguments_number(context, name, value, 0, &((asked *)into)->own);
}

#define ROW(name, kind, field, value, takers)                                                      \
    {                                                                                              \
        name, SC_OPTION_##kind, offsetof(asked, field), value, takers, "", NULL                    \
    }

static const sc_option_row rows[] = {
    ROW("--flag-of-it", FLAG, flag, NULL, "do undo"),
    ROW("--json", JSON, json, "text|json", NULL),
    ROW("--text", TEXT, text, "FILE", "do"),
    ROW("--joined", JOINED, joined, "a=1", NULL),
    ROW("--texts", TEXTS, texts, "TEXT", NULL),
    ROW("--named", NAMED, named, "NAME=FILE", NULL),
    ROW("--number", NUMBER, number, "N", "undo"),
    ROW("--whole", UNSIGNED, whole, "N", NULL),
    ROW("--real", REAL, real, "X", NULL),
    ROW("--share", SHARE, share, "X", NULL),
    ROW("--count", COUNT, count, "N", NULL),
    {"--own", SC_OPTION_OWN, 0, "N", NULL, "", set_own},
};

static const sc_option_row shared_rows[] = {
    {"--depth", SC_OPTION_NUMBER, offsetof(struct shared, depth), "N", "do", "how deep", NULL},
    {"--width", SC_OPTION_NUMBER, offsetof(struct shared, width), "N", NULL, "how wide", NULL},
    {"-w", SC_OPTION_NUMBER, offsetof(struct shared, width), "N", NULL, NULL, NULL},
};

static const sc_option_row foreign_rows[] = {
    {"--elsewhere", SC_OPTION_TEXT, 0, "FILE", "redo", "", NULL}};

static const char *const commands[] = {"do", "undo", "wait"};

static const sc_option_relation relations[] = {
    {"do", "--flag-of-it", "--text --texts", "it marks a text", false},
    {NULL, "--depth", "--width --real", "there is one size", true},
};

typedef struct line {
    sc_command_line line;
    sc_option_table tables[3];
} line;

static void describe(asked *out, line *l)
{
    l->tables[0] = (sc_option_table){rows, sizeof rows / sizeof *rows, out, NULL};
    l->tables[1] = (sc_option_table){shared_rows, sizeof shared_rows / sizeof *shared_rows,
                                     out == NULL ? NULL : &out->shared, NULL};
    l->tables[2] = (sc_option_table){foreign_rows, 1, NULL, "that program"};
    l->line = (sc_command_line){.program = "it",
                                .commands = commands,
                                .command_count = 3,
                                .tables = l->tables,
                                .table_count = 3,
                                .relations = relations,
                                .relation_count = 2};
}

/* The first message, or "". */
static const char *parse(sc_context *context, asked *out, sc_text_list *words, int argc,
                         const char *const *argv)
{
    line l;
    sc_arguments arguments;
    sc_diag_init(&context->diag, &context->arena);
    *out = (asked){0};
    describe(out, &l);
    sc_arguments_parse(context, &l.line, argc, (char **)(uintptr_t)argv, &arguments);
    *words = arguments.words;
    if (context->diag.errors == 0 && words->count > 0)
        sc_arguments_check(context, &l.line, &arguments, words->data[0]);
    return context->diag.list.count > 0 ? context->diag.list.data[0].text : "";
}

static void values_are_set(sc_context *context)
{
    static const char *const argv[] = {
        "it",     "do",         "--flag_of-it", "--count",  "4",       "--json=json",
        "--text", "a b",        "--joined=a=1", "--joined", "b=2",     "--texts",
        "-",      "--texts=",   "--named",      "x=y=z",    "-",       "--whole",
        "9",      "--real=2.5", "--share",      "1",        "--own=3", "more"};
    asked got;
    sc_text_list words;
    assert_string_equal(parse(context, &got, &words, sizeof argv / sizeof *argv, argv), "");
    assert_true(got.flag && got.json && got.count == 4 && got.whole == 9 && got.real == 2.5 &&
                got.share == 1 && got.own == 3);
    assert_string_equal(got.text, "a b");
    assert_string_equal(got.joined, "a=1,b=2");
    assert_true(got.texts.count == 2 && strcmp(got.texts.data[0], "-") == 0 &&
                got.texts.data[1][0] == 0);
    assert_true(got.named.count == 1 && strcmp(got.named.data[0].name, "x") == 0 &&
                strcmp(got.named.data[0].value, "y=z") == 0);
    assert_true(words.count == 3 && strcmp(words.data[0], "do") == 0 &&
                strcmp(words.data[1], "-") == 0 && strcmp(words.data[2], "more") == 0);
}

static void what_is_wrong_is_said(sc_context *context)
{
    static const struct {
        const char *argument, *message;
    } cases[] = {
        {"--number=-1", "--number takes a number of at least 0, not '-1'"},
        {"--number=7x", "--number takes a number of at least 0, not '7x'"},
        {"--whole=99999999999999999999",
         "--whole takes a number of at least 0, not '99999999999999999999'"},
        {"--own=", "--own takes a number of at least 0, not ''"},
        {"--real=inf", "--real takes a number of at least 0, not 'inf'"},
        {"--real=nan", "--real takes a number of at least 0, not 'nan'"},
        {"--share=1.5", "--share takes a number above 0 and at most 1, not '1.5'"},
        {"--share=0", "--share takes a number above 0 and at most 1, not '0'"},
        {"--count=0", "--count takes a number of at least 1, not '0'"},
        {"--json=yes", "--json is text or json, not 'yes'"},
        {"--named=x", "--named takes NAME=FILE, not 'x'"},
        {"--named==x", "--named takes NAME=FILE, not '=x'"},
        {"--flag-of-it=1", "--flag-of-it takes no value"},
        {"--text", "--text needs FILE"},
        {"--flag-of-me", "there is no option '--flag-of-me'; did you mean '--flag-of-it'?"},
        {"--numbers=1", "there is no option '--numbers'; did you mean '--number'?"},
        {"--of-no-kind", "there is no option '--of-no-kind'"},
        {"--widht=1", "there is no option '--widht'; did you mean '--width'?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *argv[] = {"it", "--own=5", cases[i].argument};
        bool is_own = strncmp(cases[i].argument, "--own", 5) == 0;
        asked got;
        sc_text_list words;
        const char *message = parse(context, &got, &words, is_own ? 2 : 3,
                                    is_own ? (const char *[]){"it", cases[i].argument} : argv);
        if (strcmp(message, cases[i].message) != 0)
            fail_msg("%s: %s", cases[i].argument, message);
        assert_true(got.number == 0 && got.whole == 0 && got.real == 0 && got.share == 0 &&
                    !got.flag && got.named.count == 0);
        assert_true(got.own == (is_own ? 0 : 5));
        assert_int_equal(sc_diag_exit_code(&context->diag), 2);
    }
}

/* Each table has its own structure, and the lines of help are one list. */
static void tables_are_one_command_line(sc_context *context)
{
    static const char *const argv[] = {"it", "-w", "3", "--number=4", "--depth", "5"};
    const sc_option_row flag = {"--so", SC_OPTION_FLAG, 0, NULL, "undo", "a flag", NULL};
    const sc_option_table tables[] = {{&flag, 1, NULL, NULL}, {shared_rows, 3, NULL, NULL}};
    const sc_command_line helped = {.program = "it",
                                    .commands = commands,
                                    .command_count = 3,
                                    .tables = tables,
                                    .table_count = 2};
    asked got;
    sc_text_list words;
    sc_strbuf help;
    assert_string_equal(parse(context, &got, &words, sizeof argv / sizeof *argv, argv), "");
    assert_true(got.shared.width == 3 && got.shared.depth == 5 && got.number == 4 &&
                got.whole == 0 && got.own == 0);
    sc_strbuf_init(&help, &context->arena);
    sc_arguments_help(&helped, NULL, &help);
    assert_string_equal(help.data, "  --so        undo: a flag\n"
                                   "  --depth  N  do: how deep\n"
                                   "  --width  N  how wide\n");
    sc_strbuf_init(&help, &context->arena);
    sc_arguments_help(&helped, "wait", &help);
    assert_string_equal(help.data, "  --width  N  how wide\n");
}

/* What a command does not take, what is given twice, what makes no sense with something else. */
static void nothing_is_ignored(sc_context *context)
{
    static const struct {
        const char *command, *first, *second, *message;
    } cases[] = {
        {"do", "--text=a", "--text=b", "--text is given twice"},
        {"undo", "--flag-of-it", "--flag_of_it", "--flag-of-it is given twice"},
        {"do", "--texts=a", "--texts=b", ""},
        {"do", "--text", "--number",
         "--text needs FILE, but '--number' is an option; a value that looks like one is written "
         "--text=--number"},
        {"do", "--text", "--of-no-kind", ""},
        {"do", "--text=--number", "--json=json", ""},
        {"do", "--number=1", "--json=json", "'do' does not take --number; undo takes it"},
        {"wait", "--flag-of-it", "--json=json",
         "'wait' does not take --flag-of-it; do, undo take it"},
        {"wait", "--elsewhere=x", "--json=json",
         "'wait' does not take --elsewhere, an option of that program (redo)"},
        {"do", "--flag-of-it", "--json=json",
         "--flag-of-it needs --text or --texts: it marks a text"},
        {"do", "--flag-of-it", "--texts=a", ""},
        {"undo", "--flag-of-it", "--json=json", ""},
        {"do", "--depth=1", "--real=2", "--depth makes no sense with --real: there is one size"},
        {"do", "--depth=1", "--json=json", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *argv[] = {"it", cases[i].first, cases[i].second, cases[i].command};
        const char *after[] = {"it", cases[i].command, cases[i].first, cases[i].second};
        asked got;
        sc_text_list words;
        assert_string_equal(parse(context, &got, &words, 4, after), cases[i].message);
        assert_int_equal(sc_diag_exit_code(&context->diag), cases[i].message[0] == 0 ? 0 : 2);
        assert_string_equal(parse(context, &got, &words, 4, argv), cases[i].message);
    }
}

int main(void)
{
    static void (*const tests[])(sc_context *) = {values_are_set, what_is_wrong_is_said,
                                                  tables_are_one_command_line, nothing_is_ignored};
    const struct CMUnitTest all[] = {
        {"values_are_set", in_context, NULL, NULL, (void *)(uintptr_t)&tests[0]},
        {"what_is_wrong_is_said", in_context, NULL, NULL, (void *)(uintptr_t)&tests[1]},
        {"tables_are_one_command_line", in_context, NULL, NULL, (void *)(uintptr_t)&tests[2]},
        {"nothing_is_ignored", in_context, NULL, NULL, (void *)(uintptr_t)&tests[3]},
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
