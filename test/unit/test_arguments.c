/* Command lines by tables: what is right is set, what is wrong is said, and the rest is set all the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "in_context.h"
#include "support/arguments.h"

typedef struct asked {
    bool flag, json;
    const char *text, *joined;
    sc_text_list texts;
    sc_named_text_list named;
    int64_t number, own;
    uint64_t whole;
    double real, share;
    struct shared {
        int64_t depth, width;
    } shared; /* of a table of its own */
} asked;

static void set_own(sc_context *context, void *into, const char *name, const char *value)
{
    sc_arguments_number(context, name, value, &((asked *)into)->own);
}

#define ROW(name, kind, field, value)                                                                                                      \
    {                                                                                                                                      \
        name, SC_OPTION_##kind, offsetof(asked, field), value, "", NULL                                                                    \
    }

static const sc_option_row rows[] = {
    ROW("--flag-of-it", FLAG, flag, NULL),  ROW("--json", JSON, json, "text|json"),        ROW("--text", TEXT, text, "FILE"),
    ROW("--joined", JOINED, joined, "a=1"), ROW("--texts", TEXTS, texts, "TEXT"),          ROW("--named", NAMED, named, "NAME=FILE"),
    ROW("--number", NUMBER, number, "N"),   ROW("--whole", UNSIGNED, whole, "N"),          ROW("--real", REAL, real, "X"),
    ROW("--share", SHARE, share, "X"),      {"--own", SC_OPTION_OWN, 0, "N", "", set_own},
};

static const sc_option_row shared_rows[] = {
    {"--depth", SC_OPTION_NUMBER, offsetof(struct shared, depth), "N", "how deep", NULL},
    {"--width", SC_OPTION_NUMBER, offsetof(struct shared, width), "N", "how wide", NULL},
};

/* The first message, or "". */
static const char *parse(sc_context *context, asked *out, sc_text_list *words, int argc, const char *const *argv)
{
    sc_diag_init(&context->diag, &context->arena);
    *out = (asked){0};
    *words = (sc_text_list){0};
    const sc_option_table tables[] = {{rows, sizeof rows / sizeof *rows, out},
                                      {shared_rows, sizeof shared_rows / sizeof *shared_rows, &out->shared}};
    sc_arguments_parse(context, tables, 2, "it --help", argc, (char **)(uintptr_t)argv, words);
    return context->diag.list.count > 0 ? context->diag.list.data[0].text : "";
}

static void values_are_set(sc_context *context)
{
    static const char *const argv[] = {
        "it",       "do",      "--flag_of-it", "--json=json", "--text", "a b", "--joined=a=1", "--joined", "b=2",        "--texts", "-",
        "--texts=", "--named", "x=y=z",        "--number",    "7",      "-",   "--whole",      "9",        "--real=2.5", "--share", "1",
        "--own=3",  "more"};
    asked got;
    sc_text_list words;
    assert_string_equal(parse(context, &got, &words, sizeof argv / sizeof *argv, argv), "");
    assert_true(got.flag && got.json && got.number == 7 && got.whole == 9 && got.real == 2.5 && got.share == 1 && got.own == 3);
    assert_string_equal(got.text, "a b");
    assert_string_equal(got.joined, "a=1,b=2");
    assert_true(got.texts.count == 2 && strcmp(got.texts.data[0], "-") == 0 && got.texts.data[1][0] == 0);
    assert_true(got.named.count == 1 && strcmp(got.named.data[0].name, "x") == 0 && strcmp(got.named.data[0].value, "y=z") == 0);
    assert_true(words.count == 3 && strcmp(words.data[0], "do") == 0 && strcmp(words.data[1], "-") == 0 &&
                strcmp(words.data[2], "more") == 0);
}

static void what_is_wrong_is_said(sc_context *context)
{
    static const struct {
        const char *argument, *message;
    } cases[] = {
        {"--number=-1", "--number takes a number of at least 0, not '-1'"},
        {"--number=7x", "--number takes a number of at least 0, not '7x'"},
        {"--whole=99999999999999999999", "--whole takes a number of at least 0, not '99999999999999999999'"},
        {"--own=", "--own takes a number of at least 0, not ''"},
        {"--real=inf", "--real takes a number of at least 0, not 'inf'"},
        {"--real=nan", "--real takes a number of at least 0, not 'nan'"},
        {"--share=1.5", "--share takes a number of at least 0 and at most 1, not '1.5'"},
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
        asked got;
        sc_text_list words;
        const char *message = parse(context, &got, &words, 3, argv);
        if (strcmp(message, cases[i].message) != 0)
            fail_msg("%s: %s", cases[i].argument, message);
        assert_true(got.number == 0 && got.whole == 0 && got.real == 0 && got.share == 0 && !got.flag && got.named.count == 0);
        assert_true(got.own == (strncmp(cases[i].argument, "--own", 5) == 0 ? 0 : 5));
        assert_int_equal(sc_diag_exit_code(&context->diag), 2);
    }
}

/* Each table has its own structure, and the lines of help are one list. */
static void tables_are_one_command_line(sc_context *context)
{
    static const char *const argv[] = {"it", "--width=3", "--number=4", "--depth", "5"};
    const sc_option_row flag = {"--so", SC_OPTION_FLAG, 0, NULL, "a flag", NULL};
    const sc_option_table tables[] = {{&flag, 1, NULL}, {shared_rows, 2, NULL}};
    asked got;
    sc_text_list words;
    sc_strbuf help;
    assert_string_equal(parse(context, &got, &words, sizeof argv / sizeof *argv, argv), "");
    assert_true(got.shared.width == 3 && got.shared.depth == 5 && got.number == 4 && got.whole == 0 && got.own == 0);
    sc_strbuf_init(&help, &context->arena);
    sc_arguments_help(tables, 2, &help);
    assert_string_equal(help.data, "  --so        a flag\n"
                                   "  --depth  N  how deep\n"
                                   "  --width  N  how wide\n");
}

int main(void)
{
    static void (*const tests[])(sc_context *) = {values_are_set, what_is_wrong_is_said, tables_are_one_command_line};
    const struct CMUnitTest all[] = {
        {"values_are_set", in_context, NULL, NULL, (void *)(uintptr_t)&tests[0]},
        {"what_is_wrong_is_said", in_context, NULL, NULL, (void *)(uintptr_t)&tests[1]},
        {"tables_are_one_command_line", in_context, NULL, NULL, (void *)(uintptr_t)&tests[2]},
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
