/* shardc kernels: lists the program's kernels with their sources; with --compile also their machine
 * code. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "codegen/program/generate.h"
#include "codegen/toolchain/cubins.h"
#include "program/bytes.h"
#include "program/gemm_blas.h"
#include "tools/commands/commands.h"
#include "tools/explain/report.h"
#include "tools/run/parts.h"

typedef struct listing {
    sc_context *context;
    const sc_options *options;
    const sc_target *target;
    sc_generated_program program;
    /* of the stage being listed */
    uint32_t stage;
    sc_generated generated;
    sc_cubins cubins; /* by kernel; empty without --compile */
} listing;

static bool has_stages(const listing *l)
{
    return l->program.stage_count > 1;
}

/* The name of a file of each stage: program.txt, or program.2.txt of stage 2. */
static const char *name_of_stage(const listing *l, const char *base, const char *suffix)
{
    sc_arena *arena = &l->context->arena;
    return has_stages(l) ? sc_arena_printf(arena, "%s.%u.%s", base, l->stage, suffix)
                         : sc_arena_printf(arena, "%s.%s", base, suffix);
}

static bool write_file(const listing *l, const char *name, const void *bytes, size_t length)
{
    sc_context *context = l->context;
    const char *path = sc_arena_printf(&context->arena, "%s/%s", l->options->run.output, name);
    FILE *file = fopen(path, "wb");
    bool written = file != NULL && (length == 0 || fwrite(bytes, 1, length, file) == length);
    if (file != NULL && fclose(file) != 0)
        written = false;
    if (!written)
        sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0}, path, strerror(errno), NULL);
    return written;
}

static const char *source_name(const listing *l, const sc_generated_kernel *kernel)
{
    return sc_arena_printf(&l->context->arena, "%s.%s", kernel->symbol,
                           sc_target_is_cuda(l->target) ? "cu" : "c");
}

/* Writes the kernel IR as a comment, the helpers that the function calls, and the function. */
static bool write_source(const listing *l, const sc_generated_kernel *kernel)
{
    sc_arena *arena = &l->context->arena;
    bool cuda = sc_target_is_cuda(l->target);
    sc_strbuf text;
    sc_strbuf_init(&text, arena);
    if (kernel->ir != NULL)
        sc_strbuf_printf(&text, "/*\n%s*/\n\n", kernel->ir);
    if (cuda) {
        sc_cuda_source(&text, kernel->text, kernel->helpers);
    } else {
        sc_helpers_emit(&text, kernel->helpers);
        sc_strbuf_printf(&text, "\n%s", kernel->text);
    }
    return write_file(l, source_name(l, kernel), text.data, text.length);
}

static bool write_cubin(const listing *l, const sc_generated_kernel *kernel, const sc_cubin *cubin)
{
    sc_arena *arena = &l->context->arena;
    bool virtual = sc_target_is_virtual(l->target);
    return (virtual || write_file(l, sc_arena_printf(arena, "%s.cubin", kernel->symbol),
                                  cubin->cubin, cubin->cubin_bytes)) &&
           write_file(l, sc_arena_printf(arena, "%s.ptx", kernel->symbol), cubin->ptx,
                      cubin->ptx_bytes - 1);
}

static bool write_all(const listing *l)
{
    const char *dir = l->options->run.output;
    const sc_image *image = l->generated.image;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        sc_report(&l->context->diag, SC_D_cannot_write, (sc_loc){0}, dir, strerror(errno), NULL);
        return false;
    }
    for (uint32_t i = 0; i < l->generated.kernels.count; i++) {
        const sc_generated_kernel *kernel = &l->generated.kernels.data[i];
        if (!write_source(l, kernel) ||
            (l->cubins.cubins != NULL && !write_cubin(l, kernel, &l->cubins.cubins[i])))
            return false;
    }
    if (image->object_bytes > 0 &&
        !write_file(l, name_of_stage(l, "kernels", "so"), image->object, image->object_bytes))
        return false;
    sc_strbuf dump;
    sc_strbuf_init(&dump, &l->context->arena);
    sc_image_dump(image, &dump);
    return write_file(l, name_of_stage(l, "program", "txt"), dump.data, dump.length);
}

