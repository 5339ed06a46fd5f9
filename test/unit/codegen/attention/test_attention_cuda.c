/* Emitted attention as CUDA, on a CPU under every schedule (test/cuda_on_cpu), against the
 * interpreter: random ops of every mask and layout, on one device and on the ranks of a mesh, with
 * padding that is poison. */
#include "test/unit/helpers/attend_case.h"

#include "codegen/attention/cuda.h"
#include "codegen/toolchain/cubins.h"
#include "test/cuda_on_cpu/harness.h"

enum { SIMPLE = 14, CASES = 44 /* the others are for the tiled form */, MAX_ARRAYS = 24 };
/* Weights and their cotangents are rounded before they are factors, as the interpreter's are not.
 */
enum { TILED_SLACK = 2 };

typedef struct kernel {
    sc_attention_desc *desc;
    sc_cuda_code code;
    char name[64];
    const char *body; /* without helpers: */
    sc_helper_set helpers;
    char *text; /* with them */
} kernel;

typedef struct suite {
    attend_case cases[CASES];
    kernel kernels[CASES][2];
    sc_machine_module *module;
} suite;

static suite all;

/* Shared memory of a block: of sm_89, sm_80, sm_90. */
static const uint32_t sizes_of_blocks[] = {99 << 10, 163 << 10, 227 << 10};

static const spec_range any = {.dtypes = {"f32", "f32", "f64", "bf16", "bf16", "f16"},
                               .heads = {1, 3, 8, 16, 20, 33, 64, 48},
                               .few = 20,
                               .many = 60,
                               .few_keys = 40,
                               .many_keys = 80,
                               .most_keys = 150};

static const spec_range rows = {.dtypes = {"bf16", "f16", "bf16", "f16", "bf16", "bf16"},
                                .heads = {16, 32, 48, 64, 24, 64, 8, 40},
                                .few = 20,
                                .many = 60,
                                .few_keys = 40,
                                .many_keys = 80,
                                .most_keys = 150,
                                .has_rows = true};

/* ---- emitting ---- */

static void add_helpers(sc_strbuf *out, sc_helper_set helpers)
{
    helpers = sc_helpers_closed(helpers & ~SC_CUDA_MACHINE_HELPERS) & ~SC_CUDA_MACHINE_HELPERS;
    for (int i = 0; i < SC_HELPER_COUNT; i++) {
        if ((helpers >> i & 1) != 0)
            sc_strbuf_add(out, sc_helper_text((sc_helper)i));
    }
}

/* Small, so that few queries and keys are several. */
static sc_attention_cuda_tile draw_tile(spec *s)
{
    return (sc_attention_cuda_tile){.warps = 1 + (int)draw(s, 3),
                                    .strips = 1 + (int)draw(s, 2),
                                    .tile = 16 * (1 + (int)draw(s, 3)),
                                    .stages = 2 + (int)draw(s, 2),
                                    .resident = 1};
}

/* tiles: NULL for those that are chosen where a block has so many bytes of shared memory. */
static void emit(attend_case *a, int which, const sc_attention_cuda_tiles *tiles,
                 uint32_t shared_bytes, kernel *k)
{
    sc_context *context = a->c->m->context;
    sc_strbuf body, text;
    sc_helper_set helpers = 0;
    sc_strbuf_init(&body, &context->arena);
    sc_strbuf_init(&text, &context->arena);
    k->desc = sc_attention_describe(a->c->m, a->ops[which]);
    if (k->desc == NULL)
        fail_msg("not described:\n%s", a->spec.text);
    if (tiles == NULL)
        sc_attention_emit_cuda(context, k->desc, shared_bytes, k->name, &body, &helpers, &k->code);
    else
        sc_attention_emit_cuda_tiled(context, k->desc, tiles, k->name, &body, &helpers, &k->code);
    add_helpers(&text, helpers);
    sc_strbuf_add(&text, body.data);
    k->body = body.data;
    k->helpers = helpers;
    k->text = text.data;
}

