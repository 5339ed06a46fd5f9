/* Programs of several stages: they read back, merge, and are refused where their stages contradict
 * each other or wait for each other for ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/helpers/stages_case.h"

static sc_program read_back(stages_case *s, sc_arena *arena)
{
    sc_program program;
    shardc_error error = {0};
    sc_strbuf bytes = stages_bytes(s);
    if (!sc_program_read(bytes.data, bytes.length, arena, &program, &error))
        fail_msg("%s", error.text);
    return program;
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    for (uint32_t count = 2; count <= 4; count++) {
        stages_case s;
        stages_begin(&s, count, 2, count % 2, 3);
        sc_arena *arena = &s.stages[0].arena;
        sc_strbuf bytes = stages_bytes(&s), again, text;
        sc_program program = read_back(&s, arena);
        assert_int_equal(program.stage_count, count);
        sc_strbuf_init(&again, arena);
        sc_program_write((const sc_image *const *)program.stages, count, &again);
        assert_int_equal(bytes.length, again.length);
        assert_memory_equal(bytes.data, again.data, bytes.length);
        sc_strbuf_init(&text, arena);
        sc_image_dump(program.stages[1], &text);
        assert_non_null(strstr(text.data, count == 2   ? "stage 1 of 2 over dp"
                                          : count == 3 ? "stage 1 of 3 over tp"
                                                       : "stage 1 of 4 over dp"));
        assert_non_null(strstr(text.data, "to stage 0, number 0, 2 slots"));
        assert_non_null(strstr(text.data, " wait    q"));
        stages_end(&s);
    }
}

/* States and outputs of all stages, each once; one that two have, on both. */
static void stages_merge(void **state)
{
    (void)state;
    stages_case s;
    stages_begin(&s, 3, 2, 0, 2);
    sc_program program = read_back(&s, &s.stages[0].arena);
    const sc_image *whole = program.whole;
    assert_int_equal(whole->state_count, 3 * 2 + 1);
    uint32_t tied = 0;
    while (strcmp(whole->states[tied].path, "tied") != 0)
        tied++;
    for (uint64_t rank = 0; rank < 6; rank++) {
        assert_true(sc_image_has(&whole->states[tied].tensor, rank) == (rank / 2 != 1));
        assert_true(sc_image_has_first(&whole->states[tied].tensor, rank) == (rank / 2 == 0));
        assert_int_equal(sc_image_stage_of(whole, rank), rank / 2);
        assert_int_equal(sc_image_stage_peer(whole, rank, 2), 4 + rank % 2);
    }
    assert_int_equal(whole->call_count, 2 * 2 + 1);
    const sc_image_func *last = &whole->funcs[whole->schedule[whole->call_count - 1].func];
    assert_string_equal(last->name, "update");
    assert_int_equal(last->output_count, 4);
    stages_end(&s);
}

/* A stage axis between two others. */
static void peers_have_equal_other_coordinates(void **state)
{
    (void)state;
    sc_image_axis axes[] = {{"dp", 2}, {"pp", 3}, {"tp", 4}};
    sc_image image = {.axes = axes, .axis_count = 3, .ranks = 24, .pipeline = {3, 1, 0}};
    for (uint64_t rank = 0; rank < 24; rank++) {
        uint64_t dp = rank / 12, tp = rank % 4;
        assert_int_equal(sc_image_stage_of(&image, rank), rank / 4 % 3);
        for (uint32_t stage = 0; stage < 3; stage++)
            assert_int_equal(sc_image_stage_peer(&image, rank, stage), dp * 12 + stage * 4 + tp);
    }
}

static void every_part_is_refused(void **state)
{
    (void)state;
    stages_case s;
    stages_begin(&s, 3, 1, 0, 2);
    sc_arena *arena = &s.stages[0].arena;
    for (uint32_t k = 0; k < 3; k++) /* an object would be most of it */
        s.stages[k].image.object_bytes = 0;
    sc_strbuf bytes = stages_bytes(&s);
    for (size_t size = 0; size < bytes.length; size++) {
        shardc_error error = {0};
        sc_program program;
        sc_arena own;
        char *part = malloc(size + 1);
        sc_arena_init(&own, image_no_memory, NULL);
        memcpy(part, bytes.data, size);
        assert_false(sc_program_read(part, size, &own, &program, &error));
        assert_int_equal(error.status, SHARDC_ERROR_DATA);
        sc_arena_free(&own);
        free(part);
    }
    (void)arena;
    stages_end(&s);
}

