/* Every backend on random contractions, against the sum in f64. */
#include "test/unit/helpers/gemm_case.h"

#include <omp.h>

#include "runtime/cpu/gemm_types.h"
#include "runtime/files/element.h"
#include "test/unit/helpers/openmp_leaks.h"

static sc_element element_of(sc_dtype dtype)
{
    static const sc_element elements[SC_DTYPE_COUNT] = {
        [SC_DTYPE_f32] = SC_ELEMENT_F32,   [SC_DTYPE_f64] = SC_ELEMENT_F64,
        [SC_DTYPE_bf16] = SC_ELEMENT_BF16, [SC_DTYPE_f16] = SC_ELEMENT_F16,
        [SC_DTYPE_i32] = SC_ELEMENT_I32,   [SC_DTYPE_i64] = SC_ELEMENT_I64,
        [SC_DTYPE_u8] = SC_ELEMENT_U8,     [SC_DTYPE_bool] = SC_ELEMENT_BOOL};
    return elements[dtype];
}

/* An array exactly as long as it must be, so that a sanitizer sees what reads or writes beyond it.
 * `values` become what it holds. */
static void *typed(sc_dtype dtype, double *values, int64_t count)
{
    size_t bytes = (size_t)count * sc_dtypes[dtype].bytes;
    void *array = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(array);
    for (int64_t i = 0; i < count; i++) {
        assert_true(sc_element_store(element_of(dtype), array, (uint64_t)i, values[i]));
        values[i] = sc_element_load(element_of(dtype), array, (uint64_t)i);
    }
    return array;
}

typedef struct typed_case {
    gemm_case c;
    void *arrays[SC_GEMM_OPERANDS];
    const void *tensors[SC_GEMM_MAX_STEPS];
    void *scratch;
} typed_case;

static void open_case(typed_case *t)
{
    const sc_gemm *gemm = &t->c.gemm;
    memset(t->tensors, 0, sizeof t->tensors);
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        t->arrays[o] =
            typed(gemm->dtypes[o], t->c.values[o], sc_gemm_extent(gemm, (sc_gemm_operand)o));
    for (uint32_t s = 0; s < gemm->step_count; s++) {
        if (sc_gemm_step_has_tensor(gemm->steps[s].kind))
            t->tensors[s] =
                typed(gemm->steps[s].dtype, t->c.tensors[s], sc_gemm_step_extent(gemm, s));
    }
    size_t bytes = (size_t)sc_gemm_scratch_bytes(gemm);
    t->scratch = aligned_alloc(64, bytes + (bytes == 0 ? 64 : 0));
    assert_non_null(t->scratch);
    memset(t->scratch, 0xff, bytes);
}

static void close_case(typed_case *t)
{
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        free(t->arrays[o]);
    for (uint32_t s = 0; s < SC_GEMM_MAX_STEPS; s++)
        free((void *)(uintptr_t)t->tensors[s]);
    free(t->scratch);
    gemm_case_free(&t->c);
}

static double wrapped(sc_dtype dtype, double x)
{
    return dtype == SC_DTYPE_u8    ? (double)(uint8_t)(int64_t)x
           : dtype == SC_DTYPE_i32 ? (double)(int32_t)(uint32_t)(int64_t)x
                                   : x;
}

/* Half a unit of a dtype's last place, relative to the value. */
static double unit(sc_dtype dtype)
{
    return sc_dtype_is_float(dtype) ? ldexp(1, -sc_dtypes[dtype].significand) : 0;
}

/* Each addition and each step rounds once; activations in f32 are good to 3e-7, about five units.
 * `more`: another rounding on the way. */
