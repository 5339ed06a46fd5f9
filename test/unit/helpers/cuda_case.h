/* Programs for GPUs in tests: images made by hand whose modules the driver's stub runs
 * (test/cuda_stub). */
#ifndef SHARDC_TEST_CUDA_CASE_H
#define SHARDC_TEST_CUDA_CASE_H

#include <dlfcn.h>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/reduce_ranks.h"
#include "program/archive.h"
#include "test/cuda_stub/stub.h"
#include "test/unit/helpers/session_case.h"

/* ---- the stub ---- */

typedef struct cuda_stub {
#define SYMBOL(result, name, arguments) result(*name) arguments;
    SYMBOL(void, sc_stub_fail, (const char *function, uint64_t n, unsigned result))
    SYMBOL(const char *, sc_stub_failed, (void))
    SYMBOL(uint64_t, sc_stub_calls, (void))
    SYMBOL(uint64_t, sc_stub_launches, (void))
    SYMBOL(uint64_t, sc_stub_replays, (void))
    SYMBOL(uint64_t, sc_stub_allocated, (void))
    SYMBOL(unsigned, sc_stub_streams, (int priority))
    SYMBOL(void, sc_stub_seed, (uint64_t seed))
    SYMBOL(void, sc_stub_delay, (const char *kernel, int gpu, uint32_t milliseconds))
    SYMBOL(uint32_t, sc_stub_live, (char *text, size_t room))
    SYMBOL(bool, sc_stub_check, (char *text, size_t room))
    SYMBOL(void, sc_stub_reset, (void))
#undef SYMBOL
} cuda_stub;

/* Of the library that $SHARDC_LIBCUDA names. */
static inline cuda_stub cuda_stub_open(void)
{
    cuda_stub s;
    void *library = dlopen(getenv("SHARDC_LIBCUDA"), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
#define FIND(name)                                                                                 \
    do {                                                                                           \
        void *symbol = library == NULL ? NULL : dlsym(library, #name);                             \
        if (symbol == NULL)                                                                        \
            abort();                                                                               \
        memcpy(&s.name, &symbol, sizeof s.name);                                                   \
    } while (0)
    FIND(sc_stub_fail);
    FIND(sc_stub_failed);
    FIND(sc_stub_calls);
    FIND(sc_stub_launches);
    FIND(sc_stub_replays);
    FIND(sc_stub_allocated);
    FIND(sc_stub_streams);
    FIND(sc_stub_seed);
    FIND(sc_stub_delay);
    FIND(sc_stub_live);
    FIND(sc_stub_check);
    FIND(sc_stub_reset);
#undef FIND
    return s;
}

/* So many GPUs, from the next session on. */
static inline void have_gpus(uint32_t count)
{
    char text[16];
    snprintf(text, sizeof text, "%u", count);
    setenv("SHARDC_STUB_GPUS", text, 1);
}

/* What nobody can do anything about: the end of things. */
static inline bool is_cleanup(const char *function)
{
    static const char *const names[] = {"cuMemFree_v2", "cuMemFreeHost", "cuModuleUnload",
                                        "cuDevicePrimaryCtxRelease_v2", "ncclCommAbort"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], function) == 0)
            return true;
    }
    return strstr(function, "Destroy") != NULL;
}

/* ---- programs ---- */

static inline void cuda_begin(image_case *c, uint64_t dp, uint64_t tp)
{
    image_begin(c, dp, tp);
    c->image.target = "cuda:sm_80";
}

/* The kernel has one stage more. */
static inline void cuda_stage(image_case *c, uint32_t k, int64_t blocks, uint32_t threads,
                              uint32_t shared_bytes)
{
    sc_image_kernel *kernel = &c->kernels.data[k];
    if (kernel->stages == NULL)
        kernel->stages = sc_arena_array(&c->arena, SC_IMAGE_MAX_STAGES, sizeof *kernel->stages);
    kernel->stages[kernel->stage_count++] = (sc_image_stage){blocks, threads, shared_bytes};
}

/* Kernels without stages get one of a block of 32 threads. The text has all entries of all kernels:
 * each one's module is all of it, so that it is compiled once. Reductions of all kinds come with
 * it. `header`: SC_STUB_CUBIN or SC_STUB_PTX's capability. */