/* Programs that differ only in the order in which one stage calls its functions have different
 * hashes: ranks that meet compare them. */
static void the_order_of_calls_is_hashed(void **state)
{
    (void)state;
    uint64_t whole[2], first[2], last[2];
    for (int order = 0; order < 2; order++) {
        stages_case s;
        stages_begin(&s, 2, 1, 0, 2);
        sc_image_call *calls = s.stages[1].schedule.data, second = calls[1];
        if (order == 1) { /* both forward passes, then both backward passes */
            calls[1] = calls[2];
            calls[2] = second;
        }
        sc_program program = read_back(&s, &s.stages[0].arena);
        whole[order] = program.whole->hash;
        first[order] = program.stages[0]->hash;
        last[order] = program.stages[1]->hash;
        stages_end(&s);
    }
    assert_true(first[0] == first[1]);
    assert_true(last[0] != last[1]);
    assert_true(whole[0] != whole[1]);
}

/* ---- faults of one stage ---- */

typedef struct fault_case {
    void (*spoil)(stages_case *s);
    const char *message;
} fault_case;

#define SPOIL(name, ...)                                                                           \
    static void name(stages_case *s)                                                               \
    {                                                                                              \
        image_case *c = &s->stages[1];                                                             \
        (void)c;                                                                                   \
        __VA_ARGS__;                                                                               \
    }

/* The first instruction of that kind in a function; stages have other lists. */
static sc_image_instr *find_instr(image_case *c, const char *func, sc_image_instr_kind kind)
{
    for (uint32_t f = 0; f < c->funcs.count; f++) {
        for (uint32_t i = 0; i < c->funcs.data[f].instr_count; i++) {
            if (strcmp(c->funcs.data[f].name, func) == 0 && c->funcs.data[f].instrs[i].kind == kind)
                return &c->funcs.data[f].instrs[i];
        }
    }
    abort();
}

static sc_image_func *find_func(image_case *c, const char *name)
{
    uint32_t f = 0;
    while (strcmp(c->funcs.data[f].name, name) != 0)
        f++;
    return &c->funcs.data[f];
}

static void add_digit(image_case *c)
{
    sc_image_tensor *tensor = &c->states.data[1].tensor;
    tensor->replica.terms[tensor->replica.count++] = image_terms(c, "dp", 1).terms[0];
}

SPOIL(axis_beyond, c->image.pipeline.axis = 2)
SPOIL(count_of_another, c->image.pipeline.count = 2)
SPOIL(stage_beyond, c->image.pipeline.stage = 3)
SPOIL(peer_beyond, c->boundaries.data[0].peer = 3)
SPOIL(peer_itself, c->boundaries.data[0].peer = 1)
SPOIL(no_slots, c->boundaries.data[0].slots = 0)
SPOIL(slots_beyond, c->boundaries.data[0].slots = SC_IMAGE_MAX_SLOTS + 1)
SPOIL(boundary_twice, c->boundaries.data[1] = c->boundaries.data[0])
SPOIL(boundaries_turned, c->boundaries.data[0].peer = 2; c->boundaries.data[1].peer = 0)
SPOIL(message_of_no_boundary, c->messages.data[0].boundary = 4)
SPOIL(message_negative, c->messages.data[0].counts[0] = -1)
SPOIL(message_of_nothing, c->messages.data[0].part_count = 0)
SPOIL(no_message, find_instr(c, "F0", SC_INSTR_MESSAGE)->index = 4)
SPOIL(message_too_large, c->messages.data[2].counts[0]++)
SPOIL(message_askew, c->messages.data[2].counts[0]--;
      find_instr(c, "F0", SC_INSTR_MESSAGE)->args[0].at = 4)
