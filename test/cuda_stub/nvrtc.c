/* NVRTC's stub ($SHARDC_NVRTC names it): what stands behind sc_cuda_machine_text is given back as
 * "machine code" and "PTX" that the driver's stub takes, which compiles it. The log says of every
 * entry what ptxas would: 32 registers, nothing spilled.
 *
 * As NVRTC it refuses options that it does not know, and sources with a line of #error; those with
 * the text that $SHARDC_STUB_REFUSE names, too, and the architecture of that name, as an NVRTC that
 * is too old. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/emit.h"
#include "codegen/toolchain/nvrtc.h"
#include "test/cuda_on_cpu/harness.h"
#include "test/cuda_stub/stub.h"

enum { RESULT_INVALID_INPUT = 3, RESULT_INVALID_PROGRAM = 4 };

struct _nvrtcProgram {
    char *source, *name;
    char *cubin, *ptx; /* texts; NULL: not compiled */
    char *log;
    size_t log_length, log_room;
};

/* The library's functions, which codegen/toolchain/nvrtc.c looks up. */
#define SYMBOL(result, name, ...) SC_STUB_API result name(__VA_ARGS__);
#include "codegen/toolchain/nvrtc.def"
#undef SYMBOL

static void *must_have(void *memory)
{
    if (memory == NULL) {
        fputs("test/cuda_stub: memory ran out\n", stderr);
        abort();
    }
    return memory;
}

static void add_log(sc_nvrtc_program program, const char *format, const char *a, const char *b)
{
    size_t more = strlen(format) + strlen(a) + strlen(b);
    if (program->log_length + more + 1 > program->log_room) {
        program->log_room = 2 * program->log_room + more + 1;
        program->log = must_have(realloc(program->log, program->log_room));
    }
    int added = snprintf(program->log + program->log_length,
                         program->log_room - program->log_length, format, a, b);
    program->log_length += added < 0 ? 0 : (size_t)added;
}

sc_nvrtc_result nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return SC_NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(sc_nvrtc_result result)
{
    switch (result) {
    case SC_NVRTC_SUCCESS:
        return "NVRTC_SUCCESS";
    case SC_NVRTC_OUT_OF_MEMORY:
        return "NVRTC_ERROR_OUT_OF_MEMORY";
    case RESULT_INVALID_INPUT:
        return "NVRTC_ERROR_INVALID_INPUT";
    case RESULT_INVALID_PROGRAM:
        return "NVRTC_ERROR_INVALID_PROGRAM";
    case SC_NVRTC_INVALID_OPTION:
        return "NVRTC_ERROR_INVALID_OPTION";
    case SC_NVRTC_COMPILATION:
        return "NVRTC_ERROR_COMPILATION";
    default:
        return "NVRTC_ERROR unknown";
    }
}

sc_nvrtc_result nvrtcCreateProgram(sc_nvrtc_program *out, const char *source, const char *name,
                                   int header_count, const char *const *headers,
                                   const char *const *header_names)
{
    (void)headers, (void)header_names;
    if (source == NULL || header_count != 0)
        return RESULT_INVALID_INPUT;
    sc_nvrtc_program program = must_have(calloc(1, sizeof *program));
    program->source = must_have(strdup(source));
    program->name = must_have(strdup(name == NULL ? "default_program" : name));
    add_log(program, "", "", "");
    *out = program;
    return SC_NVRTC_SUCCESS;
}

sc_nvrtc_result nvrtcDestroyProgram(sc_nvrtc_program *program)
{
    if (program == NULL || *program == NULL)
        return RESULT_INVALID_PROGRAM;
    free((*program)->source);
    free((*program)->name);
    free((*program)->cubin);
    free((*program)->ptx);
    free((*program)->log);
    free(*program);
    *program = NULL;
    return SC_NVRTC_SUCCESS;
}

/* ---- compiling ---- */

typedef struct architecture {
    int capability;
    char special[2];
    bool is_virtual;
} architecture;

static bool is_known(const char *option)
{
    for (int i = 0; sc_nvrtc_options[i] != NULL; i++) {
        if (strcmp(option, sc_nvrtc_options[i]) == 0)
            return true;
    }
    return false;
}

static bool read_options(sc_nvrtc_program program, int count, const char *const *options,
                         architecture *out)
{
    static const char key[] = "--gpu-architecture=";
    *out = (architecture){.capability = 75, .is_virtual = true};
    for (int i = 0; i < count; i++) {
        const char *value = options[i] + strlen(key);
        if (is_known(options[i]))
            continue;
        bool is_ours = strncmp(options[i], key, strlen(key)) == 0;
        out->is_virtual = is_ours && strncmp(value, "compute_", 8) == 0;
        if (!is_ours || sscanf(value, out->is_virtual ? "compute_%d%1s" : "sm_%d%1s",
                               &out->capability, out->special) < 1) {
            add_log(program, "nvrtc: error: unrecognized option %s found\n%s", options[i], "");
            return false;
        }
    }
    return true;
}

