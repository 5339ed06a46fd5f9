/* A matmul of each dtype, layout and epilogue, as a program has it: whether cuBLASLt takes it, and
 * whether it gives what the reference gives. With the library that the runtime finds: the stub in
 * ctest, the real one where there is a GPU.
 *
 *     test_cuda_products             all of them
 *     test_cuda_products --list      their names
 *     test_cuda_products NAME        one: what the library says of it; 'f32-*': of those with that
 *                                    beginning
 *
 * That the library declines an epilogue is no failure, because programs have its fallback; that it
 * declines a matmul without one is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "program/archive.h"
#include "program/bytes.h"
#include "runtime/session/session.h"
#include "test/unit/helpers/gemm_blas_case.h"
#include "test/unit/helpers/session_case.h"

enum { M = 48, N = 40, K = 72, BATCH = 3 };

typedef struct dtype_row {
    const char *name;
    sc_dtype operands, result, sum;
} dtype_row;

static const dtype_row dtypes[] = {
    {"f64", SC_DTYPE_f64, SC_DTYPE_f64, SC_DTYPE_f64},
    {"f32", SC_DTYPE_f32, SC_DTYPE_f32, SC_DTYPE_f32},
    {"bf16", SC_DTYPE_bf16, SC_DTYPE_bf16, SC_DTYPE_f32},
    {"f16", SC_DTYPE_f16, SC_DTYPE_f16, SC_DTYPE_f32},
    {"bf16_f32", SC_DTYPE_bf16, SC_DTYPE_f32, SC_DTYPE_f32},
    {"f16_f32", SC_DTYPE_f16, SC_DTYPE_f32, SC_DTYPE_f32},
};

/* What is special about a matmul; the steps are in order, up to one of kind SC_GEMM_STEP_KINDS. */
typedef struct form_row {
    const char *name;
    bool is_plain; /* the library must take it */
    int64_t m;     /* 0: M */
    int64_t batch; /* 0: none */
    bool accumulates, a_turned, b_turned;
    sc_gemm_step_kind steps[4];
} form_row;

#define END SC_GEMM_STEP_KINDS
static const form_row forms[] = {
    {"plain", true, 0, 0, false, false, false, {END}},
    {"a_turned", true, 0, 0, false, true, false, {END}},
    {"b_turned", true, 0, 0, false, false, true, {END}},
    {"both_turned", true, 0, 0, false, true, true, {END}},
    {"batch", true, 0, BATCH, false, false, false, {END}},
    {"accumulate", true, 0, 0, true, false, false, {END}},
    {"one_row", true, 1, 0, false, false, true, {END}},
    {"one_row_bias", false, 1, 0, false, false, true, {SC_GEMM_ADD, END}},
    {"scale", false, 0, 0, false, false, false, {SC_GEMM_SCALE, END}},
    {"bias", false, 0, 0, false, false, false, {SC_GEMM_ADD, END}},
    {"relu", false, 0, 0, false, false, false, {SC_GEMM_RELU, END}},
    {"bias_relu", false, 0, 0, false, false, false, {SC_GEMM_ADD, SC_GEMM_RELU, END}},
    {"gelu", false, 0, 0, false, false, false, {SC_GEMM_GELU_TANH, END}},
    {"bias_gelu", false, 0, 0, false, false, false, {SC_GEMM_ADD, SC_GEMM_GELU_TANH, END}},
    {"store_gelu", false, 0, 0, false, false, false, {SC_GEMM_STORE, SC_GEMM_GELU_TANH, END}},
    {"bias_store_gelu",
     false,
     0,
     0,
     false,
     false,
     false,
     {SC_GEMM_ADD, SC_GEMM_STORE, SC_GEMM_GELU_TANH, END}},
    {"gelu_slope", false, 0, 0, false, false, false, {SC_GEMM_GELU_TANH_GRAD, END}},
    {"sum_a", false, 0, 0, false, true, false, {SC_GEMM_SUM_A, END}},
    {"sum_b", false, 0, 0, false, false, false, {SC_GEMM_SUM_B, END}},
};

enum {
    DTYPES = sizeof dtypes / sizeof *dtypes,
    FORMS = sizeof forms / sizeof *forms,
    PRODUCTS = DTYPES * FORMS
};

/* ---- one of them ---- */

/* Dims in the order batch, m, n, k; results row by row. */
static void lay_out(sc_gemm *gemm, const form_row *form)
{
    int64_t m = form->m == 0 ? M : form->m;
    gemm->dim_count = 3;
    gemm->dims[0] = (sc_gemm_dim){.role = SC_GEMM_M, .size = m};
    gemm->dims[1] = (sc_gemm_dim){.role = SC_GEMM_N, .size = N};
    gemm->dims[2] = (sc_gemm_dim){.role = SC_GEMM_K, .size = K};
    gemm->dims[0].strides[SC_GEMM_A] = form->a_turned ? 1 : K;
    gemm->dims[2].strides[SC_GEMM_A] = form->a_turned ? m : 1;
    gemm->dims[2].strides[SC_GEMM_B] = form->b_turned ? 1 : N;
    gemm->dims[1].strides[SC_GEMM_B] = form->b_turned ? K : 1;
    gemm->dims[0].strides[SC_GEMM_C] = N;
    gemm->dims[1].strides[SC_GEMM_C] = 1;
    if (form->batch > 0)
        gemm->dims[gemm->dim_count++] = (sc_gemm_dim){
            .role = SC_GEMM_BATCH, .size = form->batch, .strides = {m * K, K * N, m * N}};
}

