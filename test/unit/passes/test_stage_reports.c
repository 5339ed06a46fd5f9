/* Reports on a program cut into stages: what each stage sends and receives in a step, and how much
 * each keeps: its state, and as many copies of a slot as micro-batches are under way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "ir/text/text.h"
#include "passes/comm_report.h"
#include "passes/memory_report.h"
#include "test/unit/helpers/stage_case.h"

static sc_module *parsed(sc_context *context, const char *text)
{
    sc_module *m = sc_parse_module(context, "case", text, strlen(text));
    assert_non_null(m);
    return m;
}

typedef struct wanted_row {
    const char *name, *phase, *value, *axes;
    uint32_t stage, count;
    double bytes, sent;
} wanted_row;

static void rows(sc_context *context, void *user)
{
    static const wanted_row wanted[] = {
        {"send", "forward", "dot", "pp", 0, 2, 8, 8},
        {"recv", "forward", "dot", "pp", 1, 2, 8, 0},
        {"all_reduce", "forward", "m.p", "tp", 1, 2, 8, 8},
        {"send", "backward", "e.slot", "pp", 1, 2, 8, 8},
        {"recv", "backward", "e.slot", "pp", 0, 2, 8, 0},
    };
    sc_module *m = parsed(context, stage_case_local);
    sc_comm_rows found = {0};
    (void)user;
    sc_comm_report(m, &found);
    assert_int_equal(found.count, sizeof wanted / sizeof *wanted);
    for (uint32_t i = 0; i < found.count; i++) {
        const sc_comm_row *row = &found.data[i];
        const wanted_row *want = &wanted[i];
        assert_string_equal(row->name, want->name);
        assert_string_equal(row->phase, want->phase);
        assert_string_equal(row->values.data[0], want->value);
        assert_string_equal(sc_comm_group_text(m, row), want->axes);
        assert_int_equal(row->stage, want->stage);
        assert_int_equal(row->count, want->count);
        assert_int_equal(row->ranks, 2);
        assert_false(row->control);
        assert_float_equal(row->bytes, want->bytes, 0);
        assert_float_equal(row->sent, want->sent, 0);
    }
}

static void each_stage_sends_and_receives(void **state)
{
    sc_context context = {0};
    (void)state;
    assert_true(sc_context_run(&context, 0, rows, NULL));
    sc_context_free(&context);
}

/* The first stage keeps its x (16 bytes of a rank) from F0 to B0. */
static const char gpipe[] =
    STAGE_CASE_HEAD STAGE_CASE_F0 STAGE_CASE_F1 STAGE_CASE_B1 STAGE_CASE_B0 STAGE_CASE_U
    "schedule {\n"
    "  call @F0\n  call @F0 microbatch 1\n  call @F0 microbatch 2\n"
    "  call @F1\n  call @F1 microbatch 1\n  call @F1 microbatch 2\n"
    "  call @B1\n  call @B0\n  call @B1 microbatch 1\n  call @B0 microbatch 1\n"
    "  call @B1 microbatch 2\n  call @B0 microbatch 2\n"
    "  call @U0_0 microbatch -1\n  call @U0_1 microbatch -1\n"
    "}\n";
static const char one_at_a_time[] =
    STAGE_CASE_HEAD STAGE_CASE_F0 STAGE_CASE_F1 STAGE_CASE_B1 STAGE_CASE_B0 STAGE_CASE_U
    "schedule {\n"
    "  call @F0\n  call @F1\n  call @B1\n  call @B0\n"
    "  call @F0 microbatch 1\n  call @F1 microbatch 1\n"
    "  call @B1 microbatch 1\n  call @B0 microbatch 1\n"
    "  call @U0_0 microbatch -1\n  call @U0_1 microbatch -1\n"
    "}\n";

static void memory(sc_context *context, void *user)
{
    sc_memory_report many, one;
    (void)user;
    sc_memory_report_make(parsed(context, gpipe), &many);
    sc_memory_report_make(parsed(context, one_at_a_time), &one);
    assert_int_equal(many.stages.count, 2);
    const sc_memory_stage *first = &many.stages.data[0], *last = &many.stages.data[1];
    assert_int_equal(first->bytes[SC_MEMORY_PARAM], 8);
    assert_int_equal(first->bytes[SC_MEMORY_GRAD], 8);
    assert_int_equal(first->bytes[SC_MEMORY_WORKSPACE], 0);
    assert_int_equal(last->bytes[SC_MEMORY_PARAM], 0);
    assert_int_equal(last->bytes[SC_MEMORY_WORKSPACE], 4); /* total */
    assert_int_equal(many.stage, 0);
    assert_int_equal(many.peak, first->peak);
    /* the fullest call is the same one, two copies of x later */
    assert_int_equal(first->bytes[SC_MEMORY_ACT] - one.stages.data[0].bytes[SC_MEMORY_ACT], 32);
    assert_string_equal(many.live.data[0].name, "x.slot of 3 micro-batches");
    assert_int_equal(many.live.data[0].bytes, 48);
}

static void a_slot_counts_once_a_micro_batch_under_way(void **state)
{
    sc_context context = {0};
    (void)state;
    assert_true(sc_context_run(&context, 0, memory, NULL));
    sc_context_free(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stage_sends_and_receives),
        cmocka_unit_test(a_slot_counts_once_a_micro_batch_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
