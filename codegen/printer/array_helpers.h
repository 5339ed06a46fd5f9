/* The functions that emitted C calls for arrays: sums of lanes, copies around the caches,
 * transposes. In sections, as program/kernel_helpers.h. */
#ifndef SHARDC_CODEGEN_PRINTER_ARRAY_HELPERS_H
#define SHARDC_CODEGEN_PRINTER_ARRAY_HELPERS_H
#pragma GCC system_header

/*@ lanes_f32: min_f32 max_f32 */
/* Reduced in the same order wherever it runs. */
static inline float sc_lane_f32(float x, float y, char how)
{
    return how == '+' ? x + y : how == '>' ? sc_max_f32(x, y) : sc_min_f32(x, y);
}

static inline __attribute__((always_inline)) float sc_lanes_f32(float *lanes, int count, char how)
{
#pragma omp simd
    for (int i = 0; i < (count == 32 ? 16 : 0); i++)
        lanes[i] = sc_lane_f32(lanes[i], lanes[i + 16], how);
#pragma omp simd
    for (int i = 0; i < (count == 32 ? 8 : 0); i++)
        lanes[i] = sc_lane_f32(lanes[i], lanes[i + 8], how);
#pragma omp simd
    for (int i = 0; i < 4; i++)
        lanes[i] = sc_lane_f32(lanes[i], lanes[i + 4], how);
    for (int i = 0; i < 2; i++)
        lanes[i] = sc_lane_f32(lanes[i], lanes[i + 2], how);
    return sc_lane_f32(lanes[0], lanes[1], how);
}

/*@ lanes_f64: min_f64 max_f64 */
/* Reduced in the same order wherever it runs. */
static inline double sc_lane_f64(double x, double y, char how)
{
    return how == '+' ? x + y : how == '>' ? sc_max_f64(x, y) : sc_min_f64(x, y);
}

static inline __attribute__((always_inline)) double sc_lanes_f64(double *lanes, int count, char how)
{
#pragma omp simd
    for (int i = 0; i < (count == 32 ? 16 : 0); i++)
        lanes[i] = sc_lane_f64(lanes[i], lanes[i + 16], how);
#pragma omp simd
    for (int i = 0; i < (count == 32 ? 8 : 0); i++)
        lanes[i] = sc_lane_f64(lanes[i], lanes[i + 8], how);
#pragma omp simd
    for (int i = 0; i < 4; i++)
        lanes[i] = sc_lane_f64(lanes[i], lanes[i + 4], how);
    for (int i = 0; i < 2; i++)
        lanes[i] = sc_lane_f64(lanes[i], lanes[i + 2], how);
    return sc_lane_f64(lanes[0], lanes[1], how);
}

/*@ lanes_i32: headers */
/* Reduced in the same order wherever it runs. */
static inline int32_t sc_lane_i32(int32_t x, int32_t y, char how)
{
    return how == '+' ? x + y : how == '>' ? (x > y ? x : y) : (x < y ? x : y);
}

static inline __attribute__((always_inline)) int32_t sc_lanes_i32(int32_t *lanes, int count,
                                                                  char how)
{
#pragma omp simd
    for (int i = 0; i < (count == 32 ? 16 : 0); i++)
        lanes[i] = sc_lane_i32(lanes[i], lanes[i + 16], how);
#pragma omp simd
    for (int i = 0; i < (count == 32 ? 8 : 0); i++)
        lanes[i] = sc_lane_i32(lanes[i], lanes[i + 8], how);
#pragma omp simd
    for (int i = 0; i < 4; i++)
        lanes[i] = sc_lane_i32(lanes[i], lanes[i + 4], how);
    for (int i = 0; i < 2; i++)
        lanes[i] = sc_lane_i32(lanes[i], lanes[i + 2], how);
    return sc_lane_i32(lanes[0], lanes[1], how);
}

/*@ lanes_i64: headers */
/* Reduced in the same order wherever it runs. */
static inline int64_t sc_lane_i64(int64_t x, int64_t y, char how)
{
    return how == '+' ? x + y : how == '>' ? (x > y ? x : y) : (x < y ? x : y);
}