/* Vectors lie along the rows of the result, but for the sums of a. */
static void add_steps(sc_gemm *gemm, const form_row *form)
{
    for (uint32_t s = 0; form->steps[s] != END; s++) {
        sc_gemm_step *step = add_step(gemm, form->steps[s]);
        if (step->kind == SC_GEMM_SUM_A)
            step->strides[0] = 1;
        else if (step->kind == SC_GEMM_ADD || step->kind == SC_GEMM_SUM_B)
            step->strides[1] = 1;
        else if (step->kind == SC_GEMM_STORE || step->kind == SC_GEMM_GELU_TANH_GRAD)
            lay_out_aux(gemm, 1, step);
    }
}

static void make(gemm_case *p, const dtype_row *dtype, const form_row *form)
{
    uint64_t seed = 5;
    memset(p, 0, sizeof *p);
    p->gemm.sum = dtype->sum;
    p->gemm.dtypes[SC_GEMM_A] = p->gemm.dtypes[SC_GEMM_B] = dtype->operands;
    p->gemm.dtypes[SC_GEMM_C] = dtype->result;
    p->gemm.accumulate = form->accumulates;
    lay_out(&p->gemm, form);
    add_steps(&p->gemm, form);
    if (!sc_gemm_valid(&p->gemm))
        fail_msg("%s: %s", form->name, sc_gemm_invalid(&p->gemm));
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        p->values[o] = gemm_case_values(sc_gemm_extent(&p->gemm, (sc_gemm_operand)o),
                                        p->gemm.dtypes[o], &seed);
    for (uint32_t s = 0; s < p->gemm.step_count; s++)
        p->tensors[s] =
            gemm_case_values(sc_gemm_step_extent(&p->gemm, s), p->gemm.steps[s].dtype, &seed);
}

/* A program of it alone, without kernels. */
static shardc_executable *program_of(image_case *c, const gemm_case *p)
{
    sc_strbuf nothing;
    image_begin(c, 1, 1);
    c->image.target = "cuda:sm_80";
    uint32_t workspace = image_buffer(c, SC_BUFFER_WORKSPACE, SC_MATMUL_WORKSPACE, "workspace");
    add_product(c, &p->gemm, workspace);
    sc_strbuf_init(&nothing, &c->arena);
    sc_archive_write(NULL, 0, &nothing);
    c->image.object = (const uint8_t *)nothing.data;
    c->image.object_bytes = nothing.length;
    return image_executable(c);
}

/* ---- its results ---- */

/* The largest difference in units of what is allowed: c, and what a step stores. */
typedef struct outcome {
    double worst;
    const char *what;
} outcome;

static void note_worst(outcome *o, const char *what, const double *got, const double *wanted,
                       const double *slacks, size_t count, double units)
{
    for (size_t i = 0; i < count; i++) {
        double allowed = units * (slacks[i] + fabs(wanted[i]));
        double off = isfinite(got[i]) ? fabs(got[i] - wanted[i]) / fmax(allowed, 1e-300) : INFINITY;
        if (fabs(got[i] - wanted[i]) > 0 || !isfinite(got[i])) {
            if (off > o->worst)
                *o = (outcome){off, what};
        }
    }
}

static double units_of(const sc_gemm *gemm)
{
    double units = unit(gemm->sum) * 16;
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        units += 2 * unit(gemm->dtypes[o]);
    for (uint32_t s = 0; s < gemm->step_count; s++)
        units += sc_gemm_step_has_tensor(gemm->steps[s].kind) ? 2 * unit(gemm->steps[s].dtype) : 0;
    return units;
}

static uint32_t feed(const gemm_case *p, double *before, uint32_t stores, shardc_feed_value *feeds)
{
    static const char *const names[] = {"a",  "b",  "c",  "t0", "t1", "t2",
                                        "t3", "t4", "t5", "t6", "t7"};
    uint32_t count = 0;
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        feeds[count++] = (shardc_feed_value){
            names[o], p->values[o],
            (size_t)sc_gemm_extent(&p->gemm, (sc_gemm_operand)o) * sizeof(double), "f64"};
    for (uint32_t s = 0; s < p->gemm.step_count; s++) {
        if (sc_gemm_step_has_tensor(p->gemm.steps[s].kind))
            feeds[count++] = (shardc_feed_value){
                names[SC_GEMM_OPERANDS + s], s == stores ? before : p->tensors[s],
                (size_t)sc_gemm_step_extent(&p->gemm, s) * sizeof(double), "f64"};
    }
    return count;
}

