/* Programs of several stages: hand-made steps of two to four stages, on threads, on one rank a
 * session, and (`mpi`, or `tcp 3`) on processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "runtime/open_session.h"
#include "test/unit/helpers/openmp_leaks.h"
#include "test/unit/helpers/processes.h"
#include "test/unit/helpers/stages_steps.h"

/* A parameter of two stages is set on both; of the others nobody has it. */
static void check_tied(shardc_session *session, const stages_case *s)
{
    int64_t value[STAGES_MOST_VALUES], given[STAGES_MOST_VALUES];
    size_t length = (size_t)(STAGES_LENGTH * s->others), bytes = length * sizeof *value;
    uint32_t tied = shardc_executable_find_state(session->program, "tied"), first;
    uint32_t check = shardc_executable_find_func(session->program, "check");
    for (uint32_t i = 0; i < length; i++)
        value[i] = 5 * (int64_t)i + 1;
    SUCCEED(shardc_session_set_state(session, tied, value, bytes, NULL, &error));
    memset(given, 0, sizeof given);
    SUCCEED(shardc_session_get_state(session, tied, given, bytes, NULL, &error));
    assert_memory_equal(given, value, bytes);
    memset(given, 0, sizeof given);
    SUCCEED(shardc_session_run(session, check, NULL, 0,
                               &(shardc_fetch_value){0, given, bytes, NULL}, 1, &error));
    assert_memory_equal(given, value, bytes);
    uint32_t ranks = shardc_session_local_ranks(session, &first);
    for (uint32_t r = first; r < first + ranks; r++) {
        uint32_t stage = (uint32_t)(s->axis == 0 ? r / s->others : r % s->count);
        const int64_t *own = shardc_session_local_state(session, tied, r);
        assert_true((own != NULL) == (stage == 0 || stage + 1 == s->count));
        if (own != NULL)
            assert_true(own[0] % 5 == 1 && own[1] == own[0] + 5);
    }
}

static void check_session(shardc_session *session, const stages_case *s)
{
    SUCCEED(shardc_session_initialise(session, &error));
    for (uint64_t step = 0; step < STEPS; step++)
        check_step(session, s, step);
    check_weights(session, s, STEPS + 1);
    check_tied(session, s);
}

static void stages_pass_values_around(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        stages_case s;
        shardc_session *session;
        shardc_executable *program = stages_program(&s, shapes[i].count, shapes[i].others,
                                                    shapes[i].axis, shapes[i].batches);
        assert_int_equal(shardc_executable_ranks(program), shapes[i].count * shapes[i].others);
        assert_int_equal(shardc_executable_micro_batches(program), shapes[i].batches);
        SUCCEED(shardc_session_new(program, &(shardc_session_options){.deadline_ms = 60000},
                                   &session, &error));
        check_session(session, &s);
        shardc_session_free(session);
        shardc_executable_free(program);
        stages_end(&s);
    }
}

typedef struct lone_rank {
    const shardc_executable *program;
    const stages_case *s;
    sc_comm *comm;
} lone_rank;

static void *lone_rank_main(void *user)
{
    lone_rank *self = user;
    shardc_session *session = NULL;
    shardc_session_options options = {.threads = 1};
    SUCCEED(sc_session_new_with_comm(self->program, &options, self->comm, &session, &error));
    check_session(session, self->s);
    shardc_session_free(session);
    sc_comm_close(self->comm);
    return NULL;
}

static void each_rank_runs_its_stage(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        stages_case s;
        sc_comm *comms[8];
        lone_rank ranks[8];
        pthread_t threads[8];
        shardc_executable *program = stages_program(&s, shapes[i].count, shapes[i].others,
                                                    shapes[i].axis, shapes[i].batches);
        uint32_t size = (uint32_t)shardc_executable_ranks(program);
        SUCCEED(sc_comm_open_local(size, &(sc_comm_options){.deadline_ms = 60000}, comms, &error));
        for (uint32_t r = 0; r < size; r++) {
            ranks[r] = (lone_rank){program, &s, comms[r]};
            assert_int_equal(pthread_create(&threads[r], NULL, lone_rank_main, &ranks[r]), 0);
        }
        for (uint32_t r = 0; r < size; r++)
            pthread_join(threads[r], NULL);
        shardc_executable_free(program);
        stages_end(&s);
    }
}

