/* Programs run: on one rank and on several, whole values in and out, the same whatever the mesh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "program/cpu_level.h"
#include "runtime/open_session.h"
#include "support/rng.h"
#include "test/unit/helpers/openmp_leaks.h"
#include "test/unit/helpers/step_case.h"

/* GNU's and LLVM's OpenMP are not built for the thread sanitizer: there, teams have one thread. */
#if defined(__SANITIZE_THREAD__)
enum { LARGEST_TEAM = 1 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { LARGEST_TEAM = 1 };
#else
enum { LARGEST_TEAM = 3 };
#endif
#else
enum { LARGEST_TEAM = 3 };
#endif

static const uint64_t meshes[][2] = {{1, 1}, {2, 1}, {1, 2}, {3, 1}, {1, 4}, {2, 2}, {4, 1}};
enum { MESHES = sizeof meshes / sizeof *meshes };

static shardc_session *session_of(const shardc_executable *program)
{
    shardc_session *session = NULL;
    SUCCEED(shardc_session_new(program, &(shardc_session_options){.threads = 1, .profile = true},
                               &session, &error));
    return session;
}

/* ---- running ---- */

static void a_step_is_the_same_on_every_mesh(void **state)
{
    (void)state;
    step_data d = make_data();
    for (int m = 0; m < MESHES; m++) {
        image_case c;
        shardc_executable *program = step_program(&c, meshes[m][0], meshes[m][1]);
        shardc_session *session = session_of(program);
        set_weights(session, &d);
        assert_true(run_step(session, &d) == d.total);
        assert_true(run_step(session, &d) == d.total); /* from the start again */
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
}

static void a_function_gives_whole_values(void **state)
{
    (void)state;
    step_data d = make_data();
    for (int m = 0; m < MESHES; m++) {
        image_case c;
        shardc_executable *program = step_program(&c, meshes[m][0], meshes[m][1]);
        shardc_session *session = session_of(program);
        double x[STEP_ROWS * STEP_D], y[STEP_ROWS * STEP_H];
        int64_t ids[STEP_ROWS];
        for (int batch = 0; batch < STEP_BATCHES; batch++) {
            for (int i = 0; i < STEP_ROWS * STEP_D; i++)
                x[i] = (double)d.x[batch * STEP_ROWS * STEP_D + i];
            for (int i = 0; i < STEP_ROWS; i++)
                ids[i] = d.ids[batch * STEP_ROWS + i];
            set_weights(session, &d);
            shardc_feed_value feeds[] = {{"x", x, sizeof x, "f64"},
                                         {"ids", ids, sizeof ids, "i64"}};
            SUCCEED(shardc_session_run(session, shardc_executable_find_func(program, "micro"),
                                       feeds, 2, (shardc_fetch_value[]){{0, y, sizeof y, "f64"}}, 1,
                                       &error));
            for (int i = 0; i < STEP_ROWS * STEP_H; i++)
                assert_true(y[i] == (double)d.y[batch * STEP_ROWS * STEP_H + i]);
        }
        float total;
        SUCCEED(shardc_session_get_state(session, shardc_executable_find_state(program, "total"),
                                         &total, sizeof total, NULL, &error));
        assert_true(total == d.total); /* partial over dp, reduced on the way out */
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
}

static void kernels_get_their_parameters(void **state)
{
    (void)state;
    for (int m = 0; m < MESHES; m++) {
        image_case c;
        shardc_executable *program = step_program(&c, meshes[m][0], meshes[m][1]);
        shardc_session *session = session_of(program);
        int64_t seen[4][4];
        uint32_t key[2];
        shardc_session_set_random(session, 42, 0x1234567890u, 3);
        sc_rng_key(42, sc_fnv1a64("a.path", 6), key);
        SUCCEED(shardc_session_run(session, shardc_executable_find_func(program, "who"), NULL, 0,
                                   (shardc_fetch_value[]){{0, seen, sizeof seen, NULL}}, 1,
                                   &error));
        for (uint64_t rank = 0; rank < meshes[m][0] * meshes[m][1]; rank++) {
            assert_int_equal(seen[rank][0], rank / meshes[m][1] * 10 + rank % meshes[m][1]);
            assert_true((uint64_t)seen[rank][1] == ((uint64_t)key[1] << 32 | key[0]));
            assert_int_equal(seen[rank][2], 0x34567890u);
            assert_int_equal(seen[rank][3], 3);
        }
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
}

/* One collective over the n ranks, each giving a row of the input and getting one of the output. */
static void add_move(image_case *c, int n, sc_image_collective_kind kind, sc_image_reduce reduce,
                     int gives, int gets)
{
    char from[64], to[64];
    uint32_t all = c->groups.count > 0 ? 0 : image_group(c, "tp", NULL);
    uint32_t move =
        image_collective(c, kind, reduce, all, SC_DTYPE_i32, gives > gets ? gives : gets);
    if (kind == SC_IMAGE_PERMUTE) {
        sc_image_collective *ring = &c->collectives.data[move];
        ring->source_count = (uint32_t)n;
        ring->sources = sc_arena_array(&c->arena, (size_t)n, sizeof *ring->sources);
        for (int i = 0; i < n; i++)
            ring->sources[i] = (uint32_t)(i + 1) % (uint32_t)n;
    }
    snprintf(from, sizeof from, "i32[T=%d@tp, K=%d]", n, gives);
    snprintf(to, sizeof to, "i32[T=%d@tp, K=%d]", n, gets);
    uint32_t x = image_input(c, "x", from, -1), y = image_buffer(c, SC_BUFFER_COMM, gets * 4, "y");
    image_move(c, move, x, y);
    image_output(c, "y", to, y);
    image_func(c, sc_collectives[kind].name);
}

/* What the collective makes element k of row r. */
static int32_t moved(int32_t (*x)[12], int n, sc_image_collective_kind kind, int r, int k)
{
    int32_t sum = 0, most = x[0][k];
    switch (kind) {
    case SC_IMAGE_ALL_GATHER:
        return x[k / 3][k % 3];
    case SC_IMAGE_ALL_TO_ALL:
        return x[k / 3][3 * r + k % 3];
    case SC_IMAGE_PERMUTE:
        return x[(r + 1) % n][k];
    case SC_IMAGE_BROADCAST:
        return x[0][k];
    case SC_IMAGE_REDUCE_SCATTER:
        for (int i = 0; i < n; i++)
            sum += x[i][3 * r + k];
        return sum;
    default:
        for (int i = 1; i < n; i++)
            most = x[i][k] > most ? x[i][k] : most;
        return most;
    }
}

static void every_collective_moves_what_it_should(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        image_case c;
        image_begin(&c, 1, (uint64_t)n);
        const int sizes[6][2] = {{3, 3 * n}, {3 * n, 3}, {3, 3}, {3 * n, 3 * n}, {3, 3}, {3, 3}};
        for (int kind = 0; kind < 6; kind++)
            add_move(&c, n, (sc_image_collective_kind)kind,
                     kind == SC_IMAGE_REDUCE_SCATTER ? SC_IMAGE_SUM
                     : kind == SC_IMAGE_ALL_REDUCE   ? SC_IMAGE_MAX
                                                     : SC_IMAGE_WHOLE,
                     sizes[kind][0], sizes[kind][1]);
        shardc_executable *program = image_executable(&c);
        shardc_session *session = session_of(program);
        for (uint32_t kind = 0; kind < 6; kind++) {
            int32_t rows[4][12], x[4 * 12], y[4 * 12];
            for (int i = 0; i < n * sizes[kind][0]; i++)
                x[i] = rows[i / sizes[kind][0]][i % sizes[kind][0]] = i * 37 % 101;
            shardc_feed_value feed = {"x", x, (size_t)(n * sizes[kind][0]) * sizeof *x, NULL};
            SUCCEED(shardc_session_run(session, kind, &feed, 1,
                                       (shardc_fetch_value[]){{0, y, sizeof y, NULL}}, 1, &error));
            for (int i = 0; i < n * sizes[kind][1]; i++)
                assert_int_equal(y[i], moved(rows, n, (sc_image_collective_kind)kind,
                                             i / sizes[kind][1], i % sizes[kind][1]));
        }
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
}

/* All ranks run one list, and a peer is a sum of digits of the rank, which for the first rank is
 * itself: nobody can be sent to, however the program is written. That is an error of every rank,
 * with which the session goes on. */
static void messages_go_nowhere(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 3; n++) {
        image_case c;
        image_begin(&c, 1, n);
        add_move(&c, (int)n, SC_IMAGE_ALL_REDUCE, SC_IMAGE_SUM, 1, 1);
        for (sc_image_collective_kind kind = SC_IMAGE_SEND; kind <= SC_IMAGE_RECV; kind++) {
            uint32_t one = image_collective(&c, kind, SC_IMAGE_WHOLE, 0, SC_DTYPE_i32, 1);
            if (n == 3)
                c.collectives.data[one].to = c.collectives.data[one].from =
                    image_terms(&c, "tp", 1);
            uint32_t start =
                image_instr(&c, SC_INSTR_COLLECTIVE, one, 1,
                            (uint32_t[]){image_buffer(&c, SC_BUFFER_COMM, 4, "message")});
            c.instrs.data[start].stream = 1;
            image_instr(&c, SC_INSTR_FINISH, start, 0, NULL);
            image_func(&c, sc_collectives[kind].name);
        }
        shardc_executable *program = image_executable(&c);
        shardc_session *session = session_of(program);
        int32_t x[] = {1, 2, 3}, y[3];
        shardc_feed_value feed = {"x", x, n * sizeof *x, NULL};
        shardc_error why;
        for (uint32_t func = 1; func <= 2; func++) {
            assert_int_not_equal(shardc_session_run(session, func, NULL, 0, NULL, 0, &why),
                                 SHARDC_OK);
            if (strstr(why.text, func == 1 ? "send: `to` is the rank itself"
                                           : "recv: `from` is the rank itself") == NULL)
                fail_msg("'%s'", why.text);
            SUCCEED(shardc_session_run(session, 0, &feed, 1,
                                       (shardc_fetch_value[]){{0, y, sizeof y, NULL}}, 1, &error));
            assert_int_equal(y[0], n * (n + 1) / 2);
        }
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
}

/* Threads are shared out, and kernels ask the OpenMP that they were linked with. */
static void every_rank_has_its_team(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads < 2 * LARGEST_TEAM + 2; threads++) {
        image_case c;
        shardc_session *session = NULL;
        int32_t sizes[2];
        image_begin(&c, 1, 2);
        image_compile(&c, "#include <omp.h>\n#include <stdint.h>\n"
                          "int64_t k_team(void *const *args, const int64_t *params) { *(int32_t "
                          "*)args[0] = omp_get_max_threads(); return 0; }\n");
        uint32_t y = image_buffer(&c, SC_BUFFER_ACT, 4, "y");
        image_instr(&c, SC_INSTR_KERNEL, image_kernel(&c, "k_team", "o", (int64_t[]){4}, 0, NULL),
                    1, (uint32_t[]){y});
        image_output(&c, "y", "i32[T=2@tp]", y);
        image_func(&c, "team");
        shardc_executable *program = image_executable(&c);
        SUCCEED(shardc_session_new(program, &(shardc_session_options){.threads = threads}, &session,
                                   &error));
        SUCCEED(shardc_session_run(session, 0, NULL, 0,
                                   (shardc_fetch_value[]){{0, sizes, sizeof sizes, NULL}}, 1,
                                   &error));
        for (int r = 0; r < 2; r++)
            assert_int_equal(sizes[r], threads < 4 ? 1 : threads / 2);
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
}

/* ---- state ---- */

static double initial_value(sc_init_kind kind, const double args[2], const char *path,
                            uint64_t index)
{
    double value;
    sc_init_values(kind, args, 9, sc_fnv1a64(path, strlen(path)), index, 1, &value);
    return value;
}

static void initial_values_are_those_of_one_device(void **state)
{
    (void)state;
    const double bias_args[2] = {-1, 3}, w_args[2] = {0.3, 0};
    for (int m = 0; m < MESHES; m++) {
        image_case c;
        shardc_executable *program = step_program(&c, meshes[m][0], meshes[m][1]);
        shardc_session *session = session_of(program);
        float w[STEP_D * STEP_H], bias[STEP_H];
        double master[STEP_D * STEP_H];
        shardc_session_set_random(session, 9, 0, 0);
        SUCCEED(shardc_session_initialise(session, &error));
        SUCCEED(shardc_session_get_state(session, 0, w, sizeof w, NULL, &error));
        SUCCEED(shardc_session_get_state(session, 1, bias, sizeof bias, NULL, &error));
        SUCCEED(shardc_session_get_state(session, 3, master, sizeof master, NULL, &error));
        for (uint64_t i = 0; i < STEP_D * STEP_H; i++) {
            double value = initial_value(SC_INIT_NORMAL, w_args, "w", i);
            assert_true(w[i] == (float)value && master[i] == value && value != 0);
        }
        for (uint64_t i = 0; i < STEP_H; i++)
            assert_true(bias[i] == (float)initial_value(SC_INIT_UNIFORM, bias_args, "bias", i));
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
}

/* Large ones are drawn by several threads, in parts. */
static void large_states_begin_alike(void **state)
{
    (void)state;
    enum { D = 37, H = 1101 };
    double *values[3], *out = calloc(D * H, sizeof *out);
    const double args[2] = {0.1, 0};
    for (int m = 0; m < 3; m++) {
        image_case c;
        shardc_session *session = NULL;
        image_begin(&c, (uint64_t)m + 1, 2);
        image_state(&c, SC_STATE_PARAM, "a", "bf16[D=37, H=1101]", SC_INIT_NORMAL, 0.1, 0);
        image_state(&c, SC_STATE_PARAM, "b", "f64[D=37@dp, H=1101@tp]", SC_INIT_NORMAL, 0.1, 0);
        shardc_executable *program = image_executable(&c);
        SUCCEED(shardc_session_new(
            program, &(shardc_session_options){.threads = LARGEST_TEAM * 2 * ((uint32_t)m + 1)},
            &session, &error));
        shardc_session_set_random(session, 9, 0, 0);
        SUCCEED(shardc_session_initialise(session, &error));
        values[m] = calloc(D * H, sizeof *out);
        SUCCEED(shardc_session_get_state(session, 1, values[m], D * H * sizeof *out, NULL, &error));
        assert_memory_equal(values[m], values[0], D * H * sizeof *out);
        SUCCEED(shardc_session_get_state(session, 0, out, D * H * sizeof *out, "f64", &error));
        for (uint64_t i = 0; i < D * H; i++) {
            uint16_t rounded;
            sc_element_store(SC_ELEMENT_BF16, &rounded, 0,
                             initial_value(SC_INIT_NORMAL, args, "a", i));
            assert_true(out[i] == sc_element_load(SC_ELEMENT_BF16, &rounded, 0));
            assert_true(values[0][i] == initial_value(SC_INIT_NORMAL, args, "b", i));
        }
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
    for (int m = 0; m < 3; m++)
        free(values[m]);
    free(out);
}

static void state_goes_in_and_comes_out(void **state)
{
    (void)state;
    for (int m = 0; m < MESHES; m++) {
        image_case c;
        shardc_executable *program = step_program(&c, meshes[m][0], meshes[m][1]);
        shardc_session *session = session_of(program);
        double w[STEP_D * STEP_H], out[STEP_D * STEP_H], total = 0.1;
        for (int i = 0; i < STEP_D * STEP_H; i++)
            w[i] = 1.0 / (i + 3);
        SUCCEED(shardc_session_set_state(session, 0, w, sizeof w, "f64", &error));
        SUCCEED(shardc_session_get_state(session, 0, out, sizeof out, "f64", &error));
        for (int i = 0; i < STEP_D * STEP_H; i++)
            assert_true(out[i] == (double)(float)w[i]);
        /* its master was set with it, and is exact */
        SUCCEED(shardc_session_get_state(session, 3, out, sizeof out, NULL, &error));
        assert_memory_equal(out, w, sizeof w);
        /* one of dp takes it, the others nothing */
        SUCCEED(shardc_session_set_state(session, 2, &total, sizeof total, "f64", &error));
        SUCCEED(shardc_session_get_state(session, 2, out, sizeof out, "f64", &error));
        assert_true(out[0] == (double)0.1f);
        for (uint32_t rank = 0; rank < meshes[m][0] * meshes[m][1]; rank++) {
            shardc_tensor_info info;
            int64_t first[SHARDC_TENSOR_MAX_RANK];
            const float *shard = shardc_session_local_state(session, 0, rank);
            shardc_executable_state(program, 0, &info);
            assert_int_equal(shardc_tensor_shard(&info, rank, first), rank / meshes[m][1] == 0);
            for (int64_t d = 0; d < info.dims[0].local; d++) {
                for (int64_t h = 0; h < info.dims[1].local; h++) {
                    bool is_padding = first[1] + h >= STEP_H;
                    float expected = is_padding ? 0 : (float)w[d * STEP_H + first[1] + h];
                    assert_true(shard[d * info.dims[1].local + h] == expected);
                }
            }
        }
        assert_null(shardc_session_local_state(session, 0, 9));
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
}

/* Written on one mesh, read on another. */
static void files_carry_state_over(void **state)
{
    (void)state;
    char path[] = "/tmp/shardc_session_XXXXXX";
    assert_true(mkdtemp(path) != NULL);
    char file[64];
    snprintf(file, sizeof file, "%s/s.safetensors", path);
    image_case c[2];
    shardc_executable *programs[2] = {step_program(&c[0], 2, 2), step_program(&c[1], 1, 4)};
    shardc_session *from = session_of(programs[0]), *to = session_of(programs[1]);
    double w[2][STEP_D * STEP_H];
    shardc_session_set_random(from, 5, 0, 0);
    SUCCEED(shardc_session_initialise(from, &error));
    SUCCEED(shardc_session_save(from, file, true, &error));
    SUCCEED(shardc_session_load(to, file, true, &error));
    for (uint32_t s = 0; s < 4; s += 3) { /* the parameter, and the master in its own precision */
        SUCCEED(shardc_session_get_state(from, s, w[0], sizeof w[0], "f64", &error));
        SUCCEED(shardc_session_get_state(to, s, w[1], sizeof w[1], "f64", &error));
        assert_memory_equal(w[0], w[1], sizeof w[0]);
    }
    assert_true(w[0][0] != (double)(float)w[0][0]);
    /* parameters alone: the master becomes what the parameter is */
    SUCCEED(shardc_session_load(to, file, false, &error));
    SUCCEED(shardc_session_get_state(to, 3, w[1], sizeof w[1], "f64", &error));
    assert_true(w[1][0] == (double)(float)w[0][0]);
    SUCCEED(shardc_session_save(from, file, false, &error));
    shardc_error why = {.status = SHARDC_OK};
    assert_int_equal(shardc_session_load(to, file, true, &why), SHARDC_ERROR_DATA);
    assert_non_null(strstr(why.text, "has no tensor 'w.master'"));
    assert_int_equal(shardc_session_load(to, path, true, &why), SHARDC_ERROR_DATA);
    unlink(file);
    assert_int_equal(shardc_session_load(to, path, true, &why), SHARDC_ERROR_DATA);
    rmdir(path);
    for (int i = 0; i < 2; i++) {
        shardc_session_free(i == 0 ? from : to);
        shardc_executable_free(programs[i]);
        sc_arena_free(&c[i].arena);
    }
}

/* ---- errors ---- */

static void a_check_that_fails_is_named(void **state)
{
    (void)state;
    for (int m = 0; m < MESHES; m++) {
        image_case c;
        shardc_executable *program = step_program(&c, meshes[m][0], meshes[m][1]);
        shardc_session *session = session_of(program);
        step_data d = make_data(), bad = d;
        float total;
        shardc_error why = {.status = SHARDC_OK};
        shardc_feed_value feeds[] = {{"ids", bad.ids, sizeof bad.ids, NULL},
                                     {"x", bad.x, sizeof bad.x, NULL}};
        set_weights(session, &d);
        bad.ids[STEP_ROWS + 6] = 100; /* the last row of the second micro-batch */
        assert_int_equal(
            shardc_session_step(session, feeds, 2,
                                (shardc_fetch_value[]){{0, &total, sizeof total, NULL}}, 1, &why),
            SHARDC_ERROR_DATA);
        char expected[64];
        int64_t rows = (STEP_ROWS + (int64_t)meshes[m][0] - 1) / (int64_t)meshes[m][0];
        snprintf(expected, sizeof expected, "rows of layers[0]: id 100 is 100 or more (rank %d)",
                 (int)(6 / rows * (int64_t)meshes[m][1]));
        assert_string_equal(why.text, expected);
        assert_int_equal(why.status, SHARDC_ERROR_DATA);
        bad.ids[STEP_ROWS + 6] = -70000;
        assert_int_equal(shardc_session_step(session, feeds, 2, NULL, 0, &why), SHARDC_ERROR_DATA);
        assert_non_null(strstr(why.text, "rows of layers[0]: id -70000 is negative (rank "));
        total = 0;
        SUCCEED(shardc_session_set_state(session, 2, &total, sizeof total, NULL, &error));
        assert_true(run_step(session, &d) == d.total); /* and it goes on */
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
    }
}

static void a_rank_that_comes_too_late_is_named(void **state)
{
    (void)state;
    image_case c;
    shardc_executable *program = step_program(&c, 1, 3);
    shardc_session *session;
    step_data d = make_data();
    uint32_t wait = shardc_executable_find_func(program, "wait");
    /* far beyond the deadline, which a loaded machine may not miss when nobody is late */
    int32_t ms = 3500;
    shardc_error why = {.status = SHARDC_OK};
    SUCCEED(shardc_session_new(
        program, &(shardc_session_options){.threads = 1, .deadline_ms = 2000}, &session, &error));
    assert_int_equal(shardc_session_run(session, wait,
                                        (shardc_feed_value[]){{"ms", &ms, sizeof ms, NULL}}, 1,
                                        NULL, 0, &why),
                     SHARDC_ERROR_TIMEOUT);
    assert_non_null(strstr(why.text, "1"));
    ms = 0;
    SUCCEED(shardc_session_run(session, wait, (shardc_feed_value[]){{"ms", &ms, sizeof ms, NULL}},
                               1, NULL, 0, &error));
    set_weights(session, &d);
    assert_true(run_step(session, &d) == d.total);
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    image_case c;
    shardc_executable *program = step_program(&c, 2, 1);
    shardc_session *session = session_of(program);
    step_data d = make_data();
    shardc_error why = {.status = SHARDC_OK};
    uint32_t micro = shardc_executable_find_func(program, "micro");
    shardc_feed_value feeds[] = {{"x", d.x, sizeof d.x / STEP_BATCHES, NULL},
                                 {"ids", d.ids, sizeof d.ids / STEP_BATCHES, NULL},
                                 {"z", d.x, sizeof d.x, NULL},
                                 {"x", d.x, sizeof d.x, NULL}};
#define REFUSED(call, expected, part)                                                              \
    do {                                                                                           \
        assert_int_equal(call, expected);                                                          \
        if (strstr(why.text, part) == NULL)                                                        \
            fail_msg("'%s', not '%s'", why.text, part);                                            \
    } while (0)
    REFUSED(shardc_session_run(session, 9, feeds, 2, NULL, 0, &why), SHARDC_ERROR_ARGUMENT,
            "no function 9");
    REFUSED(shardc_session_run(session, micro, feeds, 1, NULL, 0, &why), SHARDC_ERROR_ARGUMENT,
            "input 'ids' of 'micro' is not given");
    REFUSED(shardc_session_run(session, micro, feeds, 3, NULL, 0, &why), SHARDC_ERROR_ARGUMENT,
            "no input 'z'; 'micro' has x, ids");
    feeds[2] = feeds[3];
    REFUSED(shardc_session_run(session, micro, feeds, 3, NULL, 0, &why), SHARDC_ERROR_ARGUMENT,
            "'x' is given twice");
    feeds[0].dtype = "f31";
    REFUSED(shardc_session_run(session, micro, feeds, 2, NULL, 0, &why), SHARDC_ERROR_ARGUMENT,
            "no dtype 'f31'");
    feeds[0].dtype = NULL;
    float y[STEP_ROWS * STEP_H];
    REFUSED(shardc_session_run(session, micro, feeds, 2,
                               (shardc_fetch_value[]){{1, y, sizeof y, NULL}}, 1, &why),
            SHARDC_ERROR_ARGUMENT, "output 1 of");
    REFUSED(shardc_session_run(session, micro, feeds, 2, (shardc_fetch_value[]){{0, NULL, 0, NULL}},
                               1, &why),
            SHARDC_ERROR_ARGUMENT, "no room");
    feeds[0].bytes /= 2;
    REFUSED(shardc_session_run(session, micro, feeds, 2, NULL, 0, &why), SHARDC_ERROR_ARGUMENT,
            "input 'x' is f32[B = 7, D = 5]: 140 bytes as f32, not 70");
    feeds[0].bytes = sizeof d.x / STEP_BATCHES;
    REFUSED(shardc_session_run(session, micro, feeds, 2,
                               (shardc_fetch_value[]){{0, y, sizeof y, "f64"}}, 1, &why),
            SHARDC_ERROR_ARGUMENT, "output 'y' is f32[B = 7, H = 6]: 336 bytes as f64, not 168");
    REFUSED(shardc_session_step(session, feeds, 2, NULL, 0, &why), SHARDC_ERROR_ARGUMENT,
            "input 'x' is f32[B = 14, D = 5]: 280 bytes");
    REFUSED(shardc_session_set_state(session, 0, d.w, sizeof d.w - 1, NULL, &why),
            SHARDC_ERROR_ARGUMENT, "state 'w' is f32[D = 5, H = 6]: 120 bytes as f32, not 119");
    REFUSED(shardc_session_get_state(session, 0, y, 119, NULL, &why), SHARDC_ERROR_ARGUMENT,
            "120 bytes as f32, not 119");
    REFUSED(shardc_session_set_state(session, 0, NULL, sizeof d.w, NULL, &why),
            SHARDC_ERROR_ARGUMENT, "no memory is given for state");
    float ids[STEP_ROWS] = {1, 2, 3, 4, 5, 2.5F, 7};
    feeds[1] = (shardc_feed_value){"ids", ids, sizeof ids, "f32"};
    REFUSED(shardc_session_run(session, micro, feeds, 2, NULL, 0, &why), SHARDC_ERROR_DATA,
            "input 'ids' is 2.5 at [B = 5], which is not a valid i32; nothing was run");
    REFUSED(shardc_session_set_state(session, 4, y, sizeof y, NULL, &why), SHARDC_ERROR_ARGUMENT,
            "no state 4");
    REFUSED(shardc_session_get_state(session, 4, y, sizeof y, NULL, &why), SHARDC_ERROR_ARGUMENT,
            "no state 4");
    assert_int_equal(shardc_executable_find_state(program, "v"), SHARDC_NOT_FOUND);
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    image_begin(&c, 1, 1);
    c.image.target = "tpu";
    program = image_executable(&c);
    REFUSED(shardc_session_new(program, NULL, &session, &why), SHARDC_ERROR_UNAVAILABLE,
            "for target 'tpu'");
    assert_null(session);
    shardc_executable_free(program);
    c.image.target = "cpu";
    c.image.cpu = sc_arena_printf(&c.arena, "%s avx1024", sc_cpu_features(&c.arena));
    program = image_executable(&c);
    REFUSED(shardc_session_new(program, NULL, &session, &why), SHARDC_ERROR_UNAVAILABLE,
            "a CPU with 'avx1024', which this one lacks");
    shardc_executable_free(program);
    c.image.cpu = sc_cpu_features(&c.arena);
    image_kernel(&c, "k_missing", "", NULL, 0, NULL);
    c.image.target = "cpu";
    image_compile(&c, "int k_there;");
    program = image_executable(&c);
    REFUSED(shardc_session_new(program, NULL, &session, &why), SHARDC_ERROR_DEVICE, "k_missing");
    shardc_executable_free(program);
    c.image.object = (const uint8_t *)"no object";
    c.image.object_bytes = 9;
    program = image_executable(&c);
    REFUSED(shardc_session_new(program, NULL, &session, &why), SHARDC_ERROR_DEVICE, "");
    shardc_executable_free(program);
    c.image.arena_bytes = INT64_MAX / 2;
    program = image_executable(&c);
    REFUSED(shardc_session_new(program, NULL, &session, &why), SHARDC_ERROR_MEMORY,
            "GiB of memory");
    shardc_executable_free(program);
    REFUSED(shardc_executable_open("/nowhere/at/all", &program, &why), SHARDC_ERROR_DATA,
            "cannot read /nowhere/at/all");
    assert_null(program);
    sc_arena_free(&c.arena);
}

/* ---- sessions beside each other, measures ---- */

static void *session_main(void *user)
{
    const shardc_executable *program = user;
    step_data d = make_data();
    shardc_session *session = NULL;
    bool ok = shardc_session_new(program, &(shardc_session_options){.threads = 1}, &session,
                                 NULL) == SHARDC_OK &&
              shardc_session_set_state(session, 0, d.w, sizeof d.w, NULL, NULL) == SHARDC_OK &&
              shardc_session_set_state(session, 1, d.bias, sizeof d.bias, NULL, NULL) == SHARDC_OK;
    for (int i = 0; ok && i < 20; i++) {
        float total = NAN;
        shardc_feed_value feeds[] = {{"ids", d.ids, sizeof d.ids, NULL},
                                     {"x", d.x, sizeof d.x, NULL}};
        ok = shardc_session_step(session, feeds, 2,
                                 (shardc_fetch_value[]){{0, &total, sizeof total, NULL}}, 1,
                                 NULL) == SHARDC_OK &&
             total == d.total;
    }
    shardc_session_free(session);
    return ok ? NULL : user;
}

static void sessions_do_not_know_of_each_other(void **state)
{
    (void)state;
    image_case c;
    shardc_executable *program = step_program(&c, 2, 1);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, session_main, program);
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
}

typedef struct trace_counts {
    _Atomic uint32_t events, waits;
    _Atomic bool is_bad;
} trace_counts;

static void count_event(void *user, const shardc_trace_event *event)
{
    trace_counts *counts = user;
    atomic_fetch_add(&counts->events, 1);
    atomic_fetch_add(&counts->waits,
                     event->work == SHARDC_WORK_WAIT && strcmp(event->title, "all_reduce") == 0);
    if (event->end < event->begin || strcmp(event->where, "layers[0]") != 0 ||
        strcmp(event->phase, "forward") != 0)
        atomic_store(&counts->is_bad, true);
}

static void runs_are_measured(void **state)
{
    (void)state;
    image_case c;
    shardc_executable *program = step_program(&c, 2, 2);
    shardc_session *session = session_of(program);
    step_data d = make_data();
    trace_counts counts = {0};
    shardc_func_profile profile;
    uint32_t micro = shardc_executable_find_func(program, "micro"),
             update = shardc_executable_find_func(program, "update");
    shardc_session_set_trace(session, count_event, &counts);
    run_step(session, &d);
    shardc_session_set_trace(session, NULL, NULL);
    run_step(session, &d);
    assert_false(counts.is_bad);
    assert_int_equal(counts.events, 4 * (2 * 5 + 4)); /* ranks, micro-batches, instructions */
    assert_int_equal(counts.waits, 4 * (2 * 1 + 1));
    for (uint32_t rank = 0; rank < 4; rank++) {
        shardc_session_profile(session, micro, rank, &profile);
        assert_int_equal(profile.calls, 4);
        assert_int_equal(profile.collectives[SC_IMAGE_ALL_REDUCE], 4);
        /* 2 b (n - 1) / n of 4 bytes, n = 2 */
        assert_true(profile.sent[SC_IMAGE_ALL_REDUCE] == 4 * 4.0);
        assert_true(profile.work[SHARDC_WORK_GEMM] > 0 && profile.work[SHARDC_WORK_COPY] == 0 &&
                    profile.seconds > profile.work[SHARDC_WORK_GEMM]);
        shardc_session_profile(session, update, rank, &profile);
        assert_int_equal(profile.calls, 2);
        assert_true(profile.work[SHARDC_WORK_COPY] > 0);
    }
    shardc_session_reset_profile(session);
    shardc_session_profile(session, micro, 3, &profile);
    assert_int_equal(profile.calls, 0);
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_the_same_on_every_mesh),
        cmocka_unit_test(a_function_gives_whole_values),
        cmocka_unit_test(kernels_get_their_parameters),
        cmocka_unit_test(every_collective_moves_what_it_should),
        cmocka_unit_test(messages_go_nowhere),
        cmocka_unit_test(every_rank_has_its_team),
        cmocka_unit_test(initial_values_are_those_of_one_device),
        cmocka_unit_test(large_states_begin_alike),
        cmocka_unit_test(state_goes_in_and_comes_out),
        cmocka_unit_test(files_carry_state_over),
        cmocka_unit_test(a_check_that_fails_is_named),
        cmocka_unit_test(a_rank_that_comes_too_late_is_named),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(sessions_do_not_know_of_each_other),
        cmocka_unit_test(runs_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
