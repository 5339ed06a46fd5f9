/* How ranks without MPI find each other: who is missing is named, strangers are refused and hold up
 * nobody. Ranks are threads here, each with what a launcher would have told it; the secret is the
 * process's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#include "runtime/comm/comm.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/rendezvous.h"
#include "runtime/comm/secret.h"
#include "test/unit/helpers/processes.h"

enum { MOST_RANKS = 9, LONG_MS = 60000 };

typedef struct newcomer {
    sc_launch launch;
    const char *started_with;
    uint32_t join_ms;
    shardc_status status;
    shardc_error error;
    int sockets[MOST_RANKS];
    pthread_t thread;
    _Atomic bool is_done;
} newcomer;

static void *come(void *user)
{
    newcomer *n = user;
    n->error.status = SHARDC_OK;
    n->status = sc_rendezvous_meet(&n->launch, n->started_with, n->join_ms, n->sockets, &n->error);
    atomic_store(&n->is_done, true);
    return NULL;
}

static newcomer newcomer_of(uint32_t rank, uint32_t size, uint32_t port, uint32_t join_ms)
{
    return (newcomer){.launch = {.launcher = SC_LAUNCH_BY_HAND,
                                 .how = "a test",
                                 .rank = rank,
                                 .size = size,
                                 .local_rank = -1,
                                 .local_size = -1,
                                 .port = port},
                      .join_ms = join_ms};
}

static void start(newcomer *n)
{
    assert_int_equal(pthread_create(&n->thread, NULL, come, n), 0);
}

static void finish(newcomer *n)
{
    pthread_join(n->thread, NULL);
}

static void leave(newcomer *n)
{
    for (uint32_t r = 0; n->status == SHARDC_OK && r < n->launch.size; r++) {
        if (n->sockets[r] >= 0)
            close(n->sockets[r]);
    }
}

/* Every two are connected, with each other. */
static void check_mesh(const newcomer *all, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        for (uint32_t j = 0; j < size; j++) {
            uint32_t word = 1000 * i + j, got = 0;
            if (i == j)
                continue;
            assert_int_equal(send(all[i].sockets[j], &word, sizeof word, MSG_NOSIGNAL),
                             sizeof word);
            int flags = fcntl(all[j].sockets[i], F_GETFL);
            assert_int_not_equal(flags & O_NONBLOCK, 0);
            fcntl(all[j].sockets[i], F_SETFL, flags & ~O_NONBLOCK);
            assert_int_equal(recv(all[j].sockets[i], &got, sizeof got, MSG_WAITALL), sizeof got);
            assert_int_equal(got, word);
        }
        assert_int_equal(all[i].sockets[i], -1);
    }
}

static void every_two_are_connected(void **state)
{
    (void)state;
    uint32_t port;
    int holder = hold_port(&port);
    for (uint32_t size = 1; size <= MOST_RANKS; size++) { /* again and again on the same port */
        newcomer all[MOST_RANKS];
        for (uint32_t r = size; r-- > 0;) { /* rank 0 comes last */
            all[r] = newcomer_of(r, size, port, LONG_MS);
            start(&all[r]);
        }
        for (uint32_t r = 0; r < size; r++) {
            finish(&all[r]);
            if (all[r].status != SHARDC_OK)
                fail_msg("rank %u of %u: %s", r, size, all[r].error.text);
        }
        check_mesh(all, size);
        for (uint32_t r = 0; r < size; r++)
            leave(&all[r]);
    }
    close(holder);
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    uint32_t port;
    char wanted[160];
    int holder = hold_port(&port);
    newcomer all[3] = {newcomer_of(0, 5, port, 1500), newcomer_of(1, 5, port, LONG_MS),
                       newcomer_of(3, 5, port, LONG_MS)};
    for (int i = 0; i < 3; i++)
        start(&all[i]);
    snprintf(wanted, sizeof wanted,
             "2 of 5 ranks did not come to rank 0 (127.0.0.1:%u) within 1500 ms: ranks 2, 4", port);
    for (int i = 0; i < 3; i++) {
        finish(&all[i]);
        assert_int_equal(all[i].status, SHARDC_ERROR_TIMEOUT);
        assert_int_equal(all[i].error.status, SHARDC_ERROR_TIMEOUT);
        assert_string_equal(all[i].error.text, wanted);
        for (uint32_t r = 0; r < 5; r++)
            assert_int_equal(all[i].sockets[r], -1);
    }
    newcomer alone = newcomer_of(1, 2, port, 300);
    start(&alone);
    finish(&alone);
    assert_int_equal(alone.status, SHARDC_ERROR_TIMEOUT);
    snprintf(wanted, sizeof wanted,
             "rank 1 waited 300 ms for rank 0 (127.0.0.1:%u): Connection refused", port);
    assert_string_equal(alone.error.text, wanted);
    close(holder);
}

