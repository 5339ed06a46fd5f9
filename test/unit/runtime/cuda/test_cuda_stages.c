/* Programs of several stages on GPUs (stubs): the ranks of a process on one GPU, and with a GPU
 * each and NCCL between them, give what CPUs give, in any order that streams leave open; messages
 * that are late, several in flight from one instruction, a stage that does not come, and calls that
 * fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "runtime/cuda/device.h"
#include "runtime/session/device.h"
#include "test/unit/helpers/cuda_stages_case.h"
#include "test/unit/helpers/stages_steps.h"

enum { SEEDS = 4, RUNS = 4 };

static cuda_stub stub;

/* Nothing is left, nothing was written where nobody should. */
static void expect_clean(void)
{
    char text[1024];
    if (!stub.sc_stub_check(text, sizeof text))
        fail_msg("%s", text);
    if (stub.sc_stub_live(text, sizeof text) != 0)
        fail_msg("left: %s", text);
}

static shardc_session *session_of(const shardc_executable *program,
                                  const shardc_session_options *options)
{
    shardc_session *session = NULL;
    SUCCEED(shardc_session_new(program, options, &session, &error));
    SUCCEED(shardc_session_initialise(session, &error));
    return session;
}

/* Shapes on one GPU (even numbers), and with a GPU for each rank. */
static shardc_executable *program_of(int number, stages_case *s)
{
    const shape *of = &shapes[number / 2];
    have_gpus(number % 2 == 0 ? 1 : (uint32_t)(of->count * of->others));
    return cuda_stages_program(s, of->count, of->others, of->axis, of->batches);
}

static void end(shardc_session *session, shardc_executable *program, stages_case *s)
{
    shardc_session_free(session);
    shardc_executable_free(program);
    stages_end(s);
    expect_clean();
}

static void stages_give_what_cpus_give(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SHAPES; i++) {
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            stages_case s;
            stub.sc_stub_seed(seed);
            shardc_executable *program = program_of(i, &s);
            shardc_session *session =
                session_of(program, &(shardc_session_options){.deadline_ms = 60000});
            for (uint64_t step = 0; step < RUNS; step++)
                check_step(session, &s, step);
            check_weights(session, &s, RUNS + 1);
            end(session, program, &s);
        }
    }
}

/* Whoever's check fails: what is in flight is waited for, nothing is updated, and the next step is
 * right. */
static void a_failed_check_leaves_the_state(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SHAPES; i++) {
        stages_case s;
        stub.sc_stub_seed((uint64_t)i);
        shardc_executable *program = program_of(i, &s);
        shardc_session *session =
            session_of(program, &(shardc_session_options){.deadline_ms = 60000});
        check_failed_step(session, &s);
        end(session, program, &s);
    }
}

/* ---- groups of a stage ---- */

/* A function of this stage alone: the sum of v over its ranks. */
static void add_sum(stages_case *s, uint32_t stage)
{
    image_case *c = &s->stages[stage];
    char tensor[64];
    const char *other = c->axes[1 - s->axis].name;
    snprintf(tensor, sizeof tensor, "i64[B=%d@%s]", (int)(STAGES_LENGTH * s->others), other);
    uint32_t sum = image_collective(c, SC_IMAGE_ALL_REDUCE, SC_IMAGE_SUM,
                                    image_group(c, other, NULL), SC_DTYPE_i64, STAGES_LENGTH);
    uint32_t v = image_input(c, "v", tensor, -1);
    image_move(c, sum, v, v);
    image_output(c, "sum", tensor, v);
    image_func(c, "sum");
}

/* Stages with groups and without, which open their communicators together. A function without
 * messages is a graph after its first calls, also while other functions have messages. */
static void stages_have_groups_of_their_own(void **state)
{
    (void)state;
    uint64_t replays = stub.sc_stub_replays();
    for (int i = 0; i < 2 * SHAPES; i++) {
        const shape *of = &shapes[i / 2];
        stages_case s;
        int64_t v[STAGES_MOST_VALUES], sum[STAGES_MOST_VALUES];
        size_t length = (size_t)(STAGES_LENGTH * of->others), bytes = length * sizeof *v;
        stub.sc_stub_seed((uint64_t)i);
        have_gpus(i % 2 == 0 ? 1 : (uint32_t)(of->count * of->others));
        stages_images(&s, of->count, of->others, of->axis, of->batches);
        add_sum(&s, 1);
        shardc_executable *program = cuda_stages_read(&s);
        shardc_session *session =
            session_of(program, &(shardc_session_options){.deadline_ms = 60000});
        for (size_t k = 0; k < length; k++)
            v[k] = (int64_t)(k * k);
        for (uint64_t step = 0; step < RUNS; step++) {
            check_step(session, &s, step);
            SUCCEED(shardc_session_run(session, shardc_executable_find_func(program, "sum"),
                                       &(shardc_feed_value){"v", v, bytes, NULL}, 1,
                                       &(shardc_fetch_value){0, sum, bytes, NULL}, 1, &error));
            for (size_t k = 0; k < length; k++) {
                int64_t expected = 0;
                for (size_t r = 0; r < of->others; r++)
                    expected += v[k % STAGES_LENGTH + r * STAGES_LENGTH];
                assert_int_equal(sum[k], expected);
            }
        }
        end(session, program, &s);
    }
    assert_true(stub.sc_stub_replays() > replays);
}

