/* Ranks that are processes, of which one is killed or stopped at a random moment: all others end,
 * with one line that names the rank and the call that they were in; of those that are stopped, some
 * without any deadline. `test_lost_rank 500` makes as many trials; `test_lost_rank cuda 50` on GPUs
 * with NCCL (stubs of both), where nobody is in a call of the communicator; `test_lost_rank stages
 * 50` on programs of two and three stages, whose errors name the stage; `test_lost_rank
 * cuda_stages 50` on these on GPUs, where they wait for messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <time.h>

#include "support/rng.h"
#include "test/unit/helpers/cuda_stages_case.h"
#include "test/unit/helpers/processes.h"

enum {
    MOST_RANKS = 4,
    AT_ONCE = 8, /* worlds: most of the time they wait */
    STOP_DEADLINE_MS = 3000,
    SILENCE_MS = 8000,        /* where there is no deadline */
    KILL_DEADLINE_MS = 60000, /* a rank that dies is not found by the deadline */
    PATIENCE_MS = 30000,
    STAGED_BATCHES = 3,
    EXIT_ERROR = 9
};

static uint32_t trials = 50;
static bool has_gpus, has_stages;

static uint32_t draw(uint64_t seed, uint32_t index, uint32_t below)
{
    uint32_t counter[4] = {index, 0, 0, 7}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)},
             words[4];
    sc_rng_philox(counter, key, words);
    return words[0] % below;
}

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- a rank ---- */

/* Starting takes as long as it takes where many processes share few cores: the deadline is for what
 * comes after it. */
static void set_deadline(shardc_session *session, uint32_t deadline_ms)
{
    session->options.deadline_ms = deadline_ms;
    for (uint32_t r = 0; r < session->rank_count; r++)
        sc_comm_set_deadline(session->ranks[r].comm, deadline_ms);
}

/* Steps for ever: a byte after the first, the error's status and text at the end. */
static void be_worker(const shardc_executable *program, uint32_t deadline_ms, bool has_no_deadline,
                      int out)
{
    char silence[16];
    snprintf(silence, sizeof silence, "%u", (unsigned)SILENCE_MS);
    if (has_no_deadline)
        setenv("SHARDC_SILENCE_MS", silence, 1);
    static float x[STEP_BATCHES * STEP_ROWS * STEP_D];
    static int32_t ids[STEP_BATCHES * STEP_ROWS];
    static int64_t values[STAGED_BATCHES * 2 * STAGES_LENGTH];
    size_t value_bytes = sizeof values / (shardc_executable_ranks(program) == MOST_RANKS ? 1 : 2);
    shardc_session_options options = {.world = SHARDC_WORLD_TCP,
                                      .threads = 1,
                                      .deadline_ms = has_no_deadline ? 0 : KILL_DEADLINE_MS};
    shardc_session *session = NULL;
    shardc_error error = {.status = SHARDC_OK};
    shardc_status status = shardc_session_new(program, &options, &session, &error);
    for (uint64_t step = 0; status == SHARDC_OK; step++) {
        float total;
        shardc_feed_value feeds[] = {{"ids", ids, sizeof ids, NULL}, {"x", x, sizeof x, NULL}},
                          staged = {"x", values, value_bytes, NULL};
        shardc_fetch_value fetch = {0, &total, sizeof total, NULL};
        status = has_stages ? shardc_session_step(session, &staged, 1, NULL, 0, &error)
                            : shardc_session_step(session, feeds, 2, &fetch, 1, &error);
        if (step == 0 && status == SHARDC_OK && !has_no_deadline)
            set_deadline(session, deadline_ms);
        if (step == 0 && status == SHARDC_OK && write(out, "+", 1) != 1)
            _exit(1);
    }
    if (write(out, &error, sizeof error) != (ssize_t)sizeof error)
        _exit(1);
    shardc_session_free(session);
    _exit(EXIT_ERROR);
}

/* ---- a trial ---- */

typedef enum trial_phase { STARTS, RUNS, ENDS, IS_OVER } trial_phase;

typedef struct trial {
    uint64_t seed, act_us, done_us;
    uint32_t size, victim, ready, ended;
    bool stops;
    trial_phase phase;
    int holder;
    pid_t ranks[MOST_RANKS];
    int pipes[MOST_RANKS];
    size_t got[MOST_RANKS];
    char said[MOST_RANKS][1 + sizeof(shardc_error)];
} trial;