static int connect_stranger(uint32_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port)};
    for (;;) {
        int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(s, (const struct sockaddr *)&address, sizeof address) == 0)
            return s;
        close(s);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void strangers_hold_up_nobody(void **state)
{
    (void)state;
    enum { STRANGERS = 100 };
    uint32_t port;
    int holder = hold_port(&port), strangers[STRANGERS];
    char noise[400], byte;
    newcomer all[3];
    for (uint32_t r = 0; r < 3; r++)
        all[r] = newcomer_of(r, 3, port, LONG_MS);
    memset(noise, 'G', sizeof noise);
    start(&all[0]);
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i] = connect_stranger(port);
        /* silent, halfway, nonsense */
        size_t size = i % 3 == 0 ? 0 : i % 3 == 1 ? 10 : sizeof noise;
        if (size > 0 && send(strangers[i], noise, size, MSG_NOSIGNAL) < 0)
            continue; /* refused already */
    }
    start(&all[1]);
    start(&all[2]);
    for (uint32_t r = 0; r < 3; r++) {
        finish(&all[r]);
        if (all[r].status != SHARDC_OK)
            fail_msg("rank %u: %s", r, all[r].error.text);
    }
    check_mesh(all, 3);
    for (int i = 0; i < STRANGERS; i++) { /* all are closed, whatever they were waiting for */
        ssize_t got;
        while ((got = recv(strangers[i], &byte, 1, 0)) > 0)
            ;
        assert_true(got <= 0);
        close(strangers[i]);
    }
    for (uint32_t r = 0; r < 3; r++)
        leave(&all[r]);
    close(holder);
}

typedef struct flood {
    uint32_t port;
    _Atomic bool stops;
    uint32_t connections;
    pthread_t thread;
} flood;

/* As fast as it goes: nonsense, half a message, nothing; some connections are held, the others
 * closed or reset. */
static void *flood_port(void *user)
{
    enum { HELD = 200 };
    flood *f = user;
    int held[HELD];
    uint32_t count = 0;
    char noise[400];
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)f->port)};
    memset(noise, 'G', sizeof noise);
    memcpy(noise, &(uint32_t){0x73686472}, 4); /* begins well */
    memcpy(noise + 4, &(uint32_t){2}, 4);
    for (; !atomic_load(&f->stops); f->connections++) {
        int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(s, (const struct sockaddr *)&address, sizeof address);
        if (f->connections % 3 != 0)
            send(s, noise + (f->connections % 5 == 0),
                 f->connections % 3 == 1 ? 10 : sizeof noise - 1, MSG_NOSIGNAL);
        if (f->connections % 7 == 0) { /* reset */
            setsockopt(s, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
                       sizeof(struct linger));
            close(s);
            continue;
        }
        if (count >= HELD)
            close(held[count % HELD]);
        held[count++ % HELD] = s;
    }
    for (uint32_t i = 0; i < HELD && i < count; i++)
        close(held[i]);
    return NULL;
}