static void expect_array(const typed_case *t, const char *name, const char *array, sc_dtype dtype,
                         const void *data, int64_t count, const double *wanted,
                         const double *slacks, double more)
{
    const sc_gemm *gemm = &t->c.gemm;
    double roundings = (double)sc_gemm_size(gemm, SC_GEMM_K) + 8 * gemm->step_count + 2;
    for (int64_t i = 0; i < count; i++) {
        double got = sc_element_load(element_of(dtype), data, (uint64_t)i),
               ideal = wrapped(dtype, wanted[i]);
        double bound = roundings * unit(gemm->sum) * slacks[i] + unit(dtype) * fabs(ideal) * 1.01 +
                       (dtype == SC_DTYPE_f16 ? 0x1p-25 : 0) + more * slacks[i];
        if (!(fabs(got - ideal) <= bound))
            fail_msg("%s: %s: element %lld of %s is %.9g, wanted %.9g within %.3g", name,
                     gemm_case_text(gemm), (long long)i, array, got, ideal, bound);
    }
}

static double *zeros(int64_t count)
{
    double *made = calloc((size_t)count + 1, sizeof *made);
    assert_non_null(made);
    return made;
}

/* `finished`: the last steps were done by ours, on what another product had left in c. */
static void expect_result(const typed_case *t, const char *name, bool finished)
{
    const sc_gemm *gemm = &t->c.gemm;
    int64_t extent = sc_gemm_extent(gemm, SC_GEMM_C);
    double more = finished ? unit(gemm->dtypes[SC_GEMM_C]) : 0;
    double *slacks = zeros(extent), *step_slacks[SC_GEMM_MAX_STEPS];
    for (uint32_t s = 0; s < gemm->step_count; s++)
        step_slacks[s] = zeros(sc_gemm_step_extent(gemm, s));
    double *wanted = gemm_case_reference_of_all(gemm, t->c.values[0], t->c.values[1],
                                                t->c.values[2], t->c.tensors, slacks, step_slacks);
    expect_array(t, name, "c", gemm->dtypes[SC_GEMM_C], t->arrays[SC_GEMM_C], extent, wanted,
                 slacks, more);
    for (uint32_t s = 0; s < gemm->step_count; s++) {
        if (sc_gemm_step_writes(gemm->steps[s].kind))
            expect_array(t, name, "what a step stores", gemm->steps[s].dtype, t->tensors[s],
                         sc_gemm_step_extent(gemm, s), t->c.tensors[s], step_slacks[s], more);
        free(step_slacks[s]);
    }
    free(slacks);
    free(wanted);
}

/* The kernels that every machine can run, where the plan would take better ones. */
static const sc_gemm_kernels *base_kernels(sc_dtype sum)
{
    return sum == SC_DTYPE_f32   ? &sc_gemm_f32_base
           : sum == SC_DTYPE_f64 ? &sc_gemm_f64_base
                                 : &sc_gemm_i64_base;
}

enum { BASE = SC_GEMM_BACKENDS }; /* as a backend: the plain one with these */

static sc_gemm_plan *new_plan(const sc_gemm *gemm, int backend)
{
    sc_gemm_plan *plan =
        sc_gemm_plan_new(gemm, backend == BASE ? SC_GEMM_PLAIN : (sc_gemm_backend)backend);
    if (plan != NULL && backend == BASE)
        plan->kernels = base_kernels(plan->gemm.sum);
    return plan;
}

static bool run_case(typed_case *t, int backend)
{
    sc_gemm_plan *plan = new_plan(&t->c.gemm, backend);
    if (plan == NULL)
        return false;
    assert_true(
        sc_gemm_run(plan, t->arrays[0], t->arrays[1], t->arrays[2], t->tensors, t->scratch));
    expect_result(t, sc_gemm_plan_name(plan),
                  plan->onednn != NULL && plan->onednn_steps < plan->gemm.step_count);
    sc_gemm_plan_free(plan);
    return true;
}

/* How many the backend takes. */
static int run_random(int backend, uint64_t seed, int cases, int64_t most)
{
    int taken = 0;
    for (int i = 0; i < cases; i++) {
        typed_case t;
        gemm_case_draw(&t.c, &seed, most);
        open_case(&t);
        taken += run_case(&t, backend);
        close_case(&t);
    }
    return taken;
}

