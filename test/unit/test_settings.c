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
    r->groups[0] =
        (sc_optimizer_settings){.kind = SC_ADAMW, .lr = {.kind = SC_RATE_COSINE, .peak = 1, .warmup = 5, .total = 50, .floor = 0.5}};
    r->groups[1] = (sc_optimizer_settings){.kind = SC_LION, .lr = {.kind = SC_RATE_CONSTANT, .peak = 2}};
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
        cmocka_unit_test(nothing_given_changes_nothing),
        cmocka_unit_test(what_is_no_setting_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
