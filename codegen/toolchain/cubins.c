/* A cached file is three numbers - the sizes of the cubin, the PTX and the log - followed by
 * these. */
#include "codegen/toolchain/cubins.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "codegen/cuda/emit.h"
#include "codegen/toolchain/cache.h"
#include "support/dynlib.h"

typedef struct cubin_sizes {
    uint64_t cubin, ptx, log;
} cubin_sizes;

typedef struct cubin_unit {
    const char *symbol, *name; /* name: as shown by NVRTC */
    sc_strbuf source;
    const char *kept;              /* path in the cache, or NULL */
    const char *file, *made, *log; /* in the folder: rejected source, result, log */
    bool missing;
    sc_cubin result;
    /* written by the compiling thread */
    const char *error; /* NULL: success */
    int error_number;  /* errno; 0: an error of NVRTC */
    bool is_kept;
} cubin_unit;

typedef struct cubin_build {
    sc_arena *arena;
    const sc_target *target;
    sc_nvrtc nvrtc;
    const char *cache, *folder;
    uint64_t cache_bytes;
    sc_cache_scratch scratch;
    uint32_t jobs;
    SC_VEC(cubin_unit) units;
    uint32_t *unit_of; /* by function */
    sc_cubins *out;
    atomic_uint next;
    atomic_bool failed;
} cubin_build;

/* ---- source ---- */
void sc_cuda_source(sc_strbuf *out, const char *text, sc_helper_set helpers)
{
    sc_strbuf_add(out, sc_cuda_machine_text);
    sc_strbuf_add_char(out, '\n');
    sc_cuda_helpers_emit(out, helpers);
    sc_strbuf_add_char(out, '\n');
    sc_strbuf_add(out, text);
}

static sc_cache_key key_with_text(sc_cache_key key, const char *text)
{
    return sc_cache_key_with(key, sc_cache_key_of(text, strlen(text)));
}

/* NVRTC reports a version but not its build; the library file's size and time identify that. */
static sc_cache_key base_key(const cubin_build *build)
{
    struct stat status;
    if (stat(sc_dynlib_path(build->nvrtc.library), &status) != 0)
        memset(&status, 0, sizeof status);
    const char *version =
        sc_arena_printf(build->arena, "NVRTC %d.%d %lld %lld %lld", build->nvrtc.major,
                        build->nvrtc.minor, (long long)status.st_size,
                        (long long)status.st_mtim.tv_sec, (long long)status.st_mtim.tv_nsec);
    sc_cache_key key = sc_cache_key_of(version, strlen(version));
    for (int i = 0; sc_nvrtc_options[i] != NULL; i++)
        key = key_with_text(key, sc_nvrtc_options[i]);
    return key_with_text(key_with_text(key, build->target->architecture), build->target->ptx);
}

static void add_units(cubin_build *build, const sc_cubin_function *functions, uint32_t count)
{
    sc_cache_key base = base_key(build);
    build->unit_of = sc_arena_array(build->arena, count, sizeof *build->unit_of);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = 0;
        while (at < build->units.count &&
               strcmp(build->units.data[at].symbol, functions[i].symbol) != 0)
            at++;
        build->unit_of[i] = at;
        if (at < build->units.count)
            continue;
        cubin_unit *unit = sc_vec_push(build->arena, &build->units);
        *unit = (cubin_unit){.symbol = functions[i].symbol,
                             .name = sc_arena_printf(build->arena, "%s.cu", functions[i].symbol)};
        sc_strbuf_init(&unit->source, build->arena);
        sc_cuda_source(&unit->source, functions[i].text, functions[i].helpers);
        sc_cache_key key =
            sc_cache_key_with(base, sc_cache_key_of_code(build->arena, unit->source.data));
        unit->kept =
            build->cache == NULL ? NULL : sc_cache_path(build->arena, build->cache, key, ".cuda");
    }
}

