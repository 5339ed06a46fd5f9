/* Opens NVRTC, compiles with it, and reads resource usage from its log. */
#include "codegen/toolchain/nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/dynlib.h"

static const sc_dynlib_symbol symbols[] = {
#define SYMBOL(result, name, ...) {#name, offsetof(sc_nvrtc, name)},
#include "codegen/toolchain/nvrtc.def"
#undef SYMBOL
};
static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
static const sc_dynlib library = {
    .title = "NVRTC",
    .variable = "SHARDC_NVRTC",
    .remedy = "install NVRTC of CUDA 12 or 13 (no GPU and no driver are needed)",
    .names = names,
    .folders = sc_dynlib_cuda_folders,
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof *symbols};

/* -default-device: unmarked functions, such as helpers shared with CPUs, are device functions; 177:
 * unused functions; -v: puts resource usage in the log. */
const char *const sc_nvrtc_options[] = {"-std=c++17", "-default-device", "--diag-suppress=177",
                                        "--ptxas-options=-v", NULL};
enum { MAX_OPTIONS = 16 };

bool sc_nvrtc_open(sc_nvrtc *out, shardc_error *error)
{
    if (!sc_dynlib_open(&library, out, error))
        return false;
    out->major = out->minor = 0;
    if (out->nvrtcVersion(&out->major, &out->minor) == SC_NVRTC_SUCCESS)
        return true;
    error->status = SHARDC_ERROR_UNAVAILABLE;
    snprintf(error->text, sizeof error->text, "NVRTC: %.200s does not say its version",
             sc_dynlib_path(out->library));
    sc_nvrtc_close(out);
    return false;
}

void sc_nvrtc_close(sc_nvrtc *nvrtc)
{
    sc_dynlib_close(&library, nvrtc);
}

/* ---- compiling ---- */
static const char NO_MEMORY[] = "out of memory";

typedef sc_nvrtc_result size_function(sc_nvrtc_program program, size_t *out);
typedef sc_nvrtc_result copy_function(sc_nvrtc_program program, char *out);

static const char *words(const sc_nvrtc *nvrtc, sc_nvrtc_result result)
{
    return result == SC_NVRTC_SUCCESS ? NULL : nvrtc->nvrtcGetErrorString(result);
}

/* Fetches the output of one pair of NVRTC functions, 0-terminated. */
static const char *fetch(const sc_nvrtc *nvrtc, sc_nvrtc_program program, size_function *size,
                         copy_function *copy, char **out, size_t *out_bytes)
{
    size_t bytes = 0;
    const char *error = words(nvrtc, size(program, &bytes));
    if (error != NULL)
        return error;
    char *made = calloc(bytes + 1, 1);
    if (made == NULL)
        return NO_MEMORY;
    error = bytes > 0 ? words(nvrtc, copy(program, made)) : NULL;
    if (error != NULL) {
        free(made);
        return error;
    }
    *out = made;
    *out_bytes = bytes;
    return NULL;
}

/* Keeps the log of the first compilation, or of one that fails. */
static const char *compile_program(const sc_nvrtc *nvrtc, sc_nvrtc_program program,
                                   const char *architecture, char **log)
{
    char option[64];
    const char *options[MAX_OPTIONS] = {option}, *no_log = NULL;
    int count = 1;
    size_t log_bytes;
    snprintf(option, sizeof option, "--gpu-architecture=%s", architecture);
    for (int i = 0; sc_nvrtc_options[i] != NULL && count < MAX_OPTIONS; i++)
        options[count++] = sc_nvrtc_options[i];
    const char *error = words(nvrtc, nvrtc->nvrtcCompileProgram(program, count, options));
    if (error != NULL && *log != NULL) {
        free(*log);
        *log = NULL;
    }
    if (*log == NULL)
        no_log = fetch(nvrtc, program, nvrtc->nvrtcGetProgramLogSize, nvrtc->nvrtcGetProgramLog,
                       log, &log_bytes);
    return error == NULL ? no_log : error;
}