/* ---- both ends send first ---- */

/* Both of two stages start to send v and their number before they start to receive the other's. */
static void add_cross(stages_case *s, uint32_t stage)
{
    enum { SEND, RECEIVE }; /* messages and boundaries of either stage */
    image_case *c = &s->stages[stage];
    int64_t bytes = STAGES_LENGTH * 8;
    uint32_t v = image_input(c, "v", "i64[B=3@dp]", -1),
             mine = image_buffer(c, SC_BUFFER_ACT, bytes, "mine"),
             theirs = image_buffer(c, SC_BUFFER_COMM, bytes, "theirs");
    uint32_t kernel = image_kernel(c, "k_add", "io", (int64_t[]){bytes, bytes}, 1, NULL);
    image_instr(c, SC_INSTR_KERNEL, kernel, 2, (uint32_t[]){v, mine});
    image_param(c, stages_number(c));
    for (uint32_t m = SEND; m <= RECEIVE; m++) {
        uint32_t at = image_instr(c, SC_INSTR_MESSAGE, m, 1, m == SEND ? &mine : &theirs);
        c->instrs.data[at].stream = 1;
    }
    image_instr(c, SC_INSTR_WAIT, SEND, 0, NULL);
    image_instr(c, SC_INSTR_WAIT, RECEIVE, 0, NULL);
    image_output(c, "theirs", "i64[B=3@dp]", theirs);
    image_func(c, "cross");
}

/* A start does not wait for the other end, the first one included. */
static void both_may_send_first(void **state)
{
    (void)state;
    static const int64_t v[STAGES_LENGTH] = {4, 9, 16};
    for (uint32_t gpus = 1; gpus <= 2; gpus++) {
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            stages_case s;
            int64_t got[STAGES_LENGTH];
            have_gpus(gpus);
            stub.sc_stub_seed(seed);
            stages_images(&s, 2, 1, 1, 2);
            add_cross(&s, 0);
            add_cross(&s, 1);
            shardc_executable *program = cuda_stages_read(&s);
            shardc_session *session =
                session_of(program, &(shardc_session_options){.deadline_ms = 10000});
            for (int run = 0; run < RUNS; run++) {
                SUCCEED(shardc_session_run(session, shardc_executable_find_func(program, "cross"),
                                           &(shardc_feed_value){"v", v, sizeof v, NULL}, 1,
                                           &(shardc_fetch_value){0, got, sizeof got, NULL}, 1,
                                           &error));
                for (int i = 0; i < STAGES_LENGTH; i++)
                    assert_int_equal(got[i], v[i] + 1); /* stage 0 is asked */
            }
            end(session, program, &s);
        }
    }
}

/* ---- late messages ---- */

/* What the ranks' calls are reported to. */
typedef struct lateness {
    uint32_t rank, us; /* this rank is so late after each instruction that is reported */
    _Atomic uint32_t waits;
} lateness;

static void be_late(void *user, const shardc_trace_event *event)
{
    lateness *late = user;
    late->waits += event->work == SHARDC_WORK_WAIT;
    if (event->rank == late->rank)
        nanosleep(&(struct timespec){late->us / 1000000, late->us % 1000000 * 1000L}, NULL);
}

/* Any rank may be the last to come; and waits for messages are measured. */
static void messages_may_be_late(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SHAPES; i++) {
        stages_case s;
        shardc_executable *program = program_of(i, &s);
        shardc_session *session =
            session_of(program, &(shardc_session_options){.deadline_ms = 60000});
        uint32_t ranks = (uint32_t)shardc_executable_ranks(program);
        for (uint32_t r = 0; r < ranks; r++) {
            lateness late = {.rank = r, .us = 1000};
            stub.sc_stub_seed(r + (uint64_t)i);
            shardc_session_set_trace(session, be_late, &late);
            check_step(session, &s, r);
            /* both directions of each micro-batch at both ends, turn(), and of turns() what is
             * received and, where the boundary has no room, sent */
            uint32_t turns = s.batches + (s.batches > STAGES_SLOTS ? s.batches - STAGES_SLOTS : 0);
            assert_int_equal(late.waits,
                             s.others * (s.count - 1) * (2 * 2 * s.batches + 2 + turns));
        }
        end(session, program, &s);
    }
}

