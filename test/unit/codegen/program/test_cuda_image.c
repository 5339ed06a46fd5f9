/* Programs for GPUs: every kernel has its stages and its module, what the plan says is what is
 * launched, and bytes read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "codegen/program/generate.h"
#include "codegen/toolchain/nvrtc.h"
#include "program/archive.h"
#include "program/bytes.h"
#include "tools/driver/driver.h"

#define MODEL "lang 1;\ndim B = 4096, S = 16, T = alias S, D = 64, H = 2, E = 32;\n"

/* A sum over many rows, for which stages follow one another with scratch between them. */
static const char rows[] = MODEL "model m {\n"
                                 "  entry f(x[B, D]) -> [D] { return sum[B](exp(x) * x); }\n"
                                 "}\n";
static const char attention[] = MODEL
    "model m {\n"
    "  entry f(q: f32[S, H, E], k: f32[T, H, E]) -> [S, H, E] { return attend[T, E](q, k, k); }\n"
    "}\n";

typedef struct run {
    const char *text, *target;
    bool compile;
    void (*check)(sc_context *, bool made, const sc_generated *);
    bool done;
} run;

static void compile(sc_context *context, void *user)
{
    run *r = user;
    sc_compiled c;
    sc_generated generated;
    sc_options options = {.command = "kernels",
                          .file = "m.shard",
                          .text = r->text,
                          .text_length = strlen(r->text),
                          .entry = "f"};
    sc_generate_options how = {.target = sc_target_find(r->target),
                               .no_object = !r->compile,
                               .object = &(sc_object_options){.cache = ""}};
    if (!sc_driver_compile_file(context, &options, NULL, NULL, "fuse", &c))
        fail_msg("%s", context->diag.list.data[0].text);
    bool made = sc_generate(c.local, &how, &generated);
    r->check(context, made, &generated);
    r->done = true;
}

static void check_run(run r)
{
    sc_context context;
    assert_true(sc_context_run(&context, 0, compile, &r));
    assert_true(r.done);
    sc_context_free(&context);
}

static void expect_stages(sc_context *context, bool made, const sc_generated *generated)
{
    const sc_image *image = generated->image;
    int64_t scratch = 0;
    uint32_t stages = 0;
    assert_true(made);
    assert_null(sc_image_check(image, &context->arena));
    assert_string_equal(image->cpu, "");
    for (uint32_t k = 0; k < image->kernel_count; k++) {
        const sc_image_kernel *kernel = &image->kernels[k];
        const sc_cuda_code *code = &generated->kernels.data[k].code;
        assert_int_equal(kernel->stage_count, code->stage_count);
        assert_memory_equal(kernel->stages, code->stages, code->stage_count * sizeof *code->stages);
        stages += code->stage_count;
        if (code->scratch_bytes == 0)
            continue;
        scratch += code->scratch_bytes;
        assert_int_equal(kernel->args[kernel->arg_count - 1].bytes, code->scratch_bytes);
    }
    assert_true(scratch > 0 && stages > image->kernel_count);
    for (uint32_t i = 0; i < image->funcs[0].instr_count; i++) {
        const sc_image_instr *instr = &image->funcs[0].instrs[i];
        const sc_image_kernel *kernel = &image->kernels[instr->index];
        assert_int_equal(instr->kind, SC_INSTR_KERNEL);
        assert_int_equal(instr->arg_count, kernel->arg_count);
        const sc_image_buffer *last = &image->buffers[instr->args[instr->arg_count - 1].buffer];
        bool has_scratch = generated->kernels.data[instr->index].code.scratch_bytes > 0;
        assert_true(!has_scratch || (last->kind == SC_BUFFER_WORKSPACE &&
                                     last->bytes == kernel->args[kernel->arg_count - 1].bytes));
    }
}

static void stages_and_scratch_are_in_the_image(void **state)
{
    (void)state;
    check_run((run){.text = rows, .target = "cuda:sm_90a", .check = expect_stages});
    check_run((run){.text = rows, .target = "cuda:compute_80", .check = expect_stages});
}

static bool find_module(const sc_image *image, sc_arena *arena, const char *symbol,
                        const char *ending, sc_archive_entry *out)
{
    return sc_archive_find(image->object, image->object_bytes,
                           sc_arena_printf(arena, "%s%s", symbol, ending), out);
}

static void expect_modules(sc_context *context, bool made, const sc_generated *generated)
{
    sc_arena *arena = &context->arena;
    bool virtual = strstr(generated->image->target, "compute_") != NULL;
    shardc_error error;
    sc_strbuf bytes;
    expect_stages(context, made, generated);
    assert_int_equal(generated->compiled, generated->kernels.count);
    sc_strbuf_init(&bytes, arena);
    sc_image_write(generated->image, &bytes);
    sc_image *read = sc_image_read(bytes.data, bytes.length, arena, &error);
    if (read == NULL)
        fail_msg("%s", error.text);
    for (uint32_t k = 0; k < read->kernel_count; k++) {
        sc_archive_entry entry;
        const char *symbol = read->kernels[k].symbol;
        assert_true(find_module(read, arena, symbol, ".ptx", &entry));
        for (uint32_t s = 0; s < read->kernels[k].stage_count; s++)
            assert_non_null(
                strstr(entry.bytes, sc_arena_printf(arena, ".entry %s_%u(", symbol, s)));
        assert_int_equal(((const char *)entry.bytes)[entry.size - 1], 0);
        assert_int_equal(find_module(read, arena, symbol, ".cubin", &entry), !virtual);
        if (!virtual)
            assert_memory_equal(entry.bytes, "\177ELF", 4);
    }
}

static void each_function_has_its_modules(void **state)
{
    (void)state;
    sc_nvrtc nvrtc;
    shardc_error error;
    if (!sc_nvrtc_open(&nvrtc, &error)) {
        print_message("skipped: %s\n", error.text);
        skip();
    }
    sc_nvrtc_close(&nvrtc);
    check_run(
        (run){.text = rows, .target = "cuda:sm_80", .compile = true, .check = expect_modules});
    check_run(
        (run){.text = rows, .target = "cuda:compute_90", .compile = true, .check = expect_modules});
}

static void expect_attention(sc_context *context, bool made, const sc_generated *generated)
{
    assert_int_equal(context->diag.errors, 0);
    assert_true(made);
    assert_int_equal(generated->image->kernel_count, 1);
    assert_true(generated->image->kernels[0].stage_count > 0);
    assert_true(generated->image->kernels[0].attention);
    assert_non_null(strstr(generated->kernels.data[0].text, "SC_KERNEL"));
}

static void attention_has_stages(void **state)
{
    (void)state;
    check_run((run){.text = attention, .target = "cuda:sm_80", .check = expect_attention});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_and_scratch_are_in_the_image),
        cmocka_unit_test(each_function_has_its_modules),
        cmocka_unit_test(attention_has_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