/* ---- running ---- */

static bool run_kernel(const attend_case *a, int which, const kernel *k,
                       const sc_machine_module *module, uint64_t rank, void **results,
                       sc_machine_report *report)
{
    const sc_module *m = a->c->m;
    const sc_op *op = sc_op_at(m, a->ops[which]);
    sc_machine_argument arguments[MAX_ARRAYS];
    sc_machine_stage stages[SC_CUDA_MAX_STAGES];
    char entries[SC_CUDA_MAX_STAGES][80];
    int64_t params[SC_MAX_RANK + 4] = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->operand_count + op->result_count; i++, count++) {
        bool is_result = i >= op->operand_count;
        const sc_type_info *type =
            sc_type_of(m, is_result ? op->first_result + i - op->operand_count : op->operands[i]);
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
        stages[i] =
            (sc_machine_stage){entries[i], stage->blocks, stage->threads, stage->shared_bytes};
    }
    param_values(k->desc, rank, params);
    int64_t step = 0;
    for (uint32_t i = 0; i < k->desc->param_count; i++) {
        if (k->desc->params[i].kind == SC_PARAM_STEP) {
            step = params[i];
            params[i] = -1; /* not read */
        }
    }
    sc_machine_function function = {.module = module,
                                    .stages = stages,
                                    .stage_count = k->code.stage_count,
                                    .arguments = arguments,
                                    .argument_count = count,
                                    .scratch_bytes = (size_t)k->code.scratch_bytes,
                                    .values = params,
                                    .value_count = k->desc->param_count,
                                    .step = step};
    uint64_t failure = 0;
    bool is_fine = sc_machine_run_function(&function, &failure, report);
    assert_true(!is_fine || failure == UINT64_MAX);
    for (uint32_t i = 0; i < op->operand_count; i++)
        free(arguments[i].data);
    return is_fine;
}

static void run_rank(const attend_case *a, int which, uint64_t rank, void *user, void **results)
{
    sc_machine_report report;
    if (!run_kernel(a, which, user, all.module, rank, results, &report))
        fail_msg("%s\n%s", report.text, a->spec.text);
}