/* Of a line with #error the words; false: there is none. */
static bool find_error(const char *text, char *words, size_t room)
{
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *at = line + strspn(line, " \t");
        if (strncmp(at, "#error", 6) != 0)
            continue;
        at += 6;
        snprintf(words, room, "%.*s", (int)strcspn(at, "\n"), at);
        return true;
    }
    return false;
}

static char *with_header(const char *format, const architecture *of, const char *text)
{
    size_t room = strlen(text) + 128;
    char *made = must_have(malloc(room));
    int length = snprintf(made, room, format, of->capability, of->special, strlen(text));
    snprintf(made + length, room - (size_t)length, "%s", text);
    return made;
}

sc_nvrtc_result nvrtcCompileProgram(sc_nvrtc_program program, int option_count,
                                    const char *const *options)
{
    char words[256], target[32];
    architecture of;
    sc_machine_report report;
    if (program == NULL)
        return RESULT_INVALID_PROGRAM;
    const char *refused = getenv("SHARDC_STUB_REFUSE");
    if (!read_options(program, option_count, options, &of))
        return SC_NVRTC_INVALID_OPTION;
    snprintf(target, sizeof target, "sm_%d%s", of.capability, of.special);
    if (refused != NULL && strcmp(refused, target) == 0)
        return SC_NVRTC_INVALID_OPTION;
    size_t machine = strlen(sc_cuda_machine_text);
    bool has_machine = strncmp(program->source, sc_cuda_machine_text, machine) == 0;
    const char *text = has_machine ? program->source + machine : program->source;
    if (find_error(text, words, sizeof words)) {
        add_log(program, "%s(1): catastrophic error: #error directive:%s\n", program->name, words);
        return SC_NVRTC_COMPILATION;
    }
    if (refused != NULL && strstr(text, refused) != NULL) {
        add_log(program, "%s(1): error: %s is refused\n", program->name, refused);
        return SC_NVRTC_COMPILATION;
    }
    if (!has_machine) {
        add_log(program, "%s(1): error: the text does not begin with sc_cuda_machine_text%s\n",
                program->name, "");
        return SC_NVRTC_COMPILATION;
    }
    sc_machine_module *module = sc_machine_declare(&text, 1, &report);
    if (module == NULL) {
        add_log(program, "%s: error: %s\n", program->name, report.text);
        return SC_NVRTC_COMPILATION;
    }
    for (uint32_t k = 0; k < sc_machine_kernel_count(module) && !of.is_virtual; k++) {
        add_log(program, "ptxas info    : Compiling entry function '%s' for '%s'\n",
                sc_machine_kernel_at(module, k)->name, target);
        add_log(program, "ptxas info    : Function properties for %s\n%s",
                sc_machine_kernel_at(module, k)->name,
                "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    "
                ": Used 32 registers\n");
    }
    sc_machine_unload(module);
    program->cubin = of.is_virtual ? NULL : with_header(SC_STUB_CUBIN, &of, text);
    program->ptx = with_header(SC_STUB_PTX, &of, text);
    return SC_NVRTC_SUCCESS;
}

/* ---- what came of it ---- */

/* With its 0. */
static sc_nvrtc_result size_of(sc_nvrtc_program program, const char *text, size_t *out)
{
    *out = text == NULL ? 0 : strlen(text) + 1;
    return program->ptx == NULL && text != program->log ? RESULT_INVALID_PROGRAM : SC_NVRTC_SUCCESS;
}

static sc_nvrtc_result copy_of(const char *text, char *out)
{
    if (text == NULL)
        return RESULT_INVALID_PROGRAM;
    memcpy(out, text, strlen(text) + 1);
    return SC_NVRTC_SUCCESS;
}

sc_nvrtc_result nvrtcGetProgramLogSize(sc_nvrtc_program program, size_t *out)
{
    return size_of(program, program->log, out);
}

sc_nvrtc_result nvrtcGetProgramLog(sc_nvrtc_program program, char *out)
{
    return copy_of(program->log, out);
}

sc_nvrtc_result nvrtcGetCUBINSize(sc_nvrtc_program program, size_t *out)
{
    return size_of(program, program->cubin, out);
}

sc_nvrtc_result nvrtcGetCUBIN(sc_nvrtc_program program, char *out)
{
    return copy_of(program->cubin, out);
}

sc_nvrtc_result nvrtcGetPTXSize(sc_nvrtc_program program, size_t *out)
{
    return size_of(program, program->ptx, out);
}

sc_nvrtc_result nvrtcGetPTX(sc_nvrtc_program program, char *out)
{
    return copy_of(program->ptx, out);
}
