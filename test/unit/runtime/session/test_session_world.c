/* Sessions that are one rank of a world: of threads, of MPI processes, of processes over TCP. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "runtime/open_session.h"
#include "test/unit/helpers/openmp_leaks.h"
#include "test/unit/helpers/processes.h"
#include "test/unit/helpers/step_case.h"

static const uint64_t meshes[][2] = {{2, 1}, {1, 2}, {3, 1}, {1, 4}, {2, 2}, {4, 1}};
enum { MESHES = sizeof meshes / sizeof *meshes };

typedef struct lone_rank {
    const shardc_executable *program;
    sc_comm *comm;
    const step_data *data;
    float total;
    double w;
    char text[512]; /* of the error where an id is wrong on all */
    shardc_status status;
    bool ok;
} lone_rank;

static bool run_lone_rank(lone_rank *self, shardc_session *session)
{
    step_data d = *self->data;
    shardc_error error = {.status = SHARDC_OK};
    double w[STEP_D * STEP_H];
    shardc_feed_value feeds[] = {{"ids", d.ids, sizeof d.ids, NULL}, {"x", d.x, sizeof d.x, NULL}};
    if (shardc_session_set_state(session, 0, d.w, sizeof d.w, NULL, &error) != SHARDC_OK ||
        shardc_session_set_state(session, 1, d.bias, sizeof d.bias, NULL, &error) != SHARDC_OK)
        return false;
    d.ids[0] = 100;
    self->status = shardc_session_step(session, feeds, 2, NULL, 0, &error);
    memcpy(self->text, error.text, sizeof error.text);
    d.ids[0] = self->data->ids[0];
    if (shardc_session_set_state(session, 2, &(float){0}, sizeof(float), NULL, &error) !=
            SHARDC_OK ||
        shardc_session_step(session, feeds, 2,
                            (shardc_fetch_value[]){{0, &self->total, sizeof self->total, NULL}}, 1,
                            &error) != SHARDC_OK ||
        shardc_session_get_state(session, 3, w, sizeof w, NULL, &error) != SHARDC_OK)
        return false;
    self->w = w[STEP_D * STEP_H - 1];
    return true;
}

static void *lone_rank_main(void *user)
{
    lone_rank *self = user;
    shardc_session *session = NULL;
    shardc_error error = {.status = SHARDC_OK};
    shardc_session_options options = {.threads = 1};
    if (sc_session_new_with_comm(self->program, &options, self->comm, &session, &error) ==
        SHARDC_OK)
        self->ok = run_lone_rank(self, session);
    shardc_session_free(session);
    sc_comm_close(self->comm);
    return NULL;
}

