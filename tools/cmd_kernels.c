/* shardc kernels: what the program's kernels are, and their sources. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "codegen/program.h"
#include "tools/commands.h"

static bool write_file(sc_context *context, const char *path, const char *text, size_t length)
{
    FILE *file = fopen(path, "w");
    bool written = file != NULL && fwrite(text, 1, length, file) == length;
    if (file != NULL && fclose(file) != 0)
        written = false;
    if (!written)
        sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0}, path, strerror(errno), NULL);
    return written;
}

/* A file a kernel: the kernel IR as a comment, what the function calls, the function. */
static bool write_sources(sc_context *context, const sc_generated *generated, const char *dir)
{
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0}, dir, strerror(errno), NULL);
        return false;
    }
    for (uint32_t i = 0; i < generated->kernels.count; i++) {
        const sc_generated_kernel *kernel = &generated->kernels.data[i];
        sc_strbuf text;
        sc_strbuf_init(&text, &context->arena);
        if (kernel->ir != NULL)
            sc_strbuf_printf(&text, "/*\n%s*/\n\n", kernel->ir);
        sc_helpers_emit(&text, kernel->helpers);
        sc_strbuf_printf(&text, "\n%s", kernel->text);
        if (!write_file(context, sc_arena_printf(&context->arena, "%s/%s.c", dir, kernel->symbol), text.data, text.length))
            return false;
    }
    sc_strbuf dump;
    sc_strbuf_init(&dump, &context->arena);
    sc_image_dump(generated->image, &dump);
    return write_file(context, sc_arena_printf(&context->arena, "%s/program.txt", dir), dump.data, dump.length);
}

int sc_cmd_kernels(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    sc_compiled c;
    sc_generated generated;
    if (!sc_driver_compile_file(context, options, NULL, NULL, "fuse", &c) ||
        !sc_generate(c.local, &(sc_generate_options){.no_object = true}, &generated))
        return 0;
    for (uint32_t i = 0; i < generated.kernels.count; i++) {
        const sc_generated_kernel *kernel = &generated.kernels.data[i];
        sc_strbuf_printf(out, "%-22s %4u calls  %s\n", kernel->symbol, kernel->calls, kernel->title);
        if (kernel->why_simple != NULL)
            sc_strbuf_printf(out, "    simple: %s\n", kernel->why_simple);
    }
    for (uint32_t i = 0; i < generated.image->gemm_count; i++)
        sc_gemm_print(&generated.image->gemms[i], out), sc_strbuf_add_char(out, '\n');
    if (options->output != NULL && !write_sources(context, &generated, options->output))
        return 0;
    return 0;
}
