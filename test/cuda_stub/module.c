/* Modules and launches: kernels in CUDA's text run on the engine of test/cuda_on_cpu, those in PTX
 * that NVRTC made on the interpreter of test/ptx. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/cuda_stub/internal.h"

/* ---- modules ---- */

/* Texts stay; they are compiled, all that are not yet, when a kernel of one is launched. */
typedef struct compiled {
    struct compiled *next;
    char *text;
    sc_machine_module *code; /* or */
    sc_ptx_module *ptx;
} compiled;
static compiled *all_compiled;

/* $SHARDC_STUB_EDIT, `KERNEL:LINE:TEXT`: in the PTX that has that kernel the line, counted from 1,
 * is that text instead. So that tests can see whether what is broken on purpose is noticed. */
static char *edited(const char *text, size_t bytes)
{
    const char *edit = getenv("SHARDC_STUB_EDIT");
    char kernel[128] = "", *end, *made = must_have(strndup(text, bytes));
    const char *line = edit == NULL ? NULL : strchr(edit, ':');
    if (line == NULL || (size_t)(line - edit) >= sizeof kernel)
        return made;
    memcpy(kernel, edit, (size_t)(line - edit));
    unsigned long number = strtoul(line + 1, &end, 10);
    char *at = strstr(made, kernel);
    if (at == NULL || *end != ':')
        return made;
    at = made;
    for (unsigned long l = 1; l < number && at != NULL; l++) {
        at = strchr(at, '\n');
        at = at == NULL ? NULL : at + 1;
    }
    if (at == NULL)
        return made;
    char *rest = at + strcspn(at, "\n");
    size_t room = strlen(made) + strlen(end) + 1;
    char *whole = must_have(malloc(room));
    snprintf(whole, room, "%.*s%s%s", (int)(at - made), made, end + 1, rest);
    free(made);
    return whole;
}

static const compiled *compile(const char *text, size_t bytes, bool is_ptx, char *log, size_t room)
{
    sc_machine_report report;
    for (compiled *c = all_compiled; c != NULL; c = c->next) {
        if (strlen(c->text) == bytes && memcmp(c->text, text, bytes) == 0)
            return c;
    }
    compiled *c = must_have(calloc(1, sizeof *c));
    c->text = must_have(calloc(1, bytes + 1));
    memcpy(c->text, text, bytes);
    if (is_ptx) {
        char *ptx = edited(text, bytes);
        c->ptx = sc_ptx_load(ptx, strlen(ptx), &report);
        free(ptx);
    } else {
        c->code = sc_machine_declare((const char *const[]){c->text}, 1, &report);
    }
    if (c->code == NULL && c->ptx == NULL) {
        snprintf(log, room, "%s", report.text);
        fprintf(stderr, "test/cuda_stub: %s\n", report.text);
        free(c->text);
        free(c);
        return NULL;
    }
    c->next = all_compiled;
    all_compiled = c;
    return c;
}

static bool share_a_name(const sc_machine_module *a, const sc_machine_module *b)
{
    for (uint32_t k = 0; k < sc_machine_kernel_count(a); k++) {
        if (sc_machine_kernel_named(b, sc_machine_kernel_at(a, k)->name) != NULL)
            return true;
    }
    return false;
}

/* The module with all others that may be in one object with it. */
static bool make(sc_machine_module *code)
{
    enum { MAX_TOGETHER = 1024 };
    sc_machine_report report;
    sc_machine_module *modules[MAX_TOGETHER] = {code};
    uint32_t count = 1;
    if (sc_machine_is_made(code))
        return true;
    for (const compiled *c = all_compiled; c != NULL && count < MAX_TOGETHER; c = c->next) {
        bool clashes = c->code == NULL || sc_machine_is_made(c->code);
        for (uint32_t m = 0; m < count && !clashes; m++)
            clashes = share_a_name(c->code, modules[m]);
        if (!clashes)
            modules[count++] = c->code;
    }
    if (sc_machine_make(modules, count, &report))
        return true;
    fprintf(stderr, "test/cuda_stub: %s\n", report.text);
    return false;
}

/* Machine code runs on GPUs of the same generation, no older, PTX on all later ones, too; with an
 * `a` either on that one alone. */
static bool fits(bool is_ptx, int capability, bool is_special)
{
    int gpu = 10 * the.major + the.minor;
    if (is_special)
        return gpu == capability;
    return gpu >= capability && (is_ptx || gpu / 10 == capability / 10);
}

/* What an image is, by its first line. */
typedef struct image_kind {
    bool is_ptx, is_special;
    int capability;
    const char *text;
    size_t bytes;
} image_kind;

