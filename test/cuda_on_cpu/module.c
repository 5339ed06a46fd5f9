/* Modules: texts as C++, each in a namespace of its own so that their helpers do not meet, compiled in as many processes as there are cores
 * and kept like the objects of emitted C. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/objects_internal.h"
#include "support/strbuf.h"
#include "test/cuda_on_cpu/engine.h"

extern const char sc_machine_kernel_text[], sc_machine_hooks_text[];
extern const sc_machine_table sc_machine_functions;

/* -fsanitize=thread is here for its calls alone: hooks.c answers them. What C++ leaves undefined, and a GPU's compiler may use, traps:
 * integers do not wrap. */
static const char *const COMPILE[] = {"-std=c++17",
                                      "-O1",
                                      "-g1",
                                      "-fsanitize=thread,signed-integer-overflow,shift-exponent,integer-divide-by-zero,bounds",
                                      "-fsanitize-undefined-trap-on-error",
                                      "-fstack-clash-protection",
                                      "-fPIC",
                                      "-fvisibility=hidden",
                                      "-fno-exceptions",
                                      "-fno-rtti",
                                      "-fno-math-errno",
                                      "-fno-strict-aliasing",
                                      "-ffp-contract=off",
                                      "-w",
                                      "-c",
                                      "-o"};
static const char *const COMPILE_HOOKS[] = {"-xc++", "-O1", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-w", "-c", "-o"};
static const char *const LINK[] = {"-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-o"};
enum { MAX_UNITS = 16 };
#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

struct sc_machine_module {
    void *object;
    sc_machine_kernel *kernels;
    uint32_t kernel_count;
};

static void no_memory(void *user)
{
    (void)user;
    fputs("test/cuda_on_cpu: memory ran out\n", stderr);
    abort();
}

/* ---- kernels of a text ---- */

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Behind SC_KERNEL: (threads, blocks) void NAME(parameters). */
static bool parse_kernel(const char *text, sc_machine_kernel *kernel)
{
    int length = 0;
    *kernel = (sc_machine_kernel){0};
    if (sscanf(text, " ( %d , %*d ) void %n", &kernel->max_threads, &length) != 1 || length == 0)
        return false;
    const char *name = text + length;
    size_t count = 0;
    while (is_name(name[count]))
        count++;
    if (count == 0 || count >= sizeof kernel->name || name[count] != '(')
        return false;
    memcpy(kernel->name, name, count);
    const char *end = strchr(name, ')'), *first = name + count + 1 + strspn(name + count + 1, " \n");
    kernel->param_count = end != NULL && first < end;
    for (const char *at = name; end != NULL && at < end; at++)
        kernel->param_count += *at == ',';
    return end != NULL;
}

static bool find_kernels(sc_machine_module *module, const char *const *texts, uint32_t count, sc_machine_report *report)
{
    for (uint32_t i = 0; i < count; i++) {
        for (const char *at = texts[i]; (at = strstr(at, "SC_KERNEL")) != NULL; at += strlen("SC_KERNEL")) {
            sc_machine_kernel *kernels = realloc(module->kernels, (module->kernel_count + 1) * sizeof *kernels);
            if (kernels == NULL)
                no_memory(NULL);
            module->kernels = kernels;
            sc_machine_kernel *kernel = &kernels[module->kernel_count];
            if (!parse_kernel(at + strlen("SC_KERNEL"), kernel)) {
                sc_machine_report_add(report, "text %u: a kernel is SC_KERNEL(number, number) void name(parameters)", i);
                return false;
            }
            if (sc_machine_kernel_named(module, kernel->name) != NULL) {
                sc_machine_report_add(report, "two kernels %s", kernel->name);
                return false;
            }
            module->kernel_count++;
        }
    }
    return true;
}

uint32_t sc_machine_kernel_count(const sc_machine_module *module)
{
    return module->kernel_count;
}

const sc_machine_kernel *sc_machine_kernel_at(const sc_machine_module *module, uint32_t index)
{
    return index < module->kernel_count ? &module->kernels[index] : NULL;
}

const sc_machine_kernel *sc_machine_kernel_named(const sc_machine_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->kernel_count; i++) {
        if (strcmp(module->kernels[i].name, name) == 0)
            return &module->kernels[i];
    }
    return NULL;
}

