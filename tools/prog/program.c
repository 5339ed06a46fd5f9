/* The program appended to this executable, read from its end, and the session that runs it. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program/file.h"
#include "runtime/comm/launch.h"
#include "runtime/session/session.h"
#include "tools/prog/prog.h"

bool sc_prog_fail(sc_prog *prog, sc_diag_id id, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sc_report(&prog->context->diag, id, (sc_loc){0},
              sc_arena_vprintf(&prog->context->arena, format, args), NULL);
    va_end(args);
    return false;
}

/* ---- the program at the end of this file ---- */

typedef struct own_file {
    const char *bytes;
    size_t size;
} own_file;

/* Maps this executable. Returns NULL, or why it cannot be mapped. */
static const char *map_own_file(own_file *out)
{
    struct stat about;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    void *bytes = MAP_FAILED;
    *out = (own_file){0};
    if (file >= 0 && fstat(file, &about) == 0)
        bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    int error = errno;
    if (file >= 0)
        close(file);
    if (bytes == MAP_FAILED)
        return strerror(error);
    *out = (own_file){bytes, (size_t)about.st_size};
    return NULL;
}

static void unmap_own_file(const own_file *file)
{
    munmap((void *)(uintptr_t)file->bytes, file->size);
}

/* Runs before any other code of this file, because a damaged runtime must not compute. (Damage that
 * the system's loader detects is reported even earlier.) A file without a program continues; that
 * is reported when a program is needed. */
__attribute__((constructor(101))) static void check_own_file(void)
{
    static const char message[] =
        "error: this file is damaged: its hash does not match; build it again [run_failed]\n";
    sc_program_trailer trailer;
    own_file file;
    if (map_own_file(&file) != NULL)
        return;
    bool is_damaged = sc_program_has_trailer(file.bytes, file.size) &&
                      sc_program_trailer_read(file.bytes, file.size, &trailer) != NULL;
    unmap_own_file(&file);
    if (!is_damaged)
        return;
    ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
    (void)written;
    _exit(7);
}

static bool read_program(sc_prog *prog, const own_file *file)
{
    shardc_error error;
    if (!sc_program_has_trailer(file->bytes, file->size))
        return sc_prog_fail(prog, SC_D_run_failed,
                            "this file is not a complete program: it has no program: its end is "
                            "missing, or 'shardc build' did not write it");
    if (shardc_executable_read(file->bytes, file->size, &prog->program, &error) != SHARDC_OK)
        return sc_prog_fail(prog, SC_D_run_failed, "%s", error.text);
    const char *problem =
        sc_facts_read(shardc_executable_facts(prog->program), &prog->context->arena, &prog->facts);
    return problem == NULL || sc_prog_fail(prog, SC_D_run_failed, "%s", problem);
}

bool sc_prog_read(sc_prog *prog)
{
    own_file file;
    const char *problem = map_own_file(&file);
    if (problem != NULL)
        return sc_prog_fail(prog, SC_D_run_failed, "/proc/self/exe: %s", problem);
    bool ok = read_program(prog, &file);
    unmap_own_file(&file);
    return ok;
}

/* ---- its session ---- */

/* Sets up the ranks: as threads of this process, or as one of several processes started by a
 * launcher. */
static bool choose_world(sc_prog *prog, shardc_session_options *options)
{
    sc_launch launch;
    shardc_error error;
    unsigned long long ranks = shardc_executable_ranks(prog->program);
    if (prog->ranks != 0 && (unsigned long long)prog->ranks != ranks)
        return sc_prog_fail(prog, SC_D_usage, "--ranks %lld, but the program was built for %llu",
                            (long long)prog->ranks, ranks);
    if (sc_launch_read(NULL, NULL, &launch, &error) != SHARDC_OK)
        return sc_prog_fail(prog, SC_D_usage, "%s", error.text);
    if (launch.launcher == SC_LAUNCH_ALONE || (launch.size == 1 && ranks == 1))
        return true;
    if (launch.size != ranks)
        return sc_prog_fail(prog, SC_D_usage,
                            "%s started %u ranks, but the program was built for %llu", launch.how,
                            launch.size, ranks);
    if (launch.rank == 0)
        fprintf(stderr, "%llu ranks by %s\n", ranks, launch.how);
    options->world = SHARDC_WORLD_PROCESSES;
    options->started_with = sc_prog_started_with(prog);
    return true;
}

/* Returns the name of the file beside this executable, if the executable's name is known. */
static const char *gemm_cache_file(sc_prog *prog)
{
    enum { ROOM = 4096 };
    char *path = sc_arena_array(&prog->context->arena, ROOM, sizeof *path);
    if (prog->gemm_cache != NULL)
        return *prog->gemm_cache == 0 ? NULL : prog->gemm_cache;
    ssize_t length = readlink("/proc/self/exe", path, ROOM - 1);
    return length <= 0 || length == ROOM - 1
               ? NULL
               : sc_arena_printf(&prog->context->arena, "%.*s.gemms", (int)length, path);
}

/* Reports errors of the algorithm file. Failing to write it is reported only if the user named the
 * file. */
static void report_gemm_cache(const sc_prog *prog)
{
    shardc_gemm_tuning tuning;
    uint32_t first;
    shardc_session_gemm_tuning(prog->session, &tuning);
    shardc_session_local_ranks(prog->session, &first);
    if (first == 0 && tuning.read_error[0] != 0)
        fprintf(stderr, "%s\n", tuning.read_error);
    if (first == 0 && tuning.write_error[0] != 0 && prog->gemm_cache != NULL && !prog->tune)
        fprintf(stderr, "%s\n", tuning.write_error);
}

sc_executor *sc_prog_open(void *user)
{
    sc_prog *prog = user;
    shardc_error error;
    shardc_session_options options = {.threads = (uint32_t)prog->threads,
                                      .deadline_ms = (uint32_t)prog->deadline_ms,
                                      .profile = prog->profile,
                                      .tune_gemms = prog->tune,
                                      .gemm_cache = gemm_cache_file(prog),
                                      .host_memory = prog->run.host_memory};
    if (!choose_world(prog, &options))
        return NULL;
    if (shardc_session_new(prog->program, &options, &prog->session, &error) != SHARDC_OK) {
        sc_prog_fail(prog, SC_D_run_failed, "%s", error.text);
        return NULL;
    }
    report_gemm_cache(prog);
    prog->session->no_graphs = prog->no_graph;
    prog->executor = sc_executor_of_session(prog->program, prog->session);
    if (prog->executor == NULL)
        sc_prog_fail(prog, SC_D_run_failed, "there is not enough memory");
    return prog->executor;
}