static inline __attribute__((always_inline)) int64_t sc_lanes_i64(int64_t *lanes, int count,
                                                                  char how)
{
#pragma omp simd
    for (int i = 0; i < (count == 32 ? 16 : 0); i++)
        lanes[i] = sc_lane_i64(lanes[i], lanes[i + 16], how);
#pragma omp simd
    for (int i = 0; i < (count == 32 ? 8 : 0); i++)
        lanes[i] = sc_lane_i64(lanes[i], lanes[i + 8], how);
#pragma omp simd
    for (int i = 0; i < 4; i++)
        lanes[i] = sc_lane_i64(lanes[i], lanes[i + 4], how);
    for (int i = 0; i < 2; i++)
        lanes[i] = sc_lane_i64(lanes[i], lanes[i + 2], how);
    return sc_lane_i64(lanes[0], lanes[1], how);
}

/*@ stream: headers */
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
typedef long long sc_b64x4 __attribute__((vector_size(32), may_alias));
typedef long long sc_b64x4_anywhere __attribute__((vector_size(32), aligned(1), may_alias));

/* A line of memory that is written as a whole need not be read for it. */
static inline void sc_stream(void *to, const void *from, int64_t bytes)
{
    char *y = to;
    const char *x = from;
    int64_t head = (int64_t)(-(uintptr_t)y & 63), i = head < bytes ? head : bytes;
    __builtin_memcpy(y, x, (size_t)i);
    for (; i + 64 <= bytes; i += 64) {
        for (int half = 0; half < 64; half += 32) {
            sc_b64x4 line = *(const sc_b64x4_anywhere *)(x + i + half);
#if __has_builtin(__builtin_nontemporal_store)
            __builtin_nontemporal_store(line, (sc_b64x4 *)(y + i + half));
#elif defined __AVX__
            __builtin_ia32_movntdq256((sc_b64x4 *)(y + i + half), line);
#else
            *(sc_b64x4 *)(y + i + half) = line;
#endif
        }
    }
    __builtin_memcpy(y + i, x + i, (size_t)(bytes - i));
}

/* What other threads do next, they do behind these stores. */
static inline void sc_streamed(void)
{
#ifdef __SSE__
    __builtin_ia32_sfence();
#else
    __sync_synchronize();
#endif
}

/*@ transpose_b32: stream */
typedef uint32_t sc_b32 __attribute__((may_alias));
typedef uint32_t sc_b32x8 __attribute__((vector_size(32), aligned(4), may_alias));