static bool compile_cubins(listing *l)
{
    sc_arena *arena = &l->context->arena;
    uint32_t count = l->generated.kernels.count;
    sc_cubin_function *functions = sc_arena_array(arena, count, sizeof *functions);
    for (uint32_t i = 0; i < count; i++) {
        const sc_generated_kernel *kernel = &l->generated.kernels.data[i];
        functions[i] = (sc_cubin_function){kernel->symbol, kernel->text, kernel->helpers};
    }
    const char *error = sc_cubins_build(arena, l->target, functions, count, NULL, &l->cubins);
    if (error != NULL)
        sc_report(&l->context->diag, SC_D_cuda_compiler_failed, (sc_loc){0}, error, NULL);
    return error == NULL;
}

/* ---- the list ---- */
static const sc_cuda_usage *find_usage(const listing *l, uint32_t kernel, const char *entry)
{
    if (l->cubins.cubins == NULL)
        return NULL;
    const sc_cubin *cubin = &l->cubins.cubins[kernel];
    for (uint32_t u = 0; u < cubin->usages.count; u++) {
        if (strcmp(cubin->usages.data[u].entry, entry) == 0)
            return &cubin->usages.data[u];
    }
    return NULL;
}

static void print_stages(const listing *l, uint32_t index, sc_strbuf *out)
{
    const sc_generated_kernel *kernel = &l->generated.kernels.data[index];
    for (uint32_t s = 0; s < kernel->code.stage_count; s++) {
        const sc_cuda_stage *stage = &kernel->code.stages[s];
        const sc_cuda_usage *usage =
            find_usage(l, index, sc_arena_printf(&l->context->arena, "%s_%u", kernel->symbol, s));
        sc_strbuf_printf(out, "    stage %u: %lld blocks x %u threads, %u shared bytes", s,
                         (long long)stage->blocks, stage->threads, stage->shared_bytes);
        if (usage != NULL)
            sc_strbuf_printf(out, ", %u registers, %u bytes spilled", usage->registers,
                             usage->spill_store_bytes);
        sc_strbuf_add_char(out, '\n');
    }
    if (sc_target_is_cuda(l->target) && kernel->code.scratch_bytes > 0)
        sc_strbuf_printf(out, "    scratch: %lld bytes\n", (long long)kernel->code.scratch_bytes);
}

static void print_gemm(const listing *l, const sc_gemm *gemm, sc_strbuf *out)
{
    static const char names[] = {[SC_GEMM_A] = 'a', [SC_GEMM_B] = 'b', [SC_GEMM_C] = 'c'};
    sc_matmul form;
    sc_gemm_print(gemm, out);
    sc_strbuf_add_char(out, '\n');
    if (!sc_target_is_cuda(l->target) || sc_matmul_of(gemm, &form) != NULL)
        return;
    const sc_matmul_matrix *uneven = sc_matmul_uneven(&form);
    if (uneven != NULL)
        sc_strbuf_printf(out, "    slow: rows of %c are %lld bytes apart, not a multiple of %d\n",
                         names[uneven->operand],
                         (long long)uneven->stride * sc_dtypes[uneven->dtype].bytes,
                         SC_MATMUL_ROW_UNIT);
}

static void print_list(const listing *l, sc_strbuf *out)
{
    if (has_stages(l))
        sc_strbuf_printf(out, "stage %u\n", l->stage);
    for (uint32_t i = 0; i < l->generated.kernels.count; i++) {
        const sc_generated_kernel *kernel = &l->generated.kernels.data[i];
        sc_strbuf_printf(out, "%-22s %4u calls  %s\n", kernel->symbol, kernel->calls,
                         kernel->title);
        if (kernel->why_simple != NULL)
            sc_strbuf_printf(out, "    simple: %s\n", kernel->why_simple);
        print_stages(l, i, out);
    }
    for (uint32_t i = 0; i < l->generated.image->gemm_count; i++)
        print_gemm(l, &l->generated.image->gemms[i], out);
}

