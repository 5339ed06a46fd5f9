/* The device `cuda` on stubs of its libraries: what it puts on streams gives what a CPU gives, in
 * any order that streams leave open; and what a machine lacks is said before anything is allocated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "support/rng.h"
#include "test/unit/helpers/cuda_steps.h"
#include "test/unit/helpers/gemm_blas_case.h"

static void a_step_runs(void **state)
{
    (void)state;
    static const uint64_t meshes[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 2}};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        expect_steps(meshes[m][0], meshes[m][1], 6);
}

static void steps_give_whole_values(void **state)
{
    (void)state;
    step_data d = make_data();
    image_case c;
    shardc_executable *program = cuda_step_program(&c, 2, 2);
    shardc_session *session = session_of(program);
    float y[STEP_ROWS * STEP_H], w[STEP_D * STEP_H], total;
    set_weights(session, &d);
    SUCCEED(shardc_session_get_state(session, shardc_executable_find_state(program, "w"), w,
                                     sizeof w, NULL, &error));
    assert_memory_equal(w, d.w, sizeof w);
    assert_null(shardc_session_local_state(session, 0, 0));
    for (int batch = 0; batch < STEP_BATCHES; batch++) {
        shardc_feed_value feeds[] = {
            {"x", d.x + batch * STEP_ROWS * STEP_D, sizeof d.x / STEP_BATCHES, NULL},
            {"ids", d.ids + batch * STEP_ROWS, sizeof d.ids / STEP_BATCHES, NULL}};
        SUCCEED(shardc_session_run(session, shardc_executable_find_func(program, "micro"), feeds, 2,
                                   (shardc_fetch_value[]){{0, y, sizeof y, NULL}}, 1, &error));
        assert_memory_equal(y, d.y + batch * STEP_ROWS * STEP_H, sizeof y);
    }
    SUCCEED(shardc_session_get_state(session, shardc_executable_find_state(program, "total"),
                                     &total, sizeof total, NULL, &error));
    assert_true(total == d.total);
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

static void expect_parameters(shardc_session *session, uint64_t dp, uint64_t tp, uint64_t seed,
                              uint64_t step, uint32_t micro)
{
    int64_t seen[8][4];
    uint32_t key[2];
    shardc_session_set_random(session, seed, step, micro);
    sc_rng_key(seed, sc_fnv1a64("a.path", 6), key);
    SUCCEED(shardc_session_run(session, shardc_executable_find_func(session->program, "who"), NULL,
                               0, (shardc_fetch_value[]){{0, seen, sizeof seen, NULL}}, 1, &error));
    for (uint64_t rank = 0; rank < dp * tp; rank++) {
        assert_int_equal(seen[rank][0], rank / tp * 10 + rank % tp);
        assert_true((uint64_t)seen[rank][1] == ((uint64_t)key[1] << 32 | key[0]));
        assert_int_equal(seen[rank][2], step & UINT32_MAX);
        assert_int_equal(seen[rank][3], micro);
    }
}

/* A graph keeps parameters as they were: what changes from call to call must not be kept. */
static void parameters_change_between_calls(void **state)
{
    (void)state;
    static const uint64_t meshes[][2] = {{1, 1}, {2, 2}};
    for (int m = 0; m < 2; m++) {
        image_case c;
        shardc_executable *program = cuda_step_program(&c, meshes[m][0], meshes[m][1]);
        shardc_session *session = session_of(program);
        for (uint64_t i = 0; i < 24; i++)
            expect_parameters(session, meshes[m][0], meshes[m][1], 42 + i / 8, 0x1234567890u + i,
                              (uint32_t)(i / 2 % 2));
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

/* From the third run on at the latest; not when instructions are measured, or graphs are not
 * wanted. */
static void functions_become_graphs(void **state)
{
    (void)state;
    step_data d = make_data();
    enum { AS_GRAPHS, MEASURED, NO_GRAPHS, WAYS };
    for (int way = 0; way < WAYS; way++) {
        image_case c;
        shardc_session *session = NULL;
        shardc_executable *program = cuda_step_program(&c, 1, 1);
        SUCCEED(shardc_session_new(
            program, &(shardc_session_options){.threads = 1, .profile = way == MEASURED}, &session,
            &error));
        session->no_graphs = way == NO_GRAPHS;
        set_weights(session, &d);
        uint64_t before = stub.sc_stub_replays(), launches = stub.sc_stub_launches();
        for (int run = 0; run < 5; run++)
            assert_true(run_step(session, &d) == d.total);
        assert_int_equal(stub.sc_stub_replays() - before,
                         way == AS_GRAPHS ? 4 * (STEP_BATCHES + 1) : 0);
        assert_int_equal(stub.sc_stub_launches() - launches, 5 * (2 * STEP_BATCHES + 1));
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

static void a_check_that_fails_is_said(void **state)
{
    (void)state;
    step_data d = make_data();
    for (uint64_t seed = 0; seed < 6; seed++) {
        image_case c;
        stub.sc_stub_seed(seed);
        shardc_executable *program = cuda_step_program(&c, 2, 1);
        shardc_session *session = session_of(program);
        set_weights(session, &d);
        for (int run = 0; run < 3; run++) {
            shardc_error why = {.status = SHARDC_OK};
            step_data bad = d;
            shardc_feed_value feeds[] = {{"ids", bad.ids, sizeof bad.ids, NULL},
                                         {"x", bad.x, sizeof bad.x, NULL}};
            /* rank 1 has rows 4 to 6: the second check, then the first, and of its values one */
            bad.ids[5] = -7;
            bad.ids[4] = 100;
            bad.ids[6] = -9;
            assert_int_equal(shardc_session_step(session, feeds, 2, NULL, 0, &why),
                             SHARDC_ERROR_DATA);
            assert_string_equal(why.text, "rows of layers[0]: id -9 is negative (rank 1)");
            set_weights(session, &d);
            SUCCEED(shardc_session_set_state(session,
                                             shardc_executable_find_state(program, "total"),
                                             &(float){0}, sizeof(float), NULL, &error));
            assert_true(run_step(session, &d) == d.total); /* the session goes on */
        }
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

/* ---- stages ---- */

/* Sums of 64 elements by the blocks of stage 0 into scratch, with more shared memory than a block
 * has without asking; stage 1 adds them. */
static const char stage_kernels[] = "SC_KERNEL(64, 1) void k_sum_0(const int32_t *x, int64_t *y, "
                                    "int64_t *parts, int64_t scale, const "
                                    "int64_t *sc_call, uint64_t *sc_failure)\n"
                                    "{\n"
                                    "    sc_shared_ptr<int64_t> s = sc_shared<int64_t>(50000);\n"
                                    "    int t = sc_thread();\n"
                                    "    s[t] = x[sc_block() * 64 + t];\n"
                                    "    sc_sync();\n"
                                    "    int64_t sum = 0;\n"
                                    "    for (int i = 0; i < 64 && t == 0; i++)\n"
                                    "        sum += s[i];\n"
                                    "    if (t == 0)\n"
                                    "        parts[sc_block()] = sum;\n"
                                    "}\n"
                                    "SC_KERNEL(32, 1) void k_sum_1(const int32_t *x, int64_t *y, "
                                    "int64_t *parts, int64_t scale, const "
                                    "int64_t *sc_call, uint64_t *sc_failure)\n"
                                    "{\n"
                                    "    int64_t sum = 0;\n"
                                    "    for (int i = 0; i < 7; i++)\n"
                                    "        sum += parts[i];\n"
                                    "    if (sc_thread() == 0)\n"
                                    "        *y = sum * (1 + scale) + sc_call[0];\n"
                                    "}\n";

static void stages_share_scratch(void **state)
{
    (void)state;
    image_case c;
    cuda_begin(&c, 1, 1);
    uint32_t x = image_input(&c, "x", "i32[K=448]", -1);
    uint32_t y = image_buffer(&c, SC_BUFFER_ACT, 8, "y"),
             copied = image_buffer(&c, SC_BUFFER_ACT, 8, "copied");
    uint32_t scratch = image_buffer(&c, SC_BUFFER_WORKSPACE, 56, "scratch");
    uint32_t k = image_kernel(&c, "k_sum", "ioo", (int64_t[]){448 * 4, 8, 56}, 1, NULL);
    cuda_stage(&c, k, 7, 64, 50000 + 512);
    cuda_stage(&c, k, 1, 32, 0);
    image_instr(&c, SC_INSTR_KERNEL, k, 3, (uint32_t[]){x, y, scratch});
    image_param(&c, (sc_image_param){.kind = SC_PARAM_MICRO_BATCH});
    image_instr(&c, SC_INSTR_COPY, 0, 2, (uint32_t[]){y, copied});
    image_output(&c, "y", "i64[]", copied);
    image_func(&c, "f");
    cuda_object(&c, stage_kernels, "cubin", 80);
    shardc_executable *program = image_executable(&c);
    shardc_session *session = session_of(program);
    for (int run = 0; run < 8; run++) {
        int32_t values[448];
        int64_t wanted = 0, got = 0;
        stub.sc_stub_seed((uint64_t)run);
        for (int i = 0; i < 448; i++)
            wanted += values[i] = i * 31 % 77 + run;
        shardc_session_set_random(session, 1, (uint64_t)run, (uint32_t)run % 3);
        shardc_feed_value feed = {"x", values, sizeof values, NULL};
        SUCCEED(shardc_session_run(session, 0, &feed, 1,
                                   (shardc_fetch_value[]){{0, &got, sizeof got, NULL}}, 1, &error));
        assert_true(got == wanted * (1 + run % 3) + run);
    }
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

/* PTX where there is no machine code for the GPU, and neither. */
static void modules_that_do_not_fit_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *ending;
        int capability;
        shardc_status status;
    } cases[] = {{"cubin", 80, SHARDC_OK},
                 {"ptx", 80, SHARDC_OK},
                 {"cubin", 90, SHARDC_ERROR_DEVICE},
                 {"ptx", 90, SHARDC_ERROR_DEVICE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        image_case c;
        shardc_session *session = NULL;
        shardc_error why = {.status = SHARDC_OK};
        cuda_begin(&c, 1, 1);
        uint32_t y = image_buffer(&c, SC_BUFFER_ACT, 4, "y");
        image_instr(&c, SC_INSTR_KERNEL, image_kernel(&c, "k_zero", "o", (int64_t[]){4}, 0, NULL),
                    1, &y);
        image_func(&c, "f");
        cuda_object(&c, cuda_step_kernels, cases[i].ending, cases[i].capability);
        shardc_executable *program = image_executable(&c);
        assert_int_equal(shardc_session_new(program, NULL, &session, &why), cases[i].status);
        if (cases[i].status != SHARDC_OK)
            assert_non_null(strstr(why.text, "GPU 0 (stub 0, compute capability 8.0) rejects "
                                             "the program, for cuda:sm_80: k_zero: "
                                             "cuModuleLoadData: no kernel image is available"));
        else
            SUCCEED(shardc_session_run(session, 0, NULL, 0, NULL, 0, &error));
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

/* A module is machine code that stores 1 and PTX that stores 2. */
static void each_gpu_takes_what_it_can(void **state)
{
    (void)state;
    enum { NOTHING, CODE, PTX };
    static const struct {
        const char *target, *gpu;
        int capability, wanted;
        const char *special; /* of the machine code */
    } cases[] = {{"cuda:sm_80", "8.0", 80, CODE, ""},      {"cuda:sm_80", "8.9", 80, CODE, ""},
                 {"cuda:sm_80", "9.0", 80, PTX, ""},       {"cuda:sm_90a", "9.0", 90, CODE, "a"},
                 {"cuda:sm_90a", "10.0", 90, PTX, "a"},    {"cuda:sm_90a", "12.0", 90, PTX, "a"},
                 {"cuda:sm_90a", "8.9", 90, NOTHING, "a"}, {"cuda:sm_100a", "10.3", 100, PTX, "a"},
                 {"cuda:sm_100", "10.3", 100, CODE, ""},   {"cuda:compute_80", "9.0", 80, PTX, ""},
                 {"cuda:sm_86", "8.0", 86, NOTHING, ""}};
    static const char kernel[] =
        "SC_KERNEL(32, 1) void k_say_0(float *y, const int64_t *sc_call, uint64_t *sc_failure)\n"
        "{\n    if (sc_thread() == 0)\n        *y = %d;\n}\n";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        image_case c;
        shardc_session *session = NULL;
        shardc_error why = {.status = SHARDC_OK};
        sc_strbuf bytes;
        cuda_begin(&c, 1, 1);
        c.image.target = cases[i].target;
        uint32_t y = image_buffer(&c, SC_BUFFER_ACT, 4, "y");
        image_instr(&c, SC_INSTR_KERNEL, image_kernel(&c, "k_say", "o", (int64_t[]){4}, 0, NULL), 1,
                    &y);
        image_output(&c, "y", "f32[]", y);
        image_func(&c, "f");
        cuda_stage(&c, 0, 1, 32, 0);
        char *code = sc_arena_printf(&c.arena, kernel, CODE),
             *ptx = sc_arena_printf(&c.arena, kernel, PTX);
        code = sc_arena_printf(&c.arena, SC_STUB_CUBIN "%s", cases[i].capability, cases[i].special,
                               strlen(code), code);
        ptx =
            sc_arena_printf(&c.arena, SC_STUB_PTX "%s", cases[i].capability, "", strlen(ptx), ptx);
        const sc_archive_entry entries[] = {{"k_say.cubin", code, strlen(code) + 1},
                                            {"k_say.ptx", ptx, strlen(ptx) + 1}};
        sc_strbuf_init(&bytes, &c.arena);
        sc_archive_write(entries, 2, &bytes);
        c.image.object = (const uint8_t *)bytes.data;
        c.image.object_bytes = bytes.length;
        shardc_executable *program = image_executable(&c);
        setenv("SHARDC_STUB_CAPABILITY", cases[i].gpu, 1);
        shardc_status status = shardc_session_new(program, NULL, &session, &why);
        unsetenv("SHARDC_STUB_CAPABILITY");
        float got = 0;
        if (cases[i].wanted == NOTHING) {
            assert_int_equal(status, SHARDC_ERROR_UNAVAILABLE);
        } else {
            assert_int_equal(status, SHARDC_OK);
            SUCCEED(shardc_session_run(session, 0, NULL, 0,
                                       (shardc_fetch_value[]){{0, &got, sizeof got, NULL}}, 1,
                                       &error));
            if (got != (float)cases[i].wanted)
                fail_msg("%s on %s: %g", cases[i].target, cases[i].gpu, got);
        }
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

/* What a kernel does wrong is the error of the call, and the session ends in peace. */
static void a_kernel_that_crashes_is_an_error(void **state)
{
    (void)state;
    image_case c;
    shardc_error error = {.status = SHARDC_OK};
    cuda_begin(&c, 1, 1);
    uint32_t y = image_buffer(&c, SC_BUFFER_ACT, 64, "y");
    image_instr(&c, SC_INSTR_KERNEL, image_kernel(&c, "k_wild", "o", (int64_t[]){4}, 0, NULL), 1,
                &y);
    image_func(&c, "f");
    cuda_object(&c,
                "SC_KERNEL(32, 1) void k_wild_0(float *y, const int64_t *sc_call, uint64_t "
                "*sc_failure)\n{\n    y[100 + sc_thread()] = 1;\n}\n",
                "cubin", 80);
    shardc_executable *program = image_executable(&c);
    shardc_session *session = session_of(program);
    assert_int_equal(shardc_session_run(session, 0, NULL, 0, NULL, 0, &error), SHARDC_ERROR_DEVICE);
    assert_non_null(strstr(error.text, "k_wild_0, block 0"));
    assert_int_not_equal(shardc_session_run(session, 0, NULL, 0, NULL, 0, &error), SHARDC_OK);
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

/* ---- products ---- */

enum { PRODUCTS = 160 };

static void operand_feeds(const gemm_case *p, shardc_feed_value *feeds)
{
    static const char *const names[] = {"a", "b", "c"};
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        feeds[o] = (shardc_feed_value){
            names[o], p->values[o],
            (size_t)sc_gemm_extent(&p->gemm, (sc_gemm_operand)o) * sizeof(double), "f64"};
}

static void expect_product(shardc_session *session, uint32_t func, const gemm_case *p)
{
    static const char *const names[] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};
    const sc_gemm *gemm = &p->gemm;
    shardc_feed_value feeds[SC_GEMM_OPERANDS + SC_GEMM_MAX_STEPS];
    operand_feeds(p, feeds);
    uint32_t stores = storing_step(gemm);
    size_t count = SC_GEMM_OPERANDS, extent = (size_t)sc_gemm_extent(gemm, SC_GEMM_C),
           kept_extent =
               stores == SC_GEMM_MAX_STEPS ? 0 : (size_t)sc_gemm_step_extent(gemm, stores);
    double units = unit(gemm->sum) * 16, *before = calloc(kept_extent + 1, sizeof *before);
    if (stores < SC_GEMM_MAX_STEPS)
        memcpy(before, p->tensors[stores], kept_extent * sizeof *before);
    for (uint32_t s = 0; s < gemm->step_count; s++) {
        if (sc_gemm_step_has_tensor(gemm->steps[s].kind)) {
            feeds[count++] =
                (shardc_feed_value){names[s], s == stores ? before : p->tensors[s],
                                    (size_t)sc_gemm_step_extent(gemm, s) * sizeof(double), "f64"};
            units += 2 * unit(gemm->steps[s].dtype);
        }
    }
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        units += 2 * unit(gemm->dtypes[o]);
    double *slacks = calloc(extent + 1, sizeof *slacks), *got = malloc((extent + 1) * sizeof *got);
    double *kept = malloc((kept_extent + 1) * sizeof *kept),
           *kept_slacks = calloc(kept_extent + 1, sizeof *kept_slacks);
    double *step_slacks[SC_GEMM_MAX_STEPS] = {0};
    if (stores < SC_GEMM_MAX_STEPS)
        step_slacks[stores] = kept_slacks;
    double *wanted = gemm_case_reference_of_all(gemm, p->values[0], p->values[1], p->values[2],
                                                p->tensors, slacks, step_slacks);
    for (int run = 0; run < 3; run++) {
        const shardc_fetch_value fetches[] = {{0, got, extent * sizeof *got, "f64"},
                                              {1, kept, kept_extent * sizeof *kept, "f64"}};
        SUCCEED(shardc_session_run(session, func, feeds, count, fetches,
                                   stores < SC_GEMM_MAX_STEPS ? 2 : 1, &error));
        expect_near(gemm, "c", got, wanted, slacks, extent, units);
        if (stores < SC_GEMM_MAX_STEPS)
            expect_near(gemm, "what is kept", kept, p->tensors[stores], kept_slacks, kept_extent,
                        units);
    }
    free(slacks);
    free(kept_slacks);
    free(got);
    free(kept);
    free(before);
    free(wanted);
}

static void products_are_what_they_should(void **state)
{
    (void)state;
    gemm_case *cases = calloc(PRODUCTS, sizeof *cases);
    image_case c;
    uint64_t seed = 11;
    uint32_t with_bias = 0, with_loops = 0, with_activation = 0, accumulates = 0, keeps = 0,
             slopes = 0, totals = 0;
    cuda_begin(&c, 1, 1);
    uint32_t workspace = image_buffer(&c, SC_BUFFER_WORKSPACE, SC_MATMUL_WORKSPACE, "workspace");
    for (uint32_t i = 0; i < PRODUCTS; i++) {
        sc_matmul form;
        draw_product(&cases[i], i % 2 == 1, &seed);
        assert_null(sc_matmul_of(&cases[i].gemm, &form));
        with_bias += form.bias != SC_GEMM_MAX_STEPS;
        with_activation += form.activation != SC_GEMM_STEP_KINDS;
        with_loops += form.loop_count > 0;
        accumulates += form.accumulate;
        keeps += form.aux != SC_GEMM_MAX_STEPS && form.activation != SC_GEMM_GELU_TANH_GRAD;
        totals += form.total != SC_GEMM_MAX_STEPS;
        slopes += form.activation == SC_GEMM_GELU_TANH_GRAD;
        add_product(&c, &cases[i].gemm, workspace);
    }
    if (with_bias < 30 || with_activation < 10 || with_loops < 1 || accumulates < 5 || keeps < 5 ||
        slopes < 5 || totals < 3)
        fail_msg("of %d, %u have a bias, %u an activation, %u loops, %u add to what is there, %u "
                 "keep something, %u have a slope, %u sums",
                 PRODUCTS, with_bias, with_activation, with_loops, accumulates, keeps, slopes,
                 totals);
    cuda_object(&c, "", "cubin", 80);
    shardc_executable *program = image_executable(&c);
    stub.sc_stub_seed(2);
    shardc_session *session = session_of(program);
    for (uint32_t i = 0; i < PRODUCTS; i++) {
        expect_product(session, i, &cases[i]);
        gemm_case_free(&cases[i]);
    }
    free(cases);
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

/* 1 + 2^-9 - 1 is 2^-9 where sums are added up in f32, whatever the library would rather do. */
static void parts_of_sums_are_not_rounded(void **state)
{
    (void)state;
    static const sc_dtype results[] = {SC_DTYPE_bf16, SC_DTYPE_f16};
    static const double small[] = {0x1p-9, 0x1p-12};
    for (int r = 0; r < 2; r++) {
        image_case c;
        sc_gemm gemm = {.dim_count = 1,
                        .dims = {{.role = SC_GEMM_K, .size = 4, .strides = {1, 1, 0}}},
                        .sum = SC_DTYPE_f32};
        for (int o = 0; o < SC_GEMM_OPERANDS; o++)
            gemm.dtypes[o] = results[r];
        assert_null(sc_gemm_invalid(&gemm));
        cuda_begin(&c, 1, 1);
        uint32_t workspace =
            image_buffer(&c, SC_BUFFER_WORKSPACE, SC_MATMUL_WORKSPACE, "workspace");
        add_product(&c, &gemm, workspace);
        cuda_object(&c, "", "cubin", 80);
        shardc_executable *program = image_executable(&c);
        shardc_session *session = session_of(program);
        double a[] = {1, small[r], -1, 0}, b[] = {1, 1, 1, 1}, got[] = {9};
        const shardc_feed_value feeds[] = {
            {"a", a, sizeof a, "f64"}, {"b", b, sizeof b, "f64"}, {"c", got, sizeof got, "f64"}};
        SUCCEED(shardc_session_run(session, 0, feeds, 3,
                                   (shardc_fetch_value[]){{0, got, sizeof got, "f64"}}, 1, &error));
        assert_true(got[0] == small[r]);
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

/* A library without epilogues: what stands in for the product runs, which here adds nothing; where
 * nothing does, that is an error. */
static void a_product_that_the_library_lacks(void **state)
{
    (void)state;
    for (int has_stand_in = 0; has_stand_in < 2; has_stand_in++) {
        image_case c;
        uint64_t seed = 3;
        gemm_case p;
        shardc_session *session = NULL;
        shardc_error refusal = {.status = SHARDC_OK};
        cuda_begin(&c, 1, 1);
        uint32_t workspace =
            image_buffer(&c, SC_BUFFER_WORKSPACE, SC_MATMUL_WORKSPACE, "workspace");
        draw_product(&p, true, &seed);
        while (p.gemm.steps[0].kind != SC_GEMM_ADD || p.gemm.step_count > 1) {
            gemm_case_free(&p);
            draw_product(&p, true, &seed);
        }
        add_product(&c, &p.gemm, workspace);
        if (has_stand_in) {
            sc_image_func *func = &c.funcs.data[0];
            sc_image_instr *instrs = sc_arena_array(&c.arena, 2, sizeof *instrs);
            sc_image_ref *args = sc_arena_array(&c.arena, 4, sizeof *args);
            sc_gemm bare = p.gemm;
            bare.step_count = 0;
            *sc_vec_push(&c.arena, &c.gemms) = bare;
            instrs[0] = instrs[1] = func->instrs[0];
            memcpy(args, func->instrs[0].args, 3 * sizeof *args);
            args[3] = func->instrs[0].args[4];
            instrs[1].index = 1;
            instrs[1].instead = true;
            instrs[1].arg_count = 4;
            instrs[1].args = args;
            func->instrs = instrs;
            func->instr_count = 2;
        }
        cuda_object(&c, "", "cubin", 80);
        shardc_executable *program = image_executable(&c);
        setenv("SHARDC_STUB_CUBLASLT_EPILOGUES", "no", 1);
        shardc_status status = shardc_session_new(program, NULL, &session, &refusal);
        unsetenv("SHARDC_STUB_CUBLASLT_EPILOGUES");
        assert_int_equal(status, has_stand_in ? SHARDC_OK : SHARDC_ERROR_UNAVAILABLE);
        if (has_stand_in) {
            p.gemm.step_count = 0;
            size_t extent = (size_t)sc_gemm_extent(&p.gemm, SC_GEMM_C);
            double *slacks = calloc(extent, sizeof *slacks), *got = malloc(extent * sizeof *got);
            double *wanted = gemm_case_reference_with(&p.gemm, p.values[0], p.values[1],
                                                      p.values[2], p.tensors, slacks);
            shardc_feed_value feeds[SC_GEMM_OPERANDS + 1];
            operand_feeds(&p, feeds);
            p.gemm.step_count = 1;
            feeds[SC_GEMM_OPERANDS] = (shardc_feed_value){
                "t0", p.tensors[0], (size_t)sc_gemm_step_extent(&p.gemm, 0) * sizeof(double),
                "f64"};
            p.gemm.step_count = 0;
            SUCCEED(shardc_session_run(
                session, 0, feeds, 4, (shardc_fetch_value[]){{0, got, extent * sizeof *got, "f64"}},
                1, &error));
            expect_near(&p.gemm, "c", got, wanted, slacks, extent,
                        16 * unit(SC_DTYPE_f32) + 8 * unit(p.gemm.dtypes[0]));
            free(slacks);
            free(got);
            free(wanted);
        } else {
            assert_non_null(
                strstr(refusal.text, "layers[0]: cuBLASLt has no algorithm for a matmul of "));
        }
        shardc_session_free(session);
        shardc_executable_free(program);
        gemm_case_free(&p);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

/* ---- measuring ---- */

static void count_event(void *user, const shardc_trace_event *event)
{
    assert_true(event->begin > 0 && event->end >= event->begin);
    ++*(uint32_t *)user;
}

static void instructions_are_measured(void **state)
{
    (void)state;
    step_data d = make_data();
    image_case c;
    shardc_session *session = NULL;
    shardc_func_profile profile;
    uint32_t events = 0, wanted = 0;
    shardc_executable *program = cuda_step_program(&c, 1, 1);
    SUCCEED(shardc_session_new(program, &(shardc_session_options){.threads = 1, .profile = true},
                               &session, &error));
    set_weights(session, &d);
    shardc_session_set_trace(session, count_event, &events);
    assert_true(run_step(session, &d) == d.total);
    for (uint32_t i = 0; i < session->image->call_count; i++)
        wanted += session->image->funcs[session->image->schedule[i].func].instr_count;
    assert_int_equal(events, wanted);
    shardc_session_profile(session, shardc_executable_find_func(program, "micro"), 0, &profile);
    assert_int_equal(profile.calls, STEP_BATCHES);
    assert_true(profile.work[SHARDC_WORK_KERNEL] > 0 && profile.work[SHARDC_WORK_GEMM] > 0 &&
                profile.work[SHARDC_WORK_WAIT] > 0);
    assert_true(profile.seconds >
                profile.work[SHARDC_WORK_KERNEL] + profile.work[SHARDC_WORK_GEMM]);
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

/* ---- orders ---- */

static const char order_kernels[] =
    "SC_KERNEL(32, 1) void k_grow_0(float *x, const int64_t *sc_call, uint64_t *sc_failure)\n"
    "{\n    x[sc_thread()] = 3.0f * x[sc_thread()] + 1.0f;\n}\n"
    "SC_KERNEL(32, 1) void k_take_0(const float *y, float *w, const int64_t *sc_call, uint64_t "
    "*sc_failure)\n"
    "{\n    for (int i = 0; i < 128; i++)\n        w[sc_thread()] += y[i] * (float)(1 + (i + "
    "sc_thread()) % 5);\n}\n"
    "SC_KERNEL(32, 1) void k_clear_0(float *w, const int64_t *sc_call, uint64_t *sc_failure)\n"
    "{\n    w[sc_thread()] = 0;\n}\n";
enum { ROUNDS = 4 };

/* Writes right before and right behind what moves, over and over: whatever is not waited for shows.
 */
static void whatever_the_order_the_values_are_the_same(void **state)
{
    (void)state;
    image_case c;
    cuda_begin(&c, 1, 4);
    uint32_t all = image_group(&c, "tp", NULL);
    uint32_t gather =
        image_collective(&c, SC_IMAGE_ALL_GATHER, SC_IMAGE_WHOLE, all, SC_DTYPE_f32, 128);
    uint32_t sum = image_collective(&c, SC_IMAGE_ALL_REDUCE, SC_IMAGE_SUM, all, SC_DTYPE_f32, 32);
    uint32_t grow = image_kernel(&c, "k_grow", "b", (int64_t[]){128}, 0, NULL);
    uint32_t take = image_kernel(&c, "k_take", "ib", (int64_t[]){512, 128}, 0, NULL);
    uint32_t clear = image_kernel(&c, "k_clear", "o", (int64_t[]){128}, 0, NULL);
    uint32_t x = image_input(&c, "x", "f32[T=4@tp, K=32]", -1);
    uint32_t y = image_buffer(&c, SC_BUFFER_COMM, 512, "y"),
             w = image_buffer(&c, SC_BUFFER_ACT, 128, "w");
    image_instr(&c, SC_INSTR_KERNEL, clear, 1, &w);
    for (int round = 0; round < ROUNDS; round++) {
        image_instr(&c, SC_INSTR_KERNEL, grow, 1, &x);
        uint32_t start = image_instr(&c, SC_INSTR_COLLECTIVE, gather, 2, (uint32_t[]){x, y});
        c.instrs.data[start].stream = 1;
        image_instr(&c, SC_INSTR_KERNEL, grow, 1, &w);
        image_instr(&c, SC_INSTR_FINISH, start, 0, NULL);
        image_instr(&c, SC_INSTR_KERNEL, take, 2, (uint32_t[]){y, w});
        image_instr(&c, SC_INSTR_KERNEL, grow, 1, &x);
        image_move(&c, sum, x, x);
    }
    image_output(&c, "w", "f32[T=4@tp, K=32]", w);
    image_output(&c, "x", "f32[T=4@tp, K=32]", x);
    image_func(&c, "f");
    cuda_object(&c, order_kernels, "cubin", 80);
    shardc_executable *program = image_executable(&c);
    shardc_session *session = session_of(program);
    float in[4][32], u[4][32], v[4][32], got_w[4][32], got_x[4][32];
    for (int i = 0; i < 128; i++)
        u[i / 32][i % 32] = in[i / 32][i % 32] = (float)(i % 3);
    memset(v, 0, sizeof v);
    for (int round = 0; round < ROUNDS; round++) {
        float total[32] = {0};
        for (int i = 0; i < 128; i++) {
            u[i / 32][i % 32] = 3 * u[i / 32][i % 32] + 1;
            v[i / 32][i % 32] = 3 * v[i / 32][i % 32] + 1;
        }
        for (int i = 0; i < 128; i++) {
            for (int k = 0; k < 128; k++)
                v[i / 32][i % 32] += u[k / 32][k % 32] * (float)(1 + (k + i % 32) % 5);
        }
        for (int i = 0; i < 128; i++)
            total[i % 32] += 3 * u[i / 32][i % 32] + 1;
        for (int i = 0; i < 128; i++)
            u[i / 32][i % 32] = total[i % 32];
    }
    for (uint64_t seed = 0; seed < 32; seed++) {
        stub.sc_stub_seed(seed);
        shardc_feed_value feed = {"x", in, sizeof in, NULL};
        SUCCEED(shardc_session_run(
            session, 0, &feed, 1,
            (shardc_fetch_value[]){{0, got_w, sizeof got_w, NULL}, {1, got_x, sizeof got_x, NULL}},
            2, &error));
        assert_memory_equal(got_w, v, sizeof v);
        assert_memory_equal(got_x, u, sizeof u);
    }
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

/* ---- what a machine lacks ---- */

typedef struct refusal {
    const char *variable, *value;
    uint64_t ranks;
    shardc_status status;
    const char *text; /* in the message */
    uint32_t nvrtc;   /* that made the program */
} refusal;

static void refusals_come_first(void **state)
{
    (void)state;
    static const refusal refusals[] = {
        {"SHARDC_STUB_GPUS", "0", 1, SHARDC_ERROR_UNAVAILABLE,
         "there is no GPU that CUDA's driver would use: cuInit", 13000},
        {"SHARDC_STUB_CAPABILITY", "7.5", 1, SHARDC_ERROR_UNAVAILABLE,
         "GPU 0 (stub 0) has compute capability 7.5; the program, for cuda:sm_80, needs 8.0",
         13000},
        {"SHARDC_STUB_DRIVER", "11020", 1, SHARDC_ERROR_UNAVAILABLE,
         "the driver supports CUDA 11.2; the program needs", 13000},
        {"SHARDC_STUB_DRIVER", "12040", 1, SHARDC_ERROR_UNAVAILABLE,
         "GPU 0 (stub 0): the driver, of CUDA 12.4, does not take the machine code that NVRTC 13.0 "
         "made; update the driver, or compile with an NVRTC of CUDA 12.x (SHARDC_NVRTC names its "
         "library)",
         13000},
        {"SHARDC_STUB_CAPABILITY", "10.0", 1, SHARDC_ERROR_UNAVAILABLE,
         "GPU 0 (stub 0): the driver, of CUDA 13.0, does not take the PTX that NVRTC 13.1 made; "
         "update the driver, or compile with an NVRTC of CUDA 13.0 or earlier (SHARDC_NVRTC",
         13010},
        {"SHARDC_STUB_MEMORY", "60", 2, SHARDC_ERROR_MEMORY,
         "2 ranks on GPU 0 (stub 0) need 0.07812 GiB of memory; 0.05859 GiB of its 0.05859 GiB are "
         "free",
         13000},
        {"SHARDC_STUB_MODE", "2", 1, SHARDC_ERROR_UNAVAILABLE, "prohibits its use", 13000},
        {"SHARDC_STUB_SHARED", "40", 1, SHARDC_ERROR_UNAVAILABLE,
         "gives a block 40960 bytes of shared memory; kernel k_add needs 50000", 13000},
        {"SHARDC_STUB_GPUS", "2", 4, SHARDC_ERROR_UNAVAILABLE,
         "4 ranks on 2 GPUs: use a GPU for each rank, or one for all", 13000},
        {"SHARDC_STUB_GPUS", "1", 32, SHARDC_ERROR_UNAVAILABLE,
         "32 ranks on one GPU are more than 16", 13000},
        {"SHARDC_LIBCUDA", "/nowhere/libcuda.so", 1, SHARDC_ERROR_UNAVAILABLE,
         "the file that SHARDC_LIBCUDA names does not load", 13000},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *r = &refusals[i];
        image_case c;
        shardc_session *session = NULL;
        shardc_error error = {.status = SHARDC_OK};
        char *before = getenv(r->variable) == NULL ? NULL : strdup(getenv(r->variable));
        cuda_begin(&c, r->ranks, 1);
        step_image(&c);
        for (uint32_t k = 0; k < c.kernels.count; k++)
            cuda_stage(&c, k, 1, 32, strcmp(c.kernels.data[k].symbol, "k_add") == 0 ? 50000 : 0);
        c.image.nvrtc = r->nvrtc;
        c.image.arena_bytes = r->status == SHARDC_ERROR_MEMORY ? 40 << 20 : c.image.arena_bytes;
        cuda_object(&c, "", "cubin", 80);
        shardc_executable *program = image_executable(&c);
        uint64_t made = stub.sc_stub_allocated();
        setenv(r->variable, r->value, 1);
        shardc_status status = shardc_session_new(program, NULL, &session, &error);
        if (before != NULL)
            setenv(r->variable, before, 1);
        else
            unsetenv(r->variable);
        free(before);
        assert_int_equal(status, r->status);
        assert_null(session);
        if (strstr(error.text, r->text) == NULL)
            fail_msg("%s=%s: %s", r->variable, r->value, error.text);
        assert_true(made == stub.sc_stub_allocated());
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

/* What others have taken of a GPU is not there; the error says so before anything is loaded. */
static void memory_of_others_is_not_free(void **state)
{
    (void)state;
    enum { MEBIBYTES = 600 /* of the stub's 1024 */ };
    image_case c;
    shardc_session *sessions[2] = {NULL, NULL};
    shardc_error why = {.status = SHARDC_OK};
    cuda_begin(&c, 1, 1);
    step_image(&c);
    c.image.arena_bytes = (int64_t)MEBIBYTES << 20;
    cuda_object(&c, "", "cubin", 80);
    c.kernels.count = 0;
    c.funcs.count = 0;
    c.schedule.count = 0;
    shardc_executable *program = image_executable(&c);
    SUCCEED(shardc_session_new(program, NULL, &sessions[0], &error));
    assert_int_equal(shardc_session_new(program, NULL, &sessions[1], &why), SHARDC_ERROR_MEMORY);
    if (strstr(why.text, "1 rank on GPU 0 (stub 0) needs 0.5859 GiB of memory; 0.4") == NULL ||
        strstr(why.text, " GiB of its 1 GiB are free") == NULL)
        fail_msg("%s", why.text);
    shardc_session_free(sessions[0]);
    SUCCEED(shardc_session_new(program, NULL, &sessions[1], &error));
    shardc_session_free(sessions[1]);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    expect_clean();
}

int main(void)
{
    stub = cuda_stub_open();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_runs),
        cmocka_unit_test(steps_give_whole_values),
        cmocka_unit_test(parameters_change_between_calls),
        cmocka_unit_test(functions_become_graphs),
        cmocka_unit_test(a_check_that_fails_is_said),
        cmocka_unit_test(stages_share_scratch),
        cmocka_unit_test(modules_that_do_not_fit_are_named),
        cmocka_unit_test(each_gpu_takes_what_it_can),
        cmocka_unit_test(a_kernel_that_crashes_is_an_error),
        cmocka_unit_test(products_are_what_they_should),
        cmocka_unit_test(parts_of_sums_are_not_rounded),
        cmocka_unit_test(a_product_that_the_library_lacks),
        cmocka_unit_test(instructions_are_measured),
        cmocka_unit_test(whatever_the_order_the_values_are_the_same),
        cmocka_unit_test(refusals_come_first),
        cmocka_unit_test(memory_of_others_is_not_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
