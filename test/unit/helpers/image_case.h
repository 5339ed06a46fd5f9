/* Images made by hand: lists that grow while an image is written down, tensors from a line of text.
 */
#ifndef SHARDC_TEST_IMAGE_CASE_H
#define SHARDC_TEST_IMAGE_CASE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/format.h"
#include "program/gemm_blocks.h"
#include "program/lookup.h"
#include "support/hash.h"
#include "support/vec.h"

typedef struct image_case {
    sc_arena arena;
    sc_image image;
    sc_image_axis axes[2];
    SC_VEC(sc_image_buffer) buffers;
    SC_VEC(sc_image_state) states;
    SC_VEC(sc_image_kernel) kernels;
    SC_VEC(sc_gemm) gemms;
    SC_VEC(sc_image_collective) collectives;
    SC_VEC(sc_image_group) groups;
    SC_VEC(sc_image_boundary) boundaries;
    SC_VEC(sc_image_message) messages;
    SC_VEC(sc_image_func) funcs;
    SC_VEC(sc_image_call) schedule;
    SC_VEC(sc_image_instr) instrs; /* of the function being written */
    SC_VEC(sc_image_value) inputs, outputs;
} image_case;

static inline void image_no_memory(void *user)
{
    (void)user;
    fputs("no memory\n", stderr);
    abort();
}

/* Ranks are dp major, tp minor. */
static inline void image_begin(image_case *c, uint64_t dp, uint64_t tp)
{
    memset(c, 0, sizeof *c);
    sc_arena_init(&c->arena, image_no_memory, NULL);
    c->axes[0] = (sc_image_axis){"dp", dp};
    c->axes[1] = (sc_image_axis){"tp", tp};
    c->image = (sc_image){
        .target = "cpu", .axis_count = 2, .axes = c->axes, .ranks = dp * tp, .facts = "{}"};
}

static inline sc_image_digit image_digit(const image_case *c, const char *axis)
{
    bool is_tp = strcmp(axis, "tp") == 0;
    return (sc_image_digit){is_tp ? 1 : c->axes[1].size, c->axes[is_tp].size};
}

static inline sc_image_terms image_terms(image_case *c, const char *axis, int64_t times)
{
    sc_image_digit digit = image_digit(c, axis);
    sc_image_terms terms = {1, sc_arena_array(&c->arena, 1, sizeof *terms.terms)};
    terms.terms[0] = (sc_image_term){digit.divide, digit.modulo, times, 0};
    return terms;
}

/* "f32[B=8@dp, D=6]", "f32[] sum@tp": what axes the dims are split over, what is partial over
 * which. */
static inline sc_image_tensor image_tensor(image_case *c, const char *text)
{
    sc_image_tensor tensor = {0};
    char dtype[8], name[16], axis[8], reduce[8];
    bool used[2] = {false, false};
    int length = 0;
    long long size;
    if (sscanf(text, "%7[a-z0-9]%n", dtype, &length) != 1)
        abort();
    tensor.dtype = sc_dtype_find(dtype);
    for (text += length + 1; sscanf(text, " %15[A-Z]=%lld%n", name, &size, &length) == 2;
         text += *text == ',') {
        sc_image_dim *dim = &tensor.dims[tensor.rank++];
        *dim = (sc_image_dim){
            .name = sc_arena_printf(&c->arena, "%s", name), .size = size, .local = size};
        text += length;
        if (sscanf(text, "@%7[a-z]%n", axis, &length) != 1)
            continue;
        int64_t shards = (int64_t)image_digit(c, axis).modulo;
        dim->local = (size + shards - 1) / shards;
        dim->first = image_terms(c, axis, dim->local);
        used[strcmp(axis, "tp") == 0] = true;
        text += length;
    }
    if (sscanf(text, "] %7[a-z]@%7[a-z]", reduce, axis) == 2) {
        while (strcmp(sc_image_reduce_names[tensor.partial], reduce) != 0)
            tensor.partial++;
        tensor.part = image_terms(c, axis, 1);
        used[strcmp(axis, "tp") == 0] = true;
    }
    tensor.replica.terms = sc_arena_array(&c->arena, 2, sizeof *tensor.replica.terms);
    for (int i = 0; i < 2; i++) {
        sc_image_digit digit = image_digit(c, c->axes[i].name);
        if (!used[i] && !(c->image.pipeline.count > 0 && c->image.pipeline.axis == (uint32_t)i))
            tensor.replica.terms[tensor.replica.count++] =
                (sc_image_term){digit.divide, digit.modulo, 1, 0};
    }
    return tensor;
}

static inline uint32_t image_buffer(image_case *c, sc_image_buffer_kind kind, int64_t bytes,
                                    const char *name)
{
    *sc_vec_push(&c->arena, &c->buffers) =
        (sc_image_buffer){kind, bytes, c->image.arena_bytes, 1, name, false};
    c->image.arena_bytes += (bytes + SC_IMAGE_ALIGN - 1) / SC_IMAGE_ALIGN * SC_IMAGE_ALIGN;
    return c->buffers.count - 1;
}

