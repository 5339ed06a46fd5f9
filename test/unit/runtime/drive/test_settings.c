/* --set: which optimizers a setting reaches, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/drive/settings.h"

typedef struct setting_run {
    const char *text;
    sc_optimizer_settings groups[2]; /* adamw and lion */
    uint32_t count;
    bool ok;
    char messages[1024];
} setting_run;

static void apply(sc_context *context, void *user)
{
    setting_run *r = user;
    r->groups[0] = (sc_optimizer_settings){
        .kind = SC_ADAMW,
        .lr = {.kind = SC_RATE_COSINE, .peak = 1, .warmup = 5, .total = 50, .floor = 0.5}};
    r->groups[1] =
        (sc_optimizer_settings){.kind = SC_LION, .lr = {.kind = SC_RATE_CONSTANT, .peak = 2}};
    r->ok = sc_apply_settings(context, r->text, r->groups, r->count);
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_diag_render_text(&context->diag, &context->sources, &out);
    strncpy(r->messages, out.data == NULL ? "" : out.data, sizeof r->messages - 1);
}

static setting_run run(const char *text, uint32_t count)
{
    sc_context context;
    setting_run r = {.text = text, .count = count};
    assert_true(sc_context_run(&context, 0, apply, &r));
    sc_context_free(&context);
    return r;
}

static void settings_reach_who_has_them(void **state)
{
    (void)state;
    setting_run r = run("lr=0.25,eps=1e-3,decay=0.5,clip=0,beta2=0", 2);
    assert_true(r.ok);
    for (int i = 0; i < 2; i++) {
        for (int64_t step = 1; step < 100; step += 7)
            assert_true(sc_rate_at(&r.groups[i].lr, step) == 0.25);
        assert_true(r.groups[i].hyper[SC_HYPER_DECAY] == 0.5);
    }
    assert_true(r.groups[0].hyper[SC_HYPER_EPS] == 1e-3 && r.groups[1].hyper[SC_HYPER_EPS] == 0);
}

static void schedules_are_those_of_the_language(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sc_rate wanted;
    } rows[] = {
        {"lr=linear(3e-4,warmup=10,total=100)", {SC_RATE_LINEAR, 3e-4, 10, 100, 0}},
        {"lr=cosine(1,warmup=0,total=8,floor=0.5)", {SC_RATE_COSINE, 1, 0, 8, 0.5}},
        {"lr=cosine(floor = 0.5, total = 8, peak = 1, warmup = 2)", {SC_RATE_COSINE, 1, 2, 8, 0.5}},
        {"decay=0,lr=linear(1,warmup=1,total=2),clip=0", {SC_RATE_LINEAR, 1, 1, 2, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setting_run r = run(rows[i].text, 2);
        if (!r.ok)
            fail_msg("%s: %s", rows[i].text, r.messages);
        for (int g = 0; g < 2; g++) {
            assert_true(r.groups[g].lr.kind == rows[i].wanted.kind);
            for (int64_t step = 1; step < 110; step += 7)
                assert_true(sc_rate_at(&r.groups[g].lr, step) == sc_rate_at(&rows[i].wanted, step));
        }
    }
}

static void nothing_given_changes_nothing(void **state)
{
    (void)state;
    setting_run r = run(NULL, 2);
    assert_true(r.ok);
    assert_true(r.groups[0].lr.kind == SC_RATE_COSINE && r.groups[1].lr.peak == 2);
}

static void what_is_no_setting_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
        uint32_t count; /* of groups; 0: the text alone is wrong */
    } rows[] = {
        {"beta=0.5", "has no 'beta'; did you mean 'beta1'?", 0},
        {"nesterov=1", "has no 'nesterov'", 0},
        {"beta1=1", "a number of at least 0 and below 1", 0},
        {"lr=-1", "a number of at least 0", 0},
        {"lr=nan", "a number of at least 0", 0},
        {"lr=inf", "a number of at least 0", 0},
        {"lr=1e999", "a number of at least 0", 0},
        {"lr=1 ", "a number of at least 0", 0},
        {"lr=", "a number of at least 0", 0},
        {"=1", "NAME=VALUE", 0},
        {"lr", "NAME=VALUE", 0},
        {"lr=1,,decay=0", "NAME=VALUE", 0},
        {"decay=1,decay=1", "gives 'decay' twice", 0},
        {"lr=linar(1,warmup=1,total=2)", "there is no schedule 'linar'; did you mean 'linear'?", 0},
        {"lr=linear(1,warmup=1,total=2", "the ')' is missing", 0},
        {"lr=linear(1,warmup=1,total=2)x", "something follows the ')'", 0},
        {"lr=linear()", "'' is not a number of at least 0", 0},
        {"lr=linear(1,warmup=1)", "'total' is missing", 0},
        {"lr=linear(warmup=1,total=2)", "'peak' is missing", 0},
        {"lr=linear(1,2,total=3)", "'2' has no name", 0},
        {"lr=linear(1,warmup=1,total=2,)", "'' has no name", 0},
        {"lr=linear(1,warmpu=1,total=2)", "there is no argument 'warmpu'; did you mean 'warmup'?",
         0},
        {"lr=linear(1,warmup=1,warmup=2,total=3)", "'warmup' is given twice", 0},
        {"lr=linear(1,warmup=-1,total=3)", "'-1' is not a number of at least 0", 0},
        {"lr=linear(1,warmup=3,total=3)", "which must be larger", 0},
        {"lr=x", "linear(PEAK,warmup=STEPS,total=STEPS) or cosine(", 0},
        {"decay=linear(1,warmup=1,total=2)", "decay is a number of at least 0", 0},
        {"momentum=0.5", "no optimizer here has it; the arguments of adamw are", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setting_run r = run(rows[i].text, rows[i].count);
        if (r.ok || strstr(r.messages, rows[i].wanted) == NULL)
            fail_msg("%s: %s", rows[i].text, r.messages);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_reach_who_has_them),
        cmocka_unit_test(schedules_are_those_of_the_language),
        cmocka_unit_test(nothing_given_changes_nothing),
        cmocka_unit_test(what_is_no_setting_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