/* ---- a stage that does not come ---- */

static void a_stage_that_is_late_is_named(void **state)
{
    (void)state;
    for (uint32_t gpus = 1; gpus <= 2; gpus++) {
        stages_case s;
        shardc_error why = {.status = SHARDC_OK};
        int64_t x[3 * STAGES_LENGTH] = {0}, zeros[STAGES_LENGTH] = {0};
        have_gpus(gpus);
        stub.sc_stub_seed(gpus);
        shardc_executable *program = cuda_stages_program(&s, 2, 1, 0, 3);
        shardc_session *session =
            session_of(program, &(shardc_session_options){.deadline_ms = 60000});
        check_step(session, &s, 0);
        session->options.deadline_ms = 300;
        for (uint32_t r = 0; r < 2; r++)
            sc_comm_set_deadline(session->ranks[r].comm, 300);
        lateness late = {.rank = 1, .us = 1500000};
        shardc_session_set_trace(session, be_late, &late);
        shardc_feed_value feed = {"x", x, sizeof x, NULL};
        assert_int_equal(shardc_session_step(session, &feed, 1, NULL, 0, &why),
                         SHARDC_ERROR_TIMEOUT);
        if (strstr(why.text, "rank 0 waits for recv of i64[3]") == NULL ||
            strstr(why.text, " of the boundary from stage 1 to stage 0: ") == NULL)
            fail_msg("%s", why.text);
        shardc_session_set_trace(session, NULL, NULL);
        session->options.deadline_ms = 60000;
        for (uint32_t k = 0; k < 2; k++) {
            int64_t w = 2;
            SUCCEED(shardc_session_set_state(
                session, shardc_executable_find_state(program, k == 0 ? "acc0" : "acc1"), zeros,
                sizeof zeros, NULL, &error));
            SUCCEED(shardc_session_set_state(
                session, shardc_executable_find_state(program, k == 0 ? "w0" : "w1"), &w, sizeof w,
                NULL, &error));
        }
        check_step(session, &s, 1); /* the session goes on */
        end(session, program, &s);
    }
}

/* ---- an instruction that is in flight several times ---- */

enum { FLIGHTS = 2 * STAGES_SLOTS };

/* The MESSAGE of turn(), bound to another slot each time. */
static sc_bound bind_flight(sc_rank *rank, uint32_t flight, sc_comm_part *part, uint32_t *out_slot)
{
    uint32_t func = 0, at = 0;
    while (strcmp(rank->image->funcs[func].name, "turn") != 0)
        func++;
    while (rank->image->funcs[func].instrs[at].kind != SC_INSTR_MESSAGE)
        at++;
    sc_bound bound = rank->funcs[func][at];
    /* the slots of a link follow each other */
    *out_slot = bound.instr->args[0].buffer + flight % STAGES_SLOTS;
    void *address = sc_rank_buffer(rank, *out_slot);
    *part = bound.parts[0];
    if (part->source != NULL)
        part->source = address;
    else
        part->destination = address;
    bound.parts = part;
    bound.call.parts = part;
    return bound;
}

typedef struct flights {
    bool between_calls;
    int64_t got[FLIGHTS][STAGES_LENGTH];
} flights;

/* A call per flight: starts a message, and waits for one of two calls before; or waits between
 * calls. What the sender sends is written before its start, what arrived is read after its wait. */