SPOIL(message_without_buffer, find_instr(c, "F0", SC_INSTR_MESSAGE)->arg_count = 0)
SPOIL(wait_of_no_boundary, find_instr(c, "F0", SC_INSTR_WAIT)->index = 4)
SPOIL(wait_for_nothing, find_instr(c, "F0", SC_INSTR_WAIT)->index = 0)
SPOIL(one_slot_only, c->boundaries.data[2].slots = 1)
SPOIL(never_waited_for, find_func(c, "turn")->instr_count = 1)
SPOIL(started_twice, *find_instr(c, "F0", SC_INSTR_WAIT) = *find_instr(c, "F0", SC_INSTR_MESSAGE))
SPOIL(read_in_flight, find_instr(c, "F0", SC_INSTR_KERNEL)->args[0] =
                          find_instr(c, "F1", SC_INSTR_MESSAGE)->args[0];
      find_instr(c, "F0", SC_INSTR_KERNEL)->args[0].buffer++)
SPOIL(state_over_stages, add_digit(c))
SPOIL(group_over_stages, image_group(c, "dp", NULL))
SPOIL(boundaries_without_stages, c->image.pipeline.count = 0)
SPOIL(calls_of_a_list,
      find_func(c, "turns")->calls[0].func = (uint32_t)(find_func(c, "turns") - c->funcs.data))
SPOIL(calls_beyond_batches, find_func(c, "turns")->calls[0].micro_batch = 4)
SPOIL(calls_without_batches, find_func(c, "turns")->batches = 0)
SPOIL(called_by_two_lists, c->schedule.data[0].func = find_func(c, "turns")->calls[0].func)

static const fault_case faults[] = {
    {axis_beyond, "stages over axis 2, of 2"},
    {count_of_another, "stage 1 of 2, over axis dp of 3"},
    {stage_beyond, "stage 3 of 3, over axis dp of 3"},
    {peer_beyond, "boundary 0: it connects stage 1 with stage 3, of 3"},
    {peer_itself, "boundary 0: it connects stage 1 with stage 1, of 3"},
    {no_slots, "boundary 0: 0 slots, at least 1"},
    {slots_beyond, "boundary 0: 65537 slots"},
    {boundary_twice, "boundary 1: it is not in order, or is the one before it"},
    {boundaries_turned, "boundary 1: it is not in order"},
    {message_of_no_boundary, "message 0: boundary 4, of 4"},
    {message_negative, "message 0: part 0 has -1 elements"},
    {message_of_nothing, "message 0: it has no parts"},
    {no_message, "message 4, of 4"},
    {message_too_large, "argument 0 touches 32 bytes at 0"},
    {message_askew, "inside an element"},
    {message_without_buffer, "0 arguments and 0 parameters, but it takes 1 and 0"},
    {wait_of_no_boundary, "boundary 4, of 4"},
    {wait_for_nothing, "it waits for boundary 0, where no message is in flight"},
    {one_slot_only, "boundary 2 has 1 slots, all in flight"},
    {never_waited_for, "no instruction waits for the message of layers[0] on boundary 2"},
    {started_twice, "where the message of layers[0] is in flight"},
    {read_in_flight, "where the message of layers[0] is in flight"},
    {state_over_stages, "a digit of the rank has two meanings"},
    {group_over_stages, "group 0 (dp): its digits are not of different axes"},
    {calls_of_a_list, "call 0: of function "},
    {calls_beyond_batches, "for micro-batch 4"},
    {calls_without_batches, "(turns): calls, but no micro-batches"},
    {called_by_two_lists, "call 0 (turns.F): another list calls it too"},
};

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        stages_case s;
        shardc_error error = {0};
        sc_program program;
        stages_begin(&s, 3, 2, 0, 3);
        faults[i].spoil(&s);
        sc_image *image = image_end(&s.stages[1]);
        const char *fault = sc_image_check(image, &s.stages[1].arena);
        if (fault == NULL || strstr(fault, faults[i].message) == NULL)
            fail_msg("'%s', not '%s'", fault == NULL ? "nothing" : fault, faults[i].message);
        sc_strbuf bytes = stages_bytes(&s);
        assert_false(
            sc_program_read(bytes.data, bytes.length, &s.stages[0].arena, &program, &error));
        assert_non_null(strstr(error.text, faults[i].message));
        stages_end(&s);
    }
}