/* ---- compiling ---- */

static bool is_in_path(const char *name)
{
    for (const char *path = getenv("PATH"); path != NULL && *path != 0;) {
        char file[4096];
        int length = (int)strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", length, path, name);
        if (access(file, X_OK) == 0)
            return true;
        path += length + (path[length] == ':');
    }
    return false;
}

static const char *compiler_name(void)
{
    const char *set = getenv("CXX");
    return set != NULL && set[0] != 0 ? set : is_in_path("c++") ? "c++" : is_in_path("g++") ? "g++" : "clang++";
}

static sc_object_command new_command(sc_arena *arena, const char *const *flags, int count)
{
    sc_object_command command = sc_object_command_new(arena, compiler_name());
    for (int i = 0; i < count; i++)
        sc_object_command_add(&command, flags[i]);
    return command;
}

/* Starts compiling `source`; the object's path, or NULL when no process could be started. */
static const char *start(sc_arena *arena, const char *const *flags, int count, const char *stem, const char *source, size_t length,
                         pid_t *pid)
{
    const char *file = sc_arena_printf(arena, "%s.cc", stem), *object = sc_arena_printf(arena, "%s.o", stem);
    sc_object_command command = new_command(arena, flags, count);
    sc_object_command_add(&command, object);
    sc_object_command_add(&command, file);
    if (!sc_object_write(file, source, length))
        return NULL;
    *pid = sc_object_start(&command, sc_arena_printf(arena, "%s.log", stem));
    return *pid < 0 ? NULL : object;
}

static void add_log(sc_arena *arena, const char *stem, sc_machine_report *report)
{
    uint8_t *words = NULL;
    size_t count = 0;
    if (sc_object_read(arena, sc_arena_printf(arena, "%s.log", stem), &words, &count))
        sc_machine_report_add(report, "%s does not compile the kernels:\n%s", compiler_name(), (const char *)words);
}

static bool link_objects(sc_arena *arena, const char *folder, const char *const *objects, uint32_t count, const char *out,
                         sc_machine_report *report)
{
    sc_object_command command = new_command(arena, LINK, COUNT(LINK));
    sc_object_command_add(&command, out);
    for (uint32_t i = 0; i < count; i++)
        sc_object_command_add(&command, objects[i]);
    sc_object_command_add(&command, "-lm");
    bool running;
    const char *stem = sc_arena_printf(arena, "%s/link", folder);
    pid_t pid = sc_object_start(&command, sc_arena_printf(arena, "%s.log", stem));
    if (pid > 0 && sc_object_end(pid, true, &running))
        return true;
    add_log(arena, stem, report);
    return false;
}

/* The texts dealt out to as many units as may run at once, and the hooks. */
static bool build(sc_arena *arena, const char *folder, const char *const *texts, uint32_t count, const char *out, sc_machine_report *report)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t units = cores < 1 ? 1 : cores > MAX_UNITS ? MAX_UNITS : (uint32_t)cores, started = 0;
    units = units < count ? units : count;
    const char *objects[MAX_UNITS + 1], *stems[MAX_UNITS + 1];
    pid_t pids[MAX_UNITS + 1];
    bool ok = true;
    for (uint32_t u = 0; u < units + 1 && ok; u++) {
        sc_strbuf source;
        sc_strbuf_init(&source, arena);
        sc_strbuf_add(&source, u == 0 ? sc_machine_hooks_text : sc_machine_kernel_text);
        for (uint32_t i = u - 1; u > 0 && i < count; i += units)
            sc_strbuf_printf(&source, "\nnamespace sc_text_%u {\n#line 1 \"text %u\"\n%s\n}\n", i, i, texts[i]);
        stems[u] = sc_arena_printf(arena, "%s/unit_%u", folder, u);
        const char *const *flags = u == 0 ? COMPILE_HOOKS : COMPILE;
        objects[u] = start(arena, flags, u == 0 ? COUNT(COMPILE_HOOKS) : COUNT(COMPILE), stems[u], source.data, source.length, &pids[u]);
        ok = objects[u] != NULL;
        started += ok;
    }
    if (!ok)
        sc_machine_report_add(report, "%s cannot be started: %s", compiler_name(), strerror(errno));
    for (uint32_t u = 0; u < started; u++) {
        bool running, fine = sc_object_end(pids[u], true, &running);
        if (!fine && ok)
            add_log(arena, stems[u], report);
        ok = ok && fine;
    }
    return ok && link_objects(arena, folder, objects, units + 1, out, report);
}