static void a_flood_keeps_nobody_out(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        uint32_t port;
        int holder = hold_port(&port);
        flood f = {.port = port};
        newcomer all[3];
        for (uint32_t r = 0; r < 3; r++)
            all[r] = newcomer_of(r, 3, port, LONG_MS);
        start(&all[0]);
        assert_int_equal(pthread_create(&f.thread, NULL, flood_port, &f), 0);
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        start(&all[1]);
        start(&all[2]);
        for (uint32_t r = 0; r < 3; r++)
            finish(&all[r]);
        atomic_store(&f.stops, true);
        pthread_join(f.thread, NULL);
        for (uint32_t r = 0; r < 3; r++) {
            if (all[r].status != SHARDC_OK)
                fail_msg("round %d, rank %u: %s", round, r, all[r].error.text);
        }
        check_mesh(all, 3);
        for (uint32_t r = 0; r < 3; r++)
            leave(&all[r]);
        close(holder);
        print_message("%u connections\n", f.connections);
    }
}

/* Who is missing under a flood is not blamed for its secret. */
static void strangers_are_told_from_ranks(void **state)
{
    (void)state;
    uint32_t port;
    int holder = hold_port(&port);
    char noise[400];
    newcomer first = newcomer_of(0, 2, port, 1500);
    memset(noise, 'G', sizeof noise);
    start(&first);
    int stranger = connect_stranger(port);
    assert_true(send(stranger, noise, sizeof noise, MSG_NOSIGNAL) > 0);
    finish(&first);
    close(stranger);
    assert_int_equal(first.status, SHARDC_ERROR_TIMEOUT);
    if (strstr(first.error.text, "within 1500 ms: rank 1; 1 connection sent invalid data") ==
            NULL ||
        strstr(first.error.text, "secret") != NULL)
        fail_msg("%s", first.error.text);
    close(holder);
}

static void who_makes_no_sense_hears_why(void **state)
{
    (void)state;
    uint32_t port;
    int holder = hold_port(&port);
    newcomer first = newcomer_of(0, 3, port, LONG_MS), second = newcomer_of(1, 3, port, LONG_MS);
    newcomer again = newcomer_of(1, 3, port, 2000), other = newcomer_of(3, 4, port, 2000),
             last = newcomer_of(2, 3, port, LONG_MS);
    start(&first);
    start(&second);
    start(&other);
    finish(&other);
    assert_int_equal(other.status, SHARDC_ERROR_COMM);
    assert_string_equal(other.error.text,
                        "rank 3 was started as one of 4 ranks, rank 0 as one of 3");
    start(&again);
    finish(&again);
    assert_int_equal(again.status, SHARDC_ERROR_COMM);
    assert_string_equal(again.error.text, "two processes say that they are rank 1");
    start(&last);
    newcomer *all[] = {&first, &second, &last};
    for (int i = 0; i < 3; i++) {
        finish(all[i]);
        if (all[i]->status != SHARDC_OK)
            fail_msg("%d: %s", i, all[i]->error.text);
    }
    for (int i = 0; i < 3; i++)
        leave(all[i]);
    close(holder);
}

/* Of a rank that was started differently all hear how, once nobody came in its place. */
static void who_was_started_differently_is_named(void **state)
{
    (void)state;
    uint32_t port;
    int holder = hold_port(&port);
    newcomer all[3];
    for (uint32_t r = 0; r < 3; r++) {
        all[r] = newcomer_of(r, 3, port, LONG_MS);
        all[r].started_with = r == 2 ? "command train\n--seed 7\n--steps 4\n"
                                     : "command train\n--seed 5\n--steps 4\n";
        start(&all[r]);
    }
    for (uint32_t r = 0; r < 3; r++) {
        finish(&all[r]);
        assert_int_equal(all[r].status, SHARDC_ERROR_ARGUMENT);
        assert_string_equal(
            all[r].error.text,
            "the ranks were started differently: rank 2 has --seed 7, rank 0 has --seed 5");
    }
    close(holder);
}

