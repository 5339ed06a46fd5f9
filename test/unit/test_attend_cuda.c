/* Emitted attention as CUDA, on a processor under every schedule (test/cuda_on_cpu), against the interpreter: random ops of every mask and
 * layout, on one device and on the ranks of a mesh, with padding that is poison. */
#include "attend_case.h"

#include "codegen/attend_cuda.h"
#include "codegen/nvrtc.h"
#include "test/cuda_on_cpu/harness.h"

enum { CASES = 24, MAX_ARRAYS = 24 };

typedef struct kernel {
    sc_attend_desc *desc;
    sc_cuda_code code;
    char name[64];
    char *text; /* with helpers */
} kernel;

typedef struct suite {
    attend_case cases[CASES];
    kernel kernels[CASES][2];
    sc_machine_module *module;
} suite;

static suite all;

static const spec_range range = {.dtypes = {"f32", "f32", "f64", "bf16", "bf16", "f16"},
                                 .heads = {1, 3, 8, 16, 20, 33, 64, 48},
                                 .few = 20,
                                 .many = 60,
                                 .few_keys = 40,
                                 .many_keys = 80,
                                 .most_keys = 150};

/* ---- emitting ---- */

static void add_helpers(sc_strbuf *out, sc_helper_set helpers)
{
    helpers = sc_helpers_closed(helpers & ~SC_CUDA_MACHINE_HELPERS) & ~SC_CUDA_MACHINE_HELPERS;
    for (int i = 0; i < SC_HELPER_COUNT; i++) {
        if ((helpers >> i & 1) != 0)
            sc_strbuf_add(out, sc_helper_text((sc_helper)i));
    }
}

static void emit(attend_case *a, int which, kernel *k)
{
    sc_context *context = a->c->m->context;
    sc_strbuf body, text;
    sc_helper_set helpers = 0;
    sc_strbuf_init(&body, &context->arena);
    sc_strbuf_init(&text, &context->arena);
    k->desc = sc_attend_describe(a->c->m, a->ops[which]);
    if (k->desc == NULL)
        fail_msg("not described:\n%s", a->spec.text);
    sc_attend_emit_cuda(context, k->desc, k->name, &body, &helpers, &k->code);
    add_helpers(&text, helpers);
    sc_strbuf_add(&text, body.data);
    k->text = text.data;
}

/* ---- running ---- */

static void run_rank(const attend_case *a, int which, uint64_t rank, void *user, void **results)
{
    const kernel *k = user;
    const sc_module *m = a->c->m;
    const sc_op *op = sc_op_at(m, a->ops[which]);
    sc_machine_argument arguments[MAX_ARRAYS];
    sc_machine_stage stages[SC_CUDA_MAX_STAGES];
    char entries[SC_CUDA_MAX_STAGES][80];
    int64_t params[SC_MAX_RANK + 4];
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->operand_count + op->result_count; i++, count++) {
        bool is_result = i >= op->operand_count;
        const sc_type_info *type = sc_type_of(m, is_result ? op->first_result + i - op->operand_count : op->operands[i]);
        void *data = local_of(m, type, rank, is_result ? NULL : value_of(a, op->operands[i]));
        if (is_result)
            results[i - op->operand_count] = data;
        arguments[count] = (sc_machine_argument){.name = is_result ? "result" : "operand",
                                                 .kind = is_result ? SC_MACHINE_OUT : SC_MACHINE_IN,
                                                 .data = data,
                                                 .bytes = (size_t)sc_type_local_bytes(m, type)};
    }
    for (uint32_t i = 0; i < k->code.stage_count; i++) {
        const sc_cuda_stage *stage = &k->code.stages[i];
        snprintf(entries[i], sizeof entries[i], "%s_%u", k->name, i);
        stages[i] = (sc_machine_stage){entries[i], stage->blocks, stage->threads, stage->shared_bytes};
    }
    param_values(k->desc, rank, params);
    int64_t step = 0;
    for (uint32_t i = 0; i < k->desc->param_count; i++) {
        if (k->desc->params[i].kind == SC_PARAM_STEP) {
            step = params[i];
            params[i] = -1; /* not read */
        }
    }
    sc_machine_function function = {.module = all.module,
                                    .stages = stages,
                                    .stage_count = k->code.stage_count,
                                    .arguments = arguments,
                                    .argument_count = count,
                                    .scratch_bytes = (size_t)k->code.scratch_bytes,
                                    .values = params,
                                    .value_count = k->desc->param_count,
                                    .step = step};
    uint64_t failure;
    sc_machine_report report;
    if (!sc_machine_run_function(&function, &failure, &report))
        fail_msg("%s\n%s", report.text, a->spec.text);
    assert_true(failure == UINT64_MAX);
    for (uint32_t i = 0; i < op->operand_count; i++)
        free(arguments[i].data);
}