/* Whoever's check fails: nothing is updated, and the next step is right. */
static void a_failed_check_leaves_the_state(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        stages_case s;
        shardc_session *session;
        shardc_executable *program = stages_program(&s, shapes[i].count, shapes[i].others,
                                                    shapes[i].axis, shapes[i].batches);
        SUCCEED(shardc_session_new(program, &(shardc_session_options){.deadline_ms = 60000},
                                   &session, &error));
        SUCCEED(shardc_session_initialise(session, &error));
        check_failed_step(session, &s);
        shardc_session_free(session);
        shardc_executable_free(program);
        stages_end(&s);
    }
}

/* Half of an exchange does not run alone. */
static void a_part_of_a_step_runs_in_the_step(void **state)
{
    (void)state;
    stages_case s;
    shardc_session *session;
    shardc_error why = {.status = SHARDC_OK};
    shardc_executable *program = stages_program(&s, 2, 1, 0, 3);
    SUCCEED(shardc_session_new(program, NULL, &session, &error));
    assert_int_equal(shardc_session_run(session, shardc_executable_find_func(program, "B0"), NULL,
                                        0, NULL, 0, &why),
                     SHARDC_ERROR_ARGUMENT);
    assert_string_equal(why.text, "function 'B0' exchanges messages with other calls of a step or "
                                  "an entry: it runs only as part of one");
    assert_int_equal(shardc_session_run(session, shardc_executable_find_func(program, "turns.F"),
                                        NULL, 0, NULL, 0, &why),
                     SHARDC_ERROR_ARGUMENT);
    assert_non_null(strstr(why.text, "function 'turns.F' exchanges messages"));
    /* 3 micro-batches of 3 elements */
    int64_t seeds[9] = {0}, rows[9];
    assert_int_equal(shardc_session_run(session, shardc_executable_find_func(program, "turns"),
                                        &(shardc_feed_value){"seeds", seeds, 24, NULL}, 1,
                                        &(shardc_fetch_value){0, rows, sizeof rows, NULL}, 1, &why),
                     SHARDC_ERROR_ARGUMENT);
    assert_string_equal(why.text, "input 'seeds' is i64[B = 9]: 72 bytes as i64, not 24");
    assert_int_equal(shardc_session_run(session, shardc_executable_find_func(program, "turns"),
                                        &(shardc_feed_value){"seeds", seeds, sizeof seeds, NULL}, 1,
                                        &(shardc_fetch_value){0, rows, 24, NULL}, 1, &why),
                     SHARDC_ERROR_ARGUMENT);
    assert_string_equal(why.text, "output 'rows' is i64[B = 9]: 72 bytes as i64, not 24");
    shardc_session_free(session);
    shardc_executable_free(program);
    stages_end(&s);
}

/* ---- host memory ---- */

enum { FAR_STAGES = 2 };

/* Adds a state in host memory, `far`, and fetch(), which gives a copy of it. Later stages have
 * larger host arenas, and `far` at their ends. */
static void add_far(stages_case *s, uint32_t stage)
{
    image_case *c = &s->stages[stage];
    int64_t bytes = STAGES_LENGTH * 8;
    char tensor[64];
    snprintf(tensor, sizeof tensor, "i64[B=%d@%s]", (int)(STAGES_LENGTH * s->others),
             c->axes[1 - s->axis].name);
    uint32_t far = image_state(c, SC_STATE_OPT, "far", tensor, SC_INIT_ONES, 0, 0),
             near = image_buffer(c, SC_BUFFER_ACT, bytes, "near");
    c->buffers.data[far].host = true;
    c->buffers.data[far].offset = (int64_t)stage * SC_IMAGE_ALIGN;
    c->image.host_bytes = c->buffers.data[far].offset + bytes;
    uint32_t at = image_instr(c, SC_INSTR_TRANSFER, 0, 2, (uint32_t[]){far, near});
    c->instrs.data[at].stream = 2;
    image_instr(c, SC_INSTR_FINISH, at, 0, NULL);
    image_output(c, "near", tensor, near);
    image_func(c, "fetch");
}

