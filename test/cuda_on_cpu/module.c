/* Modules: texts as C++, each in a namespace of its own so that their helpers do not meet, compiled
 * in as many processes as there are cores and kept like the objects of emitted C. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/toolchain/internal.h"
#include "support/strbuf.h"
#include "test/cuda_on_cpu/engine.h"

extern const char sc_machine_kernel_text[], sc_machine_hooks_text[];
extern const sc_machine_table sc_machine_functions;

/* -fsanitize=thread is here for its calls alone: hooks.c answers them. What C++ leaves undefined,
 * and a GPU's compiler may use, traps: integers do not wrap. */
static const char *const COMPILE[] = {
    "-std=c++17",
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
static const char *const COMPILE_HOOKS[] = {
    "-xc++", "-O1", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-w", "-c", "-o"};
static const char *const LINK[] = {"-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-o"};
enum { MAX_UNITS = 16 };
#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

struct sc_machine_module {
    void *object;
    sc_machine_kernel *kernels;
    uint32_t kernel_count, text_count;
    char **texts;
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

/* Behind the word and blanks around it, or NULL where it is not. */
static const char *after(const char *text, const char *word)
{
    text = text == NULL ? NULL : text + strspn(text, " \n");
    if (text == NULL || strncmp(text, word, strlen(word)) != 0)
        return NULL;
    text += strlen(word);
    return text + strspn(text, " \n");
}

/* Behind SC_KERNEL: (threads, blocks) void NAME(parameters). */
static bool parse_kernel(const char *text, sc_machine_kernel *kernel)
{
    *kernel = (sc_machine_kernel){0};
    const char *number = after(text, "("),
               *name = after(after(number == NULL ? NULL : strchr(number, ')'), ")"), "void");
    if (name == NULL)
        return false;
    long threads = strtol(number, NULL, 10);
    size_t count = 0;
    while (is_name(name[count]))
        count++;
    const char *first = after(name + count, "("), *end = first == NULL ? NULL : strchr(first, ')');
    if (threads < 1 || threads > SC_MACHINE_MAX_THREADS || count == 0 ||
        count >= sizeof kernel->name || end == NULL)
        return false;
    kernel->max_threads = (int)threads;
    memcpy(kernel->name, name, count);
    kernel->param_count = first < end;
    for (const char *at = first; at < end; at++)
        kernel->param_count += *at == ',';
    return true;
}

static bool find_kernels(sc_machine_module *module, const char *const *texts, uint32_t count,
                         sc_machine_report *report)
{
    for (uint32_t i = 0; i < count; i++) {
        for (const char *at = texts[i]; (at = strstr(at, "SC_KERNEL")) != NULL;
             at += strlen("SC_KERNEL")) {
            sc_machine_kernel *kernels =
                realloc(module->kernels, (module->kernel_count + 1) * sizeof *kernels);
            if (kernels == NULL)
                no_memory(NULL);
            module->kernels = kernels;
            sc_machine_kernel *kernel = &kernels[module->kernel_count];
            if (!parse_kernel(at + strlen("SC_KERNEL"), kernel)) {
                sc_machine_report_add(
                    report, "text %u: a kernel is SC_KERNEL(number, number) void name(parameters)",
                    i);
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
    return set != NULL && set[0] != 0 ? set
           : is_in_path("c++")        ? "c++"
           : is_in_path("g++")        ? "g++"
                                      : "clang++";
}

static sc_object_command new_command(sc_arena *arena, const char *const *flags, int count)
{
    sc_object_command command = sc_object_command_new(arena, compiler_name());
    for (int i = 0; i < count; i++)
        sc_object_command_add(&command, flags[i]);
    return command;
}

/* Starts compiling `source`; the object's path, or NULL when no process could be started. */
static const char *start(sc_arena *arena, const char *const *flags, int count, const char *stem,
                         const char *source, size_t length, pid_t *pid)
{
    const char *file = sc_arena_printf(arena, "%s.cc", stem),
               *object = sc_arena_printf(arena, "%s.o", stem);
    sc_object_command command = new_command(arena, flags, count);
    sc_object_command_add(&command, object);
    sc_object_command_add(&command, file);
    if (!sc_cache_write(file, source, length))
        return NULL;
    *pid = sc_object_start(&command, sc_arena_printf(arena, "%s.log", stem));
    return *pid < 0 ? NULL : object;
}

static void add_log(sc_arena *arena, const char *stem, sc_machine_report *report)
{
    uint8_t *words = NULL;
    size_t count = 0;
    if (sc_cache_read(arena, sc_arena_printf(arena, "%s.log", stem), &words, &count))
        sc_machine_report_add(report, "%s does not compile the kernels:\n%s", compiler_name(),
                              (const char *)words);
}

static bool link_objects(sc_arena *arena, const char *folder, const char *const *objects,
                         uint32_t count, const char *out, sc_machine_report *report)
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
static bool build(sc_arena *arena, const char *folder, const char *const *texts, uint32_t count,
                  const char *out, sc_machine_report *report)
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
            sc_strbuf_printf(&source, "\nnamespace sc_text_%u {\n#line 1 \"text %u\"\n%s\n}\n", i,
                             i, texts[i]);
        stems[u] = sc_arena_printf(arena, "%s/unit_%u", folder, u);
        const char *const *flags = u == 0 ? COMPILE_HOOKS : COMPILE;
        objects[u] = start(arena, flags, u == 0 ? COUNT(COMPILE_HOOKS) : COUNT(COMPILE), stems[u],
                           source.data, source.length, &pids[u]);
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

static sc_cache_key key_of(sc_arena *arena, const char *cache, const char *const *texts,
                           uint32_t count)
{
    bool is_gcc;
    uint32_t started;
    sc_cache_key key = sc_object_compiler_key(arena, compiler_name(), cache, &started, &is_gcc);
    key = sc_cache_key_with(key,
                            sc_cache_key_of(sc_machine_hooks_text, strlen(sc_machine_hooks_text)));
    key = sc_cache_key_with(
        key, sc_cache_key_of(sc_machine_kernel_text, strlen(sc_machine_kernel_text)));
    for (int i = 0; i < COUNT(COMPILE); i++)
        key = sc_cache_key_with(key, sc_cache_key_of(COMPILE[i], strlen(COMPILE[i])));
    for (uint32_t i = 0; i < count; i++)
        key = sc_cache_key_with(key, sc_cache_key_of(texts[i], strlen(texts[i])));
    return key;
}

/* What several modules are of. */
typedef struct group {
    sc_machine_module *const *modules;
    uint32_t count;
} group;

static bool load(const group *of, const char *path, sc_machine_report *report)
{
    for (uint32_t m = 0; m < of->count; m++) {
        sc_machine_module *module = of->modules[m];
        module->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        void *hooks = module->object == NULL ? NULL : dlsym(module->object, "sc_machine_hooks");
        if (hooks == NULL) {
            sc_machine_report_add(report, "the kernels' object cannot be loaded: %s", dlerror());
            return false;
        }
        *(const sc_machine_table **)hooks = &sc_machine_functions;
    }
    return true;
}

static bool build_and_load(const group *of, const char *const *texts, uint32_t count,
                           sc_arena *arena, sc_machine_report *report)
{
    const char *refused, *cache = sc_cache_open(arena, NULL, &refused);
    const char *kept = cache == NULL
                           ? NULL
                           : sc_cache_path(arena, cache, key_of(arena, cache, texts, count), ".so");
    if (kept != NULL && sc_cache_is_kept(kept))
        return load(of, kept, report);
    sc_cache_scratch scratch = sc_cache_scratch_open(arena, cache);
    if (scratch.folder == NULL) {
        sc_machine_report_add(report, "no folder for temporary files can be written");
        return false;
    }
    const char *out = sc_arena_printf(arena, "%s/kernels.so", scratch.folder);
    bool ok = build(arena, scratch.folder, texts, count, out, report);
    ok = ok && load(of, kept != NULL && sc_cache_keep(out, kept) ? kept : out, report);
    sc_cache_scratch_close(&scratch, false);
    return ok;
}

sc_machine_module *sc_machine_declare(const char *const *texts, uint32_t count,
                                      sc_machine_report *report)
{
    sc_machine_module *module = calloc(1, sizeof *module);
    report->text[0] = 0;
    if (module == NULL || (module->texts = calloc(count + 1u, sizeof *module->texts)) == NULL)
        no_memory(NULL);
    for (; module->text_count < count; module->text_count++) {
        if ((module->texts[module->text_count] = strdup(texts[module->text_count])) == NULL)
            no_memory(NULL);
    }
    if (find_kernels(module, texts, count, report))
        return module;
    sc_machine_unload(module);
    return NULL;
}

bool sc_machine_make(sc_machine_module *const *modules, uint32_t count, sc_machine_report *report)
{
    const group of = {modules, count};
    sc_arena arena;
    uint32_t all = 0;
    report->text[0] = 0;
    sc_arena_init(&arena, no_memory, NULL);
    for (uint32_t m = 0; m < count; m++)
        all += modules[m]->text_count;
    const char **texts = sc_arena_array(&arena, all + 1u, sizeof *texts);
    all = 0;
    for (uint32_t m = 0; m < count; m++) {
        for (uint32_t t = 0; t < modules[m]->text_count; t++)
            texts[all++] = modules[m]->texts[t];
    }
    bool ok = build_and_load(&of, texts, all, &arena, report);
    sc_arena_free(&arena);
    return ok;
}

bool sc_machine_is_made(const sc_machine_module *module)
{
    return module->object != NULL;
}

sc_machine_module *sc_machine_compile(const char *const *texts, uint32_t count,
                                      sc_machine_report *report)
{
    sc_machine_module *module = sc_machine_declare(texts, count, report);
    if (module == NULL || sc_machine_make(&module, 1, report))
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
    for (uint32_t t = 0; t < module->text_count; t++)
        free(module->texts[t]);
    free(module->texts);
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
