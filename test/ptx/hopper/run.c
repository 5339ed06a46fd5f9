/* run PTX SWIZZLE A_M_MAJOR B_K_MAJOR: matmul.cu's kernel, as PTX, on the interpreter, with random
 * matrices whose sizes no tile divides: under every schedule, with copies that arrive at once and
 * as late as allowed. Prints a report and fails, or says how much of C's rounding C is off. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/float16.h"
#include "test/ptx/ptx.h"
#include "test/ptx/tensor_map.h"

enum { M = 150, N = 200, K = 296, TILE = 128, SHARED = 2 * 32768 + 16 * 2048 + 64 };

static uint16_t a[M * K], b[K * N];

static void fill(uint16_t *to, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        to[i] = sc_bf16_of_f32((float)(seed >> 8) * 0x1p-23f - 1);
    }
}

static sc_ptx_tensor_map map_of(const void *data, uint64_t columns, uint64_t stride, uint64_t rows,
                                uint16_t across, uint16_t deep, uint8_t swizzle)
{
    sc_ptx_tensor_map map = {.magic = SC_PTX_TENSOR_MAGIC,
                             .rank = 2,
                             .element_bytes = 2,
                             .swizzle = swizzle,
                             .address = (uint64_t)(uintptr_t)data,
                             .sizes = {columns, rows},
                             .strides = {stride * 2},
                             .box = {across, deep}};
    const char *why = sc_ptx_tensor_map_check(&map);
    if (why != NULL) {
        fprintf(stderr, "%s\n", why);
        exit(2);
    }
    return map;
}

/* Rows of a multiple of 16 bytes: a copy with room behind each. */
static uint64_t padded(uint64_t columns)
{
    return (columns + 7) / 8 * 8;
}

static uint16_t *matrix(sc_machine_memory *memory, const uint16_t *from, uint64_t rows,
                        uint64_t columns, bool transposed, const char *name)
{
    uint64_t deep = transposed ? columns : rows, across = transposed ? rows : columns,
             stride = padded(across);
    uint16_t *to = sc_machine_alloc(memory, deep * stride * 2, SC_MACHINE_AT_END, name);
    for (uint64_t r = 0; r < deep && from != NULL; r++) {
        for (uint64_t c = 0; c < stride; c++)
            to[r * stride + c] = c >= across  ? 0x7fc1
                                 : transposed ? from[c * columns + r]
                                              : from[r * columns + c];
    }
    return to;
}

/* The largest error over what rounding to bf16 and sums of floats may make; NaN: it was not
 * written. */
static double error_of(const uint16_t *c)
{
    double worst = 0;
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            double sum = 0, size = 0;
            for (int k = 0; k < K; k++) {
                double x =
                    (double)sc_f32_of_bf16(a[m * K + k]) * (double)sc_f32_of_bf16(b[k * N + n]);
                sum += x;
                size += fabs(x);
            }
            double is = (double)sc_f32_of_bf16(c[m * N + n]),
                   off = fabs(is - sum) / (fabs(sum) * 0x1p-8 + size * 0x1p-18);
            if (!(off <= worst))
                worst = off;
        }
    }
    return worst;
}

int main(int argc, char **argv)
{
    static char text[1 << 22];
    sc_machine_report report;
    FILE *file = argc == 5 ? fopen(argv[1], "rb") : NULL;
    if (file == NULL)
        return 2;
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    uint8_t swizzle = (uint8_t)strtol(argv[2], NULL, 10);
    bool a_m_major = strtol(argv[3], NULL, 10) != 0, b_k_major = strtol(argv[4], NULL, 10) != 0;
    uint16_t width = swizzle == 0 ? 8 : swizzle / 2;
    fill(a, M * K, 1);
    fill(b, K * N, 2);
    sc_ptx_module *module = sc_ptx_load(text, length, &report);
    double worst = 0;
    for (int run = 0; module != NULL && run < 2 * SC_MACHINE_SCHEDULE_COUNT; run++) {
        sc_machine_memory *memory = sc_machine_memory_new();
        uint16_t *pa = matrix(memory, a, M, K, a_m_major, "A"),
                 *pb = matrix(memory, b, K, N, b_k_major, "B"),
                 *pc = matrix(memory, NULL, M, N, false, "C");
        sc_machine_read_only(memory, pa, true);
        sc_machine_read_only(memory, pb, true);
        sc_ptx_tensor_map maps[3] = {a_m_major ? map_of(pa, M, padded(M), K, width, 64, swizzle)
                                               : map_of(pa, K, padded(K), M, width, TILE, swizzle),
                                     b_k_major ? map_of(pb, K, padded(K), N, width, TILE, swizzle)
                                               : map_of(pb, N, padded(N), K, width, 64, swizzle),
                                     map_of(pc, N, padded(N), M, 64, 16, 0)};
        _Alignas(64) char bytes[3][SC_PTX_TENSOR_MAP_BYTES] = {{0}};
        for (int k = 0; k < 3; k++)
            memcpy(bytes[k], &maps[k], sizeof maps[k]);
        int depth = K;
        void *params[] = {bytes[0], bytes[1], bytes[2], &depth};
        sc_machine_launch launch = {.entry = "matmul",
                                    .blocks = 4,
                                    .threads = 384,
                                    .shared_bytes = SHARED,
                                    .params = params,
                                    .memory = memory,
                                    .schedule = (sc_machine_schedule)(run / 2),
                                    .copies = (sc_machine_copies)(run % 2),
                                    .order = (sc_machine_order)(run / 2),
                                    .seed = 5};
        if (!sc_ptx_run(module, &launch, SC_PTX_EITHER, &report)) {
            printf("%s\n", report.text);
            return 1;
        }
        double off = error_of(pc);
        worst = off <= worst ? worst : off;
        sc_machine_memory_free(memory);
    }
    if (module == NULL)
        printf("%s\n", report.text);
    else
        printf("C is off by %.3f of its rounding\n", worst);
    sc_ptx_unload(module);
    return module == NULL || !(worst <= 1);
}
