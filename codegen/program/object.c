/* The program's code: a shared object for CPUs; for GPUs an archive with the modules of each
 * function, SYMBOL.cubin and SYMBOL.ptx. */
#include "codegen/cuda/reduce_ranks.h"
#include "codegen/program/internal.h"
#include "codegen/toolchain/cubins.h"
#include "program/archive.h"

static void warn_of_cache(sc_generator *g, const char *refused)
{
    if (refused != NULL)
        sc_report(&g->m->context->diag, SC_D_cache_unused, (sc_loc){0}, refused, NULL);
}

static bool add_shared_object(sc_generator *g, sc_image *image)
{
    uint32_t count = g->out->kernels.count;
    sc_object_function *functions = sc_arena_array(g->arena, count, sizeof *functions);
    for (uint32_t i = 0; i < count; i++) {
        const sc_generated_kernel *kernel = &g->out->kernels.data[i];
        functions[i] = (sc_object_function){kernel->symbol, kernel->text, kernel->helpers};
    }
    sc_object object;
    const char *error = sc_objects_build(g->arena, functions, count, g->options->object, &object);
    if (error != NULL) {
        sc_report(&g->m->context->diag, SC_D_compiler_failed, (sc_loc){0}, error, NULL);
        return false;
    }
    warn_of_cache(g, object.refused);
    image->object = object.bytes;
    image->object_bytes = object.byte_count;
    g->out->compiled = object.compiled;
    return true;
}

/* Ranks that share a GPU reduce with kernels that belong to no function of the program; which ranks
 * do is not known at compile time. */
static bool add_reductions(sc_generator *g, const sc_image *image, sc_cubin_function *out)
{
    sc_strbuf text;
    sc_helper_set helpers = 0;
    sc_strbuf_init(&text, g->arena);
    if (image->ranks == 1 || !sc_cuda_reduce_text(image, &text, &helpers))
        return false;
    *out = (sc_cubin_function){"sc_reduce", text.data, helpers};
    return true;
}

static bool add_modules(sc_generator *g, sc_image *image)
{
    uint32_t count = g->out->kernels.count, entry_count = 0;
    sc_cubin_function *functions = sc_arena_array(g->arena, count + 1u, sizeof *functions);
    for (uint32_t i = 0; i < count; i++) {
        const sc_generated_kernel *kernel = &g->out->kernels.data[i];
        functions[i] = (sc_cubin_function){kernel->symbol, kernel->text, kernel->helpers};
    }
    count += add_reductions(g, image, &functions[count]);
    sc_archive_entry *entries = sc_arena_array(g->arena, count, 2 * sizeof *entries);
    sc_cubins cubins;
    const sc_cubin_options options = {
        .cache = g->options->object == NULL ? NULL : g->options->object->cache};
    const char *error =
        sc_cubins_build(g->arena, g->options->target, functions, count, &options, &cubins);
    if (error != NULL) {
        sc_report(&g->m->context->diag, SC_D_cuda_compiler_failed, (sc_loc){0}, error, NULL);
        return false;
    }
    warn_of_cache(g, cubins.refused);
    for (uint32_t i = 0; i < count; i++) {
        const sc_cubin *cubin = &cubins.cubins[i];
        if (cubin->cubin != NULL)
            entries[entry_count++] =
                (sc_archive_entry){sc_arena_printf(g->arena, "%s.cubin", functions[i].symbol),
                                   cubin->cubin, cubin->cubin_bytes};
        entries[entry_count++] = (sc_archive_entry){
            sc_arena_printf(g->arena, "%s.ptx", functions[i].symbol), cubin->ptx, cubin->ptx_bytes};
    }
    sc_strbuf archive;
    sc_strbuf_init(&archive, g->arena);
    sc_archive_write(entries, entry_count, &archive);
    image->object = (const uint8_t *)archive.data;
    image->object_bytes = archive.length;
    image->nvrtc = cubins.nvrtc;
    g->out->compiled = cubins.compiled;
    return true;
}

bool sc_generator_add_object(sc_generator *g, sc_image *image)
{
    return sc_generator_is_cuda(g) ? add_modules(g, image) : add_shared_object(g, image);
}