static void check_far(shardc_session *session, const stages_case *s, bool is_file)
{
    int64_t value[STAGES_MOST_VALUES], given[STAGES_MOST_VALUES];
    size_t length = (size_t)(STAGES_LENGTH * s->others), bytes = length * sizeof *value;
    uint32_t far = shardc_executable_find_state(session->program, "far"), first;
    uint32_t fetch = shardc_executable_find_func(session->program, "fetch");
    for (uint32_t i = 0; i < length; i++)
        value[i] = 7 * (int64_t)i + 2;
    SUCCEED(shardc_session_get_state(session, far, given, bytes, NULL, &error));
    assert_int_equal(given[length - 1], 1);
    SUCCEED(shardc_session_set_state(session, far, value, bytes, NULL, &error));
    SUCCEED(shardc_session_get_state(session, far, given, bytes, NULL, &error));
    assert_memory_equal(given, value, bytes);
    memset(given, 0, sizeof given);
    SUCCEED(shardc_session_run(session, fetch, NULL, 0,
                               &(shardc_fetch_value){0, given, bytes, NULL}, 1, &error));
    assert_memory_equal(given, value, bytes);
    uint32_t ranks = shardc_session_local_ranks(session, &first);
    for (uint32_t r = first; r < first + ranks; r++) {
        bool has = sc_image_stage_of(session->image, r) >= s->count - FAR_STAGES;
        const int64_t *own = shardc_session_local_state(session, far, r);
        assert_true((own != NULL) == (has && !is_file));
    }
}

/* In memory or in a file; some stages have none. */
static void stages_keep_state_in_host_memory(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES * 2; i++) {
        const shape *of = &shapes[i / 2];
        stages_case s;
        shardc_session *session;
        shardc_executable *program;
        shardc_session_options options = {.deadline_ms = 60000,
                                          .host_memory = i % 2 == 0 ? NULL : "."};
        if (of->count <= FAR_STAGES)
            continue;
        stages_begin(&s, of->count, of->others, of->axis, of->batches);
        for (uint32_t k = s.count - FAR_STAGES; k < s.count; k++)
            add_far(&s, k);
        sc_strbuf bytes = stages_bytes(&s);
        SUCCEED(shardc_executable_read(bytes.data, bytes.length, &program, &error));
        assert_int_equal(program->image->host_bytes,
                         (int64_t)(s.count - 1) * SC_IMAGE_ALIGN + STAGES_LENGTH * 8);
        SUCCEED(shardc_session_new(program, &options, &session, &error));
        check_session(session, &s);
        check_far(session, &s, i % 2 != 0);
        shardc_session_free(session);
        shardc_executable_free(program);
        stages_end(&s);
    }
}

/* ---- processes ---- */

static sc_comm *process_world; /* keeps MPI running until the end */

static void processes_pass_values_around(void **state)
{
    (void)state;
    uint32_t size = sc_comm_size(process_world);
    bool is_tcp = strcmp(sc_comm_backend_name(process_world), "tcp") == 0;
    shardc_session_options options = {
        .world = is_tcp ? SHARDC_WORLD_TCP : SHARDC_WORLD_MPI, .threads = 1, .deadline_ms = 60000};
    for (uint32_t batches = 1; batches <= 5; batches += 2) {
        for (uint32_t axis = 0; axis < 2; axis++) {
            stages_case s;
            shardc_session *session = NULL;
            bool is_square = size == 4 && batches == 3; /* two stages of two ranks */
            shardc_executable *program =
                stages_program(&s, is_square ? 2 : size, is_square ? 2 : 1, axis, batches);
            SUCCEED(shardc_session_new(program, &options, &session, &error));
            check_session(session, &s);
            shardc_session_free(session);
            shardc_executable_free(program);
            stages_end(&s);
        }
    }
}

static int run_in_process(bool is_mpi)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(processes_pass_values_around)};
    shardc_error error = {.status = SHARDC_OK};
    shardc_status status = is_mpi ? sc_comm_open_mpi(NULL, &process_world, &error)
                                  : sc_comm_open_tcp(NULL, NULL, &process_world, &error);
    if (status != SHARDC_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sc_comm_close(process_world);
    return failed;
}

int main(int argc, char **argv)
{
    bool is_mpi = argc == 2 && strcmp(argv[1], "mpi") == 0,
         is_tcp = argc == 3 && strcmp(argv[1], "tcp") == 0;
    if (is_tcp && getenv("RANK") == NULL)
        return run_program(argv, (uint32_t)strtoul(argv[2], NULL, 10));
    if (is_mpi || is_tcp)
        return run_in_process(is_mpi);
    const struct CMUnitTest tests[] = {cmocka_unit_test(stages_pass_values_around),
                                       cmocka_unit_test(each_rank_runs_its_stage),
                                       cmocka_unit_test(a_failed_check_leaves_the_state),
                                       cmocka_unit_test(a_part_of_a_step_runs_in_the_step),
                                       cmocka_unit_test(stages_keep_state_in_host_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