static sc_object_key key_of(sc_arena *arena, const char *cache, const char *const *texts, uint32_t count)
{
    bool is_gcc;
    uint32_t started;
    sc_object_key key = sc_object_compiler_key(arena, compiler_name(), cache, &started, &is_gcc);
    key = sc_object_key_with(key, sc_object_key_of(sc_machine_hooks_text, strlen(sc_machine_hooks_text)));
    key = sc_object_key_with(key, sc_object_key_of(sc_machine_kernel_text, strlen(sc_machine_kernel_text)));
    for (int i = 0; i < COUNT(COMPILE); i++)
        key = sc_object_key_with(key, sc_object_key_of(COMPILE[i], strlen(COMPILE[i])));
    for (uint32_t i = 0; i < count; i++)
        key = sc_object_key_with(key, sc_object_key_of(texts[i], strlen(texts[i])));
    return key;
}

static bool load(sc_machine_module *module, const char *path, sc_machine_report *report)
{
    module->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *hooks = module->object == NULL ? NULL : dlsym(module->object, "sc_machine_hooks");
    if (hooks == NULL) {
        sc_machine_report_add(report, "the kernels' object cannot be loaded: %s", dlerror());
        return false;
    }
    *(const sc_machine_table **)hooks = &sc_machine_functions;
    return true;
}

static bool build_and_load(sc_machine_module *module, const char *const *texts, uint32_t count, sc_arena *arena, sc_machine_report *report)
{
    const char *cache = sc_object_cache(arena, &(sc_object_options){0});
    const char *kept = cache == NULL ? NULL : sc_object_path(arena, cache, key_of(arena, cache, texts, count), ".so");
    if (kept != NULL && sc_object_is_kept(kept))
        return load(module, kept, report);
    const char *folder = sc_object_folder(arena, cache);
    if (folder == NULL) {
        sc_machine_report_add(report, "no folder for temporary files can be written");
        return false;
    }
    const char *out = sc_arena_printf(arena, "%s/kernels.so", folder);
    bool ok = build(arena, folder, texts, count, out, report);
    ok = ok && load(module, kept != NULL && sc_object_keep(out, kept) ? kept : out, report);
    sc_object_remove(folder);
    return ok;
}

sc_machine_module *sc_machine_compile(const char *const *texts, uint32_t count, sc_machine_report *report)
{
    sc_machine_module *module = calloc(1, sizeof *module);
    sc_arena arena;
    report->text[0] = 0;
    if (module == NULL)
        no_memory(NULL);
    sc_arena_init(&arena, no_memory, NULL);
    bool ok = find_kernels(module, texts, count, report) && build_and_load(module, texts, count, &arena, report);
    sc_arena_free(&arena);
    if (ok)
        return module;
    sc_machine_unload(module);
    return NULL;
}

void sc_machine_unload(sc_machine_module *module)
{
    if (module == NULL)
        return;
    if (module->object != NULL)
        dlclose(module->object);
    free(module->kernels);
    free(module);
}

void (*sc_machine_entry(const sc_machine_module *module, const char *name))(void)
{
    void *symbol = dlsym(module->object, name);
    void (*entry)(void) = NULL;
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}