static int open_suite(void **state)
{
    (void)state;
    static const char *texts[2 * CASES];
    for (int i = 0; i < CASES; i++) {
        open_attend_case(&all.cases[i], (uint64_t)i + 1, &range);
        for (int which = 0; which < 2; which++) {
            kernel *k = &all.kernels[i][which];
            snprintf(k->name, sizeof k->name, "case%d_%d", i, which);
            emit(&all.cases[i], which, k);
            texts[2 * i + which] = k->text;
        }
    }
    sc_machine_report report;
    all.module = sc_machine_compile(texts, 2 * CASES, &report);
    if (all.module == NULL)
        fail_msg("%s", report.text);
    return 0;
}

static int close_suite(void **state)
{
    (void)state;
    sc_machine_unload(all.module);
    for (int i = 0; i < CASES; i++)
        case_close(all.cases[i].c);
    return 0;
}

static void check_all(int which)
{
    for (int i = 0; i < CASES; i++) {
        kernel *k = &all.kernels[i][which];
        check_op(&all.cases[i], which, k->code.why_simple != NULL ? "simple" : "fast", 1, run_rank, k);
    }
}

static void forward_is_the_interpreters(void **state)
{
    (void)state;
    check_all(0);
}

static void backward_is_the_interpreters(void **state)
{
    (void)state;
    check_all(1);
}

/* ---- for cards ---- */

/* What NVRTC makes of the text; the usages are in the arena. */
static sc_cuda_usages usages_of(sc_arena *arena, const sc_nvrtc *nvrtc, const char *text, const char *target)
{
    sc_nvrtc_code code;
    sc_cuda_usages usages = {0};
    const char *source = sc_arena_printf(arena, "%s%s", sc_cuda_machine_text, text);
    const char *wrong = sc_nvrtc_compile(nvrtc, source, "attend.cu", sc_target_find(target), &code);
    if (wrong != NULL)
        fail_msg("%s: %s\n%s\n%s", target, wrong, code.log, text);
    sc_nvrtc_read_log(arena, code.log, &usages);
    sc_nvrtc_code_free(&code);
    return usages;
}

static void open_nvrtc(sc_nvrtc *nvrtc)
{
    sc_error error = {0};
    if (sc_nvrtc_open(nvrtc, &error))
        return;
    print_message("skipped: %s\n", error.text);
    skip();
}

static void texts_compile_for_cards(void **state)
{
    (void)state;
    sc_nvrtc nvrtc;
    open_nvrtc(&nvrtc);
    for (int i = 0; i < CASES; i += 3) {
        for (int which = 0; which < 2; which++) {
            const kernel *k = &all.kernels[i][which];
            sc_cuda_usages usages = usages_of(&all.cases[i].c->m->context->arena, &nvrtc, k->text, "cuda:sm_90a");
            assert_int_equal(usages.count, k->code.stage_count);
        }
    }
    sc_nvrtc_close(&nvrtc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_the_interpreters),
        cmocka_unit_test(backward_is_the_interpreters),
        cmocka_unit_test(texts_compile_for_cards),
    };
    return cmocka_run_group_tests(tests, open_suite, close_suite);
}