static void begin(trial *t, uint64_t seed, const shardc_executable *const *programs)
{
    uint32_t port;
    *t = (trial){.seed = seed,
                 .size = 2 + draw(seed, 0, MOST_RANKS - 1),
                 .stops = draw(seed, 2, 2) == 1,
                 .phase = STARTS};
    t->victim = draw(seed, 1, t->size);
    t->holder = hold_port(&port);
    for (uint32_t r = 0; r < t->size; r++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        t->ranks[r] = fork_rank(r, t->size, port);
        if (t->ranks[r] == 0) {
            close(ends[0]);
            be_worker(programs[t->size], t->stops ? STOP_DEADLINE_MS : KILL_DEADLINE_MS,
                      t->stops && draw(seed, 4, 4) == 1, ends[1]);
        }
        close(ends[1]);
        t->pipes[r] = ends[0];
    }
}

static void hear(trial *t, uint32_t r)
{
    ssize_t got = read(t->pipes[r], t->said[r] + t->got[r], sizeof t->said[r] - t->got[r]);
    if (got > 0) {
        t->ready += t->got[r] == 0;
        t->got[r] += (size_t)got;
    }
    if (got <= 0) {
        close(t->pipes[r]);
        t->pipes[r] = -1;
        t->ended++;
    }
}

static void go_on(trial *t)
{
    uint32_t others = t->size - 1;
    if (t->phase == STARTS && t->ready == t->size) {
        t->phase = RUNS;
        t->act_us = now_us() + draw(t->seed, 3, 30000);
    }
    if (t->phase == RUNS && now_us() >= t->act_us) {
        kill(t->ranks[t->victim], t->stops ? SIGSTOP : SIGKILL);
        t->act_us = now_us();
        t->phase = ENDS;
    }
    if (t->phase == ENDS && t->ended >= others + (t->stops ? 0 : 1)) {
        t->phase = IS_OVER;
        t->done_us = now_us();
    }
}

/* NULL, or what is wrong with what the trial's ranks said. */
static const char *check(trial *t, uint32_t *on_gpu, char *text, size_t size)
{
    char lost[64];
    snprintf(lost, sizeof lost, " rank %u is lost: ", t->victim);
    if (has_stages) /* four ranks are two stages */
        snprintf(lost, sizeof lost, " rank %u (stage %u) is lost: ", t->victim,
                 t->size == MOST_RANKS ? t->victim / 2 : t->victim);
    for (uint32_t r = 0; r < t->size; r++) {
        shardc_error error = {.status = SHARDC_OK};
        if (r == t->victim)
            continue;
        if (t->got[r] >= sizeof error) /* without the byte of the first step, it failed before */
            memcpy(&error, t->said[r] + t->got[r] - sizeof error, sizeof error);
        snprintf(text, size, "seed %llu, %u ranks, rank %u %s, rank %u said %d: '%s'",
                 (unsigned long long)t->seed, t->size, t->victim, t->stops ? "stopped" : "killed",
                 r, (int)error.status, error.text);
        /* the call with what it is for: "layers[0]", or what the session itself asks the others */
        bool is_called = (strstr(error.text, " of group ") != NULL ||
                          strstr(error.text, " in group ") != NULL) &&
                         strstr(error.text, " calls ") != NULL;
        bool is_on_gpu =
            has_stages
                ? strstr(error.text, " of the boundary from stage ") != NULL &&
                      strstr(error.text, " waits for ") != NULL
                : strstr(error.text,
                         " waits for all_reduce(sum) of f32[1] (layers[0]) in group ") != NULL;
        *on_gpu += is_on_gpu;
        /* a rank may be about to end a call, all of whose collectives are done */
        bool is_busy = strstr(error.text, " waits for function ") != NULL;
        bool has_call = is_called || (has_gpus && (is_on_gpu || is_busy));
        if (error.status != (t->stops ? SHARDC_ERROR_TIMEOUT : SHARDC_ERROR_COMM) ||
            strstr(error.text, lost) == NULL || !has_call || strchr(error.text, '\n') != NULL)
            return text;
    }
    return NULL;
}

static void end(trial *t)
{
    for (uint32_t r = 0; r < t->size; r++) {
        if (t->phase != IS_OVER || r == t->victim)
            kill(t->ranks[r], SIGKILL);
        waitpid(t->ranks[r], NULL, 0);
        if (t->pipes[r] >= 0)
            close(t->pipes[r]);
    }
    close(t->holder);
}