/* ---- files ---- */
/* Splits the bytes of a cached file into its parts; false: invalid. bytes[count] is readable. */
static bool read_parts(sc_arena *arena, const sc_target *target, uint8_t *bytes, size_t count,
                       sc_cubin *out)
{
    cubin_sizes sizes;
    if (count < sizeof sizes)
        return false;
    memcpy(&sizes, bytes, sizeof sizes);
    size_t left = count - sizeof sizes;
    if (sizes.cubin > left || sizes.ptx > left - sizes.cubin ||
        sizes.log != left - sizes.cubin - sizes.ptx)
        return false;
    const uint8_t *cubin = bytes + sizeof sizes;
    *out = (sc_cubin){.cubin = sc_target_is_virtual(target) ? NULL : cubin,
                      .cubin_bytes = (size_t)sizes.cubin,
                      .ptx = (const char *)cubin + sizes.cubin,
                      .ptx_bytes = (size_t)sizes.ptx};
    const char *log = out->ptx + out->ptx_bytes;
    if (out->ptx_bytes == 0 || log[-1] != 0)
        return false;
    sc_nvrtc_read_log(arena, sc_arena_copy_text(arena, log, (size_t)sizes.log), &out->usages);
    return true;
}

static bool write_parts(const char *path, const sc_nvrtc_code *code)
{
    cubin_sizes sizes = {code->cubin_bytes, code->ptx_bytes, strlen(code->log)};
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return false;
    bool ok = fwrite(&sizes, sizeof sizes, 1, file) == 1;
    ok = ok && (code->cubin_bytes == 0 ||
                fwrite(code->cubin, 1, code->cubin_bytes, file) == code->cubin_bytes);
    ok = ok && fwrite(code->ptx, 1, code->ptx_bytes, file) == code->ptx_bytes;
    ok = ok && fwrite(code->log, 1, sizes.log, file) == sizes.log;
    return fclose(file) == 0 && ok;
}

/* Allocates everything that the threads need before any is started: running out of memory later
 * would leave them behind. */
static uint32_t prepare(cubin_build *build)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < build->units.count; i++) {
        cubin_unit *unit = &build->units.data[i];
        uint8_t *bytes = NULL;
        size_t count = 0;
        unit->missing = unit->kept == NULL ||
                        !sc_cache_read_kept(build->arena, unit->kept, &bytes, &count) ||
                        !read_parts(build->arena, build->target, bytes, count, &unit->result);
        missing += unit->missing;
    }
    if (missing == 0)
        return 0;
    build->scratch = sc_cache_scratch_open(build->arena, build->cache);
    build->folder = build->scratch.folder;
    if (build->folder != NULL) {
        for (uint32_t i = 0; i < build->units.count; i++) {
            cubin_unit *unit = &build->units.data[i];
            unit->file = sc_arena_printf(build->arena, "%s/%s.cu", build->folder, unit->symbol);
            unit->made = sc_arena_printf(build->arena, "%s/%s.cuda", build->folder, unit->symbol);
            unit->log = sc_arena_printf(build->arena, "%s/%s.log", build->folder, unit->symbol);
        }
    }
    return missing;
}

/* ---- threads: these must not use an arena ---- */
static void compile_unit(cubin_build *build, cubin_unit *unit)
{
    sc_nvrtc_code code;
    unit->error =
        sc_nvrtc_compile(&build->nvrtc, unit->source.data, unit->name, build->target, &code);
    if (unit->error != NULL) {
        sc_cache_write(unit->file, unit->source.data, unit->source.length);
        if (code.log != NULL)
            sc_cache_write(unit->log, code.log, strlen(code.log));
    } else if (!write_parts(unit->made, &code)) {
        unit->error = unit->made;
        unit->error_number = errno;
    } else {
        unit->is_kept = unit->kept != NULL && sc_cache_keep(unit->made, unit->kept);
    }
    sc_nvrtc_code_free(&code);
}

static void *work(void *user)
{
    cubin_build *build = user;
    while (!atomic_load(&build->failed)) {
        uint32_t at = atomic_fetch_add(&build->next, 1);
        if (at >= build->units.count)
            break;
        cubin_unit *unit = &build->units.data[at];
        if (!unit->missing)
            continue;
        compile_unit(build, unit);
        if (unit->error != NULL)
            atomic_store(&build->failed, true);
    }
    return NULL;
}

