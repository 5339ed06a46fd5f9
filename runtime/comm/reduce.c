/* Reduction loops that compilers vectorize. Arrays are processed in blocks that fit the L1 cache:
 * the partial result stays there while each source is read once. */
#include "runtime/comm/reduce.h"

#include <string.h>

#include "support/float16.h"

enum { BLOCK = 2048 /* elements */ };

/* destination = a op b; all three may be the same array. */
/* NOLINTBEGIN(bugprone-macro-parentheses): `type` is declared with here */
#define LOOP(name, type, expression)                                                               \
    static void name(type *destination, const type *a, const type *b, int64_t count)               \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                      \
            type x = a[i], y = b[i];                                                               \
            destination[i] = (type)(expression);                                                   \
        }                                                                                          \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

/* y is the later term. Signed sums are computed in unsigned types, so that they wrap. */
#define LOOPS(type, sum_type)                                                                      \
    LOOP(type##_sum, type, (sum_type)x + (sum_type)y)                                              \
    LOOP(type##_max, type, y > x || y != y ? y : x)                                                \
    LOOP(type##_min, type, y < x || y != y ? y : x)

LOOPS(float, float)
LOOPS(double, double)
LOOPS(int32_t, uint32_t)
LOOPS(int64_t, uint64_t)
LOOPS(uint8_t, uint8_t)
LOOP(bool_or, uint8_t, (x != 0) | (y != 0))
LOOP(bool_and, uint8_t, (x != 0) & (y != 0))

#define CALL(type, reduce)                                                                         \
    switch (reduce) {                                                                              \
    case SC_COMM_MAX:                                                                              \
        type##_max(destination, a, b, count);                                                      \
        return;                                                                                    \
    case SC_COMM_MIN:                                                                              \
        type##_min(destination, a, b, count);                                                      \
        return;                                                                                    \
    default:                                                                                       \
        type##_sum(destination, a, b, count);                                                      \
        return;                                                                                    \
    }

/* `dtype` is the accumulator's: never bf16 or f16. */
static void combine(sc_dtype dtype, sc_comm_reduce reduce, void *destination, const void *a,
                    const void *b, int64_t count)
{
    switch (dtype) {
    case SC_DTYPE_f64:
        CALL(double, reduce)
    case SC_DTYPE_i32:
        CALL(int32_t, reduce)
    case SC_DTYPE_i64:
        CALL(int64_t, reduce)
    case SC_DTYPE_u8:
        CALL(uint8_t, reduce)
    case SC_DTYPE_bool:
        if (reduce == SC_COMM_MIN)
            bool_and(destination, a, b, count);
        else
            bool_or(destination, a, b, count);
        return;
    default:
        CALL(float, reduce)
    }
}

static void widen(sc_dtype dtype, float *to, const uint16_t *from, int64_t count)
{
    if (dtype == SC_DTYPE_bf16) {
        for (int64_t i = 0; i < count; i++)
            to[i] = sc_f32_of_bf16(from[i]);
    } else {
        for (int64_t i = 0; i < count; i++)
            to[i] = sc_f32_of_f16(from[i]);
    }
}

static void narrow(sc_dtype dtype, uint16_t *to, const float *from, int64_t count)
{
    if (dtype == SC_DTYPE_bf16) {
        for (int64_t i = 0; i < count; i++)
            to[i] = sc_bf16_of_f32(from[i]);
    } else {
        for (int64_t i = 0; i < count; i++)
            to[i] = sc_f16_of_f32(from[i]);
    }
}

static void reduce_half(sc_dtype dtype, sc_comm_reduce reduce, void *destination,
                        const void *const *sources, uint32_t source_count, int64_t first,
                        int64_t count)
{
    float sum[BLOCK], term[BLOCK];
    widen(dtype, sum, (const uint16_t *)sources[0] + first, count);
    for (uint32_t i = 1; i < source_count; i++) {
        widen(dtype, term, (const uint16_t *)sources[i] + first, count);
        combine(SC_DTYPE_f32, reduce, sum, sum, term, count);
    }
    narrow(dtype, (uint16_t *)destination + first, sum, count);
}

/* Only the last term's loop writes the destination, which may be a source that has been read by
 * then. */
static void reduce_whole(sc_dtype dtype, sc_comm_reduce reduce, void *destination,
                         const void *const *sources, uint32_t source_count, int64_t first,
                         int64_t count)
{
    _Alignas(64) char sum[BLOCK * 8];
    size_t at = (size_t)first * sc_dtypes[dtype].bytes;
    const void *left = (const char *)sources[0] + at;
    for (uint32_t i = 1; i < source_count; i++) {
        void *to = i == source_count - 1 ? (char *)destination + at : sum;
        combine(dtype, reduce, to, left, (const char *)sources[i] + at, count);
        left = sum;
    }
}

void sc_comm_reduce_arrays(sc_dtype dtype, sc_comm_reduce reduce, void *destination,
                           const void *const *sources, uint32_t source_count, int64_t count)
{
    if (source_count == 1) {
        if (destination != sources[0])
            memcpy(destination, sources[0], (size_t)count * sc_dtypes[dtype].bytes);
        return;
    }
    for (int64_t first = 0; first < count; first += BLOCK) {
        int64_t block = count - first < BLOCK ? count - first : BLOCK;
        if (dtype == SC_DTYPE_bf16 || dtype == SC_DTYPE_f16)
            reduce_half(dtype, reduce, destination, sources, source_count, first, block);
        else
            reduce_whole(dtype, reduce, destination, sources, source_count, first, block);
    }
}
