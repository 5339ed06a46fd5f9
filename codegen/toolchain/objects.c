/* Compiles emitted C functions in parallel processes and links them into one shared object. */
#include "codegen/toolchain/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "codegen/toolchain/internal.h"
#include "program/cpu_level.h"
#include "support/vec.h"

/* The compiler goes before these and the files after. -fwrapv: integers of models wrap.
 * -fno-thread-jumps (gcc only): a clamp before a polynomial stays a select; otherwise separate
 * paths for clamped values would become masks of whole vectors. */
static const char *const COMPILE[] = {"-O3",
                                      "-fopenmp",
                                      "-fno-math-errno",
                                      "-fno-trapping-math",
                                      "-ffp-contract=fast",
                                      "-fwrapv",
                                      "-fPIC",
                                      "-std=gnu11",
                                      "-c",
                                      "-o"};
static const char GCC_FLAG[] = "-fno-thread-jumps";
static const char *const LINK[] = {"-shared", "-fopenmp", "-o"};
enum { COMPILE_COUNT = sizeof COMPILE / sizeof *COMPILE, LINK_COUNT = sizeof LINK / sizeof *LINK };

typedef struct sc_object_unit {
    const char *symbol;
    sc_strbuf source;
    sc_cache_key key;
    const char *kept;                /* path in the cache, or NULL */
    const char *file, *object, *log; /* paths in the folder */
    const char *linked;              /* the object to link: in the folder, so that it cannot be
                                      * evicted meanwhile, or the cached one */
    sc_object_command command;
    bool missing;
} sc_object_unit;

typedef struct sc_object_build {
    sc_arena *arena;
    const char *compiler, *cache, *folder;
    uint64_t cache_bytes;
    uint32_t jobs;
    bool is_gcc;
    const char *march;          /* the instruction set */
    SC_VEC(const char *) flags; /* of the environment; appended last to prevail */
    SC_VEC(sc_object_unit) units;
    sc_object *out;
} sc_object_build;

const char *sc_object_symbol(sc_arena *arena, const char *text)
{
    sc_cache_key key = sc_cache_key_of(text, strlen(text));
    return sc_arena_printf(arena, "sc_k_%016llx", (unsigned long long)key.words[0]);
}

static sc_object_command new_command(const sc_object_build *build, const char *const *flags,
                                     int flag_count)
{
    sc_object_command command = sc_object_command_new(build->arena, build->compiler);
    for (int i = 0; i < flag_count; i++)
        sc_object_command_add(&command, flags[i]);
    return command;
}

static void add_flags(const sc_object_build *build, sc_object_command *command)
{
    for (uint32_t i = 0; i < build->flags.count; i++)
        sc_object_command_add(command, build->flags.data[i]);
}

static void split_flags(sc_object_build *build, const char *text)
{
    while (text != NULL && *text != 0) {
        size_t blank = strspn(text, " \t\n"), length = strcspn(text + blank, " \t\n");
        if (length > 0)
            *sc_vec_push(build->arena, &build->flags) =
                sc_arena_printf(build->arena, "%.*s", (int)length, text + blank);
        text += blank + length;
    }
}

static void add_units(sc_object_build *build, const sc_object_function *functions, uint32_t count,
                      sc_cache_key base)
{
    for (uint32_t i = 0; i < count; i++) {
        bool known = false;
        for (uint32_t j = 0; j < build->units.count && !known; j++)
            known = strcmp(build->units.data[j].symbol, functions[i].symbol) == 0;
        if (known)
            continue;
        sc_object_unit *unit = sc_vec_push(build->arena, &build->units);
        *unit = (sc_object_unit){.symbol = functions[i].symbol};
        sc_strbuf_init(&unit->source, build->arena);
        sc_helpers_emit(&unit->source, functions[i].helpers | SC_HELPER(headers));
        sc_strbuf_add(&unit->source, functions[i].text);
        unit->key = sc_cache_key_with(base, sc_cache_key_of_code(build->arena, unit->source.data));
        unit->kept = build->cache == NULL
                         ? NULL
                         : sc_cache_path(build->arena, build->cache, unit->key, ".o");
    }
}