static outcome run(shardc_session *session, const gemm_case *p, shardc_error *error)
{
    const sc_gemm *gemm = &p->gemm;
    uint32_t stores = storing_step(gemm);
    size_t extent = (size_t)sc_gemm_extent(gemm, SC_GEMM_C),
           kept_extent =
               stores == SC_GEMM_MAX_STEPS ? 0 : (size_t)sc_gemm_step_extent(gemm, stores);
    double *before = calloc(kept_extent + 1, sizeof *before),
           *slacks = calloc(extent + 1, sizeof *slacks), *got = calloc(extent + 1, sizeof *got),
           *kept = calloc(kept_extent + 1, sizeof *kept),
           *kept_slacks = calloc(kept_extent + 1, sizeof *kept_slacks);
    double *step_slacks[SC_GEMM_MAX_STEPS] = {0};
    shardc_feed_value feeds[SC_GEMM_OPERANDS + SC_GEMM_MAX_STEPS];
    outcome o = {0, ""};
    if (stores < SC_GEMM_MAX_STEPS) {
        memcpy(before, p->tensors[stores], kept_extent * sizeof *before);
        step_slacks[stores] = kept_slacks;
    }
    uint32_t count = feed(p, before, stores, feeds);
    double *wanted = gemm_case_reference_of_all(gemm, p->values[0], p->values[1], p->values[2],
                                                p->tensors, slacks, step_slacks);
    const shardc_fetch_value fetches[] = {{0, got, extent * sizeof *got, "f64"},
                                          {1, kept, kept_extent * sizeof *kept, "f64"}};
    if (shardc_session_run(session, 0, feeds, count, fetches, stores < SC_GEMM_MAX_STEPS ? 2 : 1,
                           error) == SHARDC_OK) {
        note_worst(&o, "the result", got, wanted, slacks, extent, units_of(gemm));
        if (stores < SC_GEMM_MAX_STEPS)
            note_worst(&o, "what is stored", kept, p->tensors[stores], kept_slacks, kept_extent,
                       units_of(gemm));
    } else {
        o = (outcome){INFINITY, error->text};
    }
    free(before);
    free(slacks);
    free(got);
    free(kept);
    free(kept_slacks);
    free(wanted);
    return o;
}

static const char *name_of(int product, char text[64])
{
    snprintf(text, 64, "%s-%s", dtypes[product / FORMS].name, forms[product % FORMS].name);
    return text;
}

/* What the library says of it; false if that is wrong. */
static bool try_product(int product, char *out, size_t room)
{
    const form_row *form = &forms[product % FORMS];
    gemm_case p;
    image_case c;
    sc_matmul matmul;
    shardc_session *session = NULL;
    shardc_error error = {.status = SHARDC_OK};
    make(&p, &dtypes[product / FORMS], form);
    const char *no_form = sc_matmul_of(&p.gemm, &matmul);
    if (no_form != NULL) {
        gemm_case_free(&p);
        snprintf(out, room, "not asked for: %s", no_form);
        return !form->is_plain;
    }
    bool fine = true;
    shardc_executable *program = program_of(&c, &p);
    shardc_status status = shardc_session_new(program, NULL, &session, &error);
    if (status == SHARDC_OK) {
        outcome o = run(session, &p, &error);
        fine = o.worst <= 1;
        snprintf(out, room, "taken; %s%.2g of the difference that is allowed%s%.300s",
                 fine ? "at most " : "", o.worst, fine ? "" : ": ", fine ? "" : o.what);
    } else if (status == SHARDC_ERROR_UNAVAILABLE && !form->is_plain &&
               strstr(error.text, "cuBLASLt has no algorithm for a matmul of ") != NULL) {
        snprintf(out, room, "declined by cuBLASLt; the fallback runs instead");
    } else {
        fine = false;
        snprintf(out, room, "%.400s", error.text);
    }
    shardc_session_free(session);
    shardc_executable_free(program);
    gemm_case_free(&p);
    sc_arena_free(&c.arena);
    return fine;
}

/* ---- all, or one ---- */

static const char *only = "*";

static bool is_wanted(const char *name)
{
    size_t length = strcspn(only, "*");
    return strncmp(name, only, length) == 0 && (only[length] == '*' || name[length] == 0);
}

static void products_are_what_they_should_be(void **state)
{
    (void)state;
    char text[512], name[64];
    int wrong = 0, tried = 0;
    for (int product = 0; product < PRODUCTS; product++) {
        if (!is_wanted(name_of(product, name)))
            continue;
        bool fine = try_product(product, text, sizeof text);
        printf("%s: %s%s\n", name, fine ? "" : "WRONG: ", text);
        tried++;
        wrong += !fine;
    }
    if (wrong > 0 || tried == 0)
        fail_msg("%d of %d matmuls are wrong", wrong, tried);
}

int main(int argc, char **argv)
{
    char name[64];
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_what_they_should_be)};
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (int product = 0; product < PRODUCTS; product++)
            puts(name_of(product, name));
        return 0;
    }
    only = argc > 1 ? argv[1] : only;
    setvbuf(stdout, NULL, _IOLBF, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