/* Until something is heard, or it is time to act. */
static void wait_for_news(trial *running, uint32_t count)
{
    struct pollfd polls[AT_ONCE * MOST_RANKS];
    uint32_t of_trial[AT_ONCE * MOST_RANKS], of_rank[AT_ONCE * MOST_RANKS], used = 0;
    int wait = PATIENCE_MS;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t now = now_us();
        if (running[i].phase == RUNS)
            wait = running[i].act_us > now ? (int)((running[i].act_us - now) / 1000) : 0;
        for (uint32_t r = 0; r < running[i].size; r++) {
            if (running[i].pipes[r] < 0)
                continue;
            of_trial[used] = i;
            of_rank[used] = r;
            polls[used++] = (struct pollfd){.fd = running[i].pipes[r], .events = POLLIN};
        }
    }
    poll(polls, used, wait);
    for (uint32_t k = 0; k < used; k++) {
        if (polls[k].revents != 0)
            hear(&running[of_trial[k]], of_rank[k]);
    }
}

static void the_others_end_and_name_it(void **state)
{
    (void)state;
    image_case cases[MOST_RANKS + 1];
    static stages_case staged[MOST_RANKS + 1];
    const shardc_executable *programs[MOST_RANKS + 1];
    static trial running[AT_ONCE];
    uint32_t count = 0, begun = 0, on_gpu = 0;
    uint64_t heard_us = now_us(), slowest_kill = 0, slowest_stop = 0;
    char text[1024];
    const char *wrong = NULL;
    for (uint32_t n = 2; n <= MOST_RANKS; n++)
        programs[n] = has_stages
                          ? (has_gpus ? cuda_stages_program : stages_program)(
                                &staged[n], n == 4 ? 2 : n, n == 4 ? 2 : 1, 0, STAGED_BATCHES)
                          : (has_gpus ? cuda_step_program : step_program)(&cases[n], n == 4 ? 2 : 1,
                                                                          n == 4 ? 2 : n);
    while (wrong == NULL && (begun < trials || count > 0)) {
        while (count < AT_ONCE && begun < trials)
            begin(&running[count++], ++begun, programs);
        wait_for_news(running, count);
        for (uint32_t i = count; i-- > 0;) {
            trial *t = &running[i];
            go_on(t);
            if (t->phase != IS_OVER)
                continue;
            uint64_t took = t->done_us - t->act_us,
                     *slowest = t->stops ? &slowest_stop : &slowest_kill;
            *slowest = took > *slowest ? took : *slowest;
            wrong = wrong == NULL ? check(t, &on_gpu, text, sizeof text) : wrong;
            end(t);
            running[i] = running[--count];
            heard_us = now_us();
        }
        if (now_us() - heard_us > PATIENCE_MS * (uint64_t)1000 && wrong == NULL)
            wrong = "nothing ends any more";
    }
    while (count > 0)
        end(&running[--count]);
    for (uint32_t n = 2; n <= MOST_RANKS; n++) {
        shardc_executable_free((shardc_executable *)(uintptr_t)programs[n]);
        if (has_stages)
            stages_end(&staged[n]);
        else
            sc_arena_free(&cases[n].arena);
    }
    print_message("%u trials: the others end %.1f ms after a kill and %.1f ms after a stop at the "
                  "latest; %u ranks waited for a GPU\n",
                  begun, (double)slowest_kill / 1e3, (double)slowest_stop / 1e3, on_gpu);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    assert_true(slowest_kill < KILL_DEADLINE_MS * (uint64_t)1000 / 4);
    assert_true(slowest_stop >= STOP_DEADLINE_MS * (uint64_t)1000 / 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_others_end_and_name_it)};
    has_gpus = argc > 1 && strncmp(argv[1], "cuda", 4) == 0;
    has_stages = argc > 1 && strstr(argv[1], "stages") != NULL;
    if (argc > 1 + (has_gpus || has_stages))
        trials = (uint32_t)strtoul(argv[argc - 1], NULL, 10);
    if (!has_gpus)
        return cmocka_run_group_tests(tests, NULL, NULL);
    char folder[] = "/tmp/shardc_lost_XXXXXX", command[64]; /* who is killed leaves files */
    if (mkdtemp(folder) == NULL)
        return 1;
    setenv("SHARDC_STUB_NCCL_FOLDER", folder, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 ? 1 : failed;
}