static void plain_small(void **state)
{
    (void)state;
    assert_int_equal(run_random(SC_GEMM_PLAIN, 11, 4000, 5), 4000);
}

static void plain_large(void **state)
{
    (void)state;
    assert_int_equal(run_random(SC_GEMM_PLAIN, 12, 150, 70), 150);
}

/* How many cases the library takes is the affair of its version and of the CPU; those that it takes
 * have to be right. Where there is no library, or no headers to compile with, it takes none. */
static void expect_some(int taken, int cases)
{
    print_message("oneDNN takes %d of %d cases here\n", taken, cases);
    if (taken == 0)
        skip();
}

static void onednn_random(void **state)
{
    (void)state;
    expect_some(run_random(SC_GEMM_ONEDNN, 13, 800, 12), 800);
}

static void auto_random(void **state)
{
    (void)state;
    assert_int_equal(run_random(SC_GEMM_AUTO, 14, 1000, 12), 1000);
}

/* ---- shapes at the edges of blocks, in every layout of the operands ---- */

static sc_gemm matrix(int64_t batch, int64_t m, int64_t n, int64_t k, uint32_t layout)
{
    bool a = layout & 1, b = layout & 2, c = layout & 4;
    return (sc_gemm){
        .dim_count = 4,
        .dims = {{.size = batch, .role = SC_GEMM_BATCH, .strides = {m * k, n * k, m * n}},
                 {.size = m, .role = SC_GEMM_M, .strides = {a ? 1 : k, 0, c ? 1 : n}},
                 {.size = n, .role = SC_GEMM_N, .strides = {0, b ? k : 1, c ? m : 1}},
                 {.size = k, .role = SC_GEMM_K, .strides = {a ? m : 1, b ? 1 : n, 0}}},
        .sum = SC_DTYPE_f32};
}

static void draw_values(gemm_case *c, uint64_t *seed)
{
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        c->values[o] =
            gemm_case_values(sc_gemm_extent(&c->gemm, (sc_gemm_operand)o), c->gemm.dtypes[o], seed);
    for (uint32_t s = 0; s < c->gemm.step_count; s++)
        c->tensors[s] =
            gemm_case_values(sc_gemm_step_extent(&c->gemm, s), c->gemm.steps[s].dtype, seed);
}

/* bias, gelu of what is kept, a residual, the slope at what lies as c does */
static void add_steps(sc_gemm *gemm)
{
    gemm->step_count = 5;
    gemm->steps[0] = (sc_gemm_step){.kind = SC_GEMM_ADD, .strides = {0, 0, 1, 0}};
    gemm->steps[1] = (sc_gemm_step){.kind = SC_GEMM_STORE};
    gemm->steps[2] = (sc_gemm_step){.kind = SC_GEMM_GELU};
    gemm->steps[3] = (sc_gemm_step){.kind = SC_GEMM_ADD};
    gemm->steps[4] = (sc_gemm_step){.kind = SC_GEMM_GELU_TANH_GRAD};
    for (int i = 0; i < 3; i++)
        gemm->steps[1].strides[i] = gemm->steps[3].strides[i] = gemm->steps[4].strides[i] =
            gemm->dims[i].strides[SC_GEMM_C];
}

