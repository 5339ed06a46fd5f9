/* Validation of a step cut into stages: the right cut is equal in all values, states and results,
 * in any order of its calls; each way of cutting it wrongly is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ops/verify.h"
#include "ir/text/text.h"
#include "test/unit/helpers/stage_case.h"
#include "tools/verify/validate.h"

typedef struct comparing {
    const char *global, *local;
    sc_validate_options options;
    sc_validate_result result;
    bool is_valid; /* the verifier accepts the cut program */
    bool parsed;
    sc_context context;
} comparing;

static void work(sc_context *context, void *user)
{
    comparing *c = user;
    sc_module *global = sc_parse_module(context, "global", c->global, strlen(c->global)),
              *local = sc_parse_module(context, "local", c->local, strlen(c->local));
    c->parsed = global != NULL && local != NULL;
    if (!c->parsed)
        return;
    c->is_valid = sc_verify_module(local, "cut");
    sc_validate(global, local, 0, &c->options, &c->result);
}

static void compare(comparing *c, const char *local)
{
    c->global = stage_case_global;
    c->local = local;
    assert_true(sc_context_run(&c->context, 0, work, c));
    if (!c->parsed)
        fail_msg("%s", local);
}

/* The cut program with one text in it replaced. */
static const char *with(const char *from, const char *to)
{
    static char text[1 << 13];
    const char *at = strstr(stage_case_local, from);
    assert_non_null(at);
    int length = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - stage_case_local),
                          stage_case_local, to, at + strlen(from));
    assert_true(length > 0 && (size_t)length < sizeof text);
    return text;
}

static void expect_equal(const char *local)
{
    comparing c = {.options = {.dtypes = true}};
    compare(&c, local);
    if (!c.result.equal)
        fail_msg("%s: %s at '%s', %.17g for %.17g", c.result.first.run, c.result.first.message,
                 sc_text(&c.context, c.result.first.path), c.result.first.found,
                 c.result.first.expected);
    assert_true(c.is_valid);
    assert_int_equal(c.result.ranks, 4);
    assert_int_equal(c.result.values, 3);  /* p, e, dw */
    assert_int_equal(c.result.states, 3);  /* w.grad, total; w */
    assert_int_equal(c.result.outputs, 1); /* total */
    sc_context_free(&c.context);
}

static void expect_different(const char *local, bool is_valid, const char *wanted)
{
    comparing c = {0};
    compare(&c, local);
    assert_false(c.result.equal);
    assert_int_equal(c.is_valid, is_valid);
    const char *path = sc_text(&c.context, c.result.first.path);
    bool found =
        path[0] != 0 ? strcmp(path, wanted) == 0 : strstr(c.result.first.message, wanted) != NULL;
    if (!found)
        fail_msg("wanted \"%s\", got \"%s\" at \"%s\"", wanted, c.result.first.message, path);
    sc_context_free(&c.context);
}

static void a_step_cut_right_is_equal(void **state)
{
    (void)state;
    expect_equal(stage_case_local);
}

static void the_order_of_calls_does_not_matter(void **state)
{
    (void)state;
    expect_equal(with("  call @B0\n  call @F1 microbatch 1\n  call @B1 microbatch 1\n",
                      "  call @F1 microbatch 1\n  call @B1 microbatch 1\n  call @B0\n"));
    expect_equal(with("  call @F0\n  call @F0 microbatch 1\n  call @F1\n  call @B1\n  call @B0\n"
                      "  call @F1 microbatch 1\n  call @B1 microbatch 1\n  call @B0 microbatch 1\n",
                      "  call @F0 microbatch 1\n  call @F1 microbatch 1\n  call @B1 microbatch 1\n"
                      "  call @B0 microbatch 1\n  call @F0\n  call @F1\n  call @B1\n"
                      "  call @B0\n"));
}

static void wrong_cuts_are_found(void **state)
{
    (void)state;
    expect_different(with("%s = add %a, %g :", "%s = add %g, %g :"), true, "w.grad");
    expect_different(with("%e \"m.e\" = sub %p, %y", "%e \"m.e\" = sub %y, %p"), true, "m.e");
    expect_different(with("  %n = add %t, %s : f32[]\n", "  %n = add %s, %s : f32[]\n"), true,
                     "total");
    expect_different(with("%n = sub %w, %g :", "%n = add %w, %g :"), true, "w");
    expect_different(with("  return %t\n", "  %u = add %t, %t : f32[]\n  return %u\n"), true,
                     ""); /* a result without a name */
    expect_different(with("  call @U0_0 microbatch -1\n", ""), true, "w");
    expect_different(with("  call @B0 microbatch 1\n", ""), false, "w.grad");
}

static void orders_that_data_do_not_allow_are_found(void **state)
{
    (void)state;
    expect_different(with("  call @F0 microbatch 1\n  call @F1\n", "  call @F1\n"), false,
                     "has not been sent");
    expect_different(with("  call @F1\n  call @B1\n", "  call @B1\n  call @F1\n"), false,
                     "has not been written");
    expect_different(with("  call @F0 microbatch 1\n  call @F1\n  call @B1\n",
                          "  call @F0 microbatch 2\n  call @F1\n  call @B1\n"),
                     false, "the same micro-batches");
    expect_different(with("  call @U0_1 microbatch -1\n", ""), true,
                     "no stage returns the results");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_cut_right_is_equal),
        cmocka_unit_test(the_order_of_calls_does_not_matter),
        cmocka_unit_test(wrong_cuts_are_found),
        cmocka_unit_test(orders_that_data_do_not_allow_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