/* Returns the buffer. */
static inline uint32_t image_state(image_case *c, sc_state_kind kind, const char *path,
                                   const char *tensor, sc_init_kind init, double a, double b)
{
    sc_image_state state = {.path = path,
                            .kind = (uint8_t)kind,
                            .init = (uint8_t)init,
                            .init_args = {a, b},
                            .master = SC_NONE};
    state.tensor = image_tensor(c, tensor);
    state.buffer = image_buffer(c, kind == SC_STATE_PARAM ? SC_BUFFER_PARAM : SC_BUFFER_OTHER_STATE,
                                sc_image_tensor_bytes(&state.tensor), path);
    *sc_vec_push(&c->arena, &c->states) = state;
    return state.buffer;
}

/* Returns the buffer. */
static inline uint32_t image_input(image_case *c, const char *name, const char *tensor,
                                   int32_t batch_dim)
{
    sc_image_value value = {
        .name = name, .tensor = image_tensor(c, tensor), .batch_dim = batch_dim};
    value.buffer = image_buffer(c, SC_BUFFER_ACT, sc_image_tensor_bytes(&value.tensor), name);
    *sc_vec_push(&c->arena, &c->inputs) = value;
    return value.buffer;
}

static inline void image_output(image_case *c, const char *name, const char *tensor,
                                uint32_t buffer)
{
    *sc_vec_push(&c->arena, &c->outputs) = (sc_image_value){
        .name = name, .tensor = image_tensor(c, tensor), .buffer = buffer, .batch_dim = -1};
}

/* `access`: a letter an argument, i, o or b(oth), each of as many bytes as `bytes` says. */
static inline uint32_t image_kernel(image_case *c, const char *symbol, const char *access,
                                    const int64_t *bytes, uint32_t param_count, const char *check)
{
    uint32_t count = (uint32_t)strlen(access);
    sc_image_kernel kernel = {
        .symbol = symbol, .title = symbol, .arg_count = count, .param_count = param_count};
    kernel.args = sc_arena_array(&c->arena, count, sizeof *kernel.args);
    for (uint32_t i = 0; i < count; i++)
        kernel.args[i] = (sc_image_arg){.bytes = bytes[i],
                                        .moved = bytes[i],
                                        .access = access[i] == 'i'   ? SC_ACCESS_IN
                                                  : access[i] == 'o' ? SC_ACCESS_OUT
                                                                     : SC_ACCESS_INOUT};
    kernel.check_count = check != NULL;
    kernel.checks = sc_arena_array(&c->arena, 1, sizeof *kernel.checks);
    kernel.checks[0] = check;
    *sc_vec_push(&c->arena, &c->kernels) = kernel;
    return c->kernels.count - 1;
}

/* c[m, n] = a[m, k] b[k, n], all dense, in f32. */
static inline uint32_t image_gemm(image_case *c, int64_t m, int64_t n, int64_t k)
{
    sc_gemm gemm = {.dim_count = 3,
                    .dims = {{.size = m, .role = SC_GEMM_M, .strides = {k, 0, n}},
                             {.size = n, .role = SC_GEMM_N, .strides = {0, 1, 1}},
                             {.size = k, .role = SC_GEMM_K, .strides = {1, n, 0}}},
                    .dtypes = {SC_DTYPE_f32, SC_DTYPE_f32, SC_DTYPE_f32},
                    .sum = SC_DTYPE_f32};
    *sc_vec_push(&c->arena, &c->gemms) = gemm;
    return c->gemms.count - 1;
}

static inline uint32_t image_group(image_case *c, const char *first, const char *second)
{
    sc_image_group group = {.digits = sc_arena_array(&c->arena, 2, sizeof *group.digits),
                            .axes = first};
    group.digits[group.digit_count++] = image_digit(c, first);
    if (second != NULL)
        group.digits[group.digit_count++] = image_digit(c, second);
    *sc_vec_push(&c->arena, &c->groups) = group;
    return c->groups.count - 1;
}

/* Of one part. */
static inline uint32_t image_collective(image_case *c, sc_image_collective_kind kind,
                                        sc_image_reduce reduce, uint32_t group, sc_dtype dtype,
                                        int64_t count)
{
    sc_image_collective made = {.kind = kind,
                                .reduce = reduce,
                                .group = group,
                                .part_count = 1,
                                .why = "it is wanted",
                                .axes = "some"};
    made.dtypes = sc_arena_array(&c->arena, 1, sizeof *made.dtypes);
    made.counts = sc_arena_array(&c->arena, 1, sizeof *made.counts);
    made.dtypes[0] = dtype;
    made.counts[0] = count;
    *sc_vec_push(&c->arena, &c->collectives) = made;
    return c->collectives.count - 1;
}