static json_t *stages_json(const listing *l, uint32_t index)
{
    const sc_generated_kernel *kernel = &l->generated.kernels.data[index];
    json_t *stages = json_array();
    for (uint32_t s = 0; s < kernel->code.stage_count; s++) {
        const sc_cuda_stage *stage = &kernel->code.stages[s];
        const sc_cuda_usage *usage =
            find_usage(l, index, sc_arena_printf(&l->context->arena, "%s_%u", kernel->symbol, s));
        json_t *row =
            json_pack("{s:I,s:I,s:I}", "blocks", (json_int_t)stage->blocks, "threads",
                      (json_int_t)stage->threads, "shared_bytes", (json_int_t)stage->shared_bytes);
        json_object_set_new(row, "registers",
                            usage == NULL ? json_null() : json_integer(usage->registers));
        json_object_set_new(row, "spilled_bytes",
                            usage == NULL ? json_null() : json_integer(usage->spill_store_bytes));
        json_array_append_new(stages, row);
    }
    return stages;
}

static json_t *kernel_json(const listing *l, uint32_t index)
{
    const sc_generated_kernel *kernel = &l->generated.kernels.data[index];
    const char *folder = l->options->run.output;
    json_t *row =
        json_pack("{s:s,s:s,s:s,s:I,s:s?,s:I,s:o}", "name", kernel->symbol, "kind",
                  kernel->ir == NULL ? "attention" : "fused", "title", kernel->title, "calls",
                  (json_int_t)kernel->calls, "simple", kernel->why_simple, "scratch_bytes",
                  (json_int_t)kernel->code.scratch_bytes, "stages", stages_json(l, index));
    const char *path = folder == NULL ? NULL
                                      : sc_arena_printf(&l->context->arena, "%s/%s", folder,
                                                        source_name(l, kernel));
    if (has_stages(l))
        json_object_set_new(row, "stage", json_integer((json_int_t)l->stage));
    json_object_set_new(row, "file", path == NULL ? json_null() : json_string(path));
    return row;
}

static json_t *product_json(const listing *l, const sc_gemm *gemm)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &l->context->arena);
    sc_gemm_print(gemm, &text);
    json_t *row =
        json_pack("{s:s,s:o}", "text", text.data, "flops", sc_number_json(sc_gemm_flops(gemm)));
    if (has_stages(l))
        json_object_set_new(row, "stage", json_integer((json_int_t)l->stage));
    return row;
}

/* Adds the stage's kernels and GEMMs. */
static void add_json(const listing *l, json_t *kernels, json_t *products)
{
    for (uint32_t i = 0; i < l->generated.kernels.count; i++)
        json_array_append_new(kernels, kernel_json(l, i));
    for (uint32_t i = 0; i < l->generated.image->gemm_count; i++)
        json_array_append_new(products, product_json(l, &l->generated.image->gemms[i]));
}

static void print_json(const listing *l, const sc_compiled *c, json_t *kernels, json_t *products,
                       sc_strbuf *out)
{
    sc_print_json(json_pack("{s:i,s:s,s:o,s:s,s:s,s:o,s:o}", "version", 1, "file", l->options->file,
                            "plan", sc_plan_json(l->context, c->plan), "entry",
                            sc_text(l->context, c->entry), "target", l->target->name, "kernels",
                            kernels, "products", products),
                  out);
}

static bool list_stages(listing *l, json_t *kernels, json_t *products, sc_strbuf *out)
{
    bool compiles = sc_target_is_cuda(l->target) && l->options->compile, ok = true;
    for (l->stage = 0; l->stage < l->program.stage_count; l->stage++) {
        if (!ok)
            break;
        l->generated = l->program.stages[l->stage];
        ok = !compiles || compile_cubins(l);
        if (ok && l->options->run.json)
            add_json(l, kernels, products);
        else if (ok)
            print_list(l, out);
        ok = ok && (l->options->run.output == NULL || write_all(l));
    }
    return ok;
}

int sc_cmd_kernels(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    sc_compiled c;
    sc_generate_part parts[2];
    listing l = {
        .context = context, .options = options, .target = sc_driver_target(context, options)};
    if (l.target == NULL)
        return 0;
    const sc_generate_options how = {.target = l.target,
                                     .no_object = sc_target_is_cuda(l.target) || !options->compile};
    if (!sc_driver_compile_file(context, options, NULL, NULL, "fuse", &c) ||
        !sc_generate_program(parts, sc_parts_of(&c, NULL, NULL, parts), &how, &l.program))
        return 0;
    json_t *kernels = json_array(), *products = json_array();
    bool ok = list_stages(&l, kernels, products, out);
    if (ok && options->run.json) {
        print_json(&l, &c, kernels, products, out);
    } else {
        json_decref(kernels);
        json_decref(products);
    }
    return 0;
}
