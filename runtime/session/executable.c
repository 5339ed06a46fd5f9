/* Reads executables and answers queries about their contents. */
#include "runtime/session/executable.h"
#include "program/bytes.h"
#include "program/file.h"
#include "program/lookup.h"
#include "runtime/session/shard.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static void on_no_memory(void *user)
{
    longjmp(*(jmp_buf *)user, 1);
}

static shardc_status read_image(const void *bytes, size_t size, shardc_executable **out,
                                shardc_error *error)
{
    jmp_buf no_memory;
    shardc_error reason = {.status = SHARDC_OK};
    shardc_executable *volatile program = calloc(1, sizeof *program);
    *out = NULL;
    if (program == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for the program");
    sc_arena_init(&program->arena, on_no_memory, &no_memory);
    if (setjmp(no_memory) == 0) {
        if (sc_program_read(bytes, size, &program->arena, &program->all, &reason))
            program->image = program->all.whole;
    } else
        sc_fail(&reason, SHARDC_ERROR_MEMORY, "there is not enough memory for the program");
    if (reason.status != SHARDC_OK) {
        shardc_executable_free(program);
        return sc_fail(error, reason.status, "%s", reason.text);
    }
    *out = program;
    return SHARDC_OK;
}

shardc_status shardc_executable_read(const void *bytes, size_t size, shardc_executable **out,
                                     shardc_error *error)
{
    sc_program_trailer trailer;
    *out = NULL;
    if (!sc_program_has_trailer(bytes, size))
        return read_image(bytes, size, out, error);
    const char *problem = sc_program_trailer_read(bytes, size, &trailer);
    if (problem != NULL)
        return sc_fail(error, SHARDC_ERROR_DATA, "not a valid program: %s", problem);
    return read_image((const char *)bytes + trailer.offset, (size_t)trailer.length, out, error);
}

shardc_status shardc_executable_open(const char *path, shardc_executable **out, shardc_error *error)
{
    size_t size = 0;
    const char *problem;
    shardc_error reason = {.status = SHARDC_ERROR_DATA};
    char *bytes = sc_file_read(path, SIZE_MAX, &size, &problem);
    *out = NULL;
    if (bytes == NULL)
        return sc_fail(error, SHARDC_ERROR_DATA, "cannot read %.300s: %s", path, problem);
    shardc_status status = shardc_executable_read(bytes, size, out, &reason);
    free(bytes);
    return status == SHARDC_OK ? SHARDC_OK
                               : sc_fail(error, status, "%s: %.400s", path, reason.text);
}

void shardc_executable_free(shardc_executable *program)
{
    if (program == NULL)
        return;
    sc_arena_free(&program->arena);
    free(program);
}

/* ---- queries ---- */

uint64_t shardc_executable_ranks(const shardc_executable *program)
{
    return program->image->ranks;
}

int64_t shardc_executable_arena_bytes(const shardc_executable *program)
{
    return program->image->arena_bytes;
}

uint64_t shardc_executable_hash(const shardc_executable *program)
{
    return program->image->hash;
}

const char *shardc_executable_target(const shardc_executable *program)
{
    return program->image->target;
}

const char *shardc_executable_facts(const shardc_executable *program)
{
    return program->image->facts;
}

static void describe(const sc_image_tensor *tensor, const char *name, const char *kind,
                     shardc_tensor_info *out)
{
    *out = (shardc_tensor_info){.name = name,
                                .kind = kind,
                                .dtype = sc_dtypes[tensor->dtype].name,
                                .rank = tensor->rank,
                                .count = 1,
                                .local_count = 1,
                                .batch_dim = -1,
                                .is_partial = tensor->partial != SC_IMAGE_WHOLE,
                                .tensor = tensor};
    for (uint32_t i = 0; i < tensor->rank; i++) {
        out->dims[i].name = tensor->dims[i].name;
        out->dims[i].size = tensor->dims[i].size;
        out->dims[i].local = tensor->dims[i].local;
        out->count *= tensor->dims[i].size;
        out->local_count *= tensor->dims[i].local;
    }
}

uint32_t shardc_executable_state_count(const shardc_executable *program)
{
    return program->image->state_count;
}

uint32_t shardc_executable_find_state(const shardc_executable *program, const char *path)
{
    for (uint32_t i = 0; i < program->image->state_count; i++) {
        if (strcmp(program->image->states[i].path, path) == 0)
            return i;
    }
    return SHARDC_NOT_FOUND;
}

void shardc_executable_state(const shardc_executable *program, uint32_t index,
                             shardc_tensor_info *out)
{
    const sc_image_state *state = &program->image->states[index];
    describe(&state->tensor, state->path, sc_state_kind_names[state->kind], out);
}

uint32_t shardc_executable_func_count(const shardc_executable *program)
{
    return program->image->func_count;
}

uint32_t shardc_executable_find_func(const shardc_executable *program, const char *name)
{
    for (uint32_t i = 0; i < program->image->func_count; i++) {
        if (strcmp(program->image->funcs[i].name, name) == 0)
            return i;
    }
    return SHARDC_NOT_FOUND;
}

const char *shardc_executable_func(const shardc_executable *program, uint32_t func)
{
    return program->image->funcs[func].name;
}

uint32_t shardc_executable_input_count(const shardc_executable *program, uint32_t func)
{
    return program->image->funcs[func].input_count;
}

uint32_t shardc_executable_output_count(const shardc_executable *program, uint32_t func)
{
    return program->image->funcs[func].output_count;
}

/* The caller's array of a function of several micro-batches has all of them: nothing is split for
 * him. */
static void give_batches(const sc_image_func *func, const sc_image_value *value,
                         shardc_tensor_info *out)
{
    if (func->batches == 0 || value->batch_dim < 0)
        return;
    out->dims[value->batch_dim].size *= func->batches;
    out->count *= func->batches;
    out->batch_dim = -1;
}

void shardc_executable_input(const shardc_executable *program, uint32_t func, uint32_t input,
                             shardc_tensor_info *out)
{
    const sc_image_value *value = &program->image->funcs[func].inputs[input];
    describe(&value->tensor, value->name, "input", out);
    out->batch_dim = value->batch_dim;
    out->below = value->below;
    out->may_ignore = value->may_ignore;
    out->ignore = value->ignore;
    give_batches(&program->image->funcs[func], value, out);
}

void shardc_executable_output(const shardc_executable *program, uint32_t func, uint32_t output,
                              shardc_tensor_info *out)
{
    const sc_image_value *value = &program->image->funcs[func].outputs[output];
    describe(&value->tensor, value->name, "output", out);
    give_batches(&program->image->funcs[func], value, out);
}

uint32_t shardc_executable_call_count(const shardc_executable *program)
{
    return program->image->call_count;
}

uint32_t shardc_executable_call(const shardc_executable *program, uint32_t call,
                                int32_t *out_micro_batch)
{
    *out_micro_batch = program->image->schedule[call].micro_batch;
    return program->image->schedule[call].func;
}

uint32_t shardc_executable_micro_batches(const shardc_executable *program)
{
    int32_t most = 0;
    for (uint32_t i = 0; i < program->image->call_count; i++)
        most = program->image->schedule[i].micro_batch > most
                   ? program->image->schedule[i].micro_batch
                   : most;
    return (uint32_t)most + 1;
}

bool shardc_tensor_shard(const shardc_tensor_info *info, uint64_t rank,
                         int64_t first[SHARDC_TENSOR_MAX_RANK])
{
    const sc_image_tensor *tensor = info->tensor;
    int64_t at[SC_IMAGE_MAX_RANK], sizes[SC_IMAGE_MAX_RANK];
    sc_shard_box(tensor, rank, 0, at, first, sizes);
    return sc_shard_is_given(tensor, rank);
}