/* How many cases there were; of the large shapes every fifth layout will do. */
static int run_edges(int backend, int *out_taken)
{
    static const int64_t shapes[][4] = {
        {1, 1, 700, 401},   {1, 3, 65, 1030},  {1, 8, 1100, 385}, {2, 5, 33, 17},
        {1, 7, 1, 900},     {1, 31, 33, 1500}, {3, 97, 50, 64},   {1, 100, 300, 10},
        {1, 12, 6000, 5},   {1, 2900, 12, 5},  {40, 48, 48, 48},  {1, 200, 100, 800},
        {1, 1030, 20, 400}, {1, 64, 64, 0},    {1, 2900, 9, 800}, {1, 9, 2900, 800}};
    static const sc_dtype dtypes[][3] = {{SC_DTYPE_f32, SC_DTYPE_f32, SC_DTYPE_f32},
                                         {SC_DTYPE_bf16, SC_DTYPE_bf16, SC_DTYPE_bf16},
                                         {SC_DTYPE_f32, SC_DTYPE_bf16, SC_DTYPE_f32},
                                         {SC_DTYPE_f16, SC_DTYPE_f16, SC_DTYPE_f16}};
    uint64_t seed = 5;
    int cases = 0;
    *out_taken = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (uint32_t layout = 0; layout < 32; layout++) {
            typed_case t = {0};
            if ((layout + s) % 5 != 0 &&
                shapes[s][0] * shapes[s][1] * shapes[s][2] * shapes[s][3] > 1000000)
                continue;
            t.c.gemm = matrix(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3], layout);
            memcpy(t.c.gemm.dtypes, dtypes[(s + layout) % 4], sizeof t.c.gemm.dtypes);
            t.c.gemm.accumulate = (layout & 8) != 0;
            if ((layout & 16) != 0)
                add_steps(&t.c.gemm);
            draw_values(&t.c, &seed);
            open_case(&t);
            *out_taken += run_case(&t, backend);
            cases++;
            close_case(&t);
        }
    }
    return cases;
}

static void plain_edges(void **state)
{
    (void)state;
    int taken, cases = run_edges(SC_GEMM_PLAIN, &taken);
    assert_int_equal(taken, cases);
}

static void edges_with_base_kernels(void **state)
{
    (void)state;
    assert_int_equal(run_random(BASE, 15, 1000, 5), 1000);
    int taken, cases = run_edges(BASE, &taken);
    assert_int_equal(taken, cases);
}

static void onednn_edges(void **state)
{
    (void)state;
    int taken, cases = run_edges(SC_GEMM_ONEDNN, &taken);
    expect_some(taken, cases);
}

/* Steps that a library lacks are done behind it. Whatever it takes here, plain kernels do the same
 * behind a product of plain kernels. */
static void steps_behind_another_product(void **state)
{
    (void)state;
    static const sc_dtype dtypes[] = {SC_DTYPE_f32, SC_DTYPE_bf16, SC_DTYPE_f64};
    uint64_t seed = 6;
    for (uint32_t i = 0; i < 24; i++) {
        typed_case t = {0};
        t.c.gemm = matrix(1 + i % 2, 33, 20, 17, i % 8);
        t.c.gemm.sum = dtypes[i / 8] == SC_DTYPE_f64 ? SC_DTYPE_f64 : SC_DTYPE_f32;
        for (int o = 0; o < SC_GEMM_OPERANDS; o++)
            t.c.gemm.dtypes[o] = dtypes[i / 8];
        add_steps(&t.c.gemm);
        for (uint32_t s = 0; s < t.c.gemm.step_count; s++)
            t.c.gemm.steps[s].dtype = dtypes[i / 8];
        draw_values(&t.c, &seed);
        open_case(&t);
        sc_gemm first = t.c.gemm;
        first.step_count = i % 5;
        sc_gemm_plan *product = new_plan(&first, SC_GEMM_PLAIN),
                     *all = new_plan(&t.c.gemm, SC_GEMM_PLAIN);
        assert_true(product != NULL && all != NULL);
        assert_true(
            sc_gemm_run(product, t.arrays[0], t.arrays[1], t.arrays[2], t.tensors, t.scratch));
        sc_gemm_finish_plain(all, t.arrays[2], t.tensors, first.step_count);
        expect_result(&t, "steps behind a product", true);
        sc_gemm_plan_free(product);
        sc_gemm_plan_free(all);
        close_case(&t);
    }
}

/* ---- teams ---- */

/* The descriptor's result by teams of one to `most` threads: the same bits. c starts from the same
 * values each time. */
