/* A program with a function for each collective and dtype, of all its ranks, and data for them. */
#ifndef SHARDC_TEST_MOVING_CASE_H
#define SHARDC_TEST_MOVING_CASE_H

#include "test/unit/helpers/cuda_case.h"

typedef struct moving {
    sc_image_collective_kind kind;
    sc_image_reduce reduce;
    bool is_in_place;
} moving;

static const moving movings[] = {
    {SC_IMAGE_ALL_GATHER, SC_IMAGE_WHOLE, false},   {SC_IMAGE_ALL_TO_ALL, SC_IMAGE_WHOLE, false},
    {SC_IMAGE_PERMUTE, SC_IMAGE_WHOLE, false},      {SC_IMAGE_BROADCAST, SC_IMAGE_WHOLE, false},
    {SC_IMAGE_BROADCAST, SC_IMAGE_WHOLE, true},     {SC_IMAGE_REDUCE_SCATTER, SC_IMAGE_SUM, false},
    {SC_IMAGE_REDUCE_SCATTER, SC_IMAGE_MAX, false}, {SC_IMAGE_REDUCE_SCATTER, SC_IMAGE_MIN, false},
    {SC_IMAGE_ALL_REDUCE, SC_IMAGE_SUM, false},     {SC_IMAGE_ALL_REDUCE, SC_IMAGE_SUM, true},
    {SC_IMAGE_ALL_REDUCE, SC_IMAGE_MAX, true},      {SC_IMAGE_ALL_REDUCE, SC_IMAGE_MIN, true},
};
enum { MOVINGS = sizeof movings / sizeof *movings, MOST_RANKS = 8, PIECE = 37 };

/* Elements that a rank gives and gets. */
static inline void sizes_of(sc_image_collective_kind kind, int n, int *gives, int *gets)
{
    *gives = kind == SC_IMAGE_REDUCE_SCATTER || kind == SC_IMAGE_ALL_TO_ALL ? PIECE * n : PIECE;
    *gets = kind == SC_IMAGE_ALL_GATHER || kind == SC_IMAGE_ALL_TO_ALL ? PIECE * n : PIECE;
    if (kind == SC_IMAGE_ALL_REDUCE) /* several blocks, and parts of different sizes */
        *gives = *gets = 2603;
}

/* A function for each dtype and way to move. */
static inline shardc_executable *moving_program(image_case *c, bool is_cuda, int n)
{
    image_begin(c, 1, (uint64_t)n);
    c->image.target = is_cuda ? "cuda:sm_80" : "cpu";
    uint32_t all = image_group(c, "tp", NULL);
    for (sc_dtype dtype = 0; dtype < SC_DTYPE_COUNT; dtype++) {
        for (int m = 0; m < MOVINGS; m++) {
            int gives, gets;
            sizes_of(movings[m].kind, n, &gives, &gets);
            uint32_t move = image_collective(c, movings[m].kind, movings[m].reduce, all, dtype,
                                             gives > gets ? gives : gets);
            if (movings[m].kind == SC_IMAGE_PERMUTE) {
                sc_image_collective *ring = &c->collectives.data[move];
                ring->source_count = (uint32_t)n;
                ring->sources = sc_arena_array(&c->arena, (size_t)n, sizeof *ring->sources);
                for (int i = 0; i < n; i++)
                    ring->sources[i] = (uint32_t)(i + 1) % (uint32_t)n;
            }
            char *from =
                sc_arena_printf(&c->arena, "%s[T=%d@tp, K=%d]", sc_dtypes[dtype].name, n, gives);
            char *to =
                sc_arena_printf(&c->arena, "%s[T=%d@tp, K=%d]", sc_dtypes[dtype].name, n, gets);
            uint32_t x = image_input(c, "x", from, -1);
            uint32_t y = movings[m].is_in_place
                             ? x
                             : image_buffer(c, SC_BUFFER_COMM, gets * sc_dtypes[dtype].bytes, "y");
            image_move(c, move, x, y);
            image_output(c, "y", to, y);
            image_func(c, sc_arena_printf(&c->arena, "%s_%d", sc_dtypes[dtype].name, m));
        }
    }
    if (is_cuda)
        cuda_object(c, "", "cubin", 80);
    return image_executable(c);
}

static inline bool is_nan(sc_dtype dtype, const void *at)
{
    float f;
    double d;
    uint16_t half;
    switch (dtype) {
    case SC_DTYPE_f32:
        memcpy(&f, at, sizeof f);
        return f != f;
    case SC_DTYPE_f64:
        memcpy(&d, at, sizeof d);
        return d != d;
    case SC_DTYPE_bf16:
        memcpy(&half, at, sizeof half);
        return (half & 0x7fff) > 0x7f80;
    case SC_DTYPE_f16:
        memcpy(&half, at, sizeof half);
        return (half & 0x7fff) > 0x7c00;
    default:
        return false;
    }
}

/* All bits at random; one element in four is moderate, so that sums are numbers. */
static inline void fill(sc_dtype dtype, uint8_t *x, size_t count, uint64_t *random)
{
    for (size_t i = 0; i < count; i++) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        uint64_t bits = *random >> 7 ^ *random << 40;
        float f = (float)(int64_t)(*random >> 33) * 0x1p-20f;
        double d = (double)f;
        if (dtype == SC_DTYPE_bool)
            bits = bits >> 20 & 1;
        else if (dtype == SC_DTYPE_f32 && i % 4 != 0)
            memcpy(&bits, &f, sizeof f);
        else if (dtype == SC_DTYPE_f64 && i % 4 != 0)
            memcpy(&bits, &d, sizeof d);
        else if (i % 4 != 0) /* of bf16 and f16: exponents about that of 1 */
            bits = dtype == SC_DTYPE_bf16  ? (bits & 0x80ff) | 0x3f00
                   : dtype == SC_DTYPE_f16 ? (bits & 0x87ff) | 0x3800
                                           : bits;
        memcpy(x + i * sc_dtypes[dtype].bytes, &bits, sc_dtypes[dtype].bytes);
    }
}

/* The element whose bits differ, other than from NaN to NaN; `count`: there is none. */
static inline size_t first_difference(sc_dtype dtype, const uint8_t *a, const uint8_t *b,
                                      size_t count)
{
    size_t size = sc_dtypes[dtype].bytes, i = 0;
    while (i < count && (memcmp(a + i * size, b + i * size, size) == 0 ||
                         (is_nan(dtype, a + i * size) && is_nan(dtype, b + i * size))))
        i++;
    return i;
}

#endif