/* Of the stub's NVRTC: the text behind a line that says what it stands for. */
static bool read_stub_image(const char *image, image_kind *out)
{
    char special[8] = "";
    int length = 0;
    const char *line = memchr(image, '\n', 80);
    out->is_ptx = strncmp(image, "//stub ptx ", 11) == 0;
    // NOLINTBEGIN(cert-err34-c): the stub of NVRTC wrote it
    if (line == NULL ||
        sscanf(image, out->is_ptx ? "//stub ptx compute_%d%n" : "//stub cubin sm_%d%n",
               &out->capability, &length) != 1 ||
        (sscanf(image + length, " %zu", &out->bytes) != 1 &&
         sscanf(image + length, "%7s %zu", special, &out->bytes) != 2))
        return false;
    // NOLINTEND(cert-err34-c)
    out->is_special = special[0] != 0;
    out->text = line + 1;
    return true;
}

/* Of NVRTC itself: PTX begins with a comment, machine code with other bytes. */
static bool is_real_ptx(const char *image)
{
    return strncmp(image, "//\n", 3) == 0 || strncmp(image, ".version", 8) == 0;
}

static sc_cu_result load(sc_cu_module *out, const char *image, char *log, size_t room)
{
    image_kind kind = {.is_ptx = true};
    bool is_real = is_real_ptx(image);
    if (!is_real && !read_stub_image(image, &kind))
        return kind.is_ptx ? RESULT_INVALID_PTX : RESULT_INVALID_IMAGE;
    if (!is_real && !fits(kind.is_ptx, kind.capability, kind.is_special))
        return SC_CU_NO_BINARY_FOR_GPU;
    const compiled *made = is_real ? compile(image, strlen(image), true, log, room)
                                   : compile(kind.text, kind.bytes, false, log, room);
    if (made == NULL)
        return kind.is_ptx ? RESULT_INVALID_PTX : RESULT_INVALID_IMAGE;
    if (made->ptx != NULL && !fits(true, sc_ptx_capability(made->ptx), false))
        return SC_CU_NO_BINARY_FOR_GPU;
    sc_cu_module module = new_object(MODULE, sizeof *module);
    module->code = made->code;
    module->ptx = made->ptx;
    *out = module;
    return SC_CU_SUCCESS;
}

sc_cu_result cuModuleLoadData(sc_cu_module *out, const void *image)
{
    char log[1024];
    CALL(IN_CONTEXT | UNSAFE_IN_CAPTURE, load(out, image, log, sizeof log));
}

static sc_cu_result load_with_options(sc_cu_module *out, const void *image, unsigned count,
                                      const sc_cu_jit_option *options, void **values)
{
    char unwanted[1024], *log = unwanted;
    size_t room = sizeof unwanted;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == SC_CU_JIT_ERROR_LOG)
            log = values[i];
        else if (options[i] == SC_CU_JIT_ERROR_LOG_BYTES)
            room = (size_t)(uintptr_t)values[i];
    }
    return load(out, image, log, log == unwanted ? sizeof unwanted : room);
}

sc_cu_result cuModuleLoadDataEx(sc_cu_module *out, const void *image, unsigned count,
                                sc_cu_jit_option *options, void **values)
{
    CALL(IN_CONTEXT | UNSAFE_IN_CAPTURE, load_with_options(out, image, count, options, values));
}

static sc_cu_result unload(sc_cu_module module)
{
    if (!is_live(module, MODULE))
        return RESULT_INVALID_HANDLE;
    sc_cu_result result = drain_all();
    free_object(module);
    return result;
}

sc_cu_result cuModuleUnload(sc_cu_module module)
{
    CALL(IN_CONTEXT | UNSAFE_IN_CAPTURE, unload(module));
}

static sc_cu_result get_function(sc_cu_function *out, sc_cu_module module, const char *name)
{
    if (!is_live(module, MODULE) || module->base.context != current)
        return RESULT_INVALID_HANDLE;
    const sc_machine_kernel *kernel = module->ptx != NULL
                                          ? sc_ptx_kernel_named(module->ptx, name)
                                          : sc_machine_kernel_named(module->code, name);
    if (kernel == NULL || module->function_count == MAX_ENTRIES)
        return SC_CU_NOT_FOUND;
    for (uint32_t i = 0; i < module->function_count; i++) {
        if (module->functions[i].kernel == kernel) {
            *out = &module->functions[i];
            return SC_CU_SUCCESS;
        }
    }
    *out = &module->functions[module->function_count++];
    **out = (struct CUfunc_st){module, kernel, SC_CU_SHARED_BYTES};
    return SC_CU_SUCCESS;
}

sc_cu_result cuModuleGetFunction(sc_cu_function *out, sc_cu_module module, const char *name)
{
    CALL(IN_CONTEXT, get_function(out, module, name));
}

static bool is_function(sc_cu_function function)
{
    for (const object *o = the.objects; o != NULL; o = o->next) {
        const struct CUmod_st *module = (const struct CUmod_st *)o;
        if (o->kind == MODULE && function >= module->functions &&
            function < module->functions + module->function_count)
            return o->context == current;
    }
    return false;
}