static sc_cache_key base_key(sc_object_build *build)
{
    sc_cache_key key = sc_object_compiler_key(build->arena, build->compiler, build->cache,
                                              &build->out->started, &build->is_gcc);
    key = sc_cache_key_with(key, sc_cache_key_of(GCC_FLAG, sizeof GCC_FLAG));
    key = sc_cache_key_with(key, sc_cache_key_of(build->march, strlen(build->march)));
    for (int i = 0; i < COMPILE_COUNT; i++)
        key = sc_cache_key_with(key, sc_cache_key_of(COMPILE[i], strlen(COMPILE[i])));
    for (int i = 0; i < LINK_COUNT; i++)
        key = sc_cache_key_with(key, sc_cache_key_of(LINK[i], strlen(LINK[i])));
    for (uint32_t i = 0; i < build->flags.count; i++)
        key = sc_cache_key_with(
            key, sc_cache_key_of(build->flags.data[i], strlen(build->flags.data[i])));
    return key;
}

/* ---- compiling ---- */

static const char *refusal(sc_object_build *build, const char *what, const char *log,
                           const char *source)
{
    uint8_t *words = NULL;
    size_t count = 0;
    if (!sc_cache_read(build->arena, log, &words, &count))
        words = NULL;
    return sc_arena_printf(build->arena, "%s: %s%s%s\n%s", build->compiler, what,
                           source == NULL ? "" : ": ", source == NULL ? "" : source,
                           words == NULL ? "" : (const char *)words);
}

/* True if the cache has the object; it is hard-linked into the folder if both are on one file
 * system. */
static bool lend(sc_object_unit *unit)
{
    if (!sc_cache_is_kept(unit->kept))
        return false;
    unit->linked = sc_cache_lend(unit->kept, unit->object) ? unit->object : unit->kept;
    return true;
}

/* Allocates everything that a process needs before any is started: running out of memory later
 * would leave processes behind. */
static bool prepare(sc_object_build *build)
{
    for (uint32_t i = 0; i < build->units.count; i++) {
        sc_object_unit *unit = &build->units.data[i];
        unit->file = sc_arena_printf(build->arena, "%s/%s.c", build->folder, unit->symbol);
        unit->object = sc_arena_printf(build->arena, "%s/%s.o", build->folder, unit->symbol);
        unit->log = sc_arena_printf(build->arena, "%s/%s.log", build->folder, unit->symbol);
        unit->linked = unit->object;
        unit->missing = unit->kept == NULL || !lend(unit);
        if (!unit->missing)
            continue;
        unit->command = new_command(build, COMPILE, COMPILE_COUNT);
        sc_object_command_add(&unit->command, unit->object);
        sc_object_command_add(&unit->command, unit->file);
        sc_object_command_add(&unit->command, build->march);
        if (build->is_gcc)
            sc_object_command_add(&unit->command, GCC_FLAG);
        add_flags(build, &unit->command);
        if (!sc_cache_write(unit->file, unit->source.data, unit->source.length))
            return false;
    }
    return true;
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
}

/* Returns the unit that failed, or -1; *error if a process could not be started. Starts no more
 * after a failure. */
static int64_t compile_missing(sc_object_build *build, int *error)
{
    pid_t pids[SC_MAX_JOBS];
    uint32_t units[SC_MAX_JOBS], running = 0, next = 0;
    int64_t failed = -1;
    *error = 0;
    for (;;) {
        while (running < build->jobs && next < build->units.count) {
            if (failed >= 0 || *error != 0)
                break;
            const sc_object_unit *unit = &build->units.data[next];
            pid_t pid = unit->missing ? sc_object_start(&unit->command, unit->log) : 0;
            if (pid > 0) {
                pids[running] = pid;
                units[running++] = next;
                build->out->started++;
                build->out->compiled++;
            }
            *error = pid < 0 ? errno : 0;
            next++;
        }
        if (running == 0)
            return failed;
        uint32_t left = 0;
        for (uint32_t i = 0; i < running; i++) {
            bool goes_on, ok = sc_object_end(pids[i], running == 1, &goes_on);
            if (!goes_on && (!ok || access(build->units.data[units[i]].object, R_OK) != 0))
                failed = failed < 0 || units[i] < failed ? units[i] : failed;
            if (goes_on) {
                pids[left] = pids[i];
                units[left++] = units[i];
            }
        }
        if (left == running)
            rest();
        running = left;
    }
}