/* This thread compiles, too; if no other can be started, it does everything. */
static void compile_missing(cubin_build *build, uint32_t missing)
{
    pthread_t threads[SC_MAX_JOBS];
    uint32_t wanted = build->jobs < missing ? build->jobs : missing, started = 0;
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, work, build) == 0)
        started++;
    work(build);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

/* ---- results ---- */
static const char *refusal(const cubin_build *build, const cubin_unit *unit)
{
    uint8_t *words = NULL;
    size_t count = 0;
    if (unit->error_number != 0)
        return sc_arena_printf(build->arena, "%s: %s", unit->error, strerror(unit->error_number));
    if (!sc_cache_read(build->arena, unit->log, &words, &count) || count == 0)
        words = NULL;
    return sc_arena_printf(build->arena,
                           "NVRTC %d.%d does not compile a kernel for %s (%s): %s\n%s",
                           build->nvrtc.major, build->nvrtc.minor, build->target->architecture,
                           unit->error, unit->file, words == NULL ? "" : (const char *)words);
}

/* Returns the first error in order of units. Units are started in order and always completed, so
 * earlier ones have finished. */
static const char *collect(cubin_build *build, bool *keep_folder)
{
    for (uint32_t i = 0; i < build->units.count; i++) {
        cubin_unit *unit = &build->units.data[i];
        uint8_t *bytes = NULL;
        size_t count = 0;
        if (!unit->missing)
            continue;
        if (unit->error != NULL) {
            *keep_folder = unit->error_number == 0;
            return refusal(build, unit);
        }
        if (atomic_load(&build->failed))
            continue;
        bool read = unit->is_kept ? sc_cache_read_kept(build->arena, unit->kept, &bytes, &count)
                                  : sc_cache_read(build->arena, unit->made, &bytes, &count);
        if (!read || !read_parts(build->arena, build->target, bytes, count, &unit->result))
            return sc_arena_printf(build->arena, "%s: cannot be read back",
                                   unit->is_kept ? unit->kept : unit->made);
        build->out->compiled++;
    }
    return NULL;
}

static const char *build_units(cubin_build *build)
{
    uint32_t missing = prepare(build);
    if (missing == 0)
        return NULL;
    if (build->folder == NULL)
        return "no folder for temporary files can be written";
    bool keep_folder = false;
    compile_missing(build, missing);
    const char *error = collect(build, &keep_folder);
    sc_cache_scratch_close(&build->scratch, keep_folder);
    if (build->cache != NULL)
        sc_cache_clean(build->cache, build->cache_bytes);
    return error;
}

const char *sc_cubins_build(sc_arena *arena, const sc_target *target,
                            const sc_cubin_function *functions, uint32_t count,
                            const sc_cubin_options *options, sc_cubins *out)
{
    static const sc_cubin_options none = {0};
    shardc_error error;
    options = options == NULL ? &none : options;
    *out = (sc_cubins){.cubins = sc_arena_array(arena, count, sizeof *out->cubins)};
    cubin_build *build = sc_arena_alloc(arena, sizeof *build);
    build->arena = arena, build->target = target, build->out = out;
    build->jobs = sc_job_count(options->jobs);
    build->cache = sc_cache_open(arena, options->cache, &out->refused);
    const char *wrong = sc_cache_size(arena, &build->cache_bytes);
    if (wrong != NULL)
        return wrong;
    atomic_init(&build->next, 0);
    atomic_init(&build->failed, false);
    if (!sc_nvrtc_open(&build->nvrtc, &error))
        return sc_arena_printf(arena, "%s", error.text);
    out->nvrtc = (uint32_t)(1000 * build->nvrtc.major + 10 * build->nvrtc.minor);
    add_units(build, functions, count);
    wrong = build_units(build);
    if (wrong == NULL) {
        for (uint32_t i = 0; i < count; i++)
            out->cubins[i] = build->units.data[build->unit_of[i]].result;
    }
    sc_nvrtc_close(&build->nvrtc);
    return wrong;
}