static inline void cuda_object(image_case *c, const char *text, const char *ending, int capability)
{
    sc_strbuf module, reductions, bytes;
    sc_helper_set helpers = 0;
    bool is_ptx = strcmp(ending, "ptx") == 0;
    sc_strbuf_init(&module, &c->arena);
    sc_strbuf_init(&reductions, &c->arena);
    sc_strbuf_init(&bytes, &c->arena);
    for (sc_dtype dtype = 0; dtype < SC_DTYPE_COUNT; dtype++) {
        for (sc_image_reduce reduce = SC_IMAGE_SUM; reduce < SC_IMAGE_REDUCES; reduce++)
            sc_cuda_reduce_emit(dtype, reduce, &reductions, &helpers);
    }
    helpers = sc_helpers_closed(helpers) & ~SC_CUDA_MACHINE_HELPERS;
    for (uint32_t h = 0; h < SC_HELPER_COUNT; h++) {
        if ((helpers >> h & 1) != 0)
            sc_strbuf_add(&module, sc_helper_text((sc_helper)h));
    }
    sc_strbuf_printf(&module, "%s%s", text, reductions.data);
    char *image = sc_arena_printf(&c->arena, is_ptx ? SC_STUB_PTX "%s" : SC_STUB_CUBIN "%s",
                                  capability, "", module.length, module.data);
    sc_archive_entry *entries = sc_arena_array(&c->arena, c->kernels.count + 1u, sizeof *entries);
    for (uint32_t k = 0; k <= c->kernels.count; k++) {
        const char *name = k == c->kernels.count ? "sc_reduce" : c->kernels.data[k].symbol;
        entries[k] = (sc_archive_entry){sc_arena_printf(&c->arena, "%s.%s", name, ending), image,
                                        strlen(image) + 1};
        if (k < c->kernels.count && c->kernels.data[k].stage_count == 0)
            cuda_stage(c, k, 1, 32, 0);
    }
    sc_archive_write(entries, c->kernels.count + 1, &bytes);
    c->image.object = (const uint8_t *)bytes.data;
    c->image.object_bytes = bytes.length;
}

/* ---- the step program of session_case.h ---- */

static const char cuda_step_kernels[] =
    "SC_KERNEL(32, 1) void k_add_0(const float *x, float *y, const int64_t *sc_call, uint64_t "
    "*sc_failure)\n"
    "{\n    if (sc_thread() == 0)\n        *y += *x;\n}\n"
    "SC_KERNEL(32, 1) void k_zero_0(float *y, const int64_t *sc_call, uint64_t *sc_failure)\n"
    "{\n    if (sc_thread() == 0)\n        *y = 0;\n}\n"
    "SC_KERNEL(32, 1) void k_who_0(int64_t *out, int64_t rank, int64_t key, int64_t step, int64_t "
    "micro, const int64_t *sc_call, uint64_t "
    "*sc_failure)\n"
    "{\n    int64_t all[4] = {rank, key, sc_call[0], micro};\n    if (sc_thread() < 4)\n        "
    "out[sc_thread()] = all[sc_thread()];\n}\n"
    "SC_KERNEL(32, 1) void k_wait_0(const int32_t *ms, int64_t rank, const int64_t *sc_call, "
    "uint64_t *sc_failure)\n{\n}\n";

/* A thread a row. */
static const char cuda_weigh_kernel[] =
    "SC_KERNEL(32, 1) void k_weigh_%d_%d_0(const float *y, const float *bias, const int32_t *ids, "
    "float *out, int64_t row, int64_t column, "
    "const int64_t *sc_call, uint64_t *sc_failure)\n"
    "{\n"
    "    float sum = 0;\n"
    "    int64_t i = sc_thread();\n"
    "    if (i < %d && row + i < 7) {\n"
    "        if (ids[i] < 0)\n            sc_fail(sc_failure, 1ull << 48 | ((uint64_t)ids[i] & "
    "0xffffffffffffull));\n"
    "        else if (ids[i] >= 100)\n            sc_fail(sc_failure, 2ull << 48 | "
    "(uint64_t)ids[i]);\n"
    "        for (int64_t j = 0; j < %d && column + j < 6; j++)\n            sum += (y[i * %d + j] "
    "+ bias[j]) * (float)ids[i];\n"
    "    }\n"
    "    for (int mask = 16; mask > 0; mask /= 2)\n        sum += sc_shuffle_xor(sum, mask);\n"
    "    if (i == 0)\n        *out = sum;\n"
    "}\n";

static inline shardc_executable *cuda_step_program(image_case *c, uint64_t dp, uint64_t tp)
{
    sc_strbuf text;
    cuda_begin(c, dp, tp);
    step_image(c);
    sc_strbuf_init(&text, &c->arena);
    sc_strbuf_add(&text, cuda_step_kernels);
    /* all shares that there are, each once */
    static const uint64_t dps[] = {1, 2, 3, 4, 7}, tps[] = {1, 2, 3, 6};
    for (size_t i = 0; i < sizeof dps / sizeof *dps; i++) {
        for (size_t k = 0; k < sizeof tps / sizeof *tps; k++) {
            uint64_t d = dps[i], t = tps[k];
            int rows = (int)step_share(STEP_ROWS, d), columns = (int)step_share(STEP_H, t);
            sc_strbuf_printf(&text, cuda_weigh_kernel, rows, columns, rows, columns, columns);
        }
    }
    for (uint32_t k = 0; k < c->kernels.count; k++) {
        if (strcmp(c->kernels.data[k].symbol, "k_weigh") == 0)
            c->kernels.data[k].symbol =
                sc_arena_printf(&c->arena, "k_weigh_%d_%d", (int)step_share(STEP_ROWS, dp),
                                (int)step_share(STEP_H, tp));
    }
    cuda_object(c, text.data, "cubin", 80);
    return image_executable(c);
}

#endif