static void boundaries_need_stages(void **state)
{
    (void)state;
    stages_case s;
    stages_begin(&s, 3, 2, 0, 3);
    boundaries_without_stages(&s);
    const char *fault = sc_image_check(image_end(&s.stages[1]), &s.stages[1].arena);
    assert_string_equal(fault, "boundaries between stages, but no stages");
    stages_end(&s);
}

/* ---- faults between stages ---- */

/* The stage does nothing in `turn`. */
static void drop_turn(image_case *c)
{
    find_func(c, "turn")->instr_count = 0;
}

SPOIL(other_mesh, s->stages[1].axes[1].name = "ep")
SPOIL(other_facts, c->image.facts = "{\"a\": 1}")
SPOIL(other_number, c->boundaries.data[0].number = 1)
SPOIL(other_count, c->messages.data[0].counts[0]--)
SPOIL(other_dtype, c->messages.data[1].dtypes[0] = SC_DTYPE_f64)
SPOIL(fewer_messages, drop_turn(c))
SPOIL(other_last_call, c->funcs.data[c->schedule.data[c->schedule.count - 1].func].name = "end")
SPOIL(other_state, s->stages[2].states.data[2].init = SC_INIT_ONES)
SPOIL(last_without, drop_turn(&s->stages[2]))
SPOIL(other_batches, find_func(c, "turns")->batches = 4)
SPOIL(fewer_calls, find_func(c, "turns")->call_count = 2)
SPOIL(results_lost, image_case *last = &s->stages[2];
      last->buffers.data[find_func(last, "turns")->outputs[0].buffer].copies = 2)
SPOIL(rows_of_no_dim, find_func(&s->stages[2], "turns")->outputs[0].batch_dim = -1)
SPOIL(input_of_nobody, find_func(&s->stages[0], "turns")->input_count = 0)

static const fault_case cross_faults[] = {
    {other_mesh, "stage 1 has another mesh than stage 0"},
    {other_facts, "stage 1 has other facts than stage 0"},
    {other_number, "stage 0 receives from stage 1 on boundary 0, which that stage does not have"},
    {other_count, "message 0 from stage 1 to stage 0 (boundary 0) has other parts at its ends"},
    {other_dtype, "message 0 from stage 1 to stage 2 (boundary 0) has other parts at its ends"},
    {fewer_messages, "it does not end: stage 0, in call 0 (turn), waits for message 0 to stage 1, "
                     "which ends without it"},
    {other_last_call, "the last call of stage 1 is of 'end', of earlier stages of 'update'"},
    {other_state, "state 'tied' of stage 2 differs from that of an earlier stage"},
    {last_without, "stage 1, in call 0 (turn), waits for message 0 to stage 2, which ends without"},
    {other_batches, "the number of micro-batches of function 'turns' of stage 1 differs"},
    {fewer_calls,
     "it does not end: stage 2, in call 2 (turns.F), waits for message 2 from stage 1, which ends"},
    {results_lost, "output 0 has 2 copies, for 3 micro-batches"},
    {rows_of_no_dim, "output 0 is joined as rows along dim -1"},
    {input_of_nobody, "input 'seeds' of 'turns.F' is not one of its own"},
};

static void stages_that_contradict_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cross_faults / sizeof *cross_faults; i++) {
        stages_case s;
        shardc_error error = {0};
        sc_program program;
        stages_begin(&s, 3, 2, 0, 3);
        cross_faults[i].spoil(&s);
        sc_strbuf bytes = stages_bytes(&s);
        if (sc_program_read(bytes.data, bytes.length, &s.stages[0].arena, &program, &error) ||
            strstr(error.text, cross_faults[i].message) == NULL)
            fail_msg("'%s', not '%s'", error.text, cross_faults[i].message);
        stages_end(&s);
    }
}

