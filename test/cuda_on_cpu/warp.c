/* What a warp does at once: each of the 32 lanes waits with its part, the last one's arrival does
 * it for all. */
#include <math.h>
#include <string.h>

#include "test/cuda_on_cpu/engine.h"

const char *sc_machine_what(int what)
{
    static const char *const names[] = {
        [SC_MACHINE_SYNC_WARP] = "sc_sync_warp",
        [SC_MACHINE_SHUFFLE] = "sc_shuffle",
        [SC_MACHINE_SHUFFLE_XOR] = "sc_shuffle_xor",
        [SC_MACHINE_SHUFFLE_UP] = "sc_shuffle_up",
        [SC_MACHINE_BALLOT] = "sc_ballot",
        [SC_MACHINE_LOAD_MATRICES] = "sc_load_matrices",
        [SC_MACHINE_LOAD_MATRICES_TRANSPOSED] = "sc_load_matrices_transposed",
        [SC_MACHINE_MMA_BF16] = "sc_mma_bf16",
        [SC_MACHINE_MMA_F16] = "sc_mma_f16",
    };
    return names[what];
}

/* A lane below the first keeps its own value when values go up. */
static void shuffle(sc_machine_block *b, int what, sc_machine_thread *lanes)
{
    uint64_t values[SC_MACHINE_WARP];
    for (int i = 0; i < SC_MACHINE_WARP; i++)
        values[i] = lanes[i].lane->value;
    for (int i = 0; i < SC_MACHINE_WARP; i++) {
        int argument = lanes[i].lane->argument;
        if (argument < 0 || argument >= SC_MACHINE_WARP)
            sc_machine_stop(b, lanes[i].line, "lane %d gives %s %d, which is no lane of a warp", i,
                            sc_machine_what(what), argument);
        int from = what == SC_MACHINE_SHUFFLE       ? argument
                   : what == SC_MACHINE_SHUFFLE_XOR ? (i ^ argument)
                                                    : i - argument;
        lanes[i].lane->value = values[from < 0 ? i : from];
    }
}

static void ballot(sc_machine_thread *lanes)
{
    uint64_t bits = 0;
    for (int i = 0; i < SC_MACHINE_WARP; i++)
        bits |= (lanes[i].lane->value & 1) << i;
    for (int i = 0; i < SC_MACHINE_WARP; i++)
        lanes[i].lane->value = bits;
}

/* PTX ISA, "ldmatrix": lane 8 i + j gives row j of matrix i; of each matrix, lane l gets the
 * elements 2 (l % 4) + {0, 1} of row l / 4, with .trans those of column l / 4. */
static void load_matrices(sc_machine_block *b, bool transposed, sc_machine_thread *lanes)
{
    uint16_t rows[SC_MACHINE_WARP][8];
    for (int i = 0; i < SC_MACHINE_WARP; i++)
        sc_machine_shared_read(b, &lanes[i], lanes[i].line, lanes[i].lane->row, rows[i], 16, 16);
    for (int i = 0; i < SC_MACHINE_WARP; i++) {
        int row = i / 4, column = i % 4 * 2;
        for (int matrix = 0; matrix < 4; matrix++) {
            uint16_t(*m)[8] = rows + (ptrdiff_t)8 * matrix;
            uint32_t low = transposed ? m[column][row] : m[row][column],
                     high = transposed ? m[column + 1][row] : m[row][column + 1];
            lanes[i].lane->r[matrix] = low | high << 16;
        }
    }
}

static float element(uint32_t pair, int half, bool is_bf16)
{
    uint32_t bits = pair >> (16 * half) & 0xffffu, wide = bits << 16;
    float value;
    if (is_bf16) {
        memcpy(&value, &wide, sizeof value);
        return value;
    }
    int exponent = (int)(bits >> 10 & 31u);
    float significand = (float)(bits & 0x3ffu);
    if (exponent == 31)
        value = significand > 0 ? NAN : INFINITY;
    else if (exponent == 0)
        value = significand * 0x1p-24f;
    else
        value = (significand + 1024.0f) * (float)(1 << exponent) * 0x1p-25f;
    return (bits & 0x8000u) != 0 ? -value : value;
}

/* PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": with group = lane / 4 and
 * place = lane % 4, a_i is of row group (+ 8 for i = 2, 3, 6, 7) and column 2 place + i % 2 (+ 8
 * from i = 4 on), b_i of row 2 place + i % 2 (+ 8 from i = 2 on) and column group, c_i of row group
 * (+ 8 from i = 2 on) and column 2 place + i % 2. Products of two such elements are exact in f32;
 * sums go on from c, in order. */
static void multiply(bool is_bf16, sc_machine_thread *lanes)
{
    float a[16][16], b[16][8], c[16][8];
    for (int l = 0; l < SC_MACHINE_WARP; l++) {
        const sc_machine_lane *lane = lanes[l].lane;
        int group = l / 4, place = l % 4;
        for (int i = 0; i < 8; i++)
            a[group + (i & 2 ? 8 : 0)][2 * place + (i & 1) + (i >= 4 ? 8 : 0)] =
                element(lane->r[i / 2], i & 1, is_bf16);
        for (int i = 0; i < 4; i++) {
            b[2 * place + (i & 1) + (i >= 2 ? 8 : 0)][group] =
                element(lane->b[i / 2], i & 1, is_bf16);
            c[group + (i >= 2 ? 8 : 0)][2 * place + (i & 1)] = lane->c[i];
        }
    }
    for (int row = 0; row < 16; row++) {
        for (int k = 0; k < 16; k++) {
            for (int column = 0; column < 8; column++)
                c[row][column] += a[row][k] * b[k][column];
        }
    }
    for (int l = 0; l < SC_MACHINE_WARP; l++) {
        for (int i = 0; i < 4; i++)
            lanes[l].lane->c[i] = c[l / 4 + (i >= 2 ? 8 : 0)][2 * (l % 4) + (i & 1)];
    }
}

void sc_machine_do_together(sc_machine_block *b, int what, sc_machine_thread *lanes)
{
    switch (what) {
    case SC_MACHINE_SYNC_WARP:
        b->warp[lanes->index / SC_MACHINE_WARP].epoch++;
        return;
    case SC_MACHINE_SHUFFLE:
    case SC_MACHINE_SHUFFLE_XOR:
    case SC_MACHINE_SHUFFLE_UP:
        shuffle(b, what, lanes);
        return;
    case SC_MACHINE_BALLOT:
        ballot(lanes);
        return;
    case SC_MACHINE_LOAD_MATRICES:
    case SC_MACHINE_LOAD_MATRICES_TRANSPOSED:
        load_matrices(b, what == SC_MACHINE_LOAD_MATRICES_TRANSPOSED, lanes);
        return;
    default:
        multiply(what == SC_MACHINE_MMA_BF16, lanes);
    }
}
