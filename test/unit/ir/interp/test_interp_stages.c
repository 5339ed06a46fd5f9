/* Programs cut into stages: each stage's ranks run their calls on their own state; slots are those
 * of a micro-batch; what is received is what was sent for it, once. */
#include "ir/ops/verify.h"
#include "test/unit/helpers/interp_case.h"
#include "test/unit/helpers/stage_case.h"

static sc_case *open_stages(const char *text)
{
    sc_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->text = text;
    assert_true(sc_context_run(&c->context, 0, case_parse, c));
    assert_non_null(c->m);
    c->interp = sc_interp_new(c->m, &(sc_interp_options){.ranks = true});
    assert_non_null(c->interp);
    return c;
}

static sc_func_id func_named(const sc_case *c, const char *name)
{
    sc_func_id f = 0;
    while (strcmp(sc_text(c->m->context, c->m->funcs.data[f].name), name) != 0)
        f++;
    return f;
}

static sc_sym sym(sc_case *c, const char *text)
{
    return sc_intern_text(&c->context.names, text);
}

static uint32_t state_named(sc_case *c, const char *path)
{
    uint32_t state = sc_module_find_state(c->m, sym(c, path));
    assert_int_not_equal(state, SC_NONE);
    return state;
}

/* Micro-batch i has x = i + 1 everywhere and y = (0, i). */
static bool call(sc_case *c, const char *name, int32_t micro_batch)
{
    double first = micro_batch + 1, x[] = {first, first, first, first, first, first, first, first},
           y[] = {0, micro_batch};
    sc_sym names[] = {sym(c, "y"), sym(c, "x")};
    sc_array values[] = {{.rank = 1, .sizes = {2}, .count = 2, .data = y},
                         {.rank = 2, .sizes = {2, 4}, .count = 8, .data = x}};
    sc_interp_inputs inputs = {names, values, 2};
    sc_func_id func = func_named(c, name);
    const sc_op *last = sc_op_at(c->m, c->m->funcs.data[func].last);
    for (uint32_t i = 0; i < c->output_count; i++)
        sc_array_free(&c->outputs[i]);
    c->output_count = last->operand_count;
    return sc_interp_run_call(c->interp, &(sc_call){func, micro_batch}, &inputs, c->outputs,
                              c->output_count, c->error, sizeof c->error);
}

static void expect_state(sc_case *c, const char *path, const double *wanted, int64_t count)
{
    bool agree;
    sc_array got = sc_interp_get_state(c->interp, state_named(c, path), &agree);
    assert_true(agree);
    assert_int_equal(got.count, count);
    for (int64_t i = 0; i < count; i++)
        assert_float_equal(got.data[i], wanted[i], 0);
    sc_array_free(&got);
}

/* w = (1, 2, 3, 4), so p = 10 (i + 1); e = p - y. */
static void a_step_of_two_stages_adds_up(void **state)
{
    (void)state;
    sc_case *c = open_stages(stage_case_local);
    assert_true(sc_verify_module(c->m, "text"));
    assert_true(sc_interp_set_state(c->interp, state_named(c, "w"), (const double[]){1, 2, 3, 4}));
    for (uint32_t i = 0; i < c->m->schedule.count; i++) {
        const sc_call *one = &c->m->schedule.data[i];
        if (!call(c, sc_text(c->m->context, c->m->funcs.data[one->func].name), one->microbatch))
            fail_msg("%s", c->error);
    }
    /* 1 (10 + 10) + 2 (20 + 19); 10^2 + 10^2 + 20^2 + 19^2 */
    expect_state(c, "w.grad", (const double[]){98, 98, 98, 98}, 4);
    expect_state(c, "w", (const double[]){-97, -96, -95, -94}, 4);
    expect_state(c, "total", (const double[]){961}, 1);
    assert_int_equal(c->output_count, 1);
    assert_float_equal(c->outputs[0].data[0], 961, 0);
    case_close(c);
}

static void a_value_is_received_once_and_after_it_is_sent(void **state)
{
    (void)state;
    sc_case *c = open_stages(stage_case_local);
    assert_false(call(c, "F1", 0));
    assert_non_null(strstr(c->error, "'p' of micro-batch 0 has not been sent"));
    assert_true(call(c, "F0", 1));
    assert_false(call(c, "F0", 1));
    assert_non_null(strstr(c->error, "'p' of micro-batch 1 is already under way"));
    assert_false(call(c, "F1", 0));
    assert_true(call(c, "F1", 1));
    assert_false(call(c, "F1", 1));
    assert_non_null(strstr(c->error, "was received before"));
    case_close(c);
}

static void slots_are_of_a_micro_batch(void **state)
{
    (void)state;
    sc_case *c = open_stages(stage_case_local);
    assert_true(call(c, "F0", 2) && call(c, "F1", 2));
    assert_false(call(c, "B1", 1));
    assert_non_null(strstr(c->error, "slot 'e.slot' of micro-batch 1 has not been written"));
    assert_true(call(c, "B1", 2));
    assert_null(sc_interp_get_state(c->interp, state_named(c, "e.slot"), NULL).data);
    case_close(c);
}

static void state_is_kept_where_it_is_used(void **state)
{
    (void)state;
    static const char text[] =
        STAGE_CASE_HEAD STAGE_CASE_F0 STAGE_CASE_U "func @also stage 1 {\n"
                                                   "  %w = param {name = \"w\"} : f32[D=2/4@tp]\n"
                                                   "  %n = add %w, %w : f32[D=2/4@tp]\n"
                                                   "  state_write %n {name = \"w\"}\n"
                                                   "  return\n"
                                                   "}\n";
    sc_case *c = open_stages(text);
    assert_true(sc_interp_set_state(c->interp, state_named(c, "w"), (const double[]){1, 2, 3, 4}));
    expect_state(c, "w", (const double[]){1, 2, 3, 4}, 4);
    assert_true(call(c, "also", -1)); /* now the copies differ */
    bool agree = true;
    sc_array first = sc_interp_get_state(c->interp, state_named(c, "w"), &agree);
    assert_false(agree);
    assert_float_equal(first.data[3], 4, 0);
    sc_array_free(&first);
    case_close(c);
}

static void an_input_that_is_not_given_is_named(void **state)
{
    (void)state;
    sc_case *c = open_stages(stage_case_local);
    assert_false(sc_interp_run_call(c->interp, &(sc_call){func_named(c, "F0"), 0},
                                    &(sc_interp_inputs){(const sc_sym[]){0}, c->inputs, 0}, NULL, 0,
                                    c->error, sizeof c->error));
    assert_non_null(strstr(c->error, "no input 'x' was given"));
    case_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_of_two_stages_adds_up),
        cmocka_unit_test(a_value_is_received_once_and_after_it_is_sent),
        cmocka_unit_test(slots_are_of_a_micro_batch),
        cmocka_unit_test(state_is_kept_where_it_is_used),
        cmocka_unit_test(an_input_that_is_not_given_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
