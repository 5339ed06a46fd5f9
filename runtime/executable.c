#include "runtime/executable.h"
#include "support/program_bytes.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sc_status sc_fail(sc_error *error, sc_status status, const char *format, ...)
{
    va_list args;
    if (error == NULL)
        return status;
    error->status = status;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return status;
}

/* ---- reading ---- */

static void on_no_memory(void *user)
{
    longjmp(*(jmp_buf *)user, 1);
}

sc_status sc_executable_read(const void *bytes, size_t size, sc_executable **out, sc_error *error)
{
    jmp_buf no_memory;
    sc_error reason = {.status = SC_OK};
    sc_executable *volatile program = calloc(1, sizeof *program);
    *out = NULL;
    if (program == NULL)
        return sc_fail(error, SC_ERROR_MEMORY, "there is not enough memory for the program");
    sc_arena_init(&program->arena, on_no_memory, &no_memory);
    if (setjmp(no_memory) == 0)
        program->image = sc_image_read(bytes, size, &program->arena, &reason);
    else
        sc_fail(&reason, SC_ERROR_MEMORY, "there is not enough memory for the program");
    if (reason.status != SC_OK) {
        sc_executable_free(program);
        return sc_fail(error, reason.status, "%s", reason.text);
    }
    *out = program;
    return SC_OK;
}

/* All of a file; NULL after an error. */
static char *read_file(const char *path, size_t *out_size, sc_error *error)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    size_t size = 0, room = 0;
    if (file == NULL) {
        sc_fail(error, SC_ERROR_DATA, "cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    do {
        if (size == room) {
            char *more = room > SIZE_MAX / 2 ? NULL : realloc(bytes, room = room == 0 ? 1 << 16 : room * 2);
            if (more == NULL) {
                sc_fail(error, SC_ERROR_MEMORY, "there is not enough memory for %s", path);
                goto failed;
            }
            bytes = more;
        }
        size += fread(bytes + size, 1, room - size, file);
    } while (size == room);
    if (ferror(file)) {
        sc_fail(error, SC_ERROR_DATA, "cannot read %s: %s", path, strerror(errno));
        goto failed;
    }
    fclose(file);
    *out_size = size;
    return bytes;
failed:
    fclose(file);
    free(bytes);
    return NULL;
}

sc_status sc_executable_open(const char *path, sc_executable **out, sc_error *error)
{
    size_t size = 0;
    sc_error reason = {.status = SC_ERROR_DATA};
    char *bytes = read_file(path, &size, &reason);
    *out = NULL;
    if (bytes == NULL)
        return sc_fail(error, reason.status, "%s", reason.text);
    sc_status status = sc_executable_read(bytes, size, out, &reason);
    free(bytes);
    return status == SC_OK ? SC_OK : sc_fail(error, status, "%s: %.400s", path, reason.text);
}

void sc_executable_free(sc_executable *program)
{
    if (program == NULL)
        return;
    sc_arena_free(&program->arena);
    free(program);
}

/* ---- asking ---- */

uint64_t sc_executable_ranks(const sc_executable *program)
{
    return program->image->ranks;
}

int64_t sc_executable_arena_bytes(const sc_executable *program)
{
    return program->image->arena_bytes;
}

uint64_t sc_executable_hash(const sc_executable *program)
{
    return program->image->hash;
}

const char *sc_executable_target(const sc_executable *program)
{
    return program->image->target;
}

const char *sc_executable_facts(const sc_executable *program)
{
    return program->image->facts;
}

static void describe(const sc_image_tensor *tensor, const char *name, const char *kind, int32_t batch_dim, sc_tensor_info *out)
{
    *out = (sc_tensor_info){.name = name,
                            .kind = kind,
                            .dtype = sc_dtypes[tensor->dtype].name,
                            .rank = tensor->rank,
                            .count = 1,
                            .local_count = 1,
                            .batch_dim = batch_dim,
                            .is_pending = tensor->pending != SC_IMAGE_WHOLE,
                            .tensor = tensor};
    for (uint32_t i = 0; i < tensor->rank; i++) {
        out->dims[i].name = tensor->dims[i].name;
        out->dims[i].size = tensor->dims[i].size;
        out->dims[i].local = tensor->dims[i].local;
        out->count *= tensor->dims[i].size;
        out->local_count *= tensor->dims[i].local;
    }
}

uint32_t sc_executable_state_count(const sc_executable *program)
{
    return program->image->state_count;
}

uint32_t sc_executable_find_state(const sc_executable *program, const char *path)
{
    for (uint32_t i = 0; i < program->image->state_count; i++) {
        if (strcmp(program->image->states[i].path, path) == 0)
            return i;
    }
    return SC_NOT_FOUND;
}

void sc_executable_state(const sc_executable *program, uint32_t index, sc_tensor_info *out)
{
    const sc_image_state *state = &program->image->states[index];
    describe(&state->tensor, state->path, sc_state_kind_names[state->kind], -1, out);
}

uint32_t sc_executable_func_count(const sc_executable *program)
{
    return program->image->func_count;
}

uint32_t sc_executable_find_func(const sc_executable *program, const char *name)
{
    for (uint32_t i = 0; i < program->image->func_count; i++) {
        if (strcmp(program->image->funcs[i].name, name) == 0)
            return i;
    }
    return SC_NOT_FOUND;
}

const char *sc_executable_func(const sc_executable *program, uint32_t func)
{
    return program->image->funcs[func].name;
}

uint32_t sc_executable_input_count(const sc_executable *program, uint32_t func)
{
    return program->image->funcs[func].input_count;
}

uint32_t sc_executable_output_count(const sc_executable *program, uint32_t func)
{
    return program->image->funcs[func].output_count;
}

void sc_executable_input(const sc_executable *program, uint32_t func, uint32_t input, sc_tensor_info *out)
{
    const sc_image_value *value = &program->image->funcs[func].inputs[input];
    describe(&value->tensor, value->name, "input", value->batch_dim, out);
}

void sc_executable_output(const sc_executable *program, uint32_t func, uint32_t output, sc_tensor_info *out)
{
    const sc_image_value *value = &program->image->funcs[func].outputs[output];
    describe(&value->tensor, value->name, "output", -1, out);
}

uint32_t sc_executable_call_count(const sc_executable *program)
{
    return program->image->call_count;
}

uint32_t sc_executable_call(const sc_executable *program, uint32_t call, int32_t *out_micro_batch)
{
    *out_micro_batch = program->image->schedule[call].micro_batch;
    return program->image->schedule[call].func;
}

uint32_t sc_executable_micro_batches(const sc_executable *program)
{
    int32_t most = 0;
    for (uint32_t i = 0; i < program->image->call_count; i++)
        most = program->image->schedule[i].micro_batch > most ? program->image->schedule[i].micro_batch : most;
    return (uint32_t)most + 1;
}

bool sc_tensor_shard(const sc_tensor_info *info, uint64_t rank, int64_t first[SC_TENSOR_MAX_RANK])
{
    const sc_image_tensor *tensor = info->tensor;
    for (uint32_t i = 0; i < tensor->rank; i++)
        first[i] = sc_image_terms_value(&tensor->dims[i].first, rank);
    return sc_image_terms_value(&tensor->replica, rank) == 0;
}