/* Two stages that each send first and wait for it: with buffers between them they would end. */
static void a_circle_is_found(void **state)
{
    (void)state;
    image_case c[2];
    sc_strbuf bytes;
    sc_program program;
    shardc_error error = {0};
    for (int order = 0; order < 2; order++) {
        const sc_image *images[2];
        for (uint32_t k = 0; k < 2; k++) {
            image_begin(&c[k], 2, 1);
            c[k].image.pipeline = (sc_image_pipeline){2, 0, k};
            uint32_t out = image_buffer(&c[k], SC_BUFFER_COMM, 8, "out"),
                     in = image_buffer(&c[k], SC_BUFFER_COMM, 8, "in");
            uint32_t to = image_boundary(&c[k], false, 1 - k, 0, 1),
                     from = image_boundary(&c[k], true, 1 - k, 0, 1);
            uint32_t sends = image_message(&c[k], to, SC_DTYPE_i64, 1),
                     receives = image_message(&c[k], from, SC_DTYPE_i64, 1);
            bool sends_first = order == 0 || k == 0;
            for (int i = 0; i < 2; i++) {
                bool is_send = (i == 0) == sends_first;
                image_instr(&c[k], SC_INSTR_MESSAGE, is_send ? sends : receives, 1,
                            (uint32_t[]){is_send ? out : in});
                image_instr(&c[k], SC_INSTR_WAIT, is_send ? to : from, 0, NULL);
            }
            image_call(&c[k], image_func(&c[k], "swap"), -1);
            images[k] = image_end(&c[k]);
        }
        sc_strbuf_init(&bytes, &c[0].arena);
        sc_program_write(images, 2, &bytes);
        bool is_read = sc_program_read(bytes.data, bytes.length, &c[0].arena, &program, &error);
        assert_true(is_read == (order == 1));
        if (!is_read)
            assert_string_equal(
                error.text,
                "not a valid program: it does not end: stage 0, in call 0 (swap), waits for "
                "message "
                "0 to stage 1; stage 1, in call 0 (swap), waits for message 0 to stage 0");
        sc_arena_free(&c[1].arena);
        sc_arena_free(&c[0].arena);
    }
}

/* The images of fewer or more stages, or in another order. */
static void images_come_once_and_in_order(void **state)
{
    (void)state;
    static const struct {
        uint32_t count, order[4];
        const char *text;
    } cases[] = {{2, {0, 1}, "it has the images of 2 of 3 stages"},
                 {3, {1, 0, 2}, "image 0 of 3 is of stage 1 of 3"},
                 {4, {0, 1, 2, 2}, "it is truncated, or something was appended"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stages_case s;
        const sc_image *images[4];
        sc_strbuf bytes;
        sc_program program;
        shardc_error error = {0};
        stages_begin(&s, 3, 1, 0, 2);
        for (uint32_t k = 0; k < cases[i].count; k++)
            images[k] = image_end(&s.stages[cases[i].order[k]]);
        sc_strbuf_init(&bytes, &s.stages[0].arena);
        sc_program_write(images, cases[i].count, &bytes);
        assert_false(
            sc_program_read(bytes.data, bytes.length, &s.stages[0].arena, &program, &error));
        if (strstr(error.text, cases[i].text) == NULL)
            fail_msg("'%s', not '%s'", error.text, cases[i].text);
        stages_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_written_reads_back),
                                       cmocka_unit_test(stages_merge),
                                       cmocka_unit_test(the_order_of_calls_is_hashed),
                                       cmocka_unit_test(peers_have_equal_other_coordinates),
                                       cmocka_unit_test(every_part_is_refused),
                                       cmocka_unit_test(what_is_wrong_is_said),
                                       cmocka_unit_test(boundaries_need_stages),
                                       cmocka_unit_test(stages_that_contradict_are_refused),
                                       cmocka_unit_test(a_circle_is_found),
                                       cmocka_unit_test(images_come_once_and_in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