/* Two jobs on one port, mixed in time: each rank meets its own, one job after the other. */
static void two_jobs_take_turns_on_a_port(void **state)
{
    (void)state;
    for (int by_launcher = 0; by_launcher < 2; by_launcher++) {
        uint32_t port;
        int holder = hold_port(&port);
        newcomer jobs[2][2];
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t job = i % 2, rank = 1 - i / 2; /* both ranks 1 first */
            newcomer *n = &jobs[job][rank];
            *n = newcomer_of(rank, 2, port, LONG_MS);
            if (by_launcher == 1)
                snprintf(n->launch.job, sizeof n->launch.job, "job %u", job);
            else
                n->started_with = job == 0 ? "--seed 1\n" : "--seed 2\n";
            start(n);
        }
        for (uint32_t i = 0; i < 4; i++) {
            newcomer *n = &jobs[i / 2][i % 2];
            finish(n);
            if (n->status != SHARDC_OK)
                fail_msg("job %u, rank %u: %s", i / 2, i % 2, n->error.text);
        }
        for (uint32_t job = 0; job < 2; job++)
            check_mesh(jobs[job], 2);
        for (uint32_t i = 0; i < 4; i++)
            leave(&jobs[i / 2][i % 2]);
        close(holder);
    }
}

static void another_secret_is_refused(void **state)
{
    (void)state;
    uint32_t port;
    int holder = hold_port(&port), how = 0;
    newcomer first = newcomer_of(0, 2, port, LONG_MS), second = newcomer_of(1, 2, port, LONG_MS);
    setenv("SHARDC_SECRET", "one", 1);
    pid_t child = fork();
    if (child == 0) {
        setenv("SHARDC_SECRET", "another", 1);
        second.join_ms = 2000;
        come(&second);
        bool is_refused =
            second.status == SHARDC_ERROR_COMM &&
            strstr(second.error.text, "it has another secret (SHARDC_SECRET)") != NULL;
        if (!is_refused)
            fprintf(stderr, "%d: %s\n", (int)second.status, second.error.text);
        _exit(is_refused ? 0 : 1);
    }
    start(&first);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    start(&second);
    finish(&second);
    finish(&first);
    assert_int_equal(first.status, SHARDC_OK);
    assert_int_equal(second.status, SHARDC_OK);
    leave(&first);
    leave(&second);
    unsetenv("SHARDC_SECRET");
    close(holder);
}