static void expect_same_bits(const sc_gemm *gemm, int backend, int most, uint64_t *seed)
{
    typed_case t = {0};
    t.c.gemm = *gemm;
    draw_values(&t.c, seed);
    open_case(&t);
    size_t bytes =
        (size_t)sc_gemm_extent(gemm, SC_GEMM_C) * sc_dtypes[gemm->dtypes[SC_GEMM_C]].bytes;
    void *start = malloc(bytes + 1), *first = malloc(bytes + 1);
    assert_true(start != NULL && first != NULL);
    memcpy(start, t.arrays[SC_GEMM_C], bytes);
    for (int threads = 1; threads <= most; threads++) {
        omp_set_num_threads(threads);
        sc_gemm_plan *plan = new_plan(gemm, backend);
        if (plan == NULL)
            break;
        memcpy(t.arrays[SC_GEMM_C], start, bytes);
        assert_true(sc_gemm_run(plan, t.arrays[0], t.arrays[1], t.arrays[2], t.tensors, t.scratch));
        if (threads == 1)
            memcpy(first, t.arrays[SC_GEMM_C], bytes);
        else if (memcmp(first, t.arrays[SC_GEMM_C], bytes) != 0)
            fail_msg("%s: other bits with %d threads: %s", sc_gemm_plan_name(plan), threads,
                     gemm_case_text(gemm));
        sc_gemm_plan_free(plan);
    }
    omp_set_num_threads(omp_get_num_procs());
    free(start);
    free(first);
    close_case(&t);
}

static void same_bits_for_every_team(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {{1, 150, 200, 800},
                                        {1, 4, 1500, 300},
                                        {30, 40, 40, 40},
                                        {1, 6, 100, 2000},
                                        {3, 520, 800, 17}};
    uint64_t seed = 9;
    for (uint32_t i = 0; i < 20; i++) {
        const int64_t *shape = shapes[i / 4];
        sc_gemm gemm = matrix(shape[0], shape[1], shape[2], shape[3], i % 4);
        if (i % 2 == 0)
            add_steps(&gemm);
        expect_same_bits(&gemm, SC_GEMM_PLAIN, 5, &seed);
        expect_same_bits(&gemm, SC_GEMM_ONEDNN, 5, &seed);
    }
}

/* Shapes in which a kernel has little of a tile, in every dtype, by every backend. */
static void same_bits_of_small_shapes(void **state)
{
    (void)state;
    static const sc_dtype dtypes[][4] = {
        {SC_DTYPE_bf16, SC_DTYPE_bf16, SC_DTYPE_bf16, SC_DTYPE_f32},
        {SC_DTYPE_bf16, SC_DTYPE_bf16, SC_DTYPE_f32, SC_DTYPE_f32},
        {SC_DTYPE_f32, SC_DTYPE_f32, SC_DTYPE_f32, SC_DTYPE_f32},
        {SC_DTYPE_f32, SC_DTYPE_bf16, SC_DTYPE_f32, SC_DTYPE_f32},
        {SC_DTYPE_f16, SC_DTYPE_f16, SC_DTYPE_f16, SC_DTYPE_f32},
        {SC_DTYPE_f64, SC_DTYPE_f64, SC_DTYPE_f64, SC_DTYPE_f64},
        {SC_DTYPE_i32, SC_DTYPE_i32, SC_DTYPE_i32, SC_DTYPE_i64}};
    static const int64_t rows[] = {1, 9, 32, 70}, columns[] = {4, 33, 96};
    const int backends[] = {SC_GEMM_AUTO, SC_GEMM_PLAIN, SC_GEMM_ONEDNN, BASE};
    uint64_t seed = 10;
    for (uint32_t i = 0; i < 7 * 4 * 3; i++) {
        for (int64_t k = 1; k <= 34; k += k < 8 || k > 18 ? 5 : 1) {
            sc_gemm gemm = matrix(1 + (int64_t)(k + i) % 2, rows[i / 7 % 4], columns[i / 28], k,
                                  (uint32_t)(k + i) % 8);
            memcpy(gemm.dtypes, dtypes[i % 7], sizeof gemm.dtypes);
            gemm.sum = dtypes[i % 7][3];
            gemm.accumulate = k % 3 == 0;
            for (size_t b = 0; b < sizeof backends / sizeof *backends; b++)
                expect_same_bits(&gemm, backends[b], 4, &seed);
        }
    }
}