static shardc_status fly(sc_rank *rank, void *user, shardc_error *error)
{
    const sc_device *device = rank->session->device;
    flights *all = user;
    bool is_sender = rank->rank == 0, is_done = false;
    sc_bound bounds[FLIGHTS];
    sc_comm_part parts[FLIGHTS];
    uint32_t slots[FLIGHTS];
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < FLIGHTS; i++)
        bounds[i] = bind_flight(rank, i, &parts[i], &slots[i]);
    for (uint32_t i = 0; i < FLIGHTS + STAGES_SLOTS; i++) {
        const int64_t values[STAGES_LENGTH] = {i, 10 * i, 100 * i};
        if (status == SHARDC_OK && !all->between_calls)
            status = device->begin(rank, 0, 0, &is_done, error);
        if (status == SHARDC_OK && i >= STAGES_SLOTS)
            status = device->finish(rank, &bounds[i - STAGES_SLOTS], error);
        if (status == SHARDC_OK && !all->between_calls)
            status = device->end(rank, 0, false, error);
        if (status == SHARDC_OK && !is_sender && i >= STAGES_SLOTS)
            status = device->read(rank, slots[i - STAGES_SLOTS], 0, all->got[i - STAGES_SLOTS],
                                  sizeof values, error);
        if (status == SHARDC_OK && is_sender && i < FLIGHTS)
            status = device->write(rank, slots[i], values, sizeof values, error);
        if (status == SHARDC_OK && i < FLIGHTS)
            status = device->start(rank, &bounds[i], error);
    }
    return status;
}

static void an_instruction_flies_several_times(void **state)
{
    (void)state;
    for (uint32_t gpus = 1; gpus <= 2; gpus++) {
        for (uint64_t seed = 0; seed < 4 * SEEDS; seed++) {
            stages_case s;
            flights all = {.between_calls = seed % 4 >= 2};
            have_gpus(gpus);
            stub.sc_stub_seed(seed);
            shardc_executable *program = cuda_stages_program(&s, 2, 1, 0, 3);
            shardc_session *session =
                session_of(program, &(shardc_session_options){.deadline_ms = 60000});
            sc_session_each_rank(session, fly, &all);
            SUCCEED(sc_session_outcome(session, &error));
            for (uint32_t i = 0; i < FLIGHTS; i++) {
                for (int k = 0, times = 1; k < STAGES_LENGTH; k++, times *= 10)
                    assert_int_equal(all.got[i][k], times * (int)i);
            }
            check_step(session, &s, 0);
            end(session, program, &s);
        }
    }
}

/* ---- calls that fail ---- */

static shardc_status live(const shardc_executable *program, bool *out_early, shardc_error *error)
{
    shardc_session *session = NULL;
    int64_t x[3 * STAGES_LENGTH] = {0};
    shardc_feed_value feed = {"x", x, sizeof x, NULL};
    shardc_status status = shardc_session_new(
        program, &(shardc_session_options){.threads = 1, .deadline_ms = 20000}, &session, error);
    for (int run = 0; status == SHARDC_OK && run < 3; run++)
        status = shardc_session_step(session, &feed, 1, NULL, 0, error);
    *out_early = stub.sc_stub_failed() != NULL;
    shardc_session_free(session);
    return status;
}

/* The error has the name of the call, and nothing is left. */
static void every_call_may_fail(void **state)
{
    (void)state;
    enum { STRIDE = 11 };
    for (uint32_t gpus = 1; gpus <= 2; gpus++) {
        stages_case s;
        uint64_t n = gpus, noticed = 0;
        have_gpus(gpus);
        shardc_executable *program = cuda_stages_program(&s, 2, 1, 0, 3);
        for (bool has_failed = true; has_failed; n += STRIDE) {
            char left[256];
            bool is_early;
            shardc_error error = {.status = SHARDC_OK};
            stub.sc_stub_seed(n);
            stub.sc_stub_fail(NULL, n, 999);
            shardc_status status = live(program, &is_early, &error);
            const char *failed = stub.sc_stub_failed();
            has_failed = failed != NULL;
            if (!has_failed)
                break;
            bool ends = is_cleanup(failed) || !is_early;
            noticed += status != SHARDC_OK;
            if (status == SHARDC_OK ? !ends : strstr(error.text, failed) == NULL)
                fail_msg("call %llu, of %s, failed; the error is: %s", (unsigned long long)n,
                         failed, error.text);
            if (stub.sc_stub_live(left, sizeof left) != 0 && !ends)
                fail_msg("call %llu, of %s, failed; left: %s", (unsigned long long)n, failed, left);
            stub.sc_stub_reset();
        }
        assert_true(noticed > n / STRIDE / 2);
        stub.sc_stub_fail(NULL, 0, 0);
        shardc_executable_free(program);
        stages_end(&s);
        expect_clean();
    }
}

int main(void)
{
    stub = cuda_stub_open();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_give_what_cpus_give),
        cmocka_unit_test(a_failed_check_leaves_the_state),
        cmocka_unit_test(stages_have_groups_of_their_own),
        cmocka_unit_test(both_may_send_first),
        cmocka_unit_test(messages_may_be_late),
        cmocka_unit_test(a_stage_that_is_late_is_named),
        cmocka_unit_test(an_instruction_flies_several_times),
        cmocka_unit_test(every_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