/* Arguments are whole buffers. Returns the instruction's index. */
static inline uint32_t image_instr(image_case *c, sc_image_instr_kind kind, uint32_t index,
                                   uint32_t arg_count, const uint32_t *args)
{
    sc_image_instr instr = {.kind = kind,
                            .index = index,
                            .arg_count = arg_count,
                            .where = "layers[0]",
                            .phase = "forward"};
    instr.args = sc_arena_array(&c->arena, arg_count, sizeof *instr.args);
    for (uint32_t i = 0; i < arg_count; i++)
        instr.args[i].buffer = args[i];
    *sc_vec_push(&c->arena, &c->instrs) = instr;
    return c->instrs.count - 1;
}

/* c[m, n] = a[m, k] b[k, n] of whole buffers, with scratch of its own. Returns the instruction's
 * index. */
static inline uint32_t image_multiply(image_case *c, int64_t m, int64_t n, int64_t k, uint32_t a,
                                      uint32_t b, uint32_t product)
{
    uint32_t gemm = image_gemm(c, m, n, k);
    int64_t scratch = sc_image_gemm_scratch(c->image.target, &c->gemms.data[gemm]);
    uint32_t args[4] = {a, b, product,
                        scratch > 0 ? image_buffer(c, SC_BUFFER_WORKSPACE, scratch, "scratch") : 0};
    return image_instr(c, SC_INSTR_GEMM, gemm, scratch > 0 ? 4 : 3, args);
}

/* For the newest instruction. */
static inline void image_param(image_case *c, sc_image_param param)
{
    sc_image_instr *instr = &c->instrs.data[c->instrs.count - 1];
    instr->params = sc_arena_grow(&c->arena, instr->params, instr->param_count * sizeof param,
                                  (instr->param_count + 1) * sizeof param);
    instr->params[instr->param_count++] = param;
}

/* Starts it and waits. */
static inline void image_move(image_case *c, uint32_t collective, uint32_t source,
                              uint32_t destination)
{
    uint32_t start =
        image_instr(c, SC_INSTR_COLLECTIVE, collective, 2, (uint32_t[]){source, destination});
    c->instrs.data[start].stream = 1;
    image_instr(c, SC_INSTR_FINISH, start, 0, NULL);
}

/* Of one part. Boundaries are added in their order. */
static inline uint32_t image_boundary(image_case *c, bool is_receive, uint32_t peer,
                                      uint32_t number, uint32_t slots)
{
    *sc_vec_push(&c->arena, &c->boundaries) = (sc_image_boundary){is_receive, peer, number, slots};
    return c->boundaries.count - 1;
}

static inline uint32_t image_message(image_case *c, uint32_t boundary, sc_dtype dtype,
                                     int64_t count)
{
    sc_image_message made = {.boundary = boundary, .part_count = 1, .why = "it crosses"};
    made.dtypes = sc_arena_array(&c->arena, 1, sizeof *made.dtypes);
    made.counts = sc_arena_array(&c->arena, 1, sizeof *made.counts);
    made.dtypes[0] = dtype;
    made.counts[0] = count;
    *sc_vec_push(&c->arena, &c->messages) = made;
    return c->messages.count - 1;
}

/* What was written since the last one is the function. */
static inline uint32_t image_func(image_case *c, const char *name)
{
    sc_image_func func = {.name = name,
                          .instr_count = c->instrs.count,
                          .input_count = c->inputs.count,
                          .output_count = c->outputs.count,
                          .instrs = c->instrs.data,
                          .inputs = c->inputs.data,
                          .outputs = c->outputs.data};
    *sc_vec_push(&c->arena, &c->funcs) = func;
    memset(&c->instrs, 0, sizeof c->instrs);
    memset(&c->inputs, 0, sizeof c->inputs);
    memset(&c->outputs, 0, sizeof c->outputs);
    return c->funcs.count - 1;
}

static inline void image_call(image_case *c, uint32_t func, int32_t micro_batch)
{
    *sc_vec_push(&c->arena, &c->schedule) = (sc_image_call){func, micro_batch};
}

static inline sc_image *image_end(image_case *c)
{
    sc_image *image = &c->image;
#define GIVE(list, list_count)                                                                     \
    image->list = c->list.data;                                                                    \
    image->list_count = c->list.count
    GIVE(buffers, buffer_count);
    GIVE(states, state_count);
    GIVE(kernels, kernel_count);
    GIVE(gemms, gemm_count);
    GIVE(collectives, collective_count);
    GIVE(groups, group_count);
    GIVE(boundaries, boundary_count);
    GIVE(messages, message_count);
    GIVE(funcs, func_count);
    image->schedule = c->schedule.data;
    image->call_count = c->schedule.count;
#undef GIVE
    return image;
}

#endif