/* ---- pieces ---- */
/* Between a product and its sum a sanitizer's check of an index keeps compilers from contracting
 * them, in one loop and not in the other: then only what is read and written is checked. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_CONTRACTED false
#endif
#endif
#ifndef IS_CONTRACTED
#define IS_CONTRACTED true
#endif

/* Multiplies the rows of the whole in as many pieces: where they lie in a and c is where the rows
 * do. */
static void run_pieces(const typed_case *t, int backend, int64_t pieces)
{
    sc_gemm gemm = t->c.gemm;
    gemm.dims[1].size /= pieces;
    gemm.dims[1].others = pieces - 1;
    sc_gemm_plan *plan = new_plan(&gemm, backend);
    void *scratch = aligned_alloc(64, (size_t)sc_gemm_scratch_bytes(&gemm) + 64);
    assert_true(plan != NULL && scratch != NULL);
    for (int64_t i = 0; i < pieces; i++) {
        char *arrays[SC_GEMM_OPERANDS];
        for (int o = 0; o < SC_GEMM_OPERANDS; o++)
            arrays[o] = (char *)t->arrays[o] + i * gemm.dims[1].size * gemm.dims[1].strides[o] *
                                                   (int64_t)sc_dtypes[gemm.dtypes[o]].bytes;
        assert_true(sc_gemm_run(plan, arrays[0], arrays[1], arrays[2], t->tensors, scratch));
    }
    free(scratch);
    sc_gemm_plan_free(plan);
}

/* A product of a piece has the bits of that of the whole, also where the whole has many rows and a
 * piece few, and along whichever dim of c they lie. */
static void same_bits_of_pieces(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{4, 40, 900},  {8, 700, 64}, {12, 33, 401},
                                        {24, 96, 128}, {32, 5, 64},  {120, 70, 800}};
    uint64_t seed = 11;
    for (uint32_t i = 0; i < 6 * 8; i++) {
        const int64_t *shape = shapes[i / 8];
        typed_case t = {0};
        t.c.gemm = matrix(1 + i % 2, shape[0], shape[1], shape[2], i % 8);
        draw_values(&t.c, &seed);
        open_case(&t);
        size_t bytes = (size_t)sc_gemm_extent(&t.c.gemm, SC_GEMM_C) * sizeof(float);
        void *whole = malloc(bytes);
        assert_non_null(whole);
        for (int64_t pieces = 1; pieces <= 4; pieces++) {
            if (shape[0] % pieces != 0)
                continue;
            run_pieces(&t, SC_GEMM_PLAIN, pieces);
            if (pieces == 1)
                memcpy(whole, t.arrays[SC_GEMM_C], bytes);
            else if (IS_CONTRACTED && memcmp(whole, t.arrays[SC_GEMM_C], bytes) != 0)
                fail_msg("other bits in %d pieces: %s", (int)pieces, gemm_case_text(&t.c.gemm));
        }
        free(whole);
        close_case(&t);
    }
}

/* An argument picks tests by name: onednn* */
int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_small),
        cmocka_unit_test(plain_large),
        cmocka_unit_test(plain_edges),
        cmocka_unit_test(edges_with_base_kernels),
        cmocka_unit_test(onednn_random),
        cmocka_unit_test(auto_random),
        cmocka_unit_test(onednn_edges),
        cmocka_unit_test(steps_behind_another_product),
        cmocka_unit_test(same_bits_for_every_team),
        cmocka_unit_test(same_bits_of_small_shapes),
        cmocka_unit_test(same_bits_of_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
