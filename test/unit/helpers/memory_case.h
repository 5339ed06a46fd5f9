/* Programs for the memory planner's tests: buffers and instructions are added one after the other,
 * then the whole is planned. */
#ifndef SHARDC_TEST_MEMORY_CASE_H
#define SHARDC_TEST_MEMORY_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "codegen/memory/plan.h"
#include "support/vec.h"

typedef SC_VEC(sc_image_buffer) buffer_list;
typedef SC_VEC(sc_image_instr) instr_list;
typedef SC_VEC(uint32_t) numbers;

typedef struct program {
    sc_arena arena;
    uint64_t random;
    sc_image image;
    uint32_t wish_count; /* of `wishes`: that the planner is told */
    buffer_list buffers;
    SC_VEC(sc_image_kernel) kernels;
    SC_VEC(sc_gemm) gemms;
    SC_VEC(sc_image_collective) collectives;
    SC_VEC(sc_memory_wish) wishes;
    bool few_sizes;
    /* of the function being made: */
    instr_list instrs;
    numbers known;    /* buffers that hold something */
    numbers flying;   /* collectives in flight */
    numbers moved[2]; /* buffers that those read, that they write */
    uint32_t func;
} program;

static inline void out_of_memory(void *user)
{
    (void)user;
    abort();
}

static inline uint32_t draw(program *p, uint32_t below)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((p->random >> 33) % below);
}

static inline bool chance(program *p, uint32_t percent)
{
    return draw(p, 100) < percent;
}

static inline uint32_t new_buffer(program *p, sc_image_buffer_kind kind, int64_t bytes)
{
    const char *name = sc_arena_printf(&p->arena, "b%u", p->buffers.count);
    *sc_vec_push(&p->arena, &p->buffers) =
        (sc_image_buffer){.kind = kind, .bytes = bytes, .offset = -1, .copies = 1, .name = name};
    return p->buffers.count - 1;
}

typedef struct arguments {
    sc_image_ref refs[12];
    uint8_t access[12];
    uint32_t count;
} arguments;

static inline void give(arguments *args, uint32_t buffer, sc_image_access access)
{
    args->refs[args->count] = (sc_image_ref){buffer, 0};
    args->access[args->count++] = (uint8_t)access;
}

static inline void emit(program *p, sc_image_instr_kind kind, uint32_t index, const arguments *args)
{
    sc_image_ref *refs = sc_arena_array(&p->arena, args->count, sizeof *refs);
    memcpy(refs, args->refs, args->count * sizeof *refs);
    *sc_vec_push(&p->arena, &p->instrs) = (sc_image_instr){.kind = kind,
                                                           .stream = kind == SC_INSTR_COLLECTIVE,
                                                           .index = index,
                                                           .arg_count = args->count,
                                                           .args = refs,
                                                           .where = "here",
                                                           .phase = "forward"};
}

static inline void emit_kernel(program *p, const arguments *args)
{
    sc_image_arg *signature = sc_arena_array(&p->arena, args->count, sizeof *signature);
    for (uint32_t a = 0; a < args->count; a++)
        signature[a] = (sc_image_arg){.bytes = p->buffers.data[args->refs[a].buffer].bytes,
                                      .access = args->access[a]};
    *sc_vec_push(&p->arena, &p->kernels) =
        (sc_image_kernel){.symbol = "k", .title = "k", .arg_count = args->count, .args = signature};
    emit(p, SC_INSTR_KERNEL, p->kernels.count - 1, args);
}

static inline void finish_program(program *p)
{
    p->image.buffers = p->buffers.data;
    p->image.buffer_count = p->buffers.count;
    p->image.kernels = p->kernels.data;
    p->image.kernel_count = p->kernels.count;
    p->image.gemms = p->gemms.data;
    p->image.gemm_count = p->gemms.count;
    p->image.collectives = p->collectives.data;
    p->image.collective_count = p->collectives.count;
    p->wish_count = p->wishes.count;
}

static inline void begin_program(program *p, uint64_t seed)
{
    *p = (program){.random = seed * 0x9e3779b97f4a7c15u + 1};
    sc_arena_init(&p->arena, out_of_memory, NULL);
}

static inline void plan(program *p, sc_memory_plan *out)
{
    const char *error =
        sc_memory_plan_make(&p->arena, &p->image, p->wishes.data, p->wish_count, out);
    if (error != NULL)
        fail_msg("%s", error);
    error = sc_memory_plan_verify(&p->arena, &p->image, p->wishes.data, p->wish_count);
    if (error != NULL)
        fail_msg("%s", error);
}

#endif