/* 8 rows of 8: pairs, pairs of pairs, halves. */
static inline void sc_transpose_b32_8(const sc_b32 *from, int64_t from_row, sc_b32 *to,
                                      int64_t to_row)
{
    sc_b32x8 x[8], y[8];
    for (int i = 0; i < 8; i++)
        x[i] = *(const sc_b32x8 *)(from + i * from_row);
    for (int i = 0; i < 8; i += 2) {
        y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        for (int j = 0; j < 2; j++) {
            x[i + 2 * j] =
                __builtin_shufflevector(y[i + j], y[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            x[i + 2 * j + 1] =
                __builtin_shufflevector(y[i + j], y[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    for (int i = 0; i < 4; i++) {
        *(sc_b32x8 *)(to + i * to_row) =
            __builtin_shufflevector(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(sc_b32x8 *)(to + (i + 4) * to_row) =
            __builtin_shufflevector(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* In squares of 8; later rows are fetched meanwhile, at the end those of the columns that are
 * likely to be next. */
static inline void sc_transpose_b32(const void *from, int64_t from_row, void *to, int64_t to_row,
                                    int64_t rows, int64_t columns)
{
    const sc_b32 *x = from;
    sc_b32 *y = to;
    for (int64_t r = 0; r < rows; r += 8) {
        const sc_b32 *later =
            x + (r + 16 < rows ? (r + 16) * from_row : (r + 16 - rows) * from_row + columns);
        for (int64_t c = 0; c < columns; c += 8) {
            for (int64_t i = 0; c % (64 / (int64_t)sizeof *x) == 0 && i < 8; i++)
                __builtin_prefetch(later + i * from_row + c);
            if (r + 8 <= rows && c + 8 <= columns) {
                sc_transpose_b32_8(x + r * from_row + c, from_row, y + c * to_row + r, to_row);
                continue;
            }
            for (int64_t j = c; j < c + 8 && j < columns; j++)
                for (int64_t i = r; i < r + 8 && i < rows; i++)
                    y[j * to_row + i] = x[i * from_row + j];
        }
    }
}

/* The same; what it writes goes around the caches. */
static inline void sc_transpose_out_b32(const void *from, int64_t from_row, void *to,
                                        int64_t to_row, int64_t rows, int64_t columns)
{
    sc_b32 strip[8 * 256];
    for (int64_t r = 0; r < rows; r += 256) {
        int64_t length = rows - r < 256 ? rows - r : 256;
        for (int64_t c = 0; c < columns; c += 8) {
            int64_t width = columns - c < 8 ? columns - c : 8;
            sc_transpose_b32((const sc_b32 *)from + r * from_row + c, from_row, strip, 256, length,
                             width);
            for (int64_t i = 0; i < width; i++)
                sc_stream((sc_b32 *)to + (c + i) * to_row + r, strip + 256 * i,
                          length * (int64_t)sizeof *strip);
        }
    }
}

/*@ transpose_b16: stream */
typedef uint16_t sc_b16 __attribute__((may_alias));
typedef uint16_t sc_b16x8 __attribute__((vector_size(16), aligned(2), may_alias));

/* 8 rows of 8: thrice, each row of the upper half and one of the lower become two that take turns.
 */
static inline void sc_transpose_b16_8(const sc_b16 *from, int64_t from_row, sc_b16 *to,
                                      int64_t to_row)
{
    sc_b16x8 x[8], y[8];
    for (int i = 0; i < 8; i++)
        x[i] = *(const sc_b16x8 *)(from + i * from_row);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            y[2 * i] = __builtin_shufflevector(x[i], x[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        for (int i = 0; i < 8; i++)
            x[i] = y[i];
    }
    for (int i = 0; i < 8; i++)
        *(sc_b16x8 *)(to + i * to_row) = x[i];
}

/* As sc_transpose_b32. */
static inline void sc_transpose_b16(const void *from, int64_t from_row, void *to, int64_t to_row,
                                    int64_t rows, int64_t columns)
{
    const sc_b16 *x = from;
    sc_b16 *y = to;
    for (int64_t r = 0; r < rows; r += 8) {
        const sc_b16 *later =
            x + (r + 16 < rows ? (r + 16) * from_row : (r + 16 - rows) * from_row + columns);
        for (int64_t c = 0; c < columns; c += 8) {
            for (int64_t i = 0; c % (64 / (int64_t)sizeof *x) == 0 && i < 8; i++)
                __builtin_prefetch(later + i * from_row + c);
            if (r + 8 <= rows && c + 8 <= columns) {
                sc_transpose_b16_8(x + r * from_row + c, from_row, y + c * to_row + r, to_row);
                continue;
            }
            for (int64_t j = c; j < c + 8 && j < columns; j++)
                for (int64_t i = r; i < r + 8 && i < rows; i++)
                    y[j * to_row + i] = x[i * from_row + j];
        }
    }
}

/* The same; what it writes goes around the caches. */
static inline void sc_transpose_out_b16(const void *from, int64_t from_row, void *to,
                                        int64_t to_row, int64_t rows, int64_t columns)
{
    sc_b16 strip[8 * 256];
    for (int64_t r = 0; r < rows; r += 256) {
        int64_t length = rows - r < 256 ? rows - r : 256;
        for (int64_t c = 0; c < columns; c += 8) {
            int64_t width = columns - c < 8 ? columns - c : 8;
            sc_transpose_b16((const sc_b16 *)from + r * from_row + c, from_row, strip, 256, length,
                             width);
            for (int64_t i = 0; i < width; i++)
                sc_stream((sc_b16 *)to + (c + i) * to_row + r, strip + 256 * i,
                          length * (int64_t)sizeof *strip);
        }
    }
}

#endif