/* A session that is one rank of a world, as in an MPI job; here the others are threads. */
static void one_rank_of_a_world(void **state)
{
    (void)state;
    step_data d = make_data();
    for (int m = 0; m < MESHES; m++) {
        image_case c;
        shardc_executable *program = step_program(&c, meshes[m][0], meshes[m][1]);
        uint32_t ranks = (uint32_t)shardc_executable_ranks(program);
        sc_comm *comms[4];
        lone_rank lone[4];
        pthread_t threads[4];
        SUCCEED(sc_comm_open_local(ranks, &(sc_comm_options){.deadline_ms = 20000}, comms, &error));
        for (uint32_t r = 0; r < ranks; r++) {
            lone[r] = (lone_rank){.program = program, .comm = comms[r], .data = &d};
            pthread_create(&threads[r], NULL, lone_rank_main, &lone[r]);
        }
        for (uint32_t r = 0; r < ranks; r++)
            pthread_join(threads[r], NULL);
        for (uint32_t r = 0; r < ranks; r++) {
            bool has_row = r < meshes[m][1]; /* of those with dp = 0, each sees the wrong id */
            assert_true(lone[r].ok);
            assert_int_equal(lone[r].status, has_row ? SHARDC_ERROR_DATA : SHARDC_ERROR_COMM);
            assert_non_null(
                strstr(lone[r].text, has_row ? "is 100 or more" : "its message says why"));
            assert_true(lone[r].total == d.total && lone[r].w == (double)d.w[STEP_D * STEP_H - 1]);
        }
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
}

typedef struct other_program {
    const shardc_executable *program;
    sc_comm *comm;
    shardc_status status;
    char text[512];
} other_program;

static void *other_program_main(void *user)
{
    other_program *self = user;
    shardc_session *session = NULL;
    shardc_error error = {.status = SHARDC_OK};
    self->status = sc_session_new_with_comm(self->program, NULL, self->comm, &session, &error);
    memcpy(self->text, error.text, sizeof error.text);
    shardc_session_free(session);
    sc_comm_close(self->comm);
    return NULL;
}

static void expect_refused(image_case c[3], const shardc_executable *const programs[3],
                           const char *text)
{
    sc_comm *comms[3];
    other_program ranks[3];
    pthread_t threads[3];
    SUCCEED(sc_comm_open_local(3, &(sc_comm_options){.deadline_ms = 20000}, comms, &error));
    for (uint32_t r = 0; r < 3; r++) {
        ranks[r] = (other_program){.program = programs[r], .comm = comms[r]};
        pthread_create(&threads[r], NULL, other_program_main, &ranks[r]);
    }
    for (uint32_t r = 0; r < 3; r++) {
        pthread_join(threads[r], NULL);
        assert_int_equal(ranks[r].status, SHARDC_ERROR_ARGUMENT);
        if (strstr(ranks[r].text, text) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", ranks[r].text, text);
    }
    for (uint32_t r = 0; r < 3; r++) {
        shardc_executable_free((shardc_executable *)programs[r]);
        sc_arena_free(&c[r].arena);
    }
}

/* A sum over all ranks of so many elements, with the collective's kind and the copies that it has
 * behind it. */
static shardc_executable *summing_program(image_case *c, sc_image_reduce reduce, int64_t count,
                                          int copies)
{
    image_begin(c, 1, 3);
    uint32_t sum = image_collective(c, SC_IMAGE_ALL_REDUCE, reduce, image_group(c, "tp", NULL),
                                    SC_DTYPE_f32, count);
    uint32_t x = image_input(c, "x", "f32[T=3@tp, K=8]", -1),
             y = image_buffer(c, SC_BUFFER_ACT, 32, "y");
    image_move(c, sum, x, x);
    for (int i = 0; i < copies; i++)
        image_instr(c, SC_INSTR_COPY, 0, 2, (uint32_t[]){x, y});
    image_func(c, "f");
    image_compile(c, "int nothing;");
    return image_executable(c);
}

static void ranks_run_the_same_program(void **state)
{
    (void)state;
    static const struct {
        sc_image_reduce reduce;
        int64_t count;
        int copies;
        const char *text;
    } others[] = {{SC_IMAGE_SUM, 8, 1, "its collectives are the same, but its computations differ"},
                  {SC_IMAGE_MAX, 8, 0, "its collectives differ, too"},
                  {SC_IMAGE_SUM, 7, 0, "its collectives differ, too"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        for (uint32_t which = 0; which < 3; which++) {
            image_case c[3];
            const shardc_executable *programs[3];
            char text[160];
            for (uint32_t r = 0; r < 3; r++)
                programs[r] = r == which ? summing_program(&c[r], others[i].reduce, others[i].count,
                                                           others[i].copies)
                                         : summing_program(&c[r], SC_IMAGE_SUM, 8, 0);
            snprintf(text, sizeof text,
                     "different programs: %d of 3 %s another one than rank 0, rank %d for one; %s",
                     which == 0 ? 2 : 1, which == 0 ? "have" : "has", which == 0 ? 1 : (int)which,
                     others[i].text);
            expect_refused(c, programs, text);
        }
    }
}

/* ---- processes ---- */

/* As `test_session_world mpi` under mpirun, and as `test_session_world tcp 3` on three processes
 * that it starts. */
static sc_comm *process_world; /* keeps MPI running until the end */

static shardc_session_options process_options(void)
{
    bool is_tcp = strcmp(sc_comm_backend_name(process_world), "tcp") == 0;
    return (shardc_session_options){
        .world = is_tcp ? SHARDC_WORLD_TCP : SHARDC_WORLD_MPI, .threads = 1, .deadline_ms = 60000};
}

static void processes_run_a_step(void **state)
{
    (void)state;
    step_data d = make_data();
    uint32_t size = sc_comm_size(process_world), self = sc_comm_rank(process_world);
    for (int m = 0; m < 2; m++) {
        uint64_t dp = m == 0 ? size : 1, tp = m == 0 ? 1 : size;
        image_case c;
        shardc_session *session = NULL;
        shardc_error why = {.status = SHARDC_OK};
        lone_rank lone = {.data = &d};
        float w[STEP_D * STEP_H];
        shardc_executable *program = step_program(&c, dp, tp);
        shardc_session_options options = process_options();
        SUCCEED(shardc_session_new(program, &options, &session, &error));
        assert_true(run_lone_rank(&lone, session));
        bool has_row = self < tp;
        assert_int_equal(lone.status, has_row ? SHARDC_ERROR_DATA : SHARDC_ERROR_COMM);
        assert_true(lone.total == d.total && lone.w == (double)d.w[STEP_D * STEP_H - 1]);
        char path[64];
        snprintf(path, sizeof path, "/tmp/shardc_session_%d.safetensors", m);
        SUCCEED(shardc_session_save(session, path, true, &error));
        SUCCEED(shardc_session_set_state(session, 0, d.x, sizeof d.w, NULL, &error));
        SUCCEED(shardc_session_load(session, path, true, &error));
        SUCCEED(shardc_session_get_state(session, 0, w, sizeof w, NULL, &error));
        assert_memory_equal(w, d.w, sizeof w);
        assert_int_equal(shardc_session_load(session, self == 0 ? "/nowhere" : path, true, &why),
                         self == 0 ? SHARDC_ERROR_DATA : SHARDC_ERROR_COMM);
        assert_true(run_step(session, &d) == d.total);
        shardc_session_free(session);
        if (self == 0)
            unlink(path);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        program = step_program(&c, dp + 1, tp); /* of more ranks than the job has */
        assert_int_equal(shardc_session_new(program, &options, &session, &why),
                         SHARDC_ERROR_ARGUMENT);
        assert_non_null(strstr(why.text, "the job has"));
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
}

/* Rank 0 has another program than the rest: nobody begins. */
static void processes_compare_their_programs(void **state)
{
    (void)state;
    uint32_t size = sc_comm_size(process_world), self = sc_comm_rank(process_world);
    shardc_session_options options = process_options();
    shardc_session *session = NULL;
    shardc_error why = {.status = SHARDC_OK};
    image_case c;
    shardc_executable *program = step_program(&c, self == 0 ? size : 1, self == 0 ? 1 : size);
    shardc_status status = shardc_session_new(program, &options, &session, &why);
    if (size > 1) {
        assert_int_equal(status, SHARDC_ERROR_ARGUMENT);
        assert_non_null(strstr(why.text, "the ranks were started differently: rank "));
    }
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
}

static int run_in_process(bool is_mpi)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(processes_run_a_step),
                                       cmocka_unit_test(processes_compare_their_programs)};
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank_of_a_world),
                                       cmocka_unit_test(ranks_run_the_same_program)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