static int open_suite(void **state)
{
    (void)state;
    static const char *texts[2 * CASES];
    for (int i = 0; i < CASES; i++) {
        open_attend_case(&all.cases[i], (uint64_t)i + 1, i < SIMPLE ? &any : &rows);
        for (int which = 0; which < 2; which++) {
            kernel *k = &all.kernels[i][which];
            snprintf(k->name, sizeof k->name, "case%d_%d", i, which);
            spec *s = &all.cases[i].spec;
            const sc_attention_cuda_tiles tiles = {draw_tile(s), draw_tile(s), draw_tile(s),
                                                   1 + (int)draw(s, 4)};
            emit(&all.cases[i], which, i % 5 == 4 ? NULL : &tiles, sizes_of_blocks[i % 3], k);
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
        bool is_simple = k->code.why_simple != NULL;
        check_op(&all.cases[i], which, is_simple ? "simple" : "tiled", is_simple ? 1 : TILED_SLACK,
                 run_rank, k);
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

/* The cases would else not say what their names do. */
static void forms_are_among_the_cases(void **state)
{
    (void)state;
    int simple = 0, tiled = 0, intervals = 0, wide = 0, heads = 0, ranks = 0;
    for (int i = 0; i < 2 * CASES; i++) {
        const kernel *k = &all.kernels[i / 2][i % 2];
        const sc_attention_desc *desc = k->desc;
        simple += k->code.why_simple != NULL;
        if (k->code.why_simple != NULL)
            continue;
        tiled++;
        intervals += desc->is_causal || desc->arrays[SC_ATTENTION_LEN].is_there;
        wide += desc->arrays[SC_ATTENTION_KEEP].is_there ||
                desc->arrays[SC_ATTENTION_SEGMENTS].is_there ||
                desc->arrays[SC_ATTENTION_BIAS].is_there;
        heads += desc->e.size != desc->own[0].size;
        ranks += sc_mesh_ranks(&all.cases[i / 2].c->m->mesh) > 1;
    }
    print_message("of %d kernels, %d are simple, %d tiled; of these %d have intervals, %d more "
                  "masks, %d two sizes of heads, %d several ranks\n",
                  2 * CASES, simple, tiled, intervals, wide, heads, ranks);
    assert_true(simple >= 16 && tiled >= CASES / 2 && intervals >= 8 && wide >= 8 && heads >= 4 &&
                ranks >= 8);
}

/* A cache holds anything where nothing was written to yet: keys that positions hide from every
 * query are not looked at. The others grow, so that sums have to be corrected for larger scores on
 * the way. */
static void hidden_keys_may_be_anything(void **state)
{
    (void)state;
    enum { FILLED = 37, KEYS = 70, E = 16 };
    const sc_attention_cuda_tile tile = {2, 1, 16, 2, 1};
    const sc_attention_cuda_tiles tiles = {tile, tile, tile, 1};
    attend_case a = {.spec = {.seed = 5,
                              .sizes = {['S'] = 1, ['T'] = 1},
                              .input_count = 5,
                              .inputs = {{"q", "bf16", ""},
                                         {"k", "bf16", ""},
                                         {"v", "bf16", ""},
                                         {"pos", "i32", ""},
                                         {"len", "i32", ""}}}};
    snprintf(a.spec.text, sizeof a.spec.text,
             "%%q = input : bf16[S=5, G=3, E=16]\n%%k = input : bf16[T=70, E=16]\n%%v = input : "
             "bf16[T=70, E=16]\n%%pos = input : i32[]\n"
             "%%len = input : i32[]\n%%d = input : bf16[S=5, G=3, E=16]\n"
             "%%o, %%l = attend[T, E -> S] %%q, %%k, %%v, %%pos, %%len {mask = causal, with = "
             "[pos, len], lse = 1} : bf16[S=5, G=3, E=16], "
             "f32[S=5, G=3]\n"
             "%%dq, %%dk, %%dv = attend_grad[T, E -> S] %%q, %%k, %%v, %%o, %%l, %%d, %%pos, %%len "
             "{mask = causal, with = [pos, len]} : "
             "bf16[S=5, G=3, E=16], bf16[T=70, E=16], bf16[T=70, E=16]\nreturn %%o, %%l, %%dq, "
             "%%dk, %%dv\n");
    prepare_attend_case(&a);
    a.c->inputs[3].data[0] = FILLED - 5;
    a.c->inputs[4].data[0] = 5;
    for (int i = 0; i < FILLED * E; i++)
        a.c->inputs[1].data[i] = ldexp(a.c->inputs[1].data[i], i / E / 8);
    for (int i = FILLED * E; i < KEYS * E; i++)
        a.c->inputs[1].data[i] = a.c->inputs[2].data[i] = NAN;
    assert_true(case_run(a.c));
    kernel kernels[2];
    const char *texts[2];
    for (int which = 0; which < 2; which++) {
        snprintf(kernels[which].name, sizeof kernels[which].name, "hidden%d", which);
        emit(&a, which, &tiles, 0, &kernels[which]);
        assert_null(kernels[which].code.why_simple);
        texts[which] = kernels[which].text;
    }
    sc_machine_report report;
    sc_machine_module *cases = all.module;
    all.module = sc_machine_compile(texts, 2, &report);
    if (all.module == NULL)
        fail_msg("%s", report.text);
    for (int which = 0; which < 2; which++)
        check_op(&a, which, "tiled", TILED_SLACK, run_rank, &kernels[which]);
    sc_machine_unload(all.module);
    all.module = cases;
    case_close(a.c);
}

/* ---- tiles that are chosen ---- */

static bool same_tiles(const sc_attention_cuda_tiles *a, const sc_attention_cuda_tiles *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void open_head(attend_case *a, int head, int queries, int keys)
{
    char q[80], k[80];
    *a = (attend_case){
        .spec = {.seed = 5,
                 .input_count = 3,
                 .inputs = {{"q", "bf16", ""}, {"k", "bf16", ""}, {"v", "bf16", ""}}}};
    snprintf(q, sizeof q, "bf16[S=%d, G=2, E=%d]", queries, head);
    snprintf(k, sizeof k, "bf16[T=%d, E=%d]", keys, head);
    snprintf(
        a->spec.text, sizeof a->spec.text,
        "%%q = input : %s\n%%k = input : %s\n%%v = input : %s\n%%d = input : %s\n"
        "%%o, %%l = attend[T, E -> S] %%q, %%k, %%v {mask = causal, lse = 1} : %s, f32[S=%d, G=2]\n"
        "%%dq, %%dk, %%dv = attend_grad[T, E -> S] %%q, %%k, %%v, %%o, %%l, %%d {mask = causal} : "
        "%s, %s, %s\n"
        "return %%o, %%l, %%dq, %%dk, %%dv\n",
        q, k, k, q, q, queries, q, k, k);
    run_attend_case(a);
}

/* Of every size of heads and of shared memory, over several blocks and tiles. */
static void chosen_tiles_are_the_interpreters(void **state)
{
    (void)state;
    enum { HEADS = 4, SIZES = 3, QUERIES = 75, KEYS = 150 };
    for (int h = 0; h < HEADS; h++) {
        attend_case a;
        kernel kernels[SIZES][2];
        sc_attention_cuda_tiles tiles[SIZES];
        const char *texts[2 * SIZES];
        uint32_t count = 0;
        open_head(&a, 64 * (h + 1), QUERIES, KEYS);
        for (int i = 0; i < SIZES; i++) {
            tiles[count] = sc_attention_cuda_default_tiles(sc_attention_describe(a.c->m, a.ops[1]),
                                                           sizes_of_blocks[i]);
            if (count > 0 && same_tiles(&tiles[count], &tiles[count - 1]))
                continue;
            for (int which = 0; which < 2; which++) {
                kernel *k = &kernels[count][which];
                snprintf(k->name, sizeof k->name, "chosen%d_%d_%d", h, i, which);
                emit(&a, which, NULL, sizes_of_blocks[i], k);
                assert_null(k->code.why_simple);
                for (uint32_t s = 0; s < k->code.stage_count; s++)
                    assert_true(k->code.stages[s].shared_bytes <= sizes_of_blocks[i]);
                texts[2 * count + (uint32_t)which] = k->text;
            }
            count++;
        }
        assert_true(count > 1); /* the memory is used */
        sc_machine_report report;
        sc_machine_module *cases = all.module;
        all.module = sc_machine_compile(texts, 2 * count, &report);
        if (all.module == NULL)
            fail_msg("%s", report.text);
        for (uint32_t i = 0; i < 2 * count; i++)
            check_op(&a, (int)i % 2, "tiled", TILED_SLACK, run_rank, &kernels[i / 2][i % 2]);
        sc_machine_unload(all.module);
        all.module = cases;
        case_close(a.c);
    }
}

/* ---- mistakes ---- */

/* The text without occurrence `number` of the words. */
static char *without(const char *text, const char *words, int number)
{
    const char *at = strstr(text, words);
    while (at != NULL && number-- > 0)
        at = strstr(at + 1, words);
    if (at == NULL) {
        fail_msg("the text has no such %s", words);
        return NULL;
    }
    char *changed = strdup(text);
    assert_non_null(changed);
    memmove(changed + (at - text), at + strlen(words), strlen(at + strlen(words)) + 1);
    return changed;
}

/* What keeps threads and copies in order is needed: each of these gone, a run is reported. So many
 * queries and keys. */
static void expect_reports(const sc_attention_cuda_tiles *tiles, uint32_t shared_bytes, int size)
{
    static const struct {
        const char *words;
        int which, number;
    } faults[] = {
        {"sc_copy_wait<stages - 2>();", 0, 0},
        {"sc_sync();", 0, 0},
        {"sc_sync();", 0, 1},
        {"sc_sync_warp();", 0, 0},
        {"sc_copy_wait<0>();", 1, 0},
        {"sc_sync();", 1, 0},
        {"sc_sync();", 1, 1},
        {"sc_sync_warp();", 1, 0},
        {"sc_copy_wait<stages - 2>();", 1, 0},
        {"sc_sync();", 1, 3},
        {"sc_sync();", 1, 4},
    };
    enum { FAULTS = sizeof faults / sizeof *faults };
    attend_case a;
    open_head(&a, 32, size / 2, size);
    kernel kernels[FAULTS + 2];
    const char *texts[FAULTS + 2];
    for (int i = 0; i < FAULTS + 2; i++) {
        kernel *k = &kernels[i];
        snprintf(k->name, sizeof k->name, "fault%d", i);
        emit(&a, i < FAULTS ? faults[i].which : i - FAULTS, tiles, shared_bytes, k);
        texts[i] = i < FAULTS ? without(k->text, faults[i].words, faults[i].number) : k->text;
    }
    sc_machine_report report;
    sc_machine_module *module = sc_machine_compile(texts, FAULTS + 2, &report);
    if (module == NULL)
        fail_msg("%s", report.text);
    for (int i = 0; i < FAULTS + 2; i++) {
        int which = i < FAULTS ? faults[i].which : i - FAULTS;
        void *results[4] = {0};
        bool is_fine = run_kernel(&a, which, &kernels[i], module, 0, results, &report);
        if (is_fine != (i >= FAULTS))
            fail_msg("without %s number %d of %d: %s", i < FAULTS ? faults[i].words : "nothing",
                     i < FAULTS ? faults[i].number : 0, which,
                     is_fine ? "nothing is reported" : report.text);
        for (int r = 0; r < (which == 0 ? 2 : 3); r++)
            free(results[r]);
        if (i < FAULTS)
            free((char *)texts[i]);
    }
    sc_machine_unload(module);
    case_close(a.c);
}

static void missing_order_is_reported(void **state)
{
    (void)state;
    const sc_attention_cuda_tile tile = {2, 1, 16, 2, 1};
    const sc_attention_cuda_tiles tiles = {tile, tile, tile, 1};
    expect_reports(&tiles, 0, 45);
    expect_reports(NULL, 227 << 10, 330); /* more keys than are on their way at once */
}

/* ---- for GPUs ---- */

/* What NVRTC makes of kernels, in the arena; what it made before is in the cache. */
static const sc_cubin *cubins_of(sc_arena *arena, const kernel *const *kernels, uint32_t count,
                                 const char *target)
{
    sc_cubins cubins;
    sc_cubin_function *functions = sc_arena_array(arena, count, sizeof *functions);
    for (uint32_t i = 0; i < count; i++)
        functions[i] = (sc_cubin_function){kernels[i]->name, kernels[i]->body, kernels[i]->helpers};
    const char *wrong =
        sc_cubins_build(arena, sc_target_find(target), functions, count, NULL, &cubins);
    if (wrong != NULL)
        fail_msg("%s: %s", target, wrong);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(cubins.cubins[i].usages.count, kernels[i]->code.stage_count);
    return cubins.cubins;
}

static void need_nvrtc(void)
{
    sc_nvrtc nvrtc;
    shardc_error error = {0};
    if (sc_nvrtc_open(&nvrtc, &error)) {
        sc_nvrtc_close(&nvrtc);
        return;
    }
    print_message("skipped: %s\n", error.text);
    skip();
}

static void texts_compile_for_gpus(void **state)
{
    (void)state;
    need_nvrtc();
    const kernel *kernels[2 * CASES];
    uint32_t count = 0;
    for (int i = 0; i < CASES; i += 3) {
        kernels[count++] = &all.kernels[i][0];
        kernels[count++] = &all.kernels[i][1];
    }
    cubins_of(&all.cases[0].c->m->context->arena, kernels, count, "cuda:sm_90a");
}

/* Sums, weights and fragments stay in registers; a block's tiles fit on the GPU. */
static void check_fit(int queries, int head, const char *const *targets)
{
    char q[80], k[80], body[2048];
    snprintf(q, sizeof q, "bf16[A=2, S=%d, K=2, G=4, E=%d]", queries, head);
    snprintf(k, sizeof k, "bf16[A=2, T=4096, K=2, E=%d]", head);
    snprintf(body, sizeof body,
             "%%q = input : %s\n%%k = input : %s\n%%v = input : %s\n%%pos = input : i32[A=2]\n%%d "
             "= input : %s\n"
             "%%o, %%l = attend[T, E -> S] %%q, %%k, %%v, %%pos {mask = causal, with = [pos], lse "
             "= 1} : %s, f32[A=2, S=%d, K=2, G=4]\n"
             "%%dq, %%dk, %%dv = attend_grad[T, E -> S] %%q, %%k, %%v, %%o, %%l, %%d, %%pos {mask "
             "= causal, with = [pos]} : %s, %s, %s\n"
             "return %%o, %%l, %%dq, %%dk, %%dv\n",
             q, k, k, q, q, queries, q, k, k);
    attend_case a = {.c = case_read("", "", body)};
    find_ops(&a);
    for (int t = 0; targets[t] != NULL; t++) {
        kernel made[2];
        uint32_t shared_bytes = sc_target_find(targets[t])->shared_bytes;
        for (int which = 0; which < 2; which++) {
            snprintf(made[which].name, sizeof made[which].name, "head%d_%d", head, which);
            emit(&a, which, NULL, shared_bytes, &made[which]);
            assert_null(made[which].code.why_simple);
            for (uint32_t stage = 0; stage < made[which].code.stage_count; stage++)
                assert_true(made[which].code.stages[stage].shared_bytes <= shared_bytes);
        }
        const sc_cubin *cubins =
            cubins_of(&a.c->context.arena, (const kernel *[]){&made[0], &made[1]}, 2, targets[t]);
        for (int which = 0; which < 2; which++) {
            for (uint32_t u = 0; u < cubins[which].usages.count; u++) {
                const sc_cuda_usage *usage = &cubins[which].usages.data[u];
                print_message("%-12s %4d queries %-10s %3u registers, %u bytes spilled\n",
                              targets[t], queries, usage->entry, usage->registers,
                              usage->spill_store_bytes + usage->spill_load_bytes);
                assert_int_equal(usage->spill_store_bytes + usage->spill_load_bytes, 0);
            }
        }
    }
    case_close(a.c);
}

static void default_tiles_fit(void **state)
{
    (void)state;
    static const char *const all_targets[] = {"cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a", NULL};
    need_nvrtc();
    for (int head = 64; head <= 256; head += 64)
        check_fit(1024, head, all_targets);
    check_fit(1, 128, all_targets + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_the_interpreters),
        cmocka_unit_test(backward_is_the_interpreters),
        cmocka_unit_test(chosen_tiles_are_the_interpreters),
        cmocka_unit_test(forms_are_among_the_cases),
        cmocka_unit_test(hidden_keys_may_be_anything),
        cmocka_unit_test(missing_order_is_reported),
        cmocka_unit_test(texts_compile_for_gpus),
        cmocka_unit_test(default_tiles_fit),
    };
    return cmocka_run_group_tests(tests, open_suite, close_suite);
}
