/* How worlds are opened, here and under the names of the outside, and what it says where there is
 * no MPI. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "shardc/comm.h"

/* Another process says what it finds; see main. `folder` holds a copy of this program, without a
 * module beside it. */
static void without_the_module_mpi_is_unavailable(void **state)
{
    (void)state;
    char folder[] = "/tmp/shardc_comm_XXXXXX", command[1024], text[1024] = "";
    assert_non_null(mkdtemp(folder));
    for (int round = 0; round < 2; round++) { /* nothing there; something that is no module */
        const char *make =
            round == 0 ? "cp \"/proc/$PPID/exe\" test_comm" : "echo nonsense >shardc_mpi.so";
        snprintf(command, sizeof command,
                 "cd %s && %s && env -u SHARDC_MODULES ./test_comm unavailable", folder, make);
        FILE *output = popen(command, "r");
        assert_non_null(output);
        size_t length = fread(text, 1, sizeof text - 1, output);
        text[length] = 0;
        int result = pclose(output);
        if (result != 0 || strstr(text, round == 0 ? "build shardc where CMake finds MPI"
                                                   : "shardc_mpi.so does not load: ") == NULL)
            fail_msg("%d: %s", result, text);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* What the copy does. */
static int say_what_is_unavailable(void)
{
    sc_comm *comm = NULL;
    shardc_error error;
    shardc_status status = sc_comm_open_mpi(NULL, &comm, &error);
    puts(status == SHARDC_OK ? "it is there" : error.text);
    return status == SHARDC_ERROR_UNAVAILABLE && error.status == status ? 0 : 1;
}

/* The names of the outside: more parts than are translated without allocating, a group, a message,
 * and what is refused. */
typedef struct outside_rank {
    shardc_comm *comm;
    shardc_status wrong, done;
    int32_t sums[20], received;
    uint64_t calls, bytes;
    shardc_error error;
} outside_rank;

static void *outside_main(void *user)
{
    outside_rank *o = user;
    int32_t rank = (int32_t)shardc_comm_rank(o->comm), token = 10 + rank, terms[20];
    uint32_t ranks[] = {2, 0, 1};
    shardc_comm_part parts[20],
        message = {.source = &token, .destination = &o->received, .count = 1, .dtype = SHARDC_I32};
    shardc_comm_group *group;
    for (int i = 0; i < 20; i++) {
        terms[i] = i * (rank + 1);
        parts[i] = (shardc_comm_part){
            .source = &terms[i], .destination = &o->sums[i], .count = 1, .dtype = SHARDC_I32};
    }
    shardc_comm_call call = {
        .kind = SHARDC_ALL_REDUCE, .reduce = SHARDC_NO_REDUCE, .part_count = 20, .parts = parts};
    o->wrong = shardc_comm_run(shardc_comm_world(o->comm), &call, &o->error);
    call.reduce = SHARDC_SUM;
    o->done = shardc_comm_run(shardc_comm_world(o->comm), &call, &o->error);
    if (o->done == SHARDC_OK)
        o->done = shardc_comm_group_new(o->comm, ranks, 3, &group, &o->error);
    /* rank 2 is 0 in the group, and sends to 1 there, which is rank 0 */
    shardc_comm_call send = {.kind = SHARDC_SEND, .part_count = 1, .parts = &message, .to = 1};
    shardc_comm_call receive = {.kind = SHARDC_RECV, .part_count = 1, .parts = &message, .from = 0};
    if (o->done == SHARDC_OK && rank != 1)
        o->done = shardc_comm_run(group, rank == 2 ? &send : &receive, &o->error);
    if (o->done == SHARDC_OK)
        o->done = shardc_comm_barrier(group, &o->error);
    o->calls = shardc_comm_count(o->comm, SHARDC_ALL_REDUCE).calls;
    o->bytes = shardc_comm_count(o->comm, SHARDC_SEND).bytes;
    shardc_comm_close(o->comm);
    return NULL;
}

static void the_names_of_the_outside_do_the_same(void **state)
{
    (void)state;
    static outside_rank ranks[3];
    shardc_comm *comms[3];
    pthread_t threads[3];
    shardc_error error;
    assert_int_equal(shardc_comm_open_local(0, 0, comms, &error), SHARDC_ERROR_ARGUMENT);
    assert_int_equal(shardc_comm_open_local(3, 20000, comms, &error), SHARDC_OK);
    assert_string_equal(shardc_comm_backend(comms[2]), "local");
    for (int i = 0; i < 3; i++) {
        ranks[i].comm = comms[i];
        assert_int_equal(pthread_create(&threads[i], NULL, outside_main, &ranks[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 3; i++) {
        if (ranks[i].done != SHARDC_OK)
            fail_msg("%s", ranks[i].error.text);
        assert_int_equal(ranks[i].wrong, SHARDC_ERROR_ARGUMENT);
        assert_int_equal(ranks[i].calls, 1);
        assert_int_equal(ranks[i].bytes, i == 2 ? 4 : 0);
        for (int k = 0; k < 20; k++)
            assert_int_equal(ranks[i].sums[k], 6 * k);
    }
    assert_int_equal(ranks[0].received, 12);
}

static void worlds_have_at_least_one_rank(void **state)
{
    (void)state;
    sc_comm *comm;
    shardc_error error;
    assert_int_equal(sc_comm_open_local(0, NULL, &comm, &error), SHARDC_ERROR_ARGUMENT);
    assert_int_equal(sc_comm_open_local(100000, NULL, &comm, &error), SHARDC_ERROR_ARGUMENT);
    sc_comm_close(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_module_mpi_is_unavailable),
        cmocka_unit_test(the_names_of_the_outside_do_the_same),
        cmocka_unit_test(worlds_have_at_least_one_rank),
    };
    if (argc == 2 && strcmp(argv[1], "unavailable") == 0)
        return say_what_is_unavailable();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