/* A rank 0 that does not know the secret is not believed either. */
static void a_false_rank_0_is_not_believed(void **state)
{
    (void)state;
    uint32_t port;
    int holder = hold_port(&port), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port)};
    /* a rank 0 without the secret; another service; another version */
    for (int round = 0; round < 3; round++) {
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
        assert_int_equal(listen(listener, 1), 0);
        newcomer rank = newcomer_of(1, 2, port, 2000);
        char hello[24] = {0}, welcome[8192] = {0};
        uint32_t magic = 0x73686472, version = round == 2 ? 99 : 2;
        memcpy(hello, round != 1 ? (const void *)&magic : "HTTP", 4);
        memcpy(hello + 4, &version, sizeof version);
        memcpy(welcome, &magic, sizeof magic);
        start(&rank);
        int s = accept(listener, NULL, NULL);
        assert_int_equal(send(s, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
        send(s, welcome, sizeof welcome, MSG_NOSIGNAL);
        finish(&rank);
        assert_int_equal(rank.status, SHARDC_ERROR_COMM);
        static const char *const wanted[] = {"it does not know the secret",
                                             "something else listens there",
                                             "another version of shardc"};
        if (strstr(rank.error.text, wanted[round]) == NULL)
            fail_msg("%s", rank.error.text);
        close(s);
        close(listener);
    }
    close(holder);
}

static void what_the_environment_must_say(void **state)
{
    (void)state;
    newcomer rank = newcomer_of(0, 2, 0, 200);
    come(&rank);
    assert_int_equal(rank.status, SHARDC_ERROR_ARGUMENT);
    assert_non_null(strstr(rank.error.text, "MASTER_PORT is not set"));
    setenv("SHARDC_PORT", "70000", 1);
    come(&rank);
    assert_int_equal(rank.status, SHARDC_ERROR_ARGUMENT);
    assert_non_null(strstr(rank.error.text, "SHARDC_PORT is '70000'"));
    unsetenv("SHARDC_PORT");
    rank = newcomer_of(0, 2, 9999, 200);
    snprintf(rank.launch.address, sizeof rank.launch.address, "no host has this name");
    come(&rank);
    assert_int_equal(rank.status, SHARDC_ERROR_ARGUMENT);
    assert_non_null(strstr(rank.error.text, "MASTER_ADDR is 'no host has this name'"));
    snprintf(rank.launch.address, sizeof rank.launch.address, "192.0.2.1"); /* RFC 5737: nobody's */
    come(&rank);
    assert_int_equal(rank.status, SHARDC_ERROR_ARGUMENT);
    assert_string_equal(rank.error.text, "ranks on several machines need a secret: set "
                                         "SHARDC_SECRET to the same text on all of them");
    rank = newcomer_of(0, SC_RENDEZVOUS_MAX_RANKS + 1, 9999, 200);
    int *sockets = calloc(SC_RENDEZVOUS_MAX_RANKS + 1, sizeof *sockets);
    assert_int_equal(sc_rendezvous_meet(&rank.launch, NULL, 200, sockets, &rank.error),
                     SHARDC_ERROR_ARGUMENT);
    free(sockets);
}

/* torchrun listens on MASTER_PORT itself. */
static void ranks_of_torchrun_meet_beside_it(void **state)
{
    (void)state;
    uint32_t port;
    int holder = hold_port(&port);
    newcomer all[2] = {newcomer_of(0, 2, port - 1, LONG_MS), newcomer_of(1, 2, port - 1, LONG_MS)};
    for (int i = 0; i < 2; i++) {
        all[i].launch.launcher = SC_LAUNCH_TORCHRUN;
        snprintf(all[i].launch.address, sizeof all[i].launch.address, "localhost");
        start(&all[i]);
    }
    for (int i = 0; i < 2; i++) {
        finish(&all[i]);
        if (all[i].status != SHARDC_OK)
            fail_msg("%s", all[i].error.text);
        leave(&all[i]);
    }
    close(holder);
}

/* Who else listens there is not to be mistaken. */
static void a_taken_port_is_named(void **state)
{
    (void)state;
    uint32_t port;
    int holder = hold_port(&port);
    newcomer rank = newcomer_of(0, 2, port, 1000);
    assert_int_equal(listen(holder, 1), 0);
    come(&rank);
    assert_int_equal(rank.status, SHARDC_ERROR_COMM);
    if (strstr(rank.error.text, "cannot listen on 127.0.0.1:") == NULL ||
        strstr(rank.error.text, "set MASTER_PORT") == NULL)
        fail_msg("%s", rank.error.text);
    close(holder);
}

static void the_secret_is_the_users_own(void **state)
{
    (void)state;
    uint8_t a[SC_SECRET_BYTES], b[SC_SECRET_BYTES];
    char path[64];
    struct stat about;
    shardc_error error;
    unsetenv("SHARDC_SECRET");
    assert_int_equal(sc_secret_read(true, a, &error), SHARDC_OK);
    assert_int_equal(sc_secret_read(true, b, &error), SHARDC_OK);
    assert_memory_equal(a, b, sizeof a);
    snprintf(path, sizeof path, "/tmp/shardc-secret-%lu", (unsigned long)geteuid());
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(sc_secret_read(false, b, &error), SHARDC_ERROR_ARGUMENT);
    setenv("SHARDC_SECRET", "a text", 1);
    assert_int_equal(sc_secret_read(false, b, &error), SHARDC_OK);
    assert_memory_not_equal(a, b, sizeof a);
    unsetenv("SHARDC_SECRET");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_two_are_connected),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(strangers_hold_up_nobody),
        cmocka_unit_test(who_makes_no_sense_hears_why),
        cmocka_unit_test(another_secret_is_refused),
        cmocka_unit_test(a_false_rank_0_is_not_believed),
        cmocka_unit_test(what_the_environment_must_say),
        cmocka_unit_test(ranks_of_torchrun_meet_beside_it),
        cmocka_unit_test(a_taken_port_is_named),
        cmocka_unit_test(the_secret_is_the_users_own),
        cmocka_unit_test(a_flood_keeps_nobody_out),
        cmocka_unit_test(strangers_are_told_from_ranks),
        cmocka_unit_test(who_was_started_differently_is_named),
        cmocka_unit_test(two_jobs_take_turns_on_a_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