/* Moves new objects into the cache; those that cannot be moved are used where they are. */
static void keep_objects(sc_object_build *build)
{
    for (uint32_t i = 0; i < build->units.count; i++) {
        sc_object_unit *unit = &build->units.data[i];
        if (unit->missing && unit->kept != NULL && sc_cache_keep(unit->object, unit->kept))
            unit->missing = !lend(unit);
    }
}

static const char *link_units(sc_object_build *build, const char *kept)
{
    const char *object = sc_arena_printf(build->arena, "%s/linked.so", build->folder);
    const char *log = sc_arena_printf(build->arena, "%s/linked.log", build->folder);
    sc_object_command command = new_command(build, LINK, LINK_COUNT);
    sc_object_command_add(&command, object);
    for (uint32_t i = 0; i < build->units.count; i++) {
        sc_object_command_add(&command, build->units.data[i].linked);
    }
    sc_object_command_add(&command, "-lm");
    add_flags(build, &command);
    pid_t pid = sc_object_start(&command, log);
    bool running;
    build->out->started++;
    if (pid < 0)
        return sc_arena_printf(build->arena, "%s: %s", build->compiler, strerror(errno));
    if (!sc_object_end(pid, true, &running) || access(object, R_OK) != 0)
        return refusal(build, "does not link kernels", log, NULL);
    uint8_t *bytes = NULL;
    if (!sc_cache_read(build->arena, object, &bytes, &build->out->byte_count))
        return sc_arena_printf(build->arena, "%s: %s", object, strerror(errno));
    build->out->bytes = bytes;
    build->out->path = kept != NULL && sc_cache_keep(object, kept) ? kept : NULL;
    return NULL;
}

static const char *compile_and_link(sc_object_build *build, const char *kept, bool *keep_folder)
{
    if (!prepare(build))
        return sc_arena_printf(build->arena, "%s: %s", build->folder, strerror(errno));
    int error;
    int64_t failed = compile_missing(build, &error);
    if (error != 0)
        return sc_arena_printf(build->arena, "%s: %s", build->compiler, strerror(error));
    if (failed >= 0) {
        *keep_folder = true;
        return refusal(build, "does not compile a kernel", build->units.data[failed].log,
                       build->units.data[failed].file);
    }
    keep_objects(build);
    return link_units(build, kept);
}

const char *sc_objects_build(sc_arena *arena, const sc_object_function *functions, uint32_t count,
                             const sc_object_options *options, sc_object *out)
{
    static const sc_object_options none = {0};
    options = options == NULL ? &none : options;
    *out = (sc_object){0};
    sc_object_build build = {.arena = arena,
                             .out = out,
                             .jobs = sc_job_count(options->jobs),
                             .cache = sc_cache_open(arena, options->cache, &out->refused)};
    const char *ours = getenv("SHARDC_CC"), *common = getenv("CC");
    build.compiler = options->compiler != NULL          ? options->compiler
                     : ours != NULL && ours[0] != 0     ? ours
                     : common != NULL && common[0] != 0 ? common
                                                        : "cc";
    sc_cpu_level level;
    char problem[256];
    if (!sc_cpu_allowed(&level, problem, sizeof problem))
        return sc_arena_printf(arena, "%s", problem);
    build.march = sc_cpu_flag(level);
    split_flags(&build, getenv("SHARDC_CFLAGS"));
    sc_cache_key key = base_key(&build);
    add_units(&build, functions, count, key);
    for (uint32_t i = 0; i < build.units.count; i++)
        key = sc_cache_key_with(key, build.units.data[i].key);
    const char *kept = build.cache == NULL ? NULL : sc_cache_path(arena, build.cache, key, ".so");
    uint8_t *bytes = NULL;
    if (kept != NULL && sc_cache_read_kept(arena, kept, &bytes, &out->byte_count)) {
        out->bytes = bytes;
        out->path = kept;
        return NULL;
    }
    const char *error = sc_cache_size(arena, &build.cache_bytes);
    if (error != NULL)
        return error;
    sc_cache_scratch scratch = sc_cache_scratch_open(arena, build.cache);
    build.folder = scratch.folder;
    if (build.folder == NULL)
        return "no folder for temporary files can be written";
    bool keep_folder = false;
    error = compile_and_link(&build, kept, &keep_folder);
    sc_cache_scratch_close(&scratch, keep_folder);
    if (build.cache != NULL)
        sc_cache_clean(build.cache, build.cache_bytes);
    return error;
}
