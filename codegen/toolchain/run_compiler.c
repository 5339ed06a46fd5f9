/* Runs the compiler's processes and computes its cache key. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/toolchain/internal.h"

extern char **environ;

void sc_object_command_add(sc_object_command *command, const char *word)
{
    *sc_vec_push(command->arena, &command->words) =
        sc_arena_copy_text(command->arena, word, strlen(word));
    *sc_vec_push(command->arena, &command->words) = NULL;
    command->words.count--;
}

sc_object_command sc_object_command_new(sc_arena *arena, const char *compiler)
{
    sc_object_command command = {.arena = arena};
    for (const char *word = compiler + strspn(compiler, " "); *word != 0;) {
        size_t length = strcspn(word, " ");
        sc_object_command_add(&command, sc_arena_copy_text(arena, word, length));
        word += length + strspn(word + length, " ");
    }
    if (command.words.count == 0)
        sc_object_command_add(&command, "cc");
    return command;
}

pid_t sc_object_start(const sc_object_command *command, const char *log)
{
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    int error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0)
        error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log,
                                                 O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    if (error == 0)
        error = posix_spawnp(&pid, command->words.data[0], &actions, NULL, command->words.data,
                             environ);
    posix_spawn_file_actions_destroy(&actions);
    errno = error;
    return error == 0 ? pid : -1;
}

bool sc_object_end(pid_t pid, bool wait, bool *running)
{
    int status = 0;
    pid_t got;
    do
        got = waitpid(pid, &status, wait ? 0 : WNOHANG);
    while (got < 0 && errno == EINTR);
    *running = got == 0;
    /* If the program ignores SIGCHLD, waiting fails: the output files show the outcome. */
    return got == pid ? WIFEXITED(status) && WEXITSTATUS(status) == 0 : got < 0;
}

/* The file that a command name refers to, looked up in PATH. */
static const char *find_program(sc_arena *arena, const char *name)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/') != NULL || path == NULL)
        return name;
    for (const char *part = path; *part != 0;) {
        size_t length = strcspn(part, ":");
        const char *file = sc_arena_printf(arena, "%.*s/%s", (int)length, part, name);
        if (access(file, X_OK) == 0)
            return file;
        part += length + (part[length] == ':');
    }
    return name;
}

/* The hash of the compiler's version text, cached under its path and time, as running it takes
 * longer than all else. */
static sc_cache_key version_key(sc_arena *arena, const char *compiler, const char *cache,
                                uint32_t *started, bool *is_gcc)
{
    struct stat status = {0};
    sc_object_command command = sc_object_command_new(arena, compiler);
    const char *file = find_program(arena, command.words.data[0]);
    if (stat(file, &status) != 0)
        memset(&status, 0, sizeof status);
    const char *name = sc_arena_printf(
        arena, "%s %s %lld %lld %lld", compiler, file, (long long)status.st_mtim.tv_sec,
        (long long)status.st_mtim.tv_nsec, (long long)status.st_size);
    sc_cache_key key = sc_cache_key_of(name, strlen(name));
    const char *kept = cache == NULL ? NULL : sc_cache_path(arena, cache, key, ".version");
    uint8_t *bytes = NULL;
    size_t count = 0;
    bool known = kept != NULL && sc_cache_read_kept(arena, kept, &bytes, &count);
    sc_cache_scratch scratch =
        known ? (sc_cache_scratch){NULL, -1} : sc_cache_scratch_open(arena, cache);
    if (scratch.folder != NULL) {
        const char *log = sc_arena_printf(arena, "%s/version", scratch.folder);
        sc_object_command_add(&command, "--version");
        pid_t pid = sc_object_start(&command, log);
        bool running;
        ++*started;
        known = pid > 0 && sc_object_end(pid, true, &running) &&
                sc_cache_read(arena, log, &bytes, &count);
        if (known && kept != NULL)
            sc_cache_keep(log, kept);
        sc_cache_scratch_close(&scratch, false);
    }
    *is_gcc = known && strstr((const char *)bytes, "Free Software Foundation") != NULL;
    return known ? sc_cache_key_with(key, sc_cache_key_of(bytes, count)) : key;
}

/* The hash of the first CPU's lines in /proc/cpuinfo that do not vary over time: the model and its
 * features. */
static sc_cache_key cpu_key(void)
{
    char text[8192];
    size_t count = 0;
    sc_cache_key key = {{0, 0}};
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (file != NULL) {
        setvbuf(file, NULL, _IOFBF, sizeof text);
        count = fread(text, 1, sizeof text - 1, file);
        fclose(file);
    }
    text[count] = 0;
    for (const char *line = text; *line != 0;) {
        static const char *const names[] = {"vendor_id", "cpu family", "model",    "model name",
                                            "stepping",  "flags",      "Features", "CPU part"};
        size_t length = strcspn(line, "\n"), name = strcspn(line, "\t:\n");
        if (length == 0)
            break;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (strlen(names[i]) == name && memcmp(names[i], line, name) == 0)
                key = sc_cache_key_with(key, sc_cache_key_of(line, length));
        }
        line += length + (line[length] == '\n');
    }
    return key;
}

sc_cache_key sc_object_compiler_key(sc_arena *arena, const char *compiler, const char *cache,
                                    uint32_t *started, bool *is_gcc)
{
    return sc_cache_key_with(version_key(arena, compiler, cache, started, is_gcc), cpu_key());
}