/* Compiles the source for an architecture: to machine code unless it is virtual, and to PTX. */
static const char *compile_for(const sc_nvrtc *nvrtc, const char *source, const char *name,
                               const char *architecture, bool wants_cubin, bool wants_ptx,
                               sc_nvrtc_code *out)
{
    sc_nvrtc_program program = NULL;
    const char *error =
        words(nvrtc, nvrtc->nvrtcCreateProgram(&program, source, name, 0, NULL, NULL));
    if (error != NULL)
        return error;
    error = compile_program(nvrtc, program, architecture, &out->log);
    if (error == NULL && wants_cubin)
        error = fetch(nvrtc, program, nvrtc->nvrtcGetCUBINSize, nvrtc->nvrtcGetCUBIN, &out->cubin,
                      &out->cubin_bytes);
    if (error == NULL && wants_ptx)
        error = fetch(nvrtc, program, nvrtc->nvrtcGetPTXSize, nvrtc->nvrtcGetPTX, &out->ptx,
                      &out->ptx_bytes);
    nvrtc->nvrtcDestroyProgram(&program);
    return error;
}

/* sm_90 yields the PTX of compute_90. The PTX of sm_90a works on no other GPU, so PTX needs a
 * second compilation. */
const char *sc_nvrtc_compile(const sc_nvrtc *nvrtc, const char *source, const char *name,
                             const sc_target *target, sc_nvrtc_code *out)
{
    *out = (sc_nvrtc_code){0};
    bool is_special = sc_target_is_special(target);
    const char *error = compile_for(nvrtc, source, name, target->architecture,
                                    !sc_target_is_virtual(target), !is_special, out);
    return error == NULL && is_special
               ? compile_for(nvrtc, source, name, target->ptx, false, true, out)
               : error;
}

void sc_nvrtc_code_free(sc_nvrtc_code *code)
{
    free(code->cubin);
    free(code->ptx);
    free(code->log);
    *code = (sc_nvrtc_code){0};
}

/* ---- the log ---- */
/* The number before the words `what` in the line; 0 if absent. */
static uint32_t number_before(const char *line, size_t length, const char *what)
{
    const char *end = line + length;
    size_t what_length = strlen(what);
    for (const char *at = line; at + what_length <= end; at++) {
        if (memcmp(at, what, what_length) != 0)
            continue;
        const char *digit = at;
        uint32_t number = 0, scale = 1;
        while (digit > line && digit[-1] >= '0' && digit[-1] <= '9') {
            number += (uint32_t)(*--digit - '0') * scale;
            scale *= 10;
        }
        return number;
    }
    return 0;
}

/* The quoted text after the words `what`; NULL if absent. */
static const char *name_after(sc_arena *arena, const char *line, size_t length, const char *what)
{
    const char *end = line + length;
    size_t what_length = strlen(what);
    for (const char *at = line; at + what_length <= end; at++) {
        if (memcmp(at, what, what_length) != 0)
            continue;
        const char *name = at + what_length, *stop = memchr(name, '\'', (size_t)(end - name));
        return stop == NULL ? NULL : sc_arena_copy_text(arena, name, (size_t)(stop - name));
    }
    return NULL;
}

void sc_nvrtc_read_log(sc_arena *arena, const char *log, sc_cuda_usages *out)
{
    sc_cuda_usage *usage = NULL;
    for (const char *line = log; *line != 0;) {
        size_t length = strcspn(line, "\n");
        const char *entry = name_after(arena, line, length, "Compiling entry function '");
        if (entry != NULL) {
            usage = sc_vec_push(arena, out);
            *usage = (sc_cuda_usage){.entry = entry};
        } else if (usage != NULL) {
            /* Each is on one of the entry's lines. */
            usage->registers += number_before(line, length, " registers");
            usage->spill_store_bytes += number_before(line, length, " bytes spill stores");
            usage->spill_load_bytes += number_before(line, length, " bytes spill loads");
            usage->stack_bytes += number_before(line, length, " bytes stack frame");
            usage->shared_bytes += number_before(line, length, " bytes smem");
        }
        line += length + (line[length] == '\n');
    }
}