static sc_cu_result set_attribute(sc_cu_function function, sc_cu_function_attribute which,
                                  int value)
{
    if (!is_function(function))
        return RESULT_INVALID_HANDLE;
    if (which != SC_CU_MAX_DYNAMIC_SHARED_BYTES || value < 0 || value > the.shared_kib << 10)
        return RESULT_INVALID_VALUE;
    function->dynamic_shared = (uint32_t)value;
    return SC_CU_SUCCESS;
}

sc_cu_result cuFuncSetAttribute(sc_cu_function function, sc_cu_function_attribute which, int value)
{
    CALL(IN_CONTEXT, set_attribute(function, which, value));
}

/* ---- launches ---- */

typedef struct launch {
    const sc_machine_module *code;
    const sc_ptx_module *ptx;
    const sc_machine_kernel *kernel;
    sc_machine_memory *memory;
    int64_t blocks;
    uint32_t threads, shared_bytes;
    int gpu;
    double begun; /* of one that takes its time; 0: not yet */
    uint64_t values[];
} launch;

/* A kernel that takes its time is ready when it is over. */
static bool is_over(void *data)
{
    launch *l = data;
    bool is_here = the.delay_gpu < 0 || l->gpu == the.delay_gpu;
    if (the.delayed == NULL || !is_here || strcmp(the.delayed, l->kernel->name) != 0)
        return true;
    if (l->begun == 0)
        l->begun = now();
    return now() - l->begun >= 1e-3 * the.delay_ms;
}

static bool run_launch(void *data, char *why, size_t room)
{
    launch *l = data;
    sc_machine_report report;
    void *params[256];
    for (int i = 0; i < l->kernel->param_count; i++)
        params[i] = (void *)(uintptr_t)&l->values[i];
    const char *lost = getenv("SHARDC_STUB_LOSE");
    if (lost != NULL && strstr(l->kernel->name, lost) != NULL) {
        snprintf(why, room, "%s: an illegal memory access", l->kernel->name);
        return false;
    }
    sc_machine_launch run = {
        .module = l->code,
        .entry = l->kernel->name,
        .blocks = l->blocks,
        .threads = l->threads,
        .shared_bytes = l->shared_bytes,
        .params = params,
        .bounds_only = l->ptx == NULL,
        .memory = l->memory,
        .schedule = (sc_machine_schedule)(the.seed == 0 ? 0 : draw(SC_MACHINE_SCHEDULE_COUNT)),
        .copies = (sc_machine_copies)(the.seed == 0 ? 0 : draw(2)),
        .order = (sc_machine_order)(the.seed == 0 ? 0 : draw(3)),
        .seed = the.random};
    the.launches++;
    l->begun = 0; /* of a graph it runs again */
    if (l->ptx != NULL ? sc_ptx_run(l->ptx, &run, the.errors, &report)
                       : sc_machine_run(&run, &report))
        return true;
    snprintf(why, room, "%s", report.text);
    return false;
}

static sc_cu_result put_launch(sc_cu_function function, int64_t blocks, unsigned threads,
                               unsigned shared_bytes, sc_cu_stream stream, void **arguments)
{
    static const sc_stub_work work = {
        .name = "cuLaunchKernel", .is_ready = is_over, .run = run_launch};
    if (!is_function(function) || !is_live(stream, STREAM))
        return RESULT_INVALID_HANDLE;
    if (blocks < 1 || blocks > INT32_MAX || threads < 1 || threads > 1024 ||
        shared_bytes > function->dynamic_shared || arguments == NULL)
        return RESULT_INVALID_VALUE;
    if (function->module->code != NULL && !make(function->module->code))
        return RESULT_INVALID_IMAGE;
    if ((int)threads > function->kernel->max_threads)
        return RESULT_LAUNCH_OUT_OF_RESOURCES;
    size_t count = (size_t)function->kernel->param_count,
           bytes = sizeof(launch) + count * sizeof(uint64_t);
    launch *l = must_have(calloc(1, bytes));
    *l = (launch){function->module->code,
                  function->module->ptx,
                  function->kernel,
                  current->memory,
                  blocks,
                  threads,
                  shared_bytes,
                  current->gpu,
                  0};
    for (size_t i = 0; i < count; i++)
        memcpy(&l->values[i], arguments[i], sizeof l->values[i]);
    sc_cu_result result = put(stream, &work, l, bytes);
    free(l);
    return result;
}

sc_cu_result cuLaunchKernel(sc_cu_function function, unsigned grid_x, unsigned grid_y,
                            unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, sc_cu_stream stream, void **arguments,
                            void **extra)
{
    bool is_flat = grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1 && extra == NULL;
    CALL(IN_CONTEXT, is_flat
                         ? put_launch(function, grid_x, block_x, shared_bytes, stream, arguments)
                         : (sc_cu_result)RESULT_INVALID_VALUE);
}
